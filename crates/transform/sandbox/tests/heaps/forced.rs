//! Forced cancellation of programs without kernel objects: every point of every source in `tests/heaps` (but `held.bpf.c`, which
//! `cancellation.rs` does), in the kernel and in both engines of the VM.
//!
//! Each run returns the stated value or an ordinary one, everything works again afterwards, and the allocator's memory is
//! counted: what was used is allocated or free. Only a point in `kiln_free` or `kiln_give` may lose its block. A point in a global function
//! ends that function; its caller goes on, because the deadline has not passed.

use std::collections::{BTreeMap, BTreeSet};

use kiln_heap::{lock, supply};
use kiln_program::{FunctionId, Linkage, Object};
use kiln_sandbox::Options;
use kiln_sandbox::supply::Memory as _;

use crate::cancellation::{Shared, points};
use crate::world::{Extension, World, compiled, variable, word};

/// What cancelled runs return.
const STATED: u32 = 77;
/// Cancelled runs, after which a point has been forced often enough.
const ENOUGH: u64 = 8;
const SUPPLY_BYTES: usize = 4 << 20;

/// A source and how its programs run.
struct Case {
    source: &'static str,
    arguments: &'static [&'static str],
    programs: &'static [&'static str],
    /// What every program runs on, one after the other.
    packets: fn(&World) -> Vec<Vec<u8>>,
    /// What a run returns that is not cancelled.
    ordinary: u32,
    /// Bytes that are in use or free besides the allocator's blocks.
    others: fn(&Extension, &World) -> u64,
    /// Frees the locks that a cancelled run left behind.
    mend: fn(&World, &[u8]),
    /// The quick test forces every point whose number is a multiple of this; none if it is 0.
    step: usize,
}

fn packet(fields: &[u64]) -> Vec<u8> {
    fields.iter().flat_map(|field| field.to_le_bytes()).collect()
}

/// Few keys, so that all loops are entered; more than a node of a tree or the cache holds.
fn orders(_: &World) -> Vec<Vec<u8>> {
    let operation = |at: u64| if at > 160 { at % 3 } else { [1, 1, 0, 1, 2][at as usize % 5] };
    (0..320).map(|at| packet(&[0, operation(at), at * 7 % 83, at, 0, 0])).collect()
}

/// Blocks allocated, moved and freed, until memory is exhausted: the first ones lie behind one another.
fn allocations(world: &World) -> Vec<Vec<u8>> {
    let first = supply::accounts(&world.heap()).expect("an allocator").start + 8;
    let block = |at: u64| first + 48 * (at % 5);
    let order = |at: u64| match at % 7 {
        0 | 1 | 3 => [0, 40, 0],
        2 | 5 => [1, 0, block(at / 7)],
        4 => [2, 500, block(at / 5)],
        _ => [0, (1 << 20) - 8, 0],
    };
    (0..140).map(|at| packet(&order(at))).collect()
}

const SHARED: usize = 4096;

/// Counts under two locks.
fn counts(world: &World) -> Vec<Vec<u8>> {
    world.heap().populate(SHARED, 4096).expect("pages");
    vec![packet(&[world.heap().address() + SHARED as u64, 5]); 12]
}

/// Operations of the pool: all five, on few objects of different sizes.
fn pool_orders(_: &World) -> Vec<Vec<u8>> {
    let order = |at: u64| {
        let (operation, bytes) = ([0, 4, 4, 3, 2, 3, 1][at as usize % 7], at * 97 % 1025);
        let mut order = packet(&[operation | bytes << 32, at % 5, 0, 0]);
        order.resize(order.len() + 1024, at as u8);
        order
    };
    (0..60).map(order).collect()
}

/// Steps of a racer that is alone.
fn steps(world: &World) -> Vec<Vec<u8>> {
    let (_, made) = world.run("setup", &packet(&[0, 1, 0, 0]));
    vec![packet(&[word(&made, 24), 20, 0, 0]); 40]
}

/// Where `world->hash` is.
const HASH: usize = 8;

fn none(_: &World, _: &[u8]) {}

/// What the pool's buckets take: whole slabs. No bucket is locked, and none is being made.
fn pool_bytes(extension: &Extension, world: &World) -> u64 {
    const BUCKETS: usize = 64;
    const SLAB_BYTES: u64 = 16 << 10;
    let heap = world.heap();
    let load = |offset: usize| heap.load(offset).expect("in the heap");
    let variable = |name| variable(&extension.object, ".addr_space.1", name);
    let allocator = supply::state(&heap).expect("an allocator");
    let state = allocator - variable("kiln_heap_state") + variable("kiln_pool_memory");
    let buckets = load(state);
    assert!(buckets != 1, "the buckets are not being made");
    if buckets == 0 {
        return 0;
    }
    let first = heap.offset(buckets).expect("in the heap");
    for bucket in (0..BUCKETS).map(|at| load(first + 8 * at)) {
        assert!(bucket & 1 == 0, "no bucket is locked: {bucket:#x}");
    }
    SLAB_BYTES
}

const CASES: [Case; 5] = [
    Case {
        source: "tests/heaps/structures.bpf.c",
        arguments: &["-mcpu=v4"],
        programs: &["hash", "list", "tree", "skip", "countmin", "count"],
        packets: orders,
        ordinary: 2,
        others: |_, _| 0,
        mend: none,
        step: 9,
    },
    Case {
        source: "tests/heaps/more_structures.bpf.c",
        arguments: &["-mcpu=v4"],
        programs: &["bp", "clock", "wheel", "ring", "bloom", "cuckoo"],
        packets: orders,
        ordinary: 2,
        others: |_, _| 0,
        mend: none,
        step: 13,
    },
    Case {
        source: "tests/heaps/allocator.bpf.c",
        arguments: &["-mcpu=v4"],
        programs: &["allocator"],
        packets: allocations,
        ordinary: 2,
        others: |_, _| 0,
        mend: none,
        step: 3,
    },
    Case {
        source: "tests/heaps/pool.bpf.c",
        arguments: &["-mcpu=v4", "-D__TARGET_ARCH_x86", "-DKILN_POOL_STORE=3"],
        programs: &["pool"],
        packets: pool_orders,
        ordinary: 1,
        others: pool_bytes,
        mend: none,
        step: 0,
    },
    Case {
        source: "tests/heaps/races.bpf.c",
        arguments: &["-mcpu=v4", "-DRACES=hash"],
        programs: &["race", "setup"],
        packets: steps,
        ordinary: 3,
        others: |_, _| 0,
        mend: |world, packet| {
            let heap = world.heap();
            let made = heap.offset(word(packet, 0)).expect("in the heap");
            lock::release(&heap, made + HASH).expect("in the heap");
        },
        step: 13,
    },
];

const LOCKS: Case = Case {
    source: "tests/heaps/locks.bpf.c",
    arguments: &["-mcpu=v4"],
    programs: &["locks"],
    packets: counts,
    ordinary: 3,
    others: |_, _| 0,
    mend: |world, _| {
        for at in [0, 8] {
            lock::release(&world.heap(), SHARED + at).expect("in the heap");
        }
    },
    step: 1,
};

/// What the structures take that are made in the first round.
fn made_bytes(case: &Case, world: &World) -> usize {
    if !world.supply(SUPPLY_BYTES) {
        return 0;
    }
    let first = (case.packets)(world).swap_remove(0);
    for program in case.programs {
        world.run(program, &first);
    }
    let accounts = supply::accounts(&world.heap()).expect("an allocator");
    ((accounts.supplied_bytes - accounts.fresh_bytes) as usize).next_multiple_of(4096)
}

/// An extension with one point that fires.
struct Build {
    extension: Extension,
    point: usize,
    /// A cancelled run may lose the memory that it was moving.
    may_lose: bool,
    /// Whether the point is in a global function, or in one that such a function calls.
    in_global: bool,
}

/// The names of global functions and of what they call.
fn global_functions(object: &Object) -> BTreeSet<&str> {
    let is_program = |id| object.programs.iter().any(|program| program.entry == id);
    let all = object.functions.iter().enumerate().map(|(at, function)| (FunctionId(at as u32), function.linkage));
    let global = all.filter(|(id, linkage)| *linkage != Linkage::Static && !is_program(*id));
    let reached = global.flat_map(|(id, _)| object.reachable_functions(id));
    reached.map(|id| object.function(id).name.as_str()).collect()
}

/// One build, in one place: how often the point has fired. The point fires in every fourth round, of which `first` is the first.
fn run(case: &Case, build: &Build, world: &World, here: &str, [first, bytes]: [usize; 2]) -> u64 {
    let allocates = world.supply(bytes);
    let shared = Shared(world);
    shared.terminate(0);
    let mut cancelled = 0;
    for (round, packet) in (case.packets)(world).iter().enumerate() {
        if shared.count(build.point) >= ENOUGH && round % 4 == first {
            break;
        }
        // Off now and then, so that there is something to walk over.
        let on = round % 4 == first;
        shared.set(on);
        for program in case.programs {
            let (value, _) = world.run(program, packet);
            cancelled += u64::from(value == STATED);
            assert!(value == STATED || value == case.ordinary, "{here}: {program} returned {value}");
            assert!(on || value == case.ordinary, "{here}: {program} is cancelled without a word");
            if value == STATED {
                (case.mend)(world, packet);
            }
        }
    }
    let counted = shared.count(build.point);
    let expected = if build.in_global { 0 } else { counted };
    assert_eq!(cancelled, expected, "{here}: {counted} counted at the point");
    if allocates {
        let heap = world.heap();
        let accounts = supply::accounts(&heap).expect("an allocator");
        let used = accounts.supplied_bytes - accounts.fresh_bytes;
        let free = supply::free_bytes(&heap).expect("the slabs are intact");
        let others = (case.others)(&build.extension, world);
        let lost = (used - accounts.allocated_bytes).checked_sub(free + others);
        let lost = lost.unwrap_or_else(|| panic!("{here}: {free} free of {accounts:?}"));
        assert!(build.may_lose && lost <= counted << 11 || lost == 0, "{here}: {lost} bytes lost, {accounts:?}");
    }
    counted
}

/// The extension once more in a place.
fn again(extension: &Extension, case: &Case, place: &str) -> Option<World> {
    World::all(extension, case.programs).into_iter().find(|(name, _)| *name == place).map(|(_, world)| world)
}

/// Builds of all points, or of one in `step`.
fn force(case: &Case, step: usize) {
    let Some(bytes) = compiled(case.source, case.arguments) else { return };
    let base = Options { quantum_ns: 20_000_000_000, cancelled_return: Some(STATED as i32), ..Options::default() };
    let (_, all) = points(&bytes, &base);
    let mut reached = BTreeMap::new();
    for (at, (function, point)) in all.iter().enumerate().step_by(step) {
        let options = Options { forced: Some(at), ..base.clone() };
        let extension = Extension::of(&bytes, &options).unwrap_or_else(|error| panic!("{error}"));
        let may_lose = ["kiln_free", "kiln_give", "kiln_pool"].iter().any(|name| function.starts_with(name));
        let in_global = global_functions(&extension.object).contains(function.as_str());
        let build = Build { extension, point: at, may_lose, in_global };
        let (mut made, mut useful) = (None, None);
        for (name, world) in World::all(&build.extension, case.programs) {
            let here = format!("{}, {name}: point {at} in {function} ({:?})", case.source, point.line);
            let (mut cancelled, mut world) = (0, Some(world));
            // Structures are made in the first round; with little memory, blocks of other CPUs are looked for. The pass that
            // was of use in one place is the first in the next one: runs in the kernel take milliseconds.
            let passes = useful.into_iter().chain([0, 1, 2]);
            for pass in passes.take_while(|_| name != "kernel" || useful.is_some()) {
                let mut fresh =
                    || world.take().or_else(|| again(&build.extension, case, name)).expect("there was one before");
                let first_and_supply = match pass {
                    0 => [3, SUPPLY_BYTES],
                    1 => [0, SUPPLY_BYTES],
                    _ => [2, *made.get_or_insert_with(|| made_bytes(case, &fresh()))],
                };
                cancelled = run(case, &build, &fresh(), &here, first_and_supply);
                if cancelled > 0 {
                    useful = Some(pass);
                    break;
                }
            }
            reached.insert(here, cancelled);
        }
    }
    let fired: u64 = reached.values().sum();
    let silent: Vec<_> = reached.iter().filter(|(_, count)| **count == 0).map(|(here, _)| here).collect();
    println!(
        "{}: {} points, every {step}th forced, {fired} times in all; never reached: {silent:#?}",
        case.source,
        all.len()
    );
    assert!(fired > 0, "{}", case.source);
}

#[test]
fn points_return_what_is_stated() {
    for case in CASES.iter().chain([&LOCKS]).filter(|case| case.step > 0) {
        force(case, case.step);
    }
}

/// Half an hour; `cargo test -p kiln-sandbox --test heaps every_point_returns -- --ignored --nocapture`. `KILN_FORCED` chooses the
/// sources whose names contain it.
#[test]
#[ignore = "takes half an hour"]
fn every_point_returns_what_is_stated() {
    let chosen = std::env::var("KILN_FORCED").unwrap_or_default();
    for case in CASES.iter().chain([&LOCKS]).filter(|case| case.source.contains(&chosen)) {
        force(case, 1);
    }
}
