//! Which numbers matter: what the kernel calls precision.
//!
//! Two states that differ only in a number that no later decision depends on are the same state. Whether a decision
//! depends on it is known only afterwards, so each number carries its *origin*, a node of a graph:
//!
//! ```text
//!   kept state A:  r1 <- cell 1                    cells are made when a state is kept
//!     r2 = r1; r2 += r3        r2's origin: join(cell 1, cell 2)
//!   kept state B:  r2 <- cell 4, which stands on join(cell 1, cell 2)
//!     r5 += r2                 r5 is a pointer: r2 must be precise: mark(cell 4)
//! ```
//!
//! Marking walks down to everything the number was made of and stops at what is marked already, so all marking
//! together costs no more than the graph is large. The kernel finds the same by walking its history backwards. At what
//! a classic packet load returns it gives up, and all numbers of all states on the path matter: [`EVERYTHING`].

use std::collections::HashMap;

/// A node; 0 is a number made of nothing that a kept state holds.
pub(crate) type Origin = u32;

/// The origin of what a classic packet load returns, and of all that is made from it: marking it makes every number
/// of the path's kept states precise (the kernel's `mark_all_scalars_precise`).
pub(crate) const EVERYTHING: Origin = 1;

/// The origin of a number that the kernel cannot trace back over a packet load that failed (see [`super::trail`]): it stops
/// with "verifier bug: static subprog leftover stack slots". Marking it loses the path.
pub(crate) const LOST: Origin = 2;

#[derive(Clone, Copy, Debug)]
struct Node {
    parents: [Origin; 2],
    precise: bool,
    /// The first parent is a number of a kept state, which becomes precise without what it was made of. If it is precise
    /// already, the second does not.
    detour: bool,
}

/// Nodes of a small program: room for them is made at once.
const FEW_NODES: usize = 128;
/// Bytes of a follower in its table, about.
pub(crate) const FOLLOWER_BYTES: usize = 64;

/// The graph of origins.
#[derive(Debug)]
pub(crate) struct Origins {
    nodes: Vec<Node>,
    /// Nodes that become precise with another, where a path ended in a state whose future is not explored yet.
    followers: HashMap<Origin, Vec<Origin>>,
    /// Entries of `followers`.
    followed: usize,
    pending: Vec<Origin>,
    /// [`EVERYTHING`] was marked since it was asked for.
    everything: bool,
    /// [`LOST`] was marked since it was asked for.
    lost: bool,
}

impl Origins {
    pub(crate) fn new() -> Origins {
        let mut nodes = Vec::with_capacity(FEW_NODES);
        nodes.extend([true, false, false].map(|precise| Node { parents: [0, 0], precise, detour: false }));
        Origins { nodes, followers: HashMap::new(), followed: 0, pending: Vec::new(), everything: false, lost: false }
    }

    fn add(&mut self, parents: [Origin; 2]) -> Origin {
        self.nodes.push(Node { parents, precise: false, detour: false });
        (self.nodes.len() - 1) as Origin
    }

    /// A number of a state being kept.
    pub(crate) fn cell(&mut self, from: Origin) -> Origin {
        self.add([from, 0])
    }

    /// A number made of two.
    pub(crate) fn join(&mut self, first: Origin, second: Origin) -> Origin {
        match (first, second) {
            (0, other) | (other, 0) => other,
            // What a packet load gave after the call is met first.
            (EVERYTHING, _) | (_, EVERYTHING) => EVERYTHING,
            (LOST, _) | (_, LOST) => LOST,
            (first, second) if first == second => first,
            (first, second) => self.add([first, second]),
        }
    }

    /// A number whose search goes past that of a kept state, `cell`, and on to `further`.
    pub(crate) fn detour(&mut self, cell: Origin, further: Origin) -> Origin {
        let detour = self.add([cell, further]);
        self.nodes[detour as usize].detour = cell > LOST;
        detour
    }

    /// A decision depends on the number.
    pub(crate) fn mark(&mut self, origin: Origin) {
        self.mark_all([origin]);
    }

    /// A decision depends on all of the numbers, which are traced back together: a packet load that one of them leads to
    /// ends the search for the others.
    pub(crate) fn mark_all(&mut self, origins: impl IntoIterator<Item = Origin>) {
        let (mut everything, mut lost) = (false, false);
        self.pending.extend(origins);
        while let Some(at) = self.pending.pop() {
            match at {
                EVERYTHING => everything = true,
                LOST => lost = true,
                _ => self.mark_node(at),
            }
        }
        self.everything |= everything;
        self.lost |= lost && !everything;
    }

    fn mark_node(&mut self, at: Origin) {
        let node = &mut self.nodes[at as usize];
        if node.detour {
            let [cell, further] = node.parents;
            if !std::mem::replace(&mut self.nodes[cell as usize].precise, true) {
                self.pending.extend(self.followers.get(&cell).into_iter().flatten());
                self.pending.push(further);
            }
        } else if !node.precise {
            node.precise = true;
            self.pending.extend(node.parents.iter().filter(|parent| **parent != 0));
            if !self.followers.is_empty()
                && let Some(followers) = self.followers.get(&at)
            {
                self.pending.extend(followers);
            }
        }
    }

    /// Whether all numbers of the path's kept states are to be precise, asked once.
    pub(crate) fn take_everything(&mut self) -> bool {
        std::mem::take(&mut self.everything)
    }

    /// Whether a decision depends on a number that the kernel cannot trace back, asked once.
    pub(crate) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// When the first is or becomes precise, so does the other.
    pub(crate) fn follow(&mut self, first: Origin, other: Origin) {
        if first == 0 || other == 0 || first == other {
            return;
        }
        if self.is_precise(first) {
            self.mark(other);
        } else if other != EVERYTHING {
            self.followers.entry(first).or_default().push(other);
            self.followed += 1;
        }
    }

    /// Bytes that the graph takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>() + self.followed * FOLLOWER_BYTES
    }

    pub(crate) fn is_precise(&self, origin: Origin) -> bool {
        origin != 0 && self.nodes[origin as usize].precise
    }
}
