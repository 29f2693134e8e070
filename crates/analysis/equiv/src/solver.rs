//! The last judge: Z3, told the logic (`QF_BV`), reused through push and pop, stopped after milliseconds.

use std::collections::HashMap;

use z3::ast::{BV, Bool};
use z3::{Params, SatResult, Solver};

use crate::smt::{cone, symbols};
use crate::term::{Arena, Binary, Bitwise, Shape, Symbol, TermId};

/// What the solver says.
#[derive(Clone, Debug)]
pub enum Answer {
    /// No valuation makes a pair differ.
    Equal,
    /// This one does. Variables that do not matter are absent.
    Different(HashMap<Symbol, u64>),
    /// It ran out of time.
    Unknown,
}

thread_local! {
    static SOLVER: Option<Solver> = Solver::new_for_logic("QF_BV");
}

/// Steps that Z3 takes in a millisecond, nearly: masks, shifts and sums take it a third of a microsecond to half of one each.
const STEPS_A_MILLISECOND: u32 = 2500;
/// How many times as long as it is to take may pass by the clock.
const PATIENCE: u32 = 10;

/// Asks whether some pair differs although all assumptions hold, for so many milliseconds of an idle machine, counted in
/// the solver's steps.
pub fn ask(arena: &Arena, assumptions: &[TermId], pairs: &[(TermId, TermId)], milliseconds: u32) -> Answer {
    SOLVER.with(|solver| match solver {
        Some(solver) => ask_solver(solver, arena, assumptions, pairs, milliseconds),
        None => Answer::Unknown,
    })
}

fn ask_solver(
    solver: &Solver,
    arena: &Arena,
    assumptions: &[TermId],
    pairs: &[(TermId, TermId)],
    milliseconds: u32,
) -> Answer {
    let mut roots = assumptions.to_vec();
    roots.extend(pairs.iter().flat_map(|(a, b)| [*a, *b]));
    let terms = translate(arena, &roots);
    let mut params = Params::new();
    // Steps of its own end a question at the same place on a busy machine; the clock is behind them, since terms with
    // quotients may take long before the first step is counted.
    params.set_u32("rlimit", milliseconds.saturating_mul(STEPS_A_MILLISECOND));
    params.set_u32("timeout", milliseconds.saturating_mul(PATIENCE));
    // Z3 puts its own handler in place of the process's while it works, and threads that do so at once leave one behind
    // that refers to a solver that is gone: Ctrl-C is the program's business.
    params.set_bool("ctrl_c", false);
    solver.set_params(&params);
    solver.push();
    for assumption in assumptions {
        solver.assert(terms[assumption].eq(BV::from_u64(1, 1)));
    }
    let differences: Vec<_> = pairs.iter().map(|(a, b)| terms[a].eq(&terms[b]).not()).collect();
    solver.assert(Bool::or(&differences));
    let answer = match solver.check() {
        SatResult::Unsat => Answer::Equal,
        SatResult::Unknown => Answer::Unknown,
        SatResult::Sat => match solver.get_model() {
            Some(model) => {
                let value = |(symbol, id): (Symbol, TermId)| Some((symbol, model.eval(&terms[&id], true)?.as_u64()?));
                Answer::Different(symbols(arena, &roots).into_iter().filter_map(value).collect())
            }
            None => Answer::Unknown,
        },
    };
    solver.pop(1);
    answer
}

fn translate(arena: &Arena, roots: &[TermId]) -> HashMap<TermId, BV> {
    let mut terms = HashMap::new();
    for id in cone(arena, roots) {
        let (shape, bits) = arena.shape(id);
        let term = translate_shape(&shape, bits, &terms);
        terms.insert(id, term);
    }
    terms
}

fn translate_shape(shape: &Shape, bits: u32, terms: &HashMap<TermId, BV>) -> BV {
    let zero = || BV::from_u64(0, bits);
    let fold = |ids: &[TermId], combine: fn(&BV, &BV) -> BV| {
        ids.iter().map(|id| terms[id].clone()).reduce(|a, b| combine(&a, &b)).unwrap_or_else(zero)
    };
    match shape {
        Shape::Constant(value) => BV::from_u64(*value, bits),
        Shape::Symbol(symbol) => BV::new_const(symbol.to_string(), bits),
        Shape::Concat(parts) => fold(parts, |low, high| high.concat(low)),
        Shape::Extract(base, low) => terms[base].extract(u32::from(*low) + bits - 1, u32::from(*low)),
        Shape::Repeat(bit) => terms[bit].sign_ext(bits - 1),
        Shape::Sum(constant, multiples) => {
            let start = BV::from_u64(*constant, bits);
            multiples.iter().fold(start, |sum, (factor, id)| {
                sum.bvadd(&match factor {
                    1 => terms[id].clone(),
                    factor => terms[id].bvmul(BV::from_u64(*factor, bits)),
                })
            })
        }
        Shape::Product(factors) => fold(factors, |a, b| a.bvmul(b)),
        Shape::Bitwise(Bitwise::And, ids) => fold(ids, |a, b| a.bvand(b)),
        Shape::Bitwise(Bitwise::Or, ids) => fold(ids, |a, b| a.bvor(b)),
        Shape::Bitwise(Bitwise::Xor, ids) => fold(ids, |a, b| a.bvxor(b)),
        Shape::Not(id) => terms[id].bvnot(),
        Shape::Binary(op, a, b) => translate_binary(*op, &terms[a], &terms[b]),
        Shape::Ite(condition, then, otherwise) => {
            terms[condition].eq(BV::from_u64(1, 1)).ite(&terms[then], &terms[otherwise])
        }
    }
}

fn translate_binary(op: Binary, a: &BV, b: &BV) -> BV {
    let truth = |value: Bool| value.ite(&BV::from_u64(1, 1), &BV::from_u64(0, 1));
    match op {
        Binary::Udiv => a.bvudiv(b),
        Binary::Urem => a.bvurem(b),
        Binary::Sdiv => a.bvsdiv(b),
        Binary::Srem => a.bvsrem(b),
        Binary::Shl => a.bvshl(b),
        Binary::Lshr => a.bvlshr(b),
        Binary::Ashr => a.bvashr(b),
        Binary::Eq => truth(a.eq(b)),
        Binary::Ult => truth(a.bvult(b)),
        Binary::Slt => truth(a.bvslt(b)),
    }
}
