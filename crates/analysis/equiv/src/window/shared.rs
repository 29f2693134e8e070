//! Memory that others access at the same time.
//!
//! Other CPUs and user space read and write map values and kernel memory while a window runs. So equal final bytes are
//! not enough:
//!
//! ```text
//!   original                      replacement
//!   *(u32 *)(r1 + 0) = 1          *(u16 *)(r1 + 0) = 1; *(u16 *)(r1 + 2) = 0      torn: somebody may see half of it
//!   r2 = *(u32 *)(r1 + 0)         r2 = *(u32 *)(r1 + 0)
//!   r3 = *(u32 *)(r1 + 0)         r3 = r2                 the second look was perhaps there to see a change
//!   *(u8 *)(r1 + 0) = 1           *(u8 *)(r1 + 8) = 2     the order may be a protocol
//!   *(u8 *)(r1 + 8) = 2           *(u8 *)(r1 + 0) = 1
//! ```
//!
//! Bytecode does not say which accesses the source called volatile, and compilers have joined most of the others. So
//! repeated and ordered accesses count as intended. A new window may join adjacent accesses that were made equally
//! often, omit dead loads and overwritten stores, and load after a store what the processor (x86, in total store order)
//! may load before it.

use crate::window::state::Access;

/// Checks that the new window uses shared memory as the original does. Returns what differs if not.
pub fn shared_memory_kept(before: &[Access], after: &[Access]) -> Result<(), &'static str> {
    let shared = |access: &&Access| access.class.is_shared() && !access.own;
    let old: Vec<_> = before.iter().filter(shared).copied().collect();
    let new: Vec<_> = after.iter().filter(shared).copied().collect();
    if old == new {
        return Ok(());
    }
    untorn(&old, &new)?;
    stores_kept(&old, &new)?;
    repeated_loads(&old, &new)?;
    ordered(&old, &new)
}

fn overlaps(a: &Access, b: &Access) -> bool {
    let after = |first: &Access, second: &Access| {
        (0..i64::from(first.bytes)).contains(&second.offset.wrapping_sub(first.offset))
    };
    // Accesses on different paths, or with calls in between, do not correspond.
    let together = (a.path, a.epoch) == (b.path, b.epoch);
    together && a.root == b.root && a.writes == b.writes && (after(a, b) || after(b, a))
}

/// Accesses are neither added nor split.
fn untorn(old: &[Access], new: &[Access]) -> Result<(), &'static str> {
    // The same access on both sides is unchanged.
    let mut left = old.to_vec();
    let mut fresh = new.to_vec();
    fresh.retain(|access| match left.iter().position(|other| other == access) {
        Some(at) => {
            left.swap_remove(at);
            false
        }
        None => true,
    });
    for access in &fresh {
        let replaced: Vec<_> = left.iter().filter(|other| overlaps(access, other)).collect();
        let whole = replaced.iter().all(|other| {
            let from = other.offset.wrapping_sub(access.offset);
            from >= 0 && from + i64::from(other.bytes) <= access.bytes.into()
        });
        // Loads that are repeated may be joined each time, as often as they were made.
        let times = |other: &Access| match access.writes || !whole {
            true => 1,
            false => left.iter().filter(|same| overlaps(same, other)).count(),
        };
        let rivals = |other: &Access| fresh.iter().filter(|rival| overlaps(rival, other)).count();
        let alone = replaced.iter().all(|other| rivals(other) <= times(other));
        // A narrower load in place of a wider one is fine when it is the only one.
        let narrowed = !access.writes && replaced.len() == 1;
        if replaced.is_empty() || !(whole || narrowed) || !alone {
            return Err("an access to shared memory is split or added");
        }
    }
    Ok(())
}

/// The new window stores every byte that the original stores, on the same path and between the same calls.
fn stores_kept(old: &[Access], new: &[Access]) -> Result<(), &'static str> {
    for access in old.iter().filter(|access| access.writes) {
        let byte = |byte| Access { offset: access.offset.wrapping_add(byte), bytes: 1, ..*access };
        let kept = |byte: Access| new.iter().any(|other| overlaps(&byte, other));
        if !(0..i64::from(access.bytes)).map(byte).all(kept) {
            return Err("a store to shared memory before a call or a branch is left out");
        }
    }
    Ok(())
}

/// A byte is loaded as often as before, or not at all.
fn repeated_loads(old: &[Access], new: &[Access]) -> Result<(), &'static str> {
    for access in new.iter().filter(|access| !access.writes) {
        for byte in 0..i64::from(access.bytes) {
            let one = Access { offset: access.offset.wrapping_add(byte), bytes: 1, ..*access };
            let count = |accesses: &[Access]| accesses.iter().filter(|other| overlaps(&one, other)).count();
            if count(old) > count(new) {
                return Err("repeated loads of shared memory are joined");
            }
        }
    }
    Ok(())
}

/// Accesses keep their order, except that a load may move before a store.
fn ordered(old: &[Access], new: &[Access]) -> Result<(), &'static str> {
    let successor = |at: usize| {
        let access = &old[at];
        // The n-th of several equal accesses, or of several to the same bytes, corresponds to the n-th.
        let rank = old[..at].iter().filter(|other| *other == access).count();
        let mut same = new.iter().enumerate().filter(|(_, other)| *other == access).map(|(at, _)| at);
        let overlapping = new.iter().enumerate().filter(|(_, other)| overlaps(access, other)).map(|(at, _)| at);
        let times = old[..at].iter().filter(|other| overlaps(access, other)).count();
        same.nth(rank).or_else(|| overlapping.clone().nth(times).or_else(|| overlapping.clone().next()))
    };
    let successors: Vec<_> = (0..old.len()).map(successor).collect();
    for (later, place) in successors.iter().enumerate() {
        for (earlier, other) in successors[..later].iter().enumerate() {
            let may_swap = old[earlier].writes && !old[later].writes && !old[earlier].ordered && !old[later].ordered;
            if let (Some(place), Some(other)) = (place, other)
                && other > place
                && !may_swap
                && !overlaps(&old[earlier], &old[later])
            {
                return Err("accesses to shared memory change their order");
            }
        }
    }
    Ok(())
}
