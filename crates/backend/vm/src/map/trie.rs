//! Longest-prefix-match tries.
//!
//! A key is a `u32` prefix length and that many significant bits of data, most significant first:
//!
//! ```text
//!            10.0.0.0/8                     an inner node without a value where two prefixes part
//!            /         \
//!     10.0.0.0/9     10.192.0.0/10          lookup 10.200.1.1/32 -> 10.192.0.0/10
//! ```
//!
//! Nodes form a binary trie with one-child paths left out (a radix tree), as index links in a vector.

use super::UpdateFlag;
use super::values::Values;
use crate::errno::Errno;

const NONE: u32 = u32::MAX;

/// A trie.
#[derive(Debug)]
pub struct Trie {
    data_bytes: usize,
    max_entries: u32,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    root: u32,
    entries: u32,
    free_slots: Vec<u32>,
    fresh_slot: u32,
    pub(crate) values: Values,
}

#[derive(Clone, Debug)]
struct Node {
    bits: u32,
    data: Box<[u8]>,
    /// The value's slot; `NONE` for a node that only branches.
    slot: u32,
    children: [u32; 2],
}

/// A key taken apart; bits after the prefix are kept as given.
#[derive(Clone, Copy)]
struct Prefix<'k> {
    bits: u32,
    data: &'k [u8],
}

impl<'k> Prefix<'k> {
    fn parse(key: &'k [u8], data_bytes: usize) -> Result<Prefix<'k>, Errno> {
        let (bits, data) = key.split_first_chunk::<4>().ok_or(Errno::EINVAL)?;
        let bits = u32::from_ne_bytes(*bits);
        if bits as usize > 8 * data_bytes || data.len() != data_bytes {
            return Err(Errno::EINVAL);
        }
        Ok(Prefix { bits, data })
    }

    fn bit(&self, at: u32) -> usize {
        bit(self.data, at)
    }
}

fn bit(data: &[u8], at: u32) -> usize {
    data.get(at as usize / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1))
}

/// How many leading bits, at most `limit`, two keys share.
fn common_bits(one: &[u8], other: &[u8], limit: u32) -> u32 {
    let mut bits = 0;
    for (a, b) in one.iter().zip(other) {
        let differing = a ^ b;
        bits += differing.leading_zeros();
        if differing != 0 || bits >= limit {
            break;
        }
    }
    bits.min(limit)
}

impl Trie {
    /// An empty trie for keys of `key_size` bytes (the length included); `values` holds `max_entries + 1`.
    pub fn new(key_size: u32, max_entries: u32, values: Values) -> Trie {
        Trie {
            data_bytes: key_size as usize - 4,
            max_entries,
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            root: NONE,
            entries: 0,
            free_slots: Vec::new(),
            fresh_slot: 0,
            values,
        }
    }

    fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    /// The slot of the longest prefix that covers the key.
    pub fn find_longest(&self, key: &[u8]) -> Option<u32> {
        let prefix = Prefix::parse(key, self.data_bytes).ok()?;
        let mut best = None;
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            let limit = node.bits.min(prefix.bits);
            if common_bits(&node.data, prefix.data, limit) < node.bits {
                break;
            }
            if node.slot != NONE {
                best = Some(node.slot);
            }
            if node.bits >= 8 * self.data_bytes as u32 {
                break;
            }
            at = node.children[prefix.bit(node.bits)];
        }
        best
    }

    /// The slot of exactly this prefix.
    pub fn find_exact(&self, key: &[u8]) -> Option<u32> {
        let prefix = Prefix::parse(key, self.data_bytes).ok()?;
        let at = *self.path(prefix).last()?;
        let node = self.node(at)?;
        let same = node.bits == prefix.bits && common_bits(&node.data, prefix.data, prefix.bits) == prefix.bits;
        (same && node.slot != NONE).then_some(node.slot)
    }

    /// Nodes that are prefixes of (or equal to) this one, from the root down.
    fn path(&self, prefix: Prefix<'_>) -> Vec<u32> {
        let mut path = Vec::new();
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            if node.bits > prefix.bits || common_bits(&node.data, prefix.data, node.bits) < node.bits {
                break;
            }
            path.push(at);
            if node.bits == prefix.bits {
                break;
            }
            at = node.children[prefix.bit(node.bits)];
        }
        path
    }

    /// The slot where the value of `key` is to be written. A replaced value moves to another slot.
    ///
    /// # Errors
    /// `EINVAL` for a prefix that is too long, `EEXIST`, `ENOENT` by the flag, `ENOSPC` when full.
    pub fn prepare(&mut self, key: &[u8], flag: UpdateFlag) -> Result<u32, Errno> {
        let prefix = Prefix::parse(key, self.data_bytes)?;
        let old = self.find_exact(key);
        match (flag, old) {
            (UpdateFlag::NoExist, Some(_)) => return Err(Errno::EEXIST),
            (UpdateFlag::Exist, None) => return Err(Errno::ENOENT),
            (_, None) if self.entries >= self.max_entries => return Err(Errno::ENOSPC),
            _ => {}
        }
        let slot = self.take_slot().ok_or(Errno::ENOMEM)?;
        let path = self.path(prefix);
        let parent = path.last().copied();
        if let Some(at) = parent.filter(|at| self.nodes[*at as usize].bits == prefix.bits) {
            let node = &mut self.nodes[at as usize];
            node.data = prefix.data.into();
            let replaced = std::mem::replace(&mut node.slot, slot);
            match replaced {
                NONE => self.entries += 1,
                replaced => self.free_slots.push(replaced),
            }
            return Ok(slot);
        }
        self.insert_below(parent, prefix, slot);
        self.entries += 1;
        Ok(slot)
    }

    fn take_slot(&mut self) -> Option<u32> {
        self.free_slots.pop().or_else(|| {
            let slot = self.fresh_slot;
            (slot <= self.max_entries).then(|| {
                self.fresh_slot += 1;
                slot
            })
        })
    }

    fn insert_below(&mut self, parent: Option<u32>, prefix: Prefix<'_>, slot: u32) {
        let below = match parent {
            None => self.root,
            Some(parent) => {
                let parent = &self.nodes[parent as usize];
                parent.children[prefix.bit(parent.bits)]
            }
        };
        let new = self.add_node(Node { bits: prefix.bits, data: prefix.data.into(), slot, children: [NONE, NONE] });
        let top = match self.node(below).cloned() {
            None => new,
            Some(other) => {
                let common = common_bits(&other.data, prefix.data, other.bits.min(prefix.bits));
                if common == prefix.bits {
                    self.nodes[new as usize].children[bit(&other.data, prefix.bits)] = below;
                    new
                } else {
                    let mut children = [NONE, NONE];
                    children[bit(&other.data, common)] = below;
                    children[prefix.bit(common)] = new;
                    self.add_node(Node { bits: common, data: prefix.data.into(), slot: NONE, children })
                }
            }
        };
        self.relink(parent, prefix, top);
    }

    fn relink(&mut self, parent: Option<u32>, prefix: Prefix<'_>, child: u32) {
        match parent {
            None => self.root = child,
            Some(parent) => {
                let parent = &mut self.nodes[parent as usize];
                let side = prefix.bit(parent.bits);
                parent.children[side] = child;
            }
        }
    }

    fn add_node(&mut self, node: Node) -> u32 {
        if let Some(id) = self.free_nodes.pop() {
            self.nodes[id as usize] = node;
            return id;
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Removes exactly this prefix.
    ///
    /// # Errors
    /// `EINVAL` for a prefix that is too long, `ENOENT`.
    pub fn remove(&mut self, key: &[u8]) -> Result<(), Errno> {
        let prefix = Prefix::parse(key, self.data_bytes)?;
        let slot = self.find_exact(key).ok_or(Errno::ENOENT)?;
        let mut path = self.path(prefix);
        let at = path.pop().ok_or(Errno::ENOENT)?;
        self.nodes[at as usize].slot = NONE;
        self.entries -= 1;
        self.free_slots.push(slot);
        self.collapse(at, path.last().copied(), prefix);
        // Its parent may now only branch to one side.
        if let Some(parent) = path.pop().filter(|parent| self.nodes[*parent as usize].slot == NONE) {
            self.collapse(parent, path.last().copied(), prefix);
        }
        Ok(())
    }

    /// Leaves a node without a value out of the tree where it has no or one child.
    fn collapse(&mut self, at: u32, parent: Option<u32>, prefix: Prefix<'_>) {
        let child = match self.nodes[at as usize].children {
            [NONE, NONE] => NONE,
            [child, NONE] | [NONE, child] => child,
            _ => return,
        };
        self.relink(parent, prefix, child);
        self.free_nodes.push(at);
    }

    /// Entries now.
    pub fn len(&self) -> usize {
        self.entries as usize
    }

    /// Keys (as they were given) and slots, in no order.
    pub fn entries(&self) -> Vec<(Vec<u8>, u32)> {
        let mut entries = Vec::new();
        let mut pending = vec![self.root];
        while let Some(at) = pending.pop() {
            let Some(node) = self.node(at) else { continue };
            pending.extend(node.children);
            if node.slot != NONE {
                let mut key = node.bits.to_ne_bytes().to_vec();
                key.extend_from_slice(&node.data);
                entries.push((key, node.slot));
            }
        }
        entries
    }
}
