//! Global variables: constants before programs are verified, and variables of a VM.

use std::sync::Arc;

use kiln_inspect::input::meant;
use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{MapContents, Object};
use kiln_vm::UpdateFlag;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::failure::{detached, invalid, missing, of_vm};
use crate::object::Owned;
use crate::values::Typed;

/// Sections of BTF that are not maps with variables.
const OTHER_SECTIONS: [&str; 4] = [".maps", "license", "version", ".kconfig"];

/// A variable of a data section.
struct Variable<'t> {
    name: &'t str,
    section: &'t str,
    type_id: TypeId,
    offset: usize,
    size: usize,
}

/// The variables of an object.
fn variables(types: &Btf) -> impl Iterator<Item = Variable<'_>> {
    let sections = types.own_ids().filter(|id| matches!(types.kind(*id), Kind::Section { .. }));
    let sections = sections.filter(|id| !OTHER_SECTIONS.contains(&types.name(*id)));
    sections.flat_map(move |section| {
        types.variables(section).iter().filter_map(move |variable| {
            let Kind::Variable { target, .. } = *types.kind(variable.type_id) else { return None };
            Some(Variable {
                name: types.name(variable.type_id),
                section: types.name(section),
                type_id: target,
                offset: variable.offset as usize,
                size: usize::try_from(types.size_of(target)?).ok()?,
            })
        })
    })
}

fn find<'t>(types: Option<&'t Btf>, name: &str) -> PyResult<(&'t Btf, Variable<'t>)> {
    let types = types.ok_or_else(|| invalid("the object has no BTF, which names its variables (clang -g)"))?;
    let found = variables(types).find(|variable| variable.name == name);
    let found = found.ok_or_else(|| {
        let known: Vec<&str> = variables(types).map(|variable| variable.name).collect();
        missing(format!("there is no global variable {name}{}", meant(name, known.into_iter())))
    })?;
    Ok((types, found))
}

/// Sets variables in the contents of an object's data sections, before they are verified.
///
/// # Errors
/// Returns `KeyError` for a variable that is not there, and `InvalidInput` for a value that does not fit.
pub fn set_constants(object: &mut Object, types: Option<&Btf>, constants: &Bound<'_, PyDict>) -> PyResult<()> {
    for (name, value) in constants {
        let name = name.cast::<PyString>().map_err(|_| invalid("names of constants are strings"))?;
        let name = name.to_str()?;
        let (types, variable) = find(types, name)?;
        let map = object.maps.iter_mut().find(|map| map.name == variable.section);
        let map = map.ok_or_else(|| invalid(format!("{name}: section {} is no map", variable.section)))?;
        let total = map.value_size as usize;
        let mut bytes = match &map.contents {
            MapContents::Data(bytes) | MapContents::ReadOnly(bytes) => bytes.clone(),
            _ => vec![0; total],
        };
        put(types, &variable, &value, &mut bytes)?;
        map.contents = match map.contents {
            MapContents::ReadOnly(_) => MapContents::ReadOnly(bytes),
            _ => MapContents::Data(bytes),
        };
    }
    Ok(())
}

/// Writes a variable's value into its section.
fn put(types: &Btf, variable: &Variable<'_>, value: &Bound<'_, PyAny>, section: &mut [u8]) -> PyResult<()> {
    let outside = || invalid(format!("{} lies outside of section {}", variable.name, variable.section));
    let end = variable.offset.checked_add(variable.size).filter(|end| *end <= section.len()).ok_or_else(outside)?;
    let typed = Typed { types: Some(types), id: variable.type_id.0 };
    let wrong = |error: PyErr| invalid(format!("{}: {}", variable.name, error.value(value.py())));
    let bytes = typed.to_bytes(value, variable.size).map_err(wrong)?;
    section[variable.offset..end].copy_from_slice(&bytes);
    Ok(())
}

/// The global variables of an object, by name. Constants can be read, and are set when the object is made.
#[pyclass(frozen, module = "kiln_ebpf")]
pub struct Globals {
    owned: Arc<Owned>,
}

impl Globals {
    /// Those of an object.
    pub fn new(owned: Arc<Owned>) -> Globals {
        Globals { owned }
    }

    /// The bytes of a section.
    fn section(&self, py: Python<'_>, name: &str) -> PyResult<Vec<u8>> {
        detached(py, || {
            let vm = self.owned.vm();
            let found = vm.map(name).and_then(|map| vm.look_up(map, &0_u32.to_ne_bytes()));
            found.map_err(|error| of_vm(&error))?.ok_or_else(|| missing(format!("there is no section {name}")))
        })
    }
}

#[pymethods]
impl Globals {
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let (types, variable) = find(self.owned.types.as_ref(), name)?;
        let section = self.section(py, variable.section)?;
        let bytes = variable.offset.checked_add(variable.size).and_then(|end| section.get(variable.offset..end));
        let bytes = bytes.ok_or_else(|| invalid(format!("{name} lies outside of its section")))?;
        Typed { types: Some(types), id: variable.type_id.0 }.to_python(py, bytes)
    }

    fn __setitem__(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (types, variable) = find(self.owned.types.as_ref(), name)?;
        let map = self.owned.input.object.maps.iter().find(|map| map.name == variable.section);
        if map.is_some_and(kiln_program::Map::is_constant) {
            return Err(invalid(format!("{name} is a constant: pass Object(..., constants={{{name:?}: ...}})")));
        }
        let mut section = self.section(py, variable.section)?;
        put(types, &variable, value, &mut section)?;
        detached(py, || {
            let vm = self.owned.vm();
            let key = 0_u32.to_ne_bytes();
            let set = vm.map(variable.section).and_then(|map| vm.update(map, &key, &section, UpdateFlag::Any));
            set.map_err(|error| of_vm(&error))
        })
    }

    /// The names of the variables.
    fn keys(&self) -> Vec<String> {
        let types = self.owned.types.as_ref();
        types.into_iter().flat_map(variables).map(|variable| variable.name.to_owned()).collect()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.keys().into_pyobject(py)?.try_iter()?.into_any())
    }

    fn __len__(&self) -> usize {
        self.keys().len()
    }

    fn __contains__(&self, name: &str) -> bool {
        find(self.owned.types.as_ref(), name).is_ok()
    }

    fn __repr__(&self) -> String {
        format!("Globals({:?})", self.keys())
    }
}
