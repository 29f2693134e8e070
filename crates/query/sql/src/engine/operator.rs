//! Operators over expressions in the engine's dialect.

use kiln_plan::expr::{BinaryOp, Expr};
use kiln_plan::value::DataType;
use sqlparser::ast;

use super::typed::Typed;
use crate::error::Error;
use crate::expression::walk;

/// Whether a value is no number, nor null.
pub(super) fn is_text(one: &Typed) -> bool {
    !one.is_null && matches!(one.data_type, DataType::Text | DataType::Histogram)
}

/// An operation of two numbers that gives a number.
pub(super) fn of_numbers(op: BinaryOp, one: &Typed, other: &Typed) -> Result<Typed, Error> {
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
