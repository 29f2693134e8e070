//! Values that a register still holds from another block.
//!
//! ```text
//!     r6 = r10                            r6 = r10
//!     r6 += -24                           r6 += -24
//!     r1 = r6; call ...                   r1 = r6; call ...
//!     if r0 == 0 goto L          -->      if r0 == 0 goto L
//!     ...                                 ...
//!   L: r1 = r10; r1 += -24              L: r1 = r6
//!     w0 = 0                              (r0 is zero on the only way here)
//! ```
//!
//! Each register is given a name for what it holds, forward over the graph: a number, an address, the result of an
//! instruction, or "what this register held when its block began" where ways with different names meet; registers that
//! agree on each of these ways share that name too. Registers with one name hold the same value. The result of an instruction in a loop is only named once at a time: when it is made
//! anew, whoever held the old one is left without a name.

use std::collections::HashSet;

use kiln_isa::{AluOp, Imm64, Insn, JumpOp, Reg, RegSet, Size, Source, Width};
use kiln_program::liveness::written;
use kiln_program::{Cfg, Function, Ids, InsnId, MapId, Node, Object, Reference};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand::{only_computes, reads};
use crate::laws::context::{Change, Context};
use crate::rules::reading;

/// A name for a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// What the register held when the function began.
    Entry(Reg),
    /// What the register held when this block was last entered.
    Merged(usize, Reg),
    /// What the instruction last made.
    Made(InsnId),
    /// A number.
    Number(u64),
    /// The frame pointer and a constant.
    Frame(i64),
    /// An address in a data section.
    Section(MapId, i64),
    /// Another address that the loader puts there.
    Reference(Reference),
    /// What was loaded from memory that nothing writes once the program is loaded.
    Frozen(MapId, i64, Size, bool),
    /// An address in such memory, which the instruction last made.
    FrozenPlace(InsnId),
    /// What was loaded from there.
    FrozenAt(InsnId, i16, Size, bool),
}

impl Held {
    /// Whether it is, or was found through, what this instruction last made.
    pub(crate) fn depends_on(&self, made: InsnId) -> bool {
        matches!(self, Held::Made(own) | Held::FrozenPlace(own) | Held::FrozenAt(own, ..) if *own == made)
    }
}

/// What registers hold.
pub(crate) type State = [Option<Held>; Reg::COUNT];

/// Removes what makes a value that its register holds, and copies what another register holds where that is shorter.
pub fn use_available_values(context: Context<'_>) -> Vec<Change> {
    use_available(context.object, context.function, context.banned)
}

/// As [`use_available_values`], for laws that try a change on a copy of a function.
pub(crate) fn use_available(object: &Object, function: &mut Function, banned: &dyn Fn(InsnId) -> bool) -> Vec<Change> {
    let cfg = Cfg::new(function);
    let begins = at_block_begins(object, function, &cfg);
    let mut changes = Vec::new();
    let mut doomed = Ids::default();
    for (block, begin) in cfg.blocks.iter().zip(begins) {
        let Some(mut state) = begin else { continue };
        for at in block.range.clone() {
            let node = function.nodes[at].clone();
            let result = result(object, &state, &node);
            // A result gets its name only after the instruction that makes it.
            let known = result.filter(|value| !value.depends_on(node.id) && !banned(node.id));
            let known = known.filter(|_| only_computes(&node.insn) && node.core.is_none());
            match (known, node.insn.written()) {
                (Some(value), Some(dst)) if state[dst.index()] == Some(value) => {
                    doomed.insert(node.id);
                    changes.push(Change::new(vec![node], Vec::new()));
                    continue;
                }
                (Some(value), Some(dst)) => {
                    let holder = Reg::all().find(|reg| *reg != Reg::R10 && state[reg.index()] == Some(value));
                    if let Some(holder) = holder.filter(|_| shortens(&node.insn, value)) {
                        let new = &mut function.nodes[at];
                        (new.insn, new.reference) = (Insn::mov(dst, holder), Reference::None);
                        changes.push(Change::new(vec![node], vec![new.clone()]));
                    }
                }
                _ => {}
            }
            step(object, &mut state, &function.nodes[at]);
        }
    }
    edit::delete(function, &doomed);
    changes
}

/// Whether a copy is better: than an address of two slots, than a load, and than the second step of an address off the
/// frame pointer, which leaves the first without readers.
fn shortens(insn: &Insn, value: Held) -> bool {
    match insn {
        Insn::LoadImm64 { .. } | Insn::Load { .. } => true,
        Insn::Alu { op: AluOp::Add, .. } => matches!(value, Held::Frame(_)),
        _ => false,
    }
}

/// What an instruction makes; `None` where it has no name yet.
pub(crate) fn result(object: &Object, state: &State, node: &Node) -> Option<Held> {
    if node.core.is_some() {
        return None;
    }
    match node.insn {
        Insn::Alu { op: AluOp::Mov, width, src: Source::Imm(imm), .. } => {
            let value = i64::from(imm) as u64;
            Some(Held::Number(if width == Width::W32 { value & 0xffff_ffff } else { value }))
        }
        Insn::Alu { op: AluOp::Mov, width, src: Source::Reg(src), .. } => match (state[src.index()]?, width) {
            (value, Width::W64) => Some(value),
            (Held::Number(value), Width::W32) => Some(Held::Number(value & 0xffff_ffff)),
            (value @ (Held::Frozen(_, _, size, false) | Held::FrozenAt(_, _, size, false)), Width::W32)
                if size != Size::B8 =>
            {
                Some(value)
            }
            _ => None,
        },
        Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(imm) } => {
            let more = i64::from(imm);
            match state[dst.index()]? {
                Held::Number(value) => Some(Held::Number(value.wrapping_add(more as u64))),
                Held::Frame(offset) => Some(Held::Frame(offset.checked_add(more)?)),
                Held::Section(map, offset) => Some(Held::Section(map, offset.checked_add(more)?)),
                _ => None,
            }
        }
        Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Reg(_) } => match state[dst.index()]? {
            Held::Section(map, _) if is_frozen(object, map) => Some(Held::FrozenPlace(node.id)),
            _ => None,
        },
        Insn::LoadImm64 { imm, .. } => match (node.reference, imm) {
            (Reference::None, Imm64::Value(value)) => Some(Held::Number(value)),
            (Reference::None, _) => None,
            (Reference::MapValue { map, offset }, _) => Some(Held::Section(map, offset.into())),
            (reference, _) => Some(Held::Reference(reference)),
        },
        Insn::Load { size, signed, address, .. } => match state[address.base.index()]? {
            Held::Section(map, offset) if is_frozen(object, map) => {
                Some(Held::Frozen(map, offset.checked_add(address.offset.into())?, size, signed))
            }
            Held::FrozenPlace(made) => Some(Held::FrozenAt(made, address.offset, size, signed)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether nothing writes a section once the program is loaded.
fn is_frozen(object: &Object, map: MapId) -> bool {
    object.map(map).is_constant()
}

/// Goes from the state before an instruction to the state after it.
fn step(object: &Object, state: &mut State, node: &Node) {
    let result = result(object, state, node);
    if let Insn::Call(_) | Insn::LoadPacket { .. } = node.insn {
        for reg in RegSet::CALLER_SAVED.iter() {
            state[reg.index()] = None;
        }
    }
    let Some(dst) = node.insn.written() else { return };
    let own = Held::Made(node.id);
    let old = |held: &Option<Held>| held.is_some_and(|held| held.depends_on(node.id));
    state.iter_mut().filter(|held| old(held)).for_each(|held| *held = None);
    state[dst.index()] = Some(result.unwrap_or(own));
}

/// What a branch's outcome adds.
fn refine(state: &mut State, node: &Node, taken: bool) {
    let Insn::Branch { op, width: Width::W64, dst, src: Source::Imm(imm), .. } = node.insn else { return };
    if !matches!((op, taken), (JumpOp::Eq, true) | (JumpOp::Ne, false)) || node.core.is_some() {
        return;
    }
    let value = state[dst.index()];
    let number = Some(Held::Number(i64::from(imm) as u64));
    state[dst.index()] = number;
    if value.is_some() {
        state.iter_mut().filter(|held| **held == value).for_each(|held| *held = number);
    }
}

/// What registers hold at the start of each block; `None` where it is not reached.
fn at_block_begins(object: &Object, function: &Function, cfg: &Cfg) -> Vec<Option<State>> {
    let mut begin: Vec<Option<State>> = vec![None; cfg.blocks.len()];
    let mut merged = vec![RegSet::EMPTY; cfg.blocks.len()];
    // At each block, the first of the registers that hold the same as one.
    let mut alike = vec![[0; Reg::COUNT]; cfg.blocks.len()];
    let order = cfg.reverse_postorder();
    let mut changed = true;
    while changed {
        changed = false;
        for block in &order {
            let index = block.index();
            let mut ways: Vec<State> = Vec::new();
            if index == 0 {
                let mut entry: State = std::array::from_fn(|reg| Reg::new(reg as u8).map(Held::Entry));
                entry[Reg::R10.index()] = Some(Held::Frame(0));
                ways.push(entry);
            }
            for previous in &cfg.blocks[index].predecessors {
                ways.extend(end(object, function, cfg, &begin, previous.index(), index));
            }
            let Some(first) = ways.first() else { continue };
            // Registers that held the same value on every path so far, and do on these. Classes are only ever split.
            let known = alike[index];
            let same = |one: usize, other: usize| {
                let held = |way: &State| way[one].is_some() && way[one] == way[other];
                one == other || known[one] == known[other] && ways.iter().all(held)
            };
            alike[index] = std::array::from_fn(|reg| (0..reg).find(|first| same(*first, reg)).unwrap_or(reg));
            let mut joined = *first;
            for reg in Reg::all() {
                let held = first[reg.index()];
                let old = matches!(held, Some(Held::Merged(at, _)) if at == index);
                let differs = old || held.is_none() || ways.iter().any(|way| way[reg.index()] != held);
                if differs || merged[index].contains(reg) {
                    merged[index].insert(reg);
                    let first = Reg::new(alike[index][reg.index()] as u8).unwrap_or(reg);
                    joined[reg.index()] = Some(Held::Merged(index, first));
                }
            }
            if begin[index] != Some(joined) {
                begin[index] = Some(joined);
                changed = true;
            }
        }
    }
    begin
}

/// What registers hold on the way from one block to another.
fn end(
    object: &Object,
    function: &Function,
    cfg: &Cfg,
    begin: &[Option<State>],
    from: usize,
    to: usize,
) -> Option<State> {
    let mut state = begin[from]?;
    let nodes = &function.nodes[cfg.blocks[from].range.clone()];
    nodes.iter().for_each(|node| step(object, &mut state, node));
    if let ([falls, jumps], Some(last)) = (&cfg.blocks[from].successors[..], nodes.last()) {
        refine(&mut state, last, jumps.index() == to && falls.index() != to);
    }
    Some(state)
}

/// Has the readers of copies read the original, and removes copies that are then without readers.
///
/// ```text
///   r7 = r10; r7 += -8
///   r6 = r7                       (gone)
///   r1 = r6; call ...      -->    r1 = r7; call ...
///   r1 = r6; call ...             r1 = r7; call ...
/// ```
pub fn read_copied_registers(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let before = before_each(object, function, &cfg);
    // Each register takes part in one change, because afterwards what is known of it is no longer true.
    let mut touched = RegSet::EMPTY;
    let mut changes = Vec::new();
    let mut doomed = Ids::default();
    for at in 0..function.nodes.len() {
        let node = function.nodes[at].clone();
        let Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(src) } = node.insn else { continue };
        let used = touched.contains(dst) || touched.contains(src);
        if dst == src || src == Reg::R10 || used || node.core.is_some() || banned(node.id) {
            continue;
        }
        let Some(readers) = readers(function, &cfg, calls, &before, at, (dst, src)) else { continue };
        let (mut old, mut new) = (vec![node.clone()], Vec::new());
        for reader in readers {
            let own = &mut function.nodes[reader];
            old.push(own.clone());
            own.insn = reading(&own.insn, dst, src).expect("it was asked before");
            new.push(own.clone());
        }
        changes.push(Change::new(old, new));
        doomed.insert(node.id);
        touched = touched.union(RegSet::of(&[dst, src]));
    }
    edit::delete(function, &doomed);
    changes
}

/// The readers of a copy, if each of them could read the original instead.
fn readers(
    function: &Function,
    cfg: &Cfg,
    calls: &Calls,
    before: &[State],
    copy: usize,
    (dst, src): (Reg, Reg),
) -> Option<std::collections::BTreeSet<usize>> {
    let mut found = std::collections::BTreeSet::new();
    let mut seen = HashSet::new();
    let mut pending = vec![copy + 1];
    while let Some(mut at) = pending.pop() {
        let first = at;
        if at >= function.nodes.len() || !seen.insert(at) {
            continue;
        }
        let end = cfg.blocks[cfg.block_of[first].index()].range.end;
        loop {
            let node = &function.nodes[at];
            if reads(node, dst, calls) {
                let state = &before[at];
                let same = state[dst.index()].is_some() && state[dst.index()] == state[src.index()];
                if !same || node.core.is_some() || reading(&node.insn, dst, src).is_none() {
                    return None;
                }
                found.insert(at);
            }
            if written(&node.insn).contains(dst) {
                break;
            }
            at += 1;
            if at == end {
                let next = &cfg.blocks[cfg.block_of[first].index()].successors;
                pending.extend(next.iter().map(|block| cfg.blocks[block.index()].range.start));
                break;
            }
        }
    }
    Some(found)
}

/// What registers hold before each instruction.
pub(crate) fn before_each(object: &Object, function: &Function, cfg: &Cfg) -> Vec<State> {
    let mut before = Vec::with_capacity(function.nodes.len());
    for (block, begin) in cfg.blocks.iter().zip(at_block_begins(object, function, cfg)) {
        let mut state = begin.unwrap_or([None; Reg::COUNT]);
        for node in &function.nodes[block.range.clone()] {
            before.push(state);
            step(object, &mut state, node);
        }
    }
    before
}

/// Which registers hold, before each instruction, what one held when the function began.
pub(crate) fn held_since_entry(object: &Object, function: &Function, cfg: &Cfg, reg: Reg) -> Vec<RegSet> {
    let holds = |state: &State| Reg::all().filter(|own| state[own.index()] == Some(Held::Entry(reg))).collect();
    before_each(object, function, cfg).iter().map(holds).collect()
}
