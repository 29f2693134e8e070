//! Jump tables: the section `.jumptables`, whose symbols each are a table of a function's `gotox`.
//!
//! ```text
//!   .jumptables   | BPF.JT.0.0: 64 112 64 | BPF.JT.2.0: 208 16 |    offsets in the section of the function that refers to it
//!   slot 3: ld_imm64,  R_BPF_64_64 BPF.JT.0.0
//! ```
//!
//! libbpf makes a map of type `insn_array` of each table for each program. Here a table is one map, and one function's.

use std::collections::HashMap;

use kiln_isa::Insn;
use kiln_platform::MapType;
use kiln_program::{InsnId, JumpTable, MAX_INDIRECT_EDGES, Map, MapContents, MapId, Node, Reference};

use crate::code::{Place, SLOT_BYTES};
use crate::error::{Result, invalid, unsupported};
use crate::file::{ElfFile, STT_SECTION};
use crate::maps::{MapTable, data_map};

/// The section's name.
pub(crate) const SECTION: &str = ".jumptables";
pub(crate) const ENTRY_BYTES: u64 = JumpTable::ENTRY_BYTES as u64;

/// Adds a map for each table. Tables do not share entries, so all together are not larger than the section.
pub(crate) fn read_tables(file: &ElfFile, table: &mut MapTable) -> Result<()> {
    let Some(section) = file.section_named(SECTION) else { return Ok(()) };
    table.table_section = Some(section);
    if file.relocation_sections(section).next().is_some() {
        return unsupported(SECTION, 0, "relocations of jump tables (clang writes none)");
    }
    let size = file.sections[section].size;
    let own = file
        .symbols
        .iter()
        .filter(|symbol| symbol.section_index() == Some(section) && symbol.kind() != STT_SECTION && symbol.size > 0);
    let mut symbols: Vec<_> = own.collect();
    symbols.sort_by_key(|symbol| (symbol.value, symbol.size));
    let mut end = 0;
    for symbol in symbols {
        let known = table.definitions.get(&(section, symbol.value)).and_then(|id| table.maps.get(id.index()));
        if known.is_some_and(|map| u64::from(map.max_entries) * ENTRY_BYTES == symbol.size) {
            continue;
        }
        let fits = symbol.value.checked_add(symbol.size).filter(|end| *end <= size);
        let whole = symbol.value.is_multiple_of(ENTRY_BYTES) && symbol.size.is_multiple_of(ENTRY_BYTES);
        let (Some(next), true, true) = (fits, whole, symbol.value >= end) else {
            let message = format!("jump table {} is outside of the section, uneven, or overlaps another", symbol.name);
            return invalid(SECTION, symbol.value, message);
        };
        end = next;
        let Ok(max_entries) = u32::try_from(symbol.size / ENTRY_BYTES) else {
            return invalid(SECTION, symbol.value, format!("jump table {} is too large", symbol.name));
        };
        let map = data_map(&symbol.name, 16, 0, MapContents::Empty);
        let map = Map { map_type: MapType::InsnArray, max_entries, ..map };
        let id = table.add(map, Some((section, symbol.value)));
        table.definitions.insert((section, symbol.value), id);
    }
    Ok(())
}

/// The tables that a function refers to. `readers` has the function that each table was read for, and gets the new ones.
pub(crate) fn tables_of(
    file: &ElfFile,
    maps: &MapTable,
    place: &Place,
    nodes: &[Node],
    ids: &HashMap<usize, InsnId>,
    readers: &mut HashMap<MapId, Place>,
) -> Result<Vec<JumpTable>> {
    let mut tables: Vec<JumpTable> = Vec::new();
    for node in nodes {
        let Reference::MapValue { map, .. } = node.reference else { continue };
        let Some((section, start)) = maps.places[map.index()].filter(|_| maps.is_table(map)) else { continue };
        if tables.iter().any(|table| table.map == map) {
            continue;
        }
        if readers.insert(map, *place).is_some_and(|reader| reader != *place) {
            return unsupported(SECTION, start, "a jump table of two functions");
        }
        let bytes = u64::from(maps.maps[map.index()].max_entries) * ENTRY_BYTES;
        let data = &file.data(section)[start as usize..(start + bytes) as usize];
        let entries = data.as_chunks::<8>().0.iter().map(|entry| u64::from_le_bytes(*entry));
        let target = |offset: u64| {
            let slot = usize::try_from(offset / SLOT_BYTES).ok().filter(|_| offset.is_multiple_of(SLOT_BYTES));
            slot.and_then(|slot| ids.get(&slot)).copied()
        };
        let Some(targets) = entries.map(target).collect::<Option<Vec<InsnId>>>() else {
            return invalid(SECTION, start, "an entry is no instruction of the function that uses the jump table");
        };
        tables.push(JumpTable { map, targets });
    }
    check_edges(place, nodes, &tables, file)?;
    Ok(tables)
}

fn check_edges(place: &Place, nodes: &[Node], tables: &[JumpTable], file: &ElfFile) -> Result<()> {
    let jumps = nodes.iter().filter(|node| matches!(node.insn, Insn::JumpIndirect { .. })).count();
    let entries = tables.iter().map(|table| table.targets.len()).sum::<usize>();
    if jumps.saturating_mul(entries) > MAX_INDIRECT_EDGES {
        let what = format!("{jumps} indirect jumps to {entries} entries in one function");
        return unsupported(file.section_name(place.section), place.start, what);
    }
    Ok(())
}
