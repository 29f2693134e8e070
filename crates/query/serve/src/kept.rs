//! The last rows of a query, for readers that come later. Their number is bounded: the oldest windows go first. A row with
//! long texts counts as several.

use std::collections::VecDeque;

use serde_json::{Value as Json, json};

use kiln_plan::{Row, Value};

/// Rows of one window, or rows that came together.
struct Window {
    /// Its number, from 1: readers ask for those after the last that they have.
    number: u64,
    bounds: Option<[u64; 2]>,
    rows: Vec<Row>,
}

/// The last windows of a query.
pub struct Kept {
    max_rows: usize,
    windows: VecDeque<Window>,
    rows: usize,
    /// The sum of [`size`] over the rows; `max_rows` at most.
    size: usize,
    last: u64,
    /// Rows of a window that alone were too many.
    cut: u64,
}

impl Kept {
    /// Keeps this many rows.
    pub fn new(max_rows: usize) -> Kept {
        Kept { max_rows, windows: VecDeque::new(), rows: 0, size: 0, last: 0, cut: 0 }
    }

    /// Adds rows in the order in which they came. Those of one window make one window; rows without windows are put
    /// together with those before them.
    pub fn add(&mut self, rows: &[Row]) {
        for rows in rows.chunk_by(|one, other| one.window == other.window) {
            // Of rows without windows the last are as good as any; of a window the first are, for they are ordered.
            let bounds = rows[0].window;
            let kept = match bounds {
                None => &rows[rows.len() - fitting(rows.iter().rev(), self.max_rows)..],
                Some(_) => &rows[..fitting(rows.iter(), self.max_rows)],
            };
            self.cut += (rows.len() - kept.len()) as u64;
            let rows = kept;
            self.last += 1;
            self.rows += rows.len();
            self.size += rows.iter().map(size).sum::<usize>();
            self.windows.push_back(Window { number: self.last, bounds, rows: rows.to_vec() });
            while self.size > self.max_rows {
                let Some(oldest) = self.windows.pop_front() else { break };
                self.rows -= oldest.rows.len();
                self.size -= oldest.rows.iter().map(size).sum::<usize>();
            }
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many rows of windows were left out because the window alone had more than are kept.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// The number of the last window.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The windows after a number.
    pub fn after(&self, number: u64) -> Vec<Json> {
        let window = |window: &Window| {
            let rows: Vec<Json> = window.rows.iter().map(|row| row.values.iter().map(value).collect()).collect();
            json!({"number": window.number, "window": window.bounds, "rows": rows})
        };
        self.windows.iter().filter(|window| window.number > number).map(window).collect()
    }
}

/// Bytes of text in an ordinary row. A row with more counts as so many.
const TEXT_BYTES: usize = 256;

/// As how many rows one counts.
fn size(row: &Row) -> usize {
    let text = |value: &Value| if let Value::Text(text) = value { text.len() } else { 0 };
    1 + row.values.iter().map(text).sum::<usize>() / TEXT_BYTES
}

/// How many of the first rows fit.
fn fitting<'a>(rows: impl Iterator<Item = &'a Row>, most: usize) -> usize {
    let sums = rows.scan(0, |sum, row| {
        *sum += size(row);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= most).count()
}

/// Integers beyond these are text, because readers in JavaScript would round them.
const EXACT: u64 = 1 << 53;

fn value(value: &Value) -> Json {
    match value {
        Value::Uint(number) if *number > EXACT => number.to_string().into(),
        Value::Int(number) if number.unsigned_abs() > EXACT => number.to_string().into(),
        Value::Histogram(histogram) => {
            let (zeros, powers) = histogram.powers();
            let powers: Vec<_> = powers.into_iter().map(|(power, values)| json!([power, values])).collect();
            json!({"text": histogram.to_string(), "zeros": zeros, "powers": powers, "sum": histogram.sum() as f64})
        }
        other => kiln_live::json(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(window: Option<u64>, value: u64) -> Row {
        Row { window: window.map(|start| [start, start + 1]), values: vec![Value::Uint(value)] }
    }

    #[test]
    fn the_oldest_windows_go_first() {
        let mut kept = Kept::new(3);
        kept.add(&[row(Some(1), 10), row(Some(1), 11), row(Some(2), 12)]);
        assert_eq!((kept.rows(), kept.last(), kept.cut()), (3, 2, 0));
        kept.add(&[row(Some(3), u64::MAX)]);
        let windows = kept.after(0);
        assert_eq!(windows.len(), 2, "the first went as a whole");
        assert_eq!(windows[1], json!({"number": 3, "window": [3, 4], "rows": [["18446744073709551615"]]}));
        assert_eq!(kept.after(2).len(), 1);
    }

    #[test]
    fn long_texts_count_as_several_rows() {
        let mut kept = Kept::new(3);
        let long = |bytes: usize| Row { window: None, values: vec![Value::Text("x".repeat(bytes).into())] };
        kept.add(&[long(10), long(300), long(TEXT_BYTES * 3)]);
        assert_eq!((kept.rows(), kept.cut()), (0, 3), "the last alone is too much");
        kept.add(&[long(10), long(300)]);
        assert_eq!((kept.rows(), kept.cut()), (2, 3));
        kept.add(&[long(10)]);
        assert_eq!(kept.rows(), 1);
    }

    #[test]
    fn one_window_cannot_exceed_the_limit() {
        let mut kept = Kept::new(3);
        kept.add(&(0..10).map(|value| row(Some(1), value)).collect::<Vec<_>>());
        assert_eq!((kept.rows(), kept.cut()), (3, 7));
        assert_eq!(kept.after(0)[0]["rows"], json!([[0], [1], [2]]), "the first of what is ordered");
        kept.add(&(0..10).map(|value| row(None, value)).collect::<Vec<_>>());
        assert_eq!((kept.rows(), kept.cut()), (3, 14));
        assert_eq!(kept.after(1)[0]["rows"], json!([[7], [8], [9]]), "the last of what goes on");
    }
}
