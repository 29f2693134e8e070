//! The user's clang: `KILN_CLANG`, or clang 19.

use std::path::PathBuf;

use kiln_native::Toolchain;

use crate::error::Error;

/// The compiler's name or path.
pub fn name() -> String {
    std::env::var("KILN_CLANG").unwrap_or_else(|_| Toolchain::CLANG.to_owned())
}

/// The compiler of native code, with results kept in the user's cache.
///
/// # Errors
/// [`Error::Os`] if it cannot be run.
pub fn toolchain() -> Result<Toolchain, Error> {
    let toolchain = Toolchain::new(&name())?;
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(match cache.filter(|folder| folder.is_absolute()) {
        Some(folder) => toolchain.keeping(folder.join("kiln/native")),
        None => toolchain,
    })
}
