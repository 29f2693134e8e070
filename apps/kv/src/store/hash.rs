//! `kiln_packet_hash` (`bpf/include/kiln/packet.h`), and the same for keys that are longer than it takes.

/// What is secret of a hash: made of the seed.
struct Secrets {
    low: u64,
    high: u64,
}

impl Secrets {
    fn new(seed: u64) -> Secrets {
        let low = key(seed);
        Secrets { low, high: key(low) }
    }

    /// Mixes a word in. Each half has a multiplier of its own: no change of a word makes a change that is known without the seed.
    fn mix(&self, hash: u64, word: u64) -> u64 {
        let mixed = hash ^ word;
        (mixed & 0xffff_ffff).wrapping_mul(self.low).wrapping_add((mixed >> 32).wrapping_mul(self.high))
    }
}

fn key(seed: u64) -> u64 {
    folded(seed ^ 0xd6e8_feb8_6659_fd93) | 1
}

fn folded(word: u64) -> u64 {
    let product = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

/// The hash of a key, as programs compute it.
pub fn hash(key: &[u8], seed: u64) -> u64 {
    let part = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&key[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    let secrets = Secrets::new(seed);
    let mut hash = secrets.mix(seed, key.len() as u64);
    let last = match key.len() {
        0 => 0,
        bytes @ 1..4 => part(0, 1) | part(bytes / 2, 1) << 8 | part(bytes - 1, 1) << 16,
        bytes @ 4..8 => part(0, 4) | part(bytes - 4, 4) << 32,
        bytes => {
            for at in (0..bytes - 8).step_by(8) {
                hash = secrets.mix(hash, part(at, 8));
            }
            part(bytes - 8, 8)
        }
    };
    let hash = secrets.mix(hash, last);
    folded(hash ^ hash >> 32)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::{Secrets, hash};

    /// Words that look random (splitmix64).
    fn random(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        }
    }

    /// Changes of a word: each bit, neighbours, the same bits of both halves, bytes, and everything from a bit on.
    fn changes() -> Vec<u64> {
        let bits = (0..64).map(|bit| 1u64 << bit);
        let pairs = (0..63).map(|bit| 3u64 << bit);
        let halves = (0..32).map(|bit| 1u64 << bit | 1 << (bit + 32));
        let bytes = (0..8).map(|byte| 0xffu64 << (8 * byte));
        let upper = (0..64).map(|bit| u64::MAX << bit);
        bits.chain(pairs).chain(halves).chain(bytes).chain(upper).collect()
    }

    #[test]
    fn no_change_of_a_word_makes_a_change_that_is_known_without_the_seed() {
        const SEEDS: usize = 512;
        let mut next = random(1);
        for change in changes() {
            let mut seen: HashMap<u64, usize> = HashMap::new();
            for _ in 0..SEEDS {
                let (secrets, state) = (Secrets::new(next()), next());
                let made = secrets.mix(state, 0) ^ secrets.mix(state, change);
                *seen.entry(made).or_default() += 1;
            }
            let (made, times) = seen.into_iter().max_by_key(|(_, times)| *times).expect("seeds");
            assert!(times <= 2, "{change:#x} makes {made:#x} for {times} of {SEEDS} seeds");
        }
    }

    /// Keys that differ in pairs of words: each pair is as it was, or both words are changed.
    fn family(first: u64, second: u64) -> impl Iterator<Item = Vec<u8>> {
        (0..256u32).map(move |chosen| {
            let word = |at: u32| {
                let change = if at % 2 == 0 { first } else { second };
                0x6161_6161_6161_6161u64 ^ if chosen >> (at / 2) & 1 == 1 { change } else { 0 }
            };
            (0..31).flat_map(|at| word(at).to_le_bytes()).collect()
        })
    }

    #[test]
    fn keys_made_by_differences_do_not_collide() {
        let mut next = random(2);
        let top = 1 << 63;
        let fixed = [(top, top | 1 << 31), (top, top), (1 << 31, 1 << 31), (top | 1 << 31, top | 1 << 31)];
        for round in 0..400 {
            // Also what the second word would have to be for another seed.
            let (secrets, state, change) = (Secrets::new(next()), next(), changes()[round % changes().len()]);
            let learned = (change, secrets.mix(state, 0) ^ secrets.mix(state, change));
            let (first, second) = fixed.get(round).copied().unwrap_or(learned);
            for seed in [next(), next(), 0, 1, 7] {
                let hashes: HashSet<u64> = family(first, second).map(|key| hash(&key, seed)).collect();
                assert_eq!(hashes.len(), 256, "{first:#x} and then {second:#x}, seed {seed:#x}");
            }
        }
    }

    #[test]
    fn keys_spread_over_the_buckets() {
        const BUCKETS: u64 = 1 << 10;
        let counted = |name: usize| format!("key{name}").into_bytes();
        let flipped = |name: usize| [&[b'x'; 8][..], &(name as u64).rotate_right(12).to_le_bytes()].concat();
        let short = |name: usize| (name as u64).to_le_bytes()[..3].to_vec();
        let kinds: [&dyn Fn(usize) -> Vec<u8>; 3] = [&counted, &flipped, &short];
        for seed in [0, 7, 0x1234_5678_9abc_def0] {
            for (kind, name) in kinds.iter().enumerate() {
                let mut buckets = [0u32; BUCKETS as usize];
                (0..8 * BUCKETS as usize).for_each(|at| buckets[(hash(&name(at), seed) % BUCKETS) as usize] += 1);
                // 8 on average: a sum over all buckets of about 1023 (chi-square), and no bucket of 40.
                let square: f64 = buckets.iter().map(|count| (f64::from(*count) - 8.0).powi(2) / 8.0).sum();
                assert!((800.0..1300.0).contains(&square), "kind {kind}, seed {seed}: {square}");
                assert!(buckets.iter().all(|count| *count < 40), "kind {kind}, seed {seed}");
            }
        }
    }
}
