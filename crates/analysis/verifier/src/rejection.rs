//! What a rejection reports: the place, the reason, and how the path came there.

use std::fmt;

use kiln_isa::Reg;
use kiln_platform::MapType;
use kiln_program::{Clean, InsnId, SourceLine};

use crate::reason::Reason;

/// A program that is unsafe, or breaks a rule.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// The program's name.
    pub program: String,
    /// Where.
    pub insn: InsnId,
    /// Position of the instruction in its function, and the function's name.
    pub position: (String, usize),
    /// The instruction's text.
    pub listing: String,
    /// The source line, where known.
    pub line: Option<SourceLine>,
    /// Why.
    pub reason: Reason,
    /// What exactly, with registers and numbers.
    pub message: String,
    /// What the running kernel's verifier (Linux 6.18) prints as its reason, where that is known.
    pub kernel_message: Option<String>,
    /// How it came to this, in the order of the path; empty unless [`crate::Options::explain`] asks for it.
    pub story: Vec<StoryStep>,
    /// What fixes this case; [`Reason::fix`] unless [`crate::Options::explain`] asks for more.
    pub help: String,
    /// The numbers and names of the help, for who proposes an edit of the source.
    pub wanted: Wanted,
    /// The data for stories and for the kernel's message.
    pub(crate) cause: Cause,
}

impl Rejection {
    /// Whether the instruction is refused only because its address is a heap's on one path and something else's on another: the kernel
    /// translates it to one kind of access.
    pub fn is_of_two_kinds(&self) -> bool {
        self.cause.case == Case::TwoKinds
    }

    /// Whether it is too complex because too many branches wait, and not because too many instructions are explored.
    pub fn is_of_waiting_branches(&self) -> bool {
        self.cause.case == Case::Branches
    }

    /// Whether Linux 6.18 is known to accept it all the same: by a bug, which a later release mends.
    pub fn kernel_accepts(&self) -> bool {
        self.cause.case == Case::NullTaken
    }

    /// By how many bytes the pointer was moved, if the instruction is refused only because it was moved at all.
    pub fn moved_by(&self) -> Option<i64> {
        if let Case::Moved { by } = self.cause.case { Some(by) } else { None }
    }
}

/// What would make a rejected instruction acceptable, as far as it is known. Nothing relies on it: an edit that is made
/// from it is checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Bytes of the packet that must be there: from its start, if that is a constant, and from the pointer.
    pub packet_bytes: Option<(Option<i64>, i64)>,
    /// The number of elements below which an index must be.
    pub elements: Option<i64>,
    /// Bytes of the memory that a size is about.
    pub room: Option<u64>,
    /// The helper and the number of its argument, from 0.
    pub argument: Option<(&'static str, usize)>,
    /// The helper that releases what is held.
    pub release: Option<&'static str>,
    /// The map that the instruction is about.
    pub map: Option<String>,
    /// What may be returned.
    pub returned: Option<[i64; 2]>,
}

/// What is at fault, as data. The message is text for people and is never parsed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cause {
    /// The register, where it is not the one that the instruction itself names first.
    pub reg: Option<Reg>,
    /// The exact case, if the kernel distinguishes more cases than there are reasons.
    pub case: Case,
}

/// A case for which the kernel has a message of its own.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Case {
    /// Nothing beyond the reason.
    #[default]
    Plain,
    /// An access of that many bytes through an argument.
    Access { bytes: u64 },
    /// An instruction that is about different kinds of memory on different paths.
    TwoKinds,
    /// An access through a pointer that may not be moved, and was moved by a constant.
    Moved { by: i64 },
    /// 0 is passed where a global function's parameter is never null, which kernels before 7.3 do not notice.
    NullTaken,
    /// Part of a spilled pointer is loaded.
    PartOfSpilledPointer,
    /// Part of a pointer is stored.
    PartOfPointer,
    /// A pointer to a stack is stored in a caller's frame.
    StackPointerInCaller,
    /// The kind of pointer allows no arithmetic at all.
    NoArithmetic,
    /// Something is subtracted from a stack pointer.
    StackSubtraction,
    /// A sum for which the kernel forgets into whose frame its pointer points (before `Feature::SumsKeepFrames`,
    /// `adjust_ptr_min_max_vals` copies no `frameno`).
    LostFrame,
    /// `bpf_get_local_storage` takes no flags.
    StorageFlags,
    /// A constant string has no end.
    NotTerminated,
    /// A format that the kernel cannot carry out.
    Format,
    /// A map is passed with a value of another one.
    OtherMap,
    /// The helper takes no packet memory.
    NoPacketMemory,
    /// A size must be a constant.
    NotConstant,
    /// A size may be negative.
    Negative,
    /// A size may be 0.
    Zero,
    /// The helper may sleep, the program may not.
    Sleeps,
    /// A second map of a type of which a program may use one.
    SecondMap { of: MapType },
    /// Programs of this type may not write to packets.
    PacketIsReadOnly,
    /// Programs may not read from the map.
    WriteOnlyMap,
    /// A dynptr that must be given back is overwritten.
    DynptrOverwritten,
    /// A helper may write to the dynptr at this offset from the frame pointer.
    DynptrWritten { at: i32 },
    /// A pointer to a dynptr was moved.
    DynptrMoved,
    /// There is no dynptr.
    NoDynptr,
    /// It would end a callback without a return.
    InCallback,
    /// A packet pointer is passed to a function that may change the packet.
    PacketMayChange,
    /// There is no such iterator.
    NoIterator { name: String },
    /// A second lock is taken.
    SecondLock,
    /// Another lock is given up than is held.
    OtherLock,
    /// A lock is given up, and none is held.
    NoLock,
    /// A global function is called under a lock.
    GlobalUnderLock,
    /// Something is called under a lock that may not be.
    CallUnderLock,
    /// Too many branches wait to be explored.
    Branches,
    /// What a program may return.
    Returned { lowest: i64, highest: i64 },
    /// What a callback may return.
    CallbackReturned { lowest: i64, highest: i64 },
    /// The frame pointer is written.
    FramePointer,
    /// That many bytes of a jump table's entry are read.
    PartOfEntry { bytes: u32 },
    /// The function returns no number.
    NoNumber,
    /// The kernel gets no types of the functions.
    NoFunctionTypes,
    /// The kernel gets no types with the program.
    NoProgramTypes,
    /// Programs of this type may have no map with such a field.
    Field { name: &'static str },
}

/// One step on the way to a rejection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoryStep {
    /// The instruction.
    pub insn: InsnId,
    /// The function, and the instruction's position in it.
    pub position: (String, usize),
    /// The instruction's text.
    pub listing: String,
    /// The source line, where known.
    pub line: Option<SourceLine>,
    /// Which part it plays.
    pub part: Part,
    /// What happens here.
    pub text: String,
    /// Whether it says only what led up to the rejection. An edit of its place would not mend the program.
    pub aside: bool,
    /// How a value is lost here, for the advice.
    pub(crate) loss: Option<Loss>,
}

/// How a call makes a value unusable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// It destroys the register.
    Destroyed,
    /// It may move the packet that the pointer points into.
    PacketMoved,
    /// It gives up what the pointer points to.
    GivenUp,
}

/// What a step of a story is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The value, the resource or the lock comes from here.
    Origin,
    /// It is passed on.
    Copy,
    /// A pointer is moved by something variable.
    Moved,
    /// Something is learned of it.
    Bounded,
    /// Something is forgotten of it, or it is destroyed.
    Lost,
    /// The path takes this direction at a branch.
    Branch,
    /// The function that it happens in is called here.
    Call,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 7] =
        [Part::Origin, Part::Copy, Part::Moved, Part::Bounded, Part::Lost, Part::Branch, Part::Call];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Origin => "origin",
            Part::Copy => "copy",
            Part::Moved => "moved",
            Part::Bounded => "bounded",
            Part::Lost => "lost",
            Part::Branch => "branch",
            Part::Call => "call",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} is rejected: {}", Clean(&self.program), self.reason.code())?;
        let (function, position) = &self.position;
        writeln!(f, "  at instruction {position} of {}: {}", Clean(function), Clean(&self.listing))?;
        if let Some(line) = &self.line {
            writeln!(f, "  {}:{}: {}", Clean(&line.file), line.line, Clean(line.text.trim()))?;
        }
        writeln!(f, "  {}", Clean(&self.message))?;
        for (number, step) in self.story.iter().enumerate() {
            let place = match &step.line {
                Some(line) => format!("{}:{}", line.file, line.line),
                None => format!("{} instruction {}", step.position.0, step.position.1),
            };
            writeln!(f, "  {}. {}: {}", number + 1, Clean(&place), Clean(&step.text))?;
        }
        if let Some(message) = &self.kernel_message {
            writeln!(f, "  the kernel: {}", Clean(message))?;
        }
        write!(f, "  usually: {}", self.help)
    }
}
