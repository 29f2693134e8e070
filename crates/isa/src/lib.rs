//! The BPF instruction set, stated once.
//!
//! Everything that Kiln knows about an instruction (how to decode, print and run it, and what it means) is in this
//! crate, so that no two crates can disagree about `s%=` with a divisor of zero:
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
//! - [`operation`]: native operations: proof sequences of plain BPF, and the machine instructions that replace them;
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
