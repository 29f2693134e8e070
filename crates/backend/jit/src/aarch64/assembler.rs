//! Instructions to words, labels to distances.
//!
//! Every instruction is four bytes, so a label's place is known when it is bound. Only the range of conditional
//! branches (1 MiB) is smaller than the largest program. If one does not reach its label, [`Assembler::finish`] reports
//! it, and the caller compiles again with [`far`](Assembler::new) branches: the opposite branch over a jump.

use kiln_isa::{JumpOp, Size, Width};

use crate::blind::Keys;
use crate::shared::Assembly;

/// A general-purpose register by its number; 31 is the zero register or the stack pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gpr(pub u8);

impl Gpr {
    /// The zero register, where an instruction takes one.
    pub const ZERO: Gpr = Gpr(31);
    /// The stack pointer, where an instruction takes one.
    pub const SP: Gpr = Gpr(31);
    /// The return address.
    pub const LINK: Gpr = Gpr(30);

    const fn at(self, bit: u32) -> u32 {
        (self.0 as u32) << bit
    }
}

/// A condition, by its number in `b.cond`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition(u32);

impl Condition {
    pub const EQUAL: Condition = Condition(0);
    pub const NOT_EQUAL: Condition = Condition(1);
    pub const ABOVE_EQUAL: Condition = Condition(2);
    pub const BELOW: Condition = Condition(3);
    pub const MINUS: Condition = Condition(4);
    pub const ABOVE: Condition = Condition(8);
    pub const BELOW_EQUAL: Condition = Condition(9);
    pub const GREATER_EQUAL: Condition = Condition(10);
    pub const LESS: Condition = Condition(11);
    pub const GREATER: Condition = Condition(12);
    pub const LESS_EQUAL: Condition = Condition(13);

    const fn opposite(self) -> Condition {
        Condition(self.0 ^ 1)
    }

    /// The condition under which a compared pair branches.
    pub fn of(op: JumpOp) -> Condition {
        match op {
            JumpOp::Eq => Condition::EQUAL,
            JumpOp::Ne | JumpOp::Set => Condition::NOT_EQUAL,
            JumpOp::Gt => Condition::ABOVE,
            JumpOp::Ge => Condition::ABOVE_EQUAL,
            JumpOp::Lt => Condition::BELOW,
            JumpOp::Le => Condition::BELOW_EQUAL,
            JumpOp::Sgt => Condition::GREATER,
            JumpOp::Sge => Condition::GREATER_EQUAL,
            JumpOp::Slt => Condition::LESS,
            JumpOp::Sle => Condition::LESS_EQUAL,
        }
    }
}

/// Three-operand instructions on registers, by their encoding at 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Add = 0x0b00_0000,
    Sub = 0x4b00_0000,
    /// Subtraction that sets the flags.
    Subs = 0x6b00_0000,
    And = 0x0a00_0000,
    /// Conjunction that sets the flags.
    Ands = 0x6a00_0000,
    /// Conjunction with the complement of the second register.
    Bic = 0x0a20_0000,
    Or = 0x2a00_0000,
    Xor = 0x4a00_0000,
    Udiv = 0x1ac0_0800,
    Sdiv = 0x1ac0_0c00,
    Lsl = 0x1ac0_2000,
    Lsr = 0x1ac0_2400,
    Asr = 0x1ac0_2800,
    Ror = 0x1ac0_2c00,
}

/// A place in the code, bound once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(u32);

/// How a distance is encoded.
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// 26 bits of words.
    Jump,
    /// 19 bits of words.
    Branch,
    /// 21 bits of bytes.
    Address,
}

/// Collects code.
#[derive(Default)]
pub struct Assembler {
    words: Vec<u32>,
    labels: Vec<Option<usize>>,
    fixups: Vec<(usize, Label, Reach)>,
    far: bool,
    /// What hides constants, if they are to be hidden.
    keys: Option<Keys>,
}

/// Finished code.
pub struct Assembled {
    pub bytes: Vec<u8>,
    offsets: Vec<usize>,
}

impl Assembled {
    /// Where a label ended up; 0 when it was never bound.
    pub fn offset(&self, label: Label) -> usize {
        self.offsets[label.0 as usize]
    }
}

const fn wide(width: Width) -> u32 {
    match width {
        Width::W32 => 0,
        Width::W64 => 1 << 31,
    }
}

const fn log2(size: Size) -> u32 {
    size.bytes().trailing_zeros()
}

/// What a hidden constant is combined with; no other code uses it.
const HIDING: Gpr = Gpr(13);

/// A constant as the `N:immr:imms` of a logical instruction: a run of ones, rotated, repeated over the register.
fn bitmask(value: u64, width: Width) -> Option<u32> {
    let value = match width {
        Width::W64 => value,
        Width::W32 => (value & 0xffff_ffff) | value << 32,
    };
    if value == 0 || value == u64::MAX {
        return None;
    }
    let size = [2u32, 4, 8, 16, 32, 64].into_iter().find(|size| value.rotate_right(*size % 64) == value)?;
    let mask = u64::MAX >> (64 - size);
    let element = value & mask;
    let ones = element.count_ones();
    let run = (1u64 << ones) - 1;
    let turned = |by: u32| (element >> by | element << (size - by)) & mask;
    let by = (0..size).find(|by| if *by == 0 { element == run } else { turned(*by) == run })?;
    let immr = (size - by) % size;
    let imms = (!(size * 2 - 1) & 0x3f) | (ones - 1);
    let n = u32::from(size == 64);
    Some(n << 22 | immr << 16 | imms << 10)
}

impl Assembly for Assembler {
    type Label = Label;

    fn reserve(&mut self, insns: usize) {
        self.words.reserve(2 * insns);
        self.labels.reserve(3 * insns);
    }

    fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    fn align(&mut self, alignment: usize) {
        while !self.len().is_multiple_of(alignment) {
            self.word(0xd503_201f);
        }
    }

    fn bind(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.words.len());
    }

    fn jump(&mut self, target: Label) {
        self.fixup(0x1400_0000, target, Reach::Jump);
    }

    fn call(&mut self, target: Label) {
        self.fixup(0x9400_0000, target, Reach::Jump);
    }
}

impl Assembler {
    /// An empty one; where `far`, conditional branches go anywhere, at the price of a jump each. With a seed, it hides
    /// constants.
    pub fn new(far: bool, blind: Option<u64>) -> Assembler {
        Assembler { far, keys: blind.map(Keys::new), ..Assembler::default() }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        4 * self.words.len()
    }

    /// Resolves labels; `None` if a conditional branch does not reach its label.
    pub fn finish(mut self) -> Option<Assembled> {
        for (at, label, reach) in &self.fixups {
            let target = self.labels[label.0 as usize].unwrap_or(0);
            let distance = target as i64 - *at as i64;
            let fits = |bits: u32| (-(1i64 << (bits - 1))..1 << (bits - 1)).contains(&distance);
            let field = |bits: u32| distance as u32 & ((1 << bits) - 1);
            self.words[*at] |= match reach {
                Reach::Jump if fits(26) => field(26),
                Reach::Branch if fits(19) => field(19) << 5,
                // Words, so the two lowest bits of the distance in bytes are zero.
                Reach::Address if fits(19) => field(19) << 5,
                _ => return None,
            };
        }
        let offsets = self.labels.iter().map(|place| 4 * place.unwrap_or(0)).collect();
        Some(Assembled { bytes: self.words.iter().flat_map(|word| word.to_le_bytes()).collect(), offsets })
    }

    fn word(&mut self, word: u32) {
        self.words.push(word);
    }

    fn fixup(&mut self, word: u32, label: Label, reach: Reach) {
        self.fixups.push((self.words.len(), label, reach));
        self.word(word);
    }
}

// Instructions. Each method emits one, or a few if there is no single one.
impl Assembler {
    /// `op dst, first, second`.
    pub fn op(&mut self, op: Op, width: Width, dst: Gpr, first: Gpr, second: Gpr) {
        self.word(op as u32 | wide(width) | second.at(16) | first.at(5) | dst.at(0));
    }

    /// `add dst, first, second, lsl shift`, a shift below the width.
    pub fn add_shifted(&mut self, width: Width, dst: Gpr, first: Gpr, second: Gpr, shift: u32) {
        self.word(Op::Add as u32 | wide(width) | second.at(16) | shift << 10 | first.at(5) | dst.at(0));
    }

    /// `cmp first, second, lsl shift`, a shift below the width.
    pub fn compare_shifted(&mut self, width: Width, first: Gpr, second: Gpr, shift: u32) {
        self.word(Op::Subs as u32 | wide(width) | second.at(16) | shift << 10 | first.at(5) | Gpr::ZERO.at(0));
    }

    /// `mov dst, src`.
    pub fn mov(&mut self, width: Width, dst: Gpr, src: Gpr) {
        self.op(Op::Or, width, dst, Gpr::ZERO, src);
    }

    /// `add dst, src, imm` with 12 bits of immediate; either may be the stack pointer.
    pub fn add_imm(&mut self, width: Width, dst: Gpr, src: Gpr, imm: u32) {
        self.word(0x1100_0000 | wide(width) | (imm & 0xfff) << 10 | src.at(5) | dst.at(0));
    }

    /// `sub dst, src, imm` with 12 bits of immediate; either may be the stack pointer.
    pub fn sub_imm(&mut self, width: Width, dst: Gpr, src: Gpr, imm: u32) {
        self.word(0x5100_0000 | wide(width) | (imm & 0xfff) << 10 | src.at(5) | dst.at(0));
    }

    /// `subs dst, src, imm` with 12 bits of immediate; `cmp` where `dst` is the zero register.
    pub fn subs_imm(&mut self, width: Width, dst: Gpr, src: Gpr, imm: u32) {
        self.word(0x7100_0000 | wide(width) | (imm & 0xfff) << 10 | src.at(5) | dst.at(0));
    }

    /// `adds zero, src, imm` with 12 bits of immediate: compares with the negated number.
    pub fn compare_negative(&mut self, width: Width, src: Gpr, imm: u32) {
        self.word(0x3100_0000 | wide(width) | (imm & 0xfff) << 10 | src.at(5) | Gpr::ZERO.at(0));
    }

    /// A logical instruction with an immediate; false, and nothing emitted, where the number has no encoding.
    pub fn logical_imm(&mut self, op: Op, width: Width, dst: Gpr, src: Gpr, imm: u64) -> bool {
        let opcode = match op {
            Op::And => 0x1200_0000,
            Op::Or => 0x3200_0000,
            Op::Xor => 0x5200_0000,
            Op::Ands => 0x7200_0000,
            _ => return false,
        };
        let Some(mask) = bitmask(imm, width) else { return false };
        self.word(opcode | wide(width) | mask | src.at(5) | dst.at(0));
        true
    }

    /// Sets a register to a constant, hidden if constants are.
    pub fn constant(&mut self, dst: Gpr, value: u64) {
        let Some(keys) = self.keys.as_mut().filter(|_| value != 0) else { return self.plain_constant(dst, value) };
        let upper = if u32::try_from(value).is_ok() { 0 } else { u64::from(keys.next()) << 32 };
        let key = upper | u64::from(keys.next());
        self.plain_constant(dst, value ^ key);
        self.plain_constant(HIDING, key);
        self.op(Op::Xor, Width::W64, dst, dst, HIDING);
    }

    fn plain_constant(&mut self, dst: Gpr, value: u64) {
        let halves = [value as u16, (value >> 16) as u16, (value >> 32) as u16, (value >> 48) as u16];
        let inverted =
            halves.iter().filter(|half| **half == 0xffff).count() > halves.iter().filter(|half| **half == 0).count();
        let (rest, opcode) = if inverted { (0xffff, 0x9280_0000) } else { (0, 0xd280_0000u32) };
        let mut first = true;
        for (at, half) in halves.into_iter().enumerate() {
            if half == rest {
                continue;
            }
            let shift = (at as u32) << 21;
            if first {
                let imm = if inverted { !half } else { half };
                self.word(opcode | shift | u32::from(imm) << 5 | dst.at(0));
            } else {
                self.word(0xf280_0000 | shift | u32::from(half) << 5 | dst.at(0));
            }
            first = false;
        }
        if first {
            self.word(opcode | dst.at(0));
        }
    }

    /// `dst = first * second`.
    pub fn multiply(&mut self, width: Width, dst: Gpr, first: Gpr, second: Gpr) {
        self.word(0x1b00_0000 | wide(width) | second.at(16) | Gpr::ZERO.at(10) | first.at(5) | dst.at(0));
    }

    /// `dst = minuend - first * second`.
    pub fn multiply_subtract(&mut self, width: Width, dst: Gpr, first: Gpr, second: Gpr, minuend: Gpr) {
        self.word(0x1b00_8000 | wide(width) | second.at(16) | minuend.at(10) | first.at(5) | dst.at(0));
    }

    fn bitfield(&mut self, opcode: u32, width: Width, dst: Gpr, src: Gpr, immr: u32, imms: u32) {
        let n = if width == Width::W64 { 1 << 22 } else { 0 };
        self.word(opcode | wide(width) | n | immr << 16 | imms << 10 | src.at(5) | dst.at(0));
    }

    /// A shift by a constant below the width: [`Op::Lsl`], [`Op::Lsr`] or [`Op::Asr`].
    pub fn shift_imm(&mut self, op: Op, width: Width, dst: Gpr, src: Gpr, amount: u32) {
        let bits = width.bits();
        match op {
            Op::Lsl => self.bitfield(0x5300_0000, width, dst, src, (bits - amount) % bits, bits - 1 - amount),
            Op::Asr => self.bitfield(0x1300_0000, width, dst, src, amount, bits - 1),
            _ => self.bitfield(0x5300_0000, width, dst, src, amount, bits - 1),
        }
    }

    /// The low bytes of a register, sign-extended.
    pub fn sign_extend(&mut self, size: Size, width: Width, dst: Gpr, src: Gpr) {
        self.bitfield(0x1300_0000, width, dst, src, 0, size.bits() - 1);
    }

    /// The low one or two bytes of a register, zero-extended.
    pub fn zero_extend(&mut self, size: Size, dst: Gpr, src: Gpr) {
        self.bitfield(0x5300_0000, Width::W32, dst, src, 0, size.bits().min(32) - 1);
    }

    /// `extr dst, high, low, lsb`.
    pub fn extract(&mut self, width: Width, dst: Gpr, high: Gpr, low: Gpr, lsb: u32) {
        let n = if width == Width::W64 { 1 << 22 } else { 0 };
        self.word(0x1380_0000 | wide(width) | n | low.at(16) | lsb << 10 | high.at(5) | dst.at(0));
    }

    /// Reverses the order of 2, 4 or 8 bytes; the bits above become zero.
    pub fn swap_bytes(&mut self, size: Size, dst: Gpr, src: Gpr) {
        match size {
            Size::B8 => self.word(0xdac0_0c00 | src.at(5) | dst.at(0)),
            Size::B4 => self.word(0x5ac0_0800 | src.at(5) | dst.at(0)),
            Size::B1 | Size::B2 => {
                self.reverse_halves(dst, src);
                self.zero_extend(Size::B2, dst, dst);
            }
        }
    }

    /// `cset`: one if a condition holds, zero if not.
    pub fn set_if(&mut self, condition: Condition, dst: Gpr) {
        self.word(0x1a9f_07e0 | condition.opposite().0 << 12 | dst.at(0));
    }

    /// `csel dst, then, otherwise`.
    pub fn select(&mut self, condition: Condition, dst: Gpr, then: Gpr, otherwise: Gpr) {
        self.word(0x9a80_0000 | otherwise.at(16) | condition.0 << 12 | then.at(5) | dst.at(0));
    }

    /// `prfm pldl1keep, [base]`.
    pub fn prefetch(&mut self, base: Gpr) {
        self.word(0xf980_0000 | base.at(5));
    }

    /// `dsb nsh; isb`: what the kernel does where a processor has no `sb`.
    pub fn speculation_barrier(&mut self) {
        self.word(0xd503_379f);
        self.word(0xd503_3fdf);
    }

    /// `rev16 dst, src` of 32 bits: exchanges the bytes of each half.
    pub fn reverse_halves(&mut self, dst: Gpr, src: Gpr) {
        self.word(0x5ac0_0400 | src.at(5) | dst.at(0));
    }

    /// A load (`kind` 1), a sign-extending load (2) or a store (0), with a register for addresses that need one.
    fn access(&mut self, kind: u32, size: Size, value: Gpr, base: Gpr, offset: i32, scratch: Gpr) {
        let common = log2(size) << 30 | kind << 22 | base.at(5) | value.at(0);
        let bytes = size.bytes() as i32;
        if offset >= 0 && offset % bytes == 0 && offset / bytes < 4096 {
            self.word(0x3900_0000 | common | ((offset / bytes) as u32) << 10);
        } else if (-256..256).contains(&offset) {
            self.word(0x3800_0000 | common | (offset as u32 & 0x1ff) << 12);
        } else {
            self.constant(scratch, i64::from(offset) as u64);
            self.word(0x3820_6800 | common | scratch.at(16));
        }
    }

    /// A zero-extending load.
    pub fn load(&mut self, size: Size, dst: Gpr, base: Gpr, offset: i32, scratch: Gpr) {
        self.access(1, size, dst, base, offset, scratch);
    }

    /// A load sign-extended to 64 bits; `size` is narrower.
    pub fn load_signed(&mut self, size: Size, dst: Gpr, base: Gpr, offset: i32, scratch: Gpr) {
        self.access(if size == Size::B8 { 1 } else { 2 }, size, dst, base, offset, scratch);
    }

    /// A store.
    pub fn store(&mut self, size: Size, src: Gpr, base: Gpr, offset: i32, scratch: Gpr) {
        self.access(0, size, src, base, offset, scratch);
    }

    /// A load (`kind` 1) or a store (0) of two registers, with a register for addresses that need one.
    fn pair(&mut self, kind: u32, (first, second): (Gpr, Gpr), base: Gpr, offset: i32, scratch: Gpr) {
        let direct = offset % 8 == 0 && (-512..512).contains(&offset);
        let (base, offset) = if direct {
            (base, offset)
        } else {
            self.constant(scratch, i64::from(offset) as u64);
            self.op(Op::Add, Width::W64, scratch, base, scratch);
            (scratch, 0)
        };
        let words = (offset / 8) as u32 & 0x7f;
        self.word(0xa900_0000 | kind << 22 | words << 15 | second.at(10) | base.at(5) | first.at(0));
    }

    /// `ldp first, second, [base + offset]`: two different registers.
    pub fn load_pair(&mut self, first: Gpr, second: Gpr, base: Gpr, offset: i32, scratch: Gpr) {
        self.pair(1, (first, second), base, offset, scratch);
    }

    /// `stp first, second, [base + offset]`.
    pub fn store_pair(&mut self, first: Gpr, second: Gpr, base: Gpr, offset: i32, scratch: Gpr) {
        self.pair(0, (first, second), base, offset, scratch);
    }

    /// `ldaxr dst, [address]`: a load that begins an atomic update.
    pub fn load_exclusive(&mut self, size: Size, dst: Gpr, address: Gpr) {
        self.word(0x085f_fc00 | log2(size) << 30 | address.at(5) | dst.at(0));
    }

    /// `stlxr status, src, [address]`: ends it; the status is zero where nothing came in between.
    pub fn store_exclusive(&mut self, size: Size, status: Gpr, src: Gpr, address: Gpr) {
        self.word(0x0800_fc00 | log2(size) << 30 | status.at(16) | address.at(5) | src.at(0));
    }

    /// `ldar`.
    pub fn load_acquire(&mut self, size: Size, dst: Gpr, address: Gpr) {
        self.word(0x08df_fc00 | log2(size) << 30 | address.at(5) | dst.at(0));
    }

    /// `stlr`.
    pub fn store_release(&mut self, size: Size, src: Gpr, address: Gpr) {
        self.word(0x089f_fc00 | log2(size) << 30 | address.at(5) | src.at(0));
    }

    /// `dmb ish`.
    pub fn barrier(&mut self) {
        self.word(0xd503_3bbf);
    }

    /// Stores two registers below the stack pointer, which goes down by 16.
    pub fn push_pair(&mut self, first: Gpr, second: Gpr) {
        self.word(0xa980_0000 | (0x7e << 15) | second.at(10) | Gpr::SP.at(5) | first.at(0));
    }

    /// Undoes [`Assembler::push_pair`].
    pub fn pop_pair(&mut self, first: Gpr, second: Gpr) {
        self.word(0xa8c0_0000 | (2 << 15) | second.at(10) | Gpr::SP.at(5) | first.at(0));
    }

    /// `b.cond target`.
    pub fn jump_if(&mut self, condition: Condition, target: Label) {
        if self.far {
            self.word(0x5400_0000 | 2 << 5 | condition.opposite().0);
            self.jump(target);
        } else {
            self.fixup(0x5400_0000 | condition.0, target, Reach::Branch);
        }
    }

    /// Jumps where a register is zero (or is not).
    pub fn jump_if_zero(&mut self, width: Width, gpr: Gpr, zero: bool, target: Label) {
        let opcode = |zero: bool| if zero { 0x3400_0000 } else { 0x3500_0000 };
        if self.far {
            self.word(opcode(!zero) | wide(width) | 2 << 5 | gpr.at(0));
            self.jump(target);
        } else {
            self.fixup(opcode(zero) | wide(width) | gpr.at(0), target, Reach::Branch);
        }
    }

    /// `blr register`.
    pub fn call_register(&mut self, gpr: Gpr) {
        self.word(0xd63f_0000 | gpr.at(5));
    }

    /// `br register`.
    pub fn jump_register(&mut self, gpr: Gpr) {
        self.word(0xd61f_0000 | gpr.at(5));
    }

    /// `ret`.
    pub fn ret(&mut self) {
        self.word(0xd65f_03c0);
    }

    /// `adr dst, target`.
    pub fn load_address(&mut self, dst: Gpr, target: Label) {
        self.fixup(0x1000_0000 | dst.at(0), target, Reach::Address);
    }
}
