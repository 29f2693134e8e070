//! Instructions whose immediates do not appear in the code ([`crate::blind`]).

use kiln_isa::{AluOp, Width};

use super::divide::Divisor;
use super::function::FunctionCompiler;
use super::operand::{Arithmetic, Gpr};
use super::registers::SCRATCH;
use crate::immediate::extended;

impl FunctionCompiler<'_, '_> {
    /// Whether an immediate must not appear in the code. Zero may: there is no other.
    pub(super) fn hides(&self, imm: i32) -> bool {
        imm != 0 && self.shared.options.blind.is_some()
    }

    /// Puts an immediate into the first scratch register.
    pub(super) fn hide(&mut self, width: Width, imm: i32) -> Gpr {
        self.code().constant(SCRATCH, extended(width, imm));
        SCRATCH
    }

    /// Compiles an operation with an immediate that must not appear. False for those whose code has none, or by a
    /// constant as a whole.
    pub(super) fn hidden_alu(&mut self, op: AluOp, width: Width, dst: Gpr, imm: i32) -> bool {
        let signed = matches!(op, AluOp::Sdiv | AluOp::Smod);
        match op {
            AluOp::Mov | AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => return false,
            AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod if imm == 1 || imm == -1 && signed => return false,
            AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod => {
                self.divide_machine(op, width, dst, Divisor::Constant(extended(width, imm)));
            }
            AluOp::Mul => {
                let hidden = self.hide(width, imm);
                self.code().multiply(width, dst, hidden);
            }
            AluOp::Add => self.hidden_operand(Arithmetic::Add, width, dst, imm),
            AluOp::Sub => self.hidden_operand(Arithmetic::Sub, width, dst, imm),
            AluOp::And => self.hidden_operand(Arithmetic::And, width, dst, imm),
            AluOp::Or => self.hidden_operand(Arithmetic::Or, width, dst, imm),
            AluOp::Xor => self.hidden_operand(Arithmetic::Xor, width, dst, imm),
        }
        true
    }
    fn hidden_operand(&mut self, op: Arithmetic, width: Width, dst: Gpr, imm: i32) {
        let hidden = self.hide(width, imm);
        self.code().arithmetic(op, width, dst, hidden);
    }
}
