//! Numbers with fractions, as C's `%.17g` prints them, and times.

use super::refusal::Refusal;
use super::request;

/// Redis' words for what is no number.
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";

/// A number of 64 bits.
///
/// # Errors
/// Returns Redis' words for what is none.
pub fn integer(text: &[u8]) -> Result<i64, Refusal> {
    request::number(text).ok_or(NOT_INTEGER.into())
}

/// A number that may have a fraction.
///
/// # Errors
/// Returns Redis' words for what is none.
pub fn float(text: &[u8]) -> Result<f64, Refusal> {
    let number = Some(text).filter(|text| !text.first().is_some_and(is_space)).and_then(real);
    number.ok_or("ERR value is not a valid float".into())
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// A number as C's `strtod` reads a whole text: blanks before it, hexadecimal digits after `0x`. `None` for NaN and for what is none.
pub fn real(text: &[u8]) -> Option<f64> {
    let text = &text[text.iter().position(|byte| !is_space(byte))?..];
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1.0, digits),
        [b'+', digits @ ..] => (1.0, digits),
        digits => (1.0, digits),
    };
    let number = match digits {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits)?,
        [b'-' | b'+', ..] => return None,
        digits => std::str::from_utf8(digits).ok()?.parse::<f64>().ok()?,
    };
    Some(sign * number).filter(|number| !number.is_nan())
}

/// The value of hexadecimal digits, which may have a point and, after `p`, a power of two.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let end = text.iter().position(|byte| matches!(byte, b'p' | b'P')).unwrap_or(text.len());
    let power = match text.get(end + 1..) {
        None => 0,
        Some(power) => std::str::from_utf8(power).ok()?.parse::<i64>().ok()?,
    };
    let (mut number, mut exponent, mut digits, mut is_behind) = (0u64, 0i64, 0, false);
    for byte in &text[..end] {
        if *byte == b'.' && !is_behind {
            is_behind = true;
            continue;
        }
        let digit = u64::from(char::from(*byte).to_digit(16)?);
        digits += 1;
        exponent -= if is_behind { 4 } else { 0 };
        if number >> 60 == 0 {
            number = number << 4 | digit;
        } else {
            // Beyond 61 bits a digit only says whether there is something.
            number |= u64::from(digit != 0);
            exponent += 4;
        }
    }
    let exponent = exponent.saturating_add(power).clamp(-1200, 1200) as i32;
    // In two steps, so that a power that is out of range alone does not lose a number that is not.
    (digits > 0).then(|| number as f64 * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2))
}

/// A member's score.
///
/// # Errors
/// Returns Redis' words for what is none. A number that is too large or too small for 64 bits is none.
pub fn score(text: &[u8]) -> Result<f64, Refusal> {
    let score = float(text)?;
    // Of hexadecimal digits no power is out of range that anybody writes.
    if text.iter().any(|byte| matches!(byte, b'x' | b'X')) {
        return Ok(score);
    }
    let has = |chosen: fn(&u8) -> bool| text.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).any(chosen);
    let is_lost =
        (score == 0.0 && has(|byte| matches!(byte, b'1'..=b'9'))) || (score.is_infinite() && has(u8::is_ascii_digit));
    if is_lost { Err("ERR value is not a valid float".into()) } else { Ok(score) }
}

/// The text of a sum of numbers that may have fractions; `None` if it is no finite number.
pub fn decimal(number: f64) -> Option<String> {
    // Zero has no sign.
    number.is_finite().then(|| (number + 0.0).to_string())
}

/// 17 digits that count, and no zeros at the end.
pub fn double(number: f64) -> String {
    const DIGITS: i32 = 17;
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if number == number.trunc() && number.abs() < 1e17 {
        return if number == 0.0 && number.is_sign_negative() { "-0".to_owned() } else { format!("{number:.0}") };
    }
    let scientific = format!("{number:.16e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent) as usize;
        return trimmed(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// A place in a scan, as C's `strtoul` reads it: it may have a sign, and be empty.
///
/// # Errors
/// Returns Redis' words for what is none.
pub fn cursor(text: &[u8]) -> Result<u64, Refusal> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let is_number = digits.iter().all(u8::is_ascii_digit) && (text.is_empty() || !digits.is_empty());
    let number = std::str::from_utf8(digits).ok().filter(|_| is_number);
    let number = number.and_then(|text| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() });
    let number = number.ok_or("ERR invalid cursor")?;
    Ok(if is_negative { number.wrapping_neg() } else { number })
}

/// A time in milliseconds: `number` units of `unit` milliseconds, counted from `base`. `None` if it is beyond all times.
pub fn time(number: i64, unit: i64, base: i64) -> Option<i64> {
    number.checked_mul(unit)?.checked_add(base)
}

#[cfg(test)]
mod tests {
    use super::{double, real};

    #[test]
    fn numbers_are_read_as_c_does() {
        for (text, number) in [
            (" 1", Some(1.0)),
            ("\t-2.5e1", Some(-25.0)),
            ("1 ", None),
            ("", None),
            (" ", None),
            ("+-1", None),
            ("0x10", Some(16.0)),
            ("-0X1.8p3", Some(-12.0)),
            ("0x.8", Some(0.5)),
            ("0x", None),
            ("0x.", None),
            ("0x1p", None),
            ("0x1.1.1", None),
            ("0x1ffffffffffffff", Some(144_115_188_075_855_870.0)),
            ("0x1p-1074", Some(f64::from_bits(1))),
            ("0x1p99999999999", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("nan", None),
            ("1e", None),
            ("1.", Some(1.0)),
        ] {
            assert_eq!(real(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_printed_as_c_does() {
        for (number, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (1.1, "1.1000000000000001"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (1.5e300, "1.5000000000000001e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (f64::NEG_INFINITY, "-inf"),
            (1234567.125, "1234567.125"),
        ] {
            assert_eq!(double(number), text);
        }
    }
}
