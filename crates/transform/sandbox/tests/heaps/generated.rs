//! Generated heap programs: whatever the transform emits, the kernel's verifier accepts.
//!
//! A program has pointers and numbers in registers, all from the packet at first. Its statements load, store, add atomically,
//! move pointers and follow them, branch, call functions that loop and call, hold a ring buffer record, take locks of the heap, and
//! loop: along pointers, or by counters on the stack. Programs without calls use all registers, so that guards and cancellation points
//! must borrow some. [`wide`] has the statements of the second kind of programs.

pub mod program;
mod wide;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kiln_linux::{LoadedImage, TestInput};
use kiln_sandbox::{Error, Options, Rewrite, sandbox_for};

use self::program::{WIDE, program};

/// A line of progress after this many programs.
const PROGRESS: u64 = 50;

/// What became of the programs.
#[derive(Debug, Default)]
struct Tally {
    programs: u64,
    emitted: u64,
    /// Too much for our verifier, before or after the transform.
    too_complex: u64,
    /// Emitted with the numbers of loops hidden in every iteration, because the kernel's verifier gave up on the first result.
    hidden: u64,
    /// Refused by the transform.
    unsupported: Vec<String>,
    /// Emitted and refused by the kernel.
    refused: Vec<String>,
    accesses: usize,
    guards: usize,
    new_pointers: usize,
    points: usize,
    /// Time in the kernel's verifier.
    kernel: Duration,
    /// The program that took longest.
    slowest: (Duration, u64),
}

impl Tally {
    fn print(&self, started: Instant) {
        let asked = self.accesses - self.new_pointers;
        println!(
            "{} programs: {} emitted ({} at the second attempt), {} of them refused by the kernel; {} too complex, {} unsupported {:?}; \
             {} heap accesses, {} guards of new pointers, of the other {asked} {} elided; {} cancellation points; {:.0?}, of which {:.0?} \
             in the kernel; seed {} took {:.1?}",
            self.programs,
            self.emitted,
            self.hidden,
            self.refused.len(),
            self.too_complex,
            self.unsupported.len(),
            self.unsupported.iter().collect::<BTreeSet<_>>(),
            self.accesses,
            self.new_pointers,
            self.accesses - self.guards,
            self.points,
            started.elapsed(),
            self.kernel,
            self.slowest.1,
            self.slowest.0,
        );
    }

    fn count(&mut self, rewrite: &Rewrite) {
        self.emitted += 1;
        for of in &rewrite.evidence {
            self.accesses += of.accesses;
            self.guards += of.guards;
            self.new_pointers += of.new_pointers;
            self.points += of.points.len();
        }
    }

    /// Sandboxes a program, loads it, and runs it.
    fn one(&mut self, seed: u64, options: &Options) {
        let text = program(seed);
        let object = kiln_program::text::parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        let (mut hidden, mut loaded) = (false, None);
        let asked = sandbox_for(&object, options, |object| {
            let began = Instant::now();
            let result = kiln_linux::load_image(object, &object.programs[0]);
            self.kernel += began.elapsed();
            let large = result.as_ref().err().is_some_and(|failure| failure.is_too_complex());
            hidden |= large;
            loaded = Some(result);
            large
        });
        match asked {
            Ok(rewrite) => self.count(&rewrite),
            Err(Error::Unsupported { what, .. }) => return self.unsupported.push(what),
            Err(Error::Rejected { source, .. } | Error::Result { source, .. }) => {
                let complex = match &*source {
                    kiln_verifier::Error::Rejected(why) => why.reason == kiln_verifier::Reason::TooComplex,
                    other => matches!(other, kiln_verifier::Error::Limit { .. }),
                };
                assert!(complex, "seed {seed}: {source}\n{text}");
                self.too_complex += 1;
                return;
            }
        }
        self.hidden += u64::from(hidden);
        match loaded.expect("the kernel was asked") {
            Ok(LoadedImage { prog, .. }) => {
                let input = TestInput { packet: vec![0x5a; 64], ..TestInput::default() };
                prog.test_run(&input).expect("runs");
            }
            Err(failure) => {
                let said = failure.logs.last().map_or("", |log| &log.log[log.log.len().saturating_sub(2000)..]);
                println!("seed {seed}: the kernel: {failure}\n{text}\n{said}");
                self.refused.push(format!("seed {seed}: {failure}"));
            }
        }
    }
}

fn generate(first: u64, count: u64) {
    if let Err(error) = kiln_linux::available() {
        println!("skipped: the kernel: {error}");
        return;
    }
    let verifier = kiln_verifier::Options { most_insns: Some(400_000), ..Default::default() };
    let verifier = kiln_verifier::Options { kernel_types: crate::world::kernel_types(), ..verifier };
    let options = Options { quantum_ns: 100_000, verifier, ..Options::default() };
    let (mut tally, started) = (Tally::default(), Instant::now());
    for seed in first..first + count {
        let began = Instant::now();
        tally.one(seed, &options);
        tally.programs += 1;
        tally.slowest = tally.slowest.max((began.elapsed(), seed));
        if tally.programs % PROGRESS == 0 {
            print!("to seed {seed}: ");
            tally.print(started);
        }
    }
    tally.print(started);
    assert!(tally.refused.is_empty(), "{:#?}", tally.refused);
    assert!(tally.emitted * 2 > count || count < 10, "most programs are emitted");
}

#[test]
fn the_kernel_accepts_what_is_emitted() {
    generate(1, 40);
    generate(WIDE, 20);
}

/// Minutes; `KILN_GENERATED` says how many, `KILN_GENERATED_FIRST` with which seed to begin. Programs from seed 1,000,000 on have
/// more kinds of statements.
#[test]
#[ignore = "takes minutes"]
fn the_kernel_accepts_thousands() {
    let asked = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    generate(asked("KILN_GENERATED_FIRST").unwrap_or(1), asked("KILN_GENERATED").unwrap_or(3000));
}
