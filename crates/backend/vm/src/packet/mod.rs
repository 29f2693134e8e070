//! The packet and its context, in memory below 4 GiB.
//!
//! The kernel rewrites every access to `xdp_md` and `__sk_buff`, because the values are in several of its own
//! structures. Here the context is the structure of the user-space header, in memory, and accesses need no rewriting:
//! the 32-bit fields `data` and `data_end` hold real addresses because the packet is below 4 GiB.
//!
//! ```text
//!   context  | data | data_end | data_meta | ...         struct xdp_md or struct __sk_buff
//!                |        \_____________________________
//!   buffer   |   |  headroom    | meta | packet bytes   | tailroom |
//!            0   |______________|______^                ^          ^ hard_end
//! ```
//!
//! The space before and after the packet is as in `BPF_PROG_TEST_RUN`, so that resizing succeeds and fails in the same
//! cases.

mod resize;
mod socket_buffer;
mod xdp;

use std::io;
use std::ops::Range;

use kiln_platform::ProgramType;

use crate::memory::{Access, Memory, Placement, RegionId};
pub(crate) use socket_buffer::socket;
pub use socket_buffer::{Checksum, Headers, field};
pub use xdp::Md;

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes set aside for a context: the largest a program type has, and a socket behind it.
const CONTEXT_BYTES: usize = 64 * 1024 + 256;
/// Where the socket that `__sk_buff` points to is, in the context's region.
const SOCKET_OFFSET: usize = 64 * 1024;
/// The whole packet buffer: what a socket buffer may grow to in either direction.
const BUFFER_BYTES: usize = 4 * 64 * 1024;

/// What kind of packet a program is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// None: the context is all there is.
    None,
    /// An XDP frame.
    Xdp,
    /// A socket buffer.
    SocketBuffer,
}

impl Kind {
    /// What a program of this type is given.
    pub fn of(program_type: ProgramType) -> Kind {
        match program_type {
            ProgramType::Xdp => Kind::Xdp,
            other if kiln_platform::SOCKET_BUFFER.contains(other) => Kind::SocketBuffer,
            _ => Kind::None,
        }
    }
}

/// A packet with its context.
#[derive(Debug)]
pub struct Packet {
    kind: Kind,
    context: RegionId,
    context_address: u64,
    buffer: RegionId,
    buffer_address: u64,
    /// Offsets in the buffer: of the metadata, the packet and its end.
    meta: usize,
    data: usize,
    end: usize,
    /// Where the packet may begin and end at most.
    hard_start: usize,
    hard_end: usize,
    headers: Headers,
    context_bytes: usize,
    /// Bytes of the buffer that may not be zeros: what programs saw of it since it was last cleared.
    touched: Range<usize>,
    /// Bytes at the context's start that may not be zeros.
    touched_context: usize,
}

/// Bytes of an 802.1Q tag.
const VLAN_TAG_BYTES: usize = 4;

/// Contexts that programs may write are no longer than this, but for those of system calls.
const WRITABLE_CONTEXT_BYTES: usize = 1024;

/// Why an input cannot be turned into a packet and a context. The kernel's test run answers `EINVAL`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InputError {
    /// Too few bytes.
    #[error("the packet has {bytes} bytes; at least {least} are needed")]
    Short {
        /// Bytes given.
        bytes: usize,
        /// Bytes needed.
        least: usize,
    },
    /// Too many bytes.
    #[error("the packet has {bytes} bytes; at most {most} fit one buffer")]
    Long {
        /// Bytes given.
        bytes: usize,
        /// Bytes that fit.
        most: usize,
    },
    /// A context of the wrong size or with fields that may not be set.
    #[error("the context is not valid: {0}")]
    Context(&'static str),
}

impl Packet {
    /// Space for any packet.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn new(memory: &mut Memory) -> io::Result<Packet> {
        let bytes = [CONTEXT_BYTES, BUFFER_BYTES];
        let [context, buffer] = memory.allocate_together(bytes, Placement::Low, Access::ReadWrite)?;
        Ok(Packet {
            kind: Kind::None,
            context,
            context_address: memory.start(context),
            buffer,
            buffer_address: memory.start(buffer),
            meta: 0,
            data: 0,
            end: 0,
            hard_start: 0,
            hard_end: 0,
            headers: Headers::default(),
            context_bytes: 0,
            touched: 0..0,
            touched_context: 0,
        })
    }

    /// Sets up the input of a run; `context` is what `ctx_in` of `BPF_PROG_TEST_RUN` would be, `reach` how much of it the
    /// program may access, if that is known.
    ///
    /// # Errors
    /// [`InputError`].
    #[inline]
    pub fn prepare(
        &mut self,
        memory: &mut Memory,
        program_type: ProgramType,
        bytes: &[u8],
        context: Option<&[u8]>,
        reach: Option<u32>,
    ) -> Result<(), InputError> {
        self.kind = Kind::of(program_type);
        if self.kind != Kind::None {
            self.touched_context = self.touched_context.max(WRITABLE_CONTEXT_BYTES);
        }
        match self.kind {
            Kind::Xdp => self.prepare_xdp(memory, bytes, context),
            Kind::SocketBuffer => self.prepare_socket_buffer(memory, program_type, bytes, context),
            Kind::None => self.prepare_context(memory, program_type, context.unwrap_or_default(), reach),
        }
    }

    /// Sets up a run whose context is not in this memory.
    #[inline]
    pub(crate) fn prepare_none(&mut self, memory: &mut Memory) {
        if self.kind != Kind::None || self.end != 0 {
            self.kind = Kind::None;
            (self.meta, self.data, self.end) = (0, 0, 0);
            memory.set_window(self.buffer, 0..0);
        }
    }

    fn prepare_context(
        &mut self,
        memory: &mut Memory,
        program_type: ProgramType,
        context: &[u8],
        reach: Option<u32>,
    ) -> Result<(), InputError> {
        if context.len() > SOCKET_OFFSET {
            return Err(InputError::Context("it is too long"));
        }
        let region = memory.region_mut(self.context);
        region[..self.touched_context].fill(0);
        region[..context.len()].copy_from_slice(context);
        self.touched_context = match program_type {
            ProgramType::Syscall => {
                reach.map_or(SOCKET_OFFSET, |reach| context.len().max(reach as usize).min(SOCKET_OFFSET))
            }
            _ => context.len().max(WRITABLE_CONTEXT_BYTES),
        };
        self.context_bytes = context.len();
        (self.meta, self.data, self.end) = (0, 0, 0);
        // Tracing programs may read behind what was given: the kernel's records are there, ours are zeros.
        memory.set_window(self.context, 0..SOCKET_OFFSET);
        memory.set_window(self.buffer, 0..0);
        Ok(())
    }

    /// Opens `bytes`, until the next `prepare`, to a program whose hook takes neither an XDP frame nor a socket buffer.
    /// Returns their addresses.
    pub(crate) fn open(&mut self, memory: &mut Memory, bytes: &[u8]) -> Range<u64> {
        (self.data, self.end) = (0, bytes.len().min(BUFFER_BYTES));
        self.touched = 0..self.touched.end.max(self.end);
        self.meta = 0;
        memory.region_mut(self.buffer)[..self.end].copy_from_slice(&bytes[..self.end]);
        memory.set_window(self.buffer, 0..self.end);
        self.buffer_address..self.buffer_address + self.end as u64
    }

    /// Whether nobody wrote to the buffer outside of what programs saw of it, or behind the context.
    pub(crate) fn outside_is_clean(&self, memory: &Memory) -> bool {
        let (buffer, context) = (memory.region(self.buffer), memory.region(self.context));
        let zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        zero(&buffer[..self.touched.start])
            && zero(&buffer[self.touched.end..])
            && zero(&context[self.touched_context..SOCKET_OFFSET])
    }

    /// Says that programs may have written any byte of the context.
    pub(crate) fn touch_context(&mut self) {
        self.touched_context = SOCKET_OFFSET;
    }

    /// Sets bytes of the context.
    pub(crate) fn put_in_context(&self, memory: &mut Memory, offset: usize, value: &[u8]) {
        memory.region_mut(self.context)[offset..offset + value.len()].copy_from_slice(value);
    }

    /// Where the context is.
    pub(crate) fn context_addresses(&self) -> Range<u64> {
        self.context_address..self.context_address + SOCKET_OFFSET as u64
    }

    /// What R1 is at the start.
    pub fn context_address(&self) -> u64 {
        self.context_address
    }

    /// What the packet is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The packet's length in bytes, without metadata.
    pub fn len(&self) -> usize {
        self.end - self.data
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.end == self.data
    }

    /// The packet's bytes, without metadata.
    pub fn bytes<'m>(&self, memory: &'m Memory) -> &'m [u8] {
        &memory.region(self.buffer)[self.data..self.end]
    }

    /// The packet's bytes, to be written.
    pub fn bytes_mut<'m>(&self, memory: &'m mut Memory) -> &'m mut [u8] {
        &mut memory.region_mut(self.buffer)[self.data..self.end]
    }

    /// Bytes of the packet's buffer at an address, also those before the first that programs see.
    pub fn outside_window<'m>(&self, memory: &'m Memory, address: u64, bytes: usize) -> Option<&'m [u8]> {
        let at = usize::try_from(address.checked_sub(self.buffer_address)?).ok()?;
        memory.region(self.buffer).get(at..at.checked_add(bytes)?)
    }

    /// The address of a byte of the packet.
    pub fn address(&self, offset: usize) -> u64 {
        self.buffer_address + (self.data + offset) as u64
    }

    /// What `data_out` of a test run is.
    pub fn output(&self, memory: &Memory) -> Vec<u8> {
        match self.kind {
            Kind::None => Vec::new(),
            Kind::Xdp => memory.region(self.buffer)[self.meta..self.end].to_vec(),
            Kind::SocketBuffer => self.socket_buffer_output(memory),
        }
    }

    /// Copies the packet, without metadata, to the slice that it was made of. Bytes before what the program's hook sees
    /// stay as they are. Returns the packet's length if it is another one now.
    #[inline]
    pub(crate) fn read_packet(&self, memory: &Memory, into: &mut [u8]) -> Result<(), usize> {
        let pulled = match self.kind {
            Kind::None => return Ok(()),
            Kind::SocketBuffer if !self.headers.is_l2 => ETHERNET_BYTES,
            Kind::Xdp | Kind::SocketBuffer => 0,
        };
        let bytes = self.bytes(memory);
        match into.get_mut(pulled..) {
            Some(seen) if seen.len() == bytes.len() => seen.copy_from_slice(bytes),
            _ => return Err(pulled + bytes.len()),
        }
        Ok(())
    }

    /// Copies the beginning of the context, of a hook without packets, to the slice that it was made of.
    #[inline]
    pub(crate) fn read_context(&self, memory: &Memory, into: &mut [u8]) {
        let bytes = into.len().min(self.context_bytes);
        into[..bytes].copy_from_slice(&memory.region(self.context)[..bytes]);
    }

    /// What `ctx_out` of a test run is.
    pub fn context_output(&self, memory: &Memory) -> Vec<u8> {
        match self.kind {
            Kind::None => memory.region(self.context)[..self.context_bytes].to_vec(),
            Kind::Xdp => self.xdp_context_output(memory),
            Kind::SocketBuffer => self.socket_buffer_context_output(memory),
        }
    }

    fn get_u32(&self, memory: &Memory, offset: usize) -> u32 {
        let bytes = &memory.region(self.context)[offset..offset + 4];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn set_u32(&self, memory: &mut Memory, offset: usize, value: u32) {
        memory.region_mut(self.context)[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn low_address(&self, offset: usize) -> u32 {
        (self.buffer_address + offset as u64) as u32
    }

    /// Tells the program where the packet is now, after it was moved or resized.
    fn publish(&mut self, memory: &mut Memory) {
        if self.kind == Kind::SocketBuffer {
            self.meta = self.data;
        }
        let range: Range<usize> = self.meta..self.end;
        // Helpers write the link-layer header, which may lie before what the program sees.
        let start = range.start.saturating_sub(ETHERNET_BYTES + VLAN_TAG_BYTES);
        self.touched = self.touched.start.min(start)..self.touched.end.max(range.end);
        memory.set_window(self.buffer, range);
        match self.kind {
            Kind::Xdp => {
                let context = &mut memory.region_mut(self.context)[..12];
                for (word, offset) in context.chunks_exact_mut(4).zip([self.data, self.end, self.meta]) {
                    word.copy_from_slice(&self.low_address(offset).to_ne_bytes());
                }
            }
            Kind::SocketBuffer => self.publish_socket_buffer(memory),
            Kind::None => {}
        }
    }
}
