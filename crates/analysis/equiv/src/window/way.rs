//! A path through a function, run over terms instruction by instruction.

use kiln_isa::semantics::{BitVec, Flow, execute};
use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::Node;
use kiln_verifier::InsnFacts;

use crate::term::{QuickMap, Term, TermId};
use crate::window::calls::EventUse;
use crate::window::class::{Class, Log};
use crate::window::memory::World;
use crate::window::path::{Path, Slot, Written};
use crate::window::state::{Access, Holes, State, Stop};

/// Maximum number of terms. Hostile arithmetic reaches it.
pub const TERMS: usize = 100_000;

/// The beginning of a path through a function: what differs from the initial state of the world.
#[derive(Default)]
pub struct Start<'a> {
    /// What registers hold; `None`: not readable.
    pub registers: [Option<Term<'a>>; Reg::COUNT],
    /// Bytes of memory.
    pub bytes: Vec<((u16, i64), TermId)>,
}

/// The state at the end of a path.
#[derive(Clone, Debug)]
pub struct WayEnd {
    /// Registers; `None`: not readable.
    pub registers: [Option<TermId>; Reg::COUNT],
    /// Bytes written, where their class is not logged.
    pub bytes: QuickMap<(u16, i64), TermId>,
    /// The history of each logged class.
    pub logs: QuickMap<Class, Log>,
    /// All accesses, in order.
    pub accesses: Vec<Access>,
    /// The conditions of this path.
    pub conditions: Vec<TermId>,
    /// What the event at its end does with the frame.
    pub uses: EventUse,
}

/// One instruction of a path through a function.
#[derive(Clone, Copy)]
pub struct WayStep<'w> {
    /// The instruction.
    pub node: &'w Node,
    /// For a branch: whether the path takes it.
    pub taken: bool,
    /// What is known after it.
    pub behind: Option<&'w InsnFacts>,
    /// Whether an atomic operation counts as a load, an operation and a store with nothing in between.
    pub in_parts: bool,
}

/// Runs a path through a function. `event` is the instruction at its end, which is not run, with the arguments that are
/// known to be scalars.
///
/// # Errors
/// A [`Stop`] where it cannot be followed.
pub fn run_way<'a, 'w>(
    world: &World<'a>,
    start: &Start<'a>,
    steps: impl Iterator<Item = WayStep<'w>>,
    event: Option<(&'w Node, RegSet)>,
) -> Result<WayEnd, Stop> {
    let holes = Holes::default();
    let mut run = WayRun::new(world, &holes, start);
    for step in steps {
        run.step(step)?;
    }
    Ok(run.end(event))
}

/// A path through a function that is run instruction by instruction. A copy continues from the same point.
#[derive(Clone)]
pub struct WayRun<'w, 'a> {
    state: State<'w, 'a>,
    conditions: Vec<TermId>,
}

impl<'w, 'a> WayRun<'w, 'a> {
    /// A path at its beginning.
    pub fn new(world: &'w World<'a>, holes: &'w Holes<'a>, start: &Start<'a>) -> WayRun<'w, 'a> {
        let mut path = Path::new();
        path.registers = start.registers.map(|term| term.map_or(Slot::Lost, Slot::Written));
        path.bytes = start.bytes.iter().map(|(at, value)| (*at, Written { value: *value, surely: true })).collect();
        WayRun { state: State::new(world, holes, path), conditions: Vec::new() }
    }

    /// Runs the next instruction.
    ///
    /// # Errors
    /// A [`Stop`] where it cannot be followed.
    pub fn step(&mut self, step: WayStep<'w>) -> Result<(), Stop> {
        let WayStep { node, taken, behind, in_parts } = step;
        let world = self.state.world;
        if world.arena.len() > TERMS {
            return Err(Stop::Limit);
        }
        (self.state.node, self.state.in_parts) = (Some(node), in_parts);
        // Calls end a path, except calls that only return a value which is not read.
        if let Insn::Call(_) = node.insn {
            RegSet::CALLER_SAVED.iter().for_each(|reg| self.state.path.registers[reg.index()] = Slot::Lost);
            return Ok(());
        }
        match execute(&node.insn, &mut self.state)? {
            Flow::Next => {}
            Flow::Branch(condition) if node.core.is_none() => {
                self.conditions.push(if taken { condition.id() } else { Term::not(&condition).id() });
            }
            _ => return Err(Stop::Unsupported(format!("`{}`", node.insn))),
        }
        if let (Insn::Load { dst, .. }, Some(known)) = (node.insn, behind)
            && let Slot::Written(term) = self.state.path.registers[dst.index()]
        {
            world.learn(term.id(), &known.registers[dst.index()]);
        }
        Ok(())
    }

    /// The conditions of this path so far.
    pub fn conditions(&self) -> &[TermId] {
        &self.conditions
    }

    /// All accesses so far, in order.
    pub fn accesses(&self) -> &[Access] {
        &self.state.accesses
    }

    /// Returns the current state. `event` is the next instruction, with the arguments that are known to be scalars.
    pub fn end(self, event: Option<(&Node, RegSet)>) -> WayEnd {
        let WayRun { state, conditions } = self;
        let uses = event.map(|(node, numbers)| state.event_use(node, numbers)).unwrap_or_default();
        let State { path, accesses, .. } = state;
        let registers = path.registers.map(|slot| match slot {
            Slot::Written(term) => Some(term.id()),
            Slot::Initial | Slot::Lost => None,
        });
        let bytes = path.bytes.iter().map(|(place, written)| (*place, written.value)).collect();
        WayEnd { registers, bytes, logs: path.logs, accesses, conditions, uses }
    }
}
