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
//!
//! Some windows are searched side by side ([`SIDE_BY_SIDE`]), by threads that have nothing to do. What one learns the next
//! ones know only when all of them are done, on one thread too, so threads do not change what is found.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use kiln_equiv::helpers::LEAST_ITEMS;
use kiln_equiv::{Answers, Limits, Tester, Window};
use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{Cfg, Function, FunctionId, Node, Object, Reference};
use kiln_verifier::Facts;

use super::{Bound, Enumerate, Markov, Outcome, Question, Search};
use crate::cost::frequency::Frequencies;
use crate::cost::{CostModel, Goal, Weight};
use crate::flow::demand::{self, Demand, NOWHERE};
use crate::flow::possible::{self, Possible};
use crate::windows::region::{Region, Step, is_barrier};
use crate::windows::staleness::Staleness;
use crate::windows::{Budget, Terms};

/// The name under which finds are reported.
pub const NAME: &str = "search";
/// Concrete inputs that a candidate must pass.
const INPUTS: u32 = 24;
/// Windows that are searched side by side at most.
const SIDE_BY_SIDE: usize = 32;
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
    pub stopped: &'a (dyn Fn() -> bool + Sync),
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
    let shape = Shape::new(place, (id, function), budget, stale);
    let mut windows = shape.windows(function, place.frequencies, EFFORTS[place.effort]);
    let most = if EFFORTS[place.effort].is_bounded() { SIDE_BY_SIDE } else { 1 };
    while !windows.is_empty() {
        if budget.fuel == 0 || Instant::now() >= budget.terms.deadline || (place.stopped)() {
            place.memory.cut_short |= budget.fuel > 0;
            return None;
        }
        let mut new: Vec<(u64, Range<usize>)> = Vec::new();
        let mut found = None;
        while let Some(window) = windows.front().filter(|_| new.len() < most && found.is_none()) {
            let key =
                shape.may_hold(place, function, window, budget).then(|| shape.key(place.effort, function, window));
            match key.map(|key| (key, place.memory.searched.get(&key))) {
                Some((key, None)) => new.push((key, window.clone())),
                // What was found before comes after what is new before it.
                Some((_, Some(Some(_)))) if !new.is_empty() => break,
                Some((_, Some(Some(nodes)))) => found = Some((window.clone(), nodes.clone())),
                _ => {}
            }
            windows.pop_front();
        }
        if !new.is_empty() {
            let done = search_all(place, (id, &*function, &shape), &new, (&*budget, &*stale));
            // What comes after a find is looked at again.
            new.drain(done.len()..).rev().for_each(|(_, window)| windows.push_front(window));
            found = learn(place, (id, function.slots()), new.iter().zip(done), budget);
        }
        let Some((window, nodes)) = found else { continue };
        let steps = replace(place, (&mut *function, &shape), window, &nodes, (&mut *budget, &mut *stale));
        if !steps.is_empty() {
            return Some(steps);
        }
    }
    None
}

/// Searches windows side by side, until one in which something is found.
fn search_all(
    place: &Place<'_>,
    (id, function, shape): (FunctionId, &Function, &Shape),
    windows: &[(u64, Range<usize>)],
    (budget, stale): (&Budget<'_>, &Staleness),
) -> Vec<Searched> {
    let left = place.memory.left((id, function.slots()), place.effort);
    if left == 0 {
        return windows.iter().map(|_| Searched::default()).collect();
    }
    let seen = Seen::of(place, if windows.len() > 1 { 1 } else { place.threads }, budget.terms.deadline, left);
    let (terms, refuted) = (budget.terms, &*budget.refuted);
    let search = |(_, window): &(u64, Range<usize>)| {
        let answers = terms.limits.answers.as_ref().map(|answers| Arc::new(Answers::over(answers)));
        let limits = Limits { answers: answers.clone(), ..terms.limits.clone() };
        let mut own = stale.clone();
        let region = shape.region(&seen, function, window, (Terms { limits: &limits, ..terms }, refuted, &mut own));
        let mut searched = search(&region, &seen);
        drop(limits);
        searched.answers = answers.and_then(Arc::into_inner);
        searched
    };
    budget.helpers.each(windows, function.nodes.len(), LEAST_ITEMS, search, |searched| searched.found.is_some())
}

/// Remembers what searches did, in order. Returns what was found and where.
fn learn<'w>(
    place: &mut Place<'_>,
    (id, slots): (FunctionId, u32),
    done: impl Iterator<Item = (&'w (u64, Range<usize>), Searched)>,
    budget: &Budget<'_>,
) -> Option<(Range<usize>, Vec<Node>)> {
    for ((key, window), searched) in done {
        if place.memory.left((id, slots), place.effort) == 0 {
            continue;
        }
        if let Some((own, all)) = searched.answers.zip(budget.terms.limits.answers.as_ref()) {
            all.add(own);
        }
        let memory = &mut *place.memory;
        memory.total.tried += searched.outcome.tried;
        memory.total.asked += searched.outcome.asked;
        memory.windows += searched.windows;
        let spent = searched.outcome.tried + WINDOW * searched.windows;
        *memory.spent.entry((id, place.effort)).or_default() += spent;
        for registers in searched.learned {
            memory.counterexamples.push_front(registers);
            memory.counterexamples.truncate(CARRIED);
        }
        if searched.found.is_some() || Instant::now() < budget.terms.deadline && !(place.stopped)() {
            memory.searched.insert(*key, searched.found.clone());
        }
        if let Some(found) = searched.found {
            return Some((window.clone(), found));
        }
    }
    None
}

/// Puts what was found in the place of a window, if it is proved.
fn replace(
    place: &Place<'_>,
    (function, shape): (&mut Function, &Shape),
    window: Range<usize>,
    found: &[Node],
    (budget, stale): (&mut Budget<'_>, &mut Staleness),
) -> Vec<Step> {
    let seen = Seen::of(place, 1, budget.terms.deadline, 0);
    let mut region = shape.region(&seen, function, &window, (budget.terms, &*budget.refuted, stale));
    let at = region.nodes[0].id;
    region.attempt(NAME, at, found, false);
    let Region { nodes: after, steps, newly_refuted, .. } = region;
    budget.refuted.extend(newly_refuted);
    if !steps.is_empty() {
        crate::edit::replace(function, window, after);
    }
    steps
}

/// What the search of one window sees.
struct Seen<'a> {
    object: &'a Object,
    facts: Option<&'a Facts>,
    effort: usize,
    threads: usize,
    counterexamples: &'a VecDeque<[u64; Reg::COUNT]>,
    stopped: &'a (dyn Fn() -> bool + Sync),
    deadline: Instant,
    /// Candidates that the function may still cost.
    left: u64,
}

impl<'a> Seen<'a> {
    fn of(place: &'a Place<'_>, threads: usize, deadline: Instant, left: u64) -> Seen<'a> {
        let Place { object, facts, effort, stopped, .. } = *place;
        Seen { object, facts, effort, threads, counterexamples: &place.memory.counterexamples, stopped, deadline, left }
    }
}

/// What the search of one window did.
#[derive(Default)]
struct Searched {
    found: Option<Vec<Node>>,
    outcome: Outcome,
    windows: u64,
    /// Registers of inputs that refuted what the tests had let through.
    learned: Vec<[u64; Reg::COUNT]>,
    /// Answers that are not in the part's store yet.
    answers: Option<Answers>,
}

/// What is known of a function as it is now.
struct Shape {
    cfg: Cfg,
    /// What is read after each instruction.
    after: Vec<Demand>,
    /// Which bits may be one before each instruction.
    before: Vec<Possible>,
    numbers: bool,
}

impl Shape {
    fn new(
        place: &Place<'_>,
        (id, function): (FunctionId, &Function),
        budget: &Budget<'_>,
        stale: &Staleness,
    ) -> Shape {
        let cfg = Cfg::new(function);
        let ends = demand::at_block_ends(function, &cfg, budget.terms.calls);
        let numbers = possible::loads_numbers(place.object, id);
        let begins = possible::at_block_begins(function, &cfg, numbers);
        let mut after = vec![Demand::NONE; function.nodes.len()];
        let mut before = vec![[0; Reg::COUNT]; function.nodes.len()];
        for ((block, end), mut bits) in cfg.blocks.iter().zip(ends).zip(begins) {
            let mut demand = stale.with_pinned(end);
            for at in block.range.clone().rev() {
                after[at] = stale.with_pinned(demand);
                demand.step_back(&function.nodes[at], budget.terms.calls);
            }
            for at in block.range.clone() {
                before[at] = bits;
                possible::step(&mut bits, &function.nodes[at], numbers);
            }
        }
        Shape { cfg, after, before, numbers }
    }

    /// Whether a window may be searched.
    fn may_hold(&self, place: &Place<'_>, function: &Function, window: &Range<usize>, budget: &Budget<'_>) -> bool {
        let nodes = &function.nodes[window.clone()];
        let banned = budget.terms.banned.contains(NAME, nodes[0].id) || (budget.terms.without)(NAME);
        !banned && place.facts.is_none_or(|facts| nodes.iter().any(|node| facts.reached(node.id)))
    }

    /// What tells one question from another.
    fn key(&self, effort: usize, function: &Function, window: &Range<usize>) -> u64 {
        let mut hasher = DefaultHasher::new();
        effort.hash(&mut hasher);
        let nodes = &function.nodes[window.clone()];
        nodes.iter().for_each(|node| (node.id, node.insn, node.reference).hash(&mut hasher));
        Reg::all().for_each(|reg| self.after[window.end - 1].of(reg).hash(&mut hasher));
        hasher.finish()
    }

    fn region<'r>(
        &self,
        seen: &Seen<'r>,
        function: &Function,
        window: &Range<usize>,
        (terms, refuted, stale): (Terms<'r>, &'r HashSet<u64>, &'r mut Staleness),
    ) -> Region<'r> {
        Region {
            object: seen.object,
            facts: seen.facts,
            context: None,
            nodes: function.nodes[window.clone()].to_vec(),
            end: self.after[window.end - 1],
            exits: &NOWHERE,
            calls: terms.calls,
            stale,
            limits: terms.limits,
            refuted,
            newly_refuted: HashSet::new(),
            steps: Vec::new(),
            asked: 0,
            possible: (self.before[window.start], self.numbers),
            isa: terms.isa,
            model: terms.model,
            goal: terms.goal,
        }
    }

    /// All windows: those of the hottest blocks first, in each the longest windows first.
    fn windows(&self, function: &Function, heat: &Frequencies, effort: Effort) -> VecDeque<Range<usize>> {
        let heat = heat.of_nodes(function, &self.cfg);
        let heat = |block: usize| heat[self.cfg.blocks[block].range.start];
        let mut blocks: Vec<usize> = (0..self.cfg.blocks.len()).collect();
        blocks.sort_by(|a, b| heat(*b).total_cmp(&heat(*a)).then(a.cmp(b)));
        let windows = blocks.into_iter().flat_map(|block| {
            let runs = runs(function, self.cfg.blocks[block].range.clone()).into_iter();
            runs.flat_map(move |run| slide(run, effort))
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

/// Searches a region, all of which is the window; the best that is proved.
fn search(region: &Region<'_>, seen: &Seen<'_>) -> Searched {
    let (nodes, demand) = (&region.nodes, region.end);
    let written: RegSet = nodes.iter().filter_map(|node| node.insn.written()).collect();
    let dead = Reg::all().filter(|reg| *reg != Reg::R10 && demand.of(*reg) == 0);
    let precondition = region.precondition(0);
    let (goal, model) = (region.goal, region.model);
    let effort = EFFORTS[seen.effort];
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
        bound: Bound { candidates: effort.window.candidates.min(seen.left), ..effort.window },
        deadline: seen.deadline,
        stopped: seen.stopped,
    };
    // Each instruction of a candidate writes one register at most.
    let results = question.window.live_after.iter().count();
    let cheapest = packed(goal, model, &Insn::mov_imm(Reg::R0, 0));
    if effort.enumerated > 0 && results > effort.enumerated || results as u64 * cheapest >= question.window_cost() {
        return Searched::default();
    }
    let Some(mut tester) = question.tester(INPUTS) else { return Searched::default() };
    for registers in seen.counterexamples {
        tester.add_registers(&question.window, registers);
    }
    let (mut best, mut learned, before) = (None, Vec::new(), Weight::of(nodes, model));
    let mut accept = |tester: &mut Tester, candidate: &[Node]| {
        let inputs = tester.len();
        let better = goal.prefers(Weight::of(candidate, model), before);
        let proved = better && question.prove(tester, candidate, region.limits).is_some();
        if proved {
            best = Some(candidate.to_vec());
        }
        if tester.len() > inputs {
            learned.extend(tester.inputs().next().map(|input| input.registers));
        }
        proved
    };
    let markov = || Markov { steps: effort.steps, threads: seen.threads, ..Markov::default() };
    let outcome = match effort.enumerated {
        0 => markov().find(&question, &mut tester, &mut accept),
        length => Enumerate { length }.find(&question, &mut tester, &mut accept),
    };
    Searched { found: best, outcome, windows: 1, learned, answers: None }
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
