//! Calls of functions and returns from them.

use kiln_isa::{Insn, Reg};
use kiln_platform::limits::{MAX_CALL_CHAIN_STACK_BYTES, MAX_CALL_FRAMES};
use kiln_platform::{Feature, ProgramType, ReturnRule};

use crate::domain::Scalar;
use crate::error::{Step, reject, unsupported};
use crate::explain::Reason;
use crate::explore::{Explorer, Next};
use crate::state::{Caller, Frame, Kind, Register};
use crate::types::hook::HookReturn;

/// Frames at least as large get a private stack, where there are such (kernel `BPF_PRIV_STACK_MIN_SIZE`).
const PRIVATE_STACK_BYTES: u32 = 64;

/// How deep a chain of calls goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Depth {
    bytes: u32,
    frames: usize,
}

impl Explorer<'_> {
    pub(crate) fn call_function(&mut self) -> Step<Next> {
        let Some(callee) = self.code.op(self.at).callee else {
            return reject(Reason::BadInstruction, "a call of a function that does not exist");
        };
        if self.code.functions[callee].global && self.code.functions[callee].btf_id != 0 {
            return self.call_global(callee);
        }
        let arguments: Vec<Register> = (1..=5).map(|at| self.state.frame().registers[at]).collect();
        let mut frame = self.new_frame(callee, Caller::Call)?;
        frame.registers[1..6].copy_from_slice(&arguments);
        self.clobber();
        self.state.frames.push(frame);
        Ok(Next::At(self.code.functions[callee].start))
    }

    /// The current function may be left with a number that it did not compute itself.
    pub(crate) fn check_returns_number(&self) -> Step<()> {
        if self.without_number[self.state.frame().function] {
            return reject(
                Reason::BadInstruction,
                "LD_ABS, LD_IND and tail calls are only allowed in functions that return a number",
            );
        }
        Ok(())
    }

    pub(crate) fn new_frame(&mut self, callee: usize, caller: Caller) -> Step<Frame> {
        self.callbacks[callee] |= caller != Caller::Call;
        let depth = self.state.frames.len();
        if depth >= MAX_CALL_FRAMES {
            return reject(Reason::CallDepth, format!("more than {MAX_CALL_FRAMES} frames of calls"));
        }
        Ok(Frame::new(callee, depth, self.at, caller))
    }

    /// A call destroys R0 to R5.
    pub(crate) fn clobber(&mut self) {
        for register in &mut self.state.frame_mut().registers[..6] {
            *register = Register::UNINIT;
        }
    }

    pub(crate) fn exit(&mut self) -> Step<Next> {
        let caller = self.state.frame().caller;
        if self.state.frames.len() == 1 {
            if let Some(returns_value) = self.global {
                return self.exit_global(returns_value);
            }
            let result = if self.returns_nothing() { Register::UNKNOWN } else { self.read(Reg::R0)? };
            self.check_program_end(&result)?;
            return Ok(Next::Done);
        }
        // A function without a result may leave R0 as it is.
        let result = match caller {
            Caller::Call => *self.state.register(Reg::R0),
            _ => self.read(Reg::R0)?,
        };
        match caller {
            Caller::Call => {
                if result.kind == Kind::Stack {
                    return reject(Reason::ReturnValue, "a function returns a pointer to a stack");
                }
                let site = self.state.frame().call_site;
                self.state.frames.pop();
                self.state.set(Reg::R0, result);
                Ok(Next::At(site + 1))
            }
            Caller::Callback { lowest, highest } => {
                self.check_callback_result(&result, lowest, highest)?;
                let site = self.state.frame().call_site;
                self.state.frames.pop();
                let mut state = std::mem::take(&mut self.state);
                self.widen_since_last_visit(&mut state, site, false);
                self.state = state;
                Ok(Next::At(site))
            }
            Caller::Later { lowest, highest } => {
                self.check_callback_result(&result, lowest, highest)?;
                self.check_nothing_held("a callback returns")?;
                Ok(Next::Done)
            }
        }
    }

    fn check_callback_result(&mut self, result: &Register, lowest: i64, highest: i64) -> Step<()> {
        self.mark_precise(result);
        let inside = result.kind == Kind::Scalar && lowest <= result.scalar.smin && result.scalar.smax <= highest;
        if inside {
            return Ok(());
        }
        reject(Reason::ReturnValue, format!("the callback may return other values than {lowest} to {highest}"))
    }

    pub(crate) fn check_nothing_held(&self, when: &str) -> Step<()> {
        if let Some(held) = self.state.references.first() {
            let site = self.code.op(held.at).node.insn;
            return reject(
                Reason::UnreleasedReference,
                format!("{when} while the reference acquired by `{site}` (instruction {}) is held", held.at),
            );
        }
        if !self.state.locks.is_empty() {
            return reject(Reason::LockDiscipline, format!("{when} while a lock is held"));
        }
        self.check_sections_left(when)
    }

    pub(crate) fn check_program_end(&mut self, result: &Register) -> Step<()> {
        self.check_nothing_held("the program ends")?;
        match self.program_type.return_rule(self.code.program.attach_type) {
            ReturnRule::AnyScalar => {
                self.check_leak(result, "is returned")?;
                Ok(())
            }
            ReturnRule::Range { minimum, maximum } => self.check_returned_range(result, minimum, maximum),
            ReturnRule::DependsOnHook if self.program_type == ProgramType::Ext => {
                unsupported("return values of what is replaced")
            }
            ReturnRule::DependsOnHook => match self.hook_return()? {
                HookReturn::Nothing | HookReturn::Any => Ok(()),
                HookReturn::Range(minimum, maximum) => self.check_returned_range(result, minimum, maximum),
            },
        }
    }

    fn check_returned_range(&mut self, result: &Register, minimum: i32, maximum: i32) -> Step<()> {
        if result.kind != Kind::Scalar {
            return reject(Reason::ReturnValue, "r0 is a pointer at the end of the program");
        }
        self.mark_precise(result);
        let Scalar { s32_min, s32_max, .. } = result.scalar;
        if s32_min < minimum || s32_max > maximum {
            return reject(
                Reason::ReturnValue,
                format!("the program may return {s32_min} to {s32_max}, allowed are {minimum} to {maximum}"),
            );
        }
        Ok(())
    }

    /// Whether what is in R0 at the end is of no interest: the hook returns nothing.
    fn returns_nothing(&self) -> bool {
        let rule = self.program_type.return_rule(self.code.program.attach_type);
        let depends = rule == ReturnRule::DependsOnHook && self.program_type != ProgramType::Ext;
        depends && matches!(self.hook_return(), Ok(HookReturn::Nothing))
    }

    /// The stack of a chain of calls, in sum.
    pub(crate) fn check_stack_depth(&self) -> Result<u32, (usize, u32)> {
        let later = (0..self.code.functions.len()).filter(|at| *at != 0 && self.later_callbacks[*at]);
        let mut most = 0;
        for root in std::iter::once(0).chain(later) {
            // What runs later has the kernel's stack for itself, and no private one.
            let private = root == 0 && self.has_private_stacks();
            let mut known = vec![None; self.code.functions.len()];
            most = most.max(self.deepest(root, 0, private, &mut Vec::new(), &mut known)?.bytes);
        }
        Ok(most)
    }

    fn has_private_stacks(&self) -> bool {
        let interrupts = matches!(
            self.program_type,
            ProgramType::Kprobe | ProgramType::Tracepoint | ProgramType::PerfEvent | ProgramType::RawTracepoint
        );
        interrupts
            && self.kernel_has(Feature::PrivateStacks)
            && !self.code.ops.iter().any(|op| op.helper.is_some_and(|helper| helper.name == "tail_call"))
    }

    /// The deepest chain of calls that begins with a function; `above`: bytes that its callers use.
    fn deepest(
        &self,
        function: usize,
        above: u32,
        private: bool,
        chain: &mut Vec<usize>,
        known: &mut [Option<Depth>],
    ) -> Result<Depth, (usize, u32)> {
        let within = |depth: Depth, frames: usize| {
            let fits = above + depth.bytes <= MAX_CALL_CHAIN_STACK_BYTES && frames + depth.frames <= MAX_CALL_FRAMES;
            if fits { Ok(depth) } else { Err((function, above + depth.bytes)) }
        };
        if let Some(depth) = known[function] {
            return within(depth, chain.len());
        }
        if chain.contains(&function) || chain.len() >= MAX_CALL_FRAMES {
            return Err((function, above));
        }
        let unit = if self.kernel_has(Feature::FineStackSum) { 16 } else { 32 };
        let own = self.stack_bytes[function].max(1).next_multiple_of(unit);
        // Programs that may interrupt others get a stack of their own for each larger frame.
        let own = if private && own >= PRIVATE_STACK_BYTES { 0 } else { own };
        within(Depth { bytes: own, frames: 1 }, chain.len())?;
        chain.push(function);
        let routine = &self.code.functions[function];
        let mut below = Depth { bytes: 0, frames: 0 };
        for op in &self.code.ops[routine.start as usize..routine.end as usize] {
            let Some(callee) = op.callee else { continue };
            if self.later_callbacks[callee] && matches!(op.node.insn, Insn::LoadImm64 { .. }) {
                continue;
            }
            let depth = self.deepest(callee, above + own, private, chain, known)?;
            below = Depth { bytes: below.bytes.max(depth.bytes), frames: below.frames.max(depth.frames) };
        }
        chain.pop();
        let depth = Depth { bytes: own + below.bytes, frames: 1 + below.frames };
        known[function] = Some(depth);
        Ok(depth)
    }
}
