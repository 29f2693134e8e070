//! The user's clang: `KILN_CLANG`, or clang 19; with the flags and headers that every compilation for BPF gets.

use std::path::Path;

use kiln_native::Toolchain;

use kiln_inspect::folders;
use kiln_program::Error;

/// The headers for extension authors, which come along with every compilation.
const HEADERS: [(&str, &str); 23] = [
    ("kiln/heap.h", include_str!("../include/kiln/heap.h")),
    ("kiln/malloc.h", include_str!("../include/kiln/malloc.h")),
    ("kiln/hash.h", include_str!("../include/kiln/hash.h")),
    ("kiln/list.h", include_str!("../include/kiln/list.h")),
    ("kiln/rbtree.h", include_str!("../include/kiln/rbtree.h")),
    ("kiln/skiplist.h", include_str!("../include/kiln/skiplist.h")),
    ("kiln/sketch.h", include_str!("../include/kiln/sketch.h")),
    ("kiln/bloom.h", include_str!("../include/kiln/bloom.h")),
    ("kiln/bptree.h", include_str!("../include/kiln/bptree.h")),
    ("kiln/clock.h", include_str!("../include/kiln/clock.h")),
    ("kiln/cuckoo.h", include_str!("../include/kiln/cuckoo.h")),
    ("kiln/ring.h", include_str!("../include/kiln/ring.h")),
    ("kiln/shared.h", include_str!("../include/kiln/shared.h")),
    ("kiln/user.h", include_str!("../include/kiln/user.h")),
    ("kiln/wheel.h", include_str!("../include/kiln/wheel.h")),
    ("kiln/packet.h", include_str!("../include/kiln/packet.h")),
    ("kiln/pool.h", include_str!("../include/kiln/pool.h")),
    ("kiln/ops.h", include_str!("../include/kiln/ops.h")),
    ("kiln/pool/arena.h", include_str!("../include/kiln/pool/arena.h")),
    ("kiln/pool/copy.h", include_str!("../include/kiln/pool/copy.h")),
    ("kiln/pool/maps.h", include_str!("../include/kiln/pool/maps.h")),
    ("kiln/pool/hash.h", include_str!("../include/kiln/pool/hash.h")),
    ("kiln/pool/array.h", include_str!("../include/kiln/pool/array.h")),
];

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

/// The headers for extension authors, in a folder that goes with the answer.
///
/// # Errors
/// [`Error::Os`] if it cannot be written.
pub(crate) fn unpack_headers() -> Result<tempfile::TempDir, Error> {
    let os = |error: std::io::Error| Error::machine("a temporary folder", &error, "; name another with TMPDIR");
    let folder = tempfile::Builder::new().prefix("kiln-include").tempdir().map_err(os)?;
    for (name, text) in HEADERS {
        let path = folder.path().join(name);
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(os)?;
        std::fs::write(path, text).map_err(os)?;
    }
    Ok(folder)
}

/// The flags before the user's own, which override them.
pub(crate) fn flags(headers: &Path) -> Vec<String> {
    let mut flags: Vec<String> =
        ["-target", "bpf", "-mcpu=v4", "-O2", "-g", "-mllvm", "-disable-loop-idiom-all"].map(str::to_owned).to_vec();
    flags.push(format!("-I{}", headers.display()));
    // Where Debian has <asm/types.h>, which clang does not look for when it compiles for BPF.
    let own = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    if Path::new(&own).is_dir() {
        flags.extend(["-idirafter".to_owned(), own]);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_comes_along() {
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        let names = |folder: &str| -> Vec<String> {
            let entries = std::fs::read_dir(include.join(folder)).expect("the headers");
            let names = entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned());
            names.filter(|name| name.ends_with(".h")).map(|name| format!("{folder}/{name}")).collect()
        };
        let mut all = [names("kiln"), names("kiln/pool")].concat();
        all.sort();
        let mut known = HEADERS.map(|(name, _)| name);
        known.sort_unstable();
        assert_eq!(all, known);
    }
}
