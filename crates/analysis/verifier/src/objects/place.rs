//! Where objects are on the stack: the slots that the kernel keeps for itself.

use kiln_isa::Reg;

use crate::code::Position;
use crate::error::{Step, reject};
use crate::path::{Findings, Path};
use crate::reason::Reason;
use crate::state::stack::slot_of;
use crate::state::{Kind, Register, Slot, StackObject, State};

impl Path<'_> {
    /// Writes an object's slots; `certain` where the kernel writes all of its bytes.
    pub(crate) fn place_object(
        &mut self,
        frame: usize,
        lowest: i32,
        bytes: u32,
        object: StackObject,
        certain: bool,
    ) -> Step<()> {
        self.findings.use_stack(self.code.op(self.at), &mut self.state, frame, lowest)?;
        if certain {
            self.findings.note_write(&self.state, self.at, frame, lowest, bytes)
        } else {
            self.findings.note_vague_write(&self.state, self.at, frame)
        }
        let (first, _) = slot_of(lowest);
        for part in 0..(bytes / 8) as u8 {
            let index = first - usize::from(part);
            *self.state.frames[frame].stack.slot_mut(index) = Slot::of_object(StackObject { part, ..object });
            self.findings.liveness.write(frame, 1 << index);
        }
        Ok(())
    }
}

impl Findings {
    /// A call reads, and may change, the bytes of an object.
    pub(crate) fn use_object(
        &mut self,
        state: &State,
        at: Position,
        frame: usize,
        lowest: i32,
        bytes: u32,
    ) -> Step<()> {
        self.note_read(state, at, frame, lowest, bytes);
        self.note_vague_write(state, at, frame);
        Ok(())
    }
}

impl Register {
    /// Frame and lowest offset of an object of `bytes` bytes that a register points to.
    pub(crate) fn object_place(&self, reg: Reg, bytes: u32, reason: Reason) -> Step<(usize, i32)> {
        let number = reg.number();
        if self.kind() != Kind::Stack {
            return reject(reason, format!("r{number} must point to the stack, it is {}", self.kind().name()));
        }
        let Some(offset) = self.fixed_offset() else {
            return reject(reason, format!("r{number}: the object must be at a constant offset of the stack"));
        };
        if offset % 8 != 0 || offset + i64::from(bytes) > 0 {
            return reject(reason, format!("r{number}: there is no room for {bytes} aligned bytes at r10{offset:+}"));
        }
        let (lowest, _) = self.stack_range(reg, 0, u64::from(bytes))?;
        Ok((self.frame(), lowest))
    }
}
