//! The state of one attempt at a proof: pairs of places, what holds at each, and the segments between them.

use std::collections::{BTreeMap, HashSet};

use kiln_isa::{Insn, Reg};
use kiln_program::{InsnId, Node};
use kiln_verifier::{InsnFacts, StackSet};

use crate::simulation::alike::Alike;
use crate::simulation::places::{Indexed, Places, meeting_places};
use crate::simulation::question::Question;
use crate::simulation::relation::Relation;
use crate::simulation::segment::{Segment, Step};
use crate::simulation::unproved::Unproved;
use crate::window::record::listed;

/// Maximum number of pairs of paths per instruction of the function.
const EFFORT: usize = 64;
/// Pairs of paths that are allowed for any function, however small.
const LEAST_EFFORT: usize = 4096;

/// A place in each function, by position.
pub(super) type Pair = (usize, usize);

/// A path of the old function.
#[derive(Clone)]
pub(super) struct Way<'f> {
    pub(super) steps: Vec<Step<'f>>,
    pub(super) stop: usize,
    /// Whether it ends at an event.
    pub(super) is_event: bool,
}

/// A segment that was found.
pub(super) struct Edge<'f> {
    pub(super) ways: [Vec<Step<'f>>; 2],
    pub(super) to: To,
}

/// Where a segment ends.
#[derive(Clone, Copy)]
pub(super) enum To {
    /// At a beginning of a block that both have.
    Cut(Pair),
    /// At an instruction that both must run.
    Event(Pair),
    /// Nowhere: no run takes both paths.
    Nowhere,
}

pub(super) struct Explorer<'q, 'f> {
    pub(super) question: &'q Question<'f>,
    pub(super) old: &'q Indexed<'f>,
    pub(super) new: &'q Indexed<'f>,
    /// Instructions at which the functions may meet, besides events.
    pub(super) meeting: HashSet<InsnId>,
    /// Where they are the same.
    pub(super) alike: &'q Alike,
    /// Whether only code after a change is followed.
    pub(super) near: bool,
    pub(super) relations: BTreeMap<Pair, Relation>,
    pub(super) edges: BTreeMap<Pair, Vec<Edge<'f>>>,
    /// Whether the solver is asked about branches that the normal forms do not decide.
    pub(super) asks: bool,
}

/// What following paths may still take, and took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tally {
    /// Pairs of paths that may still be followed.
    pub(super) effort: usize,
    /// Questions that were put to the solver while following paths.
    pub(super) asked: usize,
}

impl Tally {
    /// For a function before and after, of so many instructions together.
    pub(super) fn new(instructions: usize) -> Tally {
        Tally { effort: (EFFORT * instructions).max(LEAST_EFFORT), asked: 0 }
    }

    pub(super) fn spend(&mut self) -> Result<(), Unproved> {
        self.take(Tally { effort: 1, asked: 0 })
    }

    /// Takes what a visit took.
    pub(super) fn take(&mut self, spent: Tally) -> Result<(), Unproved> {
        let left = self.effort.checked_sub(spent.effort);
        self.effort = left.ok_or_else(|| Unproved::OutOfEffort("there are too many ways to follow".to_owned()))?;
        self.asked += spent.asked;
        Ok(())
    }
}

impl<'q, 'f> Explorer<'q, 'f> {
    pub(super) fn new(
        question: &'q Question<'f>,
        (old, new): (&'q Indexed<'f>, &'q Indexed<'f>),
        alike: &'q Alike,
        places: Places,
        near: bool,
    ) -> Explorer<'q, 'f> {
        let meeting = meeting_places(question, (old, new), places);
        let (relations, edges) = (BTreeMap::new(), BTreeMap::new());
        Explorer { question, old, new, meeting, alike, near, relations, edges, asks: false }
    }

    /// Whether everything is equal that the old function reads from a pair on. Bytes of the frame that it does not read
    /// may differ.
    pub(super) fn reads_the_same(&self, pair: Pair) -> bool {
        self.relations[&pair].is_same_in(self.alike.live[pair.0]) && self.differs_unread(pair)
    }

    /// Whether the old function reads none of the bytes of the frame that differ at a pair.
    pub(super) fn differs_unread(&self, pair: Pair) -> bool {
        !self.relations[&pair].differs_in(|| self.stack_read_from(pair.0))
    }

    /// Whether no change follows a pair and everything that is read from there on is equal: both functions then behave
    /// the same.
    pub(super) fn is_settled(&self, (old, new): Pair) -> bool {
        let nodes = [&self.question.before.nodes, &self.question.after.nodes];
        let [Some(one), Some(other)] = [nodes[0].get(old), nodes[1].get(new)] else { return false };
        let settled = !self.alike.ahead[old] && one.id == other.id && (old, new) != (0, 0);
        settled && self.reads_the_same((old, new))
    }

    /// Whether both functions reach a pair in the same state, because no path to it passes a change.
    pub(super) fn is_before_changes(&self, (old, new): Pair) -> bool {
        let same = |node: &Node| self.new.cfg.position.get(&node.id) == Some(&new);
        self.near && self.question.before.nodes.get(old).is_some_and(same) && !self.alike.behind[old]
    }

    pub(super) fn facts(&self, (old, _): Pair) -> Option<&'f InsnFacts> {
        self.question.known(self.question.before.nodes[old].id)
    }

    /// Instructions of both functions.
    pub(super) fn instructions(&self) -> usize {
        self.question.before.nodes.len() + self.question.after.nodes.len()
    }

    pub(super) fn go_on(&self) -> Result<(), Unproved> {
        if (self.question.stop)() { Err(Unproved::Stopped) } else { Ok(()) }
    }

    pub(super) fn segment<'s>(&'s self, pair: Pair, old: &'s [Step<'f>], new: &'s [Step<'f>]) -> Segment<'s> {
        Segment {
            object: self.question.object,
            facts: self.facts(pair),
            start: &self.relations[&pair],
            differs_unread: self.differs_unread(pair),
            ways: [old, new],
            event: None,
        }
    }

    /// The segment of an edge, including the event at its end.
    pub(super) fn whole<'s>(&'s self, pair: Pair, edge: &'s Edge<'f>) -> Result<Segment<'s>, Unproved> {
        let segment = self.segment(pair, &edge.ways[0], &edge.ways[1]);
        let To::Event((at, _)) = edge.to else { return Ok(segment) };
        let node = self.old.node(at)?;
        let known = self.question.known(node.id);
        let is_number = |reg: &Reg| known.is_some_and(|known| known.registers[reg.index()].is_outside_frame());
        Ok(Segment { event: Some((node, Reg::all().filter(is_number).collect())), ..segment })
    }

    pub(super) fn what(&self, node: &Node) -> String {
        format!("`{}` ({})", listed(self.question.object, node), node.id.0)
    }

    /// Where both functions go on after an event.
    pub(super) fn behind(&self, (old, new): Pair) -> Result<Vec<Pair>, Unproved> {
        let (one, other) = (self.old.node(old)?, self.new.node(new)?);
        let next = (old + 1, new + 1);
        match one.insn {
            Insn::Exit => Ok(Vec::new()),
            Insn::MayGoto { .. } => Ok(vec![next, (self.old.target(one)?, self.new.target(other)?)]),
            Insn::JumpIndirect { .. } => self.jumped_to(),
            _ => Ok(vec![next]),
        }
    }

    /// Where indirect jumps lead. The same address leads to the same instruction: the functions have the same tables.
    fn jumped_to(&self) -> Result<Vec<Pair>, Unproved> {
        let place = |id| Some((*self.old.cfg.position.get(id)?, *self.new.cfg.position.get(id)?));
        let targets = self.question.before.jump_targets();
        let pairs = targets.iter().map(place).collect::<Option<Vec<Pair>>>();
        pairs.ok_or_else(|| Unproved::not_modelled("a target of a jump table is not in the new function"))
    }

    /// Bytes of the frame that the old function may read from this place on.
    pub(super) fn stack_read_from(&self, at: usize) -> StackSet {
        if self.question.facts.is_none() {
            return StackSet::ALL;
        }
        let block = &self.old.cfg.blocks[self.old.cfg.block_of[at].index()];
        let before: Vec<usize> = if at > block.range.start {
            vec![at - 1]
        } else {
            block.predecessors.iter().map(|block| self.old.cfg.blocks[block.index()].range.end - 1).collect()
        };
        let known = before.iter().filter_map(|at| self.question.live_after(self.question.before.nodes[*at].id));
        known.fold(StackSet::EMPTY, |live, known| live.union(&known))
    }
}
