//! Lookups that always find something, and what is done in case they did not.
//!
//! ```text
//!   *(u32 *)(r10 - 4) = 0                    *(u32 *)(r10 - 4) = 0
//!   r1 = map[counts]     (an array)          r1 = map[counts]
//!   r2 = r10; r2 += -4                       r2 = r10; r2 += -4
//!   call map_lookup_elem                     call map_lookup_elem
//!   if r0 == 0 goto missing                  if r0 == 0 goto out
//!   ...                               -->    ...
//!   goto out                               out:
//! missing:                                   w0 = 0
//!   (insert it)                              exit
//! out:
//!   w0 = 0; exit
//! ```
//!
//! An array has all its elements from the start, and at least one: `array_map_alloc_check` refuses an array of none. So
//! looking up element 0 of an array, per-CPU arrays included, never returns null (`kernel/bpf/arraymap.c`). Verifiers
//! ask for the check nevertheless, so it stays, but its target does not matter: it may be any place that loads, and
//! code that only it led to can be removed. Elements after the first are left alone, because the loader of the object
//! may make the array smaller.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_platform::helper_id::MAP_LOOKUP_ELEM;
use kiln_program::{Cfg, Function, InsnId, Node, Object, Reference};
use kiln_verifier::{Facts, Value};

use crate::flow::calls::Calls;
use crate::flow::demand;
use crate::laws::context::{Change, Context};
use crate::laws::control_flow::remove_unreachable_blocks;
use crate::laws::dead_code::own_stack_offset;
use crate::laws::stack_stores::holds_zeros;

/// Places that a check is tried to lead to at most.
const MAX_TARGETS: usize = 16;

/// Leads one check of such a lookup elsewhere, so that most of what only it led to goes.
pub fn retarget_null_check(context: Context<'_>) -> Vec<Change> {
    let facts = context.known();
    let Context { object, function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let slots = function.slots();
    let mut best: Option<(Function, Vec<Change>)> = None;
    for call in 0..function.nodes.len() {
        let Some(check) = check_of_first_element(object, function, &cfg, facts, call) else { continue };
        if banned(function.nodes[check.branch].id) {
            continue;
        }
        for target in targets(function, &cfg, facts, calls, &check) {
            let (candidate, changes) = lead(object, function, &check, target);
            let least = best.as_ref().map_or(slots, |(best, _)| best.slots());
            if candidate.slots() < least {
                best = Some((candidate, changes));
            }
        }
        if best.is_some() {
            break;
        }
    }
    let Some((candidate, changes)) = best else { return Vec::new() };
    *function = candidate;
    changes
}

/// The null check of a lookup.
struct Check {
    branch: usize,
    /// Where it leads for null now.
    missing: usize,
    /// Whether it is the branch's target, or what follows it.
    jumps: bool,
}

/// The check of what a call returns, if that is a lookup of an array's first element.
fn check_of_first_element(
    object: &Object,
    function: &Function,
    cfg: &Cfg,
    facts: &Facts,
    call: usize,
) -> Option<Check> {
    let node = &function.nodes[call];
    let known = facts.at(node.id).filter(|_| node.helper() == Some(MAP_LOOKUP_ELEM))?;
    let block = &cfg.blocks[cfg.block_of[call].index()];
    let made = function.nodes[block.range.start..call].iter().rfind(|node| node.insn.written() == Some(Reg::R1))?;
    let Reference::Map(map) = made.reference else { return None };
    let map = object.map(map);
    let array = map.map_type.rules().finds_every_key && map.key_size == 4;
    let key = own_stack_offset(known, Reg::R2).filter(|_| array)?;
    if !holds_zeros(function, facts, call, i32::try_from(key).ok()?, map.key_size) {
        return None;
    }
    let mut holders = RegSet::of(&[Reg::R0]);
    for at in call + 1..block.range.end {
        let node = &function.nodes[at];
        match node.insn {
            Insn::Branch { op, width: Width::W64, dst, src: Source::Imm(0), .. }
                if holders.contains(dst) && node.core.is_none() && at + 1 == block.range.end =>
            {
                let jump = *cfg.position.get(&node.target()?)?;
                let jumps = match op {
                    JumpOp::Eq => true,
                    JumpOp::Ne => false,
                    _ => return None,
                };
                let missing = if jumps { jump } else { at + 1 };
                return (jump != at + 1 && missing < function.nodes.len()).then_some(Check {
                    branch: at,
                    missing,
                    jumps,
                });
            }
            Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(src) } if holders.contains(src) => {
                holders = holders.union(RegSet::of(&[dst]));
            }
            Insn::Call(_) => holders = holders.difference(RegSet::CALLER_SAVED),
            _ => holders = holders.difference(node.insn.written().into_iter().collect()),
        }
    }
    None
}

/// Blocks, by their first instruction, that read only what is there at the check: what null led to first, then the
/// ends of the function.
fn targets(function: &Function, cfg: &Cfg, facts: &Facts, calls: &Calls, check: &Check) -> Vec<InsnId> {
    let Some(known) = facts.at(function.nodes[check.branch].id) else { return Vec::new() };
    let held: RegSet = Reg::all().filter(|reg| known.registers[reg.index()] != Value::Uninit).collect();
    let ends = demand::at_block_ends(function, cfg, calls);
    let mut order = vec![cfg.block_of[check.missing].index()];
    let mut next = 0;
    while next < order.len() && order.len() < MAX_TARGETS {
        let more = cfg.blocks[order[next]].successors.iter().map(|block| block.index());
        let more: Vec<usize> = more.filter(|block| !order.contains(block)).collect();
        order.extend(more);
        next += 1;
    }
    let exits = |block: &usize| function.nodes[cfg.blocks[*block].range.end - 1].insn == Insn::Exit;
    let more: Vec<usize> = (0..cfg.blocks.len()).filter(exits).filter(|block| !order.contains(block)).collect();
    order.extend(more);
    let fits = |block: &usize| {
        let range = cfg.blocks[*block].range.clone();
        let mut demand = ends[*block];
        function.nodes[range.clone()].iter().rev().for_each(|node| demand.step_back(node, calls));
        range.start > check.branch && demand.live().difference(held) == RegSet::EMPTY
    };
    let found = order.into_iter().skip(1).filter(fits).take(MAX_TARGETS);
    found.map(|block| function.nodes[cfg.blocks[block].range.start].id).collect()
}

/// The function with the check leading to an instruction, without what no path then reaches.
fn lead(object: &mut Object, function: &Function, check: &Check, target: InsnId) -> (Function, Vec<Change>) {
    let mut candidate = function.clone();
    let old = function.nodes[check.branch].clone();
    let mut new: Vec<Node> = vec![old.clone()];
    if check.jumps {
        new[0].reference = Reference::Branch(target);
    } else {
        new.push(object.new_node(Insn::Jump { offset: 0, long: false }, Reference::Branch(target)));
    }
    candidate.nodes.splice(check.branch..=check.branch, new.clone());
    let mut changes = vec![Change::new(vec![old], new)];
    changes.extend(remove_unreachable_blocks(&mut candidate));
    (candidate, changes)
}
