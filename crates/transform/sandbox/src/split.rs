//! Accesses that go to the heap on some paths only are copied, one for each path.
//!
//! The head of a list is a global variable, its links are in the heap, and clang merges the two loads. The kernel translates
//! an instruction to one kind of access, so it refuses what clang makes:
//!
//! ```text
//!   r1 = &head                              r1 = &head
//! next:
//!   r1 = *(u64 *)(r1 + 0)   either          r1 = *(u64 *)(r1 + 0)     the variable
//!                                         on:
//!   if r1 == 0 goto out                     if r1 == 0 goto out
//!   r2 = *(u32 *)(r1 + 8)                   r2 = *(u32 *)(r1 + 8)
//!   if w2 != w3 goto next                   if w2 != w3 goto other
//! out:                                    out:
//!                                           ...
//!                                         other:
//!                                           r1 = *(u64 *)(r1 + 0)     the heap
//!                                           goto on
//! ```
//!
//! Such a function is written again with a copy of each block for each combination of origins that its registers and
//! frame slots have at the block's begin: the frame, a map's value, what a helper returned, the context, a packet, anything
//! else. Two pointers that each lead to the stack or to the heap give a loop four copies. Copies that no path reaches are not
//! made, and what is not read any more does not count.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_isa::{Address, AluOp, CallTarget, Insn, Reg, RegSet, Size, Source, Width};
use kiln_program::{Cfg, Function, FunctionId, InsnId, Node, Object, Reference, liveness};

use crate::error::Error;

/// A function may become this many times as long, and [`MORE`] instructions longer.
const TIMES: usize = 4;
const MORE: usize = 256;

/// Calls `act` with an object. While it fails because of an access of two kinds, splits that access's function and calls
/// it again.
pub(crate) fn until_each_access_has_one_kind<T>(
    object: &Object,
    mut act: impl FnMut(&Object) -> Result<T, Error>,
) -> Result<T, Error> {
    let first = match act(object) {
        Err(error) if of_two_kinds(&error).is_some() => error,
        other => return other,
    };
    let mut object = object.clone();
    let mut at = of_two_kinds(&first);
    let mut done = BTreeSet::new();
    while let Some(id) = at.and_then(|insn| holder(&object, insn)) {
        if !done.insert(id) || !split(&mut object, id) {
            break;
        }
        match act(&object) {
            Err(error) if of_two_kinds(&error).is_some() => at = of_two_kinds(&error),
            other => return other,
        }
    }
    Err(first)
}

/// The instruction that an object is refused for because its address is of two kinds.
fn of_two_kinds(error: &Error) -> Option<InsnId> {
    let (Error::Rejected { source, .. } | Error::Result { source, .. }) = error else { return None };
    match &**source {
        kiln_verifier::Error::Rejected(rejection) if rejection.is_of_two_kinds() => Some(rejection.insn),
        _ => None,
    }
}

/// The function that has an instruction.
fn holder(object: &Object, insn: InsnId) -> Option<FunctionId> {
    let has = |function: &Function| function.nodes.iter().any(|node| node.id == insn);
    object.functions.iter().position(has).map(|id| FunctionId(id as u32))
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
enum Origin {
    /// A number, or memory whose kind its address does not tell.
    #[default]
    Other,
    Frame,
    /// The address of a map or of a variable.
    Map,
    /// What a helper or a kfunc returned.
    Helper,
    Context,
    /// What the context leads to.
    Packet,
}

/// The origins at a place: of R0 to R9, and of the frame's slots by their offset where these are not [`Origin::Other`].
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
struct Origins {
    registers: [Origin; Reg::R10.index()],
    slots: BTreeMap<i16, Origin>,
}

impl Origins {
    fn of(&self, reg: Reg) -> Origin {
        self.registers.get(reg.index()).copied().unwrap_or(Origin::Frame)
    }

    fn set(&mut self, reg: Reg, origin: Origin) {
        if let Some(register) = self.registers.get_mut(reg.index()) {
            *register = origin;
        }
    }

    fn step(&mut self, node: &Node) {
        let origin = match node.insn {
            Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Reg(src), .. } => self.of(src),
            Insn::Alu { op: AluOp::Add | AluOp::Sub, width: Width::W64, dst, src } => match (self.of(dst), src) {
                (Origin::Other, Source::Reg(src)) => self.of(src),
                (own, _) => own,
            },
            Insn::LoadImm64 { .. } if node.reference != Reference::None => Origin::Map,
            Insn::Load { address: Address { base: Reg::R10, offset }, size: Size::B8, .. } => {
                self.slots.get(&offset).copied().unwrap_or_default()
            }
            Insn::Load { address, .. } if self.of(address.base) == Origin::Context => Origin::Packet,
            Insn::Call(CallTarget::Helper(_) | CallTarget::Kfunc { .. }) => Origin::Helper,
            _ => Origin::Other,
        };
        if let Insn::Store { address: Address { base: Reg::R10, offset }, size, src } = node.insn {
            self.slots.remove(&offset);
            match src {
                Source::Reg(src) if size == Size::B8 && self.of(src) != Origin::Other => {
                    self.slots.insert(offset, self.of(src));
                }
                _ => {}
            }
        }
        let written = match node.insn {
            Insn::Call(_) => {
                liveness::written(&node.insn).iter().for_each(|reg| self.set(reg, Origin::Other));
                Some(Reg::R0)
            }
            _ => node.insn.written(),
        };
        if let Some(written) = written {
            self.set(written, origin);
        }
    }

    /// Without what is not read any more.
    fn read_again(mut self, registers: RegSet, slots: &BTreeSet<i16>) -> Origins {
        Reg::all().filter(|reg| !registers.contains(*reg)).for_each(|reg| self.set(reg, Origin::Other));
        self.slots.retain(|offset, _| slots.contains(offset));
        self
    }
}

/// A block for one combination of origins.
struct BlockCopy {
    block: usize,
    /// The origins where it begins.
    begin: Origins,
    /// The copies that follow: where the block ends, and where its branch leads to.
    next: Option<usize>,
    taken: Option<usize>,
}

/// Writes a function with a copy of each block for each combination of origins. Returns whether it changed, which it does
/// not where it would become too long.
fn split(object: &mut Object, id: FunctionId) -> bool {
    let function = object.function(id);
    let entry = object.programs.iter().any(|program| program.entry == id);
    let Some((cfg, copies)) = copies(function, if entry { Origin::Context } else { Origin::Other }) else {
        return false;
    };
    let originals = object.function(id).nodes.clone();
    let mut seen = vec![false; cfg.blocks.len()];
    // The first copy of a block keeps the identities of its instructions.
    let written: Vec<Vec<Node>> = copies
        .iter()
        .map(|copy| {
            let first = !std::mem::replace(&mut seen[copy.block], true);
            let block = &originals[cfg.blocks[copy.block].range.clone()];
            let again = |node: &Node| Node { id: object.new_node(node.insn, node.reference).id, ..*node };
            if first { block.to_vec() } else { block.iter().map(again).collect() }
        })
        .collect();
    let mut nodes = Vec::new();
    for (copy, next) in layout(&copies) {
        let own = &copies[copy];
        nodes.extend_from_slice(&written[copy]);
        let last = nodes.len() - 1;
        if let Some(taken) = own.taken {
            nodes[last].reference = Reference::Branch(written[taken][0].id);
        }
        if let Some(wanted) = own.next.filter(|wanted| next != Some(*wanted)) {
            let jump = Insn::Jump { offset: 0, long: false };
            let jump = object.new_node(jump, Reference::Branch(written[wanted][0].id));
            nodes.push(Node { line: nodes[last].line, ..jump });
        }
    }
    object.functions[id.index()].nodes = nodes;
    true
}

/// The copies that a function needs, the entry's first; none if it has one of each block, or too many.
fn copies(function: &Function, context: Origin) -> Option<(Cfg, Vec<BlockCopy>)> {
    let cfg = Cfg::new(function);
    let nodes = &function.nodes;
    let registers = liveness::live_after(nodes, &liveness::Positions::of(nodes));
    let slots = read_slots(&cfg, nodes);
    let read_at = |block: usize| {
        let first = cfg.blocks[block].range.start;
        let insn = &nodes[first].insn;
        (registers[first].difference(liveness::written(insn)).union(liveness::read(insn)), &slots[block])
    };
    let longest = TIMES * nodes.len() + MORE;
    let mut length = 0;
    let mut copies: Vec<BlockCopy> = Vec::new();
    let mut known: HashMap<(usize, Origins), usize> = HashMap::new();
    let mut find = |block: usize, origins: Origins, copies: &mut Vec<BlockCopy>| {
        let (registers, slots) = read_at(block);
        let begin = origins.read_again(registers, slots);
        *known.entry((block, begin.clone())).or_insert_with(|| {
            copies.push(BlockCopy { block, begin, next: None, taken: None });
            copies.len() - 1
        })
    };
    let mut first = Origins::default();
    first.set(Reg::R1, context);
    find(0, first, &mut copies);
    let mut at = 0;
    while at < copies.len() {
        let range = cfg.blocks[copies[at].block].range.clone();
        length += range.len();
        if length > longest {
            return None;
        }
        let mut origins = copies[at].begin.clone();
        nodes[range.clone()].iter().for_each(|node| origins.step(node));
        let last = &nodes[range.end - 1];
        let target = last.target().and_then(|target| cfg.position.get(&target));
        if last.insn.falls_through() && range.end < nodes.len() {
            copies[at].next = Some(find(cfg.block_of[range.end].index(), origins.clone(), &mut copies));
        }
        if let Some(target) = target {
            copies[at].taken = Some(find(cfg.block_of[*target].index(), origins, &mut copies));
        }
        at += 1;
    }
    (length > nodes.len()).then_some((cfg, copies))
}

/// The order of copies, each with the one behind it: what a block goes on to follows it if it can.
fn layout(copies: &[BlockCopy]) -> Vec<(usize, Option<usize>)> {
    let mut waiting: BTreeSet<(usize, usize)> = copies.iter().enumerate().map(|(at, copy)| (copy.block, at)).collect();
    let mut order = Vec::with_capacity(copies.len());
    let mut next = Some(0);
    while let Some(at) =
        next.filter(|at| waiting.contains(&(copies[*at].block, *at))).or_else(|| waiting.first().map(|first| first.1))
    {
        waiting.remove(&(copies[at].block, at));
        order.push(at);
        next = copies[at].next;
    }
    let behind = order.iter().copied().skip(1).map(Some).chain([None]);
    order.iter().copied().zip(behind).collect()
}

/// The slots that are read before they are written, from the begin of each block.
fn read_slots(cfg: &Cfg, nodes: &[Node]) -> Vec<BTreeSet<i16>> {
    let mut begins: Vec<BTreeSet<i16>> = vec![BTreeSet::new(); cfg.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for (at, block) in cfg.blocks.iter().enumerate().rev() {
            let mut slots: BTreeSet<i16> =
                block.successors.iter().flat_map(|next| begins[next.index()].iter().copied()).collect();
            for node in nodes[block.range.clone()].iter().rev() {
                match node.insn {
                    Insn::Load { address: Address { base: Reg::R10, offset }, size: Size::B8, .. } => {
                        slots.insert(offset);
                    }
                    Insn::Store { address: Address { base: Reg::R10, offset }, .. } => {
                        slots.remove(&offset);
                    }
                    _ => {}
                }
            }
            changed |= slots != begins[at];
            begins[at] = slots;
        }
    }
    begins
}
