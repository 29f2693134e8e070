//! Calls of functions and returns from them.

use kiln_isa::{Insn, Reg};
use kiln_platform::limits::{MAX_CALL_CHAIN_STACK_BYTES, MAX_CALL_FRAMES, MAX_STACK_BEFORE_TAIL_CALL_BYTES};
use kiln_platform::{AttachType, Feature, ProgramType};

use crate::code::ends::End;
use crate::code::{Code, Op};
use crate::error::{Step, reject};
use crate::options::Options;
use crate::path::{Findings, Next, Path, Since};
use crate::reason::Reason;
use crate::state::{Caller, Kind, Register};

/// Frames at least as large get a private stack, where there are such (kernel `BPF_PRIV_STACK_MIN_SIZE`).
const PRIVATE_STACK_BYTES: u32 = 64;

/// How deep a chain of calls goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Depth {
    bytes: u32,
    frames: usize,
    /// Bytes that the functions from here on keep on the stack while a function below them makes a tail call.
    before_tail_call: Option<u32>,
}

/// A chain of calls that is refused.
pub(crate) struct TooDeep {
    /// Where it ends.
    pub function: usize,
    bytes: u32,
    /// The number of its functions.
    pub calls: usize,
    why: Deep,
}

/// Why a chain of calls is refused.
#[derive(Clone, Copy)]
enum Deep {
    /// Too many frames.
    Frames,
    /// Too much stack in sum.
    Sum,
    /// Too much stack below a tail call.
    TailCall,
}

impl TooDeep {
    pub(crate) fn message(&self) -> String {
        let TooDeep { bytes, calls, .. } = self;
        match self.why {
            Deep::Frames => format!("more than {MAX_CALL_FRAMES} frames of calls"),
            Deep::Sum => format!("the stack of this chain of {calls} calls is {bytes} bytes"),
            Deep::TailCall => {
                let most = MAX_STACK_BEFORE_TAIL_CALL_BYTES - 1;
                format!(
                    "a tail call is made with {bytes} bytes of stack in the functions that lead to it; {most} may be"
                )
            }
        }
    }

    /// Whether the chain takes too many bytes, rather than too many frames.
    pub(crate) fn is_about_bytes(&self) -> bool {
        !matches!(self.why, Deep::Frames)
    }

    /// The kernel's message.
    pub(crate) fn kernel_message(&self) -> String {
        let TooDeep { bytes, calls, .. } = self;
        match self.why {
            Deep::Frames => format!("the call stack of {MAX_CALL_FRAMES} frames is too deep !"),
            Deep::Sum => format!("combined stack size of {calls} calls is {bytes}. Too large"),
            Deep::TailCall => {
                format!("tail_calls are not allowed when call stack of previous frames is {bytes} bytes. Too large")
            }
        }
    }
}

impl Path<'_> {
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
        self.state.clobber();
        self.state.frames.push(frame);
        Ok(Next::At(self.code.functions[callee].start))
    }

    pub(crate) fn exit(&mut self) -> Step<Next> {
        let caller = self.state.frame().caller;
        if self.state.frames.len() == 1 {
            if let Some(returns_value) = self.state.global {
                return self.exit_global(returns_value);
            }
            let result = if self.types.returns_nothing(self.code) { Register::UNKNOWN } else { self.read(Reg::R0)? };
            self.findings.check_program_end(self.code, self.options, &self.types, &self.state, &result)?;
            return Ok(Next::Done);
        }
        self.findings.liveness.update(self.code, &self.state);
        // A function without a result may leave R0 as it is.
        let result = match caller {
            Caller::Call => *self.state.register(Reg::R0),
            _ => self.read(Reg::R0)?,
        };
        match caller {
            Caller::Call => {
                if result.kind() == Kind::Stack {
                    return reject(Reason::ReturnValue, "a function returns a pointer to a stack");
                }
                let site = self.state.frame().call_site;
                self.state.frames.pop();
                self.state.set(Reg::R0, result);
                Ok(Next::At(site + 1))
            }
            Caller::Callback { lowest, highest } => {
                self.findings.check_callback_result(&result, lowest, highest)?;
                let site = self.state.frame().call_site;
                self.state.frames.pop();
                Ok(Next::Widened(site, Since { site, skip_last: false, all: false }))
            }
            Caller::Later { lowest, highest } => {
                self.findings.check_callback_result(&result, lowest, highest)?;
                self.state.check_nothing_held(self.code, "a callback returns")?;
                Ok(Next::Done)
            }
        }
    }
}

impl Findings {
    /// Returns the stack of the deepest chain of calls, in bytes.
    pub(crate) fn check_stack_depth(&self, code: &Code<'_>, options: &Options) -> Result<u32, TooDeep> {
        let later = (0..code.functions.len()).filter(|at| *at != 0 && self.noted.later_callbacks[*at]);
        let mut most = 0;
        for root in std::iter::once(0).chain(later) {
            // A callback that runs later starts on an empty kernel stack, and gets no private one.
            let private = root == 0 && options.has_private_stacks(code);
            let mut known = vec![None; code.functions.len()];
            most = most.max(self.deepest(code, options, root, 0, private, &mut Vec::new(), &mut known)?.bytes);
        }
        Ok(most)
    }

    /// The deepest chain of calls that begins with a function; `above`: bytes that its callers use.
    fn deepest(
        &self,
        code: &Code<'_>,
        options: &Options,
        function: usize,
        above: u32,
        private: bool,
        chain: &mut Vec<usize>,
        known: &mut [Option<Depth>],
    ) -> Result<Depth, TooDeep> {
        let within = |depth: Depth, frames: usize| {
            let too_deep = |why, bytes| Err(TooDeep { function, bytes, calls: frames + depth.frames, why });
            let tail_call = depth.before_tail_call.map(|bytes| above + bytes);
            if frames + depth.frames > MAX_CALL_FRAMES {
                return too_deep(Deep::Frames, above + depth.bytes);
            }
            match tail_call {
                _ if above + depth.bytes > MAX_CALL_CHAIN_STACK_BYTES => too_deep(Deep::Sum, above + depth.bytes),
                Some(bytes) if bytes >= MAX_STACK_BEFORE_TAIL_CALL_BYTES => too_deep(Deep::TailCall, bytes),
                _ => Ok(depth),
            }
        };
        if let Some(depth) = known[function] {
            return within(depth, chain.len());
        }
        if chain.contains(&function) || chain.len() >= MAX_CALL_FRAMES {
            return Err(TooDeep { function, bytes: above, calls: chain.len() + 1, why: Deep::Frames });
        }
        let (unit, least) = if options.kernel_has(Feature::FineStackSum) { (16, 0) } else { (32, 1) };
        let own = self.noted.stack_bytes[function].max(least).next_multiple_of(unit);
        // Programs that may interrupt others get a stack of their own for each larger frame.
        let own = if private && own >= PRIVATE_STACK_BYTES { 0 } else { own };
        let routine = &code.functions[function];
        let ops = &code.ops[routine.start as usize..routine.end as usize];
        let is_tail_call = |op: &Op<'_>| End::of(op) == Some(End::TailCall);
        // The program that follows begins on top of what the callers keep.
        let mut before_tail_call = (!chain.is_empty() && ops.iter().any(is_tail_call)).then_some(0);
        within(Depth { bytes: own, frames: 1, before_tail_call }, chain.len())?;
        chain.push(function);
        let mut below = Depth { bytes: 0, frames: 0, before_tail_call: None };
        for op in ops {
            let Some(callee) = op.callee else { continue };
            if self.noted.later_callbacks[callee] && matches!(op.node.insn, Insn::LoadImm64 { .. }) {
                continue;
            }
            let depth = self.deepest(code, options, callee, above + own, private, chain, known)?;
            before_tail_call = before_tail_call.max(depth.before_tail_call.map(|bytes| own + bytes));
            below.bytes = below.bytes.max(depth.bytes);
            below.frames = below.frames.max(depth.frames);
        }
        chain.pop();
        let depth = Depth { bytes: own + below.bytes, frames: 1 + below.frames, before_tail_call };
        known[function] = Some(depth);
        Ok(depth)
    }
}

impl Options {
    fn has_private_stacks(&self, code: &Code<'_>) -> bool {
        // Those that may interrupt themselves, which the kernel does not let them (kernel `bpf_prog_check_recur`).
        let interrupts = match code.program_type {
            ProgramType::Kprobe | ProgramType::Tracepoint | ProgramType::PerfEvent | ProgramType::RawTracepoint => true,
            ProgramType::Tracing => code.program.attach_type != Some(AttachType::TraceIter),
            _ => false,
        };
        interrupts
            && self.kernel_has(Feature::PrivateStacks)
            && !code.ops.iter().any(|op| End::of(op) == Some(End::TailCall))
    }
}
