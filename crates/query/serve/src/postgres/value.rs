//! Kiln's values as PostgreSQL's, and parameters as Kiln's SQL.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut as _, BytesMut};
use kiln_plan::Value;

use super::fault::Fault;

/// PostgreSQL's types, by their numbers in `pg_type`.
pub const BOOL: u32 = 16;
/// Signed integers of 64 bits.
pub const INT8: u32 = 20;
/// Signed integers of 16 bits.
const INT2: u32 = 21;
/// Signed integers of 32 bits.
const INT4: u32 = 23;
/// Text.
pub const TEXT: u32 = 25;
/// Floating-point numbers of 32 bits.
const FLOAT4: u32 = 700;
/// Floating-point numbers of 64 bits.
pub const FLOAT8: u32 = 701;
/// A text whose type is to be found out.
const UNKNOWN: u32 = 705;
/// A time of the wall clock.
pub const TIMESTAMPTZ: u32 = 1184;

/// Microseconds from 1970 to 2000, from which PostgreSQL counts.
const EPOCH_US: i64 = 946_684_800_000_000;

/// PostgreSQL's type for one of Kiln's, by its name.
pub fn type_of(name: &str) -> u32 {
    match name {
        "bool" => BOOL,
        "i64" | "u64" => INT8,
        "f64" => FLOAT8,
        "timestamp" => TIMESTAMPTZ,
        _ => TEXT,
    }
}

/// Whether a type is one of integers.
pub fn is_integer(oid: u32) -> bool {
    [INT8, INT4, INT2].contains(&oid)
}

/// A type's name and its bytes; -1 for a type of any length.
pub fn about(oid: u32) -> (&'static str, i16) {
    match oid {
        BOOL => ("boolean", 1),
        INT8 => ("bigint", 8),
        FLOAT8 => ("double precision", 8),
        TIMESTAMPTZ => ("timestamp with time zone", 8),
        _ => ("text", -1),
    }
}

/// Nanoseconds that the wall clock is ahead of the kernel's monotonic clock.
pub fn clock_offset_ns() -> i128 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    i128::try_from(wall).unwrap_or_default() - i128::from(kiln_live::live::now_ns())
}

/// Adds a value to a row, as text or in binary form.
///
/// # Errors
/// Returns one for a value that PostgreSQL's type does not have.
pub fn put(row: &mut BytesMut, value: &Value, oid: u32, binary: bool, offset_ns: i128) -> Result<(), Fault> {
    let at = row.len();
    row.put_i32(-1);
    if value.is_null() {
        return Ok(());
    }
    let integer = || {
        let integer = value.as_integer().and_then(|integer| i64::try_from(integer).ok());
        integer.ok_or_else(|| {
            let fault = Fault::new("22003", format!("{value} is out of range for bigint"));
            fault.hint("CAST(... AS text) shows it")
        })
    };
    let number = || value.as_float().ok_or_else(|| Fault::new("22000", format!("{value} is no number")));
    match (oid, binary) {
        (BOOL, binary) => {
            let is_true = integer()? != 0;
            row.put_u8(if binary { is_true.into() } else { [b'f', b't'][usize::from(is_true)] });
        }
        (INT8, true) => row.put_i64(integer()?),
        (INT8, false) => row.put_slice(integer()?.to_string().as_bytes()),
        (FLOAT8, true) => row.put_f64(number()?),
        (FLOAT8, false) => row.put_slice(float(number()?).as_bytes()),
        (TIMESTAMPTZ, binary) => {
            let microseconds = (i128::from(integer()?) + offset_ns).div_euclid(1000);
            let microseconds = i64::try_from(microseconds).unwrap_or(i64::MAX);
            match binary {
                true => row.put_i64(microseconds.saturating_sub(EPOCH_US)),
                false => row.put_slice(timestamp(microseconds).as_bytes()),
            }
        }
        // Text has no zero in PostgreSQL.
        _ => row.put_slice(value.to_string().replace('\0', "").as_bytes()),
    }
    let length = i32::try_from(row.len() - at - 4).map_err(|_| Fault::new("54000", "a value is too long"))?;
    row[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// A floating-point number as PostgreSQL writes it: with as many digits as it takes to read it back.
fn float(number: f64) -> String {
    match number {
        _ if number.is_nan() => "NaN".to_owned(),
        _ if number.is_infinite() => if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        _ if number.abs() >= 1e15 || number != 0.0 && number.abs() < 1e-5 => format!("{number:e}"),
        _ => number.to_string(),
    }
}

/// Microseconds since 1970 as `2026-11-28 11:22:33.123456+00`.
fn timestamp(microseconds: i64) -> String {
    let (days, of_day) = (microseconds.div_euclid(86_400_000_000), microseconds.rem_euclid(86_400_000_000));
    // The civil date of a number of days, by eras of 400 years that begin in March.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + i64::from(month <= 2);
    let (seconds, rest) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{rest:06}+00")
}

/// A parameter's value as SQL.
///
/// # Errors
/// Returns one for a type or a form that is not known.
pub fn parameter(bytes: Option<&[u8]>, oid: u32, binary: bool) -> Result<String, Fault> {
    let Some(bytes) = bytes else { return Ok("NULL".to_owned()) };
    let wrong = || Fault::new("22P02", format!("a parameter is no value of its type {oid}"));
    let text = || std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).ok_or_else(wrong);
    let sized = |size: usize| if bytes.len() == size { Ok(bytes) } else { Err(wrong()) };
    let integer = |value: i64| if value < 0 { format!("({value})") } else { value.to_string() };
    let number = |value: f64| if value.is_finite() { Ok(format!("({value:?})")) } else { Err(wrong()) };
    let eight = || sized(8)?.try_into().map_err(|_| wrong());
    let four = || sized(4)?.try_into().map_err(|_| wrong());
    Ok(match (oid, binary) {
        (BOOL, true) => if sized(1)?[0] == 0 { "FALSE" } else { "TRUE" }.to_owned(),
        (BOOL, false) => match text()?.to_lowercase().as_str() {
            "t" | "true" | "1" | "on" | "yes" => "TRUE".to_owned(),
            "f" | "false" | "0" | "off" | "no" => "FALSE".to_owned(),
            _ => return Err(wrong()),
        },
        (INT8, true) => integer(i64::from_be_bytes(eight()?)),
        (INT4, true) => integer(i32::from_be_bytes(four()?).into()),
        (INT2, true) => integer(i16::from_be_bytes(sized(2)?.try_into().map_err(|_| wrong())?).into()),
        (FLOAT8, true) => number(f64::from_be_bytes(eight()?))?,
        (FLOAT4, true) => number(f32::from_be_bytes(four()?).into())?,
        (INT8 | INT4 | INT2, false) => integer(text()?.trim().parse().map_err(|_| wrong())?),
        (FLOAT8 | FLOAT4, false) => number(text()?.trim().parse().map_err(|_| wrong())?)?,
        // `bytea` has no text; `varchar`, `bpchar` and `name` are text.
        (0 | TEXT | UNKNOWN | 19 | 1042 | 1043, _) | (_, false) => format!("'{}'", text()?.replace('\'', "''")),
        (oid, true) => {
            return Err(Fault::new("0A000", format!("parameters of type {oid} are not understood in binary form")));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(timestamp(0), "1970-01-01 00:00:00.000000+00");
        assert_eq!(timestamp(951_782_400_000_001), "2000-02-29 00:00:00.000001+00");
        assert_eq!(timestamp(1_798_761_599_999_999), "2026-12-31 23:59:59.999999+00");
        assert_eq!(timestamp(-1), "1969-12-31 23:59:59.999999+00");
    }

    #[test]
    fn values_have_both_forms() {
        let of = |value: Value, oid: u32, binary: bool| {
            let mut row = BytesMut::new();
            put(&mut row, &value, oid, binary, 0).map(|()| row.to_vec())
        };
        assert_eq!(of(Value::Null, TEXT, true).expect("null"), [255; 4]);
        assert_eq!(of(Value::Uint(7), INT8, false).expect("it fits"), [0, 0, 0, 1, b'7']);
        assert_eq!(of(Value::Int(-1), INT8, true).expect("it fits")[4..], [255; 8]);
        assert_eq!(of(Value::Uint(u64::MAX), INT8, true).map_err(|fault| fault.code), Err("22003"));
        assert_eq!(of(Value::Bool(true), BOOL, false).expect("it fits")[4..], *b"t");
        assert_eq!(of(Value::text("a\0b"), TEXT, false).expect("it fits")[4..], *b"ab");
        assert_eq!(of(Value::Float(0.1), FLOAT8, false).expect("it fits")[4..], *b"0.1");
    }

    #[test]
    fn parameters_are_literals() {
        let of = |bytes: &[u8], oid, binary| parameter(Some(bytes), oid, binary).map_err(|fault| fault.code);
        assert_eq!(of(b"it's", TEXT, false).as_deref(), Ok("'it''s'"));
        assert_eq!(of(b"-5", INT4, false).as_deref(), Ok("(-5)"));
        assert_eq!(of(&[255, 255, 255, 254], INT4, true).as_deref(), Ok("(-2)"));
        assert_eq!(of(b"1; DROP", INT8, false), Err("22P02"));
        assert_eq!(of(b"1", INT8, true), Err("22P02"));
        assert_eq!(of(&f64::NAN.to_be_bytes(), FLOAT8, true), Err("22P02"));
        assert_eq!(of(b"\xff", TEXT, false), Err("22P02"));
        assert_eq!(parameter(None, INT8, true).ok().as_deref(), Some("NULL"));
    }
}
