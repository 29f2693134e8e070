//! Evidence in a folder: what `kiln optimize --evidence` writes and `kiln verify-evidence` reads.
//!
//! ```text
//!   proofs/README.md              what each file means
//!   proofs/original.bpf.gz        the object before, as text
//!   proofs/optimized.bpf.gz       the object after
//!   proofs/certificate.gz         the chain from one to the other (`kiln_certificate::format`)
//! ```

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use kiln_certificate::check::MAX_LISTING;
use kiln_certificate::find;
use kiln_certificate::format::{Certificate, MAX_BYTES, Proof, Stage};
use kiln_certificate::provenance::Arguments;
use kiln_certificate::solver::{Answer, Solver};
use kiln_program::{FunctionId, Object, text};

use crate::error::Error;
use crate::file;
use crate::output::write_whole;

/// The chain.
pub const CERTIFICATE: &str = "certificate.gz";
/// The object before.
pub const ORIGINAL: &str = "original.bpf.gz";
/// The object after.
pub const OPTIMIZED: &str = "optimized.bpf.gz";
/// Compressed bytes of a file that are read.
const MAX_COMPRESSED: u64 = 64 << 20;
/// Milliseconds of Kiln's own solver for a question on the way to a certificate.
const SOLVER_MS: u32 = 200;

const README: &str = include_str!("evidence_readme.md");

<<<<<<< HEAD
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

=======
>>>>>>> 751c485 (Replace the diary of evidence by a certificate that is replayed)
/// Slots of all functions.
pub(crate) fn slots(object: &Object) -> u32 {
    object.functions.iter().map(kiln_program::Function::slots).sum()
}

/// Kiln's own solver, which looks for certificates; another one checks them.
struct Own;

impl Solver for Own {
    fn ask(&mut self, query: &str) -> Answer {
        match kiln_equiv::solver::is_unsatisfiable(query, "QF_UFBV", SOLVER_MS) {
            Some(true) => Answer::Unsat,
            Some(false) => Answer::Sat,
            None => Answer::Unknown("the solver gave up".to_owned()),
        }
    }
}

/// Finds the certificate for turning one object into another: one stage, in which every function that changed is proved
/// as a whole. Functions that could not be proved come with the reason, and are not part of it.
pub fn certify(
    original: &Object,
    optimized: &Object,
    go_on: &mut dyn FnMut() -> bool,
) -> (BTreeMap<u32, Proof>, BTreeMap<u32, String>) {
    let arguments = Arguments::of(original);
    let (mut proofs, mut refused) = (BTreeMap::new(), BTreeMap::new());
    for (index, (old, new)) in original.functions.iter().zip(&optimized.functions).enumerate() {
        if old.nodes == new.nodes {
            continue;
        }
        let number = index as u32;
        let going = std::cell::Cell::new(go_on());
        let found = match going.get() {
            false => Err("there was no time for a proof".to_owned()),
            true => find::certify([original, optimized], FunctionId(number), [old, new], &arguments, &mut Own, &|| {
                !going.get()
            }),
        };
        match found {
            Ok((pairs, left_out, _)) => drop(proofs.insert(number, Proof { pairs, left_out })),
            Err(why) => drop(refused.insert(number, why)),
        }
    }
    (proofs, refused)
}

/// Writes the evidence for turning one object into another into a folder, which is made where it is missing.
///
/// # Errors
/// [`Error::InvalidInput`] when the folder or a file cannot be written, or the folder is one of something else.
pub fn write(folder: &Path, original: &Object, optimized: &Object, proofs: &BTreeMap<u32, Proof>) -> Result<(), Error> {
    check_folder(folder)?;
<<<<<<< HEAD
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
=======
    std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, &error))?;
    let (before, after) = (text::print(original), text::print(optimized));
    let mut certificate = Certificate::default();
    if before != after {
        let edits = find::difference(&before, &after);
        certificate.stages.push(Stage { edits, proofs: proofs.clone() });
>>>>>>> 751c485 (Replace the diary of evidence by a certificate that is replayed)
    }
    write_compressed(&folder.join(ORIGINAL), &before)?;
    write_compressed(&folder.join(OPTIMIZED), &after)?;
    write_whole(&folder.join("README.md"), README.as_bytes())?;
    write_compressed(&folder.join(CERTIFICATE), &certificate.print())
}

fn write_compressed(path: &Path, text: &str) -> Result<(), Error> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let bytes = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    write_whole(path, &bytes.map_err(|error| Error::file(path, &error))?)
}

/// The three files of a folder as text: the original listing, the certificate, the optimized listing.
///
/// # Errors
/// [`Error::InvalidInput`] when the folder holds no evidence, or a file that is not whole.
pub fn read(folder: &Path) -> Result<[String; 3], Error> {
    if !folder.is_dir() {
        return Err(Error::InvalidInput(format!("{} is no folder", folder.display())));
    }
    if !folder.join(CERTIFICATE).exists() {
        let what = format!("{} holds no {CERTIFICATE}: kiln optimize --evidence writes one", folder.display());
        return Err(Error::InvalidInput(what));
    }
    let read = |name: &str, limit: usize| read_compressed(&folder.join(name), limit);
    Ok([read(ORIGINAL, MAX_LISTING)?, read(CERTIFICATE, MAX_BYTES)?, read(OPTIMIZED, MAX_LISTING)?])
}

/// A file's text. Nothing but a file is opened: a pipe that evidence brings would be waited for.
fn read_compressed(path: &Path, limit: usize) -> Result<String, Error> {
    let wrong = |what: String| Error::InvalidInput(format!("{}: {what}", path.display()));
    if !path.is_file() {
        return Err(wrong("there is no such file".to_owned()));
    }
    let bytes = file::read(path, MAX_COMPRESSED)?;
    let mut text = String::new();
    let mut decoder = GzDecoder::new(&bytes[..]).take(limit as u64 + 1);
    decoder.read_to_string(&mut text).map_err(|error| wrong(format!("it is damaged: {error}")))?;
    if text.len() > limit {
        return Err(wrong(format!("it holds more than {limit} bytes")));
    }
    Ok(text)
}

/// Whether evidence may be written into a folder: it is missing, empty, or holds evidence already.
///
/// # Errors
/// [`Error::InvalidInput`] when it may not.
pub fn check_folder(folder: &Path) -> Result<(), Error> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_none() || folder.join(CERTIFICATE).is_file() {
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
