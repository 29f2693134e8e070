//! From a program to its verdict and facts: explores it, and once more where the first exploration was too sure.

use std::sync::Arc;

use kiln_platform::Feature;
use kiln_program::{FunctionId, Object, Program};

use crate::check::unprivileged;
use crate::code::prepared::Prepared;
use crate::code::{Code, Position};
use crate::error::{Error, TIME_IS_UP};
use crate::explain::{self, explained, rejection};
use crate::explore::cost::{Cost, Profiler};
use crate::explore::search::Explorer;
use crate::facts::Facts;
use crate::options::{Assumptions, Options, Statistics};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Rejection;

/// A program that was found safe. Only [`verify`] and [`Prepared::verify`] make one.
#[derive(Clone, Debug)]
pub struct Verified {
    /// What is known before each instruction.
    pub facts: Facts,
    /// What exploring took.
    pub statistics: Statistics,
    /// Some path may read stack bytes that it never wrote, which is allowed with privilege: an engine that runs the program
    /// must clear its frames, or show it what was there.
    pub reads_uninitialized_stack: bool,
    /// Whether the other [`crate::Assumptions`] may lead to another answer; where not, they need not be tried.
    pub depends_on_load: bool,
    /// The kinds of memory that its instructions access, each once, by the kernel's names for pointers to them: `fp`, `pkt`.
    /// Kernel structures, and memory that may not be there, are `ptr_`.
    pub accessed: Vec<&'static str>,
    /// Bytes from the context's start that its instructions access; `None` if they are not known, or a call of something
    /// outside of the program gets the context.
    pub context_bytes: Option<u32>,
    /// The function that runs when the program throws, if it names one.
    pub exception_callback: Option<FunctionId>,
    /// Only this module can build the value, so having one proves acceptance.
    _proof: (),
}

/// What exploring a program costs, also where it ends in a rejection.
///
/// # Errors
/// [`Error::Invalid`] where the program cannot be explored at all.
pub fn cost(object: &Object, program: &Program, options: &Options) -> Result<Cost, Error> {
    let prepared = Prepared::new(object, options);
    let code = prepared.lay_out(program, options)?;
    let options = Options { skip_facts: true, explain: false, ..options.clone() };
    let mut profiler = Profiler::new(&code);
    // The verdict is `verify`'s to give; here a rejection only ends the exploration.
    let _ = Explorer::new(&code, &options).run(&mut profiler);
    Ok(profiler.finish(&code, options.profile.limits().processed))
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
    // Laying out a program takes time, too.
    let entry = prepared.object.functions.get(program.entry.index());
    if let Some(first) = entry.and_then(|entry| entry.nodes.first()).filter(|_| options.time_is_up()) {
        return Err(Error::Limit { insn: first.id, what: TIME_IS_UP.to_owned() });
    }
    let code = prepared.lay_out(program, options)?;
    check_indirect_jumps(&code, options)?;
    if let Some(at) = code.unreachable() {
        let message = "no path leads here".to_owned();
        let rejection = rejection(&code, at, Reason::Unreachable, message);
        let kernel_message = Some(explain::kernel_words::unreachable(&code, at));
        return Err(Error::Rejected(Box::new(Rejection { kernel_message, ..rejection })));
    }
    if let Some((at, what)) = unprivileged::broken_rule(&code).filter(|_| options.unprivileged) {
        return Err(Error::Rejected(Box::new(rejection(&code, at, Reason::NeedsPrivilege, what.to_owned()))));
    }
    if let Some((at, end)) = code.end_without_types() {
        let (reason, message, words) = end.without_types();
        let rejection = rejection(&code, at, reason, message.to_owned());
        let kernel_message = Some(words.to_owned());
        return Err(Error::Rejected(Box::new(Rejection { kernel_message, ..rejection })));
    }
    let mut explorer = Explorer::new(&code, options);
    if let Some((at, lack)) = explorer.path.options.lacks_before_exploring(explorer.path.code) {
        return Err(Error::Rejected(Box::new(rejection(&code, at, Reason::KernelLacks, lack.to_string()))));
    }
    let kernel = options.kernel_types.as_deref().filter(|_| options.assumptions != Assumptions::AnyLoad);
    if let Some((at, message)) = kernel.and_then(|kernel| code.misdeclared(kernel)) {
        return Err(Error::Rejected(Box::new(rejection(&code, at, Reason::KernelLacks, message))));
    }
    let told = |error| match error {
        Error::Rejected(rejection) if options.explain => {
            Error::Rejected(explain::story::told(&code, options, rejection))
        }
        other => other,
    };
    explorer.run(&mut ()).map_err(told)?;
    if !explorer.early_covers_hold() {
        explorer = Explorer::strict(&code, options);
        explorer.run(&mut ()).map_err(told)?;
    }
    explorer.path.check_removed_callbacks().map_err(|fault| explained(&explorer.path, *fault))?;
    let throwing = explorer.path.check_ends_of_callbacks();
    throwing.map_err(|fault| explained(&explorer.path, *fault))?;
    let mut statistics = explorer.statistics();
    statistics.stack_bytes =
        explorer.path.findings.check_stack_depth(explorer.path.code, explorer.path.options).map_err(|deep| {
            let mut rejection = explain::frames::too_deep(&code, &deep);
            if options.explain && deep.is_about_bytes() {
                let (story, help) = explain::frames::told(&code, &explorer.path.findings);
                rejection.story = story;
                rejection.help = help.unwrap_or(rejection.help);
            }
            Error::Rejected(Box::new(rejection))
        })?;
    let reads_uninitialized_stack = explorer.path.findings.noted.reads_uninitialized_stack;
    let depends_on_load = explorer.path.findings.noted.depends_on_load.get();
    let path = &explorer.path;
    let mut facts = match (explorer.recorder.take(), &path.findings.accesses) {
        (Some(recorder), Some(accesses)) => recorder.finish(accesses, &code, &path.types),
        _ => Facts::default(),
    };
    facts.set_arena_accesses(path.findings.arena_accesses(path.code));
    let stack_bytes = code.functions.iter().zip(&path.findings.noted.stack_bytes);
    facts.set_stack_bytes(stack_bytes.map(|(function, bytes)| (function.id, *bytes)));
    facts.set_results(results(&code, path).into_iter());
    let unwritten = path.findings.noted.unwritten.iter();
    facts.set_unwritten(unwritten.map(|(at, bytes)| (path.code.op(*at).node.id, *bytes)));
    Ok(Verified {
        facts,
        statistics,
        reads_uninitialized_stack,
        depends_on_load,
        accessed: path.findings.noted.kinds.iter().map(|kind| kind.name()).collect(),
        context_bytes: path.findings.noted.context_bytes,
        exception_callback: code.exception_callback_id(),
        _proof: (),
    })
}

/// Indirect jumps have tables, and one may end a function only in newer kernels.
fn check_indirect_jumps(code: &Code<'_>, options: &Options) -> Result<(), Error> {
    if !options.kernel_has(Feature::IndirectJumps) {
        return Ok(());
    }
    let refused = |at: Position, message: &str, kernel_message: String| {
        let rejection = rejection(code, at, Reason::BadInstruction, message.to_owned());
        Err(Error::Rejected(Box::new(Rejection { kernel_message: Some(kernel_message), ..rejection })))
    };
    if let Some(at) = code.jump_at_end().filter(|_| !options.kernel_has(Feature::JumpsAtTheEnd)) {
        let words = explain::kernel_words::behind_the_end(code, at);
        return refused(at, "an indirect jump is the function's last instruction", words);
    }
    match code.jump_without_table() {
        Some(at) => {
            let words = explain::kernel_words::without_table(code, at);
            refused(at, "the function has no jump table for this indirect jump", words)
        }
        None => Ok(()),
    }
}

/// What the program's functions may return to what runs them.
fn results(code: &Code<'_>, path: &Path<'_>) -> Vec<(FunctionId, (i64, i64))> {
    let of_hook = path.types.allowed_results(code, path.options).ok().flatten();
    let of_hook = of_hook.map(|(lowest, highest)| (i64::from(lowest), i64::from(highest)));
    let exception_callback = code.exception_callback_id();
    let all = code.functions.iter().zip(&path.findings.noted.results).enumerate();
    let own = all.map(|(at, (function, noted))| {
        let answers_hook = at == 0 || Some(function.id) == exception_callback;
        (function.id, noted.or(of_hook.filter(|_| answers_hook)))
    });
    own.filter_map(|(id, results)| Some((id, results?))).collect()
}

impl Prepared<'_> {
    /// Verifies one of the object's programs. With other kernel types than the object was prepared with, or for a kernel that
    /// reads the object's types otherwise, it is prepared again.
    ///
    /// # Errors
    /// As [`crate::verify`].
    pub fn verify(&self, program: &Program, options: &Options) -> Result<Verified, Error> {
        let same = match (&self.kernel_types, &options.kernel_types) {
            (Some(own), Some(wanted)) => Arc::ptr_eq(own, wanted),
            (own, wanted) => own.is_none() && wanted.is_none(),
        };
        let same = same && self.first_tags != options.kernel_has(Feature::KptrTags);
        if same { verify_one(self, program, options) } else { verify(self.object, program, options) }
    }
}
