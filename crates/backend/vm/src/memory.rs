//! All memory that a running program may access, in regions with known bounds.
//!
//! A program has plain 64-bit addresses: of its stack, its context, the packet, map values, ring buffer records.
//! [`Memory`] knows the region of each address, so that every access can be checked:
//!
//! ```text
//!   0 ......... 4 GiB .............................. 2^47
//!      [ctx][packet]        [stack]   [values of map 0]   [values of map 1]
//!       \_ 32-bit addresses: the fields `data` and `data_end` of `xdp_md` hold them as they are
//! ```
//!
//! Compiled code uses the same addresses unchecked; the interpreter and every helper check them here. Only part of a
//! region may be open at a time (its *window*): the packet's between its first and last byte.
//!
//! Stack, context and packet belong to one CPU's runs, and are borrowed as slices. Map values are shared: other threads
//! change them at any time, so their bytes are copied, never borrowed ([`crate::block`]).

use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kiln_isa::Size;

use crate::block::{Block, copy_bytes};
pub use crate::places::{Placement, Places};
use crate::places::{close, unmap};

/// Whether programs may write a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read only (`.rodata`).
    Read,
    /// Read and write.
    ReadWrite,
}

const PAGE_BYTES: usize = crate::places::PAGE_BYTES as usize;

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

/// The window of a sorted list that an address lies in, if the whole range does.
#[inline]
fn window_of(windows: &[Window], address: u64, end: u64) -> Option<&Window> {
    let after = windows.partition_point(|window| window.start <= address);
    windows.get(after.checked_sub(1)?).filter(|window| end <= window.end)
}

/// The values that maps share between all CPUs: where they are, and whether programs may write them.
#[derive(Clone, Debug, Default)]
pub struct SharedWindows {
    windows: Vec<Window>,
}

impl SharedWindows {
    /// Adds a range of addresses that does not overlap another one.
    pub(crate) fn add(&mut self, range: Range<u64>, access: Access) {
        let window =
            Window { start: range.start, end: range.end, writable: access == Access::ReadWrite, region: u32::MAX };
        let at = self.windows.partition_point(|other| other.start < window.start);
        self.windows.insert(at, window);
    }
}

/// The owner of the memory at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// This CPU's: nothing else touches it during the run.
    Own,
    /// A map's: other threads may change it at any time.
    Shared,
}

/// The regions of one CPU, and the addresses of what all share. Dropping it unmaps the regions.
#[derive(Debug, Default)]
pub struct Memory {
    mappings: Vec<Mapping>,
    /// What was mapped for them: several regions may share a mapping.
    mapped: Vec<Mapping>,
    /// Open windows, sorted by address; disjoint because mappings are.
    windows: Vec<Window>,
    /// The native stack that compiled code runs on, while it runs.
    native_stack: Range<u64>,
    shared: Arc<SharedWindows>,
    places: Places,
    /// Bytes outside of frames that accesses asked for, see [`Memory::take_passed`].
    passed: Cell<u64>,
}

impl Memory {
    /// Nothing.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Nothing yet, with regions at these places.
    pub fn at(places: Places) -> Memory {
        let mut memory = Memory::new();
        memory.places = places;
        memory
    }

    /// Opens the values of maps to programs.
    ///
    /// # Safety
    /// What lies at the addresses of the windows stays mapped until `self` is dropped or other windows are set, and is
    /// accessed by atomic operations and by machine instructions only.
    pub(crate) unsafe fn share(&mut self, windows: Arc<SharedWindows>) {
        self.shared = windows;
    }

    /// Adds a region of `bytes` zero bytes, all of them open. Untouched pages cost nothing.
    ///
    /// # Errors
    /// What `mmap` reports.
    pub fn allocate(&mut self, bytes: usize, placement: Placement, access: Access) -> io::Result<RegionId> {
        self.allocate_together([bytes], placement, access).map(|[region]| region)
    }

    /// Adds regions as [`Memory::allocate`] does, one behind the other in one mapping, with a page between them that nobody may
    /// touch: the system is asked less often.
    ///
    /// # Errors
    /// What `mmap` and `mprotect` report.
    pub fn allocate_together<const N: usize>(
        &mut self,
        bytes: [usize; N],
        placement: Placement,
        access: Access,
    ) -> io::Result<[RegionId; N]> {
        let pages = |bytes: usize| bytes.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory);
        let all = bytes.iter().try_fold(0usize, |all, bytes| {
            let gap = if all > 0 { PAGE_BYTES } else { 0 };
            all.checked_add(gap)?.checked_add(pages(*bytes).ok()?)
        });
        let (start, mapped_bytes) = self.places.map(all.ok_or(io::ErrorKind::OutOfMemory)?, placement)?;
        self.mapped.push(Mapping { start, bytes: mapped_bytes });
        let (mut at, mut regions) = (0, [RegionId(0); N]);
        for (region, open) in regions.iter_mut().zip(bytes) {
            if at > 0 {
                // SAFETY: the page lies in the mapping just made, as the sum of all parts does.
                close(unsafe { start.add(at) }, PAGE_BYTES)?;
                at += PAGE_BYTES;
            }
            // SAFETY: as above.
            let (start, bytes) = (unsafe { start.add(at) }, pages(open)?);
            *region = self.add_region(Mapping { start, bytes }, open, access);
            at += bytes;
        }
        Ok(regions)
    }

    /// Adds a region of which the first `open` bytes are open.
    fn add_region(&mut self, mapping: Mapping, open: usize, access: Access) -> RegionId {
        let region = self.mappings.len() as u32;
        let start = mapping.start.as_ptr() as u64;
        let window = Window { start, end: start + open as u64, writable: access == Access::ReadWrite, region };
        self.mappings.push(mapping);
        let at = self.windows.partition_point(|other| other.start < start);
        self.windows.insert(at, window);
        RegionId(region)
    }

    /// The address of a region's first byte.
    pub fn start(&self, region: RegionId) -> u64 {
        self.mappings[region.0 as usize].start.as_ptr() as u64
    }

    /// Opens only `range`, in bytes from the region's start, to programs.
    ///
    /// # Panics
    /// When the range leaves the region.
    #[inline]
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
    #[inline]
    pub fn region(&self, region: RegionId) -> &[u8] {
        let mapping = &self.mappings[region.0 as usize];
        // SAFETY: the mapping is readable and lives as long as `self`; compiled code, which may write it, never runs
        // while a borrow of `self` is held.
        unsafe { std::slice::from_raw_parts(mapping.start.as_ptr(), mapping.bytes) }
    }

    /// A whole region, whatever its window.
    #[inline]
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

    /// Whose memory the whole range is, where it is open.
    #[inline]
    fn owner(&self, address: u64, bytes: u64, write: bool) -> Option<Owner> {
        let end = address.checked_add(bytes)?;
        if self.native_stack.start <= address && end <= self.native_stack.end {
            return Some(Owner::Own);
        }
        let (window, owner) = match window_of(&self.windows, address, end) {
            Some(window) => (window, Owner::Own),
            None => (window_of(&self.shared.windows, address, end)?, Owner::Shared),
        };
        self.passed.set(self.passed.get().wrapping_add(bytes));
        (window.writable || !write).then_some(owner)
    }

    /// Bytes outside of frames of compiled code that were read or written since the last call, at least.
    #[inline]
    pub(crate) fn take_passed(&self) -> u64 {
        self.passed.take()
    }

    /// Whether the whole range is open.
    #[inline]
    pub fn is_open(&self, address: u64, bytes: usize, write: bool) -> bool {
        bytes == 0 || self.owner(address, bytes as u64, write).is_some()
    }

    /// The bytes at an address, copied where other threads may change them; `None` where not all of them are open.
    #[inline]
    pub fn bytes(&self, address: u64, bytes: usize) -> Option<Cow<'_, [u8]>> {
        if bytes == 0 {
            return Some(Cow::Borrowed(&[]));
        }
        match self.owner(address, bytes as u64, false)? {
            // SAFETY: the range lies in one live mapping of `self`, or in frames of compiled code on the native stack,
            // which outlive the helper call that borrows them.
            Owner::Own => Some(Cow::Borrowed(unsafe { std::slice::from_raw_parts(address as *const u8, bytes) })),
            Owner::Shared => Some(Cow::Owned(copied(address, bytes))),
        }
    }

    /// The bytes at an address in frames of compiled code, where keys usually are; `None` for all other places.
    #[inline(always)]
    pub fn in_frames(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        let end = address.checked_add(bytes as u64)?;
        let inside = self.native_stack.start <= address && end <= self.native_stack.end;
        // SAFETY: frames of compiled code outlive the helper call that borrows them.
        inside.then(|| unsafe { std::slice::from_raw_parts(address as *const u8, bytes) })
    }

    /// Writes bytes at an address; `None` where not all of them are open and writable.
    #[inline]
    pub fn write(&mut self, address: u64, from: &[u8]) -> Option<()> {
        if from.is_empty() {
            return Some(());
        }
        match self.owner(address, from.len() as u64, true)? {
            // SAFETY: the range lies in one live mapping of `self` or in frames of compiled code, and the exclusive
            // borrow of `self` excludes every other reference into them; `from` may lie in neither.
            Owner::Own => unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), address as *mut u8, from.len()) },
            // SAFETY: the range was just checked; `from` is a slice, which no shared memory is.
            Owner::Shared => unsafe { copy_bytes::<false, true>(from.as_ptr(), address as *mut u8, from.len()) },
        }
        Some(())
    }

    /// Zeroes bytes; `None` where not all of them are open and writable.
    pub fn clear(&mut self, address: u64, bytes: usize) -> Option<()> {
        if !self.is_open(address, bytes, true) {
            return None;
        }
        const ZEROS: [u8; 512] = [0; 512];
        (0..bytes).step_by(ZEROS.len()).try_for_each(|at| {
            let part = ZEROS.len().min(bytes - at);
            self.write(address + at as u64, &ZEROS[..part])
        })
    }

    /// Reads a little-endian number.
    #[inline]
    pub fn load(&self, address: u64, size: Size) -> Option<u64> {
        let bytes = size.bytes() as usize;
        let mut word = [0; 8];
        match self.owner(address, bytes as u64, false)? {
            // SAFETY: the range was just checked, and is not written while `self` is borrowed.
            Owner::Own => unsafe { std::ptr::copy_nonoverlapping(address as *const u8, word.as_mut_ptr(), bytes) },
            Owner::Shared if address % 8 == 0 && bytes == 8 => {
                // SAFETY: the word was just checked, is aligned, and is only accessed atomically.
                let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
                return Some(word.load(Ordering::Acquire));
            }
            // SAFETY: as above.
            Owner::Shared => unsafe { copy_bytes::<true, false>(address as *const u8, word.as_mut_ptr(), bytes) },
        }
        Some(u64::from_le_bytes(word))
    }

    /// Writes a little-endian number.
    #[inline]
    pub fn store(&mut self, address: u64, size: Size, value: u64) -> Option<()> {
        let bytes = size.bytes() as usize;
        if bytes == 8 && address % 8 == 0 && self.owner(address, 8, true)? == Owner::Shared {
            // SAFETY: the word was just checked, is aligned, and is only accessed atomically.
            unsafe { AtomicU64::from_ptr(address as *mut u64) }.store(value, Ordering::Release);
            return Some(());
        }
        self.write(address, &value.to_le_bytes()[..bytes])
    }

    /// Replaces the number at an address by what `update` makes of it, if it makes anything, in one step that no other
    /// thread interrupts; gives what was there.
    pub fn update(&mut self, address: u64, size: Size, update: &mut dyn FnMut(u64) -> Option<u64>) -> Option<u64> {
        let bytes = u64::from(size.bytes());
        let owner = self.owner(address, bytes, true)?;
        if owner == Owner::Shared && address % bytes == 0 {
            if size == Size::B8 {
                // SAFETY: the word was just checked, is aligned, and is only accessed atomically.
                let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
                let done = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, update);
                return Some(done.unwrap_or_else(|old| old));
            }
            if size == Size::B4 {
                // SAFETY: as above.
                let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
                let narrow = |old: u32| update(old.into()).map(|new| new as u32);
                let done = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, narrow);
                return Some(done.unwrap_or_else(|old| old).into());
            }
        }
        let old = self.load(address, size)?;
        if let Some(new) = update(old) {
            self.store(address, size, new)?;
        }
        Some(old)
    }

    /// The 32-bit word of a map value at an address, for a lock.
    pub(crate) fn shared_word(&self, address: u64) -> Option<&AtomicU32> {
        let is_shared = address % 4 == 0 && self.owner(address, 4, true)? == Owner::Shared;
        // SAFETY: the word was just checked, is aligned, stays mapped as long as `self` has these windows, and is only
        // accessed atomically.
        is_shared.then(|| unsafe { AtomicU32::from_ptr(address as *mut u32) })
    }

    /// Copies between open ranges, which may overlap.
    #[inline]
    pub fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Option<()> {
        if bytes == 0 {
            return Some(());
        }
        let source = self.owner(from, bytes as u64, false)?;
        let target = self.owner(to, bytes as u64, true)?;
        if (source, target) == (Owner::Own, Owner::Own) {
            // SAFETY: both ranges were just checked; `copy` allows overlap; no reference into them exists.
            unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        } else if from.abs_diff(to) < bytes as u64 {
            let bytes = copied(from, bytes);
            self.write(to, &bytes)?;
        } else {
            // SAFETY: both ranges were just checked and do not overlap.
            unsafe { copy_bytes::<true, true>(from as *const u8, to as *mut u8, bytes) };
        }
        Some(())
    }

    /// Copies from an open range into a map's memory.
    #[inline]
    pub(crate) fn copy_to(&self, from: u64, block: &Block, offset: usize, bytes: usize) -> Option<()> {
        if !self.is_open(from, bytes, false) {
            return None;
        }
        // SAFETY: the source was just checked. Where it overlaps the target, it is the target or what a program made
        // of a value's address; bytes come out torn, as with the kernel's `memcpy`.
        unsafe { block.write_from(offset, from, bytes) };
        Some(())
    }
}

/// A copy of bytes that other threads may change.
fn copied(address: u64, bytes: usize) -> Vec<u8> {
    let mut copy = vec![0; bytes];
    // SAFETY: callers checked that the range is open; the copy is as long.
    unsafe { copy_bytes::<true, false>(address as *const u8, copy.as_mut_ptr(), bytes) };
    copy
}

impl Drop for Memory {
    fn drop(&mut self) {
        for mapping in &self.mapped {
            unmap(mapping.start, mapping.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::{LOW_END, PLACE_COUNT};

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
    #[cfg_attr(miri, ignore = "Miri maps nothing at addresses of our choice")]
    fn the_same_place_has_the_same_addresses() {
        let addresses = || {
            // AddressSanitizer's shadow is behind the first 2 GiB.
            let mut memory = Memory::at(Places::at(1, 1));
            let mut start = |bytes, placement| {
                let region = memory.allocate(bytes, placement, Access::ReadWrite).expect("memory");
                memory.start(region)
            };
            [start(8, Placement::Anywhere), start(5000, Placement::Low), start(8, Placement::Anywhere)]
        };
        assert_eq!(addresses(), addresses());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps nothing at addresses of our choice")]
    fn low_regions_stay_below_4_gib() {
        let mut memory = Memory::at(Places::at(PLACE_COUNT as u32 - 1, 1));
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
