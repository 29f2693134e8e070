//! Fifty hosts, one of which falls silent and one of which has a wrong clock: what the engines behind the Collector answer to
//! the statements of docs/guide/fleet.md, beside what the hosts really saw.
//!
//! ```text
//!   50 recordings --kiln query --replay --otlp--> Collector --+--> files --tables.sql--> ClickHouse's engine (chdb)
//!                                                             +--> VictoriaMetrics
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use crate::ERROR;
use crate::receivers::{Collector, VictoriaMetrics};

const HOSTS: usize = 50;
/// The host that ends early, and how many windows it sends.
const SILENT: usize = 17;
const SILENT_AFTER: u64 = 20;
/// The host whose clock is wrong, and by how many seconds it is ahead.
const AHEAD: usize = 31;
const AHEAD_BY: u64 = 2 * 3600;
/// Windows of a minute that the others send.
const WINDOWS: u64 = 30;
const MINUTE_NS: u64 = 60_000_000_000;
/// System calls of a window, by number on this machine.
const CALLS: [(&str, u64, u64); 2] = [
    ("read", if cfg!(target_arch = "x86_64") { 0 } else { 63 }, 7),
    ("write", if cfg!(target_arch = "x86_64") { 1 } else { 64 }, 3),
];
const SQL: &str =
    "SELECT name, count(*) AS calls, histogram(latency_ns) AS latency FROM syscalls GROUP BY name WINDOW 1 MINUTE";

/// A call that a host saw.
struct Call {
    name: &'static str,
    nr: u64,
    begun_ns: u64,
    latency_ns: u64,
}

/// What a host saw. Latencies spread over five powers of ten, and are longer on each host than on the one before.
fn seen(host: usize) -> Vec<Call> {
    let mut state = host as u64 + 1;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let windows = if host == SILENT { SILENT_AFTER } else { WINDOWS };
    let calls =
        |window: u64| CALLS.into_iter().flat_map(move |(name, nr, count)| (0..count).map(move |_| (window, name, nr)));
    (0..windows)
        .flat_map(calls)
        .map(|(window, name, nr)| {
            let latency_ns = (10f64.powf(2.0 + 5.0 * random()) * (1.0 + host as f64 / 10.0)) as u64;
            let begun_ns = window * MINUTE_NS + (random() * 5e10) as u64;
            Call { name, nr, begun_ns, latency_ns }
        })
        .collect()
}

/// Nanoseconds since the Unix epoch at which the hosts' clocks began: their last window ends now.
fn began_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_nanos() as u64;
    now - WINDOWS * MINUTE_NS
}

/// Writes what a host saw as a recording.
fn write(path: &Path, columns: &[String], calls: &[Call], boot_ns: u64) {
    let number = |name: &str, offset: u32| {
        let column = columns.iter().position(|column| column == name).expect("a column");
        json!({"column": column, "offset": offset, "kind": {"Number": {"bytes": 8, "signed": false}}})
    };
    let slots = [number("ts", 0), number("end_ts", 8), number("nr", 16), number("latency_ns", 24)];
    let header = json!({
        "format": "kiln-events-1", "table": "syscalls", "columns": columns, "boot_ns": boot_ns,
        "records": [{"tag": null, "slots": slots, "bytes": 32}],
    });
    let mut bytes = format!("{header}\n").into_bytes();
    for call in calls {
        bytes.extend(32u32.to_le_bytes());
        for value in [call.begun_ns, call.begun_ns + call.latency_ns, call.nr, call.latency_ns] {
            bytes.extend(value.to_le_bytes());
        }
    }
    std::fs::write(path, bytes).expect("a file");
}

fn columns() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln")).args(["tables", "syscalls", "--format", "json"]).output();
    let tables: Json = serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
    let columns = tables[0]["columns"].as_array().expect("columns");
    columns.iter().map(|column| column["name"].as_str().expect("a name").to_owned()).collect()
}

fn name_of(host: usize) -> String {
    format!("host-{host:02}")
}

/// Sends a recording from a host of this name.
fn send(collector: &Collector, host: usize, recording: &Path) {
    let mut command = Command::new("unshare");
    command.args([
        "--uts",
        "sh",
        "-c",
        "hostname $0; exec \"$@\"",
        &name_of(host),
        env!("CARGO_BIN_EXE_kiln"),
        "query",
        SQL,
    ]);
    let output =
        command.arg("--replay").arg(recording).args(["--otlp", &collector.url]).output().expect("unshare is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("nothing lost") && !said.contains("lost: "), "{said}");
}

/// The blocks of a language in the guide.
fn blocks(language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/fleet.md");
    let text = std::fs::read_to_string(path).expect("the guide");
    let begin = format!("```{language}\n");
    let parts = text.split(&begin).skip(1);
    parts.map(|part| part.split("```").next().expect("a block").trim_end().to_owned()).collect()
}

/// The queries of the dashboard for Grafana, over the last hour.
fn dashboard() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fleet/dashboard.json");
    let document: Json = serde_json::from_slice(&std::fs::read(path).expect("the dashboard")).expect("JSON");
    let panels = document["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries: Vec<String> = targets
        .map(|target| text(target, "expr").replace("$__rate_interval", "5m").replace("$__range", "1h"))
        .collect();
    assert_eq!(queries.len(), panels.len());
    queries
}

/// What ClickHouse's engine answers to statements, on the Collector's files.
fn clickhouse(folder: &Path, statements: &[String]) -> Vec<Vec<Json>> {
    let python = std::env::var("KILN_CHDB_PYTHON").expect("make test-collector says where chdb is");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/collector/clickhouse");
    let mut command = Command::new(python);
    let mut child =
        command.arg(script).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(statements.join(";\n").as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "chdb failed");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<Vec<Json>> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), statements.len());
    answers
}

/// The value of which this part is as small or smaller.
fn quantile(sorted: &[u64], part: f64) -> f64 {
    sorted[(sorted.len() as f64 * part).ceil() as usize - 1] as f64
}

fn text<'j>(row: &'j Json, column: &str) -> &'j str {
    row[column].as_str().unwrap_or_else(|| panic!("no text {column}: {row}"))
}

#[test]
#[ignore = "needs a Collector and engines: make test-collector"]
fn engines_answer_for_fifty_hosts_as_the_guide_says() {
    let metrics = VictoriaMetrics::new();
    let mut collector = Collector::new(Some(&metrics));
    let (columns, began_ns) = (columns(), began_ns());
    let (mut latencies, mut counts) = (BTreeMap::<&str, Vec<u64>>::new(), BTreeMap::<&str, u64>::new());
    for host in 0..HOSTS {
        let calls = seen(host);
        let recording = collector.folder().join("calls.kev");
        write(&recording, &columns, &calls, began_ns + if host == AHEAD { AHEAD_BY * 1_000_000_000 } else { 0 });
        send(&collector, host, &recording);
        // What has the time of tomorrow is not among the answers of today.
        for call in calls.iter().filter(|_| host != AHEAD) {
            latencies.entry(call.name).or_default().push(call.latency_ns);
            *counts.entry(call.name).or_default() += 1;
        }
    }
    latencies.values_mut().for_each(|values| values.sort_unstable());
    println!("{HOSTS} hosts saw {counts:?} system calls that are to be counted");

    metrics.settle();
    let queries = blocks("promql");
    let [totals, quantiles] = &queries[..] else { panic!("the guide has two queries: {queries:?}") };
    let totals: BTreeMap<String, f64> =
        metrics.ask(totals).into_iter().map(|(labels, value)| (text(&labels, "name").to_owned(), value)).collect();
    let quantiles = metrics.ask(quantiles);
    dashboard()
        .iter()
        .for_each(|query| assert!(!metrics.ask(query).is_empty(), "the dashboard shows nothing: {query}"));
    collector.end();
    let statements = blocks("sql");
    let answers = clickhouse(collector.folder(), &statements);
    let [calls, p99, clocks] = &answers[..] else { panic!("the guide has three statements: {statements:?}") };
    for (name, values) in &latencies {
        let row = calls.iter().find(|row| row["name"] == *name).expect("a row for each name");
        assert_eq!(row["calls"].as_f64(), Some(counts[name] as f64), "{row}");
        assert_eq!(row["hosts"].as_u64(), Some(HOSTS as u64 - 1), "the answer says from how many hosts it is: {row}");
        assert_eq!(totals[*name], counts[name] as f64);

        let exact = quantile(values, 0.99);
        let row = p99.iter().find(|row| row["name"] == *name).expect("a row for each name");
        let [low, high] = ["above_ns", "to_ns"].map(|bound| row[bound].as_f64().expect("a number"));
        let found = quantiles.iter().find(|(labels, _)| labels["name"] == *name).expect("a series for each name").1;
        println!("{name}: p99 {exact:.0} ns; ClickHouse: {low:.0} to {high:.0}; VictoriaMetrics: {found:.0}");
        assert!(low * (1.0 - ERROR) <= exact && exact <= high * (1.0 + ERROR));
        // Its own buckets are 18 to a power of ten.
        assert!((found / exact).ln().abs() < 10f64.ln() / 18.0 + ERROR);
    }
    let clocks: BTreeMap<&str, i64> =
        clocks.iter().map(|row| (text(row, "host"), row["behind"].as_i64().expect("a number"))).collect();
    println!("hosts to be looked at, in seconds: {clocks:?}");
    let hosts: BTreeSet<String> = clocks.keys().map(|host| (*host).to_owned()).collect();
    assert_eq!(hosts, BTreeSet::from([name_of(SILENT), name_of(AHEAD)]));
    assert!(clocks[&*name_of(SILENT)] > 0 && clocks[&*name_of(AHEAD)] < 0);
}
