//! Copies bytes in another order (fields exchanged, rotated or joined) with the widest accesses.
//!
//! ```text
//!   w2 = *(u16 *)(r6 + 0)                       r2 = *(u64 *)(r6 + 0)          d0 d1 d2 d3 d4 d5 s0 s1
//!   w3 = *(u16 *)(r6 + 6)                       r3 = *(u64 *)(r6 + 4)          d4 d5 s0 s1 s2 s3 s4 s5
//!   ... (two bytes at a time)          -->      r3 >>= 16                      s0 s1 s2 s3 s4 s5 0  0
//!   *(u16 *)(r6 + 10) = w3                      *(u64 *)(r6 + 0) = r3
//!   *(u16 *)(r6 + 4) = w2                       *(u32 *)(r6 + 6) = r2          d0 d1 d2 d3
//!                                               r2 >>= 32
//!                                               *(u16 *)(r6 + 10) = r2         d4 d5
//! ```
//!
//! The bytes that are written fall into [`Piece`]s: bytes side by side that come from bytes side by side. All pieces are
//! loaded before the first is stored, so their order does not matter. A piece is one load where a load covers it, shifted
//! where that begins earlier, and otherwise put together of several. A piece whose length is no access's size is stored
//! whole if later pieces write over what is too much, and else in parts, with shifts between them.

use kiln_isa::{AluOp, Insn, Reg, Size, Source, Width};
use kiln_program::{Node, Reference};

use crate::rules::code::memory::{Copied, Origin, copy_runs};
use crate::windows::region::Region;
use crate::windows::trace::{Root, Trace};

/// Bytes of the widest access.
const WIDEST: i64 = 8;

/// At the last of several stores that write copied bytes: fewer and wider ones.
pub fn exchanged_fields(region: &Region<'_>, trace: &Trace, at: usize) -> Vec<Vec<Node>> {
    let copied = copy_runs(region, at).into_iter().filter_map(|run| Copied::read(region, trace, run));
    copied.filter_map(|copied| Permutation::new(region, trace, &copied)?.written()).collect()
}

/// Bytes side by side that come from bytes side by side.
#[derive(Clone, Copy)]
struct Piece {
    /// Where they go.
    to: (Root, i64),
    /// Where they come from.
    from: (Root, i64),
    bytes: i64,
}

/// The code for one run of copies.
struct Permutation<'a> {
    region: &'a Region<'a>,
    trace: &'a Trace,
    copied: &'a Copied,
    pieces: Vec<Piece>,
    made: Vec<Insn>,
}

impl<'a> Permutation<'a> {
    /// Bytes that are only copied, with some piece that is not a single access. Others are copied in blocks.
    fn new(region: &'a Region<'a>, trace: &'a Trace, copied: &'a Copied) -> Option<Permutation<'a>> {
        let mut pieces: Vec<Piece> = Vec::new();
        for ((_, offset), (to, from)) in &copied.bytes {
            let Origin::Memory(root, source) = *from else { return None };
            match pieces.last_mut() {
                Some(last)
                    if last.bytes < WIDEST
                        && last.to == (*to, offset - last.bytes)
                        && last.from == (root, source - last.bytes) =>
                {
                    last.bytes += 1;
                }
                _ => pieces.push(Piece { to: (*to, *offset), from: (root, source), bytes: 1 }),
            }
        }
        let odd = pieces.iter().any(|piece| size(piece.bytes).is_none());
        odd.then_some(Permutation { region, trace, copied, pieces, made: Vec::new() })
    }

    /// The run of instructions with the copies replaced, if that makes it shorter.
    fn written(mut self) -> Option<Vec<Node>> {
        let mut free = self.copied.free.iter().copied();
        let pieces: Vec<(Piece, Reg)> = self.pieces.clone().into_iter().zip(&mut free).collect();
        if pieces.len() < self.pieces.len() {
            return None;
        }
        let spare = free.next();
        for (piece, reg) in &pieces {
            self.load(piece, *reg, spare)?;
        }
        for (index, (piece, reg)) in pieces.iter().enumerate() {
            self.store(piece, *reg, &pieces[index + 1..])?;
        }
        let old = &self.region.nodes[self.copied.run.clone()];
        if self.made.len() >= old.len() {
            return None;
        }
        // Each takes the place of a similar one, if there is one, so that it keeps its source line.
        let mut spare: Vec<&Node> = old.iter().collect();
        let mut nodes = self.region.nodes[..self.copied.run.start].to_vec();
        for insn in self.made {
            let alike = |node: &&Node| std::mem::discriminant(&node.insn) == std::mem::discriminant(&insn);
            let like = spare.iter().position(alike).unwrap_or(0);
            nodes.push(Node { insn, reference: Reference::None, ..spare.remove(like).clone() });
        }
        nodes.extend_from_slice(&self.region.nodes[self.copied.run.end..]);
        Some(nodes)
    }

    /// Puts a piece into the lowest bytes of a register; what is above them does not matter.
    fn load(&mut self, piece: &Piece, reg: Reg, spare: Option<Reg>) -> Option<()> {
        let (root, start) = piece.from;
        let end = start + piece.bytes;
        // One load that begins at the piece, or before it.
        for size in Size::ALL.into_iter().filter(|size| bytes(*size) >= piece.bytes) {
            let first = (end - bytes(size)..=start).rev().find(|first| self.may_load(root, *first, size));
            if let Some(first) = first {
                self.push_load(size, reg, (root, first))?;
                self.shift(AluOp::Rsh, reg, start - first);
                return Some(());
            }
        }
        // Several, the last first, which is made room for below it.
        let mut parts: Vec<(i64, Size)> = Vec::new();
        let mut at = start;
        while at < end {
            let fits = |size: &Size| at + bytes(*size) <= end && self.may_load(root, at, *size);
            let size = Size::ALL.into_iter().rev().find(fits)?;
            parts.push((at, size));
            at += bytes(size);
        }
        let (first, size) = parts.pop()?;
        self.push_load(size, reg, (root, first))?;
        self.shift(AluOp::Lsh, reg, first - start);
        for (at, size) in parts {
            let spare = spare?;
            self.push_load(size, spare, (root, at))?;
            self.shift(AluOp::Lsh, spare, at - start);
            let src = Source::Reg(spare);
            self.made.push(Insn::Alu { op: AluOp::Or, width: Width::W64, dst: reg, src });
        }
        Some(())
    }

    /// Stores a piece from the lowest bytes of a register, which it may shift.
    fn store(&mut self, piece: &Piece, reg: Reg, later: &[(Piece, Reg)]) -> Option<()> {
        let (root, start) = piece.to;
        let written = |offset: i64| {
            let holds = |piece: &Piece| piece.to.0 == root && (piece.to.1..piece.to.1 + piece.bytes).contains(&offset);
            later.iter().any(|(piece, _)| holds(piece))
        };
        let whole = Size::ALL.into_iter().find(|size| bytes(*size) >= piece.bytes)?;
        if is_aligned(root, start, whole) && (start + piece.bytes..start + bytes(whole)).all(written) {
            return self.push_store(whole, (root, start), reg);
        }
        let mut done = 0;
        while done < piece.bytes {
            let fits = |size: &Size| done + bytes(*size) <= piece.bytes && is_aligned(root, start + done, *size);
            let size = Size::ALL.into_iter().rev().find(fits)?;
            self.push_store(size, (root, start + done), reg)?;
            done += bytes(size);
            if done < piece.bytes {
                self.shift(AluOp::Rsh, reg, bytes(size));
            }
        }
        Some(())
    }

    /// Whether the copies read all these bytes, and one access may.
    fn may_load(&self, root: Root, first: i64, size: Size) -> bool {
        let is_read = |offset: i64| {
            let holds =
                |piece: &Piece| piece.from.0 == root && (piece.from.1..piece.from.1 + piece.bytes).contains(&offset);
            self.pieces.iter().any(holds)
        };
        is_aligned(root, first, size) && (first..first + bytes(size)).all(is_read)
    }

    fn push_load(&mut self, size: Size, dst: Reg, (root, offset): (Root, i64)) -> Option<()> {
        let address = self.trace.address(self.copied.run.start, root, offset)?;
        self.made.push(Insn::Load { size, signed: false, dst, address });
        Some(())
    }

    fn push_store(&mut self, size: Size, (root, offset): (Root, i64), reg: Reg) -> Option<()> {
        let address = self.trace.address(self.copied.run.start, root, offset)?;
        self.made.push(Insn::Store { size, address, src: Source::Reg(reg) });
        Some(())
    }

    fn shift(&mut self, op: AluOp, dst: Reg, by_bytes: i64) {
        if by_bytes != 0 {
            let src = Source::Imm(8 * by_bytes as i32);
            self.made.push(Insn::Alu { op, width: Width::W64, dst, src });
        }
    }
}

fn bytes(size: Size) -> i64 {
    i64::from(size.bytes())
}

fn size(bytes: i64) -> Option<Size> {
    Size::ALL.into_iter().find(|size| i64::from(size.bytes()) == bytes)
}

/// Whether the verifier accepts an access: on the stack it must be aligned.
fn is_aligned(root: Root, offset: i64, size: Size) -> bool {
    root != Root::Stack || offset.rem_euclid(bytes(size)) == 0
}
