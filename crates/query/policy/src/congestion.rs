//! `kiln congestion`: a policy says how much a TCP connection may send.
//!
//! ```text
//!   text --ccp--> Policy --kiln_plan::congestion--> programs --our verifier--> loaded, registered
//!     as a congestion control algorithm of this name --> connections that choose it --reports--> the part in user space
//!                                                                ^                                      |
//!                                                                +--------------- answers --------------+
//! ```

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kiln_linux::{LoadedImages, MapHandle, RingReader, load_images};
use kiln_plan::congestion::{
    COUNTERS, Generated, MAX_NAME_BYTES, Place, Policy, STRUCTURE, Signal, UserPart, generate, movable, placements,
};
use kiln_program::MapId;
use serde::Serialize;
use serde_json::{Map, Value};

pub use kiln_plan::congestion::{MAX_CONNECTIONS, Placement};

pub use kiln_live::plan::StepProgram as Program;

use crate::ccp;
use kiln_inspect::input::{lack_of_kernel_types, running_kernel_types};
use kiln_live::plan::verified;
use kiln_program::Error;

/// What the kernel says of a name that is taken.
const EEXIST: i32 = 17;

/// How long the reader waits for a report.
const WAIT: Duration = Duration::from_millis(50);

/// Connections that can have a part in user space at a time, where nothing else is said.
pub const CONNECTIONS: u32 = 4096;

/// Slots of a program with clauses at reports, which are written out at each place that reports. With more, they run in user
/// space.
const MAX_SLOTS: u32 = 8192;

/// A policy and its programs.
pub struct Plan {
    /// What it says.
    pub policy: Policy,
    /// The programs.
    pub generated: Generated,
    /// What our verifier says of them.
    pub programs: Vec<Program>,
}

/// What a policy can read and set: names, and what they are.
pub fn signals() -> impl Iterator<Item = (&'static str, &'static str)> {
    let signals = Signal::ALL.into_iter().map(|(_, name, about)| (name, about));
    signals.chain(Place::NAMED.into_iter().map(|(_, name, about)| (name, about)))
}

impl Plan {
    /// Where each clause at reports runs, and why.
    pub fn placements(&self) -> Vec<Placement> {
        placements(&self.policy, self.generated.in_kernel)
    }
}

/// Plans a policy for the running kernel, with room for this many connections with a part in user space.
///
/// All clauses at reports can run in user space, and the policy's programs then are the smallest ones. So many of the
/// first of them run in the kernel as can, and as our verifier takes.
///
/// # Errors
/// [`Error::InvalidQuery`] with the place in the policy marked; [`Error::Unsupported`] where the kernel lacks types or a
/// field of them, or where our verifier refuses a program; [`Error::Limit`] for too many intermediate values.
pub fn plan(text: &str, connections: u32) -> Result<Plan, Error> {
    let policy = ccp::parse(text).map_err(|error| {
        let shown = error.shown(text);
        Error::InvalidQuery(shown.trim_start_matches("error: ").trim_end().to_owned())
    })?;
    let lacks = || format!("policies need the kernel's types, and {}", lack_of_kernel_types());
    let types = running_kernel_types().ok_or_else(|| Error::Unsupported(lacks()))?;
    let planned = |in_kernel: usize| -> Result<(Generated, Vec<Program>), Error> {
        let generated = generate(&policy, &types, in_kernel, connections).map_err(|failure| match failure {
            kiln_plan::generate::Failure::Frame => Error::Limit(failure.to_string()),
            other => Error::Unsupported(other.to_string()),
        })?;
        let programs = verified(&generated.object, Some(&types)).map_err(Error::Unsupported)?;
        Ok((generated, programs))
    };
    let fits = |programs: &[Program]| programs.iter().all(|program| program.slots <= MAX_SLOTS);
    let larger = (1..=movable(&policy)).rev().filter_map(|in_kernel| planned(in_kernel).ok());
    let chosen = larger.into_iter().find(|(_, programs)| fits(programs));
    let (generated, programs) = chosen.map_or_else(|| planned(0), Ok)?;
    Ok(Plan { policy, generated, programs })
}

/// What a connection reports.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The connection's number: those of the policy are counted from 1.
    pub connection: u64,
    /// Its address and port here.
    pub local: SocketAddr,
    /// Its address and port at the other end.
    pub remote: SocketAddr,
    /// The reported variables.
    pub values: Map<String, Value>,
}

/// What happened while a policy was registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Connections that have chosen the policy.
    pub connections: u64,
    /// Reports.
    pub reports: u64,
    /// Reports that user space answered.
    pub answered: u64,
    /// Reports that found the ring buffer full.
    pub lost: u64,
    /// Connections that found no room for a part in user space.
    pub without_room: u64,
}

/// A policy that connections can choose.
pub struct Registered<'p> {
    _registered: kiln_linux::Registered,
    images: LoadedImages,
    ring: Option<RingReader>,
    plan: &'p Plan,
}

/// Registers a policy under a name.
///
/// # Errors
/// [`Error::InvalidInput`] for a name that the kernel does not take; [`Error::Unsupported`] where it refuses a program;
/// [`Error::Os`], also where the name is taken.
pub fn register<'p>(plan: &'p Plan, name: &str) -> Result<Registered<'p>, Error> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(fits) {
        let message = format!("a name has 1 to {MAX_NAME_BYTES} letters, digits, `_` and `.`");
        return Err(Error::InvalidInput(message));
    }
    kiln_linux::running::require_kernel()?;
    let images = load_images(&plan.generated.object).map_err(|failure| {
        let reason = failure.why();
        Error::Unsupported(format!("the kernel does not take the policy's programs: {reason}"))
    })?;
    if let Some((answers, places)) = plan.generated.maps.answers {
        let places = map_of(&images, places)?;
        for place in 0..u64::from(map_of(&images, answers)?.max_entries()) {
            places.update(&[], &place.to_le_bytes(), 0)?;
        }
    }
    let programs: Vec<_> = plan.generated.members.iter().copied().zip(&images.progs).collect();
    let registered = kiln_linux::Registered::new(STRUCTURE, &programs, &[("name", name.as_bytes())]);
    let registered = registered.map_err(|error| match error.errno() {
        Some(EEXIST) => Error::InvalidInput(format!("there is an algorithm `{name}` already; choose another --name")),
        _ => error.into(),
    })?;
    let ring =
        plan.generated.maps.reports.map(|(ring, _)| RingReader::new(map_of(&images, ring)?).map_err(Error::from));
    Ok(Registered { _registered: registered, ring: ring.transpose()?, images, plan })
}

fn map_of(images: &LoadedImages, map: MapId) -> Result<&MapHandle, Error> {
    images.maps.get(&map).ok_or_else(|| Error::Unsupported("a map was not made".to_owned()))
}

impl Registered<'_> {
    /// Hands over reports, and answers them where the policy has a part in user space, until the time is over or `stop` says
    /// so. Returns what happened since the policy was registered; reports and answers are those of this call.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn run(
        &mut self,
        duration: Option<Duration>,
        stop: &dyn Fn() -> bool,
        each: &mut dyn FnMut(Report),
    ) -> Result<Counts, Error> {
        let begun = Instant::now();
        let mut counts = Counts::default();
        let Plan { policy, generated, .. } = self.plan;
        let answers = generated.maps.answers.map(|(answers, _)| map_of(&self.images, answers)).transpose()?;
        let part = generated.user.as_ref().zip(answers);
        while !stop() && duration.is_none_or(|duration| begun.elapsed() < duration) {
            let Some(ring) = &mut self.ring else {
                std::thread::sleep(WAIT);
                continue;
            };
            let mut failed = None;
            ring.wait(WAIT, |record| {
                let Some(report) = generated.report(record) else { return };
                if let Some((part, answers)) = part.filter(|_| report.is_wanted) {
                    match answer(part, answers, &report) {
                        Ok(answered) => counts.answered += u64::from(answered),
                        Err(error) => failed = Some(error),
                    }
                }
                counts.reports += 1;
                let values = report.reported(policy).map(|(name, value)| (name.to_owned(), value.into()));
                each(Report {
                    connection: report.connection(),
                    local: report.local,
                    remote: report.remote,
                    values: values.collect(),
                });
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
        }
        if let Some((_, counters)) = generated.maps.reports {
            let values = map_of(&self.images, counters)?.lookup(&0u32.to_le_bytes())?.unwrap_or_default();
            let mut words = values.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
            let [connections, lost, without_room] = [(); COUNTERS.len()].map(|()| words.next().unwrap_or_default());
            (counts.connections, counts.lost, counts.without_room) = (connections, lost, without_room);
        }
        Ok(counts)
    }
}

/// Answers a report; `false` if the connection has no place for answers.
fn answer(part: &UserPart, answers: &MapHandle, report: &kiln_plan::congestion::Report) -> Result<bool, Error> {
    let slot = report.slot();
    if slot >= answers.max_entries() {
        return Ok(false);
    }
    let key = slot.to_le_bytes();
    let before = answers.lookup(&key)?.unwrap_or_default();
    let answer = part.answer(report.id, &report.row, &before);
    // The kernel may look at any time, and sees words in any order: an answer waits until the call that says so.
    if UserPart::is_new(report.id, &before) {
        answers.update(&key, &vec![0; answer.len()], 0)?;
    }
    answers.update(&key, &UserPart::waiting(&answer), 0)?;
    answers.update(&key, &answer, 0)?;
    Ok(true)
}
