//! The passes in order, and the decision about each of their results.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kiln_program::{Function, FunctionId, Object, ProgramId};
use kiln_verifier::{Assumptions, Facts};

use crate::control_flow::{self, Change};
use crate::dead;
use crate::evidence::{Because, Evidence};

/// How to optimize.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time to spend at most; what was found by then stands.
    pub budget: Duration,
    /// How much more a program may cost the verifier than before, in processed instructions.
    pub extra_processed_insns: u64,
    /// Functions to leave as they are, such as those whose rewrites the kernel refused.
    pub frozen: BTreeSet<FunctionId>,
}

impl Default for Options {
    fn default() -> Options {
        Options { budget: Duration::from_secs(10), extra_processed_insns: 0, frozen: BTreeSet::new() }
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
    /// Facts of the object as it is when the pass begins.
    pub facts: &'a Facts,
    /// When to stop looking.
    pub deadline: Instant,
}

impl Work<'_> {
    /// The function at work.
    pub fn function_mut(&mut self) -> &mut Function {
        &mut self.object.functions[self.function.index()]
    }
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
    Pass { name: "unreachable", run: |work| work.laws(|function, facts| {
        control_flow::remove_unreachable(function, facts)
    }) },
    Pass { name: "dead", run: |work| work.laws(dead::remove_dead) },
    Pass { name: "control-flow", run: control_flow_to_fixpoint },
];

/// Rounds at most; each round shrinks the object, so this only bounds time.
const MAX_ROUNDS: usize = 16;

/// Optimizes every function of an object that only verified programs reach.
pub fn optimize(object: &Object, options: &Options, progress: &mut dyn Progress) -> Rewrite {
    let begun = Instant::now();
    let mut run = Run::new(object, options, begun);
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for pass in PASSES {
            let slots = run.object.functions.iter().map(Function::slots).sum();
            if begun.elapsed() >= options.budget || !progress.step(pass.name, slots, begun.elapsed()) {
                return run.finish();
            }
            let functions: Vec<FunctionId> = run.functions.iter().copied().collect();
            changed |= run.attempt(pass, &functions);
        }
        if !changed {
            break;
        }
    }
    run.finish()
}

struct Run<'a> {
    object: Object,
    options: &'a Options,
    begun: Instant,
    /// Functions that may change.
    functions: BTreeSet<FunctionId>,
    /// Programs that may change, with the processed instructions they began with.
    programs: BTreeMap<ProgramId, u64>,
    facts: Facts,
    evidence: Vec<Evidence>,
    skipped: Vec<(ProgramId, String)>,
    refused: Vec<(&'static str, String, String)>,
    banned: BTreeSet<(&'static str, FunctionId)>,
}

impl<'a> Run<'a> {
    fn new(object: &Object, options: &'a Options, begun: Instant) -> Run<'a> {
        let mut run = Run {
            object: object.clone(),
            options,
            begun,
            functions: BTreeSet::new(),
            programs: BTreeMap::new(),
            facts: Facts::default(),
            evidence: Vec::new(),
            skipped: Vec::new(),
            refused: Vec::new(),
            banned: BTreeSet::new(),
        };
        let mut fixed = BTreeSet::new();
        for index in 0..object.programs.len() {
            let (id, program) = (ProgramId(index as u32), &object.programs[index]);
            let reached = object.reachable_functions(program.entry);
            match verify_program(object, id) {
                Ok((processed, facts)) => {
                    run.facts.join(&facts);
                    run.programs.insert(id, processed);
                    run.functions.extend(reached);
                }
                Err(reason) => {
                    run.skipped.push((id, reason));
                    fixed.extend(reached);
                }
            }
        }
        fixed.extend(&options.frozen);
        run.functions.retain(|function| !fixed.contains(function));
        run
    }

    /// Runs a pass on some functions and keeps the result if it is accepted; else on each half of them.
    fn attempt(&mut self, pass: &Pass, functions: &[FunctionId]) -> bool {
        let functions: Vec<FunctionId> =
            functions.iter().copied().filter(|id| !self.banned.contains(&(pass.name, *id))).collect();
        let mut candidate = self.object.clone();
        let mut evidence = Vec::new();
        let deadline = self.begun + self.options.budget;
        for function in &functions {
            let mut work =
                Work { object: &mut candidate, function: *function, facts: &self.facts, deadline };
            evidence.extend((pass.run)(&mut work));
        }
        if evidence.is_empty() {
            return false;
        }
        match self.accept(&candidate) {
            Ok(facts) => {
                self.object = candidate;
                self.facts = facts;
                self.evidence.extend(evidence);
                true
            }
            Err(_) if functions.len() > 1 => {
                let (left, right) = functions.split_at(functions.len() / 2);
                let left = self.attempt(pass, left);
                self.attempt(pass, right) || left
            }
            Err(reason) => {
                let name = self.object.function(functions[0]).name.clone();
                self.refused.push((pass.name, name, reason));
                self.banned.insert((pass.name, functions[0]));
                false
            }
        }
    }

    /// The candidate's facts if every program still verifies, at no more cost, and is no larger.
    fn accept(&self, candidate: &Object) -> Result<Facts, String> {
        kiln_program::validate(candidate).map_err(|error| error.to_string())?;
        let mut facts = Facts::default();
        for (id, before) in &self.programs {
            let (old, new) = (&self.object.programs[id.index()], &candidate.programs[id.index()]);
            if candidate.program_slots(new) > self.object.program_slots(old) {
                return Err(format!("program {} would grow", new.name));
            }
            let (processed, own) = verify_program(candidate, *id)?;
            if processed > before + self.options.extra_processed_insns {
                return Err(format!(
                    "program {} would take {processed} processed instructions instead of {before}",
                    new.name
                ));
            }
            facts.join(&own);
        }
        Ok(facts)
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

/// Processed instructions as loaded here, and facts that hold for every load.
fn verify_program(object: &Object, id: ProgramId) -> Result<(u64, Facts), String> {
    let program = &object.programs[id.index()];
    let verify = |assumptions| {
        let options = kiln_verifier::Options { assumptions, ..Default::default() };
        kiln_verifier::verify(object, program, &options).map_err(|error| error.to_string())
    };
    let here = verify(Assumptions::AsLoaded)?;
    let anywhere = verify(Assumptions::AnyLoad)?;
    Ok((here.statistics.processed_insns, anywhere.facts))
}

impl Work<'_> {
    /// Runs a pass that changes the function by laws, and writes down what it did.
    fn laws(&mut self, pass: impl FnOnce(&mut Function, &Facts) -> Vec<Change>) -> Vec<Evidence> {
        let (id, facts) = (self.function, self.facts);
        let function = self.function_mut();
        let name = function.name.clone();
        pass(function, facts).into_iter().map(|change| describe(id, &name, change)).collect()
    }
}

/// The passes that need only the graph, in turn, until none finds more.
fn control_flow_to_fixpoint(work: &mut Work<'_>) -> Vec<Evidence> {
    let id = work.function;
    let mut function = work.object.function(id).clone();
    let mut changes = Vec::new();
    loop {
        let mut found = control_flow::thread_jumps(&mut function);
        found.extend(control_flow::remove_unreachable_blocks(&mut function));
        found.extend(control_flow::remove_jumps_to_next(&mut function));
        found.extend(control_flow::invert_branches(&mut function));
        found.extend(control_flow::lay_out(&mut function));
        found.extend(control_flow::exit_early(&mut function));
        found.extend(control_flow::share_tails(work.object, &mut function));
        if found.is_empty() {
            break;
        }
        changes.extend(found);
    }
    let name = function.name.clone();
    work.object.functions[id.index()] = function;
    changes.into_iter().map(|change| describe(id, &name, change)).collect()
}

fn describe(function: FunctionId, name: &str, change: Change) -> Evidence {
    let slots = |nodes: &[kiln_program::Node]| nodes.iter().map(|node| node.insn.slots() as i64).sum::<i64>();
    let listing = |nodes: &[kiln_program::Node]| nodes.iter().map(|node| node.insn.to_string()).collect();
    Evidence {
        function,
        function_name: name.to_owned(),
        at: change.at,
        because: Because::Law(change.law),
        slots_saved: slots(&change.before) - slots(&change.after),
        before: listing(&change.before),
        after: listing(&change.after),
    }
}
