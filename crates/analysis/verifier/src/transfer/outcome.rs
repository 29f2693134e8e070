//! The outcome of a branch, as far as its operands decide it.

use kiln_isa::{JumpOp, Width};

use crate::domain::{Scalar, Truth, outcome_as_kernel};
use crate::state::{BEYOND_END, Kind, Register, Trust};

/// Returns the outcome of a branch if only one is possible.
pub(crate) fn decided(op: JumpOp, width: Width, first: &Register, second: &Register) -> Truth {
    if !first.is_pointer() && !second.is_pointer() {
        return outcome_as_kernel(op, width, &first.scalar, &second.scalar);
    }
    if width == Width::W64 && first.is_packet_pointer() && second.is_packet_pointer() {
        return decided_by_end(op, first, second);
    }
    // A pointer that is not null differs from 0.
    let compared_with_zero = first.is_pointer() && second.is_zero() && !first.nullable
        || second.is_pointer() && first.is_zero() && !second.nullable;
    if width == Width::W64 && compared_with_zero && never_null(first) && never_null(second) {
        return match op {
            JumpOp::Eq => Truth::False,
            JumpOp::Ne => Truth::True,
            _ => Truth::Unknown,
        };
    }
    Truth::Unknown
}

/// Returns how a number compares with itself, where that is known (`is_scalar_branch_taken`, since 6.19).
pub(super) fn with_itself(op: JumpOp, width: Width, number: &Scalar) -> Truth {
    let (lowest, highest) = match width {
        Width::W64 => (number.smin, number.smax),
        Width::W32 => (number.s32_min.into(), number.s32_max.into()),
    };
    match op {
        JumpOp::Eq | JumpOp::Ge | JumpOp::Le | JumpOp::Sge | JumpOp::Sle => Truth::True,
        JumpOp::Ne | JumpOp::Gt | JumpOp::Lt | JumpOp::Sgt | JumpOp::Slt => Truth::False,
        JumpOp::Set => match number.constant_at(width) {
            Some(0) => Truth::False,
            None if lowest <= 0 && highest >= 0 => Truth::Unknown,
            _ => Truth::True,
        },
    }
}

/// Kinds of pointers that the kernel, and so we, take to be never null unless marked so.
pub(crate) fn never_null(register: &Register) -> bool {
    if register.kind() == Kind::BtfId {
        return register.is_trusted();
    }
    if register.kind() == Kind::Memory {
        return !register.trust.has(Trust::UNTRUSTED);
    }
    matches!(
        register.kind(),
        Kind::Scalar
            | Kind::Map
            | Kind::MapValue
            | Kind::MapKey
            | Kind::Socket
            | Kind::SockCommon
            | Kind::TcpSock
            | Kind::RingBuffer
    )
}

/// How a comparison of a pointer with the packet's end comes out, where an earlier one found the pointer to be there or
/// beyond (`is_pkt_ptr_branch_taken`).
pub(crate) fn decided_by_end(op: JumpOp, first: &Register, second: &Register) -> Truth {
    let (pointer, op) = match (first.kind(), second.kind(), op.row().swapped) {
        (_, Kind::PacketEnd, _) => (first, op),
        (Kind::PacketEnd, _, Some(swapped)) => (second, swapped),
        _ => return Truth::Unknown,
    };
    match op {
        JumpOp::Gt if pointer.range == BEYOND_END => Truth::True,
        JumpOp::Le if pointer.range == BEYOND_END => Truth::False,
        JumpOp::Ge if pointer.range < 0 => Truth::True,
        JumpOp::Lt if pointer.range < 0 => Truth::False,
        _ => Truth::Unknown,
    }
}

impl Register {
    pub(super) fn is_packet_pointer(&self) -> bool {
        matches!(self.kind(), Kind::Packet | Kind::PacketMeta | Kind::PacketEnd)
    }

    pub(super) fn is_start(&self) -> bool {
        self.scalar.as_constant() == Some(0)
    }
}
