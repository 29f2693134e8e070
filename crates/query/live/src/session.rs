//! A query with what it is for, and what a run of it gives: rows, their columns, a summary.

use std::sync::Arc;

use kiln_plan::execute::{Limits, Lost};
use kiln_plan::expr::{BinaryOp, Expr};
use kiln_plan::lookup::Lookup;
use kiln_plan::query::Shape;
use kiln_plan::{DataType, Query, Row, Split, Value};
use kiln_program::btf::Btf;
use kiln_superopt::CostModel;
use serde::{Deserialize, Serialize};

use kiln_inspect::input::{lack_of_kernel_types, running_kernel_types};
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// What a query says where there is no BTF.
fn no_types() -> String {
    format!("queries need the kernel's types, and {}", lack_of_kernel_types())
}

/// A query and the kernel types that it is for.
pub struct Session {
    /// What is asked.
    pub parsed: kiln_sql::Parsed,
    /// The types of the kernel that it is planned for.
    pub types: Arc<Btf>,
    /// What operators cost there.
    pub model: CostModel,
}

impl Session {
    /// Reads a query for the running kernel.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`] with the place in the query marked; [`Error::Unsupported`] where the kernel has no BTF.
    pub fn new(sql: &str) -> Result<Session, Error> {
        Session::with_lookups(sql, Vec::new())
    }

    /// Reads a query for the running kernel, with these lookup tables besides [`crate::lookups::all`].
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with_lookups(sql: &str, own: Vec<Lookup>) -> Result<Session, Error> {
        let types = running_kernel_types().ok_or_else(|| Error::Unsupported(no_types()))?;
        Session::of(sql, types, own).map_err(|error| {
            // Errors of a named query are in its own text.
            let shown = error.shown(crate::named::query(sql).unwrap_or(sql));
            Error::InvalidQuery(shown.trim_start_matches("error: ").trim_end().to_owned())
        })
    }

    /// Reads a query for the running kernel as [`Session::with_lookups`] does; an error has its place in the query.
    ///
    /// # Errors
    /// The first error of the query; one without a place where the kernel has no BTF.
    pub fn read(sql: &str, own: Vec<Lookup>) -> Result<Session, kiln_sql::Error> {
        Session::of(sql, running_kernel_types().ok_or_else(|| kiln_sql::Error::new(no_types()))?, own)
    }

    fn of(sql: &str, types: Arc<Btf>, mut lookups: Vec<Lookup>) -> Result<Session, kiln_sql::Error> {
        lookups.extend(crate::lookups::all());
        let sql = crate::named::query(sql)?;
        let parsed = crate::engine::parse(sql, &types, &lookups)?;
        Ok(Session { parsed, types, model: CostModel::default() })
    }

    /// Looks only at rows whose column is this integer or text, as a condition in the query would.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where the table has no such column.
    pub fn only(&mut self, column: &str, value: Value) -> Result<(), Error> {
        self.only_any(column, &[value])
    }

    /// As [`Session::only`], with several values.
    ///
    /// # Errors
    /// As [`Session::only`].
    pub fn only_any(&mut self, column: &str, values: &[Value]) -> Result<(), Error> {
        for query in self.parsed.flow.scans_mut() {
            let found = query.table.column(column);
            let found = found.ok_or_else(|| {
                Error::InvalidInput(format!("table `{}` has no column `{column}` to choose by", query.table.name))
            })?;
            let equal =
                |value: &Value| Expr::binary(BinaryOp::Equal, Expr::Column(found), Expr::Literal(value.clone()));
            let any = values.iter().map(equal).reduce(|one, other| Expr::binary(BinaryOp::Or, one, other));
            query.filter = Expr::all(query.filter.take().into_iter().chain(any));
        }
        Ok(())
    }

    /// The queries of tables of events, each with a kernel half of its own.
    pub fn scans(&self) -> Vec<&Query> {
        self.parsed.flow.scans()
    }

    /// The limits of each of the statement's queries, so that they take no more memory together than these say.
    #[must_use]
    pub fn shared(&self, limits: Limits) -> Limits {
        limits.shared_by(self.parsed.flow.groupings())
    }

    /// The first of these.
    ///
    /// # Panics
    /// If the query is of lookup tables only.
    pub fn query(&self) -> &Query {
        self.scans()[0]
    }

    /// The name of the first table of events; of a query without one, `query`.
    pub fn table_name(&self) -> &str {
        self.scans().first().map_or("query", |query| query.table.name.as_str())
    }

    /// What the SQL engine is asked, if it is.
    pub fn rest(&self) -> Option<Shown> {
        self.parsed.flow.engine().map(|engine| engine.sql.as_str().into())
    }

    /// What is asked of the rows of all of them, if it is more than one query.
    pub fn stages(&self) -> &[Query] {
        &self.parsed.flow.stages
    }

    /// Whether rows are of windows of time.
    pub fn windowed(&self) -> bool {
        let is_windowed = |query: &Query| match &query.shape {
            Shape::Groups(groups) => groups.window.is_some() || groups.session_ns.is_some(),
            Shape::Rows => false,
        };
        let last = self.parsed.flow.last();
        last.of_windows || is_windowed(last)
    }

    /// The result's columns.
    pub fn columns(&self) -> Vec<ColumnHead> {
        let column = |output: &kiln_plan::query::Output| ColumnHead {
            name: Shown::from(output.name.as_str()),
            data_type: output.data_type.name(),
        };
        self.parsed.flow.outputs().iter().map(column).collect()
    }
}

/// A column of a result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ColumnHead {
    /// Its name.
    pub name: Shown,
    /// Its type.
    #[serde(rename = "type")]
    pub data_type: &'static str,
}

/// How a run went.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// How much ran in the kernel.
    pub split: Option<Split>,
    /// One event in this many began a row; 1 for every event.
    pub sample: u32,
    /// Nanoseconds that it ran.
    pub elapsed_ns: u64,
    /// How often the programs ran.
    pub events: u64,
    /// Nanoseconds that the programs took, where the kernel counts them.
    pub program_ns: Option<u64>,
    /// The same of each program.
    pub programs: Vec<ProgramRuns>,
    /// The part of one processor that the programs took when the query ended because that was more than allowed.
    pub over_budget: Option<f64>,
    /// Rows that were given.
    pub rows: u64,
    /// Records that user space took from the ring buffer.
    pub records: u64,
    /// What was lost in the kernel: [`kiln_plan::generate::COUNTERS`].
    pub lost_in_kernel: [u64; 3],
    /// Events at which the kernel ran no program, because one ran on that processor already.
    #[serde(default)]
    pub missed: u64,
    /// What was lost in user space.
    pub lost: Lost,
    /// Sentences about the groups that found no room there.
    #[serde(default)]
    pub refused: Vec<Shown>,
}

/// How often a program ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramRuns {
    /// Its hook.
    pub section: Shown,
    /// Runs.
    pub events: u64,
    /// Nanoseconds of them all.
    pub ns: u64,
}

impl Summary {
    /// How many rows or records were lost, whatever the reason.
    pub fn lost_in_all(&self) -> u64 {
        self.lost_in_kernel.iter().sum::<u64>() + self.missed + self.lost.in_all()
    }
}

/// Takes rows as they come; answers whether more are wanted.
pub type Sink<'a> = dyn FnMut(Vec<Row>) -> bool + 'a;

/// A value as JSON.
pub fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Uint(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Text(text) => (**text).into(),
        Value::Histogram(histogram) => histogram.to_string().into(),
    }
}

/// A value as text: times of the monotonic clock as seconds since boot.
pub fn text(value: &Value, data_type: &str) -> Shown {
    let text = match value {
        Value::Null => String::new(),
        Value::Uint(value) if data_type == DataType::Time.name() => {
            format!("{}.{:09}", value / 1_000_000_000, value % 1_000_000_000)
        }
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Float(_) => value.to_string(),
        Value::Text(text) => text.to_string(),
        Value::Histogram(histogram) => histogram.to_string(),
    };
    text.into()
}
