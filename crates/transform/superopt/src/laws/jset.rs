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
use kiln_program::{ById, Cfg, Function, Ids, InsnId, Node, Object, Reference};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand;
use crate::laws::context::{Change, Context};
use crate::laws::trial::{Size, Trial, difference, tidy};

/// More branches than this are turned around together.
const FEW: usize = 16;

/// A branch that may be turned around: its position, the mask, the new branch and what follows.
struct Turn {
    at: usize,
    mask: InsnId,
    test: Insn,
    next: InsnId,
    target: InsnId,
}

/// Turns branches around, if that saves slots: the first for which it does, or all together where there are many.
pub fn use_jset(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, most, .. } = context;
    let turns = turns(function, calls, banned);
    if turns.is_empty() {
        return Vec::new();
    }
    let original = function.clone();
    let trial = Trial::new(object, calls, &original);
    if turns.len() > FEW {
        return turn_all(object, function, calls, (&original, &trial), turns, most);
    }
    for turn in turns {
        let (mut candidate, at) = (original.clone(), original.nodes[turn.at].id);
        edit::replace(&mut candidate, turn.at..turn.at + 1, turned(object, &original, &turn).into());
        edit::delete(&mut candidate, &[turn.mask].into_iter().collect());
        if let Some((candidate, change)) = trial.gain(object, at, candidate) {
            *function = candidate;
            return vec![change];
        }
    }
    Vec::new()
}

/// Turns all branches around, and then only those whose jump layout has saved.
fn turn_all(
    object: &mut Object,
    function: &mut Function,
    calls: &Calls,
    (original, trial): (&Function, &Trial<'_>),
    mut turns: Vec<Turn>,
    most: usize,
) -> Vec<Change> {
    let mut turn_around = |turns: &[Turn]| {
        let mut candidate = original.clone();
        // From the last to the first.
        let turned = turns.iter().rev().map(|turn| (turn.at..turn.at + 1, turned(object, original, turn)));
        let turned: Vec<_> = turned.collect();
        let jumps: Vec<InsnId> = turned.iter().map(|(_, [_, jump])| jump.id).collect();
        edit::replace_all(&mut candidate, turned.into_iter().map(|(at, nodes)| (at, nodes.into())).collect());
        edit::delete(&mut candidate, &turns.iter().map(|turn| turn.mask).collect());
        tidy(object, calls, &mut candidate);
        (candidate, jumps)
    };
    let (candidate, jumps) = turn_around(&turns);
    let left: Ids = candidate.nodes.iter().map(|node| node.id).collect();
    let mut saved = jumps.iter().rev().map(|jump| !left.contains(jump));
    turns.retain(|_| saved.next() == Some(true));
    turns.truncate(most);
    if turns.is_empty() {
        return Vec::new();
    }
    let (candidate, _) = turn_around(&turns);
    if Size::of(&candidate) >= trial.size() {
        return Vec::new();
    }
    let changes = shared_out(difference(original, &candidate, original.nodes[turns[0].at].id), &turns, original);
    *function = candidate;
    changes
}

/// A change as one for each branch; the last has what is of none.
fn shared_out(whole: Change, turns: &[Turn], original: &Function) -> Vec<Change> {
    let ids = |turn: &Turn| [original.nodes[turn.at].id, turn.mask];
    let mut changes: Vec<Change> = turns.iter().map(|turn| Change::at(ids(turn)[0], Vec::new(), Vec::new())).collect();
    let owners: ById<usize> =
        turns.iter().enumerate().flat_map(|(index, turn)| ids(turn).map(|id| (id, index))).collect();
    let mut share = |nodes: Vec<Node>, of: fn(&mut Change) -> &mut Vec<Node>| {
        let (own, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| owners.contains_key(&node.id));
        own.into_iter().for_each(|node| of(&mut changes[owners[&node.id]]).push(node));
        changes.last_mut().into_iter().for_each(|last| of(last).extend(others.iter().cloned()));
    };
    share(whole.before, |change| &mut change.before);
    share(whole.after, |change| &mut change.after);
    changes
}

/// A branch that is turned around, its mask aside, and the jump that it then needs.
fn turned(object: &mut Object, original: &Function, turn: &Turn) -> [Node; 2] {
    let branch = original.nodes[turn.at].clone();
    let jump = object.new_node(Insn::Jump { offset: 0, long: false }, Reference::Branch(turn.target));
    let jump = Node { line: branch.line, ..jump };
    [Node { insn: turn.test, reference: Reference::Branch(turn.next), ..branch }, jump]
}

/// Branches that may be turned around.
fn turns(function: &Function, calls: &Calls, banned: &dyn Fn(InsnId) -> bool) -> Vec<Turn> {
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let mut turns = Vec::new();
    for (block, end) in cfg.blocks.iter().zip(ends) {
        let at = block.range.end - 1;
        let branch = &function.nodes[at];
        let Insn::Branch { op: JumpOp::Eq, width, dst, src: Source::Imm(0), .. } = branch.insn else { continue };
        let Some(next) = function.nodes.get(at + 1).map(|node| node.id) else { continue };
        let Some(target) = branch.target().filter(|target| *target != next) else { continue };
        if branch.core.is_some() || banned(branch.id) || end.of(dst) > 0 {
            continue;
        }
        let nodes = &function.nodes[block.range.clone()];
        let Some((mask, test)) = masked(nodes, dst, width) else { continue };
        turns.push(Turn { at, mask, test, next, target });
    }
    turns
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
