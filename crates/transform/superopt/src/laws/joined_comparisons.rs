//! Comparisons of neighbouring stack bytes with constants, as one comparison of them all.
//!
//! ```text
//!   w1 = *(u8 *)(r10 - 16)
//!   if w1 != 98 goto out              w1 = *(u16 *)(r10 - 16)
//!   w1 = *(u8 *)(r10 - 15)    -->     if w1 != 0x6162 goto out
//!   if w1 != 97 goto out
//! ```
//!
//! Compilers compare the name of a process with a constant byte by byte. Two bytes become two, and then four. Both
//! branches leave for the same place, where the loaded values are dead.

use kiln_isa::{Address, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_program::{BlockId, Cfg, Function, Ids, Node};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand::{self, Demand};
use crate::laws::context::{Change, Context};

/// A load from the frame, and a branch that is taken if the value is not a constant: the last two of a block.
#[derive(Clone, Copy)]
struct Compared {
    size: Size,
    offset: i16,
    reg: Reg,
    constant: u32,
}

/// Joins the first two comparisons that can be joined.
pub fn join_comparisons(context: Context<'_>) -> Vec<Change> {
    let Context { function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    for (index, pair) in cfg.blocks.windows(2).enumerate() {
        let (first, second) = (pair[0].range.end, &pair[1]);
        let alone = second.predecessors[..] == [BlockId(index as u32)] && second.range.len() == 2;
        let parts = [first, second.range.end].map(|end| compared(&function.nodes, end));
        let (true, [Some(one), Some(other)]) = (alone, parts) else { continue };
        let [leaves, goes_on] = [first - 1, second.range.end - 1].map(|at| function.nodes[at].target());
        let dead = |reg: Reg| {
            ends[index + 1].of(reg) == 0
                && demanded_at(function, &cfg, &ends, leaves, calls).is_some_and(|d| d.of(reg) == 0)
        };
        let Some((size, constant)) = joined(one, other).filter(|_| leaves == goes_on) else { continue };
        if banned(function.nodes[first - 1].id) || !dead(one.reg) || !dead(other.reg) {
            continue;
        }
        let before = function.nodes[first - 2..second.range.end].to_vec();
        let Insn::Branch { op, offset, .. } = before[1].insn else { unreachable!("it was a branch") };
        let address = Address { base: Reg::R10, offset: one.offset };
        function.nodes[first - 2].insn = Insn::Load { size, signed: false, dst: one.reg, address };
        let src = Source::Imm(constant as i32);
        function.nodes[first - 1].insn = Insn::Branch { op, width: Width::W32, dst: one.reg, src, offset };
        let after = function.nodes[first - 2..first].to_vec();
        edit::delete(function, &before[2..].iter().map(|node| node.id).collect::<Ids>());
        return vec![Change::at(before[1].id, before, after)];
    }
    Vec::new()
}

fn compared(nodes: &[Node], end: usize) -> Option<Compared> {
    let [load, branch] = nodes.get(end.checked_sub(2)?..end)? else { return None };
    let Insn::Load { size, signed: false, dst: reg, address: Address { base: Reg::R10, offset } } = load.insn else {
        return None;
    };
    let Insn::Branch { op: JumpOp::Ne, dst, src: Source::Imm(imm), .. } = branch.insn else { return None };
    if size > Size::B2 {
        return None;
    }
    let constant = u32::try_from(imm).ok().filter(|constant| constant >> size.bits() == 0)?;
    (dst == reg && load.core.is_none() && branch.core.is_none()).then_some(Compared { size, offset, reg, constant })
}

/// The size and the constant of a comparison of both, if their bytes are those of one aligned load.
fn joined(one: Compared, other: Compared) -> Option<(Size, u32)> {
    let size = match one.size {
        Size::B1 => Size::B2,
        Size::B2 => Size::B4,
        _ => return None,
    };
    let bytes = one.size.bytes() as i16;
    let fits = other.size == one.size && other.offset == one.offset + bytes && one.offset % (2 * bytes) == 0;
    fits.then_some((size, one.constant | other.constant << one.size.bits()))
}

/// What is read from the target of a branch on.
fn demanded_at(
    function: &Function,
    cfg: &Cfg,
    ends: &[Demand],
    target: Option<kiln_program::InsnId>,
    calls: &Calls,
) -> Option<Demand> {
    let block = cfg.block_of[*cfg.position.get(&target?)?].index();
    let mut demand = ends[block];
    function.nodes[cfg.blocks[block].range.clone()].iter().rev().for_each(|node| demand.step_back(node, calls));
    Some(demand)
}
