//! Paths of the new function, run beside one path of the old function.
//!
//! Each branch of the new function is decided on the path so far. The old path is run once, and a new path continues
//! from its last branch. Otherwise a new path would be run from its start for each of its branches.

use kiln_isa::Insn;
use kiln_program::Node;

use crate::simulation::known::Known;
use crate::simulation::segment::{OldRun, Step};
use crate::simulation::unproved::Unproved;
use crate::window::check::modes_for;
use crate::window::state::Holes;
use crate::window::way::{TERMS, WayRun, WayStep};

/// A path of the new function as far as it was run, beside a complete path of the old function.
#[derive(Clone)]
pub struct NewRun<'w, 'a> {
    old: &'w OldRun<'a>,
    run: WayRun<'w, 'a>,
    known: Known,
    /// Steps that were run.
    done: usize,
}

/// Where a branch of the new function goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// What is known decides whether it is taken.
    Decided(bool),
    /// The normal forms do not decide it.
    Open,
    /// Both paths must be run again from their start, because memory must be modelled differently or the arena is full.
    Alone,
}

impl<'w, 'a> NewRun<'w, 'a> {
    /// A path of the new function at its beginning.
    pub fn new(old: &'w OldRun<'a>, holes: &'w Holes<'a>) -> NewRun<'w, 'a> {
        NewRun { old, run: WayRun::new(&old.world, holes, &old.start), known: old.known.clone(), done: 0 }
    }

    /// Decides the branch after these steps. The steps begin with those of earlier calls.
    ///
    /// # Errors
    /// Returns why the path cannot be followed.
    pub fn decide(&mut self, steps: &[Step<'w>], branch: &'w Node) -> Result<Decision, Unproved> {
        let world = &self.old.world;
        for step in &steps[self.done..] {
            // Whether an atomic operation is run in parts depends on their number on the whole path.
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
