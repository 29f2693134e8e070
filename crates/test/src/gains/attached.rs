//! Nanoseconds of programs that the kernel does not test-run: attached to what this thread does itself.
//!
//! ```text
//!   kprobe       a uprobe on a function of this process, which is called     what it reads of the kernel is not there
//!   tracepoint   the entry of a system call with six arguments, which is made
//!   perf_event   page faults of this thread, of pages touched for the first time
//!   raw_tp       no attachment: test runs, one at a time
//! ```
//!
//! The kernel keeps count and time of all runs of a program while somebody asks for it (`BPF_ENABLE_STATS`); a sample is
//! what some hundred events add to both. The two readings of the clock are in it: an empty program says how much. One
//! program is attached at a time, for as long as its samples take.

use std::os::fd::AsFd;

use kiln_driver::{Object, ProgramType};
use kiln_linux::{Error, Link, Prog};

/// Events of a sample.
const EVENTS: u32 = 500;
/// Samples of one attachment. Attaching and detaching takes far longer: the kernel waits until nobody runs the program.
const SAMPLES: u32 = 6;
/// A sample with fewer runs says nothing.
const LEAST_RUNS: u64 = 100;
/// Bytes of a page.
const PAGE_BYTES: usize = 4096;
/// Bytes of an allocation that is never memory used before: the C library maps what is larger than 32 MiB.
const FRESH_BYTES: usize = 48 << 20;
/// Bytes of the arguments of a raw tracepoint.
const ARGUMENT_BYTES: usize = 96;

/// How a program is made to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Calls of [`probed`].
    Calls,
    /// System calls with six arguments.
    SystemCalls,
    /// Page faults.
    PageFaults,
    /// Test runs without repetitions.
    TestRuns,
}

impl Cause {
    /// How programs of a type are made to run, where that is known.
    pub fn of(program_type: ProgramType) -> Option<Cause> {
        match program_type {
            ProgramType::Kprobe => Some(Cause::Calls),
            ProgramType::Tracepoint => Some(Cause::SystemCalls),
            ProgramType::PerfEvent => Some(Cause::PageFaults),
            ProgramType::RawTracepoint => Some(Cause::TestRuns),
            _ => None,
        }
    }

    /// A program of the same type that only returns.
    fn empty(self) -> &'static str {
        match self {
            Cause::Calls => "; program kprobe\n r0 = 0\n exit\n",
            Cause::SystemCalls => "; program tracepoint\n r0 = 0\n exit\n",
            Cause::PageFaults => "; program perf_event\n r0 = 0\n exit\n",
            Cause::TestRuns => "; program raw_tracepoint\n r0 = 0\n exit\n",
        }
    }

    fn attach(self, prog: &Prog) -> Result<Option<Link>, Error> {
        match self {
            Cause::Calls => {
                let (file, offset) = place_of_probed()?;
                Link::uprobe(prog, &file, offset).map(Some)
            }
            Cause::SystemCalls => Link::tracepoint(prog, "syscalls", "sys_enter_copy_file_range").map(Some),
            Cause::PageFaults => Link::own_page_faults(prog).map(Some),
            Cause::TestRuns => Ok(None),
        }
    }

    /// Makes events happen.
    fn happen(self, prog: &Prog) -> Result<(), Error> {
        match self {
            Cause::Calls => {
                for number in 0..u64::from(EVENTS) {
                    std::hint::black_box(probed(number, 1, 2, 3, 4));
                }
            }
            Cause::SystemCalls => {
                let nothing =
                    std::fs::File::open("/dev/null").map_err(|error| Error::InvalidInput(error.to_string()))?;
                for _ in 0..EVENTS {
                    // It fails; that it is made is enough.
                    let _ = rustix::fs::copy_file_range(nothing.as_fd(), None, nothing.as_fd(), None, 0);
                }
            }
            Cause::PageFaults => {
                let mut pages = vec![0u8; FRESH_BYTES];
                for page in pages.chunks_mut(PAGE_BYTES).take(EVENTS as usize) {
                    page[0] = 1;
                }
                std::hint::black_box(pages);
            }
            Cause::TestRuns => {
                for _ in 0..EVENTS {
                    prog.test_run_arguments(&[0; ARGUMENT_BYTES])?;
                }
            }
        }
        Ok(())
    }

    /// Nanoseconds of a run of a program, the clock read twice included: the least of some samples.
    ///
    /// # Errors
    /// Why it cannot be attached, or that it did not run.
    pub fn least_ns(self, prog: &Prog) -> Result<f64, Error> {
        let _link = self.attach(prog)?;
        let mut least = f64::INFINITY;
        for _ in 0..SAMPLES {
            let before = prog.info()?;
            self.happen(prog)?;
            let after = prog.info()?;
            let runs = after.run_count - before.run_count;
            if runs < LEAST_RUNS {
                return Err(Error::InvalidInput(format!("{EVENTS} events made it run {runs} times")));
            }
            least = least.min((after.run_time_ns - before.run_time_ns) as f64 / runs as f64);
        }
        Ok(least)
    }

    /// Nanoseconds that an empty program takes: reading the clock.
    ///
    /// # Errors
    /// As [`Cause::least_ns`].
    pub fn clock_ns(self) -> Result<f64, Error> {
        let missing = || Error::InvalidInput("the empty program does not load".to_owned());
        let input = kiln_driver::input::parse("empty.bpf", self.empty().as_bytes().to_vec(), &[]);
        let object: Object = input.map_err(|_| missing())?.object;
        let loaded = kiln_linux::load_image(&object, &object.programs[0]).map_err(|_| missing())?;
        self.least_ns(&loaded.prog)
    }
}

/// What kprobe programs are attached to.
#[inline(never)]
fn probed(first: u64, second: u64, third: u64, fourth: u64, fifth: u64) -> u64 {
    std::hint::black_box(first ^ second ^ third ^ fourth ^ fifth)
}

/// The file that this process runs, and where in it [`probed`] is.
fn place_of_probed() -> Result<(std::path::PathBuf, u64), Error> {
    let address = probed as fn(u64, u64, u64, u64, u64) -> u64 as usize as u64;
    let missing = || Error::InvalidInput("this process does not know where its code is".to_owned());
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| missing())?;
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, _, offset, _, _, file] = fields[..] else { continue };
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let bounds = range.split_once('-').and_then(|(start, end)| Some(number(start)?..number(end)?));
        if let (Some(bounds), Some(offset)) = (bounds, number(offset))
            && bounds.contains(&address)
        {
            return Ok((file.into(), address - bounds.start + offset));
        }
    }
    Err(missing())
}
