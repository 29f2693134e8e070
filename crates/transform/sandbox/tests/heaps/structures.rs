//! The data structures of `bpf/include/kiln`: sandboxed, in the VM and the kernel, against the same headers as native C.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::world::{World, compile, compile_native, word};

const SOURCE: &str = "tests/heaps/structures.bpf.c";
const NATIVE: &str = "tests/heaps/structures.native.c";
/// By `struct order`'s `structure`.
const PROGRAMS: &[&str] = &["hash", "list", "tree", "skip", "countmin", "count"];
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
fn native(orders: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_native(NATIVE, folder.path());
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

#[test]
fn structures_do_what_native_code_does() {
    let Some(extension) = compile(SOURCE, Duration::from_secs(1)) else { return };
    for seed in [1, 0x9e37_79b9_7f4a_7c15] {
        let orders = orders(seed);
        let expected = native(&orders);
        assert_eq!(expected.len(), orders.len());
        for (name, world) in World::all(&extension, PROGRAMS) {
            assert!(world.supply(SUPPLY_BYTES), "there is no allocator");
            for (step, order) in orders.chunks(ORDER_BYTES).enumerate() {
                let (returned, packet) = world.run(PROGRAMS[word(order, 0) as usize], order);
                assert_eq!(returned, XDP_PASS, "{name}, step {step}");
                let at = step * ORDER_BYTES;
                assert_eq!(packet, expected[at..at + ORDER_BYTES], "{name}, seed {seed}, step {step}: {order:?}");
            }
        }
    }
}
