//! How long a run may take: instructions, and time.
//!
//! Compiled code counts instructions in a register and asks [`refill`] when none are left. So a quantum of time costs a
//! loop nothing: the instructions are given in slices, and the clock is read between two of them.
//!
//! ```text
//!   loop:  sub r9, 7 ; jb spent          one slice after the other, 16,384 instructions at first
//!   spent: call refill                   more of the budget, and the quantum is not over:   back to the loop
//!                                        else, at a `may_goto`:                             its branch, with an allowance
//!                                        else, when the allowance is spent too:             the run stops
//! ```
//!
//! A `may_goto` is where a program can be cancelled in order: its branch leads to a landing pad that gives back what the
//! program holds and returns a stated value. The last [`ALLOWANCE`]th of the budget is kept for landing pads. Each further `may_goto` of a
//! cancelled run branches too. A run that does not come to a `may_goto` is stopped at the end of its budget; the VM gives back
//! what it holds. Once the quantum is over or the run is cancelled, [`OVERTIME`] is left of the budget at most.

use std::time::Duration;

use kiln_jit::Runtime;

use crate::clock;
use crate::state::State;

/// Whether a run asks for more budget on this machine, and so keeps a quantum: the JIT for 64-bit Arm does not, and the native
/// tier begins with the same. Without it, only [`Options::budget`](crate::Options::budget) ends a run.
pub const ASKS: bool = cfg!(target_arch = "x86_64");
/// The part of the budget that is kept for landing pads.
const ALLOWANCE: u64 = 8;
/// Instructions until the clock is read first.
const FIRST_SLICE: u64 = 16_384;
/// Instructions between two looks at the clock, at most.
const LONGEST_SLICE: u64 = 1 << 22;
/// Instructions that are left to a run when its quantum is over, or when it is cancelled: `kiln sandbox` leaves loops of 50,000 without a `may_goto`.
const OVERTIME: u64 = 1 << 20;
/// Instructions of these at a time until the run comes to a `may_goto`, and between two looks at the clock at least.
const SHORTEST_SLICE: u64 = 512;

/// Instructions that take about as long as a call of a helper, without the bytes that it reads or writes.
const HELPER: u64 = 64;
/// Bytes that a helper reads or writes in about the time of an instruction.
const BYTES_PER_INSTRUCTION: u64 = 8;

/// What a run has used of its budget and quantum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spending {
    /// Instructions that the run may take.
    budget: u64,
    /// Those that were given so far.
    given: u64,
    /// Nanoseconds that the run may take.
    quantum_ns: Option<u64>,
    slice: u64,
    /// When the clock was read first, and last.
    began_ns: Option<u64>,
    looked_ns: u64,
    /// Whether the quantum is over.
    over: bool,
    /// Whether a `may_goto` has branched.
    cancelled: bool,
}

/// A quantum in nanoseconds. Most runs have none, and do not wait for the multiplication.
#[cold]
fn nanoseconds(quantum: Duration) -> u64 {
    u64::try_from(quantum.as_nanos()).unwrap_or(u64::MAX)
}

impl Spending {
    /// Begins a run.
    #[inline]
    pub(crate) fn new(budget: u64, quantum: Option<Duration>) -> Spending {
        let quantum_ns = quantum.map(nanoseconds);
        let slice = if quantum.is_some() { FIRST_SLICE } else { u64::MAX };
        Spending { budget: budget.min(1 << 62), quantum_ns, slice, ..Spending::default() }
    }

    /// Instructions that were given so far.
    #[inline]
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// The first instructions of a run: all of them where code cannot ask for more.
    #[inline]
    pub(crate) fn first(&mut self) -> u64 {
        let first = if ASKS { self.slice.min(self.before_allowance()) } else { self.budget };
        self.give(first)
    }

    /// All that is left, for what handles an exception.
    pub(crate) fn rest(&mut self) -> u64 {
        let left = if ASKS { self.budget - self.given } else { self.budget };
        self.give(left)
    }

    /// More instructions for a run that has spent what it had; `None` stops it. The other answer is whether a `may_goto`
    /// that asks is to branch.
    pub(crate) fn more(&mut self, at_may_goto: bool) -> Option<(u64, bool)> {
        let before = self.before_allowance();
        if before > 0 && !self.cancelled && !self.is_over() {
            return Some((self.give(self.slice.min(before)), false));
        }
        if at_may_goto && !self.cancelled {
            self.cancelled = true;
            self.budget = self.budget.min(self.given + OVERTIME);
        }
        let left = self.budget - self.given;
        if left == 0 {
            return None;
        }
        if self.cancelled {
            // The next loop or call asks again, so that a `may_goto` there branches too; asking costs an instruction.
            self.give(1);
            return Some((0, at_may_goto));
        }
        Some((self.give(if self.over { left.min(SHORTEST_SLICE) } else { left }), false))
    }

    /// Whether a `may_goto` of the interpreter branches, after so many instructions.
    pub(crate) fn branches(&mut self, used: u64) -> bool {
        if used >= self.given && !self.cancelled {
            let before = self.before_allowance();
            self.cancelled = before == 0 || self.is_over();
            if !self.cancelled {
                self.give(self.slice.min(before));
            }
        }
        self.cancelled
    }

    /// Counts a helper that read or wrote so many bytes, in a run with a quantum. Returns by how many instructions the rest of the
    /// slice becomes shorter, so that the clock is read in time. They are taken from the budget only after the end of the quantum.
    #[inline]
    pub(crate) fn helper(&mut self, bytes: u64, left: u64) -> u64 {
        if self.quantum_ns.is_none() {
            return 0;
        }
        let counted = (HELPER + bytes / BYTES_PER_INSTRUCTION).min(left);
        if !self.over {
            self.given -= counted;
        }
        counted
    }

    #[inline]
    fn before_allowance(&self) -> u64 {
        (self.budget - self.budget / ALLOWANCE).saturating_sub(self.given)
    }

    #[inline]
    fn give(&mut self, instructions: u64) -> u64 {
        self.given += instructions;
        instructions
    }

    /// Reads the clock, and makes slices of about a 16th to a 4th of the quantum. At its end, the rest of the budget becomes
    /// small.
    fn is_over(&mut self) -> bool {
        let Some(quantum) = self.quantum_ns.filter(|_| !self.over) else { return self.over };
        let now = clock::now_ns(clock::Timer::Monotonic).unwrap_or(u64::MAX);
        match self.began_ns {
            None => self.began_ns = Some(now),
            Some(_) => {
                let slice_ns = now.saturating_sub(self.looked_ns);
                if slice_ns < quantum / 16 {
                    self.slice = (self.slice * 2).min(LONGEST_SLICE);
                } else if slice_ns > quantum / 4 {
                    self.slice = (self.slice / 4).max(SHORTEST_SLICE);
                }
            }
        }
        self.looked_ns = now;
        self.over = now.saturating_sub(self.began_ns.unwrap_or(now)) >= quantum;
        if self.over {
            self.budget = self.budget.min(self.given + OVERTIME);
        }
        self.over
    }
}

/// What a spent slice costs compiled code: the routine that compiled code asks.
pub(crate) extern "C" fn refill(runtime: *mut Runtime, at_may_goto: u64) -> u64 {
    // SAFETY: compiled code passes on the pointer it was entered with: to the `runtime` field, the first of a `State` (repr(C))
    // that outlives the run. While compiled code runs, nobody else refers to the state; the reference made here ends before
    // compiled code runs again.
    let state = unsafe { &mut *runtime.cast::<State>() };
    u64::from(state.refill(at_may_goto != 0))
}

impl State {
    /// Counts the helper that compiled code just called.
    #[inline]
    pub(crate) fn count_helper(&mut self) {
        let counted = self.spending.helper(self.memory.take_passed(), self.runtime.budget.max(0) as u64);
        self.runtime.budget -= counted as i64;
    }

    /// Gives a run more instructions if it has spent what it had and may go on. Returns whether the `may_goto` that asks is to
    /// branch.
    #[cold]
    pub(crate) fn refill(&mut self, at_may_goto: bool) -> bool {
        // A helper has stopped the run, or there is some left.
        if self.runtime.trap != 0 || self.runtime.budget >= 0 {
            return false;
        }
        match self.spending.more(at_may_goto) {
            Some((more, branches)) => {
                self.runtime.budget = self.runtime.budget.saturating_add(more as i64).max(0);
                branches
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_ends_within_its_budget() {
        for points in [[false; 3], [true; 3], [true, false, false], [false, true, false]] {
            for budget in [0, 1, 7, 8, 1000] {
                let mut spending = Spending::new(budget, None);
                let (mut given, mut asked) = (spending.first(), 0);
                while let Some((more, _)) = spending.more(points[asked % 3]) {
                    (given, asked) = (given + more, asked + 1);
                    assert!(asked <= 1000, "{points:?} of {budget}");
                }
                assert!(given <= budget && spending.given() == budget, "{points:?}: {given} of {budget}");
            }
        }
    }

    #[test]
    fn a_may_goto_branches_when_only_the_allowance_is_left() {
        let mut spending = Spending::new(800, None);
        assert_eq!(spending.first(), 700);
        for at_may_goto in [true, false].repeat(50) {
            assert_eq!(spending.more(at_may_goto), Some((0, at_may_goto)));
        }
        assert_eq!(spending.more(true), None);
        let mut interpreted = Spending::new(800, None);
        interpreted.first();
        assert!(!interpreted.branches(699));
        assert!(interpreted.branches(700) && interpreted.branches(701));
    }

    #[test]
    fn helpers_shorten_the_slice_and_not_the_budget() {
        assert_eq!(Spending::new(1 << 40, None).helper(1 << 20, 1 << 40), 0);
        let mut spending = Spending::new(1 << 40, Some(Duration::from_secs(1)));
        let first = spending.first();
        let counted = spending.helper(80_000, first);
        assert_eq!((counted, spending.given()), (HELPER + 10_000, first - counted));
        assert_eq!(spending.helper(80_000, first - counted), first - counted);
        assert_eq!(spending.given(), 0);
    }

    #[test]
    fn a_quantum_ends_a_run_at_a_may_goto() {
        let mut spending = Spending::new(1 << 40, Some(Duration::ZERO));
        assert_eq!(spending.first(), FIRST_SLICE);
        assert_eq!(spending.more(false), Some((SHORTEST_SLICE, false)));
        assert!(matches!(spending.more(true), Some((_, true))));
        while spending.more(true).is_some() {}
        assert_eq!(spending.given(), FIRST_SLICE + OVERTIME);
    }
}
