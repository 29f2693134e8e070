//! Rules about branches and loops.

use kiln_isa::{Insn, JumpOp, Source, Width};
use kiln_verifier::{Region, Value};

use super::linted::{Found, Linted};

/// See the row of `repeated-null-check`.
pub(super) fn repeated_null_checks(linted: &Linted<'_>) -> Vec<Found> {
    let found = |((function, at), node): ((usize, usize), &kiln_program::Node)| {
        let Insn::Branch { op: JumpOp::Eq | JumpOp::Ne, width: Width::W64, dst, src: Source::Imm(0), .. } = node.insn
        else {
            return None;
        };
        let Value::Pointer(pointer) = &linted.facts.at(node.id)?.registers[dst.index()] else { return None };
        // A context, the stack or a map may be compared in a function that other programs call with null. A pointer that
        // was read from a structure of the kernel may be null although the verifier lets it be followed.
        let looked_up = match &pointer.region {
            Region::MapValue(_) => true,
            region @ Region::Other(_) => !region.may_be_any_other(),
            _ => false,
        };
        (looked_up && !pointer.nullable).then(|| Found {
            at: Some((function, at)),
            message: format!("{dst} is compared with null and cannot be null here"),
            help: None,
        })
    };
    linted.nodes().filter_map(found).collect()
}

/// See the row of `loop-under-lock`.
pub(super) fn loops_under_lock(linted: &Linted<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for (index, function, cfg) in &linted.functions {
        for block in &cfg.blocks {
            let last = block.range.end - 1;
            let locked = |at: usize| linted.facts.held(function.nodes[at].id).is_some_and(|held| held.locks > 0);
            let back = |successor: &kiln_program::BlockId| {
                let start = cfg.blocks[successor.index()].range.start;
                start <= block.range.start && locked(start)
            };
            if locked(last) && block.successors.iter().any(back) {
                let message = "a loop turns while a spin lock is held".to_owned();
                found.push(Found { at: Some((*index, last)), message, help: None });
            }
        }
    }
    found
}
