//! Accesses through a pointer that may not be moved, and that a number moves: a copy of them for each value of the number.
//!
//! ```text
//!       r3 = r1                              r3 = r1
//!       r3 += r2                             if r2 == 4 goto C4
//!       r4 = *(u16 *)(r3 + 8)       -->      r3 += r2
//!       r5 = *(u16 *)(r3 + 10)               r4 = *(u16 *)(r3 + 8)
//!       if r4 == r5 goto again               r5 = *(u16 *)(r3 + 10)
//!       ...                             J:   if r4 == r5 goto again
//!                                            ...
//!                                       C4:  r3 += r2
//!                                            r3 += -4                the verifier knows r2 here: r3 is r1
//!                                            r4 = *(u16 *)(r3 + 12)
//!                                            r5 = *(u16 *)(r3 + 14)
//!                                            goto J
//! ```
//!
//! The kernel reads a context only at an offset that stands in the instruction. A compiler that does not unroll a loop over
//! an array in the context adds the loop's number to the pointer, and sometimes a constant before that. Every copy accesses
//! the same addresses whatever the number is, so nothing has to be proved of the number. The comparison only tells the
//! verifier what it is.

use std::ops::Range;

use kiln_isa::{Address, AluOp, Insn, JumpOp, Reg, Source, Width};
use kiln_program::{Function, FunctionId, InsnId, LineId, Node, Object, Program, Reference, liveness};

/// Constants that are tried for what is in the pointer already.
const MAX_CONSTANTS: usize = 8;
/// Instructions between the addition and the last access, ends included, at most.
const MAX_COPIED: usize = 64;

/// An addition of a number to a pointer, and the accesses through that pointer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accesses {
    /// The function.
    pub function: FunctionId,
    /// Positions from the addition to the last access.
    pub range: Range<usize>,
    /// The register that is accessed through.
    pointer: Reg,
    /// The number, before the addition.
    pub number: Reg,
    /// By what the pointer was moved before the addition.
    before: i32,
}

/// A value of the number, and by what the pointer is moved then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// The value.
    pub value: i32,
    /// The distance.
    pub distance: i32,
}

/// What follows if the number has none of the values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Otherwise {
    /// The accesses as they are.
    Same,
    /// The end of the run, with this value.
    Ends(i32),
}

impl Accesses {
    /// The case of a distance.
    pub fn case(&self, distance: i32) -> Option<Case> {
        Some(Case { value: distance.checked_sub(self.before)?, distance })
    }

    /// Whether these are the first accesses with their registers: others only differ in the constant.
    pub fn is_first(&self) -> bool {
        self.before == 0
    }

    /// Whether one of the accesses is this instruction.
    pub fn contain(&self, object: &Object, insn: InsnId) -> bool {
        object.function(self.function).nodes[self.range.clone()].iter().any(|node| node.id == insn)
    }
}

/// Returns the accesses around an instruction, once for each of the two registers that may be the number, and for each
/// constant by which the pointer may have been moved before.
pub fn around(object: &Object, program: &Program, at: InsnId) -> Vec<Accesses> {
    let reached = object.reachable_functions(program.entry);
    let found = reached.into_iter().find_map(|id| Some((id, object.function(id).position(at)?)));
    let Some((id, position)) = found else { return Vec::new() };
    let function = object.function(id);
    let Some(pointer) = base(function.nodes[position].insn) else { return Vec::new() };
    let Some((start, other)) = addition(function, position, pointer) else { return Vec::new() };
    let end = last_access(function, start, pointer) + 1;
    if end <= position {
        return Vec::new();
    }
    let with = |before: i32| {
        [other, pointer].map(|number| Accesses { function: id, range: start..end, pointer, number, before })
    };
    constants(function).into_iter().flat_map(with).collect()
}

/// 0, and the constants that a function adds to registers.
fn constants(function: &Function) -> Vec<i32> {
    let mut constants = vec![0];
    for node in &function.nodes {
        if let Insn::Alu { op: AluOp::Add, width: Width::W64, src: Source::Imm(value), .. } = node.insn
            && !constants.contains(&value)
            && constants.len() < MAX_CONSTANTS
        {
            constants.push(value);
        }
    }
    constants
}

/// The register that an instruction accesses memory through.
fn base(insn: Insn) -> Option<Reg> {
    match insn {
        Insn::Load { address, .. } | Insn::Store { address, .. } => Some(address.base),
        _ => None,
    }
}

/// Whether an instruction may be copied: it goes on to the next one, and nothing in it is written by the loader.
fn is_plain(node: &Node) -> bool {
    let plain = matches!(node.insn, Insn::Alu { .. } | Insn::Load { .. } | Insn::Store { .. } | Insn::LoadImm64 { .. });
    plain && node.core.is_none()
}

/// The addition of a register to a pointer from which control goes straight on to an access, and that register.
fn addition(function: &Function, access: usize, pointer: Reg) -> Option<(usize, Reg)> {
    for position in (access.saturating_sub(MAX_COPIED)..access).rev() {
        let (node, next) = (&function.nodes[position], function.nodes[position + 1].id);
        if !is_plain(node) || function.nodes.iter().any(|node| node.reference == Reference::Branch(next)) {
            return None;
        }
        match node.insn {
            Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Reg(src) } if dst == pointer => {
                return (src != pointer).then_some((position, src));
            }
            insn if insn.written() == Some(pointer) => return None,
            _ => {}
        }
    }
    None
}

/// The last access through a pointer before it is used for anything else.
fn last_access(function: &Function, start: usize, pointer: Reg) -> usize {
    let mut last = start;
    for (position, node) in function.nodes.iter().enumerate().skip(start + 1).take(MAX_COPIED) {
        let is_label = function.nodes.iter().any(|other| other.reference == Reference::Branch(node.id));
        if is_label || !is_plain(node) {
            break;
        }
        let stores_it = matches!(node.insn, Insn::Store { src: Source::Reg(src), .. } if src == pointer);
        match base(node.insn) == Some(pointer) && !stores_it {
            true => last = position,
            false if node.insn.read().contains(pointer) => break,
            false => {}
        }
        if node.insn.written() == Some(pointer) {
            break;
        }
    }
    last
}

/// Returns the object with a copy of the accesses for each case, and the ids of what was inserted.
pub fn apply(
    object: &Object,
    accesses: &Accesses,
    cases: &[Case],
    otherwise: Otherwise,
) -> Option<(Object, Vec<InsnId>)> {
    let mut changed = object.clone();
    let function = object.function(accesses.function);
    let first = function.nodes.get(accesses.range.start)?;
    let join = function.nodes.get(accesses.range.end)?.id;
    let is_read_later = is_live_after(function, accesses);
    let (mut choice, mut copies) = (Vec::new(), Vec::new());
    for case in cases {
        let copy = copy(&mut changed, function, accesses, case.distance, is_read_later, join)?;
        let (dst, src) = (accesses.number, Source::Imm(case.value));
        let branch = Insn::Branch { op: JumpOp::Eq, width: Width::W64, dst, src, offset: 0 };
        choice.push(node(&mut changed, branch, Reference::Branch(copy[0].id), first.line));
        copies.extend(copy);
    }
    let replaced = match otherwise {
        Otherwise::Same => accesses.range.start..accesses.range.start,
        Otherwise::Ends(value) => {
            for insn in [Insn::mov_imm(Reg::R0, value), Insn::Exit] {
                choice.push(node(&mut changed, insn, Reference::None, first.line));
            }
            accesses.range.clone()
        }
    };
    let inserted: Vec<InsnId> = choice.iter().chain(&copies).map(|node| node.id).collect();
    let own = changed.functions.get_mut(accesses.function.index())?;
    crate::means::retarget(own, first.id, *inserted.first()?);
    own.nodes.extend(copies);
    own.nodes.splice(replaced, choice);
    Some((changed, inserted))
}

fn is_live_after(function: &Function, accesses: &Accesses) -> bool {
    let positions = liveness::Positions::of(&function.nodes);
    let live = liveness::live_after(&function.nodes, &positions);
    live[accesses.range.end - 1].contains(accesses.pointer)
}

fn node(object: &mut Object, insn: Insn, reference: Reference, line: Option<LineId>) -> Node {
    let mut node = object.new_node(insn, reference);
    node.line = line;
    node
}

/// The accesses for one distance: the same addresses, with that much less in the pointer and more in the instructions.
fn copy(
    changed: &mut Object,
    function: &Function,
    accesses: &Accesses,
    distance: i32,
    is_read_later: bool,
    join: InsnId,
) -> Option<Vec<Node>> {
    let Accesses { pointer, .. } = *accesses;
    let moved = i16::try_from(distance).ok()?;
    let nodes = &function.nodes[accesses.range.clone()];
    let line = nodes.first()?.line;
    let add = |by: i32| Insn::Alu { op: AluOp::Add, width: Width::W64, dst: pointer, src: Source::Imm(by) };
    let mut copy = vec![node(changed, nodes[0].insn, nodes[0].reference, line)];
    if distance != 0 {
        copy.push(node(changed, add(-distance), Reference::None, line));
    }
    for own in &nodes[1..] {
        let insn = match base(own.insn) == Some(pointer) {
            true => with_offset(own.insn, moved)?,
            false => own.insn,
        };
        copy.push(node(changed, insn, own.reference, own.line));
    }
    if is_read_later && distance != 0 && nodes.last()?.insn.written() != Some(pointer) {
        copy.push(node(changed, add(distance), Reference::None, line));
    }
    copy.push(node(changed, Insn::Jump { offset: 0, long: false }, Reference::Branch(join), line));
    Some(copy)
}

/// An access, moved.
fn with_offset(insn: Insn, by: i16) -> Option<Insn> {
    let moved = |address: Address| Some(Address { offset: address.offset.checked_add(by)?, ..address });
    Some(match insn {
        Insn::Load { size, signed, dst, address } => Insn::Load { size, signed, dst, address: moved(address)? },
        Insn::Store { size, address, src } => Insn::Store { size, address: moved(address)?, src },
        _ => return None,
    })
}
