//! Packets to run programs on: the protocols that networking programs parse, cut short, and noise.
//!
//! Programs branch on headers, so random bytes alone exercise only their first comparison. [`corpus`] mixes, from a
//! seed and so repeatably:
//!
//! ```text
//!   Ethernet [VLAN [VLAN]] { ARP | IPv4 | IPv6 } { TCP | UDP | ICMP | other }  payload
//!   the same, cut at a random byte           the same, a few bytes changed            random bytes
//! ```

pub use kiln_equiv::concrete::Random;

/// Bytes that the kernel's test run wants at least: an Ethernet header.
pub const MIN_PACKET_BYTES: usize = 14;

/// `count` packets from a seed: five in eight well-formed, the others cut, damaged or noise.
pub fn corpus(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    (0..count).map(|index| packet(&mut random, index)).collect()
}

fn packet(random: &mut Random, index: usize) -> Vec<u8> {
    match index % 8 {
        5 => {
            let mut bytes = well_formed(random);
            let end = MIN_PACKET_BYTES + random.below((bytes.len() - MIN_PACKET_BYTES + 1) as u64) as usize;
            bytes.truncate(end);
            bytes
        }
        6 => {
            let mut bytes = well_formed(random);
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes
        }
        7 => {
            let count = MIN_PACKET_BYTES + random.below(200) as usize;
            random.bytes(count)
        }
        _ => well_formed(random),
    }
}

fn well_formed(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0x02, 0, 0, 0, 0, random.below(4) as u8, 0x02, 0, 0, 0, 1, random.below(4) as u8];
    for _ in 0..random.pick(&[0, 0, 0, 1, 1, 2]) {
        bytes.extend(random.pick(&[0x8100u16, 0x88a8]).to_be_bytes());
        bytes.extend((random.below(4096) as u16).to_be_bytes());
    }
    match random.below(8) {
        0 => {
            bytes.extend(0x0806u16.to_be_bytes());
            bytes.extend([0, 1, 8, 0, 6, 4, 0, random.pick(&[1, 2])]);
            bytes.extend(random.bytes(20));
        }
        1..=4 => ipv4(random, &mut bytes),
        _ => ipv6(random, &mut bytes),
    }
    bytes
}

fn ipv4(random: &mut Random, bytes: &mut Vec<u8>) {
    let protocol = random.pick(&[1u8, 6, 6, 17, 17, 47, 4]);
    let payload = transport(random, protocol);
    let options = random.pick(&[0usize, 0, 0, 4, 8]);
    let length = (20 + options + payload.len()) as u16;
    bytes.extend(0x0800u16.to_be_bytes());
    let mut header = vec![0x45 + (options / 4) as u8, 0];
    header.extend(length.to_be_bytes());
    header.extend([0, 1, random.pick(&[0x40, 0, 0x20]), 0, random.pick(&[64, 1, 0]), protocol, 0, 0]);
    header.extend([10, 0, 0, random.below(4) as u8, 10, 0, 1, random.below(4) as u8]);
    header.resize(20 + options, 1);
    let checksum = internet_checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(header);
    bytes.extend(payload);
}

fn ipv6(random: &mut Random, bytes: &mut Vec<u8>) {
    let protocol = random.pick(&[58u8, 6, 6, 17, 17, 0, 44]);
    let payload = transport(random, protocol);
    bytes.extend(0x86ddu16.to_be_bytes());
    bytes.extend([0x60, 0, 0, 0]);
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([protocol, random.pick(&[64, 1])]);
    for host in [random.below(4) as u8, random.below(4) as u8] {
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    bytes.extend(payload);
}

fn transport(random: &mut Random, protocol: u8) -> Vec<u8> {
    let port = |random: &mut Random| random.pick(&[80u16, 443, 53, 9, 4242, 0]).to_be_bytes();
    let mut bytes = Vec::new();
    match protocol {
        6 => {
            bytes.extend(port(random));
            bytes.extend(port(random));
            bytes.extend(random.bytes(8));
            bytes.extend([0x50, random.pick(&[0x02, 0x10, 0x12, 0x18, 0x11]), 0xff, 0xff, 0, 0, 0, 0]);
        }
        17 => {
            bytes.extend(port(random));
            bytes.extend(port(random));
            bytes.extend([0, 24, 0, 0]);
        }
        1 => bytes.extend([random.pick(&[8, 0, 3]), 0, 0, 0, 0, 1, 0, 1]),
        58 => bytes.extend([random.pick(&[128, 129, 135]), 0, 0, 0, 0, 1, 0, 1]),
        _ => bytes.extend([6, 0, 0, 0, 0, 0, 0, 0]),
    }
    let payload = random.below(64) as usize;
    bytes.extend(random.bytes(payload));
    bytes
}

/// The checksum of RFC 1071 over a header whose checksum field is zero.
fn internet_checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in header.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_repeat_and_are_long_enough() {
        let (first, second) = (corpus(7, 512), corpus(7, 512));
        assert_eq!(first, second);
        assert!(first.iter().all(|packet| packet.len() >= MIN_PACKET_BYTES));
        assert_ne!(corpus(8, 8), first[..8]);
    }

    #[test]
    fn every_protocol_occurs() {
        let packets = corpus(1, 512);
        for (ethertype, protocol_at, protocols) in
            [(0x0800u16, 23, [1u8, 6, 17].as_slice()), (0x86dd, 20, &[58, 6, 17])]
        {
            for protocol in protocols {
                let found = packets.iter().any(|packet| {
                    packet[12..14] == ethertype.to_be_bytes() && packet.get(protocol_at) == Some(protocol)
                });
                assert!(found, "no packet with ethertype {ethertype:#x} and protocol {protocol}");
            }
        }
        assert!(packets.iter().any(|packet| packet[12..14] == [0x81, 0]), "no VLAN packet");
        assert!(packets.iter().any(|packet| packet[12..14] == [8, 6]), "no ARP packet");
    }
}
