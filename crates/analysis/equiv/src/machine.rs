//! A window, run symbolically on the shared semantics.

use kiln_isa::semantics::{BitVec, Flow, Machine, execute};
use kiln_isa::{Address, AtomicOp, CallTarget, Imm64, Insn, Reg, Size, Source};
use kiln_program::{Node, Reference};

use crate::memory::{Class, Event, EventKind, Log, World};
use crate::term::{QuickMap, Symbol, Term, TermId};

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
}

/// The state after a window.
#[derive(Clone, Debug)]
pub struct Final {
    /// Registers; `None`: not readable.
    pub registers: [Option<TermId>; Reg::COUNT],
    /// Bytes written, where their class is not logged.
    pub bytes: QuickMap<(u16, i64), TermId>,
    /// The history of each logged class.
    pub logs: QuickMap<Class, Log>,
    /// All accesses, in order.
    pub accesses: Vec<Access>,
    /// Branches out of the window, in order: where they go and the truth value that decides.
    pub exits: Vec<(Reference, TermId)>,
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
    let mut state = State {
        world,
        holes,
        registers: std::array::from_fn(|_| Slot::Initial),
        bytes: QuickMap::default(),
        logs: QuickMap::default(),
        accesses: Vec::new(),
        node: None,
        pointer_field: None,
        skips: Vec::new(),
        exits: Vec::new(),
    };
    if nodes.len() > INSNS {
        return Err(Stop::Limit);
    }
    for (at, node) in nodes.iter().enumerate() {
        if world.arena.len() > TERMS {
            return Err(Stop::Limit);
        }
        state.arrive(at);
        state.node = Some(node);
        match execute(&node.insn, &mut state)? {
            Flow::Next => {}
            Flow::Branch(condition) => state.branch(nodes, at, condition)?,
            Flow::Call(CallTarget::Helper(id)) => {
                return Err(Stop::Unsupported(format!("a call of helper {id}")));
            }
            _ => return Err(Stop::Unsupported(format!("`{}`", node.insn))),
        }
    }
    if !state.skips.is_empty() {
        return Err(Stop::Unsupported("a branch to the window's end".to_owned()));
    }
    let registers = std::array::from_fn(|index| match state.registers[index] {
        Slot::Initial => Reg::new(index as u8).and_then(|reg| world.register(reg)).map(|term| term.id()),
        Slot::Written(term) => Some(term.id()),
        Slot::Lost => None,
    });
    let State { bytes, logs, accesses, exits, .. } = state;
    Ok(Final { registers, bytes, logs, accesses, exits })
}

/// A branch inside the window: to which position, the truth value that decides, and the registers that it takes there.
struct Skip<'a> {
    to: usize,
    taken: Term<'a>,
    registers: [Slot<'a>; Reg::COUNT],
}

#[derive(Clone, Copy)]
enum Slot<'a> {
    Initial,
    Written(Term<'a>),
    /// Not readable on some path.
    Lost,
}

struct State<'w, 'a> {
    world: &'w World<'a>,
    holes: &'w Holes<'a>,
    registers: [Slot<'a>; Reg::COUNT],
    bytes: QuickMap<(u16, i64), TermId>,
    logs: QuickMap<Class, Log>,
    accesses: Vec<Access>,
    node: Option<&'w Node>,
    /// Branches that have not arrived yet.
    skips: Vec<Skip<'a>>,
    exits: Vec<(Reference, TermId)>,
    /// What the running load really puts into its register, where that is more than was loaded.
    pointer_field: Option<Term<'a>>,
}

impl<'a> State<'_, 'a> {
    fn core(&self) -> Option<kiln_program::CoreId> {
        self.node.and_then(|node| node.core)
    }

    /// A branch of the window: out of it, or over instructions that compute registers.
    fn branch(&mut self, nodes: &[Node], at: usize, taken: Term<'a>) -> Result<(), Stop> {
        let node = &nodes[at];
        if !self.skips.is_empty() || node.core.is_some() {
            return Err(Stop::Unsupported("a branch on one of several paths".to_owned()));
        }
        match nodes.iter().position(|target| Some(target.id) == node.target()) {
            Some(to) if to > at => self.skips.push(Skip { to, taken, registers: self.registers }),
            Some(_) => return Err(Stop::Unsupported("a branch back".to_owned())),
            None => self.exits.push((node.reference, taken.id())),
        }
        Ok(())
    }

    /// Joins what a branch brought here with what came straight.
    fn arrive(&mut self, at: usize) {
        while let Some(skip) = self.skips.pop_if(|skip| skip.to == at) {
            for (index, own) in self.registers.iter_mut().enumerate() {
                let value = |slot: Slot<'a>| match slot {
                    Slot::Written(term) => Some(term),
                    Slot::Initial => Reg::new(index as u8).and_then(|reg| self.world.register(reg)),
                    Slot::Lost => None,
                };
                *own = match (skip.registers[index], *own) {
                    (Slot::Initial, Slot::Initial) => Slot::Initial,
                    (jumped, straight) => match (value(jumped), value(straight)) {
                        (Some(jumped), Some(straight)) => Slot::Written(Term::ite(&skip.taken, &jumped, &straight)),
                        _ => Slot::Lost,
                    },
                };
            }
        }
    }

    /// Memory is touched on all paths or on none.
    fn on_all_paths(&self) -> Result<(), Stop> {
        if self.skips.is_empty() {
            return Ok(());
        }
        Err(Stop::Unsupported("a memory access on one of several paths".to_owned()))
    }

    /// The place that a memory operand names.
    fn place(&mut self, address: Address) -> Result<(u16, i64), Stop> {
        self.on_all_paths()?;
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
        let class = self.world.root(place.0).class;
        let bytes = i64::from(size.bytes());
        let own = !writes && (0..bytes).all(|byte| self.bytes.contains_key(&(place.0, place.1.wrapping_add(byte))));
        let (root, offset) = place;
        self.accesses.push(Access { root, offset, bytes: size.bytes(), writes, ordered, own, class });
        class
    }

    fn log(&self, class: Class) -> Log {
        self.logs.get(&self.world.modes.group(class)).copied().unwrap_or(0)
    }

    fn record(&mut self, class: Class, kind: EventKind, place: (u16, i64), operands: &[Term<'a>]) -> Log {
        let operands = operands.iter().map(Term::id).collect();
        let log = self.world.record(Event { before: self.log(class), kind, place, operands });
        self.logs.insert(self.world.modes.group(class), log);
        log
    }
}

impl<'a> Machine for State<'_, 'a> {
    type Value = Term<'a>;
    type Error = Stop;

    fn register(&mut self, reg: Reg) -> Result<Term<'a>, Stop> {
        match self.registers[reg.index()] {
            Slot::Written(term) => Ok(term),
            Slot::Lost => Err(Stop::Uninitialised(reg)),
            Slot::Initial => self.world.register(reg).ok_or(Stop::Uninitialised(reg)),
        }
    }

    fn set_register(&mut self, reg: Reg, value: Term<'a>) -> Result<(), Stop> {
        if reg == Reg::R10 {
            return Err(Stop::FramePointer);
        }
        let value = self.pointer_field.take().unwrap_or(value);
        self.registers[reg.index()] = Slot::Written(value);
        Ok(())
    }

    fn constant(&mut self, value: u64) -> Term<'a> {
        if let (Some(core), Some(Insn::Alu { src: Source::Imm(_), .. })) =
            (self.core(), self.node.map(|node| node.insn))
        {
            return self.world.arena.symbol(Symbol::Core(core), 32).sign_extend(64);
        }
        let hole = self.holes.immediates.iter().find(|(reserved, _)| i64::from(*reserved) as u64 == value);
        hole.map_or_else(|| self.world.arena.constant(64, value), |(_, term)| *term)
    }

    fn load_imm64(&mut self, imm: Imm64) -> Result<Term<'a>, Stop> {
        if let Some(core) = self.core() {
            return Ok(self.world.arena.symbol(Symbol::Core(core), 64));
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
        let log = self.log(class);
        let (root, offset) = place;
        // The loader may change the width of a CO-RE load; the kernel that of a context access.
        if class == Class::Context || self.core().is_some() {
            let symbol = Symbol::Field { root, offset, bytes: size.bytes() as u8, log };
            if class == Class::Context && size == Size::B4 && self.world.loads_pointer(root, offset) {
                self.pointer_field = Some(self.world.pointer_symbol(symbol, Class::Unknown, None));
                return Ok(self.world.arena.constant(32, 0));
            }
            return Ok(self.world.arena.symbol(symbol, size.bits()));
        }
        if self.world.modes.is_logged(class) {
            return Ok(self.world.bytes(root, offset, size.bytes(), log));
        }
        let parts: Vec<_> = (0..i64::from(size.bytes()))
            .map(|byte| {
                let at = offset.wrapping_add(byte);
                match self.bytes.get(&(root, at)) {
                    Some(written) => self.world.arena.term(*written),
                    None => self.world.byte(root, at, 0),
                }
            })
            .collect();
        Ok(self.world.arena.concat(&parts))
    }

    fn store(&mut self, address: Address, size: Size, value: Term<'a>) -> Result<(), Stop> {
        let place = self.place(address)?;
        let releases = matches!(self.node.map(|node| node.insn), Some(Insn::StoreRelease { .. }));
        let class = self.access(place, size, true, releases);
        if self.world.modes.is_logged(class) {
            let bytes = size.bytes() as u8;
            let kind = if releases { EventKind::StoreRelease(bytes) } else { EventKind::Store(bytes, self.core()) };
            self.record(class, kind, place, &[value]);
            return Ok(());
        }
        for byte in 0..size.bytes() {
            let at = place.1.wrapping_add(byte.into());
            self.bytes.insert((place.0, at), value.extract(8 * byte, 8).id());
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
