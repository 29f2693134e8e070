//! A long row of stores of zero as a loop: smaller, and slower.
//!
//! ```text
//!                                      r1 = -272
//!   *(u64 *)(r10 - 16) = 0           L:
//!   *(u64 *)(r10 - 24) = 0             r2 = r10
//!   ...                        -->     r2 += r1
//!   *(u64 *)(r10 - 280) = 0            *(u64 *)(r2 - 8) = 0
//!                                      r1 += 8
//!                                      if r1 != 0 goto L
//! ```
//!
//! Compilers clear a local structure so. The loop takes longer to run and to verify, so it is for [`Goal::Size`] alone.
//! Its counter is a number, because the verifier does not follow comparisons of addresses in a frame. It needs two
//! registers that are dead after the stores.

use std::collections::BTreeSet;
use std::ops::Range;

use kiln_isa::{Address, AluOp, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_program::{Cfg, Function, Node, Object, Reference};

use crate::cost::Goal;
use crate::edit;
use crate::flow::demand;
use crate::laws::context::{Change, Context};

/// Slots of the loop.
const LOOP: usize = 6;
/// Bytes that each store clears.
const BYTES: i32 = Size::B8.bytes() as i32;

/// Makes a loop of the first row of stores that is long enough; one a call.
pub fn loop_stores(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, goal, banned, .. } = context;
    if goal != Goal::Size {
        return Vec::new();
    }
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    for (block, end) in cfg.blocks.iter().zip(&ends) {
        let nodes = &function.nodes[block.range.clone()];
        let after = demand::after_each(nodes, *end, calls);
        let mut begin = 0;
        for row in nodes.chunk_by(|one, other| cleared(one).is_some() == cleared(other).is_some()) {
            let range = block.range.start + begin..block.range.start + begin + row.len();
            begin += row.len();
            let Some(cleared) = longest(row).filter(|_| !banned(row[0].id)) else { continue };
            let mut free = Reg::all().filter(|reg| *reg != Reg::R10 && after[begin - 1].of(*reg) == 0);
            if let (Some(counter), Some(address)) = (free.next(), free.next()) {
                return vec![replace(object, function, range, cleared, [counter, address])];
            }
        }
    }
    Vec::new()
}

/// The offset from the frame pointer of a store of eight zeros.
fn cleared(node: &Node) -> Option<i32> {
    match node.insn {
        Insn::Store { size: Size::B8, address: Address { base: Reg::R10, offset }, src: Source::Imm(0) } => {
            node.core.is_none().then_some(i32::from(offset))
        }
        _ => None,
    }
}

/// The longest run of adjacent bytes that a row of stores clears, if a loop is shorter than its stores.
fn longest(row: &[Node]) -> Option<Range<i32>> {
    let offsets: BTreeSet<i32> = row.iter().filter_map(cleared).collect();
    let offsets: Vec<i32> = offsets.into_iter().collect();
    let runs = offsets.chunk_by(|one, next| one + BYTES == *next);
    let longest = runs.max_by_key(|run| run.len()).filter(|run| run.len() > LOOP)?;
    Some(longest[0]..longest[longest.len() - 1] + BYTES)
}

/// Puts the loop after the stores of the row that stay.
fn replace(
    object: &mut Object,
    function: &mut Function,
    range: Range<usize>,
    cleared_bytes: Range<i32>,
    [counter, address]: [Reg; 2],
) -> Change {
    let row = function.nodes[range.clone()].to_vec();
    let alu = |op, dst, src| Insn::Alu { op, width: Width::W64, dst, src };
    let place = Address { base: address, offset: cleared_bytes.end as i16 };
    let head = object.new_node(Insn::mov(address, Reg::R10), Reference::None);
    let back = Reference::Branch(head.id);
    let branch = Insn::Branch { op: JumpOp::Ne, width: Width::W64, dst: counter, src: Source::Imm(0), offset: 0 };
    let mut plain = |insn| object.new_node(insn, Reference::None);
    let first = plain(alu(AluOp::Mov, counter, Source::Imm(cleared_bytes.start - cleared_bytes.end)));
    let add = plain(alu(AluOp::Add, address, Source::Reg(counter)));
    let store = plain(Insn::Store { size: Size::B8, address: place, src: Source::Imm(0) });
    let step = plain(alu(AluOp::Add, counter, Source::Imm(BYTES)));
    let made = [first, head, add, store, step, object.new_node(branch, back)];
    let line = row[0].line;
    let stays = |node: &&Node| cleared(node).is_some_and(|offset| !cleared_bytes.contains(&offset));
    let mut after: Vec<Node> = row.iter().filter(stays).cloned().collect();
    after.extend(made.into_iter().map(|node| Node { line, ..node }));
    edit::replace(function, range, after.clone());
    Change::new(row, after)
}
