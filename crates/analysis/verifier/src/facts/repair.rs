//! Removes facts that pruned paths make untrue.
//!
//! ```text
//!   12: prune point; explored with r6 = 5, a path with r6 = 9 ended here       doubt at 12: r6
//!   13: r7 = r6                                                               doubt at 14: r6 r7
//!   14: r6 = 0                                                                doubt at 15: r7
//! ```
//!
//! Doubt spreads forward through copies, arithmetic and the stack. It ends where a register or slot is overwritten by
//! something that is not in doubt. A value that decided a branch was precise, so it is not in doubt, and a branch that
//! may go both ways was explored both ways. But what such a branch says of its other operand is in doubt if one operand
//! is. In a live register a number in doubt becomes unknown; any other known value in doubt becomes unreadable.

use std::collections::BTreeSet;

use kiln_isa::{CallTarget, Insn, Reg, Source};

use super::record::{Doubt, Recorder};
use crate::code::{Code, Position};
use crate::domain::Scalar;
use crate::path::{Accesses, Written};
use crate::state::{Holds, Kind, Register};

const CALLER_SAVED: u16 = 0x3f;
const ARGUMENTS: u16 = 0x3e;
const CALLEE_SAVED: u16 = 0x3c0;

pub(super) fn repair(recorder: &mut Recorder, accesses: &Accesses, code: &Code<'_>) {
    if recorder.doubts.is_empty() {
        return;
    }
    let mut doubts = vec![Doubt::default(); code.ops.len()];
    // In the order of instructions, which is mostly that of paths: what joins is then spread once.
    let mut pending: BTreeSet<Position> = BTreeSet::new();
    for (at, doubt) in &recorder.doubts {
        doubts[*at as usize] = *doubt;
        pending.insert(*at);
    }
    while let Some(at) = pending.pop_first() {
        let doubt = doubts[at as usize];
        for (next, after) in spread(accesses, code, at, doubt) {
            let Some(known) = doubts.get_mut(next as usize) else { continue };
            let joined = known.union(after);
            if joined != *known {
                *known = joined;
                pending.insert(next);
            }
        }
    }
    for (at, doubt) in doubts.iter().enumerate().filter(|(_, doubt)| !doubt.is_none()) {
        let Some(visited) = &mut recorder.visited[at] else { continue };
        for (bit, register) in visited.registers.iter_mut().enumerate() {
            let number = doubt.numbers && register.kind() == Kind::Scalar;
            if number || doubt.registers >> bit & 1 != 0 {
                let live = Reg::new(bit as u8).is_some_and(|reg| code.ops[at].live.contains(reg));
                take_back(register, live);
            }
        }
        for (bit, register) in visited.stack.iter_mut().enumerate() {
            let number = doubt.numbers && register.kind() == Kind::Scalar;
            if number || doubt.slots >> bit & 1 != 0 {
                take_back(register, false);
            }
        }
        if doubt.packet {
            visited.packet_bytes = 0;
        }
    }
}

fn take_back(register: &mut Register, live: bool) {
    if register.kind() == Kind::Scalar && live {
        // Something reads it, so it is a number on every path.
        *register = Register { holds: Holds::Mixed, scalar: Scalar::UNKNOWN, ..Register::UNINIT };
    } else if register.kind() != Kind::Mixed {
        *register = Register::UNINIT;
    }
}

/// Doubt after an instruction, at each place control may go.
fn spread(accesses: &Accesses, code: &Code<'_>, at: Position, doubt: Doubt) -> Vec<(Position, Doubt)> {
    let op = code.op(at);
    let bit = |reg: Reg| 1_u16 << reg.index();
    let in_doubt = |reg: Reg| doubt.registers & bit(reg) != 0;
    let mut after = doubt;
    let set = |after: &mut Doubt, reg: Reg, doubtful: bool| {
        after.registers = after.registers & !bit(reg) | if doubtful { bit(reg) } else { 0 };
    };
    let read = accesses.reads[at as usize].iter().any(|byte| doubt.slots >> ((-1 - byte) / 8) & 1 != 0);
    let loads_doubt = read || doubt.outer;
    match op.node.insn {
        Insn::Load { dst, .. } | Insn::LoadAcquire { dst, .. } => set(&mut after, dst, loads_doubt),
        Insn::Store { .. } | Insn::StoreRelease { .. } | Insn::Atomic { .. } => {
            stored(&mut after, op.node.insn, accesses.writes[at as usize], in_doubt);
            // An atomic operation that fetches loads what was there.
            if let Some(written) = op.node.insn.written() {
                set(&mut after, written, loads_doubt);
            }
        }
        Insn::Call(CallTarget::Subprogram(_)) => {
            let stores = accesses.writes[at as usize] != Written::Nothing || op.callee.is_some();
            let inside = called(&mut after, stores);
            let inner = op.callee.map(|callee| (code.functions[callee].start, inside));
            return std::iter::once((at + 1, after)).chain(inner).collect();
        }
        Insn::Call(_) | Insn::LoadPacket { .. } => {
            after.registers &= !CALLER_SAVED;
            if op.helper.is_some_and(|helper| helper.changes_packet_data) {
                after.packet = false;
            }
            if op.runs_callback() {
                // Callbacks: what is in doubt outside is in doubt inside, and what is in doubt inside is in doubt outside.
                let inside = Doubt { registers: CALLER_SAVED, slots: 0, outer: true, ..doubt };
                after.slots = u64::MAX;
                after.outer = true;
                let starts = code.functions.iter().skip(1).map(|routine| (routine.start, inside));
                return std::iter::once((at + 1, after)).chain(starts).collect();
            }
        }
        Insn::Exit => {
            return returned(code, op.function, doubt);
        }
        Insn::Branch { dst, src: Source::Reg(src), .. } if in_doubt(dst) || in_doubt(src) => {
            // What the comparison says of the one was learned from the other, and holds for its copies too.
            after.numbers = true;
        }
        insn => {
            if let Some(dst) = insn.written() {
                let sources = insn.read().iter().any(in_doubt);
                set(&mut after, dst, sources);
            }
        }
    }
    code.successors(at).map(|next| (next, after)).collect()
}

/// A store takes its source's doubt to where it writes.
fn stored(after: &mut Doubt, insn: Insn, written: Written, in_doubt: impl Fn(Reg) -> bool) {
    let source = match insn {
        Insn::Store { src: Source::Reg(src), .. } | Insn::StoreRelease { src, .. } => in_doubt(src),
        _ => false,
    };
    match written {
        Written::Always { lowest, bytes } => {
            let slot = 1_u64 << ((-1 - lowest) / 8);
            if source {
                after.slots |= slot;
            } else if bytes == 8 {
                after.slots &= !slot;
            }
        }
        Written::Perhaps if source => {
            after.slots = u64::MAX;
            after.outer = true;
        }
        Written::Nothing | Written::Perhaps => {}
    }
}

/// What is in doubt inside of a function that is called; `stores`: it may store through pointers that it was given.
fn called(after: &mut Doubt, stores: bool) -> Doubt {
    let outer = after.outer || after.slots != 0;
    let inside = Doubt { slots: 0, registers: after.registers & ARGUMENTS, outer, ..*after };
    after.registers &= CALLEE_SAVED;
    // What the callee gives back or stores through pointers may be made of what is in doubt.
    if inside.registers != 0 || inside.outer {
        after.registers |= 1;
        if stores {
            after.slots = u64::MAX;
            after.outer = true;
        }
    }
    inside
}

/// A function's result in doubt is in doubt after each of its calls.
fn returned(code: &Code<'_>, function: usize, doubt: Doubt) -> Vec<(Position, Doubt)> {
    // What it may have stored in outer frames is, too, and what it says of the packet.
    let slots = if doubt.outer { u64::MAX } else { 0 };
    let result = Doubt { registers: doubt.registers & 1, slots, ..doubt };
    if result.is_none() {
        return Vec::new();
    }
    let calls_it = |op: &crate::code::Op<'_>| op.callee == Some(function) && matches!(op.node.insn, Insn::Call(_));
    let calls = code.ops.iter().enumerate().filter(|(_, op)| calls_it(op));
    calls.map(|(site, _)| (site as Position + 1, result)).collect()
}
