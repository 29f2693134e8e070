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
//! Registers that are read at a branch's target count as read ([`Afterwards`]). A window with branches is proved for
//! each of its exits.

pub mod diamonds;
mod pieces;
pub mod region;
pub mod staleness;
pub mod trace;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::time::Instant;

use kiln_equiv::Limits;
use kiln_isa::table::IsaVersion;
use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{Block, Cfg, Function, FunctionId, InsnId, Object};
use kiln_verifier::{Facts, Region as Kind, Value};

use crate::cost::{CostModel, Goal};
use crate::flow::calls::Calls;
use crate::flow::demand::{self, Afterwards, Demand, Exits};
use crate::flow::possible::{self, Possible};
use crate::laws::available_values;
use crate::rules::RULES;
use crate::rules::data::{RuleSet, matching};
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

/// What a pass over a function may spend, and what it learns.
pub struct Budget<'a> {
    /// What calls read.
    pub calls: &'a Calls,
    /// When to stop.
    pub deadline: Instant,
    /// The limits of each question.
    pub limits: &'a Limits,
    /// Hashes of questions that were answered with no.
    pub refuted: &'a mut HashSet<u64>,
    /// Runs in which nothing was found.
    pub swept: &'a mut Swept,
    /// Number of proposals that may still be accepted; a bisection lowers it.
    pub fuel: usize,
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
    pub without: &'a dyn Fn(&str) -> bool,
}

/// Rewrites one function by the rules, from the last instruction to the first; returns the steps.
pub fn rewrite(
    object: &Object,
    (id, function): (FunctionId, &mut Function),
    facts: Option<&Facts>,
    budget: &mut Budget<'_>,
) -> Vec<Step> {
    let scene = Scene::of(object, id, function, facts);
    let mut read = Read::of(function, budget.calls);
    let mut stale = Staleness::new(&function.nodes);
    let mut refuted = std::mem::take(budget.refuted);
    let mut steps = Vec::new();
    // From the last to the first, so that the positions of earlier runs do not change.
    for trace in scene.traces(function).into_iter().rev() {
        for run in trace.runs().into_iter().rev() {
            if scene.is_unreached(function, &run) {
                continue;
            }
            let mut region = scene.region(function, (&trace, &run), (&read, &mut stale), budget, &mut refuted);
            let key = region.key();
            let stale_before = region.stale.extent();
            if budget.swept.0.get(&key).is_some_and(|known| covers(stale_before, *known)) {
                continue;
            }
            let is_whole = sweep(&mut region, budget);
            let Region { nodes: after, steps: found, .. } = region;
            if found.is_empty() {
                if is_whole {
                    budget.swept.0.insert(key, stale_before);
                }
                continue;
            }
            crate::edit::replace(function, run, after);
            steps.extend(found);
            // A new run may read more than the old one did, and so may the code that leads to it.
            read = Read::of(function, budget.calls);
        }
        if Instant::now() >= budget.deadline {
            break;
        }
    }
    *budget.refuted = refuted;
    steps
}

/// A function and what is known of it as a whole.
struct Scene<'a> {
    object: &'a Object,
    facts: Option<&'a Facts>,
    cfg: Cfg,
    /// Whether loads of four bytes give numbers.
    numbers: bool,
    /// Which bits may be one where blocks begin.
    begins: Vec<Possible>,
    context: Option<&'a Value>,
    /// Registers that hold the context before each instruction.
    contexts: Vec<RegSet>,
}

/// A sequence of blocks that is rewritten as one.
struct Blocks {
    first: usize,
    range: Range<usize>,
}

impl Blocks {
    fn runs(&self) -> Vec<Range<usize>> {
        runs(self.range.clone())
    }
}

impl<'a> Scene<'a> {
    fn of(object: &'a Object, id: FunctionId, function: &Function, facts: Option<&'a Facts>) -> Scene<'a> {
        let cfg = Cfg::new(function);
        let numbers = possible::loads_numbers(object, id);
        let begins = possible::at_block_begins(function, &cfg, numbers);
        let context = context(function, facts);
        let contexts = match context {
            Some(_) => available_values::held_since_entry(object, function, &cfg, Reg::R1),
            None => Vec::new(),
        };
        Scene { object, facts, cfg, numbers, begins, context, contexts }
    }

    fn traces(&self, function: &Function) -> Vec<Blocks> {
        let range = |blocks: &Range<usize>| {
            let start = self.cfg.blocks[blocks.start].range.start;
            start..end_of_windows(function, self.cfg.blocks[blocks.end - 1].range.end)
        };
        let blocks = |blocks: Range<usize>| Blocks { first: blocks.start, range: range(&blocks) };
        traces(function, &self.cfg).into_iter().map(blocks).collect()
    }

    fn is_unreached(&self, function: &Function, run: &Range<usize>) -> bool {
        self.facts.is_some_and(|facts| run.clone().all(|at| !facts.reached(function.nodes[at].id)))
    }

    fn region<'r, 'b: 'r>(
        &self,
        function: &Function,
        (trace, run): (&Blocks, &Range<usize>),
        (read, stale): (&'r Read, &'r mut Staleness),
        budget: &Budget<'b>,
        refuted: &'r mut HashSet<u64>,
    ) -> Region<'r>
    where
        'a: 'r,
    {
        let mut possible = self.begins[trace.first];
        let earlier = &function.nodes[trace.range.start..run.start];
        earlier.iter().for_each(|node| possible::step(&mut possible, node, self.numbers));
        Region {
            object: self.object,
            facts: self.facts,
            context: self.context.zip(self.contexts.get(run.start).copied()),
            nodes: function.nodes[run.clone()].to_vec(),
            end: stale.with_pinned(read.after(function, run.end - 1, budget.calls)),
            exits: &read.exits,
            calls: budget.calls,
            stale,
            limits: budget.limits,
            refuted,
            steps: Vec::new(),
            asked: 0,
            possible: (possible, self.numbers),
            isa: budget.isa,
            model: budget.model,
            goal: budget.goal,
        }
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

/// What is read in a function as it is now.
struct Read {
    cfg: Cfg,
    ends: Vec<Demand>,
    /// Where blocks begin.
    exits: Exits,
}

impl Read {
    fn of(function: &Function, calls: &Calls) -> Read {
        let cfg = Cfg::new(function);
        let ends = demand::at_block_ends(function, &cfg, calls);
        let begin = |(block, end): (&Block, &Demand)| {
            let nodes = &function.nodes[block.range.clone()];
            (nodes[0].id, Afterwards::straight(*end, calls).before(nodes))
        };
        let exits = cfg.blocks.iter().zip(&ends).map(begin).collect();
        Read { cfg, ends, exits }
    }

    /// What is read after an instruction; after a branch, wherever it goes.
    fn after(&self, function: &Function, at: usize, calls: &Calls) -> Demand {
        let block = self.cfg.block_of[at].index();
        let end = self.cfg.blocks[block].range.end;
        Afterwards::straight(self.ends[block], calls).before(&function.nodes[at + 1..end])
    }
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

/// Goes over a run until no rule finds more. Returns whether it came that far.
fn sweep(region: &mut Region<'_>, budget: &mut Budget<'_>) -> bool {
    let allowed = |rule: &str, at| !(budget.without)(rule) && !budget.banned.contains(rule, at);
    for _ in 0..SWEEPS {
        let mut changed = false;
        let mut at = 0;
        let mut trace = Trace::new(region);
        while at < region.nodes.len() {
            if budget.fuel == 0 || Instant::now() >= budget.deadline {
                return false;
            }
            let id = region.nodes[at].id;
            let found = matching::apply(budget.rules, region, &trace, at, &|name| allowed(name, id))
                || RULES.iter().filter(|rule| allowed(rule.name, id)).any(|rule| {
                    (rule.propose)(region, &trace, at)
                        .iter()
                        .any(|proposed| region.attempt(rule.name, id, proposed, rule.contextual))
                });
            if found {
                budget.fuel -= 1;
                changed = true;
                trace = Trace::new(region);
                // The code before may have become shorter too: start again at this position.
                at = at.min(region.nodes.len());
            } else {
                at += 1;
            }
        }
        if !changed {
            return true;
        }
    }
    false
}
