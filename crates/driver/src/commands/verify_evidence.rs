//! `kiln verify-evidence`: the certificate of an optimization, replayed with a solver that Kiln does not use.
//!
//! ```text
//!   original.bpf  =  the object before, if it is given
//!        |  certificate: listing by listing, each function's meeting pairs
//!        |  -> all paths from each pair to the next, as queries (`kiln-certificate`) -> a solver process
//!   optimized.bpf  =  the object after, if it is given
//! ```
//!
//! The folder is untrusted input. Only the listings and what they mean are used from it; the queries are built here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_certificate::check::{ASSUMPTIONS, Chain, NOT_COMPARED, same_code};
use kiln_certificate::format::Certificate;
use kiln_certificate::prove::Count;
use kiln_certificate::solver::{Process, Program};
use serde::Serialize;

use crate::evidence;
use kiln_inspect::input;
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// How to check: by default one function at a time, with the first known solver that is installed, a minute a query.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Options {
    /// A solver that Kiln knows by name, or the path of any that reads SMT-LIB 2 from its input; `None`: the
    /// first of the
    /// known ones that is installed.
    pub solver: Option<String>,
    /// Time for one query.
    pub timeout: Duration,
    /// Functions at a time.
    pub jobs: usize,
    /// The object that the evidence begins with.
    pub original: Option<PathBuf>,
    /// The object that it ends with.
    pub object: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options { solver: None, timeout: Duration::from_secs(60), jobs: 1, original: None, object: None }
    }
}

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The listings, the certificate and the objects do not belong together.
    Broken,
    /// The two versions of a function are not shown to do the same.
    Refuted,
    /// The solver did not decide.
    Undecided,
}

/// A function that is not proved, or another fault of the folder.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// The function; none for a fault of the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<Shown>,
    /// What is wrong.
    pub fault: Fault,
    /// More about it.
    pub detail: Shown,
}

/// Which objects a replay says something about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Both objects: they were given, and are the ends of the chain.
    Objects,
    /// The object before alone.
    OriginalOnly,
    /// The object after alone.
    OptimizedOnly,
    /// No object: two listings in a folder do the same. Who wrote the folder may have changed both in the same way.
    ListingsOnly,
}

impl Scope {
    /// What the replay was about, as a line of text.
    pub fn says(self) -> &'static str {
        match self {
            Scope::Objects => "compared with both objects: what is proved is proved of these files",
            Scope::OriginalOnly => {
                "compared with the original only: nothing is proved of any optimized file (give --object)"
            }
            Scope::OptimizedOnly => {
                "compared with the optimized object only: nothing is proved of any original file (give --original)"
            }
            Scope::ListingsOnly => {
                "compared with no object: the folder's two listings were compared with each other, and nothing is \
                 proved of any file (give --original and --object)"
            }
        }
    }
}

/// What is taken for granted.
#[derive(Clone, Debug, Serialize)]
pub struct Assumption {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
}

/// The account of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Recheck {
    /// The solver, as it names itself.
    pub solver: String,
    /// Functions that changed, each counted once for every stage that changes it.
    pub functions: usize,
    /// How many of them are proved.
    pub proved: usize,
    /// Meeting pairs that the certificate names.
    pub pairs: usize,
    /// Ends of paths at which both versions do the same with the same terms.
    pub identical: usize,
    /// Queries that the solver answered with `unsat`.
    pub queries: usize,
    /// Time that it took.
    pub milliseconds: u64,
    /// Which objects were given, and are the ends of the chain.
    pub scope: Scope,
    /// Objects that the ends of the chain were compared with.
    pub compared: Vec<Shown>,
    /// What the certificate says that it belongs to: the SHA-256 of listings and files.
    pub bound: BTreeMap<String, Shown>,
    /// What nothing here was compared with, and so may be another one.
    pub not_bound: Vec<Shown>,
    /// Everything that is not as it should be.
    pub problems: Vec<Problem>,
    /// Facts that were taken from Kiln's verifier: none are.
    pub assumed_from_verifier: usize,
    /// What is taken for granted.
    pub assumptions: Vec<Assumption>,
}

impl Recheck {
    /// Whether every function is proved and nothing else is wrong.
    pub fn is_proved(&self) -> bool {
        self.problems.is_empty()
    }

    /// How many problems are of a kind.
    pub fn count(&self, fault: Fault) -> usize {
        self.problems.iter().filter(|problem| problem.fault == fault).count()
    }
}

/// Checks the evidence in a folder. `progress` is told how many functions are done, of how many, and answers whether to
/// go on.
///
/// # Errors
/// [`Error::InvalidInput`] when the folder holds no evidence that can be read, [`Error::Unsupported`] when there is no
/// solver, or it is none.
pub fn verify(
    folder: &Path,
    options: &Options,
    progress: &(dyn Fn(usize, usize) -> bool + Sync),
) -> Result<Recheck, Error> {
    let begun = Instant::now();
    let [original, certificate, optimized] = evidence::read(folder)?;
    let certificate = Certificate::parse(&certificate)
        .map_err(|why| Error::InvalidInput(format!("{}: {why}", folder.join(evidence::CERTIFICATE).display())))?;
    let program = Program::find(options.solver.as_deref(), options.timeout).map_err(Error::Unsupported)?;
    let mut recheck = Recheck {
        solver: program.version.clone(),
        functions: 0,
        proved: 0,
        pairs: 0,
        identical: 0,
        queries: 0,
        milliseconds: 0,
        scope: Scope::ListingsOnly,
        compared: Vec::new(),
        bound: certificate.bound.iter().map(|(name, digest)| (name.clone(), digest.as_str().into())).collect(),
        not_bound: NOT_COMPARED.iter().map(|(what, why)| format!("{what}: {why}").into()).collect(),
        problems: Vec::new(),
        assumed_from_verifier: 0,
        assumptions: ASSUMPTIONS.iter().map(|(name, says)| Assumption { name, says }).collect(),
    };
    let broken = |detail: String| Problem { function: None, fault: Fault::Broken, detail: detail.into() };
    let bound = certificate.bound.clone();
    for (name, listing) in evidence::BOUND.into_iter().zip([&original, &optimized]) {
        match bound.get(name) {
            Some(digest) if *digest == evidence::digest(listing.as_bytes()) => {}
            Some(_) => {
                recheck.problems.push(broken(format!("{name} is not the listing that the certificate is bound to")))
            }
            None => recheck.problems.push(broken(format!("the certificate is not bound to {name}"))),
        }
    }
    match Chain::read(&original, certificate, &optimized) {
        Ok(chain) => {
            for (old, new) in chain.first().functions.iter().zip(&chain.last().functions) {
                if old.linkage != new.linkage {
                    let why = "it became static, with the same code; the kernel verifies it where it is called";
                    recheck
                        .not_bound
                        .push(format!("what may replace {} (freplace): nothing now, {why}", old.name).into());
                }
            }
            let ends = [
                (&options.original, evidence::ORIGINAL_FILE, "--original", "begins with", chain.first()),
                (&options.object, evidence::OPTIMIZED_FILE, "--object", "ends with", chain.last()),
            ];
            let mut same_ends = [false; 2];
            for (own, (path, name, flag, which, end)) in same_ends.iter_mut().zip(ends) {
                let Some(path) = path else {
                    recheck.not_bound.push(format!("{name}: {flag} compares it with a file").into());
                    continue;
                };
                let mut input = input::open(path, &[])?;
                for (program, claimed) in input.object.programs.iter_mut().zip(&end.programs) {
                    if let (None, Some(kind)) = (program.program_type, claimed.program_type) {
                        program.set_type(kind);
                        let name = &program.name;
                        let what = format!("the type of {name}: its section tells none, and it is proved as {kind}");
                        recheck.not_bound.push(what.into());
                    }
                }
                let same = same_code(&input.object, end).and_then(|()| match bound.get(name) {
                    Some(digest) if *digest == evidence::digest(&input.bytes) => Ok(()),
                    Some(digest) => Err(format!("its bytes are others, the SHA-256 of which is {digest}")),
                    None => Err("the certificate names no such file".to_owned()),
                });
                *own = same.is_ok();
                match same {
                    Ok(()) => recheck.compared.push(path.display().to_string().into()),
                    Err(why) => {
                        let what = format!("{} is not what the evidence {which}: {why}", path.display());
                        recheck.problems.push(broken(what));
                    }
                }
            }
            recheck.scope = match same_ends {
                [true, true] => Scope::Objects,
                [true, false] => Scope::OriginalOnly,
                [false, true] => Scope::OptimizedOnly,
                [false, false] => Scope::ListingsOnly,
            };
            recheck.prove(&chain, &program, options, progress);
        }
        Err(why) => recheck.problems.push(broken(why)),
    }
    recheck.milliseconds = begun.elapsed().as_millis() as u64;
    Ok(recheck)
}

impl Recheck {
    fn prove(
        &mut self,
        chain: &Chain,
        program: &Program,
        options: &Options,
        progress: &(dyn Fn(usize, usize) -> bool + Sync),
    ) {
        let jobs = options.jobs.clamp(1, chain.steps().max(1));
        let solvers = (0..jobs).map(|_| Process::new(program, options.timeout)).collect();
        for verdict in chain.prove(solvers, progress) {
            self.functions += 1;
            self.pairs += verdict.pairs;
            match verdict.outcome {
                Ok(Count { identical, queries }) => {
                    self.proved += 1;
                    self.identical += identical;
                    self.queries += queries;
                }
                Err(detail) => {
                    let undecided = detail.contains("not decided") || detail.contains("interrupted");
                    let fault = if undecided { Fault::Undecided } else { Fault::Refuted };
                    self.problems.push(Problem { function: Some(verdict.name.into()), fault, detail: detail.into() });
                }
            }
        }
    }
}
