//! The longest time between two looks at the clock, in nanoseconds: the one measure by which looks are placed.
//!
//! ```text
//!   an instruction            by its kind and sizes ([`costs`]): a page of the heap may be missing, a key may be long
//!   a loop without a point    each of its instructions as often as the verifier visited it: a path meets no state twice
//!   a call of a function      the longest part of it without a look
//!   a loop with a point       a turn; the counter of its points adds up turns of all loops (`cancel::tick`)
//! ```
//!
//! A function is walked from its beginning. Where the time since the last look would be more than a run may take without one, there
//! is a look:
//!
//! ```text
//!   for (i < 40) ...          400 us                        no look
//!   leaf(...)                 128 us, 528 us so far         no look
//!   for (i < 40) ...          928 us would be too much      a look, before the loop
//!   slow(...)                 has looks                     a look follows: nothing is said of when its last one was
//! ```

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use kiln_platform::helper_id;
use kiln_program::{Cfg, Function, FunctionId, InsnId, Linkage, Node, Object};
use kiln_verifier::Facts;

use crate::callbacks::Callbacks;
use crate::costs;
use crate::loops::{self, Headers};

/// How often the verifier visited each instruction.
pub(crate) type Visits = HashMap<InsnId, u64>;

/// What times are taken from.
pub(crate) struct Known<'a> {
    pub object: &'a Object,
    pub facts: &'a Facts,
    pub passed: &'a Callbacks,
    /// Loops with and without cancellation points.
    pub points: &'a Headers,
    pub bounded: &'a Headers,
    pub visits: &'a Visits,
    /// Calls before which the clock is read in any case.
    pub slow: &'a BTreeSet<InsnId>,
    /// Whether tail calls give the deadline to the next program: they look at the clock before.
    pub hands_over: bool,
    /// Nanoseconds that may pass without a look.
    pub most_ns: u64,
}

/// What is known of a function.
pub(crate) struct Walked {
    /// Before which instructions the clock is read; before a loop, where it is entered.
    pub looks: BTreeSet<InsnId>,
    /// Whether it can be cancelled, or a function that it calls.
    pub has_looks: bool,
    /// Nanoseconds that its longest part without a look takes.
    pub longest_ns: u64,
}

/// The times of an object's functions, each of which is walked once.
pub(crate) struct Times<'a> {
    known: Known<'a>,
    walked: RefCell<BTreeMap<FunctionId, Rc<Walked>>>,
    weights: RefCell<BTreeMap<FunctionId, Rc<Weights>>>,
}

/// The time of each instruction of a function, with what it calls.
struct Weights {
    /// That of a loop without a point is at its beginning: a turn need not take the path that is followed.
    ns: Vec<u64>,
    /// What is in such loops, but for their beginnings.
    inside: BTreeSet<usize>,
}

/// Whether the clock may be read before an instruction. Under a lock nothing may be called. Where no path leads, nothing is known.
pub(crate) fn may_look(facts: &Facts, at: InsnId) -> bool {
    facts.at(at).is_some() && facts.held(at).is_none_or(|held| held.locks == 0)
}

impl<'a> Times<'a> {
    pub fn of(known: Known<'a>) -> Times<'a> {
        Times { known, walked: RefCell::default(), weights: RefCell::default() }
    }

    /// What is known of a function. The kernel allows no recursion.
    pub fn walked(&self, id: FunctionId) -> Rc<Walked> {
        if let Some(walked) = self.walked.borrow().get(&id) {
            return Rc::clone(walked);
        }
        let walked = Rc::new(self.walk(id));
        self.walked.borrow_mut().insert(id, Rc::clone(&walked));
        walked
    }

    /// How many nanoseconds one turn of a loop takes, or one run of a function that begins with `header`, without what has a look of
    /// its own.
    pub fn turn_ns(&self, id: FunctionId, header: InsnId) -> u64 {
        let body = loops::body(self.known.object.function(id), header);
        let weights = self.weights(id);
        let own = weights.ns.iter().enumerate().filter(|(at, _)| body.is_empty() || body.contains(at));
        sum(own.map(|(_, ns)| *ns))
    }

    /// How many nanoseconds all turns of a loop without a point take.
    pub fn loop_ns(&self, id: FunctionId, header: InsnId) -> u64 {
        self.all_turns_ns(id, &loops::body(self.known.object.function(id), header))
    }

    fn all_turns_ns(&self, id: FunctionId, body: &BTreeSet<usize>) -> u64 {
        let own: Vec<&Node> = body.iter().map(|at| &self.known.object.function(id).nodes[*at]).collect();
        let called: BTreeSet<FunctionId> =
            own.iter().filter_map(|node| self.static_callee(node)).flat_map(|id| self.static_closure(id)).collect();
        let nodes = called.iter().flat_map(|id| &self.known.object.function(*id).nodes).chain(own);
        sum(nodes.map(|node| {
            let global = node.callee().filter(|_| self.static_callee(node).is_none());
            let once = self.own_ns(node).saturating_add(global.map_or(0, |id| self.walked(id).longest_ns));
            self.known.visits.get(&node.id).copied().unwrap_or(0).saturating_mul(once)
        }))
    }

    fn static_callee(&self, node: &Node) -> Option<FunctionId> {
        node.callee().filter(|id| self.known.object.function(*id).linkage == Linkage::Static)
    }

    /// A function and the static ones that it leads to.
    fn static_closure(&self, first: FunctionId) -> BTreeSet<FunctionId> {
        let mut all = BTreeSet::from([first]);
        let mut waiting = vec![first];
        while let Some(id) = waiting.pop() {
            let callees = self.known.object.function(id).nodes.iter().filter_map(|node| self.static_callee(node));
            waiting.extend(callees.filter(|callee| all.insert(*callee)));
        }
        all
    }

    /// The time of an instruction, without the function that it calls. A call that follows a look counts as a short one.
    fn own_ns(&self, node: &Node) -> u64 {
        let known = &self.known;
        let own = match known.slow.contains(&node.id) {
            true => costs::CALL_NS,
            false => costs::node_ns(known.object, node, known.facts),
        };
        let run = known.passed.functions_of(node).map(|id| {
            let has_point = known.points.get(&id).is_some_and(|own| !own.is_empty());
            let turns = if has_point { 1 } else { known.passed.turns(node.id, known.facts) };
            turns.saturating_mul(self.walked(id).longest_ns)
        });
        own.saturating_add(run.max().unwrap_or(0))
    }

    fn weights(&self, id: FunctionId) -> Rc<Weights> {
        if let Some(weights) = self.weights.borrow().get(&id) {
            return Rc::clone(weights);
        }
        let function = self.known.object.function(id);
        let loops = self.outer_bounded(id, function);
        let inside: BTreeSet<usize> =
            loops.iter().flat_map(|(header, body)| body.iter().copied().filter(move |at| at != header)).collect();
        let weight = |(at, node): (usize, &Node)| match loops.get(&at) {
            Some(body) => self.all_turns_ns(id, body),
            None if inside.contains(&at) => 0,
            None => self.own_ns(node).saturating_add(node.callee().map_or(0, |id| self.walked(id).longest_ns)),
        };
        let ns = function.nodes.iter().enumerate().map(weight).collect();
        let weights = Rc::new(Weights { ns, inside });
        self.weights.borrow_mut().insert(id, Rc::clone(&weights));
        weights
    }

    /// The loops without points that are in no other such loop, by their beginnings.
    fn outer_bounded(&self, id: FunctionId, function: &Function) -> BTreeMap<usize, BTreeSet<usize>> {
        let own = self.known.bounded.get(&id).into_iter().flatten();
        let body = |header: &InsnId| Some((function.position(*header)?, loops::body(function, *header)));
        let mut all: Vec<_> = own.filter_map(body).filter(|(_, body)| !body.is_empty()).collect();
        all.sort_by_key(|(_, body)| std::cmp::Reverse(body.len()));
        let mut outer = BTreeMap::<usize, BTreeSet<usize>>::new();
        for (header, body) in all {
            if !outer.values().any(|other| other.contains(&header)) {
                outer.insert(header, body);
            }
        }
        outer
    }

    /// Whether the clock is read after a call, which says nothing of when it was read last.
    fn is_looked_after(&self, node: &Node) -> bool {
        node.callee().is_some_and(|id| self.static_callee(node).is_none() && self.walked(id).has_looks)
    }

    /// Whether an instruction has a look before it in any case.
    fn looks_first(&self, node: &Node) -> bool {
        let hands_over = self.known.hands_over && node.helper() == Some(helper_id::TAIL_CALL);
        hands_over || self.known.slow.contains(&node.id)
    }

    fn walk(&self, id: FunctionId) -> Walked {
        let known = &self.known;
        let function = known.object.function(id);
        let cfg = Cfg::new(function);
        let weights = self.weights(id);
        let points = known.points.get(&id);
        // A turn of a loop may pass before the counter of its point reads the clock.
        let next_ns = |at: usize| match function.nodes[at].id {
            header if points.is_some_and(|own| own.contains(&header)) => self.turn_ns(id, header),
            _ => weights.ns[at],
        };
        let may_look = |at: usize| !weights.inside.contains(&at) && may_look(known.facts, function.nodes[at].id);
        let mut before = vec![0_u64; cfg.blocks.len()];
        let (mut looks, mut longest_ns) = (BTreeSet::new(), 0);
        for block in cfg.reverse_postorder() {
            let mut since = before[block.index()];
            for at in cfg.blocks[block.index()].range.clone() {
                let node = &function.nodes[at];
                if self.looks_first(node) {
                    since = 0;
                } else if since > 0 && since.saturating_add(next_ns(at)) > known.most_ns && may_look(at) {
                    looks.insert(node.id);
                    since = 0;
                }
                since = since.saturating_add(weights.ns[at]);
                longest_ns = since.max(longest_ns);
                if self.is_looked_after(node) {
                    since = 0;
                }
            }
            for next in &cfg.blocks[block.index()].successors {
                before[next.index()] = before[next.index()].max(since);
            }
        }
        let can_end = |node: &Node| {
            let called = node.callee().into_iter().chain(known.passed.functions_of(node));
            self.looks_first(node) || called.into_iter().any(|id| self.walked(id).has_looks)
        };
        let has_looks =
            !looks.is_empty() || points.is_some_and(|own| !own.is_empty()) || function.nodes.iter().any(can_end);
        Walked { looks, has_looks, longest_ns }
    }
}

fn sum(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}
