//! A loop that goes on by a number which it has just stored: the test is copied behind the store, with that number.
//!
//! ```text
//!   L1: ...                                  L1: ...
//!       w1 = 4088                                w1 = 4088
//!       *(u32 *)(r7 + 0) = w1                    *(u32 *)(r7 + 0) = w1
//!       w1 = 0                                   w1 = 0
//!                                                goto C
//!   L2: w2 = *(u32 *)(r7 + 0)          -->   L2: w2 = *(u32 *)(r7 + 0)
//!       w2 += -16                                w2 += -16
//!       if w2 s< 0 goto L1                       if w2 s< 0 goto L1
//!       ...                                  L3: ...
//!                                            C:  w2 = 4088
//!                                                w2 += -16
//!                                                if w2 s< 0 goto L1     the verifier knows that it is 4072
//!                                                goto L3
//! ```
//!
//! The verifier does not know what it stores into a map or an arena, so for it the loop never ends.

use kiln_isa::{Address, AluOp, Insn, Reg, Size, Source, Width};
use kiln_program::{Function, FunctionId, InsnId, Node, Object, Program, Reference};

/// Instructions from the store to the branch, at most.
const MAX_PATH: usize = 64;
/// Instructions before the store that are searched for a constant.
const MAX_BEFORE: usize = 16;

/// A store, and a load of the same place on the way to a branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forwarded {
    /// The function.
    pub function: FunctionId,
    /// The store.
    pub store: InsnId,
    /// Positions on the way to the first label behind the store: the last one goes on to the label.
    last: usize,
    /// Positions from that label to the branch; none if no label is in front of the load.
    copied: Vec<usize>,
    /// What is in place of the load.
    value: [Option<Insn>; 2],
    /// The load.
    load: usize,
}

/// Returns the loads of stored numbers in the function of an instruction, each on the way from its store to a branch.
pub fn forwarded(object: &Object, program: &Program, at: InsnId) -> Vec<Forwarded> {
    let reached = object.reachable_functions(program.entry);
    let Some(id) = reached.into_iter().find(|id| object.function(*id).position(at).is_some()) else {
        return Vec::new();
    };
    let function = object.function(id);
    let found = |(position, node): (usize, &Node)| match node.insn {
        Insn::Store { size, address, src } if node.core.is_none() => from_store(function, position, size, address, src),
        _ => None,
    };
    let found = function.nodes.iter().enumerate().filter_map(found);
    found.map(|found| Forwarded { function: id, ..found }).collect()
}

/// The way from a store to a branch behind a load of the same place, over a label.
fn from_store(function: &Function, store: usize, size: Size, place: Address, src: Source) -> Option<Forwarded> {
    let mut found: Option<(usize, [Option<Insn>; 2])> = None;
    let (mut at, mut last, mut copied) = (store, None, Vec::new());
    let mut unchanged = true;
    for _ in 0..MAX_PATH {
        let next = match function.nodes[at].insn {
            Insn::Jump { .. } => function.position(function.nodes[at].target()?)?,
            _ => at + 1,
        };
        let node = function.nodes.get(next)?;
        if last.is_none() && is_label(function, node.id) {
            last = Some(at);
        }
        if last.is_some() {
            copied.push(next);
        }
        match node.insn {
            Insn::Load { size: own, signed: false, dst, address }
                if found.is_none() && (own, address) == (size, place) && node.core.is_none() =>
            {
                found = Some((next, value(function, store, size, src, unchanged, dst)?));
            }
            Insn::Branch { .. } if let Some((load, value)) = found => {
                // Without a label, no other path leads to the load, and nothing is copied.
                let (function, store) = (FunctionId(0), function.nodes[store].id);
                let copied = if copied.contains(&load) { copied } else { Vec::new() };
                return Some(Forwarded { function, store, last: last.unwrap_or(at), copied, value, load });
            }
            insn if insn.is_control() && !matches!(insn, Insn::Jump { .. } | Insn::Branch { .. }) => return None,
            _ => {}
        }
        if found.is_none() && node.insn.written() == Some(place.base) {
            return None;
        }
        unchanged &= !matches!(src, Source::Reg(src) if node.insn.written() == Some(src));
        at = next;
    }
    None
}

fn is_label(function: &Function, id: InsnId) -> bool {
    function.nodes.iter().any(|node| node.reference == Reference::Branch(id))
}

/// The instructions that give a register the stored number, as the load would.
fn value(
    function: &Function,
    store: usize,
    size: Size,
    src: Source,
    unchanged: bool,
    dst: Reg,
) -> Option<[Option<Insn>; 2]> {
    let constant = match src {
        Source::Imm(imm) => Some(i64::from(imm)),
        Source::Reg(src) => constant(function, store, src),
    };
    let mov = |width: Width, src: Source| Insn::Alu { op: AluOp::Mov, width, dst, src };
    if let Some(constant) = constant {
        let kept = if size == Size::B8 { constant } else { constant & ((1 << size.bits()) - 1) };
        let insn = match size {
            Size::B8 => mov(Width::W64, Source::Imm(i32::try_from(kept).ok()?)),
            _ => mov(Width::W32, Source::Imm(kept as u32 as i32)),
        };
        return Some([Some(insn), None]);
    }
    let src = src.reg().filter(|_| unchanged)?;
    let width = if size == Size::B8 { Width::W64 } else { Width::W32 };
    let mask = 1_i32.checked_shl(size.bits()).map(|end| end - 1);
    let cut = |mask: i32| Insn::Alu { op: AluOp::And, width, dst, src: Source::Imm(mask) };
    Some([Some(mov(width, Source::Reg(src))), mask.map(cut)])
}

/// The constant that a register holds before an instruction, if it is set in the same block.
fn constant(function: &Function, before: usize, register: Reg) -> Option<i64> {
    for position in (before.saturating_sub(MAX_BEFORE)..=before).rev() {
        let node = &function.nodes[position];
        if position < before && node.insn.written() == Some(register) {
            return match node.insn {
                Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Imm(imm), .. } => Some(imm.into()),
                Insn::Alu { op: AluOp::Mov, width: Width::W32, src: Source::Imm(imm), .. } => {
                    Some(i64::from(imm as u32))
                }
                _ => None,
            };
        }
        if node.insn.is_control() && position < before || is_label(function, node.id) {
            return None;
        }
    }
    None
}

/// Returns the object with a copy of the test, and the ids of what was inserted.
pub fn apply(object: &Object, own: &Forwarded) -> Option<(Object, Vec<InsnId>)> {
    let function = object.function(own.function);
    let mut changed = object.clone();
    if own.copied.is_empty() {
        return in_place(changed, own);
    }
    let mut copy = Vec::new();
    for position in &own.copied {
        let node = function.nodes.get(*position)?;
        let insns: Vec<Insn> = match node.insn {
            Insn::Jump { .. } => continue,
            _ if *position == own.load => own.value.into_iter().flatten().collect(),
            insn => vec![insn],
        };
        for insn in insns {
            let mut new = changed.new_node(insn, node.reference);
            (new.line, new.core) = (node.line, node.core);
            copy.push(new);
        }
    }
    let jump = Insn::Jump { offset: 0, long: false };
    let after = function.nodes.get(own.copied.last()? + 1)?.id;
    copy.push(changed.new_node(jump, Reference::Branch(after)));
    let begin = Reference::Branch(copy.first()?.id);
    let to_copy = changed.new_node(jump, begin);
    let mut inserted: Vec<InsnId> = copy.iter().map(|node| node.id).collect();
    let nodes = &mut changed.functions.get_mut(own.function.index())?.nodes;
    nodes.extend(copy);
    match nodes[own.last].insn {
        Insn::Jump { .. } => nodes[own.last].reference = begin,
        _ => {
            inserted.push(to_copy.id);
            nodes.insert(own.last + 1, to_copy);
        }
    }
    Some((changed, inserted))
}

/// Replaces the load itself.
fn in_place(mut changed: Object, own: &Forwarded) -> Option<(Object, Vec<InsnId>)> {
    let [first, second] = own.value;
    let more = second.map(|insn| changed.new_node(insn, Reference::None));
    let nodes = &mut changed.functions.get_mut(own.function.index())?.nodes;
    nodes.get_mut(own.load)?.insn = first?;
    let inserted = more.iter().map(|node| node.id).collect();
    nodes.splice(own.load + 1..own.load + 1, more);
    Some((changed, inserted))
}
