//! Parquet files in a build without them.

use std::path::Path;

use kiln_program::Error;

use super::RowsFile;
use crate::session::ColumnHead;

/// Says what is missing.
///
/// # Errors
/// Always returns [`Error::Unsupported`].
pub fn create(_: &Path, _: &[ColumnHead], _: bool) -> Result<Box<dyn RowsFile>, Error> {
    let message =
        "this build writes no Parquet: build kiln with `cargo build --release -p kiln-cli --features parquet`";
    Err(Error::Unsupported(message.to_owned()))
}
