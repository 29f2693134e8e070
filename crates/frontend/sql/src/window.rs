//! `WINDOW 1 SECOND [EVERY 100 MILLISECONDS]`, `WINDOW SESSION 100 MS`, and the paper's `WINDOW 1sec`.

use kiln_plan::query::Window;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::Error;
use crate::places::Places;

/// Units of time, and their nanoseconds.
const UNITS: [(&[&str], u64); 6] = [
    (&["ns", "nanosecond", "nanoseconds"], 1),
    (&["us", "microsecond", "microseconds"], 1_000),
    (&["ms", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000_000),
    (&["h", "hour", "hours"], 3_600_000_000_000),
];
/// Maximum number of windows of one row.
const MAX_OVERLAP: u64 = 1000;

/// A clause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clause {
    /// Windows of time.
    Window(Window),
    /// Sessions, which end after a pause of so many nanoseconds.
    Session(u64),
}

/// A clause, and its depth in parentheses.
pub type Placed = (usize, Clause);

/// Removes all clauses from the tokens. Each belongs to the subquery in its parentheses.
pub fn take_all(
    mut tokens: Vec<TokenWithSpan>,
    places: &Places<'_>,
) -> Result<(Vec<TokenWithSpan>, Vec<Placed>), Error> {
    let mut windows: Vec<Placed> = Vec::new();
    loop {
        let (rest, found) = take(tokens, places)?;
        tokens = rest;
        match found {
            None => return Ok((tokens, windows)),
            Some((depth, _)) if windows.iter().any(|(own, _)| *own == depth) => {
                return Err(Error::new("a query has one WINDOW"));
            }
            Some(window) => windows.push(window),
        }
    }
}

/// Removes the last clause from the tokens.
fn take(tokens: Vec<TokenWithSpan>, places: &Places<'_>) -> Result<(Vec<TokenWithSpan>, Option<Placed>), Error> {
    let at: Vec<usize> = (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let word = |index: usize| match at.get(index).map(|at| &tokens[*at].token) {
        Some(Token::Word(word)) => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    let is_number = |index: usize| matches!(at.get(index).map(|at| &tokens[*at].token), Some(Token::Number(..)));
    let Some(start) = (0..at.len()).rev().find(|index| {
        word(*index) == "window" && (is_number(index + 1) || word(index + 1) == "session" && is_number(index + 2))
    }) else {
        return Ok((tokens, None));
    };
    let fail = |index: usize, error: Error| {
        let token = at.get(index).or(at.last()).map(|at| &tokens[*at]);
        Error { at: token.and_then(|token| places.bytes(token.span)), ..error }
    };
    let duration = |index: usize| -> Result<u64, Error> {
        let number = match at.get(index).map(|at| &tokens[*at].token) {
            Some(Token::Number(text, _)) => text.parse::<u64>().ok(),
            _ => None,
        };
        let number =
            number.ok_or_else(|| fail(index, Error::new("a whole number of some unit of time is expected")))?;
        let name = word(index + 1);
        let unit = UNITS.iter().find(|(names, _)| names.contains(&name.as_str()));
        let (_, unit_ns) = unit.ok_or_else(|| {
            let error = Error::new("a unit of time is expected");
            fail(index + 1, error.help("units are ns, us, ms, s, min and h, or written out: `WINDOW 1 SECOND`"))
        })?;
        let length = number.checked_mul(*unit_ns).filter(|length| *length > 0 && *length < 1 << 62);
        length.ok_or_else(|| fail(index, Error::new("this is no length of a window")))
    };
    let is_session = word(start + 1) == "session";
    let first = start + 1 + usize::from(is_session);
    let length_ns = duration(first)?;
    let mut end = first + 2;
    let mut step_ns = length_ns;
    if word(end) == "every" {
        if is_session {
            return Err(fail(end, Error::new("sessions do not overlap").help("leave out EVERY")));
        }
        step_ns = duration(end + 1)?;
        if !length_ns.is_multiple_of(step_ns) || length_ns / step_ns > MAX_OVERLAP {
            let message = format!("a window's length must be 1 to {MAX_OVERLAP} times the time between two windows");
            return Err(fail(end + 1, Error::new(message)));
        }
        end += 3;
    }
    let depth = tokens[..at[start]].iter().fold(0usize, |depth, token| match token.token {
        Token::LParen => depth + 1,
        Token::RParen => depth.saturating_sub(1),
        _ => depth,
    });
    let first = at[start];
    let last = at[end - 1];
    let rest = tokens.into_iter().enumerate().filter(|(at, _)| *at < first || *at > last).map(|(_, token)| token);
    let window = Clause::Window(Window { length_ns, step_ns });
    Ok((rest.collect(), Some((depth, if is_session { Clause::Session(length_ns) } else { window }))))
}
