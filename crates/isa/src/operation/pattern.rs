//! Matching instructions with proof sequences.
//!
//! One matcher has two users. The recognizer starts with no operands and asks which operands make an instruction an
//! instance of a template. The check of a mark gives all operands and asks whether the instruction is an instance.
//!
//! ```text
//!   template  t >>= 32-k      instruction  w4 >>= 28      binding  t = 4, k = 4
//! ```

use super::row::{Condition, Form, From, Imm, Index, MAX_OPERANDS, Operand, OperandKind, Operation, Template, Test};
use crate::insn::{Address, ByteOrder, Insn, Reg, RegSet, Size, Source, Width};
use crate::table::JumpOp;

/// The operands bound so far, each to a register's number or an immediate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Binding([Option<i32>; MAX_OPERANDS]);

/// What all operands are bound to. The kinds and conditions have been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operands([i32; MAX_OPERANDS]);

impl Binding {
    /// With all of these bound, in order; those beyond [`MAX_OPERANDS`] are ignored.
    pub fn of(values: &[i32]) -> Binding {
        let mut binding = Binding::default();
        for (slot, value) in binding.0.iter_mut().zip(values) {
            *slot = Some(*value);
        }
        binding
    }

    /// The register that an operand is bound to.
    pub fn reg(&self, index: Index) -> Option<Reg> {
        let number = (*self.0.get(usize::from(index))?)?;
        u8::try_from(number).ok().and_then(Reg::new)
    }

    /// Binds an operand. Returns false if it is bound to something else or does not exist.
    fn bind(&mut self, index: Index, value: i32) -> bool {
        match self.0.get_mut(usize::from(index)) {
            Some(slot) => *slot.get_or_insert(value) == value,
            None => false,
        }
    }

    fn bind_imm(&mut self, imm: Imm, value: i32) -> bool {
        match imm {
            Imm::Operand(index) => self.bind(index, value),
            Imm::Complement(of, index) => of.checked_sub(value).is_some_and(|value| self.bind(index, value)),
            Imm::Sum(more, index) => value.checked_sub(more).is_some_and(|value| self.bind(index, value)),
            Imm::Constant(constant) => constant == value,
            Imm::Least(_) => false,
        }
    }

    fn bind_test(&mut self, test: Test, op: JumpOp) -> bool {
        let named = match test {
            Test::Is(own) => return own == op,
            Test::Operand(index) => op.row().negated.map(|_| (index, op)),
            Test::Opposite(index) => op.row().negated.map(|opposite| (index, opposite)),
        };
        named.is_some_and(|(index, op)| self.bind(index, op.row().code.into()))
    }

    fn bind_reg(&mut self, index: Index, reg: Reg) -> bool {
        self.bind(index, i32::from(reg.number()))
    }

    fn bind_source(&mut self, from: From, src: Source) -> bool {
        match (from, src) {
            (From::Reg(index), Source::Reg(reg)) => self.bind_reg(index, reg),
            (From::Imm(imm), Source::Imm(value)) => self.bind_imm(imm, value),
            _ => false,
        }
    }

    fn bind_address(&mut self, base: Index, offset: Imm, address: Address) -> bool {
        self.bind_reg(base, address.base) && self.bind_imm(offset, address.offset.into())
    }

    /// Whether an instruction is an instance of a template. It binds the operands that are still open. After `false`
    /// the binding is undefined.
    pub fn matches(&mut self, template: &Template, insn: &Insn) -> bool {
        match (*template, *insn) {
            (Template::Alu { ops, widths, dst: to, src: from }, Insn::Alu { op, width, dst, src }) => {
                ops.contains(&op) && widths.contains(&width) && self.bind_reg(to, dst) && self.bind_source(from, src)
            }
            (Template::Neg { widths, dst: to }, Insn::Neg { width, dst }) => {
                widths.contains(&width) && self.bind_reg(to, dst)
            }
            (
                Template::Load { size: bytes, dst: to, base, offset },
                Insn::Load { size, signed: false, dst, address },
            ) => bytes == size && self.bind_reg(to, dst) && self.bind_address(base, offset, address),
            (Template::Store { size: bytes, base, offset, src: from }, Insn::Store { size, address, src }) => {
                bytes == size && self.bind_source(from, src) && self.bind_address(base, offset, address)
            }
            (Template::Swap { size: bytes, dst: to }, Insn::Endian { order, size, dst }) => {
                order != ByteOrder::Little && bytes == size && self.bind_reg(to, dst)
            }
            (
                Template::Branch { test, width: at, dst: to, src: from, .. },
                Insn::Branch { op, width, dst, src, .. },
            ) => at == width && self.bind_test(test, op) && self.bind_reg(to, dst) && self.bind_source(from, src),
            _ => false,
        }
    }

    /// Returns the operands if all that the form uses are bound and allowed. An operand that the form does not use is
    /// bound by its conditions, or to 0.
    pub fn complete(mut self, operation: &Operation, form: &Form) -> Option<Operands> {
        for condition in form.when {
            if let Condition::Same(left, right) = *condition {
                let (left, right) = (usize::from(left), usize::from(right));
                let value = (*self.0.get(left)?).or(*self.0.get(right)?)?;
                (self.0[left], self.0[right]) = (self.0[left].or(Some(value)), self.0[right].or(Some(value)));
            }
        }
        let operands = Operands(self.0.map(|value| value.unwrap_or(0)));
        operands.allowed(operation, form).then_some(operands)
    }
}

impl Operands {
    fn value(&self, index: Index) -> i32 {
        self.0.get(usize::from(index)).copied().unwrap_or(0)
    }

    /// Their values: register numbers and immediates.
    pub fn values(&self) -> &[i32; MAX_OPERANDS] {
        &self.0
    }

    /// A register operand; R0 if the operand is not a register.
    pub fn reg(&self, index: Index) -> Reg {
        u8::try_from(self.value(index)).ok().and_then(Reg::new).unwrap_or(Reg::R0)
    }

    /// A comparison; `None` if the operand is none.
    pub fn comparison(&self, index: Index) -> Option<JumpOp> {
        comparison(self.value(index))
    }

    fn source(&self, from: From) -> Option<Source> {
        Some(match from {
            From::Reg(index) => Source::Reg(self.reg(index)),
            From::Imm(imm) => Source::Imm(i32::try_from(self.imm(imm)).ok()?),
        })
    }

    /// An immediate, sign-extended.
    pub fn imm(&self, imm: Imm) -> i64 {
        match imm {
            Imm::Operand(index) => self.value(index).into(),
            Imm::Complement(of, index) => i64::from(of) - i64::from(self.value(index)),
            Imm::Sum(more, index) => i64::from(more) + i64::from(self.value(index)),
            Imm::Constant(value) => value.into(),
            Imm::Least(of) => of.iter().map(|index| i64::from(self.value(*index))).min().unwrap_or(0),
        }
    }

    /// Immediates as a set: bit `n` is set if their least plus `n` is one of them.
    pub fn set(&self, of: &'static [Index]) -> u64 {
        let least = self.imm(Imm::Least(of));
        let bit = |index: &Index| u32::try_from(i64::from(self.value(*index)) - least).ok();
        of.iter().filter_map(bit).filter_map(|bit| 1u64.checked_shl(bit)).fold(0, |set, bit| set | bit)
    }

    /// Whether a condition holds.
    pub fn satisfies(&self, condition: Condition) -> bool {
        match condition {
            Condition::Same(left, right) => self.value(left) == self.value(right),
            Condition::Differ(left, right) => self.value(left) != self.value(right),
            Condition::Is(index, reg) => self.value(index) == i32::from(reg),
            Condition::IsNot(index, reg) => self.value(index) != i32::from(reg),
            Condition::Within(distance, of) => {
                let least = self.imm(Imm::Least(of));
                of.iter().all(|index| i64::from(self.value(*index)) - least < distance.into())
            }
        }
    }

    /// Whether registers are registers that a program may write, immediates lie in their ranges and the form's
    /// conditions hold.
    fn allowed(&self, operation: &Operation, form: &Form) -> bool {
        let fits = |(index, operand): (usize, &Operand)| match operand.kind {
            OperandKind::Immediate { min, max } => (min..=max).contains(&self.0[index]),
            OperandKind::Comparison => comparison(self.0[index]).is_some(),
            OperandKind::Source => (0..=10).contains(&self.0[index]),
            OperandKind::Result | OperandKind::Temporary => (0..=9).contains(&self.0[index]),
        };
        operation.operands.len() <= MAX_OPERANDS
            && operation.operands.iter().enumerate().all(fits)
            && form.when.iter().all(|condition| self.satisfies(*condition))
    }

    /// The registers bound to temporaries that the form writes. They must be dead after it; results are not among them.
    pub fn temporaries(&self, operation: &Operation, form: &Form) -> RegSet {
        let mut written = RegSet::EMPTY;
        for template in form.code {
            if let Some(dst) = template.dst() {
                written.insert(self.reg(dst));
            }
        }
        for result in operation.results() {
            written.remove(self.reg(result));
        }
        written
    }

    /// The instructions of a form, with the first choice of every template.
    pub fn instantiate(&self, form: &Form) -> Option<Vec<Insn>> {
        form.code.iter().map(|template| self.instance(template)).collect()
    }

    fn address(&self, base: Index, offset: Imm) -> Option<Address> {
        Some(Address { base: self.reg(base), offset: i16::try_from(self.imm(offset)).ok()? })
    }

    /// The instruction of a template, with its first choices.
    pub fn instance(&self, template: &Template) -> Option<Insn> {
        Some(match *template {
            Template::Alu { ops, widths, dst, src } => {
                Insn::Alu { op: *ops.first()?, width: *widths.first()?, dst: self.reg(dst), src: self.source(src)? }
            }
            Template::Neg { widths, dst } => Insn::Neg { width: *widths.first()?, dst: self.reg(dst) },
            Template::Load { size, dst, base, offset } => {
                Insn::Load { size, signed: false, dst: self.reg(dst), address: self.address(base, offset)? }
            }
            Template::Store { size, base, offset, src } => {
                Insn::Store { size, address: self.address(base, offset)?, src: self.source(src)? }
            }
            Template::Branch { test, width, dst, src, .. } => Insn::Branch {
                op: match test {
                    Test::Is(op) => op,
                    Test::Operand(index) => self.comparison(index)?,
                    Test::Opposite(index) => self.comparison(index)?.row().negated?,
                },
                width,
                dst: self.reg(dst),
                src: self.source(src)?,
                offset: 1,
            },
            Template::Swap { size, dst } => Insn::Endian { order: ByteOrder::Big, size, dst: self.reg(dst) },
        })
    }
}

impl Template {
    /// The operand that it writes, unless it stores.
    pub const fn dst(&self) -> Option<Index> {
        match *self {
            Template::Alu { dst, .. }
            | Template::Neg { dst, .. }
            | Template::Load { dst, .. }
            | Template::Swap { dst, .. } => Some(dst),
            Template::Store { .. } | Template::Branch { .. } => None,
        }
    }

    /// Whether it loads or stores.
    pub const fn accesses_memory(&self) -> bool {
        matches!(self, Template::Load { .. } | Template::Store { .. })
    }

    /// How many machine instructions a JIT makes of it alone. A branch counts as one more, because some are mispredicted.
    pub const fn cost(&self) -> usize {
        match self {
            Template::Swap { size: Size::B2, .. } => 2,
            Template::Branch { .. } => 3,
            _ => 1,
        }
    }

    /// How many instructions it stands for: its choices of operation and width.
    pub const fn choices(&self) -> usize {
        match self {
            Template::Alu { ops, widths, .. } => ops.len() * widths.len(),
            Template::Neg { widths, .. } => widths.len(),
            Template::Load { .. } | Template::Store { .. } | Template::Swap { .. } | Template::Branch { .. } => 1,
        }
    }

    /// The template restricted to one of its choices.
    pub fn choice(&self, number: usize) -> Template {
        let one = |widths: &'static [Width], at: usize| -> &'static [Width] { widths.get(at..=at).unwrap_or(&[]) };
        match *self {
            Template::Alu { ops, widths, dst, src } => {
                let at = number / widths.len().max(1);
                let widths_of = one(widths, number % widths.len().max(1));
                Template::Alu { ops: ops.get(at..=at).unwrap_or(&[]), widths: widths_of, dst, src }
            }
            Template::Neg { widths, dst } => Template::Neg { widths: one(widths, number), dst },
            other => other,
        }
    }
}

/// The comparison of a code, if rows may name it: one that has an opposite.
fn comparison(code: i32) -> Option<JumpOp> {
    JumpOp::ALL.iter().copied().find(|op| i32::from(op.row().code) == code && op.row().negated.is_some())
}
