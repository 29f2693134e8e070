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
    /// Functions, the deepest chain's.
    calls: usize,
    /// Frames of which there may be [`MAX_CALL_FRAMES`].
    frames: usize,
    /// Bytes that the functions from here on keep on the stack while a function below them makes a tail call.
    before_tail_call: Option<u32>,
}

/// What is above a function in a chain of calls.
#[derive(Clone, Copy)]
struct Above {
    bytes: u32,
    /// Frames that count for the function.
    frames: usize,
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
    /// A tail call in a callback that runs later.
    LaterTailCall,
}

impl TooDeep {
    pub(crate) fn message(&self) -> String {
        let TooDeep { bytes, calls, .. } = self;
        match self.why {
            Deep::Frames => format!("more than {MAX_CALL_FRAMES} frames of calls"),
            Deep::Sum => format!("the stack of this chain of {calls} calls is {bytes} bytes"),
            Deep::LaterTailCall => "a callback that runs later makes a tail call".to_owned(),
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
        matches!(self.why, Deep::Sum | Deep::TailCall)
    }

    /// The kernel's message.
    pub(crate) fn kernel_message(&self) -> String {
        let TooDeep { bytes, calls, .. } = self;
        match self.why {
            Deep::Frames => format!("the call stack of {MAX_CALL_FRAMES} frames is too deep !"),
            Deep::Sum => format!("combined stack size of {calls} calls is {bytes}. Too large"),
            Deep::LaterTailCall => "verifier bug: subprog has tail_call and async cb".to_owned(),
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
        let count = code.functions.len();
        let mut chains =
            Chains { findings: self, code, options, on_kernel_stack: vec![false; count], known: Vec::new() };
        let mut most = 0;
        // Callbacks that run later are first: what they call has no private stack in the program either.
        let later = (0..count).rev().filter(|at| *at != 0 && self.noted.later_callbacks[*at]);
        for root in later.chain([0]) {
            chains.known = vec![None; count];
            let private = root == 0 && options.has_private_stacks(code);
            most = most.max(chains.deepest(root, Above { bytes: 0, frames: 0 }, private, &mut Vec::new())?.bytes);
        }
        Ok(most)
    }
}

/// What the search for the deepest chain of calls knows.
struct Chains<'a> {
    findings: &'a Findings,
    code: &'a Code<'a>,
    options: &'a Options,
    /// Functions that are called by a callback which runs later.
    on_kernel_stack: Vec<bool>,
    /// What was found of the functions below the present root.
    known: Vec<Option<Depth>>,
}

impl Chains<'_> {
    /// The deepest chain of calls that begins with a function.
    fn deepest(
        &mut self,
        function: usize,
        above: Above,
        private: bool,
        chain: &mut Vec<usize>,
    ) -> Result<Depth, TooDeep> {
        if let Some(depth) = self.known[function] {
            return depth.within(function, above, chain.len());
        }
        let calls = chain.len() + 1;
        let too_deep = |function, why| Err(TooDeep { function, bytes: above.bytes, calls, why });
        if chain.contains(&function) || above.frames >= MAX_CALL_FRAMES {
            return too_deep(function, Deep::Frames);
        }
        let own = self.own_bytes(function, private);
        let code = self.code;
        // The program that follows begins on top of what the callers keep.
        let mut before_tail_call = (!chain.is_empty() && code.makes_tail_call(function)).then_some(0);
        Depth { bytes: own, calls: 1, frames: 1, before_tail_call }.within(function, above, chain.len())?;
        let mut below = Depth { bytes: 0, calls: 0, frames: 0, before_tail_call: None };
        for op in code.ops_of(function) {
            let Some(callee) = op.callee else { continue };
            let later = self.findings.noted.later_callbacks[callee];
            if later && code.makes_tail_call(callee) {
                return too_deep(callee, Deep::LaterTailCall);
            }
            if later && matches!(op.node.insn, Insn::LoadImm64 { .. }) {
                continue;
            }
            let restarts = self.frames_restart_at(callee);
            let frames = if restarts { 0 } else { above.frames + 1 };
            chain.push(function);
            let depth = self.deepest(callee, Above { bytes: above.bytes + own, frames }, private, chain)?;
            chain.pop();
            before_tail_call = before_tail_call.max(depth.before_tail_call.map(|bytes| own + bytes));
            below.bytes = below.bytes.max(depth.bytes);
            below.calls = below.calls.max(depth.calls);
            below.frames = below.frames.max(if restarts { 0 } else { depth.frames });
        }
        let [calls, frames] = [1 + below.calls, 1 + below.frames];
        let depth = Depth { bytes: own + below.bytes, calls, frames, before_tail_call };
        self.known[function] = Some(depth);
        Ok(depth)
    }

    /// Whether the frames above a function do not count for it: it is verified by itself.
    fn frames_restart_at(&self, function: usize) -> bool {
        let routine = &self.code.functions[function];
        routine.global && routine.btf_id != 0 && self.options.kernel_has(Feature::GlobalsBeginFrames)
    }

    /// What a function adds to the stack of its callers.
    fn own_bytes(&mut self, function: usize, private: bool) -> u32 {
        let (unit, least) = if self.options.kernel_has(Feature::FineStackSum) { (16, 0) } else { (32, 1) };
        let counted = self.findings.noted.counted_stack_bytes(self.code, function);
        let own = counted.max(least).next_multiple_of(unit);
        self.on_kernel_stack[function] |= !private;
        // Programs that may interrupt others get a stack of their own for each larger frame.
        let apart = !self.on_kernel_stack[function] && own >= PRIVATE_STACK_BYTES;
        if apart { 0 } else { own }
    }
}

impl<'a> Code<'a> {
    fn ops_of(&self, function: usize) -> &[Op<'a>] {
        let routine = &self.functions[function];
        &self.ops[routine.start as usize..routine.end as usize]
    }

    fn makes_tail_call(&self, function: usize) -> bool {
        self.ops_of(function).iter().any(|op| End::of(op) == Some(End::TailCall))
    }
}

impl Depth {
    /// Itself, if a function of that depth may be called below so many functions.
    fn within(self, function: usize, above: Above, callers: usize) -> Result<Depth, TooDeep> {
        let bytes = above.bytes + self.bytes;
        let too_deep = |why, bytes| Err(TooDeep { function, bytes, calls: callers + self.calls, why });
        match self.before_tail_call.map(|bytes| above.bytes + bytes) {
            _ if above.frames + self.frames > MAX_CALL_FRAMES => too_deep(Deep::Frames, bytes),
            _ if bytes > MAX_CALL_CHAIN_STACK_BYTES => too_deep(Deep::Sum, bytes),
            Some(bytes) if bytes >= MAX_STACK_BEFORE_TAIL_CALL_BYTES => too_deep(Deep::TailCall, bytes),
            _ => Ok(self),
        }
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
