//! `kiln dispatch`: a policy says which executor gets a packet.
//!
//! ```text
//!   text --kiln_sql::dispatch--> Policy --kiln_plan::dispatch--> program --our verifier--> loaded, attached
//!                                   |
//!                                   +---- in user space on the packets of a capture, without privilege
//! ```
//!
//! Executors are processors (XDP moves a packet there before the kernel's network stack sees it) or sockets of running
//! processes ([`sockets`]).

pub mod sockets;

use std::time::{Duration, Instant};

use kiln_linux::{Link, LoadedImage, ReuseportLink, load_image};
use kiln_plan::dispatch::{Field, Generated, Policy, generate, packet};
use serde::Serialize;

pub use kiln_linux::XdpMode;
pub use kiln_plan::dispatch::{Hook, Transport};

pub use kiln_live::plan::StepProgram as Program;
use kiln_live::plan::verified;
use kiln_program::Error;
use sockets::Sockets;

/// How often it is looked whether to end.
const WAIT: Duration = Duration::from_millis(50);

/// What the kernel says of a processor that it does not have.
const ENODEV: i32 = 19;
/// What it says of a socket that another program has already.
const EBUSY: i32 = 16;
/// What it says of a socket without a group.
const EINVAL: i32 = 22;

/// How long the kernel may take to release the sockets of a policy that has ended: it does so behind its back.
const RELEASE: Duration = Duration::from_secs(1);

/// Packets that wait for a processor at most.
const QUEUE_PACKETS: u32 = 2048;

/// What packets are given to.
#[derive(Debug)]
pub enum Executors {
    /// Processors, by their numbers.
    Processors(Vec<u32>),
    /// Sockets of running processes.
    Sockets(Sockets),
    /// So many that are not known yet: such a plan is not loaded.
    Unknown(u32),
}

impl Executors {
    fn count(&self) -> u32 {
        match self {
            Executors::Processors(numbers) => numbers.len() as u32,
            Executors::Sockets(sockets) => sockets.found.len() as u32,
            Executors::Unknown(count) => *count,
        }
    }
}

/// A policy and its program.
pub struct Plan {
    /// What it says.
    pub policy: Policy,
    /// The program.
    pub generated: Generated,
    /// What our verifier says of it.
    pub program: Program,
    /// What packets are given to.
    pub executors: Executors,
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
    named.chain([(
        payload,
        "eight bytes each of what UDP or TCP carries; 0 where the packet is shorter (not at sk_lookup)",
    )])
}

/// Reads a policy for this many executors at a hook.
///
/// # Errors
/// [`Error::InvalidQuery`] with the place in the policy marked.
pub fn policy(text: &str, executors: u32, at: Hook) -> Result<Policy, Error> {
    kiln_sql::dispatch::parse(text, executors, at).map_err(|error| {
        let shown = error.shown(text);
        Error::InvalidQuery(shown.trim_start_matches("error: ").trim_end().to_owned())
    })
}

/// The hook in front of these processors.
pub fn in_front_of(processors: &[u32]) -> Hook {
    Hook::Xdp { processors: processors.iter().max().map_or(1, |greatest| greatest.saturating_add(1)) }
}

/// Plans a policy for executors on these processors.
///
/// # Errors
/// As [`plan_for`].
pub fn plan(text: &str, processors: &[u32]) -> Result<Plan, Error> {
    plan_for(text, in_front_of(processors), Executors::Processors(processors.to_vec()))
}

/// Plans a policy for executors at a hook.
///
/// # Errors
/// As [`policy`]; [`Error::Limit`] for an expression with too many intermediate values.
pub fn plan_for(text: &str, at: Hook, executors: Executors) -> Result<Plan, Error> {
    let policy = policy(text, executors.count(), at)?;
    let generated = generate(&policy).map_err(|failure| Error::Limit(failure.to_string()))?;
    let mut programs = verified(&generated.object, None).map_err(Error::Unsupported)?;
    let program = programs.pop().ok_or_else(|| Error::Unsupported("no program was written".to_owned()))?;
    Ok(Plan { policy, generated, program, executors })
}

/// A policy's program in the kernel, with its maps filled.
pub struct Loaded {
    /// The program and its maps.
    pub image: LoadedImage,
    /// What packets are given to.
    pub executors: Executors,
    generated: Generated,
    at: Hook,
}

/// Loads a policy's program.
///
/// # Errors
/// [`Error::Os`] where the kernel does not let us; [`Error::InvalidInput`] where a processor is not there or a socket cannot
/// be an executor; [`Error::Unsupported`] where the kernel lacks the program's type or refuses the program.
pub fn load(plan: Plan) -> Result<Loaded, Error> {
    kiln_linux::running::require_kernel()?;
    let Plan { generated, executors, policy, .. } = plan;
    let at = policy.at;
    let image = load_image(&generated.object, &generated.object.programs[0]).map_err(|failure| {
        if kiln_linux::probe::program_type(at.program_type()) == Some(false) {
            return Error::Unsupported(format!("this kernel has no programs of type {}", at.name()));
        }
        Error::Unsupported(format!("the kernel does not take the policy's program: {}", failure.why()))
    })?;
    let loaded = Loaded { image, executors, generated, at };
    match &loaded.executors {
        Executors::Processors(numbers) => loaded.name_processors(numbers)?,
        Executors::Sockets(sockets) => loaded.name_sockets(sockets)?,
        Executors::Unknown(_) => {
            return Err(Error::InvalidInput("there is nothing yet that packets could be given to".to_owned()));
        }
    }
    Ok(loaded)
}

impl Loaded {
    fn map(&self, id: kiln_program::MapId) -> Result<&kiln_linux::MapHandle, Error> {
        self.image.maps.get(&id).ok_or_else(|| Error::Unsupported("a map was not made".to_owned()))
    }

    fn name_processors(&self, numbers: &[u32]) -> Result<(), Error> {
        let Some(processors) = self.generated.processors else { return Ok(()) };
        for (executor, processor) in (0u32..).zip(numbers) {
            let known = self.map(self.generated.targets)?;
            known.update(&processor.to_le_bytes(), &QUEUE_PACKETS.to_le_bytes(), 0).map_err(|error| {
                match error.errno() {
                    Some(ENODEV) => {
                        Error::InvalidInput(format!("processor {processor} is not there; `nproc` says how many are"))
                    }
                    _ => error.into(),
                }
            })?;
            self.map(processors)?.update(&executor.to_le_bytes(), &processor.to_le_bytes(), 0)?;
        }
        Ok(())
    }

    fn name_sockets(&self, sockets: &Sockets) -> Result<(), Error> {
        let differs = sockets.found.iter().find(|one| one.address != sockets.found[0].address);
        if let (Hook::Reuseport(_), Some(differs)) = (self.at, differs) {
            let (one, other) = (sockets.found[0].address, differs.address);
            let message = format!(
                "{one} and {other} are two groups, and sk_reuseport chooses within one: name the address and port, or use \
                 --hook sk_lookup"
            );
            return Err(Error::InvalidInput(message));
        }
        for (executor, (socket, found)) in (0u32..).zip(sockets.held.iter().zip(&sockets.found)) {
            let refused = |why: &str| {
                let sockets::Found { pid, descriptor, address, .. } = found;
                Error::InvalidInput(format!("socket {descriptor} of process {pid}, {address}, {why}"))
            };
            let own = socket.open().ok_or_else(|| refused("was closed just now"))?;
            let value = std::os::fd::AsRawFd::as_raw_fd(&own).to_ne_bytes();
            let targets = self.map(self.generated.targets)?;
            let begun = Instant::now();
            let entered = loop {
                let entered = targets.update(&executor.to_le_bytes(), &value, 0);
                let is_busy = entered.as_ref().is_err_and(|error| error.errno() == Some(EBUSY));
                if !is_busy || begun.elapsed() > RELEASE {
                    break entered;
                }
                std::thread::sleep(WAIT);
            };
            entered.map_err(|error| match (self.at, error.errno()) {
                (Hook::Reuseport(_), Some(EINVAL)) => {
                    refused("was not bound with SO_REUSEPORT, which sk_reuseport needs; --hook sk_lookup takes any")
                }
                (_, Some(EBUSY)) => refused("is an executor of another policy, or in another table of sockets"),
                _ => error.into(),
            })?;
        }
        Ok(())
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
        let executors = self.executors.count();
        Ok(Dispatched { packets: (0..executors).map(of).collect::<Result<_, _>>()?, left: of(executors)? })
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
        let elapsed = wait(duration, stop);
        drop(link);
        Ok(elapsed)
    }

    /// Attaches to the sockets until the time is over, `stop` says so, or all of them are closed.
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::Unsupported`] where executors are no sockets.
    pub fn run_sockets(&self, duration: Option<Duration>, stop: &dyn Fn() -> bool) -> Result<Duration, Error> {
        let Executors::Sockets(sockets) = &self.executors else {
            return Err(Error::Unsupported("the policy's executors are no sockets".to_owned()));
        };
        let stop = || stop() || sockets.are_closed();
        if let Hook::Lookup { .. } = self.at {
            let link = Link::socket_lookup(&self.image.prog, &sockets.namespace)?;
            let elapsed = wait(duration, &stop);
            drop(link);
            return Ok(elapsed);
        }
        let link = ReuseportLink::attach(&self.image.prog, &sockets.held)?;
        let elapsed = wait(duration, &stop);
        drop(link);
        Ok(elapsed)
    }
}

/// Waits until the time is over or `stop` says so. Returns how long that was.
fn wait(duration: Option<Duration>, stop: &dyn Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !stop() && duration.is_none_or(|duration| begun.elapsed() < duration) {
        std::thread::sleep(WAIT);
    }
    begun.elapsed()
}

/// The number of an interface in this network namespace.
///
/// # Errors
/// [`Error::InvalidInput`] where there is no such interface.
pub fn index_of(interface: &str) -> Result<u32, Error> {
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
