//! Finds pairs of places that both functions reach together, until what holds at each no longer changes.

use std::collections::{BTreeMap, BTreeSet};

use kiln_isa::Insn;

use crate::helpers::{LEAST_ITEMS, LEAST_LARGE_ITEMS};
use crate::simulation::arrival::Arrival;
use crate::simulation::events::is_event;
use crate::simulation::explorer::{Edge, Explorer, Pair, Tally, To, Way};
use crate::simulation::proof::Simulation;
use crate::simulation::relation::Relation;
use crate::simulation::unproved::Unproved;

/// Pairs that are visited ahead if threads are idle.
const MAX_AHEAD: usize = 31;

/// The segments from a pair, and what they bring to which pairs.
type Visited<'f> = (Vec<Edge<'f>>, Vec<(Pair, Arrival)>);

/// A visit of a pair.
struct Visit<'f> {
    /// What it found; `None` if nothing has to be followed.
    found: Result<Option<Visited<'f>>, Unproved>,
    /// What it took.
    spent: Tally,
    /// Questions that were put to the solver before.
    asked_before: usize,
}

impl<'f> Explorer<'_, 'f> {
    /// The pairs to begin with, and what holds there: the entry, or where both are in one state and a change may come.
    fn begin(&mut self) -> Result<(), Unproved> {
        self.relations.insert((0, 0), Relation::entry());
        if !self.near {
            return Ok(());
        }
        let nodes = &self.question.before.nodes;
        let is_behind_event = |at: usize| {
            let event = at.checked_sub(1).map(|before| &nodes[before].insn);
            event.is_some_and(|insn| is_event(insn) && *insn != Insn::Exit)
        };
        let is_place = |at: usize| at == 0 || self.meeting.contains(&nodes[at].id) || is_behind_event(at);
        let frontier = self.alike.frontier(is_place);
        let begins_behind = self.alike.behind.first() == Some(&true);
        if !frontier.is_empty() && !frontier.contains(&0) && !begins_behind {
            self.relations.clear();
        }
        for at in frontier.into_iter().filter(|at| *at != 0 && self.question.reached(nodes[*at].id)) {
            let facts = self
                .question
                .known(nodes[at].id)
                .ok_or_else(|| Unproved::not_modelled("nothing is known near a change"))?;
            let other = self
                .new
                .cfg
                .position
                .get(&nodes[at].id)
                .ok_or_else(|| Unproved::not_modelled("a change is not in the new function"))?;
            self.relations.insert((at, *other), Relation::same(facts));
        }
        Ok(())
    }

    /// Explores from each pair until what holds at each no longer changes, and proves what was found. Pairs come in the
    /// order of paths of the old function, so that most are explored once.
    pub(super) fn simulate(mut self) -> Result<Simulation, Unproved> {
        if self.question.after.nodes.is_empty() {
            return Err(Unproved::not_modelled("a function without instructions"));
        }
        self.begin()?;
        let mut tally = Tally::new(self.instructions());
        let old = self.old;
        let mut pending: BTreeSet<_> = self.relations.keys().map(|pair| (old.turn(pair.0), *pair)).collect();
        let mut ahead = BTreeMap::new();
        while let Some((_, pair)) = pending.pop_first() {
            self.go_on()?;
            let Some((edges, arrivals)) = self.visit_or_take(pair, &pending, &mut ahead, &mut tally)? else {
                self.edges.remove(&pair);
                continue;
            };
            for (to, arrival) in arrivals {
                let changed = match self.relations.get_mut(&to) {
                    Some(relation) => relation.meet(&arrival),
                    None => {
                        self.relations.insert(to, Relation::of(&arrival));
                        true
                    }
                };
                if changed {
                    ahead.remove(&to);
                    pending.insert((old.turn(to.0), to));
                }
            }
            self.edges.insert(pair, edges);
        }
        self.prove()
    }

    /// Visits a pair. If threads are idle, pairs that wait are visited ahead. Such a visit counts if it would be the same
    /// when the turn comes to its pair: nothing that it began with has changed. So the result does not depend on threads.
    fn visit_or_take(
        &self,
        pair: Pair,
        pending: &BTreeSet<(usize, Pair)>,
        ahead: &mut BTreeMap<Pair, Visit<'f>>,
        tally: &mut Tally,
    ) -> Result<Option<Visited<'f>>, Unproved> {
        let counts = |visit: &Visit<'f>| visit.spent.asked == 0 || visit.asked_before == tally.asked;
        let mut visit = ahead.remove(&pair).filter(counts);
        if visit.is_none() && self.question.helpers.is_any_idle() {
            let waiting = pending.iter().map(|(_, pair)| *pair).filter(|pair| !ahead.contains_key(pair));
            let pairs: Vec<Pair> = [pair].into_iter().chain(waiting.take(MAX_AHEAD)).collect();
            let is_end = |visit: &Visit<'f>| visit.found.is_err();
            let work = |pair: &Pair| self.visit(*pair, *tally);
            ahead.extend(pairs.iter().copied().zip(self.question.helpers.each(
                &pairs,
                self.instructions(),
                LEAST_ITEMS,
                work,
                is_end,
            )));
            visit = ahead.remove(&pair);
        }
        let visit = visit.unwrap_or_else(|| self.visit(pair, *tally));
        tally.take(visit.spent)?;
        visit.found
    }

    /// Follows all paths from a pair, with so much effort left.
    fn visit(&self, pair: Pair, begun: Tally) -> Visit<'f> {
        let mut tally = begun;
        let mut follow = || {
            self.go_on()?;
            if self.is_settled(pair) {
                return Ok(None);
            }
            let edges = self.explore(pair, &mut tally)?;
            let arrive = |edge: &Edge<'f>| self.arrivals(pair, edge);
            let found =
                self.question.helpers.each(&edges, self.instructions(), LEAST_LARGE_ITEMS, arrive, Result::is_err);
            let arrivals: Vec<_> = found.into_iter().collect::<Result<_, _>>()?;
            Ok(Some((edges, arrivals.into_iter().flatten().collect())))
        };
        let found = follow();
        let spent = Tally { effort: begun.effort - tally.effort, asked: tally.asked - begun.asked };
        Visit { found, spent, asked_before: begun.asked }
    }

    /// All segments from a pair.
    fn explore(&self, pair: Pair, tally: &mut Tally) -> Result<Vec<Edge<'f>>, Unproved> {
        let mut edges = Vec::new();
        let mut ways = self.old_ways(Vec::new(), pair.0)?;
        while let Some(way) = ways.pop() {
            tally.spend()?;
            if self.comes_to_no_change(pair, &way) {
                continue;
            }
            if let Some(edge) = self.same_way(pair, &way)? {
                edges.push(edge);
                continue;
            }
            if self.contradicts_itself(pair, &way)? {
                edges.push(Edge { ways: [way.steps, Vec::new()], to: To::Nowhere });
                continue;
            }
            match self.follow(pair, &way, tally)? {
                Some(found) => edges.extend(found),
                None if way.is_event => {
                    let node = self.old.node(way.stop)?;
                    return Err(Unproved::Differs(format!("the new function does not come to {}", self.what(node))));
                }
                None => ways.extend(self.old_ways(way.steps, way.stop)?),
            }
        }
        Ok(edges)
    }

    /// Whether a path, and every instruction that may follow it, precedes all changes: both functions are then in the
    /// same state at its end.
    fn comes_to_no_change(&self, pair: Pair, way: &Way<'f>) -> bool {
        let free = |at: &usize| !self.alike.behind[*at];
        let goes_on = !way.is_event || !self.alike.changed[way.stop] && self.alike.after[way.stop].iter().all(free);
        free(&way.stop) && goes_on && self.is_before_changes(pair)
    }
}
