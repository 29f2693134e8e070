//! The proof that a simulation finds.

use kiln_program::InsnId;

use crate::simulation::relation_record::RelationRecord;
use crate::simulation::segment_record::SegmentRecord;
use crate::window::record::FactsRecord;

/// A proof that a function after a pass does what it did before.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Segments in which the functions differ, where they are kept.
    pub segments: Vec<SegmentRecord>,
    /// Places where both functions meet, where segments are kept.
    pub meetings: Vec<Meeting>,
    /// Segments that are the same instructions on the same values in both.
    pub identical: usize,
    /// Segments proved by equal normal forms.
    pub normalized: usize,
    /// Segments proved by the solver.
    pub smt: usize,
}

/// A place in each function that is reached together, and what holds there.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// The next instruction of each function.
    pub at: [InsnId; 2],
    /// What the proof shows to hold.
    pub relation: RelationRecord,
    /// What the verifier says of the old function there: a premise.
    pub facts: Option<FactsRecord>,
}
