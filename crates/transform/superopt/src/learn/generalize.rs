//! From one window to a rule: constants become placeholders, and what is not needed goes.
//!
//! ```text
//!   r1 <<= 3                r1 <<= $a                          refuted with $a and $b apart: so $b is tried as what
//!   r1 &= -8         -->    r1 &= $b                           it is of $a here: -8 = -1 << 3
//!   =>                      =>
//!   r1 <<= 3                r1 <<= $a      where $b == -1 << $a, where $a < 64
//! ```
//!
//! The most general form comes first: as many constants as possible open, no conditions. Tests on random instances
//! refuse most forms, [`prove_rule`] decides about the rest. Then each condition, each register that must be dead, narrow
//! or another than the rest is left out as long as the proof holds.

use kiln_equiv::rule::{
    Condition, Expression, HOLES, Immediate, Offset, Pattern, RuleVerdict, immediate_of, prove_rule,
};
use kiln_equiv::{Limits, Rule};
use kiln_isa::semantics::Bits;
use kiln_isa::{AluOp, Insn, JumpOp, Reg, RegSet, Width};

use super::harvest::Sample;

/// Constants in a window at most, for their subsets are gone through.
const CONSTANTS: usize = 4;
/// Ways to compute the new window's constants that are tried for one choice of placeholders.
const WAYS: usize = 48;

/// The rules that a window and what may stand for it give: in general form, and where it holds for the other width too.
pub fn generalize(sample: &Sample, after: &[Insn], solver_steps: u32) -> Vec<Rule> {
    let limits = Limits { solver_steps, tests: 64, ..Limits::default() };
    let Some(general) = with_placeholders(sample, after, &limits) else { return Vec::new() };
    let mut rules = Vec::new();
    let minimal = minimal(general, &limits);
    let other = other_width(&minimal).filter(|rule| holds(rule, &limits));
    for rule in [Some(minimal), other].into_iter().flatten() {
        let rule = keeping_prefix(rule, &limits);
        if holds(&rule, &Limits { tests: 400, ..limits.clone() }) {
            rules.push(rule);
        }
    }
    rules
}

fn holds(rule: &Rule, limits: &Limits) -> bool {
    matches!(prove_rule(rule, limits), RuleVerdict::Proved { .. })
}

/// The instruction with its offset as a placeholder, if it loads or stores; `None` if the offset is too large.
fn with_offset(insn: &Insn) -> Option<Pattern> {
    match *insn {
        Insn::Load { address, .. } | Insn::Store { address, .. } => {
            Pattern::from(*insn).with_offset(Offset::Hole { hole: 0, plus: i8::try_from(address.offset).ok()? })
        }
        other => Some(other.into()),
    }
}

fn is_shift(insn: &Insn) -> Option<Width> {
    match insn {
        Insn::Alu { op: AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, width, .. } => Some(*width),
        _ => None,
    }
}

/// A placeholder of the old window: the constant that it was, and whether it is how far something is shifted.
#[derive(Clone, Copy)]
struct Open {
    value: i64,
    shift: Option<Width>,
}

/// The most general form that can be proved: all registers different, with every condition that may be asked for.
fn with_placeholders(sample: &Sample, after: &[Insn], limits: &Limits) -> Option<Rule> {
    let constants: Vec<usize> =
        (0..sample.insns.len()).filter(|at| immediate_of(&sample.insns[*at]).is_some()).take(CONSTANTS).collect();
    let mut subsets: Vec<u32> = (0..1 << constants.len()).collect();
    subsets.sort_by_key(|subset| (std::cmp::Reverse(subset.count_ones()), *subset));
    subsets.into_iter().find_map(|subset| {
        let chosen: Vec<usize> =
            constants.iter().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1).map(|(_, at)| *at).collect();
        let open: Vec<Open> = chosen
            .iter()
            .map(|at| Open {
                value: immediate_of(&sample.insns[*at]).expect("it has one"),
                shift: is_shift(&sample.insns[*at]),
            })
            .collect();
        let mut base = concrete(sample, after)?;
        for (hole, at) in chosen.iter().enumerate() {
            base.before[*at] = base.before[*at].with_immediate(Immediate::Hole(hole as u8))?;
        }
        ways(after, &open).into_iter().take(WAYS).find_map(|way| {
            let rule = with_way(&base, &way)?;
            relations(&open).into_iter().find_map(|relation| with_conditions(&rule, &relation, &open, limits))
        })
    })
}

/// The window as a rule for its own constants, with everything else that held as a condition.
fn concrete(sample: &Sample, after: &[Insn]) -> Option<Rule> {
    let offsets = |insns: &[Insn]| insns.iter().map(with_offset).collect::<Option<Vec<Pattern>>>();
    let written = sample.written();
    let read = |reg: Reg| sample.read[reg.index()];
    let bound = |reg: Reg| {
        let bound = sample.bounds[reg.index()];
        let constant = Expression::Constant(bound as i64);
        (bound != u64::MAX).then_some(Condition::Compare(JumpOp::Le, Width::W64, Expression::Register(reg), constant))
    };
    let mut rule = Rule {
        before: offsets(&sample.insns)?,
        after: offsets(after)?,
        conditions: Reg::all().filter_map(bound).collect(),
        dead: written.iter().filter(|reg| read(*reg) == 0).collect(),
        narrow: written.iter().filter(|reg| read(*reg) == 32).collect(),
        ..Rule::default()
    };
    rule.distinct = rule.registers();
    Some(rule)
}

/// How to get each constant of the new window from the placeholders: all combinations, the literal ones last.
fn ways(after: &[Insn], open: &[Open]) -> Vec<Vec<Option<Expression>>> {
    let mut all: Vec<Vec<Option<Expression>>> = vec![Vec::new()];
    for value in after.iter().filter_map(immediate_of) {
        let mut choices: Vec<Option<Expression>> = expressions(open, value).into_iter().map(Some).collect();
        choices.push(None);
        all = all
            .into_iter()
            .flat_map(|way| choices.iter().map(move |choice| [way.as_slice(), std::slice::from_ref(choice)].concat()))
            .collect();
        all.truncate(4 * WAYS);
    }
    all
}

fn with_way(base: &Rule, way: &[Option<Expression>]) -> Option<Rule> {
    let mut rule = base.clone();
    let mut way = way.iter();
    for pattern in rule.after.iter_mut().filter(|pattern| immediate_of(&pattern.insn).is_some()) {
        match way.next()? {
            None => {}
            Some(Expression::Immediate(hole)) => *pattern = pattern.with_immediate(Immediate::Hole(*hole))?,
            Some(expression) => {
                let number = u8::try_from(rule.expressions.len()).ok().filter(|number| usize::from(*number) < HOLES)?;
                rule.expressions.push(expression.clone());
                *pattern = pattern.with_immediate(Immediate::Expression(number))?;
                if !matches!(pattern.insn, Insn::LoadImm64 { .. }) {
                    rule.conditions.push(Condition::Fits(expression.clone()));
                }
            }
        }
    }
    Some(rule)
}

fn operation(op: AluOp, left: Expression, right: Expression) -> Expression {
    Expression::Operation(op, Width::W64, left.into(), right.into())
}

/// Functions of one placeholder that compilers and people use.
fn functions(of: &Expression) -> Vec<Expression> {
    use Expression::Constant;
    let of = || of.clone();
    let bit = operation(AluOp::Lsh, Constant(1), of());
    let below = |width: i64| operation(AluOp::Sub, Constant(width), of());
    let ones = |amount: Expression| operation(AluOp::Sub, operation(AluOp::Lsh, Constant(1), amount), Constant(1));
    vec![
        operation(AluOp::Sub, Constant(0), of()),
        operation(AluOp::Xor, of(), Constant(-1)),
        operation(AluOp::Add, of(), Constant(1)),
        operation(AluOp::Sub, of(), Constant(1)),
        bit,
        ones(of()),
        operation(AluOp::Lsh, Constant(-1), of()),
        operation(AluOp::Rsh, Constant(-1), of()),
        operation(AluOp::Rsh, Constant(0xffff_ffff), of()),
        below(64),
        below(32),
        ones(below(64)),
        ones(below(32)),
        operation(AluOp::And, of(), Constant(0xffff_ffff)),
        operation(AluOp::Xor, operation(AluOp::Lsh, Constant(1), of()), Constant(-1)),
    ]
}

/// Expressions over the placeholders that give a value here.
fn expressions(open: &[Open], value: i64) -> Vec<Expression> {
    let holes: Vec<Expression> = (0..open.len()).map(|hole| Expression::Immediate(hole as u8)).collect();
    let mut all = holes.clone();
    for hole in &holes {
        all.extend(functions(hole));
    }
    for left in &holes {
        for right in holes.iter().filter(|right| *right != left) {
            for op in [AluOp::Add, AluOp::Sub, AluOp::And, AluOp::Or, AluOp::Xor, AluOp::Mul, AluOp::Lsh, AluOp::Rsh] {
                let commutes = matches!(op, AluOp::Add | AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Mul);
                if !commutes || matches!((left, right), (Expression::Immediate(a), Expression::Immediate(b)) if a < b) {
                    all.push(operation(op, left.clone(), right.clone()));
                }
            }
            // A mask after a shift, and one before it.
            let inverse = operation(AluOp::Xor, right.clone(), Expression::Constant(-1));
            all.push(operation(AluOp::And, left.clone(), inverse));
            all.push(operation(
                AluOp::And,
                left.clone(),
                operation(AluOp::Rsh, Expression::Constant(-1), right.clone()),
            ));
            all.push(operation(
                AluOp::And,
                left.clone(),
                operation(AluOp::Lsh, Expression::Constant(-1), right.clone()),
            ));
        }
    }
    all.retain(|expression| evaluate(expression, open) == value);
    all
}

fn evaluate(expression: &Expression, open: &[Open]) -> i64 {
    let zero = Bits::new(64, 0);
    let values: Vec<Bits> = open.iter().map(|open| Bits::new(64, open.value as u64)).collect();
    expression.value(&zero, &values, &|_| zero).value() as i64
}

/// Relations between the old window's constants; each computes a later constant from an earlier one. The empty set comes first.
fn relations(open: &[Open]) -> Vec<Vec<Condition>> {
    let mut all = vec![Vec::new()];
    for later in 0..open.len() {
        for earlier in (0..open.len()).filter(|earlier| *earlier != later) {
            let of = Expression::Immediate(earlier as u8);
            let mut candidates = functions(&of);
            if earlier < later {
                candidates.insert(0, of.clone());
                let distance = open[later].value.wrapping_sub(open[earlier].value);
                candidates.push(operation(AluOp::Add, of, Expression::Constant(distance)));
            }
            for candidate in candidates {
                if evaluate(&candidate, open) == open[later].value {
                    let own = Expression::Immediate(later as u8);
                    all.push(vec![Condition::Compare(JumpOp::Eq, Width::W64, own, candidate)]);
                }
            }
        }
    }
    // Two at once where there are three constants.
    if open.len() > 2 {
        let single: Vec<Condition> = all.iter().flatten().cloned().collect();
        for (at, one) in single.iter().enumerate() {
            all.extend(single[at + 1..].iter().map(|other| vec![one.clone(), other.clone()]));
        }
    }
    all.truncate(WAYS);
    all
}

/// The rule with as few as possible of the conditions that hold here.
fn with_conditions(rule: &Rule, relation: &[Condition], open: &[Open], limits: &Limits) -> Option<Rule> {
    use Expression::{Constant, Immediate};
    let compare = |op, left: Expression, right: Expression| Condition::Compare(op, Width::W64, left, right);
    let hole = |at: usize| Immediate(at as u8);
    let shifts = (0..open.len()).filter_map(|at| {
        let width = open[at].shift?;
        Some(compare(JumpOp::Lt, hole(at), Constant(width.bits().into())))
    });
    let signs = (0..open.len()).map(|at| {
        let op = if open[at].value < 0 { JumpOp::Slt } else { JumpOp::Sge };
        compare(op, hole(at), Constant(0))
    });
    let mut orders = Vec::new();
    for at in 0..open.len() {
        orders.extend((open[at].value != 0).then(|| compare(JumpOp::Ne, hole(at), Constant(0))));
        if open[at].value & open[at].value.wrapping_sub(1) == 0 {
            let less = operation(AluOp::Sub, hole(at), Constant(1));
            orders.push(compare(JumpOp::Eq, operation(AluOp::And, hole(at), less), Constant(0)));
        }
        for other in (0..open.len()).filter(|other| *other != at) {
            if (open[at].value as u64) < open[other].value as u64 {
                orders.push(compare(JumpOp::Lt, hole(at), hole(other)));
            }
            let both = open[at].value.wrapping_add(open[other].value);
            if let (Some(width), Some(_), true) = (open[at].shift, open[other].shift, at < other) {
                let bits = i64::from(width.bits());
                let op = if both < bits { JumpOp::Lt } else { JumpOp::Ge };
                orders.push(compare(op, operation(AluOp::Add, hole(at), hole(other)), Constant(bits)));
            }
        }
    }
    let mut asked: Vec<Condition> = [rule.conditions.as_slice(), relation].concat();
    let attempt = |conditions: &[Condition]| {
        let attempt = Rule { conditions: conditions.to_vec(), ..rule.clone() };
        holds(&attempt, limits).then_some(attempt)
    };
    let steps = [Vec::new(), shifts.collect(), signs.collect::<Vec<_>>()];
    for (at, step) in steps.into_iter().enumerate() {
        if at > 0 && step.is_empty() {
            continue;
        }
        asked.extend(step);
        let found = attempt(&asked);
        if found.is_some() {
            return found;
        }
    }
    // At most one of the others: a rule with many is a list of examples.
    orders.into_iter().find_map(|order| attempt(&[asked.as_slice(), &[order]].concat()))
}

/// Without whatever the proof does not need.
fn minimal(mut rule: Rule, limits: &Limits) -> Rule {
    let keep = |candidate: Rule, rule: &mut Rule| {
        if holds(&candidate, limits) {
            *rule = candidate;
        }
    };
    for at in (0..rule.conditions.len()).rev() {
        let mut candidate = rule.clone();
        candidate.conditions.remove(at);
        keep(candidate, &mut rule);
    }
    for at in 0..rule.conditions.len() {
        for bound in [0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff_i64] {
            let mut candidate = rule.clone();
            if let Condition::Compare(JumpOp::Le, _, Expression::Register(_), Expression::Constant(own)) =
                &mut candidate.conditions[at]
                && *own < bound
            {
                *own = bound;
                keep(candidate, &mut rule);
            }
        }
    }
    // The frame pointer is a base like any other.
    let free = Reg::all().find(|reg| *reg != Reg::R0 && *reg != Reg::R10 && !rule.registers().contains(*reg));
    if let Some(free) = free {
        let names = std::array::from_fn(|at| match Reg::new(at as u8) {
            Some(reg) if reg != Reg::R10 => reg,
            _ => free,
        });
        let candidate = rule.renamed(&names);
        if let Some(mut candidate) = candidate.filter(|candidate| candidate.before != rule.before) {
            candidate.distinct.insert(free);
            keep(candidate, &mut rule);
        }
    }
    for reg in rule.narrow.iter() {
        let candidate = Rule { narrow: rule.narrow.difference(RegSet::of(&[reg])), ..rule.clone() };
        keep(candidate, &mut rule);
    }
    for reg in rule.dead.iter() {
        let candidate = Rule { dead: rule.dead.difference(RegSet::of(&[reg])), ..rule.clone() };
        keep(candidate, &mut rule);
    }
    keep(Rule { distinct: RegSet::EMPTY, ..rule.clone() }, &mut rule);
    for reg in rule.distinct.iter() {
        let candidate = Rule { distinct: rule.distinct.difference(RegSet::of(&[reg])), ..rule.clone() };
        keep(candidate, &mut rule);
    }
    if rule.distinct.iter().count() < 2 {
        rule.distinct = RegSet::EMPTY;
    }
    rule
}

/// The rule with what it began with kept at the start of the new window, so that other readers of that do not matter:
/// what nobody reads goes anyway.
fn keeping_prefix(rule: Rule, limits: &Limits) -> Rule {
    let most = rule.before.len().saturating_sub(rule.after.len()).min(rule.before.len() - 1);
    let kept = (1..=most).rev().find_map(|count| {
        let prefix = &rule.before[..count];
        let written: RegSet = prefix.iter().filter_map(|pattern| pattern.insn.written()).collect();
        let pure = prefix.iter().all(|pattern| pattern.insn.address().is_none());
        let spared = rule.dead.intersection(written);
        let mut all = rule.registers();
        all.remove(Reg::R10);
        let candidate =
            Rule { after: [prefix, &rule.after].concat(), dead: rule.dead.difference(written), ..rule.clone() };
        let distinct = Rule { distinct: all, ..candidate.clone() };
        let useful = pure && spared.iter().next().is_some();
        [candidate, distinct].into_iter().filter(|_| useful).find(|candidate| holds(candidate, limits))
    });
    kept.unwrap_or(rule)
}

/// The rule with all arithmetic in the other width; `None` if it uses both widths already.
fn other_width(rule: &Rule) -> Option<Rule> {
    let widths = |insn: &Insn| match insn {
        Insn::Alu { width, .. } | Insn::Neg { width, .. } | Insn::Branch { width, .. } => Some(*width),
        _ => None,
    };
    let mut used = rule.patterns().filter_map(|pattern| widths(&pattern.insn));
    let first = used.next()?;
    let plain = rule.before.iter().all(|pattern| pattern.insn.address().is_none());
    if !plain || used.any(|width| width != first) {
        return None;
    }
    let other = if first == Width::W64 { Width::W32 } else { Width::W64 };
    let flip = |pattern: &Pattern| {
        let insn = match pattern.insn {
            Insn::Alu { op, dst, src, .. } => Insn::Alu { op, width: other, dst, src },
            Insn::Neg { dst, .. } => Insn::Neg { width: other, dst },
            Insn::Branch { op, dst, src, offset, .. } => Insn::Branch { op, width: other, dst, src, offset },
            insn => insn,
        };
        Pattern { insn, ..*pattern }
    };
    let mut conditions = rule.conditions.clone();
    for condition in &mut conditions {
        if let Condition::Compare(JumpOp::Lt, _, Expression::Immediate(_), Expression::Constant(bound)) = condition
            && *bound == i64::from(first.bits())
        {
            *bound = other.bits().into();
        }
    }
    let (before, after) = (rule.before.iter().map(flip).collect(), rule.after.iter().map(flip).collect());
    Some(Rule { before, after, conditions, ..rule.clone() })
}
