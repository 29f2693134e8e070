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
//! so neither needs extra code.
//!
//! From the bottom up:
//!
//! - `assembler`: words and labels; `registers`: the assignment of machine registers;
//! - `shared`: what the functions of a program share; `function`: one of them, its frame and its labels;
//! - `alu`, `memory`, `control`: the code of instructions; `native`: marked regions;
//! - `walk`: what of the walk over instructions is this machine's.

mod alu;
mod assembler;
mod control;
mod function;
mod memory;
pub(crate) mod native;
mod registers;
mod shared;
mod walk;

use std::collections::HashMap;

use kiln_isa::operation::Arch;
use kiln_program::operation::Schedule;
use kiln_program::{FunctionId, Object};

use crate::plan::Plan;
use crate::shared::{schedules, spans};
use crate::walk::Compile as _;
use crate::{Code, Error, Options, Symbols};
use assembler::Assembler;
use function::FunctionCompiler;
use shared::Shared;

/// Maximum bytes of code: the range of unconditional jumps.
const MAX_CODE_BYTES: usize = 64 << 20;

/// Compiles a program: its entry and every function that calls and callbacks reach.
///
/// # Errors
/// [`Error::Unsupported`] and [`Error::Unresolved`] with the instruction; [`Error::Malformed`] for an object that
/// does not validate; [`Error::Operation`] for a mark that is not true.
pub fn compile(object: &Object, entry: FunctionId, symbols: &dyn Symbols, options: &Options) -> Result<Code, Error> {
    let plan = Plan::new(object, entry, symbols, options, false)?;
    let schedules = schedules(object, &plan, options, Arch::Aarch64)?;
    for far in [false, true] {
        if let Some(code) = attempt(object, entry, symbols, options, &plan, &schedules, far)? {
            return Ok(code);
        }
    }
    Err(Error::Limit { bytes: MAX_CODE_BYTES, limit: MAX_CODE_BYTES })
}

/// The code, or `None` if a distance does not fit.
fn attempt(
    object: &Object,
    entry: FunctionId,
    symbols: &dyn Symbols,
    options: &Options,
    plan: &Plan,
    schedules: &HashMap<FunctionId, Schedule<'_>>,
    far: bool,
) -> Result<Option<Code>, Error> {
    let assembler = Assembler::new(far, options.blind);
    let mut shared = Shared::new(object, symbols, options, plan, schedules, assembler);
    for id in &plan.order {
        FunctionCompiler::new(&mut shared, *id, *id == entry)?.compile()?;
        if shared.assembler.len() > MAX_CODE_BYTES {
            return Err(Error::Limit { bytes: shared.assembler.len(), limit: MAX_CODE_BYTES });
        }
    }
    for id in &plan.callbacks {
        shared.callback(*id)?;
    }
    let Shared { assembler, functions, parts, .. } = shared;
    let Some(done) = assembler.finish() else { return Ok(None) };
    let parts = parts.into_iter().map(|(part, label)| (part, done.offset(label))).collect();
    Ok(Some(Code {
        entry_offset: done.offset(functions[&entry]),
        functions: plan.order.iter().map(|id| (*id, done.offset(functions[id]))).collect(),
        spans: spans(parts, done.bytes.len()),
        bytes: done.bytes,
    }))
}
