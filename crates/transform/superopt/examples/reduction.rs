//! How much smaller a corpus gets: `cargo run -p kiln-superopt --release --example reduction -- FILE.o...`
//!
//! Prints each program's slots before and after, what each rule and law contributed, and where the time went. `-v` prints
//! each rewrite, `-l` both listings, `--efforts=N` searches with so many efforts (0: not at all), `-u` rewrites what our
//! verifier does not support too, `--program=NAME` looks at one program alone, `--type=TYPE` is the type of programs whose
//! section does not tell it, `--threads=N` uses so many threads, and `--goal=GOAL` is the goal. Programs are verified against the running kernel's types, where they can be read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kiln_program::Object;
use kiln_program::btf::Btf;
use kiln_superopt::{Because, Evidence, Goal, Options, Rewrite, Timings, Unverified, optimize};

fn main() {
    let (flags, files): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    let options = options(&flags);
    let mut totals = Totals::default();
    for path in &files {
        let bytes = std::fs::read(path).expect("a readable file");
        let mut object = match kiln_elf::read(path, &bytes) {
            Ok(elf) => elf.object,
            Err(error) => {
                println!("{path}: {error}");
                continue;
            }
        };
        let text = |name: &str| flags.iter().find_map(|flag| flag.strip_prefix(name));
        object.programs.retain(|program| text("--program=").is_none_or(|only| program.name == only));
        for program in object.programs.iter_mut().filter(|program| program.program_type.is_none()) {
            program.program_type = text("--type=").and_then(kiln_platform::ProgramType::from_name);
        }
        let rewrite = optimize(&object, &options, &mut ());
        totals.add_programs(path, &object, &rewrite);
        for one in &rewrite.evidence {
            totals.add_evidence(one);
            if has("-v") {
                println!("  {} in {}: {:#?} -> {:#?}", one.because.name(), one.function_name, one.before, one.after);
            }
        }
        for (pass, function, reason) in &rewrite.refused {
            println!("  refused {pass} in {function}: {reason}");
        }
        if has("-l") {
            println!("{}", kiln_program::text::listing(&rewrite.object));
        }
    }
    totals.print();
}

fn options(flags: &[String]) -> Options {
    let number = |name: &str| flags.iter().find_map(|flag| flag.strip_prefix(name)?.parse::<u64>().ok());
    let types = std::fs::read("/sys/kernel/btf/vmlinux").ok().and_then(|bytes| Btf::parse(&bytes).ok());
    Options {
        kernel_types: types.map(Arc::new),
        budget: Duration::from_secs(number("--budget=").unwrap_or(10)),
        threads: number("--threads=").map_or(Options::default().threads, |threads| threads as usize),
        search: number("--efforts=").map_or(Options::default().search, |efforts| efforts as usize),
        unverified: if flags.iter().any(|flag| flag == "-u") { Unverified::All } else { Unverified::None },
        without: flags.iter().filter_map(|flag| flag.strip_prefix("--without=")).map(str::to_owned).collect(),
        goal: flags.iter().find_map(|flag| Goal::from_name(flag.strip_prefix("--goal=")?)).unwrap_or_default(),
        ..Options::default()
    }
}

/// What all objects together gave.
#[derive(Default)]
struct Totals {
    /// Slots of all programs that were not skipped, before and after.
    slots: [u32; 2],
    /// The part of its slots that each program lost.
    ratios: Vec<f64>,
    skipped: Vec<String>,
    /// Slots saved and uses, by rule or law.
    rules: BTreeMap<String, (i64, usize)>,
    /// Microseconds of each window's proof, by how it was proved.
    proofs: BTreeMap<&'static str, Vec<u64>>,
    timings: Timings,
    slowest: Duration,
    spent: Duration,
}

impl Totals {
    fn add_programs(&mut self, path: &str, object: &Object, rewrite: &Rewrite) {
        self.slowest = self.slowest.max(rewrite.spent);
        self.spent += rewrite.spent;
        self.timings.add_all(&rewrite.timings);
        for (index, program) in object.programs.iter().enumerate() {
            let old = object.program_slots(program);
            let new = rewrite.object.program_slots(&rewrite.object.programs[index]);
            let reason = rewrite.skipped.iter().find(|(id, _)| id.index() == index).map(|(_, reason)| reason);
            if let Some(reason) = reason {
                self.skipped.push(format!("{path} {}: {}", program.name, reason.lines().next().unwrap_or("")));
                continue;
            }
            self.slots = [self.slots[0] + old, self.slots[1] + new];
            let ratio = f64::from(old - new) / f64::from(old);
            self.ratios.push(ratio);
            println!("{path} {} {old} -> {new} ({:.1}%) {:?}", program.name, 100.0 * ratio, rewrite.spent);
        }
    }

    fn add_evidence(&mut self, one: &Evidence) {
        if let Because::Window { proved_by, micros, .. } = &one.because {
            self.proofs.entry(*proved_by).or_default().push(*micros);
        }
        let entry = self.rules.entry(one.because.name().to_owned()).or_default();
        entry.0 += one.slots_saved;
        entry.1 += 1;
    }

    fn print(mut self) {
        println!("\nskipped {}:", self.skipped.len());
        for line in &self.skipped {
            println!("  {line}");
        }
        println!("\nrule or law            slots  times");
        for (name, (slots, times)) in &self.rules {
            println!("{name:22} {slots:5}  {times}");
        }
        for (method, micros) in &mut self.proofs {
            micros.sort_unstable();
            let at = |part: usize| micros[(micros.len() - 1) * part / 100];
            println!("proved by {method}: {}, median {} us, 95% {} us", micros.len(), at(50), at(95));
        }
        println!();
        for (what, time, calls) in self.timings.rows() {
            println!("{what:22} {:9.1} ms  {calls} times", 1000.0 * time.as_secs_f64());
        }
        let [before, after] = self.slots;
        let mean = 100.0 * self.ratios.iter().sum::<f64>() / self.ratios.len().max(1) as f64;
        println!(
            "\n{} programs, {before} -> {after} slots, mean reduction {mean:.2}%, sum {:.2}%, {} skipped, {:?} in all, \
             slowest {:?}",
            self.ratios.len(),
            100.0 * f64::from(before - after) / f64::from(before.max(1)),
            self.skipped.len(),
            self.spent,
            self.slowest
        );
    }
}
