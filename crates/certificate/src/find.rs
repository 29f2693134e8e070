//! Finds a certificate for two versions of a function. None of this is trusted.

pub(crate) mod evaluate;
mod guess;
pub mod hunks;
mod pairs;
pub mod remember;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::format::Edit;
use crate::prove::{self, Count};
use crate::provenance::{Arguments, Provenance};
use crate::relation::Relation;
use crate::solver::Solver;
use crate::walk::{Pair, Step, Version};
use kiln_program::{Cfg, Function, FunctionId, Object};
use remember::{Memory, Remembering};

/// Candidate meeting pairs.
const MAX_DROPPED: usize = 32;

/// Finds and proves a certificate that one version of a function does what another does. `memory` has what was answered
/// for other versions or functions.
///
/// # Errors
/// Returns what is not proved.
pub fn certify(
    objects: [&Object; 2],
    id: FunctionId,
    functions: [&Function; 2],
    arguments: &Arguments,
    (solver, memory): (&mut dyn Solver, &mut Memory),
    stop: &dyn Fn() -> bool,
) -> Result<(BTreeMap<Pair, Relation>, BTreeSet<u32>, Count), String> {
    let solver = &mut Remembering { solver, memory, given_up: BTreeSet::new() };
    let version = |function| -> Version<'_> {
        Version { function, cfg: Cfg::new(function), provenance: Provenance::of(objects[0], id, function, arguments) }
    };
    let (mut first, mut reason) = (None, None);
    let gone = left_out(functions);
    let without = [BTreeSet::new()].into_iter().chain((!gone.is_empty()).then_some(gone));
    let attempts =
        without.flat_map(|gone| pairs::attempts(functions).into_iter().map(move |places| (places, gone.clone())));
    for (mut places, left_out) in attempts {
        for _ in 0..MAX_DROPPED {
            if stop() {
                return Err("there was no time for a proof".to_owned());
            }
            let pairs: BTreeMap<Pair, Relation> = places.iter().map(|pair| (*pair, Relation::default())).collect();
            let step = Step { versions: functions.map(version), pairs: &pairs, left_out: &left_out, callees: objects };
            let tried = guess::relations(&step, solver, stop).and_then(|relations| {
                let step = Step { pairs: &relations, ..step };
                let count = prove::prove(&step, solver, stop).map_err(|(pair, why)| {
                    // Bytes of the frame that differ there may be the same on each path that goes on.
                    let differs = relations.get(&pair).is_some_and(|relation| !relation.differ.is_empty());
                    (why, differs.then_some(pair.0).into_iter().collect())
                })?;
                Ok((relations.clone(), count))
            });
            match tried {
                Ok((relations, count)) => return Ok((relations, left_out, count)),
                // Another attempt, without the places at which they do not meet.
                Err((why, blamed)) if !blamed.is_empty() => {
                    places.retain(|pair| !blamed.contains(&pair.0));
                    first = first.or(Some(why));
                }
                Err((why, _)) => {
                    reason = reason.or(first.take()).or(Some(why));
                    break;
                }
            }
        }
    }
    Err(reason.or(first).unwrap_or_default())
}

/// How many lines of the old text are searched for a line of the new one.
const WINDOW: usize = 4096;

/// How one text differs from another, line by line.
pub fn difference(before: &str, after: &str) -> Vec<Edit> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in old.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    let mut edits = Vec::new();
    let mut at = 0;
    for (index, line) in new.iter().enumerate() {
        // The next equal line, if it is near and the following lines are equal too, or if no line is skipped.
        let follows = |place: usize| place == at || old.get(place + 1) == new.get(index + 1);
        let known = places.get(line).map_or(&[][..], Vec::as_slice);
        let from = known.partition_point(|place| *place < at);
        let next = known[from..].iter().take(8).copied().find(|place| *place < at + WINDOW && follows(*place));
        match next {
            Some(place) => {
                if place > at {
                    edits.push(Edit::Drop(place - at));
                }
                match edits.last_mut() {
                    Some(Edit::Keep(count)) => *count += 1,
                    _ => edits.push(Edit::Keep(1)),
                }
                at = place + 1;
            }
            None => edits.push(Edit::Add((*line).to_owned())),
        }
    }
    if at < old.len() {
        edits.push(Edit::Drop(old.len() - at));
    }
    edits
}

/// Calls of helpers that only the old version has.
fn left_out([old, new]: [&Function; 2]) -> BTreeSet<u32> {
    let kept: BTreeSet<_> = new.nodes.iter().map(|node| node.id).collect();
    let calls = old.nodes.iter().zip(0..).filter(|(node, _)| node.helper().is_some() && !kept.contains(&node.id));
    calls.map(|(_, at)| at).collect()
}
