//! What every step needs: the version, files, and what commands print.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Failure, root};

/// The version of the workspace's packages.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

pub fn size(path: &Path) -> Result<u64, Failure> {
    Ok(std::fs::metadata(path).map_err(file_error(path))?.len())
}

pub fn file_error(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::failed(format!("{}: {error}", path.display()))
}

/// What a command prints.
pub fn output_of(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Failure::usage(format!("{name} does not start: {error}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Failure::failed(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// Whether a tool is there.
pub fn has(tool: impl AsRef<OsStr>) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    root().join(path)
}

/// A text of `packaging/` with the version and the repository's address filled in.
pub fn template(path: &str) -> Result<String, Failure> {
    let path = repository("packaging").join(path);
    let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
    Ok(text.replace("@VERSION@", version()).replace("@REPOSITORY@", env!("CARGO_PKG_REPOSITORY")))
}

/// Writes a file, and the folders that it is in.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(file_error(folder))?;
    std::fs::write(path, contents).map_err(file_error(path))
}
