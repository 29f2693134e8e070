//! Events that were recorded once, and asked about as often as one likes.
//!
//! A recording is what the smallest split of one table hands over: a line of JSON that says which columns are where, and
//! then the records, each after its length in four bytes (little endian). Reading one needs neither privilege nor the
//! kernel that it was made on.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use kiln_plan::execute::{Executor, Limits};
use kiln_plan::generate::layout::{Record, SlotKind};
use kiln_plan::{Query, Split, Table};
use serde::{Deserialize, Serialize};

use super::{Session, Sink, Summary};
use crate::error::Error;

/// The first line of a recording.
const MAGIC: &str = "kiln-events-1";
/// Bytes of the line that describes a recording at most, and of a record.
const MAX_HEADER_BYTES: u64 = 1 << 20;
const MAX_RECORD_BYTES: u32 = 512;

/// What a recording says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    format: String,
    table: String,
    columns: Vec<String>,
    records: Vec<Record>,
}

impl Header {
    fn new(table: &Table, records: &[Record]) -> Header {
        Header {
            format: MAGIC.to_owned(),
            table: table.name.clone(),
            columns: table.columns.iter().map(|column| column.name.clone()).collect(),
            records: records.to_vec(),
        }
    }

    /// Whether records of this form can be read as rows of a table.
    fn check(&self, table: &Table) -> Result<(), String> {
        if self.format != MAGIC {
            return Err("it is no recording of kiln's".to_owned());
        }
        if !self.table.eq_ignore_ascii_case(&table.name) {
            return Err(format!("it is of table `{}`, and the query of `{}`", self.table, table.name));
        }
        if *self != Header::new(table, &self.records) {
            return Err("it was made by another version of kiln, whose table has other columns".to_owned());
        }
        let fits = |record: &Record| {
            let slot = |slot: &kiln_plan::generate::layout::Slot| {
                slot.column.is_none_or(|column| column < self.columns.len())
                    && u32::from(slot.offset) + u32::from(slot.kind.bytes()) <= u32::from(record.bytes)
                    && (slot.kind == SlotKind::Command || matches!(slot.kind.bytes(), 1 | 2 | 4 | 8))
            };
            u32::from(record.bytes) <= MAX_RECORD_BYTES && record.slots.iter().all(slot)
        };
        if self.records.is_empty() || !self.records.iter().all(fits) {
            return Err("its records are not what it says".to_owned());
        }
        Ok(())
    }
}

/// Writes a recording.
pub struct Recorder<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> Recorder<W> {
    /// Begins one, of a table's smallest split.
    ///
    /// # Errors
    /// What writing failed with.
    pub fn new(out: W, query: &Query, records: &[Record]) -> std::io::Result<Recorder<W>> {
        let mut out = BufWriter::new(out);
        serde_json::to_writer(&mut out, &Header::new(&query.table, records))?;
        out.write_all(b"\n")?;
        Ok(Recorder { out })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// What writing failed with.
    pub fn add(&mut self, record: &[u8]) -> std::io::Result<()> {
        self.out.write_all(&(record.len() as u32).to_le_bytes())?;
        self.out.write_all(record)
    }

    /// Ends it.
    ///
    /// # Errors
    /// What writing failed with.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Runs a query on a recording.
///
/// # Errors
/// [`Error::InvalidInput`] for a file that is no recording of the query's table.
pub fn run(session: &Session, path: &Path, limits: Limits, sink: &mut Sink<'_>) -> Result<Summary, Error> {
    let invalid = |why: String| Error::InvalidInput(format!("{}: {why}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| Error::file(path, &error))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let read = reader.by_ref().take(MAX_HEADER_BYTES).read_until(b'\n', &mut line);
    read.map_err(|error| Error::file(path, &error))?;
    let header: Header =
        serde_json::from_slice(&line).map_err(|_| invalid("it is no recording of kiln's".to_owned()))?;
    header.check(&session.query().table).map_err(invalid)?;
    let mut executor = Executor::replaying(session.query().clone(), header.records, limits);
    let mut summary = Summary { split: Some(Split::Mvsf), ..Summary::default() };
    let mut wanted = true;
    while let (true, Some(record)) = (wanted && !executor.is_done(), next(&mut reader).map_err(invalid)?) {
        summary.records += 1;
        executor.record(&record);
        executor.advance_to_latest();
        let rows = executor.take_rows();
        summary.rows += rows.len() as u64;
        wanted = rows.is_empty() || sink(rows);
    }
    executor.finish();
    let rows = executor.take_rows();
    summary.rows += rows.len() as u64;
    if !rows.is_empty() {
        sink(rows);
    }
    summary.lost = executor.lost();
    Ok(summary)
}

/// The next record; `None` at the end.
fn next(reader: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    if reader.fill_buf().map_err(|error| error.to_string())?.is_empty() {
        return Ok(None);
    }
    let mut length = [0; 4];
    let cut = |_| "it ends within a record".to_owned();
    reader.read_exact(&mut length).map_err(cut)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_RECORD_BYTES {
        return Err(format!("a record of {length} bytes is longer than any of kiln's"));
    }
    let mut record = vec![0; length as usize];
    reader.read_exact(&mut record).map_err(cut)?;
    Ok(Some(record))
}
