//! Where a range could be made known: numbers that decide about a rejected instruction.

use kiln_isa::{AluOp, Insn, Reg, Source, Width};
use kiln_program::{FunctionId, InsnId, Object, Program};

/// Instructions before the rejected one that are searched.
const MAX_DISTANCE: usize = 128;
/// Places to try at most.
const MAX_PLACES: usize = 32;

/// A register before an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The function.
    pub function: FunctionId,
    /// The position of the instruction in it.
    pub position: usize,
    /// The register.
    pub register: Reg,
}

/// Returns the numbers that may decide about an instruction, the nearest first: what it reads itself, and what is added
/// to another register before it.
pub fn near(object: &Object, program: &Program, at: InsnId) -> Vec<Place> {
    let reached = object.reachable_functions(program.entry);
    let found = reached.into_iter().find_map(|id| Some((id, object.function(id).position(at)?)));
    let Some((function, last)) = found else { return Vec::new() };
    let nodes = &object.function(function).nodes;
    let mut places: Vec<Place> = Vec::new();
    let mut add = |position: usize, register: Reg| {
        let place = Place { function, position, register };
        if register != Reg::R10 && !places.contains(&place) && places.len() < MAX_PLACES {
            places.push(place);
        }
    };
    // Sizes follow the addresses that they are about.
    let read: Vec<Reg> = match nodes[last].insn {
        Insn::Call { .. } => [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5].into_iter().rev().collect(),
        insn => insn.read().iter().collect(),
    };
    read.into_iter().for_each(|register| add(last, register));
    for position in (last.saturating_sub(MAX_DISTANCE)..last).rev() {
        let insn = nodes[position].insn;
        if let Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Reg(src) } = insn {
            add(position, src);
            add(position, dst);
        }
    }
    places
}

/// Returns what an instruction reads: in front of it, then where its function begins.
pub fn read(object: &Object, program: &Program, at: InsnId) -> Vec<Place> {
    let near = near(object, program, at);
    let Some(last) = near.first().map(|place| place.position) else { return Vec::new() };
    let own: Vec<Place> = near.into_iter().filter(|place| place.position == last).collect();
    let begin = own.iter().map(|place| Place { position: 0, ..*place });
    own.iter().copied().chain(begin).collect()
}
