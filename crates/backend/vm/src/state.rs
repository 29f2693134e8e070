//! The state of a CPU of the VM. Compiled code passes a pointer to it to every helper.
//!
//! Each CPU has its own stack, packet and output, and runs one program at a time; maps are shared between all.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kiln_jit::Runtime;
use kiln_platform::ProgramType;
use kiln_platform::limits::{MAX_STACK_BYTES, MAX_TAIL_CALLS};
use kiln_program::FunctionId;
use kiln_program::interpret::{Fault, MAX_FRAMES};

use crate::budget::Spending;
use crate::clock::Timer;
use crate::grace::Grace;
use crate::map::{Map, Storage};
use crate::memory::{Access, Memory, Placement, RegionId};
use crate::packet::Packet;

/// Everything that a helper may access. Compiled code uses only the first field.
#[repr(C)]
#[derive(Debug)]
pub struct State {
    pub(crate) runtime: Runtime,
    /// What the run has used of its budget.
    pub(crate) spending: Spending,
    pub(crate) memory: Memory,
    pub(crate) maps: Arc<[Arc<Map>]>,
    pub(crate) packet: Packet,
    pub(crate) surroundings: Surroundings,
    pub(crate) output: Output,
    /// The type of the program that runs: tail calls lead to programs of the same type only.
    pub(crate) running: Option<ProgramType>,
    /// Tail calls so far in this run.
    pub(crate) tail_calls: u32,
    /// Helpers that called back and wait for the result, innermost last.
    pub(crate) callbacks: Vec<Callback>,
    /// Why a helper stopped compiled code.
    pub(crate) fault: Option<Fault>,
    /// Native entries of loaded programs by function, for tail calls from compiled code; 0 where there is none.
    pub(crate) entries: Arc<[Entry]>,
    /// What few runs need, once one has needed it.
    pub(crate) stack: Option<Stack>,
    /// Which runs are going on, where maps ask that.
    pub(crate) grace: Option<Arc<Grace>>,
    /// Maps that are cgroup storage.
    pub(crate) local_storage: Box<[usize]>,
    /// What the program must give back.
    pub(crate) held: Held,
    /// What `bpf_throw` was called with.
    pub(crate) thrown: Option<u64>,
    /// The address of the first socket that lookups may find.
    pub(crate) sockets: u64,
    /// The embedder's helpers.
    pub(crate) own_helpers: Arc<[OwnFunction]>,
}

/// Memory that compiled code without callbacks does not need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    /// The interpreter's stack.
    pub(crate) frames: RegionId,
    /// The address of memory for keys handed to callbacks, one for each level of nesting.
    pub(crate) keys: u64,
}

impl Stack {
    /// Bytes of one frame.
    pub(crate) const FRAME_BYTES: usize = MAX_STACK_BYTES as usize;
    /// Tail calls from subprograms leave their callers' frames behind, and begin with frames of their own.
    pub(crate) const MOST_FRAMES: usize = MAX_FRAMES * (MAX_TAIL_CALLS as usize + 1);
    /// Bytes of the longest key: as many as a frame has.
    pub(crate) const KEY_BYTES: usize = Stack::FRAME_BYTES;
}

/// What a run has taken and must give back. The VM does so for a run that is stopped.
#[derive(Debug, Default)]
pub struct Held {
    /// The address of the lock that the program holds; 0 is none. The verifier allows one.
    pub(crate) lock: u64,
    /// The addresses of the resilient locks that the program holds, the last one last.
    pub(crate) resilient: Vec<u64>,
    /// Records of ring buffers that the program has reserved.
    pub(crate) records: Vec<u64>,
    /// Sockets that the program has looked up.
    pub(crate) sockets: Vec<u64>,
    /// The words that iterators over bits go over; empty where none does.
    pub(crate) bit_words: Vec<Vec<u64>>,
    /// Sections that have begun: they change nothing in the VM.
    pub(crate) sections: u32,
}

impl Held {
    /// Whether nothing is held, as at the end of most runs.
    #[inline]
    fn is_empty(&self) -> bool {
        let references = self.resilient.len() | self.records.len() | self.sockets.len() | self.bit_words.len();
        self.lock == 0 && references == 0 && self.sections == 0
    }

    /// How many things are held.
    fn count(&self) -> usize {
        let iterators = self.bit_words.iter().filter(|words| !words.is_empty()).count();
        let references = self.resilient.len() + self.records.len() + self.sockets.len();
        usize::from(self.lock != 0) + references + iterators + self.sections as usize
    }
}

impl Held {
    /// Whether the lock of a map's value is held.
    pub(crate) fn is_locked(&self) -> bool {
        self.lock != 0
    }

    /// What is held, in words; `None` if nothing is.
    pub(crate) fn words(&self) -> Option<String> {
        let rows = [
            (usize::from(self.lock != 0) + self.resilient.len(), "a lock"),
            (self.records.len(), "a reserved record"),
            (self.sockets.len(), "a socket"),
        ];
        let held: Vec<&str> = rows.iter().filter(|(count, _)| *count > 0).map(|(_, name)| *name).collect();
        (!held.is_empty()).then(|| format!("{} is still held", held.join(" and ")))
    }
}

/// A loaded program's entry function, for tail calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Whether a program that begins here is loaded.
    pub loaded: bool,
    /// The type that it was verified as.
    pub program_type: Option<ProgramType>,
    /// Where its compiled code begins, if it is compiled.
    pub address: u64,
}

/// A helper that calls back.
#[derive(Clone, Debug)]
pub struct Callback {
    /// Rounds done.
    pub rounds: u64,
    /// Where a walk goes on.
    pub position: u32,
    /// R0 of the callback, once it returned.
    pub result: Option<u64>,
}

/// The environment of programs, other than packet and maps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Surroundings {
    /// CPUs there are (per-CPU maps have a value for each).
    pub cpus: u32,
    /// The CPU that runs programs.
    pub cpu: u32,
    /// What the clock says.
    pub clock: Clock,
    /// State of the random numbers; any value.
    pub random: u64,
    /// The current task.
    pub task: Task,
    /// Devices, for redirection, MTU checks and route lookups.
    pub devices: Vec<Device>,
    /// Routes, for `bpf_fib_lookup`. Without any, it answers as an empty network namespace does.
    pub routes: Vec<Route>,
    /// Sockets that lookups may find, [`MAX_SOCKETS`] at most.
    pub sockets: Vec<Socket>,
}

/// Where times come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// The operating system.
    #[default]
    System,
    /// Always this many nanoseconds.
    Fixed(u64),
}

/// The task that tracing programs see as the current one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Process id (thread group).
    pub process: u32,
    /// Thread id.
    pub thread: u32,
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
    /// Its name, at most 15 bytes are seen.
    pub name: String,
    /// The address of its `task_struct`: a number, nothing is there.
    pub address: u64,
    /// Its cgroup's id.
    pub cgroup: u64,
}

/// A network device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its index.
    pub ifindex: u32,
    /// Bytes of a packet at most, without link-layer header.
    pub mtu: u32,
    /// Its MAC address.
    pub address: [u8; 6],
}

/// A route, with the next hop resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Destination: IPv4 addresses are the first four bytes.
    pub destination: [u8; 16],
    /// Significant bits.
    pub prefix_bits: u8,
    /// Whether it is IPv6.
    pub ipv6: bool,
    /// The device it leaves by.
    pub ifindex: u32,
    /// The next hop's address; zeros for on-link.
    pub gateway: [u8; 16],
    /// The next hop's MAC address; `None` when the neighbour is unknown.
    pub neighbour: Option<[u8; 6]>,
}

/// A socket of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Socket {
    /// `IPPROTO_TCP` or `IPPROTO_UDP`.
    pub protocol: u8,
    /// The address that it is bound to. An unspecified one is any of its family.
    pub local: SocketAddr,
    /// The address that it is connected to; `None`: it listens, or takes datagrams from anywhere.
    pub remote: Option<SocketAddr>,
}

impl Default for Surroundings {
    fn default() -> Surroundings {
        let loopback = Device { ifindex: 1, mtu: 65536, address: [0; 6] };
        Surroundings {
            cpus: 1,
            cpu: 0,
            clock: Clock::System,
            random: 0x9e37_79b9_7f4a_7c15,
            task: Task {
                process: 1,
                thread: 1,
                user: 0,
                group: 0,
                name: "kiln".to_owned(),
                address: 0xffff_8880_0000_0000,
                cgroup: 1,
            },
            devices: vec![loopback],
            routes: Vec::new(),
            sockets: Vec::new(),
        }
    }
}

/// CPUs at most: each has memory of its own in every per-CPU map.
pub const MAX_CPUS: u32 = 4096;
/// Sockets at most: each CPU has a copy of them.
pub const MAX_SOCKETS: usize = 4096;

impl Surroundings {
    /// Whether the numbers of CPUs and sockets can be.
    ///
    /// # Errors
    /// What is wrong: no CPU, more than [`MAX_CPUS`], programs on one that there is not, or more than [`MAX_SOCKETS`].
    pub fn check(&self) -> Result<(), &'static str> {
        match self.cpus {
            0 => Err("there is no CPU"),
            count if count > MAX_CPUS => Err("there are more than 4096 CPUs"),
            count if self.cpu >= count => Err("programs run on a CPU that there is not"),
            _ if self.sockets.len() > MAX_SOCKETS => Err("there are more than 4096 sockets"),
            _ => Ok(()),
        }
    }

    /// A clock of the operating system, in nanoseconds.
    pub(crate) fn time_ns(&self, timer: Timer) -> u64 {
        match self.clock {
            Clock::Fixed(now) => now,
            Clock::System => crate::clock::now_ns(timer).unwrap_or_else(|| {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                since.map_or(0, |since| since.as_nanos() as u64)
            }),
        }
    }

    /// The next random number (xorshift64*).
    pub fn next_random(&mut self) -> u32 {
        let mut state = self.random.max(1);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random = state;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// The device with this index.
    pub fn device(&self, ifindex: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.ifindex == ifindex)
    }
}

/// Outputs of a run other than R0, packet and maps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// What `bpf_trace_printk` and `bpf_trace_vprintk` printed.
    pub trace: String,
    /// What `bpf_perf_event_output` sent.
    pub events: Vec<PerfEvent>,
    /// The last redirection asked for.
    pub redirect: Option<Redirect>,
    /// Copies that `bpf_clone_redirect` sent: interface and bytes.
    pub clones: Vec<(u32, Vec<u8>)>,
    /// Locks, references, iterators and sections that the program held when it ended, and that the VM gave back. The
    /// verifier accepts no program that leaves any.
    pub unreleased: u32,
}

impl Output {
    /// Forgets what the run before left, mostly nothing.
    #[inline]
    pub(crate) fn clear(&mut self) {
        let lists_are_empty = self.trace.is_empty() && self.events.is_empty() && self.clones.is_empty();
        if !lists_are_empty || self.redirect.is_some() || self.unreleased != 0 {
            self.clear_all();
        }
    }

    #[cold]
    fn clear_all(&mut self) {
        self.trace.clear();
        self.events.clear();
        self.redirect = None;
        self.clones.clear();
        self.unreleased = 0;
    }
}

/// One record of a perf event array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PerfEvent {
    /// The map's index.
    pub map: u32,
    /// The CPU whose buffer it went to.
    pub cpu: u32,
    /// Its bytes, packet data appended by the flags included.
    pub bytes: Vec<u8>,
}

/// Where a packet is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redirect {
    /// To an interface.
    Interface {
        /// Its index.
        ifindex: u32,
        /// The helper's flags.
        flags: u64,
    },
    /// To an entry of a map.
    Map {
        /// The map's index.
        map: u32,
        /// The key.
        key: u64,
        /// The helper's flags.
        flags: u64,
    },
}

/// What a helper answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// R0.
    Value(u64),
    /// The run goes on in this program.
    TailCall(FunctionId),
    /// The function behind this address (compiled code) or number (interpreter) is to be called.
    Call {
        /// The callback, as the program passed it.
        function: u64,
        /// R1 to R5.
        arguments: [u64; 5],
    },
}

/// A helper: state and R1 to R5 in, R0 out. A fault stops the run; with a verified program it is a bug.
pub type HelperFunction = fn(&mut State, [u64; 5]) -> Result<Reply, Fault>;

/// A helper of the embedder's.
#[derive(Clone)]
pub struct OwnFunction(pub(crate) Arc<OwnCall>);

/// What runs it.
type OwnCall = dyn Fn(&mut State, [u64; 5]) -> Result<Reply, Fault> + Send + Sync;

impl std::fmt::Debug for OwnFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OwnFunction")
    }
}

/// Own helpers of one VM.
pub const MAX_OWN_HELPERS: usize = 32;

impl State {
    /// The stack, made by the first run that asks for it. Both parts are made together, so that their addresses are the same
    /// whatever needs them first.
    ///
    /// # Errors
    /// What `mmap` reports.
    pub(crate) fn stack(&mut self) -> io::Result<Stack> {
        if let Some(stack) = self.stack {
            return Ok(stack);
        }
        let bytes = Stack::MOST_FRAMES * Stack::FRAME_BYTES;
        let frames = self.memory.allocate(bytes, Placement::Anywhere, Access::ReadWrite)?;
        let bytes = Stack::KEY_BYTES * MAX_FRAMES;
        let keys = self.memory.allocate(bytes, Placement::Anywhere, Access::ReadWrite)?;
        Ok(*self.stack.insert(Stack { frames, keys: self.memory.start(keys) }))
    }

    /// Runs the embedder's helper at a place of the list.
    pub(crate) fn call_own(&mut self, at: usize, arguments: [u64; 5]) -> Result<Reply, Fault> {
        let helper = self.own_helpers.get(at).cloned();
        let helper = helper.ok_or_else(|| Fault::Unsupported(format!("own helper {at}")))?;
        (helper.0)(self, arguments)
    }

    /// Bytes that a program passes.
    #[inline]
    pub fn bytes(&self, address: u64, bytes: u64) -> Result<Cow<'_, [u8]>, Fault> {
        self.memory.bytes(address, bytes as usize).ok_or(Fault::Memory { address, bytes })
    }

    /// Writes where a program says.
    #[inline]
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.memory.write(address, from).ok_or(Fault::Memory { address, bytes: from.len() as u64 })
    }

    /// Zeroes bytes where a program says.
    pub fn clear(&mut self, address: u64, bytes: u64) -> Result<(), Fault> {
        self.memory.clear(address, bytes as usize).ok_or(Fault::Memory { address, bytes })
    }

    /// Copies between places of the program's, which may overlap.
    pub fn copy(&mut self, from: u64, to: u64, bytes: u64) -> Result<(), Fault> {
        let copied = self.memory.copy(from, to, bytes as usize);
        copied.ok_or_else(|| {
            let source_is_open = self.memory.is_open(from, bytes as usize, false);
            Fault::Memory { address: if source_is_open { to } else { from }, bytes }
        })
    }

    /// That a program may write where it says.
    pub fn check_writable(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        let open = self.memory.is_open(address, bytes as usize, true);
        if open { Ok(()) } else { Err(Fault::Memory { address, bytes }) }
    }

    /// The index of a map that a program passes.
    #[inline]
    pub fn map_index(&self, handle: u64) -> Result<usize, Fault> {
        let index = crate::map::index_of_handle(handle).filter(|index| *index < self.maps.len());
        index.ok_or(Fault::Memory { address: handle, bytes: 0 })
    }

    /// The map a program passes, and the memory it works on.
    #[inline]
    pub fn map_and_memory(&mut self, handle: u64) -> Result<(&Map, &mut Memory), Fault> {
        let index = self.map_index(handle)?;
        Ok((&self.maps[index], &mut self.memory))
    }

    /// A test run has cgroup storage of its own.
    #[inline]
    pub(crate) fn clear_local_storage(&self) {
        if !self.local_storage.is_empty() {
            self.clear_each_storage();
        }
    }

    #[cold]
    fn clear_each_storage(&self) {
        for map in &*self.local_storage {
            if let Storage::Array(values) = self.maps[*map].storage() {
                values.clear(0);
            }
        }
    }

    /// Begins a run.
    #[inline]
    pub(crate) fn begin(&mut self, budget: u64, quantum: Option<Duration>) {
        let mut spending = Spending::new(budget, quantum);
        self.runtime = Runtime::new(spending.first());
        self.spending = spending;
        self.tail_calls = 0;
        self.callbacks.clear();
        self.fault = None;
        self.thrown = None;
        if let Some(grace) = &self.grace {
            grace.begin(self.surroundings.cpu);
        }
    }

    /// Ends a run. Releases what a stopped run still holds, so that others can continue.
    #[inline]
    pub(crate) fn end(&mut self) {
        if !self.held.is_empty() {
            self.give_back();
        }
        if let Some(grace) = &self.grace {
            grace.end(self.surroundings.cpu);
        }
    }

    /// Releases the program's lock.
    pub(crate) fn release_lock(&mut self) {
        let address = std::mem::take(&mut self.held.lock);
        if let Some(word) = self.memory.shared_word(address) {
            word.store(0, std::sync::atomic::Ordering::Release);
        }
    }

    /// Releases the resilient lock that was taken last.
    pub(crate) fn release_resilient(&mut self) {
        let word = self.held.resilient.pop().and_then(|address| self.memory.shared_word(address));
        if let Some(word) = word {
            word.store(0, std::sync::atomic::Ordering::Release);
        }
    }

    /// Goes on after an exception, with what is left of the budget. Returns what was thrown, if something was.
    #[inline]
    pub(crate) fn catch(&mut self) -> Option<u64> {
        let cookie = self.thrown.take()?;
        self.go_on();
        Some(cookie)
    }

    #[cold]
    fn go_on(&mut self) {
        self.callbacks.clear();
        self.fault = None;
        self.runtime = Runtime::new(self.spending.rest());
    }

    #[cold]
    fn give_back(&mut self) {
        let held = self.held.count();
        if held > 0 {
            self.output.unreleased = self.output.unreleased.saturating_add(held as u32);
            self.release_all();
        }
    }

    fn release_all(&mut self) {
        if self.held.lock != 0 {
            self.release_lock();
        }
        while !self.held.resilient.is_empty() {
            self.release_resilient();
        }
        for record in std::mem::take(&mut self.held).records {
            let rings = self.maps.iter().filter_map(|map| match map.storage() {
                Storage::Ring(ring) => Some(ring),
                _ => None,
            });
            for ring in rings.filter(|ring| ring.contains(record)) {
                // A record that there is not needs no discarding.
                let _ = ring.commit(record, true);
            }
        }
    }
}
