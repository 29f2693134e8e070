//! Expressions and conditions as instructions, over slots of the frame.
//!
//! A value is computed in R1, with R2 as the second operand; intermediate values are stored in the frame. There are no
//! loops and no helper calls, every branch goes forward, and every load is from a slot that was written, so the
//! verifier accepts all of it.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Size, Source, Width};

use super::code::{Code, Label};
use super::failure::Failure;
use super::frame::Frame;
use super::layout::SlotKind;
use crate::expr::{BinaryOp, Expr, Function, HASH_BEGIN, HASH_FACTOR, HASH_SHIFT};
use crate::split::{COMMAND_BYTES, Sign, number};
use crate::table::Table;
use crate::value::Value;

/// Writes expressions of one program.
pub struct Writer<'a> {
    /// The table that columns are of.
    pub table: &'a Table,
    /// Where columns are.
    pub frame: &'a Frame,
    /// A register with a zero that no verifier knows, which is added to every column that is read. A comparison then says
    /// nothing about the column, so what is compared before does not tell states apart behind it: without this, a
    /// verifier may follow as many paths as there are combinations of conditions.
    pub unknown_zero: Option<Reg>,
}

impl Writer<'_> {
    /// Computes a number in R1. `depth` intermediate values are in the frame.
    ///
    /// # Errors
    /// Returns [`Failure::Frame`] if there are too many intermediate values.
    pub fn number(&self, code: &mut Code<'_>, expr: &Expr, depth: u16) -> Result<(), Failure> {
        match expr {
            Expr::Column(_) | Expr::Literal(_) => self.simple(code, Reg::R1, expr),
            Expr::Negate(one) => {
                self.number(code, one, depth)?;
                code.push(Insn::Neg { width: Width::W64, dst: Reg::R1 });
                Ok(())
            }
            Expr::Binary(op, one, other) => {
                self.operands(code, one, other, depth)?;
                let op = match op {
                    BinaryOp::Add => AluOp::Add,
                    BinaryOp::Subtract => AluOp::Sub,
                    BinaryOp::Multiply => AluOp::Mul,
                    BinaryOp::BitAnd => AluOp::And,
                    BinaryOp::BitOr => AluOp::Or,
                    BinaryOp::BitXor => AluOp::Xor,
                    // The planner leaves these to the kernel for unsigned operands and constants in range only.
                    BinaryOp::Divide => AluOp::Div,
                    BinaryOp::Modulo => AluOp::Mod,
                    BinaryOp::ShiftLeft => AluOp::Lsh,
                    BinaryOp::ShiftRight => AluOp::Rsh,
                    _ => return Err(Failure::NotHere(op.text().to_owned())),
                };
                code.alu(op, Reg::R1, Source::Reg(Reg::R2));
                Ok(())
            }
            // The kernel divides by 0 to 0.
            Expr::Call(Function::Coalesce, operands) if is_quotient_or_zero(operands) => {
                self.number(code, &operands[0], depth)
            }
            Expr::Call(Function::Hash, operands) => self.hash(code, operands, depth),
            Expr::Call(Function::Least, operands) => self.fold(code, operands, depth, JumpOp::Le),
            Expr::Call(Function::Greatest, operands) => self.fold(code, operands, depth, JumpOp::Ge),
            Expr::Call(Function::Above, operands) => {
                let [one, other] = &operands[..] else { return Err(Failure::NotHere("above".to_owned())) };
                self.operands(code, one, other, depth)?;
                let some = code.label();
                code.branch(JumpOp::Ge, Reg::R1, Source::Reg(Reg::R2), some);
                code.copy(Reg::R1, Reg::R2);
                code.bind(some);
                code.alu(AluOp::Sub, Reg::R1, Source::Reg(Reg::R2));
                Ok(())
            }
            Expr::Case(arms, otherwise) => {
                let end = code.label();
                for (condition, value) in arms {
                    let next = code.label();
                    self.branch_at(code, condition, false, next, depth)?;
                    self.number(code, value, depth)?;
                    code.jump(end);
                    code.bind(next);
                }
                self.number(code, otherwise, depth)?;
                code.bind(end);
                Ok(())
            }
            _ => Err(Failure::NotHere("an expression".to_owned())),
        }
    }

    /// Keeps one of several numbers: the earlier one of two where `stays` holds between them.
    fn fold(&self, code: &mut Code<'_>, operands: &[Expr], depth: u16, stays: JumpOp) -> Result<(), Failure> {
        let (first, others) = operands.split_first().ok_or_else(|| Failure::NotHere("no number".to_owned()))?;
        self.number(code, first, depth)?;
        let so_far = self.frame.temporary(depth)?;
        for operand in others {
            code.store(Size::B8, Reg::R10, so_far, Source::Reg(Reg::R1));
            self.number(code, operand, depth + 1)?;
            code.copy(Reg::R2, Reg::R1);
            code.load(Size::B8, false, Reg::R1, Reg::R10, so_far);
            let kept = code.label();
            code.branch(stays, Reg::R1, Source::Reg(Reg::R2), kept);
            code.copy(Reg::R1, Reg::R2);
            code.bind(kept);
        }
        Ok(())
    }

    /// Mixes numbers to one, as [`Expr::evaluate`] does.
    fn hash(&self, code: &mut Code<'_>, operands: &[Expr], depth: u16) -> Result<(), Failure> {
        let so_far = self.frame.temporary(depth)?;
        code.constant(Reg::R1, HASH_BEGIN);
        for operand in operands {
            code.store(Size::B8, Reg::R10, so_far, Source::Reg(Reg::R1));
            self.number(code, operand, depth + 1)?;
            code.load(Size::B8, false, Reg::R2, Reg::R10, so_far);
            code.alu(AluOp::Xor, Reg::R1, Source::Reg(Reg::R2));
            code.constant(Reg::R2, HASH_FACTOR);
            code.alu(AluOp::Mul, Reg::R1, Source::Reg(Reg::R2));
            code.copy(Reg::R2, Reg::R1);
            code.alu(AluOp::Rsh, Reg::R2, Source::Imm(HASH_SHIFT as i32));
            code.alu(AluOp::Xor, Reg::R1, Source::Reg(Reg::R2));
        }
        Ok(())
    }

    /// Computes two numbers in R1 and R2.
    fn operands(&self, code: &mut Code<'_>, one: &Expr, other: &Expr, depth: u16) -> Result<(), Failure> {
        self.number(code, one, depth)?;
        if matches!(other, Expr::Column(_) | Expr::Literal(_)) {
            return self.simple(code, Reg::R2, other);
        }
        let waiting = self.frame.temporary(depth)?;
        code.store(Size::B8, Reg::R10, waiting, Source::Reg(Reg::R1));
        self.number(code, other, depth + 1)?;
        code.copy(Reg::R2, Reg::R1);
        code.load(Size::B8, false, Reg::R1, Reg::R10, waiting);
        Ok(())
    }

    fn simple(&self, code: &mut Code<'_>, dst: Reg, expr: &Expr) -> Result<(), Failure> {
        match expr {
            Expr::Column(column) => {
                if let crate::table::Source::Difference(of) = self.table.columns[*column].source {
                    self.simple(code, dst, &Expr::Column(of[0]))?;
                    self.simple(code, Reg::R3, &Expr::Column(of[1]))?;
                    code.alu(AluOp::Sub, dst, Source::Reg(Reg::R3));
                    return Ok(());
                }
                let (offset, kind) = self.frame.column(*column)?;
                let SlotKind::Number(scalar) = kind else { return Err(Failure::NotHere("text".to_owned())) };
                code.load(super::layout::size(scalar), scalar.signed, dst, Reg::R10, offset);
                if let Some(zero) = self.unknown_zero {
                    code.alu(AluOp::Add, dst, Source::Reg(zero));
                }
            }
            Expr::Literal(value) => code.constant(dst, value.bits().unwrap_or_default()),
            _ => return Err(Failure::NotHere("an expression".to_owned())),
        }
        Ok(())
    }

    /// Branches to `label` if the condition is `wanted`, and falls through otherwise.
    ///
    /// # Errors
    /// As [`Writer::number`].
    pub fn branch(&self, code: &mut Code<'_>, condition: &Expr, wanted: bool, label: Label) -> Result<(), Failure> {
        self.branch_at(code, condition, wanted, label, 0)
    }

    /// As [`Writer::branch`], while `depth` intermediate values are in the frame.
    fn branch_at(
        &self,
        code: &mut Code<'_>,
        condition: &Expr,
        wanted: bool,
        label: Label,
        depth: u16,
    ) -> Result<(), Failure> {
        match condition {
            Expr::Literal(value) => {
                // The kernel refuses unreachable code, so the code that follows stays reachable.
                let holds = crate::expr::truth(value).unwrap_or(false) == wanted;
                code.push(Insn::mov_imm(Reg::R1, i32::from(holds)));
                code.branch(JumpOp::Ne, Reg::R1, Source::Imm(0), label);
                Ok(())
            }
            Expr::Not(one) => self.branch_at(code, one, !wanted, label, depth),
            Expr::Binary(op, one, other) if op.is_logical() => {
                // If one `wanted` operand decides, each branches to the label; otherwise the first that is not ends the
                // test.
                if (*op == BinaryOp::Or) == wanted {
                    self.branch_at(code, one, wanted, label, depth)?;
                    return self.branch_at(code, other, wanted, label, depth);
                }
                let past = code.label();
                self.branch_at(code, one, !wanted, past, depth)?;
                self.branch_at(code, other, wanted, label, depth)?;
                code.bind(past);
                Ok(())
            }
            Expr::Binary(op, one, other) => match (&**one, &**other) {
                (Expr::Column(column), Expr::Literal(Value::Text(text))) => {
                    self.command(code, *column, text, (*op == BinaryOp::Equal) == wanted, label)
                }
                _ => self.comparison(code, *op, (one, other), depth, (wanted, label)),
            },
            _ => Err(Failure::NotHere("a condition".to_owned())),
        }
    }

    fn comparison(
        &self,
        code: &mut Code<'_>,
        op: BinaryOp,
        (one, other): (&Expr, &Expr),
        depth: u16,
        (wanted, label): (bool, Label),
    ) -> Result<(), Failure> {
        let sign = |expr: &Expr| number(expr, self.table).map_or(Sign::Unsigned, |number| number.sign);
        let signed = [sign(one), sign(other)].contains(&Sign::Signed);
        let jump = jump(op, signed);
        let jump = if wanted { jump } else { jump.row().negated.unwrap_or(jump) };
        let small = match other {
            Expr::Literal(value) => value.bits().and_then(|bits| i32::try_from(bits as i64).ok()),
            _ => None,
        };
        // The immediate is sign-extended, so small numbers are the same for comparisons of both kinds.
        match small {
            Some(small) => {
                self.number(code, one, depth)?;
                code.branch(jump, Reg::R1, Source::Imm(small), label);
            }
            None => {
                self.operands(code, one, other, depth)?;
                code.branch(jump, Reg::R1, Source::Reg(Reg::R2), label);
            }
        }
        Ok(())
    }

    /// Goes to `label` if a thread's name is this text, or is not.
    fn command(
        &self,
        code: &mut Code<'_>,
        column: usize,
        text: &str,
        equal: bool,
        label: Label,
    ) -> Result<(), Failure> {
        let (offset, SlotKind::Command) = self.frame.column(column)? else {
            return Err(Failure::NotHere("text".to_owned()));
        };
        let mut bytes = [0; COMMAND_BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        let differs = if equal { code.label() } else { label };
        for (at, half) in bytes.chunks_exact(8).enumerate() {
            code.load(Size::B8, false, Reg::R1, Reg::R10, offset + 8 * at as i16);
            code.constant(Reg::R2, u64::from_le_bytes(half.try_into().expect("eight bytes")));
            code.branch(JumpOp::Ne, Reg::R1, Source::Reg(Reg::R2), differs);
        }
        if equal {
            code.jump(label);
            code.bind(differs);
        }
        Ok(())
    }
}

/// Whether operands of `coalesce` are a quotient, and 0 where it has no value.
fn is_quotient_or_zero(operands: &[Expr]) -> bool {
    matches!(operands, [Expr::Binary(BinaryOp::Divide, ..), Expr::Literal(Value::Uint(0))])
}

fn jump(op: BinaryOp, signed: bool) -> JumpOp {
    match (op, signed) {
        (BinaryOp::Equal, _) => JumpOp::Eq,
        (BinaryOp::NotEqual, _) => JumpOp::Ne,
        (BinaryOp::Less, false) => JumpOp::Lt,
        (BinaryOp::Less, true) => JumpOp::Slt,
        (BinaryOp::LessEqual, false) => JumpOp::Le,
        (BinaryOp::LessEqual, true) => JumpOp::Sle,
        (BinaryOp::Greater, false) => JumpOp::Gt,
        (BinaryOp::Greater, true) => JumpOp::Sgt,
        (_, false) => JumpOp::Ge,
        (_, true) => JumpOp::Sge,
    }
}
