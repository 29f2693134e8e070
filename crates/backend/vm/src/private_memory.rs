//! Which accesses of a program lead to memory that no other processor sees, so that compiled code may move them.

use std::collections::HashMap;

use kiln_isa::{Insn, Reg};
use kiln_jit::llvm::Place;
use kiln_program::{FunctionId, InsnId, Node, Object};
use kiln_verifier::{Facts, Region, Value};

/// What is known of the addresses that a program accesses, and of the second argument of its calls.
pub(crate) fn places(object: &Object, entry: FunctionId, facts: &Facts) -> HashMap<InsnId, Place> {
    let place = |node: &Node| {
        let base = match node.insn {
            Insn::Call(_) => Reg::R2,
            insn => insn.address()?.base,
        };
        let Value::Pointer(pointer) = &facts.at(node.id)?.registers[base.index()] else { return None };
        match pointer.region {
            Region::Stack { up: 0 } => Some(Place::OwnFrame),
            Region::Context | Region::Stack { .. } | Region::Packet | Region::PacketMeta => Some(Place::Private),
            _ => None,
        }
    };
    let functions = object.reachable_functions(entry);
    let nodes = functions.iter().flat_map(|id| &object.function(*id).nodes);
    nodes.filter_map(|node| Some((node.id, place(node)?))).collect()
}
