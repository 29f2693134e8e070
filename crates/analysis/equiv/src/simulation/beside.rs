//! New ways that are run beside one old way, instruction by instruction.
//!
//! Which way the new function goes is decided branch by branch. The old way is run once, and each new way goes on from
//! where it was at its last branch: a new way of many branches would otherwise be run from its start for each of them.

use kiln_isa::Insn;
use kiln_program::Node;

use crate::simulation::known::Known;
use crate::simulation::segment::{OldRun, Step};
use crate::simulation::unproved::Unproved;
use crate::window::check::modes_for;
use crate::window::state::Holes;
use crate::window::way::{TERMS, WayRun, WayStep};

/// A new way on its way, beside a whole old way.
#[derive(Clone)]
pub struct NewRun<'w, 'a> {
    old: &'w OldRun<'a>,
    run: WayRun<'w, 'a>,
    known: Known,
    /// Steps that were run.
    done: usize,
}

/// What a new way's branch does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// What is known decides it: whether it is taken.
    Decided(bool),
    /// No form tells.
    Open,
    /// Both ways must be run from their start, because memory is modelled otherwise then or the arena is full.
    Alone,
}

impl<'w, 'a> NewRun<'w, 'a> {
    /// A new way at its beginning.
    pub fn new(old: &'w OldRun<'a>, holes: &'w Holes<'a>) -> NewRun<'w, 'a> {
        NewRun { old, run: WayRun::new(&old.world, holes, &old.start), known: old.known.clone(), done: 0 }
    }

    /// What the branch behind these steps does. The first of them are those of earlier calls.
    ///
    /// # Errors
    /// Why the way cannot be followed.
    pub fn decide(&mut self, steps: &[Step<'w>], branch: &'w Node) -> Result<Decision, Unproved> {
        let world = &self.old.world;
        for step in &steps[self.done..] {
            // Whether an atomic operation is run in parts depends on how many there are on the whole way.
            if matches!(step.node.insn, Insn::Atomic { .. }) {
                return Ok(Decision::Alone);
            }
            self.step(step.node, step.taken)?;
        }
        self.done = steps.len();
        if world.arena.len() > TERMS / 2 {
            return Ok(Decision::Alone);
        }
        let accesses: Vec<_> = self.old.accesses.iter().chain(self.run.accesses()).copied().collect();
        if modes_for(world, &accesses) != world.modes {
            return Ok(Decision::Alone);
        }
        let mut run = self.run.clone();
        run.step(WayStep { node: branch, taken: true, behind: None, in_parts: false }).map_err(stopped)?;
        let condition = run.conditions().last().expect("the branch is the last");
        Ok(self.known.decides(world, *condition).map_or(Decision::Open, Decision::Decided))
    }

    fn step(&mut self, node: &'w Node, taken: bool) -> Result<(), Unproved> {
        let before = self.run.conditions().len();
        self.run.step(WayStep { node, taken, behind: None, in_parts: false }).map_err(stopped)?;
        for condition in &self.run.conditions()[before..] {
            self.known.add(&self.old.world, *condition);
        }
        Ok(())
    }
}

fn stopped(stop: crate::window::state::Stop) -> Unproved {
    Unproved::of("the new way", &stop)
}
