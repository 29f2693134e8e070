//! What following paths shows of the program as a whole.

use crate::code::Code;
use crate::options::Options;
use crate::path::liveness::Liveness;
use crate::path::precision::Origins;
use crate::path::{Accesses, Noted, Trail};

/// What all paths so far showed. Every path adds to it; the search and the facts read it.
pub(crate) struct Findings {
    /// Where numbers come from, and which of them matter.
    pub origins: Origins,
    /// Which stack slots may still be read.
    pub liveness: Liveness,
    /// What instructions do to the stack, where facts are wanted.
    pub accesses: Option<Accesses>,
    /// Where paths have been, for kernels that lose numbers over packet loads that fail in a function.
    pub trail: Option<Trail>,
    /// What was seen of the program.
    pub noted: Noted,
}

impl Findings {
    pub(crate) fn new(code: &Code<'_>, options: &Options) -> Findings {
        Findings {
            origins: Origins::new(),
            liveness: Liveness::default(),
            accesses: (!options.skip_facts).then(|| Accesses::new(code.ops.len())),
            trail: (options.loses_numbers() && code.has_packet_loads_in_functions()).then(Trail::new),
            noted: Noted::new(code),
        }
    }
}
