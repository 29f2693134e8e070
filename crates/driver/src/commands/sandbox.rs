//! `kiln sandbox`: a drop-in object whose heap accesses are guarded and whose loops can be cancelled.

use std::time::Duration;

use kiln_program::Object;
use kiln_sandbox::Evidence;
pub use kiln_sandbox::Target;
use serde::Serialize;

use crate::kernel;
use kiln_inspect::check::KernelVerdict;
use kiln_inspect::input::Input;
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// How to sandbox.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the result is to run. [`Target::Vm`] takes its quantum from the VM, not from here.
    pub target: Target,
    /// The time that one invocation may spend in loops before it is cancelled.
    pub quantum: Duration,
    /// What a cancelled program returns; its hook's default when `None`.
    pub cancelled_return: Option<i32>,
    /// Leave out what the verifier's Facts prove needless.
    pub elide: bool,
    /// Once so many runs were cancelled, every further run returns at once; never when `None`.
    pub detach_after: Option<u32>,
    /// Whether to ask the running kernel, where it may be asked.
    pub ask_kernel: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            target: Target::Linux,
            quantum: Duration::from_millis(10),
            cancelled_return: None,
            elide: true,
            detach_after: None,
            ask_kernel: true,
        }
    }
}

/// A sandboxed object and the account of it.
#[non_exhaustive]
#[derive(Serialize)]
pub struct Outcome {
    /// The IR.
    #[serde(skip)]
    pub object: Object,
    /// The object file, or text where the input was text.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// Function by function.
    pub functions: Vec<Evidence>,
    /// The kernel's verdict on each program, where it was asked.
    pub kernel: Vec<(Shown, KernelVerdict)>,
    /// Why the kernel was not asked whether it accepts the result, where it was not and the result is for it.
    pub not_asked: Option<Shown>,
}

/// Sandboxes an object.
///
/// # Errors
/// [`Error::Rejected`] when a program is unsafe in another way, [`Error::Unsupported`] for what the transform lacks; either
/// [`Error::InvalidInput`] or [`Error::Unsupported`] when a program cannot be read, for it would stay without guards.
/// [`Error::Rejected`] also when the running kernel refuses the result.
pub fn sandbox(input: &Input, options: &Options) -> Result<Outcome, Error> {
    if let Some(program) = input.unreadable().next() {
        let why = |reason: String| format!("{} cannot be sandboxed: {reason}", program.function);
        return Err(match kiln_inspect::input::elf_error(&input.object.name, program.reason.clone()) {
            Error::Unsupported(reason) => Error::Unsupported(why(reason)),
            other => Error::InvalidInput(why(other.to_string())),
        });
    }
    let settings = kiln_sandbox::Options {
        target: options.target,
        quantum_ns: u64::try_from(options.quantum.as_nanos()).unwrap_or(u64::MAX / 2),
        cancelled_return: options.cancelled_return,
        elide: options.elide,
        detach_after: options.detach_after,
        hide: false,
        forced: None,
        verifier: input.verifier_options(),
    };
    let not_asked = why_not_asked(input, options);
    let asks = options.target == Target::Linux && not_asked.is_none();
    let elf = input.elf.as_ref().filter(|_| asks);
    let is_too_large = |object: &Object| elf.is_some_and(|elf| is_too_large(elf, object));
    let rewrite = kiln_sandbox::sandbox_for(&input.object, &settings, is_too_large);
    let rewrite = rewrite.map_err(error)?;
    let bytes = match &input.elf {
        Some(elf) => elf.write(&rewrite.object).map_err(|error| Error::InvalidInput(error.to_string()))?,
        None => kiln_program::text::print(&rewrite.object).into_bytes(),
    };
    let programs = rewrite.object.programs.iter().filter(|_| asks);
    let verdict = |program: &kiln_program::Program| {
        let verdict = kernel::verdict::verdict(&bytes, &rewrite.object, program);
        match &verdict {
            KernelVerdict::Rejected { reason } => Err(refused(&bytes, &rewrite.object, program, reason)),
            _ => Ok((Shown::from(program.name.as_str()), verdict)),
        }
    };
    let kernel = programs.map(verdict).collect::<Result<_, _>>()?;
    let not_asked = not_asked.map(Shown::from);
    Ok(Outcome { object: rewrite.object, bytes, functions: rewrite.evidence, kernel, not_asked })
}

/// Why the running kernel is not asked whether it accepts the result; `None` if it is, or the result is not for it.
fn why_not_asked(input: &Input, options: &Options) -> Option<String> {
    match (options.target, options.ask_kernel, kiln_linux::available()) {
        (Target::Vm, ..) => None,
        (_, false, _) => Some("offline".to_owned()),
        (_, _, Err(error)) => Some(error.to_string()),
        _ => input.elf.is_none().then(|| "the program is text, without the types that it asks for".to_owned()),
    }
}

/// The kernel refuses a program of the result.
fn refused(bytes: &[u8], object: &Object, program: &kiln_program::Program, reason: &Shown) -> Error {
    let failure = crate::kernel::load(bytes, object, program).err();
    let line = failure.as_ref().and_then(|failure| failure.line_of(&program.name));
    let place = line.map_or(String::new(), |line| format!(" (after {line})"));
    Error::Rejected(format!(
        "program {}: the kernel refuses the sandboxed program: {reason}{place}; nothing was written",
        program.name
    ))
}

/// Whether the running kernel's verifier gives up on one of the programs. It is asked as loaders ask it: what data sections
/// hold can change the verdict. The statistics' log tells why, and the kernel follows a million instructions once, not twice.
fn is_too_large(elf: &kiln_elf::ElfObject, object: &Object) -> bool {
    let Ok(bytes) = elf.write(object) else { return false };
    let failed = |program| kernel::load_with_statistics(&bytes, object, program).err();
    object.programs.iter().filter_map(failed).any(|failure| failure.is_too_complex())
}

fn error(error: kiln_sandbox::Error) -> Error {
    use kiln_sandbox::Error as Sandbox;
    use kiln_verifier::Error as Verifier;
    match error {
        Sandbox::Rejected { program, source } | Sandbox::Result { program, source } => match *source {
            Verifier::Rejected(rejection) => Error::Rejected(format!("program {program}: {rejection}")),
            Verifier::Limit { .. } => Error::Limit(format!("program {program}: {source}")),
            _ => Error::Unsupported(format!("program {program}: {source}")),
        },
        Sandbox::Unsupported { .. } => Error::Unsupported(error.to_string()),
    }
}
