//! Nanoseconds of two forms of a program in the kernel, on a machine that others use too.
//!
//! A run takes tens of nanoseconds, and what disturbs it takes more: interrupts, other processes, a processor that
//! changes its clock, and where in memory the kernel happened to put the machine code (at one of four places within a
//! cache line, drawn anew at each load; that alone moves short programs by several per cent). So:
//!
//! ```text
//!   block 1: load before, after, control;  round 1: before after control | round 2: after control before | ...
//!   block 2: the same, loaded anew         -> the least of a block's samples a side: what nobody disturbed
//!   ...                                    -> the mean of the middle half of the blocks: no lucky place in memory
//! ```
//!
//! - What is compared runs within a tenth of a second of each other, and nobody is always first.
//! - A sample counts processor time of this thread, of so many repetitions that what a system call costs around them
//!   (for XDP a fifth of a millisecond: the kernel patches its dispatcher) can be measured apart and taken off. While it
//!   samples, the thread asks for the highest priority that it may have.
//! - Every block loads anew, which puts the code elsewhere.
//! - The *control* is the original once more. How far its time is from the original's is what noise alone does; a
//!   ratio within that distance, over all programs, says nothing.
//!
//! What is timed includes the kernel's own loop around the program (see [`loop_ns`]), which optimizing cannot change,
//! and every program runs on the input on which most of it runs (see [`stimulus`]). A program whose instructions are
//! the same is not timed: its ratio is 1.

use kiln_driver::kernel::{self, KernelProgram};
use kiln_driver::{Input, Program, packets};
use kiln_linux::{Error, TestInput};
use kiln_superopt::CostModel;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::stimulus::{self, Stimulus};

/// Times a program is loaded anew.
const BLOCKS: usize = 16;
/// Times each form is sampled in a block, first ones not counted.
const ROUNDS: usize = 3;
/// Nanoseconds that a sample should take.
const SAMPLE_NS: f64 = 3_000_000.0;
/// Packets to choose the one to time on from, where the VM cannot say how much of the program runs.
const CANDIDATES: usize = 64;
/// Single runs of which the quickest says how long a packet takes.
const TRIALS: usize = 7;
/// Repetitions that tell how many fill a sample.
const CALIBRATION_RUNS: u32 = 1000;
/// Repetitions in a sample at most.
const MOST_RUNS: u32 = 1_000_000;
/// Repetitions that cost what the system call does: with fewer, the kernel does less around them.
const EMPTY_RUNS: u32 = 2;
/// The highest priority of an ordinary thread.
const HIGHEST: i32 = -20;

/// Nanoseconds of both forms.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timed {
    /// The original's.
    pub before_ns: f64,
    /// The optimized program's.
    pub after_ns: f64,
    /// The original's, measured a second time as if it were another program.
    pub control_ns: f64,
    /// Quartiles of the blocks' ratios, after over before.
    pub quartiles: [f64; 2],
    /// What ran, and what the cost model says of it; `None` where the VM could not run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
}

/// The way that a timed program goes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Path {
    /// Different instructions of the original that run.
    pub reached: usize,
    /// Instructions of the original.
    pub insns: usize,
    /// Nanoseconds of the instructions that run, as the cost model says, before and after.
    pub predicted_ns: [f64; 2],
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
    let _priority = Priority::raise();
    let load = |input: &Input| {
        let loaded = kernel::load(&input.bytes, &before.object, program);
        loaded.map_err(|failure| failure.reason().map_or(failure.to_string(), str::to_owned))
    };
    let (stimulus, path) = stimulus(before, after, program, &load(before)?)?;
    let loaded = || -> Result<[KernelProgram; 3], String> {
        let sides = [load(before)?, load(after)?, load(before)?];
        sides.iter().for_each(|side| stimulus.fill(side));
        Ok(sides)
    };
    let runs = repetitions(&loaded()?[0], &stimulus.packet).map_err(|reason| format!("no packet suits: {reason}"))?;
    let mut blocks: [Vec<f64>; 3] = Default::default();
    for _ in 0..BLOCKS {
        let least = block(&loaded()?, &stimulus.packet, runs).map_err(|error| error.to_string())?;
        blocks.iter_mut().zip(least).for_each(|(side, least)| side.push(least));
    }
    let mut ratios: Vec<f64> = blocks[0].iter().zip(&blocks[1]).map(|(before, after)| after / before).collect();
    ratios.sort_by(f64::total_cmp);
    let quartiles = [ratios[ratios.len() / 4], ratios[ratios.len() * 3 / 4]];
    let [before_ns, after_ns, control_ns] = blocks.map(middle_mean);
    Ok(Timed { before_ns, after_ns, control_ns, quartiles, path })
}

/// What to time on, and what of the program runs on it.
fn stimulus(
    before: &Input,
    after: &Input,
    program: &Program,
    loaded: &KernelProgram,
) -> Result<(Stimulus, Option<Path>), String> {
    let Ok(stimulus) = stimulus::search(&before.object, program) else {
        let packet = slowest_packet(loaded).map_err(|reason| format!("no packet suits: {reason}"))?;
        return Ok((Stimulus { packet, ..Stimulus::default() }, None));
    };
    let model = CostModel::default();
    let predicted = |input: &Input| {
        let program = input.object.program(&program.name)?;
        let runs = stimulus::runs(&input.object, program, &stimulus).ok()?;
        Some(stimulus::predicted_ns(&input.object, program, &runs, &model))
    };
    let path = predicted(before).zip(predicted(after)).map(|((old, reached), (new, _))| Path {
        reached,
        insns: before
            .object
            .reachable_functions(program.entry)
            .iter()
            .map(|id| before.object.function(*id).nodes.len())
            .sum(),
        predicted_ns: [old, new],
    });
    Ok((stimulus, path))
}

/// The least of the samples of three programs, taken in turns, in nanoseconds a run.
fn block(sides: &[KernelProgram; 3], packet: &[u8], runs: u32) -> Result<[f64; 3], Error> {
    let mut least = [f64::INFINITY; 3];
    let mut call_ns = f64::INFINITY;
    for round in 0..=ROUNDS {
        for turn in 0..3 {
            let side = (round + turn) % 3;
            call_ns = call_ns.min(processor_ns(&sides[side], packet, EMPTY_RUNS)?);
            let sample = processor_ns(&sides[side], packet, runs)?;
            if round > 0 {
                least[side] = least[side].min(sample);
            }
        }
    }
    Ok(least.map(|least| ((least - call_ns) / f64::from(runs)).max(0.1)))
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

/// Repetitions that fill a sample.
fn repetitions(loaded: &KernelProgram, packet: &[u8]) -> Result<u32, Error> {
    let calibration = loaded.run_packet(packet, CALIBRATION_RUNS)?;
    Ok(((SAMPLE_NS / f64::from(calibration.duration_ns.max(1))) as u32).clamp(1, MOST_RUNS))
}

/// The packet that takes longest in the kernel, for what the VM lacks.
fn slowest_packet(loaded: &KernelProgram) -> Result<Vec<u8>, Error> {
    let mut slowest = Err(Error::InvalidInput("there is no packet".to_owned()));
    let mut most = None;
    for packet in packets::corpus(1, CANDIDATES) {
        match quickest_ns(loaded, &packet) {
            Ok(time) if Some(time) > most => (slowest, most) = (Ok(packet), Some(time)),
            Ok(_) => {}
            Err(error) if most.is_none() => slowest = Err(error),
            Err(_) => {}
        }
    }
    slowest
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

/// The mean of the middle half: code lies in one of a few places, so that times have several peaks and a median
/// would jump between them.
fn middle_mean(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = &values[values.len() / 4..values.len() - values.len() / 4];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// The highest priority for this thread, as long as it lives; where that is not allowed, nothing.
struct Priority {
    before: Option<i32>,
}

impl Priority {
    fn raise() -> Priority {
        let before = rustix::process::getpriority_process(None).ok();
        let raised = rustix::process::setpriority_process(None, HIGHEST).is_ok();
        Priority { before: before.filter(|_| raised) }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Whoever may raise it may lower it.
            let _ = rustix::process::setpriority_process(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_half_counts() {
        assert_eq!(middle_mean(vec![9.0, 1.0, 2.0, 4.0, 100.0, 3.0, 5.0, 0.0]), 3.5);
        assert_eq!(middle_mean(vec![7.0]), 7.0);
    }
}
