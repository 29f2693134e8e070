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
    /// What instructions that only compute read, by the register that they write.
    flow: [RegSet; Reg::COUNT],
    /// Whether stack bytes may differ from the facts.
    pub(super) stack: bool,
    /// Registers that a rewrite reads where they were not read before. From then on they count as read everywhere.
    pub(super) pinned: RegSet,
}

impl Staleness {
    /// For a function with these instructions, in which nothing is stale.
    pub fn new(nodes: &[Node]) -> Staleness {
        let mut staleness = Staleness::default();
        staleness.add_flow(nodes);
        staleness
    }

    /// What is stale in other code of the function after this: the registers and the stack, but no instruction.
    pub(super) fn elsewhere(&self) -> Staleness {
        Staleness { insns: Ids::default(), after: Ids::default(), ..*self }
    }

    /// The same with the registers that count as read elsewhere.
    pub(super) fn with_pinned_of(&self, other: &Staleness) -> Staleness {
        Staleness { pinned: other.pinned, ..self.clone() }
    }

    /// Adds what a rewrite of other code made stale. `in_loop`: that code may run again after itself, so what it reads
    /// counts as read from now on. Elsewhere it is enough that demand is computed anew.
    pub(super) fn spread_from(&mut self, other: &Staleness, in_loop: bool) {
        self.flow.iter_mut().zip(other.flow).for_each(|(own, other)| *own = own.union(other));
        self.stack |= other.stack;
        if in_loop {
            self.pinned = self.pinned.union(other.pinned);
        }
        self.spread(other.registers);
    }

    fn add_flow(&mut self, nodes: &[Node]) {
        for (read, written) in nodes.iter().filter_map(flow) {
            let own = &mut self.flow[written.index()];
            *own = own.union(read);
        }
    }

    /// Marks registers, and the registers computed from them, as holding other values.
    fn spread(&mut self, registers: RegSet) {
        self.registers = self.registers.union(registers);
        loop {
            let stale = self.registers;
            let reached = Reg::all().filter(|reg| !self.flow[reg.index()].intersection(stale).is_empty());
            self.registers = reached.fold(stale, |set, reg| set.union(RegSet::of(&[reg])));
            if self.registers == stale {
                return;
            }
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
        self.add_flow(new);
        self.spread(both().filter_map(|node| node.insn.written()).filter(|reg| spoiled(*reg)).collect());
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
