//! Runs every rule over every run of a function.
//!
//! A run is a block and the blocks after it that are entered only by falling through, so code on both sides of a branch
//! is seen together:
//!
//! ```text
//!   r7 <<= 32
//!   if w8 == 0 goto out          out reads nothing of r7: the first shift may wait for the second
//!   r7 >>= 32              -->   w7 = w7
//! ```
//!
//! Registers that are read at a branch's target count as read (`flow::Afterwards`). A window with branches is proved for
//! each of its exits.

mod ahead;
mod demands;
pub mod diamonds;
mod pieces;
pub mod region;
pub mod staleness;
pub mod trace;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::time::Instant;

use kiln_equiv::helpers::Helpers;
use kiln_equiv::{Answers, Limits};
use kiln_isa::table::IsaVersion;
use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{Block, Cfg, Function, FunctionId, InsnId, Node, Object};
use kiln_verifier::{Facts, Region as Kind, Value};

use crate::cost::{CostModel, Goal};
use crate::flow::calls::Calls;
use crate::flow::demand::{Demand, Exits};
use crate::flow::possible::{self, Possible};
use crate::laws::available_values;
use crate::rules::RULES;
use crate::rules::data::{RuleSet, matching};
use crate::windows::ahead::Ahead;
use crate::windows::demands::Demands;
use crate::windows::region::{Region, Step};
use crate::windows::staleness::Staleness;
use crate::windows::trace::Trace;

/// Maximum number of instructions in a run: the cost of a proposal grows with its run.
const LONGEST_RUN: usize = 96;
/// Maximum number of times that the rules go over one run.
const SWEEPS: usize = 4;

/// Steps that must not be done again: rules and laws, by their names, at instructions.
#[derive(Clone, Default, Debug)]
pub struct Banned(BTreeMap<InsnId, BTreeSet<String>>);

impl Banned {
    /// Bans a rule or law at an instruction.
    pub fn insert(&mut self, name: &str, at: InsnId) {
        self.0.entry(at).or_default().insert(name.to_owned());
    }

    /// Whether a rule or law is banned at an instruction.
    pub fn contains(&self, name: &str, at: InsnId) -> bool {
        self.0.get(&at).is_some_and(|names| names.contains(name))
    }
}

/// Runs in which the rules found nothing, by all that the rules look at, and what was stale then: a run is looked at again
/// only if something there is new.
#[derive(Clone, Default, Debug)]
pub struct Swept(HashMap<u64, (RegSet, bool)>);

/// What a pass over a function is bound to.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// What calls read.
    pub calls: &'a Calls,
    /// When to stop.
    pub deadline: Instant,
    /// The limits of each question.
    pub limits: &'a Limits,
    /// Steps that must not be taken.
    pub banned: &'a Banned,
    /// The newest version of the instruction set that new instructions may be of.
    pub isa: IsaVersion,
    /// What instructions cost.
    pub model: &'a CostModel,
    /// Decides which of two runs is better.
    pub goal: Goal,
    /// Rules as data, tried before those in code.
    pub rules: &'a RuleSet,
    /// Rules not to use.
    pub without: &'a (dyn Fn(&str) -> bool + Sync),
}

/// What a pass over a function may spend, and what it learns.
pub struct Budget<'a> {
    /// What it is bound to.
    pub terms: Terms<'a>,
    /// Hashes of questions that were answered with no.
    pub refuted: &'a mut HashSet<u64>,
    /// Runs in which nothing was found.
    pub swept: &'a mut Swept,
    /// Number of proposals that may still be accepted; a bisection lowers it.
    pub fuel: usize,
    /// Threads that have nothing to do.
    pub helpers: &'a Helpers,
}

/// Rewrites one function by the rules, from the last instruction to the first; returns the steps.
///
/// A rewrite changes only what is read before it and what holds after it. So in code without loops the facts are true of
/// each run when its turn comes.
pub fn rewrite(
    object: &Object,
    (id, function): (FunctionId, &mut Function),
    facts: Option<&Facts>,
    budget: &mut Budget<'_>,
) -> Vec<Step> {
    let mut pass = Pass::default();
    let scene = Scene::of(object, (id, &*function), facts, (budget.terms, &*budget.refuted, &*budget.swept));
    let runs = scene.runs();
    let mut demands = Demands::new(function, &scene.cfg, budget.terms.calls);
    let mut reached = vec![false; scene.cfg.blocks.len()];
    let mut stale = scene.fresh.clone();
    let ahead = Ahead::new();
    std::thread::scope(|scope| {
        let _until_done = ahead.ends();
        for (index, run) in runs.iter().enumerate().rev() {
            if budget.fuel == 0 || Instant::now() >= budget.terms.deadline {
                break;
            }
            let end = demands.after(&run.range);
            // A loop may run after its own rewrites, so there all that is stale anywhere counts.
            let after_change = reached[run.first] || demands.is_in_loop(run.first);
            let own = if after_change { stale.elsewhere() } else { scene.fresh.with_pinned_of(&stale) };
            let fits = |found: &Found| !after_change && found.taken <= budget.fuel;
            let found = ahead.take(index).filter(fits);
            let found = scene.look(run, (end, demands.exits()), own, budget.terms.limits, budget.fuel, found);
            let is_known = found.is_known;
            budget.fuel -= found.taken;
            if !found.steps.is_empty() {
                demands.replace(&run.range, &found.nodes);
                scene.mark_after(run, &mut reached);
                stale.spread_from(&found.stale, demands.is_in_loop(run.first));
            }
            pass.take(run, found, budget.terms.limits);
            if !is_known && ahead.is_worth(index) {
                let nodes = function.nodes.len();
                while let Some(helper) = budget.helpers.take(nodes) {
                    let view = View::of(&runs[..index], demands.clone(), &reached, scene.fresh.with_pinned_of(&stale));
                    let (ahead, scene, runs) = (&ahead, &scene, &runs);
                    scope.spawn(move || {
                        let _until_done = helper;
                        ahead.work(|index| view.look(scene, runs, index));
                    });
                }
            }
        }
    });
    drop(demands);
    drop(scene);
    crate::edit::replace_all(function, pass.changed);
    budget.refuted.extend(pass.refuted);
    budget.swept.0.extend(pass.swept);
    pass.steps
}

/// What a pass has found so far.
#[derive(Default)]
struct Pass {
    steps: Vec<Step>,
    /// New runs, from the last to the first.
    changed: Vec<(Range<usize>, Vec<Node>)>,
    refuted: HashSet<u64>,
    swept: Vec<(u64, (RegSet, bool))>,
}

impl Pass {
    fn take(&mut self, run: &Run, found: Found, limits: &Limits) {
        self.refuted.extend(found.refuted);
        if let Some((ahead, all)) = found.answers.zip(limits.answers.as_ref()) {
            all.add(ahead);
        }
        match found.steps.is_empty() {
            true if found.is_whole => self.swept.push((found.key, found.extent)),
            true => {}
            false => {
                self.steps.extend(found.steps);
                self.changed.push((run.range.clone(), found.nodes));
            }
        }
    }
}

/// A run, with what may be known of it before it is its turn.
struct Run {
    /// The block with which its sequence of blocks begins.
    first: usize,
    range: Range<usize>,
    /// Which bits may be one where it begins.
    possible: Possible,
}

/// What the rules found in a run.
struct Found {
    /// All that it depends on besides what was stale, and that.
    key: u64,
    extent: (RegSet, bool),
    /// The new run.
    nodes: Vec<Node>,
    steps: Vec<Step>,
    /// Proposals that were accepted.
    taken: usize,
    /// Whether it was looked at before.
    is_known: bool,
    /// Whether rules would find no more.
    is_whole: bool,
    refuted: HashSet<u64>,
    stale: Staleness,
    /// Answers that are not in the part's store yet.
    answers: Option<Answers>,
}

/// A function at the beginning of a pass, and what is known of it as a whole.
struct Scene<'a> {
    object: &'a Object,
    function: &'a Function,
    facts: Option<&'a Facts>,
    cfg: Cfg,
    /// Whether loads of four bytes give numbers.
    numbers: bool,
    context: Option<&'a Value>,
    /// Registers that hold the context before each instruction.
    contexts: Vec<RegSet>,
    terms: Terms<'a>,
    refuted: &'a HashSet<u64>,
    swept: &'a Swept,
    /// Nothing is stale.
    fresh: Staleness,
}

impl<'a> Scene<'a> {
    fn of(
        object: &'a Object,
        (id, function): (FunctionId, &'a Function),
        facts: Option<&'a Facts>,
        (terms, refuted, swept): (Terms<'a>, &'a HashSet<u64>, &'a Swept),
    ) -> Scene<'a> {
        let cfg = Cfg::new(function);
        let numbers = possible::loads_numbers(object, id);
        let context = context(function, facts);
        let contexts = match context {
            Some(_) => available_values::held_since_entry(object, function, &cfg, Reg::R1),
            None => Vec::new(),
        };
        let fresh = Staleness::new(&function.nodes);
        Scene { object, function, facts, cfg, numbers, context, contexts, terms, refuted, swept, fresh }
    }

    /// The runs that some path reaches, in order.
    fn runs(&self) -> Vec<Run> {
        let begins = possible::at_block_begins(self.function, &self.cfg, self.numbers);
        let mut all = Vec::new();
        for blocks in traces(self.function, &self.cfg) {
            let start = self.cfg.blocks[blocks.start].range.start;
            let end = end_of_windows(self.function, self.cfg.blocks[blocks.end - 1].range.end);
            let mut possible = begins[blocks.start];
            for range in runs(start..end) {
                let nodes = &self.function.nodes[range.clone()];
                if !self.is_unreached(nodes) {
                    all.push(Run { first: blocks.start, range, possible });
                }
                nodes.iter().for_each(|node| possible::step(&mut possible, node, self.numbers));
            }
        }
        all
    }

    fn is_unreached(&self, nodes: &[Node]) -> bool {
        self.facts.is_some_and(|facts| nodes.iter().all(|node| !facts.reached(node.id)))
    }

    /// What the rules find in a run. `ahead` is what was found in it before its turn: it counts if nothing on which it
    /// depends has changed.
    fn look(
        &self,
        run: &Run,
        (end, exits): (Demand, &Exits),
        mut stale: Staleness,
        limits: &Limits,
        fuel: usize,
        ahead: Option<Found>,
    ) -> Found {
        let extent = stale.extent();
        let mut region = Region {
            object: self.object,
            facts: self.facts,
            context: self.context.zip(self.contexts.get(run.range.start).copied()),
            nodes: self.function.nodes[run.range.clone()].to_vec(),
            end: stale.with_pinned(end),
            exits,
            calls: self.terms.calls,
            stale: &mut stale,
            limits,
            refuted: self.refuted,
            newly_refuted: HashSet::new(),
            steps: Vec::new(),
            asked: 0,
            possible: (run.possible, self.numbers),
            isa: self.terms.isa,
            model: self.terms.model,
            goal: self.terms.goal,
        };
        let key = region.key();
        if let Some(found) = ahead.filter(|found| found.key == key && found.extent == extent) {
            return found;
        }
        let is_known = self.swept.0.get(&key).is_some_and(|known| covers(extent, *known));
        let (taken, is_whole) = if is_known { (0, false) } else { sweep(&mut region, &self.terms, fuel) };
        let Region { nodes, steps, newly_refuted: refuted, .. } = region;
        Found { key, extent, nodes, steps, taken, is_known, is_whole, refuted, stale, answers: None }
    }

    /// Marks the blocks that may run after a run.
    fn mark_after(&self, run: &Run, reached: &mut [bool]) {
        let [first, last] = [run.range.start, run.range.end - 1].map(|at| self.cfg.block_of[at].index());
        let mut pending: Vec<usize> = (first..=last).collect();
        while let Some(block) = pending.pop() {
            for next in &self.cfg.blocks[block].successors {
                if !std::mem::replace(&mut reached[next.index()], true) {
                    pending.push(next.index());
                }
            }
        }
    }
}

/// What a helper sees of a pass: the state when it began.
struct View {
    /// What is read after each run, `None` if a rewrite may run before it.
    ends: Vec<Option<Demand>>,
    exits: Exits,
    stale: Staleness,
}

impl View {
    fn of(runs: &[Run], mut demands: Demands<'_>, reached: &[bool], stale: Staleness) -> View {
        demands.solve();
        let after = |run: &Run| {
            let is_sure = !reached[run.first] && !demands.is_in_loop(run.first);
            is_sure.then(|| demands.after(&run.range))
        };
        let mut ends: Vec<Option<Demand>> = runs.iter().rev().map(after).collect();
        ends.reverse();
        View { ends, exits: demands.exits().clone(), stale }
    }

    /// What the rules find in a run before its turn.
    fn look(&self, scene: &Scene<'_>, runs: &[Run], index: usize) -> Option<Found> {
        let end = (*self.ends.get(index)?)?;
        let answers = scene.terms.limits.answers.as_ref().map(|answers| std::sync::Arc::new(Answers::over(answers)));
        let limits = Limits { answers: answers.clone(), ..scene.terms.limits.clone() };
        let mut found = scene.look(&runs[index], (end, &self.exits), self.stale.clone(), &limits, usize::MAX, None);
        drop(limits);
        found.answers = answers.and_then(std::sync::Arc::into_inner);
        Some(found)
    }
}

/// The context, if the function is given it.
fn context<'f>(function: &Function, facts: Option<&'f Facts>) -> Option<&'f Value> {
    let given = &facts?.at(function.nodes.first()?.id)?.registers[Reg::R1.index()];
    matches!(given, Value::Pointer(pointer) if pointer.region == Kind::Context).then_some(given)
}

/// Whether at least as much is stale as was: registers, and whether the stack is.
fn covers((registers, stack): (RegSet, bool), (old, old_stack): (RegSet, bool)) -> bool {
    old.difference(registers) == RegSet::EMPTY && (stack || !old_stack)
}

/// Where the windows of a block end: after its last instruction, or before it if that is control flow that no window
/// holds. A branch is the last of a window, because its comparison may be put in another way.
fn end_of_windows(function: &Function, end: usize) -> usize {
    let node = &function.nodes[end - 1];
    let compares = matches!(node.insn, Insn::Branch { .. }) && node.core.is_none();
    if node.insn.is_control() && !compares { end - 1 } else { end }
}

/// Sequences of blocks. Each block except the first is entered only from the one before, by falling through.
fn traces(function: &Function, cfg: &Cfg) -> Vec<Range<usize>> {
    let goes_on = |block: usize| {
        let Block { range, successors, .. } = &cfg.blocks[block];
        let falls = successors.first().is_some_and(|next| next.index() == block + 1);
        let last = &function.nodes[range.end - 1];
        let plain = match last.insn {
            Insn::Branch { .. } => last.core.is_none() && successors.len() == 2,
            _ => !last.insn.is_control(),
        };
        falls && plain && cfg.blocks[block + 1].predecessors.len() == 1
    };
    let mut traces: Vec<Range<usize>> = Vec::new();
    for block in 0..cfg.blocks.len() {
        match traces.last_mut() {
            Some(trace) if goes_on(block - 1) => trace.end = block + 1,
            _ => traces.push(block..block + 1),
        }
    }
    traces
}

fn runs(range: Range<usize>) -> Vec<Range<usize>> {
    let starts = range.clone().step_by(LONGEST_RUN);
    starts.map(|start| start..(start + LONGEST_RUN).min(range.end)).collect()
}

/// Goes over a run until no rule finds more, or as many proposals were accepted as there is fuel. Returns how many were
/// accepted, and whether no rule finds more.
fn sweep(region: &mut Region<'_>, terms: &Terms<'_>, fuel: usize) -> (usize, bool) {
    let allowed = |rule: &str, at| !(terms.without)(rule) && !terms.banned.contains(rule, at);
    let mut taken = 0;
    for _ in 0..SWEEPS {
        let mut changed = false;
        let mut at = 0;
        let mut trace = Trace::new(region);
        while at < region.nodes.len() {
            if taken == fuel || Instant::now() >= terms.deadline {
                return (taken, false);
            }
            let id = region.nodes[at].id;
            let found = matching::apply(terms.rules, region, &trace, at, &|name| allowed(name, id))
                || RULES.iter().filter(|rule| allowed(rule.name, id)).any(|rule| {
                    (rule.propose)(region, &trace, at)
                        .iter()
                        .any(|proposed| region.attempt(rule.name, id, proposed, rule.contextual))
                });
            if found {
                taken += 1;
                changed = true;
                trace = Trace::new(region);
                // The code before may have become shorter too: start again at this position.
                at = at.min(region.nodes.len());
            } else {
                at += 1;
            }
        }
        if !changed {
            return (taken, true);
        }
    }
    (taken, false)
}
