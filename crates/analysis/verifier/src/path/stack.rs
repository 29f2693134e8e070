//! The stack as bytes: what is inside of a frame, and what is noted of each access.

use kiln_isa::Reg;
use kiln_platform::Feature;
use kiln_platform::limits::MAX_STACK_BYTES;

use crate::code::{Op, Position};
use crate::error::{Step, refuse, reject};
use crate::options::Options;
use crate::path::{Findings, Noted};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::stack::slot_of;
use crate::state::{Kind, Register, State};

impl Findings {
    /// Remembers how deep an instruction uses a frame's stack.
    pub(crate) fn use_stack(&mut self, op: &Op<'_>, state: &mut State, frame: usize, lowest: i32) -> Step<()> {
        let function = state.frames[frame].function;
        let depth = (-lowest) as u32;
        let Noted { stack_bytes, plain_stack_bytes, .. } = &mut self.noted;
        stack_bytes[function] = stack_bytes[function].max(depth);
        if !op.spills_around_call {
            plain_stack_bytes[function] = plain_stack_bytes[function].max(depth);
        }
        state.frames[frame].stack.reach(slot_of(lowest).0);
        Ok(())
    }

    /// Stack bytes are read that no store on this path wrote: an error without privilege, and on older kernels.
    /// `used`: the frame's stack reached down to them before.
    pub(crate) fn uninitialized_read(
        &mut self,
        options: &Options,
        used: bool,
        message: impl Fn() -> String,
    ) -> Step<()> {
        if options.stack_must_be_written() || !used && !options.kernel_has(Feature::DeepStackReads) {
            return reject(Reason::UninitializedStack, message());
        }
        self.noted.reads_uninitialized_stack = true;
        Ok(())
    }

    /// Notes, where facts are wanted, that the instruction reads a byte which nothing on this path wrote.
    pub(crate) fn note_unwritten(&mut self, at: Position, lowest: i32, bytes: u32) {
        if self.accesses.is_some() {
            self.noted.unwritten.entry(at).or_default().insert(lowest, bytes);
        }
    }

    pub(crate) fn note_read(&mut self, state: &State, at: Position, frame: usize, lowest: i32, bytes: u32) {
        let (last, _) = slot_of(lowest);
        let (first, _) = slot_of(lowest + bytes.max(1) as i32 - 1);
        let mut mask = 0_u64;
        for index in first..=last {
            mask |= 1 << index;
        }
        self.liveness.read(state.frame().instance, frame, at, mask);
        let at = state.site_in(at, frame);
        if let Some(accesses) = &mut self.accesses {
            accesses.read(at, lowest, bytes);
        }
    }

    /// Notes that the callee may read all of the frame: it gets a pointer into it without a size.
    pub(crate) fn expose_stack(&mut self, state: &State, at: Position, pointer: &Register) {
        if pointer.kind() == Kind::Stack {
            let at = state.site_in(at, pointer.frame());
            if let Some(accesses) = &mut self.accesses {
                accesses.read(at, -(MAX_STACK_BYTES as i32), MAX_STACK_BYTES);
            }
        }
    }

    pub(crate) fn note_write(&mut self, state: &State, at: Position, frame: usize, lowest: i32, bytes: u32) {
        let own = frame + 1 == state.frames.len();
        let at = state.site_in(at, frame);
        if let Some(accesses) = &mut self.accesses {
            if own { accesses.write(at, lowest, bytes) } else { accesses.vague_write(at) }
        }
    }

    pub(crate) fn note_vague_write(&mut self, state: &State, at: Position, frame: usize) {
        let at = state.site_in(at, frame);
        if let Some(accesses) = &mut self.accesses {
            accesses.vague_write(at);
        }
    }
}

impl State {
    /// The instruction of that frame which is being carried out: its call, when it is not the top one.
    pub(crate) fn site_in(&self, at: Position, frame: usize) -> u32 {
        self.frames.get(frame + 1).map_or(at, |callee| callee.call_site)
    }
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Read,
    Write,
}

impl Register {
    /// The lowest and highest offsets (from the frame pointer) at which an access of `bytes` may begin.
    pub(crate) fn stack_range(&self, reg: Reg, offset: i64, bytes: u64) -> Step<(i32, i32)> {
        let fixed = i64::from(self.offset) + offset;
        let lowest = self.scalar.smin.saturating_add(fixed);
        let highest = self.scalar.smax.saturating_add(fixed);
        let size = i64::from(MAX_STACK_BYTES);
        if !(-size..0).contains(&lowest) || highest.saturating_add(bytes as i64) > 0 {
            let place = match lowest == highest {
                true => format!("r10{lowest:+}"),
                false => format!("r10{lowest:+} to r10{highest:+}"),
            };
            return refuse(
                Reason::StackBounds,
                Case::Access { bytes },
                format!("r{}: {bytes} bytes at {place}, outside of the frame", reg.number()),
            );
        }
        Ok((lowest as i32, highest as i32))
    }
}
