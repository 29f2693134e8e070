//! `kiln check`: any number of objects on several threads, reported in their order.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kiln_driver::check::Checked;
use kiln_driver::commands::check::baseline::{Baseline, Judged};
use kiln_driver::commands::check::cache::{Cache, Entry, Place};
use kiln_driver::commands::check::reports::{self, Document, Outcome, Report, SCHEMA, Summary, Wanted, worst};
use kiln_driver::objects::{self, Found};
use kiln_driver::target::{self, Choice, Types};
use kiln_driver::{Error, Input, fix, flame, forge, input, lint, output, sarif};

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
    let gathered = objects::gather(&arguments.objects)?;
    if gathered.objects.is_empty() {
        return Err(Error::InvalidInput(
            "the folders hold no BPF objects for little-endian machines (.o, .elf, .bpf)".to_owned(),
        ));
    }
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
    let text = !matches!(format, Format::Json | Format::Sarif | Format::Gitlab);
    let baseline = arguments.baseline.as_deref().map(Baseline::read).transpose()?;
    let mut all = Checking { several, quiet: arguments.quiet, text, ..Checking::default() };
    (all.summary.left_out, all.summary.big_endian) = (gathered.left_out, gathered.big_endian);
    let printed = text.then_some(arguments.quiet);
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
    if let Some((name, _)) = all.unknown.iter().find(|(_, lacking)| **lacking == all.read) {
        return Err(Error::InvalidInput(format!("no object has a program {name}")));
    }
    write_flame_graph(arguments, &all.reports)?;
    if arguments.fix {
        write_fixes(arguments, &all.reports)?;
    }
    match format {
        Format::Json => print::json(&Document { schema: SCHEMA, objects: &all.reports, summary: &all.summary })?,
        Format::Sarif => print::json(&log(&all.reports, baseline.as_ref()))?,
        Format::Gitlab => print::json(&forge::gitlab(&log(&all.reports, baseline.as_ref())))?,
        _ if several || all.summary.failed == 0 => say!("{}", all.summary),
        _ => {}
    }
    if format == Format::Github {
        crate::output::write(&forge::github(&log(&all.reports, baseline.as_ref())));
    }
    let included = all.reports.iter().filter_map(|report| report.compiled.as_ref());
    *files = included.flat_map(|how| how.read.clone()).collect();
    if baseline.is_none() {
        return Ok(worst(all.reports.iter().map(Report::exit_code)));
    }
    let judged = all.judged.into_iter().collect::<Result<Vec<_>, _>>()?;
    let known: usize = judged.iter().map(|judged| judged.known).sum();
    if text && known > 0 {
        say!("{} known from the baseline, not counted", print::count(known, "problem"));
    }
    Ok(worst(judged.iter().map(|judged| judged.exit_code)))
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

/// The SARIF log of what was checked.
fn log(reports: &[Report], baseline: Option<&Baseline>) -> serde_json::Value {
    sarif::log(&std::env::current_dir().unwrap_or_default(), reports, baseline)
}

/// An object's report, and its text form, which was made where the object still was.
struct Shown {
    report: Report,
    text: String,
    unknown: Vec<String>,
    judged: Option<Result<Judged, Error>>,
    /// Whether it was kept from an earlier run.
    cached: bool,
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
fn kept(found: &Found, how: &How<'_>, cache: Option<&Cache>) -> Shown {
    let (compiled, bytes) = reports::read(&found.path);
    let named = cache.and_then(|cache| Some((cache, cache.name(found, bytes.as_ref().ok()?))));
    if let Some(Entry { report, unknown, text }) = named.and_then(|(cache, name)| cache.get(&name)) {
        let judged = how.baseline.map(|baseline| baseline.judge(&report));
        return Shown { report: Report { compiled, ..report }, text, unknown, judged, cached: true };
    }
    let mut outcome = reports::check_bytes(found, compiled, bytes, how.wanted);
    if let Some(budget) = how.fixing {
        outcome.report.fixes = fix::fixes(found, &outcome.report, how.wanted, budget);
    }
    let shown = one(outcome, how);
    if let Some((cache, name)) = named {
        let entry = Entry { report: shown.report.clone(), unknown: shown.unknown.clone(), text: shown.text.clone() };
        cache.put(&name, &entry);
    }
    shown
}

/// Adds the text form if it is wanted, without what is known.
fn one(outcome: Outcome, how: &How<'_>) -> Shown {
    let How { wanted, text, baseline, .. } = *how;
    let judged = baseline.map(|baseline| baseline.judge(&outcome.report));
    let known = judged.as_ref().and_then(|judged| judged.as_ref().ok());
    let mut shown = match (&outcome.report.result, &outcome.input, text) {
        (reports::Result::Checked { programs, .. }, Some(input), Some(quiet)) => {
            let programs = unknown(programs, known);
            let helps =
                if wanted.several || wanted.unprivileged { String::new() } else { would_help(input, &programs) };
            print::checked(input, &programs, quiet) + &helps
        }
        (reports::Result::Kernels(matrix), Some(input), Some(quiet)) => print::matrix(input, matrix, quiet),
        _ => String::new(),
    };
    if let (Some(maps), Some(false)) = (outcome.input.as_ref().and_then(Input::only_maps), text) {
        shown.push_str(&format!("{}\n", kiln_driver::Shown::from(maps.as_str())));
    }
    if text.is_some() {
        outcome.report.fixes.iter().for_each(|own| shown.push_str(&print::fix(own)));
    }
    if let (Some(input), Some(findings), Some(_)) = (&outcome.input, &outcome.report.findings, text) {
        shown.push_str(&print::warnings(input, findings));
    }
    Shown { report: outcome.report, text: shown, unknown: outcome.unknown, judged, cached: false }
}

/// The programs without those whose problems are known.
fn unknown<'a>(programs: &'a [Checked], judged: Option<&Judged>) -> Cow<'a, [Checked]> {
    match judged {
        Some(judged) => programs.iter().filter(|checked| !judged.knows(&checked.program)).cloned().collect(),
        None => Cow::Borrowed(programs),
    }
}

/// What was checked so far.
#[derive(Default)]
struct Checking {
    several: bool,
    quiet: bool,
    text: bool,
    said_kernels: bool,
    reports: Vec<Report>,
    /// The reports beside the baseline, if there is one.
    judged: Vec<Result<Judged, Error>>,
    summary: Summary,
    /// Objects that could be read.
    read: usize,
    /// Names that were asked for, with the number of objects that lack them.
    unknown: BTreeMap<String, usize>,
}

impl Checking {
    /// Takes the next object's report, and prints its text form.
    fn take(&mut self, shown: Shown) {
        let Shown { report, text, unknown, judged, cached } = shown;
        self.summary.cached += usize::from(cached);
        self.judged.extend(judged);
        self.summary.add(&report);
        for name in unknown {
            *self.unknown.entry(name).or_default() += 1;
        }
        if let Some(how) = report.compiled.as_ref().filter(|_| self.text) {
            how.said.iter().for_each(|line| anstream::eprintln!("{line}"));
            if !self.quiet {
                anstream::eprintln!("compiled {} with {}", report.object, how.in_words());
            }
        }
        match &report.result {
            reports::Result::Failed { error } => {
                let named = error.message.to_string().contains(&report.object.to_string());
                let name = (!named).then_some(&report.object);
                print::failure(name, &error.message);
            }
            result => {
                self.read += 1;
                if self.text && !self.said_kernels && !self.quiet {
                    print::which_kernels(result);
                    self.said_kernels = true;
                }
            }
        }
        if self.text && !text.is_empty() {
            if self.several {
                say!("{}:", report.object);
            }
            crate::output::write(&text);
        }
        self.reports.push(report);
    }
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
                own.write()?;
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
