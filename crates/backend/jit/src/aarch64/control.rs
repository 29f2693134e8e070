//! Branches, calls, classic packet loads.

use kiln_isa::{Insn, JumpOp, PacketMode, Reg, Size, Source, Width};
use kiln_platform::helper_id::{MAP_LOOKUP_ELEM, TAIL_CALL};
use kiln_program::Reference;

use super::assembler::{Assembler, Condition, Gpr, Op};
use super::function::FunctionCompiler;
use super::registers::{BUDGET, RESULT, RUNTIME, SCRATCH, SIXTH, gpr};
use crate::address::Address;
use crate::immediate::extended;
use crate::shared::Assembly as _;
use crate::walk::{Frame, LowerControl, call_function, dispatch};
use crate::{Error, Runtime};

/// Sets the flags by a comparison with a number.
pub(super) fn compare_imm(code: &mut Assembler, width: Width, first: Gpr, imm: i32) {
    match imm {
        0..4096 => code.subs_imm(width, Gpr::ZERO, first, imm as u32),
        -4095..0 => code.compare_negative(width, first, -imm as u32),
        imm => {
            code.constant(SCRATCH[0], extended(width, imm));
            code.op(Op::Subs, width, Gpr::ZERO, first, SCRATCH[0]);
        }
    }
}

/// Sets the flags by a conjunction with a number.
pub(super) fn test_imm(code: &mut Assembler, width: Width, first: Gpr, imm: i32) {
    let mask = extended(width, imm);
    if !code.logical_imm(Op::Ands, width, Gpr::ZERO, first, mask) {
        code.constant(SCRATCH[0], mask);
        code.op(Op::Ands, width, Gpr::ZERO, first, SCRATCH[0]);
    }
}

impl LowerControl for FunctionCompiler<'_, '_> {
    fn jump(&mut self, at: usize) -> Result<(), Error> {
        let target = self.target(at)?;
        if !self.falls_through(at) {
            self.code().jump(target);
        }
        Ok(())
    }

    fn jump_indirect(&mut self, dst: Reg) {
        dispatch(self, dst);
    }

    fn call_subprogram(&mut self, at: usize) -> Result<(), Error> {
        call_function(self, at)
    }

    fn exit(&mut self, at: usize) {
        if at + 1 < self.nodes.len() {
            let leave = self.leave();
            self.code().jump(leave);
        }
    }

    fn branch(&mut self, at: usize, op: JumpOp, width: Width, dst: Reg, src: Source) -> Result<(), Error> {
        let target = self.target(at)?;
        if self.falls_through(at) {
            return Ok(());
        }
        let first = gpr(dst);
        match (op, src) {
            (JumpOp::Eq | JumpOp::Ne, Source::Imm(0)) => {
                self.code().jump_if_zero(width, first, op == JumpOp::Eq, target);
                return Ok(());
            }
            (_, Source::Imm(imm)) if self.hides(imm) => {
                self.code().constant(SCRATCH[0], extended(width, imm));
                let machine = if op == JumpOp::Set { Op::Ands } else { Op::Subs };
                self.code().op(machine, width, Gpr::ZERO, first, SCRATCH[0]);
            }
            (JumpOp::Set, Source::Imm(imm)) => test_imm(self.code(), width, first, imm),
            (JumpOp::Set, Source::Reg(src)) => self.code().op(Op::Ands, width, Gpr::ZERO, first, gpr(src)),
            (_, Source::Reg(src)) => self.code().op(Op::Subs, width, Gpr::ZERO, first, gpr(src)),
            (_, Source::Imm(imm)) => compare_imm(self.code(), width, first, imm),
        }
        self.code().jump_if(Condition::of(op), target);
        Ok(())
    }

    fn may_goto(&mut self, at: usize) -> Result<(), Error> {
        let target = self.target(at)?;
        let offset = self.plan.may_goto_slot.ok_or(Error::Malformed("no counter for may_goto"))?;
        let (frame, [scratch, count, ..]) = (gpr(Reg::R10), SCRATCH);
        self.code().load(Size::B8, count, frame, offset, scratch);
        self.code().jump_if_zero(Width::W64, count, true, target);
        self.code().sub_imm(Width::W64, count, count, 1);
        self.code().store(Size::B8, count, frame, offset, scratch);
        Ok(())
    }

    fn call_native(&mut self, at: usize, address: Address, may_stop: bool) -> Result<(), Error> {
        let address = self.resolved(at, address)?;
        let budget = self.budget();
        let code = self.code();
        if budget {
            code.store(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
        }
        code.mov(Width::W64, SIXTH, RUNTIME);
        code.constant(SCRATCH[0], address);
        code.call_register(SCRATCH[0]);
        code.mov(Width::W64, gpr(Reg::R0), RESULT);
        if budget {
            code.load(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
            if may_stop {
                self.leave_when_spent();
            }
        }
        Ok(())
    }

    fn tail_call(&mut self, at: usize) -> Result<(), Error> {
        let failed = self.code().label();
        let target = SCRATCH[1];
        self.code().store(Size::B8, gpr(Reg::R1), RUNTIME, Runtime::TAIL_CONTEXT, SCRATCH[0]);
        self.call_native(at, Address::Helper(TAIL_CALL), true)?;
        self.code().jump_if_zero(Width::W64, gpr(Reg::R0), true, failed);
        self.code().mov(Width::W64, target, gpr(Reg::R0));
        self.code().load(Size::B8, gpr(Reg::R1), RUNTIME, Runtime::TAIL_CONTEXT, SCRATCH[0]);
        self.code().mov(Width::W64, Gpr(1), RUNTIME);
        self.tear_down();
        self.code().jump_register(target);
        self.code().bind(failed);
        Ok(())
    }

    fn load_packet(&mut self, at: usize, mode: PacketMode, size: Size, offset: i32) -> Result<(), Error> {
        let index = gpr(Reg::R2);
        match mode {
            PacketMode::Absolute => self.code().constant(index, i64::from(offset) as u64),
            PacketMode::Indirect(reg) => {
                self.code().constant(SCRATCH[0], u64::from(offset as u32));
                self.code().op(Op::Add, Width::W32, index, gpr(reg), SCRATCH[0]);
                self.code().sign_extend(Size::B4, Width::W64, index, index);
            }
        }
        self.code().mov(Width::W64, gpr(Reg::R1), gpr(Reg::R6));
        self.code().constant(gpr(Reg::R3), size.bytes().into());
        self.call_native(at, Address::PacketLoad, false)?;
        // A value is at most 32 bits; -1 is out of bounds.
        let inside = self.code().label();
        self.code().subs_imm(Width::W64, Gpr::ZERO, gpr(Reg::R0), 0);
        self.code().jump_if(Condition::GREATER_EQUAL, inside);
        self.code().constant(gpr(Reg::R0), 0);
        let leave = self.leave();
        self.code().jump(leave);
        self.code().bind(inside);
        Ok(())
    }
}

impl FunctionCompiler<'_, '_> {
    /// A lookup in a plain array: the address of the value is computed in place. False where this is not one.
    pub(super) fn array_look_up(&mut self, at: usize) -> bool {
        let (first, Some(second)) = (&self.nodes[at], self.nodes.get(at + 1)) else { return false };
        let (Insn::LoadImm64 { dst: Reg::R1, .. }, Reference::Map(map)) = (first.insn, first.reference) else {
            return false;
        };
        if second.helper() != Some(MAP_LOOKUP_ELEM) || self.targets.is_target(at + 1) {
            return false;
        }
        let Some(array) = self.shared.symbols.array(map) else { return false };
        let (index, [value, step, ..]) = (gpr(Reg::R0), SCRATCH);
        let (absent, done) = (self.code().label(), self.code().label());
        self.code().load(Size::B4, index, gpr(Reg::R2), 0, value);
        self.code().constant(value, array.entries.into());
        self.code().op(Op::Subs, Width::W32, Gpr::ZERO, index, value);
        self.code().jump_if(Condition::ABOVE_EQUAL, absent);
        self.code().constant(value, array.first);
        self.code().constant(step, array.stride_bytes.into());
        self.code().multiply(Width::W64, index, index, step);
        self.code().op(Op::Add, Width::W64, index, index, value);
        self.code().jump(done);
        self.code().bind(absent);
        self.code().constant(index, 0);
        self.code().bind(done);
        true
    }
}
