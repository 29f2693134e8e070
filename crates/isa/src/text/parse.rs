//! The assembler: one line of LLVM's syntax to one instruction.
//!
//! A recursive descent over the line itself. Where LLVM accepts a symbol (a branch's label, a callee, an address),
//! [`parse_symbolic`] returns a [`Symbol`] for the caller to resolve, and [`parse`] refuses it.

use super::cursor::{Cursor, ParseError, Parsed, Symbol};
use crate::insn::{ByteOrder, CallTarget, Imm64, Insn, PacketMode, Reg, Size, Source, Width};
use crate::table::{AluOp, AtomicOp, JumpOp};

/// Parses one instruction without symbols.
///
/// # Errors
/// [`ParseError`] with the column and what was expected there.
pub fn parse(line: &str) -> Result<Insn, ParseError> {
    let (insn, symbol) = parse_symbolic(line)?;
    match symbol {
        None => Ok(insn),
        Some(Symbol::Label(name) | Symbol::Callee(name) | Symbol::Named { name, .. }) => {
            let column = line.find(name).map_or(1, |at| at + 1);
            Err(ParseError { column, message: format!("expected a number, found the symbol `{name}`") })
        }
    }
}

/// Parses one instruction and returns its symbol, if it has one, unresolved.
///
/// # Errors
/// [`ParseError`] with the column and what was expected there.
pub fn parse_symbolic(line: &str) -> Result<(Insn, Option<Symbol<'_>>), ParseError> {
    let mut cursor = Cursor { line, at: 0, symbol: None };
    let insn = cursor.insn()?;
    cursor.end()?;
    Ok((insn, cursor.symbol))
}

// Instructions.
impl<'a> Cursor<'a> {
    fn insn(&mut self) -> Parsed<Insn> {
        self.skip_space();
        if let Some((width, dst)) = self.accept_reg()? {
            return self.assignment(width, dst);
        }
        if self.accept("*") {
            return self.store();
        }
        let word = self.peek_word();
        self.at += word.len();
        match word {
            "exit" => Ok(Insn::Exit),
            "goto" => Ok(Insn::Jump { offset: self.target16()?.into(), long: false }),
            "gotol" => Ok(Insn::Jump { offset: self.target(i32::MIN, i32::MAX)?, long: true }),
            "gotox" => Ok(Insn::JumpIndirect { dst: self.reg(Width::W64)? }),
            "may_goto" => Ok(Insn::MayGoto { offset: self.target16()? }),
            "if" => self.branch(),
            "call" => self.call(),
            "lock" => self.locked(),
            "store_release" => self.store_release(),
            "ld_pseudo" => self.load_pseudo(),
            _ => {
                self.at -= word.len();
                self.expected("an instruction")
            }
        }
    }

    fn branch(&mut self) -> Parsed<Insn> {
        let (width, dst) = self.any_reg()?;
        self.skip_space();
        // Longest first: `s>=` begins with `s>`, `>=` with `>`.
        let mut rows: Vec<_> = JumpOp::ALL.iter().map(|op| (op.row().symbol, *op)).collect();
        rows.sort_by_key(|(symbol, _)| std::cmp::Reverse(symbol.len()));
        let Some((symbol, op)) = rows.into_iter().find(|(symbol, _)| self.rest().starts_with(symbol)) else {
            return self.expected("a comparison");
        };
        self.at += symbol.len();
        let src = self.operand(width)?;
        if !self.accept_word("goto") {
            return self.expected("`goto`");
        }
        Ok(Insn::Branch { op, width, dst, src, offset: self.target16()? })
    }

    fn call(&mut self) -> Parsed<Insn> {
        if self.next_is_number() {
            return Ok(Insn::Call(CallTarget::Helper(self.imm32()? as u32)));
        }
        self.skip_space();
        let start = self.at;
        let word = self.name("a function's name or a helper's number")?;
        if word == "pc" && self.next_is_number() {
            return Ok(Insn::Call(CallTarget::Subprogram(self.signed32()?)));
        }
        if !self.accept("[") {
            self.symbol = Some(Symbol::Callee(word));
            return Ok(Insn::Call(CallTarget::Subprogram(0)));
        }
        if word == "kfunc" && self.rest().trim_start().starts_with("btf:") {
            let id = self.field("btf")?;
            self.expect(",")?;
            let fd_index = self.field("fd_index")?;
            self.expect("]")?;
            return match i16::try_from(fd_index) {
                Ok(fd_index) => Ok(Insn::Call(CallTarget::Kfunc { id, fd_index })),
                Err(_) => self.fail(format!("{fd_index} is not between {} and {}", i16::MIN, i16::MAX)),
            };
        }
        self.at = start + word.len();
        self.symbol = Some(Symbol::Named { kind: word, name: self.bracketed()?, offset: 0 });
        Ok(Insn::Call(if word == "kfunc" {
            CallTarget::Kfunc { id: 0, fd_index: 0 }
        } else {
            CallTarget::Subprogram(0)
        }))
    }

    fn store(&mut self) -> Parsed<Insn> {
        let size = self.unsigned_cast()?;
        let address = self.enclosed_address()?;
        self.expect("=")?;
        if self.next_is_number() {
            return Ok(Insn::Store { size, address, src: Source::Imm(self.imm32()?) });
        }
        Ok(Insn::Store { size, address, src: Source::Reg(self.reg_of_size(size)?) })
    }

    /// A register that holds at least `size`: LLVM takes both `w1` and `r1` for up to 32 bits.
    fn reg_of_size(&mut self, size: Size) -> Parsed<Reg> {
        if size == Size::B8 { self.reg(Width::W64) } else { self.any_reg().map(|(_, reg)| reg) }
    }

    fn store_release(&mut self) -> Parsed<Insn> {
        self.expect("(")?;
        let size = self.unsigned_cast()?;
        let address = self.enclosed_address()?;
        self.expect(",")?;
        let src = self.reg_of_size(size)?;
        self.expect(")")?;
        Ok(Insn::StoreRelease { size, address, src })
    }

    fn atomic_size(&mut self) -> Parsed<Size> {
        let size = self.unsigned_cast()?;
        match size {
            Size::B4 | Size::B8 => Ok(size),
            _ => self.fail("atomic operations have 32 or 64 bits"),
        }
    }

    fn locked(&mut self) -> Parsed<Insn> {
        self.expect("*")?;
        let size = self.atomic_size()?;
        let address = self.enclosed_address()?;
        let op = if self.accept("+=") {
            AtomicOp::Add
        } else if self.accept("|=") {
            AtomicOp::Or
        } else if self.accept("&=") {
            AtomicOp::And
        } else if self.accept("^=") {
            AtomicOp::Xor
        } else {
            return self.expected("`+=`, `|=`, `&=` or `^=`");
        };
        let src = self.reg_of_size(size)?;
        Ok(Insn::Atomic { op, fetch: false, size, address, src })
    }

    /// llvm-objdump's spelling of the pseudo sources. It drops the second slot's immediate, which is taken as zero.
    fn load_pseudo(&mut self) -> Parsed<Insn> {
        let dst = self.reg(Width::W64)?;
        self.expect(",")?;
        let source = self.number(0, 6)?;
        self.expect(",")?;
        let low = self.imm32()?;
        let imm = match source {
            0 => Imm64::Value(low as u32 as u64),
            1 => Imm64::MapFd { fd: low, high: 0 },
            2 => Imm64::MapValueFd { fd: low, offset: 0 },
            3 => Imm64::VariableBtf { id: low, fd: 0 },
            4 => Imm64::Code { offset: low, high: 0 },
            5 => Imm64::MapIndex { index: low, high: 0 },
            _ => Imm64::MapValueIndex { index: low, offset: 0 },
        };
        Ok(Insn::LoadImm64 { dst, imm })
    }

    /// What follows `r1` at the beginning of a line.
    fn assignment(&mut self, width: Width, dst: Reg) -> Parsed<Insn> {
        self.skip_space();
        let mut rows: Vec<_> = AluOp::ALL.iter().map(|op| (op.row().symbol, *op)).collect();
        rows.sort_by_key(|(symbol, _)| std::cmp::Reverse(symbol.len()));
        let Some((symbol, op)) = rows.into_iter().find(|(symbol, _)| self.rest().starts_with(symbol)) else {
            return self.expected("`=` or an operation such as `+=`");
        };
        self.at += symbol.len();
        if op != AluOp::Mov {
            return Ok(Insn::Alu { op, width, dst, src: self.operand(width)? });
        }
        self.value(width, dst)
    }

    /// The right side of `r1 = ...`.
    fn value(&mut self, width: Width, dst: Reg) -> Parsed<Insn> {
        if self.next_is_number() {
            return self.constant(width, dst);
        }
        if self.accept("-") {
            self.same_reg(width, dst)?;
            return Ok(Insn::Neg { width, dst });
        }
        if self.accept("*") {
            return self.load(width, dst);
        }
        if self.accept("(") {
            return self.sign_extension(width, dst);
        }
        if let Some((found, src)) = self.accept_reg()? {
            return if found == width {
                Ok(Insn::Alu { op: AluOp::Mov, width, dst, src: Source::Reg(src) })
            } else {
                self.fail(format!("expected {}: both operands have one width", super::View(width, src)))
            };
        }
        let start = self.at;
        let word = self.name("a value")?;
        if let Some((order, size)) = byte_order(word) {
            if width == Width::W32 {
                self.at = start;
                return self.fail("byte order conversions take 64-bit `r` registers");
            }
            self.same_reg(width, dst)?;
            return Ok(Insn::Endian { order, size, dst });
        }
        match word {
            "load_acquire" => self.load_acquire(width, dst),
            "addr_space_cast" => self.address_space_cast(dst),
            "xchg_64" => self.exchange(Size::B8, width, dst),
            "xchg32_32" => self.exchange(Size::B4, width, dst),
            "cmpxchg_64" => self.compare_exchange(Size::B8, width, dst),
            "cmpxchg32_32" => self.compare_exchange(Size::B4, width, dst),
            _ => match word.strip_prefix("atomic_fetch_") {
                Some(name) => self.fetch(name, start, width, dst),
                None => self.address_value(word, width, dst),
            },
        }
    }

    fn constant(&mut self, width: Width, dst: Reg) -> Parsed<Insn> {
        self.skip_space();
        let start = self.at;
        let value = self.number(i64::MIN.into(), u64::MAX.into())?;
        if self.accept_word("ll") {
            return match width {
                Width::W64 => Ok(Insn::LoadImm64 { dst, imm: Imm64::Value(value as u64) }),
                Width::W32 => self.fail("a 64-bit immediate needs an `r` register"),
            };
        }
        self.at = start;
        Ok(Insn::Alu { op: AluOp::Mov, width, dst, src: Source::Imm(self.imm32()?) })
    }

    fn load(&mut self, width: Width, dst: Reg) -> Parsed<Insn> {
        let (signed, size) = self.cast()?;
        if self.accept_word("skb") {
            return self.load_packet(signed, size, dst);
        }
        let address = self.enclosed_address()?;
        if width == Width::W32 && (signed || size == Size::B8) {
            return self.fail("64-bit and sign-extending loads need an `r` register");
        }
        Ok(Insn::Load { size, signed, dst, address })
    }

    fn load_packet(&mut self, signed: bool, size: Size, dst: Reg) -> Parsed<Insn> {
        if signed || size == Size::B8 || dst != Reg::R0 {
            return self.fail("packet loads are u8, u16 or u32 and go to r0");
        }
        self.expect("[")?;
        let mode = match self.accept_reg()? {
            Some((Width::W64, reg)) => PacketMode::Indirect(reg),
            Some(_) => return self.fail("packet offsets are in 64-bit `r` registers"),
            None => PacketMode::Absolute,
        };
        self.skip_space();
        let has_offset = mode == PacketMode::Absolute || !self.rest().starts_with(']');
        let offset = if has_offset { self.imm32()? } else { 0 };
        self.expect("]")?;
        Ok(Insn::LoadPacket { mode, size, offset })
    }

    fn sign_extension(&mut self, width: Width, dst: Reg) -> Parsed<Insn> {
        self.skip_space();
        let word = self.peek_word();
        let from = match word {
            "s8" => Size::B1,
            "s16" => Size::B2,
            "s32" if width == Width::W64 => Size::B4,
            _ => return self.expected("s8, s16 or (for `r` registers) s32"),
        };
        self.at += word.len();
        self.expect(")")?;
        Ok(Insn::MoveSignExtend { width, from, dst, src: self.reg(width)? })
    }

    fn load_acquire(&mut self, width: Width, dst: Reg) -> Parsed<Insn> {
        self.expect("(")?;
        let size = self.unsigned_cast()?;
        let address = self.enclosed_address()?;
        self.expect(")")?;
        if width == Width::W32 && size == Size::B8 {
            return self.fail("64-bit loads need an `r` register");
        }
        Ok(Insn::LoadAcquire { size, dst, address })
    }

    fn address_space_cast(&mut self, dst: Reg) -> Parsed<Insn> {
        self.expect("(")?;
        let src = self.reg(Width::W64)?;
        self.expect(",")?;
        let to = self.unsigned16()?;
        self.expect(",")?;
        let from = self.unsigned16()?;
        self.expect(")")?;
        Ok(Insn::AddressSpaceCast { dst, src, to, from })
    }

    /// The register at a width that an exchange must name: `w` for 32 bits, `r` for 64.
    fn exchanged_width(&mut self, size: Size, width: Width) -> Parsed<Width> {
        let wanted = super::access_width(size);
        if width == wanted {
            return Ok(wanted);
        }
        self.fail("the destination's width is not the operation's")
    }

    fn exchange(&mut self, size: Size, width: Width, dst: Reg) -> Parsed<Insn> {
        let width = self.exchanged_width(size, width)?;
        self.expect("(")?;
        let address = self.address()?;
        self.expect(",")?;
        self.same_reg(width, dst)?;
        self.expect(")")?;
        Ok(Insn::Atomic { op: AtomicOp::Exchange, fetch: true, size, address, src: dst })
    }

    fn compare_exchange(&mut self, size: Size, width: Width, dst: Reg) -> Parsed<Insn> {
        let width = self.exchanged_width(size, width)?;
        if dst != Reg::R0 {
            return self.fail("compare-and-exchange returns into register 0");
        }
        self.expect("(")?;
        let address = self.address()?;
        self.expect(",")?;
        self.same_reg(width, Reg::R0)?;
        self.expect(",")?;
        let src = self.reg(width)?;
        self.expect(")")?;
        Ok(Insn::Atomic { op: AtomicOp::CompareExchange, fetch: true, size, address, src })
    }

    fn fetch(&mut self, name: &str, start: usize, width: Width, dst: Reg) -> Parsed<Insn> {
        let found = AtomicOp::ALL.iter().copied().find(|op| !op.row().always_fetch && op.row().symbol == name);
        let Some(op) = found else {
            self.at = start;
            return self.expected("atomic_fetch_add, _or, _and or _xor");
        };
        self.expect("(")?;
        let size = self.atomic_size()?;
        let width = self.exchanged_width(size, width)?;
        let address = self.enclosed_address()?;
        self.expect(",")?;
        self.same_reg(width, dst)?;
        self.expect(")")?;
        Ok(Insn::Atomic { op, fetch: true, size, address, src: dst })
    }

    /// `map[fd:3]`, `map[counters]`, `counters ll`.
    fn address_value(&mut self, word: &'a str, width: Width, dst: Reg) -> Parsed<Insn> {
        if width == Width::W32 {
            return self.fail("a 64-bit address needs an `r` register");
        }
        self.skip_space();
        if !self.rest().starts_with('[') {
            if !self.accept_word("ll") {
                return self.expected("`ll` or `[` behind a symbol");
            }
            self.symbol = Some(Symbol::Named { kind: "", name: word, offset: 0 });
            return Ok(Insn::LoadImm64 { dst, imm: Imm64::Value(0) });
        }
        let inside = self.rest()[1..].trim_start();
        let numeric = match word {
            "map" => inside.starts_with("fd:") || inside.starts_with("idx:"),
            "ksym" => inside.starts_with("btf:"),
            "subprog" => true,
            _ => false,
        };
        if numeric {
            return Ok(Insn::LoadImm64 { dst, imm: self.pseudo_source(word)? });
        }
        let name = self.bracketed()?;
        let offset = if self.next_is_number() { self.number(0, u32::MAX.into())? as u32 } else { 0 };
        self.symbol = Some(Symbol::Named { kind: word, name, offset });
        Ok(Insn::LoadImm64 { dst, imm: Imm64::Value(0) })
    }

    fn pseudo_source(&mut self, kind: &str) -> Parsed<Imm64> {
        self.expect("[")?;
        if kind == "ksym" {
            let id = self.field("btf")?;
            self.expect(",")?;
            let fd = self.field("fd")?;
            self.expect("]")?;
            return Ok(Imm64::VariableBtf { id, fd });
        }
        if kind == "subprog" {
            let offset = self.signed32()?;
            let high = self.high()?;
            self.expect("]")?;
            return Ok(Imm64::Code { offset, high });
        }
        let by_index = self.rest().trim_start().starts_with("idx");
        let number = self.field(if by_index { "idx" } else { "fd" })?;
        let high = self.high()?;
        self.expect("]")?;
        if !self.accept("[") {
            return Ok(if by_index {
                Imm64::MapIndex { index: number, high }
            } else {
                Imm64::MapFd { fd: number, high }
            });
        }
        self.expect("0")?;
        self.expect("]")?;
        self.expect("+")?;
        let offset = self.signed32()?;
        Ok(if by_index {
            Imm64::MapValueIndex { index: number, offset }
        } else {
            Imm64::MapValueFd { fd: number, offset }
        })
    }

    fn high(&mut self) -> Parsed<i32> {
        if self.accept(",") { self.field("high") } else { Ok(0) }
    }
}

fn byte_order(word: &str) -> Option<(ByteOrder, Size)> {
    let split = word.find(|character: char| character.is_ascii_digit())?;
    let order = match &word[..split] {
        "le" => ByteOrder::Little,
        "be" => ByteOrder::Big,
        "bswap" => ByteOrder::Swap,
        _ => return None,
    };
    let size = match &word[split..] {
        "16" => Size::B2,
        "32" => Size::B4,
        "64" => Size::B8,
        _ => return None,
    };
    Some((order, size))
}
