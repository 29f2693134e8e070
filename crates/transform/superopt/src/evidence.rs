//! Why a rewritten program may stand for the original.

use std::sync::Arc;

use kiln_equiv::WindowRecord;
use kiln_equiv::simulation::Simulation;
use kiln_program::{Function, FunctionId, InsnId};
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
    /// The instructions that were replaced, in the order of the listing.
    #[serde(skip)]
    pub before_ids: Vec<InsnId>,
    /// The instructions that replaced them. One that stays keeps its id.
    #[serde(skip)]
    pub after_ids: Vec<InsnId>,
    /// Slots saved; negative when the rewrite costs some.
    pub slots_saved: i64,
    /// The proof of the function that it changed, shared by all rewrites of one pass, where evidence is to carry it.
    #[serde(skip)]
    pub simulation: Option<Arc<Simulation>>,
}

/// An accepted change of one function, and the proof that the function does what it did.
#[derive(Clone, Debug)]
pub struct ChainStep {
    /// The function.
    pub function: FunctionId,
    /// It as it was.
    pub before: Arc<Function>,
    /// It as it is.
    pub after: Arc<Function>,
    /// Where callees took the place of their calls: `before` with these calls written out in instructions, which is what
    /// `after` was compared with.
    pub written_out: Option<Arc<Function>>,
    /// The proof.
    pub simulation: Arc<Simulation>,
}

/// What proposed a rewrite, and what it was justified by in its place.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// A law of control flow or liveness, by its name in [`Law`].
    Law(Law),
    /// A window proved equal.
    Window {
        /// The rule that proposed it, or `search`.
        proposed_by: &'static str,
        /// How it was proved: `normal-form`, `smt`, or `rule`, whose own proof holds for all operands.
        proved_by: &'static str,
        /// Microseconds the proof took.
        micros: u64,
        /// The question, from which its query is made, where evidence is to carry it.
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
    pub const fn name(&self) -> &'static str {
        match self {
            Because::Law(law) => law.name(),
            Because::Window { proposed_by, .. } => proposed_by,
        }
    }
}

macro_rules! laws {
    ($( $(#[doc = $doc:literal])+ $name:ident = $text:literal; )*) => {
        /// Rewrites justified by control flow or liveness, and proved by simulation (but `AtomicUpdate` is trusted
        /// without `--evidence`).
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
    /// A way on which one operand makes a conjunction zero may lead behind it, if what it skips only computes the other.
    SkippedOperand = "skipped-operand";
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
    /// An address that a register's own is near to may be made by an addition.
    SteppedAddress = "stepped-address";
    /// A register that holds a value on every way here need not be given it again, and may be copied instead of making it.
    AvailableValue = "available-value";
    /// A value may be in another register if nothing else is needed there meanwhile, so that a copy, or what makes the same
    /// value again, may go.
    SharedRegister = "shared-register";
    /// A block that is only jumped to may stand where a jump to it stood.
    Layout = "layout";
    /// A register may be given a constant where ways that give it the same one meet, if nobody reads it on the way.
    LateConstant = "late-constant";
    /// Where a branch finds R0 to be zero, a result may be made of that zero, by an operation that the other path shares.
    NullAnswer = "null-answer";
    /// A branch may go to another block that does the same with the numbers that registers hold on that path.
    AlikeBlock = "alike-block";
    /// A static function that is called in one place may stand there, its stack bytes below its caller's.
    InlinedCall = "inlined-call";
    /// A branch on a mask may mask by itself, with its sides in each other's place.
    TurnedBranch = "turned-branch";
    /// Of two checks of a packet's length that leave for the same place, the larger may stand for both.
    MergedChecks = "merged-checks";
    /// A constant added to the offset of a classic packet load may be part of the load.
    PacketOffset = "packet-offset";
    /// The first element of an array is always found, so what is done where it is not may be anything that loads.
    FoundElement = "found-element";
    /// A load from a context that is plain memory may load only the half that is wanted.
    NarrowLoad = "narrow-load";
    /// The upper half of a register that is zero on every way here need not be cleared.
    ClearedHalf = "cleared-half";
    /// A write of a register that nothing reads afterwards may go, if the instruction does nothing else.
    DeadWrite = "dead-write";
    /// A call of a helper that does nothing but answer may go, if nobody reads the answer.
    UnreadAnswer = "unread-answer";
    /// A store of numbers that its stack bytes hold on every way there may go.
    RepeatedStore = "repeated-store";
    /// A store of a number with zeros above it may write these too, where zeros are or nothing reads; what is then
    /// overwritten unread may go.
    CoveredStore = "covered-store";
    /// A store to stack bytes that nothing reads afterwards may go.
    DeadStore = "dead-store";
    /// A load, an operation and a store of one place may be an atomic operation, if nothing reads what was loaded.
    AtomicUpdate = "atomic-update";
}

fn function_number<S: serde::Serializer>(id: &FunctionId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(id.0)
}

fn insn_number<S: serde::Serializer>(id: &InsnId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(id.0)
}
