//! A program laid out for exploration: all its functions in one array, so that a position is one number.
//!
//! ```text
//!   position   0 1 2 3 4 | 5 6 7 8        ops[2]: the node, its target's position, its callee,
//!   function   entry     | helper                 the registers read later, whether states are kept here
//! ```

mod edges;
pub(crate) mod ends;
mod exceptions;
mod fast_calls;
pub(crate) mod parameter;
pub(crate) mod prepared;
pub(crate) mod signature;
mod size;

use std::collections::{HashMap, HashSet};

use kiln_isa::{CallTarget, Insn, Reg, RegSet};
use kiln_platform::{Feature, Helper, Kfunc, KfuncFlag, KfuncMeaning, ProgramType};
use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::liveness::Positions;
use kiln_program::{ExternKind, FunctionId, InsnId, Linkage, MapId, Node, Object, Program, Reference};

use crate::error::Error;
use crate::options::Options;
use exceptions::callback_of;
use prepared::Prepared;

/// A position in [`Code::ops`].
pub(crate) type Position = u32;

/// One instruction.
pub(crate) struct Op<'a> {
    pub node: &'a Node,
    /// Where it branches.
    pub target: Position,
    /// Index into [`Code::functions`].
    pub function: usize,
    /// The function it calls or whose address it loads.
    pub callee: Option<usize>,
    /// The kernel function it calls.
    pub kfunc: Option<&'a str>,
    /// How many arguments that takes, where the kernel's types say so.
    pub kfunc_arguments: Option<usize>,
    /// The helper it calls.
    pub helper: Option<&'static Helper>,
    /// Whether states are compared here.
    pub prune_point: bool,
    /// Whether a state is always kept here.
    pub checkpoint: bool,
    /// Whether passing here is part of a path's history, which bounds how far apart kept states are.
    pub history_point: bool,
    /// Whether it asks an iterator for the next item.
    pub next_of_iterator: bool,
    /// The strongly connected component that it is in, 0 for none.
    pub component: u32,
    /// Registers that states are compared by here: those that the kernel takes for read from here on.
    pub live: RegSet,
    /// Registers that may be read from here on, this instruction included.
    pub needed: RegSet,
    /// Whether it is a spill or a fill that the kernel may remove: [`Routine::stack_without_spills`].
    pub spills_around_call: bool,
}

impl Op<'_> {
    /// Whether it calls something that runs a function of the program before it returns.
    pub(crate) fn runs_callback(&self) -> bool {
        self.helper.is_some_and(Helper::runs_callback) || self.kfunc_meaning() == Some(KfuncMeaning::AddToTree)
    }

    /// Whether it has a function of the program run some time later.
    pub(crate) fn runs_later(&self) -> bool {
        let later = matches!(self.kfunc_meaning(), Some(KfuncMeaning::RunLater(_)));
        self.helper.is_some_and(Helper::runs_callback_later) || later
    }

    /// The row of the kernel function it calls.
    pub(crate) fn kfunc_row(&self) -> Option<&'static Kfunc> {
        Kfunc::by_name(self.kfunc?)
    }

    /// Returns what the kernel function means to the verifier beyond its prototype.
    pub(crate) fn kfunc_meaning(&self) -> Option<KfuncMeaning> {
        self.kfunc_row().map(|kfunc| kfunc.meaning)
    }
}

/// One function.
pub(crate) struct Routine<'a> {
    pub id: FunctionId,
    pub name: &'a str,
    pub start: Position,
    pub end: Position,
    pub global: bool,
    pub btf_id: u32,
    /// Bytes of stack that it is taken to use without the spills around calls, if the kernel removes such.
    pub stack_without_spills: Option<u32>,
}

/// What runs when a program throws.
pub(crate) enum ExceptionCallback {
    /// The program ends and returns the cookie.
    Default,
    /// This function of the program, with the cookie.
    Function(usize),
    /// The program names something that cannot be one.
    Bad(String),
}

/// All functions that a program may reach.
pub(crate) struct Code<'a> {
    pub prepared: &'a Prepared<'a>,
    pub object: &'a Object,
    pub program: &'a Program,
    pub program_type: ProgramType,
    pub ops: Vec<Op<'a>>,
    pub functions: Vec<Routine<'a>>,
    /// The function that runs when the program throws.
    pub exception_callback: ExceptionCallback,
    /// Functions that BTF says return no number.
    pub without_number: Vec<bool>,
    /// Whether an instruction calls a function of the program or has its address.
    pub has_callees: bool,
    /// Whether all branches and calls lead to later positions, so that there is no loop.
    forward: bool,
    /// Where the indirect jumps of each function lead.
    jump_targets: Vec<Vec<Position>>,
    /// Where each instruction is, by its id.
    positions: Positions,
}

impl<'a> Prepared<'a> {
    /// Lays out a program.
    pub(crate) fn lay_out(&'a self, program: &'a Program, options: &Options) -> Result<Code<'a>, Error> {
        self.well_formed.as_ref().map_err(|invalid| Error::Invalid(invalid.to_string()))?;
        let Some(program_type) = program.program_type else {
            return Err(Error::Invalid(format!("the section {:?} does not say a program type", program.section)));
        };
        if let Some(rejection) = size::too_large(self.object, program, &options.profile) {
            return Err(Error::Rejected(Box::new(rejection)));
        }
        let thrown_to = callback_of(self.object, self.btf.as_deref(), &self.exception_callbacks, program);
        Code::new(self, program, program_type, thrown_to, options)
    }
}

impl<'a> Code<'a> {
    pub(crate) fn new(
        prepared: &'a Prepared<'a>,
        program: &'a Program,
        program_type: ProgramType,
        thrown_to: Option<Result<FunctionId, String>>,
        options: &Options,
    ) -> Result<Code<'a>, Error> {
        let kernel_types = options.kernel_types.as_deref();
        let object = prepared.object;
        let mut ids = object.reachable_functions(program.entry);
        if let Some(Ok(callback)) = thrown_to {
            let more = object.reachable_functions(callback);
            ids.extend(more.into_iter().filter(|id| !ids.contains(id)).collect::<Vec<_>>());
        }
        // Types say what a global function takes; without them every call is followed.
        let verified_alone = prepared.accepted_btf.is_some() && options.kernel_has(Feature::GlobalFunctions);
        let (functions, positions) = in_one_array(object, program, ids, verified_alone)?;
        let position = |id: InsnId| position_of(&positions, id).unwrap_or(0);
        let count = functions.last().map_or(0, |routine| routine.end as usize);
        let index: HashMap<FunctionId, usize> =
            functions.iter().enumerate().map(|(at, function)| (function.id, at)).collect();
        let mut ops = Vec::with_capacity(count);
        for (at, routine) in functions.iter().enumerate() {
            for node in &object.function(routine.id).nodes {
                let target = node.target().map_or(0, position);
                let callee = match node.reference {
                    Reference::Function(id) => index.get(&id).copied(),
                    _ => None,
                };
                let kfunc = kfunc_name(object, node);
                ops.push(Op {
                    node,
                    target,
                    function: at,
                    callee,
                    kfunc,
                    kfunc_arguments: kfunc.and_then(|name| kfunc_arguments(kernel_types?, name)),
                    helper: node.helper().and_then(|id| options.helper(id)),
                    prune_point: false,
                    checkpoint: false,
                    next_of_iterator: false,
                    history_point: false,
                    component: 0,
                    live: RegSet::EMPTY,
                    needed: RegSet::EMPTY,
                    spills_around_call: false,
                });
            }
        }
        let exception_callback = match thrown_to {
            None => ExceptionCallback::Default,
            Some(Err(message)) => ExceptionCallback::Bad(message),
            Some(Ok(id)) => index.get(&id).map_or(ExceptionCallback::Default, |at| ExceptionCallback::Function(*at)),
        };
        let without_number = without_number(&functions, prepared.accepted_btf.as_deref());
        let jump_targets = jump_targets(object, &functions, &positions);
        let mut code = Code {
            prepared,
            object,
            program,
            program_type,
            ops,
            functions,
            exception_callback,
            without_number,
            has_callees: false,
            forward: false,
            jump_targets,
            positions,
        };
        code.has_callees = code.ops.iter().any(|op| op.callee.is_some());
        code.forward = code.is_forward();
        code.mark_prune_points();
        code.mark_components();
        code.live_registers(options.kernel_has(Feature::CallsReadArguments));
        if options.kernel_has(Feature::FastCalls) {
            code.mark_fast_calls();
        }
        Ok(code)
    }

    /// The slot of each instruction in its function, as listings count.
    pub(crate) fn slots(&self) -> Vec<u32> {
        let mut slots = Vec::with_capacity(self.ops.len());
        let (mut function, mut slot) = (None, 0);
        for op in &self.ops {
            if function != Some(op.function) {
                (function, slot) = (Some(op.function), 0);
            }
            slots.push(slot);
            slot += op.node.insn.slots();
        }
        slots
    }

    pub(crate) fn op(&self, at: Position) -> &Op<'a> {
        &self.ops[at as usize]
    }

    /// The first indirect jump that is its function's last instruction.
    pub(crate) fn jump_at_end(&self) -> Option<Position> {
        let mut ends = self.functions.iter().filter_map(|routine| routine.end.checked_sub(1));
        ends.find(|at| matches!(self.op(*at).node.insn, Insn::JumpIndirect { .. }))
    }

    /// The first indirect jump of a function that has no table.
    pub(crate) fn jump_without_table(&self) -> Option<Position> {
        let without = |op: &Op<'_>| {
            matches!(op.node.insn, Insn::JumpIndirect { .. }) && self.jump_targets[op.function].is_empty()
        };
        self.ops.iter().position(without).map(|at| at as Position)
    }

    /// Where an instruction of a function is.
    pub(crate) fn position_in(&self, function: &Routine<'_>, id: InsnId) -> Option<Position> {
        position_of(&self.positions, id).filter(|at| (function.start..function.end).contains(at))
    }

    /// Positions that control may go to next inside the function.
    pub(crate) fn successors(&self, at: Position) -> impl Iterator<Item = Position> + '_ {
        let op = self.op(at);
        let (next, target) = match op.node.insn {
            Insn::Exit | Insn::JumpIndirect { .. } => (None, None),
            Insn::Jump { .. } => (None, Some(op.target)),
            Insn::Branch { .. } | Insn::MayGoto { .. } => (Some(at + 1), Some(op.target)),
            _ => (Some(at + 1), None),
        };
        let indirect = match op.node.insn {
            Insn::JumpIndirect { .. } => self.jump_targets[op.function].as_slice(),
            _ => &[],
        };
        next.into_iter().chain(target).chain(indirect.iter().copied())
    }

    /// Where the kernel compares states: at branches, at their targets, where functions begin, after calls.
    fn mark_prune_points(&mut self) {
        for target in self.jump_targets.iter().flatten() {
            self.ops[*target as usize].history_point = true;
        }
        for at in 0..self.ops.len() {
            let op = &mut self.ops[at];
            let target = op.target as usize;
            let callee = op.callee.map(|callee| self.functions[callee].start as usize);
            match op.node.insn {
                Insn::Jump { .. } => self.mark_arrival(target),
                Insn::JumpIndirect { .. } => op.prune_point = true,
                Insn::Branch { .. } => {
                    op.prune_point = true;
                    self.mark_arrival(target);
                }
                Insn::MayGoto { .. } => {
                    op.prune_point = true;
                    op.checkpoint = true;
                    self.mark_arrival(target);
                }
                Insn::Call(_) => {
                    if op.runs_callback() {
                        op.checkpoint = true;
                        op.history_point = true;
                    }
                    op.next_of_iterator = op.kfunc_row().is_some_and(|kfunc| kfunc.has(KfuncFlag::IteratorNext));
                    op.checkpoint |= op.next_of_iterator;
                    op.prune_point |= op.checkpoint || callee.is_some() || op.runs_later();
                    self.mark_arrival(at + 1);
                    self.mark_arrival(callee.unwrap_or(at + 1));
                }
                Insn::LoadImm64 { .. } if callee.is_some() => {
                    op.prune_point = true;
                    self.mark_arrival(at + 1);
                    self.mark_arrival(callee.unwrap_or(at + 1));
                }
                _ => {}
            }
        }
    }

    /// Numbers the strongly connected components, which are the loops.
    fn mark_components(&mut self) {
        let count = self.ops.len();
        let inside = |at: usize| {
            let next = self.successors(at as Position).map(|next| next as usize);
            next.filter(|next| *next < count).collect::<Vec<_>>()
        };
        if self.forward {
            return;
        }
        let components = kiln_program::components::loops(count, inside);
        for (op, component) in self.ops.iter_mut().zip(components) {
            op.component = component;
        }
    }

    /// Computes [`Code::forward`].
    fn is_forward(&self) -> bool {
        self.ops.iter().enumerate().all(|(at, op)| {
            let branches = matches!(op.node.insn, Insn::Jump { .. } | Insn::Branch { .. } | Insn::MayGoto { .. });
            let anywhere = matches!(op.node.insn, Insn::JumpIndirect { .. });
            let later = |position: Position| position as usize > at;
            !anywhere
                && (!branches || later(op.target))
                && op.callee.is_none_or(|callee| later(self.functions[callee].start))
        })
    }

    fn mark_arrival(&mut self, at: usize) {
        if let Some(op) = self.ops.get_mut(at) {
            op.prune_point = true;
            op.history_point = true;
        }
    }

    /// Which registers may be read, and which the kernel takes for read.
    fn live_registers(&mut self, calls_read_arguments: bool) {
        let needed = self.read_later(false);
        let live = if calls_read_arguments && self.has_callees { self.read_later(true) } else { needed.clone() };
        for (op, (needed, live)) in self.ops.iter_mut().zip(needed.into_iter().zip(live)) {
            (op.needed, op.live) = (needed, live);
        }
    }

    /// What is read from each position on: backward, to a fixpoint over loops and calls.
    fn read_later(&self, calls_read_arguments: bool) -> Vec<RegSet> {
        let mut live = vec![RegSet::EMPTY; self.ops.len()];
        self.backward(|at| {
            let after = self
                .successors(at as Position)
                .fold(RegSet::EMPTY, |all, next| all.union(live.get(next as usize).copied().unwrap_or(RegSet::EMPTY)));
            let before = self.live_before(at, after, &live, calls_read_arguments);
            std::mem::replace(&mut live[at], before) != before
        });
        live
    }

    /// Computes something of every position from its successors (and, at a call, from the callee's start) until nothing
    /// changes: `update` says whether that position's changed. Positions are visited again only where it did, last first.
    pub(crate) fn backward(&self, mut update: impl FnMut(usize) -> bool) {
        let count = self.ops.len();
        if self.forward {
            // What each position depends on is done before it.
            (0..count).rev().for_each(|at| {
                update(at);
            });
            return;
        }
        let mut edges: Vec<(Position, Position)> = Vec::with_capacity(2 * count);
        for (at, op) in (0..).zip(&self.ops) {
            edges.extend(self.successors(at).map(|next| (next, at)));
            edges.extend(op.callee.map(|callee| (self.functions[callee].start, at)));
        }
        edges.sort_unstable();
        let mut waits = vec![true; count];
        let mut pending: Vec<Position> = (0..count as Position).collect();
        while let Some(at) = pending.pop() {
            waits[at as usize] = false;
            if update(at as usize) {
                let first = edges.partition_point(|(to, _)| *to < at);
                for (_, from) in edges[first..].iter().take_while(|(to, _)| *to == at) {
                    if !std::mem::replace(&mut waits[*from as usize], true) {
                        pending.push(*from);
                    }
                }
            }
        }
    }

    /// The arguments of a global function, by its type.
    fn checked_arguments(&self, callee: &Routine<'_>) -> RegSet {
        let types = self.prepared.accepted_btf.as_deref();
        RegSet::arguments(types.and_then(|types| argument_count(types, TypeId(callee.btf_id))).unwrap_or(5))
    }

    fn live_before(&self, at: usize, after: RegSet, lives: &[RegSet], calls_read_arguments: bool) -> RegSet {
        let op = &self.ops[at];
        let mut live = after;
        match op.node.insn {
            Insn::Call(target) => {
                live = live.difference(RegSet::CALLER_SAVED);
                let read = match target {
                    CallTarget::Helper(_) => RegSet::arguments(op.helper.map_or(5, Helper::most_arguments)),
                    CallTarget::Subprogram(_) if calls_read_arguments => RegSet::arguments(5),
                    // The arguments of a global function are checked at the call, whatever it reads of them.
                    CallTarget::Subprogram(_) => match op.callee.map(|callee| &self.functions[callee]) {
                        Some(callee) if !callee.global => {
                            lives[callee.start as usize].intersection(RegSet::arguments(5))
                        }
                        Some(callee) => self.checked_arguments(callee),
                        None => RegSet::arguments(5),
                    },
                    CallTarget::Kfunc { .. } => RegSet::arguments(op.kfunc_arguments.unwrap_or(5)),
                };
                live.union(read)
            }
            // As the kernel has it (`compute_insn_live_regs`): what it does not look into reads every register.
            Insn::LoadPacket { .. } => RegSet::ALL,
            insn => {
                if let Some(written) = insn.written() {
                    live.remove(written);
                }
                live.union(insn.read()).union(RegSet::of(&[Reg::R10]))
            }
        }
    }
}

/// The functions one after the other, and where each instruction is, by its id. `verified_alone`: global functions are.
fn in_one_array<'a>(
    object: &'a Object,
    program: &Program,
    ids: Vec<FunctionId>,
    verified_alone: bool,
) -> Result<(Vec<Routine<'a>>, Positions), Error> {
    let mut functions = Vec::new();
    let mut next = 0;
    for id in ids {
        let function = object
            .functions
            .get(id.index())
            .ok_or_else(|| Error::Invalid("a call of a function that does not exist".to_owned()))?;
        let start = next;
        next += function.nodes.len() as Position;
        let exported = matches!(function.linkage, Linkage::Global | Linkage::Weak);
        let global = exported && verified_alone && id != program.entry;
        let (name, btf_id) = (function.name.as_str(), function.btf_id);
        functions.push(Routine { id, name, start, end: next, global, btf_id, stack_without_spills: None });
    }
    let positions = Positions::of_all(functions.iter().map(|routine| &object.function(routine.id).nodes[..]));
    Ok((functions, positions))
}

fn position_of(positions: &Positions, id: InsnId) -> Option<Position> {
    positions.get(&id).map(|at| at as Position)
}

/// The targets of each function's indirect jumps, in order: the kernel knows the tables that the program refers to.
fn jump_targets(object: &Object, functions: &[Routine<'_>], positions: &Positions) -> Vec<Vec<Position>> {
    if functions.iter().all(|routine| object.function(routine.id).tables.is_empty()) {
        return vec![Vec::new(); functions.len()];
    }
    let nodes = functions.iter().flat_map(|routine| &object.function(routine.id).nodes);
    let used: HashSet<MapId> = nodes
        .filter_map(|node| match node.reference {
            Reference::Map(map) | Reference::MapValue { map, .. } => Some(map),
            _ => None,
        })
        .collect();
    let of_function = |routine: &Routine<'_>| {
        let tables = object.function(routine.id).tables.iter().filter(|table| used.contains(&table.map));
        let targets = tables.flat_map(|table| &table.targets);
        let mut targets: Vec<Position> = targets.filter_map(|id| position_of(positions, *id)).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    };
    functions.iter().map(of_function).collect()
}

/// The kernel function that a node calls.
fn kfunc_name<'a>(object: &'a Object, node: &Node) -> Option<&'a str> {
    let Reference::Extern(id) = node.reference else { return None };
    let symbol = object.externs.get(id.index()).filter(|symbol| symbol.kind == ExternKind::Kfunc)?;
    matches!(node.insn, Insn::Call(CallTarget::Kfunc { .. })).then_some(symbol.name.as_str())
}

fn kfunc_arguments(types: &Btf, name: &str) -> Option<usize> {
    argument_count(types, types.find(name, |kind| matches!(kind, Kind::Function { .. }))?)
}

/// How many registers hold a function's arguments.
fn argument_count(types: &Btf, function: TypeId) -> Option<usize> {
    let Kind::Function { prototype, .. } = *types.kind(function) else { return None };
    Some(types.parameters(prototype).len().min(5))
}

/// Functions that BTF says return no number.
fn without_number(functions: &[Routine<'_>], btf: Option<&Btf>) -> Vec<bool> {
    let returns_none = |id: u32| -> Option<bool> {
        let btf = btf?;
        let Kind::Function { prototype, .. } = *btf.kind(TypeId(id)) else { return None };
        let Kind::Prototype { result, .. } = *btf.kind(prototype) else { return None };
        let result = btf.resolve(result).unwrap_or(TypeId::VOID);
        Some(!matches!(btf.kind(result), Kind::Int { .. } | Kind::Enum { .. }))
    };
    let known = |routine: &Routine<'_>| routine.btf_id != 0 && returns_none(routine.btf_id) == Some(true);
    functions.iter().map(known).collect()
}
