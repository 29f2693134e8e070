//! Numbers with fractions, as C's `%.17g` prints them, and times.

use std::borrow::Cow;

use super::request;

/// Why a command is refused: Redis' words, with the code before them.
pub type Refusal = Cow<'static, str>;

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
    let text = std::str::from_utf8(text).ok().filter(|text| !text.is_empty());
    let number = text.and_then(|text| text.parse::<f64>().ok()).filter(|number| !number.is_nan());
    number.ok_or("ERR value is not a valid float".into())
}

/// A member's score.
///
/// # Errors
/// Returns Redis' words for what is none. A number that is too large or too small for 64 bits is none.
pub fn score(text: &[u8]) -> Result<f64, Refusal> {
    let score = float(text)?;
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

/// A time in milliseconds since 1970: `number` units of `unit` milliseconds, counted from `base`. `None` if it is beyond all times.
pub fn time(number: i64, unit: i64, base: u64) -> Option<i64> {
    number.checked_mul(unit)?.checked_add(i64::try_from(base).ok()?)
}

#[cfg(test)]
mod tests {
    use super::double;

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
