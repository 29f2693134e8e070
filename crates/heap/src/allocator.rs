//! `kiln_malloc` and `kiln_free` (`bpf/include/kiln/malloc.h`) for user space: the same slabs, used by programs at
//! the same time.
//!
//! ```text
//!   slab of this CPU's number -> another slab of the class -> a free slab -> memory never used -> slabs of other CPUs -> None
//! ```
//!
//! A program may write anything into the heap at any time. So each place is checked to be in the heap, and after [`TRIES`] exchanges
//! that fail an operation ends without success.

use crate::Memory;
use crate::slab::{self, Layout, REGION_SLABS, RUN, SLAB_BYTES, Word, class_bytes, class_of};
use crate::supply::{
    self, ALLOCATED, BAD_FREES, CPU, CPU_BYTES, CPUS, FAILURES, FREED, FRESH, LIMIT, PREFERRED, ROW, START,
};

/// The block's `state` while it is allocated and while it is free, plus its class.
const IS_ALLOCATED: u32 = 0x6b69_6c00;
const IS_FREE: u32 = 0x6672_6500;
/// A block's header.
const HEADER_BYTES: usize = 8;
/// How often an exchange is tried.
const TRIES: usize = 1 << 20;
/// The most bytes of an allocation.
pub const MOST_BYTES: usize = REGION_SLABS * SLAB_BYTES - HEADER_BYTES;

/// The allocator of a heap.
#[derive(Clone, Copy)]
pub struct Allocator<'h> {
    heap: &'h (dyn Memory + Sync + 'h),
    state: usize,
    layout: Layout,
    /// The number of the CPU whose slabs are tried first. Any will do.
    cpu: usize,
    cpus: usize,
}

/// An allocated block.
struct Block {
    /// Where it begins, and its header.
    at: usize,
    header: u64,
    slab: usize,
    /// The slab's word, and the place of the block there.
    word: Word,
    place: usize,
    /// Header included.
    bytes: usize,
}

impl<'h> Allocator<'h> {
    /// The allocator of a heap; `None` if it has none, or no memory yet.
    pub fn of(heap: &'h (dyn Memory + Sync + 'h), cpu: usize) -> Option<Allocator<'h>> {
        let state = supply::state(heap)?;
        let layout = Layout::of(heap, state)?;
        let cpus =
            usize::try_from(heap.load(state + CPUS)?).ok().filter(|cpus| (1..=supply::MOST_CPUS).contains(cpus))?;
        Some(Allocator { heap, state, layout, cpu: cpu % cpus, cpus })
    }

    /// Replaces a word by what `next` makes of it, and returns what it was. `None` as soon as `next` says so.
    fn update(&self, at: usize, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut word = self.heap.load(at)?;
        for _ in 0..TRIES {
            let seen = self.heap.compare_exchange(at, word, next(word)?)?;
            if seen == word {
                return Some(word);
            }
            word = seen;
        }
        None
    }

    fn add(&self, at: usize, more: u64) -> Option<u64> {
        self.update(at, |word| Some(word.wrapping_add(more)))
    }

    /// The word that says which slab a CPU tries first.
    fn preferred(&self, cpu: usize, class: usize) -> usize {
        self.state + CPU + cpu * CPU_BYTES + PREFERRED + 8 * class
    }

    fn account(&self, at: usize, more: usize) -> Option<u64> {
        self.add(self.state + CPU + self.cpu * CPU_BYTES + at, more as u64)
    }

    /// Takes a free block of a slab: its offset. `None` if it has none, or is of another class.
    fn take(&self, slab: usize, class: usize) -> Option<usize> {
        let word = self.update(self.layout.word(slab)?, |word| {
            let word = Word(word);
            let first = || self.heap.load(self.layout.block(slab, word.first()));
            let next = match word.frees() {
                _ if !word.serves(class) => return None,
                0 => word.given_one(),
                _ => word.without_first((first()? >> 32) as usize),
            };
            Some(next.0)
        })?;
        let word = Word(word);
        let place = if word.frees() > 0 { word.first() } else { word.given() * class_bytes(class) / 16 };
        Some(self.layout.block(slab, place))
    }

    /// Sets the bits of `count` adjacent slabs in a row: they are free from now on, or others may look for a free block there.
    fn give(&self, row: usize, slab: usize, count: usize) -> Option<()> {
        let mask = slab::bits(slab, count);
        self.update(self.layout.row(row, slab / REGION_SLABS), |bits| (bits & mask == 0).then_some(bits | mask));
        self.mark(row)
    }

    /// Says that a row may have bits.
    fn mark(&self, row: usize) -> Option<()> {
        let at = self.state + ROW + 8 * row;
        if self.heap.load(at)? == 0 { self.heap.store(at, 1) } else { Some(()) }
    }

    /// Clears `count` adjacent bits of a region's word of a row. Returns the first slab.
    fn claim_in(&self, row: usize, count: usize, region: usize) -> Option<usize> {
        let bits = self.update(self.layout.row(row, region), |bits| {
            slab::adjacent(bits, count).map(|at| bits & !slab::bits(at, count))
        })?;
        Some(region * REGION_SLABS + slab::adjacent(bits, count)?)
    }

    /// Clears `count` adjacent bits of a row, beginning to look in a slab's region, and for a class those of slabs that do not serve it
    /// any more. Returns the first slab.
    fn claim(&self, row: usize, count: usize, near: usize) -> Option<usize> {
        let regions = self.layout.regions();
        let has_bits = self.state + ROW + 8 * row;
        if self.heap.load(has_bits)? == 0 {
            return None;
        }
        let serves = |slab: &usize| row == 0 || self.serves(*slab, row);
        let found = (0..regions).find_map(|step| {
            let region = (near / REGION_SLABS % regions + step) % regions;
            // As often as there are bits.
            (0..REGION_SLABS).map_while(|_| self.claim_in(row, count, region)).find(serves)
        });
        // Fewer slabs behind one another may be there.
        if found.is_none() && count == 1 {
            self.heap.store(has_bits, 0)?;
        }
        found
    }

    /// Takes `count` adjacent slabs that were never used. Returns the first. If they are more than are left of a region, these become
    /// free slabs.
    fn fresh(&self, count: usize) -> Option<usize> {
        let start = self.heap.load(self.state + START)?;
        let limit = self.heap.load(self.state + LIMIT)?;
        let slab_of = |at: u64| usize::try_from(at.checked_sub(start)?).ok().map(|from| from / SLAB_BYTES);
        let taken = |slab: usize| count.min(REGION_SLABS - slab % REGION_SLABS);
        for _ in 0..TRIES {
            let at = self.update(self.state + FRESH, |at| {
                let fits =
                    at.checked_add((count * SLAB_BYTES) as u64)? <= limit && slab_of(at)? + count <= self.layout.slabs;
                fits.then_some(at + (taken(slab_of(at)?) * SLAB_BYTES) as u64)
            })?;
            let slab = slab_of(at)?;
            if taken(slab) == count {
                return Some(slab);
            }
            self.give(0, slab, taken(slab))?;
        }
        None
    }

    /// Makes slabs that nobody else has a run, a slab of which the first block is taken, or (class 0) free. Returns the first block.
    fn begin(&self, slab: usize, class: usize, given: usize) -> Option<usize> {
        let at = self.layout.word(slab)?;
        self.heap.store(at, Word(self.heap.load(at)?).begun(class, given).0)?;
        Some(self.layout.block(slab, 0))
    }

    /// `count` adjacent free slabs.
    fn slabs(&self, count: usize, near: usize) -> Option<usize> {
        self.claim(0, count, near).or_else(|| self.fresh(count))
    }

    /// Whether there is such a slab, and it has a free block of a class.
    fn serves(&self, slab: usize, class: usize) -> bool {
        let word = self.layout.word(slab).and_then(|at| self.heap.load(at));
        word.is_some_and(|word| Word(word).serves(class))
    }

    /// Makes a slab with free blocks the one that this CPU tries first, if it has none in the one before. Tells others of the one of both
    /// that they should see.
    fn prefer(&self, class: usize, slab: usize) -> Option<()> {
        let preferred = self.preferred(self.cpu, class);
        let before = self.heap.load(preferred)? as usize;
        if before != slab && self.serves(before, class) {
            return self.give(class, slab, 1);
        }
        let before = self.update(preferred, |_| Some(slab as u64))? as usize;
        if before != slab && self.serves(before, class) { self.give(class, before, 1) } else { Some(()) }
    }

    /// A free block of a slab that another CPU tries first.
    fn steal(&self, class: usize) -> Option<usize> {
        let preferred = |cpu: usize| Some(self.heap.load(self.preferred(cpu, class))? as usize);
        (0..self.cpus).find_map(|cpu| self.take(preferred(cpu)?, class))
    }

    /// A free block of any slab but the one that this CPU has tried.
    fn find(&self, class: usize) -> Option<usize> {
        let near = self.heap.load(self.preferred(self.cpu, class))? as usize;
        let seen = self.claim(class, 1, near).and_then(|slab| Some((slab, self.take(slab, class)?)));
        let Some((slab, block)) = seen.or_else(|| {
            let slab = self.slabs(1, near)?;
            Some((slab, self.begin(slab, class, 1)?))
        }) else {
            return self.steal(class);
        };
        if self.serves(slab, class) {
            self.prefer(class, slab)?;
        }
        Some(block)
    }

    /// A run of slabs.
    fn run(&self, count: usize) -> Option<usize> {
        let last = self.preferred(self.cpu, 0);
        let slab = self.slabs(count, self.heap.load(last)? as usize)?;
        self.heap.store(last, slab as u64)?;
        self.begin(slab, RUN, count)
    }

    /// Allocates memory, aligned to 8 bytes and not cleared: its offset. `None` if there is none, or above [`MOST_BYTES`].
    pub fn allocate(&self, bytes: usize) -> Option<usize> {
        let class = if bytes <= MOST_BYTES { class_of(bytes + HEADER_BYTES) } else { RUN + REGION_SLABS };
        let (block, bytes) = match (class + 1).checked_sub(RUN) {
            None | Some(0) => {
                let preferred = self.heap.load(self.preferred(self.cpu, class))? as usize;
                (self.take(preferred, class).or_else(|| self.find(class)), class_bytes(class))
            }
            Some(count @ ..=REGION_SLABS) => (self.run(count), count * SLAB_BYTES),
            Some(_) => (None, 0),
        };
        let Some(block) = block else {
            // Next time all is looked at: a bit that was set while a look ended may not be known.
            self.mark(0)?;
            self.mark(if class < RUN { class } else { 0 })?;
            self.account(FAILURES, 1)?;
            return None;
        };
        self.heap.store(block, u64::from(IS_ALLOCATED | class.min(RUN) as u32))?;
        self.account(ALLOCATED, bytes)?;
        Some(block + HEADER_BYTES)
    }

    /// The allocated blocks in slabs that would serve an allocation of `bytes` bytes if all of them were freed; empty if there are none.
    /// `number` chooses the slabs: numbers that follow one another lead through the whole heap, over and over.
    pub fn in_the_way(&self, bytes: usize, number: usize) -> Vec<usize> {
        let count = (class_of(bytes.min(MOST_BYTES) + HEADER_BYTES) + 1).saturating_sub(RUN).max(1);
        let in_region = REGION_SLABS / count;
        let number = number % (in_region * self.layout.regions()).max(1);
        let first = number / in_region * REGION_SLABS + number % in_region * count;
        if first + count > self.layout.slabs {
            return Vec::new();
        }
        let slabs = self.run_over(first).into_iter().chain(first..first + count);
        slabs.flat_map(|slab| self.allocated_in(slab)).collect()
    }

    fn slab_word(&self, slab: usize) -> Option<Word> {
        Some(Word(self.heap.load(self.layout.word(slab)?)?))
    }

    /// The first slab of a run that begins before a slab and reaches it.
    fn run_over(&self, slab: usize) -> Option<usize> {
        let before = (slab - slab % REGION_SLABS..slab).rev();
        let begins = |slab: &usize| self.slab_word(*slab).is_some_and(|word| word.class() != 0);
        let found = before.take_while(|at| *at < self.layout.slabs).find(begins)?;
        let word = self.slab_word(found)?;
        (word.class() == RUN && found + word.given() > slab).then_some(found)
    }

    /// The memory of the allocated blocks that begin in a slab.
    fn allocated_in(&self, slab: usize) -> Vec<usize> {
        let Some(word) = self.slab_word(slab).filter(|word| word.class() != 0) else { return Vec::new() };
        let (step, given) = if word.class() == RUN { (0, 1) } else { (class_bytes(word.class()), word.given()) };
        let places = (0..given).map(|at| at * step).take_while(|from| *from < SLAB_BYTES);
        let memory = places.map(|from| self.layout.block(slab, from / 16) + HEADER_BYTES);
        memory.filter(|memory| self.look(*memory).is_some()).collect()
    }

    /// An allocated block by its memory.
    fn look(&self, memory: usize) -> Option<Block> {
        let at = memory.checked_sub(HEADER_BYTES).filter(|at| at % 8 == 0)?;
        let (slab, from) = self.layout.slab_of(at)?;
        let word = Word(self.heap.load(self.layout.word(slab)?)?);
        let (class, header) = (word.class(), self.heap.load(at)?);
        let bytes = if class == RUN { word.given() * SLAB_BYTES } else { class_bytes(class) };
        let given = if class == RUN { from == 0 } else { from < word.given() * bytes };
        let is_block = bytes != 0 && header as u32 == IS_ALLOCATED | class as u32 && given && from % bytes == 0;
        let fresh = self.heap.load(self.state + FRESH)?;
        (is_block && self.heap.address() + (at as u64) < fresh).then_some(Block {
            at,
            header,
            slab,
            word,
            place: from / 16,
            bytes,
        })
    }

    /// Frees what [`Allocator::allocate`] or a program's `kiln_malloc` gave; whether it was allocated.
    pub fn free(&self, memory: usize) -> bool {
        let block = self.look(memory).filter(|block| {
            let free = u64::from(IS_FREE | block.word.class() as u32);
            self.heap.compare_exchange(block.at, block.header, free) == Some(block.header)
        });
        let counted = match &block {
            Some(block) => self.put(block),
            None => self.add(self.state + BAD_FREES, 1).map(drop),
        };
        block.is_some() && counted.is_some()
    }

    /// Puts a block that is marked as free into its slab.
    fn put(&self, block: &Block) -> Option<()> {
        let class = block.word.class();
        self.account(FREED, block.bytes)?;
        if class == RUN {
            self.begin(block.slab, 0, 0)?;
            return self.give(0, block.slab, block.word.given().min(REGION_SLABS - block.slab % REGION_SLABS));
        }
        let word = self.update(self.layout.word(block.slab)?, |word| {
            let header = (Word(word).first() as u64) << 32 | u64::from(IS_FREE | class as u32);
            self.heap.store(block.at, header)?;
            Some(Word(word).with_free(block.place).0)
        })?;
        let word = Word(word);
        if word.with_free(block.place).class() == 0 {
            self.give(0, block.slab, 1)
        } else if !word.serves(class) {
            self.prefer(class, block.slab)
        } else {
            Some(())
        }
    }
}
