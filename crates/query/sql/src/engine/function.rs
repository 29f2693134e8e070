//! Functions of single rows: what they are to the engine, and the types of their values.

use kiln_plan::expr::{Expr, Function};
use kiln_plan::value::DataType;

use super::typed::{Typed, common};
use crate::error::Error;
use crate::functions::no_function;

/// The type of a function's value.
#[derive(Clone, Copy)]
enum Gives {
    /// Always this one.
    Always(DataType),
    /// That of an operand.
    As(usize),
    /// What the operands from this one on have in common.
    Common(usize),
    /// An integer of an integer; a floating-point number where there are further operands.
    Number,
}

use DataType::{Bool, Float, Int, Text, Uint};
use Gives::{Always, As, Common, Number};

/// Functions: name, the engine's name, minimum and maximum number of operands, how many of them are made text, and the type
/// of the value.
#[rustfmt::skip]
const FUNCTIONS: &[(&str, &str, [usize; 2], usize, Gives)] = &[
    ("round", "k_round", [1, 2], 0, Number),
    ("floor", "k_floor", [1, 1], 0, As(0)),
    ("ceil", "k_ceil", [1, 1], 0, As(0)),
    ("ceiling", "k_ceil", [1, 1], 0, As(0)),
    ("trunc", "k_trunc", [1, 1], 0, As(0)),
    ("sign", "k_sign", [1, 1], 0, Always(Int)),
    ("mod", "k_modulo", [2, 2], 0, Common(0)),
    ("pow", "k_power", [2, 2], 0, Always(Float)),
    ("log", "k_log10", [1, 1], 0, Always(Float)),
    ("log10", "k_log10", [1, 1], 0, Always(Float)),
    ("to_hex", "k_to_hex", [1, 1], 0, Always(Text)),
    ("hex", "k_to_hex", [1, 1], 0, Always(Text)),
    ("substr", "substr", [2, 3], 1, Always(Text)),
    ("substring", "substr", [2, 3], 1, Always(Text)),
    ("replace", "replace", [3, 3], 3, Always(Text)),
    ("trim", "trim", [1, 2], 2, Always(Text)),
    ("btrim", "trim", [1, 2], 2, Always(Text)),
    ("ltrim", "ltrim", [1, 2], 2, Always(Text)),
    ("rtrim", "rtrim", [1, 2], 2, Always(Text)),
    ("instr", "instr", [2, 2], 2, Always(Uint)),
    ("strpos", "instr", [2, 2], 2, Always(Uint)),
    ("char_length", "k_length", [1, 1], 1, Always(Uint)),
    ("character_length", "k_length", [1, 1], 1, Always(Uint)),
    ("ascii", "unicode", [1, 1], 1, Always(Uint)),
    ("chr", "char", [1, 1], 0, Always(Text)),
    ("concat", "k_concat", [1, 100], 0, Always(Text)),
    ("concat_ws", "k_concat_ws", [2, 100], 0, Always(Text)),
    ("split_part", "k_split_part", [3, 3], 2, Always(Text)),
    ("lpad", "k_lpad", [2, 3], 0, Always(Text)),
    ("rpad", "k_rpad", [2, 3], 0, Always(Text)),
    ("left", "k_left_of", [2, 2], 1, Always(Text)),
    ("right", "k_right_of", [2, 2], 1, Always(Text)),
    ("reverse", "k_reverse", [1, 1], 1, Always(Text)),
    ("repeat", "k_repeat", [2, 2], 1, Always(Text)),
    ("initcap", "k_initcap", [1, 1], 1, Always(Text)),
    ("starts_with", "k_starts_with", [2, 2], 2, Always(Bool)),
    ("ends_with", "k_ends_with", [2, 2], 2, Always(Bool)),
    ("contains", "k_contains", [2, 2], 2, Always(Bool)),
    ("regexp_like", "k_regexp", [2, 2], 2, Always(Bool)),
    ("regexp_matches", "k_regexp", [2, 2], 2, Always(Bool)),
    ("regexp_replace", "k_regexp_replace", [3, 4], 4, Always(Text)),
    ("regexp_substr", "k_regexp_substr", [2, 2], 2, Always(Text)),
    ("nullif", "nullif", [2, 2], 0, As(0)),
    ("ifnull", "ifnull", [2, 2], 0, Common(0)),
    ("if", "iif", [3, 3], 0, Common(1)),
    ("iif", "iif", [3, 3], 0, Common(1)),
    ("date_trunc", "k_date_trunc", [2, 2], 1, As(1)),
];

/// Those of [`FUNCTIONS`] whose operands are numbers.
const OF_NUMBERS: [&str; 12] =
    ["round", "floor", "ceil", "ceiling", "trunc", "sign", "mod", "pow", "log", "log10", "to_hex", "hex"];

/// The names of all functions of single rows.
pub const NAMES: fn() -> Vec<&'static str> =
    || FUNCTIONS.iter().map(|(name, ..)| *name).chain(Function::ALL.iter().map(|(name, ..)| *name)).collect();

/// Refuses parts of a time that need a calendar.
pub(super) fn of_no_calendar(field: &str, time: &Typed) -> Result<(), Error> {
    let field = field.to_lowercase();
    let is_short = kiln_plan::value::unit_ns(&field).is_some_and(|unit_ns| unit_ns <= 1_000_000_000);
    if time.data_type != DataType::Time || is_short || field == "epoch" {
        return Ok(());
    }
    let message = format!("a time has no `{field}`: it is counted from the start of this machine, not by a calendar");
    Err(Error::new(message).help("windows are by this clock: ... GROUP BY ... WINDOW 1 MINUTE"))
}

/// Refuses a function that is not known, whatever its operands are.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let known = NAMES();
    if known.contains(&name) || name == "date_part" { Ok(()) } else { Err(no_function(name, known.into_iter())) }
}

/// A function of these operands.
pub(super) fn called(name: &str, operands: &[Typed]) -> Result<Typed, Error> {
    if let ("date_trunc", [field, time]) = (name, operands) {
        of_no_calendar(field.text.trim_matches('\''), time)?;
    }
    if let Some((_, own, counts, texts, gives)) = FUNCTIONS.iter().find(|(own, ..)| *own == name) {
        check_count(name, operands, *counts)?;
        let as_operand = |(at, one): (usize, &Typed)| if at < *texts { as_text(one) } else { one.text.clone() };
        let mut list: Vec<String> = operands.iter().enumerate().map(as_operand).collect();
        if *own == "k_lpad" || *own == "k_rpad" {
            list.resize(3, "' '".to_owned());
        }
        let data_type = match gives {
            Always(data_type) => *data_type,
            As(at) => operands[*at].data_type,
            Common(from) => {
                let own = operands[*from..].iter().cloned();
                own.reduce(|one, other| Typed {
                    data_type: common(&one, &other),
                    is_null: one.is_null && other.is_null,
                    ..one
                })
                .map_or(Text, |all| all.data_type)
            }
            Number if operands.len() == 1 => operands[0].data_type,
            Number => Float,
        };
        if OF_NUMBERS.contains(&name) {
            numbers_only(name, operands)?;
        }
        let is_null = match gives {
            Always(_) => false,
            As(at) => operands[*at].is_null,
            Common(from) => operands[*from..].iter().all(|one| one.is_null),
            Number => operands[0].is_null,
        };
        return Ok(Typed { is_null, ..Typed::new(format!("{own}({})", list.join(", ")), data_type) });
    }
    let Some((_, own, counts)) = Function::ALL.iter().find(|(own, ..)| *own == name) else {
        return Err(no_function(name, NAMES().into_iter()));
    };
    check_count(name, operands, *counts)?;
    if own.is_of_numbers() {
        numbers_only(name, operands)?;
    }
    let types: Vec<DataType> = operands.iter().map(|one| one.data_type).collect();
    let operand = |(at, one): (usize, &Typed)| {
        if one.is_null { Expr::Literal(kiln_plan::Value::Null) } else { Expr::Column(at) }
    };
    let call = Expr::Call(*own, operands.iter().enumerate().map(operand).collect());
    let list: Vec<&str> = operands.iter().map(|one| one.text.as_str()).collect();
    let text = format!("k_{name}({})", list.join(", "));
    Ok(Typed { is_null: call.is_always_null(), ..Typed::new(text, call.data_type(&types)) })
}

fn check_count(name: &str, operands: &[Typed], counts: [usize; 2]) -> Result<(), Error> {
    if (counts[0]..=counts[1]).contains(&operands.len()) {
        return Ok(());
    }
    let expected =
        if counts[0] == counts[1] { counts[0].to_string() } else { format!("{} to {}", counts[0], counts[1]) };
    Err(Error::new(format!("{name} takes {expected} operands")))
}

pub(super) fn numbers_only(name: &str, operands: &[Typed]) -> Result<(), Error> {
    let wrong = operands.iter().find(|one| !one.is_null && matches!(one.data_type, Text | DataType::Histogram));
    wrong.map_or(Ok(()), |one| Err(Error::new(format!("{name} is of numbers, and this is {}", one.data_type.name()))))
}

/// A value as text.
pub(super) fn as_text(value: &Typed) -> String {
    if value.data_type == Text { value.text.clone() } else { format!("k_text({})", value.text) }
}

/// An integer; from 2^63 on as the engine's bytes.
pub(super) fn integer(value: u64) -> String {
    if i64::try_from(value).is_ok() { value.to_string() } else { format!("x'{value:016x}'") }
}

/// A text in quotes.
pub(super) fn quoted(text: &str) -> Result<String, Error> {
    if text.contains('\0') {
        return Err(Error::new("a text cannot have a zero byte in it"));
    }
    Ok(format!("'{}'", text.replace('\'', "''")))
}
