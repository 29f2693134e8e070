//! From instructions with ids to slots with offsets.
//!
//! ```text
//!   Function entry: n0 n1(goto n3) n2 n3      slots 0 1(+1) 2 3 | 4 5 ...
//!   Function helper_fn: m0 m1 ...        -->  relocations [(slot, Map 2), ...]
//! ```
//!
//! [`lower_function`] lays out one function as an ELF section holds it; [`lower_program`] appends every reachable
//! subprogram behind its entry, as libbpf does before `BPF_PROG_LOAD`, and resolves calls between them.

use std::collections::HashMap;

use kiln_isa::{CallTarget, Imm64, Insn, Slot, encode};

use crate::object::{Function, FunctionId, InsnId, Object, Program, Reference};

/// An unresolved reference in slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// The slot that refers.
    pub slot: usize,
    /// The target: never a branch, and in an [`Image`] of a whole program never a called function.
    pub reference: Reference,
}

/// A laid-out function or program.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The slots.
    pub slots: Vec<Slot>,
    /// Unresolved references, in slot order.
    pub relocations: Vec<Relocation>,
    /// The instruction whose first slot this is; the second slot of a `ld_imm64` repeats its id.
    pub insns: Vec<InsnId>,
    /// The first slot of each function in it.
    pub functions: Vec<(FunctionId, usize)>,
}

/// Why a function cannot be laid out.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LowerError {
    /// A branch farther than its offset field reaches.
    #[error("a branch over {distance} slots does not fit its 16-bit offset")]
    Distance {
        /// The branch.
        insn: InsnId,
        /// Slots.
        distance: i64,
    },
    /// A branch without a target in its function.
    #[error("a branch has no target in its function")]
    Target {
        /// The branch.
        insn: InsnId,
    },
}

/// Lays out one function by itself.
///
/// # Errors
/// [`LowerError`] where a branch has no target or is too far.
pub fn lower_function(function: &Function) -> Result<Image, LowerError> {
    let mut image = Image::default();
    append(function, &mut image)?;
    Ok(image)
}

/// Lays out a program with all its subprograms.
///
/// # Errors
/// [`LowerError`] where a branch has no target or is too far.
pub fn lower_program(object: &Object, program: &Program) -> Result<Image, LowerError> {
    let mut image = Image::default();
    for id in object.reachable_functions(program.entry) {
        image.functions.push((id, image.slots.len()));
        append(object.function(id), &mut image)?;
    }
    let starts: HashMap<_, _> = image.functions.iter().copied().collect();
    let Image { slots, relocations, .. } = &mut image;
    relocations.retain(|relocation| {
        let Reference::Function(callee) = relocation.reference else { return true };
        slots[relocation.slot].imm = (starts[&callee] as i64 - relocation.slot as i64 - 1) as i32;
        // A callback's address: BPF_PSEUDO_FUNC. A call has BPF_PSEUDO_CALL already.
        if slots[relocation.slot].opcode == 0x18 {
            slots[relocation.slot].src = 4;
        }
        false
    });
    Ok(image)
}

fn append(function: &Function, image: &mut Image) -> Result<(), LowerError> {
    let base = image.slots.len();
    let mut starts = HashMap::with_capacity(function.nodes.len());
    let mut at = base;
    for node in &function.nodes {
        starts.insert(node.id, at);
        at += node.insn.slots() as usize;
    }
    for node in &function.nodes {
        let slot = image.slots.len();
        let mut insn = node.insn;
        match node.reference {
            Reference::Branch(target) => {
                let target = *starts.get(&target).ok_or(LowerError::Target { insn: node.id })?;
                let distance = target as i64 - slot as i64 - 1;
                set_distance(&mut insn, distance).map_err(|()| LowerError::Distance { insn: node.id, distance })?;
            }
            Reference::None => {}
            reference => image.relocations.push(Relocation { slot, reference }),
        }
        let (first, second) = encode(&insn);
        image.slots.push(first);
        image.insns.push(node.id);
        if let Some(second) = second {
            image.slots.push(second);
            image.insns.push(node.id);
        }
    }
    Ok(())
}

/// Sets a branch's encoded distance. A plain `goto` that is too far becomes a `gotol`.
fn set_distance(insn: &mut Insn, distance: i64) -> Result<(), ()> {
    match insn {
        Insn::Jump { offset, long } => {
            *offset = i32::try_from(distance).map_err(|_| ())?;
            *long |= i16::try_from(distance).is_err();
        }
        Insn::Branch { offset, .. } | Insn::MayGoto { offset } => {
            *offset = i16::try_from(distance).map_err(|_| ())?;
        }
        _ => {}
    }
    Ok(())
}

/// The instruction with every encoded distance and address zero, as a [`crate::Node`] with a reference holds it.
pub fn without_encoded_reference(insn: Insn) -> Insn {
    match insn {
        Insn::Jump { long, .. } => Insn::Jump { offset: 0, long },
        Insn::Branch { op, width, dst, src, .. } => Insn::Branch { op, width, dst, src, offset: 0 },
        Insn::MayGoto { .. } => Insn::MayGoto { offset: 0 },
        Insn::Call(CallTarget::Subprogram(_)) => Insn::Call(CallTarget::Subprogram(0)),
        Insn::Call(CallTarget::Kfunc { .. }) => Insn::Call(CallTarget::Kfunc { id: 0, fd_index: 0 }),
        Insn::LoadImm64 { dst, .. } => Insn::LoadImm64 { dst, imm: Imm64::Value(0) },
        other => other,
    }
}
