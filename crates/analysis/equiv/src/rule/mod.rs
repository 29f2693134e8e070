//! Rewrite rules: windows whose registers and immediates stand for anything, proved once for all of them.
//!
//! ```text
//!   rule store-immediate
//!     w1 = $a
//!     *(u32 *)(r2 + @o) = w1
//!   =>
//!     *(u32 *)(r2 + @o) = $a
//!   dead r1
//!   distinct r1 r2
//! ```
//!
//! R0 to R9 in a rule are placeholders, R10 is itself. A placeholder that is only read may bind R10. `$a` is an
//! immediate (sign-extended to 64 bits; in `r1 = $a ll` all 64 bits), `@o` an offset, to which a constant from -128 to 127 may be added (`@o + 4`). In the new window an
//! immediate may be computed: `$(a & b)`. Conditions restrict what binds:
//!
//! - `dead r1 ...`: registers that nothing reads afterwards. All others must be as the old window leaves them.
//! - `narrow r1 ...`: registers of which only the lower 32 bits are read afterwards.
//! - `distinct r1 r2 ...`: placeholders that bind different registers. All others may bind the same register:
//!   the proof goes through every way to identify them.
//! - `where CONDITION`: a comparison in the instruction set's words (`$a u< 32` is written `$a < 32`, signed ones are
//!   `s<`), over immediates and the values that registers hold before the window: `r2 < 256` must then follow from
//!   facts. `fits EXPRESSION` says that 32 bits, sign-extended, hold it. `where $b == EXPRESSION` over other immediates
//!   defines one by them.
//!
//! A rule may end with a branch out of the window, written `if r1 == $a goto out`: both windows then go to the same place.
//!
//! How it works: an immediate or offset placeholder is a reserved number in the [`Insn`], so that rules are matched,
//! printed and run like any other instructions; the symbolic machine reads a reserved number as a variable
//! ([`crate::window::machine::Holes`]). A rule that spells a reserved number out is refused.

mod print;
mod proof;
pub mod text;

use kiln_isa::semantics::{BitVec, Bits, compare};
use kiln_isa::{Address, AluOp, Imm64, Insn, JumpOp, Reg, RegSet, Source, Width};

pub use crate::rule::proof::{RuleVerdict, prove_rule, rule_queries};
pub use crate::rule::text::RuleError;

/// The first reserved immediate: hole 0 of the old window.
const IMMEDIATES: i32 = 0x4b1e_0000;
/// The first reserved immediate of an expression of the new window.
const EXPRESSIONS: i32 = 0x4b1f_0000;
/// The first reserved offset: hole 0 minus 128.
const OFFSETS: i16 = 0x4000;
/// Holes of each kind at most.
pub const HOLES: usize = 8;

/// The immediate that stands for a hole.
pub const fn immediate_hole(hole: u8) -> i32 {
    IMMEDIATES + hole as i32
}

/// The offset that stands for a hole plus a constant.
pub const fn offset_hole(hole: u8, plus: i8) -> i16 {
    OFFSETS + 0x100 * hole as i16 + 0x80 + plus as i16
}

/// The immediate that stands for an expression of the new window.
pub const fn expression_hole(expression: u8) -> i32 {
    EXPRESSIONS + expression as i32
}

/// The hole that an immediate stands for.
pub fn as_immediate_hole(value: i64) -> Option<usize> {
    usize::try_from(value - i64::from(IMMEDIATES)).ok().filter(|hole| *hole < HOLES)
}

pub(crate) fn as_expression_hole(value: i64) -> Option<usize> {
    usize::try_from(value - i64::from(EXPRESSIONS)).ok().filter(|hole| *hole < HOLES)
}

/// The hole, and the constant added to it, that an offset stands for.
pub fn as_offset_hole(value: i16) -> Option<(usize, i16)> {
    let from = usize::try_from(value - OFFSETS).ok()?;
    (from < HOLES << 8).then_some((from >> 8, (from & 0xff) as i16 - 0x80))
}

/// A 64-bit number computed from what a rule's placeholders are bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression {
    /// An immediate.
    Immediate(u8),
    /// What a register holds before the window.
    Register(Reg),
    /// A number.
    Constant(i64),
    /// An operation of the instruction set.
    Operation(AluOp, Width, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// Its value over any kind of bit vector, 64 bits wide.
    pub fn value<B: BitVec>(&self, zero: &B, immediates: &[B], registers: &dyn Fn(Reg) -> B) -> B {
        match self {
            Expression::Immediate(hole) => immediates[usize::from(*hole)].clone(),
            Expression::Register(reg) => registers(*reg),
            Expression::Constant(value) => zero.like(*value as u64),
            Expression::Operation(op, width, left, right) => {
                let left = left.value(zero, immediates, registers);
                let right = right.value(zero, immediates, registers);
                kiln_isa::semantics::at_width(*width, &left, &right, |a, b| op.apply(a, b))
            }
        }
    }

    /// Whether it asks for an immediate.
    pub fn mentions(&self, hole: u8) -> bool {
        match self {
            Expression::Immediate(own) => *own == hole,
            Expression::Operation(_, _, left, right) => left.mentions(hole) || right.mentions(hole),
            _ => false,
        }
    }

    /// Whether it asks for a register's value.
    pub fn needs_registers(&self) -> bool {
        match self {
            Expression::Register(_) => true,
            Expression::Operation(_, _, left, right) => left.needs_registers() || right.needs_registers(),
            _ => false,
        }
    }

    fn rename(&self, rename: &dyn Fn(Reg) -> Reg) -> Expression {
        match self {
            Expression::Register(reg) => Expression::Register(rename(*reg)),
            Expression::Operation(op, width, left, right) => {
                Expression::Operation(*op, *width, left.rename(rename).into(), right.rename(rename).into())
            }
            other => other.clone(),
        }
    }
}

/// What must hold for a rule to apply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// A comparison.
    Compare(JumpOp, Width, Expression, Expression),
    /// 32 bits, sign-extended, hold it.
    Fits(Expression),
}

impl Condition {
    /// Whether it holds, over any kind of bit vector.
    pub fn holds<B: BitVec>(&self, zero: &B, immediates: &[B], registers: &dyn Fn(Reg) -> B) -> B::Bool {
        match self {
            Condition::Compare(op, width, left, right) => {
                let left = left.value(zero, immediates, registers);
                let right = right.value(zero, immediates, registers);
                compare(*op, *width, &left, &right)
            }
            Condition::Fits(expression) => {
                let value = expression.value(zero, immediates, registers);
                value.truncate(32).sign_extend(64).eq(&value)
            }
        }
    }

    /// Whether it asks for a register's value: then facts must show it at each use.
    pub fn needs_registers(&self) -> bool {
        match self {
            Condition::Compare(_, _, left, right) => left.needs_registers() || right.needs_registers(),
            Condition::Fits(expression) => expression.needs_registers(),
        }
    }

    fn rename(&self, rename: &dyn Fn(Reg) -> Reg) -> Condition {
        match self {
            Condition::Compare(op, width, left, right) => {
                Condition::Compare(*op, *width, left.rename(rename), right.rename(rename))
            }
            Condition::Fits(expression) => Condition::Fits(expression.rename(rename)),
        }
    }
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// What it matches.
    pub before: Vec<Insn>,
    /// What it puts there.
    pub after: Vec<Insn>,
    /// What the new window computes from what was bound.
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

/// What a rule's placeholders are bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// Registers by placeholder number; R10 is itself.
    pub registers: [Option<Reg>; Reg::COUNT],
    /// Immediates by hole.
    pub immediates: [Option<i64>; HOLES],
    /// Offsets by hole.
    pub offsets: [Option<i16>; HOLES],
}

impl Default for Binding {
    fn default() -> Binding {
        Binding { registers: [None; Reg::COUNT], immediates: [None; HOLES], offsets: [None; HOLES] }
    }
}

fn bind<T: PartialEq + Copy>(place: &mut Option<T>, value: T) -> Option<()> {
    (*place.get_or_insert(value) == value).then_some(())
}

/// A mapping of an instruction's registers, immediates and offsets; everything else stays.
fn map_insn(
    insn: &Insn,
    reg: &mut dyn FnMut(Reg) -> Option<Reg>,
    imm: &mut dyn FnMut(i32) -> Option<i32>,
    wide: &mut dyn FnMut(u64) -> Option<u64>,
    offset: &mut dyn FnMut(i16) -> Option<i16>,
) -> Option<Insn> {
    let mut source = |src: Source, reg: &mut dyn FnMut(Reg) -> Option<Reg>| {
        Some(match src {
            Source::Reg(src) => Source::Reg(reg(src)?),
            Source::Imm(value) => Source::Imm(imm(value)?),
        })
    };
    let mut at = |address: Address, reg: &mut dyn FnMut(Reg) -> Option<Reg>| {
        Some(Address { base: reg(address.base)?, offset: offset(address.offset)? })
    };
    Some(match *insn {
        Insn::Alu { op, width, dst, src } => Insn::Alu { op, width, dst: reg(dst)?, src: source(src, reg)? },
        Insn::Neg { width, dst } => Insn::Neg { width, dst: reg(dst)? },
        Insn::MoveSignExtend { width, from, dst, src } => {
            Insn::MoveSignExtend { width, from, dst: reg(dst)?, src: reg(src)? }
        }
        Insn::Endian { order, size, dst } => Insn::Endian { order, size, dst: reg(dst)? },
        Insn::LoadImm64 { dst, imm: Imm64::Value(value) } => {
            Insn::LoadImm64 { dst: reg(dst)?, imm: Imm64::Value(wide(value)?) }
        }
        Insn::Load { size, signed, dst, address } => {
            Insn::Load { size, signed, dst: reg(dst)?, address: at(address, reg)? }
        }
        Insn::Store { size, address, src } => Insn::Store { size, address: at(address, reg)?, src: source(src, reg)? },
        Insn::Branch { op, width, dst, src, offset: 0 } => {
            Insn::Branch { op, width, dst: reg(dst)?, src: source(src, reg)?, offset: 0 }
        }
        Insn::Atomic { op, fetch, size, address, src } if op != kiln_isa::AtomicOp::CompareExchange => {
            Insn::Atomic { op, fetch, size, address: at(address, reg)?, src: reg(src)? }
        }
        _ => return None,
    })
}

/// An instruction without its registers, immediates and offsets: what can stand for a pattern has the same shape. `None`
/// where rules may not hold it.
pub fn shape(insn: &Insn) -> Option<Insn> {
    map_insn(insn, &mut |_| Some(Reg::R0), &mut |_| Some(0), &mut |_| Some(0), &mut |_| Some(0))
}

impl Rule {
    /// Immediates that a condition gives by others, in an order in which they can be computed.
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

    /// The placeholders, R10 left out.
    pub fn registers(&self) -> RegSet {
        let mut set = RegSet::EMPTY;
        for insn in self.before.iter().chain(&self.after) {
            set = set.union(insn.read());
            set.extend_with(insn.written());
        }
        set.remove(Reg::R10);
        set
    }

    /// Binds the rule to instructions in the rule's own order. Liveness, `distinct` and conditions on register values
    /// are the caller's: see [`Rule::allows`] for the rest.
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
        let mut written = self.before.iter().chain(&self.after).filter_map(Insn::written);
        let writable = written.all(|reg| binding.registers[reg.index()] != Some(Reg::R10));
        distinct && writable && self.conditions.iter().filter(|condition| !condition.needs_registers()).all(holds)
    }

    /// The new window for a binding; `None` where something does not fit its field.
    pub fn instantiate(&self, binding: &Binding) -> Option<Vec<Insn>> {
        self.after.iter().map(|insn| self.instantiate_one(insn, binding)).collect()
    }

    /// The old window for a binding.
    pub fn instantiate_before(&self, binding: &Binding) -> Option<Vec<Insn>> {
        self.before.iter().map(|insn| self.instantiate_one(insn, binding)).collect()
    }

    fn instantiate_one(&self, insn: &Insn, binding: &Binding) -> Option<Insn> {
        let zero = Bits::new(64, 0);
        let immediates = binding.immediate_values();
        let number = |value: i64| match (as_immediate_hole(value), as_expression_hole(value)) {
            (Some(hole), _) => binding.immediates[hole],
            (_, Some(hole)) => {
                let expression = self.expressions.get(hole).filter(|expression| !expression.needs_registers())?;
                Some(expression.value(&zero, &immediates, &|_| zero).value() as i64)
            }
            _ => Some(value),
        };
        map_insn(
            insn,
            &mut |reg| if reg == Reg::R10 { Some(reg) } else { binding.registers[reg.index()] },
            &mut |imm| Some(number(imm.into())? as i32),
            &mut |wide| Some(number(wide as i64)? as u64),
            &mut |offset| match as_offset_hole(offset) {
                Some((hole, plus)) => binding.offsets[hole]?.checked_add(plus),
                None => Some(offset),
            },
        )
    }

    /// The rule with its placeholders renamed; `None` where rules may not hold one of its instructions.
    pub fn renamed(&self, names: &[Reg; Reg::COUNT]) -> Option<Rule> {
        let rename = |reg: Reg| names[reg.index()];
        let insns = |insns: &[Insn]| -> Option<Vec<Insn>> {
            insns
                .iter()
                .map(|insn| map_insn(insn, &mut |reg| Some(rename(reg)), &mut Some, &mut Some, &mut Some))
                .collect()
        };
        Some(Rule {
            name: self.name.clone(),
            before: insns(&self.before)?,
            after: insns(&self.after)?,
            expressions: self.expressions.iter().map(|expression| expression.rename(&rename)).collect(),
            conditions: self.conditions.iter().map(|condition| condition.rename(&rename)).collect(),
            dead: self.dead.iter().map(rename).collect(),
            narrow: self.narrow.iter().map(rename).collect(),
            distinct: self.distinct.iter().map(rename).collect(),
        })
    }
}

/// Adding an optional register to a set.
trait ExtendWith {
    fn extend_with(&mut self, reg: Option<Reg>);
}

impl ExtendWith for RegSet {
    fn extend_with(&mut self, reg: Option<Reg>) {
        if let Some(reg) = reg {
            self.insert(reg);
        }
    }
}

impl Binding {
    /// Binds one instruction of a rule's old window, on top of what is bound already.
    pub fn extend(&mut self, pattern: &Insn, insn: &Insn) -> Option<()> {
        // The pattern with what the instruction has in its place must be the instruction.
        let (mut regs, mut imms, mut wides, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        map_insn(
            insn,
            &mut |reg| {
                regs.push(reg);
                Some(reg)
            },
            &mut |imm| {
                imms.push(imm);
                Some(imm)
            },
            &mut |wide| {
                wides.push(wide);
                Some(wide)
            },
            &mut |offset| {
                offsets.push(offset);
                Some(offset)
            },
        )?;
        let (mut regs, mut imms, mut wides, mut offsets) =
            (regs.into_iter(), imms.into_iter(), wides.into_iter(), offsets.into_iter());
        let Binding { registers, immediates, offsets: bound_offsets } = self;
        let mut bind_number = |pattern: i64, value: i64| match as_immediate_hole(pattern) {
            Some(hole) => bind(&mut immediates[hole], value),
            None => (pattern == value).then_some(()),
        };
        let mut narrow = |pattern: i32| {
            let value = imms.next()?;
            bind_number(pattern.into(), value.into())?;
            Some(value)
        };
        let result = map_insn(
            pattern,
            &mut |reg| {
                let value = regs.next()?;
                match reg {
                    Reg::R10 => (value == Reg::R10).then_some(())?,
                    _ => bind(&mut registers[reg.index()], value)?,
                }
                Some(value)
            },
            &mut narrow,
            &mut |pattern| {
                let value = wides.next()?;
                match as_immediate_hole(pattern as i64) {
                    // Wide holes and narrow ones do not mix within one instruction.
                    Some(_) => Some(pattern),
                    None => (pattern == value).then_some(value),
                }
            },
            &mut |pattern| {
                let value = offsets.next()?;
                match as_offset_hole(pattern) {
                    Some((hole, plus)) => bind(&mut bound_offsets[hole], value.checked_sub(plus)?)?,
                    None => (pattern == value).then_some(())?,
                }
                Some(value)
            },
        )?;
        match (result, *insn) {
            (Insn::LoadImm64 { imm: Imm64::Value(pattern), .. }, Insn::LoadImm64 { imm: Imm64::Value(value), .. }) => {
                bind_number(pattern as i64, value as i64)
            }
            (result, insn) => (result == insn).then_some(()),
        }
    }

    pub(crate) fn immediate_values(&self) -> Vec<Bits> {
        self.immediates.iter().map(|value| Bits::new(64, value.unwrap_or(0) as u64)).collect()
    }
}
