//! What calls of a program's own functions and of kernel functions read.
//!
//! ```text
//!   w2 = 2                        static int drop(struct item *item)     reads r1
//!   *(u32 *)(r8 + 0) = 2          __noinline int log(int level)          reads r1, as its prototype says
//!   r1 = r7                       void bpf_item_release(struct item *)   reads r1, as its prototype says
//!   call kfunc[bpf_item_release]
//! ```
//!
//! A call passes five registers, but the callee reads fewer: here nothing reads `w2`. A static function reads what its
//! instructions read, and the kernel checks nothing else. For a global function or a kernel function the kernel checks
//! all parameters of the prototype, read or not.

use kiln_equiv::simulation::arguments::parameters;
use kiln_isa::{CallTarget, Insn, Reg, RegSet};
use kiln_program::btf::Btf;
use kiln_program::{Cfg, Function, Linkage, Node, Object, Reference};

use crate::flow::demand::{self, Demand};

/// Low bits that may be read of each of the five arguments.
type Arguments = [u8; 5];

/// Every register, whole.
const ALL: Arguments = [64; 5];

/// What each function and each extern of an object reads of its arguments.
///
/// Rewrites only ever read less, so this stays true of an object while it shrinks.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    functions: Vec<Arguments>,
    externs: Vec<Arguments>,
}

impl Calls {
    /// What the calls in an object read.
    pub fn of(object: &Object) -> Calls {
        let calls = |node: &Node| matches!(node.reference, Reference::Function(_) | Reference::Extern(_));
        if !object.functions.iter().flat_map(|function| &function.nodes).any(calls) {
            return Calls::default();
        }
        let types = object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok());
        let prototype = |id: u32| types.as_ref().and_then(|types| parameters(types, id)).map_or(ALL, first);
        let externs = object.externs.iter().map(|symbol| prototype(symbol.btf_id)).collect();
        let function = |function: &Function| match function.linkage {
            Linkage::Static => first(0),
            Linkage::Global | Linkage::Weak => prototype(function.btf_id),
        };
        let mut calls = Calls { functions: object.functions.iter().map(function).collect(), externs };
        // Static functions pass arguments on, also recursively: a fixed point, from the empty set upwards.
        while calls.step(object) {}
        calls
    }

    fn step(&mut self, object: &Object) -> bool {
        let mut changed = false;
        let statics = |function: &&Function| function.linkage == Linkage::Static;
        for (index, function) in object.functions.iter().enumerate().filter(|(_, function)| statics(function)) {
            let read = reads(function, self);
            changed |= std::mem::replace(&mut self.functions[index], read) != read;
        }
        changed
    }

    /// Adds what a call reads.
    pub(crate) fn read(&self, node: &Node, demand: &mut Demand) {
        let read = match (node.insn, node.reference) {
            (Insn::Call(CallTarget::Subprogram(_)), Reference::Function(id)) => self.functions.get(id.index()),
            (Insn::Call(CallTarget::Kfunc { .. }), Reference::Extern(id)) => self.externs.get(id.index()),
            _ => None,
        };
        for (reg, bits) in RegSet::arguments(5).iter().zip(read.unwrap_or(&ALL)) {
            demand.read(reg, u32::from(*bits));
        }
    }
}

/// The first `count` registers, whole.
fn first(count: usize) -> Arguments {
    std::array::from_fn(|at| if at < count { 64 } else { 0 })
}

fn reads(function: &Function, calls: &Calls) -> Arguments {
    let cfg = Cfg::new(function);
    let Some((first, end)) = cfg.blocks.first().zip(demand::at_block_ends(function, &cfg, calls).first().copied())
    else {
        return ALL;
    };
    let mut demand = end;
    function.nodes[first.range.clone()].iter().rev().for_each(|node| demand.step_back(node, calls));
    std::array::from_fn(|at| Reg::new(at as u8 + 1).map_or(64, |reg| demand.of(reg) as u8))
}
