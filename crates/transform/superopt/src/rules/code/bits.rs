//! Instructions that change nothing.

use kiln_isa::Insn;
use kiln_program::Node;

use crate::windows::region::Region;
use crate::windows::trace::Trace;

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
