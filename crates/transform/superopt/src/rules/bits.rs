//! Masks, shifts and extensions.

use kiln_isa::{AluOp, Insn, Reg, Source, Width};
use kiln_program::Node;

use crate::region::{Region, is_barrier};
use crate::rules::operands::with;
use crate::trace::Trace;

pub fn no_effect(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    let computes =
        matches!(node.insn, Insn::Alu { .. } | Insn::Neg { .. } | Insn::MoveSignExtend { .. } | Insn::Endian { .. });
    if !computes || node.core.is_some() {
        return Vec::new();
    }
    let mut nodes = region.nodes.clone();
    nodes.remove(at);
    vec![nodes]
}

pub fn mask_as_move(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    let Insn::Alu { op: AluOp::And, width: Width::W64, dst, src } = node.insn else { return Vec::new() };
    let mask = match src {
        Source::Reg(src) => region.constant(at, src).or_else(|| trace.word(at, src).as_constant()),
        Source::Imm(imm) => Some(i64::from(imm) as u64),
    };
    let Some(mask) = mask.and_then(|mask| u32::try_from(mask).ok()).filter(|_| node.core.is_none()) else {
        return Vec::new();
    };
    let narrow = |op, src| Insn::Alu { op, width: Width::W32, dst, src };
    let masked = narrow(AluOp::And, Source::Imm(mask as i32));
    let moved = narrow(AluOp::Mov, Source::Reg(dst));
    let mut proposed = vec![with(region, at, masked)];
    if mask == u32::MAX {
        proposed.insert(0, with(region, at, moved));
        if let Some(copy) = copy_into(region, at, dst) {
            let mut nodes = with(region, at, narrow(AluOp::Mov, Source::Reg(copy.1)));
            nodes.remove(copy.0);
            proposed.insert(0, nodes);
        }
    }
    proposed
}

/// The 64-bit move that gave a register its value, if nothing touched it or its source since.
fn copy_into(region: &Region<'_>, at: usize, reg: Reg) -> Option<(usize, Reg)> {
    for earlier in (0..at).rev() {
        let node = &region.nodes[earlier];
        if is_barrier(node) {
            return None;
        }
        if node.insn.written() == Some(reg) {
            let Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Reg(src), .. } = node.insn else {
                return None;
            };
            let kept = region.nodes[earlier + 1..at].iter().all(|node| node.insn.written() != Some(src));
            return (kept && src != reg).then_some((earlier, src));
        }
        if node.insn.read().contains(reg) {
            return None;
        }
    }
    None
}

pub fn shift_pair(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Insn::Alu { op: AluOp::Rsh | AluOp::Arsh, width, dst, src: Source::Imm(right) } = region.nodes[at].insn else {
        return Vec::new();
    };
    let first = region.nodes[..at]
        .iter()
        .rposition(|node| node.insn.written() == Some(dst) || node.insn.read().contains(dst) || is_barrier(node));
    let Some(first) = first else { return Vec::new() };
    let Insn::Alu { op: AluOp::Lsh, width: same, dst: own, src: Source::Imm(left) } = region.nodes[first].insn else {
        return Vec::new();
    };
    if own != dst || same != width || region.nodes[first].core.is_some() || region.nodes[at].core.is_some() {
        return Vec::new();
    }
    let without_first = |mut nodes: Vec<Node>| {
        nodes.remove(first);
        nodes
    };
    let mut proposed = Vec::new();
    let mut both_gone = region.nodes.clone();
    both_gone.remove(at);
    proposed.push(without_first(both_gone));
    if width == Width::W64 && left == right && left == 32 {
        if let Some((copy, from)) = copy_into(region, first, dst) {
            let insn = Insn::Alu { op: AluOp::Mov, width: Width::W32, dst, src: Source::Reg(from) };
            let mut nodes = without_first(with(region, at, insn));
            nodes.remove(copy);
            proposed.push(nodes);
        }
        let insn = Insn::Alu { op: AluOp::Mov, width: Width::W32, dst, src: Source::Reg(dst) };
        proposed.push(without_first(with(region, at, insn)));
    }
    let kept = width.bits().checked_sub(right as u32).filter(|kept| *kept < 32);
    if let (Some(kept), true) = (kept, left == right) {
        let mask = Source::Imm(((1_u64 << kept) - 1) as i32);
        let insn = Insn::Alu { op: AluOp::And, width: Width::W64, dst, src: mask };
        proposed.push(without_first(with(region, at, insn)));
    }
    proposed
}

/// At `w = w`: the operation before it becomes a 32-bit one.
pub fn narrow_operation(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Insn::Alu { op: AluOp::Mov, width: Width::W32, dst, src: Source::Reg(src) } = region.nodes[at].insn else {
        return Vec::new();
    };
    let last = region.nodes[..at].iter().rposition(|node| node.insn.written() == Some(src) || is_barrier(node));
    let Some(last) = last.filter(|last| region.nodes[*last].core.is_none()) else { return Vec::new() };
    let Insn::Alu { op, width: Width::W64, dst: own, src: operand } = region.nodes[last].insn else {
        return Vec::new();
    };
    if src != dst || own != dst {
        return Vec::new();
    }
    let mut nodes = with(region, last, Insn::Alu { op, width: Width::W32, dst, src: operand });
    nodes.remove(at);
    vec![nodes]
}
