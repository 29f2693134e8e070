//! What instructions mean, over any kind of value.
//!
//! The table's rows are written once against [`BitVec`]; choosing the type chooses the use:
//!
//! | value type | use |
//! |---|---|
//! | [`Bits`] | the reference interpreter |
//! | an SMT term | the equivalence checker |
//! | tristate number and ranges | the verifier's transfer function |
//!
//! Memory, calls and control are not bit vectors: [`execute`] asks a [`Machine`] for them. For example
//! `r1 += r2` reads both registers, applies the row `Add`, and writes R1, whatever "register" means to the machine.

use crate::insn::{Address, ByteOrder, CallTarget, Imm64, Insn, PacketMode, Reg, Size, Source, Width};
use crate::table::{AtomicOp, JumpOp};

/// A bit vector of a known width (1 to 64), concrete or symbolic or abstract.
///
/// Both operands of a binary operation have the same width. Division is only meaningful for a nonzero divisor: the
/// table guards it with [`BitVec::ite`]. For a zero divisor an implementation may return any value of the right width.
pub trait BitVec: Clone {
    /// A truth value of the same kind.
    type Bool: Clone;

    /// Its width.
    fn bits(&self) -> u32;
    /// A constant of the same width (and, for symbolic values, the same context).
    fn like(&self, value: u64) -> Self;
    /// Wrapping addition.
    fn add(&self, other: &Self) -> Self;
    /// Wrapping subtraction.
    fn sub(&self, other: &Self) -> Self;
    /// Wrapping multiplication.
    fn mul(&self, other: &Self) -> Self;
    /// Unsigned division.
    fn udiv(&self, other: &Self) -> Self;
    /// Unsigned remainder.
    fn urem(&self, other: &Self) -> Self;
    /// Signed division, truncating, the minimum divided by -1 wrapping to itself.
    fn sdiv(&self, other: &Self) -> Self;
    /// Signed remainder, with the dividend's sign.
    fn srem(&self, other: &Self) -> Self;
    /// Bitwise and.
    fn and(&self, other: &Self) -> Self;
    /// Bitwise or.
    fn or(&self, other: &Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(&self, other: &Self) -> Self;
    /// Left shift by less than the width.
    fn shl(&self, amount: &Self) -> Self;
    /// Logical right shift by less than the width.
    fn lshr(&self, amount: &Self) -> Self;
    /// Arithmetic right shift by less than the width.
    fn ashr(&self, amount: &Self) -> Self;
    /// The lowest `bits` bits.
    fn truncate(&self, bits: u32) -> Self;
    /// Widened with zeros.
    fn zero_extend(&self, bits: u32) -> Self;
    /// Widened with the sign bit.
    fn sign_extend(&self, bits: u32) -> Self;
    /// Equality.
    fn eq(&self, other: &Self) -> Self::Bool;
    /// Unsigned less.
    fn ult(&self, other: &Self) -> Self::Bool;
    /// Signed less.
    fn slt(&self, other: &Self) -> Self::Bool;
    /// Negation of a truth value.
    fn not(value: &Self::Bool) -> Self::Bool;
    /// `then` where the condition holds, else `otherwise`.
    fn ite(condition: &Self::Bool, then: &Self, otherwise: &Self) -> Self;

    /// Unsigned less or equal.
    fn ule(&self, other: &Self) -> Self::Bool {
        Self::not(&other.ult(self))
    }
    /// Signed less or equal.
    fn sle(&self, other: &Self) -> Self::Bool {
        Self::not(&other.slt(self))
    }
    /// Whether all bits are zero.
    fn is_zero(&self) -> Self::Bool {
        self.eq(&self.like(0))
    }
    /// The amount modulo the width, as BPF shifts take it. The width is a power of two.
    fn shift_amount(&self) -> Self {
        self.and(&self.like(u64::from(self.bits() - 1)))
    }
    /// Bytes in opposite order. The width is a multiple of eight.
    fn swap_bytes(&self) -> Self {
        let bits = self.bits();
        let mut result = self.like(0);
        for byte in 0..bits / 8 {
            let at = |index: u32| self.like(u64::from(8 * index));
            let one = self.lshr(&at(byte)).and(&self.like(0xff));
            result = result.or(&one.shl(&at(bits / 8 - 1 - byte)));
        }
        result
    }
}

/// A concrete bit vector: the reference.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bits {
    value: u64,
    bits: u32,
}

impl Bits {
    /// The lowest `bits` (1 to 64) bits of `value`.
    #[inline]
    pub const fn new(bits: u32, value: u64) -> Bits {
        Bits { value: value & mask(bits), bits }
    }

    /// The value, upper bits zero.
    #[inline]
    pub const fn value(self) -> u64 {
        self.value
    }

    /// The value as a signed number.
    #[inline]
    pub const fn signed(self) -> i64 {
        let unused = 64 - self.bits;
        ((self.value << unused) as i64) >> unused
    }

    #[inline]
    const fn with(self, value: u64) -> Bits {
        Bits::new(self.bits, value)
    }
}

/// A mask of the lowest `bits` bits, all of them from 64 on.
pub const fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl BitVec for Bits {
    type Bool = bool;

    #[inline]
    fn bits(&self) -> u32 {
        self.bits
    }
    #[inline]
    fn like(&self, value: u64) -> Bits {
        self.with(value)
    }
    #[inline]
    fn add(&self, other: &Bits) -> Bits {
        self.with(self.value.wrapping_add(other.value))
    }
    #[inline]
    fn sub(&self, other: &Bits) -> Bits {
        self.with(self.value.wrapping_sub(other.value))
    }
    #[inline]
    fn mul(&self, other: &Bits) -> Bits {
        self.with(self.value.wrapping_mul(other.value))
    }
    #[inline]
    fn udiv(&self, other: &Bits) -> Bits {
        self.with(self.value.checked_div(other.value).unwrap_or(0))
    }
    #[inline]
    fn urem(&self, other: &Bits) -> Bits {
        self.with(self.value.checked_rem(other.value).unwrap_or(0))
    }
    #[inline]
    fn sdiv(&self, other: &Bits) -> Bits {
        let (dividend, divisor) = (self.signed(), other.signed());
        self.with(if divisor == 0 { 0 } else { dividend.wrapping_div(divisor) as u64 })
    }
    #[inline]
    fn srem(&self, other: &Bits) -> Bits {
        let (dividend, divisor) = (self.signed(), other.signed());
        self.with(if divisor == 0 { 0 } else { dividend.wrapping_rem(divisor) as u64 })
    }
    #[inline]
    fn and(&self, other: &Bits) -> Bits {
        self.with(self.value & other.value)
    }
    #[inline]
    fn or(&self, other: &Bits) -> Bits {
        self.with(self.value | other.value)
    }
    #[inline]
    fn xor(&self, other: &Bits) -> Bits {
        self.with(self.value ^ other.value)
    }
    #[inline]
    fn shl(&self, amount: &Bits) -> Bits {
        self.with(self.value.checked_shl(amount.value as u32).unwrap_or(0))
    }
    #[inline]
    fn lshr(&self, amount: &Bits) -> Bits {
        self.with(self.value.checked_shr(amount.value as u32).unwrap_or(0))
    }
    #[inline]
    fn ashr(&self, amount: &Bits) -> Bits {
        self.with((self.signed() >> amount.value.min(63)) as u64)
    }
    #[inline]
    fn truncate(&self, bits: u32) -> Bits {
        Bits::new(bits, self.value)
    }
    #[inline]
    fn zero_extend(&self, bits: u32) -> Bits {
        Bits::new(bits, self.value)
    }
    #[inline]
    fn sign_extend(&self, bits: u32) -> Bits {
        Bits::new(bits, self.signed() as u64)
    }
    #[inline]
    fn eq(&self, other: &Bits) -> bool {
        self.value == other.value
    }
    #[inline]
    fn ult(&self, other: &Bits) -> bool {
        self.value < other.value
    }
    #[inline]
    fn slt(&self, other: &Bits) -> bool {
        self.signed() < other.signed()
    }
    #[inline]
    fn not(value: &bool) -> bool {
        !value
    }
    #[inline]
    fn ite(condition: &bool, then: &Bits, otherwise: &Bits) -> Bits {
        if *condition { *then } else { *otherwise }
    }
    #[inline]
    fn swap_bytes(&self) -> Bits {
        self.with(self.value.swap_bytes() >> (64 - self.bits))
    }
}

/// How a load or a store is ordered with other accesses to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryOrder {
    /// Not ordered with accesses to other places.
    Relaxed,
    /// A load before all later accesses (`load_acquire`).
    Acquire,
    /// A store after all earlier accesses (`store_release`).
    Release,
}

/// What [`execute`] needs from the state it runs on. Registers are 64 bits; memory values have the access's width.
pub trait Machine {
    /// What registers hold.
    type Value: BitVec;
    /// Why an instruction could not be run.
    type Error;

    /// Reads a register.
    fn register(&mut self, reg: Reg) -> Result<Self::Value, Self::Error>;
    /// Writes a register.
    fn set_register(&mut self, reg: Reg, value: Self::Value) -> Result<(), Self::Error>;
    /// A 64-bit constant that the meaning of an instruction needs.
    fn constant(&mut self, value: u64) -> Self::Value;
    /// The immediate of the instruction, sign-extended to 64 bits. A machine where a field of the instruction is not
    /// its final value (a relocation, a placeholder of a rule) answers otherwise.
    fn immediate(&mut self, imm: i32) -> Self::Value {
        self.constant(i64::from(imm) as u64)
    }
    /// The 64 bits of a `ld_imm64`.
    fn load_imm64(&mut self, imm: Imm64) -> Result<Self::Value, Self::Error>;
    /// Reads memory in host (little-endian) order, `size` bits wide.
    fn load(&mut self, address: Address, size: Size, order: MemoryOrder) -> Result<Self::Value, Self::Error>;
    /// Writes memory, `value` being `size` bits wide.
    fn store(
        &mut self,
        address: Address,
        size: Size,
        value: Self::Value,
        order: MemoryOrder,
    ) -> Result<(), Self::Error>;
    /// An atomic update: memory becomes `op.apply(old, operand)` (for compare-and-exchange, only where the old value
    /// equals `expected`, R0 truncated); returns the old value.
    fn atomic(
        &mut self,
        op: AtomicOp,
        address: Address,
        size: Size,
        operand: Self::Value,
        expected: Option<Self::Value>,
    ) -> Result<Self::Value, Self::Error>;
    /// Reads the packet at the sum of the register (if any) and `offset`, in network order, zero-extended to 64 bits;
    /// `None` when out of bounds, which ends the program with R0 = 0.
    fn load_packet(
        &mut self,
        index: Option<Self::Value>,
        offset: i32,
        size: Size,
    ) -> Result<Option<Self::Value>, Self::Error>;
    /// Converts a pointer between address spaces.
    fn cast_address(&mut self, value: Self::Value, to: u16, from: u16) -> Result<Self::Value, Self::Error>;
}

/// The successor of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flow<B> {
    /// To the next instruction.
    Next,
    /// To the instruction's target.
    Jump,
    /// To the instruction whose address this register holds.
    Indirect(Reg),
    /// To the target if the condition holds.
    Branch(B),
    /// To the target if the loop budget is used up.
    MayGoto,
    /// Into a function, and after its return to the next instruction.
    Call(CallTarget),
    /// Out of the function.
    Exit,
}

/// The truth values of a machine.
pub type BoolOf<M> = <<M as Machine>::Value as BitVec>::Bool;

/// Runs one instruction on a machine; the meaning of BPF.
///
/// # Errors
/// Whatever the machine reports.
// long: one arm for each form of instruction
pub fn execute<M: Machine>(insn: &Insn, machine: &mut M) -> Result<Flow<BoolOf<M>>, M::Error> {
    match *insn {
        Insn::Alu { op, width, dst, src } => {
            let first = if op == crate::AluOp::Mov { machine.constant(0) } else { machine.register(dst)? };
            let second = operand(machine, src)?;
            let result = at_width(width, &first, &second, |a, b| op.apply(a, b));
            machine.set_register(dst, result)?;
        }
        Insn::Neg { width, dst } => {
            let value = machine.register(dst)?;
            let result = at_width(width, &value.like(0), &value, |zero, a| zero.sub(a));
            machine.set_register(dst, result)?;
        }
        Insn::MoveSignExtend { width, from, dst, src } => {
            let value = machine.register(src)?;
            let result = value.truncate(from.bits()).sign_extend(width.bits()).zero_extend(64);
            machine.set_register(dst, result)?;
        }
        Insn::Endian { order, size, dst } => {
            let value = machine.register(dst)?.truncate(size.bits());
            let result = if order == ByteOrder::Little { value } else { value.swap_bytes() };
            machine.set_register(dst, result.zero_extend(64))?;
        }
        Insn::LoadImm64 { dst, imm } => {
            let value = machine.load_imm64(imm)?;
            machine.set_register(dst, value)?;
        }
        Insn::Load { size, signed, dst, address } => {
            let value = machine.load(address, size, MemoryOrder::Relaxed)?;
            machine.set_register(dst, if signed { value.sign_extend(64) } else { value.zero_extend(64) })?;
        }
        Insn::LoadAcquire { size, dst, address } => {
            let value = machine.load(address, size, MemoryOrder::Acquire)?;
            machine.set_register(dst, value.zero_extend(64))?;
        }
        Insn::Store { size, address, src } => {
            let value = operand(machine, src)?.truncate(size.bits());
            machine.store(address, size, value, MemoryOrder::Relaxed)?;
        }
        Insn::StoreRelease { size, address, src } => {
            let value = machine.register(src)?.truncate(size.bits());
            machine.store(address, size, value, MemoryOrder::Release)?;
        }
        Insn::Atomic { op, fetch, size, address, src } => {
            let value = machine.register(src)?.truncate(size.bits());
            let expected = match op {
                AtomicOp::CompareExchange => Some(machine.register(Reg::R0)?.truncate(size.bits())),
                _ => None,
            };
            let old = machine.atomic(op, address, size, value, expected)?.zero_extend(64);
            match op {
                AtomicOp::CompareExchange => machine.set_register(Reg::R0, old)?,
                _ if fetch => machine.set_register(src, old)?,
                _ => {}
            }
        }
        Insn::LoadPacket { mode, size, offset } => {
            let index = match mode {
                PacketMode::Absolute => None,
                PacketMode::Indirect(reg) => Some(machine.register(reg)?),
            };
            match machine.load_packet(index, offset, size)? {
                Some(value) => machine.set_register(Reg::R0, value)?,
                None => {
                    let zero = machine.constant(0);
                    machine.set_register(Reg::R0, zero)?;
                    return Ok(Flow::Exit);
                }
            }
        }
        Insn::AddressSpaceCast { dst, src, to, from } => {
            let value = machine.register(src)?;
            let result = machine.cast_address(value, to, from)?;
            machine.set_register(dst, result)?;
        }
        Insn::Jump { .. } => return Ok(Flow::Jump),
        Insn::JumpIndirect { dst } => return Ok(Flow::Indirect(dst)),
        Insn::Branch { op, width, dst, src, .. } => {
            let (first, second) = (machine.register(dst)?, operand(machine, src)?);
            return Ok(Flow::Branch(compare(op, width, &first, &second)));
        }
        Insn::MayGoto { .. } => return Ok(Flow::MayGoto),
        Insn::Call(target) => return Ok(Flow::Call(target)),
        Insn::Exit => return Ok(Flow::Exit),
    }
    Ok(Flow::Next)
}

/// The comparison of two 64-bit registers at a width.
#[inline]
pub fn compare<B: BitVec>(op: JumpOp, width: Width, dst: &B, src: &B) -> B::Bool {
    match width {
        Width::W64 => op.holds(dst, src),
        Width::W32 => op.holds(&dst.truncate(32), &src.truncate(32)),
    }
}

/// Applies a two-operand function to two 64-bit registers at a width; a 32-bit result is zero-extended.
#[inline]
pub fn at_width<B: BitVec>(width: Width, dst: &B, src: &B, apply: impl Fn(&B, &B) -> B) -> B {
    match width {
        Width::W64 => apply(dst, src),
        Width::W32 => apply(&dst.truncate(32), &src.truncate(32)).zero_extend(64),
    }
}

fn operand<M: Machine>(machine: &mut M, src: Source) -> Result<M::Value, M::Error> {
    match src {
        Source::Reg(reg) => machine.register(reg),
        Source::Imm(imm) => Ok(machine.immediate(imm)),
    }
}
