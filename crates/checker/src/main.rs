//! The `kiln-check` command: `kiln check` of files alone, see [`kiln_checker`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use kiln_checker::arguments::{Arguments, answer};
use kiln_checker::baseline::Baseline;
use kiln_checker::objects::{self, STACK_BYTES};
use kiln_checker::print;
use kiln_checker::reports::{self, FilesAlone, Wanted};
use kiln_checker::table::terminal_width;
use kiln_checker::target::{self, Types};
use kiln_checker::told::{Checking, told};
use kiln_inspect::{Error, file, input, lint};

fn main() -> ExitCode {
    // Some systems' main threads have little stack.
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    ExitCode::from(thread.map_or_else(|_| run(), |thread| thread.join().unwrap_or(PANICKED)))
}

/// The exit code of a Rust program whose main thread panicked.
const PANICKED: u8 = 101;

fn run() -> u8 {
    let mut command = Arguments::command();
    if let Some(width) = terminal_width() {
        command = command.term_width(width);
    }
    let parsed = command.clone().try_get_matches();
    let arguments = match parsed.and_then(|mut matches| Arguments::from_arg_matches_mut(&mut matches)) {
        Ok(arguments) => arguments,
        Err(error) => return answer(&error.format(&mut command)),
    };
    check(&arguments).unwrap_or_else(|error| {
        print::error(&error, arguments.format);
        error.exit_code()
    })
}

fn check(arguments: &Arguments) -> Result<u8, Error> {
    let choice = target::choose(&arguments.kernel, arguments.btf.as_deref())?;
    let kernel_types = Types::open(choice.btf.as_deref())?;
    let gathered = objects::gather_some(&arguments.objects)?;
    let wanted = Wanted {
        types: arguments.types.clone(),
        programs: arguments.program.clone(),
        several: gathered.objects.len() > 1,
        with_kernel: false,
        profile: arguments.profile,
        unprivileged: arguments.unprivileged,
        choice,
        kernel_types,
        lint: lint::Selection::new(arguments.lint, &arguments.deny, &arguments.allow)?,
        settings: Vec::new(),
        target: None,
    };
    let baseline = arguments.baseline.as_deref().map(Baseline::read).transpose()?;
    let mut all = Checking::new(&gathered, arguments.quiet, arguments.format, None);
    let text = all.text();
    let work = |at: usize| {
        let found = &gathered.objects[at];
        let bytes = file::read(&found.path, input::MAX_FILE_BYTES);
        let outcome = reports::check_bytes(found, None, bytes, &wanted, &FilesAlone);
        told(outcome, text, baseline.as_ref(), |_, _| String::new())
    };
    objects::each(gathered.objects.len(), objects::jobs(arguments.jobs), work, |_, one| all.take(one));
    all.check_names()?;
    all.end(baseline.as_ref())
}
