//! What a program of an object cannot be loaded without.

use std::collections::HashSet;

use crate::btf::{Btf, EXCEPTION_CALLBACK, Kind, TypeId};
use crate::object::{ExternKind, FunctionId, MapContents, MapId, MapSlot, Object, Program, Reference};

/// What a program cannot be loaded without, by name.
#[derive(Clone, Debug, Default)]
pub struct Needs<'a> {
    /// Maps that it refers to, and those in its maps of maps.
    pub maps: HashSet<&'a str>,
    /// Itself, and the programs to which its tail calls may lead by what the object puts into prog arrays.
    pub programs: HashSet<&'a str>,
    /// Symbols that the kernel must have.
    pub externs: HashSet<&'a str>,
}

impl<'a> Needs<'a> {
    /// What one program needs.
    pub fn of(object: &'a Object, program: &'a Program) -> Needs<'a> {
        let mut needs = Needs::default();
        needs.add(object, program);
        needs
    }

    /// Adds what another program needs.
    pub fn add(&mut self, object: &'a Object, program: &'a Program) {
        if !self.programs.insert(&program.name) {
            return;
        }
        let roots = [program.entry].into_iter().chain(exception_callbacks(object, program));
        for function in roots.flat_map(|root| object.reachable_functions(root)) {
            for node in &object.function(function).nodes {
                match node.reference {
                    Reference::Map(map) | Reference::MapValue { map, .. } => self.add_map(object, map),
                    Reference::Extern(symbol) => {
                        self.externs.insert(&object.externs[symbol.index()].name);
                        if let ExternKind::Kconfig { map, .. } = object.externs[symbol.index()].kind {
                            self.add_map(object, map);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Adds all prog arrays of the object that it fills, and their programs: libbpf fills them whether they are used or not.
    pub fn add_filled_prog_arrays(&mut self, object: &'a Object) {
        for (index, map) in object.maps.iter().enumerate() {
            let filled = matches!(&map.contents, MapContents::Slots(slots)
                if slots.iter().any(|(_, slot)| matches!(slot, MapSlot::Function(_))));
            if filled {
                self.add_map(object, MapId(index as u32));
            }
        }
    }

    fn add_map(&mut self, object: &'a Object, map: MapId) {
        let map = object.map(map);
        if !self.maps.insert(&map.name) {
            return;
        }
        let MapContents::Slots(slots) = &map.contents else { return };
        for (_, slot) in slots {
            match slot {
                MapSlot::Map(inner) => self.add_map(object, *inner),
                MapSlot::Function(entry) => {
                    if let Some(program) = object.programs.iter().find(|program| program.entry == *entry) {
                        self.add(object, program);
                    }
                }
            }
        }
    }
}

/// The functions that a program names to handle what it throws. No call leads to them.
fn exception_callbacks(object: &Object, program: &Program) -> Vec<FunctionId> {
    let entry = object.functions.get(program.entry.index()).filter(|entry| entry.btf_id != 0);
    let btf = object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok());
    let (Some(entry), Some(btf)) = (entry, btf) else { return Vec::new() };
    let named = btf.own_ids().filter_map(|id| match *btf.kind(id) {
        Kind::DeclTag { target: TypeId(target), component: None } if target == entry.btf_id => {
            btf.name(id).strip_prefix(EXCEPTION_CALLBACK)
        }
        _ => None,
    });
    let function = |name: &str| object.functions.iter().position(|function| function.name == name);
    named.filter_map(function).map(|at| FunctionId(at as u32)).collect()
}
