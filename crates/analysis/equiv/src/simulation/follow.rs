//! How the new function goes along with a path of the old one.

use std::cell::OnceCell;

use kiln_isa::{Insn, Reg};
use kiln_program::Node;

use crate::simulation::alike::is_same;
use crate::simulation::beside::{Decision, NewRun};
use crate::simulation::events::{index, is_event};
use crate::simulation::explorer::{Edge, Explorer, Pair, Tally, To, Way};
use crate::simulation::known::Known;
use crate::simulation::segment::{Segment, Step, is_branch};
use crate::simulation::unproved::Unproved;
use crate::term::Arena;
use crate::window::calls::only_answers;
use crate::window::state::Holes;

/// Maximum number of instructions on a path.
const LONGEST_WAY: usize = 2048;
/// How often a path may pass the same instruction.
const ROUNDS: usize = 2;
/// How often a path whose branches are all decided may pass the same instruction: once for each word of a frame.
const DECIDED_ROUNDS: usize = 64;
/// Maximum number of paths from one place.
const MOST_WAYS: usize = 256;
/// Maximum number of questions put to the solver while following paths.
const MAX_ASKED: usize = 16;

/// A path of the new function as far as it was followed.
#[derive(Clone)]
struct Ahead<'f, 'w, 'a> {
    steps: Vec<Step<'f>>,
    at: usize,
    /// The steps as far as they were run beside the old path; `None` if they must be run from their start.
    run: Option<NewRun<'w, 'a>>,
}

impl<'f> Ahead<'f, '_, '_> {
    /// Passes a branch in the decided direction. If it is open, passes it without taking it, and returns the path that
    /// takes it.
    fn pass_branch(&mut self, node: &'f Node, target: usize, decided: Option<bool>) -> Option<Self> {
        let step = |taken: bool| Step { node, taken, open: decided.is_none(), behind: None };
        let other = decided.is_none().then(|| {
            let mut other = self.clone();
            other.steps.push(step(true));
            Ahead { at: target, ..other }
        });
        let taken = decided == Some(true);
        self.steps.push(step(taken));
        self.at = if taken { target } else { self.at + 1 };
        other
    }
}

/// Whether a path is too long or has passed this instruction too often.
fn goes_round(steps: &[Step<'_>], node: &Node, rounds: usize) -> bool {
    steps.len() >= LONGEST_WAY || steps.iter().filter(|step| step.node.id == node.id).count() >= rounds
}

impl<'f> Explorer<'_, 'f> {
    /// The path of the new function that has the same instructions as the old path, if everything they read is equal.
    pub(super) fn same_way(&self, pair: Pair, old: &Way<'f>) -> Result<Option<Edge<'f>>, Unproved> {
        if !self.reads_the_same(pair) {
            return Ok(None);
        }
        let goal = self.old.node(old.stop)?;
        let (mut at, mut steps) = (pair.1, Vec::with_capacity(old.steps.len()));
        for step in &old.steps {
            at = self.new.past_jumps(at, step.node.id)?;
            let node = self.new.node(at)?;
            if !is_same(step.node, node) {
                return Ok(None);
            }
            steps.push(Step { node, taken: step.taken, open: false, behind: None });
            at = if step.taken { self.new.target(node)? } else { at + 1 };
        }
        at = self.new.past_jumps(at, goal.id)?;
        if !is_same(goal, self.new.node(at)?) {
            return Ok(None);
        }
        let to = if old.is_event { To::Event((old.stop, at)) } else { To::Cut((old.stop, at)) };
        Ok(Some(Edge { ways: [old.steps.clone(), steps], to }))
    }

    /// Paths of the old function from a place to the next meeting places.
    pub(super) fn old_ways(&self, steps: Vec<Step<'f>>, from: usize) -> Result<Vec<Way<'f>>, Unproved> {
        let mut found = Vec::new();
        let mut pending = vec![(steps, from, true)];
        while let Some((mut steps, mut at, mut first)) = pending.pop() {
            loop {
                let node = self.old.node(at)?;
                if !self.question.reached(node.id) {
                    break;
                }
                let is_event = is_event(&node.insn) && !self.is_left_out(at, node);
                if is_event || !first && self.meeting.contains(&node.id) {
                    found.push(Way { steps, stop: at, is_event });
                    break;
                }
                first = false;
                if goes_round(&steps, node, ROUNDS) || found.len() + pending.len() >= MOST_WAYS {
                    return Err(Unproved::OutOfEffort("there are too many ways to follow".to_owned()));
                }
                match node.insn {
                    Insn::Jump { .. } => at = self.old.target(node)?,
                    Insn::Branch { .. } => {
                        let mut taken = steps.clone();
                        taken.push(Step { node, taken: true, open: false, behind: None });
                        pending.push((taken, self.old.target(node)?, false));
                        steps.push(Step { node, taken: false, open: false, behind: None });
                        at += 1;
                    }
                    _ => {
                        at += 1;
                        let next = self.question.before.nodes.get(at);
                        let behind = next.and_then(|next| self.question.known(next.id));
                        steps.push(Step { node, taken: false, open: false, behind });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Whether the new function omits this call, which only returns a value that is not read. If it is read, the new
    /// function makes the call elsewhere: of two equal calls, one may be left.
    fn is_left_out(&self, at: usize, node: &Node) -> bool {
        let gone = !self.new.cfg.position.contains_key(&node.id);
        let is_read = self.alike.live.get(at + 1).is_some_and(|live| live.contains(Reg::R0));
        let known = self.question.facts.and_then(|facts| facts.at(node.id));
        gone && !is_read && only_answers(self.question.object, node, known)
    }

    /// Whether the conditions of a path's branches contradict each other without the solver's help.
    pub(super) fn contradicts_itself(&self, pair: Pair, way: &Way<'f>) -> Result<bool, Unproved> {
        if !way.steps.iter().any(|step| is_branch(step.node)) {
            return Ok(false);
        }
        let arena = Arena::new();
        let ran = self.segment(pair, &way.steps, &[]).run(&arena)?;
        let mut known = Known::default();
        Ok(ran.given.iter().chain(&ran.conditions[0]).any(|condition| !known.add(&ran.world, *condition)))
    }

    /// The segments of the new function that go with an old path; `None` if the new function does not reach the same
    /// place.
    pub(super) fn follow(
        &self,
        pair: Pair,
        old: &Way<'f>,
        tally: &mut Tally,
    ) -> Result<Option<Vec<Edge<'f>>>, Unproved> {
        let goal = self.old.node(old.stop)?;
        let alone = Segment {
            object: self.question.object,
            facts: self.facts(pair),
            start: &self.relations[&pair],
            differs_unread: self.differs_unread(pair),
            ways: [&old.steps, &[]],
            event: None,
        };
        let arena = Arena::new();
        let holes = Holes::default();
        let old_run = OnceCell::new();
        let mut edges = Vec::new();
        let mut pending: Vec<Ahead<'f, '_, '_>> = vec![Ahead { steps: Vec::new(), at: pair.1, run: None }];
        while let Some(mut ahead) = pending.pop() {
            loop {
                tally.spend()?;
                let (at, node) = (ahead.at, self.new.node(ahead.at)?);
                // If the old path goes round a loop, the new function must move, too.
                let stands_still =
                    ahead.steps.is_empty() && at == pair.1 && old.stop == pair.0 && !old.steps.is_empty();
                let met = if old.is_event { self.same_event(goal, node) } else { node.id == goal.id && !stands_still };
                if met {
                    let to = if old.is_event { To::Event((old.stop, at)) } else { To::Cut((old.stop, at)) };
                    edges.push(Edge { ways: [old.steps.clone(), ahead.steps], to });
                    break;
                }
                let is_open = ahead.steps.iter().any(|step| step.open);
                let rounds = if is_open { ROUNDS } else { DECIDED_ROUNDS };
                if is_event(&node.insn) || goes_round(&ahead.steps, node, rounds) {
                    if !self.is_impossible(pair, old, &ahead.steps, tally) {
                        return Ok(None);
                    }
                    edges.push(Edge { ways: [old.steps.clone(), ahead.steps], to: To::Nowhere });
                    break;
                }
                match node.insn {
                    Insn::Jump { .. } => {
                        let next = self.new.target(node)?;
                        if next == at {
                            return Ok(None);
                        }
                        ahead.at = next;
                    }
                    Insn::Branch { .. } => {
                        if old_run.get().is_none() {
                            let run = alone.run_old(&arena)?;
                            ahead.run = Some(NewRun::new(old_run.get_or_init(|| run), &holes));
                        }
                        let decided = self.decided(pair, &old.steps, (&mut ahead, node), tally)?;
                        pending.extend(ahead.pass_branch(node, self.new.target(node)?, decided));
                    }
                    _ => {
                        ahead.steps.push(Step { node, taken: false, open: false, behind: None });
                        ahead.at += 1;
                    }
                }
            }
        }
        Ok(Some(edges))
    }

    /// Whether no run takes both the old path to an event and a new path that ends elsewhere.
    fn is_impossible(&self, pair: Pair, old: &Way<'f>, new: &[Step<'f>], tally: &mut Tally) -> bool {
        tally.asked += usize::from(old.is_event);
        let asks = old.is_event && tally.asked <= MAX_ASKED;
        asks && self.segment(pair, &old.steps, new).is_impossible(self.question.solver_steps)
    }

    /// Whether what is known on both paths decides a branch of the new function. If the normal forms do not decide it
    /// and the old path has the same branch, the solver is asked whether both go in the same direction.
    fn decided<'w>(
        &self,
        pair: Pair,
        old: &[Step<'f>],
        (ahead, branch): (&mut Ahead<'f, 'w, '_>, &'f Node),
        tally: &mut Tally,
    ) -> Result<Option<bool>, Unproved>
    where
        'f: 'w,
    {
        let decision = match &mut ahead.run {
            Some(run) => run.decide(&ahead.steps, branch)?,
            None => Decision::Alone,
        };
        let decided = match decision {
            Decision::Decided(taken) => return Ok(Some(taken)),
            Decision::Open => None,
            Decision::Alone => {
                ahead.run = None;
                self.decided_alone(pair, old, &ahead.steps, branch)?
            }
        };
        let asks = self.asks && decided.is_none();
        let Some(same) = old.iter().rev().find(|step| asks && step.node.id == branch.id) else {
            return Ok(decided);
        };
        tally.asked += 1;
        let mut with = ahead.steps.clone();
        with.push(Step { node: branch, taken: same.taken, open: false, behind: None });
        let holds = tally.asked <= MAX_ASKED
            && self.segment(pair, old, &with).decides_last(self.question.solver_steps).unwrap_or(false);
        Ok(holds.then_some(same.taken))
    }

    /// Whether the normal forms decide the branch after the new path, when both paths are run from their start.
    fn decided_alone(
        &self,
        pair: Pair,
        old: &[Step<'f>],
        new: &[Step<'f>],
        branch: &'f Node,
    ) -> Result<Option<bool>, Unproved> {
        let mut with = new.to_vec();
        with.push(Step { node: branch, taken: true, open: false, behind: None });
        let arena = Arena::new();
        let ran = self.segment(pair, old, &with).run(&arena)?;
        let Some((last, earlier)) = ran.conditions[1].split_last() else { return Ok(None) };
        let mut known = Known::default();
        for condition in ran.given.iter().chain(&ran.conditions[0]).chain(earlier) {
            known.add(&ran.world, *condition);
        }
        Ok(known.decides(&ran.world, *last))
    }

    fn same_event(&self, old: &Node, new: &Node) -> bool {
        if let (Insn::MayGoto { .. }, Insn::MayGoto { .. }) = (old.insn, new.insn) {
            return true;
        }
        // The place that they load from is compared at the end of the segment.
        if index(&old.insn, &new.insn).is_some() {
            return old.core.is_none() && new.core.is_none();
        }
        let core = |node: &Node| node.core.map(|id| self.question.object.core.get(id.index()));
        is_event(&old.insn) && old.insn == new.insn && old.reference == new.reference && core(old) == core(new)
    }
}
