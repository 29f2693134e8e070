//! Ring buffers from programs to user space (`BPF_MAP_TYPE_RINGBUF`).
//!
//! ```text
//!   consumer                                producer
//!      |  8 |record 0  | 8 |record 1 (busy) |  ...    positions only grow; modulo the size they are places
//! ```
//!
//! A record takes its length rounded up to 8, and 8 bytes for a header that is kept outside the programs' reach. The
//! region is twice as long as the ring, so that a record that begins near the end needs no wrapping.

use std::collections::VecDeque;
use std::io;

use crate::errno::Errno;
use crate::memory::{Access, Memory, Placement, RegionId};

const HEADER_BYTES: u64 = 8;
/// Records longer than this are refused (the kernel keeps the top two bits of a length for its own use).
const MAX_RECORD_BYTES: u64 = u32::MAX as u64 / 4;

/// A ring buffer.
#[derive(Debug)]
pub struct Ring {
    region: RegionId,
    start: u64,
    bytes: u64,
    producer: u64,
    consumer: u64,
    records: VecDeque<Record>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    position: u64,
    bytes: u64,
    state: RecordState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecordState {
    Busy,
    Submitted,
    Discarded,
}

impl Ring {
    /// An empty ring of `bytes` bytes, a power of two.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn new(memory: &mut Memory, bytes: u32) -> io::Result<Ring> {
        let region = memory.allocate(2 * bytes as usize, Placement::Anywhere, Access::ReadWrite)?;
        let start = memory.start(region);
        Ok(Ring { region, start, bytes: bytes.into(), producer: 0, consumer: 0, records: VecDeque::new() })
    }

    /// Space for a record; its address.
    ///
    /// # Errors
    /// `E2BIG` when it can never fit, `EAGAIN` when the ring is full.
    pub fn reserve(&mut self, bytes: u64) -> Result<u64, Errno> {
        if bytes > MAX_RECORD_BYTES {
            return Err(Errno::E2BIG);
        }
        let total = (bytes + HEADER_BYTES).next_multiple_of(8);
        if total > self.bytes {
            return Err(Errno::E2BIG);
        }
        if self.producer + total - self.consumer > self.bytes - 1 {
            return Err(Errno::EAGAIN);
        }
        let position = self.producer;
        self.producer += total;
        self.records.push_back(Record { position, bytes, state: RecordState::Busy });
        Ok(self.address(position))
    }

    fn address(&self, position: u64) -> u64 {
        self.start + position % self.bytes + HEADER_BYTES
    }

    /// Whether an address lies in this ring.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.start + 2 * self.bytes).contains(&address)
    }

    /// Hands a reserved record over, or drops it.
    ///
    /// # Errors
    /// `EINVAL` when there is no such reserved record.
    pub fn commit(&mut self, address: u64, discard: bool) -> Result<(), Errno> {
        let state = if discard { RecordState::Discarded } else { RecordState::Submitted };
        let base = self.start + HEADER_BYTES;
        let size = self.bytes;
        let found = self
            .records
            .iter_mut()
            .rev()
            .find(|record| record.state == RecordState::Busy && base + record.position % size == address);
        found.ok_or(Errno::EINVAL)?.state = state;
        Ok(())
    }

    /// Copies a record in from memory that a program passes.
    ///
    /// # Errors
    /// As [`Ring::reserve`]; `EFAULT` when the memory is not the program's.
    pub fn output(&mut self, memory: &mut Memory, from: u64, bytes: u64) -> Result<(), Errno> {
        let to = self.reserve(bytes)?;
        let copied = memory.copy(from, to, bytes as usize);
        self.commit(to, copied.is_none())?;
        copied.ok_or(Errno::EFAULT)
    }

    /// `bpf_ringbuf_query`.
    pub fn query(&self, flag: u64) -> u64 {
        match flag {
            0 => self.producer - self.consumer,
            1 => self.bytes,
            2 => self.consumer,
            3 => self.producer,
            _ => 0,
        }
    }

    /// Takes all records up to the first that is still reserved, as a consumer in user space would.
    pub fn drain(&mut self, memory: &Memory) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        while let Some(record) = self.records.front().copied().filter(|record| record.state != RecordState::Busy) {
            self.records.pop_front();
            self.consumer = record.position + (record.bytes + HEADER_BYTES).next_multiple_of(8);
            if record.state == RecordState::Submitted {
                let at = (self.address(record.position) - self.start) as usize;
                taken.push(memory.region(self.region)[at..at + record.bytes as usize].to_vec());
            }
        }
        taken
    }

    /// The records [`Ring::drain`] would take, left in place.
    pub fn peek(&self, memory: &Memory) -> Vec<Vec<u8>> {
        let ready = self.records.iter().take_while(|record| record.state != RecordState::Busy);
        ready
            .filter(|record| record.state == RecordState::Submitted)
            .map(|record| {
                let at = (self.address(record.position) - self.start) as usize;
                memory.region(self.region)[at..at + record.bytes as usize].to_vec()
            })
            .collect()
    }
}
