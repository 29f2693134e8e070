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
//! Nodes form a binary trie with one-child paths left out (a radix tree), as index links in a vector. Lookups of
//! several CPUs go on at once; a change waits for them. The slot of a value that is gone is used again when no run can
//! hold its address any more ([`crate::grace`]).

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::definition::UpdateFlag;
use super::slots::Slots;
use super::values::Values;
use crate::errno::Errno;
use crate::grace::Grace;

const NONE: u32 = u32::MAX;

/// A trie with its values.
#[derive(Debug)]
pub struct Trie {
    tree: RwLock<Tree>,
    pub(crate) values: Values,
}

impl Trie {
    /// An empty trie for keys of `key_size` bytes (the length included); `values` has `slots` of them, more than
    /// `max_entries`.
    pub fn new(key_size: u32, max_entries: u32, slots: u32, values: Values, grace: Arc<Grace>) -> Trie {
        Trie { tree: RwLock::new(Tree::new(key_size, max_entries, slots, grace)), values }
    }

    fn tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree_mut(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot of the longest prefix that covers the key.
    pub fn find_longest(&self, key: &[u8]) -> Option<u32> {
        self.tree().find_longest(key)
    }

    /// The value of the longest prefix that covers the key, as user space sees it.
    pub fn read_user(&self, key: &[u8]) -> Option<Vec<u8>> {
        let tree = self.tree();
        tree.find_longest(key).map(|slot| self.values.read_user(slot, false))
    }

    /// Sets the value of a prefix: `write` fills a slot that nobody can find yet.
    ///
    /// # Errors
    /// `EINVAL` for a prefix that is too long, `EEXIST`, `ENOENT` by the flag, `ENOSPC` when full.
    pub fn update(&self, key: &[u8], flag: UpdateFlag, write: impl Fn(u32)) -> Result<(), Errno> {
        let mut tree = self.tree_mut();
        let slot = tree.prepare(key, flag)?;
        self.values.unlock_new(slot);
        write(slot);
        Ok(())
    }

    /// Removes exactly this prefix.
    ///
    /// # Errors
    /// `EINVAL` for a prefix that is too long, `ENOENT`.
    pub fn remove(&self, key: &[u8]) -> Result<(), Errno> {
        self.tree_mut().remove(key)
    }

    /// Entries now.
    pub fn len(&self) -> usize {
        self.tree().slots.used() as usize
    }

    /// Keys (as they were given) and values, in no order.
    pub fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let tree = self.tree();
        tree.entries().into_iter().map(|(key, slot)| (key, self.values.read_user(slot, false))).collect()
    }
}

/// Prefixes and the slots of their values.
#[derive(Debug)]
struct Tree {
    data_bytes: usize,
    max_entries: u32,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    root: u32,
    slots: Slots,
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

impl Tree {
    fn new(key_size: u32, max_entries: u32, slots: u32, grace: Arc<Grace>) -> Tree {
        Tree {
            data_bytes: key_size as usize - 4,
            max_entries,
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            root: NONE,
            slots: Slots::new(slots, Some(grace)),
        }
    }

    fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    /// The slot of the longest prefix that covers the key.
    fn find_longest(&self, key: &[u8]) -> Option<u32> {
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
    fn find_exact(&self, key: &[u8]) -> Option<u32> {
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
    fn prepare(&mut self, key: &[u8], flag: UpdateFlag) -> Result<u32, Errno> {
        let prefix = Prefix::parse(key, self.data_bytes)?;
        let old = self.find_exact(key);
        match (flag, old) {
            (UpdateFlag::NoExist, Some(_)) => return Err(Errno::EEXIST),
            (UpdateFlag::Exist, None) => return Err(Errno::ENOENT),
            (_, None) if self.slots.used() >= self.max_entries => return Err(Errno::ENOSPC),
            _ => {}
        }
        let slot = match old {
            None => self.slots.take(self.max_entries),
            Some(_) => self.slots.take_more(),
        };
        let slot = slot.ok_or(Errno::ENOMEM)?;
        let path = self.path(prefix);
        let parent = path.last().copied();
        if let Some(at) = parent.filter(|at| self.nodes[*at as usize].bits == prefix.bits) {
            let node = &mut self.nodes[at as usize];
            node.data = prefix.data.into();
            let replaced = std::mem::replace(&mut node.slot, slot);
            if replaced != NONE {
                self.slots.retire(replaced);
            }
            return Ok(slot);
        }
        self.insert_below(parent, prefix, slot);
        Ok(slot)
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
    fn remove(&mut self, key: &[u8]) -> Result<(), Errno> {
        let prefix = Prefix::parse(key, self.data_bytes)?;
        let slot = self.find_exact(key).ok_or(Errno::ENOENT)?;
        let mut path = self.path(prefix);
        let at = path.pop().ok_or(Errno::ENOENT)?;
        self.nodes[at as usize].slot = NONE;
        self.slots.release(slot);
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

    /// Keys (as they were given) and slots, in no order.
    fn entries(&self) -> Vec<(Vec<u8>, u32)> {
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
