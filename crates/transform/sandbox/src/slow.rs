//! What takes time besides turns of loops: calls of helpers whose cost nothing bounds, and global functions.
//!
//! The verifier bounds instructions, not time: 1,000,000 of them may be 1,000,000 copies of 4 MB. And it explores a global function
//! once, however often it is called: eight levels of functions that call the next one a hundred times are a few thousand
//! instructions for it. So the clock is read before such a call of a helper, and after each call of such a function.

use std::collections::{BTreeMap, BTreeSet};

use kiln_platform::{Cost, Helper, helper_id};
use kiln_program::{FunctionId, InsnId, Linkage, Node, Object, Reference};
use kiln_verifier::Facts;

use crate::callbacks::Callbacks;
use crate::loops;
use crate::times::node_ns;

/// A value that is copied in about a microsecond.
const SHORT_VALUE_BYTES: u32 = 4096;
/// So many slow calls of an object may be outside of loops without a look at the clock.
const FEW_CALLS: usize = 8;
/// A global function that calls nothing and has no loop may have so many slots without a look at the clock after it.
const SHORT_SLOTS: u32 = 64;
/// Nanoseconds, at most, of a loop that the verifier followed to its end.
const BOUNDED_LOOP_NS: u64 = 50_000;

/// What takes time in an object.
#[derive(Default)]
pub(crate) struct Slow {
    /// The calls before which the clock is read.
    pub calls: BTreeMap<FunctionId, BTreeSet<InsnId>>,
    /// The global functions after which the clock is read, at least at one place.
    pub globals: BTreeSet<FunctionId>,
    /// The calls after which it is not.
    pub unseen: BTreeSet<InsnId>,
}

impl Slow {
    pub fn of(object: &Object, passed: &Callbacks, facts: &Facts, elide: bool, unseen: BTreeSet<InsnId>) -> Slow {
        let ids = || (0..object.functions.len()).map(|at| FunctionId(at as u32));
        let is_entry = |id: FunctionId| object.programs.iter().any(|program| program.entry == id);
        let reachable: BTreeSet<FunctionId> =
            object.programs.iter().flat_map(|program| object.reachable_functions(program.entry)).collect();
        let global = |id: &FunctionId| object.function(*id).linkage != Linkage::Static && !is_entry(*id);
        let repeated = repeated(object, passed, global);
        let mut slow = Slow::default();
        let mut outside = BTreeMap::<FunctionId, BTreeSet<InsnId>>::new();
        for id in ids().filter(|id| reachable.contains(id)) {
            let function = object.function(id);
            let in_loops = loops::insides(function);
            for (at, node) in function.nodes.iter().enumerate() {
                let may_be_called =
                    facts.at(node.id).is_some() && facts.held(node.id).is_none_or(|held| held.locks == 0);
                if !may_be_called || !is_slow(object, node) {
                    continue;
                }
                let often = repeated.contains(&id) || in_loops.contains(&at) || !elide;
                let calls = if often { &mut slow.calls } else { &mut outside };
                calls.entry(id).or_default().insert(node.id);
            }
        }
        if outside.values().map(BTreeSet::len).sum::<usize>() > FEW_CALLS {
            outside.into_iter().for_each(|(id, calls)| slow.calls.entry(id).or_default().extend(calls));
        }
        let is_long = |id: &FunctionId| {
            let function = object.function(*id);
            let calls = function.nodes.iter().any(|node| matches!(node.reference, Reference::Function(_)));
            calls
                || slow.calls.contains_key(id)
                || !loops::headers(function).is_empty()
                || function.slots() > SHORT_SLOTS
        };
        let looks_after = |id: &FunctionId| {
            let calls = reachable.iter().flat_map(|caller| &object.function(*caller).nodes);
            calls.filter(|node| node.callee() == Some(*id)).any(|node| !unseen.contains(&node.id))
        };
        slow.globals =
            ids().filter(|id| reachable.contains(id) && global(id) && is_long(id) && looks_after(id)).collect();
        slow.unseen = unseen;
        slow
    }
}

/// Whether nothing bounds the time that a call of a helper takes. Functions that `bpf_loop` runs have points of their own.
fn is_slow(object: &Object, node: &Node) -> bool {
    let Some(helper) = node.helper().and_then(Helper::by_id) else { return false };
    let long_values = || object.maps.iter().any(|map| !map.is_section() && map.value_size > SHORT_VALUE_BYTES);
    match helper.cost {
        Cost::Constant | Cost::Key | Cost::Bytes(_) => false,
        Cost::Value => long_values(),
        Cost::Unknown => helper.id != helper_id::LOOP,
    }
}

/// The functions that one run may call many times: from a loop, by a helper, or because the verifier does not follow each call.
fn repeated(object: &Object, passed: &Callbacks, global: impl Fn(&FunctionId) -> bool) -> BTreeSet<FunctionId> {
    let mut begin: BTreeSet<FunctionId> = passed.passed_in.keys().copied().collect();
    for (at, function) in object.functions.iter().enumerate() {
        begin.extend(Some(FunctionId(at as u32)).filter(|id| global(id)));
        let in_loops = loops::insides(function);
        let inside = function.nodes.iter().enumerate().filter(|(at, _)| in_loops.contains(at));
        begin.extend(inside.filter_map(|(_, node)| node.callee()));
    }
    begin.into_iter().flat_map(|id| object.reachable_functions(id)).collect()
}

/// Loops by their functions.
type Loops = BTreeMap<FunctionId, BTreeSet<InsnId>>;

/// How many nanoseconds one turn of a loop may take, or one run of a function that begins with `header`, at most, if the caches
/// have what it needs; without what has a look at the clock of its own. Loops of `bounded` have no cancellation point.
pub(crate) fn turn_ns(object: &Object, id: FunctionId, header: InsnId, bounded: &Loops, facts: &Facts) -> u64 {
    let (own, called) = loops::inside(object, id, header);
    let bounded = |id: &FunctionId, at: &dyn Fn(&InsnId) -> bool| {
        bounded.get(id).map_or(0, |own| own.iter().filter(|header| at(header)).count() as u64)
    };
    let nodes = object.function(id).nodes.iter().filter(|node| own.contains(&node.id));
    let callees = called.iter().flat_map(|id| &object.function(*id).nodes);
    let straight: u64 = nodes.chain(callees).map(|node| node_ns(node, facts)).sum();
    let loops = bounded(&id, &|at| *at != header && own.contains(at))
        + called.iter().map(|id| bounded(id, &|_| true)).sum::<u64>();
    straight.saturating_add(loops.saturating_mul(BOUNDED_LOOP_NS)).max(1)
}
