//! Arenas: heaps that programs and user space share.
//!
//! ```text
//!   base .. base + bytes              the object's heaps, one after the other; global variables are in a heap's last pages
//!   base + bytes .. base + 2^bits     zeros that nobody may write, like 64 KiB before and after the 2^bits
//! ```
//!
//! The base is a multiple of 2^bits: 4 GiB, or more if the heaps have more. User space's address of a byte is `base | offset`,
//! which is also what a program stores. `addr_space_cast` to address space 0 gives the offset, as in the kernel, and each
//! access adds the base to the lower bits of its register ([`Access`] in the interpreter, `arena_place` in the JIT). Outside
//! the heaps a load finds zeros, so that loads need no check; a store that is not completely in the heaps is dropped, and such
//! an atomic operation does not change its registers. So no access can fault, and none leaves the object's heaps, but a wrong
//! pointer into one of them can be one into another: they belong to one extension.
//!
//! Every page of a heap exists, unlike in the kernel, where user space has to populate it. It takes memory once it is touched.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use kiln_isa::semantics::mask;
use kiln_isa::{AtomicOp, Insn, Reg, Size, Width};
use kiln_program::{FunctionId, InsnId, Node, Object};
use kiln_verifier::{Facts, Region, Value};

use crate::block::Block;
use crate::memory::Memory;
use crate::places::{Places, open, release, resident, show};

/// Bytes of an arena's page.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// The fewest bits that an offset has, as in the kernel.
const FEWEST_BITS: u32 = 32;
/// Bytes that all heaps of an object may have: 1 TiB.
const MOST_BYTES: u64 = 1 << 40;
/// Bytes before and after them that an instruction's own offset reaches, as in the kernel (`GUARD_SZ`).
const GUARD_BYTES: u64 = 64 << 10;

/// Where an object's heaps are.
pub(crate) use kiln_jit::Arena as Place;

/// The addresses of an object's heaps. Dropping it unmaps them.
#[derive(Debug)]
pub(crate) struct Reserved {
    reserved: NonNull<u8>,
    reserved_bytes: usize,
    /// The first heap's first byte.
    start: NonNull<u8>,
    place: Place,
}

// SAFETY: the reservation is owned by this value alone, and its accessible parts are `Block`s of `Arena`s.
unsafe impl Send for Reserved {}
// SAFETY: as above.
unsafe impl Sync for Reserved {}

impl Reserved {
    /// Reserves addresses for so many bytes, which is a multiple of pages.
    fn new(places: &mut Places, bytes: u64) -> io::Result<Reserved> {
        if bytes > MOST_BYTES || bytes == 0 {
            let why = format!("an object's heaps have 1 to {} pages", MOST_BYTES / PAGE_BYTES);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let bits = FEWEST_BITS.max(bytes.next_power_of_two().trailing_zeros());
        let seen_bytes = (1 << bits) + 2 * GUARD_BYTES;
        // So many that a multiple of 2^bits is among them.
        let reserved_bytes = (seen_bytes + (1 << bits)) as usize;
        let reserved = places.reserve(reserved_bytes)?;
        let first = reserved.as_ptr() as u64;
        let base = (first + GUARD_BYTES).next_multiple_of(1 << bits);
        // SAFETY: the offset is 64 KiB to 2^bits and 64 KiB, so what begins 64 KiB before it and has 2^bits and twice 64 KiB is
        // in the reservation.
        let [seen, start] = [base - GUARD_BYTES, base].map(|start| unsafe { reserved.add((start - first) as usize) });
        let region = Reserved { reserved, reserved_bytes, start, place: Place { base, bytes, bits } };
        show(seen, seen_bytes as usize)?;
        open(start, bytes as usize)?;
        Ok(region)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        release(self.reserved, self.reserved_bytes);
    }
}

/// What the arenas of an object have in common while they are made.
#[derive(Debug, Default)]
pub(crate) struct Heaps {
    /// The bytes of all of them.
    bytes: u64,
    region: Option<Arc<Reserved>>,
    /// Bytes of those that are made.
    made: u64,
}

impl Heaps {
    /// For arenas of so many pages each.
    pub(crate) fn new(pages: impl Iterator<Item = u32>) -> Heaps {
        let bytes = pages.fold(0u64, |bytes, pages| bytes.saturating_add(u64::from(pages) * PAGE_BYTES));
        Heaps { bytes, ..Heaps::default() }
    }
}

/// An arena's memory.
#[derive(Debug)]
pub(crate) struct Arena {
    region: Arc<Reserved>,
    /// The heap within it.
    heap: Block,
}

impl Arena {
    /// Makes the next of an object's arenas. None of its `pages` pages takes memory before it is touched.
    ///
    /// # Errors
    /// What the operating system reports; more than 1 TiB in all.
    pub(crate) fn new(places: &mut Places, heaps: &mut Heaps, pages: u32) -> io::Result<Arena> {
        let bytes = u64::from(pages) * PAGE_BYTES;
        let region = match &heaps.region {
            Some(region) => Arc::clone(region),
            None => Arc::clone(heaps.region.insert(Arc::new(Reserved::new(places, heaps.bytes)?))),
        };
        if bytes == 0 || heaps.made + bytes > heaps.bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an arena without pages"));
        }
        // SAFETY: the arena's bytes are among those of the region, as was just checked.
        let start = unsafe { region.start.add(heaps.made as usize) };
        heaps.made += bytes;
        // SAFETY: the range is open, belongs to this value, and stays mapped until its region is dropped.
        let heap = unsafe { Block::borrowed(start, bytes as usize) };
        Ok(Arena { region, heap })
    }

    /// Where the object's heaps are.
    pub(crate) fn place(&self) -> Place {
        self.region.place
    }

    /// The addresses of all of the object's heaps, of the first of them: an access may be in two of them.
    pub(crate) fn window(&self) -> Option<Range<u64>> {
        let Place { base, bytes, .. } = self.place();
        (self.heap.address() == base).then_some(base..base + bytes)
    }

    /// The addresses of the heap.
    pub(crate) fn addresses(&self) -> Range<u64> {
        self.heap.address()..self.heap.address() + self.heap.bytes() as u64
    }

    /// Where an object's arena variables begin: in the last pages, as libbpf has it.
    pub(crate) fn data_offset(&self, data_bytes: usize) -> u64 {
        (self.heap.bytes() as u64).saturating_sub((data_bytes as u64).next_multiple_of(PAGE_BYTES))
    }

    /// Sets the object's arena variables, as far as there is room.
    pub(crate) fn fill(&self, data: &[u8]) {
        let room = data.len().min(self.heap.bytes());
        self.heap.write(self.data_offset(data.len()) as usize, &data[..room]);
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
    pub(crate) fn of(place: Place, node: &Node, registers: &[u64; Reg::COUNT]) -> Option<Access> {
        let address = node.insn.address()?;
        let offset = (registers[address.base.index()] & place.mask()) as i64 + i64::from(address.offset);
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
        let by_bytes = || (0..size.bytes()).map(|byte| at(byte, Size::B1).unwrap_or(0) << (8 * byte)).sum();
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
    let low = value & place.mask();
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

/// Makes 64-bit arithmetic on pointers into the arena arithmetic of 32 bits, as the kernel does, unless offsets have more.
/// Marks of native operations that contain such an instruction are dropped: the operation is another one now.
pub(crate) fn narrow(object: &mut Object, place: Place, entry: FunctionId, facts: &Facts) {
    if place.bits > FEWEST_BITS {
        return;
    }
    let mut changed = HashSet::new();
    for id in object.reachable_functions(entry) {
        for node in &mut object.functions[id.index()].nodes {
            let Insn::Alu { op, width, dst, .. } = &mut node.insn else { continue };
            let known = facts.at(node.id).map(|known| &known.registers[dst.index()]);
            let in_arena = matches!(known, Some(Value::Pointer(pointer)) if is_arena(&pointer.region));
            if in_arena && *op != kiln_isa::AluOp::Mov {
                *width = Width::W32;
                changed.insert(node.id);
            }
        }
    }
    object.operations.retain(|mark| !mark.members.iter().any(|member| changed.contains(member)));
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
        self.arena.heap.address()
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.arena.heap.bytes()
    }

    /// Bytes of its pages that take memory: they were written. `None` if the operating system does not say.
    pub fn resident_bytes(&self) -> Option<u64> {
        resident(self.arena.addresses()).ok()
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

    fn arena(pages: u32) -> io::Result<Arena> {
        Arena::new(&mut Places::default(), &mut Heaps::new([pages].into_iter()), pages)
    }

    #[test]
    fn casts_and_accesses_are_as_in_the_kernel() {
        let arena = arena(16).expect("memory");
        let place = arena.place();
        assert_eq!((place.base % (1 << 32), place.bytes, place.bits), (0, 16 * PAGE_BYTES, 32));
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
    fn large_heaps_take_memory_where_they_are_touched() {
        for (pages, bits) in [(1 << 20, 32), ((1 << 20) + 1, 33), (1 << 24, 36), (1 << 28, 40)] {
            let whole = arena(pages).expect("addresses");
            let bytes = u64::from(pages) * PAGE_BYTES;
            assert_eq!((whole.place().bits, whole.place().base % (1 << bits)), (bits, 0));
            whole.fill(&[7; 5000]);
            assert_eq!(whole.heap.word64(bytes as usize - 8192).load(std::sync::atomic::Ordering::Relaxed) as u8, 7);
        }
        assert!(arena((1 << 28) + 1).is_err());
        assert!(arena(0).is_err());
    }

    #[test]
    fn a_heap_takes_the_pages_that_were_written() {
        let whole = arena(1 << 18).expect("addresses");
        let heap = Heap::of(&whole);
        assert_eq!((heap.load(8 << 20), heap.resident_bytes()), (Some(0), Some(0)));
        // Two pages of variables, and a word; more if the machine has no smaller pages.
        whole.fill(&[7; 5000]);
        heap.store(1 << 20, 1).expect("it is in the heap");
        let resident = heap.resident_bytes().expect("it is known");
        assert!((3 * PAGE_BYTES..=6 << 20).contains(&resident), "{resident}");
    }

    #[test]
    fn the_heaps_of_an_object_are_side_by_side() {
        let (mut places, mut heaps) = (Places::default(), Heaps::new([3, 1 << 20, 1].into_iter()));
        let arenas = [3, 1 << 20, 1].map(|pages| Arena::new(&mut places, &mut heaps, pages).expect("addresses"));
        let place = arenas[0].place();
        assert!(arenas.iter().all(|arena| arena.place() == place) && place.bits == 33);
        assert_eq!(arenas[0].addresses().end, arenas[1].addresses().start);
        assert_eq!(arenas[2].addresses().end, place.base + place.bytes);
        drop(arenas);
        assert!(Arena::new(&mut places, &mut heaps, 1).is_err(), "there is no room for more");
    }
}
