//! Which facts of the verified program a pass may still use after its rewrites.

use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{Ids, Node};

use crate::flow::demand::Demand;

/// What a pass remembers about a function while facts grow stale.
#[derive(Clone, Debug, Default)]
pub struct Staleness {
    /// Instructions before which facts no longer describe the state.
    pub(super) insns: Ids,
    /// Instructions after which more stack bytes may be read than the facts say.
    pub(super) after: Ids,
    /// Registers that may differ from the facts, in bits that nothing reads.
    pub(super) registers: RegSet,
    /// What the function's instructions make of registers: what each reads, and what it writes.
    flow: Vec<(RegSet, Reg)>,
    /// Whether stack bytes may differ from the facts.
    pub(super) stack: bool,
    /// Registers that a rewrite reads where they were not read before. From then on they count as read everywhere.
    pub(super) pinned: RegSet,
}

impl Staleness {
    /// For a function with these instructions, in which nothing is stale.
    pub fn new(nodes: &[Node]) -> Staleness {
        Staleness { flow: nodes.iter().filter_map(flow).collect(), ..Staleness::default() }
    }

    /// Marks a register, and the registers computed from it, as holding other values.
    fn spread(&mut self, reg: Reg) {
        self.registers.insert(reg);
        loop {
            let stale = self.registers;
            let reached = self.flow.iter().filter(|(read, _)| read.intersection(stale) != RegSet::EMPTY);
            let more = reached.fold(stale, |set, (_, written)| set.union(RegSet::of(&[*written])));
            if more == stale {
                return;
            }
            self.registers = more;
        }
    }

    /// Records which facts a proved rewrite makes stale. `spoiled` tells whether bits of a register are not read afterwards.
    pub(super) fn rewritten(&mut self, old: &[Node], new: &[Node], spoiled: impl Fn(Reg) -> bool) {
        let both = || old.iter().chain(new);
        // The state before a first instruction that stays in place does not change, nor what is read after such a last one.
        let kept = |one: Option<&Node>, other: Option<&Node>| {
            one.zip(other).filter(|(one, other)| one.id == other.id).map(|(one, _)| one.id)
        };
        let (first, last) = (kept(old.first(), new.first()), kept(old.last(), new.last()));
        self.insns.extend(both().map(|node| node.id).filter(|id| Some(*id) != first));
        self.after.extend(both().map(|node| node.id).filter(|id| Some(*id) != last));
        self.flow.extend(new.iter().filter_map(flow));
        for reg in both().filter_map(|node| node.insn.written()) {
            if spoiled(reg) {
                self.spread(reg);
            }
        }
        self.stack |= both().any(|node| matches!(node.insn, Insn::Store { .. }));
    }

    /// Registers that may differ from the facts, and whether stack bytes may.
    pub(super) fn extent(&self) -> (RegSet, bool) {
        (self.registers, self.stack)
    }

    /// Registers that count as read everywhere.
    pub fn pinned(&self) -> RegSet {
        self.pinned
    }

    /// The demand, including registers that rewrites read.
    pub fn with_pinned(&self, mut demand: Demand) -> Demand {
        for reg in self.pinned.iter() {
            demand.read(reg, 64);
        }
        demand
    }
}

/// What an instruction reads and writes, if it only computes. Operands of stores and calls are read whole, so memory
/// holds nothing stale.
fn flow(node: &Node) -> Option<(RegSet, Reg)> {
    let computes =
        matches!(node.insn, Insn::Alu { .. } | Insn::Neg { .. } | Insn::MoveSignExtend { .. } | Insn::Endian { .. });
    Some((node.insn.read(), node.insn.written()?)).filter(|_| computes)
}
