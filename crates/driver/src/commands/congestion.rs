//! `kiln congestion`: a policy says how much a TCP connection may send.
//!
//! ```text
//!   text --kiln_sql::congestion--> Policy --kiln_plan::congestion--> five programs --our verifier--> loaded,
//!     registered as a congestion control algorithm of this name --> connections that choose it --> reports
//! ```

use std::time::{Duration, Instant};

use kiln_linux::{LoadedImages, RingReader, load_images};
use kiln_plan::congestion::{Generated, MAX_NAME_BYTES, MEMBERS, Place, Policy, STRUCTURE, Signal, generate};
use serde_json::{Map, Value};

pub use super::query::plan::StepProgram as Program;

use super::query::plan::verified;
use crate::error::Error;
use crate::input::running_kernel_types;

/// What the kernel says of a name that is taken.
const EEXIST: i32 = 17;

/// How long the reader waits for a report.
const WAIT: Duration = Duration::from_millis(50);

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

/// Plans a policy for the running kernel.
///
/// # Errors
/// [`Error::InvalidQuery`] with the place in the policy marked; [`Error::Unsupported`] where the kernel lacks types or a
/// field of them, or where our verifier refuses a program; [`Error::Limit`] for too many intermediate values.
pub fn plan(text: &str) -> Result<Plan, Error> {
    let policy = kiln_sql::congestion::parse(text).map_err(|error| {
        let shown = error.shown(text);
        Error::InvalidQuery(shown.trim_start_matches("error: ").trim_end().to_owned())
    })?;
    let lacks = "policies need the kernel's types, and /sys/kernel/btf/vmlinux is not there";
    let types = running_kernel_types().ok_or_else(|| Error::Unsupported(lacks.to_owned()))?;
    let generated = generate(&policy, &types).map_err(|failure| match failure {
        kiln_plan::generate::Failure::Frame => Error::Limit(failure.to_string()),
        other => Error::Unsupported(other.to_string()),
    })?;
    let programs = verified(&generated.object, Some(&types)).map_err(Error::Unsupported)?;
    Ok(Plan { policy, generated, programs })
}

/// A policy that connections can choose.
pub struct Registered {
    _registered: kiln_linux::Registered,
    _images: LoadedImages,
    ring: Option<RingReader>,
    /// The reported variables: names, and places in a report.
    reported: Vec<(String, usize)>,
}

/// Registers a policy under a name.
///
/// # Errors
/// [`Error::InvalidInput`] for a name that the kernel does not take; [`Error::Unsupported`] where it refuses a program;
/// [`Error::Os`], also where the name is taken.
pub fn register(plan: &Plan, name: &str) -> Result<Registered, Error> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(fits) {
        let message = format!("a name has 1 to {MAX_NAME_BYTES} letters, digits, `_` and `.`");
        return Err(Error::InvalidInput(message));
    }
    crate::require_kernel()?;
    let images = load_images(&plan.generated.object).map_err(|failure| {
        let reason = failure.why();
        Error::Unsupported(format!("the kernel does not take the policy's programs: {reason}"))
    })?;
    let programs: Vec<_> = MEMBERS.into_iter().zip(&images.progs).collect();
    let registered = kiln_linux::Registered::new(STRUCTURE, &programs, &[("name", name.as_bytes())]);
    let registered = registered.map_err(|error| match error.errno() {
        Some(EEXIST) => Error::InvalidInput(format!("there is an algorithm `{name}` already; choose another --name")),
        _ => error.into(),
    })?;
    let ring = plan.generated.ring.and_then(|ring| images.maps.get(&ring)).map(RingReader::new).transpose()?;
    let named = |(variable, place): &(usize, u16)| (plan.policy.variables[*variable].name.clone(), usize::from(*place));
    let reported = plan.generated.reported.iter().map(named).collect();
    Ok(Registered { _registered: registered, _images: images, ring, reported })
}

impl Registered {
    /// Hands over reports until the time is over or `stop` says so. Returns their number.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn run(
        &mut self,
        duration: Option<Duration>,
        stop: &dyn Fn() -> bool,
        each: &mut dyn FnMut(Map<String, Value>),
    ) -> Result<u64, Error> {
        let begun = Instant::now();
        let mut count = 0;
        while !stop() && duration.is_none_or(|duration| begun.elapsed() < duration) {
            let Some(ring) = &mut self.ring else {
                std::thread::sleep(WAIT);
                continue;
            };
            let reported = &self.reported;
            count += ring.wait(WAIT, |record| each(report(reported, record)))? as u64;
        }
        Ok(count)
    }
}

/// A report's variables by name.
fn report(reported: &[(String, usize)], record: &[u8]) -> Map<String, Value> {
    let value = |place: usize| record.get(place..place + 8)?.try_into().ok().map(u64::from_le_bytes);
    reported.iter().map(|(name, place)| (name.clone(), value(*place).into())).collect()
}
