//! Small changes of a program, like errors of a person or a compiler.
//!
//! ```text
//!   r2 += 14                          r2 += 15            a number a little off
//!   if r2 > r3 goto out               if r2 >= r3 ...     another comparison, the other width, another target
//!   r0 = *(u8 *)(r1 + 13)             *(u16 *)(r1 + 13)   another size, offset, register
//!   call map_lookup_elem              (gone)              an instruction lost, twice, swapped, moved, new
//!   r2 += r3                          r3 += r2; r2 = r3   the same in another way, as no compiler writes it
//! ```
//!
//! A changed program stays valid IR (its references exist), so that the verifiers decide whether it is safe.

use kiln_isa::{Address, AluOp, AtomicOp, CallTarget, Insn, JumpOp, PacketMode, Reg, Size, Source, Width};
use kiln_platform::Helper;
use kiln_program::{FunctionId, InsnId, MapId, Node, Object, Reference};

use crate::choices::Choices;

/// Makes one change somewhere in these functions.
pub fn change(choices: &mut Choices<'_>, object: &mut Object, functions: &[FunctionId]) {
    let function = choices.pick(functions);
    let count = object.function(function).nodes.len();
    let at = choices.below(count);
    match choices.below(19) {
        0..=2 => number(choices, node(object, function, at)),
        3 => offset(choices, node(object, function, at)),
        4 => size(choices, node(object, function, at)),
        5..=6 => register(choices, node(object, function, at)),
        7 => operation(choices, node(object, function, at)),
        8 => called(choices, object, function, at),
        9 => retarget(choices, object, function, at),
        10 => remove(object, function, at),
        11 => swap(object, function, at),
        12 => repeat(choices, object, function, at),
        13..=15 => rewrite(choices, object, function, at),
        _ => insert(choices, object, function, at),
    }
}

fn node(object: &mut Object, function: FunctionId, at: usize) -> &mut Node {
    &mut object.functions[function.index()].nodes[at]
}

/// A number next to the original, or an edge value.
fn beside(choices: &mut Choices<'_>, value: i64) -> i64 {
    match choices.below(8) {
        0 => value.wrapping_add(1),
        1 => value.wrapping_sub(1),
        2 => value.wrapping_neg(),
        3 => value.wrapping_mul(2),
        4 => value.wrapping_add([8, -8, 4, -4, 16, -16, 2, -2][choices.below(8)]),
        5 => value ^ 1 << choices.below(64),
        6 => 0,
        _ => choices.value() as i64,
    }
}

fn number(choices: &mut Choices<'_>, node: &mut Node) {
    match &mut node.insn {
        Insn::Alu { src: Source::Imm(imm), .. }
        | Insn::Branch { src: Source::Imm(imm), .. }
        | Insn::Store { src: Source::Imm(imm), .. } => *imm = beside(choices, i64::from(*imm)) as i32,
        Insn::LoadPacket { offset, .. } => *offset = beside(choices, i64::from(*offset)) as i32,
        Insn::LoadImm64 { imm: kiln_isa::Imm64::Value(value), .. } if node.reference == Reference::None => {
            *value = beside(choices, *value as i64) as u64;
        }
        _ => offset(choices, node),
    }
}

fn address(insn: &mut Insn) -> Option<&mut Address> {
    match insn {
        Insn::Load { address, .. }
        | Insn::Store { address, .. }
        | Insn::Atomic { address, .. }
        | Insn::LoadAcquire { address, .. }
        | Insn::StoreRelease { address, .. } => Some(address),
        _ => None,
    }
}

fn offset(choices: &mut Choices<'_>, node: &mut Node) {
    if let Reference::MapValue { offset, .. } = &mut node.reference {
        *offset = beside(choices, i64::from(*offset)) as u32;
    } else if let Some(address) = address(&mut node.insn) {
        address.offset = beside(choices, i64::from(address.offset)) as i16;
    } else {
        register(choices, node);
    }
}

fn size(choices: &mut Choices<'_>, node: &mut Node) {
    let new = choices.pick(&Size::ALL);
    match &mut node.insn {
        Insn::Load { size, signed, .. } => {
            *size = new;
            *signed = new != Size::B8 && choices.below(2) == 1;
        }
        Insn::Store { size, .. } | Insn::LoadAcquire { size, .. } | Insn::StoreRelease { size, .. } => *size = new,
        Insn::Atomic { size, .. } => *size = if *size == Size::B8 { Size::B4 } else { Size::B8 },
        Insn::LoadPacket { size, .. } if new != Size::B8 => *size = new,
        _ => operation(choices, node),
    }
}

/// The registers that an instruction names.
fn registers(insn: &mut Insn) -> Vec<&mut Reg> {
    fn source(src: &mut Source) -> Option<&mut Reg> {
        match src {
            Source::Reg(reg) => Some(reg),
            Source::Imm(_) => None,
        }
    }
    match insn {
        Insn::Alu { dst, src, .. } | Insn::Branch { dst, src, .. } => [dst].into_iter().chain(source(src)).collect(),
        Insn::Neg { dst, .. } | Insn::Endian { dst, .. } | Insn::LoadImm64 { dst, .. } => vec![dst],
        Insn::MoveSignExtend { dst, src, .. } | Insn::AddressSpaceCast { dst, src, .. } => vec![dst, src],
        Insn::Load { dst, address, .. } | Insn::LoadAcquire { dst, address, .. } => vec![dst, &mut address.base],
        Insn::Store { address, src, .. } => [&mut address.base].into_iter().chain(source(src)).collect(),
        Insn::StoreRelease { address, src, .. } | Insn::Atomic { address, src, .. } => vec![&mut address.base, src],
        Insn::LoadPacket { mode: PacketMode::Indirect(reg), .. } => vec![reg],
        _ => Vec::new(),
    }
}

fn any_register(choices: &mut Choices<'_>) -> Reg {
    Reg::new(choices.below(Reg::COUNT) as u8).unwrap_or(Reg::R0)
}

fn register(choices: &mut Choices<'_>, node: &mut Node) {
    let mut named = registers(&mut node.insn);
    if !named.is_empty() {
        let which = choices.below(named.len());
        *named[which] = any_register(choices);
    }
}

fn operation(choices: &mut Choices<'_>, node: &mut Node) {
    let other = |width: Width| if width == Width::W64 { Width::W32 } else { Width::W64 };
    match &mut node.insn {
        Insn::Alu { op, width, .. } => match choices.below(3) {
            0 => *width = other(*width),
            _ => *op = choices.pick(AluOp::ALL),
        },
        Insn::Branch { op, width, .. } => match choices.below(4) {
            0 => *width = other(*width),
            1 => *op = op.row().negated.unwrap_or(*op),
            _ => *op = choices.pick(JumpOp::ALL),
        },
        Insn::Atomic { op, fetch, .. } => {
            *op = choices.pick(AtomicOp::ALL);
            *fetch = op.row().always_fetch || choices.below(2) == 1;
        }
        Insn::Neg { width, .. } => *width = other(*width),
        _ => register(choices, node),
    }
}

/// Another helper, another map.
fn called(choices: &mut Choices<'_>, object: &mut Object, function: FunctionId, at: usize) {
    let maps = object.maps.len();
    let node = node(object, function, at);
    match (&mut node.insn, &mut node.reference) {
        (Insn::Call(CallTarget::Helper(number)), _) => *number = choices.below(212) as u32,
        (_, Reference::Map(map) | Reference::MapValue { map, .. }) => *map = MapId(choices.below(maps) as u32),
        _ => operation(choices, node),
    }
}

fn retarget(choices: &mut Choices<'_>, object: &mut Object, function: FunctionId, at: usize) {
    let nodes = &mut object.functions[function.index()].nodes;
    let target = nodes[choices.below(nodes.len())].id;
    // The next branch from here on, if there is one.
    for node in &mut nodes[at..] {
        if let Reference::Branch(branch) = &mut node.reference {
            *branch = target;
            return;
        }
    }
}

/// Removes an instruction; branches to it go to the next one.
pub fn remove(object: &mut Object, function: FunctionId, at: usize) {
    let nodes = &mut object.functions[function.index()].nodes;
    if at + 1 >= nodes.len() {
        return;
    }
    let gone = nodes.remove(at).id;
    let next = nodes[at].id;
    redirect(nodes, gone, next);
}

fn redirect(nodes: &mut [Node], from: InsnId, to: InsnId) {
    for node in nodes {
        if node.reference == Reference::Branch(from) {
            node.reference = Reference::Branch(to);
        }
    }
}

fn swap(object: &mut Object, function: FunctionId, at: usize) {
    let nodes = &mut object.functions[function.index()].nodes;
    // The last instruction stays: it is what ends the function.
    if at + 2 < nodes.len() {
        nodes.swap(at, at + 1);
    }
}

/// Copies a few instructions to another place.
fn repeat(choices: &mut Choices<'_>, object: &mut Object, function: FunctionId, at: usize) {
    let nodes = &object.function(function).nodes;
    let end = (at + 1 + choices.below(4)).min(nodes.len() - 1);
    let place = choices.below(nodes.len());
    let copies: Vec<(Insn, Reference)> =
        nodes.get(at..end).unwrap_or_default().iter().map(|node| (node.insn, node.reference)).collect();
    for (insn, reference) in copies.into_iter().rev() {
        let node = object.new_node(insn, reference);
        object.functions[function.index()].nodes.insert(place, node);
    }
}

fn insert(choices: &mut Choices<'_>, object: &mut Object, function: FunctionId, at: usize) {
    let (insn, reference) = new_insn(choices, object, function);
    let node = object.new_node(insn, reference);
    object.functions[function.index()].nodes.insert(at, node);
}

/// Writes an instruction in another way, as optimizers do and compilers do not. It does the same if the register that it takes is
/// free, and if the operands may be exchanged.
fn rewrite(choices: &mut Choices<'_>, object: &mut Object, function: FunctionId, at: usize) {
    let insn = node(object, function, at).insn;
    let other = any_register(choices);
    let slot = Address { base: Reg::R10, offset: -8 * (1 + choices.below(64) as i16) };
    let w64 = Width::W64;
    let store = Insn::Store { size: Size::B8, address: slot, src: Source::Reg(other) };
    let load = Insn::Load { size: Size::B8, signed: false, dst: other, address: slot };
    let new = match insn {
        Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(src) } => match choices.below(3) {
            0 => vec![Insn::mov_imm(dst, 0), Insn::Alu { op: AluOp::Add, width: w64, dst, src: Source::Reg(src) }],
            1 => vec![Insn::mov(other, src), Insn::mov(dst, other)],
            _ => vec![Insn::mov(other, src), store, load, Insn::mov(dst, other)],
        },
        Insn::Alu { op, width, dst, src: Source::Reg(src) } => match choices.below(2) {
            0 => vec![Insn::Alu { op, width, dst: src, src: Source::Reg(dst) }, Insn::mov(dst, src)],
            _ => vec![Insn::mov(other, src), Insn::Alu { op, width, dst, src: Source::Reg(other) }],
        },
        Insn::Alu { op, width, dst, src: Source::Imm(imm) } => match choices.below(3) {
            0 => vec![Insn::mov_imm(other, imm), Insn::Alu { op, width, dst, src: Source::Reg(other) }],
            1 => vec![
                Insn::mov_imm(other, imm),
                Insn::Alu { op, width, dst: other, src: Source::Reg(dst) },
                Insn::mov(dst, other),
            ],
            _ => {
                let part = choices.below(64) as i32 - 32;
                let by = |imm| Insn::Alu { op, width, dst, src: Source::Imm(imm) };
                vec![by(part), by(imm.wrapping_sub(part))]
            }
        },
        mut insn => {
            // The base, moved by the offset.
            let Some(address) = address(&mut insn) else { return };
            let (base, imm) = (address.base, i32::from(address.offset));
            *address = Address { base: other, offset: 0 };
            let sum = |src| Insn::Alu { op: AluOp::Add, width: w64, dst: other, src };
            match choices.below(2) {
                0 => vec![Insn::mov_imm(other, imm), sum(Source::Reg(base)), insn],
                _ => vec![Insn::mov(other, base), sum(Source::Imm(imm)), insn],
            }
        }
    };
    // Branches to the instruction lead to the first of them.
    for insn in new.iter().skip(1).rev() {
        let node = object.new_node(*insn, Reference::None);
        object.functions[function.index()].nodes.insert(at + 1, node);
    }
    if let Some(first) = new.first() {
        node(object, function, at).insn = *first;
    }
}

/// An instruction of the kinds that decide whether a program is safe.
fn new_insn(choices: &mut Choices<'_>, object: &Object, function: FunctionId) -> (Insn, Reference) {
    let (dst, src) = (any_register(choices), any_register(choices));
    let width = choices.pick(&[Width::W64, Width::W64, Width::W32]);
    let size = choices.pick(&[Size::B8, Size::B8, Size::B4, Size::B2, Size::B1]);
    let slot = Address { base: Reg::R10, offset: -8 * (1 + choices.below(8) as i16) };
    let plain = |insn| (insn, Reference::None);
    match choices.below(14) {
        0 => plain(Insn::mov(dst, src)),
        1 => plain(Insn::mov_imm(dst, choices.value() as i32)),
        2 => plain(Insn::Alu { op: AluOp::Add, width, dst, src: Source::Imm(choices.below(64) as i32 - 32) }),
        3 => plain(Insn::Alu { op: choices.pick(AluOp::ALL), width, dst, src: Source::Reg(src) }),
        4 => {
            plain(Insn::Alu { op: AluOp::And, width, dst, src: Source::Imm(choices.pick(&[0, 1, 7, 15, 31, 255, -8])) })
        }
        5 => plain(Insn::Store { size, address: slot, src: Source::Reg(src) }),
        6 => plain(Insn::Load { size, signed: false, dst, address: slot }),
        7 => {
            let address = Address { base: src, offset: choices.below(32) as i16 };
            plain(Insn::Load { size, signed: false, dst, address })
        }
        8 => {
            let address = Address { base: dst, offset: choices.below(32) as i16 };
            plain(Insn::Store { size, address, src: Source::Reg(src) })
        }
        9 => {
            let op = choices.pick(AtomicOp::ALL);
            let fetch = op.row().always_fetch || choices.below(2) == 1;
            let size = choices.pick(&[Size::B4, Size::B8]);
            plain(Insn::Atomic { op, fetch, size, address: slot, src })
        }
        10..=11 => {
            let src = if choices.below(2) == 0 { Source::Reg(src) } else { Source::Imm(choices.value() as i32) };
            let nodes = &object.function(function).nodes;
            let target = nodes[choices.below(nodes.len())].id;
            (Insn::Branch { op: choices.pick(JumpOp::ALL), width, dst, src, offset: 0 }, Reference::Branch(target))
        }
        12 if !object.maps.is_empty() => {
            let map = MapId(choices.below(object.maps.len()) as u32);
            (Node::address_load(dst), Reference::Map(map))
        }
        _ => {
            // Helpers without arguments, which every program may call and which destroy registers.
            let names = ["get_prandom_u32", "ktime_get_ns", "get_smp_processor_id", "map_lookup_elem"];
            let name = choices.pick(&names);
            let helper = Helper::by_name(name).map_or(7, |helper| helper.id);
            plain(Insn::Call(CallTarget::Helper(helper)))
        }
    }
}
