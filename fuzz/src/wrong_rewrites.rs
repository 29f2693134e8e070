//! Two bugs of optimizers in which each of two rewrites is right alone: canaries for the targets that compare programs.
//!
//! ```text
//!   w5 -= w4       w4 is 0, and nothing wants the upper half of r5: it can go      (now r5 has an upper half)
//!   r4 = r5        a copy takes it along
//!   w4 &= 7        the facts, which are older, say that r4 is 0: it can go         wrong: r4 has an upper half
//!
//!   r1 &= 7        nothing reads more than three bits of it: it can go             (for the mask below clears them)
//!   r2 = r1
//!   r2 &= 7        the facts, which are older, say that r2 is below 8: it can go   wrong: nothing clears them
//! ```

use std::collections::BTreeSet;

use kiln_isa::{AluOp, Insn, Reg, Source, Width};
use kiln_program::{Function, InsnId, Object};
use kiln_verifier::{Facts, Value};

use crate::part::without_nodes;

/// The greatest value that a register may have before an instruction, if it is a number.
fn greatest(facts: &Facts, at: InsnId, reg: Reg) -> Option<u64> {
    match facts.at(at)?.registers[reg.index()] {
        Value::Scalar(ref scalar) => Some(scalar.umax),
        _ => None,
    }
}

/// The register of `reg &= mask`, and the mask.
fn mask(insn: &Insn) -> Option<(Reg, u64)> {
    match insn {
        Insn::Alu { op: AluOp::And, dst, src: Source::Imm(imm), .. } if *imm > 0 => Some((*dst, *imm as u64)),
        _ => None,
    }
}

/// The registers of `to = from`, whole.
fn copy(insn: &Insn) -> Option<(Reg, Reg)> {
    match insn {
        Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(src) } => Some((*dst, *src)),
        _ => None,
    }
}

/// A mask that facts say changes nothing, after the copy at `at` to `to`.
fn needless_mask(function: &Function, facts: &Facts, at: usize, to: Reg) -> Option<InsnId> {
    let later = function.nodes[at + 1..].iter().find(|node| node.insn.written() == Some(to))?;
    let (_, mask) = mask(&later.insn)?;
    let changes_nothing = (mask & (mask + 1)) == 0 && greatest(facts, later.id, to)? <= mask;
    changes_nothing.then_some(later.id)
}

/// The last instruction before `at`, in the order of the listing, that writes a register.
fn last_write(function: &Function, at: usize, reg: Reg) -> Option<usize> {
    (0..at).rev().find(|at| function.nodes[*at].insn.written() == Some(reg))
}

/// Whether an instruction leaves the lower half of what it changes as it was.
fn keeps_lower_half(facts: &Facts, id: InsnId, insn: &Insn) -> bool {
    let Insn::Alu { op: AluOp::Add | AluOp::Sub | AluOp::Or | AluOp::Xor, width: Width::W32, src, .. } = insn else {
        return false;
    };
    match src {
        Source::Imm(imm) => *imm == 0,
        Source::Reg(reg) => greatest(facts, id, *reg) == Some(0),
    }
}

/// The object without pairs of instructions around a copy: the one before it for which `first` says so, and a mask after.
fn without_pairs(object: &Object, facts: &Facts, first: fn(&Facts, InsnId, &Insn) -> bool) -> Object {
    let mut gone = BTreeSet::new();
    for function in &object.functions {
        for (at, node) in function.nodes.iter().enumerate() {
            let Some((to, from)) = copy(&node.insn) else { continue };
            let Some(before) = last_write(function, at, from).map(|before| &function.nodes[before]) else { continue };
            if let Some(mask) = needless_mask(function, facts, at, to)
                && first(facts, before.id, &before.insn)
            {
                gone.extend([before.id, mask]);
            }
        }
    }
    without_nodes(object, &gone).unwrap_or_else(|| object.clone())
}

/// A stale fact is copied.
pub fn stale_fact(object: &Object, facts: &Facts) -> Object {
    without_pairs(object, facts, keeps_lower_half)
}

/// Two masks are removed, each because of the other.
pub fn mutual_masks(object: &Object, facts: &Facts) -> Object {
    without_pairs(object, facts, |_, _, insn| mask(insn).is_some())
}
