//! What the code of all functions of a program shares, on either machine.

use std::collections::HashMap;

use kiln_program::operation::Schedule;
use kiln_program::{FunctionId, InsnId, Object};

use crate::plan::Plan;
use crate::{Error, Options, Symbols};

/// The assembler of a machine, as far as both machines use it alike.
pub(crate) trait Assembly {
    /// A place in the code.
    type Label: Copy;
    /// Fills up to a multiple of `alignment` bytes.
    fn align(&mut self, alignment: usize);
    /// Puts a label here.
    fn bind(&mut self, label: Self::Label);
}

/// What the code of all functions shares: the assembler, labels, and the entry for callbacks.
pub(crate) struct Shared<'a, A: Assembly> {
    pub object: &'a Object,
    pub symbols: &'a dyn Symbols,
    pub options: &'a Options,
    pub plan: &'a Plan,
    pub schedules: &'a HashMap<FunctionId, Schedule>,
    pub assembler: A,
    pub functions: HashMap<FunctionId, A::Label>,
    pub callbacks: HashMap<FunctionId, A::Label>,
    pub insns: Vec<(InsnId, A::Label)>,
}

impl<A: Assembly> Shared<'_, A> {
    pub fn function_label(&self, id: FunctionId) -> Result<A::Label, Error> {
        self.functions.get(&id).copied().ok_or(Error::Malformed("a call of a function that does not exist"))
    }

    /// Begins the code of a function.
    pub fn begin_function(&mut self, id: FunctionId) -> Result<(), Error> {
        let label = self.function_label(id)?;
        self.assembler.align(16);
        self.assembler.bind(label);
        Ok(())
    }

    /// Begins the code of an instruction.
    pub fn begin_insn(&mut self, id: InsnId, label: A::Label) {
        self.assembler.bind(label);
        self.insns.push((id, label));
    }
}
