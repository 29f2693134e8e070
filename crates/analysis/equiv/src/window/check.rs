//! Settles a question, by concrete runs, normal form or the solver.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use kiln_isa::semantics::BitVec;
use kiln_isa::{AluOp, Imm64, Insn, Reg, Source, Width};
use kiln_program::{CoreRelocation, Node, Object};
use kiln_verifier::Value;

use crate::concrete::{Input, Random, Tester};
use crate::term::evaluate::Evaluator;
use crate::term::smt;
use crate::term::solver::{self, Answer};
use crate::term::{Arena, QuickMap, Symbol, Term, TermId};
use crate::window::answers::Settled;
use crate::window::calls::Call;
use crate::window::class::{Class, Modes, has_one_value, is_frozen};
use crate::window::limits::Limits;
use crate::window::machine::{Final, Outcome, run};
use crate::window::memory::{World, without_registers};
use crate::window::question::{Live, Window};
use crate::window::record::{RecordError, WindowRecord};
use crate::window::shared::shared_memory_kept;
use crate::window::state::{Access, Holes};
use crate::window::verdict::{Counterexample, Method, Proof, Verdict};

/// Decides whether a window's `after` may stand for its `before`.
pub fn check(window: &Window<'_>, limits: &Limits) -> Verdict {
    let settle = || {
        let mut tester = (limits.tests > 0).then(|| Tester::new(window, limits.tests)).flatten();
        settle(window, limits, tester.as_mut())
    };
    match &limits.answers {
        Some(answers) => answers.answer(window, limits, settle),
        None => settle().0,
    }
}

/// Does the same as [`check`] with a tester of the original that the caller keeps. This saves the concrete runs of the
/// original, and the tester learns the solver's counterexamples.
pub fn check_with(window: &Window<'_>, limits: &Limits, tester: Option<&mut Tester>) -> Verdict {
    match &limits.answers {
        Some(answers) => answers.answer(window, limits, || settle(window, limits, tester)),
        None => settle(window, limits, tester).0,
    }
}

/// Tries the three methods, the cheapest first.
pub(crate) fn settle(window: &Window<'_>, limits: &Limits, mut tester: Option<&mut Tester>) -> (Verdict, Settled) {
    let begin = Instant::now();
    if let Some(counterexample) = tester.as_mut().and_then(|tester| tester.difference(window.after)) {
        return (Verdict::Different(Box::new(counterexample)), Settled::Tests);
    }
    let arena = Arena::new();
    let no_holes = Holes::default();
    let (world, comparison) = match compare(&arena, window, &no_holes) {
        Ok(compared) => compared,
        Err(reason) => return (Verdict::Unknown(reason), Settled::Form),
    };
    let proof = |method| {
        let micros = begin.elapsed().as_micros() as u64;
        let record = limits.keep_query.then(|| Box::new(WindowRecord::of(window)));
        Verdict::Equal(Proof { method, record, micros })
    };
    let open: Vec<_> = comparison.into_iter().filter(|pair| pair.0 != pair.1).collect();
    if open.is_empty() {
        return (proof(Method::Normalized), Settled::NormalForm);
    }
    if limits.solver_steps == 0 {
        return (Verdict::Unknown("the normal forms differ".to_owned()), Settled::Nobody);
    }
    let assumptions = relevant_assumptions(&world, &open);
    match solver::ask(&arena, &assumptions, &open, limits.solver_steps) {
        Answer::Equal => (proof(Method::Smt { outputs: open.len() as u32 }), Settled::SolverEqual),
        Answer::Unknown => {
            (Verdict::Unknown(format!("the solver gave up after {} steps", limits.solver_steps)), Settled::Nobody)
        }
        Answer::Different(values) => (confirm(&world, window, &values, tester), Settled::SolverDifferent),
    }
}

/// The SMT-LIB query of a window, from terms that were not normalized.
///
/// # Errors
/// Returns why the windows cannot be compared.
pub fn literal_query(window: &Window<'_>) -> Result<String, String> {
    let normal = Arena::new();
    let literal = Arena::literal();
    let holes = Holes::default();
    let (world, _) = compare(&normal, window, &holes)?;
    let modes = world.modes.clone();
    let (world, mut pairs) =
        compare_in(&literal, window, &holes, modes, Some(&world)).map_err(|failure| failure.to_string())?;
    pairs.extend(world.obligations());
    let assumptions = relevant_assumptions(&world, &pairs);
    Ok(smt::query(&literal, &assumptions, &pairs))
}

/// Assumptions about variables that the pairs depend on.
pub(crate) fn relevant_assumptions(world: &World<'_>, pairs: &[(TermId, TermId)]) -> Vec<TermId> {
    let roots: Vec<_> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let wanted: BTreeSet<_> = smt::symbols(world.arena, &roots).into_iter().map(|(_, id)| id).collect();
    let mentions = |id: &TermId| smt::symbols(world.arena, &[*id]).iter().any(|(_, symbol)| wanted.contains(symbol));
    world.assumptions().into_iter().map(|term| term.id()).filter(mentions).collect()
}

/// The world in which both windows ran, and the pairs of terms that must be equal.
pub(crate) type Compared<'a> = (World<'a>, Vec<(TermId, TermId)>);

/// Runs both windows and pairs what must be equal.
pub(crate) fn compare<'a>(arena: &'a Arena, window: &Window<'a>, holes: &Holes<'a>) -> Result<Compared<'a>, String> {
    let first = compare_in(arena, window, holes, Modes::default(), None);
    match first {
        Err(Failure::Modes(modes)) => {
            compare_in(arena, window, holes, modes, None).map_err(|failure| failure.to_string())
        }
        other => other.map_err(|failure| failure.to_string()),
    }
}

/// Why a comparison was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Some classes must be logged.
    #[error("memory that may alias")]
    Modes(Modes),
    /// The windows cannot be compared.
    #[error("{0}")]
    Reason(String),
}

pub(crate) fn compare_in<'a>(
    arena: &'a Arena,
    window: &Window<'a>,
    holes: &Holes<'a>,
    modes: Modes,
    places: Option<&World<'_>>,
) -> Result<Compared<'a>, Failure> {
    let world = World::new(arena, window.object, window.facts, modes);
    world.follow(places);
    let reason = |who: &'static str| move |stop| Failure::Reason(format!("the {who} window: {stop}"));
    let before = run(&world, window.before, holes).map_err(reason("original"))?;
    let after = run(&world, window.after, holes).map_err(reason("new"))?;
    let needed = needed_modes(&world, &before, &after);
    if needed != world.modes {
        // Modes only grow, and places do not depend on them.
        return Err(Failure::Modes(needed));
    }
    core_kept(window)?;
    permitted(&world, window, &before.accesses, &after.accesses)?;
    let changing = |accesses: &[Access]| -> Vec<Access> {
        accesses.iter().filter(|access| !is_frozen(window.object, access.class)).copied().collect()
    };
    shared_memory_kept(&changing(&before.accesses), &changing(&after.accesses))
        .map_err(|what| Failure::Reason(what.to_owned()))?;
    let mut pairs = call_pairs(&world, &before, &after)?;
    pairs.extend(outcome_pairs(&world, window, &before, &after)?);
    Ok((world, pairs))
}

/// Which classes must be logged for these accesses.
fn needed_modes(world: &World<'_>, before: &Final, after: &Final) -> Modes {
    let all = |end: &Final| end.accesses.iter().chain(&end.touched).copied().collect::<Vec<_>>();
    modes_for(world, &all(before).into_iter().chain(all(after)).collect::<Vec<_>>())
}

/// Which classes must be logged for these accesses, besides those that are logged already.
pub(crate) fn modes_for(world: &World<'_>, all: &[Access]) -> Modes {
    let accesses = || all.iter();
    let mut modes = Modes::default();
    let roots: BTreeSet<_> = accesses().map(|access| access.root).collect();
    let stores = accesses().any(|access| access.writes);
    let touches = |class| accesses().any(|access| access.class == class);
    modes.everything = touches(Class::Unknown) && stores && roots.len() > 1
        // A kernel structure may be the one that the context stands for.
        || touches(Class::Other) && accesses().any(|access| access.class == Class::Context && access.writes);
    let elsewhere = |access: &Access| !matches!(access.class, Class::Stack(0) | Class::Context);
    let other_roots = accesses().filter(|access| elsewhere(access)).map(|access| access.root).collect::<BTreeSet<_>>();
    let other_stores = accesses().any(|access| elsewhere(access) && access.writes);
    modes.shared_together = touches(Class::Other) && other_stores && other_roots.len() > 1;
    for access in accesses() {
        let class = access.class;
        let aliases = accesses().any(|other| other.class == class && other.root != access.root);
        if aliases && accesses().any(|other| other.class == class && other.writes) || access.ordered {
            modes.logged.insert(class);
        }
        modes.shared_together |= access.ordered && elsewhere(access);
    }
    // Modes only grow.
    modes.everything |= world.modes.everything;
    modes.shared_together |= world.modes.shared_together;
    modes.logged.extend(&world.modes.logged);
    modes
}

/// Checks that each CO-RE instruction of the new window corresponds to one of the original.
fn core_kept(window: &Window<'_>) -> Result<(), Failure> {
    let kept = |node: &&Node| window.before.iter().any(|old| relocated_alike(window.object, old, node));
    match window.after.iter().filter(|node| node.core.is_some()).all(|node| kept(&node)) {
        true => Ok(()),
        false => Err(Failure::Reason("a CO-RE instruction is changed".to_owned())),
    }
}

/// Whether a loader relocates both instructions in the same way: they are equal except for their registers, or have the
/// same number in another form.
pub(crate) fn relocated_alike(object: &Object, old: &Node, new: &Node) -> bool {
    old.core == new.core
        && old.reference == new.reference
        && (without_registers(old) == without_registers(new)
            || same_immediate(&old.insn, &new.insn)
            || same_target(&old.insn, &new.insn)
            || is_own_type(object, new) && type_number(&old.insn) == type_number(&new.insn))
}

/// Whether both store to the same field. The stored values are compared elsewhere.
fn same_target(one: &Insn, other: &Insn) -> bool {
    match (one, other) {
        (Insn::Store { size, address, .. }, Insn::Store { size: other_size, address: other_address, .. }) => {
            size == other_size && address.offset == other_address.offset
        }
        _ => false,
    }
}

fn is_own_type(object: &Object, node: &Node) -> bool {
    node.core.and_then(|core| object.core.get(core.index())).is_some_and(CoreRelocation::is_own_type)
}

/// The number of a type, where an instruction moves one to a register.
fn type_number(insn: &Insn) -> Option<i32> {
    match *insn {
        Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Imm(imm), .. } => Some(imm),
        Insn::LoadImm64 { imm: Imm64::Value(value), .. } => i32::try_from(value).ok(),
        _ => None,
    }
}

/// Whether both are whole-register arithmetic with one immediate, which a loader relocates the same way in each.
fn same_immediate(one: &Insn, other: &Insn) -> bool {
    let immediate = |insn: &Insn| match *insn {
        Insn::Alu { width: Width::W64, src: Source::Imm(imm), .. } => Some(imm),
        _ => None,
    };
    immediate(one).is_some() && immediate(one) == immediate(other)
}

/// Checks that the new window accesses only memory that cannot fault.
fn permitted(world: &World<'_>, window: &Window<'_>, before: &[Access], after: &[Access]) -> Result<(), Failure> {
    let deepest = deepest_stack(window, before);
    for access in after {
        let same = |old: &&Access| old.root == access.root && old.offset == access.offset && old.bytes == access.bytes;
        let valid = before.iter().filter(|old| is_valid_for(window, old, access));
        if valid.clone().filter(same).any(|old| old.writes || !access.writes) {
            continue;
        }
        let fine = match access.class {
            // The kernel rewrites context accesses one by one.
            Class::Context => false,
            Class::Stack(0) if world.root(access.root).region_offset == Some(0) => {
                let aligned = access.offset.rem_euclid(access.bytes.into()) == 0;
                let inside = access.offset >= deepest && access.offset + i64::from(access.bytes) <= 0;
                aligned && inside && (access.writes || access.own || readable(world, window, before, access))
            }
            _ if access.writes => covered(access, valid.filter(|old| old.writes)),
            _ => access.own || readable(world, window, before, access),
        };
        if !fine {
            let what = if access.writes { "stores to" } else { "reads" };
            return Err(Failure::Reason(format!(
                "the new window {what} memory that the original does not ({:?}{:+})",
                access.class, access.offset
            )));
        }
    }
    Ok(())
}

/// Whether memory that the original accesses is also valid for an access of the new window: both are on the same path,
/// with the same calls before, because calls may invalidate memory.
fn is_valid_for(window: &Window<'_>, old: &Access, new: &Access) -> bool {
    let on_the_way = old.path == 0 || old.path == new.path;
    match old.class {
        Class::Context => true,
        Class::Stack(_) => on_the_way && old.epoch <= new.epoch,
        Class::MapValue(map) if has_one_value(window.object, map) => true,
        _ => on_the_way && old.epoch == new.epoch,
    }
}

/// The lowest stack offset in use.
fn deepest_stack(window: &Window<'_>, before: &[Access]) -> i64 {
    let known = window.facts.into_iter().flat_map(|facts| facts.stack.keys().map(|offset| i64::from(*offset)));
    let used = before.iter().filter(|access| access.class == Class::Stack(0)).map(|access| access.offset & !7);
    known.chain(used).min().unwrap_or(0)
}

/// Whether every byte is touched by some of these.
fn covered<'x>(access: &Access, others: impl Iterator<Item = &'x Access> + Clone) -> bool {
    (0..i64::from(access.bytes)).all(|byte| {
        let at = access.offset.wrapping_add(byte);
        others
            .clone()
            .any(|old| old.root == access.root && (0..i64::from(old.bytes)).contains(&at.wrapping_sub(old.offset)))
    })
}

/// Whether bytes are certainly readable: the original accesses them, or the facts say so.
fn readable(world: &World<'_>, window: &Window<'_>, before: &[Access], access: &Access) -> bool {
    let root = world.root(access.root);
    let end = |offset: i64| offset.checked_add(access.bytes.into());
    let inside = |limit: u64| access.offset >= 0 && end(access.offset).is_some_and(|end| end as u64 <= limit);
    // Map values are left out: the loader may have made them smaller.
    let known = access.class == Class::Packet
        && root.is_packet_start
        && access.packet == 0
        && window.facts.is_some_and(|facts| inside(facts.packet_bytes.into()));
    let stack_byte = |at: i64| {
        let slot = i16::try_from(at & !7).ok().and_then(|slot| window.facts?.stack.get(&slot));
        slot.is_some_and(|value| *value != Value::Uninit)
    };
    known
        || (0..i64::from(access.bytes)).all(|byte| {
            let at = access.offset.wrapping_add(byte);
            let one = Access { offset: at, bytes: 1, ..*access };
            covered(&one, before.iter().filter(|old| is_valid_for(window, old, access)))
                || access.class == Class::Stack(0) && root.region_offset == Some(0) && stack_byte(at)
        })
}

/// Checks that both windows make the same calls in the same order. Returns the pairs of inputs that must be equal.
fn call_pairs(world: &World<'_>, before: &Final, after: &Final) -> Result<Vec<(TermId, TermId)>, Failure> {
    let refuse = |what: &str| Err(Failure::Reason(what.to_owned()));
    if after.stable_calls.iter().any(|call| !before.stable_calls.contains(call)) {
        return refuse("the new window makes a call that the original does not");
    }
    let whats = |end: &Final| end.calls.iter().map(|call| call.what).collect::<Vec<_>>();
    if whats(before) != whats(after) {
        return refuse("the calls are not the same");
    }
    let mut pairs = Vec::new();
    for (old, new) in before.calls.iter().zip(&after.calls) {
        let mut inputs = Vec::new();
        for (old, new) in old.arguments.iter().zip(&new.arguments) {
            match (old, new) {
                (Some(old), Some(new)) => inputs.push((*old, *new)),
                (Some(_), None) => return refuse("an argument of a call is left uninitialised"),
                (None, _) => {}
            }
        }
        let groups = old.logs.keys().chain(new.logs.keys());
        if old.base != new.base || groups.into_iter().any(|group| old.log(*group) != new.log(*group)) {
            return refuse("what a call may read has another history");
        }
        for (number, offset) in places(&old.bytes, &new.bytes) {
            let class = world.modes.group(world.root(number).class);
            let byte = |call: &Call| match call.bytes.get(&(number, offset)) {
                Some(term) => *term,
                None => world.byte(number, offset, call.log(class)).id(),
            };
            inputs.push((byte(old), byte(new)));
        }
        pairs.extend(under(world, old.condition, new.condition, inputs));
    }
    Ok(pairs)
}

fn places(one: &QuickMap<(u16, i64), TermId>, other: &QuickMap<(u16, i64), TermId>) -> Vec<(u16, i64)> {
    let mut places: Vec<_> = one.keys().chain(other.keys()).copied().collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Pairs that must be equal where a condition holds, and the two forms of the condition, which must be equal too.
fn under(
    world: &World<'_>,
    old: Option<TermId>,
    new: Option<TermId>,
    pairs: Vec<(TermId, TermId)>,
) -> Vec<(TermId, TermId)> {
    let always = || world.arena.constant(1, 1).id();
    let mut result = Vec::new();
    if old != new {
        result.push((old.unwrap_or_else(always), new.unwrap_or_else(always)));
    }
    let condition = old.map(|id| world.arena.term(id));
    for (a, b) in pairs {
        result.push(match &condition {
            Some(condition) if a != b => {
                let where_it_holds = |id| {
                    let term = world.arena.term(id);
                    Term::ite(condition, &term, &term.like(0)).id()
                };
                (where_it_holds(a), where_it_holds(b))
            }
            _ => (a, b),
        });
    }
    result
}

/// Pairs that must be equal at each exit: its condition, live registers, and every byte that one of the windows wrote
/// and that may be read.
fn outcome_pairs(
    world: &World<'_>,
    window: &Window<'_>,
    before: &Final,
    after: &Final,
) -> Result<Vec<(TermId, TermId)>, Failure> {
    let goes = |end: &Final| end.outcomes.iter().map(|outcome| outcome.target).collect::<Vec<_>>();
    if goes(before) != goes(after) {
        return Err(Failure::Reason("the branches go elsewhere".to_owned()));
    }
    let mut pairs = Vec::new();
    for (old, new) in before.outcomes.iter().zip(&after.outcomes) {
        let live = Live::at(window, old.target);
        pairs.extend(under(world, old.condition, new.condition, state_pairs(world, &live, old, new)?));
    }
    Ok(pairs)
}

fn state_pairs(
    world: &World<'_>,
    live: &Live,
    before: &Outcome,
    after: &Outcome,
) -> Result<Vec<(TermId, TermId)>, Failure> {
    let mut pairs = Vec::new();
    for reg in Reg::all().filter(|reg| live.bits[reg.index()] > 0) {
        match (before.registers[reg.index()], after.registers[reg.index()]) {
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => {
                let low = |id| world.arena.term(id).extract(0, u32::from(live.bits[reg.index()]).min(64)).id();
                pairs.push((low(old), low(new)));
            }
            (Some(_), None) => return Err(Failure::Reason(format!("{reg} is left uninitialised"))),
            (None, _) => {}
        }
    }
    for (number, offset) in places(&before.bytes, &after.bytes) {
        let root = world.root(number);
        if root.class == Class::Stack(0) && root.region_offset == Some(0) {
            let live = i32::try_from(offset).is_ok_and(|offset| live.stack.contains(offset));
            if !live {
                continue;
            }
        }
        let byte = |outcome: &Outcome| match outcome.bytes.get(&(number, offset)) {
            Some(term) => *term,
            None => world.byte(number, offset, outcome.log(world, root.class)).id(),
        };
        pairs.push((byte(before), byte(after)));
    }
    let groups: BTreeSet<Class> = before.logs.keys().chain(after.logs.keys()).copied().collect();
    for class in groups {
        if before.log(world, class) != after.log(world, class) {
            return Err(Failure::Reason(format!("stores to {class:?} that may alias or are ordered differ")));
        }
    }
    if before.base != after.base {
        return Err(Failure::Reason("what calls wrote differs".to_owned()));
    }
    Ok(pairs)
}

/// Turns the solver's valuation into an input and runs it. Only a difference in the concrete run counts.
fn confirm(world: &World<'_>, window: &Window<'_>, values: &[(Symbol, u64)], tester: Option<&mut Tester>) -> Verdict {
    let Some(input) = input_from(world, window, values) else {
        return Verdict::Unknown("the solver sees a difference that could not be made an input".to_owned());
    };
    let mut own;
    let tester = match tester {
        Some(tester) => tester,
        None => match Tester::new(window, 1) {
            Some(tester) => {
                own = tester;
                &mut own
            }
            None => return Verdict::Unknown("the solver sees a difference that cannot be run".to_owned()),
        },
    };
    if tester.add(window, &input)
        && let Some(counterexample) = tester.difference(window.after)
    {
        return Verdict::Different(Box::new(Counterexample { ..counterexample }));
    }
    Verdict::Unknown("the solver sees a difference that the concrete run does not".to_owned())
}

fn input_from(world: &World<'_>, window: &Window<'_>, values: &[(Symbol, u64)]) -> Option<Input> {
    let mut random = Random::new(0x1ead);
    // Variables that the solver leaves out get random values.
    let mut known: HashMap<Symbol, u64> = values.iter().copied().collect();
    let mut evaluator = Evaluator::new(world.arena, |symbol, _| {
        let mut invent = |symbol: &Symbol| match symbol {
            Symbol::Word { .. } | Symbol::Field { .. } => random.next(),
            _ => 0xffff_8800_0000_0000 | random.next() >> 30 << 9,
        };
        *known.entry(symbol).or_insert_with(|| invent(&symbol))
    });
    let mut input = Input::default();
    for reg in Reg::all() {
        input.registers[reg.index()] = world.register(reg).map_or(0, |term| evaluator.value(term.id()));
    }
    for node in window.before.iter().chain(window.after) {
        if let (Insn::LoadImm64 { .. }, kiln_program::Reference::MapValue { map, .. }) = (node.insn, node.reference) {
            let start = kiln_program::Reference::MapValue { map, offset: 0 };
            input.references.push((start, evaluator.value(world.reference(start).id())));
        } else if node.reference != kiln_program::Reference::None {
            input.references.push((node.reference, evaluator.value(world.reference(node.reference).id())));
        }
    }
    for (symbol, value) in values {
        let (root, offset, bytes) = match *symbol {
            Symbol::Word { root, offset, log: 0 } => (root, offset, 8),
            Symbol::Field { root, offset, bytes, log: 0 } => (root, offset, bytes),
            _ => continue,
        };
        let address = evaluator.value(world.root(root).term).wrapping_add(offset as u64);
        for (byte, value) in value.to_le_bytes().into_iter().take(bytes.into()).enumerate() {
            input.memory.insert(address.wrapping_add(byte as u64), value);
        }
    }
    Some(input)
}

impl WindowRecord {
    /// The query whether the windows differ, as SMT-LIB 2 text, from terms that were not normalized: `unsat` means that
    /// one may stand for the other.
    ///
    /// # Errors
    /// A record that is none of a window of this object, or windows that cannot be compared.
    pub fn query(&self, object: &Object) -> Result<String, RecordError> {
        let query = self.with_window(object, literal_query)?.map_err(RecordError::NoQuery)?;
        Ok(format!("{}{query}", self.heading(object)))
    }
}
