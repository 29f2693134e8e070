//! Loads and stores of the stack: spilled registers, plain bytes, what calls read and fill.

use kiln_isa::{Reg, Size, Source};
use kiln_platform::Feature;

use crate::domain::Scalar;
use crate::error::{Step, refuse, reject, unsupported};
use crate::options::Options;
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::stack::slot_of;
use crate::state::{Added, Byte, Kind, ObjectKind, Register, Slot, StackObject};

impl Path<'_> {
    pub(crate) fn load_stack(&mut self, reg: Reg, base: &Register, offset: i64, bytes: u32) -> Step<Register> {
        let (lowest, highest) = base.stack_range(reg, offset, u64::from(bytes))?;
        let frame = base.frame();
        check_stack_alignment(reg, base, offset, bytes)?;
        if lowest != highest {
            self.options.check_stack_offset()?;
            self.read_stack_bytes(frame, lowest, highest + bytes as i32 - lowest, false)?;
            let zeros = self.reads_zeros(frame, lowest, highest + bytes as i32);
            return Ok(Register::scalar(if zeros { Scalar::constant(0) } else { Scalar::of_width(8 * bytes) }));
        }
        let used = self.state.frames[frame].stack.slots().len();
        self.findings.use_stack(self.code.op(self.at), &mut self.state, frame, lowest)?;
        self.findings.note_read(&self.state, self.at, frame, lowest, bytes);
        let (index, within) = slot_of(lowest);
        let slot = *self.state.frames[frame].stack.slot(index);
        if let Some(object) = slot.object {
            return object_read(object, lowest);
        }
        if slot.bytes[within] == Byte::Spill {
            let held = slot.spilled_bytes();
            let register = slot.register;
            let known = bytes == held || self.options.kernel_has(Feature::NarrowFills);
            if !known && !register.is_pointer() && within as u32 + bytes <= held {
                return Ok(Register::scalar(Scalar::of_width(8 * bytes)));
            }
            if within == 0 && bytes <= held {
                self.note_slot(frame, index);
                if bytes == 8 && held == 8 {
                    return Ok(self.filled(frame, index, register));
                }
                if register.is_pointer() {
                    return refuse(
                        Reason::NotAPointer,
                        Case::PartOfSpilledPointer,
                        "part of a spilled pointer is read",
                    );
                }
                return Ok(self.filled(frame, index, register));
            }
            if register.is_pointer() {
                return refuse(Reason::NotAPointer, Case::PartOfSpilledPointer, "part of a spilled pointer is read");
            }
            // The kernel knows the upper bytes of a spilled constant only if it is 0. They matter if what is read does.
            if register.is_zero() && within as u32 + bytes <= held {
                self.note_slot(frame, index);
                return Ok(Register { origin: register.origin, ..Register::constant(0) });
            }
        }
        let read = &slot.bytes[within..within + bytes as usize];
        if read.contains(&Byte::Invalid) {
            let message = || format!("{bytes} bytes at r10{lowest:+} were never written");
            self.findings.uninitialized_read(self.options, index < used, message)?;
            let unwritten =
                (0..).zip(&slot.bytes[within..]).take(bytes as usize).filter(|(_, byte)| **byte == Byte::Invalid);
            for (at, _) in unwritten {
                self.findings.note_unwritten(self.at, lowest + at, 1);
            }
        }
        if self.reads_zeros(frame, lowest, lowest + bytes as i32) {
            return Ok(Register::constant(0));
        }
        Ok(Register::scalar(Scalar::of_width(8 * bytes)))
    }

    /// Whether all bytes are 0. Those of a spilled 0 count for newer kernels only, to which it then matters.
    fn reads_zeros(&mut self, frame: usize, lowest: i32, end: i32) -> bool {
        let spills = self.options.kernel_has(Feature::SpilledZeros);
        let stack = &self.state.frames[frame].stack;
        let mut spilled = Vec::new();
        for at in lowest..end {
            let (index, within) = slot_of(at);
            let slot = stack.slot(index);
            match slot.bytes[within] {
                Byte::Zero => {}
                Byte::Spill if spills && slot.register.is_zero() => spilled.push(slot.register),
                _ => return false,
            }
        }
        spilled.iter().for_each(|zero| self.findings.mark_precise(zero));
        true
    }

    /// A register read back; the slot and the register are copies of each other.
    pub(crate) fn filled(&mut self, frame: usize, index: usize, mut register: Register) -> Register {
        if register.kind() == Kind::Scalar && register.id == 0 && register.scalar.as_constant().is_none() {
            register.id = self.fresh_id();
            self.state.frames[frame].stack.slot_mut(index).register.id = register.id;
        }
        register
    }

    pub(crate) fn store_stack(
        &mut self,
        reg: Reg,
        base: &Register,
        offset: i64,
        bytes: u32,
        value: Register,
        src: Source,
    ) -> Step<()> {
        let forgotten = match value.kind() {
            Kind::Insn => !self.options.kernel_has(Feature::AddressesOnStack),
            Kind::Dynptr | Kind::TracepointBuffer => !self.options.kernel_has(Feature::SpilledBuffers),
            _ => false,
        };
        let value = if forgotten { Register::UNKNOWN } else { value };
        let (lowest, highest) = base.stack_range(reg, offset, u64::from(bytes))?;
        let frame = base.frame();
        check_stack_alignment(reg, base, offset, bytes)?;
        self.findings.use_stack(self.code.op(self.at), &mut self.state, frame, lowest)?;
        self.options.check_stack_store(&self.state, frame, lowest, highest, bytes)?;
        if lowest != highest {
            self.options.check_stack_offset()?;
            return self.store_somewhere(frame, lowest, highest + bytes as i32 - lowest, &value);
        }
        self.findings.note_write(&self.state, self.at, frame, lowest, bytes);
        let (index, within) = slot_of(lowest);
        self.state.destroy_dynptr_at(&mut self.findings, self.options, frame, index)?;
        if value.is_pointer() {
            if bytes != 8 {
                return refuse(Reason::NotAPointer, Case::PartOfPointer, "part of a pointer is stored to the stack");
            }
            if frame + 1 != self.state.frames.len() && value.kind() == Kind::Stack {
                let message = "a stack pointer is stored in the caller's frame";
                return refuse(Reason::NotAPointer, Case::StackPointerInCaller, message);
            }
        } else if let (0, Source::Reg(src), Some(_)) = (within, src, Size::from_bytes(bytes)) {
            // Register and slot become copies of each other where all of it is stored.
            let linked = if bytes == 8 || value.scalar.umax >> (8 * bytes) == 0 && bytes < 8 {
                if *self.state.register(src) == value { self.linked(src, value) } else { value }
            } else {
                value
            };
            return self.spill(frame, index, bytes, linked);
        } else if within != 0 {
            return self.store_bytes(frame, index, within, bytes, &value);
        }
        self.spill(frame, index, bytes, value)
    }

    /// What an atomic operation leaves is no number that is remembered: the kernel takes its bytes for any.
    pub(crate) fn forget_stored(&mut self, reg: Reg, base: &Register, offset: i64, size: Size) -> Step<()> {
        let (lowest, highest) = base.stack_range(reg, offset, u64::from(size.bytes()))?;
        if lowest == highest {
            self.state.frames[base.frame()].stack.slot_mut(slot_of(lowest).0).scrub();
        }
        Ok(())
    }

    /// The register takes the slot's lowest bytes.
    pub(crate) fn spill(&mut self, frame: usize, index: usize, bytes: u32, value: Register) -> Step<()> {
        let value = match Size::from_bytes(bytes) {
            Some(_) if bytes < 8 && !self.options.kernel_has(Feature::NarrowSpills) => {
                return self.store_bytes(frame, index, 0, bytes, &value);
            }
            _ if value.kind() == Kind::Scalar
                && (value.scalar.as_constant().is_none() && !self.options.kernel_has(Feature::RangesOnStack)
                    || !self.options.kernel_has(Feature::NumbersOnStack)) =>
            {
                return self.store_bytes(frame, index, 0, bytes, &value);
            }
            // As in the kernel, the slot remembers the whole number, although only its lowest bytes were stored.
            _ if value.kind() == Kind::Scalar && bytes < 8 && value.scalar.umax >> (8 * bytes) != 0 => {
                Register { id: 0, offset: 0, added: Added::Nothing, ..value }
            }
            _ => value,
        };
        self.note_slot(frame, index);
        self.state.frames[frame].stack.slot_mut(index).spill(bytes as usize, value);
        if bytes == 8 {
            self.findings.liveness.write(frame, 1 << index);
        }
        Ok(())
    }

    pub(crate) fn store_bytes(
        &mut self,
        frame: usize,
        index: usize,
        within: usize,
        bytes: u32,
        value: &Register,
    ) -> Step<()> {
        let zero = value.is_zero();
        if zero {
            self.findings.mark_precise(value);
        }
        let unreadable = !self.options.kernel_has(Feature::NumbersOnStack);
        let slot = self.state.frames[frame].stack.slot_mut(index);
        let spilled = slot.bytes[0] == Byte::Spill;
        // As in the kernel, any other write to the slot ends the spilled register, even one to other bytes.
        slot.scrub();
        if spilled && unreadable {
            slot.bytes.fill(Byte::Invalid);
        }
        slot.bytes[within..within + bytes as usize].fill(if zero { Byte::Zero } else { Byte::Misc });
        Ok(())
    }

    /// A store somewhere in a range of bytes.
    pub(crate) fn store_somewhere(&mut self, frame: usize, lowest: i32, length: i32, value: &Register) -> Step<()> {
        if value.is_pointer() {
            return unsupported("a pointer stored at a variable stack offset");
        }
        let zero = value.is_zero();
        self.findings.note_vague_write(&self.state, self.at, frame);
        for at in lowest..lowest + length {
            let (index, within) = slot_of(at);
            self.state.destroy_dynptr_at(&mut self.findings, self.options, frame, index)?;
            if self.state.frames[frame].stack.slot(index).bytes[within] == Byte::Invalid {
                // The byte counts as written from here on, although another byte may have been written.
                if self.options.unprivileged {
                    let message = format!("the byte at r10{at:+} may be written, and never was before");
                    return reject(Reason::UninitializedStack, message);
                }
                self.findings.noted.reads_uninitialized_stack = true;
            }
            let slot = self.state.frames[frame].stack.slot_mut(index);
            let spilled_zero = zero && slot.bytes[within] == Byte::Spill && slot.register.is_zero();
            if !spilled_zero {
                slot.scrub();
            }
            if spilled_zero || zero && slot.bytes[within] == Byte::Zero {
                self.findings.mark_precise(value);
            } else {
                slot.bytes[within] = Byte::Misc;
            }
        }
        Ok(())
    }

    /// Reads bytes whatever they hold, as a helper does; with `clobbers`, the reader may write them too. No bytes are read
    /// where the length is 0, but the frame reaches down to there.
    pub(crate) fn read_stack_bytes(&mut self, frame: usize, lowest: i32, length: i32, clobbers: bool) -> Step<()> {
        let used = self.state.frames[frame].stack.slots().len();
        self.findings.use_stack(self.code.op(self.at), &mut self.state, frame, lowest)?;
        if length == 0 {
            return Ok(());
        }
        self.findings.note_read(&self.state, self.at, frame, lowest, length as u32);
        for at in lowest..lowest + length {
            let (index, within) = slot_of(at);
            let slot = self.state.frames[frame].stack.slot(index);
            if let Some(object) = slot.object {
                return object_read(object, at);
            }
            let byte = slot.bytes[within];
            let spilled = slot.register;
            if byte == Byte::Spill {
                if spilled.is_pointer() {
                    self.options.check_feature_in_profile(Feature::PointersInArguments)?;
                }
                self.options.check_leak(&spilled, "on the stack is read as plain bytes")?;
                self.findings.expose_stack(&self.state, self.at, &spilled);
            }
            if byte == Byte::Invalid {
                let message = || format!("the byte at r10{at:+} was never written");
                self.findings.uninitialized_read(self.options, index < used, message)?;
                self.findings.note_unwritten(self.at, at, 1);
            }
            if clobbers {
                let slot = self.state.frames[frame].stack.slot_mut(index);
                slot.scrub();
                slot.bytes[within] = Byte::Misc;
            }
        }
        if clobbers {
            self.findings.note_vague_write(&self.state, self.at, frame);
        }
        Ok(())
    }

    /// Bytes that a helper fills: all of them for `certain`, or perhaps.
    pub(crate) fn fill_stack_bytes(&mut self, frame: usize, lowest: i32, length: i32, certain: bool) -> Step<()> {
        self.findings.use_stack(self.code.op(self.at), &mut self.state, frame, lowest)?;
        if certain {
            self.findings.note_write(&self.state, self.at, frame, lowest, length as u32);
        } else {
            self.findings.note_vague_write(&self.state, self.at, frame);
        }
        for at in lowest..lowest + length {
            let (index, within) = slot_of(at);
            self.state.destroy_dynptr_at(&mut self.findings, self.options, frame, index)?;
            let slot: &mut Slot = self.state.frames[frame].stack.slot_mut(index);
            self.findings.noted.reads_uninitialized_stack |= !certain && slot.bytes[within] == Byte::Invalid;
            slot.scrub();
            slot.bytes[within] = Byte::Misc;
            if certain && at & 7 == 0 && at + 8 <= lowest + length {
                self.findings.liveness.write(frame, 1 << index);
            }
        }
        Ok(())
    }
}

impl Options {
    /// Refuses an access at an offset that is not constant, where the kernel does.
    fn check_stack_offset(&self) -> Step<()> {
        match self.kernel_has(Feature::VariableStackOffsets) {
            true => Ok(()),
            false => reject(Reason::StackBounds, "the stack is accessed at an offset that is not constant"),
        }
    }
}

/// Accesses to the stack are aligned wherever a variable offset may lead (`check_generic_ptr_alignment`).
pub(crate) fn check_stack_alignment(reg: Reg, base: &Register, offset: i64, bytes: u32) -> Step<()> {
    if base.is_aligned(offset, bytes) {
        return Ok(());
    }
    let fixed = i64::from(base.offset) + offset;
    let place = match base.scalar.as_constant() {
        Some(moved) => format!("r10{:+}", fixed + moved as i64),
        None => format!("r10{fixed:+} and what r{} was moved by", reg.number()),
    };
    reject(Reason::Misaligned, format!("{bytes} bytes at {place}: not aligned"))
}

/// The bytes of a kernel object are not the program's to read.
pub(crate) fn object_read<T>(object: StackObject, at: i32) -> Step<T> {
    let (reason, name) = match object.kind {
        ObjectKind::Dynptr(_) => (Reason::DynptrMisuse, "dynptr"),
        ObjectKind::Iterator(_) => (Reason::IteratorMisuse, "iterator"),
        ObjectKind::IrqFlags(_) => (Reason::CriticalSection, "saved interrupt state"),
    };
    reject(reason, format!("the byte at r10{at:+} is part of a {name}, whose bytes may not be read"))
}
