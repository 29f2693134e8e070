//! Features of the verifier and the JIT, one row each.
//!
//! Helpers, kernel functions, map types, program types, attach types and context fields have tables of their own; this
//! table has features without a name in the ABI: groups of instructions, flags, special fields of map values, and
//! relaxed rules of the verifier. Features of every kernel since 4.18 ([`Profile::OLDEST`](crate::Profile::OLDEST))
//! have no row.

use crate::KernelVersion;

macro_rules! also {
    () => {
        None
    };
    ($major:literal, $minor:literal) => {
        Some(KernelVersion::new($major, $minor))
    };
}

macro_rules! features {
    ($( $(#[doc = $doc:literal])+
        $name:ident: ($major:literal, $minor:literal), $what:literal $(, also ($older:literal, $of:literal))?; )*) => {
        /// A feature of a release that programs may depend on.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Feature { $( $(#[doc = $doc])+ $name ),* }

        impl Feature {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Feature] = &[$( Feature::$name ),*];

            /// The first release that has it.
            #[inline]
            pub const fn since(self) -> KernelVersion {
                match self { $( Feature::$name => KernelVersion::new($major, $minor) ),* }
            }

            /// An older release that has it, although not all behind it do: what stable updates brought, or lost.
            #[inline]
            pub const fn also(self) -> Option<KernelVersion> {
                match self { $( Feature::$name => also!($($older, $of)?) ),* }
            }

            /// Its name in a sentence: "... is in Linux 6.6 and later".
            pub const fn what(self) -> &'static str {
                match self { $( Feature::$name => $what ),* }
            }

            /// What it is.
            pub const fn meaning(self) -> &'static str {
                match self { $( Feature::$name => concat!($( $doc ),+) ),* }
            }
        }
    };
}

features! {
    // Instructions.
    /// Arithmetic shifts to the right of the lower half.
    HalfArithmeticShifts: (5, 0), "an arithmetic shift of 32 bits";
    /// Branches that compare the lower halves (`-mcpu=v3`).
    HalfBranches: (5, 1), "a branch on 32 bits, of -mcpu=v3,";
    /// The address of a value of a map: the variables of the program and its constants, strings included.
    MapValueAddresses: (5, 2), "the address of a variable or constant of the program";
    /// Atomic instructions other than an addition without a result.
    FetchingAtomics: (5, 12), "an atomic instruction other than the addition to memory";
    /// The address of a variable of which each processor has its own (`SEC(".percpu")`).
    PercpuVariables: (7, 3), "the address of a per-CPU variable";
    /// The address of a function of the program, for callbacks.
    FunctionAddresses: (5, 13), "the address of a function";
    /// The address of a variable of the kernel, by its type.
    KernelVariables: (5, 10), "a typed variable of the kernel";
    /// Kernel functions of modules, through the load call's array of descriptors.
    ModuleKfuncs: (5, 16), "the call of a module's function";
    /// Sign-extending loads and moves, signed division, unconditional byte swaps, long jumps (`-mcpu=v4`).
    CpuV4: (6, 6), "the instruction, of -mcpu=v4,";
    /// The bounded jump of `can_loop` and `cond_break`.
    MayGoto: (6, 9), "may_goto";
    /// Casts between the address spaces of an arena.
    AddressSpaceCast: (6, 9), "addr_space_cast";
    /// Load-acquire and store-release.
    AcquireRelease: (6, 15), "load-acquire and store-release";

    /// Structures of the kernel as memory that a helper or a global function reads.
    StructureMemory: (6, 4), "a structure of the kernel as memory";
    /// Tail calls and tries in programs that may sleep.
    SleepingTriesAndTailCalls: (7, 2), "a trie or tail call in a program that may sleep";
    /// What a global function takes as memory is checked for writes, too, so that structures of the kernel are refused.
    GlobalMemoryIsWritten: (7, 2), "the check that a global function may write to what it takes as memory";
    /// A number plus a stack pointer is known to lead into the pointer's frame. Before, and before late
    /// updates of older releases (6.12.117 knows it, 6.18.44 does not), it was taken for an address in the frame of the main function.
    SumsKeepFrames: (7, 2), "the frame of a number plus a stack pointer";
    /// Immediates stored to a context. Before, only registers were.
    ContextImmediates: (6, 4), "an immediate stored to a context";

    // How programs are loaded.
    /// Branches back to an instruction before them.
    Loops: (5, 3), "a loop";
    /// Functions that are verified once, by themselves. Before, every call is followed.
    GlobalFunctions: (5, 6), "verifying a global function by itself";
    /// Tail calls in programs that call functions.
    TailCallsWithFunctions: (5, 10), "a tail call in a program that calls functions";
    /// Classic packet loads in programs that call functions.
    PacketLoadsWithFunctions: (5, 10), "a classic packet load in a program that calls functions";
    /// Tracing and LSM programs that may sleep.
    SleepablePrograms: (5, 10), "a program that sleeps";
    /// XDP programs that take frames in fragments (`BPF_F_XDP_HAS_FRAGS`).
    XdpFragments: (5, 18), "XDP on frames in fragments (xdp.frags)";
    /// Iterators that may sleep.
    SleepableIterators: (5, 19), "an iterator that sleeps";
    /// Kprobe and uprobe programs that may sleep.
    SleepableUprobes: (6, 0), "a uprobe program that sleeps";
    /// `struct_ops` programs that may sleep.
    SleepableStructOps: (6, 5), "a struct_ops program that sleeps";

    // Special fields of map values.
    /// `struct bpf_spin_lock`.
    SpinLocks: (5, 1), "a spin lock in a map value";
    /// Pointers to kernel objects in map values.
    KernelPointers: (5, 19), "a kernel pointer in a map value";
    /// `struct bpf_list_head`.
    Lists: (6, 2), "a linked list in a map value";
    /// `struct bpf_rb_root`.
    Trees: (6, 3), "a red-black tree in a map value";
    /// `struct bpf_refcount`.
    ReferenceCounts: (6, 4), "a reference count in a local object";
    /// The type tags `kptr_untrusted` and `kptr`; before, they were `kptr` and `kptr_ref`.
    KptrTags: (6, 4), "the type tag kptr for a pointer that owns its object";
    /// Pointers to per-CPU objects in map values.
    PercpuPointers: (6, 7), "a per-CPU pointer in a map value";
    /// `struct bpf_wq`.
    WorkQueues: (6, 10), "a work queue in a map value";
    /// Pointers to user memory in task storage.
    UserPointers: (6, 13), "a user pointer in a map value";
    /// `struct bpf_res_spin_lock`.
    ResilientLocks: (6, 15), "a resilient spin lock in a map value";
    /// `struct bpf_task_work`.
    TaskWork: (6, 18), "task work in a map value";

    // Rules that became laxer.
    /// The range of a number decides a comparison with a constant. Before, only a known number did, and only whether it is
    /// equal.
    OutcomesOfRanges: (5, 0), "knowing the outcome of a comparison with a constant by the range";
    /// A copy of a number's lower half is known where the number is.
    HalfCopies: (5, 0), "knowing a copy of a number's lower half";
    /// A number whose value is known is remembered on the stack, and a pointer that is overwritten in part becomes bytes
    /// that may be read.
    NumbersOnStack: (5, 3), "remembering a known number on the stack";
    /// A helper is passed the stack at an offset that is not constant.
    VariableStackArguments: (5, 3), "passing a helper the stack at a variable offset";
    /// A comparison of a packet pointer teaches callers too.
    PacketsOfCallers: (5, 0), "learning of a caller's packet pointer in a function";
    /// A pointer that is not null decides a comparison with 0.
    OutcomesOfPointers: (5, 8), "knowing that a pointer is not 0";
    /// The exclusive or of two numbers is known where they are.
    KnownXor: (5, 10), "knowing the exclusive or of two numbers";
    /// 0 is added to a pointer to a map.
    MapPointerArithmetic: (5, 10), "adding 0 to a pointer to a map";
    /// The lower halves of packet pointers are subtracted.
    HalfPointerDifferences: (5, 8), "subtracting 32 bits from a pointer";
    /// A helper reads stack that holds a pointer. Since 5.12; the stable updates of 5.10 have it too.
    PointersInArguments: (5, 10), "passing a helper stack that holds a pointer";
    /// A number in a register that is known decides a comparison as a constant does.
    OutcomesOfRegisters: (5, 3), "knowing the outcome of a comparison with a register";
    /// Values of frozen read-only maps are known.
    ReadOnlyValues: (5, 5), "knowing the values of read-only maps";
    /// Programs may read the kernel's structure behind a pointer to a map.
    MapStructures: (5, 9), "reading the structure of a map";
    /// A number whose range is known is remembered on the stack. Before, only constants were.
    RangesOnStack: (5, 10), "remembering the range of a number on the stack";
    /// What a comparison teaches of a number holds for its copies.
    CopiesLearn: (5, 10), "learning through copies of a number";
    /// A packet pointer that was found to be beyond the packet's end decides later comparisons.
    PacketsBeyondEnd: (5, 10), "knowing that a pointer is beyond the packet's end";
    /// The stack may be accessed at an offset that is not constant. Since 5.12; the stable updates of 5.10 have it too.
    VariableStackOffsets: (5, 10), "an access of the stack at a variable offset";
    /// A pointer to a number that a hook gets is a number. Before, programs could not read it.
    NumberPointers: (5, 17), "a hook's argument that points to a number";
    /// The lower half of a number is a copy of it where the upper half is 0.
    NarrowCopies: (6, 5), "learning through a copy of a number's lower half";
    /// A part of a context field may be read that does not begin where the field does.
    PartsOfFields: (5, 0), "reading a part of a context field behind its start";
    /// Programs on outgoing packets of a group of processes may return 2 and 3.
    EgressFlags: (5, 3), "returning more than 1 from an egress hook";
    /// Programs on `bind` may return 2 and 3.
    BindFlags: (5, 12), "returning more than 1 from a bind hook";
    /// Privileged programs may read stack bytes that were never written. Since 6.3; the stable updates of 6.1 have it
    /// too, and those of 5.10, but not those of 5.15.
    UninitializedStackReads: (6, 1), "reading stack that was never written", also (5, 10);
    /// Stack that was never written may be read also below all that the function used so far.
    DeepStackReads: (6, 1), "reading stack below all that was used";
    /// What a helper returns that fails or tells a size is one range. The stable updates of 5.4 follow both on their own.
    OneResult: (5, 5), "following what a helper returns as one range", also (4, 18);
    /// The lower half of a number has ranges of its own. Before, it had those of the number, where its upper half is known.
    HalfRanges: (5, 7), "knowing the range of a number's lower half";
    /// `bpf_get_task_stack` returns no more than the size that it was passed.
    TaskStackResults: (5, 13), "knowing the range of bpf_get_task_stack";
    /// Any instruction may lead back to one before it. Before, only branches did: a loop could not be entered in its
    /// middle. Since 6.7; the stable updates of 6.6 have it too.
    LoopsByFalling: (6, 6), "a loop that is closed by other instructions than branches";
    /// A loop is infinite only if a turn changes nothing at all. Before, numbers on the stack that nothing depended on did
    /// not count.
    ExactLoops: (6, 8), "a loop that changes only numbers on the stack";
    /// A signed range across 0 and an unsigned one that meets it at only one end narrow each other. Seen in 6.12.117, not
    /// in 6.1.
    CrossedSigns: (6, 12), "knowing which end of a signed range a number is at";
    /// Global functions may have their arguments described by tags (`__arg_ctx`, `__arg_nonnull`).
    ArgumentTags: (6, 8), "an argument tag of a global function";
    /// A global function that is never called is not verified.
    LazyGlobals: (6, 8), "leaving out global functions that are never called";
    /// Whether numbers are equal is known where their ranges do not meet, and any comparison with a constant on the left.
    OutcomesByRange: (6, 4), "knowing the outcome of a comparison by ranges";
    /// A comparison of two numbers teaches their ranges also if neither is constant, and if they are unequal.
    RangeComparisons: (6, 8), "learning from a comparison of two variables";
    /// A pointer that was read from a structure may be relied on less than the pointer to the structure.
    WalksLoseTrust: (6, 4), "trusting a pointer that was read from a structure less than its structure";
    /// Only programs with a GPL-compatible license read structures of the kernel. 6.1 does not have it, 6.12 has.
    StructuresNeedGpl: (6, 2), "keeping kernel structures from programs that are not GPL-compatible";
    /// A comparison of two pointers shows that one is not null if the other is not.
    PointerComparisons: (6, 2), "learning from a comparison of two pointers that one is not null";
    /// A number of less than eight bytes that is stored to the stack is known when loaded again.
    NarrowSpills: (5, 16), "remembering a number of less than eight bytes on the stack";
    /// A number on the stack is known where a part of it is loaded.
    NarrowFills: (6, 9), "remembering a part of a number on the stack";
    /// Copies that differ by a constant learn from one another.
    LinkedOffsets: (6, 11), "learning through copies that differ by a constant";
    /// The stack of a frame counts in steps of 16 bytes, not 32, where programs are compiled to machine code.
    FineStackSum: (6, 8), "counting a frame's stack in steps of 16 bytes";
    /// LSM programs may only return what their hook allows.
    HookReturnValues: (6, 12), "holding an LSM program's return value to its hook";
    /// Nothing is known of a 32-bit result that the verifier does not follow. Before, the upper half was known to be zero
    /// where the operand is a constant.
    UnknownHalves: (6, 10), "knowing nothing of a 32-bit division";
    /// What replaces a function may change the packet only if the function may, and sleep only if it may.
    ReplacedEffects: (6, 12), "holding a program to what the function that it replaces may do";
    /// Spills around a call that keeps the registers are removed (`bpf_fastcall`).
    FastCalls: (6, 12), "removing spills around a call";
    /// Programs that may interrupt others have one stack per function.
    PrivateStacks: (6, 13), "a stack for each function";
    /// A lookup in an array with a constant key within its bounds is known to find a value.
    ConstantArrayKeys: (6, 14), "knowing that an array has a value for a constant key";
    /// The range of a number's lower half narrows that of the number. Before, it did only where the upper half is 0, after an
    /// operation or comparison of lower halves.
    HalvesNarrow: (6, 8), "narrowing a number by the range of its lower half";
    /// At most six copies of two compared numbers learn from the comparison. The others stop being copies.
    FewLinks: (6, 12), "noting only six copies of compared numbers";
    /// Copies that differ by a negative constant, or in their lower halves, learn from one another.
    LinkedDifferences: (6, 18), "learning through copies that differ by what was subtracted";
    /// An unknown bit of a factor leaves those bits of the product known that it does not change.
    ProductBits: (6, 18), "knowing the bits of a product";
    /// A call of one of the program's functions counts as reading r1 to r5, whatever the function reads.
    CallsReadArguments: (6, 18), "taking every argument of a call as read";
    /// A number that is 0 or -1 is followed as two where bits of it are cleared or set by a constant.
    SignForks: (6, 18), "following 0 and -1 one by one";
    /// The path on which a packet load in a function fails is followed, but precision is not traced back over it. Known
    /// of 6.18.44, 7.0.13 and 7.1.13. 6.18.15 and 6.19.14 do not follow it, and 6.12.117 traces it.
    FailedPacketLoads: (6, 18), "following a function's return where a packet load fails";
    /// Precision is traced back over a packet load that failed in a function. 7.2 does so.
    TracedPacketLoads: (7, 2), "tracing numbers back over a packet load that fails in a function";
    /// Kernel functions take only pointers that may be relied on, and none that may be null, unless they say otherwise.
    TrustedByDefault: (7, 0), "refusing untrusted and null pointers to every kernel function";
    /// Jumps to an address from a table (`gotox`, maps of type `insn_array`).
    IndirectJumps: (6, 19), "an indirect jump";
    /// An indirect jump may be a function's last instruction.
    JumpsAtTheEnd: (7, 2), "a function that ends with an indirect jump";
    /// The address of an instruction is remembered on the stack. Before, it was a number when it was read back.
    AddressesOnStack: (7, 3), "remembering the address of an instruction on the stack";
    /// The range of a quotient or remainder is known where the divisor is a constant.
    DivisionRanges: (7, 0), "knowing the range of a number divided by a constant";
    /// Global functions may return nothing.
    VoidGlobals: (7, 1), "a global function that returns nothing";
    /// The context of a `syscall` program is memory: any offset, any alignment, also passed to helpers.
    SyscallContextMemory: (7, 1), "an access of a syscall program's context at any offset";
    /// An arena pointer may be either operand of any arithmetic. The stable updates of 6.18 have it too.
    ArenaOperands: (7, 0), "an arena pointer as the second operand", also (6, 18);
    /// Tracing programs that may interrupt others do not free objects with fields that an interrupt could find half freed.
    SafeDrops: (7, 2), "refusing to free an object with such fields";
    /// Another reference is taken to an object by the pointer to its start.
    WholeObjects: (7, 2), "refusing to take a reference by a pointer into an object";
    /// `bpf_set_retval` takes only what the hook may return.
    CheckedSetRetval: (7, 2), "holding bpf_set_retval to what the hook may return";
    /// A pointer to a pointer that a hook gets is a number.
    PointersAsNumbers: (7, 2), "a hook's argument that points to a pointer";
    /// Raw tracepoints may call the kernel functions that tracepoints may.
    RawTracepointKfuncs: (7, 2), "calling tracing functions from a raw tracepoint";
    /// Comparing a pointer with a register that holds 0 tells whether it is null.
    ComparisonsWithZero: (7, 2), "learning whether a pointer is null from a register that holds 0";
    /// A dynptr that must be given back may be overwritten while a clone of it is there.
    ClonedDynptrs: (7, 2), "overwriting a dynptr that has a clone";
    /// Sockets are put into maps by programs only that cannot hold a lock of theirs: no packet filters.
    SafeSocketMaps: (7, 3), "refusing to change a map of sockets in packet programs";
    /// Nothing but its return ends a callback: neither a tail call nor a classic packet load of what it calls.
    CallbacksReturn: (7, 3), "refusing tail calls and packet loads that end a callback";
    /// Global functions that may change the packet are not passed pointers into it.
    PacketsStay: (7, 3), "refusing to pass a packet pointer to a function that changes the packet";
    /// Locks and sections without preemption or interrupts protect what RCU does; programs that sleep lose it behind the
    /// last of them.
    SectionsProtect: (7, 3), "ending what RCU protects with the last lock or section";
    /// A stack trace of user space sleeps, in programs that may.
    SleepingTraces: (7, 3), "refusing a stack trace in a section of a program that may sleep";
    /// A 64-bit instruction computes with arena pointers on all paths or on none.
    ArenaArithmetic: (7, 3), "refusing one instruction for arena pointers and numbers";
    /// Tracing programs may use maps with timers.
    TracingTimers: (7, 2), "a timer in a map of a tracing program";
    /// The type of a global function's parameter or result says that it is an arena pointer (`__arena`).
    ArenaTypes: (7, 2), "an arena pointer of a global function, by its type";
    /// `bpf_kptr_xchg` may be called while a lock is held.
    ExchangesUnderLock: (7, 2), "exchanging a kernel pointer while a lock is held";
    /// RCU read sections nest.
    NestedRcu: (7, 0), "an RCU read section in another one";
    /// What a comparison proves of a packet pointer counts from the packet's start, not from the part of the pointer's offset
    /// that is not constant.
    WholePacketOffsets: (7, 2), "subtracting a variable from a checked packet pointer";
    /// Global functions that do not sleep may be called with preemption or interrupts switched off.
    GlobalsInSections: (6, 15), "calling a global function with preemption or interrupts switched off";
    /// A number to which a pointer to memory that may fault is added becomes the pointer.
    PointersAddedToNumbers: (7, 2), "adding a pointer to memory that may fault to a number";
    /// LSM programs that may sleep on the hooks of block devices.
    SleepableDeviceHooks: (7, 2), "an LSM program on a block device that sleeps";
    /// Bytes of a spilled 0 are known to be 0 wherever they are read.
    SpilledZeros: (7, 3), "knowing the bytes of a spilled zero";
    /// Pointers to dynptrs and tracepoint buffers are remembered on the stack.
    SpilledBuffers: (7, 3), "remembering a pointer to a dynptr or tracepoint buffer on the stack";
    /// One load reads memory on one path, and a structure or memory that may fault on another.
    MixedLoads: (7, 3), "loading from memory and from what may fault";
    /// A local object is read that nothing keeps alive any more.
    LoadsOfStaleObjects: (7, 3), "reading a local object behind its RCU section";
    /// The range of what `bpf_get_retval` returns is known.
    KnownRetval: (7, 2), "knowing the range of bpf_get_retval";
    /// Only the frames of functions that are not global are counted, from the last global one on.
    GlobalsBeginFrames: (7, 2), "a chain of global functions of more than 8 frames";
    /// Kprobe programs may write the registers of what they interrupt.
    WrittenRegisters: (7, 2), "writing to the registers of a kprobe's function";
    /// Tracepoint programs that may sleep.
    SleepableTracepoints: (7, 2), "a tracepoint program that sleeps";
    /// Registers that nobody reads are forgotten before states are compared (Linux 7.3 is the first that was seen to do so).
    UnreadForgotten: (6, 19), "calling a loop infinite that changes only unread registers";
    /// How a register compares with itself is known. Before, what holds of the one side was learned of the other one, too.
    ComparisonsWithItself: (6, 19), "knowing how a register compares with itself";
    /// A tree can be queried with a node of an object that the program owns.
    OwnedNodes: (6, 16), "asking a tree about a node that is owned";
}
