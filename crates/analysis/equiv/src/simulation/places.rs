//! Where two functions may meet, besides events.

use std::collections::HashSet;
use std::ops::Range;

use kiln_isa::Insn;
use kiln_program::{Cfg, Function, InsnId, Node};

use crate::simulation::alike::{Alike, is_same, reached};
use crate::simulation::events::{effects, is_event};
use crate::simulation::question::Question;
use crate::simulation::unproved::Unproved;

/// Length, in instructions, from which a trace gets meeting places of its own. The relation is then found piece by
/// piece. Otherwise the paths that leave a long trace would each be followed from its beginning.
const LONGEST_PIECE: usize = 128;

/// Where the functions may meet, besides events. Both functions have each of these instructions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    /// First instructions of a block in either function, except on a straight path from one change to another.
    Away,
    /// First instructions of a block in either function.
    Blocks,
    /// Where paths join in either function.
    Joins,
    /// First instructions of a block in either function that are equal in both. A value that a block chose may now be
    /// chosen before it.
    Unchanged,
    /// First instructions of a block in both functions. An instruction that moved may be the first of a block in one of
    /// them.
    SharedBlocks,
}

/// A function, indexed.
pub(super) struct Indexed<'f> {
    pub(super) function: &'f Function,
    pub(super) cfg: Cfg,
    /// The number of each block in reverse postorder.
    turns: Vec<usize>,
}

impl<'f> Indexed<'f> {
    pub(super) fn new(function: &'f Function) -> Indexed<'f> {
        let cfg = Cfg::new(function);
        let mut turns = vec![usize::MAX; cfg.blocks.len()];
        cfg.reverse_postorder().into_iter().enumerate().for_each(|(turn, block)| turns[block.index()] = turn);
        Indexed { function, cfg, turns }
    }

    /// When an instruction's block has its turn: after those that lead to it, except around loops.
    pub(super) fn turn(&self, at: usize) -> usize {
        self.cfg.block_of.get(at).map_or(usize::MAX, |block| self.turns[block.index()])
    }

    pub(super) fn node(&self, at: usize) -> Result<&'f Node, Unproved> {
        self.function.nodes.get(at).ok_or_else(|| Unproved::not_modelled("a way leaves the function"))
    }

    pub(super) fn target(&self, node: &Node) -> Result<usize, Unproved> {
        let at = node.target().and_then(|id| self.cfg.position.get(&id));
        at.copied().ok_or_else(|| Unproved::not_modelled("a branch leaves the function"))
    }

    /// The place that unconditional jumps lead to. Stops early at `place`.
    pub(super) fn past_jumps(&self, mut at: usize, place: InsnId) -> Result<usize, Unproved> {
        for _ in 0..self.function.nodes.len() {
            let node = self.node(at)?;
            if node.id == place || !matches!(node.insn, Insn::Jump { .. }) {
                break;
            }
            at = self.target(node)?;
        }
        Ok(at)
    }

    /// The instruction with this id.
    fn named(&self, id: InsnId) -> Option<&'f Node> {
        self.cfg.position.get(&id).map(|at| &self.function.nodes[*at])
    }

    /// The instructions of each block.
    fn blocks(&self) -> Vec<Range<usize>> {
        self.cfg.blocks.iter().map(|block| block.range.clone()).collect()
    }

    /// The instructions of each trace: blocks in a row, each but the first entered only from the one before.
    fn traces(&self) -> Vec<Range<usize>> {
        let mut traces: Vec<Range<usize>> = Vec::new();
        for (at, block) in self.cfg.blocks.iter().enumerate() {
            let goes_on = matches!(block.predecessors[..], [only] if only.index() + 1 == at);
            match traces.last_mut() {
                Some(trace) if goes_on => trace.end = block.range.end,
                _ => traces.push(block.range.clone()),
            }
        }
        traces
    }

    /// First instructions of blocks with at least `ways` predecessors.
    pub(super) fn leaders(&self, ways: usize) -> HashSet<InsnId> {
        let blocks = self.cfg.blocks.iter().filter(|block| block.predecessors.len() >= ways);
        blocks.map(|block| self.function.nodes[block.range.start].id).collect()
    }
}

/// The instructions at which the functions may meet, besides events.
pub(super) fn meeting_places(
    question: &Question<'_>,
    (old, new): (&Indexed<'_>, &Indexed<'_>),
    places: Places,
) -> HashSet<InsnId> {
    let ways = if places == Places::Joins { 2 } else { 0 };
    let leaders = [old.leaders(ways), new.leaders(ways)];
    let meet = |id: &InsnId| {
        let [old, new] = [0, 1].map(|side: usize| leaders[side].contains(id));
        if places == Places::SharedBlocks { old && new } else { old || new }
    };
    let changed = |id: &InsnId| {
        let both = old.named(*id).zip(new.named(*id));
        places == Places::Unchanged && both.is_none_or(|(one, other)| !is_same(one, other))
    };
    let between = if places == Places::Away { between_changes(old, new) } else { HashSet::new() };
    let both = question.before.nodes.iter().map(|node| node.id).filter(|id| new.cfg.position.contains_key(id));
    let mut meeting: HashSet<InsnId> = both.filter(meet).filter(|id| !between.contains(id) && !changed(id)).collect();
    let traces = if places == Places::Away { old.traces() } else { old.blocks() };
    meeting.extend(pieces(old, new, traces));
    meeting
}

/// Instructions on a path of the old function from one changed instruction to another, without a join or an event in
/// between. A value that moved from one to the other is in no register between them, so the functions cannot meet
/// there.
fn between_changes(old: &Indexed<'_>, new: &Indexed<'_>) -> HashSet<InsnId> {
    let nodes = &old.function.nodes;
    let follows = |side: &Indexed<'_>, at: usize| side.function.nodes.get(at + 1).map(|next| next.id);
    let is_changed = |at: usize| {
        let node = &nodes[at];
        new.cfg
            .position
            .get(&node.id)
            .is_none_or(|other| !is_same(node, &new.function.nodes[*other]) || follows(old, at) != follows(new, *other))
    };
    let changed: Vec<bool> = (0..nodes.len()).map(is_changed).collect();
    // Where a new path begins.
    let apart = |at: usize| {
        let block = &old.cfg.blocks[old.cfg.block_of[at].index()];
        at == block.range.start && block.predecessors.len() != 1 || is_event(&nodes[at].insn)
    };
    let leading = |at: usize| -> Vec<usize> {
        let block = &old.cfg.blocks[old.cfg.block_of[at].index()];
        if apart(at) {
            return Vec::new();
        }
        if at > block.range.start {
            return vec![at - 1];
        }
        block.predecessors.iter().map(|block| old.cfg.blocks[block.index()].range.end - 1).collect()
    };
    let before: Vec<Vec<usize>> = (0..nodes.len()).map(leading).collect();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, leading) in before.iter().enumerate() {
        leading.iter().for_each(|from| after[*from].push(at));
    }
    let spread = |edges: &[Vec<usize>]| {
        let next = (0..nodes.len()).filter(|at| changed[*at]).flat_map(|at| edges[at].iter().copied());
        reached(next.collect(), edges)
    };
    let (behind, ahead) = (spread(&after), spread(&before));
    (0..nodes.len()).filter(|at| behind[*at] && (ahead[*at] || changed[*at])).map(|at| nodes[at].id).collect()
}

/// Instructions within long traces at which the functions may meet. Both functions have them in the same order.
/// Unchanged ones that follow an unchanged one are preferred.
fn pieces(old: &Indexed<'_>, new: &Indexed<'_>, traces: Vec<Range<usize>>) -> Vec<InsnId> {
    let mut found = Vec::new();
    let there = |at: usize| new.cfg.position.get(&old.function.nodes[at].id).copied();
    let unchanged = |at: usize| {
        let same = |at: usize| there(at).filter(|other| is_same(&old.function.nodes[at], &new.function.nodes[*other]));
        same(at - 1).is_some_and(|before| same(at) == Some(before + 1))
    };
    for trace in traces.into_iter().filter(|trace| trace.len() > 2 * LONGEST_PIECE) {
        let (mut from, mut least) = (trace.start, there(trace.start).unwrap_or(0));
        while trace.end - from > 2 * LONGEST_PIECE {
            let choice = from + LONGEST_PIECE..from + 2 * LONGEST_PIECE;
            let fits = |at: &usize| there(*at).is_some_and(|other| other > least);
            let best = choice.clone().filter(fits).find(|at| unchanged(*at)).or_else(|| choice.clone().find(fits));
            let Some(at) = best else {
                from = choice.end;
                continue;
            };
            found.push(old.function.nodes[at].id);
            (from, least) = (at, there(at).unwrap_or(least));
        }
    }
    found
}

/// Compares two functions, with the registers that calls read according to the question.
pub(super) fn alike_for(question: &Question<'_>, old: &Indexed<'_>, new: &Indexed<'_>) -> Alike {
    let uses = |node: &Node| {
        let (overwrites, _) = effects(&node.insn);
        let writes = overwrites.union(node.insn.written().into_iter().collect());
        (question.read_by(node), writes)
    };
    Alike::new((old.function, &old.cfg), (new.function, &new.cfg), uses)
}
