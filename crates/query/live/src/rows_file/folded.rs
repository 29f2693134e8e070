//! Rows as stacks that are counted, for flame graphs and pprof.
//!
//! ```text
//!   SELECT comm, ustack, sum(off_ns) ...     "sh", "main;read", 700  -->  sh;main;read 700
//!          frames, outermost first; what is counted
//! ```
//!
//! A last column of numbers is what is counted; without one, each row counts once. All other columns are frames.

use std::collections::BTreeMap;

use kiln_plan::{Row, Value};

use crate::session::ColumnHead;

/// Different stacks that are kept; further ones are counted together, as [`OTHERS`].
const MAX_STACKS: usize = 1 << 16;
/// The frame of stacks that found no room.
const OTHERS: &str = "[others]";
/// The frame of rows without one.
const NONE: &str = "[none]";

/// Stacks, and how much of what is counted was in each.
pub struct Folded {
    columns: Vec<ColumnHead>,
    has_weight: bool,
    /// By frames from the outside in, with `;` between them.
    stacks: BTreeMap<String, u64>,
}

impl Folded {
    /// No stacks yet, of rows with these columns.
    pub fn new(columns: &[ColumnHead]) -> Folded {
        let has_weight = columns.last().is_some_and(|column| matches!(column.data_type, "u64" | "i64" | "f64"));
        Folded { columns: columns.to_vec(), has_weight, stacks: BTreeMap::new() }
    }

    /// What is counted: the last column's name, or `rows`.
    pub fn counted(&self) -> &str {
        self.columns.last().filter(|_| self.has_weight).map_or("rows", |column| column.name.exact())
    }

    /// Counts a row. Numbers below 0 and null count nothing.
    pub fn add(&mut self, row: &Row) {
        let (weight, frames) = match row.values.split_last() {
            Some((last, frames)) if self.has_weight => (last.as_float().unwrap_or(0.0).round() as u64, frames),
            _ => (1, &row.values[..]),
        };
        if weight == 0 {
            return;
        }
        let frames = frames.iter().zip(&self.columns).filter_map(|(value, column)| frame(value, column));
        let stack = frames.collect::<Vec<_>>().join(";");
        let known = self.stacks.len() < MAX_STACKS || self.stacks.contains_key(&stack);
        let stack = match (known, stack.is_empty()) {
            (false, _) => OTHERS.to_owned(),
            (true, true) => NONE.to_owned(),
            (true, false) => stack,
        };
        let sum = self.stacks.entry(stack).or_default();
        *sum = sum.saturating_add(weight);
    }

    /// The stacks, in the order of their frames, with what was counted.
    pub fn stacks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight))
    }
}

/// The frame, or the frames of a stack, that a value is; numbers are told apart by their column's name.
fn frame(value: &Value, column: &ColumnHead) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Text(text) => {
            let lines = |character: char| if character.is_control() { ' ' } else { character };
            Some(text.chars().map(lines).collect())
        }
        other => Some(format!("{} {other}", column.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(types: &[&'static str], rows: &[&[Value]]) -> Folded {
        let names = ["one", "two", "three"];
        let columns: Vec<_> =
            names.iter().zip(types).map(|(name, data_type)| ColumnHead { name: (*name).into(), data_type }).collect();
        let mut folded = Folded::new(&columns);
        rows.iter().for_each(|values| folded.add(&Row { window: None, values: values.to_vec() }));
        folded
    }

    #[test]
    fn the_last_number_is_counted_and_the_rest_are_frames() {
        let stack = Value::text("main;read");
        let rows: [&[Value]; 3] = [
            &[Value::Int(7), stack.clone(), Value::Uint(2)],
            &[Value::Int(7), stack, Value::Float(1.6)],
            &[Value::Null, Value::text("line\nend"), Value::Int(-3)],
        ];
        let folded = folded(&["i64", "text", "u64"], &rows);
        assert_eq!(folded.stacks().collect::<Vec<_>>(), [("one 7;main;read", 4)]);
        assert_eq!(folded.counted(), "three");
    }

    #[test]
    fn rows_without_a_number_at_their_end_count_once() {
        let folded = folded(&["i64", "text"], &[&[Value::Int(7), Value::text("a\nb")], &[Value::Null, Value::Null]]);
        assert_eq!(folded.stacks().collect::<Vec<_>>(), [("[none]", 1), ("one 7;a b", 1)]);
        assert_eq!(folded.counted(), "rows");
    }

    #[test]
    fn stacks_beyond_the_limit_are_counted_together() {
        let all = MAX_STACKS as i64 + 5;
        let rows: Vec<[Value; 1]> = (0..all).map(|at| [Value::text(&at.to_string())]).collect();
        let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
        let folded = folded(&["text"], &rows);
        assert_eq!(folded.stacks().find(|(stack, _)| *stack == OTHERS), Some((OTHERS, 5)));
        assert_eq!(folded.stacks().map(|(_, weight)| weight).sum::<u64>(), all as u64);
    }
}
