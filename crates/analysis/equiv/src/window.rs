//! What is asked and what is answered.

use std::sync::Arc;

use kiln_isa::{Reg, RegSet};
use kiln_program::{InsnId, Node, Object};
use kiln_verifier::{InsnFacts, StackSet};

use crate::answers::Answers;
use crate::concrete::Input;
use crate::record::WindowRecord;

/// A question: may `after` stand for `before`?
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// The original instructions, entered at the first: a straight line, or a region whose branches go forward or out.
    pub before: &'a [Node],
    /// What would replace them, likewise.
    pub after: &'a [Node],
    /// What is known just before the first instruction; `None`: nothing, all registers being readable.
    pub facts: Option<&'a InsnFacts>,
    /// Registers that may be read afterwards.
    pub live_after: RegSet,
    /// Bytes of the current stack frame that may be read afterwards.
    pub stack_live_after: StackSet,
    /// What may be read where a branch leaves the window; for a target that is not named, `live_after` and
    /// `stack_live_after` say it.
    pub exits: &'a [Exit],
    /// The object that the instructions refer to.
    pub object: &'a Object,
}

/// A place outside of a window that one of its branches goes to.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// The instruction there.
    pub target: InsnId,
    /// How many low bits of each register may be read from there on.
    pub bits: [u8; Reg::COUNT],
    /// Bytes of the current stack frame that may be.
    pub stack_live: StackSet,
}

/// How much may be spent on one question.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Concrete inputs to try first.
    pub tests: u32,
    /// Milliseconds for the solver, counted in its own steps: so many on an idle machine; 0: it is not asked.
    pub solver_ms: u32,
    /// Whether the proof carries its question as data, from which its query can be made.
    pub keep_query: bool,
    /// Where answers are kept and questions are written down.
    pub answers: Option<Arc<Answers>>,
    /// Whether whoever cuts windows should ask about all that it could: to measure what short windows are worth.
    pub whole: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { tests: 24, solver_ms: 50, keep_query: false, answers: None, whole: false }
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
