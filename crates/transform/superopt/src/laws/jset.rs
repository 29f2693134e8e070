//! Branches on a mask that was computed first, turned around.
//!
//! ```text
//!   r3 = r1                       if r1 & 1 goto counted
//!   r3 &= 1                       goto out
//!   if r3 == 0 goto out    -->
//!   goto counted
//! ```
//!
//! BPF has a branch on `r & mask != 0`, but none on `r & mask == 0`. So the two sides change places. That costs a jump
//! if layout finds no better order, so the result is compared with the original.

use kiln_isa::{AluOp, Insn, JumpOp, Reg, Source, Width};
use kiln_program::{Cfg, Function, InsnId, Node, Reference};

use crate::edit;
use crate::flow::demand;
use crate::laws::context::{Change, Context};
use crate::laws::trial::Trial;

/// Turns the first branch around for which that saves slots.
pub fn use_jset(context: Context<'_>) -> Vec<Change> {
    let Context { object, function: original, calls, banned, .. } = context;
    let cfg = Cfg::new(original);
    let ends = demand::at_block_ends(original, &cfg, calls);
    let function: &Function = original;
    let mut trial = None;
    for (block, end) in cfg.blocks.iter().zip(ends) {
        let at = block.range.end - 1;
        let branch = function.nodes[at].clone();
        let Insn::Branch { op: JumpOp::Eq, width, dst, src: Source::Imm(0), .. } = branch.insn else { continue };
        let Some(next) = function.nodes.get(at + 1).map(|node| node.id) else { continue };
        let Some(target) = branch.target().filter(|target| *target != next) else { continue };
        if branch.core.is_some() || banned(branch.id) || end.of(dst) > 0 {
            continue;
        }
        let nodes = &function.nodes[block.range.clone()];
        let Some((mask, test)) = masked(nodes, dst, width) else { continue };
        let trial = trial.get_or_insert_with(|| Trial::new(object, calls, function));
        let mut candidate = function.clone();
        candidate.nodes[at].insn = test;
        candidate.nodes[at].reference = Reference::Branch(next);
        let jump = object.new_node(Insn::Jump { offset: 0, long: false }, Reference::Branch(target));
        candidate.nodes.insert(at + 1, Node { line: branch.line, ..jump });
        edit::delete(&mut candidate, &[mask].into_iter().collect());
        if let Some((candidate, change)) = trial.gain(object, branch.id, candidate) {
            *original = candidate;
            return vec![change];
        }
    }
    Vec::new()
}

/// The mask that a block's final comparison with zero reads, and the branch that masks by itself.
fn masked(nodes: &[Node], reg: Reg, compared: Width) -> Option<(InsnId, Insn)> {
    let (_, body) = nodes.split_last()?;
    let touches = |node: &Node| node.insn.written() == Some(reg) || node.insn.read().contains(reg);
    let mask = body.iter().rposition(touches)?;
    let Insn::Alu { op: AluOp::And, width, dst, src: Source::Imm(imm) } = body[mask].insn else { return None };
    // A mask that is not negative clears the upper half too, so the width of the comparison does not matter.
    let same = imm >= 0 || width == compared;
    let after = &body[mask + 1..];
    if dst != reg || body[mask].core.is_some() || !same || after.iter().any(|node| matches!(node.insn, Insn::Call(_))) {
        return None;
    }
    let test = |dst| Insn::Branch { op: JumpOp::Set, width: compared, dst, src: Source::Imm(imm), offset: 0 };
    // The register that it was copied from, if that still holds it.
    let copy = body[..mask].iter().rposition(touches);
    let original = copy.and_then(|copy| match body[copy].insn {
        Insn::Alu { op: AluOp::Mov, width: own, dst, src: Source::Reg(src) } if dst == reg && src != Reg::R10 => {
            let kept = body[copy + 1..].iter().all(|node| {
                node.insn.written() != Some(src) && !matches!(node.insn, Insn::Call(_) | Insn::LoadPacket { .. })
            });
            (kept && body[copy].core.is_none() && (imm >= 0 || own == compared)).then_some(src)
        }
        _ => None,
    });
    Some((body[mask].id, test(original.unwrap_or(reg))))
}
