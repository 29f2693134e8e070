//! The table of passes, and how each is run on one function.
//!
//! A new pass is a file of its own and one row in [`PASSES`]: it reads the facts in [`Work`], changes the one function,
//! and returns the evidence of every change. Whether the result is kept is not its business: [`crate::pipeline`]
//! verifies it, and runs the pass again with less fuel, or with steps banned, when it was refused.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use kiln_equiv::{Limits, Method, listed};
use kiln_program::{Function, FunctionId, InsnId, Node, Object};
use kiln_verifier::Facts;

use crate::atomics;
use crate::available;
use crate::bounds;
use crate::calls::Calls;
use crate::control_flow::{self, Change};
use crate::cost::Goal;
use crate::cost::frequency::Frequencies;
use crate::dead;
use crate::diamonds;
use crate::evidence::{Because, Evidence, Law};
use crate::found;
use crate::frame;
use crate::hoist;
use crate::inline;
use crate::late;
use crate::narrow;
use crate::packet_loads;
use crate::pipeline::Options;
use crate::region::Step;
use crate::reuse;
use crate::search::{self, Place};
use crate::thread;
use crate::turned;
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
    /// How long this function may be searched, in all.
    pub search: Duration,
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
    /// Rewrites one function.
    pub run: fn(&mut Work<'_>) -> Vec<Evidence>,
}

/// The passes, in the order they are tried each round.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "unreachable",
        run: |work| work.law_pass(|function, facts, _| control_flow::remove_unreachable(function, facts)),
    },
    Pass { name: "inlined-calls", run: run_inline },
    Pass {
        name: "decided-branches",
        run: |work| work.repeat(Law::ConstantBranch, |_, function, banned| thread::decide_branches(function, banned)),
    },
    Pass {
        name: "threaded-branches",
        run: |work| {
            let calls = work.calls;
            work.repeat(Law::ThreadedBranch, |_, function, banned| thread::thread_branches(function, calls, banned))
        },
    },
    Pass {
        name: "narrow-loads",
        run: |work| {
            let (id, calls) = (work.function, work.calls);
            work.repeat(Law::NarrowLoad, |object, function, banned| {
                narrow::narrow_loads(object, (id, function), calls, banned)
            })
        },
    },
    Pass {
        name: "cleared-halves",
        run: |work| {
            let id = work.function;
            work.repeat(Law::ClearedHalf, |object, function, banned| narrow::clear_once(object, (id, function), banned))
        },
    },
    Pass { name: "found-elements", run: run_found },
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
            let calls = work.calls;
            work.repeat(Law::AvailableValue, |object, function, banned| {
                available::read_originals(object, function, calls, banned)
            })
        },
    },
    Pass {
        name: "packet-loads",
        run: |work| work.repeat(Law::PacketOffset, |_, function, banned| packet_loads::fold_offsets(function, banned)),
    },
    Pass { name: "diamonds", run: run_diamonds },
    Pass { name: "repeated-stores", run: |work| work.repeat_with_facts(Law::RepeatedStore, frame::repeated_stores) },
    Pass { name: "covered-stores", run: |work| work.repeat_with_facts(Law::CoveredStore, frame::cover_stores) },
    Pass {
        name: "dead",
        run: |work| work.law_pass(|function, facts, calls| dead::remove_dead(function, facts, calls)),
    },
    Pass { name: "control-flow", run: control_flow_to_fixpoint },
    Pass {
        name: "shared-heads",
        run: |work| {
            work.repeat(Law::SharedHead, |object, function, banned| hoist::share_heads(object, function, banned))
        },
    },
    Pass {
        name: "hoisted-arms",
        run: |work| {
            let calls = work.calls;
            work.repeat(Law::HoistedArm, |_, function, banned| hoist::hoist_arms(function, calls, banned))
        },
    },
    Pass {
        name: "merged-checks",
        run: |work| {
            let Some(facts) = work.facts else { return Vec::new() };
            let calls = work.calls;
            work.repeat(Law::MergedChecks, |_, function, banned| bounds::merge_checks(function, facts, calls, banned))
        },
    },
    Pass {
        name: "turned-branches",
        run: |work| {
            let calls = work.calls;
            work.repeat(Law::TurnedBranch, |object, function, banned| {
                turned::turn_around(object, function, calls, banned)
            })
        },
    },
    Pass {
        name: "late-constants",
        run: |work| {
            let calls = work.calls;
            work.repeat(Law::LateConstant, |object, function, banned| late::make_late(object, function, calls, banned))
        },
    },
    Pass { name: "atomic-updates", run: run_atomics },
    Pass {
        name: "kept-addresses",
        run: |work| {
            let calls = work.calls;
            work.repeat(Law::KeptAddress, |object, function, banned| {
                reuse::keep_addresses(object, function, calls, banned)
            })
        },
    },
];

/// What is tried once the passes find no more, the cheapest first: [`search::EFFORTS`].
pub const SEARCHES: [Pass; search::EFFORTS.len()] = [
    Pass { name: search::NAME, run: |work| run_search(work, 0) },
    Pass { name: search::NAME, run: |work| run_search(work, 1) },
    Pass { name: search::NAME, run: |work| run_search(work, 2) },
    Pass { name: search::NAME, run: |work| run_search(work, 3) },
    Pass { name: search::NAME, run: |work| run_search(work, 4) },
];

impl Work<'_> {
    fn is_banned(&self, law: Law, at: InsnId) -> bool {
        self.options.is_without(self.function, law.name()) || self.banned.contains(&(law.name(), at))
    }

    /// Runs a pass that changes the function by laws, and writes down what it did.
    fn law_pass(&mut self, pass: impl FnOnce(&mut Function, Option<&Facts>, &Calls) -> Vec<Change>) -> Vec<Evidence> {
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

    /// The same for a pass that needs facts, which its own changes leave true.
    fn repeat_with_facts(
        &mut self,
        law: Law,
        pass: impl Fn(&mut Function, &Facts, &dyn Fn(InsnId) -> bool) -> Vec<Change>,
    ) -> Vec<Evidence> {
        match self.facts {
            Some(facts) => self.repeat(law, |_, function, banned| pass(function, facts, banned)),
            None => Vec::new(),
        }
    }

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

/// What the facts say of runs stays true: none takes the way that changes.
fn run_found(work: &mut Work<'_>) -> Vec<Evidence> {
    let Some(facts) = work.facts else { return Vec::new() };
    let calls = work.calls;
    work.repeat(Law::FoundElement, |object, function, banned| {
        found::skip_missing(object, function, facts, calls, banned)
    })
}

fn run_windows(work: &mut Work<'_>) -> Vec<Evidence> {
    rewrite_windows(work, work.deadline, |work, function, budget| {
        windows::rewrite(work.object, (work.function, function), work.facts, budget)
    })
}

/// Searches with one effort until nothing is found, or the function's share of the time is spent.
fn run_search(work: &mut Work<'_>, effort: usize) -> Vec<Evidence> {
    let left = work.memory.left(work.function, work.search);
    let deadline = work.deadline.min(Instant::now() + left);
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
    let (calls, facts, isa) = (work.calls, work.facts, work.options.isa);
    work.repeat(Law::AtomicUpdate, |_, function, banned| atomics::make_atomic(function, calls, facts, isa, banned))
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
