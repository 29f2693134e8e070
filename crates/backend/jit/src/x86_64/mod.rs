//! x86-64 code generation.
//!
//! BPF registers live where the kernel's JIT keeps them, so that the arguments of helpers are in place:
//!
//! ```text
//!   R0  R1  R2  R3  R4  R5 | R6  R7  R8  R9  | R10 | budget runtime | scratch
//!   rax rdi rsi rdx rcx r8 | rbx r13 r14 r15 | rbp | r9     r12     | r10 r11
//! ```
//!
//! A frame, from high to low: return address, the callee-saved registers that the function writes, the caller's rbp
//! (where rbp points), the BPF stack. A function that needs less has less: no rbp without stack accesses, nothing
//! below rsp where a leaf fits the red zone, no runtime register where nothing uses it.
//!
//! - `assembler`: bytes, labels, short and long jumps;
//! - `function`: frames and the walk over instructions; `alu`, `divide`, `memory`, `control`: their code;
//! - `native`: regions that marks say an operation does;
//! - `fuse`: runs of instructions that one machine instruction does.

mod alu;
mod assembler;
mod control;
mod divide;
mod function;
mod fuse;
mod memory;
mod native;

use std::collections::HashMap;

use kiln_isa::Reg;
use kiln_program::operation::{Schedule, schedule};
use kiln_program::{FunctionId, Object};

use crate::plan::Plan;
use crate::{Code, Error, Options, Symbols};
use assembler::{Arithmetic, Assembler, Gpr, Label, Memory};
use function::FunctionCompiler;
use kiln_isa::Width;

/// Bytes of code at most.
const MAX_CODE_BYTES: usize = 64 << 20;

/// Where a BPF register lives.
const fn gpr(reg: Reg) -> Gpr {
    const MAP: [Gpr; Reg::COUNT] =
        [Gpr::RAX, Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::RCX, Gpr::R8, Gpr::RBX, Gpr::R13, Gpr::R14, Gpr::R15, Gpr::RBP];
    MAP[reg.index()]
}

/// The instructions left, while in compiled code.
const BUDGET: Gpr = Gpr::R9;
/// The [`crate::Runtime`].
const RUNTIME: Gpr = Gpr::R12;
/// Free within one instruction.
const SCRATCH: Gpr = Gpr::R10;
/// Free within one instruction.
const SCRATCH2: Gpr = Gpr::R11;

const fn runtime_field(displacement: i32) -> Memory {
    Memory::at(RUNTIME, displacement)
}

/// What the code of all functions shares.
struct Shared<'a> {
    object: &'a Object,
    symbols: &'a dyn Symbols,
    options: &'a Options,
    plan: Plan,
    schedules: &'a HashMap<FunctionId, Schedule>,
    assembler: Assembler,
    functions: HashMap<FunctionId, Label>,
    callbacks: HashMap<FunctionId, Label>,
    insns: Vec<(kiln_program::InsnId, Label)>,
}

/// Compiles a program: its entry and every function that calls and callbacks reach.
///
/// # Errors
/// [`Error::Unsupported`] and [`Error::Unresolved`] with the instruction; [`Error::Malformed`] for an object that
/// does not validate.
pub fn compile(object: &Object, entry: FunctionId, symbols: &dyn Symbols, options: &Options) -> Result<Code, Error> {
    let plan = Plan::new(object, entry, symbols, options)?;
    let order: Vec<FunctionId> = plan.order.clone();
    let scheduled = |id: &FunctionId| Ok((*id, schedule(object, *id, &options.operations)?));
    let schedules = order.iter().map(scheduled).collect::<Result<HashMap<_, _>, Error>>()?;
    let schedules = &schedules;
    let mut assembler = Assembler::default();
    let functions = order.iter().map(|id| (*id, assembler.label())).collect();
    let callbacks: HashMap<_, _> = plan.callbacks.iter().map(|id| (*id, assembler.label())).collect();
    let insns = Vec::new();
    let mut shared = Shared { object, symbols, options, plan, schedules, assembler, functions, callbacks, insns };
    for id in &order {
        FunctionCompiler::new(&mut shared, *id, *id == entry)?.compile()?;
        if shared.assembler.len() > MAX_CODE_BYTES {
            return Err(Error::Limit { bytes: shared.assembler.len(), limit: MAX_CODE_BYTES });
        }
    }
    for id in shared.plan.callbacks.clone() {
        shared.callback(id)?;
    }
    let Shared { assembler, functions, insns, .. } = shared;
    let done = assembler.finish();
    Ok(Code {
        entry_offset: done.offset(functions[&entry]),
        functions: order.iter().map(|id| (*id, done.offset(functions[id]))).collect(),
        insns: insns.iter().map(|(id, label)| (*id, done.offset(*label))).collect(),
        bytes: done.bytes,
    })
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
        let (budget, metered) = (self.plan.budget, self.options.metered);
        let code = &mut self.assembler;
        code.align(16);
        code.bind(label);
        code.push(RUNTIME);
        code.mov(Width::W64, RUNTIME, Gpr::R9);
        if budget {
            code.load(kiln_isa::Size::B8, BUDGET, runtime_field(crate::Runtime::BUDGET));
        }
        code.call(target);
        if budget {
            if self.plan.function(id).may_tail_call {
                code.load(kiln_isa::Size::B8, BUDGET, runtime_field(crate::Runtime::BUDGET));
            }
            if metered {
                code.arithmetic_imm(Arithmetic::Sub, Width::W64, BUDGET, cost);
            }
            code.store(kiln_isa::Size::B8, runtime_field(crate::Runtime::BUDGET), BUDGET);
        }
        code.pop(RUNTIME);
        code.ret();
        Ok(())
    }
}
