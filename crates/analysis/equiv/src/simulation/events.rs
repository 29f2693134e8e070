//! Events: instructions that both functions must run, with the same registers read.

use kiln_isa::{Insn, PacketMode, Reg, RegSet};

/// Whether both functions must run an instruction, and their paths stop at it.
pub(super) fn is_event(insn: &Insn) -> bool {
    matches!(
        insn,
        Insn::Call(_)
            | Insn::Exit
            | Insn::LoadPacket { .. }
            | Insn::AddressSpaceCast { .. }
            | Insn::MayGoto { .. }
            | Insn::JumpIndirect { .. }
    )
}

/// Registers that an event overwrites, and the one that then holds its result.
pub(super) fn effects(insn: &Insn) -> (RegSet, Option<Reg>) {
    match *insn {
        Insn::Call(_) | Insn::LoadPacket { .. } => (RegSet::CALLER_SAVED, Some(Reg::R0)),
        Insn::AddressSpaceCast { dst, .. } => (RegSet::of(&[dst]), Some(dst)),
        _ => (RegSet::EMPTY, None),
    }
}

/// The registers and constants that the indices of two classic packet loads are the sums of.
pub(super) fn index(old: &Insn, new: &Insn) -> Option<[(u8, i32); 2]> {
    let sum = |insn: &Insn| match *insn {
        Insn::LoadPacket { mode: PacketMode::Indirect(reg), size, offset } => Some((size, (reg.number(), offset))),
        _ => None,
    };
    let ((size, old), (other, new)) = (sum(old)?, sum(new)?);
    (size == other).then_some([old, new])
}
