//! `cargo xtask bench congestion`: connections of policies beside the kernel's algorithms, over a link of limited rate.
//!
//! ```text
//!   this namespace: veth, token bucket of 200 Mbit/s and a queue of 400 KB --> veth in a namespace of its own: receiver
//! ```
//!
//! Each algorithm sends with one connection, then with four at a time, then with two beside two of the kernel's cubic,
//! several rounds in turn. What arrives is counted by the receiver; `ss` says the round trip of each connection ten times a
//! second. Fairness is Jain's index: 1 if all four get the same, 0.25 if one gets all. `--format json` prints one JSON object, `--svg FILE` writes a plot, `--rounds N` and
//! `--seconds N` measure less or more. Needs root, `ip`, `tc`, `ss` and `ethtool`.
#![forbid(unsafe_code)]

mod link;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use clap::Parser;
use kiln_bench::plot::{self, Line, Panel};
use kiln_bench::spread;
use kiln_driver::congestion;
use serde_json::json;

use link::{Link, Sample};

type Failure = Box<dyn std::error::Error>;

/// The policies, by the names that they are registered under.
const POLICIES: [(&str, &str); 3] = [
    ("kiln_aimd", include_str!("../../../examples/congestion/aimd.ccp")),
    ("kiln_pulse", include_str!("../../../examples/congestion/pulse.ccp")),
    ("kiln_cubic", include_str!("../../../examples/congestion/cubic.ccp")),
];
const KERNEL: [&str; 3] = ["reno", "cubic", "bbr"];
/// The algorithm that others are measured beside.
const BESIDE: &str = "cubic";

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

/// Connections that send at a time.
struct Row {
    algorithm: &'static str,
    /// The algorithm of each connection. Where there are two, half of them have the first one.
    algorithms: Vec<&'static str>,
    samples: Vec<Sample>,
}

impl Row {
    fn new(algorithm: &'static str, algorithms: &[&'static str]) -> Row {
        Row { algorithm, algorithms: algorithms.to_vec(), samples: Vec::new() }
    }

    fn is_mixed(&self) -> bool {
        self.algorithms.iter().any(|other| *other != self.algorithm)
    }

    fn connections(&self) -> usize {
        self.algorithms.len()
    }

    /// The least, the median and the greatest of a value of its samples.
    fn spread(&self, value: fn(&Sample) -> f64) -> [f64; 3] {
        spread(self.samples.iter().map(value))
    }
}

/// What is measured, in this order.
fn rows() -> Vec<Row> {
    let algorithms: Vec<&str> = POLICIES.into_iter().map(|(name, _)| name).chain(KERNEL).collect();
    let same =
        [1, 4].into_iter().flat_map(|connections| algorithms.iter().map(move |own| (*own, vec![*own; connections])));
    let others = algorithms.iter().filter(|own| **own != BESIDE);
    let mixed = others.map(|own| (*own, vec![*own, *own, BESIDE, BESIDE]));
    same.chain(mixed).map(|(own, all)| Row::new(own, &all)).collect()
}

/// Registers a policy until `stop`, and answers its reports meanwhile. Returns when connections can choose it.
fn register(name: &'static str, text: &'static str, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let (ready, is_ready) = sync_channel(1);
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let run = || -> Result<(), kiln_driver::Error> {
            let plan = congestion::plan(text, congestion::CONNECTIONS)?;
            let mut registered = congestion::register(&plan, name)?;
            let _ = ready.send(Ok(()));
            registered.run(None, &|| stop.load(Ordering::Relaxed), &mut |_| ()).map(drop)
        };
        if let Err(error) = run() {
            let _ = ready.send(Err(error.to_string()));
        }
    });
    is_ready.recv()?.map_err(Failure::from)
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
    let stop = Arc::new(AtomicBool::new(false));
    POLICIES.iter().try_for_each(|(name, text)| register(name, text, &stop))?;
    let link = Link::new()?;
    let mut rows = rows();
    for round in 0..request.rounds {
        for row in &mut rows {
            row.samples.push(link.send(&row.algorithms, Duration::from_secs(request.seconds))?);
        }
        eprintln!("round {} of {}", round + 1, request.rounds);
    }
    stop.store(true, Ordering::Relaxed);
    if let Some(path) = &request.svg {
        std::fs::write(path, svg(&rows))?;
    }
    if request.format == "json" {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "algorithm": row.algorithm, "algorithms": row.algorithms, "samples": row.samples,
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
    for row in rows.iter().filter(|row| !row.is_mixed()) {
        let [rate, trip, fair, again] = [
            row.spread(Sample::mbit),
            row.spread(|sample| sample.round_trip_ms),
            row.spread(Sample::fairness),
            row.spread(|sample| sample.retransmitted as f64),
        ];
        text += &format!(
            "{:10}  {:11}  {:5.0} ({:.0} to {:.0})  {:6.2} ({:.2} to {:.2})  {:.2} ({:.2} to {:.2})  {:13.0}\n",
            row.algorithm,
            row.connections(),
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
    text += &format!("\ntwo connections beside two of {BESIDE}      share    round trip, ms\n");
    for row in rows.iter().filter(|row| row.is_mixed()) {
        let share = row.spread(|sample| 100.0 * sample.first_share());
        let trip = row.spread(|sample| sample.round_trip_ms);
        let (least, greatest) = (share[0], share[2]);
        text += &format!(
            "{:10}                 {:5.0} % ({least:.0} to {greatest:.0})  {:6.2} ({:.2} to {:.2})\n",
            row.algorithm, share[1], trip[1], trip[0], trip[2]
        );
    }
    text
}

/// Round trips of one connection over its time, and what four connections receive by number.
fn svg(rows: &[Row]) -> String {
    let panel = |title, connections: usize, axes, points: fn(&Sample) -> Vec<(f64, f64)>| {
        let own = rows.iter().filter(|row| row.connections() == connections && !row.is_mixed());
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
