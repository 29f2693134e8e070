//! Addresses for memory: mapping it there, between guard pages, and giving it back.

#[cfg(unix)]
use std::fs::File;
use std::io;
use std::ops::Range;
#[cfg(unix)]
use std::os::unix::fs::FileExt as _;
use std::ptr::NonNull;

/// Where a region has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Anywhere.
    Anywhere,
    /// Below 4 GiB, so that its addresses fit 32 bits.
    Low,
}

/// Where memory goes.
#[derive(Debug, Default)]
pub struct Places {
    /// Where the next regions go, [`Placement::Anywhere`] and [`Placement::Low`]; `None`: where there is room.
    next: Option<[u64; 2]>,
}

/// Start of place 0 for `Placement::Anywhere` and `Low`; places are `PLACE_BYTES` apart.
const PLACES: [u64; 2] = [1 << 45, 0x2000_0000];
const PLACE_BYTES: [u64; 2] = [1 << 36, 0x0100_0000];
pub(crate) const PAGE_BYTES: u64 = 4096;
/// A mapping that replaces none. Other systems than Linux take the address for a hint, as Linux before 4.17 does.
#[cfg(target_os = "linux")]
const NO_REPLACE: i32 = libc::MAP_FIXED_NOREPLACE;
#[cfg(not(target_os = "linux"))]
const NO_REPLACE: i32 = 0;
/// Regions that are low end below this address.
pub(crate) const LOW_END: u64 = 1 << 32;
/// All regions end below this address.
const ADDRESS_END: u64 = 1 << 47;
/// Number of places.
pub(crate) const PLACE_COUNT: u64 = 128;

impl Places {
    /// The same addresses each time, if they are free, so that maps with addresses in them can be compared byte by
    /// byte. VMs that exist at the same time need different places. `part` 0 is the maps', 1 the CPU's that runs
    /// programs; other CPUs' memory is anywhere.
    pub fn at(place: u32, part: u64) -> Places {
        let place = u64::from(place) % PLACE_COUNT;
        let start = |kind: usize| PLACES[kind] + place * PLACE_BYTES[kind] + part * PLACE_BYTES[kind] / 2;
        Places { next: Some([start(0), start(1)]) }
    }

    /// Maps at the next place of its kind.
    fn map_next(&mut self, bytes: usize, placement: Placement) -> Option<NonNull<u8>> {
        let low = placement == Placement::Low;
        let next = &mut self.next.as_mut()?[usize::from(low)];
        let after = next.checked_add(bytes as u64)?.checked_add(2 * PAGE_BYTES)?;
        if after > if low { LOW_END } else { ADDRESS_END } {
            return None;
        }
        let start = map(*next as usize, bytes, NO_REPLACE).ok()?;
        if start.as_ptr() as u64 != *next + PAGE_BYTES {
            // Kernels before 4.17 take the address for a hint.
            unmap(start, bytes);
            return None;
        }
        *next = after;
        Some(start)
    }

    /// Maps zeroed memory: where it begins, and its length in whole pages.
    ///
    /// # Errors
    /// What `mmap` reports.
    pub(crate) fn map(&mut self, bytes: usize, placement: Placement) -> io::Result<(NonNull<u8>, usize)> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES as usize).ok_or_else(too_large)?;
        let start = match (self.map_next(bytes, placement), placement) {
            (Some(start), _) => start,
            (None, Placement::Anywhere) => map(0, bytes, 0)?,
            (None, Placement::Low) => map_low(bytes)?,
        };
        Ok((start, bytes))
    }

    /// Reserves addresses, which nobody may touch before they are [`open`]ed; to be [`release`]d.
    ///
    /// # Errors
    /// What `mmap` reports.
    pub(crate) fn reserve(&mut self, bytes: usize) -> io::Result<NonNull<u8>> {
        let next = self.next.as_mut().map(|next| &mut next[0]);
        let Some(next) = next.filter(|next| next.checked_add(bytes as u64).is_some_and(|end| end <= ADDRESS_END))
        else {
            return reserve(0, bytes, 0);
        };
        match reserve(*next as usize, bytes, NO_REPLACE) {
            Ok(start) => {
                *next += bytes as u64;
                Ok(start)
            }
            Err(_) => reserve(0, bytes, 0),
        }
    }
}

/// Unmaps memory of [`map`], to which no references exist.
pub(crate) fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the range is a mapping that `map` made, and its owner, who calls this, keeps no reference into it.
    #[cfg(all(unix, not(miri)))]
    unsafe {
        libc::munmap(start.as_ptr().sub(PAGE_BYTES as usize).cast(), bytes + 2 * PAGE_BYTES as usize);
    }
    // SAFETY: as above, with the layout that `map` asked for.
    #[cfg(any(miri, not(unix)))]
    unsafe {
        std::alloc::dealloc(start.as_ptr(), std::alloc::Layout::from_size_align_unchecked(bytes, 4096));
    }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, "the region is too large")
}

/// Miri has no `mmap` at chosen addresses; its allocations begin far below 4 GiB. All of WebAssembly's addresses do.
#[cfg(any(miri, not(unix)))]
fn map(hint: usize, bytes: usize, _: i32) -> io::Result<NonNull<u8>> {
    let layout = std::alloc::Layout::from_size_align(bytes, 4096).map_err(|_| too_large())?;
    if hint != 0 {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    // SAFETY: no layout here is empty.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    start.expose_provenance();
    NonNull::new(start).ok_or_else(too_large)
}

/// Maps zeroed private memory, near `hint` where it is not 0, between two pages that nobody may touch: an access that
/// leaves the memory faults instead of finding what is mapped next to it. Gives the memory behind the first of them.
#[cfg(all(unix, not(miri)))]
fn map(hint: usize, bytes: usize, extra_flags: i32) -> io::Result<NonNull<u8>> {
    let page = PAGE_BYTES as usize;
    let all = bytes.checked_add(2 * page).ok_or_else(too_large)?;
    let address = reserve(hint, all, extra_flags)?;
    // SAFETY: the mapping just made is two pages longer than `bytes`.
    let start = unsafe { address.add(page) };
    if let Err(error) = open(start, bytes) {
        release(address, all);
        return Err(error);
    }
    Ok(start)
}

/// Maps private memory that nobody may touch, near `hint` where it is not 0.
#[cfg(unix)]
fn reserve(hint: usize, bytes: usize, extra_flags: i32) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | extra_flags;
    // SAFETY: an anonymous private mapping; without MAP_FIXED (MAP_FIXED_NOREPLACE fails instead) it replaces nothing.
    let address = unsafe { libc::mmap(hint as *mut libc::c_void, bytes, libc::PROT_NONE, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap returned null"))
}

/// Makes part of what [`reserve`] gave readable and writable.
#[cfg(unix)]
pub(crate) fn open(start: NonNull<u8>, bytes: usize) -> io::Result<()> {
    protect(start, bytes, libc::PROT_READ | libc::PROT_WRITE)
}

/// Makes part of what [`reserve`] gave readable: it has zeros, which take no memory.
#[cfg(unix)]
pub(crate) fn show(start: NonNull<u8>, bytes: usize) -> io::Result<()> {
    protect(start, bytes, libc::PROT_READ)
}

/// Lets nobody touch part of what [`map`] gave any more.
#[cfg(all(unix, not(miri)))]
pub(crate) fn close(start: NonNull<u8>, bytes: usize) -> io::Result<()> {
    protect(start, bytes, libc::PROT_NONE)
}

/// Without `mprotect` nothing keeps others from touching it.
#[cfg(any(miri, not(unix)))]
#[allow(clippy::unnecessary_wraps, reason = "as where the system is asked")]
pub(crate) fn close(_: NonNull<u8>, _: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn protect(start: NonNull<u8>, bytes: usize, how: i32) -> io::Result<()> {
    // SAFETY: the callers pass ranges of reservations of their own, to which nothing refers yet.
    let done = unsafe { libc::mprotect(start.as_ptr().cast(), bytes, how) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many bytes of private memory take memory: pages that were written. Those that were only read are zeros that all share.
///
/// # Errors
/// What reading `/proc/self/pagemap` reports.
#[cfg(unix)]
pub(crate) fn resident(addresses: Range<u64>) -> io::Result<u64> {
    /// Pages that are asked for at once.
    const PAGES: u64 = 1 << 16;
    /// The bytes of a page's word.
    const WORD_BYTES: u64 = 8;
    /// A page is there, and nobody else has it.
    const OWN: u64 = 1 << 63 | 1 << 56;
    let file = File::open("/proc/self/pagemap")?;
    let (first, end) = (addresses.start / PAGE_BYTES, addresses.end.div_ceil(PAGE_BYTES));
    let mut words = vec![0; (PAGES.min(end - first) * WORD_BYTES) as usize];
    let mut resident = 0;
    for from in (first..end).step_by(PAGES as usize) {
        let part = &mut words[..((end - from).min(PAGES) * WORD_BYTES) as usize];
        file.read_exact_at(part, from * WORD_BYTES)?;
        let (words, _) = part.as_chunks();
        resident += words.iter().filter(|word| u64::from_le_bytes(**word) & OWN == OWN).count() as u64;
    }
    Ok(resident * PAGE_BYTES)
}

/// Releases addresses of [`reserve`], to which no references exist.
#[cfg(unix)]
pub(crate) fn release(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the range is a mapping that `reserve` made, and its owner, who calls this, keeps no reference into it.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

/// Arenas need addresses that are reserved and opened page by page, which only Unix has: making one fails elsewhere.
#[cfg(not(unix))]
mod no_reservations {
    use super::{NonNull, Range, io};

    fn unsupported<T>() -> io::Result<T> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn reserve(_: usize, _: usize, _: i32) -> io::Result<NonNull<u8>> {
        unsupported()
    }

    pub(crate) fn open(_: NonNull<u8>, _: usize) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn show(_: NonNull<u8>, _: usize) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn resident(_: Range<u64>) -> io::Result<u64> {
        unsupported()
    }

    pub(crate) fn release(_: NonNull<u8>, _: usize) {}
}
#[cfg(not(unix))]
use no_reservations::reserve;
#[cfg(not(unix))]
pub(crate) use no_reservations::{open, release, resident, show};

/// All addresses of WebAssembly are below 4 GiB. Elsewhere the allocator may return others, which are refused.
#[cfg(not(unix))]
fn map_low(bytes: usize) -> io::Result<NonNull<u8>> {
    let start = map(0, bytes, 0)?;
    if start.as_ptr() as u64 + bytes as u64 <= LOW_END {
        return Ok(start);
    }
    unmap(start, bytes);
    Err(too_large())
}

/// Maps below 4 GiB, asking for one free place after another.
#[cfg(unix)]
fn map_low(bytes: usize) -> io::Result<NonNull<u8>> {
    const FIRST: usize = 0x1000_0000;
    const LAST: usize = 0xf000_0000;
    const STEP: usize = 0x40_0000;
    let mut failure = too_large();
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    if let Ok(start) = map(0, bytes, libc::MAP_32BIT) {
        return Ok(start);
    }
    for hint in (FIRST..LAST.saturating_sub(bytes)).step_by(STEP) {
        match map(hint, bytes, NO_REPLACE) {
            Ok(start) if (start.as_ptr() as usize).saturating_add(bytes) <= LAST => return Ok(start),
            Ok(start) => unmap(start, bytes),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
