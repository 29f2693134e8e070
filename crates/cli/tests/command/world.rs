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

/// A folder with one file, and the file.
pub fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    (folder, path)
}

/// Whether clang is installed; if not, a skip is printed.
pub fn has_clang() -> bool {
    let found = std::process::Command::new("clang-19").arg("--version").output();
    found.inspect_err(|error| eprintln!("skipped: clang-19: {error}")).is_ok()
}

/// Compiles a source to an object with debug information; returns whether clang is installed.
pub fn compile(source: &Path, object: &Path, flags: &[&str]) -> bool {
    let mut clang = std::process::Command::new("clang-19");
    clang.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-c"]).args(flags);
    clang.args(["-I/usr/include/x86_64-linux-gnu", "-I/usr/include/aarch64-linux-gnu"]);
    let ran = clang.arg(source).arg("-o").arg(object).status();
    let ran = ran.inspect_err(|error| eprintln!("skipped: clang-19: {error}"));
    ran.is_ok_and(|status| status.success() || panic!("clang fails on {}", source.display()))
}

/// The places that this machine has to run programs in: the kernel too, where `bpf(2)` works.
pub fn places() -> Vec<&'static str> {
    let kernel = kiln_driver::require_kernel().map(|()| "kernel");
    kernel.as_ref().inspect_err(|error| eprintln!("skipped: {error}")).ok();
    ["jit", "interpreter"].into_iter().chain(kernel).collect()
}

/// Standard output as one JSON document.
pub fn document(command: &mut Command) -> serde_json::Value {
    let output = command.output().expect("kiln runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        panic!("{error} in {text}{errors}");
    })
}

/// As [`document`], of a command that is asked for JSON.
pub fn in_json(command: &mut Command) -> serde_json::Value {
    document(command.args(["--format", "json"]))
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
