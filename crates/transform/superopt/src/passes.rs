//! The table of passes, and how each is run on one function.
//!
//! A new pass is a file of its own and one row in [`PASSES`]: it reads the facts in [`Work`], changes the one function,
//! and returns the evidence of every change. Whether the result is kept is not its business: [`crate::pipeline`]
//! verifies it, and runs the pass again with less fuel, or with steps banned, when it was refused.

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use kiln_equiv::{Limits, Method, listed};
use kiln_isa::table::IsaVersion;
use kiln_program::{Function, FunctionId, InsnId, Node, Object};
use kiln_verifier::Facts;

use crate::cost::Goal;
use crate::cost::frequency::Frequencies;
use crate::evidence::{Because, Evidence, Law};
use crate::flow::calls::Calls;
use crate::laws::alike;
use crate::laws::atomics;
use crate::laws::available;
use crate::laws::bounds;
use crate::laws::control_flow::{self, Change};
use crate::laws::dead;
use crate::laws::found;
use crate::laws::frame;
use crate::laws::hoist;
use crate::laws::inline;
use crate::laws::late;
use crate::laws::narrow;
use crate::laws::null_answers;
use crate::laws::packet_loads;
use crate::laws::reuse;
use crate::laws::thread;
use crate::laws::truths;
use crate::laws::turned;
use crate::laws::webs;
use crate::pipeline::Options;
use crate::search::{self, Place};
use crate::windows::diamonds;
use crate::windows::region::Step;
use crate::windows::{self, Budget};

/// What a pass works on: one function of an object, with facts that are true of it now.
pub struct Work<'a> {
    /// The object; a pass may change only the one function (and take fresh ids).
    pub object: &'a mut Object,
    /// Which function.
    pub function: FunctionId,
    /// What the object's calls read.
    pub calls: &'a Calls,
    /// Facts of the object as it is when the pass begins, where the verifier gave some.
    pub facts: Option<&'a Facts>,
    /// When to stop looking.
    pub deadline: Instant,
    /// The same, for what only time ends: this function's part of what is left.
    pub share: Instant,
    /// Threads that a search may use.
    pub threads: usize,
    /// How often instructions run.
    pub frequencies: &'a Frequencies,
    /// What searches have found.
    pub memory: &'a mut search::Memory,
    /// Whether to end with what there is.
    pub stopped: &'a dyn Fn() -> bool,
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
    /// What it does.
    does: Does,
}

/// What a pass does with a function.
enum Does {
    /// One thing at a time by one law, or some, again and again.
    Repeat(Law, fn(On<'_>) -> Vec<Change>),
    /// The same, by facts that its own changes leave true.
    ByFacts(Law, fn(On<'_>, &Facts) -> Vec<Change>),
    /// All at once, or in its own way.
    Own(fn(&mut Work<'_>) -> Vec<Evidence>),
}

/// What a law's function works on.
struct On<'a> {
    object: &'a mut Object,
    id: FunctionId,
    /// A copy of the object's function, which will take its place.
    function: &'a mut Function,
    calls: &'a Calls,
    isa: IsaVersion,
    /// Where the law must not be used.
    banned: &'a dyn Fn(InsnId) -> bool,
    /// Changes to make at most, where more than one is made at once.
    most: usize,
}

const fn repeat(name: &'static str, law: Law, change: fn(On<'_>) -> Vec<Change>) -> Pass {
    Pass { name, does: Does::Repeat(law, change) }
}

const fn by_facts(name: &'static str, law: Law, change: fn(On<'_>, &Facts) -> Vec<Change>) -> Pass {
    Pass { name, does: Does::ByFacts(law, change) }
}

const fn own(name: &'static str, run: fn(&mut Work<'_>) -> Vec<Evidence>) -> Pass {
    Pass { name, does: Does::Own(run) }
}

/// The passes, in the order they are tried each round.
pub const PASSES: &[Pass] = &[
    own("unreachable", |work| work.at_once(|function, facts, _| control_flow::remove_unreachable(function, facts))),
    by_facts("unread-answers", Law::UnreadAnswer, |on, facts| {
        dead::remove_unread_calls(on.object, on.function, facts, on.calls, on.banned)
    }),
    own("inlined-calls", run_inline),
    repeat("decided-branches", Law::ConstantBranch, |on| thread::decide_branches(on.function, on.banned)),
    repeat("threaded-branches", Law::ThreadedBranch, |on| {
        thread::thread_branches(on.function, on.calls, on.banned, on.most)
    }),
    repeat("narrow-loads", Law::NarrowLoad, |on| {
        narrow::narrow_loads(on.object, (on.id, on.function), on.calls, on.banned)
    }),
    repeat("cleared-halves", Law::ClearedHalf, |on| narrow::clear_once(on.object, (on.id, on.function), on.banned)),
    // What the facts say of runs stays true: none takes the way that changes.
    by_facts("found-elements", Law::FoundElement, |on, facts| {
        found::skip_missing(on.object, on.function, facts, on.calls, on.banned)
    }),
    own("windows", run_windows),
    repeat("available-values", Law::AvailableValue, |on| available::use_available(on.object, on.function, on.banned)),
    repeat("originals", Law::AvailableValue, |on| {
        available::read_originals(on.object, on.function, on.calls, on.banned)
    }),
    repeat("shared-registers", Law::SharedRegister, |on| {
        webs::share_registers(on.object, on.function, on.calls, on.banned)
    }),
    repeat("spared-registers", Law::SharedRegister, |on| {
        webs::spare_registers(on.object, on.function, on.calls, on.banned)
    }),
    repeat("packet-loads", Law::PacketOffset, |on| packet_loads::fold_offsets(on.function, on.banned)),
    own("diamonds", run_diamonds),
    repeat("skipped-operands", Law::SkippedOperand, |on| {
        truths::lead_past_conjunctions(on.object, on.function, on.calls, on.banned)
    }),
    by_facts("repeated-stores", Law::RepeatedStore, |on, facts| frame::repeated_stores(on.function, facts, on.banned)),
    by_facts("covered-stores", Law::CoveredStore, |on, facts| frame::cover_stores(on.function, facts, on.banned)),
    own("dead", |work| work.at_once(dead::remove_dead)),
    own("control-flow", control_flow_to_fixpoint),
    repeat("shared-heads", Law::SharedHead, |on| hoist::share_heads(on.object, on.function, on.calls, on.banned)),
    repeat("sunk-tails", Law::SharedTail, |on| hoist::sink_tails(on.object, on.function, on.banned)),
    repeat("alike-blocks", Law::AlikeBlock, |on| alike::lead_to_alike(on.object, on.function, on.calls, on.banned)),
    repeat("hoisted-arms", Law::HoistedArm, |on| hoist::hoist_arms(on.function, on.calls, on.banned)),
    by_facts("merged-checks", Law::MergedChecks, |on, facts| {
        bounds::merge_checks(on.function, facts, on.calls, on.banned)
    }),
    repeat("turned-branches", Law::TurnedBranch, |on| turned::turn_around(on.object, on.function, on.calls, on.banned)),
    repeat("late-constants", Law::LateConstant, |on| late::make_late(on.object, on.function, on.calls, on.banned)),
    own("null-answers", run_null_answers),
    own("atomic-updates", run_atomics),
    repeat("kept-addresses", Law::KeptAddress, |on| reuse::keep_addresses(on.object, on.function, on.calls, on.banned)),
    repeat("stepped-addresses", Law::SteppedAddress, |on| reuse::step_addresses(on.object, on.function, on.banned)),
];

/// What is tried once the passes find no more, the cheapest first: [`search::EFFORTS`].
pub const SEARCHES: [Pass; search::EFFORTS.len()] = [
    own("search, effort 0", |work| run_search(work, 0)),
    own("search, effort 1", |work| run_search(work, 1)),
    own("search, effort 2", |work| run_search(work, 2)),
    own("search, effort 3", |work| run_search(work, 3)),
    own("search, effort 4", |work| run_search(work, 4)),
    own("search, effort 5", |work| run_search(work, 5)),
];

impl Pass {
    /// Rewrites one function.
    pub fn run(&self, work: &mut Work<'_>) -> Vec<Evidence> {
        match (&self.does, work.facts) {
            (Does::Repeat(law, change), _) => work.repeat(*law, change),
            (Does::ByFacts(law, change), Some(facts)) => work.repeat(*law, |on| change(on, facts)),
            (Does::ByFacts(..), None) => Vec::new(),
            (Does::Own(run), _) => run(work),
        }
    }
}

impl Work<'_> {
    fn is_banned(&self, law: Law, at: InsnId) -> bool {
        self.options.is_without(self.function, law.name()) || self.banned.contains(&(law.name(), at))
    }

    /// Runs a pass that changes the function by laws, and writes down what it did.
    fn at_once(&mut self, pass: impl FnOnce(&mut Function, Option<&Facts>, &Calls) -> Vec<Change>) -> Vec<Evidence> {
        let id = self.function;
        let mut function = self.object.function(id).clone();
        let changes = pass(&mut function, self.facts, self.calls);
        let banned = changes.iter().any(|change| self.is_banned(change.law, change.at));
        if banned || changes.len() > self.fuel {
            return Vec::new();
        }
        let evidence = changes.into_iter().map(|change| describe(self.object, id, change)).collect();
        self.object.functions[id.index()] = function;
        evidence
    }

    /// Runs what does one thing a call, or some, as often as it finds something that is not banned.
    fn repeat(&mut self, law: Law, change: impl Fn(On<'_>) -> Vec<Change>) -> Vec<Evidence> {
        let id = self.function;
        let mut evidence = Vec::new();
        let (banned, without) = (self.banned, self.options.is_without(id, law.name()));
        let banned = |at| without || banned.contains(&(law.name(), at));
        while evidence.len() < self.fuel && Instant::now() < self.deadline {
            let mut function = self.object.function(id).clone();
            let (object, function_now) = (&mut *self.object, &mut function);
            let (calls, isa) = (self.calls, self.options.isa);
            let most = self.fuel - evidence.len();
            let changes = change(On { object, id, function: function_now, calls, isa, banned: &banned, most });
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

/// Rewrites a copy of the function in place of it.
fn rewrite_windows(
    work: &mut Work<'_>,
    deadline: Instant,
    rewrite: impl FnOnce(&mut Work<'_>, &mut Function, &mut Budget<'_>) -> Vec<Step>,
) -> Vec<Evidence> {
    let mut function = work.object.function(work.function).clone();
    let (options, id) = (work.options, work.function);
    let without = |name: &'static str| options.is_without(id, name);
    let mut refuted = std::mem::take(work.refuted);
    let mut budget = Budget {
        calls: work.calls,
        deadline,
        limits: work.limits,
        refuted: &mut refuted,
        fuel: work.fuel,
        banned: work.banned,
        isa: options.isa,
        model: &options.model,
        goal: options.goal,
        rules: &options.rules,
        without: &without,
    };
    let steps = rewrite(work, &mut function, &mut budget);
    *work.refuted = refuted;
    let evidence = steps.into_iter().map(|step| describe_step(work.object, work.function, step)).collect();
    work.object.functions[work.function.index()] = function;
    evidence
}

/// Only where slots are all that counts: the kernel's lock costs more time than it saves.
fn run_atomics(work: &mut Work<'_>) -> Vec<Evidence> {
    if work.options.goal != Goal::Size {
        return Vec::new();
    }
    let facts = work.facts;
    work.repeat(Law::AtomicUpdate, |on| atomics::make_atomic(on.function, on.calls, facts, on.isa, on.banned))
}

fn run_null_answers(work: &mut Work<'_>) -> Vec<Evidence> {
    let for_size = work.options.goal == Goal::Size;
    work.repeat(Law::NullAnswer, |on| null_answers::reuse_null(on.object, on.function, on.calls, for_size, on.banned))
}

fn run_inline(work: &mut Work<'_>) -> Vec<Evidence> {
    let (Some(facts), id) = (work.facts, work.function) else { return Vec::new() };
    let without = work.options.is_without(id, Law::InlinedCall.name());
    let banned = |at| without || work.banned.contains(&(Law::InlinedCall.name(), at));
    let changes = inline::inline_calls(work.object, id, work.calls, facts, work.fuel, &banned);
    changes.into_iter().map(|change| describe(work.object, id, change)).collect()
}

fn run_diamonds(work: &mut Work<'_>) -> Vec<Evidence> {
    let mut function = work.object.function(work.function).clone();
    let (options, id) = (work.options, work.function);
    let allowed = |name: &'static str, at| !options.is_without(id, name) && !work.banned.contains(&(name, at));
    let steps = diamonds::rewrite(work.object, &mut function, work.calls, work.facts, work.limits, work.fuel, &allowed);
    let evidence = steps.into_iter().map(|step| describe_step(work.object, work.function, step)).collect();
    work.object.functions[work.function.index()] = function;
    evidence
}

/// The passes that need only the graph, in turn, until none finds more.
fn control_flow_to_fixpoint(work: &mut Work<'_>) -> Vec<Evidence> {
    type Pass = fn(&Object, &mut Function) -> Vec<Change>;
    const LAWS: &[Pass] = &[
        |_, function| control_flow::thread_jumps(function),
        |_, function| control_flow::remove_unreachable_blocks(function),
        |_, function| control_flow::remove_jumps_to_next(function),
        |_, function| control_flow::invert_branches(function),
        |_, function| control_flow::lay_out(function),
        |_, function| control_flow::exit_early(function),
        |_, function| control_flow::share_exits(function),
        control_flow::share_tails,
    ];
    let id = work.function;
    let mut function = work.object.function(id).clone();
    let mut evidence: Vec<Evidence> = Vec::new();
    loop {
        let mut found = false;
        for pass in LAWS {
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
