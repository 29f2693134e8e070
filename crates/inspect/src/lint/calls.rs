//! Rules about calls of helpers.

use kiln_isa::Reg;
use kiln_platform::{Helper, helper_id};
use kiln_program::{MapId, Node};
use kiln_verifier::{Region, Value};

use super::linted::{Found, Linted};

/// Helpers that print to the trace pipe.
const PRINTERS: [&str; 2] = ["trace_printk", "trace_vprintk"];

impl<'a> Linted<'a> {
    /// Calls of helpers, with their places.
    pub(super) fn calls(&self) -> impl Iterator<Item = ((usize, usize), &'a Node, &'static Helper)> + '_ {
        self.nodes().filter_map(|(at, node)| Some((at, node, Helper::by_id(node.helper()?)?)))
    }

    /// The map that a register holds before an instruction.
    pub(super) fn map_in(&self, node: &Node, reg: Reg) -> Option<MapId> {
        match &self.facts.at(node.id)?.registers[reg.index()] {
            Value::Pointer(pointer) => match pointer.region {
                Region::Map(map) => Some(map),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether an update of the map cannot fail for lack of room, or what follows looks whether it did.
    fn update_is_safe(&self, at: (usize, usize), node: &Node) -> bool {
        use kiln_platform::MapType::{Hash, HashOfMaps, LpmTrie, PercpuHash};
        let Some(map) = self.map_in(node, Reg::R1) else { return true };
        if !matches!(self.object.map(map).map_type, Hash | PercpuHash | LpmTrie | HashOfMaps) {
            return true;
        }
        // A lookup of the same map comes next, and its result is compared with null: the verifier demands it.
        let next = self.object.functions[at.0].nodes.iter().skip(at.1 + 1).find(|node| node.helper().is_some());
        next.is_some_and(|next| {
            next.helper() == Some(helper_id::MAP_LOOKUP_ELEM) && self.map_in(next, Reg::R1) == Some(map)
        })
    }
}

/// See the row of `unchecked-result`.
pub(super) fn unchecked_results(linted: &Linted<'_>) -> Vec<Found> {
    let ignored = |(at, node, helper): ((usize, usize), &Node, &Helper)| {
        let harm = helper.when_ignored?;
        let facts = linted.facts.at(node.id)?;
        if facts.live_after.contains(Reg::R0) {
            return None;
        }
        if helper.id == helper_id::MAP_UPDATE_ELEM && linted.update_is_safe(at, node) {
            return None;
        }
        let message = format!("nothing looks at the result of bpf_{}: {harm}", helper.name);
        let help = match helper.name.contains("redirect") && helper.name != "clone_redirect" {
            true => Some(format!("return what it returns: `return bpf_{}(...);`", helper.name)),
            false => Some(format!("compare it: `if (bpf_{}(...) < 0)`, and count or return an error", helper.name)),
        };
        Some(Found { at: Some(at), message, help })
    };
    linted.calls().filter_map(ignored).collect()
}

/// See the row of `debug-print`.
pub(super) fn debug_prints(linted: &Linted<'_>) -> Vec<Found> {
    let prints = linted.calls().filter(|(_, _, helper)| PRINTERS.contains(&helper.name));
    let found = |(at, _, helper): ((usize, usize), &Node, &Helper)| {
        let message = format!("bpf_{} prints to the trace pipe, which is for debugging", helper.name);
        Found { at: Some(at), message, help: None }
    };
    prints.map(found).collect()
}

/// See the row of `deprecated-helper`.
pub(super) fn deprecated_helpers(linted: &Linted<'_>) -> Vec<Found> {
    let found = |(at, _, helper): ((usize, usize), &Node, &Helper)| {
        let replacement = helper.replaced_by?;
        let message = format!("bpf_{} is deprecated", helper.name);
        Some(Found { at: Some(at), message, help: Some(format!("use {replacement}")) })
    };
    linted.calls().filter_map(found).collect()
}
