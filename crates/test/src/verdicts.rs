//! `tests/verdicts.toml`: allowed differences between Kiln's and the kernel's verdicts, each with its reason.
//!
//! ```toml
//! [[disagreement]]
//! file = "verifier/pruning.bpf"
//! kiln = "reject too-complex"
//! reason = "the kernel prunes by precision marks, which Kiln does not track"
//! ```
//!
//! A disagreement that is not listed fails its filetest, and so does an entry that no longer disagrees. Programs of the
//! corpora have separate entries:
//!
//! ```toml
//! [[program]]
//! program = "test_verif_scale3.o:balancer_ingress"
//! kiln = "reject too-complex"
//! reason = "the kernel needs 837487 of the million instructions that both allow themselves"
//! ```

use std::path::Path;

use serde::Deserialize;

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdicts {
    /// Its entries.
    #[serde(default)]
    pub disagreement: Vec<Disagreement>,
    /// Its entries for programs of the corpora.
    #[serde(default)]
    pub program: Vec<ProgramDisagreement>,
}

/// One allowed disagreement.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disagreement {
    /// The filetest, as `room/name.bpf`.
    pub file: String,
    /// Kiln's verdict: `accept`, `reject REASON`, `unsupported` or `limit`.
    pub kiln: String,
    /// Why that is correct, or what is missing.
    pub reason: String,
}

/// One allowed disagreement about a program of a corpus.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramDisagreement {
    /// The file's name and the program's, as `object.o:program`.
    pub program: String,
    /// Kiln's verdict: `accept` or `reject REASON`.
    pub kiln: String,
    /// Why that is correct, or what is missing.
    pub reason: String,
    /// It depends on the kernel's configuration: an entry without a disagreement is not an error.
    #[serde(default)]
    pub depends_on_kernel: bool,
}

impl Verdicts {
    /// Reads the file.
    ///
    /// # Errors
    /// The file is malformed, or an entry has no reason.
    pub fn read(path: &Path) -> Result<Verdicts, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let verdicts: Verdicts = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let entries = verdicts.disagreement.iter().map(|entry| (&entry.file, &entry.reason));
        let mut entries = entries.chain(verdicts.program.iter().map(|entry| (&entry.program, &entry.reason)));
        match entries.find(|(_, reason)| reason.trim().is_empty()) {
            Some((name, _)) => Err(format!("{}: {name} has no reason", path.display())),
            None => Ok(verdicts),
        }
    }

    /// The entry of a program of a corpus.
    pub fn of_program(&self, program: &str) -> Option<&ProgramDisagreement> {
        self.program.iter().find(|entry| entry.program == program)
    }

    /// The entry of a filetest.
    pub fn of(&self, file: &str) -> Option<&Disagreement> {
        self.disagreement.iter().find(|entry| entry.file == file)
    }
}
