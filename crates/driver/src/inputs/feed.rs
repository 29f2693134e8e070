//! What maps and global variables hold before a run.
//!
//! ```text
//!   --map config:0='{"mode": "STRICT", "limit": 5}'     an entry, by the map's BTF types
//!   --map jumps:1=second_program                        a program in a prog array
//!   --map routes:10.0.0.0/8=1                           a prefix in a longest-prefix map
//!   --map outer:1=inner                                 a map of the object in a map of maps
//!   --maps-file maps.json                               {"config": [...], "stats": [...]}, lists as bpftool prints them
//!   --maps-file stats=dump.json                         one list: bpftool map dump name stats -j > dump.json
//!   --set debug=true                                    a global variable
//! ```

use std::net::IpAddr;
use std::path::Path;

use kiln_linux::LoadedObject;
use kiln_platform::MapType;
use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{Map, MapContents, Object};
use kiln_vm::{UpdateFlag, Vm};
use serde_json::Value;

use crate::inputs::typed;
use kiln_inspect::file;
use kiln_inspect::input::meant;
use kiln_program::Error;

/// Bytes of a file of map entries at most.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// CPUs that entries may name.
const MAX_CPUS: usize = 1024;

/// What maps and global variables hold before a run.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    entries: Vec<Entry>,
    /// Global variables and their values.
    globals: Vec<(String, Value)>,
}

#[derive(Clone, Debug)]
struct Entry {
    map: String,
    key: Value,
    /// One value, or one for each CPU.
    values: Vec<Value>,
}

/// An entry as bytes.
struct Bytes {
    map: String,
    key: Vec<u8>,
    content: Content,
}

enum Content {
    /// A value for all CPUs, or, in a per-CPU map, one for each.
    Values { values: Vec<Vec<u8>>, per_cpu: bool },
    /// A program, in a prog array.
    Program(String),
    /// A map of the object, in a map of maps.
    Map(String),
}

fn invalid(text: impl Into<String>) -> Error {
    Error::InvalidInput(text.into())
}

/// JSON, or the text itself where it is none: `5`, `{"mode": 1}`, `0x10`, `10.0.0.1`.
fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

impl Feed {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.globals.is_empty()
    }

    /// Adds `NAME:KEY=VALUE`.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] for text of another form.
    pub fn entry(&mut self, text: &str) -> Result<(), Error> {
        let form = || invalid(format!("--map {text}: NAME:KEY=VALUE is expected, or NAME alone to print a map"));
        let (map, rest) = text.split_once(':').ok_or_else(form)?;
        let mut depth = 0;
        let equals = rest.char_indices().find(|(_, letter)| {
            depth += i32::from(matches!(letter, '{' | '[')) - i32::from(matches!(letter, '}' | ']'));
            *letter == '=' && depth == 0
        });
        let (key, value) = rest.split_at(equals.ok_or_else(form)?.0);
        let (key, value) = (json_or_text(key), json_or_text(&value[1..]));
        self.entries.push(Entry { map: map.to_owned(), key, values: vec![value] });
        Ok(())
    }

    /// Adds the entries of a file: `FILE` has lists by map name, `NAME=FILE` has the list of one map.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if the file cannot be read or has another form.
    pub fn file(&mut self, argument: &str) -> Result<(), Error> {
        let (map, path) = match argument.split_once('=') {
            Some((map, path)) => (Some(map), path),
            None => (None, argument),
        };
        let text = file::text(Path::new(path), MAX_FILE_BYTES)?;
        let wrong = |what: &str| invalid(format!("{path}: {what}"));
        let json: Value = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        match (map, json) {
            (Some(map), Value::Array(list)) => self.list(map, list).map_err(|what| wrong(&what)),
            (None, Value::Object(maps)) => maps.into_iter().try_for_each(|(map, list)| match list {
                Value::Array(list) => self.list(&map, list).map_err(|what| wrong(&what)),
                _ => Err(wrong(&format!("{map}: a list of entries is expected"))),
            }),
            (Some(_), _) => Err(wrong("a list of entries is expected, as `bpftool map dump -j` prints it")),
            (None, _) => Err(wrong("lists by map name are expected, {\"NAME\": [...]}; for one list say NAME=FILE")),
        }
    }

    fn list(&mut self, map: &str, list: Vec<Value>) -> Result<(), String> {
        for (at, entry) in list.into_iter().enumerate() {
            let wrong = || format!("{map}: entry {at} has no \"key\" and \"value\"");
            let key = entry.get("key").cloned().ok_or_else(wrong)?;
            let values = match (entry.get("value"), entry.get("values")) {
                (Some(value), _) => vec![value.clone()],
                (None, Some(Value::Array(values))) => {
                    values.iter().map(|one| one.get("value").cloned()).collect::<Option<_>>().ok_or_else(wrong)?
                }
                _ => return Err(wrong()),
            };
            self.entries.push(Entry { map: map.to_owned(), key, values });
        }
        Ok(())
    }

    /// Adds `GLOBAL=VALUE`.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] for text of another form.
    pub fn global(&mut self, text: &str) -> Result<(), Error> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| invalid(format!("--set {text}: NAME=VALUE is expected")))?;
        self.globals.push((name.to_owned(), json_or_text(value)));
        Ok(())
    }

    /// CPUs that a VM needs for the entries: one, or as many as an entry has values.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if an entry has values for more than [`MAX_CPUS`].
    pub fn cpus(&self) -> Result<u32, Error> {
        let most = self.entries.iter().map(|entry| entry.values.len()).max().unwrap_or(1).max(1);
        if most > MAX_CPUS {
            return Err(invalid(format!("an entry has values for {most} CPUs, more than {MAX_CPUS}")));
        }
        Ok(most as u32)
    }

    /// Sets the global variables in the contents of the object's data sections.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if there is no such variable, or the value does not fit it.
    pub fn set_globals(&self, object: &mut Object) -> Result<(), Error> {
        if self.globals.is_empty() {
            return Ok(());
        }
        let types = types_of(object).ok_or_else(|| invalid("--set: the object has no BTF (clang -g)"))?;
        for (name, json) in &self.globals {
            let (section, variable, offset) = find_global(&types, name).ok_or_else(|| {
                let known: Vec<&str> = globals(&types).map(|(_, _, id, _)| types.name(id)).collect();
                invalid(format!("there is no global variable {name}{}", meant(name, known.into_iter())))
            })?;
            let map = object.maps.iter_mut().find(|map| map.name == section);
            let map = map.ok_or_else(|| invalid(format!("{name}: section {section} is no map of this object")))?;
            let size = types.size_of(variable).unwrap_or(0) as usize;
            let total = map.value_size as usize;
            let mut bytes = match &map.contents {
                MapContents::Data(bytes) | MapContents::ReadOnly(bytes) => bytes.clone(),
                _ => vec![0; total],
            };
            let place = bytes.get_mut(offset..).and_then(|rest| rest.get_mut(..size));
            let place = place.ok_or_else(|| invalid(format!("{name} lies outside of section {section}")))?;
            typed::read(Some(&types), variable.0, json, place)
                .map_err(|what| invalid(format!("--set {name}: {what}")))?;
            map.contents = match map.contents {
                MapContents::ReadOnly(_) => MapContents::ReadOnly(bytes),
                _ => MapContents::Data(bytes),
            };
        }
        Ok(())
    }

    /// The entries as bytes, by the maps of an object.
    fn bytes(&self, object: &Object) -> Result<Vec<Bytes>, Error> {
        let types = types_of(object);
        let one = |entry: &Entry| {
            let map = object.maps.iter().find(|map| map.name == entry.map);
            let map = map.ok_or_else(|| {
                let hint = meant(&entry.map, object.maps.iter().map(|map| map.name.as_str()));
                invalid(format!("there is no map {}{hint}", entry.map))
            })?;
            let wrong = |what: String| invalid(format!("map {}: {what}", entry.map));
            let mut key = vec![0; map.key_size as usize];
            match prefix(map, &entry.key) {
                Some(found) => key = found,
                None => typed::read(types.as_ref(), map.key_btf, &entry.key, &mut key)
                    .map_err(|what| wrong(format!("key: {what}")))?,
            }
            let index = key.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            if map.map_type.rules().indexed && map.max_entries > 0 && index >= map.max_entries {
                return Err(wrong(format!("key: {index} is not below {}, its number of entries", map.max_entries)));
            }
            let content = match (map.map_type, entry.values.first()) {
                (MapType::ProgArray, Some(Value::String(name))) => Content::Program(name.clone()),
                (MapType::ProgArray, _) => return Err(wrong("the value is the name of a program".to_owned())),
                (MapType::ArrayOfMaps | MapType::HashOfMaps, Some(Value::String(name))) => {
                    let known = object.maps.iter().map(|map| map.name.as_str());
                    if !known.clone().any(|known| known == name) {
                        return Err(wrong(format!("there is no map {name}{}", meant(name, known))));
                    }
                    Content::Map(name.clone())
                }
                (MapType::ArrayOfMaps | MapType::HashOfMaps, _) => {
                    return Err(wrong("the value is the name of a map of the object".to_owned()));
                }
                _ => {
                    let values = entry.values.iter().map(|json| value(types.as_ref(), map, json).map_err(wrong));
                    Content::Values { values: values.collect::<Result<_, _>>()?, per_cpu: map.map_type.rules().per_cpu }
                }
            };
            Ok(Bytes { map: entry.map.clone(), key, content })
        };
        self.entries.iter().map(one).collect()
    }

    /// Fills the maps of a VM. Programs that prog arrays get are loaded.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] for entries that do not fit, and what loading a program returns.
    pub fn fill_vm(&self, object: &Object, vm: &mut Vm, cpus: u32) -> Result<(), Error> {
        for Bytes { map, key, content } in self.bytes(object)? {
            let id = vm.map(&map)?;
            let result = match content {
                Content::Program(program) => {
                    if !vm.programs().any(|loaded| loaded == program) {
                        vm.load(&program)?;
                    }
                    let at = key.first_chunk().map_or(0, |key| u32::from_ne_bytes(*key));
                    vm.set_program(id, at, &program)
                }
                Content::Map(inner) => {
                    let inner = vm.map(&inner)?;
                    vm.set_inner_map(id, &key, inner)
                }
                Content::Values { values, per_cpu } => {
                    vm.update(id, &key, &joined(values, per_cpu, cpus as usize), UpdateFlag::Any)
                }
            };
            result.map_err(|error| invalid(error.to_string()))?;
        }
        Ok(())
    }

    /// The programs and maps that must be loaded for the entries: maps that have entries, and what prog arrays and maps
    /// of maps get.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] for entries that do not fit.
    pub fn names(&self, object: &Object) -> Result<Vec<String>, Error> {
        let names = self.bytes(object)?.into_iter().flat_map(|entry| match entry.content {
            Content::Program(name) | Content::Map(name) => [Some(entry.map), Some(name)],
            Content::Values { .. } => [Some(entry.map), None],
        });
        Ok(names.flatten().collect())
    }

    /// Fills the maps of an object in the kernel.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] for entries that do not fit, and the errors of `bpf(2)`.
    pub fn fill_kernel(&self, object: &Object, loaded: &LoadedObject) -> Result<(), Error> {
        for Bytes { map, key, content } in self.bytes(object)? {
            let handle = loaded.map(&map)?;
            match content {
                Content::Program(program) => handle.set_program(&key, &loaded.program(&program)?)?,
                Content::Map(inner) => handle.set_inner_map(&key, &loaded.map(&inner)?)?,
                Content::Values { values, per_cpu } => {
                    let size = values.first().map_or(0, Vec::len).next_multiple_of(8).max(1);
                    let cpus = handle.value_bytes() as usize / size;
                    handle.update(&key, &joined(values, per_cpu, cpus), 0)?;
                }
            }
        }
        Ok(())
    }
}

/// The key of a prefix, such as `10.0.0.0/8`, in a longest-prefix map; `None` for any other key. The kernel's key has the
/// prefix's bits, then the address.
fn prefix(map: &Map, key: &Value) -> Option<Vec<u8>> {
    let (address, bits) = key.as_str().filter(|_| map.map_type == MapType::LpmTrie)?.split_once('/')?;
    let address = match address.parse().ok()? {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let bits: u32 = bits.parse().ok().filter(|bits| *bits as usize <= 8 * address.len())?;
    let key = [&bits.to_ne_bytes()[..], &address].concat();
    (key.len() == map.key_size as usize).then_some(key)
}

/// A value's bytes.
fn value(types: Option<&Btf>, map: &Map, json: &Value) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; map.value_size as usize];
    typed::read(types, map.value_btf, json, &mut bytes).map_err(|what| format!("value: {what}"))?;
    Ok(bytes)
}

/// The value as user space passes it: of per-CPU maps for each CPU, rounded up to eight bytes. One value is for all.
fn joined(values: Vec<Vec<u8>>, per_cpu: bool, cpus: usize) -> Vec<u8> {
    if !per_cpu {
        return values.into_iter().next().unwrap_or_default();
    }
    let one = |cpu: usize| {
        let mut bytes = match values.as_slice() {
            [all] => all.clone(),
            each => each.get(cpu).cloned().unwrap_or_else(|| vec![0; each.first().map_or(0, Vec::len)]),
        };
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    };
    (0..cpus).flat_map(one).collect()
}

/// The object's own types.
pub fn types_of(object: &Object) -> Option<Btf> {
    Btf::parse(object.btf.as_deref()?).ok()
}

/// Variables of data sections: section, variable, its type, and its offset.
fn globals(types: &Btf) -> impl Iterator<Item = (TypeId, TypeId, TypeId, u32)> + '_ {
    let sections = types.own_ids().filter(|id| matches!(types.kind(*id), Kind::Section { .. }));
    sections.flat_map(move |section| {
        types.variables(section).iter().filter_map(move |variable| match types.kind(variable.type_id) {
            Kind::Variable { target, .. } => Some((section, *target, variable.type_id, variable.offset)),
            _ => None,
        })
    })
}

/// A global variable by name: its section, its type and its offset.
fn find_global(types: &Btf, name: &str) -> Option<(String, TypeId, usize)> {
    let found = globals(types).find(|(section, _, variable, _)| {
        types.name(*variable) == name && !matches!(types.name(*section), ".maps" | "license" | "version" | ".kconfig")
    });
    found.map(|(section, target, _, offset)| (types.name(section).to_owned(), target, offset as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_split_at_the_right_places() {
        let mut feed = Feed::default();
        feed.entry("config:{\"a\": \"x=1\"}={\"b\": 2}").expect("an entry");
        feed.entry("jumps:1=second").expect("an entry");
        assert_eq!(feed.entries[0].key, serde_json::json!({"a": "x=1"}));
        assert_eq!(feed.entries[0].values, [serde_json::json!({"b": 2})]);
        assert_eq!((&feed.entries[1].key, &feed.entries[1].values[0]), (&Value::from(1), &Value::from("second")));
        for text in ["name", "name:1", "name=1"] {
            assert!(feed.entry(text).is_err(), "{text}");
        }
        assert!(feed.global("name").is_err());
    }

    #[test]
    fn one_value_is_for_all_cpus() {
        assert_eq!(joined(vec![vec![1, 2]], false, 4), [1, 2]);
        assert_eq!(joined(vec![vec![1, 2]], true, 2), [1, 2, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(joined(vec![vec![1], vec![2]], true, 3)[..17], [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
