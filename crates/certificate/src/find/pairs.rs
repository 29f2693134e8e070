//! Where two versions of a function may meet.

use std::collections::BTreeSet;

use crate::walk::Pair;
use kiln_program::{Cfg, Function};

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
    vec![joined, blocks]
}

/// Beginnings of blocks of which the first instructions that both functions have are the same.
fn corresponding(functions: [&Function; 2], graphs: &[Cfg; 2]) -> BTreeSet<Pair> {
    let first = |side: usize, block: usize| {
        let range = graphs[side].blocks[block].range.clone();
        let nodes = &functions[side].nodes[range];
        nodes.iter().map(|node| node.id).find(|id| graphs[1 - side].position.contains_key(id))
    };
    let mut pairs = BTreeSet::new();
    for old in 0..graphs[0].blocks.len() {
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
