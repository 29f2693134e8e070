//! What a loader does before programs run: sizes of maps, marks of native operations, programs of prog arrays.

use kiln_isa::operation::Registry;
use kiln_program::{Needs, Object};

use crate::interface::{Error, Lacking, Options};
use crate::machine_code::HERE;
use crate::vm::Vm;

/// The object with entries for maps that leave their number to the loader, as many as in the kernel
/// ([`kiln_platform::MapRules::load_time_entries`]).
pub fn with_sized_maps(mut object: Object) -> Object {
    for map in object.maps.iter_mut().filter(|map| map.max_entries == 0) {
        map.max_entries = map.map_type.rules().load_time_entries();
    }
    object
}

/// The object with marks for the operations that are recognized in it, unless it has marks already.
pub fn marked(mut object: Object, operations: &Registry) -> Object {
    if object.operations.is_empty() {
        kiln_idiom::annotate(&mut object, operations);
    }
    object
}

/// The object as a VM with these options runs it best: with sizes for all maps, and with marks for the native operations
/// that this machine has.
pub fn prepare(object: Object, options: &Options) -> Object {
    let here = HERE.map_or(options.operations, |here| options.operations.on(here));
    marked(with_sized_maps(object), &here)
}

impl Vm {
    /// A VM for an object as loaders prepare it ([`prepare`]), with one program loaded ([`Vm::load_needed`]).
    ///
    /// # Errors
    /// Those of [`Vm::new`] and [`Vm::load_needed`].
    pub fn open(object: &Object, program: &str, options: Options) -> Result<Vm, Error> {
        let mut vm = Vm::with(prepare(object.clone(), &options), options, Lacking::Refused)?;
        vm.load_needed(program)?;
        Ok(vm)
    }

    /// Loads a program, and the programs to which its tail calls may lead by what the object puts into prog arrays.
    ///
    /// # Errors
    /// Those of [`Vm::load`] for each of them, and [`Error::Rejected`] for one of another program type.
    pub fn load_needed(&mut self, name: &str) -> Result<(), Error> {
        let own = self.find(name)?;
        let needs = Needs::of(&self.object, &own).programs;
        let needed = self.object.programs.iter().filter(|other| needs.contains(&*other.name));
        let needed: Vec<_> = needed.map(|other| (other.name.clone(), other.program_type)).collect();
        for (other, other_type) in needed {
            if other_type != own.program_type {
                let types = [other_type, own.program_type].map(|one| one.map_or("no type", |known| known.name()));
                return Err(Error::Rejected {
                    source: format!(
                        "{other} ({}) and {name} ({}) use one prog array: a tail call cannot lead to a program of another type",
                        types[0], types[1]
                    )
                    .into(),
                    program: other,
                });
            }
            self.load(&other)?;
        }
        Ok(())
    }
}
