//! Decides whether a change is kept: the proof, the verifier and, if it is asked, the judge.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_equiv::simulation::arguments::Arguments;
use kiln_equiv::simulation::inlined::{Inlined, Placed};
use kiln_equiv::simulation::{Question, Simulation, simulate};
use kiln_program::{Function, FunctionId, InsnId, ProgramId};

use crate::evidence::{ChainStep, Evidence};
use crate::laws::inline;
use crate::run::known::{Known, share_facts};
use crate::run::state::Run;
use crate::timings::Stopwatch;
use kiln_equiv::helpers::joined;

/// A function that was proved, with its calls written out if some were inlined.
struct Proved {
    function: FunctionId,
    simulation: Simulation,
    written_out: Option<Function>,
}

/// Runs something. Returns also its processor time.
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Stopwatch::start();
    let result = run();
    (result, begun.elapsed())
}

impl Run<'_> {
    /// Decides about a change that makes these functions what they are now: proves it, and verifies what it concerns. Both
    /// go on at the same time if a processor is idle; what the proof says comes first. Returns the proofs if evidence is to
    /// carry them, and what is then known of the programs.
    pub(super) fn decide(
        &mut self,
        before: &BTreeMap<FunctionId, Function>,
        evidence: &mut [Evidence],
        quick: bool,
    ) -> Result<(Vec<ChainStep>, BTreeMap<ProgramId, Known>), String> {
        let changed: BTreeSet<FunctionId> = evidence.iter().map(|one| one.function).collect();
        let nodes = changed.iter().map(|id| self.object.function(*id).nodes.len()).sum();
        let shared = self.shared;
        let stop = Arc::new(AtomicBool::new(false));
        let this = &*self;
        let prove = || timed(|| this.proofs(before, &changed, evidence, quick));
        let verify = || timed(|| this.verify_changed(&changed, Some(&stop)));
        let (proved, verified) = match shared.helpers.take(nodes) {
            Some(helper) => std::thread::scope(|scope| {
                let verifying = scope.spawn(|| {
                    // The proof may use the thread once this is done.
                    let _until_done = helper;
                    verify()
                });
                let proved = prove();
                stop.store(proved.0.is_err(), Ordering::Relaxed);
                (proved, Some(joined(verifying)))
            }),
            None => {
                let proved = prove();
                let verified = proved.0.is_ok().then(verify);
                (proved, verified)
            }
        };
        let (proofs, time) = proved;
        self.timings.add("simulation", time);
        self.cut_short |= proofs.is_err() && (Instant::now() >= self.deadline || self.shared.stopped());
        if let Some((_, time)) = &verified {
            self.timings.add("verifier", *time);
        }
        let chain = self.kept_proofs(proofs?, before, evidence);
        let (known, _) = verified.expect("what is proved is verified");
        self.cut_short |= known.is_err() && Instant::now() >= self.deadline;
        Ok((chain, self.accept(&changed, known?)?))
    }

    /// Proves that every changed function does what it did before; `quick` as in [`Question::quick`].
    fn proofs(
        &self,
        before: &BTreeMap<FunctionId, Function>,
        changed: &BTreeSet<FunctionId>,
        evidence: &[Evidence],
        quick: bool,
    ) -> Result<Vec<Proved>, String> {
        let arguments = Arguments::of(&self.object, before);
        let prove = |function: &FunctionId| {
            let function = *function;
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
                quick,
                stop: &|| Instant::now() >= self.deadline || self.shared.stopped(),
                helpers: &self.shared.helpers,
            };
            let simulation = simulate(&question).map_err(|reason| format!("not proved: {reason}"))?;
            Ok(Proved { function, simulation, written_out: written_out.map(|inlined| inlined.function) })
        };
        changed.iter().map(prove).collect()
    }

    /// Gives the proofs to the evidence, if it is to carry them, and returns them as steps of the chain.
    fn kept_proofs(
        &self,
        proofs: Vec<Proved>,
        before: &BTreeMap<FunctionId, Function>,
        evidence: &mut [Evidence],
    ) -> Vec<ChainStep> {
        let kept = proofs.into_iter().filter(|_| self.options.keep_queries);
        let step = |Proved { function, simulation, written_out }| {
            let simulation = Arc::new(simulation);
            let own = evidence.iter_mut().filter(|one| one.function == function);
            own.for_each(|one| one.simulation = Some(simulation.clone()));
            let (before, after) = (before[&function].clone(), self.object.function(function).clone());
            let (before, after) = (Arc::new(before), Arc::new(after));
            ChainStep { function, before, after, written_out: written_out.map(Arc::new), simulation }
        };
        kept.map(step).collect()
    }

    /// Calls of a function that were inlined.
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
            // The callee's instructions have consecutive ids in the caller.
            let first = one.after_ids.first()?.0;
            let ids = (first..).map(InsnId).take(callee.nodes.len()).collect();
            Some(Placed { call: one.site, callee, ids })
        };
        let calls: Option<Vec<_>> = evidence.iter().filter(is_inlined).map(placed).collect();
        calls.ok_or_else(|| "not proved: what was inlined cannot be told".to_owned())
    }

    /// Whether the judge, if it is asked, accepts what our verifier accepts.
    fn accept(
        &mut self,
        changed: &BTreeSet<FunctionId>,
        known: BTreeMap<ProgramId, Known>,
    ) -> Result<BTreeMap<ProgramId, Known>, String> {
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

    /// Whether every program that a change concerns still verifies, at a cost that the goal allows.
    fn verify_changed(
        &self,
        changed: &BTreeSet<FunctionId>,
        stop: Option<&Arc<AtomicBool>>,
    ) -> Result<BTreeMap<ProgramId, Known>, String> {
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
            let own = self.shared.verify(&prepared, *id, before.assumptions, Some(self.deadline), stop);
            let own = own.map_err(|error| error.to_string())?;
            goal.allows(before.began.cost, before.now.cost, own.now.cost, self.options.extra_processed_insns)
                .map_err(|worse| format!("program {name} {worse}"))?;
            known.insert(*id, Known { began: before.began, ..own });
            share_facts(&mut known);
        }
        Ok(known)
    }
}
