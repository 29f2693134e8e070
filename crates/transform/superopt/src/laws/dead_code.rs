//! Dead writes: registers and stack bytes that nothing reads before they are overwritten, and questions that nobody
//! wants answered.
//!
//! ```text
//!   r1 = map[counts]
//!   r2 = r7
//!   call map_lookup_elem      (nothing)
//!   r1 = map[counts]     -->  r1 = map[counts]
//!   r2 = r7                   r2 = r7
//!   call map_delete_elem      call map_delete_elem
//! ```

use kiln_isa::{Insn, Reg};
use kiln_program::{Cfg, Ids, Node};
use kiln_verifier::{InsnFacts, Region, Value};

use crate::edit;
use crate::flow::demand::{self, Afterwards};
use crate::laws::context::{Change, Context};
use crate::laws::dead_store_before_helper;

/// Removes a call if it only returns a value and nothing reads the value.
pub fn remove_unread_calls(context: Context<'_>) -> Vec<Change> {
    let facts = context.known();
    let Context { object, function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let mut changes = Vec::new();
    for (block, end) in cfg.blocks.iter().zip(ends) {
        let nodes = &function.nodes[block.range.clone()];
        for (node, after) in nodes.iter().zip(demand::after_each(nodes, end, calls)) {
            let known = facts.at(node.id);
            if after.of(Reg::R0) == 0 && !banned(node.id) && kiln_equiv::only_answers(object, node, known) {
                changes.push(Change::new(vec![node.clone()], Vec::new()));
            }
        }
    }
    edit::delete(function, &changes.iter().map(|change| change.at).collect());
    changes
}

/// Removes writes that are not read: of registers by the demand on the graph, of stack bytes by the facts.
pub fn remove_dead(context: Context<'_>) -> Vec<Change> {
    let Context { function, calls, facts, banned, banned_by, most, .. } = context;
    let buried = facts
        .map(|facts| dead_store_before_helper::overwritten(function, &Cfg::new(function), facts))
        .unwrap_or_default();
    let is_dead =
        |node: &Node| facts.and_then(|facts| facts.at(node.id)).is_some_and(|known| is_dead_store(node, known));
    let dead = function.nodes.iter().filter(|node| is_dead(node));
    let others = function.nodes.iter().filter(|node| buried.contains(&node.id) && !is_dead(node));
    let stores = dead.chain(others).filter(|node| !banned(node.id)).take(most);
    let mut changes: Vec<Change> = stores.map(|node| Change::new(vec![node.clone()], Vec::new())).collect();
    edit::delete(function, &changes.iter().map(|change| change.at).collect::<Ids>());
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let mut doomed = Ids::default();
    for (block, end) in cfg.blocks.iter().zip(ends) {
        let after = Afterwards::straight(end, calls);
        let mut demand = after.at_end();
        // Readers go before what they read, so that any number of changes may be made.
        for node in function.nodes[block.range.clone()].iter().rev() {
            if changes.len() < most && demand::is_dead(node, &demand) && !banned_by("dead-write", node.id) {
                doomed.insert(node.id);
                changes.push(Change::new(vec![node.clone()], Vec::new()).by("dead-write"));
            } else {
                after.step_back(&mut demand, node);
            }
        }
    }
    edit::delete(function, &doomed);
    changes
}

fn is_dead_store(node: &Node, known: &InsnFacts) -> bool {
    let Insn::Store { size, address, .. } = node.insn else { return false };
    // The loader may write another offset.
    if node.core.is_some() {
        return false;
    }
    let at = own_stack_offset(known, address.base).and_then(|base| base.checked_add(i64::from(address.offset)));
    let Some(start) = at.and_then(|at| i32::try_from(at).ok()) else { return false };
    let inside = start >= LOWEST_BYTE && start + size.bytes() as i32 <= 0;
    inside && !(0..size.bytes() as i32).any(|byte| known.stack_live_after.contains(start + byte))
}

/// The lowest byte of a frame, from its frame pointer.
pub(crate) const LOWEST_BYTE: i32 = -(kiln_platform::limits::MAX_STACK_BYTES as i32);

/// The constant offset from the frame pointer that a register holds, if it points into its own frame.
pub fn own_stack_offset(known: &InsnFacts, reg: Reg) -> Option<i64> {
    match &known.registers[reg.index()] {
        Value::Pointer(pointer) if pointer.region == (Region::Stack { up: 0 }) && !pointer.nullable => {
            pointer.offset.as_constant().map(|offset| offset as i64)
        }
        _ => None,
    }
}
