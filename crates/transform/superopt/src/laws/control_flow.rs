//! What only control flow gives: unreachable code, threaded and inverted branches, shared exits, block layout.
//!
//! Each step belongs to one law, takes a function and returns what it changed. They feed one another (threading a jump
//! makes a block unreachable, layout makes a jump one to the next instruction), so [`crate::pipeline`] runs them in
//! turn until none finds anything.

use std::collections::HashMap;

use kiln_isa::Insn;
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
