//! `kiln optimize`: one object, or all of some folders into another one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_driver::commands::check::reports::{self, Failure, SCHEMA, Wanted, worst};
use kiln_driver::objects::{self, Found, Gathered};
use kiln_driver::optimize::{Optimized, Options, Outcome, default_budget, optimize as run, read_model};
use kiln_driver::target::{self, Choice, Types};
use kiln_driver::{Error, Goal, Input, Shown, check, evidence, learn, output, report, running};
use serde_json::json;

use crate::arguments::{self, Format, OptimizeArguments};
use crate::commands::{self, Code};
use crate::progress::Spinner;
use crate::{print, say};

/// `kiln optimize`.
pub fn optimize(arguments: &OptimizeArguments, format: Format) -> Code {
    let choice = target::choose(&arguments.kernel, None)?;
    let Places { gathered, outputs, folder, to_standard_output } = places(arguments, format)?;
    let shared = Shared {
        model: arguments.cost_model.as_deref().map(read_model).transpose()?.map(Arc::new),
        rules: arguments.rules.as_deref().map(learn::proved_rules).transpose()?.map(Arc::new),
        choice,
    };
    let text = format != Format::Json && !to_standard_output;
    if text {
        print::wanted_kernels(&shared.choice);
    }
    let mut spinner = Spinner::new("optimizing");
    let mut documents = Vec::new();
    let mut codes = Vec::new();
    let mut totals = Totals::default();
    for (found, output) in gathered.objects.iter().zip(&outputs) {
        if folder && spinner.cancelled() {
            break;
        }
        if folder {
            spinner.say(found.path.display().to_string());
            if let Some(parent) = output.parent() {
                std::fs::create_dir_all(parent).map_err(|error| Error::file(parent, &error))?;
            }
        }
        let object = Shown::from(found.path.display().to_string().as_str());
        match one(&found.path, output, arguments, &shared, &mut spinner, !folder) {
            Ok((input, outcome)) => {
                codes.push(exit_code(found, &input, &outcome, arguments, &shared.choice));
                totals.add(&outcome);
                if text && folder {
                    say!("{object}:");
                }
                if let Some(maps) = input.only_maps().filter(|_| text) {
                    say!("{}", Shown::from(maps.as_str()));
                } else if text {
                    print::optimized(&outcome, arguments.verbose, arguments.timings);
                }
                documents.push(document(&outcome, &object, output));
            }
            Err(error) if folder => {
                codes.push(error.exit_code());
                let failure = Failure::from(&error);
                print::failure(None, &failure.message);
                documents.push(json!({"object": object, "error": failure}));
            }
            Err(error) => {
                spinner.finish();
                return Err(error);
            }
        }
    }
    spinner.finish();
    match format {
        Format::Json => print::json(&json!({"schema": SCHEMA, "objects": documents}))?,
        _ if folder => say!("{}", totals.sentence(&gathered)),
        _ => {}
    }
    Ok(worst(codes))
}

/// What JSON output says of one object.
fn document(outcome: &Outcome, object: &Shown, output: &Path) -> serde_json::Value {
    let mut document = serde_json::to_value(outcome.report()).unwrap_or_default();
    document["object"] = json!(object);
    document["output"] = json!(Shown::from(output.display().to_string().as_str()));
    document
}

/// What is optimized, and where to.
struct Places {
    gathered: Gathered,
    outputs: Vec<PathBuf>,
    /// Several objects are written into a folder.
    folder: bool,
    to_standard_output: bool,
}

fn places(arguments: &OptimizeArguments, format: Format) -> Result<Places, Error> {
    let gathered = objects::gather(&arguments.objects)?;
    let names_folder = arguments.output.as_os_str().as_encoded_bytes().ends_with(b"/");
    let folder = arguments.objects.len() > 1 || names_folder || arguments.objects.iter().any(|path| path.is_dir());
    let to_standard_output = commands::is_standard_output(&arguments.output, format)?;
    if folder && (to_standard_output || arguments.evidence.is_some() || arguments.report.is_some()) {
        let message = "-o -, --evidence and --report are for one object; several are written into a folder, -o FOLDER";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    if gathered.objects.is_empty() {
        return Err(Error::InvalidInput(
            "the folders hold no BPF objects for little-endian machines (.o, .elf, .bpf)".to_owned(),
        ));
    }
    let outputs = match folder {
        true => outputs(&gathered.objects, &arguments.output)?,
        false => vec![arguments.output.clone()],
    };
    Ok(Places { gathered, outputs, folder, to_standard_output })
}

/// What all objects of a command share.
struct Shared {
    model: Option<Arc<kiln_driver::optimize::CostModel>>,
    rules: Option<Arc<kiln_driver::optimize::RuleSet>>,
    choice: Choice,
}

/// Optimizes one object and writes what was asked for.
fn one(
    path: &Path,
    output: &Path,
    arguments: &OptimizeArguments,
    shared: &Shared,
    spinner: &mut Spinner,
    last: bool,
) -> Result<(Input, Outcome), Error> {
    let begun = Instant::now();
    let input = commands::open(path, &arguments.types)?;
    if last && input.only_maps().is_none() && input.object.programs.is_empty() && check::unreadable(&input).is_empty() {
        return Err(input.holds_no_programs());
    }
    let budget = budget(arguments, &input)?;
    output::check_writable(output)?;
    if input.elf.is_none() && output.extension().is_some_and(|extension| extension == "o") {
        let message =
            format!("{} is text, and so is what becomes of it: name a file that ends in .bpf", path.display());
        return Err(Error::InvalidInput(message));
    }
    arguments.evidence.as_deref().map_or(Ok(()), evidence::check_folder)?;
    if let Some(report) = arguments.report.as_deref() {
        output::check_writable(report)?;
        output::check_distinct(report, output)?;
        output::check_distinct(report, path)?;
    }
    let mut options = Options::default();
    options.goal = match arguments.goal {
        arguments::Goal::Size => Goal::Size,
        arguments::Goal::Speed => Goal::Speed,
        arguments::Goal::Complexity => Goal::Complexity,
        arguments::Goal::Balanced => Goal::Balanced,
    };
    options.model = shared.model.clone();
    options.budget = budget;
    options.begun = Some(begun);
    options.ask_kernel = !arguments.offline;
    options.keep_queries = arguments.report.is_some();
    options.certify = arguments.evidence.is_some();
    options.budget_bounds_certificate = arguments.budget.is_some();
    options.profile = target::oldest(&shared.choice.kernels, &input.object)?;
    options.rules = shared.rules.clone();
    options.programs = arguments.program.clone();
    let outcome = run(&input, &options, spinner);
    if last {
        spinner.finish();
    }
    let outcome = outcome?;
    output::write_whole(output, &outcome.bytes)?;
    if let Some(folder) = &arguments.evidence {
        evidence::write(folder, &input.object, &outcome.object, &outcome.proofs, [&input.bytes, &outcome.bytes])?;
    }
    if let Some(path) = &arguments.report {
        let about = about(output, &outcome, &shared.choice);
        output::write_whole(path, report::page(&input, &outcome, &about).as_bytes())?;
    }
    Ok((input, outcome))
}

/// How long an object may take: what the user says, or a time by its size.
fn budget(arguments: &OptimizeArguments, input: &Input) -> Result<Duration, Error> {
    arguments.budget.map_or_else(|| Ok(default_budget(&input.object)), commands::seconds)
}

/// What a report says of this command.
fn about(output: &Path, outcome: &Outcome, choice: &Choice) -> report::About {
    let words = std::env::args_os().skip(1).map(|word| {
        let word = word.to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:%+@".contains(c);
        if !word.is_empty() && word.chars().all(plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    });
    let command: Vec<String> = std::iter::once("kiln".to_owned()).chain(words).collect();
    let running = match running::release() {
        Ok(release) => format!("Linux {release}, which runs here"),
        Err(_) => "unknown: the one that runs here does not say its release".to_owned(),
    };
    let asked = outcome.programs.iter().any(|program| program.kernel_before.is_some());
    let asked = if asked { "its verifier was asked about every program" } else { "its verifier was not asked" };
    let kernel = match print::kernel_names(choice) {
        None => format!("{running}; {asked}"),
        Some(names) => format!("the result is to load on {names}; optimized on {running}; {asked}"),
    };
    report::About {
        command: command.join(" ").into(),
        kernel: kernel.into(),
        output: output.display().to_string().into(),
    }
}

/// Where each object goes below a folder.
fn outputs(objects: &[Found], folder: &Path) -> Result<Vec<PathBuf>, Error> {
    if folder.is_file() {
        let name = folder.display();
        return Err(Error::InvalidInput(format!("{name} is a file; several objects are written into a folder")));
    }
    let mut taken = BTreeMap::new();
    let mut outputs = Vec::new();
    for found in objects {
        let output = folder.join(&found.below);
        if let Some(other) = taken.insert(output.clone(), &found.path) {
            let (one, two, output) = (other.display(), found.path.display(), output.display());
            return Err(Error::InvalidInput(format!("{one} and {two} would both be written to {output}")));
        }
        outputs.push(output);
    }
    Ok(outputs)
}

/// The exit code: that of `kiln check` for the programs that neither Kiln nor the kernel accepts as they are, and for those
/// that cannot be read. The object is written all the same, with these programs as they are. No verdict for lack of time
/// counts 0.
fn exit_code(found: &Found, input: &Input, outcome: &Outcome, arguments: &OptimizeArguments, choice: &Choice) -> u8 {
    let chosen = |name: &str| arguments.program.is_empty() || arguments.program.iter().any(|own| own == name);
    let doubtful = |program: &&Optimized| {
        let kernel_accepts = matches!(program.kernel_before, Some(check::KernelVerdict::Accepted { .. }));
        !program.before.is_accepted() && !kernel_accepts && !program.limit_reached && chosen(program.program.exact())
    };
    let programs: Vec<String> =
        outcome.programs.iter().filter(doubtful).map(|program| program.program.exact().to_owned()).collect();
    let unreadable = check::unreadable(input).into_iter().filter(|program| chosen(program.program.exact()));
    let unreadable = worst(unreadable.map(|program| program.verdict.exit_code()));
    if programs.is_empty() {
        return unreadable;
    }
    // Most are told by their verdict for all kernels. What the kernel's types and version decide is verified again, if all
    // before took at most half of the budget.
    let budget = budget(arguments, input).unwrap_or_default();
    if outcome.cut_short || outcome.spent > budget / 2 || programs.len() > MAX_RECHECKED {
        let verdicts = outcome.programs.iter().filter(doubtful).map(|program| program.before.exit_code());
        return worst(verdicts.chain([unreadable]));
    }
    let kernel_types = match Types::open(choice.btf.as_deref()) {
        Ok(types) => types,
        Err(error) => return error.exit_code(),
    };
    let wanted = Wanted {
        types: arguments.types.clone(),
        programs,
        several: true,
        with_kernel: false,
        profile: false,
        unprivileged: false,
        choice: choice.clone(),
        kernel_types,
        lint: kiln_driver::lint::Selection::default(),
        settings: Vec::new(),
        target: None,
    };
    worst([unreadable, reports::check(found, &wanted).report.exit_code()])
}

/// Programs that are verified again for the exit code.
const MAX_RECHECKED: usize = 32;

/// Sums over all objects.
#[derive(Default)]
struct Totals {
    objects: usize,
    before: u64,
    after: u64,
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        self.objects += 1;
        self.before += outcome.object_slots[0];
        self.after += outcome.object_slots[1];
    }

    fn sentence(&self, gathered: &Gathered) -> String {
        let (objects, before, after) = (print::count(self.objects, "object"), self.before, self.after);
        let saved = print::percent(before, after);
        let left_out = match gathered.left_out {
            0 => String::new(),
            some => format!("; {} not for BPF left out", print::count(some, "file")),
        };
        let twins = match gathered.big_endian {
            0 => String::new(),
            some => format!("; {} left out", print::count(some, "big-endian object")),
        };
        format!("{objects} written: {before} slots -> {after} ({saved} saved){left_out}{twins}")
    }
}
