//! Numbers of requests.

use crate::clock;
use crate::store::{self, Found};

/// Seconds that are not a date.
const RELATIVE_MOST: i64 = 60 * 60 * 24 * 30;
/// An end in the past.
const PAST: u64 = 1;

/// The sign and the digits of a number, read as C does: after white space, with `+` or `-`, and up to the end, NUL or more white
/// space. `None` if there are none, or more than 64 bits hold.
fn integer(text: &[u8]) -> Option<(bool, u64)> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let from = text.iter().position(|byte| !is_space(byte))?;
    let (is_negative, text) = match &text[from..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_ended = text.get(count).is_none_or(|byte| *byte == 0 || is_space(byte));
    let digits = std::str::from_utf8(&text[..count]).ok().filter(|_| is_ended)?;
    Some((is_negative, digits.parse().ok()?))
}

/// A number of 64 bits. What is negative is taken modulo 2^64 if that is less than 2^63, as in memcached.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    let (is_negative, digits) = integer(text)?;
    if !is_negative {
        return Some(digits);
    }
    Some(digits.wrapping_neg()).filter(|number| number >> 63 == 0)
}

/// A number that may be negative.
pub fn signed(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = integer(text)?;
    if is_negative { 0i64.checked_sub_unsigned(digits) } else { i64::try_from(digits).ok() }
}

/// When an item ends, by the store's clock, as requests say it: 0 is never, up to 30 days are from now on, more is a date.
pub fn expires(text: &[u8]) -> Option<u64> {
    Some(match signed(text)? {
        0 => 0,
        seconds if seconds < 0 => PAST,
        seconds if seconds <= RELATIVE_MOST => store::now() + 1000 * seconds as u64,
        date => (date as u64).saturating_mul(1000).saturating_add_signed(clock::origin(true)).max(PAST),
    })
}

/// What a value and a difference make; `None` if the value is no number.
pub fn added(found: &Found, delta: u64, up: bool) -> Option<Vec<u8>> {
    let old = unsigned(found.value())?;
    let new = if up { old.wrapping_add(delta) } else { old.saturating_sub(delta) };
    let mut new = new.to_string().into_bytes();
    // A shorter number keeps the value's length, as in memcached.
    new.resize(new.len().max(found.value_bytes), b' ');
    Some(new)
}
