//! Where two versions of a function may meet.

use std::collections::BTreeSet;

use crate::walk::Pair;
use kiln_isa::Insn;
use kiln_program::{Cfg, Function, Node};

/// Sets of pairs to try, the best first.
pub fn attempts(functions: [&Function; 2]) -> Vec<BTreeSet<Pair>> {
    let graphs = functions.map(Cfg::new);
    let blocks = corresponding(functions, &graphs);
    let joins = |pair: &Pair| {
        let at = [pair.0, pair.1];
        (0..2).any(|side: usize| {
            let graph = &graphs[side];
            let block = graph.block_of[at[side] as usize];
            graph.blocks[block.index()].predecessors.len() > 1
        })
    };
    let joined: BTreeSet<Pair> = blocks.iter().copied().filter(joins).collect();
    // Where a way into a block is gone, some path of the new version does not reach it.
    let ways =
        |side: usize, at: u32| graphs[side].blocks[graphs[side].block_of[at as usize].index()].predecessors.len();
    let reached = joined.iter().copied().filter(|pair| ways(0, pair.0) <= ways(1, pair.1)).collect();
    // A block that computes a value differently may need values that its predecessors computed differently.
    let same = |pair: &Pair| block(functions, &graphs, *pair).is_some_and(|[old, new]| same_code(old, new));
    let unchanged = joined.iter().copied().filter(same).collect();
    let loops = joined.iter().copied().filter(|pair| is_loop(&graphs[0], pair.0) || is_loop(&graphs[1], pair.1));
    let loops: BTreeSet<Pair> = loops.collect();
    let branches = functions[0].nodes.iter().filter(|node| matches!(node.insn, Insn::Branch { .. })).count();
    let mut attempts = vec![reached, joined, unchanged];
    if branches <= MAX_BRANCHES {
        attempts.push(loops);
    }
    attempts.push(blocks);
    let mut tried = BTreeSet::new();
    attempts.retain(|places| tried.insert(places.clone()));
    attempts
}

/// Branches of a function up to which all paths between its loops are followed: values are constants on more of them.
const MAX_BRANCHES: usize = 24;

/// The instructions of the blocks that begin at a pair.
fn block<'f>(functions: [&'f Function; 2], graphs: &[Cfg; 2], pair: Pair) -> Option<[&'f [Node]; 2]> {
    let at = [pair.0, pair.1];
    let nodes = |side: usize| {
        let block = graphs[side].block_of.get(at[side] as usize)?;
        functions[side].nodes.get(graphs[side].blocks[block.index()].range.clone())
    };
    Some([nodes(0)?, nodes(1)?])
}

/// Whether two blocks run the same instructions; where they lead does not matter.
fn same_code(old: &[Node], new: &[Node]) -> bool {
    let jumps = |node: &&Node| !matches!(node.insn, Insn::Jump { .. });
    let code = |nodes: &[Node]| -> Vec<_> {
        let insn = |node: &Node| match node.insn {
            Insn::Branch { op, width, dst, src, .. } => (Insn::Branch { op, width, dst, src, offset: 0 }, node.core),
            other => (other, node.core),
        };
        nodes.iter().filter(jumps).map(insn).collect()
    };
    code(old) == code(new)
}

/// Whether a path leads from the block of an instruction back to it.
pub fn is_loop(graph: &Cfg, at: u32) -> bool {
    let own = graph.block_of[at as usize].index();
    let (mut seen, mut pending) = (BTreeSet::new(), vec![own]);
    while let Some(block) = pending.pop() {
        for before in &graph.blocks[block].predecessors {
            if before.index() == own {
                return true;
            }
            if seen.insert(before.index()) {
                pending.push(before.index());
            }
        }
    }
    false
}

/// Beginnings of blocks of which the first instructions that both functions have are the same.
fn corresponding(functions: [&Function; 2], graphs: &[Cfg; 2]) -> BTreeSet<Pair> {
    let first = |side: usize, block: usize| {
        let range = graphs[side].blocks[block].range.clone();
        let nodes = &functions[side].nodes[range];
        nodes.iter().map(|node| node.id).find(|id| graphs[1 - side].position.contains_key(id))
    };
    // A block that only jumps on is passed where branches lead to its target now.
    let only_jumps = |block: usize| {
        let nodes = &functions[0].nodes[graphs[0].blocks[block].range.clone()];
        matches!(nodes, [Node { insn: Insn::Jump { .. }, .. }])
    };
    let mut pairs = BTreeSet::new();
    for old in (0..graphs[0].blocks.len()).filter(|old| !only_jumps(*old)) {
        let Some(id) = first(0, old) else { continue };
        let new = graphs[1].block_of[graphs[1].position[&id]].index();
        let back = first(1, new).map(|id| graphs[0].block_of[graphs[0].position[&id]].index());
        if back == Some(old) {
            let start = |side: usize, block: usize| graphs[side].blocks[block].range.start as u32;
            pairs.insert((start(0, old), start(1, new)));
        }
    }
    pairs.remove(&(0, 0));
    pairs
}
