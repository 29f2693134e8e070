//! The parts of an object, and what all of them see.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kiln_equiv::Answers;
use kiln_program::{Function, FunctionId, Object, ProgramId};
use kiln_verifier::Prepared;

use crate::cost::frequency::{self, Frequencies};
use crate::flow::calls::Calls;
use crate::judged::Judge;
use crate::options::{Options, Progress};
use crate::search;
use kiln_equiv::helpers::Helpers;

/// What all parts see.
pub(crate) struct Shared<'a> {
    pub original: &'a Object,
    pub options: &'a Options,
    pub prepared: Prepared<'a>,
    pub frequencies: Frequencies,
    /// What calls read.
    pub calls: Calls,
    pub judge: Option<&'a dyn Judge>,
    pub answers: Arc<Answers>,
    pub helpers: Helpers,
    pub begun: Instant,
    progress: Mutex<&'a mut dyn Progress>,
    stopped: AtomicBool,
    /// Slots of the whole object now.
    pub slots: AtomicI64,
    /// Slots of parts not begun yet.
    pub ahead: AtomicI64,
}

/// Programs that share functions, and their functions.
pub(crate) struct Part {
    pub programs: Vec<ProgramId>,
    pub functions: BTreeSet<FunctionId>,
    /// The range of ids for its new instructions: the first, and the one after the last.
    pub ids: (u32, u32),
    pub slots: i64,
}

/// Parts of an object at most: each has a copy of the object. Of more, the small ones are taken together.
const MOST_PARTS: usize = 64;

impl Part {
    fn joined(parts: &[Part]) -> Part {
        let mut programs: Vec<_> = parts.iter().flat_map(|part| part.programs.clone()).collect();
        programs.sort_unstable();
        Part {
            programs,
            functions: parts.iter().flat_map(|part| part.functions.clone()).collect(),
            ids: (0, 0),
            slots: parts.iter().map(|part| part.slots).sum(),
        }
    }
}

impl<'a> Shared<'a> {
    pub fn new(
        original: &'a Object,
        options: &'a Options,
        progress: &'a mut dyn Progress,
        judge: Option<&'a dyn Judge>,
    ) -> Shared<'a> {
        let slots: u32 = original.functions.iter().map(Function::slots).sum();
        let kernel_types = options.kernel_types.clone();
        Shared {
            original,
            options,
            prepared: Prepared::new(original, &kiln_verifier::Options { kernel_types, ..Default::default() }),
            frequencies: Frequencies::of_original(original),
            calls: Calls::of(original),
            judge,
            answers: options.answers.clone().unwrap_or_default(),
            helpers: Helpers::default(),
            begun: Instant::now(),
            progress: Mutex::new(progress),
            stopped: AtomicBool::new(false),
            slots: AtomicI64::new(slots.into()),
            ahead: AtomicI64::new(slots.into()),
        }
    }

    /// When a part that begins now must end: its share, by slots, of the time left to all threads, but at least half of
    /// the time left, because it mostly needs a fraction of that.
    pub fn deadline(&self, part: &Part, threads: usize) -> Instant {
        let end = self.begun + self.options.budget.saturating_sub(self.options.reserve);
        let left = end.saturating_duration_since(Instant::now());
        let ahead = self.ahead.fetch_sub(part.slots, Ordering::SeqCst).max(part.slots).max(1);
        let share = threads.max(1) as f64 * part.slots as f64 / ahead as f64;
        Instant::now() + left.mul_f64(share.clamp(0.5, 1.0))
    }

    /// When the whole run must end, also the judge.
    pub fn end(&self) -> Instant {
        self.begun + self.options.budget
    }

    /// Whether it is an object that default budgets may not suffice for.
    pub fn is_large(&self) -> bool {
        self.original.functions.iter().map(|function| u64::from(function.slots())).sum::<u64>() > search::LARGE
    }

    /// Reports the pass to progress. Returns whether to go on.
    pub fn step(&self, pass: &'static str) -> bool {
        let slots = self.slots.load(Ordering::SeqCst).try_into().unwrap_or(0);
        if !self.progress.lock().expect("progress does not panic").step(pass, slots, self.begun.elapsed()) {
            self.stopped.store(true, Ordering::SeqCst);
        }
        !self.stopped()
    }

    /// Whether progress said to stop.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// The whole object with some functions as they are now.
    pub fn whole<'f>(&self, functions: impl IntoIterator<Item = (FunctionId, &'f Function)>, next_insn: u32) -> Object {
        let mut object = self.original.clone();
        for (id, function) in functions {
            object.functions[id.index()] = function.clone();
        }
        object.next_insn = object.next_insn.max(next_insn);
        object
    }

    /// The estimated time of a run of a program, in picoseconds.
    pub fn estimate(&self, object: &Object, id: ProgramId) -> u64 {
        frequency::estimate(object, &object.programs[id.index()], &self.frequencies, &self.options.model)
    }
}

/// The parts of an object, the largest first.
pub(crate) fn parts(object: &Object) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (index, program) in object.programs.iter().enumerate() {
        let mut own = Part {
            programs: vec![ProgramId(index as u32)],
            functions: object.reachable_functions(program.entry).into_iter().collect(),
            ids: (0, 0),
            slots: 0,
        };
        parts = parts.into_iter().fold(Vec::new(), |mut apart, part| {
            if part.functions.is_disjoint(&own.functions) {
                apart.push(part);
            } else {
                own.programs.extend(part.programs);
                own.functions.extend(part.functions);
            }
            apart
        });
        own.programs.sort_unstable();
        parts.push(own);
    }
    for part in &mut parts {
        part.slots = part.functions.iter().map(|id| i64::from(object.function(*id).slots())).sum();
    }
    let largest_first = |part: &Part| (std::cmp::Reverse(part.slots), part.programs[0]);
    parts.sort_by_key(largest_first);
    if parts.len() > MOST_PARTS {
        let small = parts.split_off(MOST_PARTS / 2);
        let joined = small.chunks(small.len().div_ceil(MOST_PARTS - parts.len())).map(Part::joined);
        parts.extend(joined.collect::<Vec<_>>());
        parts.sort_by_key(largest_first);
    }
    let ids = (u32::MAX - object.next_insn) / (parts.len() as u32).max(1);
    for (index, part) in parts.iter_mut().enumerate() {
        let first = object.next_insn + index as u32 * ids;
        part.ids = (first, first + ids);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_programs_are_few_parts() {
        let program = |at: usize| {
            format!("; program xdp name p{at} section xdp\n; function p{at} global section xdp\n  r0 = {at}\n  exit\n")
        };
        for (count, most) in [(3, 3), (MOST_PARTS, MOST_PARTS), (10 * MOST_PARTS + 7, MOST_PARTS)] {
            let text: String = (0..count).map(program).collect();
            let object = kiln_program::text::parse(&text).expect("it can be read");
            let parts = parts(&object);
            assert!(parts.len() <= most && parts.len() >= count.min(MOST_PARTS / 2), "{}", parts.len());
            let mut programs: Vec<_> = parts.iter().flat_map(|part| part.programs.clone()).collect();
            programs.sort_unstable();
            assert!(programs.iter().enumerate().all(|(at, id)| id.index() == at) && programs.len() == count);
        }
    }
}
