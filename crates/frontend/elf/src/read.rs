//! From bytes to an [`Object`].

use std::collections::HashMap;
use std::mem::Discriminant;

use kiln_isa::Insn;
use kiln_platform::section_program_type;
use kiln_program::btf::{Btf, Kind, Linkage as BtfLinkage, TypeId};
use kiln_program::{
    CoreId, CoreRelocation, Function, FunctionId, LineId, Linkage, MapContents, MapId, MapSlot, Object, Program,
    SourceLine,
};

use crate::btf_ext::{BtfExt, Part, Record};
use crate::code::{CodeReader, CodeSection, Origin, Place, Referents, SLOT_BYTES, find_functions};
use crate::error::{Fault, Result, invalid};
use crate::externs::{ExternTable, read_externs};
use crate::file::{ElfFile, R_BPF_64_64, R_BPF_64_ABS64, STB_LOCAL, STT_FUNC};
use crate::maps::{MapTable, read_maps, read_struct_ops};
use crate::tables::read_tables;
use crate::unreadable::take_unreadable;

/// Characters of a source line that are kept.
const MAX_TEXT_CHARS: usize = 256;

/// Everything else that the writer needs to write the file again.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub file: ElfFile,
    pub places: Vec<Place>,
    /// Functions that cannot be read, and why.
    pub unreadable: Vec<(Place, Fault)>,
    /// The slot, in its section, of each instruction of each function.
    pub slots: Vec<Vec<usize>>,
    pub origins: HashMap<kiln_program::InsnId, Origin>,
    pub maps: MapTable,
    pub externs: ExternTable,
    pub ext: Option<BtfExt>,
    /// The code section that each `.BTF.ext` section name means.
    pub ext_sections: HashMap<u32, usize>,
    /// The record behind each [`LineId`].
    pub line_records: Vec<Record>,
    /// The record behind each [`CoreId`].
    pub core_records: Vec<Record>,
    /// The record at the beginning of each function.
    pub function_records: Vec<Option<Record>>,
    /// Why no program can be loaded with libbpf, see [`crate::libbpf`].
    pub refusal: Option<String>,
    /// See [`Sources::btf`].
    btf: Option<Vec<u8>>,
    /// The functions as they were read, to detect what a rewrite changed.
    pub original: Vec<Function>,
    /// The lines as they were read.
    pub lines: Vec<SourceLine>,
    /// The CO-RE relocations as they were read.
    pub core: Vec<CoreRelocation>,
    /// The marks of native operations as they were read.
    pub operations: Vec<kiln_program::Mark>,
}

impl Sources {
    /// The `.BTF` section as it was read, its data sections completed.
    pub fn btf(&self) -> Option<&[u8]> {
        self.btf.as_deref()
    }
}

/// The `.BTF` section, completed like a loader does with sizes and offsets that only the file's symbols have.
fn completed_btf(file: &ElfFile, btf: &Btf, bytes: &[u8]) -> Vec<u8> {
    let index = |name: &str| file.sections.iter().position(|section| section.name == name);
    let size = |name: &str| u32::try_from(file.sections[index(name)?].size).ok();
    let symbols: HashMap<(usize, &str), u64> = file
        .symbols
        .iter()
        .filter_map(|symbol| Some(((symbol.section_index()?, symbol.name.as_str()), symbol.value)))
        .collect();
    let offset = |section: &str, variable: &str| {
        symbols.get(&(index(section)?, variable)).and_then(|value| u32::try_from(*value).ok())
    };
    btf.with_sections_filled(bytes, size, offset)
}

pub(crate) fn read_file(name: &str, bytes: &[u8]) -> Result<(Object, Sources)> {
    let file = ElfFile::parse(bytes)?;
    let btf_bytes = file.section_named(".BTF").map(|index| file.data(index));
    let btf = match btf_bytes.map(Btf::parse) {
        Some(Ok(btf)) => Some(btf),
        Some(Err(error)) => return invalid(".BTF", error.offset as u64, error.message),
        None => None,
    };
    let mut maps = read_maps(&file, btf.as_ref())?;
    let externs = read_externs(&file, btf.as_ref(), &mut maps)?;
    read_struct_ops(&file, btf.as_ref(), &mut maps)?;
    read_tables(&file, &mut maps)?;
    let completed = btf_bytes.zip(btf.as_ref()).map(|(bytes, btf)| completed_btf(&file, btf, bytes));
    let mut places = find_functions(&file)?;
    let unreadable = take_unreadable(&file, &maps, &externs, &mut places)?;
    let mut object = Object {
        name: name.to_owned(),
        license: text_section(&file, "license"),
        kernel_version: version(&file)?,
        externs: externs.externs.clone(),
        btf: completed.clone(),
        ..Object::default()
    };
    let mut sources = Sources {
        btf: completed,
        places,
        unreadable,
        slots: Vec::new(),
        origins: HashMap::new(),
        maps,
        externs,
        refusal: None,
        ext: None,
        ext_sections: HashMap::new(),
        line_records: Vec::new(),
        core_records: Vec::new(),
        function_records: Vec::new(),
        original: Vec::new(),
        lines: Vec::new(),
        core: Vec::new(),
        operations: Vec::new(),
        file,
    };
    read_functions(&mut object, &mut sources)?;
    read_map_slots(&mut sources)?;
    object.maps = sources.maps.maps.clone();
    read_programs(&mut object, &sources);
    if let Some(btf) = &btf {
        read_members(&mut object, &sources, btf)?;
    }
    let ext = sources.file.section_named(".BTF.ext").map(|index| BtfExt::parse(sources.file.data(index)));
    if let (Some(ext), Some(btf)) = (ext.transpose()?, &btf) {
        attach_debug_info(&mut object, &mut sources, ext, btf)?;
    }
    object.operations = crate::operations::read_marks(&object, &sources)?;
    sources.operations.clone_from(&object.operations);
    sources.refusal = crate::libbpf::refusal(&object, &sources, btf.as_ref());
    sources.original.clone_from(&object.functions);
    sources.lines.clone_from(&object.lines);
    sources.core.clone_from(&object.core);
    Ok((object, sources))
}

/// A section's text up to the first zero byte.
fn text_section(file: &ElfFile, name: &str) -> String {
    let data = file.section_named(name).map_or(&[][..], |index| file.data(index));
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn version(file: &ElfFile) -> Result<u32> {
    let Some(index) = file.section_named("version") else { return Ok(0) };
    match <[u8; 4]>::try_from(file.data(index)) {
        Ok(bytes) => Ok(u32::from_le_bytes(bytes)),
        Err(_) => invalid("version", 0, "the section is not four bytes long"),
    }
}

fn read_functions(object: &mut Object, sources: &mut Sources) -> Result<()> {
    let referents = Referents::new(&sources.file, &sources.maps, &sources.externs, &sources.places);
    let mut reader = CodeReader::new(referents);
    let mut section: Option<(usize, CodeSection<'_>)> = None;
    for place in &sources.places {
        let code = match section.take() {
            Some((index, code)) if index == place.section => code,
            _ => CodeSection::new(&sources.file, place.section)?,
        };
        let (function, slots) = reader.function(&code, place)?;
        section = Some((place.section, code));
        object.functions.push(function);
        sources.slots.push(slots);
    }
    object.next_insn = reader.next_insn;
    sources.origins = reader.origins;
    Ok(())
}

/// Functions outside `.text` are programs. Properties that the section name does not give stay unset.
fn read_programs(object: &mut Object, sources: &Sources) {
    for (index, function) in object.functions.iter().enumerate() {
        if sources.file.section_name(sources.places[index].section) == ".text" {
            continue;
        }
        let rule = section_program_type(&function.section);
        let program_type = rule.map(|rule| rule.program_type);
        object.programs.push(Program {
            attach_type: rule.and_then(|rule| rule.attach_type),
            autoload: !function.section.starts_with('?'),
            sleepable: rule.is_some_and(|rule| rule.sleepable),
            frags: rule.is_some_and(|rule| rule.frags),
            ..Program::new(&function.name, &function.section, program_type, FunctionId(index as u32))
        });
    }
}

/// The members of `struct_ops` maps to which programs are assigned, from relocations of the maps' bytes.
fn read_members(object: &mut Object, sources: &Sources, btf: &Btf) -> Result<()> {
    let functions: HashMap<_, _> =
        sources.places.iter().enumerate().map(|(index, place)| (place.symbol, FunctionId(index as u32))).collect();
    for (map, place) in sources.maps.maps.iter().zip(&sources.maps.places) {
        let (MapContents::StructOps(bytes), Some((section, start))) = (&map.contents, place) else { continue };
        let structure = btf.resolve(TypeId(map.value_btf)).unwrap_or(TypeId::VOID);
        let name = btf.name(structure).split("___").next().unwrap_or_default();
        for relocation in sources.file.relocations_of(*section)?.values() {
            let within = relocation.offset.checked_sub(*start).filter(|at| *at < bytes.len() as u64);
            let member = within
                .and_then(|at| btf.members(structure).iter().find(|member| u64::from(member.bit_offset) == 8 * at));
            let entry = functions.get(&(relocation.symbol as usize));
            let (Some(member), Some(entry)) = (member, entry) else { continue };
            let target = format!("{name}.{}", btf.text(member.name));
            // A program in several members is loaded for the first one, so that the choice is deterministic.
            for program in object.programs.iter_mut().filter(|program| program.entry == *entry) {
                if program.target.as_ref().is_none_or(|known| target < *known) {
                    program.target = Some(target.clone());
                }
            }
        }
    }
    Ok(())
}

/// The initial entries of maps of maps and prog arrays: relocations behind the definitions in `.maps`.
fn read_map_slots(sources: &mut Sources) -> Result<()> {
    let Some(section) = sources.file.section_named(".maps") else { return Ok(()) };
    let mut relocations: Vec<_> = sources.file.relocations_of(section)?.into_values().collect();
    relocations.sort_by_key(|relocation| relocation.offset);
    let mut definitions: Vec<_> = sources.maps.definitions.iter().filter(|(place, _)| place.0 == section).collect();
    definitions.sort();
    let functions: HashMap<_, _> =
        sources.places.iter().enumerate().map(|(index, place)| (place.symbol, FunctionId(index as u32))).collect();
    let mut slots: HashMap<MapId, Vec<(u32, MapSlot)>> = HashMap::new();
    for relocation in relocations {
        let fail = |message: &str| invalid(".maps", relocation.offset, message);
        // Compilers before clang 13 write R_BPF_64_64 here too.
        if !matches!(relocation.kind, R_BPF_64_ABS64 | R_BPF_64_64) {
            return fail("a relocation of a map is of neither type R_BPF_64_ABS64 nor R_BPF_64_64");
        }
        let behind = definitions.partition_point(|((_, start), _)| *start <= relocation.offset);
        let owner = behind.checked_sub(1).map(|index| definitions[index]);
        let Some(((_, start), map)) = owner else { return fail("a relocation belongs to no map") };
        let values = sources.maps.values.get(map).and_then(|values| (relocation.offset - start).checked_sub(*values));
        let Some(bytes) = values.filter(|bytes| bytes.is_multiple_of(8)) else {
            return fail("a relocation does not point at the values of a map");
        };
        let symbol = &sources.file.symbols[relocation.symbol as usize];
        let slot = if symbol.kind() == STT_FUNC {
            functions.get(&(relocation.symbol as usize)).map(|id| MapSlot::Function(*id))
        } else {
            let home = symbol.section_index().map(|home| (home, symbol.value));
            home.and_then(|place| sources.maps.definitions.get(&place)).map(|id| MapSlot::Map(*id))
        };
        let (Some(slot), Ok(index)) = (slot, u32::try_from(bytes / 8)) else {
            let mut unreadable = sources.unreadable.iter();
            return match unreadable.find(|(place, _)| place.symbol == relocation.symbol as usize) {
                Some((_, fault)) => Err(fault.clone().needed(&symbol.name)),
                None => fail("a map's value is neither a map nor a program"),
            };
        };
        slots.entry(*map).or_default().push((index, slot));
    }
    for (map, slots) in slots {
        sources.maps.maps[map.index()].contents = MapContents::Slots(slots);
    }
    Ok(())
}

fn attach_debug_info(object: &mut Object, sources: &mut Sources, ext: BtfExt, btf: &Btf) -> Result<()> {
    let code_sections = sources.file.sections.iter().enumerate().rev().filter(|(_, section)| section.is_code());
    let by_name: HashMap<_, _> = code_sections.map(|(index, section)| (section.name.as_str(), index)).collect();
    for (_, part) in ext.parts() {
        for records in part.iter().flat_map(|part| &part.sections) {
            if let Some(index) = by_name.get(btf.text(records.name)) {
                sources.ext_sections.insert(records.name, *index);
            }
        }
    }
    let [starts, lines, core] = ext.parts().map(|(_, part)| by_section(part, &sources.ext_sections));
    let (starts, lines, core) = (in_order(starts)?, in_order(lines)?, sorted(core));
    sources.function_records = vec![None; object.functions.len()];
    let mut relocations = HashMap::new();
    for index in 0..object.functions.len() {
        let place = sources.places[index];
        let [starts, lines, core] = [&starts, &lines, &core].map(|records| records_of(records, &place));
        let function = &mut object.functions[index];
        if let Some(record) = starts.iter().find(|record| u64::from(record.offset) == place.start) {
            function.btf_id = record.word(0);
            // The kernel goes by the BTF. clang copies a global function for calls with constants: `g.specialized.1` is a
            // local symbol and global in BTF. Other compilers have callbacks that are global symbols and static in BTF.
            let described = btf.kind(TypeId(function.btf_id));
            let is_local = sources.file.symbols[place.symbol].binding() == STB_LOCAL;
            if !matches!(described, Kind::Function { .. }) {
                let message = format!("type {} of function {} is no function", function.btf_id, function.name);
                return invalid(".BTF.ext", place.start, message);
            }
            match described {
                Kind::Function { linkage: BtfLinkage::Global, .. } if is_local => function.linkage = Linkage::Global,
                Kind::Function { linkage: BtfLinkage::Static, .. } if function.section == ".text" => {
                    function.linkage = Linkage::Static;
                }
                _ => {}
            }
            sources.function_records[index] = Some(record.clone());
        }
        let slots = &sources.slots[index];
        attach_lines(function, slots, lines, &mut object.lines, btf)?;
        attach_core(function, slots, core, (&mut object.core, &mut sources.core_records, &mut relocations), btf)?;
        sources.line_records.extend_from_slice(lines);
    }
    sources.ext = Some(ext);
    Ok(())
}

/// Records, which the kernel takes in the order of their offsets only.
fn in_order(records: HashMap<usize, Vec<Record>>) -> Result<HashMap<usize, Vec<Record>>> {
    for own in records.values() {
        if let Some(pair) = own.windows(2).find(|pair| pair[0].offset >= pair[1].offset) {
            return invalid(".BTF.ext", pair[1].offset.into(), "a record is not behind the one before it");
        }
    }
    Ok(records)
}

fn sorted(mut records: HashMap<usize, Vec<Record>>) -> HashMap<usize, Vec<Record>> {
    records.values_mut().for_each(|own| own.sort_by_key(|record| record.offset));
    records
}

/// The records of a part by code section.
fn by_section(part: Option<&Part>, sections: &HashMap<u32, usize>) -> HashMap<usize, Vec<Record>> {
    let mut all: HashMap<usize, Vec<Record>> = HashMap::new();
    for own in part.iter().flat_map(|part| &part.sections) {
        if let Some(section) = sections.get(&own.name) {
            all.entry(*section).or_default().extend(own.records.iter().cloned());
        }
    }
    all
}

/// The records about one function.
fn records_of<'a>(records: &'a HashMap<usize, Vec<Record>>, place: &Place) -> &'a [Record] {
    let records = records.get(&place.section).map_or(&[][..], Vec::as_slice);
    let before = |end: u64| records.partition_point(|record| u64::from(record.offset) < end);
    &records[before(place.start)..before(place.end)]
}

fn attach_lines(
    function: &mut Function,
    slots: &[usize],
    records: &[Record],
    lines: &mut Vec<SourceLine>,
    btf: &Btf,
) -> Result<()> {
    let first = lines.len();
    for record in records {
        let [Some(file), Some(text)] = [0, 1].map(|index| btf.string(record.word(index))) else {
            return invalid(".BTF.ext", record.offset.into(), "a line's text lies outside the string table");
        };
        lines.push(SourceLine {
            file: file.into_owned(),
            line: record.word(2) >> 10,
            column: record.word(2) & 0x3ff,
            text: text.chars().take(MAX_TEXT_CHARS).collect(),
            file_offset: record.word(0),
            text_offset: record.word(1),
        });
    }
    for (node, slot) in function.nodes.iter_mut().zip(slots) {
        let covering = records.partition_point(|record| u64::from(record.offset) <= *slot as u64 * SLOT_BYTES);
        node.line = covering.checked_sub(1).map(|index| LineId((first + index) as u32));
    }
    Ok(())
}

/// Relocations by what their records say and by what is patched: an offset and an immediate have different widths.
type KnownRelocations = HashMap<(Discriminant<Insn>, Vec<u8>), CoreId>;

/// Gives instructions their CO-RE relocations. Equal relocations of like instructions are one: the loader writes the
/// same number into each.
fn attach_core(
    function: &mut Function,
    slots: &[usize],
    records: &[Record],
    (core, models, known): (&mut Vec<CoreRelocation>, &mut Vec<Record>, &mut KnownRelocations),
    btf: &Btf,
) -> Result<()> {
    for record in records {
        let fail = |message: &str| invalid(&function.section, record.offset.into(), message);
        let (offset, slot_bytes) = (record.offset as usize, SLOT_BYTES as usize);
        let slot = offset.is_multiple_of(slot_bytes).then_some(offset / slot_bytes);
        let Some(position) = slot.and_then(|slot| slots.binary_search(&slot).ok()) else {
            return fail("a CO-RE relocation is not at an instruction");
        };
        let Some(access) = btf.string(record.word(1)) else {
            return fail("a CO-RE relocation's access string lies outside the string table");
        };
        let like = std::mem::discriminant(&function.nodes[position].insn);
        let id = *known.entry((like, record.rest.clone())).or_insert(CoreId(core.len() as u32));
        if id.index() == core.len() {
            let access = access.into_owned();
            let [type_id, access_offset, kind] = [0, 1, 2].map(|index| record.word(index));
            let mut relocation = CoreRelocation { type_id, access, access_offset, kind, keeps_width: false };
            relocation.set_width(btf);
            core.push(relocation);
            models.push(record.clone());
        }
        if function.nodes[position].core.replace(id).is_some() {
            return fail("two CO-RE relocations patch the same instruction");
        }
    }
    Ok(())
}
