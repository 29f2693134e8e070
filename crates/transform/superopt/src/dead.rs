//! Dead writes: registers and stack bytes that nothing reads before they are overwritten.

use std::collections::HashSet;

use kiln_isa::{Insn, Reg};
use kiln_program::{Function, Node};
use kiln_verifier::{Facts, InsnFacts, Region, Value};

use crate::control_flow::Change;
use crate::edit;
use crate::evidence::Law;

/// Removes writes that the facts say are dead. Facts go stale at once: those of the instructions before a removed
/// one may say that its operands live, which is only less than could be known.
pub fn remove_dead(function: &mut Function, facts: &Facts) -> Vec<Change> {
    let mut changes = Vec::new();
    for node in &function.nodes {
        let Some(known) = facts.at(node.id) else { continue };
        if let Some(law) = dead(node, known) {
            changes.push(Change { at: node.id, law, before: vec![node.clone()], after: Vec::new() });
        }
    }
    edit::delete(function, &changes.iter().map(|change| change.at).collect::<HashSet<_>>());
    changes
}

fn dead(node: &Node, known: &InsnFacts) -> Option<Law> {
    match node.insn {
        Insn::Alu { .. }
        | Insn::Neg { .. }
        | Insn::MoveSignExtend { .. }
        | Insn::Endian { .. }
        | Insn::LoadImm64 { .. }
        | Insn::Load { .. } => {
            let dst = node.insn.written()?;
            (dst != Reg::R10 && !known.live_after.contains(dst)).then_some(Law::DeadWrite)
        }
        Insn::Store { size, address, .. } => {
            let at = own_stack_offset(known, address.base)?.checked_add(i64::from(address.offset))?;
            let start = i32::try_from(at).ok()?;
            let inside = start >= -512 && start + size.bytes() as i32 <= 0;
            let read = (0..size.bytes() as i32).any(|byte| known.stack_live_after.contains(start + byte));
            (inside && !read).then_some(Law::DeadStore)
        }
        _ => None,
    }
}

/// The constant offset from the frame pointer that a register holds, if it points into its own frame.
pub fn own_stack_offset(known: &InsnFacts, reg: Reg) -> Option<i64> {
    match &known.registers[reg.index()] {
        Value::Pointer(pointer) if pointer.region == (Region::Stack { up: 0 }) && !pointer.nullable => {
            pointer.offset.as_constant().map(|offset| offset as i64)
        }
        _ => None,
    }
}
