//! One path through a program: what is known on it, where it is, what it puts aside.
//!
//! ```text
//!   Path { state, at, code }      transfer changes the state and says where the path goes next
//!     forks                       other ways that it could go: the search takes them and puts them aside
//!     noted                       what holds of the whole program because it was seen on some path
//! ```
//!
//! The rooms `transfer`, `objects` and `call` carry out instructions on a path. They know nothing of the search: neither
//! what waits to be explored nor what was kept.

mod accesses;
pub(crate) mod findings;
mod frames;
pub(crate) mod liveness;
mod noted;
pub(crate) mod precision;
mod resources;
mod sections;
mod stack;
mod trail;

use kiln_isa::{CallTarget, Insn, Reg};
use kiln_platform::{Feature, MapType};
use kiln_program::{CoreRelocation, Map, Reference};

pub(crate) use accesses::{Accesses, Written};
pub(crate) use findings::Findings;
pub(crate) use noted::{Mask, Noted};
pub(crate) use stack::Use;
pub(crate) use trail::Trail;

use crate::code::{Code, Position};
use crate::error::{About, Step, refuse, reject};
use crate::options::{Assumptions, Options};
use crate::path::precision::Origin;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Kind, Register, State};
use crate::types::Types;

/// Where a path goes after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// To this position.
    At(Position),
    /// To this position; numbers that changed since then become unknown.
    Widened(Position, Since),
    /// It ends.
    Done,
}

/// Numbers that changed since the path's state was last kept at a position, and that nothing depended on, become unknown.
/// A loop whose iterations are not counted then reaches the same state again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Since {
    /// The position.
    pub site: Position,
    /// The state kept last is skipped: it belongs to the current iteration.
    pub skip_last: bool,
    /// Numbers of the current frame that something depended on become unknown too ([`crate::Options::forgetful`]).
    pub all: bool,
}

/// Another way that a path could go.
pub(crate) struct Fork {
    pub state: State,
    pub at: Position,
    pub since: Option<Since>,
}

/// A path, with what following it needs and finds out.
pub(crate) struct Path<'a> {
    pub code: &'a Code<'a>,
    pub options: &'a Options,
    /// What is known at `at`.
    pub state: State,
    /// The current instruction.
    pub at: Position,
    /// States that the current instruction puts aside.
    pub forks: Vec<Fork>,
    /// The structures that registers point to, and the hook.
    pub types: Types,
    /// What all paths so far showed of the program.
    pub findings: Findings,
    /// The current instruction made an entry in the path's history.
    history_noted: bool,
    next_id: u32,
}

impl<'a> Path<'a> {
    pub(crate) fn new(code: &'a Code<'a>, options: &'a Options) -> Path<'a> {
        Path {
            code,
            options,
            state: State::default(),
            at: 0,
            forks: Vec::new(),
            types: Types::of_program(code, options),
            findings: Findings::new(code, options),
            history_noted: false,
            next_id: 0,
        }
    }

    /// Goes on with another state; the current one has ended.
    pub(crate) fn resume(&mut self, state: State, at: Position) {
        (self.state, self.at) = (state, at);
    }

    /// Another instruction begins.
    pub(crate) fn begin_instruction(&mut self) {
        self.history_noted = false;
    }

    /// The current instruction is carried out next.
    pub(crate) fn note_step(&mut self) {
        if let Some(trail) = &mut self.findings.trail {
            trail.step(&mut self.state, self.at);
        }
    }

    /// Leaves another way to go, which the search follows later.
    pub(crate) fn push(&mut self, state: State, at: Position) {
        self.forks.push(Fork { state, at, since: None });
    }

    /// Leaves another way to go; numbers that changed since then become unknown.
    pub(crate) fn push_widened(&mut self, state: State, at: Position, since: Since) {
        self.forks.push(Fork { state, at, since: Some(since) });
    }

    /// The instruction makes an entry in the path's history; several of them count as one.
    pub(crate) fn note_history(&mut self) {
        if !self.history_noted {
            self.history_noted = true;
            self.state.history += 1;
        }
    }

    /// The instruction spills a register to a slot of a frame or reads one back from it.
    pub(crate) fn note_slot(&mut self, frame: usize, slot: usize) {
        self.note_history();
        if let Some(trail) = &mut self.findings.trail {
            trail.access(&self.state, frame, slot);
        }
    }

    /// Returns an id that no register has.
    pub(crate) fn fresh_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns a register that must be readable.
    pub(crate) fn read(&self, reg: Reg) -> Step<Register> {
        let register = *self.state.register(reg);
        if register.kind() == Kind::Uninit {
            let message = format!("r{} is read but holds nothing", reg.number());
            return reject(Reason::UninitializedRegister, message).about(reg);
        }
        Ok(register)
    }

    /// Writes a register that may be written.
    pub(crate) fn write(&mut self, reg: Reg, value: Register) -> Step<()> {
        if reg == Reg::R10 {
            return refuse(Reason::BadInstruction, Case::FramePointer, "r10, the frame pointer, is read-only");
        }
        self.state.set(reg, value);
        Ok(())
    }

    /// Whether values that the loader may change are unknown. Asked last, so that a verification where it does not
    /// matter is known as such.
    pub(crate) fn any_load(&self) -> bool {
        self.findings.noted.depends_on_load.set(true);
        self.options.assumptions == Assumptions::AnyLoad
    }

    /// Whether the current instruction's immediate or offset may be different on another kernel.
    pub(crate) fn relocated(&self) -> bool {
        let record = self.code.op(self.at).node.core.and_then(|id| self.code.object.core.get(id.index()));
        record.is_some_and(|record| !record.is_own_type()) && self.any_load()
    }

    /// Whether the current instruction, a load, may be of another width on another kernel.
    pub(crate) fn relocates_width(&self) -> bool {
        let record = self.code.op(self.at).node.core.and_then(|id| self.code.object.core.get(id.index()));
        record.is_some_and(|record| !record.keeps_width) && self.any_load()
    }
}

impl Findings {
    /// A later decision depends on this number.
    pub(crate) fn mark_precise(&mut self, register: &Register) {
        if register.kind() == Kind::Scalar {
            self.origins.mark(register.origin);
        }
    }

    pub(crate) fn join_origins(&mut self, first: Origin, second: Origin) -> Origin {
        self.origins.join(first, second)
    }
}

impl<'a> Code<'a> {
    /// Whether a function other than the first loads from the packet as classic BPF does.
    pub(crate) fn has_packet_loads_in_functions(&self) -> bool {
        self.ops.iter().any(|op| op.function != 0 && matches!(op.node.insn, Insn::LoadPacket { .. }))
    }

    /// Whether some number of a kernel's type is still that of the object's own: it would be taken for another type.
    pub(crate) fn awaits_type_numbers(&self) -> bool {
        let object = self.object;
        let nodes = object.functions.iter().flat_map(|function| &function.nodes);
        let mut records = nodes.filter_map(|node| object.core.get(node.core?.index()));
        records.any(CoreRelocation::is_kernel_type)
    }

    /// What a poisoned instruction asked of the kernel's types and they do not have.
    pub(crate) fn missing_in_kernel(&self, at: Position) -> Option<String> {
        let node = self.op(at).node;
        let poisoned = node.insn == Insn::Call(CallTarget::Helper(CoreRelocation::POISON_HELPER));
        if poisoned { self.object.asked(node) } else { None }
    }

    /// The map a register points to or into.
    pub(crate) fn map_of(&self, register: &Register) -> Option<&'a Map> {
        let map = self.object.maps.get(register.map()? as usize)?;
        if register.inner { map.inner.as_deref() } else { Some(map) }
    }

    pub(crate) fn map_type_of(&self, register: &Register) -> Option<MapType> {
        self.map_of(register).map(|map| map.map_type)
    }

    pub(crate) fn reference(&self, at: Position) -> Reference {
        self.op(at).node.reference
    }

    /// Whether the program's license is one that the kernel takes as compatible with its own.
    pub(crate) fn is_gpl(&self) -> bool {
        self.object.has_gpl_license()
    }
}

impl Options {
    /// Whether the kernel that the program is for has this.
    pub(crate) fn kernel_has(&self, feature: Feature) -> bool {
        self.profile.has(feature)
    }

    /// Whether the kernel does not trace numbers back over packet loads that fail in a function.
    pub(crate) fn loses_numbers(&self) -> bool {
        self.kernel_has(Feature::FailedPacketLoads) && !self.kernel_has(Feature::TracedPacketLoads)
    }

    /// Whether stack bytes that were never written may not be read.
    pub(crate) fn stack_must_be_written(&self) -> bool {
        self.unprivileged || !self.kernel_has(Feature::UninitializedStackReads)
    }

    /// Returns what a register holds after its pointer became stale: an unknown number, or nothing without privilege.
    pub(crate) fn stale_pointer(&self) -> Register {
        if self.unprivileged { Register::UNINIT } else { Register::UNKNOWN }
    }
}

impl State {
    /// A call destroys R0 to R5.
    pub(crate) fn clobber(&mut self) {
        for register in &mut self.frame_mut().registers[..6] {
            *register = Register::UNINIT;
        }
    }
}
