//! Finds a rule's old window by dataflow, not adjacency.
//!
//! ```text
//!   rule                      run                                     gathered at its last instruction
//!   r1 = r2                   3: r7 = r6        <- r1 = r7, r2 = r6     4: r3 = *(u8 *)(r6 + 4)
//!   r1 <<= 32                 4: r3 = *(u8 *)(r6 + 4)                   3: r7 = r6
//!   r1 >>= 32                 5: r7 <<= 32                        -->   5: r7 <<= 32
//!   =>                        6: r3 += 1                                6: r3 += 1         (moved up: it does not care)
//!   w1 = w2                   7: r7 >>= 32      <- begins here          7: r7 >>= 32
//! ```
//!
//! From the last instruction backwards, each pattern is bound to the instruction that computed the value. The
//! instructions are then gathered at one of them, if each is independent of what it passes. Instructions with which
//! both windows begin stay in place; their values must still hold. A constant may also come from the facts.
//!
//! Matching itself is bounded: [`REACH`] instructions back, [`TRIES`] combinations.

use kiln_equiv::rule::{Binding, Condition, Expression};
use kiln_isa::semantics::Bits;
use kiln_isa::{AluOp, Imm64, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{Node, Reference};
use kiln_verifier::{Scalar, Value};

use crate::rules::code::constant;
use crate::rules::data::gather::may_gather;
use crate::rules::data::{DataRule, RuleSet};
use crate::windows::region::{Region, is_barrier};
use crate::windows::trace::Trace;

/// How far back an instruction of the rule may be.
const REACH: usize = 32;
/// Maximum number of combinations at one place.
const TRIES: u32 = 64;

/// Applies the first rule that fits at an instruction and gains something.
pub fn apply(
    rules: &RuleSet,
    region: &mut Region<'_>,
    trace: &Trace,
    at: usize,
    allowed: &dyn Fn(&str) -> bool,
) -> bool {
    let node = &region.nodes[at];
    let (id, insn) = (node.id, node.insn);
    rules.ending_with(&insn).filter(|data| allowed(&data.rule.name)).any(|data| {
        let found = propose(data, region, trace, at);
        found.is_some_and(|found| region.attempt_rule(&data.rule.name, id, &found.nodes, found.exact))
    })
}

/// A run with a rule's new window.
pub struct Found {
    /// The run.
    pub nodes: Vec<Node>,
    /// Whether the rule's proof covers it: it does not access memory, and no constant comes from the facts.
    pub exact: bool,
}

/// Runs with the rule's new window in place of the old one, which ends at a position.
pub fn propose(data: &DataRule, region: &Region<'_>, trace: &Trace, at: usize) -> Option<Found> {
    let mut search =
        Search { data, region, trace, tries: TRIES, sites: vec![None; data.rule.before.len()], found: None };
    let mut binding = Binding::default();
    let last = search.sites.len() - 1;
    search.bind_at(&mut binding, last, at);
    search.found
}

struct Search<'m, 'r> {
    data: &'m DataRule,
    region: &'m Region<'r>,
    trace: &'m Trace,
    tries: u32,
    /// Positions of the rule's instructions; `None`: a constant that is known without one.
    sites: Vec<Option<usize>>,
    found: Option<Found>,
}

impl Search<'_, '_> {
    /// Binds one of the rule's instructions to the one at a position, and goes on with the one before.
    fn bind_at(&mut self, binding: &mut Binding, pattern: usize, at: usize) {
        let node = &self.region.nodes[at];
        let plain =
            node.core.is_none() && (node.reference == Reference::None || matches!(node.insn, Insn::Branch { .. }));
        let mut extended = binding.clone();
        if !plain || extended.extend(&self.data.rule.before[pattern], &node.insn).is_none() {
            return;
        }
        self.sites[pattern] = Some(at);
        self.go_on(&mut extended, pattern);
        self.sites[pattern] = None;
    }

    fn go_on(&mut self, binding: &mut Binding, pattern: usize) {
        let Some(earlier) = pattern.checked_sub(1) else {
            self.found = self.conclude(binding);
            return;
        };
        for candidate in self.candidates(binding, earlier) {
            if self.found.is_some() || self.tries == 0 {
                return;
            }
            self.tries -= 1;
            self.bind_at(binding, earlier, candidate);
        }
        if self.found.is_none() && earlier < self.data.kept {
            let mut extended = binding.clone();
            if self.known_constant(&mut extended, earlier).is_some() {
                self.go_on(&mut extended, earlier);
            }
        }
    }

    /// Positions that may hold one of the rule's instructions.
    fn candidates(&self, binding: &Binding, pattern: usize) -> Vec<usize> {
        let insn = &self.data.rule.before[pattern].insn;
        let taken = self.sites.iter().flatten();
        let last = *taken.clone().max().expect("the last is bound");
        let written = insn.written().and_then(|reg| binding.registers[reg.index()].map(|bound| (reg, bound)));
        // An instruction whose value a later instruction of the rule reads must be before it.
        let before = written.and_then(|(reg, _)| {
            let later = (pattern + 1..self.sites.len()).find(|later| {
                let insn = &self.data.rule.before[*later].insn;
                insn.read().contains(reg) || insn.written() == Some(reg)
            });
            later.and_then(|later| self.sites[later])
        });
        let nodes = &self.region.nodes;
        let back = (0..before.unwrap_or(last)).rev().take(REACH).take_while(|at| !is_barrier(&nodes[*at]));
        let free = |at: &usize| !self.sites.contains(&Some(*at));
        match written {
            Some((_, bound)) => {
                back.filter(free).find(|at| nodes[*at].insn.written() == Some(bound)).into_iter().collect()
            }
            None => back.filter(free).collect(),
        }
    }

    /// Binds the immediate of a kept `r1 = $a` to what the register is known to hold.
    fn known_constant(&self, binding: &mut Binding, at: usize) -> Option<()> {
        let pattern = &self.data.rule.before[at];
        let reg = pattern.insn.written()?;
        let bound = binding.registers[reg.index()]?;
        let reader = self.sites[at + 1..].iter().flatten().min()?;
        let value = constant(self.region, self.trace, *reader, bound)?;
        let number = match pattern.insn {
            Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Imm(_), .. } => {
                i64::from(i32::try_from(value as i64).ok()?)
            }
            Insn::Alu { op: AluOp::Mov, width: Width::W32, src: Source::Imm(_), .. } => {
                i64::from(u32::try_from(value).ok()? as i32)
            }
            Insn::LoadImm64 { imm: Imm64::Value(_), .. } => value as i64,
            _ => return None,
        };
        binding.bind_immediate(pattern, number)
    }

    /// Returns the run with the new window, if everything is bound and all conditions hold.
    fn conclude(&self, binding: &Binding) -> Option<Found> {
        let rule = &self.data.rule;
        if !rule.allows(binding) {
            return None;
        }
        let new = rule.instantiate(binding)?;
        let body: Vec<usize> =
            self.sites[self.data.kept..].iter().map(|site| site.expect("only kept ones are known")).collect();
        let mut places = body.clone();
        places.sort_unstable();
        // The latest place first, so that addresses and constants stay near their use.
        let run =
            places.iter().rev().find_map(|place| self.gathered(binding, &body, *place, &new[self.data.kept..]))?;
        let exact = !self.data.memory && self.sites.iter().all(Option::is_some);
        Some(Found { nodes: run, exact })
    }

    /// The run with the body's instructions gathered at one of them and replaced, if that changes nothing else.
    fn gathered(&self, binding: &Binding, body: &[usize], place: usize, new: &[Insn]) -> Option<Vec<Node>> {
        let nodes = &self.region.nodes;
        if !may_gather(self.region, self.trace, body, place) {
            return None;
        }
        let kept = self.sites[..self.data.kept].iter().enumerate();
        for (pattern, site) in kept {
            let insn = self.data.rule.before[pattern].insn;
            let reg = binding.registers[insn.written()?.index()]?;
            let Some(from) = *site else {
                // A known constant must also be known at the place itself.
                let same = |at| constant(self.region, self.trace, at, reg);
                let reader = self.sites[pattern + 1..].iter().flatten().min()?;
                (same(place) == same(*reader)).then_some(())?;
                continue;
            };
            let mut holds = nodes[from].insn.read();
            if holds.contains(reg) || from > place {
                return None;
            }
            holds.insert(reg);
            let overwrites = |at: usize| nodes[at].insn.written().is_some_and(|other| holds.contains(other));
            if (from + 1..place).any(|at| !body.contains(&at) && overwrites(at)) {
                return None;
            }
        }
        self.conditions_hold(binding, body).then_some(())?;
        let replaced = self.replaced(body, new)?;
        let mut run: Vec<Node> = (0..place).filter(|at| !body.contains(at)).map(|at| nodes[at].clone()).collect();
        let rest = (place + 1..nodes.len()).filter(|at| !body.contains(at)).map(|at| nodes[at].clone());
        run.extend(replaced);
        let end = run.len();
        run.extend(rest);
        self.unread(binding, &run[end..]).then_some(run)
    }

    /// Whether what must be dead or narrow afterwards is, given what follows.
    fn unread(&self, binding: &Binding, rest: &[Node]) -> bool {
        let rule = &self.data.rule;
        let demand = self.region.afterwards().before(rest);
        let most = |reg: Reg, bits: u32| {
            binding.registers[reg.index()].is_some_and(|bound| bound != Reg::R10 && demand.of(bound) <= bits)
        };
        rule.dead.iter().all(|reg| most(reg, 0)) && rule.narrow.iter().all(|reg| most(reg, 32))
    }

    /// Whether conditions on what registers hold before the window follow from the facts.
    fn conditions_hold(&self, binding: &Binding, body: &[usize]) -> bool {
        let rule = &self.data.rule;
        let needed = rule.conditions.iter().filter(|condition| condition.needs_registers());
        let made: RegSet = rule.before[..self.data.kept].iter().filter_map(|pattern| pattern.insn.written()).collect();
        let value = |reg: Reg| -> Option<Scalar> {
            let bound = binding.registers[reg.index()].filter(|_| !made.contains(reg))?;
            // The first instruction of the window reads the initial value.
            let reads = |at: &usize| self.region.nodes[*at].insn.read().contains(bound);
            let first = body.iter().copied().filter(reads).min()?;
            match self.region.precondition(first).registers[bound.index()].clone() {
                Value::Scalar(scalar) => Some(scalar),
                _ => None,
            }
        };
        needed.into_iter().all(|condition| implied(condition, binding, &value))
    }

    /// The new instructions, each with the id of one that it replaces: its own id if it stays.
    fn replaced(&self, body: &[usize], new: &[Insn]) -> Option<Vec<Node>> {
        let mut order = body.to_vec();
        order.sort_unstable();
        let mut free: Vec<usize> = order.clone();
        let mut templates: Vec<Option<usize>> = vec![None; new.len()];
        for (template, insn) in templates.iter_mut().zip(new) {
            if let Some(same) = free.iter().position(|at| self.region.nodes[*at].insn == *insn) {
                *template = Some(free.remove(same));
            }
        }
        let nodes = templates.into_iter().zip(new).rev().map(|(template, insn)| {
            let at = template.or_else(|| free.pop())?;
            let mut node = self.region.nodes[at].clone();
            node.insn = *insn;
            Some(node)
        });
        let mut nodes: Vec<Node> = nodes.collect::<Option<_>>()?;
        nodes.reverse();
        Some(nodes)
    }
}

/// Whether a comparison follows from what is known of a register.
fn implied(condition: &Condition, binding: &Binding, value: &dyn Fn(Reg) -> Option<Scalar>) -> bool {
    let Condition::Compare(op, Width::W64, left, right) = condition else { return false };
    let zero = Bits::new(64, 0);
    let immediates = binding.immediate_values();
    if right.needs_registers() {
        return false;
    }
    let bound = right.value(&zero, &immediates, &|_| zero).value();
    match left {
        Expression::Register(reg) => {
            let Some(scalar) = value(*reg) else { return false };
            let umax = scalar.umax.min(scalar.tnum.value | scalar.tnum.mask);
            match op {
                JumpOp::Le => umax <= bound,
                JumpOp::Lt => umax < bound,
                JumpOp::Ge => scalar.umin.max(scalar.tnum.value) >= bound,
                JumpOp::Gt => scalar.umin.max(scalar.tnum.value) > bound,
                JumpOp::Sge => scalar.smin >= bound as i64,
                JumpOp::Sgt => scalar.smin > bound as i64,
                JumpOp::Sle => scalar.smax <= bound as i64,
                JumpOp::Slt => scalar.smax < bound as i64,
                JumpOp::Eq => scalar.as_constant() == Some(bound),
                JumpOp::Ne => !scalar.contains(bound),
                JumpOp::Set => scalar.tnum.value & bound != 0,
            }
        }
        // Bits that are known: `r1 & 0xff == 0`.
        Expression::Operation(AluOp::And, Width::W64, inner, mask) => match (&**inner, op) {
            (Expression::Register(reg), JumpOp::Eq) if !mask.needs_registers() => {
                let mask = mask.value(&zero, &immediates, &|_| zero).value();
                value(*reg).is_some_and(|scalar| scalar.tnum.mask & mask == 0 && scalar.tnum.value & mask == bound)
            }
            _ => false,
        },
        _ => false,
    }
}
