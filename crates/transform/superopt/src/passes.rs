//! The table of passes, and how each is run on one function.
//!
//! Most passes are steps of laws, in the order of the table in [`crate::laws`]. Between them windows are rewritten, and
//! at the end they are searched. A pass reads the facts in [`Work`], changes one function, and returns the evidence of
//! every change. It does not decide whether the result is kept: [`crate::run`] proves and verifies it, and runs the
//! pass again with less fuel, or with steps banned, if it was refused.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Instant;

use kiln_equiv::helpers::Helpers;
use kiln_equiv::{Limits, Method, listed};
use kiln_program::{Function, FunctionId, InsnId, Node, Object};
use kiln_verifier::Facts;

use crate::cost::frequency::Frequencies;
use crate::evidence::{Because, Evidence};
use crate::flow::calls::Calls;
use crate::laws::context::{Change, Context, Stage, Step as LawStep, Times};
use crate::laws::{self, LawRow};
use crate::options::Options;
use crate::search::{self, Place};
use crate::windows::diamonds;
use crate::windows::region::Step;
use crate::windows::{self, Banned, Budget, Terms};

/// What a pass works on: one function of an object, with facts that are true of it now.
pub struct Work<'a> {
    /// The object; a pass may change only the one function (and take fresh ids).
    pub object: &'a mut Object,
    /// Which function.
    pub function: FunctionId,
    /// What the object's calls read.
    pub calls: &'a Calls,
    /// Facts of the object at the beginning of the pass, if the verifier gave some.
    pub facts: Option<&'a Facts>,
    /// When to stop looking.
    pub deadline: Instant,
    /// When a search that only time ends must stop: this function's share of the time left.
    pub share: Instant,
    /// Threads that a search may use.
    pub threads: usize,
    /// Threads that have nothing to do, of which a pass may use some.
    pub helpers: &'a Helpers,
    /// How often instructions run.
    pub frequencies: &'a Frequencies,
    /// What earlier searches found.
    pub memory: &'a mut search::Memory,
    /// Whether to end with the current result.
    pub stopped: &'a (dyn Fn() -> bool + Sync),
    /// The limits of each question.
    pub limits: &'a Limits,
    /// Hashes of windows that were refused.
    pub refuted: &'a mut HashSet<u64>,
    /// Runs in which no rule found anything.
    pub swept: &'a mut windows::Swept,
    /// Maximum number of steps.
    pub fuel: usize,
    /// Steps that must not be taken.
    pub banned: &'a Banned,
    /// How to optimize.
    pub options: &'a Options,
}

/// A pass: a name for reports and what it does.
pub struct Pass {
    /// Its name, or the name of the law that it is a step of.
    pub name: &'static str,
    /// Its unique index among all passes.
    pub index: usize,
    /// What it does.
    does: Does,
}

/// What a pass does with a function.
enum Does {
    /// A step of a law.
    Law(&'static LawRow, &'static LawStep),
    /// All steps of a stage in turn, until none finds more.
    Stage(Stage),
    /// Windows, each proved by itself.
    Windows(fn(&mut Work<'_>) -> Vec<Evidence>),
    /// A search, with one of [`search::EFFORTS`].
    Search(usize),
}

/// The passes, in the order they are tried each round.
pub static PASSES: LazyLock<Vec<Pass>> = LazyLock::new(|| {
    let laws = |stage| laws::steps(stage).map(|(row, step)| (row.name, Does::Law(row, step)));
    let passes = laws(Stage::BeforeWindows)
        .chain([("windows", Does::Windows(run_windows))])
        .chain(laws(Stage::Values))
        .chain([("diamonds", Does::Windows(run_diamonds))])
        .chain(laws(Stage::Stores))
        .chain([("control-flow", Does::Stage(Stage::Graph))])
        .chain(laws(Stage::Last));
    passes.enumerate().map(|(index, (name, does))| Pass { name, index, does }).collect()
});

/// What is tried once the passes find no more, the cheapest first: [`search::EFFORTS`].
pub static SEARCHES: LazyLock<Vec<Pass>> = LazyLock::new(|| {
    const NAMES: [&str; search::EFFORTS.len()] = [
        "search, effort 0",
        "search, effort 1",
        "search, effort 2",
        "search, effort 3",
        "search, effort 4",
        "search, effort 5",
    ];
    let passes = NAMES.into_iter().enumerate();
    passes.map(|(effort, name)| Pass { name, index: PASSES.len() + effort, does: Does::Search(effort) }).collect()
});

impl Pass {
    /// Whether it looks at facts. What it finds then depends on a verification of the version before it.
    pub fn uses_facts(&self) -> bool {
        match &self.does {
            Does::Law(row, step) => row.needs_facts || step.uses_facts,
            Does::Stage(stage) => laws::steps(*stage).any(|(row, step)| row.needs_facts || step.uses_facts),
            Does::Windows(_) | Does::Search(_) => true,
        }
    }

    /// Rewrites one function.
    pub fn run(&self, work: &mut Work<'_>) -> Vec<Evidence> {
        match &self.does {
            Does::Law(row, _) if row.needs_facts && work.facts.is_none() => Vec::new(),
            Does::Law(row, step) if step.times == Times::Once => work.once(row, step.run),
            Does::Law(row, step) => work.repeat(row, step.run),
            Does::Stage(stage) => work.to_fixpoint(*stage),
            Does::Windows(run) => run(work),
            Does::Search(effort) => run_search(work, *effort),
        }
    }
}

impl Work<'_> {
    fn is_banned(&self, law: &'static str, at: InsnId) -> bool {
        self.options.is_without(law) || self.banned.contains(law, at)
    }

    /// Runs a law's step on a copy of a function; it may make at most `most` changes.
    fn step(
        &mut self,
        row: &'static LawRow,
        run: fn(Context<'_>) -> Vec<Change>,
        function: &mut Function,
        most: usize,
    ) -> Vec<Change> {
        let (options, id, banned) = (self.options, self.function, self.banned);
        let without = options.is_without(row.name);
        let banned_by = |law: &str, at| options.is_without(law) || banned.contains(law, at);
        let banned = |at| without || banned.contains(row.name, at);
        run(Context {
            object: self.object,
            id,
            function,
            calls: self.calls,
            facts: self.facts,
            isa: options.isa,
            goal: options.goal,
            banned: &banned,
            banned_by: &banned_by,
            most,
        })
    }

    /// Whether one of the changes is banned.
    fn any_banned(&self, row: &LawRow, changes: &[Change]) -> bool {
        changes.iter().any(|change| self.is_banned(change.law.unwrap_or(row.name), change.at))
    }

    /// Runs a step that makes all its changes at once. Returns their evidence.
    fn once(&mut self, row: &'static LawRow, run: fn(Context<'_>) -> Vec<Change>) -> Vec<Evidence> {
        let id = self.function;
        let mut function = self.object.function(id).clone();
        let changes = self.step(row, run, &mut function, self.fuel);
        if self.any_banned(row, &changes) || changes.len() > self.fuel {
            return Vec::new();
        }
        let evidence = changes.into_iter().map(|change| describe(self.object, id, row, change)).collect();
        self.object.functions[id.index()] = function;
        evidence
    }

    /// Runs a step as often as it finds something that is not banned.
    fn repeat(&mut self, row: &'static LawRow, run: fn(Context<'_>) -> Vec<Change>) -> Vec<Evidence> {
        let id = self.function;
        let mut evidence = Vec::new();
        while evidence.len() < self.fuel && Instant::now() < self.deadline {
            let mut function = self.object.function(id).clone();
            let changes = self.step(row, run, &mut function, self.fuel - evidence.len());
            if changes.is_empty() {
                break;
            }
            evidence.extend(changes.into_iter().map(|change| describe(self.object, id, row, change)));
            self.object.functions[id.index()] = function;
        }
        evidence
    }

    /// Runs the steps of a stage in turn, until none finds more.
    fn to_fixpoint(&mut self, stage: Stage) -> Vec<Evidence> {
        let id = self.function;
        let mut function = self.object.function(id).clone();
        let mut evidence: Vec<Evidence> = Vec::new();
        loop {
            let mut found = false;
            for (row, step) in laws::steps(stage) {
                let mut candidate = function.clone();
                let changes = self.step(row, step.run, &mut candidate, self.fuel - evidence.len());
                if changes.is_empty() || self.any_banned(row, &changes) {
                    continue;
                }
                if evidence.len() + changes.len() > self.fuel {
                    found = false;
                    break;
                }
                found = true;
                function = candidate;
                evidence.extend(changes.into_iter().map(|change| describe(self.object, id, row, change)));
            }
            if !found || Instant::now() >= self.deadline {
                break;
            }
        }
        self.object.functions[id.index()] = function;
        evidence
    }
}

fn run_windows(work: &mut Work<'_>) -> Vec<Evidence> {
    rewrite_windows(work, work.deadline, |work, function, budget| {
        windows::rewrite(work.object, (work.function, function), work.facts, budget)
    })
}

/// Searches with one effort until nothing is found, or the function's share of the time is spent.
fn run_search(work: &mut Work<'_>, effort: usize) -> Vec<Evidence> {
    let deadline = if search::EFFORTS[effort].is_bounded() { work.deadline } else { work.share };
    rewrite_windows(work, deadline, |work, function, budget| {
        let mut place = Place {
            object: work.object,
            facts: work.facts,
            effort,
            threads: work.threads,
            frequencies: work.frequencies,
            memory: work.memory,
            stopped: work.stopped,
        };
        search::rewrite(&mut place, (work.function, function), budget)
    })
}

/// Rewrites a copy of the function and then replaces the function by it.
fn rewrite_windows(
    work: &mut Work<'_>,
    deadline: Instant,
    rewrite: impl FnOnce(&mut Work<'_>, &mut Function, &mut Budget<'_>) -> Vec<Step>,
) -> Vec<Evidence> {
    let mut function = work.object.function(work.function).clone();
    let options = work.options;
    let without = |name: &str| options.is_without(name);
    let mut refuted = std::mem::take(work.refuted);
    let mut swept = std::mem::take(work.swept);
    let terms = Terms {
        calls: work.calls,
        deadline,
        limits: work.limits,
        banned: work.banned,
        isa: options.isa,
        model: &options.model,
        goal: options.goal,
        rules: &options.rules,
        without: &without,
    };
    let (fuel, helpers) = (work.fuel, work.helpers);
    let mut budget = Budget { terms, refuted: &mut refuted, swept: &mut swept, fuel, helpers };
    let steps = rewrite(work, &mut function, &mut budget);
    *work.refuted = refuted;
    *work.swept = swept;
    let evidence = steps.into_iter().map(|step| describe_step(work.object, work.function, step)).collect();
    work.object.functions[work.function.index()] = function;
    evidence
}

fn run_diamonds(work: &mut Work<'_>) -> Vec<Evidence> {
    let mut function = work.object.function(work.function).clone();
    let options = work.options;
    let allowed = |name: &str, at| !options.is_without(name) && !work.banned.contains(name, at);
    let steps = diamonds::rewrite(work.object, &mut function, work.calls, work.facts, work.limits, work.fuel, &allowed);
    let evidence = steps.into_iter().map(|step| describe_step(work.object, work.function, step)).collect();
    work.object.functions[work.function.index()] = function;
    evidence
}

fn slots(nodes: &[Node]) -> i64 {
    nodes.iter().map(|node| i64::from(node.insn.slots())).sum()
}

fn describe(object: &Object, function: FunctionId, row: &'static LawRow, change: Change) -> Evidence {
    let law = laws::law(change.law.unwrap_or(row.name));
    evidence(object, function, change.at, Because::Law(law), &change.before, &change.after)
}

fn describe_step(object: &Object, function: FunctionId, step: Step) -> Evidence {
    let because = Because::Window {
        proposed_by: step.rule,
        proved_by: match step.proof.method {
            Method::Normalized => "normal-form",
            Method::Smt { .. } => "smt",
            Method::Rule => "rule",
        },
        micros: step.proof.micros,
        record: step.proof.record,
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
        simulation: None,
        before: listing(before),
        after: listing(after),
        before_ids: before.iter().map(|node| node.id).collect(),
        after_ids: after.iter().map(|node| node.id).collect(),
    }
}
