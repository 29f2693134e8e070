//! One part of an object through the passes, and the decision about each of their results.
//!
//! A round runs each pass over all functions at once and verifies the outcome once. Only a refusal costs more: it is
//! halved, first by functions, then by steps, until the one step to blame is found, which is left out from then on.
//!
//! What stands after each accepted attempt is kept ([`Snapshot`]): when the judge refuses the end of it all, the last
//! of them that it takes is the beginning of a second run, in which it is asked about each step (see [`crate::judged`]).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kiln_equiv::Limits;
use kiln_equiv::simulation::arguments::Arguments;
use kiln_equiv::simulation::inlined::{Inlined, Placed};
use kiln_equiv::simulation::{Question, simulate};
use kiln_isa::Insn;
use kiln_program::{Function, FunctionId, InsnId, Node, Object, ProgramId, Reference};
use kiln_verifier::{Assumptions, Facts, Prepared, Verified};

use crate::cost::{Cost, Goal};
use crate::evidence::{ChainStep, Evidence};
use crate::laws::inline;
use crate::passes::{PASSES, Pass, SEARCHES, Work};
use crate::pipeline::{Options, Part, Shared};
use crate::search::Memory;
use crate::timings::Timings;
use crate::windows::Banned;

/// Times that a pass may be refused on one function before it is left out there: each costs several verifications.
const MAX_REFUSALS: usize = 6;
/// Rounds in a row that may change something and yet save nothing.
const IDLE_ROUNDS: usize = 4;
/// Time between two looks at whether to stop, while a search runs.
const BETWEEN_STEPS: Duration = Duration::from_millis(50);
/// Instructions that the facts of a part's programs may speak of, counted for each program, before they hold one value.
const MAX_FACTS: usize = 20_000;
/// Snapshots from which on the judge is asked, so that only the one that it takes has to be kept.
const MANY_SNAPSHOTS: usize = 24;

/// What a program cost and costs.
#[derive(Clone, Debug)]
pub struct Account {
    /// Before, where our verifier accepts it; else why not.
    pub before: Result<Standing, kiln_verifier::Error>,
    /// Now; `None` where it was not accepted before.
    pub after: Option<Standing>,
    /// Estimated time of a run before and now, in picoseconds.
    pub picoseconds: [u64; 2],
}

/// A program that our verifier accepts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Standing {
    /// What it costs.
    pub cost: Cost,
    /// Stack bytes of the deepest chain of calls.
    pub stack_bytes: u32,
}

/// What became of a part.
pub(crate) struct Done {
    pub functions: BTreeMap<FunctionId, Function>,
    pub next_insn: u32,
    pub evidence: Vec<Evidence>,
    pub chain: Vec<ChainStep>,
    pub skipped: Vec<(ProgramId, String)>,
    pub refused: Vec<(&'static str, String, String)>,
    pub programs: Vec<(ProgramId, Account)>,
    pub cut_short: bool,
    pub timings: Timings,
}

/// What is known of a program that may change.
#[derive(Clone)]
struct Known {
    began: Standing,
    now: Standing,
    /// Under which assumptions it verifies.
    assumptions: Assumptions,
    /// Its facts, if they hold for every load; of several programs, where those were too many.
    facts: Option<Arc<Facts>>,
}

/// What stood after an accepted attempt.
struct Snapshot {
    functions: BTreeMap<FunctionId, Function>,
    next_insn: u32,
    evidence: usize,
    chain: usize,
    /// Why the goal forbids that a run ends with it, where our own verifier is who says so.
    complaint: Option<String>,
}

/// A result that is accepted, not yet taken.
struct Accepted {
    functions: BTreeMap<FunctionId, Function>,
    next_insn: u32,
    evidence: Vec<Evidence>,
    chain: Vec<ChainStep>,
    programs: BTreeMap<ProgramId, Known>,
}

pub(crate) struct Run<'a> {
    shared: &'a Shared<'a>,
    options: &'a Options,
    part: &'a Part,
    deadline: Instant,
    /// The object; functions of other parts are left out of it.
    object: Object,
    /// Functions that may change.
    functions: BTreeSet<FunctionId>,
    /// Functions that some program without facts reaches.
    blind: BTreeSet<FunctionId>,
    /// Programs that our verifier accepts.
    programs: BTreeMap<ProgramId, Known>,
    /// Why it does not accept the others.
    unverified: BTreeMap<ProgramId, kiln_verifier::Error>,
    /// All programs' facts, joined.
    facts: Arc<Facts>,
    limits: Limits,
    evidence: Vec<Evidence>,
    chain: Vec<ChainStep>,
    skipped: Vec<(ProgramId, String)>,
    refused: Vec<(&'static str, String, String)>,
    banned: Banned,
    refuted: HashSet<u64>,
    searched: Memory,
    /// How often a pass was refused on a function.
    refusals: BTreeMap<(usize, FunctionId), usize>,
    /// Accepted attempts so far.
    version: u64,
    /// Passes that found nothing, and in which version.
    idle: BTreeMap<usize, u64>,
    trail: Vec<Snapshot>,
    /// Whether the judge is asked about each step.
    ask_judge: bool,
    /// When it is asked about what stands.
    checkpoint: Instant,
    /// How many of the searches to use.
    efforts: usize,
    cut_short: bool,
    timings: Timings,
}

impl<'a> Run<'a> {
    /// Verifies a part's programs.
    pub fn new(shared: &'a Shared<'a>, part: &'a Part, deadline: Instant) -> Run<'a> {
        let options = shared.options;
        let mut run = Run {
            shared,
            options,
            part,
            deadline,
            object: only(shared.original, part),
            functions: BTreeSet::new(),
            blind: BTreeSet::new(),
            programs: BTreeMap::new(),
            unverified: BTreeMap::new(),
            facts: Arc::default(),
            limits: Limits {
                solver_steps: options.solver_steps,
                keep_query: options.keep_queries,
                answers: Some(Arc::new(shared.answers.beside())),
                #[cfg(feature = "ablation")]
                whole: options.whole_windows,
                ..Limits::default()
            },
            evidence: Vec::new(),
            chain: Vec::new(),
            skipped: Vec::new(),
            refused: Vec::new(),
            banned: Banned::default(),
            refuted: HashSet::new(),
            searched: Memory::new(shared.original.functions.iter().map(|function| u64::from(function.slots())).sum()),
            refusals: BTreeMap::new(),
            version: 0,
            idle: BTreeMap::new(),
            trail: Vec::new(),
            ask_judge: false,
            checkpoint: deadline,
            efforts: 0,
            cut_short: false,
            timings: Timings::default(),
        };
        run.verify_all();
        run
    }

    fn verify_all(&mut self) {
        let mut fixed = BTreeSet::new();
        for id in &self.part.programs {
            let entry = self.shared.original.programs[id.index()].entry;
            let reached = self.shared.original.reachable_functions(entry);
            // Facts must hold for every load. A program that only verifies as it is loaded here gives none.
            let deadline = Some(self.deadline);
            let verify = |assumptions| self.shared.verify(&self.shared.prepared, *id, assumptions, deadline);
            let begun = Instant::now();
            let known = verify(Assumptions::AnyLoad).or_else(|_| verify(Assumptions::AsLoaded));
            self.cut_short |= known.is_err() && Instant::now() >= self.deadline;
            self.timings.add("verifier", begun.elapsed());
            match known {
                Ok(known) => {
                    if known.facts.is_none() {
                        self.blind.extend(&reached);
                    }
                    self.programs.insert(*id, known);
                    share_facts(&mut self.programs);
                    self.functions.extend(reached);
                }
                Err(error) => {
                    if is_unsupported(&error) && self.options.unverified.has(*id) {
                        self.blind.extend(&reached);
                        self.functions.extend(reached);
                    } else {
                        self.skipped.push((*id, error.to_string()));
                        fixed.extend(reached);
                    }
                    self.unverified.insert(*id, error);
                }
            }
        }
        fixed.extend(&self.options.frozen);
        self.functions.retain(|function| !fixed.contains(function));
        self.join_facts();
        self.keep_snapshot();
    }

    /// Runs the passes with so many searches, and asks the judge.
    pub fn advance(&mut self, efforts: usize, deadline: Instant) {
        if Instant::now() >= deadline {
            self.cut_short = true;
            return;
        }
        (self.efforts, self.deadline) = (efforts, deadline);
        self.checkpoint = halfway(deadline);
        self.cut_short = false;
        self.searched.cut_short = false;
        self.rounds();
        if self.settle() {
            self.rounds();
        }
    }

    /// What became of it.
    pub fn finish(self) -> Done {
        let account = |run: &Run<'_>, id: ProgramId| match run.programs.get(&id) {
            Some(known) => Account {
                before: Ok(known.began),
                after: Some(known.now),
                picoseconds: [known.began, known.now].map(|standing| standing.cost.picoseconds),
            },
            None => {
                let before = run.shared.estimate(run.shared.original, id);
                let after = if run.version == 0 { before } else { run.shared.estimate(&run.object, id) };
                Account { before: Err(run.unverified[&id].clone()), after: None, picoseconds: [before, after] }
            }
        };
        Done {
            programs: self.part.programs.iter().map(|id| (*id, account(&self, *id))).collect(),
            functions: self.own_functions(),
            next_insn: self.object.next_insn,
            evidence: self.evidence,
            chain: self.chain,
            skipped: self.skipped,
            refused: self.refused,
            cut_short: self.cut_short,
            timings: self.timings,
        }
    }

    fn rounds(&mut self) {
        let (mut least, mut idle) = ([u64::MAX; 3], 0);
        while idle < IDLE_ROUNDS {
            idle = if self.lowers(&mut least) { 0 } else { idle + 1 };
            if Instant::now() >= self.checkpoint || self.trail.len() > MANY_SNAPSHOTS {
                self.settle();
                self.checkpoint = halfway(self.deadline);
            }
            let mut changed = false;
            for pass in &*PASSES {
                if !self.may_go_on(pass) {
                    return;
                }
                changed |= self.attempt_unless_idle(pass);
            }
            let functions = self.called();
            let mut searches = SEARCHES.iter().take(self.efforts);
            if !changed && !searches.any(|pass| self.may_go_on(pass) && self.attempt(pass, &functions, usize::MAX)) {
                self.cut_short |= self.searched.cut_short || Instant::now() >= self.deadline;
                return;
            }
        }
    }

    /// Whether all programs together are cheaper than ever in some way: in slots, estimated time or processed
    /// instructions. None of them can go down for ever.
    fn lowers(&self, least: &mut [u64; 3]) -> bool {
        let programs = self.part.programs.iter().map(|id| (*id, &self.object.programs[id.index()]));
        let mut now = [0; 3];
        for (id, program) in programs {
            now[0] += u64::from(self.object.program_slots(program));
            now[1] += self.shared.estimate(&self.object, id);
            now[2] += self.programs.get(&id).map_or(0, |known| known.now.cost.processed.iter().sum());
        }
        let lower = now.iter().zip(&*least).any(|(now, least)| now < least);
        least.iter_mut().zip(now).for_each(|(least, now)| *least = now.min(*least));
        lower
    }

    /// The judge has the last word. What it refuses is gone back from, to the last state that it takes, and from there
    /// on it is asked about each step. Returns whether that was so.
    ///
    /// When time ends before such a state is found, the state is the one that it took last.
    fn settle(&mut self) -> bool {
        if self.ask_judge || self.trail.len() < 2 {
            return false;
        }
        let mut trail = std::mem::take(&mut self.trail);
        let (mut good, mut bad) = (0, trail.len());
        let mut complaint = None;
        // The last one first: mostly it is taken.
        let mut at = trail.len() - 1;
        while bad - good > 1 && Instant::now() < self.shared.end() {
            match self.judged(&trail[at]) {
                None => good = at,
                Some(why) => {
                    bad = at;
                    complaint = Some(why);
                }
            }
            at = usize::midpoint(good, bad);
        }
        let last = trail.len() - 1;
        let taken = trail.swap_remove(good);
        if good < last {
            self.go_back(&taken);
            let name = self.object.function(*self.part.functions.first().expect("a part has functions")).name.clone();
            let why = complaint.unwrap_or_else(|| "there was no time left to ask".to_owned());
            self.refused.push(("judge", name, why));
            self.ask_judge = true;
            self.idle.clear();
        }
        self.trail.push(taken);
        good < last
    }

    /// What is wrong with a state.
    fn judged(&mut self, snapshot: &Snapshot) -> Option<String> {
        if snapshot.complaint.is_some() {
            return snapshot.complaint.clone();
        }
        let judge = self.shared.judge?;
        let whole = self.shared.whole(snapshot.functions.iter().map(|(id, own)| (*id, own)), snapshot.next_insn);
        let complaints = self.timings.time("judge", || judge.judge(&whole, &self.part.programs));
        complaints.into_iter().next().map(|(_, why)| why)
    }

    /// Why the goal forbids that programs end up like this, where the judge exists but cannot say.
    fn harder<'k>(&self, programs: impl IntoIterator<Item = (&'k ProgramId, &'k Known)>) -> Option<String> {
        let judge = self.shared.judge.filter(|_| self.options.goal == Goal::Balanced)?;
        programs.into_iter().filter(|(id, _)| !judge.knows(**id)).find_map(|(id, known)| {
            let [old, new] = [known.began, known.now].map(|standing| standing.cost.processed[0]);
            let name = &self.object.programs[id.index()].name;
            (new > old).then(|| format!("program {name} would take {new} processed instructions instead of {old}"))
        })
    }

    fn go_back(&mut self, snapshot: &Snapshot) {
        self.restore(snapshot.functions.clone(), snapshot.next_insn);
        self.evidence.truncate(snapshot.evidence);
        self.chain.truncate(snapshot.chain);
        let prepared = self.shared.prepared.for_version(&self.object);
        let mut programs = BTreeMap::new();
        for (id, known) in &self.programs {
            let again = self.shared.verify(&prepared, *id, known.assumptions, None);
            let again = again.unwrap_or_else(|error| panic!("it was accepted before: {error}"));
            programs.insert(*id, Known { began: known.began, ..again });
            share_facts(&mut programs);
        }
        self.programs = programs;
        self.join_facts();
    }

    fn may_go_on(&mut self, pass: &Pass) -> bool {
        let goes_on = Instant::now() < self.deadline && self.shared.step(pass.name);
        self.cut_short |= !goes_on;
        goes_on
    }

    /// Functions that may change and are reached. One that is no longer called costs nothing, and nothing can be proved of it.
    fn called(&self) -> Vec<FunctionId> {
        let entries = self.part.programs.iter().map(|id| self.object.programs[id.index()].entry);
        let reached: BTreeSet<_> = entries.flat_map(|entry| self.object.reachable_functions(entry)).collect();
        self.functions.intersection(&reached).copied().collect()
    }

    fn attempt_unless_idle(&mut self, pass: &Pass) -> bool {
        if self.idle.get(&pass.index) == Some(&self.version) {
            return false;
        }
        let version = self.version;
        let changed = self.attempt(pass, &self.called(), usize::MAX);
        if !changed && self.version == version {
            self.idle.insert(pass.index, version);
        }
        changed
    }

    /// Runs a pass on some functions and keeps the result if it is accepted; else what of it is.
    fn attempt(&mut self, pass: &Pass, functions: &[FunctionId], fuel: usize) -> bool {
        let (before, next_insn) = (self.copies(functions), self.object.next_insn);
        let Some(mut evidence) = self.propose(pass, functions, fuel) else { return false };
        let changed: BTreeSet<FunctionId> = evidence.iter().map(|one| one.function).collect();
        let proved = self.prove_changed(&before, &mut evidence);
        match proved.and_then(|chain| Ok((chain, self.accept(&changed)?))) {
            Ok((chain, programs)) => {
                self.take(evidence, chain, programs);
                true
            }
            Err(_) if changed.len() > 1 => {
                self.restore(before, next_insn);
                let changed: Vec<_> = changed.into_iter().collect();
                let (left, right) = changed.split_at(changed.len() / 2);
                let left = self.attempt(pass, left, usize::MAX);
                self.attempt(pass, right, usize::MAX) || left
            }
            Err(reason) => {
                self.restore(before, next_insn);
                let function = changed.into_iter().next().expect("evidence names a function");
                self.blame(pass, function, &evidence, reason)
            }
        }
    }

    /// Runs a pass; `None` when it finds nothing, or when it is time to stop.
    fn propose(&mut self, pass: &Pass, functions: &[FunctionId], fuel: usize) -> Option<Vec<Evidence>> {
        let mut evidence = Vec::new();
        let shared = self.shared;
        let asked = Cell::new(Instant::now());
        // Progress draws on a terminal: not more often than somebody can see.
        let stopped = || {
            let is_time = asked.get().elapsed() >= BETWEEN_STEPS;
            if is_time {
                asked.set(Instant::now());
            }
            shared.stopped() || is_time && !shared.step(pass.name)
        };
        for (index, function) in functions.iter().enumerate() {
            if self.refusals.get(&(pass.index, *function)).is_some_and(|refusals| *refusals >= MAX_REFUSALS) {
                continue;
            }
            if !self.may_go_on(pass) {
                break;
            }
            let begun = Instant::now();
            let left = self.deadline.saturating_duration_since(begun);
            let mut work = Work {
                object: &mut self.object,
                function: *function,
                calls: &self.shared.calls,
                facts: Some(&*self.facts).filter(|_| !self.blind.contains(function)),
                deadline: self.deadline,
                share: begun + left / (functions.len() - index) as u32,
                // Parts that run side by side leave no processors over.
                threads: if self.part.programs.len() == shared.original.programs.len() {
                    self.options.threads
                } else {
                    1
                },
                frequencies: &shared.frequencies,
                memory: &mut self.searched,
                stopped: &stopped,
                limits: &self.limits,
                refuted: &mut self.refuted,
                fuel,
                banned: &self.banned,
                options: self.options,
            };
            evidence.extend(pass.run(&mut work));
            self.timings.add(pass.name, begun.elapsed());
        }
        (!evidence.is_empty()).then_some(evidence)
    }

    fn take(&mut self, evidence: Vec<Evidence>, chain: Vec<ChainStep>, programs: BTreeMap<ProgramId, Known>) {
        self.chain.extend(chain);
        let saved: i64 = evidence.iter().map(|one| one.slots_saved).sum();
        self.shared.slots.fetch_sub(saved, Ordering::SeqCst);
        self.evidence.extend(evidence);
        self.programs.extend(programs);
        self.version += 1;
        self.join_facts();
        self.keep_snapshot();
    }

    fn join_facts(&mut self) {
        let mut all = different_facts(&self.programs).into_iter();
        self.facts = match (all.next(), all.next()) {
            (None, _) => Arc::default(),
            (Some(only), None) => Arc::clone(only),
            (Some(first), Some(second)) => {
                let mut joined = Facts::clone(first);
                std::iter::once(second).chain(all).for_each(|facts| joined.join(facts));
                Arc::new(joined)
            }
        };
    }

    fn keep_snapshot(&mut self) {
        if self.shared.judge.is_none() {
            return;
        }
        let (functions, next_insn) = (self.own_functions(), self.object.next_insn);
        let (evidence, chain) = (self.evidence.len(), self.chain.len());
        let complaint = self.harder(&self.programs);
        self.trail.push(Snapshot { functions, next_insn, evidence, chain, complaint });
    }

    fn own_functions(&self) -> BTreeMap<FunctionId, Function> {
        self.part.functions.iter().map(|id| (*id, self.object.function(*id).clone())).collect()
    }

    fn copies(&self, functions: &[FunctionId]) -> BTreeMap<FunctionId, Function> {
        functions.iter().map(|id| (*id, self.object.function(*id).clone())).collect()
    }

    fn restore(&mut self, functions: BTreeMap<FunctionId, Function>, next_insn: u32) {
        for (id, function) in functions {
            self.object.functions[id.index()] = function;
        }
        self.object.next_insn = next_insn;
    }

    /// Finds the first step of a refused attempt that is to blame, keeps those before it, and bans it.
    fn blame(&mut self, pass: &Pass, function: FunctionId, evidence: &[Evidence], mut reason: String) -> bool {
        *self.refusals.entry((pass.index, function)).or_default() += 1;
        let (mut good, mut bad) = (0, evidence.len());
        let mut best = None;
        let (before, next_insn) = (self.copies(&[function]), self.object.next_insn);
        while bad - good > 1 && !self.cut_short {
            let middle = usize::midpoint(good, bad);
            let own = self.propose(pass, &[function], middle);
            // A pass may take more than one step for one unit of fuel.
            let Some(mut own) = own.filter(|own| own.len() < bad && own.len() > good) else {
                self.restore(before.clone(), next_insn);
                break;
            };
            let proved = self.prove_changed(&before, &mut own);
            match proved.and_then(|chain| Ok((chain, self.accept(&[function].into())?))) {
                Ok((chain, programs)) => {
                    good = own.len();
                    let functions = self.copies(&[function]);
                    let next_insn = self.object.next_insn;
                    best = Some(Accepted { functions, next_insn, evidence: own, chain, programs });
                }
                Err(why) => {
                    bad = own.len();
                    reason = why;
                }
            }
            self.restore(before.clone(), next_insn);
        }
        // If the time ended before the step to blame was found, no step is banned.
        let culprits = if self.cut_short { &[] } else { &evidence[good..bad] };
        for culprit in culprits {
            let name = self.object.function(function).name.clone();
            let what = culprit.because.name();
            let refusal = format!("{what} at {}: {reason}", culprit.before.first().map_or("", String::as_str));
            self.refused.push((pass.name, name, refusal));
            self.banned.insert(what, culprit.site);
        }
        match best {
            Some(best) => {
                self.restore(best.functions, best.next_insn);
                self.take(best.evidence, best.chain, best.programs);
                true
            }
            // Without the culprits the rest may do.
            None => bad - good < evidence.len(),
        }
    }

    /// Proves that every changed function does what it did before; returns the proofs where evidence is to carry them.
    fn prove_changed(
        &mut self,
        before: &BTreeMap<FunctionId, Function>,
        evidence: &mut [Evidence],
    ) -> Result<Vec<ChainStep>, String> {
        let begun = Instant::now();
        let arguments = Arguments::of(&self.object, before);
        let changed: BTreeSet<FunctionId> = evidence.iter().map(|one| one.function).collect();
        let mut chain = Vec::new();
        let result = changed.into_iter().try_for_each(|function| {
            let facts = Some(&*self.facts).filter(|_| !self.blind.contains(&function));
            let after = self.object.function(function);
            let calls = self.placed(before, function, evidence)?;
            let written_out = match calls.is_empty() {
                true => None,
                false => {
                    let inlined = Inlined::new(&before[&function], after, &calls, facts);
                    Some(inlined.ok_or_else(|| "not proved: the callee's frame cannot be told".to_owned())?)
                }
            };
            let question = Question {
                object: &self.object,
                before: written_out.as_ref().map_or(&before[&function], |inlined| &inlined.function),
                after,
                facts,
                inlined: written_out.as_ref(),
                arguments: &arguments,
                solver_steps: self.options.solver_steps,
                keep_segments: self.options.keep_queries,
                stop: &|| Instant::now() >= self.deadline || self.shared.stopped(),
            };
            let simulation = simulate(&question).map_err(|reason| format!("not proved: {reason}"))?;
            if self.options.keep_queries {
                let simulation = Arc::new(simulation);
                let own = evidence.iter_mut().filter(|one| one.function == function);
                own.for_each(|one| one.simulation = Some(simulation.clone()));
                let (before, after) = (Arc::new(before[&function].clone()), Arc::new(after.clone()));
                let written_out = written_out.map(|inlined| Arc::new(inlined.function));
                chain.push(ChainStep { function, before, after, written_out, simulation });
            }
            Ok(())
        });
        self.timings.add("simulation", begun.elapsed());
        self.cut_short |= result.is_err() && (Instant::now() >= self.deadline || self.shared.stopped());
        result.map(|()| chain)
    }

    /// Callees that took the place of their calls in a function.
    fn placed<'b>(
        &'b self,
        before: &'b BTreeMap<FunctionId, Function>,
        function: FunctionId,
        evidence: &[Evidence],
    ) -> Result<Vec<Placed<'b>>, String> {
        let own = &before[&function];
        let is_inlined =
            |one: &&Evidence| one.function == function && one.because.is_law() && one.because.name() == inline::NAME;
        let placed = |one: &Evidence| {
            let callee = own.nodes[own.position(one.site)?].callee()?;
            let callee = before.get(&callee).unwrap_or_else(|| self.object.function(callee));
            // The callee's instructions get their ids one after another.
            let first = one.after_ids.first()?.0;
            let ids = (first..).map(InsnId).take(callee.nodes.len()).collect();
            Some(Placed { call: one.site, callee, ids })
        };
        let calls: Option<Vec<_>> = evidence.iter().filter(is_inlined).map(placed).collect();
        calls.ok_or_else(|| "not proved: what was inlined cannot be told".to_owned())
    }

    /// Whether every program that a change concerns still verifies, at a cost that the goal allows.
    fn accept(&mut self, changed: &BTreeSet<FunctionId>) -> Result<BTreeMap<ProgramId, Known>, String> {
        let begun = Instant::now();
        let result = self.verify_changed(changed);
        self.timings.add("verifier", begun.elapsed());
        self.cut_short |= result.is_err() && Instant::now() >= self.deadline;
        let known = result?;
        if let Some(why) = self.harder(&known).filter(|_| self.ask_judge) {
            return Err(why);
        }
        if self.ask_judge && Instant::now() >= self.shared.end() {
            self.cut_short = true;
            return Err("there is no time left to ask the judge".to_owned());
        }
        if let Some(judge) = self.shared.judge.filter(|_| self.ask_judge) {
            let concerned: Vec<ProgramId> =
                self.part.programs.iter().copied().filter(|id| self.concerns(*id, changed)).collect();
            let own = self.part.functions.iter().map(|id| (*id, self.object.function(*id)));
            let whole = self.shared.whole(own, self.object.next_insn);
            let complaints = self.timings.time("judge", || judge.judge(&whole, &concerned));
            if let Some((_, why)) = complaints.into_iter().next() {
                return Err(why);
            }
        }
        Ok(known)
    }

    fn concerns(&self, id: ProgramId, changed: &BTreeSet<FunctionId>) -> bool {
        let entry = self.object.programs[id.index()].entry;
        self.object.reachable_functions(entry).iter().any(|function| changed.contains(function))
    }

    fn verify_changed(&self, changed: &BTreeSet<FunctionId>) -> Result<BTreeMap<ProgramId, Known>, String> {
        if self.object.next_insn >= self.part.ids.1 {
            return Err("there are no more ids for instructions".to_owned());
        }
        let prepared = self.shared.prepared.for_version(&self.object);
        prepared.well_formed().map_err(ToString::to_string)?;
        let mut known = BTreeMap::new();
        for (id, before) in self.programs.iter().filter(|(id, _)| self.concerns(**id, changed)) {
            let program = &self.object.programs[id.index()];
            let (goal, name) = (self.options.goal, &program.name);
            if self.object.program_slots(program) > before.now.cost.slots && !goal.may_grow() {
                return Err(format!("program {name} would grow"));
            }
            let own = self.shared.verify(&prepared, *id, before.assumptions, Some(self.deadline));
            let own = own.map_err(|error| error.to_string())?;
            goal.allows(before.began.cost, before.now.cost, own.now.cost, self.options.extra_processed_insns)
                .map_err(|worse| format!("program {name} {worse}"))?;
            known.insert(*id, Known { began: before.began, ..own });
            share_facts(&mut known);
        }
        Ok(known)
    }
}

impl Shared<'_> {
    fn verify(
        &self,
        prepared: &Prepared<'_>,
        id: ProgramId,
        assumptions: Assumptions,
        deadline: Option<Instant>,
    ) -> Result<Known, kiln_verifier::Error> {
        let program = &prepared.object().programs[id.index()];
        let verify = |assumptions, skip_facts| -> Result<Verified, kiln_verifier::Error> {
            let options = kiln_verifier::Options {
                assumptions,
                skip_facts,
                deadline,
                kernel_types: self.options.kernel_types.clone(),
                profile: self.options.profile.clone(),
                ..Default::default()
            };
            prepared.verify(program, &options)
        };
        let for_every_load = assumptions == Assumptions::AnyLoad;
        let verified = verify(assumptions, !for_every_load)?;
        let anywhere = verified.statistics;
        let here = match for_every_load && verified.depends_on_load {
            true => verify(Assumptions::AsLoaded, true)?.statistics,
            false => anywhere,
        };
        let cost = Cost {
            slots: prepared.object().program_slots(program),
            picoseconds: self.estimate(prepared.object(), id),
            processed: [here.processed_insns, anywhere.processed_insns],
        };
        let now = Standing { cost, stack_bytes: here.stack_bytes };
        let facts = for_every_load.then(|| Arc::new(verified.facts));
        Ok(Known { began: now, now, assumptions, facts })
    }
}

/// The middle of the time from now on.
fn halfway(deadline: Instant) -> Instant {
    let now = Instant::now();
    now + deadline.saturating_duration_since(now) / 2
}

/// Facts of different programs.
fn different_facts(programs: &BTreeMap<ProgramId, Known>) -> Vec<&Arc<Facts>> {
    let mut different: Vec<&Arc<Facts>> = Vec::new();
    for facts in programs.values().filter_map(|known| known.facts.as_ref()) {
        if !different.iter().any(|other| Arc::ptr_eq(other, facts)) {
            different.push(facts);
        }
    }
    different
}

/// Programs whose facts together speak of more than [`MAX_FACTS`] instructions hold one value instead, which is true of
/// all of them: programs that share large functions would each keep their own account of those.
fn share_facts(programs: &mut BTreeMap<ProgramId, Known>) {
    let different = different_facts(programs);
    if different.len() < 2 || different.iter().map(|facts| facts.len()).sum::<usize>() <= MAX_FACTS {
        return;
    }
    let mut joined = Facts::default();
    different.into_iter().for_each(|facts| joined.join(facts));
    let joined = Arc::new(joined);
    for facts in programs.values_mut().filter_map(|known| known.facts.as_mut()) {
        *facts = Arc::clone(&joined);
    }
}

/// Whether a program was not rejected: our verifier lacks something, or it is too much for it.
fn is_unsupported(error: &kiln_verifier::Error) -> bool {
    matches!(error, kiln_verifier::Error::Unsupported { .. } | kiln_verifier::Error::Limit { .. })
}

/// The object with the functions of other parts cut down to an exit, which nothing of this part looks at.
fn only(object: &Object, part: &Part) -> Object {
    let mut own = Object { next_insn: part.ids.0, ..object.clone() };
    for (index, function) in own.functions.iter_mut().enumerate() {
        if !part.functions.contains(&FunctionId(index as u32)) {
            let id = function.nodes.first().map_or(InsnId(0), |node| node.id);
            let exit = Node::new(id, Insn::Exit, Reference::None);
            function.nodes = vec![exit];
        }
    }
    own
}
