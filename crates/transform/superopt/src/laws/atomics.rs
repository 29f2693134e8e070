//! A load, an operation and a store as one atomic operation: smaller, and slower.
//!
//! ```text
//!   r1 = *(u64 *)(r0 + 0)
//!   r1 += 1                         r1 = 1
//!   *(u64 *)(r0 + 0) = r1     -->   lock *(u64 *)(r0 + 0) += r1
//! ```
//!
//! Run by itself, both do the same: the memory ends with the same bytes, and nobody reads the register afterwards.
//! Beside other CPUs, the atomic one does what the three do when nobody writes between the load and the store, so it
//! does nothing that they could not do; it only no longer loses an update. The simulation proves it in these words
//! (`kiln_equiv::simulation::segment`). What it costs is time: a bus lock for each
//! run. So it is for [`crate::Goal::Size`] alone, and for values of maps, which the kernel lets atomics write.

use std::collections::HashSet;

use kiln_isa::forms::version_of;
use kiln_isa::table::IsaVersion;
use kiln_isa::{AluOp, AtomicOp, Insn, Reg, Size, Source, Width};
use kiln_program::{Cfg, Function, InsnId, Node, Reference};
use kiln_verifier::{Facts, Region, Value};

use crate::edit;
use crate::evidence::Law;
use crate::flow::calls::Calls;
use crate::flow::demand;
use crate::laws::control_flow::Change;

/// Makes one update atomic; one a call.
pub fn make_atomic(
    function: &mut Function,
    calls: &Calls,
    facts: Option<&Facts>,
    isa: IsaVersion,
    banned: &dyn Fn(InsnId) -> bool,
) -> Vec<Change> {
    let Some(facts) = facts else { return Vec::new() };
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    for (block, end) in cfg.blocks.iter().zip(&ends) {
        let nodes = &function.nodes[block.range.clone()];
        let after = demand::after_each(nodes, *end, calls);
        for at in 0..nodes.len().saturating_sub(2) {
            let [load, operation, store] = &nodes[at..at + 3] else { continue };
            let free = |reg: Reg| after[at + 2].of(reg) == 0;
            let plain = [load, operation, store].iter().all(|node| node.core.is_none() && !banned(node.id));
            let Some(update) = update(load, operation, store).filter(|update| plain && free(update.value)) else {
                continue;
            };
            if !is_map_value(facts, load, update.base) || update.after.iter().any(|insn| version_of(insn) > isa) {
                continue;
            }
            let before = vec![load.clone(), operation.clone(), store.clone()];
            let kept = before[3 - update.after.len()..].iter();
            let made: Vec<Node> = kept
                .zip(update.after)
                .map(|(node, insn)| Node { insn, reference: Reference::None, ..node.clone() })
                .collect();
            let doomed: HashSet<InsnId> = before[..3 - made.len()].iter().map(|node| node.id).collect();
            for new in &made {
                if let Some(node) = function.nodes.iter_mut().find(|node| node.id == new.id) {
                    *node = new.clone();
                }
            }
            edit::delete(function, &doomed);
            return vec![Change::new(Law::AtomicUpdate, before, made)];
        }
    }
    Vec::new()
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
    // Of four bytes, both widths give the same ones.
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
