//! Two fields side by side that change places, such as the addresses of a frame that is sent back.
//!
//! ```text
//!   four halves loaded, four stored:            r2 = *(u64 *)(r6 + 0)          d0 d1 d2 d3 d4 d5 s0 s1
//!   w2 = *(u32 *)(r6 + 6)                       r3 = *(u64 *)(r6 + 4)          d4 d5 s0 s1 s2 s3 s4 s5
//!   w3 = *(u32 *)(r6 + 0)                       r3 >>= 16                      s0 s1 s2 s3 s4 s5 0  0
//!   *(u32 *)(r6 + 6) = w3              -->      *(u64 *)(r6 + 0) = r3
//!   *(u32 *)(r6 + 0) = w2                       *(u16 *)(r6 + 6) = r2          d0 d1
//!   w2 = *(u16 *)(r6 + 10)                      r2 >>= 16
//!   w3 = *(u16 *)(r6 + 4)                       *(u32 *)(r6 + 8) = r2          d2 d3 d4 d5
//!   *(u16 *)(r6 + 10) = w3
//!   *(u16 *)(r6 + 4) = w2
//! ```
//!
//! On the stack, where eight bytes begin at a multiple of eight, the second word is put together of two loads.

use kiln_isa::{AluOp, Insn, Reg, Size, Source, Width};
use kiln_program::{Node, Reference};

use crate::rules::code::memory::{Copied, Origin, copy_runs};
use crate::windows::region::Region;
use crate::windows::trace::{Root, Trace};

/// Bytes of each field.
const FIELD: i64 = 6;

/// At the last of several stores that exchange two fields of six bytes: fewer and wider ones.
pub fn exchanged_fields(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let copied = copy_runs(region, at).into_iter().filter_map(|run| Copied::read(region, trace, run));
    copied.filter_map(|copied| exchange(region, trace, &copied)).collect()
}

fn exchange(region: &Region<'_>, trace: &Trace, copied: &Copied) -> Option<Vec<Node>> {
    let [root] = copied.roots[..] else { return None };
    let (&(_, first), _) = copied.bytes.first_key_value()?;
    let exchanged = copied.bytes.iter().zip(0..).all(|((&(_, own), (_, from)), at)| {
        let other = if at < FIELD { own + FIELD } else { own - FIELD };
        own == first + at && *from == Origin::Memory(root, other)
    });
    if !exchanged || copied.bytes.len() as i64 != 2 * FIELD {
        return None;
    }
    let begin = copied.run.start;
    let place = |offset: i64| trace.address(begin, root, first + offset);
    let load = |size, dst, offset| Some(Insn::Load { size, signed: false, dst, address: place(offset)? });
    let store = |size, src, offset| Some(Insn::Store { size, address: place(offset)?, src: Source::Reg(src) });
    let shift = |op, dst, by| Some(Insn::Alu { op, width: Width::W64, dst, src: Source::Imm(by) });
    let (front, back) = (*copied.free.first()?, *copied.free.get(1)?);
    let second: Vec<Option<Insn>> = if root != Root::Stack {
        vec![load(Size::B8, back, 4), shift(AluOp::Rsh, back, 16)]
    } else if first.rem_euclid(8) == 0 {
        let more: Reg = *copied.free.get(2)?;
        let or = Insn::Alu { op: AluOp::Or, width: Width::W64, dst: back, src: Source::Reg(more) };
        vec![
            load(Size::B4, back, 8),
            shift(AluOp::Lsh, back, 16),
            Some(Insn::mov(more, front)),
            shift(AluOp::Rsh, more, 48),
            Some(or),
        ]
    } else {
        return None;
    };
    let stores =
        [store(Size::B8, back, 0), store(Size::B2, front, 6), shift(AluOp::Rsh, front, 16), store(Size::B4, front, 8)];
    let made = [load(Size::B8, front, 0)].into_iter().chain(second).chain(stores).collect::<Option<Vec<Insn>>>()?;
    // Each takes the place of one that it is like, where there is one, so that it keeps a line of the source.
    let mut spare: Vec<&Node> = region.nodes[copied.run.clone()].iter().collect();
    let mut nodes = region.nodes[..begin].to_vec();
    for insn in made {
        let alike = |node: &&Node| std::mem::discriminant(&node.insn) == std::mem::discriminant(&insn);
        let like = spare.iter().position(alike).unwrap_or(0);
        if spare.is_empty() {
            return None;
        }
        nodes.push(Node { insn, reference: Reference::None, ..spare.remove(like).clone() });
    }
    nodes.extend_from_slice(&region.nodes[copied.run.end..]);
    Some(nodes)
}
