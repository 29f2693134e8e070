//! Invented kernel memory: every byte is a function of a seed and its address.
//!
//! ```text
//!   r2 = *(u64 *)(r1 + 16)      r2: whatever word the seed puts there, half of the time any 64 bits
//!   r3 = *(u32 *)(r2 + 32)      r2 in the kernel's half: the word there; elsewhere the load faults and gives 0
//!   *(u32 *)(r2 + 32) = 7       kept, until the next run
//! ```
//!
//! No types are needed: any number with its highest sixteen bits set to something is the address of an object, of which
//! one page in sixteen is not there. What a load gives is what programs compare with, so words are of several kinds:
//! any bits, small numbers, corners, bytes of text.

use std::collections::BTreeMap;

/// Bytes that one fault covers.
const PAGE_SHIFT: u32 = 12;
/// One page in so many is not there.
const PAGES_A_FAULT: u64 = 16;
/// Highest addresses: error numbers, as the kernel's `IS_ERR` has them.
const ERRORS: u64 = 4096;

/// Mixes words into one (the finalizer of SplitMix64 over each).
pub fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x6b69_6c6e, |state: u64, word| {
        let mut z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// A 64-bit word as structures of the kernel hold them.
pub fn word(lot: u64) -> u64 {
    const CORNERS: [u64; 6] = [0, 1, u64::MAX, 0x7fff_ffff_ffff_ffff, 1 << 63, 1 << 32];
    let more = mix(&[lot]);
    match lot % 8 {
        0..=3 => more,
        4 | 5 => u64::from(number(more as u32)) | u64::from(number((more >> 32) as u32)) << 32,
        6 => CORNERS[(more % CORNERS.len() as u64) as usize],
        // Eight characters, one in eight a NUL.
        _ => (0..8).fold(0, |text, at| {
            let character = more >> (8 * at);
            text << 8 | if character & 7 == 0 { 0 } else { 0x40 | character & 0x3f }
        }),
    }
}

/// A 32-bit number as fields of structures hold them.
fn number(lot: u32) -> u32 {
    const CORNERS: [u32; 6] = [0, 1, u32::MAX, 0x7fff_ffff, 0x8000_0000, 0xffff];
    let more = lot >> 2;
    match lot % 4 {
        0 => more % 3,
        1 => more % 16,
        2 => more % 4096,
        _ => CORNERS[(more % CORNERS.len() as u32) as usize],
    }
}

/// The address of an object, far from all others.
pub fn pointer(lot: u64) -> u64 {
    0xffff_8000_0000_0000 | lot & 0x3fff_ffff_fff0
}

/// Whether an address may be the kernel's: neither null nor near it, nor user space's, nor an error number.
pub fn is_kernel(address: u64) -> bool {
    address >> 48 != 0 && address < ERRORS.wrapping_neg()
}

/// The memory of one run: what the seed says, and what the program wrote over it.
#[derive(Debug, Default)]
pub struct MadeUp {
    seed: u64,
    written: BTreeMap<u64, u8>,
}

impl MadeUp {
    /// As the seed has it.
    pub fn begin(&mut self, seed: u64) {
        self.seed = seed;
        self.written.clear();
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether an address of the kernel is not there.
    pub fn faults(&self, address: u64) -> bool {
        !is_kernel(address) || mix(&[self.seed, 1, address >> PAGE_SHIFT]) % PAGES_A_FAULT == 0
    }

    /// Up to eight bytes, little-endian, whether or not they are there.
    pub fn load(&self, address: u64, bytes: u64) -> u64 {
        let first = address & !7;
        let words = [first, first.wrapping_add(8)].map(|at| word(mix(&[self.seed, 0, at])));
        let both = u128::from(words[0]) | u128::from(words[1]) << 64;
        let value = (both >> (8 * (address & 7))) as u64;
        let mut value = if bytes < 8 { value & ((1 << (8 * bytes)) - 1) } else { value };
        let end = address.saturating_add(bytes);
        for (at, byte) in self.written.range(address..end) {
            let shift = 8 * (at - address);
            value = value & !(0xff << shift) | u64::from(*byte) << shift;
        }
        value
    }

    /// Writes the lowest bytes of a value.
    pub fn store(&mut self, address: u64, bytes: u64, value: u64) {
        for at in 0..bytes {
            self.written.insert(address.wrapping_add(at), (value >> (8 * at)) as u8);
        }
    }

    /// All that was written, in the order of its addresses.
    pub fn written(&self) -> impl Iterator<Item = (u64, u8)> {
        self.written.iter().map(|(address, byte)| (*address, *byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_of_any_width_agree() {
        let mut memory = MadeUp::default();
        memory.begin(7);
        let base = pointer(mix(&[1]));
        memory.store(base + 3, 2, 0xbeef);
        let byte = |at: u64| memory.load(base + at, 1);
        let whole = (0..8).fold(0, |value, at| value | byte(at) << (8 * at));
        assert_eq!(memory.load(base, 8), whole);
        assert_eq!(memory.load(base + 2, 4), whole >> 16 & 0xffff_ffff);
        assert_eq!(memory.load(base + 3, 2), 0xbeef);
        assert_eq!(memory.load(base + 5, 8), memory.load(base + 5, 4) | memory.load(base + 9, 4) << 32);
    }

    #[test]
    fn a_seed_says_it_all() {
        let mut memory = MadeUp::default();
        let mut bytes = |seed| {
            memory.begin(seed);
            (0..64).map(|at| memory.load(pointer(0) + at, 1)).collect::<Vec<_>>()
        };
        assert_eq!(bytes(3), bytes(3));
        assert_ne!(bytes(3), bytes(4));
    }

    #[test]
    fn words_are_of_all_kinds() {
        let words: Vec<u64> = (0..4096).map(|lot| word(mix(&[lot]))).collect();
        let share = |holds: fn(&u64) -> bool| words.iter().filter(|word| holds(word)).count();
        assert!(share(|word| is_kernel(*word)) > 2000);
        assert!(share(|word| *word == 0) > 20);
        assert!(share(|word| (*word as u32) < 16) > 400);
    }
}
