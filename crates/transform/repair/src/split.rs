//! Sends a branch past instructions that it only passes through.
//!
//! ```text
//!        r0 = next()                             r0 = next()
//!        w1 = 0                                  w1 = 0
//!        if r0 == 0 goto L1                      if r0 == 0 goto L2      w1 is 0 there
//!        r7 = *(u32 *)(r0 + 0)                   r7 = *(u32 *)(r0 + 0)
//!        w1 = 1                                  w1 = 1
//!   L1:  r2 = r7          r7 may hold nothing    L1: r2 = r7             r7 holds a number
//!        if w1 != 0 goto again                   if w1 != 0 goto again
//!   L2:  ...              r2 is dead             L2: ...
//! ```
//!
//! The compiler merged two ends of a loop into one, and the verifier follows the merged code for both.

use std::collections::HashMap;

use kiln_isa::{AluOp, Insn, JumpOp, Reg, RegSet, Source, Width};
use kiln_program::{Function, FunctionId, InsnId, Node, Object, Program, Reference};

/// Instructions that a branch may be sent past.
const MAX_PASSED: usize = 16;
/// Instructions before a branch that are searched for constants.
const MAX_BEFORE: usize = 16;

/// A branch, and where it may lead instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortcut {
    /// The function.
    pub function: FunctionId,
    /// The branch.
    pub branch: InsnId,
    /// Its new target.
    pub target: InsnId,
}

/// Returns the branches to the block of an instruction that only pass through it, and where they come out.
pub fn shortcuts(object: &Object, program: &Program, at: InsnId) -> Vec<Shortcut> {
    let reached = object.reachable_functions(program.entry).into_iter();
    let mut found = reached.filter(|id| object.function(*id).position(at).is_some());
    let Some(id) = found.next() else { return Vec::new() };
    let function = object.function(id);
    let Some(start) = block_of(function, at) else { return Vec::new() };
    let label = function.nodes[start].id;
    let into = function.nodes.iter().enumerate().filter(|(_, node)| node.reference == Reference::Branch(label));
    let shortcut = |(position, node): (usize, &Node)| {
        let target = way_out(function, start, at, known_before(function, position))?;
        Some(Shortcut { function: id, branch: node.id, target })
    };
    into.filter_map(shortcut).collect()
}

/// Makes a branch lead to its new target.
pub fn apply(object: &Object, shortcut: Shortcut) -> Option<Object> {
    let mut changed = object.clone();
    let function = changed.functions.get_mut(shortcut.function.index())?;
    let node = function.nodes.iter_mut().find(|node| node.id == shortcut.branch)?;
    node.reference = Reference::Branch(shortcut.target);
    Some(changed)
}

/// The position of the label in front of an instruction, if nothing between leads away.
fn block_of(function: &Function, at: InsnId) -> Option<usize> {
    let last = function.position(at)?;
    let is_label = |position: usize| {
        let id = function.nodes[position].id;
        function.nodes.iter().any(|node| node.reference == Reference::Branch(id))
    };
    let start = (0..=last).rev().find(|position| is_label(*position))?;
    function.nodes[start..last].iter().all(|node| matches!(node.insn, Insn::Alu { .. })).then_some(start)
}

/// The constants that registers hold where a branch is taken.
fn known_before(function: &Function, branch: usize) -> HashMap<Reg, u64> {
    let mut known = HashMap::new();
    if let Insn::Branch { op: JumpOp::Eq, width: Width::W64, dst, src: Source::Imm(value), .. } =
        function.nodes[branch].insn
    {
        known.insert(dst, i64::from(value) as u64);
    }
    let mut changed = RegSet::EMPTY;
    for position in (branch.saturating_sub(MAX_BEFORE)..branch).rev() {
        let node = &function.nodes[position];
        let Some(dst) = node.insn.written().filter(|_| matches!(node.insn, Insn::Alu { .. })) else { break };
        if let Insn::Alu { op: AluOp::Mov, width, src: Source::Imm(value), .. } = node.insn
            && !changed.contains(dst)
        {
            known.entry(dst).or_insert(narrowed(i64::from(value) as u64, width));
        }
        changed.insert(dst);
        if function.nodes.iter().any(|other| other.reference == Reference::Branch(node.id)) {
            break;
        }
    }
    known
}

fn narrowed(value: u64, width: Width) -> u64 {
    if width == Width::W32 { u64::from(value as u32) } else { value }
}

/// Where a path that enters a block with these constants leaves it.
fn way_out(function: &Function, start: usize, at: InsnId, mut known: HashMap<Reg, u64>) -> Option<InsnId> {
    let (mut position, mut passed) = (start, false);
    for _ in 0..MAX_PASSED {
        let node = function.nodes.get(position)?;
        passed |= node.id == at;
        match node.insn {
            Insn::Alu { op, width, dst, src } => {
                let right = match src {
                    Source::Imm(value) => Some(i64::from(value) as u64),
                    Source::Reg(reg) => known.get(&reg).copied(),
                };
                match value(op, width, known.get(&dst).copied(), right) {
                    Some(value) => known.insert(dst, value),
                    None => known.remove(&dst),
                };
                position += 1;
            }
            Insn::Jump { .. } => position = function.position(node.target()?)?,
            Insn::Branch { op, width, dst, src: Source::Imm(right), .. } => {
                let left = narrowed(*known.get(&dst)?, width);
                let right = narrowed(i64::from(right) as u64, width);
                let taken = match op {
                    JumpOp::Eq => left == right,
                    JumpOp::Ne => left != right,
                    _ => return None,
                };
                position = if taken { function.position(node.target()?)? } else { position + 1 };
                if passed {
                    break;
                }
            }
            _ => return None,
        }
    }
    // Whether what is computed on the way is dead there is for the proof to say.
    function.nodes.get(position).filter(|_| passed).map(|target| target.id)
}

/// The result of an operation on constants, where it is simple.
fn value(op: AluOp, width: Width, left: Option<u64>, right: Option<u64>) -> Option<u64> {
    let right = right?;
    let result = match op {
        AluOp::Mov => right,
        AluOp::And => left? & right,
        AluOp::Or => left? | right,
        AluOp::Xor => left? ^ right,
        AluOp::Add => left?.wrapping_add(right),
        _ => return None,
    };
    Some(narrowed(result, width))
}
