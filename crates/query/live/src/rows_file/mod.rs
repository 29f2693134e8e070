//! Files of rows: what is not printed as it comes.

mod arrow;
pub mod folded;
#[cfg(not(feature = "parquet"))]
mod no_parquet;
#[cfg(feature = "parquet")]
mod parquet;
pub mod pprof;

use std::borrow::Cow;
use std::path::Path;

use kiln_plan::{Row, Value};
use kiln_program::Error;

use crate::session::ColumnHead;

#[cfg(not(feature = "parquet"))]
use no_parquet as parquet;

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

/// Begins an Arrow IPC stream: in a file, which is replaced if it is there, or on standard output without a path or with `-`.
///
/// # Errors
/// Returns what creating or writing it returns.
pub fn arrow(path: Option<&Path>, columns: &[ColumnHead], windowed: bool) -> Result<Box<dyn RowsFile>, Error> {
    Ok(Checked::around(arrow::create(path, columns, windowed)?, columns))
}

/// Begins a Parquet file at a path; one that is there is replaced.
///
/// # Errors
/// Returns what creating it returns.
pub fn parquet(path: &Path, columns: &[ColumnHead], windowed: bool) -> Result<Box<dyn RowsFile>, Error> {
    Ok(Checked::around(parquet::create(path, columns, windowed)?, columns))
}

/// A file with columns of 64 bits. A column can be computed of signed and of unsigned numbers, and no such column holds
/// both, so each number is looked at before it is written.
struct Checked {
    file: Box<dyn RowsFile>,
    /// Where the columns of integers are, their names, and whether they are signed.
    integers: Vec<(usize, String, bool)>,
}

impl Checked {
    fn around(file: Box<dyn RowsFile>, columns: &[ColumnHead]) -> Box<dyn RowsFile> {
        let integers = columns.iter().enumerate().filter_map(|(at, column)| match column.data_type {
            "i64" => Some((at, column.name.to_string(), true)),
            "u64" | "timestamp" => Some((at, column.name.to_string(), false)),
            _ => None,
        });
        Box::new(Checked { file, integers: integers.collect() })
    }

    fn check(&self, row: &Row) -> Result<(), Error> {
        for (at, name, signed) in &self.integers {
            let Some(number) = row.values.get(*at).and_then(Value::as_integer) else { continue };
            let fits = if *signed { i64::try_from(number).is_ok() } else { u64::try_from(number).is_ok() };
            if !fits {
                let kind = if *signed { "signed" } else { "unsigned" };
                let help = format!("give its text: CAST({name} AS TEXT)");
                return Err(Error::InvalidInput(format!(
                    "{number} is no {kind} 64-bit number, as column {name} has; {help}"
                )));
            }
        }
        Ok(())
    }
}

impl RowsFile for Checked {
    fn rows(&mut self, rows: Vec<Row>) -> Result<(), Error> {
        rows.iter().try_for_each(|row| self.check(row))?;
        self.file.rows(rows)
    }

    fn finish(self: Box<Self>, elapsed_ns: u64) -> Result<(), Error> {
        self.file.finish(elapsed_ns)
    }
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
