//! Each canary bug is found by its target within seconds, and by that bug's symptom: without the canary, the input that
//! shows it passes.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kiln_fuzz::engine;
use kiln_fuzz::subject::{CANARIES, Canary, Subject};
use kiln_fuzz::targets::{TARGETS, by_name};

/// Maximum time for each canary on a busy machine; most are found in milliseconds.
const TIME: Duration = Duration::from_secs(600);

fn skipped(canary: &Canary) -> bool {
    let reason = if canary.needs_kernel { kiln_test::engine::kernel_available().err() } else { None };
    let no_objects = canary.target == "elf" && kiln_fuzz::seeds::objects().is_empty();
    let reason = reason.or(no_objects.then(|| "no objects; `scripts/corpus` makes them".to_owned()));
    if let Some(reason) = &reason {
        // Past the test harness, which hides what passing tests print.
        let _ = writeln!(std::io::stderr(), "skipped: canary {}: {reason}", canary.name);
    }
    reason.is_some()
}

fn find(canary: &Canary) {
    let target = by_name(canary.target).expect("a target that exists");
    let subject = (canary.subject)();
    let end = std::time::Instant::now() + TIME;
    let seeds = (target.seeds)();
    for index in 0.. {
        assert!(std::time::Instant::now() < end, "canary {} is not found in {index} inputs", canary.name);
        let input = engine::input(target, &seeds, 1, index);
        let Err(message) = engine::check(target, &subject, &input) else { continue };
        if let Err(own) = engine::check(target, &Subject::default(), &input) {
            panic!("target {} fails on its own: {own}", target.name);
        }
        println!("{}: input {index}: {message}", canary.name);
        return;
    }
}

#[test]
fn every_canary_is_found() {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(canary) = CANARIES.get(next.fetch_add(1, Ordering::SeqCst)) {
            if !skipped(canary) {
                find(canary);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}

#[test]
fn every_target_has_a_canary() {
    for target in TARGETS {
        assert!(CANARIES.iter().any(|canary| canary.target == target.name), "{}", target.name);
    }
}
