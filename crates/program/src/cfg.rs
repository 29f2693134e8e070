//! Basic blocks of a function.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use kiln_isa::Insn;

use crate::object::{Function, InsnId};

/// Hashes the ids of instructions with one multiplication. The ids of what is read from an object file count up.
#[derive(Clone, Copy, Default, Debug)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        let mixed = (self.0 ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// A table by the ids of instructions.
pub type ById<V> = HashMap<InsnId, V, BuildHasherDefault<IdHasher>>;
/// A set of ids of instructions.
pub type Ids = HashSet<InsnId, BuildHasherDefault<IdHasher>>;

/// Index into [`Cfg::blocks`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(pub u32);

impl BlockId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A run of instructions that is entered at its first and left at its last.
#[derive(Clone, Debug)]
pub struct Block {
    /// Positions of its nodes in the function.
    pub range: std::ops::Range<usize>,
    /// Successors: the fall-through first, then the branch target. Of an indirect jump, all targets of the function's tables.
    pub successors: Vec<BlockId>,
    /// Predecessors.
    pub predecessors: Vec<BlockId>,
}

/// The control-flow graph of one function, in layout order; block 0 is the entry.
#[derive(Clone, Debug)]
pub struct Cfg {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// Node position to block.
    pub block_of: Vec<BlockId>,
    /// Node position of each instruction id.
    pub position: ById<usize>,
    /// Node positions that the function's indirect jumps may lead to.
    pub jump_targets: Vec<usize>,
}

impl Cfg {
    /// The graph of a function. Targets that do not exist are left out: [`crate::validate()`] reports them.
    pub fn new(function: &Function) -> Cfg {
        let nodes = &function.nodes;
        let position: ById<usize> = nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        let mut leader = vec![false; nodes.len()];
        let jump_targets: Vec<usize> =
            function.jump_targets().iter().filter_map(|id| position.get(id)).copied().collect();
        jump_targets.iter().for_each(|target| leader[*target] = true);
        for (at, node) in nodes.iter().enumerate() {
            if let Some(target) = node.target().and_then(|id| position.get(&id)) {
                leader[*target] = true;
            }
            if node.insn.is_control() && at + 1 < nodes.len() {
                leader[at + 1] = true;
            }
        }
        let mut blocks: Vec<Block> = Vec::new();
        let mut block_of = Vec::with_capacity(nodes.len());
        for (at, begins) in leader.iter().enumerate() {
            if at == 0 || *begins {
                blocks.push(Block { range: at..at, successors: Vec::new(), predecessors: Vec::new() });
            }
            let last = blocks.len() - 1;
            blocks[last].range.end = at + 1;
            block_of.push(BlockId(last as u32));
        }
        let mut cfg = Cfg { blocks, block_of, position, jump_targets };
        cfg.connect(function);
        cfg
    }

    /// Where control may go on after a node of the function, by position: the next one first.
    pub fn after(&self, function: &Function, at: usize) -> impl Iterator<Item = usize> {
        let node = &function.nodes[at];
        let falls = node.insn.falls_through() && at + 1 < function.nodes.len();
        let target = node.target().and_then(|id| self.position.get(&id));
        let indirect = if matches!(node.insn, Insn::JumpIndirect { .. }) { &self.jump_targets[..] } else { &[] };
        falls.then_some(at + 1).into_iter().chain(target.into_iter().chain(indirect).copied())
    }

    fn connect(&mut self, function: &Function) {
        for index in 0..self.blocks.len() {
            let last = self.blocks[index].range.end - 1;
            let mut successors: Vec<BlockId> = self.after(function, last).map(|at| self.block_of[at]).collect();
            if matches!(function.nodes[last].insn, Insn::JumpIndirect { .. }) {
                successors.sort_unstable();
            }
            successors.dedup();
            for successor in &successors {
                self.blocks[successor.index()].predecessors.push(BlockId(index as u32));
            }
            self.blocks[index].successors = successors;
        }
    }

    /// Blocks reachable from the entry, in reverse postorder.
    pub fn reverse_postorder(&self) -> Vec<BlockId> {
        let mut order = Vec::new();
        if self.blocks.is_empty() {
            return order;
        }
        let mut seen = vec![false; self.blocks.len()];
        let mut stack = vec![(BlockId(0), 0)];
        seen[0] = true;
        while let Some((block, next)) = stack.pop() {
            match self.blocks[block.index()].successors.get(next) {
                Some(successor) => {
                    stack.push((block, next + 1));
                    if !seen[successor.index()] {
                        seen[successor.index()] = true;
                        stack.push((*successor, 0));
                    }
                }
                None => order.push(block),
            }
        }
        order.reverse();
        order
    }
}
