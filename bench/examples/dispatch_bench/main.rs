//! `cargo xtask bench dispatch`: balance and tail latency of request servers under dispatch policies.
//!
//! ```text
//!   one sender, open loop, Poisson, 48 sources --UDP--> group of 4 sockets, a policy or the kernel's hash chooses
//!                                                        --> 4 executors, each serves one request at a time
//! ```
//!
//! A request's latency is from when it was to be sent until its executor has served it. Serving is waiting (a disk, another
//! service): so four executors fit on two processors, and a queue behind an executor is a queue. Two loads:
//!
//! - `short and long`: 99.5 % of requests take 0.4 ms, 0.5 % take 20 ms, as GET and SCAN in the paper on Syrup.
//! - `caches`: keys by Zipf's law; an executor keeps 500 of 10,000 keys (LRU), and takes 0.2 ms with the key, 2 ms without.
//!
//! Each policy meets each rate in turn, several rounds. `--format json` prints one JSON object, `--svg FILE` writes a plot,
//! `--rounds N` and `--seconds N` measure less or more. Needs root and `ip`.
#![forbid(unsafe_code)]

mod load;
mod server;

use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use kiln_bench::plot::{self, Line, Panel};
use kiln_bench::spread;
use kiln_driver::dispatch::sockets::{Sockets, Wanted};
use kiln_driver::dispatch::{self, Executors, Hook, Loaded, Transport};
use kiln_linux::OwnNetwork;
use serde_json::json;

use load::{Sample, WORKLOADS, Workload};
use server::Servers;

type Failure = Box<dyn std::error::Error>;

/// The policies; without one the kernel chooses by its hash of addresses and ports.
const POLICIES: [(&str, Option<&str>); 4] = [
    ("kernel's hash", None),
    ("round robin", Some(include_str!("../../../examples/dispatch/round_robin.kiln"))),
    ("key affinity", Some(include_str!("../../../examples/dispatch/key_affinity.kiln"))),
    ("by kind", Some(include_str!("../../../examples/dispatch/by_kind.kiln"))),
];

/// Dispatch policies and the kernel's hash.
#[derive(Parser)]
struct Request {
    /// How often each policy meets each rate.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long, each time.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// `text` or `json`.
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
    /// Where to write the plot.
    #[arg(long, value_name = "FILE")]
    svg: Option<String>,
}

/// A policy at a rate.
struct Row {
    workload: &'static Workload,
    policy: &'static str,
    text: Option<&'static str>,
    rate: u32,
    samples: Vec<Sample>,
}

fn main() -> ExitCode {
    match run(&Request::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(request: &Request) -> Result<(), Failure> {
    let _network = OwnNetwork::enter()?;
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status()?;
    if !up.success() {
        return Err("ip link set lo up".into());
    }
    // Waits end when they should; threads inherit it.
    std::fs::write("/proc/self/timerslack_ns", "1")?;
    let mut rows = Vec::new();
    for workload in &WORKLOADS {
        for rate in workload.rates {
            for (policy, text) in POLICIES {
                rows.push(Row { workload, policy, text, rate, samples: Vec::new() });
            }
        }
    }
    for round in 0..request.rounds {
        for row in &mut rows {
            row.samples.push(measured(row, Duration::from_secs(request.seconds), round.into())?);
        }
        eprintln!("round {} of {}", round + 1, request.rounds);
    }
    let costs = [Hook::Reuseport(Transport::Udp), Hook::Lookup { transport: Transport::Udp, ports: [load::PORT; 2] }];
    let costs = costs.into_iter().map(cost).collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = &request.svg {
        std::fs::write(path, svg(&rows))?;
    }
    if request.format == "json" {
        let rows: Vec<_> = rows.iter().map(as_json).collect();
        let costs: Vec<_> = costs.iter().map(|(hook, ns)| json!({"hook": hook, "ns_per_packet": ns})).collect();
        println!(
            "{:#}",
            json!({"executors": server::EXECUTORS, "sources": load::SOURCES, "rows": rows, "costs": costs})
        );
    } else {
        print!("{}", table(&rows));
        for (hook, ns) in costs {
            println!("round robin at {hook}: {ns:.0} ns for a packet");
        }
    }
    Ok(())
}

fn as_json(row: &Row) -> serde_json::Value {
    let samples: Vec<_> = row.samples.iter().map(Sample::as_json).collect();
    json!({"load": row.workload.name, "policy": row.policy, "rate": row.rate, "samples": samples})
}

/// A policy's program for the servers' sockets.
fn loaded(text: &str, at: Hook) -> Result<Loaded, Failure> {
    let wanted = Wanted { transport: Transport::Udp, address: None, ports: [load::PORT; 2] };
    let sockets = Sockets::find(wanted, None)?;
    Ok(dispatch::load(dispatch::plan_for(text, at, Executors::Sockets(sockets))?)?)
}

fn measured(row: &Row, time: Duration, seed: u64) -> Result<Sample, Failure> {
    let servers = Servers::start(row.workload)?;
    let mut result = None;
    let mut send = || {
        result = Some(load::send(row.workload, row.rate, time, seed).map_err(|error| error.to_string()));
        true
    };
    match row.text {
        Some(text) => {
            let send = std::cell::RefCell::new(send);
            loaded(text, Hook::Reuseport(Transport::Udp))?.run_sockets(None, &|| (send.borrow_mut())())?;
        }
        None => {
            send();
        }
    }
    let sent = result.ok_or("nothing was sent")??;
    Ok(Sample::new(sent, servers.stop()?))
}

/// What round robin costs at a hook, by the kernel's own count of its run time: nanoseconds for a packet.
fn cost(at: Hook) -> Result<(&'static str, f64), Failure> {
    let workload = &WORKLOADS[0];
    let servers = Servers::start(workload)?;
    let loaded = loaded(POLICIES[1].1.unwrap_or_default(), at)?;
    let _statistics = kiln_linux::Statistics::keep()?;
    let send = || load::send(workload, workload.rates[0], Duration::from_secs(2), 0).is_ok();
    loaded.run_sockets(None, &send)?;
    let info = loaded.image.prog.info()?;
    servers.stop()?;
    Ok((at.name(), info.run_time_ns as f64 / info.run_count.max(1) as f64))
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{} executors, {} sources; medians, least to greatest; ms\n{:15} {:13} {:>6} {:>22} {:>22} {:>22} {:>8} {:>7} {:>6}\n",
        server::EXECUTORS,
        load::SOURCES,
        "load",
        "policy",
        "1/s",
        "p50",
        "p99",
        "p99.9",
        "busiest",
        "cached",
        "lost"
    );
    for row in rows {
        let of = |value: fn(&Sample) -> f64| spread(row.samples.iter().map(value));
        let shown = |[low, middle, high]: [f64; 3]| format!("{middle:.2} ({low:.2} to {high:.2})");
        let middle = |value: fn(&Sample) -> f64| of(value)[1];
        text += &format!(
            "{:15} {:13} {:6} {:>22} {:>22} {:>22} {:>8.2} {:>5.0} % {:>4.1} %\n",
            row.workload.name,
            row.policy,
            row.rate,
            shown(of(|sample| sample.percentiles_ms[0])),
            shown(of(|sample| sample.percentiles_ms[1])),
            shown(of(|sample| sample.percentiles_ms[2])),
            middle(Sample::busiest),
            100.0 * middle(|sample| sample.cached),
            100.0 * middle(Sample::lost),
        );
    }
    text
}

/// The 99th percentile over the rate, for each load.
fn svg(rows: &[Row]) -> String {
    let titles = WORKLOADS.each_ref().map(|workload| format!("{}: 99th percentile", workload.name));
    let panels = WORKLOADS.iter().zip(&titles).map(|(workload, title)| {
        let line = |(policy, _): (&'static str, Option<&str>)| {
            let own = rows.iter().filter(|row| row.workload.name == workload.name && row.policy == policy);
            let point = |row: &Row| {
                let [_, p99, _] = spread(row.samples.iter().map(|sample| sample.percentiles_ms[1]));
                (f64::from(row.rate), p99)
            };
            Line { name: policy.to_owned(), points: own.map(point).collect() }
        };
        let lines = POLICIES.into_iter().map(line).collect();
        Panel { title, axes: ["requests/s", "ms"], is_log: true, lines }
    });
    plot::svg(&panels.collect::<Vec<_>>())
}
