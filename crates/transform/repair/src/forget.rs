//! Numbers that are forgotten on purpose, for a program that is too complex.
//!
//! A loop that counts in several numbers has a state for each set of counts, and the verifier explores each of them if the
//! counts matter later. A division by 1 changes no number, and the verifiers of Linux before 7.0 know nothing of a result of
//! a division. So the states of one iteration are one:
//!
//! ```text
//!   L: w1 = *(u8 *)(r6 + 0)          L: w1 = *(u8 *)(r6 + 0)
//!      if w1 > 31 goto M                if w1 > 31 goto M
//!      w7 += 1                          w7 += 1
//!                                -->    w7 /= 1           any number, for the verifier
//!   M: r6 += 1                       M: r6 += 1
//!      if r6 != r9 goto L               if r6 != r9 goto L
//! ```

use std::collections::{BTreeSet, HashMap};

use kiln_isa::{AluOp, Insn, Reg, Source, Width};
use kiln_program::{Function, FunctionId, InsnId, Object, Program, Reference};

/// Numbers that are tried at most.
const MAX_NUMBERS: usize = 16;

/// An instruction after which a number is forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forgotten {
    /// The function.
    pub function: FunctionId,
    /// The instruction that computes the number.
    pub after: InsnId,
    /// The number.
    pub register: Reg,
    width: Width,
}

/// Returns the sums in the loops of a program, without numbers that a loop compares: they may say when it ends.
pub fn sums(object: &Object, program: &Program) -> Vec<Forgotten> {
    let mut found = Vec::new();
    for id in object.reachable_functions(program.entry) {
        let function = object.function(id);
        let in_loops = in_loops(function);
        let compared: BTreeSet<usize> = in_loops.iter().flat_map(|at| compared(function.nodes[*at].insn)).collect();
        for at in in_loops {
            let node = &function.nodes[at];
            let Insn::Alu { op: AluOp::Add | AluOp::Sub | AluOp::Or | AluOp::Xor, width, dst, .. } = node.insn else {
                continue;
            };
            if !compared.contains(&dst.index()) && found.len() < MAX_NUMBERS {
                found.push(Forgotten { function: id, after: node.id, register: dst, width });
            }
        }
    }
    found
}

/// The positions between a branch back and where it leads.
pub(crate) fn in_loops(function: &Function) -> BTreeSet<usize> {
    let positions = function.nodes.iter().enumerate().map(|(at, node)| (node.id, at));
    let positions: HashMap<InsnId, usize> = positions.collect();
    // The lowest position that a branch at this position, or after it, leads to.
    let mut lowest = usize::MAX;
    let inside = function.nodes.iter().enumerate().rev().filter_map(|(at, node)| {
        let begin = node.target().and_then(|target| positions.get(&target));
        lowest = lowest.min(begin.copied().unwrap_or(usize::MAX));
        (lowest <= at).then_some(at)
    });
    inside.collect()
}

fn compared(insn: Insn) -> Vec<usize> {
    match insn {
        Insn::Branch { dst, src: Source::Reg(src), .. } => vec![dst.index(), src.index()],
        Insn::Branch { dst, .. } => vec![dst.index()],
        _ => Vec::new(),
    }
}

/// Inserts the divisions; returns the changed object and the ids of what was inserted.
pub fn apply(object: &Object, all: &[Forgotten]) -> Option<(Object, Vec<InsnId>)> {
    let mut changed = object.clone();
    let mut inserted = Vec::new();
    for own in all {
        let divides = Insn::Alu { op: AluOp::Div, width: own.width, dst: own.register, src: Source::Imm(1) };
        let mut node = changed.new_node(divides, Reference::None);
        let function = changed.functions.get_mut(own.function.index())?;
        let position = function.position(own.after)?;
        node.line = function.nodes[position].line;
        inserted.push(node.id);
        function.nodes.insert(position + 1, node);
    }
    Some((changed, inserted))
}
