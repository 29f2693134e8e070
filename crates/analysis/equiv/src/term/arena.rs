//! The arena of terms, and what a term is.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use kiln_isa::Reg;
use kiln_isa::semantics::{BitVec, mask};
use kiln_program::{CoreId, Reference};

/// Index of a term in its arena. Operands always have smaller indices than the terms made of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TermId(pub u32);

/// What a variable stands for. The same key in the same arena is the same variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Symbol {
    /// What a register holds before the window.
    Register(Reg),
    /// The frame pointer of the frame this many calls up.
    FramePointer(u32),
    /// The start of a region that several registers may point into at constant distances: the context, the packet.
    RegionStart(RegionStart),
    /// The same, after an event that moved it.
    MovedRegion {
        /// Which.
        start: RegionStart,
        /// The event.
        log: u32,
    },
    /// Eight bytes of memory at `root + offset` (a multiple of eight), after `log` (0: before the window).
    Word {
        /// Which address term, by its number in [`crate::window::memory::World`].
        root: u16,
        /// Bytes from it.
        offset: i64,
        /// The history of stores and events that it is read after.
        log: u32,
    },
    /// A whole field of a region whose accesses the kernel rewrites (the context).
    Field {
        /// Which address term.
        root: u16,
        /// Bytes from it.
        offset: i64,
        /// Bytes read.
        bytes: u8,
        /// The history that it is read after.
        log: u32,
    },
    /// The address that a `ld_imm64` refers to.
    Reference(Reference),
    /// The immediate or offset that a CO-RE relocation puts there.
    Core(CoreId),
    /// The result of an event (an atomic operation, a call) at this point of the history.
    Result {
        /// The history, the event included.
        log: u32,
        /// The register that receives it.
        register: u8,
    },
    /// An immediate or offset of a rule that may be anything.
    Hole(u8),
    /// What registers of a rewritten function hold at a cut where the original holds nothing equal, by number.
    Own(u8),
    /// A byte of the frame of a rewritten function that may differ from the original's, by its offset.
    OwnByte(i64),
}

/// A region with one well-known start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RegionStart {
    /// The context.
    Context,
    /// Packet data.
    Packet,
    /// Packet metadata.
    PacketMeta,
    /// The end of the packet.
    PacketEnd,
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signed = |offset: i64| {
            if offset < 0 { format!("m{}", offset.unsigned_abs()) } else { format!("p{offset}") }
        };
        match *self {
            Symbol::Register(reg) => write!(f, "{reg}"),
            Symbol::FramePointer(up) => write!(f, "frame_{up}"),
            Symbol::RegionStart(RegionStart::Context) => write!(f, "context"),
            Symbol::RegionStart(RegionStart::Packet) => write!(f, "packet"),
            Symbol::RegionStart(RegionStart::PacketMeta) => write!(f, "packet_meta"),
            Symbol::RegionStart(RegionStart::PacketEnd) => write!(f, "packet_end"),
            Symbol::MovedRegion { start, log } => write!(f, "{}_{log}", Symbol::RegionStart(start)),
            Symbol::Word { root, offset, log } => write!(f, "memory_{root}_{}_{log}", signed(offset)),
            Symbol::Field { root, offset, bytes, log } => {
                write!(f, "field_{root}_{}_{bytes}_{log}", signed(offset))
            }
            Symbol::Reference(Reference::Map(map)) => write!(f, "map_{}", map.0),
            Symbol::Reference(Reference::MapValue { map, offset }) => {
                write!(f, "map_value_{}_{offset}", map.0)
            }
            Symbol::Reference(Reference::Function(function)) => write!(f, "function_{}", function.0),
            Symbol::Reference(Reference::Extern(symbol)) => write!(f, "extern_{}", symbol.0),
            Symbol::Reference(Reference::Branch(insn)) => write!(f, "branch_{}", insn.0),
            Symbol::Reference(Reference::None) => write!(f, "nothing"),
            Symbol::Core(core) => write!(f, "core_{}", core.0),
            Symbol::Result { log, register } => write!(f, "result_{log}_{register}"),
            Symbol::Hole(hole) => write!(f, "hole_{hole}"),
            Symbol::Own(number) => write!(f, "own_{number}"),
            Symbol::OwnByte(offset) => write!(f, "own_byte_{}", signed(offset)),
        }
    }
}

/// A bitwise operation on any number of operands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bitwise {
    /// And.
    And,
    /// Or.
    Or,
    /// Exclusive or.
    Xor,
}

/// An operation without a normal form of its own. Division by zero is as in SMT-LIB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Binary {
    /// Unsigned division.
    Udiv,
    /// Unsigned remainder.
    Urem,
    /// Signed division.
    Sdiv,
    /// Signed remainder.
    Srem,
    /// Left shift.
    Shl,
    /// Logical right shift.
    Lshr,
    /// Arithmetic right shift.
    Ashr,
    /// Equality; one bit.
    Eq,
    /// Unsigned less; one bit.
    Ult,
    /// Signed less; one bit.
    Slt,
}

/// What a term is made of. Truth values are terms of one bit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// A number.
    Constant(u64),
    /// A variable.
    Symbol(Symbol),
    /// Parts side by side, the lowest first.
    Concat(Rc<[TermId]>),
    /// Bits of a term from this one upwards.
    Extract(TermId, u8),
    /// One bit, copied to every position.
    Repeat(TermId),
    /// A constant plus multiples of terms.
    Sum(u64, Rc<[(u64, TermId)]>),
    /// A product.
    Product(Rc<[TermId]>),
    /// A bitwise operation.
    Bitwise(Bitwise, Rc<[TermId]>),
    /// All bits negated.
    Not(TermId),
    /// Another operation.
    Binary(Binary, TermId, TermId),
    /// The second where the first is 1, else the third.
    Ite(TermId, TermId, TermId),
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) shape: Shape,
    pub(crate) bits: u8,
    /// No value of the term is greater.
    pub(crate) max: u64,
}

/// A fast hash for small keys (multiply and rotate); the keys are our own, not an attacker's choice of collisions:
/// windows are short, so that even a chain of collisions stays short.
#[derive(Clone, Default)]
pub struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }
    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

/// A map from small keys.
pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<QuickHasher>>;

/// The graph's store: what [`Arena`] guards. Builders are in [`crate::term::normalize`].
pub(crate) struct Graph {
    pub(crate) entries: Vec<Entry>,
    index: QuickMap<(Shape, u8), TermId>,
    pub(crate) normalizes: bool,
    /// Extracts made before: a term may be reached along very many ways.
    pub(crate) extracts: QuickMap<(TermId, u8, u8), TermId>,
    /// Extracts that are being made, each for the one before.
    pub(crate) nesting: u32,
    /// Merges tried before.
    pub(crate) merges: QuickMap<(TermId, TermId), Option<TermId>>,
}

impl Graph {
    pub(crate) fn shape(&self, id: TermId) -> &Shape {
        &self.entries[id.0 as usize].shape
    }

    pub(crate) fn bits(&self, id: TermId) -> u32 {
        u32::from(self.entries[id.0 as usize].bits)
    }

    pub(crate) fn max(&self, id: TermId) -> u64 {
        self.entries[id.0 as usize].max
    }

    /// The one term of this shape and width.
    pub(crate) fn intern(&mut self, shape: Shape, bits: u32) -> TermId {
        debug_assert!((1..=64).contains(&bits), "width {bits}");
        let key = (shape, bits as u8);
        if let Some(id) = self.index.get(&key) {
            return *id;
        }
        let id = TermId(self.entries.len() as u32);
        let max = self.bound(&key.0, bits).min(mask(bits));
        self.entries.push(Entry { shape: key.0.clone(), bits: key.1, max });
        self.index.insert(key, id);
        id
    }

    pub(crate) fn constant(&mut self, bits: u32, value: u64) -> TermId {
        self.intern(Shape::Constant(value & mask(bits)), bits)
    }

    pub(crate) fn as_constant(&self, id: TermId) -> Option<u64> {
        match self.shape(id) {
            Shape::Constant(value) => Some(*value),
            _ => None,
        }
    }
}

/// Where terms live.
pub struct Arena {
    pub(crate) graph: RefCell<Graph>,
}

impl Arena {
    /// An arena whose terms are normalized as they are built.
    pub fn new() -> Arena {
        Arena::with(true)
    }

    /// An arena that keeps every operation as it was asked for: for evidence that does not lean on the normalizer.
    pub fn literal() -> Arena {
        Arena::with(false)
    }

    fn with(normalizes: bool) -> Arena {
        let graph = Graph {
            entries: Vec::with_capacity(64),
            index: QuickMap::default(),
            normalizes,
            extracts: QuickMap::default(),
            nesting: 0,
            merges: QuickMap::default(),
        };
        Arena { graph: RefCell::new(graph) }
    }

    /// A constant of `bits` (1 to 64) bits.
    pub fn constant(&self, bits: u32, value: u64) -> Term<'_> {
        self.term(self.graph.borrow_mut().constant(bits, value))
    }

    /// A variable. The same symbol must always be asked for with the same width.
    pub fn symbol(&self, symbol: Symbol, bits: u32) -> Term<'_> {
        self.term(self.graph.borrow_mut().intern(Shape::Symbol(symbol), bits))
    }

    /// The term with this index.
    pub fn term(&self, id: TermId) -> Term<'_> {
        Term { arena: self, id }
    }

    /// How many terms there are.
    pub fn len(&self) -> usize {
        self.graph.borrow().entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a term is made of, and its width.
    pub fn shape(&self, id: TermId) -> (Shape, u32) {
        let graph = self.graph.borrow();
        (graph.shape(id).clone(), graph.bits(id))
    }

    /// The places where any of these terms of this width changes part; always with both ends.
    pub(crate) fn boundaries(&self, ids: &[TermId], bits: u32) -> Vec<u32> {
        self.graph.borrow().boundaries(ids, bits)
    }

    /// Parts side by side, the lowest first; at most 64 bits together.
    pub fn concat<'a>(&'a self, parts: &[Term<'a>]) -> Term<'a> {
        let ids: Vec<_> = parts.iter().map(|part| part.id).collect();
        let mut graph = self.graph.borrow_mut();
        let id = graph.concat(&ids);
        self.term(id)
    }
}

impl Default for Arena {
    fn default() -> Arena {
        Arena::new()
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arena({} terms)", self.len())
    }
}

/// A term of an arena.
#[derive(Clone, Copy)]
pub struct Term<'a> {
    arena: &'a Arena,
    id: TermId,
}

impl PartialEq for Term<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<'a> Term<'a> {
    /// Its index.
    pub fn id(&self) -> TermId {
        self.id
    }

    /// Its arena.
    pub fn arena(&self) -> &'a Arena {
        self.arena
    }

    /// The number it is, if it is one.
    pub fn as_constant(&self) -> Option<u64> {
        self.arena.graph.borrow().as_constant(self.id)
    }

    /// Bits `low` to `low + bits - 1`.
    pub fn extract(&self, low: u32, bits: u32) -> Term<'a> {
        self.build(|graph| graph.extract(self.id, low, bits))
    }

    fn build(&self, build: impl FnOnce(&mut Graph) -> TermId) -> Term<'a> {
        let id = build(&mut self.arena.graph.borrow_mut());
        Term { arena: self.arena, id }
    }
}

impl<'a> BitVec for Term<'a> {
    type Bool = Term<'a>;

    fn bits(&self) -> u32 {
        self.arena.graph.borrow().bits(self.id)
    }
    fn like(&self, value: u64) -> Self {
        self.arena.constant(self.bits(), value)
    }
    fn add(&self, other: &Self) -> Self {
        self.build(|graph| graph.add(self.id, other.id))
    }
    fn sub(&self, other: &Self) -> Self {
        self.build(|graph| graph.sub(self.id, other.id))
    }
    fn mul(&self, other: &Self) -> Self {
        self.build(|graph| graph.mul(self.id, other.id))
    }
    fn udiv(&self, other: &Self) -> Self {
        self.build(|graph| graph.divide(Binary::Udiv, self.id, other.id))
    }
    fn urem(&self, other: &Self) -> Self {
        self.build(|graph| graph.divide(Binary::Urem, self.id, other.id))
    }
    fn sdiv(&self, other: &Self) -> Self {
        self.build(|graph| graph.divide(Binary::Sdiv, self.id, other.id))
    }
    fn srem(&self, other: &Self) -> Self {
        self.build(|graph| graph.divide(Binary::Srem, self.id, other.id))
    }
    fn and(&self, other: &Self) -> Self {
        self.build(|graph| graph.bitwise(Bitwise::And, &[self.id, other.id]))
    }
    fn or(&self, other: &Self) -> Self {
        self.build(|graph| graph.bitwise(Bitwise::Or, &[self.id, other.id]))
    }
    fn xor(&self, other: &Self) -> Self {
        self.build(|graph| graph.bitwise(Bitwise::Xor, &[self.id, other.id]))
    }
    fn shl(&self, amount: &Self) -> Self {
        self.build(|graph| graph.shift(Binary::Shl, self.id, amount.id))
    }
    fn lshr(&self, amount: &Self) -> Self {
        self.build(|graph| graph.shift(Binary::Lshr, self.id, amount.id))
    }
    fn ashr(&self, amount: &Self) -> Self {
        self.build(|graph| graph.shift(Binary::Ashr, self.id, amount.id))
    }
    fn truncate(&self, bits: u32) -> Self {
        self.extract(0, bits)
    }
    fn zero_extend(&self, bits: u32) -> Self {
        self.build(|graph| graph.zero_extend(self.id, bits))
    }
    fn sign_extend(&self, bits: u32) -> Self {
        self.build(|graph| graph.sign_extend(self.id, bits))
    }
    fn eq(&self, other: &Self) -> Self {
        self.build(|graph| graph.equal(self.id, other.id))
    }
    fn ult(&self, other: &Self) -> Self {
        self.build(|graph| graph.unsigned_less(self.id, other.id))
    }
    fn slt(&self, other: &Self) -> Self {
        self.build(|graph| graph.signed_less(self.id, other.id))
    }
    fn not(value: &Self) -> Self {
        value.build(|graph| graph.not(value.id))
    }
    fn ite(condition: &Self, then: &Self, otherwise: &Self) -> Self {
        condition.build(|graph| graph.ite(condition.id, then.id, otherwise.id))
    }
    fn swap_bytes(&self) -> Self {
        let bytes: Vec<_> = (0..self.bits() / 8).rev().map(|byte| self.extract(8 * byte, 8)).collect();
        self.arena.concat(&bytes)
    }
}
