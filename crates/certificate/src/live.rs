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
    let mut live = vec![RegSet::EMPTY; nodes.len()];
    loop {
        let mut changed = false;
        for at in (0..nodes.len()).rev() {
            let after = cfg.after(function, at).fold(RegSet::EMPTY, |all, next| all.union(live[next]));
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
