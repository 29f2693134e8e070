//! The data structures of `bpf/include/kiln`: sandboxed, in the VM and the kernel, against the same headers as native C.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::world::{World, compile, compile_native, compiled, word};

/// Six structures: the sandboxed and the native source, and the programs by `struct order`'s `structure`.
type Set = (&'static str, &'static str, [&'static str; 6]);
const SETS: [Set; 2] = [
    (
        "tests/heaps/structures.bpf.c",
        "tests/heaps/structures.native.c",
        ["hash", "list", "tree", "skip", "countmin", "count"],
    ),
    (
        "tests/heaps/more_structures.bpf.c",
        "tests/heaps/more_structures.native.c",
        ["bp", "clock", "wheel", "ring", "bloom", "cuckoo"],
    ),
];
const SUPPLY_BYTES: usize = 8 << 20;
const XDP_PASS: u32 = 2;
const ORDER_BYTES: usize = 48;
const ORDERS: usize = 3000;

/// A sequence of operations, few enough keys that most are met again.
fn orders(seed: u64) -> Vec<u8> {
    let mut random = seed;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random >> 11
    };
    let mut bytes = Vec::with_capacity(ORDERS * ORDER_BYTES);
    for _ in 0..ORDERS {
        for field in [next() % 6, next() % 3, next() % 200, next() % 1000, 0, 0] {
            bytes.extend(field.to_le_bytes());
        }
    }
    bytes
}

/// What native code answers.
fn native(source: &str, orders: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_native(source, folder.path(), &[]);
    let mut child =
        Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the native program runs");
    let mut input = child.stdin.take().expect("a pipe");
    let all = orders.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&all));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("ends").expect("written");
    assert!(output.status.success());
    output.stdout
}

fn compare((source, native_source, programs): &Set) {
    let Some(extension) = compile(source, Duration::from_secs(1)) else { return };
    for seed in [1, 0x9e37_79b9_7f4a_7c15] {
        let orders = orders(seed);
        let expected = native(native_source, &orders);
        assert_eq!(expected.len(), orders.len());
        for (name, world) in World::all(&extension, programs) {
            assert!(world.supply(SUPPLY_BYTES), "there is no allocator");
            for (step, order) in orders.chunks(ORDER_BYTES).enumerate() {
                let (returned, packet) = world.run(programs[word(order, 0) as usize], order);
                assert_eq!(returned, XDP_PASS, "{name}, step {step}");
                let at = step * ORDER_BYTES;
                assert_eq!(packet, expected[at..at + ORDER_BYTES], "{name}, seed {seed}, step {step}: {order:?}");
            }
        }
    }
}

#[test]
fn structures_do_what_native_code_does() {
    compare(&SETS[0]);
}

#[test]
fn more_structures_do_what_native_code_does() {
    compare(&SETS[1]);
}

/// The headers themselves are right: native code against models that share nothing with it.
#[test]
fn more_structures_do_what_models_do() {
    if compiled("tests/heaps/more_structures.bpf.c", &["-mcpu=v4"]).is_none() {
        return;
    }
    let (mut tree, mut ring, mut keys) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
    let (mut added, mut now, mut timers) = (BTreeSet::new(), 0, Vec::new());
    for (step, done) in native(SETS[1].1, &orders(77)).chunks(ORDER_BYTES).enumerate() {
        let [structure, operation, key, value, result, found] = std::array::from_fn(|field| word(done, 8 * field));
        match (structure, operation) {
            (0, 0) => assert_eq!(found, tree.get(&key).copied().unwrap_or(0), "step {step}"),
            (0, 1) => assert_eq!(result, u64::from(tree.insert(key, value).is_none()), "step {step}"),
            (0, 2) => assert_eq!(result, u64::from(tree.remove(&key).is_some()), "step {step}"),
            (2, 0) => {
                now += value & 15;
                let (due, later): (Vec<_>, Vec<_>) = timers.into_iter().partition(|tick| *tick <= now);
                timers = later;
                assert_eq!(result, due.len() as u64, "step {step}");
                now += 1;
            }
            (2, 1) => timers.push(now + value % 200),
            (3, 0) => assert_eq!(found, ring.len() as u64, "step {step}"),
            (3, 1) if ring.len() < 32 => ring.push_back(value),
            (3, 1) => assert_eq!(result as i32, -1, "step {step}"),
            (3, 2) => assert_eq!((result, found), ring.pop_front().map_or((0, 0), |first| (1, first)), "step {step}"),
            (4, 1) => drop(added.insert(key)),
            (4, 0 | 2) => assert!(found == 1 || !added.contains(&(key + value)), "step {step}"),
            (5, 1) if result == 1 => *keys.entry(key).or_insert(0) += 1,
            // With 200 keys and 65,535 fingerprints, no two of these keys are taken for one another.
            (5, 2) if result == 1 => match keys.get_mut(&key) {
                Some(times) if *times > 0 => *times -= 1,
                _ => panic!("step {step}: a key is removed that was never added"),
            },
            (5, 2) => assert_eq!(keys.get(&key).copied().unwrap_or(0), 0, "step {step}"),
            (5, 0) => assert!(found == 1 || keys.get(&key).copied().unwrap_or(0) == 0, "step {step}"),
            _ => {}
        }
    }
    assert!(tree.len() > 14, "the tree was split");
}
