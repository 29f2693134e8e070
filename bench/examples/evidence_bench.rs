//! Measures the cost of certificates over the corpora, and lists functions without one: `cargo xtask bench evidence
//! [FLAGS] [NAME...]`.
//!
//! ```text
//!   each object, in a process of its own that is killed after --limit seconds:
//!     optimize with --evidence -> write the folder -> verify-evidence with cvc5, given both objects
//! ```
//!
//! One row per object while it runs, a row per group at the end, then every function that stays as it was, with the
//! reason. Slots are those of all functions of the objects. It fails if an object is not replayed or not proved.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use kiln_bench::gains;
use kiln_driver::{evidence, optimize, verify_evidence};
use kiln_test::corpus::{self, CorpusObject};
use serde::{Deserialize, Serialize};

/// The solver that replays: Kiln does not use it to optimize.
const SOLVER: &str = "cvc5";
/// Time for one query.
const QUERY: Duration = Duration::from_secs(60);
const USAGE: &str =
    "usage: cargo xtask bench evidence [--only GROUP] [--budget S] [--limit S] [--jobs N] [--lines] [--listings DIR] [NAME...]
  --only GROUP   xdp-tools, samples-6.1, selftests or cpuv4; repeatable, all by default
  --budget S     seconds to optimize one object at most, and again for its certificate (default 20)
  --limit S      seconds after which an object's process is killed (default 300)
  --jobs N       objects at a time (default 2)
  --lines        print each object's result as a line of JSON too
  --listings DIR write the listings of each object, as it was and optimized without certificates, and do nothing else
  NAME           only objects whose path contains one of these
";

struct Arguments {
    only: Vec<String>,
    names: Vec<String>,
    budget: f64,
    limit: f64,
    jobs: usize,
    lines: bool,
    listings: Option<std::path::PathBuf>,
    /// The path of the one object that this process is for.
    one: Option<String>,
}

fn arguments() -> Option<Arguments> {
    let (only, names) = (Vec::new(), Vec::new());
    let mut parsed =
        Arguments { only, names, budget: 20.0, limit: 300.0, jobs: 2, lines: false, listings: None, one: None };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--only" => parsed.only.push(rest.next()?),
            "--budget" => parsed.budget = rest.next()?.parse().ok().filter(|seconds| *seconds > 0.0)?,
            "--limit" => parsed.limit = rest.next()?.parse().ok().filter(|seconds| *seconds > 0.0)?,
            "--jobs" => parsed.jobs = rest.next()?.parse().ok().filter(|count| *count > 0)?,
            "--lines" => parsed.lines = true,
            "--listings" => parsed.listings = Some(rest.next()?.into()),
            "--one" => parsed.one = Some(rest.next()?),
            flag if flag.starts_with('-') => return None,
            _ => parsed.names.push(argument),
        }
    }
    Some(parsed)
}

/// The result for one object.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Tried {
    group: String,
    object: String,
    /// Slots as it was, as it is without certificates, and with them.
    slots: [i64; 3],
    /// Functions that are optimized and certified.
    certified: usize,
    /// Functions that stay as they were: name, slots that are lost, and why where it is their own fault.
    left: Vec<(String, i64, Option<String>)>,
    /// Functions of all stages, and how many of them the second solver proved.
    replayed: [usize; 2],
    queries: usize,
    /// Why the object cannot be read: then nothing of it was written.
    unread: Option<String>,
    /// What is not proved again, or why there is no result.
    problems: Vec<String>,
    /// Bytes of the object, and of the folder of evidence.
    bytes: [u64; 2],
    /// Milliseconds of optimizing, certifying and replaying.
    times: [u64; 3],
}

impl Tried {
    /// Nothing yet of this object.
    fn of(entry: &CorpusObject) -> Tried {
        Tried { group: entry.group.clone(), object: entry.path.display().to_string(), ..Tried::default() }
    }
}

fn slots(object: &kiln_driver::Object) -> i64 {
    object.functions.iter().map(|function| i64::from(function.slots())).sum()
}

/// Optimizes one object and replays its evidence.
fn try_one(entry: &CorpusObject, budget: Duration) -> Result<Tried, Box<dyn std::error::Error>> {
    let input = match entry.read() {
        Ok(input) => input,
        Err(error) => return Ok(Tried { unread: Some(error.to_string()), ..Tried::of(entry) }),
    };
    let budget = budget.min(optimize::default_budget(&input.object));
    let mut options = optimize::Options::default();
    options.budget = budget;
    options.certify = true;
    let begun = Instant::now();
    let outcome = optimize::optimize(&input, &options, &mut ())?;
    let optimized = begun.elapsed().as_millis() as u64;
    let rows = outcome.timings.rows();
    let certifying = rows.iter().find(|(what, ..)| *what == "certificate");
    let certifying = certifying.map_or(0, |(_, time, _)| time.as_millis() as u64);
    let lost: i64 = outcome.uncertified.iter().map(|own| own.slots).sum();
    let after = slots(&outcome.object);
    let folder = tempfile::tempdir()?;
    let proofs = folder.path().join("proofs");
    evidence::write(&proofs, &input.object, &outcome.object, &outcome.proofs, [&input.bytes, &outcome.bytes])?;
    let files = std::fs::read_dir(&proofs)?.flatten();
    let evidence_bytes = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let object = folder.path().join("optimized.o");
    std::fs::write(&object, &outcome.bytes)?;
    let mut replay = verify_evidence::Options::default();
    replay.solver = Some(SOLVER.to_owned());
    replay.timeout = QUERY;
    replay.jobs = 1;
    replay.original = Some(corpus::folder().join(&entry.path));
    replay.object = Some(object);
    let checked = verify_evidence::verify(&proofs, &replay, &|_, _| true)?;
    let problem = |own: &verify_evidence::Problem| {
        let function = own.function.as_ref().map_or("the whole", |name| name.exact());
        format!("{function}: {}", own.detail.exact().lines().next().unwrap_or(""))
    };
    let left = outcome.uncertified.iter();
    Ok(Tried {
        slots: [slots(&input.object), after - lost, after],
        certified: outcome.proofs.len(),
        left: left
            .map(|own| (own.function.to_string(), own.slots, own.why.as_ref().map(|why| why.to_string())))
            .collect(),
        replayed: [checked.functions, checked.proved],
        queries: checked.queries,
        problems: checked.problems.iter().map(problem).collect(),
        bytes: [input.bytes.len() as u64, evidence_bytes],
        times: [optimized - certifying.min(optimized), certifying, checked.milliseconds],
        ..Tried::of(entry)
    })
}

/// Writes `NAME.before.bpf` and `NAME.after.bpf`, which the example `replay` of `kiln-certificate` reads.
fn write_listings(
    entry: &CorpusObject,
    budget: Duration,
    folder: &std::path::Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let input = entry.read()?;
    let mut options = optimize::Options::default();
    options.budget = budget;
    let outcome = optimize::optimize(&input, &options, &mut ())?;
    std::fs::create_dir_all(folder)?;
    for (kind, object) in [("before", &input.object), ("after", &outcome.object)] {
        let name = format!("{}.{kind}.bpf", entry.file_name());
        std::fs::write(folder.join(name), kiln_program::text::print(object))?;
    }
    Ok(())
}

/// Has another process try an object, for no more than the limit.
fn try_apart(entry: &CorpusObject, arguments: &Arguments) -> Tried {
    let path = entry.path.display().to_string();
    let failed = |why: String| Tried { problems: vec![why], ..Tried::of(entry) };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(error.to_string()),
    };
    let mut command = Command::new(program);
    command.args(["--budget", &arguments.budget.to_string(), "--one", &path]);
    let mut child = match command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => return failed(error.to_string()),
    };
    // A row is longer than a pipe holds where there are many reasons.
    let output = child.stdout.take().map(|mut output| {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = std::io::Read::read_to_string(&mut output, &mut text);
            text
        })
    });
    let end = Instant::now() + Duration::from_secs_f64(arguments.limit);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
        }
    };
    let text = output.and_then(|output| output.join().ok()).unwrap_or_default();
    match (status, serde_json::from_str(&text)) {
        (None, _) => failed(format!("no result after {} s", arguments.limit)),
        (Some(_), Ok(tried)) => tried,
        (Some(status), Err(_)) => failed(format!("its process ended ({status})")),
    }
}

/// The share of what is gained without certificates that is gained with them.
fn share([before, without, with]: [i64; 3]) -> f64 {
    if before == without { 1.0 } else { (before - with) as f64 / (before - without) as f64 }
}

/// The bar: the share over all objects, in percent.
const BAR: f64 = 95.0;

/// The table, a row per group.
fn report(all: &[Tried]) -> String {
    let mut text = String::from(
        "\n| group | objects | functions changed | certified | slots before | without evidence | with evidence | share kept, % \
         | replayed, proved | queries | evidence bytes | largest | optimize s | certify s | replay s |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut groups: BTreeMap<&str, Vec<&Tried>> = BTreeMap::new();
    for one in all {
        groups.entry(&one.group).or_default().push(one);
    }
    for (group, own) in &groups {
        let sum = |number: fn(&Tried) -> i64| -> i64 { own.iter().map(|one| number(one)).sum() };
        let seconds = |at: usize| own.iter().map(|one| one.times[at]).sum::<u64>() as f64 / 1e3;
        let certified = sum(|one| one.certified as i64);
        let changed = certified + sum(|one| one.left.len() as i64);
        let slots = [sum(|one| one.slots[0]), sum(|one| one.slots[1]), sum(|one| one.slots[2])];
        let largest = own.iter().map(|one| one.bytes[1]).max().unwrap_or(0);
        text += &format!(
            "| {group} | {} | {changed} | {certified} | {} | {} | {} | {:.1} | {}, {} | {} | {} | {largest} | {:.0} | {:.0} | {:.0} |\n",
            own.len(),
            slots[0],
            slots[1],
            slots[2],
            100.0 * share(slots),
            sum(|one| one.replayed[0] as i64),
            sum(|one| one.replayed[1] as i64),
            sum(|one| one.queries as i64),
            sum(|one| one.bytes[1] as i64),
            seconds(0),
            seconds(1),
            seconds(2),
        );
    }
    let all_slots = [0, 1, 2].map(|at: usize| all.iter().map(|one| one.slots[at]).sum::<i64>());
    let kept = 100.0 * share(all_slots);
    let met = if kept >= BAR { "met" } else { "missed" };
    let seconds =
        |range: std::ops::Range<usize>| all.iter().flat_map(|one| &one.times[range.clone()]).sum::<u64>() as f64;
    text += &format!(
        "\nShare of the default's gain that is kept with evidence: {kept:.1} % ({} of {} slots; bar {BAR} %: {met}). \
         Certificates take {:.2} times the time of optimizing.\n",
        all_slots[0] - all_slots[2],
        all_slots[0] - all_slots[1],
        seconds(1..2) / seconds(0..1).max(1.0),
    );
    let mut reasons: BTreeMap<String, (usize, i64)> = BTreeMap::new();
    text += "\nLeft as they were:\n\n";
    for one in all {
        for (function, lost, why) in &one.left {
            let why = why.as_deref().unwrap_or("another function of its program has no certificate");
            let kind: String = why.chars().filter(|c| !c.is_ascii_digit()).take(70).collect();
            let entry = reasons.entry(kind).or_default();
            *entry = (entry.0 + 1, entry.1 + lost);
            text += &format!("- `{}`: {function} ({lost} slots): {why}\n", one.object);
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (count, lost))| std::cmp::Reverse((*lost, *count)));
    text += "\nReasons, by slots:\n\n";
    for (why, (count, lost)) in reasons {
        text += &format!("- {count} functions, {lost} slots: {why}\n");
    }
    text += "\nNot read:\n\n";
    for one in all {
        text.extend(one.unread.iter().map(|why| format!("- `{}`: {why}\n", one.object)));
    }
    text += "\nNot proved again, or no result:\n\n";
    for one in all {
        text.extend(one.problems.iter().map(|why| format!("- `{}`: {why}\n", one.object)));
    }
    text
}

/// Prints the result of one object of the corpora as a line of JSON.
fn print_one(path: &str, arguments: &Arguments) -> ExitCode {
    let entry = corpus::objects().into_iter().find(|entry| entry.path.display().to_string() == *path);
    let Some(entry) = entry else { return ExitCode::from(2) };
    let tried = try_one(&entry, Duration::from_secs_f64(arguments.budget))
        .unwrap_or_else(|error| Tried { problems: vec![error.to_string()], ..Tried::of(&entry) });
    match serde_json::to_string(&tried) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::from(2),
    }
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    if let Some(path) = &arguments.one {
        // The one that started it may be killed. Solvers of this process then find their input closed, or reach their limit.
        if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)) {
            eprintln!("it may outlive the benchmark: {error}");
        }
        return print_one(path, &arguments);
    }
    let takes_part = |entry: &CorpusObject| {
        let path = entry.path.display().to_string();
        (arguments.only.is_empty() || arguments.only.iter().any(|group| entry.is_of(group)))
            && (arguments.names.is_empty() || arguments.names.iter().any(|name| path.contains(name.as_str())))
    };
    let entries: Vec<CorpusObject> = corpus::objects().into_iter().filter(takes_part).collect();
    if let Some(folder) = &arguments.listings {
        let budget = Duration::from_secs_f64(arguments.budget);
        for entry in &entries {
            if let Err(error) = write_listings(entry, budget, folder) {
                eprintln!("{}: {error}", entry.path.display());
            }
        }
        return ExitCode::SUCCESS;
    }
    let done = std::sync::atomic::AtomicUsize::new(0);
    let all = gains::in_parallel(arguments.jobs, &entries, |entry| {
        let tried = try_apart(entry, &arguments);
        let count = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let mut line = format!(
            "{count}/{} {}: {} -> {} -> {} slots, {} certified, {} left, {} of {} replayed, {} bytes, {:?} ms {}",
            entries.len(),
            tried.object,
            tried.slots[0],
            tried.slots[1],
            tried.slots[2],
            tried.certified,
            tried.left.len(),
            tried.replayed[1],
            tried.replayed[0],
            tried.bytes[1],
            tried.times,
            tried.unread.iter().chain(&tried.problems).map(String::as_str).collect::<Vec<_>>().join("; "),
        );
        if arguments.lines {
            line += &format!("\n{}", serde_json::to_string(&tried).unwrap_or_default());
        }
        let _ = writeln!(std::io::stderr().lock(), "{line}");
        tried
    });
    print!("{}", report(&all));
    ExitCode::from(u8::from(all.iter().any(|one| !one.problems.is_empty())))
}
