//! Numbers that a loop begins with are hidden from the verifier, so that it does not explore every iteration.

use kiln_isa::{Address, AluOp, Insn, Reg, RegSet, Source, Width};
use kiln_program::{InsnId, Node};
use kiln_verifier::Value;

use super::canceller::{Canceller, Scratch};
use crate::error::Error;
use crate::frame::{load, store};

impl Canceller<'_, '_> {
    /// Makes the numbers unknown to the verifier that change in a loop: `r ^= x; r ^= x` with an unknown `x`, the iteration
    /// count. With a known start, the verifier would explore every iteration.
    pub(super) fn hidden_numbers(
        &mut self,
        header: &Node,
        stand_in: InsnId,
        live: RegSet,
        released: RegSet,
    ) -> Result<Vec<Node>, Error> {
        let (registers, slots) = self.changing_numbers(header, stand_in, live);
        if registers.is_empty() && slots.is_empty() {
            return Ok(Vec::new());
        }
        self.edit.frame.begin_place();
        let mut scratch = Scratch::new(live, registers.union(released));
        let unknown = scratch.take(self.edit, header.id)?;
        let value = if slots.is_empty() { unknown } else { scratch.take(self.edit, header.id)? };
        let borrowed = scratch.borrowed;
        let mut insns: Vec<Insn> = borrowed.iter().map(|(reg, kept)| kept.save(*reg)).collect();
        insns.push(load(unknown, Reg::R10, self.at));
        if !self.own {
            insns.push(load(unknown, unknown, 0));
        }
        let hide = |reg: Reg| {
            let xor = Insn::Alu { op: AluOp::Xor, width: Width::W64, dst: reg, src: Source::Reg(unknown) };
            [xor, xor]
        };
        insns.extend(registers.iter().flat_map(hide));
        for slot in slots {
            insns.push(load(value, Reg::R10, slot));
            insns.extend(hide(value));
            insns.push(store(Reg::R10, slot, value));
        }
        insns.extend(borrowed.iter().map(|(reg, kept)| kept.restore(*reg)));
        Ok(self.edit.nodes(insns, header.line))
    }

    /// The live registers and the stack slots with numbers that a loop changes.
    fn changing_numbers(&self, header: &Node, stand_in: InsnId, live: RegSet) -> (RegSet, Vec<i16>) {
        let function = self.edit.function;
        let Some(known) = self.edit.facts.at(stand_in) else { return (RegSet::EMPTY, Vec::new()) };
        let body = crate::loops::body(function, header.id);
        let inside = || body.iter().map(|at| function.nodes[*at].insn);
        let numbers = self.edit.numbers_before(header.id);
        let is_number = |reg: &Reg| match &known.registers[reg.index()] {
            Value::Unknown => numbers.contains(*reg),
            value => changes(value),
        };
        let registers = live.iter().filter(is_number).filter(|reg| inside().any(|insn| writes(&insn, *reg)));
        let is_stored = |slot: i16| {
            let place = Address { base: Reg::R10, offset: slot };
            inside().any(|insn| matches!(insn, Insn::Store { address, .. } if address == place))
        };
        let slots = known.stack.iter().filter(|(slot, value)| changes(value) && is_stored(**slot));
        (registers.collect(), slots.map(|(slot, _)| *slot).collect())
    }
}

/// Whether a value is a number that is not the same in every iteration.
fn changes(value: &Value) -> bool {
    matches!(value, Value::Scalar(scalar) if scalar.umin != scalar.umax)
}

fn writes(insn: &Insn, reg: Reg) -> bool {
    matches!(insn, Insn::Call(_)) && RegSet::CALLER_SAVED.contains(reg) || insn.written() == Some(reg)
}
