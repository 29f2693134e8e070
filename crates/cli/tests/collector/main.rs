//! What a real OpenTelemetry Collector is given by two hosts: all rows, and histograms that merge to the right quantiles.
//!
//! ```text
//!   host a: kiln query --otlp, rows --------+                     +-- logs: each sleep once
//!           kiln query --otlp, histograms --+--> Collector: files --+        |  the same values
//!   host b: the same, other sleeps, gRPC ---+                     +-- metrics: merged over windows and hosts
//! ```
//!
//! `make test-collector` builds the Collector and runs this. A host is a UTS namespace with a name of its own. [`fleet`] has
//! fifty of them, and asks the engines behind the Collector.

mod fleet;
mod receivers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use receivers::Collector;
use serde_json::Value as Json;

/// Hosts by name: how often each of them sleeps, and how long in seconds.
const HOSTS: [(&str, u32, &str); 2] = [("kiln-a", 90, "0.001"), ("kiln-b", 30, "0.020")];
const METRICS: &str = "SELECT name, count(*) AS n, histogram(latency_ns) AS latency FROM syscalls";
const LOGS: &str = "SELECT pid, name, latency_ns FROM syscalls";
const GROUPED: &str = "GROUP BY name WINDOW 200 MS";
/// How long queries may take to be attached.
const START: Duration = Duration::from_secs(4);
/// The part of itself by which a value may be counted in the next bucket: see docs/guide/fleet.md.
const ERROR: f64 = 1.0 / 64.0;

/// A query of what the sleepers' system call took. They have a name of their own, so nothing else is seen.
fn query(select: &str, grouped: &str) -> String {
    format!("{select} WHERE name = 'clock_nanosleep' AND comm = '{}' {grouped}", sleeper())
}

fn sleeper() -> String {
    format!("nap{}", std::process::id())
}

/// Runs both queries on a host of this name while it sleeps, and sends their rows to a Collector, of the second host by gRPC.
fn sent(collector: &Collector, (host, sleeps, seconds): (&str, u32, &str)) {
    let url = if host == HOSTS[1].0 { &collector.grpc } else { &collector.url };
    let queries = [query(METRICS, GROUPED), query(LOGS, "")].map(|sql| {
        let mut command = Command::new("unshare");
        let name = "hostname $0; exec \"$@\"";
        command.args(["--uts", "sh", "-c", name, host, env!("CARGO_BIN_EXE_kiln"), "query", &sql]);
        command.args(["--otlp", url]).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("unshare is there")
    });
    std::thread::sleep(START);
    let program = collector.folder().join(sleeper());
    if !program.exists() {
        let sleep = ["/usr/bin/sleep", "/bin/sleep"].into_iter().find(|path| Path::new(path).exists());
        std::os::unix::fs::symlink(sleep.expect("there is a sleep"), &program).expect("a link");
    }
    for _ in 0..sleeps {
        assert!(Command::new(&program).arg(seconds).status().expect("it sleeps").success());
    }
    for query in queries {
        // As Ctrl-C does.
        let ended = Command::new("kill").args(["-INT", &query.id().to_string()]).status().expect("kill is there");
        let output = query.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(ended.success() && output.status.success() && said.contains("nothing lost"), "{host}: {said}");
    }
}

/// The value of an attribute.
fn attribute<'j>(owner: &'j Json, name: &str) -> &'j Json {
    let all = owner["attributes"].as_array().expect("attributes");
    let found = all.iter().find(|attribute| attribute["key"] == name);
    let found = found.unwrap_or_else(|| panic!("no attribute {name}: {owner}"));
    found["value"].as_object().and_then(|value| value.values().next()).expect("a value")
}

/// An integer, which is text in OTLP's JSON where it has 64 bits.
fn integer(json: &Json) -> i64 {
    json.as_i64().or_else(|| json.as_str()?.parse().ok()).unwrap_or_default()
}

/// What documents have at `outer` and below it at `inner`, by the host that sent it.
fn by_host(documents: &[Json], [outer, scope, inner]: [&str; 3]) -> BTreeMap<String, Vec<Json>> {
    let mut found: BTreeMap<String, Vec<Json>> = BTreeMap::new();
    let list = |json: &Json, name: &str| json[name].as_array().cloned().unwrap_or_default();
    for resource in documents.iter().flat_map(|document| list(document, outer)) {
        assert_eq!(attribute(&resource["resource"], "service.name"), "kiln");
        let host = attribute(&resource["resource"], "host.name").as_str().expect("a name").to_owned();
        let own = list(&resource, scope).iter().flat_map(|scope| list(scope, inner)).collect::<Vec<_>>();
        found.entry(host).or_default().extend(own);
    }
    found
}

/// An exponential histogram: its scale, zeros, and counts by index.
#[derive(Clone, Default)]
struct Histogram {
    scale: Option<i64>,
    zeros: u64,
    counts: BTreeMap<i64, u64>,
}

impl Histogram {
    fn of(point: &Json) -> Histogram {
        let positive = &point["positive"];
        let counts = positive["bucketCounts"].as_array().cloned().unwrap_or_default();
        let indexes = integer(&positive["offset"])..;
        Histogram {
            scale: Some(integer(&point["scale"])),
            zeros: integer(&point["zeroCount"]) as u64,
            counts: indexes.zip(counts.iter().map(|count| integer(count) as u64)).collect(),
        }
    }

    fn at_scale(&self, scale: i64) -> impl Iterator<Item = (i64, u64)> + '_ {
        let by = self.scale.unwrap_or(scale) - scale;
        self.counts.iter().map(move |(index, count)| (index >> by, *count))
    }

    /// As docs/guide/fleet.md says.
    fn merged(&self, other: &Histogram) -> Histogram {
        let Some(scale) = self.scale.into_iter().chain(other.scale).min() else { return Histogram::default() };
        let mut counts = BTreeMap::new();
        for (index, count) in self.at_scale(scale).chain(other.at_scale(scale)) {
            *counts.entry(index).or_default() += count;
        }
        Histogram { scale: Some(scale), zeros: self.zeros + other.zeros, counts }
    }

    fn count(&self) -> u64 {
        self.zeros + self.counts.values().sum::<u64>()
    }

    /// The bounds of the bucket in which the value with this rank from 1 is.
    fn bucket(&self, rank: u64) -> [f64; 2] {
        let mut passed = self.zeros;
        for (index, count) in &self.counts {
            passed += count;
            if passed >= rank {
                let bound = |index: i64| (index as f64 / (self.scale.unwrap_or_default() as f64).exp2()).exp2();
                return [bound(*index), bound(index + 1)];
            }
        }
        [0.0, 0.0]
    }
}

#[test]
#[ignore = "needs a Collector: make test-collector"]
fn a_collector_has_every_row_and_merged_histograms_have_the_right_quantiles() {
    let mut collector = Collector::new(None);
    HOSTS.into_iter().for_each(|host| sent(&collector, host));
    let documents = collector.ended();
    let records = by_host(&documents("logs"), ["resourceLogs", "scopeLogs", "logRecords"]);
    let all = by_host(&documents("metrics"), ["resourceMetrics", "scopeMetrics", "metrics"]);
    let (mut values, mut merged, mut medians) = (Vec::new(), Histogram::default(), Vec::new());
    for (host, sleeps, seconds) in HOSTS {
        // Each sleep is a process of its own, and sleeps once.
        let latency = |record: &Json| integer(attribute(record, "latency_ns")) as u64;
        let pids: BTreeSet<i64> = records[host].iter().map(|record| integer(attribute(record, "pid"))).collect();
        assert_eq!((records[host].len(), pids.len()), (sleeps as usize, sleeps as usize), "{host}");
        let least = seconds.parse::<f64>().expect("a number") * 1e9;
        assert!(records[host].iter().all(|record| latency(record) as f64 >= least), "{host}: {:?}", records[host]);
        values.extend(records[host].iter().map(latency));

        let of = |name: &str, kind: &str| -> Vec<Json> {
            let own = all[host].iter().filter(|metric| metric["name"] == format!("kiln.syscalls.{name}"));
            own.flat_map(|metric| metric[kind]["dataPoints"].as_array().expect("points").clone()).collect()
        };
        let counted: i64 = of("n", "sum").iter().map(|point| integer(&point["asInt"])).sum();
        let points = of("latency", "exponentialHistogram");
        let own = points.iter().map(Histogram::of).fold(Histogram::default(), |one, other| one.merged(&other));
        assert_eq!((counted as u64, own.count()), (u64::from(sleeps), u64::from(sleeps)), "{host}");
        println!("{host}: {sleeps} log records, {sleeps} values in {} histograms of windows", points.len());
        medians.push(own.bucket(own.count().div_ceil(2)));
        merged = merged.merged(&own);
    }
    values.sort_unstable();
    assert_eq!(merged.count(), values.len() as u64);
    for percent in [1, 10, 25, 50, 75, 90, 95, 99, 100] {
        let rank = (values.len() * percent).div_ceil(100);
        let (exact, [low, high]) = (values[rank - 1] as f64, merged.bucket(rank as u64));
        println!("p{percent} of both: {exact:.0} ns; merged: {low:.0} to {high:.0} ns");
        assert!(low * (1.0 - ERROR) <= exact && exact <= high * (1.0 + ERROR), "p{percent}: {exact}: {low} to {high}");
    }
    let mean = medians.iter().map(|[low, high]| (low + high) / 4.0).sum::<f64>();
    println!("mean of both medians: {mean:.0} ns");
}
