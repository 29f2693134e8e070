//! The operations, one row each.
//!
//! A row states the operation's name, its four-bit code, the offset that tells signed from unsigned forms, LLVM's
//! symbol, the feature group, one sentence of documentation and its meaning over any [`BitVec`]. The enum, the lookup
//! tables and the generic evaluator all come from the row, so adding an operation is adding a row.

pub use crate::forms::{Form, forms};
use crate::semantics::BitVec;

/// The conformance group (RFC 9669 section 2.4) or the Linux addition that a form belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Group {
    /// 32-bit ALU, comparisons and memory: all implementations have it.
    Base32,
    /// 64-bit forms.
    Base64,
    /// 32-bit atomics.
    Atomic32,
    /// 64-bit atomics.
    Atomic64,
    /// 32-bit multiplication, division and modulo.
    Divmul32,
    /// 64-bit multiplication, division and modulo.
    Divmul64,
    /// Classic packet loads.
    Packet,
    /// Linux 6.9 arenas and bounded `goto`: `addr_space_cast`, `may_goto`.
    Linux69,
    /// Linux 6.14: load-acquire and store-release.
    Linux614,
    /// Linux 6.19: `gotox`.
    Linux619,
}

impl Group {
    /// Its name as RFC 9669 registers it, or the kernel version.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Base32 => "base32",
            Group::Base64 => "base64",
            Group::Atomic32 => "atomic32",
            Group::Atomic64 => "atomic64",
            Group::Divmul32 => "divmul32",
            Group::Divmul64 => "divmul64",
            Group::Packet => "packet",
            Group::Linux69 => "linux-6.9",
            Group::Linux614 => "linux-6.14",
            Group::Linux619 => "linux-6.19",
        }
    }
}

/// What LLVM calls the ISA version (`-mcpu=vN`) in which a form appeared.
pub type IsaVersion = u8;

macro_rules! alu_table {
    ($( $(#[doc = $doc:literal])+ $name:ident: code $code:literal, offset $offset:literal, symbol $symbol:literal,
        divmul $divmul:literal, version $version:literal, |$d:ident, $s:ident| $meaning:expr; )*) => {
        /// A two-operand ALU operation. The table's rows give each its code, symbol and meaning.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum AluOp { $( $(#[doc = $doc])+ $name ),* }

        impl AluOp {
            /// All rows.
            pub const ALL: &'static [AluOp] = &[$( AluOp::$name ),*];

            /// The row's facts.
            pub const fn row(self) -> AluRow {
                match self { $( AluOp::$name => AluRow {
                    name: stringify!($name), code: $code, offset: $offset, symbol: $symbol, divmul: $divmul,
                    version: $version, doc: concat!($( $doc ),+), meaning: stringify!($meaning),
                } ),* }
            }

            /// The operation's meaning: the new value of `dst`, at the width of the operands (a power of two).
            #[inline]
            pub fn apply<B: BitVec>(self, dst: &B, src: &B) -> B {
                match self { $( AluOp::$name => { let ($d, $s) = (dst, src); $meaning } ),* }
            }
        }
    };
}

/// The facts of one ALU operation.
#[derive(Clone, Copy, Debug)]
pub struct AluRow {
    /// Its name.
    pub name: &'static str,
    /// The opcode byte's upper four bits.
    pub code: u8,
    /// The slot's offset field, which tells signed division from unsigned.
    pub offset: i16,
    /// LLVM's symbol, as in `r1 += r2`.
    pub symbol: &'static str,
    /// Whether it is in the `divmul` groups.
    pub divmul: bool,
    /// The `-mcpu` version that introduced it.
    pub version: IsaVersion,
    /// One sentence.
    pub doc: &'static str,
    /// The meaning, as written in the table.
    pub meaning: &'static str,
}

alu_table! {
    /// Addition, wrapping.
    Add: code 0x0, offset 0, symbol "+=", divmul false, version 1, |d, s| d.add(s);
    /// Subtraction, wrapping.
    Sub: code 0x1, offset 0, symbol "-=", divmul false, version 1, |d, s| d.sub(s);
    /// Multiplication, wrapping.
    Mul: code 0x2, offset 0, symbol "*=", divmul true, version 1, |d, s| d.mul(s);
    /// Unsigned division; zero when the divisor is zero.
    Div: code 0x3, offset 0, symbol "/=", divmul true, version 1,
        |d, s| B::ite(&s.is_zero(), &d.like(0), &d.udiv(s));
    /// Signed division, truncating; zero when the divisor is zero; the minimum divided by -1 is itself.
    Sdiv: code 0x3, offset 1, symbol "s/=", divmul true, version 4,
        |d, s| B::ite(&s.is_zero(), &d.like(0), &d.sdiv(s));
    /// Bitwise or.
    Or: code 0x4, offset 0, symbol "|=", divmul false, version 1, |d, s| d.or(s);
    /// Bitwise and.
    And: code 0x5, offset 0, symbol "&=", divmul false, version 1, |d, s| d.and(s);
    /// Left shift; the amount is taken modulo the width.
    Lsh: code 0x6, offset 0, symbol "<<=", divmul false, version 1, |d, s| d.shl(&s.shift_amount());
    /// Logical right shift; the amount is taken modulo the width.
    Rsh: code 0x7, offset 0, symbol ">>=", divmul false, version 1, |d, s| d.lshr(&s.shift_amount());
    /// Unsigned remainder; the dividend when the divisor is zero.
    Mod: code 0x9, offset 0, symbol "%=", divmul true, version 1,
        |d, s| B::ite(&s.is_zero(), d, &d.urem(s));
    /// Signed remainder with the dividend's sign; the dividend when the divisor is zero; zero when it is -1.
    Smod: code 0x9, offset 1, symbol "s%=", divmul true, version 4,
        |d, s| B::ite(&s.is_zero(), d, &d.srem(s));
    /// Bitwise exclusive or.
    Xor: code 0xa, offset 0, symbol "^=", divmul false, version 1, |d, s| d.xor(s);
    /// Move.
    Mov: code 0xb, offset 0, symbol "=", divmul false, version 1, |_d, s| s.clone();
    /// Arithmetic right shift; the amount is taken modulo the width.
    Arsh: code 0xc, offset 0, symbol "s>>=", divmul false, version 1, |d, s| d.ashr(&s.shift_amount());
}

macro_rules! jump_table {
    ($( $(#[doc = $doc:literal])+ $name:ident: code $code:literal, symbol $symbol:literal, negated $negated:expr,
        swapped $swapped:expr, |$d:ident, $s:ident| $meaning:expr; )*) => {
        /// A comparison. The table's rows give each its code, symbol and meaning.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum JumpOp { $( $(#[doc = $doc])+ $name ),* }

        impl JumpOp {
            /// All rows.
            pub const ALL: &'static [JumpOp] = &[$( JumpOp::$name ),*];

            /// The row's facts.
            pub const fn row(self) -> JumpRow {
                match self { $( JumpOp::$name => JumpRow {
                    name: stringify!($name), code: $code, symbol: $symbol, doc: concat!($( $doc ),+),
                    meaning: stringify!($meaning), negated: $negated, swapped: $swapped,
                } ),* }
            }

            /// Whether the branch is taken, at the width of the operands.
            pub fn holds<B: BitVec>(self, dst: &B, src: &B) -> B::Bool {
                match self { $( JumpOp::$name => { let ($d, $s) = (dst, src); $meaning } ),* }
            }
        }
    };
}

/// The facts of one comparison.
#[derive(Clone, Copy, Debug)]
pub struct JumpRow {
    /// Its name.
    pub name: &'static str,
    /// The opcode byte's upper four bits.
    pub code: u8,
    /// LLVM's symbol, as in `if r1 s> r2`.
    pub symbol: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// The meaning, as written in the table.
    pub meaning: &'static str,
    /// The comparison that holds exactly when this one does not.
    pub negated: Option<JumpOp>,
    /// The comparison that holds for exchanged operands exactly when this one does.
    pub swapped: Option<JumpOp>,
}

jump_table! {
    /// Equal.
    Eq: code 0x1, symbol "==", negated Some(JumpOp::Ne), swapped Some(JumpOp::Eq), |d, s| d.eq(s);
    /// Unsigned greater.
    Gt: code 0x2, symbol ">", negated Some(JumpOp::Le), swapped Some(JumpOp::Lt), |d, s| s.ult(d);
    /// Unsigned greater or equal.
    Ge: code 0x3, symbol ">=", negated Some(JumpOp::Lt), swapped Some(JumpOp::Le), |d, s| s.ule(d);
    /// Any common bit set.
    Set: code 0x4, symbol "&", negated None, swapped Some(JumpOp::Set), |d, s| B::not(&d.and(s).is_zero());
    /// Not equal.
    Ne: code 0x5, symbol "!=", negated Some(JumpOp::Eq), swapped Some(JumpOp::Ne), |d, s| B::not(&d.eq(s));
    /// Signed greater.
    Sgt: code 0x6, symbol "s>", negated Some(JumpOp::Sle), swapped Some(JumpOp::Slt), |d, s| s.slt(d);
    /// Signed greater or equal.
    Sge: code 0x7, symbol "s>=", negated Some(JumpOp::Slt), swapped Some(JumpOp::Sle), |d, s| s.sle(d);
    /// Unsigned less.
    Lt: code 0xa, symbol "<", negated Some(JumpOp::Ge), swapped Some(JumpOp::Gt), |d, s| d.ult(s);
    /// Unsigned less or equal.
    Le: code 0xb, symbol "<=", negated Some(JumpOp::Gt), swapped Some(JumpOp::Ge), |d, s| d.ule(s);
    /// Signed less.
    Slt: code 0xc, symbol "s<", negated Some(JumpOp::Sge), swapped Some(JumpOp::Sgt), |d, s| d.slt(s);
    /// Signed less or equal.
    Sle: code 0xd, symbol "s<=", negated Some(JumpOp::Sgt), swapped Some(JumpOp::Sge), |d, s| d.sle(s);
}

macro_rules! atomic_table {
    ($( $(#[doc = $doc:literal])+ $name:ident: imm $imm:literal, always_fetch $fetch:literal, symbol $symbol:literal,
        |$old:ident, $s:ident| $meaning:expr; )*) => {
        /// An atomic read-modify-write (RFC 9669 section 5.3).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum AtomicOp { $( $(#[doc = $doc])+ $name ),* }

        impl AtomicOp {
            /// All rows.
            pub const ALL: &'static [AtomicOp] = &[$( AtomicOp::$name ),*];

            /// The row's facts.
            pub const fn row(self) -> AtomicRow {
                match self { $( AtomicOp::$name => AtomicRow {
                    name: stringify!($name), imm: $imm, always_fetch: $fetch, symbol: $symbol,
                    doc: concat!($( $doc ),+), meaning: stringify!($meaning),
                } ),* }
            }

            /// What memory holds afterwards, given what it held and the operand. Compare-and-exchange stores this
            /// only when the old value equals R0.
            pub fn apply<B: BitVec>(self, old: &B, src: &B) -> B {
                match self { $( AtomicOp::$name => { let ($old, $s) = (old, src); $meaning } ),* }
            }
        }
    };
}

/// The facts of one atomic operation.
#[derive(Clone, Copy, Debug)]
pub struct AtomicRow {
    /// Its name.
    pub name: &'static str,
    /// The immediate that names it, without the fetch bit (0x01).
    pub imm: i32,
    /// Whether it has only a fetching form.
    pub always_fetch: bool,
    /// LLVM's word: `+=` in `lock *(u64 *)(r1 + 0) += r2`, the `add` in `atomic_fetch_add`, or the whole name.
    pub symbol: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// The meaning, as written in the table.
    pub meaning: &'static str,
}

atomic_table! {
    /// Atomic addition.
    Add: imm 0x00, always_fetch false, symbol "add", |old, s| old.add(s);
    /// Atomic or.
    Or: imm 0x40, always_fetch false, symbol "or", |old, s| old.or(s);
    /// Atomic and.
    And: imm 0x50, always_fetch false, symbol "and", |old, s| old.and(s);
    /// Atomic exclusive or.
    Xor: imm 0xa0, always_fetch false, symbol "xor", |old, s| old.xor(s);
    /// Atomic exchange.
    Exchange: imm 0xe0, always_fetch true, symbol "xchg", |_old, s| s.clone();
    /// Atomic compare-and-exchange: stores the operand when the old value equals R0; R0 gets the old value.
    CompareExchange: imm 0xf0, always_fetch true, symbol "cmpxchg", |_old, s| s.clone();
}
