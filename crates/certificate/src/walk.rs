//! All paths of both functions from one meeting pair to the next.
//!
//! ```text
//!   pair (3, 2) --- old: 3 4 5 if --+-- 9 ....... pair (9, 7)?
//!                                   +-- 6 call .. the new function is at the same call? what it is given is equal?
//! ```
//!
//! The old function is followed to the next pair of the certificate or to an event. A branch that the known conditions
//! do not decide is followed in both directions. The new function is then followed to the same pair or event, again in
//! all directions. Two paths that do not correspond must contradict each other, which is proved as well. So no path is
//! missing, whatever the certificate claims: a missing pair makes paths longer, and a path that is too long is refused.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kiln_isa::semantics::{BitVec, Flow};
use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{Cfg, Function, InsnId, Node, Object};

use crate::event::{Event, are_packet_loads, is_event};
use crate::provenance::{Class, Provenance};
use crate::relation::Relation;
use crate::state::{PACKETS_END, Running, State, World};
use crate::term::Term;

/// Maximum number of instructions on a path.
pub const MAX_STEPS: usize = 65_536;
/// Maximum number of paths from one pair.
pub const MAX_PATHS: usize = 4096;
/// Maximum number of terms of one walk.
pub const MAX_TERMS: usize = 1 << 19;
/// How often a path may reach one instruction.
const MAX_ROUNDS: usize = 3;

/// A position in each function.
pub type Pair = (u32, u32);

/// One function of a step, with what is known of its listing.
pub struct Version<'f> {
    /// The listing.
    pub function: &'f Function,
    /// Its graph.
    pub cfg: Cfg,
    /// Where its registers point.
    pub provenance: Provenance,
}

/// A step of the chain: two versions of one function.
pub struct Step<'f> {
    /// The versions.
    pub versions: [Version<'f>; 2],
    /// What the certificate claims at each meeting pair.
    pub pairs: &'f BTreeMap<Pair, Relation>,
    /// Positions of calls that the new function does not make.
    pub left_out: &'f BTreeSet<u32>,
    /// The object's functions, after and before all steps.
    pub callees: [&'f Object; 2],
}

/// Handles what a walk finds.
pub trait Visitor<'a> {
    /// Whether the known conditions decide a condition of the new function.
    fn decide(&mut self, known: &[Term<'a>], condition: Term<'a>) -> Option<bool>;
    /// Both reach an event: these must hold.
    ///
    /// # Errors
    /// Ends the walk.
    fn event(&mut self, known: &[Term<'a>], goals: Vec<Term<'a>>, what: &str) -> Result<(), String>;
    /// Both reach a pair.
    ///
    /// # Errors
    /// Ends the walk.
    fn meet(&mut self, known: &[Term<'a>], pair: Pair, states: [&State<'a>; 2]) -> Result<(), String>;
    /// Two paths that do not correspond: the known conditions must contradict each other. `at` is the position in the
    /// old function of the pair that the new one does not reach.
    ///
    /// # Errors
    /// Ends the walk.
    fn apart(&mut self, known: &[Term<'a>], what: &str, at: Option<u32>) -> Result<(), String>;
}

#[derive(Clone)]
struct Path<'a> {
    state: State<'a>,
    at: usize,
    steps: usize,
    seen: Vec<usize>,
}

#[derive(Clone)]
struct Joint<'a> {
    old: Path<'a>,
    new: Path<'a>,
    /// What is known on both paths.
    known: Vec<Term<'a>>,
    truths: HashSet<u32>,
    events: u32,
}

enum Stop {
    Pair,
    Event,
}

/// Walks all paths from a pair, from the states of its relation.
pub struct Walk<'w, 'a, 'f> {
    /// The terms' world.
    pub world: &'w World<'a>,
    /// The step.
    pub step: &'w Step<'f>,
    old_stops: BTreeMap<u32, BTreeSet<u32>>,
    start: Pair,
    paths: usize,
}

impl<'w, 'a, 'f> Walk<'w, 'a, 'f> {
    /// A walk over a step.
    pub fn new(world: &'w World<'a>, step: &'w Step<'f>) -> Walk<'w, 'a, 'f> {
        let mut old_stops: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (old, new) in step.pairs.keys() {
            old_stops.entry(*old).or_default().insert(*new);
        }
        Walk { world, step, old_stops, start: (0, 0), paths: 0 }
    }

    /// Walks from a pair, where `relation` holds.
    ///
    /// # Errors
    /// Returns what cannot be followed, or what the visitor refused.
    pub fn from(&mut self, pair: Pair, relation: &Relation, visitor: &mut dyn Visitor<'a>) -> Result<(), String> {
        let ([old, new], mut known) = relation.begin(self.world)?;
        for (version, (state, at)) in self.step.versions.iter().zip([(&old, pair.0), (&new, pair.1)]) {
            for reg in Reg::all().filter(|reg| version.provenance.class(at as usize, *reg) == Class::Packet) {
                let address = state.registers[reg.index()];
                known.push(address.ult(&address.like(PACKETS_END)));
            }
        }
        known.retain(|term| term.as_constant() != Some(1));
        let path = |state, at: u32| Path { state, at: at as usize, steps: 0, seen: Vec::new() };
        let truths = known.iter().map(|term| term.id()).collect();
        let joint = Joint { old: path(old, pair.0), new: path(new, pair.1), known, truths, events: 0 };
        (self.start, self.paths) = (pair, 0);
        let mut pending = vec![joint];
        while let Some(joint) = pending.pop() {
            self.go_on(joint, &mut pending, visitor)?;
        }
        Ok(())
    }

    fn node(&self, side: usize, at: usize) -> Result<&'w Node, String> {
        let function = self.step.versions[side].function;
        function.nodes.get(at).ok_or_else(|| "a path leaves the function".to_owned())
    }

    fn target(&self, side: usize, node: &Node) -> Result<usize, String> {
        let target = node.target().and_then(|id| self.step.versions[side].cfg.position.get(&id));
        target.copied().ok_or_else(|| format!("`{}` leads nowhere", node.insn))
    }

    fn position(&self, side: usize, id: InsnId) -> Result<usize, String> {
        let at = self.step.versions[side].cfg.position.get(&id);
        at.copied().ok_or_else(|| "a jump table leads nowhere".to_owned())
    }

    /// Follows both to the next pair or event.
    fn go_on(
        &mut self,
        mut joint: Joint<'a>,
        pending: &mut Vec<Joint<'a>>,
        visitor: &mut dyn Visitor<'a>,
    ) -> Result<(), String> {
        self.paths += 1;
        if self.paths > MAX_PATHS || self.world.arena.len() > MAX_TERMS {
            return Err(format!("more than {MAX_PATHS} paths or {MAX_TERMS} terms between meeting pairs"));
        }
        let old_stop = loop {
            let node = self.node(0, joint.old.at)?;
            let position = u32::try_from(joint.old.at).map_err(|_| "a listing is too long")?;
            if joint.old.steps > 0 && self.old_stops.contains_key(&position) {
                break Stop::Pair;
            }
            if is_event(&node.insn) {
                if !self.step.left_out.contains(&position) {
                    break Stop::Event;
                }
                self.leave_out(&mut joint, node)?;
                continue;
            }
            if let Some(other) = self.advance(0, &mut joint, None)? {
                pending.push(other);
            }
        };
        match old_stop {
            Stop::Pair => self.to_pair(joint, pending, visitor),
            Stop::Event => self.to_event(joint, pending, visitor),
        }
    }

    fn to_pair(
        &mut self,
        mut joint: Joint<'a>,
        pending: &mut Vec<Joint<'a>>,
        visitor: &mut dyn Visitor<'a>,
    ) -> Result<(), String> {
        let old = joint.old.at as u32;
        let places = &self.old_stops[&old].clone();
        loop {
            let pair = (old, joint.new.at as u32);
            // If the old function ran a loop iteration, the new one must also advance.
            if places.contains(&pair.1) && (pair != self.start || joint.new.steps > 0) {
                return visitor.meet(&known(&joint), pair, [&joint.old.state, &joint.new.state]);
            }
            let node = self.node(1, joint.new.at)?;
            if is_event(&node.insn) {
                let what = format!("`{}` of the new function before the pair at {old}", node.insn);
                return visitor.apart(&known(&joint), &what, Some(old));
            }
            match self.advance(1, &mut joint, Some(visitor)) {
                Ok(other) => pending.extend(other),
                // Unless the path is impossible: a contradiction decides a branch in any direction.
                Err(why) => return visitor.apart(&known(&joint), &why, None),
            }
        }
    }

    fn to_event(
        &mut self,
        mut joint: Joint<'a>,
        pending: &mut Vec<Joint<'a>>,
        visitor: &mut dyn Visitor<'a>,
    ) -> Result<(), String> {
        let old = self.node(0, joint.old.at)?;
        let new = loop {
            let node = self.node(1, joint.new.at)?;
            if is_event(&node.insn) {
                break node;
            }
            match self.advance(1, &mut joint, Some(visitor)) {
                Ok(other) => pending.extend(other),
                // Unless the path is impossible: a contradiction decides a branch in any direction.
                Err(why) => return visitor.apart(&known(&joint), &why, None),
            }
        };
        let core = |node: &Node| node.core.map(|id| self.world.object.core.get(id.index()));
        let same_goto = matches!((old.insn, new.insn), (Insn::MayGoto { .. }, Insn::MayGoto { .. }));
        let same_load = are_packet_loads(&old.insn, &new.insn) && old.core.is_none() && new.core.is_none();
        if !same_goto && !same_load && (old.insn, old.reference, core(old)) != (new.insn, new.reference, core(new)) {
            let what = format!("`{}` ({}) against `{}` ({})", old.insn, joint.old.at, new.insn, joint.new.at);
            return visitor.apart(&known(&joint), &what, None);
        }
        let what = format!("`{}` ({}, {})", old.insn, joint.old.at, joint.new.at);
        let event = self.event(&joint, old, new);
        let before = known(&joint);
        let goals = match event.pass(&mut joint.old.state, &mut joint.new.state) {
            Ok(goals) => goals,
            // Unless the path is impossible.
            Err(why) => return visitor.apart(&before, &format!("{what}: {why}"), None),
        };
        visitor.event(&before, goals, &what)?;
        joint.events += 1;
        let next = |path: &mut Path<'a>, at: usize| {
            path.at = at;
            path.steps += 1;
        };
        match old.insn {
            Insn::Exit => return Ok(()),
            Insn::JumpIndirect { .. } => {
                // Both have the same tables, in which the same address leads to the same instruction.
                for target in self.step.versions[0].function.jump_targets() {
                    let mut there = joint.clone();
                    next(&mut there.old, self.position(0, target)?);
                    next(&mut there.new, self.position(1, target)?);
                    pending.push(there);
                }
                return Ok(());
            }
            Insn::MayGoto { .. } => {
                let mut other = joint.clone();
                next(&mut other.old, self.target(0, old)?);
                next(&mut other.new, self.target(1, new)?);
                pending.push(other);
            }
            _ => {}
        }
        let (old, new) = (joint.old.at + 1, joint.new.at + 1);
        next(&mut joint.old, old);
        next(&mut joint.new, new);
        pending.push(joint);
        Ok(())
    }

    fn event<'e>(&'e self, joint: &Joint<'a>, node: &'e Node, other: &'e Node) -> Event<'e, 'a> {
        let provenance = &self.step.versions[0].provenance;
        let class = |reg: Reg| provenance.class(joint.old.at, reg);
        let callee = |object: &'f Object| object.functions.get(node.callee()?.index());
        Event {
            world: self.world,
            node,
            other,
            arguments: [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5].map(class),
            readable: RegSet::arguments(5).iter().filter(|reg| provenance.is_readable(joint.old.at, *reg)).collect(),
            number: joint.events,
            callees: self.step.callees.map(callee),
            leaks: provenance.leaks,
        }
    }

    fn leave_out(&self, joint: &mut Joint<'a>, node: &Node) -> Result<(), String> {
        let event = self.event(joint, node, node);
        event.leave_out(&mut joint.old.state)?;
        joint.events += 1;
        joint.old.at += 1;
        joint.old.steps += 1;
        Ok(())
    }

    /// Runs one instruction. Returns the state that takes the other direction of a branch.
    fn advance(
        &self,
        side: usize,
        joint: &mut Joint<'a>,
        visitor: Option<&mut dyn Visitor<'a>>,
    ) -> Result<Option<Joint<'a>>, String> {
        let version = &self.step.versions[side];
        let path = if side == 0 { &mut joint.old } else { &mut joint.new };
        let at = path.at;
        let node = self.node(side, at)?;
        if path.steps >= MAX_STEPS || path.seen.iter().filter(|seen| **seen == at).count() >= MAX_ROUNDS {
            return Err(format!("a path comes back to `{}` ({at}) without a meeting pair", node.insn));
        }
        path.steps += 1;
        let block = &version.cfg.blocks[version.cfg.block_of[at].index()];
        if block.range.start == at {
            path.seen.push(at);
        }
        let mut running =
            Running { world: self.world, state: &mut path.state, node, at, provenance: &version.provenance };
        match running.step()? {
            Flow::Next => {
                path.at += 1;
                Ok(None)
            }
            Flow::Jump => {
                path.at = self.target(side, node)?;
                Ok(None)
            }
            // In both directions it leads to the next instruction.
            Flow::Branch(_) if self.target(side, node)? == at + 1 => {
                path.at += 1;
                Ok(None)
            }
            Flow::Branch(condition) => self.branch(side, joint, node, condition, visitor),
            Flow::Indirect(_) | Flow::MayGoto | Flow::Call(_) | Flow::Exit => Err("an event is no step".to_owned()),
        }
    }

    fn branch(
        &self,
        side: usize,
        joint: &mut Joint<'a>,
        node: &Node,
        condition: Term<'a>,
        visitor: Option<&mut dyn Visitor<'a>>,
    ) -> Result<Option<Joint<'a>>, String> {
        let target = self.target(side, node)?;
        let negated = Term::not(&condition);
        let decided = match condition.as_constant() {
            Some(value) => Some(value == 1),
            None if joint.truths.contains(&condition.id()) => Some(true),
            None if joint.truths.contains(&negated.id()) => Some(false),
            None => visitor.and_then(|visitor| visitor.decide(&known(joint), condition)),
        };
        let go = |joint: &mut Joint<'a>, taken: bool| {
            let path = if side == 0 { &mut joint.old } else { &mut joint.new };
            path.at = if taken { target } else { path.at + 1 };
        };
        if let Some(taken) = decided {
            go(joint, taken);
            return Ok(None);
        }
        let mut other = joint.clone();
        for (joint, taken) in [(&mut *joint, false), (&mut other, true)] {
            let holds = if taken { condition } else { negated };
            joint.known.push(holds);
            joint.truths.insert(holds.id());
            go(joint, taken);
        }
        Ok(Some(other))
    }
}

/// What is known on both paths, with what is taken for granted.
fn known<'a>(joint: &Joint<'a>) -> Vec<Term<'a>> {
    let mut known = joint.known.clone();
    known.extend(joint.old.state.granted.iter().chain(&joint.new.state.granted));
    known.sort_by_key(|term| term.id());
    known.dedup();
    known
}
