//! Files of rows: what is not printed as it comes.

pub mod folded;
#[cfg(not(feature = "parquet"))]
mod no_parquet;
#[cfg(feature = "parquet")]
mod parquet;
pub mod pprof;

use kiln_plan::Row;
use kiln_program::Error;

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
