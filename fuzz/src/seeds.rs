//! Good inputs to begin with: objects of the corpora, and what is inside of them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Objects larger than this are left out: a mutation of them mostly hits what nobody reads.
const MAX_OBJECT_BYTES: u64 = 40_000;
/// Objects at most.
const MAX_OBJECTS: usize = 40;

fn corpus() -> PathBuf {
    match std::env::var_os("KILN_CORPUS_DIR") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/corpus"),
    }
}

/// Object files, smallest first; none when `scripts/corpus` has not run.
pub fn objects() -> &'static [Vec<u8>] {
    static OBJECTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let groups = ["xdp-tools", "samples-6.1", "selftests-6.12"];
        let mut paths: Vec<(u64, PathBuf)> = groups
            .iter()
            .filter_map(|group| std::fs::read_dir(corpus().join(group)).ok())
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "o"))
            .filter_map(|path| Some((path.metadata().ok()?.len(), path)))
            .filter(|(bytes, _)| *bytes <= MAX_OBJECT_BYTES)
            .collect();
        paths.sort();
        // From small to large, evenly.
        let step = paths.len().div_ceil(MAX_OBJECTS).max(1);
        paths.iter().step_by(step).filter_map(|(_, path)| std::fs::read(path).ok()).collect()
    })
}

/// A smallest `.BTF` section: one `int`.
pub fn tiny_btf() -> Vec<u8> {
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    // Header length; offset and length of types; offset and length of strings.
    for field in [24_u32, 0, 16, 16, 5] {
        bytes.extend(field.to_le_bytes());
    }
    // name 1, kind int, 4 bytes, encoding signed 32 bits.
    for field in [1_u32, 1 << 24, 4, 1 << 24 | 32] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(b"\0int\0");
    bytes
}
