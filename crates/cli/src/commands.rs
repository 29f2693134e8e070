//! One function a subcommand: calls the driver, prints, answers the exit code.

use std::path::Path;
use std::time::Duration;

use clap_complete::Shell;
use kiln_driver::check::Verdict;
use kiln_driver::commands::dump as native_dump;
use kiln_driver::feed::Feed;
use kiln_driver::run::{Place, Stimulus};
use kiln_driver::{
    Engine, Error, Input, ProgramType, bench, calibrate, capture, cc, check, doctor, dump, file, input, learn, ops,
    output, profile, replay, run, sandbox, verify_evidence,
};

use crate::arguments::build::Native;
use crate::arguments::{self, BenchArguments, DumpArguments, Format, complete};
use crate::arguments::{
    CcArguments, EvidenceArguments, LearnArguments, OpsArguments, OpsTarget, RunArguments, SandboxArguments,
    SandboxTarget,
};
use crate::progress::Spinner;
use crate::{measured, print};

/// Exit code of success, or of a rejected program.
pub(crate) type Code = Result<u8, Error>;

/// Opens an object, and says which of its programs are left out because they cannot be read.
pub(crate) fn open(path: &Path, types: &[(String, ProgramType)]) -> Result<Input, Error> {
    let input = open_all(path, types)?;
    for left_out in check::unreadable(&input) {
        if let Verdict::Invalid { reason } | Verdict::Unsupported { reason } = &left_out.verdict {
            anstream::eprintln!("left out: {}: {reason}", left_out.program);
        }
    }
    Ok(input)
}

fn open_all(path: &Path, types: &[(String, ProgramType)]) -> Result<Input, Error> {
    let mut input = input::open(path, types)?;
    input.use_kernel_types();
    Ok(input)
}

/// Whether the object goes to standard output, where nothing else may be.
pub(crate) fn is_standard_output(path: &Path, format: Format) -> Result<bool, Error> {
    match (output::is_standard(path), format) {
        (true, Format::Json) => Err(Error::InvalidInput(
            "the object and the JSON cannot both go to standard output; name a file with -o".to_owned(),
        )),
        (standard, _) => Ok(standard),
    }
}

/// `kiln sandbox`.
pub fn sandbox(arguments: &SandboxArguments, format: Format) -> Code {
    let input = open(&arguments.object, &arguments.types)?;
    output::check_writable(&arguments.output)?;
    let to_standard_output = is_standard_output(&arguments.output, format)?;
    let mut options = sandbox::Options::default();
    options.target = match (arguments.target, arguments.quantum) {
        (SandboxTarget::Linux, _) => sandbox::Target::Linux,
        (SandboxTarget::Vm, None) => sandbox::Target::Vm,
        (SandboxTarget::Vm, Some(_)) => {
            let why = "--quantum has no effect with --target vm: the quantum is an option of `kiln run` there";
            return Err(Error::InvalidInput(why.to_owned()));
        }
    };
    if let Some(quantum) = arguments.quantum {
        options.quantum = seconds(quantum)?;
    }
    options.cancelled_return = arguments.cancelled_return;
    options.elide = !arguments.keep_all;
    options.detach_after = arguments.detach_after;
    options.ask_kernel = !arguments.offline;
    let outcome = sandbox::sandbox(&input, &options)?;
    output::write_whole(&arguments.output, &outcome.bytes)?;
    match format {
        Format::Json => print::json(&outcome)?,
        _ if to_standard_output => {}
        _ => print::sandboxed(&outcome, arguments.explain),
    }
    Ok(0)
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
    let mut sandbox = sandbox::Options::default();
    sandbox.quantum = from_environment("KILN_QUANTUM", 0.01)?;
    let options = cc::Options {
        clang: kiln_driver::clang::name(),
        arguments: arguments.arguments.clone(),
        sandbox,
        optimize: from_environment("KILN_OPTIMIZE", 1.0)?,
    };
    Ok(cc::compile(&options)?.code)
}

/// `kiln verify-evidence`.
pub fn verify_evidence(arguments: &EvidenceArguments, format: Format) -> Code {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = verify_evidence::Options::default();
    options.solver = arguments.solver.clone();
    options.timeout = seconds(arguments.timeout)?;
    options.jobs = arguments.jobs.map_or_else(processors, usize::from);
    options.original = arguments.original.clone();
    options.object = arguments.object.clone();
    let spinner = Spinner::new("checking");
    let progress = |done: usize, all: usize| {
        spinner.say(format!("{done} of {all} functions"));
        !spinner.cancelled()
    };
    let checked = verify_evidence::verify(&arguments.folder, &options, &progress);
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

/// What maps and global variables hold before, and the maps that were named to be printed.
fn feed(arguments: &arguments::FeedArguments) -> Result<(Feed, Vec<String>), Error> {
    let (mut feed, mut names) = (Feed::default(), Vec::new());
    for file in &arguments.maps_file {
        feed.file(file)?;
    }
    for map in &arguments.map {
        if map.contains(':') { feed.entry(map)? } else { names.push(map.clone()) }
    }
    for global in &arguments.set {
        feed.global(global)?;
    }
    Ok((feed, names))
}

/// Packets of a command: one, or those of a capture.
enum Packets {
    One(Vec<u8>),
    Capture(Vec<Vec<u8>>),
}

fn packets(hex: Option<&str>, path: Option<&Path>) -> Result<Packets, Error> {
    let Some(path) = path else {
        return Ok(Packets::One(hex.map_or(Ok(Vec::new()), kiln_driver::hex::from_hex)?));
    };
    let bytes = file::read(path, input::MAX_FILE_BYTES)?;
    Ok(match capture::packets(&path.display().to_string(), &bytes)? {
        Some(packets) => Packets::Capture(packets),
        None => Packets::One(bytes),
    })
}

/// `kiln run`.
pub fn run(arguments: &RunArguments, format: Format) -> Code {
    let input = open(&arguments.object.object, &arguments.object.types)?;
    let program = input.single(&arguments.object.program)?;
    let packets = packets(arguments.packet.as_deref(), arguments.packet_file.as_deref())?;
    let (feed, names) = feed(&arguments.feed)?;
    arguments.pcap_out.as_deref().map_or(Ok(()), output::check_writable)?;
    let show = arguments.maps || !names.is_empty();
    let entries = if format == Format::Json { run::MAX_MAP_ENTRIES } else { print::run::MAP_ENTRIES_SHOWN };
    let maps = run::Maps { names, entries };
    let context = arguments.context_file.as_deref().map(|path| file::read(path, input::MAX_FILE_BYTES)).transpose()?;
    let mut stimulus = Stimulus::default();
    stimulus.context = context;
    stimulus.repeat = arguments.repeat;
    stimulus.quantum = arguments.quantum.map(seconds).transpose()?;
    let by_quantum = stimulus.quantum.is_some() && kiln_driver::vm::KEEPS_QUANTA;
    let without = if by_quantum { u64::MAX } else { stimulus.insn_budget };
    stimulus.insn_budget = arguments.insn_budget.unwrap_or(without);
    stimulus.map_bytes = arguments.map_bytes;
    stimulus.native = arguments.native.and_then(Native::setting);
    stimulus.blind = arguments.blind;
    stimulus.perf = kiln_driver::vm::PerfFiles { map: arguments.perf_map, dump: arguments.jitdump.clone() };
    let place = match arguments.place {
        _ if arguments.native.is_some() => Place::Vm(Engine::Native),
        arguments::Place::Native => Place::Vm(Engine::Native),
        arguments::Place::Jit => Place::Vm(Engine::Jit),
        arguments::Place::Interpreter => Place::Vm(Engine::Interpreter),
        arguments::Place::Kernel => Place::Kernel,
    };
    if place == Place::Kernel && arguments.quantum.is_some() {
        let message = "--quantum is for the VM; in the kernel, that of kiln sandbox holds".to_owned();
        return Err(Error::InvalidInput(message));
    }
    let compiled = matches!(place, Place::Vm(Engine::Jit | Engine::Native));
    if !compiled && (arguments.blind || arguments.perf_map || arguments.jitdump.is_some()) {
        let message = "--blind, --perf-map and --jitdump are for compiled code in the VM".to_owned();
        return Err(Error::InvalidInput(message));
    }
    match packets {
        Packets::Capture(packets) => {
            let replayed = replay::replay(&input, program, &packets, &stimulus, place, &feed, &maps)?;
            if let Some(path) = &arguments.pcap_out {
                output::write_whole(path, &capture::pcap(&replayed.kept))?;
            }
            match format {
                Format::Json => print::json(&replayed)?,
                _ => print::run::replayed(&replayed, show),
            }
        }
        Packets::One(_) if arguments.pcap_out.is_some() => {
            return Err(Error::InvalidInput("--pcap-out is for captures; --packet-file is none".to_owned()));
        }
        Packets::One(packet) => {
            stimulus.packet = packet;
            let ran = run::run_fed(&input, program, &stimulus, place, &feed, &maps)?;
            match format {
                Format::Json => print::json(&ran)?,
                _ => print::run::ran(&ran, &stimulus.packet, show),
            }
        }
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
    let mut options = bench::Options::default();
    options.budget = seconds(arguments.budget)?;
    options.repeat = arguments.repeat;
    options.samples = arguments.samples;
    options.ask_kernel = !arguments.offline;
    options.packet = match packets(arguments.packet.as_deref(), arguments.packet_file.as_deref())? {
        Packets::One(packet) => Some(packet).filter(|packet| !packet.is_empty()),
        Packets::Capture(packets) => packets.into_iter().next(),
    };
    options.context =
        arguments.context_file.as_deref().map(|path| file::read(path, input::MAX_FILE_BYTES)).transpose()?;
    options.feed = feed(&arguments.feed)?.0;
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
    let input = open(&arguments.object.object, &arguments.object.types)?;
    let programs = input.select(&arguments.object.program)?;
    let mut options = dump::Options::default();
    options.source = !arguments.no_source;
    options.facts = arguments.facts.then(|| dump::Verified::new(&input)).transpose()?;
    let maps = dump::maps(&input.object);
    if arguments.native {
        let arch = arguments.machine.map(arguments::Machine::arch);
        let listings = native_dump::Listings::new(&input.object, &programs, options, arch)?;
        match format {
            Format::Json => print::json(&listings)?,
            _ => print::listings(&maps, listings.iter()),
        }
        return Ok(0);
    }
    let listings = dump::Listings::new(&input.object, &programs, options)?;
    match format {
        Format::Json => print::json(&listings)?,
        _ => print::listings(&maps, listings.iter()),
    }
    Ok(0)
}

/// `kiln ops`.
pub fn ops(arguments: &OpsArguments, format: Format) -> Code {
    let Some(path) = &arguments.object else {
        let rows = ops::rows();
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
            let bytes = match arguments.target {
                OpsTarget::Kiln => ops::annotate(&mut input)?,
                OpsTarget::Linux => ops::annotate_for_linux(&mut input)?,
            };
            output::write_whole(output, &bytes)?;
        }
        None if arguments.target == OpsTarget::Linux => ops::recognize_for_linux(&mut input)?,
        None => ops::recognize(&mut input),
    }
    let found = ops::found(&input.object);
    match format {
        Format::Json => print::json(&found)?,
        _ => print::found_operations(&found),
    }
    Ok(0)
}

/// `kiln doctor`.
pub fn doctor(dev: bool, format: Format) -> Code {
    let findings = doctor::examine(dev);
    match format {
        Format::Json => print::json(&findings)?,
        _ => print::findings(&findings),
    }
    Ok(u8::from(doctor::lacks(&findings)))
}

/// `kiln doctor --calibrate`.
pub fn calibrate(output: Option<&Path>, format: Format) -> Code {
    let path = output.map(Path::to_owned).or_else(calibrate::path);
    let path = path.ok_or_else(|| Error::InvalidInput("there is no home directory: name a file (-o)".to_owned()))?;
    kiln_driver::require_kernel()?;
    if let Some(folder) = path.parent().filter(|_| output.is_none()) {
        std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, &error))?;
    }
    output::check_writable(&path)?;
    let spinner = Spinner::new("measuring");
    let calibration = calibrate::calibrate(&mut |what| {
        spinner.say(what);
        !spinner.cancelled()
    });
    spinner.finish();
    let calibration = calibration?;
    for (name, why) in calibration.profile.missing.iter().chain(&calibration.missing) {
        anstream::eprintln!("not measured: {name}: {}", why.lines().next().unwrap_or_default());
    }
    let text = calibration.to_text();
    output::write_whole(&path, text.as_bytes())?;
    match format {
        Format::Json => print::json(&serde_json::json!({ "file": path, "profile": calibration.profile }))?,
        _ => {
            crate::output::write(&text);
            anstream::eprintln!("written to {}", path.display());
        }
    }
    Ok(0)
}

/// `kiln completions`.
pub fn completions(shell: Shell) -> Code {
    let shells = clap_complete::env::Shells::builtins();
    let name = shell.to_string();
    let completer = shells.completer(&name).ok_or_else(|| Error::Unsupported(format!("no completions for {name}")))?;
    let mut script = Vec::new();
    let written = completer.write_registration(complete::VARIABLE, "kiln", "kiln", "kiln", &mut script);
    written.map_err(|error| Error::io("the script", &error))?;
    crate::output::write(&String::from_utf8_lossy(&script));
    Ok(0)
}

/// `kiln manual`.
pub fn manual(folder: &Path) -> Code {
    clap_mangen::generate_to(arguments::command(), folder).map_err(|error| Error::file(folder, &error))?;
    Ok(0)
}

pub(crate) fn seconds(value: f64) -> Result<Duration, Error> {
    Duration::try_from_secs_f64(value).map_err(|_| Error::InvalidInput(format!("{value} is no number of seconds")))
}
