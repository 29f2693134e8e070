//! Files of rows: what is not printed as it comes.

mod arrow;
pub mod folded;
#[cfg(not(feature = "parquet"))]
mod no_parquet;
#[cfg(feature = "parquet")]
mod parquet;
pub mod pprof;

use std::borrow::Cow;

use kiln_plan::{Row, Value};
use kiln_program::Error;

use crate::session::ColumnHead;

pub use arrow::create as arrow;
#[cfg(not(feature = "parquet"))]
pub use no_parquet::create as parquet;
#[cfg(feature = "parquet")]
pub use parquet::create as parquet;

/// A file of rows that is being written.
pub trait RowsFile {
    /// Adds rows.
    ///
    /// # Errors
    /// Returns what writing returns.
    fn rows(&mut self, rows: Vec<Row>) -> Result<(), Error>;

    /// Ends the file of a query that ran for so many nanoseconds.
    ///
    /// # Errors
    /// Returns what writing returns.
    fn finish(self: Box<Self>, elapsed_ns: u64) -> Result<(), Error>;
}

/// The names and types of what a file has of each row; rows of windows begin with the window's bounds.
fn heads(columns: &[ColumnHead], windowed: bool) -> impl Iterator<Item = (&str, &str)> {
    let bounds = ["window_start", "window_end"].into_iter().filter(move |_| windowed).map(|name| (name, "timestamp"));
    bounds.chain(columns.iter().map(|column| (column.name.exact(), column.data_type)))
}

/// A value as text: a histogram as JSON, `[[least, greatest, count], ...]`.
fn text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null => None,
        Value::Text(text) => Some(text.as_ref().into()),
        Value::Histogram(histogram) => {
            let buckets = histogram.buckets().map(|(least, greatest, count)| format!("[{least}, {greatest}, {count}]"));
            Some(format!("[{}]", buckets.collect::<Vec<_>>().join(", ")).into())
        }
        other => Some(crate::session::json(other).to_string().into()),
    }
}
