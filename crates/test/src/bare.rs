//! The smallest environment that a program can run in: stack, context, packet, one value per array map.
//!
//! It shares no maps, helpers or memory protection with the VM, so that a difference between the two is a finding.
//! Addresses are invented and fit 32 bits, as the context's packet fields require:
//!
//! ```text
//!   0x0001_0000 context    0x0010_0000 packet    0x0020_0000 stacks, 0x1000 apart    0x0040_0000 map values
//! ```

use kiln_isa::{Reg, Size};
use kiln_platform::helper_id::MAP_LOOKUP_ELEM;
use kiln_platform::{MapType, ProgramType};
use kiln_program::interpret::{Fault, HelperResult};
use kiln_program::{Environment, ExternId, Map, MapContents, MapId, Node, Object};

/// Where the context is.
pub const CONTEXT: u64 = 0x0001_0000;
/// Where the packet begins.
pub const PACKET: u64 = 0x0010_0000;
/// Where the stack area begins.
pub const STACK: u64 = 0x0020_0000;
/// From one frame's stack to the next.
pub const STACK_STRIDE: u64 = 0x1000;
/// Bytes in a frame (kernel `MAX_BPF_STACK`).
pub const STACK_BYTES: usize = 512;
/// Where the first map's values begin.
pub const MAP_VALUES: u64 = 0x0040_0000;
/// From one map's values to the next; a map needs fewer bytes.
pub const MAP_STRIDE: u64 = 0x0100_0000;
/// What a `ld_imm64` of a map gives, less its index.
pub const MAP: u64 = 0x7f00_0000;

/// The bytes of one run.
#[derive(Clone, Debug)]
pub struct Bare {
    /// The context structure as the program sees it.
    pub context: Vec<u8>,
    /// The packet.
    pub packet: Vec<u8>,
    /// Bytes in front of what the program sees as the packet's start: the Ethernet header, for hooks above it.
    pulled: usize,
    stacks: Vec<u8>,
    /// The values of each map that is an array, else empty.
    values: Vec<Vec<u8>>,
    maps: Vec<Map>,
}

impl Bare {
    /// For one run of a program of this type on a packet.
    pub fn new(object: &Object, program_type: Option<ProgramType>, packet: &[u8]) -> Bare {
        let values = (0..).zip(&object.maps).map(|(id, map)| initial_values(object, MapId(id), map)).collect();
        let stacks = vec![0; kiln_program::interpret::MAX_FRAMES * STACK_BYTES];
        let pulled = pulled_bytes(program_type).min(packet.len());
        let context = context(program_type, packet.len(), pulled);
        Bare { context, packet: packet.to_vec(), pulled, stacks, values, maps: object.maps.clone() }
    }

    /// The frame pointer of a depth.
    pub fn frame(depth: usize) -> u64 {
        STACK + STACK_STRIDE * depth as u64 + STACK_BYTES as u64
    }

    /// The bytes of a frame's stack, lowest first.
    pub fn stack(&self, depth: usize) -> &[u8] {
        &self.stacks[depth * STACK_BYTES..(depth + 1) * STACK_BYTES]
    }

    /// The bytes of a frame's stack, mutable, lowest first.
    pub fn stack_mut(&mut self, depth: usize) -> &mut [u8] {
        &mut self.stacks[depth * STACK_BYTES..(depth + 1) * STACK_BYTES]
    }

    /// Where the program sees the packet begin.
    pub fn packet_start(&self) -> u64 {
        PACKET + self.pulled as u64
    }

    /// Where the packet ends.
    pub fn packet_end(&self) -> u64 {
        PACKET + self.packet.len() as u64
    }

    /// The start of the map value that an address points into or just after.
    pub fn value_start(&self, map: MapId, address: u64) -> Option<u64> {
        let base = MAP_VALUES + MAP_STRIDE * u64::from(map.0);
        let stride = value_stride(self.maps.get(map.index())?);
        let offset = address.checked_sub(base).filter(|offset| *offset < MAP_STRIDE && stride > 0)?;
        Some(base + offset / stride * stride)
    }

    /// The values of a map that is an array.
    pub fn values(&self, map: MapId) -> &[u8] {
        &self.values[map.index()]
    }

    /// The bytes at an address.
    fn bytes(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let slice = |memory: &mut Vec<u8>, start: u64| -> Option<std::ops::Range<usize>> {
            let offset = usize::try_from(address.checked_sub(start)?).ok()?;
            let end = offset.checked_add(bytes)?;
            (end <= memory.len()).then_some(offset..end)
        };
        if let Some(range) = slice(&mut self.context, CONTEXT) {
            return self.context.get_mut(range);
        }
        if let Some(range) = slice(&mut self.packet, PACKET) {
            return self.packet.get_mut(range);
        }
        if (STACK..MAP_VALUES).contains(&address) {
            let (depth, offset) = ((address - STACK) / STACK_STRIDE, (address - STACK) % STACK_STRIDE);
            let (depth, offset) = (depth as usize, offset as usize);
            if offset + bytes > STACK_BYTES {
                return None;
            }
            let start = depth.checked_mul(STACK_BYTES)?.checked_add(offset)?;
            return self.stacks.get_mut(start..start + bytes);
        }
        let map = (address.checked_sub(MAP_VALUES)? / MAP_STRIDE) as usize;
        let values = self.values.get_mut(map)?;
        let range = slice(values, MAP_VALUES + MAP_STRIDE * map as u64)?;
        values.get_mut(range)
    }

    fn lookup(&mut self, map: u64, key: u64) -> Result<u64, Fault> {
        let index = map.wrapping_sub(MAP) as usize;
        let unsupported = || Fault::Unsupported("this map in the bare environment".to_owned());
        let definition = self.maps.get(index).filter(|map| is_array(map)).cloned().ok_or_else(unsupported)?;
        let key = self.load(key, Size::B4)?;
        if key >= u64::from(definition.max_entries) {
            return Ok(0);
        }
        Ok(MAP_VALUES + MAP_STRIDE * index as u64 + key * value_stride(&definition))
    }
}

fn is_array(map: &Map) -> bool {
    matches!(map.map_type, MapType::Array | MapType::PercpuArray)
}

/// Array values are eight bytes aligned, as the kernel's.
fn value_stride(map: &Map) -> u64 {
    u64::from(map.value_size).next_multiple_of(8)
}

fn initial_values(object: &Object, id: MapId, map: &Map) -> Vec<u8> {
    if let Some(table) = object.jump_table(id) {
        return table.bytes();
    }
    if !is_array(map) {
        return Vec::new();
    }
    let bytes = value_stride(map).saturating_mul(map.max_entries.into()).min(MAP_STRIDE);
    let mut values = vec![0; bytes as usize];
    if let MapContents::Data(contents) | MapContents::ReadOnly(contents) = &map.contents {
        let length = contents.len().min(values.len());
        values[..length].copy_from_slice(&contents[..length]);
    }
    values
}

/// The bytes that the kernel's test run removes before programs above the link layer run: the Ethernet header.
fn pulled_bytes(program_type: Option<ProgramType>) -> usize {
    const ETHERNET_HEADER_BYTES: usize = 14;
    match program_type {
        Some(ProgramType::Xdp | ProgramType::SchedCls | ProgramType::SchedAct) | None => 0,
        Some(program_type) if program_type.has_socket_buffer() => ETHERNET_HEADER_BYTES,
        Some(_) => 0,
    }
}

/// The fields that programs read most: packet pointers and lengths (`struct xdp_md`, `struct __sk_buff`).
fn context(program_type: Option<ProgramType>, packet_bytes: usize, pulled: usize) -> Vec<u8> {
    let mut context = vec![0; 192];
    let mut put = |offset: usize, value: u64| {
        context[offset..offset + 4].copy_from_slice(&(value as u32).to_le_bytes());
    };
    let (start, end) = (PACKET + pulled as u64, PACKET + packet_bytes as u64);
    match program_type {
        Some(ProgramType::Xdp) => {
            for (offset, value) in [(0, start), (4, end), (8, start)] {
                put(offset, value);
            }
            context.truncate(24);
        }
        Some(program_type) if program_type.has_socket_buffer() => {
            for (offset, value) in [(0, end - start), (76, start), (80, end), (140, start)] {
                put(offset, value);
            }
        }
        // The value of an option is where a packet would be.
        Some(ProgramType::CgroupSockopt) => {
            for (offset, value) in [(8, start), (16, end)] {
                put(offset, value);
            }
        }
        _ => {}
    }
    context
}

impl Environment for Bare {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        let bytes = size.bytes() as usize;
        if address.wrapping_sub(MAP) < self.maps.len() as u64 {
            return Err(Fault::Unsupported("the fields of maps in the bare environment".to_owned()));
        }
        let from = self.bytes(address, bytes).ok_or(Fault::Memory { address, bytes: bytes as u64 })?;
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(from);
        Ok(u64::from_le_bytes(value))
    }

    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        let bytes = size.bytes() as usize;
        let to = self.bytes(address, bytes).ok_or(Fault::Memory { address, bytes: bytes as u64 })?;
        to.copy_from_slice(&value.to_le_bytes()[..bytes]);
        Ok(())
    }

    fn call_helper(&mut self, helper: u32, arguments: [u64; 5]) -> Result<HelperResult, Fault> {
        match helper {
            MAP_LOOKUP_ELEM => Ok(HelperResult::Value(self.lookup(arguments[0], arguments[1])?)),
            _ => Err(Fault::Unsupported(format!("helper {helper} in the bare environment"))),
        }
    }

    fn call_kfunc(&mut self, function: ExternId, _arguments: [u64; 5]) -> Result<u64, Fault> {
        Err(Fault::Unsupported(format!("kfunc {} in the bare environment", function.0)))
    }

    fn map_address(&mut self, map: MapId) -> Result<u64, Fault> {
        Ok(MAP + u64::from(map.0))
    }

    fn map_value_address(&mut self, map: MapId, offset: u32) -> Result<u64, Fault> {
        Ok(MAP_VALUES + MAP_STRIDE * u64::from(map.0) + u64::from(offset))
    }

    fn extern_address(&mut self, symbol: ExternId) -> Result<u64, Fault> {
        Err(Fault::Unsupported(format!("extern {} in the bare environment", symbol.0)))
    }

    fn frame_pointer(&mut self, depth: usize) -> Result<u64, Fault> {
        Ok(Bare::frame(depth))
    }

    fn frame_begins(&mut self, depth: usize) {
        self.stack_mut(depth).fill(0);
    }

    fn load_packet(&mut self, offset: i64, size: Size) -> Result<Option<u64>, Fault> {
        let Ok(start) = usize::try_from(offset) else {
            return Err(Fault::Unsupported("packet loads at negative offsets in the bare environment".to_owned()));
        };
        let start = start.saturating_add(self.pulled);
        let bytes = self.packet.get(start..start.saturating_add(size.bytes() as usize));
        Ok(bytes.map(|bytes| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))))
    }
}

/// The part of an [`Environment`] that delegates to a field `bare` of type [`Bare`]: addresses, frames, packet loads.
#[macro_export]
macro_rules! as_in_bare {
    () => {
        fn map_address(&mut self, map: kiln_program::MapId) -> Result<u64, kiln_program::interpret::Fault> {
            self.bare.map_address(map)
        }
        fn map_value_address(
            &mut self,
            map: kiln_program::MapId,
            offset: u32,
        ) -> Result<u64, kiln_program::interpret::Fault> {
            self.bare.map_value_address(map, offset)
        }
        fn extern_address(&mut self, symbol: kiln_program::ExternId) -> Result<u64, kiln_program::interpret::Fault> {
            self.bare.extern_address(symbol)
        }
        fn frame_pointer(&mut self, depth: usize) -> Result<u64, kiln_program::interpret::Fault> {
            self.bare.frame_pointer(depth)
        }
        fn frame_begins(&mut self, depth: usize) {
            self.bare.frame_begins(depth);
        }
        fn load_packet(
            &mut self,
            offset: i64,
            size: kiln_isa::Size,
        ) -> Result<Option<u64>, kiln_program::interpret::Fault> {
            self.bare.load_packet(offset, size)
        }
    };
}

/// Observes every state of a run, and may change it.
pub trait Witness {
    /// Called before each instruction with the environment, the node, the frame depth and the registers.
    fn before(&mut self, bare: &mut Bare, node: &Node, depth: usize, registers: &mut [u64; Reg::COUNT]);
}

/// A [`Bare`] with a witness.
pub struct Watched<W> {
    /// The environment.
    pub bare: Bare,
    /// The witness.
    pub witness: W,
}

impl<W: Witness> Environment for Watched<W> {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        self.bare.load(address, size)
    }
    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        self.bare.store(address, size, value)
    }
    fn call_helper(&mut self, helper: u32, arguments: [u64; 5]) -> Result<HelperResult, Fault> {
        self.bare.call_helper(helper, arguments)
    }
    fn call_kfunc(&mut self, function: ExternId, arguments: [u64; 5]) -> Result<u64, Fault> {
        self.bare.call_kfunc(function, arguments)
    }
    as_in_bare!();
    fn before(&mut self, node: &Node, depth: usize, registers: &mut [u64; Reg::COUNT]) {
        self.witness.before(&mut self.bare, node, depth, registers);
    }
}
