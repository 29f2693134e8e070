//! Kiln's SQL: a query as text becomes a logical plan.
//!
//! ```text
//!   text --sqlparser--> syntax tree --bind: names, types, groups--> kiln_plan::Query
//!     |
//!     +-- WINDOW 1 SECOND [EVERY 100 MS] is Kiln's own clause and is taken out of the tokens first
//! ```
//!
//! ```
//! let sql = "SELECT pid, name, max(latency_ns) FROM syscalls GROUP BY pid, name WINDOW 1 SECOND";
//! let parsed = kiln_sql::parse(sql, None)?;
//! assert_eq!(parsed.query.outputs[2].name, "max(latency_ns)");
//! let wrong = kiln_sql::parse("SELECT latency FROM syscalls", None).unwrap_err();
//! assert_eq!(wrong.help.as_deref(), Some("did you mean `latency_ns`?"));
//! # Ok::<(), kiln_sql::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bind;
mod expression;
mod subquery;
mod window;

use std::ops::Range;

use kiln_plan::Query;
use kiln_program::btf::Btf;
use kiln_program::{Clean, clean};
use sqlparser::ast::Statement;
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Span, Tokenizer};

/// Words and signs of a query at most: syntax trees are walked by recursion.
const MAX_TOKENS: usize = 2000;
/// Bytes of a query at most.
const MAX_BYTES: usize = 64 << 10;

/// What is wrong with a query.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}{}", help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default())]
pub struct Error {
    /// One sentence.
    pub message: String,
    /// Where, in bytes of the query, if that can be told.
    pub at: Option<Range<usize>>,
    /// What was probably meant.
    pub help: Option<String>,
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error { message: message.into(), at: None, help: None }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Error {
        Error { help: Some(help.into()), ..self }
    }

    /// The sentence, then the query with the place marked: several lines for a person to read, without anything in them
    /// that is hidden. All but the first begin with two spaces.
    pub fn shown(&self, sql: &str) -> String {
        let mut text = format!("error: {}\n", Clean(&self.message));
        if let Some(at) = &self.at {
            let start = sql[..at.start].rfind('\n').map_or(0, |before| before + 1);
            let end = sql[at.start..].find('\n').map_or(sql.len(), |more| at.start + more);
            let width = |text: &str| clean(text).chars().count();
            let marks = "^".repeat(width(&sql[at.start..at.end.clamp(at.start, end)]).max(1));
            text +=
                &format!("  | {}\n  | {}{marks}\n", Clean(&sql[start..end]), " ".repeat(width(&sql[start..at.start])));
        }
        if let Some(help) = &self.help {
            text += &format!("  = help: {}\n", Clean(help));
        }
        text
    }
}

/// What is to be done with a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Run it.
    Run,
    /// Say how it would be run (`EXPLAIN`).
    Explain,
    /// Run it, and say how that went (`EXPLAIN ANALYZE`).
    Analyze,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    /// What it asks; where it has subqueries that need stages, what the innermost one asks.
    pub query: Query,
    /// What is asked of the rows of the query before, from the inside out.
    pub stages: Vec<Query>,
    /// What is to be done.
    pub action: Action,
}

/// Places in a query: lines and columns as bytes.
pub(crate) struct Places<'a>(&'a str);

impl Places<'_> {
    fn byte(&self, location: Location) -> Option<usize> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(location.column).ok()?.checked_sub(1)?;
        let mut start = 0;
        for _ in 0..line {
            start += self.0[start..].find('\n')? + 1;
        }
        let rest = &self.0[start..];
        Some(start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at))
    }

    /// The bytes of a span; `None` for one that is nowhere.
    pub fn bytes(&self, span: Span) -> Option<Range<usize>> {
        let (start, end) = (self.byte(span.start)?, self.byte(span.end)?);
        (start <= end).then_some(start..end)
    }
}

/// Reads a query. Tables of single tracepoints need the kernel's types.
///
/// # Errors
/// What is wrong with it, and where.
pub fn parse(sql: &str, types: Option<&Btf>) -> Result<Parsed, Error> {
    if sql.len() > MAX_BYTES {
        return Err(Error::new(format!("the query is longer than {MAX_BYTES} bytes")));
    }
    let places = Places(sql);
    let dialect = GenericDialect {};
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().map_err(|error| {
        let at = places.byte(error.location).map(|at| at..at);
        Error { at, ..Error::new(error.message) }
    })?;
    if tokens.len() > MAX_TOKENS {
        return Err(Error::new(format!("the query has more than {MAX_TOKENS} words and signs")));
    }
    let (tokens, windows) = window::take_all(tokens, &places)?;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let statements = parser.parse_statements().map_err(|error| {
        let token = parser.get_current_token();
        let message = error.to_string();
        let message = message.split(" at Line:").next().unwrap_or_default();
        let message = message.strip_prefix("sql parser error: ").unwrap_or(message).to_owned();
        Error { at: places.bytes(token.span), ..Error::new(message) }
    })?;
    let [statement] = <[Statement; 1]>::try_from(statements)
        .map_err(|all| Error::new(format!("one query is expected, and here are {}", all.len())))?;
    let (statement, action) = match statement {
        Statement::Explain { statement, analyze: true, .. } => (*statement, Action::Analyze),
        Statement::Explain { statement, .. } => (*statement, Action::Explain),
        other => (other, Action::Run),
    };
    let Statement::Query(query) = statement else {
        return Err(Error::new("only SELECT and EXPLAIN SELECT are understood"));
    };
    let used = std::cell::Cell::new(0);
    let scope = bind::Scope { types, places: &places, windows: &windows, used: &used };
    let (query, stages) = bind::query(&query, 0, &scope)?;
    if used.get() < windows.len() {
        return Err(Error::new("this WINDOW is of no SELECT").help("it stands after GROUP BY, not in an expression"));
    }
    Ok(Parsed { query, stages, action })
}
