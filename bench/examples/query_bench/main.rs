//! `cargo xtask bench query`: what queries cost a RocksDB reader, beside C written by hand and bpftrace.
//!
//! ```text
//!   db_bench readrandom: 500 reads ... 500 reads ... 500 reads ...   one process, which lives all the time
//!                        |  off  |  C  |  off  | bpftrace |  off  | mvsf |  off  | ours | ...   several rounds
//! ```
//!
//! Each tracer is attached beside the running process. The time of a read with it is compared with those right before and
//! right after. The median over the rounds and the quartiles are printed. The two queries are those of table 1 of "Kernel
//! Extension DSLs Should Be Verifier-Safe!" (eBPF'25): the slowest call of each process and system call each second (Q1),
//! and the latency of every call (Q2). All tracers look at that process only. Two more rows say what the load's own time varies by
//! (`none`), and what empty programs at both hooks add (`empty`).
//!
//! Then user space's half is measured alone ([`groups`]), and the latency of windows beside the load ([`latency`]). Each bar
//! ([`bars`]) is printed as met, missed or, within what rounds differ by, even. To miss one is no error: measuring and judging are
//! two things.
//!
//! `--format json` prints one JSON object; `--rounds N` measures less or more. `--pairs N` only compares C and ours, one right
//! after the other, in N rounds: for differences that are smaller than what the load varies by. Needs root, db_bench, bpftrace
//! and clang 19.
#![forbid(unsafe_code)]

mod bars;
mod groups;
mod latency;
mod reader;
mod tracer;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use reader::Reader;
use tracer::{Kind, Query, Tracer};

type Failure = Box<dyn std::error::Error>;

/// How long each state is measured.
const SLOT: Duration = Duration::from_millis(800);
/// How long the process runs after a change, before it is measured.
const SETTLE: Duration = Duration::from_millis(200);
const ROUNDS: usize = 7;

/// One tracer's measurements.
struct Measured {
    query: Query,
    kind: Kind,
    /// Added time of a read, as a part of its time without a tracer; one for each round.
    added: Vec<f64>,
    /// Added nanoseconds of a read.
    added_ns: Vec<f64>,
    results: u64,
    lost: u64,
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<(), Failure> {
    let (mut is_json, mut rounds, mut pairs) = (false, ROUNDS, false);
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        match (argument, rest.next()) {
            ("--format", Some("json")) => is_json = true,
            ("--rounds", Some(number)) => rounds = number.parse()?,
            ("--pairs", Some(number)) => (pairs, rounds) = (true, number.parse()?),
            (groups::MEMORY, Some(number)) => {
                println!("{}", serde_json::to_string(&groups::memory(number.parse()?)?)?);
                return Ok(());
            }
            _ => return Err("known arguments are --format json, --rounds N and --pairs N".into()),
        }
    }
    let folder = tempfile::tempdir()?;
    let reader = Reader::begin(&folder.path().join("db"))?;
    let mut all: Vec<Measured> = Query::ALL
        .into_iter()
        .flat_map(|query| Kind::ALL.map(|kind| (query, kind)))
        .filter(|(_, kind)| !pairs || matches!(kind, Kind::Hand | Kind::Ours))
        .map(|(query, kind)| Measured { query, kind, added: vec![], added_ns: vec![], results: 0, lost: 0 })
        .collect();
    for round in 0..rounds {
        // Nobody is always after the same neighbour, and of a pair nobody is always first.
        if pairs {
            all.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        } else {
            all.rotate_left(round % 3);
        }
        for one in &mut all {
            measure(&reader, folder.path(), one)?;
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    all.sort_by_key(|one| (one.query, one.kind));
    let mut bars = bars::probe_effects(&all);
    if !pairs {
        bars.push(bars::latency()?);
    }
    let reads_per_second = reader.overall();
    let tracers = table(&all, reads_per_second);
    // User space alone has the processor for itself.
    drop(reader);
    let mut rates = String::new();
    if !pairs {
        let (text, bar) = bars::rates()?;
        rates = text;
        bars.extend([bar, bars::memory()?]);
    }
    if is_json {
        let bars = serde_json::to_value(&bars)?;
        let report = json!({
            "rounds": rounds, "reads_per_second": reads_per_second, "tracers": rows(&all), "bars": bars,
        });
        println!("{report}");
    } else {
        println!("{tracers}\n{rates}");
        bars.iter().for_each(|bar| println!("{bar}"));
    }
    Ok(())
}

/// Runs a tracer once, between two slots without one.
fn measure(reader: &Reader, folder: &std::path::Path, one: &mut Measured) -> Result<(), Failure> {
    let before = reader.ns_per_read(SLOT)?;
    let tracer = Tracer::attach(one.kind, one.query, reader.pid(), folder)?;
    std::thread::sleep(SETTLE);
    let during = reader.ns_per_read(SLOT)?;
    let end = tracer.end()?;
    std::thread::sleep(SETTLE);
    let after = reader.ns_per_read(SLOT)?;
    let without = (before + after) / 2.0;
    one.added.push(during / without - 1.0);
    one.added_ns.push(during - without);
    one.results += end.results;
    one.lost += end.lost;
    Ok(())
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values.get((part * (values.len().saturating_sub(1)) as f64).round() as usize);
    [0.25, 0.5, 0.75].map(|part| at(part).copied().unwrap_or(f64::NAN))
}

fn rows(all: &[Measured]) -> Vec<serde_json::Value> {
    let row = |one: &Measured| {
        json!({
            "query": one.query.name(), "tracer": one.kind.name(), "added_quartiles": quartiles(&one.added),
            "added_ns_quartiles": quartiles(&one.added_ns), "results": one.results, "lost": one.lost,
        })
    };
    all.iter().map(row).collect()
}

fn table(all: &[Measured], reads_per_second: f64) -> String {
    let mut text = format!("RocksDB reads: {reads_per_second:.0} a second, with all tracers in turn\n");
    text += "query  tracer    added time (quartiles)         added ns   results      lost\n";
    for one in all {
        let [low, middle, high] = quartiles(&one.added).map(|part| 100.0 * part);
        let [_, added_ns, _] = quartiles(&one.added_ns);
        text += &format!(
            "{:5}  {:8}  {middle:+6.1} % ({low:+.1} to {high:+.1})  {added_ns:>12.0}  {:>8}  {:>8}\n",
            one.query.name(),
            one.kind.name(),
            one.results,
            one.lost,
        );
    }
    text
}
