//! User space in C (`kiln/user.h`): it maps a heap, supplies memory and allocates beside programs and Rust, and it maps `.bss.kiln`.

use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use kiln_sandbox::supply::{self, Memory as _};

use crate::world::{Place, World, compile, compile_native, word};

const NATIVE: &str = "tests/heaps/user.native.c";
const SOURCE: &str = "tests/heaps/allocator.bpf.c";
const SUPPLY_BYTES: u64 = 700 << 10;

/// What the program says that has a map as its standard input.
fn says(folder: &std::path::Path, world: &World, map: &str, mode: &str, numbers: &[u64]) -> Vec<i64> {
    let Place::Kernel(loaded) = &world.place else { unreachable!("kernel only") };
    let map = loaded.map(map).expect("the map");
    let output = Command::new(folder.join("native"))
        .arg(mode)
        .args(numbers.iter().map(u64::to_string))
        .stdin(Stdio::from(map.fd().as_fd().try_clone_to_owned().expect("a file descriptor")))
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Result<Vec<i64>, _> = text.split_whitespace().map(str::parse).collect();
    numbers.unwrap_or_else(|_| panic!("{mode}: {text} {output:?}"))
}

fn order(world: &World, operation: u64, bytes: u64, memory: u64) -> u64 {
    let packet: Vec<u8> = [operation, bytes, memory].iter().flat_map(|field| field.to_le_bytes()).collect();
    word(&world.run("allocator", &packet).1, 16)
}

#[test]
fn c_supplies_a_heap() {
    let Some(extension) = compile(SOURCE, Duration::from_secs(1)) else { return };
    let Some(world) = World::kernel(&extension) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    compile_native(NATIVE, folder.path(), &["-Wall", "-Werror"]);
    let heap = world.heap();
    let map = extension.object.maps.iter().find(|map| map.name == "kiln_heap_map").expect("a heap");
    let variables = supply::variable_bytes(map) as u64;
    let numbers = [heap.address(), heap.bytes() as u64, variables, SUPPLY_BYTES];
    assert_eq!(order(&world, 0, 40, 0), 0, "nothing is supplied yet");
    let [failed, given, left] = says(folder.path(), &world, "kiln_heap_map", "supply", &numbers)[..] else {
        panic!("three numbers")
    };
    // Of 8 runs of three slabs, all fit.
    assert_eq!((failed, given), (0, 40));
    let accounts = supply::accounts(&heap).expect("an allocator");
    assert_eq!(
        (accounts.supplied_bytes, accounts.allocated_bytes, accounts.bad_frees),
        (704 << 10, 16, 0),
        "{accounts:?}"
    );
    // The program allocates of that memory too, and frees what C has left.
    assert!(order(&world, 0, 5000, 0) != 0);
    order(&world, 1, 0, left as u64);
    order(&world, 1, 0, left as u64);
    let accounts = supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees), (5120, 1), "{accounts:?}");
    // Rust supplies the same heap further, and C after Rust.
    assert!(world.supply(64 << 10), "there is an allocator");
    let said = says(folder.path(), &world, "kiln_heap_map", "damaged", &[numbers[0], numbers[1], variables, 1 << 30]);
    assert_eq!(said[..2], [0, 40], "all that the heap has");
    // What a program may have done to the state.
    let state = supply::state(&heap).expect("a state");
    for (at, value) in [(8, 4096), (48, 1 << 60), (56, u64::MAX), (16, 0), (24, u64::MAX)] {
        let old = heap.load(state + at).expect("in the heap");
        heap.store(state + at, value).expect("in the heap");
        let said = says(folder.path(), &world, "kiln_heap_map", "damaged", &numbers);
        assert_eq!(said[0], -22, "the word at {at}");
        heap.store(state + at, old).expect("in the heap");
    }
}

#[test]
fn the_cancellation_counters_can_be_mapped() {
    let Some(extension) = compile("tests/heaps/locks.bpf.c", Duration::from_millis(2)) else { return };
    let Some(world) = World::kernel(&extension) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    compile_native(NATIVE, folder.path(), &["-Wall", "-Werror"]);
    let heap = world.heap();
    heap.populate(4096, 4096).expect("pages");
    // Its first lock is held.
    heap.store(4096, 1).expect("in the heap");
    let packet: Vec<u8> = [heap.address() + 4096, 1].iter().flat_map(|field| field.to_le_bytes()).collect();
    for _ in 0..3 {
        world.run("locks", &packet);
    }
    assert_eq!(says(folder.path(), &world, ".bss.kiln", "cancellation", &[]), [3, 0]);
    assert_eq!(
        says(folder.path(), &world, ".bss.kiln", "cancellation", &[]),
        [3, 1],
        "the word was set through the mapping"
    );
    assert_eq!(word(&world.value(".bss.kiln"), 0), 1);
}
