//! What things are called in the source: context fields, map values and their members, variables, parameters.
//!
//! ```text
//!   r1 + 4, r1 the context of an xdp program      ctx->data_end
//!   r0 + 8, r0 a value of map counters            counters' value.bytes       (BTF of the map's value)
//!   r1 + 0, r1 the value of .bss                  the variable `limit`        (BTF of the section)
//! ```
//!
//! BTF names types, members, functions, parameters and global variables, but no local variables.

use kiln_platform::{MapType, ProgramType};
use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};
use kiln_program::{Map, SourceLine};

use crate::code::Code;
use crate::domain::Scalar;
use crate::state::{Kind, Register};

/// Looks names up.
pub(super) struct Names<'a> {
    pub code: &'a Code<'a>,
    pub program_type: ProgramType,
    pub btf: Option<&'a Btf>,
}

impl<'a> Names<'a> {
    pub(super) fn new(code: &'a Code<'a>, program_type: ProgramType) -> Names<'a> {
        Names { code, program_type, btf: code.prepared.btf.as_deref() }
    }

    pub(super) fn map(&self, register: &Register) -> Option<&'a Map> {
        let map = self.code.object.maps.get(register.map()? as usize)?;
        if register.inner { map.inner.as_deref() } else { Some(map) }
    }

    /// Describes what a pointer points to.
    pub(super) fn pointee(&self, register: &Register) -> String {
        let map = || self.map(register).map_or("?", |map| &map.name);
        match register.kind() {
            Kind::Context => format!("the context ({})", self.program_type.context().struct_name),
            Kind::Stack => "a local variable".to_owned(),
            Kind::Map => format!("map `{}`", map()),
            Kind::MapValue if self.map(register).is_some_and(|map| map.map_type == MapType::InsnArray) => {
                format!("the jump table {}", map())
            }
            Kind::Insn => format!("an instruction, by jump table {}", map()),
            Kind::MapValue if self.is_section(register) => format!("the variables in {}", map()),
            Kind::MapValue => format!("a value of map `{}`", map()),
            Kind::MapKey => format!("a key of map `{}`", map()),
            Kind::Packet => "the packet".to_owned(),
            Kind::PacketMeta => "the packet's metadata".to_owned(),
            Kind::PacketEnd => "the packet's end".to_owned(),
            Kind::Socket => "a socket".to_owned(),
            Kind::SockCommon => "a socket (sock_common)".to_owned(),
            Kind::TcpSock => "a TCP socket".to_owned(),
            Kind::Memory => format!("memory of {} bytes", register.bytes()),
            Kind::RingBuffer => format!("a ring buffer record of {} bytes", register.bytes()),
            Kind::Function => {
                let function = register.function().and_then(|at| self.code.functions.get(at));
                format!("the function {}", function.map_or("?", |function| function.name))
            }
            kind => format!("a kernel object ({})", kind.name()),
        }
    }

    /// Describes a value in a few words.
    pub(super) fn value(&self, register: &Register) -> String {
        match register.kind() {
            Kind::Uninit => "nothing".to_owned(),
            Kind::Mixed => "anything".to_owned(),
            Kind::Scalar => number(&register.scalar),
            _ if register.nullable => format!("a pointer to {}, or null", self.pointee(register)),
            _ => format!("a pointer to {}", self.pointee(register)),
        }
    }

    /// What an access of memory touches: `ctx->data`, `the variable limit`.
    pub(super) fn memory(&self, base: &Register, offset: i64) -> String {
        let at = base.fixed_offset().map(|fixed| fixed + offset);
        let known = at.and_then(|at| self.field(base, at));
        known.unwrap_or_else(|| match (base.kind(), at) {
            (Kind::Scalar | Kind::Uninit | Kind::Mixed, _) => "memory".to_owned(),
            (_, Some(at)) => format!("{}, byte {at}", self.pointee(base)),
            (_, None) => format!("{}, at an offset that is not constant", self.pointee(base)),
        })
    }

    fn field(&self, base: &Register, at: i64) -> Option<String> {
        let at = u32::try_from(at).ok()?;
        match base.kind() {
            Kind::Context => {
                let field = self.program_type.context().field_at(at)?;
                Some(format!("`{}->{}`", self.parameter(0, 0).unwrap_or("ctx"), field.name))
            }
            Kind::MapValue => {
                let map = self.map(base)?;
                let btf = self.btf?;
                let id = btf.without_qualifiers(TypeId(map.value_btf)).filter(|id| *id != TypeId::VOID)?;
                if let BtfKind::Section { .. } = btf.kind(id) {
                    return variable(btf, id, at);
                }
                Some(format!("`value{}` of map `{}`", member(btf, id, at, 0)?, map.name))
            }
            _ => None,
        }
    }

    fn is_section(&self, register: &Register) -> bool {
        self.map(register).is_some_and(|map| map.name.starts_with('.'))
    }

    /// The name of a function's parameter.
    pub(super) fn parameter(&self, function: usize, index: usize) -> Option<&str> {
        let btf = self.btf?;
        let id = TypeId(self.code.functions.get(function)?.btf_id);
        let BtfKind::Function { prototype, .. } = *btf.kind(id) else { return None };
        let BtfKind::Prototype { .. } = btf.kind(prototype) else { return None };
        Some(btf.text(btf.parameters(prototype).get(index)?.name)).filter(|name| !name.is_empty())
    }
}

/// A variable of a data section, and the member at that byte.
fn variable(btf: &Btf, section: TypeId, at: u32) -> Option<String> {
    let variables = btf.variables(section);
    let variable =
        variables.iter().find(|variable| variable.offset <= at && at - variable.offset < variable.size.max(1))?;
    let BtfKind::Variable { target, .. } = *btf.kind(variable.type_id) else { return None };
    let path = member(btf, target, at - variable.offset, 0).unwrap_or_default();
    Some(format!("the variable `{}{path}`", btf.name(variable.type_id)))
}

/// The members and elements that lead to a byte: `.header.size`, `[3]`.
fn member(btf: &Btf, id: TypeId, at: u32, depth: u32) -> Option<String> {
    let id = btf.resolve(id)?;
    if depth > 8 {
        return None;
    }
    match btf.kind(id) {
        BtfKind::Composite { .. } => {
            let inside = |member: &&kiln_program::btf::Member| {
                let begin = member.bit_offset / 8;
                begin <= at && u64::from(at - begin) < btf.size_of(member.type_id).unwrap_or(0)
            };
            let found = btf.members(id).iter().find(inside)?;
            let rest = member(btf, found.type_id, at - found.bit_offset / 8, depth + 1)?;
            let name = btf.text(found.name);
            Some(if name.is_empty() { rest } else { format!(".{name}{rest}") })
        }
        BtfKind::Array { element, .. } => {
            let size = u32::try_from(btf.size_of(*element)?).ok().filter(|size| *size > 0)?;
            Some(format!("[{}]{}", at / size, member(btf, *element, at % size, depth + 1)?))
        }
        _ => Some(String::new()),
    }
}

/// A number's range, in the terms in which it is narrowest.
pub(super) fn number(scalar: &Scalar) -> String {
    if let Some(value) = scalar.as_constant() {
        let signed = value as i64;
        return if (-4096..0).contains(&signed) { format!("{signed}") } else { plain(value) };
    }
    let (unsigned, signed) = (scalar.umax.wrapping_sub(scalar.umin), scalar.smax.wrapping_sub(scalar.smin) as u64);
    if unsigned == u64::MAX && signed == u64::MAX {
        return "any number".to_owned();
    }
    // A limit that every number keeps is none.
    match (scalar.smin, scalar.smax) {
        (i64::MIN, most) if most != i64::MAX && scalar.umax == u64::MAX => {
            return format!("at most {}", signed_plain(most));
        }
        (least, i64::MAX) if least != i64::MIN && least < 0 => return format!("at least {}", signed_plain(least)),
        _ => {}
    }
    // What is negative throughout is as narrow either way, and nobody reads it as twenty digits.
    if unsigned <= signed && scalar.smax >= 0 {
        return format!("{} to {}", plain(scalar.umin), plain(scalar.umax));
    }
    format!("{} to {}", signed_plain(scalar.smin), signed_plain(scalar.smax))
}

fn plain(value: u64) -> String {
    if value > 0xf_ffff { format!("{value:#x}") } else { value.to_string() }
}

pub(super) fn signed_plain(value: i64) -> String {
    let size = plain(value.unsigned_abs());
    if value < 0 { format!("-{size}") } else { size }
}

/// The statement at the line's column, where the line has several.
fn statement(line: &SourceLine) -> &str {
    let at = (line.column as usize).saturating_sub(1);
    let mut depth = 0_i32;
    let mut begin = 0;
    for (end, letter) in line.text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ';' if depth == 0 && end >= at => return &line.text[begin..end],
            ';' if depth == 0 => begin = end + 1,
            _ => {}
        }
    }
    if line.text[begin..].trim().is_empty() { &line.text } else { &line.text[begin..] }
}

/// The variable that a line of C assigns to: `value` in `struct count *value = lookup(&map, &key);`.
pub(super) fn assigned(line: &SourceLine) -> Option<&str> {
    let text = statement(line).trim();
    let equals = text.char_indices().find(|(at, letter)| {
        let before = text[..*at].chars().next_back().unwrap_or(' ');
        let after = text[at + 1..].chars().next().unwrap_or(' ');
        *letter == '=' && after != '=' && !"=!<>+-*/%&|^".contains(before)
    });
    let left = text[..equals?.0].trim_end();
    let begin = left.rfind(|letter: char| !(letter.is_alphanumeric() || letter == '_')).map_or(0, |at| at + 1);
    let name = &left[begin..];
    let plain = !name.is_empty() && !name.starts_with(|letter: char| letter.is_ascii_digit());
    // An element or a member does not count as a name.
    let whole = !left[..begin].ends_with(['.', '>', ']', '(']) && !left.contains("if ") && !left.contains("if(");
    (plain && whole).then_some(name)
}

/// The argument at an index of a call in a line of C: `fname` in `bpf_probe_read_user_str(fname, 64, from)`, at 0.
pub(super) fn argument<'a>(line: &'a SourceLine, helper: &str, index: usize) -> Option<&'a str> {
    let name = format!("bpf_{helper}(");
    let rest = &line.text[line.text.find(&name)? + name.len()..];
    let mut depth = 0_i32;
    let mut begin = 0;
    let mut count = 0;
    for (at, letter) in rest.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ',' | ')' if depth == 0 => {
                if count == index {
                    return Some(rest[begin..at].trim()).filter(|text| !text.is_empty());
                }
                if letter == ')' {
                    return None;
                }
                count += 1;
                begin = at + 1;
            }
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> SourceLine {
        SourceLine { file: "a.c".into(), line: 1, column: 1, text: text.into(), file_offset: 0, text_offset: 0 }
    }

    #[test]
    fn assignments_name_their_variable() {
        assert_eq!(assigned(&line("\tstruct count *value = lookup(&map, &key);")), Some("value"));
        assert_eq!(assigned(&line("value = lookup(&map, &key);")), Some("value"));
        let two = SourceLine { column: 27, ..line("u32 k = 1; u64 *v = lookup(&map, &k);") };
        assert_eq!(assigned(&two), Some("v"));
        assert_eq!(assigned(&SourceLine { column: 9, ..two }), Some("k"));
        assert_eq!(assigned(&line("for (i = 0; i < 3; i++)")), None);
        assert_eq!(assigned(&line("if (value == 0)")), None);
        assert_eq!(assigned(&line("x->value = 3;")), None);
        assert_eq!(assigned(&line("sum += 3;")), None);
    }

    #[test]
    fn arguments_of_calls_are_found_in_their_line() {
        let call = line("\tlong n = bpf_probe_read_user_str(&e->name[f(1, 2)], 64, *(void **)(ctx + 24));");
        assert_eq!(argument(&call, "probe_read_user_str", 0), Some("&e->name[f(1, 2)]"));
        assert_eq!(argument(&call, "probe_read_user_str", 1), Some("64"));
        assert_eq!(argument(&call, "probe_read_user_str", 2), Some("*(void **)(ctx + 24)"));
        assert_eq!(argument(&call, "probe_read_user_str", 3), None);
        assert_eq!(argument(&call, "probe_read", 0), None);
    }

    #[test]
    fn numbers_are_said_briefly() {
        assert_eq!(number(&Scalar::signed_range(i64::MIN, 64)), "at most 64");
        assert_eq!(number(&Scalar::signed_range(-1, i64::MAX)), "at least -1");
        assert_eq!(number(&Scalar::UNKNOWN), "any number");
        assert_eq!(number(&Scalar::unsigned_range(0, 255)), "0 to 255");
        assert_eq!(number(&Scalar::signed_range(-8, 7)), "-8 to 7");
        assert_eq!(number(&Scalar::constant(u64::MAX)), "-1");
        assert_eq!(number(&Scalar::signed_range(-8, -1)), "-8 to -1");
    }
}
