//! x86-64 code generation.
//!
//! BPF registers are in the same machine registers as in the kernel's JIT, so that the arguments of helpers are in
//! place:
//!
//! ```text
//!   R0  R1  R2  R3  R4  R5 | R6  R7  R8  R9  | R10 | budget runtime | scratch
//!   rax rdi rsi rdx rcx r8 | rbx r13 r14 r15 | rbp | r9     r12     | r10 r11
//! ```
//!
//! A frame, from high to low: return address, the callee-saved registers that the function writes, the caller's rbp
//! (where rbp points), the BPF stack. A function has only what it needs: no rbp without stack accesses, no space below
//! rsp if a leaf fits the red zone, no runtime register if it is unused.
//!
//! In a program that accesses an arena, rbp holds the arena's base instead, and frames are addressed from rsp, whose distance
//! is known: an access is `[offset + rbp + number]`, and functions need not set up rbp. The exception are programs that
//! compute with the frame pointer other than by addresses and copies (`Plan::base`).
//!
//! From the bottom up:
//!
//! - `operand`: registers and other parts of instructions; `registers`: the assignment of machine registers;
//! - `assembler`: labels, short and long jumps; `encoding`: instructions to bytes;
//! - `shared`: what the functions of a program share; `function`: one of them, its frame and its labels;
//! - `alu`, `divide`, `memory`, `control`: the code of instructions;
//! - `native`: marked regions;
//! - `blind`: constants that do not appear in the code;
//! - `fuse`: runs of instructions that one machine instruction does;
//! - `walk`: what of the walk over instructions is this machine's.

mod alu;
mod assembler;
mod blind;
mod control;
mod divide;
mod encoding;
mod function;
mod fuse;
mod memory;
pub(crate) mod native;
mod operand;
mod registers;
mod shared;
mod walk;

use kiln_isa::operation::Arch;
use kiln_program::{FunctionId, Object};

use crate::plan::Plan;
use crate::shared::{schedules, spans};
use crate::walk::Compile as _;
use crate::{Code, Error, Options, Symbols};
use assembler::Assembler;
use function::FunctionCompiler;
use shared::Shared;

/// Maximum bytes of code.
const MAX_CODE_BYTES: usize = 64 << 20;

/// Compiles a program: its entry and every function that calls and callbacks reach.
///
/// # Errors
/// [`Error::Unsupported`] and [`Error::Unresolved`] with the instruction; [`Error::Malformed`] for an object that
/// does not validate.
pub fn compile(object: &Object, entry: FunctionId, symbols: &dyn Symbols, options: &Options) -> Result<Code, Error> {
    let plan = &Plan::new(object, entry, symbols, options, true)?;
    let order = &plan.order;
    let schedules = &schedules(object, plan, options, Arch::X86_64)?;
    // What is compiled together has sums of constants in it.
    let options = &Options { fusions: options.fusions && options.blind.is_none(), ..*options };
    let assembler = Assembler::new(options.blind);
    let mut shared = Shared::new(object, symbols, options, plan, schedules, assembler);
    for id in order {
        FunctionCompiler::new(&mut shared, *id, *id == entry)?.compile()?;
        if shared.assembler.len() > MAX_CODE_BYTES {
            return Err(Error::Limit { bytes: shared.assembler.len(), limit: MAX_CODE_BYTES });
        }
    }
    for id in &plan.callbacks {
        shared.callback(*id)?;
    }
    shared.refill();
    let Shared { assembler, functions, parts, .. } = shared;
    let done = assembler.finish();
    let parts = parts.into_iter().map(|(part, label)| (part, done.offset(label))).collect();
    Ok(Code {
        entry_offset: done.offset(functions[&entry]),
        functions: order.iter().map(|id| (*id, done.offset(functions[id]))).collect(),
        spans: spans(parts, done.bytes.len()),
        bytes: done.bytes,
    })
}
