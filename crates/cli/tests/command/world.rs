//! Programs, folders and runs of the command.

use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;

/// What "at once" is, on a machine that is very busy with other things.
pub const SOON: Duration = Duration::from_secs(600);

/// Twelve instructions, some of which can go.
pub const PASS: &str = "\
; program xdp
  r1 = 1
  r0 = 1
  r0 += r1
  exit
";

/// A folder for one test, with files of these names and contents.
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn with(files: &[(&str, &[u8])]) -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a temporary folder"));
        for (name, bytes) in files {
            std::fs::write(folder.path(name), bytes).expect("a file");
        }
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

pub fn kiln() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kiln"))
}

/// Standard output as one JSON document.
pub fn document(command: &mut Command) -> serde_json::Value {
    let output = command.output().expect("kiln runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error} in {}", String::from_utf8_lossy(&output.stdout));
    })
}

/// An object of the corpus, where `scripts/corpus` was run.
pub fn corpus_object(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/corpus").join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not there (scripts/corpus makes it)", path.display());
        return None;
    }
    Some(path)
}
