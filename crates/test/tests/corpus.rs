//! Optimizes every object of the corpora. The result must load where the original loads, cost the kernel's verifier no
//! more, and do the same on real packets, in the kernel and on both of the VM's engines.
//!
//! `target/corpus/report.json` keeps the figures. `KILN_CORPUS_ONLY` limits the run to paths that contain a text.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_driver::check::KernelVerdict;
use kiln_driver::compare::{self, Comparison};
use kiln_driver::optimize::{self, Optimized};
use kiln_driver::{Engine, Input, input, packets};
use kiln_test::corpus::{self, CorpusObject};
use serde::Serialize;

/// Packets each program is given.
const PACKETS: usize = 320;
/// Packets each program must take at least: programs on socket buffers refuse cut-off IP headers.
const TAKEN: usize = 256;
/// Time to optimize one object at most.
const BUDGET: Duration = Duration::from_secs(3);
/// Groups of whole programs. Other tests cover the verifier's own selftests of a few instructions each.
fn takes_part(object: &CorpusObject) -> bool {
    let only = std::env::var("KILN_CORPUS_ONLY").unwrap_or_default();
    let path = object.path.to_string_lossy();
    let verifier_test = path.contains("/verifier_");
    object.refused().is_none() && !verifier_test && path.contains(&only)
}

/// The result for one program.
#[derive(Serialize)]
struct Row {
    group: String,
    object: String,
    #[serde(flatten)]
    optimized: Optimized,
    kernel: Comparison,
    interpreter: Comparison,
    jit: Comparison,
    engines: Comparison,
}

/// Says something past the test harness's capture.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[test]
fn optimized_objects_are_drop_ins() {
    let objects: Vec<CorpusObject> = corpus::objects().into_iter().filter(takes_part).collect();
    if objects.is_empty() {
        say("skipped: no corpora");
        return;
    }
    let kernel = kiln_driver::require_kernel();
    if let Err(error) = &kernel {
        say(&format!("skipped: the kernel's side of the corpus: {error}"));
    }
    let next = AtomicUsize::new(0);
    let (rows, failures) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let spent = Mutex::new(Duration::ZERO);
    std::thread::scope(|scope| {
        for cpu in 0..std::thread::available_parallelism().map_or(1, usize::from).min(2) {
            let (objects, next, kernel) = (&objects, &next, &kernel);
            let (rows, failures, spent) = (&rows, &failures, &spent);
            scope.spawn(move || {
                stay_on(cpu);
                while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    match examine(object, kernel.is_ok()) {
                        Ok((own, optimizing)) => {
                            rows.lock().expect("rows").extend(own);
                            *spent.lock().expect("time") += optimizing;
                        }
                        Err(error) => failures.lock().expect("failures").push(error),
                    }
                    if begun.elapsed() > Duration::from_secs(20) {
                        say(&format!("slow: {} took {:?}", object.path.display(), begun.elapsed()));
                    }
                }
            });
        }
    });
    let rows = rows.into_inner().expect("rows");
    let mut failures = failures.into_inner().expect("failures");
    failures.extend(rows.iter().flat_map(judge));
    report(&rows, spent.into_inner().expect("time"));
    let report = serde_json::to_vec_pretty(&rows).expect("rows are plain data");
    std::fs::write(corpus::folder().join("report.json"), report).expect("the corpus folder is writable");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Keeps this thread on one CPU: test runs happen on the caller's, and programs count by CPU.
fn stay_on(cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &cpus) {
        say(&format!("cannot stay on CPU {cpu} ({error}): programs that count by CPU may differ"));
    }
}

fn examine(object: &CorpusObject, kernel: bool) -> Result<(Vec<Row>, Duration), String> {
    let name = object.path.display().to_string();
    let input = match object.read() {
        Ok(input) => input,
        // The front end has its own tests; here only objects that it reads count.
        Err(error) => {
            say(&format!("not read: {error}"));
            return Ok((Vec::new(), Duration::ZERO));
        }
    };
    let mut options = optimize::Options::default();
    options.budget = BUDGET;
    options.ask_kernel = kernel;
    let outcome = optimize::optimize(&input, &options, &mut ()).map_err(|error| format!("{name}: {error}"))?;
    let after = Input { bytes: outcome.bytes, ..input::of_object(outcome.object) };
    let packets = packets::corpus(0x6b69_6c6e, PACKETS);
    let mut rows = Vec::new();
    for (program, optimized) in input.object.programs.iter().zip(outcome.programs) {
        if object.leaves_out(&program.name) {
            continue;
        }
        let in_kernel = if kernel {
            compare::in_kernel((&input.bytes, &input.object), &after.bytes, program, &packets)
        } else {
            Comparison::NotRun("bpf(2) is not allowed".to_owned())
        };
        let in_vm = |other, engines| compare::in_vm(&input.object, other, program, &packets, engines);
        rows.push(Row {
            group: object.group.clone(),
            object: name.clone(),
            optimized,
            kernel: in_kernel,
            interpreter: in_vm(&after.object, (Engine::Interpreter, Engine::Interpreter)),
            jit: in_vm(&after.object, (Engine::Jit, Engine::Jit)),
            engines: in_vm(&input.object, (Engine::Interpreter, Engine::Jit)),
        });
    }
    Ok((rows, outcome.spent))
}

/// What is wrong with a row.
fn judge(row: &Row) -> Vec<String> {
    let own = &row.optimized;
    let name = format!("{}:{}", row.object, own.program);
    let mut wrong = Vec::new();
    if own.slots_after > own.slots_before {
        wrong.push(format!("{name} grew from {} to {} slots", own.slots_before, own.slots_after));
    }
    match (&own.kernel_before, &own.kernel_after) {
        (Some(KernelVerdict::Accepted { .. }), Some(KernelVerdict::Rejected { reason })) => {
            wrong.push(format!("{name} no longer loads: {reason}"));
        }
        (
            Some(KernelVerdict::Accepted { processed_insns: old }),
            Some(KernelVerdict::Accepted { processed_insns: new }),
        ) if new > old => {
            wrong.push(format!("{name} costs the kernel's verifier {new} instructions instead of {old}"));
        }
        _ => {}
    }
    for (place, comparison) in [
        ("the kernel", &row.kernel),
        ("the interpreter", &row.interpreter),
        ("the JIT", &row.jit),
        ("interpreter against JIT", &row.engines),
    ] {
        match comparison {
            Comparison::Different(difference) => wrong.push(format!("{name} in {place}: {difference}")),
            Comparison::Equal(count) if *count < TAKEN => {
                wrong.push(format!("{name} in {place}: took only {count} packets"));
            }
            _ => {}
        }
    }
    wrong
}

/// The figures, and by name what could not be run.
fn report(rows: &[Row], spent: Duration) {
    let mut groups: Vec<&str> = rows.iter().map(|row| row.group.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        let own: Vec<&Row> = rows.iter().filter(|row| row.group == group).collect();
        let count =
            |pick: fn(&Row) -> &Comparison| own.iter().filter(|row| matches!(pick(row), Comparison::Equal(_))).count();
        let loaded: Vec<(u32, u32)> = own.iter().filter_map(|row| processed(row)).collect();
        let (before, after): (u64, u64) = loaded
            .iter()
            .fold((0, 0), |(before, after), (old, new)| (before + u64::from(*old), after + u64::from(*new)));
        say(&format!(
            "{group}: {} programs, {} load in the kernel before and after; mean slot reduction {:.1}% over all, \
             {:.1}% over those optimized; kernel's processed instructions {before} -> {after}; equal on at least {TAKEN} \
             packets: kernel {}, interpreter {}, JIT {}, interpreter and JIT {}",
            own.len(),
            loaded.len(),
            mean(own.iter().map(|row| saved(row))),
            mean(own.iter().filter(|row| row.optimized.skipped.is_none()).map(|row| saved(row))),
            count(|row| &row.kernel),
            count(|row| &row.interpreter),
            count(|row| &row.jit),
            count(|row| &row.engines),
        ));
    }
    say(&format!("optimizing took {:.1} s in sum", spent.as_secs_f64()));
    for row in rows {
        let name = format!("{}:{}", row.object, row.optimized.program);
        if let Some(KernelVerdict::Rejected { reason }) = &row.optimized.kernel_before {
            say(&format!("skipped: {name} does not load here, optimized or not: {reason}"));
        }
        for (place, comparison) in [("kernel", &row.kernel), ("VM", &row.jit)] {
            if let Comparison::Nondeterministic(why) = comparison {
                say(&format!("skipped: {name} in the {place} differs from itself: {why}"));
            }
        }
    }
}

fn processed(row: &Row) -> Option<(u32, u32)> {
    match (&row.optimized.kernel_before, &row.optimized.kernel_after) {
        (
            Some(KernelVerdict::Accepted { processed_insns: old }),
            Some(KernelVerdict::Accepted { processed_insns: new }),
        ) => Some((*old, *new)),
        _ => None,
    }
}

fn saved(row: &Row) -> f64 {
    let own = &row.optimized;
    100.0 * (1.0 - f64::from(own.slots_after) / f64::from(own.slots_before.max(1)))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}
