//! Constants given where they are needed, not before the branch that may need them.
//!
//! ```text
//!   r6 = 1                                    if r3 > r2 goto drop
//!   if r3 > r2 goto out                       ...
//!   r6 = 2                                    if r0 != 0 goto pass
//!   ...                                       ...
//!   if r0 != 0 goto out                -->    call redirect
//!   ...                                       exit
//!   call redirect                           drop:
//!   r6 = r0                                   r0 = 1
//! out:                                        exit
//!   r0 = r6                                 pass:
//!   exit                                      r0 = 2
//!                                             exit
//! ```
//!
//! A register that holds one known number on some of the ways into a block is given it on those ways alone, at their
//! end; the writes before are then dead, and the register is often free for something else. Where the block is no more
//! than a copy and an exit, each such way has one of its own.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use kiln_isa::{AluOp, Insn, Reg, Source, Width};
use kiln_program::liveness::written;
use kiln_program::{Cfg, Function, Ids, InsnId, Node, Object, Reference};

use crate::flow::calls::Calls;
use crate::flow::demand;
use crate::laws::available_values;
use crate::laws::context::{Change, Context};
use crate::laws::jump_threading::{self, Known};
use crate::laws::trial::{Size, Trial};
use crate::rules::one_slot_move;

/// Instructions of a function at most: trials cost its length each.
const LONGEST: usize = 20_000;
/// The same where each trial shares registers as well, and where every place is tried.
const LONGEST_SHARED: usize = 150;

/// A way into a block.
struct Way {
    /// The last instruction of the block that it leaves.
    from: InsnId,
    /// Whether it is a jump; else it falls through.
    jumps: bool,
    /// What is known of each register there.
    known: [Option<Known>; Reg::COUNT],
}

/// A register that holds a number on some ways into a block.
struct Late<'a> {
    reg: Reg,
    /// Position of the block's first instruction, and after its last.
    block: std::ops::Range<usize>,
    /// The number and its ways.
    value: u64,
    ways: Vec<&'a Way>,
}

/// Moves the constants of blocks to where they are needed, if that saves slots: of one block in a short function, else of
/// one after the other.
pub fn sink_constants(context: Context<'_>) -> Vec<Change> {
    let Context { object, function, calls, banned, most, .. } = context;
    let mut changes = Vec::new();
    let mut begins_at = None;
    while changes.len() < most && function.nodes.len() <= LONGEST {
        let Some((change, block)) = sink_in_block(object, function, calls, banned, begins_at) else { break };
        changes.push(change);
        begins_at = Some(block);
        if function.nodes.len() <= LONGEST_SHARED {
            break;
        }
    }
    changes
}

/// The same for the first block for which it pays, from some block on. Returns also that block.
fn sink_in_block(
    object: &mut Object,
    original: &mut Function,
    calls: &Calls,
    banned: &dyn Fn(InsnId) -> bool,
    begins_at: Option<InsnId>,
) -> Option<(Change, InsnId)> {
    let function: &Function = original;
    let cfg = Cfg::new(function);
    let states = jump_threading::at_block_ends(function, &cfg);
    let ends = demand::at_block_ends(function, &cfg, calls);
    let held = available_values::before_each(object, function, &cfg);
    let sets = Sets::of(function, &cfg, calls);
    let least = begins_at.and_then(|id| cfg.position.get(&id)).copied().unwrap_or(0);
    let is_short = function.nodes.len() <= LONGEST_SHARED;
    let mut trial = None;
    let mut best: Option<(Size, Function, Change, InsnId)> = None;
    let blocks = cfg.blocks.iter().enumerate().skip(1).filter(|(_, block)| block.predecessors.len() > 1);
    let blocks = blocks.filter(|(_, block)| block.range.start >= least);
    let blocks: Vec<_> = blocks.filter(|(_, block)| !banned(function.nodes[block.range.start].id)).collect();
    // What pays at once comes first; one block's gain is enough: the others are looked at again.
    let sharing = if is_short { &[false, true][..] } else { &[false] };
    let tries = sharing.iter().copied().flat_map(|shared| blocks.iter().map(move |(index, _)| (shared, *index)));
    for (shared, index) in tries {
        if best.is_some() {
            break;
        }
        let block = cfg.blocks[index].range.clone();
        let first = function.nodes[block.start].id;
        let Some(ways) = ways(function, &cfg, &states, &held, index) else { continue };
        let mut begin = ends[index];
        function.nodes[block.clone()].iter().rev().for_each(|node| begin.step_back(node, calls));
        for reg in Reg::all().filter(|reg| *reg != Reg::R10 && begin.of(*reg) > 0) {
            let groups = groups(&sets, block.clone(), &ways, reg, begin.of(reg));
            let alone = groups.iter().map(std::slice::from_ref);
            let together = (groups.len() > 1).then_some(&groups[..]);
            for chosen in together.into_iter().chain(alone) {
                let covered: usize = chosen.iter().map(|late| late.ways.len()).sum();
                let ends = covered == ways.len() && is_end(&function.nodes[block.clone()]);
                if !is_short && !ends && !sets.in_vain(chosen) {
                    continue;
                }
                let mut candidate = function.clone();
                for late in chosen {
                    place(object, &mut candidate, late, first);
                }
                let trial = trial.get_or_insert_with(|| Trial::new(object, calls, function));
                let gained = match shared {
                    true => trial.gain_shared(object, first, candidate),
                    false => trial.gain(object, first, candidate),
                };
                let Some((candidate, change)) = gained else { continue };
                let own = Size::of(&candidate);
                if best.as_ref().is_none_or(|best| own < best.0) {
                    best = Some((own, candidate, change, first));
                }
            }
        }
    }
    let (_, candidate, change, block) = best?;
    *original = candidate;
    Some((change, block))
}

/// Where each register is set to each number.
struct Sets<'f> {
    function: &'f Function,
    cfg: &'f Cfg,
    calls: &'f Calls,
    /// By the number's lower half.
    positions: HashMap<(Reg, u32), Vec<usize>>,
    /// Those of `positions` of which nothing reads what they set.
    unread: RefCell<HashMap<(Reg, u32), Vec<usize>>>,
}

impl<'f> Sets<'f> {
    fn of(function: &'f Function, cfg: &'f Cfg, calls: &'f Calls) -> Sets<'f> {
        let mut positions: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, (reg, value)) in function.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, set(node)?))) {
            positions.entry((reg, value as u32)).or_default().push(at);
        }
        Sets { function, cfg, calls, positions, unread: RefCell::default() }
    }

    /// Whether some instruction sets the register for nothing if these ways set it anew.
    fn in_vain(&self, chosen: &[Late<'_>]) -> bool {
        let ways: Ids = chosen.iter().flat_map(|late| &late.ways).map(|way| way.from).collect();
        let is_way = |from: InsnId| ways.contains(&from);
        let Some(Late { reg, block, .. }) = chosen.first() else { return false };
        let is_cut = |leaves: InsnId, start: usize| start == block.start && is_way(leaves);
        // A set from which only such a way goes on would come back on that way.
        let is_on_way = |at: usize| {
            let own = &self.cfg.blocks[self.cfg.block_of[at].index()];
            own.successors.len() == 1 && is_way(self.function.nodes[own.range.end - 1].id)
        };
        let is_vain = |at: &usize| !is_on_way(*at) && !self.is_read(*reg, *at, &is_cut);
        let keys = || chosen.iter().map(|late| (*reg, late.value as u32));
        let most = keys().filter_map(|key| self.positions.get(&key)).map(Vec::len).sum();
        match self.reaching(*reg, chosen, most) {
            // Others are read as if there were no such ways.
            Some(reaching) => {
                let is_one = |at: &usize| {
                    set(&self.function.nodes[*at])
                        .is_some_and(|(reg, value)| keys().any(|key| key == (reg, value as u32)))
                };
                reaching.iter().filter(|at| is_one(at)).any(is_vain)
                    || keys().any(|key| self.has_unread(key, &is_on_way))
            }
            None => keys().filter_map(|key| self.positions.get(&key)).flatten().any(is_vain),
        }
    }

    /// Whether something may read what an instruction sets a register to, where some ways are cut.
    fn is_read(&self, reg: Reg, from: usize, is_cut: &dyn Fn(InsnId, usize) -> bool) -> bool {
        let Sets { function, cfg, calls, .. } = *self;
        let (mut seen, mut pending) = (HashSet::new(), vec![(cfg.block_of[from].index(), from + 1)]);
        while let Some((own, begin)) = pending.pop() {
            let range = cfg.blocks[own].range.clone();
            let mut is_kept = true;
            for node in &function.nodes[begin..range.end] {
                if demand::reads(node, reg, calls) {
                    return true;
                }
                if written(&node.insn).contains(reg) {
                    is_kept = false;
                    break;
                }
            }
            let leaves = function.nodes[range.end - 1].id;
            for next in cfg.blocks[own].successors.iter().filter(|_| is_kept) {
                let start = cfg.blocks[next.index()].range.start;
                if !is_cut(leaves, start) && seen.insert(next.index()) {
                    pending.push((next.index(), start));
                }
            }
        }
        false
    }

    /// Instructions whose result the register may hold where these ways begin; `None` if that takes more than so many
    /// blocks.
    fn reaching(&self, reg: Reg, chosen: &[Late<'_>], most: usize) -> Option<Vec<usize>> {
        let ways = chosen.iter().flat_map(|late| &late.ways);
        let mut pending: Vec<usize> = ways.map(|way| self.cfg.block_of[self.cfg.position[&way.from]].index()).collect();
        let mut seen: HashSet<usize> = pending.iter().copied().collect();
        let mut found = Vec::new();
        while let Some(block) = pending.pop() {
            if seen.len() > most {
                return None;
            }
            let own = &self.cfg.blocks[block];
            match own.range.clone().rev().find(|at| written(&self.function.nodes[*at].insn).contains(reg)) {
                Some(at) => found.push(at),
                None => {
                    pending.extend(own.predecessors.iter().map(|from| from.index()).filter(|from| seen.insert(*from)))
                }
            }
        }
        Some(found)
    }

    /// Whether nothing reads what one of the instructions with a key sets, some of them left out.
    fn has_unread(&self, key: (Reg, u32), is_left_out: &dyn Fn(usize) -> bool) -> bool {
        let mut known = self.unread.borrow_mut();
        let unread = known.entry(key).or_insert_with(|| {
            let all = self.positions.get(&key).into_iter().flatten().copied();
            all.filter(|at| !self.is_read(key.0, *at, &|_, _| false)).collect()
        });
        unread.iter().any(|at| !is_left_out(*at))
    }
}

/// The ways into a block; `None` where one cannot be led elsewhere.
fn ways(
    function: &Function,
    cfg: &Cfg,
    states: &[Option<jump_threading::State>],
    held: &[available_values::State],
    index: usize,
) -> Option<Vec<Way>> {
    let block = &cfg.blocks[index];
    let first = function.nodes[block.range.start].id;
    let mut ways = Vec::new();
    for previous in &block.predecessors {
        let own = &cfg.blocks[previous.index()];
        let last = &function.nodes[own.range.end - 1];
        let Some(mut state) = states[previous.index()] else { continue };
        if matches!(last.insn, Insn::MayGoto { .. }) {
            return None;
        }
        let jumps = last.target() == Some(first);
        let branches = matches!(last.insn, Insn::Branch { .. });
        // A branch both of whose sides are here tells nothing, and is another pass's business.
        if branches && own.successors.len() == 2 {
            jump_threading::refine(&mut state, &last.insn, jumps);
            if let Insn::Branch { width: Width::W64, dst, .. } = last.insn {
                let held = &held[own.range.end - 1];
                let alike =
                    Reg::all().filter(|reg| held[dst.index()].is_some() && held[reg.index()] == held[dst.index()]);
                alike.for_each(|reg| state[reg.index()] = state[reg.index()].or(state[dst.index()]));
            }
        } else if branches {
            return None;
        }
        ways.push(Way { from: last.id, jumps, known: state });
    }
    Some(ways)
}

/// The numbers that a register holds on the ways into a block, where some instruction says so.
fn groups<'a>(sets: &Sets<'_>, block: std::ops::Range<usize>, ways: &'a [Way], reg: Reg, bits: u32) -> Vec<Late<'a>> {
    let mut groups: Vec<Late<'a>> = Vec::new();
    for way in ways {
        let Some(known) = way.known[reg.index()].filter(|known| known.width == Width::W64 || bits <= 32) else {
            continue;
        };
        let value = if bits <= 32 { known.value & u64::from(u32::MAX) } else { known.value };
        match groups.iter_mut().find(|late| late.value == value) {
            Some(late) => late.ways.push(way),
            None => groups.push(Late { reg, block: block.clone(), value, ways: vec![way] }),
        }
    }
    groups.retain(|late| {
        one_slot_move(reg, late.value).is_some() && sets.positions.contains_key(&(reg, late.value as u32))
    });
    groups
}

/// The register and number of a constant move.
fn set(node: &Node) -> Option<(Reg, u64)> {
    match node.insn {
        Insn::Alu { op: AluOp::Mov, width, dst, src: Source::Imm(imm) } if node.core.is_none() => {
            let value = i64::from(imm) as u64;
            Some((dst, if width == Width::W32 { value & u64::from(u32::MAX) } else { value }))
        }
        _ => None,
    }
}

/// Sends the paths through a place that sets the register.
fn place(object: &mut Object, function: &mut Function, late: &Late<'_>, first: InsnId) {
    let Some(at) = function.position(first) else { return };
    let line = function.nodes.iter().find(|node| set(node) == Some((late.reg, late.value))).and_then(|node| node.line);
    let made = one_slot_move(late.reg, late.value).expect("it was asked before");
    let mut pad = vec![Node { line, ..object.new_node(made, Reference::None) }];
    let falls = late.ways.iter().any(|way| !way.jumps);
    let open = falls || !function.nodes[at - 1].insn.falls_through();
    let body = function.nodes[at..at + late.block.len()].to_vec();
    if is_end(&body) {
        for node in &body {
            pad.push(Node { line: node.line, ..object.new_node(node.insn, Reference::None) });
        }
        if let Insn::Alu { width, dst, src: Source::Reg(src), .. } = pad[1].insn
            && src == late.reg
        {
            let value = if width == Width::W32 { late.value & u64::from(u32::MAX) } else { late.value };
            pad[1].insn = one_slot_move(dst, value).unwrap_or(pad[1].insn);
            // On the path from `if r0 == 0`, the register holds zero already.
            let held = Some(Known { value, width: Width::W64 });
            if late.ways.iter().all(|way| way.known[dst.index()] == held) {
                pad.remove(1);
            }
        }
    } else if !open {
        pad.push(object.new_node(Insn::Jump { offset: 0, long: false }, Reference::Branch(first)));
    }
    let head = pad[0].id;
    let jumps: Ids = late.ways.iter().filter(|way| way.jumps).map(|way| way.from).collect();
    for node in function.nodes.iter_mut().filter(|node| jumps.contains(&node.id)) {
        node.reference = Reference::Branch(head);
    }
    let place = if open { at } else { function.nodes.len() };
    function.nodes.splice(place..place, pad);
}

/// Whether a block is an exit, or a copy to R0 and an exit.
fn is_end(body: &[Node]) -> bool {
    match body {
        [exit] => exit.insn == Insn::Exit,
        [copy, exit] => {
            let copies = matches!(copy.insn, Insn::Alu { op: AluOp::Mov, src: Source::Reg(_), .. });
            copies && copy.core.is_none() && exit.insn == Insn::Exit
        }
        _ => false,
    }
}
