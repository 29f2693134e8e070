//! `kiln optimize`: a smaller drop-in object, with evidence.
//!
//! ```text
//!   read -> passes, each accepted by our verifier -> write -> the kernel loads every program that it loaded before
//!                        ^                                        |
//!                        +- from the last state that it takes <---+  (a refusal is kept and reported)
//! ```

mod as_loaded;
mod certified;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kiln_platform::{Feature, Profile};
use kiln_program::{FunctionId, Object, Program, ProgramId};
use kiln_superopt::search::{DEFAULT_EFFORTS, EFFORTS};
pub use kiln_superopt::{CostModel, RuleSet};
use kiln_superopt::{Evidence, Goal, Judge, Progress, Rewrite, Standing, Timings, Unverified};
use kiln_verifier::Prepared;
use serde::Serialize;

use self::as_loaded::AsLoaded;
pub use self::certified::Uncertified;
use self::certified::{certificate_time, certify};
use crate::evidence;
use crate::kernel;
use kiln_inspect::check::{self, KernelVerdict, Verdict};
use kiln_inspect::file;
use kiln_inspect::input::Input;
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// How to optimize. The default takes up to [`DEFAULT_BUDGET`], for the goal and the rules that `kiln optimize` has, and
/// does not ask the running kernel.
///
/// ```
/// use std::time::Duration;
/// let mut options = kiln_driver::optimize::Options::default();
/// options.budget = Duration::from_secs(2);
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Options {
    /// What to optimize for.
    pub goal: Goal,
    /// What instructions cost, where that is not what Kiln's table for this kind of machine says.
    pub model: Option<Arc<CostModel>>,
    /// Time to spend at most, the kernel's word included; see [`default_budget`].
    pub budget: Duration,
    /// When that time began, where it was before [`optimize`] was called: reading the object is part of it.
    pub begun: Option<Instant>,
    /// Whether the running kernel decides at the end, where it may be asked.
    pub ask_kernel: bool,
    /// Whether the evidence of each window carries its query in SMT-LIB2, for solvers outside Kiln.
    pub keep_queries: bool,
    /// Whether to find a certificate; a function without one stays as it is.
    pub certify: bool,
    /// Whether the budget bounds the time for the certificate too: half of it is for optimizing then. Otherwise the
    /// certificate gets the time that optimizing took once more, and [`MIN_CERTIFICATE`] at least.
    pub budget_bounds_certificate: bool,
    /// The oldest kernel that the result is to load on, where that is not just the running one. What does not
    /// load there
    /// as it is stays as it is.
    pub profile: Option<Profile>,
    /// Rules as data, proved ([`crate::commands::learn::proved_rules`]); those that come with Kiln when there are none.
    pub rules: Option<Arc<RuleSet>>,
    /// Programs to optimize, all when empty; what the others reach stays as it is.
    pub programs: Vec<String>,
}

/// The budget unless another one is set; [`default_budget`] has one for each object.
pub const DEFAULT_BUDGET: Duration = Duration::from_secs(10);

impl Default for Options {
    fn default() -> Options {
        Options {
            goal: Goal::default(),
            model: None,
            budget: DEFAULT_BUDGET,
            begun: None,
            ask_kernel: false,
            keep_queries: false,
            certify: false,
            budget_bounds_certificate: false,
            profile: None,
            rules: None,
            programs: Vec::new(),
        }
    }
}

/// Slots up to which an object is small, and from which on it is as large as any.
const SMALL_SLOTS: u32 = 200;
const LARGE_SLOTS: u32 = 4000;
/// Seconds that a small and a large object may take.
const SMALL_SECONDS: f64 = 10.0;
const LARGE_SECONDS: f64 = 60.0;

/// Time for the certificate of an object, at least; otherwise it gets the time that optimizing took once more.
const MIN_CERTIFICATE: Duration = Duration::from_secs(20);

/// The time to spend on an object at most, unless told otherwise: ten seconds for a small one, up to sixty for a large
/// one. Most are done in a fraction of it, for what is tried within it is bounded by work; a longer time lets search
/// go on, through all [`EFFORTS`], until it is up or nothing is left to try.
pub fn default_budget(object: &Object) -> Duration {
    let slots = object.functions.iter().map(kiln_program::Function::slots).sum::<u32>();
    let beyond = f64::from(slots.clamp(SMALL_SLOTS, LARGE_SLOTS) - SMALL_SLOTS);
    let share = beyond / f64::from(LARGE_SLOTS - SMALL_SLOTS);
    Duration::from_secs_f64(SMALL_SECONDS + share * (LARGE_SECONDS - SMALL_SECONDS))
}

/// Reads a cost model.
///
/// # Errors
/// [`Error::InvalidInput`] when the file cannot be read or is not a cost model, with the line.
pub fn read_model(path: &std::path::Path) -> Result<CostModel, Error> {
    let text = file::text(path, CostModel::MAX_BYTES as u64)?;
    CostModel::parse(&text).map_err(|bad| Error::InvalidInput(format!("{}: {bad}", path.display())))
}

/// What became of one program.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Optimized {
    /// The program.
    pub program: Shown,
    /// Slots before, subprograms included.
    pub slots_before: u32,
    /// Slots after.
    pub slots_after: u32,
    /// Estimated time of a run before, in nanoseconds.
    pub estimated_ns_before: f64,
    /// The value after optimizing.
    pub estimated_ns_after: f64,
    /// Our verdict before.
    pub before: Verdict,
    /// Our verdict after.
    pub after: Verdict,
    /// The kernel's verdict before, where it was asked.
    pub kernel_before: Option<KernelVerdict>,
    /// The kernel's verdict after, where it was asked.
    pub kernel_after: Option<KernelVerdict>,
    /// Why it was left as it is, if it was.
    pub skipped: Option<Shown>,
    /// Whether there is no verdict before because a limit was reached, such as the time for it.
    #[serde(skip)]
    pub limit_reached: bool,
}

/// An optimized object and the account of it.
#[non_exhaustive]
pub struct Outcome {
    /// The IR.
    pub object: Object,
    /// The object file; empty when the input was text.
    pub bytes: Vec<u8>,
    /// Program by program.
    pub programs: Vec<Optimized>,
    /// Slots of the object's functions before and after. It may grow though its programs shrink: each has its own copy of
    /// what was inlined.
    pub object_slots: [u64; 2],
    /// Static functions that were inlined and that nothing refers to any more: the file does not have them. With
    /// [`Options::certify`] it does, because the certificate is about all functions.
    pub removed: Vec<Shown>,
    /// Rewrite by rewrite.
    pub evidence: Vec<Evidence>,
    /// Where a certificate was asked for: what shows that each function that changed does what it did, by its number.
    pub proofs: evidence::Proofs,
    /// Functions that are not as they were optimized, but as they were or a version in between: they, or others of
    /// their program, have no certificate.
    pub uncertified: Vec<Uncertified>,
    /// What our verifier or the kernel refused.
    pub refused: Vec<Shown>,
    /// What it was optimized for.
    pub goal: Goal,
    /// The kind of machine that estimates are for.
    pub machine: Shown,
    /// Whether the time was up, or Ctrl-C came, before the passes found no more.
    pub cut_short: bool,
    /// Time spent, from [`Options::begun`] on.
    pub spent: Duration,
    /// Where it went.
    pub timings: Timings,
}

/// Optimizes an object.
///
/// # Errors
/// [`Error::InvalidInput`] when the result cannot be written as an object file, or there is no such program;
/// [`Error::Unsupported`] when a program that cannot be read refers to other code.
pub fn optimize(input: &Input, options: &Options, progress: &mut dyn Progress) -> Result<Outcome, Error> {
    let begun = options.begun.unwrap_or_else(Instant::now);
    if let Some(elf) = &input.elf {
        elf.check_movable().map_err(|error| kiln_inspect::input::elf_error(&input.object.name, error))?;
    }
    let asks = options.ask_kernel && input.elf.is_some() && kiln_linux::available().is_ok();
    let first_word = begun + options.budget / ASKING;
    let kernel = asks.then(|| Kernel::new(input, options, first_word));
    let unasked: Vec<ProgramId> = kernel.iter().flat_map(Kernel::unasked).collect();
    let verifier = verifier_options(input, options);
    let as_loaded = if options.profile.is_none() { AsLoaded::new(input, &verifier, first_word) } else { None };
    let left = options.budget.saturating_sub(begun.elapsed());
    let left = if options.certify && options.budget_bounds_certificate { left / 2 } else { left };
    let words = kernel.as_ref().map_or(Duration::ZERO, |kernel| kernel.spent * WORDS);
    let reserve = (words + as_loaded.as_ref().map_or(Duration::ZERO, |own| own.spent)).min(left / 2);
    let mut frozen = left_alone(input, &options.programs)?;
    let entries = unasked.iter().map(|id| input.object.programs[id.index()].entry);
    frozen.extend(entries.flat_map(|entry| input.object.reachable_functions(entry)));
    let search = kiln_superopt::Options { budget: left, reserve, frozen, ..search_options(input, options, &kernel) };
    let machine = search.model.machine.clone();
    let judge = kernel.as_ref().map(|kernel| kernel as &dyn Judge);
    // Marks are about the instructions that stand now. The result gets its own.
    let unmarked = Object { operations: Vec::new(), ..input.object.clone() };
    let mut rewrite = kiln_superopt::optimize_judged(&unmarked, &search, progress, judge);
    let (proofs, uncertified) = match options.certify {
        true => {
            let time = certificate_time(options, begun.elapsed() + reserve);
            certify(input, &mut rewrite, options, time, judge, progress)
        }
        false => (evidence::Proofs::new(), Vec::new()),
    };
    if !input.object.operations.is_empty() {
        kiln_idiom::annotate(&mut rewrite.object, &kiln_isa::operation::Registry::BUILTIN);
    }
    let (bytes, unused) = write(input, &rewrite.object, options.certify)?;
    let kernel_after = kernel
        .as_ref()
        .map(|kernel| rewrite.timings.time("kernel, at the end", || kernel.verdicts(&bytes, &rewrite.object, None)));
    let refused = rewrite.refused.iter().map(|(pass, function, why)| format!("{pass} in {function}: {why}"));
    let reason = |own: &Uncertified| Some(format!("certificate of {}: {}", own.function, own.why.as_ref()?));
    let refused = Shown::all(refused.chain(uncertified.iter().filter_map(reason)).collect::<Vec<_>>());
    // A certificate without a bound takes its own time.
    let end = (!options.certify || options.budget_bounds_certificate).then(|| begun + options.budget);
    let until = end.map(|end| end + MIN_VERDICTS.max(options.budget / VERDICTS));
    let verifier = kiln_verifier::Options { deadline: until, ..verifier };
    let loaded = as_loaded.and_then(|own| own.beside(input, &rewrite.object, until));
    let kernel_before = kernel.map(|kernel| kernel.before);
    let no_time = |id: ProgramId| (id, "the time was up before the kernel was asked about it".to_owned());
    rewrite.skipped.extend(unasked.into_iter().map(no_time));
    let programs = account(input, &rewrite, &verifier, loaded, [kernel_before.as_deref(), kernel_after.as_deref()]);
    let Rewrite { object, evidence, timings, cut_short, .. } = rewrite;
    let spent = begun.elapsed();
    let (goal, machine) = (options.goal, machine.into());
    let gone: u32 = unused.iter().map(|id| object.function(*id).slots()).sum();
    let object_slots = [evidence::slots(&input.object), evidence::slots(&object) - gone].map(u64::from);
    let removed = unused.iter().map(|id| object.function(*id).name.as_str().into()).collect();
    Ok(Outcome {
        object,
        bytes,
        programs,
        object_slots,
        removed,
        evidence,
        proofs,
        uncertified,
        refused,
        goal,
        machine,
        cut_short,
        spent,
        timings,
    })
}

/// How programs are verified before and after.
fn verifier_options(input: &Input, options: &Options) -> kiln_verifier::Options {
    let profile = options.profile.clone().unwrap_or_default();
    kiln_verifier::Options { profile, ..input.verifier_options() }
}

/// How the optimizer is asked: all but the time and the functions that stay as they are.
fn search_options(input: &Input, options: &Options, kernel: &Option<Kernel<'_>>) -> kiln_superopt::Options {
    let accepted = |kernel: &Kernel<'_>| {
        (0..kernel.before.len()).map(|at| ProgramId(at as u32)).filter(|id| kernel.takes(*id)).collect()
    };
    kiln_superopt::Options {
        goal: options.goal,
        model: options.model.clone().unwrap_or_default(),
        search: if options.budget > default_budget(&input.object) { EFFORTS.len() } else { DEFAULT_EFFORTS },
        rules: options.rules.clone().unwrap_or_else(RuleSet::shipped),
        keep_queries: options.keep_queries || options.certify,
        // Windows need no facts to be proved. What our verifier does not support, the kernel can still judge.
        unverified: match kernel {
            Some(kernel) if options.profile.is_none() => Unverified::Only(accepted(kernel)),
            _ => Unverified::None,
        },
        kernel_types: input.kernel_types.clone(),
        isa: match &options.profile {
            Some(profile) if profile.has(Feature::CpuV4) => 4,
            _ => 3,
        },
        profile: options.profile.clone().unwrap_or_default(),
        // An inlined function has no certificate, so it would be as it was before.
        without: options.certify.then(|| "inlined-call".to_owned()).into_iter().collect(),
        ..Default::default()
    }
}

/// The part of the budget in which the kernel is asked about the original programs: one half.
const ASKING: u32 = 2;
/// The time reserved for asking the kernel about the result, in times that asking about the originals took.
const WORDS: u32 = 4;
/// The part of the budget, and the least time, that verdicts for the report may take beyond it.
const VERDICTS: u32 = 40;
const MIN_VERDICTS: Duration = Duration::from_secs(1);

/// The running kernel, as the judge of rewrites.
struct Kernel<'a> {
    input: &'a Input,
    goal: Goal,
    /// Whether the file has all functions, also those without users.
    whole: bool,
    /// Its verdict on each original program; `None` if there was no time to ask.
    before: Vec<Option<KernelVerdict>>,
    /// How long that took.
    spent: Duration,
    /// Its verdicts on rewritten programs, by the hash of the program's functions.
    asked: Mutex<BTreeMap<(u64, ProgramId), KernelVerdict>>,
}

impl<'a> Kernel<'a> {
    fn new(input: &'a Input, options: &Options, until: Instant) -> Kernel<'a> {
        let begun = Instant::now();
        let (goal, whole) = (options.goal, options.certify);
        let (before, spent, asked) = (Vec::new(), Duration::ZERO, Mutex::default());
        let mut kernel = Kernel { input, goal, whole, before, spent, asked };
        kernel.before = kernel.verdicts(&input.bytes, &input.object, Some(until));
        kernel.spent = begun.elapsed();
        kernel
    }

    fn takes(&self, id: ProgramId) -> bool {
        matches!(self.before[id.index()], Some(KernelVerdict::Accepted { .. }))
    }

    /// The programs that the kernel was not asked about.
    fn unasked(&self) -> impl Iterator<Item = ProgramId> {
        let none = self.before.iter().enumerate().filter(|(_, verdict)| verdict.is_none());
        none.map(|(at, _)| ProgramId(at as u32))
    }

    fn verdict(&self, bytes: &[u8], object: &Object, id: ProgramId) -> KernelVerdict {
        let key = (hash(object, id), id);
        if let Some(known) = self.asked.lock().expect("asking does not panic").get(&key) {
            return known.clone();
        }
        let verdict = kernel::verdict::verdict(bytes, object, &object.programs[id.index()]);
        self.asked.lock().expect("asking does not panic").insert(key, verdict.clone());
        verdict
    }

    /// Returns its verdict on every program of a file, two at a time, until the time is over. A program that it was not
    /// asked about before is unchanged, and is skipped.
    fn verdicts(&self, bytes: &[u8], object: &Object, until: Option<Instant>) -> Vec<Option<KernelVerdict>> {
        let verdicts: Vec<Mutex<Option<KernelVerdict>>> = object.programs.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while until.is_none_or(|until| Instant::now() < until) {
                let at = next.fetch_add(1, Ordering::SeqCst);
                let Some(slot) = verdicts.get(at) else { return };
                if self.before.get(at).is_some_and(Option::is_none) {
                    continue;
                }
                let verdict = self.verdict(bytes, object, ProgramId(at as u32));
                *slot.lock().expect("asking does not panic") = Some(verdict);
            }
        };
        match object.programs.len() {
            0 | 1 => work(),
            _ => std::thread::scope(|scope| {
                scope.spawn(work);
                work();
            }),
        }
        verdicts.into_iter().map(|verdict| verdict.into_inner().expect("asking does not panic")).collect()
    }
}

/// Hashes all functions that a program runs. Maps, types and names are those of the input.
fn hash(object: &Object, id: ProgramId) -> u64 {
    let mut hasher = DefaultHasher::new();
    for function in object.reachable_functions(object.programs[id.index()].entry) {
        function.hash(&mut hasher);
        for node in &object.function(function).nodes {
            (node.id, node.insn, node.reference, node.core).hash(&mut hasher);
        }
    }
    hasher.finish()
}

impl Judge for Kernel<'_> {
    /// Returns the programs that the kernel accepted before and now rejects, or verifies at a higher cost than the goal allows.
    fn judge(&self, object: &Object, programs: &[ProgramId]) -> Vec<(ProgramId, String)> {
        // Writing is tried again at the end, where it can be reported.
        let Ok((bytes, _)) = write(self.input, object, self.whole) else { return Vec::new() };
        let complaint = |id: &ProgramId| {
            let Some(KernelVerdict::Accepted { processed_insns: old }) = self.before[id.index()] else { return None };
            let name = &object.programs[id.index()].name;
            match self.verdict(&bytes, object, *id) {
                KernelVerdict::Rejected { reason } | KernelVerdict::NotAsked { reason, .. } => {
                    Some((*id, format!("the kernel on {name}: {reason}")))
                }
                KernelVerdict::Accepted { processed_insns: new }
                    if new > old.saturating_add(tolerated(self.goal, old)) =>
                {
                    let why = format!("its verifier would process {new} instructions instead of {old}");
                    Some((*id, format!("the kernel on {name}: {why}")))
                }
                KernelVerdict::Accepted { .. } => None,
            }
        };
        programs.iter().filter_map(complaint).collect()
    }

    /// Whether the kernel accepted the original program: otherwise its count means nothing, or libbpf cannot open the object.
    fn knows(&self, program: ProgramId) -> bool {
        self.takes(program)
    }
}

/// Processed instructions that a program may cost the kernel's verifier beyond what it did, by goal.
fn tolerated(goal: Goal, before: u32) -> u32 {
    match goal {
        Goal::Size => u32::MAX,
        Goal::Complexity | Goal::Balanced => 0,
        // 2 %, and always eight: the kernel verifies eight instructions in less than a microsecond, which no load time shows.
        Goal::Speed => (before / 50).max(8),
    }
}

/// Functions of programs that are not to be optimized.
fn left_alone(input: &Input, names: &[String]) -> Result<BTreeSet<FunctionId>, Error> {
    let chosen: Vec<&str> = input.select(names)?.into_iter().map(|program| program.name.as_str()).collect();
    let others = input.object.programs.iter().filter(|program| !chosen.contains(&program.name.as_str()));
    Ok(others.flat_map(|program| input.object.reachable_functions(program.entry)).collect())
}

fn account(
    input: &Input,
    rewrite: &Rewrite,
    verifier: &kiln_verifier::Options,
    loaded: Option<Vec<Option<([Verdict; 2], bool)>>>,
    [kernel_before, kernel_after]: [Option<&[Option<KernelVerdict>]>; 2],
) -> Vec<Optimized> {
    let ns = |picoseconds: u64| picoseconds as f64 / 1000.0;
    let mut loaded = loaded.unwrap_or_default();
    let pairs = input.object.programs.iter().zip(&rewrite.object.programs).zip(&rewrite.programs);
    pairs
        .enumerate()
        .map(|(index, ((old, new), account))| {
            let mut limit_reached = matches!(account.before, Err(kiln_verifier::Error::Limit { .. }));
            let known = loaded.get_mut(index).and_then(Option::take);
            // What is accepted for all kernels needs no other verdict; what is not may be accepted here.
            let known = known.filter(|(_, is_late)| !limit_reached && (!is_late || account.before.is_err()));
            limit_reached |= known.as_ref().is_some_and(|(_, is_late)| *is_late);
            let [before, after] = known.map(|(both, _)| both).unwrap_or_else(|| {
                let before = || check::verdict_of(&input.object, old, account.before.clone().map(statistics));
                let after = match (account.after, changed(&input.object, &rewrite.object, old)) {
                    (Some(after), _) => check::verdict_of(&rewrite.object, new, Ok(statistics(after))),
                    (None, false) => before(),
                    (None, true) => check::verdict(&Prepared::new(&rewrite.object, verifier), new, verifier),
                };
                [before(), after]
            });
            Optimized {
                program: old.name.as_str().into(),
                slots_before: input.object.program_slots(old),
                slots_after: rewrite.object.program_slots(new),
                estimated_ns_before: ns(account.picoseconds[0]),
                estimated_ns_after: ns(account.picoseconds[1]),
                before,
                limit_reached,
                after,
                kernel_before: kernel_before.and_then(|verdicts| verdicts[index].clone()),
                kernel_after: kernel_after.and_then(|verdicts| verdicts[index].clone()),
                skipped: match old.program_type {
                    None => Some(check::no_type(old).into()),
                    Some(_) => {
                        let skipped = rewrite.skipped.iter().find(|(id, _)| id.index() == index);
                        skipped.map(|(_, reason)| reason.as_str().into())
                    }
                },
            }
        })
        .collect()
}

/// Processed instructions as it is loaded here, and bytes of stack and of the largest frame.
fn statistics(standing: Standing) -> (u64, [u32; 2]) {
    (standing.cost.processed[0], [standing.stack_bytes, standing.frame_bytes])
}

fn changed(before: &Object, after: &Object, program: &Program) -> bool {
    before.reachable_functions(program.entry).into_iter().any(|id| before.function(id) != after.function(id))
}

/// The file of an object, and the functions that it does not have: those without users, unless it is to be `whole`.
fn write(input: &Input, object: &Object, whole: bool) -> Result<(Vec<u8>, BTreeSet<FunctionId>), Error> {
    let written = match &input.elf {
        None => Ok((kiln_program::text::print(object).into_bytes(), BTreeSet::new())),
        Some(elf) if whole => elf.write(object).map(|bytes| (bytes, BTreeSet::new())),
        Some(elf) => elf.write_used(object),
    };
    written.map_err(|error| Error::InvalidInput(error.to_string()))
}

impl Outcome {
    /// The account as data, for `--format json`.
    pub fn report(&self) -> Report<'_> {
        Report {
            programs: &self.programs,
            object_slots_before: self.object_slots[0],
            object_slots_after: self.object_slots[1],
            removed: &self.removed,
            evidence: &self.evidence,
            refused: &self.refused,
            goal: self.goal,
            machine: &self.machine,
            cut_short: self.cut_short,
            timings_ms: self
                .timings
                .rows()
                .into_iter()
                .map(|(what, time, _)| (what, time.as_secs_f64() * 1000.0))
                .collect(),
            spent_ms: self.spent.as_millis() as u64,
        }
    }
}

/// See [`Outcome::report`].
#[derive(Serialize)]
pub struct Report<'a> {
    programs: &'a [Optimized],
    object_slots_before: u64,
    object_slots_after: u64,
    removed: &'a [Shown],
    evidence: &'a [Evidence],
    refused: &'a [Shown],
    goal: Goal,
    machine: &'a Shown,
    cut_short: bool,
    timings_ms: BTreeMap<&'static str, f64>,
    spent_ms: u64,
}
