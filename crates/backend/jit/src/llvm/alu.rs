//! Arithmetic, moves, byte order.

use kiln_isa::{AluOp, ByteOrder, Reg, Size, Source, Width};

use super::builder::Value;
use super::function::FunctionWriter;
use crate::immediate::extended;
use crate::walk::LowerArithmetic;

impl LowerArithmetic for FunctionWriter<'_, '_> {
    fn alu(&mut self, op: AluOp, width: Width, dst: Reg, src: Source) {
        let bits = width.bits();
        let second = self.operand(width, src);
        if op == AluOp::Mov {
            return self.set_narrow(width, dst, second);
        }
        let first = self.operand(width, Source::Reg(dst));
        let name = match op {
            AluOp::Add => "add",
            AluOp::Sub => "sub",
            AluOp::Mul => "mul",
            AluOp::Or => "or",
            AluOp::And => "and",
            AluOp::Xor => "xor",
            AluOp::Lsh => "shl",
            AluOp::Rsh => "lshr",
            AluOp::Arsh => "ashr",
            AluOp::Mov => unreachable!("returned above"),
            AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod => return self.divide(op, width, dst, first, second),
        };
        let second = match op {
            AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => match src {
                Source::Imm(imm) => Value::from(u64::from(imm as u32 & (bits - 1))),
                Source::Reg(_) => self.out.value(format_args!("and i{bits} {second}, {}", bits - 1)),
            },
            _ => second,
        };
        let result = self.out.value(format_args!("{name} i{bits} {first}, {second}"));
        self.set_narrow(width, dst, result);
    }

    fn negate(&mut self, width: Width, dst: Reg) {
        let value = self.operand(width, Source::Reg(dst));
        let value = self.out.value(format_args!("sub i{} 0, {value}", width.bits()));
        self.set_narrow(width, dst, value);
    }

    fn move_sign_extend(&mut self, width: Width, from: Size, dst: Reg, src: Reg) {
        let value = self.register(src);
        let value = self.narrow(from.bits(), value);
        let value = self.out.value(format_args!("sext i{} {value} to i{}", from.bits(), width.bits()));
        self.set_narrow(width, dst, value);
    }

    fn endian(&mut self, order: ByteOrder, size: Size, dst: Reg) {
        let bits = size.bits();
        let value = self.register(dst);
        let mut value = self.narrow(bits, value);
        if order != ByteOrder::Little {
            value = self.out.value(format_args!("call i{bits} @llvm.bswap.i{bits}(i{bits} {value})"));
        }
        let value = self.widen(bits, value);
        self.set_register(dst, &value);
    }
}

impl FunctionWriter<'_, '_> {
    /// The lower bits of a value.
    pub(super) fn narrow(&mut self, bits: u32, value: Value) -> Value {
        match bits {
            64 => value,
            bits => self.out.value(format_args!("trunc i64 {value} to i{bits}")),
        }
    }

    /// A value with zeros above its bits.
    pub(super) fn widen(&mut self, bits: u32, value: Value) -> Value {
        match bits {
            64 => value,
            bits => self.out.value(format_args!("zext i{bits} {value} to i64")),
        }
    }

    /// An operand at a width.
    pub(super) fn operand(&mut self, width: Width, src: Source) -> Value {
        match src {
            Source::Reg(src) => {
                let value = self.register(src);
                self.narrow(width.bits(), value)
            }
            Source::Imm(imm) => match width {
                Width::W32 => Value::from(i64::from(imm) as u64),
                Width::W64 => Value::from(extended(width, imm)),
            },
        }
    }

    fn set_narrow(&mut self, width: Width, dst: Reg, value: Value) {
        let value = self.widen(width.bits(), value);
        self.set_register(dst, &value);
    }

    /// Division and remainder: by zero they give zero and the dividend, the minimum by -1 gives itself and zero. Both are
    /// branches: divisors are seldom either.
    fn divide(&mut self, op: AluOp, width: Width, dst: Reg, first: Value, second: Value) {
        let bits = width.bits();
        let (name, signed, remainder) = match op {
            AluOp::Div => ("udiv", false, false),
            AluOp::Mod => ("urem", false, true),
            AluOp::Sdiv => ("sdiv", true, false),
            _ => ("srem", true, true),
        };
        let done = self.out.fresh();
        let by_zero = if remainder { first.clone() } else { Value::from(0) };
        self.unless_divided_by(0, width, dst, &second, by_zero, &done);
        if signed {
            let negated = self.out.value(format_args!("sub i{bits} 0, {first}"));
            let by_minus_one = if remainder { Value::from(0) } else { negated };
            self.unless_divided_by(-1, width, dst, &second, by_minus_one, &done);
        }
        let value = self.out.value(format_args!("{name} i{bits} {first}, {second}"));
        self.set_narrow(width, dst, value);
        self.out.jump(&done);
        self.out.begin(&done);
    }

    /// Goes on with `result` and to `done` if the divisor is this one.
    fn unless_divided_by(&mut self, special: i64, width: Width, dst: Reg, divisor: &Value, result: Value, done: &str) {
        let (found, other) = (self.out.fresh(), self.out.fresh());
        let is_special = self.out.value(format_args!("icmp eq i{} {divisor}, {special}", width.bits()));
        self.out.choose(&is_special, &found, &other);
        self.out.begin(&found);
        self.set_narrow(width, dst, result);
        self.out.jump(done);
        self.out.begin(&other);
    }
}
