//! Objects that libbpf does not open, though each of their programs alone could be loaded: one fault, and the kernel is
//! asked about none of them.
//!
//! ```text
//!   SEC("xdp") static int prog(...)         a program, or what one calls, outside .text and static
//!   struct { ... } a SEC(".maps"), b ...    two arenas; a static map; a pinning other than 0 and 1; a wrong `values`
//!   extern struct s x __kconfig             a type that no configuration value has
//!   .ssthresh = prog                        of another program type than struct_ops
//!   SEC("xdp") int prog(...) asm("a$b")     a name that the kernel does not take
//! ```
//!
//! The rules are those of libbpf 1.7 (`bpf_object_open`), as far as reading does not refuse the file anyway. Two of
//! libbpf's are left out: definitions in `maps`, which libbpf before 1.0 reads, and symbols that are defined nowhere,
//! because an object may be linked with others first. `tests/refused.rs` asks libbpf about each rule.

use kiln_platform::{MapType, ProgramType, section_program_type};
use kiln_program::btf::{Btf, Kind, Linkage, TypeId};
use kiln_program::{ExternKind, Map, MapContents, MapId, MapSlot, Object, Reference};

use crate::file::{STB_LOCAL, STT_FUNC};
use crate::maps::{data_section, number};
use crate::read::Sources;

/// Bytes of a name that the kernel gets: `BPF_OBJ_NAME_LEN` with the zero at the end.
const NAME_BYTES: usize = 15;
/// Bytes of a page of an arena.
const PAGE_BYTES: u64 = 4096;

/// Returns why libbpf, or the kernel before its verifier, refuses the whole object; `None` if it is opened.
pub(crate) fn refusal(object: &Object, sources: &Sources, btf: Option<&Btf>) -> Option<String> {
    let opened = static_function(sources)
        .or_else(|| btf.and_then(|btf| refused_map(object, sources, btf)))
        .or_else(|| refused_arena(object))
        .or_else(|| btf.and_then(|btf| refused_configuration(object, btf)))
        .or_else(|| refused_member(object, sources))
        .or_else(|| refused_reference(object));
    opened.map(|why| format!("libbpf does not open the object: {why}")).or_else(|| refused_name(object, sources))
}

fn static_function(sources: &Sources) -> Option<String> {
    let file = &sources.file;
    file.symbols.iter().find_map(|symbol| {
        let section = &file.sections[symbol.section_index()?];
        let outside = symbol.kind() == STT_FUNC && section.is_code() && section.name != ".text";
        (outside && symbol.binding() == STB_LOCAL).then(|| {
            let (name, section) = (&symbol.name, &section.name);
            format!(
                "{name} is static and in section {section}: a program is not static, and what programs call has no SEC"
            )
        })
    })
}

fn refused_map(object: &Object, sources: &Sources, btf: &Btf) -> Option<String> {
    let variables = data_section(btf, ".maps").map_or(&[][..], |section| btf.variables(section));
    let definition = variables.iter().find_map(|variable| {
        let Kind::Variable { target, linkage } = *btf.kind(variable.type_id) else { return None };
        let name = btf.name(variable.type_id);
        if linkage == Linkage::Static {
            return Some(format!("map {name} is static"));
        }
        let members = btf.members(btf.resolve(target)?);
        let pinning = members.iter().find(|member| btf.text(member.name) == "pinning")?;
        let pinning = number(btf, pinning.type_id).filter(|how| *how > 1)?;
        Some(format!("the pinning of map {name} is {pinning}: 0 is none, 1 by name"))
    });
    let mut filled =
        object.maps.iter().enumerate().filter(|(at, _)| sources.maps.values.contains_key(&MapId(*at as u32)));
    definition.or_else(|| filled.find_map(|(_, map)| refused_values(object, map)))
}

/// For a map with `values`.
fn refused_values(object: &Object, map: &Map) -> Option<String> {
    let name = &map.name;
    if !matches!(map.map_type, MapType::ArrayOfMaps | MapType::HashOfMaps | MapType::ProgArray) {
        return Some(format!("map {name} has values, and is neither a map of maps nor a prog array"));
    }
    let MapContents::Slots(slots) = &map.contents else { return None };
    if map.map_type == MapType::HashOfMaps && map.key_size != 4 {
        return Some(format!("map {name} has initial values and keys of {} bytes, not 4", map.key_size));
    }
    let mut functions = slots.iter().filter_map(|(_, slot)| match slot {
        MapSlot::Function(id) => Some(object.function(*id)),
        MapSlot::Map(_) => None,
    });
    let called = functions.find(|own| own.section == ".text")?;
    Some(format!("map {name} holds {}, which is no program", called.name))
}

fn refused_arena(object: &Object) -> Option<String> {
    let mut arenas = object.maps.iter().filter(|map| map.map_type == MapType::Arena);
    let first = arenas.next()?;
    if let Some(second) = arenas.next() {
        return Some(format!("maps {} and {} are both arenas, and an object has one at most", first.name, second.name));
    }
    let MapContents::Data(bytes) = &first.contents else { return None };
    let (needed, has) = (bytes.len() as u64, u64::from(first.max_entries) * PAGE_BYTES);
    (needed.next_multiple_of(PAGE_BYTES) > has)
        .then(|| format!("arena {} has {has} bytes, and its variables need {needed}", first.name))
}

fn refused_configuration(object: &Object, btf: &Btf) -> Option<String> {
    let values = object.externs.iter().filter(|symbol| matches!(symbol.kind, ExternKind::Kconfig { .. }));
    let refused = |id: u32| match *btf.kind(TypeId(id)) {
        Kind::Variable { target, .. } => !is_configuration(btf, target),
        _ => true,
    };
    let symbol = values.filter(|symbol| refused(symbol.btf_id)).min_by_key(|symbol| &symbol.name)?;
    Some(format!(
        "{} in .kconfig is neither a number, a truth value, a libbpf_tristate nor an array of char",
        symbol.name
    ))
}

/// Whether a value of the kernel's configuration may have a type.
fn is_configuration(btf: &Btf, id: TypeId) -> bool {
    let Some(id) = btf.resolve(id) else { return false };
    let is_char = |kind: &Kind| matches!(kind, Kind::Int { size: 1, boolean: false, .. });
    match btf.kind(id) {
        Kind::Int { size, boolean, .. } => *size == 1 || !boolean && matches!(size, 2 | 4 | 8),
        Kind::Enum { size, wide, .. } => (*wide || *size == 4) && btf.name(id) == "libbpf_tristate",
        Kind::Array { element, count, .. } => {
            *count > 0 && btf.resolve(*element).is_some_and(|id| is_char(btf.kind(id)))
        }
        _ => false,
    }
}

fn refused_member(object: &Object, sources: &Sources) -> Option<String> {
    let file = &sources.file;
    let maps = object.maps.iter().zip(&sources.maps.places).filter(|(map, _)| map.map_type == MapType::StructOps);
    maps.filter_map(|(map, place)| Some((map, (*place)?))).find_map(|(map, (section, start))| {
        let relocations = file.relocations_of(section).ok()?;
        let own = start..start + u64::from(map.value_size);
        let mut targets = relocations.values().filter(|relocation| own.contains(&relocation.offset));
        targets.find_map(|relocation| {
            let symbol = file.symbols.get(relocation.symbol as usize).filter(|symbol| symbol.kind() == STT_FUNC)?;
            let rule = section_program_type(file.section_name(symbol.section_index()?));
            let fits = rule.is_some_and(|rule| rule.program_type == ProgramType::StructOps);
            (!fits).then(|| format!("{} in {} is no struct_ops program", symbol.name, map.name))
        })
    })
}

/// A call or an address of a function outside of `.text`.
fn refused_reference(object: &Object) -> Option<String> {
    object.functions.iter().find_map(|function| {
        let mut targets = function.nodes.iter().filter_map(|node| match node.reference {
            Reference::Function(id) => Some(object.function(id)),
            _ => None,
        });
        let target = targets.find(|target| target.section != ".text")?;
        let (own, name, section) = (&function.name, &target.name, &target.section);
        Some(format!("{own} refers to {name}, which is in section {section}: what programs call has no SEC"))
    })
}

/// A name that `bpf(2)` refuses: of a program, or of a map that the object defines.
fn refused_name(object: &Object, sources: &Sources) -> Option<String> {
    // libbpf makes the names of data sections' maps fit.
    let own = |(at, map): &(usize, &Map)| !map.name.starts_with('.') && !sources.maps.is_table(MapId(*at as u32));
    let maps = object.maps.iter().enumerate().filter(own).map(|(_, map)| &map.name);
    let taken = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let mut names = object.programs.iter().map(|program| &program.name).chain(maps);
    let name = names.find(|name| !name.bytes().take(NAME_BYTES).all(taken))?;
    Some(format!("the kernel does not take the name {name}: it may have letters, digits, _ and . only"))
}
