//! Constants, and parts of times, in the engine's dialect.

use kiln_plan::expr::Expr;
use kiln_plan::value::{DataType, Value};
use sqlparser::ast::{self, DateTimeField};

use super::function;
use super::typed::Typed;
use crate::error::Error;
use crate::expression::literal;

/// A constant for the engine.
pub(super) fn constant(value: &ast::Value) -> Result<Typed, Error> {
    let Expr::Literal(value) = literal(value)? else { return Err(Error::beyond("this constant is not understood")) };
    let data_type = Expr::Literal(value.clone()).data_type(&[]);
    let text = match &value {
        Value::Null => return Ok(Typed { is_null: true, ..Typed::new("NULL", DataType::Text) }),
        Value::Bool(true) => "TRUE".to_owned(),
        Value::Bool(false) => "FALSE".to_owned(),
        Value::Uint(value) => function::integer(*value),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Text(text) => function::quoted(text)?,
        Value::Histogram(_) => return Err(Error::beyond("this constant is not understood")),
    };
    Ok(Typed::new(text, data_type))
}

/// A part of a time, which is nanoseconds of the monotonic clock.
pub(super) fn extracted(field: &DateTimeField, time: &Typed) -> Option<Typed> {
    if time.data_type == DataType::Text {
        return None;
    }
    let text = &time.text;
    let of = |unit: u64, most: u64| {
        let units = format!("k_divide({text}, {unit})");
        Typed::new(if most == 0 { units } else { format!("k_modulo({units}, {most})") }, DataType::Uint)
    };
    Some(match field.to_string().to_lowercase().as_str() {
        "epoch" => Typed::new(format!("k_divide({text}, 1000000000.0)"), DataType::Float),
        "nanosecond" | "nanoseconds" => of(1, 1_000_000_000),
        "microsecond" | "microseconds" => of(1_000, 60_000_000),
        "millisecond" | "milliseconds" => of(1_000_000, 60_000),
        "second" | "seconds" => of(1_000_000_000, 60),
        "minute" | "minutes" => of(60_000_000_000, 60),
        "hour" | "hours" => of(3_600_000_000_000, 24),
        "day" | "days" => of(86_400_000_000_000, 0),
        _ => return None,
    })
}
