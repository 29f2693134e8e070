//! Socket buffers grow and shrink: room at both ends and between headers, VLAN tags.

use super::socket_buffer::{HEADROOM, IPV4, IPV6, SERVICE_VLAN, VLAN, VLAN_BYTES, ethernet_protocol};
use super::{ETHERNET_BYTES, Packet};
use crate::errno::Errno;
use crate::memory::Memory;

/// The longest buffer programs may make (`SKB_MAX_ALLOC`).
const MAX_BYTES: usize = 16384 - 320;

impl Packet {
    fn network_offset(&self) -> usize {
        self.headers.network.saturating_sub(self.data)
    }

    /// `bpf_skb_change_tail`.
    ///
    /// # Errors
    /// `EINVAL` for a length out of bounds, `ENOTSUPP` for an encapsulated packet.
    pub fn change_tail(&mut self, memory: &mut Memory, length: u32) -> Result<(), Errno> {
        let least = match self.headers.transport {
            Some(transport) if transport > self.data => transport - self.data,
            _ => self.network_offset(),
        };
        let length = length as usize;
        if length > MAX_BYTES || length < least || self.data + length > self.hard_end {
            return Err(Errno::EINVAL);
        }
        if self.headers.encapsulated {
            return Err(Errno::ENOTSUPP);
        }
        let end = self.data + length;
        if end > self.end {
            memory.region_mut(self.buffer)[self.end..end].fill(0);
        }
        self.end = end;
        self.publish(memory);
        Ok(())
    }

    /// `bpf_skb_change_head`: zero bytes in front, where the MAC header is then.
    ///
    /// # Errors
    /// `EINVAL` for too many bytes.
    pub fn change_head(&mut self, memory: &mut Memory, bytes: u32) -> Result<(), Errno> {
        if self.len() as u64 + u64::from(bytes) > MAX_BYTES as u64 {
            return Err(Errno::EINVAL);
        }
        let start = self.data.checked_sub(bytes as usize).ok_or(Errno::ENOMEM)?;
        self.take_headroom(bytes as usize);
        memory.region_mut(self.buffer)[start..self.data].fill(0);
        self.data = start;
        self.headers.mac = start;
        self.publish(memory);
        Ok(())
    }

    /// Accounts for bytes in front as the kernel does. Where it must make a larger buffer, it moves the transport
    /// header's position along even if there is none (the position's "unset" value wraps around), and from then on
    /// takes it for set; `bpf_skb_change_tail` goes by it.
    fn take_headroom(&mut self, bytes: usize) {
        let mut headroom = self.headers.headroom;
        if bytes > headroom {
            let added = (bytes - headroom).next_multiple_of(HEADROOM);
            headroom += added;
            let head = self.data.saturating_sub(headroom);
            self.headers.transport.get_or_insert(head + added - 1);
        }
        self.headers.headroom = headroom - bytes;
    }

    /// Opens a gap of zeros `at` bytes into the packet, moving what is before it forward. In a packet that was cut shorter
    /// than `at`, the kernel moves the bytes behind its end along, which are then the packet's last (`bpf_skb_net_hdr_push`).
    fn open_gap(&mut self, memory: &mut Memory, at: usize, bytes: usize) -> Result<(), Errno> {
        let start = self.data.checked_sub(bytes).ok_or(Errno::ENOMEM)?;
        let moved = self.data + at;
        if moved > self.hard_end {
            return Err(Errno::EINVAL);
        }
        self.touched.end = self.touched.end.max(moved);
        self.take_headroom(bytes);
        let buffer = memory.region_mut(self.buffer);
        buffer.copy_within(self.data..self.data + at, start);
        buffer[start + at..start + at + bytes].fill(0);
        self.data = start;
        self.headers.mac -= bytes;
        self.headers.network -= bytes;
        Ok(())
    }

    /// Takes bytes out `at` bytes into the packet.
    fn close_gap(&mut self, memory: &mut Memory, at: usize, bytes: usize) -> Result<(), Errno> {
        if at + bytes > self.len() {
            return Err(Errno::ENOMEM);
        }
        memory.region_mut(self.buffer).copy_within(self.data..self.data + at, self.data + bytes);
        self.data += bytes;
        self.headers.headroom += bytes;
        self.headers.mac += bytes;
        self.headers.network += bytes;
        Ok(())
    }

    fn mac_header_bytes(&self) -> usize {
        self.headers.network.saturating_sub(self.headers.mac)
    }

    /// `bpf_skb_change_proto`: between IPv4 and IPv6, making room or taking it.
    ///
    /// # Errors
    /// `ENOTSUPP` for other protocols.
    pub fn change_protocol(&mut self, memory: &mut Memory, protocol: u16) -> Result<(), Errno> {
        const DIFFERENCE: usize = 20;
        let at = self.mac_header_bytes();
        match (self.headers.protocol, protocol) {
            (IPV4, IPV6) => self.open_gap(memory, at, DIFFERENCE)?,
            (IPV6, IPV4) => self.close_gap(memory, at, DIFFERENCE)?,
            _ => return Err(Errno::ENOTSUPP),
        }
        self.headers.protocol = protocol;
        self.headers.hash = 0;
        self.publish(memory);
        Ok(())
    }

    /// `bpf_skb_adjust_room`.
    ///
    /// # Errors
    /// `EINVAL`, `EFAULT`, `ENOTSUPP` as the kernel's.
    pub fn adjust_room(&mut self, memory: &mut Memory, difference: i32, mode: u32, flags: u64) -> Result<(), Errno> {
        let room = RoomFlags(flags);
        room.check()?;
        let bytes = difference.unsigned_abs();
        if bytes > 0xfff {
            return Err(Errno::EFAULT);
        }
        let network_bytes = match self.headers.protocol {
            IPV4 => 20,
            IPV6 => 40,
            _ => return Err(Errno::ENOTSUPP),
        };
        let at = match mode {
            0 => self.mac_header_bytes() + network_bytes,
            1 => self.mac_header_bytes(),
            _ => return Err(Errno::ENOTSUPP),
        };
        let shrink = difference < 0;
        let least = room.least_after_decapsulation(shrink)?.unwrap_or(network_bytes);
        let now = self.len() - self.network_offset();
        let bytes = bytes as usize;
        let refused = if shrink { bytes >= now || now - bytes < least } else { self.len() + bytes > MAX_BYTES };
        if refused {
            return Err(Errno::ENOTSUPP);
        }
        if shrink {
            self.shrink(memory, at, bytes, room)?
        } else {
            self.grow(memory, at, bytes, room)?
        }
        self.publish(memory);
        Ok(())
    }

    fn grow(&mut self, memory: &mut Memory, at: usize, bytes: usize, room: RoomFlags) -> Result<(), Errno> {
        let encapsulate = room.has(RoomFlags::ENCAP_L3);
        let mac_bytes = self.mac_header_bytes();
        if encapsulate {
            room.check_encapsulation(bytes)?;
            if self.headers.encapsulated {
                return Err(Errno::EALREADY);
            }
        }
        self.open_gap(memory, at, bytes)?;
        if encapsulate {
            self.headers.encapsulated = true;
            self.headers.network = self.data + mac_bytes;
            if room.has(RoomFlags::ENCAP_L4) {
                let network = if room.has(RoomFlags::ENCAP_L3_IPV6) { 40 } else { 20 };
                self.headers.transport = Some(self.data + mac_bytes + network);
            }
            self.headers.protocol = if room.has(RoomFlags::ENCAP_L3_IPV6) { IPV6 } else { IPV4 };
        }
        Ok(())
    }

    fn shrink(&mut self, memory: &mut Memory, at: usize, bytes: usize, room: RoomFlags) -> Result<(), Errno> {
        if room.0 & !(RoomFlags::FIXED_GSO | RoomFlags::DECAP_L3 | RoomFlags::NO_CHECKSUM_RESET) != 0 {
            return Err(Errno::EINVAL);
        }
        self.close_gap(memory, at, bytes)?;
        if room.has(RoomFlags::DECAP_L3) {
            self.headers.protocol = if room.has(RoomFlags::DECAP_L3_IPV6) { IPV6 } else { IPV4 };
        }
        Ok(())
    }

    /// `bpf_skb_vlan_push`: the new tag is held outside the bytes; one that was there moves into them.
    ///
    /// # Errors
    /// `ENOMEM` when there is no room.
    pub fn vlan_push(&mut self, memory: &mut Memory, protocol: u16, tci: u16) -> Result<(), Errno> {
        let protocol = if matches!(protocol, VLAN | SERVICE_VLAN) { protocol } else { VLAN };
        if let Some((held, held_tci)) = self.headers.vlan {
            let addresses = ETHERNET_BYTES - 2;
            self.open_gap(memory, addresses, VLAN_BYTES)?;
            let at = self.data + addresses;
            let tag = memory.region_mut(self.buffer);
            tag[at..at + 2].copy_from_slice(&held.to_be_bytes());
            tag[at + 2..at + 4].copy_from_slice(&held_tci.to_be_bytes());
            self.headers.protocol = held;
        }
        self.headers.vlan = Some((protocol, tci));
        self.publish(memory);
        Ok(())
    }

    /// `bpf_skb_vlan_pop`.
    ///
    /// # Errors
    /// `ENOMEM` when the tag is cut off.
    pub fn vlan_pop(&mut self, memory: &mut Memory) -> Result<(), Errno> {
        let tagged = |protocol| matches!(protocol, VLAN | SERVICE_VLAN);
        if self.headers.vlan.take().is_none() {
            if !tagged(self.headers.protocol) {
                return Ok(());
            }
            self.take_tag(memory)?;
        }
        if tagged(self.headers.protocol) {
            let protocol = self.headers.protocol;
            let tci = self.take_tag(memory)?;
            self.headers.vlan = Some((protocol, tci));
        }
        self.publish(memory);
        Ok(())
    }

    fn take_tag(&mut self, memory: &mut Memory) -> Result<u16, Errno> {
        let bytes = self.bytes(memory);
        let tag = bytes.get(ETHERNET_BYTES..ETHERNET_BYTES + VLAN_BYTES).ok_or(Errno::ENOMEM)?;
        let tci = u16::from_be_bytes([tag[0], tag[1]]);
        self.close_gap(memory, ETHERNET_BYTES - 2, VLAN_BYTES)?;
        self.headers.protocol = ethernet_protocol(self.bytes(memory));
        Ok(tci)
    }
}

/// Flags of `bpf_skb_adjust_room`.
#[derive(Clone, Copy)]
struct RoomFlags(u64);

impl RoomFlags {
    const FIXED_GSO: u64 = 1 << 0;
    const ENCAP_L3_IPV4: u64 = 1 << 1;
    const ENCAP_L3_IPV6: u64 = 1 << 2;
    const ENCAP_L4_GRE: u64 = 1 << 3;
    const ENCAP_L4_UDP: u64 = 1 << 4;
    const NO_CHECKSUM_RESET: u64 = 1 << 5;
    const ENCAP_L2_ETHERNET: u64 = 1 << 6;
    const DECAP_L3_IPV4: u64 = 1 << 7;
    const DECAP_L3_IPV6: u64 = 1 << 8;
    const ENCAP_L3: u64 = RoomFlags::ENCAP_L3_IPV4 | RoomFlags::ENCAP_L3_IPV6;
    const ENCAP_L4: u64 = RoomFlags::ENCAP_L4_GRE | RoomFlags::ENCAP_L4_UDP;
    const DECAP_L3: u64 = RoomFlags::DECAP_L3_IPV4 | RoomFlags::DECAP_L3_IPV6;
    /// The inner MAC header's length is in the upper byte.
    const L2_SHIFT: u32 = 56;

    fn has(self, flags: u64) -> bool {
        self.0 & flags != 0
    }

    fn check(self) -> Result<(), Errno> {
        let known = (1 << 9) - 1 | 0xff << RoomFlags::L2_SHIFT;
        if self.0 & !known == 0 { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn least_after_decapsulation(self, shrink: bool) -> Result<Option<usize>, Errno> {
        match self.0 & RoomFlags::DECAP_L3 {
            0 => Ok(None),
            _ if !shrink => Err(Errno::EINVAL),
            RoomFlags::DECAP_L3_IPV4 => Ok(Some(20)),
            RoomFlags::DECAP_L3_IPV6 => Ok(Some(40)),
            _ => Err(Errno::EINVAL),
        }
    }

    fn check_encapsulation(self, bytes: usize) -> Result<(), Errno> {
        let both = |flags: u64| self.0 & flags == flags;
        let inner_mac = (self.0 >> RoomFlags::L2_SHIFT) as usize;
        if both(RoomFlags::ENCAP_L3)
            || both(RoomFlags::ENCAP_L4)
            || (self.has(RoomFlags::ENCAP_L2_ETHERNET) && inner_mac < ETHERNET_BYTES)
            || inner_mac > bytes
        {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}
