//! Instructions to bytes: one method per instruction.

use kiln_isa::{Size, Width};

use super::assembler::Assembler;
use super::operand::{Arithmetic, Condition, Gpr, Memory, Operand, Shift, Unary};
use crate::blind::Keys;
use crate::immediate::extended;

/// How an instruction's operands are encoded.
#[derive(Clone, Copy, Default)]
struct Form {
    /// A legacy prefix (66, F2, F3, F0), written before REX.
    prefix: Option<u8>,
    /// REX.W.
    wide: bool,
    /// The register field names a byte register, so that numbers 4 to 7 need a REX.
    byte_reg: bool,
    /// The same for the register-or-memory operand.
    byte_rm: bool,
}

const fn is_wide(width: Width) -> bool {
    matches!(width, Width::W64)
}

// Instructions. Each method is one, named after what it does, operands in Intel's order.
impl Assembler {
    fn emit(&mut self, form: Form, opcode: &[u8], reg: u8, operand: Operand) {
        let operand = self.in_frame(operand);
        self.bytes.extend(form.prefix);
        let (base, index_high, rm_byte) = match operand {
            Operand::Gpr(gpr) => (gpr, false, form.byte_rm && gpr.0 >= 4),
            Operand::Memory(memory) => (memory.base, memory.index.is_some_and(|(index, _)| index.high()), false),
        };
        let rex = 0x40
            | u8::from(form.wide) << 3
            | u8::from(reg >= 8) << 2
            | u8::from(index_high) << 1
            | u8::from(base.high());
        if rex != 0x40 || rm_byte || form.byte_reg && reg >= 4 {
            self.bytes.push(rex);
        }
        self.bytes.extend_from_slice(opcode);
        self.modrm(reg, operand);
    }

    /// An operand in a frame whose pointer rbp does not hold, from rsp.
    fn in_frame(&self, operand: Operand) -> Operand {
        match (operand, self.frame) {
            (Operand::Memory(Memory { base: Gpr::RBP, index, displacement }), Some(above)) => {
                Operand::Memory(Memory { base: Gpr::RSP, index, displacement: displacement.wrapping_add(above) })
            }
            _ => operand,
        }
    }

    fn modrm(&mut self, reg: u8, operand: Operand) {
        let reg = (reg & 7) << 3;
        match operand {
            Operand::Gpr(gpr) => self.bytes.push(0xc0 | reg | gpr.low()),
            Operand::Memory(Memory { base, index, displacement }) => {
                // rbp and r13 as a base without displacement have another meaning, and so have rsp and r12 without an
                // index byte.
                let mode = match displacement {
                    0 if base.low() != 5 => 0x00,
                    -128..=127 => 0x40,
                    _ => 0x80,
                };
                if let Some((index, scale)) = index {
                    let scale = (scale.trailing_zeros() as u8) << 6;
                    self.bytes.extend([mode | reg | 4, scale | index.low() << 3 | base.low()]);
                } else {
                    self.bytes.push(mode | reg | base.low());
                    if base.low() == 4 {
                        self.bytes.push(0x24);
                    }
                }
                match mode {
                    0x00 => {}
                    0x40 => self.bytes.push(displacement as i8 as u8),
                    _ => self.imm32(displacement),
                }
            }
        }
    }

    fn imm32(&mut self, imm: i32) {
        self.bytes.extend(imm.to_le_bytes());
    }

    fn at_width(width: Width) -> Form {
        Form { wide: is_wide(width), ..Form::default() }
    }

    /// `op dst, src`.
    pub fn arithmetic(&mut self, op: Arithmetic, width: Width, dst: Gpr, src: Gpr) {
        self.emit(Self::at_width(width), &[op as u8 * 8 + 1], src.0, dst.into());
    }

    /// `op dst, imm`, the immediate sign-extended.
    pub fn arithmetic_imm(&mut self, op: Arithmetic, width: Width, dst: impl Into<Operand>, imm: i32) {
        let dst = dst.into();
        if let Ok(short) = i8::try_from(imm) {
            self.emit(Self::at_width(width), &[0x83], op as u8, dst);
            self.bytes.push(short as u8);
        } else {
            if dst == Operand::Gpr(Gpr::RAX) {
                if is_wide(width) {
                    self.bytes.push(0x48);
                }
                self.bytes.push(op as u8 * 8 + 5);
            } else {
                self.emit(Self::at_width(width), &[0x81], op as u8, dst);
            }
            self.imm32(imm);
        }
    }

    /// `op dst, [memory]`.
    pub fn arithmetic_load(&mut self, op: Arithmetic, width: Width, dst: Gpr, memory: Memory) {
        self.emit(Self::at_width(width), &[op as u8 * 8 + 3], dst.0, memory.into());
    }

    /// `bt set, bit`: the carry flag is a bit of a register, its number modulo 64.
    pub fn bit_test(&mut self, set: Gpr, bit: Gpr) {
        self.emit(Self::at_width(Width::W64), &[0x0f, 0xa3], bit.0, set.into());
    }

    /// `cmp byte [memory], imm`.
    pub fn compare_byte(&mut self, memory: Memory, imm: u8) {
        self.emit(Form::default(), &[0x80], Arithmetic::Cmp as u8, memory.into());
        self.bytes.push(imm);
    }

    /// `lock op [memory], src`.
    pub fn locked_arithmetic(&mut self, op: Arithmetic, width: Width, memory: Memory, src: Gpr) {
        let form = Form { prefix: Some(0xf0), ..Self::at_width(width) };
        self.emit(form, &[op as u8 * 8 + 1], src.0, memory.into());
    }

    /// `lock xadd [memory], src`.
    pub fn locked_exchange_add(&mut self, width: Width, memory: Memory, src: Gpr) {
        let form = Form { prefix: Some(0xf0), ..Self::at_width(width) };
        self.emit(form, &[0x0f, 0xc1], src.0, memory.into());
    }

    /// `lock cmpxchg [memory], src`.
    pub fn locked_compare_exchange(&mut self, width: Width, memory: Memory, src: Gpr) {
        let form = Form { prefix: Some(0xf0), ..Self::at_width(width) };
        self.emit(form, &[0x0f, 0xb1], src.0, memory.into());
    }

    /// `xchg [memory], src`, which locks by itself.
    pub fn exchange(&mut self, width: Width, memory: Memory, src: Gpr) {
        self.emit(Self::at_width(width), &[0x87], src.0, memory.into());
    }

    /// `setcc`: one or zero into the lowest byte; the others are kept.
    pub fn set_if(&mut self, condition: Condition, dst: Gpr) {
        self.emit(Form { byte_rm: true, ..Form::default() }, &[0x0f, 0x90 | condition.0], 0, dst.into());
    }

    /// `cmovcc dst, src`.
    pub fn move_if(&mut self, condition: Condition, dst: Gpr, src: Gpr) {
        self.emit(Self::at_width(Width::W64), &[0x0f, 0x40 | condition.0], dst.0, src.into());
    }

    /// `prefetcht0 place`.
    pub fn prefetch(&mut self, place: Memory) {
        self.emit(Form::default(), &[0x0f, 0x18], 1, place.into());
    }

    /// `xorps xmm0, xmm0`.
    pub fn clear_vector(&mut self) {
        self.bytes.extend([0x0f, 0x57, 0xc0]);
    }

    /// `movups place, xmm0`.
    pub fn store_vector(&mut self, place: Memory) {
        self.emit(Form::default(), &[0x0f, 0x11], 0, place.into());
    }

    /// `lfence`.
    pub fn load_fence(&mut self) {
        self.bytes.extend([0x0f, 0xae, 0xe8]);
    }

    /// `test first, second`.
    pub fn test(&mut self, width: Width, first: Gpr, second: Gpr) {
        self.emit(Self::at_width(width), &[0x85], second.0, first.into());
    }

    /// `test register, imm`, in the shortest form that sets ZF alike. SF may differ.
    pub fn test_imm(&mut self, width: Width, gpr: Gpr, imm: i32) {
        if (0..=0xff).contains(&imm) {
            if gpr == Gpr::RAX {
                self.bytes.push(0xa8);
            } else {
                self.emit(Form { byte_rm: true, ..Form::default() }, &[0xf6], 0, gpr.into());
            }
            self.bytes.push(imm as u8);
            return;
        }
        // A positive immediate has a zero upper half, so that 32 bits are enough.
        let width = if imm >= 0 { Width::W32 } else { width };
        if gpr == Gpr::RAX {
            if is_wide(width) {
                self.bytes.push(0x48);
            }
            self.bytes.push(0xa9);
        } else {
            self.emit(Self::at_width(width), &[0xf7], 0, gpr.into());
        }
        self.imm32(imm);
    }

    /// `mov dst, src`.
    pub fn mov(&mut self, width: Width, dst: Gpr, src: Gpr) {
        self.emit(Self::at_width(width), &[0x89], src.0, dst.into());
    }

    /// Sets a register to a constant. Destroys the flags when the constant is zero, or hidden.
    pub fn constant(&mut self, dst: Gpr, value: u64) {
        if value == 0 {
            self.arithmetic(Arithmetic::Xor, Width::W32, dst, dst);
        } else if self.keys.is_some() {
            self.hidden_constant(dst, value);
        } else {
            self.constant_keeping_flags(dst, value);
        }
    }

    /// Sets a register to a constant without touching the flags.
    pub fn constant_keeping_flags(&mut self, dst: Gpr, value: u64) {
        if let Ok(low) = u32::try_from(value) {
            if dst.high() {
                self.bytes.push(0x41);
            }
            self.bytes.push(0xb8 | dst.low());
            self.bytes.extend(low.to_le_bytes());
        } else if let Ok(signed) = i32::try_from(value as i64) {
            self.emit(Self::at_width(Width::W64), &[0xc7], 0, dst.into());
            self.imm32(signed);
        } else {
            self.bytes.extend([0x48 | u8::from(dst.high()), 0xb8 | dst.low()]);
            self.bytes.extend(value.to_le_bytes());
        }
    }

    /// A zero-extending load.
    pub fn load(&mut self, size: Size, dst: Gpr, memory: Memory) {
        match size {
            Size::B1 => self.emit(Form::default(), &[0x0f, 0xb6], dst.0, memory.into()),
            Size::B2 => self.emit(Form::default(), &[0x0f, 0xb7], dst.0, memory.into()),
            Size::B4 => self.emit(Form::default(), &[0x8b], dst.0, memory.into()),
            Size::B8 => self.emit(Self::at_width(Width::W64), &[0x8b], dst.0, memory.into()),
        }
    }

    /// A load or move sign-extended to `width`; `size` is narrower than 8 bytes.
    pub fn sign_extend(&mut self, size: Size, width: Width, dst: Gpr, src: impl Into<Operand>) {
        let form = Self::at_width(width);
        match size {
            Size::B1 => self.emit(Form { byte_rm: true, ..form }, &[0x0f, 0xbe], dst.0, src.into()),
            Size::B2 => self.emit(form, &[0x0f, 0xbf], dst.0, src.into()),
            Size::B4 | Size::B8 => self.emit(form, &[0x63], dst.0, src.into()),
        }
    }

    /// A move zero-extended from 1, 2 or 4 bytes.
    pub fn zero_extend(&mut self, size: Size, dst: Gpr, src: Gpr) {
        match size {
            Size::B1 => self.emit(Form { byte_rm: true, ..Form::default() }, &[0x0f, 0xb6], dst.0, src.into()),
            Size::B2 => self.emit(Form::default(), &[0x0f, 0xb7], dst.0, src.into()),
            Size::B4 => self.mov(Width::W32, dst, src),
            Size::B8 => self.mov(Width::W64, dst, src),
        }
    }

    /// A byte-swapping load (`movbe`) of 4 or 8 bytes.
    pub fn load_swapped(&mut self, width: Width, dst: Gpr, memory: Memory) {
        self.emit(Self::at_width(width), &[0x0f, 0x38, 0xf0], dst.0, memory.into());
    }

    /// A byte-swapping store (`movbe`) of 2, 4 or 8 bytes.
    pub fn store_swapped(&mut self, size: Size, memory: Memory, src: Gpr) {
        let prefix = (size == Size::B2).then_some(0x66);
        let form = Form { prefix, wide: size == Size::B8, ..Form::default() };
        self.emit(form, &[0x0f, 0x38, 0xf1], src.0, memory.into());
    }

    /// Stores the lowest bytes of a register.
    pub fn store(&mut self, size: Size, memory: Memory, src: Gpr) {
        match size {
            Size::B1 => self.emit(Form { byte_reg: true, ..Form::default() }, &[0x88], src.0, memory.into()),
            Size::B2 => self.emit(Form { prefix: Some(0x66), ..Form::default() }, &[0x89], src.0, memory.into()),
            Size::B4 => self.emit(Form::default(), &[0x89], src.0, memory.into()),
            Size::B8 => self.emit(Self::at_width(Width::W64), &[0x89], src.0, memory.into()),
        }
    }

    /// Stores a constant, sign-extended to 8 bytes.
    pub fn store_imm(&mut self, size: Size, memory: Memory, imm: i32) {
        match size {
            Size::B1 => {
                self.emit(Form::default(), &[0xc6], 0, memory.into());
                self.bytes.push(imm as u8);
            }
            Size::B2 => {
                self.emit(Form { prefix: Some(0x66), ..Form::default() }, &[0xc7], 0, memory.into());
                self.bytes.extend((imm as i16).to_le_bytes());
            }
            Size::B4 | Size::B8 => {
                self.emit(Form { wide: size == Size::B8, ..Form::default() }, &[0xc7], 0, memory.into());
                self.imm32(imm);
            }
        }
    }

    /// `rol dst, amount` of the lowest two bytes.
    pub fn rotate_low_bytes(&mut self, dst: Gpr, amount: u8) {
        self.emit(Form { prefix: Some(0x66), ..Form::default() }, &[0xc1], Shift::RotateLeft as u8, dst.into());
        self.bytes.push(amount);
    }

    /// `shift dst, amount`, the amount below the width.
    pub fn shift_imm(&mut self, shift: Shift, width: Width, dst: Gpr, amount: u8) {
        let form = Self::at_width(width);
        if amount == 1 {
            self.emit(form, &[0xd1], shift as u8, dst.into());
        } else {
            self.emit(form, &[0xc1], shift as u8, dst.into());
            self.bytes.push(amount);
        }
    }

    /// `shift dst, cl`.
    pub fn shift_cl(&mut self, shift: Shift, width: Width, dst: Gpr) {
        self.emit(Self::at_width(width), &[0xd3], shift as u8, dst.into());
    }

    /// BMI2 `shlx`, `shrx` or `sarx dst, src, amount`. No rotation.
    pub fn shift_variable(&mut self, shift: Shift, width: Width, dst: Gpr, src: Gpr, amount: Gpr) {
        let prefix = match shift {
            Shift::Left => 1,
            Shift::RightArithmetic => 2,
            Shift::RightLogical | Shift::RotateLeft => 3,
        };
        self.vex(2, prefix, width, 0xf7, dst, amount, src);
    }

    /// BMI2 `rorx dst, src, amount`.
    pub fn rotate_right(&mut self, width: Width, dst: Gpr, src: Gpr, amount: u8) {
        self.vex(3, 3, width, 0xf0, dst, Gpr::RAX, src);
        self.bytes.push(amount);
    }

    /// BMI1 `andn dst, inverted, src`.
    pub fn and_not(&mut self, width: Width, dst: Gpr, inverted: Gpr, src: Gpr) {
        self.vex(2, 0, width, 0xf2, dst, inverted, src);
    }

    /// BMI2 `mulx high, low, src`: rdx times src. With `high == low` it holds the high half.
    pub fn multiply_wide(&mut self, high: Gpr, low: Gpr, src: Gpr) {
        self.vex(2, 3, Width::W64, 0xf6, high, low, src);
    }

    /// A three-byte VEX instruction: `map` 2 is 0F38, 3 is 0F3A; `prefix` 0 is none, 1 is 66, 2 is F3, 3 is F2.
    #[expect(clippy::too_many_arguments, reason = "the fields of the encoding")]
    fn vex(&mut self, map: u8, prefix: u8, width: Width, opcode: u8, reg: Gpr, vvvv: Gpr, rm: Gpr) {
        let rxb = u8::from(!reg.high()) << 7 | 1 << 6 | u8::from(!rm.high()) << 5;
        let wide = u8::from(is_wide(width)) << 7;
        self.bytes.extend([0xc4, rxb | map, wide | (!vvvv.0 & 0xf) << 3 | prefix, opcode]);
        self.modrm(reg.0, rm.into());
    }

    /// `imul dst, src`.
    pub fn multiply(&mut self, width: Width, dst: Gpr, src: impl Into<Operand>) {
        self.emit(Self::at_width(width), &[0x0f, 0xaf], dst.0, src.into());
    }

    /// `imul dst, src, imm`.
    pub fn multiply_imm(&mut self, width: Width, dst: Gpr, src: Gpr, imm: i32) {
        if let Ok(short) = i8::try_from(imm) {
            self.emit(Self::at_width(width), &[0x6b], dst.0, src.into());
            self.bytes.push(short as u8);
        } else {
            self.emit(Self::at_width(width), &[0x69], dst.0, src.into());
            self.imm32(imm);
        }
    }

    /// `neg`, or `div`/`idiv` of rdx:rax.
    pub fn unary(&mut self, op: Unary, width: Width, gpr: Gpr) {
        self.emit(Self::at_width(width), &[0xf7], op as u8, gpr.into());
    }

    /// `cdq` or `cqo`: the sign of rax into rdx.
    pub fn sign_into_rdx(&mut self, width: Width) {
        if is_wide(width) {
            self.bytes.push(0x48);
        }
        self.bytes.push(0x99);
    }

    /// `bswap`.
    pub fn swap_bytes(&mut self, width: Width, gpr: Gpr) {
        let rex = 0x40 | u8::from(is_wide(width)) << 3 | u8::from(gpr.high());
        if rex != 0x40 {
            self.bytes.push(rex);
        }
        self.bytes.extend([0x0f, 0xc8 | gpr.low()]);
    }

    /// `lea dst, [memory]`.
    pub fn lea(&mut self, width: Width, dst: Gpr, memory: Memory) {
        self.emit(Self::at_width(width), &[0x8d], dst.0, memory.into());
    }

    pub fn push(&mut self, gpr: Gpr) {
        if gpr.high() {
            self.bytes.push(0x41);
        }
        self.bytes.push(0x50 | gpr.low());
    }

    pub fn pop(&mut self, gpr: Gpr) {
        if gpr.high() {
            self.bytes.push(0x41);
        }
        self.bytes.push(0x58 | gpr.low());
    }

    pub fn leave(&mut self) {
        self.bytes.push(0xc9);
    }

    pub fn ret(&mut self) {
        self.bytes.push(0xc3);
    }

    /// `call register`.
    pub fn call_register(&mut self, gpr: Gpr) {
        self.emit(Form::default(), &[0xff], 2, gpr.into());
    }

    /// `jmp register`.
    pub fn jump_register(&mut self, gpr: Gpr) {
        self.emit(Form::default(), &[0xff], 4, gpr.into());
    }
}

// Constants as the difference of two random numbers ([`crate::blind`]).
impl Assembler {
    /// Sets a register to a constant as the difference of two random numbers. Destroys the flags.
    fn hidden_constant(&mut self, dst: Gpr, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            self.hidden_half(Width::W32, dst, value);
        } else if let Ok(value) = i32::try_from(value as i64) {
            self.hidden_half(Width::W64, dst, value as u32);
        } else {
            // Immediates are sign-extended, so a negative lower half inverts the upper one.
            let (low, high) = (value as u32, (value >> 32) as u32);
            self.hidden_half(Width::W32, dst, if (low as i32) < 0 { !high } else { high });
            self.shift_imm(Shift::Left, Width::W64, dst, 32);
            let key = self.key();
            self.arithmetic_imm(Arithmetic::Xor, Width::W64, dst, (low ^ key) as i32);
            self.arithmetic_imm(Arithmetic::Xor, Width::W64, dst, key as i32);
        }
    }

    /// Sets a register to 32 bits, sign-extended to `width`.
    fn hidden_half(&mut self, width: Width, dst: Gpr, value: u32) {
        let key = self.key();
        let hidden = value ^ key;
        self.constant_keeping_flags(dst, extended(width, hidden as i32));
        self.arithmetic_imm(Arithmetic::Xor, width, dst, key as i32);
    }

    fn key(&mut self) -> u32 {
        self.keys.as_mut().map_or(0, Keys::next)
    }
}
