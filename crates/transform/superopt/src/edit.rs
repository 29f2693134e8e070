//! Editing a function without losing a branch.
//!
//! A branch names its target by id. When a target goes away, what follows it takes its place:
//!
//! ```text
//!   1: if r1 == 0 goto 3        1: if r1 == 0 goto 4
//!   2: r0 = 1              -->  2: r0 = 1
//!   3: r2 = r2   (deleted)      4: exit
//!   4: exit
//! ```

use kiln_program::{ById, Function, Ids, InsnId, Node, Reference};

/// Deletes instructions; branches to them go to the next one that stays. Instructions at the end of a function can
/// only be deleted when nothing that stays branches to them or falls into them.
pub fn delete(function: &mut Function, doomed: &Ids) {
    if doomed.is_empty() {
        return;
    }
    let mut moved = ById::default();
    let mut next = None;
    for node in function.nodes.iter().rev() {
        if doomed.contains(&node.id) {
            if let Some(next) = next {
                moved.insert(node.id, next);
            }
        } else {
            next = Some(node.id);
        }
    }
    function.nodes.retain(|node| !doomed.contains(&node.id));
    retarget(function, &moved);
}

/// Replaces the instructions at these positions; branches to the first go to the first replacement, or to what
/// follows when there is none. Nothing may branch into the middle.
pub fn replace(function: &mut Function, range: std::ops::Range<usize>, after: Vec<Node>) {
    let first = function.nodes[range.start].id;
    let heir = after.first().or_else(|| function.nodes.get(range.end)).map(|node| node.id);
    function.nodes.splice(range, after);
    if let Some(heir) = heir
        && heir != first
    {
        retarget(function, &ById::from_iter([(first, heir)]));
    }
}

/// Replaces several runs, each as [`replace`] does; from the last to the first.
pub fn replace_all(function: &mut Function, changes: Vec<(std::ops::Range<usize>, Vec<Node>)>) {
    if changes.is_empty() {
        return;
    }
    let old = std::mem::take(&mut function.nodes);
    let mut moved = ById::default();
    // In reverse order.
    let mut nodes: Vec<Node> = Vec::with_capacity(old.len());
    let mut at = old.len();
    for (range, after) in changes {
        nodes.extend(old[range.end..at].iter().rev().cloned());
        let first = old[range.start].id;
        let heir = after.first().or(nodes.last()).map(|node| node.id).filter(|heir| *heir != first);
        moved.extend(heir.map(|heir| (first, heir)));
        nodes.extend(after.into_iter().rev());
        at = range.start;
    }
    nodes.extend(old[..at].iter().rev().cloned());
    nodes.reverse();
    function.nodes = nodes;
    retarget(function, &moved);
}

/// Sends every branch to a key of the map to its value instead.
pub fn retarget(function: &mut Function, moved: &ById<InsnId>) {
    for node in &mut function.nodes {
        if let Reference::Branch(target) = &mut node.reference
            && let Some(heir) = moved.get(target)
        {
            *target = *heir;
        }
    }
}

/// Ids that some branch or jump table of the function names.
pub fn targets(function: &Function) -> Ids {
    function.nodes.iter().filter_map(Node::target).chain(function.jump_targets()).collect()
}
