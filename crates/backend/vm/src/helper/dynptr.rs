//! Dynptrs: memory whose size is known at run time only, named by 16 bytes on the program's stack.
//!
//! ```text
//!   struct bpf_dynptr   | data: u64                           | kind and size: u32 | offset: u32 |
//!                         Local, Record: the first address      bit 31: read-only; 28 to 30: kind; 24 bits: size
//!                         others: the context's address
//! ```
//!
//! The verifier keeps programs from writing these bytes. Nothing here relies on that: [`crate::memory::Memory`] checks
//! each address that comes of them, a packet's bytes are looked for where the packet is now, and only a record that this
//! run has reserved can be submitted.

use kiln_platform::PacketAccess;
use kiln_program::interpret::Fault;

use super::answer::{Answer, done, refuse, value};
use super::{ring, socket_buffer};
use crate::errno::Errno;
use crate::packet;
use crate::state::{Reply, State};

/// Bytes of `struct bpf_dynptr`.
const BYTES: u64 = 16;
/// Bytes that a dynptr has at most (kernel `DYNPTR_MAX_SIZE`).
const MOST_BYTES: u32 = (1 << 24) - 1;
const READ_ONLY: u32 = 1 << 31;
const KIND_SHIFT: u32 = 28;
/// Bytes that are copied at a time where not all of them are there, as in the kernel.
const CHUNK_BYTES: u32 = 256;

/// What a dynptr leads to, numbered as in the kernel (`enum bpf_dynptr_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Memory of the program's.
    Local = 1,
    /// A reserved record of a ring buffer.
    Record,
    /// A socket buffer's bytes.
    SocketBuffer,
    /// An XDP frame's bytes.
    Frame,
    /// The metadata before a socket buffer's bytes. The VM's socket buffers have none.
    Metadata,
}

/// A dynptr that is not null.
#[derive(Clone, Copy, Debug)]
struct Dynptr {
    kind: Kind,
    read_only: bool,
    data: u64,
    offset: u32,
    size: u32,
}

impl Dynptr {
    /// The dynptr that a program passes; `None` is the null one.
    fn at(state: &State, address: u64) -> Result<Option<Dynptr>, Fault> {
        let bytes = state.bytes(address, BYTES)?;
        let word =
            |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes);
        let data = u64::from(word(4)) << 32 | u64::from(word(0));
        if data == 0 {
            return Ok(None);
        }
        let (packed, offset) = (word(8), word(12));
        let kind = match ((packed & !READ_ONLY) >> KIND_SHIFT, state.packet.kind()) {
            (1, _) => Kind::Local,
            (2, _) => Kind::Record,
            (3, packet::Kind::SocketBuffer) => Kind::SocketBuffer,
            (4, packet::Kind::Xdp) => Kind::Frame,
            (5, packet::Kind::SocketBuffer) => Kind::Metadata,
            _ => return Err(Fault::Memory { address, bytes: BYTES }),
        };
        Ok(Some(Dynptr { kind, read_only: packed & READ_ONLY != 0, data, offset, size: packed & MOST_BYTES }))
    }

    /// A part of a dynptr that a program passes, if it has that many bytes at the offset.
    fn part(state: &State, address: u64, offset: u32, bytes: u32) -> Result<Option<Dynptr>, Fault> {
        Ok(Dynptr::at(state, address)?.filter(|dynptr| dynptr.holds(offset, bytes)))
    }

    fn put(self, state: &mut State, address: u64) -> Result<(), Fault> {
        let flag = if self.read_only { READ_ONLY } else { 0 };
        let packed = flag | (self.kind as u32) << KIND_SHIFT | self.size;
        let mut bytes = [0; BYTES as usize];
        bytes[..8].copy_from_slice(&self.data.to_le_bytes());
        bytes[8..12].copy_from_slice(&packed.to_le_bytes());
        bytes[12..].copy_from_slice(&self.offset.to_le_bytes());
        state.write(address, &bytes)
    }

    fn holds(&self, offset: u32, bytes: u32) -> bool {
        holds(self.size, offset, bytes)
    }

    /// The address of bytes that the dynptr holds. A packet may have become shorter than its dynptr says.
    fn address(&self, state: &State, offset: u32, bytes: u32) -> Result<u64, Errno> {
        let offset = self.offset.wrapping_add(offset);
        match self.kind {
            Kind::Local | Kind::Record => Ok(self.data.wrapping_add(offset.into())),
            Kind::SocketBuffer => state.packet.range(offset, bytes),
            Kind::Frame => state.packet.xdp_range(offset, bytes),
            Kind::Metadata => Ok(state.packet.address(0)),
        }
    }

    /// Copies from the dynptr to the program's memory.
    fn read(&self, state: &mut State, offset: u32, to: u64, bytes: u32) -> Answer {
        if !self.holds(offset, bytes) {
            return refuse(Errno::E2BIG);
        }
        match self.address(state, offset, bytes) {
            Ok(from) => state.copy(from, to, bytes.into())?,
            Err(errno) => {
                if self.kind == Kind::SocketBuffer {
                    state.clear(to, bytes.into())?;
                }
                return refuse(errno);
            }
        }
        value(0)
    }

    /// Copies from the program's memory to the dynptr.
    fn write(&self, state: &mut State, offset: u32, from: u64, bytes: u32, flags: u64) -> Answer {
        if self.read_only {
            return refuse(Errno::EINVAL);
        }
        if !self.holds(offset, bytes) {
            return refuse(Errno::E2BIG);
        }
        if self.kind == Kind::SocketBuffer {
            let offset = self.offset.wrapping_add(offset);
            return socket_buffer::store_bytes(state, [0, offset.into(), from, bytes.into(), flags]);
        }
        if flags != 0 {
            return refuse(Errno::EINVAL);
        }
        match self.address(state, offset, bytes) {
            Ok(to) => state.copy(from, to, bytes.into())?,
            Err(errno) => return refuse(errno),
        }
        value(0)
    }
}

fn holds(size: u32, offset: u32, bytes: u32) -> bool {
    size.checked_sub(bytes).is_some_and(|last| offset <= last)
}

/// Makes a dynptr, or writes the null one.
fn make(state: &mut State, address: u64, made: Result<Dynptr, Errno>) -> Answer {
    match made {
        Ok(dynptr) => dynptr.put(state, address)?,
        Err(_) => state.clear(address, BYTES)?,
    }
    done(made.map(|_| ()))
}

pub fn from_mem(state: &mut State, [data, size, flags, address, _]: [u64; 5]) -> Answer {
    let size = size as u32;
    let made = match flags {
        _ if size > MOST_BYTES => Err(Errno::E2BIG),
        0 => Ok(Dynptr { kind: Kind::Local, read_only: false, data, offset: 0, size }),
        _ => Err(Errno::EINVAL),
    };
    make(state, address, made)
}

pub fn from_socket_buffer(state: &mut State, [_, flags, address, ..]: [u64; 5]) -> Answer {
    let access = state.running.map(|program_type| program_type.packet_access());
    let (size, read_only) = (state.packet.len(), access != Some(PacketAccess::ReadWrite));
    of_packet(state, Kind::SocketBuffer, size, read_only, flags, address)
}

pub fn from_frame(state: &mut State, [_, flags, address, ..]: [u64; 5]) -> Answer {
    let size = state.packet.len();
    of_packet(state, Kind::Frame, size, false, flags, address)
}

pub fn from_metadata(state: &mut State, [_, flags, address, ..]: [u64; 5]) -> Answer {
    of_packet(state, Kind::Metadata, 0, false, flags, address)
}

fn of_packet(state: &mut State, kind: Kind, size: usize, read_only: bool, flags: u64, address: u64) -> Answer {
    // Tracing programs pass the kernel's socket buffers.
    let expected = if kind == Kind::Frame { packet::Kind::Xdp } else { packet::Kind::SocketBuffer };
    if state.packet.kind() != expected {
        return Err(Fault::Unsupported("a dynptr of a packet that is not the program's own".to_owned()));
    }
    let (data, size) = (state.packet.context_address(), size as u32);
    let made = if flags == 0 { Ok(Dynptr { kind, read_only, data, offset: 0, size }) } else { Err(Errno::EINVAL) };
    make(state, address, made)
}

pub fn reserve(state: &mut State, [map, size, flags, address, _]: [u64; 5]) -> Answer {
    let size = size as u32;
    let made = match flags {
        0 if size > MOST_BYTES => Err(Errno::E2BIG),
        0 => match ring::take(state, map, size.into())? {
            0 => Err(Errno::EINVAL),
            data => Ok(Dynptr { kind: Kind::Record, read_only: false, data, offset: 0, size }),
        },
        _ => Err(Errno::EINVAL),
    };
    make(state, address, made)
}

pub fn submit(state: &mut State, [address, ..]: [u64; 5]) -> Answer {
    give_back(state, address, false)
}

pub fn discard(state: &mut State, [address, ..]: [u64; 5]) -> Answer {
    give_back(state, address, true)
}

fn give_back(state: &mut State, address: u64, discard: bool) -> Answer {
    match Dynptr::at(state, address)? {
        Some(Dynptr { kind: Kind::Record, data, .. }) => ring::commit(state, data, discard)?,
        Some(_) => return Err(Fault::Memory { address, bytes: BYTES }),
        None => return value(0),
    };
    state.clear(address, BYTES)?;
    value(0)
}

pub fn read(state: &mut State, [to, bytes, address, offset, flags]: [u64; 5]) -> Answer {
    match Dynptr::at(state, address)?.filter(|_| flags == 0) {
        Some(dynptr) => dynptr.read(state, offset as u32, to, bytes as u32),
        None => refuse(Errno::EINVAL),
    }
}

pub fn write(state: &mut State, [address, offset, from, bytes, flags]: [u64; 5]) -> Answer {
    match Dynptr::at(state, address)? {
        Some(dynptr) => dynptr.write(state, offset as u32, from, bytes as u32, flags),
        None => refuse(Errno::EINVAL),
    }
}

/// The address of bytes that may be written, unless they are a packet's.
pub fn data(state: &mut State, [address, offset, bytes, ..]: [u64; 5]) -> Answer {
    let (offset, bytes) = (offset as u32, bytes as u32);
    let dynptr = Dynptr::part(state, address, offset, bytes)?;
    let dynptr = dynptr.filter(|dynptr| !dynptr.read_only && matches!(dynptr.kind, Kind::Local | Kind::Record));
    value(dynptr.and_then(|dynptr| dynptr.address(state, offset, bytes).ok()).unwrap_or(0))
}

/// The address of bytes, or of the buffer with a copy of them.
pub fn slice(state: &mut State, [address, offset, buffer, bytes, _]: [u64; 5]) -> Answer {
    let (offset, bytes) = (offset as u32, bytes as u32);
    let Some(dynptr) = Dynptr::part(state, address, offset, bytes)? else { return value(0) };
    match dynptr.address(state, offset, bytes) {
        Ok(address) => value(address),
        // As in the kernel: what a frame still has of them, and the rest of the buffer as it was.
        Err(_) if dynptr.kind == Kind::Frame && buffer != 0 => {
            let offset = dynptr.offset.wrapping_add(offset);
            let left = (state.packet.len() as u32).saturating_sub(offset);
            if let Ok(from) = state.packet.xdp_range(offset, left.min(bytes)) {
                state.copy(from, buffer, left.min(bytes).into())?;
            }
            value(buffer)
        }
        Err(_) => value(0),
    }
}

pub fn slice_to_write(state: &mut State, arguments: [u64; 5]) -> Answer {
    match Dynptr::at(state, arguments[0])? {
        Some(dynptr) if !dynptr.read_only => slice(state, arguments),
        _ => value(0),
    }
}

pub fn adjust(state: &mut State, [address, start, end, ..]: [u64; 5]) -> Answer {
    let (start, end) = (start as u32, end as u32);
    let dynptr = Dynptr::at(state, address)?.filter(|_| start <= end);
    let Some(dynptr) = dynptr else { return refuse(Errno::EINVAL) };
    if end > dynptr.size {
        return refuse(Errno::ERANGE);
    }
    let adjusted = Dynptr { offset: dynptr.offset.wrapping_add(start), size: end - start, ..dynptr };
    adjusted.put(state, address)?;
    value(0)
}

pub fn is_null(state: &mut State, [address, ..]: [u64; 5]) -> Answer {
    value(Dynptr::at(state, address)?.is_none().into())
}

pub fn is_read_only(state: &mut State, [address, ..]: [u64; 5]) -> Answer {
    value(Dynptr::at(state, address)?.is_some_and(|dynptr| dynptr.read_only).into())
}

/// The size; the error is a 32-bit number, too.
pub fn size(state: &mut State, [address, ..]: [u64; 5]) -> Answer {
    let error = Errno::EINVAL.value() as u32;
    value(Dynptr::at(state, address)?.map_or(error, |dynptr| dynptr.size).into())
}

pub fn clone(state: &mut State, [address, to, ..]: [u64; 5]) -> Answer {
    let dynptr = Dynptr::at(state, address)?;
    make(state, to, dynptr.ok_or(Errno::EINVAL))
}

/// Copies from one dynptr to another. If only a part of the bytes is there, it is copied in chunks up to where they end.
pub fn copy(state: &mut State, [target, target_offset, source, source_offset, bytes]: [u64; 5]) -> Answer {
    let (to_offset, from_offset, bytes) = (target_offset as u32, source_offset as u32, bytes as u32);
    let (target, source) = (Dynptr::at(state, target)?, Dynptr::at(state, source)?);
    let in_one_piece = |dynptr: Option<Dynptr>, offset: u32| {
        let dynptr = dynptr.filter(|dynptr| dynptr.holds(offset, bytes))?;
        dynptr.address(state, offset, bytes).ok()
    };
    let from = in_one_piece(source, from_offset);
    let to = in_one_piece(target.filter(|dynptr| !dynptr.read_only), to_offset);
    match (from, to) {
        (Some(from), Some(to)) => {
            state.copy(from, to, bytes.into())?;
            return value(0);
        }
        (Some(from), None) => {
            return target.map_or(refuse(Errno::EINVAL), |target| target.write(state, to_offset, from, bytes, 0));
        }
        (None, Some(to)) => {
            return source.map_or(refuse(Errno::EINVAL), |source| source.read(state, from_offset, to, bytes));
        }
        (None, None) => {}
    }
    let size = |dynptr: Option<Dynptr>| dynptr.map_or(0, |dynptr| dynptr.size);
    if !holds(size(source), from_offset, bytes) || !holds(size(target), to_offset, bytes) {
        return refuse(Errno::E2BIG);
    }
    // A null dynptr holds no bytes, so there are none to copy.
    let (Some(source), Some(target)) = (source, target) else { return value(0) };
    for at in (0..bytes).step_by(CHUNK_BYTES as usize) {
        let chunk = CHUNK_BYTES.min(bytes - at);
        let from = match source.address(state, from_offset + at, chunk) {
            Ok(from) => from,
            Err(errno) => return refuse(errno),
        };
        let answer = target.write(state, to_offset + at, from, chunk, 0)?;
        if answer != Reply::Value(0) {
            return Ok(answer);
        }
    }
    value(0)
}

/// Sets all bytes of a part to one number, in chunks up to where a packet ends now.
pub fn set(state: &mut State, [address, offset, bytes, number, _]: [u64; 5]) -> Answer {
    let (offset, bytes, number) = (offset as u32, bytes as u32, number as u8);
    let Some(dynptr) = Dynptr::at(state, address)? else {
        return if holds(0, offset, bytes) { value(0) } else { refuse(Errno::E2BIG) };
    };
    if dynptr.read_only {
        return refuse(Errno::EINVAL);
    }
    if !dynptr.holds(offset, bytes) {
        return refuse(Errno::E2BIG);
    }
    let chunk = [number; CHUNK_BYTES as usize];
    for at in (0..bytes).step_by(CHUNK_BYTES as usize) {
        let left = CHUNK_BYTES.min(bytes - at);
        match dynptr.address(state, offset + at, left) {
            Ok(to) => state.write(to, &chunk[..left as usize])?,
            Err(errno) => return refuse(errno),
        }
    }
    value(0)
}
