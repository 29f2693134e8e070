//! Which registers a call may read.
//!
//! ```text
//!   call map_lookup_elem          r1, r2: its prototype
//!   call kfunc[bpf_iter_num_new]  r1 to r3: the parameters that BTF gives it
//!   call global_function          the parameters that BTF gives it, and what its instructions read
//!   call static_function          what its instructions read
//! ```
//!
//! A caller and its callee may change in one step, so a callee counts as it was and as it is to be: a register that
//! either version reads is an argument. Where nothing tells, all five are.

use std::collections::BTreeMap;

use kiln_isa::{CallTarget, Insn, RegSet};
use kiln_platform::Helper;
use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{Cfg, Function, FunctionId, Linkage, Node, Object, Reference};

use crate::simulation::alike::live;

/// Argument registers.
const MOST: usize = 5;
/// Bytes of a register.
const REGISTER_BYTES: u64 = 8;

/// What each function and each extern of an object reads of its arguments.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    functions: Vec<RegSet>,
    externs: Vec<RegSet>,
}

impl Arguments {
    /// Every call reads all five registers, except helpers, which read what their prototypes say.
    pub fn whole() -> Arguments {
        Arguments::default()
    }

    /// What calls read in an object, and where some of its functions are as in `others`.
    pub fn of(object: &Object, others: &BTreeMap<FunctionId, Function>) -> Arguments {
        let calls = |node: &Node| matches!(node.reference, Reference::Function(_) | Reference::Extern(_));
        let versions = || {
            let own = object.functions.iter().enumerate().map(|(index, own)| (FunctionId(index as u32), own));
            own.chain(others.iter().map(|(id, other)| (*id, other)))
        };
        if !versions().any(|(_, function)| function.nodes.iter().any(calls)) {
            return Arguments::default();
        }
        let types = object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok());
        let prototype = |id: u32| types.as_ref().and_then(|types| parameters(types, id)).unwrap_or(MOST);
        let externs = object.externs.iter().map(|symbol| RegSet::arguments(prototype(symbol.btf_id))).collect();
        let named = |function: &Function| match function.linkage {
            Linkage::Static => RegSet::EMPTY,
            Linkage::Global | Linkage::Weak => RegSet::arguments(prototype(function.btf_id)),
        };
        let functions = object.functions.iter().map(named).collect();
        let mut arguments = Arguments { functions, externs };
        let versions: Vec<(FunctionId, Version<'_>)> =
            versions().map(|(id, function)| (id, Version::new(function))).collect();
        // Functions pass their arguments on, also recursively: a fixed point, from the empty set upwards.
        while arguments.step(&versions) {}
        arguments
    }

    fn step(&mut self, versions: &[(FunctionId, Version<'_>)]) -> bool {
        let mut changed = false;
        for (id, version) in versions {
            let read = version.reads(self);
            let Some(known) = self.functions.get_mut(id.index()) else { continue };
            let more = known.union(read);
            changed |= std::mem::replace(known, more) != more;
        }
        changed
    }

    /// Registers that a call may read; empty for other instructions.
    pub fn read_by(&self, node: &Node) -> RegSet {
        let Insn::Call(target) = node.insn else { return RegSet::EMPTY };
        let known = match (target, node.reference) {
            // A helper that is not in the table may read anything.
            (CallTarget::Helper(id), _) => {
                Some(RegSet::arguments(Helper::by_id(id).map_or(MOST, Helper::most_arguments)))
            }
            (CallTarget::Subprogram(_), Reference::Function(id)) => self.functions.get(id.index()).copied(),
            (CallTarget::Kfunc { .. }, Reference::Extern(id)) => self.externs.get(id.index()).copied(),
            _ => None,
        };
        known.unwrap_or(RegSet::arguments(MOST))
    }
}

/// One version of a function.
struct Version<'f> {
    function: &'f Function,
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
}

impl<'f> Version<'f> {
    fn new(function: &'f Function) -> Version<'f> {
        let cfg = Cfg::new(function);
        let after: Vec<Vec<usize>> = (0..function.nodes.len()).map(|at| cfg.after(function, at).collect()).collect();
        let mut before = vec![Vec::new(); after.len()];
        for (at, successors) in after.iter().enumerate() {
            successors.iter().for_each(|next| before[*next].push(at));
        }
        Version { function, before, after }
    }

    /// Registers of its caller that the function reads.
    fn reads(&self, arguments: &Arguments) -> RegSet {
        let uses = |node: &Node| {
            let clobbered = match node.insn {
                Insn::Call(_) | Insn::LoadPacket { .. } => RegSet::CALLER_SAVED,
                _ => RegSet::EMPTY,
            };
            let reads = node.insn.read().union(arguments.read_by(node));
            (reads, clobbered.union(node.insn.written().into_iter().collect()))
        };
        let live = live(&self.function.nodes, &self.before, &self.after, uses);
        live.first().map_or(RegSet::EMPTY, |live| live.intersection(RegSet::arguments(MOST)))
    }
}

/// How many registers the parameters of a function take, by its BTF id; `None` where one of them may take two.
pub fn parameters(types: &Btf, id: u32) -> Option<usize> {
    let Kind::Function { prototype, .. } = *types.kind(TypeId(id)) else { return None };
    let Kind::Prototype { .. } = types.kind(prototype) else { return None };
    let parameters = types.parameters(prototype);
    let fits = |kind: TypeId| types.size_of(kind).is_some_and(|bytes| bytes <= REGISTER_BYTES);
    parameters.iter().all(|parameter| fits(parameter.type_id)).then(|| parameters.len().min(MOST))
}
