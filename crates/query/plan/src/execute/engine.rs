//! What an SQL engine computes: rows of its inputs, for each window, and the engine's answer.
//!
//! ```text
//!   rows of t0 --+
//!   rows of t1 --+--> by window, until no earlier row can come --> engine --> rows of the window
//! ```
//!
//! The engine itself is in a crate of its own, `kiln-engine`, because it is compiled from C.

use std::collections::BTreeMap;

use super::{Limits, Lost, Row, windows_of};
use crate::flow::{EngineQuery, When};
use crate::query::Window;
use crate::value::Value;

/// Rows of one table.
pub type Rows = Vec<Vec<Value>>;

/// Answers one query again and again, from other rows.
pub trait Engine {
    /// The answer from these rows of each input, with maximum `most` rows; and how many more there would be.
    ///
    /// # Errors
    /// Returns a sentence if the engine fails, or takes too long.
    fn answer(&mut self, inputs: &[Rows], most: usize) -> Result<(Rows, u64), String>;
}

/// A query that an engine answers.
pub(super) struct Asked {
    engine: Box<dyn Engine>,
    when: When,
    times: Vec<Option<usize>>,
    limits: Limits,
    /// Rows of each input by window; without windows, by `None`.
    waiting: BTreeMap<Option<[u64; 2]>, Vec<Rows>>,
    /// How many wait.
    rows: usize,
    /// Windows that end before this time are over.
    sure_ns: u64,
    lost: Lost,
    failure: Option<String>,
}

impl Asked {
    pub(super) fn new(query: &EngineQuery, limits: Limits, engine: Box<dyn Engine>) -> Asked {
        Asked {
            engine,
            when: query.when,
            times: query.inputs.iter().map(|input| input.time).collect(),
            limits,
            waiting: BTreeMap::new(),
            rows: 0,
            sure_ns: 0,
            lost: Lost::default(),
            failure: None,
        }
    }

    /// Takes rows of an input.
    pub(super) fn add(&mut self, input: usize, rows: Vec<Row>) {
        for row in rows {
            match (self.when, self.times[input]) {
                (When::Windows(Some(window)), Some(time)) => {
                    let time = row.values[time].bits().unwrap_or_default();
                    for number in windows_of(Some(window), time) {
                        self.wait(input, Some(bounds(window, number)), row.values.clone());
                    }
                }
                (When::Windows(_), _) => self.wait(input, row.window, row.values),
                _ => self.wait(input, None, row.values),
            }
        }
    }

    fn wait(&mut self, input: usize, window: Option<[u64; 2]>, values: Vec<Value>) {
        if window.is_some_and(|[_, end]| end <= self.sure_ns) && self.times[input].is_some() {
            self.lost.late += 1;
        } else if self.rows >= self.limits.rows {
            self.lost.rows += 1;
        } else {
            let inputs = self.times.len();
            self.waiting.entry(window).or_insert_with(|| vec![Rows::new(); inputs])[input].push(values);
            self.rows += 1;
        }
    }

    /// Moves the clock on; to the end of all time if there is none. Returns the answers that are ready.
    pub(super) fn advance(&mut self, sure_ns: Option<u64>) -> Vec<Row> {
        self.sure_ns = self.sure_ns.max(sure_ns.unwrap_or(u64::MAX));
        let is_over = sure_ns.is_none();
        let sure_ns = self.sure_ns;
        let is_ready = |window: &Option<[u64; 2]>, times: &[Option<usize>]| match window {
            // Windows of inputs that come in windows have ended.
            Some([_, end]) => is_over || *end <= sure_ns || times.iter().all(Option::is_none),
            None => true,
        };
        let ready: Vec<_> = match self.when {
            When::End if !is_over => return Vec::new(),
            // Without any row there is an answer, too.
            When::End => vec![None],
            When::Rows | When::Windows(_) => {
                self.waiting.keys().filter(|window| is_ready(window, &self.times)).copied().collect()
            }
        };
        ready.into_iter().flat_map(|window| self.answer(window)).collect()
    }

    fn answer(&mut self, window: Option<[u64; 2]>) -> Vec<Row> {
        let inputs = self.times.len();
        let rows = self.waiting.remove(&window).unwrap_or_else(|| vec![Rows::new(); inputs]);
        self.rows -= rows.iter().map(Vec::len).sum::<usize>();
        if self.failure.is_some() {
            return Vec::new();
        }
        match self.engine.answer(&rows, self.limits.rows) {
            Ok((rows, more)) => {
                self.lost.rows += more;
                rows.into_iter().map(|values| Row { window, values }).collect()
            }
            Err(why) => {
                self.failure = Some(why);
                Vec::new()
            }
        }
    }

    pub(super) fn lost(&self) -> Lost {
        self.lost
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// The beginning and the end of a window, by its number.
fn bounds(window: Window, number: u64) -> [u64; 2] {
    let start = number.saturating_mul(window.step_ns);
    [start, start.saturating_add(window.length_ns)]
}
