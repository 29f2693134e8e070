//! Frames that calls make, of functions and of callbacks.

use kiln_platform::limits::MAX_CALL_FRAMES;

use crate::code::Code;
use crate::error::{Step, refuse, reject};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Caller, Frame, State};

impl Path<'_> {
    pub(crate) fn new_frame(&mut self, callee: usize, caller: Caller) -> Step<Frame> {
        self.findings.noted.entered[callee] = true;
        self.findings.noted.callbacks[callee] |= caller != Caller::Call;
        let depth = self.state.frames.len();
        if depth >= MAX_CALL_FRAMES {
            return reject(Reason::CallDepth, format!("more than {MAX_CALL_FRAMES} frames of calls"));
        }
        let outer = self.state.frame().instance;
        let instance = self.findings.liveness.callee(self.code, outer, self.at, callee);
        Ok(Frame::new(callee, depth, self.at, caller, instance))
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

impl State {
    /// The current function may be left with a number that it did not compute itself.
    pub(crate) fn check_returns_number(&self, code: &Code<'_>) -> Step<()> {
        if code.without_number[self.frame().function] {
            return refuse(
                Reason::BadInstruction,
                Case::NoNumber,
                "LD_ABS, LD_IND and tail calls are only allowed in functions that return a number",
            );
        }
        Ok(())
    }
}
