//! Branches whose outcome the path to them decides.
//!
//! Compilers turn `a || b` into numbers and test those:
//!
//! ```text
//!   r2 = 1                               if r3 == 129 goto yes
//!   r5 = 1                               if r3 != 43144 goto no
//!   if r3 == 129 goto L1               yes:
//!   r5 = 0
//! L1:                           -->      (on the way from the first branch r3 is 129, so the second is not taken,
//!   if r3 == 43144 goto L2                r2 becomes 0 | 1, and the third is not taken either: the first may go
//!   r2 = 0                                straight to `yes`; and so on for the other ways)
//! L2:
//!   r2 |= r5
//!   if r2 != 1 goto no
//! yes:
//! ```
//!
//! Constants flow forward over the graph; from each branch the way is followed with them through blocks that only
//! compute, as long as every branch on it is decided. What was computed on the way must not be needed where it ends.

use std::collections::VecDeque;

use kiln_isa::semantics::{Bits, at_width, compare};
use kiln_isa::{AluOp, Imm64, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{Block, BlockId, Cfg, Function, InsnId, Node, Reference};

use crate::flow::calls::Calls;
use crate::flow::demand::{self, Demand};
use crate::laws::context::{Change, Context};
use crate::laws::control_flow;

/// Blocks that a way leads through at most.
const LONGEST_WAY: usize = 12;

/// A known number: all 64 bits or the lower 32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) value: u64,
    pub(crate) width: Width,
}

/// What registers are known to hold.
pub(crate) type State = [Option<Known>; Reg::COUNT];

/// What both say.
fn meet(one: &State, other: &State) -> State {
    std::array::from_fn(|reg| one[reg].filter(|known| other[reg] == Some(*known)))
}

fn operand(state: &State, src: Source, width: Width) -> Option<Bits> {
    let known = match src {
        Source::Imm(imm) => Known { value: i64::from(imm) as u64, width: Width::W64 },
        Source::Reg(reg) => state[reg.index()]?,
    };
    (known.width == Width::W64 || width == Width::W32).then(|| Bits::new(64, known.value))
}

/// From before an instruction to after it.
fn step(state: &mut State, node: &Node) {
    let result = match node.insn {
        _ if node.core.is_some() => None,
        Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Reg(src), .. } => state[src.index()],
        Insn::Alu { op, width, dst, src } => operand(state, src, width).and_then(|second| {
            let first = match op {
                AluOp::Mov => Bits::new(64, 0),
                _ => operand(state, Source::Reg(dst), width)?,
            };
            let value = at_width(width, &first, &second, |a, b| op.apply(a, b)).value();
            Some(Known { value, width: Width::W64 })
        }),
        Insn::LoadImm64 { imm: Imm64::Value(value), .. } if node.reference == Reference::None => {
            Some(Known { value, width: Width::W64 })
        }
        _ => None,
    };
    if let Insn::Call(_) | Insn::LoadPacket { .. } = node.insn {
        for reg in RegSet::CALLER_SAVED.iter() {
            state[reg.index()] = None;
        }
    }
    if let Some(dst) = node.insn.written() {
        state[dst.index()] = result;
    }
}

/// What a branch's outcome adds.
pub(crate) fn refine(state: &mut State, insn: &Insn, taken: bool) {
    let Insn::Branch { op, width, dst, src: Source::Imm(imm), .. } = *insn else { return };
    let equal = matches!((op, taken), (JumpOp::Eq, true) | (JumpOp::Ne, false));
    if equal && state[dst.index()].is_none_or(|known| known.width == Width::W32) {
        let value = i64::from(imm) as u64;
        let value = if width == Width::W32 { value & 0xffff_ffff } else { value };
        state[dst.index()] = Some(Known { value, width });
    }
}

/// Whether a branch is taken, if that is known.
fn decided(state: &State, insn: &Insn) -> Option<bool> {
    let Insn::Branch { op, width, dst, src, .. } = *insn else { return None };
    let (first, second) = (operand(state, Source::Reg(dst), width)?, operand(state, src, width)?);
    Some(compare(op, width, &first, &second))
}

/// Known numbers at the end of each block; `None` where it is not reached.
pub(crate) fn at_block_ends(function: &Function, cfg: &Cfg) -> Vec<Option<State>> {
    let mut begin: Vec<Option<State>> = vec![None; cfg.blocks.len()];
    let mut end = begin.clone();
    if cfg.blocks.is_empty() {
        return end;
    }
    begin[0] = Some([None; Reg::COUNT]);
    let mut pending: VecDeque<usize> = VecDeque::from([0]);
    while let Some(block) = pending.pop_front() {
        let Some(mut state) = begin[block] else { continue };
        let nodes = &function.nodes[cfg.blocks[block].range.clone()];
        nodes.iter().for_each(|node| step(&mut state, node));
        end[block] = Some(state);
        let last = nodes.last().expect("a block has instructions");
        let successors = &cfg.blocks[block].successors;
        for next in successors {
            let mut there = state;
            if successors.len() == 2 {
                refine(&mut there, &last.insn, *next == successors[1]);
            }
            let joined = begin[next.index()].as_ref().map_or(there, |known| meet(known, &there));
            if begin[next.index()] != Some(joined) {
                begin[next.index()] = Some(joined);
                pending.push_back(next.index());
            }
        }
    }
    end
}

/// Turns branches that the constants before them decide into jumps or nothing; one a call.
pub fn decide_branches(context: Context<'_>) -> Vec<Change> {
    let Context { function, banned, .. } = context;
    let cfg = Cfg::new(function);
    let states = at_block_ends(function, &cfg);
    for (block, state) in cfg.blocks.iter().zip(states) {
        let at = block.range.end - 1;
        let node = function.nodes[at].clone();
        let Some(state) = state.filter(|_| node.core.is_none() && !banned(node.id)) else { continue };
        match decided(&state, &node.insn) {
            Some(true) => {
                function.nodes[at].insn = Insn::Jump { offset: 0, long: false };
                let after = vec![function.nodes[at].clone()];
                // Verifiers refuse what no path reaches.
                let gone = control_flow::remove_unreachable_blocks(function);
                let gone = gone.into_iter().flat_map(|change| change.before);
                return vec![Change::new(std::iter::once(node).chain(gone).collect(), after)];
            }
            Some(false) => {
                crate::edit::delete(function, &[node.id].into_iter().collect());
                return vec![Change::new(vec![node], Vec::new())];
            }
            None => {}
        }
    }
    Vec::new()
}

/// Sends branches and jumps past the branches that their path decides, at most this many per call.
///
/// A branch that goes elsewhere makes more known and less wanted in what follows, never the other way round, so what was
/// found out before the first one stays good enough for the others.
pub fn thread_branches(context: Context<'_>) -> Vec<Change> {
    let Context { function, calls, banned, most, .. } = context;
    let cfg = Cfg::new(function);
    let states = at_block_ends(function, &cfg);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let begins: Vec<Demand> =
        cfg.blocks.iter().zip(&ends).map(|(block, end)| begin(function, block, *end, calls)).collect();
    let mut changes = Vec::new();
    for (block, state) in cfg.blocks.iter().zip(states) {
        if changes.len() == most {
            break;
        }
        let at = block.range.end - 1;
        let node = &function.nodes[at];
        let (Some(mut state), Some(target)) = (state, node.target()) else { continue };
        if !matches!(node.insn, Insn::Branch { .. } | Insn::Jump { .. }) || node.core.is_some() || banned(node.id) {
            continue;
        }
        refine(&mut state, &node.insn, true);
        let start = cfg.block_of[cfg.position[&target]];
        let Some(end) = follow(function, &cfg, &begins, start, state) else { continue };
        let before = node.clone();
        let node = &mut function.nodes[at];
        node.reference = Reference::Branch(end);
        changes.push(Change::new(vec![before], vec![node.clone()]));
    }
    changes
}

fn begin(function: &Function, block: &Block, end: Demand, calls: &Calls) -> Demand {
    let mut demand = end;
    function.nodes[block.range.clone()].iter().rev().for_each(|node| demand.step_back(node, calls));
    demand
}

/// The farthest place that the path from a block's start must reach, past at least one decided branch.
fn follow(function: &Function, cfg: &Cfg, begins: &[Demand], start: BlockId, mut state: State) -> Option<InsnId> {
    let mut block = start;
    let mut written = RegSet::EMPTY;
    let mut best = None;
    let mut branches = 0;
    for _ in 0..LONGEST_WAY {
        let range = cfg.blocks[block.index()].range.clone();
        let (last, body) = function.nodes[range.clone()].split_last()?;
        let control = last.insn.is_control();
        for node in body.iter().chain((!control).then_some(last)) {
            if !matches!(node.insn, Insn::Alu { .. } | Insn::LoadImm64 { .. }) {
                return best;
            }
            step(&mut state, node);
            written = written.union(node.insn.written().into_iter().collect());
        }
        let falls = || function.nodes.get(range.end).map(|node| node.id);
        let next = match last.insn {
            Insn::Jump { .. } => last.target(),
            Insn::Branch { .. } if last.core.is_none() => match decided(&state, &last.insn) {
                Some(taken) => {
                    branches += 1;
                    refine(&mut state, &last.insn, taken);
                    if taken { last.target() } else { falls() }
                }
                None => return best,
            },
            _ if !control => falls(),
            _ => return best,
        };
        let Some(next) = next else { return best };
        block = cfg.block_of[cfg.position[&next]];
        if block == start {
            return best;
        }
        if branches > 0 && written.iter().all(|reg| begins[block.index()].of(reg) == 0) {
            best = Some(next);
        }
    }
    best
}
