//! Packets of which a measurement takes the one that makes a program execute most.

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 256;

/// A candidate: the first ones are of one protocol each, the others arbitrary bytes.
pub fn packet(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes: Vec<u8> = (0..PACKET_BYTES)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect();
    let header: &[u8] = match seed {
        // IPv4 with TCP, IPv4 with UDP, IPv6 with TCP, a VLAN tag before IPv4, text.
        0 => &[8, 0, 0x45, 0, 0, 242, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 0, 81],
        1 => &[8, 0, 0x45, 0, 0, 242, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 53],
        2 => &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 202, 6, 64],
        3 => &[0x81, 0, 0, 5, 8, 0, 0x45, 0, 0, 238, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 0, 81],
        4 => {
            let text = b"GET /index.html?key=value&n=12345 HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n";
            bytes.iter_mut().zip(text.iter().cycle()).for_each(|(byte, letter)| *byte = *letter);
            &[]
        }
        _ => &[],
    };
    bytes[12..12 + header.len()].copy_from_slice(header);
    bytes
}
