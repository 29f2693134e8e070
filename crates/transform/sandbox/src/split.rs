//! Accesses that go to the heap on some paths only are copied, one for each path.
//!
//! The head of a list is a global variable, its links are in the heap, and clang merges the two loads. The kernel translates
//! an instruction to one kind of access, so it refuses what clang makes:
//!
//! ```text
//!   r1 = &head                              r1 = &head
//! next:
//!   r1 = *(u64 *)(r1 + 0)   either          r1 = *(u64 *)(r1 + 0)     the variable
//!                                         on:
//!   if r1 == 0 goto out                     if r1 == 0 goto out
//!   r2 = *(u32 *)(r1 + 8)                   r2 = *(u32 *)(r1 + 8)
//!   if w2 != w3 goto next                   if w2 != w3 goto other
//! out:                                    out:
//!                                           ...
//!                                         other:
//!                                           r1 = *(u64 *)(r1 + 0)     the heap
//!                                           goto on
//! ```
//!
//! Where paths join before such an access, each path gets a copy of the instructions from the join to the access. If the
//! paths join in an earlier block, that block is copied first.

use std::collections::BTreeSet;

use kiln_isa::Insn;
use kiln_program::{BlockId, Cfg, FunctionId, InsnId, Node, Object, Reference};

use crate::error::Error;

/// Maximum number of splits of an object.
const SPLITS: usize = 256;
/// A function may become this many times as long, and [`MORE`] instructions longer.
const TIMES: usize = 4;
const MORE: usize = 256;

/// Calls `act` with an object. While it fails because of an access of two kinds, splits that access and calls it again.
pub(crate) fn until_each_access_has_one_kind<T>(
    object: &Object,
    mut act: impl FnMut(&Object) -> Result<T, Error>,
) -> Result<T, Error> {
    let first = match act(object) {
        Err(error) if of_two_kinds(&error).is_some() => error,
        other => return other,
    };
    let longest: Vec<usize> = object.functions.iter().map(|function| TIMES * function.nodes.len() + MORE).collect();
    let mut object = object.clone();
    let mut at = of_two_kinds(&first);
    for _ in 0..SPLITS {
        let Some((id, position)) = at.and_then(|insn| place(&object, insn)) else { break };
        if !split(&mut object, id, position) || object.function(id).nodes.len() > longest[id.index()] {
            break;
        }
        match act(&object) {
            Err(error) if of_two_kinds(&error).is_some() => at = of_two_kinds(&error),
            other => return other,
        }
    }
    Err(first)
}

/// The instruction that an object is refused for because its address is of two kinds.
fn of_two_kinds(error: &Error) -> Option<InsnId> {
    let (Error::Rejected { source, .. } | Error::Result { source, .. }) = error else { return None };
    match &**source {
        kiln_verifier::Error::Rejected(rejection) if rejection.is_of_two_kinds() => Some(rejection.insn),
        _ => None,
    }
}

fn place(object: &Object, insn: InsnId) -> Option<(FunctionId, usize)> {
    object.functions.iter().enumerate().find_map(|(id, function)| {
        let position = function.nodes.iter().position(|node| node.id == insn)?;
        Some((FunctionId(id as u32), position))
    })
}

/// Copies the block of an instruction, or the nearest block before it that has several ways in, once for each way except
/// one. Returns whether there is such a block.
fn split(object: &mut Object, id: FunctionId, position: usize) -> bool {
    let cfg = Cfg::new(object.function(id));
    let mut block = cfg.block_of[position];
    let mut last = position;
    let mut seen = BTreeSet::new();
    while seen.insert(block) {
        let ways = branches_to(object, id, &cfg, block);
        let falls_in = block == BlockId(0) || falls_into(object, id, &cfg, block);
        match (ways.len() + usize::from(falls_in), cfg.blocks[block.index()].predecessors.first()) {
            (0 | 1, Some(before)) if block != BlockId(0) => {
                block = *before;
                last = cfg.blocks[block.index()].range.end - 1;
            }
            (0 | 1, _) => return false,
            _ => {
                let first = cfg.blocks[block.index()].range.start;
                for way in &ways[usize::from(!falls_in)..] {
                    copy_for(object, id, *way, first, last);
                }
                return true;
            }
        }
    }
    false
}

/// The instructions that branch to a block.
fn branches_to(object: &Object, id: FunctionId, cfg: &Cfg, block: BlockId) -> Vec<InsnId> {
    let nodes = &object.function(id).nodes;
    let first = nodes[cfg.blocks[block.index()].range.start].id;
    nodes.iter().filter(|node| node.target() == Some(first)).map(|node| node.id).collect()
}

fn falls_into(object: &Object, id: FunctionId, cfg: &Cfg, block: BlockId) -> bool {
    let before = cfg.blocks[block.index()].range.start.checked_sub(1).map(|at| &object.function(id).nodes[at]);
    before.is_some_and(|before| !matches!(before.insn, Insn::Jump { .. } | Insn::Exit))
}

/// Copies instructions for one branch that leads to the first of them. What follows the copies is what follows the originals.
fn copy_for(object: &mut Object, id: FunctionId, branch: InsnId, first: usize, last: usize) {
    let originals: Vec<Node> = object.function(id).nodes[first..=last].to_vec();
    let next = object.function(id).nodes.get(last + 1).map(|node| (node.id, node.line));
    let mut copies: Vec<Node> = Vec::with_capacity(originals.len() + 1);
    for original in originals {
        let id = object.new_node(original.insn, original.reference).id;
        copies.push(Node { id, ..original });
    }
    let ends = copies.last().is_some_and(|node| matches!(node.insn, Insn::Jump { .. } | Insn::Exit));
    if let (false, Some((next, line))) = (ends, next) {
        let jump = object.new_node(Insn::Jump { offset: 0, long: false }, Reference::Branch(next));
        copies.push(Node { line, ..jump });
    }
    let entry = copies[0].id;
    // A branch among them, which leads back: the copy of a loop is a loop.
    if let Some(back) = object.function(id).nodes[first..=last].iter().position(|node| node.id == branch) {
        copies[back].reference = Reference::Branch(entry);
    }
    let nodes = &mut object.functions[id.index()].nodes;
    if let Some(branch) = nodes.iter_mut().find(|node| node.id == branch) {
        branch.reference = Reference::Branch(entry);
    }
    nodes.append(&mut copies);
}
