//! Changes that only pay together with what they make possible.
//!
//! Moving a constant to where a block's end needs it costs a slot, and may leave three others without readers; turning
//! a branch around costs a jump, which layout may then save. Such a change is made on a copy, the copy is tidied up, and
//! what came of it is taken where it is smaller, as one change.

use kiln_isa::Reg;
use kiln_program::{ById, Cfg, Function, Ids, InsnId, Node, Object};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand;
use crate::laws::context::Change;
use crate::laws::control_flow;
use crate::laws::register_coalescing;
use crate::laws::shared_tails;

/// Rounds of tidying at most: each makes the function smaller or ends it.
const MAX_ROUNDS: usize = 24;

/// Any number of changes, anywhere.
const ALL: (usize, &dyn Fn(InsnId) -> bool) = (usize::MAX, &|_| false);

/// Times that a trial shares registers at most.
const SHARINGS: usize = 3;

/// What is compared: slots, then how many of R6 to R9 a prologue has to save.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size {
    slots: u32,
    saved_registers: usize,
}

impl Size {
    /// Of a function.
    pub fn of(function: &Function) -> Size {
        let writes = |reg: Reg| function.nodes.iter().any(|node| node.insn.written() == Some(reg));
        let saved = [Reg::R6, Reg::R7, Reg::R8, Reg::R9];
        Size { slots: function.slots(), saved_registers: saved.into_iter().filter(|reg| writes(*reg)).count() }
    }
}

/// Trials on one function.
pub struct Trial<'a> {
    calls: &'a Calls,
    function: &'a Function,
    /// The size of the function after tidying alone: what tidying saves is not a trial's gain.
    size: Size,
}

impl<'a> Trial<'a> {
    /// Of changes to one function.
    pub fn new(object: &Object, calls: &'a Calls, function: &'a Function) -> Trial<'a> {
        let mut tidied = function.clone();
        tidy(object, calls, &mut tidied);
        Trial { calls, function, size: Size::of(&tidied) }
    }

    /// The size that a change has to be below.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Tidies a changed copy up; what changed, if that made it smaller than the original.
    pub fn gain(&self, object: &Object, at: InsnId, mut candidate: Function) -> Option<(Function, Change)> {
        tidy(object, self.calls, &mut candidate);
        (Size::of(&candidate) < self.size).then(|| {
            let change = difference(self.function, &candidate, at);
            (candidate, change)
        })
    }
}

impl Trial<'_> {
    /// The same, with what is left of registers shared: a value that is made elsewhere may spare a copy.
    pub fn gain_shared(&self, object: &Object, at: InsnId, mut candidate: Function) -> Option<(Function, Change)> {
        tidy(object, self.calls, &mut candidate);
        // Sharing removes the copies on the path that still makes the value, often two of them.
        for _ in 0..SHARINGS {
            if Size::of(&candidate).slots > self.size.slots + 1 {
                break;
            }
            if register_coalescing::coalesce(object, &mut candidate, self.calls, &|_| false).is_empty() {
                break;
            }
        }
        self.gain(object, at, candidate)
    }
}

/// Removes dead instructions and straightens the graph, until nothing is left to do.
pub fn tidy(object: &Object, calls: &Calls, function: &mut Function) {
    let mut graph = Graph::default();
    for _ in 0..MAX_ROUNDS {
        let mut changed = graph.step(function, |function, cfg| bury(function, cfg, calls));
        changed |= graph.step_alone(function, control_flow::thread_jumps);
        changed |= graph.step(function, |function, cfg| !control_flow::remove_unreachable_in(function, cfg).is_empty());
        changed |= graph.step_alone(function, control_flow::remove_jumps_to_next);
        changed |= graph.step_alone(function, control_flow::invert_branches);
        changed |= graph.step(function, |function, cfg| !control_flow::lay_out_in(function, cfg).is_empty());
        changed |= graph.step_alone(function, control_flow::exit_early);
        changed |= graph.step_alone(function, control_flow::share_exits);
        changed |=
            graph.step(function, |function, cfg| !shared_tails::share_tails_in(object, function, cfg, ALL).is_empty());
        if !changed {
            return;
        }
    }
}

/// The graph of a function, made anew only after a step that changed something.
#[derive(Default)]
struct Graph(Option<Cfg>);

impl Graph {
    /// Runs a step that needs the graph. Returns whether it changed something.
    fn step(&mut self, function: &mut Function, step: impl FnOnce(&mut Function, &Cfg) -> bool) -> bool {
        let cfg = self.0.take().unwrap_or_else(|| Cfg::new(function));
        let changed = step(function, &cfg);
        self.0 = (!changed).then_some(cfg);
        changed
    }

    /// Runs a step that does not need it.
    fn step_alone(&mut self, function: &mut Function, step: fn(&mut Function) -> Vec<Change>) -> bool {
        let changed = !step(function).is_empty();
        self.0 = self.0.take().filter(|_| !changed);
        changed
    }
}

/// Removes computations whose results are not read.
fn bury(function: &mut Function, cfg: &Cfg, calls: &Calls) -> bool {
    let ends = demand::at_block_ends(function, cfg, calls);
    let mut doomed = Ids::default();
    for (block, mut demand) in cfg.blocks.iter().zip(ends) {
        for node in function.nodes[block.range.clone()].iter().rev() {
            if demand::is_dead(node, &demand) {
                doomed.insert(node.id);
            } else {
                demand.step_back(node, calls);
            }
        }
    }
    edit::delete(function, &doomed);
    !doomed.is_empty()
}

/// What one function has and the other has not, by the instructions' ids.
pub(crate) fn difference(old: &Function, new: &Function, at: InsnId) -> Change {
    let only = |one: &Function, other: &Function| -> Vec<Node> {
        let nodes: ById<&Node> = other.nodes.iter().map(|node| (node.id, node)).collect();
        one.nodes.iter().filter(|node| nodes.get(&node.id) != Some(node)).cloned().collect()
    };
    Change::at(at, only(old, new), only(new, old))
}
