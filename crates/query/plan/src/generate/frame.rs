//! The layout of a program's frame of 512 bytes.
//!
//! ```text
//!   r10 -   record: all columns that the program reads
//!           pair key, group key, group value, headers of a datagram
//!           values that wait while an expression is computed
//!   r10 - 512
//! ```

use super::failure::Failure;
use super::layout::{Origin, Record, SlotKind};
use crate::table::{Column, Hook, Read, Source, Table};

/// Bytes of a frame (`MAX_BPF_STACK`).
const FRAME_BYTES: u16 = 512;
/// Bytes for what is copied of a datagram.
pub const DATAGRAM_BYTES: u16 = 80;

/// A program's frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The record at its top.
    pub record: Record,
    /// Where the pair's key is.
    pub pair_key: i16,
    /// Where the group's key is.
    pub group_key: i16,
    /// Where a new group's value is built.
    pub group_value: i16,
    /// Where a datagram's headers are, or numbers from kernel memory.
    pub scratch: i16,
    /// Bytes used by all of these.
    used: u16,
}

impl Frame {
    /// A frame for a record, and for keys and values of these sizes (multiples of eight).
    ///
    /// # Errors
    /// Returns [`Failure::Frame`] if they do not fit.
    pub fn new(record: Record, [pair_key, group_key, group_value]: [u16; 3], scratch: u16) -> Result<Frame, Failure> {
        let mut used = record.bytes;
        let mut place = |bytes: u16| {
            used += bytes;
            -(used as i16)
        };
        let (pair_key, group_key, group_value) = (place(pair_key), place(group_key), place(group_value));
        let scratch = place(scratch);
        if used > FRAME_BYTES {
            return Err(Failure::Frame);
        }
        Ok(Frame { record, pair_key, group_key, group_value, scratch, used })
    }

    /// Where the record begins.
    pub fn start(&self) -> i16 {
        -(self.record.bytes as i16)
    }

    /// Where a column is.
    ///
    /// # Errors
    /// Returns [`Failure::NotHere`] for a column that the program does not read.
    pub fn column(&self, column: usize) -> Result<(i16, SlotKind), Failure> {
        let slot = self.record.slot(Some(column));
        let slot = slot.ok_or_else(|| Failure::NotHere(format!("column {column}")))?;
        Ok((self.start() + slot.offset as i16, slot.kind))
    }

    /// The place of an intermediate value when there are `depth` others.
    ///
    /// # Errors
    /// Returns [`Failure::Frame`] if the frame is full.
    pub fn temporary(&self, depth: u16) -> Result<i16, Failure> {
        let bytes = depth.checked_add(1).and_then(|count| count.checked_mul(8)).ok_or(Failure::Frame)?;
        let end = self.used.checked_add(bytes).filter(|end| *end <= FRAME_BYTES).ok_or(Failure::Frame)?;
        Ok(-(end as i16))
    }
}

/// Whether a read keeps something in the frame before its result is there.
fn peeks(read: &Read) -> bool {
    match read {
        Read::Behind { .. } | Read::Element(..) | Read::UserNumber { .. } | Read::Sum { .. } => true,
        Read::UserText { address: of, .. } | Read::KernelText { address: of, .. } | Read::Cut { of, .. } => peeks(of),
        Read::Choice { by, then, otherwise, .. } => [by, then, otherwise].into_iter().any(|one| peeks(one)),
        _ => false,
    }
}

/// Bytes of the frame that the programs of a table need for a datagram's headers, or for what is read from memory.
pub fn scratch(table: &Table, origin: Origin<'_>) -> u16 {
    let keeps = |column: &Column| matches!(&column.source, Source::Read { what, .. } if peeks(what));
    match origin {
        Origin::Records(_) => 0,
        _ if table.hooks().iter().any(|hook| matches!(hook, Hook::Datagram { .. })) => DATAGRAM_BYTES,
        _ if table.columns.iter().any(keeps) => 8,
        _ => 0,
    }
}
