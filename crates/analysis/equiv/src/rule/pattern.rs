//! The instructions of a rule, and what their placeholders are bound to.

use kiln_isa::semantics::Bits;
use kiln_isa::{Address, AtomicOp, Imm64, Insn, Reg, Source};

/// Maximum number of immediates, of offsets and of expressions in a rule.
pub const HOLES: usize = 8;

/// What the immediate of a rule's instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Immediate {
    /// The number in the instruction, or the instruction has none.
    #[default]
    Literal,
    /// `$a`: any number, bound by matching. The number of the placeholder.
    Hole(u8),
    /// `$(a & b)`: a number computed from bound ones. The index in [`Rule::expressions`](crate::Rule::expressions).
    Expression(u8),
}

/// What the offset of a rule's instruction is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Offset {
    /// The offset in the instruction, or the instruction has none.
    #[default]
    Literal,
    /// `@o + 4`: any offset, bound by matching, plus a constant.
    Hole {
        /// The number of the placeholder.
        hole: u8,
        /// The constant added to it.
        plus: i8,
    },
}

/// One instruction of a rule. Its registers are placeholders, but for R10.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// The instruction, with zero where a field is a placeholder.
    pub insn: Insn,
    /// What its immediate is.
    pub immediate: Immediate,
    /// What its offset is.
    pub offset: Offset,
}

impl From<Insn> for Pattern {
    fn from(insn: Insn) -> Pattern {
        Pattern { insn, immediate: Immediate::Literal, offset: Offset::Literal }
    }
}

impl Pattern {
    /// The pattern with a placeholder as its immediate; `None` if the instruction has no immediate.
    pub fn with_immediate(self, immediate: Immediate) -> Option<Pattern> {
        immediate_of(&self.insn)?;
        let insn = map_fields(&self.insn, &mut Some, &mut |_| Some(0), &mut Some)?;
        Some(Pattern { insn, immediate, ..self })
    }

    /// The pattern with a placeholder as its offset; `None` if the instruction has no offset.
    pub fn with_offset(self, offset: Offset) -> Option<Pattern> {
        Fields::of(&self.insn)?.offset?;
        let insn = map_fields(&self.insn, &mut Some, &mut Some, &mut |_| Some(0))?;
        Some(Pattern { insn, offset, ..self })
    }

    /// The pattern with its registers renamed; `None` if rules may not hold the instruction.
    pub fn renamed(self, rename: &dyn Fn(Reg) -> Reg) -> Option<Pattern> {
        let insn = map_fields(&self.insn, &mut |reg| Some(rename(reg)), &mut Some, &mut Some)?;
        Some(Pattern { insn, ..self })
    }
}

/// Maps an instruction's registers, its immediate (sign-extended; all bits of a `ld_imm64`) and its offset; everything
/// else stays. `None` if a mapping returns `None` or if rules may not hold the instruction. A 32-bit immediate gets the
/// lower bits of its new value.
pub(crate) fn map_fields(
    insn: &Insn,
    reg: &mut dyn FnMut(Reg) -> Option<Reg>,
    number: &mut dyn FnMut(i64) -> Option<i64>,
    offset: &mut dyn FnMut(i16) -> Option<i16>,
) -> Option<Insn> {
    let mut source = |src: Source, reg: &mut dyn FnMut(Reg) -> Option<Reg>| {
        Some(match src {
            Source::Reg(src) => Source::Reg(reg(src)?),
            Source::Imm(value) => Source::Imm(number(value.into())? as i32),
        })
    };
    let mut at = |address: Address, reg: &mut dyn FnMut(Reg) -> Option<Reg>| {
        Some(Address { base: reg(address.base)?, offset: offset(address.offset)? })
    };
    Some(match *insn {
        Insn::Alu { op, width, dst, src } => Insn::Alu { op, width, dst: reg(dst)?, src: source(src, reg)? },
        Insn::Neg { width, dst } => Insn::Neg { width, dst: reg(dst)? },
        Insn::MoveSignExtend { width, from, dst, src } => {
            Insn::MoveSignExtend { width, from, dst: reg(dst)?, src: reg(src)? }
        }
        Insn::Endian { order, size, dst } => Insn::Endian { order, size, dst: reg(dst)? },
        Insn::LoadImm64 { dst, imm: Imm64::Value(value) } => {
            Insn::LoadImm64 { dst: reg(dst)?, imm: Imm64::Value(number(value as i64)? as u64) }
        }
        Insn::Load { size, signed, dst, address } => {
            Insn::Load { size, signed, dst: reg(dst)?, address: at(address, reg)? }
        }
        Insn::Store { size, address, src } => Insn::Store { size, address: at(address, reg)?, src: source(src, reg)? },
        Insn::Branch { op, width, dst, src, offset: 0 } => {
            Insn::Branch { op, width, dst: reg(dst)?, src: source(src, reg)?, offset: 0 }
        }
        Insn::Atomic { op, fetch, size, address, src } if op != AtomicOp::CompareExchange => {
            Insn::Atomic { op, fetch, size, address: at(address, reg)?, src: reg(src)? }
        }
        _ => return None,
    })
}

/// An instruction taken apart.
#[derive(Clone, Copy)]
pub(crate) struct Fields {
    /// The instruction with R0 and zero in its fields.
    shape: Insn,
    registers: [Option<Reg>; 2],
    immediate: Option<i64>,
    pub(crate) offset: Option<i16>,
}

impl Fields {
    /// The fields of an instruction; `None` if rules may not hold it.
    pub(crate) fn of(insn: &Insn) -> Option<Fields> {
        let (mut registers, mut immediate, mut offset) = ([None; 2], None, None);
        let mut free = registers.iter_mut();
        let shape = map_fields(
            insn,
            &mut |reg| {
                *free.next()? = Some(reg);
                Some(Reg::R0)
            },
            &mut |number| {
                immediate = Some(number);
                Some(0)
            },
            &mut |place| {
                offset = Some(place);
                Some(0)
            },
        )?;
        Some(Fields { shape, registers, immediate, offset })
    }
}

/// An instruction with R0 and zero in its fields. Instructions that match a pattern have its shape. `None` if rules may
/// not hold the instruction.
pub fn shape(insn: &Insn) -> Option<Insn> {
    Fields::of(insn).map(|fields| fields.shape)
}

/// The immediate of an instruction, sign-extended, or all bits of a `ld_imm64`; `None` if it has none.
pub fn immediate_of(insn: &Insn) -> Option<i64> {
    Fields::of(insn)?.immediate
}

/// What a rule's placeholders are bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// Registers by placeholder number; R10 is itself.
    pub registers: [Option<Reg>; Reg::COUNT],
    /// Immediates by hole.
    pub immediates: [Option<i64>; HOLES],
    /// Offsets by hole.
    pub offsets: [Option<i16>; HOLES],
}

impl Default for Binding {
    fn default() -> Binding {
        Binding { registers: [None; Reg::COUNT], immediates: [None; HOLES], offsets: [None; HOLES] }
    }
}

fn bind<T: PartialEq + Copy>(place: &mut Option<T>, value: T) -> Option<()> {
    (*place.get_or_insert(value) == value).then_some(())
}

impl Binding {
    /// Binds one instruction of a rule's old window, on top of what is bound already. `None` if it does not match; the
    /// binding is then of no use.
    pub fn extend(&mut self, pattern: &Pattern, insn: &Insn) -> Option<()> {
        let (own, theirs) = (Fields::of(&pattern.insn)?, Fields::of(insn)?);
        if own.shape != theirs.shape {
            return None;
        }
        for (own, theirs) in own.registers.into_iter().flatten().zip(theirs.registers.into_iter().flatten()) {
            match own {
                Reg::R10 => (theirs == Reg::R10).then_some(())?,
                _ => bind(&mut self.registers[own.index()], theirs)?,
            }
        }
        if let Some(number) = theirs.immediate {
            self.bind_immediate(pattern, number)?;
        }
        match (pattern.offset, theirs.offset) {
            (Offset::Hole { hole, plus }, Some(offset)) => {
                bind(&mut self.offsets[usize::from(hole)], offset.checked_sub(plus.into())?)
            }
            _ => (own.offset == theirs.offset).then_some(()),
        }
    }

    /// Binds the immediate of a rule's old instruction to a number; `None` if it is another number.
    pub fn bind_immediate(&mut self, pattern: &Pattern, number: i64) -> Option<()> {
        match pattern.immediate {
            Immediate::Hole(hole) => bind(&mut self.immediates[usize::from(hole)], number),
            Immediate::Literal => (immediate_of(&pattern.insn) == Some(number)).then_some(()),
            // Old windows have no expressions.
            Immediate::Expression(_) => None,
        }
    }

    /// The immediates as bit vectors, zero where nothing is bound.
    pub fn immediate_values(&self) -> Vec<Bits> {
        self.immediates.iter().map(|value| Bits::new(64, value.unwrap_or(0) as u64)).collect()
    }
}
