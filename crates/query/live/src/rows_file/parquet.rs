//! Rows as a Parquet file: a column each, every one of which may be null.
//!
//! | type | in the file |
//! |---|---|
//! | `bool` | boolean |
//! | `i64` | 64-bit integer |
//! | `u64`, `timestamp`, the bounds of windows | 64-bit integer, marked as unsigned |
//! | `f64` | double |
//! | `text` | text in UTF-8 |
//! | `histogram` | text, marked as JSON: `[[least, greatest, count], ...]`, so that histograms of files can be merged |

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use kiln_plan::{Row, Value};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{RowsFile, heads, text};
use crate::session::ColumnHead;
use kiln_program::Error;

/// Rows that are written together.
const GROUP_ROWS: usize = 1 << 16;

/// Writes rows into a file.
struct ParquetWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    kinds: Vec<Physical>,
    windowed: bool,
    waiting: Vec<Row>,
}

/// Begins a file at a path; one that is there is replaced.
///
/// # Errors
/// Returns what creating it returns.
pub fn create(path: &Path, columns: &[ColumnHead], windowed: bool) -> Result<Box<dyn RowsFile>, Error> {
    let file = File::create(path).map_err(|error| Error::file(path, &error))?;
    Ok(Box::new(ParquetWriter::new(file, columns, windowed)?))
}

impl<W: Write + Send> RowsFile for ParquetWriter<W> {
    fn rows(&mut self, rows: Vec<Row>) -> Result<(), Error> {
        self.waiting.extend(rows);
        if self.waiting.len() >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn finish(self: Box<Self>, _: u64) -> Result<(), Error> {
        self.end().map(drop)
    }
}

fn failed(error: &ParquetError) -> Error {
    Error::machine("the Parquet file", &std::io::Error::other(error.to_string()), "")
}

/// How values of a type are stored, and what they are.
fn stored(data_type: &str) -> (Physical, Option<LogicalType>) {
    match data_type {
        "bool" => (Physical::BOOLEAN, None),
        "i64" => (Physical::INT64, None),
        "u64" | "timestamp" => (Physical::INT64, Some(LogicalType::integer(64, false))),
        "f64" => (Physical::DOUBLE, None),
        "histogram" => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
        _ => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    }
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file of rows with these columns; those of windows have two more, with the window's bounds.
    fn new(out: W, columns: &[ColumnHead], windowed: bool) -> Result<ParquetWriter<W>, Error> {
        let all: Vec<_> = heads(columns, windowed).collect();
        let field = |(name, data_type): &(&str, &str)| -> Result<TypePtr, ParquetError> {
            let (physical, logical) = stored(data_type);
            let builder = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
            Ok(Arc::new(builder.with_logical_type(logical).build()?))
        };
        let begin = || {
            let fields = all.iter().map(field).collect::<Result<Vec<_>, _>>()?;
            let schema = Type::group_type_builder("rows").with_fields(fields).build()?;
            let properties = WriterProperties::builder().set_created_by(format!("kiln {}", env!("CARGO_PKG_VERSION")));
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))
        };
        let kinds = all.iter().map(|(_, data_type)| stored(data_type).0).collect();
        Ok(ParquetWriter { writer: begin().map_err(|error| failed(&error))?, kinds, windowed, waiting: Vec::new() })
    }

    /// Ends the file. Returns what it was written to.
    fn end(mut self) -> Result<W, Error> {
        self.flush()?;
        self.writer.into_inner().map_err(|error| failed(&error))
    }

    fn flush(&mut self) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.waiting);
        if rows.is_empty() {
            return Ok(());
        }
        let windowed = self.windowed;
        let value = |row: &Row, at: usize| -> Value {
            match (windowed, at) {
                (true, 0 | 1) => row.window.map_or(Value::Null, |window| Value::Uint(window[at])),
                (true, at) => row.values[at - 2].clone(),
                (false, at) => row.values[at].clone(),
            }
        };
        let mut write = || -> Result<(), ParquetError> {
            let mut group = self.writer.next_row_group()?;
            for (at, kind) in self.kinds.iter().enumerate() {
                column(&mut group, *kind, rows.iter().map(|row| value(row, at)))?;
            }
            group.close().map(drop)
        };
        write().map_err(|error| failed(&error))
    }
}

/// Writes one column of a group of rows. The first level says which values are there.
fn column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    kind: Physical,
    values: impl Iterator<Item = Value>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let mut levels = Vec::new();
    macro_rules! write {
        ($kind:ty, $of:expr) => {{
            let of = $of;
            let there: Vec<_> = values
                .filter_map(|value| {
                    let value = of(&value);
                    levels.push(i16::from(value.is_some()));
                    value
                })
                .collect();
            column.typed::<$kind>().write_batch(&there, Some(&levels), None)?;
        }};
    }
    match kind {
        Physical::BOOLEAN => write!(BoolType, |value: &Value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        }),
        Physical::DOUBLE => write!(DoubleType, Value::as_float),
        Physical::INT64 => write!(Int64Type, |value: &Value| value.bits().map(|bits| bits as i64)),
        _ => write!(ByteArrayType, |value: &Value| text(value).map(|text| ByteArray::from(text.as_bytes().to_vec()))),
    }
    column.close()
}

#[cfg(test)]
mod tests {
    use kiln_plan::Histogram;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let head = |name: &str, data_type| ColumnHead { name: name.into(), data_type };
        let types = ["text", "u64", "i64", "f64", "bool", "timestamp", "histogram"];
        let columns: Vec<_> = types.iter().map(|data_type| head(&format!("a {data_type}"), *data_type)).collect();
        let mut histogram = Histogram::default();
        [0, 5, 1000].into_iter().for_each(|value| histogram.add(value));
        let values = vec![
            Value::text("<script>\"'\u{202e}"),
            Value::Uint(u64::MAX),
            Value::Int(i64::MIN),
            Value::Float(0.5),
            Value::Bool(true),
            Value::Uint(7),
            Value::Histogram(Arc::new(histogram)),
        ];
        let all = GROUP_ROWS + 3;
        let mut writer = ParquetWriter::new(tempfile::tempfile().expect("a file"), &columns, true).expect("a writer");
        for at in 0..all as u64 {
            let nulls = vec![Value::Null; types.len()];
            let values = if at % 2 == 0 { values.clone() } else { nulls };
            writer.rows(vec![Row { window: Some([at, at + 1]), values }]).expect("it is written");
        }
        let file = writer.end().expect("it is written");
        let reader = SerializedFileReader::new(file).expect("a file");
        assert_eq!(reader.num_row_groups(), 2);
        let mut rows = 0;
        for (at, row) in reader.get_row_iter(None).expect("rows").enumerate() {
            let row = row.expect("a row");
            assert_eq!(
                (row.get_ulong(0).expect("a start"), row.get_ulong(1).expect("an end")),
                (at as u64, at as u64 + 1)
            );
            if at % 2 == 0 {
                assert_eq!(row.get_string(2).expect("text"), "<script>\"'\u{202e}");
                assert_eq!(row.get_ulong(3).expect("u64"), u64::MAX);
                assert_eq!(row.get_long(4).expect("i64"), i64::MIN);
                assert_eq!(row.get_double(5).expect("f64"), 0.5);
                assert!(row.get_bool(6).expect("bool"));
                assert_eq!(row.get_ulong(7).expect("a time"), 7);
                assert_eq!(row.get_string(8).expect("JSON"), "[[0, 0, 1], [5, 5, 1], [1000, 1007, 1]]");
            } else {
                assert!(row.get_string(2).is_err(), "null");
            }
            rows += 1;
        }
        assert_eq!(rows, all);
    }
}
