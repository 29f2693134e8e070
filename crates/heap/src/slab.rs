//! How the allocator's memory is divided (`bpf/include/kiln/malloc.h` has the picture): sizes, a slab's word, bits of rows, and where
//! all of it is in a heap.

use crate::Memory;
use crate::supply::{SLABS, START, TABLE};

/// Bytes of a slab; slabs of a region.
pub(crate) const SLAB_BYTES: usize = 1 << 14;
pub(crate) const REGION_SLABS: usize = 64;
/// Rows of bits: of free slabs, and of classes 1 to 56.
pub(crate) const ROWS: usize = 57;
/// The class of a run of slabs.
pub(crate) const RUN: usize = 57;

/// Bytes of a class's blocks, header included.
pub(crate) fn class_bytes(class: usize) -> usize {
    let doublings = class.saturating_sub(9) >> 3;
    (class - 8 * doublings) << (4 + doublings)
}

/// The class of blocks with `bytes` bytes, 1 or more, header included; from [`RUN`] on the run with so many more slabs than one.
pub(crate) fn class_of(bytes: usize) -> usize {
    if bytes > SLAB_BYTES / 2 {
        return RUN + (bytes - 1) / SLAB_BYTES;
    }
    let doublings = (usize::BITS - ((bytes - 1) >> 8).leading_zeros()) as usize;
    ((bytes - 1) >> (4 + doublings)) + 1 + 8 * doublings
}

/// A slab's word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub u64);

const ONE_FREE: u64 = 1 << 10;
const ONE_GIVEN: u64 = 1 << 21;
const ONE_CLASS: u64 = 1 << 32;
const ONE_CHANGE: u64 = 1 << 38;

impl Word {
    /// The place of the first free block, if there is one, in units of 16 bytes.
    pub fn first(self) -> usize {
        self.0 as usize & 0x3ff
    }

    /// Free blocks.
    pub fn frees(self) -> usize {
        (self.0 >> 10) as usize & 0x7ff
    }

    /// Blocks given out since it has this class, from its beginning on; slabs of a run.
    pub fn given(self) -> usize {
        (self.0 >> 21) as usize & 0x7ff
    }

    /// 0 for a free slab.
    pub fn class(self) -> usize {
        (self.0 >> 32) as usize & 63
    }

    /// Whether the slab has a free block of a class, which is not [`RUN`].
    pub fn serves(self, class: usize) -> bool {
        self.class() == class && (self.frees() > 0 || (self.given() + 1) * class_bytes(class) <= SLAB_BYTES)
    }

    /// The next word, of a slab without free blocks.
    pub fn begun(self, class: usize, given: usize) -> Word {
        let changes = (self.0 & ONE_CHANGE.wrapping_neg()).wrapping_add(ONE_CHANGE);
        Word(changes | class as u64 * ONE_CLASS | given as u64 * ONE_GIVEN)
    }

    /// The next word when the first free block, before the one at `next`, is taken.
    pub fn without_first(self, next: usize) -> Word {
        Word((self.0 - self.first() as u64 + (next as u64 & 0x3ff) - ONE_FREE).wrapping_add(ONE_CHANGE))
    }

    /// The next word when a block is given out that never was.
    pub fn given_one(self) -> Word {
        Word((self.0 + ONE_GIVEN).wrapping_add(ONE_CHANGE))
    }

    /// The next word when the block at a place is freed. When all are free, the slab is.
    pub fn with_free(self, place: usize) -> Word {
        if self.frees() + 1 < self.given() {
            Word((self.0 - self.first() as u64 + place as u64 + ONE_FREE).wrapping_add(ONE_CHANGE))
        } else {
            self.begun(0, 0)
        }
    }
}

/// The bits of `count` adjacent slabs from one on.
pub(crate) fn bits(slab: usize, count: usize) -> u64 {
    u64::MAX >> (REGION_SLABS - count) << (slab % REGION_SLABS)
}

/// Where the first `count` adjacent bits are set.
pub(crate) fn adjacent(mut bits: u64, mut count: usize) -> Option<usize> {
    while count > 1 {
        bits &= bits >> (count / 2);
        count -= count / 2;
    }
    (bits != 0).then(|| bits.trailing_zeros() as usize)
}

/// Where the slabs and the table of a heap are, as offsets. All of both is in the heap.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    table: usize,
    start: usize,
    /// How many slabs the table has room for.
    pub slabs: usize,
}

/// Bytes of the table of so many slabs, in whole pages.
pub(crate) fn table_bytes(slabs: usize) -> usize {
    (slabs.div_ceil(REGION_SLABS) * (REGION_SLABS + ROWS) * 8).next_multiple_of(4096)
}

impl Layout {
    /// The layout in an allocator's state; `None` before memory is supplied, and if it does not fit into the heap.
    pub fn of(heap: &dyn Memory, state: usize) -> Option<Layout> {
        let field = |at: usize| heap.load(state + at);
        let [start, table] = [heap.offset(field(START)?)?, heap.offset(field(TABLE)?)?];
        let slabs = usize::try_from(field(SLABS)?).ok()?;
        let fits = slabs <= (heap.bytes() - start) / SLAB_BYTES && table_bytes(slabs) <= heap.bytes() - table;
        (fits && start % 8 == 0 && table % 8 == 0).then_some(Layout { table, start, slabs })
    }

    /// Regions: words of a row.
    pub fn regions(&self) -> usize {
        self.slabs.div_ceil(REGION_SLABS)
    }

    /// The offset of a slab's word; `None` if there is no such slab.
    pub fn word(&self, slab: usize) -> Option<usize> {
        (slab < self.slabs).then(|| self.table + 8 * slab)
    }

    /// The offset of a region's word of a row.
    pub fn row(&self, row: usize, region: usize) -> usize {
        self.table + 8 * ((REGION_SLABS + row) * self.regions() + region)
    }

    /// The offset of the block at a place, in units of 16 bytes, of a slab.
    pub fn block(&self, slab: usize, place: usize) -> usize {
        self.start + slab * SLAB_BYTES + 16 * place
    }

    /// The slab that an offset is in, and how far behind its beginning.
    pub fn slab_of(&self, at: usize) -> Option<(usize, usize)> {
        let from = at.checked_sub(self.start)?;
        (from / SLAB_BYTES < self.slabs).then_some((from / SLAB_BYTES, from % SLAB_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_smallest_that_suffices() {
        for bytes in 1..=SLAB_BYTES / 2 {
            let class = class_of(bytes);
            assert!(class_bytes(class) >= bytes && class < RUN, "{bytes}");
            assert!(class == 1 || class_bytes(class - 1) < bytes, "{bytes}");
            assert!(class_bytes(class) % 16 == 0, "{bytes}");
        }
        for (bytes, class) in [(8193, RUN), (16384, RUN), (16385, RUN + 1), (1 << 20, RUN + 63)] {
            assert_eq!(class_of(bytes), class);
        }
    }

    #[test]
    fn adjacent_bits_are_the_first_ones() {
        for count in 1..=REGION_SLABS {
            for at in 0..=REGION_SLABS - count {
                let set = bits(at, count);
                assert_eq!((set.count_ones() as usize, adjacent(set, count)), (count, Some(at)));
                assert_eq!(adjacent(set & !(1 << at), count), None);
            }
        }
    }
}
