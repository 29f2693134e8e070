//! `tests/verdicts.toml`: where Kiln may say something else than the kernel, each with its reason.
//!
//! ```toml
//! [[disagreement]]
//! file = "verifier/pruning.bpf"
//! kiln = "reject too-complex"
//! reason = "the kernel prunes by precision marks, which Kiln does not track"
//! ```
//!
//! A disagreement that is not listed fails its filetest, and so does an entry that no longer disagrees.

use std::path::Path;

use serde::Deserialize;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdicts {
    /// Its entries.
    #[serde(default)]
    pub disagreement: Vec<Disagreement>,
}

/// One allowed disagreement.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disagreement {
    /// The filetest, as `room/name.bpf`.
    pub file: String,
    /// What Kiln says instead: `accept`, `reject REASON`, `unsupported` or `limit`.
    pub kiln: String,
    /// Why that is all right, or what is missing.
    pub reason: String,
}

impl Verdicts {
    /// Reads the file.
    ///
    /// # Errors
    /// The file is malformed, or an entry has no reason.
    pub fn read(path: &Path) -> Result<Verdicts, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let verdicts: Verdicts = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        match verdicts.disagreement.iter().find(|entry| entry.reason.trim().is_empty()) {
            Some(entry) => Err(format!("{}: {} has no reason", path.display(), entry.file)),
            None => Ok(verdicts),
        }
    }

    /// The entry of a filetest.
    pub fn of(&self, file: &str) -> Option<&Disagreement> {
        self.disagreement.iter().find(|entry| entry.file == file)
    }
}
