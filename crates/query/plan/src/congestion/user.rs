//! The part of a policy that runs in user space: clauses over floating-point numbers, at each report.
//!
//! ```text
//!   kernel: report --ring buffer--> clauses, over the report's values --answer--> the connection's place in a map
//!      ^                                ^                                              |          |
//!      |                                +---- the connection's variables in user space +          |
//!      +---- at the next acknowledgement: what was set <------------------------------------------+
//! ```
//!
//! An answer holds what the clauses set and the connection's variables in user space. So user space itself keeps
//! nothing of a connection, and what is kept is bounded by the map. The connection owns its place in the map from its beginning to
//! its end. An answer names the connection that it is for: one that comes too late changes nothing.

use super::policy::{Clause, Place, Policy, Step};
use crate::expr::{Expr, Function, truth};
use crate::value::Value;

/// Connections that can have a part in user space at a time, at most.
pub const MAX_CONNECTIONS: u32 = 65_535;

/// Words of an answer, eight bytes each: the connection that it is for, which places it sets (by bits, and
/// [`ANSWERED`]; 0 when it was carried out), when it was carried out, the places, and the variables in user space.
pub(super) const OWNER: usize = 0;
/// See [`OWNER`].
pub(super) const PENDING: usize = 1;
/// See [`OWNER`].
pub(super) const TIME: usize = 2;
/// See [`OWNER`].
pub(super) const PLACES: usize = 3;
/// The bit of an answer, whatever it sets.
const ANSWERED: u64 = 1 << 63;

/// Where a clause at reports runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Whether the kernel carries it out.
    pub in_kernel: bool,
    /// Why.
    pub why: String,
}

/// How many of the clauses at reports the kernel could carry out: the first ones, with whole numbers only. Their values are the
/// same in both places.
pub fn movable(policy: &Policy) -> usize {
    policy.on_report.iter().take_while(|clause| beyond_kernel(policy, clause).is_none()).count()
}

/// Where the clauses at reports run, if the first `in_kernel` of them run in the kernel.
pub fn placements(policy: &Policy, in_kernel: usize) -> Vec<Placement> {
    let movable = movable(policy);
    let place = |(at, clause): (usize, &Clause)| Placement {
        in_kernel: at < in_kernel,
        why: match beyond_kernel(policy, clause) {
            _ if at < in_kernel => "whole numbers only".to_owned(),
            _ if at < movable => "the kernel's program would be too large".to_owned(),
            Some(why) => why,
            None => "behind a clause that runs in user space".to_owned(),
        },
    };
    policy.on_report.iter().enumerate().map(place).collect()
}

/// Why the kernel cannot carry a clause out.
fn beyond_kernel(policy: &Policy, clause: &Clause) -> Option<String> {
    let name = |number: usize| policy.user_variables.get(number).map_or("", |variable| &*variable.name);
    let kept = |number: usize| format!("`{}` is kept in user space", name(number));
    let set = clause.places().find_map(|place| match place {
        Place::User(number) => Some(kept(number)),
        _ => None,
    });
    let kept = |expr: &Expr| match expr {
        Expr::Column(column) => column.checked_sub(Place::User(0).column()).map(kept),
        Expr::Call(function @ Function::Floating(_), _) => {
            Some(format!("`{}` gives a floating-point number", function.name()))
        }
        _ => None,
    };
    // Constants come last: a whole one may have become one of these.
    let constant = |expr: &Expr| match expr {
        Expr::Literal(Value::Float(number)) => Some(format!("{number:?} is a floating-point number")),
        _ => None,
    };
    let found = |what: &dyn Fn(&Expr) -> Option<String>| clause.expressions().find_map(|expr| first(expr, what));
    set.or_else(|| found(&kept)).or_else(|| found(&constant))
}

/// What is said of the first part of an expression that there is something to say of.
fn first(expr: &Expr, what: &dyn Fn(&Expr) -> Option<String>) -> Option<String> {
    what(expr).or_else(|| expr.operands().into_iter().find_map(|operand| first(operand, what)))
}

/// The clauses of a policy that run in user space.
#[derive(Clone, PartialEq, Debug)]
pub struct UserPart {
    clauses: Vec<Clause>,
    /// What they set, but variables in user space.
    pub(super) places: Vec<Place>,
    /// The initial values of the variables in user space.
    initial: Vec<f64>,
}

impl UserPart {
    /// The part in user space, if the first `in_kernel` clauses at reports run in the kernel; `None` if nothing is left.
    pub fn new(policy: &Policy, in_kernel: usize) -> Option<UserPart> {
        let clauses = policy.on_report.get(in_kernel..).filter(|clauses| !clauses.is_empty())?.to_vec();
        let mut places: Vec<Place> = clauses.iter().flat_map(Clause::places).collect();
        places.retain(|place| !matches!(place, Place::User(_)));
        places.sort_unstable();
        places.dedup();
        let initial = policy.user_variables.iter().map(|variable| variable.initial).collect();
        Some(UserPart { clauses, places, initial })
    }

    /// Bytes of an answer.
    pub fn answer_bytes(&self) -> u32 {
        8 * (PLACES + self.places.len() + self.initial.len()) as u32
    }

    /// Whether the last answer in a connection's place was for another connection.
    pub fn is_new(connection: u64, before: &[u8]) -> bool {
        word(before, OWNER) != connection
    }

    /// The answer to a report, whose row has a value for each column in the kernel. `before` is the last answer in the connection's
    /// place.
    pub fn answer(&self, connection: u64, row: &[Value], before: &[u8]) -> Vec<u8> {
        let is_new = UserPart::is_new(connection, before);
        let variables = PLACES + self.places.len();
        let mut row = row.to_vec();
        row.resize(Place::User(0).column(), Value::Null);
        row.extend(self.initial.iter().enumerate().map(|(number, initial)| match is_new {
            true => Value::Float(*initial),
            false => Value::Float(f64::from_bits(word(before, variables + number))),
        }));
        let mut set = ANSWERED;
        for clause in &self.clauses {
            if truth(&clause.when.evaluate(&row)) != Some(true) {
                continue;
            }
            set |= self.carry_out(clause, &mut row);
            if !clause.falls_through {
                break;
            }
        }
        let mut words = vec![0; variables + self.initial.len()];
        (words[OWNER], words[PENDING]) = (connection, set);
        words[TIME] = if is_new { 0 } else { word(before, TIME) };
        for (word, place) in words[PLACES..].iter_mut().zip(&self.places) {
            *word = row[place.column()].bits().unwrap_or_default();
        }
        for (word, value) in words[variables..].iter_mut().zip(&row[Place::User(0).column()..]) {
            *word = value.as_float().unwrap_or_default().to_bits();
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Carries a clause out on a row. Returns the bits of the places that it set. What has no value (a division by 0, the root
    /// of a negative number, what is too great) is not set.
    fn carry_out(&self, clause: &Clause, row: &mut [Value]) -> u64 {
        let mut set = 0;
        for step in &clause.steps {
            let Step::Assign(place, value) = step else { continue };
            let value = value.evaluate(row);
            let value = match place {
                Place::User(_) => value.as_float().filter(|value| value.is_finite()).map(Value::Float),
                _ => whole(&value).map(Value::Uint),
            };
            let Some(value) = value else { continue };
            row[place.column()] = value;
            set |= self.places.iter().position(|own| own == place).map_or(0, |bit| 1 << bit);
        }
        set
    }

    /// An answer that is not carried out yet.
    pub fn waiting(answer: &[u8]) -> Vec<u8> {
        let mut waiting = answer.to_vec();
        waiting[8 * PENDING..8 * (PENDING + 1)].fill(0);
        waiting
    }
}

/// A word of an answer; 0 behind its end.
fn word(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
    found.map_or(0, u64::from_le_bytes)
}

/// The nearest unsigned integer: 0 for negative numbers, the greatest for those that are too great.
fn whole(value: &Value) -> Option<u64> {
    match value {
        // The conversion saturates.
        Value::Float(value) => value.is_finite().then(|| value.round() as u64),
        other => other.bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{BinaryOp, Floating};

    fn float(value: f64) -> Expr {
        Expr::Literal(Value::Float(value))
    }

    fn clause(steps: Vec<(Place, Expr)>) -> Clause {
        let steps = steps.into_iter().map(|(place, value)| Step::Assign(place, value)).collect();
        Clause { when: Expr::Literal(Value::Bool(true)), steps, falls_through: false }
    }

    fn part(steps: Vec<(Place, Expr)>, initial: f64) -> UserPart {
        let variable = super::super::policy::UserVariable { name: "a".to_owned(), initial };
        let policy = Policy { on_report: vec![clause(steps)], user_variables: vec![variable], ..Policy::default() };
        UserPart::new(&policy, 0).expect("it has a clause")
    }

    #[test]
    fn variables_are_kept_for_the_connection_that_they_are_of() {
        let own = Expr::Column(Place::User(0).column());
        let more = Expr::binary(BinaryOp::Add, own.clone(), float(0.5));
        let part = part(vec![(Place::User(0), more), (Place::Rate, own)], 1.0);
        let row = vec![Value::Uint(0); Place::User(0).column()];
        let mut answer = vec![0; part.answer_bytes() as usize];
        for rate in [2, 2, 3] {
            // 1.5 and 2.5 are rounded away from 0.
            answer = part.answer(7, &row, &answer);
            assert_eq!(word(&answer, PLACES), rate);
        }
        assert!(UserPart::is_new(8, &answer) && !UserPart::is_new(7, &answer));
        let other = part.answer(8, &row, &answer);
        assert_eq!((word(&other, OWNER), word(&other, PLACES)), (8, 2));
        assert_eq!(word(&UserPart::waiting(&other), PENDING), 0);
    }

    #[test]
    fn what_has_no_value_is_not_set() {
        let root = |value| Expr::Call(Function::Floating(Floating::Sqrt), vec![float(value)]);
        let divided = Expr::binary(BinaryOp::Divide, float(1.0), float(0.0));
        let steps = vec![
            (Place::Window, root(-1.0)),
            (Place::Rate, divided),
            (Place::User(0), Expr::binary(BinaryOp::Multiply, float(1e300), float(1e300))),
            (Place::Variable(0), float(-3.0)),
            (Place::Variable(1), float(1e30)),
        ];
        let part = part(steps, 2.0);
        let row = vec![Value::Uint(9); Place::User(0).column()];
        let answer = part.answer(7, &row, &[]);
        assert_eq!(word(&answer, PENDING), ANSWERED | 0b1100, "the window and the rate are left as they are");
        assert_eq!([2, 3].map(|at| word(&answer, PLACES + at)), [0, u64::MAX]);
        assert_eq!(f64::from_bits(word(&answer, PLACES + 4)), 2.0);
    }
}
