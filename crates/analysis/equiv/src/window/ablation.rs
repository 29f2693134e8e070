//! Ablation: settles questions with one of the checker's ideas switched off. For measurements only.
//!
//! The checker is fast because of *concretizations*, as K2 calls them (Table 4 of its paper): the solver need not find
//! what is known before it is asked. This module removes them one at a time:
//!
//! | switched off | instead |
//! |---|---|
//! | tests | every candidate goes to the proof |
//! | normal form | terms stay as the instructions wrote them; the solver compares all outputs |
//! | byte names | memory is tables of loads and stores; which bytes are the same is still decided |
//! | offsets | every address is a variable, equal to a sum; the solver finds out which are the same |
//! | classes | an address may be that of any other access, whatever it points into, as far as terms tell |
//! | maps | values of all maps are one class |
//!
//! Without names, offsets, classes or maps, memory is not named byte by byte: a load is a chain of choices over the stores
//! before it, the latest first, and loads of what nobody stored are equal where their addresses are (K2's write and
//! read tables, section 4.2). Only straight windows without calls, atomic operations and stores to the context can be
//! asked about in that way.

use kiln_isa::semantics::{BitVec, Flow, Machine, MemoryOrder, execute};
use kiln_isa::{Address, AtomicOp, Imm64, Reg, Size};
use kiln_program::{Node, Reference};

use crate::concrete::Tester;
use crate::term::solver::{self, Answer};
use crate::term::{Arena, Symbol, Term, TermId};
use crate::window::answers::Settled;
use crate::window::check::{compare, compare_in, relevant_assumptions, settle as settle_as_always};
use crate::window::class::{Class, Modes};
use crate::window::limits::Limits;
use crate::window::machine::Target;
use crate::window::memory::World;
use crate::window::question::{Live, Window};
use crate::window::state::Holes;

/// What is switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Without {
    /// Concrete runs.
    pub tests: bool,
    /// The normal form.
    pub normal_form: bool,
    /// Bytes as names.
    pub names: bool,
    /// Places as root and offset.
    pub offsets: bool,
    /// What addresses point into.
    pub classes: bool,
    /// Which map.
    pub maps: bool,
}

/// Settles a question without some of the ideas; `None` if it cannot be asked in that way.
pub fn settle(window: &Window<'_>, limits: &Limits, without: Without) -> Option<Settled> {
    let mut tester = (!without.tests).then(|| Tester::new(window, limits.tests)).flatten();
    if without == (Without { tests: without.tests, ..Without::default() }) {
        return Some(settle_as_always(window, limits, tester.as_mut()).1);
    }
    if tester.as_mut().is_some_and(|tester| tester.difference(window.after).is_some()) {
        return Some(Settled::Tests);
    }
    let arena = if without.normal_form { Arena::literal() } else { Arena::new() };
    let normal = Arena::new();
    let (assumptions, pairs) = if without.names || without.offsets || without.classes || without.maps {
        tables(&arena, window, without)?
    } else {
        // Places and histories are those that the normal form finds. The solver does everything else.
        let Ok((world, _)) = compare(&normal, window, &Holes::default()) else { return Some(Settled::Form) };
        let modes = world.modes.clone();
        let (world, mut pairs) = compare_in(&arena, window, &Holes::default(), modes, Some(&world)).ok()?;
        pairs.extend(world.obligations());
        (relevant_assumptions(&world, &pairs), pairs)
    };
    let open: Vec<_> = pairs.into_iter().filter(|(a, b)| a != b).collect();
    if open.is_empty() {
        return Some(Settled::NormalForm);
    }
    Some(match solver::ask(&arena, &assumptions, &open, limits.solver_steps) {
        Answer::Equal => Settled::SolverEqual,
        Answer::Different(_) => Settled::SolverDifferent,
        Answer::Unknown => Settled::Nobody,
    })
}

/// A byte that was stored or loaded.
#[derive(Clone, Copy)]
struct Byte<'a> {
    place: (u16, i64),
    class: Class,
    /// A variable where offsets are off.
    address: Term<'a>,
    value: Term<'a>,
}

/// What both windows share: the memory before them, and what is known of addresses.
struct Tables<'w, 'a> {
    world: &'w World<'a>,
    without: Without,
    loaded: Vec<Byte<'a>>,
    /// Every address so far, to compare it with others.
    addresses: Vec<(Class, Term<'a>)>,
    assumptions: Vec<TermId>,
}

impl<'a> Tables<'_, 'a> {
    /// Whether two bytes are the same place: a truth value of one bit, or decided.
    fn same(&self, a: &Byte<'a>, b: &Byte<'a>) -> Result<bool, Term<'a>> {
        if !self.without.offsets && a.place.0 == b.place.0 {
            return Ok(a.place.1 == b.place.1);
        }
        if !self.without.classes && self.class(a.class) != self.class(b.class) {
            return Ok(false);
        }
        let equal = BitVec::eq(&a.address, &b.address);
        match equal.as_constant() {
            Some(decided) => Ok(decided == 1),
            None => Err(equal),
        }
    }

    fn class(&self, class: Class) -> Class {
        match class {
            Class::MapValue(_) if self.without.maps => Class::Other,
            class => class,
        }
    }

    /// The first byte of an access.
    fn byte(&mut self, address: Term<'a>, byte: u32) -> Byte<'a> {
        let address = address.add(&address.like(byte.into()));
        let place = self.world.place(address);
        let class = self.world.root(place.0).class;
        let value = self.world.arena.constant(8, 0);
        if !self.without.offsets {
            return Byte { place, class, address, value };
        }
        let symbol = Symbol::Result { log: self.addresses.len() as u32, register: u8::MAX };
        let variable = self.world.arena.symbol(symbol, 64);
        self.assumptions.push(BitVec::eq(&variable, &address).id());
        // Whether regions overlap is no longer decided; they still do not.
        for (other, earlier) in &self.addresses {
            if *other != class {
                self.assumptions.push(Term::not(&BitVec::eq(&variable, earlier)).id());
            }
        }
        self.addresses.push((class, variable));
        Byte { place, class, address: variable, value }
    }

    /// What a byte holds after stores.
    fn value(&mut self, byte: Byte<'a>, stored: &[Byte<'a>]) -> Term<'a> {
        let mut conditions = Vec::new();
        let mut last = None;
        for earlier in stored.iter().rev() {
            match self.same(&byte, earlier) {
                Ok(false) => {}
                Ok(true) => {
                    last = Some(earlier.value);
                    break;
                }
                Err(equal) => conditions.push((equal, earlier.value)),
            }
        }
        let initial = last.unwrap_or_else(|| self.initial(byte));
        conditions.into_iter().rev().fold(initial, |rest, (equal, value)| Term::ite(&equal, &value, &rest))
    }

    /// What a byte held before the window.
    fn initial(&mut self, byte: Byte<'a>) -> Term<'a> {
        let value = self.world.byte(byte.place.0, byte.place.1, 0);
        let byte = Byte { value, ..byte };
        for other in &self.loaded {
            if let Err(equal) = self.same(&byte, other) {
                let differ = Term::not(&equal);
                self.assumptions.push(differ.or(&BitVec::eq(&value, &other.value)).id());
            }
        }
        self.loaded.push(byte);
        value
    }
}

/// A window while it runs.
struct Run<'t, 'w, 'a> {
    tables: &'t mut Tables<'w, 'a>,
    registers: [Option<Term<'a>>; Reg::COUNT],
    stored: Vec<Byte<'a>>,
    reference: Reference,
}

/// Both windows by tables: assumptions, and what must be equal.
fn tables<'a>(arena: &'a Arena, window: &Window<'a>, without: Without) -> Option<(Vec<TermId>, Vec<(TermId, TermId)>)> {
    let world = World::new(arena, window.object, window.facts, Modes::default());
    let (loaded, addresses) = (Vec::new(), Vec::new());
    let mut tables = Tables { world: &world, without, loaded, addresses, assumptions: Vec::new() };
    let (before, stored) = run(&mut tables, window.before)?;
    let (after, restored) = run(&mut tables, window.after)?;
    let live = Live::at(window, Target::End);
    let mut pairs = Vec::new();
    for reg in Reg::all().filter(|reg| live.bits[reg.index()] > 0) {
        if let Some(old) = before[reg.index()] {
            pairs.push((old.id(), after[reg.index()]?.id()));
        }
    }
    for byte in stored.iter().chain(&restored) {
        let own = byte.class == Class::Stack(0) && world.root(byte.place.0).region_offset == Some(0);
        let dead = own && !i32::try_from(byte.place.1).is_ok_and(|offset| live.stack.contains(offset));
        if !dead {
            let (old, new) = (tables.value(*byte, &stored), tables.value(*byte, &restored));
            pairs.push((old.id(), new.id()));
        }
    }
    let mut assumptions = tables.assumptions;
    assumptions.extend(world.assumptions().iter().map(Term::id));
    Some((assumptions, pairs))
}

type Ran<'a> = ([Option<Term<'a>>; Reg::COUNT], Vec<Byte<'a>>);

fn run<'a>(tables: &mut Tables<'_, 'a>, nodes: &[Node]) -> Option<Ran<'a>> {
    let registers = std::array::from_fn(|index| tables.world.register(Reg::new(index as u8)?));
    let mut run = Run { tables, registers, stored: Vec::new(), reference: Reference::None };
    for node in nodes {
        if node.core.is_some() {
            return None;
        }
        run.reference = node.reference;
        let Ok(Flow::Next) = execute(&node.insn, &mut run) else { return None };
    }
    Some((run.registers, run.stored))
}

/// The question cannot be asked in this way.
struct Refused;

impl Run<'_, '_, '_> {
    /// Refuses ordered accesses: the tables do not say how accesses are ordered.
    fn unordered(&self, order: MemoryOrder) -> Result<(), Refused> {
        if order == MemoryOrder::Relaxed { Ok(()) } else { Err(Refused) }
    }
}

impl<'a> Machine for Run<'_, '_, 'a> {
    type Value = Term<'a>;
    type Error = Refused;

    fn register(&mut self, reg: Reg) -> Result<Term<'a>, Refused> {
        self.registers[reg.index()].ok_or(Refused)
    }

    fn set_register(&mut self, reg: Reg, value: Term<'a>) -> Result<(), Refused> {
        self.registers[reg.index()] = Some(value);
        Ok(())
    }

    fn constant(&mut self, value: u64) -> Term<'a> {
        self.tables.world.arena.constant(64, value)
    }

    fn load_imm64(&mut self, imm: Imm64) -> Result<Term<'a>, Refused> {
        match (self.reference, imm) {
            (Reference::None, Imm64::Value(value)) => Ok(self.constant(value)),
            (Reference::None, _) => Err(Refused),
            (reference, _) => Ok(self.tables.world.reference(reference)),
        }
    }

    fn load(&mut self, address: Address, size: Size, order: MemoryOrder) -> Result<Term<'a>, Refused> {
        self.unordered(order)?;
        let base = self.register(address.base)?;
        let at = base.add(&base.like(address.offset as i64 as u64));
        let place = self.tables.world.place(at);
        let world = self.tables.world;
        if world.root(place.0).class == Class::Context {
            // Nothing is stored there, so a field is a variable of its own.
            if size == Size::B4 && world.loads_pointer(place.0, place.1) {
                return Err(Refused);
            }
            let (root, offset) = place;
            return Ok(world
                .arena
                .symbol(Symbol::Field { root, offset, bytes: size.bytes() as u8, log: 0 }, size.bits()));
        }
        let bytes: Vec<_> = (0..size.bytes())
            .map(|byte| {
                let byte = self.tables.byte(at, byte);
                self.tables.value(byte, &self.stored)
            })
            .collect();
        Ok(world.arena.concat(&bytes))
    }

    fn store(&mut self, address: Address, size: Size, value: Term<'a>, order: MemoryOrder) -> Result<(), Refused> {
        self.unordered(order)?;
        let base = self.register(address.base)?;
        let at = base.add(&base.like(address.offset as i64 as u64));
        for byte in 0..size.bytes() {
            let stored = self.tables.byte(at, byte);
            if stored.class == Class::Context {
                return Err(Refused);
            }
            self.stored.push(Byte { value: value.extract(8 * byte, 8), ..stored });
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        _: AtomicOp,
        _: Address,
        _: Size,
        _: Term<'a>,
        _: Option<Term<'a>>,
    ) -> Result<Term<'a>, Refused> {
        Err(Refused)
    }

    fn load_packet(&mut self, _: Option<Term<'a>>, _: i32, _: Size) -> Result<Option<Term<'a>>, Refused> {
        Err(Refused)
    }

    fn cast_address(&mut self, _: Term<'a>, _: u16, _: u16) -> Result<Term<'a>, Refused> {
        Err(Refused)
    }
}
