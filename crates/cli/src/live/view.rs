//! What the live table shows, and what keys do to it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use kiln_driver::query::{self, ColumnHead, Row, Summary, Value};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Windows that the heat map can show.
const WINDOWS: usize = 240;
/// Rows of all windows that are stored, and rows without windows.
const ROWS: usize = 50_000;
/// Rows without windows that are printed when the table is left.
const LAST_ROWS: usize = 50;

/// What is drawn in the middle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The rows.
    Table,
    /// The histogram column of the rows shown, added up.
    Histogram,
    /// Histograms over the windows.
    Heat,
}

/// Rows of one window.
pub struct Window {
    /// Its bounds; none where the query has no windows.
    pub bounds: Option<[u64; 2]>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// The live table.
pub struct View {
    /// The query.
    pub sql: String,
    /// The columns.
    pub columns: Vec<ColumnHead>,
    windowed: bool,
    windows: VecDeque<Window>,
    stored: usize,
    /// What came while it was paused.
    waiting: Vec<Row>,
    /// How the query goes.
    pub summary: Summary,
    /// What is drawn.
    pub mode: Mode,
    /// The column that keys are for.
    pub column: usize,
    /// The column that rows are ordered by, and whether the greatest is first.
    pub sort: Option<(usize, bool)>,
    /// Rows have this text in one of their cells.
    pub filter: String,
    /// Whether letters go into the filter.
    pub is_typing: bool,
    /// Whether the picture stands still.
    pub is_paused: bool,
    /// The first row that is drawn.
    pub scroll: usize,
}

impl View {
    /// An empty one.
    pub fn new(sql: &str, columns: Vec<ColumnHead>, windowed: bool) -> View {
        View {
            sql: kiln_driver::Shown::from(sql).to_string(),
            columns,
            windowed,
            windows: VecDeque::new(),
            stored: 0,
            waiting: Vec::new(),
            summary: Summary::default(),
            mode: Mode::Table,
            column: 0,
            sort: None,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            scroll: 0,
        }
    }

    /// Takes rows.
    pub fn rows(&mut self, mut rows: Vec<Row>) {
        if self.is_paused {
            self.waiting.append(&mut rows);
            let excess = self.waiting.len().saturating_sub(ROWS);
            self.waiting.drain(..excess);
            return;
        }
        for row in rows {
            match self.windows.back_mut() {
                Some(last) if last.bounds == row.window => last.rows.push(row),
                _ => self.windows.push_back(Window { bounds: row.window, rows: vec![row] }),
            }
            self.stored += 1;
        }
        while self.windows.len() > 1 && (self.windows.len() > WINDOWS || self.stored > ROWS) {
            self.stored -= self.windows.pop_front().map_or(0, |window| window.rows.len());
        }
        if let Some(last) = self.windows.back_mut().filter(|last| last.bounds.is_none() && last.rows.len() > ROWS) {
            self.stored -= last.rows.drain(..last.rows.len() - ROWS).count();
        }
    }

    /// Takes how the query goes.
    pub fn status(&mut self, summary: &Summary) {
        self.summary = summary.clone();
    }

    /// Takes a key. Returns whether the user wants to end.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => return true,
            KeyCode::Enter | KeyCode::Esc if self.is_typing => {
                self.is_typing = false;
                if key.code == KeyCode::Esc {
                    self.filter.clear();
                }
            }
            KeyCode::Backspace if self.is_typing => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.is_typing => self.filter.push(letter),
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('t') => self.mode = Mode::Table,
            KeyCode::Char('h') => self.mode = Mode::Histogram,
            KeyCode::Char('m') => self.mode = Mode::Heat,
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('s') | KeyCode::Enter => {
                self.sort = match self.sort {
                    Some((column, true)) if column == self.column => Some((column, false)),
                    Some((column, false)) if column == self.column => None,
                    _ => Some((self.column, true)),
                };
            }
            KeyCode::Left => self.column = self.column.saturating_sub(1),
            KeyCode::Right => self.column = (self.column + 1).min(self.columns.len().saturating_sub(1)),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll += 1,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(20),
            KeyCode::PageDown => self.scroll += 20,
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        false
    }

    fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        let waiting = std::mem::take(&mut self.waiting);
        if !self.is_paused {
            self.rows(waiting);
        }
    }

    /// The last window.
    pub fn last(&self) -> Option<&Window> {
        self.windows.back()
    }

    /// A row as cells.
    pub fn cells(&self, row: &Row) -> Vec<String> {
        let cells = row.values.iter().zip(&self.columns);
        cells.map(|(value, column)| query::text(value, column.data_type).to_string()).collect()
    }

    /// The rows shown: those of the last window that the filter leaves, in order. There may be 50,000 and a screen shows
    /// few of them, so only a filter makes cells of all.
    pub fn shown(&self) -> Vec<&Row> {
        let rows = self.last().map_or(&[][..], |window| &window.rows);
        let wanted = self.filter.to_lowercase();
        let has = |row: &&Row| self.cells(row).iter().any(|cell| cell.to_lowercase().contains(&wanted));
        let mut shown: Vec<_> = rows.iter().filter(|row| wanted.is_empty() || has(row)).collect();
        match self.sort {
            Some((column, descending)) => shown.sort_by(|one, other| {
                let ordering = order(&one.values[column], &other.values[column]);
                if descending { ordering.reverse() } else { ordering }
            }),
            // The last row is of most interest where rows go on and on.
            None if !self.windowed => shown.reverse(),
            None => {}
        }
        shown
    }

    /// How many values of the histogram column are zero or below each power of two, over some rows.
    fn powers<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> BTreeMap<u32, u64> {
        let mut sum = BTreeMap::new();
        let Some(column) = self.columns.iter().position(|column| column.data_type == "histogram") else { return sum };
        for row in rows {
            let Value::Histogram(histogram) = &row.values[column] else { continue };
            let (zeros, powers) = histogram.powers();
            let zeros = (zeros > 0).then_some((0, zeros));
            zeros.into_iter().chain(powers).for_each(|(power, values)| *sum.entry(power).or_default() += values);
        }
        sum
    }

    /// The histogram of the rows shown.
    pub fn histogram(&self) -> BTreeMap<u32, u64> {
        self.powers(self.shown().into_iter())
    }

    /// A histogram for each of the last `most` windows.
    pub fn heat(&self, most: usize) -> Vec<BTreeMap<u32, u64>> {
        let from = self.windows.len().saturating_sub(most);
        self.windows.iter().skip(from).map(|window| self.powers(window.rows.iter())).collect()
    }

    /// What is printed when the table is left: the last window, or the last rows.
    pub fn last_rows(&mut self) -> Vec<Row> {
        let waiting = std::mem::take(&mut self.waiting);
        self.is_paused = false;
        self.rows(waiting);
        let mut rows = self.windows.pop_back().map_or_else(Vec::new, |window| window.rows);
        if !self.windowed {
            rows.drain(..rows.len().saturating_sub(LAST_ROWS));
        }
        rows
    }
}

/// Histograms are ordered by how many values they have, all else as the query orders it.
fn order(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Histogram(one), Value::Histogram(other)) => one.count().cmp(&other.count()),
        _ => one.cmp(other),
    }
}
