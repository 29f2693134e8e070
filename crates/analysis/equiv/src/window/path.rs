//! The state on one path through a window, and the join of two paths.
//!
//! ```text
//!   if r1 == 0 goto L      two ways from here:  [r1 == 0] waits at L, [r1 != 0] goes on
//!   r2 = 5                 on the second only
//! L:                       both meet: r2 = (r1 == 0 ? r2 : 5), on the way that the two began as
//! ```
//!
//! A path is the list of its conditions. Where two paths meet, equal parts of the state stay, and different values
//! become a choice. Different histories become a new one, numbered by the choice and the two.

use std::collections::BTreeSet;

use kiln_isa::Reg;
use kiln_isa::semantics::BitVec;

use crate::term::{QuickMap, Term, TermId};
use crate::window::class::{Class, Event, EventKind, Log};
use crate::window::memory::World;

/// What a register holds.
#[derive(Clone, Copy)]
pub(crate) enum Slot<'a> {
    /// What it held before the window.
    Initial,
    /// This term.
    Written(Term<'a>),
    /// Not readable on some path.
    Lost,
}

/// A byte that the window wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Written {
    /// Its value.
    pub value: TermId,
    /// Whether it was written on every path, so that a load of it reads nothing older.
    pub surely: bool,
}

/// The state on one path.
#[derive(Clone)]
pub(crate) struct Path<'a> {
    pub registers: [Slot<'a>; Reg::COUNT],
    /// Bytes written after the current history of their class, if the class is not logged.
    pub bytes: QuickMap<(u16, i64), Written>,
    /// The history of each group of classes, if it is not `base`.
    pub logs: QuickMap<Class, Log>,
    /// The history of all memory but this frame and the context.
    pub base: Log,
    /// The last event that moved the packet.
    pub packet: Log,
    /// How often a byte of shared memory was loaded after a history of its class.
    pub looks: QuickMap<(u16, i64, Log), u8>,
    /// The conditions of this path.
    pub conditions: Vec<Term<'a>>,
}

impl<'a> Path<'a> {
    /// The state before a window.
    pub fn new() -> Path<'a> {
        Path {
            registers: [Slot::Initial; Reg::COUNT],
            bytes: QuickMap::default(),
            logs: QuickMap::default(),
            base: 0,
            packet: 0,
            looks: QuickMap::default(),
            conditions: Vec::new(),
        }
    }

    /// The history of a group.
    pub fn log(&self, group: Class) -> Log {
        let base = if matches!(group, Class::Stack(0) | Class::Context) { 0 } else { self.base };
        self.logs.get(&group).copied().unwrap_or(base)
    }

    /// The current value of the byte at a place.
    pub fn byte(&self, world: &World<'a>, (root, offset): (u16, i64)) -> Term<'a> {
        match self.bytes.get(&(root, offset)) {
            Some(written) => world.arena.term(written.value),
            None => world.byte(root, offset, self.log(world.modes.group(world.root(root).class))),
        }
    }

    /// The value of a byte of memory that others may write at any time: each load has a value of its own.
    pub fn look(&mut self, world: &World<'a>, (root, offset): (u16, i64), log: Log) -> Term<'a> {
        let looks = self.looks.entry((root, offset, log)).or_default();
        let before = *looks;
        *looks = before.saturating_add(1);
        if before == 0 {
            return world.byte(root, offset, log);
        }
        // The same for all bytes of a word, so that a pointer that is loaded whole stays one.
        let (kind, place) = (EventKind::Look(before), (root, offset & !7));
        world.byte(root, offset, world.record(Event { before: log, kind, place, operands: Vec::new() }))
    }

    /// The register's value; `None` if it is not readable.
    pub fn register(&self, world: &World<'a>, reg: Reg) -> Option<Term<'a>> {
        match self.registers[reg.index()] {
            Slot::Written(term) => Some(term),
            Slot::Initial => world.register(reg),
            Slot::Lost => None,
        }
    }

    /// The condition of being on this path; `None`: always.
    pub fn condition(&self) -> Option<Term<'a>> {
        all(&self.conditions)
    }

    /// Joins this path with another one that excludes it.
    #[must_use]
    pub fn join(self, other: Path<'a>, world: &World<'a>) -> Path<'a> {
        let common = self.conditions.iter().zip(&other.conditions).take_while(|(a, b)| a.id() == b.id()).count();
        let (Some(own), Some(others)) = (all(&self.conditions[common..]), all(&other.conditions[common..])) else {
            // One of them has no further condition, so it is the path on which both began, and the other one is
            // impossible.
            return if self.conditions.len() == common { self } else { other };
        };
        let mut conditions = self.conditions[..common].to_vec();
        if Term::not(&own).id() != others.id() && Term::not(&others).id() != own.id() {
            conditions.push(own.or(&others));
        }
        let choose = |a: &Term<'a>, b: &Term<'a>| Term::ite(&own, a, b);
        let registers = std::array::from_fn(|index| {
            let reg = Reg::new(index as u8).expect("there are eleven");
            match (self.registers[index], other.registers[index]) {
                (Slot::Initial, Slot::Initial) => Slot::Initial,
                _ => match (self.register(world, reg), other.register(world, reg)) {
                    (Some(a), Some(b)) if a.id() == b.id() => Slot::Written(a),
                    (Some(a), Some(b)) => Slot::Written(choose(&a, &b)),
                    _ => Slot::Lost,
                },
            }
        });
        let places: BTreeSet<_> = self.bytes.keys().chain(other.bytes.keys()).copied().collect();
        let mut bytes = QuickMap::default();
        for place in places {
            let (a, b) = (self.byte(world, place), other.byte(world, place));
            let surely = |path: &Path<'_>| path.bytes.get(&place).is_some_and(|written| written.surely);
            let value = if a.id() == b.id() { a } else { choose(&a, &b) };
            bytes.insert(place, Written { value: value.id(), surely: surely(&self) && surely(&other) });
        }
        let history = |a: Log, b: Log| match a == b {
            true => a,
            false => {
                let (place, operands) = ((0, i64::from(b)), vec![own.id()]);
                world.record(Event { before: a, kind: EventKind::Join, place, operands })
            }
        };
        let groups: BTreeSet<_> = self.logs.keys().chain(other.logs.keys()).copied().collect();
        let logs = groups.into_iter().map(|group| (group, history(self.log(group), other.log(group)))).collect();
        let base = history(self.base, other.base);
        let packet = history(self.packet, other.packet);
        let mut looks = self.looks;
        for (place, times) in other.looks {
            let own = looks.entry(place).or_default();
            *own = times.max(*own);
        }
        Path { registers, bytes, logs, base, packet, looks, conditions }
    }
}

/// The conjunction of conditions; `None` if there are none.
fn all<'a>(conditions: &[Term<'a>]) -> Option<Term<'a>> {
    conditions.iter().copied().reduce(|a, b| a.and(&b))
}
