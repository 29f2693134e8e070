//! Runs every rule over every run of a function.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::time::Instant;

use kiln_equiv::Limits;
use kiln_isa::Insn;
use kiln_isa::table::IsaVersion;
use kiln_program::{Cfg, Function, FunctionId, InsnId, Node, Object};
use kiln_verifier::Facts;

use crate::cache::{RuleSet, matched};
use crate::calls::Calls;
use crate::cost::{CostModel, Goal};
use crate::demand::{self, Demand, NOWHERE};
use crate::possible;
use crate::region::{Region, Staleness, Step};
use crate::rules::RULES;
use crate::trace::Trace;

/// Instructions in a run at most: the cost of a proposal grows with its run.
const LONGEST_RUN: usize = 96;
/// Times the rules go over one run at most.
const SWEEPS: usize = 4;

/// What a pass over a function may spend, and what it learns.
pub struct Budget<'a> {
    /// What calls read.
    pub calls: &'a Calls,
    /// When to stop.
    pub deadline: Instant,
    /// How hard to try at each question.
    pub limits: &'a Limits,
    /// Questions already answered with no.
    pub refuted: &'a mut HashSet<u64>,
    /// Proposals that may still be taken; a bisection lowers it.
    pub fuel: usize,
    /// What must not be done again: a rule at an instruction.
    pub banned: &'a BTreeSet<(&'static str, InsnId)>,
    /// The newest version of the instruction set that new instructions may be of.
    pub isa: IsaVersion,
    /// What instructions cost.
    pub model: &'a CostModel,
    /// Which of two runs is the better one.
    pub goal: Goal,
    /// Rules as data, tried before those in code.
    pub rules: &'a RuleSet,
    /// Rules not to use.
    pub without: &'a dyn Fn(&'static str) -> bool,
}

/// Rewrites one function by the rules; returns the steps.
pub fn rewrite(
    object: &Object,
    (id, function): (FunctionId, &mut Function),
    facts: Option<&Facts>,
    budget: &mut Budget<'_>,
) -> Vec<Step> {
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, budget.calls);
    let numbers = possible::loads_numbers(object, id);
    let begins = possible::at_block_begins(function, &cfg, numbers);
    let mut stale = Staleness::default();
    let mut steps = Vec::new();
    // From the last to the first, so that positions of what is still to come stay.
    for (index, block) in cfg.blocks.iter().enumerate().rev() {
        let mut demand = ends[index];
        let mut end = block.range.end;
        let last = &function.nodes[end - 1];
        // A branch is the last of a window: what it compares may be put in another way.
        let compares = matches!(last.insn, Insn::Branch { .. }) && last.core.is_none();
        if last.insn.is_control() && !compares {
            end -= 1;
            demand.step_back(&function.nodes[end], budget.calls);
        }
        for run in runs(block.range.start..end).into_iter().rev() {
            let demand_here = demand_at(&function.nodes[run.end..end], stale.with_pinned(demand), budget.calls);
            let demand_here = stale.with_pinned(demand_here);
            if facts.is_some_and(|facts| run.clone().all(|at| !facts.reached(function.nodes[at].id))) {
                continue;
            }
            let before = function.nodes[run.clone()].to_vec();
            let first = before.first().map(|node| node.id);
            let mut possible = begins[index];
            let earlier = &function.nodes[block.range.start..run.start];
            earlier.iter().for_each(|node| possible::step(&mut possible, node, numbers));
            let mut region = Region {
                object,
                facts,
                nodes: before,
                end: demand_here,
                exits: &NOWHERE,
                calls: budget.calls,
                stale: &mut stale,
                limits: budget.limits,
                refuted: budget.refuted,
                steps: Vec::new(),
                asked: 0,
                possible: (possible, numbers),
                isa: budget.isa,
                model: budget.model,
                goal: budget.goal,
            };
            let allowed = |rule, at| !(budget.without)(rule) && !budget.banned.contains(&(rule, at));
            sweep(&mut region, budget.rules, budget.deadline, &mut budget.fuel, &allowed);
            let found = std::mem::take(&mut region.steps);
            if found.is_empty() {
                continue;
            }
            let after = std::mem::take(&mut region.nodes);
            end = end + after.len() - run.len();
            let heir = after.first().map(|node| node.id).or_else(|| function.nodes.get(run.end).map(|node| node.id));
            function.nodes.splice(run, after);
            if let (Some(first), Some(heir)) = (first, heir)
                && first != heir
            {
                crate::edit::retarget(function, &[(first, heir)].into_iter().collect());
            }
            steps.extend(found);
        }
        if Instant::now() >= budget.deadline {
            break;
        }
    }
    steps
}

fn demand_at(later: &[Node], mut demand: Demand, calls: &Calls) -> Demand {
    for node in later.iter().rev() {
        demand.step_back(node, calls);
    }
    demand
}

fn runs(range: Range<usize>) -> Vec<Range<usize>> {
    let starts = range.clone().step_by(LONGEST_RUN);
    starts.map(|start| start..(start + LONGEST_RUN).min(range.end)).collect()
}

fn sweep(
    region: &mut Region<'_>,
    rules: &RuleSet,
    deadline: Instant,
    fuel: &mut usize,
    allowed: &dyn Fn(&'static str, InsnId) -> bool,
) {
    for _ in 0..SWEEPS {
        let mut changed = false;
        let mut at = 0;
        let mut trace = Trace::new(region);
        while at < region.nodes.len() {
            if *fuel == 0 || Instant::now() >= deadline {
                return;
            }
            let id = region.nodes[at].id;
            let found = matched::apply(rules, region, &trace, at, &|name| allowed(name, id))
                || RULES.iter().filter(|rule| allowed(rule.name, id)).any(|rule| {
                    (rule.propose)(region, &trace, at)
                        .iter()
                        .any(|proposed| region.attempt(rule.name, id, proposed, rule.contextual))
                });
            if found {
                *fuel -= 1;
                changed = true;
                trace = Trace::new(region);
                // What comes before may have got smaller too: begin this instruction's place again.
                at = at.min(region.nodes.len());
            } else {
                at += 1;
            }
        }
        if !changed {
            return;
        }
    }
}
