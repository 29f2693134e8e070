//! Why a rewritten program may stand for the original.

use kiln_program::{FunctionId, InsnId};
use serde::Serialize;

/// One accepted rewrite.
#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    /// The function it is in.
    #[serde(serialize_with = "function_number")]
    pub function: FunctionId,
    /// The function's name.
    pub function_name: String,
    /// The first instruction it concerned, in the program as it was before.
    #[serde(serialize_with = "insn_number")]
    pub at: InsnId,
    /// The instruction that whoever proposed it looked at.
    #[serde(serialize_with = "insn_number")]
    pub site: InsnId,
    /// What justifies it.
    pub because: Because,
    /// The listing that was replaced.
    pub before: Vec<String>,
    /// The listing that replaced it.
    pub after: Vec<String>,
    /// Slots saved; negative when the rewrite costs some.
    pub slots_saved: i64,
}

/// What justifies a rewrite.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// A law of control flow or liveness, by its name in [`Law`].
    Law(Law),
    /// A window proved equal.
    Window {
        /// The rule that proposed it, or `search`.
        proposed_by: &'static str,
        /// How it was proved: `normal-form` or `smt`.
        proved_by: &'static str,
        /// The query in SMT-LIB2, where a solver was asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        query: Option<String>,
        /// Microseconds the proof took.
        micros: u64,
    },
}

impl Because {
    /// The name of the law or rule.
    pub const fn name(&self) -> &'static str {
        match self {
            Because::Law(law) => law.name(),
            Because::Window { proposed_by, .. } => proposed_by,
        }
    }
}

macro_rules! laws {
    ($( $(#[doc = $doc:literal])+ $name:ident = $text:literal; )*) => {
        /// The laws that justify rewrites without a solver. Each is checked where it is applied, on the graph and
        /// the facts, and tested by running original and rewritten programs side by side.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Law { $( $(#[doc = $doc])+ $name ),* }

        impl Law {
            /// All laws.
            pub const ALL: &'static [Law] = &[$( Law::$name ),*];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self { $( Law::$name => $text ),* }
            }

            /// What it says.
            pub const fn statement(self) -> &'static str {
                match self { $( Law::$name => concat!($( $doc ),+) ),* }
            }
        }
    };
}

laws! {
    /// No path reaches the instruction, so it may go.
    Unreachable = "unreachable";
    /// One side of a branch is reached by no path, or constants decide it, so the branch always goes the other way.
    ConstantBranch = "constant-branch";
    /// A branch to an unconditional jump may go where the jump goes.
    ThreadedJump = "threaded-jump";
    /// A branch may go past branches that are decided on its way, if nothing computed on the way is needed there.
    ThreadedBranch = "threaded-branch";
    /// A branch to the instruction that follows it anyway does nothing; nor does an exit before an exit.
    JumpToNext = "jump-to-next";
    /// A branch over an unconditional jump may be the opposite branch to where the jump goes.
    InvertedBranch = "inverted-branch";
    /// A jump to an exit may be an exit.
    JumpToExit = "jump-to-exit";
    /// Two runs of equal instructions that go on at the same place may be one run.
    SharedTail = "shared-tail";
    /// An instruction that both sides of a branch begin with may run before it, if the branch does not read its result.
    SharedHead = "shared-head";
    /// One side of a branch that only sets registers may run before it, if the other side does not read them.
    HoistedArm = "hoisted-arm";
    /// Addresses that are made several times, or lie in one data section, may be made once, in a register that is free.
    KeptAddress = "kept-address";
    /// A register that holds a value on every way here need not be given it again, and may be copied instead of making it.
    AvailableValue = "available-value";
    /// A block that is only jumped to may stand where a jump to it stood.
    Layout = "layout";
    /// A write of a register that nothing reads afterwards may go, if the instruction does nothing else.
    DeadWrite = "dead-write";
    /// A store to stack bytes that nothing reads afterwards may go.
    DeadStore = "dead-store";
}

fn function_number<S: serde::Serializer>(id: &FunctionId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(id.0)
}

fn insn_number<S: serde::Serializer>(id: &InsnId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(id.0)
}
