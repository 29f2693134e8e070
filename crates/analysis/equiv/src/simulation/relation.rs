//! What the registers of the old and of the new function have to do with one another at a cut.
//!
//! ```text
//!   old r6 = old r7 = new r6          one class: whatever it is, it is the same
//!   new r9 = map[counts]              a value that has a name of its own
//!   old r3                            a class by itself: nothing is known
//! ```
//!
//! Relations are found by running: the first way that leads to a cut suggests the strongest one, and every other way
//! that comes there takes away what does not hold after it, until nothing changes any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_isa::semantics::BitVec;
use kiln_isa::{Reg, RegSet};
use kiln_program::{MapId, Reference};
use kiln_verifier::{InsnFacts, Value};
use serde::{Deserialize, Serialize};

use super::segment::Known;
use super::unproved::Unproved;
use crate::term::{QuickMap, Shape, Symbol, Term, TermId};
use crate::window::machine::{Start, WayEnd};
use crate::window::memory::{Class, World, is_frozen};
use crate::window::record::ReferenceRecord;

/// Bytes of a frame, and below it what [`super::inlined`] keeps there.
const FRAMES: std::ops::Range<i32> = -2048..0;
/// Registers of both functions.
const VARIABLES: usize = 2 * Reg::COUNT;

/// Some bits of each register.
type Bits = [u64; Reg::COUNT];

/// What a register holds at a cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Nothing that may be read.
    Unreadable,
    /// What all registers of this class hold.
    Class(u8),
    /// A number.
    Constant(u64),
    /// The frame pointer and a constant.
    Frame(i64),
    /// An address that the loader puts there, and a constant.
    Address(ReferenceRecord, i64),
    /// What a section that nothing writes holds there.
    Frozen {
        /// The section.
        map: u32,
        /// Bytes into it.
        offset: i64,
        /// How many.
        bytes: u8,
        /// Whether it was sign-extended.
        signed: bool,
    },
}

/// The relation at a cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relation {
    /// The old function's registers, then the new one's.
    names: [Name; VARIABLES],
    /// Bits of each register that are equal in both functions.
    bits: Bits,
    /// Bits of registers that are zero: an invariant of each function.
    zero: [u64; VARIABLES],
    /// Bytes of the frame, by their offset, that may differ.
    pub differ: BTreeSet<i32>,
    /// Bytes that may differ if R0 is not zero: what was called then did not write them.
    pub failed: BTreeSet<i32>,
    /// Bytes of the frame that hold a number: of the old function, and of the new one.
    pub held: [BTreeMap<i32, u8>; 2],
    /// Whether R0 is the first element of an array, which is always there.
    pub found: bool,
}

/// What a way brings to a cut.
pub struct Arrival {
    labels: [Option<Label>; VARIABLES],
    bits: Bits,
    zero: [u64; VARIABLES],
    differ: BTreeSet<i32>,
    failed: BTreeSet<i32>,
    held: [BTreeMap<i32, u8>; 2],
    found: bool,
}

/// What a register holds at the end of a way: something with a name of its own, or a term.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Label {
    Named(Name),
    Term(TermId),
}

fn old(reg: Reg) -> usize {
    reg.index()
}

fn new(reg: Reg) -> usize {
    Reg::COUNT + reg.index()
}

impl Relation {
    /// At the beginning of a function: every register holds the same in both.
    pub fn entry() -> Relation {
        let names = std::array::from_fn(|variable| Name::Class((variable % Reg::COUNT) as u8));
        let (differ, failed, held) = (BTreeSet::new(), BTreeSet::new(), Default::default());
        let (bits, zero) = ([u64::MAX; Reg::COUNT], [0; VARIABLES]);
        Relation { names, bits, zero, differ, failed, held, found: false }
    }

    /// At a place that both functions reach in one state: of registers that may not be read there nothing is known.
    pub fn same(facts: &InsnFacts) -> Relation {
        let mut relation = Relation::entry();
        for reg in Reg::all().filter(|reg| facts.registers[reg.index()] == Value::Uninit) {
            relation.names[old(reg)] = Name::Unreadable;
            relation.names[new(reg)] = Name::Unreadable;
            relation.bits[reg.index()] = 0;
        }
        relation
    }

    /// What a first way suggests.
    pub fn of(arrival: &Arrival) -> Relation {
        let mut numbers = HashMap::new();
        let names = arrival.labels.map(|label| match label {
            None => Name::Unreadable,
            Some(Label::Named(name)) => name,
            Some(Label::Term(term)) => numbered(&mut numbers, term),
        });
        let Arrival { bits, zero, differ, failed, held, found, .. } = arrival;
        let (differ, failed, held) = (differ.clone(), failed.clone(), held.clone());
        Relation { names, bits: *bits, zero: *zero, differ, failed, held, found: *found }
    }

    /// Takes away what does not hold after another way; whether there was anything.
    pub fn meet(&mut self, arrival: &Arrival) -> bool {
        let mut numbers = HashMap::new();
        let names = std::array::from_fn(|variable| match (self.names[variable], arrival.labels[variable]) {
            (Name::Unreadable, _) | (_, None) => Name::Unreadable,
            (name, Some(Label::Named(same))) if name == same && !matches!(name, Name::Class(_)) => name,
            (name, Some(label)) => numbered(&mut numbers, (name, label)),
        });
        let differ: BTreeSet<i32> = self.differ.union(&arrival.differ).copied().collect();
        let failed = self.failed.union(&arrival.failed).filter(|byte| !differ.contains(byte)).copied().collect();
        let held = |side: usize| {
            let same = |(byte, value): &(&i32, &u8)| arrival.held[side].get(byte) == Some(value);
            self.held[side].iter().filter(same).map(|(byte, value)| (*byte, *value)).collect()
        };
        let met = Relation {
            names,
            bits: std::array::from_fn(|reg| self.bits[reg] & arrival.bits[reg]),
            zero: std::array::from_fn(|variable| self.zero[variable] & arrival.zero[variable]),
            held: [held(0), held(1)],
            found: self.found && arrival.found,
            differ,
            failed,
        };
        let changed = met != *self;
        *self = met;
        changed
    }

    /// Whether every register that may be read holds the same in both, and memory too.
    pub fn is_identity(&self) -> bool {
        self.differ.is_empty()
            && self.failed.is_empty()
            && Reg::all().all(|reg| self.names[old(reg)] == self.names[new(reg)])
    }

    /// Whether these registers hold the same in both, and memory.
    pub fn is_same_in(&self, registers: RegSet) -> bool {
        let same = |reg: Reg| {
            let name = self.names[old(reg)];
            name == self.names[new(reg)] && name != Name::Unreadable
        };
        self.differ.is_empty() && self.failed.is_empty() && registers.iter().all(same)
    }

    /// Whether it asks for no more than that every register holds the same in both.
    pub fn asks_identity(&self) -> bool {
        let classes = Reg::all().filter(|reg| *reg != Reg::R10).map(|reg| (self.names[old(reg)], self.names[new(reg)]));
        let mut seen = BTreeSet::new();
        let plain = classes.into_iter().all(|(one, other)| match one {
            Name::Class(class) => one == other && seen.insert(class),
            _ => one == other && one == Name::Unreadable,
        });
        plain && !self.found && self.held.iter().all(BTreeMap::is_empty) && self.zero.iter().all(|zero| *zero == 0)
    }

    /// A register of which only some bits are equal, and those.
    fn partly_equal(&self, reg: Reg) -> Option<(u8, u64)> {
        let names = [self.names[old(reg)], self.names[new(reg)]];
        let bits = self.bits[reg.index()];
        (bits != 0 && names[0] != names[1] && !names.contains(&Name::Unreadable)).then_some((reg.number(), bits))
    }

    /// The states in which both functions begin, as far as they differ from the world's.
    pub fn start<'a>(&self, world: &World<'a>) -> [Start<'a>; 2] {
        let mut classes: HashMap<u8, Term<'a>> = HashMap::new();
        // What is known of an old register is known of all that hold the same.
        for reg in Reg::all() {
            if let (Name::Class(class), Some(term)) = (self.names[old(reg)], world.register(reg)) {
                classes.entry(class).or_insert(term);
            }
        }
        let mut zeros: BTreeMap<u8, u64> = BTreeMap::new();
        for (name, zero) in self.names.iter().zip(self.zero) {
            if let Name::Class(class) = name {
                *zeros.entry(*class).or_default() |= zero;
            }
        }
        for (class, zero) in zeros.into_iter().filter(|(_, zero)| *zero != 0) {
            let any = || world.pointer_symbol(Symbol::Own(class), Class::Unknown, None);
            let known = *classes.entry(class).or_insert_with(any);
            classes.insert(class, cleared(&known, zero));
        }
        let mut term = |variable: usize| match self.names[variable] {
            Name::Unreadable => None,
            Name::Class(class) => Some(
                *classes.entry(class).or_insert_with(|| world.pointer_symbol(Symbol::Own(class), Class::Unknown, None)),
            ),
            name => Some(named_term(world, name)),
        };
        let mut registers: [[Option<Term<'a>>; Reg::COUNT]; 2] =
            std::array::from_fn(|side| std::array::from_fn(|reg| term(side * Reg::COUNT + reg)));
        for reg in Reg::all() {
            let [theirs, own] = [registers[0][reg.index()], registers[1][reg.index()]];
            if let (Some(theirs), Some(own)) = (theirs, own)
                && theirs != own
            {
                let part = |(low, bits, equal)| if equal { theirs.extract(low, bits) } else { own.extract(low, bits) };
                let parts: Vec<Term<'a>> = runs(self.bits[reg.index()]).into_iter().map(part).collect();
                registers[1][reg.index()] = Some(world.arena.concat(&parts));
            }
        }
        registers.iter_mut().for_each(|side| side[Reg::R10.index()] = world.register(Reg::R10));
        let frame = frame(world);
        let byte = |offset: &i32| {
            let offset = i64::from(*offset);
            ((frame, offset), world.arena.symbol(Symbol::OwnByte(offset), 8).id())
        };
        let mut bytes: Vec<((u16, i64), TermId)> = self.differ.iter().map(byte).collect();
        bytes.extend(self.failed.iter().map(|offset| {
            let (place, other) = byte(offset);
            let succeeded = registers[0][Reg::R0.index()].map(|result| BitVec::eq(&result, &result.like(0)));
            let same = world.byte(frame, place.1, 0);
            (place, succeeded.map_or(other, |holds| Term::ite(&holds, &same, &world.arena.term(other)).id()))
        }));
        // Where any pointer may lead to the frame, its bytes have no names.
        let named = !world.modes.is_logged(Class::Stack(0));
        let held = |side: usize| -> Vec<_> {
            let held = self.held[side].iter().filter(|_| named);
            held.map(|(at, value)| ((frame, (*at).into()), world.arena.constant(8, (*value).into()).id())).collect()
        };
        bytes.extend(held(1));
        let [first, second] = registers;
        [Start { registers: first, bytes: held(0) }, Start { registers: second, bytes }]
    }

    /// What is true of R0 where both begin.
    pub fn given(&self, start: &Start<'_>) -> Option<TermId> {
        let result = start.registers[Reg::R0.index()].filter(|_| self.found)?;
        Some(Term::not(&BitVec::eq(&result, &result.like(0))).id())
    }

    /// What must be equal for the relation to hold at the end of a way, of all registers but these; the reason where it
    /// cannot.
    pub fn demands(
        &self,
        world: &World<'_>,
        ends: &[WayEnd; 2],
        ignored: RegSet,
    ) -> Result<Vec<(TermId, TermId)>, Unproved> {
        let mut pairs = self.demands_of_memory(world, ends)?;
        let mut classes: HashMap<u8, TermId> = HashMap::new();
        for reg in Reg::all().filter(|reg| *reg != Reg::R10 && !ignored.contains(*reg)) {
            for (side, variable) in [old(reg), new(reg)].into_iter().enumerate() {
                let unreadable = || Unproved::Differs(format!("{reg} is not readable at the end of a way"));
                match self.names[variable] {
                    Name::Unreadable => {}
                    Name::Class(class) => {
                        let term = ends[side].registers[reg.index()].ok_or_else(unreadable)?;
                        let first = *classes.entry(class).or_insert(term);
                        if first != term {
                            pairs.push((first, term));
                        }
                    }
                    name => {
                        let term = ends[side].registers[reg.index()].ok_or_else(unreadable)?;
                        pairs.push((named_term(world, name).id(), term));
                    }
                }
            }
            for (side, variable) in [old(reg), new(reg)].into_iter().enumerate() {
                if let (Name::Class(_), Some(term)) = (self.names[variable], ends[side].registers[reg.index()]) {
                    let parts = runs(self.zero[variable]).into_iter().filter(|(_, _, zero)| *zero);
                    let part = |(low, bits, _)| {
                        (world.arena.term(term).extract(low, bits).id(), world.arena.constant(bits, 0).id())
                    };
                    pairs.extend(parts.map(part).filter(|(part, zero)| part != zero));
                }
            }
            let [first, second] = [0, 1].map(|side: usize| ends[side].registers[reg.index()]);
            if let (Some(first), Some(second)) = (first, second)
                && self.names[old(reg)] != self.names[new(reg)]
            {
                let equal = runs(self.bits[reg.index()]).into_iter().filter(|(_, _, equal)| *equal);
                let part = |term, low, bits| world.arena.term(term).extract(low, bits).id();
                pairs.extend(equal.map(|(low, bits, _)| (part(first, low, bits), part(second, low, bits))));
            }
        }
        Ok(pairs)
    }

    fn demands_of_memory(&self, world: &World<'_>, ends: &[WayEnd; 2]) -> Result<Vec<(TermId, TermId)>, Unproved> {
        let mut pairs = Vec::new();
        let frame = frame(world);
        for (held, end) in self.held.iter().zip(ends) {
            for (at, value) in held {
                if world.modes.is_logged(Class::Stack(0)) || ends[0].uses.writes(i64::from(*at)) {
                    return Err(Unproved::Differs(format!("stack byte {at} may be written")));
                }
                let number = world.arena.constant(8, (*value).into()).id();
                pairs.push((byte_at(world, end, frame, (*at).into()), number));
            }
        }
        if self.found {
            let key =
                ends[0].uses.key.ok_or_else(|| Unproved::differs("this is no lookup of an array's first element"))?;
            let zero = world.arena.constant(8, 0).id();
            pairs.extend((key..key + 4).map(|at| (byte_at(world, &ends[0], frame, at), zero)));
        }
        Ok(pairs)
    }

    /// In words: what is known of the registers of the new function.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut groups: BTreeMap<u8, Vec<String>> = BTreeMap::new();
        for reg in Reg::all().filter(|reg| *reg != Reg::R10) {
            for (side, variable) in [("old", old(reg)), ("new", new(reg))] {
                match self.names[variable] {
                    Name::Unreadable => {}
                    Name::Class(class) => groups.entry(class).or_default().push(format!("{side} {reg}")),
                    name => lines.push(format!("{side} {reg} = {name:?}")),
                }
            }
            let bits = self.bits[reg.index()];
            if bits != 0 && self.names[old(reg)] != self.names[new(reg)] {
                lines.push(format!("old {reg} = new {reg} in the bits {bits:#x}"));
            }
        }
        lines.extend(groups.into_values().filter(|group| group.len() > 1).map(|group| group.join(" = ")));
        if !self.differ.is_empty() {
            let bytes: Vec<_> = self.differ.iter().map(i32::to_string).collect();
            lines.push(format!("may differ: stack bytes {}", bytes.join(" ")));
        }
        if !self.failed.is_empty() {
            let bytes: Vec<_> = self.failed.iter().map(i32::to_string).collect();
            lines.push(format!("may differ if r0 is not zero: stack bytes {}", bytes.join(" ")));
        }
        for (side, held) in ["old", "new"].into_iter().zip(&self.held).filter(|(_, held)| !held.is_empty()) {
            let bytes: Vec<_> = held.iter().map(|(at, value)| format!("{at}: {value:#x}")).collect();
            lines.push(format!("{side} stack bytes: {}", bytes.join(", ")));
        }
        if self.found {
            lines.push("r0 is the first element of an array, and not null".to_owned());
        }
        lines
    }
}

/// A register's bits in runs, from the lowest: from where, how many, and whether the mask has them.
fn runs(mask: u64) -> Vec<(u32, u32, bool)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < u64::BITS {
        let set = mask >> at & 1 == 1;
        let rest = if set { !(mask >> at) } else { mask >> at };
        let bits = rest.trailing_zeros().min(u64::BITS - at);
        found.push((at, bits, set));
        at += bits;
    }
    found
}

/// Bits in which two numbers have one normal form, as far as their parts and their lowest bits tell.
fn equal_bits(world: &World<'_>, one: TermId, other: TermId) -> u64 {
    if one == other {
        return u64::MAX;
    }
    // Half of one address and half of another would be no address.
    if world.are_addresses(one, other) {
        return 0;
    }
    let same = |low: u32, bits: u32| {
        let part = |term| world.arena.term(term).extract(low, bits);
        part(one) == part(other)
    };
    let (mut low, mut high) = (0, u64::BITS);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if same(0, middle) { low = middle } else { high = middle - 1 }
    }
    let prefix = mask_of(0, low);
    let boundaries = world.arena.boundaries(&[one, other], u64::BITS);
    let parts = boundaries.windows(2).map(|part| (part[0], part[1] - part[0])).filter(|(at, bits)| same(*at, *bits));
    parts.fold(prefix, |mask, (at, bits)| mask | mask_of(at, bits))
}

/// Bits of a term that are zero in its normal form.
fn zero_bits(world: &World<'_>, id: TermId) -> u64 {
    let mut zero = 0;
    let boundaries = world.arena.boundaries(&[id], u64::BITS);
    for (low, bits) in boundaries.windows(2).map(|part| (part[0], part[1] - part[0])) {
        if world.arena.term(id).extract(low, bits).as_constant() == Some(0) {
            zero |= mask_of(low, bits);
        }
    }
    zero
}

/// A term with bits cleared that are zero.
fn cleared<'a>(term: &Term<'a>, zero: u64) -> Term<'a> {
    let part = |(low, bits, zero): (u32, u32, bool)| match zero {
        true => term.arena().constant(bits, 0),
        false => term.extract(low, bits),
    };
    let parts: Vec<Term<'a>> = runs(zero).into_iter().map(part).collect();
    term.arena().concat(&parts)
}

fn mask_of(low: u32, bits: u32) -> u64 {
    if bits == 0 { 0 } else { (u64::MAX >> (u64::BITS - bits)) << low }
}

fn numbered<K: std::hash::Hash + Eq>(numbers: &mut HashMap<K, u8>, key: K) -> Name {
    let next = numbers.len() as u8;
    Name::Class(*numbers.entry(key).or_insert(next))
}

/// The number of the root that the frame's bytes are kept under.
pub fn frame(world: &World<'_>) -> u16 {
    let start = world.pointer_symbol(Symbol::FramePointer(0), Class::Stack(0), Some(0));
    world.place(start).0
}

/// A byte of the frame at the end of a way.
pub fn byte_at(world: &World<'_>, end: &WayEnd, frame: u16, offset: i64) -> TermId {
    end.bytes.get(&(frame, offset)).copied().unwrap_or_else(|| world.byte(frame, offset, 0).id())
}

/// The term that a name stands for. Not for classes.
fn named_term<'a>(world: &World<'a>, name: Name) -> Term<'a> {
    let plus = |term: Term<'a>, offset: i64| match offset {
        0 => term,
        offset => term.add(&term.like(offset as u64)),
    };
    match name {
        Name::Constant(value) => world.arena.constant(64, value),
        Name::Frame(offset) => plus(world.pointer_symbol(Symbol::FramePointer(0), Class::Stack(0), Some(0)), offset),
        Name::Address(reference, offset) => plus(world.reference(reference.reference()), offset),
        Name::Frozen { map, offset, bytes, signed } => {
            let start = world.reference(Reference::MapValue { map: MapId(map), offset: 0 });
            let (root, offset) = world.place(plus(start, offset));
            let value = world.bytes(root, offset, bytes.into(), 0);
            if signed { value.sign_extend(64) } else { value.zero_extend(64) }
        }
        Name::Unreadable | Name::Class(_) => unreachable!("a class has no term of its own"),
    }
}

impl Arrival {
    /// What the end of a way brings. `conditions` hold there: a register that they say is a number has its name.
    pub fn of(world: &World<'_>, ends: &[WayEnd; 2], conditions: &[TermId], clobbered: RegSet) -> Arrival {
        let frozen = frozen_loads(world, ends);
        let numbers = decided_numbers(world, conditions);
        let label = |term: TermId| match name_of(world, term, &frozen) {
            Some(name) => Label::Named(name),
            None => numbers.get(&term).map_or(Label::Term(term), |value| Label::Named(Name::Constant(*value))),
        };
        let held = |variable: usize| {
            let reg = Reg::new((variable % Reg::COUNT) as u8)?;
            let end = &ends[variable / Reg::COUNT];
            end.registers[reg.index()].filter(|_| !clobbered.contains(reg))
        };
        let labels = std::array::from_fn(|variable| held(variable).map(label));
        let bits = std::array::from_fn(|reg| match (held(reg), held(Reg::COUNT + reg)) {
            (Some(first), Some(second)) => equal_bits(world, first, second),
            _ => 0,
        });
        let zero = std::array::from_fn(|variable| held(variable).map_or(0, |term| zero_bits(world, term)));
        let uses = &ends[0].uses;
        let (mut differ, mut failed) = (differing_bytes(world, ends, conditions), BTreeSet::new());
        let filled: BTreeSet<i32> = differ.iter().copied().filter(|byte| uses.fills(i64::from(*byte))).collect();
        differ.retain(|byte| !filled.contains(byte));
        if uses.fills_on_success {
            failed = filled;
        }
        Arrival {
            labels,
            bits,
            zero,
            differ,
            failed,
            held: held_bytes(world, ends),
            found: finds_first(world, &ends[0]),
        }
    }

    /// The same value, of which nothing is known, in this register of both functions.
    pub fn with_result(mut self, world: &World<'_>, result: Option<Reg>) -> Arrival {
        if let Some(reg) = result {
            let term = world.arena.symbol(Symbol::Own(u8::MAX), 64).id();
            self.labels[old(reg)] = Some(Label::Term(term));
            self.labels[new(reg)] = Some(Label::Term(term));
            self.bits[reg.index()] = u64::MAX;
            (self.zero[old(reg)], self.zero[new(reg)]) = (0, 0);
        }
        self
    }
}

/// The name of a term that means the same wherever it is computed.
fn name_of(world: &World<'_>, term: TermId, frozen: &QuickMap<TermId, Name>) -> Option<Name> {
    let symbol = |id: TermId, offset: i64| match world.arena.shape(id).0 {
        Shape::Symbol(Symbol::FramePointer(0)) => Some(Name::Frame(offset)),
        Shape::Symbol(Symbol::Reference(reference)) => {
            let reference = ReferenceRecord::of(reference)?;
            Some(Name::Address(reference, offset))
        }
        _ => None,
    };
    match world.arena.shape(term).0 {
        Shape::Constant(value) => Some(Name::Constant(value)),
        Shape::Symbol(_) => symbol(term, 0),
        Shape::Sum(offset, terms) => match *terms {
            [(1, only)] => symbol(only, offset as i64),
            _ => None,
        },
        _ => None,
    }
    .or_else(|| frozen.get(&term).copied())
}

/// What both functions loaded from sections that nothing writes, at places that are known.
fn frozen_loads(world: &World<'_>, ends: &[WayEnd; 2]) -> QuickMap<TermId, Name> {
    let mut found = QuickMap::default();
    for access in ends.iter().flat_map(|end| &end.accesses) {
        let Class::MapValue(map) = access.class else { continue };
        let root = world.root(access.root);
        let start = Symbol::Reference(Reference::MapValue { map, offset: 0 });
        let at_start = world.arena.shape(root.term).0 == Shape::Symbol(start);
        if access.writes || !at_start || !is_frozen(world.object, access.class) {
            continue;
        }
        let bytes = world.bytes(access.root, access.offset, access.bytes, 0);
        for signed in [false, true] {
            let term = if signed { bytes.sign_extend(64) } else { bytes.zero_extend(64) };
            let name = Name::Frozen { map: map.0, offset: access.offset, bytes: access.bytes as u8, signed };
            found.entry(term.id()).or_insert(name);
        }
    }
    found
}

/// Terms that a condition says are a number.
fn decided_numbers(world: &World<'_>, conditions: &[TermId]) -> QuickMap<TermId, u64> {
    let mut found = QuickMap::default();
    for condition in conditions {
        if let Shape::Binary(crate::term::Binary::Eq, one, other) = world.arena.shape(*condition).0 {
            for (term, number) in [(one, other), (other, one)] {
                if let (Shape::Constant(value), 64) = world.arena.shape(number) {
                    found.insert(term, value);
                }
            }
        }
    }
    found
}

/// Bytes of the frame that may differ at the end of a way, where these conditions hold.
pub fn differing_bytes(world: &World<'_>, ends: &[WayEnd; 2], conditions: &[TermId]) -> BTreeSet<i32> {
    let frame = frame(world);
    let mut known = Known::default();
    conditions.iter().for_each(|condition| {
        known.add(world, *condition);
    });
    let places = ends.iter().flat_map(|end| end.bytes.keys()).filter(|(root, _)| *root == frame);
    let differs = |(_, offset): &&(u16, i64)| {
        let [old, new] = [0, 1].map(|side: usize| byte_at(world, &ends[side], frame, *offset));
        old != new && !known.says_equal(world, old, new)
    };
    places.filter(differs).filter_map(|(_, offset)| i32::try_from(*offset).ok()).collect()
}

/// Bytes of the frame that hold a number, whatever the event does.
fn held_bytes(world: &World<'_>, ends: &[WayEnd; 2]) -> [BTreeMap<i32, u8>; 2] {
    let frame = frame(world);
    let named = !world.modes.is_logged(Class::Stack(0));
    [0, 1].map(|side: usize| {
        let places = ends[side].bytes.iter().filter(|((root, at), _)| *root == frame && !ends[0].uses.writes(*at));
        let held = |((_, at), value): (&(u16, i64), &TermId)| {
            Some((i32::try_from(*at).ok()?, world.arena.term(*value).as_constant()? as u8))
        };
        places.filter(|_| named).filter_map(held).collect()
    })
}

/// Whether what comes looks up the first element of an array.
fn finds_first(world: &World<'_>, end: &WayEnd) -> bool {
    let frame = frame(world);
    let is_zero = |at: i64| world.arena.term(byte_at(world, end, frame, at)).as_constant() == Some(0);
    end.uses.key.is_some_and(|key| (key..key + 4).all(is_zero))
}

/// The relation as data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelationRecord {
    /// What R0 to R9 of the old function hold.
    before: Vec<Name>,
    /// What R0 to R9 of the new function hold.
    after: Vec<Name>,
    /// Registers that the functions do not hold the same in, and the bits that are equal all the same.
    equal: Vec<(u8, u64)>,
    /// Registers of each function with bits that are zero, and those.
    #[serde(default, skip_serializing_if = "no_bits")]
    zero: [Vec<(u8, u64)>; 2],
    /// Bytes of the frame that may differ.
    differ: Vec<i32>,
    /// Bytes of the frame that may differ if R0 is not zero.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed: Vec<i32>,
    /// Bytes of the frame that hold a number, of each function.
    #[serde(default)]
    held: [Vec<(i32, u8)>; 2],
    /// Whether R0 is the first element of an array.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    found: bool,
}

fn no_bits(sides: &[Vec<(u8, u64)>; 2]) -> bool {
    sides.iter().all(Vec::is_empty)
}

impl RelationRecord {
    /// The record of a relation.
    pub fn of(relation: &Relation) -> RelationRecord {
        let side = |from: usize| relation.names[from..from + Reg::COUNT - 1].to_vec();
        RelationRecord {
            before: side(0),
            after: side(Reg::COUNT),
            equal: Reg::all().filter_map(|reg| relation.partly_equal(reg)).collect(),
            zero: [old, new].map(|variable: fn(Reg) -> usize| {
                let bits = |reg: Reg| (reg.number(), relation.zero[variable(reg)]);
                let is_class = |reg: &Reg| matches!(relation.names[variable(*reg)], Name::Class(_));
                Reg::all().filter(is_class).map(bits).filter(|(_, bits)| *bits != 0).collect()
            }),
            differ: relation.differ.iter().copied().collect(),
            failed: relation.failed.iter().copied().collect(),
            held: [0, 1].map(|side: usize| relation.held[side].iter().map(|(at, value)| (*at, *value)).collect()),
            found: relation.found,
        }
    }

    /// The relation; the reason where it is none.
    pub fn relation(&self, maps: usize) -> Result<Relation, String> {
        let mut names = [Name::Unreadable; VARIABLES];
        for (from, side) in [(0, &self.before), (Reg::COUNT, &self.after)] {
            if side.len() != Reg::COUNT - 1 {
                return Err("a relation speaks of R0 to R9".to_owned());
            }
            names[from..from + Reg::COUNT - 1].copy_from_slice(side);
        }
        let sound = |name: &Name| match name {
            Name::Frozen { map, bytes, .. } => (*map as usize) < maps && matches!(bytes, 1 | 2 | 4 | 8),
            Name::Class(class) => usize::from(*class) < VARIABLES,
            _ => true,
        };
        if !names.iter().all(sound) {
            return Err("a relation names what there is not".to_owned());
        }
        let mut equal = [0; Reg::COUNT];
        for (reg, bits) in &self.equal {
            *equal.get_mut(usize::from(*reg)).ok_or("there are registers 0 to 10")? = *bits;
        }
        let mut zero = [0; VARIABLES];
        for (side, known) in self.zero.iter().enumerate() {
            for (reg, bits) in known.iter().filter(|(reg, _)| usize::from(*reg) < Reg::COUNT) {
                zero[side * Reg::COUNT + usize::from(*reg)] = *bits;
            }
        }
        let bytes = |bytes: &[i32]| bytes.iter().copied().filter(|at| FRAMES.contains(at)).collect();
        let (differ, failed): (BTreeSet<i32>, BTreeSet<i32>) = (bytes(&self.differ), bytes(&self.failed));
        let held =
            [0, 1].map(|side: usize| self.held[side].iter().copied().filter(|(at, _)| FRAMES.contains(at)).collect());
        Ok(Relation { names, bits: equal, zero, differ, failed, held, found: self.found })
    }
}
