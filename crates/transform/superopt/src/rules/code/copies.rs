//! Rules for copies: reading the original instead, and computing a value in its final register.

use kiln_isa::{Address, AluOp, Insn, Reg, Source, Width};
use kiln_program::Node;

use crate::windows::region::{Region, ends};
use crate::windows::trace::Trace;

/// The instruction with every read of one register replaced by another; `None` if one field reads and writes it.
pub fn reading(insn: &Insn, from: Reg, to: Reg) -> Option<Insn> {
    let source = |src: Source| if src == Source::Reg(from) { Source::Reg(to) } else { src };
    let place = |address: Address| Address { base: if address.base == from { to } else { address.base }, ..address };
    let reg = |own: Reg| if own == from { to } else { own };
    Some(match *insn {
        Insn::Alu { op, width, dst, src } if op == AluOp::Mov || dst != from => {
            Insn::Alu { op, width, dst, src: source(src) }
        }
        Insn::MoveSignExtend { width, from: bits, dst, src } => {
            Insn::MoveSignExtend { width, from: bits, dst, src: reg(src) }
        }
        Insn::Load { size, signed, dst, address } => Insn::Load { size, signed, dst, address: place(address) },
        Insn::Store { size, address, src } => Insn::Store { size, address: place(address), src: source(src) },
        Insn::Atomic { op, fetch: false, size, address, src } => {
            Insn::Atomic { op, fetch: false, size, address: place(address), src: reg(src) }
        }
        Insn::Branch { op, width, dst, src, offset } => {
            Insn::Branch { op, width, dst: reg(dst), src: source(src), offset }
        }
        _ => return None,
    })
}

/// The instruction with one register renamed throughout; `None` if that is impossible.
fn renamed(insn: &Insn, from: Reg, to: Reg) -> Option<Insn> {
    let reg = |own: Reg| if own == from { to } else { own };
    let source = |src: Source| if src == Source::Reg(from) { Source::Reg(to) } else { src };
    let place = |address: Address| Address { base: reg(address.base), ..address };
    Some(match *insn {
        Insn::Alu { op, width, dst, src } => Insn::Alu { op, width, dst: reg(dst), src: source(src) },
        Insn::Neg { width, dst } => Insn::Neg { width, dst: reg(dst) },
        Insn::MoveSignExtend { width, from: bits, dst, src } => {
            Insn::MoveSignExtend { width, from: bits, dst: reg(dst), src: reg(src) }
        }
        Insn::Endian { order, size, dst } => Insn::Endian { order, size, dst: reg(dst) },
        Insn::LoadImm64 { dst, imm } => Insn::LoadImm64 { dst: reg(dst), imm },
        Insn::Load { size, signed, dst, address } => {
            Insn::Load { size, signed, dst: reg(dst), address: place(address) }
        }
        Insn::Store { size, address, src } => Insn::Store { size, address: place(address), src: source(src) },
        _ => return None,
    })
}

/// At a copy: all its readers read the original, until either changes.
pub fn copied_operand(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Insn::Alu { op: AluOp::Mov, width, dst, src: Source::Reg(src) } = region.nodes[at].insn else {
        return Vec::new();
    };
    if dst == src {
        return Vec::new();
    }
    let _ = width;
    let mut nodes = region.nodes.clone();
    let mut changed = false;
    for node in &mut nodes[at + 1..] {
        if ends(node, &[dst, src]) {
            break;
        }
        if node.insn.read().contains(dst) {
            match reading(&node.insn, dst, src) {
                Some(insn) => {
                    node.insn = insn;
                    changed = true;
                }
                None => break,
            }
        }
        if matches!(node.insn.written(), Some(reg) if reg == src || reg == dst) {
            break;
        }
    }
    if changed { vec![nodes] } else { Vec::new() }
}

/// At a copy of a value that the register already holds: nothing.
pub fn repeated_copy(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Insn::Alu { op: AluOp::Mov, dst, src: Source::Reg(src), .. } = region.nodes[at].insn else {
        return Vec::new();
    };
    let (old, new) = (trace.word(at, dst), trace.word(at + 1, dst));
    if dst == src || old.lanes != new.lanes || (old.root, old.offset) != (new.root, new.offset) {
        return Vec::new();
    }
    let mut nodes = region.nodes.clone();
    nodes.remove(at);
    vec![nodes]
}

/// At a copy whose original is dead: the value is computed in the copy's register.
pub fn final_register(region: &Region<'_>, _: &Trace, at: usize) -> Vec<Vec<Node>> {
    let Insn::Alu { op: AluOp::Mov, width: Width::W64 | Width::W32, dst, src: Source::Reg(src) } =
        region.nodes[at].insn
    else {
        return Vec::new();
    };
    if dst == src || src == Reg::R10 {
        return Vec::new();
    }
    // Back to where the value begins, renaming on the way.
    let mut nodes = region.nodes.clone();
    nodes.remove(at);
    for earlier in (0..at).rev() {
        let insn = region.nodes[earlier].insn;
        if ends(&region.nodes[earlier], &[dst, src]) {
            return Vec::new();
        }
        let begins = insn.written() == Some(src) && !insn.read().contains(src);
        let touches = insn.read().contains(dst) || insn.written() == Some(dst);
        if touches && !begins {
            return Vec::new();
        }
        if begins {
            // The instruction may still read the register that it will now write.
            let Some(insn) = writing(&insn, dst) else { return Vec::new() };
            nodes[earlier].insn = insn;
            return vec![nodes];
        }
        if insn.read().contains(src) || insn.written() == Some(src) {
            let Some(insn) = renamed(&insn, src, dst) else { return Vec::new() };
            nodes[earlier].insn = insn;
        }
    }
    Vec::new()
}

/// The instruction with another destination; `None` if the same field is also read.
pub fn writing(insn: &Insn, dst: Reg) -> Option<Insn> {
    Some(match *insn {
        Insn::Alu { op: AluOp::Mov, width, src, .. } => Insn::Alu { op: AluOp::Mov, width, dst, src },
        Insn::MoveSignExtend { width, from, src, .. } => Insn::MoveSignExtend { width, from, dst, src },
        Insn::LoadImm64 { imm, .. } => Insn::LoadImm64 { dst, imm },
        Insn::Load { size, signed, address, .. } => Insn::Load { size, signed, dst, address },
        _ => return None,
    })
}

/// At a computation of a value that another register already holds: a copy of it.
pub fn same_value(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    if node.core.is_some() {
        return Vec::new();
    }
    let holder = match node.insn {
        Insn::LoadImm64 { dst, imm } => {
            let same = |earlier: &usize| match region.nodes[*earlier].insn {
                Insn::LoadImm64 { imm: own, .. } => {
                    own == imm
                        && region.nodes[*earlier].reference == node.reference
                        && region.nodes[*earlier].core.is_none()
                }
                _ => false,
            };
            let earlier = (0..at).rev().filter(same);
            let held =
                |earlier: usize| Reg::all().find(|reg| trace.word(at, *reg).definition == earlier && *reg != dst);
            earlier.filter_map(held).next()
        }
        Insn::Alu { op, dst, .. } if op != AluOp::Mov => {
            let word = trace.word(at + 1, dst);
            let own_root = word.root == crate::windows::trace::Root::Value(at);
            Reg::all().filter(|reg| *reg != Reg::R10).find(|reg| {
                let other = trace.word(at, *reg);
                let same_address = !own_root && (other.root, other.offset) == (word.root, word.offset);
                *reg != dst && (same_address || other.lanes == word.lanes)
            })
        }
        _ => None,
    };
    let (Some(holder), Some(dst)) = (holder, node.insn.written()) else { return Vec::new() };
    vec![super::operands::with(region, at, Insn::mov(dst, holder))]
}
