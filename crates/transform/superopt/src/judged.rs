//! The last check of a result by another judge, such as the running kernel.
//!
//! ```text
//!   original   step   step   step   step   step   end      the judge on the end: refused
//!       0       1      2      3      4      5      6       on 3: taken; on 4: refused
//!                             |
//!                             +--> step? step? step? ...   from 3 on again, the judge asked about each step
//! ```
//!
//! What our verifier accepts, the kernel may still refuse or find harder to verify. It is asked at the end, and usually
//! accepts the result. If it refuses, the states of the run are bisected until the last one that it accepts is found.
//! The run goes on from there, and a step that the judge refuses is bisected, blamed and banned as if our own verifier
//! had refused it. The judge is also asked before the end: at half of the time, at half of what is left then, after
//! every few states, and before searches that only time ends. So a refusal when no time is left loses only what came
//! after the last accepted state, and more time cannot give less. Whenever a run is ended, by time or by Ctrl-C, the
//! judge has accepted its result.

use kiln_program::{Object, ProgramId};

/// Decides about programs of a rewritten object.
pub trait Judge: Sync {
    /// Returns what is wrong with programs of an object, compared with the original: the program and the reason. It is
    /// called from several threads, one per part of the object.
    fn judge(&self, object: &Object, programs: &[ProgramId]) -> Vec<(ProgramId, String)>;

    /// Whether it can judge a program. For other programs the goal is checked with our own verifier's count of
    /// instructions.
    fn knows(&self, program: ProgramId) -> bool {
        let _ = program;
        true
    }
}
