//! The walk over a function's instructions: each becomes code, alone, as part of a run, or as part of a region.

use kiln_isa::{Insn, Source};

use super::function::FunctionCompiler;
use super::memory::memory;
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
            self.current = at;
            self.loop_cost(at)?;
            let covered = self.covered(at)?;
            self.shared.end_insns(&self.nodes[at..at + covered]);
            at += covered;
        }
        self.finish();
        Ok(())
    }

    /// Compiles what begins at `at`: a region, a run, or one instruction. Returns how many instructions it covers.
    fn covered(&mut self, at: usize) -> Result<usize, Error> {
        let regions = self.regions;
        if let Some(region) = regions.get(&at)
            && !(at..at + region.length).any(|at| self.in_arena(at))
        {
            let covered = self.addressed(at, region).or_else(|| self.native(at, region, None).then_some(region.length));
            if let Some(covered) = covered {
                return Ok(covered);
            }
        }
        match self.fused(at)? {
            0 => self.instruction(at).map(|()| 1),
            covered => Ok(covered),
        }
    }

    fn instruction(&mut self, at: usize) -> Result<(), Error> {
        match self.nodes[at].insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src),
            Insn::Neg { width, dst } => self.negate(width, dst),
            Insn::MoveSignExtend { width, from, dst, src } => {
                self.code().sign_extend(from, width, gpr(dst), gpr(src));
            }
            Insn::Endian { order, size, dst } => self.endian(order, size, dst),
            Insn::LoadImm64 { dst, imm } => self.load_imm64(at, dst, imm)?,
            insn if self.in_arena(at) => self.arena_access(at, insn)?,
            Insn::Load { size, signed, dst, address } => self.load(size, signed, dst, memory(address)),
            Insn::Store { size, address, src } => self.store(size, memory(address), src),
            Insn::Atomic { op, fetch, size, address, src } => {
                self.atomic(at, op, fetch, size, memory(address), src)?;
            }
            // x86 orders loads after loads and stores after everything: plain moves acquire and release.
            Insn::LoadAcquire { size, dst, address } => self.load(size, false, dst, memory(address)),
            Insn::StoreRelease { size, address, src } => {
                self.store(size, memory(address), Source::Reg(src));
            }
            Insn::LoadPacket { mode, size, offset } => self.load_packet(at, mode, size, offset)?,
            Insn::AddressSpaceCast { dst, src, to, .. } => self.cast_address(at, dst, src, to)?,
            Insn::Jump { .. } => self.jump(at)?,
            Insn::JumpIndirect { dst } => self.jump_indirect(dst),
            Insn::Branch { op, width, dst, src, .. } => self.branch(at, op, width, dst, src)?,
            Insn::MayGoto { .. } => self.may_goto(at)?,
            Insn::Call(target) => self.call(at, target)?,
            Insn::Exit => self.exit(at),
        }
        Ok(())
    }
}
