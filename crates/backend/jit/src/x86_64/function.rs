//! One function: its frame, labels, loops and exits.

use std::collections::HashMap;

use kiln_isa::{Insn, Reg, RegSet, Size, Width};
use kiln_program::liveness::live_after;
use kiln_program::operation::{Region, Schedule};
use kiln_program::{FunctionId, InsnId, Node, Object};

use super::assembler::{Assembler, Label};
use super::operand::{Arithmetic, Condition, Gpr, Memory, Unary};
use super::registers::{BASE, BUDGET, RUNTIME, SCRATCH2, gpr, runtime_field};
use super::shared::Shared;
use crate::plan::FunctionPlan;
use crate::shared::Assembly as _;
use crate::targets::{Targets, jump_targets};
use crate::walk::Frame;
use crate::{Error, MAY_GOTO_LIMIT, Part, Runtime, Symbols};

/// Bytes below rsp that a leaf may use without asking (System V ABI, "red zone").
const RED_ZONE_BYTES: i32 = 128;
/// Functions with at most this many exits have an epilogue at each.
const INLINE_EXITS: usize = 4;

/// Code that rarely runs, placed after the function.
pub(super) struct Cold {
    /// Whose rare case it is.
    pub insn: InsnId,
    pub from: Label,
    pub back: Option<Label>,
    pub kind: ColdKind,
}

/// What cold code does before it jumps back or, without a return label, leaves the function.
pub(super) enum ColdKind {
    /// Nothing.
    Skip,
    Zero(Gpr),
    ZeroExtend(Gpr),
    Negate(Width, Gpr),
    /// Asks for more budget. Leaves the function if there is none, and goes to the label if the routine says so.
    Refill(Option<Label>),
}

/// Compiles one function.
pub(super) struct FunctionCompiler<'s, 'a> {
    pub shared: &'s mut Shared<'a>,
    pub nodes: &'a [Node],
    /// Marked regions, by their first instruction.
    pub regions: &'a HashMap<usize, Region>,
    pub plan: FunctionPlan,
    pub id: FunctionId,
    is_entry: bool,
    pub targets: Targets,
    /// What the budget is charged at each instruction.
    charges: Vec<Option<usize>>,
    pub labels: Vec<Label>,
    /// Before each instruction, the registers with offsets in the arena, whose other bits are 0.
    pub offsets: Vec<RegSet>,
    /// Registers that are live after each instruction.
    live_after: Vec<RegSet>,
    /// The first position from each one on at which a run ends ([`FunctionCompiler::run`]).
    pub ends_of_runs: Vec<usize>,
    /// The position being compiled.
    pub current: usize,
    pub cold: Vec<Cold>,
    /// The shared epilogue, for stopped runs and for exits without their own.
    leave: Label,
    leave_used: bool,
}

impl<'s, 'a> FunctionCompiler<'s, 'a> {
    pub fn new(shared: &'s mut Shared<'a>, id: FunctionId, is_entry: bool) -> Result<Self, Error> {
        let schedule: &'a Schedule<'a> =
            shared.schedules.get(&id).ok_or(Error::Malformed("a function that does not exist"))?;
        let nodes = &schedule.nodes[..];
        let targets = Targets::of(nodes, &jump_targets(shared.object, id))?;
        let charges = targets.charges(nodes, shared.plan.refills);
        let labels = nodes.iter().map(|_| shared.assembler.label()).collect();
        let leave = shared.assembler.label();
        let plan = shared.plan.function(id).clone();
        let live_after = live_after(nodes, &targets.positions);
        let offsets = offsets(nodes, &targets);
        let cold = Vec::new();
        let mut compiler = FunctionCompiler {
            shared,
            nodes,
            regions: &schedule.regions,
            plan,
            id,
            is_entry,
            targets,
            charges,
            labels,
            offsets,
            live_after,
            current: 0,
            cold,
            ends_of_runs: Vec::new(),
            leave,
            leave_used: false,
        };
        compiler.ends_of_runs = compiler.ends_of_runs();
        Ok(compiler)
    }

    pub fn code(&mut self) -> &mut Assembler {
        &mut self.shared.assembler
    }

    /// `dst = src`; nothing for a register onto itself, unless that clears its upper half.
    pub fn copy(&mut self, width: Width, dst: Gpr, src: Gpr) {
        if dst != src || width == Width::W32 {
            self.code().mov(width, dst, src);
        }
    }

    pub fn budget(&self) -> bool {
        self.shared.plan.budget
    }

    /// Subtracts from the budget. If it is spent, asks for more, or leaves the function.
    pub fn spend(&mut self, cost: i32, spent: Condition, point: Option<Label>) {
        self.code().arithmetic_imm(Arithmetic::Sub, Width::W64, BUDGET, cost);
        if !self.shared.plan.refills {
            return self.leave_if(spent);
        }
        self.leave_used = true;
        let (from, back) = (self.code().label(), self.code().label());
        self.code().jump_if(spent, from);
        self.code().bind(back);
        self.rare(from, Some(back), ColdKind::Refill(point));
    }

    /// Leaves the function if the condition holds; R0 is then meaningless.
    pub fn leave_if(&mut self, condition: Condition) {
        self.leave_used = true;
        let leave = self.leave;
        self.code().jump_if(condition, leave);
    }

    /// Leaves the function if the budget is spent.
    pub fn leave_when_spent(&mut self) {
        self.code().test(Width::W64, BUDGET, BUDGET);
        self.leave_if(Condition::SIGN);
    }

    /// The label of a branch's target.
    pub fn target(&self, at: usize) -> Result<Label, Error> {
        Ok(self.labels[self.targets.target(at)?])
    }

    fn saved(&self) -> impl DoubleEndedIterator<Item = Gpr> + use<> {
        let runtime = (self.is_entry && self.shared.plan.runtime).then_some(RUNTIME);
        let base = (self.is_entry && self.shared.plan.base).then_some(BASE);
        self.plan.saved.iter().map(gpr).chain(runtime).chain(base)
    }

    /// Whether rbp holds the frame pointer.
    fn has_frame_pointer(&self) -> bool {
        self.plan.frame && !self.shared.plan.base
    }

    /// Bytes that rsp is lowered by: calls need it at a multiple of 16, the red zone may save it.
    fn lowered(&self) -> i32 {
        let pushes = self.saved().count() as i32 + i32::from(self.has_frame_pointer());
        let stack = self.plan.stack_bytes;
        if self.plan.calls {
            // The return address and the pushes are above.
            stack + (8 * (pushes + 1) + stack) % 16
        } else if stack <= RED_ZONE_BYTES {
            0
        } else {
            stack
        }
    }

    /// Undoes the prologue; keeps rax, rdi and rsi.
    pub fn tear_down(&mut self) {
        let lowered = self.lowered();
        if self.budget() && (self.is_entry || self.plan.may_tail_call) {
            self.code().store(Size::B8, runtime_field(Runtime::BUDGET), BUDGET);
        }
        if self.has_frame_pointer() {
            if lowered > 0 {
                self.code().leave();
            } else {
                self.code().pop(Gpr::RBP);
            }
        } else if lowered == 8 {
            self.code().pop(Gpr::RCX);
        } else if lowered > 0 {
            self.code().arithmetic_imm(Arithmetic::Add, Width::W64, Gpr::RSP, lowered);
        }
        for saved in self.saved().rev() {
            self.code().pop(saved);
        }
    }

    /// Ends the function, by an epilogue of its own if it has few.
    pub fn leave_function(&mut self, at: usize) {
        if self.plan.exits <= INLINE_EXITS {
            self.tear_down();
            self.code().ret();
        } else {
            self.leave_used = true;
            // The shared epilogue follows the last instruction.
            if at + 1 < self.nodes.len() {
                let leave = self.leave;
                self.code().jump(leave);
            }
        }
    }

    /// Leaves the rare case of the current instruction for the end of the function.
    pub fn rare(&mut self, from: Label, back: Option<Label>, kind: ColdKind) {
        let insn = self.nodes[self.current].id;
        self.cold.push(Cold { insn, from, back, kind });
    }

    /// Asks for more budget.
    fn refill(&mut self, point: Option<Label>) {
        let (routine, leave) = (self.shared.refill_label(), self.leave);
        let code = self.code();
        // The call must not overwrite the red zone.
        code.lea(Width::W64, Gpr::RSP, Memory::at(Gpr::RSP, -RED_ZONE_BYTES));
        code.constant(SCRATCH2, point.is_some().into());
        code.call(routine);
        code.lea(Width::W64, Gpr::RSP, Memory::at(Gpr::RSP, RED_ZONE_BYTES));
        code.test(Width::W64, BUDGET, BUDGET);
        code.jump_if(Condition::SIGN, leave);
        if let Some(point) = point {
            code.test(Width::W64, SCRATCH2, SCRATCH2);
            code.jump_if(Condition::NOT_EQUAL, point);
        }
    }

    /// Whether the value that a register holds after the instruction at `at` may be read.
    pub fn lives_after(&self, at: usize, reg: Reg) -> bool {
        self.live_after.get(at).is_none_or(|live| live.contains(reg))
    }

    /// Whether the value of a machine register is needed after the current instruction.
    pub fn needed(&self, reg: Reg) -> bool {
        self.lives_after(self.current, reg)
    }

    pub fn prologue(&mut self) {
        let lowered = self.lowered();
        for saved in self.saved() {
            self.code().push(saved);
        }
        if self.has_frame_pointer() {
            self.code().push(Gpr::RBP);
            self.code().mov(Width::W64, Gpr::RBP, Gpr::RSP);
        }
        if lowered == 8 {
            self.code().push(Gpr::RAX);
        } else if lowered > 0 {
            self.code().arithmetic_imm(Arithmetic::Sub, Width::W64, Gpr::RSP, lowered);
        }
        self.code().frame = self.shared.plan.base.then_some(lowered);
        if let Some(base) = self.shared.base().filter(|_| self.is_entry) {
            self.code().constant(BASE, base);
        }
        if self.is_entry && self.shared.plan.runtime {
            self.code().mov(Width::W64, RUNTIME, Gpr::RSI);
            if self.budget() {
                self.code().load(Size::B8, BUDGET, runtime_field(Runtime::BUDGET));
            }
        }
        let cleared = self.shared.options.cleared_bytes.next_multiple_of(8).min(self.plan.stack_bytes as u32);
        for displacement in (-(cleared as i32)..0).step_by(8) {
            self.code().store_imm(Size::B8, Memory::at(Gpr::RBP, displacement), 0);
        }
        if let Some(displacement) = self.plan.may_goto_slot {
            let slot = Memory::at(Gpr::RBP, displacement);
            self.code().store_imm(Size::B8, slot, MAY_GOTO_LIMIT);
        }
    }

    /// The epilogue, after the last instruction.
    pub fn finish(&mut self) {
        if self.leave_used || self.cold.iter().any(|cold| cold.back.is_none()) {
            self.shared.begin_at(Part::Epilogue(self.id), self.leave);
            self.tear_down();
            self.code().ret();
        }
        for cold in std::mem::take(&mut self.cold) {
            self.shared.begin_at(Part::Rare(cold.insn), cold.from);
            match cold.kind {
                ColdKind::Refill(point) => self.refill(point),
                ColdKind::Skip => {}
                ColdKind::Zero(gpr) => self.code().constant(gpr, 0),
                ColdKind::ZeroExtend(gpr) => self.code().mov(Width::W32, gpr, gpr),
                ColdKind::Negate(width, gpr) => self.code().unary(Unary::Neg, width, gpr),
            }
            let to = cold.back.unwrap_or(self.leave);
            self.code().jump(to);
        }
        self.code().frame = None;
    }

    /// Subtracts a loop's length from the budget, at its header.
    pub fn loop_cost(&mut self, at: usize) -> Result<(), Error> {
        self.current = at;
        // A `may_goto` there branches if the budget is spent.
        let point = match self.nodes[at].insn {
            Insn::MayGoto { .. } if self.shared.plan.refills => Some(self.target(at)?),
            _ => None,
        };
        if self.shared.options.metered
            && self.budget()
            && let Some(length) = self.charges[at]
        {
            let cost = i32::try_from(length).unwrap_or(i32::MAX);
            // The budget is not negative here. The processor fuses a subtraction with a branch on its carry only.
            self.spend(cost, Condition::BELOW, point);
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

/// The registers that hold offsets in the arena before each instruction: those that were cast since control came in from
/// elsewhere and have not changed.
fn offsets(nodes: &[Node], targets: &Targets) -> Vec<RegSet> {
    let mut known = RegSet::EMPTY;
    let mut before = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        if targets.is_target(at) {
            known = RegSet::EMPTY;
        }
        before.push(known);
        match node.insn {
            Insn::AddressSpaceCast { dst, to: 0, .. } => known.insert(dst),
            Insn::Call(_) => known = known.difference(RegSet::CALLER_SAVED),
            Insn::Atomic { src, .. } => [src, Reg::R0].into_iter().for_each(|dst| known.remove(dst)),
            insn => insn.written().into_iter().for_each(|dst| known.remove(dst)),
        }
    }
    before
}
