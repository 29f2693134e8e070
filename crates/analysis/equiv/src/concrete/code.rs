//! Instructions decoded for running millions of times.
//!
//! [`kiln_isa::semantics::execute`] is the meaning; here each row of its table gets an arm of its own, in which operation
//! and width are constants and the compiler leaves one machine instruction. Memory is flat: every place that the
//! original touches is a run of bytes in one array, with what may be done to each byte in another.
//! `tests/executor.rs` runs every form of instruction on pairs of corner values here and by the table.
//!
//! ```text
//!   segments  [r1 + 0, 12 bytes][frame - 16, 16 bytes]
//!   data       ............      ................
//!   may        rrrrrrrrrrrr      wwwwwwwwrrrrrrrr      read, write
//! ```

use kiln_isa::semantics::{Bits, at_width, compare};
use kiln_isa::{AluOp, AtomicOp, ByteOrder, Imm64, Insn, JumpOp, Reg, RegSet, Size, Source, Width};
use kiln_program::{Node, Reference};

use crate::concrete::input::Refusal;

/// One decoded instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    kind: Kind,
    dst: u8,
    src: u8,
    /// Bytes accessed, or bits that count.
    size: u8,
    /// Registers that are read, one bit each.
    reads: u16,
    /// Registers that are written.
    writes: u16,
    /// The second operand if it is not a register; else an offset or an index.
    imm: u64,
}

/// Stands for the immediate where a register's number is expected.
const IMMEDIATE: u8 = 15;

macro_rules! kinds {
    ($( $name:ident $wide:ident $narrow:ident ),*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum Kind {
            $( $wide, $narrow, )*
            SignExtend,
            Truncate,
            Swap,
            Constant,
            Reference,
            Load,
            LoadSigned,
            Store,
            Atomic(AtomicOp, bool),
            Branch(JumpOp, Width),
            Nothing,
            Unsupported,
        }

        impl Kind {
            const fn alu(op: AluOp, width: Width) -> Kind {
                match (op, width) {
                    $( (AluOp::$name, Width::W64) => Kind::$wide, (AluOp::$name, Width::W32) => Kind::$narrow ),*
                }
            }

            /// The result of arithmetic; `None` for other kinds.
            #[inline(always)]
            fn arithmetic(self, a: u64, b: u64) -> Option<u64> {
                Some(match self {
                    $( Kind::$wide => calculate(AluOp::$name, Width::W64, a, b),
                       Kind::$narrow => calculate(AluOp::$name, Width::W32, a, b), )*
                    _ => return None,
                })
            }
        }
    };
}

kinds! {
    Add Add64 Add32, Sub Sub64 Sub32, Mul Mul64 Mul32, Div Div64 Div32, Sdiv Sdiv64 Sdiv32, Or Or64 Or32,
    And And64 And32, Lsh Lsh64 Lsh32, Rsh Rsh64 Rsh32, Mod Mod64 Mod32, Smod Smod64 Smod32, Xor Xor64 Xor32,
    Mov Mov64 Mov32, Arsh Arsh64 Arsh32
}

/// The table's row at a width.
#[inline(always)]
pub fn calculate(op: AluOp, width: Width, a: u64, b: u64) -> u64 {
    at_width(width, &Bits::new(64, a), &Bits::new(64, b), |a, b| op.apply(a, b)).value()
}

impl Op {
    /// Does nothing: what is left of an instruction that was taken out.
    pub const NOTHING: Op = Op { kind: Kind::Nothing, dst: 0, src: IMMEDIATE, size: 0, reads: 0, writes: 0, imm: 0 };

    /// Decodes an instruction. `references` are what `ld_imm64`s may refer to.
    // long: one arm for each form of instruction
    pub fn new(insn: &Insn, reference: Reference, references: &[Reference]) -> Op {
        let bit = |reg: Reg| 1u16 << reg.number();
        let set = |regs: RegSet| regs.iter().fold(0, |set, reg| set | bit(reg));
        let mut op = Op {
            kind: Kind::Unsupported,
            dst: 0,
            src: IMMEDIATE,
            size: 8,
            reads: set(insn.read()),
            writes: insn.written().map_or(0, bit),
            imm: 0,
        };
        let offset = |offset: i16| offset as i64 as u64;
        match *insn {
            Insn::Alu { op: alu, width, dst, src } => {
                op.kind = Kind::alu(alu, width);
                op.dst = dst.number();
                op.second(src);
            }
            Insn::Neg { width, dst } => {
                // Zero minus the register.
                op.kind = Kind::alu(AluOp::Mul, width);
                op.dst = dst.number();
                op.imm = u64::MAX;
            }
            Insn::MoveSignExtend { width, from, dst, src } => {
                op.kind = Kind::SignExtend;
                (op.dst, op.src, op.size) = (dst.number(), src.number(), from.bits() as u8);
                op.imm = width.bits().into();
            }
            Insn::Endian { order, size, dst } => {
                op.kind = if order == ByteOrder::Little { Kind::Truncate } else { Kind::Swap };
                (op.dst, op.size) = (dst.number(), size.bits() as u8);
            }
            Insn::LoadImm64 { dst, imm } => {
                op.dst = dst.number();
                let (start, inside) = match reference {
                    Reference::MapValue { map, offset } => (Reference::MapValue { map, offset: 0 }, offset),
                    other => (other, 0),
                };
                match (reference, imm, references.iter().position(|known| *known == start)) {
                    (Reference::None, Imm64::Value(value), _) => (op.kind, op.imm) = (Kind::Constant, value),
                    (Reference::None, _, _) | (_, _, None) => {}
                    (_, _, Some(at)) => {
                        (op.kind, op.src, op.imm) = (Kind::Reference, at.min(255) as u8, inside.into());
                    }
                }
            }
            Insn::Load { size, signed, dst, address } => {
                op.kind = if signed { Kind::LoadSigned } else { Kind::Load };
                (op.dst, op.src, op.size) = (dst.number(), address.base.number(), size.bytes() as u8);
                op.imm = offset(address.offset);
            }
            Insn::LoadAcquire { size, dst, address } => {
                op.kind = Kind::Load;
                (op.dst, op.src, op.size) = (dst.number(), address.base.number(), size.bytes() as u8);
                op.imm = offset(address.offset);
            }
            Insn::Store { size, address, src } => {
                op.store(size, address);
                // An immediate shares its place with the offset: 32 bits each.
                match src {
                    Source::Reg(src) => op.src = src.number(),
                    Source::Imm(imm) => op.imm = u64::from(op.imm as u32) | u64::from(imm as u32) << 32,
                }
            }
            Insn::StoreRelease { size, address, src } => {
                op.store(size, address);
                op.src = src.number();
            }
            Insn::Atomic { op: atomic, fetch, size, address, src } => {
                op.store(size, address);
                op.kind = Kind::Atomic(atomic, fetch);
                op.src = src.number();
            }
            Insn::Branch { op: jump, width, dst, src, .. } => {
                op.kind = Kind::Branch(jump, width);
                op.dst = dst.number();
                op.second(src);
            }
            _ => {}
        }
        op
    }

    fn second(&mut self, src: Source) {
        match src {
            Source::Reg(src) => self.src = src.number(),
            Source::Imm(imm) => self.imm = i64::from(imm) as u64,
        }
    }

    fn store(&mut self, size: Size, address: kiln_isa::Address) {
        self.kind = Kind::Store;
        self.dst = address.base.number();
        self.size = size.bytes() as u8;
        self.imm = u64::from(address.offset as i32 as u32);
    }

    /// Whether it decides where to go.
    pub fn is_branch(&self) -> bool {
        matches!(self.kind, Kind::Branch(..))
    }
}

/// Where a branch goes: to a position of the window, or out of it by a number that stands for the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Inside(u32),
    Outside(u32),
    /// Back, or to where the original does not go.
    Nowhere,
}

/// The exit to the window's own beginning.
pub const START: u32 = u32::MAX;

/// A decoded window.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Code {
    /// Its instructions.
    pub ops: Vec<Op>,
    targets: Vec<Target>,
}

impl Code {
    /// Decodes a window into this one's memory. `exits` are the targets outside that the original has.
    pub fn decode(&mut self, nodes: &[Node], references: &[Reference], exits: &[Reference]) {
        self.ops.clear();
        self.targets.clear();
        for (at, node) in nodes.iter().enumerate() {
            let op = Op::new(&node.insn, node.reference, references);
            if op.is_branch() {
                self.targets.resize(at + 1, Target::Nowhere);
                let inside = nodes.iter().position(|target| Some(target.id) == node.target());
                let outside = || exits.iter().position(|exit| *exit == node.reference);
                self.targets[at] = match inside {
                    Some(0) => Target::Outside(START),
                    Some(to) if to > at => Target::Inside(to as u32),
                    Some(_) => Target::Nowhere,
                    None => outside().map_or(Target::Nowhere, |exit| Target::Outside(exit as u32)),
                };
            }
            self.ops.push(op);
        }
    }
}

/// Registers while running.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Registers {
    /// R0 to R10; the rest is not used.
    pub values: [u64; 16],
    /// Which may be read, one bit each.
    pub readable: u16,
}

/// A run of bytes at an address.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its address.
    pub base: u64,
    /// Its first byte's index.
    pub start: usize,
    /// How many.
    pub bytes: u64,
}

/// May be read.
pub const READ: u8 = 1;
/// May be written.
pub const WRITE: u8 = 2;

/// Room after the last byte, so that eight bytes can be read at any place.
pub const PADDING: usize = 8;

/// Memory while running.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Where its bytes are.
    pub segments: Vec<Segment>,
    /// Its bytes, and [`PADDING`].
    pub data: Vec<u8>,
    /// What may be done with each.
    pub may: Vec<u8>,
    /// Index, bytes and permissions before each write.
    pub undo: Vec<(usize, u64, u64)>,
    /// Addresses of references.
    pub addresses: Vec<u64>,
    /// The branch that left the window, if one did: where to.
    pub exits: Vec<u32>,
}

/// Eight bytes as a number.
#[inline(always)]
pub fn word(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// A bit in each of the lowest bytes.
#[inline(always)]
const fn each(bit: u8, bytes: u8) -> u64 {
    let all = 0x0101_0101_0101_0101u64 * bit as u64;
    if bytes >= 8 { all } else { all & ((1 << (8 * bytes)) - 1) }
}

impl Memory {
    #[inline(always)]
    fn find(&self, at: u64, bytes: u8) -> Result<usize, Refusal> {
        for segment in &self.segments {
            let inside = at.wrapping_sub(segment.base);
            if inside < segment.bytes && u64::from(bytes) <= segment.bytes - inside {
                return Ok(segment.start + inside as usize);
            }
        }
        Err(Refusal::Memory)
    }

    #[inline(always)]
    fn load(&self, at: u64, bytes: u8) -> Result<u64, Refusal> {
        let from = self.find(at, bytes)?;
        let needed = each(READ, bytes);
        if word(&self.may, from) & needed != needed {
            return Err(Refusal::Memory);
        }
        Ok(word(&self.data, from) & each(0xff, bytes))
    }

    #[inline(always)]
    fn store(&mut self, at: u64, bytes: u8, value: u64) -> Result<(), Refusal> {
        let from = self.find(at, bytes)?;
        let needed = each(WRITE, bytes);
        let (old, may) = (word(&self.data, from), word(&self.may, from));
        if may & needed != needed {
            return Err(Refusal::Memory);
        }
        self.undo.push((from, old, may));
        let whole = each(0xff, bytes);
        let new = old & !whole | value & whole;
        self.data[from..from + 8].copy_from_slice(&new.to_le_bytes());
        self.may[from..from + 8].copy_from_slice(&(may | each(READ, bytes)).to_le_bytes());
        Ok(())
    }

    /// What differs from the beginning: index of eight bytes, and what they hold now.
    pub fn changes(&self) -> impl Iterator<Item = (usize, u64)> {
        // In order of place, whatever order they were written in.
        let mut places: Vec<usize> = self.undo.iter().map(|(at, ..)| *at).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|at| (at, word(&self.data, at)))
    }

    /// Undoes all writes but the first ones.
    pub fn restore(&mut self, keep: usize) {
        while self.undo.len() > keep {
            let Some((at, data, may)) = self.undo.pop() else { return };
            self.data[at..at + 8].copy_from_slice(&data.to_le_bytes());
            self.may[at..at + 8].copy_from_slice(&may.to_le_bytes());
        }
    }

    /// Runs a whole window.
    ///
    /// # Errors
    /// A [`Refusal`]: what was written until then is still there.
    #[inline]
    pub fn run(&mut self, code: &Code, registers: &mut Registers) -> Result<(), Refusal> {
        self.exits.clear();
        let mut at = 0;
        while let Some(op) = code.ops.get(at) {
            at += 1;
            if let Some(taken) = self.step(op, registers)? {
                match code.targets[at - 1] {
                    Target::Inside(to) if taken => at = to as usize,
                    Target::Inside(_) => {}
                    Target::Outside(exit) if taken => {
                        self.exits.push(exit);
                        return Ok(());
                    }
                    Target::Outside(_) => {}
                    Target::Nowhere => return Err(Refusal::Unsupported),
                }
            }
        }
        Ok(())
    }

    /// Runs one instruction; for a branch, whether it is taken.
    ///
    /// # Errors
    /// A [`Refusal`]: nothing has changed.
    #[inline(always)]
    pub fn step(&mut self, op: &Op, registers: &mut Registers) -> Result<Option<bool>, Refusal> {
        if op.reads & !registers.readable != 0 || op.writes & 1 << Reg::R10.number() != 0 {
            return Err(Refusal::Register);
        }
        let values = &registers.values;
        let first = values[usize::from(op.dst & 15)];
        let second = if op.src == IMMEDIATE { op.imm } else { values[usize::from(op.src & 15)] };
        let result = match op.kind {
            Kind::Load => self.load(second.wrapping_add(op.imm), op.size)?,
            Kind::LoadSigned => {
                let unused = 64 - 8 * u32::from(op.size);
                let value = self.load(second.wrapping_add(op.imm), op.size)?;
                ((value << unused) as i64 >> unused) as u64
            }
            Kind::Store => {
                let value = if op.src == IMMEDIATE { (op.imm as i64 >> 32) as u64 } else { second };
                self.store(first.wrapping_add(op.imm as i32 as u64), op.size, value)?;
                return Ok(None);
            }
            Kind::SignExtend => {
                let unused = 64 - u32::from(op.size);
                let value = ((second << unused) as i64 >> unused) as u64;
                if op.imm == 32 { value & u64::from(u32::MAX) } else { value }
            }
            Kind::Truncate if op.size == 64 => first,
            Kind::Truncate => first & ((1 << op.size) - 1),
            Kind::Swap => first.swap_bytes() >> (64 - u32::from(op.size)),
            Kind::Constant => op.imm,
            Kind::Reference => self.addresses[usize::from(op.src)].wrapping_add(op.imm),
            Kind::Atomic(atomic, fetch) => return self.atomic(op, (atomic, fetch), registers),
            Kind::Branch(jump, width) => {
                return Ok(Some(compare(jump, width, &Bits::new(64, first), &Bits::new(64, second))));
            }
            Kind::Nothing => return Ok(None),
            Kind::Unsupported => return Err(Refusal::Unsupported),
            arithmetic => arithmetic.arithmetic(first, second).ok_or(Refusal::Unsupported)?,
        };
        registers.values[usize::from(op.dst & 15)] = result;
        registers.readable |= op.writes;
        Ok(None)
    }

    fn atomic(
        &mut self,
        op: &Op,
        (atomic, fetch): (AtomicOp, bool),
        registers: &mut Registers,
    ) -> Result<Option<bool>, Refusal> {
        let bits = 8 * u32::from(op.size);
        let at = registers.values[usize::from(op.dst & 15)].wrapping_add(op.imm as i32 as u64);
        let old = Bits::new(bits, self.load(at, op.size)?);
        let operand = Bits::new(bits, registers.values[usize::from(op.src & 15)]);
        let expected = Bits::new(bits, registers.values[0]);
        let swaps = atomic != AtomicOp::CompareExchange || expected == old;
        let stored = if swaps { atomic.apply(&old, &operand) } else { old };
        self.store(at, op.size, stored.value())?;
        let result = if atomic == AtomicOp::CompareExchange { 0 } else { usize::from(op.src & 15) };
        if fetch || atomic == AtomicOp::CompareExchange {
            registers.values[result] = old.value();
            registers.readable |= op.writes;
        }
        Ok(None)
    }
}
