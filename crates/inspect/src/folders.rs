//! Where a user's own files are: what is kept between runs, and settings.

use std::path::PathBuf;

/// The path that an environment variable gives, unless it is unset or empty.
pub fn named_by(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Kiln's folder for results that can be made again; none where no absolute path is known, which would depend on where
/// Kiln is started.
pub fn cache() -> Option<PathBuf> {
    own("XDG_CACHE_HOME", ".cache").filter(|folder| folder.is_absolute())
}

/// Kiln's folder for settings.
pub fn settings() -> Option<PathBuf> {
    own("XDG_CONFIG_HOME", ".config")
}

/// Source: the XDG Base Directory Specification.
fn own(variable: &str, of_home: &str) -> Option<PathBuf> {
    let folder = named_by(variable).or_else(|| Some(named_by("HOME")?.join(of_home)))?;
    Some(folder.join("kiln"))
}
