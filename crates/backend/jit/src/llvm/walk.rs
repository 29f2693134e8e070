//! The walk over a function's instructions.

use kiln_isa::{Insn, Reg};
use kiln_program::Node;

use super::builder::Value;
use super::function::{FunctionWriter, block};
use crate::Error;

impl FunctionWriter<'_, '_> {
    /// Translates the function.
    ///
    /// # Errors
    /// Returns an error if an instruction has no translation, or if the runtime lacks an address that it names.
    pub fn write(mut self) -> Result<String, Error> {
        self.begin();
        let mut open = true;
        for (at, node) in self.nodes.iter().enumerate() {
            // A block begins where control comes from elsewhere, and after one that has ended.
            if !self.follows_directly(at) || !open || at == 0 {
                if open {
                    self.out.jump(&block(at));
                }
                self.out.begin(&block(at));
            }
            self.loop_cost(at)?;
            open = self.instruction(at, node)?;
        }
        if open {
            self.out.jump("leave");
        }
        self.out.begin("leave");
        self.leave_with(&Value::from(0));
        self.out.top("}\n");
        Ok(self.out.finish())
    }

    /// Translates an instruction; whether control goes on in the same block.
    fn instruction(&mut self, at: usize, node: &Node) -> Result<bool, Error> {
        match node.insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src),
            Insn::Neg { width, dst } => self.negate(width, dst),
            Insn::MoveSignExtend { width, from, dst, src } => self.move_sign_extend(width, from, dst, src),
            Insn::Endian { order, size, dst } => self.endian(order, size, dst),
            Insn::LoadImm64 { dst, imm } => self.load_imm64(at, dst, imm)?,
            Insn::Load { .. }
            | Insn::Store { .. }
            | Insn::Atomic { .. }
            | Insn::LoadAcquire { .. }
            | Insn::StoreRelease { .. } => self.access(at, &node.insn)?,
            Insn::LoadPacket { mode, size, offset } => self.load_packet(at, mode, size, offset)?,
            Insn::AddressSpaceCast { dst, src, to, .. } => self.cast_address(at, dst, src, to)?,
            Insn::Jump { .. } => {
                let target = self.target(at)?;
                self.out.jump(&target);
                return Ok(false);
            }
            Insn::JumpIndirect { dst } => {
                self.jump_indirect(dst);
                return Ok(false);
            }
            Insn::Branch { op, width, dst, src, .. } => {
                self.branch(at, op, width, dst, src)?;
                return Ok(false);
            }
            Insn::MayGoto { .. } => {
                self.may_goto(at)?;
                return Ok(false);
            }
            Insn::Call(target) => self.call(at, target)?,
            Insn::Exit => {
                let value = self.register(Reg::R0);
                self.leave_with(&value);
                return Ok(false);
            }
        }
        Ok(true)
    }
}
