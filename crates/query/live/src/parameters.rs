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
//! An entry refers to others for its name and type. After optimization at link time (`-flto`), these are in other units.
//!
//! A file may say anything: what is read is bounded by its own bytes and by [`MAX_ENTRIES`] and [`MAX_OPEN`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_byte_size, DW_AT_encoding, DW_AT_language, DW_AT_low_pc, DW_AT_name,
    DW_AT_specification, DW_AT_type, DebuggingInformationEntry, DwAt, Dwarf, DwarfSections, EndianSlice, LittleEndian,
    Unit, UnitHeader,
};
use object::read::elf::ElfFile64;

use kiln_plan::programs::Parameter;
use kiln_plan::table::Scalar;

use crate::debug_files;
use crate::elf::is_x86_64;

/// Entries of a file that are looked at for one function.
const MAX_ENTRIES: usize = 1 << 22;
/// Registers for integers and addresses.
const REGISTERS: usize = 6;
/// Types that lead to one another (`typedef`, `const`), and entries that say where another one is.
const MAX_STEPS: usize = 16;
/// Units that are opened for one function's entries.
const MAX_OPEN: usize = 64;
/// Parameters of one function that are looked at.
const MAX_PARAMETERS: usize = 256;
/// Characters of a name.
const MAX_NAME: usize = 64;

type Slice<'d> = EndianSlice<'d, LittleEndian>;
type Entry<'d> = DebuggingInformationEntry<Slice<'d>>;

/// The parameters of the function at an address, until one whose place is not known.
pub fn of(elf: &ElfFile64<'_>, address: u64) -> Vec<Parameter> {
    if !is_x86_64(elf) {
        return Vec::new();
    }
    let mut room = debug_files::MAX_UNPACKED_BYTES;
    let section = |id: gimli::SectionId| Ok::<_, gimli::Error>(debug_files::section(elf, id, &mut room));
    let Ok(sections) = DwarfSections::load(section) else { return Vec::new() };
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    Units::of(&dwarf).and_then(|units| units.parameters(address)).unwrap_or_default()
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

/// An entry, with its unit.
struct At<'d> {
    unit: Rc<Unit<Slice<'d>>>,
    entry: Entry<'d>,
}

/// The units of a program.
struct Units<'r, 'd> {
    dwarf: &'r Dwarf<Slice<'d>>,
    /// In the order of their places.
    headers: Vec<UnitHeader<Slice<'d>>>,
    /// Those that entries referred to, by their numbers.
    open: RefCell<HashMap<usize, Rc<Unit<Slice<'d>>>>>,
}

impl<'r, 'd> Units<'r, 'd> {
    fn of(dwarf: &'r Dwarf<Slice<'d>>) -> gimli::Result<Units<'r, 'd>> {
        let (mut units, mut headers) = (dwarf.units(), Vec::new());
        while let (true, Some(header)) = (headers.len() < MAX_ENTRIES, units.next()?) {
            headers.push(header);
        }
        Ok(Units { dwarf, headers, open: RefCell::default() })
    }

    /// Looks for the function in the unit that has its address.
    fn parameters(&self, address: u64) -> gimli::Result<Vec<Parameter>> {
        for header in &self.headers {
            let unit = self.dwarf.unit(*header)?;
            let mut ranges = self.dwarf.unit_ranges(&unit)?;
            while let Some(range) = ranges.next()? {
                if (range.begin..range.end).contains(&address) {
                    return self.of_function(Rc::new(unit), address);
                }
            }
        }
        Ok(Vec::new())
    }

    fn of_function(&self, unit: Rc<Unit<Slice<'d>>>, address: u64) -> gimli::Result<Vec<Parameter>> {
        let (mut entries, mut left) = (unit.entries(), MAX_ENTRIES);
        let mut is_c = false;
        // The function's entry, once it is found, is followed by those of its parameters, one level below.
        let mut found: Option<isize> = None;
        let mut parameters = Vec::new();
        while let Some(entry) = entries.next_dfs()? {
            left -= 1;
            let at = || At { unit: Rc::clone(&unit), entry: entry.clone() };
            match (entry.tag(), found) {
                _ if left == 0 || parameters.len() == MAX_PARAMETERS => break,
                (_, Some(depth)) if entry.depth() <= depth => break,
                (gimli::DW_TAG_formal_parameter, Some(depth)) if entry.depth() == depth + 1 => parameters.push(at()),
                (gimli::DW_TAG_compile_unit, None) => is_c = self.is_c(entry),
                (gimli::DW_TAG_subprogram, None) if self.begins_at(&unit, entry, address) => {
                    if !is_c || self.returns_structure(&at()) {
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

    fn begins_at(&self, unit: &Unit<Slice<'d>>, function: &Entry<'d>, address: u64) -> bool {
        let low = function.attr_value(DW_AT_low_pc);
        low.and_then(|low| self.dwarf.attr_address(unit, low).ok().flatten()) == Some(address)
    }

    /// Whether a function's result may be returned through a parameter of its own.
    fn returns_structure(&self, function: &At<'d>) -> bool {
        self.attribute(function, DW_AT_type).is_some() && self.passed(function).is_none()
    }

    /// The parameters that are in registers.
    fn placed(&self, parameters: &[At<'d>]) -> Vec<Parameter> {
        let mut placed = Vec::new();
        let mut register = 0;
        for parameter in parameters {
            match self.passed(parameter) {
                Some(Passed::Integer { kind, is_text }) if register < REGISTERS => {
                    let name = self.attribute(parameter, DW_AT_name).and_then(|(at, name)| self.name(&at, name));
                    placed.extend(name.map(|name| Parameter { name, register, kind, is_text }));
                    register += 1;
                }
                Some(_) => {}
                None => break,
            }
        }
        placed
    }

    fn name(&self, at: &At<'d>, name: AttributeValue<Slice<'d>>) -> Option<String> {
        let name = self.dwarf.attr_string(&at.unit, name).ok()?;
        let name: String = name.to_string_lossy().chars().take(MAX_NAME).collect();
        (!name.is_empty()).then_some(name)
    }

    /// An attribute of an entry, or of the one that it is made from, with the entry that has it.
    fn attribute(&self, at: &At<'d>, wanted: DwAt) -> Option<(At<'d>, AttributeValue<Slice<'d>>)> {
        let mut at = At { unit: Rc::clone(&at.unit), entry: at.entry.clone() };
        for _ in 0..MAX_STEPS {
            if let Some(value) = at.entry.attr_value(wanted) {
                return Some((at, value));
            }
            let origin = at.entry.attr_value(DW_AT_abstract_origin);
            let origin = origin.or_else(|| at.entry.attr_value(DW_AT_specification));
            at = self.entry(&at, origin?)?;
        }
        None
    }

    /// The entry that a value of another one refers to.
    fn entry(&self, from: &At<'d>, reference: AttributeValue<Slice<'d>>) -> Option<At<'d>> {
        let (unit, offset) = match reference {
            AttributeValue::UnitRef(offset) => (Rc::clone(&from.unit), offset),
            AttributeValue::DebugInfoRef(offset) => {
                let behind = self.headers.partition_point(|header| header.offset().0 <= offset.0);
                let number = behind.checked_sub(1)?;
                (self.opened(number)?, offset.to_unit_offset(&self.headers[number])?)
            }
            _ => return None,
        };
        let entry = unit.entry(offset).ok()?;
        Some(At { unit, entry })
    }

    /// A unit by its number.
    fn opened(&self, number: usize) -> Option<Rc<Unit<Slice<'d>>>> {
        let mut open = self.open.borrow_mut();
        if let Some(unit) = open.get(&number) {
            return Some(Rc::clone(unit));
        }
        let unit = Rc::new(self.dwarf.unit(*self.headers.get(number)?).ok()?);
        (open.len() < MAX_OPEN).then(|| Rc::clone(open.entry(number).or_insert(unit)))
    }

    /// The type of an entry, without names of it and `const`; `None` for `void`.
    fn type_of(&self, at: &At<'d>) -> Option<At<'d>> {
        let (has, value) = self.attribute(at, DW_AT_type)?;
        let mut own = self.entry(&has, value)?;
        for _ in 0..MAX_STEPS {
            match own.entry.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => own = self.entry(&own, own.entry.attr_value(DW_AT_type)?)?,
                _ => return Some(own),
            }
        }
        None
    }

    /// How a value of an entry's type is passed; `None` where that is not known.
    fn passed(&self, at: &At<'d>) -> Option<Passed> {
        let own = self.type_of(at)?;
        match own.entry.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                let is_text = self.type_of(&own).is_some_and(|to| self.is_char(&to));
                Some(Passed::Integer { kind: Scalar::unsigned(8), is_text })
            }
            gimli::DW_TAG_enumeration_type => match self.type_of(&own) {
                Some(under) => number(&under.entry),
                None => integer(&own.entry, false),
            },
            _ => number(&own.entry),
        }
    }

    fn is_char(&self, own: &At<'d>) -> bool {
        let name = own.entry.attr_value(DW_AT_name).and_then(|name| self.name(own, name));
        own.entry.tag() == gimli::DW_TAG_base_type && name.is_some_and(|name| name == "char")
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
