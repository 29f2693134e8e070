//! Why an object cannot be sandboxed.

use kiln_program::InsnId;

/// Why an object cannot be sandboxed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The verifier refuses a program for another reason than heap accesses and loops.
    #[error("{source}")]
    Rejected {
        /// The program.
        program: String,
        /// The verifier's answer.
        source: Box<kiln_verifier::Error>,
    },
    /// The transform lacks something.
    #[error("function {function}{}: {what}", .insn.map_or(String::new(), |insn| format!(", instruction {}", insn.0)))]
    Unsupported {
        /// The function.
        function: String,
        /// Where.
        insn: Option<InsnId>,
        /// What.
        what: String,
    },
    /// The result does not verify.
    #[error("the sandboxed program {program} is refused: {source}")]
    Result {
        /// The program.
        program: String,
        /// The verifier's answer.
        source: Box<kiln_verifier::Error>,
    },
}
