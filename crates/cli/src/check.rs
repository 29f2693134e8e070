//! `kiln check`: any number of objects on several threads, reported in their order.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kiln_checker::told::{Checking, Told, told};
use kiln_driver::check::Checked;
use kiln_driver::commands::check::baseline::Baseline;
use kiln_driver::commands::check::cache::{Cache, Entry, Place};
use kiln_driver::commands::check::reports::{self, Report, Wanted};
use kiln_driver::objects::{self, Found};
use kiln_driver::target::{self, Choice, Types};
use kiln_driver::{Error, Input, fix, flame, input, lint, output, running};

use crate::arguments::{CheckArguments, Format};
use crate::commands::Code;
use crate::repair::would_help;
use crate::{print, say};

/// `kiln check`.
pub fn check(arguments: &CheckArguments, format: Format) -> Code {
    let mut files = Vec::new();
    if !arguments.watch {
        return once(arguments, format, &mut files);
    }
    // Ctrl-C ends it.
    loop {
        let begun = SystemTime::now();
        if let Err(error) = once(arguments, format, &mut files) {
            print::error(&error, format);
        }
        anstream::eprintln!("waiting for changes");
        // A file that was written while it was checked differs from what was read.
        let after = stamps(arguments, &files);
        let mut changed = after.iter().any(|(_, written)| written.is_some_and(|written| written >= begun));
        while !changed {
            std::thread::sleep(PAUSE);
            changed = stamps(arguments, &files) != after;
        }
        if std::io::stdout().is_terminal() {
            say!("\n{}", "-".repeat(40));
        }
    }
}

/// The time for finding edits that are shown as help.
const HELPING: Duration = Duration::from_secs(3);
/// The time between two looks at files that may change.
const PAUSE: Duration = Duration::from_millis(200);

/// When the files that a check is about were written, with those that sources include.
fn stamps(arguments: &CheckArguments, included: &[PathBuf]) -> Vec<(PathBuf, Option<SystemTime>)> {
    let objects = objects::gather(&arguments.objects).map(|gathered| gathered.objects).unwrap_or_default();
    let files = objects.into_iter().map(|found| found.path).chain(included.iter().cloned());
    let written = |path: &PathBuf| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    files.map(|path| (path.clone(), written(&path))).collect()
}

/// Checks once; the files that sources include are added to `files`.
fn once(arguments: &CheckArguments, format: Format, files: &mut Vec<PathBuf>) -> Code {
    let choice = kernels_of(arguments)?;
    let kernel_types = Types::open(choice.btf.as_deref())?;
    let gathered = objects::gather_some(&arguments.objects)?;
    if arguments.with_kernel {
        kiln_driver::require_kernel()?;
    }
    let several = gathered.objects.len() > 1;
    if let Some(path) = arguments.flame_graph.as_deref() {
        output::check_writable(path)?;
        gathered.objects.iter().try_for_each(|found| output::check_distinct(path, &found.path))?;
    }
    let wanted = Wanted {
        types: arguments.types.clone(),
        programs: arguments.program.clone(),
        several,
        with_kernel: arguments.with_kernel,
        profile: arguments.profile || arguments.flame_graph.is_some(),
        unprivileged: arguments.unprivileged,
        choice,
        kernel_types,
        lint: lint::Selection::new(arguments.lint, &arguments.deny, &arguments.allow)?,
        settings: arguments.set.clone(),
        target: arguments.replaces.as_deref().map(target_of).transpose()?,
    };
    let baseline = arguments.baseline.as_deref().map(Baseline::read).transpose()?;
    let running = running::release().ok().map(|release| release.to_string());
    let mut all = Checking::new(&gathered, arguments.quiet, format.of_check(), running);
    let printed = all.text();
    // A fix is made of the source as it is now.
    let cache =
        if several && !arguments.fix { open_cache(arguments, &wanted, printed, baseline.as_ref())? } else { None };
    // Many sources would take long: there a fix is sought only if asked for.
    let fixing = (arguments.fix || !several).then_some(if arguments.fix { fix::BUDGET } else { HELPING });
    let how = How { wanted: &wanted, text: printed, baseline: baseline.as_ref(), fixing };
    let work = |at: usize| kept(&gathered.objects[at], &how, cache.as_ref());
    objects::each(gathered.objects.len(), objects::jobs(arguments.jobs), work, |_, shown| all.take(shown));
    if let Some(cache) = &cache {
        cache.prune();
    }
    all.check_names()?;
    write_flame_graph(arguments, all.reports())?;
    if arguments.fix {
        write_fixes(arguments, all.reports())?;
    }
    let included = all.reports().iter().filter_map(|report| report.compiled.as_ref());
    *files = included.flat_map(|how| how.read.clone()).collect();
    all.end(baseline.as_ref())
}

/// The object, or source, of a target, and its function's name if there is one behind the path.
fn target_of(text: &str) -> Result<reports::Target, Error> {
    let (path, function) = match text.rsplit_once(':') {
        Some((path, function)) if !Path::new(text).exists() => (path, Some(function.to_owned())),
        _ => (text, None),
    };
    let bytes = reports::read(Path::new(path)).1?;
    Ok(reports::Target { input: Arc::new(input::parse(path, bytes, &[])?), function })
}

/// Opens the folder of kept verdicts. What is kept has its text, so how that looks is part of the question.
fn open_cache(
    arguments: &CheckArguments,
    wanted: &Wanted,
    text: Option<bool>,
    baseline: Option<&Baseline>,
) -> Result<Option<Cache>, Error> {
    let place = match (&arguments.cache, arguments.no_cache) {
        (_, true) => Place::Nowhere,
        (Some(folder), false) => Place::Folder(folder),
        (None, false) => Place::Usual,
    };
    Cache::open(place, wanted, &format!("{text:?} {:?} {baseline:?}", print::terminal_width()))
}

/// How each object is checked and shown.
struct How<'a> {
    wanted: &'a Wanted,
    /// Whether the text form is made; with `true`, without what is accepted.
    text: Option<bool>,
    baseline: Option<&'a Baseline>,
    /// The time in which fixes are sought, if they are.
    fixing: Option<Duration>,
}

/// One object's verdicts: kept ones, or else new ones, which are kept.
fn kept(found: &Found, how: &How<'_>, cache: Option<&Cache>) -> Told {
    let (compiled, bytes) = reports::read(&found.path);
    let named = cache.and_then(|cache| Some((cache, cache.name(found, bytes.as_ref().ok()?))));
    if let Some(Entry { report, unknown, text }) = named.and_then(|(cache, name)| cache.get(&name)) {
        let judged = how.baseline.map(|baseline| baseline.judge(&report));
        return Told { report: Report { compiled, ..report }, text, unknown, judged, cached: true };
    }
    let mut outcome = reports::check_bytes(found, compiled, bytes, how.wanted);
    if let Some(budget) = how.fixing {
        outcome.report.fixes = fix::fixes(found, &outcome.report, how.wanted, budget);
    }
    let helps = |input: &Input, programs: &[Checked]| match how.wanted.several || how.wanted.unprivileged {
        true => String::new(),
        false => would_help(input, programs),
    };
    let shown = told(outcome, how.text, how.baseline, helps);
    if let Some((cache, name)) = named {
        let entry = Entry { report: shown.report.clone(), unknown: shown.unknown.clone(), text: shown.text.clone() };
        cache.put(&name, &entry);
    }
    shown
}

/// The kernels that a check is about. What is asked about the running kernel alone is not about the project's kernels.
fn kernels_of(arguments: &CheckArguments) -> Result<Choice, Error> {
    let running = arguments.with_kernel || arguments.profile || arguments.flame_graph.is_some();
    if !running {
        return target::choose(&arguments.kernel, arguments.btf.as_deref());
    }
    if arguments.btf.as_deref().is_some_and(|path| path.is_dir()) {
        let message =
            "--with-kernel, --profile and --flame-graph are about one kernel; --btf names a folder of several";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    Ok(Choice { btf: arguments.btf.clone(), ..Choice::default() })
}

/// Writes the fixes that lead to acceptance, one for each file: further ones are found by the next check.
fn write_fixes(arguments: &CheckArguments, reports: &[Report]) -> Result<(), Error> {
    for report in reports {
        let wanted = |own: &&fix::Fix| own.accepted && (own.safe || arguments.unsafe_fixes);
        let Some(own) = report.fixes.iter().find(wanted) else {
            let unsafe_ones = report.fixes.iter().filter(|own| own.accepted).count();
            if unsafe_ones > 0 {
                let what = print::count(unsafe_ones, "fix with a change of meaning");
                anstream::eprintln!("{}: {what} not written; --unsafe-fixes writes it", report.object);
            }
            continue;
        };
        match arguments.dry_run {
            true => anstream::eprintln!("{}: not written (--dry-run)", own.file),
            false => {
                fix::write(own)?;
                anstream::eprintln!("{}: fixed {}", own.file, own.program);
            }
        }
    }
    Ok(())
}

/// Writes the flame graph of all programs that were checked.
fn write_flame_graph(arguments: &CheckArguments, reports: &[Report]) -> Result<(), Error> {
    let Some(path) = &arguments.flame_graph else { return Ok(()) };
    let mut verified = Vec::new();
    for report in reports {
        let reports::Result::Checked { programs, .. } = &report.result else { continue };
        let object = (reports.len() > 1).then(|| report.object.to_string());
        verified.extend(programs.iter().filter_map(|checked: &Checked| {
            let program = format!("{} ({})", checked.program, checked.program_type.unwrap_or("no type"));
            Some(flame::Verified { object: object.clone(), program, cost: checked.profile.as_ref()? })
        }));
    }
    if verified.is_empty() {
        let message = "--flame-graph: no program could be verified: one without a type needs --type PROGRAM=TYPE";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    let objects = match reports {
        [report] => report.object.to_string(),
        _ => print::count(reports.len(), "object"),
    };
    let kernel = reports.iter().find_map(|report| match &report.result {
        reports::Result::Checked { kernel, .. } => Some(format!(", as Linux {kernel}")),
        _ => None,
    });
    let title = format!("kiln check: {objects}{}", kernel.unwrap_or_default());
    output::write_whole(path, &flame::graph(&title, &verified)?)
}
