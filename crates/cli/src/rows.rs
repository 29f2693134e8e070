//! Rows of queries on standard output, and what a query cost and lost on standard error.

use std::io::IsTerminal as _;

use comfy_table::{CellAlignment, Table, presets};
use kiln_driver::query::budget::on_each;
use kiln_driver::query::export::Exported;
use kiln_driver::query::plan::Step;
use kiln_driver::query::rows_file::RowsFile;
use kiln_driver::query::{self, COUNTERS, ColumnHead, Row, Summary};
use kiln_driver::{Error, Shown};
use serde_json::json;

use crate::arguments::Format;
use crate::{output, print, say};

/// Prints rows as they come.
pub struct Printer {
    format: Format,
    columns: Vec<ColumnHead>,
    windowed: bool,
    /// Whether a person reads CSV, and not a program.
    on_terminal: bool,
    begun: bool,
    kept: Vec<serde_json::Value>,
    waiting: Vec<Row>,
    file: Option<Box<dyn RowsFile>>,
    failed: Option<Error>,
}

/// A name that an object does not have: of the second column of a name with `_2` behind it.
fn unused(name: &str, object: &serde_json::Map<String, serde_json::Value>) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !object.contains_key(name)).unwrap_or_default()
}

impl Printer {
    /// Prints rows of these columns.
    pub fn new(columns: Vec<ColumnHead>, windowed: bool, format: Format) -> Printer {
        Printer {
            format,
            columns,
            windowed,
            on_terminal: std::io::stdout().is_terminal(),
            begun: false,
            kept: Vec::new(),
            waiting: Vec::new(),
            file: None,
            failed: None,
        }
    }

    /// Writes rows into a file instead.
    pub fn into_file(mut self, file: Box<dyn RowsFile>) -> Printer {
        self.file = Some(file);
        self
    }

    fn names(&self) -> Vec<Shown> {
        let window = ["window_start", "window_end"].into_iter().filter(|_| self.windowed).map(Shown::from);
        window.chain(self.columns.iter().map(|column| column.name.clone())).collect()
    }

    fn object(&self, row: &Row) -> serde_json::Value {
        let window = row.window.iter().flatten().map(|time| json!(time));
        let values = window.chain(row.values.iter().map(query::json));
        let mut object = serde_json::Map::new();
        for (name, value) in self.names().iter().zip(values) {
            object.insert(unused(name.exact(), &object), value);
        }
        serde_json::Value::Object(object)
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let values = row.values.iter().zip(&self.columns);
        values.map(|(value, column)| query::text(value, column.data_type).to_string()).collect()
    }

    /// A value for programs: a fraction with all its digits, a text as it is. A terminal would obey a text.
    fn csv_cell(&self, value: &query::Value, data_type: &str) -> String {
        match value {
            query::Value::Float(value) => value.to_string(),
            query::Value::Text(text) if !self.on_terminal => text.to_string(),
            _ => query::text(value, data_type).to_string(),
        }
    }

    /// Prints rows; whether more are wanted.
    pub fn rows(&mut self, rows: Vec<Row>) -> bool {
        if let Some(file) = &mut self.file {
            self.failed = file.rows(rows).err();
            return self.failed.is_none();
        }
        match self.format {
            Format::Json => self.kept.extend(rows.iter().map(|row| self.object(row)).collect::<Vec<_>>()),
            Format::Ndjson => rows.iter().for_each(|row| print::json_line(&self.object(row))),
            Format::Csv => self.csv(&rows),
            Format::Table if self.windowed => self.tables(rows),
            // Columns are as wide as what is in them, so all rows come first.
            Format::Table if !self.columns.is_empty() => self.waiting.extend(rows),
            _ => self.lines(&rows),
        }
        true
    }

    fn csv(&mut self, rows: &[Row]) {
        let quoted = |text: &String| match text.contains(['"', ',', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.clone(),
        };
        if !std::mem::replace(&mut self.begun, true) {
            let name = |name: &Shown| if self.on_terminal { name.to_string() } else { name.exact().to_owned() };
            self.csv_line(self.names().iter().map(|own| quoted(&name(own))).collect());
        }
        for row in rows {
            let window = row.window.iter().flatten().map(u64::to_string);
            let values = row.values.iter().zip(&self.columns);
            let values = values.map(|(value, column)| self.csv_cell(value, column.data_type));
            self.csv_line(window.chain(values).map(|cell| quoted(&cell)).collect());
        }
    }

    fn csv_line(&self, cells: Vec<String>) {
        let line = cells.join(",") + "\n";
        if self.on_terminal { output::write(&line) } else { output::exact(&line) }
    }

    fn lines(&mut self, rows: &[Row]) {
        if !std::mem::replace(&mut self.begun, true) {
            say!("{}", joined(&self.names(), "\t"));
        }
        for row in rows {
            let window = row.window.iter().flatten().map(|time| format!("{:.3}", *time as f64 / 1e9));
            say!("{}", window.chain(self.cells(row)).collect::<Vec<_>>().join("\t"));
        }
    }

    /// A table for each window.
    fn tables(&mut self, rows: Vec<Row>) {
        for rows in rows.chunk_by(|one, other| one.window == other.window) {
            if let Some([start, end]) = rows[0].window {
                say!("from {:.3} s to {:.3} s since boot", start as f64 / 1e9, end as f64 / 1e9);
            }
            self.table(rows);
        }
    }

    fn table(&self, rows: &[Row]) {
        let mut table = print::fitted();
        table.set_header(self.columns.iter().map(|column| &column.name));
        for row in rows {
            table.add_row(self.cells(row));
        }
        for (column, head) in table.column_iter_mut().zip(&self.columns) {
            if head.data_type != "text" {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        say!("{table}");
    }

    /// Prints what waited for the last row, the plan if it is given, and what the query cost.
    pub fn finish(mut self, summary: &Summary, steps: Option<&[Step]>) -> Result<u8, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if let Some(file) = self.file.take() {
            file.finish(summary.elapsed_ns)?;
        }
        match self.format {
            Format::Json => {
                let document = json!({
                    "columns": self.columns,
                    "rows": std::mem::take(&mut self.kept),
                    "summary": summary,
                    "lost": summary.lost_in_all(),
                    "plan": steps,
                });
                print::json(&document)?;
                return Ok(0);
            }
            Format::Csv | Format::Lines if !self.begun => {
                let nothing: &[Row] = &[];
                if self.format == Format::Csv { self.csv(nothing) } else { self.lines(nothing) }
            }
            Format::Table if !self.windowed => self.table(&self.waiting),
            _ => {}
        }
        if let Some(steps) = steps {
            told_steps(steps, Some(summary));
        }
        told_end(summary);
        Ok(0)
    }
}

/// What a query cost and lost.
pub fn told_end(summary: &Summary) {
    anstream::eprintln!("{}", told(summary));
    let counts = summary.lost_in_kernel.iter().zip(COUNTERS).filter(|(count, _)| **count > 0);
    counts.for_each(|(count, what)| anstream::eprintln!("lost: {count} {what}"));
    let lost = summary.lost;
    let own = [
        (summary.missed, "events at which the kernel ran no program, because one ran on that processor already"),
        (lost.starts, "beginnings that found no room in user space"),
        (lost.groups, "rows that found no room for a group in user space"),
        (lost.values, "values that found no room in an aggregate in user space"),
        (lost.rows, "rows that found no room to be ordered"),
        (lost.late, "rows of windows that had ended"),
        (lost.malformed, "records that were too short"),
        (lost.evicted, "rows that a join no longer kept, so that they may lack matches"),
        (lost.pairs, "pairs of rows that a join did not look at, because too many rows have the same key"),
    ];
    own.iter().filter(|(count, _)| *count > 0).for_each(|(count, what)| anstream::eprintln!("lost: {count} {what}"));
    summary.refused.iter().for_each(|groups| anstream::eprintln!("lost: {groups}"));
    if lost.unmatched > 0 {
        anstream::eprintln!("{} rows had no match in a lookup table; LEFT JOIN shows them", lost.unmatched);
    }
}

/// Names as a reader sees them, on one line.
pub fn joined(names: &[Shown], between: &str) -> String {
    names.iter().map(Shown::to_string).collect::<Vec<_>>().join(between)
}

/// The splits that were tried, with estimates; beside them what was measured, if the query ran.
pub fn told_steps(steps: &[Step], ran: Option<&Summary>) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let measured = if ran.is_some() { &["runs", "measured ns"][..] } else { &[] };
    let head = ["split", "program", "slots", "processed", "us", "program ns", "rare", "ns a row"];
    table.set_header(head.iter().chain(measured).chain(&[""]));
    for step in steps {
        let micros = step.micros.to_string();
        let runs = ran.filter(|summary| summary.split == Some(step.split)).map_or(&[][..], |summary| &summary.programs);
        if let Some(refused) = &step.refused {
            table.add_row([step.split.name(), "", "", "", &micros, &format!("not taken: {refused}")]);
        }
        let in_all = step.expected_ns.map(|ns| format!("{ns:.0}")).unwrap_or_default();
        for (at, program) in step.programs.iter().enumerate() {
            let first = |text: &str| if at == 0 { text.to_owned() } else { String::new() };
            let [slots, processed] = [program.slots.to_string(), program.processed.to_string()];
            let run = runs.iter().find(|run| run.section == program.section);
            let time = program.estimate.map(|estimate| match (run, ran) {
                (Some(run), Some(summary)) => {
                    estimate.program_at(on_each(run.events as f64 * 1e9 / summary.elapsed_ns.max(1) as f64))
                }
                _ => estimate.program_ns,
            });
            let estimate = time.map(|time| format!("{:.0} to {:.0}", time.least, time.most)).unwrap_or_default();
            let rare = program.estimate.map(|estimate| format!("{:.0}", estimate.program_at(0.0).most));
            let section = program.section.to_string();
            let mut row = vec![first(step.split.name()), section, slots, processed, first(&micros), estimate];
            row.extend([rare.unwrap_or_default(), first(&in_all)]);
            if let Some(run) = run {
                row.extend([run.events.to_string(), format!("{:.0}", run.ns as f64 / run.events.max(1) as f64)]);
            }
            table.add_row(row);
        }
    }
    say!("{table}");
}

/// What became of the rows that were sent.
pub fn told_exported(exported: &Exported) {
    let Exported { delivered, lost, dropped_series, reason } = exported;
    if *delivered > 0 || *lost > 0 {
        anstream::eprintln!("{delivered} rows delivered");
    }
    if *lost > 0 {
        let reason = reason.clone().unwrap_or_else(|| "the receiver was too slow".into());
        anstream::eprintln!("lost: {lost} rows that were not delivered: {reason}");
    }
    if *dropped_series > 0 {
        anstream::eprintln!("lost: {dropped_series} rows of groups beyond the limit of series (--max-series)");
    }
}

/// One line below a result.
pub fn told(summary: &Summary) -> String {
    let mut text = format!("{} rows", summary.rows);
    if summary.elapsed_ns > 0 {
        text += &format!(" in {:.1} s", summary.elapsed_ns as f64 / 1e9);
    }
    if let Some(split) = summary.split {
        text += &format!("; split {}", split.name());
    }
    if summary.sample > 1 {
        text += &format!(
            "; a sample of one event in {0}: counts, sums and histograms are multiplied by {0}",
            summary.sample
        );
    }
    if let (Some(program_ns), true) = (summary.program_ns, summary.events > 0) {
        let part = 100.0 * program_ns as f64 / summary.elapsed_ns.max(1) as f64;
        let each = program_ns as f64 / summary.events as f64;
        text += &format!("; programs ran {} times, {each:.0} ns each, {part:.2} % of one CPU", summary.events);
    }
    if summary.records > 0 {
        text += &format!("; {} records", summary.records);
    }
    match summary.lost_in_all() {
        0 => text + "; nothing lost",
        lost => text + &format!("; {lost} lost"),
    }
}
