//! What the tests of both machines compile.
#![allow(dead_code)] // Each test file uses a part of it.

use kiln_isa::Insn;
use kiln_jit::Symbols;
use kiln_program::{Function, FunctionId, InsnId, Linkage, Mark, Object, Reference};

/// A runtime without addresses.
pub struct Nothing;

impl Symbols for Nothing {}

/// The function that objects of [`object`] have.
pub const ENTRY: FunctionId = FunctionId(0);

/// A function with these instructions.
pub fn function(name: &str, nodes: Vec<kiln_program::Node>) -> Function {
    Function::new(name, "xdp", Linkage::Static, nodes)
}

/// An object with one function: these instructions (separated by `;`) and an `exit`. All but the exit are marked as an
/// operation where `mark` says which one, in which form, with which operands.
pub fn object(bpf: &str, mark: Option<(&str, u8, &[i32])>) -> Object {
    let mut object = Object::default();
    let lines = bpf.split(';').map(str::trim).chain(["exit"]);
    let insns: Vec<_> = lines.map(|line| kiln_isa::text::parse(line).expect("an instruction")).collect();
    let mut nodes: Vec<_> = insns.into_iter().map(|insn| object.new_node(insn, Reference::None)).collect();
    for at in 0..nodes.len() {
        if let Insn::Branch { offset, .. } = nodes[at].insn {
            nodes[at].reference = Reference::Branch(nodes[at + 1 + offset as usize].id);
        }
    }
    if let Some((operation, form, operands)) = mark {
        let members: Vec<InsnId> = nodes[..nodes.len() - 1].iter().map(|node| node.id).collect();
        object.operations.push(Mark { operation: operation.into(), form, operands: operands.to_vec(), members });
    }
    object.functions.push(function("example", nodes));
    object
}
