//! Recordings of a table's events, made from a number: what the table's smallest split would have handed over.

use kiln_driver::query::replay::Recorder;
use kiln_driver::query::{Session, Settings, Split, plan};
use kiln_plan::expr::{BinaryOp, Expr};
use kiln_plan::generate::layout::{Record, SlotKind};
use kiln_plan::table::{Read, Scan, Side, Source, Table};

use crate::generator::Numbers;

/// Names of threads, with one of the greatest length.
const NAMES: [&str; 5] = ["cargo", "getty", "kworker/0:1", "a long name 15b", ""];

/// Paths, one of them from which a record's place for it begins with much of another name.
const PATHS: [&str; 4] = ["/etc/passwd", "/", "", "a long name 15b/in/a/folder"];

/// A recording as the bytes of its file.
///
/// `wild` values are of any size; others are small, so that SQLite computes with them as Kiln does.
pub fn recording(session: &Session, events: usize, wild: bool, numbers: &mut Numbers) -> Result<Vec<u8>, String> {
    let smallest = plan::plan(session, &Settings::default(), Some(Split::Mvsf)).map_err(|error| error.to_string())?;
    let records = &smallest.accepted[0].records;
    let table = &session.query().table;
    let mut file = Vec::new();
    let mut recorder = Recorder::new(&mut file, session.query(), records).expect("memory takes it");
    let mut maker = Maker { table, wild, numbers, now: 5_000_000_000 };
    let mut open: Vec<u64> = Vec::new();
    for _ in 0..events {
        maker.now += maker.numbers.next() % *maker.numbers.one(&[1_000, 1_000_000, 40_000_000]);
        let bytes = match &table.scan {
            Scan::Rows => return Err("its rows are of another query".to_owned()),
            Scan::Single(_) => maker.record(&records[0], 0),
            Scan::Pair { endless, .. } => {
                let key = maker.numbers.next() % 7;
                match open.iter().position(|own| *own == key) {
                    // Ends are of what began, and sometimes of what began before anybody looked.
                    Some(at) if !*endless || maker.numbers.once_in(2) => {
                        open.swap_remove(at);
                        maker.record(&records[1], key)
                    }
                    None if maker.numbers.once_in(10) => maker.record(&records[1], key),
                    _ => {
                        open.retain(|own| *own != key);
                        open.push(key);
                        maker.record(&records[0], key)
                    }
                }
            }
        };
        recorder.add(&bytes).expect("memory takes it");
    }
    recorder.finish().expect("memory takes it");
    Ok(file)
}

struct Maker<'a> {
    table: &'a Table,
    wild: bool,
    numbers: &'a mut Numbers,
    now: u64,
}

impl Maker<'_> {
    fn record(&mut self, layout: &Record, key: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(layout.bytes)];
        if let Some(tag) = layout.tag {
            bytes[..4].copy_from_slice(&tag.to_le_bytes());
        }
        for slot in &layout.slots {
            let own = &mut bytes[usize::from(slot.offset)..usize::from(slot.offset + slot.kind.bytes())];
            let number = match slot.column {
                None => key,
                Some(column) => self.column(column, key),
            };
            match slot.kind {
                SlotKind::Number(_) => own.copy_from_slice(&number.to_le_bytes()[..own.len()]),
                SlotKind::Command => {
                    let name = self.numbers.one(&NAMES).as_bytes();
                    own[..name.len()].copy_from_slice(name);
                }
                SlotKind::Text | SlotKind::Short(_) | SlotKind::Bytes(_) => {
                    let text = self.text(slot.column).into_bytes();
                    let length = text.len().min(own.len() - 1);
                    own[..length].copy_from_slice(&text[..length]);
                }
            }
        }
        bytes
    }

    fn column(&mut self, column: usize, key: u64) -> u64 {
        let name = &*self.table.columns[column].name;
        match &self.table.columns[column].source {
            Source::Read { what: Read::Time, .. } => self.now,
            // Addresses of both families, and IPv4 addresses of IPv6 sockets.
            _ if name == "family" && self.numbers.once_in(2) => *self.numbers.one(&[2, 10]),
            _ if name.ends_with("addr_be") => u32::from_ne_bytes([10, 0, 0, (self.numbers.next() % 5) as u8]).into(),
            _ if name.ends_with("addr6_high") && self.numbers.once_in(2) => 0,
            _ if name.ends_with("addr6_low") && self.numbers.once_in(2) => {
                u64::from_ne_bytes([0, 0, 0xff, 0xff, 10, 0, 0, (self.numbers.next() % 5) as u8])
            }
            // Rows of tables that keep few of their hooks' events, such as `tcp_accepts` and `file_writes`.
            Source::Read { .. } if !self.numbers.once_in(4) && !self.wanted(column).is_empty() => {
                *self.numbers.one(&self.wanted(column))
            }
            // What both hooks of a pair read is the same at both.
            Source::Read { at: Side::Both, .. } if self.table.is_pair() => key,
            _ => match self.numbers.below(if self.wild { 4 } else { 3 }) {
                0 => self.numbers.next() % 4,
                1 => self.numbers.next() % 300,
                2 => (self.numbers.next() % 40).wrapping_sub(20) & if self.wild { u64::MAX } else { 63 },
                _ => self.numbers.next() >> (self.numbers.next() % 64),
            },
        }
    }
    /// A text, mostly one that rows of the table have.
    fn text(&mut self, column: Option<usize>) -> String {
        let mut wanted = Vec::new();
        column.iter().for_each(|column| self.table.only.iter().for_each(|only| patterns(only, *column, &mut wanted)));
        if !wanted.is_empty() && !self.numbers.once_in(4) {
            return self.numbers.one(&wanted).replace('%', "a word");
        }
        (*self.numbers.one(&PATHS)).to_owned()
    }

    /// What a column has to be for an event to be a row of the table: one of these, if there are any.
    fn wanted(&self, column: usize) -> Vec<u64> {
        let mut values = Vec::new();
        self.table.only.iter().for_each(|only| equals(only, column, &mut values));
        values
    }
}

/// Adds the values that a condition compares a column with.
fn equals(condition: &Expr, column: usize, values: &mut Vec<u64>) {
    match condition {
        Expr::Binary(op, one, other) if op.is_logical() => {
            [one, other].into_iter().for_each(|part| equals(part, column, values));
        }
        Expr::Binary(BinaryOp::Equal, one, other) => {
            // Of flags that are compared, the column may be those and no others.
            let of = if let Expr::Binary(BinaryOp::BitAnd, of, _) = &**one { of } else { one };
            if let (Expr::Column(own), Expr::Literal(value)) = (&**of, &**other)
                && *own == column
            {
                values.extend(value.bits());
            }
        }
        _ => {}
    }
}

/// Adds the patterns that a condition compares a column with.
fn patterns(condition: &Expr, column: usize, found: &mut Vec<String>) {
    match condition {
        Expr::Like(of, pattern) if **of == Expr::Column(column) => found.push(pattern.clone()),
        other => other.operands().into_iter().for_each(|operand| patterns(operand, column, found)),
    }
}
