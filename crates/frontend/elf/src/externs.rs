//! Externs: kernel symbols that the object needs.
//!
//! An undefined symbol is one of three things, told apart by the BTF data section that declares it: a value of the
//! kernel's configuration (`.kconfig`), a kernel function, or a kernel variable (both `.ksyms`).
//!
//! Configuration values share one map. libbpf lays them out by descending alignment, then ascending size, then name.
//! The order only matters within one loader; Kiln uses libbpf's order so that dumps can be compared.

use std::collections::HashMap;

use kiln_program::btf::{Btf, Kind, Linkage, TypeId};
use kiln_program::{Extern, ExternId, ExternKind};

use crate::error::{Result, invalid};
use crate::file::{ElfFile, SHN_UNDEF, STB_LOCAL, STB_WEAK};
use crate::maps::{MapTable, data_section};

/// The externs of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExternTable {
    pub externs: Vec<Extern>,
    /// Symbol table index to extern.
    pub by_symbol: HashMap<u32, ExternId>,
    /// The other way round.
    pub symbols: Vec<u32>,
}

/// A configuration value without an offset yet.
struct Config {
    index: usize,
    align: u32,
    size: u32,
}

/// The file's bytes with the undefined symbols that are not needed made weak.
pub(crate) fn weakened(mut file: ElfFile, needed: impl Fn(&str) -> bool) -> Vec<u8> {
    const SYMBOL_BYTES: usize = 24;
    const INFO_AT: usize = 4;
    let Some(table) = file.symbol_table else { return file.bytes };
    let start = file.sections[table].file.start;
    for (index, symbol) in file.symbols.iter().enumerate() {
        let undefined = symbol.section == SHN_UNDEF && symbol.binding() != STB_LOCAL && !symbol.name.is_empty();
        if undefined && !needed(&symbol.name) {
            file.bytes[start + index * SYMBOL_BYTES + INFO_AT] = STB_WEAK << 4 | symbol.kind();
        }
    }
    file.bytes
}

/// Reads the externs, and adds the `.kconfig` map when they need one.
pub(crate) fn read_externs(file: &ElfFile, btf: Option<&Btf>, maps: &mut MapTable) -> Result<ExternTable> {
    let mut table = ExternTable::default();
    let Some(btf) = btf else { return Ok(table) };
    let kernel_symbols = declarations(btf, ".ksyms");
    let configuration = declarations(btf, ".kconfig");
    let mut configs = Vec::new();
    for (index, symbol) in file.symbols.iter().enumerate() {
        let undefined = symbol.section == SHN_UNDEF && symbol.binding() != STB_LOCAL && !symbol.name.is_empty();
        if !undefined {
            continue;
        }
        let name = symbol.name.as_str();
        // A symbol without a declaration is an error only if a relocation refers to it.
        let Some(id) = kernel_symbols.get(name).or_else(|| configuration.get(name)).copied() else { continue };
        let kind = match btf.kind(id) {
            Kind::Function { .. } => ExternKind::Kfunc,
            Kind::Variable { target, .. } if configuration.contains_key(name) => {
                let (Some(size), Some(align)) = (btf.size_of(*target), btf.align_of(*target)) else {
                    return invalid(".kconfig", 0, format!("the type of {name} has no size"));
                };
                let Ok(size) = u32::try_from(size) else {
                    return invalid(".kconfig", 0, format!("the type of {name} is too large"));
                };
                configs.push(Config { index: table.externs.len(), align, size });
                ExternKind::Ksym
            }
            Kind::Variable { target, .. } => match btf.resolve(*target).map(|id| btf.kind(id)) {
                Some(Kind::Void) | None => ExternKind::Ksym,
                Some(_) => ExternKind::TypedKsym,
            },
            _ => continue,
        };
        table.by_symbol.insert(index as u32, ExternId(table.externs.len() as u32));
        table.symbols.push(index as u32);
        let weak = symbol.binding() == STB_WEAK;
        table.externs.push(Extern { name: name.to_owned(), kind, weak, btf_id: id.0 });
    }
    if !configs.is_empty() {
        place_configs(btf, configs, &mut table, maps)?;
    }
    Ok(table)
}

/// The extern functions and variables that a data section declares, by name.
fn declarations<'a>(btf: &'a Btf, section: &str) -> HashMap<&'a str, TypeId> {
    let Some(section) = data_section(btf, section) else { return HashMap::new() };
    let is_extern = |id: &TypeId| {
        matches!(
            btf.kind(*id),
            Kind::Function { linkage: Linkage::Extern, .. } | Kind::Variable { linkage: Linkage::Extern, .. }
        )
    };
    let ids = btf.variables(section).iter().map(|variable| variable.type_id).filter(is_extern);
    ids.map(|id| (btf.name(id), id)).collect()
}

fn place_configs(btf: &Btf, mut configs: Vec<Config>, table: &mut ExternTable, maps: &mut MapTable) -> Result<()> {
    configs.sort_by(|a, b| {
        let name = |config: &Config| table.externs[config.index].name.clone();
        b.align.cmp(&a.align).then(a.size.cmp(&b.size)).then_with(|| name(a).cmp(&name(b)))
    });
    let mut end = 0u32;
    let mut offsets = Vec::new();
    for config in &configs {
        let offset = end.checked_next_multiple_of(config.align);
        let Some((offset, next)) = offset.and_then(|offset| Some((offset, offset.checked_add(config.size)?))) else {
            return invalid(".kconfig", 0, "the values are too large");
        };
        end = next;
        offsets.push((config.index, offset));
    }
    let map = maps.add_kconfig(end, data_section(btf, ".kconfig").unwrap_or_default());
    for (index, offset) in offsets {
        table.externs[index].kind = ExternKind::Kconfig { map, offset };
    }
    Ok(())
}
