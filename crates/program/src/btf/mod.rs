//! BTF, the type information that compilers put into BPF objects and the kernel exports about itself.
//!
//! A `.BTF` section is a header, a sequence of type records and a string table. Types are numbered from 1 in the
//! order of their records and refer to each other by number, in any direction:
//!
//! ```text
//!   header | [1] int "u32" 4 bytes | [2] struct "key" { [1] a; [3] next } | [3] ptr -> [2] | ... | "\0u32\0key\0..."
//! ```
//!
//! 0 is `void`. The kernel's modules use *split* BTF: numbers and string offsets continue after those of a base
//! (vmlinux).
//!
//! [`Btf::parse`] reads a section into a flat table and checks every count, reference and string offset, so that later
//! lookups cannot run out of bounds. It does not check that the types make sense: a typedef may name itself, a struct
//! may contain itself. Use [`Btf::resolve`] and [`Btf::size_of`] to follow references: they stop at a fixed depth.
//!
//! ```
//! use kiln_program::btf::{Btf, Kind};
//! // A header (24 bytes), one 12-byte record with its 4 extra bytes, and the strings "\0u32\0".
//! let mut bytes = vec![0x9f, 0xeb, 1, 0, 24, 0, 0, 0];
//! for word in [0u32, 16, 16, 5, 1, 1 << 24, 4, 32] {
//!     bytes.extend(word.to_le_bytes());
//! }
//! bytes.extend(b"\0u32\0");
//! let btf = Btf::parse(&bytes).unwrap();
//! let id = btf.find("u32", |kind| matches!(kind, Kind::Int { .. })).unwrap();
//! assert_eq!(btf.size_of(id), Some(4));
//! ```

pub mod compat;
mod lookup;
mod parse;
mod sections;
mod widened;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A type's number; 0 is `void`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TypeId(pub u32);

impl TypeId {
    /// `void`.
    pub const VOID: TypeId = TypeId(0);
}

/// Maximum number of references followed when a type is resolved or measured (libbpf `MAX_RESOLVE_DEPTH`).
pub const MAX_DEPTH: usize = 32;

/// How the declaration tag of a program begins that names the function which handles what it throws.
pub const EXCEPTION_CALLBACK: &str = "exception_callback:";

/// A parsed `.BTF` section.
#[derive(Clone, Debug)]
pub struct Btf {
    base: Option<Arc<Btf>>,
    types: Vec<Type>,
    members: Vec<Member>,
    values: Vec<EnumValue>,
    parameters: Vec<Parameter>,
    variables: Vec<SectionVariable>,
    strings: Vec<u8>,
    /// Hash of the name, and type: sorted, for [`Btf::named`].
    by_name: OnceLock<Vec<(u64, TypeId)>>,
}

/// A type record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Type {
    /// Offset of its name in the string table; 0 when it has none.
    pub name: u32,
    /// What it is.
    pub kind: Kind,
}

/// How a symbol is linked (`enum btf_func_linkage`, `BTF_VAR_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linkage {
    /// `static`.
    Static,
    /// Global.
    Global,
    /// Declared here, defined elsewhere.
    Extern,
}

/// The kind of a type. Ranges index the tables of [`Btf::members`] and similar functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// No type.
    Void,
    /// An integer, character or boolean.
    Int {
        /// Bytes.
        size: u32,
        /// Whether it is signed.
        signed: bool,
        /// Whether it is `bool`.
        boolean: bool,
        /// Bits from the lowest bit of the bytes; 0 except in old compilers' bitfields.
        bit_offset: u8,
        /// Bits.
        bits: u8,
    },
    /// A pointer.
    Pointer {
        /// To what.
        target: TypeId,
    },
    /// An array.
    Array {
        /// Of what.
        element: TypeId,
        /// The index type.
        index: TypeId,
        /// How many.
        count: u32,
    },
    /// A `struct` or `union`.
    Composite {
        /// Whether it is a `union`.
        union: bool,
        /// Bytes.
        size: u32,
        /// Its members.
        members: Range<usize>,
    },
    /// An `enum`; 64-bit values with `BTF_KIND_ENUM64`.
    Enum {
        /// Bytes.
        size: u32,
        /// Whether values are signed.
        signed: bool,
        /// Whether it is `BTF_KIND_ENUM64`.
        wide: bool,
        /// Its values.
        values: Range<usize>,
    },
    /// A declaration without a definition.
    Forward {
        /// Whether it is a `union`.
        union: bool,
    },
    /// A `typedef`.
    Typedef {
        /// Of what.
        target: TypeId,
    },
    /// `volatile`, `const` or `restrict`.
    Qualifier {
        /// Which.
        qualifier: Qualifier,
        /// Of what.
        target: TypeId,
    },
    /// A function.
    Function {
        /// Its [`Kind::Prototype`].
        prototype: TypeId,
        /// Its linkage.
        linkage: Linkage,
    },
    /// A function type.
    Prototype {
        /// What it returns.
        result: TypeId,
        /// What it takes.
        parameters: Range<usize>,
    },
    /// A variable.
    Variable {
        /// Its type.
        target: TypeId,
        /// Its linkage.
        linkage: Linkage,
    },
    /// A data section: the variables in it and where they are.
    Section {
        /// Bytes; 0 until a linker or loader fills it in.
        size: u32,
        /// Its variables.
        variables: Range<usize>,
    },
    /// A floating-point number.
    Float {
        /// Bytes.
        size: u32,
    },
    /// `__attribute__((btf_decl_tag("...")))`.
    DeclTag {
        /// On what.
        target: TypeId,
        /// Which member or parameter; `None` for the whole.
        component: Option<u32>,
    },
    /// `__attribute__((btf_type_tag("...")))`.
    TypeTag {
        /// On what.
        target: TypeId,
    },
}

/// A type qualifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Qualifier {
    /// `volatile`.
    Volatile,
    /// `const`.
    Const,
    /// `restrict`.
    Restrict,
}

/// A member of a struct or union.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Offset of its name in the string table; 0 when anonymous.
    pub name: u32,
    /// Its type.
    pub type_id: TypeId,
    /// Bits from the beginning of the struct.
    pub bit_offset: u32,
    /// Bits, when it is a bitfield.
    pub bitfield_bits: Option<u8>,
}

/// A value of an enum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnumValue {
    /// Offset of its name in the string table.
    pub name: u32,
    /// The value, sign-extended when the enum is signed.
    pub value: u64,
}

/// A parameter of a function type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Offset of its name in the string table.
    pub name: u32,
    /// Its type; `void` as the last one means `...`.
    pub type_id: TypeId,
}

/// A variable in a data section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectionVariable {
    /// The [`Kind::Variable`].
    pub type_id: TypeId,
    /// Bytes from the beginning of the section.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
}

/// Why bytes are not BTF.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("BTF is malformed at byte {offset}: {message}")]
pub struct BtfError {
    /// Where, in bytes from the beginning of the section.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
}
