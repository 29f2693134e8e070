//! `kiln_packet_hash` (`bpf/include/kiln/packet.h`), and the same for keys that are longer than it takes.

fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

/// The hash of a key, as programs compute it.
pub fn hash(key: &[u8], seed: u64) -> u64 {
    let part = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&key[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    let mut hash = mix(seed, key.len() as u64);
    let last = match key.len() {
        0 => 0,
        bytes @ 1..4 => part(0, 1) | part(bytes / 2, 1) << 8 | part(bytes - 1, 1) << 16,
        bytes @ 4..8 => part(0, 4) | part(bytes - 4, 4) << 32,
        bytes => {
            for at in (0..bytes - 8).step_by(8) {
                hash = mix(hash, part(at, 8));
            }
            part(bytes - 8, 8)
        }
    };
    mix(hash, last)
}
