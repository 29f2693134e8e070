//! The decoded instruction.
//!
//! A BPF slot is eight bytes whose meaning depends on a class, a mode, a source bit and sometimes on the offset or
//! immediate too (`sdiv` is `div` with offset 1). [`Insn`] resolves all of that once, so that other crates match on
//! what an instruction *is*. Branch offsets are kept as encoded, in slots relative to the next instruction; the IR
//! (`kiln-program`) replaces them by instruction ids.

use crate::table::{AluOp, AtomicOp, JumpOp};

/// One of the eleven registers R0 to R10 (RFC 9669 section 2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reg(u8);

impl Reg {
    /// Return value; also the implicit operand of compare-and-exchange and packet loads.
    pub const R0: Reg = Reg(0);
    /// First argument.
    pub const R1: Reg = Reg(1);
    /// Second argument.
    pub const R2: Reg = Reg(2);
    /// Third argument.
    pub const R3: Reg = Reg(3);
    /// Fourth argument.
    pub const R4: Reg = Reg(4);
    /// Fifth argument.
    pub const R5: Reg = Reg(5);
    /// First callee-saved register; implicit context operand of packet loads.
    pub const R6: Reg = Reg(6);
    /// Callee-saved.
    pub const R7: Reg = Reg(7);
    /// Callee-saved.
    pub const R8: Reg = Reg(8);
    /// Callee-saved.
    pub const R9: Reg = Reg(9);
    /// Read-only frame pointer.
    pub const R10: Reg = Reg(10);
    /// The number of registers.
    pub const COUNT: usize = 11;

    /// The register with this number, `None` above 10.
    pub const fn new(number: u8) -> Option<Reg> {
        if number <= 10 { Some(Reg(number)) } else { None }
    }

    /// All registers, in order.
    pub fn all() -> impl DoubleEndedIterator<Item = Reg> {
        (0..=10).map(Reg)
    }

    /// Its number, 0 to 10.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Registers a call destroys: R0 to R5.
    pub const fn is_caller_saved(self) -> bool {
        self.0 <= 5
    }
}

/// The width of an ALU operation or comparison. A 32-bit ALU operation zeroes the upper half of its destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Width {
    /// The lower 32 bits (`w` registers).
    W32,
    /// All 64 bits (`r` registers).
    W64,
}

impl Width {
    /// 32 or 64.
    pub const fn bits(self) -> u32 {
        match self {
            Width::W32 => 32,
            Width::W64 => 64,
        }
    }
}

/// The size of a memory access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Size {
    /// One byte (`u8`).
    B1,
    /// Two bytes (`u16`).
    B2,
    /// Four bytes (`u32`).
    B4,
    /// Eight bytes (`u64`).
    B8,
}

impl Size {
    /// All sizes, smallest first.
    pub const ALL: [Size; 4] = [Size::B1, Size::B2, Size::B4, Size::B8];

    /// 1, 2, 4 or 8.
    pub const fn bytes(self) -> u32 {
        1 << self as u32
    }

    /// 8, 16, 32 or 64.
    pub const fn bits(self) -> u32 {
        8 * self.bytes()
    }

    /// The size of that many bytes.
    pub const fn from_bytes(bytes: u32) -> Option<Size> {
        match bytes {
            1 => Some(Size::B1),
            2 => Some(Size::B2),
            4 => Some(Size::B4),
            8 => Some(Size::B8),
            _ => None,
        }
    }
}

/// The second operand of an ALU operation, a comparison or a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// A register.
    Reg(Reg),
    /// An immediate, sign-extended to the width of the operation.
    Imm(i32),
}

impl Source {
    /// The register, if it is one.
    pub const fn reg(self) -> Option<Reg> {
        match self {
            Source::Reg(reg) => Some(reg),
            Source::Imm(_) => None,
        }
    }
}

/// A memory operand: `base + offset`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// The register that holds the base.
    pub base: Reg,
    /// Bytes added to it.
    pub offset: i16,
}

/// What a byte-order instruction does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ByteOrder {
    /// Between host order and little endian (`le16`): on a little-endian host a truncation.
    Little,
    /// Between host order and big endian (`be16`): on a little-endian host a swap.
    Big,
    /// An unconditional swap (`bswap16`, ISA version 4).
    Swap,
}

/// Where the 64 bits of a `ld_imm64` come from: RFC 9669 section 5.4, and the kernel's `BPF_PSEUDO_*` values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Imm64 {
    /// src 0: the value itself.
    Value(u64),
    /// src 1: address of a map, by file descriptor. The second slot's immediate is `high`, which the kernel wants zero.
    MapFd {
        /// File descriptor.
        fd: i32,
        /// The second slot's immediate.
        high: i32,
    },
    /// src 2: address of a map's first value plus an offset, map by file descriptor.
    MapValueFd {
        /// File descriptor.
        fd: i32,
        /// Bytes into the value.
        offset: i32,
    },
    /// src 3: address of a kernel variable, by BTF id (and descriptor of the module's BTF object).
    VariableBtf {
        /// BTF id of the variable.
        id: i32,
        /// Descriptor of a module's BTF, 0 for vmlinux.
        fd: i32,
    },
    /// src 4: address of a subprogram (a callback), slots relative to the next instruction.
    Code {
        /// Slots from the instruction after this one's first slot.
        offset: i32,
        /// The second slot's immediate.
        high: i32,
    },
    /// src 5: address of a map, by index into the load call's descriptor array.
    MapIndex {
        /// Index.
        index: i32,
        /// The second slot's immediate.
        high: i32,
    },
    /// src 6: address of a map's value, map by index.
    MapValueIndex {
        /// Index.
        index: i32,
        /// Bytes into the value.
        offset: i32,
    },
}

/// What a call calls (RFC 9669 section 4.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CallTarget {
    /// src 0: a helper by its number.
    Helper(u32),
    /// src 1: a subprogram, slots relative to the next instruction.
    Subprogram(i32),
    /// src 2: a kernel function by BTF id; `fd_index` picks a module's BTF from the load call's array, 0 for vmlinux.
    Kfunc {
        /// BTF id of the function.
        id: i32,
        /// Index into the array of BTF descriptors.
        fd_index: i16,
    },
}

/// How a classic packet load finds its bytes (RFC 9669 section 5.5, conformance group `packet`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PacketMode {
    /// At `imm`.
    Absolute,
    /// At `register + imm`.
    Indirect(Reg),
}

/// One instruction: one slot, two for [`Insn::LoadImm64`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Insn {
    /// `dst = dst op src`, or `dst = src` for a move.
    Alu {
        /// The operation.
        op: AluOp,
        /// 32 or 64 bits.
        width: Width,
        /// Destination and first operand.
        dst: Reg,
        /// Second operand.
        src: Source,
    },
    /// `dst = -dst`.
    Neg {
        /// 32 or 64 bits.
        width: Width,
        /// Operand and destination.
        dst: Reg,
    },
    /// `dst = (sN)src`: a sign-extending move (ISA version 4). `from` is smaller than `width`.
    MoveSignExtend {
        /// 32 or 64 bits.
        width: Width,
        /// 8, 16 or (for 64 bits) 32 bits.
        from: Size,
        /// Destination.
        dst: Reg,
        /// Operand.
        src: Reg,
    },
    /// `dst = beN dst`, `dst = leN dst` and `dst = bswapN dst`.
    Endian {
        /// Which conversion.
        order: ByteOrder,
        /// 16, 32 or 64 bits.
        size: Size,
        /// Operand and destination.
        dst: Reg,
    },
    /// `dst = imm ll`; two slots.
    LoadImm64 {
        /// Destination.
        dst: Reg,
        /// The value, or the source of the value.
        imm: Imm64,
    },
    /// `dst = *(size *)(base + offset)`.
    Load {
        /// Bytes read.
        size: Size,
        /// Sign-extended (`s8`, ISA version 4) rather than zero-extended; never with 8 bytes.
        signed: bool,
        /// Destination.
        dst: Reg,
        /// Where.
        address: Address,
    },
    /// `*(size *)(base + offset) = src`.
    Store {
        /// Bytes written.
        size: Size,
        /// Where.
        address: Address,
        /// What.
        src: Source,
    },
    /// An atomic read-modify-write. With `fetch` the old value goes to `src` (to R0 for compare-and-exchange).
    Atomic {
        /// The operation.
        op: AtomicOp,
        /// Whether the old value is returned; always so for exchange and compare-and-exchange.
        fetch: bool,
        /// 4 or 8 bytes (1 and 2 do not encode).
        size: Size,
        /// Where.
        address: Address,
        /// Operand.
        src: Reg,
    },
    /// `dst = load_acquire((size *)(base + offset))` (Linux 6.14).
    LoadAcquire {
        /// Bytes read.
        size: Size,
        /// Destination.
        dst: Reg,
        /// Where.
        address: Address,
    },
    /// `store_release((size *)(base + offset), src)` (Linux 6.14).
    StoreRelease {
        /// Bytes written.
        size: Size,
        /// Where.
        address: Address,
        /// What.
        src: Reg,
    },
    /// `r0 = *(size *)skb[...]`: reads the packet in network order, exits the program when out of bounds.
    LoadPacket {
        /// Absolute or indirect.
        mode: PacketMode,
        /// 1, 2 or 4 bytes.
        size: Size,
        /// Constant part of the offset.
        offset: i32,
    },
    /// `dst = addr_space_cast(src, to, from)` (arena pointers, Linux 6.9).
    AddressSpaceCast {
        /// Destination.
        dst: Reg,
        /// Operand.
        src: Reg,
        /// Address space of the result.
        to: u16,
        /// Address space of the operand.
        from: u16,
    },
    /// `goto +offset`, unconditional; `long` is `gotol` with a 32-bit offset (ISA version 4).
    Jump {
        /// Slots from the next instruction.
        offset: i32,
        /// Whether the 32-bit form is used.
        long: bool,
    },
    /// `gotox dst`: to the instruction whose address the register holds (Linux 6.19).
    JumpIndirect {
        /// Holds the address, which comes from a table.
        dst: Reg,
    },
    /// `if dst op src goto +offset`.
    Branch {
        /// The comparison.
        op: JumpOp,
        /// 32 or 64 bits compared.
        width: Width,
        /// First operand.
        dst: Reg,
        /// Second operand.
        src: Source,
        /// Slots from the next instruction.
        offset: i16,
    },
    /// `may_goto +offset`: jumps when the runtime's loop budget is spent (Linux 6.9).
    MayGoto {
        /// Slots from the next instruction.
        offset: i16,
    },
    /// A call.
    Call(CallTarget),
    /// Returns R0.
    Exit,
}

impl Insn {
    /// The number of its slots: 2 for `ld_imm64`, else 1.
    pub const fn slots(&self) -> u32 {
        match self {
            Insn::LoadImm64 { .. } => 2,
            _ => 1,
        }
    }

    /// `dst = src`, 64 bits.
    pub const fn mov(dst: Reg, src: Reg) -> Insn {
        Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(src) }
    }

    /// `dst = imm`, 64 bits, sign-extended.
    pub const fn mov_imm(dst: Reg, imm: i32) -> Insn {
        Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Imm(imm) }
    }

    /// The register it writes. For calls, which destroy R0 to R5, see [`RegSet::CALLER_SAVED`].
    #[inline]
    pub fn written(&self) -> Option<Reg> {
        match *self {
            Insn::Alu { dst, .. }
            | Insn::Neg { dst, .. }
            | Insn::MoveSignExtend { dst, .. }
            | Insn::Endian { dst, .. }
            | Insn::LoadImm64 { dst, .. }
            | Insn::Load { dst, .. }
            | Insn::LoadAcquire { dst, .. }
            | Insn::AddressSpaceCast { dst, .. } => Some(dst),
            Insn::Atomic { op: AtomicOp::CompareExchange, .. } => Some(Reg::R0),
            Insn::Atomic { fetch: true, src, .. } => Some(src),
            Insn::LoadPacket { .. } => Some(Reg::R0),
            _ => None,
        }
    }

    /// The registers it reads, without the arguments of calls, which depend on the prototype. `exit` reads R0.
    #[inline]
    pub fn read(&self) -> RegSet {
        let mut set = RegSet::EMPTY;
        let source = |set: &mut RegSet, src: Source| {
            if let Source::Reg(reg) = src {
                set.insert(reg);
            }
        };
        match *self {
            Insn::Alu { op, dst, src, .. } => {
                if op != AluOp::Mov {
                    set.insert(dst);
                }
                source(&mut set, src);
            }
            Insn::Neg { dst, .. } | Insn::Endian { dst, .. } | Insn::JumpIndirect { dst } => set.insert(dst),
            Insn::MoveSignExtend { src, .. } | Insn::AddressSpaceCast { src, .. } => set.insert(src),
            Insn::Load { address, .. } | Insn::LoadAcquire { address, .. } => set.insert(address.base),
            Insn::Store { address, src, .. } => {
                set.insert(address.base);
                source(&mut set, src);
            }
            Insn::StoreRelease { address, src, .. } => {
                set.insert(address.base);
                set.insert(src);
            }
            Insn::Atomic { op, address, src, .. } => {
                set.insert(address.base);
                set.insert(src);
                if op == AtomicOp::CompareExchange {
                    set.insert(Reg::R0);
                }
            }
            Insn::LoadPacket { mode, .. } => {
                set.insert(Reg::R6);
                if let PacketMode::Indirect(reg) = mode {
                    set.insert(reg);
                }
            }
            Insn::Branch { dst, src, .. } => {
                set.insert(dst);
                source(&mut set, src);
            }
            Insn::Exit => set.insert(Reg::R0),
            Insn::LoadImm64 { .. } | Insn::Jump { .. } | Insn::MayGoto { .. } | Insn::Call(_) => {}
        }
        set
    }

    /// The memory operand, if it has one.
    pub fn address(&self) -> Option<Address> {
        match *self {
            Insn::Load { address, .. }
            | Insn::Store { address, .. }
            | Insn::Atomic { address, .. }
            | Insn::LoadAcquire { address, .. }
            | Insn::StoreRelease { address, .. } => Some(address),
            _ => None,
        }
    }

    /// Whether control may leave for an instruction other than the next. Calls return, so they do not count.
    pub fn is_control(&self) -> bool {
        !self.falls_through() || matches!(self, Insn::Branch { .. } | Insn::MayGoto { .. })
    }

    /// Whether control may go to the next instruction. A call counts as one that returns.
    pub fn falls_through(&self) -> bool {
        !matches!(self, Insn::Jump { .. } | Insn::JumpIndirect { .. } | Insn::Exit)
    }
}

/// A set of registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RegSet(u16);

impl RegSet {
    /// No register.
    pub const EMPTY: RegSet = RegSet(0);
    /// R0 to R10.
    pub const ALL: RegSet = RegSet(0x7ff);
    /// R0 to R5, what a call destroys.
    pub const CALLER_SAVED: RegSet = RegSet(0x3f);

    /// The set of these registers.
    #[inline]
    pub const fn of(regs: &[Reg]) -> RegSet {
        let (mut set, mut at) = (0, 0);
        while at < regs.len() {
            set |= 1 << regs[at].number();
            at += 1;
        }
        RegSet(set)
    }

    /// The first `count` argument registers, R1 upwards.
    pub fn arguments(count: usize) -> RegSet {
        Reg::all().skip(1).take(count.min(5)).collect()
    }

    /// Adds one.
    #[inline]
    pub fn insert(&mut self, reg: Reg) {
        self.0 |= 1 << reg.number();
    }

    /// Takes one out.
    pub fn remove(&mut self, reg: Reg) {
        self.0 &= !(1 << reg.number());
    }

    /// Whether it is in.
    pub const fn contains(self, reg: Reg) -> bool {
        self.0 >> reg.number() & 1 != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// In either.
    pub const fn union(self, other: RegSet) -> RegSet {
        RegSet(self.0 | other.0)
    }

    /// In both.
    pub const fn intersection(self, other: RegSet) -> RegSet {
        RegSet(self.0 & other.0)
    }

    /// In this one only.
    pub const fn difference(self, other: RegSet) -> RegSet {
        RegSet(self.0 & !other.0)
    }

    /// Its registers, lowest first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Reg> {
        Reg::all().filter(move |reg| self.contains(*reg))
    }
}

impl FromIterator<Reg> for RegSet {
    fn from_iter<I: IntoIterator<Item = Reg>>(regs: I) -> RegSet {
        let mut set = RegSet::EMPTY;
        for reg in regs {
            set.insert(reg);
        }
        set
    }
}

impl std::fmt::Debug for RegSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(|reg| reg.number())).finish()
    }
}
