//! A load, an operation and a store as one atomic operation: smaller, and slower.
//!
//! ```text
//!   r1 = *(u64 *)(r0 + 0)
//!   r1 += 1                         r1 = 1
//!   *(u64 *)(r0 + 0) = r1     -->   lock *(u64 *)(r0 + 0) += r1
//! ```
//!
//! Loads and computations of other values may stand between the three: the atomic operation is where the store was.
//!
//! Run by itself, both do the same: the memory ends with the same bytes, and nobody reads the register afterwards.
//! Beside other CPUs, the atomic one does what the three do when nobody writes between the load and the store, so it
//! does nothing that they could not do; it only no longer loses an update. The simulation proves it in these words
//! (`Segment::is_in_parts` in kiln-equiv). What it costs is time: a bus lock for each
//! run. So it is for [`crate::Goal::Size`], and for the balanced goal as long as the program's estimate is within doubt;
//! and for values of maps, which the kernel lets atomics write.

use kiln_isa::forms::version_of;
use kiln_isa::{AluOp, AtomicOp, Insn, Reg, Size, Source, Width};
use kiln_program::{Cfg, Function, Ids, Node, Reference};
use kiln_verifier::{Facts, Region, Value};

use crate::edit;
use crate::flow::demand;
use crate::laws::context::{Change, Context};

/// Makes one update atomic; one a call.
pub fn make_atomic(context: Context<'_>) -> Vec<Change> {
    let facts = context.known();
    let Context { function, calls, isa, goal, banned, .. } = context;
    // The lock takes longer. The balanced goal accepts that as long as the program's estimate stays within doubt.
    if goal.may_grow() {
        return Vec::new();
    }
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    for (block, end) in cfg.blocks.iter().zip(&ends) {
        let nodes = &function.nodes[block.range.clone()];
        let after = demand::after_each(nodes, *end, calls);
        for at in 0..nodes.len().saturating_sub(2) {
            let Some((parts, update)) = find(nodes, at) else { continue };
            let plain = parts.iter().all(|part| nodes[*part].core.is_none() && !banned(nodes[*part].id));
            if !plain || after[parts[2]].of(update.value) != 0 {
                continue;
            }
            let is_allowed = update.after.iter().all(|insn| version_of(insn) <= isa);
            if !is_allowed || !is_map_value(facts, &nodes[at], update.base) {
                continue;
            }
            let before: Vec<Node> = parts.iter().map(|part| nodes[*part].clone()).collect();
            return vec![replace(function, before, update.after)];
        }
    }
    Vec::new()
}

/// Puts the operation in the place of the store. A constant that it needs is set just before it.
fn replace(function: &mut Function, before: Vec<Node>, after: Vec<Insn>) -> Change {
    let kept = before[3 - after.len()..].iter();
    let made: Vec<Node> =
        kept.zip(after).map(|(node, insn)| Node { insn, reference: Reference::None, ..node.clone() }).collect();
    let doomed: Ids = before[..3 - made.len()].iter().map(|node| node.id).collect();
    for new in &made {
        if let Some(node) = function.nodes.iter_mut().find(|node| node.id == new.id) {
            *node = new.clone();
        }
    }
    edit::delete(function, &doomed);
    Change::new(before, made)
}

/// Instructions that may stand between the load and the store of one update.
const BETWEEN: usize = 8;

/// The load at `at` with its operation and its store, as positions in the block, and the atomic operation.
///
/// Other loads and computations may stand between them: they come before the atomic operation, which takes the place of
/// the store. So nothing between may write memory, use the value, or change the address or the other operand.
fn find(nodes: &[Node], at: usize) -> Option<([usize; 3], Update)> {
    let Insn::Load { dst: value, address, .. } = nodes[at].insn else { return None };
    let last = nodes.len().min(at + 3 + BETWEEN);
    let uses = |node: &Node| node.insn.read().contains(value) || node.insn.written() == Some(value);
    let operation = (at + 1..last).find(|part| uses(&nodes[*part]))?;
    let store = (operation + 1..last).find(|part| uses(&nodes[*part]))?;
    let update = update(&nodes[at], &nodes[operation], &nodes[store])?;
    let other = match nodes[operation].insn {
        Insn::Alu { src: Source::Reg(reg), .. } => Some(reg),
        _ => None,
    };
    let harmless = |(part, node): (usize, &Node)| {
        let written = node.insn.written();
        let keeps = written != Some(address.base) && (part < operation || other.is_none() || written != other);
        part == operation || keeps && matches!(node.insn, Insn::Alu { .. } | Insn::Load { .. })
    };
    let between = (at + 1..store).map(|part| (part, &nodes[part]));
    between.into_iter().all(harmless).then_some(([at, operation, store], update))
}

/// What three instructions are, as an atomic operation.
struct Update {
    /// The register that held the value.
    value: Reg,
    /// The register that says where.
    base: Reg,
    /// What does the same.
    after: Vec<Insn>,
}

fn update(load: &Node, operation: &Node, store: &Node) -> Option<Update> {
    let Insn::Load { size, signed: false, dst: value, address } = load.insn else { return None };
    let Insn::Alu { op, width, dst, src } = operation.insn else { return None };
    let Insn::Store { size: stored, address: to, src: Source::Reg(from) } = store.insn else { return None };
    let same = dst == value && from == value && stored == size && to == address && address.base != value;
    // Four bytes are the same in both widths.
    let wide = size == Size::B8 && width == Width::W64 || size == Size::B4;
    if !same || !wide || src == Source::Reg(value) {
        return None;
    }
    let (op, src) = match (op, src) {
        (AluOp::Add, src) => (AtomicOp::Add, src),
        (AluOp::Sub, Source::Imm(imm)) => (AtomicOp::Add, Source::Imm(imm.checked_neg()?)),
        (AluOp::Or, src) => (AtomicOp::Or, src),
        (AluOp::And, src) => (AtomicOp::And, src),
        (AluOp::Xor, src) => (AtomicOp::Xor, src),
        _ => return None,
    };
    let atomic = |src| Insn::Atomic { op, fetch: false, size, address, src };
    let after = match src {
        Source::Reg(reg) => vec![atomic(reg)],
        imm => vec![Insn::Alu { op: AluOp::Mov, width: Width::W64, dst: value, src: imm }, atomic(value)],
    };
    Some(Update { value, base: address.base, after })
}

fn is_map_value(facts: &Facts, load: &Node, base: Reg) -> bool {
    let Some(known) = facts.at(load.id) else { return false };
    matches!(&known.registers[base.index()],
        Value::Pointer(pointer) if matches!(pointer.region, Region::MapValue(_)) && !pointer.nullable)
}
