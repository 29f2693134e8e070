//! Kiln's SQL: a query as text becomes a logical plan.
//!
//! ```text
//!   text --sqlparser--> syntax tree --shorthand--> syntax tree --bind: names, types, groups--> kiln_plan::Flow
//!     |
//!     +-- WINDOW 1 SECOND [EVERY 100 MS] and WITHIN 5 SECONDS are Kiln's own clauses, taken out of the tokens first
//!     +-- what Kiln's plans cannot express: engine: a query for an SQL engine over their rows, if there is one
//! ```
//!
//! ```
//! let sql = "SELECT pid, name, max(latency_ns) FROM syscalls GROUP BY pid, name WINDOW 1 SECOND";
//! let parsed = kiln_sql::parse(sql, None)?;
//! assert_eq!(parsed.flow.outputs()[2].name, "max(latency_ns)");
//! let wrong = kiln_sql::parse("SELECT latencyns FROM syscalls", None).unwrap_err();
//! assert_eq!(wrong.help.as_deref(), Some("did you mean `latency_ns`?"));
//! # Ok::<(), kiln_sql::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bind;
mod clauses;
pub mod dispatch;
mod engine;
mod error;
mod expression;
mod from;
mod functions;
mod grouping;
mod literal;
mod pattern;
mod places;
mod shorthand;
mod subquery;
mod walk;
mod wildcard;
mod window;

use kiln_plan::Flow;
use kiln_plan::lookup::{self, Lookup};
use kiln_plan::programs::Known;
use kiln_program::btf::Btf;
use sqlparser::ast::Statement;
use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

pub use bind::CheckPattern;
pub use engine::NAMES as ENGINE_FUNCTIONS;
pub use error::Error;
pub use functions::similar;
use places::Places;

/// Maximum number of tokens of a query, because syntax trees are walked by recursion.
pub const MAX_TOKENS: usize = 2000;
/// Bytes of stack for a thread that parses, plans or runs queries: enough for [`MAX_TOKENS`], also in a build with assertions.
pub const STACK_BYTES: usize = 32 << 20;
/// Maximum number of `NOT` in a row, and of `CASE` in each other, which is below what the parser allows.
const MOST_NESTED: usize = 40;
/// Maximum bytes of a query.
pub const MAX_BYTES: usize = 64 << 10;

/// What to do with a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Run it.
    Run,
    /// Print how it would be run (`EXPLAIN`).
    Explain,
    /// Run it, and print how it ran (`EXPLAIN ANALYZE`).
    Analyze,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Parsed {
    /// The tables that are read, and what is computed of their rows.
    pub flow: Flow,
    /// What is to be done.
    pub action: Action,
}

/// Reads a query with the lookup tables that every machine has. Tables of single tracepoints need the kernel's types. No file
/// is read.
///
/// # Errors
/// Returns the first error with its place.
pub fn parse(sql: &str, types: Option<&Btf>) -> Result<Parsed, Error> {
    parse_with(sql, Known::of(types), &lookup::constant())
}

/// Reads a query with these lookup tables.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(sql: &str, known: Known<'_>, lookups: &[Lookup]) -> Result<Parsed, Error> {
    parsed(sql, known, lookups, None)
}

/// Reads a query; what Kiln's own plans cannot express is left to an SQL engine ([`kiln_plan::flow::EngineQuery`]),
/// which says by `check` what is wrong with a constant that is a regular expression.
///
/// # Errors
/// As [`parse`].
pub fn parse_for_engine(sql: &str, known: Known<'_>, lookups: &[Lookup], check: CheckPattern) -> Result<Parsed, Error> {
    parsed(sql, known, lookups, Some(check))
}

fn parsed(sql: &str, known: Known<'_>, lookups: &[Lookup], engine: Option<CheckPattern>) -> Result<Parsed, Error> {
    let places = Places(sql);
    let dialect = GenericDialect {};
    let tokens = tokens(sql, "query", &dialect)?;
    let (tokens, clauses) = window::take_all(tokens, &places)?;
    let tokens = pattern::replace(literal::replace_units(tokens, &places)?);
    refuse_deep(&tokens, &places)?;
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let statements = parser.parse_statements().map_err(|error| not_parsed(&parser, &error.to_string(), &places))?;
    let [statement] = <[Statement; 1]>::try_from(statements)
        .map_err(|all| Error::new(format!("one query is expected, and here are {}", all.len())))?;
    let (mut statement, action) = match statement {
        Statement::Explain { statement, analyze: true, .. } => (*statement, Action::Analyze),
        Statement::Explain { statement, .. } => (*statement, Action::Explain),
        other => (other, Action::Run),
    };
    shorthand::write_out(&mut statement)?;
    let Statement::Query(query) = statement else {
        return Err(not_a_query(&statement));
    };
    let used = std::cell::RefCell::default();
    let scope = bind::Scope { known, places: &places, clauses: &clauses, used: &used, lookups, engine, named: &[] };
    let flow = match bind::query(&query, &scope) {
        Err(own) if own.is_beyond && engine.is_some() => {
            used.borrow_mut().clear();
            // What the engine's half says is wrong is wrong; what it cannot express either is Kiln's own error.
            engine::statement(&query, &scope).map_err(|error| {
                let is_own = error.is_beyond && (error.is_of_source || !own.is_of_source);
                if is_own { own } else { error }
            })?
        }
        bound => bound?,
    };
    if used.borrow().len() < clauses.len() {
        return Err(Error::new("this WINDOW is of no SELECT").help("it stands after GROUP BY, not in an expression"));
    }
    Ok(Parsed { flow, action })
}

/// Refuses many `NOT` in a row, and many `CASE` in each other, before the parser does, which takes one that is too deep for a
/// name.
fn refuse_deep(tokens: &[TokenWithSpan], places: &Places<'_>) -> Result<(), Error> {
    let (mut nots, mut cases) = (0, 0usize);
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::Word(word) if word.keyword == Keyword::NOT => nots += 1,
            other => {
                nots = 0;
                match other {
                    Token::Word(word) if word.keyword == Keyword::CASE => cases += 1,
                    Token::Word(word) if word.keyword == Keyword::END => cases = cases.saturating_sub(1),
                    _ => {}
                }
            }
        }
        if nots > MOST_NESTED || cases > MOST_NESTED {
            return Err(Error { at: places.bytes(token.span), ..too_deep() });
        }
    }
    Ok(())
}

fn too_deep() -> Error {
    let error = Error::new("the query nests too deeply");
    error.help(format!("{MOST_NESTED} parentheses, NOT, CASE or calls in each other are understood"))
}

/// The error of a statement that is no query, with the command that answers it.
fn not_a_query(statement: &Statement) -> Error {
    let error = Error::new("only SELECT and EXPLAIN SELECT are understood");
    match statement {
        Statement::ExplainTable { table_name, .. } => {
            error.help(format!("`kiln tables {}` lists its columns", from::name_of(table_name)))
        }
        Statement::ShowColumns { .. } => error.help("`kiln tables NAME` lists the columns of a table"),
        Statement::ShowTables { .. }
        | Statement::ShowViews { .. }
        | Statement::ShowDatabases { .. }
        | Statement::ShowSchemas { .. }
        | Statement::ShowVariable { .. } => error.help("`kiln tables` lists the tables"),
        _ => error,
    }
}

/// The tokens of a text, which is called `what` in errors.
fn tokens(text: &str, what: &str, dialect: &GenericDialect) -> Result<Vec<TokenWithSpan>, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::new(format!("the {what} is longer than {MAX_BYTES} bytes")));
    }
    let tokens = Tokenizer::new(dialect, text).tokenize_with_location().map_err(|error| {
        let at = Places(text).byte(error.location).map(|at| at..at);
        Error { at, ..Error::new(error.message) }
    })?;
    if tokens.len() > MAX_TOKENS {
        return Err(Error::new(format!("the {what} has more than {MAX_TOKENS} words and signs")));
    }
    Ok(tokens)
}

/// The parser's error, at the place where it stopped.
fn not_parsed(parser: &Parser<'_>, message: &str, places: &Places<'_>) -> Error {
    let message = message.split(" at Line:").next().unwrap_or_default();
    let message = message.strip_prefix("sql parser error: ").unwrap_or(message).to_owned();
    let error = if message == "recursion limit exceeded" { too_deep() } else { Error::new(message) };
    Error { at: places.bytes(parser.get_current_token().span), ..error }
}
