//! Our verdict beside the kernel's, for every program of the objects named:
//!
//!     cargo run --release -p kiln-verifier --example agreement -- [--quiet] [--facts] target/corpus/xdp-tools/*.o
//!
//! Rows: agreement, object, program, type, what we say (processed instructions, microseconds), what the kernel says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kiln_linux::ObjectFile;
use kiln_program::Program;
use kiln_program::btf::Btf;
use kiln_verifier::{Error, Options, verify};

#[derive(Default)]
struct Tally {
    both_accept: u32,
    both_reject: u32,
    only_kernel: u32,
    only_ours: u32,
    unsupported: u32,
}

#[derive(Default)]
struct Sums {
    ours_us: f64,
    kernel_us: f64,
    ours_insns: u64,
    kernel_insns: u64,
}

fn main() {
    let vmlinux = std::fs::read("/sys/kernel/btf/vmlinux").ok().and_then(|bytes| Btf::parse(&bytes).ok()).map(Arc::new);
    let mut quiet = false;
    let mut facts = false;
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let mut sums = Sums::default();
    let mut not_loaded = 0;
    let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
    for argument in std::env::args().skip(1) {
        if argument == "--facts" {
            facts = true;
            continue;
        }
        if argument == "--quiet" {
            quiet = true;
            continue;
        }
        let bytes = match std::fs::read(&argument) {
            Ok(bytes) => bytes,
            Err(error) => {
                println!("{argument}: {error}");
                continue;
            }
        };
        let object = match kiln_elf::read(&argument, &bytes) {
            Ok(mut file) => {
                if let Some(kernel) = &vmlinux {
                    let _ = kiln_elf::resolve_core(&mut file.object, kernel);
                }
                file.object
            }
            Err(error) => {
                println!("UNREADABLE {argument}: {error}");
                continue;
            }
        };
        let short = argument.rsplit('/').next().unwrap_or(&argument).to_owned();
        for program in &object.programs {
            let Some(program_type) = program.program_type else { continue };
            let options = Options { skip_facts: !facts, kernel_types: vmlinux.clone(), ..Options::default() };
            let began = Instant::now();
            let verdict = verify(&object, program, &options);
            let took_us = began.elapsed().as_nanos() as f64 / 1000.0;
            let Some(kernel) = kernel_verdict(&argument, &bytes, program) else {
                not_loaded += 1;
                continue;
            };
            let tally = tallies.entry(program_type.name().to_owned()).or_default();
            let ours = match &verdict {
                Ok(verified) => format!("ok {} insns {took_us:.0} us", verified.statistics.processed_insns),
                Err(Error::Rejected(rejection)) => format!(
                    "{} at {}+{} `{}`: {}",
                    rejection.reason, rejection.position.0, rejection.position.1, rejection.listing, rejection.message
                ),
                Err(error) => error.to_string(),
            };
            let (word, theirs) = match (&verdict, &kernel) {
                (Ok(verified), Ok((insns, kernel_us))) => {
                    tally.both_accept += 1;
                    sums.ours_us += took_us;
                    sums.kernel_us += *kernel_us;
                    sums.ours_insns += verified.statistics.processed_insns;
                    sums.kernel_insns += insns;
                    ("agree", format!("ok {insns} insns {kernel_us:.0} us"))
                }
                (Ok(_), Err(reason)) => {
                    tally.only_ours += 1;
                    ("OURS-ONLY", reason.clone())
                }
                (Err(Error::Rejected(_)), Err(reason)) => {
                    tally.both_reject += 1;
                    ("agree-no", reason.clone())
                }
                (Err(Error::Rejected(rejection)), Ok((insns, _))) => {
                    tally.only_kernel += 1;
                    *reasons.entry(rejection.reason.code().to_owned()).or_default() += 1;
                    ("KERNEL-ONLY", format!("ok {insns} insns"))
                }
                (Err(_), kernel) => {
                    tally.unsupported += 1;
                    *reasons.entry(ours.chars().take(60).collect()).or_default() += 1;
                    ("unsupported", kernel.as_ref().map_or_else(Clone::clone, |_| "ok".to_owned()))
                }
            };
            if !quiet || word.starts_with(char::is_uppercase) {
                println!("{word:11} {short:34} {:26} {:12} | {ours} | {theirs}", program.name, program_type.name());
            }
        }
    }
    println!(
        "\n{:24} {:>8} {:>8} {:>11} {:>9} {:>11}",
        "type", "both ok", "both no", "kernel only", "ours only", "unsupported"
    );
    for (name, tally) in &tallies {
        println!(
            "{name:24} {:>8} {:>8} {:>11} {:>9} {:>11}",
            tally.both_accept, tally.both_reject, tally.only_kernel, tally.only_ours, tally.unsupported
        );
    }
    println!(
        "accepted by both: ours {} insns in {:.0} us, kernel {} insns in {:.0} us",
        sums.ours_insns, sums.ours_us, sums.kernel_insns, sums.kernel_us
    );
    println!("{not_loaded} programs that libbpf could not bring to the kernel's verifier");
    for (reason, count) in reasons {
        println!("{count:6} {reason}");
    }
}

/// Processed instructions and microseconds, or the kernel's reason; `None` where the verifier was not asked.
fn kernel_verdict(name: &str, bytes: &[u8], program: &Program) -> Option<Result<(u64, f64), String>> {
    let mut file = ObjectFile::open(name, bytes).ok()?;
    file.only(&[&program.name]).ok()?;
    if let Some(program_type) = program.program_type {
        file.set_type(&program.name, program_type, program.attach_type).ok()?;
    }
    match file.load_with_log(4) {
        Ok(loaded) => {
            let log = loaded.logs.iter().find(|log| log.program == program.name).map_or("", |log| &log.log);
            let after = |word: &str| -> f64 {
                let rest = log.split(word).nth(1).unwrap_or("");
                rest.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
            };
            Some(Ok((after("processed ") as u64, after("verification time "))))
        }
        Err(failure) => failure.reason().map(|reason| Err(reason.to_owned())),
    }
}
