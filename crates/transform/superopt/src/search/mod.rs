//! What no rule knows: cheaper runs found by trying them.
//!
//! A [`Question`] is a few instructions and what is read after them. Candidates are run on the concrete inputs of
//! [`Tester`], which refuses nearly all of them in well under a microsecond; what it lets through is proved like any
//! other proposal, and what the solver finds against it becomes another input:
//!
//! ```text
//!   r1 <<= 3             every r1 op r, r1 op constant      tester     solver
//!   r1 += 8       -->    ~700 of one instruction       -->  1..2  -->  equal: shorter
//!   r1 >>= 3             ~80,000 of two                       ^          |
//!                                                             +----------+ counterexamples
//! ```
//!
//! [`Search`] is the seam between what is asked and how it is looked for; [`Enumerate`] and [`Markov`] are the two ways,
//! and [`rewrite`] chooses windows and shares out the work. How far a search goes is told in candidates ([`Bound`]), so
//! that it ends at the same place on every machine; the clock is only what may end it sooner. `docs/internals/search.md` has the
//! tables and what it brings.

mod enumerate;
pub mod markov;
pub mod parameters;
mod places;
pub mod pool;
pub mod proposals;

use std::time::Instant;

use kiln_equiv::Exit;
use kiln_equiv::{Limits, Proof, Tester, Verdict, Window};
use kiln_isa::table::IsaVersion;
use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{Node, Reference};

use crate::flow::demand::Demand;
use crate::windows::region::mask_to;

pub use enumerate::Enumerate;
pub use markov::Markov;
pub use places::{DEFAULT_EFFORTS, EFFORTS, Effort, LARGE, Memory, NAME, Place, packed, rewrite};

/// What is looked for: a cheaper run that does the same.
///
/// A run is straight: arithmetic, loads, stores and atomic operations, with a branch as its last instruction or none.
pub struct Question<'q> {
    /// The run now (`before`; `after` is not looked at), what is known before it, and what is live after it.
    pub window: Window<'q>,
    /// How many low bits of each register are read afterwards: those of [`Window::live_after`].
    pub demand: Demand,
    /// Registers that a candidate may overwrite: its results, and those that are dead afterwards.
    pub writable: RegSet,
    /// The newest version of the instruction set that new instructions may be of.
    pub isa: IsaVersion,
    /// What an instruction costs; a run costs the sum. Thousands are slots where size is the goal.
    pub cost: &'q (dyn Fn(&Insn) -> u64 + Sync),
    /// How far to go.
    pub bound: Bound,
    /// When to give up in any case.
    pub deadline: Instant,
    /// Asked now and then: whether to give up sooner.
    pub stopped: &'q dyn Fn() -> bool,
}

/// What one search may do at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// Candidates tried: those of all chains, where chains walk.
    pub candidates: u64,
    /// Candidates put to the proof.
    pub questions: u64,
}

impl Bound {
    /// Until nothing is left to try.
    pub const NONE: Bound = Bound { candidates: u64::MAX, questions: u64::MAX };
}

/// What a search did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Candidates tried.
    pub tried: u64,
    /// Candidates that passed all tests, and were put to the proof.
    pub asked: u64,
    /// Whether it would find nothing more with more work and time.
    pub complete: bool,
}

/// The proof: whether a candidate may stand for the window. What it finds against a candidate it adds to the tester.
pub type Accept<'a> = dyn FnMut(&mut Tester, &[Node]) -> bool + 'a;

/// A way to look for cheaper runs.
pub trait Search {
    /// Looks for runs that `tester` cannot tell from the window and that cost less, and puts each to `accept`. After
    /// one that is accepted it goes on for cheaper ones only, until it knows of none or it is time: so the last one
    /// accepted is the cheapest.
    ///
    /// Nodes of a candidate carry the ids of the window's instructions where they stay ([`Question::nodes`]).
    fn find(&mut self, question: &Question<'_>, tester: &mut Tester, accept: &mut Accept<'_>) -> Outcome;
}

/// The cheapest candidate so far: others are put to all inputs and to the proof only if they cost less.
pub struct Best<'b, 'q> {
    /// What is looked for.
    pub question: &'b Question<'q>,
    /// The inputs.
    pub tester: &'b mut Tester,
    accept: &'b mut Accept<'q>,
    /// What the cheapest costs.
    pub cost: u64,
    /// What was done.
    pub outcome: Outcome,
}

impl<'b, 'q> Best<'b, 'q> {
    /// Begins with the window itself.
    pub fn new(question: &'b Question<'q>, tester: &'b mut Tester, accept: &'b mut Accept<'q>) -> Best<'b, 'q> {
        let outcome = Outcome { complete: true, ..Outcome::default() };
        Best { question, tester, accept, cost: question.window_cost(), outcome }
    }

    /// Takes a candidate if it is cheaper, passes all tests and is proved.
    pub fn attempt(&mut self, steps: &[Step]) {
        let cost = self.question.cost_of(steps.iter().copied());
        if cost >= self.cost || self.outcome.asked >= self.question.bound.questions {
            return;
        }
        let nodes = self.question.nodes(steps);
        if self.tester.matches(&nodes) {
            self.outcome.asked += 1;
            if (self.accept)(self.tester, &nodes) {
                self.cost = cost;
            }
        }
    }
}

/// One instruction of a candidate, and what it refers to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Step {
    /// The instruction.
    pub insn: Insn,
    /// What it refers to, as in [`Node::reference`].
    pub reference: Reference,
}

impl From<&Node> for Step {
    fn from(node: &Node) -> Step {
        Step { insn: node.insn, reference: node.reference }
    }
}

impl Outcome {
    /// Whether a search has done all that it may.
    pub fn is_at(&self, bound: Bound) -> bool {
        self.tried >= bound.candidates || self.asked >= bound.questions
    }
}

impl Question<'_> {
    /// What a run costs.
    pub fn cost_of(&self, steps: impl IntoIterator<Item = Step>) -> u64 {
        steps.into_iter().map(|step| (self.cost)(&step.insn)).sum()
    }

    /// What the window costs now.
    pub fn window_cost(&self) -> u64 {
        self.cost_of(self.window.before.iter().map(Step::from))
    }

    /// Whether the clock, or somebody, says to give up.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || (self.stopped)()
    }

    /// The window's original, run on many inputs; only what is read afterwards is compared. `None` when the window
    /// cannot be run.
    pub fn tester(&self, inputs: u32) -> Option<Tester> {
        let mut tester = Tester::new(&self.window, inputs)?;
        for reg in self.window.live_after.iter() {
            tester.compare_only(reg, self.demand.of(reg));
        }
        Some(tester)
    }

    /// Proves a candidate; a counterexample is added to the tester.
    pub fn prove(&self, tester: &mut Tester, candidate: &[Node], limits: &Limits) -> Option<Proof> {
        let (mut before, mut after) = (self.window.before.to_vec(), candidate.to_vec());
        for reg in before.iter().chain(&after).filter_map(|node| node.insn.written()).collect::<RegSet>().iter() {
            if let Some(mask) = mask_to(reg, self.demand.of(reg)) {
                before.push(mask.clone());
                after.push(mask);
            }
        }
        let bits = std::array::from_fn(|index| Reg::new(index as u8).map_or(0, |reg| self.demand.of(reg) as u8));
        let stack_live = self.window.stack_live_after;
        let exit = |node: &Node| Some(Exit { target: node.target()?, bits, stack_live });
        let exits: Vec<Exit> = before.iter().filter_map(exit).collect();
        let window = Window { before: &before, after: &after, exits: &exits, ..self.window };
        match kiln_equiv::check_with(&window, limits, Some(tester)) {
            Verdict::Equal(proof) => Some(proof),
            Verdict::Different(_) | Verdict::Unknown(_) => None,
        }
    }

    /// A candidate as instructions of the program: what is as in the window keeps its id, its line and its order,
    /// the rest takes what is left.
    pub fn nodes(&self, candidate: &[Step]) -> Vec<Node> {
        let mut free: Vec<&Node> = self.window.before.iter().collect();
        let mut nodes: Vec<Option<Node>> = Vec::with_capacity(candidate.len());
        for step in candidate {
            let same = free.iter().position(|node| Step::from(*node) == *step);
            nodes.push(same.map(|at| free.remove(at).clone()));
        }
        let fresh = nodes.into_iter().zip(candidate).map(|(node, step)| {
            node.unwrap_or_else(|| {
                let heir = if free.is_empty() { self.window.before.last().expect("not empty") } else { free.remove(0) };
                Node { insn: step.insn, reference: step.reference, core: None, ..heir.clone() }
            })
        });
        fresh.collect()
    }
}
