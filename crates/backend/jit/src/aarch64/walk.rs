//! What of the walk over a function's instructions is this machine's.

use kiln_isa::{JumpOp, Reg, Size, Width};
use kiln_program::{FunctionId, Node};

use super::assembler::{Assembler, Condition, Gpr, Label, Op};
use super::function::FunctionCompiler;
use super::registers::{BUDGET, RUNTIME, SCRATCH, gpr};
use super::shared::Shared;
use crate::shared::Assembly as _;
use crate::walk::Compile;
use crate::{Error, Runtime};

impl<'a> Compile<'a> for FunctionCompiler<'_, 'a> {
    type Assembly = Assembler;

    const LOOP_ALIGNMENT: usize = 16;

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

    /// A region, or a lookup.
    fn together(&mut self, at: usize) -> Result<usize, Error> {
        let regions = self.regions;
        if let Some(region) = regions.get(&at)
            && self.native(at, region)
        {
            return Ok(region.length);
        }
        Ok(if self.array_look_up(at) { 2 } else { 0 })
    }

    fn jump_if_number(&mut self, op: JumpOp, dst: Reg, number: u32, to: Label) {
        self.code().constant(SCRATCH[0], number.into());
        self.code().op(Op::Subs, Width::W32, Gpr::ZERO, gpr(dst), SCRATCH[0]);
        self.code().jump_if(Condition::of(op), to);
    }

    fn end_with_zero(&mut self, from: Label) {
        let leave = self.leave();
        self.code().bind(from);
        self.code().constant(gpr(Reg::R0), 0);
        self.code().jump(leave);
    }

    fn reload_budget(&mut self) {
        self.code().load(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
    }

    fn spend_after_call(&mut self, cost: i32) {
        self.spend(cost as u64);
    }

    fn leave_if_spent(&mut self) {
        self.leave_when_spent();
    }
}
