//! Where map values live: one region per map, at addresses that never change, since programs hold pointers into it.
//!
//! ```text
//!   per-CPU map, 2 CPUs:   | value 0, cpu 0 | value 0, cpu 1 | value 1, cpu 0 | ...
//!                            \_ stride: the value size rounded up to 8
//! ```

use std::io;

use crate::memory::{Access, Memory, Placement, RegionId};

/// The values of a map.
#[derive(Debug)]
pub struct Values {
    region: RegionId,
    start: u64,
    size: u32,
    stride: u64,
    cpus: u32,
}

impl Values {
    /// Space for `count` values of `size` bytes for each of `cpus` CPUs.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn new(memory: &mut Memory, count: u64, size: u32, cpus: u32) -> io::Result<Values> {
        let stride = u64::from(size).next_multiple_of(8);
        let bytes = count.saturating_mul(stride).saturating_mul(u64::from(cpus));
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let region = memory.allocate(bytes, Placement::Anywhere, Access::ReadWrite)?;
        Ok(Values { region, start: memory.start(region), size, stride, cpus })
    }

    /// The region they are in.
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// Bytes from one value to the next of the same CPU.
    pub fn element_stride(&self) -> u64 {
        self.stride * u64::from(self.cpus)
    }

    /// CPUs that have a value each.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Bytes that user space passes for one element: as the kernel, each CPU's value rounded up to 8 where there are
    /// several.
    pub fn user_bytes(&self, per_cpu: bool) -> usize {
        if per_cpu { (self.stride * u64::from(self.cpus)) as usize } else { self.size as usize }
    }

    /// The address of a value.
    #[inline]
    pub fn address(&self, index: u32, cpu: u32) -> u64 {
        self.start + (u64::from(index) * u64::from(self.cpus) + u64::from(cpu)) * self.stride
    }

    fn offset(&self, index: u32, cpu: u32) -> usize {
        (self.address(index, cpu) - self.start) as usize
    }

    /// One value.
    pub fn get<'m>(&self, memory: &'m Memory, index: u32, cpu: u32) -> &'m [u8] {
        let at = self.offset(index, cpu);
        &memory.region(self.region)[at..at + self.size as usize]
    }

    /// One value, to be written.
    pub fn get_mut<'m>(&self, memory: &'m mut Memory, index: u32, cpu: u32) -> &'m mut [u8] {
        let at = self.offset(index, cpu);
        &mut memory.region_mut(self.region)[at..at + self.size as usize]
    }

    /// Writes a value that a program passes by address.
    #[inline]
    pub fn copy_in(&self, memory: &mut Memory, index: u32, cpu: u32, from: u64) -> Option<()> {
        let to = self.address(index, cpu);
        memory.copy(from, to, self.size as usize)
    }

    /// All CPUs' values as user space sees them.
    pub fn read_user(&self, memory: &Memory, index: u32, per_cpu: bool) -> Vec<u8> {
        let at = self.offset(index, 0);
        memory.region(self.region)[at..at + self.user_bytes(per_cpu)].to_vec()
    }

    /// Writes all CPUs' values from what user space passes; the length was checked.
    pub fn write_user(&self, memory: &mut Memory, index: u32, bytes: &[u8]) {
        let at = self.offset(index, 0);
        memory.region_mut(self.region)[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Zeroes an element, on every CPU.
    pub fn clear(&self, memory: &mut Memory, index: u32) {
        let at = self.offset(index, 0);
        let bytes = self.element_stride() as usize;
        memory.region_mut(self.region)[at..at + bytes].fill(0);
    }
}
