//! What instructions do to the stack: the bytes that they read and write, over all paths.

use std::collections::HashMap;

use crate::code::Position;
use crate::facts::StackSet;

/// What one instruction writes to its own frame, over all visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    Nothing,
    /// These bytes, on every visit.
    Always {
        lowest: i32,
        bytes: u32,
    },
    /// Bytes that differ between visits or are not known.
    Perhaps,
}

/// What every instruction reads and writes of its own function's frame.
pub(crate) struct Accesses {
    /// Bytes read by each instruction.
    pub reads: Vec<StackSet>,
    /// What each instruction writes.
    pub writes: Vec<Written>,
    /// Bytes of a function's frame that pointers to other memory may point to, too.
    pub aliased: HashMap<usize, StackSet>,
}

impl Accesses {
    pub(crate) fn new(positions: usize) -> Accesses {
        Accesses {
            reads: vec![StackSet::EMPTY; positions],
            writes: vec![Written::Nothing; positions],
            aliased: HashMap::new(),
        }
    }

    /// Bytes that it takes for each position.
    pub(crate) const BYTES: usize = size_of::<StackSet>() + size_of::<Written>();

    /// Bytes of a function's frame may be read and written through a pointer to other memory from now on.
    pub(crate) fn alias(&mut self, function: usize, lowest: i32, bytes: u32) {
        self.aliased.entry(function).or_insert(StackSet::EMPTY).insert(lowest, bytes);
    }

    pub(crate) fn read(&mut self, at: Position, lowest: i32, bytes: u32) {
        self.reads[at as usize].insert(lowest, bytes);
    }

    pub(crate) fn write(&mut self, at: Position, lowest: i32, bytes: u32) {
        let now = Written::Always { lowest, bytes };
        let written = &mut self.writes[at as usize];
        *written = match *written {
            Written::Nothing => now,
            before if before == now => now,
            _ => Written::Perhaps,
        };
    }

    pub(crate) fn vague_write(&mut self, at: Position) {
        self.writes[at as usize] = Written::Perhaps;
    }
}
