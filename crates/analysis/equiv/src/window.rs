//! What is asked and what is answered.

use kiln_isa::RegSet;
use kiln_program::{Node, Object};
use kiln_verifier::{InsnFacts, StackSet};

use crate::concrete::Input;

/// A question: may `after` stand for `before`?
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// The original instructions, a straight line.
    pub before: &'a [Node],
    /// What would replace them, a straight line.
    pub after: &'a [Node],
    /// What is known just before the first instruction; `None`: nothing, all registers being readable.
    pub facts: Option<&'a InsnFacts>,
    /// Registers that may be read afterwards.
    pub live_after: RegSet,
    /// Bytes of the current stack frame that may be read afterwards.
    pub stack_live_after: StackSet,
    /// The object that the instructions refer to.
    pub object: &'a Object,
}

/// How much may be spent on one question.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Concrete inputs to try first.
    pub tests: u32,
    /// Milliseconds for the solver; 0: it is not asked.
    pub solver_ms: u32,
    /// Whether the proof carries its query as SMT-LIB 2 text (written without the normal form).
    pub keep_query: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { tests: 24, solver_ms: 50, keep_query: false }
    }
}

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
    /// The query as SMT-LIB 2 text: `unsat` means equal. Only where [`Limits::keep_query`] asked for it.
    pub query: Option<String>,
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
}

/// An input on which two windows differ.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The state before the windows.
    pub input: Input,
    /// What differs, in words.
    pub difference: String,
}
