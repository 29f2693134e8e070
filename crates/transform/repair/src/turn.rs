//! Turns branches in the loops of a program that is too complex.
//!
//! At a branch, the verifier first explores the next instruction, and the branch's target waits. If the next instruction is the
//! loop's work, a branch of each turn waits. If it is the end of the work, the verifier explores the rest once. Later turns
//! meet the same states, and are not explored again:
//!
//! ```text
//!   L: if r1 == 0 goto M             L: if r1 != 0 goto B
//!                                       goto M
//!      ...                           B: ...
//!   M: r2 += 1              -->      M: r2 += 1
//!      if r2 < 600 goto L               if r2 < 600 goto L
//! ```

use std::collections::BTreeMap;

use kiln_isa::Insn;
use kiln_program::{FunctionId, InsnId, Object, Program, Reference};

use crate::forget::in_loops;

/// Source lines whose branches are tried.
const MAX_LINES: usize = 24;

/// Branches, and their functions.
pub type Branches = Vec<(FunctionId, InsnId)>;

/// Returns the branches of each source line in the loops of a program. The compiler makes several of a line in an inlined
/// function, and they are alike. A branch without a line is alone.
pub fn lines(object: &Object, program: &Program) -> Vec<Branches> {
    let mut lines: BTreeMap<_, Branches> = BTreeMap::new();
    for id in object.reachable_functions(program.entry) {
        let function = object.function(id);
        for at in in_loops(function) {
            let node = &function.nodes[at];
            if !matches!(node.insn, Insn::Branch { op, .. } if op.row().negated.is_some()) {
                continue;
            }
            let line = object.line(node).filter(|line| line.line > 0);
            let key = line.map_or_else(|| Err(node.id), |line| Ok((line.file.clone(), line.line)));
            lines.entry(key).or_default().push((id, node.id));
        }
    }
    lines.into_values().take(MAX_LINES).collect()
}

/// Turns branches; returns the changed object and the ids of what was inserted.
pub fn apply(object: &Object, branches: &Branches) -> Option<(Object, Vec<InsnId>)> {
    let mut changed = object.clone();
    let mut inserted = Vec::new();
    for (function, branch) in branches {
        let mut jump = changed.new_node(Insn::Jump { long: false, offset: 0 }, Reference::None);
        let function = changed.functions.get_mut(function.index())?;
        let position = function.position(*branch)?;
        let next = function.nodes.get(position + 1)?.id;
        let node = &mut function.nodes[position];
        let Insn::Branch { op, .. } = &mut node.insn else { return None };
        *op = op.row().negated?;
        jump.reference = std::mem::replace(&mut node.reference, Reference::Branch(next));
        jump.line = node.line;
        inserted.push(jump.id);
        function.nodes.insert(position + 1, jump);
    }
    Some((changed, inserted))
}
