//! The walk over a function's instructions: each becomes code, alone or as part of a region.

use kiln_isa::Insn;

use super::assembler::{Gpr, Op};
use super::function::FunctionCompiler;
use super::registers::gpr;
use crate::Error;

impl FunctionCompiler<'_, '_> {
    /// Compiles the function.
    ///
    /// # Errors
    /// Returns an error if an instruction has no code here, or if the runtime lacks an address that it names.
    pub(super) fn compile(mut self) -> Result<(), Error> {
        self.shared.begin_function(self.id)?;
        self.prologue();
        let mut at = 0;
        while at < self.nodes.len() {
            self.loop_header(at);
            self.shared.begin_insns(self.labels[at]);
            self.loop_cost(at);
            let covered = self.covered(at)?;
            self.shared.end_insns(&self.nodes[at..at + covered]);
            at += covered;
        }
        self.finish();
        Ok(())
    }

    /// Compiles what begins at `at`: a region, a lookup, or one instruction. Returns how many instructions it covers.
    fn covered(&mut self, at: usize) -> Result<usize, Error> {
        let regions = self.regions;
        if let Some(region) = regions.get(&at)
            && self.native(at, region)
        {
            return Ok(region.length);
        }
        if self.array_look_up(at) {
            return Ok(2);
        }
        self.instruction(at).map(|()| 1)
    }

    fn instruction(&mut self, at: usize) -> Result<(), Error> {
        match self.nodes[at].insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src),
            Insn::Neg { width, dst } => {
                let dst = gpr(dst);
                self.code().op(Op::Sub, width, dst, Gpr::ZERO, dst);
            }
            Insn::MoveSignExtend { width, from, dst, src } => {
                self.code().sign_extend(from, width, gpr(dst), gpr(src));
            }
            Insn::Endian { order, size, dst } => self.endian(order, size, dst),
            Insn::LoadImm64 { dst, imm } => self.load_imm64(at, dst, imm)?,
            Insn::Load { size, signed, dst, address } => self.load(size, signed, dst, address),
            Insn::Store { size, address, src } => self.store(size, address, src),
            Insn::Atomic { op, fetch, size, address, src } => self.atomic(at, op, fetch, size, address, src)?,
            Insn::LoadAcquire { size, dst, address } => {
                let place = self.address(address);
                self.code().load_acquire(size, gpr(dst), place);
            }
            Insn::StoreRelease { size, address, src } => {
                let place = self.address(address);
                self.code().store_release(size, gpr(src), place);
            }
            Insn::LoadPacket { mode, size, offset } => self.load_packet(at, mode, size, offset)?,
            Insn::AddressSpaceCast { .. } => return self.unsupported(at, "addr_space_cast"),
            Insn::Jump { .. } => {
                let target = self.target(at)?;
                if !self.falls_through(at) {
                    self.code().jump(target);
                }
            }
            Insn::JumpIndirect { dst } => self.jump_indirect(dst),
            Insn::Branch { op, width, dst, src, .. } => self.branch(at, op, width, dst, src)?,
            Insn::MayGoto { .. } => self.may_goto(at)?,
            Insn::Call(target) => self.call(at, target)?,
            Insn::Exit => {
                if at + 1 < self.nodes.len() {
                    let leave = self.leave();
                    self.code().jump(leave);
                }
            }
        }
        Ok(())
    }
}
