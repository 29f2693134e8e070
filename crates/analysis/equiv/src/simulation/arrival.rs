//! What a path brings to a cut.

use std::collections::{BTreeMap, BTreeSet};

use kiln_isa::semantics::BitVec;
use kiln_isa::{Reg, RegSet};
use kiln_program::Reference;

use crate::simulation::known::Known;
use crate::simulation::name::{Bits, Name, VARIABLES, byte_at, frame, new, old};
use crate::term::{QuickMap, Shape, Symbol, TermId};
use crate::window::class::{Class, is_frozen};
use crate::window::memory::World;
use crate::window::record::ReferenceRecord;
use crate::window::way::WayEnd;

/// What is known at the end of a path that reaches a cut.
pub struct Arrival {
    pub(super) labels: [Option<Label>; VARIABLES],
    pub(super) bits: Bits,
    pub(super) zero: [u64; VARIABLES],
    pub(super) differ: BTreeSet<i32>,
    pub(super) failed: BTreeSet<i32>,
    pub(super) held: [BTreeMap<i32, u8>; 2],
    pub(super) found: bool,
}

/// What a register holds at the end of a path: a named value, or a term.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Label {
    Named(Name),
    Term(TermId),
}

/// Bits that are equal in the normal forms of two numbers, as far as their parts and their lowest bits show it.
fn equal_bits(world: &World<'_>, one: TermId, other: TermId) -> u64 {
    if one == other {
        return u64::MAX;
    }
    // A value made of two halves of addresses would not be an address.
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

fn mask_of(low: u32, bits: u32) -> u64 {
    if bits == 0 { 0 } else { (u64::MAX >> (u64::BITS - bits)) << low }
}

impl Arrival {
    /// What is known at the end of a path where `conditions` hold. A register that the conditions fix to a constant
    /// gets that constant as its name.
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

    /// Adds an event's result: this register holds the same unknown value in both functions.
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

/// The name of a term that has the same meaning wherever it is computed; `None` if it has none.
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

/// Values that both functions loaded from known places in sections that nothing writes.
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

/// Terms that a condition fixes to a constant.
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

/// Bytes of the frame that may differ at the end of a path where these conditions hold.
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

/// Bytes of the frame that hold a constant, and that the event does not write.
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

/// Whether the event looks up the first element of an array.
fn finds_first(world: &World<'_>, end: &WayEnd) -> bool {
    let frame = frame(world);
    let is_zero = |at: i64| world.arena.term(byte_at(world, end, frame, at)).as_constant() == Some(0);
    end.uses.key.is_some_and(|key| (key..key + 4).all(is_zero))
}
