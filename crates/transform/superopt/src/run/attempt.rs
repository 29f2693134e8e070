//! The rounds: each pass is tried on all functions at once, and a refusal is narrowed down to the step to blame.
//!
//! Passes that do not look at facts go on where the pass before them ended, so what they do together is proved and verified
//! once. If that is refused, each of them is tried by itself.
//!
//! ```text
//!   windows           uses facts     \
//!   available-value                   |--> one proof, one verification, whose facts the next pass uses
//!   shared-register                  /
//!   diamonds          uses facts
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use kiln_program::{Function, FunctionId, InsnId, Object};

use crate::evidence::Evidence;
use crate::passes::{PASSES, Pass, SEARCHES, Work};
use crate::run::state::{Accepted, Rounds, Run, Wave};
use crate::timings::Stopwatch;

/// How often a pass may be refused on one function before it is skipped there. Each refusal costs several
/// verifications.
const MAX_REFUSALS: usize = 6;
/// How often passes may be refused together before each is tried by itself.
const MAX_REFUSALS_TOGETHER: usize = 2;
/// Maximum number of consecutive rounds that change something and save nothing.
const IDLE_ROUNDS: usize = 4;
/// Time between two checks whether to stop, while a search runs.
const BETWEEN_STEPS: Duration = Duration::from_millis(50);
/// Number of snapshots from which the judge is asked, so that only the one that it accepts must be kept.
const MANY_SNAPSHOTS: usize = 24;

/// A copy of a function that has jump tables.
fn tabled(object: &Object, id: FunctionId) -> Option<Function> {
    let function = object.function(id);
    (!function.tables.is_empty()).then(|| function.clone())
}

/// Whether a rewrite removed an instruction that a jump table leads to, or referred to another.
fn lost_target(before: &Function, after: &Function) -> bool {
    let ids: BTreeSet<InsnId> = after.nodes.iter().map(|node| node.id).collect();
    before.tables != after.tables || before.jump_targets().iter().any(|target| !ids.contains(target))
}

impl Run<'_> {
    /// Runs the passes and searches of a wave, and asks the judge if that is due.
    pub fn advance(&mut self, wave: Wave, deadline: Instant) {
        if Instant::now() >= deadline {
            self.cut_short = true;
            self.settle();
            return;
        }
        (self.wave, self.deadline) = (wave, deadline);
        self.checkpoint = halfway(deadline);
        self.cut_short = false;
        self.searched.cut_short = false;
        if wave.begins_anew {
            self.rounds = Rounds::default();
        }
        self.run_rounds();
        let is_due = wave.settles || self.cut_short;
        if is_due && self.settle() {
            self.rounds = Rounds::default();
            self.run_rounds();
        }
    }

    fn run_rounds(&mut self) {
        for _ in 0..self.wave.rounds {
            if !std::mem::take(&mut self.rounds.counted) {
                let mut least = self.rounds.least;
                self.rounds.idle = if self.lowers(&mut least) { 0 } else { self.rounds.idle + 1 };
                self.rounds.least = least;
            }
            if self.rounds.idle >= IDLE_ROUNDS {
                return;
            }
            if Instant::now() >= self.checkpoint || self.trail.len() > MANY_SNAPSHOTS {
                self.settle();
                self.checkpoint = halfway(self.deadline);
            }
            let mut changed = false;
            for group in PASSES.chunk_by(|_, next| !next.uses_facts()) {
                let (done, together) = self.attempt_together(group);
                changed |= together;
                for pass in &group[done..] {
                    if !self.may_go_on(pass) {
                        return;
                    }
                    changed |= self.attempt_unless_idle(pass);
                }
            }
            let functions = self.called();
            let mut searches = SEARCHES.iter().take(self.wave.efforts);
            if !changed && !searches.any(|pass| self.may_go_on(pass) && self.search(pass, &functions)) {
                self.cut_short |= self.searched.cut_short || Instant::now() >= self.deadline;
                self.rounds.counted = true;
                return;
            }
        }
    }

    /// Whether all programs together are cheaper than ever before in slots, estimated time or processed instructions.
    /// Each of these can fall only finitely often.
    fn lowers(&self, least: &mut [u64; 3]) -> bool {
        let programs = self.part.programs.iter().map(|id| (*id, &self.object.programs[id.index()]));
        let mut now = [0; 3];
        for (id, program) in programs {
            now[0] += u64::from(self.object.program_slots(program));
            now[1] += self.shared.estimate(&self.object, id);
            now[2] += self.programs.get(&id).map_or(0, |known| known.now.cost.processed.iter().sum());
        }
        let lower = now.iter().zip(&*least).any(|(now, least)| now < least);
        least.iter_mut().zip(now).for_each(|(least, now)| *least = now.min(*least));
        lower
    }

    fn may_go_on(&mut self, pass: &Pass) -> bool {
        let goes_on = Instant::now() < self.deadline && self.shared.step(pass.name);
        self.cut_short |= !goes_on;
        goes_on
    }

    /// Functions that may change and are reached. A function that is no longer called costs nothing, and nothing can be
    /// proved about it.
    fn called(&self) -> Vec<FunctionId> {
        let entries = self.part.programs.iter().map(|id| self.object.programs[id.index()].entry);
        let reached: BTreeSet<_> = entries.flat_map(|entry| self.object.reachable_functions(entry)).collect();
        self.functions.intersection(&reached).copied().collect()
    }

    /// Searches, unless the same search found nothing in this state before.
    fn search(&mut self, pass: &Pass, functions: &[FunctionId]) -> bool {
        if self.idle.get(&pass.index) == Some(&self.version) {
            return false;
        }
        let version = self.version;
        let changed = self.attempt(pass, functions, usize::MAX);
        if !changed && self.version == version && !self.searched.cut_short {
            self.idle.insert(pass.index, version);
        }
        changed
    }

    fn attempt_unless_idle(&mut self, pass: &Pass) -> bool {
        if self.idle.get(&pass.index) == Some(&self.version) {
            return false;
        }
        let version = self.version;
        let changed = self.attempt(pass, &self.called(), usize::MAX);
        if !changed && self.version == version {
            self.idle.insert(pass.index, version);
        }
        changed
    }

    /// Runs passes of which only the first looks at facts, and keeps what they did together. Returns how many of them are
    /// done, and whether something changed: the others are to be tried by themselves.
    fn attempt_together(&mut self, group: &[Pass]) -> (usize, bool) {
        let first = group[0].index;
        if group.len() < 2 || self.apart.get(&first).is_some_and(|refusals| *refusals >= MAX_REFUSALS_TOGETHER) {
            return (0, false);
        }
        let functions = self.called();
        let (before, next_insn) = (self.copies(&functions), self.object.next_insn);
        let mut evidence: Vec<Evidence> = Vec::new();
        // Passes that found something, and those that found nothing after the last of them.
        let (mut found, mut idle): (Vec<&Pass>, Vec<usize>) = Default::default();
        for pass in group {
            let was_idle = found.is_empty() && self.idle.get(&pass.index) == Some(&self.version);
            let own = if was_idle { None } else { self.propose(pass, &functions, usize::MAX, found.is_empty()) };
            match own {
                Some(own) => {
                    evidence.extend(own);
                    found.push(pass);
                    idle.clear();
                }
                None => idle.push(pass.index),
            }
        }
        let all = (self.version + u64::from(!found.is_empty()), self.evidence.len() + evidence.len());
        let accepted = match found[..] {
            [] => false,
            [pass] => self.keep(pass, (before, next_insn), evidence),
            _ => match self.decide(&before, &mut evidence, true) {
                Ok((chain, programs)) => {
                    self.take(evidence, chain, programs);
                    true
                }
                Err(_) => {
                    self.restore(before, next_insn);
                    *self.apart.entry(first).or_default() += 1;
                    return (0, false);
                }
            },
        };
        // The passes after the last one that found something saw the new version only if all was accepted.
        if all != (self.version, self.evidence.len()) {
            return (group.len() - idle.len(), accepted);
        }
        if !self.cut_short {
            self.idle.extend(idle.into_iter().map(|index| (index, self.version)));
        }
        (group.len(), accepted)
    }

    /// Runs a pass on some functions and keeps what is accepted of the result.
    fn attempt(&mut self, pass: &Pass, functions: &[FunctionId], fuel: usize) -> bool {
        let state = (self.copies(functions), self.object.next_insn);
        let evidence = self.propose(pass, functions, fuel, true);
        evidence.is_some_and(|evidence| self.keep(pass, state, evidence))
    }

    /// Keeps what is accepted of what a pass did to some functions, which were so before.
    fn keep(
        &mut self,
        pass: &Pass,
        (before, next_insn): (BTreeMap<FunctionId, Function>, u32),
        mut evidence: Vec<Evidence>,
    ) -> bool {
        let changed: BTreeSet<FunctionId> = evidence.iter().map(|one| one.function).collect();
        match self.decide(&before, &mut evidence, false) {
            Ok((chain, programs)) => {
                self.take(evidence, chain, programs);
                true
            }
            Err(_) if changed.len() > 1 => {
                self.restore(before, next_insn);
                let changed: Vec<_> = changed.into_iter().collect();
                let (left, right) = changed.split_at(changed.len() / 2);
                let left = self.attempt(pass, left, usize::MAX);
                self.attempt(pass, right, usize::MAX) || left
            }
            Err(reason) => {
                self.restore(before, next_insn);
                let function = changed.into_iter().next().expect("evidence names a function");
                self.blame(pass, function, &evidence, reason)
            }
        }
    }

    /// Runs a pass; `verified`: on the version of which facts are known. Returns `None` if it finds nothing or it is time
    /// to stop.
    fn propose(&mut self, pass: &Pass, functions: &[FunctionId], fuel: usize, verified: bool) -> Option<Vec<Evidence>> {
        let mut evidence = Vec::new();
        let shared = self.shared;
        let asked = Mutex::new(Instant::now());
        // Progress draws on a terminal, so it is not called more often than a reader can see.
        let stopped = || {
            let mut asked = asked.lock().expect("progress does not panic");
            let is_time = asked.elapsed() >= BETWEEN_STEPS;
            if is_time {
                *asked = Instant::now();
            }
            drop(asked);
            shared.stopped() || is_time && !shared.step(pass.name)
        };
        for (index, function) in functions.iter().enumerate() {
            if self.refusals.get(&(pass.index, *function)).is_some_and(|refusals| *refusals >= MAX_REFUSALS) {
                continue;
            }
            if !self.may_go_on(pass) {
                break;
            }
            let (begun, watch) = (Instant::now(), Stopwatch::start());
            let left = self.deadline.saturating_duration_since(begun);
            let mut work = Work {
                object: &mut self.object,
                function: *function,
                calls: &self.shared.calls,
                facts: Some(&*self.facts).filter(|_| verified && !self.blind.contains(function)),
                deadline: self.deadline,
                share: begun + left / (functions.len() - index) as u32,
                // If parts run in parallel, no processors are left.
                threads: if self.part.programs.len() == shared.original.programs.len() {
                    self.options.threads
                } else {
                    1
                },
                helpers: &shared.helpers,
                frequencies: &shared.frequencies,
                memory: &mut self.searched,
                stopped: &stopped,
                limits: &self.limits,
                refuted: &mut self.refuted,
                swept: &mut self.swept,
                fuel,
                banned: &self.banned,
                options: self.options,
            };
            let before = tabled(&*work.object, *function);
            let own = pass.run(&mut work);
            match before.filter(|before| lost_target(before, self.object.function(*function))) {
                // Tables stay as they are, so what they lead to stays, too.
                Some(before) => self.object.functions[function.index()] = before,
                None => evidence.extend(own),
            }
            self.timings.add(pass.name, watch.elapsed());
        }
        (!evidence.is_empty()).then_some(evidence)
    }

    /// Finds the first step of a refused attempt that is to blame, keeps those before it, and bans it.
    fn blame(&mut self, pass: &Pass, function: FunctionId, evidence: &[Evidence], mut reason: String) -> bool {
        let refusals = self.refusals.entry((pass.index, function)).or_default();
        *refusals += 1;
        // From now on the pass is skipped, so it cannot be run for a part of its steps either.
        if *refusals >= MAX_REFUSALS {
            self.refused.push((pass.name, self.object.function(function).name.clone(), reason));
            return false;
        }
        // Numbers of steps, and the fuel that they take: one unit may be worth several steps.
        let (mut good, mut bad) = (0, evidence.len());
        let (mut least, mut most) = (0, evidence.len());
        let mut best = None;
        let (before, next_insn) = (self.copies(&[function]), self.object.next_insn);
        while bad - good > 1 && most - least > 1 && !self.cut_short {
            let middle = usize::midpoint(least, most);
            let mut own = self.propose(pass, &[function], middle, true).unwrap_or_default();
            if own.len() <= good || own.len() >= bad {
                self.restore(before.clone(), next_insn);
                if own.len() <= good {
                    least = middle
                } else {
                    most = middle
                }
                continue;
            }
            match self.decide(&before, &mut own, true) {
                Ok((chain, programs)) => {
                    (good, least) = (own.len(), middle);
                    let functions = self.copies(&[function]);
                    let next_insn = self.object.next_insn;
                    best = Some(Accepted { functions, next_insn, evidence: own, chain, programs });
                }
                Err(why) => {
                    (bad, most) = (own.len(), middle);
                    reason = why;
                }
            }
            self.restore(before.clone(), next_insn);
        }
        // If the time ended before the step to blame was found, no step is banned.
        let culprits = if self.cut_short { &[] } else { &evidence[good..bad] };
        for culprit in culprits {
            let name = self.object.function(function).name.clone();
            let what = culprit.because.name();
            let refusal = format!("{what} at {}: {reason}", culprit.before.first().map_or("", String::as_str));
            self.refused.push((pass.name, name, refusal));
            self.banned.insert(what, culprit.site);
        }
        match best {
            Some(best) => {
                self.restore(best.functions, best.next_insn);
                self.take(best.evidence, best.chain, best.programs);
                true
            }
            // Without these steps the rest may be accepted.
            None => bad - good < evidence.len(),
        }
    }
}

/// The middle of the time that is left.
fn halfway(deadline: Instant) -> Instant {
    let now = Instant::now();
    now + deadline.saturating_duration_since(now) / 2
}
