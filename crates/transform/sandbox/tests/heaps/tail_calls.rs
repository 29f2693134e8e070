//! Tail calls and the entries through which they hand the deadline over: entries that another object's program or an interrupted
//! program left.

use std::time::Duration;

use kiln_linux::TestInput;
use kiln_sandbox::Options;
use kiln_sandbox::counted::{HANDOVERS, MOST_POINTS, POINTS, SECTION};
use rustix::time::{ClockId, clock_gettime};

use crate::world::{Extension, Place, World, compiled_text, word};

const QUANTUM: Duration = Duration::from_millis(2);
const XDP_DROP: u32 = 1;

const CALLER: &str = r#"
#include <kiln/heap.h>
char LICENSE[] SEC("license") = "GPL";
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 1); __uint(key_size, 4); __uint(value_size, 4); } next SEC(".maps");
char text[512];
volatile __u64 sum;
SEC("xdp") int caller(struct xdp_md *ctx)
{
	sum += bpf_csum_diff(0, 0, (void *)text, 512, 0);
	bpf_tail_call(ctx, &next, 0);
	return XDP_DROP;
}
"#;

const OTHER: &str = "
#include <kiln/heap.h>
SEC(\"xdp\") int other(struct xdp_md *ctx) { return XDP_DROP; }
";

/// The entries of all CPUs: where each begins.
fn entries() -> impl Iterator<Item = usize> {
    (0..64 * 4).map(|entry| HANDOVERS as usize + 32 * entry)
}

fn caller() -> Option<World> {
    let options = Options { quantum_ns: QUANTUM.as_nanos() as u64, ..Options::default() };
    let extension = Extension::of(&compiled_text(CALLER)?, &options).unwrap_or_else(|error| panic!("{error}"));
    World::kernel(&extension)
}

fn run(world: &World, repeat: u32) -> u32 {
    let Place::Kernel(loaded) = &world.place else { panic!("in the kernel") };
    let input = TestInput { packet: vec![0; 64], repeat, ..TestInput::default() };
    loaded.program("caller").expect("loaded").test_run(&input).expect("runs").value
}

fn goes_on_with(world: &World, other: &World, name: &str) {
    let (Place::Kernel(loaded), Place::Kernel(other)) = (&world.place, &other.place) else { panic!("in the kernel") };
    let program = other.program(name).expect("loaded");
    loaded.map("next").expect("the map").set_program(&0_u32.to_le_bytes(), &program).expect("is set");
}

/// Packets that go on with another object's program follow each other for ten quanta, all with one context's address.
#[test]
fn programs_of_other_objects_leave_no_deadline() {
    let Some(world) = caller() else { return };
    let Some(bytes) = compiled_text(OTHER) else { return };
    let object = kiln_elf::read("other", &bytes).expect("an object").object;
    let Some(other) = World::kernel(&Extension { object, bytes }) else { return };
    goes_on_with(&world, &other, "other");
    assert_eq!(run(&world, 100_000), XDP_DROP);
    let counts = world.value(SECTION);
    let cancelled: u64 = (0..MOST_POINTS).map(|point| word(&counts, POINTS as usize + 8 * point)).sum();
    assert_eq!(cancelled, 0);
}

/// A chain that interrupts another one between its tail call and its next program leaves the other's entry. The entry has to be
/// younger than 50 us when the chain ends, so it is tried several times.
#[test]
fn entries_of_interrupted_programs_stay() {
    const INTERRUPTED: [u64; 2] = [1, 7];
    const ATTEMPTS: usize = 200;
    let Some(world) = caller() else { return };
    goes_on_with(&world, &world, "caller");
    let first_entries = || entries().step_by(4);
    let stays = (0..ATTEMPTS).any(|_| {
        let mut section = world.value(SECTION);
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        for entry in first_entries() {
            for (at, value) in [INTERRUPTED[0], INTERRUPTED[1], now].into_iter().enumerate() {
                section[entry + 8 * at..entry + 8 * (at + 1)].copy_from_slice(&value.to_le_bytes());
            }
        }
        world.set_value(SECTION, &section);
        assert_eq!(run(&world, 1), XDP_DROP);
        let after = world.value(SECTION);
        first_entries().all(|at| [word(&after, at), word(&after, at + 8)] == INTERRUPTED)
    });
    assert!(stays, "each chain took an entry that was in use");
}
