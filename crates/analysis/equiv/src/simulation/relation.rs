//! How the registers of the old and of the new function are related at a cut.
//!
//! ```text
//!   old r6 = old r7 = new r6          one class: whatever it is, it is the same
//!   new r9 = map[counts]              a value that has a name of its own
//!   old r3                            a class by itself: nothing is known
//! ```
//!
//! Relations are found by running paths. The first path to a cut suggests the strongest relation. Every other path
//! weakens it to what holds after that path, until nothing changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_isa::semantics::BitVec;
use kiln_isa::{Reg, RegSet};
use kiln_verifier::{InsnFacts, StackSet, Value};

use crate::simulation::arrival::{Arrival, Label};
use crate::simulation::name::{Bits, Name, VARIABLES, byte_at, frame, named_term, new, old};
use crate::simulation::unproved::Unproved;
use crate::term::{Symbol, Term, TermId};
use crate::window::class::Class;
use crate::window::memory::World;
use crate::window::way::{Start, WayEnd};

/// The lowest byte of a frame of which facts tell whether it is read.
const LEAST_OFFSET: i32 = -(kiln_platform::limits::MAX_STACK_BYTES as i32);

/// The relation at a cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relation {
    /// The old function's registers, then the new one's.
    pub(super) names: [Name; VARIABLES],
    /// Bits of each register that are equal in both functions.
    pub(super) bits: Bits,
    /// Bits of registers that are zero: an invariant of each function.
    pub(super) zero: [u64; VARIABLES],
    /// Bytes of the frame, by their offset, that may differ.
    pub differ: BTreeSet<i32>,
    /// Bytes that may differ if R0 is not zero, because the call that failed did not write them.
    pub failed: BTreeSet<i32>,
    /// Bytes of the frame that hold a constant, in the old function and in the new one.
    pub held: [BTreeMap<i32, u8>; 2],
    /// Whether R0 is the first element of an array, which is always there.
    pub found: bool,
}

impl Relation {
    /// At the beginning of a function: every register holds the same in both.
    pub fn entry() -> Relation {
        let names = std::array::from_fn(|variable| Name::Class((variable % Reg::COUNT) as u8));
        let (differ, failed, held) = (BTreeSet::new(), BTreeSet::new(), Default::default());
        let (bits, zero) = ([u64::MAX; Reg::COUNT], [0; VARIABLES]);
        Relation { names, bits, zero, differ, failed, held, found: false }
    }

    /// The relation at a place that both functions reach in the same state. Registers that are not readable there are
    /// left out.
    pub fn same(facts: &InsnFacts) -> Relation {
        let mut relation = Relation::entry();
        for reg in Reg::all().filter(|reg| facts.registers[reg.index()] == Value::Uninit) {
            relation.names[old(reg)] = Name::Unreadable;
            relation.names[new(reg)] = Name::Unreadable;
            relation.bits[reg.index()] = 0;
        }
        relation
    }

    /// The relation that a first path suggests.
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

    /// Weakens the relation to what also holds after another path. Returns whether it changed.
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

    /// Whether every readable register is equal in both functions, and memory too.
    pub fn is_identity(&self) -> bool {
        self.differ.is_empty()
            && self.failed.is_empty()
            && Reg::all().all(|reg| self.names[old(reg)] == self.names[new(reg)])
    }

    /// Whether these registers are equal in both functions.
    pub fn is_same_in(&self, registers: RegSet) -> bool {
        let same = |reg: Reg| {
            let name = self.names[old(reg)];
            name == self.names[new(reg)] && name != Name::Unreadable
        };
        registers.iter().all(same)
    }

    /// Whether a byte of the frame may differ that is in this set.
    pub fn differs_in(&self, bytes: impl FnOnce() -> StackSet) -> bool {
        let mut differing = self.differ.union(&self.failed).peekable();
        differing.peek().is_some() && {
            let bytes = bytes();
            // What is written out of other functions lies below the frame, and nothing is known of it.
            differing.any(|byte| *byte < LEAST_OFFSET || bytes.contains(*byte))
        }
    }

    /// Whether the relation only says that every register is equal in both functions.
    pub fn asks_identity(&self) -> bool {
        let classes = Reg::all().filter(|reg| *reg != Reg::R10).map(|reg| (self.names[old(reg)], self.names[new(reg)]));
        let mut seen = BTreeSet::new();
        let plain = classes.into_iter().all(|(one, other)| match one {
            Name::Class(class) => one == other && seen.insert(class),
            _ => one == other && one == Name::Unreadable,
        });
        plain && !self.found && self.held.iter().all(BTreeMap::is_empty) && self.zero.iter().all(|zero| *zero == 0)
    }

    /// The number of a register and its equal bits, if only some of its bits are equal.
    pub(super) fn partly_equal(&self, reg: Reg) -> Option<(u8, u64)> {
        let names = [self.names[old(reg)], self.names[new(reg)]];
        let bits = self.bits[reg.index()];
        (bits != 0 && names[0] != names[1] && !names.contains(&Name::Unreadable)).then_some((reg.number(), bits))
    }

    /// The states in which both functions begin, as far as they differ from the initial state of the world.
    pub fn start<'a>(&self, world: &World<'a>) -> [Start<'a>; 2] {
        let mut classes: HashMap<u8, Term<'a>> = HashMap::new();
        // What is known of an old register holds for all registers of its class.
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
        let [old_bytes, new_bytes] = self.start_bytes(world, registers[0][Reg::R0.index()]);
        let [first, second] = registers;
        [Start { registers: first, bytes: old_bytes }, Start { registers: second, bytes: new_bytes }]
    }

    /// The bytes of memory that differ from the initial state of the world. `result` is the old function's R0.
    fn start_bytes<'a>(&self, world: &World<'a>, result: Option<Term<'a>>) -> [Vec<((u16, i64), TermId)>; 2] {
        let frame = frame(world);
        let byte = |offset: &i32| {
            let offset = i64::from(*offset);
            ((frame, offset), world.arena.symbol(Symbol::OwnByte(offset), 8).id())
        };
        let mut bytes: Vec<((u16, i64), TermId)> = self.differ.iter().map(byte).collect();
        bytes.extend(self.failed.iter().map(|offset| {
            let (place, other) = byte(offset);
            let succeeded = result.map(|result| BitVec::eq(&result, &result.like(0)));
            let same = world.byte(frame, place.1, 0);
            (place, succeeded.map_or(other, |holds| Term::ite(&holds, &same, &world.arena.term(other)).id()))
        }));
        // If any pointer may lead to the frame, its bytes have no names.
        let named = !world.modes.is_logged(Class::Stack(0));
        let held = |side: usize| -> Vec<_> {
            let held = self.held[side].iter().filter(|_| named);
            held.map(|(at, value)| ((frame, (*at).into()), world.arena.constant(8, (*value).into()).id())).collect()
        };
        bytes.extend(held(1));
        [held(0), bytes]
    }

    /// What is known of R0 where both functions begin.
    pub fn given(&self, start: &Start<'_>) -> Option<TermId> {
        let result = start.registers[Reg::R0.index()].filter(|_| self.found)?;
        Some(Term::not(&BitVec::eq(&result, &result.like(0))).id())
    }

    /// The pairs of terms that must be equal for the relation to hold at the end of a path, for all registers except
    /// `clobbered`. Returns the reason if the relation cannot hold.
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

    /// Describes what is known of the new function's registers, one line each.
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

/// Splits a mask into runs of equal bits, from the lowest: first bit, number of bits, and whether they are set.
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

/// A term in which bits that are known to be zero are constants.
fn cleared<'a>(term: &Term<'a>, zero: u64) -> Term<'a> {
    let part = |(low, bits, zero): (u32, u32, bool)| match zero {
        true => term.arena().constant(bits, 0),
        false => term.extract(low, bits),
    };
    let parts: Vec<Term<'a>> = runs(zero).into_iter().map(part).collect();
    term.arena().concat(&parts)
}

fn numbered<K: std::hash::Hash + Eq>(numbers: &mut HashMap<K, u8>, key: K) -> Name {
    let next = numbers.len() as u8;
    Name::Class(*numbers.entry(key).or_insert(next))
}
