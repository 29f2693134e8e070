//! The answer to a question.

use crate::concrete::Input;
use crate::window::record::WindowRecord;

/// The answer.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Equal: for every state that the facts allow, everything that is live afterwards is equal.
    Equal(Proof),
    /// Different: this input shows it, and a concrete run has confirmed it.
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
    /// The question, from which the query for other solvers is made; only with [`crate::Limits::keep_query`].
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
        /// How many outputs it compared; the others had the same normal form.
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
