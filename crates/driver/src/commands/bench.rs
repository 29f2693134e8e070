//! `kiln bench`: a program before and after optimization, in the VM and in the kernel.
//!
//! Timings on shared machines drift, so what is compared is measured in turns within one run:
//!
//! ```text
//!   sample 1: VM after, VM before, kernel after, kernel before
//!   sample 2: VM before, VM after, kernel before, ...               -> median of each, and the spread
//! ```
//!
//! The kernel's test run stops its clock while others run; ours counts what an interrupt costs. So a VM sample is taken
//! in chunks so short that most of them see no interrupt, and the median chunk stands for the sample.
//!
//! Each program runs on the packet that makes it work most, out of a fixed set of real protocols: an early exit on a
//! frame that it does not care about would time the call and nothing else.
//!
//! Times are net: each round also measures an empty program in both places, and the median of that is taken off
//! ([`crate::empty`]). A ratio needs times that are not nearly nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_linux::{LoadedImage, Prog, TestInput};
use kiln_platform::ProgramType;
use kiln_program::Program;
use kiln_vm::{Engine, Vm};
use serde::Serialize;

use crate::commands::optimize::{self, Optimized};
use crate::empty;
use crate::inputs::feed::Feed;
use crate::kernel::{self, KernelProgram};
use crate::loading;
use crate::packets;
use crate::timing::Timing;
use kiln_inspect::input::{self, Input, Types};
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// How to measure. By default as `kiln bench` does, without the kernel.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Options {
    /// Time to optimize one object at most.
    pub budget: Duration,
    /// Runs a sample.
    pub repeat: u32,
    /// Samples.
    pub samples: u32,
    /// Whether the kernel takes part, where it may be asked.
    pub ask_kernel: bool,
    /// The packet; by default the busiest of a fixed set.
    pub packet: Option<Vec<u8>>,
    /// The context of programs without packets; by default zeros.
    pub context: Option<Vec<u8>>,
    /// What maps and global variables hold before.
    pub feed: Feed,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            budget: Duration::from_secs(5),
            repeat: 20_000,
            samples: 8,
            ask_kernel: false,
            packet: None,
            context: None,
            feed: Feed::default(),
        }
    }
}

/// One program, measured.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The object's file name.
    pub object: Shown,
    /// What optimization did.
    #[serde(flatten)]
    pub optimized: Optimized,
    /// Nanoseconds a run in the VM's JIT.
    pub vm: Option<Pair>,
    /// Nanoseconds a run in the kernel.
    pub kernel: Option<Pair>,
    /// The VM's time over the kernel's, both before optimization; `None` where one is nearly nothing.
    pub vm_to_kernel: Option<f64>,
    /// Why a time is missing.
    pub note: Option<Shown>,
}

/// Times before and after, net of `around_ns`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    /// The original's.
    pub before: Timing,
    /// The optimized program's.
    pub after: Timing,
    /// What an empty program takes in the same place: the median, in nanoseconds. `None` if there is none of this type; then
    /// the times are whole.
    pub around_ns: Option<f64>,
}

impl Pair {
    /// The optimized program's time over the original's; `None` where a time is nearly nothing.
    pub fn ratio(&self) -> Option<f64> {
        ratio(self.after, self.before)
    }
}

/// Net nanoseconds below which a ratio of times says nothing.
const LEAST_NS: f64 = 2.0;

fn ratio(over: Timing, under: Timing) -> Option<f64> {
    [over, under].iter().all(|time| time.median_ns >= LEAST_NS).then(|| over.median_ns / under.median_ns)
}

/// Nanoseconds that a chunk of runs in the VM should take.
const CHUNK_NS: f64 = 50_000.0;

/// Runs that tell how many a chunk takes.
const TRIAL_RUNS: u32 = 1000;

/// Packets to choose the busiest from.
const CANDIDATES: usize = 64;

/// What became of several objects.
#[derive(Debug, Default)]
pub struct Measured {
    /// One row per program, in the order of the objects.
    pub rows: Vec<Row>,
    /// Objects that could not be measured, and types that no object has a program for.
    pub failed: Vec<Error>,
}

/// Optimizes objects and measures each of their programs. A type by a program's name may be about one of the objects.
/// `next` is called before each object, and ends the run if it returns `false`.
pub fn bench_all<P: kiln_superopt::Progress>(
    paths: &[PathBuf],
    types: &Types,
    options: &Options,
    progress: &mut P,
    mut next: impl FnMut(&mut P, &Path) -> bool,
) -> Measured {
    let mut measured = Measured::default();
    let mut unmatched: Vec<&str> =
        types.iter().map(|(name, _)| name.as_str()).filter(|name| !name.is_empty()).collect();
    for path in paths {
        if !next(progress, path) {
            break;
        }
        let rows = input::open(path, &[]).and_then(|mut input| {
            let unknown = input.set_types(types);
            unmatched.retain(|name| unknown.contains(name));
            input.use_kernel_types();
            bench(&input, options, progress)
        });
        match rows {
            Ok(rows) => measured.rows.extend(rows),
            Err(error) => measured.failed.push(error),
        }
    }
    let unmatched = unmatched.into_iter();
    measured.failed.extend(
        unmatched.map(|name| Error::InvalidInput(format!("--type {name}=...: no object has a program {name}"))),
    );
    measured
}

/// Optimizes an object and measures each of its programs.
///
/// # Errors
/// As [`optimize::optimize`].
pub fn bench(input: &Input, options: &Options, progress: &mut dyn kiln_superopt::Progress) -> Result<Vec<Row>, Error> {
    let search = optimize::Options { budget: options.budget, ask_kernel: options.ask_kernel, ..Default::default() };
    let outcome = optimize::optimize(input, &search, progress)?;
    let kernel_types = input.kernel_types.clone();
    let after = Input { bytes: outcome.bytes, kernel_types, ..input::of_object(outcome.object) };
    let ask_kernel = options.ask_kernel && kiln_linux::available().is_ok();
    let mut rows = Vec::new();
    for (program, optimized) in input.object.programs.iter().zip(outcome.programs) {
        let mut notes = Vec::new();
        let (vm, kernel) = measure(input, &after, program, options, ask_kernel, &mut notes);
        let vm_to_kernel = match (&vm, &kernel) {
            (Some(vm), Some(kernel)) => ratio(vm.before, kernel.before),
            _ => None,
        };
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        rows.push(Row {
            object: input.object.name.as_str().into(),
            optimized,
            vm,
            kernel,
            vm_to_kernel,
            note: note.map(Shown::from),
        });
    }
    Ok(rows)
}

/// A program's two forms, loaded where they can be.
struct Sides {
    vm: Option<(Vm, Vm)>,
    kernel: Option<(KernelProgram, KernelProgram)>,
    /// A program that only returns, where it can be loaded as this type.
    empty_vm: Option<Vm>,
    empty_kernel: Option<LoadedImage>,
    name: String,
    program_type: ProgramType,
    packet: Vec<u8>,
    /// For programs without packets.
    context: Option<Vec<u8>>,
}

fn measure(
    before: &Input,
    after: &Input,
    program: &Program,
    options: &Options,
    ask_kernel: bool,
    notes: &mut Vec<String>,
) -> (Option<Pair>, Option<Pair>) {
    let Some(program_type) = program.program_type else {
        notes.push(kiln_inspect::check::no_type(program));
        return (None, None);
    };
    let mut keep = |result: Result<_, Error>| result.map_err(|error| notes.push(in_one_line(&error))).ok();
    let vm = keep(both_vms(before, after, program, &options.feed));
    let (packet, context) = match (kernel::takes_packet(program_type), &options.packet, &vm) {
        (true, Some(packet), _) => (packet.clone(), None),
        (true, None, Some(_)) => (busiest_packet(before, program, &options.feed), None),
        (true, None, None) => (packets::corpus(1, 1).remove(0), None),
        (false, _, _) => (Vec::new(), Some(options.context.clone().unwrap_or_else(|| zero_context(program_type)))),
    };
    if context.is_some() {
        notes.push(match options.context {
            Some(_) => "timed on the recorded context".to_owned(),
            None => "timed on a context of zeros (--context-file gives another)".to_owned(),
        });
    }
    let kernel = if ask_kernel { both_kernels(before, after, program, &options.feed, notes) } else { None };
    let empty = empty::like(program);
    let empty_vm = vm.as_ref().and_then(|_| Vm::open(&empty.0, &empty.1.name, kiln_vm::Options::default()).ok());
    let empty_kernel = kernel.as_ref().and_then(|_| kiln_linux::load_image(&empty.0, &empty.1).ok());
    let name = program.name.clone();
    let mut sides = Sides { vm, kernel, empty_vm, empty_kernel, name, program_type, packet, context };
    sides.time(options, notes)
}

/// An error for a note, which is one line: its first two lines say what failed and why.
fn in_one_line(error: &Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(|line| line.trim_start_matches([' ', '|']).trim_end());
    lines.filter(|line| !line.is_empty()).take(2).collect::<Vec<_>>().join(": ")
}

/// A context of zeros, as long as the kernel's test run takes for the type.
fn zero_context(program_type: ProgramType) -> Vec<u8> {
    const ARGUMENTS: usize = 12;
    let bytes = match program_type {
        ProgramType::RawTracepoint | ProgramType::RawTracepointWritable => ARGUMENTS * size_of::<u64>(),
        _ => 0,
    };
    vec![0; bytes]
}

fn both_vms(before: &Input, after: &Input, program: &Program, feed: &Feed) -> Result<(Vm, Vm), Error> {
    let load = |input: &Input| fed_vm(input, program, crate::DEFAULT_BUDGET, feed);
    Ok((load(before)?, load(after)?))
}

/// A VM with what a loader makes of the object here.
fn fed_vm(input: &Input, program: &Program, budget: u64, feed: &Feed) -> Result<Vm, Error> {
    let mut object = input.as_loaded()?;
    feed.set_globals(&mut object)?;
    loading::fed_vm(&object, program, kiln_vm::Options { budget, ..Default::default() }, feed)
}

fn both_kernels(
    before: &Input,
    after: &Input,
    program: &Program,
    feed: &Feed,
    notes: &mut Vec<String>,
) -> Option<(KernelProgram, KernelProgram)> {
    let mut load = |input: &Input| {
        let mut object = input.object.clone();
        if !feed.is_empty() {
            let fed = feed.set_globals(&mut object).and_then(|()| loading::fed_kernel(input, &object, program, feed));
            return fed.map_err(|error| notes.push(format!("the kernel: {}", in_one_line(&error)))).ok();
        }
        let loaded = kernel::load(&input.bytes, &object, program);
        loaded.map_err(|failure| notes.push(format!("the kernel: {}", failure.reason().unwrap_or("refused")))).ok()
    };
    Some((load(before)?, load(after)?))
}

/// The packet of a fixed set on which the program takes most instructions, each on fresh maps.
fn busiest_packet(input: &Input, program: &Program, feed: &Feed) -> Vec<u8> {
    let cost = |packet: &[u8]| -> Option<u64> {
        let vm = fed_vm(input, program, 1_000_000, feed).ok()?;
        let ran = vm.run(&program.name, &kiln_vm::Input::packet(packet), Engine::Interpreter).ok()?;
        Some(ran.instructions)
    };
    let packets = packets::corpus(1, CANDIDATES);
    packets.into_iter().max_by_key(|packet| cost(packet)).unwrap_or_default()
}

impl Sides {
    /// Samples in turns.
    fn time(&mut self, options: &Options, notes: &mut Vec<String>) -> (Option<Pair>, Option<Pair>) {
        let [mut vm, mut kernel]: [[Vec<f64>; 3]; 2] = Default::default();
        // One round more than asked for: the first warms caches and is dropped.
        for round in 0..=options.samples {
            // The second one to run finds warmer caches and clocks, so they take turns at that too.
            let order = if round % 2 == 0 { [0, 1, 2] } else { [1, 0, 2] };
            for side in order {
                let times =
                    [(&mut vm, self.vm_sample(side, options)), (&mut kernel, self.kernel_sample(side, options))];
                for (samples, time) in times {
                    match time {
                        Some(Ok(time)) if round > 0 => samples[side].push(time),
                        Some(Err(error)) if round == 0 && side != EMPTY => notes.push(error),
                        _ => {}
                    }
                }
            }
        }
        (pair(vm), pair(kernel))
    }

    /// Nanoseconds of a run in the VM, if this side is there.
    fn vm_sample(&mut self, side: usize, options: &Options) -> Option<Result<f64, String>> {
        let (before, after) = self.vm.as_mut()?;
        let vm = [Some(before), Some(after), self.empty_vm.as_mut()].into_iter().nth(side)??;
        let input = kiln_vm::Input { packet: &self.packet, context: self.context.as_deref(), repeat: 1 };
        Some(vm_sample(vm, &self.name, &input, options.repeat))
    }

    /// Nanoseconds of a run in the kernel, if this side is there. The kernel repeats and times only those with packets. For
    /// raw tracepoints its run statistics say how long. Their clock is part of the time, of the empty program's as well.
    fn kernel_sample(&self, side: usize, options: &Options) -> Option<Result<f64, String>> {
        let (before, after) = self.kernel.as_ref()?;
        let empty = self.empty_kernel.as_ref().map(|empty| &empty.prog);
        let prog = [Some(&before.prog), Some(&after.prog), empty][side]?;
        let repeat = options.repeat;
        let time = match (&self.context, self.program_type) {
            (None, _) => prog
                .test_run(&TestInput { packet: self.packet.clone(), context: Vec::new(), repeat })
                .map(|ran| ran.duration_ns.into()),
            (Some(context), ProgramType::RawTracepoint | ProgramType::RawTracepointWritable) => {
                statistics_sample(prog, context, repeat)
            }
            (Some(_), other) => {
                let name = other.name();
                return Some(Err(format!("not timed in the kernel: it has no test run that runs a {name} program")));
            }
        };
        Some(time.map_err(|error| error.to_string()))
    }
}

/// Runs of a program that the kernel cannot repeat itself, for one sample at most: each is a system call.
const MOST_CALLS: u32 = 2000;

/// Nanoseconds a run of a raw tracepoint program, by the kernel's run statistics.
fn statistics_sample(prog: &Prog, context: &[u8], repeat: u32) -> Result<f64, kiln_linux::Error> {
    let _kept = kiln_linux::Statistics::keep()?;
    let before = prog.info()?;
    for _ in 0..repeat.clamp(1, MOST_CALLS) {
        prog.test_run_context(context)?;
    }
    let after = prog.info()?;
    let runs = after.run_count.saturating_sub(before.run_count).max(1);
    Ok(after.run_time_ns.saturating_sub(before.run_time_ns) as f64 / runs as f64)
}

/// Nanoseconds a run, over about `repeat` runs.
fn vm_sample(vm: &mut Vm, name: &str, input: &kiln_vm::Input<'_>, repeat: u32) -> Result<f64, String> {
    let chunk = |repeat: u32| {
        let ran = vm.run(name, &input.repeated(repeat), Engine::Jit);
        ran.map(|ran| ran.duration_ns).map_err(|error| error.to_string())
    };
    // Many enough for what a call costs once not to count.
    let trial = chunk(TRIAL_RUNS.min(repeat))?;
    let runs = ((CHUNK_NS / trial.max(1.0)) as u32).clamp(1, repeat.max(1));
    let chunks = (0..repeat.div_ceil(runs).max(1)).map(|_| chunk(runs)).collect::<Result<Vec<f64>, String>>()?;
    Timing::of(chunks).map(|timing| timing.median_ns).ok_or_else(|| "no samples".to_owned())
}

/// The side of the three that is the empty program.
const EMPTY: usize = 2;

/// Net times of the original and the optimized program, from the samples of both and of the empty one.
fn pair([before, after, empty]: [Vec<f64>; 3]) -> Option<Pair> {
    let around_ns = Timing::of(empty).map(|timing| timing.median_ns);
    let net = |samples: Vec<f64>| Timing::of(samples.into_iter().map(|time| empty::net(time, around_ns)).collect());
    Some(Pair { before: net(before)?, after: net(after)?, around_ns })
}

/// The geometric mean of ratios, and their quartiles; `None` without any.
pub fn geomean(ratios: &[f64]) -> Option<(f64, Timing)> {
    let positive: Vec<f64> = ratios.iter().copied().filter(|ratio| *ratio > 0.0).collect();
    if positive.is_empty() {
        return None;
    }
    let mean = (positive.iter().map(|ratio| ratio.ln()).sum::<f64>() / positive.len() as f64).exp();
    Some((mean, Timing::of(positive)?))
}
