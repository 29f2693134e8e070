//! XDP frames: `struct xdp_md`, resizing, byte access.

use super::{ETHERNET_BYTES, InputError, Packet};
use crate::errno::Errno;
use crate::memory::Memory;

/// `struct xdp_md` as `ctx_in` gives it: `data` is the length of the metadata before the packet, `data_end` the
/// length of both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Md {
    /// Length of the metadata.
    pub data: u32,
    /// Length of metadata and packet.
    pub data_end: u32,
    /// Zero.
    pub data_meta: u32,
    /// Interface it came in by.
    pub ingress_ifindex: u32,
    /// Receive queue.
    pub rx_queue_index: u32,
    /// Interface it leaves by (devmap programs).
    pub egress_ifindex: u32,
}

/// Bytes of `struct xdp_md`.
const MD_BYTES: usize = 24;
/// Room before the packet (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = kiln_platform::limits::XDP_PACKET_HEADROOM as usize;
/// Bytes at the start of the headroom that the kernel needs (`sizeof(struct xdp_frame)`).
const FRAME_BYTES: usize = 40;
/// A frame, and what its end is kept for (`struct skb_shared_info`, aligned).
const FRAME_END: usize = 4096 - 320;
/// Metadata at most.
const MAX_META: usize = 252;

impl Md {
    fn parse(context: &[u8]) -> Result<Md, InputError> {
        if context.len() > MD_BYTES && context[MD_BYTES..].iter().any(|byte| *byte != 0) {
            return Err(InputError::Context("it is longer than struct xdp_md"));
        }
        let field = |at: usize| {
            let mut bytes = [0; 4];
            for (to, from) in bytes.iter_mut().zip(context.iter().skip(4 * at)) {
                *to = *from;
            }
            u32::from_ne_bytes(bytes)
        };
        Ok(Md {
            data: field(0),
            data_end: field(1),
            data_meta: field(2),
            ingress_ifindex: field(3),
            rx_queue_index: field(4),
            egress_ifindex: field(5),
        })
    }

    /// As bytes, for `ctx_in`.
    pub fn to_bytes(self) -> [u8; MD_BYTES] {
        let fields =
            [self.data, self.data_end, self.data_meta, self.ingress_ifindex, self.rx_queue_index, self.egress_ifindex];
        let mut bytes = [0; MD_BYTES];
        for (to, field) in bytes.chunks_exact_mut(4).zip(fields) {
            to.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }
}

impl Packet {
    #[inline]
    pub(super) fn prepare_xdp(
        &mut self,
        memory: &mut Memory,
        bytes: &[u8],
        context: Option<&[u8]>,
    ) -> Result<(), InputError> {
        match context {
            None => self.prepare_frame(memory, bytes, &Md::default()),
            Some(context) => self.prepare_xdp_with(memory, bytes, context),
        }
    }

    fn prepare_xdp_with(&mut self, memory: &mut Memory, bytes: &[u8], context: &[u8]) -> Result<(), InputError> {
        let md = Md::parse(context)?;
        let meta_bytes = md.data as usize;
        if md.data_meta != 0 || md.egress_ifindex != 0 {
            return Err(InputError::Context("data_meta and egress_ifindex must be zero"));
        }
        if md.data_end as usize > bytes.len() || md.data > md.data_end {
            return Err(InputError::Context("data <= data_end <= the packet's length does not hold"));
        }
        if md.ingress_ifindex == 0 && md.rx_queue_index != 0 {
            return Err(InputError::Context("a receive queue needs an interface"));
        }
        if meta_bytes % 4 != 0 || meta_bytes > HEADROOM - FRAME_BYTES {
            return Err(InputError::Context("the metadata's length is not a multiple of 4 up to 216"));
        }
        if (md.data_end as usize) < bytes.len() {
            let most = FRAME_END - (HEADROOM - meta_bytes);
            return Err(InputError::Long { bytes: bytes.len(), most: most.min(md.data_end as usize) });
        }
        self.prepare_frame(memory, bytes, &md)?;
        self.context_bytes = MD_BYTES;
        Ok(())
    }

    /// Lays out a frame whose context has been checked: the first `md.data` bytes are metadata.
    #[inline]
    fn prepare_frame(&mut self, memory: &mut Memory, bytes: &[u8], md: &Md) -> Result<(), InputError> {
        let meta_bytes = md.data as usize;
        if bytes.len() - meta_bytes < ETHERNET_BYTES {
            return Err(InputError::Short { bytes: bytes.len() - meta_bytes, least: ETHERNET_BYTES });
        }
        let most = FRAME_END - (HEADROOM - meta_bytes);
        if bytes.len() > most {
            return Err(InputError::Long { bytes: bytes.len(), most });
        }
        self.hard_start = FRAME_BYTES;
        self.hard_end = FRAME_END;
        self.data = HEADROOM;
        self.meta = HEADROOM - meta_bytes;
        self.end = self.meta + bytes.len();
        let buffer = memory.region_mut(self.buffer);
        // What the packet does not overwrite is cleared. Most packets are as long as the one before.
        let old = self.touched.clone();
        if old.start < self.meta {
            buffer[old.start..old.end.min(self.meta)].fill(0);
        }
        if old.end > self.end {
            buffer[old.start.max(self.end)..old.end].fill(0);
        }
        self.touched = self.meta..self.end;
        buffer[self.meta..self.end].copy_from_slice(bytes);
        // The test run's frames come in by the loopback device unless the context says otherwise.
        let ifindex = if md.ingress_ifindex == 0 { 1 } else { md.ingress_ifindex };
        let [data, data_end, data_meta] = [self.data, self.end, self.meta].map(|offset| self.low_address(offset));
        let fields = [data, data_end, data_meta, ifindex, md.rx_queue_index, md.egress_ifindex];
        // Word by word into place: a copy of words that were just written waits for each of them.
        let words = memory.region_mut(self.context)[..MD_BYTES].chunks_exact_mut(4);
        for (word, field) in words.zip(fields) {
            word.copy_from_slice(&field.to_ne_bytes());
        }
        memory.set_window(self.context, 0..MD_BYTES);
        memory.set_window(self.buffer, self.meta..self.end);
        self.context_bytes = 0;
        Ok(())
    }

    pub(super) fn xdp_context_output(&self, memory: &Memory) -> Vec<u8> {
        if self.context_bytes == 0 {
            return Vec::new();
        }
        let md = Md {
            data: (self.data - self.meta) as u32,
            data_end: (self.end - self.meta) as u32,
            ingress_ifindex: self.get_u32(memory, 12),
            rx_queue_index: self.get_u32(memory, 16),
            ..Md::default()
        };
        md.to_bytes().to_vec()
    }

    /// `bpf_xdp_adjust_head`.
    ///
    /// # Errors
    /// `EINVAL` where the packet would leave the frame or lose its Ethernet header's length.
    pub fn adjust_head(&mut self, memory: &mut Memory, offset: i32) -> Result<(), Errno> {
        let meta_bytes = self.data - self.meta;
        let moved = self.data.checked_add_signed(offset as isize).ok_or(Errno::EINVAL)?;
        if moved < self.hard_start + meta_bytes || moved + ETHERNET_BYTES > self.end {
            return Err(Errno::EINVAL);
        }
        let meta = self.meta..self.data;
        self.meta = moved - meta_bytes;
        self.data = moved;
        memory.region_mut(self.buffer).copy_within(meta, self.meta);
        self.publish(memory);
        Ok(())
    }

    /// `bpf_xdp_adjust_tail`; new bytes are zero.
    ///
    /// # Errors
    /// `EINVAL` where the packet would leave the frame or lose its Ethernet header's length.
    pub fn adjust_tail(&mut self, memory: &mut Memory, offset: i32) -> Result<(), Errno> {
        let end = self.end.checked_add_signed(offset as isize).ok_or(Errno::EINVAL)?;
        if end > self.hard_end || end < self.data + ETHERNET_BYTES {
            return Err(Errno::EINVAL);
        }
        if end > self.end {
            memory.region_mut(self.buffer)[self.end..end].fill(0);
        }
        self.end = end;
        self.publish(memory);
        Ok(())
    }

    /// `bpf_xdp_adjust_meta`.
    ///
    /// # Errors
    /// `EINVAL` outside the headroom, `EACCES` for a length that is no multiple of 4 or too long.
    pub fn adjust_meta(&mut self, memory: &mut Memory, offset: i32) -> Result<(), Errno> {
        let meta = self.meta.checked_add_signed(offset as isize).ok_or(Errno::EINVAL)?;
        if meta < self.hard_start || meta > self.data {
            return Err(Errno::EINVAL);
        }
        let bytes = self.data - meta;
        if bytes % 4 != 0 || bytes > MAX_META {
            return Err(Errno::EACCES);
        }
        self.meta = meta;
        self.publish(memory);
        Ok(())
    }

    /// The packet bytes that `bpf_xdp_load_bytes` and `bpf_xdp_store_bytes` speak of, as an address.
    ///
    /// # Errors
    /// `EFAULT` for numbers no packet has, `EINVAL` outside the packet.
    pub fn xdp_range(&self, offset: u32, bytes: u32) -> Result<u64, Errno> {
        if offset > 0xffff || bytes > 0xffff {
            return Err(Errno::EFAULT);
        }
        if (offset + bytes) as usize > self.len() {
            return Err(Errno::EINVAL);
        }
        Ok(self.address(offset as usize))
    }
}
