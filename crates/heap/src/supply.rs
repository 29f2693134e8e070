//! The user-space side of `kiln/malloc.h`: gives the allocator memory, and reads its accounts.
//!
//! A program that may not sleep cannot allocate pages. So user space populates part of the heap, and writes its range
//! into the allocator's state, `struct kiln_heap_state` in the heap's first or last pages. A thread that calls
//! [`supply`] regularly keeps `bytes` bytes available.

use std::ops::Range;

pub use crate::Memory;
use crate::slab::{Layout, REGION_SLABS, ROWS, RUN, SLAB_BYTES, Word, class_bytes, table_bytes};

/// The first word of the allocator's state, `KILN_HEAP_MAGIC`.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"KILNHP02");
const PAGE_BYTES: usize = 4096;
/// The state begins within this many pages of either end of the heap: libbpf puts arena variables at the end if the kernel's
/// `ld_imm64` takes such offsets, else at the beginning.
const STATE_PAGES: usize = 256;
/// Offsets in `struct kiln_heap_state`.
pub(crate) const START: usize = 8;
pub(crate) const FRESH: usize = 16;
pub(crate) const LIMIT: usize = 24;
pub(crate) const BAD_FREES: usize = 32;
pub(crate) const CPUS: usize = 40;
pub(crate) const TABLE: usize = 48;
pub(crate) const SLABS: usize = 56;
pub(crate) const ROW: usize = 64;
pub(crate) const CPU: usize = ROW + 8 * ROWS;
/// CPUs at most, `KILN_CPUS`.
pub(crate) const MOST_CPUS: usize = 128;
/// Offsets in `struct kiln_heap_cpu`, and its size.
pub(crate) const ALLOCATED: usize = 0;
pub(crate) const FREED: usize = 8;
pub(crate) const FAILURES: usize = 16;
pub(crate) const PREFERRED: usize = 24;
pub(crate) const CPU_BYTES: usize = PREFERRED + 8 * ROWS;

/// What `kiln run` supplies.
pub const SUPPLY_BYTES: usize = 16 << 20;

/// Why a heap gets no memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoMemory {
    /// Variables take all of the heap.
    Full,
    /// The allocator's state is not that of this heap.
    Damaged(String),
    /// A system call failed.
    Os {
        /// The call and its object.
        call: String,
        /// `errno`.
        errno: i32,
    },
}

/// What the allocator has given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Accounts {
    /// The address of the first slab; 0 before memory is supplied.
    pub start: u64,
    /// Bytes that user space has supplied.
    pub supplied_bytes: u64,
    /// Bytes of them that were never used.
    pub fresh_bytes: u64,
    /// Bytes in allocated blocks, headers of 8 bytes included.
    pub allocated_bytes: u64,
    /// Allocations that returned NULL.
    pub failures: u64,
    /// Frees of addresses that were not allocated.
    pub bad_frees: u64,
}

/// Returns the offset of the allocator's state; `None` in a heap without an allocator.
pub fn state(heap: &dyn Memory) -> Option<usize> {
    variable(heap, MAGIC)
}

/// Returns the offset of a variable of the heap that begins a page, by its first word.
pub fn variable(heap: &dyn Memory, first: u64) -> Option<usize> {
    let pages = heap.bytes() / PAGE_BYTES;
    let from_the_end = (1..=STATE_PAGES.min(pages)).map(|back| pages - back);
    let mut places = from_the_end.chain(0..STATE_PAGES.min(pages)).map(|page| page * PAGE_BYTES);
    places.find(|offset| heap.load(*offset) == Some(first))
}

/// The memory that blocks may take, as offsets: what is beside the variables, without the heap's first byte, which is the null
/// pointer's.
fn room(heap: &dyn Memory, state: usize, variable_bytes: usize) -> Option<Range<usize>> {
    let variables = variable_bytes.checked_next_multiple_of(PAGE_BYTES)?;
    let end = heap.bytes().checked_sub(variables)?;
    let room = if state < variables { variables..heap.bytes() } else { PAGE_BYTES..end };
    (room.start <= room.end).then_some(room)
}

/// Makes `bytes` never used bytes available, in whole slabs of 16 KiB, or as many as the heap has; whether there is an allocator.
/// `variable_bytes` is the size of the object's arena variables ([`variable_bytes`]), which a loader puts at either end of the heap.
/// Only one thread may supply a heap at a time.
///
/// The first time, the beginning of the room beside the variables becomes the allocator's table, and the rest slabs.
///
/// # Errors
/// Returns what [`Memory::populate`] returns, and an error if the allocator's state is not that of this heap.
pub fn supply(heap: &dyn Memory, variable_bytes: usize, bytes: usize) -> Result<bool, NoMemory> {
    let Some(state) = state(heap) else { return Ok(false) };
    let Some(room) = room(heap, state, variable_bytes) else { return Err(NoMemory::Full) };
    let field = |at: usize| heap.load(state + at).unwrap_or(0);
    let table = table_bytes(room.len() / SLAB_BYTES).min(room.len());
    let slabs = (room.len() - table) / SLAB_BYTES;
    let first = room.start + table;
    let [start, end] = [first, first + slabs * SLAB_BYTES].map(|offset| heap.address() + offset as u64);
    if field(START) == 0 {
        heap.populate(room.start, table)?;
        let table_address = heap.address() + room.start as u64;
        // The start is last: programs allocate when it is there.
        for (at, value) in
            [(TABLE, table_address), (SLABS, slabs as u64), (FRESH, start), (LIMIT, start), (START, start)]
        {
            heap.store(state + at, value);
        }
    }
    let (fresh, limit) = (field(FRESH), field(LIMIT));
    if field(START) != start || fresh < start || limit < fresh || limit > end {
        return Err(NoMemory::Damaged(format!(
            "the allocator's memory {start:#x} <= {fresh:#x} <= {limit:#x} <= {end:#x} is out of order"
        )));
    }
    let slab_bytes = bytes.checked_next_multiple_of(SLAB_BYTES).unwrap_or(usize::MAX);
    let wanted = fresh.saturating_add(slab_bytes as u64).min(end);
    if wanted > limit {
        heap.populate((limit - heap.address()) as usize, (wanted - limit) as usize)?;
    }
    heap.store(state + LIMIT, wanted.max(limit));
    Ok(true)
}

/// Returns the size of the variables that an object keeps in a heap.
pub fn variable_bytes(heap: &kiln_program::Map) -> usize {
    match &heap.contents {
        kiln_program::MapContents::Data(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Whether an object has an allocator in a heap. Looking for it in the heap itself would take pages that programs may want.
pub fn has_allocator(heap: &kiln_program::Map) -> bool {
    match &heap.contents {
        kiln_program::MapContents::Data(bytes) => {
            bytes.chunks(PAGE_BYTES).any(|page| page.first_chunk() == Some(&MAGIC.to_le_bytes()))
        }
        _ => false,
    }
}

/// Returns the bytes of used slabs that are not allocated, while no program runs; `None` in a heap without an allocator, or whose
/// table is damaged. What was used and is neither free nor allocated ([`accounts`]) was lost by cancelled runs.
pub fn free_bytes(heap: &dyn Memory) -> Option<u64> {
    let state = state(heap)?;
    let layout = Layout::of(heap, state)?;
    let fresh = heap.offset(heap.load(state + FRESH)?).unwrap_or(heap.bytes());
    let used = layout.slab_of(fresh).map_or(layout.slabs, |(slab, _)| slab);
    let (mut bytes, mut slab) = (0, 0);
    while slab < used {
        let word = Word(heap.load(layout.word(slab)?)?);
        let bits = heap.load(layout.row(0, slab / REGION_SLABS))?;
        let blocks = word.given().checked_sub(word.frees())? * class_bytes(word.class());
        bytes += match word.class() {
            0 => (bits >> (slab % REGION_SLABS) & 1) as usize * SLAB_BYTES,
            RUN => 0,
            _ => SLAB_BYTES.checked_sub(blocks)?,
        };
        slab += if word.class() == RUN { word.given().max(1) } else { 1 };
    }
    Some(bytes as u64)
}

/// Returns what the allocator has given out; `None` in a heap without an allocator. Programs may change it meanwhile.
pub fn accounts(heap: &dyn Memory) -> Option<Accounts> {
    let state = state(heap)?;
    let field = |at: usize| heap.load(state + at).unwrap_or(0);
    let all = |at: usize| {
        let cpus = 0..field(CPUS).min(MOST_CPUS as u64) as usize;
        cpus.fold(0u64, |sum, cpu| sum.wrapping_add(field(CPU + cpu * CPU_BYTES + at)))
    };
    Some(Accounts {
        start: field(START),
        supplied_bytes: field(LIMIT).wrapping_sub(field(START)),
        fresh_bytes: field(LIMIT).wrapping_sub(field(FRESH)),
        allocated_bytes: all(ALLOCATED).wrapping_sub(all(FREED)),
        failures: all(FAILURES),
        bad_frees: field(BAD_FREES),
    })
}
