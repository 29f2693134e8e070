//! What the operators of queries cost on this machine, as `kiln doctor --calibrate` measured it.

use std::path::PathBuf;

use kiln_inspect::{file, folders};
use kiln_program::Error;
use kiln_superopt::CostModel;

/// Where the user's cost model is: `KILN_COST_MODEL`, or `kiln/machine.cost` in the folder for settings.
pub fn path() -> Option<PathBuf> {
    folders::named_by("KILN_COST_MODEL").or_else(|| Some(folders::settings()?.join("machine.cost")))
}

/// The user's cost model; that of this kind of machine where there is none.
///
/// # Errors
/// [`Error::InvalidInput`] where the file is none.
pub fn model() -> Result<CostModel, Error> {
    let Some(path) = path() else { return Ok(CostModel::default()) };
    match file::read(&path, CostModel::MAX_BYTES as u64) {
        Ok(bytes) => CostModel::parse(&String::from_utf8_lossy(&bytes))
            .map_err(|error| Error::InvalidInput(format!("{}: {error}", path.display()))),
        Err(_) if !path.exists() => Ok(CostModel::default()),
        Err(error) => Err(error),
    }
}
