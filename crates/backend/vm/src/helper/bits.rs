//! Iterators over the bits that are set in words of memory.
//!
//! ```text
//!   struct bpf_iter_bits   | u64: the word, if it is one; else the number of a copy | i32: bits | i32: the present bit |
//! ```
//!
//! Several words are copied when the iterator begins, as in the kernel; the copies are this run's, and end with it.

use kiln_program::interpret::Fault;

use super::answer::{Answer, done, value};
use crate::errno::Errno;
use crate::state::State;

/// Bytes of `struct bpf_iter_bits`.
const BYTES: u64 = 16;
/// Where the present bit is in it.
const PRESENT: u64 = 12;
/// Words at most (kernel `BITS_ITER_NR_WORDS_MAX`).
const MOST_WORDS: u64 = 511;
/// Copies at a time: as many iterators as all frames have room for.
const MOST_COPIES: usize = 256;

/// An iterator's bytes.
struct Bits {
    first: u64,
    count: i32,
    present: i32,
}

impl Bits {
    fn at(state: &State, address: u64) -> Result<Bits, Fault> {
        let bytes = state.bytes(address, BYTES)?;
        let word =
            |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_le_bytes);
        Ok(Bits {
            first: u64::from(word(4)) << 32 | u64::from(word(0)),
            count: word(8) as i32,
            present: word(12) as i32,
        })
    }

    fn put(&self, state: &mut State, address: u64) -> Result<(), Fault> {
        let mut bytes = [0; BYTES as usize];
        bytes[..8].copy_from_slice(&self.first.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.count.to_le_bytes());
        bytes[12..].copy_from_slice(&self.present.to_le_bytes());
        state.write(address, &bytes)
    }

    /// The place of the words' copy, if there is more than one word.
    fn place(&self) -> Option<usize> {
        if self.count > u64::BITS as i32 { usize::try_from(self.first).ok() } else { None }
    }

    /// The first bit after the present one that is set, or the number of all.
    fn next(&self, state: &State) -> i32 {
        let copied = self.place().and_then(|place| state.held.bit_words.get(place));
        let words = copied.map_or(std::slice::from_ref(&self.first), Vec::as_slice);
        let after = self.present.saturating_add(1).max(0) as usize;
        let mut rest = words.iter().enumerate().skip(after / 64).map(|(at, word)| {
            let hidden = if at == after / 64 { after % 64 } else { 0 };
            (at, word >> hidden << hidden)
        });
        let found = rest.find(|(_, word)| *word != 0);
        found.map_or(self.count, |(at, word)| (64 * at as i32 + word.trailing_zeros() as i32).min(self.count))
    }
}

pub fn new(state: &mut State, [address, from, words, ..]: [u64; 5]) -> Answer {
    let words = u64::from(words as u32);
    let made = match words {
        _ if from == 0 || words == 0 => Err(Errno::EINVAL),
        _ if words > MOST_WORDS => Err(Errno::E2BIG),
        _ => begin(state, from, words),
    };
    let count = if made.is_ok() { 64 * words as i32 } else { 0 };
    Bits { first: made.unwrap_or(0), count, present: -1 }.put(state, address)?;
    done(made.map(|_| ()))
}

/// The word, if it is one, or the place of a copy of all of them.
fn begin(state: &mut State, from: u64, words: u64) -> Result<u64, Errno> {
    let bytes = state.memory.bytes(from, 8 * words as usize).ok_or(Errno::EFAULT)?;
    let copy: Vec<u64> =
        bytes.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes).collect();
    if let [word] = copy[..] {
        return Ok(word);
    }
    let free = state.held.bit_words.iter().position(Vec::is_empty).unwrap_or(state.held.bit_words.len());
    match state.held.bit_words.get_mut(free) {
        Some(slot) => *slot = copy,
        None if free < MOST_COPIES => state.held.bit_words.push(copy),
        None => return Err(Errno::ENOMEM),
    }
    Ok(free as u64)
}

/// The address of the number of the next bit, or null.
pub fn next(state: &mut State, [address, ..]: [u64; 5]) -> Answer {
    let bits = Bits::at(state, address)?;
    if bits.present >= bits.count {
        return value(0);
    }
    let present = bits.next(state);
    let more = present < bits.count;
    Bits { present, ..bits }.put(state, address)?;
    value(if more { address + PRESENT } else { 0 })
}

pub fn destroy(state: &mut State, [address, ..]: [u64; 5]) -> Answer {
    let place = Bits::at(state, address)?.place();
    if let Some(words) = place.and_then(|place| state.held.bit_words.get_mut(place)) {
        words.clear();
    }
    value(0)
}
