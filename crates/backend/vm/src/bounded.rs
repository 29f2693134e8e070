//! Whether a verified program ends within the instruction budget by itself.
//!
//! The verifier follows every path of a program, loops iteration by iteration. It leaves a path only at the exit, or at a
//! state that an explored one includes whose paths have all ended. So a run is a walk through explored instructions, and
//! none of them is met twice: from an included state the walk goes on among instructions that were done before.
//!
//! ```text
//!   explored:  0: r1 = 3   1: r1 -= 1   2: if r1 != 0 goto 1   1:   2:   1:   2:   3: exit      8 explored, 8 run
//! ```
//!
//! This does not hold for what the verifier does not follow to its end: loops that it widens (callbacks, iterators,
//! `may_goto`), global functions, which it verifies once and not at each call, and other programs behind tail calls.

use kiln_isa::{CallTarget, Insn};
use kiln_platform::helper_id::TAIL_CALL;
use kiln_program::{FunctionId, Linkage, Node, Object, Reference};

/// Whether every run takes at most `budget` instructions, given how many the verifier explored.
pub(crate) fn ends_within(object: &Object, entry: FunctionId, explored: u64, budget: u64) -> bool {
    let followed = |id: &FunctionId| {
        object.functions.get(id.index()).is_some_and(|function| {
            (*id == entry || function.linkage == Linkage::Static) && function.nodes.iter().all(is_followed)
        })
    };
    explored <= budget && object.reachable_functions(entry).iter().all(followed)
}

/// Whether the verifier goes on behind an instruction exactly as a run does.
fn is_followed(node: &Node) -> bool {
    match node.insn {
        Insn::MayGoto { .. } => false,
        Insn::Call(CallTarget::Helper(helper)) => helper != TAIL_CALL,
        Insn::Call(CallTarget::Kfunc { .. }) => false,
        Insn::LoadImm64 { .. } => !matches!(node.reference, Reference::Function(_)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use kiln_program::Function;

    use super::*;

    fn ends(text: &str, explored: u64, budget: u64) -> bool {
        let mut object = Object::default();
        let insns = text.split(';').map(|line| kiln_isa::text::parse(line.trim()).expect("an instruction"));
        let nodes = insns.map(|insn| object.new_node(insn, Reference::None)).collect();
        object.functions.push(Function::new("example", "xdp", Linkage::Global, nodes));
        ends_within(&object, FunctionId(0), explored, budget)
    }

    #[test]
    fn what_the_verifier_follows_needs_no_budget() {
        assert!(ends("r0 = 0; exit", 2, 2));
        assert!(!ends("r0 = 0; exit", 3, 2));
        assert!(ends("call 5; exit", 2, 100));
        assert!(!ends("call 12; exit", 2, 100));
    }
}
