//! Rules for comparisons: other operands and other widths.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Source, Width};
use kiln_program::Node;

use crate::rules::code::operands::constant;
use crate::windows::region::{Region, ends};
use crate::windows::trace::Trace;

/// A comparison being rewritten.
#[derive(Clone, Copy)]
struct Compare {
    op: JumpOp,
    width: Width,
    dst: Reg,
    src: Source,
}

fn compare_at(region: &Region<'_>, at: usize) -> Option<Compare> {
    let node = &region.nodes[at];
    match node.insn {
        Insn::Branch { op, width, dst, src, .. } if node.core.is_none() => Some(Compare { op, width, dst, src }),
        _ => None,
    }
}

/// The run with another comparison at a position; its target stays.
fn with_compare(region: &Region<'_>, at: usize, compare: Compare) -> Vec<Node> {
    let mut nodes = region.nodes.clone();
    let Compare { op, width, dst, src } = compare;
    nodes[at].insn = Insn::Branch { op, width, dst, src, offset: 0 };
    nodes
}

/// The unsigned comparison of a signed one.
fn unsigned(op: JumpOp) -> JumpOp {
    match op {
        JumpOp::Sgt => JumpOp::Gt,
        JumpOp::Sge => JumpOp::Ge,
        JumpOp::Slt => JumpOp::Lt,
        JumpOp::Sle => JumpOp::Le,
        _ => op,
    }
}

/// The same comparison of the lower halves, if the instruction set version allows it.
fn narrowed(region: &Region<'_>, compare: Compare) -> impl Iterator<Item = Compare> {
    let narrow = Compare { op: unsigned(compare.op), width: Width::W32, ..compare };
    (compare.width == Width::W64 && region.isa >= 3).then_some(narrow).into_iter()
}

/// At a comparison with a register that is a constant: a comparison with the constant.
pub fn compared_constant(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Some(compare @ Compare { op, width, dst, src: Source::Reg(src) }) = compare_at(region, at) else {
        return Vec::new();
    };
    let sides = [(dst, src, Some(op)), (src, dst, op.row().swapped)];
    let known = sides
        .into_iter()
        .filter(|(one, other, _)| one != other)
        .find_map(|(one, other, op)| constant(region, trace, at, other).and_then(|value| Some((one, op?, value))));
    let Some((dst, op, value)) = known else { return Vec::new() };
    let compare = Compare { op, dst, ..compare };
    let whole = i32::try_from(value as i64).ok().filter(|_| width == Width::W64);
    let half = (width == Width::W32 || value <= u32::MAX.into()).then_some(value as u32 as i32);
    let mut proposed: Vec<_> = whole.map(|imm| Compare { src: Source::Imm(imm), ..compare }).into_iter().collect();
    if let Some(imm) = half {
        let compare = Compare { src: Source::Imm(imm), ..compare };
        match width {
            Width::W32 => proposed.push(compare),
            Width::W64 => proposed.extend(narrowed(region, compare)),
        }
    }
    proposed.into_iter().map(|compare| with_compare(region, at, compare)).collect()
}

/// At a comparison of whole registers: a comparison of their lower halves.
pub fn narrow_comparison(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Some(compare) = compare_at(region, at) else { return Vec::new() };
    // Addresses must be compared whole.
    let possible = region.possible_at(at);
    let number = |reg: Reg| {
        possible[reg.index()] <= u32::MAX.into()
            || matches!(region.value(at, reg), Some(kiln_verifier::Value::Scalar(_)))
    };
    if !number(compare.dst) || !compare.src.reg().is_none_or(number) {
        return Vec::new();
    }
    narrowed(region, compare).map(|compare| with_compare(region, at, compare)).collect()
}

/// At a comparison of a sign-extended lower half with a constant: a 32-bit comparison of that half. Sign extension keeps
/// both orders, and a constant is extended alike.
pub fn compared_half(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Some(compare @ Compare { width: Width::W64, src: Source::Imm(_), dst, .. }) = compare_at(region, at) else {
        return Vec::new();
    };
    let touched_before = |end: usize| {
        let touches = |node: &Node| node.insn.written() == Some(dst) || ends(node, &[dst]);
        region.nodes[..end].iter().rposition(touches)
    };
    let shift = |at: usize, op: AluOp| {
        region.nodes[at].insn == Insn::Alu { op, width: Width::W64, dst, src: Source::Imm(32) }
            && region.nodes[at].core.is_none()
    };
    let right = touched_before(at).filter(|&right| shift(right, AluOp::Arsh));
    let left = right.and_then(touched_before).filter(|&left| shift(left, AluOp::Lsh));
    let (Some(right), Some(left), true) = (right, left, region.isa >= 3) else { return Vec::new() };
    let half = Compare { width: Width::W32, ..compare };
    let mut in_place = with_compare(region, at, half);
    in_place.remove(right);
    in_place.remove(left);
    let mut proposed = vec![in_place];
    let source = touched_before(left).map(|copy| region.nodes[copy].insn);
    if let Some(Insn::Alu { op: AluOp::Mov, src: Source::Reg(src), .. }) = source {
        proposed.insert(0, with_compare(region, at, Compare { dst: src, ..half }));
    }
    proposed
}

/// At a comparison with a constant: what was added before, or the mask, becomes part of it.
pub fn compared_directly(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Some(compare @ Compare { src: Source::Imm(against), .. }) = compare_at(region, at) else {
        return Vec::new();
    };
    let touches = |node: &Node| node.insn.written() == Some(compare.dst) || ends(node, &[compare.dst]);
    let Some(last) = region.nodes[..at].iter().rposition(touches) else { return Vec::new() };
    let amount = match region.nodes[last].insn {
        Insn::Alu { src: Source::Imm(amount), .. } => amount,
        // A mask in a register that still holds it.
        Insn::Alu { op: AluOp::And, width, dst, src }
            if dst == compare.dst && compare.op == JumpOp::Ne && against == 0 =>
        {
            let mut nodes = with_compare(region, at, Compare { op: JumpOp::Set, width, src, ..compare });
            nodes.remove(last);
            return vec![nodes];
        }
        _ => return Vec::new(),
    };
    let Insn::Alu { op, width, dst, .. } = region.nodes[last].insn else { return Vec::new() };
    if dst != compare.dst || region.nodes[last].core.is_some() {
        return Vec::new();
    }
    let changed = match (op, compare.op) {
        (AluOp::Add, _) => Compare { width, src: Source::Imm(against.wrapping_sub(amount)), ..compare },
        (AluOp::And, JumpOp::Ne) if against == 0 => Compare { op: JumpOp::Set, src: Source::Imm(amount), ..compare },
        (AluOp::And, JumpOp::Eq) if against == amount && amount.count_ones() == 1 => {
            Compare { op: JumpOp::Set, src: Source::Imm(amount), ..compare }
        }
        _ => return Vec::new(),
    };
    let mut proposed = vec![with_compare(region, at, changed)];
    // In place, and from where the value was copied.
    proposed[0].remove(last);
    let copied = region.nodes[..last].iter().rposition(touches);
    if let Some(Insn::Alu { op: AluOp::Mov, src: Source::Reg(src), .. }) = copied.map(|copy| region.nodes[copy].insn) {
        proposed.insert(0, with_compare(region, at, Compare { dst: src, ..changed }));
    }
    proposed
}
