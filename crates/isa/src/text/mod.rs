//! LLVM's syntax: what `llvm-objdump -d` shows for each form, and a parser for it.
//!
//! ```
//! use kiln_isa::text::parse;
//! let insn = parse("w3 = *(u16 *)(r1 + 12)").unwrap();
//! assert_eq!(insn.to_string(), "w3 = *(u16 *)(r1 + 0xc)");
//! assert_eq!(parse(&insn.to_string()), Ok(insn));
//! ```
//!
//! LLVM 19 drops fields that some forms need (the pseudo source of a `ld_imm64`, the constant of an indirect packet
//! load, the kind of a call) and does not know Linux 6.14's load-acquire. Those have a spelling of our own, so that
//! every instruction printed here parses back to itself:
//!
//! | form | text |
//! |---|---|
//! | `ld_imm64` of a map | `r1 = map[fd:3]`, `r1 = map[fd:3][0] + 8`, `r1 = map[idx:3]` |
//! | `ld_imm64` of a kernel variable, of code | `r1 = ksym[btf:7, fd:0]`, `r1 = subprog[+5]` |
//! | call of a subprogram, of a kfunc | `call pc+5`, `call kfunc[btf:7, fd_index:0]` |
//! | indirect packet load | `r0 = *(u8 *)skb[r3 + 0x4]` |
//! | acquire and release | `r1 = load_acquire((u64 *)(r2 + 0x8))`, `store_release((u64 *)(r2 + 0x8), r1)` (as LLVM 20) |

mod cursor;
mod parse;

use std::fmt;

pub use cursor::{ParseError, Symbol};
pub use parse::{parse, parse_symbolic};

use crate::insn::{Address, ByteOrder, CallTarget, Imm64, Insn, PacketMode, Reg, Size, Source, Width};
use crate::table::AtomicOp;

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.number())
    }
}

/// A register as seen at a width: `w3` or `r3`.
pub struct View(pub Width, pub Reg);

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = if self.0 == Width::W32 { 'w' } else { 'r' };
        write!(f, "{letter}{}", self.1.number())
    }
}

struct Operand(Width, Source);

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Source::Reg(reg) => View(self.0, reg).fmt(f),
            Source::Imm(imm) => SignedHex(imm.into()).fmt(f),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.offset < 0 { '-' } else { '+' };
        write!(f, "{} {sign} {:#x}", self.base, self.offset.unsigned_abs())
    }
}

impl fmt::Display for Insn {
    // long: one arm for each form of instruction
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Insn::Alu { op, width, dst, src } => {
                write!(f, "{} {} {}", View(width, dst), op.row().symbol, Operand(width, src))
            }
            Insn::Neg { width, dst } => write!(f, "{0} = -{0}", View(width, dst)),
            Insn::MoveSignExtend { width, from, dst, src } => {
                write!(f, "{} = (s{}){}", View(width, dst), from.bits(), View(width, src))
            }
            Insn::AddressSpaceCast { dst, src, to, from } => {
                write!(f, "{dst} = addr_space_cast({src}, {to:#x}, {from:#x})")
            }
            Insn::Endian { order, size, dst } => {
                let word = match order {
                    ByteOrder::Little => "le",
                    ByteOrder::Big => "be",
                    ByteOrder::Swap => "bswap",
                };
                write!(f, "{dst} = {word}{} {dst}", size.bits())
            }
            Insn::LoadImm64 { dst, imm } => write!(f, "{dst} = {imm}"),
            Insn::Load { size, signed, dst, address } => {
                let (view, letter) = if signed || size == Size::B8 {
                    (Width::W64, if signed { 's' } else { 'u' })
                } else {
                    (Width::W32, 'u')
                };
                write!(f, "{} = *({letter}{} *)({address})", View(view, dst), size.bits())
            }
            Insn::Store { size, address, src } => {
                let view = if size == Size::B8 { Width::W64 } else { Width::W32 };
                write!(f, "*(u{} *)({address}) = {}", size.bits(), Operand(view, src))
            }
            Insn::Atomic { op, fetch, size, address, src } => fmt_atomic(f, op, fetch, size, address, src),
            Insn::LoadAcquire { size, dst, address } => {
                let view = View(access_width(size), dst);
                write!(f, "{view} = load_acquire((u{} *)({address}))", size.bits())
            }
            Insn::StoreRelease { size, address, src } => {
                let view = View(access_width(size), src);
                write!(f, "store_release((u{} *)({address}), {view})", size.bits())
            }
            Insn::LoadPacket { mode, size, offset } => match mode {
                PacketMode::Absolute => write!(f, "r0 = *(u{} *)skb[{}]", size.bits(), SignedHex(offset.into())),
                PacketMode::Indirect(reg) if offset == 0 => write!(f, "r0 = *(u{} *)skb[{reg}]", size.bits()),
                PacketMode::Indirect(reg) => {
                    let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
                    write!(f, "r0 = *(u{} *)skb[{reg} {sign} {offset:#x}]", size.bits())
                }
            },
            Insn::Jump { offset, long } => {
                write!(f, "{} {}", if long { "gotol" } else { "goto" }, Relative(offset))
            }
            Insn::JumpIndirect { dst } => write!(f, "gotox {dst}"),
            Insn::Branch { op, width, dst, src, offset } => write!(
                f,
                "if {} {} {} goto {}",
                View(width, dst),
                op.row().symbol,
                Operand(width, src),
                Relative(offset.into())
            ),
            Insn::MayGoto { offset } => write!(f, "may_goto {}", Relative(offset.into())),
            Insn::Call(target) => write!(f, "call {target}"),
            Insn::Exit => write!(f, "exit"),
        }
    }
}

fn access_width(size: Size) -> Width {
    if size == Size::B8 { Width::W64 } else { Width::W32 }
}

/// A number as LLVM prints it: `0x10`, `-0x8`.
struct SignedHex(i64);

impl fmt::Display for SignedHex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:#x}", if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs())
    }
}

/// What follows the first number of a pseudo source whose second slot should be zero.
struct High(i32);

impl fmt::Display for High {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, ", high:{}", self.0) }
    }
}

/// A branch distance, always signed: `+0x5`, `-0x3`.
struct Relative(i32);

impl fmt::Display for Relative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:#x}", if self.0 < 0 { '-' } else { '+' }, self.0.unsigned_abs())
    }
}

impl fmt::Display for Imm64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Imm64::Value(value) => write!(f, "{} ll", SignedHex(value as i64)),
            Imm64::MapFd { fd, high } => write!(f, "map[fd:{fd}{}]", High(high)),
            Imm64::MapValueFd { fd, offset } => write!(f, "map[fd:{fd}][0] + {offset}"),
            Imm64::VariableBtf { id, fd } => write!(f, "ksym[btf:{id}, fd:{fd}]"),
            Imm64::Code { offset, high } => write!(f, "subprog[{offset:+}{}]", High(high)),
            Imm64::MapIndex { index, high } => write!(f, "map[idx:{index}{}]", High(high)),
            Imm64::MapValueIndex { index, offset } => write!(f, "map[idx:{index}][0] + {offset}"),
        }
    }
}

impl fmt::Display for CallTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CallTarget::Helper(id) => SignedHex((id as i32).into()).fmt(f),
            CallTarget::Subprogram(offset) => write!(f, "pc{offset:+}"),
            CallTarget::Kfunc { id, fd_index } => write!(f, "kfunc[btf:{id}, fd_index:{fd_index}]"),
        }
    }
}

fn fmt_atomic(
    f: &mut fmt::Formatter<'_>,
    op: AtomicOp,
    fetch: bool,
    size: Size,
    address: Address,
    src: Reg,
) -> fmt::Result {
    let (bits, view) = (size.bits(), View(access_width(size), src));
    let word = op.row().symbol;
    match op {
        AtomicOp::Exchange => {
            let suffix = if size == Size::B8 { "_64" } else { "32_32" };
            write!(f, "{view} = {word}{suffix}({address}, {view})")
        }
        AtomicOp::CompareExchange => {
            let suffix = if size == Size::B8 { "_64" } else { "32_32" };
            let r0 = View(access_width(size), Reg::R0);
            write!(f, "{r0} = {word}{suffix}({address}, {r0}, {view})")
        }
        _ if fetch => write!(f, "{view} = atomic_fetch_{word}((u{bits} *)({address}), {view})"),
        _ => {
            let symbol = match op {
                AtomicOp::Add => "+=",
                AtomicOp::Or => "|=",
                AtomicOp::And => "&=",
                _ => "^=",
            };
            write!(f, "lock *(u{bits} *)({address}) {symbol} {view}")
        }
    }
}
