//! Frames that calls make, of functions and of callbacks.

use kiln_platform::limits::MAX_CALL_FRAMES;

use crate::error::{Step, refuse, reject};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Caller, Frame};

impl Path<'_> {
    pub(crate) fn new_frame(&mut self, callee: usize, caller: Caller) -> Step<Frame> {
        self.noted.callbacks[callee] |= caller != Caller::Call;
        let depth = self.state.frames.len();
        if depth >= MAX_CALL_FRAMES {
            return reject(Reason::CallDepth, format!("more than {MAX_CALL_FRAMES} frames of calls"));
        }
        let outer = self.state.frame().instance;
        let instance = self.liveness.callee(self.code, outer, self.at, callee);
        Ok(Frame::new(callee, depth, self.at, caller, instance))
    }

    /// The current function may be left with a number that it did not compute itself.
    pub(crate) fn check_returns_number(&self) -> Step<()> {
        if self.without_number[self.state.frame().function] {
            return refuse(
                Reason::BadInstruction,
                Case::NoNumber,
                "LD_ABS, LD_IND and tail calls are only allowed in functions that return a number",
            );
        }
        Ok(())
    }

    /// A callback that is entered now, from a call that is carried out again when it returns.
    pub(crate) fn push_callback(&mut self, frame: Frame, callee: usize) -> Step<()> {
        let mut inside = self.state.clone();
        inside.callback_depth += 1;
        inside.frame_mut().callback_turns += 1;
        inside.frames.push(frame);
        let start = self.code.functions[callee].start;
        self.push(inside, start);
        self.state.frame_mut().callback_turns = 0;
        Ok(())
    }
}
