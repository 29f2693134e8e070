//! What the code of all functions shares: the assembler, labels, and the entry for callbacks.

use std::collections::HashMap;

use kiln_isa::{Size, Width};
use kiln_program::operation::Schedule;
use kiln_program::{FunctionId, InsnId, Object};

use super::assembler::{Assembler, Label};
use super::operand::{Arithmetic, Gpr};
use super::registers::{BUDGET, RUNTIME, runtime_field};
use crate::plan::Plan;
use crate::{Error, Options, Runtime, Symbols};

/// What the code of all functions shares.
pub(super) struct Shared<'a> {
    pub object: &'a Object,
    pub symbols: &'a dyn Symbols,
    pub options: &'a Options,
    pub plan: Plan,
    pub schedules: &'a HashMap<FunctionId, Schedule>,
    pub assembler: Assembler,
    pub functions: HashMap<FunctionId, Label>,
    pub callbacks: HashMap<FunctionId, Label>,
    pub insns: Vec<(InsnId, Label)>,
}

impl Shared<'_> {
    pub fn function_label(&self, id: FunctionId) -> Result<Label, Error> {
        self.functions.get(&id).copied().ok_or(Error::Malformed("a call of a function that does not exist"))
    }

    /// The entry from a helper into a function: a [`crate::HelperEntry`]. Arguments are already in place.
    pub fn callback(&mut self, id: FunctionId) -> Result<(), Error> {
        let target = self.function_label(id)?;
        let label = self.callbacks[&id];
        let cost = self.plan.function(id).cost;
        let (budget, metered) = (self.plan.budget, self.options.metered);
        let code = &mut self.assembler;
        code.align(16);
        code.bind(label);
        code.push(RUNTIME);
        code.mov(Width::W64, RUNTIME, Gpr::R9);
        if budget {
            code.load(Size::B8, BUDGET, runtime_field(Runtime::BUDGET));
        }
        code.call(target);
        if budget {
            if self.plan.function(id).may_tail_call {
                code.load(Size::B8, BUDGET, runtime_field(Runtime::BUDGET));
            }
            if metered {
                code.arithmetic_imm(Arithmetic::Sub, Width::W64, BUDGET, cost);
            }
            code.store(Size::B8, runtime_field(Runtime::BUDGET), BUDGET);
        }
        code.pop(RUNTIME);
        code.ret();
        Ok(())
    }
}
