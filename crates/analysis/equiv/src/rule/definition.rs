//! A rule: two windows of patterns, and when the new one may stand for the old one.

use kiln_isa::semantics::Bits;
use kiln_isa::{Insn, JumpOp, Reg, RegSet, Width};

use crate::rule::expression::{Condition, Expression};
use crate::rule::pattern::{Binding, Immediate, Offset, Pattern, map_fields};

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// The old window, which the rule matches.
    pub before: Vec<Pattern>,
    /// The new window.
    pub after: Vec<Pattern>,
    /// Immediates of the new window that are computed.
    pub expressions: Vec<Expression>,
    /// Conditions on immediates and register values.
    pub conditions: Vec<Condition>,
    /// Registers that must be dead afterwards.
    pub dead: RegSet,
    /// Registers of which at most the lower 32 bits are read afterwards.
    pub narrow: RegSet,
    /// Registers that must be bound to different registers.
    pub distinct: RegSet,
}

impl Rule {
    /// The instructions of both windows, the old one first.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.before.iter().chain(&self.after)
    }

    /// Immediates that conditions define by others, in an order in which they can be computed.
    pub fn definitions(&self) -> Vec<(u8, &Expression)> {
        let mut defined: Vec<(u8, &Expression)> = Vec::new();
        for condition in &self.conditions {
            if let Condition::Compare(JumpOp::Eq, Width::W64, Expression::Immediate(hole), expression) = condition
                && !expression.needs_registers()
                && !expression.mentions(*hole)
                && !defined.iter().any(|(other, own)| other == hole || own.mentions(*hole))
                && !defined.iter().any(|(other, _)| expression.mentions(*other))
            {
                defined.push((*hole, expression));
            }
        }
        defined
    }

    /// The registers that are placeholders: all of them except R10.
    pub fn registers(&self) -> RegSet {
        let mut set = RegSet::EMPTY;
        for pattern in self.patterns() {
            set = set.union(pattern.insn.read()).union(pattern.insn.written().into_iter().collect());
        }
        set.remove(Reg::R10);
        set
    }

    /// Binds the rule to instructions in the rule's own order. It does not check conditions: see [`Rule::allows`]. The
    /// caller checks liveness and conditions on register values.
    pub fn bind(&self, insns: &[Insn]) -> Option<Binding> {
        if insns.len() != self.before.len() {
            return None;
        }
        let mut binding = Binding::default();
        for (pattern, insn) in self.before.iter().zip(insns) {
            binding.extend(pattern, insn)?;
        }
        Some(binding)
    }

    /// Whether a binding satisfies `distinct` and all conditions that need no register values.
    pub fn allows(&self, binding: &Binding) -> bool {
        let bound: Vec<_> = self.distinct.iter().filter_map(|reg| binding.registers[reg.index()]).collect();
        let distinct = (1..bound.len()).all(|at| !bound[..at].contains(&bound[at]));
        let zero = Bits::new(64, 0);
        let immediates = binding.immediate_values();
        let holds = |condition: &Condition| condition.holds(&zero, &immediates, &|_| zero);
        let mut written = self.patterns().filter_map(|pattern| pattern.insn.written());
        let writable = written.all(|reg| binding.registers[reg.index()] != Some(Reg::R10));
        distinct && writable && self.conditions.iter().filter(|condition| !condition.needs_registers()).all(holds)
    }

    /// The new window for a binding; `None` if an offset does not fit its field.
    pub fn instantiate(&self, binding: &Binding) -> Option<Vec<Insn>> {
        self.after.iter().map(|pattern| self.instantiate_one(pattern, binding)).collect()
    }

    /// The old window for a binding.
    pub fn instantiate_before(&self, binding: &Binding) -> Option<Vec<Insn>> {
        self.before.iter().map(|pattern| self.instantiate_one(pattern, binding)).collect()
    }

    fn instantiate_one(&self, pattern: &Pattern, binding: &Binding) -> Option<Insn> {
        let zero = Bits::new(64, 0);
        let number = |literal: i64| match pattern.immediate {
            Immediate::Literal => Some(literal),
            Immediate::Hole(hole) => binding.immediates[usize::from(hole)],
            Immediate::Expression(at) => {
                let expression = self.expressions.get(usize::from(at)).filter(|own| !own.needs_registers())?;
                Some(expression.value(&zero, &binding.immediate_values(), &|_| zero).value() as i64)
            }
        };
        map_fields(
            &pattern.insn,
            &mut |reg| if reg == Reg::R10 { Some(reg) } else { binding.registers[reg.index()] },
            &mut { number },
            &mut |literal| match pattern.offset {
                Offset::Literal => Some(literal),
                Offset::Hole { hole, plus } => binding.offsets[usize::from(hole)]?.checked_add(plus.into()),
            },
        )
    }

    /// The rule with its placeholders renamed; `None` if rules may not hold one of its instructions.
    pub fn renamed(&self, names: &[Reg; Reg::COUNT]) -> Option<Rule> {
        let rename = |reg: Reg| names[reg.index()];
        let patterns = |patterns: &[Pattern]| -> Option<Vec<Pattern>> {
            patterns.iter().map(|pattern| pattern.renamed(&rename)).collect()
        };
        Some(Rule {
            name: self.name.clone(),
            before: patterns(&self.before)?,
            after: patterns(&self.after)?,
            expressions: self.expressions.iter().map(|expression| expression.rename(&rename)).collect(),
            conditions: self.conditions.iter().map(|condition| condition.rename(&rename)).collect(),
            dead: self.dead.iter().map(rename).collect(),
            narrow: self.narrow.iter().map(rename).collect(),
            distinct: self.distinct.iter().map(rename).collect(),
        })
    }
}
