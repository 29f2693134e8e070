//! `kiln_spinlock_t` from user space: locks that programs take too, and what becomes of them when their holder dies.
//!
//! A lock is 32 bits: 0 while it is free, 1 while a program holds it, [`USER`] plus the thread's id while user space does. So a lock
//! whose holder was killed can be told from one that is in use:
//!
//! ```text
//!   killed while it holds the lock      a run that needs it waits, and is cancelled at the end of its quantum
//!   4 to 8 ms later                     the lock is known as abandoned: runs that need it are cancelled within microseconds
//!   free_of_the_dead                    the lock is free again; runs work again
//! ```
//!
//! A program that is cancelled while it holds a lock leaves 1 behind. Nothing tells such a lock from one that is in use, except
//! that no program runs: [`release`] frees it.

use std::time::{Duration, Instant};

use crate::Memory;

/// The bit of a lock that user space holds; the thread's id is in the others.
pub const USER: u32 = 1 << 31;
/// The bits in which programs note that they wait (`KILN_WAIT_MASK`): since when, or all of them for an abandoned lock.
const WAITED: u32 = 0xff << 22;

/// How often a lock is looked at again because programs have changed its value.
const TRIES: usize = 100;

/// Who holds a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// Nobody.
    Nobody,
    /// A program, or one that was cancelled.
    Program,
    /// A thread of user space, by its id.
    Thread(u32),
}

impl Holder {
    fn of(held: u32) -> Holder {
        match held & !WAITED {
            0 => Holder::Nobody,
            held if held & USER != 0 => Holder::Thread(held & !USER),
            _ => Holder::Program,
        }
    }
}

/// The lock's word and how far it is shifted in there.
fn place(offset: usize) -> (usize, u32) {
    (offset & !7, 8 * (offset as u32 & 4))
}

/// Replaces the lock's value if it is `expected`. Returns the old one.
fn exchange(heap: &dyn Memory, offset: usize, expected: u32, new: u32) -> Option<u32> {
    let (word, shift) = place(offset);
    let mut whole = heap.load(word)?;
    loop {
        let found = (whole >> shift) as u32;
        if found != expected {
            return Some(found);
        }
        let next = whole & !(u64::from(u32::MAX) << shift) | u64::from(new) << shift;
        let seen = heap.compare_exchange(word, whole, next)?;
        if seen == whole {
            return Some(expected);
        }
        whole = seen;
    }
}

/// The lock's value.
fn value(heap: &dyn Memory, offset: usize) -> Option<u32> {
    let (word, shift) = place(offset);
    Some((heap.load(word)? >> shift) as u32)
}

/// Who holds the lock at an offset; `None` outside of the heap.
pub fn holder(heap: &dyn Memory, offset: usize) -> Option<Holder> {
    value(heap, offset).map(Holder::of)
}

/// Whether programs wait for the lock in vain: whoever holds it has not released it for several milliseconds. `None` outside of the heap.
pub fn is_abandoned(heap: &dyn Memory, offset: usize) -> Option<bool> {
    value(heap, offset).map(|held| held & WAITED == WAITED)
}

/// Takes the lock at an offset, a multiple of 4, for the thread with this id. Returns who holds it if it is not free in time;
/// [`Holder::Nobody`] outside of the heap.
///
/// # Errors
/// Returns the holder.
pub fn take(heap: &dyn Memory, offset: usize, thread: u32, within: Duration) -> Result<(), Holder> {
    let begun = Instant::now();
    loop {
        match exchange(heap, offset, 0, USER | thread).ok_or(Holder::Nobody)? {
            0 => return Ok(()),
            held if begun.elapsed() >= within => return Err(Holder::of(held)),
            _ => std::thread::yield_now(),
        }
    }
}

/// Frees a lock, whoever holds it.
pub fn release(heap: &dyn Memory, offset: usize) -> Option<()> {
    let (word, shift) = place(offset);
    loop {
        let whole = heap.load(word)?;
        if heap.compare_exchange(word, whole, whole & !(u64::from(u32::MAX) << shift))? == whole {
            return Some(());
        }
    }
}

/// Frees a lock that a thread held which has ended; returns whether it did. What the lock protects may be half changed.
pub fn free_of_the_dead(heap: &dyn Memory, offset: usize) -> Option<bool> {
    // Programs that wait may note that in between: then once more.
    for _ in 0..TRIES {
        let held = value(heap, offset)?;
        match Holder::of(held) {
            Holder::Thread(thread) if is_dead(thread) => {}
            _ => return Some(false),
        }
        if exchange(heap, offset, held, 0)? == held {
            return Some(true);
        }
    }
    Some(false)
}

/// Whether a thread has ended: there is none with this id, or it waits for its parent.
fn is_dead(thread: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{thread}/stat")) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
