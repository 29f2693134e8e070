//! Instructions of marks put side by side and in the order of their proof sequence, as Linux wants them.

use kiln_isa::operation::{Binding, Registry};

use super::{Refused, Region, depends, schedule};
use crate::object::{FunctionId, Node, Object};

/// Moves the instructions of every mark side by side, in the order of its proof sequence. Functions keep their meaning. A
/// mark is removed if the registry does not have its operation, or if its instructions cannot be in that order.
///
/// # Errors
/// Returns the first mark that is refused; functions before it are then arranged.
pub fn arrange(object: &mut Object, registry: &Registry) -> Result<(), Refused> {
    object.operations.retain(|mark| registry.by_name(&mark.operation).is_some());
    let mut arranged = Vec::new();
    for index in 0..object.functions.len() {
        let schedule = schedule(object, FunctionId(index as u32), registry)?;
        let mut all = schedule.nodes.into_owned();
        for region in schedule.regions.values() {
            let Some(nodes) = all.get_mut(region.start..region.start + region.length) else { continue };
            let Some(last) = nodes.last().map(|node| node.id) else { continue };
            let mark = object.operations.iter().find(|mark| mark.members.last() == Some(&last)).cloned();
            let (Some(mut mark), Some(order)) = (mark, order(nodes, region)) else { continue };
            let moved: Vec<Node> = order.iter().map(|at| nodes[*at].clone()).collect();
            // Branches into the region lead to its first instruction, whichever that is now.
            for (node, moved) in nodes.iter_mut().zip(moved) {
                *node = Node { id: node.id, ..moved };
            }
            mark.members = nodes.iter().map(|node| node.id).collect();
            arranged.push(mark);
        }
        if let Some(function) = object.functions.get_mut(index) {
            function.nodes = all;
        }
    }
    arranged.sort_by_key(|mark| mark.members.first().copied());
    object.operations = arranged;
    Ok(())
}

/// The position in the region of the instruction of each template; `None` if an instruction is not exactly what its
/// template says, or if two that depend on each other would change places.
fn order(nodes: &[Node], region: &Region) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = Vec::with_capacity(nodes.len());
    for template in region.form.code {
        let is_its = |at: &usize| {
            let mut binding = Binding::of(region.operands.values());
            !order.contains(at) && binding.matches(template, &nodes[*at].insn)
        };
        let at = (0..nodes.len()).find(is_its)?;
        order.push(at);
    }
    let swapped = |(index, earlier): (usize, &usize)| {
        let mut later = order[index + 1..].iter().filter(|later| *later < earlier);
        later.any(|later| depends(&nodes[*earlier].insn, &nodes[*later].insn))
    };
    (order.len() == nodes.len() && !order.iter().enumerate().any(swapped)).then_some(order)
}
