//! The entry for callbacks, and the routine that asks for more budget.

use kiln_isa::{Size, Width};
use kiln_program::FunctionId;

use super::assembler::Assembler;
use super::operand::{Arithmetic, Gpr, Memory};
use super::registers::{BASE, BUDGET, RUNTIME, SCRATCH2, runtime_field};
use crate::shared::Assembly as _;
use crate::{Error, Part, Runtime};

/// What the code of all functions shares.
pub(super) type Shared<'a> = crate::shared::Shared<'a, Assembler>;

impl Shared<'_> {
    /// What [`BASE`] holds, if it holds the arena's base.
    pub fn base(&self) -> Option<u64> {
        self.symbols.arena().filter(|_| self.plan.base).map(|arena| arena.base)
    }

    /// The entry from a helper into a function: a [`crate::HelperEntry`]. Arguments are already in place.
    pub fn callback(&mut self, id: FunctionId) -> Result<(), Error> {
        let target = self.function_label(id)?;
        let label = self.callbacks[&id];
        let cost = self.plan.function(id).cost;
        let (budget, metered) = (self.plan.budget, self.options.metered);
        let base = self.base();
        self.align(16);
        self.begin_at(Part::Callback(id), label);
        let code = &mut self.assembler;
        code.push(RUNTIME);
        if let Some(base) = base {
            code.push(BASE);
            code.constant(BASE, base);
            // Calls need rsp at a multiple of 16.
            code.push(Gpr::RAX);
        }
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
        if base.is_some() {
            code.pop(Gpr::RCX);
            code.pop(BASE);
        }
        code.pop(RUNTIME);
        code.ret();
        Ok(())
    }

    /// The routine that asks for more budget, if code calls it: keeps all registers but those of the budget and of the answer.
    /// R11 says whether a `may_goto` asks, and then whether it is to branch.
    pub fn refill(&mut self) {
        let (Some(label), Some(address)) = (self.refill, self.symbols.refill_address()) else { return };
        self.align(16);
        self.begin_at(Part::Refill, label);
        let code = &mut self.assembler;
        let kept = [Gpr::RAX, Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::RCX, Gpr::R8];
        code.push(Gpr::RBP);
        code.mov(Width::W64, Gpr::RBP, Gpr::RSP);
        kept.iter().for_each(|gpr| code.push(*gpr));
        code.arithmetic_imm(Arithmetic::And, Width::W64, Gpr::RSP, -16);
        code.store(Size::B8, runtime_field(Runtime::BUDGET), BUDGET);
        code.mov(Width::W64, Gpr::RDI, RUNTIME);
        code.mov(Width::W64, Gpr::RSI, SCRATCH2);
        code.constant(Gpr::RAX, address);
        code.call_register(Gpr::RAX);
        code.mov(Width::W64, SCRATCH2, Gpr::RAX);
        code.load(Size::B8, BUDGET, runtime_field(Runtime::BUDGET));
        code.lea(Width::W64, Gpr::RSP, Memory::at(Gpr::RBP, -8 * kept.len() as i32));
        kept.iter().rev().for_each(|gpr| code.pop(*gpr));
        code.pop(Gpr::RBP);
        code.ret();
    }
}
