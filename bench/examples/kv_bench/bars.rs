//! What is asked of `kiln kv`, and whether what was measured here meets it.

use kiln_bench::bar::{Bar, Verdict};
use serde::Serialize;
use serde_json::Value;

use super::memory::Memory;
use super::processed::{self, Processed};
use super::wire::MIX;
use super::{beside, requests, wire};

/// Ratios to memcached: what is measured, of which case over the wire, and the bar.
const THROUGHPUT: [(&str, f64); 4] =
    [("sockets get 128", 5.0), ("generator get 128", 12.0), ("sockets set 128", 3.75), ("generator set 128", 3.75)];
/// How many times less processor time the server takes of each operation.
const PROCESSOR: [(&str, f64); 2] = [("sockets get 128", 10.0), ("generator get 128", 10.0)];
/// Of the memory of fixed slots.
const MIX_MEMORY: f64 = 0.5;
/// Ratios to Redis and to memcached behind sockets, one at a time and 16 at once.
const SOCKETS: [(&str, f64); 3] = [("get", 1.0), ("set", 1.3), ("zadd", 1.6)];

/// Everything that was measured.
#[derive(Serialize, Default)]
pub struct Found {
    /// The verifier's work.
    pub processed: Vec<Processed>,
    /// Memory of a key.
    pub memory: Vec<Memory>,
    /// Test runs.
    pub requests: Vec<Value>,
    /// What `bench/kv_wire/run` prints.
    pub wire: Value,
    /// memcached's protocol over TCP.
    pub tcp: Vec<Value>,
    /// Redis' protocol.
    pub redis: Vec<Value>,
}

impl Found {
    /// Prints tables.
    pub fn report(&self) {
        for Processed { program, release, insns } in &self.processed {
            let margin = processed::MOST as i64 - *insns as i64;
            println!("{program}, Linux {release}: {insns} instructions processed, {margin} below {}", processed::MOST);
        }
        if !self.memory.is_empty() {
            println!("\n{:24} {:>8} {:>10} {:>8}", "bytes of memory a key", "kiln", "memcached", "Redis");
            for Memory { values, bytes_per_key: [kiln, memcached, redis] } in &self.memory {
                println!("{:24} {kiln:8.0} {memcached:10.0} {redis:8.0}", format!("values of {values}"));
            }
        }
        if !self.requests.is_empty() {
            println!();
            requests::report(&self.requests);
        }
        if !self.wire.is_null() {
            println!();
            wire::report(&self.wire);
        }
        for (peer, rows) in self.behind_sockets() {
            if !rows.is_empty() {
                println!();
                beside::report(peer, rows);
            }
        }
        println!();
    }

    /// What was measured behind sockets, by the peer's name.
    fn behind_sockets(&self) -> [(&str, &[Value]); 2] {
        [("memcached", &self.tcp), ("Redis", &self.redis)]
    }

    /// A row over the wire.
    fn row(&self, case: &str, server: &str) -> Option<&Value> {
        self.wire["rows"].as_array()?.iter().find(|row| row["case"] == case && row["server"] == server)
    }

    /// The bars of what was measured.
    pub fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        for Processed { program, release, insns } in &self.processed {
            bars.push(Bar {
                what: format!("{program} verifies in {} instructions, Linux {release}", processed::MOST),
                measured: insns.to_string(),
                verdict: Verdict::of(*insns <= processed::MOST),
            });
        }
        for row in &self.requests {
            let ratio =
                inverse(&[&row["heap_to_slots_range"][0], &row["heap_to_slots"], &row["heap_to_slots_range"][1]]);
            let words = ["operation", "keys"].map(|key| row[key].as_str().unwrap_or_default());
            let what = format!("{} of 128 bytes in test runs, {} keys, beside fixed slots", words[0], words[1]);
            bars.push(ratio_bar(what, ratio, 1.0));
        }
        for (case, bar) in THROUGHPUT {
            if let Some(row) = self.row(case, "kiln") {
                bars.push(ratio_bar(format!("{case}: operations beside memcached's"), parts(&row["to_peer"]), bar));
            }
        }
        for (case, bar) in PROCESSOR {
            if let Some(row) = self.row(case, "kiln") {
                bars.push(ratio_bar(
                    format!("{case}: memcached's processor time beside ours"),
                    parts(&row["cpu_of_peer"]),
                    bar,
                ));
            }
        }
        for case in ["sockets get 128", "sockets set 128"] {
            if let Some(row) = self.row(case, "kiln") {
                bars.push(ratio_bar(format!("{case}: memcached's p99 beside ours"), parts(&row["p99_of_peer"]), 1.0));
            }
        }
        if let Some(row) = self.row(MIX, "kiln") {
            bars.push(ratio_bar(format!("{MIX}: operations beside memcached's"), parts(&row["to_peer"]), 1.0));
            let slots = self.row(MIX, "slots").and_then(|row| row["memory"].as_f64()).unwrap_or(f64::NAN);
            let own = row["memory"].as_f64().unwrap_or(f64::NAN) / slots;
            bars.push(Bar {
                what: format!("{MIX}: at most {MIX_MEMORY} of fixed slots' memory"),
                measured: format!("{own:.2}"),
                verdict: Verdict::of(own <= MIX_MEMORY),
            });
        }
        for (peer, row) in self.behind_sockets().iter().flat_map(|(peer, rows)| rows.iter().map(move |row| (peer, row)))
        {
            let Some((command, bar)) = SOCKETS.iter().find(|(command, _)| row["operation"] == *command) else {
                continue;
            };
            let range = &row["kiln_to_peer_range"];
            let ratio = [&range[0], &row["kiln_to_peer"], &range[1]].map(|part| part.as_f64().unwrap_or(f64::NAN));
            let at_once = row["at_once"].as_str().unwrap_or_default();
            bars.push(ratio_bar(format!("{command} over TCP, {at_once} at once, beside {peer}"), ratio, *bar));
        }
        bars
    }
}

fn ratio_bar(what: String, [least, median, most]: [f64; 3], bar: f64) -> Bar {
    Bar {
        what: format!("{what}, at least {bar}"),
        measured: format!("{median:.2} [{least:.2}, {most:.2}]"),
        verdict: match () {
            () if median >= bar => Verdict::Met,
            () if most >= bar => Verdict::Even,
            () => Verdict::Missed,
        },
    }
}

fn parts(value: &Value) -> [f64; 3] {
    [0, 1, 2].map(|at| value[at].as_f64().unwrap_or(f64::NAN))
}

/// The least, the median and the greatest of ratios, of those the other way round.
fn inverse(parts: &[&Value; 3]) -> [f64; 3] {
    let [least, median, most] = parts.map(|part| part.as_f64().unwrap_or(f64::NAN));
    [1.0 / most, 1.0 / median, 1.0 / least]
}
