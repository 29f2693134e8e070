//! Why a rewritten program may stand for the original.

use std::sync::Arc;

use kiln_equiv::WindowRecord;
use kiln_equiv::simulation::Simulation;
use kiln_program::{Function, FunctionId, InsnId};
use serde::Serialize;

pub use crate::laws::context::Law;

/// One accepted rewrite.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The function it is in.
    #[serde(serialize_with = "function_number")]
    pub function: FunctionId,
    /// The function's name.
    pub function_name: String,
    /// The first instruction that was replaced, in the program as it was before.
    #[serde(serialize_with = "insn_number")]
    pub at: InsnId,
    /// The instruction that the rule or law looked at.
    #[serde(serialize_with = "insn_number")]
    pub site: InsnId,
    /// What justifies it.
    pub because: Because,
    /// The listing that was replaced.
    pub before: Vec<String>,
    /// The listing that replaced it.
    pub after: Vec<String>,
    /// The instructions that were replaced, in the order of the listing.
    #[serde(skip)]
    pub before_ids: Vec<InsnId>,
    /// The instructions that replaced them. One that stays keeps its id.
    #[serde(skip)]
    pub after_ids: Vec<InsnId>,
    /// Slots saved; negative when the rewrite costs some.
    pub slots_saved: i64,
    /// The proof of the changed function, shared by all rewrites of one pass, if evidence is to carry it.
    #[serde(skip)]
    pub simulation: Option<Arc<Simulation>>,
}

/// An accepted change of one function, and the proof that the function does what it did.
#[derive(Clone, Debug)]
pub struct ChainStep {
    /// The function.
    pub function: FunctionId,
    /// The function as it was.
    pub before: Arc<Function>,
    /// The function after the change.
    pub after: Arc<Function>,
    /// If calls were inlined: `before` with these calls written out as instructions, with which `after` was compared.
    pub written_out: Option<Arc<Function>>,
    /// The proof.
    pub simulation: Arc<Simulation>,
}

/// What proposed a rewrite, and what justifies it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// A law of control flow or liveness, by its name.
    Law(Law),
    /// A window proved equal.
    Window {
        /// The rule that proposed it, or `search`.
        proposed_by: String,
        /// How it was proved: `normal-form`, `smt`, or `rule`, whose own proof holds for all operands.
        proved_by: &'static str,
        /// Microseconds the proof took.
        micros: u64,
        /// The question, from which its query is made, if evidence is to carry it.
        #[serde(skip)]
        record: Option<Box<WindowRecord>>,
    },
}

impl Because {
    /// Whether it is a law.
    pub const fn is_law(&self) -> bool {
        matches!(self, Because::Law(_))
    }

    /// The name of the law or rule.
    pub fn name(&self) -> &str {
        match self {
            Because::Law(law) => law.name(),
            Because::Window { proposed_by, .. } => proposed_by,
        }
    }
}

fn function_number<S: serde::Serializer>(id: &FunctionId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(id.0)
}

fn insn_number<S: serde::Serializer>(id: &InsnId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(id.0)
}
