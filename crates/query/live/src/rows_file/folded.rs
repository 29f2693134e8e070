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
use kiln_program::Error;

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
    /// What all stacks counted together; at most [`MAX_COUNTED`].
    total: u64,
}

/// The greatest sum: pprof's numbers have 63 bits.
const MAX_COUNTED: u64 = i64::MAX as u64;

impl Folded {
    /// No stacks yet, of rows with these columns.
    pub fn new(columns: &[ColumnHead]) -> Folded {
        let has_weight = columns.last().is_some_and(|column| matches!(column.data_type, "u64" | "i64" | "f64"));
        Folded { columns: columns.to_vec(), has_weight, stacks: BTreeMap::new(), total: 0 }
    }

    /// What is counted: the last column's name, or `rows`.
    pub fn counted(&self) -> &str {
        self.columns.last().filter(|_| self.has_weight).map_or("rows", |column| column.name.exact())
    }

    /// Counts a row. Numbers below 0 and null count nothing.
    ///
    /// # Errors
    /// Returns one if what is counted has more than 63 bits.
    pub fn add(&mut self, row: &Row) -> Result<(), Error> {
        let (weight, frames) = match row.values.split_last() {
            Some((last, frames)) if self.has_weight => (weight(last), frames),
            _ => (1, &row.values[..]),
        };
        if weight == 0 {
            return Ok(());
        }
        self.total = self.total.checked_add(weight).filter(|total| *total <= MAX_COUNTED).ok_or_else(|| {
            Error::InvalidInput(format!(
                "the sum of `{}` is above {MAX_COUNTED}, which profiles cannot have",
                self.counted()
            ))
        })?;
        let frames = frames.iter().zip(&self.columns).filter_map(|(value, column)| frame(value, column));
        let stack = frames.collect::<Vec<_>>().join(";");
        let known = self.stacks.len() < MAX_STACKS || self.stacks.contains_key(&stack);
        let stack = match (known, stack.is_empty()) {
            (false, _) => OTHERS.to_owned(),
            (true, true) => NONE.to_owned(),
            (true, false) => stack,
        };
        *self.stacks.entry(stack).or_default() += weight;
        Ok(())
    }

    /// The stacks, in the order of their frames, with what was counted.
    pub fn stacks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight))
    }
}

/// What a number counts, an integer exactly; 0 if it is below 0 or none.
fn weight(value: &Value) -> u64 {
    match value.as_integer() {
        Some(integer) => u64::try_from(integer).unwrap_or(0),
        None => value.as_float().unwrap_or(0.0).round() as u64,
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
        for values in rows {
            folded.add(&Row { window: None, values: values.to_vec() }).expect("it is counted");
        }
        folded
    }

    #[test]
    fn integers_are_counted_exactly_up_to_63_bits() {
        let mut folded = folded(&["text", "u64"], &[&[Value::text("a"), Value::Uint((1 << 53) + 1)]]);
        assert_eq!(folded.stacks().collect::<Vec<_>>(), [("a", (1 << 53) + 1)]);
        let row = Row { window: None, values: vec![Value::text("b"), Value::Uint(MAX_COUNTED)] };
        let error = folded.add(&row).expect_err("the sum has 64 bits");
        assert!(error.to_string().contains("the sum of `two` is above"), "{error}");
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
