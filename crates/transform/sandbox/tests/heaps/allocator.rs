//! `kiln/malloc.h`: blocks do not overlap, exhaustion gives NULL and loses nothing, wrong frees change nothing, and the sandboxed
//! program gives out the same blocks as the same header in native code.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kiln_sandbox::Options;
use kiln_sandbox::supply::{self, Accounts, Memory};

use crate::world::{Extension, Place, World, compile, compile_native, compiled_text, stay_on_one_cpu, word};

const SOURCE: &str = "tests/heaps/allocator.bpf.c";
const NATIVE: &str = "tests/heaps/allocator.native.c";
const XDP_PASS: u32 = 2;
const SUPPLY_BYTES: usize = 256 << 10;
const SLAB_BYTES: usize = 16 << 10;
const MALLOC: u64 = 0;
const FREE: u64 = 1;
const REALLOC: u64 = 2;

/// An implementation of the allocator. Addresses are offsets from the first slab; 0 is NULL.
trait Allocator {
    fn order(&mut self, operation: u64, bytes: u64, memory: u64) -> u64;

    fn malloc(&mut self, bytes: u64) -> u64 {
        self.order(MALLOC, bytes, 0)
    }

    fn free(&mut self, memory: u64) {
        self.order(FREE, 0, memory);
    }
}

impl Allocator for World {
    fn order(&mut self, operation: u64, bytes: u64, memory: u64) -> u64 {
        let start = accounts(self).start;
        let memory = if memory == 0 { 0 } else { start.wrapping_add(memory) };
        let packet: Vec<u8> = [operation, bytes, memory].iter().flat_map(|field| field.to_le_bytes()).collect();
        let (returned, packet) = self.run("allocator", &packet);
        assert_eq!(returned, XDP_PASS);
        match word(&packet, 16) {
            0 => 0,
            address => address.wrapping_sub(start),
        }
    }
}

struct Native(Child);

impl Native {
    fn start(program: &Path) -> Native {
        let child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Native(child.expect("the native program runs"))
    }
}

impl Allocator for Native {
    fn order(&mut self, operation: u64, bytes: u64, memory: u64) -> u64 {
        let order: Vec<u8> = [operation, bytes, memory].iter().flat_map(|field| field.to_le_bytes()).collect();
        let mut answer = [0; 24];
        self.0.stdin.as_mut().expect("a pipe").write_all(&order).expect("it reads");
        self.0.stdout.as_mut().expect("a pipe").read_exact(&mut answer).expect("it answers");
        word(&answer, 16)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn supplied(world: &World, bytes: usize) {
    assert!(world.supply(bytes), "there is no allocator");
}

fn accounts(world: &World) -> Accounts {
    supply::accounts(&world.heap()).expect("an allocator")
}

/// Checks that a block does not overlap one that is held.
fn hold(held: &mut BTreeMap<u64, u64>, memory: u64, bytes: u64, here: &str) {
    let before = held.range(..=memory).next_back();
    assert!(before.is_none_or(|(at, bytes)| at + bytes <= memory), "{here}: overlaps the block before");
    let after = held.range(memory + 1..).next();
    assert!(after.is_none_or(|(at, _)| memory + bytes <= *at), "{here}: overlaps the block behind");
    held.insert(memory, bytes);
}

/// Random operations that sometimes exhaust the memory. Returns every result.
fn operations(allocator: &mut dyn Allocator, seed: u64, name: &str) -> Vec<u64> {
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    let mut random = seed;
    let mut answers = Vec::new();
    for step in 0..1500 {
        let here = format!("{name}, step {step}");
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bytes = (random >> 40) % if step % 7 == 0 { 5000 } else { 300 };
        let chosen = held.iter().nth((random >> 20) as usize % held.len().max(1)).map(|(at, bytes)| (*at, *bytes));
        match (random >> 32 & 7, chosen) {
            (0..=2, Some((memory, _))) => {
                allocator.free(memory);
                held.remove(&memory);
            }
            (3, Some((memory, old))) => {
                let moved = allocator.order(REALLOC, bytes, memory);
                answers.push(moved);
                if moved != 0 {
                    held.remove(&memory);
                    // A block that is not moved keeps its size.
                    hold(&mut held, moved, if moved == memory { bytes.max(old) } else { bytes }, &here);
                }
            }
            _ => {
                let memory = allocator.malloc(bytes);
                answers.push(memory);
                if memory != 0 {
                    hold(&mut held, memory, bytes.max(1), &here);
                }
            }
        }
    }
    for memory in held.into_keys() {
        allocator.free(memory);
    }
    answers
}

#[test]
fn blocks_are_those_of_native_code() {
    let Some(extension) = compile(SOURCE, Duration::from_secs(1)) else { return };
    stay_on_one_cpu();
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_native(NATIVE, folder.path(), &[]);
    for seed in [99, 7_777_777] {
        let expected = operations(&mut Native::start(&program), seed, "native");
        assert!(expected.contains(&0), "the memory was never exhausted");
        for (name, mut world) in World::all(&extension, &["allocator"]) {
            assert_eq!(world.malloc(8), 0, "{name}: nothing was supplied yet");
            supplied(&world, SUPPLY_BYTES);
            assert_eq!(operations(&mut world, seed, name), expected, "{name}, seed {seed}");
            let failures = 1 + expected.iter().filter(|answer| **answer == 0).count() as u64;
            let Accounts { supplied_bytes, allocated_bytes, bad_frees, .. } = accounts(&world);
            assert_eq!((supplied_bytes, allocated_bytes, bad_frees), (SUPPLY_BYTES as u64, 0, 0), "{name}");
            assert_eq!(accounts(&world).failures, failures, "{name}: failures are counted");
        }
    }
}

#[test]
fn exhaustion_gives_null_and_loses_nothing() {
    let Some(extension) = compile(SOURCE, Duration::from_secs(1)) else { return };
    for (name, mut world) in World::all(&extension, &["allocator"]) {
        supplied(&world, SUPPLY_BYTES);
        let all = |world: &mut World| {
            let given = std::iter::from_fn(|| Some(world.malloc(1000)).filter(|memory| *memory != 0));
            given.take(1000).collect::<Vec<_>>()
        };
        let mut first = all(&mut world);
        assert_eq!(first.len(), SUPPLY_BYTES / 1024, "{name}");
        for memory in &first {
            world.free(*memory);
        }
        let mut second = all(&mut world);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, second, "{name}: the same blocks again");
        assert_eq!((world.malloc(1 << 40), world.malloc(u64::MAX), world.malloc((1 << 20) + 1)), (0, 0, 0), "{name}");
        // More supply, as from a parallel thread.
        supplied(&world, SUPPLY_BYTES);
        assert_eq!(all(&mut world).len(), SUPPLY_BYTES / 1024, "{name}: refilled");
    }
}

/// Fills all memory with blocks of one size and frees them, one size after the other, larger and smaller ones.
fn all_of_each_size(allocator: &mut dyn Allocator, sizes: &[usize], name: &str) {
    for bytes in sizes {
        let mut given = Vec::new();
        while let memory @ 1.. = allocator.malloc(*bytes as u64) {
            given.push(memory);
        }
        // These sizes are those of blocks, less eight; above 8 KiB a block takes whole slabs.
        let expected = match bytes + 8 {
            block @ ..=8192 => SUPPLY_BYTES / SLAB_BYTES * (SLAB_BYTES / block),
            run => SUPPLY_BYTES / run.next_multiple_of(SLAB_BYTES),
        };
        assert_eq!(given.len(), expected, "{name}: blocks of {bytes} bytes");
        given.into_iter().for_each(|memory| allocator.free(memory));
    }
}

#[test]
fn an_emptied_heap_serves_any_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let native = compile_native(NATIVE, folder.path(), &[]);
    let all = [8, 120, 1016, 40_000, 5112, 100_000, 120, 250_000, 1016, 8];
    all_of_each_size(&mut Native::start(&native), &all, "native");
    let Some(extension) = compile(SOURCE, Duration::from_secs(1)) else { return };
    for (name, mut world) in World::all(&extension, &["allocator"]) {
        supplied(&world, SUPPLY_BYTES);
        all_of_each_size(&mut world, &[1016, 5112, 100_000, 40_000, 8184, 1016], name);
        let Accounts { allocated_bytes, bad_frees, .. } = accounts(&world);
        assert_eq!((allocated_bytes, bad_frees), (0, 0), "{name}");
    }
}

#[test]
fn wrong_frees_are_counted_and_ignored() {
    let Some(extension) = compile(SOURCE, Duration::from_secs(1)) else { return };
    for (name, mut world) in World::all(&extension, &["allocator"]) {
        supplied(&world, SUPPLY_BYTES);
        let (memory, other) = (world.malloc(40), world.malloc(40));
        world.free(memory);
        let outside = [0x1234_5678, u64::MAX - 4096, other + 4, memory + 8, SUPPLY_BYTES as u64 + 8];
        for wrong in outside.into_iter().chain([memory]) {
            world.free(wrong);
            assert_eq!(world.order(REALLOC, 500, wrong), 0, "{name}: {wrong:#x}");
        }
        world.order(FREE, 0, 0);
        assert_eq!(accounts(&world).bad_frees, 6, "{name}");
        // The freed block is in its list once.
        let (first, second) = (world.malloc(40), world.malloc(40));
        assert!(first != second && first != other && second != other, "{name}");
        // Growing keeps what is there.
        let first = accounts(&world).start - world.heap().address();
        let offset = |memory: u64| (first + memory) as usize;
        world.heap().store(offset(other), 77).expect("in the heap");
        let grown = world.order(REALLOC, 500, other);
        assert!(grown != other && grown != 0, "{name}");
        assert_eq!(world.heap().load(offset(grown)), Some(77), "{name}");
    }
}

/// What the kernel's verifier processes for a program that allocates and frees so many times, without a loop.
fn processed(times: usize) -> Option<u32> {
    let each = "memory = kiln_malloc(ctx->data_end - ctx->data); if (memory) *memory = 1; kiln_free(memory);\n";
    let text = [
        "#include <kiln/heap.h>\nkiln_heap(1 << 20);\nSEC(\"xdp\") int blocks(struct xdp_md *ctx) { __u64 *memory;\n",
        &each.repeat(times),
        "return XDP_PASS; }\nchar LICENSE[] SEC(\"license\") = \"GPL\";\n",
    ];
    let extension = Extension::of(&compiled_text(&text.concat())?, &Options::default());
    let world = World::kernel(&extension.unwrap_or_else(|error| panic!("{error}")))?;
    let Place::Kernel(loaded) = &world.place else { return None };
    Some(loaded.program("blocks").expect("loaded").info().expect("its numbers").verified_insns)
}

/// The sandbox does not ask the kernel here, so nothing is hidden from its verifier.
#[test]
fn a_call_costs_the_verifier_little() {
    const MOST_ONCE: u32 = 10_000;
    const MOST_EACH: u32 = 1000;
    let (Some(once), Some(often)) = (processed(1), processed(9)) else { return };
    let each = often.saturating_sub(once).div_ceil(8);
    println!("{once} processed instructions for the first kiln_malloc and kiln_free, {each} for each further pair");
    assert!((1000..=MOST_ONCE).contains(&once) && (1..=MOST_EACH).contains(&each), "{once}, {each}");
}
