//! What a program may not do if it is loaded without privilege.
//!
//! ```text
//!   *(u64 *)(r0 + 0) = r1     r1 a pointer: its value could be read back through the map
//!   if r1 > r2                pointers: the outcome tells where they are
//!   r2 += r3; r2 a stack pointer, r3 any number        a misguessed bounds check could read around it
//!   call f, loops, 4097 instructions                   more work for the verifier than such a program may cause
//! ```
//!
//! Three things are guarded: addresses (a pointer's value must not get where it can be read), memory under wrong
//! speculation (pointers stay within their object even before they are used), and the verifier's time.

use kiln_isa::{AluOp, CallTarget, Insn, JumpOp, Reg, Source, Width};
use kiln_platform::limits::{MAX_SLOTS_UNPRIVILEGED, MAX_STACK_BYTES};
use kiln_platform::{Capability, Field, Helper};

use crate::code::{Code, Position};
use crate::domain::Truth;
use crate::error::{Step, reject};
use crate::options::Options;
use crate::path::{Findings, Mask};
use crate::reason::Reason;
use crate::state::{Byte, Kind, Register, State};
use crate::transfer::outcome::decided;

/// A rule that holds for the whole program: where it is broken, and how.
pub(crate) fn broken_rule(code: &Code<'_>) -> Option<(Position, &'static str)> {
    let program_type = code.program.program_type?;
    if !program_type.allowed_unprivileged() {
        return Some((0, "programs of this type are loaded with privilege only"));
    }
    if code.object.program_slots(code.program) as usize > MAX_SLOTS_UNPRIVILEGED {
        return Some((0, "more than 4096 instructions need privilege"));
    }
    let forbidden = |(at, op): (usize, &crate::code::Op<'_>)| {
        let what = match op.node.insn {
            Insn::Call(CallTarget::Subprogram(_)) => "calls of functions need privilege",
            Insn::Call(CallTarget::Kfunc { .. }) => "calls of kernel functions need privilege",
            Insn::LoadImm64 { .. } if op.callee.is_some() => "the address of a function needs privilege",
            _ => return None,
        };
        Some((at as Position, what))
    };
    let call = code.ops.iter().enumerate().find_map(forbidden);
    call.or_else(|| Some((code.back_edge()?, "loops need privilege")))
}

impl Options {
    /// Checks that a pointer's value does not go where it can be read.
    pub(crate) fn check_leak(&self, register: &Register, what: &str) -> Step<()> {
        if self.unprivileged && register.is_pointer() {
            return reject(Reason::PointerLeak, format!("a pointer ({}) {what}", register.kind().name()));
        }
        Ok(())
    }

    /// Arithmetic that would make a number of a pointer.
    pub(crate) fn check_leaking_arithmetic(
        &self,
        op: AluOp,
        width: Width,
        first: &Register,
        second: &Register,
    ) -> Step<()> {
        let pointers = (first.is_pointer(), second.is_pointer());
        if pointers == (true, true) || op == AluOp::Sub && width == Width::W32 && pointers != (false, false) {
            return self.check_leak(if first.is_pointer() { first } else { second }, "becomes a number");
        }
        Ok(())
    }

    /// Comparisons whose outcome tells where a pointer points.
    pub(crate) fn check_leaking_branch(
        &self,
        op: JumpOp,
        width: Width,
        src: Source,
        first: &Register,
        second: &Register,
    ) -> Step<()> {
        if !self.unprivileged {
            return Ok(());
        }
        let both_packet = first.is_packet() && second.is_packet();
        if matches!(src, Source::Reg(_)) && !both_packet {
            self.check_leak(second, "is compared")?;
        }
        let null_check = width == Width::W64
            && matches!(op, JumpOp::Eq | JumpOp::Ne)
            && matches!(src, Source::Imm(0))
            && first.nullable;
        let known = decided(op, width, first, second) != Truth::Unknown;
        if null_check || both_packet || known {
            return Ok(());
        }
        self.check_leak(first, "is compared")
    }

    /// A pointer that was moved must still be inside its object, so that no access through it can be led astray.
    pub(crate) fn check_moved_inside(&self, code: &Code<'_>, reg: Reg, moved: &Register) -> Step<()> {
        if !self.unprivileged {
            return Ok(());
        }
        match moved.kind() {
            Kind::Stack => match moved.fixed_offset() {
                Some(offset) if (-i64::from(MAX_STACK_BYTES)..0).contains(&offset) => Ok(()),
                Some(_) => {
                    reject(Reason::StackBounds, format!("r{} leaves the stack, which needs privilege", reg.number()))
                }
                None => reject(
                    Reason::StackBounds,
                    format!(
                        "r{}: a stack pointer is moved by a number that is not constant, which needs privilege",
                        reg.number()
                    ),
                ),
            },
            Kind::MapValue => code.check_map_range(reg, moved, 0, 1, crate::path::Use::Read),
            _ => Ok(()),
        }
    }

    /// Pointers to anything but the stack and map values may be moved by constants in the instruction only.
    pub(crate) fn check_moved_pointer(&self, reg: Reg, pointer: &Register, src: Source) -> Step<()> {
        let bounded = matches!(pointer.kind(), Kind::Stack | Kind::MapValue | Kind::Scalar);
        if self.unprivileged && matches!(src, Source::Reg(_)) && !bounded {
            return reject(
                Reason::PointerArithmetic,
                format!("r{}: moving a {} pointer by a register needs privilege", reg.number(), pointer.kind().name()),
            );
        }
        Ok(())
    }

    /// A store to part of a spilled pointer, or to a place that is not known.
    pub(crate) fn check_stack_store(
        &self,
        state: &State,
        frame: usize,
        lowest: i32,
        highest: i32,
        bytes: u32,
    ) -> Step<()> {
        if !self.unprivileged {
            return Ok(());
        }
        if lowest != highest {
            return reject(
                Reason::StackBounds,
                "a store to the stack at an offset that is not constant needs privilege",
            );
        }
        let (index, _) = crate::state::stack::slot_of(lowest);
        let slot = state.frames[frame].stack.slot(index);
        let spilled_pointer = slot.bytes[0] == Byte::Spill && slot.register.is_pointer();
        if spilled_pointer && bytes != 8 {
            return reject(Reason::PointerLeak, "part of a spilled pointer is overwritten, the rest could be read");
        }
        Ok(())
    }

    /// Fields of the context that only privileged programs see.
    pub(crate) fn check_field_privilege(&self, code: &Code<'_>, field: &Field, write: bool) -> Step<()> {
        let guarded = if write { field.store_needs_privilege } else { field.load_needs_privilege };
        if self.unprivileged && guarded.contains(code.program_type) {
            return reject(Reason::ContextAccess, format!("the field {} needs privilege", field.name));
        }
        Ok(())
    }

    /// Helpers that tell more than a program without privilege may know.
    pub(crate) fn check_helper_privilege(&self, helper: &Helper) -> Step<()> {
        if self.unprivileged && helper.capability != Capability::None {
            return reject(Reason::HelperNotAllowed, format!("{} needs privilege", helper.name));
        }
        Ok(())
    }
}

impl Findings {
    /// A pointer that a register moves is masked, so that it stays inside even where the processor guesses wrong. The
    /// mask is part of the instruction: every path must ask for the same one.
    pub(crate) fn check_mask(
        &mut self,
        code: &Code<'_>,
        options: &Options,
        at: Position,
        op: AluOp,
        src: Source,
        first: &Register,
        second: &Register,
        moved: &Register,
    ) -> Step<()> {
        let into_pointer = first.is_pointer();
        let (pointer, number) = if into_pointer { (first, second) } else { (second, first) };
        if !options.unprivileged || !matches!(src, Source::Reg(_)) || !moved.is_pointer() {
            return Ok(());
        }
        let constant = number.scalar.as_constant().is_some();
        let negative = number.scalar.smin < 0;
        if !constant && negative != (number.scalar.smax < 0) {
            return reject(
                Reason::UnboundedOffset,
                "moving a pointer by a number that may be negative or not needs privilege",
            );
        }
        let left = (op == AluOp::Add) == negative;
        let (Some(before), Some(after)) = (code.room(pointer, left), code.room(moved, left)) else {
            return reject(Reason::PointerArithmetic, "moving a pointer beyond its memory needs privilege");
        };
        self.noted.exact_numbers |= !constant;
        let mask = Mask { negative, constant, into_pointer, limit: before.abs_diff(after) };
        let known = *self.noted.masks.entry(at).or_insert(mask);
        if known != mask {
            return reject(
                Reason::PointerArithmetic,
                "moving a pointer by different bounds on different paths needs privilege",
            );
        }
        Ok(())
    }

    /// Which program a tail call leads to may be guessed wrong where its map is not always the same.
    pub(crate) fn check_tail_call_map(&mut self, options: &Options, at: Position, map: u32) -> Step<()> {
        let known = *self.noted.tail_call_maps.entry(at).or_insert(map);
        if options.unprivileged && known != map {
            return reject(Reason::ArgumentType, "tail calls through different maps on different paths need privilege");
        }
        Ok(())
    }
}

impl<'a> Code<'a> {
    /// Returns how far a pointer may move; `None` if it is outside of its memory.
    fn room(&self, pointer: &Register, left: bool) -> Option<i64> {
        let (room, most) = match pointer.kind() {
            Kind::Stack => (pointer.fixed_offset()?.checked_neg()?, i64::from(MAX_STACK_BYTES) + i64::from(left)),
            Kind::MapValue => {
                let scalar = if left { pointer.scalar.smin } else { i64::try_from(pointer.scalar.umax).ok()? };
                (scalar.checked_add(i64::from(pointer.offset))?, i64::from(self.map_of(pointer)?.value_size))
            }
            _ => return None,
        };
        (room < most).then_some(room)
    }
}
