//! `cargo xtask bench congestion`: connections of policies beside the kernel's algorithms, over a link of limited rate.
//!
//! ```text
//!   this namespace: veth, token bucket of 200 Mbit/s and a queue of 400 KB --> veth in a namespace of its own: receiver
//! ```
//!
//! Each algorithm sends with one connection, then with four at a time, several rounds in turn. What arrives is counted by the
//! receiver; `ss` says the round trip of each connection ten times a second. Fairness is Jain's index: 1 if all four get the
//! same, 0.25 if one gets all. `--format json` prints one JSON object, `--svg FILE` writes a plot, `--rounds N` and
//! `--seconds N` measure less or more. Needs root, `ip`, `tc`, `ss` and `ethtool`.
#![forbid(unsafe_code)]

mod link;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use kiln_bench::plot::{self, Line, Panel};
use kiln_bench::spread;
use kiln_driver::congestion;
use serde_json::json;

use link::{Link, Sample};

type Failure = Box<dyn std::error::Error>;

/// The policies, by the names that they are registered under.
const POLICIES: [(&str, &str); 2] = [
    ("kiln_aimd", include_str!("../../../examples/congestion/aimd.ccp")),
    ("kiln_pulse", include_str!("../../../examples/congestion/pulse.ccp")),
];
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// Connections at a time.
const CONNECTIONS: [usize; 2] = [1, 4];

/// Congestion control policies and the kernel's algorithms.
#[derive(Parser)]
struct Request {
    /// How often each algorithm sends.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long it sends, each time.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// `text` or `json`.
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
    /// Where to write the plot.
    #[arg(long, value_name = "FILE")]
    svg: Option<String>,
}

/// An algorithm with so many connections.
struct Row {
    algorithm: &'static str,
    connections: usize,
    samples: Vec<Sample>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match &arguments[..] {
        [flag] if flag == link::RECEIVE => link::receive(),
        _ => run(&Request::parse()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(request: &Request) -> Result<(), Failure> {
    let registered =
        POLICIES.map(|(name, text)| congestion::plan(text).and_then(|plan| congestion::register(&plan, name)));
    let _registered = registered.into_iter().collect::<Result<Vec<_>, _>>()?;
    let link = Link::new()?;
    let algorithms = POLICIES.into_iter().map(|(name, _)| name).chain(KERNEL);
    let row = |(connections, algorithm)| Row { algorithm, connections, samples: Vec::new() };
    let each = |connections| algorithms.clone().map(move |algorithm| (connections, algorithm));
    let mut rows: Vec<Row> = CONNECTIONS.into_iter().flat_map(each).map(row).collect();
    for round in 0..request.rounds {
        for row in &mut rows {
            let sample = link.send(row.algorithm, row.connections, Duration::from_secs(request.seconds))?;
            row.samples.push(sample);
        }
        eprintln!("round {} of {}", round + 1, request.rounds);
    }
    if let Some(path) = &request.svg {
        std::fs::write(path, svg(&rows))?;
    }
    if request.format == "json" {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "algorithm": row.algorithm, "connections": row.connections, "samples": row.samples,
                })
            })
            .collect();
        println!("{:#}", json!({"link_mbit": link::RATE_MBIT, "queue_bytes": link::QUEUE_BYTES, "rows": rows}));
    } else {
        print!("{}", table(&rows));
    }
    Ok(())
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "link of {} Mbit/s, queue of {} bytes; medians, least to greatest\n",
        link::RATE_MBIT,
        link::QUEUE_BYTES
    );
    text += "algorithm   connections           Mbit/s         round trip, ms          fairness  retransmitted\n";
    for row in rows {
        let of = |value: fn(&Sample) -> f64| spread(row.samples.iter().map(value));
        let [rate, trip, fair, again] = [
            of(Sample::mbit),
            of(|sample| sample.round_trip_ms),
            of(Sample::fairness),
            of(|sample| sample.retransmitted as f64),
        ];
        text += &format!(
            "{:10}  {:11}  {:5.0} ({:.0} to {:.0})  {:6.2} ({:.2} to {:.2})  {:.2} ({:.2} to {:.2})  {:13.0}\n",
            row.algorithm,
            row.connections,
            rate[1],
            rate[0],
            rate[2],
            trip[1],
            trip[0],
            trip[2],
            fair[1],
            fair[0],
            fair[2],
            again[1]
        );
    }
    text
}

/// Round trips of one connection over its time, and what four connections receive by number.
fn svg(rows: &[Row]) -> String {
    let panel = |title, connections: usize, axes, points: fn(&Sample) -> Vec<(f64, f64)>| {
        let own = rows.iter().filter(|row| row.connections == connections);
        let line = |row: &Row| Line {
            name: row.algorithm.to_owned(),
            points: row.samples.first().map(points).unwrap_or_default(),
        };
        Panel { title, axes, is_log: false, lines: own.map(line).collect() }
    };
    let trips = panel("round trip of one connection", 1, ["s", "ms"], |sample| sample.trips.clone());
    let shares = panel("what four connections receive, the least first", 4, ["", "Mbit/s"], |sample| {
        let mut rates = sample.rates();
        rates.sort_by(f64::total_cmp);
        (1..).map(f64::from).zip(rates).collect()
    });
    plot::svg(&[trips, shares])
}
