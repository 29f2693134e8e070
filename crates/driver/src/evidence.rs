//! Evidence in a folder: what `kiln optimize --evidence` writes and `kiln verify-evidence` reads.
//!
//! ```text
//!   proofs/README.md              what each file means
//!   proofs/index.json             every rewrite: before, after, known, read afterwards, which query
//!   proofs/original.bpf           the object before, as text: maps and types that the rewrites refer to
//!   proofs/optimized.bpf          the object after
//!   proofs/queries/0001.smt2      equal queries are one file
//! ```

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use kiln_equiv::WindowRecord;
use kiln_equiv::simulation::Simulation;
use kiln_equiv::simulation::segment::SegmentRecord;
use kiln_program::Object;
use kiln_superopt::{Because, Evidence};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::output::write_whole;

/// What [`Index::format`] says.
pub const FORMAT: &str = "kiln evidence 1";
/// The index.
pub const INDEX: &str = "index.json";
/// The object before.
pub const ORIGINAL: &str = "original.bpf";
/// The object after.
pub const OPTIMIZED: &str = "optimized.bpf";
/// The folder of queries.
pub const QUERIES: &str = "queries";

const README: &str = include_str!("evidence_readme.md");

/// All rewrites of one object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Index {
    /// [`FORMAT`].
    pub format: String,
    /// The object's name.
    pub object: String,
    /// Slots of all its functions before.
    pub slots_before: u32,
    /// Slots of all its functions after.
    pub slots_after: u32,
    /// The rewrites, in the order in which they were made.
    pub rewrites: Vec<Entry>,
    /// Proofs of whole functions, each for the laws that changed one in one pass.
    pub simulations: Vec<SimulationEntry>,
}

/// The proof that a function does after a pass what it did before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimulationEntry {
    /// Its number, from 1.
    pub number: usize,
    /// Segments that are the same instructions on the same values in both, and must end so; they have no query.
    pub identical: usize,
    /// The others.
    pub segments: Vec<SegmentEntry>,
}

/// A way through the old function and the one of the new function that goes with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// The file of its query, in `queries`.
    pub query: String,
    /// The question as data.
    pub segment: SegmentRecord,
}

/// One rewrite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, from 1.
    pub number: usize,
    /// The function's number in the object.
    pub function: u32,
    /// The function's name.
    pub function_name: String,
    /// The id of the first instruction that it concerned.
    pub at: u32,
    /// The rule, search or law that proposed it.
    pub name: String,
    /// Whether it is a window or a law.
    pub kind: Kind,
    /// How Kiln proved it: `rule`, `normal-form`, `smt`, `simulation`, or `law` where nothing was proved.
    pub proved_by: String,
    /// Slots saved; negative when it costs some.
    pub slots_saved: i64,
    /// The listing that was replaced.
    pub before: Vec<String>,
    /// The listing that replaced it.
    pub after: Vec<String>,
    /// What the proof assumes before the first instruction, in words; of a law, what it says.
    pub precondition: Vec<String>,
    /// What may be read afterwards and so is proved equal, in words.
    pub postcondition: Vec<String>,
    /// The file of its query, in `queries`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The question as data, from which the query can be made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowRecord>,
    /// The number of the simulation that proves the function it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<usize>,
}

/// What a rewrite is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A run of instructions in place of another.
    Window,
    /// A law of control flow or liveness.
    Law,
}

/// Slots of all functions.
pub(crate) fn slots(object: &Object) -> u32 {
    object.functions.iter().map(kiln_program::Function::slots).sum()
}

/// Queries by file: equal ones are one.
#[derive(Default)]
struct Queries {
    files: HashMap<String, String>,
    written: BTreeMap<String, String>,
}

impl Queries {
    fn file(&mut self, query: String) -> String {
        let fresh = format!("{:04}.smt2", self.files.len() + 1);
        let file = self.files.entry(query.clone()).or_insert(fresh).clone();
        self.written.insert(file.clone(), query);
        file
    }
}

/// Writes the evidence for turning one object into another into a folder, which is made where it is missing. Queries
/// that an earlier run left there go.
///
/// # Errors
/// [`Error::InvalidInput`] when the folder or a file cannot be written, or the folder is one of something else.
pub fn write(folder: &Path, original: &Object, optimized: &Object, evidence: &[Evidence]) -> Result<(), Error> {
    let queries_folder = folder.join(QUERIES);
    check_folder(folder)?;
    std::fs::create_dir_all(&queries_folder).map_err(|error| Error::file(&queries_folder, &error))?;
    let mut queries = Queries::default();
    let mut rewrites = Vec::with_capacity(evidence.len());
    let none = |what: String, error: &dyn std::fmt::Display| {
        Error::InvalidInput(format!("{what} of {}: no query: {error}", original.name))
    };
    let mut proofs: Vec<Arc<Simulation>> = Vec::new();
    for (index, one) in evidence.iter().enumerate() {
        let mut entry = entry(original, index + 1, one);
        if let Some(proof) = &one.simulation {
            if !proofs.iter().any(|known| Arc::ptr_eq(known, proof)) {
                proofs.push(proof.clone());
            }
            entry.simulation = proofs.iter().position(|known| Arc::ptr_eq(known, proof)).map(|at| at + 1);
            if one.because.is_law() {
                entry.proved_by = "simulation".to_owned();
            }
        }
        if let Some(window) = &entry.window {
            let query = window.query(original).map_err(|error| none(format!("rewrite {}", index + 1), &error))?;
            entry.query = Some(queries.file(query));
        }
        rewrites.push(entry);
    }
    let mut simulations = Vec::new();
    for (index, proof) in proofs.iter().enumerate() {
        let mut segments = Vec::with_capacity(proof.segments.len());
        for segment in &proof.segments {
            let query = segment.query(original).map_err(|error| none(format!("simulation {}", index + 1), &error))?;
            segments.push(SegmentEntry { query: queries.file(query), segment: segment.clone() });
        }
        simulations.push(SimulationEntry { number: index + 1, identical: proof.identical, segments });
    }
    let written = queries.written;
    for (file, query) in &written {
        write_whole(&queries_folder.join(file), query.as_bytes())?;
    }
    remove_stale(&queries_folder, &written)?;
    let index = Index {
        format: FORMAT.to_owned(),
        object: original.name.clone(),
        slots_before: slots(original),
        slots_after: slots(optimized),
        rewrites,
        simulations,
    };
    let text = serde_json::to_vec_pretty(&index).map_err(|error| Error::InvalidInput(error.to_string()))?;
    write_whole(&folder.join(ORIGINAL), kiln_program::text::print(original).as_bytes())?;
    write_whole(&folder.join(OPTIMIZED), kiln_program::text::print(optimized).as_bytes())?;
    write_whole(&folder.join("README.md"), README.as_bytes())?;
    write_whole(&folder.join(INDEX), &text)
}

/// Whether evidence may be written into a folder: it is missing, empty, or holds evidence already.
///
/// # Errors
/// [`Error::InvalidInput`] when it may not.
pub fn check_folder(folder: &Path) -> Result<(), Error> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_none() || folder.join(INDEX).is_file() {
                return Ok(());
            }
            Err(Error::InvalidInput(format!(
                "{} holds other files than evidence; name a new folder for it",
                folder.display()
            )))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::file(folder, &error)),
    }
}

/// Removes queries of an earlier run.
fn remove_stale(folder: &Path, written: &BTreeMap<String, String>) -> Result<(), Error> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::file(folder, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Error::file(folder, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".smt2") && !written.contains_key(&name) {
            std::fs::remove_file(entry.path()).map_err(|error| Error::file(&entry.path(), &error))?;
        }
    }
    Ok(())
}

fn entry(object: &Object, number: usize, evidence: &Evidence) -> Entry {
    let mut entry = Entry {
        number,
        function: evidence.function.0,
        function_name: evidence.function_name.clone(),
        at: evidence.at.0,
        name: evidence.because.name().to_owned(),
        kind: Kind::Law,
        proved_by: "law".to_owned(),
        slots_saved: evidence.slots_saved,
        before: evidence.before.clone(),
        after: evidence.after.clone(),
        precondition: Vec::new(),
        postcondition: Vec::new(),
        query: None,
        window: None,
        simulation: None,
    };
    match &evidence.because {
        Because::Law(law) => entry.precondition = vec![law.statement().trim().to_owned()],
        Because::Window { proved_by, record, .. } => {
            entry.kind = Kind::Window;
            entry.proved_by = (*proved_by).to_owned();
            if let Some(record) = record {
                entry.precondition = record.precondition(object);
                entry.postcondition = record.postcondition();
                entry.window = Some((**record).clone());
            }
        }
    }
    entry
}
