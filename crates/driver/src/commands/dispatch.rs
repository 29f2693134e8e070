//! `kiln dispatch`: a policy says which processor gets a packet.
//!
//! ```text
//!   text --kiln_sql::dispatch--> Policy --kiln_plan::dispatch--> XDP program --our verifier--> loaded, attached
//!                                   |
//!                                   +---- in user space on the packets of a capture, without privilege
//! ```
//!
//! The program moves a packet to the executor's processor before the kernel's network stack sees it (`cpumap`); the rest
//! of the stack runs there.

use std::time::{Duration, Instant};

use kiln_linux::{Link, LoadedImage, load_image};
use kiln_plan::dispatch::{Field, Generated, Policy, generate, packet};
use serde::Serialize;

pub use kiln_linux::XdpMode;

use super::query::plan::verified;
pub use super::query::plan::StepProgram as Program;
use crate::error::Error;

/// How often it is looked whether to end.
const WAIT: Duration = Duration::from_millis(50);

/// What the kernel says of a processor that it does not have.
const ENODEV: i32 = 19;

/// Packets that wait for a processor at most.
const QUEUE_PACKETS: u32 = 2048;

/// A policy and its program.
pub struct Plan {
    /// What it says.
    pub policy: Policy,
    /// The program.
    pub generated: Generated,
    /// What our verifier says of it.
    pub program: Program,
    /// The processor of each executor.
    pub processors: Vec<u32>,
}

/// Where packets went.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Dispatched {
    /// Packets by executor.
    pub packets: Vec<u64>,
    /// Packets that the policy did not decide, and the kernel dispatched as ever.
    pub left: u64,
}

/// The fields that a policy can read: their names, and what they are.
pub fn fields() -> impl Iterator<Item = (String, &'static str)> {
    let named = Field::NAMED.into_iter().map(|(_, name, about)| (name.to_owned(), about));
    let payload = format!("packet.payload[0] to [{}]", kiln_plan::dispatch::PAYLOAD_WORDS - 1);
    named.chain([(payload, "eight bytes each of what UDP or TCP carries; 0 where the packet is shorter")])
}

/// Reads a policy for this many executors.
///
/// # Errors
/// [`Error::InvalidQuery`] with the place in the policy marked.
pub fn policy(text: &str, executors: u32) -> Result<Policy, Error> {
    kiln_sql::dispatch::parse(text, executors).map_err(|error| {
        let shown = error.shown(text);
        Error::InvalidQuery(shown.trim_start_matches("error: ").trim_end().to_owned())
    })
}

/// Plans a policy for executors on these processors.
///
/// # Errors
/// As [`policy`]; [`Error::Limit`] for an expression with too many intermediate values.
pub fn plan(text: &str, processors: &[u32]) -> Result<Plan, Error> {
    let policy = policy(text, processors.len() as u32)?;
    let known = processors.iter().max().map_or(1, |greatest| greatest.saturating_add(1));
    let generated = generate(&policy, known).map_err(|failure| Error::Limit(failure.to_string()))?;
    let mut programs = verified(&generated.object, None).map_err(Error::Unsupported)?;
    let program = programs.pop().ok_or_else(|| Error::Unsupported("no program was written".to_owned()))?;
    Ok(Plan { policy, generated, program, processors: processors.to_vec() })
}

/// A policy's program in the kernel, with its maps filled.
pub struct Loaded {
    /// The program and its maps.
    pub image: LoadedImage,
    generated: Generated,
    executors: u32,
}

/// Loads a policy's program.
///
/// # Errors
/// [`Error::Os`] where the kernel does not let us, or a processor is not there; [`Error::Unsupported`] where it refuses
/// the program.
pub fn load(plan: Plan) -> Result<Loaded, Error> {
    crate::require_kernel()?;
    let Plan { generated, processors, .. } = plan;
    let image = load_image(&generated.object, &generated.object.programs[0]).map_err(|failure| {
        Error::Unsupported(format!("the kernel does not take the policy's program: {}", failure.reason().unwrap_or_default()))
    })?;
    let executors = processors.len() as u32;
    let loaded = Loaded { image, generated, executors };
    for (executor, processor) in (0u32..).zip(&processors) {
        let known = loaded.map(loaded.generated.processors)?;
        known.update(&processor.to_le_bytes(), &QUEUE_PACKETS.to_le_bytes(), 0).map_err(|error| match error.errno() {
            Some(ENODEV) => Error::InvalidInput(format!("processor {processor} is not there; `nproc` says how many are")),
            _ => error.into(),
        })?;
        loaded.map(loaded.generated.executors)?.update(&executor.to_le_bytes(), &processor.to_le_bytes(), 0)?;
    }
    Ok(loaded)
}

impl Loaded {
    fn map(&self, id: kiln_program::MapId) -> Result<&kiln_linux::MapHandle, Error> {
        self.image.maps.get(&id).ok_or_else(|| Error::Unsupported("a map was not made".to_owned()))
    }

    /// Where packets went so far.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn dispatched(&self) -> Result<Dispatched, Error> {
        let chosen = self.map(self.generated.chosen)?;
        let of = |executor: u32| -> Result<u64, Error> {
            let counts = chosen.lookup(&executor.to_le_bytes())?.unwrap_or_default();
            Ok(counts.chunks_exact(8).filter_map(|one| one.try_into().ok()).map(u64::from_le_bytes).sum())
        };
        Ok(Dispatched { packets: (0..self.executors).map(of).collect::<Result<_, _>>()?, left: of(self.executors)? })
    }

    /// Attaches to an interface until the time is over or `stop` says so.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where there is no such interface; [`Error::Os`].
    pub fn run(
        &self,
        interface: &str,
        mode: XdpMode,
        duration: Option<Duration>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Duration, Error> {
        let link = Link::xdp(&self.image.prog, index_of(interface)?, mode)?;
        let begun = Instant::now();
        while !stop() && duration.is_none_or(|duration| begun.elapsed() < duration) {
            std::thread::sleep(WAIT);
        }
        drop(link);
        Ok(begun.elapsed())
    }
}

/// The number of an interface in this network namespace.
fn index_of(interface: &str) -> Result<u32, Error> {
    let none = || Error::InvalidInput(format!("there is no interface `{interface}` here; `ip link` lists them"));
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None);
    let socket = socket.map_err(|_| Error::Unsupported("no socket can be opened to ask for interfaces".to_owned()))?;
    rustix::net::netdevice::name_to_index(socket, interface).map_err(|_| none())
}

/// Where the packets of a capture would go.
pub fn replay(policy: &Policy, frames: &[Vec<u8>]) -> Dispatched {
    let mut dispatched = Dispatched { packets: vec![0; policy.executors as usize], left: 0 };
    let mut count = 0;
    for frame in frames {
        let row = packet::fields(policy, frame, count);
        count += u64::from(row.is_some());
        match row.and_then(|row| policy.executor(&row)) {
            Some(executor) => dispatched.packets[executor as usize] += 1,
            None => dispatched.left += 1,
        }
    }
    dispatched
}
