//! Rows as an Arrow IPC stream: a column each, every one of which may be null.
//!
//! ```text
//!   message: -1 | bytes | FlatBuffer: a schema, or where things are in the body | body
//!   stream:  schema   batch   batch   ...   -1 | 0
//!   body:    of each column: bits that say which values are there, if any is not | ends of texts | values
//! ```
//!
//! | type | in the stream |
//! |---|---|
//! | `bool` | `Bool` |
//! | `i64` | `Int64` |
//! | `u64`, `timestamp`, the bounds of windows | `UInt64` |
//! | `f64` | `Float64` |
//! | `text` | `Utf8` |
//! | `histogram` | `Utf8`, marked as JSON (`arrow.json`), as in Parquet files |

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use flatbuffers::{FlatBufferBuilder, Push, TableFinishedWIPOffset, UnionWIPOffset, VOffsetT, WIPOffset};
use kiln_plan::{Row, Value};
use kiln_program::Error;

use super::{RowsFile, heads, text};
use crate::session::ColumnHead;

/// Rows of a batch, and bytes of one column with which it ends early: ends of texts have 31 bits.
const BATCH_ROWS: usize = 1 << 16;
const BATCH_COLUMN_BYTES: usize = 64 << 20;
/// What begins each message.
const CONTINUED: [u8; 4] = [0xff; 4];
/// Parts of a message begin at multiples of these bytes.
const ALIGNMENT: usize = 8;

/// `MetadataVersion.V5`.
const VERSION: i16 = 4;
/// `MessageHeader`.
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;

/// How values of a column are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Bool,
    Integer { signed: bool },
    Float,
    Text { is_json: bool },
}

impl Kind {
    fn of(data_type: &str) -> Kind {
        match data_type {
            "bool" => Kind::Bool,
            "i64" => Kind::Integer { signed: true },
            "u64" | "timestamp" => Kind::Integer { signed: false },
            "f64" => Kind::Float,
            _ => Kind::Text { is_json: data_type == "histogram" },
        }
    }

    /// Its number in the union `Type`.
    const fn number(self) -> u8 {
        match self {
            Kind::Integer { .. } => 2,
            Kind::Float => 3,
            Kind::Text { .. } => 5,
            Kind::Bool => 6,
        }
    }
}

/// A column of the batch that is being made.
struct Column {
    kind: Kind,
    rows: usize,
    nulls: usize,
    valid: Vec<u8>,
    ends: Vec<u8>,
    values: Vec<u8>,
}

/// Sets the last of `bits + 1` bits.
fn push_bit(bytes: &mut Vec<u8>, bits: usize, is_set: bool) {
    bytes.resize(bits / 8 + 1, 0);
    bytes[bits / 8] |= u8::from(is_set) << (bits % 8);
}

impl Column {
    fn new(kind: Kind) -> Column {
        Column { kind, rows: 0, nulls: 0, valid: Vec::new(), ends: Vec::new(), values: Vec::new() }
    }

    fn push(&mut self, value: &Value) {
        let is_there = match self.kind {
            Kind::Bool => {
                let bit = if let Value::Bool(bit) = value { Some(*bit) } else { None };
                push_bit(&mut self.values, self.rows, bit == Some(true));
                bit.is_some()
            }
            Kind::Integer { .. } => self.push_word(value.bits()),
            Kind::Float => self.push_word(value.as_float().map(f64::to_bits)),
            Kind::Text { .. } => {
                let text = text(value);
                if self.rows == 0 {
                    self.ends.extend(0i32.to_le_bytes());
                }
                self.values.extend(text.as_deref().unwrap_or_default().as_bytes());
                // A batch is closed long before a text ends beyond 31 bits.
                self.ends.extend((self.values.len() as i32).to_le_bytes());
                text.is_some()
            }
        };
        push_bit(&mut self.valid, self.rows, is_there);
        self.nulls += usize::from(!is_there);
        self.rows += 1;
    }

    fn push_word(&mut self, word: Option<u64>) -> bool {
        self.values.extend(word.unwrap_or_default().to_le_bytes());
        word.is_some()
    }

    /// What the body has of it, in order. Without nulls, nobody needs to know which values are there.
    fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        let valid = if self.nulls == 0 { &[][..] } else { &self.valid };
        let ends = matches!(self.kind, Kind::Text { .. }).then_some(&self.ends[..]);
        [Some(valid), ends, Some(&self.values)].into_iter().flatten()
    }

    fn clear(&mut self) {
        (self.rows, self.nulls) = (0, 0);
        [&mut self.valid, &mut self.ends, &mut self.values].into_iter().for_each(Vec::clear);
    }
}

/// Writes rows as a stream.
struct ArrowWriter<W: Write> {
    /// `None` once a reader has closed it.
    out: Option<W>,
    /// What it is, for errors.
    called: String,
    columns: Vec<Column>,
    windowed: bool,
    /// Whether rows are written as they come, or in whole batches.
    at_once: bool,
}

/// Begins a stream: in a file, which is replaced if it is there, or on standard output without a path or with `-`.
///
/// # Errors
/// Returns what creating or writing it returns.
pub fn create(path: Option<&Path>, columns: &[ColumnHead], windowed: bool) -> Result<Box<dyn RowsFile>, Error> {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        return Ok(Box::new(ArrowWriter::new(std::io::stdout(), "standard output", columns, windowed, true)?));
    };
    let file = File::create(path).map_err(|error| Error::file(path, &error))?;
    Ok(Box::new(ArrowWriter::new(file, &path.display().to_string(), columns, windowed, false)?))
}

impl<W: Write> RowsFile for ArrowWriter<W> {
    fn rows(&mut self, rows: Vec<Row>) -> Result<(), Error> {
        for row in &rows {
            self.add(row);
            let is_full = self.columns.iter().any(|column| column.values.len() >= BATCH_COLUMN_BYTES);
            if is_full || self.waiting() >= BATCH_ROWS {
                self.write_batch()?;
            }
        }
        if self.at_once { self.write_batch() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>, _: u64) -> Result<(), Error> {
        self.end()
    }
}

impl<W: Write> ArrowWriter<W> {
    /// Begins a stream of rows with these columns; those of windows have two more, with the window's bounds.
    fn new(
        out: W,
        called: &str,
        columns: &[ColumnHead],
        windowed: bool,
        at_once: bool,
    ) -> Result<ArrowWriter<W>, Error> {
        let heads: Vec<_> = heads(columns, windowed).map(|(name, data_type)| (name, Kind::of(data_type))).collect();
        let columns = heads.iter().map(|(_, kind)| Column::new(*kind)).collect();
        let mut writer = ArrowWriter { out: Some(out), called: called.to_owned(), columns, windowed, at_once };
        writer.write(&schema(&heads))?;
        Ok(writer)
    }

    fn add(&mut self, row: &Row) {
        let bounds = row.window.map_or([Value::Null, Value::Null], |bounds| bounds.map(Value::Uint));
        let bounds = bounds.iter().filter(|_| self.windowed);
        self.columns.iter_mut().zip(bounds.chain(&row.values)).for_each(|(column, value)| column.push(value));
    }

    fn waiting(&self) -> usize {
        self.columns.first().map_or(0, |column| column.rows)
    }

    /// Writes the rows that wait.
    fn write_batch(&mut self) -> Result<(), Error> {
        if self.waiting() == 0 {
            return Ok(());
        }
        let bytes = batch(&self.columns);
        self.columns.iter_mut().for_each(Column::clear);
        self.write(&bytes)
    }

    /// Ends the stream.
    fn end(&mut self) -> Result<(), Error> {
        self.write_batch()?;
        self.write(&[CONTINUED, [0; 4]].concat())
    }

    /// Writes bytes. What a reader no longer wants is dropped.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(out) = &mut self.out else { return Ok(()) };
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.out = None,
            Err(error) => return Err(Error::io(&self.called, &error)),
            Ok(()) => {}
        }
        Ok(())
    }
}

type Table = WIPOffset<TableFinishedWIPOffset>;

/// A table whose fields are set by `set`.
fn table<'b>(builder: &mut FlatBufferBuilder<'b>, set: impl FnOnce(&mut FlatBufferBuilder<'b>)) -> Table {
    let begun = builder.start_table();
    set(builder);
    builder.end_table(begun)
}

/// Sets a table's field by its number in the format's definition.
fn set<T: Push>(builder: &mut FlatBufferBuilder<'_>, field: VOffsetT, value: T) {
    builder.push_slot_always(4 + 2 * field, value);
}

/// A message without its body, which has so many bytes.
fn message(mut builder: FlatBufferBuilder<'_>, kind: u8, header: Table, body_bytes: usize) -> Vec<u8> {
    let message = table(&mut builder, |builder| {
        set(builder, 3, body_bytes as i64);
        set(builder, 2, WIPOffset::<UnionWIPOffset>::new(header.value()));
        set(builder, 0, VERSION);
        set(builder, 1, kind);
    });
    builder.finish(message, None);
    let data = builder.finished_data();
    let padded = data.len().next_multiple_of(ALIGNMENT);
    let mut bytes = [CONTINUED, (padded as u32).to_le_bytes()].concat();
    bytes.extend(data);
    bytes.resize(CONTINUED.len() + 4 + padded, 0);
    bytes
}

/// The message that says which columns there are.
fn schema(heads: &[(&str, Kind)]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let fields: Vec<Table> = heads.iter().map(|(name, kind)| field(&mut builder, name, *kind)).collect();
    let fields = builder.create_vector(&fields);
    // The default of its byte order is the one that is written.
    let schema = table(&mut builder, |builder| set(builder, 1, fields));
    message(builder, SCHEMA, schema, 0)
}

fn field(builder: &mut FlatBufferBuilder<'_>, name: &str, kind: Kind) -> Table {
    let name = builder.create_string(name);
    let own_type = table(builder, |builder| match kind {
        Kind::Integer { signed } => {
            set(builder, 0, 64i32);
            set(builder, 1, signed);
        }
        // `Precision.DOUBLE`.
        Kind::Float => set(builder, 0, 2i16),
        Kind::Bool | Kind::Text { .. } => {}
    });
    let children = builder.create_vector::<Table>(&[]);
    let marks = (kind == Kind::Text { is_json: true }).then(|| {
        let pair = [("ARROW:extension:name", "arrow.json"), ("ARROW:extension:metadata", "")];
        let pairs = pair.map(|(key, value)| {
            let (key, value) = (builder.create_string(key), builder.create_string(value));
            table(builder, |builder| {
                set(builder, 0, key);
                set(builder, 1, value);
            })
        });
        builder.create_vector(&pairs)
    });
    table(builder, |builder| {
        set(builder, 0, name);
        set(builder, 3, own_type);
        set(builder, 5, children);
        if let Some(marks) = marks {
            set(builder, 6, marks);
        }
        set(builder, 1, true);
        set(builder, 2, kind.number());
    })
}

/// A vector of structures of two numbers.
fn pairs<'b>(builder: &mut FlatBufferBuilder<'b>, pairs: &[[usize; 2]]) -> WIPOffset<flatbuffers::Vector<'b, i64>> {
    builder.start_vector::<i64>(2 * pairs.len());
    // It grows towards its beginning.
    for number in pairs.iter().flatten().rev() {
        builder.push(*number as i64);
    }
    builder.end_vector(pairs.len())
}

/// The message of a batch, with its body.
fn batch(columns: &[Column]) -> Vec<u8> {
    let (mut body, mut places) = (Vec::new(), Vec::new());
    for buffer in columns.iter().flat_map(Column::buffers) {
        places.push([body.len(), buffer.len()]);
        body.extend(buffer);
        body.resize(body.len().next_multiple_of(ALIGNMENT), 0);
    }
    let nodes: Vec<[usize; 2]> = columns.iter().map(|column| [column.rows, column.nulls]).collect();
    let mut builder = FlatBufferBuilder::new();
    let (nodes, places) = (pairs(&mut builder, &nodes), pairs(&mut builder, &places));
    let rows = columns.first().map_or(0, |column| column.rows);
    let batch = table(&mut builder, |builder| {
        set(builder, 0, rows as i64);
        set(builder, 1, nodes);
        set(builder, 2, places);
    });
    let mut bytes = message(builder, RECORD_BATCH, batch, body.len());
    bytes.extend(body);
    bytes
}
