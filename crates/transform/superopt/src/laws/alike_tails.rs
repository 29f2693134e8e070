//! Runs that are equal except for their registers, and for a constant that one of them adds at the end: one is kept.
//!
//! ```text
//!   if w2 == 0 goto low                    r5 = 32
//!   r2 >>= 4       (a long run)            if w2 != 0 goto both
//!   r1 |= r2                               r2 = r7
//!   r1 += 32                    -->        r5 = 0
//!   goto end                             both:
//! low:                                     r2 >>= 4
//!   r7 >>= 4                               r1 |= r2
//!   r1 |= r7                               r1 += r5
//! end:                                   end:
//! ```
//!
//! A compiler that inlines a function twice leaves such runs: the logarithm of a histogram's 64-bit value is that of its
//! upper half plus 32, or that of its lower half. Two runs are followed at once, as long as each instruction of one is one
//! of the other with other registers, always the same ones. They end where both go on at one place. Before the run that
//! is kept, the other path moves its values to the registers there.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use kiln_isa::{AluOp, CallTarget, Insn, Reg, RegSet, Source};
use kiln_program::{BlockId, Cfg, Function, Node, Object, Reference};

use crate::edit;
use crate::flow::calls::Calls;
use crate::flow::demand::{self, Demand};
use crate::laws::context::{Change, Context};
use crate::laws::inline::renamed;
use crate::laws::register_coalescing::LONGEST_TRIED;
use crate::laws::trial::Trial;

/// Number of instructions from which on a run is worth a trial.
const SHORTEST: usize = 6;
/// Number of instructions whose shapes are compared before two runs are followed.
const SHAPES: usize = 3;
/// Maximum number of instructions that are followed in one function.
const MAX_STEPS: usize = 1 << 16;
/// Maximum number of trials for one change.
const MAX_TRIALS: usize = 8;

/// Keeps one of two runs that are alike, the longest first; one per call.
pub fn share_alike(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, .. } = context;
    let count = function.nodes.len();
    if !(2 * SHORTEST..=LONGEST_TRIED).contains(&count) || !function.jump_targets().is_empty() {
        return Vec::new();
    }
    let original = function.clone();
    let runs = Runs::new(object, &original, calls);
    let mut pairs = runs.longest();
    pairs.retain(|pair| !banned(original.nodes[pair.start].id));
    if pairs.is_empty() {
        return Vec::new();
    }
    let trial = Trial::new(object, calls, &original);
    for pair in pairs.into_iter().take(MAX_TRIALS) {
        let at = original.nodes[pair.start].id;
        let Some(candidate) = runs.merged(object, &pair) else { continue };
        if let Some((candidate, change)) = trial.gain_shared(object, at, candidate) {
            *function = candidate;
            return vec![change];
        }
    }
    Vec::new()
}

/// Two runs that are alike.
#[derive(Default)]
struct Pair {
    /// Where the kept one begins, and the other.
    start: usize,
    other: usize,
    /// The position in the kept run of each instruction of the other.
    same: BTreeMap<usize, usize>,
    /// The register in the kept run of each register of the other, and the reverse.
    renamed: [Option<Reg>; Reg::COUNT],
    names: [Option<Reg>; Reg::COUNT],
    /// Where both go on.
    ends: BTreeSet<usize>,
    /// The operation at the end of the kept run that the other does not have.
    last: Option<usize>,
}

/// What is known of a function.
struct Runs<'a> {
    /// What a loader makes of each instruction.
    relocations: Vec<Option<CoreKey>>,
    function: &'a Function,
    cfg: Cfg,
    /// What is read from each instruction on.
    before: Vec<Demand>,
}

/// What a loader makes of an instruction.
type CoreKey = (u32, String, u32, u32, bool);

impl<'a> Runs<'a> {
    fn new(object: &Object, function: &'a Function, calls: &Calls) -> Runs<'a> {
        let cfg = Cfg::new(function);
        let mut before = vec![Demand::NONE; function.nodes.len()];
        for (block, end) in cfg.blocks.iter().zip(demand::at_block_ends(function, &cfg, calls)) {
            let mut demand = end;
            for at in block.range.clone().rev() {
                demand.step_back(&function.nodes[at], calls);
                before[at] = demand;
            }
        }
        let key = |node: &Node| {
            let core = &object.core[node.core?.index()];
            Some((core.type_id, core.access.clone(), core.access_offset, core.kind, core.keeps_width))
        };
        Runs { relocations: function.nodes.iter().map(key).collect(), function, cfg, before }
    }

    /// All pairs of runs that are long enough and no part of longer ones, the longest first.
    fn longest(&self) -> Vec<Pair> {
        let nodes = &self.function.nodes;
        let all: Vec<Option<Insn>> = nodes.iter().map(|node| Some(operands(&node.insn)?.0)).collect();
        let mut alike: HashMap<&[Option<Insn>], Vec<usize>> = HashMap::new();
        for (at, shapes) in all.windows(SHAPES).enumerate() {
            alike.entry(shapes).or_default().push(at);
        }
        let mut starts: Vec<(usize, usize)> = alike.values().flat_map(|places| pairs(places)).collect();
        starts.sort_unstable();
        let mut covered: HashSet<(usize, usize)> = HashSet::new();
        let mut found: Vec<Pair> = Vec::new();
        let mut steps = MAX_STEPS;
        for (start, other) in starts {
            if covered.contains(&(start, other)) {
                continue;
            }
            if let Some(pair) = self.follow(start, other, &mut steps).filter(|pair| pair.same.len() >= SHORTEST) {
                covered.extend(pair.same.iter().map(|(other, own)| (*own, *other)));
                found.push(pair);
            }
        }
        found.sort_by_key(|pair| (std::cmp::Reverse(pair.same.len()), pair.start));
        found
    }

    /// Follows two runs at once, as far as they are alike; `None` if they end at different places, or no steps are left.
    fn follow(&self, start: usize, other: usize, steps: &mut usize) -> Option<Pair> {
        let mut pair = Pair { start, other, ..Pair::default() };
        (pair.renamed[Reg::R10.index()], pair.names[Reg::R10.index()]) = (Some(Reg::R10), Some(Reg::R10));
        let mut pending = vec![(start, other)];
        while let Some((own, other)) = pending.pop() {
            let (own, other) = (self.behind_jumps(own)?, self.behind_jumps(other)?);
            *steps = steps.checked_sub(1)?;
            if own == other {
                pair.ends.insert(own);
                continue;
            }
            if pair.same.contains_key(&own) {
                return None;
            }
            match pair.same.get(&other) {
                Some(known) if *known == own => continue,
                Some(_) => return None,
                None => {}
            }
            if !self.is_alike(own, other, &mut pair) {
                // The kept run may have one more operation.
                let next = self.next(own).filter(|next| *next == other)?;
                if pair.last.is_some_and(|last| last != own) || constant(&self.function.nodes[own]).is_none() {
                    return None;
                }
                pair.last = Some(own);
                pair.ends.insert(next);
                continue;
            }
            pair.same.insert(other, own);
            let [one, two] = [own, other].map(|at| &self.function.nodes[at]);
            match (one.target(), two.target()) {
                (Some(one), Some(two)) => pending.push((*self.cfg.position.get(&one)?, *self.cfg.position.get(&two)?)),
                (None, None) => {}
                _ => return None,
            }
            if one.insn.falls_through() {
                pending.push((own + 1, other + 1));
            }
        }
        self.is_sound(&pair).then_some(pair)
    }

    /// The first position from here on that is not a jump.
    fn behind_jumps(&self, mut at: usize) -> Option<usize> {
        for _ in 0..self.function.nodes.len() {
            let node = self.function.nodes.get(at)?;
            if !matches!(node.insn, Insn::Jump { .. }) {
                return Some(at);
            }
            at = *self.cfg.position.get(&node.target()?)?;
        }
        None
    }

    fn next(&self, at: usize) -> Option<usize> {
        self.behind_jumps(at + 1)
    }

    /// Whether two instructions are equal but for registers that correspond, which is noted.
    fn is_alike(&self, own: usize, other: usize, pair: &mut Pair) -> bool {
        let [one, two] = [own, other].map(|at| &self.function.nodes[at]);
        let references = one.target().is_some() && two.target().is_some() || one.reference == two.reference;
        let stays = matches!(one.insn, Insn::Call(CallTarget::Subprogram(_) | CallTarget::Kfunc { .. }));
        if !references || stays || self.relocations[own] != self.relocations[other] {
            return false;
        }
        let (Some((shape, own)), Some((other_shape, other))) = (operands(&one.insn), operands(&two.insn)) else {
            return false;
        };
        if shape != other_shape {
            return false;
        }
        let (mut renamed, mut names) = (pair.renamed, pair.names);
        let fits = own.into_iter().zip(other).all(|(own, other)| {
            let name = *renamed[other.index()].get_or_insert(own);
            let back = *names[own.index()].get_or_insert(other);
            name == own && back == other
        });
        if fits {
            (pair.renamed, pair.names) = (renamed, names);
        }
        fits
    }

    /// Whether the runs are apart, and no register that they use differently is read after them.
    fn is_sound(&self, pair: &Pair) -> bool {
        let own: BTreeSet<usize> = pair.same.values().copied().chain(pair.last).collect();
        let apart = own.len() == pair.same.len() + usize::from(pair.last.is_some())
            && !pair.same.keys().any(|other| own.contains(other))
            && !pair.ends.iter().any(|end| own.contains(end) || pair.same.contains_key(end));
        let differs = |reg: &Reg| {
            let names = [pair.renamed, pair.names].map(|names| names[reg.index()]);
            names.into_iter().flatten().any(|name| name != *reg)
        };
        apart && pair.ends.iter().all(|end| !Reg::all().any(|reg| self.before[*end].of(reg) > 0 && differs(&reg)))
    }

    /// The function with one run of a pair.
    fn merged(&self, object: &mut Object, pair: &Pair) -> Option<Function> {
        let mut function = self.function.clone();
        let [start, other] = [pair.start, pair.other].map(|at| &self.function.nodes[at]);
        let mut new = |insn, reference, line| Node { line, ..object.new_node(insn, reference) };
        let mut moves = self.moves(pair)?;
        let free = pair.last.map(|last| Some((last, self.free_register(pair)?)));
        let mut before: Vec<Node> = Vec::new();
        if let Some(free) = free {
            let (last, free) = free?;
            moves.push(Insn::mov_imm(free, 0));
            before.push(new(Insn::mov_imm(free, constant(&self.function.nodes[last])?), Reference::None, start.line));
            if let Insn::Alu { src, .. } = &mut function.nodes[last].insn {
                *src = Source::Reg(free);
            }
        }
        let mut after: Vec<Node> = moves.into_iter().map(|insn| new(insn, Reference::None, other.line)).collect();
        let goes_on = Reference::Branch(start.id);
        if let Some((branch, arm)) = self.arm(pair, &before) {
            // The other path comes right behind the branch, and falls into the kept run.
            let old = std::mem::take(&mut function.nodes);
            let first = before.first().map(|node| (old[branch].id, node.id));
            let fork = Node { insn: negated(&old[branch].insn)?, reference: goes_on, ..old[branch].clone() };
            let parts = [&old[..branch], &before, &[fork], &old[arm.clone()], &after, &old[pair.start..arm.start]];
            function.nodes = parts.into_iter().flatten().chain(&old[arm.end..]).cloned().collect();
            edit::retarget(&mut function, &first.into_iter().collect());
            return Some(function);
        }
        after.push(new(Insn::Jump { offset: 0, long: false }, goes_on, other.line));
        // The new jump leads to the kept run itself, what led there before to the constant.
        let heirs = [(start, before.first()), (other, after.first())];
        edit::retarget(&mut function, &heirs.into_iter().filter_map(|(at, heir)| Some((at.id, heir?.id))).collect());
        let mut places = [(pair.start, before), (pair.other, after)];
        places.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (at, nodes) in places {
            function.nodes.splice(at..at, nodes);
        }
        Some(function)
    }

    /// The branch before the kept run, if it leads to the other one and alone does, and what is between the two.
    fn arm(&self, pair: &Pair, before: &[Node]) -> Option<(usize, Range<usize>)> {
        let branch = pair.start.checked_sub(1)?;
        let node = &self.function.nodes[branch];
        negated(&node.insn)?;
        let from = *self.cfg.position.get(&node.target()?)?;
        let block = |at: usize| self.cfg.block_of[at];
        let (fork, falls) = (block(branch), block(pair.start));
        let alone = |block: BlockId| self.cfg.blocks[block.index()].predecessors == [fork];
        let written = before.iter().filter_map(|node| node.insn.written());
        let unread = |reg: Reg| !node.insn.read().contains(reg) && self.before[from].of(reg) == 0;
        let fits = branch < from && from <= pair.other && block(from) == block(pair.other) && alone(block(from));
        (fits && alone(falls) && written.into_iter().all(unread)).then_some((branch, from..pair.other))
    }

    /// What puts the other path's values into the kept run's registers.
    fn moves(&self, pair: &Pair) -> Option<Vec<Insn>> {
        let live = |reg: &Reg| self.before[pair.start].of(*reg) > 0;
        let mut open: Vec<(Reg, Reg)> = Reg::all()
            .filter(live)
            .filter_map(|reg| Some((reg, pair.names[reg.index()].filter(|name| *name != reg)?)))
            .collect();
        let mut moves = Vec::new();
        while !open.is_empty() {
            // One that no other move still has to read.
            let at = open.iter().position(|(to, _)| !open.iter().any(|(_, from)| from == to))?;
            let (to, from) = open.swap_remove(at);
            moves.push(Insn::mov(to, from));
        }
        Some(moves)
    }

    /// A register for the constant, which nothing else is in until the runs end.
    fn free_register(&self, pair: &Pair) -> Option<Reg> {
        let nodes = || pair.same.values().map(|at| &self.function.nodes[*at]);
        let calls = nodes().any(|node| matches!(node.insn, Insn::Call(_) | Insn::LoadPacket { .. }));
        let live = |reg: Reg, at: usize| self.before[at].of(reg) > 0;
        let places = || pair.ends.iter().copied().chain([pair.start, pair.other]);
        let used = |reg: Reg| pair.names[reg.index()].is_some() || pair.renamed[reg.index()].is_some();
        let saved = |reg: Reg| self.function.nodes.iter().any(|node| node.insn.written() == Some(reg));
        Reg::all().filter(|reg| *reg != Reg::R10).find(|reg| {
            let keeps = if RegSet::CALLER_SAVED.contains(*reg) { !calls } else { saved(*reg) };
            keeps && !used(*reg) && !places().any(|at| live(*reg, at))
        })
    }
}

/// Pairs of different places.
fn pairs(places: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let both = places.iter().flat_map(move |one| places.iter().map(move |other| (*one, *other)));
    both.filter(|(one, other)| one != other)
}

/// An instruction without its registers and its target, and its registers in order; a call has those that it passes.
fn operands(insn: &Insn) -> Option<(Insn, Vec<Reg>)> {
    let regs = RefCell::new(Vec::new());
    let note = |reg: Reg| {
        regs.borrow_mut().push(reg);
        Reg::R0
    };
    let shape = match renamed(insn, &note)? {
        Insn::Branch { op, width, dst, src, .. } => Insn::Branch { op, width, dst, src, offset: 0 },
        shape => shape,
    };
    let mut regs = regs.into_inner();
    match insn {
        Insn::Call(_) => regs.extend(RegSet::CALLER_SAVED.iter()),
        Insn::Exit | Insn::Atomic { .. } => regs.push(Reg::R0),
        _ => {}
    }
    Some((shape, regs))
}

/// The branch that is taken where this one is not.
fn negated(insn: &Insn) -> Option<Insn> {
    match *insn {
        Insn::Branch { op, width, dst, src, .. } => {
            Some(Insn::Branch { op: op.row().negated?, width, dst, src, offset: 0 })
        }
        _ => None,
    }
}

/// The constant of an operation that changes nothing if it is zero.
fn constant(node: &Node) -> Option<i32> {
    match node.insn {
        Insn::Alu { op: AluOp::Add | AluOp::Sub | AluOp::Or | AluOp::Xor, src: Source::Imm(imm), .. } => {
            node.core.is_none().then_some(imm)
        }
        _ => None,
    }
}
