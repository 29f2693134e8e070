//! Which registers a function may still read.

use kiln_isa::{CallTarget, Insn, Reg, RegSet};
use kiln_platform::Helper;
use kiln_program::{Cfg, Function};

/// Argument registers that some path from the function's entry reads before it writes them.
pub fn at_entry(function: &Function) -> RegSet {
    before(function).first().map_or(RegSet::EMPTY, |live| live.intersection(RegSet::arguments(5)))
}

/// Registers that some path from each instruction reads before it writes them.
pub fn before(function: &Function) -> Vec<RegSet> {
    let cfg = Cfg::new(function);
    let nodes = &function.nodes;
    let tables: Vec<usize> = function.jump_targets().iter().filter_map(|id| cfg.position.get(id)).copied().collect();
    let mut live = vec![RegSet::EMPTY; nodes.len()];
    loop {
        let mut changed = false;
        for at in (0..nodes.len()).rev() {
            let falls = nodes[at].insn.falls_through();
            let target = nodes[at].target().and_then(|id| cfg.position.get(&id).copied());
            let next = falls.then_some(at + 1).into_iter().chain(target).chain(jumped_to(&nodes[at].insn, &tables));
            let after = next.filter_map(|next| live.get(next)).fold(RegSet::EMPTY, |all, own| all.union(*own));
            let (reads, writes) = uses(&nodes[at].insn);
            let before = reads.union(after.difference(writes));
            changed |= before != live[at];
            live[at] = before;
        }
        if !changed {
            return live;
        }
    }
}

/// Where an indirect jump leads: to what the tables of its function have. Other instructions lead to none of them.
pub fn jumped_to(insn: &Insn, tables: &[usize]) -> impl Iterator<Item = usize> {
    let tables = if matches!(insn, Insn::JumpIndirect { .. }) { tables } else { &[] };
    tables.iter().copied()
}

fn uses(insn: &Insn) -> (RegSet, RegSet) {
    match insn {
        Insn::Call(CallTarget::Helper(id)) => {
            let count = Helper::by_id(*id).map_or(5, Helper::most_arguments).min(5);
            (RegSet::arguments(count), RegSet::CALLER_SAVED)
        }
        Insn::Call(_) => (RegSet::arguments(5), RegSet::CALLER_SAVED),
        Insn::LoadPacket { .. } => (insn.read().union(RegSet::of(&[Reg::R6])), RegSet::CALLER_SAVED),
        Insn::Exit => (RegSet::of(&[Reg::R0]), RegSet::EMPTY),
        // Except for the frame pointer, a register that was written is not read.
        _ => (insn.read(), insn.written().into_iter().collect()),
    }
}
