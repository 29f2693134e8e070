//! What only control flow gives: unreachable code, threaded and inverted branches, shared tails, block layout.
//!
//! Each step belongs to one law, takes a function and returns what it changed. They feed one another (threading a jump
//! makes a block unreachable, layout makes a jump one to the next instruction), so [`crate::pipeline`] runs them in
//! turn until none finds anything.

use std::collections::HashMap;

use kiln_isa::{CallTarget, Insn};
use kiln_program::{ById, Cfg, Function, Ids, InsnId, Node, Object, Reference};
use kiln_verifier::Facts;

use crate::edit;
use crate::laws::context::{Change, Context};

/// Removes branches that the facts decide, and what then no path of the graph reaches.
pub fn remove_unreachable(context: Context<'_>) -> Vec<Change> {
    let Context { function, facts, .. } = context;
    let mut changes = facts.map(|facts| decide_branches(function, facts)).unwrap_or_default();
    changes.extend(remove_unreachable_blocks(function));
    changes
}

/// Removes what no path of the graph reaches.
pub fn remove_unreachable_blocks(function: &mut Function) -> Vec<Change> {
    let cfg = Cfg::new(function);
    remove_unreachable_in(function, &cfg)
}

/// [`remove_unreachable_blocks`], given the graph.
pub(super) fn remove_unreachable_in(function: &mut Function, cfg: &Cfg) -> Vec<Change> {
    let mut reached = vec![false; cfg.blocks.len()];
    cfg.reverse_postorder().into_iter().for_each(|block| reached[block.index()] = true);
    let unreached = cfg.blocks.iter().zip(reached).filter(|(_, reached)| !reached);
    let doomed: Vec<Node> =
        unreached.flat_map(|(block, _)| function.nodes[block.range.clone()].iter().cloned()).collect();
    edit::delete(function, &doomed.iter().map(|node| node.id).collect());
    if doomed.is_empty() { Vec::new() } else { vec![Change::new(doomed, Vec::new()).by("unreachable")] }
}

/// If no run reaches one side of a branch, the branch becomes a jump or goes. Functions that never run are left alone.
fn decide_branches(function: &mut Function, facts: &Facts) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut doomed = Ids::default();
    for at in 0..function.nodes.len() {
        let node = &function.nodes[at];
        let (Insn::Branch { .. }, Some(target)) = (node.insn, node.target()) else { continue };
        if !facts.reached(node.id) {
            continue;
        }
        let falls_through = function.nodes.get(at + 1).is_some_and(|next| facts.reached(next.id));
        match (falls_through, facts.reached(target)) {
            (true, false) => {
                changes.push(Change::new(vec![node.clone()], Vec::new()).by("constant-branch"));
                doomed.insert(node.id);
            }
            (false, true) => {
                let before = node.clone();
                function.nodes[at].insn = Insn::Jump { offset: 0, long: false };
                let after = vec![function.nodes[at].clone()];
                changes.push(Change::new(vec![before], after).by("constant-branch"));
            }
            _ => {}
        }
    }
    edit::delete(function, &doomed);
    changes
}

/// Sends branches to unconditional jumps where those go.
pub fn thread_jumps(function: &mut Function) -> Vec<Change> {
    let jumps: ById<InsnId> = function
        .nodes
        .iter()
        .filter(|node| matches!(node.insn, Insn::Jump { .. }))
        .filter_map(|node| Some((node.id, node.target()?)))
        .collect();
    let mut changes = Vec::new();
    for node in &mut function.nodes {
        // A may_goto's target is where the kernel's loop bound is enforced: left alone.
        if matches!(node.insn, Insn::MayGoto { .. }) {
            continue;
        }
        let Some(first) = node.target() else { continue };
        let mut target = first;
        for _ in 0..jumps.len() {
            match jumps.get(&target) {
                Some(next) if *next != target => target = *next,
                _ => break,
            }
        }
        // A cycle of jumps has no end to thread to.
        if target != first && !jumps.contains_key(&target) {
            let before = node.clone();
            node.reference = Reference::Branch(target);
            changes.push(Change::new(vec![before], vec![node.clone()]));
        }
    }
    changes
}

/// Removes branches to the next instruction, and exits before an exit.
pub fn remove_jumps_to_next(function: &mut Function) -> Vec<Change> {
    let pairs = function.nodes.windows(2);
    let doomed: Vec<Node> = pairs
        .filter(|pair| match pair[0].insn {
            Insn::Jump { .. } | Insn::Branch { .. } => pair[0].target() == Some(pair[1].id),
            Insn::Exit => pair[1].insn == Insn::Exit,
            _ => false,
        })
        .map(|pair| pair[0].clone())
        .collect();
    edit::delete(function, &doomed.iter().map(|node| node.id).collect());
    doomed.into_iter().map(|node| Change::new(vec![node], Vec::new())).collect()
}

/// Turns a branch over a jump into the opposite branch.
pub fn invert_branches(function: &mut Function) -> Vec<Change> {
    let targets = edit::targets(function);
    let mut changes = Vec::new();
    let mut doomed = Ids::default();
    for at in 0..function.nodes.len().saturating_sub(2) {
        let [branch, jump, next] = &function.nodes[at..at + 3] else { continue };
        let Insn::Branch { op, width, dst, src, offset } = branch.insn else { continue };
        let (Insn::Jump { .. }, Some(negated)) = (jump.insn, op.row().negated) else { continue };
        let over = branch.target() == Some(next.id) && jump.target() != Some(jump.id);
        if !over || targets.contains(&jump.id) || branch.core.is_some() {
            continue;
        }
        let before = vec![branch.clone(), jump.clone()];
        doomed.insert(jump.id);
        let reference = jump.reference;
        let node = &mut function.nodes[at];
        node.insn = Insn::Branch { op: negated, width, dst, src, offset };
        node.reference = reference;
        changes.push(Change::new(before, vec![node.clone()]));
    }
    edit::delete(function, &doomed);
    changes
}

/// Turns jumps to an exit into exits.
pub fn exit_early(function: &mut Function) -> Vec<Change> {
    let exits: Ids = function.nodes.iter().filter(|node| node.insn == Insn::Exit).map(|node| node.id).collect();
    let mut changes = Vec::new();
    for node in &mut function.nodes {
        let jumps = matches!(node.insn, Insn::Jump { .. });
        if jumps && node.target().is_some_and(|target| exits.contains(&target)) {
            let before = node.clone();
            node.insn = Insn::Exit;
            node.reference = Reference::None;
            changes.push(Change::new(vec![before], vec![node.clone()]));
        }
    }
    changes
}

/// Whether two instructions do the same wherever they stand.
pub(crate) fn same(object: &Object, one: &Node, other: &Node) -> bool {
    let core = |node: &Node| node.core.map(|id| &object.core[id.index()]);
    one.insn == other.insn && one.reference == other.reference && core(one) == core(other)
}

/// Merges equal ends of blocks that go on at the same place, the longest first: all merges of a call that leave each
/// other's blocks alone.
///
/// A block's end is its last instructions, a final jump left out, and where control then goes. Replacing `n` of them
/// by one jump saves `n - 1` slots when the block ended in an exit, `n` when it ended in a jump to the same place.
pub fn share_tails(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, banned, most, .. } = context;
    let cfg = Cfg::new(function);
    share_tails_in(object, function, &cfg, (most, banned))
}

/// [`share_tails`], given the graph, how many changes there may be, and where there must be none.
pub(super) fn share_tails_in(
    object: &Object,
    function: &mut Function,
    cfg: &Cfg,
    (most, banned): (usize, &dyn Fn(InsnId) -> bool),
) -> Vec<Change> {
    let tails = Tails::of(object, function, cfg);
    let mut order: Vec<(u32, usize)> =
        (0..tails.ends.len()).filter_map(|one| Some((tails.longest(one, &|_| true)?.saved, one))).collect();
    order.sort_by_key(|(saved, one)| (std::cmp::Reverse(*saved), *one));
    let (mut is_shared, mut is_replaced) = (vec![false; tails.ends.len()], vec![false; tails.ends.len()]);
    let mut merges = Vec::new();
    for (saved, one) in order {
        // What would save less now may save more when the others are merged.
        let tail = tails.longest(one, &|other| !is_replaced[other]).filter(|tail| tail.saved == saved);
        let Some(tail) = tail.filter(|_| !is_shared[one] && merges.len() < most) else { continue };
        let range = tails.ends[one].body.end - tail.length..tails.ends[one].full.end;
        if banned(function.nodes[range.start].id) {
            continue;
        }
        (is_replaced[one], is_shared[tail.other]) = (true, true);
        let heir = function.nodes[tails.ends[tail.other].body.end - tail.length].id;
        let last = function.nodes[range.end - 1].clone();
        let insn = Insn::Jump { offset: 0, long: false };
        merges.push((range, Node { insn, reference: Reference::Branch(heir), core: None, ..last }));
    }
    let change = |(range, jump): &(std::ops::Range<usize>, Node)| {
        Change::new(function.nodes[range.clone()].to_vec(), vec![jump.clone()])
    };
    let changes = merges.iter().map(change).collect();
    merges.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    edit::replace_all(function, merges.into_iter().map(|(range, jump)| (range, vec![jump])).collect());
    changes
}

/// The ends of a function's blocks.
struct Tails<'a> {
    object: &'a Object,
    nodes: &'a [Node],
    ends: Vec<End>,
    /// Ends that go on at the same place after the same last instruction: only these have anything in common.
    alike: HashMap<(Option<InsnId>, Insn, Reference), Vec<usize>>,
}

/// An end that another block has too.
struct Tail {
    saved: u32,
    length: usize,
    /// The end of that block.
    other: usize,
}

impl<'a> Tails<'a> {
    fn of(object: &'a Object, function: &'a Function, cfg: &Cfg) -> Tails<'a> {
        let nodes = &function.nodes;
        let ends = cfg.blocks.iter().filter_map(|block| End::of(function, block.range.clone())).collect();
        let mut tails = Tails { object, nodes, ends, alike: HashMap::new() };
        for index in 0..tails.ends.len() {
            if let Some(key) = tails.key(index) {
                tails.alike.entry(key).or_default().push(index);
            }
        }
        tails
    }

    /// What an end must have in common with another one; `None` if sharing it would save nothing.
    fn key(&self, index: usize) -> Option<(Option<InsnId>, Insn, Reference)> {
        let end = &self.ends[index];
        let last = self.nodes[end.body.clone()].last()?;
        if end.continues.is_none() {
            end.saved(self.nodes, end.body.len())?;
        }
        Some((end.continues, last.insn, last.reference))
    }

    /// The longest end that one block has in common with another of some, if jumping there saves slots.
    fn longest(&self, one: usize, some: &dyn Fn(usize) -> bool) -> Option<Tail> {
        let mut best: Option<Tail> = None;
        for other in self.alike.get(&self.key(one)?)?.iter().copied().filter(|other| *other != one && some(*other)) {
            let length = self.common_suffix(&self.ends[one], &self.ends[other]);
            let Some(saved) = self.ends[one].saved(self.nodes, length).filter(|_| length > 0) else { continue };
            if best.as_ref().is_none_or(|best| saved > best.saved) {
                best = Some(Tail { saved, length, other });
            }
        }
        best
    }

    fn common_suffix(&self, one: &End, other: &End) -> usize {
        let (left, right) = (&self.nodes[one.body.clone()], &self.nodes[other.body.clone()]);
        // A subprogram call keeps its own place: the kernel's call sites carry state of their own.
        let calls = |node: &Node| matches!(node.insn, Insn::Call(CallTarget::Subprogram(_)));
        left.iter().rev().zip(right.iter().rev()).take_while(|(a, b)| same(self.object, a, b) && !calls(a)).count()
    }
}

/// Redirects jumps to an exit that no instruction falls into to another exit.
pub fn share_exits(function: &mut Function) -> Vec<Change> {
    let exits: Vec<usize> = (0..function.nodes.len()).filter(|at| function.nodes[*at].insn == Insn::Exit).collect();
    let alone = |at: &usize| *at > 0 && !function.nodes[*at - 1].insn.falls_through();
    let Some(kept) = exits.iter().find(|at| !alone(at)).or(exits.first()).copied() else { return Vec::new() };
    let heir = function.nodes[kept].id;
    let doomed: Vec<Node> =
        exits.into_iter().filter(|at| *at != kept && alone(at)).map(|at| function.nodes[at].clone()).collect();
    edit::retarget(function, &doomed.iter().map(|node| (node.id, heir)).collect());
    edit::delete(function, &doomed.iter().map(|node| node.id).collect());
    doomed.into_iter().map(|node| Change::new(vec![node], Vec::new())).collect()
}

/// The end of a block that does not fall through.
struct End {
    /// The block without a final jump.
    body: std::ops::Range<usize>,
    /// The block.
    full: std::ops::Range<usize>,
    /// Where control goes: a jump's target, or nowhere after an exit (the exit then belongs to the body).
    continues: Option<InsnId>,
}

impl End {
    fn of(function: &Function, full: std::ops::Range<usize>) -> Option<End> {
        let last = &function.nodes[full.end - 1];
        match last.insn {
            Insn::Exit => Some(End { body: full.clone(), full, continues: None }),
            Insn::Jump { .. } => Some(End { body: full.start..full.end - 1, full, continues: last.target() }),
            // Falling through goes on at the next instruction; such a block can be the shared one, and so is
            // described, but has no jump to spare.
            Insn::Branch { .. } | Insn::MayGoto { .. } => None,
            _ => {
                let continues = function.nodes.get(full.end)?.id;
                Some(End { body: full.clone(), full, continues: Some(continues) })
            }
        }
    }

    /// Slots saved by jumping to a shared tail of `length` instructions.
    fn saved(&self, nodes: &[Node], length: usize) -> Option<u32> {
        let nodes = &nodes[self.body.end - length..self.full.end];
        let slots: u32 = nodes.iter().map(|node| node.insn.slots()).sum();
        slots.checked_sub(1).filter(|saved| *saved > 0)
    }
}

/// Moves blocks that are only jumped to behind one of those jumps, which then goes.
pub fn lay_out(function: &mut Function) -> Vec<Change> {
    let cfg = Cfg::new(function);
    lay_out_in(function, &cfg)
}

/// [`lay_out`], given the graph.
pub(super) fn lay_out_in(function: &mut Function, cfg: &Cfg) -> Vec<Change> {
    let falls_through = |index: usize| {
        let last = &function.nodes[cfg.blocks[index].range.end - 1];
        last.insn.falls_through()
    };
    // Chains of blocks tied by falling through, as block ranges in layout order.
    let mut chains: Vec<Vec<usize>> = Vec::new();
    for index in 0..cfg.blocks.len() {
        match chains.last_mut() {
            Some(chain) if falls_through(index - 1) => chain.push(index),
            _ => chains.push(vec![index]),
        }
    }
    let mut changes = Vec::new();
    let mut doomed = Ids::default();
    let heads: HashMap<usize, usize> = chains.iter().enumerate().map(|(at, chain)| (chain[0], at)).collect();
    let mut at = 0;
    while at < chains.len() {
        // Empty: it was moved.
        let Some(last) = chains[at].last().copied() else {
            at += 1;
            continue;
        };
        let node = &function.nodes[cfg.blocks[last].range.end - 1];
        let jumps = matches!(node.insn, Insn::Jump { .. });
        let target = node.target().and_then(|id| cfg.position.get(&id)).map(|at| cfg.block_of[*at].index());
        let head = target.filter(|_| jumps).and_then(|target| {
            let other = heads.get(&target).copied()?;
            (other != at && other != 0 && !chains[other].is_empty()).then_some(other)
        });
        match head {
            Some(other) => {
                changes.push(Change::new(vec![node.clone()], Vec::new()));
                doomed.insert(node.id);
                let moved = std::mem::take(&mut chains[other]);
                chains[at].extend(moved);
            }
            None => at += 1,
        }
    }
    if !changes.is_empty() {
        let order = chains.into_iter().flatten();
        let nodes = order.flat_map(|index| function.nodes[cfg.blocks[index].range.clone()].iter().cloned());
        function.nodes = nodes.collect();
        edit::delete(function, &doomed);
    }
    changes
}
