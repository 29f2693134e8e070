//! One function: its frame, and the walk over its instructions.

use std::collections::HashMap;

use kiln_isa::{Insn, Reg, Size, Width};
use kiln_program::operation::Region;
use kiln_program::{FunctionId, InsnId, Node, Reference};

use super::assembler::{Assembler, Condition, Gpr, Label, Op};
use super::{BUDGET, RESULT, RUNTIME, SCRATCH, Shared, gpr};
use crate::plan::FunctionPlan;
use crate::{Error, Runtime};

/// `may_goto` goes on this many times in a frame (kernel `BPF_MAX_LOOPS`).
const MAY_GOTO_LIMIT: u64 = 8 << 20;
/// Where loops begin.
const LOOP_ALIGNMENT: usize = 16;

/// Compiles one function.
pub(super) struct FunctionCompiler<'s, 'a> {
    pub shared: &'s mut Shared<'a>,
    pub nodes: &'a [Node],
    regions: &'a HashMap<usize, Region>,
    pub plan: FunctionPlan,
    id: FunctionId,
    is_entry: bool,
    pub positions: HashMap<InsnId, usize>,
    labels: Vec<Label>,
    /// The last position that jumps back here, for loop headers.
    loop_end: Vec<Option<usize>>,
    /// The epilogue: where stopped runs leave, and exits that do not end the function.
    leave: Label,
}

impl<'s, 'a> FunctionCompiler<'s, 'a> {
    pub fn new(shared: &'s mut Shared<'a>, id: FunctionId, is_entry: bool) -> Result<Self, Error> {
        let schedules = shared.schedules;
        let schedule = schedules.get(&id).ok_or(Error::Malformed("a function that does not exist"))?;
        let nodes = &schedule.nodes[..];
        if !nodes.last().is_some_and(|last| matches!(last.insn, Insn::Exit | Insn::Jump { .. })) {
            return Err(Error::Malformed("a function runs past its end"));
        }
        let positions: HashMap<_, _> = nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        let mut loop_end = vec![None; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            let Some(target) = node.target() else { continue };
            let target = *positions.get(&target).ok_or(Error::Malformed("a branch leads nowhere"))?;
            if target <= at {
                loop_end[target] = Some(at);
            }
        }
        let labels = nodes.iter().map(|_| shared.assembler.label()).collect();
        let leave = shared.assembler.label();
        let plan = shared.plan.function(id).clone();
        let regions = &schedule.regions;
        Ok(FunctionCompiler { shared, nodes, regions, plan, id, is_entry, positions, labels, loop_end, leave })
    }

    pub fn compile(mut self) -> Result<(), Error> {
        let label = self.shared.function_label(self.id)?;
        self.code().align(16);
        self.code().bind(label);
        self.prologue();
        let mut at = 0;
        while at < self.nodes.len() {
            let innermost =
                self.loop_end[at].is_some_and(|end| !self.loop_end[at + 1..=end].iter().any(Option::is_some));
            if innermost {
                self.code().align(LOOP_ALIGNMENT);
            }
            let (id, label) = (self.nodes[at].id, self.labels[at]);
            self.code().bind(label);
            self.shared.insns.push((id, label));
            self.loop_cost(at);
            let regions = self.regions;
            if let Some(region) = regions.get(&at)
                && self.native(region)
            {
                at += region.length;
                continue;
            }
            self.instruction(at)?;
            at += 1;
        }
        let leave = self.leave;
        self.code().bind(leave);
        self.tear_down();
        self.code().mov(Width::W64, RESULT, gpr(Reg::R0));
        self.code().ret();
        Ok(())
    }

    pub fn code(&mut self) -> &mut Assembler {
        &mut self.shared.assembler
    }

    pub fn budget(&self) -> bool {
        self.shared.plan.budget
    }

    pub fn unsupported<T>(&self, at: usize, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::Unsupported { insn: self.nodes[at].id, what: what.into() })
    }

    pub fn unresolved<T>(&self, at: usize, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::Unresolved { insn: self.nodes[at].id, what: what.into() })
    }

    /// Takes a loop's length from the budget, at its header.
    fn loop_cost(&mut self, at: usize) {
        if let Some(end) = self.loop_end[at]
            && self.shared.options.metered
        {
            self.spend((end - at + 1) as u64);
        }
    }

    /// Takes from the budget, and leaves the function where none is left.
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

    /// Leaves the function where the condition holds; R0 means nothing.
    pub fn leave_if(&mut self, condition: Condition) {
        let leave = self.leave;
        self.code().jump_if(condition, leave);
    }

    /// The label behind the last instruction.
    pub fn leave(&self) -> Label {
        self.leave
    }

    fn instruction(&mut self, at: usize) -> Result<(), Error> {
        match self.nodes[at].insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src),
            Insn::Neg { width, dst } => {
                let dst = gpr(dst);
                self.code().op(Op::Sub, width, dst, Gpr::ZERO, dst);
            }
            Insn::MoveSignExtend { width, from, dst, src } => {
                self.code().sign_extend(from, width, gpr(dst), gpr(src));
            }
            Insn::Endian { order, size, dst } => self.endian(order, size, dst),
            Insn::LoadImm64 { dst, imm } => self.load_imm64(at, dst, imm)?,
            Insn::Load { size, signed, dst, address } => self.load(size, signed, dst, address),
            Insn::Store { size, address, src } => self.store(size, address, src),
            Insn::Atomic { op, fetch, size, address, src } => self.atomic(at, op, fetch, size, address, src)?,
            Insn::LoadAcquire { size, dst, address } => {
                let place = self.address(address);
                self.code().load_acquire(size, gpr(dst), place);
            }
            Insn::StoreRelease { size, address, src } => {
                let place = self.address(address);
                self.code().store_release(size, gpr(src), place);
            }
            Insn::LoadPacket { mode, size, offset } => self.load_packet(at, mode, size, offset)?,
            Insn::AddressSpaceCast { .. } => return self.unsupported(at, "addr_space_cast"),
            Insn::Jump { .. } => {
                let target = self.target(at)?;
                if !self.falls_through(at) {
                    self.code().jump(target);
                }
            }
            Insn::Branch { op, width, dst, src, .. } => self.branch(at, op, width, dst, src)?,
            Insn::MayGoto { .. } => self.may_goto(at)?,
            Insn::Call(target) => self.call(at, target)?,
            Insn::Exit => {
                if at + 1 < self.nodes.len() {
                    let leave = self.leave;
                    self.code().jump(leave);
                }
            }
        }
        Ok(())
    }

    /// The label of a branch's target.
    pub fn target(&self, at: usize) -> Result<Label, Error> {
        let Reference::Branch(id) = self.nodes[at].reference else {
            return Err(Error::Malformed("a branch without target"));
        };
        let position = self.positions.get(&id).ok_or(Error::Malformed("a branch leads nowhere"))?;
        Ok(self.labels[*position])
    }

    /// Whether a branch's target is the next instruction anyway.
    pub fn falls_through(&self, at: usize) -> bool {
        let target = self.nodes[at].target().and_then(|id| self.positions.get(&id));
        target.is_some_and(|target| *target == at + 1)
    }

    /// What the function must give back, in pairs.
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

    fn prologue(&mut self) {
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
            self.code().constant(SCRATCH[1], MAY_GOTO_LIMIT);
            self.code().store(Size::B8, SCRATCH[1], gpr(Reg::R10), offset, SCRATCH[0]);
        }
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
}
