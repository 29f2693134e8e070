//! Statements: one or several scans, how their rows are combined, and queries over the result.
//!
//! ```text
//!   scan --------------------------------------> stages --> rows      SELECT ... FROM (SELECT ...)
//!   scan --+
//!   scan --+--> union -------------------------> stages --> rows      SELECT ... UNION ALL SELECT ...
//!   scan --+
//!   scan --+--> join: equal keys, within a time -> stages --> rows    ... FROM a JOIN b ON ... WITHIN 5 SECONDS
//!   scan --+
//! ```
//!
//! Each scan is a [`Query`] with a kernel half and a split of its own. Everything else runs in user space.

use crate::expr::Expr;
use crate::query::{Output, Query};

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
        }
    }

    /// As [`Flow::scans`], to be changed.
    pub fn scans_mut(&mut self) -> Vec<&mut Query> {
        match &mut self.source {
            Source::Scan(query) => vec![query],
            Source::Union(parts) => parts.iter_mut().flat_map(Flow::scans_mut).collect(),
            Source::Join(join) => join.sides.iter_mut().flat_map(Flow::scans_mut).collect(),
        }
    }

    /// Whether tables of events are joined in it.
    pub fn has_join(&self) -> bool {
        match &self.source {
            Source::Scan(_) => false,
            Source::Union(parts) => parts.iter().any(Flow::has_join),
            Source::Join(_) => true,
        }
    }

    /// The query whose rows are the result.
    ///
    /// # Panics
    /// If a union or a join has no stage.
    pub fn last(&self) -> &Query {
        match (&self.source, self.stages.last()) {
            (_, Some(last)) => last,
            (Source::Scan(query), None) => query,
            _ => panic!("a stage follows unions and joins"),
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
            _ => panic!("a stage follows unions and joins"),
        }
    }
}
