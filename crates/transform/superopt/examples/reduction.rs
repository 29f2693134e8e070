//! How much smaller a corpus gets: `cargo run -p kiln-superopt --release --example reduction -- FILE.o...`
//!
//! Prints each program's slots before and after, what each rule and law contributed, and where the time went. `-v` prints
//! each rewrite, `-l` both listings, `--efforts=N` searches with so many efforts (0: not at all), `-u` rewrites what our verifier does not support too. Programs are verified against the running
//! kernel's types, where they can be read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kiln_program::btf::Btf;
use kiln_superopt::{Because, Options, Timings, Unverified, optimize};

fn main() {
    let (flags, files): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let verbose = flags.iter().any(|flag| flag == "-v");
    let listings = flags.iter().any(|flag| flag == "-l");
    let number = |name: &str| flags.iter().find_map(|flag| flag.strip_prefix(name)?.parse::<u64>().ok());
    let types = std::fs::read("/sys/kernel/btf/vmlinux").ok().and_then(|bytes| Btf::parse(&bytes).ok());
    let options = Options {
        kernel_types: types.map(Arc::new),
        budget: Duration::from_secs(number("--budget=").unwrap_or(10)),
        search: number("--efforts=").map_or(Options::default().search, |efforts| efforts as usize),
        unverified: if flags.iter().any(|flag| flag == "-u") { Unverified::All } else { Unverified::None },
        without: flags.iter().filter_map(|flag| flag.strip_prefix("--without=")).map(str::to_owned).collect(),
        ..Options::default()
    };
    let mut rules: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    let (mut before, mut after, mut ratios, mut skipped, mut slowest) = (0, 0, Vec::new(), Vec::new(), Duration::ZERO);
    let mut total = Duration::ZERO;
    let mut timings = Timings::default();
    let mut proofs: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for path in &files {
        let bytes = std::fs::read(path).expect("a readable file");
        let object = match kiln_elf::read(path, &bytes) {
            Ok(elf) => elf.object,
            Err(error) => {
                println!("{path}: {error}");
                continue;
            }
        };
        let rewrite = optimize(&object, &options, &mut ());
        slowest = slowest.max(rewrite.spent);
        total += rewrite.spent;
        timings.add_all(&rewrite.timings);
        for (index, program) in object.programs.iter().enumerate() {
            let old = object.program_slots(program);
            let new = rewrite.object.program_slots(&rewrite.object.programs[index]);
            let reason = rewrite.skipped.iter().find(|(id, _)| id.index() == index).map(|(_, reason)| reason);
            if let Some(reason) = reason {
                skipped.push(format!("{path} {}: {}", program.name, reason.lines().next().unwrap_or("")));
                continue;
            }
            before += old;
            after += new;
            ratios.push(f64::from(old - new) / f64::from(old));
            let percent = 100.0 * ratios.last().unwrap();
            println!("{path} {} {old} -> {new} ({percent:.1}%) {:?}", program.name, rewrite.spent);
        }
        for one in &rewrite.evidence {
            if let Because::Window { proved_by, micros, .. } = &one.because {
                proofs.entry(*proved_by).or_default().push(*micros);
            }
            let entry = rules.entry(one.because.name()).or_default();
            entry.0 += one.slots_saved;
            entry.1 += 1;
            if verbose {
                println!("  {} in {}: {:#?} -> {:#?}", one.because.name(), one.function_name, one.before, one.after);
            }
        }
        for (pass, function, reason) in &rewrite.refused {
            println!("  refused {pass} in {function}: {reason}");
        }
        if listings {
            println!("{}", kiln_program::text::listing(&rewrite.object));
        }
    }
    println!("\nskipped {}:", skipped.len());
    for line in &skipped {
        println!("  {line}");
    }
    println!("\nrule or law            slots  times");
    for (name, (slots, times)) in &rules {
        println!("{name:22} {slots:5}  {times}");
    }
    for (method, micros) in &mut proofs {
        micros.sort_unstable();
        let at = |part: usize| micros[(micros.len() - 1) * part / 100];
        println!("proved by {method}: {}, median {} us, 95% {} us", micros.len(), at(50), at(95));
    }
    println!();
    for (what, time, calls) in timings.rows() {
        println!("{what:22} {:9.1} ms  {calls} times", 1000.0 * time.as_secs_f64());
    }
    let mean = 100.0 * ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
    println!(
        "\n{} programs, {before} -> {after} slots, mean reduction {mean:.2}%, sum {:.2}%, {} skipped, {total:?} in all, slowest {slowest:?}",
        ratios.len(),
        100.0 * f64::from(before - after) / f64::from(before.max(1)),
        skipped.len()
    );
}
