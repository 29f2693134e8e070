//! The VM's interface types: options, inputs, results, errors.

use std::sync::Arc;
use std::time::Duration;

use kiln_program::btf::Btf;
use kiln_program::{InsnId, Trap};

use crate::errno::Errno;
use crate::map::CreateError;
use crate::own::OwnHelper;
use crate::packet::InputError;
use crate::perf::PerfFiles;
use crate::state::{Output, Surroundings};

/// Options of a VM.
#[derive(Clone, Debug)]
pub struct Options {
    /// Instructions one run may take. The JIT counts them at loop headers and returns of subprograms only.
    pub budget: u64,
    /// The time after which a run is cancelled: its next `may_goto` branches, as at the end of the budget. `None`: only the
    /// budget counts. The JIT for 64-bit Arm knows no quantum: its `may_goto` branches after 8 million turns in a frame.
    pub quantum: Option<Duration>,
    /// Bytes of memory one map may take.
    pub map_bytes: u64,
    /// The environment of programs.
    pub surroundings: Surroundings,
    /// The initial bytes of the interpreter's stack frames. Privileged programs may read uninitialized stack; it has
    /// old data in the kernel, and zeros in the VM's compiled code.
    pub stack_fill: u8,
    /// Fixed addresses: those of this place. VMs that exist at the same time need different places. `None`: any
    /// addresses.
    pub place: Option<u32>,
    /// The native operations that compiled code uses where the object has marks for them. An operation that is not one of
    /// Kiln's own is tried first, once per process: native code that does not do what its proof sequences do is an error.
    pub operations: kiln_isa::operation::Registry,
    /// Whether the x86-64 JIT compiles runs of adjacent instructions together ([`kiln_jit::Options::fusions`]).
    pub fusions: bool,
    /// The kernel's types: programs that call kernel functions with structures are refused without them.
    pub kernel_types: Option<Arc<Btf>>,
    /// Helpers besides the kernel's, [`crate::MAX_OWN_HELPERS`] at most.
    pub own_helpers: Vec<OwnHelper>,
    /// Hide the constants of programs in compiled code ([`kiln_jit::Options::blind`]), by numbers that differ each time a
    /// program is loaded. Costs run time: nothing is fused. Clang's code is refused then.
    pub blind: bool,
    /// What is written for `perf` when programs are loaded.
    pub perf: PerfFiles,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            budget: 1 << 32,
            quantum: None,
            map_bytes: 1 << 30,
            surroundings: Surroundings::default(),
            stack_fill: 0,
            place: None,
            operations: kiln_isa::operation::Registry::BUILTIN,
            fusions: true,
            kernel_types: None,
            own_helpers: Vec::new(),
            blind: false,
            perf: PerfFiles::default(),
        }
    }
}

/// How to treat maps and configuration values that the VM lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lacking {
    /// An error.
    Refused,
    /// They exist and are empty: for [`crate::stand_in`].
    Empty,
}

/// What runs the instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// The reference interpreter: every access checked.
    Interpreter,
    /// Machine code of the JIT.
    #[default]
    Jit,
    /// Machine code of an optimizing compiler ([`crate::Vm::load_native`]).
    Native,
}

/// The input of a run, as of `BPF_PROG_TEST_RUN`.
#[derive(Clone, Copy, Debug)]
pub struct Input<'i> {
    /// The packet, from its Ethernet header; empty for programs without one.
    pub packet: &'i [u8],
    /// The context (`ctx_in`): `struct xdp_md` with lengths for pointers, `struct __sk_buff` with the fields a test
    /// run may set, or the raw bytes a tracing program reads.
    pub context: Option<&'i [u8]>,
    /// How often to run, each time on the packet and context that the previous run left; 0 means 1.
    pub repeat: u32,
}

impl<'i> Input<'i> {
    /// One run on a packet.
    pub fn packet(packet: &'i [u8]) -> Input<'i> {
        Input { packet, context: None, repeat: 1 }
    }

    /// One run on a context without a packet.
    pub fn context(context: &'i [u8]) -> Input<'i> {
        Input { packet: &[], context: Some(context), repeat: 1 }
    }

    /// The same, this often.
    pub fn repeated(self, repeat: u32) -> Input<'i> {
        Input { repeat, ..self }
    }
}

/// What a run gave.
#[derive(Clone, PartialEq, Debug)]
pub struct RunResult {
    /// R0 of the last run. Hooks take its lower 32 bits.
    pub value: u64,
    /// The packet afterwards, metadata first (`data_out`).
    pub packet: Vec<u8>,
    /// The context afterwards (`ctx_out`).
    pub context: Vec<u8>,
    /// Instructions of all runs; with the JIT, those that it counts.
    pub instructions: u64,
    /// Nanoseconds of processor time a run, averaged over the repetitions. (The kernel's test run leaves out the time
    /// in which others run, too.)
    pub duration_ns: f64,
    /// What else came out.
    pub output: Output,
}

/// An error of the VM.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A map that cannot be.
    #[error(transparent)]
    Map(#[from] CreateError),
    /// An object that is not well formed.
    #[error("invalid object: {0}")]
    Invalid(#[from] kiln_program::Invalid),
    /// What programs see of the world cannot be.
    #[error("invalid surroundings: {0}")]
    Surroundings(&'static str),
    /// Own helpers that cannot be.
    #[error("invalid options: {0}")]
    OwnHelpers(&'static str),
    /// A native operation whose row is wrong: [`Options::operations`].
    #[error("operation {name}: {what}")]
    NativeOperation {
        /// Its name.
        name: &'static str,
        /// What is wrong.
        what: String,
    },
    /// No such program, map or entry.
    #[error("there is no {what}")]
    Missing {
        /// What.
        what: String,
    },
    /// The verifier does not accept the program.
    #[error("program {program}: {source}")]
    Rejected {
        /// The program.
        program: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something that the VM lacks.
    #[error("program {program}: the VM does not support {what}{}", .insn.map_or(String::new(), |insn| format!(" (instruction {})", insn.0)))]
    Unsupported {
        /// The program.
        program: String,
        /// Where.
        insn: Option<InsnId>,
        /// What.
        what: String,
    },
    /// An invalid input for this program type.
    #[error("invalid input: {0}")]
    Input(#[from] InputError),
    /// The run was stopped.
    #[error("program {program}: {trap}")]
    Stopped {
        /// The program.
        program: String,
        /// Why.
        trap: Trap,
    },
    /// The optimizing compiler gave no code.
    #[cfg(feature = "native")]
    #[error("program {program}: {source}")]
    Native {
        /// The program.
        program: String,
        /// Why.
        source: kiln_native::Error,
    },
    /// A run on a packet in place changed its length.
    #[error("the program changed the packet's length to {bytes} bytes")]
    Resized {
        /// The packet's bytes now.
        bytes: usize,
    },
    /// A run on a CPU that the same thread uses already: in a helper of its own, or while it holds a program there.
    #[error("CPU {cpu} is in use by this thread: a helper that runs a program does it on another CPU, or another VM")]
    Occupied {
        /// The CPU.
        cpu: u32,
    },
    /// The operating system refused memory.
    #[error("memory: {0}")]
    Os(#[from] std::io::Error),
    /// A file for `perf` cannot be written.
    #[error("writing a file for perf: {0}")]
    Perf(std::io::Error),
    /// A map operation that failed, as in the kernel.
    #[error("map {map}: {errno}")]
    Operation {
        /// The map.
        map: String,
        /// Why.
        errno: Errno,
    },
}

impl From<Error> for kiln_program::Error {
    fn from(error: Error) -> kiln_program::Error {
        match error {
            Error::Rejected { program, source } => match source.downcast_ref::<kiln_verifier::Error>() {
                Some(kiln_verifier::Error::Rejected(rejection)) => kiln_program::Error::Rejected(rejection.to_string()),
                Some(kiln_verifier::Error::Limit { .. }) => {
                    kiln_program::Error::Limit(format!("program {program}: {source}"))
                }
                Some(_) => kiln_program::Error::Unsupported(format!("program {program}: {source}")),
                // Not the verifier's: a rule of loaders ([`crate::Vm::load_needed`]).
                None => kiln_program::Error::Rejected(source.to_string()),
            },
            Error::Stopped { trap: Trap::Budget { .. }, .. } => kiln_program::Error::Limit(error.to_string()),
            Error::Input(_)
            | Error::Missing { .. }
            | Error::Invalid(_)
            | Error::Surroundings(_)
            | Error::NativeOperation { .. }
            | Error::Map(CreateError::Invalid { .. }) => kiln_program::Error::InvalidInput(error.to_string()),
            Error::Map(CreateError::Limit { .. }) => kiln_program::Error::Limit(error.to_string()),
            Error::Map(CreateError::Os { name, source }) => {
                kiln_program::Error::io(&format!("memory for map {name}"), &source)
            }
            #[cfg(feature = "native")]
            Error::Native { source, .. } => source.into(),
            Error::Os(source) => kiln_program::Error::io("memory for the VM", &source),
            other => kiln_program::Error::Unsupported(other.to_string()),
        }
    }
}
