//! The critical sections that a path is in.

use crate::code::Position;
use crate::facts::Section;

/// Something that a path began and must end: where it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Begun {
    pub what: Section,
    pub at: Position,
    /// The saved flags of interrupts that are off; else 0.
    pub id: u32,
}

/// The sections a path is in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sections {
    /// How many RCU read sections the program began.
    pub rcu: u32,
    /// Whether sections without preemption or interrupts protect what RCU does, too.
    pub all_protect: bool,
    /// How often preemption was switched off.
    pub preemption_off: u32,
    /// Saved interrupt flags (the ids of their slots), oldest first.
    pub interrupts: Vec<u32>,
}

impl Sections {
    /// What the innermost one is called, where there is one.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Sections { rcu: 1.., .. } => Some("an RCU read section"),
            Sections { preemption_off: 1.., .. } => Some("a section without preemption"),
            Sections { interrupts, .. } if !interrupts.is_empty() => Some("a section without interrupts"),
            _ => None,
        }
    }
}
