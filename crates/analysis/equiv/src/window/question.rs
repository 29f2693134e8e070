//! What is asked: whether one window may stand for another.

use kiln_isa::{Reg, RegSet};
use kiln_program::{InsnId, Node, Object};
use kiln_verifier::{InsnFacts, StackSet};

use crate::window::machine::Target;

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

/// What may be read somewhere outside of a window.
pub(crate) struct Live {
    /// Low bits of each register.
    pub bits: [u8; Reg::COUNT],
    /// Bytes of this frame.
    pub stack: StackSet,
}

impl Live {
    /// What may be read where a window is left.
    pub fn at(window: &Window<'_>, target: Target) -> Live {
        let exit = match target {
            Target::Insn(id) => window.exits.iter().find(|exit| exit.target == id),
            Target::Start => {
                window.exits.iter().find(|exit| window.before.first().is_some_and(|node| node.id == exit.target))
            }
            _ => None,
        };
        let whole = |regs: RegSet| {
            std::array::from_fn(|at| Reg::new(at as u8).map_or(0, |reg| 64 * u8::from(regs.contains(reg))))
        };
        match (target, exit) {
            (_, Some(exit)) => Live { bits: exit.bits, stack: exit.stack_live },
            (Target::Return, _) => Live { bits: whole(RegSet::of(&[Reg::R0])), stack: StackSet::EMPTY },
            _ => Live { bits: whole(window.live_after), stack: window.stack_live_after },
        }
    }
}
