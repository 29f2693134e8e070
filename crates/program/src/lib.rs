//! Kiln's IR: one object's worth of functions, maps and debug info.
//!
//! Front ends make an [`Object`], analyses read it, transforms make a new one, back ends run or write it:
//!
//! ```text
//!   Object
//!   ├─ functions: Function ── nodes: Node { id, insn, reference, line, core }
//!   ├─ programs:  Program  ── the entry function, the program type it is loaded as
//!   ├─ maps:      Map      ── definition, initial contents of .data/.rodata/.bss
//!   ├─ externs:   Extern   ── kernel symbols, kfuncs, kconfig values
//!   └─ lines, core, btf    ── debug info and CO-RE records, pointed to by the nodes
//! ```
//!
//! An instruction never contains a position. A branch names the [`InsnId`] of its target, a call its [`FunctionId`], a
//! `ld_imm64` its [`MapId`]: see [`Reference`]. So instructions can be inserted, moved and deleted freely, facts of an
//! analysis stay attached to their instructions, and offsets are computed once, when [`lower`] turns a program into
//! slots.
//!
//! Reading order: [`object`], [`mod@cfg`], [`lower`], [`mod@validate`], [`interpret`], [`text`], [`shown`]; then [`liveness`], [`needs`],
//! [`bytecode`] (raw instructions) and [`operation`] (marks of native operations)
//! and [`error`] (what every part of Kiln can fail with).
#![forbid(unsafe_code)]

pub mod btf;
pub mod bytecode;
pub mod cfg;
pub mod components;
pub mod error;
pub mod interpret;
pub mod liveness;
pub mod lower;
pub mod needs;
pub mod object;
pub mod operation;
pub mod shown;
pub mod text;
pub mod validate;

pub use cfg::{Block, BlockId, ById, Cfg, IdHasher, Ids};
pub use error::Error;
pub use interpret::{Environment, Interpreter, Outcome, Trap};
pub use lower::{Image, LowerError, Relocation, lower_function, lower_program};
pub use needs::Needs;
pub use object::{
    CoreId, CoreRelocation, Extern, ExternId, ExternKind, Function, FunctionId, InsnId, JumpTable, LineId, Linkage,
    Map, MapContents, MapId, MapSlot, Node, Object, Program, ProgramId, READ_ONLY_FLAG, Reference, Replaced,
    SourceLine, WRITE_ONLY_FLAG,
};
pub use operation::Mark;
pub use shown::{Clean, CleanLines, clean};
pub use validate::{Invalid, MAX_INDIRECT_EDGES, validate};
