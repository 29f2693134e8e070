//! What of the walk over a function's instructions is this machine's.

use kiln_isa::{JumpOp, Reg, Size, Source, Width};
use kiln_program::{FunctionId, Node};

use super::assembler::{Assembler, Label};
use super::function::{ColdKind, FunctionCompiler};
use super::operand::Condition;
use super::registers::{BUDGET, gpr, runtime_field};
use super::shared::Shared;
use crate::walk::{Compile, Frame as _};
use crate::{Error, Runtime};

impl<'a> Compile<'a> for FunctionCompiler<'_, 'a> {
    type Assembly = Assembler;

    const LOOP_ALIGNMENT: usize = 64;

    fn shared(&mut self) -> &mut Shared<'a> {
        self.shared
    }

    fn function(&self) -> (FunctionId, &'a [Node]) {
        (self.id, self.nodes)
    }

    fn label(&self, at: usize) -> Label {
        self.labels[at]
    }

    fn prologue(&mut self) {
        FunctionCompiler::prologue(self);
    }

    fn finish(&mut self) {
        FunctionCompiler::finish(self);
    }

    fn loop_cost(&mut self, at: usize) -> Result<(), Error> {
        FunctionCompiler::loop_cost(self, at)
    }

    /// A region, or a run.
    fn together(&mut self, at: usize) -> Result<usize, Error> {
        let regions = self.regions;
        if let Some(region) = regions.get(&at)
            && !(at..at + region.length).any(|at| self.in_arena(at))
        {
            let covered = self.addressed(at, region).or_else(|| self.native(at, region, None).then_some(region.length));
            if let Some(covered) = covered {
                return Ok(covered);
            }
        }
        self.fused(at)
    }

    fn jump_if_number(&mut self, op: JumpOp, dst: Reg, number: u32, to: Label) {
        self.compare(op, Width::W32, gpr(dst), Source::Imm(number as i32));
        self.code().jump_if(Condition::of(op), to);
    }

    fn end_with_zero(&mut self, from: Label) {
        self.rare(from, None, ColdKind::Zero(gpr(Reg::R0)));
    }

    fn reload_budget(&mut self) {
        self.code().load(Size::B8, BUDGET, runtime_field(Runtime::BUDGET));
    }

    fn spend_after_call(&mut self, cost: i32) {
        self.spend(cost, Condition::SIGN, None);
    }

    fn leave_if_spent(&mut self) {
        self.leave_when_spent();
    }
}
