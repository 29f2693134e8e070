//! Slots saved over the corpora, program by program and rule by rule, without asking the kernel.
//!
//! ```text
//!   KILN_CORPUS_ONLY=xdp-tools cargo run --release -p kiln-test --example slots [FOLDER]
//! ```
//!
//! With a folder, the listings before and after are written there, one pair a program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kiln_superopt::{Options, optimize};
use kiln_test::corpus;

/// Seconds for one object at most, unless `KILN_BUDGET_S` says otherwise.
const BUDGET_S: u64 = 3;

fn main() {
    let only = std::env::var("KILN_CORPUS_ONLY").unwrap_or_default();
    let seconds = std::env::var("KILN_BUDGET_S").ok().and_then(|text| text.parse().ok()).unwrap_or(BUDGET_S);
    let budget = Duration::from_secs(seconds);
    let folder = std::env::args().nth(1);
    let objects: Vec<_> = corpus::objects()
        .into_iter()
        .filter(|object| {
            let path = object.path.to_string_lossy();
            object.refused().is_none() && !path.contains("/verifier_") && path.contains(&only)
        })
        .collect();
    let next = AtomicUsize::new(0);
    let out = Mutex::new((Vec::new(), BTreeMap::<&'static str, (usize, i64)>::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(object) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Ok(input) = object.read() else { continue };
                    let options = Options { budget, unverified: kiln_superopt::Unverified::All, ..Options::default() };
                    let rewrite = optimize(&input.object, &options, &mut ());
                    let mut out = out.lock().expect("no thread panics");
                    for one in &rewrite.evidence {
                        let row = out.1.entry(one.because.name()).or_default();
                        row.0 += 1;
                        row.1 += one.slots_saved;
                    }
                    let pairs = input.object.programs.iter().zip(&rewrite.object.programs);
                    for (index, (old, new)) in pairs.enumerate() {
                        if object.leaves_out(&old.name) {
                            continue;
                        }
                        let skipped = rewrite.skipped.iter().any(|(id, _)| id.index() == index);
                        let slots = (input.object.program_slots(old), rewrite.object.program_slots(new));
                        let path = object.path.display().to_string();
                        out.0.push((object.group.clone(), path, old.name.clone(), slots, skipped));
                    }
                    if let Some(folder) = &folder {
                        let stem = object.path.to_string_lossy().replace('/', "_");
                        let before = kiln_program::text::listing(&input.object);
                        let mut after = kiln_program::text::listing(&rewrite.object);
                        for refused in &rewrite.refused {
                            let _ = writeln!(after, "; refused {refused:?}");
                        }
                        for skipped in &rewrite.skipped {
                            let _ = writeln!(after, "; skipped {skipped:?}");
                        }
                        std::fs::write(format!("{folder}/{stem}.before"), before).expect("the folder is writable");
                        std::fs::write(format!("{folder}/{stem}.after"), after).expect("the folder is writable");
                    }
                }
            });
        }
    });
    let (mut rows, rules) = out.into_inner().expect("no thread panics");
    rows.sort();
    let mut groups: BTreeMap<&str, (usize, f64, u64, u64)> = BTreeMap::new();
    for (group, path, program, (before, after), skipped) in &rows {
        println!("{path}:{program} {before} {after}{}", if *skipped { " skipped" } else { "" });
        let group = groups.entry(group).or_default();
        group.0 += 1;
        group.1 += 1.0 - f64::from(*after) / f64::from((*before).max(1));
        group.2 += u64::from(*before);
        group.3 += u64::from(*after);
    }
    for (rule, (count, saved)) in rules {
        eprintln!("{rule:20} {count:6} times {saved:6} slots");
    }
    for (group, (count, sum, before, after)) in groups {
        let mean = 100.0 * sum / count as f64;
        let total = 100.0 * (1.0 - after as f64 / before.max(1) as f64);
        eprintln!("{group:22} {count:5} programs  mean {mean:5.2}%  {before} -> {after} ({total:.2}%)");
    }
}
