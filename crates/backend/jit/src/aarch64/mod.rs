//! 64-bit Arm code generation.
//!
//! ```text
//!   R0  R1  R2  R3  R4  R5 | R6  R7  R8  R9  | R10 | budget runtime | scratch
//!   x7  x0  x1  x2  x3  x4 | x19 x20 x21 x22 | x25 | x6     x24     | x9 to x13
//! ```
//!
//! BPF's arguments are the machine's, so helpers find theirs in place. A function leaves R0 in x7 and, for callers that
//! are not compiled code, in x0 too. A frame, from high to low: pairs of registers that the function changes, the BPF
//! stack (whose upper end x25 holds).
//!
//! The machine divides as BPF does (by zero: zero; the minimum by -1: itself) and takes shift amounts modulo the width,
//! so neither needs code around it.
//!
//! - `assembler`: words and labels; `function`: frames and the walk over instructions;
//! - `alu`, `memory`, `control`: their code; `native`: regions that marks say an operation does.

mod alu;
mod assembler;
mod control;
mod function;
mod memory;
mod native;

use std::collections::HashMap;

use kiln_isa::{Reg, Size};
use kiln_program::operation::{Schedule, schedule};
use kiln_program::{FunctionId, InsnId, Object};

use crate::plan::Plan;
use crate::{Code, Error, Options, Runtime, Symbols};
use assembler::{Assembler, Gpr, Label};
use function::FunctionCompiler;

/// Bytes of code at most: what unconditional jumps reach.
const MAX_CODE_BYTES: usize = 64 << 20;

/// Where a BPF register lives.
const fn gpr(reg: Reg) -> Gpr {
    const MAP: [Gpr; Reg::COUNT] =
        [Gpr(7), Gpr(0), Gpr(1), Gpr(2), Gpr(3), Gpr(4), Gpr(19), Gpr(20), Gpr(21), Gpr(22), Gpr(25)];
    MAP[reg.index()]
}

/// What callers that are not compiled code take for the result.
const RESULT: Gpr = Gpr(0);
/// The sixth argument of a helper.
const SIXTH: Gpr = Gpr(5);
/// The instructions left, while in compiled code.
const BUDGET: Gpr = Gpr(6);
/// The [`crate::Runtime`].
const RUNTIME: Gpr = Gpr(24);
/// Free within one instruction.
const SCRATCH: [Gpr; 5] = [Gpr(9), Gpr(10), Gpr(11), Gpr(12), Gpr(13)];

/// What the code of all functions shares.
struct Shared<'a> {
    object: &'a Object,
    symbols: &'a dyn Symbols,
    options: &'a Options,
    plan: &'a Plan,
    schedules: &'a HashMap<FunctionId, Schedule>,
    assembler: Assembler,
    functions: HashMap<FunctionId, Label>,
    callbacks: HashMap<FunctionId, Label>,
    insns: Vec<(InsnId, Label)>,
}

/// Compiles a program: its entry and every function that calls and callbacks reach.
///
/// # Errors
/// [`Error::Unsupported`] and [`Error::Unresolved`] with the instruction; [`Error::Malformed`] for an object that
/// does not validate; [`Error::Operation`] for a mark that is not true.
pub fn compile(object: &Object, entry: FunctionId, symbols: &dyn Symbols, options: &Options) -> Result<Code, Error> {
    let plan = Plan::new(object, entry, symbols, options)?;
    let scheduled = |id: &FunctionId| Ok((*id, schedule(object, *id, &options.operations)?));
    let schedules = plan.order.iter().map(scheduled).collect::<Result<HashMap<_, _>, Error>>()?;
    for far in [false, true] {
        if let Some(code) = attempt(object, entry, symbols, options, &plan, &schedules, far)? {
            return Ok(code);
        }
    }
    Err(Error::Limit { bytes: MAX_CODE_BYTES, limit: MAX_CODE_BYTES })
}

/// The code, or `None` where a distance does not fit.
fn attempt(
    object: &Object,
    entry: FunctionId,
    symbols: &dyn Symbols,
    options: &Options,
    plan: &Plan,
    schedules: &HashMap<FunctionId, Schedule>,
    far: bool,
) -> Result<Option<Code>, Error> {
    let mut assembler = Assembler::new(far);
    let functions = plan.order.iter().map(|id| (*id, assembler.label())).collect();
    let callbacks = plan.callbacks.iter().map(|id| (*id, assembler.label())).collect();
    let insns = Vec::new();
    let mut shared = Shared { object, symbols, options, plan, schedules, assembler, functions, callbacks, insns };
    for id in &plan.order {
        FunctionCompiler::new(&mut shared, *id, *id == entry)?.compile()?;
        if shared.assembler.len() > MAX_CODE_BYTES {
            return Err(Error::Limit { bytes: shared.assembler.len(), limit: MAX_CODE_BYTES });
        }
    }
    for id in &plan.callbacks {
        shared.callback(*id)?;
    }
    let Shared { assembler, functions, insns, .. } = shared;
    let Some(done) = assembler.finish() else { return Ok(None) };
    Ok(Some(Code {
        entry_offset: done.offset(functions[&entry]),
        functions: plan.order.iter().map(|id| (*id, done.offset(functions[id]))).collect(),
        insns: insns.iter().map(|(id, label)| (*id, done.offset(*label))).collect(),
        bytes: done.bytes,
    }))
}

impl Shared<'_> {
    fn function_label(&self, id: FunctionId) -> Result<Label, Error> {
        self.functions.get(&id).copied().ok_or(Error::Malformed("a call of a function that does not exist"))
    }

    /// The way from a helper into a function: a [`crate::HelperEntry`]. Arguments are in place already.
    fn callback(&mut self, id: FunctionId) -> Result<(), Error> {
        let target = self.function_label(id)?;
        let label = self.callbacks[&id];
        let cost = self.plan.function(id).cost;
        let reload = self.plan.function(id).may_tail_call;
        let (budget, metered) = (self.plan.budget, self.options.metered);
        let code = &mut self.assembler;
        code.align(16);
        code.bind(label);
        code.push_pair(RUNTIME, Gpr::LINK);
        code.mov(kiln_isa::Width::W64, RUNTIME, SIXTH);
        if budget {
            code.load(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
        }
        code.call(target);
        if budget {
            if reload {
                code.load(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
            }
            if metered {
                code.constant(SCRATCH[0], cost as u64);
                code.op(assembler::Op::Sub, kiln_isa::Width::W64, BUDGET, BUDGET, SCRATCH[0]);
            }
            code.store(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
        }
        code.pop_pair(RUNTIME, Gpr::LINK);
        code.ret();
        Ok(())
    }
}
