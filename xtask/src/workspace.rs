//! What the tidy checks look at: the tracked files and the packages, read once.
//!
//! It is a plain value, so that a test can hand a check a small wrong workspace and see that it is found.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::command::{Failure, cargo, root};

/// The tracked files and the packages.
#[derive(Default)]
pub struct Workspace {
    /// Contents by path below the root, with `/`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Packages of the workspace.
    pub packages: Vec<Package>,
}

/// A package of the workspace.
pub struct Package {
    /// Its name, `kiln-isa`.
    pub name: String,
    /// Its folder below the root, `crates/isa`.
    pub folder: String,
    /// Sources of its library and commands, below the root.
    pub roots: Vec<String>,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
}

/// A line of a package's dependencies.
pub struct Dependency {
    /// The package's name.
    pub name: String,
    /// Whether it is a package of this workspace.
    pub local: bool,
    /// Whether only tests, examples and benches use it.
    pub development: bool,
}

impl Package {
    /// The name without `kiln-`: what documents and filetest folders call it.
    pub fn room(&self) -> &str {
        room(&self.name)
    }
}

/// A package's name without `kiln-`.
pub fn room(name: &str) -> &str {
    name.strip_prefix("kiln-").unwrap_or(name)
}

impl Workspace {
    /// Reads it: `git ls-files` and `cargo metadata`.
    ///
    /// # Errors
    /// When either command fails.
    pub fn read() -> Result<Workspace, Failure> {
        Ok(Workspace { files: tracked_files()?, packages: packages()? })
    }

    /// Files that are text, with a path that `wanted` accepts.
    pub fn texts<'a>(&'a self, wanted: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| wanted(path))
            .filter_map(|(path, bytes)| Some((path.as_str(), std::str::from_utf8(bytes).ok()?)))
    }

    /// One text file, empty when it is missing.
    pub fn text(&self, path: &str) -> &str {
        self.files.get(path).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Rust sources.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts(|path| path.ends_with(".rs"))
    }
}

fn output(command: &mut Command, what: &str) -> Result<Vec<u8>, Failure> {
    let output = command.output().map_err(|error| Failure::usage(format!("{what} does not start: {error}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Failure::usage(format!("{what} failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

fn tracked_files() -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let mut command = Command::new("git");
    // A checkout that another user owns is as good to read.
    command.args(["-c", "safe.directory=*", "ls-files", "-z"]).current_dir(root());
    let list = output(&mut command, "git ls-files")?;
    let paths = list.split(|byte| *byte == 0).filter_map(|path| std::str::from_utf8(path).ok());
    // A file that is deleted but not yet committed so is not there to be read.
    Ok(paths
        .filter(|path| !path.is_empty())
        .filter_map(|path| Some((path.to_owned(), std::fs::read(root().join(path)).ok()?)))
        .collect())
}

fn packages() -> Result<Vec<Package>, Failure> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    let text = output(&mut command, "cargo metadata")?;
    let value: Value = serde_json::from_slice(&text).map_err(|error| Failure::usage(error.to_string()))?;
    let below_root = |path: &Value| -> String {
        let path = std::path::Path::new(path.as_str().unwrap_or_default());
        path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(list(&value["packages"])
        .iter()
        .map(|package| Package {
            name: text(&package["name"]),
            folder: below_root(&package["manifest_path"]).trim_end_matches("/Cargo.toml").to_owned(),
            roots: list(&package["targets"])
                .iter()
                .filter(|target| list(&target["kind"]).iter().any(|kind| kind == "lib" || kind == "bin"))
                .map(|target| below_root(&target["src_path"]))
                .collect(),
            dependencies: list(&package["dependencies"])
                .iter()
                .map(|dependency| Dependency {
                    name: text(&dependency["name"]),
                    local: dependency["source"].is_null(),
                    development: dependency["kind"] == "dev",
                })
                .collect(),
        })
        .collect())
}
