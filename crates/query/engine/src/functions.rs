//! Functions of single rows that SQLite lacks, or answers otherwise than Kiln: exact integers, regular expressions, times.

use std::cmp::Ordering;
use std::num::NonZeroUsize;
use std::sync::Arc;

use kiln_plan::Value;
use kiln_plan::expr::{BinaryOp, Expr, Function, MAX_PATTERN, is_like};
use regex::{Regex, RegexBuilder};
use rusqlite::functions::Context;
use rusqlite::{Connection, Result};

use crate::value::{FLAGS, kiln, own};

/// Bytes of a compiled regular expression.
const MOST_REGEX_BYTES: usize = 1 << 20;
/// How long a text becomes at most before a function stops: longer than SQLite takes ([`crate::MOST_TEXT`]), so that the query
/// fails.
const TOO_MUCH: usize = crate::MOST_TEXT as usize + 1;

/// A function of values; null for operands that it has no value for.
type Evaluate = fn(&[Value]) -> Value;

/// Functions by name, with their number of operands; -1 for any number.
#[rustfmt::skip]
const FUNCTIONS: &[(&str, i32, Evaluate)] = &[
    ("k_add", 2, |of| arithmetic(BinaryOp::Add, of)),
    ("k_subtract", 2, |of| arithmetic(BinaryOp::Subtract, of)),
    ("k_multiply", 2, |of| arithmetic(BinaryOp::Multiply, of)),
    ("k_divide", 2, |of| arithmetic(BinaryOp::Divide, of)),
    ("k_modulo", 2, |of| arithmetic(BinaryOp::Modulo, of)),
    ("k_negate", 1, |of| arithmetic(BinaryOp::Subtract, &[Value::Int(0), of[0].clone()])),
    ("k_compare", 2, |of| compared(&of[0], &of[1]).map_or(Value::Null, |order| Value::Int(order as i64))),
    ("k_and", 2, |of| kilns(BinaryOp::BitAnd, of)),
    ("k_or", 2, |of| kilns(BinaryOp::BitOr, of)),
    ("k_xor", 2, |of| kilns(BinaryOp::BitXor, of)),
    ("k_left", 2, |of| kilns(BinaryOp::ShiftLeft, of)),
    ("k_right", 2, |of| kilns(BinaryOp::ShiftRight, of)),
    ("k_floor", 1, |of| rounded(&of[0], f64::floor)),
    ("k_ceil", 1, |of| rounded(&of[0], f64::ceil)),
    ("k_trunc", 1, |of| rounded(&of[0], f64::trunc)),
    ("k_round", 1, |of| rounded(&of[0], f64::round)),
    ("k_round", 2, round_to),
    ("k_sign", 1, |of| of[0].as_float().map_or(Value::Null, |it| Value::Int(if it > 0.0 { 1 } else { -i64::from(it < 0.0) }))),
    ("k_log10", 1, |of| finite(of[0].as_float().map(f64::log10))),
    ("k_int", 3, |of| to_integer(&of[0], [&of[1], &of[2]])),
    ("k_float", 1, |of| match &of[0] {
        Value::Text(text) => finite(text.trim().parse().ok()),
        other => finite(other.as_float()),
    }),
    ("k_text", 1, |of| to_text(&of[0])),
    ("k_bool", 1, to_bool),
    ("k_date_trunc", 2, |of| truncated(&of[0], &of[1])),
    ("k_split_part", 3, split_part),
    ("k_lpad", 3, |of| padded(of, true)),
    ("k_rpad", 3, |of| padded(of, false)),
    ("k_left_of", 2, |of| part(of, true)),
    ("k_right_of", 2, |of| part(of, false)),
    ("k_to_hex", 1, |of| of[0].bits().map_or(Value::Null, |bits| Value::text(&format!("{bits:x}")))),
    ("k_starts_with", 2, |of| of_two_texts(of, |text, part| text.starts_with(part))),
    ("k_ends_with", 2, |of| of_two_texts(of, |text, part| text.ends_with(part))),
    ("k_contains", 2, |of| of_two_texts(of, |text, part| text.contains(part))),
    ("k_reverse", 1, |of| with_text(&of[0], |text| text.chars().rev().collect())),
    ("k_repeat", 2, repeated),
    ("k_initcap", 1, |of| with_text(&of[0], initcap)),
    ("k_concat", -1, |of| joined(of, "")),
    ("k_concat_ws", -1, |of| match of.first() {
        Some(Value::Text(between)) => joined(&of[1..], between),
        _ => Value::Null,
    }),
];

/// Adds the functions to a connection.
pub fn add(connection: &Connection) -> Result<()> {
    for (name, operands, function) in FUNCTIONS {
        connection.create_scalar_function(*name, *operands, FLAGS, move |context: &Context<'_>| {
            let values: Vec<Value> = (0..context.len()).map(|at| kiln(context.get_raw(at))).collect();
            Ok(own(&function(&values)))
        })?;
    }
    for (name, function, _) in Function::ALL {
        connection.create_scalar_function(format!("k_{name}").as_str(), -1, FLAGS, move |context: &Context<'_>| {
            let values = (0..context.len()).map(|at| Expr::Literal(unsigned(kiln(context.get_raw(at)))));
            Ok(own(&Expr::Call(function, values.collect()).evaluate(&[])))
        })?;
    }
    for (name, operands) in [("k_regexp_replace", 3), ("k_regexp_replace", 4)] {
        connection.create_scalar_function(name, operands, FLAGS, regexp_replace)?;
    }
    connection.create_scalar_function("k_regexp_substr", 2, FLAGS, |context: &Context<'_>| {
        let regex = regex_of(context, 1, "")?;
        Ok(match (kiln(context.get_raw(0)), regex) {
            (Value::Text(text), Some(regex)) => regex.find(&text).map(|found| found.as_str().to_owned()),
            _ => None,
        })
    })?;
    for (name, flags) in [("k_regexp", ""), ("k_regexp_i", "i")] {
        connection.create_scalar_function(name, 2, FLAGS, move |context: &Context<'_>| {
            let regex = regex_of(context, 1, flags)?;
            Ok(match (kiln(context.get_raw(0)), regex) {
                (Value::Text(text), Some(regex)) => Some(regex.is_match(&text)),
                _ => None,
            })
        })?;
    }
    for operands in [2, 3] {
        connection.create_scalar_function("k_like", operands, FLAGS, like)?;
    }
    Ok(())
}

/// `k_like(text, pattern)` and `k_like(text, pattern, escape)`. SQLite's own takes seconds for patterns of many `%`.
fn like(context: &Context<'_>) -> Result<Option<bool>> {
    let [text, pattern] = [0, 1].map(|at| kiln(context.get_raw(at)));
    let (Value::Text(text), Value::Text(pattern)) = (text, pattern) else { return Ok(None) };
    let failed = |why: String| rusqlite::Error::UserFunctionError(why.into());
    if pattern.len() > MAX_PATTERN {
        return Err(failed(format!("a pattern of LIKE has up to {MAX_PATTERN} bytes, and this one {}", pattern.len())));
    }
    let escape = match (context.len() > 2).then(|| kiln(context.get_raw(2))) {
        None => None,
        Some(Value::Text(escape)) if escape.chars().count() == 1 => escape.chars().next(),
        Some(_) => return Err(failed("an ESCAPE is one character".to_owned())),
    };
    Ok(Some(is_like(&text, &pattern, escape)))
}

/// The regular expression that an operand is; SQLite keeps it for a constant.
fn regex_of(context: &Context<'_>, at: usize, flags: &str) -> Result<Option<Arc<Regex>>> {
    if let Some(known) = context.get_aux::<Regex>(at as i32)? {
        return Ok(Some(known));
    }
    let Value::Text(pattern) = kiln(context.get_raw(at)) else { return Ok(None) };
    let made = compiled(&pattern, flags).map_err(|why| rusqlite::Error::UserFunctionError(why.into()))?;
    context.set_aux(at as i32, made).map(Some)
}

/// A regular expression, with the flag `i` for any case.
fn compiled(pattern: &str, flags: &str) -> std::result::Result<Regex, String> {
    let made = RegexBuilder::new(pattern).case_insensitive(flags.contains('i')).size_limit(MOST_REGEX_BYTES).build();
    made.map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("`{pattern}` is no regular expression: {why}")
    })
}

/// Checks a regular expression, for `kiln_sql::parse_for_engine`.
///
/// # Errors
/// Returns a sentence that says what is wrong with it.
pub fn check_pattern(pattern: &str) -> std::result::Result<(), String> {
    compiled(pattern, "").map(drop)
}

/// `regexp_replace(text, pattern, by, flags)`: the first match, with `g` all of them.
fn regexp_replace(context: &Context<'_>) -> Result<Option<String>> {
    let flags = if context.len() > 3 { to_text(&kiln(context.get_raw(3))) } else { Value::Null };
    let flags = if let Value::Text(flags) = &flags { &**flags } else { "" };
    let regex = regex_of(context, 1, flags)?;
    let (Value::Text(text), Some(regex), Value::Text(by)) = (kiln(context.get_raw(0)), regex, kiln(context.get_raw(2)))
    else {
        return Ok(None);
    };
    // As PostgreSQL writes groups: \1.
    let by = by.replace('$', "$$").replace('\\', "$");
    let most = if flags.contains('g') { 0 } else { 1 };
    Ok(Some(regex.replacen(&text, most, by.as_str()).into_owned()))
}

/// A number from 0 on as an unsigned one, as columns of Kiln's are.
fn unsigned(value: Value) -> Value {
    match value {
        Value::Int(value) => u64::try_from(value).map_or(Value::Int(value), Value::Uint),
        other => other,
    }
}

/// An integer of 64 bits, signed if possible; null for one that has more.
fn fitting(value: Option<i128>) -> Value {
    match value.map(|value| (i64::try_from(value), u64::try_from(value))) {
        Some((Ok(value), _)) => Value::Int(value),
        Some((_, Ok(value))) => Value::Uint(value),
        _ => Value::Null,
    }
}

fn finite(value: Option<f64>) -> Value {
    value.filter(|value| value.is_finite()).map_or(Value::Null, Value::Float)
}

/// `+ - * / %`: exact for integers, null where the result has more than 64 bits or there is none.
fn arithmetic(op: BinaryOp, of: &[Value]) -> Value {
    if let (Some(one), Some(other)) = (of[0].as_integer(), of[1].as_integer()) {
        return fitting(match op {
            BinaryOp::Add => one.checked_add(other),
            BinaryOp::Subtract => one.checked_sub(other),
            BinaryOp::Multiply => one.checked_mul(other),
            BinaryOp::Divide => one.checked_div(other),
            _ => one.checked_rem(other),
        });
    }
    let (Some(one), Some(other)) = (of[0].as_float(), of[1].as_float()) else { return Value::Null };
    finite(Some(match op {
        BinaryOp::Add => one + other,
        BinaryOp::Subtract => one - other,
        BinaryOp::Multiply => one * other,
        BinaryOp::Divide if other == 0.0 => return Value::Null,
        BinaryOp::Divide => one / other,
        _ => one % other,
    }))
}

/// The order of two numbers, exactly; none if one of them is no number.
fn compared(one: &Value, other: &Value) -> Option<Ordering> {
    /// Integers have fewer bits than this, and all numbers below it have an integer part of 128 bits.
    const BEYOND: f64 = 1e30;
    let to_float = |integer: i128, number: f64| {
        if number.abs() >= BEYOND {
            return if number > 0.0 { Ordering::Less } else { Ordering::Greater };
        }
        integer.cmp(&(number.trunc() as i128)).then(0.0_f64.total_cmp(&(number.fract() + 0.0)))
    };
    match (one, other) {
        (Value::Float(one), Value::Float(other)) => one.partial_cmp(other),
        (Value::Float(one), other) => other.as_integer().map(|other| to_float(other, *one).reverse()),
        (one, Value::Float(other)) => one.as_integer().map(|one| to_float(one, *other)),
        (one, other) => Some(one.as_integer()?.cmp(&other.as_integer()?)),
    }
}

/// An operation of Kiln's.
fn kilns(op: BinaryOp, of: &[Value]) -> Value {
    let operand = |at: usize| Expr::Literal(unsigned(of[at].clone()));
    Expr::binary(op, operand(0), operand(1)).evaluate(&[])
}

fn rounded(value: &Value, by: fn(f64) -> f64) -> Value {
    match value {
        Value::Float(value) => finite(Some(by(*value))),
        integer => fitting(integer.as_integer()),
    }
}

/// `round(x, digits)`: halves are rounded away from zero. Few decimal halves are floating-point numbers: 0.285 is below its half.
fn round_to(of: &[Value]) -> Value {
    let (Some(value), Some(digits)) = (of[0].as_float(), of[1].as_integer()) else { return Value::Null };
    let digits = digits.clamp(-30, 30) as i32;
    if digits < 0 {
        let scale = 10f64.powi(-digits);
        return finite(Some((value / scale).round() * scale));
    }
    let scale = 10f64.powi(digits);
    let scaled = value * scale;
    // A number of 2^52 and more is whole. One that the scale makes as large has no digit to round.
    finite(Some(if scaled.abs() < (1u64 << 52) as f64 { scaled.round() / scale } else { value }))
}

/// The integer that a value is, between two bounds; null if it is none.
fn to_integer(value: &Value, [least, most]: [&Value; 2]) -> Value {
    let integer = match value {
        Value::Text(text) => {
            let text = text.trim();
            text.parse::<i128>().ok().or_else(|| text.parse::<f64>().ok().and_then(whole))
        }
        Value::Float(value) => whole(*value),
        other => other.as_integer(),
    };
    let bounds = least.as_integer().zip(most.as_integer());
    let (Some(integer), Some((least, most))) = (integer, bounds) else { return Value::Null };
    fitting((least..=most).contains(&integer).then_some(integer))
}

/// A floating-point number without its fraction.
fn whole(value: f64) -> Option<i128> {
    (value.abs() < 1e30).then_some(value as i128)
}

fn to_text(value: &Value) -> Value {
    value.to_text().map_or(Value::Null, Value::Text)
}

fn to_bool(of: &[Value]) -> Value {
    match &of[0] {
        Value::Text(text) => match &*text.trim().to_lowercase() {
            "true" | "t" | "yes" | "on" | "1" => Value::Bool(true),
            "false" | "f" | "no" | "off" | "0" => Value::Bool(false),
            _ => Value::Null,
        },
        other => other.as_float().map_or(Value::Null, |value| Value::Bool(value != 0.0)),
    }
}

/// A time without what is smaller than a unit.
fn truncated(unit: &Value, time: &Value) -> Value {
    let (Value::Text(unit), Some(time)) = (unit, time.as_integer()) else { return Value::Null };
    let unit = kiln_plan::value::unit_ns(unit).and_then(|unit_ns| NonZeroUsize::new(unit_ns as usize));
    unit.map_or(Value::Null, |unit| fitting(Some(time - time.rem_euclid(unit.get() as i128))))
}

/// What holds of a text and another one; null if one of them is.
fn of_two_texts(of: &[Value], holds: fn(&str, &str) -> bool) -> Value {
    match (to_text(&of[0]), to_text(&of[1])) {
        (Value::Text(text), Value::Text(part)) => Value::Bool(holds(&text, &part)),
        _ => Value::Null,
    }
}

fn with_text(value: &Value, make: impl Fn(&str) -> String) -> Value {
    match to_text(value) {
        Value::Text(text) => Value::text(&make(&text)),
        _ => Value::Null,
    }
}

fn split_part(of: &[Value]) -> Value {
    let (Value::Text(text), Value::Text(at)) = (to_text(&of[0]), to_text(&of[1])) else { return Value::Null };
    let Some(number) = of[2].as_integer() else { return Value::Null };
    let parts: Vec<&str> = if at.is_empty() { vec![&*text] } else { text.split(&*at).collect() };
    let index = if number > 0 { number - 1 } else { parts.len() as i128 + number };
    let part = usize::try_from(index).ok().filter(|_| number != 0).and_then(|index| parts.get(index));
    Value::text(part.copied().unwrap_or_default())
}

fn padded(of: &[Value], is_left: bool) -> Value {
    let (Value::Text(text), Value::Text(fill)) = (to_text(&of[0]), to_text(&of[2])) else { return Value::Null };
    let Some(length) = of[1].as_integer() else { return Value::Null };
    let length = length.clamp(0, TOO_MUCH as i128) as usize;
    let kept: String = text.chars().take(length).collect();
    let missing = length - kept.chars().count();
    let fill: String = fill.chars().cycle().take(if fill.is_empty() { 0 } else { missing }).collect();
    Value::text(&if is_left { fill + &kept } else { kept + &fill })
}

/// `left(text, n)` and `right(text, n)`; a negative `n` leaves out so many at the other end.
fn part(of: &[Value], is_left: bool) -> Value {
    let (Value::Text(text), Some(count)) = (to_text(&of[0]), of[1].as_integer()) else { return Value::Null };
    let length = text.chars().count() as i128;
    let count = if count < 0 { length + count } else { count }.clamp(0, length) as usize;
    let skip = if is_left { 0 } else { length as usize - count };
    Value::text(&text.chars().skip(skip).take(count).collect::<String>())
}

fn repeated(of: &[Value]) -> Value {
    let (Value::Text(text), Some(count)) = (to_text(&of[0]), of[1].as_integer()) else { return Value::Null };
    let most = (TOO_MUCH / text.len().max(1) + 1) as i128;
    Value::text(&text.repeat(count.clamp(0, most) as usize))
}

fn initcap(text: &str) -> String {
    let mut before = ' ';
    let letter = |letter: char| {
        let begins = !before.is_alphanumeric();
        before = letter;
        if begins { letter.to_uppercase().collect::<String>() } else { letter.to_lowercase().collect() }
    };
    text.chars().map(letter).collect()
}

/// The texts of values that are not null, with a text between them.
fn joined(of: &[Value], between: &str) -> Value {
    let texts: Vec<String> = of.iter().map(to_text).filter(|text| !text.is_null()).map(|it| it.to_string()).collect();
    Value::text(&texts.join(between))
}
