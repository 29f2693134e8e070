//! Recorded events: a recording can be queried any number of times.
//!
//! A recording is what the smallest split of one table hands over: a line of JSON that says which columns are where, and
//! then the records, each after its length in four bytes (little endian). Reading one needs neither privilege nor the
//! kernel that it was made on.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use kiln_linux::RingReader;
use kiln_plan::execute::{Executor, Limits};
use kiln_plan::generate::layout::{Record, SlotKind};
use kiln_plan::{Origin, Query, Settings, Split, Table, generate};
use serde::{Deserialize, Serialize};

use super::live::{Halves, drain, lost};
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
                    && match slot.kind {
                        SlotKind::Number(scalar) => matches!(scalar.bytes, 1 | 2 | 4 | 8),
                        SlotKind::Command | SlotKind::Text => true,
                    }
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

/// A recording that is read from its beginning.
pub struct Recording<R> {
    name: String,
    records: Vec<Record>,
    reader: R,
}

impl Recording<BufReader<File>> {
    /// Opens a recording of a query's table.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a file that is not one.
    pub fn open(session: &Session, path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| Error::file(path, &error))?;
        Recording::new(session, path.display().to_string(), BufReader::new(file))
    }
}

impl<R: BufRead> Recording<R> {
    /// Reads what a recording says of itself. `name` is what errors call it.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where it is not a recording of the query's table.
    pub fn new(session: &Session, name: String, mut reader: R) -> Result<Recording<R>, Error> {
        let invalid = |why: String| Error::InvalidInput(format!("{name}: {why}"));
        let mut line = Vec::new();
        let read = reader.by_ref().take(MAX_HEADER_BYTES).read_until(b'\n', &mut line);
        read.map_err(|error| invalid(error.to_string()))?;
        let header: Header =
            serde_json::from_slice(&line).map_err(|_| invalid("it is no recording of kiln's".to_owned()))?;
        header.check(&session.query().table).map_err(invalid)?;
        Ok(Recording { name, records: header.records, reader })
    }

    /// Where columns are in its records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        next(&mut self.reader).map_err(|why| Error::InvalidInput(format!("{}: {why}", self.name)))
    }
}

/// Runs a query on a recording, all of it in user space.
///
/// # Errors
/// [`Error::InvalidInput`] for a recording that ends within a record, or holds none of Kiln's.
pub fn run<R: BufRead>(
    session: &Session,
    mut recording: Recording<R>,
    limits: Limits,
    sink: &mut Sink<'_>,
) -> Result<Summary, Error> {
    let executor = Executor::replaying(session.query().clone(), recording.records.clone(), limits);
    let mut halves = Halves::new(session, executor, limits);
    let mut summary = Summary { split: Some(Split::Mvsf), ..Summary::default() };
    let mut wanted = true;
    while let (true, Some(record)) = (wanted && !halves.is_done(), recording.next()?) {
        summary.records += 1;
        halves.executor.record(&record);
        halves.executor.advance_to_latest();
        wanted = halves.give(&mut summary, sink);
    }
    halves.finish(&mut summary, sink);
    Ok(summary)
}

/// How many records are handed to the kernel before its answers are looked at.
const BATCH: u64 = 64;

/// Runs a query on a recording with its kernel half in the kernel, which is handed one record after the other as the
/// context of a program (`BPF_PROG_TEST_RUN`). All splits must give the answer that [`run`] gives.
///
/// # Errors
/// As [`run`]; [`Error::Unsupported`] where the kernel does not take the programs.
pub fn run_in_kernel<R: BufRead>(
    session: &Session,
    mut recording: Recording<R>,
    split: Split,
    settings: &Settings,
    limits: Limits,
    sink: &mut Sink<'_>,
) -> Result<Summary, Error> {
    crate::require_kernel()?;
    let origin = Origin::Records(&recording.records);
    let unsupported = |error: &dyn std::fmt::Display| Error::Unsupported(error.to_string());
    let generated = generate(session.query(), split, origin, settings).map_err(|failure| unsupported(&failure))?;
    let images = kiln_linux::load_images(&generated.object).map_err(|failure| unsupported(&failure))?;
    let map = |id| images.maps.get(id).ok_or_else(|| unsupported(&"a map was not made"));
    let mut ring = generated.ring.as_ref().map(|id| Ok::<_, Error>(RingReader::new(map(id)?)?)).transpose()?;
    let executor = Executor::new(session.query().clone(), &generated, limits);
    let mut halves = Halves::new(session, executor, limits);
    let mut summary = Summary { split: Some(split), ..Summary::default() };
    let mut wanted = true;
    while wanted && !halves.is_done() {
        let mut is_over = false;
        for _ in 0..BATCH {
            let Some(record) = recording.next()? else {
                is_over = true;
                break;
            };
            let tag = recording.records.iter().find_map(|layout| layout.tag).and(record.first_chunk::<4>());
            let program = tag.map_or(0, |tag| u32::from_le_bytes(*tag) as usize);
            let layout = recording.records.get(program).filter(|layout| usize::from(layout.bytes) <= record.len());
            match (images.progs.get(program), layout) {
                (Some(program), Some(_)) => drop(program.test_run_arguments(&record)?),
                _ => summary.lost.malformed += 1,
            }
            summary.events += 1;
        }
        if let Some(ring) = &mut ring {
            summary.records += ring.read(|record| halves.executor.record(record))? as u64;
        }
        halves.executor.advance_to_latest();
        wanted = halves.give(&mut summary, sink);
        if is_over {
            break;
        }
    }
    if let Some(groups) = &generated.groups {
        drain(&mut halves.executor, groups, map(&groups.map)?, |_| true)?;
    }
    halves.finish(&mut summary, sink);
    summary.lost_in_kernel = lost(map(&generated.counters)?)?;
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
