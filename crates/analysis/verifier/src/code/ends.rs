//! What ends a function without its return. A callback must return to the kernel code that called it.

use kiln_isa::Insn;
use kiln_platform::{KfuncMeaning, helper_id};

use super::Op;
use crate::error::{Step, refuse, reject};
use crate::reason::Reason;
use crate::rejection::Case;

/// What ends a function other than its return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// An exception.
    Throw,
    /// A tail call, where it succeeds.
    TailCall,
    /// A classic packet load, where the packet is too short.
    PacketLoad,
}

impl End {
    pub(crate) fn of(op: &Op<'_>) -> Option<End> {
        match op.node.insn {
            Insn::LoadPacket { .. } => Some(End::PacketLoad),
            _ if op.helper.is_some_and(|helper| helper.id == helper_id::TAIL_CALL) => Some(End::TailCall),
            _ => (op.kfunc_meaning() == Some(KfuncMeaning::Throw)).then_some(End::Throw),
        }
    }

    /// Refuses it in a callback, or in what a callback calls.
    pub(crate) fn refuse<T>(self) -> Step<T> {
        match self {
            End::Throw => reject(Reason::Exception, "an exception is thrown out of a callback"),
            End::TailCall => {
                refuse(Reason::HelperNotAllowed, Case::InCallback, "a tail call is made out of a callback")
            }
            End::PacketLoad => refuse(Reason::BadInstruction, Case::InCallback, "LD_ABS or LD_IND may end a callback"),
        }
    }
}
