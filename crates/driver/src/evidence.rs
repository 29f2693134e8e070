//! Evidence in a folder: what `kiln optimize --evidence` writes and `kiln verify-evidence` reads.
//!
//! ```text
//!   proofs/README.md              what each file means
//!   proofs/original.bpf.gz        the object before, as text
//!   proofs/optimized.bpf.gz       the object after
//!   proofs/certificate.gz         the chain from one to the other (`kiln_certificate::format`)
//! ```

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use kiln_certificate::check::{Chain, MAX_LISTING};
use kiln_certificate::find;
use kiln_certificate::find::hunks::{self, Hunk};
use kiln_certificate::find::remember::Memory;
use kiln_certificate::format::{Certificate, MAX_BYTES, Proof, Stage};
use kiln_certificate::provenance::Arguments;
use kiln_certificate::solver::{Answer, Solver};
use kiln_equiv::solver::{Strategy, is_unsatisfiable};
use kiln_program::{Function, FunctionId, Node, Object, text};
use kiln_superopt::Stopwatch;
use kiln_superopt::evidence::ChainStep;
use sha2::{Digest as _, Sha256};

use crate::output::write_whole;
use kiln_inspect::file;
use kiln_program::Error;

/// The chain.
pub const CERTIFICATE: &str = "certificate.gz";
/// The object before.
pub const ORIGINAL: &str = "original.bpf.gz";
/// The object after.
pub const OPTIMIZED: &str = "optimized.bpf.gz";
/// Compressed bytes of a file that are read.
const MAX_COMPRESSED: u64 = 64 << 20;
/// Steps that Kiln's own solver may take for a question on the way to a certificate, and how it works: first, and where
/// it gave up then.
const EFFORTS: [(u32, Strategy); 2] = [(500_000, Strategy::Incremental), (5_000_000, Strategy::Preprocessed)];
/// Steps that a question counts for, besides those after which the solver gave up: what a usual one takes.
const QUESTION_STEPS: u64 = 5_000;

/// How often a thread that has no more to do asks whether to go on.
const POLL: Duration = Duration::from_millis(10);
/// Slots that a function counts for at least when time is shared.
const LEAST_GAIN: u32 = 4;
/// Maximum processor time for each slot that a function gained, unless a user's budget bounds the whole.
const SLOT_TIME: Duration = Duration::from_millis(500);

const README: &str = include_str!("evidence_readme.md");

/// Slots of all functions.
pub(crate) fn slots(object: &Object) -> u32 {
    object.functions.iter().map(kiln_program::Function::slots).sum()
}

/// When the search for a certificate ends.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time for all functions.
    pub time: Duration,
    /// How it is measured.
    pub clock: Clock,
    /// The solver's steps for all functions: unlike time, they end a search at the same place on every machine.
    pub steps: u64,
    /// Whether a function that cannot be proved as a whole is proved hunk by hunk.
    pub in_parts: bool,
}

impl Limits {
    /// Only this time.
    pub fn time(time: Duration, clock: Clock) -> Limits {
        Limits { time, clock, steps: u64::MAX, in_parts: true }
    }
}

/// How time is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// As it passes, for a bound that a user gave.
    Wall,
    /// As a thread is given a processor: what else the machine does takes nothing.
    Cpu,
}

/// The end of a time, for one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    clock: Clock,
    begun: (Instant, Stopwatch),
    time: Duration,
}

impl Deadline {
    /// So much time from now on.
    pub(crate) fn after(clock: Clock, time: Duration) -> Deadline {
        Deadline { clock, begun: (Instant::now(), Stopwatch::start()), time }
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.spent() >= self.time
    }

    /// When the time is over, unless the clock is the thread's own.
    pub(crate) fn end(&self) -> Option<Instant> {
        (self.clock == Clock::Wall).then(|| self.begun.0 + self.time)
    }

    fn spent(&self) -> Duration {
        let (wall, own) = self.begun;
        match self.clock {
            Clock::Wall => wall.elapsed(),
            Clock::Cpu => own.elapsed(),
        }
    }
}

/// The time that is left for certificates, and the functions' claims on it.
struct Shares {
    limits: Limits,
    /// When all is over, unless the clock is the threads' own.
    end: Deadline,
    left: Duration,
    /// What all functions that are left have gained.
    gains: u32,
}

impl Shares {
    /// No function gets more than twice its share, nor more than [`SLOT_TIME`] allows.
    fn take(&mut self, gain: u32) -> Deadline {
        let (left, most) = match self.limits.clock {
            Clock::Wall => (self.limits.time.saturating_sub(self.end.spent()), Duration::MAX),
            Clock::Cpu => (self.left, SLOT_TIME * gain),
        };
        let time = most.min(left).min(left * (2 * gain) / self.gains.max(1));
        self.gains -= gain.min(self.gains);
        Deadline::after(self.limits.clock, time)
    }
}

/// Kiln's own solver, which looks for certificates; another one checks them.
struct Own<'o> {
    effort: (u32, Strategy),
    /// Whether a question took longer.
    gave_up: &'o Cell<bool>,
    /// Steps that are left for all questions.
    left: &'o AtomicU64,
    /// When a question ends, if it is not answered by then.
    until: Option<Instant>,
}

impl Solver for Own<'_> {
    fn ask(&mut self, query: &str) -> Answer {
        let (steps, strategy) = self.effort;
        let spend = |steps: u64| {
            let less = |left: u64| Some(left.saturating_sub(steps));
            let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        };
        spend(QUESTION_STEPS);
        match is_unsatisfiable(query, "QF_UFBV", steps, strategy, self.until) {
            Some(true) => Answer::Unsat,
            Some(false) => Answer::Sat,
            None => {
                spend(steps.into());
                self.gave_up.set(true);
                Answer::Unknown("the solver gave up".to_owned())
            }
        }
    }
}

/// A version of a function, and why it may follow the one before.
#[derive(Clone, Debug)]
pub struct Version {
    /// The listing.
    pub function: Function,
    /// The proof.
    pub proof: Proof,
}

/// The versions of each function that changed, from the first after the original to the optimized one.
pub type Proofs = BTreeMap<u32, Vec<Version>>;

/// Finds the certificate for turning one object into another within `limits`. Each function that changed is proved as a
/// whole; where that fails, over versions that it had in between. What still is not proved is left out, hunk by hunk: the
/// last version of such a function is not the optimized one, and it comes with the reason. It has no version if nothing
/// of it can be proved. The number is that of the solver's steps.
///
/// The functions that gained most come first, and none gets more than twice its share by gain of the time that is left, so
/// one that is hard to prove leaves time to the others. Each processor works at one, unless steps are limited: which
/// function gets the last of them must not depend on time.
pub fn certify(
    original: &Object,
    optimized: &Object,
    chain: &[ChainStep],
    limits: Limits,
    go_on: &mut dyn FnMut() -> bool,
) -> (Proofs, BTreeMap<u32, String>, u64) {
    let arguments = Arguments::of(original);
    let changed = |(_, (old, new)): &(u32, (&Function, &Function))| old.nodes != new.nodes;
    let pairs = (0..).zip(original.functions.iter().zip(&optimized.functions));
    let mut changed: Vec<(u32, (&Function, &Function))> = pairs.filter(changed).collect();
    // A function that became no shorter may be a faster one.
    let gain = |(old, new): (&Function, &Function)| old.slots().saturating_sub(new.slots()).max(LEAST_GAIN);
    changed.sort_by_key(|(_, both)| Reverse(gain(*both)));
    let threads = match limits.steps {
        u64::MAX => std::thread::available_parallelism().map_or(1, usize::from).min(changed.len()).max(1),
        _ => 1,
    };
    let end = Deadline::after(limits.clock, limits.time);
    let gains = changed.iter().map(|(_, both)| gain(*both)).sum();
    let shares = Mutex::new(Shares { limits, end, left: limits.time * threads as u32, gains });
    let (left, next, done) = (AtomicU64::new(limits.steps), AtomicUsize::new(0), AtomicUsize::new(0));
    let (cancelled, results) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let work = |go_on: &dyn Fn() -> bool| {
        let memory = RefCell::default();
        while let Some((number, (old, new))) = changed.get(next.fetch_add(1, Ordering::Relaxed)) {
            let deadline = shares.lock().expect("no thread panics with it").take(gain((old, new)));
            let stop = || left.load(Ordering::Relaxed) == 0 || deadline.is_over() || !go_on();
            let versions = versions(FunctionId(*number), old, new, chain);
            let (objects, id, in_parts) = ([original, optimized], FunctionId(*number), limits.in_parts);
            let (arguments, until) = (&arguments, deadline.end());
            let failed = RefCell::default();
            let (stop, left, memory) = (&stop, &left, &memory);
            let search = Search { objects, id, arguments, stop, left, until, memory, in_parts, failed };
            let found = search.patiently(&versions);
            let mut shares = shares.lock().expect("no thread panics with it");
            shares.left = shares.left.saturating_sub(deadline.spent());
            results.lock().expect("no thread panics with it").push((*number, found));
        }
        done.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| work(&|| !cancelled.load(Ordering::Relaxed)));
        }
        // This thread is the one that is told to end.
        let go_on = RefCell::new(go_on);
        let told = || {
            let goes_on = (go_on.borrow_mut())();
            cancelled.fetch_or(!goes_on, Ordering::Relaxed);
            goes_on
        };
        work(&told);
        while done.load(Ordering::Relaxed) < threads && told() {
            std::thread::sleep(POLL);
        }
    });
    let (mut proofs, mut refused) = (Proofs::new(), BTreeMap::new());
    for (number, (found, why)) in results.into_inner().expect("no thread panics with it") {
        if !found.is_empty() {
            proofs.insert(number, found);
        }
        refused.extend(why.map(|why| (number, why)));
    }
    (proofs, refused, limits.steps - left.into_inner())
}

/// The versions of a function, from the original to the optimized one.
fn versions<'f>(id: FunctionId, old: &'f Function, new: &'f Function, chain: &'f [ChainStep]) -> Vec<&'f Function> {
    let mut versions: Vec<&Function> = vec![old];
    versions.extend(chain.iter().filter(|step| step.function == id).map(|step| &*step.after));
    versions.dedup_by(|one, other| one.nodes == other.nodes);
    versions.pop_if(|last| last.nodes == new.nodes);
    versions.push(new);
    versions
}

struct Search<'s> {
    objects: [&'s Object; 2],
    id: FunctionId,
    arguments: &'s Arguments,
    stop: &'s dyn Fn() -> bool,
    /// Steps that are left.
    left: &'s AtomicU64,
    /// When questions end.
    until: Option<Instant>,
    /// What the solver has answered to this thread.
    memory: &'s RefCell<Memory>,
    in_parts: bool,
    failed: RefCell<Vec<Failed>>,
}

/// A step that is not proved: another attempt would take as long.
struct Failed {
    /// Both versions.
    functions: [Vec<Node>; 2],
    why: String,
    /// Attempts with at most so many steps of the solver for a question end the same way.
    enough: u32,
}

impl Search<'_> {
    fn own<'o>(&'o self, effort: (u32, Strategy), gave_up: &'o Cell<bool>) -> Own<'o> {
        Own { effort, gave_up, left: self.left, until: self.until }
    }

    /// Steps from the first version to the last; from where the solver gave up, with more time for each question.
    /// Where a step cannot be proved, to a version without what it changes; then the reason is there as well.
    fn patiently(&self, versions: &[&Function]) -> (Vec<Version>, Option<String>) {
        let (mut at, mut found, mut reason) = (0, Vec::new(), None);
        for effort in EFFORTS {
            let gave_up = Cell::new(false);
            let (steps, more, why) = self.versions(&versions[at..], &mut self.own(effort, &gave_up));
            at += steps;
            found.extend(more);
            let Some(why) = why else { return (found, None) };
            reason = reason.or(Some(why));
            if !gave_up.get() {
                break;
            }
        }
        if !self.in_parts {
            return (found, reason);
        }
        let mut own = found.last().map_or(versions[0], |last: &Version| &last.function).clone();
        let rest: Vec<Hunk> = versions[at..].windows(2).flat_map(|pair| hunks::between(pair[0], pair[1])).collect();
        let gave_up = Cell::new(false);
        self.parts(&mut own, &rest, &mut found, &mut self.own(EFFORTS[0], &gave_up));
        // Some steps make a function longer for the sake of others.
        let lengths = found.iter().enumerate().map(|(at, version)| (version.function.slots(), at));
        match lengths.min().filter(|(slots, _)| *slots <= versions[0].slots()) {
            Some((_, at)) => found.truncate(at + 1),
            None => found.clear(),
        }
        (found, reason)
    }

    /// Steps from the first version to the last, as far as can be proved: to which version, and why no farther.
    fn versions(&self, versions: &[&Function], solver: &mut Own<'_>) -> (usize, Vec<Version>, Option<String>) {
        let (mut at, last) = (0, versions.len() - 1);
        let mut found = Vec::new();
        while at < last {
            let mut next = last;
            let mut first = None;
            let proof = loop {
                match self.step(versions[at], versions[next], solver) {
                    Ok(proof) => break proof,
                    Err(why) => first = first.or(Some(why)),
                }
                if next == at + 1 {
                    return (at, found, Some(first.unwrap_or_default()));
                }
                next = at + (next - at) / 2;
            };
            found.push(Version { function: versions[next].clone(), proof });
            at = next;
        }
        (at, found, None)
    }

    /// Applies those hunks to a function with which it is proved: all of them, or else of each half what can be.
    fn parts(&self, own: &mut Function, hunks: &[Hunk], found: &mut Vec<Version>, solver: &mut Own<'_>) {
        if (self.stop)() {
            return;
        }
        if let Some(function) = hunks::applied(own, hunks)
            && let Ok(proof) = self.step(own, &function, solver)
        {
            *own = function.clone();
            found.push(Version { function, proof });
        } else if hunks.len() > 1 {
            let (first, second) = hunks.split_at(hunks.len() / 2);
            self.parts(own, first, found, solver);
            self.parts(own, second, found, solver);
        }
    }

    fn step(&self, old: &Function, new: &Function, solver: &mut Own<'_>) -> Result<Proof, String> {
        if (self.stop)() {
            return Err("there was no time for a proof".to_owned());
        }
        let is_known = |one: &&Failed| one.functions.iter().eq([old, new].map(|function| &function.nodes));
        if let Some(known) = self.failed.borrow().iter().find(is_known)
            && solver.effort.0 <= known.enough
        {
            return Err(known.why.clone());
        }
        let functions = [old, new];
        let memory = &mut *self.memory.borrow_mut();
        let gave_up = Cell::new(false);
        let mut own = Own { gave_up: &gave_up, ..*solver };
        let asked = (&mut own as &mut dyn Solver, memory);
        let result = find::certify(self.objects, self.id, functions, self.arguments, asked, self.stop);
        solver.gave_up.set(solver.gave_up.get() || gave_up.get());
        if let Err(why) = &result {
            let enough = if gave_up.get() { solver.effort.0 } else { u32::MAX };
            let functions = functions.map(|function| function.nodes.clone());
            self.failed.borrow_mut().push(Failed { functions, why: why.clone(), enough });
        }
        let (pairs, left_out, _) = result?;
        Ok(Proof { pairs, left_out })
    }
}

/// The functions that call one of `mixed`, and whose certificates do not hold with these as they are in `optimized`.
pub(crate) fn broken(
    [original, optimized]: [&Object; 2],
    proofs: &Proofs,
    mixed: &dyn Fn(FunctionId) -> bool,
    end: &Deadline,
) -> BTreeSet<u32> {
    let calls = |number: u32| {
        let functions = [original, optimized].map(|object| &object.functions[number as usize]);
        functions.into_iter().flat_map(|function| &function.nodes).any(|node| node.callee().is_some_and(mixed))
    };
    if !proofs.keys().any(|number| calls(*number)) {
        return BTreeSet::new();
    }
    let (certificate, after) = certificate(original, optimized, proofs);
    let Ok(chain) = Chain::read(&text::print(original), certificate, &after) else {
        return proofs.keys().copied().collect();
    };
    let gave_up = Cell::new(false);
    let left = AtomicU64::new(u64::MAX);
    let mut own = Own { effort: EFFORTS[1], gave_up: &gave_up, left: &left, until: end.end() };
    let verdicts = chain.prove_some(&calls, &mut own, &|| end.is_over());
    verdicts.into_iter().filter(|own| own.outcome.is_err()).map(|own| own.function).collect()
}

/// Gives functions the linkage that they have in another version of their object.
pub(crate) fn relink(object: &mut Object, other: &Object) {
    for (own, other) in object.functions.iter_mut().zip(&other.functions) {
        own.linkage = other.linkage;
    }
}

/// The certificate of a chain of listings, and the listing at its end.
fn certificate(original: &Object, optimized: &Object, proofs: &Proofs) -> (Certificate, String) {
    let mut certificate = Certificate::default();
    let stages = proofs.values().map(Vec::len).max().unwrap_or(0);
    let mut before = text::print(original);
    // What became static did so in a stage of its own.
    let mut relinked = original.clone();
    relink(&mut relinked, optimized);
    let after = text::print(&relinked);
    if after != before {
        certificate.stages.push(Stage { edits: find::difference(&before, &after), proofs: BTreeMap::new() });
        before = after;
    }
    for index in 0..stages {
        let mut object = optimized.clone();
        let mut own = BTreeMap::new();
        for (number, versions) in proofs {
            let version = &versions[index.min(versions.len() - 1)];
            object.functions[*number as usize] = version.function.clone();
            if index < versions.len() {
                own.insert(*number, version.proof.clone());
            }
        }
        let after = text::print(&object);
        certificate.stages.push(Stage { edits: find::difference(&before, &after), proofs: own });
        before = after;
    }
    (certificate, before)
}

/// Names of what a certificate is bound to: the listings, and the object files.
pub(crate) const BOUND: [&str; 4] = [ORIGINAL_LISTING, OPTIMIZED_LISTING, ORIGINAL_FILE, OPTIMIZED_FILE];
const ORIGINAL_LISTING: &str = "original.bpf";
const OPTIMIZED_LISTING: &str = "optimized.bpf";
/// The object file before.
pub(crate) const ORIGINAL_FILE: &str = "original-file";
/// The object file after.
pub(crate) const OPTIMIZED_FILE: &str = "optimized-file";

/// The SHA-256 of some bytes in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the evidence for turning one object into another into a folder, which is made where it is missing. `files` are
/// the bytes of both object files.
///
/// # Errors
/// [`Error::InvalidInput`] when the folder or a file cannot be written, or the folder is one of something else.
pub fn write(
    folder: &Path,
    original: &Object,
    optimized: &Object,
    proofs: &Proofs,
    files: [&[u8]; 2],
) -> Result<(), Error> {
    check_folder(folder)?;
    std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, &error))?;
    let (mut certificate, after) = certificate(original, optimized, proofs);
    let before = text::print(original);
    let digests = [digest(before.as_bytes()), digest(after.as_bytes()), digest(files[0]), digest(files[1])];
    certificate.bound = BOUND.into_iter().map(str::to_owned).zip(digests).collect();
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
