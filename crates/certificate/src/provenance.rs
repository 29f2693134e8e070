//! Into which memory the registers of a function point.
//!
//! ```text
//!   r6 = r1                          r6: the context
//!   r2 = r10; r2 += -16              r2: this frame, at -16
//!   r1 = map[counters]; call lookup  r0: a value of that map
//!   r7 = *(u32 *)(r6 + 0)            r7: a packet, where the context's layout says so
//! ```
//!
//! A pass over the listing finds it; nothing of it comes from the certificate. It relies on one assumption, which the
//! verdict names (`Assumption::MemorySafe`): the function is memory safe. So an access through an address that
//! was made from a pointer by moves and sums stays in the memory of that pointer.

use std::collections::{BTreeMap, VecDeque};

use kiln_isa::{AluOp, CallTarget, Insn, Reg, RegSet, Size, Source, Width};
use kiln_platform::{FieldValue, Helper, Kfunc, KfuncMeaning, Lookup, ProgramType, ReturnKind};
use kiln_program::{Cfg, Function, FunctionId, Linkage, MapContents, MapId, Node, Object, Reference};

/// What a register may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A scalar: not an address at which the program may access memory.
    Number,
    /// An address in this frame, at this distance from R10 where it is known.
    Frame(Option<i64>),
    /// An address in this frame, at this distance from R10 or above it, or of something that is neither in a frame nor a
    /// context.
    Above(i64),
    /// An address in the context, at this distance from its start where it is known.
    Context(Option<i64>),
    /// An address in a packet, or its end.
    Packet,
    /// An address in a packet or its end, or a number that is not used as an address.
    PacketOrNumber,
    /// A map.
    Map(MapId),
    /// An address in a value of a map.
    Value(MapId),
    /// An address in an arena.
    Arena,
    /// An address of something else, neither in this frame nor in the context.
    Outside,
    /// An address of something else that may be in a caller's frame, which may hold addresses, also one of a context.
    Caller,
    /// Anything except an address in this frame: an argument, because the frame is new.
    Elsewhere,
    /// Anything.
    Unknown,
}

impl Class {
    fn join(self, other: Class) -> Class {
        let local =
            |class: Class| matches!(class, Class::Frame(_) | Class::Above(_) | Class::Context(_) | Class::Unknown);
        match (self, other) {
            _ if self == other => self,
            (Class::Frame(_), Class::Frame(_)) => Class::Frame(None),
            (Class::Context(_), Class::Context(_)) => Class::Context(None),
            // A null pointer, or a number at which nothing is accessed.
            (Class::Number, pointer) | (pointer, Class::Number) => match pointer {
                Class::Frame(_) => Class::Frame(None),
                Class::Context(_) => Class::Context(None),
                Class::Packet => Class::PacketOrNumber,
                other => other,
            },
            (Class::Packet, Class::PacketOrNumber) | (Class::PacketOrNumber, Class::Packet) => Class::PacketOrNumber,
            (Class::Elsewhere, other) | (other, Class::Elsewhere) if !other.may_be_frame() => Class::Elsewhere,
            (Class::Caller, other) | (other, Class::Caller) if !local(other) => Class::Caller,
            _ if local(self) || local(other) => Class::Unknown,
            _ => Class::Outside,
        }
    }

    /// The class after adding a known or unknown number.
    fn moved(self, by: Option<i64>) -> Class {
        let at = |offset: Option<i64>| Some(offset?.wrapping_add(by?));
        match self {
            Class::Frame(offset) => Class::Frame(at(offset)),
            Class::Context(offset) => Class::Context(at(offset)),
            Class::Map(_) => Class::Number,
            other => other,
        }
    }

    /// Whether an address of this class may be in this frame.
    pub fn may_be_frame(self) -> bool {
        matches!(self, Class::Frame(_) | Class::Above(_) | Class::Unknown)
    }

    /// Whether it is surely an address in a frame of the program, unless it is a scalar.
    fn is_of_frame(self) -> bool {
        matches!(self, Class::Frame(_) | Class::Caller)
    }

    /// Whether memory of two classes never overlaps.
    pub fn is_apart(self, other: Class) -> bool {
        let kind = |class: Class| match class {
            Class::Context(_) => Class::Context(None),
            Class::PacketOrNumber => Class::Packet,
            class => class,
        };
        let named =
            |class: Class| matches!(kind(class), Class::Context(_) | Class::Packet | Class::Value(_) | Class::Arena);
        // User space may send a page of an arena as a packet without a copy.
        let sent = |one: Class, other: Class| one == Class::Arena && kind(other) == Class::Packet;
        named(self) && named(other) && kind(self) != kind(other) && !sent(self, other) && !sent(other, self)
    }
}

/// What is known before an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    registers: [Class; Reg::COUNT],
    /// Registers that some path has written since the last call or the entry.
    readable: RegSet,
    /// Eight-byte slots of the frame that hold addresses; others hold numbers.
    slots: BTreeMap<i64, Class>,
    /// Whether some path mixed an address in a frame with another address, so that classes do not tell which it is.
    mixed: bool,
}

/// The classes of registers before each instruction of a function; `None` if the instruction is unreachable.
pub struct Provenance {
    known: Vec<Option<Known>>,
    /// Whether numbers may be addresses in a frame: see [`Arguments::leaks`].
    pub leaks: bool,
}

/// The classes of the arguments of every function of an object.
pub struct Arguments {
    classes: Vec<[Class; 5]>,
    /// Whether some function makes a number of an address in a frame: it stores it outside of the frame, computes with
    /// it or loads a part of it. What reads memory at numbers (`bpf_probe_read_kernel`) may then read any frame.
    leaks: bool,
}

/// Whether a map is a data section, of which there is one value at one address.
pub fn is_section(object: &Object, map: MapId) -> bool {
    object.maps.get(map.index()).is_some_and(kiln_program::Map::is_section)
}

/// Whether nothing writes to a map once the program runs: the loader freezes `.rodata` and `.kconfig`.
pub fn is_frozen(object: &Object, map: MapId) -> bool {
    let frozen = |contents: &MapContents| matches!(contents, MapContents::ReadOnly(_) | MapContents::Kconfig(_));
    is_section(object, map) && object.maps.get(map.index()).is_some_and(|map| frozen(&map.contents))
}

impl Arguments {
    /// Collects the classes of each function's arguments.
    pub fn of(object: &Object) -> Arguments {
        let count = object.functions.len();
        let mut arguments = Arguments { classes: vec![[Class::Number; 5]; count], leaks: false };
        let unknown = |id: FunctionId| {
            let taken = |node: &Node| node.reference == Reference::Function(id) && node.callee().is_none();
            let is_entry = object.programs.iter().any(|program| program.entry == id);
            let is_global = object.functions[id.index()].linkage != Linkage::Static;
            object.functions.iter().flat_map(|function| &function.nodes).any(taken) || is_global && !is_entry
        };
        for index in 0..count {
            if unknown(FunctionId(index as u32)) {
                arguments.classes[index] = [Class::Elsewhere; 5];
            }
        }
        for program in &object.programs {
            match arguments.classes.get_mut(program.entry.index()) {
                Some(own) if own[0] == Class::Number => own[0] = Class::Context(Some(0)),
                _ => {}
            }
        }
        // A fixed point, from scalars upwards. Each class rises at most four times.
        if !(0..10 * count + 5).any(|_| !arguments.step(object)) {
            arguments.classes = vec![[Class::Elsewhere; 5]; count];
        }
        let provenance = |(index, own): (u32, _)| Provenance::of(object, FunctionId(index), own, &arguments).leaks(own);
        let leaks = (0..).zip(&object.functions).any(provenance);
        Arguments { leaks, ..arguments }
    }

    fn step(&mut self, object: &Object) -> bool {
        let mut changed = false;
        for index in 0..object.functions.len() {
            let function = &object.functions[index];
            if function.nodes.iter().all(|node| node.callee().is_none()) {
                continue;
            }
            let known = Provenance::of(object, FunctionId(index as u32), function, self);
            for (at, node) in function.nodes.iter().enumerate() {
                let Some(callee) = node.callee().and_then(|callee| self.classes.get_mut(callee.index())) else {
                    continue;
                };
                for (number, own) in callee.iter_mut().enumerate() {
                    let given = match known.class(at, Reg::new(number as u8 + 1).expect("there are five")) {
                        // The caller's frame is not the callee's.
                        Class::Frame(_) => Class::Caller,
                        Class::Unknown | Class::Above(_) => Class::Elsewhere,
                        class => class,
                    };
                    let joined = own.join(given);
                    changed |= joined != *own;
                    *own = joined;
                }
            }
        }
        changed
    }
}

impl Provenance {
    /// The classes in a function, which may be another version of the object's.
    pub fn of(object: &Object, id: FunctionId, function: &Function, arguments: &Arguments) -> Provenance {
        let cfg = Cfg::new(function);
        let readable = RegSet::arguments(5).union(RegSet::of(&[Reg::R10]));
        let mut entry =
            Known { registers: [Class::Number; Reg::COUNT], readable, slots: BTreeMap::new(), mixed: false };
        if let Some(own) = arguments.classes.get(id.index()) {
            entry.registers[1..6].copy_from_slice(own);
        }
        entry.registers[Reg::R10.index()] = Class::Frame(Some(0));
        let mut provenance = Provenance { known: vec![None; function.nodes.len()], leaks: arguments.leaks };
        let mut pending = VecDeque::from([0]);
        if let Some(first) = provenance.known.first_mut() {
            *first = Some(entry);
        }
        let types: Vec<Option<ProgramType>> = object.programs.iter().map(|program| program.program_type).collect();
        while let Some(at) = pending.pop_front() {
            let (Some(known), Some(node)) = (provenance.known[at].clone(), function.nodes.get(at)) else { continue };
            let after = known.after(object, node, &types);
            for next in cfg.after(function, at) {
                let joined = match &provenance.known[next] {
                    None => after.clone(),
                    Some(there) => there.join(&after),
                };
                if provenance.known[next].as_ref() != Some(&joined) {
                    provenance.known[next] = Some(joined);
                    pending.push_back(next);
                }
            }
        }
        provenance
    }

    /// Whether a register may be read before an instruction: some path has written it.
    pub fn is_readable(&self, at: usize, reg: Reg) -> bool {
        self.known.get(at).and_then(Option::as_ref).is_none_or(|known| known.readable.contains(reg))
    }

    /// Whether the function makes a number of an address in a frame.
    fn leaks(&self, function: &Function) -> bool {
        let own = |(known, node): (&Option<Known>, &Node)| {
            known.as_ref().is_some_and(|known| known.mixed || known.leaks(node))
        };
        self.known.iter().zip(&function.nodes).any(own)
    }

    /// The class of a register before an instruction.
    pub fn class(&self, at: usize, reg: Reg) -> Class {
        self.known.get(at).and_then(Option::as_ref).map_or(Class::Unknown, |known| known.registers[reg.index()])
    }
}

impl Known {
    fn join(&self, other: &Known) -> Known {
        let registers = std::array::from_fn(|index| self.registers[index].join(other.registers[index]));
        let slot = |known: &Known, at: &i64| known.slots.get(at).copied().unwrap_or(Class::Number);
        let places = self.slots.keys().chain(other.slots.keys());
        let slots = places.map(|at| (*at, slot(self, at).join(slot(other, at)))).collect();
        let mixes = |one: Class, other: Class| {
            one.is_of_frame() && !matches!(other, Class::Frame(_) | Class::Caller | Class::Number)
        };
        let mut both = self.registers.iter().zip(&other.registers);
        let mixed = both.any(|(one, other)| mixes(*one, *other) || mixes(*other, *one)) || self.mixed || other.mixed;
        Known { registers, readable: self.readable.union(other.readable), slots, mixed }
    }

    /// Whether an instruction makes a number of an address in a frame.
    fn leaks(&self, node: &Node) -> bool {
        let class = |reg: Reg| self.registers[reg.index()];
        let is = |reg: Reg| class(reg).is_of_frame();
        let holds = |from: i64, bytes: i64| {
            self.slots.iter().any(|(at, class)| class.is_of_frame() && *at < from + bytes && from < at + 8)
        };
        match plain(node.insn) {
            Insn::Alu { op: AluOp::Mov, width, src: Source::Reg(src), .. } => width != Width::W64 && is(src),
            Insn::Alu { op: AluOp::Mov, .. } | Insn::Alu { op: AluOp::Add, width: Width::W64, .. } => false,
            Insn::Alu { op: AluOp::Sub, width: Width::W64, dst, src } => {
                matches!(src, Source::Reg(src) if is(src) || is(dst) && class(src) != Class::Number)
            }
            Insn::Alu { dst, src, .. } => is(dst) || matches!(src, Source::Reg(src) if is(src)),
            Insn::Store { size, address, src: Source::Reg(src) } => {
                is(src) && !(size == Size::B8 && matches!(class(address.base), Class::Frame(Some(_))))
            }
            Insn::Atomic { src, .. } => is(src),
            Insn::Load { size, address, .. } => match class(address.base) {
                Class::Frame(Some(base)) => {
                    let at = base.wrapping_add(address.offset.into());
                    holds(at, size.bytes().into()) && !(size == Size::B8 && self.slots.contains_key(&at))
                }
                class => class.may_be_frame() && holds(-512, 512),
            },
            // What is called may copy the address from the frame.
            Insn::Call(_) => holds(-512, 512) && RegSet::arguments(5).iter().any(|reg| class(reg).may_be_frame()),
            _ => false,
        }
    }

    // long: one arm for each form of instruction
    fn after(mut self, object: &Object, node: &Node, types: &[Option<ProgramType>]) -> Known {
        let class = |known: &Known, reg: Reg| known.registers[reg.index()];
        let result = match plain(node.insn) {
            Insn::Alu { op, width, dst, src } => {
                let own = class(&self, dst);
                let wide = width == Width::W64;
                let value = match (op, src) {
                    (AluOp::Mov, Source::Reg(src)) if wide => class(&self, src),
                    (AluOp::Add, Source::Imm(imm)) if wide => own.moved(number(node, imm)),
                    (AluOp::Sub, Source::Imm(imm)) if wide => own.moved(number(node, imm).map(i64::wrapping_neg)),
                    (AluOp::Add, Source::Reg(src)) if wide => match (own, class(&self, src)) {
                        (Class::Number, Class::Number) => Class::Number,
                        (Class::Number, pointer) => pointer.moved(None),
                        (pointer, Class::Number) => pointer.moved(None),
                        (one, other) if !one.may_be_frame() && !other.may_be_frame() => Class::Elsewhere,
                        _ => Class::Unknown,
                    },
                    (AluOp::Sub, Source::Reg(src)) if wide => match (own, class(&self, src)) {
                        (pointer, Class::Number) => pointer.moved(None),
                        // The subtracted value may be a scalar.
                        (pointer, Class::Unknown | Class::Above(_) | Class::Elsewhere) => {
                            match pointer.may_be_frame() {
                                true => Class::Unknown,
                                false => Class::Elsewhere,
                            }
                        }
                        _ => Class::Number,
                    },
                    _ => Class::Number,
                };
                Some((dst, value))
            }
            Insn::LoadImm64 { dst, .. } => Some((
                dst,
                match node.reference {
                    Reference::Map(map) => Class::Map(map),
                    Reference::MapValue { map, .. } => Class::Value(map),
                    Reference::Extern(_) => Class::Outside,
                    _ => Class::Number,
                },
            )),
            Insn::Load { size, dst, address, .. } => {
                let at = class(&self, address.base).moved(number(node, address.offset.into()));
                Some((dst, self.loaded(at, size, object, types)))
            }
            // An exchange returns what a slot held.
            Insn::Atomic { size, address, src, .. } => {
                let at = class(&self, address.base).moved(number(node, address.offset.into()));
                let old = self.loaded(at, size, object, types);
                self.stored(at, size, class(&self, src));
                node.insn.written().map(|dst| (dst, old))
            }
            Insn::Store { size, address, src } => {
                let at = class(&self, address.base).moved(number(node, address.offset.into()));
                let value = match src {
                    Source::Reg(src) => class(&self, src),
                    Source::Imm(_) => Class::Number,
                };
                self.stored(at, size, value);
                None
            }
            // The kernel accesses an arena only at addresses that this cast has made.
            Insn::AddressSpaceCast { dst, .. } => Some((dst, Class::Arena)),
            Insn::Call(target) => {
                let value = match target {
                    CallTarget::Kfunc { .. } => called_kfunc(object, node, class(&self, Reg::R3)),
                    target => called(object, target, class(&self, Reg::R1), types),
                };
                self.call(target);
                Some((Reg::R0, value))
            }
            Insn::LoadPacket { .. } => {
                self.clobber();
                Some((Reg::R0, Class::Number))
            }
            _ => node.insn.written().map(|dst| (dst, Class::Number)),
        };
        if let Some((dst, value)) = result {
            self.registers[dst.index()] = value;
            self.readable.insert(dst);
        }
        self
    }

    fn loaded(&self, at: Class, size: Size, object: &Object, types: &[Option<ProgramType>]) -> Class {
        match at {
            Class::Frame(Some(offset)) if size == Size::B8 => self.slots.get(&offset).copied().unwrap_or(Class::Number),
            Class::Frame(Some(_)) => Class::Number,
            Class::Context(Some(offset)) => field(types, offset).map_or(Class::Outside, |value| match value {
                FieldValue::Scalar => Class::Number,
                FieldValue::PacketPointer | FieldValue::PacketEnd | FieldValue::PacketMeta => Class::Packet,
                _ => Class::Outside,
            }),
            Class::Context(None) => Class::Outside,
            Class::Value(map) if is_frozen(object, map) || size != Size::B8 => Class::Number,
            Class::Value(_) | Class::Arena | Class::Outside | Class::Caller if size != Size::B8 => Class::Number,
            Class::Packet | Class::PacketOrNumber => Class::Number,
            Class::Value(_) | Class::Arena | Class::Outside => Class::Outside,
            // Addresses in a frame are not stored outside of it.
            Class::Elsewhere | Class::Caller => Class::Elsewhere,
            _ => Class::Unknown,
        }
    }

    fn stored(&mut self, at: Class, size: Size, value: Class) {
        match at {
            Class::Frame(Some(offset)) => {
                let bytes = i64::from(size.bytes());
                self.slots.retain(|slot, _| slot + 8 <= offset || offset + bytes <= *slot);
                if value != Class::Number {
                    // A part of an address is not an address.
                    self.slots.insert(offset, if size == Size::B8 { value } else { Class::Unknown });
                }
            }
            Class::Frame(None) | Class::Above(_) | Class::Unknown => self.spoil(value),
            _ => {}
        }
    }

    /// Any slot may hold this now.
    fn spoil(&mut self, value: Class) {
        if value == Class::Number {
            return weaken(self.slots.values_mut());
        }
        (-64..0).for_each(|slot| {
            let class = self.slots.entry(8 * slot).or_insert(Class::Number);
            *class = class.join(value);
        });
    }

    fn clobber(&mut self) {
        RegSet::CALLER_SAVED.iter().for_each(|reg| self.registers[reg.index()] = Class::Number);
        self.readable = self.readable.difference(RegSet::CALLER_SAVED);
    }

    fn call(&mut self, target: CallTarget) {
        let writes = RegSet::arguments(5).iter().any(|reg| self.registers[reg.index()].may_be_frame());
        self.clobber();
        // A helper writes scalars, unless it runs a function, which may write anything.
        let helper = match target {
            CallTarget::Helper(id) => Helper::by_id(id),
            _ => None,
        };
        let helper = helper.filter(|helper| !helper.runs_callback() && !helper.runs_callback_later());
        if writes {
            self.spoil(if helper.is_some() { Class::Number } else { Class::Unknown });
        }
        // Addresses in a packet that is changed are numbers from now on.
        if helper.is_none_or(|helper| helper.changes_packet_data) {
            weaken(self.registers.iter_mut().chain(self.slots.values_mut()));
        }
    }
}

/// An address in a packet may have become a number.
fn weaken<'k>(classes: impl Iterator<Item = &'k mut Class>) {
    classes.filter(|class| **class == Class::Packet).for_each(|class| *class = Class::PacketOrNumber);
}

/// An ordered load or store as a plain one.
fn plain(insn: Insn) -> Insn {
    match insn {
        Insn::LoadAcquire { size, dst, address } => Insn::Load { size, signed: false, dst, address },
        Insn::StoreRelease { size, address, src } => Insn::Store { size, address, src: Source::Reg(src) },
        insn => insn,
    }
}

/// A constant of an instruction, unless the loader writes it.
fn number(node: &Node, constant: i32) -> Option<i64> {
    node.core.is_none().then_some(i64::from(constant))
}

/// What a field of the context holds in all programs; `None` if programs differ.
pub fn field(types: &[Option<ProgramType>], offset: i64) -> Option<FieldValue> {
    let offset = u32::try_from(offset).ok()?;
    let mut values = types.iter().map(|program| (*program)?.context().field_at(offset).map(|field| field.value));
    let first = values.next()??;
    values.all(|other| other == Some(first)).then_some(first)
}

/// What a kernel function returns. A slice of a dynptr is memory outside of any frame, or a copy of it in the third argument.
fn called_kfunc(object: &Object, node: &Node, third: Class) -> Class {
    let Reference::Extern(id) = node.reference else { return Class::Unknown };
    let row = object.externs.get(id.index()).and_then(|symbol| Kfunc::by_name(&symbol.name));
    match (row.map(|row| row.meaning), third) {
        (Some(KfuncMeaning::Slice { .. }), Class::Frame(Some(distance))) => Class::Above(distance),
        _ => Class::Unknown,
    }
}

/// What a call returns.
fn called(object: &Object, target: CallTarget, first: Class, types: &[Option<ProgramType>]) -> Class {
    let CallTarget::Helper(id) = target else { return Class::Unknown };
    let Some(helper) = Helper::by_id(id) else { return Class::Unknown };
    let known: Option<Vec<ProgramType>> = types.iter().copied().collect();
    let returns = |program: ProgramType| helper.prototype_for(program).returns;
    let kinds: Vec<ReturnKind> = known.unwrap_or_default().into_iter().map(returns).collect();
    let kind = kinds.first().copied().filter(|kind| kinds.iter().all(|other| other == kind));
    match (kind, first) {
        (Some(ReturnKind::Integer | ReturnKind::Void), _) => Class::Number,
        (Some(ReturnKind::MapValueOrNull | ReturnKind::MapValue), Class::Map(map)) => {
            let nested = |map: &kiln_program::Map| map.map_type.rules().lookup == Lookup::InnerMap;
            match object.maps.get(map.index()) {
                Some(definition) if !nested(definition) => Class::Value(map),
                _ => Class::Outside,
            }
        }
        (None, _) => Class::Unknown,
        _ => Class::Outside,
    }
}
