//! How verification fails: rejected, unsupported, or a limit.

use kiln_isa::Reg;
use kiln_program::{Clean, InsnId};

use crate::reason::Reason;
use crate::rejection::{Case, Cause, Rejection};

/// Why a program was not verified.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The program is unsafe, or breaks a rule of its program type.
    #[error("{0}")]
    Rejected(Box<Rejection>),
    /// The program may be safe, but this verifier does not model what it does.
    #[error("not supported: {} (instruction {})", Clean(what), insn.0)]
    Unsupported {
        /// The instruction.
        insn: InsnId,
        /// What is not modelled.
        what: String,
    },
    /// A limit of the verifier was reached before it had an answer.
    #[error("limit reached: {} (instruction {})", Clean(what), insn.0)]
    Limit {
        /// The instruction being explored.
        insn: InsnId,
        /// Which limit.
        what: String,
    },
    /// The object is not well formed.
    #[error("invalid object: {}", Clean(.0))]
    Invalid(String),
}

/// What [`Error::Limit`] says once [`crate::Options::deadline`] has passed.
pub(crate) const TIME_IS_UP: &str = "the time for verifying it is up";

/// What it says once [`crate::Options::insns_left`] are used.
pub(crate) const WORK_IS_DONE: &str = "the instructions for verifying it are used up";

/// Why a path is rejected: the reason, our message, and the data for the kernel's message.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub reason: Reason,
    pub message: String,
    pub cause: Cause,
}

/// Why one path cannot go on. The explorer adds the place.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Rejected(Refused),
    Unsupported(String),
    Limit(String),
}

pub(crate) type Step<T> = Result<T, Box<Fault>>;

pub(crate) fn reject<T>(reason: Reason, message: impl Into<String>) -> Step<T> {
    refuse(reason, Case::Plain, message)
}

/// Rejects a path, with the case that the kernel's message depends on.
pub(crate) fn refuse<T>(reason: Reason, case: Case, message: impl Into<String>) -> Step<T> {
    let cause = Cause { reg: None, case };
    Err(Box::new(Fault::Rejected(Refused { reason, message: message.into(), cause })))
}

/// Says which register is at fault.
pub(crate) trait About {
    /// It is this one, if it was not said more exactly before.
    fn about(self, reg: Reg) -> Self;
}

impl<T> About for Step<T> {
    fn about(mut self, reg: Reg) -> Step<T> {
        if let Err(fault) = &mut self
            && let Fault::Rejected(refused) = &mut **fault
        {
            refused.cause.reg.get_or_insert(reg);
        }
        self
    }
}

/// A limit of the verifier, by its name.
pub(crate) fn limit<T>(what: impl Into<String>) -> Step<T> {
    Err(Box::new(Fault::Limit(what.into())))
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Step<T> {
    Err(Box::new(Fault::Unsupported(what.into())))
}
