//! Static functions that a rewrite left without users: a file need not hold them any more.
//!
//! ```text
//!   before: main calls parse      after: main has what parse did      parse: no program, function or data refers to it
//! ```
//!
//! A function is removed only if something called it before. What this crate cannot follow keeps functions: bytes that
//! belong to no function and functions that cannot be read keep all of them, an address in data keeps a whole section, and
//! aliases keep one another.

use std::collections::{BTreeSet, HashMap};

use kiln_program::{Function, FunctionId, Linkage, Object, Reference};

use crate::error::Result;
use crate::file::SHT_PROGBITS;
use crate::read::Sources;

/// The functions that nothing in the rewritten object refers to any more.
pub(crate) fn unused(object: &Object, sources: &Sources) -> Result<BTreeSet<FunctionId>> {
    // A mark names instructions by their place.
    let places = by_place(sources);
    if !sources.unreadable.is_empty() || !object.operations.is_empty() || has_gaps(sources, &places) {
        return Ok(BTreeSet::new());
    }
    let mut kept = kept_by_data(sources)?;
    let called: BTreeSet<FunctionId> = sources.original.iter().flat_map(referred).collect();
    let all = (0..object.functions.len() as u32).map(FunctionId);
    let programs: BTreeSet<FunctionId> = object.programs.iter().map(|program| program.entry).collect();
    kept.extend(all.clone().filter(|id| {
        let is_static = object.function(*id).linkage == Linkage::Static;
        !is_static || programs.contains(id) || !called.contains(id)
    }));
    kept.extend(places.into_values().filter(|aliases| aliases.len() > 1).flatten());
    let symbols: HashMap<usize, FunctionId> = all.clone().map(|id| (sources.places[id.index()].symbol, id)).collect();
    let mut pending: Vec<FunctionId> = kept.iter().copied().collect();
    while let Some(id) = pending.pop() {
        let function = object.function(id);
        // The function whose symbol relocates an instruction is kept, too.
        let origins = function.nodes.iter().filter_map(|node| sources.origins.get(&node.id)?.relocation);
        let by_symbol = origins.filter_map(|(_, symbol)| symbols.get(&(symbol as usize)).copied());
        for used in referred(function).chain(by_symbol) {
            if kept.insert(used) {
                pending.push(used);
            }
        }
    }
    Ok(all.filter(|id| !kept.contains(id)).collect())
}

fn referred(function: &Function) -> impl Iterator<Item = FunctionId> + '_ {
    function.nodes.iter().filter_map(|node| match node.reference {
        Reference::Function(id) => Some(id),
        _ => None,
    })
}

/// The functions at each place: several are aliases.
fn by_place(sources: &Sources) -> HashMap<(usize, u64, u64), Vec<FunctionId>> {
    let mut found: HashMap<_, Vec<FunctionId>> = HashMap::new();
    for (place, id) in sources.places.iter().zip(0..) {
        found.entry((place.section, place.start, place.end)).or_default().push(FunctionId(id));
    }
    found
}

/// Whether code belongs to no function: it may call any.
fn has_gaps(sources: &Sources, places: &HashMap<(usize, u64, u64), Vec<FunctionId>>) -> bool {
    let mut bytes: HashMap<usize, u64> = HashMap::new();
    for (section, start, end) in places.keys() {
        *bytes.entry(*section).or_default() += end - start;
    }
    let code = sources.file.sections.iter().enumerate().filter(|(_, section)| section.is_code());
    code.into_iter().any(|(index, section)| bytes.get(&index).copied().unwrap_or(0) != section.size)
}

/// All functions of sections that data refers to.
fn kept_by_data(sources: &Sources) -> Result<BTreeSet<FunctionId>> {
    let file = &sources.file;
    let mut homes = BTreeSet::new();
    for (index, section) in file.sections.iter().enumerate() {
        // Loaders do not relocate BTF, and do not read DWARF.
        let untouched = section.name.starts_with(".debug_") || section.name.starts_with(".BTF");
        if section.kind != SHT_PROGBITS || section.is_code() || untouched {
            continue;
        }
        for relocations in file.relocation_sections(index) {
            let relocations = file.relocations(relocations)?;
            homes.extend(relocations.iter().filter_map(|own| file.symbols[own.symbol as usize].section_index()));
        }
    }
    let places = sources.places.iter().zip(0..);
    Ok(places.filter(|(place, _)| homes.contains(&place.section)).map(|(_, id)| FunctionId(id)).collect())
}
