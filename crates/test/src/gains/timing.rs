//! Nanoseconds of two forms of a program in the kernel, on a machine that others use too.
//!
//! A run takes tens of nanoseconds, and what disturbs it takes more: interrupts, other processes, a processor that
//! changes its clock, and where in memory the kernel happened to put the machine code. So:
//!
//! ```text
//!   block 1: load before, after, control;  round 1: before after control | round 2: after control before | ...
//!   block 2: the same, loaded anew         -> a median a block and side
//!   ...                                    -> the least of each side's medians is its time
//! ```
//!
//! - What is compared runs within a tenth of a second of each other, and nobody is always first.
//! - A sample counts processor time of this thread, of so many repetitions that what a system call costs around them
//!   (for XDP a fifth of a millisecond: the kernel patches its dispatcher) can be measured apart and taken off.
//! - Every block loads anew, which puts the code elsewhere.
//! - The *control* is the original once more. How far its time is from the original's is what noise alone does; a
//!   ratio within that distance, over all programs, says nothing.
//!
//! What is timed includes the kernel's own loop around the program (see [`loop_ns`]), which optimizing cannot change,
//! and every program runs on the packet, of a fixed set of real protocols, on which it works most. A program whose
//! instructions are the same is not timed: its ratio is 1.

use kiln_driver::kernel::{self, KernelProgram};
use kiln_driver::{Engine, Input, Program, packets, run};
use kiln_linux::{Error, TestInput};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Times a program is loaded anew.
const BLOCKS: usize = 4;
/// Times each form is sampled in a block, first ones not counted.
const ROUNDS: usize = 4;
/// Nanoseconds that a sample should take.
const SAMPLE_NS: f64 = 4_000_000.0;
/// Packets to choose the one to time on from.
const CANDIDATES: usize = 64;
/// Single runs of which the quickest says how long a packet takes, where the VM cannot say.
const TRIALS: usize = 7;
/// Instructions that a packet may take in the VM.
const MOST_INSNS: u64 = 1_000_000;
/// Repetitions that tell how many fill a sample.
const CALIBRATION_RUNS: u32 = 1000;
/// Repetitions in a sample at most.
const MOST_RUNS: u32 = 1_000_000;
/// Repetitions that cost what the system call does: with fewer, the kernel does less around them.
const EMPTY_RUNS: u32 = 2;

/// Nanoseconds of both forms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timed {
    /// The original's.
    pub before_ns: f64,
    /// The optimized program's.
    pub after_ns: f64,
    /// The original's, measured a second time as if it were another program.
    pub control_ns: f64,
    /// Quartiles of the ratios of neighbouring samples, after over before.
    pub quartiles: [f64; 2],
}

impl Timed {
    /// The optimized program's time over the original's.
    pub fn ratio(&self) -> f64 {
        self.after_ns / self.before_ns
    }

    /// The control's over the original's: what noise does to a ratio.
    pub fn noise(&self) -> f64 {
        self.control_ns / self.before_ns
    }
}

/// Times a program of an object, before and after.
///
/// # Errors
/// Why it cannot be: the kernel cannot test-run its type with repetitions, or no packet suits it.
pub fn time(before: &Input, after: &Input, program: &Program) -> Result<Timed, String> {
    let program_type = program.program_type.ok_or("it has no type")?;
    if !kernel::takes_packet(program_type) {
        return Err(format!("the kernel repeats no test runs of {} programs", program_type.name()));
    }
    let load = |input: &Input| {
        let loaded = kernel::load(&input.bytes, &before.object, program);
        loaded.map_err(|failure| failure.reason().map_or(failure.to_string(), str::to_owned))
    };
    let (packet, runs) =
        busiest_packet(before, program, &load(before)?).map_err(|reason| format!("no packet suits: {reason}"))?;
    let mut least = [f64::INFINITY; 3];
    let mut ratios = Vec::new();
    for _ in 0..BLOCKS {
        let sides = [load(before)?, load(after)?, load(before)?];
        let samples = block(&sides, &packet, runs).map_err(|error| error.to_string())?;
        ratios.extend(samples[0].iter().zip(&samples[1]).map(|(before, after)| after / before));
        for (least, own) in least.iter_mut().zip(samples) {
            *least = least.min(median(own));
        }
    }
    ratios.sort_by(f64::total_cmp);
    let quartiles = [ratios[ratios.len() / 4], ratios[ratios.len() * 3 / 4]];
    Ok(Timed { before_ns: least[0], after_ns: least[1], control_ns: least[2], quartiles })
}

/// Samples of three programs in turns, in nanoseconds a run.
fn block(sides: &[KernelProgram; 3], packet: &[u8], runs: u32) -> Result<[Vec<f64>; 3], Error> {
    let mut samples: [Vec<f64>; 3] = Default::default();
    let empty: Result<Vec<f64>, Error> = sides.iter().map(|side| processor_ns(side, packet, EMPTY_RUNS)).collect();
    let call_ns = median(empty?);
    for round in 0..=ROUNDS {
        for turn in 0..3 {
            let side = (round + turn) % 3;
            let sample = (processor_ns(&sides[side], packet, runs)? - call_ns) / f64::from(runs);
            if round > 0 {
                samples[side].push(sample.max(0.1));
            }
        }
    }
    Ok(samples)
}

/// Nanoseconds of processor time that a test run takes.
fn processor_ns(program: &KernelProgram, packet: &[u8], runs: u32) -> Result<f64, Error> {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let begun = now();
    program.run_packet(packet, runs)?;
    Ok(now() - begun)
}

/// The packet on which a program works most, and the repetitions that fill a sample: most instructions in the VM, or
/// longest in the kernel for what the VM lacks.
fn busiest_packet(before: &Input, program: &Program, loaded: &KernelProgram) -> Result<(Vec<u8>, u32), String> {
    let packets = packets::corpus(1, CANDIDATES);
    let options = kiln_vm::Options { budget: MOST_INSNS, ..Default::default() };
    let costs: Vec<Result<u64, String>> = match run::new_vm(&before.object, program, options) {
        Ok(mut vm) => packets
            .iter()
            .map(|packet| match vm.run(&program.name, &kiln_vm::Input::packet(packet), Engine::Interpreter) {
                Ok(ran) => Ok(ran.instructions),
                Err(error) => Err(error.to_string()),
            })
            .collect(),
        Err(_) => packets.iter().map(|packet| quickest_ns(loaded, packet).map_err(|error| error.to_string())).collect(),
    };
    let refused = costs.iter().find_map(|cost| cost.clone().err()).unwrap_or_default();
    let known = packets.into_iter().zip(costs).filter_map(|(packet, cost)| Some((cost.ok()?, packet)));
    let (_, packet) = known.max_by_key(|(cost, _)| *cost).ok_or(refused)?;
    let calibration = loaded.run_packet(&packet, CALIBRATION_RUNS).map_err(|error| error.to_string())?;
    Ok((packet, ((SAMPLE_NS / f64::from(calibration.duration_ns.max(1))) as u32).clamp(1, MOST_RUNS)))
}

/// Nanoseconds of the quickest of some single runs.
fn quickest_ns(loaded: &KernelProgram, packet: &[u8]) -> Result<u64, Error> {
    let runs: Result<Vec<u32>, Error> = (0..TRIALS).map(|_| Ok(loaded.run_packet(packet, 1)?.duration_ns)).collect();
    Ok(runs?.into_iter().min().unwrap_or(0).into())
}

/// Nanoseconds that the kernel's loop around an XDP program takes: those of one that only returns.
pub fn loop_ns() -> Option<f64> {
    let input = kiln_driver::input::parse("pass.bpf", b"; program xdp\n r0 = 2\n exit\n".to_vec(), &[]).ok()?;
    let loaded = kiln_linux::load_image(&input.object, input.object.programs.first()?).ok()?;
    let test = |repeat| TestInput { packet: vec![0; 64], repeat, ..TestInput::default() };
    let times = (0..ROUNDS).filter_map(|_| Some(f64::from(loaded.prog.test_run(&test(MOST_RUNS)).ok()?.duration_ns)));
    times.reduce(f64::min)
}

/// The middle of some values; 0 without any.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
