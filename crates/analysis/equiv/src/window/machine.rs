//! A window, run symbolically on the shared semantics.
//!
//! A window has one entry, its first instruction, and is a region of the program: branches inside it go forward, and
//! those that leave it are its exits. Every way through it is followed; ways that meet become one ([`crate::window::path`]),
//! and so do exits to one place, so that the size of the result grows with the window and not with its ways.

use kiln_isa::semantics::{BitVec, Flow, Machine, execute};
use kiln_isa::{Address, AtomicOp, Imm64, Insn, Reg, RegSet, Size, Source};
use kiln_program::{CoreId, CoreRelocation, InsnId, Node, Reference};
use kiln_verifier::InsnFacts;

use crate::term::{QuickMap, Symbol, Term, TermId};
use crate::window::calls::{Call, EventUse};
use crate::window::memory::{Class, Event, EventKind, Log, World, is_frozen};
use crate::window::path::{Path, Slot, Written};

/// Why a window cannot be followed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stop {
    /// It reads a register that may be uninitialised.
    #[error("{0} may be uninitialised")]
    Uninitialised(Reg),
    /// It writes the frame pointer.
    #[error("r10 is read-only")]
    FramePointer,
    /// It is longer than [`INSNS`], or its terms are more than [`TERMS`].
    #[error("the window is too large")]
    Limit,
    /// It holds an instruction that windows may not.
    #[error("{0} cannot be in a window")]
    Unsupported(String),
}

/// Instructions in a window at most.
pub const INSNS: usize = 256;
/// Terms at most: what hostile arithmetic may grow to.
pub const TERMS: usize = 100_000;

/// One access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Number of the root.
    pub root: u16,
    /// Bytes from it.
    pub offset: i64,
    /// Bytes accessed.
    pub bytes: u32,
    /// Whether it writes.
    pub writes: bool,
    /// Atomic operations, acquire and release.
    pub ordered: bool,
    /// A load of nothing but what the window itself stored before.
    pub own: bool,
    /// What it points into.
    pub class: Class,
    /// Calls before it.
    pub epoch: u16,
    /// The number of the way that it is on; 0: every way.
    pub path: u32,
    /// The last event before it that moved the packet.
    pub packet: Log,
}

/// Where a window is left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    /// Behind its last instruction.
    End,
    /// At its beginning, which is begun again.
    Start,
    /// To an instruction outside.
    Insn(InsnId),
    /// To the one place that a rule's branch leads to.
    Somewhere,
    /// Out of the function.
    Return,
}

/// The state where a window is left for one target.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// To where.
    pub target: Target,
    /// The truth value of leaving there; `None`: always.
    pub condition: Option<TermId>,
    /// Registers; `None`: not readable.
    pub registers: [Option<TermId>; Reg::COUNT],
    /// Bytes written, where their class is not logged.
    pub bytes: QuickMap<(u16, i64), TermId>,
    /// The history of each logged class.
    pub logs: QuickMap<Class, Log>,
    /// The history of memory that no other entry names.
    pub base: Log,
}

impl Outcome {
    /// The history that a class is at.
    pub fn log(&self, world: &World<'_>, class: Class) -> Log {
        let group = world.modes.group(class);
        let base = if matches!(group, Class::Stack(0) | Class::Context) { 0 } else { self.base };
        self.logs.get(&group).copied().unwrap_or(base)
    }
}

/// What a window does.
#[derive(Clone, Debug)]
pub struct Final {
    /// Where it is left and how, by target.
    pub outcomes: Vec<Outcome>,
    /// All accesses, in order.
    pub accesses: Vec<Access>,
    /// Own stack bytes that calls read or write.
    pub touched: Vec<Access>,
    /// Calls, in order, but those whose results are the same all along.
    pub calls: Vec<Call>,
    /// Those, as events.
    pub stable_calls: Vec<Log>,
}

/// Immediates and offsets of a rule that stand for anything: reserved numbers and what they mean.
#[derive(Default)]
pub struct Holes<'a> {
    /// A reserved immediate and the 64-bit term it means.
    pub immediates: Vec<(i32, Term<'a>)>,
    /// A reserved offset and the 64-bit term it means.
    pub offsets: Vec<(i16, Term<'a>)>,
}

/// Runs a window from the initial state of `world`.
///
/// # Errors
/// A [`Stop`] where it cannot be followed.
pub fn run<'a>(world: &World<'a>, nodes: &[Node], holes: &Holes<'a>) -> Result<Final, Stop> {
    if nodes.len() > INSNS {
        return Err(Stop::Limit);
    }
    let mut state = State::new(world, holes, Path::new());
    // Ways that wait: where, and the state they come with.
    let mut waiting: Vec<(Target, Path<'a>)> = Vec::new();
    let mut current = Some(Path::new());
    for (at, node) in nodes.iter().enumerate() {
        if world.arena.len() > TERMS {
            return Err(Stop::Limit);
        }
        if at > 0 {
            current = arrive(world, current, &mut waiting, Target::Insn(node.id));
        }
        let Some(path) = current.take() else { continue };
        (state.path, state.node) = (path, Some(node));
        let flow = execute(&node.insn, &mut state)?;
        let mut path = std::mem::replace(&mut state.path, Path::new());
        let target = || target(nodes, at, node);
        match flow {
            Flow::Next => current = Some(path),
            Flow::Call(called) => {
                state.path = path;
                state.call(called)?;
                current = Some(std::mem::replace(&mut state.path, Path::new()));
            }
            Flow::Exit => waiting.push((Target::Return, path)),
            Flow::Jump => waiting.push((target()?, path)),
            Flow::Branch(taken) => {
                let target = target()?;
                if taken.as_constant() != Some(0) {
                    let mut jumps = path.clone();
                    jumps.conditions.push(taken);
                    waiting.push((target, jumps));
                }
                path.conditions.push(Term::not(&taken));
                current = (taken.as_constant() != Some(1)).then_some(path);
            }
            Flow::MayGoto => return Err(Stop::Unsupported(format!("`{}`", node.insn))),
        }
    }
    let mut outcomes = Vec::new();
    if let Some(path) = arrive(world, current, &mut waiting, Target::End) {
        outcomes.push(outcome(world, Target::End, path));
    }
    let mut targets: Vec<Target> = waiting.iter().map(|(target, _)| *target).collect();
    targets.sort_unstable();
    targets.dedup();
    for target in targets {
        let path = arrive(world, None, &mut waiting, target).expect("some way leads there");
        outcomes.push(outcome(world, target, path));
    }
    let State { accesses, touched, calls, stable_calls, .. } = state;
    Ok(Final { outcomes, accesses, touched, calls, stable_calls })
}

/// Where a way through a function begins: what differs from the initial state of the world.
#[derive(Default)]
pub struct Start<'a> {
    /// What registers hold; `None`: not readable.
    pub registers: [Option<Term<'a>>; Reg::COUNT],
    /// Bytes of memory.
    pub bytes: Vec<((u16, i64), TermId)>,
}

/// The state at the end of a way.
#[derive(Clone, Debug)]
pub struct WayEnd {
    /// Registers; `None`: not readable.
    pub registers: [Option<TermId>; Reg::COUNT],
    /// Bytes written, where their class is not logged.
    pub bytes: QuickMap<(u16, i64), TermId>,
    /// The history of each logged class.
    pub logs: QuickMap<Class, Log>,
    /// All accesses, in order.
    pub accesses: Vec<Access>,
    /// What the branches must be for this to be the way.
    pub conditions: Vec<TermId>,
    /// What the event at its end does with the frame.
    pub uses: EventUse,
}

/// One instruction of a way through a function.
#[derive(Clone, Copy)]
pub struct WayStep<'w> {
    /// The instruction.
    pub node: &'w Node,
    /// Of a branch: whether the way takes it.
    pub taken: bool,
    /// What is known behind it.
    pub behind: Option<&'w InsnFacts>,
    /// Whether an atomic operation counts as a load, an operation and a store with nothing in between.
    pub in_parts: bool,
}

/// Runs instructions one after another on one way through a function. `event` is what comes at the end, which is not run,
/// with the arguments that are known to be numbers.
///
/// # Errors
/// A [`Stop`] where it cannot be followed.
pub fn run_way<'a, 'w>(
    world: &World<'a>,
    start: &Start<'a>,
    steps: impl Iterator<Item = WayStep<'w>>,
    event: Option<(&'w Node, RegSet)>,
) -> Result<WayEnd, Stop> {
    let holes = Holes::default();
    let mut run = WayRun::new(world, &holes, start);
    for step in steps {
        run.step(step)?;
    }
    Ok(run.end(event))
}

/// A way through a function that is run instruction by instruction. A copy goes on from where it is.
#[derive(Clone)]
pub struct WayRun<'w, 'a> {
    state: State<'w, 'a>,
    conditions: Vec<TermId>,
}

impl<'w, 'a> WayRun<'w, 'a> {
    /// A way at its beginning.
    pub fn new(world: &'w World<'a>, holes: &'w Holes<'a>, start: &Start<'a>) -> WayRun<'w, 'a> {
        let mut path = Path::new();
        path.registers = start.registers.map(|term| term.map_or(Slot::Lost, Slot::Written));
        path.bytes = start.bytes.iter().map(|(at, value)| (*at, Written { value: *value, surely: true })).collect();
        WayRun { state: State::new(world, holes, path), conditions: Vec::new() }
    }

    /// Runs the next instruction.
    ///
    /// # Errors
    /// A [`Stop`] where it cannot be followed.
    pub fn step(&mut self, step: WayStep<'w>) -> Result<(), Stop> {
        let WayStep { node, taken, behind, in_parts } = step;
        let world = self.state.world;
        if world.arena.len() > TERMS {
            return Err(Stop::Limit);
        }
        (self.state.node, self.state.in_parts) = (Some(node), in_parts);
        // A way's calls are compared at its end, except calls that only return a value which is not read.
        if let Insn::Call(_) = node.insn {
            RegSet::CALLER_SAVED.iter().for_each(|reg| self.state.path.registers[reg.index()] = Slot::Lost);
            return Ok(());
        }
        match execute(&node.insn, &mut self.state)? {
            Flow::Next => {}
            Flow::Branch(condition) if node.core.is_none() => {
                self.conditions.push(if taken { condition.id() } else { Term::not(&condition).id() });
            }
            _ => return Err(Stop::Unsupported(format!("`{}`", node.insn))),
        }
        if let (Insn::Load { dst, .. }, Some(known)) = (node.insn, behind)
            && let Slot::Written(term) = self.state.path.registers[dst.index()]
        {
            world.learn(term.id(), &known.registers[dst.index()]);
        }
        Ok(())
    }

    /// What the branches so far must be for this to be the way.
    pub fn conditions(&self) -> &[TermId] {
        &self.conditions
    }

    /// All accesses so far, in order.
    pub fn accesses(&self) -> &[Access] {
        &self.state.accesses
    }

    /// The state here. `event` is what comes next, with the arguments that are known to be numbers.
    pub fn end(self, event: Option<(&Node, RegSet)>) -> WayEnd {
        let WayRun { state, conditions } = self;
        let uses = event.map(|(node, numbers)| state.event_use(node, numbers)).unwrap_or_default();
        let State { path, accesses, .. } = state;
        let registers = path.registers.map(|slot| match slot {
            Slot::Written(term) => Some(term.id()),
            Slot::Initial | Slot::Lost => None,
        });
        let bytes = path.bytes.iter().map(|(place, written)| (*place, written.value)).collect();
        WayEnd { registers, bytes, logs: path.logs, accesses, conditions, uses }
    }
}

/// Bits of the number of a type in BTF (`BTF_MAX_TYPE`).
const OWN_TYPE_BITS: u32 = 20;

/// Where a branch of a window leads.
pub(crate) fn target(nodes: &[Node], at: usize, node: &Node) -> Result<Target, Stop> {
    if node.core.is_some() {
        return Err(Stop::Unsupported("a branch that the loader changes".to_owned()));
    }
    let Some(to) = node.target() else { return Ok(Target::Somewhere) };
    match nodes.iter().position(|other| other.id == to) {
        Some(0) => Ok(Target::Start),
        Some(inside) if inside <= at => Err(Stop::Unsupported("a branch back".to_owned())),
        _ => Ok(Target::Insn(to)),
    }
}

/// What comes straight and what waited here, as one.
fn arrive<'a>(
    world: &World<'a>,
    straight: Option<Path<'a>>,
    waiting: &mut Vec<(Target, Path<'a>)>,
    here: Target,
) -> Option<Path<'a>> {
    let mut arrived = straight;
    // The latest branch first: it shares most with what comes straight.
    for at in (0..waiting.len()).rev() {
        if waiting[at].0 == here {
            let jumped = waiting.remove(at).1;
            arrived = Some(match arrived {
                Some(straight) => jumped.join(straight, world),
                None => jumped,
            });
        }
    }
    arrived
}

fn outcome<'a>(world: &World<'a>, target: Target, path: Path<'a>) -> Outcome {
    let value = |index| Some(path.register(world, Reg::new(index as u8)?)?.id());
    Outcome {
        target,
        condition: path.condition().map(|condition| condition.id()),
        registers: std::array::from_fn(value),
        bytes: path.bytes.iter().map(|(place, written)| (*place, written.value)).collect(),
        base: path.base,
        logs: path.logs,
    }
}

/// Added to the bytes of a load whose width the loader may change, in the name of what it puts into its register.
const WHOLE_REGISTER: u8 = 16;

/// A window on its way.
#[derive(Clone)]
pub(crate) struct State<'w, 'a> {
    pub(crate) world: &'w World<'a>,
    holes: &'w Holes<'a>,
    pub(crate) path: Path<'a>,
    accesses: Vec<Access>,
    pub(crate) touched: Vec<Access>,
    pub(crate) calls: Vec<Call>,
    pub(crate) stable_calls: Vec<Log>,
    pub(crate) node: Option<&'w Node>,
    /// What the running load really puts into its register, where that is more than was loaded.
    loaded_whole: Option<Term<'a>>,
    /// See [`WayStep::in_parts`].
    in_parts: bool,
}

impl<'w, 'a> State<'w, 'a> {
    fn new(world: &'w World<'a>, holes: &'w Holes<'a>, path: Path<'a>) -> State<'w, 'a> {
        State {
            world,
            holes,
            path,
            accesses: Vec::new(),
            touched: Vec::new(),
            calls: Vec::new(),
            stable_calls: Vec::new(),
            node: None,
            loaded_whole: None,
            in_parts: false,
        }
    }

    fn core(&self) -> Option<CoreId> {
        self.node.and_then(|node| node.core)
    }

    /// The place that a memory operand names.
    fn place(&mut self, address: Address) -> Result<(u16, i64), Stop> {
        let base = self.register(address.base)?;
        let hole = self.holes.offsets.iter().find(|(reserved, _)| *reserved == address.offset);
        let offset = match (self.core(), hole) {
            // The loader writes the offset.
            (Some(core), _) => self.world.arena.symbol(Symbol::Core(core), 16).sign_extend(64),
            (None, Some((_, term))) => *term,
            (None, None) => base.like(address.offset as i64 as u64),
        };
        Ok(self.world.place(base.add(&offset)))
    }

    fn access(&mut self, place: (u16, i64), size: Size, writes: bool, ordered: bool) -> Class {
        let access = self.described(place, size.bytes(), writes);
        let written =
            |byte| self.path.bytes.get(&(place.0, place.1.wrapping_add(byte))).is_some_and(|written| written.surely);
        let own = !writes && (0..i64::from(size.bytes())).all(written);
        self.accesses.push(Access { ordered, own, ..access });
        access.class
    }

    /// All of what a CO-RE store is given: the loader may change how many bytes of it are stored.
    fn stored_whole(&mut self) -> Result<Option<Term<'a>>, Stop> {
        match (self.core(), self.node.map(|node| node.insn)) {
            (Some(_), Some(Insn::Store { src: Source::Reg(src), .. })) => self.register(src).map(Some),
            (Some(_), Some(Insn::Store { src: Source::Imm(imm), .. })) => {
                Ok(Some(self.world.arena.constant(64, i64::from(imm) as u64)))
            }
            _ => Ok(None),
        }
    }

    /// The number that a loader writes into the current instruction, in so many of its bits.
    fn relocated(&self, core: CoreId, bits: u32) -> Term<'a> {
        let symbol = |bits| self.world.arena.symbol(Symbol::Core(core), bits);
        // There are fewer types in an object's own BTF than an immediate counts.
        let own = self.world.object.core.get(core.index()).is_some_and(CoreRelocation::is_own_type);
        if own { symbol(OWN_TYPE_BITS).zero_extend(64) } else { symbol(bits).sign_extend(64) }
    }

    /// An access that is made here.
    pub(crate) fn described(&self, (root, offset): (u16, i64), bytes: u32, writes: bool) -> Access {
        Access {
            root,
            offset,
            bytes,
            writes,
            ordered: false,
            own: false,
            class: self.world.root(root).class,
            epoch: self.calls.len() as u16,
            path: self.world.path_number(self.path.condition()),
            packet: self.path.packet,
        }
    }

    pub(crate) fn log(&self, class: Class) -> Log {
        self.path.log(self.world.modes.group(class))
    }

    fn record(&mut self, class: Class, kind: EventKind, place: (u16, i64), operands: &[Term<'a>]) -> Log {
        let operands = operands.iter().map(Term::id).collect();
        let log = self.world.record(Event { before: self.log(class), kind, place, operands });
        self.path.logs.insert(self.world.modes.group(class), log);
        log
    }
}

impl<'a> Machine for State<'_, 'a> {
    type Value = Term<'a>;
    type Error = Stop;

    fn register(&mut self, reg: Reg) -> Result<Term<'a>, Stop> {
        self.path.register(self.world, reg).ok_or(Stop::Uninitialised(reg))
    }

    fn set_register(&mut self, reg: Reg, value: Term<'a>) -> Result<(), Stop> {
        if reg == Reg::R10 {
            return Err(Stop::FramePointer);
        }
        let value = self.loaded_whole.take().unwrap_or(value);
        self.path.registers[reg.index()] = Slot::Written(value);
        Ok(())
    }

    fn constant(&mut self, value: u64) -> Term<'a> {
        if let (Some(core), Some(Insn::Alu { src: Source::Imm(_), .. })) =
            (self.core(), self.node.map(|node| node.insn))
        {
            return self.relocated(core, 32);
        }
        let hole = self.holes.immediates.iter().find(|(reserved, _)| i64::from(*reserved) as u64 == value);
        hole.map_or_else(|| self.world.arena.constant(64, value), |(_, term)| *term)
    }

    fn load_imm64(&mut self, imm: Imm64) -> Result<Term<'a>, Stop> {
        if let Some(core) = self.core() {
            return Ok(self.relocated(core, 64));
        }
        match (self.node.map_or(Reference::None, |node| node.reference), imm) {
            (Reference::None, Imm64::Value(value)) => Ok(self.constant(value)),
            (Reference::None, other) => Err(Stop::Unsupported(format!("`{other}`"))),
            (reference, _) => Ok(self.world.reference(reference)),
        }
    }

    fn load(&mut self, address: Address, size: Size) -> Result<Term<'a>, Stop> {
        let place = self.place(address)?;
        let acquires = matches!(self.node.map(|node| node.insn), Some(Insn::LoadAcquire { .. }));
        let class = self.access(place, size, false, acquires);
        if acquires {
            self.record(class, EventKind::LoadAcquire(size.bytes() as u8), place, &[]);
        }
        // What nothing writes is as it was.
        let log = if is_frozen(self.world.object, class) { 0 } else { self.log(class) };
        let (root, offset) = place;
        // The loader may change the width of a CO-RE load; the kernel that of a context access.
        let rewritten = class == Class::Context && !self.world.has_plain_context();
        if rewritten || self.core().is_some() {
            let symbol = Symbol::Field { root, offset, bytes: size.bytes() as u8, log };
            if rewritten && size == Size::B4 && self.world.loads_pointer(root, offset) {
                let known = self.world.packet_pointer(root, offset, self.path.packet);
                let field = known.unwrap_or_else(|| self.world.pointer_symbol(symbol, Class::Unknown, None));
                self.loaded_whole = Some(field);
                return Ok(self.world.arena.constant(32, 0));
            }
            let widens = self.core().and_then(|core| self.world.object.core.get(core.index()));
            if !rewritten && size != Size::B8 && widens.is_some_and(|core| !core.keeps_width) {
                // All of the register depends on the loader: a variable of its own.
                let bytes = WHOLE_REGISTER + size.bytes() as u8;
                let symbol = Symbol::Field { root, offset, bytes, log };
                self.loaded_whole = Some(self.world.arena.symbol(symbol, 64));
                return Ok(self.world.arena.constant(size.bits(), 0));
            }
            return Ok(self.world.arena.symbol(symbol, size.bits()));
        }
        if self.world.modes.is_logged(class) {
            return Ok(self.world.bytes(root, offset, size.bytes(), log));
        }
        let byte = |byte| self.path.byte(self.world, (root, offset.wrapping_add(byte)));
        let parts: Vec<_> = (0..i64::from(size.bytes())).map(byte).collect();
        Ok(self.world.arena.concat(&parts))
    }

    fn store(&mut self, address: Address, size: Size, value: Term<'a>) -> Result<(), Stop> {
        let place = self.place(address)?;
        let releases = matches!(self.node.map(|node| node.insn), Some(Insn::StoreRelease { .. }));
        let class = self.access(place, size, true, releases);
        let logged = self.world.modes.is_logged(class);
        if logged || self.core().is_some() {
            let bytes = size.bytes() as u8;
            let kind = if releases { EventKind::StoreRelease(bytes) } else { EventKind::Store(bytes, self.core()) };
            let stored = self.stored_whole()?.unwrap_or(value);
            self.record(class, kind, place, &[stored]);
        }
        if logged {
            return Ok(());
        }
        for byte in 0..size.bytes() {
            let at = place.1.wrapping_add(byte.into());
            let value = value.extract(8 * byte, 8).id();
            self.path.bytes.insert((place.0, at), Written { value, surely: true });
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        op: AtomicOp,
        address: Address,
        size: Size,
        operand: Term<'a>,
        expected: Option<Term<'a>>,
    ) -> Result<Term<'a>, Stop> {
        if self.in_parts {
            let old = self.load(address, size)?;
            self.store(address, size, op.apply(&old, &operand))?;
            return Ok(old);
        }
        let place = self.place(address)?;
        let class = self.access(place, size, true, true);
        let operands: Vec<_> = [Some(operand), expected].into_iter().flatten().collect();
        let log = self.record(class, EventKind::Atomic(op, size.bytes() as u8), place, &operands);
        Ok(self.world.arena.symbol(Symbol::Result { log, register: 0 }, size.bits()))
    }

    fn load_packet(&mut self, _: Option<Term<'a>>, _: i32, _: Size) -> Result<Option<Term<'a>>, Stop> {
        Err(Stop::Unsupported("a classic packet load".to_owned()))
    }

    fn cast_address(&mut self, _: Term<'a>, _: u16, _: u16) -> Result<Term<'a>, Stop> {
        Err(Stop::Unsupported("an address space cast".to_owned()))
    }
}
