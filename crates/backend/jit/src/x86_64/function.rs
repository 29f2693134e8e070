//! One function: its frame, and the walk over its instructions.

use std::collections::HashMap;

use kiln_isa::{Insn, Reg, RegSet, Size, Width};
use kiln_program::liveness::live_after;
use kiln_program::operation::{Region, Schedule};
use kiln_program::{FunctionId, InsnId, Node, Reference};

use super::assembler::{Arithmetic, Assembler, Condition, Gpr, Label, Memory};
use super::memory::memory;
use super::{BUDGET, RUNTIME, Shared, gpr, runtime_field};
use crate::plan::FunctionPlan;
use crate::{Error, Runtime};

/// Bytes below rsp that a leaf may use without asking (System V ABI, "red zone").
const RED_ZONE_BYTES: i32 = 128;
/// `may_goto` goes on this many times in a frame (kernel `BPF_MAX_LOOPS`).
const MAY_GOTO_LIMIT: i32 = 8 << 20;
/// Epilogues are repeated at every exit of functions with so few.
const INLINE_EXITS: usize = 4;
/// Where loops begin.
const LOOP_ALIGNMENT: usize = 32;

/// Code that is rarely run, put behind the function.
pub(super) struct Cold {
    pub from: Label,
    pub back: Option<Label>,
    pub kind: ColdKind,
}

/// What cold code does before it goes back, or (without a way back) leaves the function.
pub(super) enum ColdKind {
    /// Nothing.
    Skip,
    Zero(Gpr),
    ZeroExtend(Gpr),
    Negate(Width, Gpr),
}

/// Compiles one function.
pub(super) struct FunctionCompiler<'s, 'a> {
    pub shared: &'s mut Shared<'a>,
    pub nodes: &'a [Node],
    /// Runs of instructions that marks say an operation does, by where they begin.
    pub regions: &'a HashMap<usize, Region>,
    pub plan: FunctionPlan,
    id: FunctionId,
    is_entry: bool,
    pub positions: HashMap<InsnId, usize>,
    pub labels: Vec<Label>,
    /// Whether control comes here from elsewhere than the instruction before.
    pub is_target: Vec<bool>,
    /// Registers whose value is still needed after each instruction.
    live_after: Vec<RegSet>,
    /// The position being compiled.
    current: usize,
    /// The last position that jumps back here, for loop headers.
    loop_end: Vec<Option<usize>>,
    pub cold: Vec<Cold>,
    /// The shared epilogue: where stopped runs leave, and exits that do not repeat it.
    leave: Label,
    leave_used: bool,
}

impl<'s, 'a> FunctionCompiler<'s, 'a> {
    pub fn new(shared: &'s mut Shared<'a>, id: FunctionId, is_entry: bool) -> Result<Self, Error> {
        let schedule: &'a Schedule =
            shared.schedules.get(&id).ok_or(Error::Malformed("a function that does not exist"))?;
        let nodes = &schedule.nodes[..];
        if !nodes.last().is_some_and(|last| matches!(last.insn, Insn::Exit | Insn::Jump { .. })) {
            return Err(Error::Malformed("a function runs past its end"));
        }
        let positions: HashMap<_, _> = nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        let mut is_target = vec![false; nodes.len()];
        let mut loop_end = vec![None; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            let Some(target) = node.target() else { continue };
            let target = *positions.get(&target).ok_or(Error::Malformed("a branch leads nowhere"))?;
            is_target[target] = true;
            if target <= at {
                loop_end[target] = Some(at);
            }
        }
        let labels = nodes.iter().map(|_| shared.assembler.label()).collect();
        let leave = shared.assembler.label();
        let plan = shared.plan.function(id).clone();
        let live_after = live_after(nodes, &positions);
        let cold = Vec::new();
        Ok(FunctionCompiler {
            shared,
            nodes,
            regions: &schedule.regions,
            plan,
            id,
            is_entry,
            positions,
            labels,
            is_target,
            live_after,
            current: 0,
            loop_end,
            cold,
            leave,
            leave_used: false,
        })
    }

    pub fn compile(mut self) -> Result<(), Error> {
        let label = self.shared.function_label(self.id)?;
        self.code().align(16);
        self.code().bind(label);
        self.prologue();
        let mut at = 0;
        while at < self.nodes.len() {
            self.loop_header(at);
            let (id, label) = (self.nodes[at].id, self.labels[at]);
            self.code().bind(label);
            self.shared.insns.push((id, label));
            self.loop_cost(at);
            self.current = at;
            let regions = self.regions;
            if let Some(region) = regions.get(&at)
                && !(at..at + region.length).any(|at| self.in_arena(at))
                && self.native(region)
            {
                at += region.length;
                continue;
            }
            at += match self.fused(at)? {
                0 => {
                    self.instruction(at)?;
                    1
                }
                consumed => consumed,
            };
        }
        self.finish();
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

    /// Whether the instruction accesses the arena.
    pub fn in_arena(&self, at: usize) -> bool {
        self.shared.symbols.in_arena(self.nodes[at].id)
    }

    /// Aligns innermost loops.
    fn loop_header(&mut self, at: usize) {
        if let Some(end) = self.loop_end[at]
            && !self.loop_end[at + 1..=end].iter().any(Option::is_some)
        {
            self.code().align(LOOP_ALIGNMENT);
        }
    }

    /// Takes a loop's length from the budget, at its header.
    fn loop_cost(&mut self, at: usize) {
        if let Some(end) = self.loop_end[at]
            && self.shared.options.metered
        {
            let cost = i32::try_from(end - at + 1).unwrap_or(i32::MAX);
            self.code().arithmetic_imm(Arithmetic::Sub, Width::W64, BUDGET, cost);
            self.leave_if(Condition::SIGN);
        }
    }

    /// Leaves the function where the condition holds; R0 means nothing.
    pub fn leave_if(&mut self, condition: Condition) {
        self.leave_used = true;
        let leave = self.leave;
        self.code().jump_if(condition, leave);
    }

    fn instruction(&mut self, at: usize) -> Result<(), Error> {
        match self.nodes[at].insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src),
            Insn::Neg { width, dst } => self.negate(width, dst),
            Insn::MoveSignExtend { width, from, dst, src } => {
                self.code().sign_extend(from, width, gpr(dst), gpr(src));
            }
            Insn::Endian { order, size, dst } => self.endian(order, size, dst),
            Insn::LoadImm64 { dst, imm } => self.load_imm64(at, dst, imm)?,
            insn if self.in_arena(at) => self.arena_access(at, insn)?,
            Insn::Load { size, signed, dst, address } => self.load(size, signed, dst, memory(address)),
            Insn::Store { size, address, src } => self.store(size, memory(address), src),
            Insn::Atomic { op, fetch, size, address, src } => {
                self.atomic(at, op, fetch, size, memory(address), src)?;
            }
            // x86 orders loads after loads and stores after everything: plain moves acquire and release.
            Insn::LoadAcquire { size, dst, address } => self.load(size, false, dst, memory(address)),
            Insn::StoreRelease { size, address, src } => {
                self.store(size, memory(address), kiln_isa::Source::Reg(src));
            }
            Insn::LoadPacket { mode, size, offset } => self.load_packet(at, mode, size, offset)?,
            Insn::AddressSpaceCast { dst, src, to, .. } => self.cast_address(at, dst, src, to)?,
            Insn::Jump { .. } => self.jump(at)?,
            Insn::Branch { op, width, dst, src, .. } => self.branch(at, op, width, dst, src)?,
            Insn::MayGoto { .. } => self.may_goto(at)?,
            Insn::Call(target) => self.call(at, target)?,
            Insn::Exit => self.exit(at),
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

    fn saved(&self) -> impl DoubleEndedIterator<Item = Gpr> + use<> {
        let runtime = (self.is_entry && self.shared.plan.runtime).then_some(RUNTIME);
        self.plan.saved.iter().map(gpr).chain(runtime)
    }

    /// Bytes that rsp is lowered by: calls need it at a multiple of 16, the red zone may save it.
    fn lowered(&self) -> i32 {
        let pushes = self.saved().count() as i32 + i32::from(self.plan.frame);
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

    fn prologue(&mut self) {
        let lowered = self.lowered();
        for saved in self.saved() {
            self.code().push(saved);
        }
        if self.plan.frame {
            self.code().push(Gpr::RBP);
            self.code().mov(Width::W64, Gpr::RBP, Gpr::RSP);
        }
        if lowered == 8 {
            self.code().push(Gpr::RAX);
        } else if lowered > 0 {
            self.code().arithmetic_imm(Arithmetic::Sub, Width::W64, Gpr::RSP, lowered);
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

    /// Undoes the prologue; keeps rax, rdi and rsi.
    pub fn tear_down(&mut self) {
        let lowered = self.lowered();
        if self.budget() && (self.is_entry || self.plan.may_tail_call) {
            self.code().store(Size::B8, runtime_field(Runtime::BUDGET), BUDGET);
        }
        if self.plan.frame {
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

    fn exit(&mut self, at: usize) {
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

    fn finish(&mut self) {
        if self.leave_used || self.cold.iter().any(|cold| cold.back.is_none()) {
            let leave = self.leave;
            self.code().bind(leave);
            self.tear_down();
            self.code().ret();
        }
        for cold in std::mem::take(&mut self.cold) {
            self.code().bind(cold.from);
            match cold.kind {
                ColdKind::Skip => {}
                ColdKind::Zero(gpr) => self.code().constant(gpr, 0),
                ColdKind::ZeroExtend(gpr) => self.code().mov(Width::W32, gpr, gpr),
                ColdKind::Negate(width, gpr) => self.code().unary(super::assembler::Unary::Neg, width, gpr),
            }
            let to = cold.back.unwrap_or(self.leave);
            self.code().jump(to);
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
}
