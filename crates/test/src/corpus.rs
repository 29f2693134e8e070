//! The corpora that `scripts/corpus` builds: real objects, and what loading them takes.
//!
//! `target/corpus/manifest.json` lists each object with its group and with facts that are not in the object: program
//! types that its section names do not tell, programs whose kernel hooks no longer exist. Nothing of this is committed;
//! a machine without the corpora prints a skip.

use std::path::{Path, PathBuf};

use kiln_driver::{Input, ProgramType, input};
use serde::{Deserialize, Serialize};

/// An object of a corpus.
#[derive(Clone, Debug, Deserialize)]
pub struct CorpusObject {
    /// `xdp-tools`, `samples-6.1`, `selftests-6.12`, ...
    pub group: String,
    /// Relative to the corpus folder.
    pub path: PathBuf,
    /// The source that it was compiled from.
    #[serde(default)]
    pub source: String,
    /// The compiler, level and cpu, where `scripts/variants` made it.
    #[serde(default)]
    pub variant: String,
    /// What loading it takes.
    #[serde(default)]
    load: Vec<Load>,
}

/// A row of what loading an object takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Load {
    /// Program types by section name, `*` at the end standing for anything.
    program_types: std::collections::BTreeMap<String, String>,
    /// Programs that this kernel cannot have.
    leave_out: Vec<String>,
    /// Why nobody can load it.
    refused: Option<String>,
}

/// A program of K2's Table 1, and its object in today's corpora.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PublishedProgram {
    /// The paper's name of it.
    pub name: String,
    /// The paper's slots before and after its search.
    pub slots: [u32; 2],
    /// The object's path in the corpora, where one has it.
    #[serde(default)]
    object: Option<String>,
    /// The program's name there.
    #[serde(default)]
    function: Option<String>,
}

impl PublishedProgram {
    /// Whether this is it.
    pub fn is(&self, object: &str, program: &str) -> bool {
        self.object.as_deref() == Some(object) && self.function.as_deref() == Some(program)
    }
}

#[derive(Default, Deserialize)]
struct Manifest {
    objects: Vec<CorpusObject>,
    #[serde(default)]
    k2: Vec<PublishedProgram>,
    #[serde(default)]
    compiler: Option<String>,
}

/// Where the corpora are.
pub fn folder() -> PathBuf {
    std::env::var_os("KILN_CORPUS_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/corpus"), PathBuf::from)
}

/// The available objects. If the corpora were not built, prints a note to standard error and returns none; where `CI` is
/// set it panics instead.
pub fn objects() -> Vec<CorpusObject> {
    manifest().objects
}

/// The programs of K2's Table 1; empty where the corpora were not built.
pub fn published() -> Vec<PublishedProgram> {
    manifest().k2
}

/// The compiler, where it is not the usual one (`scripts/gcc-objects`).
pub fn compiler() -> Option<String> {
    manifest().compiler
}

fn manifest() -> Manifest {
    let path = folder().join("manifest.json");
    let manifest = std::fs::read(&path)
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice::<Manifest>(&bytes).map_err(|error| error.to_string()));
    manifest.unwrap_or_else(|error| {
        // In CI, a test of no program would pass unnoticed.
        assert!(std::env::var_os("CI").is_none(), "no corpora ({}: {error}); run scripts/corpus core", path.display());
        eprintln!("skipped: no corpora ({}: {error}); run scripts/corpus core", path.display());
        Manifest::default()
    })
}

impl CorpusObject {
    /// Why nobody can load it, if so.
    pub fn refused(&self) -> Option<&str> {
        self.load.iter().find_map(|row| row.refused.as_deref())
    }

    /// Whether it is of a group: `k2` is all objects that programs of K2's Table 1 are in, `cpuv4` and `selftests` stand
    /// for the groups with longer names.
    pub fn is_of(&self, group: &str) -> bool {
        match group {
            "k2" => {
                let path = self.path.to_string_lossy();
                published().iter().any(|row| row.object.as_deref() == Some(&path))
            }
            "selftests" => self.group.starts_with("selftests") && !self.group.ends_with("cpuv4"),
            "cpuv4" => self.group.ends_with("cpuv4"),
            _ => self.group == group,
        }
    }

    /// The file's name, without its folder.
    pub fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether a program is left out because its hook is not in current kernels.
    pub fn leaves_out(&self, program: &str) -> bool {
        self.load.iter().any(|row| row.leave_out.iter().any(|name| name == program))
    }

    /// Reads it, with the program types that its sections do not tell.
    ///
    /// # Errors
    /// What reading it answers, with the path.
    pub fn read(&self) -> Result<Input, kiln_driver::Error> {
        let mut input = input::open(&folder().join(&self.path), &[])?;
        input.use_kernel_types();
        let rows = self.load.iter().flat_map(|row| &row.program_types);
        for (pattern, program_type) in rows {
            let program_type = ProgramType::from_name(program_type);
            for program in &mut input.object.programs {
                let matches = match pattern.strip_suffix('*') {
                    Some(prefix) => program.section.starts_with(prefix),
                    None => program.section == *pattern,
                };
                if matches && program.program_type.is_none() {
                    program.program_type = program_type;
                }
            }
        }
        Ok(input)
    }
}
