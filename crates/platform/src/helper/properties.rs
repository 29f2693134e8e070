//! The properties in a helper's row, and what follows from them.

use super::prototype::{ArgKind, Prototype, Variant};
use crate::{AttachType, AttachTypes, KernelVersion, PacketAccess, ProgramType, ProgramTypes};

/// One helper function of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Helper {
    /// The number in a call instruction's immediate.
    pub id: u32,
    /// The name, without `bpf_`.
    pub name: &'static str,
    /// The first kernel that has it (for any program type).
    pub since: KernelVersion,
    /// The prototype, unless a variant holds.
    pub prototype: Prototype,
    /// Prototypes that hold for some program types instead.
    pub variants: &'static [Variant],
    /// The program types that may call it.
    pub allowed: ProgramTypes,
    /// The attach types that may call it, for program types of `allowed` that restrict them.
    pub attach_rules: &'static [(ProgramType, AttachTypes)],
    /// The capability that the loader needs for it, in addition to those for the program type.
    pub capability: Capability,
    /// What a call can change besides `r0`.
    pub effect: Effect,
    /// What bounds the time that a call takes.
    pub cost: Cost,
    /// What it reads at addresses that are not memory arguments of its prototype.
    pub follows: Follows,
    /// Whether it writes all of the buffer that it is given.
    pub fills: Fills,
    /// When two calls with the same arguments in one run return the same result.
    pub stable: Stable,
    /// The integer result is a negative error or a number of bytes, at most the size that was passed.
    pub returns_size: bool,
    /// Bits of an integer result that may be one.
    pub answer_bits: u64,
    /// Each call changes the result of the next one, so no call may be removed although the program sees no effect.
    pub moves_on: bool,
    /// What it does depends on the stack frame that it is called in.
    pub needs_frame: bool,
    /// It reads all five argument registers, whatever its prototype says.
    pub reads_all_arguments: bool,
    /// Its callback does not run during the call, but later.
    pub calls_later: bool,
    /// It affects other processes: a test must not call it with invented arguments.
    pub reaches_out: bool,
    /// The call may move or resize the packet: every packet pointer is stale afterwards.
    pub changes_packet_data: bool,
    /// The value in `r0` is a reference that must be released (for map lookups: only from socket maps).
    pub acquires: bool,
    /// The pointer in `r0` depends on the one passed in: releasing that one invalidates this one too.
    pub casts_argument: bool,
    /// It keeps the contract of `bpf_fastcall`: only its argument registers and `r0` change.
    pub fastcall: bool,
    /// What may be wrong if a program does not look at the result; `None` if ignoring it does no harm.
    pub when_ignored: Option<&'static str>,
    /// The helpers that replace it, for one that is deprecated.
    pub replaced_by: Option<&'static str>,
}

/// The capability that the loader of a program needs so that the program may call a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Nothing beyond loading the program.
    None,
    /// `CAP_BPF`.
    Bpf,
    /// `CAP_BPF` and `CAP_PERFMON`.
    PerfMon,
}

/// What a call may change or depend on, for code that moves or removes calls. From the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Nothing but `r0`, which depends on the outside world (time, CPU, chance) and not on memory.
    ResultOnly,
    /// Nothing but `r0`, which depends on memory the program can write (map values, the packet, an argument).
    ReadsMemory,
    /// Writes the memory its arguments point at (see [`ArgKind::writes_memory`]) and nothing else the program sees.
    WritesArguments,
    /// Like [`Effect::WritesArguments`], and changes state that the program cannot see: a ring, a trace, where a packet goes.
    ChangesOutside,
    /// Changes state that the program cannot see, and values of the map in its first argument.
    ChangesItsMap,
    /// Changes anything except the program's stack, of which it reads and writes only what its arguments point to.
    ChangesAllButStack,
    /// Anything. This is the default of a row.
    Any,
}

impl Effect {
    /// Whether a call has an effect other than its result and its arguments.
    pub const fn is_lasting(self) -> bool {
        matches!(self, Effect::ChangesOutside | Effect::ChangesItsMap | Effect::ChangesAllButStack | Effect::Any)
    }
}

/// What bounds the time that a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cost {
    /// A call takes less than a microsecond, whatever its arguments.
    Constant,
    /// A call hashes or compares a key of its map, and takes less than a microsecond besides.
    Key,
    /// As for [`Cost::Key`], and it copies or frees a value of its map.
    Value,
    /// A call copies or fills as many bytes as the argument of this number says, from 1, and takes less than a microsecond besides.
    Bytes(u8),
    /// Nothing that the row states.
    Unknown,
}

/// What a helper reads at addresses that are not memory arguments of its prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Follows {
    /// Nothing.
    Nothing,
    /// Kernel memory at arguments that are numbers in the prototype.
    Numbers,
    /// Memory at addresses that lie in the memory that it reads.
    Memory,
}

/// Whether a helper writes all of its buffer: the memory argument that it only writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fills {
    /// The row does not state that it does.
    Unknown,
    /// If it returns zero.
    OnSuccess,
    /// Also when it fails.
    Always,
}

/// When two calls with the same arguments in one run return the same result, whatever happens in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stable {
    /// The row does not state that they are equal.
    Never,
    /// If the elements of its map keep their addresses ([`MapRules::elements_stay`](crate::MapRules::elements_stay)): the
    /// key's bytes decide, not the key's address.
    InLastingElements,
    /// Always.
    Always,
}

/// The buffer argument of a helper that fills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilledBuffer {
    /// Index of the argument that points to it, from 0.
    pub buffer: usize,
    /// Index of the argument that says its bytes.
    pub bytes: usize,
    /// Whether it is written whole only if the helper returns zero.
    pub on_success: bool,
}

impl Helper {
    /// How many arguments a call of it may read, whatever program makes the call.
    pub fn most_arguments(&self) -> usize {
        if self.reads_all_arguments {
            return 5;
        }
        let variants = self.variants.iter().map(|variant| variant.prototype.args.len());
        variants.fold(self.prototype.args.len(), usize::max)
    }

    /// Whether it runs a function of the program before it returns.
    pub fn runs_callback(&self) -> bool {
        self.takes_callback() && !self.calls_later
    }

    /// Whether it makes a function of the program run later.
    pub fn runs_callback_later(&self) -> bool {
        self.takes_callback() && self.calls_later
    }

    fn takes_callback(&self) -> bool {
        self.prototype.args.contains(&ArgKind::Callback)
    }

    /// The buffer that it writes all of, if it does.
    pub fn filled_buffer(&self) -> Option<FilledBuffer> {
        let on_success = match self.fills {
            Fills::Unknown => return None,
            Fills::OnSuccess => true,
            Fills::Always => false,
        };
        let is_buffer = |kind: &ArgKind| matches!(kind, ArgKind::Memory(memory) if memory.writes && !memory.reads);
        let buffer = self.prototype.args.iter().position(is_buffer)?;
        Some(FilledBuffer { buffer, bytes: buffer + 1, on_success })
    }

    /// Whether programs of this type may call it (at some attach type).
    pub const fn allowed_in(&self, program_type: ProgramType) -> bool {
        self.allowed.contains(program_type)
    }

    /// Whether programs of this type may call it at this attach type.
    pub fn allowed_at(&self, program_type: ProgramType, attach: AttachType) -> bool {
        let named = self.attach_rules.iter().find(|(ruled, _)| *ruled == program_type);
        self.allowed_in(program_type) && named.is_none_or(|(_, attach_types)| attach_types.contains(attach))
    }

    /// Whether a packet pointer may be passed as the argument of this index (counted from 0), a memory argument.
    pub fn accepts_packet(&self, program_type: ProgramType, index: usize) -> bool {
        let prototype = self.prototype_for(program_type);
        let Some(kind) = prototype.args.get(index) else {
            return false;
        };
        let rights = match program_type.packet_access() {
            PacketAccess::None => false,
            PacketAccess::Read => !kind.writes_memory(),
            PacketAccess::ReadWrite => true,
        };
        // The packet of a socket option program is a buffer, which every helper accepts.
        rights && (prototype.packet_memory || program_type == ProgramType::CgroupSockopt)
    }

    /// The prototype that holds in programs of this type.
    pub fn prototype_for(&self, program_type: ProgramType) -> &Prototype {
        self.variants
            .iter()
            .find(|variant| variant.program_types.contains(program_type))
            .map_or(&self.prototype, |variant| &variant.prototype)
    }
}
