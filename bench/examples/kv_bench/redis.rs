//! Redis' protocol: `kiln kv redis` beside `redis-server`, both asked by `redis-benchmark`.

use std::process::Command;

use kiln_driver::kv::Protocol;
use serde_json::Value;

use super::Failure;
use super::beside::{self, Effort, Peer};

/// What `redis-benchmark` counts, by the name that it is asked for.
const COMMANDS: [&str; 6] = ["get", "set", "incr", "mset", "hset", "zadd"];
/// One at a time, and 16 at once.
pub const DEPTHS: [(u32, u32); 2] = [(1, 100_000), (16, 400_000)];

/// Asks for a command: how many were answered, and how many in a second.
fn asked(port: u16, command: &str, depth: u32, count: u32) -> Result<(f64, f64), Failure> {
    let [port, depth, requests] = [u32::from(port), depth, count].map(|number| number.to_string());
    let fixed = ["-r", "100000", "-d", "128", "--csv", "-t", command];
    let output =
        Command::new("redis-benchmark").args(["-p", &port, "-P", &depth, "-n", &requests]).args(fixed).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("\"{command}")));
    let number = line.and_then(|line| line.split(',').nth(1)).map(|text| text.trim_matches('"'));
    let rate = number.and_then(|text| text.parse().ok());
    Ok((count.into(), rate.ok_or_else(|| format!("redis-benchmark: no {command} in {text}"))?))
}

/// Measures Redis' protocol.
///
/// # Errors
/// As [`beside::all`].
pub fn all(effort: Effort) -> Result<Vec<Value>, Failure> {
    let folder = tempfile::tempdir()?;
    let begin = |port: u16| {
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder.path());
        command
    };
    let prepare = |_: u16| -> Result<(), Failure> { Ok(()) };
    let peer = Peer { protocol: Protocol::Redis, begin: &begin, prepare: &prepare, commands: &COMMANDS, asked: &asked };
    beside::all(&peer, effort)
}
