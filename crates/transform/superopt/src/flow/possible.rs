//! Which bits of which registers may be one, found from the graph without a verifier.
//!
//! ```text
//!   w4 = 1                          0001
//!   if w2 == 1 goto L               0001
//!   w4 = 0                          0000
//! L:                                0001     (either way)
//!   w4 <<= 2                        0100
//! ```
//!
//! Verifiers do not track such values if safety does not depend on them. A four-byte load returns a scalar only if no
//! context has four-byte addresses ([`loads_numbers`]), because the kernel makes those eight bytes wide.

use kiln_isa::{AluOp, Imm64, Insn, Reg, RegSet, Size, Source, Width};
use kiln_platform::{Field, FieldValue, Helper};
use kiln_program::{Cfg, Function, FunctionId, Node, Object, Reference};
use kiln_verifier::{InsnFacts, Scalar, Tnum, Value};

use crate::flow::demand::Demand;

/// Bits of each register that may be one.
pub type Possible = [u64; Reg::COUNT];

/// Whether no program that runs a function has a context in which four bytes are an address.
pub fn loads_numbers(object: &Object, function: FunctionId) -> bool {
    let mut runs =
        object.programs.iter().filter(|program| object.reachable_functions(program.entry).contains(&function));
    let plain = |field: &Field| field.value == FieldValue::Scalar || field.size == 8;
    runs.all(|program| program.program_type.is_some_and(|kind| kind.context().fields.iter().all(plain)))
}

/// From before an instruction to after it; `numbers` as [`loads_numbers`] says.
pub fn step(bits: &mut Possible, node: &Node, numbers: bool) {
    if let Insn::Call(_) | Insn::LoadPacket { .. } = node.insn {
        for reg in RegSet::CALLER_SAVED.iter() {
            bits[reg.index()] = u64::MAX;
        }
        if let Some(helper) = node.helper().and_then(Helper::by_id) {
            bits[Reg::R0.index()] = helper.answer_bits;
            return;
        }
    }
    let Some(dst) = node.insn.written() else { return };
    bits[dst.index()] = if node.core.is_some() { u64::MAX } else { result(bits, node, numbers) };
}

fn result(bits: &Possible, node: &Node, numbers: bool) -> u64 {
    match node.insn {
        Insn::Alu { op, width, dst, src } => {
            let old = bits[dst.index()];
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
                (AluOp::Rsh | AluOp::Div | AluOp::Mod, _) => up_to(old & whole),
                (AluOp::Add, _) if (old | other) >> 63 == 0 => up_to(old | other) << 1 | 1,
                _ => u64::MAX,
            };
            made & whole
        }
        Insn::Load { size: Size::B1, signed: false, .. } => 0xff,
        Insn::Load { size: Size::B2, signed: false, .. } => 0xffff,
        Insn::Load { size: Size::B4, signed: false, .. } if numbers => 0xffff_ffff,
        Insn::LoadImm64 { imm: Imm64::Value(value), .. } if node.reference == Reference::None => value,
        _ => u64::MAX,
    }
}

/// All bits up to the highest of these: no operation that makes a number smaller has others.
fn up_to(bits: u64) -> u64 {
    u64::MAX.checked_shr(bits.leading_zeros()).unwrap_or(0)
}

/// Adds what these bits imply for unknown registers, as far as the program reads them.
pub fn sharpen(facts: &mut InsnFacts, bits: &Possible, demand: &Demand) {
    for reg in Reg::all().filter(|reg| *reg != Reg::R10) {
        // The unread part of a register may be anything.
        let read = u64::MAX.checked_shr(64 - demand.of(reg)).unwrap_or(0);
        let (own, value) = (bits[reg.index()], &mut facts.registers[reg.index()]);
        let may_be = own | !read;
        match value {
            Value::Unknown if own & read != read => {
                let tnum = Tnum { value: 0, mask: may_be };
                *value = Value::Scalar(Scalar { tnum, ..Scalar::UNKNOWN });
            }
            Value::Scalar(scalar) if scalar.tnum.value & !may_be == 0 => scalar.tnum.mask &= may_be,
            _ => {}
        }
    }
}

/// The possible bits at the start of each block; none for unreachable blocks.
pub fn at_block_begins(function: &Function, cfg: &Cfg, numbers: bool) -> Vec<Possible> {
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
        function.nodes[cfg.blocks[block].range.clone()].iter().for_each(|node| step(&mut bits, node, numbers));
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
