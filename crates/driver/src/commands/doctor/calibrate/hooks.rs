//! What each kind of hook costs an event, with a program that does nothing.
//!
//! ```text
//!   a call without programs     |---- the call ----|
//!   with an empty program       |---- the call ----|-- hook --|-- entry --|
//!                                                             what the kernel counts as the program's time
//! ```
//!
//! The kernel counts in both cases, as it does while a query is measured or has a budget. The least of many short samples
//! counts, of the thread's own time: other work disturbs longer ones.

use std::hint::black_box;
use std::time::{Duration, Instant};

use kiln_linux::Statistics;
use kiln_live::live::Nothing;
use kiln_plan::table::{Hook, Moment};
use kiln_program::Error;
use kiln_superopt::Stopwatch;

/// How often programs are attached, and samples with and without them each time.
const ROUNDS: usize = 5;
const SAMPLES: usize = 100;
/// How long the clock's program is counted, and how often it runs a second.
const COUNTED: Duration = Duration::from_millis(300);
const HERTZ: u32 = 999;
/// Words of memory that are walked over meanwhile, more than a processor's own caches have, and words of a line of them.
const WALKED: usize = 1 << 20;
const CACHE_LINE: usize = 8;

/// A call that passes each of some hooks of one kind once.
pub struct Passing {
    /// The hooks, at least one.
    pub hooks: Vec<Hook>,
    /// Calls of a sample.
    calls: u32,
    call: fn(),
}

/// A call for each kind of hook that this machine may have.
pub fn passings() -> Vec<Passing> {
    let both = ["sys_enter", "sys_exit"].map(str::to_owned);
    let record = |name| Hook::Record { category: "raw_syscalls".to_owned(), name };
    let kernel = |at| Hook::Kernel { function: format!("__{MACHINE}_sys_getppid"), at };
    let function = |file| Hook::Function { file, function: "getenv".to_owned(), at: Moment::Call };
    let system_call: fn() = || _ = black_box(rustix::process::getppid());
    // The standard library asks libc for variables.
    let library_call: fn() = || _ = black_box(std::env::var_os("KILN_NO_SUCH_VARIABLE"));
    vec![
        Passing { hooks: both.clone().map(Hook::Typed).into(), calls: 500, call: system_call },
        Passing { hooks: both.map(record).into(), calls: 500, call: system_call },
        Passing { hooks: [Moment::Call, Moment::Return].map(kernel).into(), calls: 500, call: system_call },
        Passing { hooks: vec![function(libc().unwrap_or_default())], calls: 200, call: library_call },
    ]
}

/// How the kernel names this machine in functions of system calls.
const MACHINE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };

/// The file of libc that this process runs; none in a static build.
fn libc() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .find(|path| path.contains("/libc.so"))
        .map(str::to_owned)
}

impl Passing {
    /// Nanoseconds of the hook, and of an empty program's run as the kernel counts it.
    ///
    /// # Errors
    /// What the kernel lacks, and [`Error::Unsupported`] where the call passes no such hook.
    pub fn measure(&self) -> Result<[f64; 2], Error> {
        let _statistics = Statistics::keep()?;
        let [mut without, mut with, mut entry] = [f64::INFINITY; 3];
        for _ in 0..ROUNDS {
            without = (0..SAMPLES).map(|_| self.sample()).fold(without, f64::min);
            let attached = self.hooks.iter().map(Nothing::at).collect::<Result<Vec<_>, _>>()?;
            let mut before = counted(&attached)?;
            for _ in 0..SAMPLES {
                with = with.min(self.sample());
                let after = counted(&attached)?;
                let [runs, ns] = [after.0 - before.0, after.1 - before.1];
                if runs < u64::from(self.calls) * attached.len() as u64 {
                    return Err(Error::Unsupported(format!("nothing here passes {}", self.hooks[0].section())));
                }
                // Other processes' calls count, too, and take longer: their caches are cold.
                entry = entry.min(ns as f64 / runs as f64);
                before = after;
            }
        }
        Ok([((with - without) / self.hooks.len() as f64 - entry).max(0.0), entry])
    }

    /// Nanoseconds of a call, of a sample's calls.
    fn sample(&self) -> f64 {
        let begun = Stopwatch::start();
        (0..self.calls).for_each(|_| (self.call)());
        begun.elapsed().as_nanos() as f64 / f64::from(self.calls)
    }
}

/// How often all of these ran, and for how many nanoseconds.
fn counted(all: &[Nothing]) -> Result<(u64, u64), Error> {
    let one = |sum: (u64, u64), one: &Nothing| one.counted().map(|own| (sum.0 + own.0, sum.1 + own.1));
    all.iter().try_fold((0, 0), one)
}

/// Nanoseconds of an empty program's run at the clock of processors. It runs seldom, so other work has the caches: here that
/// is a walk over memory. What the interrupt takes is not measured.
///
/// # Errors
/// What the kernel lacks, and [`Error::Unsupported`] where the clock does not run.
pub fn clock() -> Result<f64, Error> {
    let _statistics = Statistics::keep()?;
    let nothing = Nothing::at(&Hook::Clock { hertz: HERTZ })?;
    let begun = Instant::now();
    let mut memory = vec![0u64; WALKED];
    while begun.elapsed() < COUNTED {
        memory.iter_mut().step_by(CACHE_LINE).for_each(|word| *word += 1);
        black_box(&mut memory);
    }
    let (runs, ns) = nothing.counted()?;
    if runs == 0 { Err(Error::Unsupported("the clock did not run".to_owned())) } else { Ok(ns as f64 / runs as f64) }
}
