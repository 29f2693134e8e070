//! A solver that remembers what follows from what.
//!
//! ```text
//!   known: a b c d     goal: g       only a and c have a variable in common with g, or with what has:
//!   asked: does g follow from a and c?   yes: it follows wherever a and c are known, on every other path
//! ```
//!
//! Paths of one function have many branches in common, and so have the versions of a function.

use std::collections::{BTreeSet, HashMap};

use crate::solver::{Answer, Solver};
use crate::term::{Arena, Shape, Term, operands};

/// Goals that are remembered, about, and sets of premises for each.
const MAX_GOALS: usize = 1 << 16;
const MAX_SETS: usize = 64;

/// What is known of goals, by their hashes and those of their premises: it is true of every function.
#[derive(Default)]
pub struct Memory {
    /// Premises from which a goal follows.
    follows: HashMap<u64, Vec<BTreeSet<u64>>>,
    /// Premises from which it does not.
    fails: HashMap<u64, Vec<BTreeSet<u64>>>,
}

impl Memory {
    fn answer(&self, goal: u64, known: &BTreeSet<u64>) -> Option<Answer> {
        let sets = |of: &'_ HashMap<u64, Vec<BTreeSet<u64>>>, holds: &dyn Fn(&BTreeSet<u64>) -> bool| {
            of.get(&goal).is_some_and(|sets| sets.iter().any(holds))
        };
        match () {
            () if sets(&self.follows, &|premises| premises.is_subset(known)) => Some(Answer::Unsat),
            () if sets(&self.fails, &|premises| known.is_subset(premises)) => Some(Answer::Sat),
            () => None,
        }
    }

    fn keep(&mut self, goal: u64, known: BTreeSet<u64>, answer: &Answer) {
        let sets = match answer {
            Answer::Unsat => &mut self.follows,
            Answer::Sat => &mut self.fails,
            Answer::Unknown(_) => return,
        };
        if sets.len() >= MAX_GOALS {
            sets.clear();
        }
        let sets = sets.entry(goal).or_default();
        if sets.len() >= MAX_SETS {
            sets.clear();
        }
        sets.push(known);
    }
}

/// A solver and what it has answered.
pub struct Remembering<'s> {
    /// The solver.
    pub solver: &'s mut dyn Solver,
    /// Its answers.
    pub memory: &'s mut Memory,
    /// Questions that it gave up.
    pub given_up: BTreeSet<(u64, BTreeSet<u64>)>,
}

impl Solver for Remembering<'_> {
    fn ask(&mut self, query: &str) -> Answer {
        self.solver.ask(query)
    }

    fn follows(&mut self, arena: &Arena, known: &[Term<'_>], goal: Term<'_>) -> Answer {
        let hashes = |terms: &[Term<'_>]| -> BTreeSet<u64> { terms.iter().map(|term| term.hash()).collect() };
        let all = hashes(known);
        if let Some(answer) = self.memory.answer(goal.hash(), &all) {
            return answer;
        }
        let near = related(known, goal);
        if near.len() < known.len() {
            let premises = hashes(&near);
            let failed = self.memory.answer(goal.hash(), &premises) == Some(Answer::Sat);
            if !failed {
                let answer = self.solver.ask(&arena.query(&near, goal));
                self.memory.keep(goal.hash(), premises, &answer);
                if answer == Answer::Unsat {
                    return answer;
                }
            }
        }
        let question = (goal.hash(), all);
        if self.given_up.contains(&question) {
            return Answer::Unknown("the solver gave up".to_owned());
        }
        let answer = self.solver.ask(&arena.query(known, goal));
        match &answer {
            Answer::Unknown(_) => drop(self.given_up.insert(question)),
            _ => self.memory.keep(question.0, question.1, &answer),
        }
        answer
    }
}

/// What is known of the variables and loads of a goal, and of those that have to do with them.
fn related<'a>(known: &[Term<'a>], goal: Term<'a>) -> Vec<Term<'a>> {
    let mut reached = leaves(goal);
    if reached.is_empty() {
        return known.to_vec();
    }
    let mut left: Vec<(Term<'a>, BTreeSet<u32>)> = known.iter().map(|term| (*term, leaves(*term))).collect();
    let mut near = BTreeSet::new();
    loop {
        let before = left.len();
        left.retain(|(term, own)| {
            let apart = own.is_disjoint(&reached);
            if !apart {
                reached.extend(own);
                near.insert(term.id());
            }
            apart
        });
        if left.len() == before {
            break;
        }
    }
    known.iter().filter(|term| near.contains(&term.id())).copied().collect()
}

/// The variables and applications of functions that a term is made of; operands of functions do not count.
fn leaves(term: Term<'_>) -> BTreeSet<u32> {
    let shapes = term.arena().shapes.borrow();
    let (mut seen, mut pending, mut found) = (BTreeSet::new(), vec![term.id()], BTreeSet::new());
    while let Some(id) = pending.pop() {
        match &shapes[id as usize].0 {
            Shape::Apply(..) => drop(found.insert(id)),
            shape if seen.insert(id) => pending.extend(operands(shape)),
            _ => {}
        }
    }
    found
}
