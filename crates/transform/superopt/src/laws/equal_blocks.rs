//! Branches are sent to another block that does the same.
//!
//! ```text
//!   r3 = 0                               r3 = 0
//!   if w4 != 8 goto none                 if w4 != 8 goto some
//!   ...                                  ...
//! some:                                some:
//!   *(u32 *)(r10 - 4) = w3      -->      *(u32 *)(r10 - 4) = w3
//!   goto L                             L:
//! none:
//!   *(u32 *)(r10 - 4) = 0
//! L:
//! ```
//!
//! Two blocks do the same on a path if they are the same instructions, but for constants of one that a register of the
//! other holds on that path. Where nothing leads to the one any more, it goes.

use kiln_isa::{Insn, Reg, Source};
use kiln_program::{Block, Cfg, Function, InsnId, Node, Object};

use crate::laws::context::{Change, Context};
use crate::laws::control_flow::same;
use crate::laws::jump_threading::{self, State};
use crate::laws::trial::Trial;

/// Instructions of a block that is compared with others, at most.
const LONGEST: usize = 6;
/// Instructions of a function at most: each trial costs its length.
const LONGEST_FUNCTION: usize = 3000;

/// Sends one branch to another block, if that saves slots.
pub fn branch_to_equal_block(context: Context<'_>) -> Vec<Change> {
    let Context { object, function: original, calls, banned, .. } = context;
    let function: &Function = original;
    if function.nodes.len() > LONGEST_FUNCTION {
        return Vec::new();
    }
    let cfg = Cfg::new(function);
    let states = jump_threading::at_block_ends(function, &cfg);
    let trial = std::cell::OnceCell::new();
    for block in cfg.blocks.iter().skip(1) {
        let (Some((branch, state)), Some(body)) = (entry(function, &cfg, &states, block), body(function, block)) else {
            continue;
        };
        let first = function.nodes[block.range.start].id;
        if banned(first) || body.range.len() > LONGEST {
            continue;
        }
        for other in cfg.blocks.iter().filter(|other| other.range != block.range) {
            let Some(rival) = self::body(function, other) else { continue };
            let pairs = || function.nodes[body.range.clone()].iter().zip(&function.nodes[rival.range.clone()]);
            let alike = rival.goes == body.goes
                && rival.range.len() == body.range.len()
                && pairs().all(|(own, there)| does_the_same(object, own, there, &state));
            // Equal instructions alone are a shared tail.
            if !alike || pairs().all(|(own, there)| same(object, own, there)) {
                continue;
            }
            let mut candidate = function.clone();
            let target = function.nodes[rival.range.start].id;
            candidate.nodes[branch].reference = kiln_program::Reference::Branch(target);
            let trial = trial.get_or_init(|| Trial::new(object, calls, function));
            if let Some((candidate, change)) = trial.gain(object, first, candidate) {
                *original = candidate;
                return vec![change];
            }
        }
    }
    Vec::new()
}

/// A block without a final jump, and where it goes on; `None` for an exit.
struct Body {
    range: std::ops::Range<usize>,
    goes: Option<InsnId>,
}

/// What a block does, if it ends neither in a branch nor in a jump to itself.
fn body(function: &Function, block: &Block) -> Option<Body> {
    let range = block.range.clone();
    let last = &function.nodes[range.end - 1];
    let body = match last.insn {
        Insn::Jump { .. } => Body { range: range.start..range.end - 1, goes: last.target() },
        Insn::Exit => Body { range, goes: None },
        Insn::Branch { .. } | Insn::MayGoto { .. } => return None,
        _ => Body { goes: Some(function.nodes.get(range.end)?.id), range },
    };
    (!body.range.is_empty()).then_some(body)
}

/// The only branch that jumps to a block, and the numbers that registers hold there.
fn entry(function: &Function, cfg: &Cfg, states: &[Option<State>], block: &Block) -> Option<(usize, State)> {
    let [from] = block.predecessors[..] else { return None };
    let own = &cfg.blocks[from.index()];
    let at = own.range.end - 1;
    let node = &function.nodes[at];
    let jumps = node.target() == Some(function.nodes[block.range.start].id) && own.successors.len() == 2;
    if !jumps || node.core.is_some() || !matches!(node.insn, Insn::Branch { .. }) {
        return None;
    }
    let mut state = (*states.get(from.index())?)?;
    jump_threading::refine(&mut state, &node.insn, true);
    Some((at, state))
}

/// Whether an instruction does what another one does where registers hold these numbers.
fn does_the_same(object: &Object, own: &Node, other: &Node, state: &State) -> bool {
    if same(object, own, other) {
        return true;
    }
    let holds = |reg: Reg, imm: i32, bits: u32| {
        state[reg.index()].is_some_and(|known| {
            let difference = known.value ^ i64::from(imm) as u64;
            if bits <= 32 { difference as u32 == 0 } else { known.width == kiln_isa::Width::W64 && difference == 0 }
        })
    };
    match (own.insn, other.insn) {
        (
            Insn::Store { size, address, src: Source::Imm(imm) },
            Insn::Store { size: wide, address: there, src: Source::Reg(reg) },
        ) => {
            size == wide
                && address == there
                && own.core.is_none()
                && other.core.is_none()
                && holds(reg, imm, size.bits())
        }
        (
            Insn::Alu { op, width, dst, src: Source::Imm(imm) },
            Insn::Alu { op: operation, width: wide, dst: to, src: Source::Reg(reg) },
        ) => {
            let bits = if width == kiln_isa::Width::W32 { 32 } else { 64 };
            (op, width, dst) == (operation, wide, to)
                && own.core.is_none()
                && other.core.is_none()
                && holds(reg, imm, bits)
        }
        _ => false,
    }
}
