//! Packets of captures: pcap and pcapng are read, pcap is written.
//!
//! A file whose first bytes are those of neither is one packet, as it is.

use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{
    Block, Linktype, PcapBlockOwned, PcapNGSlice, nom, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header,
};

use kiln_program::Error;

/// Packets read from one capture at most.
pub const MAX_PACKETS: usize = 1 << 20;

/// The first bytes of captures: pcapng, and pcap in both byte orders with microseconds and nanoseconds.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const PCAP: [[u8; 4]; 4] =
    [[0xd4, 0xc3, 0xb2, 0xa1], [0xa1, 0xb2, 0xc3, 0xd4], [0x4d, 0x3c, 0xb2, 0xa1], [0xa1, 0xb2, 0x3c, 0x4d]];

/// The first bytes of pcaps that tcpdump reads and Kiln does not: Kuznetzov's records, with fields of their own.
const OTHER_PCAP: [[u8; 4]; 2] = [[0x34, 0xcd, 0xb2, 0xa1], [0xa1, 0xb2, 0xcd, 0x34]];

/// The packets of a capture; `None` for bytes that are no capture.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if the capture is malformed or cut, or its packets do not begin with an Ethernet
/// header, and [`Error::Limit`] if it has more than [`MAX_PACKETS`].
pub fn packets(name: &str, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let mut packets = Packets { name, found: Vec::new() };
    match bytes.first_chunk() {
        Some(&PCAPNG) => packets.read_pcapng(bytes)?,
        Some(first) if PCAP.contains(first) => packets.read_pcap(bytes)?,
        Some(first) if OTHER_PCAP.contains(first) => {
            return Err(Error::InvalidInput(format!(
                "{name}: a pcap of the modified kind; tcpdump -r {name} -w NEW writes it anew"
            )));
        }
        _ => return Ok(None),
    }
    Ok(Some(packets.found))
}

struct Packets<'n> {
    name: &'n str,
    found: Vec<Vec<u8>>,
}

impl Packets<'_> {
    fn read_pcapng(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut interfaces = Vec::new();
        let slice = PcapNGSlice::from_slice(bytes).map_err(|error| self.malformed(&error))?;
        for block in slice {
            match block.map_err(|error| self.malformed(&error))? {
                PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
                PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => interfaces.push(interface.linktype),
                PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                    let link = interfaces.get(packet.if_id as usize).copied();
                    self.take(link, packet.packet_data())?;
                }
                PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                    self.take(interfaces.first().copied(), packet.packet_data())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Records are in the byte order of the header. (The reader that the library has takes them for little-endian.)
    fn read_pcap(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (mut rest, header) = parse_pcap_header(bytes).map_err(|error| self.malformed(&error))?;
        let parse = if header.is_bigendian() { parse_pcap_frame_be } else { parse_pcap_frame };
        while !rest.is_empty() {
            let (after, packet) = parse(rest).map_err(|error| self.malformed(&error))?;
            self.take(Some(header.network), packet.data)?;
            rest = after;
        }
        Ok(())
    }

    /// What is wrong, after the packets that were read.
    fn malformed<E>(&self, error: &nom::Err<E>) -> Error {
        let what = match error {
            nom::Err::Incomplete(_) => "the file ends within",
            _ => "not readable:",
        };
        Error::InvalidInput(format!("{}: malformed capture: {what} packet {}", self.name, self.found.len() + 1))
    }

    fn take(&mut self, link: Option<Linktype>, data: &[u8]) -> Result<(), Error> {
        let name = self.name;
        match link {
            Some(Linktype::ETHERNET) => {}
            Some(Linktype(other)) => {
                let message = format!("{name}: packets of link type {other}; only Ethernet (1) can be run");
                return Err(Error::InvalidInput(message));
            }
            None => return Err(Error::InvalidInput(format!("{name}: a packet of an interface that is not described"))),
        }
        if self.found.len() >= MAX_PACKETS {
            return Err(Error::Limit(format!("{name} has more than {MAX_PACKETS} packets")));
        }
        self.found.push(data.to_vec());
        Ok(())
    }
}

/// A pcap of packets that begin with an Ethernet header, one microsecond apart.
pub fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    const VERSION: [u16; 2] = [2, 4];
    const MAX_BYTES: u32 = 1 << 18;
    const ETHERNET: u32 = 1;
    const MICROSECONDS: u32 = 1_000_000;
    let mut bytes = PCAP[0].to_vec();
    bytes.extend(VERSION.iter().flat_map(|part| part.to_le_bytes()));
    bytes.extend([0, 0, MAX_BYTES, ETHERNET].iter().flat_map(|word| word.to_le_bytes()));
    for (at, packet) in packets.iter().enumerate() {
        let (at, length) = (at as u32, packet.len() as u32);
        let header = [at / MICROSECONDS, at % MICROSECONDS, length, length];
        bytes.extend(header.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(packet);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = (body.len() + 12) as u32;
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), body, &length.to_le_bytes()].concat()
    }

    /// A pcapng with one interface of this link type and one packet.
    fn pcapng(link: u16, packet: &[u8]) -> Vec<u8> {
        let section = [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &u64::MAX.to_le_bytes()].concat();
        let interface = [&link.to_le_bytes()[..], &[0, 0], &0u32.to_le_bytes()].concat();
        let length = (packet.len() as u32).to_le_bytes();
        let mut enhanced = [&[0; 12][..], &length, &length, packet].concat();
        enhanced.resize(enhanced.len().next_multiple_of(4), 0);
        [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &enhanced)].concat()
    }

    #[test]
    fn both_formats_are_read_and_what_is_written_is_read_again() {
        let sent = vec![vec![1; 60], vec![2; 61], Vec::new()];
        assert_eq!(packets("a", &pcap(&sent)).expect("pcap"), Some(sent));
        assert_eq!(packets("a", &pcapng(1, &[7; 61])).expect("pcapng"), Some(vec![vec![7; 61]]));
        assert_eq!(packets("a", &[0; 64]).expect("bytes"), None);
        assert_eq!(packets("a", &[]).expect("bytes"), None);
    }

    #[test]
    fn records_are_in_the_byte_order_of_the_header() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let header = words(&[0xa1b2_c3d4, 0x0002_0004, 0, 0, 65535, 1]);
        let record = [words(&[0, 0, 61, 61]), vec![7; 61]].concat();
        let capture = [header, record.clone(), record].concat();
        assert_eq!(packets("a", &capture).expect("pcap"), Some(vec![vec![7; 61]; 2]));
        let cut = packets("a", &capture[..capture.len() - 1]).expect_err("cut").to_string();
        assert_eq!(cut, "a: malformed capture: the file ends within packet 2");
        let other = [&0xa1b2_cd34u32.to_le_bytes()[..], &[0; 20]].concat();
        assert!(packets("a", &other).is_err(), "not run as a packet");
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let error = packets("a", &pcapng(101, &[7; 61])).expect_err("raw IP").to_string();
        assert!(error.contains("link type 101"), "{error}");
        let good = pcapng(1, &[7; 61]);
        for end in 4..good.len() {
            // Cut anywhere: an error or fewer packets, but no panic.
            let cut = packets("a", &good[..end]);
            assert!(cut.as_ref().map_or(true, |found| found.as_ref().is_none_or(Vec::is_empty)), "{end}: {cut:?}");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x81;
            let _ = packets("a", &bytes);
        }
    }
}
