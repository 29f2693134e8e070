//! The BPF instruction set, stated once.
//!
//! Everything Kiln does with an instruction (decode it, print it, run it, reason about it) is told here, so that no
//! two rooms can disagree about what `s%=` means when the divisor is zero:
//!
//! ```text
//!   bytes --decode--> Insn --execute::<M>--> effects on a Machine
//!         <--encode--      --text---------> r1 s%= r2
//! ```
//!
//! - [`insn`]: the decoded instruction, an enum that makes illegal forms unrepresentable where it can;
//! - [`table`]: the operations as rows: name, code, syntax, feature group, meaning over any [`semantics::BitVec`];
//! - [`semantics`]: the bit-vector interface and [`semantics::execute`], which runs one instruction on a `Machine`;
//! - [`encoding`]: 8-byte slots (RFC 9669 section 3) to instructions and back, total and lossless;
//! - [`text`]: LLVM's syntax, printed and parsed;
//! - [`operation`]: native operations, the extended table: proof sequences of plain BPF and what machines do instead;
//! - [`forms`]: every form an instruction can take, with its group and version; [`manual`] prints them.
#![forbid(unsafe_code)]

pub mod encoding;
pub mod forms;
pub mod insn;
pub mod manual;
pub mod operation;
pub mod semantics;
pub mod table;
pub mod text;

pub use encoding::{DecodeError, Slot, decode, encode};
pub use insn::{Address, ByteOrder, CallTarget, Imm64, Insn, PacketMode, Reg, RegSet, Size, Source, Width};
pub use table::{AluOp, AtomicOp, Group, JumpOp};
