//! Lines of LLVM's text, with fresh names for values and blocks.

use std::fmt::Display;

/// The text of a function.
#[derive(Default)]
pub(super) struct Builder {
    text: String,
    names: usize,
}

/// A value, as the text names it: `%v3`, or a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Value(String);

impl Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value((number as i64).to_string())
    }
}

impl Builder {
    /// A line that gives no value.
    pub fn line(&mut self, line: impl Display) {
        self.text += &format!("  {line}\n");
    }

    /// A line outside of blocks.
    pub fn top(&mut self, line: impl Display) {
        self.text += &format!("{line}\n");
    }

    /// An instruction that gives a value.
    pub fn value(&mut self, expression: impl Display) -> Value {
        self.names += 1;
        let name = format!("%v{}", self.names);
        self.text += &format!("  {name} = {expression}\n");
        Value(name)
    }

    /// A new block's name.
    pub fn fresh(&mut self) -> String {
        self.names += 1;
        format!("b{}", self.names)
    }

    /// Begins a block; the one before must have ended.
    pub fn begin(&mut self, block: &str) {
        self.text += &format!("{block}:\n");
    }

    /// Ends a block.
    pub fn jump(&mut self, block: &str) {
        self.line(format_args!("br label %{block}"));
    }

    /// Ends a block with a choice.
    pub fn choose(&mut self, condition: &Value, yes: &str, no: &str) {
        self.line(format_args!("br i1 {condition}, label %{yes}, label %{no}"));
    }

    pub fn finish(self) -> String {
        self.text
    }
}
