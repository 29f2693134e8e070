//! Frames that calls make, of functions and of callbacks.

use kiln_isa::{Reg, RegSet};
use kiln_platform::limits::MAX_CALL_FRAMES;

use crate::code::{Code, Position};
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

impl Code<'_> {
    /// The registers of a frame that may still be read in a state at `at`.
    pub(crate) fn live_in_frame(&self, state: &State, at: Position, index: usize) -> RegSet {
        let live = match state.frames.get(index + 1) {
            None => self.op(at).live,
            Some(next) if next.caller == Caller::Call => {
                let after = self.ops.get(next.call_site as usize + 1);
                after.map_or(RegSet::ALL, |op| op.live).difference(RegSet::CALLER_SAVED)
            }
            // The call is carried out again when the callback returns.
            Some(next) => self.op(next.call_site).live,
        };
        live.union(RegSet::of(&[Reg::R10]))
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
