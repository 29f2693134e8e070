//! What the columns of a result are to collectors: labels, counters, gauges, histograms.

use std::collections::BTreeSet;

use kiln_plan::expr::Expr;
use kiln_plan::query::{AggregateFunction, Output, Shape};
use kiln_plan::{DataType, Value};

use crate::session::Session;

/// What a column of a result is to a collector of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It names a series.
    Label,
    /// It counts what happened in a window, so windows can be added up.
    Counter,
    /// It is a number as of now.
    Gauge,
    /// It is a distribution of values in a window, so windows can be added up.
    Histogram,
}

/// The form of a result.
#[derive(Clone, Debug)]
pub struct Form {
    /// Its table, which names of metrics begin with.
    pub table: String,
    /// The names of columns, and what they are. Rows that are not groups have none of the latter.
    pub columns: Vec<(String, Option<Role>)>,
    /// The column that says when a row was complete.
    pub time: Option<usize>,
}

impl Form {
    /// The form of a query's result.
    pub fn of(session: &Session) -> Form {
        let outer = session.parsed.flow.last();
        let role = |output: &Output| match &outer.shape {
            Shape::Rows => None,
            Shape::Groups(groups) => Some(match output.expr {
                Expr::Column(at) if at >= groups.keys.len() => {
                    let aggregate = &groups.aggregates[at - groups.keys.len()];
                    match aggregate.function {
                        AggregateFunction::Count if !aggregate.distinct => Role::Counter,
                        AggregateFunction::Sum if !aggregate.distinct && output.data_type == DataType::Uint => {
                            Role::Counter
                        }
                        AggregateFunction::Histogram => Role::Histogram,
                        _ if output.data_type == DataType::Text => Role::Label,
                        _ => Role::Gauge,
                    }
                }
                ref expr => {
                    let mut columns = BTreeSet::new();
                    expr.columns(&mut columns);
                    let of_keys = columns.iter().all(|column| *column < groups.keys.len());
                    if of_keys || output.data_type == DataType::Text { Role::Label } else { Role::Gauge }
                }
            }),
        };
        let columns = outer.outputs.iter().map(|output| (output.name.clone(), role(output))).collect();
        let time = |name: &str| {
            outer.outputs.iter().position(|output| output.name == name && output.data_type == DataType::Time)
        };
        Form { table: session.table_name().to_owned(), columns, time: time("end_ts").or_else(|| time("ts")) }
    }

    /// Whether rows are groups, whose aggregates are metrics.
    pub fn is_metrics(&self) -> bool {
        self.columns.iter().any(|(_, role)| role.is_some_and(|role| role != Role::Label))
    }
}

/// A name of metrics or labels: letters, digits and underlines, beginning with a letter.
pub(super) fn identifier(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() => name.push(letter.to_ascii_lowercase()),
            _ if name.ends_with('_') || name.is_empty() => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_');
    let begins_well = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    if begins_well { name.to_owned() } else { format!("column_{name}").trim_end_matches('_').to_owned() }
}

/// A label's value.
pub(super) fn label(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Text(text) => text.to_string(),
        Value::Histogram(histogram) => histogram.to_string(),
    }
}
