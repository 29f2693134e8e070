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

use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_program::{Object, Program};
use kiln_vm::{Engine, Vm};
use serde::Serialize;

use crate::commands::optimize::{self, Optimized};
use crate::commands::packets;
use crate::commands::run;
use crate::error::Error;
use crate::input::{self, Input, Types};
use crate::kernel::{self, KernelProgram};
use crate::show::shown::Shown;

/// How to measure.
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
    /// The VM's time over the kernel's, both before optimization.
    pub vm_to_kernel: Option<f64>,
    /// Why a time is missing.
    pub note: Option<Shown>,
}

/// Times before and after.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    /// The original's.
    pub before: Timing,
    /// The optimized program's.
    pub after: Timing,
}

/// A time from several samples.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timing {
    /// Nanoseconds, median.
    pub median_ns: f64,
    /// Nanoseconds, quarter of the samples below.
    pub low_ns: f64,
    /// Nanoseconds, quarter of the samples above.
    pub high_ns: f64,
}

impl Timing {
    /// The median and quartiles of samples; `None` without any.
    pub fn of(mut samples: Vec<f64>) -> Option<Timing> {
        samples.sort_by(f64::total_cmp);
        let at = |part: usize| samples.get((samples.len() - 1) * part / 4).copied();
        if samples.is_empty() {
            return None;
        }
        Some(Timing { median_ns: at(2)?, low_ns: at(1)?, high_ns: at(3)? })
    }
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
    let after =
        Input { bytes: outcome.bytes, object: outcome.object, elf: None, kernel_types: None, unprivileged: false };
    let ask_kernel = options.ask_kernel && kiln_linux::available().is_ok();
    let mut rows = Vec::new();
    for (program, optimized) in input.object.programs.iter().zip(outcome.programs) {
        let mut notes = Vec::new();
        let (vm, kernel) = measure(input, &after, program, options, ask_kernel, &mut notes);
        let vm_to_kernel = match (&vm, &kernel) {
            (Some(vm), Some(kernel)) if kernel.before.median_ns > 0.0 => {
                Some(vm.before.median_ns / kernel.before.median_ns)
            }
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
    name: String,
    packet: Vec<u8>,
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
        notes.push(crate::commands::check::no_type(program));
        return (None, None);
    };
    if !kernel::takes_packet(program_type) {
        notes.push(format!("not timed: {} programs take no packet", program_type.name()));
        return (None, None);
    }
    let mut keep = |result: Result<_, Error>| result.map_err(|error| notes.push(error.to_string())).ok();
    let vm = keep(both_vms(before, after, program));
    let packet = match &vm {
        Some(_) => busiest_packet(before, program),
        None => packets::corpus(1, 1).remove(0),
    };
    let kernel = if ask_kernel { both_kernels(before, after, program, notes) } else { None };
    let mut sides = Sides { vm, kernel, name: program.name.clone(), packet };
    sides.time(options, notes)
}

fn both_vms(before: &Input, after: &Input, program: &Program) -> Result<(Vm, Vm), Error> {
    let load = |input: &Input| run::load_vm(input, program, crate::DEFAULT_BUDGET);
    Ok((load(before)?, load(after)?))
}

fn both_kernels(
    before: &Input,
    after: &Input,
    program: &Program,
    notes: &mut Vec<String>,
) -> Option<(KernelProgram, KernelProgram)> {
    let mut load = |input: &Input, object: &Object| {
        let loaded = kernel::load(&input.bytes, object, program);
        loaded.map_err(|failure| notes.push(format!("the kernel: {}", failure.reason().unwrap_or("refused")))).ok()
    };
    Some((load(before, &before.object)?, load(after, &after.object)?))
}

/// The packet of a fixed set on which the program takes most instructions, each on fresh maps.
fn busiest_packet(input: &Input, program: &Program) -> Vec<u8> {
    let cost = |packet: &[u8]| -> Option<u64> {
        let vm = run::load_vm(input, program, 1_000_000).ok()?;
        let ran = vm.run(&program.name, &kiln_vm::Input::packet(packet), Engine::Interpreter).ok()?;
        Some(ran.instructions)
    };
    let packets = packets::corpus(1, CANDIDATES);
    packets.into_iter().max_by_key(|packet| cost(packet)).unwrap_or_default()
}

impl Sides {
    /// Samples in turns.
    fn time(&mut self, options: &Options, notes: &mut Vec<String>) -> (Option<Pair>, Option<Pair>) {
        let mut samples: [Vec<f64>; 4] = Default::default();
        // One round more than asked for: the first warms caches and is dropped.
        for round in 0..=options.samples {
            let mut take = |index: usize, time: Result<f64, String>| match time {
                Ok(time) if round > 0 => samples[index].push(time),
                Ok(_) => {}
                Err(error) if round == 0 => notes.push(error),
                Err(_) => {}
            };
            // The second one to run finds warmer caches and clocks, so they take turns at that too.
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            if let Some((before, after)) = &mut self.vm {
                let vms = [before, after];
                for index in order {
                    take(index, vm_sample(vms[index], &self.name, &self.packet, options.repeat));
                }
            }
            if let Some((before, after)) = &self.kernel {
                for index in order {
                    let ran = [before, after][index].run_packet(&self.packet, options.repeat);
                    take(index + 2, ran.map(|ran| ran.duration_ns.into()).map_err(|error| error.to_string()));
                }
            }
        }
        let [vm_before, vm_after, kernel_before, kernel_after] = samples.map(Timing::of);
        (pair(vm_before, vm_after), pair(kernel_before, kernel_after))
    }
}

/// Nanoseconds a run, over about `repeat` runs.
fn vm_sample(vm: &mut Vm, name: &str, packet: &[u8], repeat: u32) -> Result<f64, String> {
    let input = kiln_vm::Input::packet(packet);
    let chunk = |repeat: u32| {
        let ran = vm.run(name, &input.clone().repeated(repeat), Engine::Jit);
        ran.map(|ran| ran.duration_ns).map_err(|error| error.to_string())
    };
    // Many enough for what a call costs once not to count.
    let trial = chunk(TRIAL_RUNS.min(repeat))?;
    let runs = ((CHUNK_NS / trial.max(1.0)) as u32).clamp(1, repeat.max(1));
    let chunks = (0..repeat.div_ceil(runs).max(1)).map(|_| chunk(runs)).collect::<Result<Vec<f64>, String>>()?;
    Timing::of(chunks).map(|timing| timing.median_ns).ok_or_else(|| "no samples".to_owned())
}

fn pair(before: Option<Timing>, after: Option<Timing>) -> Option<Pair> {
    Some(Pair { before: before?, after: after? })
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
