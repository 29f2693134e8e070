//! The states that are kept, to end later paths early: where each is found, and what became of its paths.

use super::cover::less_written;
use super::places::Places;
use super::search::FEW_STATES;
use super::visits::{Visit, Visits};
use crate::code::{Code, Position};
use crate::path::precision::Origins;
use crate::state::{Frame, Kind, Slot, Stack, State};

/// One kept state, and what is known of its future.
pub(super) struct KeptState {
    pub state: Option<Box<State>>,
    pub at: Position,
    /// The one kept before it for the same position and call, 0 for none.
    pub before: u32,
    pub parent: u32,
    /// Paths from here that are not finished.
    pub branches: u32,
    pub hits: u32,
    pub misses: u32,
    /// Slots of its frames that may still be read, computed once its future is explored; before, all of them count.
    pub alive: Option<Vec<u64>>,
    /// The visit of a loop that it belongs to.
    pub visit: Visit,
    /// It covers a state of [`Kept::early`].
    pub pinned: bool,
    /// All its numbers are precise, and those of the states before it on its path.
    pub exact: bool,
}

/// All kept states.
pub(crate) struct Kept {
    pub(super) states: Vec<KeptState>,
    /// States that are worth comparing with, by position and by the call that made their last frame.
    pub(super) at: Places,
    pub(super) visits: Visits,
    /// States in callbacks, with what covered them and where, before all turns of the callback were explored.
    pub(super) early: Vec<(u32, Box<State>, Position)>,
    /// Bytes of the states that are kept, stacks that several share counted once.
    pub(super) state_bytes: usize,
    pub(super) alive: u64,
    pub(super) peak: u64,
    pub(super) processed_when_kept: u64,
    pub(super) jumps_when_kept: u64,
}

impl Kept {
    pub(crate) fn new(code: &Code<'_>) -> Kept {
        let root = KeptState {
            state: None,
            at: 0,
            before: 0,
            parent: 0,
            branches: 1,
            hits: 0,
            misses: 0,
            alive: None,
            visit: 0,
            pinned: false,
            exact: false,
        };
        let mut states = Vec::with_capacity(FEW_STATES);
        states.push(root);
        Kept {
            states,
            at: Places::new(code.ops.len()),
            visits: Visits::default(),
            early: Vec::new(),
            state_bytes: 0,
            alive: 0,
            peak: 0,
            processed_when_kept: 0,
            jumps_when_kept: 0,
        }
    }

    /// Another function begins to be explored: what was kept stays, paths start anew.
    pub(crate) fn next_root(&mut self) {
        self.states[0].branches = 1;
    }

    /// Bytes that all of it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.state_bytes + self.states.len() * size_of::<KeptState>()
    }

    /// Bytes of a state, without the stacks that it shares with the one it came from.
    pub(super) fn bytes_of(&self, state: &State) -> usize {
        let before = self.states[state.parent as usize].state.as_deref();
        let shared = |at: usize, stack: &Stack| {
            before.is_some_and(|before| before.frames.get(at).is_some_and(|frame| frame.stack.same(stack)))
        };
        let own = state.frames.iter().enumerate().filter(|(at, frame)| !shared(*at, &frame.stack));
        let slots: usize = own.map(|(_, frame)| frame.stack.slots().len()).sum();
        size_of::<State>() + state.frames.len() * size_of::<Frame>() + slots * size_of::<Slot>()
    }

    /// The most states kept at one time.
    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    /// Kept states in all.
    pub(crate) fn total(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// One more path goes on from the kept state.
    pub(crate) fn path_forked(&mut self, parent: u32) {
        self.states[parent as usize].branches += 1;
    }

    /// A path that came from the kept state is finished.
    pub(crate) fn path_ended(&mut self, mut parent: u32) {
        loop {
            let kept = &mut self.states[parent as usize];
            kept.branches = kept.branches.saturating_sub(1);
            if kept.branches > 0 || parent == 0 {
                return;
            }
            self.visits.leave(kept.visit, parent);
            parent = kept.parent;
        }
    }

    /// Makes all numbers of a state and of those before it on its path precise.
    pub(crate) fn mark_path(&mut self, origins: &mut Origins, mut at: u32) {
        while at != 0 && !self.states[at as usize].exact {
            let kept = &mut self.states[at as usize];
            kept.exact = true;
            at = kept.parent;
            for frame in kept.state.iter().flat_map(|state| &state.frames) {
                let numbers = frame.registers.iter().chain(frame.stack.spilled());
                for number in numbers.filter(|register| register.kind() == Kind::Scalar) {
                    origins.mark(number.origin);
                }
            }
        }
        origins.take_everything();
        origins.take_lost();
    }

    /// The current path wrote less of the stack than the kept state's future (all of it, while that is `open`) reads:
    /// what was written there is not written here.
    pub(super) fn leaves_less_written(&self, kept: &KeptState, old: &State, current: &State, open: bool) -> bool {
        let mut frames = old.frames.iter().zip(&current.frames).enumerate();
        frames.any(|(index, (left, right))| {
            let read = if open { u64::MAX } else { kept.reads(index) };
            let mut slots = left.stack.slots().iter().enumerate();
            slots.any(|(index, slot)| read >> index & 1 != 0 && less_written(slot, right.stack.slot(index)))
        })
    }

    /// The state's future is not explored: some path from it waits, or one ended in a state of the same visit of a loop.
    pub(super) fn is_open(&self, kept: &KeptState) -> bool {
        kept.branches > 0 || self.visits.is_open(kept.visit)
    }
}

impl KeptState {
    /// The slots of a frame that count.
    pub(super) fn reads(&self, frame: usize) -> u64 {
        self.alive.as_ref().and_then(|alive| alive.get(frame)).copied().unwrap_or(u64::MAX)
    }
}
