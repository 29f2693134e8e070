//! The loads, and what sends them.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use kiln_driver::packets::Random;
use serde_json::json;

use crate::Failure;
use crate::server::Served;

pub const PORT: u16 = 9000;
/// Sockets that requests come from, each with a port of its own.
pub const SOURCES: usize = 48;

/// The kinds of requests: the second eight bytes of the payload.
pub const GET: u64 = 0;
pub const SCAN: u64 = 1;
/// Puts a key into its executor's cache, and takes no time.
pub const WARM: u64 = 2;

/// Requests, and how long each takes.
pub struct Workload {
    pub name: &'static str,
    /// Requests a second.
    pub rates: [u32; 3],
    pub keys: u64,
    /// The exponent of Zipf's law.
    pub skew: f64,
    pub scans_per_mille: u64,
    pub scan: Duration,
    /// A GET whose key is in the executor's cache.
    pub hit: Duration,
    /// Another GET.
    pub miss: Duration,
    /// Keys in an executor's cache.
    pub cache: usize,
}

pub const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "short and long",
        rates: [2000, 4000, 5500],
        keys: 10_000,
        skew: 0.9,
        scans_per_mille: 5,
        scan: Duration::from_millis(20),
        hit: Duration::from_micros(400),
        miss: Duration::from_micros(400),
        cache: 0,
    },
    Workload {
        name: "caches",
        rates: [1500, 2500, 3500],
        keys: 10_000,
        skew: 0.9,
        scans_per_mille: 0,
        scan: Duration::ZERO,
        hit: Duration::from_micros(200),
        miss: Duration::from_millis(2),
        cache: 500,
    },
];

/// What one measurement saw.
pub struct Sample {
    /// The 50th, 99th and 99.9th percentile of latency.
    pub percentiles_ms: [f64; 3],
    /// Requests by executor.
    pub requests: Vec<u64>,
    /// The part of GETs whose key was cached.
    pub cached: f64,
    sent: u64,
}

impl Sample {
    pub fn new(sent: u64, served: Vec<Served>) -> Sample {
        let requests: Vec<u64> = served.iter().map(|one| one.latencies_ns.len() as u64).collect();
        let hits: u64 = served.iter().map(|one| one.hits).sum();
        let mut latencies: Vec<u64> = served.into_iter().flat_map(|one| one.latencies_ns).collect();
        latencies.sort_unstable();
        let last = latencies.len().saturating_sub(1) as f64;
        let at = |share: f64| latencies.get((last * share).round() as usize).map_or(f64::NAN, |ns| *ns as f64 / 1e6);
        let cached = hits as f64 / latencies.len().max(1) as f64;
        Sample { percentiles_ms: [0.5, 0.99, 0.999].map(at), requests, cached, sent }
    }

    /// Requests of the busiest executor over those of the mean one.
    pub fn busiest(&self) -> f64 {
        let all: u64 = self.requests.iter().sum();
        let most = self.requests.iter().copied().max().unwrap_or_default();
        (most * self.requests.len() as u64) as f64 / all.max(1) as f64
    }

    /// The part of the requests that found their socket's queue full.
    pub fn lost(&self) -> f64 {
        1.0 - self.requests.iter().sum::<u64>() as f64 / self.sent.max(1) as f64
    }

    pub fn as_json(&self) -> serde_json::Value {
        let [p50, p99, p999] = self.percentiles_ms;
        json!({
            "p50_ms": p50, "p99_ms": p99, "p99.9_ms": p999, "requests": self.requests, "busiest": self.busiest(),
            "cached": self.cached, "lost": self.lost(),
        })
    }
}

/// A number between 0 and 1, without 0.
fn part(random: &mut Random) -> f64 {
    ((random.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Keys by Zipf's law.
struct Keys(Vec<f64>);

impl Keys {
    fn new(workload: &Workload) -> Keys {
        let mut sum = 0.0;
        let weights = (1..=workload.keys).map(|rank| {
            sum += (rank as f64).powf(-workload.skew);
            sum
        });
        Keys(weights.collect())
    }

    fn pick(&self, random: &mut Random) -> u64 {
        let place = part(random) * self.0.last().copied().unwrap_or(1.0);
        self.0.partition_point(|sum| *sum < place) as u64
    }
}

/// Sends requests at a rate for a time, whether they are served or not. Returns how many.
pub fn send(workload: &Workload, rate: u32, time: Duration, seed: u64) -> Result<u64, Failure> {
    let sources = (0..SOURCES).map(|_| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect((Ipv4Addr::LOCALHOST, PORT))?;
        Ok(socket)
    });
    let sources = sources.collect::<Result<Vec<_>, std::io::Error>>()?;
    let mut random = Random::new(seed);
    let keys = Keys::new(workload);
    let request = |random: &mut Random, kind: u64, due: u64| {
        let payload = [keys.pick(random).to_be_bytes(), kind.to_be_bytes(), due.to_be_bytes()].concat();
        sources[random.below(SOURCES as u64) as usize].send(&payload)
    };
    for sent in 0..if workload.cache > 0 { 10 * workload.keys } else { 0 } {
        request(&mut random, WARM, 0)?;
        if sent % 64 == 0 {
            // The executors keep up.
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    let (mut due, mut sent) = (Duration::ZERO, 0);
    let start = Instant::now();
    let begun = crate::server::since_start();
    loop {
        due += Duration::from_secs_f64(-part(&mut random).ln() / f64::from(rate));
        if due > time {
            break;
        }
        if let Some(early) = due.checked_sub(start.elapsed()) {
            std::thread::sleep(early);
        }
        let kind = if random.below(1000) < workload.scans_per_mille { SCAN } else { GET };
        request(&mut random, kind, (begun + due).as_nanos() as u64)?;
        sent += 1;
    }
    Ok(sent)
}
