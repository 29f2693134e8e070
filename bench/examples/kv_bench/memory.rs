//! Memory of a key: what a server's resident memory grows by while keys are stored in it. `kiln kv` has all its memory from the
//! beginning: of it, what the allocator has handed out counts, and an eighth for buckets, of which there are as many as `--memory` needs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use kiln_kv::store::{Condition, OWN_VARIABLE_BYTES, Outcome, Settings, Store, own_heap};
use kiln_sandbox::supply;
use serde::Serialize;

use super::Failure;
use super::beside::Ended;

/// Bytes of values; of the mix, one key of four has the largest and the others 128.
const SIZES: [&str; 4] = ["16", "128", "1024", "mix"];
/// Keys of eight bytes in a pipeline.
const BATCH: u32 = 256;

/// Bytes of resident memory for each key.
#[derive(Serialize, Debug)]
pub struct Memory {
    /// What values have: bytes, or `mix`.
    pub values: &'static str,
    /// Of `kiln kv`, memcached, Redis.
    pub bytes_per_key: [f64; 3],
}

/// Measures all servers with so many keys.
///
/// # Errors
/// Returns a failure if a server does not begin, or refuses a value.
pub fn all(keys: u32) -> Result<Vec<Memory>, Failure> {
    let row = |values| {
        let mut bytes_per_key = [0.0; 3];
        for (at, bytes) in bytes_per_key.iter_mut().enumerate() {
            *bytes = grown(at, values, keys)? as f64 / f64::from(keys);
        }
        Ok(Memory { values, bytes_per_key })
    };
    SIZES.into_iter().map(row).collect()
}

/// What a server's resident memory grows by, of [`Memory::bytes_per_key`]'s.
///
/// # Errors
/// Returns a failure if it does not begin, or refuses a value.
pub fn grown(server: usize, values: &str, keys: u32) -> Result<u64, Failure> {
    if server == 0 {
        return handed_out(values, keys);
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (port, is_redis) = (free.port().to_string(), server == 2);
    let mut command = Command::new(if is_redis { "redis-server" } else { "memcached" });
    if is_redis {
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
    } else {
        command.args(["-u", "root", "-l", "127.0.0.1", "-p", &port, "-t", "1", "-m", "1024"]);
    }
    let child = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let mut stream = connected(&free.to_string())?;
    // What the first request makes is not a key's.
    fill(&mut stream, is_redis, "16", 0..1)?;
    let before = resident(child.0.id())?;
    fill(&mut stream, is_redis, values, 1..keys + 1)?;
    Ok(resident(child.0.id())?.saturating_sub(before))
}

/// Bytes of a value.
fn bytes_of(values: &str, key: u32) -> usize {
    values.parse().unwrap_or(if key.is_multiple_of(4) { 1024 } else { 128 })
}

/// What the allocator of `kiln kv` hands out for keys, and their share of buckets.
fn handed_out(values: &str, keys: u32) -> Result<u64, Failure> {
    let settings = Settings { buckets: 1 << 20, most_bytes: 512 << 20, served: None };
    let heap = own_heap(&settings);
    let store = Store::create(&heap, OWN_VARIABLE_BYTES, &settings).map_err(|error| format!("{error:?}"))?;
    let used = || supply::accounts(&heap).map(|accounts| accounts.supplied_bytes - accounts.fresh_bytes);
    let before = used().ok_or("no allocator")?;
    for key in 0..keys {
        let value = vec![b'v'; bytes_of(values, key)];
        if store.put(format!("k{key:07}").as_bytes(), 0, 0, &value, Condition::Any) != Outcome::Stored {
            return Err("a value was refused".into());
        }
    }
    Ok((used().ok_or("no allocator")? - before) / 8 * 9)
}

/// Connects to a server that is beginning.
///
/// # Errors
/// Returns a failure if nothing listens after five seconds.
pub fn connected(address: &str) -> Result<TcpStream, Failure> {
    for _ in 0..100 {
        if let Ok(stream) = TcpStream::connect(address) {
            return Ok(stream);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err(format!("nothing listens at {address}").into())
}

fn fill(stream: &mut TcpStream, is_redis: bool, values: &str, keys: std::ops::Range<u32>) -> Result<(), Failure> {
    let reply = if is_redis { &b"+OK\r\n"[..] } else { b"STORED\r\n" };
    let (mut first, end) = (keys.start, keys.end);
    while first < end {
        let last = end.min(first + BATCH);
        let mut sent = Vec::new();
        for key in first..last {
            let bytes = bytes_of(values, key);
            let head = if is_redis {
                format!("*3\r\n$3\r\nSET\r\n$8\r\nk{key:07}\r\n${bytes}\r\n")
            } else {
                format!("set k{key:07} 0 0 {bytes}\r\n")
            };
            sent.extend([head.as_bytes(), &vec![b'v'; bytes], b"\r\n"].concat());
        }
        stream.write_all(&sent)?;
        let mut told = vec![0; reply.len() * (last - first) as usize];
        stream.read_exact(&mut told)?;
        if told.chunks(reply.len()).any(|part| part != reply) {
            return Err(format!("a value was refused: {}", String::from_utf8_lossy(&told)).into());
        }
        first = last;
    }
    Ok(())
}

fn resident(process: u32) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
