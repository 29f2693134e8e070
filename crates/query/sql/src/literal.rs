//! Durations and sizes as people write them: `10ms`, `1.5s`, `4KiB`, `INTERVAL '1 second'`. They are nanoseconds and bytes.
//! And `p99.9`, a name with a point in it.

use kiln_plan::expr::Expr;
use kiln_plan::value::{Value, unit_bytes, unit_ns};
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::Error;
use crate::functions::percentile;
use crate::places::Places;

/// Replaces numbers that a unit follows without a space by how many nanoseconds or bytes they are.
///
/// # Errors
/// Returns one for a number that has more than 64 bits, or a part of a nanosecond or byte.
pub fn replace_units(tokens: Vec<TokenWithSpan>, places: &Places<'_>) -> Result<Vec<TokenWithSpan>, Error> {
    let mut replaced: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        if let Token::Word(word) = &token.token
            && let Some(before) = replaced.last_mut()
            && let Token::Number(number, _) = &before.token
            && before.span.end == token.span.start
            && let Some(unit) = unit_ns(&word.value).or_else(|| unit_bytes(&word.value))
        {
            let fail = |why: &str| Error {
                at: places.bytes(before.span).map(|at| at.start..at.end + word.value.len()),
                ..Error::new(format!("`{number}{}` {why}", word.value))
            };
            let whole =
                exactly(number, unit).ok_or_else(|| fail("has more than 64 bits, or no whole number of units"))?;
            before.token = Token::Number(whole.to_string(), false);
            before.span.end = token.span.end;
        } else if let Token::Number(part, _) = &token.token
            && let Some(digits) = part.strip_prefix('.')
            && let Some(before) = replaced.last_mut()
            && before.span.end == token.span.start
            && let Token::Word(word) = &mut before.token
            && percentile(&word.value.to_lowercase()).is_some()
        {
            // `p99.9` is `p999`.
            word.value += digits;
            before.span.end = token.span.end;
        } else {
            replaced.push(token);
        }
    }
    Ok(replaced)
}

/// A decimal number of units, if it is a whole number of 64 bits.
fn exactly(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part = part.trim_end_matches('0');
    let mut all = u128::from(whole) * u128::from(unit);
    if !part.is_empty() {
        let scale = 10u128.checked_pow(u32::try_from(part.len()).ok()?).filter(|_| part.len() <= 18)?;
        let parts = part.parse::<u64>().ok().map(u128::from)? * u128::from(unit);
        all += (parts % scale == 0).then_some(parts / scale)?;
    }
    u64::try_from(all).ok()
}

/// The nanoseconds of `INTERVAL '1 second'`, `INTERVAL '10' MS` and the like; `None` for another expression.
///
/// # Errors
/// Returns one for an interval of months and years, and for one that is not understood.
pub fn interval(expr: &ast::Expr) -> Result<Option<u64>, Error> {
    let ast::Expr::Interval(interval) = expr else { return Ok(None) };
    let wrong = || {
        let error = Error::new(format!("`{expr}` is no time that is known"));
        error.help("INTERVAL '10 ms', INTERVAL '1' SECOND; units are ns, us, ms, s, min, h and d")
    };
    let text = match &*interval.value {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => text.clone(),
            _ => return Err(wrong()),
        },
        _ => return Err(wrong()),
    };
    let field = interval.leading_field.as_ref().map(ToString::to_string);
    let words: Vec<&str> = text.split_whitespace().chain(field.as_deref()).collect();
    if words.is_empty() || interval.last_field.is_some() {
        return Err(wrong());
    }
    let mut all = 0u64;
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let end = word.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(word.len());
        let (number, unit) = word.split_at(end);
        let unit = if unit.is_empty() { words.next().ok_or_else(wrong)? } else { unit };
        let unit = unit_ns(unit).filter(|_| !number.is_empty()).ok_or_else(wrong)?;
        all = exactly(number, unit).and_then(|own| all.checked_add(own)).ok_or_else(wrong)?;
    }
    Ok(Some(all))
}

/// An interval as an expression of Kiln's.
///
/// # Errors
/// As [`interval`].
pub fn bound(expr: &ast::Expr) -> Result<Expr, Error> {
    let nanoseconds = interval(expr)?.ok_or_else(|| Error::beyond(format!("`{expr}` is not understood here")))?;
    Ok(Expr::Literal(Value::Uint(nanoseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_units_are_exact_or_none() {
        assert_eq!(exactly("10", 1_000_000), Some(10_000_000));
        assert_eq!(exactly("1.5", 1_000), Some(1_500));
        assert_eq!(exactly(".25", 1 << 10), Some(256));
        assert_eq!(exactly("0.3", 1), None);
        assert_eq!(exactly("18446744073709551615", 2), None);
        assert_eq!(exactly("1.00000000000000000000000000000", 7), Some(7));
        assert_eq!(exactly("1.00000000000000000000000000001", 7), None);
    }
}
