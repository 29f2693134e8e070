//! K2's Markov chain: cheaper runs by small random changes.
//!
//! ```text
//!   candidate --propose--> other --run on the inputs--> error, cost --accept?--> candidate
//!                                                            |
//!                           error 0 and cheaper than all: proof, and either a result or one more input
//! ```
//!
//! A candidate's energy is `error * alpha + cost * beta` ([`parameters`](super::parameters)). A proposal that lowers it
//! is taken, one that raises it by `d` with the chance `exp(-d)`. The random number is drawn *before* the proposal is
//! run: it says how large the error may be, and the run ends at the first input that makes it larger. What touches
//! memory that the window does not, or reads what nobody wrote, is never taken.
//!
//! Several chains run side by side, each with its own setting and its own copy of the inputs. They meet after a fixed
//! number of steps to have their finds proved, one after the other, and to share counterexamples; so the outcome
//! depends on the seed and the bound, and not on the number of processors (unless time runs out).

use std::collections::HashSet;
use std::time::Instant;

use kiln_equiv::Tester;
use kiln_equiv::concrete::{Code, Op, Random};
use kiln_isa::Insn;

use super::parameters::{PARAMETERS, Parameters};
use super::pool::{Pool, is_legal};
use super::proposals::{self, Slots, propose};
use super::{Accept, Outcome, Question, Search, Step};

/// Steps of a chain between two meetings.
const ROUND: u64 = 10_000;
/// Rounds after which a chain without finds begins again with the best that is known.
const PATIENCE: u64 = 8;
/// Instructions that are different in cost by this much are one plain instruction apart.
fn unit(question: &Question<'_>) -> f64 {
    (question.cost)(&Insn::mov_imm(kiln_isa::Reg::R0, 0)).max(1) as f64
}

/// K2's search; see the [module](self).
#[derive(Clone, Debug)]
pub struct Markov {
    /// What random numbers begin with: equal seeds give equal results.
    pub seed: u64,
    /// Steps of each chain at most.
    pub steps: u64,
    /// The chains.
    pub parameters: Vec<Parameters>,
    /// Threads at most.
    pub threads: usize,
}

impl Default for Markov {
    fn default() -> Markov {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Markov { seed: 1, steps: 200_000, parameters: PARAMETERS.to_vec(), threads }
    }
}

impl Search for Markov {
    fn find(&mut self, question: &Question<'_>, tester: &mut Tester, accept: &mut Accept<'_>) -> Outcome {
        let window: Slots = question.window.before.iter().map(|node| Some(Step::from(node))).collect();
        let mut outcome = Outcome::default();
        if window.is_empty() || self.parameters.is_empty() {
            return outcome;
        }
        let pool = Pool::new(question);
        let shared =
            Shared { cost: question.cost, pool: &pool, unit: unit(question), window_cost: question.window_cost() };
        let chain = |(index, parameters): (usize, &Parameters)| {
            let random = Random::new(self.seed.wrapping_mul(0x9e37_79b9).wrapping_add(index as u64) ^ 0x5eed);
            let mut code = Code::default();
            tester.decode(question.window.before, &mut code);
            Chain::new(&shared, *parameters, tester.clone(), code, window.clone(), random)
        };
        let mut chains: Vec<Chain> = self.parameters.iter().enumerate().map(chain).collect();
        let (mut best, mut bar) = (window, shared.window_cost);
        let mut refused: HashSet<Slots> = HashSet::new();
        let (mut done, mut quiet, deadline) = (0, 0, question.deadline);
        let steps = self.steps.min(question.bound.candidates / chains.len() as u64);
        while done < steps && outcome.asked < question.bound.questions && !question.is_over() {
            let round = ROUND.min(steps - done);
            run_all(&mut chains, self.threads, &|chain| chain.run(&shared, round, bar, &refused, deadline));
            done += round;
            quiet += 1;
            for chain in &mut chains {
                outcome.tried += std::mem::take(&mut chain.tried);
                let Some((found, cost)) = chain.found.take().filter(|(_, cost)| *cost < bar) else { continue };
                let steps: Vec<Step> = found.iter().flatten().copied().collect();
                let legal = is_legal(question, &steps);
                outcome.asked += u64::from(legal);
                if legal && accept(tester, &question.nodes(&steps)) {
                    (best, bar, quiet) = (found, cost, 0);
                } else {
                    refused.insert(found);
                }
            }
            for chain in &mut chains {
                chain.learn(&shared, tester, &best);
                if quiet == PATIENCE {
                    chain.restart(&shared, &best);
                }
            }
            quiet %= PATIENCE;
        }
        outcome
    }
}

/// Runs something on every chain, on several threads.
fn run_all(chains: &mut [Chain], threads: usize, run: &(dyn Fn(&mut Chain) + Sync)) {
    let share = chains.len().div_ceil(threads.max(1));
    if threads < 2 || chains.len() < 2 {
        return chains.iter_mut().for_each(run);
    }
    std::thread::scope(|scope| {
        for own in chains.chunks_mut(share) {
            scope.spawn(move || own.iter_mut().for_each(run));
        }
    });
}

/// What all chains see.
struct Shared<'q> {
    cost: &'q (dyn Fn(&Insn) -> u64 + Sync),
    pool: &'q Pool,
    unit: f64,
    window_cost: u64,
}

/// One chain.
struct Chain {
    parameters: Parameters,
    tester: Tester,
    random: Random,
    slots: Slots,
    costs: Vec<u64>,
    code: Code,
    error: f64,
    tried: u64,
    /// The cheapest candidate of this round that passed all tests.
    found: Option<(Slots, u64)>,
}

impl Chain {
    fn new(
        shared: &Shared<'_>,
        parameters: Parameters,
        tester: Tester,
        code: Code,
        slots: Slots,
        random: Random,
    ) -> Chain {
        let mut chain =
            Chain { parameters, tester, random, slots, costs: Vec::new(), code, error: 0.0, tried: 0, found: None };
        chain.costs = vec![0; chain.slots.len()];
        for at in 0..chain.slots.len() {
            chain.place(shared, at);
        }
        chain
    }

    /// Brings one position of code and costs up to date.
    fn place(&mut self, shared: &Shared<'_>, at: usize) {
        (self.code.ops[at], self.costs[at]) = match self.slots[at] {
            Some(step) => (self.tester.op(&step.insn, step.reference), (shared.cost)(&step.insn)),
            None => (Op::NOTHING, 0),
        };
    }

    fn restart(&mut self, shared: &Shared<'_>, from: &Slots) {
        self.slots.clone_from(from);
        (0..self.slots.len()).for_each(|at| self.place(shared, at));
        self.error = 0.0;
    }

    fn cost(&self) -> u64 {
        self.costs.iter().sum()
    }

    fn performance(&self, shared: &Shared<'_>) -> f64 {
        (self.cost() as f64 - shared.window_cost as f64) / shared.unit
    }

    fn error(&mut self, limit: f64) -> Option<f64> {
        let (parameters, inputs) = (self.parameters, self.tester.len());
        let weigh = |distance| parameters.error_of(distance, inputs);
        self.tester.error(&self.code, parameters.difference, limit, weigh)
    }

    /// Takes in inputs that were added, and looks again at where it stands.
    fn learn(&mut self, shared: &Shared<'_>, tester: &Tester, best: &Slots) {
        if self.tester.take_in(tester) {
            match self.error(f64::INFINITY) {
                Some(error) => self.error = error,
                None => self.restart(shared, best),
            }
        }
    }

    fn run(&mut self, shared: &Shared<'_>, steps: u64, bar: u64, refused: &HashSet<Slots>, deadline: Instant) {
        let mut bar = bar;
        for step in 0..steps {
            if step % 512 == 511 && Instant::now() >= deadline {
                return;
            }
            if self.step(shared) && self.error == 0.0 && self.cost() < bar && !refused.contains(&self.slots) {
                bar = self.cost();
                self.found = Some((self.slots.clone(), bar));
            }
        }
    }

    /// One step; whether it went somewhere.
    fn step(&mut self, shared: &Shared<'_>) -> bool {
        let parameters = self.parameters;
        let kind = parameters.kind(self.random.below(100) as u32);
        let before = self.error * parameters.error + self.performance(shared) * parameters.performance;
        let branches = !shared.pool.branches.is_empty();
        let changed = propose(kind, &mut self.slots, branches, shared.pool, &mut self.random);
        let changes = |(at, old): &(usize, Option<Step>)| self.slots[*at] != *old;
        if !changed.iter().flatten().any(changes) {
            return false;
        }
        self.tried += 1;
        changed.iter().flatten().for_each(|(at, _)| self.place(shared, *at));
        // From the open interval, so that its logarithm is a number.
        let chance = (self.random.next() >> 11) as f64 / (1u64 << 53) as f64 + f64::MIN_POSITIVE;
        let most = before - chance.ln() / parameters.inverse_temperature;
        let limit = (most - self.performance(shared) * parameters.performance) / parameters.error;
        let taken = if limit < 0.0 { None } else { self.error(limit) };
        match taken {
            Some(error) => self.error = error,
            None => {
                proposals::undo(&mut self.slots, changed);
                changed.iter().flatten().for_each(|(at, _)| self.place(shared, *at));
            }
        }
        taken.is_some()
    }
}
