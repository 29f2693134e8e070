//! Reading a line of assembly: words, numbers, registers, addresses.

use crate::insn::{Address, Reg, Size, Source, Width};

/// Why a line is not an instruction, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ParseError {
    /// 1-based byte column.
    pub column: usize,
    /// What was expected, or what is wrong.
    pub message: String,
}

/// A name in place of a number. The instruction's encoded field is zero then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Symbol<'a> {
    /// `goto name`, or `goto <name>`.
    Label(&'a str),
    /// `call name`.
    Callee(&'a str),
    /// `call kind[name]`, `r1 = kind[name]`, `r1 = kind[name] + offset`; `r1 = name ll` has an empty kind.
    Named {
        /// The word before the bracket.
        kind: &'a str,
        /// The name in the brackets, still quoted if it was.
        name: &'a str,
        /// Bytes behind it.
        offset: u32,
    },
}

/// A line, and how far it has been read.
pub(super) struct Cursor<'a> {
    pub line: &'a str,
    pub at: usize,
    /// The symbol of the instruction, once it was read.
    pub symbol: Option<Symbol<'a>>,
}

pub(super) type Parsed<T> = Result<T, ParseError>;

/// Whether a character may be in an identifier. Section-like names (`.rodata.str1.1`) are identifiers too.
fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '$')
}

// Words and numbers.
impl<'a> Cursor<'a> {
    pub fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    pub fn skip_space(&mut self) {
        self.at = self.line.len() - self.rest().trim_start().len();
    }

    pub fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(ParseError { column: self.at + 1, message: message.into() })
    }

    pub fn expected<T>(&mut self, what: &str) -> Parsed<T> {
        self.skip_space();
        let found = match (self.peek_word(), self.rest().chars().next()) {
            ("", None) => "the end of the line".to_owned(),
            ("", Some(character)) => format!("`{character}`"),
            (word, _) => format!("`{word}`"),
        };
        self.fail(format!("expected {what}, found {found}"))
    }

    pub fn peek_word(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(|character| !is_word(character)).unwrap_or(rest.len())]
    }

    /// Takes punctuation, if it is next.
    pub fn accept(&mut self, punctuation: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(punctuation);
        if found {
            self.at += punctuation.len();
        }
        found
    }

    pub fn expect(&mut self, punctuation: &str) -> Parsed<()> {
        if self.accept(punctuation) { Ok(()) } else { self.expected(&format!("`{punctuation}`")) }
    }

    /// Takes a word, if it is next in full.
    pub fn accept_word(&mut self, word: &str) -> bool {
        self.skip_space();
        let found = self.peek_word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    pub fn end(&mut self) -> Parsed<()> {
        self.skip_space();
        if self.rest().is_empty() { Ok(()) } else { self.expected("the end of the line") }
    }

    pub fn next_is_number(&mut self) -> bool {
        self.skip_space();
        let rest = self.rest().trim_start_matches(['+', '-']).trim_start();
        rest.starts_with(|character: char| character.is_ascii_digit())
    }

    /// A number in decimal or `0x` hexadecimal, with any sign, within `low..=high`.
    pub fn number(&mut self, low: i128, high: i128) -> Parsed<i128> {
        self.skip_space();
        let start = self.at;
        let negative = self.accept("-");
        if !negative {
            self.accept("+");
        }
        self.skip_space();
        let word = self.peek_word();
        let magnitude = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        let Ok(magnitude) = magnitude else {
            if word.starts_with(|character: char| character.is_ascii_digit()) {
                return self.fail(format!("`{word}` is not a number of at most 64 bits"));
            }
            return self.expected("a number");
        };
        self.at += word.len();
        let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        self.at = start;
        self.fail(format!("{value} is not between {low} and {high}"))
    }

    /// A 32-bit immediate; like LLVM, unsigned values up to `0xffffffff` wrap.
    pub fn imm32(&mut self) -> Parsed<i32> {
        Ok(self.number(i32::MIN.into(), u32::MAX.into())? as u32 as i32)
    }

    pub fn signed32(&mut self) -> Parsed<i32> {
        Ok(self.number(i32::MIN.into(), i32::MAX.into())? as i32)
    }

    pub fn signed16(&mut self) -> Parsed<i16> {
        Ok(self.number(i16::MIN.into(), i16::MAX.into())? as i16)
    }

    pub fn unsigned16(&mut self) -> Parsed<u16> {
        Ok(self.number(0, u16::MAX.into())? as u16)
    }
}

// Operands.
impl<'a> Cursor<'a> {
    /// A register, if one is next.
    pub fn accept_reg(&mut self) -> Parsed<Option<(Width, Reg)>> {
        self.skip_space();
        let word = self.peek_word();
        let Some((letter, digits)) = word.split_at_checked(1) else { return Ok(None) };
        let width = match letter {
            "r" => Width::W64,
            "w" => Width::W32,
            _ => return Ok(None),
        };
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Ok(None);
        }
        match digits.parse().ok().and_then(Reg::new) {
            Some(reg) if !(digits.len() > 1 && digits.starts_with('0')) => {
                self.at += word.len();
                Ok(Some((width, reg)))
            }
            _ => self.fail(format!("there is no register {word}: {letter}0 to {letter}10 exist")),
        }
    }

    pub fn any_reg(&mut self) -> Parsed<(Width, Reg)> {
        match self.accept_reg()? {
            Some(found) => Ok(found),
            None => self.expected("a register"),
        }
    }

    pub fn reg(&mut self, width: Width) -> Parsed<Reg> {
        self.skip_space();
        let start = self.at;
        let (found, reg) = self.any_reg()?;
        if found == width {
            return Ok(reg);
        }
        self.at = start;
        let kind = if width == Width::W32 { "a 32-bit `w` register" } else { "a 64-bit `r` register" };
        self.expected(kind)
    }

    pub fn same_reg(&mut self, width: Width, reg: Reg) -> Parsed<()> {
        self.skip_space();
        let start = self.at;
        if self.reg(width)? == reg {
            return Ok(());
        }
        self.at = start;
        self.fail(format!("expected the same register again: {}", super::View(width, reg)))
    }

    pub fn operand(&mut self, width: Width) -> Parsed<Source> {
        if self.next_is_number() {
            return Ok(Source::Imm(self.imm32()?));
        }
        match self.accept_reg()? {
            Some((found, reg)) if found == width => Ok(Source::Reg(reg)),
            Some((_, reg)) => self.fail(format!("expected {}: both operands have one width", super::View(width, reg))),
            None => self.expected("a register or a number"),
        }
    }

    /// `(u8 *)`: signedness and size.
    pub fn cast(&mut self) -> Parsed<(bool, Size)> {
        self.expect("(")?;
        self.skip_space();
        let word = self.peek_word();
        let size = word.get(1..).and_then(|bits| match bits {
            "8" => Some(Size::B1),
            "16" => Some(Size::B2),
            "32" => Some(Size::B4),
            "64" => Some(Size::B8),
            _ => None,
        });
        let (signed, size) = match (word.get(..1), size) {
            (Some("u"), Some(size)) => (false, size),
            (Some("s"), Some(size)) if size != Size::B8 => (true, size),
            _ => return self.expected("an access type (u8, u16, u32, u64, s8, s16 or s32)"),
        };
        self.at += word.len();
        self.expect("*")?;
        self.expect(")")?;
        Ok((signed, size))
    }

    pub fn unsigned_cast(&mut self) -> Parsed<Size> {
        match self.cast()? {
            (false, size) => Ok(size),
            (true, _) => self.fail("only loads have signed access types"),
        }
    }

    /// `r1 + 0x8`, without parentheses.
    pub fn address(&mut self) -> Parsed<Address> {
        let base = self.reg(Width::W64)?;
        self.skip_space();
        let offset = if self.rest().starts_with(['+', '-']) { self.signed16()? } else { 0 };
        Ok(Address { base, offset })
    }

    pub fn enclosed_address(&mut self) -> Parsed<Address> {
        self.expect("(")?;
        let address = self.address()?;
        self.expect(")")?;
        Ok(address)
    }

    /// A branch distance within `low..=high`, or a label.
    pub fn target(&mut self, low: i32, high: i32) -> Parsed<i32> {
        if self.next_is_number() {
            let offset = self.number(low.into(), high.into())? as i32;
            if self.accept("<") {
                self.take_until('>')?; // The label that llvm-objdump adds.
            }
            return Ok(offset);
        }
        let label = if self.accept("<") { self.take_until('>')? } else { self.name("a label or a distance")? };
        self.symbol = Some(Symbol::Label(label));
        Ok(0)
    }

    pub fn target16(&mut self) -> Parsed<i16> {
        Ok(self.target(i16::MIN.into(), i16::MAX.into())? as i16)
    }

    pub fn take_until(&mut self, close: char) -> Parsed<&'a str> {
        let rest = self.rest();
        match rest.find(close) {
            Some(length) => {
                self.at += length + close.len_utf8();
                Ok(&rest[..length])
            }
            None => self.expected(&format!("`{close}`")),
        }
    }

    pub fn name(&mut self, what: &str) -> Parsed<&'a str> {
        self.skip_space();
        let word = self.peek_word();
        if word.is_empty() {
            return self.expected(what);
        }
        self.at += word.len();
        Ok(word)
    }

    /// `[name]`, the name in quotes or up to the bracket.
    pub fn bracketed(&mut self) -> Parsed<&'a str> {
        self.expect("[")?;
        let rest = self.rest();
        let mut quoted = false;
        let mut escaped = false;
        for (at, character) in rest.char_indices() {
            match character {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                ']' if !quoted => {
                    self.at += at + 1;
                    return Ok(rest[..at].trim());
                }
                _ => {}
            }
        }
        self.expected("`]` behind the name")
    }

    /// `fd:3`, `btf:-7`: the number behind a field's name.
    pub fn field(&mut self, name: &str) -> Parsed<i32> {
        if !self.accept_word(name) {
            return self.expected(&format!("`{name}:`"));
        }
        self.expect(":")?;
        self.signed32()
    }
}
