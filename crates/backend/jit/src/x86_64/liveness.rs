//! Which registers are still needed after each instruction.
//!
//! ```text
//!   w4 = w3                        r3 r4
//!   w4 >>= 28                      r3 r4
//!   w3 <<= 4                       r3 r4
//!   w3 |= w4                       r3         <- r4 is dead: the four may become one rotation
//! ```

use std::collections::HashMap;

use kiln_isa::{CallTarget, Insn, Reg, RegSet};
use kiln_program::{InsnId, Node};

/// Passes over a function before everything is taken as live: a bound on hostile input. Each nested loop needs one.
const PASSES: usize = 24;

/// The registers that may be read after each instruction before they are written. Verified programs do not read R1 to
/// R5 after a call.
pub fn live_after(nodes: &[Node], positions: &HashMap<InsnId, usize>) -> Vec<RegSet> {
    let targets: Vec<Option<usize>> =
        nodes.iter().map(|node| node.target().and_then(|id| positions.get(&id)).copied()).collect();
    let mut after = vec![RegSet::EMPTY; nodes.len()];
    let mut before = vec![RegSet::EMPTY; nodes.len() + 1];
    for _ in 0..PASSES {
        let mut changed = false;
        for at in (0..nodes.len()).rev() {
            let insn = &nodes[at].insn;
            let mut live = match insn {
                Insn::Jump { .. } | Insn::Exit => RegSet::EMPTY,
                _ => before[at + 1],
            };
            if let Some(target) = targets[at] {
                live = live.union(before[target]);
            }
            let earlier = live.difference(written(insn)).union(read(insn));
            changed |= earlier != before[at] || live != after[at];
            (after[at], before[at]) = (live, earlier);
        }
        if !changed {
            return after;
        }
    }
    vec![RegSet::ALL; nodes.len()]
}

fn written(insn: &Insn) -> RegSet {
    match insn {
        Insn::Call(_) | Insn::LoadPacket { .. } => RegSet::CALLER_SAVED,
        _ => insn.written().into_iter().collect(),
    }
}

fn read(insn: &Insn) -> RegSet {
    match insn {
        Insn::Call(CallTarget::Helper(_) | CallTarget::Subprogram(_) | CallTarget::Kfunc { .. }) => {
            RegSet::arguments(5)
        }
        // The packet load's routine may leave the function with R0 alone.
        Insn::LoadPacket { .. } => insn.read().union(RegSet::of(&[Reg::R6])),
        _ => insn.read(),
    }
}
