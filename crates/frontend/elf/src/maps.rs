//! Maps: from `.maps` definitions, from legacy `maps` sections, and from data sections.
//!
//! In C a map is a variable whose type is never used as such; its members' *types* carry the attributes:
//!
//! ```text
//!   struct {
//!       __uint(type, BPF_MAP_TYPE_HASH);     int (*type)[1];         pointer to an array: its length is the value
//!       __type(key, struct key);             struct key *key;        pointer: its target is the type
//!       __array(values, struct inner);       struct inner *values[]; what a map of maps holds
//!   } my_map SEC(".maps");
//! ```
//!
//! Data sections (`.data`, `.rodata`, `.bss` and their variants with a suffix after a dot) are array maps of one value,
//! `.percpu` is one with a value for each processor, and `.addr_space.1` has the contents of the object's arena. The order is libbpf's: definitions, then data sections,
//! `.kconfig`, then `struct_ops`.

use std::collections::HashMap;

use kiln_platform::MapType;
use kiln_program::btf::{Btf, Kind, Linkage, SectionVariable, TypeId};
use kiln_program::{Map, MapContents, MapId, READ_ONLY_FLAG};

use crate::error::{Result, invalid, unsupported};
use crate::file::{ElfFile, SHT_NOBITS, SHT_PROGBITS, STT_NOTYPE, STT_OBJECT};

/// Maximum bytes of a data section; a kernel map value cannot be larger either.
const MAX_VALUE_BYTES: u64 = 1 << 30;
/// `BPF_F_MMAPABLE`.
const MMAPABLE_FLAG: u32 = 1 << 10;
/// Bytes of the shortest legacy definition: type, key, value, entries.
const LEGACY_BYTES: usize = 16;

/// The maps of a file, and where each is defined.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapTable {
    pub maps: Vec<Map>,
    /// Section and offset of a definition.
    pub definitions: HashMap<(usize, u64), MapId>,
    /// Sections whose bytes are a map's.
    pub data: HashMap<usize, MapId>,
    /// The section of each map, and its offset there.
    pub places: Vec<Option<(usize, u64)>>,
    /// Byte offset of `values` in each definition that has initial entries.
    pub values: HashMap<MapId, u64>,
    /// The section of jump tables.
    pub table_section: Option<usize>,
}

impl MapTable {
    pub(crate) fn add(&mut self, map: Map, place: Option<(usize, u64)>) -> MapId {
        let id = MapId(self.maps.len() as u32);
        self.maps.push(map);
        self.places.push(place);
        id
    }

    /// Adds the `.kconfig` map of `bytes`.
    pub fn add_kconfig(&mut self, bytes: u32, value_btf: TypeId) -> MapId {
        let contents = MapContents::Kconfig(bytes);
        let map = Map { value_btf: value_btf.0, ..data_map(".kconfig", bytes, READ_ONLY_FLAG, contents) };
        self.add(map, None)
    }

    /// Whether a map is a jump table of the section `.jumptables`.
    pub fn is_table(&self, map: MapId) -> bool {
        let place = self.places.get(map.index()).copied().flatten();
        place.is_some_and(|(section, _)| Some(section) == self.table_section)
    }

    /// The map at a symbol's place, and for data sections the byte in its value.
    pub fn at(&self, section: usize, offset: i64) -> Option<(MapId, Option<u32>)> {
        match self.data.get(&section) {
            Some(map) => Some((*map, Some(i32::try_from(offset).ok()? as u32))),
            None => {
                let map = *self.definitions.get(&(section, u64::try_from(offset).ok()?))?;
                Some((map, self.is_table(map).then_some(0)))
            }
        }
    }
}

/// Definitions and data sections; kconfig and `struct_ops` come later, when externs are known.
pub(crate) fn read_maps(file: &ElfFile, btf: Option<&Btf>) -> Result<MapTable> {
    let mut table = MapTable::default();
    for (index, section) in file.sections.iter().enumerate() {
        if section.name == "maps" && section.kind == SHT_PROGBITS && section.size > 0 {
            read_legacy(file, index, &mut table)?;
        }
    }
    if let Some(index) = file.section_named(".maps") {
        read_definitions(file, index, btf, &mut table)?;
    }
    for (index, section) in file.sections.iter().enumerate() {
        if let Some(contents) = data_contents(file, index)? {
            let flags = if matches!(contents, MapContents::ReadOnly(_)) { READ_ONLY_FLAG } else { 0 };
            let value = btf.and_then(|btf| data_section(btf, &section.name).map(|id| (btf, id)));
            let flags = flags | value.map_or(0, |(btf, id)| mmapable(btf, id));
            let map = data_map(&section.name, section.size as u32, flags, contents);
            let map = match is_named(&section.name, PERCPU) {
                true => Map { map_type: MapType::PercpuArray, flags: 0, ..map },
                false => Map { value_btf: value.map_or(0, |(_, id)| id.0), ..map },
            };
            let id = table.add(map, Some((index, 0)));
            table.data.insert(index, id);
        }
    }
    read_arena_data(file, &mut table)?;
    Ok(table)
}

/// `.addr_space.1` holds the variables that live in the object's arena.
fn read_arena_data(file: &ElfFile, table: &mut MapTable) -> Result<()> {
    let Some(index) = file.section_named(".addr_space.1") else { return Ok(()) };
    let arena = table.maps.iter().position(|map| map.map_type == MapType::Arena);
    let Some(arena) = arena else { return invalid(".addr_space.1", 0, "there is no arena for these variables") };
    if file.sections[index].kind == SHT_PROGBITS {
        table.maps[arena].contents = MapContents::Data(file.data(index).to_vec());
    }
    table.data.insert(index, MapId(arena as u32));
    Ok(())
}

/// Adds the variables of `struct_ops` sections as maps.
pub(crate) fn read_struct_ops(file: &ElfFile, btf: Option<&Btf>, table: &mut MapTable) -> Result<()> {
    for (index, section) in file.sections.iter().enumerate() {
        let bare = section.name.strip_prefix('?').unwrap_or(&section.name);
        if !matches!(bare, ".struct_ops" | ".struct_ops.link") || section.kind != SHT_PROGBITS {
            continue;
        }
        let Some((btf, data_section)) = btf.and_then(|btf| Some((btf, data_section(btf, &section.name)?))) else {
            return invalid(&section.name, 0, "the section has no BTF");
        };
        let symbols = symbol_values(file, index);
        for variable in btf.variables(data_section) {
            let offset = variable_offset(file, btf, index, &symbols, variable)?;
            let end = offset.checked_add(u64::from(variable.size));
            let bytes = end.and_then(|end| file.data(index).get(offset as usize..end as usize));
            let Some(bytes) = bytes else {
                return invalid(&section.name, offset, "a variable lies outside the section");
            };
            let map = Map {
                map_type: MapType::StructOps,
                value_btf: variable_type(btf, variable.type_id).0,
                ..data_map(btf.name(variable.type_id), variable.size, 0, MapContents::StructOps(bytes.to_vec()))
            };
            table.add(map, Some((index, offset)));
        }
    }
    Ok(())
}

pub(crate) fn data_map(name: &str, value_size: u32, flags: u32, contents: MapContents) -> Map {
    Map {
        name: name.to_owned(),
        map_type: MapType::Array,
        key_size: 4,
        value_size,
        max_entries: 1,
        flags,
        extra: 0,
        pinned_by_name: false,
        key_btf: 0,
        value_btf: 0,
        inner: None,
        contents,
    }
}

/// Variables of which each processor has its own.
const PERCPU: &str = ".percpu";

/// Whether a section's name is this one, or has a suffix after a dot.
fn is_named(section: &str, base: &str) -> bool {
    section.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The contents of a data section; `None` if the section is not a data section.
fn data_contents(file: &ElfFile, index: usize) -> Result<Option<MapContents>> {
    let section = &file.sections[index];
    let is = |base: &str| is_named(&section.name, base);
    let contents = match section.kind {
        _ if section.size == 0 || section.is_code() => return Ok(None),
        SHT_PROGBITS if is(".data") || is(PERCPU) => MapContents::Data(file.data(index).to_vec()),
        SHT_PROGBITS if is(".rodata") => MapContents::ReadOnly(file.data(index).to_vec()),
        SHT_NOBITS if is(".bss") || is(PERCPU) => MapContents::Empty,
        _ => return Ok(None),
    };
    if section.size > MAX_VALUE_BYTES {
        return invalid(&section.name, 0, format!("a data section of {} bytes is too large", section.size));
    }
    Ok(Some(contents))
}

/// The BTF of a data section.
pub(crate) fn data_section(btf: &Btf, name: &str) -> Option<TypeId> {
    btf.find(name, |kind| matches!(kind, Kind::Section { .. }))
}

/// Data sections with a variable visible to user space are made mappable.
fn mmapable(btf: &Btf, section: TypeId) -> u32 {
    let global = |id| matches!(btf.kind(id), Kind::Variable { linkage: Linkage::Global, .. });
    let any = btf.variables(section).iter().any(|variable| global(variable.type_id));
    if any { MMAPABLE_FLAG } else { 0 }
}

fn variable_type(btf: &Btf, id: TypeId) -> TypeId {
    match btf.kind(id) {
        Kind::Variable { target, .. } => btf.resolve(*target).unwrap_or_default(),
        _ => id,
    }
}

/// The values of the symbols of a section, by name.
fn symbol_values(file: &ElfFile, section: usize) -> HashMap<&str, u64> {
    let own = file.symbols.iter().filter(|symbol| symbol.section_index() == Some(section));
    own.map(|symbol| (symbol.name.as_str(), symbol.value)).collect()
}

/// The place of a variable in its section. Compilers record it for static variables; for others it is in the symbol.
fn variable_offset(
    file: &ElfFile,
    btf: &Btf,
    section: usize,
    symbols: &HashMap<&str, u64>,
    variable: &SectionVariable,
) -> Result<u64> {
    if matches!(btf.kind(variable.type_id), Kind::Variable { linkage: Linkage::Static, .. }) {
        return Ok(variable.offset.into());
    }
    let name = btf.name(variable.type_id);
    match symbols.get(name) {
        Some(value) => Ok(*value),
        None => invalid(file.section_name(section), 0, format!("variable {name} has no symbol")),
    }
}

fn read_definitions(file: &ElfFile, index: usize, btf: Option<&Btf>, table: &mut MapTable) -> Result<()> {
    let Some((btf, section)) = btf.and_then(|btf| Some((btf, data_section(btf, ".maps")?))) else {
        return invalid(".maps", 0, "the maps have no BTF");
    };
    let symbols = symbol_values(file, index);
    // A map of another object, which this one is to be linked with: programs that use it cannot be read.
    let is_here = |id| !matches!(btf.kind(id), Kind::Variable { linkage: Linkage::Extern, .. });
    for variable in btf.variables(section).iter().filter(|variable| is_here(variable.type_id)) {
        let offset = variable_offset(file, btf, index, &symbols, variable)?;
        let name = btf.name(variable.type_id).to_owned();
        let reader = Definition { btf, name: &name, offset };
        let (map, values) = reader.read(variable_type(btf, variable.type_id), true)?;
        let id = table.add(map, Some((index, offset)));
        if let Some(values) = values {
            table.values.insert(id, values);
        }
        if table.definitions.insert((index, offset), id).is_some() {
            return invalid(".maps", offset, format!("map {name} begins where another does"));
        }
    }
    Ok(())
}

/// `__uint(name, number)`: a pointer to an array of that length.
pub(crate) fn number(btf: &Btf, id: TypeId) -> Option<u32> {
    let Kind::Pointer { target } = btf.kind(btf.resolve(id)?) else { return None };
    match btf.kind(*target) {
        Kind::Array { count, .. } => Some(*count),
        _ => None,
    }
}

/// Reads the definition of one map.
struct Definition<'a> {
    btf: &'a Btf,
    name: &'a str,
    offset: u64,
}

impl Definition<'_> {
    fn fail<T>(&self, message: &str) -> Result<T> {
        invalid(".maps", self.offset, format!("map {}: {message}", self.name))
    }

    /// The map, and the byte offset of its `values`.
    fn read(&self, definition: TypeId, outermost: bool) -> Result<(Map, Option<u64>)> {
        if !matches!(self.btf.kind(definition), Kind::Composite { union: false, .. }) {
            return self.fail("its type is no struct");
        }
        let mut map = Map { key_size: 0, max_entries: 0, ..data_map(self.name, 0, 0, MapContents::Empty) };
        let mut map_type = None;
        let mut values = None;
        for member in self.btf.members(definition) {
            match self.btf.text(member.name) {
                "type" => map_type = Some(self.number(member.type_id)?),
                "max_entries" => map.max_entries = self.number(member.type_id)?,
                "map_flags" => map.flags = self.number(member.type_id)?,
                "map_extra" => map.extra = self.long_number(member.type_id)?,
                // Programs cannot observe the NUMA node on which the kernel allocates.
                "numa_node" => {
                    self.number(member.type_id)?;
                }
                "key_size" => self.set_size(&mut map.key_size, self.number(member.type_id)?)?,
                "value_size" => self.set_size(&mut map.value_size, self.number(member.type_id)?)?,
                "key" => {
                    let (id, size) = self.pointed(member.type_id)?;
                    self.set_size(&mut map.key_size, size)?;
                    map.key_btf = id.0;
                }
                "value" => {
                    let (id, size) = self.pointed(member.type_id)?;
                    self.set_size(&mut map.value_size, size)?;
                    map.value_btf = id.0;
                }
                "pinning" if outermost => map.pinned_by_name = self.number(member.type_id)? == 1,
                "values" if outermost => {
                    self.set_size(&mut map.value_size, 4)?;
                    map.inner = self.values(member.type_id)?.map(Box::new);
                    values = Some(u64::from(member.bit_offset) / 8);
                }
                other => {
                    let what = format!("attribute {other:?} of map {}", self.name);
                    return unsupported(".maps", self.offset, what);
                }
            }
        }
        map.map_type = match map_type.map(MapType::from_number) {
            Some(Some(map_type)) => map_type,
            Some(None) => {
                let what = format!("type {} of map {}", map_type.unwrap_or(0), self.name);
                return unsupported(".maps", self.offset, what);
            }
            None => return self.fail("it has no type"),
        };
        Ok((map, values))
    }

    /// A size may be given twice (`__type` and `__uint`), but not differently.
    fn set_size(&self, field: &mut u32, size: u32) -> Result<()> {
        if *field != 0 && *field != size {
            return self.fail(&format!("it says {} bytes and {size} bytes of the same thing", *field));
        }
        *field = size;
        Ok(())
    }

    fn number(&self, id: TypeId) -> Result<u32> {
        number(self.btf, id).map_or_else(|| self.fail("an attribute is no pointer to an array"), Ok)
    }

    /// `__ulong(name, number)`: an enum with that one value; or `__uint`.
    fn long_number(&self, id: TypeId) -> Result<u64> {
        let resolved = self.btf.resolve(id).unwrap_or_default();
        match (self.btf.kind(resolved), self.btf.values(resolved)) {
            (Kind::Enum { .. }, [only]) => Ok(only.value),
            _ => self.number(id).map(u64::from),
        }
    }

    /// `__type(name, type)`: a pointer to it.
    fn pointed(&self, id: TypeId) -> Result<(TypeId, u32)> {
        let pointer = self.btf.resolve(id).map(|id| self.btf.kind(id));
        let Some(Kind::Pointer { target }) = pointer else { return self.fail("a type attribute is no pointer") };
        match self.btf.size_of(*target).and_then(|size| u32::try_from(size).ok()) {
            Some(size) => Ok((*target, size)),
            None => self.fail("a key or value type has no size"),
        }
    }

    /// `__array(values, type)`: an array without length of pointers, to inner maps or to programs.
    fn values(&self, id: TypeId) -> Result<Option<Map>> {
        let Kind::Array { element, count: 0, .. } = self.btf.kind(id) else {
            return self.fail("values are no array without length");
        };
        let pointer = self.btf.resolve(*element).map(|id| self.btf.kind(id));
        let Some(Kind::Pointer { target }) = pointer else { return self.fail("values are no pointers") };
        let target = self.btf.resolve(*target).unwrap_or_default();
        match self.btf.kind(target) {
            Kind::Prototype { .. } => Ok(None),
            _ => {
                let name = format!("{}.inner", self.name);
                let inner = Definition { name: &name, ..*self };
                Ok(Some(inner.read(target, false)?.0))
            }
        }
    }
}

/// `struct bpf_map_def` records, one a symbol, as objects for libbpf before 1.0 and for iproute2 have them.
fn read_legacy(file: &ElfFile, index: usize, table: &mut MapTable) -> Result<()> {
    let data = file.data(index);
    let mut symbols: Vec<_> = file
        .symbols
        .iter()
        .filter(|symbol| symbol.section_index() == Some(index) && matches!(symbol.kind(), STT_OBJECT | STT_NOTYPE))
        .collect();
    symbols.sort_by_key(|symbol| symbol.value);
    for symbol in symbols {
        let start = usize::try_from(symbol.value).ok();
        let record = start.and_then(|start| data.get(start..)?.first_chunk::<LEGACY_BYTES>().map(|head| (start, head)));
        let Some((start, head)) = record else {
            return invalid("maps", symbol.value, format!("the definition of map {} is truncated", symbol.name));
        };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let [map_type, key_size, value_size, max_entries] = [word(0), word(4), word(8), word(12)];
        let Some(map_type) = MapType::from_number(map_type) else {
            return unsupported("maps", symbol.value, format!("type {map_type} of map {}", symbol.name));
        };
        // The flags come next, where the definition is long enough to have them.
        let has_flags = symbol.size == 0 || symbol.size as usize >= LEGACY_BYTES + 4;
        let flags = data.get(start + LEGACY_BYTES..).and_then(<[u8]>::first_chunk::<4>).filter(|_| has_flags);
        let flags = flags.map_or(0, |chunk| u32::from_le_bytes(*chunk));
        let map = data_map(&symbol.name, value_size, flags, MapContents::Empty);
        let map = Map { map_type, key_size, max_entries, ..map };
        let id = table.add(map, Some((index, symbol.value)));
        if table.definitions.insert((index, symbol.value), id).is_some() {
            return invalid("maps", symbol.value, format!("map {} begins where another does", symbol.name));
        }
    }
    Ok(())
}
