//! A certificate's claims about the two functions at a meeting pair.
//!
//! A claim is assumed where a segment begins only because every segment that ends there proves it, beginning with those
//! from the entry.

use std::collections::BTreeSet;

use kiln_isa::Reg;
use kiln_isa::semantics::{BitVec, mask};
use kiln_program::{ExternId, FunctionId, MapId, Reference};

use crate::state::{Contents, State, World};
use crate::term::Term;

/// Which function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The function before the step.
    Old,
    /// The function after it.
    New,
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// A register, by number.
    Register(Side, u8),
    /// Bytes of the frame, at a distance from R10.
    Frame(Side, i16, u8),
}

/// How a range is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Order {
    /// 64 bits, unsigned.
    Unsigned,
    /// 64 bits, signed.
    Signed,
    /// The lower 32 bits, unsigned.
    Unsigned32,
    /// The lower 32 bits, signed.
    Signed32,
}

/// One claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Claim {
    /// Two values agree in these bits.
    Same(Place, Place, u64),
    /// A value has these bits: mask, and what they are.
    Bits(Place, u64, u64),
    /// A value is R10 and a constant.
    Frame(Place, i64),
    /// A value is an address that the loader puts there, and a constant.
    Address(Place, Target, i64),
    /// A value lies in a range, ends included.
    Range(Place, Order, u64, u64),
    /// The sum of the first value and a constant, as 64 bits, is at most the second value, unsigned.
    Below(Place, Place, i64),
}

/// What a loader's address is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// A map.
    Map(u32),
    /// The first byte of a data section.
    Section(u32),
    /// A function.
    Function(u32),
    /// An extern.
    Extern(u32),
}

impl Target {
    fn reference(self) -> Reference {
        match self {
            Target::Map(map) => Reference::Map(MapId(map)),
            Target::Section(map) => Reference::MapValue { map: MapId(map), offset: 0 },
            Target::Function(function) => Reference::Function(FunctionId(function)),
            Target::Extern(symbol) => Reference::Extern(ExternId(symbol)),
        }
    }
}

/// All claims at a pair.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Relation {
    /// Registers that hold the same in both, as bits.
    pub equal: u16,
    /// Bytes of the frame that may differ, by their distance from R10; all others are the same.
    pub differ: BTreeSet<i16>,
    /// The rest.
    pub claims: Vec<Claim>,
}

impl Relation {
    /// The relation at the entry: the arguments are equal.
    pub fn entry() -> Relation {
        Relation { equal: 0x3e, ..Relation::default() }
    }

    /// The states in which both functions begin, and the assumptions about them.
    ///
    /// # Errors
    /// Returns a claim about a place that does not exist.
    pub fn begin<'a>(&self, world: &World<'a>) -> Result<([State<'a>; 2], Vec<Term<'a>>), String> {
        let symbol = |name: &str, number: usize| world.arena.symbol(&format!("{name}{number}"), 64);
        let state = |own: &str| State {
            registers: std::array::from_fn(|index| match index {
                10 => world.frame_pointer(),
                index if self.equal >> index & 1 == 1 => symbol("r", index),
                index => symbol(own, index),
            }),
            frame: self
                .differ
                .iter()
                .map(|at| (i64::from(*at), world.arena.symbol(&format!("{own}_byte{}", at.unsigned_abs()), 8)))
                .collect(),
            frame_contents: Contents::named("frame"),
            memory: Contents::named("memory"),
            log: Vec::new(),
            ordered: Vec::new(),
            events: 0,
            fields: Vec::new(),
            granted: Vec::new(),
        };
        let mut states = [state("o"), state("n")];
        let mut assumed = Vec::new();
        for claim in &self.claims {
            claim.check()?;
            if let Some((number, side, value)) = claim.value(world, &states) {
                // What is the same in both is set in both.
                for (own, state) in [Side::Old, Side::New].into_iter().zip(&mut states) {
                    if own == side || self.equal >> number & 1 == 1 {
                        state.registers[usize::from(number)] = value;
                    }
                }
            }
            assumed.push(claim.holds(world, &states));
        }
        assumed.retain(|term| term.as_constant() != Some(1));
        Ok((states, assumed))
    }

    /// What must hold where a segment ends.
    ///
    /// # Errors
    /// Returns why the relation cannot hold there.
    pub fn goals<'a>(&self, world: &World<'a>, [old, new]: [&State<'a>; 2]) -> Result<Vec<Term<'a>>, String> {
        let mut goals = Vec::new();
        for number in (0..10).filter(|number| self.equal >> number & 1 == 1) {
            goals.push(BitVec::eq(&old.registers[number], &new.registers[number]));
        }
        let differs = || "the frame was changed in another way".to_owned();
        old.frame_contents.equal(&new.frame_contents, &mut goals).ok_or_else(differs)?;
        let places: BTreeSet<i64> = old.written().chain(new.written()).collect();
        let claimed = |at: &i64| i16::try_from(*at).is_ok_and(|at| self.differ.contains(&at));
        for at in places.into_iter().filter(|at| !claimed(at)) {
            goals.push(BitVec::eq(&old.frame_byte(world, at), &new.frame_byte(world, at)));
        }
        old.same_memory(world, new, &mut goals)?;
        for claim in &self.claims {
            claim.check()?;
            goals.push(claim.holds(world, &[old.clone(), new.clone()]));
        }
        Ok(goals)
    }
}

impl Claim {
    fn places(&self) -> Vec<Place> {
        match *self {
            Claim::Same(one, other, _) | Claim::Below(one, other, _) => vec![one, other],
            Claim::Bits(place, ..) | Claim::Frame(place, _) | Claim::Address(place, ..) | Claim::Range(place, ..) => {
                vec![place]
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let sound = |place: Place| match place {
            Place::Register(_, number) => usize::from(number) < Reg::COUNT - 1,
            Place::Frame(_, at, bytes) => {
                matches!(bytes, 1 | 2 | 4 | 8) && at < 0 && i32::from(at) + i32::from(bytes) <= 0
            }
        };
        let bits = self.places().iter().map(|place| place.bits()).collect::<BTreeSet<_>>();
        let sound = self.places().into_iter().all(sound) && bits.len() == 1;
        let wide = matches!(self, Claim::Frame(..) | Claim::Address(..) | Claim::Range(..) | Claim::Below(..));
        match sound && (!wide || bits.contains(&64)) {
            true => Ok(()),
            false => Err(format!("{self:?} is no claim")),
        }
    }

    /// The place that the claim gives a value, and that value.
    fn value<'a>(&self, world: &World<'a>, states: &[State<'a>; 2]) -> Option<(u8, Side, Term<'a>)> {
        let arena = world.arena;
        match *self {
            Claim::Bits(Place::Register(side, number), u64::MAX, value) => {
                Some((number, side, arena.constant(64, value)))
            }
            Claim::Bits(place @ Place::Register(side, number), bits, 0) => {
                // All but the lowest bits are zero.
                let low = (!bits).trailing_ones();
                let own = place.read(world, states);
                let narrow = !bits == mask(low) && (1..64).contains(&low);
                let cleared = || own.and(&own.like(!bits));
                Some((number, side, if narrow { own.truncate(low).zero_extend(64) } else { cleared() }))
            }
            Claim::Frame(Place::Register(side, number), offset) => {
                Some((number, side, world.frame_pointer().add(&arena.constant(64, offset as u64))))
            }
            Claim::Address(Place::Register(side, number), target, offset) => {
                let address = world.reference(target.reference())?;
                Some((number, side, address.add(&arena.constant(64, offset as u64))))
            }
            Claim::Same(one, Place::Register(side, number), bits) => {
                let (one, own) = (one.read(world, states), Place::Register(side, number).read(world, states));
                // The lowest bits of one are those of the other.
                let low = bits.trailing_ones();
                (bits == mask(low) && low > 0).then(|| match low {
                    64 => (number, side, one),
                    low => (number, side, own.extract(low, 64 - low).concat(one.extract(0, low))),
                })
            }
            _ => None,
        }
    }

    /// Whether the claim is true of two states.
    pub(crate) fn holds<'a>(&self, world: &World<'a>, states: &[State<'a>; 2]) -> Term<'a> {
        let arena = world.arena;
        let constant = |value: i64| arena.constant(64, value as u64);
        match *self {
            Claim::Same(one, other, bits) => {
                let (one, other) = (one.read(world, states), other.read(world, states));
                BitVec::eq(&one.and(&one.like(bits)), &other.and(&other.like(bits)))
            }
            Claim::Bits(place, bits, value) => {
                let own = place.read(world, states);
                BitVec::eq(&own.and(&own.like(bits)), &own.like(value & bits))
            }
            Claim::Frame(place, offset) => {
                BitVec::eq(&place.read(world, states), &world.frame_pointer().add(&constant(offset)))
            }
            Claim::Address(place, target, offset) => {
                let address = world.reference(target.reference()).expect("it is of something");
                BitVec::eq(&place.read(world, states), &address.add(&constant(offset)))
            }
            Claim::Below(one, other, distance) => {
                let (one, other) = (one.read(world, states), other.read(world, states));
                one.add(&constant(distance)).ule(&other)
            }
            Claim::Range(place, order, low, high) => {
                let own = place.read(world, states);
                let own = match order {
                    Order::Unsigned | Order::Signed => own,
                    Order::Unsigned32 | Order::Signed32 => own.truncate(32),
                };
                let (low, high) = (own.like(low), own.like(high));
                match order {
                    Order::Unsigned | Order::Unsigned32 => low.ule(&own).and(&own.ule(&high)),
                    Order::Signed | Order::Signed32 => low.sle(&own).and(&own.sle(&high)),
                }
            }
        }
    }
}

impl Place {
    /// How wide the value is.
    pub fn bits(self) -> u32 {
        match self {
            Place::Register(..) => 64,
            Place::Frame(_, _, bytes) => 8 * u32::from(bytes),
        }
    }

    /// The value.
    pub fn read<'a>(self, world: &World<'a>, states: &[State<'a>; 2]) -> Term<'a> {
        match self {
            Place::Register(side, number) => states[side as usize].registers[usize::from(number)],
            Place::Frame(side, at, bytes) => states[side as usize].frame_bytes(world, at.into(), bytes.into()),
        }
    }
}
