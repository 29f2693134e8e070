//! Kernel objects on the program's stack, as the kernel runs them: iterators over numbers, dynptrs over memory, sections.
//!
//! ```text
//!   bpf_iter_num    i32 current, i32 end          next gives the object's own address, where the number is
//!   bpf_dynptr      u64 data, u32 size, u32 0     data 0: none
//! ```
//!
//! Programs may not read these bytes, so it only matters that they are kept: if an optimizer or a fact treats them as
//! dead, overwriting them shows it.

use kiln_isa::Size;
use kiln_program::Environment;
use kiln_program::interpret::Fault;

const INVALID: u64 = -22_i64 as u64;
const TOO_BIG: u64 = -7_i64 as u64;
/// Numbers that an iterator goes over at most (kernel `BPF_MAX_LOOPS`).
const MOST_NUMBERS: i64 = 8 << 20;

/// Calls a kernel function; `None` for one that is not about such objects.
pub fn call_kfunc(world: &mut impl Environment, name: &str, arguments: [u64; 5]) -> Option<Result<u64, Fault>> {
    let [first, second, third, ..] = arguments;
    Some(match name {
        "bpf_iter_num_new" => new_numbers(world, first, second as i32, third as i32),
        "bpf_iter_num_next" => next_number(world, first),
        "bpf_iter_num_destroy" => put_numbers(world, first, 0, 0).map(|()| 0),
        "bpf_rcu_read_lock" | "bpf_rcu_read_unlock" | "bpf_preempt_disable" | "bpf_preempt_enable" => Ok(0),
        "bpf_local_irq_save" => world.store(first, Size::B8, 0x246).map(|()| 0),
        "bpf_local_irq_restore" => match world.load(first, Size::B8) {
            Ok(0x246) => Ok(0),
            // If it is not the saved value, the run faults as at missing memory.
            Ok(_) => Err(Fault::Memory { address: first, bytes: 8 }),
            Err(fault) => Err(fault),
        },
        _ => return None,
    })
}

fn put_numbers(world: &mut impl Environment, at: u64, current: i32, end: i32) -> Result<(), Fault> {
    world.store(at, Size::B4, u64::from(current as u32))?;
    world.store(at + 4, Size::B4, u64::from(end as u32))
}

fn new_numbers(world: &mut impl Environment, at: u64, start: i32, end: i32) -> Result<u64, Fault> {
    let (error, current, end) = match i64::from(end) - i64::from(start) {
        ..0 => (INVALID, 0, 0),
        count if count > MOST_NUMBERS => (TOO_BIG, 0, 0),
        _ => (0, start.wrapping_sub(1), end),
    };
    put_numbers(world, at, current, end)?;
    Ok(error)
}

fn next_number(world: &mut impl Environment, at: u64) -> Result<u64, Fault> {
    let current = (world.load(at, Size::B4)? as i32).wrapping_add(1);
    let end = world.load(at + 4, Size::B4)? as i32;
    if current >= end {
        put_numbers(world, at, 0, 0)?;
        return Ok(0);
    }
    put_numbers(world, at, current, end)?;
    Ok(at)
}

/// Calls a helper about dynptrs; `None` for any other.
pub fn call_helper(world: &mut impl Environment, name: &str, arguments: [u64; 5]) -> Option<Result<u64, Fault>> {
    let [first, second, third, fourth, fifth] = arguments;
    Some(match name {
        "dynptr_from_mem" if third != 0 => put_dynptr(world, fourth, 0, 0).map(|()| INVALID),
        "dynptr_from_mem" => put_dynptr(world, fourth, first, second).map(|()| 0),
        "dynptr_read" => copy(world, third, fourth, second, fifth, |world, data, at| {
            let byte = world.load(data + at, Size::B1)?;
            world.store(first + at, Size::B1, byte)
        }),
        "dynptr_write" => copy(world, first, second, fourth, fifth, |world, data, at| {
            let byte = world.load(third + at, Size::B1)?;
            world.store(data + at, Size::B1, byte)
        }),
        "dynptr_data" => slice(world, first, second, third).map(|data| data.unwrap_or(0)),
        _ => return None,
    })
}

fn put_dynptr(world: &mut impl Environment, at: u64, data: u64, size: u64) -> Result<(), Fault> {
    world.store(at, Size::B8, data)?;
    world.store(at + 8, Size::B4, size)?;
    world.store(at + 12, Size::B4, 0)
}

/// Where that many bytes from an offset on are; `None` where there are not.
fn slice(world: &mut impl Environment, dynptr: u64, offset: u64, bytes: u64) -> Result<Option<u64>, Fault> {
    let data = world.load(dynptr, Size::B8)?;
    let size = world.load(dynptr + 8, Size::B4)?;
    let (offset, bytes) = (offset & 0xffff_ffff, bytes & 0xffff_ffff);
    Ok((data != 0 && offset + bytes <= size).then_some(data + offset))
}

fn copy<E: Environment>(
    world: &mut E,
    dynptr: u64,
    offset: u64,
    bytes: u64,
    flags: u64,
    one: impl Fn(&mut E, u64, u64) -> Result<(), Fault>,
) -> Result<u64, Fault> {
    if flags != 0 || world.load(dynptr, Size::B8)? == 0 {
        return Ok(INVALID);
    }
    let Some(data) = slice(world, dynptr, offset, bytes)? else { return Ok(TOO_BIG) };
    for at in 0..bytes & 0xffff_ffff {
        one(world, data, at)?;
    }
    Ok(0)
}
