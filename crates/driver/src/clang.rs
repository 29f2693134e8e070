//! The user's clang: `KILN_CLANG`, or clang 19.

use kiln_native::Toolchain;

use kiln_inspect::folders;
use kiln_program::Error;

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
    Ok(match folders::cache() {
        Some(folder) => toolchain.keeping(folder.join("native")),
        None => toolchain,
    })
}
