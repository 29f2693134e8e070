//! What a simulation is asked.

use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{Function, InsnId, Node, Object};
use kiln_verifier::{Facts, InsnFacts, StackSet};

use crate::helpers::Helpers;
use crate::simulation::arguments::Arguments;
use crate::simulation::inlined::Inlined;
use crate::simulation::unproved::Unproved;
use crate::window::check::relocated_alike;

/// A function before and after.
#[derive(Clone, Copy)]
pub struct Question<'f> {
    /// The object; its functions are not looked at.
    pub object: &'f Object,
    /// The function as it was.
    pub before: &'f Function,
    /// The function as it is to be.
    pub after: &'f Function,
    /// Facts of the old function, where there are any.
    pub facts: Option<&'f Facts>,
    /// If `before` has calls written out, what is known of these instructions.
    pub inlined: Option<&'f Inlined>,
    /// Registers that calls read.
    pub arguments: &'f Arguments,
    /// Steps that the solver may take at each segment.
    pub solver_steps: u32,
    /// Whether to keep the segments as data.
    pub keep_segments: bool,
    /// Whether to give up after the attempts that find nearly all proofs.
    pub quick: bool,
    /// Returns whether to end without an answer. It is called before each segment.
    pub stop: &'f (dyn Fn() -> bool + Sync),
    /// Threads that may help. They do not change the answer.
    pub helpers: &'f Helpers,
}

impl<'f> Question<'f> {
    /// What is known before an instruction of the old function.
    pub(super) fn known(&self, insn: InsnId) -> Option<&'f InsnFacts> {
        match self.inlined.and_then(|inlined| inlined.known.get(&insn)) {
            Some(known) => known.as_ref(),
            None => self.facts?.at(insn),
        }
    }

    pub(super) fn reached(&self, insn: InsnId) -> bool {
        let is_inlined = self.inlined.is_some_and(|inlined| inlined.known.contains_key(&insn));
        is_inlined || self.facts.is_none_or(|facts| facts.reached(insn))
    }

    pub(super) fn live_after(&self, insn: InsnId) -> Option<StackSet> {
        match self.inlined.is_some_and(|inlined| inlined.known.contains_key(&insn)) {
            true => Some(StackSet::ALL),
            false => Some(self.facts?.at(insn)?.stack_live_after),
        }
    }

    /// Registers that an instruction reads, without arguments that the verifier calls unreadable.
    pub(super) fn read_by(&self, node: &Node) -> RegSet {
        let reads = match node.insn {
            Insn::Call(_) => self.arguments.read_by(node),
            _ => node.insn.read(),
        };
        let known = self.known(node.id);
        let readable =
            |reg: &Reg| known.is_none_or(|known| known.registers[reg.index()] != kiln_verifier::Value::Uninit);
        reads.iter().filter(readable).collect()
    }

    /// Checks that everything that a loader relocates is relocated as before.
    pub(super) fn core_kept(&self) -> Result<(), Unproved> {
        let before: Vec<&Node> = self.before.nodes.iter().filter(|node| node.core.is_some()).collect();
        let kept = |node: &&Node| before.iter().any(|old| relocated_alike(self.object, old, node));
        match self.after.nodes.iter().filter(|node| node.core.is_some()).find(|node| !kept(node)) {
            Some(node) => Err(Unproved::Differs(format!("a CO-RE instruction is changed: `{}`", node.insn))),
            None => Ok(()),
        }
    }
}
