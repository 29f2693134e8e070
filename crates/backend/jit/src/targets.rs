//! Where a function's branches lead, by position.

use std::collections::HashMap;

use kiln_isa::Insn;
use kiln_program::{InsnId, Node};

use crate::Error;

/// Where a function's branches lead. Positions count the function's instructions from 0.
pub(crate) struct Targets {
    /// The position of each instruction.
    pub positions: HashMap<InsnId, usize>,
    /// Where each instruction branches to.
    targets: Vec<Option<usize>>,
    is_target: Vec<bool>,
    loop_end: Vec<Option<usize>>,
}

impl Targets {
    /// # Errors
    /// Refuses a function that runs past its end, and a branch to an instruction that the function does not have.
    pub fn of(nodes: &[Node]) -> Result<Targets, Error> {
        if !nodes.last().is_some_and(|last| matches!(last.insn, Insn::Exit | Insn::Jump { .. })) {
            return Err(Error::Malformed("a function runs past its end"));
        }
        let positions: HashMap<_, _> = nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        let mut targets = vec![None; nodes.len()];
        let mut is_target = vec![false; nodes.len()];
        let mut loop_end = vec![None; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            let Some(target) = node.target() else { continue };
            let target = *positions.get(&target).ok_or(Error::Malformed("a branch leads nowhere"))?;
            targets[at] = Some(target);
            is_target[target] = true;
            if target <= at {
                loop_end[target] = Some(at);
            }
        }
        Ok(Targets { positions, targets, is_target, loop_end })
    }

    /// Where a branch leads.
    ///
    /// # Errors
    /// Refuses an instruction that is not a branch.
    pub fn target(&self, at: usize) -> Result<usize, Error> {
        self.targets[at].ok_or(Error::Malformed("a branch without target"))
    }

    /// Whether the instruction branches to that position.
    pub fn leads_to(&self, at: usize, target: usize) -> bool {
        self.targets[at] == Some(target)
    }

    /// Whether control can come here other than from the instruction before.
    pub fn is_target(&self, at: usize) -> bool {
        self.is_target[at]
    }

    /// The instructions from a loop's header to the last one that jumps back there; `None` where no loop begins.
    pub fn loop_length(&self, header: usize) -> Option<usize> {
        self.loop_end[header].map(|end| end - header + 1)
    }

    /// Whether a loop begins here that has no other loop in it.
    pub fn innermost_loop(&self, header: usize) -> bool {
        self.loop_end[header].is_some_and(|end| self.loop_end[header + 1..=end].iter().all(Option::is_none))
    }
}
