//! Clauses of Kiln's own: `WINDOW 1 SECOND [EVERY 100 MILLISECONDS]`, `WINDOW SESSION 100 MS`, the paper's `WINDOW 1sec`, and
//! `JOIN ... ON ... WITHIN 5 SECONDS`.

use kiln_plan::query::Window;
use kiln_plan::value::unit_ns;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::error::Error;
use crate::places::Places;

/// Maximum number of windows of one row.
const MAX_OVERLAP: u64 = 1000;

/// A clause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clause {
    /// Windows of time.
    Window(Window),
    /// Sessions, which end after a pause of so many nanoseconds.
    Session(u64),
    /// Joined rows happened within so many nanoseconds.
    Within(u64),
}

impl Clause {
    fn name(self) -> &'static str {
        if matches!(self, Clause::Within(_)) { "WITHIN" } else { "WINDOW" }
    }
}

/// A clause, and where the `SELECT` is that it belongs to.
pub type Placed = (Location, Clause);

/// Removes all clauses from the tokens. Each belongs to the `SELECT` before it in its parentheses.
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
            Some((select, clause))
                if windows.iter().any(|(own, other)| *own == select && other.name() == clause.name()) =>
            {
                return Err(Error::new(format!("a query has one {}", clause.name())));
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
        word(*index) == "within" && is_number(index + 1)
            || word(*index) == "window"
                && (is_number(index + 1) || word(index + 1) == "session" && is_number(index + 2))
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
        let unit_ns = unit_ns(&name).ok_or_else(|| {
            let error = Error::new("a unit of time is expected");
            fail(index + 1, error.help("units are ns, us, ms, s, min and h, or written out: `WINDOW 1 SECOND`"))
        })?;
        let length = number.checked_mul(unit_ns).filter(|length| *length > 0 && *length < 1 << 62);
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
    let clause = match word(start).as_str() {
        "within" => Clause::Within(length_ns),
        _ if is_session => Clause::Session(length_ns),
        _ => Clause::Window(Window { length_ns, step_ns }),
    };
    let Some(select) = select_before(&tokens[..at[start]]) else {
        let help = match clause {
            Clause::Within(_) => "it stands after JOIN ... ON ...",
            _ => "it stands after GROUP BY, not in an expression",
        };
        return Err(fail(start, Error::new(format!("this {} is of no SELECT", clause.name())).help(help)));
    };
    let first = at[start];
    let last = at[end - 1];
    let rest = tokens.into_iter().enumerate().filter(|(at, _)| *at < first || *at > last).map(|(_, token)| token);
    Ok((rest.collect(), Some((select, clause))))
}

/// The last `SELECT` in the parentheses that are open at the end of these tokens.
fn select_before(tokens: &[TokenWithSpan]) -> Option<Location> {
    let mut depth = 0;
    for token in tokens.iter().rev() {
        match &token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return None,
            Token::LParen => depth -= 1,
            Token::Word(word) if depth == 0 && word.value.eq_ignore_ascii_case("select") => {
                return Some(token.span.start);
            }
            _ => {}
        }
    }
    None
}
