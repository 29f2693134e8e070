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
    /// Maximum time. What was found by then is kept.
    pub budget: Duration,
    /// The part of the budget that passes leave to the judge.
    pub reserve: Duration,
    /// How many more instructions the verifier may process than before, besides 1 % of noise.
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
    /// How many of [`search::EFFORTS`] are used; 0: no search. Those beyond the default ones end when time is up or
    /// nothing is left to try.
    pub search: usize,
    /// The newest version of the instruction set, as LLVM counts them (`-mcpu=vN`), for new instructions: kernels since
    /// 5.1 have 3, kernels since 6.6 have 4. The program's own instructions may be newer.
    pub isa: IsaVersion,
    /// Whether evidence carries the data from which queries are made.
    pub keep_queries: bool,
    /// The journal of how questions were answered; `None`: a journal of this run. Each part of an object has its own
    /// answers.
    pub answers: Option<Arc<Answers>>,
    /// The types of the kernel that programs are verified against, for those that use kernel structures.
    pub kernel_types: Option<Arc<Btf>>,
    /// The oldest kernel that the result must load on. The verifier checks programs for it before and after.
    pub profile: Profile,
    /// Maximum number of parts of an object that are optimized at the same time.
    pub threads: usize,
}

/// Programs that our verifier does not support and that the caller's judge checks instead.
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
    /// Whether a program may be rewritten although our verifier does not support it.
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

/// Is called between steps and decides whether to go on.
pub trait Progress: Send {
    /// Called before each attempt with the name of the pass, the slots of the whole object now, and the time spent.
    /// `false` ends the run with the current result.
    fn step(&mut self, pass: &'static str, slots: u32, spent: Duration) -> bool;
}

impl Progress for () {
    fn step(&mut self, _: &'static str, _: u32, _: Duration) -> bool {
        true
    }
}
