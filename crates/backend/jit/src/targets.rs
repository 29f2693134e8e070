//! Where a function's branches lead, by position.

use std::collections::HashMap;

use kiln_isa::{CallTarget, Insn};
use kiln_program::{InsnId, Node};

use crate::Error;

/// Whether a function may end with an instruction: `bpf_throw` does not come back.
fn ends(last: &Insn) -> bool {
    matches!(last, Insn::Exit | Insn::Jump { .. } | Insn::Call(CallTarget::Kfunc { .. }))
}

/// Where a function's branches lead. Positions count the function's instructions from 0.
pub(crate) struct Targets {
    /// The position of each instruction.
    pub positions: HashMap<InsnId, usize>,
    /// Where each instruction branches to.
    targets: Vec<Option<usize>>,
    /// The first instruction that branches here.
    first_source: Vec<Option<usize>>,
    /// Whether control can come here from the instruction before.
    falls_into: Vec<bool>,
    loop_end: Vec<Option<usize>>,
}

impl Targets {
    /// # Errors
    /// Refuses a function that runs past its end, and a branch to an instruction that the function does not have.
    pub fn of(nodes: &[Node]) -> Result<Targets, Error> {
        if !nodes.last().is_some_and(|last| ends(&last.insn)) {
            return Err(Error::Malformed("a function runs past its end"));
        }
        let positions: HashMap<_, _> = nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        let mut targets = vec![None; nodes.len()];
        let mut first_source = vec![None; nodes.len()];
        let falls = |node: &Node| !matches!(node.insn, Insn::Exit | Insn::Jump { .. });
        let falls_into = std::iter::once(true).chain(nodes.iter().map(falls)).take(nodes.len()).collect();
        let mut loop_end = vec![None; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            let Some(target) = node.target() else { continue };
            let target = *positions.get(&target).ok_or(Error::Malformed("a branch leads nowhere"))?;
            targets[at] = Some(target);
            first_source[target].get_or_insert(at);
            if target <= at {
                loop_end[target] = Some(at);
            }
        }
        Ok(Targets { positions, targets, first_source, falls_into, loop_end })
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
        self.first_source[at].is_some()
    }

    /// The instructions from a loop's header to the last one that jumps back there; `None` where no loop begins.
    pub fn loop_length(&self, header: usize) -> Option<usize> {
        self.loop_end[header].map(|end| end - header + 1)
    }

    /// Whether an innermost loop begins here that is worth aligning: no-operations in front of it run once a loop, or
    /// never. Branches that lead back are not all loops. Here both `a` and `b` are in the same one, which begins at `c`:
    ///
    /// ```text
    ///      goto c
    ///   a: r0 += r1
    ///   b: r2 += 1              no-operations before `b` would run in every turn that comes from `a`
    ///      if r2 == 96 goto out
    ///   c: ...
    ///      if r3 == 0 goto b
    ///      goto a
    /// ```
    pub fn aligned_loop(&self, header: usize) -> bool {
        let Some(end) = self.loop_end[header] else { return false };
        let inside = header + 1..=end;
        let innermost = || self.loop_end[inside.clone()].iter().all(Option::is_none);
        let entered_inside = || self.first_source[inside.clone()].iter().flatten().any(|source| *source < header);
        innermost() && (!self.falls_into[header] || !entered_inside())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(text: &str) -> Vec<usize> {
        let object = kiln_program::text::parse(&format!("; program xdp\n{text}")).expect("it parses");
        let targets = Targets::of(&object.functions[0].nodes).expect("valid");
        (0..object.functions[0].nodes.len()).filter(|at| targets.aligned_loop(*at)).collect()
    }

    #[test]
    fn loops_are_aligned_where_no_operations_run_once() {
        // An inner loop in an outer one; a test at the bottom, which is jumped to.
        assert_eq!(aligned(" r1 = 1\na:\n r2 = 1\nb:\n r2 += 1\n if r2 != 9 goto b\n if r1 != 9 goto a\n exit"), [2]);
        assert_eq!(aligned(" r1 = 1\n goto t\na:\n r1 += 1\nt:\n if r1 != 9 goto a\n exit"), [2]);
        // Two branches back into the middle of one loop.
        let tree =
            " goto c\na:\n r0 += r1\nb:\n r2 += 1\n if r2 == 96 goto o\nc:\n if r3 == 0 goto b\n goto a\no:\n exit";
        assert_eq!(aligned(tree), []);
    }
}
