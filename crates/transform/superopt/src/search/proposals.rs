//! The moves of a Markov chain from one candidate to another (K2, section 3.1).
//!
//! All but one are symmetric: the chance of going from a candidate to another is that of coming back, because what
//! is put in is drawn evenly from a set that also holds what was there. Putting in nothing is not: it comes back only
//! through the replacement of an instruction. Like K2 and STOKE the chain does not correct for it, which makes it lean
//! to shorter candidates.

use kiln_equiv::concrete::Random;
use kiln_isa::{Address, Insn, Size, Source};

use super::Step;
use super::parameters::Kind;
use super::pool::{Pool, shifts_by_less};

/// A candidate of fixed length; `None` is nothing.
pub type Slots = Vec<Option<Step>>;

/// What a proposal changed: a position and what was there, at most twice.
pub type Undo = [Option<(usize, Option<Step>)>; 2];

/// Changes a candidate by one proposal. `branches`: whether the last slot is a branch, which stays one. Nothing is
/// changed where the proposal does not fit what it met.
pub fn propose(kind: Kind, slots: &mut Slots, branches: bool, pool: &Pool, random: &mut Random) -> Undo {
    let at = random.below(slots.len() as u64) as usize;
    let is_branch = |at: usize| branches && at + 1 == slots.len();
    let drawn = |at: usize, random: &mut Random| {
        let from = if is_branch(at) { &pool.branches } else { &pool.insns };
        // Nothing is one of the instructions, so that the way back from it is there.
        match random.below(from.len() as u64 + u64::from(!is_branch(at))) as usize {
            index if index < from.len() => Some(from[index]),
            _ => None,
        }
    };
    let new = match kind {
        Kind::Instruction => [Some((at, drawn(at, random))), None],
        Kind::Contiguous if slots.len() > 1 => {
            let at = at.min(slots.len() - 2);
            [Some((at, drawn(at, random))), Some((at + 1, drawn(at + 1, random)))]
        }
        Kind::Contiguous => [None, None],
        Kind::Nothing if is_branch(at) => [None, None],
        Kind::Nothing => [Some((at, None)), None],
        Kind::Operand => [slots[at].and_then(|step| operand(step, pool, random)).map(|step| (at, Some(step))), None],
        Kind::MemoryExchange1 | Kind::MemoryExchange2 => {
            let exchanged = slots[at].and_then(|step| exchange(step, kind, pool, random));
            [exchanged.map(|step| (at, Some(step))), None]
        }
    };
    new.map(|change| change.map(|(at, step)| (at, std::mem::replace(&mut slots[at], step))))
}

/// Takes a proposal back.
pub fn undo(slots: &mut Slots, changed: Undo) {
    for (at, step) in changed.into_iter().flatten() {
        slots[at] = step;
    }
}

fn one_of<T: Copy>(from: &[T], random: &mut Random) -> Option<T> {
    (!from.is_empty()).then(|| from[random.below(from.len() as u64) as usize])
}

fn another_source(src: Source, pool: &Pool, random: &mut Random) -> Option<Source> {
    match src {
        Source::Reg(_) => one_of(&pool.readable, random).map(Source::Reg),
        Source::Imm(_) => one_of(&pool.numbers, random).map(Source::Imm),
    }
}

/// The step with one of its operands drawn anew.
fn operand(step: Step, pool: &Pool, random: &mut Random) -> Option<Step> {
    let read = |random: &mut Random| one_of(&pool.readable, random);
    let written = |random: &mut Random| one_of(&pool.writable, random);
    let first = random.below(2) == 0;
    let insn = match step.insn {
        Insn::Alu { op, width, src, .. } if first => Insn::Alu { op, width, dst: written(random)?, src },
        Insn::Alu { op, width, dst, src } => {
            let src = another_source(src, pool, random)?;
            if !shifts_by_less(op, width, src) {
                return None;
            }
            Insn::Alu { op, width, dst, src }
        }
        Insn::Neg { width, .. } => Insn::Neg { width, dst: written(random)? },
        Insn::Endian { order, size, .. } => Insn::Endian { order, size, dst: written(random)? },
        Insn::MoveSignExtend { width, from, src, .. } if first => {
            Insn::MoveSignExtend { width, from, dst: written(random)?, src }
        }
        Insn::MoveSignExtend { width, from, dst, .. } => Insn::MoveSignExtend { width, from, dst, src: read(random)? },
        Insn::LoadImm64 { imm, .. } => Insn::LoadImm64 { dst: written(random)?, imm },
        Insn::Load { size, signed, address, .. } if first => {
            Insn::Load { size, signed, dst: written(random)?, address }
        }
        Insn::Load { size, signed, dst, address } => {
            Insn::Load { size, signed, dst, address: another_address(address, pool, random)? }
        }
        Insn::Store { size, address, src } if first => {
            Insn::Store { size, address, src: another_source(src, pool, random)? }
        }
        Insn::Store { size, address, src } => {
            Insn::Store { size, address: another_address(address, pool, random)?, src }
        }
        Insn::Branch { op, width, src, offset, .. } if first => {
            Insn::Branch { op, width, dst: read(random)?, src, offset }
        }
        Insn::Branch { op, width, dst, src, offset } => {
            Insn::Branch { op, width, dst, src: another_source(src, pool, random)?, offset }
        }
        _ => return None,
    };
    Some(Step { insn, ..step })
}

fn another_address(address: Address, pool: &Pool, random: &mut Random) -> Option<Address> {
    if random.below(2) == 0 {
        Some(Address { base: one_of(&pool.readable, random)?, ..address })
    } else {
        Some(Address { offset: one_of(&pool.offsets, random)?, ..address })
    }
}

/// The memory access at the same address with another width, and for the first kind with another value too.
fn exchange(step: Step, kind: Kind, pool: &Pool, random: &mut Random) -> Option<Step> {
    let size = Size::ALL[random.below(4) as usize];
    let values = kind == Kind::MemoryExchange1;
    let insn = match step.insn {
        Insn::Load { signed: true, .. } if size == Size::B8 => return None,
        Insn::Load { signed, dst, address, .. } => {
            let dst = if values { one_of(&pool.writable, random)? } else { dst };
            Insn::Load { size, signed, dst, address }
        }
        Insn::Store { address, src, .. } => {
            let src = if values { any_source(pool, random)? } else { src };
            Insn::Store { size, address, src }
        }
        _ => return None,
    };
    Some(Step { insn, ..step })
}

/// A register or a number, each as likely as any other.
fn any_source(pool: &Pool, random: &mut Random) -> Option<Source> {
    let all = pool.readable.len() + pool.numbers.len();
    let index = (all > 0).then(|| random.below(all as u64) as usize)?;
    Some(match pool.readable.get(index) {
        Some(reg) => Source::Reg(*reg),
        None => Source::Imm(pool.numbers[index - pool.readable.len()]),
    })
}
