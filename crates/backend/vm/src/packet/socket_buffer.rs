//! Socket buffers: `struct __sk_buff`, header offsets, bytes and fields.
//!
//! The fields a program may write (`mark`, `priority`, `cb`, ...) live in the context and nowhere else. The others
//! are published there after every change. What a test run sets up, and what it copies back, is as in the kernel.

use kiln_platform::ProgramType;

use super::{ETHERNET_BYTES, InputError, Packet, SOCKET_OFFSET};
use crate::abi;
use crate::errno::Errno;
use crate::memory::Memory;

/// Offsets of the fields of `struct __sk_buff`.
pub mod field {
    #![allow(missing_docs)]
    pub const LEN: usize = 0;
    pub const PKT_TYPE: usize = 4;
    pub const MARK: usize = 8;
    pub const PROTOCOL: usize = 16;
    pub const VLAN_PRESENT: usize = 20;
    pub const VLAN_TCI: usize = 24;
    pub const VLAN_PROTO: usize = 28;
    pub const PRIORITY: usize = 32;
    pub const INGRESS_IFINDEX: usize = 36;
    pub const IFINDEX: usize = 40;
    pub const TC_INDEX: usize = 44;
    pub const CB: usize = 48;
    pub const HASH: usize = 68;
    pub const DATA: usize = 76;
    pub const DATA_END: usize = 80;
    pub const FAMILY: usize = 88;
    pub const REMOTE_IP4: usize = 92;
    pub const LOCAL_IP4: usize = 96;
    pub const DATA_META: usize = 140;
    pub const TSTAMP: usize = 152;
    pub const WIRE_LEN: usize = 160;
    pub const GSO_SEGS: usize = 164;
    pub const SK: usize = 168;
    pub const GSO_SIZE: usize = 176;
    pub const HWTSTAMP: usize = 184;
    pub const END: usize = 192;
}

/// Offsets in `struct bpf_sock`.
pub(crate) mod socket {
    pub const FAMILY: usize = 4;
    pub const KIND: usize = 8;
    pub const PROTOCOL: usize = 12;
    pub const SRC_IP4: usize = 24;
    pub const SRC_IP6: usize = 28;
    pub const SRC_PORT: usize = 44;
    pub const DST_PORT: usize = 48;
    pub const DST_IP4: usize = 52;
    pub const DST_IP6: usize = 56;
    pub const STATE: usize = 72;
    pub const RX_QUEUE: usize = 76;
    pub const BYTES: usize = 80;
}

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
pub(super) const VLAN: u16 = 0x8100;
pub(super) const SERVICE_VLAN: u16 = 0x88a8;
pub(super) const VLAN_BYTES: usize = 4;
/// Where packets begin in the buffer: far from both ends, since programs may grow them, and as far into a page as the
/// test run's headroom puts them, since programs may look at addresses.
const START: usize = 96 * 1024 + 64;
/// Bytes before the Ethernet header in a test run's buffer, and the unit by which the kernel adds more.
pub(super) const HEADROOM: usize = 64;
/// The longest input: one page with 64 bytes of headroom and the shared info behind.
const MAX_INPUT: usize = 4096 - 64 - 320;

/// What the kernel keeps about a buffer beside its bytes. Header positions are offsets in the buffer's memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers {
    pub(super) mac: usize,
    pub(super) network: usize,
    pub(super) transport: Option<usize>,
    /// Ethernet type, host order.
    pub(super) protocol: u16,
    /// A tag held outside the bytes: protocol and control information, host order.
    pub(super) vlan: Option<(u16, u16)>,
    pub(super) hash: u32,
    /// Bytes before the packet in the kernel's buffer.
    pub(super) headroom: usize,
    pub(super) encapsulated: bool,
    pub(super) checksum: Checksum,
    /// The buffer begins at the MAC header.
    pub(super) is_l2: bool,
    pub(super) direct_access: bool,
}

/// What is known of the packet's checksum (`ip_summed`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// Nothing.
    #[default]
    None,
    /// Verified, for this many nested headers more.
    Unnecessary {
        /// Headers beyond the first.
        level: u8,
    },
}

impl Headers {
    /// Where the network header begins.
    pub fn network(&self) -> usize {
        self.network
    }
}

impl Packet {
    pub(super) fn prepare_socket_buffer(
        &mut self,
        memory: &mut Memory,
        program_type: ProgramType,
        bytes: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), InputError> {
        if bytes.len() < ETHERNET_BYTES {
            return Err(InputError::Short { bytes: bytes.len(), least: ETHERNET_BYTES });
        }
        if bytes.len() > MAX_INPUT {
            return Err(InputError::Long { bytes: bytes.len(), most: MAX_INPUT });
        }
        let given = context.map(check_context).transpose()?;
        let l3_bytes = bytes.len() - ETHERNET_BYTES;
        let protocol = ethernet_protocol(bytes);
        let least = match protocol {
            IPV4 => 20,
            IPV6 => 40,
            _ => 0,
        };
        if l3_bytes < least {
            return Err(InputError::Short { bytes: bytes.len(), least: least + ETHERNET_BYTES });
        }
        let is_l2 = matches!(program_type, ProgramType::SchedCls | ProgramType::SchedAct);
        let direct = is_l2
            || matches!(
                program_type,
                ProgramType::CgroupSkb | ProgramType::LwtIn | ProgramType::LwtOut | ProgramType::LwtXmit
            );
        self.headers = Headers {
            mac: START,
            network: START + ETHERNET_BYTES,
            headroom: if is_l2 { HEADROOM } else { HEADROOM + ETHERNET_BYTES },
            protocol,
            is_l2,
            direct_access: direct,
            ..Headers::default()
        };
        self.data = if is_l2 { START } else { START + ETHERNET_BYTES };
        self.meta = self.data;
        self.end = START + bytes.len();
        self.hard_start = 0;
        self.hard_end = super::BUFFER_BYTES;
        memory.region_mut(self.buffer)[START..self.end].copy_from_slice(bytes);
        self.touched = self.touched.start.min(START)..self.touched.end.max(self.end);
        self.context_bytes = if given.is_some() { field::END } else { 0 };
        let region = memory.region_mut(self.context);
        region[..field::END].fill(0);
        memory.set_window(self.context, 0..SOCKET_OFFSET + socket::BYTES);
        self.fill_context(memory, bytes, given.as_ref());
        self.fill_socket(memory, bytes);
        self.publish(memory);
        Ok(())
    }

    fn fill_context(&self, memory: &mut Memory, bytes: &[u8], given: Option<&[u8; field::END]>) {
        self.set_u32(memory, field::PKT_TYPE, packet_type(bytes));
        self.set_u32(memory, field::IFINDEX, 1);
        self.set_u32(memory, field::INGRESS_IFINDEX, 0);
        let Some(given) = given else { return };
        let word = |at: usize| u32::from_ne_bytes([given[at], given[at + 1], given[at + 2], given[at + 3]]);
        for at in [field::MARK, field::PRIORITY, field::INGRESS_IFINDEX, field::GSO_SEGS, field::GSO_SIZE] {
            self.set_u32(memory, at, word(at));
        }
        if word(field::IFINDEX) > 1 {
            self.set_u32(memory, field::IFINDEX, word(field::IFINDEX));
        }
        let wire = word(field::WIRE_LEN);
        self.set_u32(memory, field::WIRE_LEN, if wire == 0 { self.len() as u32 } else { wire });
        let region = memory.region_mut(self.context);
        for range in [field::CB..field::HASH, field::TSTAMP..field::TSTAMP + 8, field::HWTSTAMP..field::END] {
            region[range.clone()].copy_from_slice(&given[range]);
        }
    }

    /// The test run gives the buffer a closed socket with the packet's addresses.
    fn fill_socket(&self, memory: &mut Memory, bytes: &[u8]) {
        let address = self.context_address + SOCKET_OFFSET as u64;
        let region = memory.region_mut(self.context);
        region[field::SK..field::SK + 8].copy_from_slice(&address.to_ne_bytes());
        let sock = &mut region[SOCKET_OFFSET..SOCKET_OFFSET + socket::BYTES];
        sock.fill(0);
        let closed = 7u32;
        sock[socket::STATE..socket::STATE + 4].copy_from_slice(&closed.to_ne_bytes());
        sock[socket::RX_QUEUE..socket::RX_QUEUE + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
        let network = &bytes[ETHERNET_BYTES..];
        let family = match self.headers.protocol {
            IPV4 => {
                sock[socket::SRC_IP4..socket::SRC_IP4 + 4].copy_from_slice(&network[12..16]);
                sock[socket::DST_IP4..socket::DST_IP4 + 4].copy_from_slice(&network[16..20]);
                abi::AF_INET
            }
            IPV6 => {
                sock[socket::SRC_IP6..socket::SRC_IP6 + 16].copy_from_slice(&network[8..24]);
                sock[socket::DST_IP6..socket::DST_IP6 + 16].copy_from_slice(&network[24..40]);
                abi::AF_INET6
            }
            _ => abi::AF_UNSPEC,
        };
        sock[socket::FAMILY..socket::FAMILY + 4].copy_from_slice(&(family as u32).to_ne_bytes());
        self.set_u32(memory, field::FAMILY, family as u32);
        if self.headers.protocol == IPV4 {
            let word = |at: usize| u32::from_ne_bytes([network[at], network[at + 1], network[at + 2], network[at + 3]]);
            self.set_u32(memory, field::LOCAL_IP4, word(12));
            self.set_u32(memory, field::REMOTE_IP4, word(16));
        }
    }

    pub(super) fn publish_socket_buffer(&mut self, memory: &mut Memory) {
        self.set_u32(memory, field::LEN, self.len() as u32);
        self.set_u32(memory, field::PROTOCOL, self.headers.protocol.to_be().into());
        let (vlan_protocol, tci) = self.headers.vlan.unwrap_or((0, 0));
        self.set_u32(memory, field::VLAN_PRESENT, self.headers.vlan.is_some().into());
        self.set_u32(memory, field::VLAN_TCI, tci.into());
        self.set_u32(memory, field::VLAN_PROTO, vlan_protocol.to_be().into());
        self.set_u32(memory, field::HASH, self.headers.hash);
        self.set_u32(memory, field::DATA, self.low_address(self.data));
        // Where the kernel does not compute the pointers, the packet looks empty.
        let end = if self.headers.direct_access { self.low_address(self.end) } else { 0 };
        self.set_u32(memory, field::DATA_END, end);
        self.set_u32(
            memory,
            field::DATA_META,
            if self.headers.direct_access { self.low_address(self.meta) } else { 0 },
        );
    }

    pub(super) fn socket_buffer_output(&self, memory: &Memory) -> Vec<u8> {
        let mut bytes = if self.headers.is_l2 { Vec::new() } else { vec![0; ETHERNET_BYTES] };
        bytes.extend_from_slice(self.bytes(memory));
        bytes
    }

    pub(super) fn socket_buffer_context_output(&self, memory: &Memory) -> Vec<u8> {
        let region = memory.region(self.context);
        if self.context_bytes == 0 {
            return Vec::new();
        }
        let mut output = vec![0; field::END];
        for range in [
            field::MARK..field::MARK + 4,
            field::PRIORITY..field::TC_INDEX,
            field::CB..field::HASH,
            field::TSTAMP..field::SK,
            field::HWTSTAMP..field::END,
        ] {
            output[range.clone()].copy_from_slice(&region[range]);
        }
        output
    }

    /// What the kernel keeps about the buffer.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The address of `bytes` bytes at an offset from the packet's start.
    ///
    /// # Errors
    /// `EFAULT` outside the packet.
    pub fn range(&self, offset: u32, bytes: u32) -> Result<u64, Errno> {
        let end = u64::from(offset) + u64::from(bytes);
        if offset > i32::MAX as u32 || end > self.len() as u64 {
            return Err(Errno::EFAULT);
        }
        Ok(self.address(offset as usize))
    }

    /// The address of `bytes` bytes at an offset from the MAC header (`from_network` false) or network header.
    ///
    /// # Errors
    /// `EFAULT` outside the packet.
    pub fn relative_range(&self, offset: u32, bytes: u32, from_network: bool) -> Result<u64, Errno> {
        let start = if from_network { self.headers.network } else { self.headers.mac };
        let at = start + offset as usize;
        if offset > 0xffff || at + bytes as usize > self.end {
            return Err(Errno::EFAULT);
        }
        Ok(self.buffer_address + at as u64)
    }

    /// The bytes that a classic packet load speaks of: negative offsets count from the network header
    /// (`SKF_NET_OFF`) or the MAC header (`SKF_LL_OFF`).
    pub fn classic_range<'m>(&self, memory: &'m Memory, offset: i64, bytes: usize) -> Option<&'m [u8]> {
        const NETWORK: i64 = -0x10_0000;
        const LINK: i64 = -0x20_0000;
        let at = match offset {
            0.. => self.data as i64 + offset,
            NETWORK..0 => self.headers.network as i64 + offset - NETWORK,
            LINK..NETWORK => self.headers.mac as i64 + offset - LINK,
            _ => return None,
        };
        let at = usize::try_from(at).ok()?;
        let end = at.checked_add(bytes)?;
        if end > self.end || at < self.headers.mac.min(self.data) {
            return None;
        }
        memory.region(self.buffer).get(at..end)
    }

    /// The flow's hash: what was set, or one made of the addresses and ports.
    pub fn flow_hash(&mut self, memory: &mut Memory) -> u32 {
        if self.headers.hash == 0 {
            let network = self.headers.network.min(self.end);
            let bytes = &memory.region(self.buffer)[network..self.end.min(network + 40)];
            let mixed = bytes
                .iter()
                .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
            self.set_hash(memory, ((mixed >> 32) as u32).max(1));
        }
        self.headers.hash
    }

    /// Sets the flow's hash; 0 forgets it.
    pub fn set_hash(&mut self, memory: &mut Memory, hash: u32) {
        self.headers.hash = hash;
        self.set_u32(memory, field::HASH, hash);
    }

    /// The context's field at an offset of [`field`].
    pub fn field(&self, memory: &Memory, offset: usize) -> u32 {
        self.get_u32(memory, offset)
    }

    /// Sets a field of the context.
    pub fn set_field(&self, memory: &mut Memory, offset: usize, value: u32) {
        self.set_u32(memory, offset, value);
    }

    /// What is known of the packet's checksum.
    pub fn checksum_mut(&mut self) -> &mut Checksum {
        &mut self.headers.checksum
    }

    /// `bpf_skb_ecn_set_ce`: marks congestion where the packet takes part in ECN (RFC 3168); whether it is marked now.
    pub fn set_congestion_experienced(&self, memory: &mut Memory) -> bool {
        const MARK: u8 = 3;
        let protocol = self.protocol_behind_tags(memory);
        let (at, end) = (self.headers.network, self.end);
        let network = memory.region_mut(self.buffer).get_mut(at..end).unwrap_or_default();
        match (protocol, network.len()) {
            (IPV4, 20..) => {
                let old = network[1];
                if old & MARK == 0 {
                    return false;
                }
                if old & MARK != MARK {
                    network[1] |= MARK;
                    // RFC 1624: the word holding the byte grew by the difference.
                    let sum = u32::from(u16::from_be_bytes([network[10], network[11]]));
                    let grown = u32::from(network[1] - old);
                    let updated = !(!sum & 0xffff).wrapping_add(grown) & 0xffff;
                    let updated = if (!sum & 0xffff) + grown > 0xffff { updated.wrapping_sub(1) } else { updated };
                    network[10..12].copy_from_slice(&(updated as u16).to_be_bytes());
                }
                true
            }
            (IPV6, 40..) => {
                // The traffic class lies across the first two bytes; its ECN bits are bits 4 and 5 of the second.
                if network[1] >> 4 & MARK == 0 {
                    return false;
                }
                network[1] |= MARK << 4;
                true
            }
            _ => false,
        }
    }

    /// The protocol behind the VLAN tags in the bytes. (The network header's offset is not moved behind them.)
    fn protocol_behind_tags(&self, memory: &Memory) -> u16 {
        let mut protocol = self.headers.protocol;
        let mut at = self.headers.network;
        while matches!(protocol, VLAN | SERVICE_VLAN) && at + VLAN_BYTES <= self.end {
            let tag = &memory.region(self.buffer)[at..at + VLAN_BYTES];
            protocol = u16::from_be_bytes([tag[2], tag[3]]);
            at += VLAN_BYTES;
        }
        protocol
    }
}

/// The protocol as the kernel tells it from an Ethernet header.
pub(super) fn ethernet_protocol(bytes: &[u8]) -> u16 {
    const LEAST_TYPE: u16 = 0x0600;
    const NOVELL: u16 = 0x0001;
    const IEEE_802_2: u16 = 0x0004;
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    match word(ETHERNET_BYTES - 2) {
        protocol if protocol >= LEAST_TYPE => protocol,
        _ if bytes.len() >= ETHERNET_BYTES + 2 && word(ETHERNET_BYTES) == 0xffff => NOVELL,
        _ => IEEE_802_2,
    }
}

/// `PACKET_HOST`, `PACKET_MULTICAST` or `PACKET_OTHERHOST`, as the loopback device sees the packet: its address and
/// its broadcast address are both zero.
fn packet_type(bytes: &[u8]) -> u32 {
    match &bytes[..6] {
        [0, 0, 0, 0, 0, 0] => 0,
        [first, ..] if first & 1 != 0 => 2,
        _ => 3,
    }
}

/// A context may set only some fields.
fn check_context(context: &[u8]) -> Result<[u8; field::END], InputError> {
    let mut fields = [0; field::END];
    for (to, from) in fields.iter_mut().zip(context) {
        *to = *from;
    }
    let rest_is_zero = context.iter().skip(field::END).all(|byte| *byte == 0);
    let allowed = [
        field::MARK..field::MARK + 4,
        field::PRIORITY..field::TC_INDEX,
        field::CB..field::HASH,
        field::TSTAMP..field::SK,
        field::GSO_SIZE..field::GSO_SIZE + 4,
        field::HWTSTAMP..field::END,
    ];
    let set = |(at, byte): (usize, &u8)| *byte != 0 && !allowed.iter().any(|range| range.contains(&at));
    if !rest_is_zero || fields.iter().enumerate().any(set) {
        return Err(InputError::Context("it sets fields of struct __sk_buff that a test run does not take"));
    }
    Ok(fields)
}
