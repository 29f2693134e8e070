//! What is answered.

use crate::concrete::Input;
use crate::window::record::WindowRecord;

/// The answer.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It may: for every state that the facts allow, whatever is live afterwards is the same.
    Equal(Proof),
    /// It may not, and this input shows it; the concrete run has confirmed it.
    Different(Box<Counterexample>),
    /// Not settled, and why.
    Unknown(String),
}

impl Verdict {
    /// Whether it is [`Verdict::Equal`].
    pub fn is_equal(&self) -> bool {
        matches!(self, Verdict::Equal(_))
    }

    /// Whether it is [`Verdict::Different`].
    pub fn is_different(&self) -> bool {
        matches!(self, Verdict::Different(_))
    }
}

/// Why two windows are equal.
#[derive(Clone, Debug)]
pub struct Proof {
    /// Who settled it.
    pub method: Method,
    /// The question, and with it the query for other solvers. Only where [`Limits::keep_query`] asked for it.
    pub record: Option<Box<WindowRecord>>,
    /// Microseconds for the whole question.
    pub micros: u64,
}

/// Who settled a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Both windows have the same normal form.
    Normalized,
    /// The solver found no difference.
    Smt {
        /// How many outputs it had to compare; the others had the same normal form.
        outputs: u32,
    },
    /// It is an instance of a rule that was proved for all operands.
    Rule,
}

/// An input on which two windows differ.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The state before the windows.
    pub input: Input,
    /// What differs, in words.
    pub difference: String,
}
