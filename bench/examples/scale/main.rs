//! How the optimizer's time and memory grow with size: `cargo xtask bench scale [FLAG...] [FILE.o...]`.
//!
//! ```text
//!   families of 2^8, 2^9, ... slots --+
//!                                     +--> one process a point: CPU time by phase, peak memory --> slopes with r^2
//!   objects, on one thread and two  --+                         slots saved against seconds   --> curves
//! ```
//!
//! A slope is the exponent of the power of the size that fits best: 1 is linear. Times are processor time, without the
//! kernel's verdict.

mod curve;
mod families;
mod fit;
mod plot;

use std::process::Command;
use std::time::Duration;

use clap::Parser;
use kiln_platform::ProgramType;
use kiln_superopt::{Options, optimize};
use serde_json::{Value, json};

use families::FAMILIES;

/// How the optimizer's time and memory grow with size.
///
/// A slope is the exponent of the power of the size that fits best: 1 is linear.
#[derive(Parser)]
#[command(name = "cargo xtask bench scale")]
struct Request {
    /// The smallest size of the families, as a power of two
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(6..=20))]
    from: u32,
    /// The largest size
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(6..=20))]
    to: u32,
    /// Only this family; may be repeated; `none`: no family
    #[arg(long, value_name = "NAME", value_parser = family_names())]
    family: Vec<String>,
    /// Seconds of wall time a point. A family ends with the first point that needs more
    #[arg(long, default_value_t = 60)]
    budget: u64,
    /// Threads with which objects are optimized
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// The type of programs whose section does not tell it, such as `sched_cls`
    #[arg(long = "type", value_name = "NAME", default_value = "-")]
    program_type: String,
    /// Only this program of the objects
    #[arg(long, value_name = "NAME", default_value = "-")]
    program: String,
    /// `text`, or `json` for all points, slopes and curves
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
    /// Where to write the plot
    #[arg(long, value_name = "FILE")]
    svg: Option<String>,
    /// Objects to optimize: slots saved against seconds
    objects: Vec<String>,
}

/// What `--family` takes.
fn family_names() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family.name).chain(["none"]).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, rest @ ..] = &arguments[..]
        && flag == "--point"
    {
        println!("{}", point(rest));
        return;
    }
    let request = Request::parse();
    let wanted = |name: &str| request.family.is_empty() || request.family.iter().any(|family| family == name);
    let mut points = Vec::new();
    for family in FAMILIES.iter().filter(|family| wanted(family.name)) {
        for size in request.from..=request.to {
            let point = measured(&request, family.name, 1 << size, 1);
            let is_over = point["cut_short"] != json!(false);
            progress(&point);
            points.push(point);
            if is_over {
                break;
            }
        }
    }
    let mut curves = Vec::new();
    for (object, threads) in request.objects.iter().flat_map(|path| request.threads.iter().map(move |one| (path, *one)))
    {
        let point = measured(&request, object, 0, threads);
        progress(&point);
        curves.push(point);
    }
    let slopes = fit::slopes(&points);
    if let Some(path) = &request.svg {
        std::fs::write(path, plot::svg(&points, &slopes, &curves)).expect("the plot can be written");
    }
    if request.format == "json" {
        println!("{:#}", json!({"points": points, "slopes": slopes, "curves": curves}));
    } else {
        print!("{}{}", fit::table(&slopes), curve::table(&curves));
    }
}

fn progress(point: &Value) {
    eprintln!(
        "{} {} slots: {:.2} CPU-s, {} saved, {:.0} MiB{}",
        point["name"].as_str().unwrap_or("?"),
        point["slots"],
        point["phases"]["total"].as_f64().unwrap_or(f64::NAN),
        point["saved"],
        point["memory_kib"].as_f64().unwrap_or(f64::NAN) / 1024.0,
        if point["cut_short"] == json!(false) { "" } else { ", cut short" }
    );
}

/// A point, measured in a process of its own.
fn measured(request: &Request, name: &str, slots: usize, threads: usize) -> Value {
    let own = std::env::current_exe().expect("this program has a path");
    let numbers = [slots as u64, threads as u64, request.budget].map(|number| number.to_string());
    let mut command = Command::new(own);
    command.args(["--point", name, &request.program_type, &request.program]).args(numbers);
    let output = command.output().expect("it starts again");
    serde_json::from_slice(&output.stdout).unwrap_or_else(
        |_| json!({"name": name, "slots": slots, "cut_short": true, "error": String::from_utf8_lossy(&output.stderr)}),
    )
}

/// Measures a family's program of so many slots, or an object.
fn point(arguments: &[String]) -> Value {
    let [name, program_type, only, numbers @ ..] = arguments else {
        panic!("--point takes a name, a type, a program and numbers")
    };
    let numbers: Vec<u64> = numbers.iter().map(|text| text.parse().expect("a number")).collect();
    let [slots, threads, budget] = numbers[..] else { panic!("--point takes three numbers") };
    let mut object = match FAMILIES.iter().find(|family| family.name == name) {
        Some(family) => family.object(slots as usize),
        None => kiln_elf::read(name, &std::fs::read(name).expect("a readable file")).expect("an object").object,
    };
    if only != "-" {
        object.programs.retain(|program| program.name == *only);
    }
    for program in object.programs.iter_mut().filter(|program| program.program_type.is_none()) {
        program.program_type = ProgramType::from_name(program_type);
    }
    let all = |object: &kiln_program::Object| match only.as_str() {
        "-" => object.functions.iter().map(kiln_program::Function::slots).sum(),
        _ => object.programs.iter().map(|program| object.program_slots(program)).sum::<u32>(),
    };
    let slots = all(&object);
    let types = std::fs::read("/sys/kernel/btf/vmlinux").ok();
    let types = types.and_then(|bytes| kiln_program::btf::Btf::parse(&bytes).ok()).map(std::sync::Arc::new);
    let begun = processor_time();
    let check = kiln_verifier::Options { skip_facts: true, kernel_types: types.clone(), ..Default::default() };
    let prepared = kiln_verifier::Prepared::new(&object, &check);
    let accepted = object.programs.iter().filter(|program| prepared.verify(program, &check).is_ok()).count();
    let checked = processor_time();
    let options = Options {
        kernel_types: types,
        budget: Duration::from_secs(budget),
        threads: threads as usize,
        ..Options::default()
    };
    let mut account = curve::Account::default();
    let rewrite = optimize(&object, &options, &mut account);
    let ended = processor_time();
    let after = all(&rewrite.object);
    let mut phases: serde_json::Map<String, Value> = rewrite
        .timings
        .rows()
        .into_iter()
        .map(|(what, time, _)| (what.to_owned(), json!(time.as_secs_f64())))
        .collect();
    phases.insert("check".to_owned(), json!((checked - begun).as_secs_f64()));
    phases.insert("total".to_owned(), json!((ended - checked).as_secs_f64()));
    json!({
        "name": name,
        "slots": slots,
        "saved": i64::from(slots) - i64::from(after),
        "programs": object.programs.len(),
        "accepted": accepted,
        "threads": threads,
        "seconds": rewrite.spent.as_secs_f64(),
        "cut_short": rewrite.cut_short,
        "memory_kib": peak_memory(),
        "phases": phases,
        "curve": account.points(),
    })
}

/// Processor time of all threads of this process so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The most memory that this process has had, in KiB.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
}
