//! Constants that a branch chooses, and the operation that uses them.
//!
//! ```text
//!     w3 = 1                                                    w2 = 1
//!     if w5 == 2 goto L         if w5 == 2 goto L               if w1 > 9 goto L        if w1 <= 9 goto L
//!     w3 = 0               -->  w4 = 0                          w2 = 0             -->  w3 += 1
//!   L:                        L:                              L:                      L:
//!     w4 &= w3  (w4 is 0 or 1)                                  w3 += w2
//! ```
//!
//! The operation moves into the arm where it has an effect. If the constants are 1 and 0, the comparison may be
//! computed without a branch:
//!
//! ```text
//!     w2 = *(u32 *)(r1 + 20)
//!     r1 = 1                    w1 = *(u32 *)(r1 + 20)
//!     if w2 != 0 goto L    -->  r1 = -r1
//!     r1 = 0                    r1 >>= 63
//!   L:
//! ```
//!
//! A window is here a region with one entry, with the arm and what follows it. Its proof joins both paths.

use kiln_equiv::{Limits, Verdict, Window};
use kiln_isa::semantics::{Bits, at_width};
use kiln_isa::{AluOp, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{Cfg, Function, InsnId, Node, Object, Reference};
use kiln_verifier::{Facts, StackSet};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand::{self, Demand};
use crate::flow::possible::{self, Possible};
use crate::rules::one_slot_move;
use crate::windows::region::{Step, demanded_facts, mask_to};

/// A branch over one instruction, and the instruction that uses the chosen constant.
struct Diamond {
    /// Positions: the beginning of the region, the constant if the branch is taken, the branch, the other constant, and
    /// the use. The compared value is in the region if it is computed right before the first constant.
    start: usize,
    taken: usize,
    branch: usize,
    arm: usize,
    used: usize,
    reg: Reg,
    /// The two constants.
    numbers: (u64, u64),
    /// What is read after the use.
    demand: Demand,
    /// What is read where the region begins.
    before: Demand,
    /// Which bits may be one there.
    possible: Possible,
}

/// Rewrites every diamond whose change is proved. Returns the steps.
pub fn rewrite(
    object: &Object,
    function: &mut Function,
    calls: &Calls,
    facts: Option<&Facts>,
    limits: &Limits,
    fuel: usize,
    allowed: &dyn Fn(&str, InsnId) -> bool,
) -> Vec<Step> {
    let mut steps = Vec::new();
    while steps.len() < fuel {
        let Some((range, step)) = find(object, function, calls, facts, limits, allowed) else { break };
        edit::replace(function, range, step.after.clone());
        steps.push(step);
    }
    steps
}

fn find(
    object: &Object,
    function: &Function,
    calls: &Calls,
    facts: Option<&Facts>,
    limits: &Limits,
    allowed: &dyn Fn(&str, InsnId) -> bool,
) -> Option<(std::ops::Range<usize>, Step)> {
    diamonds(function, calls).into_iter().find_map(|diamond| {
        let branch = function.nodes[diamond.branch].id;
        proposals(function, &diamond).into_iter().filter(|(rule, _)| allowed(rule, branch)).find_map(|(rule, after)| {
            let range = diamond.start..diamond.used + 1;
            let proof = prove(object, function, facts, limits, &diamond, &after)?;
            let before = function.nodes[range.clone()].to_vec();
            Some((range, Step { rule: rule.to_owned(), at: branch, before, after, proof }))
        })
    })
}

fn number(node: &Node) -> Option<(Reg, u64)> {
    match node.insn {
        Insn::Alu { op: AluOp::Mov, width, dst, src: Source::Imm(imm) } if node.core.is_none() => {
            let value = i64::from(imm) as u64;
            Some((dst, if width == Width::W32 { value & 0xffff_ffff } else { value }))
        }
        _ => None,
    }
}

fn diamonds(function: &Function, calls: &Calls) -> Vec<Diamond> {
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let begins = possible::at_block_begins(function, &cfg, false);
    let mut found = Vec::new();
    for (index, block) in cfg.blocks.iter().enumerate() {
        let branch = block.range.end - 1;
        let (Insn::Branch { .. }, None) = (function.nodes[branch].insn, function.nodes[branch].core) else { continue };
        let [falls, jumps] = block.successors[..] else { continue };
        let (arm, rest) = (&cfg.blocks[falls.index()], &cfg.blocks[jumps.index()]);
        let alone = arm.predecessors.len() == 1 && rest.predecessors.len() == 2 && rest.predecessors.contains(&falls);
        if !alone || arm.range.len() != 1 || rest.range.start != arm.range.end || jumps.index() == index {
            continue;
        }
        let Some((reg, other)) = number(&function.nodes[arm.range.start]) else { continue };
        let touches = |at: &usize| {
            let insn = &function.nodes[*at].insn;
            let clobbers = matches!(insn, Insn::Call(_) | Insn::LoadPacket { .. });
            insn.written() == Some(reg) || insn.read().contains(reg) || clobbers
        };
        let taken = (block.range.start..block.range.end).rev().find(|at| touches(at));
        let used = rest.range.clone().find(|at| touches(at));
        let (Some(taken), Some(used)) = (taken, used) else { continue };
        let Some((own, first)) = number(&function.nodes[taken]).filter(|(own, _)| *own == reg) else { continue };
        let after = demand::after_each(&function.nodes[rest.range.clone()], ends[jumps.index()], calls);
        let mut before =
            demand::after_each(&function.nodes[block.range.clone()], ends[index], calls)[taken - block.range.start];
        before.step_back(&function.nodes[taken], calls);
        let compares = |node: &Node| match (function.nodes[branch].insn, node.insn.written()) {
            (Insn::Branch { dst, .. }, Some(made)) => dst == made && node.core.is_none() && !node.insn.is_control(),
            _ => false,
        };
        let made = taken > block.range.start && compares(&function.nodes[taken - 1]);
        let start = if made { taken - 1 } else { taken };
        if made {
            before.step_back(&function.nodes[start], calls);
        }
        let mut possible = begins[index];
        function.nodes[block.range.start..start].iter().for_each(|node| possible::step(&mut possible, node, false));
        found.push(Diamond {
            start,
            taken,
            branch,
            arm: arm.range.start,
            used,
            reg: own,
            numbers: (first, other),
            demand: after[used - rest.range.start],
            before,
            possible,
        });
    }
    found
}

/// The constant with which the operation has no effect.
fn identity(op: AluOp, width: Width) -> Option<u64> {
    match op {
        AluOp::Add | AluOp::Sub | AluOp::Or | AluOp::Xor | AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => Some(0),
        AluOp::And => Some(if width == Width::W32 { 0xffff_ffff } else { u64::MAX }),
        AluOp::Mul => Some(1),
        _ => None,
    }
}

fn proposals(function: &Function, diamond: &Diamond) -> Vec<(&'static str, Vec<Node>)> {
    let used = &function.nodes[diamond.used];
    if used.core.is_some() {
        return Vec::new();
    }
    let mut found = Vec::new();
    found.extend(compared(function, diamond).map(|after| ("compared-number", after)));
    let Insn::Alu { op, width, dst, src } = used.insn else { return found };
    match src {
        Source::Imm(by) if dst == diamond.reg && op != AluOp::Mov => {
            found.extend(folded(function, diamond, op, width, by).map(|after| ("folded-arms", after)));
        }
        Source::Reg(other) if other == diamond.reg && dst != other && diamond.demand.of(other) == 0 => {
            found.extend(chosen(function, diamond, (op, width, dst), false));
        }
        Source::Reg(other) if dst == diamond.reg && other != dst && diamond.demand.of(other) == 0 => {
            let commutes = matches!(op, AluOp::Add | AluOp::And | AluOp::Or | AluOp::Xor | AluOp::Mul);
            found.extend(commutes.then(|| chosen(function, diamond, (op, width, other), true)).into_iter().flatten());
        }
        _ => {}
    }
    found
}

/// The nodes of the region.
fn region(function: &Function, diamond: &Diamond) -> Vec<Node> {
    function.nodes[diamond.start..=diamond.used].to_vec()
}

/// Deletes the use. Branches to it go to what follows.
fn without_use(function: &Function, diamond: &Diamond, nodes: &mut Vec<Node>) {
    let used = nodes.pop().expect("the use is the last");
    let Some(next) = function.nodes.get(diamond.used + 1) else { return };
    for node in nodes.iter_mut().filter(|node| node.target() == Some(used.id)) {
        node.reference = Reference::Branch(next.id);
    }
}

/// Applies an operation with a constant to both constants.
fn folded(function: &Function, diamond: &Diamond, op: AluOp, width: Width, by: i32) -> Option<Vec<Node>> {
    let apply = |value: u64| {
        let (value, by) = (Bits::new(64, value), Bits::new(64, i64::from(by) as u64));
        at_width(width, &value, &by, |a, b| op.apply(a, b)).value()
    };
    let mut nodes = region(function, diamond);
    nodes[diamond.taken - diamond.start].insn = one_slot_move(diamond.reg, apply(diamond.numbers.0))?;
    nodes[diamond.arm - diamond.start].insn = one_slot_move(diamond.reg, apply(diamond.numbers.1))?;
    without_use(function, diamond, &mut nodes);
    Some(nodes)
}

/// Moves an operation with the chosen constant into the arm where it has an effect.
fn chosen(
    function: &Function,
    diamond: &Diamond,
    (op, width, dst): (AluOp, Width, Reg),
    into_chosen: bool,
) -> Vec<(&'static str, Vec<Node>)> {
    let between = &function.nodes[diamond.arm + 1..diamond.used];
    let touched = |node: &Node| node.insn.written() == Some(dst) || node.insn.read().contains(dst);
    if between.iter().any(touched) {
        return Vec::new();
    }
    let Insn::Branch { op: jump, width: compared, dst: left, src: right, offset } = function.nodes[diamond.branch].insn
    else {
        return Vec::new();
    };
    let neutral = identity(op, width);
    // A mask of one does not change a truth value.
    let is_neutral = |value: u64| Some(value) == neutral || op == AluOp::And && value == 1;
    let mut found = Vec::new();
    let (taken, other) = diamond.numbers;
    for (skipped, done, jump) in [(taken, other, Some(jump)), (other, taken, jump.row().negated)] {
        let (true, Some(jump), Ok(imm)) = (is_neutral(skipped), jump, i32::try_from(done as i64)) else { continue };
        let mut nodes = region(function, diamond);
        nodes[diamond.branch - diamond.start].insn =
            Insn::Branch { op: jump, width: compared, dst: left, src: right, offset };
        nodes[diamond.arm - diamond.start].insn = match (op, imm) {
            (AluOp::And | AluOp::Mul, 0) => Insn::mov_imm(dst, 0),
            _ => Insn::Alu { op, width, dst, src: Source::Imm(imm) },
        };
        if into_chosen {
            let copy = Insn::Alu { op: AluOp::Mov, width, dst: diamond.reg, src: Source::Reg(dst) };
            nodes.last_mut().expect("the use is the last").insn = copy;
        } else {
            without_use(function, diamond, &mut nodes);
        }
        nodes.remove(diamond.taken - diamond.start);
        found.push(("chosen-operand", nodes));
    }
    found
}

/// Computes a comparison without a branch: a number is below a constant, or not zero, if a difference is negative. A
/// value that was loaded only for the comparison is loaded into the result's register.
fn compared(function: &Function, diamond: &Diamond) -> Option<Vec<Node>> {
    let branch = &function.nodes[diamond.branch];
    let Insn::Branch { op, dst: loaded, src: Source::Imm(imm), .. } = branch.insn else { return None };
    let taken = match diamond.numbers {
        (1, 0) => op,
        (0, 1) => op.row().negated?,
        _ => return None,
    };
    let (width, dst) = (Width::W64, diamond.reg);
    let below = |limit: i32| Some(Insn::Alu { op: AluOp::Add, width, dst, src: Source::Imm(limit.checked_neg()?) });
    let first = match taken {
        JumpOp::Ne if imm == 0 => Insn::Neg { width, dst },
        JumpOp::Lt if imm > 0 => below(imm)?,
        JumpOp::Le if imm >= 0 => below(imm.checked_add(1)?)?,
        _ => return None,
    };
    let Insn::Load { size, signed, address, .. } = function.nodes[diamond.start].insn else { return None };
    let others = (diamond.taken + 1..=diamond.used).filter(|at| *at != diamond.branch && *at != diamond.arm);
    let touched = |node: &Node| node.insn.written() == Some(loaded) || node.insn.read().contains(loaded);
    if loaded == dst || diamond.demand.of(loaded) != 0 || others.into_iter().any(|at| touched(&function.nodes[at])) {
        return None;
    }
    let mut nodes = region(function, diamond);
    nodes[0].insn = Insn::Load { size, signed, dst, address };
    nodes[diamond.branch - diamond.start] = Node { insn: first, reference: Reference::None, ..branch.clone() };
    nodes[diamond.arm - diamond.start].insn = Insn::Alu { op: AluOp::Rsh, width, dst, src: Source::Imm(63) };
    nodes.remove(diamond.taken - diamond.start);
    Some(nodes)
}

/// Proves that these nodes may replace the region.
fn prove(
    object: &Object,
    function: &Function,
    facts: Option<&Facts>,
    limits: &Limits,
    diamond: &Diamond,
    after: &[Node],
) -> Option<kiln_equiv::Proof> {
    let (mut old, mut new) = (region(function, diamond), after.to_vec());
    // A branch over the last instruction leads to what follows.
    let next = function.nodes.get(diamond.used + 1)?.id;
    let any = new.iter().rev().find_map(|node| node.insn.written())?;
    let end = Node::new(next, Insn::mov(any, any), Reference::None);
    old.push(end.clone());
    new.push(end);
    let written: RegSet = old.iter().chain(&new).filter_map(|node| node.insn.written()).collect();
    for reg in written.iter() {
        if let Some(mask) = mask_to(reg, diamond.demand.of(reg)) {
            old.push(mask.clone());
            new.push(mask);
        }
    }
    let known = facts.and_then(|facts| facts.at(function.nodes[diamond.start].id));
    let mut precondition = demanded_facts(known, &diamond.before);
    possible::sharpen(&mut precondition, &diamond.possible, &diamond.before);
    let window = Window {
        before: &old,
        after: &new,
        facts: Some(&precondition),
        live_after: diamond.demand.live(),
        stack_live_after: StackSet::ALL,
        exits: &[],
        object,
    };
    match kiln_equiv::check(&window, limits) {
        Verdict::Equal(proof) => Some(proof),
        Verdict::Different(_) | Verdict::Unknown(_) => None,
    }
}
