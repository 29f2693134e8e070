//! Arrow streams, read back by a reader of this file's own and, where Python has it, by pyarrow.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use kiln_live::{ColumnHead, Histogram, Row, Value, rows_file};
use serde_json::{Value as Json, json};

const TYPES: [&str; 7] = ["text", "u64", "i64", "f64", "bool", "timestamp", "histogram"];
/// Rows of a batch.
const BATCH_ROWS: usize = 1 << 16;

/// What pyarrow reads, a line of JSON each: types, numbers of rows of the batches, rows.
const PYARROW: &str = "
import json, sys
import pyarrow
with pyarrow.ipc.open_stream(sys.argv[1]) as stream:
    batches = list(stream)
    schema = stream.schema
table = pyarrow.Table.from_batches(batches, schema)
table.validate(full=True)
print(json.dumps([[field.name, str(field.type), field.nullable] for field in schema]))
print(json.dumps([batch.num_rows for batch in batches]))
columns = [column.to_pylist() for column in table.columns]
for row in zip(*columns):
    print(json.dumps(row, ensure_ascii=False))
";

fn columns() -> Vec<ColumnHead> {
    TYPES.map(|data_type| ColumnHead { name: format!("a {data_type}").as_str().into(), data_type }).to_vec()
}

/// A row by its number: every value is null in some rows.
fn row(at: usize, windowed: bool) -> Row {
    let mut histogram = Histogram::default();
    [0, 5, 1000 + at as u64 % 7].into_iter().for_each(|value| histogram.add(value));
    let mut values = vec![
        Value::text(["", "<script>\"'\u{202e}", "a\0b", "\u{1f525}"][at % 4]),
        Value::Uint(u64::MAX - at as u64),
        Value::Int(i64::MIN + at as i64),
        Value::Float([0.5, -0.0, 1e300, 1.0 / 3.0][at % 4]),
        Value::Bool(at % 3 == 0),
        Value::Uint(at as u64),
        Value::Histogram(Arc::new(histogram)),
    ];
    for (column, value) in values.iter_mut().enumerate() {
        if at % (column + 2) == 1 {
            *value = Value::Null;
        }
    }
    Row { window: windowed.then_some([at as u64, at as u64 + 1]), values }
}

/// A row as readers see it.
fn seen(row: &Row) -> Json {
    let histogram = |histogram: &Histogram| {
        let buckets = histogram.buckets().map(|(least, greatest, count)| format!("[{least}, {greatest}, {count}]"));
        format!("[{}]", buckets.collect::<Vec<_>>().join(", "))
    };
    let value = |value: &Value| match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Uint(value) => json!(value),
        Value::Float(value) => json!(value),
        Value::Text(value) => json!(&**value),
        Value::Histogram(value) => json!(histogram(value)),
    };
    row.window.iter().flatten().map(|bound| json!(bound)).chain(row.values.iter().map(value)).collect()
}

/// A stream as bytes.
struct Stream<'b>(&'b [u8]);

impl<'b> Stream<'b> {
    fn number<const N: usize>(&self, at: usize) -> u64 {
        let bytes: [u8; N] = self.0[at..at + N].try_into().expect("as many");
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Where a field of a table is.
    fn field(&self, table: usize, number: usize) -> Option<usize> {
        let vtable = (table as i64 - i64::from(self.number::<4>(table) as i32)) as usize;
        let slot = 4 + 2 * number;
        let offset = if slot < self.number::<2>(vtable) as usize { self.number::<2>(vtable + slot) } else { 0 };
        (offset != 0).then_some(table + offset as usize)
    }

    /// What is referred to from there.
    fn follow(&self, at: usize) -> usize {
        at + self.number::<4>(at) as usize
    }

    /// What a field of a table refers to.
    fn behind(&self, table: usize, number: usize) -> usize {
        self.follow(self.field(table, number).expect("it is set"))
    }

    /// Where the elements of a field's vector are, each of so many bytes.
    fn elements(&self, table: usize, number: usize, bytes: usize) -> Vec<usize> {
        let vector = self.behind(table, number);
        (0..self.number::<4>(vector) as usize).map(|at| vector + 4 + at * bytes).collect()
    }

    fn text(&self, at: usize) -> &'b str {
        let bytes = &self.0[at + 4..at + 4 + self.number::<4>(at) as usize];
        std::str::from_utf8(bytes).expect("UTF-8")
    }

    fn bit(&self, start: usize, at: usize) -> bool {
        self.0[start + at / 8] >> (at % 8) & 1 == 1
    }

    /// The columns' names and types' numbers, and each batch's rows.
    fn read(&self) -> (Vec<(String, u64)>, Vec<Vec<Vec<Json>>>) {
        let (mut heads, mut batches, mut at) = (Vec::new(), Vec::new(), 0);
        loop {
            assert_eq!((self.number::<4>(at), at % 8), (0xffff_ffff, 0));
            let bytes = self.number::<4>(at + 4) as usize;
            if bytes == 0 {
                assert_eq!(self.0.len(), at + 8, "nothing follows the end");
                return (heads, batches);
            }
            let (table, body) = (self.follow(at + 8), at + 8 + bytes);
            assert_eq!(self.field(table, 0).map(|at| self.number::<2>(at)), Some(4), "the fifth version");
            let header = self.behind(table, 2);
            match self.field(table, 1).map(|at| self.number::<1>(at)) {
                Some(1) => {
                    let fields = self.elements(header, 1, 4).into_iter().map(|at| self.follow(at));
                    let head = |field| {
                        let kind = self.field(field, 2).map(|at| self.number::<1>(at)).expect("a type");
                        (self.text(self.behind(field, 0)).to_owned(), kind)
                    };
                    heads = fields.map(head).collect();
                }
                Some(3) => batches.push(self.batch(header, body, &heads)),
                other => panic!("{other:?}"),
            }
            at = body + self.field(table, 3).map_or(0, |at| self.number::<8>(at) as usize);
        }
    }

    fn batch(&self, header: usize, body: usize, heads: &[(String, u64)]) -> Vec<Vec<Json>> {
        let rows = self.field(header, 0).map_or(0, |at| self.number::<8>(at) as usize);
        let nodes = self.elements(header, 1, 16);
        let mut buffers = self.elements(header, 2, 16).into_iter().map(|at| {
            let (start, bytes) = (self.number::<8>(at) as usize, self.number::<8>(at + 8) as usize);
            assert_eq!((at % 8, start % 8), (0, 0), "it is aligned");
            (body + start, bytes)
        });
        let mut columns = Vec::new();
        for (node, (name, kind)) in nodes.iter().zip(heads) {
            let nulls = self.number::<8>(node + 8) as usize;
            assert_eq!(self.number::<8>(*node) as usize, rows);
            let mut next = || buffers.next().expect("a buffer");
            let (valid, ends, values) = (next(), if *kind == 5 { Some(next().0) } else { None }, next().0);
            let is_there = |at: usize| valid.1 == 0 || self.bit(valid.0, at);
            let value = |at: usize| match (*kind, ends) {
                (2, _) if name == "a i64" => json!(self.number::<8>(values + 8 * at) as i64),
                (2, _) => json!(self.number::<8>(values + 8 * at)),
                (3, _) => json!(f64::from_bits(self.number::<8>(values + 8 * at))),
                (5, Some(ends)) => {
                    let [start, end] = [at, at + 1].map(|at| self.number::<4>(ends + 4 * at) as usize);
                    json!(std::str::from_utf8(&self.0[values + start..values + end]).expect("UTF-8"))
                }
                (6, _) => json!(self.bit(values, at)),
                other => panic!("{other:?}"),
            };
            let column: Vec<Json> = (0..rows).map(|at| if is_there(at) { value(at) } else { Json::Null }).collect();
            assert_eq!(column.iter().filter(|value| value.is_null()).count(), nulls, "{name}");
            columns.push(column);
        }
        assert!(buffers.next().is_none());
        (0..rows).map(|at| columns.iter().map(|column| column[at].clone()).collect()).collect()
    }
}

/// The lines that pyarrow prints of a file; `None` without it.
fn by_pyarrow(file: &Path) -> Option<Vec<Json>> {
    let python = std::env::var("KILN_PYARROW_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = match Command::new(&python).args(["-c", PYARROW]).arg(file).env("PYTHONIOENCODING", "utf-8").output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {python}: {error}");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named 'pyarrow'") {
        println!("skipped: no pyarrow (KILN_PYARROW_PYTHON names a Python that has it)");
        return None;
    }
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    Some(lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

/// Writes rows, piece by piece, and reads them back. Returns the batches' numbers of rows.
fn read_back(rows: &[Row], windowed: bool, piece: usize) -> Vec<usize> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.arrow");
    let mut writer = rows_file::arrow(Some(&file), &columns(), windowed).expect("a file");
    for rows in rows.chunks(piece) {
        writer.rows(rows.to_vec()).expect("it is written");
    }
    writer.finish(1).expect("it is written");
    let wanted: Vec<Json> = rows.iter().map(seen).collect();

    let bytes = std::fs::read(&file).expect("a file");
    let (heads, batches) = Stream(&bytes).read();
    let bounds = [("window_start".to_owned(), 2), ("window_end".to_owned(), 2)];
    let own = TYPES.iter().zip([5, 2, 2, 3, 6, 2, 5]).map(|(name, kind)| (format!("a {name}"), kind));
    assert_eq!(heads, bounds.into_iter().filter(|_| windowed).chain(own).collect::<Vec<_>>());
    let sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
    let read: Vec<Json> = batches.into_iter().flatten().map(Json::from).collect();
    assert!(read == wanted, "{} rows", rows.len());

    if let Some(mut lines) = by_pyarrow(&file) {
        let read = lines.split_off(2);
        assert_eq!(lines[1], json!(sizes));
        let types: Vec<&Json> = lines[0].as_array().expect("an array").iter().map(|field| &field[1]).collect();
        // Older releases do not know what is JSON.
        let json = if types.last().is_some_and(|last| *last == "string") { "string" } else { "extension<arrow.json>" };
        let own = ["string", "uint64", "int64", "double", "bool", "uint64", json];
        let bounds = ["uint64"; 2].into_iter().filter(|_| windowed);
        assert_eq!(types, bounds.chain(own).collect::<Vec<_>>());
        assert!(read == wanted, "{} rows, by pyarrow", rows.len());
    }
    sizes
}

#[test]
fn rows_are_read_back() {
    let rows = |count: usize, windowed| (0..count).map(|at| row(at, windowed)).collect::<Vec<_>>();
    assert_eq!(read_back(&[], true, 1), [0; 0]);
    assert_eq!(read_back(&rows(1, true), true, 1), [1]);
    assert_eq!(read_back(&rows(BATCH_ROWS + 9, true), true, 1000), [BATCH_ROWS, 9]);
    assert_eq!(read_back(&rows(300, false), false, usize::MAX), [300]);
    // Rows of one kind: no value, or all of them.
    let full: Vec<Row> = (0..9).map(|_| row(0, false)).collect();
    let empty = Row { window: None, values: vec![Value::Null; TYPES.len()] };
    assert_eq!(read_back(&[&full[..], &vec![empty; 9]].concat(), false, 4), [18]);
}

#[test]
fn a_number_that_does_not_fit_ends_the_file() {
    for (data_type, number) in [("i64", Value::Uint(u64::MAX)), ("u64", Value::Int(-1)), ("timestamp", Value::Int(-1))]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let columns = [ColumnHead { name: "v".into(), data_type }];
        let row = || vec![Row { window: None, values: vec![number.clone()] }];
        let mut stream = rows_file::arrow(Some(&folder.path().join("rows.arrow")), &columns, false).expect("a file");
        let said = stream.rows(row()).expect_err("it does not fit").to_string();
        assert!(said.contains("column v") && said.contains("CAST(v AS TEXT)"), "{said}");
        if cfg!(feature = "parquet") {
            let mut file = rows_file::parquet(&folder.path().join("rows.parquet"), &columns, false).expect("a file");
            assert_eq!(file.rows(row()).expect_err("it does not fit").to_string(), said);
        }
    }
}

#[test]
fn long_texts_end_a_batch() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.arrow");
    let columns = [ColumnHead { name: "a text".into(), data_type: "text" }];
    let mut writer = rows_file::arrow(Some(&file), &columns, false).expect("a file");
    let text = Value::text(&"x".repeat(1 << 20));
    for _ in 0..100 {
        writer.rows(vec![Row { window: None, values: vec![text.clone()] }]).expect("it is written");
    }
    writer.finish(1).expect("it is written");
    let bytes = std::fs::read(&file).expect("a file");
    let (_, batches) = Stream(&bytes).read();
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [64, 36]);
}

#[test]
fn what_cannot_be_written_is_said() {
    let no_folder = rows_file::arrow(Some(Path::new("/no/such/folder/rows.arrow")), &columns(), false);
    assert!(no_folder.err().expect("there is none").to_string().contains("/no/such/folder"));
    if !Path::new("/dev/full").exists() {
        return println!("skipped: no /dev/full");
    }
    let full = rows_file::arrow(Some(Path::new("/dev/full")), &columns(), false);
    assert!(full.err().expect("it is full").to_string().contains("/dev/full"));
}
