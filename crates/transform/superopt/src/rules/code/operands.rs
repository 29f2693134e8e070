//! Rules for constants: as operands, as results, and merged.

use kiln_isa::{AluOp, Imm64, Insn, Reg, Source, Width};
use kiln_program::{Node, Reference};

use crate::windows::region::Region;
use crate::windows::trace::Trace;

/// The run with the instruction at a position changed.
pub fn with(region: &Region<'_>, at: usize, insn: Insn) -> Vec<Node> {
    let mut nodes = region.nodes.clone();
    nodes[at].insn = insn;
    if !matches!(insn, Insn::LoadImm64 { .. }) {
        nodes[at].reference = Reference::None;
    }
    nodes
}

/// A constant as an immediate that an operation of this width extends back to it.
fn immediate(value: u64, width: Width) -> Option<i32> {
    match width {
        Width::W32 => Some(value as u32 as i32),
        Width::W64 => i32::try_from(value as i64).ok(),
    }
}

/// What is known of a register from the facts or from the run itself.
pub fn constant(region: &Region<'_>, trace: &Trace, at: usize, reg: Reg) -> Option<u64> {
    region.constant(at, reg).or_else(|| trace.word(at, reg).as_constant())
}

pub fn immediate_operand(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    let proposed = match node.insn {
        Insn::Store { size, address, src: Source::Reg(src) } if node.core.is_some() => {
            // The loader may change how many bytes are stored.
            let value = constant(region, trace, at, src).filter(|_| address.base != src);
            let imm = value.and_then(|value| immediate(value, Width::W64));
            imm.map(|imm| Insn::Store { size, address, src: Source::Imm(imm) })
        }
        _ if node.core.is_some() => None,
        Insn::Alu { op, width, dst, src: Source::Reg(src) } if src != dst || op == AluOp::Mov => {
            let imm = constant(region, trace, at, src).and_then(|value| immediate(value, width));
            imm.map(|imm| Insn::Alu { op, width, dst, src: Source::Imm(imm) })
        }
        Insn::Store { size, address, src: Source::Reg(src) } => {
            let value = constant(region, trace, at, src).filter(|_| address.base != src);
            let imm = value.and_then(|value| match size.bits() {
                64 => immediate(value, Width::W64),
                bits => Some((value & (u64::MAX >> (64 - bits))) as u32 as i32),
            });
            imm.map(|imm| Insn::Store { size, address, src: Source::Imm(imm) })
        }
        _ => None,
    };
    // A zero shift amount or divisor would be another instruction to the kernel.
    let proposed = proposed.filter(|insn| {
        !matches!(insn, Insn::Alu { op: AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod, src: Source::Imm(0), .. })
    });
    let proposed = proposed.filter(|insn| match insn {
        Insn::Alu { op: AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, width, src: Source::Imm(imm), .. } => {
            (0..width.bits() as i32).contains(imm)
        }
        _ => true,
    });
    proposed.into_iter().map(|insn| with(region, at, insn)).collect()
}

pub fn known_result(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    let (Insn::Alu { .. } | Insn::Neg { .. } | Insn::MoveSignExtend { .. } | Insn::Endian { .. }, None) =
        (node.insn, node.core)
    else {
        return Vec::new();
    };
    if matches!(node.insn, Insn::Alu { op: AluOp::Mov, src: Source::Imm(_), .. }) {
        return Vec::new();
    }
    let Some(dst) = node.insn.written() else { return Vec::new() };
    let Some(value) = constant(region, trace, at + 1, dst) else { return Vec::new() };
    one_slot_move(dst, value).into_iter().map(|insn| with(region, at, insn)).collect()
}

/// A move that makes this constant.
pub fn one_slot_move(dst: Reg, value: u64) -> Option<Insn> {
    if let Some(imm) = immediate(value, Width::W64) {
        return Some(Insn::mov_imm(dst, imm));
    }
    let imm = u32::try_from(value).ok()? as i32;
    Some(Insn::Alu { op: AluOp::Mov, width: Width::W32, dst, src: Source::Imm(imm) })
}

/// At a move of the number of one of the object's own types: a move that takes one slot.
pub fn type_number(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    let (Insn::LoadImm64 { dst, imm: Imm64::Value(number) }, Some(_)) = (node.insn, node.core) else {
        return Vec::new();
    };
    let imm = i32::try_from(number).ok();
    imm.map(|imm| with(region, at, Insn::mov_imm(dst, imm))).into_iter().collect()
}

/// At an operation with a register that holds a relocated number: the number as its immediate.
pub fn relocated_operand(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    let Insn::Alu { op: AluOp::Add | AluOp::Sub, width: Width::W64, dst, src: Source::Reg(src) } = node.insn else {
        return Vec::new();
    };
    let Some(made) = region.nodes.get(trace.word(at, src).definition).filter(|_| src != dst) else {
        return Vec::new();
    };
    let Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Imm(imm), .. } = made.insn else {
        return Vec::new();
    };
    let (Insn::Alu { op, .. }, Some(core), None) = (node.insn, made.core, node.core) else { return Vec::new() };
    let mut nodes = with(region, at, Insn::Alu { op, width: Width::W64, dst, src: Source::Imm(imm) });
    nodes[at].core = Some(core);
    vec![nodes]
}

/// At a constant added to the address of a data section: the address of the place there.
pub fn section_place(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    let (Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(imm) }, None) = (node.insn, node.core)
    else {
        return Vec::new();
    };
    let definition = trace.word(at, dst).definition;
    let Some(made) = region.nodes.get(definition).filter(|made| matches!(made.insn, Insn::LoadImm64 { .. })) else {
        return Vec::new();
    };
    let Reference::MapValue { map, offset } = made.reference else { return Vec::new() };
    let Some(offset) = offset.checked_add_signed(imm) else { return Vec::new() };
    // The sum stands where the addition was.
    let mut nodes = region.nodes.clone();
    nodes[at] = Node { reference: Reference::MapValue { map, offset }, id: node.id, ..made.clone() };
    vec![nodes]
}
