//! Proves that a function after a pass does what it did before.
//!
//! A window is a straight run of instructions. What a law of control flow does is not a window: it retargets branches,
//! shares tails, moves blocks, and keeps a value in a register over many blocks. Here the whole old function is
//! compared with the whole new one by a *simulation*: pairs of places, one in each function, that are reached together,
//! with what holds of the registers of both there ([`relation`]).
//!
//! ```text
//!   old                                  new                                       at each pair
//!    1: r9 = r1                           1: r9 = r1
//!    2: if r2 == 0 goto 7                 2: if r2 == 0 goto 5                     2-2: all registers equal
//!    3: r1 = map[m]; call a               3: r1 = map[m]; r7 = r1; call a          after a: new r7 = map[m]
//!    5: r1 = map[m]; call b               4: r1 = r7; call b                       b: same arguments
//!    7: goto 9                            5: exit                                  exit: same R0
//!    9: exit
//! ```
//!
//! 1. *Cuts* are calls and exits, where both functions must do the same, and beginnings of blocks that both functions
//!    have; instructions that stay keep their ids, by which they are found again.
//! 2. From a pair of cuts, every path of the old function to its next cut is followed symbolically. The new function
//!    follows under the same branch conditions until it reaches the same cut ([`segment`]).
//! 3. The first path that reaches a cut suggests the relation there. Each other path weakens it, until nothing changes.
//! 4. Each segment is then proved: the same branches, the same stores in order, the same arguments and results, and the
//!    relation at its end; by equal normal forms, or by the solver. Each is a query of its own, for other solvers too.
//!
//! Code that no change precedes is not followed: both functions run the same instructions in the same state there
//! ([`alike`]). Code that no change follows is not followed either, once everything that is read from there on is
//! equal.
//!
//! A call that only returns a value is not a cut if the value is dead and the new function omits the call; R0 to R5 are
//! then unreadable.
//!
//! The proof assumes the verifier's facts: those of registers at a cut, that places which no path reaches are not
//! reached, and that stack bytes which nothing reads afterwards may differ. It also leaves termination to the verifier:
//! it does not tell one endless loop from another.

pub mod alike;
pub mod arguments;
mod arrival;
mod beside;
mod events;
mod explore;
mod explorer;
mod follow;
pub mod inlined;
mod known;
mod name;
mod places;
mod proof;
mod prove;
mod question;
mod relation;
mod relation_record;
mod segment;
mod segment_record;
mod unproved;

pub use crate::simulation::proof::{Meeting, Simulation};
pub use crate::simulation::question::Question;
pub use crate::simulation::relation_record::RelationRecord;
pub use crate::simulation::segment_record::SegmentRecord;
pub use crate::simulation::unproved::Unproved;

use crate::helpers::LEAST_LARGE_ITEMS;
use crate::simulation::explorer::Explorer;
use crate::simulation::places::{Indexed, Places, alike_for};

/// Instructions of a function from which on a quick proof is looked for near the changes only.
const LARGE: usize = 1000;

/// Proves that `after` does what `before` does.
///
/// # Errors
/// Returns why it is not proved.
pub fn simulate(question: &Question<'_>) -> Result<Simulation, Unproved> {
    question.core_kept()?;
    if question.before.tables != question.after.tables {
        return Err(Unproved::not_modelled("a jump table is changed"));
    }
    let entry =
        question.before.nodes.first().ok_or_else(|| Unproved::not_modelled("a function without instructions"))?;
    if !question.reached(entry.id) {
        return Err(Unproved::not_modelled("no path reaches the function, so there is nothing to show of it"));
    }
    // Code near the changes is usually enough. With fewer meeting places the paths are longer, and more is known at the
    // end of each.
    let mut reason = None;
    let mut proved = None;
    // Of 800 proofs, 740 are found near the changes, 35 by the second attempt, 14 with the solver's help, 2 by the rest.
    let most = [(Places::Away, true, false), (Places::Away, false, false), (Places::Away, true, true)];
    let others = [Places::Joins, Places::Unchanged, Places::Blocks, Places::SharedBlocks];
    let others = others.map(|places| (places, false, false));
    let attempts = most.into_iter().chain([(Places::Away, false, true)]);
    let enough = match question.quick {
        true if question.before.nodes.len() >= LARGE => 1,
        true => 4,
        false if question.before.nodes.len() >= LARGE => most.len(),
        false => usize::MAX,
    };
    let attempts = attempts.chain(others).take(enough);
    let (old, new) = (Indexed::new(question.before), Indexed::new(question.after));
    let alike = alike_for(question, &old, &new);
    let attempts: Vec<_> = attempts.collect();
    let attempt = |(places, near, asks): &(Places, bool, bool)| {
        let explorer = Explorer::new(question, (&old, &new), &alike, *places, *near);
        (Explorer { asks: *asks, ..explorer }).simulate()
    };
    let is_last = |result: &Result<Simulation, Unproved>| match result {
        Ok(simulation) => !question.keep_segments || !simulation.segments.is_empty(),
        Err(_) => (question.stop)(),
    };
    let nodes = question.before.nodes.len();
    let results = question.helpers.each(&attempts, nodes, LEAST_LARGE_ITEMS, attempt, is_last);
    for ((_, near, _), result) in attempts.iter().zip(results) {
        match result {
            // If only unreachable instructions were removed, evidence shows the segments that remain, if they can be
            // proved.
            Ok(simulation) if *near && question.keep_segments && simulation.segments.is_empty() => {
                proved = Some(simulation);
            }
            Ok(simulation) => return Ok(simulation),
            Err(_) if proved.is_some() => break,
            Err(why) if (question.stop)() => return Err(why),
            Err(why) if reason.is_none() && (!near || enough == 1) => reason = Some(why),
            Err(_) => {}
        }
    }
    proved.ok_or_else(|| {
        reason.unwrap_or_else(|| Unproved::OutOfEffort("no places to meet at led to a proof".to_owned()))
    })
}
