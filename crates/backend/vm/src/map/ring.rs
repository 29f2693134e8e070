//! Ring buffers from programs to user space (`BPF_MAP_TYPE_RINGBUF`).
//!
//! ```text
//!   consumer                                producer
//!      |  8 |record 0  | 8 |record 1 (busy) |  ...    positions only grow; modulo the size they are places
//! ```
//!
//! A record takes its length rounded up to 8, and 8 bytes for a header that is kept outside the programs' reach. The
//! region is twice as long as the ring, so that a record that begins near the end needs no wrapping.
//! CPUs reserve and hand over records one at a time, as under the kernel's lock of the ring; they fill them at once.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::Block;
use crate::errno::Errno;
use crate::memory::{Memory, Places};

const HEADER_BYTES: u64 = 8;
/// Records longer than this are refused (the kernel keeps the top two bits of a length for its own use).
const MAX_RECORD_BYTES: u64 = u32::MAX as u64 / 4;

/// A ring buffer.
#[derive(Debug)]
pub struct Ring {
    block: Block,
    bytes: u64,
    queue: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
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
    pub fn new(places: &mut Places, bytes: u32) -> io::Result<Ring> {
        let block = Block::new(places, 2 * u64::from(bytes))?;
        Ok(Ring { block, bytes: bytes.into(), queue: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All addresses of records.
    pub fn addresses(&self) -> Range<u64> {
        self.block.address()..self.block.address() + 2 * self.bytes
    }

    /// Whether nobody wrote behind the ring.
    pub fn ends_clean(&self) -> bool {
        self.block.ends_clean()
    }

    /// Space for a record; its address.
    ///
    /// # Errors
    /// `E2BIG` when it can never fit, `EAGAIN` when the ring is full.
    pub fn reserve(&self, bytes: u64) -> Result<u64, Errno> {
        if bytes > MAX_RECORD_BYTES {
            return Err(Errno::E2BIG);
        }
        let total = (bytes + HEADER_BYTES).next_multiple_of(8);
        if total > self.bytes {
            return Err(Errno::E2BIG);
        }
        let mut queue = self.lock();
        if queue.producer + total - queue.consumer > self.bytes - 1 {
            return Err(Errno::EAGAIN);
        }
        let position = queue.producer;
        queue.producer += total;
        queue.records.push_back(Record { position, bytes, state: RecordState::Busy });
        Ok(self.address(position))
    }

    fn address(&self, position: u64) -> u64 {
        self.block.address() + self.offset(position) as u64
    }

    fn offset(&self, position: u64) -> usize {
        (position % self.bytes + HEADER_BYTES) as usize
    }

    /// Whether an address lies in this ring.
    pub fn contains(&self, address: u64) -> bool {
        self.addresses().contains(&address)
    }

    /// Hands a reserved record over, or drops it.
    ///
    /// # Errors
    /// `EINVAL` when there is no such reserved record.
    pub fn commit(&self, address: u64, discard: bool) -> Result<(), Errno> {
        let state = if discard { RecordState::Discarded } else { RecordState::Submitted };
        let mut queue = self.lock();
        let mut records = queue.records.iter_mut().rev();
        let found =
            records.find(|record| record.state == RecordState::Busy && self.address(record.position) == address);
        found.ok_or(Errno::EINVAL)?.state = state;
        Ok(())
    }

    /// Copies a record in from memory that a program passes.
    ///
    /// # Errors
    /// As [`Ring::reserve`]; `EFAULT` when the memory is not the program's.
    pub fn output(&self, memory: &Memory, from: u64, bytes: u64) -> Result<(), Errno> {
        let to = self.reserve(bytes)?;
        let offset = (to - self.block.address()) as usize;
        let copied = memory.copy_to(from, &self.block, offset, bytes as usize);
        self.commit(to, copied.is_none())?;
        copied.ok_or(Errno::EFAULT)
    }

    /// `bpf_ringbuf_query`.
    pub fn query(&self, flag: u64) -> u64 {
        let queue = self.lock();
        match flag {
            0 => queue.producer - queue.consumer,
            1 => self.bytes,
            2 => queue.consumer,
            3 => queue.producer,
            _ => 0,
        }
    }

    fn content(&self, record: &Record) -> Vec<u8> {
        let mut bytes = vec![0; record.bytes as usize];
        self.block.read(self.offset(record.position), &mut bytes);
        bytes
    }

    /// Takes all records up to the first that is still reserved, as a consumer in user space would.
    pub fn drain(&self) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        let mut queue = self.lock();
        while let Some(record) = queue.records.front().copied().filter(|record| record.state != RecordState::Busy) {
            queue.records.pop_front();
            queue.consumer = record.position + (record.bytes + HEADER_BYTES).next_multiple_of(8);
            if record.state == RecordState::Submitted {
                taken.push(self.content(&record));
            }
        }
        taken
    }

    /// The records [`Ring::drain`] would take, left in place.
    pub fn peek(&self) -> Vec<Vec<u8>> {
        let queue = self.lock();
        let ready = queue.records.iter().take_while(|record| record.state != RecordState::Busy);
        ready.filter(|record| record.state == RecordState::Submitted).map(|record| self.content(record)).collect()
    }
}
