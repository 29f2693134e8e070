//! Mutations of byte strings, like corrupted or hostile files.

use kiln_driver::packets::Random;

/// Longest input that mutations make, in bytes.
pub const MAX_BYTES: usize = 1 << 18;

/// A seed with one to a few dozen mutations. `hot` ranges (headers, tables) get half of them.
pub fn mutate(random: &mut Random, seed: &[u8], hot: &[std::ops::Range<usize>]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    // Mostly few, because one wrong field in a valid file reaches the most code.
    let most = 1 << random.below(6);
    let count = 1 + random.below(most);
    for _ in 0..count {
        let at = place(random, &bytes, hot);
        one(random, &mut bytes, at);
        bytes.truncate(MAX_BYTES);
    }
    bytes
}

fn place(random: &mut Random, bytes: &[u8], hot: &[std::ops::Range<usize>]) -> usize {
    if !hot.is_empty() && random.below(2) == 0 {
        let range = &hot[random.below(hot.len() as u64) as usize];
        let length = range.end.saturating_sub(range.start).max(1) as u64;
        return (range.start + random.below(length) as usize).min(bytes.len());
    }
    random.below(bytes.len() as u64 + 1) as usize
}

fn one(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    match random.below(12) {
        0..=1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        3..=7 => {
            let width = [1, 2, 4, 8][random.below(4) as usize];
            let value = interesting(random, bytes.len() as u64);
            put(bytes, at / width * width, width, value);
        }
        8 => {
            let (from, length) = chunk(random, bytes.len());
            let copy = bytes[from..from + length].to_vec();
            for (target, byte) in bytes.iter_mut().skip(at).zip(copy) {
                *target = byte;
            }
        }
        9 => {
            let (from, length) = chunk(random, bytes.len());
            let copy = bytes[from..from + length].to_vec();
            let at = at.min(bytes.len());
            bytes.splice(at..at, copy);
        }
        10 => {
            let (from, length) = chunk(random, bytes.len());
            bytes.drain(from..from + length);
        }
        _ => bytes.truncate(at),
    }
}

/// A range of up to 64 bytes that exists.
fn chunk(random: &mut Random, length: usize) -> (usize, usize) {
    if length == 0 {
        return (0, 0);
    }
    let from = random.below(length as u64) as usize;
    (from, (1 + random.below(64) as usize).min(length - from))
}

fn put(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    for (target, byte) in bytes.iter_mut().skip(at).zip(value.to_le_bytes().into_iter().take(width)) {
        *target = byte;
    }
}

/// An edge value of offsets, counts and sizes.
fn interesting(random: &mut Random, length: u64) -> u64 {
    let near = |value: u64, random: &mut Random| value.wrapping_add(random.below(17)).wrapping_sub(8);
    match random.below(6) {
        0 => random.below(32),
        1 => near(length, random),
        2 => near(1 << random.below(64), random),
        3 => u64::MAX - random.below(16),
        4 => random.below(length + 1),
        _ => random.next(),
    }
}
