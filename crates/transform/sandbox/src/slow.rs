//! Where the clock is read besides in loops: before calls that may take long, and where a path took long ([`crate::times`]).
//!
//! The verifier bounds instructions, not time: 1,000,000 of them may be 1,000,000 copies of 4 MB. And it explores a global function
//! once, however often it is called: eight levels of functions that call the next one a hundred times are a few thousand
//! instructions for it.

use std::collections::{BTreeMap, BTreeSet};

use kiln_program::{FunctionId, InsnId, Linkage, Object};
use kiln_verifier::Facts;

use crate::callbacks::Callbacks;
use crate::costs;
use crate::loops;
use crate::times::{self, Times};

/// Where the clock is read.
#[derive(Default)]
pub(crate) struct Slow {
    /// The instructions before which it is read; before a loop, where it is entered.
    pub looks: BTreeMap<FunctionId, BTreeSet<InsnId>>,
    /// The global functions after which it is read.
    pub globals: BTreeSet<FunctionId>,
}

impl Slow {
    pub fn of(object: &Object, times: &Times<'_>, calls: &BTreeSet<InsnId>) -> Slow {
        let mut slow = Slow::default();
        for id in reachable(object) {
            let walked = times.walked(id);
            let own = object.function(id).nodes.iter().map(|node| node.id).filter(|at| calls.contains(at));
            let looks: BTreeSet<InsnId> = own.chain(walked.looks.iter().copied()).collect();
            if !looks.is_empty() {
                slow.looks.insert(id, looks);
            }
            if walked.has_looks && is_global(object, id) {
                slow.globals.insert(id);
            }
        }
        slow
    }
}

/// The functions that some program reaches.
pub(crate) fn reachable(object: &Object) -> BTreeSet<FunctionId> {
    object.programs.iter().flat_map(|program| object.reachable_functions(program.entry)).collect()
}

fn is_global(object: &Object, id: FunctionId) -> bool {
    object.function(id).linkage != Linkage::Static && object.programs.iter().all(|program| program.entry != id)
}

/// The slow calls that one run may make often: in loops, and in functions that may run many times. With `all`, any.
pub(crate) fn often_called(object: &Object, passed: &Callbacks, facts: &Facts, all: bool) -> BTreeSet<InsnId> {
    let repeated = repeated(object, passed);
    let mut calls = BTreeSet::new();
    for id in reachable(object) {
        let function = object.function(id);
        let in_loops = loops::insides(function);
        for (at, node) in function.nodes.iter().enumerate() {
            let often = all || repeated.contains(&id) || in_loops.contains(&at);
            if often && times::may_look(facts, node.id) && costs::is_slow(object, node, facts) {
                calls.insert(node.id);
            }
        }
    }
    calls
}

/// The functions that one run may call many times: from a loop, by a helper, or because the verifier does not follow each call.
fn repeated(object: &Object, passed: &Callbacks) -> BTreeSet<FunctionId> {
    let mut begin: BTreeSet<FunctionId> = passed.passed_in.keys().copied().collect();
    for (at, function) in object.functions.iter().enumerate() {
        begin.extend(Some(FunctionId(at as u32)).filter(|id| is_global(object, *id)));
        let in_loops = loops::insides(function);
        let inside = function.nodes.iter().enumerate().filter(|(at, _)| in_loops.contains(at));
        begin.extend(inside.filter_map(|(_, node)| node.callee()));
    }
    begin.into_iter().flat_map(|id| object.reachable_functions(id)).collect()
}
