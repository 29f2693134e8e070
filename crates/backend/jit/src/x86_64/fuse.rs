//! Runs of BPF instructions that become fewer machine instructions.
//!
//! BPF computes an address, loads, and operates in three instructions where x86 has one, and has no sign extension
//! below version 4 and no three-operand forms. Compilers therefore emit the same few runs, and each method here
//! recognizes one kind:
//!
//! ```text
//!   r3 = r1 ; r3 += r2 ; r3 = *(u8 *)(r3 + 4)            movzx edx, byte [rdi + rsi + 4]
//!   r2 <<= 32 ; r2 s>>= 32                               movsxd rsi, esi
//!   r9 += -1 ; if r9 != 0 goto back                      add   r15, -1 ; jne back
//!   r1 = array ll ; call bpf_map_lookup_elem             a check and an addition, as the kernel inlines it
//! ```
//!
//! No run crosses a branch target, and a temporary that a run omits is dead after it.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_program::Node;

use super::function::FunctionCompiler;
use super::memory::memory;
use super::operand::{Arithmetic, Condition, Memory, Shift};
use super::registers::gpr;
use crate::Error;
use crate::walk::{Frame as _, LowerArithmetic as _};

/// The longest run looked at.
const LONGEST: usize = 8;

/// `dst op= src` as fields.
type Alu = (AluOp, Width, Reg, Source);

fn alu(node: Option<&Node>) -> Option<Alu> {
    match node?.insn {
        Insn::Alu { op, width, dst, src } => Some((op, width, dst, src)),
        _ => None,
    }
}

/// `dst = src` between registers.
fn copy(node: Option<&Node>) -> Option<(Width, Reg, Reg)> {
    match alu(node)? {
        (AluOp::Mov, width, dst, Source::Reg(src)) => Some((width, dst, src)),
        _ => None,
    }
}

/// A shift by a constant between 1 and the width.
fn shift(node: Option<&Node>) -> Option<(AluOp, Width, Reg, u8)> {
    match alu(node)? {
        (op @ (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh), width, dst, Source::Imm(amount)) => {
            let in_range = amount > 0 && (amount as u32) < width.bits();
            in_range.then_some((op, width, dst, amount as u8))
        }
        _ => None,
    }
}

fn arithmetic(op: AluOp) -> Option<Arithmetic> {
    match op {
        AluOp::Add => Some(Arithmetic::Add),
        AluOp::Sub => Some(Arithmetic::Sub),
        AluOp::And => Some(Arithmetic::And),
        AluOp::Or => Some(Arithmetic::Or),
        AluOp::Xor => Some(Arithmetic::Xor),
        _ => None,
    }
}

/// An address being computed in `register` by `length` instructions.
pub(super) struct Chain {
    pub place: Memory,
    pub register: Reg,
    pub length: usize,
}

impl<'a> FunctionCompiler<'_, 'a> {
    /// Tries to compile several instructions at once. Returns how many, 0 for none.
    pub(super) fn fused(&mut self, at: usize) -> Result<usize, Error> {
        let insn = self.nodes[at].insn;
        if matches!(insn, Insn::Call(_) | Insn::Jump { .. } | Insn::Exit) {
            return Ok(0);
        }
        let run = self.run(at);
        if !self.shared.options.fusions {
            // The kernel inlines this, too. The length of an array is its author's choice.
            let in_place = self.shared.options.blind.is_none();
            return Ok(in_place.then(|| self.array_look_up(run)).flatten().unwrap_or(0));
        }
        match insn {
            Insn::Branch { .. } => return Ok(if self.inverted_branch(at)? { 2 } else { 0 }),
            Insn::Load { .. } | Insn::Store { .. } => return Ok(self.access_at(at, run, None).unwrap_or(0)),
            Insn::AddressSpaceCast { .. } => return Ok(self.cast_and_access(at)?.unwrap_or(0)),
            Insn::LoadImm64 { .. } => return Ok(self.array_look_up(run).unwrap_or(0)),
            _ => {}
        }
        for attempt in [Self::cast_sum, Self::extension, Self::access, Self::three_operands] {
            if let Some(length) = attempt(self, at, run) {
                return Ok(length);
            }
        }
        self.counted_branch(at, run)
    }

    /// Whether a branch leads here or a region with native code begins here.
    pub(super) fn is_border(&self, at: usize) -> bool {
        self.targets.is_target(at) || self.regions.get(&at).is_some_and(|region| self.native_of(region).is_some())
    }

    /// The instructions from `at` up to the next branch target, region or access to the arena.
    pub(super) fn run(&self, at: usize) -> &'a [Node] {
        let end = if self.in_arena(at) { at } else { self.ends_of_runs[at + 1].min(at + LONGEST) };
        &self.nodes[at..end]
    }

    /// For each position, the first one from it on that is a border, an access to the arena or the function's end.
    pub(super) fn ends_of_runs(&self) -> Vec<usize> {
        let mut ends = vec![self.nodes.len(); self.nodes.len() + 1];
        for at in (0..self.nodes.len()).rev() {
            ends[at] = if self.in_arena(at) || self.is_border(at) { at } else { ends[at + 1] };
        }
        ends
    }

    /// Whether the instruction casts this register alone, to an offset in an arena of 32 bits: that clears its upper half.
    pub(super) fn clears_upper_half(&self, node: Option<&Node>, register: Reg) -> bool {
        let casts = matches!(node.map(|node| node.insn),
            Some(Insn::AddressSpaceCast { dst, src, to: 0, .. }) if dst == register && src == register);
        casts && self.shared.symbols.arena().is_some_and(|arena| arena.bits == 32)
    }

    /// A sum, or an operation whose lower half depends on lower halves only, and a cast of it: 32 bits do both.
    fn cast_sum(&mut self, _: usize, run: &[Node]) -> Option<usize> {
        let moved = copy(run.first()).filter(|(_, to, from)| to != from && !self.is_computed(*from));
        let skip = usize::from(moved.is_some());
        let (op, Width::W64, dst, src) = alu(run.get(skip))? else { return None };
        if !self.clears_upper_half(run.get(skip + 1), dst) {
            return None;
        }
        match (moved, op, src) {
            (Some((_, to, from)), AluOp::Add, Source::Reg(added)) if to == dst && added != dst => {
                let place = Memory { base: gpr(from), index: Some((gpr(added), 1)), displacement: 0 };
                self.code().lea(Width::W32, gpr(dst), place);
            }
            (Some((_, to, from)), AluOp::Add, Source::Imm(imm)) if to == dst => {
                self.code().lea(Width::W32, gpr(dst), Memory::at(gpr(from), imm));
            }
            (None, AluOp::Add | AluOp::Sub | AluOp::And | AluOp::Or | AluOp::Xor, src) => {
                self.alu(op, Width::W32, dst, src);
            }
            _ => return None,
        }
        Some(skip + 2)
    }

    /// Zero and sign extensions: a shift left and back, or a mask.
    fn extension(&mut self, at: usize, run: &[Node]) -> Option<usize> {
        let moved = copy(run.first());
        if moved.is_some_and(|(.., from)| self.is_computed(from)) {
            return None;
        }
        let skip = usize::from(moved.is_some());
        if let (Some((copied, to, from)), Some((AluOp::And, _, dst, Source::Imm(mask @ (0xff | 0xffff))))) =
            (moved, alu(run.get(1)))
            && dst == to
            && !self.tests_zero(at + 1, run.get(2), dst)
        {
            let _ = copied;
            let size = if mask == 0xff { Size::B1 } else { Size::B2 };
            self.code().zero_extend(size, gpr(to), gpr(from));
            return Some(2);
        }
        let (AluOp::Lsh, width, dst, left) = shift(run.get(skip))? else { return None };
        let (back, second_width, same, right) = shift(run.get(skip + 1))?;
        let kept = Size::from_bytes((width.bits() - u32::from(left)) / 8)?;
        let exact =
            left == right && left % 8 == 0 && second_width == width && same == dst && kept.bits() < width.bits();
        let from = match moved {
            Some((copied, to, from)) if to == dst && fits(copied, width) => from,
            Some(_) => return None,
            None => dst,
        };
        match back {
            AluOp::Rsh if exact => self.code().zero_extend(kept, gpr(dst), gpr(from)),
            AluOp::Arsh if exact => self.code().sign_extend(kept, width, gpr(dst), gpr(from)),
            _ => return None,
        }
        Some(skip + 2)
    }

    /// Whether no machine register holds a register, but operands in memory may have it as their base: the frame pointer where rbp
    /// has the arena's base.
    fn is_computed(&self, register: Reg) -> bool {
        register == Reg::R10 && self.shared.plan.base
    }

    /// Whether the next instruction compares `reg` with zero; the flags may already have the result.
    fn tests_zero(&self, at: usize, next: Option<&Node>, reg: Reg) -> bool {
        let _ = at;
        matches!(next.map(|node| node.insn), Some(Insn::Branch { dst, src: Source::Imm(0), .. }) if dst == reg)
    }

    /// Copies and additions that compute an address.
    fn chain(&self, run: &[Node]) -> Option<Chain> {
        let (register, base, mut length) = match copy(run.first()) {
            Some((Width::W64, to, from)) if to != from => (to, from, 1),
            _ => match alu(run.first())? {
                (AluOp::Add, Width::W64, dst, _) => (dst, dst, 0),
                _ => return None,
            },
        };
        let mut place = Memory::at(gpr(base), 0);
        while let Some((op, Width::W64, dst, src)) = alu(run.get(length)) {
            match (op, src) {
                _ if dst != register => break,
                (AluOp::Add, Source::Reg(added)) if place.index.is_none() && added != register => {
                    place.index = Some((gpr(added), 1));
                }
                (AluOp::Add, Source::Imm(imm)) => {
                    let Some(sum) = place.displacement.checked_add(imm) else { break };
                    place.displacement = sum;
                }
                (AluOp::Sub, Source::Imm(imm)) => {
                    let Some(difference) = place.displacement.checked_sub(imm) else { break };
                    place.displacement = difference;
                }
                _ => break,
            }
            length += 1;
        }
        (length > 0).then_some(Chain { place, register, length })
    }

    /// A memory access with its address computed within it, a load with what is done to its value, or both.
    fn access(&mut self, at: usize, run: &[Node]) -> Option<usize> {
        let chain = self.chain(run);
        self.access_at(at, run, chain)
    }

    /// A memory access after the instructions that compute its address, if there are any.
    pub(super) fn access_at(&mut self, at: usize, run: &[Node], chain: Option<Chain>) -> Option<usize> {
        let length = chain.as_ref().map_or(0, |chain| chain.length);
        if let Some(chain) = &chain
            && run.len() == length
        {
            return Some(length + self.accessed(at + length, chain)?);
        }
        let insn = run.get(length)?.insn;
        let address = insn.address()?;
        let mut place = memory(address);
        if let Some(chain) = &chain {
            if address.base != chain.register {
                return None;
            }
            let displacement = chain.place.displacement.checked_add(address.offset.into())?;
            place = Memory { displacement, ..chain.place };
        }
        if let Some(more) = self.compared_byte(at + length, run.get(length..)?, chain.as_ref(), place) {
            return Some(length + more);
        }
        let gone = |this: &Self, register: Reg| !this.lives_after(at + length, register);
        match insn {
            Insn::Load { size, signed, dst, .. } => {
                if let Some(chain) = &chain
                    && chain.register != dst
                    && !gone(self, chain.register)
                {
                    return None;
                }
                chain.as_ref()?;
                self.begin_access(at, length);
                if signed {
                    self.code().sign_extend(size, Width::W64, gpr(dst), place);
                } else {
                    self.code().load(size, gpr(dst), place);
                }
            }
            Insn::Store { size, src, .. } => {
                let chain = chain?;
                if src.reg() == Some(chain.register) || !gone(self, chain.register) {
                    return None;
                }
                self.begin_access(at, length);
                match src {
                    Source::Reg(src) => self.code().store(size, place, gpr(src)),
                    Source::Imm(imm) => self.code().store_imm(size, place, imm),
                }
            }
            _ => return None,
        }
        Some(length + 1)
    }

    /// An access begins, with the address that the `length` instructions before it compute: its fault is its own.
    fn begin_access(&mut self, at: usize, length: usize) {
        if at + length > self.current {
            let own = at + length;
            self.shared.begin_insn(self.nodes[own].id, self.labels[own]);
        }
    }

    /// A byte loaded only to be compared with a constant. `at` is the load, which `run` begins with.
    fn compared_byte(&mut self, at: usize, run: &[Node], chain: Option<&Chain>, place: Memory) -> Option<usize> {
        let Insn::Load { size: Size::B1, signed: false, dst, .. } = run.first()?.insn else { return None };
        let Insn::Branch { op, dst: compared, src: Source::Imm(imm), .. } = run.get(1)?.insn else { return None };
        let imm = u8::try_from(imm).ok()?;
        let unsigned = matches!(op, JumpOp::Eq | JumpOp::Ne | JumpOp::Gt | JumpOp::Ge | JumpOp::Lt | JumpOp::Le);
        let dead = !self.lives_after(at + 1, dst) && chain.is_none_or(|it| !self.lives_after(at + 1, it.register));
        if !unsigned || compared != dst || !dead || self.falls_through(at + 1) {
            return None;
        }
        let target = self.target(at + 1).ok()?;
        self.begin_access(at, 0);
        self.code().compare_byte(place, imm);
        self.code().jump_if(Condition::of(op), target);
        Some(2)
    }

    /// A copy and an operation on it, for operations that have a form with three operands.
    fn three_operands(&mut self, at: usize, run: &[Node]) -> Option<usize> {
        let (copied, to, from) = copy(run.first())?;
        let (op, width, dst, src) = alu(run.get(1))?;
        if dst != to || to == from || !fits(copied, width) || self.tests_zero(at + 1, run.get(2), to) {
            return None;
        }
        let bmi2 = self.shared.options.bmi2;
        match (op, src) {
            (op, src) if self.is_computed(from) && !matches!((op, src), (AluOp::Add | AluOp::Sub, Source::Imm(_))) => {
                return None;
            }
            (AluOp::Add, Source::Imm(imm)) if imm != 0 => {
                self.code().lea(width, gpr(to), Memory::at(gpr(from), imm));
            }
            (AluOp::Sub, Source::Imm(imm)) if imm != 0 && imm != i32::MIN => {
                self.code().lea(width, gpr(to), Memory::at(gpr(from), -imm));
            }
            (AluOp::Add, Source::Reg(added)) => {
                let added = if added == to { from } else { added };
                let place = Memory { base: gpr(from), index: Some((gpr(added), 1)), displacement: 0 };
                self.code().lea(width, gpr(to), place);
            }
            (AluOp::Mul, Source::Imm(imm)) if !(0..=1).contains(&imm) => {
                self.multiply_imm(width, gpr(to), gpr(from), imm);
            }
            (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, Source::Reg(amount)) if bmi2 && amount != to => {
                let shift = match op {
                    AluOp::Lsh => Shift::Left,
                    AluOp::Rsh => Shift::RightLogical,
                    _ => Shift::RightArithmetic,
                };
                self.code().shift_variable(shift, width, gpr(to), gpr(from), gpr(amount));
            }
            _ => return None,
        }
        Some(2)
    }

    /// An operation and a branch on whether its result is zero: the flags know.
    fn counted_branch(&mut self, at: usize, run: &[Node]) -> Result<usize, Error> {
        let Some((alu_op, width, dst, src)) = alu(run.first()) else { return Ok(0) };
        let Some(Insn::Branch { op, width: compared, dst: tested, src: Source::Imm(0), .. }) =
            run.get(1).map(|node| node.insn)
        else {
            return Ok(0);
        };
        let Some(machine) = arithmetic(alu_op) else { return Ok(0) };
        let equality = matches!(op, JumpOp::Eq | JumpOp::Ne);
        let logical = matches!(alu_op, AluOp::And | AluOp::Or | AluOp::Xor) && op != JumpOp::Set;
        // A 32-bit result is zero as 64 bits if and only if it is zero as 32 bits; this does not hold for its sign.
        let same_width = width == compared || width == Width::W32 && equality;
        let fits =
            tested == dst && same_width && (equality || logical && width == compared) && !self.falls_through(at + 1);
        if !fits {
            return Ok(0);
        }
        let target = self.target(at + 1)?;
        match src {
            Source::Imm(imm) => self.code().arithmetic_imm(machine, width, gpr(dst), imm),
            Source::Reg(src) => self.code().arithmetic(machine, width, gpr(dst), gpr(src)),
        }
        self.code().jump_if(Condition::of(op), target);
        Ok(2)
    }
}

/// Whether a copy at one width is enough for what is then done at another.
fn fits(copied: Width, used: Width) -> bool {
    copied == Width::W64 || used == Width::W32
}
