//! Stores to a buffer that a helper then fills.
//!
//! ```text
//!   *(u64 *)(r10 - 16) = 0        (gone)
//!   r3 = r10; r3 += -16
//!   w4 = 16
//!   call xdp_load_bytes
//!   if r0 != 0 goto out           out does not look at the buffer
//! ```
//!
//! A verifier that only knows "the helper may write here" must take the zeros for needed. Which helpers write all of
//! their buffer, always or when they return zero, is in their rows ([`Helper::filled_buffer`]).

use kiln_isa::{Insn, JumpOp, Reg, Source};
use kiln_platform::{ArgKind, FilledBuffer, Helper};
use kiln_program::{Cfg, Function, InsnId, Node};
use kiln_verifier::{Facts, InsnFacts, Region, StackSet, Value};

use crate::laws::dead_code::{LOWEST_BYTE, own_stack_offset};

/// The registers of arguments, in their order.
const ARGUMENTS: [Reg; 5] = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5];

/// Stores before such a call, in its block, of which it overwrites every byte.
pub fn overwritten(function: &Function, cfg: &Cfg, facts: &Facts) -> Vec<InsnId> {
    let mut found = Vec::new();
    for block in &cfg.blocks {
        for call in block.range.clone() {
            let node = &function.nodes[call];
            let helper = node.helper().and_then(Helper::by_id);
            let fills = helper.and_then(|helper| Some((helper, helper.filled_buffer()?)));
            if let (Some((helper, buffer)), Some(known)) = (fills, facts.at(node.id))
                && reads_nothing_of_the_frame(helper, known)
                && let Some(bytes) = filled(function, cfg, facts, (block.range.end, call), buffer, known)
            {
                found.extend(stores_to(function, facts, block.range.start..call, bytes));
            }
        }
    }
    found
}

/// Whether none of the numbers that a helper is given may be an address in the frame, where it would read.
fn reads_nothing_of_the_frame(helper: &Helper, known: &InsnFacts) -> bool {
    let numbers = helper.prototype.args.iter().zip(ARGUMENTS).filter(|(kind, _)| **kind == ArgKind::Anything);
    numbers.map(|(_, reg)| &known.registers[reg.index()]).all(Value::is_outside_frame)
}

/// The bytes that are not read between the call and the next read of what it wrote, whether it succeeds or fails.
fn filled(
    function: &Function,
    cfg: &Cfg,
    facts: &Facts,
    (end, call): (usize, usize),
    fill: FilledBuffer,
    known: &InsnFacts,
) -> Option<StackSet> {
    let start = i32::try_from(own_stack_offset(known, *ARGUMENTS.get(fill.buffer)?)?).ok()?;
    let bytes = match &known.registers[ARGUMENTS.get(fill.bytes)?.index()] {
        Value::Scalar(scalar) => i32::try_from(scalar.as_constant()?).ok()?,
        _ => return None,
    };
    let inside = start >= LOWEST_BYTE && bytes > 0 && start.checked_add(bytes)? <= 0;
    if !inside {
        return None;
    }
    let mut set = StackSet::EMPTY;
    set.insert(start, bytes as u32);
    if fill.on_success {
        let failed = failure(function, cfg, call + 1..end)?;
        set = set.difference(&live_at(function, cfg, facts, failed)?);
    }
    Some(set)
}

/// Where control goes when a call did not return zero, if a branch says so before anything else happens.
fn failure(function: &Function, cfg: &Cfg, rest: std::ops::Range<usize>) -> Option<usize> {
    for at in rest {
        let node = &function.nodes[at];
        match node.insn {
            Insn::Alu { dst, .. } if dst != Reg::R0 => {}
            Insn::LoadImm64 { dst, .. } if dst != Reg::R0 => {}
            Insn::Branch { op, dst: Reg::R0, src: Source::Imm(0), .. } if node.core.is_none() => {
                return match op {
                    JumpOp::Ne | JumpOp::Slt => cfg.position.get(&node.target()?).copied(),
                    JumpOp::Eq => Some(at + 1).filter(|next| *next < function.nodes.len()),
                    _ => None,
                };
            }
            _ => return None,
        }
    }
    None
}

/// Stack bytes that may be read from a position on; `None` where that is not simple to tell.
fn live_at(function: &Function, cfg: &Cfg, facts: &Facts, mut at: usize) -> Option<StackSet> {
    let mut live = None;
    for _ in 0..16 {
        let node = function.nodes.get(at)?;
        at = match node.insn {
            Insn::Exit => return Some(StackSet::EMPTY),
            Insn::Jump { .. } => *cfg.position.get(&node.target()?)?,
            Insn::Alu { .. } | Insn::LoadImm64 { .. } => at + 1,
            _ => return live,
        };
        live = facts.at(node.id).map(|known| known.stack_live_after);
    }
    live
}

/// Stores to these bytes only that no later instruction reads, the last one first.
fn stores_to(function: &Function, facts: &Facts, range: std::ops::Range<usize>, mut bytes: StackSet) -> Vec<InsnId> {
    let mut found = Vec::new();
    for node in range.rev().map(|at| &function.nodes[at]) {
        let place = match place(node, facts) {
            Place::Elsewhere => continue,
            Place::Anywhere => break,
            Place::Frame(start, size) => start..start + size,
        };
        match node.insn {
            Insn::Store { .. } if place.clone().all(|byte| bytes.contains(byte)) => found.push(node.id),
            Insn::Store { .. } => {}
            _ => {
                bytes.remove(place.start, (place.end - place.start) as u32);
            }
        }
    }
    found
}

/// What an instruction touches.
pub(crate) enum Place {
    /// Bytes of this frame: the first, and how many.
    Frame(i32, i32),
    /// No byte of it.
    Elsewhere,
    /// Perhaps any.
    Anywhere,
}

pub(crate) fn place(node: &Node, facts: &Facts) -> Place {
    let (size, address) = match node.insn {
        Insn::Load { size, address, .. } | Insn::Store { size, address, .. } if node.core.is_none() => (size, address),
        Insn::Alu { .. }
        | Insn::LoadImm64 { .. }
        | Insn::Neg { .. }
        | Insn::MoveSignExtend { .. }
        | Insn::Endian { .. } => {
            return Place::Elsewhere;
        }
        _ => return Place::Anywhere,
    };
    let Some(known) = facts.at(node.id) else { return Place::Anywhere };
    match &known.registers[address.base.index()] {
        Value::Pointer(pointer) if !matches!(pointer.region, Region::Stack { .. }) => Place::Elsewhere,
        _ => {
            let start = own_stack_offset(known, address.base).and_then(|base| base.checked_add(address.offset.into()));
            let start =
                start.and_then(|start| i32::try_from(start).ok()).filter(|start| (LOWEST_BYTE..0).contains(start));
            start.map_or(Place::Anywhere, |start| Place::Frame(start, size.bytes() as i32))
        }
    }
}
