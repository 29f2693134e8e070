//! Programs loaded for a run, in the VM and in the kernel, with their maps filled.

use kiln_inspect::Input;
use kiln_inspect::check::{self, Verdict};
use kiln_program::{Error, Object, Program};
use kiln_verifier::Prepared;
use kiln_vm::Vm;

use crate::inputs::feed::Feed;
use crate::kernel;

/// The instructions that a run in the VM may take, unless the caller sets another limit.
pub const DEFAULT_BUDGET: u64 = 1_000_000_000;

/// A VM with one program loaded, its maps filled.
pub(crate) fn fed_vm(
    object: &Object,
    program: &Program,
    mut options: kiln_vm::Options,
    feed: &Feed,
) -> Result<Vm, Error> {
    let cpus = feed.cpus()?;
    options.surroundings.cpus = cpus;
    let mut vm = new_vm(object, program, options)?;
    feed.fill_vm(object, &mut vm, cpus)?;
    Ok(vm)
}

/// A program in the kernel, its maps filled.
pub(crate) fn fed_kernel(
    input: &Input,
    object: &Object,
    program: &Program,
    feed: &Feed,
) -> Result<kernel::KernelProgram, Error> {
    let names = feed.names(object)?;
    let loaded = kernel::load_fed(input, object, program, (!feed.is_empty()).then_some(&names[..]))?;
    feed.fill_kernel(object, &loaded.object)?;
    Ok(loaded)
}

/// A VM with one program loaded, verified.
///
/// # Errors
/// Returns those of [`crate::run::run`].
pub fn load_vm(input: &Input, program: &Program, insn_budget: u64) -> Result<Vm, Error> {
    let options = kiln_vm::Options { budget: insn_budget, ..Default::default() };
    new_vm(&input.object, program, options)
}

/// A VM for an object with one program loaded, verified, and with the programs that its prog arrays hold. Maps without a
/// size get one ([`kiln_vm::prepare`]).
///
/// # Errors
/// Returns those of [`crate::run::run`], also for a program that a prog array holds, and [`Error::Rejected`] if that program
/// is of another type.
pub fn new_vm(object: &Object, program: &Program, options: kiln_vm::Options) -> Result<Vm, Error> {
    Vm::open(object, &program.name, options).map_err(|error| explained(object, error))
}

/// A rejection as `kiln check` explains it; any other error as it is.
fn explained(object: &Object, error: kiln_vm::Error) -> Error {
    let named = |name: &String| object.programs.iter().find(|program| program.name == *name);
    let kiln_vm::Error::Rejected { program, .. } = &error else { return error.into() };
    let Some(program) = named(program) else { return error.into() };
    let object = kiln_vm::with_sized_maps(object.clone());
    let options = kiln_verifier::Options { explain: true, skip_facts: true, ..Default::default() };
    match check::verdict(&Prepared::new(&object, &options), program, &options) {
        Verdict::Rejected { explanation, .. } => {
            Error::Rejected(format!("{} is rejected\n{}", program.name, explanation.trim_end()))
        }
        _ => error.into(),
    }
}
