//! One function a subcommand: calls the driver, prints, answers the exit code.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::CommandFactory;
use clap_complete::Shell;
use kiln_driver::check::Verdict;
use kiln_driver::run::{Place, Stimulus};
use kiln_driver::target::{self, Choice, Types};
use kiln_driver::{
    Engine, Error, Goal, Input, bench, check, compile, doctor, dump, evidence, explain, file, input, learn, operations,
    optimize, output, profile, profiles, recheck, report, run, sandbox, sarif,
};

use crate::arguments::{self, BenchArguments, CheckArguments, Cli, DumpArguments, Format, ObjectArguments};
use crate::arguments::{
    CcArguments, EvidenceArguments, LearnArguments, OpsArguments, OptimizeArguments, RunArguments, SandboxArguments,
};
use crate::progress::Spinner;
use crate::{measured, print};

/// Exit code of success, or of a rejected program.
type Code = Result<u8, Error>;

/// Opens an object, and says which of its programs are left out because they cannot be read.
fn open(arguments: &ObjectArguments) -> Result<Input, Error> {
    let input = open_all(arguments)?;
    for left_out in check::unreadable(&input) {
        if let Verdict::Invalid { reason } | Verdict::Unsupported { reason } = &left_out.verdict {
            anstream::eprintln!("left out: {}: {reason}", left_out.program);
        }
    }
    Ok(input)
}

fn open_all(arguments: &ObjectArguments) -> Result<Input, Error> {
    let mut input = input::open(&arguments.object, &arguments.types)?;
    input.use_kernel_types();
    Ok(input)
}

/// `kiln check`.
pub fn check(arguments: &CheckArguments, format: Format) -> Code {
    let choice = kernels_of(arguments)?;
    let types = Types::open(choice.btf.as_deref())?;
    let several = !choice.kernels.is_empty() || !types.kernels().is_empty();
    let mut input = open_all(&arguments.object)?;
    match &types {
        _ if several => {}
        Types::Running => input.resolve_for_running_kernel()?,
        Types::File(path, _) => input.resolve_core(path)?,
        Types::Hub(_) => {}
    }
    input.unprivileged = arguments.unprivileged;
    let programs = input.select(&arguments.object.program)?;
    let unreadable = if arguments.object.program.is_empty() { check::unreadable(&input) } else { Vec::new() };
    if programs.is_empty() && unreadable.is_empty() {
        return Err(input.holds_no_programs());
    }
    if several {
        let matrix = profiles::check(&input, &programs, &choice, &types)?;
        return check_for_kernels(&input, matrix, unreadable, arguments, format);
    }
    if arguments.with_kernel {
        kiln_driver::require_kernel()?;
    }
    let graph = arguments.flame_graph.as_deref();
    graph.map_or(Ok(()), output::check_writable)?;
    if graph.is_some() && programs.len() != 1 {
        return Err(Error::InvalidInput("--flame-graph is of one program: choose it with --program".to_owned()));
    }
    let mut results = check::check(&input, &programs, arguments.with_kernel);
    if arguments.profile || graph.is_some() {
        for (result, program) in results.iter_mut().zip(&programs) {
            result.profile = check::profile(&input, program);
        }
    }
    if let (Some(path), [result]) = (graph, results.as_slice())
        && let Some(profile) = &result.profile
    {
        output::write_whole(path, &profile.flame_graph(&format!("kiln check: {}", result.program))?)?;
    }
    results.extend(unreadable);
    match format {
        Format::Json => print::json(&results)?,
        Format::Sarif => {
            let root = std::env::current_dir().unwrap_or_default();
            print::json(&sarif::log(&arguments.object.object, &root, &results))?;
        }
        _ => {
            print::which_kernel(&input, choice.btf.as_deref());
            print::checked(&input, &results);
        }
    }
    Ok(exit_code(&results))
}

/// The worst of the verdicts: a rejection, or a disagreement with the kernel, before what is invalid or unsupported.
fn exit_code(results: &[check::Checked]) -> u8 {
    let code = |result: &check::Checked| match result.verdict {
        _ if result.disagrees() => 1,
        Verdict::Rejected { .. } => 1,
        Verdict::Invalid { .. } => 2,
        Verdict::Unsupported { .. } => 3,
        Verdict::Accepted { .. } => 0,
    };
    results.iter().map(code).filter(|code| *code > 0).min().unwrap_or(0)
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

/// `kiln check` for kernels that were named.
fn check_for_kernels(
    input: &Input,
    mut matrix: profiles::Matrix,
    unreadable: Vec<check::Checked>,
    arguments: &CheckArguments,
    format: Format,
) -> Code {
    matrix.add_unreadable(unreadable);
    match format {
        Format::Json => print::json(&matrix)?,
        Format::Sarif => {
            let root = std::env::current_dir().unwrap_or_default();
            print::json(&sarif::log(&arguments.object.object, &root, &matrix.first_rejections()))?;
        }
        _ => print::matrix(input, &matrix),
    }
    Ok(if matrix.rejects() {
        1
    } else if matrix.cannot_read() {
        2
    } else if matrix.lacks() {
        3
    } else {
        0
    })
}

/// Whether the object goes to standard output, where nothing else may be.
fn is_standard_output(path: &Path, format: Format) -> Result<bool, Error> {
    match (output::is_standard(path), format) {
        (true, Format::Json) => Err(Error::InvalidInput(
            "the object and the JSON cannot both go to standard output; name a file with -o".to_owned(),
        )),
        (standard, _) => Ok(standard),
    }
}

/// `kiln optimize`.
pub fn optimize(arguments: &OptimizeArguments, format: Format) -> Code {
    let begun = Instant::now();
    let input = open(&arguments.object)?;
    let choice = target::choose(&arguments.kernel, None)?;
    let budget = arguments.budget.map_or_else(|| Ok(optimize::default_budget(&input.object)), seconds)?;
    let model = arguments.cost_model.as_deref().map(optimize::read_model).transpose()?;
    output::check_writable(&arguments.output)?;
    arguments.evidence.as_deref().map_or(Ok(()), evidence::check_folder)?;
    if let Some(report) = arguments.report.as_deref() {
        output::check_writable(report)?;
        output::check_distinct(report, &arguments.output)?;
    }
    let to_standard_output = is_standard_output(&arguments.output, format)?;
    let mut spinner = Spinner::new("optimizing");
    let options = optimize::Options {
        goal: match arguments.goal {
            arguments::Goal::Size => Goal::Size,
            arguments::Goal::Speed => Goal::Speed,
            arguments::Goal::Complexity => Goal::Complexity,
            arguments::Goal::Balanced => Goal::Balanced,
        },
        model: model.map(Arc::new),
        budget,
        begun: Some(begun),
        ask_kernel: !arguments.offline,
        keep_queries: arguments.report.is_some(),
        certify: arguments.evidence.is_some(),
        budget_bounds_certificate: arguments.budget.is_some(),
        profile: profiles::oldest(&choice.kernels, &input.object)?,
        rules: arguments.rules.as_deref().map(learn::proved_rules).transpose()?.map(Arc::new),
        programs: arguments.object.program.clone(),
    };
    let outcome = optimize::optimize(&input, &options, &mut spinner);
    spinner.finish();
    let outcome = outcome?;
    output::write_whole(&arguments.output, &outcome.bytes)?;
    if let Some(folder) = &arguments.evidence {
        evidence::write(folder, &input.object, &outcome.object, &outcome.proofs)?;
    }
    if let Some(path) = &arguments.report {
        output::write_whole(path, report::page(&input.object, &outcome).as_bytes())?;
    }
    match format {
        Format::Json => print::json(&outcome.report())?,
        _ if to_standard_output => {}
        _ => {
            print::wanted_kernels(&choice);
            print::optimized(&outcome, arguments.verbose, arguments.timings);
        }
    }
    Ok(0)
}

/// `kiln sandbox`.
pub fn sandbox(arguments: &SandboxArguments, format: Format) -> Code {
    let input = open(&arguments.object)?;
    output::check_writable(&arguments.output)?;
    let to_standard_output = is_standard_output(&arguments.output, format)?;
    let options = sandbox::Options {
        quantum: seconds(arguments.quantum)?,
        cancelled_return: arguments.cancelled_return,
        elide: !arguments.keep_all,
        ask_kernel: !arguments.offline,
    };
    let outcome = sandbox::sandbox(&input, &options)?;
    output::write_whole(&arguments.output, &outcome.bytes)?;
    match format {
        Format::Json => print::json(&outcome)?,
        _ if to_standard_output => {}
        _ => print::sandboxed(&outcome, arguments.explain),
    }
    let refused = outcome.kernel.iter().any(|(_, verdict)| matches!(verdict, check::KernelVerdict::Rejected { .. }));
    Ok(u8::from(refused))
}

/// `kiln cc`.
pub fn cc(arguments: &CcArguments) -> Code {
    let from_environment = |name: &str, default: f64| match std::env::var(name) {
        Ok(text) => {
            let number =
                text.parse().map_err(|_| Error::InvalidInput(format!("{name}={text} is no number of seconds")))?;
            seconds(number)
        }
        Err(_) => seconds(default),
    };
    let options = compile::Options {
        clang: std::env::var("KILN_CLANG").unwrap_or_else(|_| "clang-19".to_owned()),
        arguments: arguments.arguments.clone(),
        sandbox: sandbox::Options { quantum: from_environment("KILN_QUANTUM", 0.01)?, ..sandbox::Options::default() },
        optimize: from_environment("KILN_OPTIMIZE", 1.0)?,
    };
    Ok(compile::compile(&options)?.code)
}

/// `kiln verify-evidence`.
pub fn verify_evidence(arguments: &EvidenceArguments, format: Format) -> Code {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let options = recheck::Options {
        solver: arguments.solver.clone(),
        timeout: seconds(arguments.timeout)?,
        jobs: arguments.jobs.map_or_else(processors, usize::from),
        original: arguments.original.clone(),
        object: arguments.object.clone(),
    };
    let spinner = Spinner::new("checking");
    let progress = |done: usize, all: usize| {
        spinner.say(format!("{done} of {all} functions"));
        !spinner.cancelled()
    };
    let checked = recheck::verify(&arguments.folder, &options, &progress);
    spinner.finish();
    let checked = checked?;
    match format {
        Format::Json => print::json(&checked)?,
        _ => print::rechecked(&checked),
    }
    Ok(u8::from(!checked.is_proved()))
}

/// `kiln learn`.
pub fn learn(arguments: &LearnArguments, format: Format) -> Code {
    let options = learn::Options {
        budget: seconds(arguments.budget)?,
        jobs: arguments.jobs.map_or(0, usize::from),
        file: learn::rule_file(&arguments.output)?,
    };
    output::check_writable(&arguments.output)?;
    let mut spinner = Spinner::new("learning");
    let outcome = learn::learn(&arguments.corpora, options, &mut spinner);
    spinner.finish();
    let outcome = outcome?;
    output::write_whole(&arguments.output, outcome.text.as_bytes())?;
    match format {
        Format::Json => print::json(&outcome)?,
        _ => print::learned(&outcome),
    }
    Ok(0)
}

/// `kiln run`.
pub fn run(arguments: &RunArguments, format: Format) -> Code {
    let input = open(&arguments.object)?;
    let program = input.single(&arguments.object.program)?;
    let packet = match (&arguments.packet, &arguments.packet_file) {
        (Some(text), _) => run::from_hex(text)?,
        (None, Some(path)) => file::read(path, input::MAX_FILE_BYTES)?,
        (None, None) => Vec::new(),
    };
    let stimulus = Stimulus {
        packet,
        context: arguments.context_file.as_deref().map(|path| file::read(path, input::MAX_FILE_BYTES)).transpose()?,
        repeat: arguments.repeat,
        insn_budget: arguments.insn_budget,
    };
    let place = match arguments.place {
        arguments::Place::Jit => Place::Vm(Engine::Jit),
        arguments::Place::Interpreter => Place::Vm(Engine::Interpreter),
        arguments::Place::Kernel => Place::Kernel,
    };
    let ran = run::run(&input, program, &stimulus, place)?;
    match format {
        Format::Json => print::json(&ran)?,
        _ => print::ran(&ran, &stimulus.packet, arguments.maps),
    }
    Ok(0)
}

/// `kiln bench --profile`.
fn profile(arguments: &BenchArguments, format: Format) -> Code {
    arguments.output.as_deref().map_or(Ok(()), output::check_writable)?;
    let in_kernel = !arguments.offline && kiln_driver::require_kernel().is_ok();
    let spinner = Spinner::new("measuring");
    let profile = profile::profile(in_kernel, &mut |what| {
        spinner.say(what);
        !spinner.cancelled()
    });
    spinner.finish();
    let profile = profile?;
    for (name, why) in &profile.missing {
        anstream::eprintln!("not measured: {name}: {}", why.lines().next().unwrap_or_default());
    }
    match (&arguments.output, format) {
        (Some(path), _) => output::write_whole(path, profile.to_text().as_bytes())?,
        (None, Format::Json) => print::json(&profile)?,
        (None, _) => crate::output::write(&profile.to_text()),
    }
    Ok(0)
}

/// `kiln bench`.
pub fn bench(arguments: &BenchArguments, format: Format) -> Code {
    if arguments.profile {
        return profile(arguments, format);
    }
    let options = bench::Options {
        budget: seconds(arguments.budget)?,
        repeat: arguments.repeat,
        samples: arguments.samples,
        ask_kernel: !arguments.offline,
    };
    if options.ask_kernel
        && let Err(error) = kiln_driver::require_kernel()
    {
        anstream::eprintln!("the kernel is left out: {error}");
    }
    let mut spinner = Spinner::new("measuring");
    let next = |spinner: &mut Spinner, path: &Path| {
        spinner.say(path.display().to_string());
        !spinner.cancelled()
    };
    let bench::Measured { rows, failed } =
        bench::bench_all(&arguments.objects, &arguments.types, &options, &mut spinner, next);
    spinner.finish();
    for error in failed.iter().filter(|_| !rows.is_empty()) {
        print::error(error, Format::Text);
    }
    // What was measured is printed; the exit code is that of the first failure.
    match (rows.is_empty(), failed.into_iter().next()) {
        (true, Some(error)) => Err(error),
        (_, failure) => {
            match format {
                Format::Json => print::json(&rows)?,
                _ => measured::benched(&rows),
            }
            Ok(failure.map_or(0, |error| error.exit_code()))
        }
    }
}

/// `kiln dump`.
pub fn dump(arguments: &DumpArguments, format: Format) -> Code {
    let input = open(&arguments.object)?;
    let programs = input.select(&arguments.object.program)?;
    let kernel_types = input.kernel_types.clone();
    let options = dump::Options { source: !arguments.no_source, facts: arguments.facts, kernel_types };
    let listings = dump::Listings::new(&input.object, &programs, options)?;
    match format {
        Format::Json => print::json(&listings)?,
        _ => print::listings(&dump::maps(&input.object), &listings),
    }
    Ok(0)
}

/// `kiln ops`.
pub fn ops(arguments: &OpsArguments, format: Format) -> Code {
    let Some(path) = &arguments.object else {
        let rows = operations::rows();
        match format {
            Format::Json => print::json(&rows)?,
            _ => print::operations(&rows),
        }
        return Ok(0);
    };
    let mut input = input::open(path, &[])?;
    match &arguments.output {
        Some(output) => {
            output::check_writable(output)?;
            let bytes = operations::annotate(&mut input)?;
            output::write_whole(output, &bytes)?;
        }
        None => {
            operations::recognize(&mut input);
        }
    }
    let found = operations::found(&input.object);
    match format {
        Format::Json => print::json(&found)?,
        _ => print::found_operations(&found),
    }
    Ok(0)
}

/// `kiln explain`.
pub fn explain(code: Option<&str>, format: Format) -> Code {
    let reasons = explain::explain(code)?;
    match format {
        Format::Json => print::json(&reasons)?,
        _ => print::reasons(&reasons, code.is_some()),
    }
    Ok(0)
}

/// `kiln doctor`.
pub fn doctor(format: Format) -> Code {
    let findings = doctor::examine();
    match format {
        Format::Json => print::json(&findings)?,
        _ => print::findings(&findings),
    }
    Ok(0)
}

/// `kiln completions`.
pub fn completions(shell: Shell) -> Code {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "kiln", &mut script);
    crate::output::write(&String::from_utf8_lossy(&script));
    Ok(0)
}

fn seconds(value: f64) -> Result<Duration, Error> {
    Duration::try_from_secs_f64(value).map_err(|_| Error::InvalidInput(format!("{value} is no number of seconds")))
}
