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
//! verifier refuses. It is asked before the end too: at half of the time, at half of what is left then, after every
//! few states, and before searches that only time ends. So a refusal when no time is left costs what came after the last state that it took,
//! and more time cannot give less. Whenever a run is ended, by time or by Ctrl-C, what stands was taken by the judge.

use kiln_program::{Object, ProgramId};

/// Decides about programs of a rewritten object.
pub trait Judge: Sync {
    /// What is wrong with some of an object's programs, compared with what they were: the program, and why. Parts of an
    /// object are judged on several threads at once.
    fn judge(&self, object: &Object, programs: &[ProgramId]) -> Vec<(ProgramId, String)>;

    /// Whether it has an opinion on a program. Of others, our own verifier's count of instructions is what a goal is held
    /// to.
    fn knows(&self, program: ProgramId) -> bool {
        let _ = program;
        true
    }
}
