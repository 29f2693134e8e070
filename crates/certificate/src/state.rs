//! The state of one function on one path, and how an instruction changes it.
//!
//! Memory has three parts. Bytes of the frame at known distances from R10 are terms of their own. Fields of a context
//! that the kernel rewrites are variables by offset, size and how often the context was written. The rest is an
//! uninterpreted function from addresses to bytes with a log of what was stored since.
//!
//! ```text
//!   *(u32 *)(r10 - 4) = w1        frame[-4..0] = the bytes of w1
//!   *(u8 *)(r7 + 2) = 5           log: (packet, r7 + 2, 5)
//!   r0 = *(u8 *)(r8 + 0)          r8 + 0 == r7 + 2 ? 5 : memory(r8 + 0)      if the two may meet
//! ```
//!
//! If an address may be anywhere in the frame, each loaded byte or the new contents are a function of the address and
//! the whole frame: equal contents give equal results.

use std::collections::BTreeMap;
use std::rc::Rc;

use kiln_isa::semantics::{BitVec, Machine, MemoryOrder};
use kiln_isa::{Address, AtomicOp, Imm64, Insn, Reg, Size, Source};
use kiln_platform::{ContextAccess, FieldValue, ProgramType};
use kiln_program::{CoreId, Node, Object, Reference};

use crate::provenance::{Class, Provenance, field, is_frozen};
use crate::term::{Arena, Term};

/// Bits of the number of a type in an object's own BTF (`BTF_MAX_TYPE`).
const OWN_TYPE_BITS: u32 = 20;
/// An address in a packet is below this: errors are the last 4 GiB of the address space.
pub const PACKETS_END: u64 = 0xffff_ffff << 32;

/// What a function runs in.
pub struct World<'a> {
    /// Terms.
    pub arena: &'a Arena,
    /// Maps, programs and relocations.
    pub object: &'a Object,
    /// The types of the object's programs.
    pub types: Vec<Option<ProgramType>>,
}

/// Contents of memory: a name, and what it is a function of.
#[derive(Clone, PartialEq, Debug)]
pub struct Contents<'a> {
    name: Rc<str>,
    of: Vec<Term<'a>>,
}

/// A store to memory outside of the frame.
#[derive(Clone, PartialEq, Debug)]
pub struct Stored<'a> {
    /// The address.
    pub address: Term<'a>,
    /// What: 8 to 64 bits.
    pub value: Term<'a>,
    class: Class,
}

/// Which operation of memory that others may see is atomic or ordered: the atomic operation, if it is one; whether it
/// loads; its size.
type Ordered = (Option<AtomicOp>, bool, Size);

/// A store to a field of the context.
#[derive(Clone, PartialEq, Debug)]
pub struct FieldStore<'a> {
    offset: i64,
    value: Term<'a>,
}

/// The state of one function.
#[derive(Clone)]
pub struct State<'a> {
    /// Registers.
    pub registers: [Term<'a>; Reg::COUNT],
    /// Bytes of the frame that differ from `frame_contents`.
    pub frame: BTreeMap<i64, Term<'a>>,
    /// All other bytes of the frame.
    pub frame_contents: Contents<'a>,
    /// Memory outside of frame and context before the log.
    pub memory: Contents<'a>,
    /// Stores since.
    pub log: Vec<Stored<'a>>,
    /// Atomic and ordered operations since, with their addresses.
    pub ordered: Vec<(Ordered, Term<'a>)>,
    /// How often events changed memory.
    pub events: u32,
    /// Stores to fields of the context since the last event.
    pub fields: Vec<FieldStore<'a>>,
    /// Assumptions about values on the path.
    pub granted: Vec<Term<'a>>,
}

impl<'a> Contents<'a> {
    /// Unknown contents with a new name.
    pub fn named(name: &str) -> Contents<'a> {
        Contents { name: name.into(), of: Vec::new() }
    }

    fn byte(&self, world: &World<'a>, address: Term<'a>) -> Term<'a> {
        let mut operands = self.of.clone();
        operands.push(address);
        world.arena.apply(&format!("{}_{}", self.name, operands.len()), &operands, 8)
    }

    /// Pairs that must be equal for two contents to be equal; `None` if they cannot be compared.
    pub fn equal(&self, other: &Contents<'a>, goals: &mut Vec<Term<'a>>) -> Option<()> {
        let comparable = self.name == other.name && self.of.len() == other.of.len();
        comparable.then(|| goals.extend(self.of.iter().zip(&other.of).map(|(one, other)| BitVec::eq(one, other))))
    }
}

impl<'a> World<'a> {
    /// R10: the same in both functions.
    pub fn frame_pointer(&self) -> Term<'a> {
        self.arena.symbol("fp", 64)
    }

    /// The address that a reference stands for.
    pub fn reference(&self, reference: Reference) -> Option<Term<'a>> {
        let symbol = |kind: &str, index: u32| self.arena.symbol(&format!("{kind}_{index}"), 64);
        Some(match reference {
            Reference::Map(map) => symbol("map", map.0),
            Reference::MapValue { map, offset } => {
                symbol("section", map.0).add(&self.arena.constant(64, u64::from(offset)))
            }
            Reference::Function(function) => symbol("function", function.0),
            Reference::Extern(symbol_id) => symbol("extern", symbol_id.0),
            Reference::Branch(_) | Reference::None => return None,
        })
    }

    /// The number that the loader writes into an instruction.
    fn relocated(&self, core: CoreId, bits: u32) -> Term<'a> {
        let name = format!("core_{}", core.0);
        match self.object.core.get(core.index()).is_some_and(kiln_program::CoreRelocation::is_own_type) {
            true => self.arena.symbol(&format!("{name}_type"), OWN_TYPE_BITS).zero_extend(64),
            false => self.arena.symbol(&format!("{name}_{bits}"), bits).sign_extend(64),
        }
    }

    fn has_plain_context(&self) -> bool {
        self.types.iter().all(|own| own.is_some_and(|own| own.context().access == ContextAccess::Memory))
    }

    /// The distance of an address from R10, if it is known.
    pub fn frame_offset(&self, address: Term<'a>) -> Option<i64> {
        let (base, offset) = address.split();
        (base == self.frame_pointer()).then_some(offset as i64)
    }
}

impl<'a> State<'a> {
    /// The byte of the frame at a distance from R10.
    pub fn frame_byte(&self, world: &World<'a>, offset: i64) -> Term<'a> {
        let address = || world.arena.constant(64, offset as u64);
        self.frame.get(&offset).copied().unwrap_or_else(|| self.frame_contents.byte(world, address()))
    }

    /// Bytes of the frame as one value.
    pub fn frame_bytes(&self, world: &World<'a>, offset: i64, bytes: i64) -> Term<'a> {
        joined((0..bytes).map(|byte| self.frame_byte(world, offset + byte)))
    }

    /// Writes bytes of the frame.
    pub fn set_frame_bytes(&mut self, offset: i64, value: Term<'a>) {
        for (byte, part) in bytes_of(value) {
            self.frame.insert(offset + byte, part);
        }
    }

    /// A byte of memory outside of the frame.
    pub fn byte(&self, world: &World<'a>, address: Term<'a>, class: Class) -> Term<'a> {
        if let Class::Value(map) = class
            && is_frozen(world.object, map)
        {
            return Contents::named("frozen").byte(world, address);
        }
        let mut open = Vec::new();
        let mut byte = None;
        let (base, offset) = address.split();
        for stored in self.log.iter().rev().filter(|stored| !stored.class.is_apart(class)) {
            let bytes = u64::from(stored.value.bits() / 8);
            let (other, from) = stored.address.split();
            if base == other {
                let within = offset.wrapping_sub(from);
                if within < bytes {
                    byte = Some(stored.value.extract(8 * within as u32, 8));
                    break;
                }
                continue;
            }
            let within = address.sub(&stored.address);
            let wide = stored.value.zero_extend(64);
            let part = wide.lshr(&within.shl(&within.like(3))).truncate(8);
            open.push((within.ult(&within.like(bytes)), part));
        }
        let byte = byte.unwrap_or_else(|| self.memory.byte(world, address));
        open.into_iter().rev().fold(byte, |rest, (meets, part)| Term::ite(&meets, &part, &rest))
    }

    /// Operands that stand for all memory in which an address of this class may be.
    fn everything(&self, class: Class) -> (String, Vec<Term<'a>>) {
        if !class.may_be_frame() {
            return self.outside();
        }
        let lowest = if let Class::Above(distance) = class { distance } else { i64::MIN };
        let reached = || self.frame.range(lowest..);
        let places: Vec<String> = reached().map(|(at, _)| at.unsigned_abs().to_string()).collect();
        let mut name = format!("{}_{}", self.frame_contents.name, places.join("_"));
        let mut of = self.frame_contents.of.clone();
        of.extend(reached().map(|(_, byte)| *byte));
        if matches!(class, Class::Unknown | Class::Above(_)) {
            let (memory, contents) = self.outside();
            name = format!("{name}_{memory}");
            of.extend(contents);
        }
        (name, of)
    }

    /// Operands that stand for that memory and an address in it.
    fn everything_at(&self, address: Term<'a>, class: Class) -> (String, Vec<Term<'a>>) {
        let (name, mut of) = self.everything(class);
        of.push(address);
        (name, of)
    }

    /// Operands that stand for all memory outside of the frame.
    fn outside(&self) -> (String, Vec<Term<'a>>) {
        let mut name = format!("{}_{}", self.memory.name, self.fields.len());
        let mut of = self.memory.of.clone();
        for stored in &self.log {
            name = format!("{name}_{}", stored.value.bits());
            of.extend([stored.address, stored.value]);
        }
        (name, of)
    }

    /// Bytes from an address that may be in several parts of memory. Each byte is a function of its own address and of all
    /// that memory, so a load is the loads of its bytes, whatever memory it is. A field of a context may be behind such
    /// an address, too: the kernel loads a part of a field by a shift and a mask, so bytes of one field fit together.
    fn anywhere(&self, address: Term<'a>, class: Class, bytes: u64) -> Term<'a> {
        let (name, of) = self.everything(class);
        let arena = address.arena();
        // One term stands for all that memory: bytes with an operand for each byte of the frame would be long.
        let memory = arena.apply(&format!("all_{}_{name}", of.len()), &of, 64);
        joined((0..bytes).map(|byte| arena.apply("any_byte", &[memory, address.add(&address.like(byte))], 8)))
    }

    fn store_anywhere(&mut self, address: Term<'a>, value: Term<'a>, class: Class) {
        // What a part of the frame may hold now is a function of all of it.
        let class = if let Class::Above(_) = class { Class::Unknown } else { class };
        let (name, mut of) = self.everything_at(address, class);
        of.push(value);
        // One term stands for all that the new contents are a function of: operands of operands would double.
        let after = format!("after_{}_{}_{name}", value.bits(), of.len());
        let after = address.arena().apply(&after, &of, 64);
        let contents = |kind: &str| Contents { name: kind.into(), of: vec![after] };
        if class.may_be_frame() {
            self.frame_contents = contents("stored_frame");
            self.frame.clear();
        }
        if matches!(class, Class::Unknown | Class::Elsewhere) {
            self.memory = contents("stored_memory");
            self.log.clear();
            // It may be a field of the context.
            self.fields.push(FieldStore { offset: i64::MIN, value });
        }
    }

    /// Bytes of the frame that have a value of their own.
    pub fn written(&self) -> impl Iterator<Item = i64> + '_ {
        self.frame.keys().copied()
    }

    /// Pairs that must be equal for memory outside of the frame to be equal. Returns the reason if it cannot be.
    pub fn same_memory(&self, world: &World<'a>, other: &State<'a>, goals: &mut Vec<Term<'a>>) -> Result<(), String> {
        let differs = || "memory outside of the frame was changed in another way".to_owned();
        self.memory.equal(&other.memory, goals).ok_or_else(differs)?;
        if self.events != other.events || self.fields.len() != other.fields.len() {
            return Err(differs());
        }
        for (one, two) in self.fields.iter().zip(&other.fields) {
            if one.offset != two.offset || one.value.bits() != two.value.bits() {
                return Err("fields of the context are written in another way".to_owned());
            }
            goals.push(BitVec::eq(&one.value, &two.value));
        }
        // An atomic operation stays one, and an ordered access ordered.
        let mut left = other.ordered.iter();
        for (kind, address) in &self.ordered {
            let kept = left.find(|(other, _)| other == kind).ok_or("an atomic or ordered operation is left out")?;
            goals.push(BitVec::eq(address, &kept.1));
        }
        for stored in self.log.iter().chain(&other.log).filter(|_| self.log != other.log) {
            for byte in 0..u64::from(stored.value.bits() / 8) {
                let address = stored.address.add(&stored.address.like(byte));
                let [own, others] = [self, other].map(|state| state.byte(world, address, stored.class));
                goals.push(BitVec::eq(&own, &others));
            }
        }
        Ok(())
    }
}

/// Bytes, lowest first, as one value.
pub fn joined<'a>(bytes: impl Iterator<Item = Term<'a>>) -> Term<'a> {
    bytes.reduce(|low, high| high.concat(low)).expect("there is a byte")
}

/// A value as wide as a register.
fn extended<'a>(value: Term<'a>, signed: bool) -> Term<'a> {
    if signed { value.sign_extend(64) } else { value.zero_extend(64) }
}

/// A value's bytes and their distances.
fn bytes_of<'a>(value: Term<'a>) -> impl Iterator<Item = (i64, Term<'a>)> {
    (0..value.bits() / 8).map(move |byte| (i64::from(byte), value.extract(8 * byte, 8)))
}

/// An instruction while it runs.
pub struct Running<'r, 'a> {
    /// Where.
    pub world: &'r World<'a>,
    /// On what.
    pub state: &'r mut State<'a>,
    /// The instruction.
    pub node: &'r Node,
    /// Its place in its function.
    pub at: usize,
    /// The classes of that function's registers.
    pub provenance: &'r Provenance,
}

impl<'a> Running<'_, 'a> {
    fn place(&self, address: Address) -> (Term<'a>, Class) {
        let base = self.state.registers[address.base.index()];
        let offset = match self.node.core {
            Some(core) => self.world.relocated(core, 16),
            None => base.like(i64::from(address.offset) as u64),
        };
        let moved = |distance: Option<i64>| Some(distance?.wrapping_add(i64::from(address.offset)));
        let constant = |distance| if self.node.core.is_some() { None } else { moved(distance) };
        let at = base.add(&offset);
        if let Some(distance) = self.world.frame_offset(at) {
            return (at, Class::Frame(Some(distance)));
        }
        match self.provenance.class(self.at, address.base) {
            Class::Frame(distance) => match constant(distance) {
                Some(distance) => {
                    let there = self.world.frame_pointer();
                    (there.add(&there.like(distance as u64)), Class::Frame(Some(distance)))
                }
                None => (at, Class::Frame(None)),
            },
            Class::Context(distance) => (at, Class::Context(constant(distance))),
            Class::Map(_) => (at, Class::Outside),
            // An address that a scalar cannot be.
            Class::Number => (at, Class::Unknown),
            class => (at, class),
        }
    }

    /// A field of a context that is not plain memory, as it is loaded into a register.
    fn field(&mut self, distance: Option<i64>, address: Term<'a>, bits: u32) -> Term<'a> {
        let arena = self.world.arena;
        let version = format!("{}_{}", self.state.events, self.state.fields.len());
        let Some(distance) = distance else {
            return arena.apply(&format!("field_{version}_{bits}"), &[address], 64);
        };
        let name = format!("field_{version}_{}_{bits}", distance.unsigned_abs());
        match field(&self.world.types, distance) {
            Some(FieldValue::Scalar) => arena.symbol(&name, bits).zero_extend(64),
            value => {
                let loaded = arena.symbol(&format!("{name}_p"), 64);
                if matches!(value, Some(FieldValue::PacketPointer | FieldValue::PacketMeta | FieldValue::PacketEnd)) {
                    self.state.granted.push(loaded.ult(&loaded.like(PACKETS_END)));
                }
                loaded
            }
        }
    }

    fn load_from(&mut self, (at, class): (Term<'a>, Class), size: Size) -> Term<'a> {
        let bytes = i64::from(size.bytes());
        match class {
            Class::Frame(Some(offset)) => self.state.frame_bytes(self.world, offset, bytes),
            Class::Frame(None) | Class::Above(_) | Class::Unknown | Class::Elsewhere => {
                self.state.anywhere(at, class, bytes as u64)
            }
            _ => joined((0..bytes).map(|byte| self.state.byte(self.world, at.add(&at.like(byte as u64)), class))),
        }
    }

    /// Notes an atomic or ordered operation, unless it is of the own frame.
    fn order(&mut self, (at, class): (Term<'a>, Class)) {
        let kind = match self.node.insn {
            _ if matches!(class, Class::Frame(_)) => return,
            Insn::Atomic { op, fetch, size, .. } => (Some(op), fetch, size),
            Insn::LoadAcquire { size, .. } => (None, true, size),
            Insn::StoreRelease { size, .. } => (None, false, size),
            _ => return,
        };
        self.state.ordered.push((kind, at));
    }

    fn store_to(&mut self, (at, class): (Term<'a>, Class), value: Term<'a>) {
        match class {
            Class::Frame(Some(offset)) => self.state.set_frame_bytes(offset, value),
            Class::Frame(None) | Class::Above(_) | Class::Unknown | Class::Elsewhere => {
                self.state.store_anywhere(at, value, class);
            }
            Class::Context(Some(offset)) if !self.world.has_plain_context() => {
                self.state.fields.push(FieldStore { offset, value });
            }
            _ => {
                if class == Class::Context(None) && !self.world.has_plain_context() {
                    // It may be any field.
                    self.state.fields.push(FieldStore { offset: i64::MIN, value });
                }
                self.state.log.push(Stored { address: at, value, class });
            }
        }
    }

    /// Runs the instruction. Returns the condition of a branch.
    ///
    /// # Errors
    /// Returns what this checker does not support.
    pub fn step(&mut self) -> Result<kiln_isa::semantics::Flow<Term<'a>>, String> {
        let insn = self.node.insn;
        if self.node.core.is_some() && insn.is_control() {
            return Err(format!("`{insn}` is changed by the loader"));
        }
        // A field of a context may be wider in the register than what is said to be loaded, and where the loader
        // relocates an offset it may change the size.
        if let Insn::Load { size, signed, dst, address } = insn {
            let place = self.place(address);
            let rewritten = match place.1 {
                Class::Context(distance) if !self.world.has_plain_context() => {
                    Some(self.field(distance, place.0, size.bits()))
                }
                // It may be a context. The loader extends the sign of the four bytes after it rewrote the load.
                Class::Unknown | Class::Elsewhere if size == Size::B4 && !signed => {
                    let (name, of) = self.state.everything_at(place.0, place.1);
                    let upper = self.world.arena.apply(&format!("upper_{name}"), &of, 32);
                    Some(upper.concat(self.load_from(place, size)))
                }
                _ => None,
            };
            let loaded = match (rewritten, self.node.core) {
                (_, Some(core)) => {
                    let class = if place.1.may_be_frame() { Class::Unknown } else { place.1 };
                    let (name, of) = self.state.everything_at(place.0, class);
                    let sign = if signed { "s" } else { "u" };
                    let name = format!("relocated_{}_{}_{sign}_{name}", core.0, size.bits());
                    let keeps_width = self.world.object.core.get(core.index()).is_some_and(|core| core.keeps_width);
                    let bits = if keeps_width { size.bits() } else { 64 };
                    extended(self.world.arena.apply(&name, &of, bits), signed)
                }
                (Some(field), None) => field,
                (None, None) => extended(self.load_from(place, size), signed),
            };
            if rewritten.is_some() && signed {
                return Err(format!("`{insn}` extends the sign of a field of the context"));
            }
            return self.set_register(dst, loaded).map(|()| kiln_isa::semantics::Flow::Next);
        }
        kiln_isa::semantics::execute(&insn, self)
    }
}

impl<'a> Machine for Running<'_, 'a> {
    type Value = Term<'a>;
    type Error = String;

    fn register(&mut self, reg: Reg) -> Result<Term<'a>, String> {
        Ok(self.state.registers[reg.index()])
    }

    fn set_register(&mut self, reg: Reg, value: Term<'a>) -> Result<(), String> {
        if reg == Reg::R10 {
            return Err("R10 is written".to_owned());
        }
        self.state.registers[reg.index()] = value;
        Ok(())
    }

    fn constant(&mut self, value: u64) -> Term<'a> {
        self.world.arena.constant(64, value)
    }

    fn immediate(&mut self, imm: i32) -> Term<'a> {
        match (self.node.core, self.node.insn) {
            (Some(core), Insn::Alu { .. } | Insn::Store { .. }) => self.world.relocated(core, 32),
            _ => self.constant(i64::from(imm) as u64),
        }
    }

    fn load_imm64(&mut self, imm: Imm64) -> Result<Term<'a>, String> {
        match (self.node.core, self.world.reference(self.node.reference), imm) {
            (Some(core), None, _) => Ok(self.world.relocated(core, 64)),
            (None, Some(address), _) => Ok(address),
            (None, None, Imm64::Value(value)) => Ok(self.world.arena.constant(64, value)),
            _ => Err(format!("`{}` refers to nothing", self.node.insn)),
        }
    }

    fn load(&mut self, address: Address, size: Size, _: MemoryOrder) -> Result<Term<'a>, String> {
        let place = self.place(address);
        self.order(place);
        if self.node.core.is_some() {
            return Err("the loader relocates an atomic access".to_owned());
        }
        Ok(self.load_from(place, size))
    }

    fn store(&mut self, address: Address, size: Size, value: Term<'a>, _: MemoryOrder) -> Result<(), String> {
        let place = self.place(address);
        self.order(place);
        match self.node.core {
            // The loader may change the size: any memory is then a function of all memory and the whole register.
            Some(core) if size != Size::B8 => {
                let whole = match self.node.insn {
                    Insn::Store { src: Source::Reg(src), .. } => self.state.registers[src.index()],
                    _ => value.sign_extend(64),
                };
                let class = if place.1.may_be_frame() { Class::Unknown } else { Class::Elsewhere };
                let tagged =
                    self.world.arena.apply(&format!("relocated_store_{}_{}", core.0, size.bits()), &[whole], 64);
                self.state.store_anywhere(place.0, tagged, class);
            }
            _ => self.store_to(place, value),
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
    ) -> Result<Term<'a>, String> {
        let place = self.place(address);
        self.order(place);
        let old = self.load_from(place, size);
        let new = op.apply(&old, &operand);
        let new = expected.map_or(new, |expected| Term::ite(&BitVec::eq(&old, &expected), &new, &old));
        self.store_to(place, new);
        Ok(old)
    }

    fn load_packet(&mut self, _: Option<Term<'a>>, _: i32, _: Size) -> Result<Option<Term<'a>>, String> {
        Err("a packet load is an event".to_owned())
    }

    fn cast_address(&mut self, value: Term<'a>, to: u16, from: u16) -> Result<Term<'a>, String> {
        Ok(self.world.arena.apply(&format!("cast_{to}_{from}"), &[value], 64))
    }
}
