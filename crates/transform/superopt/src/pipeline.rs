//! The passes in order, and the decision about each of their results.
//!
//! A round runs each pass over all functions at once and verifies the outcome once. Only a refusal costs more: it is
//! halved, first by functions, then by steps, until the one step to blame is found, which is left out from then on.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_equiv::{Limits, Method};
use kiln_isa::table::IsaVersion;
use kiln_platform::Profile;
use kiln_program::btf::Btf;
use kiln_program::{Function, FunctionId, InsnId, Node, Object, ProgramId};
use kiln_verifier::{Assumptions, Facts, Prepared};

use crate::available;
use crate::control_flow::{self, Change};
use crate::dead;
use crate::diamonds;
use crate::evidence::{Because, Evidence, Law};
use crate::hoist;
use crate::region::Step;
use crate::reuse;
use crate::search::{Enumerate, Search};
use crate::thread;
use crate::windows::{self, Budget};

/// How to optimize.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time to spend at most; what was found by then stands.
    pub budget: Duration,
    /// How much more a program may cost the verifier than before, in processed instructions, beside 1% of noise.
    pub extra_processed_insns: u64,
    /// Functions to leave as they are, such as those whose rewrites the kernel refused.
    pub frozen: BTreeSet<FunctionId>,
    /// Rules and laws not to use, by name.
    pub without: BTreeSet<String>,
    /// The same, in one function each.
    pub without_in: BTreeSet<(FunctionId, &'static str)>,
    /// Whether to rewrite programs that our verifier does not support too, without facts: each window is then equal
    /// in every state. Only for callers who let the kernel decide whether the result loads.
    pub unverified: bool,
    /// Milliseconds that the solver may take for one window.
    pub solver_ms: u32,
    /// Time to search each function for what no rule knows, at most.
    pub search: Duration,
    /// LLVM's version of the instruction set (`-mcpu=vN`) that new instructions may be of: 3 is what kernels since 5.1
    /// have, 4 what those since 6.6 have. What the program has itself may stay.
    pub isa: IsaVersion,
    /// Whether evidence carries the SMT-LIB query of each window.
    pub keep_queries: bool,
    /// The types of the kernel that programs are verified against, for those that use kernel structures.
    pub kernel_types: Option<Arc<Btf>>,
    /// The oldest kernel that the result is to load on: what is rewritten is accepted for it before and after.
    pub profile: Profile,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            budget: Duration::from_secs(10),
            extra_processed_insns: 1,
            frozen: BTreeSet::new(),
            without: BTreeSet::new(),
            without_in: BTreeSet::new(),
            unverified: false,
            solver_ms: 20,
            search: Duration::from_millis(500),
            isa: 3,
            keep_queries: false,
            kernel_types: None,
            profile: Profile::default(),
        }
    }
}

impl Options {
    fn is_without(&self, function: FunctionId, name: &'static str) -> bool {
        self.without.contains(name) || self.without_in.contains(&(function, name))
    }
}

/// Told between steps; answers whether to go on.
pub trait Progress {
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
    /// Programs left as they are, with the reason.
    pub skipped: Vec<(ProgramId, String)>,
    /// Attempts that the verifier refused: pass, function, reason. Each is something our model missed.
    pub refused: Vec<(&'static str, String, String)>,
    /// Time spent.
    pub spent: Duration,
}

/// What a pass works on: one function of an object, with facts that are true of it now.
pub struct Work<'a> {
    /// The object; a pass may change only the one function (and take fresh ids).
    pub object: &'a mut Object,
    /// Which function.
    pub function: FunctionId,
    /// Facts of the object as it is when the pass begins, where the verifier gave some.
    pub facts: Option<&'a Facts>,
    /// When to stop looking.
    pub deadline: Instant,
    /// How long to search.
    pub search: Duration,
    /// How hard to try at each window.
    pub limits: &'a Limits,
    /// Windows already refused.
    pub refuted: &'a mut HashSet<u64>,
    /// Steps to take at most.
    pub fuel: usize,
    /// What must not be done: a rule or law by its name, at an instruction.
    pub banned: &'a BTreeSet<(&'static str, InsnId)>,
    /// How to optimize.
    pub options: &'a Options,
}

/// A pass: a name for reports and what it does.
pub struct Pass {
    /// Its name.
    pub name: &'static str,
    /// Rewrites one function.
    pub run: fn(&mut Work<'_>) -> Vec<Evidence>,
}

/// The passes, in the order they are tried each round.
pub const PASSES: &[Pass] = &[
    Pass { name: "unreachable", run: |work| work.law_pass(control_flow::remove_unreachable) },
    Pass {
        name: "decided-branches",
        run: |work| work.repeat(Law::ConstantBranch, |_, function, banned| thread::decide_branches(function, banned)),
    },
    Pass {
        name: "threaded-branches",
        run: |work| work.repeat(Law::ThreadedBranch, |_, function, banned| thread::thread_branches(function, banned)),
    },
    Pass { name: "windows", run: run_windows },
    Pass {
        name: "available-values",
        run: |work| {
            work.repeat(Law::AvailableValue, |object, function, banned| {
                available::use_available(object, function, banned)
            })
        },
    },
    Pass {
        name: "originals",
        run: |work| {
            work.repeat(Law::AvailableValue, |object, function, banned| {
                available::read_originals(object, function, banned)
            })
        },
    },
    Pass { name: "diamonds", run: run_diamonds },
    Pass { name: "dead", run: |work| work.law_pass(dead::remove_dead) },
    Pass { name: "control-flow", run: control_flow_to_fixpoint },
    Pass {
        name: "shared-heads",
        run: |work| {
            work.repeat(Law::SharedHead, |object, function, banned| hoist::share_heads(object, function, banned))
        },
    },
    Pass {
        name: "hoisted-arms",
        run: |work| work.repeat(Law::HoistedArm, |_, function, banned| hoist::hoist_arms(function, banned)),
    },
    Pass {
        name: "kept-addresses",
        run: |work| {
            work.repeat(Law::KeptAddress, |object, function, banned| reuse::keep_addresses(object, function, banned))
        },
    },
];

/// One part in so many of a program's processed instructions counts as noise.
const NOISE: u64 = 100;

/// Times that a pass may be refused on one function before it is left out there: each costs several verifications.
const MAX_REFUSALS: usize = 6;

/// What is tried once the passes find no more.
const SEARCH: Pass = Pass { name: "search", run: run_search };

/// Rounds at most; each round shrinks the object, so this only bounds time.
const MAX_ROUNDS: usize = 16;

/// Optimizes every function of an object that only verified programs reach.
pub fn optimize(object: &Object, options: &Options, progress: &mut dyn Progress) -> Rewrite {
    let begun = Instant::now();
    let mut run = Run::new(object, options, begun);
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for pass in PASSES {
            if !run.may_go_on(pass, progress) {
                return run.finish();
            }
            let functions: Vec<FunctionId> = run.functions.iter().copied().collect();
            changed |= run.attempt(pass, &functions, usize::MAX, progress);
        }
        if !changed {
            let functions: Vec<FunctionId> = run.functions.iter().copied().collect();
            if !run.may_go_on(&SEARCH, progress) || !run.attempt(&SEARCH, &functions, usize::MAX, progress) {
                break;
            }
        }
    }
    run.finish()
}

/// What is known of a program that may change.
#[derive(Clone)]
struct Judged {
    /// Processed instructions it began with: as loaded here, and for every load where it verifies so.
    processed: [u64; 2],
    /// Under which assumptions it verifies.
    assumptions: Assumptions,
    /// Its facts, if they hold for every load.
    facts: Option<Facts>,
}

struct Run<'a> {
    object: Object,
    options: &'a Options,
    begun: Instant,
    /// Functions that may change.
    functions: BTreeSet<FunctionId>,
    /// Functions that some program without facts reaches.
    blind: BTreeSet<FunctionId>,
    /// Programs that may change.
    programs: BTreeMap<ProgramId, Judged>,
    /// All programs' facts, joined.
    facts: Facts,
    limits: Limits,
    evidence: Vec<Evidence>,
    skipped: Vec<(ProgramId, String)>,
    refused: Vec<(&'static str, String, String)>,
    banned: BTreeSet<(&'static str, InsnId)>,
    refuted: HashSet<u64>,
    /// How often a pass was refused on a function.
    refusals: BTreeMap<(&'static str, FunctionId), usize>,
    stopped: bool,
}

impl<'a> Run<'a> {
    fn new(object: &Object, options: &'a Options, begun: Instant) -> Run<'a> {
        let mut run = Run {
            object: object.clone(),
            options,
            begun,
            functions: BTreeSet::new(),
            blind: BTreeSet::new(),
            programs: BTreeMap::new(),
            facts: Facts::default(),
            limits: Limits { solver_ms: options.solver_ms, keep_query: options.keep_queries, ..Limits::default() },
            evidence: Vec::new(),
            skipped: Vec::new(),
            refused: Vec::new(),
            banned: BTreeSet::new(),
            refuted: HashSet::new(),
            refusals: BTreeMap::new(),
            stopped: false,
        };
        let mut fixed = BTreeSet::new();
        let prepared = prepared(object, options);
        for index in 0..object.programs.len() {
            let (id, program) = (ProgramId(index as u32), &object.programs[index]);
            let reached = object.reachable_functions(program.entry);
            // Facts must hold for every load. A program that only verifies as it is loaded here gives none.
            let judged = verify(&prepared, id, Assumptions::AnyLoad, options)
                .or_else(|_| verify(&prepared, id, Assumptions::AsLoaded, options));
            match judged {
                Ok(judged) => {
                    match &judged.facts {
                        Some(facts) => run.facts.join(facts),
                        None => run.blind.extend(&reached),
                    }
                    run.programs.insert(id, judged);
                    run.functions.extend(reached);
                }
                Err(Unverified { unsupported: true, .. }) if options.unverified => {
                    run.blind.extend(&reached);
                    run.functions.extend(reached);
                }
                Err(Unverified { reason, .. }) => {
                    run.skipped.push((id, reason));
                    fixed.extend(reached);
                }
            }
        }
        fixed.extend(&options.frozen);
        run.functions.retain(|function| !fixed.contains(function));
        run
    }

    fn may_go_on(&mut self, pass: &Pass, progress: &mut dyn Progress) -> bool {
        let spent = self.begun.elapsed();
        let slots = self.object.functions.iter().map(Function::slots).sum();
        self.stopped |= spent >= self.options.budget || !progress.step(pass.name, slots, spent);
        !self.stopped
    }

    /// Runs a pass on some functions and keeps the result if it is accepted; else what of it is.
    fn attempt(&mut self, pass: &Pass, functions: &[FunctionId], fuel: usize, progress: &mut dyn Progress) -> bool {
        let Some((candidate, evidence)) = self.propose(pass, functions, fuel, progress) else { return false };
        let changed: BTreeSet<FunctionId> = evidence.iter().map(|one| one.function).collect();
        match self.accept(&candidate, &changed) {
            Ok(judged) => {
                self.take(candidate, evidence, judged);
                true
            }
            Err(_) if changed.len() > 1 => {
                let changed: Vec<_> = changed.into_iter().collect();
                let (left, right) = changed.split_at(changed.len() / 2);
                let left = self.attempt(pass, left, usize::MAX, progress);
                self.attempt(pass, right, usize::MAX, progress) || left
            }
            Err(reason) => {
                let function = changed.into_iter().next().expect("evidence names a function");
                self.blame(pass, function, &evidence, reason, progress)
            }
        }
    }

    /// Runs a pass on a copy; `None` when it finds nothing, or when it is time to stop.
    fn propose(
        &mut self,
        pass: &Pass,
        functions: &[FunctionId],
        fuel: usize,
        progress: &mut dyn Progress,
    ) -> Option<(Object, Vec<Evidence>)> {
        let mut candidate = self.object.clone();
        let mut evidence = Vec::new();
        for function in functions {
            if self.refusals.get(&(pass.name, *function)).is_some_and(|refusals| *refusals >= MAX_REFUSALS) {
                continue;
            }
            if !self.may_go_on(pass, progress) {
                break;
            }
            let mut work = Work {
                object: &mut candidate,
                function: *function,
                facts: Some(&self.facts).filter(|_| !self.blind.contains(function)),
                deadline: self.begun + self.options.budget,
                search: self.options.search,
                limits: &self.limits,
                refuted: &mut self.refuted,
                fuel,
                banned: &self.banned,
                options: self.options,
            };
            evidence.extend((pass.run)(&mut work));
        }
        (!evidence.is_empty()).then_some((candidate, evidence))
    }

    fn take(&mut self, candidate: Object, evidence: Vec<Evidence>, judged: BTreeMap<ProgramId, Judged>) {
        self.object = candidate;
        self.evidence.extend(evidence);
        for (id, judged) in judged {
            let began = self.programs[&id].processed;
            self.programs.insert(id, Judged { processed: began, ..judged });
        }
        self.facts = Facts::default();
        for judged in self.programs.values() {
            if let Some(facts) = &judged.facts {
                self.facts.join(facts);
            }
        }
    }

    /// Finds the first step of a refused attempt that is to blame, keeps those before it, and bans it.
    fn blame(
        &mut self,
        pass: &Pass,
        function: FunctionId,
        evidence: &[Evidence],
        mut reason: String,
        progress: &mut dyn Progress,
    ) -> bool {
        *self.refusals.entry((pass.name, function)).or_default() += 1;
        let (mut good, mut bad) = (0, evidence.len());
        let mut best = None;
        while bad - good > 1 && !self.stopped {
            let middle = usize::midpoint(good, bad);
            let Some((candidate, own)) = self.propose(pass, &[function], middle, progress) else { break };
            // A pass may take more than one step for one unit of fuel.
            if own.len() >= bad || own.len() <= good {
                break;
            }
            match self.accept(&candidate, &[function].into()) {
                Ok(judged) => {
                    good = own.len();
                    best = Some((candidate, own, judged));
                }
                Err(why) => {
                    bad = own.len();
                    reason = why;
                }
            }
        }
        for culprit in &evidence[good..bad] {
            let name = self.object.function(function).name.clone();
            let what = culprit.because.name();
            let refusal = format!("{what} at {}: {reason}", culprit.before.first().map_or("", String::as_str));
            self.refused.push((pass.name, name, refusal));
            self.banned.insert((what, culprit.site));
        }
        match best {
            Some((candidate, evidence, judged)) => {
                self.take(candidate, evidence, judged);
                true
            }
            // Without the culprits the rest may do.
            None => bad - good < evidence.len(),
        }
    }

    /// Whether every program that a change concerns still verifies, at no more cost, and is no larger.
    fn accept(
        &self,
        candidate: &Object,
        changed: &BTreeSet<FunctionId>,
    ) -> Result<BTreeMap<ProgramId, Judged>, String> {
        kiln_program::validate(candidate).map_err(|error| error.to_string())?;
        let prepared = prepared(candidate, self.options);
        let mut judged = BTreeMap::new();
        for (id, before) in &self.programs {
            let (old, new) = (&self.object.programs[id.index()], &candidate.programs[id.index()]);
            if !candidate.reachable_functions(new.entry).iter().any(|function| changed.contains(function)) {
                continue;
            }
            if candidate.program_slots(new) > self.object.program_slots(old) {
                return Err(format!("program {} would grow", new.name));
            }
            let own = verify(&prepared, *id, before.assumptions, self.options).map_err(|refusal| refusal.reason)?;
            for (own, before) in own.processed.into_iter().zip(before.processed) {
                let allowed = before + before / NOISE + self.options.extra_processed_insns;
                if own > allowed {
                    let name = &new.name;
                    return Err(format!("program {name} would take {own} processed instructions instead of {before}"));
                }
            }
            judged.insert(*id, own);
        }
        Ok(judged)
    }

    fn finish(self) -> Rewrite {
        Rewrite {
            object: self.object,
            evidence: self.evidence,
            skipped: self.skipped,
            refused: self.refused,
            spent: self.begun.elapsed(),
        }
    }
}

/// Why a program did not verify.
struct Unverified {
    /// It was not rejected: our verifier lacks something, or it is too much for it.
    unsupported: bool,
    reason: String,
}

/// An object whose programs are about to be verified.
fn prepared<'a>(object: &'a Object, options: &Options) -> Prepared<'a> {
    let options = kiln_verifier::Options { kernel_types: options.kernel_types.clone(), ..Default::default() };
    Prepared::new(object, &options)
}

fn verify(
    object: &Prepared<'_>,
    id: ProgramId,
    assumptions: Assumptions,
    options: &Options,
) -> Result<Judged, Unverified> {
    let verify = |assumptions, skip_facts| {
        let options = kiln_verifier::Options {
            assumptions,
            skip_facts,
            kernel_types: options.kernel_types.clone(),
            profile: options.profile.clone(),
            ..Default::default()
        };
        object.verify(&object.object().programs[id.index()], &options).map_err(|error| {
            let unsupported =
                matches!(error, kiln_verifier::Error::Unsupported { .. } | kiln_verifier::Error::Limit { .. });
            Unverified { unsupported, reason: error.to_string() }
        })
    };
    let verified = verify(assumptions, false)?;
    let anywhere = verified.statistics.processed_insns;
    let here = match assumptions {
        Assumptions::AsLoaded => anywhere,
        Assumptions::AnyLoad => verify(Assumptions::AsLoaded, true)?.statistics.processed_insns,
    };
    let facts = (assumptions == Assumptions::AnyLoad).then_some(verified.facts);
    Ok(Judged { processed: [here, anywhere], assumptions, facts })
}

impl Work<'_> {
    fn is_banned(&self, law: Law, at: InsnId) -> bool {
        self.options.is_without(self.function, law.name()) || self.banned.contains(&(law.name(), at))
    }

    /// Runs a pass that changes the function by laws, and writes down what it did.
    fn law_pass(&mut self, pass: impl FnOnce(&mut Function, Option<&Facts>) -> Vec<Change>) -> Vec<Evidence> {
        let id = self.function;
        let mut function = self.object.function(id).clone();
        let changes = pass(&mut function, self.facts);
        let banned = changes.iter().any(|change| self.is_banned(change.law, change.at));
        if banned || changes.len() > self.fuel {
            return Vec::new();
        }
        let evidence = changes.into_iter().map(|change| describe(self.object, id, change)).collect();
        self.object.functions[id.index()] = function;
        evidence
    }
}

impl Work<'_> {
    /// Runs a pass that does one thing a call, as often as it finds something that is not banned.
    fn repeat(
        &mut self,
        law: Law,
        pass: impl Fn(&mut Object, &mut Function, &dyn Fn(InsnId) -> bool) -> Vec<Change>,
    ) -> Vec<Evidence> {
        let id = self.function;
        let mut evidence = Vec::new();
        while evidence.len() < self.fuel && Instant::now() < self.deadline {
            let mut function = self.object.function(id).clone();
            let (banned, without) = (self.banned, self.options.is_without(id, law.name()));
            let changes = pass(self.object, &mut function, &|at| without || banned.contains(&(law.name(), at)));
            if changes.is_empty() {
                break;
            }
            evidence.extend(changes.into_iter().map(|change| describe(self.object, id, change)));
            self.object.functions[id.index()] = function;
        }
        evidence
    }
}

fn run_windows(work: &mut Work<'_>) -> Vec<Evidence> {
    rewrite_windows(work, None, work.deadline)
}

/// Searches until nothing is found, or the function's share of the time is spent: a quarter of what is left at most.
fn run_search(work: &mut Work<'_>) -> Vec<Evidence> {
    let now = Instant::now();
    let deadline = now + (work.deadline.saturating_duration_since(now) / 4).min(work.search);
    rewrite_windows(work, Some(&mut Enumerate { length: 2 }), deadline)
}

fn rewrite_windows(work: &mut Work<'_>, search: Option<&mut dyn Search>, deadline: Instant) -> Vec<Evidence> {
    let mut function = work.object.function(work.function).clone();
    let (options, id) = (work.options, work.function);
    let without = |name: &'static str| options.is_without(id, name);
    let mut budget = Budget {
        deadline,
        limits: work.limits,
        refuted: work.refuted,
        fuel: work.fuel,
        banned: work.banned,
        isa: options.isa,
        without: &without,
    };
    let steps = windows::rewrite(work.object, (work.function, &mut function), work.facts, &mut budget, search);
    let evidence = steps.into_iter().map(|step| describe_step(work.object, work.function, step)).collect();
    work.object.functions[work.function.index()] = function;
    evidence
}

fn run_diamonds(work: &mut Work<'_>) -> Vec<Evidence> {
    let mut function = work.object.function(work.function).clone();
    let (options, id) = (work.options, work.function);
    let allowed = |name: &'static str, at| !options.is_without(id, name) && !work.banned.contains(&(name, at));
    let steps = diamonds::rewrite(work.object, &mut function, work.facts, work.limits, work.fuel, &allowed);
    let evidence = steps.into_iter().map(|step| describe_step(work.object, work.function, step)).collect();
    work.object.functions[work.function.index()] = function;
    evidence
}

/// The passes that need only the graph, in turn, until none finds more.
fn control_flow_to_fixpoint(work: &mut Work<'_>) -> Vec<Evidence> {
    type Pass = (Law, fn(&Object, &mut Function) -> Vec<Change>);
    const LAWS: &[Pass] = &[
        (Law::ThreadedJump, |_, function| control_flow::thread_jumps(function)),
        (Law::Unreachable, |_, function| control_flow::remove_unreachable_blocks(function)),
        (Law::JumpToNext, |_, function| control_flow::remove_jumps_to_next(function)),
        (Law::InvertedBranch, |_, function| control_flow::invert_branches(function)),
        (Law::Layout, |_, function| control_flow::lay_out(function)),
        (Law::JumpToExit, |_, function| control_flow::exit_early(function)),
        (Law::SharedTail, control_flow::share_tails),
    ];
    let id = work.function;
    let mut function = work.object.function(id).clone();
    let mut evidence: Vec<Evidence> = Vec::new();
    loop {
        let mut found = false;
        for (_, pass) in LAWS {
            let mut candidate = function.clone();
            let changes = pass(work.object, &mut candidate);
            let banned = changes.iter().any(|change| work.is_banned(change.law, change.at));
            if changes.is_empty() || banned {
                continue;
            }
            if evidence.len() + changes.len() > work.fuel {
                found = false;
                break;
            }
            found = true;
            function = candidate;
            evidence.extend(changes.into_iter().map(|change| describe(work.object, id, change)));
        }
        if !found || Instant::now() >= work.deadline {
            break;
        }
    }
    work.object.functions[id.index()] = function;
    evidence
}

fn slots(nodes: &[Node]) -> i64 {
    nodes.iter().map(|node| i64::from(node.insn.slots())).sum()
}

fn describe(object: &Object, function: FunctionId, change: Change) -> Evidence {
    evidence(object, function, change.at, Because::Law(change.law), &change.before, &change.after)
}

fn describe_step(object: &Object, function: FunctionId, step: Step) -> Evidence {
    let because = Because::Window {
        proposed_by: step.rule,
        proved_by: match step.proof.method {
            Method::Normalized => "normal-form",
            Method::Smt { .. } => "smt",
        },
        query: step.proof.query,
        micros: step.proof.micros,
    };
    evidence(object, function, step.at, because, &step.before, &step.after)
}

fn evidence(
    object: &Object,
    function: FunctionId,
    site: InsnId,
    because: Because,
    before: &[Node],
    after: &[Node],
) -> Evidence {
    let listing = |nodes: &[Node]| nodes.iter().map(|node| listed(object, node)).collect();
    Evidence {
        function,
        function_name: object.function(function).name.clone(),
        at: before.first().map_or(site, |node| node.id),
        site,
        because,
        slots_saved: slots(before) - slots(after),
        before: listing(before),
        after: listing(after),
    }
}

/// An instruction with names for what it refers to; a branch's target by its id, which rewrites do not change.
fn listed(object: &Object, node: &Node) -> String {
    match node.target() {
        Some(target) => {
            let text = node.insn.to_string();
            format!("{}@{}", text.strip_suffix("+0x0").unwrap_or(&text), target.0)
        }
        None => kiln_program::text::node_text(object, node, &kiln_program::text::Labels::default()),
    }
}
