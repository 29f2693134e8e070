//! Moves values to other registers, if that saves instructions.
//!
//! ```text
//!   call foo                   call foo                  r6 = r1                      r6 = r1
//!   w1 = w0                    r0 <<= 32                 r1 = map_value[.bss] + 0     r2 = map_value[.bss] + 0
//!   r1 <<= 32           -->    r0 s>>= 32                w2 = *(u32 *)(r1 + 0)   -->  w2 = *(u32 *)(r2 + 0)
//!   r1 s>>= 32                 *(u64 *)(r6 + 0) = r0     call get with r6 in r1       call get
//!   *(u64 *)(r6 + 0) = r1                                (r1 = r6 before it)          (r1 is what it was)
//! ```
//!
//! What belongs together is a *web*: writes of one register, and the reads that any of them may reach. A web may be kept
//! in another register if nothing else is in that one as long as the web is needed, or only what a copy between the two
//! put there, which is the same. Then the copy may go ([`share_registers`]). Or what was in the web's register stays
//! there, so that it need not be made again ([`spare_registers`]). Arguments and results of calls, of the function itself
//! and of what else names its registers stay where they are.

use std::collections::HashSet;

use kiln_isa::{AluOp, AtomicOp, Insn, Reg, RegSet, Source, Width};
use kiln_program::{Cfg, Function, Ids, InsnId, Node, Object};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand::{self, Demand, only_computes, reads};
use crate::laws::available_values::{self, Held};
use crate::laws::context::{Change, Context};
use crate::laws::inline::renamed;
use crate::laws::trial::Trial;
use crate::rules::{reading, writing};

/// Maximum number of instructions of a function in which registers are tried: each trial costs its length.
pub(super) const LONGEST_TRIED: usize = 1000;
/// Trials for one change at most.
const MAX_TRIALS: usize = 64;

/// The number of a write, or of what a register holds when a block begins.
type Number = usize;

/// A function with its webs.
struct Webs<'a> {
    function: &'a Function,
    calls: &'a Calls,
    /// Numbers of the same web, each leading towards the one that names the web.
    parent: Vec<Number>,
    /// Number of the first write; before them come those of block beginnings.
    first_write: Number,
    /// What each register holds before and after each instruction.
    before: Vec<[Number; Reg::COUNT]>,
    after: Vec<[Number; Reg::COUNT]>,
    /// What is demanded after each instruction.
    demand: Vec<Demand>,
    /// Webs that stay in their register.
    fixed: HashSet<Number>,
    /// Where each web is named or held, in ascending order.
    places: Vec<Vec<usize>>,
}

impl<'a> Webs<'a> {
    fn new(function: &'a Function, cfg: &Cfg, calls: &'a Calls) -> Webs<'a> {
        let count = function.nodes.len();
        let first_write = cfg.blocks.len() * Reg::COUNT;
        let mut webs = Webs {
            function,
            calls,
            parent: (0..first_write + count).collect(),
            first_write,
            before: Vec::with_capacity(count),
            after: Vec::with_capacity(count),
            demand: Vec::with_capacity(count),
            fixed: HashSet::new(),
            places: Vec::new(),
        };
        let ends = demand::at_block_ends(function, cfg, calls);
        for (index, (block, end)) in cfg.blocks.iter().zip(ends).enumerate() {
            let mut state = std::array::from_fn(|reg| index * Reg::COUNT + reg);
            for at in block.range.clone() {
                webs.before.push(state);
                let node = &function.nodes[at];
                if let Some(written) = webs.written(at) {
                    if node.insn.read().contains(written) && changes(&node.insn, written) {
                        webs.join(state[written.index()], first_write + at);
                    }
                    state[written.index()] = first_write + at;
                }
                webs.after.push(state);
            }
            webs.demand.extend(demand::after_each(&function.nodes[block.range.clone()], end, calls));
        }
        for (index, block) in cfg.blocks.iter().enumerate() {
            let Some(begin) = webs.begin(block.range.start) else { continue };
            for (reg, last) in Reg::all().flat_map(|reg| block.predecessors.iter().map(move |last| (reg, last))) {
                let last = cfg.blocks[last.index()].range.end - 1;
                if begin.of(reg) > 0 {
                    webs.join(webs.after[last][reg.index()], index * Reg::COUNT + reg.index());
                }
            }
        }
        // From now on each number is one step from its web's name, which is the least.
        for number in 0..webs.parent.len() {
            webs.parent[number] = webs.web(number);
        }
        webs.fix();
        webs.place();
        webs
    }

    /// Fills in where each web is named or held.
    fn place(&mut self) {
        let mut places = vec![Vec::new(); self.parent.len()];
        for (at, node) in self.function.nodes.iter().enumerate() {
            let mut add = |web: Number| {
                let own: &mut Vec<usize> = &mut places[web];
                if own.last() != Some(&at) {
                    own.push(at);
                }
            };
            if self.written(at).is_some() {
                add(self.parent[self.first_write + at]);
            }
            node.insn.read().iter().for_each(|reg| add(self.parent[self.before[at][reg.index()]]));
            let live = Reg::all().filter(|reg| self.demand[at].of(*reg) > 0);
            live.for_each(|reg| add(self.parent[self.after[at][reg.index()]]));
        }
        self.places = places;
    }

    /// What is demanded before an instruction.
    fn begin(&self, at: usize) -> Option<Demand> {
        let mut demand = *self.demand.get(at)?;
        demand.step_back(&self.function.nodes[at], self.calls);
        Some(demand)
    }

    /// The register that an instruction writes, calls' results included.
    fn written(&self, at: usize) -> Option<Reg> {
        let insn = &self.function.nodes[at].insn;
        if matches!(insn, Insn::Call(_)) { Some(Reg::R0) } else { insn.written() }
    }

    fn web(&self, mut number: Number) -> Number {
        while self.parent[number] != number {
            number = self.parent[number];
        }
        number
    }

    /// The same; shortens the way for the next time.
    fn shorten(&mut self, mut number: Number) -> Number {
        while self.parent[number] != number {
            self.parent[number] = self.parent[self.parent[number]];
            number = self.parent[number];
        }
        number
    }

    fn join(&mut self, one: Number, other: Number) {
        let (one, other) = (self.shorten(one), self.shorten(other));
        self.parent[one.max(other)] = one.min(other);
    }

    fn fix(&mut self) {
        let mut fixed: HashSet<Number> = (0..Reg::COUNT).map(|reg| self.web(reg)).collect();
        for (at, node) in self.function.nodes.iter().enumerate() {
            let named = matches!(
                node.insn,
                Insn::Call(_)
                    | Insn::Exit
                    | Insn::LoadPacket { .. }
                    | Insn::AddressSpaceCast { .. }
                    | Insn::Atomic { op: AtomicOp::CompareExchange, .. }
            );
            if named {
                fixed.insert(self.web(self.first_write + at));
                let read = Reg::all().filter(|reg| reads(node, *reg, self.calls));
                fixed.extend(read.map(|reg| self.web(self.before[at][reg.index()])));
            }
        }
        self.fixed = fixed;
    }

    /// Whether an instruction writes a web.
    fn writes(&self, at: usize, web: Number) -> bool {
        self.written(at).is_some() && self.web(self.first_write + at) == web
    }

    /// Whether a web in this register may be read after an instruction.
    fn lives(&self, at: usize, web: Number, reg: Reg) -> bool {
        self.demand[at].of(reg) > 0 && self.web(self.after[at][reg.index()]) == web
    }

    /// The registers of a copy, if no more of the result is read than it copies.
    fn copy(&self, at: usize) -> Option<(Reg, Reg)> {
        let node = &self.function.nodes[at];
        match node.insn {
            Insn::Alu { op: AluOp::Mov, width, dst, src: Source::Reg(src) } if node.core.is_none() => {
                let whole = width == Width::W64 || self.demand[at].of(dst) <= 32;
                (whole && src != Reg::R10).then_some((dst, src))
            }
            _ => None,
        }
    }

    /// Whether the web can move from `from` to `to` without interfering with another value there. `same` is an
    /// instruction that computes the value that `to` holds.
    fn may_be_in(&self, web: Number, from: Reg, to: Reg, same: Option<usize>) -> bool {
        !self.fixed.contains(&web)
            && self.places[web].iter().all(|at| {
                let at = *at;
                let insn = &self.function.nodes[at].insn;
                if self.writes(at, web) {
                    let same = same == Some(at) || self.copy(at) == Some((from, to));
                    return same || self.demand[at].of(to) == 0;
                }
                let clobbers = matches!(insn, Insn::Call(_) | Insn::LoadPacket { .. });
                let overwrites = insn.written() == Some(to) && self.copy(at) != Some((to, from))
                    || clobbers && RegSet::CALLER_SAVED.contains(to);
                !overwrites || !self.lives(at, web, from)
            })
    }

    /// What becomes of the instructions that name a web when it is in another register; nothing of copies that then copy
    /// a register to itself, and of the one that is `gone`. Other webs may have been moved to and from other registers.
    fn moved(&self, web: Number, from: Reg, to: Reg, gone: Option<usize>, now: &Function) -> Option<Vec<Edit>> {
        let mut edits = Vec::new();
        for at in self.places[web].iter().copied() {
            let insn = &now.nodes[at].insn;
            let writes = self.writes(at, web);
            let reads = insn.read().contains(from) && self.web(self.before[at][from.index()]) == web;
            let insn = match (reads, writes) {
                (false, false) => continue,
                _ if gone == Some(at) => None,
                (true, true) => Some(renamed(insn, &|reg| if reg == from { to } else { reg })?),
                (true, false) => Some(reading(insn, from, to)?),
                (false, true) => Some(writing(insn, to)?),
            };
            let idle = |insn: &Insn| {
                let itself = matches!(insn, Insn::Alu { op: AluOp::Mov, dst, src: Source::Reg(src), .. } if dst == src);
                itself && self.copy(at).is_some()
            };
            edits.push((at, insn.filter(|insn| !idle(insn))));
        }
        Some(edits)
    }
}

/// What becomes of the instruction at a position, if anything is left of it.
type Edit = (usize, Option<Insn>);

/// Whether an instruction changes the register that it reads, in one field.
fn changes(insn: &Insn, reg: Reg) -> bool {
    match *insn {
        Insn::Alu { op, dst, .. } => op != AluOp::Mov && dst == reg,
        Insn::Neg { .. } | Insn::Endian { .. } => true,
        Insn::Atomic { src, .. } => src == reg,
        _ => false,
    }
}

/// Has webs share a register with others, so that copies between them may go: all changes that do not concern each other.
pub fn share_registers(context: Context<'_>) -> Vec<Change> {
    coalesce(context.object, context.function, context.calls, context.banned)
}

/// As [`share_registers`], for laws that try a change on a copy of a function.
pub(crate) fn coalesce(
    object: &Object,
    function: &mut Function,
    calls: &Calls,
    banned: &dyn Fn(InsnId) -> bool,
) -> Vec<Change> {
    let cfg = Cfg::new(function);
    let original = function.clone();
    let webs = Webs::new(&original, &cfg, calls);
    let held = available_values::before_each(object, &original, &cfg);
    let (mut changes, mut doomed) = (Vec::new(), Ids::default());
    // Registers by the instructions at which a change has touched them: changes that share none do not concern each other.
    let mut touched = vec![RegSet::EMPTY; original.nodes.len()];
    // A value that is not made again may have been in its register for long, also unread: nothing else may use that one.
    let (mut used, mut kept) = (RegSet::EMPTY, RegSet::EMPTY);
    for (at, node) in original.nodes.iter().enumerate().filter(|(_, node)| !banned(node.id)) {
        let own = webs.first_write + at;
        let ways = match webs.copy(at) {
            Some((dst, src)) if dst != src => {
                vec![(own, dst, src, None), (webs.before[at][src.index()], src, dst, None)]
            }
            Some(_) => continue,
            None => match held_elsewhere(object, node, &held[at]) {
                Some((dst, holder)) => vec![(own, dst, holder, Some(at))],
                None => continue,
            },
        };
        for (number, from, to, same) in ways {
            let web = webs.web(number);
            let concerned = || webs.places[web].iter().copied().chain([at]);
            let stays = kept.contains(from) || kept.contains(to) || same.is_some() && used.contains(to);
            if stays
                || !webs.may_be_in(web, from, to, same)
                || concerned().any(|place| touched[place].contains(from) || touched[place].contains(to))
            {
                continue;
            }
            let Some(edits) = webs.moved(web, from, to, same, function) else { continue };
            used = used.union(RegSet::of(&[from, to]));
            kept = kept.union(same.map_or(RegSet::EMPTY, |_| RegSet::of(&[to])));
            concerned().for_each(|place| touched[place] = touched[place].union(RegSet::of(&[from, to])));
            changes.push(apply(function, node.id, edits, &mut doomed));
            break;
        }
    }
    edit::delete(function, &doomed);
    changes
}

/// Makes edits. Deletions are only collected, and made later.
fn apply(function: &mut Function, at: InsnId, edits: Vec<Edit>, doomed: &mut Ids) -> Change {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (position, insn) in edits {
        let node = &mut function.nodes[position];
        before.push(node.clone());
        match insn {
            Some(insn) => {
                node.insn = insn;
                after.push(node.clone());
            }
            None => drop(doomed.insert(node.id)),
        }
    }
    Change::at(at, before, after)
}

/// The register that an instruction writes, and another that holds what it makes.
fn held_elsewhere(object: &Object, node: &Node, held: &available_values::State) -> Option<(Reg, Reg)> {
    let dst = node.insn.written().filter(|_| only_computes(&node.insn) && node.core.is_none())?;
    let value = available_values::result(object, held, node).filter(|value| !value.depends_on(node.id))?;
    let holder = Reg::all().find(|reg| ![dst, Reg::R10].contains(reg) && held[reg.index()] == Some(value))?;
    Some((dst, holder))
}

/// Keeps a web out of a register, so that what is there need not be made again; one web a call.
pub fn spare_registers(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, .. } = context;
    if function.nodes.len() > LONGEST_TRIED {
        return Vec::new();
    }
    let cfg = Cfg::new(function);
    let lost = lost(object, function, &cfg);
    if lost.is_empty() {
        return Vec::new();
    }
    let webs = Webs::new(function, &cfg, calls);
    let trial = Trial::new(object, calls, function);
    for Lost { reg, by, again } in lost.into_iter().take(MAX_TRIALS) {
        let web = webs.web(webs.first_write + by);
        let at = function.nodes[again].id;
        if banned(at) {
            continue;
        }
        let known = |reg: &Reg| RegSet::CALLER_SAVED.contains(*reg) || writes(function, *reg);
        let mut others = Reg::all().filter(|other| ![reg, Reg::R10].contains(other)).filter(known);
        let Some(other) = others.find(|other| webs.may_be_in(web, reg, *other, None)) else { continue };
        let Some(edits) = webs.moved(web, reg, other, None, function) else { continue };
        let (mut candidate, mut doomed) = (function.clone(), Ids::default());
        apply(&mut candidate, at, edits, &mut doomed);
        edit::delete(&mut candidate, &doomed);
        available_values::use_available(object, &mut candidate, &|_| false);
        coalesce(object, &mut candidate, calls, &|_| false);
        if let Some((candidate, change)) = trial.gain(object, at, candidate) {
            *function = candidate;
            return vec![change];
        }
    }
    Vec::new()
}

fn writes(function: &Function, reg: Reg) -> bool {
    function.nodes.iter().any(|node| node.insn.written() == Some(reg))
}

/// A value that is made again because its register got another value in between.
struct Lost {
    reg: Reg,
    /// The instruction that overwrote it.
    by: usize,
    /// The instruction that makes it again.
    again: usize,
}

/// Values that are made again in a block, or in blocks on a single path.
fn lost(object: &Object, function: &Function, cfg: &Cfg) -> Vec<Lost> {
    let held = available_values::before_each(object, function, cfg);
    let mut found = Vec::new();
    let mut at_ends: Vec<Vec<(Held, Reg, usize)>> = vec![Vec::new(); cfg.blocks.len()];
    for (index, block) in cfg.blocks.iter().enumerate() {
        let mut gone = match block.predecessors[..] {
            [only] if only.index() < index => at_ends[only.index()].clone(),
            _ => Vec::new(),
        };
        for again in block.range.clone() {
            let node = &function.nodes[again];
            let value = available_values::result(object, &held[again], node).filter(|_| node.core.is_none());
            if let Some(value) = value.filter(|_| only_computes(&node.insn)) {
                let same = gone.iter().filter(|(lost, ..)| *lost == value);
                found.extend(same.map(|(_, reg, by)| Lost { reg: *reg, by: *by, again }));
            }
            if let Some(dst) = node.insn.written() {
                if let Some(old) = held[again][dst.index()].filter(|old| Some(*old) != value) {
                    gone.push((old, dst, again));
                }
                gone.retain(|(old, ..)| !old.depends_on(node.id));
            } else if matches!(node.insn, Insn::Call(_)) {
                gone.retain(|(_, reg, _)| !RegSet::CALLER_SAVED.contains(*reg));
            }
        }
        at_ends[index] = gone;
    }
    found
}
