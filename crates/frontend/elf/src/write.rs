//! From a rewritten [`Object`] to a drop-in file: the original with new code, and with everything that points into code
//! adjusted.
//!
//! ```text
//!   code sections      laid out again (`layout`), addresses and calls encoded again with their relocations
//!   symbols            values and sizes of functions, values of labels
//!   .BTF.ext           function, line and CO-RE records rebuilt from the nodes
//!   other sections     as they are, but for addresses of code in them
//!   .debug_*           left out: DWARF describes the old code byte by byte (locations, line tables, frames), and
//!                      libbpf, bpftool and the kernel read BTF instead
//! ```

use std::collections::{BTreeSet, HashMap};

use kiln_program::{FunctionId, InsnId, Linkage, MapId, Object, Reference};

use crate::btf_ext::{BtfExt, Part, Record, SectionRecords};
use crate::code::{Origin, SLOT_BYTES};
use crate::emit::Output;
use crate::error::{Fault, Result, unsupported};
use crate::file::{
    R_BPF_64_32, R_BPF_64_64, R_BPF_64_ABS32, R_BPF_64_ABS64, R_BPF_64_NODYLD32, Rel, SHT_PROGBITS, STB_LOCAL,
    STT_FUNC, STT_SECTION, STV_HIDDEN,
};
use crate::layout::CodeLayout;
use crate::read::Sources;

/// Opcode of `ld_imm64`.
const LOAD_IMM64: u8 = 0x18;

pub(crate) fn write_file(object: &Object, sources: &Sources) -> Result<Vec<u8>> {
    check_same_shape(object, sources)?;
    write_without(object, sources, &BTreeSet::new())
}

/// The file without the functions that the rewrite left without users, and these functions.
pub(crate) fn write_used(object: &Object, sources: &Sources) -> Result<(Vec<u8>, BTreeSet<FunctionId>)> {
    check_same_shape(object, sources)?;
    let unused = crate::unused::unused(object, sources)?;
    let bytes = write_without(object, sources, &unused)?;
    Ok((bytes, unused))
}

fn write_without(object: &Object, sources: &Sources, unused: &BTreeSet<FunctionId>) -> Result<Vec<u8>> {
    let unchanged = is_unchanged(object, sources);
    if unchanged && object.operations == sources.operations {
        return Ok(sources.file.bytes.clone());
    }
    match (unchanged, object.operations.is_empty()) {
        (true, false) => crate::operations::with_marks(sources.file.bytes.clone(), object),
        (false, false) => crate::operations::with_marks(rebuild(object, sources, true, unused)?, object),
        (_, true) => rebuild(object, sources, !unchanged, unused),
    }
}

/// Writes the file from its parts even if nothing changed, without `unused` functions.
pub(crate) fn rebuild(
    object: &Object,
    sources: &Sources,
    drop_debug: bool,
    unused: &BTreeSet<FunctionId>,
) -> Result<Vec<u8>> {
    check_movable(sources)?;
    let (layouts, mut output) = (HashMap::new(), Output::new(&sources.file));
    output.dropped_symbols = unused.iter().map(|id| sources.places[id.index()].symbol).collect();
    let mut writer = Writer { object, sources, unused, layouts, starts: Vec::new(), output };
    writer.lay_out()?;
    writer.move_symbols();
    writer.write_code()?;
    writer.move_addresses_in_data()?;
    writer.output.contents.extend(crate::moved_tables::entries(object, sources, &writer.layouts)?);
    writer.write_btf()?;
    if drop_debug {
        writer.output.drop_debug_sections();
    }
    // The old marks belong to other code or are no longer wanted.
    if let Some(index) = sources.file.section_named(crate::file::OPERATIONS_SECTION)
        && (drop_debug || object.operations != sources.operations)
    {
        writer.output.drop_section(index);
    }
    writer.output.to_bytes()
}

/// Refuses to move code that an unreadable function may refer to.
pub(crate) fn check_movable(sources: &Sources) -> Result<()> {
    for (place, _) in &sources.unreadable {
        if crate::unreadable::pinned(&sources.file, place)? {
            let name = &sources.file.symbols[place.symbol].name;
            let what = format!("rewriting: function {name} cannot be read, and refers to other code or to debug data");
            return unsupported(sources.file.section_name(place.section), place.start, what);
        }
    }
    Ok(())
}

fn check_same_shape(object: &Object, sources: &Sources) -> Result<()> {
    let mismatch = |message: String| Err(Fault::Mismatch { message });
    if object.functions.len() != sources.original.len() {
        return mismatch(format!("{} functions, not {}", object.functions.len(), sources.original.len()));
    }
    for (new, old) in object.functions.iter().zip(&sources.original) {
        if new.name != old.name || new.section != old.section {
            return mismatch(format!("function {} stands where {} was", new.name, old.name));
        }
        let entries = |function: &kiln_program::Function| -> Vec<_> {
            function.tables.iter().map(|table| (table.map, table.targets.len())).collect()
        };
        if entries(new) != entries(old) {
            return mismatch(format!("function {} has other jump tables", new.name));
        }
        if new.nodes.is_empty() {
            return mismatch(format!("function {} is empty", new.name));
        }
    }
    let names = object.maps.iter().map(|map| &map.name).eq(sources.maps.maps.iter().map(|map| &map.name));
    if !names {
        return mismatch("the maps differ".to_owned());
    }
    let names = object.externs.iter().map(|symbol| &symbol.name);
    if !names.eq(sources.externs.externs.iter().map(|symbol| &symbol.name)) {
        return mismatch("the externs differ".to_owned());
    }
    Ok(())
}

fn is_unchanged(object: &Object, sources: &Sources) -> bool {
    let same = |(new, old): (&kiln_program::Function, &kiln_program::Function)| {
        new.nodes == old.nodes && new.tables == old.tables && new.btf_id == old.btf_id && new.linkage == old.linkage
    };
    object.functions.iter().zip(&sources.original).all(same)
        && object.lines == sources.lines
        && object.core == sources.core
        && object.btf.as_deref() == sources.btf()
}

struct Writer<'a> {
    object: &'a Object,
    sources: &'a Sources,
    /// Functions that are left out.
    unused: &'a BTreeSet<FunctionId>,
    layouts: HashMap<usize, CodeLayout>,
    /// The section of each function, and its new offset.
    starts: Vec<(usize, u64)>,
    output: Output<'a>,
}

impl Writer<'_> {
    fn lay_out(&mut self) -> Result<()> {
        let mut sections: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, place) in self.sources.places.iter().enumerate() {
            sections.entry(place.section).or_default().push(index);
        }
        self.starts = self.sources.places.iter().map(|place| (place.section, 0)).collect();
        for (section, indices) in sections {
            let layout = CodeLayout::new(self.object, self.sources, section, &indices, self.unused)?;
            for (function, range) in layout.functions() {
                self.starts[function].1 = range.start;
            }
            self.layouts.insert(section, layout);
        }
        Ok(())
    }

    fn move_symbols(&mut self) {
        let sources = self.sources;
        for symbol in &mut self.output.symbols {
            let layout = symbol.section_index().and_then(|section| self.layouts.get(&section));
            if let Some(layout) = layout.filter(|_| symbol.kind() != STT_SECTION) {
                symbol.value = layout.moved(symbol.value);
            }
        }
        for layout in self.layouts.values() {
            for (function, range) in layout.functions() {
                let symbol = &mut self.output.symbols[sources.places[function].symbol];
                (symbol.value, symbol.size) = (range.start, range.end - range.start);
            }
        }
        // A function that became static: libbpf tells the kernel that hidden functions are.
        for (index, function) in self.object.functions.iter().enumerate() {
            if function.linkage == Linkage::Static && sources.original[index].linkage != Linkage::Static {
                let symbol = &mut self.output.symbols[sources.places[index].symbol];
                symbol.other = symbol.other & !3 | STV_HIDDEN;
            }
        }
    }

    /// The new section and offset of a function.
    fn start(&self, id: FunctionId) -> Result<(usize, u64)> {
        let missing = || Fault::Mismatch { message: format!("function {} does not exist", id.0) };
        self.starts.get(id.index()).copied().ok_or_else(missing)
    }

    fn write_code(&mut self) -> Result<()> {
        let sections: Vec<_> = self.layouts.keys().copied().collect();
        for section in sections {
            let mut slots = self.layouts[&section].slots.clone();
            let mut relocations = Vec::new();
            for (slot, id, reference) in &self.layouts[&section].open {
                let encoded = self.encode(section, *slot, slots[*slot].opcode == LOAD_IMM64, *id, *reference)?;
                slots[*slot].imm = encoded.imm;
                slots[*slot].src = encoded.src;
                if let Some((kind, symbol)) = encoded.relocation {
                    relocations.push(Rel { offset: *slot as u64 * SLOT_BYTES, kind, symbol });
                }
            }
            let layout = &self.layouts[&section];
            for relocation in self.sources.file.relocations_of(section)?.into_values() {
                if layout.in_gap(relocation.offset) {
                    relocations.push(Rel { offset: layout.moved(relocation.offset), ..relocation });
                }
            }
            relocations.sort_by_key(|relocation| relocation.offset);
            self.set_relocations(section, relocations);
            let bytes = slots.iter().flat_map(|slot| slot.to_bytes()).collect();
            self.output.contents.insert(section, bytes);
        }
        Ok(())
    }

    fn set_relocations(&mut self, target: usize, relocations: Vec<Rel>) {
        let mut sections: Vec<_> = self.sources.file.relocation_sections(target).collect();
        if sections.is_empty() {
            if !relocations.is_empty() {
                self.output.added_relocations.push((target, relocations));
            }
            return;
        }
        let first = sections.remove(0);
        self.output.relocations.insert(first, relocations);
        for other in sections {
            self.output.relocations.insert(other, Vec::new());
        }
    }

    /// How an instruction encodes a reference: relocation and encoded fields, as in the original if possible.
    fn encode(&self, section: usize, slot: usize, load: bool, id: InsnId, reference: Reference) -> Result<Origin> {
        let origin = self.sources.origins.get(&id).filter(|origin| origin.reference == reference).copied();
        let mut encoded = match origin {
            Some(origin) => origin,
            None => self.new_origin(section, load, reference)?,
        };
        if let Reference::Function(target) = reference {
            let (_, start) = self.start(target)?;
            let base = match encoded.relocation {
                Some((_, symbol)) => self.output.symbols[symbol as usize].value,
                None => slot as u64 * SLOT_BYTES,
            };
            let distance = start as i64 - base as i64;
            encoded.imm = if load { distance } else { distance / SLOT_BYTES as i64 - 1 } as i32;
        }
        Ok(encoded)
    }

    /// Encodes a reference that the file did not have at that instruction.
    fn new_origin(&self, section: usize, load: bool, reference: Reference) -> Result<Origin> {
        let origin = |kind, symbol: Option<usize>, imm, src| match symbol {
            Some(symbol) => Ok(Origin { reference, relocation: Some((kind, symbol as u32)), imm, src }),
            None => unsupported(self.sources.file.section_name(section), 0, "an address that no symbol leads to"),
        };
        match reference {
            Reference::Map(map) => origin(R_BPF_64_64, self.map_symbol(map), 0, 0),
            Reference::MapValue { map, offset } => {
                let symbol = self.data_symbol(map);
                let value = symbol.map_or(0, |symbol| self.output.symbols[symbol].value);
                origin(R_BPF_64_64, symbol, (i64::from(offset) - value as i64) as i32, 0)
            }
            Reference::Function(target) => {
                let (home, _) = self.start(target)?;
                if home == section && !load {
                    return Ok(Origin { reference, relocation: None, imm: 0, src: 1 });
                }
                let (kind, src) = if load { (R_BPF_64_64, 0) } else { (R_BPF_64_32, 1) };
                origin(kind, self.function_symbol(target), 0, src)
            }
            Reference::Extern(id) => {
                let symbol = self.sources.externs.symbols.get(id.index()).map(|symbol| *symbol as usize);
                if load { origin(R_BPF_64_64, symbol, 0, 0) } else { origin(R_BPF_64_32, symbol, -1, 1) }
            }
            Reference::None | Reference::Branch(_) => origin(0, None, 0, 0),
        }
    }

    fn map_symbol(&self, map: MapId) -> Option<usize> {
        let (section, offset) = (*self.sources.maps.places.get(map.index())?)?;
        self.sources.file.symbols.iter().position(|symbol| {
            symbol.section_index() == Some(section) && symbol.value == offset && symbol.kind() != STT_SECTION
        })
    }

    fn data_symbol(&self, map: MapId) -> Option<usize> {
        let (section, _) = self.sources.maps.data.iter().find(|(_, owner)| **owner == map)?;
        let own = self.sources.file.symbols.iter().enumerate();
        let own = own.filter(|(_, symbol)| symbol.section_index() == Some(*section));
        own.min_by_key(|(_, symbol)| symbol.kind() != STT_SECTION).map(|(index, _)| index)
    }

    /// libbpf wants a global function's own symbol or the section's.
    fn function_symbol(&self, function: FunctionId) -> Option<usize> {
        let place = self.sources.places.get(function.index())?;
        if self.sources.file.symbols[place.symbol].binding() != STB_LOCAL {
            return Some(place.symbol);
        }
        let section_symbol = self
            .sources
            .file
            .symbols
            .iter()
            .position(|symbol| symbol.section_index() == Some(place.section) && symbol.kind() == STT_SECTION);
        section_symbol.or(Some(place.symbol))
    }

    /// Addresses of code in data sections: `symbol + addend`, where the addend is in the patched bytes.
    fn move_addresses_in_data(&mut self) -> Result<()> {
        let file = &self.sources.file;
        for (index, section) in file.sections.iter().enumerate() {
            // Loaders do not relocate BTF, and do not read DWARF.
            let untouched = section.name.starts_with(".debug_") || section.name.starts_with(".BTF");
            if section.kind != SHT_PROGBITS || self.layouts.contains_key(&index) || untouched {
                continue;
            }
            let mut data = None;
            for relocations in file.relocation_sections(index) {
                for relocation in file.relocations(relocations)? {
                    let symbol = &file.symbols[relocation.symbol as usize];
                    let layout = symbol.section_index().and_then(|code| self.layouts.get(&code));
                    let bytes = match relocation.kind {
                        R_BPF_64_ABS64 => 8,
                        R_BPF_64_ABS32 | R_BPF_64_NODYLD32 => 4,
                        _ => continue,
                    };
                    let Some(layout) = layout else { continue };
                    let data = data.get_or_insert_with(|| file.data(index).to_vec());
                    let at = relocation.offset as usize;
                    let Some(field) = at.checked_add(bytes).and_then(|end| data.get_mut(at..end)) else { continue };
                    let mut word = [0; 8];
                    word[..bytes].copy_from_slice(field);
                    let addend = u64::from_le_bytes(word);
                    // A plain reference to a function follows its symbol.
                    if symbol.kind() == STT_FUNC && addend == 0 {
                        continue;
                    }
                    let now = layout.moved(symbol.value.wrapping_add(addend));
                    let addend = now.wrapping_sub(self.output.symbols[relocation.symbol as usize].value);
                    field.copy_from_slice(&addend.to_le_bytes()[..bytes]);
                }
            }
            if let Some(data) = data {
                self.output.contents.insert(index, data);
            }
        }
        Ok(())
    }

    fn write_btf(&mut self) -> Result<()> {
        if let (Some(index), Some(btf)) = (self.sources.file.section_named(".BTF"), &self.object.btf)
            && Some(btf.as_slice()) != self.sources.btf()
        {
            self.output.contents.insert(index, btf.clone());
        }
        let (Some(index), Some(ext)) = (self.sources.file.section_named(".BTF.ext"), &self.sources.ext) else {
            return Ok(());
        };
        let new = self.new_ext(ext)?;
        let (bytes, places) = new.to_bytes();
        let sections = new.parts().into_iter().filter_map(|(_, part)| part).flat_map(|part| &part.sections);
        let sections = sections.flat_map(|section| std::iter::repeat_n(section.name, section.records.len()));
        let models = self.ext_relocations(index)?;
        let model = |name: u32| models.get(self.sources.ext_sections.get(&name)?).copied();
        let relocations = sections.zip(places).filter_map(|(name, place)| {
            let (kind, symbol) = model(name)?;
            Some(Rel { offset: place as u64, kind, symbol })
        });
        let relocations = relocations.collect();
        self.output.contents.insert(index, bytes);
        self.set_relocations(index, relocations);
        Ok(())
    }

    /// How the file relocates records of each code section.
    fn ext_relocations(&self, index: usize) -> Result<HashMap<usize, (u32, u32)>> {
        let file = &self.sources.file;
        let mut models = HashMap::new();
        for relocations in file.relocation_sections(index) {
            for relocation in file.relocations(relocations)? {
                let symbol = &file.symbols[relocation.symbol as usize];
                if let Some(section) = symbol.section_index().filter(|_| symbol.kind() == STT_SECTION) {
                    models.entry(section).or_insert((relocation.kind, relocation.symbol));
                }
            }
        }
        Ok(models)
    }

    fn new_ext(&self, old: &BtfExt) -> Result<BtfExt> {
        let mut new = old.clone();
        let names: HashMap<usize, u32> =
            self.sources.ext_sections.iter().map(|(name, section)| (*section, *name)).collect();
        let mut sections: Vec<_> = self.layouts.keys().copied().collect();
        sections.sort_unstable();
        for (kind, (part, minimum)) in new.parts_mut().into_iter().zip([8, 16, 16]).enumerate() {
            let record_bytes = part.as_ref().map_or(minimum, |part| part.record_bytes);
            let mut records: HashMap<usize, Vec<Record>> = HashMap::new();
            for section in &sections {
                let layout = &self.layouts[section];
                let own = match kind {
                    0 => self.function_records(layout, record_bytes),
                    1 => self.line_records(layout, record_bytes),
                    _ => self.core_records(layout, record_bytes),
                };
                records.insert(*section, own);
            }
            let mut done = Vec::new();
            for old in part.iter_mut().flat_map(|part| &mut part.sections) {
                let Some(section) = self.sources.ext_sections.get(&old.name) else { continue };
                let Some(layout) = self.layouts.get(section) else { continue };
                let gaps = old.records.iter().filter(|record| layout.in_gap(record.offset.into()));
                let gaps = gaps.map(|record| {
                    let offset = layout.moved(record.offset.into()) as u32;
                    Record { offset, ..record.clone() }
                });
                let mut all: Vec<_> = gaps.chain(records.remove(section).unwrap_or_default()).collect();
                all.sort_by_key(|record| record.offset);
                old.records = all;
                done.push(*section);
            }
            let mut missing: Vec<_> = records.into_iter().filter(|(_, own)| !own.is_empty()).collect();
            missing.sort_by_key(|(section, _)| *section);
            for (section, records) in missing {
                let Some(name) = names.get(&section).filter(|_| kind < 2 || old.has_core()) else {
                    let name = self.sources.file.section_name(section);
                    return unsupported(name, 0, "debug information in a section that had none");
                };
                let part = part.get_or_insert(Part { record_bytes, sections: Vec::new() });
                part.sections.push(SectionRecords { name: *name, records });
            }
            if let Some(filled) = part {
                filled.sections.retain(|section| !section.records.is_empty());
                if filled.sections.is_empty() {
                    *part = None;
                }
            }
        }
        Ok(new)
    }

    fn function_records(&self, layout: &CodeLayout, record_bytes: usize) -> Vec<Record> {
        let described = layout.functions().filter(|(index, _)| self.object.functions[*index].btf_id != 0);
        let records = described.map(|(index, range)| {
            let model = self.sources.function_records.get(index).and_then(Option::as_ref);
            Record::new(range.start as u32, &[self.object.functions[index].btf_id], model, record_bytes)
        });
        records.collect()
    }

    /// A record wherever the line changes. libbpf and the kernel want one at the first instruction of every function
    /// that is loaded together with functions that have lines.
    fn line_records(&self, layout: &CodeLayout, record_bytes: usize) -> Vec<Record> {
        let mut records = Vec::new();
        let mut current = None;
        for (slot, function, position) in &layout.nodes {
            let nodes = &self.object.functions[*function].nodes;
            let line = if *position == 0 {
                current = None;
                let old = &self.sources.original[*function].nodes;
                nodes.iter().chain(old).find_map(|node| node.line)
            } else {
                nodes[*position].line
            };
            let (Some(id), true) = (line, line != current) else { continue };
            let Some(line) = self.object.lines.get(id.index()) else { continue };
            current = Some(id);
            let words = [line.file_offset, line.text_offset, line.line << 10 | line.column & 0x3ff];
            let model = self.sources.line_records.get(id.index());
            records.push(Record::new(*slot as u32 * SLOT_BYTES as u32, &words, model, record_bytes));
        }
        records
    }

    fn core_records(&self, layout: &CodeLayout, record_bytes: usize) -> Vec<Record> {
        let mut records = Vec::new();
        for (slot, function, position) in &layout.nodes {
            let node = &self.object.functions[*function].nodes[*position];
            let Some((id, core)) = node.core.and_then(|id| Some((id, self.object.core.get(id.index())?))) else {
                continue;
            };
            let words = [core.type_id, core.access_offset, core.kind];
            let model = self.sources.core_records.get(id.index());
            records.push(Record::new(*slot as u32 * SLOT_BYTES as u32, &words, model, record_bytes));
        }
        records
    }
}
