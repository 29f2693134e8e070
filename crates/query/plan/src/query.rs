//! Logical plans, independent of the front end.
//!
//! ```text
//!   scan table -> filter -> rows:    project -> order, limit
//!                        -> groups:  group by keys, in windows -> aggregate -> having -> project -> order, limit
//! ```

use crate::expr::Expr;
use crate::table::Table;
use crate::value::DataType;

/// A query.
#[derive(Clone, PartialEq, Debug)]
pub struct Query {
    /// Where rows come from.
    pub table: Table,
    /// The filter, over the table's columns.
    pub filter: Option<Expr>,
    /// Whether a row has a match in each lookup table that leaves out rows without one.
    pub matches: Vec<Expr>,
    /// What becomes of them.
    pub shape: Shape,
    /// The output, over the table's columns, or over keys and then aggregates.
    pub outputs: Vec<Output>,
    /// The order of the result, over the outputs, the most important first.
    pub order: Vec<Order>,
    /// Maximum number of rows; if there are windows, of each window.
    pub limit: Option<usize>,
    /// Rows before these, in the same order, are left out.
    pub offset: usize,
    /// Whether equal rows are shown once.
    pub distinct: bool,
    /// Whether its table's rows come in windows, and it runs once per window.
    pub of_windows: bool,
}

/// How rows are processed.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// Each is shown.
    Rows,
    /// They are put together.
    Groups(Groups),
}

/// How rows are put together.
#[derive(Clone, PartialEq, Debug)]
pub struct Groups {
    /// The keys of a group, over the table's columns.
    pub keys: Vec<Expr>,
    /// What is computed of each group.
    pub aggregates: Vec<Aggregate>,
    /// The filter on groups, over keys and then aggregates.
    pub having: Option<Expr>,
    /// Groups begin anew in each window; `None`: there is one, which ends with the query.
    pub window: Option<Window>,
    /// A group ends when no row of it came for this many nanoseconds: a session. There is no window then.
    pub session_ns: Option<u64>,
}

/// A tumbling or hopping window of time, by when rows were complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// How long, in nanoseconds.
    pub length_ns: u64,
    /// From one beginning to the next, in nanoseconds; the length itself for tumbling windows. It divides the length.
    pub step_ns: u64,
}

/// An aggregate.
#[derive(Clone, PartialEq, Debug)]
pub struct Aggregate {
    /// Which.
    pub function: AggregateFunction,
    /// Of what, over the table's columns; nothing for `count(*)`.
    pub of: Option<Expr>,
    /// Only of values that differ.
    pub distinct: bool,
}

/// An aggregate function.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AggregateFunction {
    /// How many rows, or how many values that are not null.
    Count,
    /// Their sum; null if it is of integers and has more than 64 bits.
    Sum,
    /// Their mean.
    Avg,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The standard deviation of the sample.
    Stddev,
    /// The value that this part of them does not exceed, within 1/64 of it.
    Quantile(f64),
    /// How many lie between each power of two and the next.
    Histogram,
    /// This many of the most frequent values, with how often each came.
    TopK(usize),
    /// About how many values differ ([`crate::execute::sketch::Distinct`]).
    ApproxDistinct,
}

impl AggregateFunction {
    /// Its name in SQL.
    pub const fn name(self) -> &'static str {
        match self {
            AggregateFunction::Count => "count",
            AggregateFunction::Sum => "sum",
            AggregateFunction::Avg => "avg",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
            AggregateFunction::Stddev => "stddev",
            AggregateFunction::Quantile(_) => "quantile",
            AggregateFunction::Histogram => "histogram",
            AggregateFunction::TopK(_) => "top_k",
            AggregateFunction::ApproxDistinct => "approx_distinct",
        }
    }
}

impl Aggregate {
    /// The type of its value, over columns of these types.
    pub fn data_type(&self, columns: &[DataType]) -> DataType {
        let of = || self.of.as_ref().map_or(DataType::Uint, |of| of.data_type(columns));
        match self.function {
            AggregateFunction::Count | AggregateFunction::ApproxDistinct => DataType::Uint,
            AggregateFunction::TopK(_) => DataType::Text,
            AggregateFunction::Avg | AggregateFunction::Stddev => DataType::Float,
            AggregateFunction::Histogram => DataType::Histogram,
            AggregateFunction::Sum => match of() {
                DataType::Time | DataType::Bool => DataType::Uint,
                other => other,
            },
            AggregateFunction::Quantile(_) | AggregateFunction::Min | AggregateFunction::Max => of(),
        }
    }
}

/// A column of the result.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Its value.
    pub expr: Expr,
    /// Its type.
    pub data_type: DataType,
}

/// One level of the result's order.
#[derive(Clone, PartialEq, Debug)]
pub struct Order {
    /// By what, over the outputs.
    pub by: Expr,
    /// The greatest first.
    pub descending: bool,
}

impl Query {
    /// A query without conditions, order and limits.
    pub fn new(table: Table, shape: Shape, outputs: Vec<Output>) -> Query {
        Query {
            table,
            filter: None,
            matches: Vec::new(),
            shape,
            outputs,
            order: Vec::new(),
            limit: None,
            offset: 0,
            distinct: false,
            of_windows: false,
        }
    }

    /// The expressions over the table's columns.
    fn expressions(&mut self) -> Vec<&mut Expr> {
        let mut all: Vec<&mut Expr> = self.filter.iter_mut().chain(&mut self.matches).collect();
        match &mut self.shape {
            Shape::Rows => all.extend(self.outputs.iter_mut().map(|output| &mut output.expr)),
            Shape::Groups(groups) => {
                all.extend(&mut groups.keys);
                all.extend(groups.aggregates.iter_mut().filter_map(|aggregate| aggregate.of.as_mut()));
            }
        }
        all
    }

    /// Replaces the table's columns.
    pub fn replace_columns(&mut self, by: &dyn Fn(usize) -> Expr) {
        self.expressions().into_iter().for_each(|expr| *expr = expr.replace_columns(by));
    }

    /// Columns of the table that are read anywhere in it.
    pub fn columns(&self) -> std::collections::BTreeSet<usize> {
        let mut columns = std::collections::BTreeSet::new();
        let mut add = |expr: &Expr| expr.columns(&mut columns);
        self.filter.iter().chain(&self.matches).for_each(&mut add);
        match &self.shape {
            Shape::Rows => self.outputs.iter().for_each(|output| add(&output.expr)),
            Shape::Groups(groups) => {
                groups.keys.iter().for_each(&mut add);
                groups.aggregates.iter().filter_map(|aggregate| aggregate.of.as_ref()).for_each(&mut add);
            }
        }
        columns.extend(self.table.complete());
        columns
    }
}
