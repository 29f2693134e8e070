//! How long an instruction takes at most, when nothing is in the caches. Time that grows with a size is that of the greatest size.

use kiln_isa::Insn;
use kiln_platform::{ArgKind, Cost, Helper, Kfunc, MapType, helper_id};
use kiln_program::{Map, Node, Object, Reference};
use kiln_verifier::{Facts, Region, Value};

/// Nanoseconds of an instruction.
const INSN_NS: u64 = 1;
/// Nanoseconds of an access to a page of the heap that does not exist.
const FAULT_NS: u64 = 2000;
/// Nanoseconds of a call of a helper or kernel function that is bounded, without the bytes that it handles.
pub(crate) const CALL_NS: u64 = 100;
/// Nanoseconds that a call usually takes which nothing bounds, without the sizes among its arguments.
const UNBOUNDED_NS: u64 = 20_000;
/// Nanoseconds of a byte that is copied or hashed.
const BYTE_NS: u64 = 2;
/// Nanoseconds of a bit of a key of a longest-prefix trie. Each bit may be a node of the trie.
const PREFIX_BIT_NS: u64 = 20;
/// Nanoseconds. The clock is read before each call that may take longer, where a run may make the call often.
const SHORT_CALL_NS: u64 = 10_000;

/// Nanoseconds that an instruction takes, without what a function of the program takes that it calls.
pub(crate) fn node_ns(object: &Object, node: &Node, facts: &Facts) -> u64 {
    match cost(object, node) {
        None if facts.in_arena(node.id) => FAULT_NS,
        None => INSN_NS,
        Some(cost) => call_ns(object, node, cost, facts),
    }
}

/// Whether a call may take so long that the clock is read before it. Functions that `bpf_loop` runs have points of their own.
pub(crate) fn is_slow(object: &Object, node: &Node, facts: &Facts) -> bool {
    let Some(cost) = cost(object, node).filter(|_| node.helper() != Some(helper_id::LOOP)) else { return false };
    cost == Cost::Unknown || call_ns(object, node, cost, facts) > SHORT_CALL_NS
}

/// What bounds the time of a call of a helper or kernel function; `None` for other instructions.
fn cost(object: &Object, node: &Node) -> Option<Cost> {
    match (node.insn, node.reference) {
        (Insn::Call(_), Reference::Extern(id)) => {
            let row = object.externs.get(id.index()).and_then(|found| Kfunc::by_name(&found.name));
            Some(row.map_or(Cost::Unknown, |row| row.cost))
        }
        _ => Some(Helper::by_id(node.helper()?).map_or(Cost::Unknown, |row| row.cost)),
    }
}

fn call_ns(object: &Object, node: &Node, cost: Cost, facts: &Facts) -> u64 {
    let bytes = |bytes: u64| CALL_NS.saturating_add(bytes.saturating_mul(BYTE_NS));
    match cost {
        Cost::Constant => CALL_NS,
        Cost::Key => CALL_NS.saturating_add(of_maps(object, node, facts, key_ns)),
        Cost::Value => {
            let both = |map: &Map| key_ns(map).saturating_add(u64::from(map.value_size) * BYTE_NS);
            CALL_NS.saturating_add(of_maps(object, node, facts, both))
        }
        Cost::Bytes(argument) => bytes(argument_up_to(node, argument.into(), facts)),
        Cost::Unknown => {
            let arguments = node.helper().and_then(Helper::by_id).map_or(&[][..], |row| row.prototype.args);
            let sizes = (1..).zip(arguments).filter(|(_, kind)| matches!(kind, ArgKind::Size { .. }));
            let all = sizes.map(|(at, _)| argument_up_to(node, at, facts)).fold(0, u64::saturating_add);
            UNBOUNDED_NS.saturating_add(bytes(all))
        }
    }
}

fn key_ns(map: &Map) -> u64 {
    let byte = if map.map_type == MapType::LpmTrie { 8 * PREFIX_BIT_NS } else { BYTE_NS };
    u64::from(map.key_size) * byte
}

/// What is known of the map that a call gets first; where it is not known which one, the most of all maps.
fn of_maps(object: &Object, node: &Node, facts: &Facts, ns: impl Fn(&Map) -> u64) -> u64 {
    if let Some(Value::Pointer(pointer)) = facts.at(node.id).map(|known| &known.registers[1])
        && let Region::Map(id) = pointer.region
    {
        return ns(object.map(id));
    }
    let maps = object.maps.iter().filter(|map| !map.is_section());
    maps.flat_map(|map| [Some(map), map.inner.as_deref()]).flatten().map(ns).max().unwrap_or(0)
}

fn argument_up_to(node: &Node, argument: usize, facts: &Facts) -> u64 {
    match facts.at(node.id).map(|known| &known.registers[argument]) {
        Some(Value::Scalar(number)) => number.umax,
        _ => u64::MAX,
    }
}
