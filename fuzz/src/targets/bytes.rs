//! Tier "bytes": untrusted files and texts.

use std::ops::Range;

use kiln_driver::packets::Random;
use kiln_isa::text::parse as parse_insn;
use kiln_isa::{Slot, encode, forms};
use kiln_program::text::parse;
use kiln_program::{Object, validate};

use super::target::{Depth, ensure};
use crate::choices::Choices;
use crate::mutate::mutate;
use crate::program::wild;
use crate::seeds;
use crate::subject::Subject;

fn pick<'a>(random: &mut Random, seeds: &'a [Vec<u8>]) -> &'a [u8] {
    if seeds.is_empty() { &[] } else { &seeds[random.below(seeds.len() as u64) as usize] }
}

fn number(bytes: &[u8], at: usize, width: usize) -> usize {
    bytes.iter().skip(at).take(width).rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

// ------------------------------------------------------------------------------------------------------------ ELF

pub fn damaged_object(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let seed = pick(random, seeds);
    mutate(random, seed, &hot_ranges(seed))
}

/// The file header, the section headers, and the contents of small sections: tables rather than code and strings.
fn hot_ranges(file: &[u8]) -> Vec<Range<usize>> {
    let (headers, count) = (number(file, 40, 8), number(file, 60, 2));
    let mut ranges = vec![0..64, headers..headers.saturating_add(64 * count)];
    for index in 0..count.min(64) {
        let header = headers.saturating_add(64 * index);
        let (start, bytes) = (number(file, header + 24, 8), number(file, header + 32, 8));
        ranges.push(start..start.saturating_add(bytes.min(256)));
    }
    ranges.retain(|range| range.end <= file.len());
    ranges
}

pub fn elf(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let Ok(read) = (subject.read)(bytes) else { return Ok(Depth::Shallow) };
    let written = (subject.write)(&read).map_err(|error| format!("what was read cannot be written: {error}"))?;
    ensure(written == bytes, || "an unchanged object is written with other bytes".to_owned())?;
    // A file written from its parts may differ in unused bytes, but not in the program.
    let Ok(rebuilt) = read.rebuild(&read.object, false) else { return Ok(Depth::Shallow) };
    let again = (subject.read)(&rebuilt).map_err(|error| format!("a rebuilt file is refused: {error}"))?;
    ensure(without_lines(&again.object) == without_lines(&read.object), || "rebuilding changed the object".to_owned())?;
    // What is read may hold functions that no validator accepts (one that runs past its end, say).
    Ok(if validate(&read.object).is_ok() { Depth::Deep } else { Depth::Shallow })
}

/// Without source lines and debug ids: records that damage has put in disorder may get lost.
fn without_lines(object: &Object) -> Object {
    let mut object = Object { lines: Vec::new(), core: Vec::new(), btf: None, ..object.clone() };
    for function in &mut object.functions {
        function.btf_id = 0;
        for node in &mut function.nodes {
            (node.line, node.core) = (None, None);
        }
    }
    object
}

// ------------------------------------------------------------------------------------------------------------ BTF

/// The `.BTF` sections of the seed objects, and a tiny one.
pub fn type_sections() -> Vec<Vec<u8>> {
    let objects = seeds::objects().iter().filter_map(|bytes| kiln_elf::read("seed.o", bytes).ok());
    let sections = objects.filter_map(|read| read.object.btf).filter(|section| section.len() < 20_000);
    sections.chain([seeds::tiny_btf()]).collect()
}

pub fn damaged_types(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let seed = pick(random, seeds);
    let types = 24..24 + number(seed, 12, 4).min(seed.len().saturating_sub(24));
    mutate(random, seed, &[0..24, types.clone(), types])
}

pub fn btf(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let Ok(btf) = (subject.parse_btf)(bytes) else { return Ok(Depth::Shallow) };
    for id in btf.own_ids() {
        // Every query has an answer, whatever the types refer to.
        let _ = (btf.size_of(id), btf.align_of(id), btf.resolve(id), btf.without_qualifiers(id));
        let names = btf.members(id).len() + btf.values(id).len() + btf.parameters(id).len() + btf.variables(id).len();
        ensure(names <= bytes.len(), || format!("type {} has {names} parts in {} bytes", id.0, bytes.len()))?;
        let name = btf.name(id).to_owned();
        ensure(name.is_empty() || btf.named(&name).any(|other| other == id), || {
            format!("type {} is not found by its name {name:?}", id.0)
        })?;
    }
    Ok(Depth::Deep)
}

// ------------------------------------------------------------------------------------------------------------ slots

/// Slots near those of valid forms: a form's bytes with a few changed.
pub fn slots(random: &mut Random, _: &[Vec<u8>]) -> Vec<u8> {
    let forms = forms::forms();
    let (first, second) = encode(&forms[random.below(forms.len() as u64) as usize].insn);
    let mut bytes = first.to_bytes().to_vec();
    bytes.extend(second.map(Slot::to_bytes).into_iter().flatten());
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] = if random.below(2) == 0 { random.next() as u8 } else { bytes[at] ^ 1 << random.below(8) };
    }
    if random.below(16) == 0 {
        bytes.truncate(random.below(bytes.len() as u64) as usize);
    }
    bytes
}

pub fn decode(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let Some(slots) = Slot::parse_all(bytes) else { return Ok(Depth::Shallow) };
    let Ok(insn) = (subject.decode)(&slots) else { return Ok(Depth::Shallow) };
    let (first, second) = encode(&insn);
    let encoded: Vec<Slot> = std::iter::once(first).chain(second).collect();
    ensure(slots.starts_with(&encoded), || format!("encoding differs: {insn} was {slots:?}, is {encoded:?}"))?;
    let text = insn.to_string();
    let parsed = parse_insn(&text).map_err(|error| format!("text does not parse: {text}: {error}"))?;
    ensure(parsed == insn, || format!("text means something else: {text}: {insn:?} became {parsed:?}"))?;
    // Nothing about an instruction may depend on its being a sensible one.
    let _ = (insn.read(), insn.written(), forms::group_of(&insn), forms::version_of(&insn));
    Ok(Depth::Deep)
}

// ------------------------------------------------------------------------------------------------------------ text

/// Texts of objects of the corpora and of grown programs.
pub fn texts() -> Vec<Vec<u8>> {
    let objects = seeds::objects().iter().filter_map(|bytes| kiln_elf::read("seed.o", bytes).ok());
    let printed = objects.map(|read| kiln_program::text::print(&Object { btf: None, ..read.object }));
    let grown = (0..32).map(|seed| {
        let bytes = Random::new(seed).bytes(200);
        kiln_program::text::print(&wild(&mut Choices::new(&bytes)))
    });
    printed.chain(grown).map(String::into_bytes).filter(|text| text.len() < 20_000).collect()
}

/// Lines and words of a text changed, repeated, or mixed with those of another.
pub fn damaged_text(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let (first, second) = (pick(random, seeds), pick(random, seeds));
    let lines = |bytes: &[u8]| -> Vec<Vec<u8>> { bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect() };
    let (mut text, other) = (lines(first), lines(second));
    for _ in 0..random.below(8) {
        let at = random.below(text.len() as u64) as usize;
        match random.below(4) {
            0 => drop(text.remove(at)),
            1 => text.insert(at, text[at].clone()),
            2 => text[at] = other[random.below(other.len() as u64) as usize].clone(),
            _ => text[at] = mutate(random, &text[at], &[]),
        }
        if text.is_empty() {
            break;
        }
    }
    text.join(&b'\n')
}

pub fn text(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let Ok(object) = parse(&String::from_utf8_lossy(bytes)) else { return Ok(Depth::Shallow) };
    if validate(&object).is_err() {
        return Ok(Depth::Shallow);
    }
    let printed = (subject.print)(&object);
    let again = parse(&printed).map_err(|error| format!("printed text does not parse: {error}\n{printed}"))?;
    ensure(again == object, || format!("printing and parsing changed the object:\n{printed}"))?;
    Ok(Depth::Deep)
}
