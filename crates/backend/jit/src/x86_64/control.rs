//! Branches, calls, tail calls, classic packet loads.

use kiln_isa::{Insn, JumpOp, PacketMode, Reg, Size, Source, Width};
use kiln_platform::helper_id::{MAP_LOOKUP_ELEM, TAIL_CALL};
use kiln_program::{Node, Reference};

use super::assembler::Assembler;
use super::function::{ColdKind, FunctionCompiler};
use super::operand::{Arithmetic, Condition, Gpr, Memory};
use super::registers::{BUDGET, RUNTIME, gpr, runtime_field};
use crate::address::Address;
use crate::shared::Assembly as _;
use crate::walk::{Frame, LowerControl, call_function, dispatch};
use crate::{Error, Runtime};

/// Sets the flags by a comparison with a number; those of `test` with itself are those of a comparison with zero.
pub(super) fn compare_imm(code: &mut Assembler, width: Width, dst: Gpr, imm: i32) {
    match imm {
        0 => code.test(width, dst, dst),
        imm => code.arithmetic_imm(Arithmetic::Cmp, width, dst, imm),
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

    fn exit(&mut self, at: usize) {
        self.leave_function(at);
    }

    fn call_subprogram(&mut self, at: usize) -> Result<(), Error> {
        call_function(self, at)
    }

    fn branch(&mut self, at: usize, op: JumpOp, width: Width, dst: Reg, src: Source) -> Result<(), Error> {
        let target = self.target(at)?;
        if self.falls_through(at) {
            return Ok(());
        }
        self.compare(op, width, gpr(dst), src);
        self.code().jump_if(Condition::of(op), target);
        Ok(())
    }

    fn may_goto(&mut self, at: usize) -> Result<(), Error> {
        // `loop_cost` has asked.
        if self.shared.plan.refills {
            return Ok(());
        }
        let target = self.target(at)?;
        let displacement = self.plan.may_goto_slot.ok_or(Error::Malformed("no counter for may_goto"))?;
        let slot = Memory::at(Gpr::RBP, displacement);
        self.code().arithmetic_imm(Arithmetic::Cmp, Width::W32, slot, 0);
        self.code().jump_if(Condition::EQUAL, target);
        self.code().arithmetic_imm(Arithmetic::Sub, Width::W32, slot, 1);
        Ok(())
    }

    fn call_native(&mut self, at: usize, address: Address, may_stop: bool) -> Result<(), Error> {
        let address = self.resolved(at, address)?;
        let budget = self.budget();
        let code = self.code();
        if budget {
            code.store(Size::B8, runtime_field(Runtime::BUDGET), BUDGET);
        }
        code.mov(Width::W64, Gpr::R9, RUNTIME);
        code.constant(Gpr::RAX, address);
        code.call_register(Gpr::RAX);
        if budget {
            code.load(Size::B8, BUDGET, runtime_field(Runtime::BUDGET));
            if may_stop {
                self.leave_when_spent();
            }
        }
        Ok(())
    }

    fn tail_call(&mut self, at: usize) -> Result<(), Error> {
        let failed = self.code().label();
        self.code().store(Size::B8, runtime_field(Runtime::TAIL_CONTEXT), gpr(Reg::R1));
        self.call_native(at, Address::Helper(TAIL_CALL), true)?;
        self.code().test(Width::W64, Gpr::RAX, Gpr::RAX);
        self.code().jump_if(Condition::EQUAL, failed);
        self.code().load(Size::B8, gpr(Reg::R1), runtime_field(Runtime::TAIL_CONTEXT));
        self.code().mov(Width::W64, Gpr::RSI, RUNTIME);
        self.tear_down();
        self.code().jump_register(Gpr::RAX);
        self.code().bind(failed);
        Ok(())
    }

    fn load_packet(&mut self, at: usize, mode: PacketMode, size: Size, offset: i32) -> Result<(), Error> {
        let index = gpr(Reg::R2);
        match mode {
            PacketMode::Absolute => self.code().constant(index, i64::from(offset) as u64),
            PacketMode::Indirect(reg) => {
                let place = match self.hides(offset) {
                    true => Memory { index: Some((self.hide(Width::W32, offset), 1)), ..Memory::at(gpr(reg), 0) },
                    false => Memory::at(gpr(reg), offset),
                };
                self.code().lea(Width::W32, index, place);
                self.code().sign_extend(Size::B4, Width::W64, index, index);
            }
        }
        self.code().mov(Width::W64, gpr(Reg::R1), gpr(Reg::R6));
        self.code().constant(gpr(Reg::R3), size.bytes().into());
        self.call_native(at, Address::PacketLoad, false)?;
        let outside = self.code().label();
        self.code().test(Width::W64, Gpr::RAX, Gpr::RAX);
        self.code().jump_if(Condition::SIGN, outside);
        self.rare(outside, None, ColdKind::Zero(Gpr::RAX));
        Ok(())
    }
}

impl FunctionCompiler<'_, '_> {
    /// A branch over a jump: the opposite branch to where the jump goes. `at` is the branch.
    pub(super) fn inverted_branch(&mut self, at: usize) -> Result<bool, Error> {
        let Insn::Branch { op, width, dst, src, .. } = self.nodes[at].insn else { return Ok(false) };
        let over = self.targets.leads_to(at, at + 2);
        let jump = self.nodes.get(at + 1).is_some_and(|node| matches!(node.insn, Insn::Jump { .. }));
        if !over || !jump || self.targets.is_target(at + 1) || self.falls_through(at + 1) {
            return Ok(false);
        }
        let target = self.target(at + 1)?;
        self.compare(op, width, gpr(dst), src);
        self.code().jump_if(Condition::of(op).opposite(), target);
        Ok(true)
    }

    pub(super) fn compare(&mut self, op: JumpOp, width: Width, dst: Gpr, src: Source) {
        match (op, src) {
            (op, Source::Imm(imm)) if self.hides(imm) => {
                let hidden = self.hide(width, imm);
                match op {
                    JumpOp::Set => self.code().test(width, dst, hidden),
                    _ => self.code().arithmetic(Arithmetic::Cmp, width, dst, hidden),
                }
            }
            (JumpOp::Set, Source::Reg(src)) => self.code().test(width, dst, gpr(src)),
            (JumpOp::Set, Source::Imm(imm)) => self.code().test_imm(width, dst, imm),
            (_, Source::Reg(src)) => self.code().arithmetic(Arithmetic::Cmp, width, dst, gpr(src)),
            (_, Source::Imm(imm)) => compare_imm(self.code(), width, dst, imm),
        }
    }

    /// `r1 = map ll ; call bpf_map_lookup_elem` of a plain array: an index check and an addition.
    pub(super) fn array_look_up(&mut self, run: &[Node]) -> Option<usize> {
        let (first, second) = (run.first()?, run.get(1)?);
        let (Insn::LoadImm64 { dst: Reg::R1, .. }, Reference::Map(map)) = (first.insn, first.reference) else {
            return None;
        };
        if second.helper() != Some(MAP_LOOKUP_ELEM) {
            return None;
        }
        let array = self.shared.symbols.array(map)?;
        let stride = i32::try_from(array.stride_bytes).ok()?;
        // The comparison below is with a sign-extended immediate.
        let entries = i32::try_from(array.entries).ok()?;
        let (absent, done) = (self.code().label(), self.code().label());
        let (index, base) = (gpr(Reg::R0), gpr(Reg::R1));
        self.code().load(Size::B4, index, Memory::at(gpr(Reg::R2), 0));
        self.code().arithmetic_imm(Arithmetic::Cmp, Width::W32, index, entries);
        self.code().jump_if(Condition::ABOVE_EQUAL, absent);
        self.code().constant(base, array.first);
        if let 1 | 2 | 4 | 8 = stride {
            let place = Memory { base, index: Some((index, stride as u8)), displacement: 0 };
            self.code().lea(Width::W64, index, place);
        } else {
            self.multiply_imm(Width::W64, index, index, stride);
            self.code().arithmetic(Arithmetic::Add, Width::W64, index, base);
        }
        self.code().bind(done);
        self.rare(absent, Some(done), ColdKind::Zero(index));
        Some(2)
    }
}
