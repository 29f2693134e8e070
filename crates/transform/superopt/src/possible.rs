//! Which bits of which registers may be one: what a graph tells without a verifier.
//!
//! ```text
//!   w4 = 1                          0001
//!   if w2 == 1 goto L               0001
//!   w4 = 0                          0000
//! L:                                0001     (either way)
//!   w4 <<= 2                        0100
//! ```
//!
//! Verifiers forget such numbers where no safety hangs on them. A load of four bytes says nothing here: of a context it
//! may give an address.

use kiln_isa::{AluOp, Imm64, Insn, Reg, RegSet, Size, Source, Width};
use kiln_program::{Cfg, Function, Node, Reference};

/// Bits of each register that may be one.
pub type Possible = [u64; Reg::COUNT];

/// From before an instruction to after it.
pub fn step(bits: &mut Possible, node: &Node) {
    if let Insn::Call(_) | Insn::LoadPacket { .. } = node.insn {
        for reg in RegSet::CALLER_SAVED.iter() {
            bits[reg.index()] = u64::MAX;
        }
    }
    let Some(dst) = node.insn.written() else { return };
    bits[dst.index()] = if node.core.is_some() { u64::MAX } else { result(bits, node, bits[dst.index()]) };
}

fn result(bits: &Possible, node: &Node, old: u64) -> u64 {
    match node.insn {
        Insn::Alu { op, width, src, .. } => {
            let whole = if width == Width::W32 { u64::from(u32::MAX) } else { u64::MAX };
            let other = match src {
                Source::Reg(src) => bits[src.index()],
                Source::Imm(imm) => i64::from(imm) as u64,
            };
            let amount = match src {
                Source::Imm(imm) => Some(imm as u32 % width.bits()),
                Source::Reg(_) => None,
            };
            let made = match (op, amount) {
                (AluOp::Mov, _) => other,
                (AluOp::And, _) => old & other,
                (AluOp::Or | AluOp::Xor, _) => old | other,
                (AluOp::Lsh, Some(amount)) => (old & whole) << amount,
                (AluOp::Rsh, Some(amount)) => (old & whole) >> amount,
                _ => u64::MAX,
            };
            made & whole
        }
        Insn::Load { size: Size::B1, signed: false, .. } => 0xff,
        Insn::Load { size: Size::B2, signed: false, .. } => 0xffff,
        Insn::LoadImm64 { imm: Imm64::Value(value), .. } if node.reference == Reference::None => value,
        _ => u64::MAX,
    }
}

/// What is possible at the start of each block; nothing where no path leads.
pub fn at_block_begins(function: &Function, cfg: &Cfg) -> Vec<Possible> {
    let mut begin = vec![[0; Reg::COUNT]; cfg.blocks.len()];
    let mut pending: Vec<usize> = Vec::new();
    if let Some(first) = begin.first_mut() {
        *first = [u64::MAX; Reg::COUNT];
        pending.push(0);
    }
    let mut seen = vec![false; cfg.blocks.len()];
    while let Some(block) = pending.pop() {
        seen[block] = true;
        let mut bits = begin[block];
        function.nodes[cfg.blocks[block].range.clone()].iter().for_each(|node| step(&mut bits, node));
        for next in &cfg.blocks[block].successors {
            let known = &mut begin[next.index()];
            let joined: Possible = std::array::from_fn(|reg| known[reg] | bits[reg]);
            if *known != joined || !seen[next.index()] {
                *known = joined;
                pending.push(next.index());
            }
        }
    }
    begin
}
