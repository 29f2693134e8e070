//! What is known of programs: what they cost, and their facts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use kiln_program::{Function, FunctionId, ProgramId};
use kiln_verifier::{Assumptions, Facts, Prepared, Verified};

use crate::cost::Cost;
use crate::evidence::{ChainStep, Evidence};
use crate::parts::Shared;
use crate::timings::Timings;

/// Maximum number of instructions that the facts of a part's programs describe, counted per program. Beyond it the
/// programs share joined facts.
const MAX_FACTS: usize = 20_000;

/// What a program cost before and costs now.
#[derive(Clone, Debug)]
pub struct Account {
    /// Before; the verifier's error if it does not accept the program.
    pub before: Result<Standing, kiln_verifier::Error>,
    /// Now; `None` if it was not accepted before.
    pub after: Option<Standing>,
    /// Estimated time of a run before and now, in picoseconds.
    pub picoseconds: [u64; 2],
}

/// A program that our verifier accepts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Standing {
    /// What it costs.
    pub cost: Cost,
    /// Stack bytes of the deepest chain of calls.
    pub stack_bytes: u32,
    /// The most that one function uses of its own frame.
    pub frame_bytes: u32,
}

/// What became of a part.
pub(crate) struct Done {
    pub functions: BTreeMap<FunctionId, Function>,
    pub next_insn: u32,
    pub evidence: Vec<Evidence>,
    pub chain: Vec<ChainStep>,
    pub skipped: Vec<(ProgramId, String)>,
    pub refused: Vec<(&'static str, String, String)>,
    pub programs: Vec<(ProgramId, Account)>,
    pub cut_short: bool,
    pub timings: Timings,
}

/// What is known of a program that may change.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) began: Standing,
    pub(super) now: Standing,
    /// The assumptions under which it verifies.
    pub(super) assumptions: Assumptions,
    /// Its facts, if they hold for every load; joined facts of several programs, if there are too many.
    pub(super) facts: Option<Arc<Facts>>,
}

impl Shared<'_> {
    pub(super) fn verify(
        &self,
        prepared: &Prepared<'_>,
        id: ProgramId,
        assumptions: Assumptions,
        deadline: Option<Instant>,
        stop: Option<&Arc<AtomicBool>>,
    ) -> Result<Known, kiln_verifier::Error> {
        let program = &prepared.object().programs[id.index()];
        let verify = |assumptions, skip_facts| -> Result<Verified, kiln_verifier::Error> {
            let options = kiln_verifier::Options {
                assumptions,
                skip_facts,
                deadline,
                stop: stop.cloned(),
                kernel_types: self.options.kernel_types.clone(),
                profile: self.options.profile.clone(),
                ..Default::default()
            };
            prepared.verify(program, &options)
        };
        let for_every_load = assumptions == Assumptions::AnyLoad;
        let verified = verify(assumptions, !for_every_load)?;
        let anywhere = verified.statistics;
        let here = match for_every_load && verified.depends_on_load {
            true => verify(Assumptions::AsLoaded, true)?.statistics,
            false => anywhere,
        };
        let cost = Cost {
            slots: prepared.object().program_slots(program),
            picoseconds: self.estimate(prepared.object(), id),
            processed: [here.processed_insns, anywhere.processed_insns],
        };
        let now = Standing { cost, stack_bytes: here.stack_bytes, frame_bytes: here.frame_bytes };
        let facts = for_every_load.then(|| Arc::new(verified.facts));
        Ok(Known { began: now, now, assumptions, facts })
    }
}

/// Facts of different programs.
pub(super) fn different_facts(programs: &BTreeMap<ProgramId, Known>) -> Vec<&Arc<Facts>> {
    let mut different: Vec<&Arc<Facts>> = Vec::new();
    for facts in programs.values().filter_map(|known| known.facts.as_ref()) {
        if !different.iter().any(|other| Arc::ptr_eq(other, facts)) {
            different.push(facts);
        }
    }
    different
}

/// If the facts together describe more than [`MAX_FACTS`] instructions, replaces them by their join, which holds for
/// all programs. Otherwise programs that share large functions would each have facts of them.
pub(super) fn share_facts(programs: &mut BTreeMap<ProgramId, Known>) {
    let different = different_facts(programs);
    if different.len() < 2 || different.iter().map(|facts| facts.len()).sum::<usize>() <= MAX_FACTS {
        return;
    }
    let mut joined = Facts::default();
    different.into_iter().for_each(|facts| joined.join(facts));
    let joined = Arc::new(joined);
    for facts in programs.values_mut().filter_map(|known| known.facts.as_mut()) {
        *facts = Arc::clone(&joined);
    }
}

/// Whether a program was not rejected: our verifier lacks something, or reached a limit.
pub(super) fn is_unsupported(error: &kiln_verifier::Error) -> bool {
    matches!(error, kiln_verifier::Error::Unsupported { .. } | kiln_verifier::Error::Limit { .. })
}
