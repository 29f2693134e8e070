//! New code sections: every function laid out again, and a map from old byte offsets to new ones.
//!
//! ```text
//!   old section   | main 0..72 | gap 72..80 | helper_fn 80..120 |
//!   new section   | main 0..40 | gap 40..48 | helper_fn 48..96  |
//! ```
//!
//! Bytes that belong to no function are unchanged and move as one piece. A pointer into a function (a label, a record
//! of a gap) follows the instruction that it pointed to. If that was deleted, it follows the next remaining one.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use kiln_isa::Slot;
use kiln_program::{FunctionId, InsnId, Node, Object, Reference, lower_function};

use crate::code::{Place, SLOT_BYTES};
use crate::error::{Fault, Result};
use crate::file::ElfFile;
use crate::read::Sources;

/// A laid-out code section.
#[derive(Debug)]
pub(crate) struct CodeLayout {
    /// The slots; addresses and calls are unresolved.
    pub slots: Vec<Slot>,
    /// Unresolved references: slot in the section, instruction, target.
    pub open: Vec<(usize, InsnId, Reference)>,
    /// The instruction of each slot that begins one in a function: its index in [`Object::functions`], its position.
    pub nodes: Vec<(usize, usize, usize)>,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    old: Range<u64>,
    new: Range<u64>,
    /// For a function: its index, and the new place of each old instruction.
    function: Option<(usize, Vec<(u64, u64)>)>,
}

impl CodeLayout {
    /// Lays out the functions `indices` of a section, which are in the order of their old places, without `unused` ones.
    pub fn new(
        object: &Object,
        sources: &Sources,
        section: usize,
        indices: &[usize],
        unused: &BTreeSet<FunctionId>,
    ) -> Result<CodeLayout> {
        let file = &sources.file;
        let mut layout = CodeLayout { slots: Vec::new(), open: Vec::new(), nodes: Vec::new(), chunks: Vec::new() };
        let mut end = 0;
        for index in indices {
            let place = sources.places[*index];
            if place.start > end {
                layout.gap(file, section, end..place.start);
            }
            if unused.contains(&FunctionId(*index as u32)) {
                // Whatever points into it points to what follows.
                let (old, new) = (place.start..place.end, layout.end()..layout.end());
                layout.chunks.push(Chunk { old, new, function: Some((*index, Vec::new())) });
            } else {
                layout.function(object, *index, &place, &sources.slots[*index], &sources.original[*index].nodes)?;
            }
            end = place.end;
        }
        if end < file.sections[section].size {
            layout.gap(file, section, end..file.sections[section].size);
        }
        Ok(layout)
    }

    fn end(&self) -> u64 {
        self.slots.len() as u64 * SLOT_BYTES
    }

    fn gap(&mut self, file: &ElfFile, section: usize, old: Range<u64>) {
        let start = self.end();
        let bytes = &file.data(section)[old.start as usize..old.end as usize];
        // Functions and sections are whole slots, so gaps are too.
        self.slots.extend(Slot::parse_all(bytes).unwrap_or_default());
        self.chunks.push(Chunk { old, new: start..self.end(), function: None });
    }

    fn function(
        &mut self,
        object: &Object,
        index: usize,
        place: &Place,
        old_slots: &[usize],
        old_nodes: &[Node],
    ) -> Result<()> {
        let function = &object.functions[index];
        let image =
            lower_function(function).map_err(|cause| Fault::Layout { function: function.name.clone(), cause })?;
        let (base, start) = (self.slots.len(), self.end());
        let mut now = HashMap::with_capacity(image.insns.len());
        for (slot, id) in image.insns.iter().enumerate() {
            now.entry(*id).or_insert((base + slot) as u64 * SLOT_BYTES);
        }
        for (position, node) in function.nodes.iter().enumerate() {
            self.nodes.push(((now[&node.id] / SLOT_BYTES) as usize, index, position));
        }
        for relocation in &image.relocations {
            self.open.push((base + relocation.slot, image.insns[relocation.slot], relocation.reference));
        }
        self.slots.extend(&image.slots);
        let mut next = self.end();
        let mut anchors = Vec::with_capacity(old_slots.len());
        for (slot, node) in old_slots.iter().zip(old_nodes).rev() {
            next = now.get(&node.id).copied().unwrap_or(next);
            anchors.push((*slot as u64 * SLOT_BYTES, next));
        }
        anchors.reverse();
        let old = place.start..place.end;
        self.chunks.push(Chunk { old, new: start..self.end(), function: Some((index, anchors)) });
        Ok(())
    }

    /// All functions that are not left out, with their new places.
    pub fn functions(&self) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let written = self.chunks.iter().filter(|chunk| !chunk.new.is_empty());
        written.filter_map(|chunk| Some((chunk.function.as_ref()?.0, chunk.new.clone())))
    }

    fn chunk(&self, old: u64) -> Option<&Chunk> {
        let behind = self.chunks.partition_point(|chunk| chunk.old.end <= old);
        self.chunks.get(behind).filter(|chunk| chunk.old.contains(&old))
    }

    /// The new byte offset for an old one.
    pub fn moved(&self, old: u64) -> u64 {
        let Some(chunk) = self.chunk(old) else { return self.end() };
        match &chunk.function {
            None => chunk.new.start + (old - chunk.old.start),
            Some((_, anchors)) => {
                let at = anchors.partition_point(|(offset, _)| *offset < old);
                anchors.get(at).map_or(chunk.new.end, |(_, new)| *new)
            }
        }
    }

    /// Whether an old byte offset belongs to no function.
    pub fn in_gap(&self, old: u64) -> bool {
        self.chunk(old).is_some_and(|chunk| chunk.function.is_none())
    }
}
