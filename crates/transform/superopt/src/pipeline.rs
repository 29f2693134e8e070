//! Optimizes an object: its parts in parallel, each within its share of the time.
//!
//! ```text
//!   programs that share functions          part 0   verify, passes, verify, ... judge   \
//!   are one part of the object      -->    part 1   verify, passes, ...                  -->  put together
//!                                          part 2   ...                                 /
//! ```
//!
//! Parts do not depend on each other, so the result does not depend on the number of threads: each part has its own
//! range of ids for new instructions, and its own store of answers. Counted work ends a part. Time is shared only so
//! that every part gets some, the largest part first: half of what is left, or more by slots.
//!
//! Work goes breadth first, in waves ([`waves`]): what is cheap is done in all parts before anything dear in one of them.
//! ```text
//!   all parts: one round of passes --> passes until none finds more --> searches, the bounded ones first --> the others
//! ```

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kiln_program::{Object, ProgramId};

use crate::evidence::{ChainStep, Evidence};
use crate::judged::Judge;
use crate::options::{Options, Progress};
use crate::parts::{Shared, parts};
use crate::run::{Account, Done, Run, Wave};
use crate::search;
use crate::timings::Timings;

/// An optimized object.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// The object, with the same functions, maps and programs in the same order.
    pub object: Object,
    /// The evidence of each rewrite.
    pub evidence: Vec<Evidence>,
    /// The proofs of all accepted changes, in order, with [`Options::keep_queries`]. For each function the first step
    /// begins with the original, each other with the end of the one before, and the last ends with what `object` has.
    pub chain: Vec<ChainStep>,
    /// Programs left as they are, with the reason.
    pub skipped: Vec<(ProgramId, String)>,
    /// Attempts that the proof, the verifier or the judge refused: pass, function, reason.
    pub refused: Vec<(&'static str, String, String)>,
    /// What each program cost before and costs now, in the object's order.
    pub programs: Vec<Account>,
    /// Whether time or progress ended it, so that more time may find more.
    pub cut_short: bool,
    /// Time spent.
    pub spent: Duration,
    /// Where it went.
    pub timings: Timings,
}

/// Optimizes every function of an object that only verified programs reach.
pub fn optimize(object: &Object, options: &Options, progress: &mut dyn Progress) -> Rewrite {
    optimize_judged(object, options, progress, None)
}

/// Optimizes every function of an object that only verified programs reach. `judge` must accept the result.
pub fn optimize_judged(
    object: &Object,
    options: &Options,
    progress: &mut dyn Progress,
    judge: Option<&dyn Judge>,
) -> Rewrite {
    let shared = Shared::new(object, options, progress, judge);
    let parts = parts(object);
    let done = Mutex::new(Vec::new());
    let waves = waves(options.search, shared.is_large());
    let runs: Vec<Mutex<Option<Run<'_>>>> = parts.iter().map(|_| Mutex::new(None)).collect();
    for (number, wave) in waves.iter().enumerate() {
        shared.ahead.store(parts.iter().map(|part| part.slots).sum(), Ordering::SeqCst);
        let next = AtomicUsize::new(0);
        let workers = options.threads.min(parts.len()).max(1);
        shared.helpers.set(options.threads.saturating_sub(workers));
        let work = || {
            while let Some((part, run)) = pair(&parts, &runs, next.fetch_add(1, Ordering::SeqCst)) {
                let deadline = shared.deadline(part, options.threads);
                let mut kept = run.lock().expect("no part panics");
                let mut run = kept.take().unwrap_or_else(|| Run::new(&shared, part, deadline));
                run.advance(*wave, deadline);
                if number + 1 == waves.len() {
                    done.lock().expect("no part panics").push((part.programs.clone(), run.finish()));
                } else {
                    *kept = Some(run);
                }
            }
            shared.helpers.add();
        };
        match workers {
            1 => work(),
            threads => std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work)))),
        }
    }
    let mut done = done.into_inner().expect("no part panics");
    done.sort_by(|one: &(Vec<ProgramId>, Done), other| one.0.cmp(&other.0));
    put_together(&shared, done)
}

/// The waves of a run with so many efforts. Searches that only time ends start from a state that the judge accepts, and
/// so do all searches of a large object, whose budget may not suffice for them.
fn waves(efforts: usize, is_large: bool) -> Vec<Wave> {
    let bounded = efforts.min(search::DEFAULT_EFFORTS);
    let passes = Wave { rounds: usize::MAX, efforts: 0, settles: is_large || bounded == 0, begins_anew: false };
    let mut waves = vec![Wave { rounds: 1, settles: false, ..passes }, passes];
    waves.extend((1..=bounded).map(|efforts| Wave { efforts, settles: efforts == bounded, ..passes }));
    if bounded < efforts {
        waves.push(Wave { efforts, settles: true, begins_anew: true, ..passes });
    }
    waves
}

fn pair<'x, A, B>(some: &'x [A], others: &'x [B], at: usize) -> Option<(&'x A, &'x B)> {
    some.get(at).zip(others.get(at))
}

/// Puts the results of all parts together.
fn put_together(shared: &Shared<'_>, done: Vec<(Vec<ProgramId>, Done)>) -> Rewrite {
    let mut object = shared.original.clone();
    let mut rewrite = Rewrite {
        evidence: Vec::new(),
        chain: Vec::new(),
        skipped: Vec::new(),
        refused: Vec::new(),
        programs: Vec::new(),
        cut_short: shared.stopped(),
        spent: Duration::ZERO,
        timings: Timings::default(),
        object: Object::default(),
    };
    let mut accounts = Vec::new();
    for (_, part) in done {
        for (id, function) in part.functions {
            object.functions[id.index()] = function;
        }
        object.next_insn = object.next_insn.max(part.next_insn);
        rewrite.evidence.extend(part.evidence);
        rewrite.chain.extend(part.chain);
        rewrite.skipped.extend(part.skipped);
        rewrite.refused.extend(part.refused);
        rewrite.cut_short |= part.cut_short;
        rewrite.timings.add_all(&part.timings);
        accounts.extend(part.programs);
    }
    accounts.sort_by_key(|(id, _)| *id);
    rewrite.skipped.sort_by_key(|(id, _)| *id);
    rewrite.programs = accounts.into_iter().map(|(_, account)| account).collect();
    rewrite.object = object;
    rewrite.spent = shared.begun.elapsed();
    rewrite
}
