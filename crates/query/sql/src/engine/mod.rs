//! What Kiln's own plans cannot express: a query for an SQL engine over rows that Kiln's plans give.
//!
//! ```text
//!   SELECT comm, round(avg(latency_ns), 1) FROM syscalls WHERE ret < 0 GROUP BY comm ORDER BY 2 NULLS LAST WINDOW 1 S
//!
//!   t0:      SELECT comm, avg(latency_ns) FROM syscalls WHERE ret < 0 GROUP BY comm WINDOW 1 S      Kiln, in the kernel
//!   engine:  SELECT s0.c0 AS o0, k_round(s0.c1, 1) AS o1 FROM t0 AS s0 ORDER BY 2 NULLS LAST        for each window
//! ```
//!
//! Tables, joins within a time and conditions that Kiln understands stay Kiln's, and so do groups if all their keys and
//! aggregates are. All names in the engine's text are made here: `t0` is an input, `l0` a lookup table, `w0` a query of
//! `WITH`, `s0` a source, `c0` a column of a table, `o0` a column of a result. So names are resolved with Kiln's errors,
//! which have a place, and no word of the user's reaches the engine but constants.

mod aggregate;
mod cast;
mod constant;
mod expression;
mod frame;
mod function;
mod names;
mod operator;
mod select;
mod source;
mod translator;
mod typed;

use kiln_plan::expr::Expr;
use kiln_plan::flow::{EngineInput, EngineQuery, Flow, Source, When};
use kiln_plan::query::{Output, Query, Shape, Window};
use kiln_plan::table::{self, Column, Scan, Table};
use kiln_plan::value::DataType;
use sqlparser::ast;

use crate::bind::{self, Scope};
use crate::error::Error;
use crate::window::Clause;
use translator::Translator;
use typed::{Relation, limited};

pub use function::NAMES;

/// A statement that an engine answers.
///
/// # Errors
/// What is wrong with it; or what the engine's half cannot express either ([`Error::is_beyond`]).
pub fn statement(query: &ast::Query, scope: &Scope<'_>) -> Result<Flow, Error> {
    let mut translator = Translator {
        scope,
        named: Vec::new(),
        common: Vec::new(),
        with: Vec::new(),
        inputs: Vec::new(),
        lookups: Vec::new(),
        sources: 0,
        frames: Vec::new(),
        window: None,
        each_row: true,
        joins_events: None,
    };
    let relation = translator.ordered(query)?;
    translator.flow(relation, query)
}

impl Translator<'_> {
    /// The windows of the statement.
    fn windows(&self) -> Result<Vec<Window>, Error> {
        let own = if let Some(Clause::Window(window)) = self.window { Some(window) } else { None };
        let mut windows = Vec::new();
        for window in self.inputs.iter().flatten().flat_map(|input| input.flow.windows()).chain(own) {
            if !windows.contains(&window) {
                windows.push(window);
            }
        }
        match &windows[..] {
            [] | [_] => Ok(windows),
            _ => Err(Error::new("parts of this query have different windows").help("give all of them the same WINDOW")),
        }
    }

    fn flow(mut self, relation: Relation, query: &ast::Query) -> Result<Flow, Error> {
        let window = self.windows()?.pop();
        if let (None, Some(error)) = (window, self.joins_events.take()) {
            return Err(error);
        }
        let inputs: Vec<EngineInput> = self.inputs.into_iter().flatten().collect();
        let is_session = |flow: &Flow| {
            let of = |query: &Query| matches!(&query.shape, Shape::Groups(groups) if groups.session_ns.is_some());
            flow.scans().into_iter().chain(&flow.stages).any(of)
        };
        let sessions = inputs.iter().filter(|input| is_session(&input.flow)).count();
        if sessions > 0 && (inputs.len() > 1 || window.is_some()) {
            return Err(Error::new("sessions go with no other table").help("use WINDOW 1 SECOND instead"));
        }
        let when = match window {
            Some(_) => When::Windows(window),
            None if sessions > 0 => When::Windows(None),
            None if self.each_row && !inputs.is_empty() => When::Rows,
            None => When::End,
        };
        if when == When::Windows(window) && inputs.iter().any(|input| input.time.is_none() && !has_windows(&input.flow))
        {
            let error = Error::new("rows of a subquery do not say in which window they are");
            return Err(error.help("show `ts` or `end_ts` in it, or put WINDOW into it"));
        }
        let (mut limit, mut offset) = bind::limit(Some(query))?;
        let with = if self.with.is_empty() { String::new() } else { format!("WITH {} ", self.with.join(", ")) };
        let mut sql = with + &relation.text;
        if when != When::Rows {
            sql += &limited(limit.take(), std::mem::take(&mut offset));
        }
        let outputs: Vec<DataType> = relation.columns.iter().map(|(_, data_type)| *data_type).collect();
        let table = result(&relation.columns);
        let shown = relation.columns.iter().enumerate().map(|(at, (name, data_type))| Output {
            name: name.clone(),
            expr: Expr::Column(at),
            data_type: *data_type,
        });
        let of_windows = matches!(when, When::Windows(_));
        let stage = Query { limit, offset, of_windows, ..Query::new(table, Shape::Rows, shown.collect()) };
        let engine = EngineQuery { sql, inputs, lookups: self.lookups, outputs, when };
        bind::few_scans(Flow { source: Source::Engine(Box::new(engine)), stages: vec![stage] })
    }
}

/// Whether a statement's rows come in windows or sessions.
fn has_windows(flow: &Flow) -> bool {
    let last = flow.last();
    last.of_windows
        || matches!(&last.shape, Shape::Groups(groups) if groups.window.is_some() || groups.session_ns.is_some())
}

/// What an engine gives, as a table.
fn result(columns: &[(String, DataType)]) -> Table {
    let column = |(name, data_type): &(String, DataType)| Column {
        name: name.clone(),
        data_type: *data_type,
        about: "of the query".to_owned(),
        source: table::Source::Given,
        listed: true,
    };
    Table {
        name: "query".to_owned(),
        about: "a row of the query".to_owned(),
        scan: Scan::Rows,
        columns: columns.iter().map(column).collect(),
        only: None,
        interrupts: false,
    }
}
