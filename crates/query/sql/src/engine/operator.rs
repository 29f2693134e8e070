//! Operators in the engine's dialect.

use kiln_plan::expr::{BinaryOp, Expr};
use kiln_plan::value::{DataType, Value};
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

use super::function;
use super::translator::Translator;
use super::typed::Typed;
use crate::error::Error;
use crate::expression::{literal, operator, short_pattern, unknown, walk};

impl Translator<'_> {
    pub(super) fn unary(&mut self, whole: &ast::Expr, op: &UnaryOperator, inner: &ast::Expr) -> Result<Typed, Error> {
        if let (UnaryOperator::Minus, ast::Expr::Value(value)) = (op, inner)
            && let Ok(Expr::Literal(Value::Uint(value))) = literal(&value.value)
            && value <= 1 << 63
        {
            let text = if value == 1 << 63 { "(-9223372036854775807 - 1)".to_owned() } else { format!("-{value}") };
            return Ok(Typed::new(text, if value == 0 { DataType::Uint } else { DataType::Int }));
        }
        match op {
            UnaryOperator::Not => Ok(Typed::new(format!("(NOT {})", self.condition(inner)?), DataType::Bool)),
            UnaryOperator::Plus => self.expr(inner),
            UnaryOperator::BitwiseNot => {
                let inner = self.expr(inner)?;
                let all_bits = Typed::new(function::integer(u64::MAX), DataType::Uint);
                match inner.data_type {
                    // The engine does not know an integer with a sign from one without: `k_xor` would give one without.
                    DataType::Int => of_numbers(BinaryOp::Subtract, &Typed::new("-1", DataType::Int), &inner),
                    _ => of_numbers(BinaryOp::BitXor, &inner, &all_bits),
                }
            }
            UnaryOperator::Minus => {
                let inner = self.expr(inner)?;
                let data_type = if inner.data_type == DataType::Float { DataType::Float } else { DataType::Int };
                Ok(Typed { text: format!("k_negate({})", inner.text), data_type, is_null: inner.is_null })
            }
            _ => Err(unknown(whole)),
        }
    }

    pub(super) fn binary(&mut self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr) -> Result<Typed, Error> {
        use BinaryOperator as Sign;
        match op {
            Sign::And | Sign::Or => {
                let [one, other] = [self.condition(left)?, self.condition(right)?];
                return Ok(Typed::new(format!("({one} {op} {other})"), DataType::Bool));
            }
            Sign::StringConcat => {
                let [one, other] = [self.expr(left)?, self.expr(right)?].map(|one| function::as_text(&one));
                return Ok(Typed::new(format!("({one} || {other})"), DataType::Text));
            }
            Sign::PGRegexMatch | Sign::Regexp => return self.regexp("k_regexp", left, right, false),
            Sign::PGRegexIMatch => return self.regexp("k_regexp_i", left, right, false),
            Sign::PGRegexNotMatch => return self.regexp("k_regexp", left, right, true),
            Sign::PGRegexNotIMatch => return self.regexp("k_regexp_i", left, right, true),
            Sign::PGLikeMatch => return self.like(left, right, None, false, false),
            Sign::PGNotLikeMatch => return self.like(left, right, None, true, false),
            Sign::PGILikeMatch => return self.like(left, right, None, false, true),
            Sign::PGNotILikeMatch => return self.like(left, right, None, true, true),
            Sign::PGStartsWith => return function::called("starts_with", &[self.expr(left)?, self.expr(right)?]),
            Sign::Spaceship => {
                let [one, other] = self.compared("<=>", left, right)?;
                return Ok(Typed::new(format!("({one} IS {other})"), DataType::Bool));
            }
            _ => {}
        }
        let own = match op {
            Sign::DuckIntegerDivide | Sign::MyIntegerDivide => BinaryOp::Divide,
            _ => operator(op).ok_or_else(|| Error::beyond(format!("the operator `{op}` is not understood")))?,
        };
        if own.is_comparison() {
            let [one, other] = [self.expr(left)?, self.expr(right)?];
            return Ok(Typed::new(comparison(own.text(), &one, &other)?, DataType::Bool));
        }
        let [one, other] = [self.expr(left)?, self.expr(right)?];
        if own == BinaryOp::ShiftLeft && is_text(&one) && is_text(&other) {
            return function::called("cidr", &[one, other]);
        }
        of_numbers(own, &one, &other)
    }

    /// The operands of a comparison.
    pub(super) fn compared(&mut self, sign: &str, left: &ast::Expr, right: &ast::Expr) -> Result<[String; 2], Error> {
        compared(sign, &self.expr(left)?, &self.expr(right)?).map(|both| both.map(str::to_owned))
    }

    pub(super) fn like(
        &mut self,
        inner: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        negated: bool,
        any_case: bool,
    ) -> Result<Typed, Error> {
        if let ast::Expr::Value(value) = pattern {
            short_pattern(&value.value)?;
        }
        let operands = [self.expr(inner)?, self.expr(pattern)?];
        let [one, pattern] = operands.map(|one| {
            let text = function::as_text(&one);
            if any_case { format!("k_lower({text})") } else { text }
        });
        let escape = match escape {
            None => String::new(),
            Some(escape) => {
                let escape = self.expr(escape)?.text;
                if any_case && escape.contains(char::is_alphabetic) {
                    return Err(Error::new("the ESCAPE of ILIKE is no letter, and a constant"));
                }
                format!(", {escape}")
            }
        };
        let not = if negated { "NOT " } else { "" };
        Ok(Typed::new(format!("({not}k_like({one}, {pattern}{escape}))"), DataType::Bool))
    }

    /// Refuses a constant that is no regular expression.
    pub(super) fn check_pattern(&self, pattern: &ast::Expr) -> Result<(), Error> {
        match pattern {
            ast::Expr::Nested(inner) => self.check_pattern(inner),
            ast::Expr::Value(value) => match (literal(&value.value)?, self.scope.engine) {
                (Expr::Literal(Value::Text(text)), Some(check)) => {
                    check(&text).map_err(|why| self.fail(pattern, Error::new(why)))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    pub(super) fn regexp(
        &mut self,
        name: &str,
        inner: &ast::Expr,
        pattern: &ast::Expr,
        negated: bool,
    ) -> Result<Typed, Error> {
        self.check_pattern(pattern)?;
        let [one, pattern] = [self.expr(inner)?, self.expr(pattern)?].map(|one| function::as_text(&one));
        let not = if negated { "NOT " } else { "" };
        Ok(Typed::new(format!("({not}{name}({one}, {pattern}))"), DataType::Bool))
    }
}

/// Whether a value is no number, nor null.
fn is_text(one: &Typed) -> bool {
    !one.is_null && matches!(one.data_type, DataType::Text | DataType::Histogram)
}

/// An operation of two numbers that gives a number.
fn of_numbers(op: BinaryOp, one: &Typed, other: &Typed) -> Result<Typed, Error> {
    if is_text(one) || is_text(other) {
        return Err(mismatch(op.text(), one, other));
    }
    let name = match op {
        BinaryOp::Add => "k_add",
        BinaryOp::Subtract => "k_subtract",
        BinaryOp::Multiply => "k_multiply",
        BinaryOp::Divide => "k_divide",
        BinaryOp::Modulo => "k_modulo",
        BinaryOp::BitAnd => "k_and",
        BinaryOp::BitOr => "k_or",
        BinaryOp::BitXor => "k_xor",
        BinaryOp::ShiftLeft => "k_left",
        _ => "k_right",
    };
    let types = [one, other].map(|one| if one.is_null { DataType::Uint } else { one.data_type });
    let data_type = Expr::binary(op, Expr::Column(0), Expr::Column(1)).data_type(&types);
    let is_null = one.is_null || other.is_null;
    Ok(Typed { text: format!("{name}({}, {})", one.text, other.text), data_type, is_null })
}

/// A comparison. SQLite would take integers from 2^63 on, which are bytes to it, for greater than any other number.
pub(super) fn comparison(sign: &str, one: &Typed, other: &Typed) -> Result<String, Error> {
    let [own, others] = compared(sign, one, other)?;
    Ok(match [one.data_type, other.data_type] {
        [DataType::Float, DataType::Uint | DataType::Time] | [DataType::Uint | DataType::Time, DataType::Float] => {
            format!("(k_compare({own}, {others}) {sign} 0)")
        }
        _ => format!("({own} {sign} {others})"),
    })
}

/// The texts of a comparison's operands.
pub(super) fn compared<'t>(sign: &str, one: &'t Typed, other: &'t Typed) -> Result<[&'t str; 2], Error> {
    let text = [one, other].map(|one| matches!(one.data_type, DataType::Text | DataType::Histogram));
    if text[0] != text[1] && !one.is_null && !other.is_null {
        return Err(mismatch(sign, one, other));
    }
    Ok([&one.text, &other.text])
}

fn mismatch(sign: &str, one: &Typed, other: &Typed) -> Error {
    let [one, other] = [one, other].map(|one| one.data_type.name());
    Error::new(format!("`{sign}` does not go between {one} and {other}"))
}

/// Refuses an operation of numbers that Kiln's own plans refuse, too: its result has more than 64 bits.
pub(super) fn refuse_wrong_constants(expr: &ast::Expr, operands: &[&ast::Expr]) -> Result<(), Error> {
    use ast::Value::{DoubleQuotedString, SingleQuotedString};
    let is_number = |operand: &&ast::Expr| match operand {
        ast::Expr::Value(value) => !matches!(value.value, SingleQuotedString(_) | DoubleQuotedString(_)),
        _ => false,
    };
    if !operands.iter().all(is_number) {
        return Ok(());
    }
    match walk(expr, &mut |_| None) {
        Err(error) if !error.is_beyond => Err(error),
        _ => Ok(()),
    }
}
