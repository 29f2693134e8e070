//! The entry for callbacks.

use kiln_isa::{Size, Width};
use kiln_program::FunctionId;

use super::assembler::{Assembler, Gpr, Op};
use super::registers::{BUDGET, RUNTIME, SCRATCH, SIXTH};
use crate::shared::Assembly as _;
use crate::{Error, Part, Runtime};

/// What the code of all functions shares.
pub(super) type Shared<'a> = crate::shared::Shared<'a, Assembler>;

impl Shared<'_> {
    /// The entry from a helper into a function: a [`crate::HelperEntry`]. Arguments are already in place.
    pub fn callback(&mut self, id: FunctionId) -> Result<(), Error> {
        let target = self.function_label(id)?;
        let label = self.callbacks[&id];
        let cost = self.plan.function(id).cost;
        let reload = self.plan.function(id).may_tail_call;
        let (budget, metered) = (self.plan.budget, self.options.metered);
        self.align(16);
        self.begin_at(Part::Callback(id), label);
        let code = &mut self.assembler;
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
