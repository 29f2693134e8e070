//! Maps as Python's mappings.

use std::net::IpAddr;
use std::sync::Arc;

use kiln_platform::MapType;
use kiln_program::MapId;
use kiln_vm::{Error, UpdateFlag, Vm};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::failure::{detached, invalid, missing, of_vm};
use crate::object::Owned;
use crate::values::Typed;

/// Bytes of a CPU's value begin at multiples of this.
const CPU_VALUE_ALIGN: usize = 8;

/// A map of an object, used like a `dict`: `map[key]`, `map[key] = value`, `del map[key]`, `key in map`, `map.items()`.
///
/// Keys and values are Python values by the object's BTF, or `bytes`. A per-CPU map's value is a list with one for each CPU;
/// setting one value sets it for all. A prog array takes names of programs, a map of maps names of maps, a longest-prefix
/// map also `"10.0.0.0/8"`.
#[pyclass(frozen, mapping, module = "kiln_ebpf")]
pub struct Map {
    owned: Arc<Owned>,
    at: usize,
}

impl Map {
    /// The map of this name.
    pub fn find(owned: &Arc<Owned>, name: &str) -> Option<Map> {
        let at = owned.input.object.maps.iter().position(|map| map.name == name)?;
        Some(Map { owned: Arc::clone(owned), at })
    }

    fn definition(&self) -> &kiln_program::Map {
        &self.owned.input.object.maps[self.at]
    }

    fn id(&self) -> MapId {
        MapId(self.at as u32)
    }

    fn key_type(&self) -> Typed<'_> {
        Typed { types: self.owned.types.as_ref(), id: self.definition().key_btf }
    }

    fn value_type(&self) -> Typed<'_> {
        Typed { types: self.owned.types.as_ref(), id: self.definition().value_btf }
    }

    fn per_cpu(&self) -> bool {
        self.definition().map_type.rules().per_cpu
    }

    /// Uses the VM with the GIL released.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&Vm, MapId) -> Result<T, Error> + Send) -> PyResult<T> {
        detached(py, || work(&self.owned.vm(), self.id()).map_err(|error| of_vm(&error)))
    }

    fn key(&self, key: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let map = self.definition();
        let size = map.key_size as usize;
        if let (MapType::LpmTrie, Ok(text)) = (map.map_type, key.cast::<PyString>()) {
            let text = text.to_str()?;
            return prefix(text, size).ok_or_else(|| invalid(format!("{text} is not a prefix of this map's size")));
        }
        self.key_type().to_bytes(key, size).map_err(|error| self.wrong("key", &error, key.py()))
    }

    fn wrong(&self, what: &str, error: &PyErr, py: Python<'_>) -> PyErr {
        invalid(format!("map {}: {what}: {}", self.definition().name, error.value(py)))
    }

    /// A value's bytes as user space passes them: of per-CPU maps one for each CPU.
    fn value_bytes(&self, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let size = self.definition().value_size as usize;
        let typed = self.value_type();
        let bytes = |value: &Bound<'_, PyAny>| {
            typed.to_bytes(value, size).map_err(|error| self.wrong("value", &error, value.py()))
        };
        if !self.per_cpu() {
            return bytes(value);
        }
        let cpus = self.owned.cpus as usize;
        let values = match value.cast::<PyList>() {
            Ok(list) if list.len() != cpus => {
                return Err(invalid(format!("{} values for {cpus} CPUs", list.len())));
            }
            Ok(list) => list.iter().map(|value| bytes(&value)).collect::<PyResult<Vec<_>>>()?,
            Err(_) => vec![bytes(value)?; cpus],
        };
        let padded = values.into_iter().flat_map(|mut value| {
            value.resize(size.next_multiple_of(CPU_VALUE_ALIGN), 0);
            value
        });
        Ok(padded.collect())
    }

    fn value<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let map = self.definition();
        let typed = self.value_type();
        match map.map_type {
            // What user space reads there is a number of Kiln's.
            MapType::ProgArray | MapType::ArrayOfMaps | MapType::HashOfMaps => Ok(PyBytes::new(py, bytes).into_any()),
            _ if self.per_cpu() => {
                let size = map.value_size as usize;
                let list = PyList::empty(py);
                for part in bytes.chunks(size.next_multiple_of(CPU_VALUE_ALIGN).max(1)) {
                    list.append(typed.to_python(py, part.get(..size).unwrap_or(part))?)?;
                }
                Ok(list.into_any())
            }
            _ => typed.to_python(py, bytes),
        }
    }

    fn find_value(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        let bytes = self.key(key)?;
        self.with(key.py(), |vm, id| vm.look_up(id, &bytes))
    }

    fn no_entry(&self, key: &Bound<'_, PyAny>) -> PyErr {
        missing(format!("map {} has no entry {key}", self.definition().name))
    }

    /// Keys, values, or both, as `part` makes them of an entry.
    fn list<'py>(
        &self,
        py: Python<'py>,
        part: impl Fn(&[u8], &[u8]) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let entries = self.with(py, |vm, id| vm.entries(id))?;
        let list = PyList::empty(py);
        for (key, value) in &entries {
            list.append(part(key, value)?)?;
        }
        Ok(list)
    }
}

/// The key of a prefix such as `10.0.0.0/8`: its bits, then its address.
fn prefix(text: &str, size: usize) -> Option<Vec<u8>> {
    let (address, bits) = text.split_once('/')?;
    let address = match address.parse().ok()? {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let bits: u32 = bits.parse().ok().filter(|bits| *bits as usize <= 8 * address.len())?;
    let key = [&bits.to_ne_bytes()[..], &address].concat();
    (key.len() == size).then_some(key)
}

#[pymethods]
impl Map {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.definition().name
    }

    /// Its type, such as `hash`.
    #[getter]
    fn type_name(&self) -> &'static str {
        self.definition().map_type.name()
    }

    /// Bytes of a key.
    #[getter]
    fn key_size(&self) -> u32 {
        self.definition().key_size
    }

    /// Bytes of a value.
    #[getter]
    fn value_size(&self) -> u32 {
        self.definition().value_size
    }

    /// Entries at most; of a ring buffer bytes.
    #[getter]
    fn max_entries(&self) -> u32 {
        self.definition().max_entries
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = self.find_value(key)?.ok_or_else(|| self.no_entry(key))?;
        self.value(py, &bytes)
    }

    /// The value of a key, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.find_value(key)? {
            Some(bytes) => self.value(py, &bytes).map(Some),
            None => Ok(default),
        }
    }

    /// The value of a key as it is in memory: of per-CPU maps all of them, each rounded up to eight bytes.
    fn raw<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.find_value(key)?.ok_or_else(|| self.no_entry(key))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = self.key(key)?;
        let name = value.cast::<PyString>().map(|name| name.to_string_lossy().into_owned());
        match (self.definition().map_type, name) {
            (MapType::ProgArray, Ok(program)) => {
                let index = bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
                crate::program::load(py, &self.owned, program.clone())?;
                self.with(py, |vm, id| vm.set_program(id, index, &program))
            }
            (MapType::ArrayOfMaps | MapType::HashOfMaps, Ok(inner)) => {
                self.with(py, |vm, id| vm.set_inner_map(id, &bytes, vm.map(&inner)?))
            }
            (MapType::ProgArray, _) => Err(invalid("a prog array takes names of programs")),
            (MapType::ArrayOfMaps | MapType::HashOfMaps, _) => Err(invalid("a map of maps takes names of maps")),
            _ => {
                let value = self.value_bytes(value)?;
                self.with(py, |vm, id| vm.update(id, &bytes, &value, UpdateFlag::Any))
            }
        }
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = self.key(key)?;
        let found = self.with(key.py(), |vm, id| vm.look_up(id, &bytes))?;
        found.ok_or_else(|| self.no_entry(key))?;
        self.with(key.py(), |vm, id| vm.delete(id, &bytes))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find_value(key)?.is_some())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |vm, id| vm.walk(id, 0).map(|walked| walked.count))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.keys(py)?.try_iter()?.into_any())
    }

    /// All keys, sorted by their bytes; of an array all indices.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, |key, _| self.key_type().to_python(py, key))
    }

    /// All values, in the order of their keys.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, |_, value| self.value(py, value))
    }

    /// All entries: pairs of key and value.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.list(py, |key, value| {
            let pair = (self.key_type().to_python(py, key)?, self.value(py, value)?);
            Ok(pair.into_pyobject(py)?.into_any())
        })
    }

    /// Adds a value to a queue, a stack or a Bloom filter.
    fn push(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = self.value_bytes(value)?;
        self.with(py, |vm, id| vm.update(id, &[], &value, UpdateFlag::Any))
    }

    /// Takes the records of a ring buffer that programs have submitted, oldest first.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let records = self.with(py, |vm, id| vm.drain(id))?;
        Ok(records.iter().map(|record| PyBytes::new(py, record)).collect())
    }

    fn __repr__(&self) -> String {
        let map = self.definition();
        format!("Map({:?}, type={:?}, max_entries={})", map.name, map.map_type.name(), map.max_entries)
    }
}
