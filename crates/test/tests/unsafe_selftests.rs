//! `kiln repair` on the kernel's own tests of what must not load (`__failure`): none becomes "repaired, proved".
//!
//! ```text
//!   SEC("socket") __failure    --kiln repair-->   accepted, not-decided or really-unsafe
//! ```
//!
//! A test program may be rejected for a rule and be harmless all the same. Such a program may be repaired; [`HARMLESS`]
//! names each, with the reason. `KILN_ROWS=1` prints every decision.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_driver::repair::{self, Decision};
use kiln_test::agreement::annotation;
use kiln_test::corpus::{self, CorpusObject};

/// Time for one program, and for all of them.
const BUDGET: Duration = Duration::from_millis(400);
const TOTAL: Duration = Duration::from_secs(15);
/// Programs that are harmless, and why.
const HARMLESS: &[(&str, &str)] = &[
    (
        "verifier_bounds.o:shift_with_oversized_count_operand",
        "a shift takes the count modulo 32, so the index is 1; the verifier of the kernel gives the number up",
    ),
    (
        "verifier_jeq_infer_not_null.o:unchanged_for_jne_true_branch",
        "the first result is 0 and differs from the second, so the second is not null; the kernel does not infer it",
    ),
    ("verifier_ld_ind.o:ld_abs_subprog_early_exit", "the register without a value is copied, and the copy is dead"),
    ("verifier_ld_ind.o:ld_ind_subprog_early_exit", "the register without a value is copied, and the copy is dead"),
    (
        "verifier_reg_equal.o:subreg_equality_2",
        "the 32 bits compared are the same, so the instruction that reads a register without a value never runs",
    ),
    (
        "verifier_spill_fill.o:u64_offset_to_skb_data",
        "two stores of 32 bits make 20 of 64 bits, which is compared with the packet's end; the kernel gives them up",
    ),
    ("verifier_var_off.o:variable_offset_ctx_access", "both offsets that the number allows are fields of the context"),
];

/// What became of the programs of an object.
fn decisions(entry: &CorpusObject, end: Instant, budget: Duration) -> Vec<(String, Decision)> {
    let Ok(input) = entry.read() else { return Vec::new() };
    let mut found = Vec::new();
    for program in &input.object.programs {
        let fails = annotation::expected(&input.object, program).is_some_and(|expected| !expected.success);
        if !fails || program.program_type.is_none() || Instant::now() >= end {
            continue;
        }
        let mut options = repair::Options::default();
        (options.budget, options.find_input, options.programs) = (budget, false, vec![program.name.clone()]);
        let Ok(outcome) = repair::repair(&input, &options, &mut ()) else { continue };
        let name = format!("{}:{}", entry.file_name(), program.name);
        found.extend(outcome.programs.iter().map(|own| (name.clone(), own.decision)));
    }
    found
}

/// Each program that is said to be repaired and proved must be in the table.
fn none_is_proved(budget: Duration, total: Duration) {
    let objects: Vec<_> = corpus::objects().into_iter().filter(|entry| entry.group.starts_with("selftests")).collect();
    let (next, found, end) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Instant::now() + total);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(entry) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = decisions(entry, end, budget);
                    found.lock().expect("no thread panics while it adds").extend(own);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panics while it adds");
    let mut counts = BTreeMap::<String, usize>::new();
    for (name, decision) in &found {
        *counts.entry(format!("{decision:?}")).or_default() += 1;
        if std::env::var_os("KILN_ROWS").is_some() {
            eprintln!("{decision:?} {name}");
        }
    }
    eprintln!("{} programs that must not load: {counts:?}", found.len());
    let proved = found.iter().filter(|(_, decision)| *decision == Decision::RepairedProved).map(|(name, _)| name);
    let wrong: Vec<_> = proved.filter(|name| !HARMLESS.iter().any(|(known, _)| known == name)).collect();
    assert!(wrong.is_empty(), "programs that must not load are \"repaired, proved\": {wrong:?}");
    assert!(objects.is_empty() || !found.is_empty(), "no program was tried");
}

#[test]
fn what_must_not_load_is_not_proved() {
    none_is_proved(BUDGET, TOTAL);
}

#[test]
#[ignore = "a minute or two: every program, for two seconds each"]
fn what_must_not_load_is_not_proved_with_time() {
    none_is_proved(Duration::from_secs(2), Duration::from_secs(3600));
}
