//! What a program and its functions need, found before any code is emitted.
//!
//! ```text
//!   *(u32 *)(r10 - 4) = 0   -> frame pointer, 4 bytes of stack        call 1        -> runtime register, aligned stack
//!   r2 = r10                -> frame pointer, all 512 bytes           goto back     -> a loop header, its cost
//!   r6 = r1                 -> r6 saved                    call f        -> what f needs
//! ```

use std::collections::{BTreeSet, HashMap};

use kiln_isa::{AluOp, CallTarget, Insn, Reg, RegSet, Width};
use kiln_platform::helper_id::TAIL_CALL;
use kiln_program::liveness::Positions;
use kiln_program::{Function, FunctionId, Node, Object, Reference};

use crate::{Error, Options, Symbols};

/// Bytes of stack a frame has at most (kernel `MAX_BPF_STACK`).
pub(crate) const MAX_STACK_BYTES: i32 = kiln_platform::limits::MAX_STACK_BYTES as i32;

/// The needs of a program.
pub struct Plan {
    /// Its functions, entry first.
    pub order: Vec<FunctionId>,
    /// Those whose address is taken.
    pub callbacks: Vec<FunctionId>,
    /// Whether the budget is kept in its register.
    pub budget: bool,
    /// Whether the runtime is kept in its register.
    pub runtime: bool,
    /// Whether code asks [`Symbols::refill_address`] for more budget.
    pub refills: bool,
    /// Whether the register of the frame pointer can hold the arena's base instead: the program accesses an arena, and its frames
    /// are only addressed, and copied.
    pub base: bool,
    functions: HashMap<FunctionId, FunctionPlan>,
}

/// The needs of one function.
#[derive(Clone, Debug)]
pub struct FunctionPlan {
    /// Whether the frame pointer is set up.
    pub frame: bool,
    /// Bytes of stack below the frame pointer, a multiple of 8.
    pub stack_bytes: i32,
    /// Displacement of the `may_goto` counter, if it has one; part of the stack.
    pub may_goto_slot: Option<i32>,
    /// Callee-saved BPF registers that it writes.
    pub saved: RegSet,
    /// Whether it calls anything.
    pub calls: bool,
    /// Whether it or a function it calls may make a tail call.
    pub may_tail_call: bool,
    /// Instructions, what a call of it costs.
    pub cost: i32,
    /// Exits.
    pub exits: usize,
}

impl Plan {
    /// Looks at every reachable function. `refills` says whether the compiler can ask for more budget.
    pub fn new(
        object: &Object,
        entry: FunctionId,
        symbols: &dyn Symbols,
        options: &Options,
        refills: bool,
    ) -> Result<Plan, Error> {
        let refills = refills && options.refills && options.metered && symbols.refill_address().is_some();
        let order = object.reachable_functions(entry);
        let mut functions = HashMap::new();
        let mut callbacks = BTreeSet::new();
        let (mut budget, mut runtime) = (false, false);
        let (mut in_arena, mut framed) = (false, false);
        let arena = symbols.arena().is_some();
        for id in &order {
            let function =
                object.functions.get(id.index()).ok_or(Error::Malformed("a function that does not exist"))?;
            functions.insert(*id, FunctionPlan::new(function, !refills));
            for node in &function.nodes {
                in_arena |= arena && node.insn.address().is_some() && symbols.in_arena(node.id);
                framed |= arena && computes_with_frame(&node.insn);
                match (node.insn, node.reference) {
                    (Insn::Call(CallTarget::Helper(helper)), _) => {
                        runtime = true;
                        budget |= helper == TAIL_CALL || symbols.helper_may_stop(helper);
                    }
                    (Insn::Call(CallTarget::Kfunc { .. }), _) => (runtime, budget) = (true, true),
                    (Insn::Call(CallTarget::Subprogram(_)), _) => budget |= options.metered,
                    (Insn::LoadPacket { .. }, _) => runtime = true,
                    (Insn::LoadImm64 { .. }, Reference::Function(callback)) => {
                        callbacks.insert(callback);
                    }
                    _ => {}
                }
            }
            budget |= options.metered && has_loop(function);
        }
        let (callbacks, runtime) = (callbacks.into_iter().collect(), runtime || budget);
        let base = in_arena && !framed;
        let mut plan = Plan { order, callbacks, budget, runtime, refills, base, functions };
        plan.propagate_tail_calls(object);
        Ok(plan)
    }

    /// The needs of a function of the program.
    pub fn function(&self, id: FunctionId) -> &FunctionPlan {
        &self.functions[&id]
    }

    fn propagate_tail_calls(&mut self, object: &Object) {
        // Callees come after some caller in `order`, not after all of them: repeat until nothing changes.
        loop {
            let mut changed = false;
            for id in &self.order {
                let calls_one = object.functions[id.index()]
                    .nodes
                    .iter()
                    .filter_map(Node::callee)
                    .any(|callee| self.functions.get(&callee).is_some_and(|callee| callee.may_tail_call));
                if let Some(function) = self.functions.get_mut(id)
                    && calls_one
                    && !function.may_tail_call
                {
                    (function.may_tail_call, changed) = (true, true);
                }
            }
            if !changed {
                return;
            }
        }
    }
}

impl FunctionPlan {
    fn new(function: &Function, counts_turns: bool) -> FunctionPlan {
        let nodes = &function.nodes;
        let mut plan = FunctionPlan {
            frame: false,
            stack_bytes: 0,
            may_goto_slot: None,
            saved: RegSet::EMPTY,
            calls: false,
            may_tail_call: false,
            cost: i32::try_from(nodes.len()).unwrap_or(i32::MAX),
            exits: 0,
        };
        let mut lowest = 0;
        for node in nodes {
            match node.insn {
                Insn::Call(target) => {
                    plan.calls = true;
                    plan.may_tail_call |= target == CallTarget::Helper(TAIL_CALL);
                }
                Insn::LoadPacket { .. } => plan.calls = true,
                Insn::Exit => plan.exits += 1,
                Insn::MayGoto { .. } if counts_turns => plan.may_goto_slot = Some(0),
                _ => {}
            }
            if let Some(written) = node.insn.written()
                && (Reg::R6..Reg::R10).contains(&written)
            {
                plan.saved.insert(written);
            }
            lowest = lowest.min(stack_reach(&node.insn));
        }
        plan.stack_bytes = (-lowest + 7) & !7;
        if plan.may_goto_slot.is_some() {
            plan.stack_bytes += 8;
            plan.may_goto_slot = Some(-plan.stack_bytes);
        }
        plan.frame = plan.stack_bytes > 0;
        plan
    }
}

/// The lowest offset from the frame pointer that an instruction reaches, 0 when it does not touch the stack. A frame
/// pointer that goes anywhere but into an address may reach everything.
fn stack_reach(insn: &Insn) -> i32 {
    if !insn.read().contains(Reg::R10) {
        return 0;
    }
    let stored = match *insn {
        Insn::Store { src, .. } => src.reg(),
        Insn::StoreRelease { src, .. } | Insn::Atomic { src, .. } => Some(src),
        _ => None,
    };
    match insn.address() {
        Some(address) if stored != Some(Reg::R10) => i32::from(address.offset).min(-1),
        _ => -MAX_STACK_BYTES,
    }
}

/// Whether an instruction needs the frame pointer in a register: it does something else than accessing memory there or copying it.
fn computes_with_frame(insn: &Insn) -> bool {
    match *insn {
        Insn::Alu { op: AluOp::Mov, width: Width::W64, .. } | Insn::Load { .. } | Insn::LoadAcquire { .. } => false,
        Insn::Store { src, .. } => src.reg() == Some(Reg::R10),
        Insn::StoreRelease { src, .. } | Insn::Atomic { src, .. } => src == Reg::R10,
        _ => insn.read().contains(Reg::R10),
    }
}

/// Whether control ever goes back.
fn has_loop(function: &Function) -> bool {
    if function.jumps_indirectly() {
        return true;
    }
    let positions = Positions::of(&function.nodes);
    let goes_back = |(at, node): (usize, &Node)| {
        node.target().and_then(|target| positions.get(&target)).is_some_and(|target| target <= at)
    };
    function.nodes.iter().enumerate().any(goes_back)
}
