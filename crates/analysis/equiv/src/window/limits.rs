//! How much may be spent on a question, and where its answer is kept.

use std::sync::Arc;

use crate::window::answers::Answers;

/// How much may be spent on one question.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Concrete inputs to try first.
    pub tests: u32,
    /// Steps that the solver may take, as it counts them (about 2,500 per millisecond); 0: it is not asked.
    pub solver_steps: u32,
    /// Whether the proof carries its question as data, from which its query can be made.
    pub keep_query: bool,
    /// Where answers are kept and questions are written down.
    pub answers: Option<Arc<Answers>>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { tests: 24, solver_steps: 125_000, keep_query: false, answers: None }
    }
}
