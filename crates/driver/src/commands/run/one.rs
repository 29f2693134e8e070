//! `kiln run`: one program on one input.

use std::time::Duration;

use kiln_platform::ProgramType;
use kiln_program::{Object, Program};
use kiln_sandbox::supply::Memory;
use kiln_vm::{Engine, PerfFiles, Setting, Vm};
use serde::Serialize;

use crate::empty;
use crate::heap::{self, HeapState, KernelHeap, VmHeap};
use crate::inputs::feed::{self, Feed};
use crate::inputs::typed;
use crate::kernel;
use crate::loading::{DEFAULT_BUDGET, fed_kernel, fed_vm};
use crate::packets::MIN_PACKET_BYTES;
use crate::tier::{self, Code};
use crate::timing::Timing;
use kiln_inspect::hex::hex;
use kiln_inspect::input::Input;
use kiln_inspect::sandboxed::{self, Cancelled};
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// How long code for the native tier is measured.
const CHOOSING: Duration = Duration::from_millis(100);
/// Nanoseconds of a sample of one code.
const SAMPLE_NS: f64 = 20_000.0;
/// How often an empty program is run, and repeated each time at most.
const EMPTY_SAMPLES: usize = 9;
const EMPTY_REPEAT: u32 = 10_000;
/// Runs in a sample.
const MAX_REPEAT: f64 = 1000.0;
/// Packets of a capture that code is measured on.
pub(super) const MEASURED_PACKETS: usize = 32;

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The embedded VM.
    Vm(Engine),
    /// The running kernel.
    Kernel,
}

/// What a program runs on. By default nothing, once, for at most [`DEFAULT_BUDGET`] instructions.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Stimulus {
    /// Packet bytes, from the Ethernet header; empty for programs without a packet.
    pub packet: Vec<u8>,
    /// The context, where given.
    pub context: Option<Vec<u8>>,
    /// How often; 0 is once.
    pub repeat: u32,
    /// Instructions one run may take in the VM.
    pub insn_budget: u64,
    /// The time after which the VM cancels a run at its next `may_goto`.
    pub quantum: Option<Duration>,
    /// Bytes that one map or heap may have in the VM.
    pub map_bytes: u64,
    /// How clang compiles, on the native tier; `None` takes the fastest code, which is measured on the inputs of the run.
    pub native: Option<Setting>,
    /// Whether the VM hides the constants of programs in their code.
    pub blind: bool,
    /// What the VM writes for `perf`.
    pub perf: PerfFiles,
}

impl Stimulus {
    fn vm_options(&self) -> kiln_vm::Options {
        let perf = self.perf.clone();
        let (budget, quantum, map_bytes) = (self.insn_budget, self.quantum, self.map_bytes);
        kiln_vm::Options { budget, quantum, map_bytes, blind: self.blind, perf, ..Default::default() }
    }
}

impl Default for Stimulus {
    fn default() -> Stimulus {
        Stimulus {
            packet: Vec::new(),
            context: None,
            repeat: 1,
            insn_budget: DEFAULT_BUDGET,
            quantum: None,
            map_bytes: kiln_vm::Options::default().map_bytes,
            native: None,
            blind: false,
            perf: PerfFiles::default(),
        }
    }
}

impl Stimulus {
    /// One run on a packet.
    pub fn packet(packet: impl Into<Vec<u8>>) -> Stimulus {
        Stimulus { packet: packet.into(), ..Stimulus::default() }
    }
}

/// What a run gave.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Ran {
    /// The return value: R0's lower 32 bits.
    pub value: u32,
    /// Its name, where the program type gives it one.
    pub action: Option<&'static str>,
    /// What the program left in fields of its socket buffer, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket_buffer: Option<SocketBufferFields>,
    /// The packet afterwards, in hexadecimal.
    #[serde(serialize_with = "as_hex")]
    pub packet: Vec<u8>,
    /// In a kernel that takes records of native operations, how many of the program's marks it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_operations: Option<usize>,
    /// On the native tier, which code ran: `jit`, or the name of clang's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Nanoseconds a run, with what is around the program; 0 where the kernel does not measure it, and 4,294,967,295 for all
    /// longer runs in the kernel.
    pub duration_ns: f64,
    /// Nanoseconds that a program which only returns takes in the same place, so many times; `None` where it cannot be run.
    pub around_ns: Option<f64>,
    /// Instructions of all runs, where the place counts them.
    pub instructions: Option<u64>,
    /// What the program printed.
    pub printed: Vec<Shown>,
    /// Map entries afterwards: name, then key and value in hexadecimal.
    pub maps: Vec<MapState>,
    /// What the allocators of the object's heaps have given out.
    pub heaps: Vec<HeapState>,
    /// Where runs were cancelled, and how many.
    pub cancelled: Vec<Cancelled>,
}

/// Fields of `struct __sk_buff` that a program may write and that test runs give back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SocketBufferFields {
    /// `mark`.
    pub mark: u32,
    /// `priority`.
    pub priority: u32,
    /// The program's own words, `cb`.
    pub cb: [u32; 5],
    /// `tstamp`, in nanoseconds.
    pub tstamp: u64,
}

impl SocketBufferFields {
    /// Reads the fields of a context as a test run gives it back; `None` for one that is too short.
    fn of(context: &[u8]) -> Option<SocketBufferFields> {
        use kiln_vm::packet::field::{CB, MARK, PRIORITY, TSTAMP};
        let word = |at: usize| Some(u32::from_ne_bytes(*context.get(at..)?.first_chunk()?));
        let mut cb = [0; 5];
        for (index, own) in cb.iter_mut().enumerate() {
            *own = word(CB + 4 * index)?;
        }
        let tstamp = u64::from_ne_bytes(*context.get(TSTAMP..)?.first_chunk()?);
        Some(SocketBufferFields { mark: word(MARK)?, priority: word(PRIORITY)?, cb, tstamp })
    }
}

/// Whether a test run gives back fields of `struct __sk_buff`; a flow dissector's gives back what it found.
fn gives_socket_buffer(program: &Program) -> bool {
    program.program_type.is_some_and(|own| own.has_socket_buffer() && own != ProgramType::FlowDissector)
}

/// The context of a run: the one given, or zeros for a socket buffer, because a test run gives back no context unless it
/// gets one.
fn context_of(program: &Program, stimulus: &Stimulus) -> Option<Vec<u8>> {
    let zeros = || gives_socket_buffer(program).then(|| vec![0; kiln_vm::packet::field::END]);
    stimulus.context.clone().or_else(zeros)
}

/// Map entries by name.
#[derive(Clone, Debug, Serialize)]
pub struct MapState {
    /// The map.
    pub name: Shown,
    /// How many entries it has; of an array, how many are not zero.
    pub count: usize,
    /// Elements of an array that are zero, and not among the entries.
    pub zeros: usize,
    /// Keys and values, in hexadecimal.
    pub entries: Vec<(Shown, Shown)>,
    /// The same by their types, where the object has BTF for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub typed: Vec<(Shown, Shown)>,
}

fn as_hex<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex(bytes))
}

/// Entries of a map that a result has at most.
pub const MAX_MAP_ENTRIES: usize = 1 << 20;

/// Which maps a result has, and how much of them.
#[derive(Clone, Debug)]
pub struct Maps {
    /// Only these; all if empty.
    pub names: Vec<String>,
    /// Entries of each at most.
    pub entries: usize,
}

impl Default for Maps {
    fn default() -> Maps {
        Maps { names: Vec::new(), entries: MAX_MAP_ENTRIES }
    }
}

/// Runs one program.
///
/// # Errors
/// [`Error::Rejected`] when the verifier does, [`Error::Limit`] when the budget is spent, [`Error::Unsupported`] for
/// what the VM or the machine lacks, [`Error::InvalidInput`] for an input that the program type does not take.
pub fn run(input: &Input, program: &Program, stimulus: &Stimulus, place: Place) -> Result<Ran, Error> {
    run_fed(input, program, stimulus, place, &Feed::default(), &Maps::default())
}

/// Runs one program after its maps and global variables were set.
///
/// # Errors
/// As [`run`], and [`Error::InvalidInput`] for entries that do not fit.
pub fn run_fed(
    input: &Input,
    program: &Program,
    stimulus: &Stimulus,
    place: Place,
    feed: &Feed,
    maps: &Maps,
) -> Result<Ran, Error> {
    check_input(program, stimulus)?;
    let session = Session::open(input, program, stimulus, place, feed, &[&stimulus.packet])?;
    let one = session.run(stimulus)?;
    let context = &one.context;
    Ok(Ran {
        value: one.value,
        action: action(program, one.value),
        socket_buffer: if gives_socket_buffer(program) { SocketBufferFields::of(context) } else { None },
        packet: one.packet,
        native_operations: session.native_operations(),
        code: session.code(),
        duration_ns: one.duration_ns,
        around_ns: session.around_ns(stimulus),
        instructions: one.instructions,
        printed: one.printed,
        maps: session.maps(maps)?,
        heaps: session.heaps(),
        cancelled: session.cancelled(),
    })
}

/// The name of a return value, where the program type gives it one.
pub(super) fn action(program: &Program, value: u32) -> Option<&'static str> {
    kiln_platform::action_name(program.program_type?, value as i32)
}

/// A program, loaded with its maps.
pub(super) struct Session<'a> {
    program: &'a Program,
    object: Object,
    loaded: Loaded,
    /// What runs on the native tier.
    code: Option<Code>,
}

enum Loaded {
    Vm(Box<Vm>, Engine),
    Kernel(Box<kernel::KernelProgram>),
}

/// What one run gave.
pub(super) struct One {
    pub value: u32,
    pub packet: Vec<u8>,
    pub context: Vec<u8>,
    pub duration_ns: f64,
    pub instructions: Option<u64>,
    pub printed: Vec<Shown>,
}

impl<'a> Session<'a> {
    /// Loads a program. `packets` are those that code for the native tier is measured on, if no setting is given.
    pub(super) fn open(
        input: &Input,
        program: &'a Program,
        stimulus: &Stimulus,
        place: Place,
        feed: &Feed,
        packets: &[&[u8]],
    ) -> Result<Session<'a>, Error> {
        let code = match (place, stimulus.native) {
            (Place::Vm(Engine::Native), Some(setting)) => Some(Code::Native(setting)),
            (Place::Vm(Engine::Native), None) => Some(Session::fastest(input, program, stimulus, feed, packets)?),
            _ => None,
        };
        Session::load(input, program, stimulus, place, feed, code)
    }

    /// The code that runs these packets in the least time. Each runs in a VM of its own, so that maps are as they were.
    fn fastest(
        input: &Input,
        program: &Program,
        stimulus: &Stimulus,
        feed: &Feed,
        packets: &[&[u8]],
    ) -> Result<Code, Error> {
        let stimulus = Stimulus { perf: PerfFiles::default(), repeat: 1, ..stimulus.clone() };
        let place = |code: Code| Place::Vm(code.engine());
        let load = |code: Code| Session::load(input, program, &stimulus, place(code), feed, Some(code));
        let sessions = Code::CHOICES.into_iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let run = |at: usize, packet: &[u8], repeat: u32| -> Option<f64> {
            let one = sessions[at].run(&Stimulus { packet: packet.to_vec(), repeat, ..stimulus.clone() }).ok()?;
            Some(one.duration_ns)
        };
        let total = |at: usize, repeat: u32| packets.iter().map(|packet| run(at, packet, repeat)).sum::<Option<f64>>();
        let Some(first) = total(0, 1) else { return Ok(Code::Jit) };
        let repeat = (SAMPLE_NS / first.max(1.0)).clamp(1.0, MAX_REPEAT) as u32;
        let times = tier::measure(&Code::CHOICES, CHOOSING, &mut |at| total(at, repeat));
        Ok(tier::fastest(&times).unwrap_or(Code::Jit))
    }

    fn load(
        input: &Input,
        program: &'a Program,
        stimulus: &Stimulus,
        place: Place,
        feed: &Feed,
        code: Option<Code>,
    ) -> Result<Session<'a>, Error> {
        // libbpf resolves what the kernel runs.
        let mut object = match place {
            Place::Vm(_) => input.as_loaded()?,
            Place::Kernel => input.object.clone(),
        };
        feed.set_globals(&mut object)?;
        let loaded = match place {
            Place::Vm(engine) => {
                let options = kiln_vm::Options { kernel_types: input.kernel_types.clone(), ..stimulus.vm_options() };
                let vm = fed_vm(&object, program, options, feed)?;
                if let Some(Code::Native(setting)) = code {
                    vm.load_native(&program.name, &crate::clang::toolchain()?, setting)?;
                }
                Loaded::Vm(Box::new(vm), code.map_or(engine, Code::engine))
            }
            Place::Kernel => {
                kiln_linux::running::require_kernel()?;
                Loaded::Kernel(Box::new(fed_kernel(input, &object, program, feed)?))
            }
        };
        let session = Session { program, object, loaded, code };
        heap::supply_all(&session.object, &|name: &str| session.memory(name))?;
        Ok(session)
    }

    /// On the native tier, the name of the code that runs.
    pub(super) fn code(&self) -> Option<&'static str> {
        self.code.map(Code::name)
    }

    /// How many native operations the kernel compiles, if any.
    fn native_operations(&self) -> Option<usize> {
        match &self.loaded {
            Loaded::Kernel(loaded) => Some(loaded.native_operations).filter(|count| *count > 0),
            Loaded::Vm(..) => None,
        }
    }

    /// A heap's memory.
    fn memory(&self, name: &str) -> Option<Box<dyn Memory + '_>> {
        Some(match &self.loaded {
            Loaded::Vm(vm, _) => Box::new(VmHeap(vm.map(name).and_then(|map| vm.heap(map)).ok()?)),
            Loaded::Kernel(loaded) => Box::new(KernelHeap(loaded.object.heap(name).ok()?)),
        })
    }

    pub(super) fn heaps(&self) -> Vec<HeapState> {
        heap::states(&self.object, &|name: &str| self.memory(name))
    }

    /// Where runs were cancelled, for sandboxed objects.
    fn cancelled(&self) -> Vec<Cancelled> {
        let walked = self.walk(kiln_sandbox::counted::SECTION, 1);
        let counts = walked.and_then(|(entries, ..)| entries.into_iter().next());
        counts.map(|(_, counts)| sandboxed::cancelled(&self.object, &counts)).unwrap_or_default()
    }

    pub(super) fn run(&self, stimulus: &Stimulus) -> Result<One, Error> {
        let context = context_of(self.program, stimulus);
        match &self.loaded {
            Loaded::Vm(vm, engine) => {
                let vm_input =
                    kiln_vm::Input { packet: &stimulus.packet, context: context.as_deref(), repeat: stimulus.repeat };
                let result = vm.run(&self.program.name, &vm_input, *engine)?;
                Ok(One {
                    value: result.value as u32,
                    packet: result.packet,
                    context: result.context,
                    duration_ns: result.duration_ns,
                    // Short code is compiled without a count.
                    instructions: Some(result.instructions).filter(|count| *count > 0),
                    printed: result.output.trace.lines().map(Shown::from).collect(),
                })
            }
            Loaded::Kernel(loaded) => {
                let any_form =
                    matches!(self.program.program_type, Some(ProgramType::RawTracepoint | ProgramType::Syscall));
                let output = match context {
                    Some(context) if any_form && stimulus.packet.is_empty() && stimulus.repeat <= 1 => {
                        let ran = loaded.prog.test_run_context(&context);
                        ran.map(|(value, context)| kiln_linux::TestOutput {
                            value,
                            packet: Vec::new(),
                            context,
                            duration_ns: 0,
                        })
                    }
                    context => loaded.prog.test_run(&kiln_linux::TestInput {
                        packet: stimulus.packet.clone(),
                        context: context.unwrap_or_default(),
                        repeat: stimulus.repeat,
                    }),
                };
                let output = output.map_err(|error| test_run_error(self.program, error))?;
                Ok(One {
                    value: output.value,
                    packet: output.packet,
                    context: output.context,
                    duration_ns: output.duration_ns.into(),
                    instructions: None,
                    printed: Vec::new(),
                })
            }
        }
    }

    /// What a program that only returns takes in this place: the median of some runs.
    pub(super) fn around_ns(&self, stimulus: &Stimulus) -> Option<f64> {
        let (object, empty) = empty::like(self.program);
        let context = context_of(self.program, stimulus);
        let repeat = stimulus.repeat.min(EMPTY_REPEAT);
        let times: Option<Vec<f64>> = match &self.loaded {
            Loaded::Vm(_, engine) => {
                let options = kiln_vm::Options { perf: PerfFiles::default(), ..stimulus.vm_options() };
                let vm = Vm::open(&object, &empty.name, options).ok()?;
                if let Some(Code::Native(setting)) = self.code {
                    vm.load_native(&empty.name, &crate::clang::toolchain().ok()?, setting).ok()?;
                }
                let input = kiln_vm::Input { packet: &stimulus.packet, context: context.as_deref(), repeat };
                let run = |_| Some(vm.run(&empty.name, &input, *engine).ok()?.duration_ns);
                (0..EMPTY_SAMPLES).map(run).collect()
            }
            Loaded::Kernel(_) => {
                let image = kiln_linux::load_image(&object, &empty).ok()?;
                let input = kiln_linux::TestInput {
                    packet: stimulus.packet.clone(),
                    context: context.unwrap_or_default(),
                    repeat,
                };
                let run = |_| Some(image.prog.test_run(&input).ok()?.duration_ns.into());
                (0..EMPTY_SAMPLES).map(run).collect()
            }
        };
        Some(Timing::of(times?)?.median_ns)
    }

    /// What its maps hold. Maps of the kernel that cannot be walked are left out.
    pub(super) fn maps(&self, wanted: &Maps) -> Result<Vec<MapState>, Error> {
        let types = feed::types_of(&self.object);
        let mut names = match &self.loaded {
            Loaded::Vm(vm, _) => vm.map_names(),
            Loaded::Kernel(loaded) => loaded.object.map_names(),
        };
        names.sort();
        if let Some(unknown) = wanted.names.iter().find(|name| !names.iter().any(|own| kernel::same_map(name, own))) {
            let hint = kiln_inspect::input::meant(unknown, names.iter().map(String::as_str));
            return Err(Error::InvalidInput(format!("the program has no map {unknown}{hint}")));
        }
        names.retain(|name| wanted.names.is_empty() || wanted.names.iter().any(|own| kernel::same_map(own, name)));
        let state = |name: &String| {
            let (entries, count, zeros) = self.walk(name, wanted.entries)?;
            let map = self.object.maps.iter().find(|map| kernel::same_map(&map.name, name));
            let typed = |map: &kiln_program::Map| -> Vec<(Shown, Shown)> {
                let text = |id: u32, bytes: &[u8]| Shown::from(typed::print(types.as_ref(), id, bytes).as_str());
                // The values of a per-CPU map follow one another, each from a multiple of eight bytes.
                let copies = |value: &[u8]| {
                    let values = value.chunks((map.value_size as usize).next_multiple_of(8).max(1));
                    let texts: Vec<_> = values.map(|value| text(map.value_btf, value).to_string()).collect();
                    Shown::from(format!("[{}]", texts.join(", ")).as_str())
                };
                let value_text = |value: &[u8]| match map.map_type.rules().per_cpu {
                    true => copies(value),
                    false => text(map.value_btf, value),
                };
                entries.iter().map(|(key, value)| (text(map.key_btf, key), value_text(value))).collect()
            };
            let known = |map: &&kiln_program::Map| types.is_some() && map.value_btf != 0;
            Some(MapState {
                name: name.as_str().into(),
                count,
                zeros,
                typed: map.filter(known).map(typed).unwrap_or_default(),
                entries: entries.iter().map(|(key, value)| (hex(key).into(), hex(value).into())).collect(),
            })
        };
        Ok(names.iter().filter_map(state).collect())
    }

    fn walk(&self, name: &str, limit: usize) -> Option<(kiln_vm::Entries, usize, usize)> {
        match &self.loaded {
            Loaded::Vm(vm, _) => {
                let walked = vm.map(name).and_then(|map| vm.walk(map, limit)).ok()?;
                Some((walked.entries, walked.count, walked.zeros))
            }
            Loaded::Kernel(loaded) => {
                let walked = loaded.object.map(name).ok()?.walk(limit).ok()?;
                Some((walked.entries, walked.count, walked.zeros))
            }
        }
    }
}

/// What a VM or a kernel would answer with less: `EINVAL`, or nothing.
pub(super) fn check_input(program: &Program, stimulus: &Stimulus) -> Result<(), Error> {
    let Some(program_type) = program.program_type else {
        return Err(Error::Unsupported(kiln_inspect::check::no_type(program)));
    };
    let bytes = stimulus.packet.len();
    if kernel::takes_packet(program_type) {
        if bytes < MIN_PACKET_BYTES {
            return Err(Error::InvalidInput(format!(
                "the packet has {bytes} bytes; {MIN_PACKET_BYTES} (an Ethernet header) or more are needed, \
                 see --packet and --packet-file"
            )));
        }
    } else if bytes > 0 {
        return Err(Error::InvalidInput(format!("{} programs take no packet", program_type.name())));
    }
    Ok(())
}

/// `ENOTSUPP`, which the kernel keeps from the C library's list.
const ENOTSUPP: i32 = 524;

fn test_run_error(program: &Program, error: kiln_linux::Error) -> Error {
    let what = program.program_type.map_or("such", |program_type| program_type.name());
    match error.errno() {
        Some(ENOTSUPP) => {
            Error::Unsupported(format!("the kernel cannot test-run {what} programs; the embedded VM can (--in jit)"))
        }
        _ => error.into(),
    }
}
