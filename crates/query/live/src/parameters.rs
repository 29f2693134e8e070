//! Parameters of a program's functions, by its debug information (DWARF), with the registers that hold them at the beginning.
//!
//! ```text
//!   long named(short low, const char *title, double weight, struct pair two, int last)
//!              di         si, text           (xmm0)         known until here: in registers, or in memory
//! ```
//!
//! C and C++ pass integers and addresses in six registers, in their order (System V's convention for x86-64). Numbers with a
//! point have registers of their own. A structure by value ends what is known, and so does a result that is one: its
//! address may be a parameter before all others.
//!
//! A file may say anything: what is read is bounded by its own bytes and [`MAX_ENTRIES`].

use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_byte_size, DW_AT_encoding, DW_AT_language, DW_AT_low_pc, DW_AT_name,
    DW_AT_specification, DW_AT_type, DebuggingInformationEntry, DwAt, Dwarf, EndianSlice, LittleEndian, Unit,
};
use object::read::elf::ElfFile64;
use object::{CompressionFormat, Object as _, ObjectSection as _};

use kiln_plan::programs::Parameter;
use kiln_plan::table::Scalar;

use crate::elf::is_x86_64;

/// Entries of a file that are looked at for one function.
const MAX_ENTRIES: usize = 1 << 22;
/// Registers for integers and addresses.
const REGISTERS: usize = 6;
/// Types that lead to one another (`typedef`, `const`), and entries that say where another one is.
const MAX_STEPS: usize = 16;
/// Characters of a name.
const MAX_NAME: usize = 64;

type Slice<'d> = EndianSlice<'d, LittleEndian>;
type Entry<'d> = DebuggingInformationEntry<Slice<'d>>;

/// The parameters of the function at an address, until one whose place is not known.
pub fn of(elf: &ElfFile64<'_>, address: u64) -> Vec<Parameter> {
    if !is_x86_64(elf) {
        return Vec::new();
    }
    let section = |id: gimli::SectionId| {
        let section = elf.section_by_name(id.name());
        // Sections that are compressed are not read.
        let plain = section.filter(|section| {
            section.compressed_file_range().is_ok_and(|range| range.format == CompressionFormat::None)
        });
        let data = plain.and_then(|section| section.data().ok()).unwrap_or_default();
        Ok::<_, gimli::Error>(EndianSlice::new(data, LittleEndian))
    };
    Dwarf::load(section).and_then(|dwarf| of_unit(&dwarf, address)).unwrap_or_default()
}

/// Looks for the function in the unit that has its address.
fn of_unit(dwarf: &Dwarf<Slice<'_>>, address: u64) -> gimli::Result<Vec<Parameter>> {
    let (mut headers, mut left) = (dwarf.units(), MAX_ENTRIES);
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let mut ranges = dwarf.unit_ranges(&unit)?;
        let mut is_here = false;
        while let (false, Some(range)) = (is_here, ranges.next()?) {
            is_here = (range.begin..range.end).contains(&address);
        }
        if is_here {
            return Reading { dwarf, unit: &unit }.of_function(address, &mut left);
        }
        left = left.saturating_sub(1);
        if left == 0 {
            break;
        }
    }
    Ok(Vec::new())
}

/// How a function gets a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Passed {
    /// In the next register for integers.
    Integer { kind: Scalar, is_text: bool },
    /// In a register or in memory that integers do not use.
    Elsewhere,
}

/// C and C++ of all years. Other languages have conventions of their own.
const LANGUAGES: [gimli::DwLang; 11] = [
    gimli::DW_LANG_C89,
    gimli::DW_LANG_C,
    gimli::DW_LANG_C99,
    gimli::DW_LANG_C11,
    gimli::DW_LANG_C17,
    gimli::DW_LANG_C_plus_plus,
    gimli::DW_LANG_C_plus_plus_03,
    gimli::DW_LANG_C_plus_plus_11,
    gimli::DW_LANG_C_plus_plus_14,
    gimli::DW_LANG_C_plus_plus_17,
    gimli::DW_LANG_C_plus_plus_20,
];

/// One unit of a program.
struct Reading<'r, 'd> {
    dwarf: &'r Dwarf<Slice<'d>>,
    unit: &'r Unit<Slice<'d>>,
}

impl<'d> Reading<'_, 'd> {
    fn of_function(&self, address: u64, left: &mut usize) -> gimli::Result<Vec<Parameter>> {
        let mut entries = self.unit.entries();
        let mut is_c = false;
        // The function's entry, once it is found, is followed by those of its parameters, one level below.
        let mut found: Option<isize> = None;
        let mut parameters = Vec::new();
        while let Some(entry) = entries.next_dfs()? {
            *left = left.saturating_sub(1);
            match (entry.tag(), found) {
                _ if *left == 0 => break,
                (_, Some(depth)) if entry.depth() <= depth => break,
                (gimli::DW_TAG_formal_parameter, Some(depth)) if entry.depth() == depth + 1 => {
                    parameters.push(entry.clone());
                }
                (gimli::DW_TAG_compile_unit, None) => is_c = self.is_c(entry),
                (gimli::DW_TAG_subprogram, None) if self.begins_at(entry, address) => {
                    if !is_c || self.returns_structure(entry) {
                        break;
                    }
                    found = Some(entry.depth());
                }
                _ => {}
            }
        }
        Ok(self.placed(&parameters))
    }

    fn is_c(&self, unit: &Entry<'d>) -> bool {
        let language = unit.attr_value(DW_AT_language);
        matches!(language, Some(AttributeValue::Language(language)) if LANGUAGES.contains(&language))
    }

    fn begins_at(&self, function: &Entry<'d>, address: u64) -> bool {
        let low = function.attr_value(DW_AT_low_pc);
        low.and_then(|low| self.dwarf.attr_address(self.unit, low).ok().flatten()) == Some(address)
    }

    /// Whether a function's result may be returned through a parameter of its own.
    fn returns_structure(&self, function: &Entry<'d>) -> bool {
        self.attribute(function, DW_AT_type).is_some_and(|_| self.passed(function).is_none())
    }

    /// The parameters that are in registers.
    fn placed(&self, parameters: &[Entry<'d>]) -> Vec<Parameter> {
        let mut placed = Vec::new();
        let mut register = 0;
        for parameter in parameters {
            match self.passed(parameter) {
                Some(Passed::Integer { kind, is_text }) if register < REGISTERS => {
                    let name = self.attribute(parameter, DW_AT_name).and_then(|name| self.name(name));
                    placed.extend(name.map(|name| Parameter { name, register, kind, is_text }));
                    register += 1;
                }
                Some(_) => {}
                None => break,
            }
        }
        placed
    }

    fn name(&self, name: AttributeValue<Slice<'d>>) -> Option<String> {
        let name = self.dwarf.attr_string(self.unit, name).ok()?;
        let name: String = name.to_string_lossy().chars().take(MAX_NAME).collect();
        (!name.is_empty()).then_some(name)
    }

    /// An attribute of an entry, or of the one that it is made from.
    fn attribute(&self, entry: &Entry<'d>, wanted: DwAt) -> Option<AttributeValue<Slice<'d>>> {
        let mut entry = entry.clone();
        for _ in 0..MAX_STEPS {
            if let Some(value) = entry.attr_value(wanted) {
                return Some(value);
            }
            let origin = entry.attr_value(DW_AT_abstract_origin).or_else(|| entry.attr_value(DW_AT_specification));
            entry = self.entry(origin?)?;
        }
        None
    }

    /// The entry of this unit that a value refers to.
    fn entry(&self, reference: AttributeValue<Slice<'d>>) -> Option<Entry<'d>> {
        match reference {
            AttributeValue::UnitRef(offset) => self.unit.entry(offset).ok(),
            AttributeValue::DebugInfoRef(offset) => self.unit.entry(offset.to_unit_offset(&self.unit.header)?).ok(),
            _ => None,
        }
    }

    /// The type of an entry, without names of it and `const`; `None` for `void`.
    fn type_of(&self, entry: &Entry<'d>) -> Option<Entry<'d>> {
        let mut own = self.entry(self.attribute(entry, DW_AT_type)?)?;
        for _ in 0..MAX_STEPS {
            match own.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => own = self.entry(own.attr_value(DW_AT_type)?)?,
                _ => return Some(own),
            }
        }
        None
    }

    /// How a value of an entry's type is passed; `None` where that is not known.
    fn passed(&self, entry: &Entry<'d>) -> Option<Passed> {
        let own = self.type_of(entry)?;
        match own.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                let is_text = self.type_of(&own).is_some_and(|to| self.is_char(&to));
                Some(Passed::Integer { kind: Scalar::unsigned(8), is_text })
            }
            gimli::DW_TAG_enumeration_type => match self.type_of(&own) {
                Some(under) => number(&under),
                None => integer(&own, false),
            },
            _ => number(&own),
        }
    }

    fn is_char(&self, own: &Entry<'d>) -> bool {
        let name = own.attr_value(DW_AT_name).and_then(|name| self.name(name));
        own.tag() == gimli::DW_TAG_base_type && name.is_some_and(|name| name == "char")
    }
}

/// How a number is passed; `None` for what is none.
fn number(own: &Entry<'_>) -> Option<Passed> {
    let encoding = own.attr_value(DW_AT_encoding).filter(|_| own.tag() == gimli::DW_TAG_base_type);
    let Some(AttributeValue::Encoding(encoding)) = encoding else { return None };
    match encoding {
        gimli::DW_ATE_float => Some(Passed::Elsewhere),
        gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => integer(own, true),
        gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_boolean | gimli::DW_ATE_UTF => {
            integer(own, false)
        }
        _ => None,
    }
}

fn integer(own: &Entry<'_>, signed: bool) -> Option<Passed> {
    let bytes = own.attr_value(DW_AT_byte_size)?.udata_value()?;
    let bytes = u8::try_from(bytes).ok().filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8))?;
    Some(Passed::Integer { kind: Scalar { bytes, signed }, is_text: false })
}
