//! `cargo xtask bench kv`: `kiln kv` beside memcached, Redis, and other stores in the kernel.
//!
//! | what | where |
//! |---|---|
//! | memcached's GET and SET in test runs, beside a BPF hash map with fixed slots | [`requests`] |
//! | the same over a veth, beside memcached; a mix of sizes, beside pools and Kerby's store | [`wire`], [`serve`] |
//! | memcached's protocol over TCP, beside memcached; Redis' protocol, beside Redis | [`tcp`], [`redis`], [`beside`] |
//! | memory of a key | [`memory`] |
//! | the verifier's work | [`processed`] |
//!
//! At the end each bar ([`bars`]) is printed as met, missed or, within what rounds differ by, even. To miss one is no error: measuring
//! and judging are two things.
//!
//! `--only NAME` measures one of `requests`, `wire`, `tcp`, `redis`, `memory`, `processed`; `--peers` is `--only redis`, which needs no
//! privilege, as `tcp` does. `--format json` prints one JSON object; `--rounds N` measures less.
#![forbid(unsafe_code)]

pub mod bars;
pub mod beside;
pub mod memory;
pub mod processed;
pub mod redis;
pub mod requests;
pub mod serve;
pub mod tcp;
pub mod wire;

use std::process::ExitCode;

use serde_json::json;

type Failure = Box<dyn std::error::Error>;

/// Keys of which memory is measured.
const KEYS: u32 = 200_000;

fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().position(|word| word == name).and_then(|at| arguments.get(at + 1));
    if let Some(store) = option("--serve") {
        return serve::run(store, option("--at").cloned());
    }
    let rounds = option("--rounds").map(|text| text.parse::<usize>()).transpose()?.map(|rounds| rounds.max(1));
    let prints_json = option("--format").is_some_and(|format| format == "json");
    let only = if arguments.iter().any(|word| word == "--peers") {
        Some("redis")
    } else {
        option("--only").map(String::as_str)
    };
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    if !["requests", "wire", "tcp", "redis", "memory", "processed"].into_iter().any(wanted) {
        return Err("--only takes requests, wire, tcp, redis, memory or processed".into());
    }
    if only.is_none_or(|only| only == "requests" || only == "wire") {
        kiln_linux::available().map_err(|error| format!("the kernel: {error}"))?;
    }
    let mut found = bars::Found::default();
    if wanted("processed") {
        found.processed = processed::all()?;
    }
    if wanted("memory") {
        found.memory = memory::all(KEYS)?;
    }
    if wanted("requests") {
        let effort = requests::WHOLE;
        found.requests = requests::all(requests::Effort { rounds: rounds.unwrap_or(effort.rounds), ..effort })?;
    }
    if wanted("wire") {
        let effort = wire::WHOLE;
        found.wire = wire::all(wire::Effort { rounds: rounds.unwrap_or(effort.rounds), ..effort })?;
    }
    let rounds = rounds.unwrap_or(SOCKETS_ROUNDS);
    if wanted("tcp") {
        found.tcp = tcp::all(beside::Effort { rounds, depths: tcp::DEPTHS })?;
    }
    if wanted("redis") {
        found.redis = redis::all(beside::Effort { rounds, depths: redis::DEPTHS })?;
    }
    let bars = found.bars();
    if prints_json {
        println!("{}", json!({"found": found, "bars": bars}));
    } else {
        found.report();
        bars.iter().for_each(|bar| println!("{bar}"));
    }
    Ok(())
}

const SOCKETS_ROUNDS: usize = 5;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
