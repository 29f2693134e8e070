//! Why programs are rejected: one row for each reason, with its stable code, its meaning and its usual fix.

use std::fmt;

macro_rules! reasons {
    ($( $(#[doc = $doc:literal])+ $name:ident: $code:literal, fix $fix:literal; )*) => {
        /// Why a program is rejected.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Reason { $( $(#[doc = $doc])+ $name ),* }

        impl Reason {
            /// All reasons.
            pub const ALL: &'static [Reason] = &[$( Reason::$name ),*];

            /// Its stable code.
            pub const fn code(self) -> &'static str {
                match self { $( Reason::$name => $code ),* }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self { $( Reason::$name => concat!($( $doc ),+) ),* }
            }

            /// What usually fixes it.
            pub const fn fix(self) -> &'static str {
                match self { $( Reason::$name => $fix ),* }
            }
        }
    };
}

reasons! {
    /// A pointer that may be null is used as if it were not.
    PossiblyNull: "possibly-null",
        fix "compare the pointer with 0 and leave when it is null, before using it";
    /// Packet bytes are accessed that were not proved to be there.
    PacketBounds: "packet-out-of-bounds",
        fix "compare `data + offset + size` with `data_end` on this path, after the last helper that changes the packet";
    /// A map value is accessed outside of its bounds, or at an offset that may be outside.
    MapValueBounds: "map-value-out-of-bounds",
        fix "bound the index (`if (i >= N) return`, or `i &= N - 1`) just before the access, in an unsigned variable";
    /// Memory of a known size is accessed outside of it.
    MemoryBounds: "memory-out-of-bounds",
        fix "keep offset plus size within the size the memory was asked for";
    /// The stack is accessed outside of the frame's 512 bytes.
    StackBounds: "stack-out-of-bounds",
        fix "check the index into the local array; move large locals into a per-CPU array map";
    /// A register is read that was never written on this path.
    UninitializedRegister: "uninitialized-register",
        fix "initialize the variable on every path; a helper call destroys r1 to r5";
    /// Stack bytes are read that were never written on this path.
    UninitializedStack: "uninitialized-stack",
        fix "initialize the whole variable (padding included) with `= {}` or memset";
    /// A field of the context is accessed that is not there, or not this way.
    ContextAccess: "bad-context-access",
        fix "access whole fields of the context structure at their own width, and only those this program type may";
    /// Memory is accessed through something that is not a pointer to it.
    NotAPointer: "not-a-pointer",
        fix "keep the pointer in one variable; a pointer that went through a 32-bit or bitwise operation is a number";
    /// Arithmetic that is not allowed on this kind of pointer.
    PointerArithmetic: "pointer-arithmetic",
        fix "add or subtract 64-bit numbers only, after the null check, and not on `data_end`, maps or sockets";
    /// A pointer is moved by an amount that has no bound.
    UnboundedOffset: "unbounded-offset",
        fix "bound the number from both sides before adding it to the pointer";
    /// A pointer or number is of the wrong kind for the argument.
    ArgumentType: "wrong-argument-type",
        fix "pass what the helper's prototype asks for in this argument";
    /// A size argument may be negative, zero or too large.
    ArgumentSize: "bad-argument-size",
        fix "bound the size with an unsigned comparison just before the call";
    /// The helper may not be called by this type of program.
    HelperNotAllowed: "helper-not-allowed",
        fix "use a helper that this program type has; bpf-helpers(7) lists helpers";
    /// The helper is only for programs with a GPL-compatible license.
    GplOnly: "gpl-only",
        fix "declare `char _license[] SEC(\"license\") = \"GPL\";`";
    /// The map cannot be used with this helper, or not in a program that may sleep.
    MapHelperMismatch: "map-helper-mismatch",
        fix "use the helper made for this map type";
    /// Memory is written that is read-only.
    ReadOnlyMemory: "read-only-memory",
        fix "write to a copy, or to a map that is not read-only";
    /// An access is not aligned as it must be.
    Misaligned: "misaligned",
        fix "align the variable to the size of the access";
    /// A map is defined in a way in which the kernel makes none of its type.
    MapDefinition: "bad-map-definition",
        fix "give the map the sizes and flags that its type takes";
    /// A resource is still held where it must not be.
    UnreleasedReference: "unreleased-reference",
        fix "release what was acquired on every path out (bpf_sk_release, bpf_ringbuf_submit or _discard)";
    /// A resource is released that is not held.
    NotHeld: "not-held",
        fix "release each acquired reference once, and through an unmodified pointer";
    /// A lock is not held as it must be.
    LockDiscipline: "lock-discipline",
        fix "take one bpf_spin_lock at a time, call nothing while it is held, and unlock on every path";
    /// The program never ends on this path.
    InfiniteLoop: "infinite-loop",
        fix "count the turns and bound them: `for (int i = 0; i < 64 && more; i++)`";
    /// Too many instructions had to be explored.
    TooComplex: "too-complex",
        fix "bound loops lower, move their bodies into static functions or bpf_loop, avoid branches inside them";
    /// The program has more functions, maps, kernel functions or instructions than the kernel takes.
    TooLarge: "too-large",
        fix "split the program, and continue in another one by tail call; inline small functions, put several maps into one";
    /// Calls are nested too deep, or use too much stack together.
    CallDepth: "call-depth",
        fix "inline or flatten calls: 8 frames and 512 bytes of stack in sum are allowed";
    /// The return value is not one that the hook allows.
    ReturnValue: "bad-return-value",
        fix "return one of the values the program type defines, from every path";
    /// The instruction may not be used so.
    BadInstruction: "bad-instruction",
        fix "compile with a -mcpu the kernel supports, and do not write to r10";
    /// Code that no path reaches.
    Unreachable: "unreachable-code",
        fix "remove the code after the unconditional jump or exit";
    /// An exception is thrown, or its callback declared, in a way that is not allowed.
    Exception: "bad-exception",
        fix "release and unlock before bpf_throw, throw only outside of callbacks, name one global callback that takes one number";
    /// A structure of the kernel, or one that the program allocated, is accessed in a way that is not allowed.
    StructureAccess: "bad-structure-access",
        fix "read whole fields at constant offsets, through a pointer of the right type; write through helpers and kfuncs";
    /// The kernel function may not be called by this type of program, or not here.
    KfuncNotAllowed: "kfunc-not-allowed",
        fix "use a kernel function that is registered for this program type, and a sleepable program for those that sleep";
    /// A pointer is not trusted as far as it has to be.
    NotTrusted: "not-trusted",
        fix "pass pointers as the kernel gave them, acquire the object first, or stay inside bpf_rcu_read_lock";
    /// The kernel that the program is for (`--kernel`) has no such instruction, helper, function, map, type or hook.
    KernelLacks: "kernel-lacks",
        fix "test for it with bpf_ksym_exists, bpf_core_type_exists or LINUX_KERNEL_VERSION, or ask for a kernel that has it";
    /// A special field of a map value (lock, timer, kptr) is accessed as plain memory.
    SpecialField: "special-field",
        fix "use the helpers made for bpf_spin_lock, bpf_timer and kptr fields";
    /// A pointer's value gets where a program loaded without privilege could read it.
    PointerLeak: "pointer-leak",
        fix "store and compare numbers, not pointers, or load the program with CAP_PERFMON";
    /// The program does something that only privileged users may load.
    NeedsPrivilege: "needs-privilege",
        fix "load it with CAP_BPF (and CAP_PERFMON or CAP_NET_ADMIN), or inline functions and unroll loops";
    /// A dynptr is not made, used or given up as it must be.
    DynptrMisuse: "dynptr-misuse",
        fix "make it in a local `struct bpf_dynptr`, use it only through bpf_dynptr_*, and give a reserved one back before its memory is used again";
    /// An RCU, preemption or interrupt section is not kept as it must be.
    CriticalSection: "critical-section",
        fix "leave every section on every path, in the opposite order, and call nothing in one that may sleep";
    /// An open-coded iterator is not made, used or destroyed as it must be.
    IteratorMisuse: "iterator-misuse",
        fix "call _new once, _next until it returns null, and _destroy on every path; `bpf_for` and `bpf_for_each` do all of it";
    /// A decision depends on a number that the caller kept while a packet load failed in its function. The kernel cannot
    /// trace it back to before the call and stops with "verifier bug: static subprog".
    LostPrecision: "lost-precision",
        fix "make the function that has the packet load `__always_inline`, or read the packet with bpf_skb_load_bytes";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
