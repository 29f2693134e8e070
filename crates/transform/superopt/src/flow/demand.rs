//! Which bits of which registers may still be read.
//!
//! Ordinary liveness says "R1 is read later". Compilers leave many instructions that only affect bits which nothing
//! reads, so this analysis counts bits, from the lowest up:
//!
//! ```text
//!   r1 <<= 32                      demanded of r1 before: 0 bits more than below
//!   r1 >>= 32                      r1: 32 bits, because
//!   if w1 == 5 goto out            compares 32 bits of r1, and nothing reads r1 later
//! ```
//!
//! so both shifts may go. It is a backward analysis over the graph of one function; a register's demand is the
//! number of its low bits that some path may read before they are overwritten.

use std::collections::BTreeMap;

use kiln_isa::{AluOp, AtomicOp, CallTarget, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_platform::Helper;
use kiln_program::{Cfg, Function, InsnId, Node};

use crate::flow::calls::Calls;

/// Demanded low bits of each register, 0 to 64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand([u8; Reg::COUNT]);

impl Demand {
    /// Nothing is read.
    pub const NONE: Demand = Demand([0; Reg::COUNT]);
    /// Everything may be read.
    pub const ALL: Demand = Demand([64; Reg::COUNT]);

    /// How many low bits of a register may be read.
    pub fn of(&self, reg: Reg) -> u32 {
        self.0[reg.index()].into()
    }

    /// At least this many bits of a register are read.
    pub fn read(&mut self, reg: Reg, bits: u32) {
        let known = &mut self.0[reg.index()];
        *known = (*known).max(bits.min(64) as u8);
    }

    /// A register is overwritten; returns what was demanded of it.
    pub fn take(&mut self, reg: Reg) -> u32 {
        std::mem::take(&mut self.0[reg.index()]).into()
    }

    /// The union of two demands.
    #[must_use]
    pub fn join(&self, other: &Demand) -> Demand {
        Demand(std::array::from_fn(|at| self.0[at].max(other.0[at])))
    }

    /// Registers of which any bit may be read; R10 always.
    pub fn live(&self) -> RegSet {
        Reg::all().filter(|reg| self.of(*reg) > 0 || *reg == Reg::R10).collect()
    }

    /// From after an instruction to before it.
    // long: one arm for each form of instruction
    pub fn step_back(&mut self, node: &Node, calls: &Calls) {
        match node.insn {
            Insn::Alu { op, width, dst, src } => self.alu(op, width, dst, src),
            Insn::Neg { width, dst } => {
                let bits = self.take(dst).min(width.bits());
                self.read(dst, bits);
            }
            Insn::MoveSignExtend { from, dst, src, .. } => {
                let bits = self.take(dst).min(from.bits());
                self.read(src, bits);
            }
            Insn::Endian { size, dst, .. } => {
                let bits = if self.take(dst) > 0 { size.bits() } else { 0 };
                self.read(dst, bits);
            }
            Insn::Call(target) => self.call(target, node, calls),
            Insn::LoadPacket { .. } => {
                for reg in RegSet::CALLER_SAVED.iter() {
                    self.take(reg);
                }
                self.read_all(node.insn.read());
            }
            Insn::Exit => {
                *self = Demand::NONE;
                self.read(Reg::R0, 64);
            }
            Insn::Store { size, address, src } => {
                self.read(address.base, 64);
                if let Source::Reg(src) = src {
                    self.read(src, size.bits());
                }
            }
            Insn::StoreRelease { size, address, src } => {
                self.read(address.base, 64);
                self.read(src, size.bits());
            }
            Insn::Atomic { op, fetch, size, address, src } => {
                if fetch && op != AtomicOp::CompareExchange {
                    self.take(src);
                }
                if op == AtomicOp::CompareExchange {
                    self.take(Reg::R0);
                    self.read(Reg::R0, size.bits());
                }
                self.read(src, size.bits());
                self.read(address.base, 64);
            }
            Insn::Branch { op, width, dst, src, .. } => {
                let bits = match (op, src) {
                    (JumpOp::Set, Source::Imm(imm)) if imm >= 0 => width.bits().min(32 - imm.leading_zeros()),
                    _ => width.bits(),
                };
                self.read(dst, bits);
                if let Source::Reg(src) = src {
                    self.read(src, bits);
                }
            }
            _ => {
                if let Some(dst) = node.insn.written() {
                    self.take(dst);
                }
                self.read_all(node.insn.read());
            }
        }
    }

    fn read_all(&mut self, regs: RegSet) {
        for reg in regs.iter() {
            self.read(reg, 64);
        }
    }

    fn alu(&mut self, op: AluOp, width: Width, dst: Reg, src: Source) {
        let bits = self.take(dst).min(width.bits());
        if bits == 0 {
            return;
        }
        let (of_dst, of_src) = match (op, src) {
            (AluOp::Mov, _) => (0, bits),
            // The lowest bits of a sum, difference or product depend on the lowest bits of the operands.
            (AluOp::Add | AluOp::Sub | AluOp::Mul | AluOp::Or | AluOp::Xor, _) => (bits, bits),
            (AluOp::And, Source::Imm(imm)) if imm >= 0 => (bits.min(32 - imm.leading_zeros()), 0),
            (AluOp::And, _) => (bits, bits),
            (AluOp::Lsh, Source::Imm(imm)) => (bits.saturating_sub(imm as u32 % width.bits()), 0),
            (AluOp::Lsh, _) => (bits, 8),
            (AluOp::Rsh, Source::Imm(imm)) => ((bits + imm as u32 % width.bits()).min(width.bits()), 0),
            (AluOp::Arsh, Source::Imm(imm)) => ((bits + imm as u32 % width.bits()).min(width.bits()), 0),
            (AluOp::Rsh | AluOp::Arsh, _) => (width.bits(), 8),
            (AluOp::Div | AluOp::Sdiv | AluOp::Mod | AluOp::Smod, _) => (width.bits(), width.bits()),
        };
        self.read(dst, of_dst);
        if let Source::Reg(src) = src {
            self.read(src, of_src);
        }
    }

    fn call(&mut self, target: CallTarget, node: &Node, calls: &Calls) {
        for reg in RegSet::CALLER_SAVED.iter() {
            self.take(reg);
        }
        let arguments = match target {
            // A helper that is not in the table may read anything.
            CallTarget::Helper(id) => Helper::by_id(id).map_or(5, Helper::most_arguments),
            CallTarget::Subprogram(_) | CallTarget::Kfunc { .. } => return calls.read(node, self),
        };
        self.read_all(RegSet::arguments(arguments));
    }
}

/// Demand after the last instruction of each block.
pub fn at_block_ends(function: &Function, cfg: &Cfg, calls: &Calls) -> Vec<Demand> {
    let mut begin = vec![Demand::NONE; cfg.blocks.len()];
    let mut end = begin.clone();
    let mut pending: Vec<usize> = (0..cfg.blocks.len()).collect();
    let mut queued = vec![true; cfg.blocks.len()];
    while let Some(block) = pending.pop() {
        queued[block] = false;
        let successors = cfg.blocks[block].successors.iter();
        end[block] = successors.fold(Demand::NONE, |demand, next| demand.join(&begin[next.index()]));
        let mut demand = end[block];
        for node in function.nodes[cfg.blocks[block].range.clone()].iter().rev() {
            demand.step_back(node, calls);
        }
        if demand != begin[block] {
            begin[block] = demand;
            for previous in &cfg.blocks[block].predecessors {
                if !std::mem::replace(&mut queued[previous.index()], true) {
                    pending.push(previous.index());
                }
            }
        }
    }
    end
}

/// Demand at branch targets, by the instruction there.
pub type Exits = BTreeMap<InsnId, Demand>;

/// An empty table: no branch target is known.
pub static NOWHERE: Exits = Exits::new();

/// What is read after a run of instructions.
#[derive(Clone, Copy)]
pub struct Afterwards<'a> {
    /// After the last instruction, and at branch targets that are not in `exits`.
    pub end: Demand,
    /// At branch targets.
    pub exits: &'a Exits,
    /// Registers that count as read at every exit.
    pub pinned: RegSet,
    /// What calls read.
    pub calls: &'a Calls,
}

impl<'a> Afterwards<'a> {
    /// After a straight run.
    pub fn straight(end: Demand, calls: &'a Calls) -> Afterwards<'a> {
        Afterwards { end, exits: &NOWHERE, pinned: RegSet::EMPTY, calls }
    }

    /// What is read after the last instruction.
    pub fn at_end(&self) -> Demand {
        let mut demand = self.end;
        self.pinned.iter().for_each(|reg| demand.read(reg, 64));
        demand
    }

    /// What is read at the branch's target; `None` if the instruction is not a branch.
    pub fn at_exit(&self, node: &Node) -> Option<Demand> {
        let end = self.exits.get(&node.target()?).copied().unwrap_or(self.end);
        Some(Afterwards { end, ..*self }.at_end())
    }

    /// From after an instruction to before it.
    pub fn step_back(&self, demand: &mut Demand, node: &Node) {
        if let Some(exit) = self.at_exit(node) {
            *demand = demand.join(&exit);
        }
        demand.step_back(node, self.calls);
    }

    /// Demand before a run that nothing but the end follows.
    pub fn before(&self, nodes: &[Node]) -> Demand {
        let mut demand = self.at_end();
        nodes.iter().rev().for_each(|node| self.step_back(&mut demand, node));
        demand
    }

    /// Demand after each instruction of a run; for a branch, if it is not taken.
    pub fn each(&self, nodes: &[Node]) -> Vec<Demand> {
        let mut result = vec![Demand::NONE; nodes.len()];
        let mut demand = self.at_end();
        for (at, node) in nodes.iter().enumerate().rev() {
            result[at] = demand;
            self.step_back(&mut demand, node);
        }
        result
    }

    /// Removes instructions whose result is not read, from the last to the first.
    pub fn without_dead(&self, nodes: &[Node]) -> Vec<Node> {
        let mut kept = Vec::with_capacity(nodes.len());
        let mut demand = self.at_end();
        for node in nodes.iter().rev() {
            if !is_dead(node, &demand) {
                self.step_back(&mut demand, node);
                kept.push(node.clone());
            }
        }
        kept.reverse();
        kept
    }
}

/// Demand after each instruction of a straight run, given the demand after the last.
pub fn after_each(nodes: &[Node], end: Demand, calls: &Calls) -> Vec<Demand> {
    Afterwards::straight(end, calls).each(nodes)
}

/// Whether an instruction may read a register, also as an argument of a call.
pub fn reads(node: &Node, reg: Reg, calls: &Calls) -> bool {
    let mut demand = Demand::NONE;
    demand.step_back(node, calls);
    demand.of(reg) > 0 || node.insn.read().contains(reg)
}

/// Whether an instruction only computes a result that is not read, given what is read after it.
pub fn is_dead(node: &Node, after: &Demand) -> bool {
    let written = node.insn.written().filter(|dst| *dst != Reg::R10);
    only_computes(&node.insn) && written.is_some_and(|dst| after.of(dst) == 0)
}

/// Whether an instruction only computes its destination. Loads count: the verifier has proved that they cannot fault.
pub fn only_computes(insn: &Insn) -> bool {
    matches!(
        insn,
        Insn::Alu { .. }
            | Insn::Neg { .. }
            | Insn::MoveSignExtend { .. }
            | Insn::Endian { .. }
            | Insn::LoadImm64 { .. }
            | Insn::Load { .. }
    )
}

/// Removes from a straight run the instructions whose result is not read.
pub fn without_dead(nodes: &[Node], end: Demand, calls: &Calls) -> Vec<Node> {
    Afterwards::straight(end, calls).without_dead(nodes)
}
