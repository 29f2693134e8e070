//! Guesses the relations at the meeting pairs of two versions of a function.
//!
//! The first path that reaches a pair suggests the strongest relation there. Every other path removes what does not
//! hold after it, until nothing changes. None of this is trusted: the checker proves the result.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::evaluate::States;
use crate::prove::both_ways;
use crate::relation::{Claim, Order, Place, Relation, Side, Target};
use crate::solver::{Answer, Solver};
use crate::state::{State, World};
use crate::term::{Arena, Term};
use crate::walk::{Pair, Step, Visitor, Walk};
use kiln_isa::semantics::BitVec;
use kiln_isa::{AluOp, Insn, Reg, RegSet, Size, Source};
use kiln_program::Node;

/// Maximum number of times that the relation of a pair is weakened.
const ROUNDS: usize = 40;
/// Constants that are tried as the bound of a register.
const MAX_BOUNDS: usize = 8;
/// Sums of one register that are tried as below another.
const MAX_DISTANCES: usize = 4;

/// What a place holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Label {
    /// The same value as in all places of this class.
    Class(u32),
    Constant(u64),
    Frame(i64),
    Address(Target, i64),
    /// A value that is not read.
    Dead,
}

/// The guessed relation at a pair.
#[derive(Clone, PartialEq, Debug)]
struct Guess {
    /// The label of each place.
    labels: Vec<Label>,
    /// Bits in which registers of one number agree.
    agree: [u64; 10],
    /// Bits that are zero in a register of the old function, and of the new one.
    zeros: [[u64; 10]; 2],
    /// Maximum values of registers of the old and of the new function that are loop counters.
    most: [[Option<u64>; 10]; 2],
    /// Places of which one is below another, and by how much at least.
    below: BTreeSet<(Place, Place, i64)>,
    differ: BTreeSet<i16>,
}

/// Places that a relation may speak of.
pub struct Places {
    all: Vec<Place>,
    live: [Vec<RegSet>; 2],
    /// Positions of the old function to which a later one leads back.
    loops: BTreeSet<u32>,
    /// Candidate maxima of registers: the constants that they are compared with, and one less.
    bounds: [BTreeSet<u64>; 10],
    compared: Compared,
}

impl Places {
    /// Registers, and the parts of the frame that either version names.
    pub fn of(step: &Step<'_>) -> Places {
        let mut slots = BTreeSet::new();
        for version in &step.versions {
            for node in &version.function.nodes {
                let (size, address) = match node.insn {
                    Insn::Load { size, address, .. } | Insn::Store { size, address, .. } => (size, address),
                    _ => continue,
                };
                let bytes = size.bytes() as u8;
                let inside = address.offset < 0 && i32::from(address.offset) + i32::from(bytes) <= 0;
                if address.base == Reg::R10 && inside {
                    slots.insert((address.offset, bytes));
                }
            }
        }
        let mut all = Vec::new();
        for side in [Side::Old, Side::New] {
            all.extend((0..10).map(|number| Place::Register(side, number)));
        }
        for side in [Side::Old, Side::New] {
            all.extend(slots.iter().map(|(at, bytes)| Place::Frame(side, *at, *bytes)));
        }
        let live = [0, 1].map(|side: usize| crate::live::before(step.versions[side].function));
        let olds = step.pairs.keys().map(|pair| pair.0);
        let loops = olds.filter(|at| super::pairs::is_loop(&step.versions[0].cfg, *at)).collect();
        let mut bounds: [BTreeSet<u64>; 10] = Default::default();
        for node in step.versions.iter().flat_map(|version| &version.function.nodes) {
            if let Insn::Branch { dst, src: Source::Imm(imm), .. } = node.insn
                && let (Ok(imm), Some(own)) = (u64::try_from(imm), bounds.get_mut(dst.index()))
            {
                own.extend([imm, imm.saturating_sub(1)]);
            }
        }
        let compared = Compared::of(step);
        Places { all, live, loops, bounds, compared }
    }

    fn is_live(&self, place: Place, pair: Pair) -> bool {
        let Place::Register(_, number) = place else { return true };
        let at = [pair.0, pair.1];
        let reg = Reg::new(number).expect("there are ten");
        [0, 1].iter().any(|side| self.live[*side].get(at[*side] as usize).is_none_or(|live| live.contains(reg)))
    }
}

/// Guesses the relation at each pair that is reached.
///
/// # Errors
/// Returns why the functions do not correspond, and at which positions of the old one they do not meet.
pub fn relations(
    step: &Step<'_>,
    solver: &mut dyn Solver,
    stop: &dyn Fn() -> bool,
) -> Result<BTreeMap<Pair, Relation>, (String, BTreeSet<u32>)> {
    let places = Places::of(step);
    let object = step.callees[0];
    let types: Vec<_> = object.programs.iter().map(|program| program.program_type).collect();
    let mut guesses: BTreeMap<Pair, Guess> = BTreeMap::new();
    let mut pending: BTreeSet<Pair> = BTreeSet::new();
    let mut left = ROUNDS * (step.pairs.len() + 1);
    let mut first = true;
    loop {
        let (pair, relation) = match pending.pop_first() {
            _ if std::mem::take(&mut first) => ((0, 0), Relation::entry()),
            Some(pair) => (pair, guesses[&pair].relation(&places)),
            None => break,
        };
        if stop() {
            return Err(("there was no time for a proof".to_owned(), BTreeSet::new()));
        }
        left = left.checked_sub(1).ok_or_else(|| ("the relations do not settle".to_owned(), BTreeSet::new()))?;
        let arena = Arena::default();
        let world = World { arena: &arena, object, types: types.clone() };
        let mut arrivals = Arrivals::new(&world, &places, solver, stop);
        let walked = Walk::new(&world, step).from(pair, &relation, &mut arrivals);
        walked.map_err(|why| (format!("from ({}, {}): {why}", pair.0, pair.1), arrivals.blamed))?;
        for (to, arrival) in arrivals.found {
            let changed = match guesses.get_mut(&to) {
                Some(guess) => guess.meet(&arrival),
                None => {
                    guesses.insert(to, arrival);
                    true
                }
            };
            if changed {
                pending.insert(to);
            }
        }
    }
    Ok(guesses.into_iter().map(|(pair, guess)| (pair, guess.relation(&places))).collect())
}

struct Arrivals<'p, 'a> {
    world: &'p World<'a>,
    places: &'p Places,
    solver: &'p mut dyn Solver,
    stop: &'p dyn Fn() -> bool,
    found: Vec<(Pair, Guess)>,
    blamed: BTreeSet<u32>,
    /// States in which what is known holds, and any states.
    states: States<'a>,
    any: States<'a>,
}

/// What may be below what: a check that a pointer is in a packet compares a sum with what the new function alone keeps in
/// its frame. In a loop, the sum may be below a register, and that one below what is kept.
#[derive(Default)]
struct Compared {
    /// Registers that the functions compare with another one, each with what is kept.
    ends: Vec<(Place, Place)>,
    /// What is added in such a check.
    distances: BTreeSet<i64>,
}

impl Compared {
    fn of(step: &Step<'_>) -> Compared {
        let [old, new] = [0, 1].map(|side: usize| &step.versions[side].function.nodes);
        let kept = |nodes: &[Node]| -> BTreeSet<i16> {
            let stored = nodes.iter().filter_map(|node| match node.insn {
                Insn::Store { size: Size::B8, address, .. } if address.base == Reg::R10 => Some(address.offset),
                _ => None,
            });
            stored.filter(|at| *at <= -8).collect()
        };
        let slots: Vec<i16> = kept(new).difference(&kept(old)).copied().collect();
        let Some(slot) = slots.first() else { return Compared::default() };
        let is_old = |node: &Node| old.iter().any(|own| own.id == node.id);
        let sums =
            new.windows(2).filter(|pair| !is_old(&pair[0])).filter_map(|pair| match (pair[0].insn, pair[1].insn) {
                (Insn::Alu { op: AluOp::Add, src: Source::Imm(imm), .. }, Insn::Branch { .. }) => Some(i64::from(imm)),
                _ => None,
            });
        let pairs = old.iter().filter_map(|node| match node.insn {
            Insn::Branch { dst, src: Source::Reg(src), .. } => Some([dst, src]),
            _ => None,
        });
        let ends: BTreeSet<Reg> = pairs.flatten().filter(|end| *end != Reg::R10).collect();
        let with = |end: Reg| (Place::Register(Side::Old, end.number()), Place::Frame(Side::New, *slot, 8));
        Compared { ends: ends.into_iter().map(with).collect(), distances: sums.take(MAX_DISTANCES).collect() }
    }
}

impl<'p, 'a> Arrivals<'p, 'a> {
    fn new(
        world: &'p World<'a>,
        places: &'p Places,
        solver: &'p mut dyn Solver,
        stop: &'p dyn Fn() -> bool,
    ) -> Arrivals<'p, 'a> {
        let (states, any) = (States::of(world.arena, &[]), States::any(world.arena));
        Arrivals { world, places, solver, stop, found: Vec::new(), blamed: BTreeSet::new(), states, any }
    }

    fn go_on(&self) -> Result<(), String> {
        if (self.stop)() { Err("there was no time".to_owned()) } else { Ok(()) }
    }

    /// Whether a goal follows from what is known, which [`Arrivals::states`] are of.
    fn follows(&mut self, known: &[Term<'a>], goal: Term<'a>) -> bool {
        !self.states.refute(goal) && self.solver.follows(self.world.arena, known, goal) == Answer::Unsat
    }

    fn equal(&mut self, known: &[Term<'a>], one: Term<'a>, other: Term<'a>) -> bool {
        let goal = BitVec::eq(&one, &other);
        if let Some(value) = goal.as_constant() {
            return value == 1;
        }
        let lost = |term: Term<'a>| term.name().is_some_and(|name| name.starts_with("lost_"));
        if lost(one) || lost(other) {
            return false;
        }
        // A difference in every state is a difference in the states that reach this pair, unless a branch compared the
        // value with a constant.
        let differ = self.any.values(goal).all(|value| value == 0);
        let compared = one.as_constant().is_some() || other.as_constant().is_some();
        (!differ || compared && !known.is_empty()) && self.follows(known, goal)
    }

    /// Bits in which two values agree.
    fn agreeing(&mut self, known: &[Term<'a>], old: Term<'a>, new: Term<'a>) -> u64 {
        let difference = old.xor(&new);
        let sampled = self.any.values(difference).fold(u64::MAX, |bits, value| bits & !value);
        let goal = difference.and(&difference.like(sampled)).is_zero();
        let holds = sampled != 0 && (goal.as_constant() == Some(1) || self.follows(known, goal));
        if holds { sampled } else { 0 }
    }

    /// Merges places with equal values of different form into one term: those that random states do not distinguish are
    /// proved equal.
    fn unify(&mut self, known: &[Term<'a>], terms: &mut [Option<Term<'a>>]) {
        let mut firsts: HashMap<(u32, Vec<u64>), Term<'a>> = HashMap::new();
        for own in terms.iter_mut().flatten() {
            let lost = own.name().is_some_and(|name| name.starts_with("lost_"));
            if lost || named(self.world, *own).is_some() {
                continue;
            }
            let values = self.any.values(*own).collect();
            let first = *firsts.entry((own.bits(), values)).or_insert(*own);
            if first != *own && self.follows(known, BitVec::eq(&first, own)) {
                *own = first;
            }
        }
    }

    /// The maximum of a register at the beginning of a loop: its least bound that is proved.
    fn most(&mut self, known: &[Term<'a>], pair: Pair, number: usize, own: Term<'a>) -> Option<u64> {
        if !self.places.loops.contains(&pair.0) || own.as_constant().is_some() {
            return own.as_constant();
        }
        let places = self.places;
        let mut bounds = places.bounds[number].iter().take(MAX_BOUNDS);
        bounds.find(|bound| self.follows(known, own.ule(&own.like(**bound)))).copied()
    }

    /// The places of which one is below another at the beginning of a loop.
    fn below(&mut self, known: &[Term<'a>], pair: Pair, states: &[State<'a>; 2]) -> BTreeSet<(Place, Place, i64)> {
        let places = self.places;
        let mut found = BTreeSet::new();
        let is_loop = places.loops.contains(&pair.0);
        let live = |place: &Place| is_loop && places.is_live(*place, pair);
        let mut holds = |one: Place, other: Place, distance: i64| {
            let goal = Claim::Below(one, other, distance).holds(self.world, states);
            goal.as_constant().map_or_else(|| self.follows(known, goal), |value| value == 1)
        };
        for (end, kept) in places.compared.ends.iter().filter(|(end, _)| live(end)) {
            if !holds(*end, *kept, 0) {
                continue;
            }
            found.insert((*end, *kept, 0));
            for own in (0..10).map(|number| Place::Register(Side::Old, number)).filter(|own| own != end && live(own)) {
                let distances = places.compared.distances.iter().filter(|distance| holds(own, *end, **distance));
                found.extend(distances.map(|distance| (own, *end, *distance)));
            }
        }
        found
    }

    /// Replaces terms by the constants that the branches have decided them to be.
    fn decide_terms(&mut self, known: &[Term<'a>], terms: &mut [Option<Term<'a>>]) {
        // A bit that a branch has decided.
        for number in 0..20 {
            let Some(own) = terms[number].filter(|own| own.as_constant().is_none()) else { continue };
            let open = !own.zeros();
            if open.count_ones() == 1 && !known.is_empty() {
                let value =
                    [open, 0].into_iter().find(|value| self.follows(known, BitVec::eq(&own, &own.like(*value))));
                terms[number] = value.map(|value| own.like(value)).or(terms[number]);
            }
        }
        // What a branch has compared with a constant.
        for own in terms.iter_mut().flatten() {
            let value = known.iter().find_map(|term| {
                let (equal, value) = term.equated()?;
                let low = equal.bits() == 32 && own.bits() == 64 && own.zeros() >> 32 == u64::from(u32::MAX);
                (equal == *own || low && equal == own.truncate(32)).then_some(value)
            });
            *own = value.filter(|_| own.bits() == 64).map_or(*own, |value| own.like(value));
        }
    }

    fn guess(&mut self, known: &[Term<'a>], pair: Pair, states: [&State<'a>; 2]) -> Guess {
        let both = [states[0].clone(), states[1].clone()];
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut terms = Vec::new();
        for place in &self.places.all {
            terms.push(self.places.is_live(*place, pair).then(|| place.read(self.world, &both)));
        }
        self.decide_terms(known, &mut terms);
        // Registers of one number that are equal for a reason that is not their form.
        let mut agree = [0; 10];
        for number in 0..10 {
            let (Some(old), Some(new)) = (terms[number], terms[10 + number]) else { continue };
            if self.equal(known, old, new) {
                agree[number] = u64::MAX;
                terms[10 + number] = Some(old);
                continue;
            }
            agree[number] = self.agreeing(known, old, new);
        }
        self.unify(known, &mut terms);
        let label = |term: Option<Term<'a>>| {
            let Some(term) = term else { return Label::Dead };
            named(self.world, term).unwrap_or_else(|| {
                let next = numbers.len() as u32;
                Label::Class(*numbers.entry(term.id()).or_insert(next))
            })
        };
        let labels = terms.iter().copied().map(label).collect();
        let zeros =
            [0, 1].map(|side: usize| std::array::from_fn(|number| terms[10 * side + number].map_or(0, Term::zeros)));
        let most = [0, 1].map(|side: usize| {
            std::array::from_fn(|number| self.most(known, pair, number, terms[10 * side + number]?))
        });
        let written: BTreeSet<i64> = states.iter().flat_map(|state| state.written()).collect();
        let mut differ = BTreeSet::new();
        for at in written {
            let [old, new] = [0, 1].map(|side: usize| states[side].frame_byte(self.world, at));
            if !self.equal(known, old, new) {
                differ.extend(i16::try_from(at));
            }
        }
        let below = self.below(known, pair, &both);
        Guess { labels, agree, zeros, most, below, differ }
    }
}

/// The name of a value that has one.
fn named<'a>(world: &World<'a>, term: Term<'a>) -> Option<Label> {
    if let Some(value) = term.as_constant() {
        return Some(Label::Constant(value));
    }
    let (base, offset) = term.split();
    let name = base.name()?;
    let number = |kind: &str| name.strip_prefix(kind)?.parse::<u32>().ok();
    if base == world.frame_pointer() {
        return Some(Label::Frame(offset as i64));
    }
    let targets = [
        number("map_").map(Target::Map),
        number("section_").map(Target::Section),
        number("function_").map(Target::Function),
        number("extern_").map(Target::Extern),
    ];
    targets.into_iter().flatten().next().map(|target| Label::Address(target, offset as i64))
}

impl Guess {
    /// Removes what does not hold after another path. Returns whether anything was removed.
    fn meet(&mut self, other: &Guess) -> bool {
        let before = self.clone();
        let mut numbers: HashMap<(Label, Label), u32> = HashMap::new();
        for (own, other) in self.labels.iter_mut().zip(&other.labels) {
            let fresh = |label: &Label| matches!(label, Label::Class(_));
            if own == other && !fresh(own) {
                continue;
            }
            let next = numbers.len() as u32;
            *own = match (*own, *other) {
                (Label::Dead, _) | (_, Label::Dead) => Label::Dead,
                both => Label::Class(*numbers.entry(both).or_insert(next)),
            };
        }
        for number in 0..10 {
            self.agree[number] &= other.agree[number];
            for side in 0..2 {
                self.zeros[side][number] &= other.zeros[side][number];
                let most = &mut self.most[side][number];
                *most = most.zip(other.most[side][number]).map(|(one, other)| one.max(other));
            }
        }
        self.below.retain(|own| other.below.contains(own));
        self.differ.extend(&other.differ);
        *self != before
    }

    /// Claims about the bits and ranges of registers; `equal` says which registers are equal in both functions.
    fn claim_numbers(&self, equal: u16, claims: &mut Vec<Claim>) {
        for number in 0..10u8 {
            let index = usize::from(number);
            let [old, new] = [Side::Old, Side::New].map(|side| Place::Register(side, number));
            let open = equal >> number & 1 == 0 && self.labels[index] != Label::Dead;
            if open && self.agree[index] != 0 {
                claims.push(Claim::Same(old, new, self.agree[index]));
            }
            for (side, place) in [old, new].into_iter().enumerate() {
                let zeros = self.zeros[side][index];
                let plain = matches!(self.labels[10 * side + index], Label::Class(_));
                if !plain || side == 1 && !open {
                    continue;
                }
                if zeros != 0 {
                    claims.push(Claim::Bits(place, zeros, 0));
                }
                if let Some(most) = self.most[side][index] {
                    claims.push(Claim::Range(place, Order::Unsigned, 0, most));
                }
            }
        }
    }

    /// The relation as claims.
    fn relation(&self, places: &Places) -> Relation {
        let mut relation = Relation { differ: self.differ.clone(), ..Relation::default() };
        for number in 0..10 {
            let live = self.labels[number] != Label::Dead;
            if live && self.labels[number] == self.labels[10 + number] {
                relation.equal |= 1 << number;
            }
        }
        let implied = |place: Place| match place {
            // Places about which another claim says this already.
            Place::Register(Side::New, number) => relation.equal >> number & 1 == 1,
            Place::Frame(Side::New, at, bytes) => (at..at + i16::from(bytes)).all(|at| !relation.differ.contains(&at)),
            _ => false,
        };
        let mut claims = Vec::new();
        let mut firsts: HashMap<(u32, u32), Place> = HashMap::new();
        for (place, label) in places.all.iter().zip(&self.labels).filter(|(place, _)| !implied(**place)) {
            match label {
                Label::Constant(value) => claims.push(Claim::Bits(*place, u64::MAX >> (64 - place.bits()), *value)),
                Label::Frame(offset) if place.bits() == 64 => claims.push(Claim::Frame(*place, *offset)),
                Label::Address(target, offset) if place.bits() == 64 => {
                    claims.push(Claim::Address(*place, *target, *offset));
                }
                _ => {}
            }
        }
        for (place, label) in places.all.iter().zip(&self.labels).filter(|(place, _)| !implied(**place)) {
            let Label::Class(class) = label else { continue };
            match firsts.get(&(*class, place.bits())) {
                // The later place of an order is given the value of the earlier one.
                Some(Place::Register(side, number)) if matches!(place, Place::Frame(..)) => {
                    claims.push(Claim::Same(*place, Place::Register(*side, *number), u64::MAX));
                }
                Some(first) => claims.push(Claim::Same(*first, *place, u64::MAX >> (64 - place.bits()))),
                None => {
                    firsts.insert((*class, place.bits()), *place);
                }
            }
        }
        self.claim_numbers(relation.equal, &mut claims);
        claims.extend(self.below.iter().map(|(one, other, distance)| Claim::Below(*one, *other, *distance)));
        relation.claims = claims;
        relation
    }
}

impl<'a> Visitor<'a> for Arrivals<'_, 'a> {
    fn decide(&mut self, known: &[Term<'a>], condition: Term<'a>) -> Option<bool> {
        self.states = States::of(self.world.arena, known);
        let goals = both_ways(&mut self.states, condition);
        goals.into_iter().find(|(goal, _)| self.follows(known, *goal)).map(|(_, value)| value)
    }

    fn event(&mut self, _: &[Term<'a>], _: Vec<Term<'a>>, _: &str) -> Result<(), String> {
        self.go_on()
    }

    fn meet(&mut self, known: &[Term<'a>], pair: Pair, states: [&State<'a>; 2]) -> Result<(), String> {
        self.go_on()?;
        self.states = States::of(self.world.arena, known);
        let guess = self.guess(known, pair, states);
        self.found.push((pair, guess));
        Ok(())
    }

    fn apart(&mut self, known: &[Term<'a>], what: &str, at: Option<u32>) -> Result<(), String> {
        self.go_on()?;
        self.states = States::of(self.world.arena, known);
        let never = self.world.arena.truth(false);
        match self.follows(known, never) {
            true => Ok(()),
            false => {
                self.blamed.extend(at);
                Err(format!("they do not go together: {what}"))
            }
        }
    }
}
