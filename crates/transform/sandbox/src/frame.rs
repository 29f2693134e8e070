//! Free stack slots of a function's frame, and free registers at an instruction.

use std::collections::BTreeMap;

use kiln_isa::{Address, AluOp, Insn, Reg, RegSet, Size, Source, Width};
use kiln_platform::limits::MAX_STACK_BYTES;
use kiln_program::{Function, FunctionId, InsnId, Node};
use kiln_verifier::{Facts, InsnFacts, Region, Value};

/// A function's stack frame: what it uses itself is above, what the transform uses below.
pub(crate) struct Frame {
    /// The lowest byte in use, relative to the frame pointer.
    lowest: i32,
    /// Slots for values that are stored at one place of the code only; all places share them.
    shared: Vec<i16>,
    /// How many of them the present place uses.
    taken: usize,
}

impl Frame {
    /// The part that a function uses: what the verifier saw used on any path, also by functions that it calls; its own accesses,
    /// and every address in its frame that a register ever holds.
    pub(crate) fn of(id: FunctionId, function: &Function, facts: &Facts) -> Frame {
        let mut lowest = -(facts.stack_bytes(id) as i32);
        for node in &function.nodes {
            if let Some(address) = node.insn.address().filter(|address| address.base == Reg::R10) {
                lowest = lowest.min(i32::from(address.offset));
            }
            if let Insn::Alu { op: AluOp::Add, src: Source::Imm(imm), .. } = node.insn
                && (-(MAX_STACK_BYTES as i32)..0).contains(&imm)
                && holds_frame(node, facts)
            {
                lowest = lowest.min(imm);
            }
            for value in facts.at(node.id).iter().flat_map(|known| &known.registers) {
                if let Value::Pointer(pointer) = value
                    && pointer.region == (Region::Stack { up: 0 })
                {
                    lowest = lowest.min(pointer.offset.smin.clamp(-(MAX_STACK_BYTES as i64), 0) as i32);
                }
            }
        }
        Frame { lowest: lowest.div_euclid(8) * 8, shared: Vec::new(), taken: 0 }
    }

    /// Eight bytes more: their offset from the frame pointer.
    pub(crate) fn slot(&mut self) -> Option<i16> {
        let lowest = self.lowest - 8;
        if lowest < -(MAX_STACK_BYTES as i32) {
            return None;
        }
        self.lowest = lowest;
        Some(lowest as i16)
    }

    /// Begins another place of the code: the values stored at the last one are no longer needed.
    pub(crate) fn begin_place(&mut self) {
        self.taken = 0;
    }

    /// Eight bytes that are free at the present place.
    pub(crate) fn shared_slot(&mut self) -> Option<i16> {
        if self.taken == self.shared.len() {
            let slot = self.slot()?;
            self.shared.push(slot);
        }
        self.taken += 1;
        Some(self.shared[self.taken - 1])
    }
}

fn holds_frame(node: &Node, facts: &Facts) -> bool {
    let Some(dst) = node.insn.written() else { return false };
    facts.at(node.id).is_some_and(|known| match &known.registers[dst.index()] {
        Value::Pointer(pointer) => matches!(pointer.region, Region::Stack { up: 0 }),
        Value::Unknown => true,
        _ => false,
    })
}

/// Registers that are live after an instruction. A register that is uninitialized on some path is not live, although
/// `exit` may read it (R0 of a function that returns nothing). `written` are those that every path has written: the Facts may
/// call these uninitialized too, because that is how they say that they know nothing of a pointer.
pub(crate) fn needed_after(known: &InsnFacts, written: RegSet) -> RegSet {
    let holds = |reg: &Reg| written.contains(*reg) || known.registers[reg.index()] != Value::Uninit;
    known.live_after.iter().filter(holds).collect()
}

/// Registers that may be read from an instruction on, if these may be read after it.
pub(crate) fn live_before(insn: Insn, after: RegSet) -> RegSet {
    after.difference(insn.written().into_iter().collect()).union(insn.read())
}

/// The registers R1 to R10 that every path has written before each instruction.
pub(crate) fn written_before(function: &Function) -> BTreeMap<InsnId, RegSet> {
    let start = RegSet::arguments(5).union(RegSet::of(&[Reg::R10]));
    on_every_path(function, start, |node, before| {
        let destroyed = matches!(node.insn, Insn::Call(_) | Insn::LoadPacket { .. });
        let kept = if destroyed { before.difference(RegSet::CALLER_SAVED) } else { before };
        kept.union(node.insn.written().into_iter().filter(|reg| *reg != Reg::R0).collect())
    })
}

/// The registers that hold a number on every path before each instruction. The Facts say that of fewer: a number of which
/// they know nothing else may be anything to them.
pub(crate) fn numbers_before(function: &Function, facts: &Facts) -> BTreeMap<InsnId, RegSet> {
    let known = |id: InsnId| -> RegSet {
        let scalars = |known: &InsnFacts| {
            Reg::all().filter(|reg| matches!(known.registers[reg.index()], Value::Scalar(_))).collect()
        };
        facts.at(id).map_or(RegSet::EMPTY, scalars)
    };
    on_every_path(function, RegSet::EMPTY, |node, before| {
        let before = before.union(known(node.id));
        let of = |src: Source| !matches!(src, Source::Reg(reg) if !before.contains(reg));
        let number = match node.insn {
            Insn::Call(_) | Insn::LoadPacket { .. } => return before.difference(RegSet::CALLER_SAVED),
            Insn::Alu { width: Width::W32, .. } => true,
            Insn::Alu { op: AluOp::Mov, src, .. } => of(src),
            Insn::Alu { op: AluOp::Add | AluOp::Sub, dst, src, .. } => before.contains(dst) && of(src),
            Insn::Alu { .. } => true,
            Insn::Load { size, .. } => size != Size::B8 || facts.in_arena(node.id),
            _ => false,
        };
        let written: RegSet = node.insn.written().into_iter().collect();
        if number { before.union(written) } else { before.difference(written) }
    })
}

/// A set before each instruction that holds on every path to it.
fn on_every_path(
    function: &Function,
    start: RegSet,
    after: impl Fn(&Node, RegSet) -> RegSet,
) -> BTreeMap<InsnId, RegSet> {
    let positions: BTreeMap<InsnId, usize> =
        function.nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    let mut before: Vec<Option<RegSet>> = vec![None; function.nodes.len()];
    let mut pending = Vec::new();
    if let Some(first) = before.first_mut() {
        *first = Some(start);
        pending.push(0);
    }
    while let Some(at) = pending.pop() {
        let node = &function.nodes[at];
        let after = after(node, before[at].unwrap_or(RegSet::EMPTY));
        let falls = node.insn.falls_through();
        let target = node.target().and_then(|id| positions.get(&id).copied());
        for next in falls.then_some(at + 1).into_iter().chain(target) {
            let Some(known) = before.get_mut(next) else { continue };
            let joined = known.map_or(after, |known| known.intersection(after));
            if *known != Some(joined) {
                *known = Some(joined);
                pending.push(next);
            }
        }
    }
    let known = |(node, set): (&Node, &Option<RegSet>)| (node.id, set.unwrap_or(RegSet::EMPTY));
    function.nodes.iter().zip(&before).map(known).collect()
}

/// Registers that programs may use: R0 to R9, those that calls destroy first.
const ALLOCATABLE: [Reg; 10] =
    [Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5, Reg::R6, Reg::R7, Reg::R8, Reg::R9];

/// A register that is not in `busy`.
pub(crate) fn free_register(busy: RegSet) -> Option<Reg> {
    ALLOCATABLE.into_iter().find(|reg| !busy.contains(*reg))
}

/// `dst = *(u64 *)(base + offset)`.
pub(crate) fn load(dst: Reg, base: Reg, offset: i16) -> Insn {
    Insn::Load { size: Size::B8, signed: false, dst, address: Address { base, offset } }
}

/// `reg = r10 + offset`.
pub(crate) fn frame_address(reg: Reg, offset: i16) -> [Insn; 2] {
    let add = Insn::Alu { op: AluOp::Add, width: Width::W64, dst: reg, src: Source::Imm(offset.into()) };
    [Insn::mov(reg, Reg::R10), add]
}

/// `*(u64 *)(base + offset) = src`.
pub(crate) fn store(base: Reg, offset: i16, src: impl Into<Operand>) -> Insn {
    Insn::Store { size: Size::B8, address: Address { base, offset }, src: src.into().0 }
}

/// What a store stores.
pub(crate) struct Operand(Source);

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand(Source::Reg(reg))
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Operand {
        Operand(Source::Imm(imm))
    }
}
