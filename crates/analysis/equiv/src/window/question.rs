//! The question whether one window may replace another.

use kiln_isa::{Reg, RegSet};
use kiln_program::{InsnId, Node, Object};
use kiln_verifier::{InsnFacts, StackSet};

use crate::window::machine::Target;

/// A question: may `after` stand for `before`?
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// The original instructions, entered at the first one: a straight line, or a region whose branches go forward or
    /// out.
    pub before: &'a [Node],
    /// The instructions that would replace them, of the same kind.
    pub after: &'a [Node],
    /// What is known before the first instruction; `None`: nothing, and all registers are readable.
    pub facts: Option<&'a InsnFacts>,
    /// Registers that may be read afterwards.
    pub live_after: RegSet,
    /// Bytes of the current stack frame that may be read afterwards.
    pub stack_live_after: StackSet,
    /// What may be read after each exit. For a target that is not listed, `live_after` and `stack_live_after` apply.
    pub exits: &'a [Exit],
    /// The object that the instructions refer to.
    pub object: &'a Object,
}

/// A target of a branch that leaves the window.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// The instruction there.
    pub target: InsnId,
    /// How many low bits of each register may be read after it.
    pub bits: [u8; Reg::COUNT],
    /// Bytes of the current stack frame that may be read after it.
    pub stack_live: StackSet,
}

/// What may be read at a place outside of a window.
pub(crate) struct Live {
    /// Low bits of each register.
    pub bits: [u8; Reg::COUNT],
    /// Bytes of this frame.
    pub stack: StackSet,
}

impl Live {
    /// What may be read at an exit of a window.
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
