//! How to optimize.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kiln_equiv::Answers;
use kiln_isa::table::IsaVersion;
use kiln_platform::Profile;
use kiln_program::btf::Btf;
use kiln_program::{FunctionId, ProgramId};

use crate::cost::{CostModel, Goal};
use crate::rules::data::RuleSet;
use crate::search;

/// How to optimize.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to optimize for.
    pub goal: Goal,
    /// What instructions cost, for the estimates of time.
    pub model: Arc<CostModel>,
    /// Time to spend at most; what was found by then stands.
    pub budget: Duration,
    /// The part of the budget that passes leave to the judge.
    pub reserve: Duration,
    /// How much more a program may cost the verifier than before, in processed instructions, beside 1% of noise.
    pub extra_processed_insns: u64,
    /// Functions to leave as they are.
    pub frozen: BTreeSet<FunctionId>,
    /// Rules as data: those that come with Kiln, or another file's, proved.
    pub rules: Arc<RuleSet>,
    /// Rules and laws not to use, by name.
    pub without: BTreeSet<String>,
    /// Whether to rewrite programs that our verifier does not support too, without facts: each window is then equal
    /// in every state. Only for callers who let the kernel decide whether the result loads.
    pub unverified: Unverified,
    /// Steps that the solver may take for one window ([`kiln_equiv::Limits::solver_steps`]).
    pub solver_steps: u32,
    /// How many of [`search::EFFORTS`] look for what no rule knows; 0: none does. Beyond the default ones only time ends
    /// them, or that nothing is left to try.
    pub search: usize,
    /// LLVM's version of the instruction set (`-mcpu=vN`) that new instructions may be of: 3 is what kernels since 5.1
    /// have, 4 what those since 6.6 have. What the program has itself may stay.
    pub isa: IsaVersion,
    /// Whether evidence carries what queries are made of.
    pub keep_queries: bool,
    /// Where it is written down how questions were answered; `None`: in a journal of this run's own. Each part of an
    /// object keeps its answers to itself.
    pub answers: Option<Arc<Answers>>,
    /// Whether every question is about a whole run of instructions, to measure what short windows are worth.
    #[cfg(feature = "ablation")]
    pub whole_windows: bool,
    /// The types of the kernel that programs are verified against, for those that use kernel structures.
    pub kernel_types: Option<Arc<Btf>>,
    /// The oldest kernel that the result is to load on: what is rewritten is accepted for it before and after.
    pub profile: Profile,
    /// Parts of an object to work on at once at most.
    pub threads: usize,
}

/// Programs that our verifier does not support, but somebody else can judge.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Unverified {
    /// None: what is not supported stays as it is.
    #[default]
    None,
    /// All.
    All,
    /// These.
    Only(BTreeSet<ProgramId>),
}

impl Unverified {
    /// Whether a program may be rewritten without our verifier's word.
    pub fn has(&self, id: ProgramId) -> bool {
        match self {
            Unverified::None => false,
            Unverified::All => true,
            Unverified::Only(programs) => programs.contains(&id),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            goal: Goal::default(),
            model: Arc::default(),
            budget: Duration::from_secs(10),
            reserve: Duration::ZERO,
            extra_processed_insns: 1,
            frozen: BTreeSet::new(),
            rules: RuleSet::shipped(),
            without: BTreeSet::new(),
            unverified: Unverified::None,
            solver_steps: 50_000,
            search: search::DEFAULT_EFFORTS,
            isa: 3,
            keep_queries: false,
            answers: None,
            #[cfg(feature = "ablation")]
            whole_windows: false,
            kernel_types: None,
            profile: Profile::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Options {
    pub(crate) fn is_without(&self, name: &str) -> bool {
        self.without.contains(name)
    }
}

/// Told between steps; answers whether to go on.
pub trait Progress: Send {
    /// Called before each attempt with the pass at work, the slots of the whole object now, and the time spent.
    /// Returning `false` ends the run with what stands.
    fn step(&mut self, pass: &'static str, slots: u32, spent: Duration) -> bool;
}

impl Progress for () {
    fn step(&mut self, _: &'static str, _: u32, _: Duration) -> bool {
        true
    }
}
