//! Numbers of requests.

use crate::store::Store;

/// Seconds that are not a date.
const RELATIVE_MOST: i64 = 60 * 60 * 24 * 30;
/// An end in the past.
const PAST: u64 = 1;

/// A number without a sign.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// A number that may be negative.
fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => i64::try_from(unsigned(digits)?).ok().map(i64::wrapping_neg),
        None => i64::try_from(unsigned(text)?).ok(),
    }
}

/// When an item ends, in seconds since 1970, as requests say it: 0 is never, up to 30 days are from now on, more is a date.
pub fn expires(store: &Store<'_>, text: &[u8]) -> Option<u64> {
    Some(match signed(text)? {
        0 => 0,
        seconds if seconds < 0 => PAST,
        seconds if seconds <= RELATIVE_MOST => store.seconds() + seconds as u64,
        date => date as u64,
    })
}
