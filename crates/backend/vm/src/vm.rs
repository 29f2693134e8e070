//! A VM: one object's maps and programs, and the runs on them.
//!
//! ```text
//!   Vm ----- maps, programs            shared by all threads, as in the kernel
//!     \---- CPU 0: stack, packet      one run at a time on each CPU; who comes second waits
//!      \--- CPU 1: stack, packet
//! ```

use std::sync::Arc;

use kiln_platform::MapType;
use kiln_program::btf::Btf;
use kiln_program::interpret::Outcome;
use kiln_program::{InsnId, Interpreter, MapContents, MapId, MapSlot, Object, Program, Trap};

use crate::arena::Heaps;
use crate::budget::Spending;
use crate::cpu::{Cpu, Shared, Slot};
use crate::errno::Errno;
use crate::exec;
use crate::grace::Grace;
use crate::helper::socket;
use crate::interface::{Engine, Error, Input, Lacking, Options, RunResult};
use crate::interpreter::View;
use crate::loaded::Loaded;
use crate::locks;
use crate::map::{CreateError, Definition, Making, Map, Storage, UpdateFlag};
use crate::memory::{Memory, Places};
use crate::observe::Observed;
use crate::own::OwnHelper;
use crate::own_operations;
use crate::packet::Packet;
use crate::state::{Entry, Held, Output, State};
use crate::symbols::Symbols;

/// A VM. Threads can share it: programs run in parallel on its CPUs, while user space uses its maps.
pub struct Vm {
    pub(crate) object: Object,
    pub(crate) options: Options,
    pub(crate) symbols: Symbols,
    pub(crate) shared: Shared,
    /// What each CPU has, once a program has run there.
    pub(crate) cpus: Box<[Slot]>,
    pub(crate) programs: Vec<Loaded>,
    pub(crate) places: Places,
}

impl Vm {
    /// Creates the object's maps and fills them. CO-RE relocations must have been resolved.
    ///
    /// # Errors
    /// An object that is not well formed, a map the VM lacks or that is too large; a native operation that is wrong; memory.
    pub fn new(object: &Object, options: Options) -> Result<Vm, Error> {
        Vm::with(object.clone(), options, Lacking::Refused)
    }

    pub(crate) fn with(object: Object, options: Options, lacking: Lacking) -> Result<Vm, Error> {
        own_operations::check(&options.operations)?;
        Vm::with_any_operations(object, options, lacking)
    }

    /// As [`Vm::with`], but native operations are not tried.
    pub(crate) fn with_any_operations(object: Object, options: Options, lacking: Lacking) -> Result<Vm, Error> {
        kiln_program::validate(&object)?;
        options.surroundings.check().map_err(Error::Surroundings)?;
        OwnHelper::check(&options.own_helpers).map_err(Error::OwnHelpers)?;
        let cpus = options.surroundings.cpus;
        let mut places = options.place.map_or_else(Places::default, |place| Places::at(place, 0));
        let grace = Arc::new(Grace::new(cpus));
        let types = object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok());
        let mut maps = Vec::with_capacity(object.maps.len());
        let arenas = object.maps.iter().filter(|map| map.map_type == MapType::Arena);
        let mut heaps = Heaps::new(arenas.map(|map| map.max_entries));
        for map in &object.maps {
            let definition = Definition { locks: locks::of(types.as_ref(), map), ..Definition::of(map, cpus) };
            let (places, heaps) = (&mut places, &mut heaps);
            let mut making = Making { places, cpus, limit: options.map_bytes, grace: &grace, heaps };
            let created = match (Map::new(definition.clone(), &mut making), lacking) {
                (Err(error), Lacking::Empty) if !matches!(error, CreateError::Os { .. }) => Map::absent(definition),
                (created, _) => created?,
            };
            maps.push(Arc::new(created));
        }
        let symbols = Symbols::new(&object, &maps, options.own_helpers.clone().into());
        let entries = vec![Entry::default(); object.functions.len()].into();
        let mut shared = Shared { maps: Arc::new([]), windows: Arc::default(), entries, grace };
        shared.set_maps(maps);
        let vm = Vm {
            object,
            options,
            symbols,
            shared,
            cpus: (0..cpus).map(|_| Slot::default()).collect(),
            programs: Vec::new(),
            places,
        };
        vm.fill_maps(lacking)?;
        Ok(vm)
    }

    pub(crate) fn maps(&self) -> &[Arc<Map>] {
        &self.shared.maps
    }

    /// Waits until a CPU is free, and reserves it.
    #[inline]
    pub(crate) fn occupy(&self, cpu: u32) -> Result<Cpu<'_>, Error> {
        let slot = self.cpus.get(cpu as usize).ok_or_else(|| Error::Missing { what: format!("CPU {cpu}") })?;
        let mut state = slot.reserve().ok_or(Error::Occupied { cpu })?;
        if state.is_empty() {
            state.fill(self.new_cpu(cpu)?);
        }
        Ok(state)
    }

    #[cold]
    fn new_cpu(&self, cpu: u32) -> Result<Box<State>, Error> {
        let mut surroundings = self.options.surroundings.clone();
        let place = self.options.place.filter(|_| surroundings.cpu == cpu);
        // CPUs have random numbers of their own.
        surroundings.random ^= u64::from(surroundings.cpu ^ cpu) << 32;
        surroundings.cpu = cpu;
        let mut memory = place.map_or_else(Memory::new, |place| Memory::at(Places::at(place, 1)));
        let packet = Packet::new(&mut memory)?;
        let sockets = socket::place(&mut memory, &surroundings.sockets)?;
        let mut state = Box::new(State {
            runtime: kiln_jit::Runtime::new(self.options.budget),
            spending: Spending::default(),
            memory,
            maps: Arc::new([]),
            packet,
            surroundings,
            output: Output::default(),
            running: None,
            tail_calls: 0,
            callbacks: Vec::new(),
            fault: None,
            entries: Arc::new([]),
            stack: None,
            grace: None,
            local_storage: Box::default(),
            held: Held::default(),
            thrown: None,
            sockets,
            own_helpers: self.symbols.own_helpers.iter().map(|helper| helper.function.clone()).collect(),
        });
        self.shared.give(&mut state);
        Ok(state)
    }

    /// Updates the maps and programs of all CPUs.
    pub(crate) fn publish(&mut self) {
        for cpu in &mut self.cpus {
            if let Some(state) = cpu.state_mut() {
                self.shared.give(state);
            }
        }
    }

    /// The CPU that runs programs, and what else there is, for somebody who has the VM alone.
    ///
    /// # Errors
    /// Memory.
    pub(crate) fn parts(&mut self) -> Result<(&mut State, &Object, &Symbols, &Options), Error> {
        let number = self.options.surroundings.cpu;
        drop(self.occupy(number)?);
        let state = self.cpus[number as usize].state_mut().as_deref_mut();
        Ok((state.expect("it was just occupied"), &self.object, &self.symbols, &self.options))
    }

    fn fill_maps(&self, lacking: Lacking) -> Result<(), Error> {
        for (index, map) in self.object.maps.iter().enumerate() {
            let id = MapId(index as u32);
            match map.contents.clone() {
                // Its variables are at the address of one processor's value.
                _ if map.is_section() && map.map_type.rules().per_cpu => {
                    return Err(Error::Missing { what: format!("the per-CPU variables of {} in the VM", map.name) });
                }
                MapContents::Empty | MapContents::Kconfig(_) | MapContents::StructOps(_) => {}
                MapContents::Data(bytes) | MapContents::ReadOnly(bytes) => fill(&self.shared.maps[index], &bytes),
                MapContents::Slots(slots) => {
                    for (at, slot) in slots {
                        let set = match slot {
                            MapSlot::Function(function) => self.shared.maps[index].set_program(at, function),
                            MapSlot::Map(inner) => {
                                let suits = self.suits_template(id, inner);
                                let set =
                                    || self.shared.maps[index].set_map(&at.to_ne_bytes(), inner.0, UpdateFlag::Any);
                                suits.and_then(|()| set())
                            }
                        };
                        set.map_err(|errno| Error::Operation { map: map.name.clone(), errno })?;
                    }
                }
            }
        }
        crate::jump_tables::fill(&self.object, |index| &self.shared.maps[index])
            .map_err(|(map, errno)| Error::Operation { map, errno })?;
        self.fill_kconfig(lacking)?;
        for (map, definition) in self.shared.maps.iter().zip(&self.object.maps) {
            if definition.is_constant() {
                map.freeze();
            }
        }
        Ok(())
    }

    /// Whether a map may be put into a map of maps.
    pub(crate) fn suits_template(&self, outer: MapId, inner: MapId) -> Result<(), Errno> {
        let template = self.object.maps.get(outer.index()).and_then(|map| map.inner.as_deref());
        let template = template.ok_or(Errno::EINVAL)?;
        let types = self.object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok());
        let locks = locks::of(types.as_ref(), template);
        let template = Definition { locks, ..Definition::of(template, self.options.surroundings.cpus) };
        let inner = self.shared.maps.get(inner.index()).ok_or(Errno::EBADF)?;
        if template.may_be_replaced_by(&inner.definition) { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Fills in the kernel configuration values that the VM knows.
    fn fill_kconfig(&self, lacking: Lacking) -> Result<(), Error> {
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
            if let Some(Storage::Array(values)) = self.shared.maps.get(map.index()).map(|map| map.storage()) {
                let mut value = values.read_user(0, false);
                if let Some(target) = value.get_mut(offset as usize..offset as usize + known.len()) {
                    target.copy_from_slice(known);
                    values.write(0, 0, &value);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn find(&self, name: &str) -> Result<Program, Error> {
        let missing = || Error::Missing { what: format!("program {name}") };
        self.object.program(name).cloned().ok_or_else(missing)
    }

    pub(crate) fn loaded(&self, name: &str) -> Result<usize, Error> {
        let found = self.programs.iter().position(|loaded| loaded.name == name);
        found.ok_or_else(|| Error::Missing { what: format!("loaded program {name}") })
    }

    /// Runs a loaded program on [`crate::Surroundings::cpu`].
    ///
    /// # Errors
    /// [`Error::Input`] for an input the program type does not take, [`Error::Stopped`] when the budget is spent.
    pub fn run(&self, name: &str, input: &Input<'_>, engine: Engine) -> Result<RunResult, Error> {
        self.run_on(self.options.surroundings.cpu, name, input, engine)
    }

    /// Runs a loaded program on a CPU. Threads run programs at once on different CPUs; on one CPU, the second waits until
    /// the first has done.
    ///
    /// # Errors
    /// As [`Vm::run`]; [`Error::Missing`] for a CPU that there is not.
    pub fn run_on(&self, cpu: u32, name: &str, input: &Input<'_>, engine: Engine) -> Result<RunResult, Error> {
        self.run_watched(cpu, name, input, |state, loaded, repeat| match engine {
            Engine::Interpreter => self.interpret(state, loaded, repeat, None),
            Engine::Jit => self.execute(state, loaded, loaded.jit()?, state.packet.context_address(), repeat),
            Engine::Native => self.execute(state, loaded, loaded.native()?, state.packet.context_address(), repeat),
        })
    }

    /// Runs a loaded program in the interpreter, and returns what it executed.
    ///
    /// # Errors
    /// As [`Vm::run`].
    pub fn observe(&self, name: &str, input: &Input<'_>) -> Result<(RunResult, Observed), Error> {
        let mut observed = Observed::default();
        let ran = self.run_watched(self.options.surroundings.cpu, name, input, |state, loaded, repeat| {
            self.interpret(state, loaded, repeat, Some(&mut observed))
        })?;
        Ok((ran, observed))
    }

    fn run_watched(
        &self,
        cpu: u32,
        name: &str,
        input: &Input<'_>,
        engine: impl FnOnce(&mut State, &Loaded, u32) -> Result<Result<(u64, u64), Trap>, Error>,
    ) -> Result<RunResult, Error> {
        let loaded = &self.programs[self.loaded(name)?];
        let state = &mut *self.occupy(cpu)?;
        loaded.prepare_run(state, input)?;
        let repeat = input.repeat.max(1);
        let begin = processor_time_ns();
        let ran = engine(state, loaded, repeat)?;
        let elapsed = processor_time_ns().saturating_sub(begin);
        let (value, instructions) = ran.map_err(|trap| Error::Stopped { program: name.to_owned(), trap })?;
        Ok(RunResult {
            value,
            packet: state.packet.output(&state.memory),
            context: state.packet.context_output(&state.memory),
            instructions,
            duration_ns: elapsed as f64 / f64::from(repeat),
            output: std::mem::take(&mut state.output),
        })
    }

    fn interpret(
        &self,
        state: &mut State,
        loaded: &Loaded,
        repeat: u32,
        mut observed: Option<&mut Observed>,
    ) -> Result<Result<(u64, u64), Trap>, Error> {
        state.stack()?;
        let interpreter = Interpreter::new(&self.object);
        let (mut value, mut instructions) = (0, 0);
        for _ in 0..repeat {
            state.begin(self.options.budget, self.options.quantum);
            let context = state.packet.context_address();
            let mut view = View {
                state,
                symbols: &self.symbols,
                stack_fill: self.options.stack_fill,
                observed: observed.as_deref_mut(),
                arena_access: None,
                executed: 0,
            };
            let mut outcome = interpreter.run(loaded.entry, context, &mut view, self.options.budget);
            if let Some(cookie) = view.state.catch() {
                let (used, handler) = (view.executed, loaded.code_options.handler);
                let left = self.options.budget.saturating_sub(used);
                let caught = |entry| interpreter.run(entry, cookie, &mut view, left);
                outcome = handler.map_or(Ok(Outcome { value: cookie, instructions: 0 }), caught);
                outcome = outcome.map(|outcome| Outcome { instructions: outcome.instructions + used, ..outcome });
            }
            state.end();
            match outcome {
                Ok(outcome) => (value, instructions) = (outcome.value, instructions + outcome.instructions),
                Err(trap) => return Ok(Err(trap)),
            }
        }
        Ok(Ok((value, instructions)))
    }

    #[inline]
    pub(crate) fn execute(
        &self,
        state: &mut State,
        loaded: &Loaded,
        code: &exec::Program,
        context: u64,
        repeat: u32,
    ) -> Result<Result<(u64, u64), Trap>, Error> {
        let (budget, quantum) = (self.options.budget, self.options.quantum);
        state.memory.set_native_stack(crate::trampoline::stack_pointer());
        let (mut value, mut instructions) = (0, 0);
        let mut trap = None;
        for _ in 0..repeat {
            state.begin(budget, quantum);
            // SAFETY: `prepare` or `load_native` compiled a program of `self.object` that the verifier accepted (or whose
            // caller vouches for it), with this VM's symbols; the context is the one of its type, or memory of the caller's that is
            // as long as the program reaches, and the state is what helpers take.
            value = unsafe { code.call(context, state) };
            if let Some(cookie) = state.catch() {
                // SAFETY: `prepare` compiled the function that the verifier accepted for this; its argument is a number.
                value = loaded.handler.as_ref().map_or(cookie, |handler| unsafe { handler.call(cookie, state) });
            }
            state.end();
            if state.runtime.stopped() {
                trap = Some(self.trap(state));
                break;
            }
            instructions += state.spending.given().saturating_sub(state.runtime.budget as u64);
        }
        state.memory.set_native_stack(0);
        Ok(trap.map_or(Ok((value, instructions)), Err))
    }

    /// Why compiled code stopped.
    fn trap(&self, state: &mut State) -> Trap {
        match state.fault.take() {
            Some(fault) => Trap::Fault { insn: InsnId(u32::MAX), fault },
            None => Trap::Budget { budget: self.options.budget },
        }
    }

    /// Memory that was written although no program may write it: bytes between and after values, outside the packet,
    /// constants. For tests; between two runs.
    #[doc(hidden)]
    pub fn written_outside(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (at, map) in self.shared.maps.iter().enumerate() {
            let contents = self.object.maps.get(at).map(|map| &map.contents);
            let constant = match (contents, map.storage()) {
                (Some(MapContents::ReadOnly(bytes)), Storage::Array(values)) => {
                    values.read_user(0, false).starts_with(bytes)
                }
                _ => true,
            };
            if !constant || !map.gaps_are_clean() {
                found.push(format!("map {}", map.definition.name));
            }
        }
        for (at, cpu) in self.cpus.iter().enumerate() {
            let dirty = |cpu: Cpu<'_>| !cpu.is_empty() && !cpu.packet.outside_is_clean(&cpu.memory);
            if cpu.reserve().is_some_and(dirty) {
                found.push(format!("the packet or the context on CPU {at}"));
            }
        }
        found
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
}

/// The time this thread has run.
fn processor_time_ns() -> u64 {
    crate::clock::now_ns(crate::clock::Timer::Processor).unwrap_or(0)
}

fn fill(map: &Map, bytes: &[u8]) {
    match map.storage() {
        Storage::Array(values) => values.write(0, 0, bytes),
        Storage::Arena(arena) => arena.fill(bytes),
        _ => {}
    }
}
