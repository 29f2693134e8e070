//! A function being rewritten: the code before and after each of its instructions, and after its last.
//!
//! ```text
//!   entry                      once
//!   entry(i)                   if `i` begins a loop: on the way into the loop, not in it
//!   checks(i), guards(i), i    every other branch to `i` leads to the first of these
//!   after(i)                   on the way from `i` to the next instruction
//!   tail                       landing pads
//! ```

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{Function, FunctionId, InsnId, LineId, MapId, Node, Object, Reference, liveness};
use kiln_verifier::Facts;

use crate::error::Error;
use crate::frame::{Frame, needed_after, numbers_before, written_before};
use crate::loops;

pub(crate) struct Edit<'a> {
    pub object: &'a Object,
    pub id: FunctionId,
    pub function: &'a Function,
    pub facts: &'a Facts,
    pub frame: Frame,
    /// Registers that every path has written before each instruction ([`written_before`]).
    written: BTreeMap<InsnId, RegSet>,
    /// Registers that hold a number on every path, found when they are first asked for ([`numbers_before`]).
    numbers: OnceCell<BTreeMap<InsnId, RegSet>>,
    /// Registers that may be read after each instruction, also where no path leads; found when they are first asked for.
    live: OnceCell<BTreeMap<InsnId, RegSet>>,
    next_insn: &'a mut u32,
    entry: Vec<Node>,
    loop_entries: BTreeMap<InsnId, LoopEntry>,
    checks: BTreeMap<InsnId, Vec<Node>>,
    guards: BTreeMap<InsnId, Vec<Node>>,
    replaced: BTreeMap<InsnId, Insn>,
    after: BTreeMap<InsnId, Vec<Node>>,
    tail: Vec<Node>,
}

fn live_after(function: &Function) -> BTreeMap<InsnId, RegSet> {
    let live = liveness::live_after(&function.nodes, &liveness::Positions::of(&function.nodes));
    function.nodes.iter().map(|node| node.id).zip(live).collect()
}

/// The code on the way into a loop.
struct LoopEntry {
    nodes: Vec<Node>,
    /// The positions of the loop's instructions: what leads to the first from there is not on the way in.
    body: BTreeSet<usize>,
}

impl<'a> Edit<'a> {
    pub(crate) fn new(object: &'a Object, id: FunctionId, facts: &'a Facts, next_insn: &'a mut u32) -> Edit<'a> {
        let function = object.function(id);
        Edit {
            object,
            id,
            function,
            facts,
            frame: Frame::of(id, function, facts),
            written: written_before(function),
            numbers: OnceCell::new(),
            live: OnceCell::new(),
            next_insn,
            entry: Vec::new(),
            loop_entries: BTreeMap::new(),
            checks: BTreeMap::new(),
            guards: BTreeMap::new(),
            replaced: BTreeMap::new(),
            after: BTreeMap::new(),
            tail: Vec::new(),
        }
    }

    pub(crate) fn unsupported(&self, insn: Option<InsnId>, what: impl Into<String>) -> Error {
        Error::Unsupported { function: self.function.name.clone(), insn, what: what.into() }
    }

    /// Registers that are live after the instruction `at`, which is `of` or stands before it. The Facts do not say so where no
    /// path leads; the kernel's verifier may find one.
    pub(crate) fn needed_after(&self, at: InsnId, of: InsnId) -> RegSet {
        let of_node = |sets: &BTreeMap<InsnId, RegSet>| sets.get(&of).copied();
        match self.facts.at(at) {
            Some(known) => needed_after(known, of_node(&self.written).unwrap_or(RegSet::EMPTY)),
            None => of_node(self.live.get_or_init(|| live_after(self.function))).unwrap_or(RegSet::ALL),
        }
    }

    /// The registers that every path has written before an instruction.
    pub(crate) fn written_before(&self, at: InsnId) -> RegSet {
        self.written.get(&at).copied().unwrap_or(RegSet::EMPTY)
    }

    /// Registers that hold a number on every path before an instruction.
    pub(crate) fn numbers_before(&self, at: InsnId) -> RegSet {
        let numbers = self.numbers.get_or_init(|| numbers_before(self.function, self.facts));
        numbers.get(&at).copied().unwrap_or(RegSet::EMPTY)
    }

    /// A new instruction of the same source line as another.
    pub(crate) fn node(&mut self, insn: Insn, reference: Reference, line: Option<LineId>) -> Node {
        let id = InsnId(*self.next_insn);
        *self.next_insn += 1;
        Node { line, ..Node::new(id, insn, reference) }
    }

    /// New instructions, none of which refers to anything.
    pub(crate) fn nodes(&mut self, insns: impl IntoIterator<Item = Insn>, line: Option<LineId>) -> Vec<Node> {
        insns.into_iter().map(|insn| self.node(insn, Reference::None, line)).collect()
    }

    /// Eight bytes of the frame that nothing else uses.
    pub(crate) fn slot(&mut self) -> Result<i16, Error> {
        self.frame.slot().ok_or_else(|| self.no_room(None))
    }

    /// Eight bytes of the frame for a value that is kept at one place only; see [`Frame::begin_place`].
    pub(crate) fn shared_slot(&mut self, at: InsnId) -> Result<i16, Error> {
        self.frame.shared_slot().ok_or_else(|| self.no_room(Some(at)))
    }

    fn no_room(&self, at: Option<InsnId>) -> Error {
        self.unsupported(at, "no room is left in the function's stack frame of 512 bytes")
    }

    pub(crate) fn enter_with(&mut self, nodes: Vec<Node>) {
        self.entry.extend(nodes);
    }

    /// Before a loop is entered at its first instruction, `header`.
    pub(crate) fn enter_loop_with(&mut self, header: InsnId, nodes: Vec<Node>) {
        let body = loops::body(self.function, header);
        if !nodes.is_empty() {
            let entry = self.loop_entries.entry(header).or_insert_with(|| LoopEntry { nodes: Vec::new(), body });
            entry.nodes.extend(nodes);
        }
    }

    pub(crate) fn check(&mut self, at: InsnId, nodes: Vec<Node>) {
        self.checks.entry(at).or_default().extend(nodes);
    }

    pub(crate) fn guard(&mut self, at: InsnId, nodes: Vec<Node>) {
        self.guards.entry(at).or_default().extend(nodes);
    }

    pub(crate) fn replace(&mut self, at: InsnId, insn: Insn) {
        self.replaced.insert(at, insn);
    }

    pub(crate) fn follow(&mut self, at: InsnId, nodes: Vec<Node>) {
        self.after.entry(at).or_default().extend(nodes);
    }

    pub(crate) fn land(&mut self, nodes: Vec<Node>) {
        self.tail.extend(nodes);
    }

    /// Where an instruction begins once its checks are done.
    pub(crate) fn resume(&self, at: InsnId) -> InsnId {
        self.guards.get(&at).and_then(|nodes| nodes.first()).map_or(at, |node| node.id)
    }

    /// Loads the heap's address at the entry, where R0 is free: the kernel finds a program's arena by such an
    /// instruction.
    pub(crate) fn refer_to(&mut self, heap: MapId) {
        let line = self.function.nodes.first().and_then(|node| node.line);
        let load = self.node(Node::address_load(Reg::R0), Reference::Map(heap), line);
        self.entry.insert(0, load);
    }

    /// The new instructions.
    pub(crate) fn finish(mut self) -> Result<Vec<Node>, Error> {
        let first = |at: &InsnId| {
            let of =
                |nodes: &BTreeMap<InsnId, Vec<Node>>| nodes.get(at).and_then(|nodes| nodes.first()).map(|node| node.id);
            of(&self.checks).or_else(|| of(&self.guards)).unwrap_or(*at)
        };
        let starts: BTreeMap<InsnId, InsnId> =
            self.function.nodes.iter().map(|node| (node.id, first(&node.id))).collect();
        let mut nodes = std::mem::take(&mut self.entry);
        let mut entries = std::mem::take(&mut self.loop_entries);
        let into: BTreeMap<InsnId, (InsnId, BTreeSet<usize>)> =
            entries.iter().map(|(at, entry)| (*at, (entry.nodes[0].id, entry.body.clone()))).collect();
        for (position, original) in self.function.nodes.iter().enumerate() {
            if let Some(LoopEntry { nodes: mut entry, body }) = entries.remove(&original.id) {
                let before = position.checked_sub(1).map(|before| &self.function.nodes[before]);
                let falls = before.is_some_and(|before| before.insn.falls_through());
                if falls && body.contains(&(position - 1)) {
                    let jump = Insn::Jump { offset: 0, long: false };
                    entry.push(self.node(jump, Reference::Branch(starts[&original.id]), original.line));
                    self.tail.extend(entry);
                } else {
                    nodes.extend(entry);
                }
            }
            nodes.extend(self.checks.remove(&original.id).unwrap_or_default());
            nodes.extend(self.guards.remove(&original.id).unwrap_or_default());
            let mut node = original.clone();
            if let Some(insn) = self.replaced.get(&node.id) {
                node.insn = *insn;
            }
            if let Reference::Branch(target) = node.reference
                && let Some(start) = starts.get(&target)
            {
                let entry = into.get(&target).filter(|(_, body)| !body.contains(&position));
                node.reference = Reference::Branch(entry.map_or(*start, |(first, _)| *first));
            }
            let id = node.id;
            nodes.push(node);
            nodes.extend(self.after.remove(&id).unwrap_or_default());
        }
        nodes.append(&mut self.tail);
        Ok(nodes)
    }
}
