//! A path of the old function and the path of the new one that goes with it.
//!
//! Both begin at a cut where a [`Relation`] holds and end at the next one. The proof shows: if the old function takes
//! its path, the new one takes the other, and at the end memory is equal, the arguments of the event are equal, and the
//! relation at the end holds.

use std::collections::BTreeSet;

use kiln_isa::semantics::BitVec;
use kiln_isa::{Insn, RegSet};
use kiln_program::{Node, Object};
use kiln_verifier::InsnFacts;

use crate::simulation::alike::is_same;
use crate::simulation::known::Known;
use crate::simulation::name::{byte_at, frame};
use crate::simulation::relation::Relation;
use crate::simulation::unproved::Unproved;
use crate::term::smt;
use crate::term::solver::{self, Answer};
use crate::term::{Arena, TermId};
use crate::window::calls::EventUse;
use crate::window::check::{modes_for, relevant_assumptions};
use crate::window::class::{Class, Modes, is_frozen};
use crate::window::memory::World;
use crate::window::shared::shared_memory_kept;
use crate::window::state::Access;
use crate::window::way::{Start, WayEnd, WayStep, run_way};

/// One instruction of a path.
#[derive(Clone, Copy, Debug)]
pub struct Step<'f> {
    /// The instruction.
    pub node: &'f Node,
    /// For a branch: whether the path takes it.
    pub taken: bool,
    /// For a branch of the new function: whether the old path does not decide it, so that each direction is a path of
    /// its own.
    pub open: bool,
    /// For a load of the old function: what is known after it.
    pub behind: Option<&'f InsnFacts>,
}

/// What must hold at the end, besides equal memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct End {
    /// Description of the instruction at the end.
    pub what: String,
    /// Registers that the event reads.
    pub reads: RegSet,
    /// Registers that the event overwrites, so that they may differ.
    pub overwrites: RegSet,
    /// What holds afterwards; none at an exit.
    pub relation: Option<Relation>,
    /// Whether no run takes both paths. Nothing else is then asked.
    pub never: bool,
    /// For a classic packet load: the register and the constant whose sum is the index, in each function.
    pub index: Option<[(u8, i32); 2]>,
    /// Those of the bytes that may differ which nothing reads from here on.
    pub unread: BTreeSet<i32>,
}

impl End {
    /// Whether the end only asks that everything is equal in both functions.
    pub fn asks_identity(&self) -> bool {
        !self.never
            && self.index.is_none_or(|[old, new]| old == new)
            && self.relation.as_ref().is_none_or(Relation::asks_identity)
    }
}

/// Two paths and the relation at their beginning.
pub struct Segment<'f> {
    /// The object.
    pub object: &'f Object,
    /// What is known where the old path begins.
    pub facts: Option<&'f InsnFacts>,
    /// The relation where both begin.
    pub start: &'f Relation,
    /// Whether the old function reads, from there on, none of the bytes of the frame that may differ there.
    pub differs_unread: bool,
    /// The old path and the new one.
    pub ways: [&'f [Step<'f>]; 2],
    /// The event at the end, if any, and its arguments that are known to be scalars.
    pub event: Option<(&'f Node, RegSet)>,
}

/// Both paths, run.
pub struct Ran<'a> {
    /// The world that they share.
    pub world: World<'a>,
    /// The state at the end of each.
    pub ends: [WayEnd; 2],
    /// The conditions of the branches on each.
    pub conditions: [Vec<TermId>; 2],
    /// What is known where both begin.
    pub given: Option<TermId>,
}

/// A path of the old function that was run by itself.
pub struct OldRun<'a> {
    /// The world that it shares with a new path.
    pub world: World<'a>,
    /// Its accesses.
    pub accesses: Vec<Access>,
    /// Where the new path begins.
    pub start: Start<'a>,
    /// What is known on the old path.
    pub known: Known,
}

/// How a segment was proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proved {
    /// Both paths leave the same normal forms.
    Normalized,
    /// The solver found no difference.
    Smt,
}

impl<'f> Segment<'f> {
    /// Runs both paths.
    ///
    /// # Errors
    /// Returns why one of them cannot be followed.
    pub fn run<'a>(&self, arena: &'a Arena) -> Result<Ran<'a>, Unproved>
    where
        'f: 'a,
    {
        self.run_as(arena, self.is_alike())
    }

    /// Runs both paths, or one for both if they are `alike`.
    fn run_as<'a>(&self, arena: &'a Arena, alike: bool) -> Result<Ran<'a>, Unproved>
    where
        'f: 'a,
    {
        let ran = self.run_in(arena, Modes::default(), None, alike)?;
        let accesses: Vec<_> = ran.ends.iter().flat_map(|end| &end.accesses).copied().collect();
        let needed = modes_for(&ran.world, &accesses);
        if needed == ran.world.modes {
            return Ok(ran);
        }
        self.run_in(arena, needed, None, alike)
    }

    /// Runs the old path, for new paths that are run beside it.
    ///
    /// # Errors
    /// Returns why it cannot be followed.
    pub fn run_old<'a>(&self, arena: &'a Arena) -> Result<OldRun<'a>, Unproved>
    where
        'f: 'a,
    {
        let Ran { world, ends: [old, _], given, .. } = self.run_as(arena, false)?;
        let [_, start] = self.start.start(&world);
        let mut known = Known::default();
        for condition in given.iter().chain(&old.conditions) {
            known.add(&world, *condition);
        }
        Ok(OldRun { world, accesses: old.accesses, start, known })
    }

    fn run_in<'a>(
        &self,
        arena: &'a Arena,
        modes: Modes,
        follow: Option<&World<'_>>,
        alike: bool,
    ) -> Result<Ran<'a>, Unproved>
    where
        'f: 'a,
    {
        let world = World::new(arena, self.object, self.facts, modes);
        world.follow(follow);
        let [old, new] = self.start.start(&world);
        let steps = |side: usize| {
            let way = move |step: &Step<'f>| {
                let Step { node, taken, behind, .. } = *step;
                WayStep { node, taken, behind, in_parts: side == 1 && self.is_in_parts(node) }
            };
            self.ways[side].iter().map(way)
        };
        let given = self.start.given(&old);
        let old = run_way(&world, &old, steps(0), self.event).map_err(|stop| Unproved::of("the old way", &stop))?;
        let mut new = match alike {
            true => WayEnd { uses: EventUse::default(), ..old.clone() },
            false => run_way(&world, &new, steps(1), None).map_err(|stop| Unproved::of("the new way", &stop))?,
        };
        let frame_logged = world.modes.is_logged(Class::Stack(0));
        if frame_logged && !(self.start.differ.is_empty() && self.start.failed.is_empty()) {
            if !(self.differs_unread && loads_with(&old.accesses, &new.accesses)) {
                return Err(Unproved::differs(
                    "stack bytes differ where the frame may be accessed through any pointer",
                ));
            }
            forget_overwritten(&world, &mut new);
        }
        let conditions = [old.conditions.clone(), new.conditions.clone()];
        Ok(Ran { world, ends: [old, new], conditions, given })
    }

    /// Whether both paths run the same instructions on the same values.
    pub fn is_alike(&self) -> bool {
        let [old, new] = self.ways;
        let same = |(one, other): (&Step<'_>, &Step<'_>)| is_same(one.node, other.node) && one.taken == other.taken;
        let steps = old.len() == new.len() && old.iter().zip(new).all(same);
        steps && self.start.is_identity() && self.start.held[0] == self.start.held[1]
    }

    /// Whether an atomic operation of the new path counts as a load, an operation and a store: it does if the old path
    /// does not have it and nothing receives the old value.
    ///
    /// Such an operation does what its three parts do when no other processor writes the place between the load and the
    /// store, which is one of the executions of the parts. All other orders are stronger: a bare `lock` operation is a
    /// full barrier on x86, and is unordered in the kernel's memory model, as plain accesses are. So the new way does
    /// nothing that the old one could not, if its parts may stand for the old accesses ([`shared_memory_kept`]). The
    /// converse does not hold: an atomic operation of the old way is an event that the new way must have.
    ///
    /// Registers and offsets may have changed. So an operation that was one on the old way, too, counts as one, and so do
    /// all of them where the old way has as many of this kind at this offset. That claims more, so it is always sound.
    fn is_in_parts(&self, node: &Node) -> bool {
        let is_atomic = |step: &Step<'_>| matches!(step.node.insn, Insn::Atomic { .. });
        let same = |step: &Step<'_>| {
            let stays = step.node.id == node.id && is_atomic(step);
            stays || step.node.insn == node.insn && step.node.reference == node.reference
        };
        let is_bare = matches!(node.insn, Insn::Atomic { op, fetch: false, .. } if !op.row().always_fetch);
        let kind = |insn: &Insn| match *insn {
            Insn::Atomic { op, fetch, size, address, .. } => Some((op, fetch, size, address.offset)),
            _ => None,
        };
        let count =
            |side: usize| self.ways[side].iter().filter(|step| kind(&step.node.insn) == kind(&node.insn)).count();
        is_bare && node.core.is_none() && !self.ways[0].iter().any(same) && count(0) < count(1)
    }

    /// The conditions that hold on these paths: those of the old path's branches, and those of the new path's open
    /// branches.
    fn holds(&self, ran: &Ran<'_>) -> Vec<TermId> {
        let branches = self.ways[1].iter().filter(|step| is_branch(step.node));
        let open = branches.zip(&ran.conditions[1]).filter(|(step, _)| step.open).map(|(_, condition)| *condition);
        ran.given.into_iter().chain(ran.conditions[0].iter().copied()).chain(open).collect()
    }

    /// The pairs of terms that must be equal.
    fn pairs(&self, ran: &Ran<'_>, end: &End) -> Result<Vec<(TermId, TermId)>, Unproved> {
        let arena = ran.world.arena;
        let truth = arena.constant(1, 1).id();
        if end.never {
            return Ok(vec![(arena.constant(1, 0).id(), truth)]);
        }
        let branches = self.ways[1].iter().filter(|step| is_branch(step.node));
        let decided = branches.zip(&ran.conditions[1]).filter(|(step, _)| !step.open);
        let mut pairs: Vec<_> = decided.map(|(_, condition)| (*condition, truth)).collect();
        for reg in end.reads.iter() {
            match [0, 1].map(|side: usize| ran.ends[side].registers[reg.index()]) {
                [Some(old), Some(new)] => pairs.push((old, new)),
                [Some(_), None] => return Err(Unproved::Differs(format!("{reg} is read and may differ"))),
                [None, _] => {}
            }
        }
        if let Some(indices) = end.index {
            let mut index = indices.iter().zip(&ran.ends).map(|((reg, offset), end)| {
                let term = end.registers[usize::from(*reg)]
                    .ok_or_else(|| Unproved::Differs(format!("r{reg} is not readable")))?;
                let low = arena.term(term).extract(0, 32);
                Ok::<TermId, Unproved>(low.add(&low.like(u64::from(*offset as u32))).id())
            });
            if let (Some(old), Some(new)) = (index.next(), index.next()) {
                pairs.push((old?, new?));
            }
        }
        pairs.extend(self.memory(ran, end)?);
        if let Some(relation) = &end.relation {
            pairs.extend(relation.demands(&ran.world, &ran.ends, end.overwrites)?);
        }
        Ok(pairs)
    }

    fn memory(&self, ran: &Ran<'_>, end: &End) -> Result<Vec<(TermId, TermId)>, Unproved> {
        let [old, new] = &ran.ends;
        let changing = |accesses: &[Access]| -> Vec<Access> {
            accesses.iter().filter(|access| !is_frozen(self.object, access.class)).copied().collect()
        };
        shared_memory_kept(&changing(&old.accesses), &changing(&new.accesses)).map_err(Unproved::differs)?;
        if old.logs != new.logs {
            return Err(Unproved::differs("stores that may alias or are ordered differ"));
        }
        let frame = frame(&ran.world);
        let mut places: Vec<_> = old.bytes.keys().chain(new.bytes.keys()).copied().collect();
        places.sort_unstable();
        places.dedup();
        let may_differ = |root: u16, offset: i64| match &end.relation {
            _ if root != frame => false,
            // The frame ends with the function.
            None => true,
            Some(relation) => i32::try_from(offset).is_ok_and(|byte| {
                let filled = old.uses.fills(offset)
                    && (!old.uses.fills_on_success
                        || relation.failed.contains(&byte)
                        || relation.differ.contains(&byte));
                (filled || relation.differ.contains(&byte)) && (end.unread.contains(&byte) || !old.uses.reads(offset))
            }),
        };
        places.retain(|(root, offset)| !may_differ(*root, *offset));
        let byte = |end: &WayEnd, (root, offset): (u16, i64)| match end.bytes.get(&(root, offset)) {
            Some(term) => *term,
            None => ran.world.byte(root, offset, 0).id(),
        };
        Ok(places.into_iter().map(|place| (byte(old, place), byte(new, place))).collect())
    }

    /// Proves that `end` holds.
    ///
    /// # Errors
    /// Returns what was not proved.
    pub fn prove(&self, end: &End, steps: u32) -> Result<Proved, Unproved> {
        let arena = Arena::new();
        let ran = self.run(&arena)?;
        let pairs = self.pairs(&ran, end)?;
        let mut known = Known::default();
        let possible = self.holds(&ran).into_iter().all(|condition| known.add(&ran.world, condition));
        let mut open: Vec<_> = pairs.into_iter().filter(|(one, other)| one != other).collect();
        open.retain(|(one, other)| !known.says_equal(&ran.world, *one, *other));
        if open.is_empty() || !possible {
            return Ok(Proved::Normalized);
        }
        let assumptions = self.assumptions(&ran, &open);
        match solver::ask(&arena, &assumptions, &open, steps) {
            Answer::Equal => Ok(Proved::Smt),
            Answer::Different(_) => Err(Unproved::Differs(format!("they differ before {}", end.what))),
            Answer::Unknown => Err(Unproved::OutOfEffort(format!("the solver gave up before {}", end.what))),
        }
    }

    /// Whether the solver proves these bytes of the frame equal at the end of both paths.
    pub fn bytes_agree(&self, ran: &Ran<'_>, bytes: &BTreeSet<i32>, steps: u32) -> bool {
        if bytes.is_empty() {
            return true;
        }
        let frame = frame(&ran.world);
        let byte = |byte: &i32, side: usize| byte_at(&ran.world, &ran.ends[side], frame, i64::from(*byte));
        let pairs: Vec<_> = bytes.iter().map(|at| (byte(at, 0), byte(at, 1))).collect();
        let assumptions = self.assumptions(ran, &pairs);
        matches!(solver::ask(ran.world.arena, &assumptions, &pairs, steps), Answer::Equal)
    }

    /// Whether the last branch of the new path must go in the path's direction, if the branches before it do.
    ///
    /// # Errors
    /// Returns why one of the paths cannot be followed.
    pub fn decides_last(&self, steps: u32) -> Result<bool, Unproved> {
        let arena = Arena::new();
        let mut ran = self.run(&arena)?;
        let Some(last) = ran.conditions[1].pop() else { return Ok(false) };
        let mut assumptions = std::mem::take(&mut ran.conditions[1]);
        let pairs = [(last, arena.constant(1, 1).id())];
        assumptions.extend(self.assumptions(&ran, &pairs));
        Ok(matches!(solver::ask(&arena, &assumptions, &pairs, steps), Answer::Equal))
    }

    fn assumptions(&self, ran: &Ran<'_>, pairs: &[(TermId, TermId)]) -> Vec<TermId> {
        let holds = self.holds(ran);
        let roots = holds.iter().map(|id| (*id, *id)).chain(pairs.iter().copied()).collect::<Vec<_>>();
        let mut assumptions = relevant_assumptions(&ran.world, &roots);
        assumptions.extend(ran.world.packets_end(&roots.iter().flat_map(|(a, b)| [*a, *b]).collect::<Vec<_>>()));
        assumptions.extend(holds);
        assumptions
    }

    /// Whether no run takes both paths, because the conditions of their branches contradict each other.
    pub fn is_impossible(&self, steps: u32) -> bool {
        let end = End { never: true, ..End::default() };
        self.prove(&end, steps).is_ok()
    }

    /// The SMT-LIB query, from terms that are not normalized.
    ///
    /// # Errors
    /// Returns why there is no query.
    pub fn query(&self, end: &End) -> Result<String, Unproved> {
        let (normal, literal) = (Arena::new(), Arena::literal());
        // Both paths are run, because the second run takes its places from the first.
        let ran = self.run_as(&normal, false)?;
        self.pairs(&ran, end)?;
        let ran = self.run_in(&literal, ran.world.modes.clone(), Some(&ran.world), false)?;
        let mut pairs = self.pairs(&ran, end)?;
        pairs.extend(ran.world.obligations());
        // Pairs of the same term are left out, unless there are no others.
        if pairs.iter().any(|(one, other)| one != other) {
            pairs.retain(|(one, other)| one != other);
        }
        let assumptions = self.assumptions(&ran, &pairs);
        Ok(smt::query(&literal, &assumptions, &pairs))
    }
}

/// Whether the new path loads only where the old path loads too, after the same number of stores. If no load of the old
/// path reads some byte, then no load of the new path does.
fn loads_with(old: &[Access], new: &[Access]) -> bool {
    let place = |access: &Access| (access.root, access.offset, access.bytes, access.writes, access.ordered);
    let mut rest = old.iter();
    // A store of the old path is not passed over.
    new.iter().all(|own| {
        let goes_with = |other: &&Access| other.writes || place(other) == place(own);
        rest.find(goes_with).is_some_and(|other| place(other) == place(own))
    })
}

/// Both paths make the same stores, so bytes of the frame that one overwrites are equal again.
fn forget_overwritten(world: &World<'_>, end: &mut WayEnd) {
    let frame = frame(world);
    let stores = end.accesses.iter().filter(|access| access.writes && access.root == frame);
    for byte in stores.flat_map(|access| access.offset..access.offset + i64::from(access.bytes)) {
        end.bytes.remove(&(frame, byte));
    }
}

/// Whether an instruction is a conditional branch.
pub fn is_branch(node: &Node) -> bool {
    matches!(node.insn, kiln_isa::Insn::Branch { .. })
}

impl Default for End {
    fn default() -> End {
        End {
            what: String::new(),
            reads: RegSet::EMPTY,
            overwrites: RegSet::EMPTY,
            relation: None,
            never: false,
            index: None,
            unread: BTreeSet::new(),
        }
    }
}
