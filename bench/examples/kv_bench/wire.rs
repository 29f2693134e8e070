//! Requests over a veth, beside memcached: `bench/kv_wire/run`, which makes the network, begins the servers and asks them.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Failure, memory, serve};

/// The case of which memory is compared.
pub const MIX: &str = "generator mix zipf";

/// How much is asked.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Measured rounds.
    pub rounds: usize,
    /// Seconds of one measurement.
    pub seconds: f64,
    /// Keys that are filled and asked for.
    pub keys: u32,
}

/// All of it.
pub const WHOLE: Effort = Effort { rounds: 15, seconds: 0.5, keys: 65_536 };

/// Measures all cases: what the script prints.
///
/// # Errors
/// Returns a failure if the script does.
pub fn all(effort: Effort) -> Result<Value, Failure> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("kv_wire/run");
    let mut command = Command::new(script);
    command.arg("--server").arg(serve::own().ok_or("this program is not built")?);
    command.args(["--rounds", &effort.rounds.to_string(), "--seconds", &effort.seconds.to_string()]);
    let output = command.args(["--keys", &effort.keys.to_string()]).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("bench/kv_wire/run failed ({})", output.status).into());
    }
    let mut all: Value = serde_json::from_slice(&output.stdout)?;
    for row in all["rows"].as_array_mut().into_iter().flatten().filter(|row| row["case"] == MIX) {
        // The others have said what their maps take.
        let server = ["kiln", "memcached"].iter().position(|name| row["server"] == *name);
        if let Some(server) = server {
            row["memory"] = memory::grown(server, "mix", effort.keys)?.into();
        }
    }
    Ok(all)
}

/// Prints rows: of each case, a line for each server.
pub fn report(all: &Value) {
    println!(
        "{:18} {:10} {:>9} {:>20} {:>8} {:>8} {:>9} {:>10} {:>7}",
        "over veth", "server", "ops/s", "/ memcached", "p50 us", "p99 us", "CPU ns/op", "MiB", "lost"
    );
    let empty = Vec::new();
    for row in all["rows"].as_array().unwrap_or(&empty) {
        let number = |key: &str| row[key].as_f64();
        let shown =
            |key: &str, digits: usize| number(key).map_or("-".to_owned(), |number| format!("{number:.digits$}"));
        let ratio = row["to_peer"].as_array().filter(|parts| parts.len() == 3).map_or("-".to_owned(), |parts| {
            let part = |at: usize| parts[at].as_f64().unwrap_or(f64::NAN);
            format!("{:.2} [{:.2}, {:.2}]", part(1), part(0), part(2))
        });
        println!(
            "{:18} {:10} {:>9} {:>20} {:>8} {:>8} {:>9} {:>10} {:>7}",
            row["case"].as_str().unwrap_or_default(),
            row["server"].as_str().unwrap_or_default(),
            shown("rate", 0),
            ratio,
            shown("p50", 0),
            shown("p99", 0),
            shown("cpu", 0),
            number("memory").map_or("-".to_owned(), |bytes| format!("{:.1}", bytes / f64::from(1 << 20))),
            shown("lost", 4)
        );
    }
}
