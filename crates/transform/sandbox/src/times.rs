//! How long functions may run at most, and after which calls of global functions nobody has to look at the clock.
//!
//! A look costs 30 to 50 ns, which is as much as many a function. So the calls of a function that are short together go without:
//!
//! ```text
//!   get:   token(...)        20 us at most                       no look
//!          hash(...)         15 us, 35 us so far                 no look
//!          walk(...)         a loop with a cancellation point    look
//! ```
//!
//! Outside of loops an instruction is executed once. In a loop it is executed at most as often as the verifier visited it: a path
//! meets no state twice. Nothing bounds a loop with a cancellation point, or a helper that runs functions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_program::{FunctionId, InsnId, Linkage, Object};
use kiln_verifier::Facts;

use crate::callbacks::Callbacks;
use crate::loops;
use crate::probe::Headers;
use crate::slow::node_ns;

/// What is known of functions' times.
#[derive(Default)]
pub(crate) struct Times {
    /// Nanoseconds that one run takes at most, of functions that never take longer than may pass without a look.
    pub of: BTreeMap<FunctionId, u64>,
    /// Calls of global functions after which nobody looks at the clock.
    pub short: BTreeSet<InsnId>,
}

/// What times are taken from.
pub(crate) struct Known<'a> {
    pub object: &'a Object,
    pub passed: &'a Callbacks,
    pub facts: &'a Facts,
    /// Loops with cancellation points.
    pub points: &'a Headers,
    /// How often the verifier visited each instruction.
    pub visits: &'a HashMap<InsnId, u64>,
    /// Nanoseconds that may pass without a look.
    pub most_ns: u64,
}

impl Times {
    pub fn new(known: &Known<'_>) -> Times {
        let mut times = Times::default();
        let mut done = BTreeSet::new();
        for program in &known.object.programs {
            times.add(known, program.entry, &mut done);
        }
        times
    }

    /// Adds a function after all that it calls. The kernel allows no recursion.
    fn add(&mut self, known: &Known<'_>, id: FunctionId, done: &mut BTreeSet<FunctionId>) {
        if !done.insert(id) {
            return;
        }
        let function = known.object.function(id);
        for callee in function.nodes.iter().filter_map(|node| node.callee()) {
            self.add(known, callee, done);
        }
        let points = known.points.get(&id).into_iter().flatten();
        let in_points: BTreeSet<usize> = points.flat_map(|header| loops::body(function, *header)).collect();
        let in_loops = loops::insides(function);
        let mut is_bounded = known.points.get(&id).is_none_or(BTreeSet::is_empty);
        let mut total = 0u64;
        for (at, node) in function.nodes.iter().enumerate() {
            let visits = known.visits.get(&node.id).copied().unwrap_or(0);
            let most = if in_loops.contains(&at) { visits } else { visits.min(1) };
            total = total.saturating_add(most.saturating_mul(node_ns(node, known.facts)));
            is_bounded &= !known.passed.sites.contains_key(&node.id);
            let Some(callee) = node.callee() else { continue };
            let own = self.of.get(&callee).copied();
            let with = own.map_or(u64::MAX, |own| total.saturating_add(most.saturating_mul(own)));
            if known.object.function(callee).linkage == Linkage::Static {
                total = with;
            } else if with <= known.most_ns && !in_points.contains(&at) {
                total = with;
                self.short.insert(node.id);
            } else {
                // There is a look after it.
                is_bounded &= own.is_some();
            }
        }
        if is_bounded && total <= known.most_ns {
            self.of.insert(id, total);
        }
    }
}
