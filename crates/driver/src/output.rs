//! Output files: whole or not at all.
//!
//! ```text
//!   out.o, regular or new:   .out.oXXXXXX beside it --> same mode as out.o --> renamed to out.o
//!   /dev/null, a pipe:       written through: there is nothing that a reader could find half-written
//!   -                        standard output
//! ```
//!
//! The output may be the input itself: it is read before, and replaced in one step.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use kiln_program::Error;

/// Where the bytes of an output path go.
enum Target {
    /// Into a new file in the same folder, which is then renamed to this one.
    Replace(PathBuf),
    /// Into what is there.
    Through(PathBuf),
    /// To standard output.
    Standard,
}

/// Whether a path stands for standard output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

impl Target {
    fn of(path: &Path) -> Result<Target, Error> {
        if is_standard(path) {
            return Ok(Target::Standard);
        }
        // Links are followed, so that a link to the output stays one.
        match std::fs::canonicalize(path) {
            Ok(path) if path.is_dir() => {
                Err(Error::InvalidInput(format!("{} is a folder; name a file in it", path.display())))
            }
            Ok(path) if path.is_file() => Ok(Target::Replace(path)),
            Ok(path) => Ok(Target::Through(path)),
            Err(_) => Ok(Target::Replace(path.to_owned())),
        }
    }
}

/// Whether an output could be written, before the work that it is for begins. Changes nothing.
///
/// # Errors
/// [`Error::InvalidInput`] for a folder, a missing folder, or one that may not be written.
pub fn check_writable(path: &Path) -> Result<(), Error> {
    match Target::of(path)? {
        Target::Replace(path) => temporary(&path).map(drop),
        Target::Through(_) | Target::Standard => Ok(()),
    }
}

/// Refuses two outputs that are one regular file: the second would replace the first.
///
/// # Errors
/// Returns [`Error::InvalidInput`] with both paths.
pub fn check_distinct(one: &Path, other: &Path) -> Result<(), Error> {
    let place = |path: &Path| match Target::of(path) {
        Ok(Target::Replace(path)) => Some(std::fs::canonicalize(folder(&path)).ok()?.join(path.file_name()?)),
        Ok(Target::Standard) => Some(PathBuf::from("-")),
        Ok(Target::Through(_)) | Err(_) => None,
    };
    match (place(one), place(other)) {
        (Some(one_place), Some(other_place)) if one_place == other_place => {
            Err(Error::InvalidInput(format!("{} and {} are one file", one.display(), other.display())))
        }
        _ => Ok(()),
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary(path: &Path) -> Result<tempfile::NamedTempFile, Error> {
    let folder = folder(path);
    if !folder.is_dir() {
        return Err(Error::InvalidInput(format!("{}: there is no such folder", folder.display())));
    }
    let prefix = format!(".{}", path.file_name().unwrap_or_default().to_string_lossy());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // A new file gets what the process's mask leaves of this, as from any compiler.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(|error| match Error::file(folder, &error) {
        Error::InvalidInput(_) => {
            let why = error.get_ref().map_or_else(|| error.to_string(), |_| error.kind().to_string());
            Error::InvalidInput(format!("cannot write into {}: {why}", folder.display()))
        }
        failed => failed,
    })
}

/// Writes a file whole or not at all.
///
/// # Errors
/// [`Error::InvalidInput`] when the folder or file may not be written, [`Error::Os`] when writing fails.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let target = match Target::of(path)? {
        Target::Through(path) => {
            return std::fs::write(&path, bytes).map_err(|error| Error::file(&path, &error));
        }
        Target::Standard => {
            let written = std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush());
            return written.map_err(|error| Error::io("standard output", &error));
        }
        Target::Replace(path) => path,
    };
    let mut file = temporary(&target)?;
    file.write_all(bytes).map_err(|error| Error::file(path, &error))?;
    if let Ok(existing) = std::fs::metadata(&target) {
        file.as_file().set_permissions(existing.permissions()).map_err(|error| Error::file(path, &error))?;
    }
    file.persist(&target).map_err(|error| Error::file(path, &error.error))?;
    Ok(())
}
