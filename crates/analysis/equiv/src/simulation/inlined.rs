//! A function with its calls written out as instructions.
//!
//! ```text
//!   r1 = r6                  r1 = r6
//!   call twice       -->     *(u64 *)(r10 - 1024) = r6; ... r9        what a call keeps for its caller
//!   r0 += r7                 *(u32 *)(r10 - 12) = w1                  the callee, with its frame below the caller's
//!                            ...
//!                            r6 = *(u64 *)(r10 - 1024); ... r9
//!                            r0 += r7
//! ```
//!
//! This is not a program that could run: it keeps R6 to R9 at offsets where no frame has bytes. It expresses a call as
//! instructions, so that it can be compared with a function into which the callee was inlined. It assumes that the
//! frames of caller and callee do not overlap, and that a callee does not read bytes of its frame that it did not
//! write.

use std::collections::{BTreeMap, HashMap};

use kiln_isa::{Address, AluOp, Insn, Reg, Size, Source, Width};
use kiln_program::{Function, InsnId, Node, Reference};
use kiln_verifier::{Facts, InsnFacts, Region, StackSet, Value};

/// Where the caller's registers are kept: below every frame.
const KEPT: i16 = -1024;
/// Registers that calls preserve.
const SAVED: [Reg; 4] = [Reg::R6, Reg::R7, Reg::R8, Reg::R9];

/// A call and the instructions that took its place.
pub struct Placed<'a> {
    /// The call.
    pub call: InsnId,
    /// What it calls.
    pub callee: &'a Function,
    /// The id of each of the callee's instructions in the caller.
    pub ids: Vec<InsnId>,
}

/// A function with callees in place, and what is known of their instructions there.
pub struct Inlined {
    /// The function.
    pub function: Function,
    /// Facts of the added instructions; `None` for those that save and restore registers.
    pub known: HashMap<InsnId, Option<InsnFacts>>,
}

impl Inlined {
    /// `before` with these calls replaced as in `after`; `None` if that cannot be expressed as instructions.
    pub fn new(before: &Function, after: &Function, calls: &[Placed<'_>], facts: Option<&Facts>) -> Option<Inlined> {
        let mut inlined = Inlined { function: before.clone(), known: HashMap::new() };
        let ids = before.nodes.iter().chain(&after.nodes).map(|node| node.id.0);
        let mut fresh = ids.max().unwrap_or(0)..u32::MAX;
        for placed in calls {
            let shift = shift(placed, after)?;
            let at = inlined.function.position(placed.call)?;
            let body = inlined.body(placed, shift, facts, &mut || fresh.next_back().map(InsnId))?;
            let first = body.first()?.id;
            inlined.function.nodes.splice(at..=at, body);
            for node in &mut inlined.function.nodes {
                if node.target() == Some(placed.call) {
                    node.reference = Reference::Branch(first);
                }
            }
        }
        Some(inlined)
    }

    fn body(
        &mut self,
        placed: &Placed<'_>,
        shift: i32,
        facts: Option<&Facts>,
        fresh: &mut dyn FnMut() -> Option<InsnId>,
    ) -> Option<Vec<Node>> {
        let node = |id: InsnId, insn: Insn, reference: Reference| Node::new(id, insn, reference);
        let kept = |index: usize| Address { base: Reg::R10, offset: KEPT - 8 * index as i16 };
        let mut nodes = Vec::new();
        let mut restored = Vec::new();
        for (index, reg) in SAVED.into_iter().enumerate() {
            let (size, address) = (Size::B8, kept(index));
            nodes.push(node(fresh()?, Insn::Store { size, address, src: Source::Reg(reg) }, Reference::None));
            let load = Insn::Load { size, signed: false, dst: reg, address };
            restored.push(node(fresh()?, load, Reference::None));
        }
        let ids: HashMap<InsnId, InsnId> =
            placed.callee.nodes.iter().map(|node| node.id).zip(placed.ids.iter().copied()).collect();
        for old in &placed.callee.nodes {
            let mut own = Node { id: *ids.get(&old.id)?, ..old.clone() };
            if let Some(target) = old.target() {
                own.reference = Reference::Branch(*ids.get(&target)?);
            }
            let known = facts.and_then(|facts| facts.at(old.id));
            self.known.insert(own.id, known.map(elsewhere));
            match own.insn {
                Insn::Exit => {
                    own.insn = Insn::Jump { offset: 0, long: false };
                    own.reference = Reference::Branch(restored[0].id);
                    nodes.push(own);
                }
                Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(Reg::R10) } => {
                    nodes.push(own);
                    let lower = Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(shift) };
                    nodes.push(node(fresh()?, lower, Reference::None));
                }
                _ if own.insn.read().contains(Reg::R10) => {
                    own.insn = lowered(own.insn, i16::try_from(shift).ok()?).filter(|_| own.core.is_none())?;
                    nodes.push(own);
                }
                _ => nodes.push(own),
            }
        }
        nodes.extend(restored);
        nodes.iter().for_each(|node| {
            self.known.entry(node.id).or_insert(None);
        });
        Some(nodes)
    }
}

/// What is known of registers that do not point to a frame. Frames are at other offsets here.
fn elsewhere(known: &InsnFacts) -> InsnFacts {
    let registers = known.registers.clone().map(|value| match value {
        Value::Pointer(pointer) if matches!(pointer.region, Region::Stack { .. }) => Value::Unknown,
        Value::Uninit => Value::Unknown,
        other => other,
    });
    InsnFacts { registers, stack: BTreeMap::new(), stack_live_after: StackSet::ALL, ..known.clone() }
}

/// An access to the frame, lowered by `shift`; `None` if the instruction also reads the frame pointer in another way.
fn lowered(insn: Insn, shift: i16) -> Option<Insn> {
    let lower = |address: Address| {
        let offset = address.offset.checked_add(shift)?;
        (address.base == Reg::R10).then_some(Address { offset, ..address })
    };
    match insn {
        Insn::Load { size, signed, dst, address } => Some(Insn::Load { size, signed, dst, address: lower(address)? }),
        Insn::Store { size, address, src } if src != Source::Reg(Reg::R10) => {
            Some(Insn::Store { size, address: lower(address)?, src })
        }
        Insn::Atomic { op, fetch, size, address, src } if src != Reg::R10 => {
            Some(Insn::Atomic { op, fetch, size, address: lower(address)?, src })
        }
        _ => None,
    }
}

/// How much lower the callee's frame is: the first access to it shows it.
fn shift(placed: &Placed<'_>, after: &Function) -> Option<i32> {
    let own = |insn: &Insn| insn.address().filter(|address| address.base == Reg::R10).map(|address| address.offset);
    for (at, (old, id)) in placed.callee.nodes.iter().zip(&placed.ids).enumerate() {
        let position = after.position(*id)?;
        let new = &after.nodes[position];
        if let Some(offset) = own(&old.insn) {
            return Some(i32::from(own(&new.insn)?) - i32::from(offset));
        }
        let derived = |insn: &Insn| match *insn {
            Insn::Alu { op: AluOp::Add, width: Width::W64, src: Source::Imm(imm), .. } => Some(imm),
            _ => None,
        };
        if let Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Reg(Reg::R10), .. } = old.insn {
            let next = after.nodes.get(position + 1)?;
            let same = placed.ids.get(at + 1) == Some(&next.id);
            let was = placed.callee.nodes.get(at + 1).filter(|_| same).and_then(|next| derived(&next.insn));
            // Without an addition of its own where it now stands, nothing was lowered.
            return Some(derived(&next.insn).unwrap_or(0) - was.unwrap_or(0));
        }
    }
    Some(0)
}
