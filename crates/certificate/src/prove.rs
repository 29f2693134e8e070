//! Proves one step of the chain.

use std::collections::BTreeMap;

use kiln_isa::semantics::BitVec;

use crate::find::evaluate::States;
use crate::relation::Relation;
use crate::solver::{Answer, Solver};
use crate::state::{State, World};
use crate::term::{Arena, Term};
use crate::walk::{Pair, Step, Visitor, Walk};

/// Counts of what was proved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Ends of paths that need no query, because both functions have the same terms.
    pub identical: usize,
    /// Queries that the solver answered with `unsat`.
    pub queries: usize,
}

impl Count {
    /// Adds another count.
    pub fn add(&mut self, other: Count) {
        self.identical += other.identical;
        self.queries += other.queries;
    }
}

/// Proves a step: the relations of its pairs are inductive, and with them both functions do the same.
///
/// # Errors
/// Returns what is not proved, and from which pair.
pub fn prove(step: &Step<'_>, solver: &mut dyn Solver, stop: &dyn Fn() -> bool) -> Result<Count, (Pair, String)> {
    let mut count = Count::default();
    let entry = Relation::entry();
    let object = step.callees[0];
    let types: Vec<_> = object.programs.iter().map(|program| program.program_type).collect();
    for (pair, relation) in std::iter::once((&(0, 0), &entry)).chain(step.pairs) {
        if stop() {
            return Err((*pair, "it was interrupted".to_owned()));
        }
        // The paths of one pair share no terms with those of another.
        let arena = Arena::default();
        let world = World { arena: &arena, object, types: types.clone() };
        let mut walk = Walk::new(&world, step);
        let mut prover = Prover { world: &world, pairs: step.pairs, solver, count: &mut count, stop };
        let blame = |why: String| (*pair, format!("from pair ({}, {}): {why}", pair.0, pair.1));
        walk.from(*pair, relation, &mut prover).map_err(blame)?;
        if std::ptr::eq(relation, &raw const entry) && step.pairs.contains_key(pair) {
            // Paths may return to the entry, too.
            let ([old, new], known) = entry.begin(&world).map_err(blame)?;
            prover.meet(&known, *pair, [&old, &new]).map_err(blame)?;
        }
    }
    Ok(count)
}

struct Prover<'p, 'a> {
    world: &'p World<'a>,
    pairs: &'p BTreeMap<Pair, Relation>,
    solver: &'p mut dyn Solver,
    count: &'p mut Count,
    stop: &'p dyn Fn() -> bool,
}

impl<'a> Prover<'_, 'a> {
    fn prove(&mut self, known: &[Term<'a>], goals: &[Term<'a>], what: &str) -> Result<(), String> {
        if (self.stop)() {
            return Err("it was interrupted".to_owned());
        }
        let open: Vec<Term<'a>> = goals.iter().copied().filter(|goal| goal.as_constant() != Some(1)).collect();
        if open.is_empty() {
            self.count.identical += 1;
            return Ok(());
        }
        let arena = self.world.arena;
        match self.solver.follows(arena, known, arena.all(&open)) {
            Answer::Unsat => {
                self.count.queries += 1;
                Ok(())
            }
            Answer::Sat => Err(format!("the functions differ at {what}")),
            Answer::Unknown(why) => Err(format!("not decided at {what}: {why}")),
        }
    }
}

/// A condition and its negation, with what the condition is if they follow from what is known. The likely one is first: a
/// guess, which saves questions and decides nothing.
pub(crate) fn both_ways<'a>(states: &mut States<'a>, condition: Term<'a>) -> [(Term<'a>, bool); 2] {
    let likely = states.is_likely(condition);
    [likely, !likely].map(|value| (if value { condition } else { <Term<'a> as BitVec>::not(&condition) }, value))
}

impl<'a> Visitor<'a> for Prover<'_, 'a> {
    fn decide(&mut self, known: &[Term<'a>], condition: Term<'a>) -> Option<bool> {
        let arena = self.world.arena;
        let states = &mut States::of(arena, known);
        both_ways(states, condition).into_iter().find_map(|(goal, value)| {
            let follows = !states.refute(goal) && self.solver.follows(arena, known, goal) == Answer::Unsat;
            self.count.queries += usize::from(follows);
            follows.then_some(value)
        })
    }

    fn event(&mut self, known: &[Term<'a>], goals: Vec<Term<'a>>, what: &str) -> Result<(), String> {
        self.prove(known, &goals, what)
    }

    fn meet(&mut self, known: &[Term<'a>], pair: Pair, states: [&State<'a>; 2]) -> Result<(), String> {
        let relation = self.pairs.get(&pair).ok_or("there is no such pair")?;
        let what = format!("pair ({}, {})", pair.0, pair.1);
        match relation.goals(self.world, states) {
            Ok(goals) => self.prove(known, &goals, &what),
            // Unless no run takes that path.
            Err(why) => self.apart(known, &format!("{what}: {why}"), None),
        }
    }

    fn apart(&mut self, known: &[Term<'a>], what: &str, _: Option<u32>) -> Result<(), String> {
        let never = self.world.arena.truth(false);
        self.prove(known, &[never], what)
    }
}
