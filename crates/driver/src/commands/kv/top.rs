//! `kiln kv top`: what a server does, from the counters that it tells its clients.
//!
//! ```text
//!   INFO -> keyspace_hits:3    redis        each twice, a while apart -> Rates
//!   stats -> STAT get_hits 3   memcached
//! ```
//!
//! Both peers tell the same counters under the same names, so it also shows them.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use kiln_program::Error;
use serde::Serialize;

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer.
const ANSWER_MOST: usize = 1 << 20;

/// Counters of a server.
#[derive(Clone, Copy, Default)]
struct Sample {
    keys: u64,
    memory_bytes: u64,
    limit_bytes: u64,
    connections: u64,
    commands: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
    log_bytes: Option<u64>,
}

/// What a server has, and what it did in a second of a while.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Keys.
    pub keys: u64,
    /// Bytes of keys and values.
    pub memory_bytes: u64,
    /// Bytes from which on keys are evicted; 0: never.
    pub limit_bytes: u64,
    /// Connections, with this one.
    pub connections: u64,
    /// Commands in a second.
    pub commands_per_second: f64,
    /// Of the keys that were asked for, the part that was there; none if none was asked for.
    pub hit_ratio: Option<f64>,
    /// Keys evicted in a second.
    pub evictions_per_second: f64,
    /// Bytes of the log, if there is one.
    pub log_bytes: Option<u64>,
}

fn rates(before: &Sample, now: &Sample, seconds: f64) -> Rates {
    let per_second = |of: fn(&Sample) -> u64| of(now).saturating_sub(of(before)) as f64 / seconds;
    let (hits, misses) = (now.hits.saturating_sub(before.hits), now.misses.saturating_sub(before.misses));
    Rates {
        keys: now.keys,
        memory_bytes: now.memory_bytes,
        limit_bytes: now.limit_bytes,
        connections: now.connections,
        commands_per_second: per_second(|sample| sample.commands),
        hit_ratio: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
        evictions_per_second: per_second(|sample| sample.evictions),
        log_bytes: now.log_bytes,
    }
}

/// The value behind a name at the beginning of a line; 0 if there is none.
fn value(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let digits = rest.find(|one: char| !one.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

fn of_redis(text: &str) -> Sample {
    let of = |name: &str| value(text, name).unwrap_or(0);
    Sample {
        keys: of("db0:keys="),
        memory_bytes: of("used_memory:"),
        limit_bytes: of("maxmemory:"),
        connections: of("connected_clients:"),
        commands: of("total_commands_processed:"),
        hits: of("keyspace_hits:"),
        misses: of("keyspace_misses:"),
        evictions: of("evicted_keys:"),
        log_bytes: value(text, "aof_current_size:"),
    }
}

fn of_memcached(text: &str) -> Sample {
    let of = |name: &str| value(text, &format!("STAT {name} ")).unwrap_or(0);
    Sample {
        keys: of("curr_items"),
        memory_bytes: of("bytes"),
        limit_bytes: of("limit_maxbytes"),
        connections: of("curr_connections"),
        // What memcached counts for each kind of command.
        commands: of("cmd_get") + of("cmd_set") + of("cmd_touch") + of("cmd_flush") + of("delete_requests"),
        hits: of("get_hits"),
        misses: of("get_misses"),
        evictions: of("evictions"),
        log_bytes: value(text, "STAT log_bytes "),
    }
}

/// A connection to a server whose counters are read.
pub struct Monitor {
    stream: TcpStream,
    is_redis: bool,
    last: (Instant, Sample),
}

fn refused(address: SocketAddr) -> impl Fn(io::Error) -> Error {
    move |error| Error::machine(&format!("asking {address} for its counters"), &error, "")
}

impl Monitor {
    /// Connects to a server of either protocol.
    ///
    /// # Errors
    /// Returns an error if nobody answers at the address, or neither Redis' nor memcached's words, or if the password is wrong.
    pub fn connect(address: SocketAddr, password: Option<&str>) -> Result<Monitor, Error> {
        let connect = || {
            let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let stream = connect().map_err(refused(address))?;
        let mut monitor = Monitor { stream, is_redis: true, last: (Instant::now(), Sample::default()) };
        if let Some(password) = password {
            let auth = format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len());
            let told = monitor.ask(auth.as_bytes()).map_err(refused(address))?;
            if !told.starts_with('+') {
                return Err(Error::InvalidInput(format!("{address} refuses the password: {}", told.trim_end())));
            }
        }
        // memcached knows no such command.
        let told = monitor.ask(b"INFO\r\n").map_err(refused(address))?;
        monitor.is_redis = !told.starts_with("ERROR");
        if let Some(refusal) = told.strip_prefix('-') {
            return Err(Error::InvalidInput(format!("{address}: {}", refusal.trim_end())));
        }
        monitor.last = (Instant::now(), monitor.sample().map_err(refused(address))?);
        Ok(monitor)
    }

    /// What the server has, and what it did since the last call.
    ///
    /// # Errors
    /// Returns an error if it does not answer any more.
    pub fn rates(&mut self) -> Result<Rates, Error> {
        let address = self.stream.peer_addr().map_err(|error| Error::machine("asking for counters", &error, ""))?;
        let (now, sample) = (Instant::now(), self.sample().map_err(refused(address))?);
        let (then, before) = std::mem::replace(&mut self.last, (now, sample));
        Ok(rates(&before, &sample, now.duration_since(then).as_secs_f64().max(1e-3)))
    }

    fn sample(&mut self) -> io::Result<Sample> {
        if self.is_redis { Ok(of_redis(&self.ask(b"INFO\r\n")?)) } else { Ok(of_memcached(&self.ask(b"stats\r\n")?)) }
    }

    /// Sends a request, and reads its answer.
    fn ask(&mut self, request: &[u8]) -> io::Result<String> {
        self.stream.write_all(request)?;
        let (mut told, mut part) = (Vec::new(), [0; 4096]);
        while !is_whole(&told) {
            let count = self.stream.read(&mut part)?;
            if count == 0 || told.len() + count > ANSWER_MOST {
                return Err(io::ErrorKind::InvalidData.into());
            }
            told.extend_from_slice(&part[..count]);
        }
        Ok(String::from_utf8_lossy(&told).into_owned())
    }
}

/// Whether an answer is complete: a string of the size that it says, the rows of `stats`, or a line.
fn is_whole(told: &[u8]) -> bool {
    match told.first() {
        None => false,
        Some(b'$') => {
            let Some(end) = told.iter().position(|byte| *byte == b'\n') else { return false };
            let bytes = std::str::from_utf8(&told[1..end]).ok().and_then(|text| text.trim().parse::<usize>().ok());
            bytes.is_none_or(|bytes| told.len() >= end.saturating_add(bytes).saturating_add(3))
        }
        Some(b'S') => told.ends_with(b"END\r\n"),
        Some(_) => told.ends_with(b"\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_between_two_samples() {
        let before = of_redis("# Stats\r\ntotal_commands_processed:10\r\nkeyspace_hits:1\r\nkeyspace_misses:1\r\n");
        let now = of_redis(
            "total_commands_processed:30\r\nkeyspace_hits:4\r\nkeyspace_misses:2\r\nmaxmemory:9\r\nmaxmemory_policy:x\r\n\
             aof_current_size:77\r\ndb0:keys=5,expires=0\r\n",
        );
        let told = rates(&before, &now, 2.0);
        assert_eq!((told.keys, told.limit_bytes, told.log_bytes), (5, 9, Some(77)));
        assert_eq!((told.commands_per_second, told.hit_ratio), (10.0, Some(0.75)));
        let told = rates(&now, &of_memcached("STAT bytes 3\r\nSTAT curr_items 2\r\nEND\r\n"), 1.0);
        assert_eq!((told.keys, told.memory_bytes, told.hit_ratio, told.log_bytes), (2, 3, None, None));
    }

    #[test]
    fn answers_are_read_to_their_end() {
        for (told, whole) in [
            ("$5\r\nhello\r\n", true),
            ("$5\r\nhel", false),
            ("$", false),
            ("STAT a 1\r\nEND\r\n", true),
            ("STAT a 1\r\n", false),
            ("ERROR\r\n", true),
            ("$x\r\n", true),
        ] {
            assert_eq!(is_whole(told.as_bytes()), whole, "{told}");
        }
    }
}
