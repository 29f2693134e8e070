//! Moves instructions of a run together to one place, as if there were nothing between them.
//!
//! ```text
//!   3: r7 = r6                   4: r3 = *(u8 *)(r6 + 4)
//!   4: r3 = *(u8 *)(r6 + 4)      3: r7 = r6
//!   5: r7 <<= 32                 5: r7 <<= 32
//!   6: r3 += 1                   7: r7 >>= 32
//!   7: r7 >>= 32                 6: r3 += 1
//! ```
//!
//! Each moves down or up to that place, past instructions that are independent of it: neither computes what the other
//! reads or writes, and at most one of the two writes memory that both may touch. It moves past a branch if its result
//! is dead at the branch target. For registers this is certain; for memory it is only a proposal, because [`Trace`] may
//! be wrong.

use kiln_isa::{Insn, Reg};
use kiln_program::Node;

use crate::flow::demand::only_computes;
use crate::windows::region::{Region, is_barrier};
use crate::windows::trace::Trace;

/// Whether the instructions at these positions may be moved together, in this order, to the place of one of them.
pub fn may_gather(region: &Region<'_>, trace: &Trace, body: &[usize], place: usize) -> bool {
    let nodes = &region.nodes;
    let between = |from: usize, to: usize| (from + 1..to).filter(|other| !body.contains(other));
    body.iter().enumerate().all(|(order, from)| {
        let passed = between(*from, place).chain(between(place, *from));
        let down = *from < place;
        let overtaken = body[..order].iter().copied().filter(|earlier| earlier > from);
        let moves = *from != place || body[..order].iter().any(|earlier| earlier > from);
        let branch = matches!(nodes[*from].insn, Insn::Branch { .. });
        let free = |other: usize| {
            independent(nodes, trace, *from, other) || may_pass(region, &nodes[*from].insn, &nodes[other], down)
        };
        !(branch && moves) && passed.chain(overtaken).all(free)
    })
}

/// Whether an instruction may move past a branch: its result is dead at the branch and at its target, and a load does
/// not move up.
fn may_pass(region: &Region<'_>, insn: &Insn, branch: &Node, down: bool) -> bool {
    let Some(exit) = region.afterwards().at_exit(branch).filter(|_| !is_barrier(branch)) else { return false };
    let unread = insn.written().is_some_and(|reg| exit.of(reg) == 0 && !branch.insn.read().contains(reg));
    only_computes(insn) && unread && (down || !matches!(insn, Insn::Load { .. }))
}

/// Whether two instructions may change places.
fn independent(nodes: &[Node], trace: &Trace, one: usize, other: usize) -> bool {
    let (a, b) = (&nodes[one].insn, &nodes[other].insn);
    if is_barrier(&nodes[one]) || is_barrier(&nodes[other]) || b.is_control() {
        return false;
    }
    let touches =
        |insn: &Insn, reg: Option<Reg>| reg.is_some_and(|reg| insn.read().contains(reg) || insn.written() == Some(reg));
    if touches(a, b.written()) || touches(b, a.written()) {
        return false;
    }
    match (a.address(), b.address()) {
        (Some(_), Some(_)) => {
            let loads = matches!((a, b), (Insn::Load { .. }, Insn::Load { .. }));
            let accesses = (trace.access(one), trace.access(other));
            loads || matches!(accesses, (Some(one), Some(other)) if !one.may_touch(other))
        }
        _ => true,
    }
}
