//! An object, optimized: its parts in parallel, each within its share of the time.
//!
//! ```text
//!   programs that share functions          part 0   verify, passes, verify, ... judge   \
//!   are one part of the object      -->    part 1   verify, passes, ...                  -->  put together
//!                                          part 2   ...                                 /
//! ```
//!
//! Nothing of a part depends on another, so the result is the same however many are at work at once: instructions that
//! rewrites add get ids from a range of their part's own, and answers are kept part by part. What ends a part is work that
//! is counted; time is shared out only so that no part is left without any, the largest part first: half of what is left,
//! or more by slots.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kiln_equiv::Answers;
use kiln_isa::table::IsaVersion;
use kiln_platform::Profile;
use kiln_program::btf::Btf;
use kiln_program::{Function, FunctionId, Object, ProgramId};
use kiln_verifier::Prepared;

use crate::cost::frequency::{self, Frequencies};
use crate::cost::{CostModel, Goal};
use crate::evidence::{ChainStep, Evidence};
use crate::flow::calls::Calls;
use crate::judged::Judge;
use crate::rules::data::RuleSet;
use crate::run::{Account, Done, Run};
use crate::search;
use crate::timings::Timings;

/// How to optimize.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to optimize for.
    pub goal: Goal,
    /// What instructions cost, for the estimates of time.
    pub model: Arc<CostModel>,
    /// Time to spend at most; what was found by then stands.
    pub budget: Duration,
    /// The part of the budget that passes leave to the judge.
    pub reserve: Duration,
    /// How much more a program may cost the verifier than before, in processed instructions, beside 1% of noise.
    pub extra_processed_insns: u64,
    /// Functions to leave as they are.
    pub frozen: BTreeSet<FunctionId>,
    /// Rules as data: those that come with Kiln, or another file's, proved.
    pub rules: Arc<RuleSet>,
    /// Rules and laws not to use, by name.
    pub without: BTreeSet<String>,
    /// Whether to rewrite programs that our verifier does not support too, without facts: each window is then equal
    /// in every state. Only for callers who let the kernel decide whether the result loads.
    pub unverified: Unverified,
    /// Steps that the solver may take for one window ([`kiln_equiv::Limits::solver_steps`]).
    pub solver_steps: u32,
    /// How many of [`search::EFFORTS`] look for what no rule knows; 0: none does. Beyond the default ones only time ends
    /// them, or that nothing is left to try.
    pub search: usize,
    /// LLVM's version of the instruction set (`-mcpu=vN`) that new instructions may be of: 3 is what kernels since 5.1
    /// have, 4 what those since 6.6 have. What the program has itself may stay.
    pub isa: IsaVersion,
    /// Whether evidence carries what queries are made of.
    pub keep_queries: bool,
    /// Where it is written down how questions were answered; `None`: in a journal of this run's own. Each part of an
    /// object keeps its answers to itself.
    pub answers: Option<Arc<Answers>>,
    /// Whether every question is about a whole run of instructions, to measure what short windows are worth.
    #[cfg(feature = "ablation")]
    pub whole_windows: bool,
    /// The types of the kernel that programs are verified against, for those that use kernel structures.
    pub kernel_types: Option<Arc<Btf>>,
    /// The oldest kernel that the result is to load on: what is rewritten is accepted for it before and after.
    pub profile: Profile,
    /// Parts of an object to work on at once at most.
    pub threads: usize,
}

/// Programs that our verifier does not support, but somebody else can judge.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Unverified {
    /// None: what is not supported stays as it is.
    #[default]
    None,
    /// All.
    All,
    /// These.
    Only(BTreeSet<ProgramId>),
}

impl Unverified {
    /// Whether a program may be rewritten without our verifier's word.
    pub fn has(&self, id: ProgramId) -> bool {
        match self {
            Unverified::None => false,
            Unverified::All => true,
            Unverified::Only(programs) => programs.contains(&id),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            goal: Goal::default(),
            model: Arc::default(),
            budget: Duration::from_secs(10),
            reserve: Duration::ZERO,
            extra_processed_insns: 1,
            frozen: BTreeSet::new(),
            rules: RuleSet::shipped(),
            without: BTreeSet::new(),
            unverified: Unverified::None,
            solver_steps: 50_000,
            search: search::DEFAULT_EFFORTS,
            isa: 3,
            keep_queries: false,
            answers: None,
            #[cfg(feature = "ablation")]
            whole_windows: false,
            kernel_types: None,
            profile: Profile::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Options {
    pub(crate) fn is_without(&self, name: &str) -> bool {
        self.without.contains(name)
    }
}

/// Told between steps; answers whether to go on.
pub trait Progress: Send {
    /// Called before each attempt with the pass at work, the slots of the whole object now, and the time spent.
    /// Returning `false` ends the run with what stands.
    fn step(&mut self, pass: &'static str, slots: u32, spent: Duration) -> bool;
}

impl Progress for () {
    fn step(&mut self, _: &'static str, _: u32, _: Duration) -> bool {
        true
    }
}

/// An optimized object.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// The object, with the same functions, maps and programs in the same order.
    pub object: Object,
    /// Why each difference may be.
    pub evidence: Vec<Evidence>,
    /// The proofs of all accepted changes, in order, with [`Options::keep_queries`]. For each function the first step
    /// begins with the original, each other with the end of the one before, and the last ends with what `object` has.
    pub chain: Vec<ChainStep>,
    /// Programs left as they are, with the reason.
    pub skipped: Vec<(ProgramId, String)>,
    /// Attempts that the verifier or the judge refused: pass, function, reason. Each is something our model missed.
    pub refused: Vec<(&'static str, String, String)>,
    /// What each program cost before and costs now, in the object's order.
    pub programs: Vec<Account>,
    /// Whether it ended because the time was up, or progress said so: more time may find more.
    pub cut_short: bool,
    /// Time spent.
    pub spent: Duration,
    /// Where it went.
    pub timings: Timings,
}

/// Optimizes every function of an object that only verified programs reach.
pub fn optimize(object: &Object, options: &Options, progress: &mut dyn Progress) -> Rewrite {
    optimize_judged(object, options, progress, None)
}

/// The same, when somebody else has the last word.
pub fn optimize_judged(
    object: &Object,
    options: &Options,
    progress: &mut dyn Progress,
    judge: Option<&dyn Judge>,
) -> Rewrite {
    let shared = Shared::new(object, options, progress, judge);
    let parts = parts(object);
    let done = Mutex::new(Vec::new());
    // What only time ends comes last, for all parts, and begins from what the judge takes.
    let bounded = options.search.min(search::DEFAULT_EFFORTS);
    let waves = if bounded < options.search { vec![bounded, options.search] } else { vec![bounded] };
    let runs: Vec<Mutex<Option<Run<'_>>>> = parts.iter().map(|_| Mutex::new(None)).collect();
    for (wave, efforts) in waves.iter().enumerate() {
        shared.ahead.store(parts.iter().map(|part| part.slots).sum(), Ordering::SeqCst);
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((part, run)) = pair(&parts, &runs, next.fetch_add(1, Ordering::SeqCst)) {
                let deadline = shared.deadline(part, options.threads);
                let mut kept = run.lock().expect("no part panics");
                let mut run = kept.take().unwrap_or_else(|| Run::new(&shared, part, deadline));
                run.advance(*efforts, deadline);
                if wave + 1 == waves.len() {
                    done.lock().expect("no part panics").push((part.programs.clone(), run.finish()));
                } else {
                    *kept = Some(run);
                }
            }
        };
        match options.threads.min(parts.len()) {
            0 | 1 => work(),
            threads => std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work)))),
        }
    }
    let mut done = done.into_inner().expect("no part panics");
    done.sort_by(|one: &(Vec<ProgramId>, Done), other| one.0.cmp(&other.0));
    shared.put_together(done)
}

fn pair<'x, A, B>(some: &'x [A], others: &'x [B], at: usize) -> Option<(&'x A, &'x B)> {
    some.get(at).zip(others.get(at))
}

/// What all parts see.
pub(crate) struct Shared<'a> {
    pub original: &'a Object,
    pub options: &'a Options,
    pub prepared: Prepared<'a>,
    pub frequencies: Frequencies,
    /// What calls read.
    pub calls: Calls,
    pub judge: Option<&'a dyn Judge>,
    pub answers: Arc<Answers>,
    pub begun: Instant,
    progress: Mutex<&'a mut dyn Progress>,
    stopped: AtomicBool,
    /// Slots of the whole object now.
    pub slots: AtomicI64,
    /// Slots of parts not begun yet.
    ahead: AtomicI64,
}

/// Programs that share functions, and their functions.
pub(crate) struct Part {
    pub programs: Vec<ProgramId>,
    pub functions: BTreeSet<FunctionId>,
    /// The first id for its new instructions, and the first that is not its own any more.
    pub ids: (u32, u32),
    slots: i64,
}

impl<'a> Shared<'a> {
    fn new(
        original: &'a Object,
        options: &'a Options,
        progress: &'a mut dyn Progress,
        judge: Option<&'a dyn Judge>,
    ) -> Shared<'a> {
        let slots: u32 = original.functions.iter().map(Function::slots).sum();
        let kernel_types = options.kernel_types.clone();
        Shared {
            original,
            options,
            prepared: Prepared::new(original, &kiln_verifier::Options { kernel_types, ..Default::default() }),
            frequencies: Frequencies::of_original(original),
            calls: Calls::of(original),
            judge,
            answers: options.answers.clone().unwrap_or_default(),
            begun: Instant::now(),
            progress: Mutex::new(progress),
            stopped: AtomicBool::new(false),
            slots: AtomicI64::new(slots.into()),
            ahead: AtomicI64::new(slots.into()),
        }
    }

    /// When a part that begins now must end: its share, by slots, of the time left to all threads, but at least half of
    /// the time left, because it mostly needs a fraction of that.
    fn deadline(&self, part: &Part, threads: usize) -> Instant {
        let end = self.begun + self.options.budget.saturating_sub(self.options.reserve);
        let left = end.saturating_duration_since(Instant::now());
        let ahead = self.ahead.fetch_sub(part.slots, Ordering::SeqCst).max(part.slots).max(1);
        let share = threads.max(1) as f64 * part.slots as f64 / ahead as f64;
        Instant::now() + left.mul_f64(share.clamp(0.5, 1.0))
    }

    /// When even the judge is not asked any more.
    pub fn end(&self) -> Instant {
        self.begun + self.options.budget
    }

    /// Says what is being done; answers whether to go on.
    pub fn step(&self, pass: &'static str) -> bool {
        let slots = self.slots.load(Ordering::SeqCst).try_into().unwrap_or(0);
        if !self.progress.lock().expect("progress does not panic").step(pass, slots, self.begun.elapsed()) {
            self.stopped.store(true, Ordering::SeqCst);
        }
        !self.stopped()
    }

    /// Whether progress said to stop.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// The whole object with some functions as they are now.
    pub fn whole<'f>(&self, functions: impl IntoIterator<Item = (FunctionId, &'f Function)>, next_insn: u32) -> Object {
        let mut object = self.original.clone();
        for (id, function) in functions {
            object.functions[id.index()] = function.clone();
        }
        object.next_insn = object.next_insn.max(next_insn);
        object
    }

    fn put_together(&self, done: Vec<(Vec<ProgramId>, Done)>) -> Rewrite {
        let mut object = self.original.clone();
        let mut rewrite = Rewrite {
            evidence: Vec::new(),
            chain: Vec::new(),
            skipped: Vec::new(),
            refused: Vec::new(),
            programs: Vec::new(),
            cut_short: self.stopped(),
            spent: Duration::ZERO,
            timings: Timings::default(),
            object: Object::default(),
        };
        let mut accounts = Vec::new();
        for (_, part) in done {
            for (id, function) in part.functions {
                object.functions[id.index()] = function;
            }
            object.next_insn = object.next_insn.max(part.next_insn);
            rewrite.evidence.extend(part.evidence);
            rewrite.chain.extend(part.chain);
            rewrite.skipped.extend(part.skipped);
            rewrite.refused.extend(part.refused);
            rewrite.cut_short |= part.cut_short;
            rewrite.timings.add_all(&part.timings);
            accounts.extend(part.programs);
        }
        accounts.sort_by_key(|(id, _)| *id);
        rewrite.skipped.sort_by_key(|(id, _)| *id);
        rewrite.programs = accounts.into_iter().map(|(_, account)| account).collect();
        rewrite.object = object;
        rewrite.spent = self.begun.elapsed();
        rewrite
    }

    /// The estimated time of a run of a program, in picoseconds.
    pub fn estimate(&self, object: &Object, id: ProgramId) -> u64 {
        frequency::estimate(object, &object.programs[id.index()], &self.frequencies, &self.options.model)
    }
}

/// The parts of an object, the largest first.
fn parts(object: &Object) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (index, program) in object.programs.iter().enumerate() {
        let mut own = Part {
            programs: vec![ProgramId(index as u32)],
            functions: object.reachable_functions(program.entry).into_iter().collect(),
            ids: (0, 0),
            slots: 0,
        };
        parts = parts.into_iter().fold(Vec::new(), |mut apart, part| {
            if part.functions.is_disjoint(&own.functions) {
                apart.push(part);
            } else {
                own.programs.extend(part.programs);
                own.functions.extend(part.functions);
            }
            apart
        });
        own.programs.sort_unstable();
        parts.push(own);
    }
    let ids = (u32::MAX - object.next_insn) / (parts.len() as u32).max(1);
    for part in &mut parts {
        part.slots = part.functions.iter().map(|id| i64::from(object.function(*id).slots())).sum();
    }
    parts.sort_by_key(|part| (std::cmp::Reverse(part.slots), part.programs[0]));
    for (index, part) in parts.iter_mut().enumerate() {
        let first = object.next_insn + index as u32 * ids;
        part.ids = (first, first + ids);
    }
    parts
}
