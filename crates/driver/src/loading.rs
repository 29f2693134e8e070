//! Programs loaded for a run, in the VM and in the kernel, with their maps filled.

use kiln_inspect::Input;
use kiln_inspect::check::{self, Verdict};
use kiln_isa::operation::Registry;
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

/// The object with entries for maps that leave their number to the loader: the same as in the kernel, where the map's
/// type allows them, a page for ring buffers, and none for what has no number of entries (storage of sockets and tasks).
pub fn with_sized_maps(object: &Object) -> Object {
    const PAGE_BYTES: u32 = 4096;
    let mut object = object.clone();
    for map in object.maps.iter_mut().filter(|map| map.max_entries == 0) {
        let rule = map.map_type.rules().entries;
        let sizes = [kernel::LOAD_TIME_ENTRIES, PAGE_BYTES];
        map.max_entries = sizes.into_iter().find(|size| rule.allows(*size)).unwrap_or(0);
    }
    object
}

/// A VM for an object with one program loaded, verified, and with the programs that its prog arrays hold. Maps without a
/// size get one ([`with_sized_maps`]).
///
/// # Errors
/// Returns those of [`crate::run::run`], also for a program that a prog array holds, and [`Error::Rejected`] if that program
/// is of another type.
pub fn new_vm(object: &Object, program: &Program, options: kiln_vm::Options) -> Result<Vm, Error> {
    let here = kiln_vm::HERE.map_or(options.operations, |here| options.operations.on(here));
    let object = marked(with_sized_maps(object), &here);
    let mut vm = Vm::new(&object, options)?;
    for needed in kernel::needed_programs(&object, program) {
        if needed.program_type != program.program_type {
            let types = [needed, program].map(|one| one.program_type.map_or("no type", |known| known.name()));
            return Err(Error::Rejected(format!(
                "{} ({}) and {} ({}) use one prog array: a tail call cannot lead to a program of another type",
                needed.name, types[0], program.name, types[1]
            )));
        }
        vm.load(&needed.name).map_err(|error| explained(&object, needed, error.into()))?;
    }
    Ok(vm)
}

/// The object with marks for the operations that are recognized in it, unless it has marks already.
pub(crate) fn marked(mut object: Object, operations: &Registry) -> Object {
    if object.operations.is_empty() {
        kiln_idiom::annotate(&mut object, operations);
    }
    object
}

/// A rejection as `kiln check` explains it; any other error as it is.
fn explained(object: &Object, program: &Program, error: Error) -> Error {
    if !matches!(error, Error::Rejected(_)) {
        return error;
    }
    let options = kiln_verifier::Options { explain: true, skip_facts: true, ..Default::default() };
    match check::verdict(&Prepared::new(object, &options), program, &options) {
        Verdict::Rejected { explanation, .. } => {
            Error::Rejected(format!("{} is rejected\n{}", program.name, explanation.trim_end()))
        }
        _ => error,
    }
}
