//! The fields of a context, and the builders for their tables.

use super::error::ContextError;
use crate::rows::setters;
use crate::{AttachTypes, KernelVersion, ProgramTypes};

/// A named range of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in C.
    pub name: &'static str,
    /// Bytes from the context's start.
    pub offset: u32,
    /// Bytes it spans: an array is one field.
    pub size: u32,
    /// Bytes of padding after it that a load may include.
    pub padding: u32,
    /// Loads must begin at the field's first byte.
    pub from_start: bool,
    /// The kind of value that a load of it returns.
    pub value: FieldValue,
    /// Who may load, and how.
    pub load: Permission,
    /// Who may store, and how.
    pub store: Permission,
    /// Program types in which a program without privilege may not load it.
    pub load_needs_privilege: ProgramTypes,
    /// Program types in which a program without privilege may not store to it.
    pub store_needs_privilege: ProgramTypes,
    /// The first kernel that has it.
    pub since: KernelVersion,
}

/// Who may access a field, and at which widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The widths in bytes, as bits: 1, 2, 4, 8 stand for themselves. Accesses are aligned to their width.
    pub widths: u8,
    /// The program types that may.
    pub program_types: ProgramTypes,
    /// The attach types at which they may.
    pub attach_types: AttachTypes,
}

/// The kind of value that a load from a field returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldValue {
    /// A number as wide as the access.
    Scalar,
    /// The first byte of the packet (or option, or message).
    PacketPointer,
    /// One past its last byte.
    PacketEnd,
    /// The first byte of the metadata before the packet.
    PacketMeta,
    /// A full socket.
    Socket,
    /// A full socket, or 0.
    SocketOrNull,
    /// A socket of any kind, or 0.
    SockCommonOrNull,
    /// `struct bpf_flow_keys`.
    FlowKeys,
    /// The buffer of a writable raw tracepoint.
    TracepointBuffer,
    /// A kernel structure that the kernel guarantees to be valid.
    BtfId(&'static str),
    /// An argument of the traced function: number or kernel structure, as its BTF says.
    TracedArgument,
}

/// An access a context allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAccess {
    /// The field.
    pub field: &'static Field,
    /// Bytes between the field's start and the access.
    pub offset_in_field: u32,
    /// Bytes accessed.
    pub width: u32,
}

impl FieldAccess {
    /// What the load gives.
    pub const fn value(&self) -> FieldValue {
        match self.field.value {
            FieldValue::TracepointBuffer if self.offset_in_field != 0 => FieldValue::Scalar,
            value => value,
        }
    }

    /// Whether it is of a part of the field behind its first byte. Fields of 16 bytes are four fields of 4, and what may be
    /// stored byte by byte has no parts.
    pub(crate) const fn is_behind_start(&self) -> bool {
        let whole = if self.field.size > 8 { 4 } else { self.field.size };
        let bytes = self.field.store.widths & 1 != 0;
        self.width < whole && !self.offset_in_field.is_multiple_of(whole) && !bytes
    }
}

pub(super) fn checked_start(size: u32, unaligned: bool, offset: i64, width: u32) -> Result<u32, ContextError> {
    let outside = ContextError::OutOfBounds { size };
    let start = u32::try_from(offset).map_err(|_| outside)?;
    if !matches!(width, 1 | 2 | 4 | 8) || !unaligned && start % width != 0 {
        return Err(ContextError::Misaligned);
    }
    match start.checked_add(width) {
        Some(end) if end <= size => Ok(start),
        _ => Err(outside),
    }
}

pub(super) fn field_at(fields: &'static [Field], start: u32, width: u32) -> Option<&'static Field> {
    let after = fields.partition_point(|field| field.offset <= start);
    let field = &fields[after.checked_sub(1)?];
    let inside = start.checked_add(width)? <= field.offset + field.size;
    let with_padding = start == field.offset && width == field.size + field.padding;
    (inside || with_padding).then_some(field)
}

/// Widths of a number that may be loaded in parts.
pub(super) const NARROW: u8 = 1 | 2 | 4;
/// Only four bytes.
pub(super) const WORD: u8 = 4;
/// Only eight bytes.
pub(super) const DOUBLE_WORD: u8 = 8;
/// Any width.
pub(super) const ANY_WIDTH: u8 = 1 | 2 | 4 | 8;

pub(super) const NOBODY: Permission =
    Permission { widths: 0, program_types: ProgramTypes::NONE, attach_types: AttachTypes::ALL };

/// A number that every program type with this context may load at these widths.
pub(super) const fn field(name: &'static str, offset: u32, size: u32, widths: u8) -> Field {
    Field {
        name,
        offset,
        size,
        padding: 0,
        from_start: false,
        value: FieldValue::Scalar,
        load: Permission { widths, program_types: ProgramTypes::ALL, attach_types: AttachTypes::ALL },
        store: NOBODY,
        load_needs_privilege: ProgramTypes::NONE,
        store_needs_privilege: ProgramTypes::NONE,
        since: KernelVersion::new(3, 19),
    }
}

/// A pointer as wide as the field.
pub(super) const fn pointer(name: &'static str, offset: u32, size: u32, value: FieldValue) -> Field {
    let mut row = field(name, offset, size, size as u8);
    row.value = value;
    row
}

impl Field {
    pub(super) fn checked_width(
        &'static self,
        permission: &Permission,
        start: u32,
        width: u32,
    ) -> Result<FieldAccess, ContextError> {
        // Behind its first byte, the pointer to a writable tracepoint's buffer is as the other arguments: bytes.
        let is_bytes = self.value == FieldValue::TracepointBuffer && start != self.offset;
        if u32::from(permission.widths) & width == 0 && !is_bytes {
            return Err(ContextError::Width { field: self.name, allowed: permission.widths });
        }
        let offset_in_field = start - self.offset;
        if self.from_start && offset_in_field != 0 {
            return Err(ContextError::NoField);
        }
        Ok(FieldAccess { field: self, offset_in_field, width })
    }

    pub(super) const fn writable(mut self, widths: u8) -> Self {
        self.store = Permission { widths, ..self.load };
        self
    }
}

setters! { Field:
    only_from_start => from_start = true;
    padded(padding: u32) => padding = padding;
    since(major: u8, minor: u8) => since = KernelVersion::new(major, minor);
    loaded_with_privilege_in(program_types: ProgramTypes) => load_needs_privilege = program_types;
    stored_with_privilege_in(program_types: ProgramTypes) => store_needs_privilege = program_types;
    readable_in(program_types: ProgramTypes) => load.program_types = program_types;
    readable_at(attach_types: AttachTypes) => load.attach_types = attach_types;
    writable_in(widths: u8, program_types: ProgramTypes) =>
        store = Permission { widths, program_types, attach_types: AttachTypes::ALL };
    writable_at(attach_types: AttachTypes) => store.attach_types = attach_types;
}
