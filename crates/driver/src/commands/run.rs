//! `kiln run`: one program on one input.

use kiln_platform::ProgramType;
use kiln_program::{Object, Program};
use kiln_sandbox::supply::Memory;
use kiln_vm::{Engine, Vm};
use serde::Serialize;

use crate::commands::heap::{self, HeapState, KernelHeap, VmHeap};
use crate::commands::packets::MIN_PACKET_BYTES;
use crate::error::Error;
use crate::input::Input;
use crate::kernel;
use crate::show::shown::Shown;

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The embedded VM.
    Vm(Engine),
    /// The running kernel.
    Kernel,
}

/// What a program runs on.
#[derive(Clone, Debug, Default)]
pub struct Stimulus {
    /// Packet bytes, from the Ethernet header; empty for programs without a packet.
    pub packet: Vec<u8>,
    /// The context, where given.
    pub context: Option<Vec<u8>>,
    /// How often; 0 is once.
    pub repeat: u32,
    /// Instructions one run may take in the VM.
    pub insn_budget: u64,
}

/// What a run gave.
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
    /// Nanoseconds a run.
    pub duration_ns: f64,
    /// Instructions of all runs, where the place counts them.
    pub instructions: Option<u64>,
    /// What the program printed.
    pub printed: Vec<Shown>,
    /// Map entries afterwards: name, then key and value in hexadecimal.
    pub maps: Vec<MapState>,
    /// What the allocators of the object's heaps have given out.
    pub heaps: Vec<HeapState>,
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
    /// Keys and values, in hexadecimal.
    pub entries: Vec<(Shown, Shown)>,
}

fn as_hex<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex(bytes))
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes from hexadecimal; blanks and colons between bytes are skipped.
///
/// # Errors
/// [`Error::InvalidInput`] with the place of what is not a hexadecimal byte.
pub fn from_hex(text: &str) -> Result<Vec<u8>, Error> {
    let digits: Vec<u32> = text
        .char_indices()
        .filter(|(_, c)| !c.is_whitespace() && *c != ':')
        .map(|(at, c)| {
            c.to_digit(16)
                .ok_or_else(|| Error::InvalidInput(format!("character {at} of the packet, {c:?}, is no digit")))
        })
        .collect::<Result<_, _>>()?;
    if digits.len() % 2 != 0 {
        return Err(Error::InvalidInput("the packet ends within a byte".to_owned()));
    }
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

/// Runs one program.
///
/// # Errors
/// [`Error::Rejected`] when the verifier does, [`Error::Limit`] when the budget is spent, [`Error::Unsupported`] for
/// what the VM or the machine lacks, [`Error::InvalidInput`] for an input that the program type does not take.
pub fn run(input: &Input, program: &Program, stimulus: &Stimulus, place: Place) -> Result<Ran, Error> {
    let action = |value: u32| {
        program.program_type.and_then(|program_type| kiln_platform::action_name(program_type, value as i32))
    };
    check_input(program, stimulus)?;
    let context = context_of(program, stimulus);
    let socket_buffer =
        |context: &[u8]| if gives_socket_buffer(program) { SocketBufferFields::of(context) } else { None };
    match place {
        Place::Vm(engine) => {
            let vm = load_vm(input, program, stimulus.insn_budget)?;
            let open = |name: &str| {
                let found = vm.map(name).and_then(|map| vm.heap(map)).ok()?;
                Some(Box::new(VmHeap(found)) as Box<dyn Memory>)
            };
            heap::supply_all(&input.object, &open)?;
            let vm_input =
                kiln_vm::Input { packet: &stimulus.packet, context: context.as_deref(), repeat: stimulus.repeat };
            let result = vm.run(&program.name, &vm_input, engine).map_err(vm_error)?;
            let value = result.value as u32;
            let entries = |entries: &kiln_vm::Entries| {
                entries.iter().map(|(key, value)| (hex(key).into(), hex(value).into())).collect()
            };
            Ok(Ran {
                value,
                action: action(value),
                socket_buffer: socket_buffer(&result.context),
                packet: result.packet,
                duration_ns: result.duration_ns,
                // Short code is compiled without a count.
                instructions: Some(result.instructions).filter(|count| *count > 0),
                printed: result.output.trace.lines().map(Shown::from).collect(),
                maps: vm
                    .snapshot()
                    .iter()
                    .map(|(name, state)| MapState { name: name.as_str().into(), entries: entries(state) })
                    .collect(),
                heaps: heap::states(&input.object, &open),
            })
        }
        Place::Kernel => {
            crate::require_kernel()?;
            let loaded = kernel::load_input(input, program)?;
            let open = |name: &str| Some(Box::new(KernelHeap(loaded.object.heap(name).ok()?)) as Box<dyn Memory>);
            heap::supply_all(&input.object, &open)?;
            let output = loaded.prog.test_run(&kiln_linux::TestInput {
                packet: stimulus.packet.clone(),
                context: context.unwrap_or_default(),
                repeat: stimulus.repeat,
            });
            let output = output.map_err(|error| test_run_error(program, error))?;
            let maps = loaded.map_state().into_iter().map(|(name, entries)| MapState {
                name: name.into(),
                entries: entries.iter().map(|(key, value)| (hex(key).into(), hex(value).into())).collect(),
            });
            Ok(Ran {
                value: output.value,
                action: action(output.value),
                socket_buffer: socket_buffer(&output.context),
                packet: output.packet,
                duration_ns: output.duration_ns.into(),
                instructions: None,
                printed: Vec::new(),
                maps: maps.collect(),
                heaps: heap::states(&input.object, &open),
            })
        }
    }
}

/// What a VM or a kernel would answer with less: `EINVAL`, or nothing.
fn check_input(program: &Program, stimulus: &Stimulus) -> Result<(), Error> {
    let Some(program_type) = program.program_type else {
        return Err(Error::Unsupported(crate::commands::check::no_type(program)));
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

/// A VM with one program loaded, verified.
///
/// # Errors
/// As [`run`].
pub fn load_vm(input: &Input, program: &Program, insn_budget: u64) -> Result<Vm, Error> {
    let options = kiln_vm::Options { budget: insn_budget, ..Default::default() };
    new_vm(&input.object, program, options)
}

/// The object with entries for maps that leave their number to the loader: the same as in the kernel, where the map's
/// type allows them, a page for ring buffers, and none for what has no number of entries (storage of sockets and tasks).
pub fn with_sized_maps(object: &Object) -> Object {
    const PAGE_BYTES: u32 = 4096;
    let mut object = object.clone();
    for map in object.maps.iter_mut().filter(|map| map.max_entries == 0) {
        let rule = map.map_type.rules().entries;
        let sizes = [kernel::LOAD_TIME_ENTRIES, PAGE_BYTES];
        map.max_entries = sizes.into_iter().find(|size| rule.allows(*size)).unwrap_or(0);
    }
    object
}

/// A VM for an object with one program loaded, verified, and with the programs that its prog arrays hold. Maps without a
/// size get one ([`with_sized_maps`]).
///
/// # Errors
/// As [`run`], also for a program that a prog array holds; [`Error::Rejected`] where it is of another type.
pub fn new_vm(object: &Object, program: &Program, options: kiln_vm::Options) -> Result<Vm, Error> {
    let mut object = with_sized_maps(object);
    if object.operations.is_empty() {
        kiln_idiom::annotate(&mut object, &options.operations);
    }
    let mut vm = Vm::new(&object, options).map_err(vm_error)?;
    for needed in kernel::needed_programs(&object, program) {
        if needed.program_type != program.program_type {
            let types = [needed, program].map(|one| one.program_type.map_or("no type", |known| known.name()));
            return Err(Error::Rejected(format!(
                "{} ({}) and {} ({}) use one prog array: a tail call cannot lead to a program of another type",
                needed.name, types[0], program.name, types[1]
            )));
        }
        vm.load(&needed.name).map_err(vm_error)?;
    }
    Ok(vm)
}

/// Sorts the VM's errors into the one taxonomy.
pub fn vm_error(error: kiln_vm::Error) -> Error {
    use kiln_program::Trap;
    use kiln_vm::map::CreateError;
    match error {
        kiln_vm::Error::Rejected { program, source } => match source.downcast_ref::<kiln_verifier::Error>() {
            Some(kiln_verifier::Error::Rejected(rejection)) => Error::Rejected(rejection.to_string()),
            Some(kiln_verifier::Error::Limit { .. }) => Error::Limit(format!("program {program}: {source}")),
            _ => Error::Unsupported(format!("program {program}: {source}")),
        },
        kiln_vm::Error::Stopped { trap: Trap::Budget { .. }, .. } => Error::Limit(error.to_string()),
        kiln_vm::Error::Input(_)
        | kiln_vm::Error::Missing { .. }
        | kiln_vm::Error::Invalid(_)
        | kiln_vm::Error::Surroundings(_)
        | kiln_vm::Error::Map(CreateError::Invalid { .. }) => Error::InvalidInput(error.to_string()),
        kiln_vm::Error::Map(CreateError::Limit { .. }) => Error::Limit(error.to_string()),
        kiln_vm::Error::Map(CreateError::Os { name, source }) => Error::io(&format!("memory for map {name}"), &source),
        kiln_vm::Error::Os(source) => Error::io("memory for the VM", &source),
        other => Error::Unsupported(other.to_string()),
    }
}
