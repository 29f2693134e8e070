//! Proves that a function after a pass does what it did before.
//!
//! A window is a straight run of instructions. What a law of control flow does is not a window: it retargets branches,
//! shares tails, moves blocks, and keeps a value in a register over many blocks. Here the whole old function is
//! compared with the whole new one by a *simulation*: pairs of places, one in each function, that are reached together,
//! with what holds of the registers of both there ([`relation`]).
//!
//! ```text
//!   old                                  new                                       at each pair
//!    1: r9 = r1                           1: r9 = r1
//!    2: if r2 == 0 goto 7                 2: if r2 == 0 goto 5                     2-2: all registers equal
//!    3: r1 = map[m]; call a               3: r1 = map[m]; r7 = r1; call a          after a: new r7 = map[m]
//!    5: r1 = map[m]; call b               4: r1 = r7; call b                       b: same arguments
//!    7: goto 9                            5: exit                                  exit: same R0
//!    9: exit
//! ```
//!
//! 1. *Cuts* are calls and exits, where both functions must do the same, and beginnings of blocks that both functions
//!    have; instructions that stay keep their ids, by which they are found again.
//! 2. From a pair of cuts, every path of the old function to its next cut is followed symbolically. The new function
//!    follows under the same branch conditions until it reaches the same cut ([`segment`]).
//! 3. The first path that reaches a cut suggests the relation there. Each other path weakens it, until nothing changes.
//! 4. Each segment is then proved: the same branches, the same stores in order, the same arguments and results, and the
//!    relation at its end; by equal normal forms, or by the solver. Each is a query of its own, for other solvers too.
//!
//! Code that no change precedes is not followed: both functions run the same instructions in the same state there
//! ([`alike`]). Code that no change follows is not followed either, once everything that is read from there on is
//! equal.
//!
//! A call that only returns a value is not a cut if the new function omits it; R0 to R5 are then unreadable.
//!
//! The proof assumes the verifier's facts: those of registers at a cut, that places which no path reaches are not
//! reached, and that stack bytes which nothing reads afterwards may differ. It also leaves termination to the verifier:
//! it does not tell one endless loop from another.

pub mod alike;
pub mod arguments;
pub mod beside;
pub mod inlined;
pub mod relation;
pub mod segment;
pub mod unproved;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use kiln_isa::{Insn, PacketMode, Reg, RegSet};
use kiln_program::{Cfg, Function, InsnId, Node, Object};
use kiln_verifier::{Facts, InsnFacts, StackSet};

use crate::term::Arena;
use crate::window::calls::only_answers;
use crate::window::check::relocated_alike;
use crate::window::machine::Holes;
use crate::window::record::{FactsRecord, listed};
use alike::{Alike, is_same, reached};
use arguments::Arguments;
use beside::{Decision, NewRun};
use inlined::Inlined;
use relation::{Arrival, Relation, RelationRecord, differing_bytes};
use segment::{End, Known, Proved, Segment, SegmentRecord, Step, is_branch};
pub use unproved::Unproved;

/// A function before and after.
#[derive(Clone, Copy)]
pub struct Question<'f> {
    /// The object; its functions are not looked at.
    pub object: &'f Object,
    /// The function as it was.
    pub before: &'f Function,
    /// The function as it is to be.
    pub after: &'f Function,
    /// Facts of the old function, where there are any.
    pub facts: Option<&'f Facts>,
    /// Where `before` is a function with its callees in place: what is known of them there.
    pub inlined: Option<&'f Inlined>,
    /// Registers that calls read.
    pub arguments: &'f Arguments,
    /// Milliseconds for the solver at each segment.
    pub solver_ms: u32,
    /// Whether to keep the segments as data.
    pub keep_segments: bool,
    /// Whether to end without an answer; asked before each segment.
    pub stop: &'f dyn Fn() -> bool,
}

impl<'f> Question<'f> {
    /// What is known before an instruction of the old function.
    fn known(&self, insn: InsnId) -> Option<&'f InsnFacts> {
        match self.inlined.and_then(|inlined| inlined.known.get(&insn)) {
            Some(known) => known.as_ref(),
            None => self.facts?.at(insn),
        }
    }

    fn reached(&self, insn: InsnId) -> bool {
        let is_inlined = self.inlined.is_some_and(|inlined| inlined.known.contains_key(&insn));
        is_inlined || self.facts.is_none_or(|facts| facts.reached(insn))
    }

    fn live_after(&self, insn: InsnId) -> Option<StackSet> {
        match self.inlined.is_some_and(|inlined| inlined.known.contains_key(&insn)) {
            true => Some(StackSet::ALL),
            false => Some(self.facts?.at(insn)?.stack_live_after),
        }
    }
}

/// A proof that a function after a pass does what it did before.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Segments in which the functions differ, where they are kept.
    pub segments: Vec<SegmentRecord>,
    /// Places where both functions meet, where segments are kept.
    pub meetings: Vec<Meeting>,
    /// Segments that are the same instructions on the same values in both.
    pub identical: usize,
    /// Segments proved by equal normal forms.
    pub normalized: usize,
    /// Segments proved by the solver.
    pub smt: usize,
}

/// A place in each function that is reached together, and what holds there.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// The next instruction of each function.
    pub at: [InsnId; 2],
    /// What the proof shows to hold.
    pub relation: RelationRecord,
    /// What the verifier says of the old function there: a premise.
    pub facts: Option<FactsRecord>,
}

/// Instructions on a way at most.
const LONGEST_WAY: usize = 2048;
/// Instructions of a block after which the functions meet within it: what holds is then found piece by piece.
const LONGEST_PIECE: usize = 128;
/// Times that a way may come by an instruction.
const ROUNDS: usize = 2;
/// Ways from one place at most.
const MOST_WAYS: usize = 256;
/// Pairs of ways looked at for one function at most, for each of its instructions.
const EFFORT: usize = 64;
/// Questions put to the solver on the way at most.
const MAX_ASKED: usize = 16;
/// The least effort for a function.
const LEAST_EFFORT: usize = 4096;

/// Proves that `after` does what `before` does.
///
/// # Errors
/// Returns why it is not proved.
pub fn simulate(question: &Question<'_>) -> Result<Simulation, Unproved> {
    core_kept(question)?;
    let entry =
        question.before.nodes.first().ok_or_else(|| Unproved::not_modelled("a function without instructions"))?;
    if !question.reached(entry.id) {
        return Err(Unproved::not_modelled("no path reaches the function, so there is nothing to show of it"));
    }
    // What is near the changes is mostly enough. The fewer places to meet at, the longer the ways, and the more is known
    // at the end of each.
    let mut reason = None;
    let mut proved = None;
    let whole = [Places::Away, Places::Joins, Places::Unchanged, Places::Blocks, Places::SharedBlocks];
    let whole = whole.map(|places| (places, false));
    // Branches that only the solver can decide are few, and asking about each takes long: last of all.
    let attempts = [(Places::Away, true)].into_iter().chain(whole).map(|(places, near)| (places, near, false));
    let attempts = attempts.chain([(Places::Away, true, true), (Places::Away, false, true)]);
    let (old, new) = (Indexed::new(question.before), Indexed::new(question.after));
    let alike = alike_for(question, &old, &new);
    for (places, near, asks) in attempts {
        let explorer = Explorer::new(question, (&old, &new), &alike, places, near);
        match (Explorer { asks, ..explorer }).simulate() {
            // Where only unreachable instructions went, evidence shows what stays, if that can be shown.
            Ok(simulation) if near && question.keep_segments && simulation.segments.is_empty() => {
                proved = Some(simulation);
            }
            Ok(simulation) => return Ok(simulation),
            Err(_) if proved.is_some() => break,
            Err(why) if (question.stop)() => return Err(why),
            Err(why) if reason.is_none() && !near => reason = Some(why),
            Err(_) => {}
        }
    }
    proved.ok_or_else(|| {
        reason.unwrap_or_else(|| Unproved::OutOfEffort("no places to meet at led to a proof".to_owned()))
    })
}

/// Where the functions may meet, beside events. Each instruction is one that both have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    /// The first of a block in either, but where only one way leads from one change to another.
    Away,
    /// The first of a block in either.
    Blocks,
    /// Where ways join in either.
    Joins,
    /// The first of a block in either that is the same in both: what an operation chooses may now be chosen before it.
    Unchanged,
    /// The first of a block in both: an instruction that moved may be the first of one.
    SharedBlocks,
}

/// What a loader relocates is relocated as before.
fn core_kept(question: &Question<'_>) -> Result<(), Unproved> {
    let before: Vec<&Node> = question.before.nodes.iter().filter(|node| node.core.is_some()).collect();
    let kept = |node: &&Node| before.iter().any(|old| relocated_alike(question.object, old, node));
    match question.after.nodes.iter().filter(|node| node.core.is_some()).find(|node| !kept(node)) {
        Some(node) => Err(Unproved::Differs(format!("a CO-RE instruction is changed: `{}`", node.insn))),
        None => Ok(()),
    }
}

/// A place in each function, by position.
type Pair = (usize, usize);

/// A way of the old function.
#[derive(Clone)]
struct Way<'f> {
    steps: Vec<Step<'f>>,
    stop: usize,
    /// Whether it stops at what must happen in both functions.
    is_event: bool,
}

/// A segment that was found.
struct Edge<'f> {
    ways: [Vec<Step<'f>>; 2],
    to: To,
}

/// A way of the new function on its way.
#[derive(Clone)]
struct Ahead<'f, 'w, 'a> {
    steps: Vec<Step<'f>>,
    at: usize,
    /// The steps as far as they were run beside the old way; none if they must be run from their start.
    run: Option<NewRun<'w, 'a>>,
}

/// Where a segment ends.
#[derive(Clone, Copy)]
enum To {
    /// At a beginning of a block that both have.
    Cut(Pair),
    /// At an instruction that both must run.
    Event(Pair),
    /// Nowhere: the two ways do not go together.
    Nowhere,
}

/// A function, indexed.
struct Indexed<'f> {
    function: &'f Function,
    cfg: Cfg,
}

impl<'f> Indexed<'f> {
    fn new(function: &'f Function) -> Indexed<'f> {
        Indexed { function, cfg: Cfg::new(function) }
    }

    fn node(&self, at: usize) -> Result<&'f Node, Unproved> {
        self.function.nodes.get(at).ok_or_else(|| Unproved::not_modelled("a way leaves the function"))
    }

    fn target(&self, node: &Node) -> Result<usize, Unproved> {
        let at = node.target().and_then(|id| self.cfg.position.get(&id));
        at.copied().ok_or_else(|| Unproved::not_modelled("a branch leaves the function"))
    }

    /// The place where unconditional jumps lead to, unless it is come by on the way.
    fn past_jumps(&self, mut at: usize, place: InsnId) -> Result<usize, Unproved> {
        for _ in 0..self.function.nodes.len() {
            let node = self.node(at)?;
            if node.id == place || !matches!(node.insn, Insn::Jump { .. }) {
                break;
            }
            at = self.target(node)?;
        }
        Ok(at)
    }

    /// First instructions of blocks that at least so many others lead to.
    fn leaders(&self, ways: usize) -> HashSet<InsnId> {
        let blocks = self.cfg.blocks.iter().filter(|block| block.predecessors.len() >= ways);
        blocks.map(|block| self.function.nodes[block.range.start].id).collect()
    }
}

/// Instructions of the old function on ways from one that the new one does not have so to another, with no join or event
/// on the way: what moved from one to the other is on none of the registers in between.
fn between_changes(old: &Indexed<'_>, new: &Indexed<'_>) -> HashSet<InsnId> {
    let nodes = &old.function.nodes;
    let follows = |side: &Indexed<'_>, at: usize| side.function.nodes.get(at + 1).map(|next| next.id);
    let is_changed = |at: usize| {
        let node = &nodes[at];
        new.cfg
            .position
            .get(&node.id)
            .is_none_or(|other| !is_same(node, &new.function.nodes[*other]) || follows(old, at) != follows(new, *other))
    };
    let changed: Vec<bool> = (0..nodes.len()).map(is_changed).collect();
    // Where a way begins anew.
    let apart = |at: usize| {
        let block = &old.cfg.blocks[old.cfg.block_of[at].index()];
        at == block.range.start && block.predecessors.len() != 1 || is_event(&nodes[at].insn)
    };
    let leading = |at: usize| -> Vec<usize> {
        let block = &old.cfg.blocks[old.cfg.block_of[at].index()];
        if apart(at) {
            return Vec::new();
        }
        if at > block.range.start {
            return vec![at - 1];
        }
        block.predecessors.iter().map(|block| old.cfg.blocks[block.index()].range.end - 1).collect()
    };
    let before: Vec<Vec<usize>> = (0..nodes.len()).map(leading).collect();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, leading) in before.iter().enumerate() {
        leading.iter().for_each(|from| after[*from].push(at));
    }
    let spread = |edges: &[Vec<usize>]| {
        let next = (0..nodes.len()).filter(|at| changed[*at]).flat_map(|at| edges[at].iter().copied());
        reached(next.collect(), edges)
    };
    let (behind, ahead) = (spread(&after), spread(&before));
    (0..nodes.len()).filter(|at| behind[*at] && (ahead[*at] || changed[*at])).map(|at| nodes[at].id).collect()
}

/// Instructions within long blocks at which the functions may meet: in both, and in the same order in both; where there is
/// a choice, unchanged and behind an unchanged one.
fn pieces(old: &Indexed<'_>, new: &Indexed<'_>) -> Vec<InsnId> {
    let mut found = Vec::new();
    let there = |at: usize| new.cfg.position.get(&old.function.nodes[at].id).copied();
    let unchanged = |at: usize| {
        let same = |at: usize| there(at).filter(|other| is_same(&old.function.nodes[at], &new.function.nodes[*other]));
        same(at - 1).is_some_and(|before| same(at) == Some(before + 1))
    };
    for block in old.cfg.blocks.iter().filter(|block| block.range.len() > 2 * LONGEST_PIECE) {
        let (mut from, mut least) = (block.range.start, there(block.range.start).unwrap_or(0));
        while block.range.end - from > 2 * LONGEST_PIECE {
            let choice = from + LONGEST_PIECE..from + 2 * LONGEST_PIECE;
            let fits = |at: &usize| there(*at).is_some_and(|other| other > least);
            let best = choice.clone().filter(fits).find(|at| unchanged(*at)).or_else(|| choice.clone().find(fits));
            let Some(at) = best else {
                from = choice.end;
                continue;
            };
            found.push(old.function.nodes[at].id);
            (from, least) = (at, there(at).unwrap_or(least));
        }
    }
    found
}

/// What two functions have in common, by what the question says that calls read.
fn alike_for(question: &Question<'_>, old: &Indexed<'_>, new: &Indexed<'_>) -> Alike {
    let uses = |node: &Node| {
        let (overwrites, _) = effects(&node.insn);
        let writes = overwrites.union(node.insn.written().into_iter().collect());
        (read_by(question, node), writes)
    };
    Alike::new((old.function, &old.cfg), (new.function, &new.cfg), uses)
}

fn is_event(insn: &Insn) -> bool {
    matches!(
        insn,
        Insn::Call(_) | Insn::Exit | Insn::LoadPacket { .. } | Insn::AddressSpaceCast { .. } | Insn::MayGoto { .. }
    )
}

/// Whether a way is too long, or has come by this instruction often enough.
fn goes_round(steps: &[Step<'_>], node: &Node) -> bool {
    steps.len() >= LONGEST_WAY || steps.iter().filter(|step| step.node.id == node.id).count() >= ROUNDS
}

struct Explorer<'q, 'f> {
    question: &'q Question<'f>,
    old: &'q Indexed<'f>,
    new: &'q Indexed<'f>,
    /// Instructions at which the functions may meet, beside events.
    meeting: HashSet<InsnId>,
    /// Where they are the same.
    alike: &'q Alike,
    /// Whether only what is behind a change is followed.
    near: bool,
    relations: BTreeMap<Pair, Relation>,
    edges: BTreeMap<Pair, Vec<Edge<'f>>>,
    effort: usize,
    /// Whether the solver is asked about branches that no form decides.
    asks: bool,
    /// Questions put to the solver on the way.
    asked: usize,
}

impl<'q, 'f> Explorer<'q, 'f> {
    fn new(
        question: &'q Question<'f>,
        (old, new): (&'q Indexed<'f>, &'q Indexed<'f>),
        alike: &'q Alike,
        places: Places,
        near: bool,
    ) -> Explorer<'q, 'f> {
        let ways = if places == Places::Joins { 2 } else { 0 };
        let leaders = [old.leaders(ways), new.leaders(ways)];
        let meet = |id: &InsnId| {
            let [old, new] = [0, 1].map(|side: usize| leaders[side].contains(id));
            if places == Places::SharedBlocks { old && new } else { old || new }
        };
        let changed = |id: &InsnId| {
            let node = |side: &Indexed<'f>| side.cfg.position.get(id).map(|at| &side.function.nodes[*at]);
            places == Places::Unchanged && node(old).zip(node(new)).is_none_or(|(one, other)| !is_same(one, other))
        };
        let between = if places == Places::Away { between_changes(old, new) } else { HashSet::new() };
        let both = question.before.nodes.iter().map(|node| node.id).filter(|id| new.cfg.position.contains_key(id));
        let mut meeting: HashSet<InsnId> =
            both.filter(meet).filter(|id| !between.contains(id) && !changed(id)).collect();
        meeting.extend(pieces(old, new));
        let effort = (EFFORT * (question.before.nodes.len() + question.after.nodes.len())).max(LEAST_EFFORT);
        let (relations, edges) = (BTreeMap::new(), BTreeMap::new());
        Explorer { question, old, new, meeting, alike, near, relations, edges, effort, asks: false, asked: 0 }
    }

    /// The pairs to begin with, and what holds there: the entry, or where both are in one state and a change may come.
    fn begin(&mut self) -> Result<(), Unproved> {
        self.relations.insert((0, 0), Relation::entry());
        if !self.near {
            return Ok(());
        }
        let nodes = &self.question.before.nodes;
        let is_behind_event = |at: usize| {
            let event = at.checked_sub(1).map(|before| &nodes[before].insn);
            event.is_some_and(|insn| is_event(insn) && *insn != Insn::Exit)
        };
        let is_place = |at: usize| at == 0 || self.meeting.contains(&nodes[at].id) || is_behind_event(at);
        let frontier = self.alike.frontier(is_place);
        let begins_behind = self.alike.behind.first() == Some(&true);
        if !frontier.is_empty() && !frontier.contains(&0) && !begins_behind {
            self.relations.clear();
        }
        for at in frontier.into_iter().filter(|at| *at != 0 && self.question.reached(nodes[*at].id)) {
            let facts = self
                .question
                .known(nodes[at].id)
                .ok_or_else(|| Unproved::not_modelled("nothing is known near a change"))?;
            let other = self
                .new
                .cfg
                .position
                .get(&nodes[at].id)
                .ok_or_else(|| Unproved::not_modelled("a change is not in the new function"))?;
            self.relations.insert((at, *other), Relation::same(facts));
        }
        Ok(())
    }

    /// Whether both functions go on alike from a pair, whatever comes: the same instructions follow, and what they read is
    /// the same. Before the changes that is so until one comes, and is not followed where what is near is enough.
    fn is_settled(&self, (old, new): Pair) -> bool {
        let nodes = [&self.question.before.nodes, &self.question.after.nodes];
        let [Some(one), Some(other)] = [nodes[0].get(old), nodes[1].get(new)] else { return false };
        let settled = !self.alike.ahead[old] && self.relations[&(old, new)].is_same_in(self.alike.live[old]);
        settled && one.id == other.id && (old, new) != (0, 0)
    }

    /// Whether both come to a pair in one state, since no way to it comes by a change.
    fn is_before_changes(&self, (old, new): Pair) -> bool {
        let same = |node: &Node| self.new.cfg.position.get(&node.id) == Some(&new);
        self.near && self.question.before.nodes.get(old).is_some_and(same) && !self.alike.behind[old]
    }

    fn simulate(mut self) -> Result<Simulation, Unproved> {
        if self.question.after.nodes.is_empty() {
            return Err(Unproved::not_modelled("a function without instructions"));
        }
        self.begin()?;
        let mut pending: VecDeque<Pair> = self.relations.keys().copied().collect();
        let mut waiting: BTreeSet<Pair> = self.relations.keys().copied().collect();
        while let Some(pair) = pending.pop_front() {
            waiting.remove(&pair);
            self.go_on()?;
            if self.is_settled(pair) {
                self.edges.remove(&pair);
                continue;
            }
            let edges = self.explore(pair)?;
            for edge in &edges {
                for (to, arrival) in self.arrivals(pair, edge)? {
                    let changed = match self.relations.get_mut(&to) {
                        Some(relation) => relation.meet(&arrival),
                        None => {
                            self.relations.insert(to, Relation::of(&arrival));
                            true
                        }
                    };
                    if changed && waiting.insert(to) {
                        pending.push_back(to);
                    }
                }
            }
            self.edges.insert(pair, edges);
        }
        self.prove()
    }

    fn facts(&self, (old, _): Pair) -> Option<&'f InsnFacts> {
        self.question.known(self.question.before.nodes[old].id)
    }

    fn go_on(&self) -> Result<(), Unproved> {
        if (self.question.stop)() { Err(Unproved::Stopped) } else { Ok(()) }
    }

    fn spend(&mut self) -> Result<(), Unproved> {
        self.effort = self
            .effort
            .checked_sub(1)
            .ok_or_else(|| Unproved::OutOfEffort("there are too many ways to follow".to_owned()))?;
        Ok(())
    }

    fn segment<'s>(&'s self, pair: Pair, old: &'s [Step<'f>], new: &'s [Step<'f>]) -> Segment<'s> {
        Segment {
            object: self.question.object,
            facts: self.facts(pair),
            start: &self.relations[&pair],
            ways: [old, new],
            event: None,
        }
    }

    /// The same, up to and with what comes at its end.
    fn whole<'s>(&'s self, pair: Pair, edge: &'s Edge<'f>) -> Result<Segment<'s>, Unproved> {
        let segment = self.segment(pair, &edge.ways[0], &edge.ways[1]);
        let To::Event((at, _)) = edge.to else { return Ok(segment) };
        let node = self.old.node(at)?;
        let known = self.question.known(node.id);
        let is_number = |reg: &Reg| {
            known.is_some_and(|known| matches!(known.registers[reg.index()], kiln_verifier::Value::Scalar(_)))
        };
        Ok(Segment { event: Some((node, Reg::all().filter(is_number).collect())), ..segment })
    }

    /// All segments from a pair.
    fn explore(&mut self, pair: Pair) -> Result<Vec<Edge<'f>>, Unproved> {
        let mut edges = Vec::new();
        let mut ways = self.old_ways(Vec::new(), pair.0)?;
        while let Some(way) = ways.pop() {
            self.spend()?;
            if self.comes_to_no_change(pair, &way) {
                continue;
            }
            if let Some(edge) = self.same_way(pair, &way)? {
                edges.push(edge);
                continue;
            }
            if self.contradicts_itself(pair, &way)? {
                edges.push(Edge { ways: [way.steps, Vec::new()], to: To::Nowhere });
                continue;
            }
            match self.follow(pair, &way)? {
                Some(found) => edges.extend(found),
                None if way.is_event => {
                    let node = self.old.node(way.stop)?;
                    return Err(Unproved::Differs(format!("the new function does not come to {}", self.what(node))));
                }
                None => ways.extend(self.old_ways(way.steps, way.stop)?),
            }
        }
        Ok(edges)
    }

    /// Whether a way and all that comes right behind it is before every change: then both are in one state there.
    fn comes_to_no_change(&self, pair: Pair, way: &Way<'f>) -> bool {
        let free = |at: &usize| !self.alike.behind[*at];
        let goes_on = !way.is_event || !self.alike.changed[way.stop] && self.alike.after[way.stop].iter().all(free);
        free(&way.stop) && goes_on && self.is_before_changes(pair)
    }

    /// The new function's way where it has the same instructions as the old one's, and all that they read is the same.
    fn same_way(&self, pair: Pair, old: &Way<'f>) -> Result<Option<Edge<'f>>, Unproved> {
        if !self.relations[&pair].is_same_in(self.alike.live[pair.0]) {
            return Ok(None);
        }
        let goal = self.old.node(old.stop)?;
        let (mut at, mut steps) = (pair.1, Vec::with_capacity(old.steps.len()));
        for step in &old.steps {
            at = self.new.past_jumps(at, step.node.id)?;
            let node = self.new.node(at)?;
            if !is_same(step.node, node) {
                return Ok(None);
            }
            steps.push(Step { node, taken: step.taken, open: false, behind: None });
            at = if step.taken { self.new.target(node)? } else { at + 1 };
        }
        at = self.new.past_jumps(at, goal.id)?;
        if !is_same(goal, self.new.node(at)?) {
            return Ok(None);
        }
        let to = if old.is_event { To::Event((old.stop, at)) } else { To::Cut((old.stop, at)) };
        Ok(Some(Edge { ways: [old.steps.clone(), steps], to }))
    }

    /// Ways of the old function from a place to the next ones where it may be met.
    fn old_ways(&self, steps: Vec<Step<'f>>, from: usize) -> Result<Vec<Way<'f>>, Unproved> {
        let mut found = Vec::new();
        let mut pending = vec![(steps, from, true)];
        while let Some((mut steps, mut at, mut first)) = pending.pop() {
            loop {
                let node = self.old.node(at)?;
                if !self.question.reached(node.id) {
                    break;
                }
                let is_event = is_event(&node.insn) && !self.is_left_out(node);
                if is_event || !first && self.meeting.contains(&node.id) {
                    found.push(Way { steps, stop: at, is_event });
                    break;
                }
                first = false;
                if goes_round(&steps, node) || found.len() + pending.len() >= MOST_WAYS {
                    return Err(Unproved::OutOfEffort("there are too many ways to follow".to_owned()));
                }
                match node.insn {
                    Insn::Jump { .. } => at = self.old.target(node)?,
                    Insn::Branch { .. } => {
                        let mut taken = steps.clone();
                        taken.push(Step { node, taken: true, open: false, behind: None });
                        pending.push((taken, self.old.target(node)?, false));
                        steps.push(Step { node, taken: false, open: false, behind: None });
                        at += 1;
                    }
                    _ => {
                        at += 1;
                        let next = self.question.before.nodes.get(at);
                        let behind = next.and_then(|next| self.question.known(next.id));
                        steps.push(Step { node, taken: false, open: false, behind });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Whether a call of the old function that the new one does not make does nothing but answer. Its way then goes
    /// on without the answer: whoever reads it cannot be followed.
    fn is_left_out(&self, node: &Node) -> bool {
        let gone = !self.new.cfg.position.contains_key(&node.id);
        let known = self.question.facts.and_then(|facts| facts.at(node.id));
        gone && only_answers(self.question.object, node, known)
    }

    /// Whether the branches of a way contradict each other as they stand.
    fn contradicts_itself(&self, pair: Pair, way: &Way<'f>) -> Result<bool, Unproved> {
        if !way.steps.iter().any(|step| is_branch(step.node)) {
            return Ok(false);
        }
        let arena = Arena::new();
        let ran = self.segment(pair, &way.steps, &[]).run(&arena)?;
        let mut known = Known::default();
        Ok(ran.given.iter().chain(&ran.conditions[0]).any(|condition| !known.add(&ran.world, *condition)))
    }

    /// The segments in which the new function goes along with an old way; none where it comes elsewhere.
    fn follow(&mut self, pair: Pair, old: &Way<'f>) -> Result<Option<Vec<Edge<'f>>>, Unproved> {
        let goal = self.old.node(old.stop)?;
        let start = self.relations[&pair].clone();
        let alone = Segment {
            object: self.question.object,
            facts: self.facts(pair),
            start: &start,
            ways: [&old.steps, &[]],
            event: None,
        };
        let arena = Arena::new();
        let holes = Holes::default();
        let old_run = OnceCell::new();
        let mut edges = Vec::new();
        let mut pending: Vec<Ahead<'f, '_, '_>> = vec![Ahead { steps: Vec::new(), at: pair.1, run: None }];
        while let Some(mut ahead) = pending.pop() {
            loop {
                self.spend()?;
                let (at, node) = (ahead.at, self.new.node(ahead.at)?);
                // If the old way goes round a loop, the new function must move, too.
                let stands_still =
                    ahead.steps.is_empty() && at == pair.1 && old.stop == pair.0 && !old.steps.is_empty();
                let met = if old.is_event { self.same_event(goal, node) } else { node.id == goal.id && !stands_still };
                if met {
                    let to = if old.is_event { To::Event((old.stop, at)) } else { To::Cut((old.stop, at)) };
                    edges.push(Edge { ways: [old.steps.clone(), ahead.steps], to });
                    break;
                }
                if is_event(&node.insn) || goes_round(&ahead.steps, node) {
                    if !self.is_impossible(pair, old, &ahead.steps) {
                        return Ok(None);
                    }
                    edges.push(Edge { ways: [old.steps.clone(), ahead.steps], to: To::Nowhere });
                    break;
                }
                match node.insn {
                    Insn::Jump { .. } => {
                        let next = self.new.target(node)?;
                        if next == at {
                            return Ok(None);
                        }
                        ahead.at = next;
                    }
                    Insn::Branch { .. } => {
                        if old_run.get().is_none() {
                            let run = alone.run_old(&arena)?;
                            ahead.run = Some(NewRun::new(old_run.get_or_init(|| run), &holes));
                        }
                        let decided = self.decided(pair, &old.steps, &mut ahead, node)?;
                        let target = self.new.target(node)?;
                        if decided.is_none() {
                            let mut other = ahead.clone();
                            other.steps.push(Step { node, taken: true, open: true, behind: None });
                            pending.push(Ahead { at: target, ..other });
                        }
                        let taken = decided == Some(true);
                        ahead.steps.push(Step { node, taken, open: decided.is_none(), behind: None });
                        ahead.at = if taken { target } else { at + 1 };
                    }
                    _ => {
                        ahead.steps.push(Step { node, taken: false, open: false, behind: None });
                        ahead.at += 1;
                    }
                }
            }
        }
        Ok(Some(edges))
    }

    /// Whether a new way that comes elsewhere than an old way to an event never goes together with it.
    fn is_impossible(&mut self, pair: Pair, old: &Way<'f>, new: &[Step<'f>]) -> bool {
        self.asked += usize::from(old.is_event);
        let asks = old.is_event && self.asked <= MAX_ASKED;
        asks && self.segment(pair, &old.steps, new).is_impossible(self.question.solver_ms)
    }

    /// Whether what is known on both ways decides a branch of the new function. Where no form tells, the solver is asked
    /// whether a branch that both ways have goes where the old one goes.
    fn decided<'w>(
        &mut self,
        pair: Pair,
        old: &[Step<'f>],
        ahead: &mut Ahead<'f, 'w, '_>,
        branch: &'f Node,
    ) -> Result<Option<bool>, Unproved>
    where
        'f: 'w,
    {
        let decision = match &mut ahead.run {
            Some(run) => run.decide(&ahead.steps, branch)?,
            None => Decision::Alone,
        };
        let decided = match decision {
            Decision::Decided(taken) => return Ok(Some(taken)),
            Decision::Open => None,
            Decision::Alone => {
                ahead.run = None;
                self.decided_alone(pair, old, &ahead.steps, branch)?
            }
        };
        let asks = self.asks && decided.is_none();
        let Some(same) = old.iter().rev().find(|step| asks && step.node.id == branch.id) else {
            return Ok(decided);
        };
        self.asked += 1;
        let mut with = ahead.steps.clone();
        with.push(Step { node: branch, taken: same.taken, open: false, behind: None });
        let holds = self.asked <= MAX_ASKED
            && self.segment(pair, old, &with).decides_last(self.question.solver_ms).unwrap_or(false);
        Ok(holds.then_some(same.taken))
    }

    /// Whether the forms of two ways that are run from their start decide a branch behind the new one.
    fn decided_alone(
        &self,
        pair: Pair,
        old: &[Step<'f>],
        new: &[Step<'f>],
        branch: &'f Node,
    ) -> Result<Option<bool>, Unproved> {
        let mut with = new.to_vec();
        with.push(Step { node: branch, taken: true, open: false, behind: None });
        let arena = Arena::new();
        let ran = self.segment(pair, old, &with).run(&arena)?;
        let Some((last, earlier)) = ran.conditions[1].split_last() else { return Ok(None) };
        let mut known = Known::default();
        for condition in ran.given.iter().chain(&ran.conditions[0]).chain(earlier) {
            known.add(&ran.world, *condition);
        }
        Ok(known.decides(&ran.world, *last))
    }

    fn same_event(&self, old: &Node, new: &Node) -> bool {
        if let (Insn::MayGoto { .. }, Insn::MayGoto { .. }) = (old.insn, new.insn) {
            return true;
        }
        // Where they load from is compared.
        if index(&old.insn, &new.insn).is_some() {
            return old.core.is_none() && new.core.is_none();
        }
        let core = |node: &Node| node.core.map(|id| self.question.object.core.get(id.index()));
        is_event(&old.insn) && old.insn == new.insn && old.reference == new.reference && core(old) == core(new)
    }

    fn what(&self, node: &Node) -> String {
        format!("`{}` ({})", listed(self.question.object, node), node.id.0)
    }

    /// What a segment brings to the cuts behind it.
    fn arrivals(&self, pair: Pair, edge: &Edge<'f>) -> Result<Vec<(Pair, Arrival)>, Unproved> {
        let places = match edge.to {
            To::Nowhere => return Ok(Vec::new()),
            To::Cut(to) => vec![to],
            To::Event(at) => self.behind(at)?,
        };
        let arena = Arena::new();
        let segment = self.whole(pair, edge)?;
        let ran = segment.run(&arena)?;
        let holds: Vec<_> = ran.given.iter().chain(ran.conditions.iter().flatten()).copied().collect();
        let (overwrites, result) = match edge.to {
            To::Event((at, _)) => effects(&self.old.node(at)?.insn),
            _ => (RegSet::EMPTY, None),
        };
        let arrival = |to: Pair| {
            let arrival = Arrival::of(&ran.world, &ran.ends, &holds, overwrites);
            (to, arrival.with_result(&ran.world, result))
        };
        let arrivals: Vec<_> = places.into_iter().filter(|to| !self.is_before_changes(*to)).map(arrival).collect();
        if let To::Event((at, _)) = edge.to {
            let mut differ = differing_bytes(&ran.world, &ran.ends, &holds);
            differ.retain(|byte| ran.ends[0].uses.reads(i64::from(*byte)));
            // Two terms that look different may be equal: what is read is asked of the solver, as the proof will.
            if !segment.bytes_agree(&ran, &differ, self.question.solver_ms) {
                self.may_differ_at(at, &differ)?;
            }
        }
        Ok(arrivals)
    }

    /// Where both functions go on after an event.
    fn behind(&self, (old, new): Pair) -> Result<Vec<Pair>, Unproved> {
        let (one, other) = (self.old.node(old)?, self.new.node(new)?);
        let next = (old + 1, new + 1);
        match one.insn {
            Insn::Exit => Ok(Vec::new()),
            Insn::MayGoto { .. } => Ok(vec![next, (self.old.target(one)?, self.new.target(other)?)]),
            _ => Ok(vec![next]),
        }
    }

    /// Whether what runs at a place of the old function reads none of these bytes of the frame.
    fn may_differ_at(&self, at: usize, bytes: &BTreeSet<i32>) -> Result<(), Unproved> {
        let node = self.old.node(at)?;
        if bytes.is_empty() || node.insn == Insn::Exit {
            return Ok(());
        }
        let live = self.stack_read_from(at);
        match bytes.iter().find(|byte| live.contains(**byte)) {
            Some(byte) => Err(Unproved::Differs(format!("stack byte {byte} differs before {}", self.what(node)))),
            None => Ok(()),
        }
    }

    /// Bytes of the frame that the old function may read from a place on.
    fn stack_read_from(&self, at: usize) -> StackSet {
        if self.question.facts.is_none() {
            return StackSet::ALL;
        }
        let block = &self.old.cfg.blocks[self.old.cfg.block_of[at].index()];
        let before: Vec<usize> = if at > block.range.start {
            vec![at - 1]
        } else {
            block.predecessors.iter().map(|block| self.old.cfg.blocks[block.index()].range.end - 1).collect()
        };
        let known = before.iter().filter_map(|at| self.question.live_after(self.question.before.nodes[*at].id));
        known.fold(StackSet::EMPTY, |live, known| live.union(&known))
    }

    /// Proves every segment.
    fn prove(&self) -> Result<Simulation, Unproved> {
        let mut simulation = Simulation::default();
        let mut alikes = Vec::new();
        for (pair, edges) in &self.edges {
            for edge in edges {
                self.go_on()?;
                for end in self.ends(edge)? {
                    let segment = self.whole(*pair, edge)?;
                    let alike = segment.is_alike() && end.asks_identity();
                    let count = match alike {
                        true => &mut simulation.identical,
                        false => match segment.prove(&end, self.question.solver_ms)? {
                            Proved::Normalized => &mut simulation.normalized,
                            Proved::Smt => &mut simulation.smt,
                        },
                    };
                    *count += 1;
                    if self.question.keep_segments {
                        let kept = if alike { &mut alikes } else { &mut simulation.segments };
                        kept.push(segment.record(&end));
                    }
                }
            }
        }
        if self.question.keep_segments {
            simulation.meetings = self.meetings();
        }
        // Where only unreachable instructions went, what stays is all there is to show.
        if simulation.segments.is_empty() {
            simulation.segments = alikes;
        }
        Ok(simulation)
    }

    /// The pairs of places that the proof uses, as data.
    fn meetings(&self) -> Vec<Meeting> {
        let meeting = |(pair, relation): (&Pair, &Relation)| {
            let [old, new] = [self.question.before.nodes.get(pair.0)?, self.question.after.nodes.get(pair.1)?];
            let facts = self.question.known(old.id).map(|facts| FactsRecord::of(facts, RegSet::ALL, true));
            Some(Meeting { at: [old.id, new.id], relation: RelationRecord::of(relation), facts })
        };
        self.relations.iter().filter_map(meeting).collect()
    }

    /// What must hold at the end of a segment, for each place behind it.
    fn ends(&self, edge: &Edge<'f>) -> Result<Vec<End>, Unproved> {
        Ok(match edge.to {
            To::Nowhere => vec![End { never: true, what: "no way".to_owned(), ..End::default() }],
            To::Cut(to) => {
                let what = self.what(self.old.node(to.0)?);
                vec![End { what, relation: Some(self.relations[&to].clone()), ..End::default() }]
            }
            To::Event(at) => {
                let node = self.old.node(at.0)?;
                let (overwrites, _) = effects(&node.insn);
                let index = index(&node.insn, &self.new.node(at.1)?.insn);
                let mut reads = read_by(self.question, node);
                // The packet is R6's, always; what the index is made of is compared by itself.
                let apart = index.and_then(|[(old, _), _]| Reg::new(old)).filter(|old| *old != Reg::R6);
                apart.iter().for_each(|old| reads.remove(*old));
                let end = End { what: self.what(node), reads, overwrites, index, ..End::default() };
                let mut behind = self.behind(at)?;
                if behind.is_empty() {
                    vec![end]
                } else {
                    let with = |to: &Pair| {
                        let relation = self.relations[to].clone();
                        let mut unread: BTreeSet<i32> = relation.differ.union(&relation.failed).copied().collect();
                        if !unread.is_empty() {
                            let live = self.stack_read_from(at.0);
                            unread.retain(|byte| !live.contains(*byte));
                        }
                        End { relation: Some(relation), unread, ..end.clone() }
                    };
                    behind.retain(|to| !self.is_before_changes(*to));
                    behind.iter().map(with).collect()
                }
            }
        })
    }
}

/// Registers that an instruction reads: arguments that the verifier calls unreadable are none.
fn read_by(question: &Question<'_>, node: &Node) -> RegSet {
    let reads = match node.insn {
        Insn::Call(_) => question.arguments.read_by(node),
        _ => node.insn.read(),
    };
    let known = question.known(node.id);
    let readable = |reg: &Reg| known.is_none_or(|known| known.registers[reg.index()] != kiln_verifier::Value::Uninit);
    reads.iter().filter(readable).collect()
}

/// The registers and constants that the indices of two classic packet loads are the sums of.
fn index(old: &Insn, new: &Insn) -> Option<[(u8, i32); 2]> {
    let sum = |insn: &Insn| match *insn {
        Insn::LoadPacket { mode: PacketMode::Indirect(reg), size, offset } => Some((size, (reg.number(), offset))),
        _ => None,
    };
    let ((size, old), (other, new)) = (sum(old)?, sum(new)?);
    (size == other).then_some([old, new])
}

/// Registers that an event overwrites, and the one that then holds its result.
fn effects(insn: &Insn) -> (RegSet, Option<Reg>) {
    match *insn {
        Insn::Call(_) | Insn::LoadPacket { .. } => (RegSet::CALLER_SAVED, Some(Reg::R0)),
        Insn::AddressSpaceCast { dst, .. } => (RegSet::of(&[dst]), Some(dst)),
        _ => (RegSet::EMPTY, None),
    }
}
