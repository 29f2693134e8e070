//! The state of a part between passes: its functions, what is known, and what was tried.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use kiln_equiv::Limits;
use kiln_isa::Insn;
use kiln_program::{Function, FunctionId, InsnId, Node, Object, ProgramId, Reference};
use kiln_verifier::{Assumptions, Facts};

use crate::cost::Goal;
use crate::evidence::{ChainStep, Evidence};
use crate::options::Options;
use crate::parts::{Part, Shared};
use crate::run::known::{Account, Done, Known, different_facts, is_unsupported, share_facts};
use crate::search::Memory;
use crate::timings::{Stopwatch, Timings};
use crate::windows::{Banned, Swept};

/// The state after an accepted attempt.
pub(super) struct Snapshot {
    pub(super) functions: BTreeMap<FunctionId, Function>,
    pub(super) next_insn: u32,
    pub(super) evidence: usize,
    pub(super) chain: usize,
    /// Why the goal forbids this state as a result, by our own verifier's counts.
    pub(super) complaint: Option<String>,
}

/// A result that is accepted and not yet used.
pub(super) struct Accepted {
    pub(super) functions: BTreeMap<FunctionId, Function>,
    pub(super) next_insn: u32,
    pub(super) evidence: Vec<Evidence>,
    pub(super) chain: Vec<ChainStep>,
    pub(super) programs: BTreeMap<ProgramId, Known>,
}

/// What a part does before other parts go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wave {
    /// Rounds of passes at most.
    pub rounds: usize,
    /// How many of the searches to use.
    pub efforts: usize,
    /// Whether the judge is asked about the state at the end.
    pub settles: bool,
    /// Whether rounds that saved nothing in earlier waves are forgotten.
    pub begins_anew: bool,
}

/// How far the rounds have come.
pub(super) struct Rounds {
    /// The least sums of slots, estimated time and processed instructions so far.
    pub(super) least: [u64; 3],
    /// Rounds in a row that lowered none of them.
    pub(super) idle: usize,
    /// Whether the next round goes on with a state that was counted already.
    pub(super) counted: bool,
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds { least: [u64::MAX; 3], idle: 0, counted: false }
    }
}

pub(crate) struct Run<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) options: &'a Options,
    pub(super) part: &'a Part,
    pub(super) deadline: Instant,
    /// The object, without the bodies of other parts' functions.
    pub(super) object: Object,
    /// Functions that may change.
    pub(super) functions: BTreeSet<FunctionId>,
    /// Functions that a program without facts reaches.
    pub(super) blind: BTreeSet<FunctionId>,
    /// Programs that our verifier accepts.
    pub(super) programs: BTreeMap<ProgramId, Known>,
    /// Why it does not accept the others.
    pub(super) unverified: BTreeMap<ProgramId, kiln_verifier::Error>,
    /// All programs' facts, joined.
    pub(super) facts: Arc<Facts>,
    pub(super) limits: Limits,
    pub(super) evidence: Vec<Evidence>,
    pub(super) chain: Vec<ChainStep>,
    pub(super) skipped: Vec<(ProgramId, String)>,
    pub(super) refused: Vec<(&'static str, String, String)>,
    pub(super) banned: Banned,
    pub(super) refuted: HashSet<u64>,
    pub(super) swept: Swept,
    pub(super) searched: Memory,
    /// How often a pass was refused on a function.
    pub(super) refusals: BTreeMap<(usize, FunctionId), usize>,
    /// How often passes were refused together, by the first of them.
    pub(super) apart: BTreeMap<usize, usize>,
    /// Number of accepted attempts so far.
    pub(super) version: u64,
    /// Passes that found nothing, and the version in which they ran.
    pub(super) idle: BTreeMap<usize, u64>,
    pub(super) trail: Vec<Snapshot>,
    /// Whether the judge is asked about each step.
    pub(super) ask_judge: bool,
    /// When it is asked about the current state.
    pub(super) checkpoint: Instant,
    pub(super) wave: Wave,
    pub(super) rounds: Rounds,
    pub(super) cut_short: bool,
    pub(super) timings: Timings,
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
                ..Limits::default()
            },
            evidence: Vec::new(),
            chain: Vec::new(),
            skipped: Vec::new(),
            refused: Vec::new(),
            banned: Banned::default(),
            refuted: HashSet::new(),
            swept: Swept::default(),
            searched: Memory::new(shared.original.functions.iter().map(|function| u64::from(function.slots())).sum()),
            refusals: BTreeMap::new(),
            apart: BTreeMap::new(),
            version: 0,
            idle: BTreeMap::new(),
            trail: Vec::new(),
            ask_judge: false,
            checkpoint: deadline,
            wave: Wave { rounds: 0, efforts: 0, settles: false, begins_anew: false },
            rounds: Rounds::default(),
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
            // Facts must hold for every load. A program that verifies only as it is loaded here has none.
            let deadline = Some(self.deadline);
            let verify = |assumptions| self.shared.verify(&self.shared.prepared, *id, assumptions, deadline, None);
            let begun = Stopwatch::start();
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

    /// Returns the result.
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

    /// Why the goal forbids these results for programs that the judge cannot judge; `None` if it does not.
    pub(super) fn harder<'k>(&self, programs: impl IntoIterator<Item = (&'k ProgramId, &'k Known)>) -> Option<String> {
        let judge = self.shared.judge.filter(|_| self.options.goal == Goal::Balanced)?;
        programs.into_iter().filter(|(id, _)| !judge.knows(**id)).find_map(|(id, known)| {
            let [old, new] = [known.began, known.now].map(|standing| standing.cost.processed[0]);
            let name = &self.object.programs[id.index()].name;
            (new > old).then(|| format!("program {name} would take {new} processed instructions instead of {old}"))
        })
    }

    pub(super) fn take(
        &mut self,
        evidence: Vec<Evidence>,
        chain: Vec<ChainStep>,
        programs: BTreeMap<ProgramId, Known>,
    ) {
        self.chain.extend(chain);
        let saved: i64 = evidence.iter().map(|one| one.slots_saved).sum();
        self.shared.slots.fetch_sub(saved, Ordering::SeqCst);
        self.evidence.extend(evidence);
        self.programs.extend(programs);
        self.version += 1;
        self.join_facts();
        self.keep_snapshot();
    }

    pub(super) fn join_facts(&mut self) {
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

    pub(super) fn keep_snapshot(&mut self) {
        if self.shared.judge.is_none() {
            return;
        }
        let (functions, next_insn) = (self.own_functions(), self.object.next_insn);
        let (evidence, chain) = (self.evidence.len(), self.chain.len());
        let complaint = self.harder(&self.programs);
        self.trail.push(Snapshot { functions, next_insn, evidence, chain, complaint });
    }

    pub(super) fn own_functions(&self) -> BTreeMap<FunctionId, Function> {
        self.part.functions.iter().map(|id| (*id, self.object.function(*id).clone())).collect()
    }

    pub(super) fn copies(&self, functions: &[FunctionId]) -> BTreeMap<FunctionId, Function> {
        functions.iter().map(|id| (*id, self.object.function(*id).clone())).collect()
    }

    pub(super) fn restore(&mut self, functions: BTreeMap<FunctionId, Function>, next_insn: u32) {
        for (id, function) in functions {
            self.object.functions[id.index()] = function;
        }
        self.object.next_insn = next_insn;
    }
}

/// The object with the functions of other parts replaced by an exit. This part does not look at them.
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
