//! Where to search, how hard, and how far.
//!
//! A function is searched in rising [`EFFORTS`], each over all its windows, the hottest and largest first. What an
//! effort finds is kept ([`Memory`]): when the verifier refuses a part of it, the rest is applied again without
//! searching. An effort ends when there is no window left that was not searched with it, or when its windows have cost
//! as many candidates as the function may have ([`Effort::per_slot`]): work and not time, so that what is found does not
//! depend on the machine.
//!
//! ```text
//!   block   r1 = ...   *(u32 *)... = w1   call   r2 = r0   r2 += 8   if r2 > r3
//!           [-------- window --------]           [--------- window ----------]
//!                                                [-- window --]                   (efforts with short windows slide)
//! ```

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::time::Instant;

use kiln_equiv::{Tester, Window};
use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{Cfg, Function, FunctionId, Node, Object, Reference};
use kiln_verifier::Facts;

use super::{Bound, Enumerate, Markov, Outcome, Question, Search};
use crate::cost::frequency::Frequencies;
use crate::cost::{CostModel, Goal, Weight};
use crate::flow::demand::{self, Demand, NOWHERE};
use crate::flow::possible::{self, Possible};
use crate::windows::Budget;
use crate::windows::region::{Region, Step, is_barrier};
use crate::windows::staleness::Staleness;

/// The name under which finds are reported.
pub const NAME: &str = "search";
/// Concrete inputs that a candidate must pass.
const INPUTS: u32 = 24;
/// Counterexamples of earlier windows that a window begins with at most.
const CARRIED: usize = 8;

/// How windows are searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Instructions in a window.
    pub lengths: (usize, usize),
    /// Instructions in a candidate that are all tried; 0: a Markov chain walks instead.
    pub enumerated: usize,
    /// Steps of each chain.
    pub steps: u64,
    /// What one window may cost.
    pub window: Bound,
    /// Candidates that a function's windows may cost in all, for each of its slots.
    pub per_slot: u64,
}

impl Effort {
    /// Whether it ends by itself soon, and not only when nothing is left to try.
    pub fn is_bounded(&self) -> bool {
        self.per_slot < u64::MAX
    }
}

const fn effort(lengths: (usize, usize), enumerated: usize, steps: u64, window: Bound, per_slot: u64) -> Effort {
    Effort { lengths, enumerated, steps, window, per_slot }
}

const fn bound(candidates: u64, questions: u64) -> Bound {
    Bound { candidates, questions }
}

/// All efforts, the cheapest first.
pub const EFFORTS: [Effort; 6] = [
    //     window   all of  steps      candidates, questions   candidates a slot
    effort((2, 5), 2, 0, bound(100_000, 40), 20_000),
    effort((4, 12), 0, 4_000, bound(20_000, 40), 4_000),
    effort((4, 7), 3, 0, bound(20_000, 40), 4_000),
    effort((4, 7), 3, 0, Bound::NONE, u64::MAX),
    effort((4, 16), 0, 200_000, Bound::NONE, u64::MAX),
    effort((4, 24), 0, 2_000_000, Bound::NONE, u64::MAX),
];

/// Efforts that [`Options::search`](crate::Options::search) goes through by default.
pub const DEFAULT_EFFORTS: usize = 3;

/// What a window costs beside its candidates, in candidates: its inputs have to be made and run.
const WINDOW: u64 = 500;
/// Slots of the largest object that is searched as far as [`EFFORTS`] say. What a larger one may cost is what this one may,
/// shared out by slots.
pub const LARGE: u64 = 4_000;

/// What searches of an object have come to know.
#[derive(Clone, Default, Debug)]
pub struct Memory {
    /// Windows by effort: what was found, if anything.
    searched: HashMap<u64, Option<Vec<Node>>>,
    /// Registers of inputs that refuted what the tests had let through, the newest first.
    counterexamples: VecDeque<[u64; Reg::COUNT]>,
    /// Slots of the whole object.
    slots: u64,
    /// What each effort's windows in a function have cost, in candidates.
    spent: HashMap<(FunctionId, usize), u64>,
    /// All that was done.
    pub total: Outcome,
    /// Windows that were searched.
    pub windows: u64,
    /// Whether some window was left out because time was up.
    pub cut_short: bool,
}

impl Memory {
    /// For an object that has so many slots.
    pub fn new(slots: u64) -> Memory {
        Memory { slots, ..Memory::default() }
    }

    /// Candidates that a function of so many slots may still cost with an effort.
    fn left(&self, (id, slots): (FunctionId, u32), effort: usize) -> u64 {
        if !EFFORTS[effort].is_bounded() {
            return u64::MAX;
        }
        let most = EFFORTS[effort].per_slot * u64::from(slots) * LARGE / self.slots.max(LARGE);
        most.saturating_sub(self.spent.get(&(id, effort)).copied().unwrap_or_default())
    }
}

/// What is searched, and what may end it.
pub struct Place<'a> {
    /// The object.
    pub object: &'a Object,
    /// Its facts.
    pub facts: Option<&'a Facts>,
    /// The effort's place in [`EFFORTS`].
    pub effort: usize,
    /// Threads to use at most.
    pub threads: usize,
    /// How often instructions run.
    pub frequencies: &'a Frequencies,
    /// What is known already.
    pub memory: &'a mut Memory,
    /// Whether to end now.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Searches one function with one effort; returns the steps taken.
pub fn rewrite(
    place: &mut Place<'_>,
    (id, function): (FunctionId, &mut Function),
    budget: &mut Budget<'_>,
) -> Vec<Step> {
    let mut stale = Staleness::default();
    let mut steps = Vec::new();
    // Windows are counted anew after each find; those that were searched cost nothing the second time.
    while let Some(found) = first_find(place, (id, function), budget, &mut stale) {
        budget.fuel -= 1;
        steps.extend(found);
    }
    steps
}

/// What is found in the first window in which something is.
fn first_find(
    place: &mut Place<'_>,
    (id, function): (FunctionId, &mut Function),
    budget: &mut Budget<'_>,
    stale: &mut Staleness,
) -> Option<Vec<Step>> {
    let shape = Shape::new(place, (id, function), budget);
    for (block, window) in shape.windows(function, place.frequencies, EFFORTS[place.effort]) {
        if budget.fuel == 0 || Instant::now() >= budget.deadline || (place.stopped)() {
            place.memory.cut_short |= budget.fuel > 0;
            return None;
        }
        let found = rewrite_window(place, (id, function, &shape), (block, window), budget, stale);
        if !found.is_empty() {
            return Some(found);
        }
    }
    None
}

/// What is known of a function as it is now.
struct Shape {
    cfg: Cfg,
    ends: Vec<Demand>,
    begins: Vec<Possible>,
    numbers: bool,
}

impl Shape {
    fn new(place: &Place<'_>, (id, function): (FunctionId, &Function), budget: &Budget<'_>) -> Shape {
        let cfg = Cfg::new(function);
        let ends = demand::at_block_ends(function, &cfg, budget.calls);
        let numbers = possible::loads_numbers(place.object, id);
        let begins = possible::at_block_begins(function, &cfg, numbers);
        Shape { cfg, ends, begins, numbers }
    }

    /// All windows with their blocks: the hottest blocks first, in each the longest windows first.
    fn windows(&self, function: &Function, heat: &Frequencies, effort: Effort) -> Vec<(usize, Range<usize>)> {
        let heat = heat.of_nodes(function, &self.cfg);
        let heat = |block: usize| heat[self.cfg.blocks[block].range.start];
        let mut blocks: Vec<usize> = (0..self.cfg.blocks.len()).collect();
        blocks.sort_by(|a, b| heat(*b).total_cmp(&heat(*a)).then(a.cmp(b)));
        let windows = blocks.into_iter().flat_map(|block| {
            let runs = runs(function, self.cfg.blocks[block].range.clone()).into_iter();
            runs.flat_map(move |run| slide(run, effort)).map(move |window| (block, window))
        });
        windows.collect()
    }
}

/// Runs of instructions that may be in a searched window.
fn runs(function: &Function, block: Range<usize>) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut from = block.start;
    for at in block.clone() {
        let node = &function.nodes[at];
        let fits = !is_barrier(node) && node.core.is_none() && node.insn.written() != Some(Reg::R10);
        // A branch is the last of a block.
        let fits = fits && (!node.insn.is_control() || matches!(node.reference, Reference::Branch(_)));
        if !fits {
            runs.push(from..at);
            from = at + 1;
        }
    }
    runs.push(from..block.end);
    runs.retain(|run| run.len() > 1);
    runs
}

/// Windows of a run: all of it if it is short enough, else what slides over it.
fn slide(run: Range<usize>, effort: Effort) -> Vec<Range<usize>> {
    let (least, most) = effort.lengths;
    if run.len() < least {
        return Vec::new();
    }
    let windows = |length: usize, step: usize| {
        let last = run.end - length;
        let starts = (run.start..=last).step_by(step).chain([last]);
        let mut windows: Vec<_> = starts.map(|start| start..start + length).collect();
        windows.dedup();
        windows
    };
    match effort.enumerated {
        // Chains take out what they can wherever it is in their window.
        0 => windows(most.min(run.len()), (most / 2).max(1)),
        _ => (least..=most.min(run.len())).rev().flat_map(|length| windows(length, 1)).collect(),
    }
}

/// Looks for something cheaper in place of a window, and takes the best that is proved.
fn rewrite_window(
    place: &mut Place<'_>,
    (id, function, shape): (FunctionId, &mut Function, &Shape),
    (block, window): (usize, Range<usize>),
    budget: &mut Budget<'_>,
    stale: &mut Staleness,
) -> Vec<Step> {
    let nodes = function.nodes[window.clone()].to_vec();
    let at = nodes[0].id;
    if budget.banned.contains(NAME, at) || (budget.without)(NAME) {
        return Vec::new();
    }
    if place.facts.is_some_and(|facts| nodes.iter().all(|node| !facts.reached(node.id))) {
        return Vec::new();
    }
    let range = &shape.cfg.blocks[block].range;
    let mut end = stale.with_pinned(shape.ends[block]);
    for node in function.nodes[window.end..range.end].iter().rev() {
        end.step_back(node, budget.calls);
    }
    let end = stale.with_pinned(end);
    let mut bits = shape.begins[block];
    let earlier = &function.nodes[range.start..window.start];
    earlier.iter().for_each(|node| possible::step(&mut bits, node, shape.numbers));
    let mut region = Region {
        object: place.object,
        facts: place.facts,
        context: None,
        nodes,
        end,
        exits: &NOWHERE,
        calls: budget.calls,
        stale,
        limits: budget.limits,
        refuted: budget.refuted,
        steps: Vec::new(),
        asked: 0,
        possible: (bits, shape.numbers),
        isa: budget.isa,
        model: budget.model,
        goal: budget.goal,
    };
    let Some(found) = searched(&region, place, (id, function.slots()), budget.deadline) else { return Vec::new() };
    region.attempt(NAME, at, &found, false);
    let steps = std::mem::take(&mut region.steps);
    if !steps.is_empty() {
        let after = std::mem::take(&mut region.nodes);
        crate::edit::replace(function, window, after);
    }
    steps
}

/// What a search finds in a region of a function with so many slots, or what the same search found earlier.
fn searched(
    region: &Region<'_>,
    place: &mut Place<'_>,
    (id, slots): (FunctionId, u32),
    deadline: Instant,
) -> Option<Vec<Node>> {
    let key = key(place.effort, region);
    if let Some(found) = place.memory.searched.get(&key) {
        return found.clone();
    }
    let left = place.memory.left((id, slots), place.effort);
    if left == 0 {
        return None;
    }
    let before = (place.memory.total.tried, place.memory.windows);
    let found = search(region, place, left, deadline);
    let spent = place.memory.total.tried - before.0 + WINDOW * (place.memory.windows - before.1);
    *place.memory.spent.entry((id, place.effort)).or_default() += spent;
    if found.is_some() || Instant::now() < deadline && !(place.stopped)() {
        place.memory.searched.insert(key, found.clone());
    }
    found
}

/// Searches a region, all of which is the window, with so many candidates at most; the best that is proved.
fn search(region: &Region<'_>, place: &mut Place<'_>, left: u64, deadline: Instant) -> Option<Vec<Node>> {
    let (nodes, demand) = (&region.nodes, region.end);
    let written: RegSet = nodes.iter().filter_map(|node| node.insn.written()).collect();
    let dead = Reg::all().filter(|reg| *reg != Reg::R10 && demand.of(*reg) == 0);
    let precondition = region.precondition(0);
    let (goal, model) = (region.goal, region.model);
    let effort = EFFORTS[place.effort];
    let question = Question {
        window: Window {
            before: nodes,
            after: nodes,
            facts: Some(&precondition),
            live_after: written.iter().filter(|reg| demand.of(*reg) > 0).collect(),
            stack_live_after: region.stack_after(nodes.len()),
            exits: &[],
            object: region.object,
        },
        demand,
        writable: written.union(dead.collect()),
        isa: region.isa,
        cost: &|insn| packed(goal, model, insn),
        bound: Bound { candidates: effort.window.candidates.min(left), ..effort.window },
        deadline,
        stopped: place.stopped,
    };
    // Each instruction of a candidate writes one register at most.
    let results = question.window.live_after.iter().count();
    let cheapest = packed(goal, model, &Insn::mov_imm(Reg::R0, 0));
    if effort.enumerated > 0 && results > effort.enumerated || results as u64 * cheapest >= question.window_cost() {
        return None;
    }
    let mut tester = question.tester(INPUTS)?;
    for registers in &place.memory.counterexamples {
        tester.add_registers(&question.window, registers);
    }
    let (mut best, before) = (None, Weight::of(nodes, model));
    let counterexamples = &mut place.memory.counterexamples;
    let mut accept = |tester: &mut Tester, candidate: &[Node]| {
        let inputs = tester.len();
        let better = goal.prefers(Weight::of(candidate, model), before);
        let proved = better && question.prove(tester, candidate, region.limits).is_some();
        if proved {
            best = Some(candidate.to_vec());
        }
        if tester.len() > inputs {
            carry(counterexamples, tester);
        }
        proved
    };
    let markov = || Markov { steps: effort.steps, threads: place.threads, ..Markov::default() };
    let outcome = match effort.enumerated {
        0 => markov().find(&question, &mut tester, &mut accept),
        length => Enumerate { length }.find(&question, &mut tester, &mut accept),
    };
    let total = &mut place.memory.total;
    total.tried += outcome.tried;
    total.asked += outcome.asked;
    place.memory.windows += 1;
    best
}

/// Keeps the newest input of a tester for later windows.
fn carry(counterexamples: &mut VecDeque<[u64; Reg::COUNT]>, tester: &Tester) {
    if let Some(input) = tester.inputs().next() {
        counterexamples.push_front(input.registers);
        counterexamples.truncate(CARRIED);
    }
}

/// What an instruction costs as one number, in which what the goal minds most weighs most.
pub fn packed(goal: Goal, model: &CostModel, insn: &Insn) -> u64 {
    let Weight { slots, insns, picoseconds, operands } = Weight::of_insn(insn, model);
    let [first, second] = match goal {
        Goal::Size | Goal::Balanced => [slots, picoseconds],
        Goal::Speed => [picoseconds, slots],
        Goal::Complexity => [insns, slots],
    };
    // A window's sums stay below 24, 24 and 16 bits.
    first << 40 | second << 16 | operands
}

/// What tells one question from another.
fn key(effort: usize, region: &Region<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    effort.hash(&mut hasher);
    region.nodes.iter().for_each(|node| (node.id, node.insn, node.reference).hash(&mut hasher));
    Reg::all().for_each(|reg| region.end.of(reg).hash(&mut hasher));
    hasher.finish()
}
