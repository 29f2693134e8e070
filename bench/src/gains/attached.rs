//! Run times of programs that the kernel does not test-run: they are attached to actions of this thread.
//!
//! ```text
//!   kprobe       a uprobe on a function of this process, which is called     what it reads of the kernel is not there
//!   tracepoint   the entry of a system call with six arguments, which is made
//!   perf_event   page faults of this thread, of pages touched for the first time
//!   raw_tp       no attachment: test runs, one at a time
//!   tp_btf       the tracepoints of XDP: frames that are redirected in a network of our own     see [`surroundings`]
//!   sock_ops     TCP connections of this process, in a cgroup and a network of our own
//!   cgroup_sock  sockets of this process, likewise
//! ```
//!
//! The kernel counts the runs of a program and their time while `BPF_ENABLE_STATS` is active. A sample is the increase
//! of both by some hundred events. It includes the two readings of the clock, which are measured with an empty program.
//! One program is attached at a time, for as long as its samples take.

mod surroundings;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use kiln_driver::{Program, ProgramType};
use kiln_linux::{Error, Link, LoadedImage, Prog};
use kiln_platform::AttachType;

use surroundings::{Destination, Frames, Sockets};

/// Events of a sample.
const EVENTS: u32 = 500;
/// Samples of one attachment. Attaching and detaching takes far longer: the kernel waits until nobody runs the program.
const SAMPLES: u32 = 6;
/// A sample needs at least this many runs.
const LEAST_RUNS: u64 = 100;
/// How long events may be on their way.
const PATIENCE: Duration = Duration::from_secs(1);
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
    /// Frames sent somewhere, which makes a tracepoint happen.
    Frames(&'static str, Destination),
    /// TCP connections.
    Connections,
    /// Sockets that are opened.
    Sockets,
}

impl Cause {
    /// How a program is made to run.
    ///
    /// # Errors
    /// That nothing here does it.
    pub fn of(program: &Program) -> Result<Cause, String> {
        let program_type = program.program_type.ok_or("it has no type")?;
        match program_type {
            ProgramType::Kprobe => Ok(Cause::Calls),
            ProgramType::Tracepoint => Ok(Cause::SystemCalls),
            ProgramType::PerfEvent => Ok(Cause::PageFaults),
            ProgramType::RawTracepoint => Ok(Cause::TestRuns),
            ProgramType::SockOps => Ok(Cause::Connections),
            ProgramType::CgroupSock if program.attach_type.is_none_or(|own| own == SOCKET_CREATION) => {
                Ok(Cause::Sockets)
            }
            ProgramType::Tracing if program.attach_type == Some(AttachType::TraceRawTp) => {
                let tracepoint = program.section.rsplit('/').next().unwrap_or_default();
                let known = Destination::of(tracepoint).ok_or_else(|| format!("nothing here causes {tracepoint}"))?;
                Ok(Cause::Frames(known.0, known.1))
            }
            _ => Err(format!("nothing here makes {} programs run", program_type.name())),
        }
    }

    /// The type of a program that only returns, and may be attached where the others are.
    fn empty_type(self) -> ProgramType {
        match self {
            Cause::Calls => ProgramType::Kprobe,
            Cause::SystemCalls => ProgramType::Tracepoint,
            Cause::PageFaults => ProgramType::PerfEvent,
            Cause::TestRuns | Cause::Frames(..) => ProgramType::RawTracepoint,
            Cause::Connections => ProgramType::SockOps,
            Cause::Sockets => ProgramType::CgroupSock,
        }
    }
}

/// Where cgroup_sock programs go that do not say.
const SOCKET_CREATION: AttachType = AttachType::CgroupInetSockCreate;

/// A cause with what it needs. What had to be made for it is gone when this is dropped.
pub struct Events {
    cause: Cause,
    surroundings: Surroundings,
}

enum Surroundings {
    /// What is there anyway.
    Given,
    Frames(Frames),
    Sockets(Sockets),
}

impl Events {
    /// Makes what a cause needs.
    ///
    /// # Errors
    /// Returns what the kernel lacks or does not allow.
    pub fn prepare(cause: Cause) -> Result<Events, Error> {
        let surroundings = match cause {
            Cause::Frames(_, destination) => Surroundings::Frames(Frames::to(destination)?),
            Cause::Connections | Cause::Sockets => Surroundings::Sockets(Sockets::make()?),
            _ => Surroundings::Given,
        };
        Ok(Events { cause, surroundings })
    }

    fn attach(&self, prog: &Prog, typed: bool) -> Result<Option<Link>, Error> {
        let link = match (self.cause, &self.surroundings) {
            (Cause::TestRuns, _) => return Ok(None),
            (Cause::Calls, _) => {
                let (file, offset) = place_of_probed()?;
                Link::uprobe(prog, &file, offset)
            }
            (Cause::SystemCalls, _) => Link::tracepoint(prog, "syscalls", "sys_enter_copy_file_range"),
            (Cause::PageFaults, _) => Link::own_page_faults(prog),
            (Cause::Frames(..), _) if typed => Link::typed_tracepoint(prog),
            (Cause::Frames(tracepoint, _), _) => Link::raw_tracepoint(prog, tracepoint),
            (Cause::Connections, Surroundings::Sockets(own)) => own.attach(prog, AttachType::CgroupSockOps),
            (_, Surroundings::Sockets(own)) => own.attach(prog, SOCKET_CREATION),
            _ => return Ok(None),
        };
        link.map(Some)
    }

    /// Makes events happen.
    fn happen(&self, prog: &Prog) -> Result<(), Error> {
        match (self.cause, &self.surroundings) {
            (_, Surroundings::Frames(own)) => own.send()?,
            (Cause::Connections, Surroundings::Sockets(own)) => own.connect()?,
            (_, Surroundings::Sockets(own)) => own.open(),
            (Cause::Calls, _) => {
                for number in 0..u64::from(EVENTS) {
                    std::hint::black_box(probed(number, 1, 2, 3, 4));
                }
            }
            (Cause::SystemCalls, _) => {
                let nothing =
                    std::fs::File::open("/dev/null").map_err(|error| Error::InvalidInput(error.to_string()))?;
                for _ in 0..EVENTS {
                    // It fails; that it is made is enough.
                    let _ = rustix::fs::copy_file_range(nothing.as_fd(), None, nothing.as_fd(), None, 0);
                }
            }
            (Cause::PageFaults, _) => {
                let mut pages = vec![0u8; FRESH_BYTES];
                for page in pages.chunks_mut(PAGE_BYTES).take(EVENTS as usize) {
                    page[0] = 1;
                }
                std::hint::black_box(pages);
            }
            _ => {
                for _ in 0..EVENTS {
                    prog.test_run_context(&[0; ARGUMENT_BYTES])?;
                }
            }
        }
        Ok(())
    }

    /// Nanoseconds of a run of a program, the clock read twice included: the least of some samples.
    ///
    /// # Errors
    /// Returns why it cannot be attached, or that it did not run.
    pub fn least_ns(&self, prog: &Prog) -> Result<f64, Error> {
        self.least_of_attached(prog, true)
    }

    /// Nanoseconds that an empty program takes: reading the clock.
    ///
    /// # Errors
    /// As [`Events::least_ns`].
    pub fn clock_ns(&self) -> Result<f64, Error> {
        let text = format!("; program {}\n r0 = 0\n exit\n", self.cause.empty_type().name());
        self.least_of_attached(&loaded(&text)?.prog, false)
    }

    fn least_of_attached(&self, prog: &Prog, typed: bool) -> Result<f64, Error> {
        let _link = self.attach(prog, typed)?;
        let mut least = f64::INFINITY;
        for _ in 0..SAMPLES {
            let before = prog.info()?;
            self.happen(prog)?;
            let mut after = prog.info()?;
            // What another thread does for us may still be to come.
            let patience = Instant::now() + PATIENCE;
            while after.run_count - before.run_count < LEAST_RUNS && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(1));
                after = prog.info()?;
            }
            let runs = after.run_count - before.run_count;
            if runs < LEAST_RUNS {
                return Err(Error::InvalidInput(format!("{:?} made it run {runs} times", self.cause)));
            }
            least = least.min((after.run_time_ns - before.run_time_ns) as f64 / runs as f64);
        }
        Ok(least)
    }
}

/// The first program of a text, in the kernel.
fn loaded(text: &str) -> Result<LoadedImage, Error> {
    let failed = |why: String| Error::InvalidInput(format!("a program of our own: {why}"));
    let input = kiln_driver::input::parse("own.bpf", text.as_bytes().to_vec(), &[]);
    let object = input.map_err(|error| failed(error.to_string()))?.object;
    kiln_linux::load_image(&object, &object.programs[0]).map_err(|failure| failed(failure.to_string()))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Where this thread and this process are.
    fn whereabouts() -> [String; 2] {
        let network = std::fs::read_link("/proc/thread-self/ns/net").map(|link| link.display().to_string());
        [network.unwrap_or_default(), std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default()]
    }

    #[test]
    fn events_happen_and_leave_nothing_behind() {
        if let Err(reason) = kiln_linux::available() {
            return eprintln!("skipped: {reason}");
        }
        let _statistics = kiln_linux::Statistics::keep().expect("statistics are kept");
        let home = whereabouts();
        let tracepoints = Destination::all().map(|(tracepoint, destination)| Cause::Frames(tracepoint, destination));
        for cause in tracepoints.chain([Cause::Connections, Cause::Sockets]) {
            let events = match Events::prepare(cause) {
                Ok(events) => events,
                Err(reason) => {
                    eprintln!("skipped: {cause:?}: {reason}");
                    continue;
                }
            };
            assert_ne!(whereabouts(), home, "{cause:?} is not among ourselves");
            let clock_ns = events.clock_ns().expect("an empty program is attached and runs");
            assert!(clock_ns > 0.0, "{cause:?}");
            drop(events);
            assert_eq!(whereabouts(), home, "{cause:?}");
        }
    }
}
