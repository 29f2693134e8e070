//! What is read in a function while a pass rewrites it, kept up to date at the price of the change.
//!
//! ```text
//!   blocks      0 --> 1 <-> 2 --> 3 --> 4         components: {4} {3} {1, 2} {0}
//!                                 |
//!                                 rewritten: {3} waits. Who asks about block 2 first solves {3}; if less or more is read where
//!                                 it begins, {1, 2} waits too
//! ```
//!
//! A pass goes from the last block to the first, so nearly every component is solved once for all changes after it. The
//! graph stays as it was at the beginning of the pass: a rewrite neither adds branches nor places that branches go to.
//! Within a component that is a loop, demand begins with nothing again, so that what no longer is read does not keep
//! itself alive.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use kiln_isa::Insn;
use kiln_program::components::components;
use kiln_program::{Cfg, Function, Node};

use crate::flow::calls::Calls;
use crate::flow::demand::{Afterwards, Demand, Exits};

/// Demand in a function that is being rewritten.
#[derive(Clone)]
pub(super) struct Demands<'f> {
    function: &'f Function,
    cfg: &'f Cfg,
    calls: &'f Calls,
    /// New instructions by the position of the first that they replace, each with the position after the last. None spans
    /// two blocks.
    changed: BTreeMap<usize, (usize, Vec<Node>)>,
    begins: Vec<Demand>,
    ends: Vec<Demand>,
    /// Demand where blocks begin, by their first instruction.
    exits: Exits,
    /// The blocks of each component, each after all that it leads to.
    components: Vec<Vec<usize>>,
    component_of: Vec<usize>,
    /// Components to solve.
    waiting: BTreeSet<usize>,
    /// The place that was asked about last: its block and what was read at the block's end, then the place's position
    /// and what is read there.
    last: Option<(usize, Demand, usize, Demand)>,
}

impl<'f> Demands<'f> {
    /// Of a function before it is rewritten.
    pub fn new(function: &'f Function, cfg: &'f Cfg, calls: &'f Calls) -> Demands<'f> {
        let successors = |block: usize| cfg.blocks[block].successors.iter().map(|next| next.index()).collect();
        let components = components(cfg.blocks.len(), successors);
        let mut component_of = vec![0; cfg.blocks.len()];
        for (number, members) in components.iter().enumerate() {
            members.iter().for_each(|block| component_of[*block] = number);
        }
        Demands {
            function,
            cfg,
            calls,
            changed: BTreeMap::new(),
            begins: vec![Demand::NONE; cfg.blocks.len()],
            ends: vec![Demand::NONE; cfg.blocks.len()],
            exits: Exits::new(),
            waiting: (0..components.len()).collect(),
            components,
            component_of,
            last: None,
        }
    }

    /// What is read where blocks begin, as far as a run of instructions depends on it that was asked about last.
    pub fn exits(&self) -> &Exits {
        &self.exits
    }

    /// Whether control may come back to a block.
    pub fn is_in_loop(&self, block: usize) -> bool {
        let members = &self.components[self.component_of[block]];
        members.len() > 1 || self.cfg.blocks[block].successors.iter().any(|next| next.index() == block)
    }

    /// What is read after a run of instructions.
    pub fn after(&mut self, run: &Range<usize>) -> Demand {
        let [first, block] = [run.start, run.end - 1].map(|at| self.cfg.block_of[at].index());
        // What the run itself does is not asked about, unless it is in a loop.
        self.solve_below(self.component_of[first] + usize::from(self.is_in_loop(first)));
        let end = self.end_of(block);
        let known = self.last.filter(|(own, before, at, _)| *own == block && *before == end && *at >= run.end);
        let (at, demand) = known.map_or((self.cfg.blocks[block].range.end, end), |(_, _, at, demand)| (at, demand));
        let demand = self.back(run.end..at, demand);
        self.last = Some((block, end, run.end, demand));
        demand
    }

    /// Solves everything.
    pub fn solve(&mut self) {
        self.solve_below(self.components.len());
    }

    /// Puts new instructions in the place of a run.
    pub fn replace(&mut self, run: &Range<usize>, after: &[Node]) {
        let [first, last] = [run.start, run.end - 1].map(|at| self.cfg.block_of[at].index());
        let mut rest = after;
        for block in first..=last {
            let own = &self.cfg.blocks[block].range;
            let branch = rest.iter().position(|node| matches!(node.insn, Insn::Branch { .. }));
            let length = if block == last { rest.len() } else { branch.map_or(0, |at| at + 1) };
            let (piece, more) = rest.split_at(length);
            rest = more;
            self.changed.insert(own.start.max(run.start), (own.end.min(run.end), piece.to_vec()));
            self.waiting.insert(self.component_of[block]);
        }
    }

    fn end_of(&self, block: usize) -> Demand {
        let next = self.cfg.blocks[block].successors.iter();
        next.fold(Demand::NONE, |demand, next| demand.join(&self.begins[next.index()]))
    }

    /// From the end of a range within a block to its beginning.
    fn back(&self, range: Range<usize>, mut demand: Demand) -> Demand {
        let after = Afterwards { exits: &self.exits, ..Afterwards::straight(Demand::NONE, self.calls) };
        let mut step = |nodes: &[Node]| nodes.iter().rev().for_each(|node| after.step_back(&mut demand, node));
        let mut at = range.end;
        for (start, (end, nodes)) in self.changed.range(range.clone()).rev() {
            step(&self.function.nodes[*end..at]);
            step(nodes);
            at = *start;
        }
        step(&self.function.nodes[range.start..at]);
        demand
    }

    fn solve_below(&mut self, limit: usize) {
        while let Some(component) = self.waiting.first().copied().filter(|component| *component < limit) {
            self.waiting.remove(&component);
            self.solve_component(component);
        }
    }

    fn solve_component(&mut self, component: usize) {
        let blocks = self.components[component].clone();
        let before: Vec<Demand> = blocks.iter().map(|block| self.begins[*block]).collect();
        let is_loop = self.is_in_loop(blocks[0]);
        blocks.iter().for_each(|block| self.begin(*block, Demand::NONE));
        loop {
            let mut changed = false;
            for block in blocks.iter().rev() {
                self.ends[*block] = self.end_of(*block);
                let begin = self.back(self.cfg.blocks[*block].range.clone(), self.ends[*block]);
                changed |= begin != self.begins[*block];
                self.begin(*block, begin);
            }
            if !changed || !is_loop {
                break;
            }
        }
        let moved = blocks.into_iter().zip(before).filter(|(block, before)| self.begins[*block] != *before);
        for block in moved.map(|(block, _)| block).collect::<Vec<_>>() {
            let others = self.cfg.blocks[block].predecessors.iter().map(|from| self.component_of[from.index()]);
            self.waiting.extend(others.filter(|other| *other != component));
        }
    }

    fn begin(&mut self, block: usize, demand: Demand) {
        self.begins[block] = demand;
        self.exits.insert(self.function.nodes[self.cfg.blocks[block].range.start].id, demand);
    }
}

#[cfg(test)]
mod tests {
    use kiln_program::Cfg;
    use kiln_program::text::parse;

    use super::Demands;
    use crate::flow::calls::Calls;
    use crate::flow::demand;

    /// Branches, a loop in which R7 keeps itself alive, and code after it.
    const PROGRAM: &str = "
        ; program xdp
         r6 = 0
         r7 = 5
         r8 = *(u32 *)(r1 + 0)
        again:
         r7 += 1
         r6 += 1
         if r6 < 9 goto again
         if r6 > 100 goto out
         r6 += r7
        out:
         r0 = r6
         exit";

    #[test]
    fn after_a_change_it_is_as_if_solved_anew() {
        let object = parse(PROGRAM).expect("a program");
        let (function, calls) = (&object.functions[0], Calls::of(&object));
        let cfg = Cfg::new(function);
        for at in (0..function.nodes.len()).filter(|at| !function.nodes[*at].insn.is_control()) {
            let mut demands = Demands::new(function, &cfg, &calls);
            demands.solve();
            assert_eq!(demands.ends, demand::at_block_ends(function, &cfg, &calls));
            // Another instruction, so that no block is empty.
            let mut changed = function.clone();
            changed.nodes[at].insn = kiln_isa::Insn::mov_imm(kiln_isa::Reg::R9, 1);
            demands.replace(&(at..at + 1), &changed.nodes[at..at + 1]);
            demands.solve();
            assert_eq!(demands.ends, demand::at_block_ends(&changed, &cfg, &calls), "at {at}");
            let mut asked = Demands::new(function, &cfg, &calls);
            asked.replace(&(at..at + 1), &changed.nodes[at..at + 1]);
            for end in (1..=changed.nodes.len()).rev() {
                let block = cfg.block_of[end - 1].index();
                let rest = &changed.nodes[end..cfg.blocks[block].range.end];
                let wanted = demand::Afterwards::straight(demands.ends[block], &calls).before(rest);
                assert_eq!(asked.after(&(end - 1..end)), wanted, "at {at}, after {end}");
            }
        }
    }
}
