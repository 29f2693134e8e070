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
//! `--help` lists the options.
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

use clap::{Parser, ValueEnum};
use serde_json::json;

type Failure = Box<dyn std::error::Error>;

/// Keys of which memory is measured.
const KEYS: u32 = 200_000;

/// Measures kiln kv beside memcached, Redis, and other stores in the kernel.
#[derive(Parser)]
struct Arguments {
    /// Measure only this; tcp and redis need no privilege.
    #[arg(long, value_name = "NAME")]
    only: Option<Part>,
    /// The same as --only redis.
    #[arg(long, conflicts_with = "only")]
    peers: bool,
    /// Rounds of each measurement; fewer take less time.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// How to print what was measured.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Serve as this store until the input ends, for another process that measures it.
    #[arg(long, value_name = "STORE")]
    serve: Option<String>,
    /// The interface that the store serves at.
    #[arg(long, value_name = "INTERFACE", requires = "serve")]
    at: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Requests,
    Wire,
    Tcp,
    Redis,
    Memory,
    Processed,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    if let Some(store) = arguments.serve {
        return serve::run(&store, arguments.at);
    }
    let rounds = arguments.rounds.map(usize::from);
    let only = if arguments.peers { Some(Part::Redis) } else { arguments.only };
    let wanted = |part: Part| only.is_none_or(|only| only == part);
    if wanted(Part::Requests) || wanted(Part::Wire) {
        kiln_linux::available().map_err(|error| format!("the kernel: {error}"))?;
    }
    let mut found = bars::Found::default();
    if wanted(Part::Processed) {
        found.processed = processed::all()?;
    }
    if wanted(Part::Memory) {
        found.memory = memory::all(KEYS)?;
    }
    if wanted(Part::Requests) {
        let effort = requests::WHOLE;
        found.requests = requests::all(requests::Effort { rounds: rounds.unwrap_or(effort.rounds), ..effort })?;
    }
    if wanted(Part::Wire) {
        let effort = wire::WHOLE;
        found.wire = wire::all(wire::Effort { rounds: rounds.unwrap_or(effort.rounds), ..effort })?;
    }
    let rounds = rounds.unwrap_or(SOCKETS_ROUNDS);
    if wanted(Part::Tcp) {
        found.tcp = tcp::all(beside::Effort { rounds, depths: tcp::DEPTHS })?;
    }
    if wanted(Part::Redis) {
        found.redis = redis::all(beside::Effort { rounds, depths: redis::DEPTHS })?;
    }
    let bars = found.bars();
    if arguments.format == Format::Json {
        println!("{}", json!({"found": found, "bars": bars}));
    } else {
        found.report();
        bars.iter().for_each(|bar| println!("{bar}"));
    }
    Ok(())
}

const SOCKETS_ROUNDS: usize = 5;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
