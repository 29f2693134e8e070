//! Conjunctions that one of two truth values decides.
//!
//! ```text
//!   w2 = 1; w3 = 1                            w2 = 0
//!   if r4 == 3 goto L1                        if r4 != 3 goto L2
//!   w3 = 0                                    r1 = *(u64 *)(r1 + 0)
//! L1: r1 = *(u64 *)(r1 + 0)           -->     if r1 != 2 goto L2
//!   if r1 == 2 goto L2                        w2 = 1
//!   w2 = 0                                  L2: ...
//! L2: w2 &= w3
//! ```
//!
//! Compilers turn `a && b` into two numbers and their conjunction. On the way on which one of them is zero, the other need
//! not be computed: that way may lead behind the conjunction at once. On the ways that are left, the first number is one
//! and the conjunction changes nothing.

use std::collections::BTreeSet;

use kiln_isa::{AluOp, Insn, Reg, Source, Width};
use kiln_program::{Cfg, Function, InsnId, Node, Object, Reference};

use crate::edit;
use crate::flow::demand::{self, Demand};
use crate::laws::context::{Change, Context};
use crate::laws::jump_threading::{self, State};
use crate::laws::trial::Trial;

/// Blocks between the way and the conjunction at most.
const MOST_BLOCKS: usize = 8;
/// Instructions of a function at most: trials cost its length each.
const LONGEST: usize = 3000;

/// A conjunction of two registers that a block begins with.
struct Conjunction {
    block: usize,
    dst: Reg,
    src: Reg,
}

/// Sends one path on which an operand of a conjunction is zero past the conjunction; one per call.
pub fn skip_operands(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, .. } = context;
    if function.nodes.len() > LONGEST {
        return Vec::new();
    }
    let cfg = Cfg::new(function);
    let found: Vec<Conjunction> =
        (0..cfg.blocks.len()).filter_map(|block| conjunction(function, &cfg, block)).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let states = jump_threading::at_block_ends(function, &cfg);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let trial = Trial::new(object, calls, function);
    for own in found {
        let range = cfg.blocks[own.block].range.clone();
        let at = function.nodes[range.start].id;
        let Some(behind) = function.nodes.get(range.start + 1).map(|node| node.id).filter(|_| !banned(at)) else {
            continue;
        };
        let after = demand::after_each(&function.nodes[range], ends[own.block], calls)[0];
        for (from, state) in states.iter().enumerate() {
            let Some(state) = state else { continue };
            let zero = |reg: Reg| state[reg.index()].is_some_and(|known| known.value == 0 && known.width == Width::W64);
            let decides = [own.src, own.dst].into_iter().find(|reg| zero(*reg));
            let Some(reg) = decides.filter(|reg| may_skip(function, &cfg, from, &own, *reg, after)) else { continue };
            let mut candidate = function.clone();
            lead(object, &mut candidate, &cfg, from, own.dst, behind);
            if reg == own.src {
                drop_if_idle(&mut candidate, at);
            }
            if let Some((candidate, change)) = trial.gain(object, at, candidate) {
                *function = candidate;
                return vec![change];
            }
        }
    }
    Vec::new()
}

fn operands(node: &Node) -> Option<(Reg, Reg)> {
    match node.insn {
        Insn::Alu { op: AluOp::And, dst, src: Source::Reg(src), .. } if dst != src && node.core.is_none() => {
            Some((dst, src))
        }
        _ => None,
    }
}

fn conjunction(function: &Function, cfg: &Cfg, block: usize) -> Option<Conjunction> {
    let own = &cfg.blocks[block];
    let (dst, src) = operands(&function.nodes[own.range.start])?;
    (own.predecessors.len() > 1).then_some(Conjunction { block, dst, src })
}

/// Whether everything between the end of a block and the conjunction only computes what is not read behind it, and leaves
/// the register that is zero alone.
fn may_skip(function: &Function, cfg: &Cfg, from: usize, own: &Conjunction, zero: Reg, after: Demand) -> bool {
    let [first] = cfg.blocks[from].successors[..] else { return false };
    let (mut seen, mut pending) = (BTreeSet::new(), vec![first.index()]);
    while let Some(block) = pending.pop() {
        if block == own.block || !seen.insert(block) {
            continue;
        }
        let nodes = &function.nodes[cfg.blocks[block].range.clone()];
        let idle = |node: &Node| {
            let computes = matches!(
                node.insn,
                Insn::Alu { .. } | Insn::Load { .. } | Insn::LoadImm64 { .. } | Insn::Branch { .. } | Insn::Jump { .. }
            );
            let written = node.insn.written();
            computes && written != Some(zero) && written.is_none_or(|reg| reg == own.dst || after.of(reg) == 0)
        };
        if seen.len() > MOST_BLOCKS || block == from || !nodes.iter().all(idle) {
            return false;
        }
        pending.extend(cfg.blocks[block].successors.iter().map(|next| next.index()));
    }
    !seen.is_empty()
}

/// Ends a block with a zero in a register and a jump.
fn lead(object: &mut Object, function: &mut Function, cfg: &Cfg, from: usize, reg: Reg, to: InsnId) {
    let end = cfg.blocks[from].range.end;
    let last = &function.nodes[end - 1];
    let (line, jumps) = (last.line, matches!(last.insn, Insn::Jump { .. }));
    let set = Insn::Alu { op: AluOp::Mov, width: Width::W32, dst: reg, src: Source::Imm(0) };
    let jump = Insn::Jump { offset: 0, long: false };
    let made = [object.new_node(set, Reference::None), object.new_node(jump, Reference::Branch(to))];
    let made: Vec<Node> = made.into_iter().map(|node| Node { line, ..node }).collect();
    if jumps {
        edit::replace(function, end - 1..end, made);
    } else {
        function.nodes.splice(end..end, made);
    }
}

/// Removes the conjunction where all ways that are left bring it a truth value and one.
fn drop_if_idle(function: &mut Function, at: InsnId) {
    let cfg = Cfg::new(function);
    let Some(position) = function.position(at) else { return };
    let Some((dst, src)) = operands(&function.nodes[position]) else { return };
    let states = jump_threading::at_block_ends(function, &cfg);
    let number =
        |state: &State, reg: Reg| state[reg.index()].filter(|known| known.width == Width::W64).map(|known| known.value);
    let block = &cfg.blocks[cfg.block_of[position].index()];
    let idle = block
        .predecessors
        .iter()
        .filter_map(|from| states[from.index()].as_ref())
        .all(|state| number(state, src) == Some(1) && matches!(number(state, dst), Some(0 | 1)));
    if idle && block.range.start == position {
        edit::delete(function, &[at].into_iter().collect());
    }
}
