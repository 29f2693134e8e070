//! Decides eBPF safety offline: abstract interpretation over the shared semantics.
//!
//! ```text
//!   verify(&Object, &Program, &Options) -> Result<Verified { facts, statistics }, Error>
//!
//!   Prepared    what an object's programs share: verify() for one program, prepared.verify() for several
//!   Code        the program laid out: positions, live registers, where states are compared
//!   Explorer    walks every path: step() is transfer (alu, memory, call) and checks (the same rooms' `reject`s)
//!   prune       a kept state that covers the current one ends the path; precision says which numbers count
//!   facts       the join of all states at each instruction, made sound for the paths that were not walked
//! ```
//!
//! State ([`domain`], `state`), semantics (`transfer`, `call`, `objects`) and property (the checks, each with a
//! [`Reason`]) are separate. Soundness comes before completeness: what is not modelled is [`Error::Unsupported`].
//!
//! Reading order: `code`, `state`, `explore/search`, `transfer`, `objects`, `call`, `explore/prune`, `path`, `facts`.
#![forbid(unsafe_code)]

mod call;
mod check;
mod code;
pub mod domain;
mod error;
mod explain;
mod explore;
pub mod facts;
mod objects;
mod path;
mod state;
mod transfer;
mod types;

use std::sync::Arc;
use std::time::Instant;

use kiln_platform::Profile;
use kiln_program::btf::Btf;
use kiln_program::{Object, Program};

pub use check::profile::needs;
pub use code::prepared::Prepared;
pub use domain::{Scalar, Tnum};
pub use error::Error;
pub use explain::{Part, Reason, Rejection, StoryStep};
pub use explore::cost;
pub use facts::{Facts, Held, InsnFacts, Places, Pointer, Region, StackSet, Value};

/// What the verifier is asked to assume and to give.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether values that the loader may still change count as known.
    pub assumptions: Assumptions,
    /// The program is loaded without privilege: uninitialized stack may not be read, pointers may not leak.
    pub unprivileged: bool,
    /// Only the verdict is wanted; [`Verified::facts`] is then empty.
    pub skip_facts: bool,
    /// The types of the kernel that the program is for (its `vmlinux` BTF), which kernel structures and functions are
    /// known by. Without them, programs that use those are unsupported.
    pub kernel_types: Option<Arc<Btf>>,
    /// How many processors the machine that it is loaded on may have; `None` for the most that any may.
    pub processors: Option<u32>,
    /// A rejection is to tell its story: the program is then explored twice more, along the path that fails.
    pub explain: bool,
    /// When to give up with [`Error::Limit`]; `None` for never.
    pub deadline: Option<Instant>,
    /// The kernel that the program is for: what it does not have yet is rejected. By default the newest one described.
    pub profile: Profile,
    /// A number used as an address is an address in the program's heap, as if it were cast to an arena pointer. For
    /// transforms that insert those casts: the kernel refuses such a program.
    pub heap: bool,
}

/// Whether values that the loader may still change (CO-RE fields, kconfig, `.rodata`, map sizes) count as known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Assumptions {
    /// They are as the object says: the verdict is that of loading it here and now.
    #[default]
    AsLoaded,
    /// They may be anything: the facts are safe to optimize by.
    AnyLoad,
}

/// What exploring took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions explored, each visit counted (the kernel's `processed insns`).
    pub processed_insns: u64,
    /// Kept states at most at one time.
    pub peak_states: u64,
    /// Kept states in all.
    pub total_states: u64,
    /// The deepest stack of a chain of calls, in bytes, each frame rounded up as the kernel does.
    pub stack_bytes: u32,
    /// The most that one function uses of its own frame, in bytes.
    pub frame_bytes: u32,
}

/// A program that was found safe. Only [`verify`] and [`Prepared::verify`] make one.
#[derive(Clone, Debug)]
pub struct Verified {
    /// What is known before each instruction.
    pub facts: Facts,
    /// What exploring took.
    pub statistics: Statistics,
    /// Some path may read stack bytes that it never wrote, which is allowed with privilege: whoever runs the program
    /// must clear its frames, or show it what was there.
    pub reads_uninitialized_stack: bool,
    /// Whether the other [`Assumptions`] may lead to another answer; where not, they need not be tried.
    pub depends_on_load: bool,
    /// Nobody else can build this value, so having one proves acceptance.
    _proof: (),
}

/// What exploring a program costs, also where it ends in a rejection.
///
/// # Errors
/// [`Error::Invalid`] where the program cannot be explored at all.
pub fn cost(object: &Object, program: &Program, options: &Options) -> Result<cost::Cost, Error> {
    let prepared = Prepared::new(object, options);
    let (code, program_type) = prepared.lay_out(program, options.kernel_types.as_deref())?;
    let options = Options { skip_facts: true, explain: false, ..options.clone() };
    let mut profiler = cost::Profiler::new(&code);
    // The verdict is `verify`'s to give; here a rejection only ends the exploration.
    let _ = explore::search::Explorer::new(&code, &options, program_type).run(&mut profiler);
    Ok(profiler.finish(&code))
}

/// Verifies one program of an object. For several of its programs, [`Prepared`] does what they share only once.
///
/// # Errors
/// [`Error::Rejected`] where the program is unsafe, [`Error::Unsupported`] where it does something that is not
/// modelled, [`Error::Limit`] and [`Error::Invalid`] where there is no answer.
pub fn verify(object: &Object, program: &Program, options: &Options) -> Result<Verified, Error> {
    Prepared::new(object, options).verify(program, options)
}

/// Verifies a program of an object that was prepared with the kernel's types that the options have.
fn verify_one(prepared: &Prepared<'_>, program: &Program, options: &Options) -> Result<Verified, Error> {
    let (code, program_type) = prepared.lay_out(program, options.kernel_types.as_deref())?;
    if let Some(at) = code.unreachable() {
        let message = "no path leads here".to_owned();
        let rejection = explore::search::rejection(&code, at, Reason::Unreachable, message);
        let kernel_message = Some(explain::kernel_words::unreachable(&code, at));
        return Err(Error::Rejected(Box::new(Rejection { kernel_message, ..rejection })));
    }
    if let Some((at, what)) = check::unprivileged::broken_rule(&code).filter(|_| options.unprivileged) {
        return Err(Error::Rejected(Box::new(explore::search::rejection(
            &code,
            at,
            Reason::NeedsPrivilege,
            what.to_owned(),
        ))));
    }
    let mut explorer = explore::search::Explorer::new(&code, options, program_type);
    if let Some((at, lack)) = explorer.lacks_before_exploring() {
        return Err(Error::Rejected(Box::new(explore::search::rejection(
            &code,
            at,
            Reason::KernelLacks,
            lack.to_string(),
        ))));
    }
    let explained = |error| match error {
        Error::Rejected(rejection) if options.explain => {
            Error::Rejected(explain::story::told(&code, options, program_type, rejection))
        }
        other => other,
    };
    explorer.run(&mut ()).map_err(explained)?;
    if !explorer.early_covers_hold() {
        explorer = explore::search::Explorer::new(&code, options, program_type);
        explorer.strict_callbacks = true;
        explorer.run(&mut ()).map_err(explained)?;
    }
    explorer.check_throwing_functions()?;
    let mut statistics = explorer.statistics();
    statistics.stack_bytes = explorer.check_stack_depth().map_err(|deep| {
        let at = code.functions[deep.function].start;
        let rejection = explore::search::rejection(&code, at, Reason::CallDepth, deep.message());
        Error::Rejected(Box::new(Rejection { kernel_message: Some(deep.kernel_message()), ..rejection }))
    })?;
    let reads_uninitialized_stack = explorer.reads_uninitialized_stack;
    let depends_on_load = explorer.depends_on_load.get();
    let names = std::mem::take(&mut explorer.types);
    let mut facts = explorer.recorder.take().map_or_else(Facts::default, |recorder| recorder.finish(&code, &names));
    facts.set_arena_accesses(explorer.arena_accesses());
    Ok(Verified { facts, statistics, reads_uninitialized_stack, depends_on_load, _proof: () })
}
