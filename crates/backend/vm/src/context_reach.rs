//! How much of its context a program accesses, so that a run clears no more of it, or needs no copy of it at all.

use kiln_isa::{CallTarget, Insn, Reg};
use kiln_platform::ProgramType;
use kiln_program::{FunctionId, Node, Object};
use kiln_verifier::{Facts, Region, Value};

use crate::packet::Kind;

/// The arguments of a call.
const ARGUMENTS: [Reg; 5] = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5];

/// Bytes from the context's start that the program may access: `None` if the hook has packets, whose context the VM makes, or
/// if not all accesses are known, because a helper gets the context, or a pointer may lead to it or elsewhere.
pub(crate) fn of(object: &Object, entry: FunctionId, program_type: ProgramType, facts: &Facts) -> Option<u32> {
    if Kind::of(program_type) != Kind::None {
        return None;
    }
    let functions = object.reachable_functions(entry);
    let mut nodes = functions.iter().flat_map(|id| &object.function(*id).nodes);
    nodes.try_fold(0, |reach: u32, node| Some(reach.max(of_node(node, facts)?)))
}

/// Bytes that one instruction may access.
fn of_node(node: &Node, facts: &Facts) -> Option<u32> {
    // No path comes to an instruction without facts.
    let Some(known) = facts.at(node.id) else { return Some(0) };
    let register = |reg: Reg| &known.registers[reg.index()];
    if let Insn::Call(target) = node.insn {
        let is_own = matches!(target, CallTarget::Subprogram(_));
        let elsewhere = |reg: &Reg| match register(*reg) {
            Value::Pointer(pointer) => pointer.region != Region::Context && !is_mixed(&pointer.region),
            Value::Unknown => false,
            Value::Uninit | Value::Scalar(_) => true,
        };
        return (is_own || ARGUMENTS.iter().all(elsewhere)).then_some(0);
    }
    let (address, bytes) = match node.insn {
        Insn::Load { size, address, .. }
        | Insn::Store { size, address, .. }
        | Insn::LoadAcquire { size, address, .. }
        | Insn::StoreRelease { size, address, .. }
        | Insn::Atomic { size, address, .. } => (address, size.bytes()),
        _ => return Some(0),
    };
    match register(address.base) {
        Value::Pointer(pointer) if pointer.region == Region::Context => {
            let from = pointer.offset.umax.checked_add_signed(address.offset.into())?;
            u32::try_from(from.checked_add(bytes.into())?).ok()
        }
        Value::Pointer(pointer) if !is_mixed(&pointer.region) => Some(0),
        _ => None,
    }
}

/// Whether a pointer may lead to one kind of memory or another.
fn is_mixed(region: &Region) -> bool {
    matches!(region, Region::Other(name) if name == "mixed")
}
