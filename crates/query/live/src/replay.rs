//! Recorded events: a recording can be queried any number of times.
//!
//! A recording is what the smallest split of each table hands over: a line of JSON that says which columns are where, and
//! then the records, each after its length in three bytes and the number of its table in one (little endian). Reading one needs neither privilege nor the
//! kernel that it was made on.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use kiln_linux::{LoadedImages, MapHandle, RingReader};
use kiln_plan::execute::{Executor, Limits};
use kiln_plan::generate::layout::{Record, SlotKind};
use kiln_plan::{Generated, Origin, Query, Settings, Split, Table, generate};
use kiln_program::MapId;
use serde::{Deserialize, Serialize};

use crate::live::{Halves, drain, lost};
use crate::session::{Session, Sink, Summary};
use kiln_program::Error;

/// The first line of a recording.
const MAGIC: &str = "kiln-events-1";
/// Bytes of the line that describes a recording at most, and of a record.
const MAX_HEADER_BYTES: u64 = 1 << 20;
const MAX_RECORD_BYTES: u32 = 512;
/// A record's table is in the bits of its length from this one on.
const TABLE_SHIFT: u32 = 24;

/// What a recording says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    format: String,
    table: String,
    columns: Vec<String>,
    records: Vec<Record>,
    /// Nanoseconds from the Unix epoch to the beginning of the clock of its times, in the first header; `None` in recordings of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot_ns: Option<u64>,
    /// The other tables, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Header>,
}

impl Header {
    fn new(table: &Table, records: &[Record]) -> Header {
        Header {
            format: MAGIC.to_owned(),
            table: table.name.clone(),
            columns: table.columns.iter().map(|column| column.name.clone()).collect(),
            records: records.to_vec(),
            boot_ns: None,
            others: Vec::new(),
        }
    }

    fn is_of(&self, table: &Table) -> bool {
        self.table.eq_ignore_ascii_case(&table.name)
    }

    /// Whether records of this form can be read as rows of a table.
    fn check(&self, table: &Table) -> Result<(), String> {
        if self.format != MAGIC {
            return Err("it is no recording of kiln's".to_owned());
        }
        if !self.is_of(table) {
            return Err(format!("it is of table `{}`, and the query of `{}`", self.table, table.name));
        }
        if *self != (Header { boot_ns: self.boot_ns, ..Header::new(table, &self.records) }) {
            return Err("it was made by another version of kiln, whose table has other columns".to_owned());
        }
        let fits = |record: &Record| {
            let slot = |slot: &kiln_plan::generate::layout::Slot| {
                slot.column.is_none_or(|column| column < self.columns.len())
                    && u32::from(slot.offset) + u32::from(slot.kind.bytes()) <= u32::from(record.bytes)
                    && match slot.kind {
                        SlotKind::Number(scalar) => matches!(scalar.bytes, 1 | 2 | 4 | 8),
                        SlotKind::Command | SlotKind::Text => true,
                        SlotKind::Short(bytes) | SlotKind::Bytes(bytes) => bytes % 8 == 0,
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
    /// The table of each scan, if its records are not those of an earlier scan.
    tables: Vec<Option<u32>>,
}

impl<W: Write> Recorder<W> {
    /// Begins one, of a table's smallest split.
    ///
    /// # Errors
    /// What writing failed with.
    pub fn new(out: W, query: &Query, records: &[Record]) -> std::io::Result<Recorder<W>> {
        Recorder::of_scans(out, &[(query, records)])
    }

    /// Begins one, of the smallest splits of several scans.
    ///
    /// # Errors
    /// What writing failed with.
    pub fn of_scans(out: W, scans: &[(&Query, &[Record])]) -> std::io::Result<Recorder<W>> {
        let mut out = BufWriter::new(out);
        let mut headers: Vec<Header> = Vec::new();
        let mut tables = Vec::new();
        for (query, records) in scans {
            let is_new = !headers.iter().any(|header| header.is_of(&query.table));
            tables.push(is_new.then_some(headers.len() as u32));
            if is_new {
                headers.push(Header::new(&query.table, records));
            }
        }
        let mut headers = headers.into_iter();
        if let Some(first) = headers.next() {
            let boot_ns = Some(crate::clock::boot_ns());
            serde_json::to_writer(&mut out, &Header { boot_ns, others: headers.collect(), ..first })?;
        }
        out.write_all(b"\n")?;
        Ok(Recorder { out, tables })
    }

    /// Adds a record of the first scan.
    ///
    /// # Errors
    /// What writing failed with.
    pub fn add(&mut self, record: &[u8]) -> std::io::Result<()> {
        self.add_of(0, record)
    }

    /// Adds a record of a scan.
    ///
    /// # Errors
    /// What writing failed with.
    pub fn add_of(&mut self, scan: usize, record: &[u8]) -> std::io::Result<()> {
        let Some(table) = self.tables.get(scan).copied().flatten() else { return Ok(()) };
        self.out.write_all(&(record.len() as u32 | table << TABLE_SHIFT).to_le_bytes())?;
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
    /// The layouts of each table's records.
    tables: Vec<Vec<Record>>,
    /// The table of each of the query's scans.
    scans: Vec<usize>,
    boot_ns: Option<u64>,
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
        let boot_ns = header.boot_ns;
        let mut headers = vec![header];
        let others = std::mem::take(&mut headers[0].others);
        headers.extend(others);
        let mut scans = Vec::new();
        for query in session.scans() {
            let own = headers.iter().position(|header| header.is_of(&query.table)).unwrap_or(0);
            headers[own].check(&query.table).map_err(invalid)?;
            scans.push(own);
        }
        let tables = headers.into_iter().map(|header| header.records).collect();
        Ok(Recording { name, tables, scans, boot_ns, reader })
    }

    /// Nanoseconds from the Unix epoch to the beginning of the clock that recorded, if the recording says.
    pub fn boot_ns(&self) -> Option<u64> {
        self.boot_ns
    }

    /// Where columns are in the records of the first scan.
    pub fn records(&self) -> &[Record] {
        self.of_scan(0)
    }

    /// Where columns are in the records of a scan.
    fn of_scan(&self, scan: usize) -> &[Record] {
        &self.tables[self.scans[scan]]
    }

    /// The next record and the number of its table.
    fn next(&mut self) -> Result<Option<(usize, Vec<u8>)>, Error> {
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
    let limits = session.shared(limits);
    let executor = |(scan, query): (usize, &Query)| Executor::replaying(query.clone(), recording.of_scan(scan), limits);
    let executors = session.scans().into_iter().enumerate().map(executor).collect();
    let mut halves = Halves::new(session, executors, limits, &Arc::default())?;
    let mut summary = Summary { split: Some(Split::Mvsf), ..Summary::default() };
    let mut wanted = true;
    while let (true, Some((table, record))) = (wanted && !halves.is_done(), recording.next()?) {
        summary.records += 1;
        for (executor, own) in halves.executors.iter_mut().zip(&recording.scans) {
            if *own == table {
                executor.record(&record);
            }
        }
        wanted = halves.give_to_latest(&mut summary, sink)?;
    }
    halves.finish(&mut summary, sink)?;
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
    kiln_linux::running::require_kernel()?;
    let limits = session.shared(limits);
    let scans = session.scans().into_iter().enumerate();
    let tested: Vec<Tested> = scans
        .map(|(scan, query)| Tested::load(query, recording.of_scan(scan), split, settings))
        .collect::<Result<_, _>>()?;
    let mut rings = tested.iter().map(Tested::ring).collect::<Result<Vec<_>, _>>()?;
    let executors = session.scans().into_iter().zip(&tested);
    let executors = executors.map(|(query, own)| Executor::new(query.clone(), &own.generated, limits)).collect();
    let mut halves = Halves::new(session, executors, limits, &Arc::default())?;
    let mut summary = Summary { split: Some(split), ..Summary::default() };
    let mut wanted = true;
    while wanted && !halves.is_done() {
        let mut is_over = false;
        for _ in 0..BATCH {
            let Some((table, record)) = recording.next()? else {
                is_over = true;
                break;
            };
            for (own, _) in tested.iter().zip(&recording.scans).filter(|(_, own)| **own == table) {
                summary.lost.malformed += u64::from(!own.run(&recording.tables[table], &record)?);
            }
            summary.events += 1;
        }
        for (ring, executor) in rings.iter_mut().zip(&mut halves.executors) {
            if let Some(ring) = ring {
                summary.records += ring.read(|record| executor.record(record))? as u64;
            }
        }
        wanted = halves.give_to_latest(&mut summary, sink)?;
        if is_over {
            break;
        }
    }
    for (own, executor) in tested.iter().zip(&mut halves.executors) {
        if let Some(groups) = &own.generated.groups {
            drain(executor, groups, own.map(&groups.map)?, |_| true)?;
        }
    }
    halves.finish(&mut summary, sink)?;
    for own in &tested {
        let lost = lost(own.map(&own.generated.counters)?)?;
        summary.lost_in_kernel.iter_mut().zip(lost).for_each(|(sum, own)| *sum += own);
    }
    Ok(summary)
}

/// The kernel's half of a scan, which is handed recorded events.
struct Tested {
    generated: Generated,
    images: LoadedImages,
}

impl Tested {
    /// Loads the largest split of a scan that is not larger than `split`.
    fn load(query: &Query, records: &[Record], split: Split, settings: &Settings) -> Result<Tested, Error> {
        let unsupported = |error: &dyn std::fmt::Display| Error::Unsupported(error.to_string());
        let split = Split::of(query).into_iter().rfind(|own| *own <= split).unwrap_or(split);
        let generated = generate(query, split, Origin::Records(records), settings);
        let generated = generated.map_err(|failure| unsupported(&failure))?;
        let images = kiln_linux::load_images(&generated.object).map_err(|failure| unsupported(&failure))?;
        Ok(Tested { generated, images })
    }

    fn map(&self, id: &MapId) -> Result<&MapHandle, Error> {
        self.images.maps.get(id).ok_or_else(|| Error::Unsupported("a map was not made".to_owned()))
    }

    fn ring(&self) -> Result<Option<RingReader>, Error> {
        self.generated.ring.as_ref().map(|id| Ok(RingReader::new(self.map(id)?)?)).transpose()
    }

    /// Runs the program of a record's hook on it; returns false if the record has another form.
    fn run(&self, layouts: &[Record], record: &[u8]) -> Result<bool, Error> {
        let tag = layouts.iter().find_map(|layout| layout.tag).and(record.first_chunk::<4>());
        let program = tag.map_or(0, |tag| u32::from_le_bytes(*tag) as usize);
        let layout = layouts.get(program).filter(|layout| usize::from(layout.bytes) <= record.len());
        match (self.images.progs.get(program), layout) {
            (Some(program), Some(_)) => {
                program.test_run_context(record)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// The next record; `None` at the end.
fn next(reader: &mut impl BufRead) -> Result<Option<(usize, Vec<u8>)>, String> {
    if reader.fill_buf().map_err(|error| error.to_string())?.is_empty() {
        return Ok(None);
    }
    let mut length = [0; 4];
    let cut = |_| "it ends within a record".to_owned();
    reader.read_exact(&mut length).map_err(cut)?;
    let length = u32::from_le_bytes(length);
    let (table, length) = ((length >> TABLE_SHIFT) as usize, length & ((1 << TABLE_SHIFT) - 1));
    if length > MAX_RECORD_BYTES {
        return Err(format!("a record of {length} bytes is longer than any of kiln's"));
    }
    let mut record = vec![0; length as usize];
    reader.read_exact(&mut record).map_err(cut)?;
    Ok(Some((table, record)))
}
