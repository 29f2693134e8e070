//! All the memory a running program may touch, in regions with known bounds.
//!
//! A program holds plain 64-bit addresses: of its stack, its context, the packet, map values, ring buffer records.
//! [`Memory`] owns what is behind them, so that any address can be checked before it is used:
//!
//! ```text
//!   0 ......... 4 GiB .............................. 2^47
//!      [ctx][packet]        [stack]   [values of map 0]   [values of map 1]
//!       \_ 32-bit addresses: the fields `data` and `data_end` of `xdp_md` hold them as they are
//! ```
//!
//! Compiled code uses the same addresses without asking; the interpreter and every helper ask here. Only part of a
//! region may be open at a time (its *window*): the packet's between its first and last byte.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use kiln_isa::Size;

/// Whether programs may write a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read only (`.rodata`).
    Read,
    /// Read and write.
    ReadWrite,
}

/// Where a region has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Anywhere.
    Anywhere,
    /// Below 4 GiB, so that its addresses fit 32 bits.
    Low,
}

/// Names a region of a [`Memory`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionId(u32);

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is owned by this value alone; only `Memory`, which is not shared while written, refers to it.
unsafe impl Send for Mapping {}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: u64,
    end: u64,
    writable: bool,
    region: u32,
}

/// The regions. Dropping it unmaps them.
#[derive(Debug, Default)]
pub struct Memory {
    mappings: Vec<Mapping>,
    /// Open windows, sorted by address; disjoint because mappings are.
    windows: Vec<Window>,
    /// The native stack that compiled code runs on, while it runs.
    native_stack: Range<u64>,
    /// Where the next regions go, [`Placement::Anywhere`] and [`Placement::Low`]; `None`: where there is room.
    next: Option<[u64; 2]>,
}

/// The first place for regions at addresses of their own choice, anywhere and low, and from one place to the next.
const PLACES: [u64; 2] = [1 << 45, 0x2000_0000];
const PLACE_BYTES: [u64; 2] = [1 << 36, 0x0100_0000];
const PAGE_BYTES: u64 = 4096;
/// Regions that are low end below this address.
const LOW_END: u64 = 1 << 32;
/// All regions end below this address.
const ADDRESS_END: u64 = 1 << 47;
/// Places there are.
const PLACE_COUNT: u64 = 128;

impl Memory {
    /// Nothing.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Nothing yet, with regions at the same addresses each time, as far as these are free: programs that keep addresses
    /// in maps can then be compared byte by byte. Memory that lives at the same time wants another place.
    pub fn at(place: u32) -> Memory {
        let place = u64::from(place) % PLACE_COUNT;
        let start = |kind: usize| PLACES[kind] + place * PLACE_BYTES[kind];
        let mut memory = Memory::new();
        memory.next = Some([start(0), start(1)]);
        memory
    }

    /// Maps where the next region of its kind goes.
    fn map_next(&mut self, bytes: usize, placement: Placement) -> Option<NonNull<u8>> {
        let low = placement == Placement::Low;
        let next = &mut self.next.as_mut()?[usize::from(low)];
        // A page between regions, so that none ends where another begins.
        let after = next.checked_add(bytes as u64)?.checked_add(PAGE_BYTES)?;
        if after > if low { LOW_END } else { ADDRESS_END } {
            return None;
        }
        let start = map(*next as usize, bytes, libc::MAP_FIXED_NOREPLACE).ok()?;
        if start.as_ptr() as u64 != *next {
            // Kernels before 4.17 take the address for a hint.
            unmap(start, bytes);
            return None;
        }
        *next = after;
        Some(start)
    }

    /// Adds a region of `bytes` zero bytes, all of them open. Untouched pages cost nothing.
    ///
    /// # Errors
    /// What `mmap` reports.
    pub fn allocate(&mut self, bytes: usize, placement: Placement, access: Access) -> io::Result<RegionId> {
        let open = bytes as u64;
        let bytes = bytes.max(1).checked_next_multiple_of(4096).ok_or_else(too_large)?;
        let start = match (self.map_next(bytes, placement), placement) {
            (Some(start), _) => start,
            (None, Placement::Anywhere) => map(0, bytes, 0)?,
            (None, Placement::Low) => map_low(bytes)?,
        };
        let region = self.mappings.len() as u32;
        self.mappings.push(Mapping { start, bytes });
        let address = start.as_ptr() as u64;
        let writable = access == Access::ReadWrite;
        let window = Window { start: address, end: address + open, writable, region };
        let at = self.windows.partition_point(|other| other.start < address);
        self.windows.insert(at, window);
        Ok(RegionId(region))
    }

    /// The address of a region's first byte.
    pub fn start(&self, region: RegionId) -> u64 {
        self.mappings[region.0 as usize].start.as_ptr() as u64
    }

    /// Opens only `range`, in bytes from the region's start, to programs.
    ///
    /// # Panics
    /// When the range leaves the region.
    pub fn set_window(&mut self, region: RegionId, range: Range<usize>) {
        let mapping = &self.mappings[region.0 as usize];
        assert!(range.start <= range.end && range.end <= mapping.bytes, "a window leaves its region");
        let base = mapping.start.as_ptr() as u64;
        let found = self.windows.iter_mut().find(|window| window.region == region.0);
        let window = found.expect("every region has a window");
        window.start = base + range.start as u64;
        window.end = base + range.end as u64;
    }

    /// Makes a region writable by programs or not.
    pub fn set_access(&mut self, region: RegionId, access: Access) {
        for window in self.windows.iter_mut().filter(|window| window.region == region.0) {
            window.writable = access == Access::ReadWrite;
        }
    }

    /// A whole region, whatever its window.
    pub fn region(&self, region: RegionId) -> &[u8] {
        let mapping = &self.mappings[region.0 as usize];
        // SAFETY: the mapping is readable and lives as long as `self`; compiled code, which may write it, never runs
        // while a borrow of `self` is held.
        unsafe { std::slice::from_raw_parts(mapping.start.as_ptr(), mapping.bytes) }
    }

    /// A whole region, whatever its window.
    pub fn region_mut(&mut self, region: RegionId) -> &mut [u8] {
        let mapping = &self.mappings[region.0 as usize];
        // SAFETY: as in `region`; the exclusive borrow of `self` excludes every other reference.
        unsafe { std::slice::from_raw_parts_mut(mapping.start.as_ptr(), mapping.bytes) }
    }

    /// Declares the native stack below this address, down to where [`Memory::set_native_stack_end`] says, readable and
    /// writable: compiled code keeps its frames there. 0 declares none.
    pub(crate) fn set_native_stack(&mut self, top: u64) {
        self.native_stack = top..top;
    }

    /// The frames of compiled code reach down to this address now.
    #[inline(always)]
    pub(crate) fn set_native_stack_end(&mut self, lowest: u64) {
        self.native_stack.start = lowest;
    }

    /// Whether the whole range is open.
    #[inline]
    fn allowed(&self, address: u64, bytes: u64, write: bool) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        if self.native_stack.start <= address && end <= self.native_stack.end {
            return true;
        }
        let after = self.windows.partition_point(|window| window.start <= address);
        let Some(window) = after.checked_sub(1).and_then(|at| self.windows.get(at)) else { return false };
        end <= window.end && (window.writable || !write)
    }

    /// The bytes at an address; `None` where not all of them are open.
    #[inline]
    pub fn bytes(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        if bytes == 0 {
            return Some(&[]);
        }
        if !self.allowed(address, bytes as u64, false) {
            return None;
        }
        // SAFETY: the range lies in one live mapping of `self`, or in frames of compiled code on the native stack,
        // which outlive the helper call that borrows them.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, bytes) })
    }

    /// The bytes at an address, to be written; `None` where not all of them are open and writable.
    #[inline]
    pub fn bytes_mut(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        if bytes == 0 {
            return Some(&mut []);
        }
        if !self.allowed(address, bytes as u64, true) {
            return None;
        }
        // SAFETY: as in `bytes`; the exclusive borrow of `self` excludes every other reference.
        Some(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) })
    }

    /// Reads a little-endian number.
    #[inline]
    pub fn load(&self, address: u64, size: Size) -> Option<u64> {
        let bytes = self.bytes(address, size.bytes() as usize)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Writes a little-endian number.
    #[inline]
    pub fn store(&mut self, address: u64, size: Size, value: u64) -> Option<()> {
        let length = size.bytes() as usize;
        self.bytes_mut(address, length)?.copy_from_slice(&value.to_le_bytes()[..length]);
        Some(())
    }

    /// Copies between open ranges, which may overlap.
    #[inline]
    pub fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Option<()> {
        if bytes == 0 {
            return Some(());
        }
        if !self.allowed(from, bytes as u64, false) || !self.allowed(to, bytes as u64, true) {
            return None;
        }
        // SAFETY: both ranges were just checked; `copy` allows overlap; no reference into them exists.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Some(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for mapping in &self.mappings {
            unmap(mapping.start, mapping.bytes);
        }
    }
}

/// Gives back what [`map`] gave, to which nothing refers any more.
fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the range is a mapping that `map` made, and its owner, who calls this, keeps no reference into it.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, "the region is too large")
}

/// Maps zeroed private memory, near `hint` where it is not 0.
fn map(hint: usize, bytes: usize, extra_flags: i32) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | extra_flags;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: an anonymous private mapping; without MAP_FIXED (MAP_FIXED_NOREPLACE fails instead) it replaces nothing.
    let address = unsafe { libc::mmap(hint as *mut libc::c_void, bytes, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap returned null"))
}

/// Maps below 4 GiB, asking for one free place after another.
fn map_low(bytes: usize) -> io::Result<NonNull<u8>> {
    const FIRST: usize = 0x1000_0000;
    const LAST: usize = 0xf000_0000;
    const STEP: usize = 0x40_0000;
    let mut failure = too_large();
    #[cfg(target_arch = "x86_64")]
    if let Ok(start) = map(0, bytes, libc::MAP_32BIT) {
        return Ok(start);
    }
    for hint in (FIRST..LAST.saturating_sub(bytes)).step_by(STEP) {
        match map(hint, bytes, libc::MAP_FIXED_NOREPLACE) {
            Ok(start) if (start.as_ptr() as usize).saturating_add(bytes) <= LAST => return Ok(start),
            Ok(start) => unmap(start, bytes),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_stay_inside_windows() {
        let mut memory = Memory::new();
        let region = memory.allocate(4096, Placement::Low, Access::ReadWrite).expect("memory");
        let start = memory.start(region);
        assert!(start + 4096 <= 1 << 32);
        assert_eq!(memory.store(start + 4088, Size::B8, 0x1122_3344_5566_7788), Some(()));
        assert_eq!(memory.load(start + 4088, Size::B4), Some(0x5566_7788));
        assert_eq!(memory.load(start + 4089, Size::B8), None);
        memory.set_window(region, 100..200);
        assert_eq!(memory.load(start + 99, Size::B1), None);
        assert_eq!(memory.load(start + 192, Size::B8), Some(0));
        assert_eq!(memory.load(start + 193, Size::B8), None);
        memory.set_access(region, Access::Read);
        assert_eq!(memory.store(start + 100, Size::B1, 1), None);
        assert_eq!(memory.load(u64::MAX, Size::B8), None);
        assert_eq!(memory.load(0, Size::B1), None);
    }

    #[test]
    fn the_same_place_has_the_same_addresses() {
        let addresses = || {
            let mut memory = Memory::at(PLACE_COUNT as u32 - 1);
            let mut start = |bytes, placement| {
                let region = memory.allocate(bytes, placement, Access::ReadWrite).expect("memory");
                memory.start(region)
            };
            [start(8, Placement::Anywhere), start(5000, Placement::Low), start(8, Placement::Anywhere)]
        };
        assert_eq!(addresses(), addresses());
    }

    #[test]
    fn low_regions_stay_below_4_gib() {
        let mut memory = Memory::at(PLACE_COUNT as u32 - 1);
        // Five times a quarter of what is there; the fifth does not fit, wherever the kernel would put it.
        let ends = (0..5).map_while(|_| {
            let region = memory.allocate(1 << 30, Placement::Low, Access::ReadWrite).ok()?;
            Some(memory.start(region) + (1 << 30))
        });
        let ends: Vec<u64> = ends.collect();
        assert!(ends.len() < 5, "{ends:x?}");
        assert!(ends.iter().all(|end| *end <= LOW_END), "{ends:x?}");
    }

    #[test]
    fn regions_are_found_by_address() {
        let mut memory = Memory::new();
        let regions: Vec<_> =
            (0..5).map(|_| memory.allocate(8, Placement::Anywhere, Access::ReadWrite).expect("memory")).collect();
        for (value, region) in regions.iter().enumerate() {
            memory.region_mut(*region)[7] = value as u8 + 1;
        }
        for (value, region) in regions.iter().enumerate() {
            assert_eq!(memory.load(memory.start(*region) + 7, Size::B1), Some(value as u64 + 1));
        }
    }
}
