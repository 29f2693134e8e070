//! The last word: somebody else's, such as the running kernel's.
//!
//! ```text
//!   original   step   step   step   step   step   end      the judge on the end: refused
//!       0       1      2      3      4      5      6       on 3: taken; on 4: refused
//!                             |
//!                             +--> step? step? step? ...   from 3 on again, the judge asked about each step
//! ```
//!
//! What our verifier accepts, the kernel may still refuse or find harder to verify. It is asked once, at the end: mostly
//! it has nothing to say. Where it has, the states that the run went through are halved until the last that it takes is
//! found; the run goes on from there, and a step that it refuses is halved, blamed and banned like one that our own
//! verifier refuses. So whenever a run is ended, by time or by Ctrl-C, what stands was taken by the judge.

use kiln_program::{Object, ProgramId};

/// Decides about programs of a rewritten object.
pub trait Judge: Sync {
    /// What is wrong with some of an object's programs, compared with what they were: the program, and why. Parts of an
    /// object are judged on several threads at once.
    fn judge(&self, object: &Object, programs: &[ProgramId]) -> Vec<(ProgramId, String)>;
}
