//! Whether objects are optimized to the same bytes every time:
//! `cargo run -p kiln-superopt --example reproduce -- FILE.o...`
//!
//! Each object is optimized by one thread, by two, by two beside four that only keep the processors busy, and part by
//! part with all others left as they are. Objects and evidence must be equal; what differs is printed, and whether time
//! ended a run. `--efforts=N` searches with so many efforts, `--budget=N` allows so many seconds.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kiln_program::{FunctionId, Object};
use kiln_superopt::{Because, Options, Rewrite, optimize};

fn main() {
    let (flags, files): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let number = |name: &str| flags.iter().find_map(|flag| flag.strip_prefix(name)?.parse::<u64>().ok());
    let options = Options {
        budget: Duration::from_secs(number("--budget=").unwrap_or(600)),
        search: number("--efforts=").map_or(Options::default().search, |efforts| efforts as usize),
        threads: 1,
        ..Options::default()
    };
    let (mut ran, mut differ, mut cut) = (0, 0, 0);
    for path in &files {
        let bytes = std::fs::read(path).expect("a readable file");
        let Ok(elf) = kiln_elf::read(path, &bytes) else { continue };
        let object = elf.object;
        let first = optimize(&object, &options, &mut ());
        let two = Options { threads: 2, ..options.clone() };
        let mut others = vec![("two threads", optimize(&object, &two, &mut ()))];
        others.push(("two threads, busy", busy(|| optimize(&object, &two, &mut ()))));
        println!("{path}: {:?}, {:?}, {:?}", first.spent, others[0].1.spent, others[1].1.spent);
        ran += 1;
        cut += usize::from(first.cut_short || others.iter().any(|other| other.1.cut_short));
        let mut same = true;
        for (what, other) in &others {
            same &= told(path, what, &written(&first, None), &written(other, None));
        }
        for entry in object.programs.iter().map(|program| program.entry).filter(|_| object.programs.len() > 1) {
            let own: BTreeSet<FunctionId> = object.reachable_functions(entry).into_iter().collect();
            let frozen = (0..object.functions.len() as u32).map(FunctionId).filter(|id| !own.contains(id)).collect();
            if shares(&object, &own) {
                continue;
            }
            let alone = optimize(&object, &Options { frozen, ..options.clone() }, &mut ());
            let name = format!("{} alone", object.function(entry).name);
            same &= told(path, &name, &written(&first, Some(&own)), &written(&alone, Some(&own)));
        }
        differ += usize::from(!same);
    }
    println!("{ran} objects, {differ} differ, {cut} ended by time");
}

fn shares(object: &Object, own: &BTreeSet<FunctionId>) -> bool {
    let reached = object.programs.iter().map(|program| object.reachable_functions(program.entry));
    reached.filter(|reached| reached.iter().any(|id| own.contains(id))).count() > 1
}

/// Optimizes beside threads that keep every processor busy.
fn busy(run: impl FnOnce() -> Rewrite) -> Rewrite {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let rewrite = run();
        over.store(true, Ordering::Relaxed);
        rewrite
    })
}

/// All that must be the same every time, in some functions: not how long it took.
fn written(rewrite: &Rewrite, functions: Option<&BTreeSet<FunctionId>>) -> Vec<String> {
    let counts = |id: &FunctionId| functions.is_none_or(|functions| functions.contains(id));
    let mut text: Vec<String> = Vec::new();
    for one in rewrite.evidence.iter().filter(|one| counts(&one.function)) {
        let proved = match &one.because {
            Because::Law(_) => "",
            Because::Window { proved_by, .. } => proved_by,
        };
        let ids = (&one.before_ids, &one.after_ids);
        text.push(format!(
            "{} {} {proved} {:?} {:?} -> {:?} {ids:?}",
            one.function_name,
            one.because.name(),
            one.site,
            one.before,
            one.after
        ));
    }
    if functions.is_none() {
        text.extend(rewrite.refused.iter().map(|refused| format!("{refused:?}")));
    }
    for (index, function) in rewrite.object.functions.iter().enumerate() {
        if counts(&FunctionId(index as u32)) {
            text.extend(function.nodes.iter().map(|node| format!("{} {node:?}", function.name)));
        }
    }
    text
}

fn told(path: &str, what: &str, one: &[String], other: &[String]) -> bool {
    let first = one.iter().zip(other).find(|(one, other)| one != other);
    match first {
        None if one.len() == other.len() => return true,
        None => println!("  {path}: {what}: {} lines instead of {}", other.len(), one.len()),
        Some((one, other)) => println!("  {path}: {what}: differs\n    {one}\n    {other}"),
    }
    false
}
