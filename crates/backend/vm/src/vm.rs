//! A VM: one object's maps and programs, and the runs on them.

use std::collections::BTreeMap;

use kiln_platform::ProgramType;
use kiln_program::{FunctionId, InsnId, Interpreter, MapContents, MapId, MapSlot, Object, Program, Trap};
use kiln_verifier::Verified;

use crate::admit;
use crate::errno::Errno;
use crate::exec;
use crate::interpreter::{STACK_BYTES, View};
use crate::map::{CreateError, Definition, Entries, Map, Storage, UpdateFlag, handle};
use crate::memory::{Access, Memory, Placement, RegionId};
use crate::observe::Observed;
use crate::packet::{InputError, Packet};
use crate::state::{Entry, Output, State, Surroundings};
use crate::symbols::Symbols;

/// Bytes for the keys of callbacks, one key a nesting level.
const SCRATCH_BYTES: usize = 512 * kiln_program::interpret::MAX_FRAMES;

/// How a VM is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Instructions one run may take. The JIT counts them at loop headers and returns of subprograms only.
    pub budget: u64,
    /// Bytes of memory one map may take.
    pub map_bytes: u64,
    /// What programs see of the world.
    pub surroundings: Surroundings,
    /// What the interpreter's stack frames hold at first. Programs that the kernel trusts may read what they never
    /// wrote; the kernel leaves there what was there, the VM's compiled code zeros.
    pub stack_fill: u8,
    /// Addresses that are the same each time: those of this place, see [`Memory::at`]. `None`: any.
    pub place: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            budget: 1 << 32,
            map_bytes: 1 << 30,
            surroundings: Surroundings::default(),
            stack_fill: 0,
            place: None,
        }
    }
}

/// What becomes of maps and configuration values that the VM lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lacking {
    /// An error.
    Refused,
    /// They are there and empty: [`crate::stand_in`] knows what to do with them.
    Empty,
}

/// What runs the instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// The reference interpreter: every access checked.
    Interpreter,
    /// Machine code.
    #[default]
    Jit,
}

/// The input of a run, as of `BPF_PROG_TEST_RUN`.
#[derive(Clone, Copy, Debug)]
pub struct Input<'i> {
    /// The packet, from its Ethernet header; empty for programs without one.
    pub packet: &'i [u8],
    /// The context (`ctx_in`): `struct xdp_md` with lengths for pointers, `struct __sk_buff` with the fields a test
    /// run may set, or the raw bytes a tracing program reads.
    pub context: Option<&'i [u8]>,
    /// How often to run, on what the run before left of packet and context; 0 is 1.
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

/// Why the VM did not do what was asked.
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
    /// An input that is none for this program type.
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
    /// The operating system refused memory.
    #[error("memory: {0}")]
    Os(#[from] std::io::Error),
    /// A map operation that failed, as in the kernel.
    #[error("map {map}: {errno}")]
    Operation {
        /// The map.
        map: String,
        /// Why.
        errno: Errno,
    },
}

#[derive(Debug)]
struct Loaded {
    name: String,
    program_type: ProgramType,
    entry: FunctionId,
    compiled: Result<exec::Program, String>,
}

/// A VM.
pub struct Vm {
    pub(crate) object: Object,
    pub(crate) options: Options,
    pub(crate) state: Box<State>,
    pub(crate) symbols: Symbols,
    pub(crate) stack: RegionId,
    programs: Vec<Loaded>,
}

impl Vm {
    /// Creates the object's maps and fills them. CO-RE relocations must have been resolved.
    ///
    /// # Errors
    /// A map the VM lacks or that is too large; memory.
    pub fn new(object: &Object, options: Options) -> Result<Vm, Error> {
        Vm::with(object, options, Lacking::Refused)
    }

    pub(crate) fn with(object: &Object, options: Options, lacking: Lacking) -> Result<Vm, Error> {
        kiln_program::validate(object)?;
        options.surroundings.check().map_err(Error::Surroundings)?;
        let mut memory = options.place.map_or_else(Memory::new, Memory::at);
        let packet = Packet::new(&mut memory)?;
        let stack = memory.allocate(STACK_BYTES, Placement::Anywhere, Access::ReadWrite)?;
        let scratch = memory.allocate(SCRATCH_BYTES, Placement::Anywhere, Access::ReadWrite)?;
        let mut maps = Vec::with_capacity(object.maps.len());
        for map in &object.maps {
            let definition = Definition::of(map, options.surroundings.cpus);
            let created = Map::new(definition.clone(), &mut memory, options.surroundings.cpus, options.map_bytes);
            maps.push(match (created, lacking) {
                (Err(error), Lacking::Empty) if !matches!(error, CreateError::Os { .. }) => Map::absent(definition),
                (created, _) => created?,
            });
        }
        let symbols = Symbols::new(object, &maps, &memory);
        let scratch = memory.start(scratch);
        let state = State {
            runtime: kiln_jit::Runtime::new(options.budget),
            memory,
            maps,
            packet,
            surroundings: options.surroundings.clone(),
            output: Output::default(),
            running: None,
            tail_calls: 0,
            callbacks: Vec::new(),
            fault: None,
            entries: vec![Entry::default(); object.functions.len()],
            scratch,
        };
        let object = object.clone();
        let mut vm = Vm { object, options, state: Box::new(state), symbols, stack, programs: Vec::new() };
        vm.fill_maps(lacking)?;
        Ok(vm)
    }

    fn fill_maps(&mut self, lacking: Lacking) -> Result<(), Error> {
        for (index, map) in self.object.maps.iter().enumerate() {
            let id = MapId(index as u32);
            match map.contents.clone() {
                MapContents::Empty | MapContents::Kconfig(_) | MapContents::StructOps(_) => {}
                MapContents::Data(bytes) => fill(&mut self.state, id, &bytes),
                MapContents::ReadOnly(bytes) => {
                    fill(&mut self.state, id, &bytes);
                    let state = &mut *self.state;
                    state.maps[index].protect(&mut state.memory);
                    state.maps[index].freeze();
                }
                MapContents::Slots(slots) => {
                    for (at, slot) in slots {
                        let set = match slot {
                            MapSlot::Function(function) => self.state.maps[index].set_program(at, Some(function)),
                            MapSlot::Map(inner) => {
                                let suits = self.suits_template(id, inner);
                                suits.map_err(|errno| Error::Operation { map: map.name.clone(), errno })?;
                                let state = &mut *self.state;
                                let map = &mut state.maps[index];
                                map.set_map(&mut state.memory, &at.to_ne_bytes(), handle(inner.0), UpdateFlag::Any)
                            }
                        };
                        set.map_err(|errno| Error::Operation { map: map.name.clone(), errno })?;
                    }
                }
            }
        }
        self.fill_kconfig(lacking)?;
        for (map, definition) in self.state.maps.iter_mut().zip(&self.object.maps) {
            if matches!(definition.contents, MapContents::Kconfig(_)) {
                map.freeze();
            }
        }
        Ok(())
    }

    /// Whether a map may be put into a map of maps.
    fn suits_template(&self, outer: MapId, inner: MapId) -> Result<(), Errno> {
        let template = self.object.maps.get(outer.index()).and_then(|map| map.inner.as_deref());
        let template = Definition::of(template.ok_or(Errno::EINVAL)?, self.options.surroundings.cpus);
        let inner = self.state.maps.get(inner.index()).ok_or(Errno::EBADF)?;
        if template.may_be_replaced_by(&inner.definition) { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Fills in the kernel configuration values that the VM knows.
    fn fill_kconfig(&mut self, lacking: Lacking) -> Result<(), Error> {
        /// The kernel that the VM behaves like: 6.18.
        const VERSION: u32 = 6 << 16 | 18 << 8;
        for symbol in &self.object.externs {
            let kiln_program::ExternKind::Kconfig { map, offset } = symbol.kind else { continue };
            let known: &[u8] = match symbol.name.as_str() {
                "LINUX_KERNEL_VERSION" => &VERSION.to_ne_bytes(),
                "CONFIG_BPF" | "CONFIG_BPF_SYSCALL" | "CONFIG_NET" => b"y",
                "CONFIG_HZ" => &250u32.to_ne_bytes(),
                _ if symbol.weak || symbol.name.starts_with("LINUX_") || lacking == Lacking::Empty => continue,
                other => return Err(Error::Missing { what: format!("kernel configuration value {other} in the VM") }),
            };
            let state = &mut *self.state;
            if let Some(Storage::Array(values)) = state.maps.get(map.index()).map(Map::storage) {
                let value = values.get_mut(&mut state.memory, 0, 0);
                if let Some(target) = value.get_mut(offset as usize..offset as usize + known.len()) {
                    target.copy_from_slice(known);
                }
            }
        }
        Ok(())
    }

    /// Verifies a program, by name, checks it for what the VM lacks, and compiles it. Gives what the verifier found.
    ///
    /// # Errors
    /// [`Error::Rejected`] by the verifier, [`Error::Unsupported`] for helpers, kfuncs, program types and kernel
    /// memory that the VM lacks.
    pub fn load(&mut self, name: &str) -> Result<Verified, Error> {
        let program = self.find(name)?;
        let verified = kiln_verifier::verify(&self.object, &program, &kiln_verifier::Options::default())
            .map_err(|source| Error::Rejected { program: name.to_owned(), source: Box::new(source) })?;
        let program_type = self.program_type(&program)?;
        admit::accesses(&self.object, program.entry, program_type, &verified.facts)
            .map_err(|refusal| unsupported(name, refusal))?;
        let cleared_bytes = if verified.reads_uninitialized_stack { verified.statistics.frame_bytes } else { 0 };
        self.prepare(&program, cleared_bytes)?;
        Ok(verified)
    }

    /// Checks and compiles a program, by name, without verifying it: for tests of programs that the kernel's verifier
    /// has accepted.
    ///
    /// # Safety
    /// Another verifier accepted the program, or only [`Engine::Interpreter`] runs it. Running another program's compiled
    /// code is running foreign machine code.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for helpers, kfuncs and types the VM lacks.
    #[doc(hidden)]
    pub unsafe fn load_unverified(&mut self, name: &str) -> Result<(), Error> {
        let program = self.find(name)?;
        self.prepare(&program, kiln_verifier::facts::STACK_BYTES as u32)
    }

    fn find(&self, name: &str) -> Result<Program, Error> {
        let missing = || Error::Missing { what: format!("program {name}") };
        self.object.program(name).cloned().ok_or_else(missing)
    }

    fn program_type(&self, program: &Program) -> Result<ProgramType, Error> {
        let what = || unsupported(&program.name, (None, format!("section {}", program.section)));
        let program_type = program.program_type.ok_or_else(what)?;
        admit::program_type(program_type).map_err(|refusal| unsupported(&program.name, refusal))?;
        Ok(program_type)
    }

    fn prepare(&mut self, program: &Program, cleared_bytes: u32) -> Result<(), Error> {
        if self.programs.iter().any(|loaded| loaded.name == program.name) {
            return Ok(());
        }
        let program_type = self.program_type(program)?;
        admit::calls(&self.object, program.entry, &self.symbols)
            .map_err(|refusal| unsupported(&program.name, refusal))?;
        let compiled = self.compile(program.entry, cleared_bytes);
        let address = compiled.as_ref().map_or(0, exec::Program::address);
        self.state.entries[program.entry.index()] = Entry { loaded: true, program_type: Some(program_type), address };
        self.programs.push(Loaded { name: program.name.clone(), program_type, entry: program.entry, compiled });
        Ok(())
    }

    #[cfg(target_arch = "x86_64")]
    fn compile(&self, entry: FunctionId, cleared_bytes: u32) -> Result<exec::Program, String> {
        let options = kiln_jit::Options {
            bmi2: std::arch::is_x86_feature_detected!("bmi2"),
            movbe: std::arch::is_x86_feature_detected!("movbe"),
            cleared_bytes,
            ..kiln_jit::Options::default()
        };
        let code = kiln_jit::x86_64::compile(&self.object, entry, &self.symbols, &options);
        let code = code.map_err(|error| error.to_string())?;
        exec::Program::load(&code).map_err(|error| error.to_string())
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn compile(&self, _: FunctionId, _: u32) -> Result<exec::Program, String> {
        Err("compiled code on this machine".to_owned())
    }

    fn loaded(&self, name: &str) -> Result<usize, Error> {
        let found = self.programs.iter().position(|loaded| loaded.name == name);
        found.ok_or_else(|| Error::Missing { what: format!("loaded program {name}") })
    }

    /// Runs a loaded program.
    ///
    /// # Errors
    /// [`Error::Input`] for an input the program type does not take, [`Error::Stopped`] when the budget is spent.
    pub fn run(&mut self, name: &str, input: &Input<'_>, engine: Engine) -> Result<RunResult, Error> {
        self.run_watched(name, input, |vm, at, repeat| match engine {
            Engine::Interpreter => Ok(vm.interpret(at, repeat, None)),
            Engine::Jit => vm.execute(at, repeat),
        })
    }

    /// Runs a loaded program in the interpreter, and says what the run met.
    ///
    /// # Errors
    /// As [`Vm::run`].
    pub fn observe(&mut self, name: &str, input: &Input<'_>) -> Result<(RunResult, Observed), Error> {
        let mut observed = Observed::default();
        let ran = self.run_watched(name, input, |vm, at, repeat| Ok(vm.interpret(at, repeat, Some(&mut observed))))?;
        Ok((ran, observed))
    }

    fn run_watched(
        &mut self,
        name: &str,
        input: &Input<'_>,
        engine: impl FnOnce(&mut Vm, usize, u32) -> Result<Result<(u64, u64), Trap>, Error>,
    ) -> Result<RunResult, Error> {
        let at = self.loaded(name)?;
        let program_type = self.programs[at].program_type;
        let state = &mut *self.state;
        state.output = Output::default();
        state.running = Some(program_type);
        state.clear_local_storage();
        state.packet.prepare(&mut state.memory, program_type, input.packet, input.context)?;
        let repeat = input.repeat.max(1);
        let begin = processor_time_ns();
        let ran = engine(self, at, repeat)?;
        let elapsed = processor_time_ns().saturating_sub(begin);
        self.state.end();
        let (value, instructions) = ran.map_err(|trap| Error::Stopped { program: name.to_owned(), trap })?;
        let state = &mut *self.state;
        Ok(RunResult {
            value,
            packet: state.packet.output(&state.memory),
            context: state.packet.context_output(&state.memory),
            instructions,
            duration_ns: elapsed as f64 / f64::from(repeat),
            output: std::mem::take(&mut state.output),
        })
    }

    fn interpret(&mut self, at: usize, repeat: u32, mut observed: Option<&mut Observed>) -> Result<(u64, u64), Trap> {
        let entry = self.programs[at].entry;
        let interpreter = Interpreter::new(&self.object);
        let (mut value, mut instructions) = (0, 0);
        for _ in 0..repeat {
            self.state.begin(self.options.budget);
            let context = self.state.packet.context_address();
            let mut view = View {
                state: &mut self.state,
                symbols: &self.symbols,
                stack: self.stack,
                stack_fill: self.options.stack_fill,
                observed: observed.as_deref_mut(),
            };
            let outcome = interpreter.run(entry, context, &mut view, self.options.budget)?;
            (value, instructions) = (outcome.value, instructions + outcome.instructions);
        }
        Ok((value, instructions))
    }

    fn execute(&mut self, at: usize, repeat: u32) -> Result<Result<(u64, u64), Trap>, Error> {
        let loaded = &self.programs[at];
        let code = loaded.compiled.as_ref().map_err(|what| Error::Unsupported {
            program: loaded.name.clone(),
            insn: None,
            what: what.clone(),
        })?;
        let budget = self.options.budget;
        self.state.memory.set_native_stack(crate::trampoline::stack_pointer());
        let context = self.state.packet.context_address();
        let (mut value, mut instructions) = (0, 0);
        let mut trap = None;
        for _ in 0..repeat {
            self.state.begin(budget);
            // SAFETY: `prepare` compiled a program of `self.object` that the verifier accepted (or whose caller vouches for
            // it), with this VM's symbols; the context is the one of its type, and the state is what helpers take.
            value = unsafe { code.call(context, &mut *self.state) };
            if self.state.runtime.stopped() {
                trap = Some(self.trap());
                break;
            }
            instructions += budget.saturating_sub(self.state.runtime.budget as u64);
        }
        self.state.memory.set_native_stack(0);
        Ok(trap.map_or(Ok((value, instructions)), Err))
    }

    /// Why compiled code stopped.
    fn trap(&mut self) -> Trap {
        match self.state.fault.take() {
            Some(fault) => Trap::Fault { insn: InsnId(u32::MAX), fault },
            None => Trap::Budget { budget: self.options.budget },
        }
    }

    /// The names of loaded programs.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().map(|loaded| loaded.name.as_str())
    }

    /// Whether a loaded program was compiled, and if not, why.
    pub fn compiled(&self, name: &str) -> Result<(), String> {
        let at = self.loaded(name).map_err(|error| error.to_string())?;
        self.programs[at].compiled.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// A map's index by name.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn map(&self, name: &str) -> Result<MapId, Error> {
        let found = self.state.maps.iter().position(|map| map.definition.name == name);
        found.map(|at| MapId(at as u32)).ok_or_else(|| Error::Missing { what: format!("map {name}") })
    }

    fn operation<T>(&self, map: MapId, result: Result<T, Errno>) -> Result<T, Error> {
        let name = || self.state.maps[map.index()].definition.name.clone();
        result.map_err(|errno| Error::Operation { map: name(), errno })
    }

    fn check_map(&self, map: MapId) -> Result<(), Error> {
        let missing = || Error::Missing { what: format!("map {}", map.0) };
        self.state.maps.get(map.index()).map(|_| ()).ok_or_else(missing)
    }

    /// What a map is.
    pub fn definition(&self, map: MapId) -> Option<&Definition> {
        self.state.maps.get(map.index()).map(|map| &map.definition)
    }

    /// The value of a key; per-CPU maps give all CPUs' values, one after the other.
    ///
    /// # Errors
    /// [`Error::Operation`] as `bpf(2)`.
    pub fn look_up(&self, map: MapId, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_map(map)?;
        self.operation(map, self.state.maps[map.index()].read(&self.state.memory, key))
    }

    /// Sets the value of a key; pushes, with an empty key.
    ///
    /// # Errors
    /// [`Error::Operation`] as `bpf(2)`.
    pub fn update(&mut self, map: MapId, key: &[u8], value: &[u8], flag: UpdateFlag) -> Result<(), Error> {
        self.check_map(map)?;
        let state = &mut *self.state;
        let target = &mut state.maps[map.index()];
        let result = target.check_not_frozen().and_then(|()| target.write(&mut state.memory, key, value, flag));
        self.operation(map, result)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// [`Error::Operation`] as `bpf(2)`.
    pub fn delete(&mut self, map: MapId, key: &[u8]) -> Result<(), Error> {
        self.check_map(map)?;
        let target = &mut self.state.maps[map.index()];
        let result = target.check_not_frozen().and_then(|()| target.remove(key));
        self.operation(map, result)
    }

    /// All entries of a map, sorted by key.
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn entries(&self, map: MapId) -> Result<Entries, Error> {
        self.check_map(map)?;
        Ok(self.state.maps[map.index()].entries(&self.state.memory))
    }

    /// All entries of all maps, by name.
    pub fn snapshot(&self) -> BTreeMap<String, Entries> {
        let entries = |map: &Map| (map.definition.name.clone(), map.entries(&self.state.memory));
        self.state.maps.iter().map(entries).collect()
    }

    /// Adds a map that is not in the object, to be put into a map of maps.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn create_map(&mut self, definition: Definition) -> Result<MapId, Error> {
        let (cpus, limit) = (self.options.surroundings.cpus, self.options.map_bytes);
        let map = Map::new(definition, &mut self.state.memory, cpus, limit)?;
        self.state.maps.push(map);
        Ok(MapId(self.state.maps.len() as u32 - 1))
    }

    /// Puts a map into a map of maps of the object.
    ///
    /// # Errors
    /// [`Error::Operation`] as `bpf(2)`: `EINVAL` for a map that is not like the template.
    pub fn set_inner_map(&mut self, outer: MapId, key: &[u8], inner: MapId) -> Result<(), Error> {
        self.check_map(outer)?;
        self.check_map(inner)?;
        self.operation(outer, self.suits_template(outer, inner))?;
        let state = &mut *self.state;
        let map = &mut state.maps[outer.index()];
        let result = map.set_map(&mut state.memory, key, handle(inner.0), UpdateFlag::Any);
        self.operation(outer, result)
    }

    /// Puts a loaded program into a prog array.
    ///
    /// # Errors
    /// [`Error::Missing`] for a program that is not loaded, [`Error::Operation`] as `bpf(2)`: `EINVAL` where a loaded
    /// program of another type uses the array.
    pub fn set_program(&mut self, map: MapId, at: u32, program: &str) -> Result<(), Error> {
        self.check_map(map)?;
        let Loaded { entry, program_type, .. } = self.programs[self.loaded(program)?];
        let others = self.programs.iter().filter(|loaded| loaded.program_type != program_type);
        if others.into_iter().any(|loaded| self.refers_to(loaded.entry, map)) {
            return self.operation(map, Err(Errno::EINVAL));
        }
        let result = self.state.maps[map.index()].set_program(at, Some(entry));
        self.operation(map, result)
    }

    fn refers_to(&self, entry: FunctionId, map: MapId) -> bool {
        let functions = self.object.reachable_functions(entry);
        let mut nodes = functions.iter().flat_map(|id| &self.object.function(*id).nodes);
        nodes.any(|node| node.reference == kiln_program::Reference::Map(map))
    }

    /// Takes the records of a ring buffer, as its consumer.
    ///
    /// # Errors
    /// [`Error::Missing`] when it is none.
    pub fn drain(&mut self, map: MapId) -> Result<Vec<Vec<u8>>, Error> {
        self.check_map(map)?;
        let state = &mut *self.state;
        match state.maps[map.index()].storage_mut() {
            Storage::Ring(ring) => Ok(ring.drain(&state.memory)),
            _ => Err(Error::Missing { what: format!("ring buffer {}", map.0) }),
        }
    }
}

/// The time this thread has run.
fn processor_time_ns() -> u64 {
    crate::clock::now_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

fn unsupported(program: &str, (insn, what): admit::Refusal) -> Error {
    Error::Unsupported { program: program.to_owned(), insn, what }
}

fn fill(state: &mut State, map: MapId, bytes: &[u8]) {
    if let Storage::Array(values) = state.maps[map.index()].storage() {
        let value = values.get_mut(&mut state.memory, 0, 0);
        let length = bytes.len().min(value.len());
        value[..length].copy_from_slice(&bytes[..length]);
    }
}
