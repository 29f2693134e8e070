//! `kiln learn`: makes rules of what search finds offline.
//!
//! ```text
//!   programs --harvest--> windows, most common first --search--> a cheaper run --generalize--> a rule, proved again
//!                              |                                                                   |
//!                              +--- what the rules so far already shorten is not searched <--------+
//! ```
//!
//! Windows are gone through in batches, in one order whatever the number of threads, and rules are taken in that order:
//! the same programs, rules and time give the same file, unless a time limit is reached. At the end it drops rules that
//! other rules cover, and rules that no two programs need.

mod file;
mod generalize;
mod harvest;
mod offline;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_equiv::rule::{Pattern, RuleVerdict, prove_rule};
use kiln_equiv::{Limits, Method, Rule, Tester, Window};
use kiln_isa::{AluOp, Insn, Reg, RegSet, Source, Width};
use kiln_program::{Node, Object};
use kiln_verifier::{Assumptions, Facts, InsnFacts, Scalar, StackSet, Tnum, Value};

pub use file::{RuleFile, merged};
pub use harvest::{Harvest, Sample, Seen};

use crate::cost::{CostModel, Goal, Weight};
use crate::flow::calls::Calls;
use crate::flow::demand::NOWHERE;
use crate::rules::data::{RuleSet, matching};
use crate::search::{Bound, Enumerate, Question, Search};
use crate::windows::region::Region;
use crate::windows::staleness::Staleness;
use crate::windows::trace::Trace;

/// How to learn.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time to spend at most.
    pub budget: Duration,
    /// Threads.
    pub jobs: usize,
    /// Steps that the solver may take for one question ([`Limits::solver_steps`]).
    pub solver_steps: u32,
    /// Programs that must have a use for a rule.
    pub programs: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { budget: Duration::from_secs(600), jobs: 1, solver_steps: 750_000, programs: 2 }
    }
}

/// A rule and where it came from.
#[derive(Clone, Debug)]
pub struct LearnedRule {
    /// The rule, named.
    pub rule: Rule,
    /// A program that it was found in.
    pub found_in: String,
    /// Programs that have a use for it, of those learned from.
    pub programs: usize,
    /// Places where it applies there.
    pub places: u64,
    /// How it was proved, and in how many cases.
    pub proof: (Method, u32),
    /// The window that it was made of.
    witness: Sample,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    /// New rules, in the order of their names.
    pub rules: Vec<LearnedRule>,
    /// Different windows in the programs.
    pub windows: usize,
    /// Windows gone through.
    pub searched: usize,
    /// Those that something shorter was found for.
    pub shortened: usize,
    /// Those of which a rule was made.
    pub generalized: usize,
    /// Rules dropped, for others do the same.
    pub subsumed: usize,
    /// Rules dropped, for too few programs need them.
    pub rare: usize,
}

/// Told between steps; answers whether to go on.
pub trait Watch {
    /// Called now and then with the windows gone through, all of them, and the rules so far.
    fn learning(&mut self, done: usize, all: usize, rules: usize) -> bool;
}

impl Watch for () {
    fn learning(&mut self, _: usize, _: usize, _: usize) -> bool {
        true
    }
}

/// Windows that are searched at once; rules of one batch are known to the next.
const BATCH: usize = 256;
/// Concrete inputs that a candidate must pass.
const INPUTS: u32 = 32;
/// The longest that one window is searched.
const WINDOW: Duration = Duration::from_secs(2);
/// The longest that one object is optimized before its windows are taken.
const OPTIMIZING: Duration = Duration::from_secs(2);
/// The part of the time that search may take.
const SEARCHING: f64 = 0.75;
/// How often the watcher is asked.
const TICK: Duration = Duration::from_millis(5);

/// Windows of an object as it is, and of what the optimizer makes of it without search, as far as the options' deadline
/// lets it come.
pub fn harvest(into: &mut Harvest, object: &Object, options: &kiln_verifier::Options) {
    harvest_one(into, object, options);
    let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
    let without_search = crate::options::Options {
        budget: options.deadline.map_or(OPTIMIZING, |deadline| left(deadline).min(OPTIMIZING)),
        search: 0,
        kernel_types: options.kernel_types.clone(),
        ..Default::default()
    };
    harvest_one(into, &crate::pipeline::optimize(object, &without_search, &mut ()).object, options);
}

/// Takes in every function of an object that verifies for any load.
fn harvest_one(into: &mut Harvest, object: &Object, options: &kiln_verifier::Options) {
    let options = &kiln_verifier::Options { assumptions: Assumptions::AnyLoad, ..options.clone() };
    let prepared = kiln_verifier::Prepared::new(object, options);
    let mut facts = Facts::default();
    let mut runs: BTreeMap<_, &str> = BTreeMap::new();
    for program in &object.programs {
        if let Ok(verified) = prepared.verify(program, options) {
            facts.join(&verified.facts);
            for function in object.reachable_functions(program.entry) {
                runs.entry(function).or_insert(&program.name);
            }
        }
    }
    let in_time = || options.deadline.is_none_or(|deadline| Instant::now() < deadline);
    for (function, program) in runs.into_iter().take_while(|_| in_time()) {
        into.function(object, function, program, &facts);
    }
}

/// Learns rules from windows, on top of those that are known.
pub fn learn(harvest: Harvest, known: &[Rule], options: &Options, watch: &mut dyn Watch) -> Learned {
    // The rest is for choosing among the rules and proving them.
    let deadline = Instant::now() + options.budget.mul_f64(SEARCHING);
    let windows = harvest.sorted();
    let mut learned = Learned { windows: windows.len(), ..Learned::default() };
    let mut rules: Vec<LearnedRule> = Vec::new();
    let mut names: BTreeSet<String> = known.iter().map(|rule| rule.name.clone()).collect();
    for batch in windows.chunks(BATCH) {
        let set = set_of(known, &rules);
        let (before, found) = (learned.searched, rules.len());
        let one = |(sample, _): &(Sample, Seen)| -> Option<(Vec<Insn>, Vec<Rule>)> {
            if shortened(sample, &set).is_some() {
                return None;
            }
            let after = search(sample, options)?;
            let rules = generalize::generalize(sample, &after, options.solver_steps);
            Some((after, rules))
        };
        let mut tick = |done: usize| watch.learning(before + done, windows.len(), found) && Instant::now() < deadline;
        let (results, finished) = in_parallel(batch, options.jobs, &one, &mut tick);
        for ((sample, seen), result) in batch.iter().zip(results) {
            learned.searched += usize::from(result.is_some());
            let Some(Some((_, general))) = result else { continue };
            learned.shortened += 1;
            learned.generalized += usize::from(!general.is_empty());
            for mut rule in general {
                // An earlier rule of this batch may do it already.
                let fresh = witness_of(&rule, sample);
                if shortened(&fresh, &set_of(known, &rules)).is_some() {
                    learned.subsumed += 1;
                    continue;
                }
                rule.name = name(&rule, &mut names);
                let found_in = seen.programs.iter().next().cloned().unwrap_or_default();
                let proof = (Method::Normalized, 0);
                rules.push(LearnedRule { rule, found_in, programs: 0, places: 0, proof, witness: fresh });
            }
        }
        if !finished {
            break;
        }
    }
    let kept = without_subsumed(known, rules, &mut learned);
    // Those beyond were in fewer programs.
    let windows = &windows[..learned.searched];
    learned.rules = proved(without_rare(known, kept, windows, options, &mut learned));
    learned.rules.sort_by(|one, other| one.rule.name.cmp(&other.rule.name));
    learned
}

fn set_of(known: &[Rule], rules: &[LearnedRule]) -> RuleSet {
    let all = known.iter().cloned().chain(rules.iter().map(|learned| learned.rule.clone()));
    RuleSet::new(all.collect()).unwrap_or_default()
}

/// A window for a rule: the one that it was found in, or, for its twin of the other width, that one's twin.
fn witness_of(rule: &Rule, sample: &Sample) -> Sample {
    let width = |insn: &Insn| match insn {
        Insn::Alu { width, .. } | Insn::Neg { width, .. } | Insn::Branch { width, .. } => Some(*width),
        _ => None,
    };
    let own = rule.before.iter().find_map(|pattern| width(&pattern.insn));
    let theirs = sample.insns.iter().find_map(width);
    let mut twin = sample.clone();
    if own == theirs {
        return twin;
    }
    let own = own.unwrap_or(Width::W64);
    for insn in &mut twin.insns {
        match insn {
            Insn::Alu { width, src, op, .. } => {
                *width = own;
                if let (Source::Imm(imm), AluOp::Lsh | AluOp::Rsh | AluOp::Arsh) = (src, op) {
                    *imm %= own.bits() as i32;
                }
            }
            Insn::Neg { width, .. } | Insn::Branch { width, .. } => *width = own,
            _ => {}
        }
    }
    twin
}

/// The result of the rules on a window, and the first rule used; `None` if none shortens it.
fn shortened(sample: &Sample, rules: &RuleSet) -> Option<(Vec<Node>, String)> {
    let object = Object::default();
    let (mut stale, refuted) = (Staleness::default(), HashSet::new());
    let (limits, model) = (Limits { tests: 0, solver_steps: 0, ..Limits::default() }, CostModel::default());
    let calls = Calls::of(&object);
    let mut possible = sample.bounds;
    possible[Reg::R10.index()] = u64::MAX;
    let mut region = Region {
        object: &object,
        calls: &calls,
        facts: None,
        context: None,
        nodes: sample.nodes(),
        end: sample.demand(),
        exits: &NOWHERE,
        stale: &mut stale,
        limits: &limits,
        refuted: &refuted,
        newly_refuted: HashSet::new(),
        steps: Vec::new(),
        asked: 0,
        possible: (possible, true),
        isa: 3,
        model: &model,
        goal: Goal::Size,
    };
    let slots = |nodes: &[Node]| nodes.iter().map(|node| node.insn.slots()).sum::<u32>();
    let before = slots(&region.nodes);
    let mut first = None;
    let mut at = 0;
    while at < region.nodes.len() {
        let trace = Trace::new(&region);
        let steps = region.steps.len();
        if matching::apply(rules, &mut region, &trace, at, &|_| true) {
            first = first.or(region.steps.get(steps).map(|step| step.rule.clone()));
            at = 0;
        } else {
            at += 1;
        }
    }
    (slots(&region.nodes) < before).then(|| (region.nodes, first.expect("a rule did it")))
}

/// A shorter run for a window. One that needs no knowledge of the window's inputs is preferred.
fn search(sample: &Sample, options: &Options) -> Option<Vec<Insn>> {
    let found = search_with(sample, None, options);
    found.or_else(|| search_with(sample, Some(facts(sample)?), options))
}

fn search_with(sample: &Sample, facts: Option<InsnFacts>, options: &Options) -> Option<Vec<Insn>> {
    let nodes = sample.nodes();
    let object = Object::default();
    let demand = sample.demand();
    let model = CostModel::default();
    let question = Question {
        window: Window {
            before: &nodes,
            after: &nodes,
            facts: facts.as_ref(),
            live_after: demand.live(),
            stack_live_after: StackSet::ALL,
            exits: &[],
            object: &object,
        },
        demand,
        writable: sample.written(),
        isa: 3,
        cost: &|insn| {
            let weight = Weight::of_insn(insn, &model);
            weight.slots << 40 | weight.picoseconds << 16 | weight.operands
        },
        bound: Bound::NONE,
        deadline: Instant::now() + WINDOW,
        stopped: &|| false,
    };
    let mut tester = question.tester(INPUTS)?;
    let limits = Limits { solver_steps: options.solver_steps, tests: 0, ..Limits::default() };
    let slots = |nodes: &[Node]| nodes.iter().map(|node| node.insn.slots()).sum::<u32>();
    let mut best: Option<Vec<Node>> = None;
    let mut accept = |tester: &mut Tester, candidate: &[Node]| {
        let proved = slots(candidate) < slots(&nodes) && question.prove(tester, candidate, &limits).is_some();
        if proved {
            best = Some(candidate.to_vec());
        }
        proved
    };
    offline::Fewer.find(&question, &mut tester, &mut accept);
    Enumerate { length: 2 }.find_in(&offline::pool(&question), &question, &mut tester, &mut accept);
    best.map(|best| best.iter().map(|node| node.insn).collect())
}

/// What the window says of its inputs, as facts.
fn facts(sample: &Sample) -> Option<InsnFacts> {
    let bounded = sample.bounds.iter().any(|bound| *bound != u64::MAX);
    let registers = std::array::from_fn(|at| match sample.bounds[at] {
        u64::MAX => Value::Unknown,
        mask => Value::Scalar(Scalar { tnum: Tnum { value: 0, mask }, ..Scalar::UNKNOWN }),
    });
    let (live_after, stack_live_after) = (RegSet::ALL, StackSet::ALL);
    bounded.then(|| InsnFacts { registers, stack: Default::default(), packet_bytes: 0, live_after, stack_live_after })
}

/// Runs a function over items by several threads; asks `tick` now and then whether to go on. The results in the order of
/// the items, `None` for what was not reached, and whether all were.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    run: &(dyn Fn(&T) -> R + Sync),
    tick: &mut dyn FnMut(usize) -> bool,
) -> (Vec<Option<R>>, bool) {
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let (next, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(!tick(0)));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = run(item);
                    if let Ok(mut place) = results[at].lock() {
                        *place = Some(result);
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while done.load(Ordering::Relaxed) < items.len() && !stop.load(Ordering::Relaxed) {
            if !tick(done.load(Ordering::Relaxed)) {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(TICK);
        }
    });
    let finished = !stop.load(Ordering::Relaxed);
    (results.into_iter().map(|place| place.into_inner().ok().flatten()).collect(), finished)
}

/// Rules whose work the other rules do not do; of two that do the same, the more general one is kept.
fn without_subsumed(known: &[Rule], mut rules: Vec<LearnedRule>, learned: &mut Learned) -> Vec<LearnedRule> {
    let literals = |rule: &Rule| {
        let asked = rule.conditions.len() + rule.dead.iter().count() + rule.narrow.iter().count();
        (rule.before.len(), asked, rule.name.clone())
    };
    rules.sort_by_cached_key(|learned| literals(&learned.rule));
    let mut kept: Vec<LearnedRule> = Vec::new();
    for rule in rules {
        let others = shortened(&rule.witness, &set_of(known, &kept));
        let own = shortened(&rule.witness, &set_of(&[], std::slice::from_ref(&rule)));
        let slots = |found: &Option<(Vec<Node>, _)>| {
            found.as_ref().map_or(u32::MAX, |(nodes, _)| nodes.iter().map(|node| node.insn.slots()).sum())
        };
        if own.is_some() && slots(&own) < slots(&others) {
            kept.push(rule);
        } else {
            learned.subsumed += 1;
        }
    }
    kept
}

/// Rules that enough programs have a use for, with how many they are.
fn without_rare(
    known: &[Rule],
    rules: Vec<LearnedRule>,
    windows: &[(Sample, Seen)],
    options: &Options,
    learned: &mut Learned,
) -> Vec<LearnedRule> {
    let set = set_of(known, &rules);
    let mut uses: BTreeMap<String, (BTreeSet<&str>, u64)> = BTreeMap::new();
    let (results, _) = in_parallel(windows, options.jobs, &|(sample, _)| shortened(sample, &set), &mut |_| true);
    for ((_, seen), result) in windows.iter().zip(results) {
        if let Some(Some((_, name))) = result {
            let entry = uses.entry(name).or_default();
            entry.0.extend(seen.programs.iter().map(String::as_str));
            entry.1 += seen.places;
        }
    }
    let (kept, rare): (Vec<_>, Vec<_>) = rules
        .into_iter()
        .map(|rule| {
            let (programs, places) =
                uses.get(rule.rule.name.as_str()).map_or((0, 0), |(all, places)| (all.len(), *places));
            LearnedRule { programs, places, ..rule }
        })
        .partition(|rule| rule.programs >= options.programs);
    learned.rare += rare.len();
    kept
}

/// Rules proved once more, with time: what is written down must hold.
fn proved(rules: Vec<LearnedRule>) -> Vec<LearnedRule> {
    let limits = Limits { solver_steps: 12_500_000, tests: 1000, ..Limits::default() };
    let prove = |mut rule: LearnedRule| match prove_rule(&rule.rule, &limits) {
        RuleVerdict::Proved { cases, method } => {
            rule.proof = (method, cases);
            Some(rule)
        }
        _ => None,
    };
    rules.into_iter().filter_map(prove).collect()
}

/// A name that says what the rule does, and is not taken.
fn name(rule: &Rule, taken: &mut BTreeSet<String>) -> String {
    let list = |patterns: &[Pattern]| patterns.iter().map(|pattern| word(&pattern.insn)).collect::<Vec<_>>().join("-");
    let kept = rule.before.iter().zip(&rule.after).take_while(|(old, new)| old == new).count();
    let kept = kept.min(rule.before.len() - 1);
    let after = match &rule.after[kept..] {
        [] => "nothing".to_owned(),
        patterns => list(patterns),
    };
    let base = format!("{}-as-{after}", list(&rule.before));
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(base);
    taken.insert(name.clone());
    name
}

fn word(insn: &Insn) -> String {
    let narrow = |width: &Width| if *width == Width::W32 { "32" } else { "" };
    match insn {
        Insn::Alu { op, width, .. } => format!("{op:?}{}", narrow(width)).to_lowercase(),
        Insn::Neg { width, .. } => format!("neg{}", narrow(width)),
        Insn::MoveSignExtend { .. } => "movs".to_owned(),
        Insn::Endian { size, .. } => format!("swap{}", size.bits()),
        Insn::LoadImm64 { .. } => "const".to_owned(),
        Insn::Load { size, .. } => format!("load{}", size.bits()),
        Insn::Store { size, .. } => format!("store{}", size.bits()),
        Insn::Branch { op, width, .. } => format!("if{op:?}{}", narrow(width)).to_lowercase(),
        _ => "other".to_owned(),
    }
}
