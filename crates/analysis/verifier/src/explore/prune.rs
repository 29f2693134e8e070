//! Ending paths early: a state that a kept one covers need not be explored again.
//!
//! ```text
//!   position 12:  kept A (its whole future was found safe)      current B
//!                 r6: 0..255, never decided anything            r6: 7..9
//!                 r7: packet, 14 bytes there                    r7: packet, 34 bytes there      A covers B
//!                 stack -8: never read again                    stack -8: something else
//! ```
//!
//! What is compared: registers that are live here, stack slots that may still be read (see `liveness`), numbers that a
//! decision in the future of A depended on (see `precision`), resources held. A state on the path to the current one
//! has no explored future yet: equal to it means that nothing ends this loop.

use kiln_isa::{Insn, Reg, RegSet};
use kiln_platform::Feature;

use super::kept::KeptState;
use super::search::Explorer;
use crate::error::{Step, reject};
use crate::explore::cover::{Exactness, bytes_cover, less_written, may_be_same, object_covers, register_covers, widen};
use crate::objects::iterator::iterators_moved;
use crate::path::Since;
use crate::reason::Reason;
use crate::state::ids::IdMap;
use crate::state::{Byte, Caller, Frame, Kind, Register, Slot, State};

/// Entries in the history of a path after which a state is kept in any case (kernel `is_state_visited`).
const LONG_HISTORY: u32 = 40;

impl Explorer<'_> {
    /// How states whose future is explored are compared.
    fn exactness(&self) -> Exactness {
        if self.path.findings.noted.exact_numbers { Exactness::Same } else { Exactness::Explored }
    }

    /// Whether a kept state covers the current one here; keeps the current one if it is worth it.
    pub(crate) fn is_covered(&mut self) -> Step<bool> {
        let (at, call_site) = (self.path.at, self.path.state.frame().call_site);
        let last = self.kept.at.last(at, call_site);
        self.clean_explored(last);
        let (covering, keep) = self.covering(last)?;
        if let Some(candidate) = covering {
            self.kept.states[candidate as usize].hits += 1;
            self.inherit(candidate);
            self.mark_path()?;
            return Ok(true);
        }
        if keep {
            self.keep_state();
        }
        Ok(false)
    }

    /// The last of the kept states here that covers the current one; and whether that is worth keeping where none does.
    fn covering(&mut self, last: u32) -> Step<(Option<u32>, bool)> {
        let forced = self.path.code.op(self.path.at).checkpoint || self.path.state.history > LONG_HISTORY;
        let since = self.processed - self.kept.processed_when_kept;
        let jumps = self.jumps - self.kept.jumps_when_kept;
        let mut keep = forced || jumps >= 2 && since >= 8;
        // The one after it that stays.
        let mut after = 0;
        let mut candidate = last;
        while candidate != 0 {
            let kept = &self.kept.states[candidate as usize];
            let before = kept.before;
            let Some(old) = kept.state.as_deref() else {
                (after, candidate) = (candidate, before);
                continue;
            };
            let covered = if kept.branches > 0 {
                let covered = self.is_turn_of_loop(kept, old)?;
                if !covered && !forced && jumps < 20 && since < 100 {
                    keep = false;
                }
                covered
            } else if self.kept.is_open(kept) {
                self.covers(kept, old, Exactness::Within)
            } else {
                self.covers(kept, old, self.exactness())
            };
            if covered {
                return Ok((Some(candidate), keep));
            }
            if !self.is_useless(candidate, keep) {
                after = candidate;
            } else if after == 0 {
                let call_site = self.path.state.frame().call_site;
                self.kept.at.set(self.path.at, call_site, before);
            } else {
                self.kept.states[after as usize].before = before;
            }
            candidate = before;
        }
        Ok((None, keep))
    }

    /// Computes which stack slots count for the states kept here whose future has been explored, once, and forgets their
    /// registers that are not read any more.
    fn clean_explored(&mut self, last: u32) {
        let mut candidate = last;
        while candidate != 0 {
            let kept = &self.kept.states[candidate as usize];
            let before = kept.before;
            if let (Some(old), None) = (kept.state.as_deref(), &kept.alive)
                && !self.kept.is_open(kept)
                && same_calls(old, &self.path.state)
            {
                let alive = self.path.findings.liveness.alive(self.path.code, old, kept.at);
                let kept = &mut self.kept.states[candidate as usize];
                kept.alive = Some(alive);
                if let Some(old) = kept.state.as_deref_mut() {
                    self.path.code.forget_unread(old, kept.at);
                }
            }
            candidate = before;
        }
    }

    /// Whether the current state need not be explored because it is a later turn of a loop that the kept state began:
    /// the paths of the kept state are not finished.
    fn is_turn_of_loop(&self, kept: &KeptState, old: &State) -> Step<bool> {
        // Another run of a callback that runs later is not a turn of a loop.
        if old.later_entries != self.path.state.later_entries {
            return Ok(false);
        }
        let op = self.path.code.op(self.path.at);
        if op.next_of_iterator {
            return Ok(self.path.state.iterator_is_active() && self.covers(kept, old, Exactness::Within));
        }
        if op.runs_callback() {
            return Ok(self.covers(kept, old, Exactness::Within));
        }
        let unrolled = old.may_goto_depth != self.path.state.may_goto_depth;
        if matches!(op.node.insn, Insn::MayGoto { .. }) && unrolled && self.covers(kept, old, Exactness::Within) {
            return Ok(true);
        }
        let compared = if self.path.options.kernel_has(Feature::UnreadForgotten) { op.live } else { RegSet::ALL };
        let exact = self.path.options.kernel_has(Feature::ExactLoops);
        let turns = if exact { Exactness::Same } else { Exactness::Explored };
        if !unrolled
            && old.callback_depth == self.path.state.callback_depth
            && may_be_same(old, &self.path.state, compared)
            && self.covers(kept, old, turns)
            && !iterators_moved(old, &self.path.state)
        {
            return reject(Reason::InfiniteLoop, "the state here is the same as one turn of the loop before");
        }
        Ok(false)
    }

    /// Notes that a kept state did not cover the current one; whether it never covers anything and is forgotten.
    fn is_useless(&mut self, candidate: u32, keep: bool) -> bool {
        let kept = &mut self.kept.states[candidate as usize];
        if keep {
            kept.misses += 1;
        }
        let patience = if self.path.code.op(self.path.at).checkpoint && kept.branches > 0 { 64 } else { 3 };
        if kept.misses <= kept.hits * patience + patience {
            return false;
        }
        self.kept.alive -= 1;
        if kept.branches == 0
            && !kept.pinned
            && let Some(state) = kept.state.take()
        {
            let bytes = self.kept.bytes_of(&state);
            self.kept.state_bytes = self.kept.state_bytes.saturating_sub(bytes);
        }
        true
    }

    /// Keeps the current state and gives its numbers cells. What nothing reads any more stays in it until its future is
    /// explored: widening compares it as well.
    fn keep_state(&mut self) {
        let last = self.path.state.frames.len() - 1;
        for index in 0..=last {
            let live = self.path.code.live_in_frame(&self.path.state, self.path.at, index);
            let frame = &mut self.path.state.frames[index];
            let origins = &mut self.path.findings.origins;
            for reg in live.iter() {
                let register = &mut frame.registers[reg.index()];
                if register.kind() == Kind::Scalar {
                    register.origin = origins.cell(register.origin);
                }
            }
            frame.stack.for_each_spilled_where(&|register| register.kind() == Kind::Scalar, &mut |register| {
                register.origin = origins.cell(register.origin);
            });
        }
        let state = self.path.state.clone();
        let parent = state.parent;
        self.kept.state_bytes += self.kept.bytes_of(&state);
        let visit = self.kept.visits.of(self.path.code, &state, self.path.at, self.strict_callbacks);
        let call_site = self.path.state.frame().call_site;
        let kept = KeptState {
            state: Some(Box::new(state)),
            at: self.path.at,
            before: self.kept.at.last(self.path.at, call_site),
            parent,
            branches: 1,
            hits: 0,
            misses: 0,
            alive: None,
            visit,
            pinned: false,
            exact: false,
        };
        self.kept.states.push(kept);
        let id = (self.kept.states.len() - 1) as u32;
        self.kept.visits.enter(visit, id);
        self.kept.at.set(self.path.at, call_site, id);
        self.kept.alive += 1;
        self.kept.peak = self.kept.peak.max(self.kept.alive);
        self.kept.processed_when_kept = self.processed;
        self.kept.jumps_when_kept = self.jumps;
        self.path.state.parent = id;
        self.path.state.history = 0;
    }

    /// Whether all that the kept state allows is allowed for the current one.
    fn covers(&self, kept: &KeptState, old: &State, exactness: Exactness) -> bool {
        let current = &self.path.state;
        if old.frames.len() != current.frames.len()
            || old.references.len() != current.references.len()
            || old.locks.len() != current.locks.len()
            || old.sleepable != current.sleepable
            || old.sections.rcu != current.sections.rcu
            || old.sections.preemption_off != current.sections.preemption_off
            || old.sections.interrupts.len() != current.sections.interrupts.len()
        {
            return false;
        }
        let mut ids = IdMap::default();
        for (index, (left, right)) in old.frames.iter().zip(&current.frames).enumerate() {
            if left.function != right.function || left.call_site != right.call_site || left.caller != right.caller {
                return false;
            }
            // The kept state's future has no more turns of a callback than these.
            if left.callback_turns > right.callback_turns {
                return false;
            }
            for reg in self.path.code.live_in_frame(old, kept.at, index).iter() {
                let (a, b) = (&left.registers[reg.index()], &right.registers[reg.index()]);
                if !register_covers(&self.path.findings.origins, a, b, &mut ids, exactness) {
                    return false;
                }
            }
            let read = kept.reads(index);
            if left.stack.same(&right.stack) && exactness != Exactness::Explored {
                continue;
            }
            let reached = right.stack.slots().len();
            for (slot, a) in left.stack.slots().iter().enumerate().filter(|(slot, _)| read >> slot & 1 != 0) {
                // As in the kernel, a slot below all that a frame used is not taken for any number.
                let missing = slot >= reached && !a.is_unknown();
                if missing || !self.slot_covers(a, right.stack.slot(slot), &mut ids, exactness) {
                    return false;
                }
            }
            if exactness != Exactness::Explored && left.stack.slots().len() > reached {
                return false;
            }
            // What the kept state never wrote but read (as anything) may now hold a pointer.
            if !self.uncovered_reads_fit(left.stack.slots().len(), right.stack.slots(), read, exactness) {
                return false;
            }
        }
        let held = old.references.iter().zip(&current.references);
        let locks = old.locks.iter().zip(&current.locks);
        let same_locks =
            locks.into_iter().all(|(a, b)| a.kind == b.kind && a.allocation == b.allocation && ids.matches(a.id, b.id));
        let mut flags = old.sections.interrupts.iter().zip(&current.sections.interrupts);
        same_locks && held.into_iter().all(|(a, b)| ids.matches(a.id, b.id)) && flags.all(|(a, b)| ids.matches(*a, *b))
    }

    fn uncovered_reads_fit(&self, known: usize, slots: &[Slot], read: u64, exactness: Exactness) -> bool {
        let pointer = |slot: &Slot| slot.bytes[0] == Byte::Spill && slot.register.is_pointer();
        exactness != Exactness::Explored
            || self.recorder.is_none()
            || !slots.iter().enumerate().skip(known).any(|(index, slot)| read >> index & 1 != 0 && pointer(slot))
    }

    fn slot_covers(&self, old: &Slot, current: &Slot, ids: &mut IdMap, exactness: Exactness) -> bool {
        match (&old.object, &current.object) {
            (Some(old), Some(current)) => return object_covers(old, current, ids),
            (Some(_), None) => return false,
            (None, Some(_)) if exactness == Exactness::Same => return false,
            _ => {}
        }
        // Kernel `stacksafe`.
        if exactness != Exactness::Explored && old.bytes != current.bytes {
            return false;
        }
        if self.path.options.stack_must_be_written() && less_written(old, current) {
            return false;
        }
        if let (Some(old), Some(current)) = (old.as_number(), current.as_number())
            && exactness != Exactness::Same
        {
            return register_covers(&self.path.findings.origins, old, current, ids, exactness);
        }
        // Unknown bytes cover any bytes, except that facts do not let a pointer stand for a number.
        let anything = current.register.kind() == Kind::Scalar
            || self.recorder.is_none() && !self.path.options.stack_must_be_written();
        let registers = old.bytes[0] == Byte::Spill;
        bytes_cover(&old.bytes, &current.bytes, anything)
            && (!registers
                || register_covers(&self.path.findings.origins, &old.register, &current.register, ids, exactness))
    }

    /// Makes all numbers of the path precise where what a packet load returned became so. The path is rejected where
    /// the kernel loses track of one.
    pub(super) fn mark_path(&mut self) -> Step<()> {
        if self.path.findings.origins.take_lost() {
            return reject(
                Reason::LostPrecision,
                "a decision depends on a number that the caller kept while a packet load failed in its function: the \
                 kernel cannot trace it back to before the call",
            );
        }
        if self.path.findings.origins.take_everything() {
            self.kept.mark_path(&mut self.path.findings.origins, self.path.state.parent);
        }
        Ok(())
    }

    /// The path ends in a kept state: what its future depends on, the current path's past depends on.
    fn inherit(&mut self, candidate: u32) {
        let kept = &self.kept.states[candidate as usize];
        let Some(old) = kept.state.as_deref() else { return };
        let mut cleaned = None;
        let old = match kept.alive {
            Some(_) => old,
            None => {
                let old = cleaned.insert(old.clone());
                self.path.code.forget_unread(old, kept.at);
                &*old
            }
        };
        let early = !self.strict_callbacks && !self.kept.is_open(kept) && is_in_callback(old);
        let open = self.kept.is_open(kept) || early;
        let visit = kept.visit;
        self.path.findings.noted.reads_uninitialized_stack |=
            self.kept.leaves_less_written(kept, old, &self.path.state, open);
        let mut matter = Vec::new();
        for (left, right) in old.frames.iter().zip(&self.path.state.frames) {
            for (a, b) in left.registers.iter().zip(&right.registers) {
                if a.kind() == Kind::Scalar && self.path.findings.origins.is_precise(a.origin) {
                    matter.push(b.origin);
                } else if open && a.kind() == Kind::Scalar {
                    self.path.findings.origins.follow(a.origin, b.origin);
                }
            }
            for (slot, a) in left.stack.slots().iter().enumerate() {
                let current = right.stack.slot(slot);
                if a.bytes[0] != Byte::Spill || a.register.kind() != Kind::Scalar || current.bytes[0] != Byte::Spill {
                    continue;
                }
                if self.path.findings.origins.is_precise(a.register.origin) {
                    matter.push(current.register.origin);
                } else if open {
                    self.path.findings.origins.follow(a.register.origin, current.register.origin);
                }
            }
        }
        self.path.findings.origins.mark_all(matter);
        if let Some(recorder) = &mut self.recorder {
            recorder.pruned(self.path.at, old, &self.path.state);
        }
        match (open, early) {
            (_, true) => self.covered_early(candidate),
            (true, false) => self.kept.visits.ended_within(visit),
            (false, false) => {}
        }
    }

    /// Remembers a cover that holds by what matters so far: a later turn of the callback may say that more does.
    fn covered_early(&mut self, candidate: u32) {
        let state = Box::new(self.path.state.clone());
        self.kept.state_bytes += size_of::<State>() + state.frames.len() * size_of::<Frame>();
        self.kept.early.push((candidate, state, self.path.at));
        self.kept.states[candidate as usize].pinned = true;
    }

    /// Whether states in callbacks that were covered early are still covered, now that all is explored.
    pub(crate) fn early_covers_hold(&mut self) -> bool {
        for (candidate, state, at) in std::mem::take(&mut self.kept.early) {
            (self.path.state, self.path.at) = (*state, at);
            let kept = &self.kept.states[candidate as usize];
            let Some(old) = kept.state.as_deref() else { return false };
            let alive = self.path.findings.liveness.alive(self.path.code, old, kept.at);
            self.kept.states[candidate as usize].alive = Some(alive);
            let kept = &self.kept.states[candidate as usize];
            if !kept.state.as_deref().is_some_and(|old| self.covers(kept, old, self.exactness())) {
                return false;
            }
        }
        true
    }

    /// Makes numbers unknown that changed since the last time a position was kept on this path and that nothing depended on.
    pub(super) fn widen(&self, state: &mut State, Since { site, skip_last, all }: Since) {
        let mut ancestor = state.parent;
        while ancestor != 0 {
            let kept = &self.kept.states[ancestor as usize];
            let Some(old) = kept.state.as_deref() else { return };
            let here = kept.at == site;
            if here && !(skip_last && ancestor == state.parent) && same_calls(old, state) {
                break;
            }
            ancestor = old.parent;
        }
        let Some(old) = self.kept.states[ancestor as usize].state.as_deref() else { return };
        let top = state.frames.len().saturating_sub(1);
        let mut ids = IdMap::default();
        for (depth, (left, right)) in old.frames.iter().zip(&mut state.frames).enumerate().rev() {
            let all = all && depth == top;
            let mut widen = |old: &Register, current: &mut Register| {
                widen(&self.path.findings.origins, old, current, &mut ids, all);
            };
            let live = self.path.code.live_in_frame(old, site, depth);
            for reg in Reg::all() {
                // No cell was made for what nothing reads.
                let mut a = left.registers[reg.index()];
                a.origin = if live.contains(reg) { a.origin } else { 0 };
                widen(&a, &mut right.registers[reg.index()]);
            }
            for (slot, a) in left.stack.slots().iter().enumerate() {
                let current = *right.stack.slot(slot);
                if a.bytes[0] == Byte::Spill && current.bytes[0] == Byte::Spill {
                    let mut widened = current.register;
                    widen(&a.register, &mut widened);
                    if widened != current.register {
                        right.stack.slot_mut(slot).register = widened;
                    }
                }
            }
        }
    }
}

/// Whether it is in a callback that may run again.
fn is_in_callback(state: &State) -> bool {
    state.frames.iter().any(|frame| matches!(frame.caller, Caller::Callback { .. }))
}

/// Whether both are in the same functions, called from the same places.
fn same_calls(old: &State, current: &State) -> bool {
    old.frames.iter().map(|frame| frame.call_site).eq(current.frames.iter().map(|frame| frame.call_site))
}
