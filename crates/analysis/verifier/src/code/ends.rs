//! What ends a function without its return. A callback must return to the kernel code that called it.

use kiln_isa::Insn;
use kiln_platform::{KfuncMeaning, helper_id};

use super::{Code, Op, Position};
use crate::error::{Step, refuse, reject};
use crate::reason::Reason;
use crate::rejection::Case;

impl Code<'_> {
    /// Whether the object has types, and the kernel gets none of the functions (`func_info`).
    pub(crate) fn loses_function_types(&self) -> bool {
        self.object.btf.is_some() && !self.has_function_types()
    }

    /// Whether the kernel gets the program's types, with those of its functions (`func_info`).
    pub(crate) fn has_function_types(&self) -> bool {
        self.functions.first().is_some_and(|main| main.btf_id != 0) && self.prepared.accepted_btf.is_some()
    }

    /// The first end of a function that needs types, where the kernel gets none: without them it does not know that the
    /// function returns a number (`check_abnormal_return`).
    pub(crate) fn end_without_types(&self) -> Option<(Position, End)> {
        let called = || (0..).zip(&self.ops).filter(|(_, op)| op.function != 0);
        let mut ends = called().filter_map(|(at, op)| Some((at, End::of(op)?)));
        if self.has_function_types() { None } else { ends.find(|(_, end)| *end != End::Throw) }
    }
}

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

    /// Why it is refused in a function whose result no type describes, and what the kernel says.
    pub(crate) fn without_types(self) -> (Reason, &'static str, &'static str) {
        match self {
            End::PacketLoad => (
                Reason::BadInstruction,
                "LD_ABS or LD_IND in a function without a type (compile with -g)",
                "LD_ABS is not allowed in subprogs without BTF",
            ),
            End::Throw | End::TailCall => (
                Reason::HelperNotAllowed,
                "a tail call in a function without a type (compile with -g)",
                "tail_call is not allowed in subprogs without BTF",
            ),
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
