//! Programs that try to outlast their quantum: global functions, tail calls, callbacks, slow helpers and large values, in each other.
//! No run takes more than 1.2 quanta of its CPU. `source` has some that were measured at up to 430 quanta, and generates others.

mod source;

use std::time::{Duration, Instant};

use kiln_linux::{LOG_STATISTICS, ObjectFile, TestInput};
use kiln_sandbox::{Error, Options, sandbox_for};
use rustix::time::{ClockId, clock_gettime};

use self::source::{KNOWN, quick_source, source};
use crate::world::{compiled_text, kernel_types};

const QUANTUM: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_millis(12);
/// A run that was interrupted for long is measured again: what outlasts its quantum does so each time.
const ATTEMPTS: usize = 6;
const XDP_PASS: u32 = 2;

/// What became of the programs.
#[derive(Debug, Default)]
struct Tally {
    run: u64,
    cancelled: u64,
    too_complex: u64,
    kernel_bugs: u64,
    longest: Duration,
    slowest_to_sandbox: (Duration, String),
    outlasted: Vec<String>,
}

/// The time that this thread was on a CPU.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Tally {
    /// Sandboxes, loads and runs the programs of a source.
    fn one(&mut self, name: &str, source: &str, most_insns: Option<u64>) {
        let Some(bytes) = compiled_text(source) else { return };
        let elf = kiln_elf::read("hostile", &bytes).expect("an object");
        let verifier = kiln_verifier::Options { kernel_types: kernel_types(), most_insns, ..Default::default() };
        let options = Options { quantum_ns: QUANTUM.as_nanos() as u64, verifier, ..Options::default() };
        let load = |object: &kiln_program::Object| {
            let bytes = elf.write(object).expect("is written");
            ObjectFile::open("hostile", &bytes).expect("libbpf reads it").load_with_log(LOG_STATISTICS)
        };
        let is_too_large = |object: &kiln_program::Object| load(object).is_err_and(|failure| failure.is_too_complex());
        let began = Instant::now();
        let rewrite = sandbox_for(&elf.object, &options, is_too_large);
        let took = began.elapsed();
        if took > self.slowest_to_sandbox.0 {
            self.slowest_to_sandbox = (took, name.to_owned());
        }
        let rewrite = match rewrite {
            Ok(rewrite) => rewrite,
            Err(error @ (Error::Rejected { .. } | Error::Result { .. } | Error::Unsupported { .. })) => {
                assert!(most_insns.is_some(), "{name}: {error}");
                self.too_complex += 1;
                return;
            }
        };
        let loaded = match load(&rewrite.object) {
            Ok(loaded) => loaded,
            // "backtracking call unexpected regs": Linux 6.18 keeps marks of registers that are dead.
            Err(failure) if failure.why().contains("verifier bug") => {
                println!("{name}: the kernel: {}", failure.why());
                self.kernel_bugs += 1;
                return;
            }
            Err(failure) => panic!("{name}: the kernel: {}", failure.why()),
        };
        let found = loaded.program("hostile").expect("loaded");
        let run = || {
            let begun = cpu_time();
            let output = found.test_run(&TestInput { packet: vec![0; 64], ..TestInput::default() }).expect("runs");
            (cpu_time().saturating_sub(begun), output.value)
        };
        let (mut took, value) = run();
        for _ in 1..ATTEMPTS {
            if took > MOST {
                took = took.min(run().0);
            }
        }
        self.run += 1;
        self.cancelled += u64::from(value == XDP_PASS);
        self.longest = self.longest.max(took);
        if took > MOST {
            println!("{name}: {took:.1?}");
            self.outlasted.push(format!("{name}: {took:.1?}"));
        }
    }
}

/// Runs `count` programs, those of the seeds from `first` on that are not too complex.
fn generated(first: u64, count: u64, most_insns: u64, source: impl Fn(u64) -> String) {
    if let Err(error) = kiln_linux::available() {
        return println!("skipped: the kernel: {error}");
    }
    let mut tally = Tally::default();
    for seed in first..first + 4 * count {
        tally.one(&format!("seed {seed}"), &source(seed), Some(most_insns));
        if seed % 50 == 0 {
            println!("to seed {seed}: {tally:?}");
        }
        if tally.run == count {
            break;
        }
    }
    println!("{tally:?}");
    assert!(tally.outlasted.is_empty(), "{:?}", tally.outlasted);
    assert!(tally.kernel_bugs * 100 <= tally.run, "{tally:?}");
    assert!(tally.run == 0 || tally.cancelled * 2 > tally.run, "most of the programs are hostile: {tally:?}");
}

#[test]
fn no_run_outlasts_its_quantum() {
    if let Err(error) = kiln_linux::available() {
        return println!("skipped: the kernel: {error}");
    }
    let mut tally = Tally::default();
    for (name, text) in KNOWN {
        tally.one(name, &source::known(text), None);
    }
    println!("{tally:?}");
    assert!(tally.outlasted.is_empty(), "{:?}", tally.outlasted);
    // A fixed number of faults may be over in time on a fast machine.
    assert!(tally.cancelled * 4 >= tally.run * 3, "nearly all take longer than a quantum: {tally:?}");
}

#[test]
fn no_generated_run_outlasts_its_quantum() {
    generated(1, 30, 20_000, quick_source);
}

/// `KILN_HOSTILE` says how many programs, `KILN_HOSTILE_FIRST` the first seed.
#[test]
#[ignore = "takes minutes"]
fn no_run_of_a_thousand_outlasts_its_quantum() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let first = number("KILN_HOSTILE_FIRST", 1000);
    generated(first, number("KILN_HOSTILE", 1000), 400_000, source);
}
