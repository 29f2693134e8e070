//! What a hash map takes to store a new entry, and to delete it: each pair of events does both once.
//!
//! A loop of one of these calls measures another thing. What it stores is there from the second turn on, and an update of that
//! is not a new entry; what it deletes is gone. So one program stores entries, and a second one deletes them.

use kiln_linux::{LoadedImages, TestInput};
use kiln_program::Error;

use super::median;
use kiln_live::live::loaded;

/// Entries of a run: few enough for a processor's own cache, as those of pairs are.
const ENTRIES: u32 = 64;
/// Runs of each program.
const SAMPLES: usize = 200;

/// Nanoseconds of a call that stores an entry, and of one that deletes it.
///
/// # Errors
/// What the kernel lacks.
pub fn stored_and_deleted() -> Result<[f64; 2], Error> {
    let program = |name: &str, call: &str| {
        format!(
            "; program sched_cls name {name}\n; function {name}\nr9 = 0\nturn:\n*(u64 *)(r10 - 8) = r9\n\
             *(u64 *)(r10 - 16) = r9\n*(u64 *)(r10 - 24) = r9\nr1 = map[hash]\nr2 = r10\nr2 += -8\nr3 = r10\nr3 += -24\n\
             r4 = 0\n{call}r9 += 1\nif r9 < {ENTRIES} goto turn\nr0 = 0\nexit\n"
        )
    };
    let calls = [("none", ""), ("store", "call map_update_elem\n"), ("delete", "call map_delete_elem\n")];
    let programs: String = calls.into_iter().map(|(name, call)| program(name, call)).collect();
    let images = loaded(&format!("; map hash hash key 8 value 16 entries 1024\n{programs}"))?;
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..=SAMPLES {
        let [none, store, delete] = [run(&images, 0)?, run(&images, 1)?, run(&images, 2)?];
        // The first round warms up.
        if round > 0 {
            samples
                .iter_mut()
                .zip([store, delete])
                .for_each(|(samples, ns)| samples.push((ns - none) / f64::from(ENTRIES)));
        }
    }
    Ok(samples.map(median))
}

fn run(images: &LoadedImages, program: usize) -> Result<f64, Error> {
    let input = TestInput { packet: vec![0; 64], context: Vec::new(), repeat: 1 };
    Ok(images.progs[program].test_run(&input)?.duration_ns.into())
}
