//! A result that depends only on whether a pointer is null, made from the pointer's own zero.
//!
//! ```text
//!   for size                               for every goal
//!   if r0 == 0 goto L                      r1 = 1
//!   ...              ...                   if r0 == 0 goto L       if r0 == 0 goto L
//!   r0 = 0           r0 = 1                ...                     ...
//!   exit        -->  L:                    r1 = 0             -->  r0 = 1
//! L:                 r0 ^= 1             L:                      L:
//!   r0 = 1           exit                  r0 = r1                 r0 ^= 1
//!   exit                                   exit                    exit
//! ```
//!
//! Where the branch leads, R0 is zero, so an exclusive or with the result gives the result. On the other path R0 is set
//! so that the same operation gives that path's result. The left form saves a slot and lets one path run one instruction
//! more, so only size asks for it.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Source, Width};
use kiln_program::{Block, Cfg, Function, Node};

use crate::cost::Goal;
use crate::laws::context::{Change, Context};
use crate::laws::jump_threading::{self, State};
use crate::laws::trial::Trial;
use crate::rules::one_slot_move;

/// Makes one result from a null pointer; one a call. `for_size` allows the form that runs one instruction more.
pub fn reuse_null_answers(context: Context<'_>) -> Vec<Change> {
    let Context { object, function: original, calls, goal, banned, .. } = context;
    let for_size = goal == Goal::Size;
    let function: &Function = original;
    let cfg = Cfg::new(function);
    let mut states = None;
    let trial = std::cell::OnceCell::new();
    for block in cfg.blocks.iter().filter(|block| is_end(function, block)) {
        let first = function.nodes[block.range.start].id;
        let candidate = match function.nodes[block.range.start].insn {
            _ if banned(first) || !leads_with_zero(function, &cfg, block) => None,
            Insn::Alu { src: Source::Imm(_), .. } if for_size => join_exits(function, block),
            Insn::Alu { src: Source::Reg(own), .. } if own != Reg::R0 => {
                let states = states.get_or_insert_with(|| jump_threading::at_block_ends(function, &cfg));
                join_results(function, &cfg, states, block, own)
            }
            _ => None,
        };
        let gained = candidate.and_then(|candidate| {
            let trial = trial.get_or_init(|| Trial::new(object, calls, function));
            trial.gain(object, first, candidate)
        });
        if let Some((candidate, change)) = gained {
            *original = candidate;
            return vec![change];
        }
    }
    Vec::new()
}

/// Whether a block sets R0 by a move, and exits.
fn is_end(function: &Function, block: &Block) -> bool {
    let [set, exit] = &function.nodes[block.range.clone()] else { return false };
    let sets = matches!(set.insn, Insn::Alu { op: AluOp::Mov, dst: Reg::R0, .. });
    sets && set.core.is_none() && exit.insn == Insn::Exit
}

/// Whether one of the paths into a block is a jump from `if r0 == 0`.
fn leads_with_zero(function: &Function, cfg: &Cfg, block: &Block) -> bool {
    let first = function.nodes[block.range.start].id;
    block.predecessors.iter().any(|from| {
        let last = &function.nodes[cfg.blocks[from.index()].range.end - 1];
        last.target() == Some(first) && last.core.is_none() && tests_zero(&last.insn)
    })
}

fn tests_zero(insn: &Insn) -> bool {
    let zero = Source::Imm(0);
    matches!(*insn, Insn::Branch { op: JumpOp::Eq, width: Width::W64, dst: Reg::R0, src, .. } if src == zero)
}

/// The number that a move sets a register to.
fn set(node: &Node) -> Option<(Reg, u64)> {
    match node.insn {
        Insn::Alu { op: AluOp::Mov, width, dst, src: Source::Imm(imm) } if node.core.is_none() => {
            let value = i64::from(imm) as u64;
            Some((dst, if width == Width::W32 { value & u64::from(u32::MAX) } else { value }))
        }
        _ => None,
    }
}

fn exclusive_or(value: u64) -> Option<Insn> {
    let imm = i32::try_from(value as i64).ok()?;
    Some(Insn::Alu { op: AluOp::Xor, width: Width::W64, dst: Reg::R0, src: Source::Imm(imm) })
}

/// Joins two exits, of which the second is reached by the branch alone and stands behind the first.
fn join_exits(function: &Function, block: &Block) -> Option<Function> {
    let at = block.range.start;
    let (_, null) = set(&function.nodes[at])?;
    let [value, exit] = function.nodes.get(at.checked_sub(2)?..at)? else { return None };
    let entered = function.nodes.iter().any(|node| node.target() == Some(exit.id));
    let (Reg::R0, own) = set(value)? else { return None };
    if block.predecessors.len() != 1 || entered || exit.insn != Insn::Exit {
        return None;
    }
    let mut candidate = function.clone();
    candidate.nodes[at].insn = exclusive_or(null)?;
    candidate.nodes[at - 2].insn = one_slot_move(Reg::R0, own ^ null)?;
    candidate.nodes.remove(at - 1);
    Some(candidate)
}

/// Leaves the register out that carries one number from the branch and another from the block that falls in.
fn join_results(
    function: &Function,
    cfg: &Cfg,
    states: &[Option<State>],
    block: &Block,
    carrier: Reg,
) -> Option<Function> {
    let at = block.range.start;
    let Insn::Alu { width, .. } = function.nodes[at].insn else { return None };
    let [one, other] = block.predecessors[..] else { return None };
    let falls = |from: kiln_program::BlockId| cfg.blocks[from.index()].range.end == at;
    let jumps = match (falls(one), falls(other)) {
        (false, true) => one,
        (true, false) => other,
        _ => return None,
    };
    let known = (*states.get(jumps.index())?.as_ref()?)[carrier.index()]?;
    let (own, set_to) = set(&function.nodes[at - 1])?;
    if known.width != width && known.width == Width::W32 || own != carrier {
        return None;
    }
    let narrowed = |value: u64| if width == Width::W32 { value & u64::from(u32::MAX) } else { value };
    let (null, set_to) = (narrowed(known.value), narrowed(set_to));
    let mut candidate = function.clone();
    candidate.nodes[at].insn = exclusive_or(null)?;
    candidate.nodes[at - 1].insn = one_slot_move(Reg::R0, set_to ^ null)?;
    Some(candidate)
}
