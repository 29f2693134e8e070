//! After which calls of global functions nobody has to look at the clock.
//!
//! A look costs 30 to 50 ns, as much as many a function. So one run of a program goes without looks for an eighth of its quantum,
//! in calls of functions that do nothing but compute:
//!
//! ```text
//!   entry -> get -> token(...)      20 us at most                 no look
//!                   hash(...)       15 us, 35 us so far           no look
//!                   walk(...)       a loop with a point           look
//!            while (...) step(...)  who knows how often           look
//! ```
//!
//! Such a function calls no helper and has no look of its own, so it is never cancelled in the middle. Outside of loops an instruction is
//! executed once. In a loop it is executed at most as often as the verifier visited it: a path meets no state twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_program::{BlockId, Cfg, FunctionId, InsnId, Linkage, Node, Object, Reference};
use kiln_verifier::Facts;

use crate::loops;

/// Nanoseconds, at most: of an instruction, of a helper that is bounded, of an access to a page of the heap that does not exist.
const INSN_NS: u64 = 1;
const HELPER_NS: u64 = 100;
const FAULT_NS: u64 = 2000;

/// What times are taken from.
pub(crate) struct Known<'a> {
    pub object: &'a Object,
    pub facts: &'a Facts,
    /// Functions that helpers run, now or later.
    pub callbacks: &'a BTreeSet<FunctionId>,
    /// Cancellation points.
    pub points: &'a BTreeMap<FunctionId, BTreeSet<InsnId>>,
    /// How often the verifier visited each instruction.
    pub visits: &'a HashMap<InsnId, u64>,
    /// Nanoseconds that may pass without a look.
    pub most_ns: u64,
}

/// The calls of global functions after which nobody looks at the clock, in an object without tail calls: each program of a chain would
/// have its eighth.
pub(crate) fn calls_without_look(known: &Known<'_>) -> BTreeSet<InsnId> {
    let object = known.object;
    let mut times = Times { known, short: BTreeMap::new(), unseen: BTreeMap::new() };
    let programs: Vec<_> = object.programs.iter().map(|program| (program.entry, times.once(program.entry))).collect();
    // What one program runs once, another may run in a loop.
    let repeated = programs.iter().flat_map(|(entry, once)| &times.static_closure(*entry) - once);
    let repeated: BTreeSet<_> = repeated.collect();
    let once: BTreeSet<_> = programs.iter().flat_map(|(_, once)| once - &repeated).collect();
    once.into_iter().for_each(|id| times.find_short_calls(id));
    // The costly ones get their look back first.
    let mut most = known.most_ns;
    while programs.iter().any(|(entry, once)| times.longest(*entry, once) > known.most_ns) {
        most /= 2;
        times.unseen.retain(|_, ns| *ns <= most);
    }
    times.unseen.into_keys().collect()
}

struct Times<'k> {
    known: &'k Known<'k>,
    /// Nanoseconds that a function takes at most; `None` for those that do more than compute.
    short: BTreeMap<FunctionId, Option<u64>>,
    /// Calls without a look, and what each takes at most.
    unseen: BTreeMap<InsnId, u64>,
}

impl Times<'_> {
    /// A function and the static ones that it leads to.
    fn static_closure(&self, entry: FunctionId) -> BTreeSet<FunctionId> {
        let mut all = BTreeSet::from([entry]);
        let mut waiting = vec![entry];
        while let Some(id) = waiting.pop() {
            let callees = self.known.object.function(id).nodes.iter().filter_map(Node::callee);
            waiting.extend(callees.filter(|callee| self.is_static(*callee)).filter(|callee| all.insert(*callee)));
        }
        all
    }

    fn is_static(&self, id: FunctionId) -> bool {
        self.known.object.function(id).linkage == Linkage::Static
    }

    /// The functions whose calls a run of the program counts: those of the closure that no loop and no helper runs.
    fn once(&self, entry: FunctionId) -> BTreeSet<FunctionId> {
        let all = self.static_closure(entry);
        let mut repeated: BTreeSet<FunctionId> = &all & self.known.callbacks;
        for id in &all {
            let function = self.known.object.function(*id);
            let in_loops = loops::insides(function);
            let inside = function.nodes.iter().enumerate().filter(|(at, _)| in_loops.contains(at));
            repeated.extend(inside.filter_map(|(_, node)| node.callee()).filter(|callee| self.is_static(*callee)));
        }
        let below = repeated.into_iter().flat_map(|id| self.static_closure(id)).collect();
        &all - &below
    }

    /// Notes the calls of short global functions outside of loops.
    fn find_short_calls(&mut self, id: FunctionId) {
        let function = self.known.object.function(id);
        let in_loops = loops::insides(function);
        for (_, node) in function.nodes.iter().enumerate().filter(|(at, _)| !in_loops.contains(at)) {
            if let Some(callee) = node.callee().filter(|callee| !self.is_static(*callee))
                && let Some(ns) = self.short(callee)
            {
                self.unseen.insert(node.id, ns);
            }
        }
    }

    /// Nanoseconds that a function takes at most, if it only computes. The kernel allows no recursion.
    fn short(&mut self, id: FunctionId) -> Option<u64> {
        if let Some(known) = self.short.get(&id) {
            return *known;
        }
        let function = self.known.object.function(id);
        let computes = |node: &Node| {
            node.callee().is_some() || node.helper().is_none() && !matches!(node.reference, Reference::Extern(_))
        };
        let has_points = self.known.points.get(&id).is_some_and(|own| !own.is_empty());
        let is_program = self.known.object.programs.iter().any(|program| program.entry == id);
        let is_run_otherwise = is_program || self.known.callbacks.contains(&id);
        let mut own = (!has_points && !is_run_otherwise && function.nodes.iter().all(computes)).then_some(0);
        let mut callees = BTreeMap::new();
        for callee in function.nodes.iter().filter_map(Node::callee) {
            let Some(ns) = own.and_then(|_| self.short(callee)) else {
                own = None;
                break;
            };
            callees.insert(callee, ns);
        }
        let call = |node: &Node| node.callee().and_then(|callee| callees.get(&callee).copied()).unwrap_or(0);
        let time = |node: &Node| node_ns(node, self.known.facts).saturating_add(call(node));
        let time = own.map(|_| longest_path(self.known, id, &time));
        self.short.insert(id, time);
        time
    }

    /// Nanoseconds that calls without a look take on the longest path of a run, at most.
    fn longest(&self, id: FunctionId, once: &BTreeSet<FunctionId>) -> u64 {
        let call = |node: &Node| match node.callee() {
            Some(callee) if once.contains(&callee) => self.longest(callee, once),
            _ => self.unseen.get(&node.id).copied().unwrap_or(0),
        };
        longest_path(self.known, id, &call)
    }
}

/// The time of a function's longest path, where `time` says that of each instruction.
fn longest_path(known: &Known<'_>, id: FunctionId, time: &dyn Fn(&Node) -> u64) -> u64 {
    let function = known.object.function(id);
    let cfg = Cfg::new(function);
    let headers = loops::headers(function);
    let in_loops = loops::insides(function);
    let once = |at: usize| time(&function.nodes[at]);
    let often = |at: usize| known.visits.get(&function.nodes[at].id).copied().unwrap_or(0).saturating_mul(once(at));
    // A loop's whole time is at its beginning: a turn need not take the path that is followed here.
    let weight = |at: usize| match function.nodes[at].id {
        header if headers.contains(&header) => {
            loops::body(function, header).into_iter().map(often).fold(0, u64::saturating_add)
        }
        _ if in_loops.contains(&at) => 0,
        _ => once(at),
    };
    let mut longest: Vec<Option<u64>> = vec![None; cfg.blocks.len()];
    let mut seen = BTreeSet::new();
    let mut stack = vec![(BlockId(0), false)];
    while let Some((block, done)) = stack.pop() {
        let shape = &cfg.blocks[block.index()];
        if done {
            let after = shape.successors.iter().filter_map(|next| longest[next.index()]).max().unwrap_or(0);
            longest[block.index()] = Some(shape.range.clone().map(weight).fold(after, u64::saturating_add));
        } else if seen.insert(block) {
            stack.push((block, true));
            stack.extend(shape.successors.iter().filter(|next| !seen.contains(next)).map(|next| (*next, false)));
        }
    }
    longest.first().copied().flatten().unwrap_or(0)
}

/// Nanoseconds that an instruction takes at most, if the caches have what it needs, without what it calls.
pub(crate) fn node_ns(node: &Node, facts: &Facts) -> u64 {
    match node.helper() {
        Some(_) => HELPER_NS,
        None if facts.in_arena(node.id) => FAULT_NS,
        None => INSN_NS,
    }
}
