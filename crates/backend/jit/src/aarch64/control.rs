//! Branches, calls, classic packet loads.

use kiln_isa::{CallTarget, Insn, JumpOp, PacketMode, Reg, Size, Source, Width};
use kiln_platform::helper_id::{MAP_LOOKUP_ELEM, TAIL_CALL};
use kiln_program::Reference;

use super::assembler::{Assembler, Condition, Gpr, Label, Op};
use super::function::FunctionCompiler;
use super::registers::{BUDGET, RESULT, RUNTIME, SCRATCH, SIXTH, gpr};
use crate::immediate::extended;
use crate::{Error, Runtime};

/// The condition under which a compared pair branches.
pub(super) fn condition(op: JumpOp) -> Condition {
    match op {
        JumpOp::Eq => Condition::EQUAL,
        JumpOp::Ne | JumpOp::Set => Condition::NOT_EQUAL,
        JumpOp::Gt => Condition::ABOVE,
        JumpOp::Ge => Condition::ABOVE_EQUAL,
        JumpOp::Lt => Condition::BELOW,
        JumpOp::Le => Condition::BELOW_EQUAL,
        JumpOp::Sgt => Condition::GREATER,
        JumpOp::Sge => Condition::GREATER_EQUAL,
        JumpOp::Slt => Condition::LESS,
        JumpOp::Sle => Condition::LESS_EQUAL,
    }
}

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

impl FunctionCompiler<'_, '_> {
    pub(super) fn branch(&mut self, at: usize, op: JumpOp, width: Width, dst: Reg, src: Source) -> Result<(), Error> {
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
        self.code().jump_if(condition(op), target);
        Ok(())
    }

    /// Jumps to the target whose address the register holds: found among those of the function by halving them. A number that
    /// is none of them, which no program that was verified has, ends the function with 0.
    pub(super) fn jump_indirect(&mut self, dst: Reg) {
        let targets: Vec<(u32, Label)> =
            self.targets.indirect.iter().map(|(address, at)| (*address, self.labels[*at])).collect();
        let outside = self.code().label();
        self.dispatch(dst, &targets, outside);
        self.code().bind(outside);
        self.code().constant(gpr(Reg::R0), 0);
        let leave = self.leave();
        self.code().jump(leave);
    }

    fn dispatch(&mut self, dst: Reg, targets: &[(u32, Label)], outside: Label) {
        let compare = |code: &mut Assembler, address: u32| {
            code.constant(SCRATCH[0], address.into());
            code.op(Op::Subs, Width::W32, Gpr::ZERO, gpr(dst), SCRATCH[0]);
        };
        match targets {
            [] => self.code().jump(outside),
            [(address, target)] => {
                compare(self.code(), *address);
                self.code().jump_if(Condition::EQUAL, *target);
                self.code().jump(outside);
            }
            _ => {
                let (lower, upper) = targets.split_at(targets.len() / 2);
                let above = self.code().label();
                compare(self.code(), upper[0].0);
                self.code().jump_if(Condition::ABOVE_EQUAL, above);
                self.dispatch(dst, lower, outside);
                self.code().bind(above);
                self.dispatch(dst, upper, outside);
            }
        }
    }

    pub(super) fn may_goto(&mut self, at: usize) -> Result<(), Error> {
        let target = self.target(at)?;
        let offset = self.plan.may_goto_slot.ok_or(Error::Malformed("no counter for may_goto"))?;
        let (frame, [scratch, count, ..]) = (gpr(Reg::R10), SCRATCH);
        self.code().load(Size::B8, count, frame, offset, scratch);
        self.code().jump_if_zero(Width::W64, count, true, target);
        self.code().sub_imm(Width::W64, count, count, 1);
        self.code().store(Size::B8, count, frame, offset, scratch);
        Ok(())
    }

    pub(super) fn call(&mut self, at: usize, target: CallTarget) -> Result<(), Error> {
        match target {
            CallTarget::Subprogram(_) => self.call_subprogram(at),
            CallTarget::Helper(TAIL_CALL) => self.tail_call(at),
            CallTarget::Helper(helper) => match self.shared.symbols.helper_address(helper) {
                Some(address) => {
                    let may_stop = self.shared.symbols.helper_may_stop(helper);
                    self.call_native(address, may_stop);
                    Ok(())
                }
                None => self.unresolved(at, format!("helper {helper}")),
            },
            CallTarget::Kfunc { .. } => {
                let Reference::Extern(symbol) = self.nodes[at].reference else {
                    return self.unsupported(at, "kfuncs by number");
                };
                match self.shared.symbols.extern_address(symbol) {
                    Some(address) => {
                        self.call_native(address, true);
                        Ok(())
                    }
                    None => {
                        let known = self.shared.object.externs.get(symbol.index());
                        let name = known.map_or_else(String::new, |symbol| symbol.name.clone());
                        self.unresolved(at, format!("kfunc {name}"))
                    }
                }
            }
        }
    }

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

    fn call_subprogram(&mut self, at: usize) -> Result<(), Error> {
        let callee = self.nodes[at].callee().ok_or(Error::Malformed("a call without a callee"))?;
        let label = self.shared.function_label(callee)?;
        self.code().call(label);
        if !self.budget() {
            return Ok(());
        }
        let (cost, reload) = {
            let plan = self.shared.plan.function(callee);
            (plan.cost, plan.may_tail_call)
        };
        if reload {
            self.code().load(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
        }
        if self.shared.options.metered {
            self.spend(cost as u64);
        } else {
            self.code().subs_imm(Width::W64, Gpr::ZERO, BUDGET, 0);
            self.leave_if(Condition::MINUS);
        }
        Ok(())
    }

    /// Calls a [`crate::HelperEntry`]: arguments are in place, the budget travels in memory.
    fn call_native(&mut self, address: u64, may_stop: bool) {
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
                code.subs_imm(Width::W64, Gpr::ZERO, BUDGET, 0);
                self.leave_if(Condition::MINUS);
            }
        }
    }

    /// The helper returns the target's entry, or 0 on failure. On success this frame is removed, and the target runs in
    /// its place.
    fn tail_call(&mut self, at: usize) -> Result<(), Error> {
        let Some(address) = self.shared.symbols.helper_address(TAIL_CALL) else {
            return self.unresolved(at, format!("helper {TAIL_CALL}"));
        };
        let failed = self.code().label();
        let target = SCRATCH[1];
        self.code().store(Size::B8, gpr(Reg::R1), RUNTIME, Runtime::TAIL_CONTEXT, SCRATCH[0]);
        self.call_native(address, true);
        self.code().jump_if_zero(Width::W64, gpr(Reg::R0), true, failed);
        self.code().mov(Width::W64, target, gpr(Reg::R0));
        self.code().load(Size::B8, gpr(Reg::R1), RUNTIME, Runtime::TAIL_CONTEXT, SCRATCH[0]);
        self.code().mov(Width::W64, Gpr(1), RUNTIME);
        self.tear_down();
        self.code().jump_register(target);
        self.code().bind(failed);
        Ok(())
    }

    /// Calls the packet load routine; if it is out of bounds, the function exits with R0 = 0.
    pub(super) fn load_packet(&mut self, at: usize, mode: PacketMode, size: Size, offset: i32) -> Result<(), Error> {
        let Some(address) = self.shared.symbols.packet_load_address() else {
            return self.unresolved(at, "packet loads");
        };
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
        self.call_native(address, false);
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
