//! What the code of all functions of a program shares, on either machine.

use std::collections::HashMap;

use kiln_isa::operation::Arch;
use kiln_program::operation::{Schedule, schedule};
use kiln_program::{FunctionId, InsnId, Node, Object};

use crate::plan::Plan;
use crate::{Error, Options, Part, Span, Symbols};

/// The assembler of a machine, as far as both machines use it alike.
pub(crate) trait Assembly {
    /// A place in the code.
    type Label: Copy;
    /// Makes room for the code of so many instructions.
    fn reserve(&mut self, insns: usize);
    /// A new label, not yet bound.
    fn label(&mut self) -> Self::Label;
    /// Fills up to a multiple of `alignment` bytes.
    fn align(&mut self, alignment: usize);
    /// Puts a label here.
    fn bind(&mut self, label: Self::Label);
    /// Jumps to a label.
    fn jump(&mut self, label: Self::Label);
    /// Calls what begins at a label.
    fn call(&mut self, label: Self::Label);
}

/// What the code of all functions shares: the assembler, labels, and the entry for callbacks.
pub(crate) struct Shared<'a, A: Assembly> {
    pub object: &'a Object,
    pub symbols: &'a dyn Symbols,
    pub options: &'a Options,
    pub plan: &'a Plan,
    pub schedules: &'a HashMap<FunctionId, Schedule<'a>>,
    pub assembler: A,
    pub functions: HashMap<FunctionId, A::Label>,
    pub callbacks: HashMap<FunctionId, A::Label>,
    /// Where each part of the code begins.
    pub parts: Vec<(Part, A::Label)>,
    /// The part with which the current instructions began.
    pub begun: usize,
    /// The routine that asks for more budget, once code calls it.
    pub refill: Option<A::Label>,
}

/// The instructions of a plan's functions as a machine compiles them, by the marks that it has native code for.
///
/// # Errors
/// [`Error::Operation`] for a mark that is not true.
pub(crate) fn schedules<'a>(
    object: &'a Object,
    plan: &Plan,
    options: &Options,
    machine: Arch,
) -> Result<HashMap<FunctionId, Schedule<'a>>, Error> {
    let operations = options.operations.on(machine);
    plan.order.iter().map(|id| Ok((*id, schedule(object, *id, &operations)?))).collect()
}

impl<'a, A: Assembly> Shared<'a, A> {
    /// Labels for all functions of a plan, and no code yet.
    pub fn new(
        object: &'a Object,
        symbols: &'a dyn Symbols,
        options: &'a Options,
        plan: &'a Plan,
        schedules: &'a HashMap<FunctionId, Schedule<'a>>,
        mut assembler: A,
    ) -> Shared<'a, A> {
        let insns: usize = schedules.values().map(|schedule| schedule.nodes.len()).sum();
        assembler.reserve(insns);
        let functions = plan.order.iter().map(|id| (*id, assembler.label())).collect();
        let callbacks = plan.callbacks.iter().map(|id| (*id, assembler.label())).collect();
        let (parts, begun, refill) = (Vec::with_capacity(if options.spans { 2 * insns } else { 0 }), 0, None);
        Shared { object, symbols, options, plan, schedules, assembler, functions, callbacks, parts, begun, refill }
    }

    pub fn function_label(&self, id: FunctionId) -> Result<A::Label, Error> {
        self.functions.get(&id).copied().ok_or(Error::Malformed("a call of a function that does not exist"))
    }

    pub fn callback_label(&self, id: FunctionId) -> Result<A::Label, Error> {
        self.callbacks.get(&id).copied().ok_or(Error::Malformed("a callback that does not exist"))
    }

    /// The routine that asks for more budget.
    pub fn refill_label(&mut self) -> A::Label {
        *self.refill.get_or_insert_with(|| self.assembler.label())
    }

    /// Begins the code of a function.
    pub fn begin_function(&mut self, id: FunctionId) -> Result<(), Error> {
        let label = self.function_label(id)?;
        self.align(16);
        self.begin_at(Part::Prologue(id), label);
        Ok(())
    }

    /// Fills up to a multiple of `alignment` bytes.
    pub fn align(&mut self, alignment: usize) {
        self.begin(Part::Padding);
        self.assembler.align(alignment);
    }

    /// Begins a part of the code here.
    pub fn begin(&mut self, part: Part) {
        if self.options.spans {
            let label = self.assembler.label();
            self.begin_at(part, label);
        }
    }

    /// Begins a part of the code here, and puts the label here.
    pub fn begin_at(&mut self, part: Part, label: A::Label) {
        self.assembler.bind(label);
        if self.options.spans {
            self.parts.push((part, label));
        }
    }

    /// Begins the code of instructions that are compiled together, of which the first is at `label`; [`Shared::end_insns`]
    /// says which they are. `is_target` says whether a branch leads there.
    pub fn begin_insns(&mut self, label: A::Label, is_target: bool) {
        self.begun = self.parts.len();
        if is_target || self.options.spans {
            self.begin_at(Part::Insns(Vec::new()), label);
        }
    }

    /// Begins the code of one of them, to which no branch leads: an access, whose fault is its own.
    pub fn begin_insn(&mut self, id: InsnId, label: A::Label) {
        if self.options.spans {
            self.begin_at(Part::Insns(vec![id]), label);
        }
    }

    /// Says which instructions the code since [`Shared::begin_insns`] does. Those before one that has begun by itself are
    /// in front of it, the others behind it.
    pub fn end_insns(&mut self, nodes: &[Node]) {
        if !self.options.spans {
            return;
        }
        let parts = &mut self.parts[self.begun..];
        let mut current = 0;
        for node in nodes {
            let own = |part: &Part| matches!(part, Part::Insns(insns) if insns.first() == Some(&node.id));
            match parts.iter().skip(current + 1).position(|(part, _)| own(part)) {
                Some(after) => current += 1 + after,
                None => {
                    if let Some((Part::Insns(insns), _)) = parts.get_mut(current) {
                        insns.push(node.id);
                    }
                }
            }
        }
    }
}

/// The spans of finished code, given where its parts begin. Instructions may have no bytes, and a function that
/// needs no frame begins without any.
pub(crate) fn spans(parts: Vec<(Part, usize)>, end: usize) -> Vec<Span> {
    let ends: Vec<usize> = parts.iter().skip(1).map(|(_, at)| *at).chain([end]).collect();
    let spans = parts.into_iter().zip(ends).map(|((part, begin), end)| Span { part, bytes: begin..end });
    spans.filter(|span| !span.bytes.is_empty() || matches!(span.part, Part::Insns(_) | Part::Prologue(_))).collect()
}
