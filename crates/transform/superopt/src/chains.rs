//! Two chains of comparisons, one after the other instead of side by side.
//!
//! ```text
//!   if w4 > 50 goto high                 if w4 == 0 goto A
//!   if w4 == 0 goto A                    if w4 == 43 goto A
//!   if w4 == 43 goto A                   r0 = 2
//!   goto other                           if w4 == 51 goto B
//! high:                        -->       if w4 != 60 goto other
//!   r0 = 2                               ...
//!   if w4 == 51 goto B
//!   if w4 != 60 goto other
//!   ...
//! ```
//!
//! A compiler splits a `switch` into halves to make fewer comparisons. Where both halves give up at the same place,
//! the comparison between them and the jump that ends the first are two slots that nobody needs: no number of one half
//! is among those of the other, so whoever comes from the first half unmatched goes through the second unmatched.

use kiln_isa::semantics::{Bits, compare};
use kiln_isa::{Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{BlockId, Cfg, Function, InsnId, Node, Object, Reference};

use crate::calls::Calls;
use crate::control_flow::Change;
use crate::demand::{self, Demand};
use crate::edit;
use crate::evidence::Law;
use crate::trial::Trial;

/// Comparisons in one chain at most.
const LONGEST_CHAIN: usize = 16;
/// Instructions of a function at most: trials cost its length each.
const LONGEST: usize = 3000;

/// Comparisons of one register with numbers, one after the other.
struct Chain {
    /// The numbers.
    numbers: Vec<i32>,
    /// Registers that are computed between them.
    written: RegSet,
    /// Where control goes when none matches.
    default: InsnId,
    /// The last instruction before it goes there, and whether that one names where.
    last: InsnId,
    jumps: bool,
}

/// Joins the chains of the first comparison for which that saves slots.
pub fn join_chains(
    object: &mut Object,
    original: &mut Function,
    calls: &Calls,
    banned: &dyn Fn(InsnId) -> bool,
) -> Vec<Change> {
    let function: &Function = original;
    if function.nodes.len() > LONGEST {
        return Vec::new();
    }
    let cfg = Cfg::new(function);
    let mut ends = None;
    let mut trial = None;
    for block in &cfg.blocks {
        let pivot = &function.nodes[block.range.end - 1];
        let Insn::Branch { op, width, dst, src: Source::Imm(bound), .. } = pivot.insn else { continue };
        let ordered = !matches!(op, JumpOp::Eq | JumpOp::Ne | JumpOp::Set);
        let [falls, taken] = block.successors[..] else { continue };
        if !ordered || pivot.core.is_some() || banned(pivot.id) {
            continue;
        }
        let chains = [falls, taken].map(|side| chain(function, &cfg, side, dst, width));
        let [Some(low), Some(high)] = chains else { continue };
        if low.default != high.default || low.numbers.is_empty() || high.numbers.is_empty() {
            continue;
        }
        let number = |value: i32| Bits::new(64, i64::from(value) as u64);
        let side = |value: &i32| compare(op, width, &number(*value), &number(bound));
        if low.numbers.iter().any(side) || !high.numbers.iter().all(side) {
            continue;
        }
        let ends = ends.get_or_insert_with(|| demand::at_block_ends(function, &cfg, calls));
        let live = |block: BlockId| -> RegSet { begin(function, &cfg, ends, block, calls).live() };
        let Some(default) = cfg.position.get(&low.default).map(|at| cfg.block_of[*at]) else { continue };
        for (first, second, one, other) in [(falls, taken, &low, &high), (taken, falls, &high, &low)] {
            let needed = one.written.intersection(live(second)).union(other.written.intersection(live(default)));
            if !needed.is_empty() {
                continue;
            }
            let heads = [first, second].map(|side| function.nodes[cfg.blocks[side.index()].range.start].id);
            let candidate = joined(object, function, pivot, heads, one);
            let trial = trial.get_or_insert_with(|| Trial::new(object, calls, function, Law::JoinedChains));
            if let Some((candidate, change)) = trial.gain(object, pivot.id, candidate) {
                *original = candidate;
                return vec![change];
            }
        }
    }
    Vec::new()
}

fn begin(function: &Function, cfg: &Cfg, ends: &[Demand], block: BlockId, calls: &Calls) -> Demand {
    let mut demand = ends[block.index()];
    function.nodes[cfg.blocks[block.index()].range.clone()].iter().rev().for_each(|node| demand.step_back(node, calls));
    demand
}

/// The comparisons of a register that begin with a block.
fn chain(function: &Function, cfg: &Cfg, start: BlockId, reg: Reg, width: Width) -> Option<Chain> {
    let mut chain = Chain {
        numbers: Vec::new(),
        written: RegSet::EMPTY,
        default: function.nodes[cfg.blocks[start.index()].range.start].id,
        last: function.nodes[cfg.blocks[start.index()].range.start].id,
        jumps: false,
    };
    let mut at = start.index();
    while chain.numbers.len() < LONGEST_CHAIN {
        let block = cfg.blocks.get(at)?;
        let nodes = &function.nodes[block.range.clone()];
        let (last, body) = nodes.split_last()?;
        // What others come to as well is where the chain gives up; so is what does more than compute numbers.
        let own = block.predecessors.len() == 1 && body.iter().all(|node| is_simple(node, reg));
        let compared = match last.insn {
            Insn::Branch { op, width: own, dst, src: Source::Imm(imm), .. }
                if dst == reg && own == width && last.core.is_none() =>
            {
                Some((op, imm))
            }
            _ => None,
        };
        let written = || body.iter().filter_map(|node| node.insn.written()).collect::<RegSet>();
        match (last.insn, compared) {
            (_, Some((JumpOp::Eq, imm))) if own => {
                chain.numbers.push(imm);
                chain.written = chain.written.union(written());
                (chain.last, chain.jumps) = (last.id, false);
                at += 1;
                chain.default = function.nodes[cfg.blocks.get(at)?.range.start].id;
            }
            (_, Some((JumpOp::Ne, imm))) if own => {
                chain.numbers.push(imm);
                chain.written = chain.written.union(written());
                (chain.last, chain.jumps) = (last.id, true);
                chain.default = last.target()?;
                return Some(chain);
            }
            (Insn::Jump { .. }, None) if own => {
                chain.written = chain.written.union(written());
                (chain.last, chain.jumps) = (last.id, true);
                chain.default = last.target()?;
                return Some(chain);
            }
            _ => return Some(chain),
        }
    }
    Some(chain)
}

fn is_simple(node: &Node, compared: Reg) -> bool {
    let computes = matches!(node.insn, Insn::Alu { .. } | Insn::LoadImm64 { .. });
    computes && node.core.is_none() && node.insn.written() != Some(compared)
}

/// The function without the comparison between two chains, the first of which goes on with the second.
fn joined(
    object: &mut Object,
    function: &Function,
    pivot: &Node,
    [first, second]: [InsnId; 2],
    chain: &Chain,
) -> Function {
    let mut candidate = function.clone();
    let jump = |object: &mut Object, to: InsnId| Node {
        line: pivot.line,
        ..object.new_node(Insn::Jump { offset: 0, long: false }, Reference::Branch(to))
    };
    let last = candidate.position(chain.last).expect("the chain is in the function");
    if chain.jumps {
        candidate.nodes[last].reference = Reference::Branch(second);
    } else {
        let goes_on = jump(object, second);
        candidate.nodes.insert(last + 1, goes_on);
    }
    let at = candidate.position(pivot.id).expect("it is in the function");
    if candidate.nodes.get(at + 1).is_some_and(|next| next.id == first) {
        edit::delete(&mut candidate, &[pivot.id].into_iter().collect());
    } else {
        edit::replace(&mut candidate, at..at + 1, vec![jump(object, first)]);
    }
    candidate
}
