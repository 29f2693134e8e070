//! One function while it is made cancellable: what the parts of the transform share.

use std::collections::BTreeMap;

use kiln_isa::{Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{InsnId, LineId, MapId, Node, Reference};
use kiln_verifier::Held;

use crate::error::Error;
use crate::frame::{free_register, load, store};
use crate::rebuild::Edit;

pub(super) const DEADLINE: i16 = 8;
pub(super) const CANCELLED: i16 = 16;
pub(super) const BLOCK_SLOTS: usize = 3;

/// The two words of [`Block::Through`]: the author's argument, and the block's address.
pub(super) const PASSED: i16 = 0;
pub(super) const PASSED_BLOCK: i16 = 8;

/// Registers that a call does not destroy.
const KEPT_BY_CALLS: [Reg; 4] = [Reg::R6, Reg::R7, Reg::R8, Reg::R9];

/// Where a function has the invocation's block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Block {
    /// In its own frame.
    Own,
    /// In its caller's, whose address comes in this register.
    From(Reg),
    /// In its own frame; the deadline comes in this register, one more argument of a global function.
    Given(Reg),
    /// In its own frame; its caller leaves the deadline in the CPU's word ([`super::lent`]), because all arguments are taken.
    Lent,
    /// In its caller's, or in that of what calls the helper that runs it: the register has the address of two words in the frame,
    /// the argument itself and the block's address.
    Through(Reg),
}

/// Where a register's value is while something else uses the register.
#[derive(Clone, Copy)]
pub(super) enum Kept {
    /// In another register.
    In(Reg),
    /// In the frame.
    At(i16),
}

impl Kept {
    pub(super) fn save(self, reg: Reg) -> Insn {
        match self {
            Kept::In(other) => Insn::mov(other, reg),
            Kept::At(slot) => store(Reg::R10, slot, reg),
        }
    }

    pub(super) fn restore(self, reg: Reg) -> Insn {
        match self {
            Kept::In(other) => Insn::mov(reg, other),
            Kept::At(slot) => load(reg, Reg::R10, slot),
        }
    }
}

/// One function being made cancellable.
pub(super) struct Canceller<'e, 'a> {
    pub(super) edit: &'e mut Edit<'a>,
    /// Whether the block is in the own frame.
    pub(super) own: bool,
    /// The block's place in the own frame, or where the own frame keeps its address.
    pub(super) at: i16,
    /// Landing pads by what they release.
    pub(super) pads: Vec<(Held, InsnId)>,
    /// Where the addresses of kernel locks are stored, by the calls that take them.
    pub(super) locks: BTreeMap<InsnId, i16>,
    pub(super) shared: Option<MapId>,
    /// Whether all cancelled runs are counted, which [`Options::detach_after`] needs.
    pub(super) counts_runs: bool,
    pub(super) cancelled_return: i32,
}

/// Registers for a cancellation point's own use: free ones first, then others, which are saved on the stack.
pub(super) struct Scratch {
    /// Registers that are in use.
    busy: RegSet,
    /// Registers that cannot be saved in between either, and those that were taken.
    taken: RegSet,
    /// Those that are not free, and where they are saved.
    pub(super) borrowed: Vec<(Reg, Kept)>,
}

impl Scratch {
    pub(super) fn new(live: RegSet, needed: RegSet) -> Scratch {
        let frame = RegSet::of(&[Reg::R10]);
        Scratch { busy: live.union(frame), taken: needed.union(frame), borrowed: Vec::new() }
    }

    /// One more register.
    pub(super) fn take(&mut self, edit: &mut Edit<'_>, header: InsnId) -> Result<Reg, Error> {
        let none = || edit.unsupported(Some(header), "no register is free at a loop");
        let free = free_register(self.busy.union(self.taken));
        let reg = free.or_else(|| free_register(self.taken)).ok_or_else(none)?;
        if free.is_none() {
            self.borrowed.push((reg, Kept::At(edit.shared_slot(header)?)));
        }
        self.taken.insert(reg);
        Ok(reg)
    }

    /// A place for a register's value during a call.
    pub(super) fn keep(&mut self, edit: &mut Edit<'_>, header: InsnId) -> Result<Kept, Error> {
        match KEPT_BY_CALLS.into_iter().find(|reg| !self.busy.union(self.taken).contains(*reg)) {
            Some(reg) => {
                self.taken.insert(reg);
                Ok(Kept::In(reg))
            }
            None => Ok(Kept::At(edit.shared_slot(header)?)),
        }
    }
}

impl Canceller<'_, '_> {
    pub(super) fn branch(&mut self, op: JumpOp, dst: Reg, src: Source, target: InsnId, line: Option<LineId>) -> Node {
        self.edit.node(Insn::Branch { op, width: Width::W64, dst, src, offset: 0 }, Reference::Branch(target), line)
    }

    pub(super) fn jump(&mut self, target: InsnId, line: Option<LineId>) -> Node {
        self.edit.node(Insn::Jump { offset: 0, long: false }, Reference::Branch(target), line)
    }
}
