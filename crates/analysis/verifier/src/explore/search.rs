//! The exploration: one path at a time, depth first, as the kernel does it.
//!
//! ```text
//!   pending: [(state, where)]        a branch that may go both ways pushes the taken side and goes on
//!   loop: enough seen here?          kept states of this position that cover the current one end the path
//!         step                       transfer and checks; a fault ends the verification
//!         end of path                take the next pending state
//! ```

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use kiln_isa::{CallTarget, Insn, Reg};
use kiln_platform::limits::{MAX_PENDING_BRANCHES, MAX_PROCESSED_INSTRUCTIONS};
use kiln_platform::{MapType, ProgramType};
use kiln_program::{Map, Reference};

use crate::call::global::{Signature, signatures, without_number};
use crate::check::profile::newer_instructions;
use crate::check::unprivileged::Mask;
use crate::code::{Code, Position};
use crate::error::{Error, Fault, Step, TIME_IS_UP, limit, reject};
use crate::explain::{kernel_words, rejection};
use crate::explore::observe::Observer;
use crate::explore::prune::Kept;
use crate::facts::record::Recorder;
use crate::objects::fields::Record;
use crate::options::{Assumptions, Options, Statistics};
use crate::path::liveness::Liveness;
use crate::path::precision::{Origin, Origins};
use crate::reason::Reason;
use crate::rejection::Rejection;
use crate::state::{Caller, Frame, Kind, Register, State};
use crate::types::Types;

/// The kind of CO-RE record (`BPF_CORE_TYPE_ID_TARGET`) that says the number of a type in the kernel's.
const TYPE_ID_TARGET: u32 = 7;

/// Bytes that kept states and the origins of their numbers may take.
pub(crate) const MAX_STATE_BYTES: usize = 512 << 20;
/// Bytes that what is recorded for facts may take.
pub(crate) const MAX_FACT_BYTES: usize = 384 << 20;
/// Processed instructions between two looks at the limits.
const BETWEEN_LIMITS: u64 = 256;

/// Where a path goes after an instruction.
pub(crate) enum Next {
    /// To this position.
    At(Position),
    /// It ends.
    Done,
}

/// One verification.
pub(crate) struct Explorer<'a> {
    pub code: &'a Code<'a>,
    pub options: &'a Options,
    pub program_type: ProgramType,
    pub state: State,
    pub at: Position,
    pub pending: Vec<(State, Position)>,
    pub origins: Origins,
    pub kept: Kept,
    pub liveness: Liveness,
    pub recorder: Option<Recorder>,
    /// Structures that registers point to.
    pub types: Types,
    /// Fields of the program's structures that are not plain memory.
    pub object_records: RefCell<HashMap<u32, Option<Arc<Record>>>>,
    /// Signatures of global functions that are verified on their own.
    pub signatures: Vec<Option<Signature>>,
    /// Those of them that were called.
    pub globals_called: Vec<usize>,
    /// Functions that were passed to something that calls them.
    pub callbacks: Vec<bool>,
    /// Those of them that run later, on a stack of their own.
    pub later_callbacks: Vec<bool>,
    /// Whether a global function is being verified, and whether it returns a value.
    pub global: Option<bool>,
    /// Functions that BTF says return no number.
    pub without_number: Vec<bool>,
    /// The kind of pointer each instruction accessed memory through.
    pub accessed: Vec<Kind>,
    pub stack_bytes: Vec<u32>,
    /// Whether some path may read stack bytes that it never wrote.
    pub reads_uninitialized_stack: bool,
    /// Which instructions the profile's kernel does not have; empty where it has them all.
    pub newer: Vec<bool>,
    /// How each instruction that moves a pointer masks it, of programs without privilege.
    pub masks: HashMap<Position, Mask>,
    /// Calls that run a callback are loops, whose turns are all explored before a state of one ends paths by what matters.
    pub strict_callbacks: bool,
    /// Masks depend on numbers, so states are compared with them all.
    pub exact_numbers: bool,
    /// The map of each tail call.
    pub tail_call_maps: HashMap<Position, u32>,
    /// Whether anything was decided by what the loader may change.
    pub depends_on_load: Cell<bool>,
    pub processed: u64,
    pub jumps: u64,
    /// The visit that last made an entry in its path's history.
    history_noted: u64,
    next_id: u32,
}

impl<'a> Explorer<'a> {
    pub(crate) fn new(code: &'a Code<'a>, options: &'a Options, program_type: ProgramType) -> Explorer<'a> {
        let btf = code.prepared.accepted_btf.clone();
        Explorer {
            code,
            options,
            program_type,
            state: State::default(),
            at: 0,
            pending: Vec::new(),
            origins: Origins::new(),
            kept: Kept::new(),
            liveness: Liveness::default(),
            recorder: (!options.skip_facts).then(|| Recorder::new(code.ops.len())),
            object_records: RefCell::default(),
            signatures: signatures(code, btf.as_deref(), options, program_type),
            without_number: without_number(code, btf.as_deref()),
            globals_called: Vec::new(),
            callbacks: vec![false; code.functions.len()],
            later_callbacks: vec![false; code.functions.len()],
            global: None,
            types: Types::new(options.kernel_types.clone(), btf),
            accessed: vec![Kind::Uninit; code.ops.len()],
            stack_bytes: vec![0; code.functions.len()],
            reads_uninitialized_stack: false,
            newer: newer_instructions(&options.profile, code),
            masks: HashMap::new(),
            exact_numbers: false,
            strict_callbacks: false,
            tail_call_maps: HashMap::new(),
            depends_on_load: Cell::new(false),
            processed: 0,
            jumps: 0,
            history_noted: 0,
            next_id: 0,
        }
    }

    /// Explores the whole program.
    pub(crate) fn run(&mut self, observer: &mut impl Observer) -> Result<(), Error> {
        let instance = self.liveness.root(self.code, 0);
        let mut frame = Frame::new(0, 0, 0, Caller::Call, instance);
        frame.registers[Reg::R1.index()] = Register::pointer(Kind::Context, 0);
        self.state = State { frames: vec![frame], sleepable: self.code.program.sleepable, ..State::default() };
        self.check_addresses().map_err(|fault| self.explained(*fault))?;
        self.at = self.code.functions[0].start;
        self.check_maps().map_err(|fault| self.explained(*fault))?;
        self.check_hook().map_err(|fault| self.explained(*fault))?;
        self.begin_exceptions().map_err(|fault| self.explained(*fault))?;
        self.explore(observer)?;
        self.call_every_global();
        let mut next = 0;
        while let Some(function) = self.globals_called.get(next).copied() {
            next += 1;
            self.at = self.code.functions[function].start;
            self.kept.next_root();
            self.enter_global(function).map_err(|fault| self.explained(*fault))?;
            self.explore(observer)?;
        }
        Ok(())
    }

    /// Addresses of map values are checked where they stand, whether or not a path leads there.
    fn check_addresses(&mut self) -> Step<()> {
        for (at, op) in self.code.ops.iter().enumerate() {
            if let Reference::MapValue { map, offset } = op.node.reference {
                self.at = at as Position;
                self.value_address(map.0, offset)?;
            }
        }
        Ok(())
    }

    fn explore(&mut self, observer: &mut impl Observer) -> Result<(), Error> {
        observer.started(self);
        loop {
            match self.walk(observer) {
                Ok(()) => {}
                Err(fault) => return Err(self.explained(*fault)),
            }
            self.liveness.update(self.code, &self.state);
            self.kept.path_ended(self.state.parent);
            match self.pending.pop() {
                Some((state, at)) => {
                    self.state = state;
                    self.at = at;
                    observer.resumed(self);
                }
                None => return Ok(()),
            }
            if self.processed > MAX_PROCESSED_INSTRUCTIONS {
                return Err(self.too_complex());
            }
        }
    }

    /// Follows the current path to its end.
    fn walk(&mut self, observer: &mut impl Observer) -> Step<()> {
        loop {
            self.processed += 1;
            if self.processed > MAX_PROCESSED_INSTRUCTIONS {
                return reject(
                    Reason::TooComplex,
                    format!("more than {MAX_PROCESSED_INSTRUCTIONS} instructions explored"),
                );
            }
            if self.processed.is_multiple_of(BETWEEN_LIMITS) || self.liveness.is_full() {
                self.check_limits()?;
            }
            if self.code.op(self.at).prune_point && self.is_covered()? {
                return Ok(());
            }
            if self.code.op(self.at).history_point {
                self.note_history();
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.visit(self.at, &self.state);
            }
            observer.before(self);
            self.liveness.begin();
            let (at, instance) = (self.at, self.state.frames.last().map(|frame| frame.instance));
            let depth = self.state.frames.len();
            let next = self.step()?;
            // What a call writes is told by the function that it calls.
            if let Some(instance) = instance.filter(|_| self.state.frames.len() == depth) {
                self.liveness.commit(instance, at);
            }
            observer.after(self);
            match next {
                Next::At(at) => self.at = at,
                Next::Done => return Ok(()),
            }
        }
    }

    /// Whether the time for it, and the memory that it may keep, last for more.
    fn check_limits(&self) -> Step<()> {
        if self.options.time_is_up() {
            return limit(TIME_IS_UP);
        }
        if self.kept.bytes() + self.origins.bytes() + self.liveness.bytes() > MAX_STATE_BYTES {
            let mib = MAX_STATE_BYTES >> 20;
            return limit(format!("the states to compare with take more than {mib} MiB (MAX_STATE_BYTES)"));
        }
        if self.recorder.as_ref().is_some_and(|recorder| recorder.bytes() > MAX_FACT_BYTES) {
            let mib = MAX_FACT_BYTES >> 20;
            return limit(format!("the facts of its instructions take more than {mib} MiB (MAX_FACT_BYTES)"));
        }
        Ok(())
    }

    fn step(&mut self) -> Step<Next> {
        let op = self.code.op(self.at);
        let next = Next::At(self.at + 1);
        if self.newer.get(self.at as usize) == Some(&true) {
            return self.reject_newer();
        }
        match op.node.insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src)?,
            Insn::Neg { width, dst } => self.negate(width, dst)?,
            Insn::MoveSignExtend { width, from, dst, src } => self.sign_extend(width, from, dst, src)?,
            Insn::Endian { order, size, dst } => self.change_order(order, size, dst)?,
            Insn::LoadImm64 { dst, imm } => self.load_constant(dst, imm)?,
            Insn::Load { size, signed, dst, address } => self.load(size, signed, dst, address)?,
            Insn::LoadAcquire { size, dst, address } => self.load(size, false, dst, address)?,
            Insn::Store { size, address, src } => self.store(size, address, src)?,
            Insn::StoreRelease { size, address, src } => self.store(size, address, kiln_isa::Source::Reg(src))?,
            Insn::Atomic { op, fetch, size, address, src } => self.atomic(op, fetch, size, address, src)?,
            Insn::LoadPacket { mode, size, .. } => self.load_packet(mode, size)?,
            Insn::AddressSpaceCast { dst, src, to, from } => self.cast_address(dst, src, to, from)?,
            Insn::Jump { .. } => {
                self.jumps += 1;
                return Ok(Next::At(op.target));
            }
            Insn::Branch { op, width, dst, src, .. } => {
                self.jumps += 1;
                return self.branch(op, width, dst, src);
            }
            Insn::MayGoto { .. } => {
                self.jumps += 1;
                return self.may_goto();
            }
            Insn::Call(target) => {
                self.jumps += 1;
                return match target {
                    CallTarget::Helper(number) => self.call_helper(number),
                    CallTarget::Subprogram(_) => self.call_function(),
                    CallTarget::Kfunc { .. } => self.call_kfunc(),
                };
            }
            Insn::Exit => {
                self.jumps += 1;
                return self.exit();
            }
        }
        Ok(next)
    }

    /// Puts a state aside for later.
    pub(crate) fn push(&mut self, state: State, at: Position) -> Step<()> {
        if self.pending.len() >= MAX_PENDING_BRANCHES {
            return reject(
                Reason::TooComplex,
                format!("more than {MAX_PENDING_BRANCHES} branches wait to be explored"),
            );
        }
        self.kept.path_forked(state.parent);
        self.pending.push((state, at));
        Ok(())
    }

    /// The instruction makes an entry in the path's history; several of them count as one.
    pub(crate) fn note_history(&mut self) {
        if self.history_noted != self.processed {
            self.history_noted = self.processed;
            self.state.history += 1;
        }
    }

    /// A fresh id.
    pub(crate) fn fresh_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// A register that must be readable.
    pub(crate) fn read(&self, reg: Reg) -> Step<Register> {
        let register = *self.state.register(reg);
        if register.kind == Kind::Uninit {
            return reject(Reason::UninitializedRegister, format!("r{} is read but holds nothing", reg.number()));
        }
        Ok(register)
    }

    /// Writes a register that may be written.
    pub(crate) fn write(&mut self, reg: Reg, value: Register) -> Step<()> {
        if reg == Reg::R10 {
            return reject(Reason::BadInstruction, "r10, the frame pointer, is read-only");
        }
        self.state.set(reg, value);
        Ok(())
    }

    /// A later decision depends on this number.
    pub(crate) fn mark_precise(&mut self, register: &Register) {
        if register.kind == Kind::Scalar {
            self.origins.mark(register.origin);
        }
    }

    pub(crate) fn join_origins(&mut self, first: Origin, second: Origin) -> Origin {
        self.origins.join(first, second)
    }

    /// Whether values that the loader may change are unknown. Asked last, so that a verification where it does not
    /// matter is known as such.
    pub(crate) fn any_load(&self) -> bool {
        self.depends_on_load.set(true);
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

    /// Whether some number of a kernel's type is still that of the object's own: it would be taken for another type.
    pub(crate) fn awaits_type_numbers(&self) -> bool {
        let object = self.code.object;
        let nodes = object.functions.iter().flat_map(|function| &function.nodes);
        let mut records = nodes.filter_map(|node| object.core.get(node.core?.index()));
        records.any(|record| record.kind == TYPE_ID_TARGET)
    }

    /// The map a register points to or into.
    pub(crate) fn map_of(&self, register: &Register) -> Option<&'a Map> {
        let map = self.code.object.maps.get(register.object as usize)?;
        if register.inner { map.inner.as_deref() } else { Some(map) }
    }

    pub(crate) fn map_type_of(&self, register: &Register) -> Option<MapType> {
        self.map_of(register).map(|map| map.map_type)
    }

    pub(crate) fn reference(&self) -> Reference {
        self.code.op(self.at).node.reference
    }

    fn too_complex(&self) -> Error {
        self.explained(Fault::Rejected(
            Reason::TooComplex,
            format!("more than {MAX_PROCESSED_INSTRUCTIONS} instructions explored"),
        ))
    }

    pub(crate) fn explained(&self, fault: Fault) -> Error {
        let op = self.code.op(self.at);
        let (reason, message) = match fault {
            Fault::Unsupported(what) => return Error::Unsupported { insn: op.node.id, what },
            Fault::Limit(what) => return Error::Limit { insn: op.node.id, what },
            Fault::Rejected(reason, message) => (reason, message),
        };
        let kernel_message = kernel_words::message(self, reason, &message);
        Error::Rejected(Box::new(Rejection { kernel_message, ..rejection(self.code, self.at, reason, message) }))
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let frame_bytes = self.stack_bytes.iter().copied().max().unwrap_or(0);
        Statistics {
            processed_insns: self.processed,
            peak_states: self.kept.peak(),
            total_states: self.kept.total(),
            stack_bytes: frame_bytes,
            frame_bytes,
        }
    }
}
