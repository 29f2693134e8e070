//! Addresses that are made again and again, kept in a register that is free meanwhile.
//!
//! ```text
//!   r1 = map[counts]     (2 slots)     r9 = map[counts]       r1 = map_value[.bss] + 0    r2 = map_value[.bss] + 0
//!   call ...                           r1 = r9                w1 = *(u32 *)(r1 + 0)       w1 = *(u32 *)(r2 + 0)
//!   r1 = map[counts]            -->    call ...               r3 = map_value[.bss] + 8    *(u32 *)(r2 + 8) = w1
//!   call ...                           r1 = r9                *(u32 *)(r3 + 0) = w1
//!   r1 = map[counts]                   call ...
//!   call ...                           r1 = r9; call ...
//! ```
//!
//! Where none is free, the next address in the same register may still be the last one and a constant.
//!
//! What is kept depends on nothing: an address that the loader puts there, a constant, or the frame pointer and a
//! constant. So it may be made once, at a place that every way to its uses passes, in a register that nobody reads or
//! writes from there to the last use. Addresses in one data section differ by constants, which go into the accesses.

use std::collections::{BTreeSet, HashSet};

use kiln_isa::{Address, AluOp, Insn, Reg, RegSet, Source, Width};
use kiln_program::liveness::written;
use kiln_program::{Cfg, Function, Ids, MapId, Node, Object, Reference};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand::{self, Demand};
use crate::laws::available_values::{self, Held};
use crate::laws::context::{Change, Context};
use crate::laws::register_coalescing;
use crate::laws::trial::Trial;
use crate::rules::with_address;

/// Instructions of a function at most where plans are tried, and plans tried at most.
const LONGEST_TRIED: usize = 1000;
const MAX_TRIALS: usize = 16;

/// What is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Made {
    /// A `ld_imm64`: its number or reference.
    Wide(kiln_isa::Imm64, Reference),
    /// The frame pointer and a constant.
    Frame(i32),
    /// An address in a data section, its offset aside.
    Section(MapId),
}

/// One place where it is made.
struct Place {
    made: Made,
    /// In a data section: bytes from its start.
    offset: i64,
    dst: Reg,
    /// The positions of its instructions.
    positions: Vec<usize>,
    block: usize,
    /// Accesses through it in its block.
    uses: Vec<usize>,
    /// Whether something is added to it on the way.
    indexed: bool,
    /// Whether it is used in another way, or in other blocks.
    escapes: bool,
}

impl Place {
    /// Slots that it takes, given a register with the address at `base`; `None` if that register does not help.
    fn cost(&self, function: &Function, base: i64) -> Option<i64> {
        let reaches = |at: &usize| {
            let offset = function.nodes[*at].insn.address().map(|address| i64::from(address.offset));
            offset.is_some_and(|offset| i16::try_from(offset + self.offset - base).is_ok())
        };
        match self.made {
            Made::Section(_) if !self.escapes && self.uses.iter().all(reaches) => Some(i64::from(self.indexed)),
            _ if self.offset == base => Some(1),
            _ => None,
        }
    }
}

/// A register kept for some places.
struct Plan {
    saved: i64,
    base: i64,
    /// Where it is made: before the instruction at this position.
    at: usize,
    free: Reg,
    places: Vec<usize>,
}

/// Keeps the address whose reuse saves most; one a call.
pub fn keep_addresses(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let places = places(function, &cfg, &ends, calls);
    let places: Vec<Place> =
        places.into_iter().filter(|place| !banned(function.nodes[place.positions[0]].id)).collect();
    let dominators = Dominators::new(&cfg);
    let keeper = Keeper { function, cfg: &cfg, ends: &ends, calls, dominators: &dominators, places: &places };
    let mut tried: HashSet<(Made, i64)> = HashSet::new();
    let mut begun: HashSet<Made> = HashSet::new();
    let mut plans: Vec<Plan> = Vec::new();
    for place in &places {
        // An address that is only accessed through can be replaced by any address nearby.
        let fixed = place.escapes || begun.insert(place.made);
        if fixed && tried.insert((place.made, place.offset)) {
            plans.extend(keeper.best_plan(place.made, place.offset));
        }
    }
    // The first of those that save most.
    plans.sort_by_key(|plan| std::cmp::Reverse(plan.saved));
    match plans.first() {
        Some(best) if best.saved > 0 => vec![keep(object, function, &places, best)],
        _ => try_plans(object, function, calls, &places, &plans),
    }
}

/// Adds to an address, or to a number of two slots, what the next one in the same register is away from it.
pub fn step_addresses(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, banned, .. } = context;
    let cfg = Cfg::new(function);
    // What registers hold stays as it is.
    let held = available_values::before_each(object, function, &cfg);
    let mut changes = Vec::new();
    for (node, held) in function.nodes.iter_mut().zip(held) {
        let (Insn::LoadImm64 { dst, .. }, None) = (node.insn, node.core) else { continue };
        let distance = match (held[dst.index()], available_values::result(object, &held, node)) {
            (Some(Held::Section(own, from)), Some(Held::Section(map, to))) if own == map => to.checked_sub(from),
            (Some(Held::Number(from)), Some(Held::Number(to))) => Some(to.wrapping_sub(from) as i64),
            _ => None,
        };
        let distance = distance.and_then(|distance| i32::try_from(distance).ok());
        let Some(distance) = distance.filter(|distance| *distance != 0 && !banned(node.id)) else { continue };
        let before = node.clone();
        node.insn = Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(distance) };
        node.reference = Reference::None;
        changes.push(Change::new(vec![before], vec![node.clone()]));
    }
    changes
}

/// Computes an address in the frame where the only copy of it is read; one a call.
pub fn recompute_addresses(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, .. } = context;
    let cfg = Cfg::new(function);
    let before = available_values::before_each(object, function, &cfg);
    let original = function.clone();
    let mut trial = None;
    for (at, node) in original.nodes.iter().enumerate() {
        let Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(src) } = node.insn else { continue };
        let held = before[at][src.index()];
        let Some(Held::Frame(offset)) = held.filter(|_| src != Reg::R10 && node.core.is_none() && !banned(node.id))
        else {
            continue;
        };
        let reads = |(node, state): &(&Node, &available_values::State)| {
            state[src.index()] == held && demand::reads(node, src, calls)
        };
        let (Ok(offset), 1) = (i32::try_from(offset), original.nodes.iter().zip(&before).filter(reads).count()) else {
            continue;
        };
        let mut candidate = original.clone();
        candidate.nodes[at].insn = Insn::mov(dst, Reg::R10);
        let add = Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(offset) };
        let add = Node { line: node.line, ..object.new_node(add, Reference::None) };
        candidate.nodes.insert(at + 1, add);
        let trial = trial.get_or_insert_with(|| Trial::new(object, calls, &original));
        if let Some((candidate, change)) = trial.gain(object, node.id, candidate) {
            *function = candidate;
            return vec![change];
        }
    }
    Vec::new()
}

/// What saves nothing itself may leave a copy that is not needed: a place's own register is as good as another.
fn try_plans(
    object: &mut Object,
    function: &mut Function,
    calls: &Calls,
    places: &[Place],
    plans: &[Plan],
) -> Vec<Change> {
    if plans.is_empty() || function.nodes.len() > LONGEST_TRIED {
        return Vec::new();
    }
    let original = function.clone();
    let trial = Trial::new(object, calls, &original);
    for plan in plans.iter().take(MAX_TRIALS) {
        let mut candidate = original.clone();
        let at = original.nodes[places[plan.places[0]].positions[0]].id;
        keep(object, &mut candidate, places, plan);
        register_coalescing::coalesce(object, &mut candidate, calls, &|_| false);
        if let Some((candidate, change)) = trial.gain(object, at, candidate) {
            *function = candidate;
            return vec![change];
        }
    }
    Vec::new()
}

/// Places in a row that one register is sought for at most, where none is free for all.
const LONGEST_ROW: usize = 32;

/// What plans are made from.
struct Keeper<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    ends: &'a [Demand],
    calls: &'a Calls,
    dominators: &'a Dominators,
    places: &'a [Place],
}

impl Keeper<'_> {
    /// The best plan for what is made with this base: for all places where a register is free from the first to the
    /// last, else for those in a row for which one is.
    fn best_plan(&self, made: Made, base: i64) -> Option<Plan> {
        let helped = |place: &Place| place.made == made && place.cost(self.function, base).is_some();
        let chosen: Vec<usize> = (0..self.places.len()).filter(|index| helped(&self.places[*index])).collect();
        let saved = |row: &[usize]| row.iter().map(|index| self.gain(*index, base)).sum::<i64>() - 2;
        let plan = |row: &[usize]| {
            let (at, free) = self.room(row, base)?;
            Some(Plan { saved: saved(row), base, at, free, places: row.to_vec() })
        };
        if chosen.len() < 2 || saved(&chosen) < 0 {
            return None;
        }
        if let Some(all) = plan(&chosen) {
            return Some(all);
        }
        let mut best: Option<Plan> = None;
        let mut end = 0;
        for start in 0..chosen.len() {
            end = end.max(start + 1);
            while end < chosen.len() && end - start < LONGEST_ROW && self.room(&chosen[start..end + 1], base).is_some()
            {
                end += 1;
            }
            let row = &chosen[start..end];
            if row.len() > 1 && saved(row) > best.as_ref().map_or(-1, |best| best.saved) {
                best = plan(row).or(best);
            }
        }
        best
    }

    /// How many slots shorter a place gets.
    fn gain(&self, index: usize, base: i64) -> i64 {
        2 - self.places[index].cost(self.function, base).unwrap_or(2)
    }

    /// Where an address for these places would be made, and in which register.
    fn room(&self, chosen: &[usize], base: i64) -> Option<(usize, Reg)> {
        let Keeper { function, cfg, ends, calls, dominators, places } = self;
        // The last one first: each is then near the one before.
        let blocks = chosen.iter().rev().map(|index| places[*index].block);
        let home = blocks.reduce(|a, b| dominators.common(a, b))?;
        let range = cfg.blocks[home].range.clone();
        let inside = chosen.iter().filter(|index| places[**index].block == home);
        let first = inside.map(|index| places[*index].positions[0]).min();
        let before_end = if function.nodes[range.end - 1].insn.is_control() { range.end - 1 } else { range.end };
        let at = first.unwrap_or(before_end);
        let spans = spans(cfg, dominators, places, chosen, home, at);
        let after = demand::after_each(&function.nodes[range.clone()], ends[home], calls);
        let dead = |reg: Reg| {
            let mut demand = match at.checked_sub(range.start + 1) {
                Some(previous) => after[previous],
                None => {
                    let mut demand = after[0];
                    demand.step_back(&function.nodes[range.start], calls);
                    demand
                }
            };
            demand.take(reg) == 0
        };
        // The instructions that make it there now go, with their readers.
        let gone = |reg: Reg, read: bool, at: usize| {
            let own = chosen.iter().map(|index| &places[*index]).filter(|place| place.dst == reg);
            own.filter(|place| place.cost(function, base) == Some(0))
                .any(|place| if read { place.uses.contains(&at) } else { place.positions.contains(&at) })
        };
        let untouched = |reg: Reg| {
            spans.iter().flat_map(Clone::clone).all(|at| {
                let node = &function.nodes[at];
                let clobbers = matches!(node.insn, Insn::Call(_) | Insn::LoadPacket { .. });
                (node.insn.written() != Some(reg) || gone(reg, false, at))
                    && (!demand::reads(node, reg, calls) || gone(reg, true, at))
                    && !(clobbers && RegSet::CALLER_SAVED.contains(reg))
            })
        };
        let free = Reg::all().filter(|reg| *reg != Reg::R10).find(|reg| dead(*reg) && untouched(*reg))?;
        Some((at, free))
    }
}

/// The runs of instructions during which the register is kept.
fn spans(
    cfg: &Cfg,
    dominators: &Dominators,
    places: &[Place],
    chosen: &[usize],
    home: usize,
    at: usize,
) -> Vec<std::ops::Range<usize>> {
    let last_use = |block: usize| {
        let own = chosen.iter().map(|index| &places[*index]).filter(|place| place.block == block);
        own.map(|place| place.uses.iter().chain(&place.positions).max().map_or(0, |last| last + 1)).max()
    };
    let ids = |blocks: &[kiln_program::BlockId]| blocks.iter().map(|block| block.index()).collect::<Vec<_>>();
    // Back from the uses to where it is made, and no further: every way to them passes there.
    let mut kept: BTreeSet<usize> = BTreeSet::new();
    let mut pending: Vec<usize> = chosen.iter().map(|index| places[*index].block).collect();
    while let Some(block) = pending.pop() {
        if dominators.is_reached(block) && kept.insert(block) && block != home {
            pending.extend(ids(&cfg.blocks[block].predecessors));
        }
    }
    let span = |block: &usize| {
        let range = cfg.blocks[*block].range.clone();
        let start = if *block == home { at } else { range.start };
        let goes_on = ids(&cfg.blocks[*block].successors).iter().any(|next| *next != home && kept.contains(next));
        let end = if goes_on { range.end } else { last_use(*block).unwrap_or(range.end) };
        start..end.max(start)
    };
    kept.iter().map(span).collect()
}

fn keep(object: &mut Object, function: &mut Function, places: &[Place], plan: &Plan) -> Change {
    let mut before: Vec<Node> = Vec::new();
    let mut after: Vec<Node> = Vec::new();
    let mut gone = Ids::default();
    let line = function.nodes.get(plan.at).and_then(|node| node.line);
    let heir = function.nodes[plan.at].id;
    for place in plan.places.iter().map(|index| &places[*index]) {
        let cost = place.cost(function, plan.base);
        before.extend(place.positions.iter().map(|at| function.nodes[*at].clone()));
        let (last, first) = place.positions.split_last().expect("it is made somewhere");
        gone.extend(first.iter().map(|at| function.nodes[*at].id));
        if place.offset != plan.base || cost == Some(0) {
            for at in &place.uses {
                let node = &mut function.nodes[*at];
                before.push(node.clone());
                let own = node.insn.address().expect("it is an access");
                let offset = (i64::from(own.offset) + place.offset - plan.base) as i16;
                let base = if cost == Some(0) { plan.free } else { own.base };
                node.insn = with_address(&node.insn, Address { base, offset }).expect("it is an access");
                after.push(node.clone());
            }
        }
        if cost == Some(0) {
            gone.insert(function.nodes[*last].id);
        } else {
            let node = &mut function.nodes[*last];
            (node.insn, node.reference) = (Insn::mov(place.dst, plan.free), Reference::None);
            after.push(node.clone());
        }
    }
    let free = plan.free;
    let made = match places[plan.places[0]].made {
        Made::Wide(imm, reference) => vec![object.new_node(Insn::LoadImm64 { dst: free, imm }, reference)],
        Made::Section(map) => {
            let reference = Reference::MapValue { map, offset: plan.base as u32 };
            // The reference says it all.
            let insn = Insn::LoadImm64 { dst: free, imm: kiln_isa::Imm64::Value(0) };
            vec![object.new_node(insn, reference)]
        }
        Made::Frame(offset) => {
            let add = Insn::Alu { op: AluOp::Add, width: Width::W64, dst: free, src: Source::Imm(offset) };
            vec![object.new_node(Insn::mov(free, Reg::R10), Reference::None), object.new_node(add, Reference::None)]
        }
    };
    let made: Vec<Node> = made.into_iter().map(|node| Node { line, ..node }).collect();
    after.splice(0..0, made.iter().cloned());
    // Branches to the place where it is made now lead to the instruction that makes it.
    let first = made[0].id;
    function.nodes.splice(plan.at..plan.at, made);
    edit::retarget(function, &[(heir, first)].into_iter().collect());
    edit::delete(function, &gone);
    Change::new(before, after)
}

fn places(function: &Function, cfg: &Cfg, ends: &[Demand], calls: &Calls) -> Vec<Place> {
    let mut places = Vec::new();
    for (number, (block, end)) in cfg.blocks.iter().zip(ends).enumerate() {
        let nodes = &function.nodes[block.range.clone()];
        let demand = demand::after_each(nodes, *end, calls);
        for (index, node) in nodes.iter().enumerate() {
            let at = block.range.start + index;
            let mut push = |made, offset, dst, positions| {
                let Uses { uses, indexed, escapes } = uses(function, at + 1..block.range.end, dst, *end, calls);
                places.push(Place { made, offset, dst, positions, block: number, uses, indexed, escapes });
            };
            match (node.insn, node.reference) {
                _ if node.core.is_some() => {}
                (Insn::LoadImm64 { dst, .. }, Reference::MapValue { map, offset }) => {
                    push(Made::Section(map), offset.into(), dst, vec![at]);
                }
                (Insn::LoadImm64 { dst, imm }, reference) => push(Made::Wide(imm, reference), 0, dst, vec![at]),
                (Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Imm(offset) }, _) => {
                    let copy = Insn::mov(dst, Reg::R10);
                    let first = index.checked_sub(1).filter(|first| nodes[*first].insn == copy);
                    if first.is_some() && demand[index].of(dst) > 0 && nodes[index - 1].core.is_none() {
                        push(Made::Frame(offset), 0, dst, vec![at - 1, at]);
                    }
                }
                _ => {}
            }
        }
    }
    places
}

/// How an address that is made is used.
struct Uses {
    /// The accesses through it.
    uses: Vec<usize>,
    /// Whether a register is added to it.
    indexed: bool,
    /// Whether anything else may read it.
    escapes: bool,
}

/// How a register is used until it is written.
fn uses(function: &Function, range: std::ops::Range<usize>, reg: Reg, end: Demand, calls: &Calls) -> Uses {
    let (mut uses, mut indexed) = (Vec::new(), false);
    for at in range {
        let node = &function.nodes[at];
        let base = node.insn.address().is_some_and(|address| address.base == reg) && node.core.is_none();
        let stored = match node.insn {
            Insn::Store { src, .. } => src.reg() == Some(reg),
            Insn::Atomic { src, .. } => src == reg,
            _ => false,
        };
        let added = matches!(node.insn, Insn::Alu { op: AluOp::Add, width: Width::W64, dst, src: Source::Reg(src) }
            if dst == reg && src != reg);
        if added && node.core.is_none() {
            indexed = true;
            continue;
        }
        match (demand::reads(node, reg, calls), base && !stored) {
            (true, true) if with_address(&node.insn, Address { base: reg, offset: 0 }).is_some() => uses.push(at),
            (true, _) => return Uses { uses, indexed, escapes: true },
            _ => {}
        }
        if written(&node.insn).contains(reg) {
            return Uses { uses, indexed, escapes: false };
        }
    }
    Uses { uses, indexed, escapes: end.of(reg) > 0 }
}

/// Which blocks every way to a block passes.
struct Dominators {
    /// The closest such block; the entry is its own.
    parent: Vec<Option<usize>>,
    /// Position in reverse postorder.
    rank: Vec<usize>,
}

impl Dominators {
    fn new(cfg: &Cfg) -> Dominators {
        let order = cfg.reverse_postorder();
        let mut rank = vec![usize::MAX; cfg.blocks.len()];
        order.iter().enumerate().for_each(|(at, block)| rank[block.index()] = at);
        let mut found = Dominators { parent: vec![None; cfg.blocks.len()], rank };
        if let Some(entry) = order.first() {
            found.parent[entry.index()] = Some(entry.index());
        }
        let mut changed = true;
        while changed {
            changed = false;
            for block in order.iter().skip(1) {
                // The last one first: it is the farthest from the entry, and the others are often on the way up from it.
                let previous = cfg.blocks[block.index()].predecessors.iter().rev().map(|block| block.index());
                let known = previous.filter(|previous| found.parent[*previous].is_some());
                let common = known.reduce(|a, b| found.meet(a, b));
                if common.is_some() && found.parent[block.index()] != common {
                    found.parent[block.index()] = common;
                    changed = true;
                }
            }
        }
        found
    }

    fn meet(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            let later = if self.rank[a] > self.rank[b] { &mut a } else { &mut b };
            *later = self.parent[*later].unwrap_or(0);
        }
        a
    }

    /// Whether some way leads to a block.
    fn is_reached(&self, block: usize) -> bool {
        self.parent[block].is_some()
    }

    /// The closest block that every way to either passes, if both are reached.
    fn common(&self, a: usize, b: usize) -> usize {
        if self.parent[a].is_none() || self.parent[b].is_none() { 0 } else { self.meet(a, b) }
    }
}
