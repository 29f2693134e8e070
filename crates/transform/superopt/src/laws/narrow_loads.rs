//! Arguments of which only the lower half is wanted, loaded as that.
//!
//! ```text
//!   r8 = *(u64 *)(r1 + 16)             w8 = *(u32 *)(r1 + 16)
//!   call ...                           call ...
//!   if r0 == 0 goto out        -->     if r0 == 0 goto out
//!   w8 = w8                            (r8 has no upper half)
//!   *(u64 *)(r0 + 8) = r8              *(u64 *)(r0 + 8) = r8
//! ```
//!
//! A tracing program is given each argument in eight bytes. The kernel writes the context before the program runs and
//! leaves loads from it as they are, so four of the bytes are the lower half. Contexts of other program types stand
//! for kernel structures, each access of which the kernel rewrites: theirs stay.

use kiln_isa::{AluOp, Insn, Reg, RegSet, Size, Source, Width};
use kiln_platform::ContextAccess;
use kiln_program::{Cfg, FunctionId, Ids, Object, Reference};

use crate::edit;
use crate::flow::demand;
use crate::flow::possible;
use crate::laws::available_values::held_since_entry;
use crate::laws::context::{Change, Context};

/// Narrows loads from such a context if the upper half is cleared later and not read before.
pub fn narrow_loads(context: Context<'_>) -> Vec<Change> {
    let Context { object, id, function, calls, banned, .. } = context;
    let cleared: RegSet = function.nodes.iter().filter_map(|node| clears_upper_half(&node.insn)).collect();
    if cleared == RegSet::EMPTY || !begins_with_plain_context(object, id) {
        return Vec::new();
    }
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let contexts = held_since_entry(object, function, &cfg, Reg::R1);
    let mut changes = Vec::new();
    for (block, end) in cfg.blocks.iter().zip(ends) {
        let after = demand::after_each(&function.nodes[block.range.clone()], end, calls);
        for (at, demand) in block.range.clone().zip(after) {
            let node = &mut function.nodes[at];
            let Insn::Load { size: Size::B8, signed: false, dst, address } = node.insn else { continue };
            let half = (1..=32).contains(&demand.of(dst)) && cleared.contains(dst);
            if !half || !contexts[at].contains(address.base) || node.core.is_some() || banned(node.id) {
                continue;
            }
            let old = node.clone();
            node.insn = Insn::Load { size: Size::B4, signed: false, dst, address };
            changes.push(Change::new(vec![old], vec![node.clone()]));
        }
    }
    changes
}

/// Removes what clears upper halves that are zero on every way there.
pub fn remove_cleared_halves(context: Context<'_>) -> Vec<Change> {
    let Context { object, id, function, banned, .. } = context;
    if function.nodes.iter().all(|node| clears_upper_half(&node.insn).is_none()) {
        return Vec::new();
    }
    let cfg = Cfg::new(function);
    let numbers = possible::loads_numbers(object, id);
    let mut doomed = Ids::default();
    let mut changes = Vec::new();
    for (block, mut bits) in cfg.blocks.iter().zip(possible::at_block_begins(function, &cfg, numbers)) {
        for node in &function.nodes[block.range.clone()] {
            let zero = |reg: Reg| bits[reg.index()] <= u64::from(u32::MAX);
            if clears_upper_half(&node.insn).is_some_and(zero) && node.core.is_none() && !banned(node.id) {
                doomed.insert(node.id);
                changes.push(Change::new(vec![node.clone()], Vec::new()));
            }
            possible::step(&mut bits, node, numbers);
        }
    }
    edit::delete(function, &doomed);
    changes
}

/// The register whose upper half an instruction clears, where it does nothing else.
fn clears_upper_half(insn: &Insn) -> Option<Reg> {
    match *insn {
        Insn::Alu { op: AluOp::Mov, width: Width::W32, dst, src: Source::Reg(src) } if dst == src => Some(dst),
        _ => None,
    }
}

/// Whether the function is always given a program's context, and of such a type.
fn begins_with_plain_context(object: &Object, id: FunctionId) -> bool {
    let mut programs = object.programs.iter().filter(|program| program.entry == id).peekable();
    let plain = programs.peek().is_some()
        && programs
            .all(|program| program.program_type.is_some_and(|own| own.context().access == ContextAccess::Memory));
    let mut nodes = object.functions.iter().flat_map(|function| &function.nodes);
    plain && nodes.all(|node| node.reference != Reference::Function(id))
}
