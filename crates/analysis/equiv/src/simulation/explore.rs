//! Finds pairs of places that both functions reach together, until what holds at each no longer changes.

use std::collections::{BTreeSet, VecDeque};

use kiln_isa::Insn;

use crate::simulation::events::is_event;
use crate::simulation::explorer::{Edge, Explorer, Pair, To, Way};
use crate::simulation::proof::Simulation;
use crate::simulation::relation::Relation;
use crate::simulation::unproved::Unproved;

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

    pub(super) fn simulate(mut self) -> Result<Simulation, Unproved> {
        if self.question.after.nodes.is_empty() {
            return Err(Unproved::not_modelled("a function without instructions"));
        }
        self.begin()?;
        let mut pending: VecDeque<Pair> = self.relations.keys().copied().collect();
        let mut waiting: BTreeSet<Pair> = self.relations.keys().copied().collect();
        while let Some(pair) = pending.pop_front() {
            waiting.remove(&pair);
            self.go_on()?;
            if self.is_settled(pair) {
                self.edges.remove(&pair);
                continue;
            }
            let edges = self.explore(pair)?;
            for edge in &edges {
                for (to, arrival) in self.arrivals(pair, edge)? {
                    let changed = match self.relations.get_mut(&to) {
                        Some(relation) => relation.meet(&arrival),
                        None => {
                            self.relations.insert(to, Relation::of(&arrival));
                            true
                        }
                    };
                    if changed && waiting.insert(to) {
                        pending.push_back(to);
                    }
                }
            }
            self.edges.insert(pair, edges);
        }
        self.prove()
    }

    /// All segments from a pair.
    fn explore(&mut self, pair: Pair) -> Result<Vec<Edge<'f>>, Unproved> {
        let mut edges = Vec::new();
        let mut ways = self.old_ways(Vec::new(), pair.0)?;
        while let Some(way) = ways.pop() {
            self.spend()?;
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
            match self.follow(pair, &way)? {
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
