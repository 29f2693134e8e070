//! The critical sections that a path is in.

/// The sections a path is in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sections {
    /// An RCU read section that the program began.
    pub rcu: bool,
    /// How often preemption was switched off.
    pub preemption_off: u32,
    /// Saved interrupt flags (the ids of their slots), oldest first.
    pub interrupts: Vec<u32>,
}

impl Sections {
    /// What the innermost one is called, where there is one.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Sections { rcu: true, .. } => Some("an RCU read section"),
            Sections { preemption_off: 1.., .. } => Some("a section without preemption"),
            Sections { interrupts, .. } if !interrupts.is_empty() => Some("a section without interrupts"),
            _ => None,
        }
    }
}
