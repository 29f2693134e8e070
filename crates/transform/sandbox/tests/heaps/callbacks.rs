//! Functions that helpers run: their address comes through, and a run ends with its quantum.

use std::time::{Duration, Instant};

use crate::cancellation::Shared;
use crate::world::{World, compile};

const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
const QUANTUM: Duration = Duration::from_millis(5);
/// Far below the hours that nested calls would take, also on a busy machine.
const MOST: Duration = Duration::from_secs(5);

#[test]
fn functions_that_helpers_run_end_with_the_quantum() {
    let Some(extension) = compile("tests/heaps/callbacks.bpf.c", QUANTUM) else { return };
    let endless = ["many", "nested", "without_address", "elements"];
    for (place, world) in World::all(&extension, &[&endless[..], &["few"]].concat()) {
        let shared = Shared(&world);
        assert_eq!(world.run("few", &[0; 64]).0, XDP_TX, "{place}");
        let counted = || (0..8).map(|point| shared.count(point)).sum::<u64>();
        assert_eq!(counted(), 0, "{place}");
        for (at, program) in endless.into_iter().enumerate() {
            let begun = Instant::now();
            assert_eq!(world.run(program, &[0; 64]).0, XDP_PASS, "{place}: {program}");
            let spent = begun.elapsed();
            println!("{place}: {program}: {spent:?}");
            assert!((QUANTUM..MOST).contains(&spent), "{place}: {program}: {spent:?}");
            assert_eq!(counted(), at as u64 + 1, "{place}: {program}");
        }
    }
}
