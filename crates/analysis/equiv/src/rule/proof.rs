//! Proves a rule for all registers, immediates and offsets that its conditions allow.
//!
//! ```text
//!   r1 += $a                random instances, run concretely    refuted, with an instance
//!   r1 += $b          -->   each way to identify registers
//!   =>                      each small value of $a < 64    -->  one window with symbolic immediates: same normal form,
//!   r1 += $($a + $b)                                            or the solver finds no difference
//! ```

use std::fmt;

use kiln_isa::semantics::{BitVec, Bits};
use kiln_isa::{AluOp, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{InsnId, Node, Object, Reference};
use kiln_verifier::{InsnFacts, Scalar, StackSet, Tnum, Value};

use crate::concrete::{Random, Tester};
use crate::rule::definition::Rule;
use crate::rule::expression::{Condition, Expression};
use crate::rule::pattern::{Binding, HOLES, Immediate, Offset, Pattern};
use crate::term::smt;
use crate::term::solver::{self, Answer};
use crate::term::{Arena, Symbol, Term, TermId};
use crate::window::check::compare as compare_windows;
use crate::window::limits::Limits;
use crate::window::question::Window;
use crate::window::state::Holes;
use crate::window::verdict::{Counterexample, Method};

/// The verdict on a rule.
#[derive(Clone, Debug)]
pub enum RuleVerdict {
    /// It holds for all registers and immediates that its conditions allow.
    Proved {
        /// How many cases were proved: ways to identify registers, times fixed immediates.
        cases: u32,
        /// The strongest method that a case needed.
        method: Method,
    },
    /// It does not hold: an instance, and an input that shows it.
    Refuted {
        /// The old window of the instance.
        before: Vec<Insn>,
        /// The new one.
        after: Vec<Insn>,
        /// The input.
        counterexample: Box<Counterexample>,
    },
    /// Not settled, and why.
    Unknown(String),
}

impl fmt::Display for RuleVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleVerdict::Proved { cases, method } => write!(f, "proved in {cases} cases ({method:?})"),
            RuleVerdict::Refuted { before, after, counterexample } => {
                let list = |insns: &[Insn]| insns.iter().map(Insn::to_string).collect::<Vec<_>>().join("; ");
                write!(f, "refuted: `{}` is not `{}`: {}", list(before), list(after), counterexample.difference)
            }
            RuleVerdict::Unknown(reason) => write!(f, "not settled: {reason}"),
        }
    }
}

/// Proves a rule for all registers and immediates that its conditions allow.
pub fn prove_rule(rule: &Rule, limits: &Limits) -> RuleVerdict {
    if let Some(refuted) = refute(rule, limits.tests) {
        return refuted;
    }
    let placeholders: Vec<_> = rule.registers().iter().collect();
    let mut cases = 0;
    let mut most = Method::Normalized;
    let all = identifications(&placeholders, rule.distinct);
    if all.len() * fixed_immediates(rule).len() > CASES {
        return RuleVerdict::Unknown(format!("more than {CASES} cases"));
    }
    for names in all {
        let Some(case) = rule.renamed(&names) else {
            return RuleVerdict::Unknown("an instruction that rules may not hold".to_owned());
        };
        // A placeholder that must be dead may bind the same register as a live one. The matcher sees that it is not
        // dead.
        for fixed in fixed_immediates(&case) {
            match prove_case(&case, &fixed, limits) {
                Ok(Method::Normalized) => {}
                Ok(method) => most = method,
                Err(reason) => {
                    let same = describe(&placeholders, &names);
                    return RuleVerdict::Unknown(format!("{reason}{same}"));
                }
            }
            cases += 1;
        }
    }
    RuleVerdict::Proved { cases, method: most }
}

/// Immediates with a bound up to this one are enumerated, because shifts by a constant have a normal form, and shifts
/// by a variable do not.
const SMALL: i64 = 64;
/// Maximum number of cases of a rule.
const CASES: usize = 1 << 15;
/// Maximum number of combinations of small immediates.
const COMBINATIONS: usize = 4096;

/// All combinations of values for the immediates that conditions bound (`$a < 32`); one empty combination if there are
/// none.
fn fixed_immediates(rule: &Rule) -> Vec<[Option<i64>; HOLES]> {
    let mut all = vec![[None; HOLES]];
    for condition in &rule.conditions {
        let &Condition::Compare(JumpOp::Lt, Width::W64, Expression::Immediate(hole), Expression::Constant(bound)) =
            condition
        else {
            continue;
        };
        let hole = usize::from(hole);
        if !(1..=SMALL).contains(&bound) || all.len() * bound as usize > COMBINATIONS || all[0][hole].is_some() {
            continue;
        }
        let with = |fixed: &[Option<i64>; HOLES], value: i64| {
            let mut fixed = *fixed;
            fixed[hole] = Some(value);
            fixed
        };
        all = all.iter().flat_map(|fixed| (0..bound).map(move |value| with(fixed, value))).collect();
    }
    all
}

fn describe(placeholders: &[Reg], names: &[Reg; Reg::COUNT]) -> String {
    let merged = placeholders.iter().filter(|reg| names[reg.index()] != **reg);
    merged.map(|reg| format!(", where {reg} is {}", names[reg.index()])).collect()
}

/// All ways in which placeholders may bind equal registers. Each placeholder gets the name of the first one in its
/// group.
fn identifications(placeholders: &[Reg], distinct: RegSet) -> Vec<[Reg; Reg::COUNT]> {
    let identity: [Reg; Reg::COUNT] = std::array::from_fn(|index| Reg::new(index as u8).unwrap_or(Reg::R10));
    let mut all = vec![identity];
    for (at, reg) in placeholders.iter().enumerate() {
        let mut more = Vec::new();
        for names in &all {
            for earlier in &placeholders[..at] {
                // Join the group of an earlier register that leads its group.
                let leads = names[earlier.index()] == *earlier;
                let group = placeholders[..at].iter().filter(|member| names[member.index()] == *earlier);
                let clash = group.clone().any(|member| distinct.contains(*member)) && distinct.contains(*reg);
                if leads && !clash {
                    let mut joined = *names;
                    joined[reg.index()] = *earlier;
                    more.push(joined);
                }
            }
        }
        all.extend(more);
    }
    all
}

/// Which of the two windows an instruction is in, and the first id of that window's instructions. So ids of the two
/// windows differ.
#[derive(Clone, Copy)]
enum Side {
    Old = 0,
    New = 0x1_0000,
}

impl Side {
    fn id(self, at: usize) -> InsnId {
        InsnId(self as u32 + at as u32)
    }
}

/// Placeholders that a rule uses as 64-bit immediates.
fn wide_holes(rule: &Rule) -> Vec<usize> {
    let wide = |pattern: &Pattern| match (pattern.insn, pattern.immediate) {
        (Insn::LoadImm64 { .. }, Immediate::Hole(hole)) => Some(usize::from(hole)),
        _ => None,
    };
    rule.before.iter().filter_map(wide).collect()
}

/// What the conditions say of register values, as far as known bits can express it.
fn facts(rule: &Rule, immediates: &dyn Fn(&Expression) -> Option<u64>) -> Option<InsnFacts> {
    let mut registers: [Value; Reg::COUNT] = std::array::from_fn(|_| Value::Unknown);
    for condition in &rule.conditions {
        let Condition::Compare(op, Width::W64, Expression::Register(reg), bound) = condition else { continue };
        let most = match (op, immediates(bound)) {
            (JumpOp::Le, Some(bound)) => bound,
            (JumpOp::Lt, Some(bound)) => bound.checked_sub(1)?,
            _ => continue,
        };
        let mask = u64::MAX.checked_shr(most.leading_zeros()).unwrap_or(0);
        registers[reg.index()] = Value::Scalar(Scalar { tnum: Tnum { value: 0, mask }, ..Scalar::UNKNOWN });
    }
    let (live_after, stack_live_after) = (RegSet::ALL, StackSet::ALL);
    let facts = InsnFacts { registers, stack: Default::default(), packet_bytes: 0, live_after, stack_live_after };
    facts.registers.iter().any(|value| *value != Value::Unknown).then_some(facts)
}

/// A window of the rule. At its end, narrow registers are truncated to their lower halves.
fn with_narrow(rule: &Rule, insns: impl Iterator<Item = Insn>, side: Side) -> Vec<Node> {
    let cut = |reg: Reg| Insn::Alu { op: AluOp::Mov, width: Width::W32, dst: reg, src: Source::Reg(reg) };
    let node = |(at, insn): (usize, Insn)| Node::new(side.id(at), insn, Reference::None);
    insns.chain(rule.narrow.iter().map(cut)).enumerate().map(node).collect()
}

/// A rule over terms: assumptions, and the pairs that must be equal.
struct Symbolic {
    assumptions: Vec<TermId>,
    pairs: Vec<(TermId, TermId)>,
}

/// Runs one case over terms; `None` if the conditions exclude it.
fn symbolic(arena: &Arena, rule: &Rule, fixed: &[Option<i64>; HOLES]) -> Result<Option<Symbolic>, String> {
    let insns = |patterns: &[Pattern]| patterns.iter().map(|pattern| pattern.insn).collect::<Vec<_>>().into_iter();
    let before = with_narrow(rule, insns(&rule.before), Side::Old);
    let after = with_narrow(rule, insns(&rule.after), Side::New);
    let object = Object::default();
    let number = |bound: &Expression| match bound {
        Expression::Constant(value) => Some(*value as u64),
        Expression::Immediate(hole) => fixed[usize::from(*hole)].map(|value| value as u64),
        _ => None,
    };
    // Facts are left out if memory is accessed, because they have further consequences there.
    let plain = rule.patterns().all(|pattern| pattern.insn.address().is_none());
    let facts = plain.then(|| facts(rule, &number)).flatten();
    let window = Window {
        before: &before,
        after: &after,
        facts: facts.as_ref(),
        live_after: RegSet::ALL.difference(rule.dead),
        stack_live_after: StackSet::ALL,
        exits: &[],
        object: &object,
    };
    let wide = wide_holes(rule);
    let zero = arena.constant(64, 0);
    let register = |reg: Reg| arena.symbol(Symbol::Register(reg), 64);
    let mut immediates: Vec<_> = (0..HOLES)
        .map(|hole| {
            let symbol = Symbol::Hole(hole as u8);
            if let Some(value) = fixed[hole] {
                return arena.constant(64, value as u64);
            }
            if wide.contains(&hole) { arena.symbol(symbol, 64) } else { arena.symbol(symbol, 32).sign_extend(64) }
        })
        .collect();
    let mut conditions: Vec<Term<'_>> = Vec::new();
    for (hole, expression) in rule.definitions() {
        let hole = usize::from(hole);
        if fixed[hole].is_some() {
            continue;
        }
        let value = expression.value(&zero, &immediates, &register);
        if !wide.contains(&hole) {
            conditions.push(BitVec::eq(&value.truncate(32).sign_extend(64), &value));
        }
        immediates[hole] = value;
    }
    conditions.extend(rule.conditions.iter().map(|condition| condition.holds(&zero, &immediates, &register)));
    if conditions.iter().any(|condition| condition.as_constant() == Some(0)) {
        return Ok(None);
    }
    let holes = holes(arena, rule, &immediates, &zero, &register);
    let (world, pairs) = compare_windows(arena, &window, &holes)?;
    let mut assumptions: Vec<_> = conditions.iter().map(Term::id).collect();
    if facts.is_some() {
        assumptions.extend(crate::window::check::relevant_assumptions(&world, &pairs));
    }
    Ok(Some(Symbolic { assumptions, pairs }))
}

fn prove_case(rule: &Rule, fixed: &[Option<i64>; HOLES], limits: &Limits) -> Result<Method, String> {
    let arena = Arena::new();
    // A case that the conditions exclude holds trivially.
    let Some(Symbolic { assumptions, pairs }) = symbolic(&arena, rule, fixed)? else { return Ok(Method::Normalized) };
    let open: Vec<_> = pairs.into_iter().filter(|(a, b)| a != b).collect();
    if open.is_empty() {
        return Ok(Method::Normalized);
    }
    match solver::ask(&arena, &assumptions, &open, limits.solver_steps) {
        Answer::Equal => Ok(Method::Smt { outputs: open.len() as u32 }),
        Answer::Different(values) => {
            let mut values: Vec<_> = values.iter().map(|(symbol, value)| format!("{symbol}={value:#x}")).collect();
            values.sort();
            Err(format!("the solver sees a difference at {}", values.join(" ")))
        }
        Answer::Unknown => Err(format!(
            "the solver gave up after {} steps on {}",
            limits.solver_steps,
            smt::term_text(&arena, open[0].0)
        )),
    }
}

/// The SMT-LIB queries of a rule, from terms that are not normalized: one for each way in which its registers may be
/// equal. If all are `unsat`, the rule holds.
///
/// # Errors
/// Returns why its windows cannot be compared.
pub fn rule_queries(rule: &Rule) -> Result<Vec<String>, String> {
    let placeholders: Vec<_> = rule.registers().iter().collect();
    let mut queries = Vec::new();
    for names in identifications(&placeholders, rule.distinct) {
        let case = rule.renamed(&names).ok_or("an instruction that rules may not hold")?;
        let arena = Arena::literal();
        if let Some(Symbolic { assumptions, pairs }) = symbolic(&arena, &case, &[None; HOLES])? {
            queries.push(smt::query(&arena, &assumptions, &pairs));
        }
    }
    Ok(queries)
}

fn holes<'a>(
    arena: &'a Arena,
    rule: &Rule,
    immediates: &[Term<'a>],
    zero: &Term<'a>,
    register: &dyn Fn(Reg) -> Term<'a>,
) -> Holes<'a> {
    let old = rule.before.iter().enumerate().map(|(at, pattern)| (Side::Old.id(at), pattern));
    let new = rule.after.iter().enumerate().map(|(at, pattern)| (Side::New.id(at), pattern));
    let patterns: Vec<(InsnId, &Pattern)> = old.chain(new).collect();
    let mut holes = Holes::default();
    for (id, pattern) in &patterns {
        let value = match pattern.immediate {
            Immediate::Literal => continue,
            Immediate::Hole(hole) => immediates[usize::from(hole)],
            Immediate::Expression(at) => {
                let expression = &rule.expressions[usize::from(at)];
                let value = expression.value(zero, immediates, register);
                // An immediate field has 32 bits, a ld_imm64 has 64. A value that a condition says to fit is not cut.
                let wide = matches!(pattern.insn, Insn::LoadImm64 { .. });
                let fits = rule.conditions.contains(&Condition::Fits(expression.clone()));
                if wide || fits { value } else { value.truncate(32).sign_extend(64) }
            }
        };
        holes.immediates.push((*id, value));
    }
    for (id, pattern) in &patterns {
        let Offset::Hole { hole, plus } = pattern.offset else { continue };
        // An offset has 16 bits, and the matcher checks that the sum with the constant fits.
        let symbol = arena.symbol(Symbol::Hole(HOLES as u8 + hole), 16).sign_extend(64);
        holes.offsets.push((*id, symbol.add(&zero.like(i64::from(plus) as u64))));
    }
    holes
}

/// Random values for a rule's placeholders, within its definitions and bounds.
fn random_binding(rule: &Rule, names: &[Reg; Reg::COUNT], wide: &[usize], random: &mut Random) -> Binding {
    let mut binding = Binding::default();
    for reg in rule.registers().iter() {
        binding.registers[reg.index()] = Some(names[reg.index()]);
    }
    let narrow = |hole: usize, value: u64| if wide.contains(&hole) { value as i64 } else { i64::from(value as i32) };
    for (hole, place) in binding.immediates.iter_mut().enumerate() {
        *place = Some(narrow(hole, random.corner()));
    }
    for condition in &rule.conditions {
        if let Condition::Compare(JumpOp::Lt | JumpOp::Le, Width::W64, Expression::Immediate(hole), bound) = condition
            && let Expression::Constant(bound) = bound
            && *bound > 0
        {
            let hole = usize::from(*hole);
            binding.immediates[hole] = Some(narrow(hole, random.below(*bound as u64)));
        }
    }
    let zero = Bits::new(64, 0);
    for (hole, expression) in rule.definitions() {
        let value = expression.value(&zero, &binding.immediate_values(), &|_| zero).value();
        binding.immediates[usize::from(hole)] = Some(narrow(usize::from(hole), value));
    }
    for place in &mut binding.offsets {
        *place = Some(-8 * (1 + random.below(20) as i16));
    }
    binding
}

/// Tests random instances on random inputs. Returns a counterexample if there is one.
fn refute(rule: &Rule, tests: u32) -> Option<RuleVerdict> {
    let mut random = Random::new(0x7275_6c65);
    let placeholders: Vec<_> = rule.registers().iter().collect();
    let all = identifications(&placeholders, rule.distinct);
    let wide = wide_holes(rule);
    for round in 0..tests {
        let names = if round == 0 { all[0] } else { all[random.below(all.len() as u64) as usize] };
        let binding = random_binding(rule, &names, &wide, &mut random);
        let case = rule.renamed(&names)?;
        // Instances whose conditions known bits cannot express are not tested.
        let number = |bound: &Expression| {
            let zero = Bits::new(64, 0);
            (!bound.needs_registers())
                .then(|| bound.value(&zero, &binding.immediate_values(), &|_| zero).value())
                .filter(|bound| bound.wrapping_add(1).is_power_of_two())
        };
        let said = case.conditions.iter().filter(|condition| condition.needs_registers()).all(|condition| {
            matches!(condition, Condition::Compare(JumpOp::Le, Width::W64, Expression::Register(_), bound)
                if number(bound).is_some())
        });
        let (true, true, Some(before), Some(after)) =
            (said, rule.allows(&binding), rule.instantiate_before(&binding), rule.instantiate(&binding))
        else {
            continue;
        };
        let facts = facts(&case, &number);
        let old = with_narrow(&case, before.iter().copied(), Side::Old);
        let new = with_narrow(&case, after.iter().copied(), Side::New);
        let object = Object::default();
        let window = Window {
            before: &old,
            after: &new,
            facts: facts.as_ref(),
            live_after: RegSet::ALL.difference(case.dead),
            stack_live_after: StackSet::ALL,
            exits: &[],
            object: &object,
        };
        let counterexample = Tester::new(&window, 8).and_then(|mut tester| tester.difference(&new));
        if let Some(counterexample) = counterexample {
            return Some(RuleVerdict::Refuted { before, after, counterexample: Box::new(counterexample) });
        }
    }
    None
}
