//! Spills around calls that need none (`bpf_fastcall`): the kernel removes them before it sums up stacks
//! (`mark_fastcall_patterns`, `remove_fastcall_spills_fills`).
//!
//! ```text
//!   *(u64 *)(r10 - 16) = r1      the function's lowest slot
//!   call get_smp_processor_id    changes r0 only
//!   r1 = *(u64 *)(r10 - 16)      spill and fill go: the function is taken to use the 8 bytes above them
//! ```

use std::ops::Range;

use kiln_isa::{Address, Insn, Reg, RegSet, Size, Source};
use kiln_platform::{Helper, Kfunc, KfuncFlag};

use super::{Code, Op};

/// Bytes that a register takes on the stack.
const SLOT_BYTES: i16 = 8;

impl Op<'_> {
    fn is_fast_call(&self) -> bool {
        self.helper.is_some_and(|helper| helper.fastcall)
            || self.kfunc_row().is_some_and(|kfunc: &Kfunc| kfunc.has(KfuncFlag::Fastcall))
    }

    /// The registers that keep their values over the call, if the called function keeps the contract. `None` for calls of
    /// the program's own functions.
    fn kept_by_call(&self) -> Option<RegSet> {
        if self.helper.is_none() && self.kfunc.is_none() {
            return None;
        }
        let arguments = self.helper.map_or(self.kfunc_arguments.unwrap_or(5), Helper::most_arguments);
        Some(RegSet::arguments(5).difference(RegSet::arguments(arguments)))
    }
}

impl Code<'_> {
    /// Marks spills and fills around calls, and notes the stack of the functions that lose them.
    pub(super) fn mark_fast_calls(&mut self) {
        for function in 0..self.functions.len() {
            let routine = &self.functions[function];
            let positions = routine.start as usize..routine.end as usize;
            if self.ops[positions.clone()].iter().any(Op::is_fast_call) {
                self.functions[function].stack_without_spills = self.mark_spills(&positions);
            }
        }
    }

    /// Returns the bytes of stack above a function's spills, if the kernel removes some. It removes none where other calls
    /// have such spills, too.
    fn mark_spills(&mut self, positions: &Range<usize>) -> Option<u32> {
        let stored = |op: &Op<'_>| spill(&op.node.insn).map(|(_, offset)| offset);
        let lowest = self.ops[positions.clone()].iter().filter_map(stored).min()?;
        let (mut above, mut removes, mut keeps) = (0, false, false);
        for call in positions.clone() {
            let Some(kept) = self.ops[call].kept_by_call() else { continue };
            let spills = self.spills_around(call, positions, kept, lowest);
            if spills > 0 {
                for around in call - spills..=call + spills {
                    self.ops[around].spills_around_call = around != call;
                }
                above = above.min(lowest + SLOT_BYTES * spills as i16);
                removes |= self.ops[call].is_fast_call();
                keeps |= !self.ops[call].is_fast_call();
            }
        }
        (removes && !keeps).then(|| u32::from(above.unsigned_abs()))
    }

    /// How many pairs of a spill and a fill are around a call, the innermost at the lowest slot.
    fn spills_around(&self, call: usize, positions: &Range<usize>, mut kept: RegSet, lowest: i16) -> usize {
        let mut pairs = 0;
        for offset in (lowest..0).step_by(SLOT_BYTES as usize) {
            let Some(before) = call.checked_sub(pairs + 1).filter(|at| positions.contains(at)) else { break };
            let after = call + pairs + 1;
            if !positions.contains(&after) {
                break;
            }
            let (stored, loaded) = (spill(&self.ops[before].node.insn), fill(&self.ops[after].node.insn));
            match stored {
                Some((reg, at)) if loaded == stored && at == offset && kept.contains(reg) => kept.remove(reg),
                _ => break,
            }
            pairs += 1;
        }
        pairs
    }
}

/// A register that is stored to the stack, and where.
fn spill(insn: &Insn) -> Option<(Reg, i16)> {
    match *insn {
        Insn::Store { address: Address { base: Reg::R10, offset }, size: Size::B8, src: Source::Reg(src) } => {
            Some((src, offset))
        }
        _ => None,
    }
}

/// A register that is loaded from the stack, and from where.
fn fill(insn: &Insn) -> Option<(Reg, i16)> {
    match *insn {
        Insn::Load { dst, address: Address { base: Reg::R10, offset }, size: Size::B8, .. } => Some((dst, offset)),
        _ => None,
    }
}
