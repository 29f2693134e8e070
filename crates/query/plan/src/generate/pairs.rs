//! Beginnings of pairs, stored until their ends.
//!
//! ```text
//!   any pair        beginning: update            end: look up, delete
//!   a system call   beginning: look up, write    end: look up, clear the mark       the thread ends: delete
//! ```
//!
//! A system call begins and ends in its thread, which has one at a time. So its entry stays, and its place is written again,
//! which takes less than a half of what new entries do. Its last word is not 0 between a beginning and its end.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Size, Source as Operand};
use kiln_program::{MapId, Node, Object};

use super::code::{Code, Label, Odds};
use super::failure::Failure;
use super::layout::Record;
use super::slots::{clear_gaps, copy_slot};
use super::writing::{Maps, Writing};
use crate::table::Scan;

/// The program of [`super::layout::THREAD_ENDS`]: deletes the entry of the running thread.
pub fn forget_thread(object: &mut Object, starts: MapId) -> Vec<Node> {
    let mut code = Code::new(object);
    code.call("get_current_pid_tgid");
    code.alu(AluOp::Lsh, Reg::R0, Operand::Imm(32));
    code.alu(AluOp::Rsh, Reg::R0, Operand::Imm(32));
    code.store(Size::B8, Reg::R10, -8, Operand::Reg(Reg::R0));
    code.delete(starts, -8);
    code.push(Insn::mov_imm(Reg::R0, 0));
    code.push(Insn::Exit);
    code.finish()
}

impl Writing<'_> {
    /// Stores the columns of the beginning.
    pub(super) fn remember(
        &self,
        code: &mut Code<'_>,
        maps: &Maps<'_>,
        starts: MapId,
        out: Label,
    ) -> Result<(), Failure> {
        let start = self.plan.start.as_ref().ok_or_else(|| Failure::NotHere("pairs".to_owned()))?;
        if self.plan.stays {
            let fresh = code.label();
            self.look_up(code, starts, fresh);
            code.mark(Odds::Seldom);
            self.write_start(code, start, (Reg::R0, 0))?;
            code.jump(out);
            code.bind(fresh);
        }
        let place = self.frame.group_value;
        clear_gaps(code, start, place);
        self.write_start(code, start, (Reg::R10, place))?;
        code.update(starts, self.frame.pair_key, place);
        code.branch(JumpOp::Eq, Reg::R0, Operand::Imm(0), out);
        self.count(code, maps, 1);
        Ok(())
    }

    /// Copies the columns of the beginning to its place, and marks it.
    fn write_start(&self, code: &mut Code<'_>, start: &Record, (base, place): (Reg, i16)) -> Result<(), Failure> {
        for slot in &start.slots {
            let from = self.frame.record.slot(slot.column).ok_or_else(|| Failure::NotHere("a column".to_owned()))?;
            let from = self.frame.start() + from.offset as i16;
            copy_slot(code, slot, (Reg::R10, from), (base, place + slot.offset as i16));
        }
        if self.plan.stays || start.bytes == 0 {
            code.store(Size::B8, base, place + start.bytes as i16, Operand::Imm(1));
        }
        Ok(())
    }

    /// R0 is the address of the stored beginning with the pair's key.
    fn look_up(&self, code: &mut Code<'_>, starts: MapId, none: Label) {
        code.look_up(starts, self.frame.pair_key);
        code.branch(JumpOp::Eq, Reg::R0, Operand::Imm(0), none);
    }

    /// Exits unless a beginning is stored; loads it and forgets it.
    pub(super) fn find_beginning(&self, code: &mut Code<'_>, starts: MapId, out: Label) -> Result<(), Failure> {
        let start = self.plan.start.as_ref().ok_or_else(|| Failure::NotHere("pairs".to_owned()))?;
        self.look_up(code, starts, out);
        let mark = start.bytes as i16;
        if self.plan.stays {
            code.mark(Odds::Seldom);
            code.copy(Reg::R8, Reg::R0);
            code.load(Size::B8, false, Reg::R0, Reg::R8, mark);
            code.branch(JumpOp::Eq, Reg::R0, Operand::Imm(0), out);
        }
        if !self.plan.conditions[0].is_empty() {
            code.mark(Odds::Unwanted);
        }
        if !self.plan.stays {
            code.copy(Reg::R8, Reg::R0);
        }
        for slot in &start.slots {
            let to = self.frame.record.slot(slot.column).ok_or_else(|| Failure::NotHere("a column".to_owned()))?;
            let to = (Reg::R10, self.frame.start() + to.offset as i16);
            copy_slot(code, slot, (Reg::R8, slot.offset as i16), to);
        }
        if self.plan.stays {
            code.store(Size::B8, Reg::R8, mark, Operand::Imm(0));
        } else {
            code.delete(starts, self.frame.pair_key);
        }
        Ok(())
    }

    /// Deletes the stored beginning with this key.
    pub(super) fn forget(&self, code: &mut Code<'_>, starts: MapId) {
        if let Scan::Pair { endless: true, .. } = self.query.table.scan {
            code.delete(starts, self.frame.pair_key);
        }
    }
}
