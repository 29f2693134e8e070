//! One function: its frame, labels, loops and exits.

use std::collections::HashMap;

use kiln_isa::{Reg, Size, Width};
use kiln_program::operation::Region;
use kiln_program::{FunctionId, Node, Object};

use super::assembler::{Assembler, Condition, Gpr, Label, Op};
use super::registers::{BUDGET, RESULT, RUNTIME, SCRATCH, gpr};
use super::shared::Shared;
use crate::plan::FunctionPlan;
use crate::shared::Assembly as _;
use crate::targets::{Targets, jump_targets};
use crate::walk::Frame;
use crate::{Error, MAY_GOTO_LIMIT, Part, Runtime, Symbols};

/// Compiles one function.
pub(super) struct FunctionCompiler<'s, 'a> {
    pub shared: &'s mut Shared<'a>,
    pub nodes: &'a [Node],
    pub regions: &'a HashMap<usize, Region>,
    pub plan: FunctionPlan,
    pub id: FunctionId,
    is_entry: bool,
    pub targets: Targets,
    pub labels: Vec<Label>,
    /// The epilogue, for stopped runs and for exits that are not at the end of the function.
    leave: Label,
}

impl<'s, 'a> FunctionCompiler<'s, 'a> {
    pub fn new(shared: &'s mut Shared<'a>, id: FunctionId, is_entry: bool) -> Result<Self, Error> {
        let schedules = shared.schedules;
        let schedule = schedules.get(&id).ok_or(Error::Malformed("a function that does not exist"))?;
        let nodes = &schedule.nodes[..];
        let targets = Targets::of(nodes, &jump_targets(shared.object, id))?;
        let labels = nodes.iter().map(|_| shared.assembler.label()).collect();
        let leave = shared.assembler.label();
        let plan = shared.plan.function(id).clone();
        let regions = &schedule.regions;
        Ok(FunctionCompiler { shared, nodes, regions, plan, id, is_entry, targets, labels, leave })
    }

    pub fn code(&mut self) -> &mut Assembler {
        &mut self.shared.assembler
    }

    /// Whether an immediate must not appear in the code. Zero may: there is no other.
    pub fn hides(&self, imm: i32) -> bool {
        imm != 0 && self.shared.options.blind.is_some()
    }

    pub fn budget(&self) -> bool {
        self.shared.plan.budget
    }

    /// Subtracts from the budget, and leaves the function if none is left.
    pub fn spend(&mut self, cost: u64) {
        let cost = cost.min(i32::MAX as u64);
        if cost < 4096 {
            self.code().subs_imm(Width::W64, BUDGET, BUDGET, cost as u32);
        } else {
            self.code().constant(SCRATCH[0], cost);
            self.code().op(Op::Subs, Width::W64, BUDGET, BUDGET, SCRATCH[0]);
        }
        self.leave_if(Condition::MINUS);
    }

    /// Leaves the function if the condition holds; R0 is then meaningless.
    pub fn leave_if(&mut self, condition: Condition) {
        let leave = self.leave;
        self.code().jump_if(condition, leave);
    }

    /// The label after the last instruction.
    pub fn leave(&self) -> Label {
        self.leave
    }

    /// Leaves the function if the budget is spent.
    pub fn leave_when_spent(&mut self) {
        self.code().subs_imm(Width::W64, Gpr::ZERO, BUDGET, 0);
        self.leave_if(Condition::MINUS);
    }

    /// The label of a branch's target.
    pub fn target(&self, at: usize) -> Result<Label, Error> {
        Ok(self.labels[self.targets.target(at)?])
    }

    /// The registers that the function must restore, in pairs.
    fn saved(&self) -> Vec<(Gpr, Gpr)> {
        let mut all: Vec<Gpr> = self.plan.saved.iter().map(gpr).collect();
        all.extend((self.is_entry && self.shared.plan.runtime).then_some(RUNTIME));
        all.extend(self.plan.frame.then(|| gpr(Reg::R10)));
        all.extend(self.plan.calls.then_some(Gpr::LINK));
        if all.len() % 2 == 1 {
            all.push(Gpr::ZERO);
        }
        all.chunks(2).map(|pair| (pair[0], pair[1])).collect()
    }

    /// Bytes of stack, a multiple of 16.
    fn stack_bytes(&self) -> u32 {
        (self.plan.stack_bytes as u32).next_multiple_of(16)
    }

    /// Undoes the prologue; keeps x0, x1, x7 and the scratch registers but the first.
    pub fn tear_down(&mut self) {
        if self.budget() && (self.is_entry || self.plan.may_tail_call) {
            self.code().store(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
        }
        if self.plan.frame {
            self.code().add_imm(Width::W64, Gpr::SP, gpr(Reg::R10), 0);
        }
        for (first, second) in self.saved().into_iter().rev() {
            self.code().pop_pair(first, second);
        }
    }

    pub fn prologue(&mut self) {
        for (first, second) in self.saved() {
            self.code().push_pair(first, second);
        }
        let stack = self.stack_bytes();
        if self.plan.frame {
            self.code().add_imm(Width::W64, gpr(Reg::R10), Gpr::SP, 0);
            self.code().sub_imm(Width::W64, Gpr::SP, Gpr::SP, stack);
        }
        if self.is_entry && self.shared.plan.runtime {
            self.code().mov(Width::W64, RUNTIME, Gpr(1));
            if self.budget() {
                self.code().load(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
            }
        }
        let cleared = self.shared.options.cleared_bytes.next_multiple_of(8).min(self.plan.stack_bytes as u32);
        for offset in (-(cleared as i32)..0).step_by(8) {
            self.code().store(Size::B8, Gpr::ZERO, gpr(Reg::R10), offset, SCRATCH[0]);
        }
        if let Some(offset) = self.plan.may_goto_slot {
            self.code().constant(SCRATCH[1], MAY_GOTO_LIMIT as u64);
            self.code().store(Size::B8, SCRATCH[1], gpr(Reg::R10), offset, SCRATCH[0]);
        }
    }

    /// The epilogue, after the last instruction.
    pub fn finish(&mut self) {
        self.shared.begin_at(Part::Epilogue(self.id), self.leave);
        self.tear_down();
        self.code().mov(Width::W64, RESULT, gpr(Reg::R0));
        self.code().ret();
    }

    /// Subtracts a loop's length from the budget, at its header.
    pub fn loop_cost(&mut self, at: usize) -> Result<(), Error> {
        if let Some(length) = self.targets.loop_length(at)
            && self.shared.options.metered
        {
            self.spend(length as u64);
        }
        Ok(())
    }
}

impl Frame for FunctionCompiler<'_, '_> {
    fn nodes(&self) -> &[Node] {
        self.nodes
    }

    fn targets(&self) -> &Targets {
        &self.targets
    }

    fn object(&self) -> &Object {
        self.shared.object
    }

    fn symbols(&self) -> &dyn Symbols {
        self.shared.symbols
    }
}
