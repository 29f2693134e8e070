//! Slots to instructions and back.
//!
//! A slot is eight bytes (RFC 9669 section 3), little-endian here:
//!
//! ```text
//!   byte 0   byte 1        bytes 2-3   bytes 4-7
//!   opcode   src:4 dst:4   offset      imm
//! ```
//!
//! Decoding is strict: a form that no kernel accepts, or a reserved field that is not zero, is an error that names it,
//! so that `encode(decode(slots)) == slots` always holds. A `ld_imm64` takes two slots.

use crate::insn::{Address, ByteOrder, CallTarget, Imm64, Insn, PacketMode, Reg, Size, Source, Width};
use crate::table::{AluOp, AtomicOp, JumpOp};

/// One eight-byte instruction slot, fields as encoded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Slot {
    /// The opcode byte.
    pub opcode: u8,
    /// Destination register field, 0 to 15.
    pub dst: u8,
    /// Source register field, 0 to 15.
    pub src: u8,
    /// Offset field.
    pub offset: i16,
    /// Immediate field.
    pub imm: i32,
}

impl Slot {
    /// From little-endian bytes.
    pub const fn from_bytes(bytes: [u8; 8]) -> Slot {
        Slot {
            opcode: bytes[0],
            dst: bytes[1] & 0xf,
            src: bytes[1] >> 4,
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            imm: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }

    /// To little-endian bytes.
    pub const fn to_bytes(self) -> [u8; 8] {
        let (offset, imm) = (self.offset.to_le_bytes(), self.imm.to_le_bytes());
        [self.opcode, self.src << 4 | self.dst & 0xf, offset[0], offset[1], imm[0], imm[1], imm[2], imm[3]]
    }

    /// The slots of a byte string; `None` when its length is not a multiple of eight.
    pub fn parse_all(bytes: &[u8]) -> Option<Vec<Slot>> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        rest.is_empty().then(|| chunks.iter().map(|chunk| Slot::from_bytes(*chunk)).collect())
    }
}

/// Why slots are not an instruction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// No form has this opcode byte.
    #[error("unknown opcode {opcode:#04x}")]
    Opcode {
        /// The byte.
        opcode: u8,
    },
    /// A register field above 10.
    #[error("register r{number} does not exist")]
    Register {
        /// The field.
        number: u8,
    },
    /// A field that the opcode reserves, or a value of it that means nothing.
    #[error("opcode {opcode:#04x}: field {field} has the reserved value {value}")]
    Reserved {
        /// The opcode byte.
        opcode: u8,
        /// `src`, `dst`, `offset`, `imm`, or a field of the second slot.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// A `ld_imm64` without its second slot.
    #[error("the second slot of a 64-bit immediate load is missing")]
    Truncated,
}

// Instruction classes, opcode bits 0-2 (RFC 9669 section 3).
const LD: u8 = 0;
const LDX: u8 = 1;
const ST: u8 = 2;
const STX: u8 = 3;
const ALU: u8 = 4;
const JMP: u8 = 5;
const JMP32: u8 = 6;
const ALU64: u8 = 7;
/// Source bit: the second operand is a register.
const X: u8 = 0x08;
// Memory modes, opcode bits 5-7 (RFC 9669 section 5).
const MODE_IMM: u8 = 0x00;
const MODE_ABS: u8 = 0x20;
const MODE_IND: u8 = 0x40;
const MODE_MEM: u8 = 0x60;
const MODE_MEMSX: u8 = 0x80;
const MODE_ATOMIC: u8 = 0xc0;
// ALU and jump codes that are not rows of the tables.
const CODE_NEG: u8 = 0x8;
const CODE_END: u8 = 0xd;
const CODE_JA: u8 = 0x0;
const CODE_CALL: u8 = 0x8;
const CODE_EXIT: u8 = 0x9;
const CODE_MAY_GOTO: u8 = 0xe;
/// `imm` of load-acquire and store-release (kernel `include/linux/filter.h`).
const IMM_LOAD_ACQUIRE: i32 = 0x100;
const IMM_STORE_RELEASE: i32 = 0x110;
/// Fetch bit of an atomic's `imm`.
const FETCH: i32 = 0x01;
/// Offset that marks a move as an address space cast.
const OFFSET_ADDRESS_SPACE_CAST: i16 = 1;

/// Decodes the instruction that `slots` begins with.
///
/// # Errors
/// Returns a [`DecodeError`] if the slots do not begin with an instruction; [`DecodeError::Truncated`] for an empty
/// slice.
pub fn decode(slots: &[Slot]) -> Result<Insn, DecodeError> {
    let slot = *slots.first().ok_or(DecodeError::Truncated)?;
    let fields = Fields { slot };
    match slot.opcode & 7 {
        LD => fields.load_special(slots.get(1)),
        LDX => fields.load(),
        ST => fields.store_imm(),
        STX => fields.store_reg(),
        ALU => fields.alu(Width::W32),
        ALU64 => fields.alu(Width::W64),
        JMP => fields.jump(Width::W64),
        _ => fields.jump(Width::W32),
    }
}

/// Decodes a whole sequence; each instruction comes with the index of its first slot.
///
/// # Errors
/// Returns the first instruction that does not decode, with its slot index.
pub fn decode_all(slots: &[Slot]) -> Result<Vec<(usize, Insn)>, (usize, DecodeError)> {
    let mut insns = Vec::with_capacity(slots.len());
    let mut at = 0;
    while at < slots.len() {
        let insn = decode(&slots[at..]).map_err(|error| (at, error))?;
        insns.push((at, insn));
        at += insn.slots() as usize;
    }
    Ok(insns)
}

struct Fields {
    slot: Slot,
}

impl Fields {
    fn code(&self) -> u8 {
        self.slot.opcode >> 4
    }

    fn reserved<T>(&self, field: &'static str, value: i64) -> Result<T, DecodeError> {
        Err(DecodeError::Reserved { opcode: self.slot.opcode, field, value })
    }

    fn unknown<T>(&self) -> Result<T, DecodeError> {
        Err(DecodeError::Opcode { opcode: self.slot.opcode })
    }

    fn zero_src(&self) -> Result<(), DecodeError> {
        if self.slot.src == 0 { Ok(()) } else { self.reserved("src", self.slot.src.into()) }
    }

    fn zero_dst(&self) -> Result<(), DecodeError> {
        if self.slot.dst == 0 { Ok(()) } else { self.reserved("dst", self.slot.dst.into()) }
    }

    fn zero_offset(&self) -> Result<(), DecodeError> {
        if self.slot.offset == 0 { Ok(()) } else { self.reserved("offset", self.slot.offset.into()) }
    }

    fn zero_imm(&self) -> Result<(), DecodeError> {
        if self.slot.imm == 0 { Ok(()) } else { self.reserved("imm", self.slot.imm.into()) }
    }

    fn dst(&self) -> Result<Reg, DecodeError> {
        Reg::new(self.slot.dst).ok_or(DecodeError::Register { number: self.slot.dst })
    }

    fn src(&self) -> Result<Reg, DecodeError> {
        Reg::new(self.slot.src).ok_or(DecodeError::Register { number: self.slot.src })
    }

    /// The second operand that the source bit chooses; the other field must be zero.
    fn source(&self) -> Result<Source, DecodeError> {
        if self.slot.opcode & X != 0 {
            self.zero_imm()?;
            Ok(Source::Reg(self.src()?))
        } else {
            self.zero_src()?;
            Ok(Source::Imm(self.slot.imm))
        }
    }

    fn size(&self) -> Size {
        match self.slot.opcode & 0x18 {
            0x00 => Size::B4,
            0x08 => Size::B2,
            0x10 => Size::B1,
            _ => Size::B8,
        }
    }

    fn address(&self, base: Reg) -> Address {
        Address { base, offset: self.slot.offset }
    }

    fn load_special(&self, second: Option<&Slot>) -> Result<Insn, DecodeError> {
        match self.slot.opcode & 0xe0 {
            MODE_IMM if self.size() == Size::B8 => self.load_imm64(second),
            MODE_ABS | MODE_IND if self.size() != Size::B8 => {
                self.zero_dst()?;
                self.zero_offset()?;
                let mode = if self.slot.opcode & 0xe0 == MODE_ABS {
                    self.zero_src()?;
                    PacketMode::Absolute
                } else {
                    PacketMode::Indirect(self.src()?)
                };
                Ok(Insn::LoadPacket { mode, size: self.size(), offset: self.slot.imm })
            }
            _ => self.unknown(),
        }
    }

    fn load_imm64(&self, second: Option<&Slot>) -> Result<Insn, DecodeError> {
        let second = second.ok_or(DecodeError::Truncated)?;
        self.zero_offset()?;
        for (field, value) in [
            ("second opcode", i64::from(second.opcode)),
            ("second dst", second.dst.into()),
            ("second src", second.src.into()),
            ("second offset", second.offset.into()),
        ] {
            if value != 0 {
                return self.reserved(field, value);
            }
        }
        let (low, high) = (self.slot.imm, second.imm);
        let imm = match self.slot.src {
            0 => Imm64::Value(u64::from(high as u32) << 32 | u64::from(low as u32)),
            1 => Imm64::MapFd { fd: low, high },
            2 => Imm64::MapValueFd { fd: low, offset: high },
            3 => Imm64::VariableBtf { id: low, fd: high },
            4 => Imm64::Code { offset: low, high },
            5 => Imm64::MapIndex { index: low, high },
            6 => Imm64::MapValueIndex { index: low, offset: high },
            other => return self.reserved("src", other.into()),
        };
        Ok(Insn::LoadImm64 { dst: self.dst()?, imm })
    }

    fn load(&self) -> Result<Insn, DecodeError> {
        let signed = match self.slot.opcode & 0xe0 {
            MODE_MEM => false,
            MODE_MEMSX if self.size() != Size::B8 => true,
            _ => return self.unknown(),
        };
        self.zero_imm()?;
        Ok(Insn::Load { size: self.size(), signed, dst: self.dst()?, address: self.address(self.src()?) })
    }

    fn store_imm(&self) -> Result<Insn, DecodeError> {
        if self.slot.opcode & 0xe0 != MODE_MEM {
            return self.unknown();
        }
        self.zero_src()?;
        Ok(Insn::Store { size: self.size(), address: self.address(self.dst()?), src: Source::Imm(self.slot.imm) })
    }

    fn store_reg(&self) -> Result<Insn, DecodeError> {
        match self.slot.opcode & 0xe0 {
            MODE_MEM => {
                self.zero_imm()?;
                let (address, src) = (self.address(self.dst()?), Source::Reg(self.src()?));
                Ok(Insn::Store { size: self.size(), address, src })
            }
            MODE_ATOMIC => self.atomic(),
            _ => self.unknown(),
        }
    }

    fn atomic(&self) -> Result<Insn, DecodeError> {
        let (size, imm) = (self.size(), self.slot.imm);
        match imm {
            IMM_LOAD_ACQUIRE => {
                let address = self.address(self.src()?);
                return Ok(Insn::LoadAcquire { size, dst: self.dst()?, address });
            }
            IMM_STORE_RELEASE => {
                let address = self.address(self.dst()?);
                return Ok(Insn::StoreRelease { size, address, src: self.src()? });
            }
            _ => {}
        }
        let fetch = imm & FETCH != 0;
        let op = AtomicOp::ALL.iter().copied().find(|op| op.row().imm == imm & !FETCH);
        match op {
            Some(op) if fetch || !op.row().always_fetch => {
                if matches!(size, Size::B1 | Size::B2) {
                    return self.unknown();
                }
                Ok(Insn::Atomic { op, fetch, size, address: self.address(self.dst()?), src: self.src()? })
            }
            _ => self.reserved("imm", imm.into()),
        }
    }

    fn alu(&self, width: Width) -> Result<Insn, DecodeError> {
        match self.code() {
            CODE_NEG => {
                if self.slot.opcode & X != 0 {
                    return self.unknown();
                }
                self.zero_src()?;
                self.zero_offset()?;
                self.zero_imm()?;
                return Ok(Insn::Neg { width, dst: self.dst()? });
            }
            CODE_END => return self.endian(width),
            _ => {}
        }
        let register = self.slot.opcode & X != 0;
        let offset = self.slot.offset;
        if self.code() == AluOp::Mov.row().code && register && offset != 0 {
            return self.special_move(width);
        }
        let mut rows = AluOp::ALL.iter().copied().filter(|op| op.row().code == self.code()).peekable();
        if rows.peek().is_none() {
            return self.unknown();
        }
        match rows.find(|op| op.row().offset == offset) {
            Some(op) => Ok(Insn::Alu { op, width, dst: self.dst()?, src: self.source()? }),
            None => self.reserved("offset", offset.into()),
        }
    }

    fn special_move(&self, width: Width) -> Result<Insn, DecodeError> {
        let (dst, src) = (self.dst()?, self.src()?);
        match (self.slot.offset, width) {
            (OFFSET_ADDRESS_SPACE_CAST, Width::W64) => {
                let imm = self.slot.imm as u32;
                Ok(Insn::AddressSpaceCast { dst, src, to: (imm >> 16) as u16, from: imm as u16 })
            }
            (8 | 16, _) | (32, Width::W64) => {
                self.zero_imm()?;
                let from = Size::from_bytes(self.slot.offset as u32 / 8).expect("1, 2 or 4 bytes");
                Ok(Insn::MoveSignExtend { width, from, dst, src })
            }
            _ => self.reserved("offset", self.slot.offset.into()),
        }
    }

    fn endian(&self, width: Width) -> Result<Insn, DecodeError> {
        self.zero_src()?;
        self.zero_offset()?;
        let order = match (width, self.slot.opcode & X != 0) {
            (Width::W32, false) => ByteOrder::Little,
            (Width::W32, true) => ByteOrder::Big,
            (Width::W64, false) => ByteOrder::Swap,
            (Width::W64, true) => return self.unknown(),
        };
        let size = match self.slot.imm {
            16 => Size::B2,
            32 => Size::B4,
            64 => Size::B8,
            other => return self.reserved("imm", other.into()),
        };
        Ok(Insn::Endian { order, size, dst: self.dst()? })
    }

    fn jump(&self, width: Width) -> Result<Insn, DecodeError> {
        let register = self.slot.opcode & X != 0;
        match (self.code(), width, register) {
            (CODE_JA, _, false) => {
                self.zero_dst()?;
                self.zero_src()?;
                if width == Width::W64 {
                    self.zero_imm()?;
                    Ok(Insn::Jump { offset: self.slot.offset.into(), long: false })
                } else {
                    self.zero_offset()?;
                    Ok(Insn::Jump { offset: self.slot.imm, long: true })
                }
            }
            (CODE_JA, Width::W64, true) => {
                self.zero_src()?;
                self.zero_offset()?;
                self.zero_imm()?;
                Ok(Insn::JumpIndirect { dst: self.dst()? })
            }
            (CODE_MAY_GOTO, Width::W64, false) => {
                self.zero_dst()?;
                self.zero_src()?;
                self.zero_imm()?;
                Ok(Insn::MayGoto { offset: self.slot.offset })
            }
            (CODE_CALL, Width::W64, false) => self.call(),
            (CODE_EXIT, Width::W64, false) => {
                self.zero_dst()?;
                self.zero_src()?;
                self.zero_offset()?;
                self.zero_imm()?;
                Ok(Insn::Exit)
            }
            (code, _, _) => match JumpOp::ALL.iter().copied().find(|op| op.row().code == code) {
                Some(op) => {
                    let (dst, src) = (self.dst()?, self.source()?);
                    Ok(Insn::Branch { op, width, dst, src, offset: self.slot.offset })
                }
                None => self.unknown(),
            },
        }
    }

    fn call(&self) -> Result<Insn, DecodeError> {
        self.zero_dst()?;
        let imm = self.slot.imm;
        if self.slot.src != 2 {
            self.zero_offset()?;
        }
        Ok(Insn::Call(match self.slot.src {
            0 => CallTarget::Helper(imm as u32),
            1 => CallTarget::Subprogram(imm),
            2 => CallTarget::Kfunc { id: imm, fd_index: self.slot.offset },
            other => return self.reserved("src", other.into()),
        }))
    }
}

/// Encodes an instruction as one slot, or two for a `ld_imm64`.
// long: one arm for each form of instruction
pub fn encode(insn: &Insn) -> (Slot, Option<Slot>) {
    let plain = |opcode, dst: u8, src: u8, offset, imm| (Slot { opcode, dst, src, offset, imm }, None);
    match *insn {
        Insn::Alu { op, width, dst, src } => {
            let row = op.row();
            let (bit, src, imm) = source_fields(src);
            plain(row.code << 4 | bit | alu_class(width), dst.number(), src, row.offset, imm)
        }
        Insn::Neg { width, dst } => plain(CODE_NEG << 4 | alu_class(width), dst.number(), 0, 0, 0),
        Insn::MoveSignExtend { width, from, dst, src } => {
            let opcode = AluOp::Mov.row().code << 4 | X | alu_class(width);
            plain(opcode, dst.number(), src.number(), from.bits() as i16, 0)
        }
        Insn::AddressSpaceCast { dst, src, to, from } => {
            let opcode = AluOp::Mov.row().code << 4 | X | ALU64;
            let imm = (u32::from(to) << 16 | u32::from(from)) as i32;
            plain(opcode, dst.number(), src.number(), OFFSET_ADDRESS_SPACE_CAST, imm)
        }
        Insn::Endian { order, size, dst } => {
            let low = match order {
                ByteOrder::Little => ALU,
                ByteOrder::Big => X | ALU,
                ByteOrder::Swap => ALU64,
            };
            plain(CODE_END << 4 | low, dst.number(), 0, 0, size.bits() as i32)
        }
        Insn::LoadImm64 { dst, imm } => encode_imm64(dst, imm),
        Insn::Load { size, signed, dst, address } => {
            let mode = if signed { MODE_MEMSX } else { MODE_MEM };
            plain(mode | size_bits(size) | LDX, dst.number(), address.base.number(), address.offset, 0)
        }
        Insn::Store { size, address, src } => {
            let (bit, src, imm) = source_fields(src);
            let class = if bit == 0 { ST } else { STX };
            plain(MODE_MEM | size_bits(size) | class, address.base.number(), src, address.offset, imm)
        }
        Insn::Atomic { op, fetch, size, address, src } => {
            let imm = op.row().imm | if fetch { FETCH } else { 0 };
            let opcode = MODE_ATOMIC | size_bits(size) | STX;
            plain(opcode, address.base.number(), src.number(), address.offset, imm)
        }
        Insn::LoadAcquire { size, dst, address } => {
            let opcode = MODE_ATOMIC | size_bits(size) | STX;
            plain(opcode, dst.number(), address.base.number(), address.offset, IMM_LOAD_ACQUIRE)
        }
        Insn::StoreRelease { size, address, src } => {
            let opcode = MODE_ATOMIC | size_bits(size) | STX;
            plain(opcode, address.base.number(), src.number(), address.offset, IMM_STORE_RELEASE)
        }
        Insn::LoadPacket { mode, size, offset } => {
            let (mode, src) = match mode {
                PacketMode::Absolute => (MODE_ABS, 0),
                PacketMode::Indirect(reg) => (MODE_IND, reg.number()),
            };
            plain(mode | size_bits(size) | LD, 0, src, 0, offset)
        }
        Insn::Jump { offset, long: true } => plain(CODE_JA << 4 | JMP32, 0, 0, 0, offset),
        Insn::Jump { offset, long: false } => plain(CODE_JA << 4 | JMP, 0, 0, offset as i16, 0),
        Insn::JumpIndirect { dst } => plain(CODE_JA << 4 | X | JMP, dst.number(), 0, 0, 0),
        Insn::Branch { op, width, dst, src, offset } => {
            let (bit, src, imm) = source_fields(src);
            let class = if width == Width::W64 { JMP } else { JMP32 };
            plain(op.row().code << 4 | bit | class, dst.number(), src, offset, imm)
        }
        Insn::MayGoto { offset } => plain(CODE_MAY_GOTO << 4 | JMP, 0, 0, offset, 0),
        Insn::Call(CallTarget::Helper(id)) => plain(CODE_CALL << 4 | JMP, 0, 0, 0, id as i32),
        Insn::Call(CallTarget::Subprogram(offset)) => plain(CODE_CALL << 4 | JMP, 0, 1, 0, offset),
        Insn::Call(CallTarget::Kfunc { id, fd_index }) => plain(CODE_CALL << 4 | JMP, 0, 2, fd_index, id),
        Insn::Exit => plain(CODE_EXIT << 4 | JMP, 0, 0, 0, 0),
    }
}

/// Encodes a whole sequence.
pub fn encode_all<'a>(insns: impl IntoIterator<Item = &'a Insn>) -> Vec<Slot> {
    let mut slots = Vec::new();
    for insn in insns {
        let (first, second) = encode(insn);
        slots.push(first);
        slots.extend(second);
    }
    slots
}

fn encode_imm64(dst: Reg, imm: Imm64) -> (Slot, Option<Slot>) {
    let (src, low, high) = match imm {
        Imm64::Value(value) => (0, value as u32 as i32, (value >> 32) as u32 as i32),
        Imm64::MapFd { fd, high } => (1, fd, high),
        Imm64::MapValueFd { fd, offset } => (2, fd, offset),
        Imm64::VariableBtf { id, fd } => (3, id, fd),
        Imm64::Code { offset, high } => (4, offset, high),
        Imm64::MapIndex { index, high } => (5, index, high),
        Imm64::MapValueIndex { index, offset } => (6, index, offset),
    };
    let opcode = MODE_IMM | size_bits(Size::B8) | LD;
    let first = Slot { opcode, dst: dst.number(), src, offset: 0, imm: low };
    (first, Some(Slot { imm: high, ..Slot::default() }))
}

fn source_fields(src: Source) -> (u8, u8, i32) {
    match src {
        Source::Reg(reg) => (X, reg.number(), 0),
        Source::Imm(imm) => (0, 0, imm),
    }
}

fn alu_class(width: Width) -> u8 {
    if width == Width::W64 { ALU64 } else { ALU }
}

fn size_bits(size: Size) -> u8 {
    match size {
        Size::B4 => 0x00,
        Size::B2 => 0x08,
        Size::B1 => 0x10,
        Size::B8 => 0x18,
    }
}
