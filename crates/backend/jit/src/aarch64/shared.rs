//! What the code of all functions shares: the assembler, labels, and the entry for callbacks.

use std::collections::HashMap;

use kiln_isa::{Size, Width};
use kiln_program::operation::Schedule;
use kiln_program::{FunctionId, InsnId, Object};

use super::assembler::{Assembler, Gpr, Label, Op};
use super::registers::{BUDGET, RUNTIME, SCRATCH, SIXTH};
use crate::plan::Plan;
use crate::{Error, Options, Runtime, Symbols};

/// What the code of all functions shares.
pub(super) struct Shared<'a> {
    pub object: &'a Object,
    pub symbols: &'a dyn Symbols,
    pub options: &'a Options,
    pub plan: &'a Plan,
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
        let reload = self.plan.function(id).may_tail_call;
        let (budget, metered) = (self.plan.budget, self.options.metered);
        let code = &mut self.assembler;
        code.align(16);
        code.bind(label);
        code.push_pair(RUNTIME, Gpr::LINK);
        code.mov(Width::W64, RUNTIME, SIXTH);
        if budget {
            code.load(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
        }
        code.call(target);
        if budget {
            if reload {
                code.load(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
            }
            if metered {
                code.constant(SCRATCH[0], cost as u64);
                code.op(Op::Sub, Width::W64, BUDGET, BUDGET, SCRATCH[0]);
            }
            code.store(Size::B8, BUDGET, RUNTIME, Runtime::BUDGET, SCRATCH[0]);
        }
        code.pop_pair(RUNTIME, Gpr::LINK);
        code.ret();
        Ok(())
    }
}
