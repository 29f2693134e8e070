//! Functions: their places in the code sections, and their instructions with every position resolved to an id.
//!
//! ```text
//!   section xdp:  | main 0..72 | helper_fn 72..120 | (gap) |     symbols of type FUNC say where
//!   slot 3: call +5                         no relocation: slot 9 of the same section must begin a function
//!   slot 5: call -1,   R_BPF_64_32 f        (address of f) + 8 * (imm + 1) must begin a function
//!   slot 6: ld_imm64,  R_BPF_64_64 m        a map, a byte of a data section, a callback, or an extern
//! ```

use std::collections::HashMap;

use kiln_isa::{CallTarget, Insn, Slot, decode};
use kiln_program::lower::without_encoded_reference;
use kiln_program::{Function, FunctionId, InsnId, Linkage, MapId, Node, Reference};

use crate::error::{Result, invalid, unlinked, unsupported};
use crate::externs::ExternTable;
use crate::file::{ElfFile, R_BPF_64_32, R_BPF_64_64, Rel, SHN_UNDEF, STB_LOCAL, STB_WEAK, STT_FUNC};
use crate::maps::MapTable;
use crate::tables::tables_of;

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = 8;
/// Aliases make several functions of one range of bytes. All functions together may not be larger than the code times
/// this.
const MAX_ALIASING: u64 = 8;

/// Where a function is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub section: usize,
    pub start: u64,
    pub end: u64,
    /// Symbol table index.
    pub symbol: usize,
}

/// The relocation of an instruction, to be written back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    /// The reference that it encodes.
    pub reference: Reference,
    /// Relocation type and symbol; `None` for a call inside a section without relocation.
    pub relocation: Option<(u32, u32)>,
    /// The immediate as encoded: the addend.
    pub imm: i32,
    /// The source register field as encoded.
    pub src: u8,
}

/// Finds all functions, in the order of sections and offsets, which is libbpf's order of programs.
pub(crate) fn find_functions(file: &ElfFile) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for (symbol, entry) in file.symbols.iter().enumerate() {
        let Some(section) = entry.section_index().filter(|index| file.sections[*index].is_code()) else { continue };
        if entry.kind() != STT_FUNC {
            continue;
        }
        let name = &file.sections[section].name;
        let end = entry.value.checked_add(entry.size).filter(|end| *end <= file.sections[section].size);
        let Some(end) = end.filter(|_| entry.size > 0) else {
            return invalid(name, entry.value, format!("function {} does not fit into its section", entry.name));
        };
        if !entry.value.is_multiple_of(SLOT_BYTES) || !entry.size.is_multiple_of(SLOT_BYTES) {
            return invalid(name, entry.value, format!("function {} is not made of whole slots", entry.name));
        }
        places.push(Place { section, start: entry.value, end, symbol });
    }
    places.sort_by_key(|place| (place.section, place.start, place.end, place.symbol));
    check_places(file, &places)?;
    Ok(places)
}

/// Functions may share all their bytes (aliases), but not a part of them.
fn check_places(file: &ElfFile, places: &[Place]) -> Result<()> {
    for pair in places.windows(2) {
        let [first, second] = [pair[0], pair[1]];
        let alias = (first.start, first.end) == (second.start, second.end);
        if first.section == second.section && second.start < first.end && !alias {
            let name = &file.symbols[second.symbol].name;
            let message = format!("function {name} overlaps function {}", file.symbols[first.symbol].name);
            return invalid(file.section_name(second.section), second.start, message);
        }
    }
    let total: u64 = places.iter().map(|place| place.end - place.start).sum();
    if total > MAX_ALIASING.saturating_mul(file.bytes.len() as u64) {
        return invalid("", 0, "too many functions share the same bytes");
    }
    Ok(())
}

/// Everything that instructions can refer to.
pub(crate) struct Referents<'a> {
    pub file: &'a ElfFile,
    pub maps: &'a MapTable,
    pub externs: &'a ExternTable,
    /// Section and offset to function; the first of aliases.
    pub functions: HashMap<(usize, u64), FunctionId>,
}

impl<'a> Referents<'a> {
    pub fn new(file: &'a ElfFile, maps: &'a MapTable, externs: &'a ExternTable, places: &[Place]) -> Referents<'a> {
        let mut functions = HashMap::new();
        for (index, place) in places.iter().enumerate() {
            functions.entry((place.section, place.start)).or_insert(FunctionId(index as u32));
        }
        Referents { file, maps, externs, functions }
    }

    fn function_at(&self, section: usize, offset: i64) -> Option<FunctionId> {
        self.functions.get(&(section, u64::try_from(offset).ok()?)).copied()
    }
}

/// A code section whose instructions are being read.
pub(crate) struct CodeSection<'a> {
    name: &'a str,
    index: usize,
    slots: Vec<Slot>,
    relocations: HashMap<u64, Rel>,
}

impl<'a> CodeSection<'a> {
    pub fn new(file: &'a ElfFile, index: usize) -> Result<CodeSection<'a>> {
        let name = file.section_name(index);
        let Some(slots) = Slot::parse_all(file.data(index)) else {
            return invalid(name, 0, "the section is not made of whole slots");
        };
        Ok(CodeSection { name, index, slots, relocations: file.relocations_of(index)? })
    }
}

/// Reads functions, issuing instruction ids.
pub(crate) struct CodeReader<'a> {
    pub referents: Referents<'a>,
    pub next_insn: u32,
    pub origins: HashMap<InsnId, Origin>,
    /// The function that each jump table was read for.
    readers: HashMap<MapId, Place>,
}

impl<'a> CodeReader<'a> {
    pub fn new(referents: Referents<'a>) -> CodeReader<'a> {
        CodeReader { referents, next_insn: 0, origins: HashMap::new(), readers: HashMap::new() }
    }

    /// The function at a place, and each instruction's slot in the section.
    pub fn function(&mut self, section: &CodeSection<'_>, place: &Place) -> Result<(Function, Vec<usize>)> {
        let symbol = &self.referents.file.symbols[place.symbol];
        let (start, end) = ((place.start / SLOT_BYTES) as usize, (place.end / SLOT_BYTES) as usize);
        let mut insns = Vec::new();
        let mut ids = HashMap::new();
        let mut at = start;
        while at < end {
            let insn = match decode(&section.slots[at..end]) {
                Ok(insn) => insn,
                Err(error) => return invalid(section.name, at as u64 * SLOT_BYTES, error.to_string()),
            };
            ids.insert(at, InsnId(self.next_insn));
            insns.push((at, insn));
            at += insn.slots() as usize;
            let Some(next) = self.next_insn.checked_add(1) else {
                return invalid(section.name, place.start, "there are too many instructions");
            };
            self.next_insn = next;
        }
        let mut nodes = Vec::with_capacity(insns.len());
        for (at, insn) in &insns {
            nodes.push(self.node(section, *at, *insn, &ids)?);
        }
        if let Some(last) = nodes.last().filter(|last| last.insn.falls_through()) {
            let at = ids.iter().find(|(_, id)| **id == last.id).map_or(start, |(at, _)| *at);
            let message = format!("function {} runs past its end", symbol.name);
            return invalid(section.name, at as u64 * SLOT_BYTES, message);
        }
        let Referents { file, maps, .. } = self.referents;
        let tables = tables_of(file, maps, place, &nodes, &ids, &mut self.readers)?;
        let linkage = match symbol.binding() {
            // libbpf tells the kernel that hidden functions are static.
            _ if symbol.is_hidden() => Linkage::Static,
            STB_LOCAL => Linkage::Static,
            STB_WEAK => Linkage::Weak,
            _ => Linkage::Global,
        };
        let (name, code) = (symbol.name.clone(), section.name.to_owned());
        let function = Function { name, section: code, linkage, btf_id: 0, nodes, tables };
        Ok((function, insns.into_iter().map(|(at, _)| at).collect()))
    }

    fn node(&mut self, section: &CodeSection<'_>, at: usize, insn: Insn, ids: &HashMap<usize, InsnId>) -> Result<Node> {
        let id = ids[&at];
        let offset = at as u64 * SLOT_BYTES;
        let relocation = section.relocations.get(&offset).copied();
        let (insn, reference) = match insn {
            Insn::Jump { .. } | Insn::Branch { .. } | Insn::MayGoto { .. } => {
                if relocation.is_some() {
                    return unsupported(section.name, offset, "a relocated branch");
                }
                let distance = branch_distance(&insn);
                let target = usize::try_from(at as i64 + 1 + distance).ok().and_then(|slot| ids.get(&slot));
                let Some(target) = target else {
                    return invalid(
                        section.name,
                        offset,
                        "a branch leaves its function or lands inside an instruction",
                    );
                };
                (insn, Reference::Branch(*target))
            }
            Insn::Call(CallTarget::Subprogram(imm)) => self.call(section, at, imm, relocation)?,
            Insn::LoadImm64 { .. } if relocation.is_some() => {
                (insn, self.address(section, offset, section.slots[at].imm, relocation)?)
            }
            _ if relocation.is_some() => {
                return unsupported(section.name, offset, "a relocation of an instruction that is no call or ld_imm64");
            }
            _ => (insn, Reference::None),
        };
        if !matches!(reference, Reference::None | Reference::Branch(_)) {
            let relocation = relocation.map(|relocation| (relocation.kind, relocation.symbol));
            let Slot { imm, src, .. } = section.slots[at];
            self.origins.insert(id, Origin { reference, relocation, imm, src });
        }
        let insn = if reference == Reference::None { insn } else { without_encoded_reference(insn) };
        Ok(Node::new(id, insn, reference))
    }

    fn call(
        &self,
        section: &CodeSection<'_>,
        at: usize,
        imm: i32,
        relocation: Option<Rel>,
    ) -> Result<(Insn, Reference)> {
        let offset = at as u64 * SLOT_BYTES;
        let Some(relocation) = relocation else {
            let target = (at as i64 + 1 + i64::from(imm)) * SLOT_BYTES as i64;
            return match self.referents.function_at(section.index, target) {
                Some(id) => Ok((Insn::Call(CallTarget::Subprogram(0)), Reference::Function(id))),
                None => invalid(section.name, offset, "a call lands where no function begins"),
            };
        };
        if relocation.kind != R_BPF_64_32 {
            return unsupported(section.name, offset, format!("relocation type {} of a call", relocation.kind));
        }
        let symbol = &self.referents.file.symbols[relocation.symbol as usize];
        if symbol.section == SHN_UNDEF {
            return match self.referents.externs.by_symbol.get(&relocation.symbol) {
                Some(id) => Ok((Insn::Call(CallTarget::Kfunc { id: 0, fd_index: 0 }), Reference::Extern(*id))),
                None => unlinked(section.name, offset, &symbol.name),
            };
        }
        let target = i64::try_from(symbol.value).ok();
        let target = target.and_then(|value| value.checked_add((i64::from(imm) + 1) * SLOT_BYTES as i64));
        let function = symbol.section_index().zip(target).and_then(|(code, at)| self.referents.function_at(code, at));
        match function {
            Some(id) => Ok((Insn::Call(CallTarget::Subprogram(0)), Reference::Function(id))),
            None => {
                let message = format!("a call of {:?} lands where no function begins", symbol.name);
                invalid(section.name, offset, message)
            }
        }
    }

    fn address(&self, section: &CodeSection<'_>, offset: u64, imm: i32, relocation: Option<Rel>) -> Result<Reference> {
        let Some(relocation) = relocation else { return Ok(Reference::None) };
        if relocation.kind != R_BPF_64_64 {
            return unsupported(section.name, offset, format!("relocation type {} of a ld_imm64", relocation.kind));
        }
        let symbol = &self.referents.file.symbols[relocation.symbol as usize];
        if symbol.section == SHN_UNDEF {
            return match self.referents.externs.by_symbol.get(&relocation.symbol) {
                Some(id) => Ok(Reference::Extern(*id)),
                None => unlinked(section.name, offset, &symbol.name),
            };
        }
        let target = i64::try_from(symbol.value).ok().and_then(|value| value.checked_add(imm.into()));
        let (Some(home), Some(target)) = (symbol.section_index(), target) else {
            return invalid(section.name, offset, format!("{} is at no place in the file", symbol.name));
        };
        if self.referents.file.sections[home].is_code() {
            return match self.referents.function_at(home, target) {
                Some(id) => Ok(Reference::Function(id)),
                None => invalid(section.name, offset, "a callback's address is not where a function begins"),
            };
        }
        match self.referents.maps.at(home, target) {
            Some((map, Some(_))) if (imm != 0 || symbol.size == 0) && self.referents.maps.is_table(map) => {
                // libbpf takes no notice of the addend, and the table's size from the symbol.
                unsupported(section.name, offset, "an address in a jump table other than by the table's symbol")
            }
            Some((map, None)) => Ok(Reference::Map(map)),
            Some((map, Some(offset))) => Ok(Reference::MapValue { map, offset }),
            None => {
                let home = self.referents.file.section_name(home);
                unsupported(section.name, offset, format!("the address of {:?} in section {home}", symbol.name))
            }
        }
    }
}

fn branch_distance(insn: &Insn) -> i64 {
    match *insn {
        Insn::Jump { offset, .. } => offset.into(),
        Insn::Branch { offset, .. } | Insn::MayGoto { offset } => offset.into(),
        _ => 0,
    }
}
