//! Statements: one or several scans, how their rows are combined, and queries over the result.
//!
//! ```text
//!   scan --------------------------------------> stages --> rows      SELECT ... FROM (SELECT ...)
//!   scan --+
//!   scan --+--> union -------------------------> stages --> rows      SELECT ... UNION ALL SELECT ...
//!   scan --+
//!   scan --+--> join: equal keys, within a time -> stages --> rows    ... FROM a JOIN b ON ... WITHIN 5 SECONDS
//!   scan --+
//!   flow --+--> an SQL engine, for each window -> stages --> rows     SELECT round(x, 1), rank() OVER (...) ...
//!   flow --+
//! ```
//!
//! Each scan is a [`Query`] with a kernel half and a split of its own. Everything else runs in user space.

use crate::expr::Expr;
use crate::lookup::Lookup;
use crate::query::{Output, Query, Shape, Window};
use crate::value::DataType;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// Where rows come from.
    pub source: Source,
    /// Queries over these rows, from the inside out.
    pub stages: Vec<Query>,
}

/// Where a statement's rows come from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// A table of events.
    Scan(Box<Query>),
    /// The rows of all of these. A stage follows.
    Union(Vec<Flow>),
    /// Pairs of rows. A stage follows.
    Join(Box<Join>),
    /// What an SQL engine computes. A stage follows.
    Engine(Box<EngineQuery>),
}

/// A query for an SQL engine. Its tables are `t0`, `t1` and so on for [`EngineQuery::inputs`], and `l0`, `l1` and so on for
/// [`EngineQuery::lookups`]; their columns are `c0`, `c1` and so on. All other names in it are the front end's own.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineQuery {
    /// In the dialect of SQLite, with the functions of `kiln-engine`.
    pub sql: String,
    /// What its tables hold.
    pub inputs: Vec<EngineInput>,
    /// Tables that are the same for each answer.
    pub lookups: Vec<Lookup>,
    /// The types of the answer's columns.
    pub outputs: Vec<DataType>,
    /// When it is answered.
    pub when: When,
}

/// Rows for an SQL engine.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineInput {
    /// Where they come from.
    pub flow: Flow,
    /// The column that says when a row was complete, unless rows come in windows.
    pub time: Option<usize>,
}

/// When an SQL engine is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// For each row, so for as many together as are there.
    Rows,
    /// For each window of time. Rows of inputs that do not come in windows are put into these.
    Windows(Option<Window>),
    /// Once, at the end.
    End,
}

/// A join of rows that happened within a time of each other.
#[derive(Clone, PartialEq, Debug)]
pub struct Join {
    /// The left and the right side.
    pub sides: [Flow; 2],
    /// What is equal in rows that match: expressions over each side's rows.
    pub keys: [Vec<Expr>; 2],
    /// The column of each side that says when a row was complete.
    pub times: [usize; 2],
    /// Maximum time between two rows that match, in nanoseconds.
    pub within_ns: u64,
    /// Other conditions, over the columns of the left side and then those of the right side.
    pub condition: Option<Expr>,
    /// Whether a row of the left or right side without a match is shown, with nulls for the other side (`LEFT JOIN`, `RIGHT
    /// JOIN`; both: `FULL JOIN`).
    pub keeps: [bool; 2],
}

impl Flow {
    /// A statement of one table.
    pub fn scan(query: Query) -> Flow {
        Flow { source: Source::Scan(Box::new(query)), stages: Vec::new() }
    }

    /// The queries of tables of events, from left to right.
    pub fn scans(&self) -> Vec<&Query> {
        match &self.source {
            Source::Scan(query) => vec![query],
            Source::Union(parts) => parts.iter().flat_map(Flow::scans).collect(),
            Source::Join(join) => join.sides.iter().flat_map(Flow::scans).collect(),
            Source::Engine(engine) => engine.inputs.iter().flat_map(|input| input.flow.scans()).collect(),
        }
    }

    /// As [`Flow::scans`], to be changed.
    pub fn scans_mut(&mut self) -> Vec<&mut Query> {
        match &mut self.source {
            Source::Scan(query) => vec![query],
            Source::Union(parts) => parts.iter_mut().flat_map(Flow::scans_mut).collect(),
            Source::Join(join) => join.sides.iter_mut().flat_map(Flow::scans_mut).collect(),
            Source::Engine(engine) => engine.inputs.iter_mut().flat_map(|input| input.flow.scans_mut()).collect(),
        }
    }

    /// How many queries of it have groups: each needs memory for them.
    pub fn groupings(&self) -> usize {
        let inner = match &self.source {
            Source::Scan(query) => usize::from(matches!(query.shape, Shape::Groups(_))),
            Source::Union(parts) => parts.iter().map(Flow::groupings).sum(),
            Source::Join(join) => join.sides.iter().map(Flow::groupings).sum(),
            Source::Engine(engine) => engine.inputs.iter().map(|input| input.flow.groupings()).sum(),
        };
        inner + self.stages.iter().filter(|stage| matches!(stage.shape, Shape::Groups(_))).count()
    }

    /// Whether tables of events are joined in it.
    pub fn has_join(&self) -> bool {
        match &self.source {
            Source::Scan(_) => false,
            Source::Union(parts) => parts.iter().any(Flow::has_join),
            Source::Join(_) => true,
            Source::Engine(engine) => engine.inputs.iter().any(|input| input.flow.has_join()),
        }
    }

    /// The query for an SQL engine that the statement is, if it is one.
    pub fn engine(&self) -> Option<&EngineQuery> {
        if let Source::Engine(engine) = &self.source { Some(engine) } else { None }
    }

    /// The windows of time that its rows come in; several if its parts differ.
    pub fn windows(&self) -> Vec<Window> {
        let of = |query: &Query| if let Shape::Groups(groups) = &query.shape { groups.window } else { None };
        let mut windows: Vec<Window> = self.scans().into_iter().chain(&self.stages).filter_map(of).collect();
        if let Some(EngineQuery { when: When::Windows(own), .. }) = self.engine() {
            windows.extend(own);
        }
        windows.dedup();
        windows
    }

    /// The query whose rows are the result.
    ///
    /// # Panics
    /// If a union, a join or an engine has no stage.
    pub fn last(&self) -> &Query {
        match (&self.source, self.stages.last()) {
            (_, Some(last)) => last,
            (Source::Scan(query), None) => query,
            _ => panic!("a stage follows unions, joins and engines"),
        }
    }

    /// The result's columns.
    pub fn outputs(&self) -> &[Output] {
        &self.last().outputs
    }

    /// The result's columns, to be changed.
    ///
    /// # Panics
    /// As [`Flow::last`].
    pub fn outputs_mut(&mut self) -> &mut [Output] {
        match (&mut self.source, self.stages.last_mut()) {
            (_, Some(last)) => &mut last.outputs,
            (Source::Scan(query), None) => &mut query.outputs,
            _ => panic!("a stage follows unions, joins and engines"),
        }
    }
}
