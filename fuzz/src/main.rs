//! `kiln-fuzz`: runs the fuzz targets. `cargo xtask fuzz` builds and starts it.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use kiln_fuzz::differential::leave_out;
use kiln_fuzz::engine::{self, Summary};
use kiln_fuzz::subject::{CANARIES, Subject};
use kiln_fuzz::targets::{TARGETS, Target, by_name};

const USAGE: &str = "usage: kiln-fuzz [run] [--seconds N] [--seed N] [--target NAME]... [--canary NAME] [--findings N]
                     [--without RULE]...
       kiln-fuzz replay TARGET FILE [--canary NAME]
       kiln-fuzz list

  run      fuzz all targets but those of tier verdict, or those named, N seconds together (default 60); exit code 1
           when something is found; a target is left alone after N different findings (default 5)
  replay   try one input; exit code 1 when it fails
  list     targets and canaries
";

/// Memory that a worker may have, in kilobytes: an input that makes Kiln want more has found something.
const WORKER_KILOBYTES: u64 = 6 << 20;
/// A worker that takes this long for one input hangs.
const HANG: Duration = Duration::from_secs(120);
/// What a worker notes when it has tried its last input, and makes filetests of what failed.
const AT_THE_END: u64 = u64::MAX;

struct Options {
    seconds: f64,
    seed: u64,
    targets: Vec<&'static Target>,
    canary: Option<String>,
    without: BTreeSet<String>,
    findings: usize,
    rest: Vec<String>,
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options {
        seconds: 60.0,
        seed: 1,
        targets: Vec::new(),
        canary: None,
        without: BTreeSet::new(),
        findings: 5,
        rest: Vec::new(),
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().cloned().ok_or(format!("{argument} wants a value"));
        let number = |text: String| text.parse().map_err(|_| format!("'{text}' is no number"));
        match argument.as_str() {
            "--seconds" => options.seconds = value()?.parse().map_err(|_| "--seconds wants a number".to_owned())?,
            "--findings" => options.findings = number(value()?)? as usize,
            "--seed" => options.seed = number(value()?)?,
            "--target" => {
                let name = value()?;
                options.targets.push(by_name(&name).ok_or(format!("no target is called '{name}'"))?);
            }
            "--canary" => options.canary = Some(value()?),
            "--without" => drop(options.without.insert(value()?)),
            flag if flag.starts_with('-') => return Err(format!("unknown option '{flag}'")),
            _ => options.rest.push(argument.clone()),
        }
    }
    Ok(options)
}

fn subject(canary: Option<&str>) -> Result<Subject, String> {
    let Some(name) = canary else { return Ok(Subject::default()) };
    let canary = CANARIES.iter().find(|canary| canary.name == name);
    canary.map(|canary| (canary.subject)()).ok_or(format!("no canary is called '{name}'"))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((first, rest)) if !first.starts_with("--") => (first.as_str(), rest),
        _ => ("run", arguments.as_slice()),
    };
    let done = match command {
        "run" if rest.iter().any(|argument| argument == "--help") => Err(String::new()),
        "run" => options(rest).and_then(|options| run(&options)),
        "worker" => options(rest).and_then(|options| work(&options)),
        "replay" => options(rest).and_then(|options| replay(&options)),
        "list" => Ok(list()),
        _ => Err(String::new()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("{message}{}{USAGE}", if message.is_empty() { "" } else { "\n" });
            ExitCode::from(2)
        }
    }
}

fn list() -> bool {
    for target in TARGETS {
        println!("{:10} {:10} {}", target.name, target.tier, target.what);
    }
    println!("\ncanaries, each with the target that must find it:");
    for canary in CANARIES {
        println!("{:32} {:10} {}", canary.name, canary.target, canary.what);
    }
    true
}

/// Runs the chosen targets, each in a worker, and prints the results.
fn run(options: &Options) -> Result<bool, String> {
    // Verdicts are those of one kernel, which may take long: these targets run only when named.
    let usual: Vec<&Target> = TARGETS.iter().filter(|target| target.weight > 0).collect();
    let targets = if options.targets.is_empty() { usual } else { options.targets.clone() };
    let weights: u32 = targets.iter().map(|target| target.weight.max(1)).sum();
    let mut clean = true;
    for target in targets {
        if let Some(reason) = cannot_run(target) {
            eprintln!("skipped: fuzz target {}: {reason}", target.name);
            continue;
        }
        let seconds = options.seconds * f64::from(target.weight.max(1)) / f64::from(weights);
        clean &= supervise(target, options, seconds).map_err(|error| format!("{}: {error}", target.name))?;
    }
    Ok(clean)
}

fn cannot_run(target: &Target) -> Option<String> {
    match target.name {
        "kernel" => kiln_test::engine::kernel_available().err(),
        "c" => kiln_fuzz::c_programs::available().err(),
        "elf" if (target.seeds)().is_empty() => Some("no objects; `scripts/corpus` makes them".to_owned()),
        _ => None,
    }
}

/// Where a worker notes the number of the input it is trying.
fn note(target: &Target, worker: u32) -> PathBuf {
    std::env::temp_dir().join(format!("kiln-fuzz-{}-{worker}", target.name))
}

fn noted(path: &Path) -> Option<u64> {
    Some(u64::from_le_bytes(std::fs::read(path).ok()?.try_into().ok()?))
}

/// Starts a worker and waits for it; what ends it is a finding too.
fn supervise(target: &Target, options: &Options, seconds: f64) -> std::io::Result<bool> {
    // `ulimit` is the shell's; there is no portable safe way to call setrlimit from here.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {WORKER_KILOBYTES}; exec \"$@\""), "sh"]);
    command.arg(std::env::current_exe()?).args(["worker", "--target", target.name]);
    command.args(["--seconds", &seconds.to_string(), "--seed", &options.seed.to_string()]);
    command.args(["--findings", &options.findings.to_string()]);
    for name in &options.without {
        command.args(["--without", name]);
    }
    if let Some(canary) = &options.canary {
        command.args(["--canary", canary]);
    }
    let mut worker = command.stdin(Stdio::null()).spawn()?;
    let path = note(target, worker.id());
    let ended = watch(&mut worker, &path)?;
    let last = noted(&path);
    // The worker removes nothing: it may not live to do it.
    let _ = std::fs::remove_file(&path);
    let why = match ended {
        Some(status) if matches!(status.code(), Some(0 | 1)) => return Ok(status.success()),
        Some(status) => format!("the process ended: {status}"),
        None => format!("hang: nothing for {} s", HANG.as_secs()),
    };
    let input = last.map(|index| engine::input(target, &(target.seeds)(), options.seed, index)).unwrap_or_default();
    println!("FAIL {:10} {}", target.name, why);
    report(target, &input, &why)?;
    Ok(false)
}

/// Waits until the worker ends; kills it if it hangs.
fn watch(worker: &mut Child, note: &Path) -> std::io::Result<Option<std::process::ExitStatus>> {
    let (mut last, mut since) = (None, Instant::now());
    loop {
        if let Some(status) = worker.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(20));
        let now = noted(note);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > if now == Some(AT_THE_END) { 10 * HANG } else { HANG } {
            worker.kill()?;
            worker.wait()?;
            return Ok(None);
        }
    }
}

fn report(target: &Target, input: &[u8], message: &str) -> std::io::Result<()> {
    let path = engine::save(target, input)?;
    println!("     {message}");
    println!("     {} bytes; again: cargo xtask fuzz replay {} {path}", input.len(), target.name);
    Ok(())
}

/// Fuzzes one target in this process.
fn work(options: &Options) -> Result<bool, String> {
    let [target] = options.targets[..] else { return Err("a worker has one target".to_owned()) };
    let subject = subject(options.canary.as_deref())?;
    leave_out(options.without.clone());
    let path = note(target, std::process::id());
    let notes: Option<File> = OpenOptions::new().create(true).truncate(true).write(true).open(path).ok();
    let begun = |index: u64| {
        if let Some(notes) = &notes {
            // Without notes a crash is still found, only not its input.
            let _ = notes.write_all_at(&index.to_le_bytes(), 0);
        }
    };
    let time = Duration::from_secs_f64(options.seconds);
    let summary = engine::run(target, &subject, options.seed, time, options.findings, begun);
    begun(AT_THE_END);
    print_summary(target, &summary);
    for failure in &summary.failures {
        if let (Some(show), "verdict") = (target.show, target.tier) {
            println!("{}", show(&subject, &failure.input));
        }
        report(target, &failure.input, &failure.message).map_err(|error| error.to_string())?;
        if let Some(file) = target.shrink.and_then(|shrink| shrink(&subject, &failure.input)) {
            let path = engine::save_text(target, &failure.input, &file).map_err(|error| error.to_string())?;
            println!("     as a filetest: {path}");
        }
    }
    Ok(summary.failures.is_empty())
}

fn print_summary(target: &Target, summary: &Summary) {
    let mark = if summary.failures.is_empty() { "ok  " } else { "FAIL" };
    let rate = summary.executions as f64 / summary.spent.as_secs_f64().max(1e-9);
    let deep = 100.0 * summary.deep as f64 / summary.executions.max(1) as f64;
    println!(
        "{mark} {:10} {:10} {:>9} inputs {rate:>9.0}/s {deep:>5.1} % deep {:>3} findings",
        target.name,
        target.tier,
        summary.executions,
        summary.failures.len()
    );
    print!("{}", kiln_fuzz::coverage::report());
}

/// Tries one input.
fn replay(options: &Options) -> Result<bool, String> {
    let [name, path] = &options.rest[..] else { return Err("replay wants a target and a file".to_owned()) };
    let target = by_name(name).ok_or(format!("no target is called '{name}'"))?;
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let subject = subject(options.canary.as_deref())?;
    if let Some(show) = target.show {
        println!("{}", show(&subject, &bytes));
    }
    match engine::check(target, &subject, &bytes) {
        Ok(depth) => {
            println!("passes ({depth:?})");
            Ok(true)
        }
        Err(message) => {
            println!("fails: {message}");
            Ok(false)
        }
    }
}
