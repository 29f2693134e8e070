//! Nanoseconds of two forms of a program in the kernel, on a machine that others use too.
//!
//! A run takes tens of nanoseconds, and disturbances take more: interrupts, other processes, a processor that changes
//! its clock, and the address of the machine code (one of four places within a cache line, chosen at each load; that
//! alone changes short programs by several per cent). So:
//!
//! ```text
//!   block 1: load before, after, control;  round 1: before after control | round 2: after control before | ...
//!   block 2: the same, loaded anew         -> the least of a block's samples a side: what nobody disturbed
//!   ...                                    -> the mean of the middle half of those blocks that
//!                                             nobody disturbed: no lucky place in memory
//! ```
//!
//! - The compared forms run within 0.1 s of each other, in an order that changes every round.
//! - A sample is processor time of this thread. It has enough repetitions that the cost of the system call (for XDP a
//!   fifth of a millisecond, because the kernel patches its dispatcher) can be measured separately and subtracted.
//!   While it samples, the thread has the highest priority that it may get.
//! - Every block loads the programs again, at another address. If a ratio differs from 1, three times as many blocks
//!   have to confirm it, because a dozen addresses can be chance.
//! - The *control* is the original once more. Its difference from the original is noise; a ratio within that distance,
//!   over all programs, is not significant.
//!
//! What is timed includes the kernel's own loop around the program (see [`loop_ns`]), which optimizing cannot change,
//! and every program runs on the input on which most of it runs (see [`stimulus`]). Programs that the kernel does not
//! test-run are attached to actions of this thread, and the kernel's statistics give their time (see
//! [`super::attached`]). A program whose instructions are the same is not timed: its ratio is 1.

use kiln_driver::kernel::{self, KernelProgram};
use kiln_driver::{Input, Program, packets};
use kiln_linux::{Error, TestInput};
use kiln_superopt::CostModel;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::attached::{Cause, Events};
use super::stimulus::{self, Stimulus};

/// Times each form is loaded anew, not counting those where it was disturbed, and times at most in all.
const BLOCKS: usize = 12;
const MOST_BLOCKS: usize = 36;
/// If the forms differ by more than this, there are this many times more blocks.
const SEEMS: f64 = 0.015;
const TO_BE_SURE: usize = 3;
/// With fewer, there is no result.
const FEWEST_BLOCKS: usize = 4;
/// A block that took this much longer than the minimum was disturbed: another thread on the same core doubles times,
/// the address of the code changes them by a tenth.
const DISTURBED: f64 = 1.3;
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
    /// Quartiles of the optimized program's blocks, over the original's time.
    pub quartiles: [f64; 2],
    /// Whether the program was attached, not test-run: noise is another then.
    pub attached: bool,
    /// The part of the times that is not the program: the kernel's loop of test runs, or its reading of the clock.
    pub around_ns: f64,
    /// What ran, and what the cost model says of it; `None` where the VM could not run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
}

/// The path of a timed program.
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
    /// What undisturbed blocks of the three sides come to, each side's in order.
    fn of(blocks: &[Vec<f64>; 3], attached: bool, around_ns: f64, path: Option<Path>) -> Timed {
        let means = blocks.each_ref().map(|side| mean_of_middle(side));
        let [low, .., high] = [1, 3].map(|part| blocks[1][(blocks[1].len() - 1) * part / 4] / means[0]);
        Timed {
            before_ns: means[0],
            after_ns: means[1],
            control_ns: means[2],
            quartiles: [low, high],
            attached,
            around_ns,
            path,
        }
    }

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
/// Returns why it cannot be timed: nothing here makes its type run, or no packet suits it.
pub fn time(before: &Input, after: &Input, program: &Program) -> Result<Timed, String> {
    let program_type = program.program_type.ok_or("it has no type")?;
    let _priority = Priority::raise();
    if kernel::takes_packet(program_type) {
        return time_on_packet(before, after, program);
    }
    time_attached(before, after, program, Cause::of(program)?)
}

fn load(before: &Input, input: &Input, program: &Program) -> Result<KernelProgram, String> {
    let loaded = kernel::load(&input.bytes, &before.object, program);
    loaded.map_err(|failure| failure.why())
}

fn time_on_packet(before: &Input, after: &Input, program: &Program) -> Result<Timed, String> {
    let load = |input: &Input| load(before, input, program);
    let (stimulus, path) = stimulus(before, after, program, &load(before)?)?;
    let loaded = || -> Result<[KernelProgram; 3], String> {
        let sides = [load(before)?, load(after)?, load(before)?];
        sides.iter().for_each(|side| stimulus.fill(side));
        Ok(sides)
    };
    let runs = repetitions(&loaded()?[0], &stimulus.packet).map_err(|reason| format!("no packet suits: {reason}"))?;
    let around_ns = loop_ns().unwrap_or(0.0);
    let blocks = undisturbed_blocks(|| block(&loaded()?, &stimulus.packet, runs).map_err(|error| error.to_string()))?;
    Ok(Timed::of(&blocks, false, around_ns, path))
}

/// By the kernel's statistics, one form attached at a time.
fn time_attached(before: &Input, after: &Input, program: &Program, cause: Cause) -> Result<Timed, String> {
    let text = |error: Error| error.to_string();
    let _statistics = kiln_linux::Statistics::keep().map_err(text)?;
    let events = Events::prepare(cause).map_err(text)?;
    let around_ns = events.clock_ns().map_err(text)?;
    let load = |input: &Input| load(before, input, program);
    let turns = std::cell::Cell::new(0);
    let blocks = undisturbed_blocks(|| {
        let sides = [load(before)?, load(after)?, load(before)?];
        let mut least = [f64::INFINITY; 3];
        for turn in 0..3 {
            let side = (turn + turns.get()) % 3;
            least[side] = events.least_ns(&sides[side].prog).map_err(text)?;
        }
        turns.set(turns.get() + 1);
        Ok(least)
    })?;
    Ok(Timed::of(&blocks, true, around_ns, None))
}

/// Blocks until enough of each side's were undisturbed: their times, in order.
fn undisturbed_blocks(block: impl Fn() -> Result<[f64; 3], String>) -> Result<[Vec<f64>; 3], String> {
    let mut blocks: [Vec<f64>; 3] = Default::default();
    let mut times = 1;
    loop {
        let least = block()?;
        blocks.iter_mut().zip(least).for_each(|(side, least)| side.push(least));
        let quiet = undisturbed(&blocks);
        let fewest = quiet.iter().map(Vec::len).min().unwrap_or(0);
        let (wanted, most) = (times * BLOCKS, times * MOST_BLOCKS);
        if fewest < wanted && blocks[0].len() < most {
            continue;
        }
        if fewest < FEWEST_BLOCKS {
            return Err("the machine was too busy".to_owned());
        }
        let [original, optimized, _] = quiet.each_ref().map(|side| mean_of_middle(side));
        if times == TO_BE_SURE || (optimized / original).ln().abs() < SEEMS {
            return Ok(quiet);
        }
        times = TO_BE_SURE;
    }
}

/// The mean of the middle half of times in order.
fn mean_of_middle(times: &[f64]) -> f64 {
    let middle = &times[times.len() / 4..times.len() - times.len() / 4];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// The times of those blocks in which nobody else had a part of the core, in order. Whether it was so is judged by the
/// least time of all: of the two forms one may be faster, but the original is as fast as its control.
fn undisturbed(blocks: &[Vec<f64>; 3]) -> [Vec<f64>; 3] {
    let least = |side: &[f64]| side.iter().copied().fold(f64::INFINITY, f64::min);
    let original = least(&blocks[0]).min(least(&blocks[2]));
    let limits = [original, original.min(least(&blocks[1])), original].map(|least| least * DISTURBED);
    std::array::from_fn(|side| {
        let mut times: Vec<f64> = blocks[side].iter().copied().filter(|time| *time <= limits[side]).collect();
        times.sort_by(f64::total_cmp);
        times
    })
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
            if round == 0 {
                call_ns = call_ns.min(processor_ns(&sides[side], packet, EMPTY_RUNS)?);
            }
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
    fn what_was_disturbed_does_not_count() {
        let before = vec![20.0, 22.0, 21.0, 40.0, 21.0];
        let after = vec![38.0, 20.0, 18.0, 19.0, 39.0];
        let quiet = undisturbed(&[before, after, vec![21.0; 5]]);
        let timed = Timed::of(&quiet, false, 0.0, None);
        assert_eq!([timed.before_ns, timed.after_ns, timed.control_ns], [21.0, 19.0, 21.0]);
        assert_eq!(timed.quartiles, [18.0 / 21.0, 19.0 / 21.0]);
    }

    #[test]
    fn what_seems_to_differ_is_measured_longer() {
        let blocks = |after: f64| {
            undisturbed_blocks(|| Ok([20.0, after, 20.0])).expect("nothing disturbs").map(|side| side.len())
        };
        assert_eq!(blocks(20.1), [BLOCKS; 3]);
        assert_eq!(blocks(19.0), [BLOCKS * TO_BE_SURE; 3]);
        assert_eq!(blocks(21.0), [BLOCKS * TO_BE_SURE; 3]);
    }

    #[test]
    fn a_side_that_was_always_disturbed_is_not_compared() {
        let blocks = [vec![40.0, 41.0], vec![20.0, 21.0], vec![20.0, 40.0]];
        assert_eq!(undisturbed(&blocks).map(|side| side.len()), [0, 2, 1]);
        let always = undisturbed_blocks(|| Ok([40.0, 20.0, 20.0]));
        assert_eq!(always.err().as_deref(), Some("the machine was too busy"));
        // Twice as fast is no disturbance of the other.
        assert_eq!(undisturbed(&[vec![40.0], vec![20.0], vec![41.0]]).map(|side| side.len()), [1; 3]);
    }
}
