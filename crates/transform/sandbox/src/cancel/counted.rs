//! What programs share with user space about cancellation, `struct kiln_cancellation` in `kiln/heap.h`: a word that
//! cancels runs under kernel locks, and how many runs were cancelled at each point, and in all if the sandbox detaches.

use kiln_isa::{Address, AluOp, AtomicOp, Insn, Reg, RegSet, Size, Source, Width};
use kiln_program::{InsnId, LineId, MapId, Node, Object, Reference};
use kiln_verifier::Held;

use super::canceller::Canceller;
use crate::error::Error;
use crate::frame::{free_register, load};

/// The data section that has it.
pub const SECTION: &str = ".bss.kiln";
/// Offsets in it: the terminate word, the number of cancelled runs, and those of each point.
pub const TERMINATE: u32 = 0;
/// See [`TERMINATE`].
pub const RUNS: u32 = 8;
/// See [`TERMINATE`].
pub const POINTS: u32 = 16;
/// Points that are counted one by one, `KILN_POINTS`; the last counter is for all others.
pub const MOST_POINTS: usize = 126;

/// Where the entries follow through which tail calls hand the deadline over: four of 32 bytes for each of `KILN_HANDOVERS` CPUs.
pub const HANDOVERS: u32 = POINTS + 8 * MOST_POINTS as u32;
const HANDOVER_BYTES: u32 = 64 * 4 * 32;

/// The section, in objects that have one of that size.
pub fn section(object: &Object) -> Option<MapId> {
    section_of(object, HANDOVERS)
}

/// The section, in objects that have one with entries for tail calls.
pub(crate) fn section_with_handovers(object: &Object) -> Option<MapId> {
    section_of(object, HANDOVERS + HANDOVER_BYTES)
}

fn section_of(object: &Object, bytes: u32) -> Option<MapId> {
    let found =
        object.maps.iter().position(|map| map.name == SECTION && map.is_section() && map.value_size >= bytes)?;
    Some(MapId(found as u32))
}

impl Canceller<'_, '_> {
    /// Loads the address of a word of the section.
    pub(super) fn address_of(&mut self, reg: Reg, map: MapId, offset: u32, line: Option<LineId>) -> Node {
        let load = Node::address_load(reg);
        self.edit.node(load, Reference::MapValue { map, offset }, line)
    }

    /// Counts that a run is cancelled at a point, and goes on to the landing pad; its first instruction.
    pub(super) fn counted(&mut self, at: &Node, number: usize, held: &Held, pad: InsnId) -> Result<InsnId, Error> {
        let Some(map) = self.shared else { return Ok(pad) };
        let mut busy = self.registers_released(held).union(RegSet::of(&[Reg::R10]));
        let mut free = || {
            let reg = free_register(busy)?;
            busy.insert(reg);
            Some(reg)
        };
        let (Some(address), Some(one)) = (free(), free()) else {
            return Err(self.edit.unsupported(Some(at.id), "no registers are free to count a cancelled run"));
        };
        let offset = POINTS + 8 * number.min(MOST_POINTS - 1) as u32;
        // One counter after the other: both are in one section.
        let mut nodes = vec![self.address_of(address, map, offset, at.line)];
        let add = |offset: i16| Insn::Atomic {
            op: AtomicOp::Add,
            fetch: false,
            size: Size::B8,
            address: Address { base: address, offset },
            src: one,
        };
        nodes.extend(self.edit.nodes([Insn::mov_imm(one, 1), add(0)], at.line));
        if self.counts_runs {
            let back = Source::Imm((offset - RUNS) as i32);
            let back = Insn::Alu { op: AluOp::Sub, width: Width::W64, dst: address, src: back };
            nodes.extend(self.edit.nodes([back, add(0)], at.line));
        }
        nodes.push(self.jump(pad, at.line));
        let first = nodes[0].id;
        self.edit.land(nodes);
        Ok(first)
    }

    /// Jumps to `to` if user space has set the terminate word.
    pub(super) fn look_at_word(&mut self, reg: Reg, map: MapId, to: InsnId, line: Option<LineId>) -> Vec<Node> {
        let mut nodes = vec![self.address_of(reg, map, TERMINATE, line)];
        nodes.extend(self.edit.nodes([load(reg, reg, 0)], line));
        nodes.push(self.branch(kiln_isa::JumpOp::Ne, reg, Source::Imm(0), to, line));
        nodes
    }
}
