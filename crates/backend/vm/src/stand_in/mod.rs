//! An environment for comparing two forms of a program that no engine can run: features that the VM lacks have
//! stand-ins.
//!
//! Most programs read kernel structures, call helpers that need a kernel, or run at hooks that cannot be triggered at
//! will. To compare an optimized program with its original, none of that has to be real. It only has to be *the same*
//! for both:
//!
//! ```text
//!                         seed
//!          +---------------+------------------+
//!     kernel memory    calls the VM lacks   pointers in contexts
//!     made_up          call                 context
//!          +---------------+------------------+
//!                          v
//!   original  --run--> R0, packet, context, output, maps, calls made, kernel memory written
//!   optimized --run--> the same, or the optimizer was wrong
//! ```
//!
//! Maps, packets, printing, time and the like are the VM's own. What it lacks is an uninterpreted function of the seed
//! and of what it may read, whose effects are those that its prototype allows; programs on ten thousand seeds meet null
//! pointers, failing calls and chains of objects. **The results are not those of a kernel**, so they are only used for
//! comparisons: [`crate::Vm`] refuses these programs.
//!
//! The interpreter runs them and checks every access itself, so they need not be verified for safety. They are verified
//! if possible, for another reason: an input on which a load or a call gives a value outside the verifier's facts (a
//! null where the kernel guarantees an object, a number out of range) could not occur in a kernel, and a program need
//! not handle it. For such a run, [`Runs::run`] returns [`Stray::Excluded`].

mod call;
mod context;
mod made_up;
mod strict;

use std::collections::BTreeSet;
use std::sync::Arc;

use kiln_isa::{Reg, Size};
use kiln_platform::helper_id::{
    GET_CURRENT_PID_TGID, PROBE_READ, PROBE_READ_KERNEL, PROBE_READ_KERNEL_STR, PROBE_READ_STR, PROBE_READ_USER,
    PROBE_READ_USER_STR,
};
use kiln_platform::{ArgKind, Helper, Kfunc, Lookup, ProgramType};
use kiln_program::btf::Btf;
use kiln_program::interpret::{Environment, Fault, HelperResult, Interpreter, Trap};
use kiln_program::{ExternId, ExternKind, FunctionId, InsnId, MapId, Node, Object, Reference};
use kiln_verifier::{Facts, Value};

use crate::helper::{self, How};
use crate::interface::{Error, Input, Lacking, Options};
use crate::interpreter::View;
use crate::map::{Entries, Storage, UpdateFlag, index_of_handle};
use crate::state::{Output, State};
use crate::vm::Vm;
use call::{Calls, KfuncShape, Role, Shape};
use made_up::{MadeUp, is_kernel, mix, pointer};
use strict::Strict;
pub use strict::{Compared, Step, Violation, Wrong};

/// The kernel's largest process id.
const MAX_PID: u64 = 1 << 22;
/// Rounds of loops that `may_goto` ends.
const MOST_ROUNDS: u32 = 64;

/// A VM with stand-ins for what it lacks.
pub struct World {
    vm: Vm,
    kfuncs: Vec<Option<KfuncShape>>,
    /// Where each extern is.
    externs: Vec<u64>,
    kernel_types: Option<Arc<Btf>>,
    made_up: MadeUp,
    calls: Calls,
}

/// What a run did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// R0.
    pub value: u64,
    /// The packet, or what stands for it, afterwards.
    pub packet: Vec<u8>,
    /// The context afterwards.
    pub context: Vec<u8>,
    /// What else came out.
    pub output: Output,
    /// The calls that may change anything, with what they read.
    pub calls: Vec<u8>,
    /// Addresses and bytes of kernel memory that was written.
    pub written: Vec<(u64, u8)>,
}

/// Why a run says nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stray {
    /// A kernel could not have given this program what it was given, or would not take the input.
    Excluded,
    /// The run took more instructions than allowed.
    Endless,
    /// Not even a stand-in.
    Lacks(String),
}

impl World {
    /// Creates the object's maps, those that the VM lacks empty. `kernel_types` are those that programs are verified
    /// with and that say what kfuncs take.
    ///
    /// # Errors
    /// A map that cannot be; memory.
    pub fn new(object: &Object, options: Options, kernel_types: Option<Arc<Btf>>) -> Result<World, Error> {
        let vm = Vm::with(object.clone(), options, Lacking::Empty)?;
        let kfunc = |name: &str| KfuncShape::of(name, kernel_types.as_deref()?);
        let kfuncs = object.externs.iter().map(|symbol| match symbol.kind {
            ExternKind::Kfunc => kfunc(&symbol.name),
            _ => None,
        });
        let kfuncs = kfuncs.collect();
        let address = |name: &str| pointer(name.bytes().fold(5, |all, byte| mix(&[all, byte.into()])));
        let externs = object.externs.iter().map(|symbol| address(&symbol.name)).collect();
        Ok(World { vm, kfuncs, externs, kernel_types, made_up: MadeUp::default(), calls: Calls::default() })
    }

    /// The object that it was made for.
    pub fn object(&self) -> &Object {
        &self.vm.object
    }

    /// What the verifier says of a program, for [`World::runs`]; `None` where it does not know the program.
    pub fn facts(&self, name: &str) -> Option<Facts> {
        let program = self.vm.object.program(name)?;
        let options = kiln_verifier::Options { kernel_types: self.kernel_types.clone(), ..Default::default() };
        kiln_verifier::verify(&self.vm.object, program, &options).ok().map(|verified| verified.facts)
    }

    /// Prepares runs of a program. Runs on which the facts do not hold are [`Stray::Excluded`].
    ///
    /// # Errors
    /// [`Error::Missing`] for a program that there is not, or without a type.
    pub fn runs<'w>(&'w mut self, name: &str, facts: Option<&'w Facts>) -> Result<Runs<'w>, Error> {
        let missing = || Error::Missing { what: format!("program {name} of a known type") };
        let program = self.vm.object.program(name).ok_or_else(missing)?;
        let (entry, program_type) = (program.entry, program.program_type.ok_or_else(missing)?);
        let (state, object, symbols, options) = self.vm.parts()?;
        state.running = Some(program_type);
        state.stack()?;
        let interpreter = Interpreter::new(object);
        let view =
            View { state, symbols, stack_fill: options.stack_fill, observed: None, arena_access: None, executed: 0 };
        let (made_up, calls) = (&mut self.made_up, &mut self.calls);
        let (kfuncs, externs) = (&self.kfuncs, &self.externs);
        let stage = Stage {
            view,
            made_up,
            calls,
            kfuncs,
            externs,
            object,
            program_type,
            facts,
            look: false,
            excluded: false,
            rounds: 0,
            strict: None,
        };
        Ok(Runs { interpreter, entry, stage, budget: options.budget })
    }

    /// Prepares runs in which every pointer may only reach what it was made from, for a program that may be unsafe.
    ///
    /// # Errors
    /// As [`World::runs`].
    pub fn strict_runs(&mut self, name: &str) -> Result<Runs<'_>, Error> {
        let mut runs = self.runs(name, None)?;
        runs.stage.strict = Some(Strict::default());
        Ok(runs)
    }

    /// All entries of all maps, by name.
    pub fn snapshot(&self) -> std::collections::BTreeMap<String, Entries> {
        self.vm.snapshot()
    }

    /// Sets the value of a key of a map.
    ///
    /// # Errors
    /// As [`Vm::update`].
    pub fn update(&mut self, map: &str, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let id = self.vm.map(map)?;
        self.vm.update(id, key, value, UpdateFlag::Any)
    }
}

/// Runs of one program in a world.
pub struct Runs<'w> {
    interpreter: Interpreter<'w>,
    entry: FunctionId,
    stage: Stage<'w>,
    budget: u64,
}

impl Runs<'_> {
    /// Runs the program on an input, in the world of a seed. The packet is given to any hook whose context points to
    /// one.
    ///
    /// # Errors
    /// [`Stray`].
    pub fn run(&mut self, input: &Input<'_>, seed: u64) -> Result<Seen, Stray> {
        let Runs { interpreter, entry, stage, budget } = self;
        stage.begin(input, seed, *budget)?;
        let context = stage.view.state.packet.context_address();
        let ended = interpreter.run(*entry, context, stage, *budget);
        stage.view.state.end();
        match ended {
            _ if stage.excluded => Err(Stray::Excluded),
            Ok(outcome) => Ok(stage.seen(outcome.value)),
            Err(Trap::Budget { .. }) => Err(Stray::Endless),
            Err(Trap::Fault { fault, .. }) => Err(Stray::Lacks(fault.to_string())),
            Err(trap) => Err(Stray::Lacks(trap.to_string())),
        }
    }
}

/// How a strict run ended, and what it met.
#[derive(Clone, Debug)]
pub struct Strictly {
    /// R0, or why the run says nothing.
    pub ended: Result<u64, Stray>,
    /// What went wrong first.
    pub violation: Option<Violation>,
    /// The instructions that ran.
    pub reached: BTreeSet<InsnId>,
    /// Numbers that were compared, the first different ones.
    pub compared: BTreeSet<Compared>,
    /// The last steps, in their order.
    pub steps: Vec<Step>,
    /// The number of instructions that ran.
    pub executed: u64,
}

impl Runs<'_> {
    /// Runs the program on an input, in the world of a seed, and says what goes wrong. The result has the last
    /// `most_steps` steps.
    pub fn run_strictly(&mut self, input: &Input<'_>, seed: u64, most_steps: usize) -> Strictly {
        let strict = self.stage.strict.get_or_insert_default();
        strict.most_steps = most_steps;
        strict.begin();
        let ended = self.run(input, seed).map(|seen| seen.value);
        let strict = std::mem::take(self.stage.strict.get_or_insert_default());
        let Strict { violation, reached, compared, steps, executed, .. } = strict;
        let steps = steps.into_iter().rev().collect();
        Strictly { ended, violation, reached, compared, steps, executed }
    }
}

/// Where a program runs: the VM's view, and stand-ins.
struct Stage<'w> {
    view: View<'w>,
    made_up: &'w mut MadeUp,
    calls: &'w mut Calls,
    kfuncs: &'w [Option<KfuncShape>],
    externs: &'w [u64],
    object: &'w Object,
    program_type: ProgramType,
    facts: Option<&'w Facts>,
    /// Whether something was just given to the program that the facts speak of.
    look: bool,
    excluded: bool,
    rounds: u32,
    strict: Option<Strict>,
}

/// How a helper reads memory at an address that may not be there.
struct Probe {
    /// Up to a zero byte.
    text: bool,
    /// Memory of user space, perhaps.
    user: bool,
}

fn probe_of(id: u32) -> Option<Probe> {
    let (text, user) = match id {
        PROBE_READ | PROBE_READ_USER => (false, true),
        PROBE_READ_KERNEL => (false, false),
        PROBE_READ_STR | PROBE_READ_USER_STR => (true, true),
        PROBE_READ_KERNEL_STR => (true, false),
        _ => return None,
    };
    Some(Probe { text, user })
}

fn lacks(what: impl Into<String>) -> Fault {
    Fault::Unsupported(what.into())
}

impl Stage<'_> {
    fn state(&self) -> &State {
        self.view.state
    }

    fn begin(&mut self, input: &Input<'_>, seed: u64, budget: u64) -> Result<(), Stray> {
        self.made_up.begin(seed);
        self.calls.begin();
        (self.look, self.excluded, self.rounds) = (false, false, 0);
        let state = &mut *self.view.state;
        state.output = Output::default();
        state.clear_local_storage();
        let prepared = state.packet.prepare(&mut state.memory, self.program_type, input.packet, input.context, None);
        prepared.map_err(|_| Stray::Excluded)?;
        context::fill(state, self.program_type, seed, input.packet);
        state.begin(budget, None);
        Ok(())
    }

    fn seen(&mut self, value: u64) -> Seen {
        let state = &mut *self.view.state;
        let own = state.packet.output(&state.memory);
        Seen {
            value,
            packet: if own.is_empty() { state.packet.bytes(&state.memory).to_vec() } else { own },
            context: state.packet.context_output(&state.memory),
            output: std::mem::take(&mut state.output),
            calls: self.calls.take_record(),
            written: self.made_up.written().collect(),
        }
    }

    /// What is at an address; `None` where nothing is.
    fn peek(&self, address: u64, bytes: u64) -> Option<u64> {
        let own = self.state().memory.bytes(address, bytes as usize);
        if let Some(own) = own {
            return Some(own.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)));
        }
        let there = !self.made_up.faults(address) && !self.made_up.faults(address.wrapping_add(bytes - 1));
        there.then(|| self.made_up.load(address, bytes))
    }

    /// Whether what a load from an address gives may be what the facts exclude.
    fn is_given(&self, address: u64) -> bool {
        let state = self.state();
        state.packet.context_addresses().contains(&address) || !state.memory.is_open(address, 1, false)
    }

    /// Bytes that a call writes.
    fn put(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if self.view.state.memory.write(address, bytes).is_some() {
            return Ok(());
        }
        if !is_kernel(address) {
            return Err(Fault::Memory { address, bytes: bytes.len() as u64 });
        }
        for (at, byte) in bytes.iter().enumerate() {
            self.made_up.store(address.wrapping_add(at as u64), 1, (*byte).into());
        }
        Ok(())
    }

    /// `bpf_probe_read` and its kin: memory that may not be there. User space's is anywhere.
    fn probe(&mut self, [to, bytes, from, ..]: [u64; 5], Probe { text, user }: Probe) -> Result<u64, Fault> {
        let length = u64::from(bytes as u32).min(1 << 20);
        let mut read = Vec::new();
        let mut there = true;
        for at in 0..length {
            let address = from.wrapping_add(at);
            let byte = match self.peek(address, 1) {
                None if user && !self.made_up.faults(address | 1 << 63) => {
                    Some(self.made_up.load(address | 1 << 63, 1))
                }
                found => found,
            };
            let Some(byte) = byte else {
                there = false;
                break;
            };
            let last = text && (byte == 0 || at + 1 == length);
            read.push(if last { 0 } else { byte as u8 });
            if last {
                break;
            }
        }
        if !there {
            self.put(to, &vec![0; length as usize])?;
            return Ok(crate::Errno::EFAULT.value());
        }
        self.put(to, &read)?;
        Ok(if text { read.len() as u64 } else { 0 })
    }

    /// The shape of a helper's call.
    fn helper_shape(&self, id: u32, arguments: [u64; 5]) -> Result<Shape, Fault> {
        let helper = Helper::by_id(id).ok_or_else(|| lacks(format!("helper {id}")))?;
        Ok(call::helper(self.state(), helper, helper.prototype_for(self.program_type), arguments))
    }

    /// Whether the VM itself runs a helper on these arguments.
    fn is_own(&self, id: u32, arguments: [u64; 5]) -> bool {
        let maps = &self.state().maps;
        let map = |argument: u64| index_of_handle(argument).and_then(|index| maps.get(index));
        // A map, in whichever argument, that the VM lacks, or in which it keeps numbers for sockets.
        let foreign = arguments.iter().take(2).filter_map(|argument| map(*argument)).any(|map| {
            let lookup = map.definition.map_type.rules().lookup;
            matches!(map.storage(), Storage::Absent) || matches!(lookup, Lookup::Socket | Lookup::XdpSocket)
        });
        // What a dynptr leads to may be the kernel's.
        let of_dynptr = |helper: &Helper| helper.prototype.args.iter().any(|kind| matches!(kind, ArgKind::Dynptr(_)));
        let foreign = foreign || Helper::by_id(id).is_some_and(of_dynptr);
        helper::how(id).is_some_and(|how| how != How::Refuses) && !foreign
    }

    /// A call that nobody knows: what it reads decides what it gives and writes.
    fn stand_in(&mut self, shape: &Shape, arguments: [u64; 5]) -> Result<u64, Fault> {
        let byte = |address| self.peek_or_zero(address);
        let inputs = call::inputs(shape, arguments, byte)?;
        let lot = self.calls.lot(self.made_up.seed(), shape, &inputs);
        for (at, (role, argument)) in shape.roles.iter().zip(arguments).enumerate() {
            let Role::Memory { bytes, writes: true, .. } = *role else { continue };
            if argument == 0 {
                continue;
            }
            let words =
                (0..bytes.div_ceil(8)).flat_map(|word| made_up::word(mix(&[lot, at as u64, word])).to_le_bytes());
            let filled: Vec<u8> = words.take(bytes as usize).collect();
            self.put(argument, &filled)?;
        }
        self.look = true;
        Ok(shape.gives.value(lot))
    }

    fn peek_or_zero(&self, address: u64) -> Result<u8, Fault> {
        match self.peek(address, 1) {
            Some(byte) => Ok(byte as u8),
            None if is_kernel(address) => Ok(0),
            None => Err(Fault::Memory { address, bytes: 1 }),
        }
    }
}

impl Stage<'_> {
    /// Ends a strict run in which something went wrong.
    fn go_on(&self) -> Result<(), Fault> {
        match self.strict.as_ref().and_then(|strict| strict.violation.as_ref()) {
            Some(violation) => Err(lacks(violation.text.clone())),
            None => Ok(()),
        }
    }
}

impl Environment for Stage<'_> {
    fn load(&mut self, address: u64, size: Size) -> Result<u64, Fault> {
        self.go_on()?;
        self.look |= self.is_given(address);
        // As the kernel's exception table has it: what is not there reads as 0.
        Ok(self.peek(address, size.bytes().into()).unwrap_or(0))
    }

    fn store(&mut self, address: u64, size: Size, value: u64) -> Result<(), Fault> {
        self.go_on()?;
        self.put(address, &value.to_le_bytes()[..size.bytes() as usize])
    }

    fn call_helper(&mut self, id: u32, arguments: [u64; 5]) -> Result<HelperResult, Fault> {
        self.go_on()?;
        if let Some(how) = probe_of(id) {
            let result = self.probe(arguments, how)?;
            return Ok(HelperResult::Value(result));
        }
        if self.strict.is_some() && id == GET_CURRENT_PID_TGID {
            // A process with one thread. The VM itself always has the same.
            let pid = 1 + mix(&[self.made_up.seed(), id.into()]) % MAX_PID;
            return Ok(HelperResult::Value(pid << 32 | pid));
        }
        if self.is_own(id, arguments) {
            self.look = true;
            return self.view.call_helper(id, arguments);
        }
        let shape = self.helper_shape(id, arguments)?;
        self.stand_in(&shape, arguments).map(HelperResult::Value)
    }

    fn callback_result(&mut self, value: u64) {
        self.view.callback_result(value);
    }

    fn call_kfunc(&mut self, function: ExternId, arguments: [u64; 5]) -> Result<u64, Fault> {
        let name = &self.object.externs[function.index()].name;
        // Iterators that need no kernel: what they read decides what they give.
        if ["bpf_iter_num_", "bpf_iter_bits_"].iter().any(|begin| name.starts_with(begin)) {
            return self.view.call_kfunc(function, arguments);
        }
        let shape = self.kfuncs.get(function.index()).and_then(Option::as_ref);
        let shape = shape.filter(|_| name != "bpf_throw").ok_or_else(|| lacks(format!("kfunc {name}")))?;
        let mut shape = shape.with(arguments);
        let context = self.state().packet.context_addresses();
        for (role, argument) in shape.roles.iter_mut().zip(arguments) {
            match role {
                Role::Memory { .. } if context.contains(&argument) => *role = Role::Ignored,
                // An object of the kernel's, which the call takes as it is.
                Role::Memory { .. } if is_kernel(argument) => *role = Role::Number,
                _ => {}
            }
        }
        self.stand_in(&shape, arguments)
    }

    fn map_address(&mut self, map: MapId) -> Result<u64, Fault> {
        self.view.map_address(map)
    }

    fn map_value_address(&mut self, map: MapId, offset: u32) -> Result<u64, Fault> {
        let own = self.view.map_value_address(map, offset);
        Ok(own.unwrap_or_else(|_| pointer(mix(&[6, map.0.into()])).wrapping_add(offset.into())))
    }

    fn extern_address(&mut self, symbol: ExternId) -> Result<u64, Fault> {
        match self.object.externs.get(symbol.index()).map(|symbol| symbol.kind) {
            Some(ExternKind::Kconfig { .. }) => self.view.extern_address(symbol),
            _ => self.externs.get(symbol.index()).copied().ok_or_else(|| lacks("an extern that is not there")),
        }
    }

    fn frame_pointer(&mut self, depth: usize) -> Result<u64, Fault> {
        self.view.frame_pointer(depth)
    }

    fn frame_begins(&mut self, depth: usize) {
        self.view.frame_begins(depth);
        if let Some(strict) = &mut self.strict {
            strict.frame_begins(self.view.state, depth);
        }
    }

    fn load_packet(&mut self, offset: i64, size: Size) -> Result<Option<u64>, Fault> {
        self.go_on()?;
        self.view.load_packet(offset, size)
    }

    fn loops_end(&mut self) -> bool {
        self.rounds += 1;
        self.rounds > MOST_ROUNDS
    }

    fn before(&mut self, node: &Node, depth: usize, registers: &mut [u64; Reg::COUNT]) {
        if let Some(strict) = &mut self.strict {
            let kfunc = match node.reference {
                Reference::Extern(id) => self.object.externs.get(id.index()).and_then(|own| Kfunc::by_name(&own.name)),
                _ => None,
            };
            strict.before(self.view.state, self.program_type, (node, kfunc), depth, registers);
        }
        if !std::mem::take(&mut self.look) || self.excluded {
            return;
        }
        let Some(facts) = self.facts else { return };
        let allowed = |(value, concrete): (&Value, &u64)| match value {
            Value::Scalar(scalar) => scalar.contains(*concrete),
            Value::Pointer(pointer) => pointer.nullable || *concrete != 0,
            Value::Uninit | Value::Unknown => true,
        };
        let known = facts.at(node.id);
        self.excluded = !known.is_some_and(|known| known.registers.iter().zip(registers.iter()).all(allowed));
    }
}
