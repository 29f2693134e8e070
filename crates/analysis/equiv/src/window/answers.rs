//! A store of answers, and a journal of how queries were settled.
//!
//! The same query comes back: in the next round of passes, in another function, from another rule. Its place does not
//! matter, so a query is stored without the ids of its instructions, and with only those facts and live registers that
//! it depends on:
//!
//! ```text
//!   @17 r1 = r2; @18 r1 <<= 32; @19 r1 >>= 32  =>  @19 w1 = w2      \  one question: instructions, facts of r1 and r2,
//!   @61 r1 = r2; @62 r1 <<= 32; @63 r1 >>= 32  =>  @63 w1 = w2      /  whether r1 is read afterwards
//! ```
//!
//! An answer is used only if everything is equal, not just the hashes. Maps, functions and relocations are compared by
//! their numbers, so a store serves one object. A stored answer adds no counterexample to the caller's tester, so
//! parallel callers have a store each ([`Answers::beside`]): otherwise their results would depend on which of them
//! asked first. Who asks ahead of its turn has a store over that of the others ([`Answers::over`]), and what it learned is
//! added when its turn comes ([`Answers::add`]).

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{CoreId, Node, Reference};
use kiln_verifier::{StackSet, Value};

use crate::window::limits::Limits;
use crate::window::question::Window;
use crate::window::record::WindowRecord;
use crate::window::verdict::Verdict;

/// Who settled a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Settled {
    /// The store had the answer.
    Before,
    /// A concrete run shows a difference.
    Tests,
    /// The rules about accesses, calls and order: the windows cannot be compared term by term.
    Form,
    /// Both have the same normal form.
    NormalForm,
    /// The solver found no difference.
    SolverEqual,
    /// The solver found one.
    SolverDifferent,
    /// Nobody: the windows count as different.
    Nobody,
}

impl Settled {
    /// All of them.
    pub const ALL: [Settled; 7] = [
        Settled::Before,
        Settled::Tests,
        Settled::Form,
        Settled::NormalForm,
        Settled::SolverEqual,
        Settled::SolverDifferent,
        Settled::Nobody,
    ];
}

/// A question that was asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// What settled it.
    pub settled: Settled,
    /// Nanoseconds that it took.
    pub nanoseconds: u64,
}

/// A question that is stored: its number in the order of storing, and its answer.
type Known = (usize, Question, Verdict);

/// Stored questions by their keys.
#[derive(Debug, Default)]
struct Stored {
    known: HashMap<u64, Vec<Known>>,
    count: usize,
}

/// A store of answers with its journal.
#[derive(Debug, Default)]
pub struct Answers {
    stored: Mutex<Stored>,
    /// A store that is asked too.
    under: Option<Arc<Answers>>,
    journal: Arc<Mutex<Vec<Asked>>>,
}

/// Maximum number of stored answers.
const KEPT: usize = 1 << 16;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answers {
    /// An empty store that writes to the same journal.
    pub fn beside(&self) -> Answers {
        Answers { journal: self.journal.clone(), ..Answers::default() }
    }

    /// An empty store over another one: what that one has, or comes to have, is not kept again.
    pub fn over(under: &Arc<Answers>) -> Answers {
        Answers { under: Some(under.clone()), ..under.beside() }
    }

    /// Adds the answers of another store, in the order in which they were given.
    pub fn add(&self, other: Answers) {
        let stored = other.stored.into_inner().unwrap_or_else(PoisonError::into_inner);
        let by_key = stored.known.into_iter();
        let mut all: Vec<(u64, Known)> =
            by_key.flat_map(|(key, same)| same.into_iter().map(move |one| (key, one))).collect();
        all.sort_by_key(|(_, (number, ..))| *number);
        for (key, (_, question, verdict)) in all {
            if self.stored(key, &question).is_none() {
                self.keep(key, question, &verdict);
            }
        }
    }

    fn stored(&self, key: u64, question: &Question) -> Option<Verdict> {
        let stored = locked(&self.stored);
        let same = stored.known.get(&key).and_then(|known| known.iter().find(|(_, other, _)| other == question));
        same.map(|(_, _, verdict)| verdict.clone())
    }

    /// The answer to a question, from the store or from `settle`.
    pub(crate) fn answer(
        &self,
        window: &Window<'_>,
        limits: &Limits,
        settle: impl FnOnce() -> (Verdict, Settled),
    ) -> Verdict {
        let begin = Instant::now();
        let question = Question::of(window, limits);
        let key = question.key();
        let known = self.stored(key, &question).or_else(|| self.under.as_ref()?.stored(key, &question));
        let known = known.map(|verdict| match verdict {
            Verdict::Equal(proof) => {
                let record = limits.keep_query.then(|| Box::new(WindowRecord::of(window)));
                Verdict::Equal(crate::Proof { record, micros: begin.elapsed().as_micros() as u64, ..proof })
            }
            other => other,
        });
        let (verdict, settled) = match known {
            Some(known) => (known, Settled::Before),
            None => {
                let (verdict, settled) = settle();
                self.keep(key, question, &verdict);
                (verdict, settled)
            }
        };
        let nanoseconds = begin.elapsed().as_nanos() as u64;
        locked(&self.journal).push(Asked { settled, nanoseconds });
        verdict
    }

    fn keep(&self, key: u64, question: Question, verdict: &Verdict) {
        let mut stored = locked(&self.stored);
        if stored.known.len() < KEPT {
            let number = stored.count;
            stored.count += 1;
            stored.known.entry(key).or_default().push((number, question, verdict.clone()));
        }
    }

    /// Records that a question was not asked, because the caller remembered the answer.
    pub fn remembered(&self) {
        locked(&self.journal).push(Asked { settled: Settled::Before, nanoseconds: 0 });
    }

    /// Returns the journal and empties it.
    pub fn take_journal(&self) -> Vec<Asked> {
        std::mem::take(&mut *locked(&self.journal))
    }
}

/// An instruction without its id.
type Step = (Insn, Reference, Option<CoreId>, Option<Place>);

/// Where a branch leads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    /// To a position in its own window.
    Inside(usize),
    /// Out of the window: the number of the target, in the order in which targets are first named.
    Outside(usize),
}

/// Everything that an answer depends on.
#[derive(PartialEq, Debug)]
struct Question {
    before: Vec<Step>,
    after: Vec<Step>,
    facts: Option<([Option<Value>; Reg::COUNT], BTreeMap<i16, Value>, u32)>,
    live: (RegSet, StackSet),
    exits: Vec<([u8; Reg::COUNT], StackSet)>,
    limits: (u32, u32),
}

impl Question {
    fn of(window: &Window<'_>, limits: &Limits) -> Question {
        let mut outside = Vec::new();
        let mut steps =
            |nodes: &[Node]| nodes.iter().map(|node| step(nodes, node, &mut outside)).collect::<Vec<Step>>();
        let (before, after) = (steps(window.before), steps(window.after));
        let nodes = || window.before.iter().chain(window.after);
        let calls = nodes().any(|node| matches!(node.insn, Insn::Call(_) | Insn::LoadPacket { .. }));
        let touched: RegSet = nodes().fold(RegSet::EMPTY, |set, node| {
            set.union(node.insn.read()).union(node.insn.written().into_iter().collect())
        });
        let depends = |index: usize| calls || Reg::new(index as u8).is_some_and(|reg| touched.contains(reg));
        let plain = |insn: &Insn| insn.address().is_none() && !matches!(insn, Insn::Call(_) | Insn::LoadPacket { .. });
        let memory = nodes().any(|node| !plain(&node.insn));
        let facts = window.facts.map(|facts| {
            let register = |index: usize| depends(index).then(|| facts.registers[index].clone());
            let (stack, packet) = if memory { (facts.stack.clone(), facts.packet_bytes) } else { Default::default() };
            (std::array::from_fn(register), stack, packet)
        });
        let changed = if calls { RegSet::ALL } else { touched };
        let live = window.live_after.iter().filter(|reg| changed.contains(*reg)).collect();
        let stack = if memory { window.stack_live_after } else { StackSet::EMPTY };
        let exits = outside.iter().map(|target| match window.exits.iter().find(|exit| Some(exit.target) == *target) {
            Some(exit) => (exit.bits, exit.stack_live),
            None => ([u8::MAX; Reg::COUNT], StackSet::EMPTY),
        });
        let exits = exits.collect();
        Question { before, after, facts, live: (live, stack), exits, limits: (limits.tests, limits.solver_steps) }
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.before, &self.after, self.limits).hash(&mut hasher);
        hasher.finish()
    }
}

fn step(nodes: &[Node], node: &Node, outside: &mut Vec<Option<kiln_program::InsnId>>) -> Step {
    let leads = node.insn.is_control() && !matches!(node.insn, Insn::Exit);
    let place = leads.then(|| match nodes.iter().position(|other| Some(other.id) == node.target()) {
        Some(inside) => Place::Inside(inside),
        None => {
            let known = outside.iter().position(|target| *target == node.target());
            Place::Outside(known.unwrap_or_else(|| {
                outside.push(node.target());
                outside.len() - 1
            }))
        }
    });
    let reference = if leads { Reference::None } else { node.reference };
    (node.insn, reference, node.core, place)
}
