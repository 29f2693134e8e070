//! Parquet files in a build without them.

use std::convert::Infallible;
use std::fs::File;
use std::marker::PhantomData;
use std::path::Path;

use kiln_plan::Row;

use crate::session::ColumnHead;
use kiln_program::Error;

/// A writer that this build does not have.
pub struct ParquetWriter<W>(Infallible, PhantomData<W>);

/// Says what is missing.
///
/// # Errors
/// Always returns [`Error::Unsupported`].
pub fn create(_: &Path, _: &[ColumnHead], _: bool) -> Result<ParquetWriter<File>, Error> {
    let message =
        "this build writes no Parquet: build kiln with `cargo build --release -p kiln-cli --features parquet`";
    Err(Error::Unsupported(message.to_owned()))
}

impl<W> ParquetWriter<W> {
    /// Adds rows.
    ///
    /// # Errors
    /// None: there is no writer.
    pub fn rows(&mut self, _: Vec<Row>) -> Result<(), Error> {
        match self.0 {}
    }

    /// Ends the file.
    ///
    /// # Errors
    /// None: there is no writer.
    pub fn finish(self) -> Result<W, Error> {
        match self.0 {}
    }
}
