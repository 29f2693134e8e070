//! Kernel functions: those that heaps, locks and loops need.
//!
//! A program calls them by name. What one takes, the VM gives back if the run is stopped ([`crate::state::Held`]). Sections
//! need nothing: a CPU of the VM runs one program at a time, nothing interrupts it, and a map's element lives until the run ends.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use kiln_program::interpret::Fault;

use super::answer::{Answer, refuse, value};
use crate::errno::Errno;
use crate::state::{HelperFunction, Reply, State};

/// How long a resilient lock is waited for: the kernel's `RES_DEF_TIMEOUT`.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);
/// Turns of waiting between two looks at the clock.
const TURNS: u32 = 1024;
/// Resilient locks that a CPU may hold, as in the kernel (`RES_NR_HELD`).
const MOST_HELD: usize = 31;

/// The kernel functions: name and function.
macro_rules! kfuncs {
    ($apply:ident) => {
        $apply! {
            "bpf_dynptr_adjust", dynptr::adjust;
            "bpf_dynptr_clone", dynptr::clone;
            "bpf_dynptr_copy", dynptr::copy;
            "bpf_dynptr_from_skb", dynptr::from_socket_buffer;
            "bpf_dynptr_from_skb_meta", dynptr::from_metadata;
            "bpf_dynptr_from_xdp", dynptr::from_frame;
            "bpf_dynptr_is_null", dynptr::is_null;
            "bpf_dynptr_is_rdonly", dynptr::is_read_only;
            "bpf_dynptr_memset", dynptr::set;
            "bpf_dynptr_size", dynptr::size;
            "bpf_dynptr_slice", dynptr::slice;
            "bpf_dynptr_slice_rdwr", dynptr::slice_to_write;
            "bpf_iter_bits_destroy", bits::destroy;
            "bpf_iter_bits_new", bits::new;
            "bpf_iter_bits_next", bits::next;
            "bpf_iter_num_destroy", kfunc::numbers_destroy;
            "bpf_iter_num_new", kfunc::numbers_new;
            "bpf_iter_num_next", kfunc::numbers_next;
            "bpf_local_irq_restore", kfunc::section_ends;
            "bpf_local_irq_save", kfunc::interrupts_off;
            "bpf_preempt_disable", kfunc::section_begins;
            "bpf_preempt_enable", kfunc::section_ends;
            "bpf_rcu_read_lock", kfunc::section_begins;
            "bpf_rcu_read_unlock", kfunc::section_ends;
            "bpf_res_spin_lock", kfunc::lock;
            "bpf_res_spin_lock_irqsave", kfunc::lock_interrupts_off;
            "bpf_res_spin_unlock", kfunc::unlock;
            "bpf_res_spin_unlock_irqrestore", kfunc::unlock;
            "bpf_throw", kfunc::throw;
        }
    };
}
pub(crate) use kfuncs;

macro_rules! lookup {
    ($($name:literal, $function:path;)*) => {
        /// The function of a kernel function; `None` if the VM lacks it.
        pub fn by_name(name: &str) -> Option<HelperFunction> {
            match name {
                $($name => Some($function),)*
                _ => None,
            }
        }

        /// The names of all of them.
        #[cfg(test)]
        const ALL: &[&str] = &[$($name),*];
    };
}

mod table {
    use super::super::{bits, dynptr, kfunc};
    use super::HelperFunction;
    kfuncs!(lookup);

    #[test]
    fn the_platform_has_them() {
        for name in ALL {
            assert!(kiln_platform::Kfunc::by_name(name).is_some(), "{name}");
        }
    }
}
pub use table::by_name;

/// Sections are counted, and change nothing.
pub fn section_begins(state: &mut State, _: [u64; 5]) -> Answer {
    state.held.sections = state.held.sections.saturating_add(1);
    value(0)
}

pub fn section_ends(state: &mut State, _: [u64; 5]) -> Answer {
    state.held.sections = state.held.sections.saturating_sub(1);
    value(0)
}

/// Interrupts off: there are none. The flags are written, as a program may only give those back.
pub fn interrupts_off(state: &mut State, arguments: [u64; 5]) -> Answer {
    state.clear(arguments[0], 8)?;
    section_begins(state, arguments)
}

/// Takes a resilient lock: 0, `-EDEADLK` if this CPU holds it, or `-ETIMEDOUT`.
pub fn lock(state: &mut State, [address, ..]: [u64; 5]) -> Answer {
    let word = state.memory.shared_word(address).ok_or(Fault::Memory { address, bytes: 4 })?;
    if state.held.resilient.contains(&address) {
        return refuse(Errno::EDEADLK);
    }
    if state.held.resilient.len() >= MOST_HELD || !acquired(word) {
        return refuse(Errno::ETIMEDOUT);
    }
    state.held.resilient.push(address);
    value(0)
}

fn acquired(word: &AtomicU32) -> bool {
    let mut since = None;
    loop {
        for _ in 0..TURNS {
            if word.compare_exchange_weak(0, 1, Acquire, Relaxed).is_ok() {
                return true;
            }
            std::hint::spin_loop();
        }
        if since.get_or_insert_with(Instant::now).elapsed() > LOCK_TIMEOUT {
            return false;
        }
        std::thread::yield_now();
    }
}

/// As [`lock`]; the flags are written if it is taken.
pub fn lock_interrupts_off(state: &mut State, arguments: [u64; 5]) -> Answer {
    state.check_writable(arguments[1], 8)?;
    let answer = lock(state, arguments)?;
    if answer == Reply::Value(0) {
        state.clear(arguments[1], 8)?;
    }
    Ok(answer)
}

/// Gives back the resilient lock that was taken last: the verifier sees to the order.
pub fn unlock(state: &mut State, [address, ..]: [u64; 5]) -> Answer {
    match state.held.resilient.last() {
        Some(last) if *last == address => state.release_resilient(),
        _ => return Err(Fault::Memory { address, bytes: 4 }),
    }
    value(0)
}

/// Numbers that an iterator goes over at most (kernel `BPF_MAX_LOOPS`).
const MOST_NUMBERS: i64 = 8 << 20;

/// `struct bpf_iter_num`: the present number and the end, both 32 bits.
pub fn numbers_new(state: &mut State, [iterator, start, end, ..]: [u64; 5]) -> Answer {
    let (start, end) = (start as i32, end as i32);
    let error = match i64::from(end) - i64::from(start) {
        count if count < 0 => Some(Errno::EINVAL),
        count if count > MOST_NUMBERS => Some(Errno::E2BIG),
        _ => None,
    };
    // The number before the first: an iterator over nothing is at its end.
    let numbers = if error.is_some() { [0, 0] } else { [start.wrapping_sub(1), end] };
    state.write(iterator, &bytes(numbers))?;
    error.map_or_else(|| value(0), refuse)
}

/// The address of the next number, or null.
pub fn numbers_next(state: &mut State, [iterator, ..]: [u64; 5]) -> Answer {
    let now = state.bytes(iterator, 8)?;
    let word = |at: usize| now.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, i32::from_ne_bytes);
    // The start may be the lowest number there is: then the one before it is the highest.
    let (next, end) = (word(0).wrapping_add(1), word(4));
    if next >= end {
        state.write(iterator, &bytes([0, 0]))?;
        return value(0);
    }
    state.write(iterator, &bytes([next, end]))?;
    value(iterator)
}

pub fn numbers_destroy(_: &mut State, _: [u64; 5]) -> Answer {
    value(0)
}

fn bytes(numbers: [i32; 2]) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&numbers[0].to_ne_bytes());
    bytes[4..].copy_from_slice(&numbers[1].to_ne_bytes());
    bytes
}

/// Ends the run, whose result is the cookie. The verifier allows it only where nothing is held.
pub fn throw(state: &mut State, [cookie, ..]: [u64; 5]) -> Answer {
    state.thrown = Some(cookie);
    Err(Fault::Unsupported("an exception".to_owned()))
}
