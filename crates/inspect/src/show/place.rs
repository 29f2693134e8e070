//! Places in programs: an instruction with its slot, its listing and its source line.

use kiln_program::text::{Labels, node_text};
use kiln_program::{Clean, Function, InsnId, Object, SourceLine};
use serde::{Deserialize, Serialize};

use crate::show::shown::Shown;

/// An instruction, and its source line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The function.
    pub function: Shown,
    /// The slot in it at which the instruction begins, from 0, as in listings and in the kernel's log of a program
    /// without subprograms.
    pub slot: usize,
    /// The instruction.
    pub listing: Shown,
    /// The source file, as the compiler recorded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Shown>,
    /// The line in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What the line says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Shown>,
}

impl Place {
    pub(super) fn new(object: &Object, insn: InsnId, position: &(String, usize), line: Option<&SourceLine>) -> Place {
        let function =
            object.functions.iter().find(|function| function.nodes.get(position.1).is_some_and(|node| node.id == insn));
        let listing = function.map(|function| node_text(object, &function.nodes[position.1], &Labels::of(function)));
        Place {
            function: position.0.as_str().into(),
            slot: slot_of(object, &position.0, position.1),
            listing: listing.unwrap_or_default().into(),
            file: line.map(|line| line.file.as_str().into()),
            line: line.map(|line| line.line),
            column: line.map(|line| line.column).filter(|column| *column != 0),
            source: line.map(|line| line.text.as_str()).filter(|text| !text.trim().is_empty()).map(Shown::from),
        }
    }

    /// The place of the instruction at a position of a function.
    pub fn at(object: &Object, function: &Function, at: usize) -> Place {
        let node = &function.nodes[at];
        let line = object.line(node).filter(|line| line.line != 0);
        Place::new(object, node.id, &(function.name.clone(), at), line)
    }

    /// The program, slot and instruction, for a note.
    pub(super) fn in_program(&self, program: &str) -> String {
        let Place { function, slot, listing, .. } = self;
        let within = if function == program { String::new() } else { format!(" of {function}") };
        format!("program {}, slot {slot}{within}: {listing}", Clean(program))
    }
}

/// The slot at which an instruction of a function begins: every number of an instruction that users see is one.
pub fn slot_of(object: &Object, function: &str, position: usize) -> usize {
    let nodes = object.functions.iter().find(|own| own.name == function).map_or(&[][..], |own| &own.nodes);
    nodes.iter().take(position).map(|node| node.insn.slots() as usize).sum()
}
