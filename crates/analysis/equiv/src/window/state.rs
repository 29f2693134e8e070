//! The state of a window or a path that runs over terms: the symbolic [`Machine`].

use kiln_isa::semantics::{BitVec, Machine, MemoryOrder};
use kiln_isa::{Address, AtomicOp, Imm64, Insn, Reg, Size, Source};
use kiln_program::{CoreId, CoreRelocation, InsnId, Node, Reference};

use crate::term::{Symbol, Term};
use crate::window::calls::Call;
use crate::window::class::{Class, Event, EventKind, Log, is_frozen};
use crate::window::memory::World;
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
    /// It has an instruction that is not supported in windows.
    #[error("{0} cannot be in a window")]
    Unsupported(String),
}

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
    /// A load of bytes that the window itself stored before.
    pub own: bool,
    /// What it points into.
    pub class: Class,
    /// Calls before it.
    pub epoch: u16,
    /// The number of its path; 0: every path.
    pub path: u32,
    /// The last event before it that moved the packet.
    pub packet: Log,
}

/// Placeholders of a rule: fields of instructions that are terms, not numbers. The instructions of both windows have
/// different ids.
#[derive(Default)]
pub struct Holes<'a> {
    /// Instructions whose immediate is this 64-bit term.
    pub immediates: Vec<(InsnId, Term<'a>)>,
    /// Instructions whose offset is this 64-bit term.
    pub offsets: Vec<(InsnId, Term<'a>)>,
}

impl<'a> Holes<'a> {
    fn immediate(&self, node: Option<&Node>) -> Option<Term<'a>> {
        term_of(&self.immediates, node)
    }

    fn offset(&self, node: Option<&Node>) -> Option<Term<'a>> {
        term_of(&self.offsets, node)
    }
}

fn term_of<'a>(terms: &[(InsnId, Term<'a>)], node: Option<&Node>) -> Option<Term<'a>> {
    let id = node?.id;
    terms.iter().find(|(own, _)| *own == id).map(|(_, term)| *term)
}

/// Bits of the number of a type in BTF (`BTF_MAX_TYPE`).
const OWN_TYPE_BITS: u32 = 20;

/// Added to the size of a load whose width the loader may change, to name the variable of its whole register.
const WHOLE_REGISTER: u8 = 16;

/// A window or path while it runs.
#[derive(Clone)]
pub(crate) struct State<'w, 'a> {
    pub(crate) world: &'w World<'a>,
    holes: &'w Holes<'a>,
    pub(crate) path: Path<'a>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) touched: Vec<Access>,
    pub(crate) calls: Vec<Call>,
    pub(crate) stable_calls: Vec<Log>,
    pub(crate) node: Option<&'w Node>,
    /// What the current load puts into its register, if it is more than what was loaded.
    loaded_whole: Option<Term<'a>>,
    /// Whether an atomic operation counts as a load, an operation and a store.
    pub(crate) in_parts: bool,
}

impl<'w, 'a> State<'w, 'a> {
    pub(crate) fn new(world: &'w World<'a>, holes: &'w Holes<'a>, path: Path<'a>) -> State<'w, 'a> {
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
        let offset = match (self.core(), self.holes.offset(self.node)) {
            // The loader writes the offset.
            (Some(core), _) => self.world.arena.symbol(Symbol::Core(core), 16).sign_extend(64),
            (None, Some(term)) => term,
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

    /// The whole operand of a CO-RE store: the loader may change how many bytes of it are stored.
    fn stored_whole(&mut self) -> Result<Option<Term<'a>>, Stop> {
        match (self.core(), self.node.map(|node| node.insn)) {
            (Some(_), Some(Insn::Store { src: Source::Reg(src), .. })) => self.register(src).map(Some),
            (Some(_), Some(Insn::Store { src: Source::Imm(imm), .. })) => {
                Ok(Some(self.world.arena.constant(64, i64::from(imm) as u64)))
            }
            _ => Ok(None),
        }
    }

    /// The number that a loader writes into `bits` bits of the current instruction.
    fn relocated(&self, core: CoreId, bits: u32) -> Term<'a> {
        let symbol = |bits| self.world.arena.symbol(Symbol::Core(core), bits);
        // An object's own BTF has fewer types than an immediate can count.
        let own = self.world.object.core.get(core.index()).is_some_and(CoreRelocation::is_own_type);
        if own { symbol(OWN_TYPE_BITS).zero_extend(64) } else { symbol(bits).sign_extend(64) }
    }

    /// Describes an access at this point.
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
        self.world.arena.constant(64, value)
    }

    fn immediate(&mut self, imm: i32) -> Term<'a> {
        match (self.core(), self.node.map(|node| node.insn)) {
            (Some(core), Some(Insn::Alu { .. })) => self.relocated(core, 32),
            _ => self.holes.immediate(self.node).unwrap_or_else(|| self.constant(i64::from(imm) as u64)),
        }
    }

    fn load_imm64(&mut self, imm: Imm64) -> Result<Term<'a>, Stop> {
        if let Some(core) = self.core() {
            return Ok(self.relocated(core, 64));
        }
        match (self.node.map_or(Reference::None, |node| node.reference), imm) {
            (Reference::None, Imm64::Value(value)) => {
                Ok(self.holes.immediate(self.node).unwrap_or_else(|| self.constant(value)))
            }
            (Reference::None, other) => Err(Stop::Unsupported(format!("`{other}`"))),
            (reference, _) => Ok(self.world.reference(reference)),
        }
    }

    fn load(&mut self, address: Address, size: Size, order: MemoryOrder) -> Result<Term<'a>, Stop> {
        let place = self.place(address)?;
        let acquires = order == MemoryOrder::Acquire;
        let class = self.access(place, size, false, acquires);
        if acquires {
            self.record(class, EventKind::LoadAcquire(size.bytes() as u8), place, &[]);
        }
        // Memory that nothing writes stays at the first history.
        let is_frozen = is_frozen(self.world.object, class);
        let log = if is_frozen { 0 } else { self.log(class) };
        let (root, offset) = place;
        // The loader may change the width of a CO-RE load, and the kernel that of a context access.
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
        let is_logged = self.world.modes.is_logged(class);
        let is_shared = class.is_shared() && !is_frozen;
        let byte = |byte| {
            let place = (root, offset.wrapping_add(byte));
            match self.path.bytes.get(&place).filter(|_| !is_logged) {
                Some(written) => self.world.arena.term(written.value),
                None if is_shared => self.path.look(self.world, place, log),
                None => self.world.byte(place.0, place.1, log),
            }
        };
        let parts: Vec<_> = (0..i64::from(size.bytes())).map(byte).collect();
        Ok(self.world.arena.concat(&parts))
    }

    fn store(&mut self, address: Address, size: Size, value: Term<'a>, order: MemoryOrder) -> Result<(), Stop> {
        let place = self.place(address)?;
        let releases = order == MemoryOrder::Release;
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
            let old = self.load(address, size, MemoryOrder::Relaxed)?;
            self.store(address, size, op.apply(&old, &operand), MemoryOrder::Relaxed)?;
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
