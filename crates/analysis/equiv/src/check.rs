//! The question, put to the three judges.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use kiln_isa::{Insn, Reg, Source, Width};
use kiln_verifier::Value;

use crate::concrete::{Input, Random, Tester};
use crate::evaluate::Evaluator;
use crate::machine::{Access, Final, Holes, run};
use crate::memory::{Class, Modes, World, is_frozen, without_registers};
use crate::shared::shared_memory_kept;
use crate::smt;
use crate::solver::{self, Answer};
use crate::term::{Arena, Symbol, TermId};
use crate::window::{Counterexample, Limits, Method, Proof, Verdict, Window};

/// Decides whether a window's `after` may stand for its `before`.
pub fn check(window: &Window<'_>, limits: &Limits) -> Verdict {
    let mut tester = (limits.tests > 0).then(|| Tester::new(window, limits.tests)).flatten();
    check_with(window, limits, tester.as_mut())
}

/// As [`check`], with a tester of the same original that the caller keeps: it saves the concrete runs of the original,
/// and takes in the solver's counterexamples.
pub fn check_with(window: &Window<'_>, limits: &Limits, mut tester: Option<&mut Tester>) -> Verdict {
    let begin = Instant::now();
    if let Some(counterexample) = tester.as_mut().and_then(|tester| tester.difference(window.after)) {
        return Verdict::Different(Box::new(counterexample));
    }
    let arena = Arena::new();
    let no_holes = Holes::default();
    let (world, comparison) = match compare(&arena, window, &no_holes) {
        Ok(compared) => compared,
        Err(reason) => return Verdict::Unknown(reason),
    };
    let proof = |method| {
        let query = limits.keep_query.then(|| literal_query(window)).flatten();
        Verdict::Equal(Proof { method, query, micros: begin.elapsed().as_micros() as u64 })
    };
    let open: Vec<_> = comparison.into_iter().filter(|pair| pair.0 != pair.1).collect();
    if open.is_empty() {
        return proof(Method::Normalized);
    }
    if limits.solver_ms == 0 {
        return Verdict::Unknown("the normal forms differ".to_owned());
    }
    let assumptions = relevant_assumptions(&world, &open);
    match solver::ask(&arena, &assumptions, &open, limits.solver_ms) {
        Answer::Equal => proof(Method::Smt { outputs: open.len() as u32 }),
        Answer::Unknown => Verdict::Unknown(format!("the solver gave up after {} ms", limits.solver_ms)),
        Answer::Different(values) => confirm(&world, window, &values, tester),
    }
}

/// The SMT-LIB query of a window, from terms that were not normalized; `None` where the windows cannot be compared.
pub fn literal_query(window: &Window<'_>) -> Option<String> {
    let normal = Arena::new();
    let literal = Arena::literal();
    let holes = Holes::default();
    let (world, _) = compare(&normal, window, &holes).ok()?;
    let modes = world.modes.clone();
    let (world, mut pairs) = compare_in(&literal, window, &holes, modes, Some(&world)).ok()?;
    pairs.extend(world.obligations());
    let assumptions = relevant_assumptions(&world, &pairs);
    Some(smt::query(&literal, &assumptions, &pairs))
}

/// Assumptions about variables that the pairs depend on.
pub(crate) fn relevant_assumptions(world: &World<'_>, pairs: &[(TermId, TermId)]) -> Vec<TermId> {
    let roots: Vec<_> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let wanted: BTreeSet<_> = smt::symbols(world.arena, &roots).into_iter().map(|(_, id)| id).collect();
    let mentions = |id: &TermId| smt::symbols(world.arena, &[*id]).iter().any(|(_, symbol)| wanted.contains(symbol));
    world.assumptions().into_iter().map(|term| term.id()).filter(mentions).collect()
}

/// Both windows run, and what must be equal.
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

fn compare_in<'a>(
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
        // What was logged once stays logged: places do not depend on it.
        return Err(Failure::Modes(needed));
    }
    core_kept(window)?;
    permitted(&world, window, &before.accesses, &after.accesses)?;
    let changing = |accesses: &[Access]| -> Vec<Access> {
        accesses.iter().filter(|access| !is_frozen(window.object, access.class)).copied().collect()
    };
    shared_memory_kept(&changing(&before.accesses), &changing(&after.accesses))
        .map_err(|what| Failure::Reason(what.to_owned()))?;
    logs_equal(&before, &after)?;
    let pairs = pairs(&world, window, &before, &after)?;
    Ok((world, pairs))
}

/// Which classes must be logged for these accesses.
fn needed_modes(world: &World<'_>, before: &Final, after: &Final) -> Modes {
    let accesses = || before.accesses.iter().chain(&after.accesses);
    let mut modes = Modes::default();
    let roots: BTreeSet<_> = accesses().map(|access| access.root).collect();
    let stores = accesses().any(|access| access.writes);
    let touches = |class| accesses().any(|access| access.class == class);
    modes.everything = touches(Class::Unknown) && stores && roots.len() > 1
        // A kernel structure may be the one behind the context.
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

/// CO-RE instructions of the new window are instructions of the original, registers aside.
fn core_kept(window: &Window<'_>) -> Result<(), Failure> {
    for node in window.after.iter().filter(|node| node.core.is_some()) {
        let kept = window.before.iter().any(|old| {
            old.core == node.core
                && old.reference == node.reference
                && (without_registers(old) == without_registers(node) || same_immediate(&old.insn, &node.insn))
        });
        if !kept {
            return Err(Failure::Reason("a CO-RE instruction is changed".to_owned()));
        }
    }
    Ok(())
}

/// Whether both are whole-register arithmetic with one immediate, which a loader relocates the same way in each.
fn same_immediate(one: &Insn, other: &Insn) -> bool {
    let immediate = |insn: &Insn| match *insn {
        Insn::Alu { width: Width::W64, src: Source::Imm(imm), .. } => Some(imm),
        _ => None,
    };
    immediate(one).is_some() && immediate(one) == immediate(other)
}

/// The new window touches only what cannot fault.
fn permitted(world: &World<'_>, window: &Window<'_>, before: &[Access], after: &[Access]) -> Result<(), Failure> {
    let deepest = deepest_stack(window, before);
    for access in after {
        let same = |old: &&Access| old.root == access.root && old.offset == access.offset && old.bytes == access.bytes;
        if before.iter().filter(same).any(|old| old.writes || !access.writes) {
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
            _ if access.writes => covered(access, before.iter().filter(|old| old.writes)),
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

/// Whether bytes may be read for sure: the original touches them, or the facts say so.
fn readable(world: &World<'_>, window: &Window<'_>, before: &[Access], access: &Access) -> bool {
    let root = world.root(access.root);
    let end = |offset: i64| offset.checked_add(access.bytes.into());
    let inside = |limit: u64| access.offset >= 0 && end(access.offset).is_some_and(|end| end as u64 <= limit);
    // Map values are left out: the loader may have made them smaller.
    let known = access.class == Class::Packet
        && root.is_packet_start
        && window.facts.is_some_and(|facts| inside(facts.packet_bytes.into()));
    let stack_byte = |at: i64| {
        let slot = i16::try_from(at & !7).ok().and_then(|slot| window.facts?.stack.get(&slot));
        slot.is_some_and(|value| *value != Value::Uninit)
    };
    known
        || (0..i64::from(access.bytes)).all(|byte| {
            let at = access.offset.wrapping_add(byte);
            let one = Access { offset: at, bytes: 1, ..*access };
            covered(&one, before.iter())
                || access.class == Class::Stack(0) && root.region_offset == Some(0) && stack_byte(at)
        })
}

fn logs_equal(before: &Final, after: &Final) -> Result<(), Failure> {
    let classes = before.logs.keys().chain(after.logs.keys());
    for class in classes {
        if before.logs.get(class) != after.logs.get(class) {
            return Err(Failure::Reason(format!("stores to {class:?} that may alias or are ordered differ")));
        }
    }
    Ok(())
}

/// What must be equal: live registers and every byte that either window wrote and that may be read.
fn pairs(
    world: &World<'_>,
    window: &Window<'_>,
    before: &Final,
    after: &Final,
) -> Result<Vec<(TermId, TermId)>, Failure> {
    let mut pairs = Vec::new();
    for reg in window.live_after.iter() {
        match (before.registers[reg.index()], after.registers[reg.index()]) {
            (Some(old), Some(new)) => pairs.push((old, new)),
            (Some(_), None) => return Err(Failure::Reason(format!("{reg} is left uninitialised"))),
            (None, _) => {}
        }
    }
    let mut places: Vec<_> = before.bytes.keys().chain(after.bytes.keys()).copied().collect();
    places.sort_unstable();
    places.dedup();
    for (number, offset) in places {
        let root = world.root(number);
        if root.class == Class::Stack(0) && root.region_offset == Some(0) {
            let live = i32::try_from(offset).is_ok_and(|offset| window.stack_live_after.contains(offset));
            if !live {
                continue;
            }
        }
        let byte = |bytes: &Final| match bytes.bytes.get(&(number, offset)) {
            Some(term) => *term,
            None => world.byte(number, offset, 0).id(),
        };
        pairs.push((byte(before), byte(after)));
    }
    let goes = |end: &Final| end.exits.iter().map(|(target, _)| *target).collect::<Vec<_>>();
    if goes(before) != goes(after) {
        return Err(Failure::Reason("the branches go elsewhere".to_owned()));
    }
    pairs.extend(before.exits.iter().zip(&after.exits).map(|((_, old), (_, new))| (*old, *new)));
    Ok(pairs)
}

/// Makes the solver's valuation an input and runs it: only what the concrete run shows is a difference.
fn confirm(
    world: &World<'_>,
    window: &Window<'_>,
    values: &HashMap<Symbol, u64>,
    tester: Option<&mut Tester>,
) -> Verdict {
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

fn input_from(world: &World<'_>, window: &Window<'_>, values: &HashMap<Symbol, u64>) -> Option<Input> {
    let mut random = Random(0x1ead);
    let mut invented: HashMap<Symbol, u64> = HashMap::new();
    let mut evaluator = Evaluator::new(world.arena, |symbol, _| {
        let mut invent = |symbol: &Symbol| match symbol {
            Symbol::Word { .. } | Symbol::Field { .. } => random.next(),
            _ => 0xffff_8800_0000_0000 | random.next() >> 30 << 9,
        };
        values.get(&symbol).copied().unwrap_or_else(|| *invented.entry(symbol).or_insert_with(|| invent(&symbol)))
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
    for symbol in values.keys() {
        let (root, offset, bytes) = match *symbol {
            Symbol::Word { root, offset, log: 0 } => (root, offset, 8),
            Symbol::Field { root, offset, bytes, log: 0 } => (root, offset, bytes),
            _ => continue,
        };
        let address = evaluator.value(world.root(root).term).wrapping_add(offset as u64);
        for (byte, value) in values[symbol].to_le_bytes().into_iter().take(bytes.into()).enumerate() {
            input.memory.insert(address.wrapping_add(byte as u64), value);
        }
    }
    Some(input)
}
