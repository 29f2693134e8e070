//! Kiln's aggregates for SQLite: exact sums, quantiles, histograms, sketches.

use std::collections::VecDeque;

use kiln_plan::execute::accumulate::Accumulator;
use kiln_plan::expr::Expr;
use kiln_plan::query::{Aggregate as Wanted, AggregateFunction};
use kiln_plan::{DataType, Value};
use rusqlite::functions::{Aggregate, Context, WindowAggregate};
use rusqlite::types::Value as Own;
use rusqlite::{Connection, Result};

use crate::value::{FLAGS, Handles, MOST_KEPT, bytes, given, kiln, too_much};

/// Maximum number of values that `top_k` shows.
const MOST_SHOWN: i64 = 100;

/// Adds the aggregates to a connection.
pub fn add(connection: &Connection, handles: &Handles) -> Result<()> {
    let of = |kind: Kind| Of { kind, handles: handles.clone() };
    for (name, kind, operands) in [
        ("k_sum", Kind::Sum, 1),
        ("k_avg", Kind::Avg, 1),
        ("k_stddev", Kind::Stddev, 1),
        ("k_histogram", Kind::Histogram, 1),
        ("k_approx_distinct", Kind::ApproxDistinct, 1),
        ("k_quantile", Kind::Quantile, 2),
        ("k_top_k", Kind::TopK, 2),
    ] {
        connection.create_aggregate_function(name, operands, FLAGS, of(kind))?;
    }
    for (name, kind, operands) in [
        ("k_sum_over", Kind::Sum, 1),
        ("k_avg_over", Kind::Avg, 1),
        ("k_stddev_over", Kind::Stddev, 1),
        ("k_quantile_over", Kind::Quantile, 2),
    ] {
        connection.create_window_function(name, operands, FLAGS, Over(of(kind)))?;
    }
    Ok(())
}

/// An aggregate by its name.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Sum,
    Avg,
    Stddev,
    Histogram,
    ApproxDistinct,
    Quantile,
    TopK,
}

struct Of {
    kind: Kind,
    handles: Handles,
}

/// The values of a group or of a window's frame.
struct State {
    function: AggregateFunction,
    /// Their aggregate; `None` where one was taken away, so that it is computed of those that are left.
    accumulator: Option<Accumulator>,
    /// The values, of a frame.
    frame: VecDeque<Value>,
    /// Bytes of the frame.
    bytes: usize,
}

impl State {
    fn new(kind: Kind, context: &Context<'_>) -> Result<State> {
        let wrong = |why: &str| rusqlite::Error::UserFunctionError(why.into());
        let second = || kiln(context.get_raw(1));
        let function = match kind {
            Kind::Sum => AggregateFunction::Sum,
            Kind::Avg => AggregateFunction::Avg,
            Kind::Stddev => AggregateFunction::Stddev,
            Kind::Histogram => AggregateFunction::Histogram,
            Kind::ApproxDistinct => AggregateFunction::ApproxDistinct,
            Kind::Quantile => match second().as_float() {
                Some(part) if (0.0..=1.0).contains(&part) => AggregateFunction::Quantile(part),
                _ => return Err(wrong("a quantile is of a part from 0 to 1")),
            },
            Kind::TopK => match second() {
                Value::Int(count @ 1..=MOST_SHOWN) => AggregateFunction::TopK(count as usize),
                _ => return Err(wrong("top_k shows 1 to 100 values")),
            },
        };
        let first = kiln(context.get_raw(0));
        let accumulator = Some(accumulator(function, &first));
        Ok(State { function, accumulator, frame: VecDeque::new(), bytes: 0 })
    }

    fn add(&mut self, value: &Value) {
        if let Some(accumulator) = &mut self.accumulator {
            accumulator.add(value);
        }
    }

    /// The aggregate, computed again if values were taken away.
    fn value(&mut self) -> Value {
        if self.accumulator.is_none() {
            let mut again = accumulator(self.function, self.frame.front().unwrap_or(&Value::Null));
            self.frame.iter().for_each(|value| again.add(value));
            self.accumulator = Some(again);
        }
        self.accumulator.as_ref().map_or(Value::Null, Accumulator::value)
    }
}

/// An accumulator for values such as this one.
fn accumulator(function: AggregateFunction, like: &Value) -> Accumulator {
    let data_type = match like {
        Value::Float(_) => DataType::Float,
        // A sum of the engine's integers may be beyond them.
        Value::Int(_) if function != AggregateFunction::Sum => DataType::Int,
        _ => DataType::Uint,
    };
    let aggregate = Wanted { function, of: Some(Expr::Column(0)), distinct: false };
    Accumulator::new(&aggregate, &[data_type])
}

impl Aggregate<Option<State>, Own> for Of {
    fn init(&self, _: &mut Context<'_>) -> Result<Option<State>> {
        Ok(None)
    }

    fn step(&self, context: &mut Context<'_>, state: &mut Option<State>) -> Result<()> {
        if state.is_none() {
            *state = Some(State::new(self.kind, context)?);
        }
        if let Some(state) = state {
            state.add(&kiln(context.get_raw(0)));
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, state: Option<Option<State>>) -> Result<Own> {
        let value = state.flatten().map_or(Value::Null, |mut state| state.value());
        Ok(given(&value, &self.handles))
    }
}

/// An aggregate over the frames of `OVER`.
struct Over(Of);

impl Aggregate<Option<State>, Own> for Over {
    fn init(&self, context: &mut Context<'_>) -> Result<Option<State>> {
        self.0.init(context)
    }

    fn step(&self, context: &mut Context<'_>, state: &mut Option<State>) -> Result<()> {
        self.0.step(context, state)?;
        if let Some(state) = state {
            let value = kiln(context.get_raw(0));
            state.bytes += bytes(&value);
            if state.bytes > MOST_KEPT {
                return Err(too_much("a window"));
            }
            state.frame.push_back(value);
        }
        Ok(())
    }

    fn finalize(&self, context: &mut Context<'_>, state: Option<Option<State>>) -> Result<Own> {
        self.0.finalize(context, state)
    }
}

impl WindowAggregate<Option<State>, Own> for Over {
    fn value(&self, state: Option<&mut Option<State>>) -> Result<Own> {
        let value = state.and_then(Option::as_mut).map_or(Value::Null, State::value);
        Ok(given(&value, &self.0.handles))
    }

    fn inverse(&self, _: &mut Context<'_>, state: &mut Option<State>) -> Result<()> {
        if let Some(state) = state {
            state.bytes -= state.frame.pop_front().as_ref().map_or(0, bytes);
            state.accumulator = None;
        }
        Ok(())
    }
}
