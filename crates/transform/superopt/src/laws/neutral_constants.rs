//! Operations with a constant that is zero on one side of a branch, and then changes nothing.
//!
//! ```text
//!   r3 = 16                                   if w8 <= 0xffff goto L
//!   if w8 > 0xffff goto L                     r8 >>= 16
//!   r3 = 0                             -->    r1 |= 16
//! L: r8 >>= r3                              L: ...
//!   r1 |= r3
//! ```
//!
//! The other rules make this form of a logarithm's steps, in every histogram. Where the operation puts its result into the
//! constant's register, as in `r3 |= r1`, that register is a copy of the other operand first.

use kiln_isa::{AluOp, Insn, Reg, RegSet, Source, Width};
use kiln_program::{Cfg, Function, Ids, Node, Object, Reference};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand;
use crate::laws::context::{Change, Context};
use crate::laws::jump_threading;
use crate::laws::trial::Trial;

/// Maximum number of instructions of a function: a trial costs its length.
const LONGEST: usize = 3000;

/// A branch one side of which sets a register to another constant; one of the two is zero.
struct Choice {
    /// Position of the branch. The other constant is set right after it, and both sides join after that.
    branch: usize,
    /// The register.
    reg: Reg,
    /// The constant that is not zero.
    number: i32,
    /// Whether the branch is taken with it.
    taken: bool,
}

/// What becomes of the join.
#[derive(Default)]
struct Plan {
    /// The operations with the constant.
    gone: Ids,
    /// What they are on one side.
    one_sided: Vec<Node>,
    /// What the constant's register is a copy of first, if it holds the result.
    accumulates: Option<Reg>,
}

/// Moves the operations with one chosen constant to the side on which they have an effect; one per call.
pub fn skip_neutral(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let joins = |at: usize| at >= 2 && matches!(function.nodes[at - 2].insn, Insn::Branch { .. });
    if function.nodes.len() > LONGEST || !cfg.blocks.iter().any(|block| joins(block.range.start)) {
        return Vec::new();
    }
    let trial_of = function.clone();
    let trial = Trial::new(object, calls, &trial_of);
    let states = jump_threading::at_block_ends(function, &cfg);
    let ends = demand::at_block_ends(function, &cfg, calls);
    for (index, block) in cfg.blocks.iter().enumerate().filter(|(_, block)| joins(block.range.start)) {
        let Some(choice) = choice(function, &cfg, index, &states) else { continue };
        if banned(function.nodes[choice.branch].id) {
            continue;
        }
        let nodes = &function.nodes[block.range.clone()];
        let live = demand::after_each(nodes, ends[index], calls);
        let is_dead = |at: usize| live[at].of(choice.reg) == 0;
        let Some(plan) = plan(nodes, &choice, &is_dead, calls) else { continue };
        let Some(candidate) = applied(object, function, &choice, &plan) else { continue };
        let at = function.nodes[choice.branch].id;
        if let Some((candidate, change)) = trial.gain_shared(object, at, candidate) {
            *function = candidate;
            return vec![change];
        }
    }
    Vec::new()
}

/// The choice that a block is the join of.
fn choice(function: &Function, cfg: &Cfg, join: usize, states: &[Option<jump_threading::State>]) -> Option<Choice> {
    let start = cfg.blocks[join].range.start;
    let branch = start - 2;
    let node = &function.nodes[branch];
    let Insn::Branch { op, .. } = node.insn else { return None };
    let set = &function.nodes[start - 1];
    let Insn::Alu { op: AluOp::Mov, dst: reg, src: Source::Imm(fallen), width } = set.insn else { return None };
    let (from, arm) = (cfg.block_of[branch], cfg.block_of[start - 1]);
    let mut into = cfg.blocks[join].predecessors.clone();
    into.sort_unstable();
    let alone = into == [from, arm] && cfg.blocks[arm.index()].predecessors == [from];
    let joins = node.target() == Some(function.nodes[start].id);
    if !alone || !joins || set.core.is_some() || node.insn.read().contains(reg) || (width == Width::W32 && fallen < 0) {
        return None;
    }
    let known = states[from.index()].as_ref()?[reg.index()].filter(|known| known.width == Width::W64)?;
    let known = i32::try_from(known.value as i64).ok()?;
    let choice = |number, taken| Choice { branch, reg, number, taken };
    match (known, fallen) {
        (number, 0) if number != 0 => op.row().negated.map(|_| choice(number, true)),
        (0, number) if number != 0 => Some(choice(number, false)),
        _ => None,
    }
}

/// The operations of a join that only matter for one of its sides, if they are all that reads the constant.
fn plan(nodes: &[Node], choice: &Choice, is_dead: &dyn Fn(usize) -> bool, calls: &Calls) -> Option<Plan> {
    let mut plan = Plan::default();
    let mut number = choice.number;
    // What stays below the operations must neither read what they write nor write what they read.
    let (mut read, mut written) = (RegSet::EMPTY, RegSet::EMPTY);
    let mut changed = RegSet::EMPTY;
    for (at, node) in nodes.iter().enumerate() {
        let touches = demand::reads(node, choice.reg, calls) || node.insn.written() == Some(choice.reg);
        if touches {
            let Insn::Alu { op, width, dst, src } = node.insn else { return None };
            if node.core.is_some() || read.contains(dst) || written.contains(dst) {
                return None;
            }
            plan.gone.insert(node.id);
            match src {
                Source::Imm(imm) if dst == choice.reg => {
                    number = kept_zero(op, width, number, imm)?;
                    if is_dead(at) {
                        return None;
                    }
                    continue;
                }
                Source::Reg(other) if dst == choice.reg => {
                    let sound = is_sum(op) && other != dst && !changed.contains(other) && !written.contains(other);
                    if !sound || width != Width::W64 {
                        return None;
                    }
                    plan.accumulates = Some(other);
                }
                _ if !is_neutral(op, number) || src != Source::Reg(choice.reg) => return None,
                _ => {}
            }
            changed.insert(dst);
            let insn = Insn::Alu { op, width, dst, src: Source::Imm(number) };
            plan.one_sided.push(Node { insn, ..node.clone() });
            if plan.accumulates.is_some() || is_dead(at) {
                return Some(plan);
            }
        } else {
            // The constant may be read after this block.
            if node.insn.is_control() || matches!(node.insn, Insn::Call(_)) {
                return None;
            }
            read = read.union(node.insn.read());
            node.insn.written().into_iter().for_each(|reg| written.insert(reg));
        }
    }
    None
}

/// What an operation with an immediate makes of the constant, if it leaves zero alone.
fn kept_zero(op: AluOp, width: Width, number: i32, imm: i32) -> Option<i32> {
    let amount = u32::try_from(imm).ok().filter(|amount| *amount < 31);
    let result = match op {
        AluOp::Lsh => i32::try_from(i64::from(number) << amount?).ok()?,
        AluOp::Rsh if number >= 0 => number >> amount?,
        AluOp::And => number & imm,
        _ => return None,
    };
    (width == Width::W64 || (number >= 0 && result >= 0)).then_some(result)
}

/// Whether an operation changes nothing if its second operand is zero, and can have this constant instead.
fn is_neutral(op: AluOp, number: i32) -> bool {
    match op {
        AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => (0..32).contains(&number),
        AluOp::Sub => true,
        _ => is_sum(op),
    }
}

/// Whether zero is the neutral element of an operation, on both sides.
fn is_sum(op: AluOp) -> bool {
    matches!(op, AluOp::Add | AluOp::Or | AluOp::Xor)
}

/// The function with a plan carried out.
fn applied(object: &mut Object, function: &Function, choice: &Choice, plan: &Plan) -> Option<Function> {
    let mut function = function.clone();
    let at = choice.branch;
    let branch = function.nodes[at].clone();
    let Insn::Branch { op, width, dst, src, .. } = branch.insn else { return None };
    let behind = function.nodes[at + 2..].iter().find(|node| !plan.gone.contains(&node.id))?.id;
    let op = if choice.taken { op.row().negated? } else { op };
    let insn = Insn::Branch { op, width, dst, src, offset: 0 };
    let line = branch.line;
    let copy = |other| Node { line, ..object.new_node(Insn::mov(choice.reg, other), Reference::None) };
    let mut after: Vec<Node> = plan.accumulates.map(copy).into_iter().collect();
    after.push(Node { insn, reference: Reference::Branch(behind), ..branch });
    after.extend(plan.one_sided.iter().cloned());
    function.nodes.retain(|node| !plan.gone.contains(&node.id));
    edit::replace(&mut function, at..at + 2, after);
    Some(function)
}
