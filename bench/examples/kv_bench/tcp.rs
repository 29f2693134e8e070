//! memcached's text protocol over TCP: `kiln kv memcached` beside memcached, both asked by `bench/kv_tcp/client.c`.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use kiln_driver::kv::Protocol;
use serde_json::Value;

use super::beside::{self, Effort, Peer};
use super::{Failure, memory};

/// What the client asks for.
const COMMANDS: [&str; 2] = ["get", "set"];
/// One at a time and 16 at once, a second each.
pub const DEPTHS: [(u32, u32); 2] = [(1, 1000), (16, 1000)];
/// As `redis-benchmark` has them.
const CONNECTIONS: &str = "50";
/// Keys that the client draws from.
const KEYS: u32 = 4096;

/// Sets each key once, so that each `get` finds a value.
fn fill(port: u16) -> Result<(), Failure> {
    let mut text = String::new();
    for key in 0..KEYS {
        write!(text, "set {key:06} 0 0 128\r\n{key:0128}\r\n")?;
    }
    let mut stream = memory::connected(&format!("127.0.0.1:{port}"))?;
    stream.write_all(text.as_bytes())?;
    let mut told = vec![0; "STORED\r\n".len() * KEYS as usize];
    Ok(stream.read_exact(&mut told)?)
}

/// Measures memcached's text protocol.
///
/// # Errors
/// As [`beside::all`]; if there is no C compiler, too.
pub fn all(effort: Effort) -> Result<Vec<Value>, Failure> {
    let folder = tempfile::tempdir()?;
    let client = folder.path().join("client");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kv_tcp/client.c");
    if !Command::new("gcc").arg("-O2").arg(source).arg("-o").arg(&client).status()?.success() {
        return Err("gcc does not compile bench/kv_tcp/client.c".into());
    }
    let begin = |port: u16| {
        let mut command = Command::new("memcached");
        command.args(["-u", "root", "-l", "127.0.0.1", "-p", &port.to_string(), "-t", "1", "-m", "256"]);
        command
    };
    let asked = |port: u16, command: &str, depth: u32, milliseconds: u32| -> Result<(f64, f64), Failure> {
        let numbers = [depth.to_string(), (f64::from(milliseconds) / 1e3).to_string()];
        let mut asking = Command::new(&client);
        let output = asking.args(["127.0.0.1", &port.to_string(), command, CONNECTIONS]).args(numbers).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut told = text.split(' ').map_while(|number| number.parse::<f64>().ok());
        let both = told.next().zip(told.next());
        both.ok_or_else(|| format!("the client: {}", String::from_utf8_lossy(&output.stderr)).into())
    };
    let peer =
        Peer { protocol: Protocol::Memcached, begin: &begin, prepare: &fill, commands: &COMMANDS, asked: &asked };
    beside::all(&peer, effort)
}
