//! Aggregates that Kiln's own plans do not have: the value at a maximum, arrays, the most frequent value, correlation.

use std::cmp::Ordering;
use std::collections::HashMap;

use kiln_plan::Value;
use rusqlite::functions::{Aggregate, Context};
use rusqlite::types::Value as Own;
use rusqlite::{Connection, Result};

use crate::value::{FLAGS, MOST_KEPT, bytes, kiln, own, too_much};

/// Adds the aggregates to a connection.
pub fn add(connection: &Connection) -> Result<()> {
    for (name, operands, new) in NAMES {
        connection.create_aggregate_function(*name, *operands, FLAGS, New(*new))?;
    }
    Ok(())
}

/// Aggregates by name: how many operands they take, and their state for no rows.
const NAMES: &[(&str, i32, fn() -> State)] = &[
    ("k_arg_max", 2, || State::At(None, Ordering::Greater)),
    ("k_arg_min", 2, || State::At(None, Ordering::Less)),
    ("k_array", 1, || State::Array(None)),
    ("k_mode", 1, || State::Mode(HashMap::new(), 0)),
    ("k_corr", 2, || State::Together(Together::default())),
];

/// What is known of the rows so far.
enum State {
    /// The greatest or least second operand, and the first operand of its row.
    At(Option<(Value, Value)>, Ordering),
    /// The text of an array, without its last bracket.
    Array(Option<String>),
    /// How often each value came, and the bytes of the values.
    Mode(HashMap<Value, u64>, usize),
    /// Two numbers of each row.
    Together(Together),
}

/// Means of two numbers, and sums of products of their distances from the means (Welford).
#[derive(Default)]
struct Together {
    count: f64,
    means: [f64; 2],
    squares: [f64; 2],
    products: f64,
}

impl Together {
    fn add(&mut self, both: [f64; 2]) {
        self.count += 1.0;
        let before = [0, 1].map(|at| both[at] - self.means[at]);
        for at in [0, 1] {
            self.means[at] += before[at] / self.count;
            self.squares[at] += before[at] * (both[at] - self.means[at]);
        }
        self.products += before[0] * (both[1] - self.means[1]);
    }

    /// Pearson's coefficient; null if one of both numbers never differs.
    fn value(&self) -> Value {
        let value = self.products / (self.squares[0].sqrt() * self.squares[1].sqrt());
        if value.is_finite() { Value::Float(value.clamp(-1.0, 1.0)) } else { Value::Null }
    }
}

impl State {
    fn add(&mut self, value: Value, context: &Context<'_>) -> Result<()> {
        match self {
            State::At(best, wanted) => {
                let by = kiln(context.get_raw(1));
                if !by.is_null() && best.as_ref().is_none_or(|(_, known)| by.cmp(known) == *wanted) {
                    *best = Some((value, by));
                }
            }
            State::Array(text) => {
                let text = text.get_or_insert_with(String::new);
                text.push(if text.is_empty() { '{' } else { ',' });
                element(text, &value);
                if text.len() > crate::MOST_TEXT as usize {
                    return Err(rusqlite::Error::UserFunctionError("an array has more than 1 MiB of text".into()));
                }
            }
            State::Mode(counts, kept) if !value.is_null() => {
                let own = size_of::<(Value, u64)>() + bytes(&value);
                let count = counts.entry(value).or_default();
                *kept += if *count == 0 { own } else { 0 };
                *count += 1;
                if *kept > MOST_KEPT {
                    return Err(too_much("a mode"));
                }
            }
            State::Mode(..) => {}
            State::Together(together) => {
                if let (Some(one), Some(other)) = (value.as_float(), kiln(context.get_raw(1)).as_float()) {
                    together.add([one, other]);
                }
            }
        }
        Ok(())
    }

    fn value(self) -> Value {
        match self {
            State::At(best, _) => best.map_or(Value::Null, |(value, _)| value),
            State::Array(text) => text.map_or(Value::Null, |text| Value::text(&(text + "}"))),
            // Of values that are as frequent, the least.
            State::Mode(counts, _) => {
                let best =
                    counts.into_iter().max_by(|one, other| one.1.cmp(&other.1).then_with(|| other.0.cmp(&one.0)));
                best.map_or(Value::Null, |(value, _)| value)
            }
            State::Together(together) => together.value(),
        }
    }
}

/// An element of an array, as PostgreSQL writes it.
fn element(array: &mut String, value: &Value) {
    let text = value.to_string();
    match value {
        Value::Null => array.push_str("NULL"),
        Value::Text(_)
            if text.is_empty()
                || text.eq_ignore_ascii_case("null")
                || text.contains(|letter: char| letter.is_whitespace() || "{},\"\\".contains(letter)) =>
        {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            array.push_str(&format!("\"{quoted}\""));
        }
        _ => array.push_str(&text),
    }
}

struct New(fn() -> State);

impl Aggregate<State, Own> for New {
    fn init(&self, _: &mut Context<'_>) -> Result<State> {
        Ok(self.0())
    }

    fn step(&self, context: &mut Context<'_>, state: &mut State) -> Result<()> {
        state.add(kiln(context.get_raw(0)), context)
    }

    fn finalize(&self, _: &mut Context<'_>, state: Option<State>) -> Result<Own> {
        Ok(state.map_or(Own::Null, |state| own(&state.value())))
    }
}
