//! `kiln/packet.h`: the primitives between packet and heap against plain Rust, and what a call of each costs the verifier.

use std::time::Duration;

use kiln_heap::Memory as _;

use crate::world::{Extension, Heap, Place, World, compile_with, word};

const SOURCE: &str = "tests/heaps/packet.bpf.c";
const PRIMITIVES: [&str; 7] = ["take", "put", "equals", "token", "number", "begins", "hash"];
/// `struct order`.
const ORDER_BYTES: usize = 32;
const ANSWER: usize = 24;
const RUNS: usize = 3000;
const MOST: u64 = 2047;
const TOKEN_MOST: u64 = 255;
const FAILED: u64 = u64::MAX;
/// What the kernel's verifier may process because of a call.
const MOST_PER_SITE: u32 = 200;
/// What it may process, once per program, because of a primitive.
const MOST_PER_PRIMITIVE: u32 = 2600;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

fn folded(word: u64) -> u64 {
    let product = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

/// `kiln_packet_hash`.
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let count = bytes.len();
    let key = |seed: u64| folded(seed ^ 0xd6e8_feb8_6659_fd93) | 1;
    let (low, high) = (key(seed), key(key(seed)));
    let mix = |hash: u64, word: u64| {
        let mixed = hash ^ word;
        (mixed % (1 << 32)).wrapping_mul(low).wrapping_add((mixed >> 32).wrapping_mul(high))
    };
    let mut hash = mix(seed, count as u64);
    let part =
        |at: usize, count: usize| bytes[at..at + count].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let last = match count {
        0 => 0,
        1..4 => part(0, 1) | part(count / 2, 1) << 8 | part(count - 1, 1) << 16,
        4..8 => part(0, 4) | part(count - 4, 4) << 32,
        _ => {
            for at in (0..count - 8).step_by(8) {
                hash = mix(hash, part(at, 8));
            }
            part(count - 8, 8)
        }
    };
    let hash = mix(hash, last);
    folded(hash ^ hash >> 32)
}

/// What a primitive answers, and what it changes: plainly.
fn plainly(name: &str, at: u64, bytes: u64, packet: &mut [u8], memory: &mut [u8]) -> u64 {
    let start = usize::try_from(at).ok().filter(|_| at <= MOST).filter(|at| *at <= packet.len());
    let Some(start) = start else { return if matches!(name, "hash" | "begins") { 0 } else { FAILED } };
    let left = packet.len() - start;
    let fits = |most: u64| usize::try_from(bytes).ok().filter(|_| bytes <= most).filter(|bytes| *bytes <= left);
    match name {
        "take" | "put" | "equals" => {
            let Some(count) = fits(MOST) else { return FAILED };
            let (packet, memory) = (&mut packet[start..start + count], &mut memory[..count]);
            match name {
                "take" => memory.copy_from_slice(packet),
                "put" => packet.copy_from_slice(memory),
                _ => return u64::from(packet == memory),
            }
            0
        }
        "token" => {
            let end = packet[start..].iter().position(|byte| *byte <= b' ').map(|end| end as u64);
            end.filter(|end| *end <= bytes && bytes <= TOKEN_MOST).unwrap_or(FAILED)
        }
        "number" => {
            let digits = packet[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let ended = (1..=18).contains(&digits) && start + digits < packet.len();
            let text = std::str::from_utf8(&packet[start..start + digits]).expect("digits");
            if ended { text.parse::<u64>().expect("fits").wrapping_mul(32) + digits as u64 } else { FAILED }
        }
        "begins" => {
            let word = word(packet, ANSWER).to_le_bytes();
            fits(8).map_or(0, |count| u64::from(count > 0 && packet[start..start + count] == word[..count]))
        }
        _ => fits(TOKEN_MOST).map_or(0, |count| hash(&packet[start..start + count], 7)),
    }
}

/// A packet with an order, and bytes of a kind that the primitive can do something with.
fn packet(name: &str, random: &mut Random, memory: &[u8]) -> Vec<u8> {
    let most = if random.below(4) == 0 { 1400 } else { 150 };
    let total = ORDER_BYTES as u64 + random.below(most);
    let at = match random.below(8) {
        0 => [0, total, total + 1, MOST, MOST + 1, 1 << 32, u64::MAX][random.below(7) as usize],
        _ => ORDER_BYTES as u64 + random.below(total - ORDER_BYTES as u64 + 1),
    };
    let left = total.saturating_sub(at);
    let bytes = match random.below(8) {
        0 => [left + 1, MOST, MOST + 1, 255, 256, 1 << 32, u64::MAX, u64::MAX - 7][random.below(8) as usize],
        1 | 2 => left,
        3 => left.min(random.below(9)),
        _ => random.below(left + 1),
    };
    let skew = random.below(16);
    let mut packet: Vec<u8> = [at, bytes, skew, 0].iter().flat_map(|field| field.to_le_bytes()).collect();
    let ends = random.below(3) > 0;
    packet.extend((ORDER_BYTES as u64..total).map(|_| match (name, ends && random.below(30) == 0) {
        ("token", true) => [b' ', b'\r', b'\n', 0][random.below(4) as usize],
        ("token", false) => 33 + random.below(223) as u8,
        ("number", _) if random.below(12) == 0 => [b'/', b':', b'-', 0xb0][random.below(4) as usize],
        ("number", _) => b'0' + random.below(10) as u8,
        _ => random.below(256) as u8,
    }));
    if name == "equals" && random.below(4) > 0 && (ORDER_BYTES as u64..total).contains(&at) {
        let count = (left.min(bytes)) as usize;
        let begin = at as usize;
        packet[begin..begin + count].copy_from_slice(&memory[skew as usize..skew as usize + count]);
        // One byte that differs, often.
        if count > 0 && random.below(2) == 0 {
            packet[begin + random.below(count as u64) as usize] ^= 1 << random.below(8);
        }
    }
    if name == "begins" && random.below(3) > 0 && (ORDER_BYTES as u64..total).contains(&at) {
        let begin = at as usize;
        let count = left.min(random.below(9)) as usize;
        packet.copy_within(begin..begin + count, ANSWER);
    }
    packet
}

/// The memory that programs use, and where it is in the heap.
fn memory_of(heap: &Heap<'_>, start: usize, bytes: usize) -> Vec<u8> {
    (start..start + bytes).step_by(8).flat_map(|at| heap.load(at).expect("in the heap").to_le_bytes()).collect()
}

#[test]
fn primitives_agree_with_plain_code() {
    let Some(extension) = compile_with(SOURCE, Duration::from_secs(1), &["-DSITES=1"]) else { return };
    let programs = [&["nothing"], &PRIMITIVES[..]].concat();
    for (place, world) in World::all(&extension, &programs) {
        assert!(!world.supply(0), "{place}: it does not allocate");
        let heap = world.heap();
        heap.populate(0, heap.bytes()).expect("memory");
        let (_, answer) = world.run("nothing", &[0; 64]);
        let start = heap.offset(word(&answer, ANSWER)).expect("an address of the heap");
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let mut memory = memory_of(&heap, start, 2304);
        let mut succeeded = [0; PRIMITIVES.len()];
        for run in 0..RUNS {
            let name = PRIMITIVES[run % PRIMITIVES.len()];
            let mut expected = packet(name, &mut random, &memory);
            let [at, bytes, skew] = [0, 8, 16].map(|field| word(&expected, field));
            let sent = expected.clone();
            let (returned, mut found) = world.run(name, &sent);
            assert_eq!(returned, 1, "{place}, run {run}: {name}");
            let answer = plainly(name, at, bytes, &mut expected, &mut memory[skew as usize..]);
            succeeded[run % PRIMITIVES.len()] +=
                usize::from(answer != FAILED && (answer != 0 || matches!(name, "take" | "put")));
            // A copy to the order's own bytes is overwritten by the answer.
            let told = word(&found, ANSWER);
            for packet in [&mut expected, &mut found] {
                packet[ANSWER..ORDER_BYTES].fill(0);
            }
            assert_eq!(told, answer, "{place}, run {run}: {name} of {bytes} bytes at {at} of {}", sent.len());
            assert!(found == expected, "{place}, run {run}: {name}: the packet of {bytes} bytes at {at}");
            if name == "take" {
                let now = memory_of(&heap, start, memory.len());
                assert!(now == memory, "{place}, run {run}: memory after {bytes} bytes at {at}, skew {skew}");
            }
        }
        let each = RUNS / PRIMITIVES.len();
        assert!(
            succeeded.iter().all(|count| (each / 10..each * 19 / 20).contains(count)),
            "{place}: {succeeded:?} of {each}"
        );
    }
}

/// What the kernel's verifier processes for each program.
fn processed(extension: &Extension) -> Option<Vec<u32>> {
    let world = World::kernel(extension)?;
    let Place::Kernel(loaded) = &world.place else { return None };
    let of = |name: &&str| loaded.program(name).expect("loaded").info().expect("its numbers").verified_insns;
    Some([&["nothing"], &PRIMITIVES[..]].concat().iter().map(of).collect())
}

#[test]
fn a_call_costs_the_verifier_little() {
    for hook in ["xdp", "tc"] {
        let define = if hook == "tc" { "-DCLASSIFIER" } else { "-DXDP" };
        let with = |sites: &str| compile_with(SOURCE, Duration::from_secs(1), &[define, sites]);
        let (Some(once), Some(often)) = (with("-DSITES=1"), with("-DSITES=9")) else { return };
        let (Some(once), Some(often)) = (processed(&once), processed(&often)) else { return };
        for (at, name) in PRIMITIVES.iter().enumerate() {
            let first = once[at + 1].saturating_sub(once[0]);
            // The kernel keeps states by how much it has processed, so a count may be a few instructions off.
            let site = often[at + 1].saturating_sub(often[0]).saturating_sub(first).div_ceil(8);
            println!("{hook}: {name}: {site} processed instructions per call ({MOST_PER_SITE} allowed), {first} once");
            assert!(site <= MOST_PER_SITE, "{hook}: {name}: {site} per call");
            assert!((1..=MOST_PER_PRIMITIVE).contains(&first), "{hook}: {name}: {first} for the first call");
        }
    }
}
