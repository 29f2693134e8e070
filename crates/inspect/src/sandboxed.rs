//! What a sandboxed object says of itself: its guards, its cancellation points in source lines, and who was cancelled where.
//!
//! Each point counts its cancelled runs in a word of the data section [`SECTION`]. So the instructions that load the
//! address of such a word say which point is where, also in an object that somebody else sandboxed.

use std::collections::BTreeMap;

use kiln_isa::Insn;
use kiln_program::{Function, Object, Program, Reference};
use kiln_sandbox::counted::{POINTS, SECTION};
use serde::{Deserialize, Serialize};

use crate::show::shown::Shown;

/// A cancellation point.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PointOf {
    /// Its number in the object.
    pub number: usize,
    /// The function whose loop it is.
    pub function: Shown,
    /// Source file and line of the loop, where known.
    pub line: Option<Shown>,
}

/// A point at which runs were cancelled.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cancelled {
    /// The point.
    #[serde(flatten)]
    pub point: PointOf,
    /// How many runs were cancelled there.
    pub runs: u64,
}

/// What the sandbox did to a program.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sandboxed {
    /// Accesses to the heap.
    pub accesses: usize,
    /// Guards, each of which is one instruction.
    pub guards: usize,
    /// Accesses that have no guard of their own.
    pub elided: usize,
    /// Cancellation points that count.
    pub points: Vec<PointOf>,
}

fn points_of<'o>(object: &Object, functions: impl Iterator<Item = &'o Function>) -> Vec<PointOf> {
    let Some(section) = object.maps.iter().position(|map| map.name == SECTION) else { return Vec::new() };
    let mut found = BTreeMap::new();
    for function in functions {
        for node in &function.nodes {
            let Reference::MapValue { map, offset } = node.reference else { continue };
            if map.index() == section && offset >= POINTS {
                let number = ((offset - POINTS) / 8) as usize;
                let line = object.line(node).map(|line| Shown::from(format!("{}:{}", line.file, line.line)));
                found.entry(number).or_insert(PointOf { number, function: function.name.as_str().into(), line });
            }
        }
    }
    found.into_values().collect()
}

/// What the sandbox did to a program; `None` if it did nothing.
pub fn sandboxed(object: &Object, program: &Program, options: &kiln_verifier::Options) -> Option<Sandboxed> {
    let reached = object.reachable_functions(program.entry);
    let functions = || reached.iter().map(|id| object.function(*id));
    let points = points_of(object, functions());
    let nodes = || functions().flat_map(|function| &function.nodes);
    let guards = nodes().filter(|node| matches!(node.insn, Insn::AddressSpaceCast { .. })).count();
    if guards == 0 && points.is_empty() {
        return None;
    }
    let options = kiln_verifier::Options { skip_facts: false, explain: false, ..options.clone() };
    let facts = kiln_verifier::verify(object, program, &options).ok()?.facts;
    let accesses = nodes().filter(|node| facts.in_arena(node.id)).count();
    Some(Sandboxed { accesses, guards, elided: accesses.saturating_sub(guards), points })
}

/// The points at which runs were cancelled, from the contents of the section.
pub fn cancelled(object: &Object, counts: &[u8]) -> Vec<Cancelled> {
    let runs = |number: usize| {
        let word = counts.get(POINTS as usize + 8 * number..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    };
    let points = points_of(object, object.functions.iter()).into_iter();
    points.map(|point| Cancelled { runs: runs(point.number), point }).filter(|point| point.runs > 0).collect()
}
