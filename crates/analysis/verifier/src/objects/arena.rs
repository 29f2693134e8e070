//! Arenas: memory shared with user space, which a program reaches through 32-bit offsets.
//!
//! ```text
//!   r1 = arena variable or bpf_arena_alloc_pages()   a number, as user space sees the address
//!   r1 = addr_space_cast(r1, 0, 1)                   a pointer into the arena, whatever the number was
//!   *(u64 *)(r1 + 8) = 5                             always safe: outside of the pages nothing is written, 0 is read
//!   r2 = addr_space_cast(r1, 1, 0)                   a number again
//! ```
//!
//! So nothing has to be known about such a pointer. Arithmetic keeps it an arena pointer, and every access is allowed.

use kiln_isa::{AtomicOp, Reg};
use kiln_platform::MapType;
use kiln_program::{InsnId, Reference};

use crate::code::Code;
use crate::error::{Step, reject};
use crate::options::Options;
use crate::path::{Findings, Path};
use crate::reason::Reason;
use crate::state::{Holds, Kind, Register};

impl Register {
    /// A pointer into the program's arena.
    pub(crate) const ARENA: Register = Register { holds: Holds::Arena, ..Register::UNKNOWN };
}

impl Path<'_> {
    pub(crate) fn cast_address(&mut self, dst: Reg, src: Reg, to: u16, from: u16) -> Step<()> {
        self.read(src)?;
        if !self.code.uses_arena() {
            return reject(Reason::BadInstruction, "addr_space_cast in a program that uses no arena");
        }
        match (to, from) {
            (0, 1) => self.write(dst, Register::ARENA),
            (1, 0) => self.write(dst, Register::UNKNOWN),
            _ => reject(Reason::BadInstruction, "addr_space_cast converts between address spaces 0 and 1 only"),
        }
    }
}

impl Options {
    /// Returns what an address register holds for an access. With [`crate::Options::heap`], a number is a heap address.
    pub(crate) fn heap_address(&self, register: Register) -> Register {
        if self.heap && register.kind() == Kind::Scalar { Register::ARENA } else { register }
    }
}

impl Findings {
    /// The instructions that access the arena, on every path that leads to them.
    pub(crate) fn arena_accesses(&self, code: &Code<'_>) -> impl Iterator<Item = InsnId> {
        let in_arena = self.noted.accessed.iter().enumerate().filter(|(_, kind)| **kind == Kind::Arena);
        in_arena.map(|(at, _)| code.ops[at].node.id)
    }
}

impl<'a> Code<'a> {
    fn uses_arena(&self) -> bool {
        self.ops.iter().any(|op| {
            let (Reference::Map(map) | Reference::MapValue { map, .. }) = op.node.reference else { return false };
            self.object.maps.get(map.index()).is_some_and(|map| map.map_type == MapType::Arena)
        })
    }
}

pub(crate) fn check_arena_atomic(op: AtomicOp, fetch: bool) -> Step<()> {
    // x86 has no single instruction for these, and the JIT's loop cannot be left when the page is missing.
    if fetch && matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor) {
        return reject(
            Reason::BadInstruction,
            "atomic and, or and xor that give the old value are not allowed in arenas",
        );
    }
    Ok(())
}
