//! Instructions that change nothing.

use kiln_isa::{AluOp, Insn, Source};
use kiln_program::Node;

use crate::region::Region;
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

pub fn same_operands(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let node = &region.nodes[at];
    let Insn::Alu { op: AluOp::And | AluOp::Or, width, dst, src: Source::Reg(src) } = node.insn else {
        return Vec::new();
    };
    let operated = usize::from(width.bits() as u8) / 8;
    let same = trace.word(at, dst).lanes[..operated] == trace.word(at, src).lanes[..operated];
    if dst == src || !same {
        return Vec::new();
    }
    let mut nodes = region.nodes.clone();
    nodes.remove(at);
    vec![nodes]
}
