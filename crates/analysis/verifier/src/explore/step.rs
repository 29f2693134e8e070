//! One instruction, sent to the room that carries it out.

use kiln_isa::{CallTarget, Insn};

use crate::error::Step;
use crate::path::{Next, Path};
use crate::state::Kind;

impl Path<'_> {
    /// Carries out the current instruction: transfer and checks, by its kind.
    pub(crate) fn step(&mut self) -> Step<Next> {
        let op = self.code.op(self.at);
        let next = Next::At(self.at + 1);
        match op.node.insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src)?,
            Insn::Neg { width, dst } => self.negate(width, dst)?,
            Insn::MoveSignExtend { width, from, dst, src } => self.sign_extend(width, from, dst, src)?,
            Insn::Endian { order, size, dst } => self.change_order(order, size, dst)?,
            Insn::LoadImm64 { dst, imm } => self.load_constant(dst, imm)?,
            Insn::Load { size, signed, dst, address } => self.load(size, signed, dst, address)?,
            Insn::LoadAcquire { size, dst, address } => self.load_acquire(size, dst, address)?,
            Insn::Store { size, address, src } => self.store(size, address, src)?,
            Insn::StoreRelease { size, address, src } => self.store_release(size, address, src)?,
            Insn::Atomic { op, fetch, size, address, src } => self.atomic(op, fetch, size, address, src)?,
            Insn::AddressSpaceCast { dst, src, to, from } => self.cast_address(dst, src, to, from)?,
            Insn::LoadPacket { mode, .. } => {
                return self.load_packet(mode);
            }
            Insn::Jump { .. } => {
                return Ok(Next::At(op.target));
            }
            Insn::JumpIndirect { dst } => {
                return self.jump_indirect(dst);
            }
            Insn::Branch { op, width, dst, src, .. } => {
                return self.branch(op, width, dst, src);
            }
            Insn::MayGoto { .. } => {
                return self.may_goto();
            }
            Insn::Call(target) => {
                self.note_arguments(target);
                return match target {
                    CallTarget::Helper(number) => self.call_helper(number),
                    CallTarget::Subprogram(_) => self.call_function(),
                    CallTarget::Kfunc { .. } => self.call_kfunc(),
                };
            }
            Insn::Exit => {
                return self.exit();
            }
        }
        Ok(next)
    }
}

impl Path<'_> {
    /// Notes whether a call of something outside of the program gets the context.
    fn note_arguments(&mut self, target: CallTarget) {
        let is_own = matches!(target, CallTarget::Subprogram(_));
        let arguments = &self.state.frame().registers[1..=5];
        if !is_own && arguments.iter().any(|register| register.kind() == Kind::Context) {
            self.findings.noted.context_bytes = None;
        }
    }
}

/// Whether the kernel counts the instruction as a jump, which says how soon states are kept again.
pub(crate) fn is_jump(insn: &Insn) -> bool {
    insn.is_control() || matches!(insn, Insn::Call(_))
}
