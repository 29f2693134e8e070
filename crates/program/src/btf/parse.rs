//! Bytes to the type table. The format is the kernel's `Documentation/bpf/btf.rst` and `include/uapi/linux/btf.h`.

use std::sync::{Arc, OnceLock};

use super::{Btf, BtfError, EnumValue, Kind, Linkage, Member, Parameter, Qualifier, SectionVariable, Type, TypeId};

const MAGIC: u16 = 0xeb9f;
/// Bytes of a header of version 1.
const HEADER_BYTES: usize = 24;
/// Maximum number of types (kernel `BTF_MAX_TYPE`), base and split together.
const MAX_TYPES: usize = 0x000f_ffff;

type Result<T> = std::result::Result<T, BtfError>;

fn error<T>(offset: usize, message: impl Into<String>) -> Result<T> {
    Err(BtfError { offset, message: message.into() })
}

impl Btf {
    /// Parses a `.BTF` section without a base.
    ///
    /// # Errors
    /// [`BtfError`] where the bytes are not what the format says.
    pub fn parse(bytes: &[u8]) -> Result<Btf> {
        Btf::parse_with(bytes, None)
    }

    /// Parses a module's BTF, which continues `base`.
    ///
    /// # Errors
    /// [`BtfError`] where the bytes are not what the format says.
    pub fn parse_split(bytes: &[u8], base: Arc<Btf>) -> Result<Btf> {
        Btf::parse_with(bytes, Some(base))
    }

    fn parse_with(bytes: &[u8], base: Option<Arc<Btf>>) -> Result<Btf> {
        let layout = Layout::of(bytes)?;
        let strings = bytes[layout.strings.clone()].to_vec();
        if strings.last().is_some_and(|byte| *byte != 0) {
            return error(layout.strings.end - 1, "the string table does not end with a zero byte");
        }
        if base.is_none() && strings.first().is_some_and(|byte| *byte != 0) {
            return error(layout.strings.start, "the string table does not begin with the empty string");
        }
        let btf = Btf {
            base,
            types: Vec::with_capacity(layout.types.len() / 20),
            members: Vec::new(),
            values: Vec::new(),
            parameters: Vec::new(),
            variables: Vec::new(),
            strings,
            by_name: OnceLock::new(),
        };
        let end = layout.types.end;
        let mut reader = Reader { bytes: &bytes[..end], at: layout.types.start, btf, references: Vec::new() };
        if reader.btf.base.is_none() {
            reader.btf.types.push(Type { name: 0, kind: Kind::Void });
        }
        while reader.at < end {
            reader.record()?;
        }
        reader.finish()
    }
}

/// Where types and strings are.
struct Layout {
    types: std::ops::Range<usize>,
    strings: std::ops::Range<usize>,
}

impl Layout {
    fn of(bytes: &[u8]) -> Result<Layout> {
        let Some(header) = bytes.get(..HEADER_BYTES) else {
            return error(bytes.len(), "the header is truncated");
        };
        let byte = |at: usize| header[at] as usize;
        let word = |at: usize| byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
        if u16::from_le_bytes([header[0], header[1]]) != MAGIC {
            return error(0, "the magic number is not 0xeb9f (little-endian BTF)");
        }
        if header[2] != 1 {
            return error(2, format!("version {} is unknown", header[2]));
        }
        let start = word(4);
        if start < HEADER_BYTES || start > bytes.len() {
            return error(4, format!("a header of {start} bytes does not fit"));
        }
        let part = |at: usize, what: &str| {
            let first = start.checked_add(word(at));
            let range = first.and_then(|first| Some(first..first.checked_add(word(at + 4))?));
            match range {
                Some(range) if range.end <= bytes.len() => Ok(range),
                _ => error(at, format!("the {what} lie outside the section")),
            }
        };
        let (types, strings) = (part(8, "types")?, part(16, "strings")?);
        if !types.start.is_multiple_of(4) {
            return error(8, "the types are not aligned to four bytes");
        }
        if types.start < strings.end && strings.start < types.end {
            return error(16, "types and strings overlap");
        }
        Ok(Layout { types, strings })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    btf: Btf,
    /// Type numbers mentioned, and where, to be checked when all types are known.
    references: Vec<(u32, usize)>,
}

impl Reader<'_> {
    fn word(&mut self) -> Result<u32> {
        match self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<4>) {
            Some(chunk) => {
                self.at += 4;
                Ok(u32::from_le_bytes(*chunk))
            }
            None => error(self.at, "a type record is truncated"),
        }
    }

    fn name(&mut self) -> Result<u32> {
        let name = self.word()?;
        if !self.btf.has_string(name) {
            return error(self.at - 4, format!("name offset {name} lies outside the string table"));
        }
        Ok(name)
    }

    fn reference(&mut self, id: u32) -> TypeId {
        self.references.push((id, self.at));
        TypeId(id)
    }

    fn type_word(&mut self) -> Result<TypeId> {
        let id = self.word()?;
        Ok(self.reference(id))
    }

    /// Refuses a count whose items cannot all be there, before anything is allocated for them.
    fn check_count(&self, count: usize, item_bytes: usize) -> Result<()> {
        if count * item_bytes > self.bytes.len() - self.at {
            return error(self.at, format!("{count} items do not fit into the section"));
        }
        Ok(())
    }

    fn record(&mut self) -> Result<()> {
        let begin = self.at;
        if self.btf.type_count() > MAX_TYPES {
            return error(begin, "there are too many types");
        }
        let name = self.name()?;
        let info = self.word()?;
        let size_or_type = self.word()?;
        let count = (info & 0xffff) as usize;
        let flag = info >> 31 != 0;
        let kind = match info >> 24 & 0x1f {
            1 => self.int(size_or_type)?,
            2 => Kind::Pointer { target: self.reference(size_or_type) },
            3 => Kind::Array { element: self.type_word()?, index: self.type_word()?, count: self.word()? },
            number @ (4 | 5) => self.composite(number == 5, size_or_type, count, flag)?,
            6 => self.enumeration(size_or_type, count, flag, false)?,
            7 => Kind::Forward { union: flag },
            8 => Kind::Typedef { target: self.reference(size_or_type) },
            9 => self.qualifier(Qualifier::Volatile, size_or_type),
            10 => self.qualifier(Qualifier::Const, size_or_type),
            11 => self.qualifier(Qualifier::Restrict, size_or_type),
            12 => Kind::Function { linkage: linkage(info & 0xffff, begin)?, prototype: self.reference(size_or_type) },
            13 => self.prototype(size_or_type, count)?,
            14 => {
                let target = self.reference(size_or_type);
                Kind::Variable { linkage: linkage(self.word()?, begin)?, target }
            }
            15 => self.section(size_or_type, count)?,
            16 => Kind::Float { size: size_or_type },
            17 => {
                let target = self.reference(size_or_type);
                Kind::DeclTag { component: u32::try_from(self.word()? as i32).ok(), target }
            }
            18 => Kind::TypeTag { target: self.reference(size_or_type) },
            19 => self.enumeration(size_or_type, count, flag, true)?,
            other => return error(begin + 4, format!("type kind {other} is unknown")),
        };
        self.btf.types.push(Type { name, kind });
        Ok(())
    }

    fn int(&mut self, size: u32) -> Result<Kind> {
        let word = self.word()?;
        let (encoding, bit_offset, bits) = (word >> 24 & 0xf, (word >> 16) as u8, word as u8);
        if !matches!(size, 1 | 2 | 4 | 8 | 16) || u32::from(bits) > 8 * size {
            return error(self.at - 4, format!("an integer of {size} bytes and {bits} bits does not exist"));
        }
        Ok(Kind::Int { size, signed: encoding & 1 != 0, boolean: encoding & 4 != 0, bit_offset, bits })
    }

    fn qualifier(&mut self, qualifier: Qualifier, target: u32) -> Kind {
        Kind::Qualifier { qualifier, target: self.reference(target) }
    }

    fn composite(&mut self, union: bool, size: u32, count: usize, flag: bool) -> Result<Kind> {
        self.check_count(count, 12)?;
        let first = self.btf.members.len();
        for _ in 0..count {
            let (name, type_id, offset) = (self.name()?, self.type_word()?, self.word()?);
            let bits = if flag { (offset >> 24) as u8 } else { 0 };
            let bit_offset = if flag { offset & 0x00ff_ffff } else { offset };
            let bitfield_bits = (bits != 0).then_some(bits);
            self.btf.members.push(Member { name, type_id, bit_offset, bitfield_bits });
        }
        Ok(Kind::Composite { union, size, members: first..first + count })
    }

    fn enumeration(&mut self, size: u32, count: usize, signed: bool, wide: bool) -> Result<Kind> {
        self.check_count(count, if wide { 12 } else { 8 })?;
        let first = self.btf.values.len();
        for _ in 0..count {
            let (name, low) = (self.name()?, self.word()?);
            let value = match (wide, signed) {
                (true, _) => u64::from(self.word()?) << 32 | u64::from(low),
                (false, true) => i64::from(low as i32) as u64,
                (false, false) => low.into(),
            };
            self.btf.values.push(EnumValue { name, value });
        }
        Ok(Kind::Enum { size, signed, wide, values: first..first + count })
    }

    fn prototype(&mut self, result: u32, count: usize) -> Result<Kind> {
        self.check_count(count, 8)?;
        let (result, first) = (self.reference(result), self.btf.parameters.len());
        for _ in 0..count {
            let parameter = Parameter { name: self.name()?, type_id: self.type_word()? };
            self.btf.parameters.push(parameter);
        }
        Ok(Kind::Prototype { result, parameters: first..first + count })
    }

    fn section(&mut self, size: u32, count: usize) -> Result<Kind> {
        self.check_count(count, 12)?;
        let first = self.btf.variables.len();
        for _ in 0..count {
            let variable = SectionVariable { type_id: self.type_word()?, offset: self.word()?, size: self.word()? };
            self.btf.variables.push(variable);
        }
        Ok(Kind::Section { size, variables: first..first + count })
    }

    fn finish(self) -> Result<Btf> {
        let count = self.btf.type_count();
        match self.references.iter().find(|(id, _)| *id as usize >= count) {
            Some((id, at)) => error(*at, format!("type {id} does not exist")),
            None => Ok(self.btf),
        }
    }
}

fn linkage(number: u32, at: usize) -> Result<Linkage> {
    match number {
        0 => Ok(Linkage::Static),
        1 => Ok(Linkage::Global),
        2 => Ok(Linkage::Extern),
        other => error(at, format!("linkage {other} is unknown")),
    }
}
