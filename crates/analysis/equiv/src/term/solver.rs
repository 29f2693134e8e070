//! The last judge: Z3, told the logic (`QF_BV`), stopped after a number of steps.
//!
//! Without the feature `z3` there is no solver, and every question that comes here is unknown.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use kiln_isa::semantics::mask;

use crate::concrete::Random;
use crate::term::evaluate::Evaluator;
use crate::term::smt;
use crate::term::{Arena, Binary, Shape, Symbol, TermId};

/// The solver's answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// No valuation makes a pair differ.
    Equal,
    /// A valuation that makes a pair differ. Variables that do not matter are absent.
    Different(Vec<(Symbol, u64)>),
    /// No answer within the step limit, or the query was too large.
    Unknown,
}

/// Steps per 1,000 bits of products and quotients (width times width, summed) that a query must be allowed: Z3 turns
/// them into circuits before it counts the first step.
const STEPS_PER_KILOBIT: u64 = 2500;
/// Steps per term that a query must be allowed. Z3 simplifies a query before it counts the first step, and takes seconds
/// for a thousand terms of random arithmetic. The queries of real programs have up to 60 terms.
const STEPS_PER_TERM: usize = 250;

/// Valuations at which terms are evaluated before the solver is asked.
const VALUATIONS: u64 = 32;

/// Asks whether some pair differs although all assumptions hold. Z3 may take `steps` of its own steps (its `rlimit`); masks,
/// shifts and sums take about 2,500 of them in a millisecond.
///
/// The answer depends on the query alone: Z3 breaks ties by its earlier state, so every query gets a new context. So it
/// is the same whoever asks, and is kept for whoever asks again.
pub fn ask(arena: &Arena, assumptions: &[TermId], pairs: &[(TermId, TermId)], steps: u32) -> Answer {
    let roots: Vec<TermId> = assumptions.iter().copied().chain(pairs.iter().flat_map(|(a, b)| [*a, *b])).collect();
    let cone = smt::cone(arena, &roots);
    let circuits: u64 = cone.iter().map(|id| circuit(arena, *id)).sum();
    let is_long = cone.len().saturating_mul(STEPS_PER_TERM) > steps as usize;
    if is_long || circuits.saturating_mul(STEPS_PER_KILOBIT) > u64::from(steps) * 1000 {
        return Answer::Unknown;
    }
    let variable = |(symbol, id): (Symbol, TermId)| (symbol, arena.shape(id).1);
    let variables: Vec<(Symbol, u32)> = smt::symbols(arena, &roots).into_iter().map(variable).collect();
    if let Some(values) = refuting_values(arena, assumptions, pairs, &variables) {
        return Answer::Different(values);
    }
    let query = smt::query(arena, assumptions, pairs);
    let key = Query { text: query.into(), variables: variables.into(), steps };
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept().answers.get(&key).cloned();
    known.unwrap_or_else(|| {
        let answer = engine::ask(&key.text, &key.variables, steps);
        kept().keep(key, &answer);
        answer
    })
}

/// Values of the variables at which all assumptions hold and a pair differs, if one of [`VALUATIONS`] is of that kind.
/// Evaluating the terms takes microseconds where the solver takes milliseconds.
fn refuting_values(
    arena: &Arena,
    assumptions: &[TermId],
    pairs: &[(TermId, TermId)],
    variables: &[(Symbol, u32)],
) -> Option<Vec<(Symbol, u64)>> {
    (0..VALUATIONS).find_map(|seed| {
        let mut random = Random::new(seed);
        let value = |(symbol, bits): &(Symbol, u32)| (*symbol, random.corner() & mask(*bits));
        let values: HashMap<Symbol, u64> = variables.iter().map(value).collect();
        let mut evaluator = Evaluator::new(arena, |symbol, _| values.get(&symbol).copied().unwrap_or(0));
        let holds = assumptions.iter().all(|id| evaluator.value(*id) == 1);
        let differs = holds && pairs.iter().any(|(one, other)| evaluator.value(*one) != evaluator.value(*other));
        differs.then(|| variables.iter().map(|(symbol, _)| (*symbol, values[symbol])).collect())
    })
}

/// A query, and all that its answer depends on.
#[derive(PartialEq, Eq, Hash)]
struct Query {
    text: Box<str>,
    variables: Box<[(Symbol, u32)]>,
    steps: u32,
}

/// Answers to queries of this process.
#[derive(Default)]
struct Kept {
    answers: HashMap<Query, Answer>,
    bytes: usize,
}

/// Bytes of queries that are kept, about.
const MOST_KEPT: usize = 12 << 20;
/// Bytes of a kept answer besides its query, about.
const ANSWER_BYTES: usize = 256;

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

impl Kept {
    /// Keeps an answer, instead of all others if there are too many.
    fn keep(&mut self, query: Query, answer: &Answer) {
        let bytes = query.text.len() + size_of_val(&*query.variables) + ANSWER_BYTES;
        if self.bytes + bytes > MOST_KEPT {
            *self = Kept::default();
        }
        self.bytes += bytes;
        self.answers.insert(query, answer.clone());
    }
}

/// How Z3 goes about a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// Step by step, which suits small questions best.
    Incremental,
    /// With all of its preprocessing, which some large questions need.
    Preprocessed,
}

/// Steps per millisecond of the clock: one twentieth of what Z3 takes on an idle machine. Not all that it does is a step,
/// so a question also has a limit in time.
#[cfg(feature = "z3")]
const STEPS_PER_CLOCK_MS: u32 = 125;

pub use engine::is_unsatisfiable;

/// How large a circuit of its own a term makes, if it grows with the square of its bits.
fn circuit(arena: &Arena, id: TermId) -> u64 {
    let (shape, bits) = arena.shape(id);
    let one = u64::from(bits) * u64::from(bits);
    match shape {
        Shape::Product(factors) => one * (factors.len() as u64 - 1),
        Shape::Binary(Binary::Udiv | Binary::Urem | Binary::Sdiv | Binary::Srem, ..) => one,
        _ => 0,
    }
}

#[cfg(feature = "z3")]
mod engine {
    use std::time::Instant;

    use z3::ast::BV;
    use z3::{Config, Params, SatResult, Solver};

    use super::{Answer, STEPS_PER_CLOCK_MS, Strategy};
    use crate::term::Symbol;

    /// Whether nothing satisfies a query in SMT-LIB 2. `None` if Z3 does not know after `steps` of its own steps, after a
    /// time in which an idle machine would take twenty times as many, or at `until`.
    pub fn is_unsatisfiable(
        query: &str,
        logic: &str,
        steps: u32,
        strategy: Strategy,
        until: Option<Instant>,
    ) -> Option<bool> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()).as_millis());
        // For Z3, 0 is no limit.
        let clock_ms = left.map_or(u128::MAX, |left| left.max(1)).min((steps / STEPS_PER_CLOCK_MS).into()) as u32;
        z3::with_z3_config(&Config::new(), || {
            let solver = Solver::new_for_logic(logic)?;
            let mut params = Params::new();
            params.set_u32("rlimit", steps);
            params.set_u32("timeout", clock_ms);
            params.set_bool("ctrl_c", false);
            solver.set_params(&params);
            if strategy == Strategy::Incremental {
                solver.push();
            }
            solver.from_string(query);
            match solver.check() {
                SatResult::Unsat => Some(true),
                SatResult::Sat => Some(false),
                SatResult::Unknown => None,
            }
        })
    }

    pub fn ask(query: &str, variables: &[(Symbol, u32)], steps: u32) -> Answer {
        z3::with_z3_config(&Config::new(), || ask_anew(query, variables, steps))
    }

    fn ask_anew(query: &str, variables: &[(Symbol, u32)], steps: u32) -> Answer {
        let Some(solver) = Solver::new_for_logic("QF_BV") else { return Answer::Unknown };
        let mut params = Params::new();
        // Steps of its own end a question at the same place on every machine, busy or not.
        params.set_u32("rlimit", steps);
        // Z3 puts its own handler in place of the process's while it works, and threads that do so at once leave one behind
        // that refers to a solver that is gone: Ctrl-C is the program's business.
        params.set_bool("ctrl_c", false);
        solver.set_params(&params);
        // Within a scope, Z3 solves step by step, which suits small questions best.
        solver.push();
        solver.from_string(query);
        match solver.check() {
            SatResult::Unsat => Answer::Equal,
            SatResult::Unknown => Answer::Unknown,
            SatResult::Sat => match solver.get_model() {
                Some(model) => {
                    let value = |(symbol, bits): &(Symbol, u32)| {
                        Some((*symbol, model.eval(&BV::new_const(symbol.to_string(), *bits), true)?.as_u64()?))
                    };
                    Answer::Different(variables.iter().filter_map(value).collect())
                }
                None => Answer::Unknown,
            },
        }
    }
}

#[cfg(not(feature = "z3"))]
mod engine {
    use std::time::Instant;

    use super::{Answer, Strategy};
    use crate::term::Symbol;

    /// `None`: there is no solver.
    pub fn is_unsatisfiable(_: &str, _: &str, _: u32, _: Strategy, _: Option<Instant>) -> Option<bool> {
        None
    }

    pub fn ask(_: &str, _: &[(Symbol, u32)], _: u32) -> Answer {
        Answer::Unknown
    }
}
