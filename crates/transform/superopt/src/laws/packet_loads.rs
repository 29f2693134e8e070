//! Offsets of classic packet loads.
//!
//! ```text
//!   r1 = r7                           r0 = *(u16 *)skb[r7 + 6]
//!   r1 += 6                    -->
//!   r0 = *(u16 *)skb[r1]
//! ```
//!
//! Compilers put the whole offset into a register, though the instruction adds a constant of its own, as wide as a
//! register. The register that the sum came from must still hold what it held; the sum then has no readers. Offsets are
//! 32 bits wide, and so is all arithmetic here.

use kiln_isa::{AluOp, Insn, PacketMode, Reg, RegSet, Source};
use kiln_program::{Cfg, Node};

use crate::laws::context::{Change, Context};

/// A value that nothing is known of, by its number, and a constant.
#[derive(Clone, Copy)]
struct Sum {
    root: u32,
    offset: i32,
}

/// Folds constants that were added to packet offsets into the loads.
pub fn fold_offsets(context: Context<'_>) -> Vec<Change> {
    let Context { function, banned, .. } = context;
    let cfg = Cfg::new(function);
    let mut changes = Vec::new();
    for block in &cfg.blocks {
        let mut roots = 0..;
        let mut own = || Sum { root: roots.next().expect("blocks are finite"), offset: 0 };
        let mut sums: [Sum; Reg::COUNT] = std::array::from_fn(|_| own());
        for node in &mut function.nodes[block.range.clone()] {
            if let Insn::LoadPacket { mode: PacketMode::Indirect(reg), size, offset } = node.insn
                && node.core.is_none()
                && !banned(node.id)
                && let Some(base) = base(&sums, reg)
            {
                let before = node.clone();
                let offset = offset.wrapping_add(sums[reg.index()].offset).wrapping_sub(sums[base.index()].offset);
                node.insn = Insn::LoadPacket { mode: PacketMode::Indirect(base), size, offset };
                changes.push(Change::new(vec![before], vec![node.clone()]));
            }
            step(&mut sums, node, &mut own);
        }
    }
    changes
}

/// From before an instruction to after it.
fn step(sums: &mut [Sum; Reg::COUNT], node: &Node, mut own: impl FnMut() -> Sum) {
    if let Insn::Call(_) | Insn::LoadPacket { .. } = node.insn {
        for reg in RegSet::CALLER_SAVED.iter() {
            sums[reg.index()] = own();
        }
    }
    let Some(dst) = node.insn.written() else { return };
    sums[dst.index()] = match node.insn {
        _ if node.core.is_some() => own(),
        Insn::Alu { op: AluOp::Mov, src: Source::Reg(src), .. } => sums[src.index()],
        Insn::Alu { op: AluOp::Add, src: Source::Imm(imm), .. } => {
            let Sum { root, offset } = sums[dst.index()];
            Sum { root, offset: offset.wrapping_add(imm) }
        }
        _ => own(),
    };
}

/// Another register that held the value before the constant was added.
fn base(sums: &[Sum; Reg::COUNT], reg: Reg) -> Option<Reg> {
    let Sum { root, offset } = sums[reg.index()];
    let before = |other: &Reg| sums[other.index()].root == root && sums[other.index()].offset == 0;
    Reg::all().filter(|_| offset != 0).filter(before).min_by_key(|other| RegSet::CALLER_SAVED.contains(*other))
}
