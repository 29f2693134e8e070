//! A comparison with the packet's end where another pointer, that is not beyond it, ends what is read.
//!
//! ```text
//!   r3 = *(u32 *)(r1 + 4)             r3 = *(u32 *)(r1 + 4)        the end of the packet
//!                                     *(u64 *)(r10 - 8) = r3
//!   if r4 > r3 goto out               if r4 > r3 goto out          r4: the end of the options
//! L: if r2 >= r4 goto out       -->   L: if r2 >= r4 goto out
//!                                     r5 = *(u64 *)(r10 - 8)
//!                                     r2 += 1
//!                                     if r2 <= r5 goto M           always
//!                                     r0 = 0
//!                                     exit
//!                                  M: r2 += -1
//!   r0 = *(u8 *)(r2 + 0)              r0 = *(u8 *)(r2 + 0)
//! ```
//!
//! The verifier knows how far a pointer is from the packet's end only after a comparison with that end itself. If the same
//! register leads to bytes further on, one comparison for all of them is tried first.

use kiln_isa::{Address, AluOp, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_platform::FieldValue;
use kiln_program::{Function, FunctionId, InsnId, Node, Object, Program, Reference, liveness};

use crate::means;

/// The lowest byte of a frame, as the kernel has it.
const FRAME: i16 = -512;

/// An access to the packet, and what a comparison in front of it needs.
#[derive(Clone, Copy, Debug)]
struct Access {
    base: Reg,
    /// Bytes from what the register holds to the end of the access.
    end: i32,
    /// A register that holds nothing there.
    free: Reg,
    /// Where the packet's end is kept in the frame.
    slot: i16,
}

/// An object in which an access is compared with the packet's end, and a run that is beyond it ends with a value.
pub struct Compared {
    /// The object.
    pub object: Object,
    /// The register that is compared.
    pub register: Reg,
    /// What was inserted.
    pub inserted: Vec<InsnId>,
}

/// How many bytes from what its register holds an access of the program's own function goes, and first those that follow it
/// go until that register changes.
pub fn ends(object: &Object, program: &Program, at: InsnId) -> Vec<i32> {
    let entry = object.function(program.entry);
    let Some(position) = entry.position(at) else { return Vec::new() };
    let nodes = &entry.nodes[position..];
    let Some((base, own)) = reach(nodes[0].insn) else { return Vec::new() };
    let changes = |node: &&Node| {
        let leaves = matches!(node.insn, Insn::Jump { .. } | Insn::Call(_) | Insn::Exit);
        leaves || liveness::written(&node.insn).contains(base)
    };
    let last = nodes.iter().position(|node| changes(&node)).unwrap_or(nodes.len() - 1);
    let same = nodes[..=last].iter().filter_map(|node| reach(node.insn)).filter(|(other, _)| *other == base);
    let furthest = same.map(|(_, end)| end).max().unwrap_or(own);
    let mut ends = vec![furthest, own];
    ends.dedup();
    ends
}

/// The register through which an instruction accesses memory, and the end of the access from what it holds.
fn reach(insn: Insn) -> Option<(Reg, i32)> {
    match insn {
        Insn::Load { size, address, .. } | Insn::Store { size, address, .. } if address.base != Reg::R10 => {
            Some((address.base, i32::from(address.offset) + size.bytes() as i32))
        }
        _ => None,
    }
}

/// Compares an access of the program's own function with the packet's end, up to one of [`ends`].
pub fn compared(object: &Object, program: &Program, at: InsnId, end: i32, value: i32) -> Option<Compared> {
    let entry = object.function(program.entry);
    let load = load_of_end(entry, program.program_type?.context().fields)?;
    let position = entry.position(at)?;
    let access = access(entry, position, end)?;
    let mut changed = object.clone();
    let mut inserted: Vec<InsnId> = keep(&mut changed, program.entry, load, access.slot).into_iter().collect();
    let check = check(&mut changed, &entry.nodes[position], access, value);
    let function = changed.functions.get_mut(program.entry.index())?;
    means::retarget(function, at, check.first()?.id);
    inserted.extend(check.iter().map(|node| node.id));
    let position = function.position(at)?;
    function.nodes.splice(position..position, check);
    Some(Compared { object: changed, register: access.base, inserted })
}

/// The first load before any call that may be of the packet's end. Only its offset says so; that it is of the context, the
/// verifier knows.
fn load_of_end(function: &Function, fields: &[kiln_platform::Field]) -> Option<usize> {
    let ends: Vec<u32> = fields.iter().filter(|own| own.value == FieldValue::PacketEnd).map(|own| own.offset).collect();
    let is_end = |node: &Node| match node.insn {
        Insn::Load { address, signed: false, dst, .. } => {
            u32::try_from(address.offset).is_ok_and(|at| ends.contains(&at))
                && address.base != Reg::R10
                && dst != Reg::R10
        }
        _ => false,
    };
    let mut before_calls = function.nodes.iter().take_while(|node| !matches!(node.insn, Insn::Call { .. }));
    before_calls.position(is_end)
}

fn access(function: &Function, position: usize, end: i32) -> Option<Access> {
    let insn = function.nodes.get(position)?.insn;
    let (base, _) = reach(insn)?;
    let positions = liveness::Positions::of(&function.nodes);
    let after = liveness::live_after(&function.nodes, &positions)[position];
    let before = after.difference(liveness::written(&insn)).union(liveness::read(&insn));
    let free = Reg::all().find(|reg| *reg != Reg::R10 && !before.contains(*reg))?;
    Some(Access { base, end, free, slot: slot(function)? })
}

/// Eight bytes of the frame below all that the function uses.
fn slot(function: &Function) -> Option<i16> {
    let used = function.nodes.iter().filter_map(|node| match node.insn {
        Insn::Load { address, .. } | Insn::Store { address, .. } if address.base == Reg::R10 => Some(address.offset),
        Insn::Alu { op: AluOp::Add, src: Source::Imm(imm), .. } => i16::try_from(imm).ok(),
        _ => None,
    });
    let lowest = used.filter(|at| (FRAME..0).contains(at)).min().unwrap_or(0);
    // What an earlier change kept is kept once.
    let is_kept = |pair: &[Node]| match pair {
        [load, store] => {
            matches!((load.insn, store.insn), (Insn::Load { dst, .. }, Insn::Store { size: Size::B8, address, src: Source::Reg(src) })
                if dst == src && address.base == Reg::R10 && address.offset == lowest)
        }
        _ => false,
    };
    if function.nodes.windows(2).any(is_kept) {
        return Some(lowest);
    }
    let below = lowest.div_euclid(8) * 8 - 8;
    (below >= FRAME).then_some(below)
}

/// Stores what a load gives, unless that is done already. Returns what was inserted.
fn keep(object: &mut Object, function: FunctionId, load: usize, slot: i16) -> Option<InsnId> {
    let nodes = &object.function(function).nodes;
    let (dst, line) = (nodes.get(load)?.insn.written()?, nodes.get(load)?.line);
    let address = Address { base: Reg::R10, offset: slot };
    let store = Insn::Store { size: Size::B8, address, src: Source::Reg(dst) };
    if nodes.get(load + 1).is_some_and(|next| next.insn == store) {
        return None;
    }
    let mut node = object.new_node(store, Reference::None);
    node.line = line;
    let id = node.id;
    object.functions.get_mut(function.index())?.nodes.insert(load + 1, node);
    Some(id)
}

/// The comparison.
fn check(object: &mut Object, old: &Node, access: Access, value: i32) -> Vec<Node> {
    let Access { base, end, free, slot, .. } = access;
    let width = Width::W64;
    let add = |imm: i32| Insn::Alu { op: AluOp::Add, width, dst: base, src: Source::Imm(imm) };
    let address = Address { base: Reg::R10, offset: slot };
    let insns = [
        Insn::Load { size: Size::B8, signed: false, dst: free, address },
        add(end),
        Insn::Branch { op: JumpOp::Le, width, dst: base, src: Source::Reg(free), offset: 0 },
        Insn::mov_imm(Reg::R0, value),
        Insn::Exit,
        add(-end),
    ];
    let mut nodes: Vec<Node> = insns.into_iter().map(|insn| object.new_node(insn, Reference::None)).collect();
    nodes[2].reference = Reference::Branch(nodes[5].id);
    nodes.iter_mut().for_each(|node| node.line = old.line);
    nodes
}
