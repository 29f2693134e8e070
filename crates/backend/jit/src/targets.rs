//! Where a function's branches lead, by position.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kiln_isa::{CallTarget, Insn};
use kiln_program::liveness::Positions;
use kiln_program::{Function, FunctionId, InsnId, Node, Object};

use crate::Error;

/// Whether a function may end with an instruction: `bpf_throw` does not come back.
fn ends(last: &Insn) -> bool {
    !last.falls_through() || matches!(last, Insn::Call(CallTarget::Kfunc { .. }))
}

/// The targets of a function's indirect jumps.
pub(crate) fn jump_targets(object: &Object, id: FunctionId) -> Vec<InsnId> {
    object.functions.get(id.index()).map(Function::jump_targets).unwrap_or_default()
}

/// Where a function's branches lead. Positions count the function's instructions from 0.
pub(crate) struct Targets {
    /// The position of each instruction.
    pub positions: Positions,
    /// Where each instruction branches to.
    targets: Vec<Option<usize>>,
    /// The first instruction that branches here.
    first_source: Vec<Option<usize>>,
    /// Whether control can come here from the instruction before.
    falls_into: Vec<bool>,
    loop_end: Vec<Option<usize>>,
    /// Where all indirect jumps lead: the address that a program jumps to, and the position, by ascending addresses.
    pub indirect: Vec<(u32, usize)>,
    /// The indirect jumps.
    indirect_jumps: Vec<usize>,
}

impl Targets {
    /// # Errors
    /// Refuses a function that runs past its end, and a branch to an instruction that the function does not have.
    pub fn of(nodes: &[Node], jump_targets: &[InsnId]) -> Result<Targets, Error> {
        if !nodes.last().is_some_and(|last| ends(&last.insn)) {
            return Err(Error::Malformed("a function runs past its end"));
        }
        let positions = Positions::of(nodes);
        let mut targets = vec![None; nodes.len()];
        let mut first_source = vec![None; nodes.len()];
        let falls = |node: &Node| node.insn.falls_through();
        let falls_into = std::iter::once(true).chain(nodes.iter().map(falls)).take(nodes.len()).collect();
        let mut loop_end = vec![None; nodes.len()];
        let position = |id: &InsnId| Some((id.0, positions.get(id)?));
        let indirect = jump_targets.iter().map(position).collect::<Option<Vec<_>>>();
        let mut indirect = indirect.ok_or(Error::Malformed("a jump table leads nowhere"))?;
        indirect.sort_unstable();
        let jumps = nodes.iter().enumerate().filter(|(_, node)| matches!(node.insn, Insn::JumpIndirect { .. }));
        let indirect_jumps: Vec<usize> = jumps.map(|(at, _)| at).collect();
        if let (Some(first), Some(last)) = (indirect_jumps.first(), indirect_jumps.last()) {
            for (_, target) in &indirect {
                first_source[*target] = Some(*first);
                loop_end[*target] = Some(*last).filter(|last| target <= last);
            }
        }
        for (at, node) in nodes.iter().enumerate() {
            let Some(target) = node.target() else { continue };
            let target = positions.get(&target).ok_or(Error::Malformed("a branch leads nowhere"))?;
            targets[at] = Some(target);
            first_source[target] = Some(first_source[target].map_or(at, |first: usize| first.min(at)));
            if target <= at {
                loop_end[target] = loop_end[target].max(Some(at));
            }
        }
        Ok(Targets { positions, targets, first_source, falls_into, loop_end, indirect, indirect_jumps })
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

    /// What the budget is charged at each instruction: at loop headers the loop's length. If a `may_goto` asks for more budget
    /// (`refills`), it is charged the length of the innermost loop around it, and headers that no turn comes to without passing a
    /// `may_goto` are not charged.
    pub fn charges(&self, nodes: &[Node], refills: bool) -> Vec<Option<usize>> {
        if !refills {
            return (0..nodes.len()).map(|at| self.loop_length(at)).collect();
        }
        let turns = self.cyclic(|at| !matches!(nodes[at].insn, Insn::MayGoto { .. }));
        // The loops around an instruction, the shortest first, and some that have ended.
        let mut around = BinaryHeap::new();
        let charge = |(at, node): (usize, &Node)| {
            around.extend(self.loop_length(at).map(|length| Reverse((length, at + length))));
            while around.peek().is_some_and(|Reverse((_, end))| *end <= at) {
                around.pop();
            }
            match node.insn {
                Insn::MayGoto { .. } => Some(around.peek().map_or(1, |Reverse((length, _))| *length)),
                _ => self.loop_length(at).filter(|_| turns[at]),
            }
        };
        nodes.iter().enumerate().map(charge).collect()
    }

    /// The instructions that a way around may come through, of those that are `kept`: others may be among them, but if they
    /// are left out, no way around is there.
    fn cyclic(&self, kept: impl Fn(usize) -> bool) -> Vec<bool> {
        let count = self.targets.len();
        let mut inside: Vec<bool> = (0..count).map(kept).collect();
        let fallen = |at: usize| Some(at + 1).filter(|next| *next < count && self.falls_into[*next]);
        let direct =
            || (0..count).flat_map(|at| fallen(at).into_iter().chain(self.targets[at]).map(move |to| (at, to)));
        let indirect = || self.indirect_jumps.iter().flat_map(|at| self.indirect.iter().map(|(_, to)| (*at, *to)));
        let edges = || direct().chain(indirect());
        for forwards in [true, false] {
            // An instruction is out if nothing that is inside leads to it, or it to nothing.
            let mut ways = vec![0; count];
            let mut next = vec![Vec::new(); count];
            for (from, to) in edges().filter(|(from, to)| inside[*from] && inside[*to]) {
                let (from, to) = if forwards { (from, to) } else { (to, from) };
                next[from].push(to);
                ways[to] += 1;
            }
            let mut out: Vec<usize> = (0..count).filter(|at| inside[*at] && ways[*at] == 0).collect();
            while let Some(at) = out.pop() {
                inside[at] = false;
                for to in &next[at] {
                    ways[*to] -= 1;
                    if ways[*to] == 0 {
                        out.push(*to);
                    }
                }
            }
        }
        inside
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

    #[test]
    fn turns_are_charged_once() {
        let charges = |text: &str| {
            let object = kiln_program::text::parse(&format!("; program xdp\n{text}")).expect("it parses");
            let nodes = &object.functions[0].nodes;
            let charges = Targets::of(nodes, &[]).expect("valid").charges(nodes, true);
            charges.iter().enumerate().filter_map(|(at, charge)| Some((at, (*charge)?))).collect::<Vec<_>>()
        };
        // At the `may_goto`, where it is the header and where it is not.
        assert_eq!(charges(" r1 = 1\na:\n may_goto o\n r1 += 1\n if r1 != 9 goto a\no:\n exit"), [(1, 3)]);
        assert_eq!(charges(" r1 = 1\na:\n r1 += 1\n may_goto o\n if r1 != 9 goto a\no:\n exit"), [(2, 3)]);
        // A turn that does not come to it; a loop in the loop.
        assert_eq!(
            charges("a:\n r1 += 1\n if r1 == 5 goto a\n may_goto o\n if r1 != 9 goto a\no:\n exit"),
            [(0, 4), (2, 4)]
        );
        assert_eq!(
            charges("a:\n may_goto o\nb:\n r1 += 1\n if r1 != 9 goto b\n if r2 != 9 goto a\no:\n exit"),
            [(0, 4), (1, 2)]
        );
        assert_eq!(charges(" r1 = 1\n may_goto o\n r1 += 1\no:\n exit"), [(1, 1)]);
    }

    fn aligned(text: &str) -> Vec<usize> {
        let object = kiln_program::text::parse(&format!("; program xdp\n{text}")).expect("it parses");
        let targets = Targets::of(&object.functions[0].nodes, &[]).expect("valid");
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
