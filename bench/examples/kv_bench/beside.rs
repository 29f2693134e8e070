//! Servers behind sockets, without privilege: one thread of `kiln kv` beside another server with one, both asked by the same client, one
//! request after the other and 16 at once; the two interleaved, in an order that changes each round.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use kiln_bench::spread;
use kiln_driver::kv;
use serde_json::{Value, json};

use super::Failure;

/// How much is asked of both servers.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Measured rounds, after one that warms up.
    pub rounds: usize,
    /// How many requests are sent at once, and how much is asked of each command: requests, or milliseconds, as the client counts.
    pub depths: [(u32, u32); 2],
}

/// Another server, and how both are asked.
pub struct Peer<'p> {
    /// What is spoken.
    pub protocol: kv::Protocol,
    /// What begins it at a port of the loopback interface.
    pub begin: &'p dyn Fn(u16) -> Command,
    /// Prepares the server at a port.
    pub prepare: &'p dyn Fn(u16) -> Result<(), Failure>,
    /// What is asked.
    pub commands: &'p [&'p str],
    /// Asks the server at a port for one of `commands`, so many at once, and as much as [`Effort::depths`] says: how many were answered,
    /// and how many in a second.
    pub asked: &'p dyn Fn(u16, &str, u32, u32) -> Result<(f64, f64), Failure>,
}

/// A server with one thread.
pub fn options(protocol: kv::Protocol, listen: SocketAddr, interface: Option<String>, most_bytes: u64) -> kv::Options {
    kv::Options {
        protocol,
        password: None,
        cluster: None,
        listen,
        udp: false,
        interface,
        mode: kv::XdpMode::Default,
        kept: None,
        most_bytes,
        client_bytes: 64 << 20,
        threads: 1,
        metrics: None,
        data: None,
        tls: None,
        clang: "clang-19".to_owned(),
    }
}

/// A process that ends with this.
pub struct Ended(
    /// The process.
    pub Child,
);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures `kiln kv` beside a peer.
///
/// # Errors
/// Returns a failure if a server does not begin, or the client does not tell how fast it is.
pub fn all(peer: &Peer<'_>, effort: Effort) -> Result<Vec<Value>, Failure> {
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let process = Ended((peer.begin)(free).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let options = options(peer.protocol, "127.0.0.1:0".parse()?, None, 256 << 20);
    let (stop, (begun, address)) = (AtomicBool::new(false), mpsc::channel());
    std::thread::scope(|scope| {
        let serving =
            scope.spawn(|| kv::serve(&options, &stop, &|own| begun.send(own.address.port()).unwrap_or_default()));
        let rows = address
            .recv_timeout(Duration::from_secs(10))
            .map_err(Failure::from)
            .and_then(|own| compare(peer, [(own, std::process::id()), (free, process.0.id())], effort));
        stop.store(true, Ordering::SeqCst);
        serving.join().map_err(|_| "the server panicked")?.map_err(|error| error.to_string())?;
        rows
    })
}

/// Nanoseconds of a processor that the threads of a process have had.
fn nanoseconds(process: u32) -> Result<u64, Failure> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        sum += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(sum)
}

/// Of one server and one command in each round: requests answered in a second, and nanoseconds of a processor for each.
type Measured = [Vec<f64>; 2];

/// Asks both servers, each a port and a process.
fn compare(peer: &Peer<'_>, servers: [(u16, u32); 2], effort: Effort) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for (port, _) in servers {
        (peer.prepare)(port)?;
    }
    for (depth, much) in effort.depths {
        let mut all: Vec<[Measured; 2]> = peer.commands.iter().map(|_| Default::default()).collect();
        for round in 0..=effort.rounds {
            for (command, measured) in peer.commands.iter().zip(&mut all) {
                for turn in 0..servers.len() {
                    let at = (turn + round) % servers.len();
                    let (port, process) = servers[at];
                    let before = nanoseconds(process)?;
                    let (count, rate) = (peer.asked)(port, command, depth, much)?;
                    // Of a test, other threads may have ended meanwhile, with their time.
                    let each = nanoseconds(process)?.saturating_sub(before) as f64 / count;
                    // The first round warms up.
                    if round > 0 {
                        measured[at][0].push(rate);
                        measured[at][1].push(each);
                    }
                }
            }
        }
        for (command, [own, other]) in peer.commands.iter().zip(&all) {
            let median = |of: &Vec<f64>| spread(of.iter().copied())[1];
            let ratios = spread(own[0].iter().zip(&other[0]).map(|(own, other)| own / other));
            rows.push(json!({
                "operation": command, "at_once": depth.to_string(), "kiln": median(&own[0]), "peer": median(&other[0]),
                "kiln_to_peer": ratios[1], "kiln_to_peer_range": [ratios[0], ratios[2]],
                "kiln_cpu_ns": median(&own[1]), "peer_cpu_ns": median(&other[1]),
            }));
        }
    }
    Ok(rows)
}

/// Prints rows beside a peer with this name.
pub fn report(peer: &str, rows: &[Value]) {
    let (ratio, cpu) = (format!("kiln/{peer}"), "CPU us of each");
    println!("{:10} {:>8} {:>8} {:>10} {:>20}  {cpu}", "requests/s", "at once", "kiln", peer, ratio);
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let range = |at: usize| row["kiln_to_peer_range"][at].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:10} {:>8} {:>8.0} {:>10.0} {:>20}  {:.1}, {:.1}",
            word("operation"),
            word("at_once"),
            number("kiln"),
            number("peer"),
            format!("{:.2} [{:.2}, {:.2}]", number("kiln_to_peer"), range(0), range(1)),
            number("kiln_cpu_ns") / 1e3,
            number("peer_cpu_ns") / 1e3
        );
    }
}
