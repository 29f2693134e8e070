//! Arenas: heaps of up to 4 GiB that programs and user space share.
//!
//! ```text
//!   base .. base + bytes              the heap; global variables of the object are in its last pages
//!   base + bytes .. base + 4 GiB      zeros that nobody may write, like 64 KiB before and after the 4 GiB
//! ```
//!
//! The base is a multiple of 4 GiB. User space's address of a byte is `base | offset`, which is also what a program
//! stores. `addr_space_cast` to address space 0 gives the offset, as in the kernel, and each access adds the base to
//! the lower 32 bits of its register ([`Access`] in the interpreter, `arena_place` in the JIT). Outside the heap a load
//! finds zeros, so that loads need no check; a store that is not completely in the heap is dropped, and such an atomic
//! operation does not change its registers. Every page of the heap exists, unlike in the kernel, where user space has to
//! populate it.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use kiln_isa::semantics::mask;
use kiln_isa::{AtomicOp, Insn, Reg, Size, Width};
use kiln_program::{FunctionId, InsnId, Node, Object};
use kiln_verifier::{Facts, Region, Value};

use crate::block::Block;
use crate::memory::Memory;
use crate::places::{Places, open, release, show};

/// Bytes of an arena's page.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Bytes that 32 bits reach.
const REACH_BYTES: u64 = 1 << 32;
/// Bytes before and after them that an instruction's own offset reaches, as in the kernel (`GUARD_SZ`).
const GUARD_BYTES: u64 = 64 << 10;
/// Bytes to reserve, so that a multiple of 4 GiB is among them.
const RESERVED_BYTES: usize = (2 * REACH_BYTES + 2 * GUARD_BYTES) as usize;

/// Where an arena's heap is.
pub(crate) use kiln_jit::Arena as Place;

/// An arena's memory. Dropping it unmaps it.
#[derive(Debug)]
pub(crate) struct Arena {
    reserved: NonNull<u8>,
    /// The heap within `reserved`.
    heap: Block,
}

// SAFETY: the reservation is owned by this value alone, and its accessible part is a `Block`.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves an arena of `pages` pages, none of which takes memory before it is touched.
    ///
    /// # Errors
    /// What the operating system reports; more than 4 GiB.
    pub(crate) fn new(places: &mut Places, pages: u32) -> io::Result<Arena> {
        let bytes = u64::from(pages) * PAGE_BYTES;
        if bytes > REACH_BYTES || bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an arena has 1 to 1048576 pages"));
        }
        let reserved = places.reserve(RESERVED_BYTES)?;
        let first = reserved.as_ptr() as u64;
        let base = (first + GUARD_BYTES).next_multiple_of(REACH_BYTES);
        // SAFETY: the offset is 64 KiB to 4 GiB and 64 KiB, so what begins 64 KiB before it and has 4 GiB and twice 64 KiB is
        // in the reservation.
        let [seen, heap] = [base - GUARD_BYTES, base].map(|start| unsafe { reserved.add((start - first) as usize) });
        let shown = show(seen, (REACH_BYTES + 2 * GUARD_BYTES) as usize);
        if let Err(error) = shown.and_then(|()| open(heap, bytes as usize)) {
            release(reserved, RESERVED_BYTES);
            return Err(error);
        }
        // SAFETY: the range was just opened, belongs to this value, and stays mapped until it is dropped.
        let heap = unsafe { Block::borrowed(heap, bytes as usize) };
        Ok(Arena { reserved, heap })
    }

    /// Where the heap is.
    pub(crate) fn place(&self) -> Place {
        Place { base: self.heap.address(), bytes: self.heap.bytes() as u64 }
    }

    /// The addresses of the heap.
    pub(crate) fn addresses(&self) -> Range<u64> {
        let Place { base, bytes } = self.place();
        base..base + bytes
    }

    /// Where an object's arena variables begin: in the last pages, as libbpf has it.
    pub(crate) fn data_offset(&self, data_bytes: usize) -> u64 {
        self.place().bytes.saturating_sub((data_bytes as u64).next_multiple_of(PAGE_BYTES))
    }

    /// Sets the object's arena variables, as far as there is room.
    pub(crate) fn fill(&self, data: &[u8]) {
        let room = data.len().min(self.heap.bytes());
        self.heap.write(self.data_offset(data.len()) as usize, &data[..room]);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        release(self.reserved, RESERVED_BYTES);
    }
}

/// An access to the arena, in the interpreter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// The offset from the base; negative or too large outside of the heap.
    offset: i64,
    /// What an atomic operation outside of the heap leaves in its register.
    pub(crate) unchanged: u64,
}

impl Access {
    /// The access that a node makes, if it makes one.
    pub(crate) fn of(node: &Node, registers: &[u64; Reg::COUNT]) -> Option<Access> {
        let address = node.insn.address()?;
        let offset = (registers[address.base.index()] & 0xffff_ffff) as i64 + i64::from(address.offset);
        let unchanged = match node.insn {
            Insn::Atomic { op: AtomicOp::CompareExchange, size, .. } => registers[0] & mask(size.bits()),
            Insn::Atomic { size, src, .. } => registers[src.index()] & mask(size.bits()),
            _ => 0,
        };
        Some(Access { offset, unchanged })
    }

    /// What a load gives: bytes outside the heap are 0.
    pub(crate) fn load(&self, place: Place, size: Size, memory: &Memory) -> u64 {
        let at = |byte: u32, size: Size| {
            let access = Access { offset: self.offset + i64::from(byte), ..*self };
            memory.load(access.address(place, size)?, size)
        };
        let by_bytes = || (0..u32::from(size.bytes())).map(|byte| at(byte, Size::B1).unwrap_or(0) << (8 * byte)).sum();
        at(0, size).unwrap_or_else(by_bytes)
    }

    /// Its address, where all of it is in the heap.
    pub(crate) fn address(&self, place: Place, size: Size) -> Option<u64> {
        let offset = u64::try_from(self.offset).ok()?;
        (offset.checked_add(u64::from(size.bytes()))? <= place.bytes).then(|| place.base + offset)
    }
}

/// The result of `addr_space_cast`: an offset in address space 0, or an address in user space's; null stays null.
pub(crate) fn cast(place: Place, value: u64, to: u16) -> u64 {
    let low = value & 0xffff_ffff;
    if to == 0 || low == 0 { low } else { place.base | low }
}

/// Which instructions access the arena, and which access other memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    arena: HashSet<InsnId>,
    other: HashSet<InsnId>,
}

impl Accesses {
    pub(crate) fn contains(&self, insn: InsnId) -> bool {
        self.arena.contains(&insn)
    }

    /// Adds the accesses of a program; the instruction that is an arena access in one program of the object and another
    /// access in another one, if there is such.
    pub(crate) fn add(&mut self, object: &Object, entry: FunctionId, facts: &Facts) -> Result<(), InsnId> {
        for id in object.reachable_functions(entry) {
            let accesses = object.function(id).nodes.iter().filter(|node| node.insn.address().is_some());
            for node in accesses.filter(|node| facts.at(node.id).is_some()) {
                let (own, contrary) = match facts.in_arena(node.id) {
                    true => (&mut self.arena, &self.other),
                    false => (&mut self.other, &self.arena),
                };
                if contrary.contains(&node.id) {
                    return Err(node.id);
                }
                own.insert(node.id);
            }
        }
        Ok(())
    }
}

/// Makes 64-bit arithmetic on pointers into the arena arithmetic of 32 bits, as the kernel does.
pub(crate) fn narrow(object: &mut Object, entry: FunctionId, facts: &Facts) {
    for id in object.reachable_functions(entry) {
        for node in &mut object.functions[id.index()].nodes {
            let Insn::Alu { op, width, dst, .. } = &mut node.insn else { continue };
            let known = facts.at(node.id).map(|known| &known.registers[dst.index()]);
            let in_arena = matches!(known, Some(Value::Pointer(pointer)) if is_arena(&pointer.region));
            if in_arena && *op != kiln_isa::AluOp::Mov {
                *width = Width::W32;
            }
        }
    }
}

/// Whether a region is the program's arena.
pub(crate) fn is_arena(region: &Region) -> bool {
    matches!(region, Region::Other(name) if name == "arena")
}

/// An arena as user space sees it, while programs may change it.
#[derive(Clone, Copy, Debug)]
pub struct Heap<'v> {
    arena: &'v Arena,
}

impl<'v> Heap<'v> {
    /// The heap of an arena.
    pub(crate) fn of(arena: &'v Arena) -> Heap<'v> {
        Heap { arena }
    }

    /// The address of its first byte: a pointer that a program stored is this plus an offset.
    pub fn address(&self) -> u64 {
        self.arena.place().base
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.arena.heap.bytes()
    }

    /// The eight bytes at an offset, a multiple of 8; `None` outside of the heap.
    pub fn load(&self, offset: usize) -> Option<u64> {
        self.inside(offset)?;
        Some(self.arena.heap.word64(offset).load(std::sync::atomic::Ordering::Acquire))
    }

    /// Sets the eight bytes at an offset, a multiple of 8; `None` outside of the heap.
    pub fn store(&self, offset: usize, value: u64) -> Option<()> {
        self.inside(offset)?;
        self.arena.heap.word64(offset).store(value, std::sync::atomic::Ordering::Release);
        Some(())
    }

    /// Replaces the eight bytes at an offset, a multiple of 8, if they are `expected`; gives what was there.
    pub fn compare_exchange(&self, offset: usize, expected: u64, new: u64) -> Option<u64> {
        use std::sync::atomic::Ordering::SeqCst;
        self.inside(offset)?;
        let word = self.arena.heap.word64(offset);
        Some(word.compare_exchange(expected, new, SeqCst, SeqCst).unwrap_or_else(|old| old))
    }

    fn inside(&self, offset: usize) -> Option<()> {
        (offset % 8 == 0 && offset.checked_add(8)? <= self.bytes()).then_some(())
    }

    /// Where the object's arena variables begin.
    pub fn variables(&self, bytes: usize) -> usize {
        self.arena.data_offset(bytes) as usize
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn casts_and_accesses_are_as_in_the_kernel() {
        let arena = Arena::new(&mut Places::default(), 16).expect("memory");
        let place = arena.place();
        assert_eq!((place.base % REACH_BYTES, place.bytes), (0, 16 * PAGE_BYTES));
        assert_eq!(cast(place, place.base + 24, 0), 24);
        assert_eq!((cast(place, 24, 1), cast(place, 0, 1)), (place.base + 24, 0));
        let at = |offset| Access { offset, unchanged: 0 }.address(place, Size::B8);
        assert_eq!(at(0), Some(place.base));
        assert_eq!(at(place.bytes as i64 - 8), Some(place.base + place.bytes - 8));
        for outside in [-1, -32768, place.bytes as i64 - 7, place.bytes as i64, (1 << 32) + 32767, i64::MAX] {
            assert_eq!(at(outside), None, "{outside}");
        }
    }

    #[test]
    fn the_heap_has_at_most_4_gib() {
        let mut places = Places::default();
        let whole = Arena::new(&mut places, 1 << 20).expect("addresses");
        whole.fill(&[7; 5000]);
        assert_eq!(whole.heap.word64(REACH_BYTES as usize - 8192).load(std::sync::atomic::Ordering::Relaxed) as u8, 7);
        assert!(Arena::new(&mut places, (1 << 20) + 1).is_err());
        assert!(Arena::new(&mut places, 0).is_err());
    }
}
