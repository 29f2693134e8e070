//! A bound on the sum of two numbers: each value of the first one gets a path of its own, and a bound of the second one.
//!
//! ```text
//!                                if r1 & 1 goto the next instruction     changes nothing; the verifier goes on with
//!                                if r1 & 2 goto the next instruction     two states, and then with four: in each of
//!                                ...                                     them, r1 is one number
//!                                r0 = 256
//!                                r0 -= r1
//!                                if r2 <= r0 goto L                      never false: r1 + r2 is 0 to 256 here
//!                                r2 = r0
//!    r3 += r1             -->    L: r3 += r1
//!    call f(r3, r2)              call f(r3, r2)
//! ```
//!
//! The verifier knows the range of each number, and not that one is larger where the other is smaller. With one state for
//! each value of the first, it needs to know nothing else.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Source, Width};
use kiln_program::{Function, InsnId, Node, Object, Reference, liveness};
use kiln_verifier::{Reason, Rejection};

use crate::means::{self, Change};
use crate::places::Place;
use crate::search::{Removed, Search, UNLIKELY};
use crate::{places, range};

/// How many bits of the first number get paths of their own.
const BITS: [u32; 3] = [8, 6, 10];
/// Additions before the rejected instruction that are tried.
const MAX_ADDITIONS: usize = 4;
/// Bounds that are tried for one pair of numbers.
const MAX_BOUNDS: usize = 24;

/// Two numbers in front of an instruction, and what their sum may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sum {
    /// The first number, and where.
    first: Place,
    /// The second number.
    second: Reg,
    /// A register that holds nothing there.
    free: Reg,
    /// Bits of the first number that count; it has no others.
    bits: u32,
    /// The least value of the second number: 0 or 1.
    least: i32,
    /// The highest value of the sum.
    most: i32,
}

/// What happens to a second number that is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Otherwise {
    /// It becomes the nearest number in the range.
    Nearest,
    /// The run ends with this value.
    Ends(i32),
}

impl Search<'_> {
    /// Makes a bound on the sum of two numbers known, if the rejection is about where an access ends.
    pub(crate) fn sum(&mut self, object: &Object, rejection: &Rejection) -> Option<Result<Removed, String>> {
        if !matches!(rejection.reason, Reason::MapValueBounds | Reason::MemoryBounds | Reason::ArgumentSize) {
            return None;
        }
        let at = rejection.insn;
        let found = places::near(object, self.program, at);
        let last = found.first()?.position;
        let additions = found.into_iter().filter(|place| place.position != last).take(2 * MAX_ADDITIONS);
        let mut failed = None;
        for first in additions {
            for (second, free) in others(object.function(first.function), first) {
                if !(self.go_on)() {
                    return failed;
                }
                let Some(sum) = self.decided_by(object, at, first, second, free) else { continue };
                match self.prove_sum(object, at, sum) {
                    Ok(removed) => return Some(Ok(removed)),
                    Err(why) => failed = Some(Err(why)),
                }
            }
        }
        failed
    }

    /// The widest bound of a sum with which an instruction is accepted.
    fn decided_by(&mut self, object: &Object, at: InsnId, first: Place, second: Reg, free: Reg) -> Option<Sum> {
        let with = |least: i32, bits: u32, most: i32| Sum { first, second, free, bits, least, most };
        // If the two numbers were known, would it be accepted?
        let least = [0, 1].into_iter().find(|least| self.accepts(object, at, with(*least, 0, *least)))?;
        let mut bounds: Vec<i32> = object.maps.iter().filter_map(|map| i32::try_from(map.value_size).ok()).collect();
        bounds.extend(range::seeds(object.function(first.function)));
        bounds.sort_unstable_by_key(|bound| std::cmp::Reverse(*bound));
        bounds.dedup();
        bounds.retain(|bound| *bound > 1);
        bounds.truncate(MAX_BOUNDS);
        let tried = BITS.into_iter().flat_map(|bits| bounds.iter().map(move |most| with(least, bits, *most)));
        tried.into_iter().find(|sum| (self.go_on)() && self.accepts(object, at, *sum))
    }

    fn accepts(&self, object: &Object, at: InsnId, sum: Sum) -> bool {
        self.try_sum(object, at, sum).is_some()
    }

    fn try_sum(&self, object: &Object, at: InsnId, sum: Sum) -> Option<Removed> {
        let (changed, inserted) = sum.apply(object, Otherwise::Nearest)?;
        let node = object.function(sum.first.function).nodes.get(sum.first.position)?;
        let line = object.line(node).cloned();
        let change = Change::without_number(sum.first.function, node.id, &means::SUM, line);
        let change = Change { register: sum.second, range: [sum.least, sum.most], inserted, ..change };
        self.judged(changed, change, at)
    }

    fn prove_sum(&mut self, object: &Object, at: InsnId, sum: Sum) -> Result<Removed, String> {
        let removed = self.try_sum(object, at, sum).ok_or("the verifier does not accept it")?;
        let ends = UNLIKELY.into_iter().try_for_each(|value| {
            let (probed, _) = sum.apply(object, Otherwise::Ends(value)).ok_or("there is no check for it")?;
            (self.prove)(&self.base, &probed)
        });
        ends.and_then(|()| (self.prove)(&self.base, &removed.0)).map_err(|why| {
            let Sum { first, second, least, most, .. } = sum;
            self.note_unproved(removed.1.clone(), removed.2.as_deref());
            format!("that {second} is {least} to {most} minus {} is not proved: {why}", first.register)
        })?;
        Ok(removed)
    }
}

/// Registers that hold something in front of an instruction, each with one that holds nothing.
fn others(function: &Function, first: Place) -> Vec<(Reg, Reg)> {
    let positions = liveness::Positions::of(&function.nodes);
    let after = liveness::live_after(&function.nodes, &positions)[first.position];
    let insn = function.nodes[first.position].insn;
    let before = after.difference(liveness::written(&insn)).union(liveness::read(&insn));
    let Some(free) = Reg::all().find(|reg| *reg != Reg::R10 && !before.contains(*reg)) else { return Vec::new() };
    let is_other = |reg: &Reg| *reg != first.register && *reg != Reg::R10;
    before.iter().filter(is_other).map(|reg| (reg, free)).collect()
}

impl Sum {
    /// The object with the bound, and the ids of what was inserted.
    fn apply(&self, object: &Object, otherwise: Otherwise) -> Option<(Object, Vec<InsnId>)> {
        let mut changed = object.clone();
        let old = object.function(self.first.function).nodes.get(self.first.position)?;
        let mut nodes: Vec<Node> = Vec::new();
        for insn in self.insns(otherwise) {
            nodes.push(changed.new_node(insn, Reference::None));
        }
        let ids: Vec<InsnId> = nodes.iter().map(|node| node.id).collect();
        for (position, node) in nodes.iter_mut().enumerate() {
            node.line = old.line;
            if let Insn::Branch { op, width, dst, src, offset } = node.insn {
                let target = ids.get(position + 1 + offset as usize).copied().unwrap_or(old.id);
                node.reference = Reference::Branch(target);
                node.insn = Insn::Branch { op, width, dst, src, offset: 0 };
            }
        }
        let function = changed.functions.get_mut(self.first.function.index())?;
        means::retarget(function, old.id, *ids.first()?);
        function.nodes.splice(self.first.position..self.first.position, nodes);
        Some((changed, ids))
    }

    /// The instructions, with the distances of branches in them.
    fn insns(&self, otherwise: Otherwise) -> Vec<Insn> {
        let (dst, width) = (self.first.register, Width::W64);
        let alu = |op: AluOp, dst: Reg, src: Source| Insn::Alu { op, width, dst, src };
        let skip = |op: JumpOp, dst: Reg, src: Source, offset: i16| Insn::Branch { op, width, dst, src, offset };
        let low = (1_i32 << self.bits) - 1;
        let mut insns = vec![alu(AluOp::And, dst, Source::Imm(low))];
        insns.extend((0..self.bits).map(|bit| skip(JumpOp::Set, dst, Source::Imm(1 << bit), 0)));
        insns.push(alu(AluOp::Mov, self.free, Source::Imm(self.most)));
        insns.push(alu(AluOp::Sub, self.free, Source::Reg(dst)));
        let mut bound = |op: JumpOp, src: Source| {
            let out = match otherwise {
                Otherwise::Nearest => vec![alu(AluOp::Mov, self.second, src)],
                Otherwise::Ends(value) => vec![Insn::mov_imm(Reg::R0, value), Insn::Exit],
            };
            insns.push(skip(op, self.second, src, out.len() as i16));
            insns.extend(out);
        };
        if self.least > 0 {
            bound(JumpOp::Ge, Source::Imm(self.least));
        }
        bound(JumpOp::Le, Source::Reg(self.free));
        insns
    }
}
