//! The link, its receiver, and one measurement.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_linux::OwnNetwork;
use serde::Serialize;

use crate::Failure;

/// The argument that makes this program the receiver.
pub const RECEIVE: &str = "--receive";
pub const RATE_MBIT: u32 = 200;
/// Bytes that wait for the link at most; at its rate they take 16 ms.
pub const QUEUE_BYTES: u32 = 400_000;
const ADDRESSES: [&str; 2] = ["198.51.100.1", "198.51.100.2"];
const PORT: u16 = 9000;
/// How often round trips are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The beginning of a connection, which is not counted: slow start.
const SETTLE: Duration = Duration::from_millis(500);

/// What connections of one algorithm did.
#[derive(Serialize)]
pub struct Sample {
    seconds: f64,
    /// Bytes that arrived, by connection.
    bytes: Vec<u64>,
    /// The median of the connections' smoothed round trips.
    pub round_trip_ms: f64,
    /// When a round trip was looked at, in seconds, and its milliseconds: the mean of the connections.
    pub trips: Vec<(f64, f64)>,
    /// Segments sent again.
    pub retransmitted: u64,
}

impl Sample {
    /// Megabits a second of each connection.
    pub fn rates(&self) -> Vec<f64> {
        self.bytes.iter().map(|bytes| *bytes as f64 * 8e-6 / self.seconds).collect()
    }

    pub fn mbit(&self) -> f64 {
        self.rates().iter().sum()
    }

    /// The share of the first half of the connections.
    pub fn first_share(&self) -> f64 {
        let half: u64 = self.bytes[..self.bytes.len() / 2].iter().sum();
        half as f64 / self.bytes.iter().sum::<u64>() as f64
    }

    /// Jain's index.
    pub fn fairness(&self) -> f64 {
        let rates = self.rates();
        let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
        if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { f64::NAN }
    }
}

/// A veth pair of limited rate to a receiver in a namespace of its own. This thread is in a namespace of its own, too.
pub struct Link {
    namespace: String,
    receiver: Option<Child>,
    _network: OwnNetwork,
}

impl Link {
    pub fn new() -> Result<Link, Failure> {
        let network = OwnNetwork::enter()?;
        let namespace = format!("kiln-congestion-{}", std::process::id());
        command("ip", &["netns", "add", &namespace])?;
        let mut link = Link { namespace, receiver: None, _network: network };
        let peer = link.namespace.as_str();
        let [own, other] = ADDRESSES.map(|address| format!("{address}/24"));
        for arguments in [
            &["link", "add", "own", "type", "veth", "peer", "peer", "netns", peer][..],
            &["link", "set", "own", "up"],
            &["addr", "add", &own, "dev", "own"],
            &["-n", peer, "link", "set", "peer", "up"],
            &["-n", peer, "addr", "add", &other, "dev", "peer"],
        ] {
            command("ip", arguments)?;
        }
        // A segment of 64 KB at once would be more than the bucket holds.
        command("ethtool", &["-K", "own", "tso", "off", "gso", "off"])?;
        let (rate, queue) = (format!("{RATE_MBIT}mbit"), QUEUE_BYTES.to_string());
        command("tc", &["qdisc", "add", "dev", "own", "root", "tbf", "rate", &rate, "burst", "64kb", "limit", &queue])?;
        let mut receiver = Command::new("ip");
        receiver.args(["netns", "exec", peer]).arg(std::env::current_exe()?).arg(RECEIVE);
        let mut child = receiver.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().ok_or("the receiver has no output")?).read_line(&mut line)?;
        link.receiver = Some(child);
        Ok(link)
    }

    /// Sends for a time, with a connection of each of these algorithms.
    pub fn send(&self, algorithms: &[&str], time: Duration) -> Result<Sample, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut senders = Vec::new();
        for algorithm in algorithms {
            let mut stream = TcpStream::connect((ADDRESSES[1], PORT))?;
            rustix::net::sockopt::set_tcp_congestion(&stream, algorithm)?;
            let stop = Arc::clone(&stop);
            senders.push(std::thread::spawn(move || -> Result<u64, std::io::Error> {
                let bytes = [7; 1 << 16];
                while !stop.load(Ordering::Relaxed) {
                    stream.write_all(&bytes)?;
                }
                stream.shutdown(std::net::Shutdown::Write)?;
                // The receiver answers with what arrived between the beginning of its time and its end.
                let mut counted = [0; 8];
                stream.read_exact(&mut counted)?;
                Ok(u64::from_le_bytes(counted))
            }));
        }
        std::thread::sleep(SETTLE);
        let begun = Instant::now();
        let (mut trips, mut all, mut retransmitted) = (Vec::new(), Vec::new(), 0);
        while begun.elapsed() < time {
            std::thread::sleep(LOOK);
            let seen = looked()?;
            if !seen.trips.is_empty() {
                let mean = seen.trips.iter().sum::<f64>() / seen.trips.len() as f64;
                trips.push((begun.elapsed().as_secs_f64(), mean));
            }
            all.extend(seen.trips);
            retransmitted = retransmitted.max(seen.retransmitted);
        }
        stop.store(true, Ordering::Relaxed);
        let counted =
            senders.into_iter().map(|sender| sender.join().map_err(|_| "a sender panicked")?.map_err(Failure::from));
        let bytes: Vec<u64> = counted.collect::<Result<_, Failure>>()?;
        let seconds = (SETTLE + begun.elapsed()).as_secs_f64();
        all.sort_by(f64::total_cmp);
        let round_trip_ms = all.get(all.len() / 2).copied().unwrap_or(f64::NAN);
        Ok(Sample { seconds, bytes, round_trip_ms, trips, retransmitted })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(mut child) = self.receiver.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = command("ip", &["netns", "delete", &self.namespace]);
    }
}

/// What `ss` says of this namespace's connections to the receiver.
#[derive(Default)]
struct Seen {
    trips: Vec<f64>,
    retransmitted: u64,
}

fn looked() -> Result<Seen, Failure> {
    let output = Command::new("ss").args(["-tinH", "state", "established", "dst", ADDRESSES[1]]).output()?;
    let mut seen = Seen::default();
    for word in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        // `rtt:12.5/3.1` and `retrans:0/17`.
        if let Some(trip) = word.strip_prefix("rtt:").and_then(|trip| trip.split('/').next()?.parse().ok()) {
            seen.trips.push(trip);
        }
        if let Some(all) = word.strip_prefix("retrans:").and_then(|word| word.split('/').nth(1)?.parse::<u64>().ok()) {
            seen.retransmitted += all;
        }
    }
    Ok(seen)
}

/// Counts what arrives on each connection, and says so at its end.
pub fn receive() -> Result<(), Failure> {
    let listener = TcpListener::bind((ADDRESSES[1], PORT))?;
    println!("ready");
    for stream in listener.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || -> Result<(), std::io::Error> {
            let (mut bytes, mut counted) = ([0; 1 << 16], 0u64);
            loop {
                match stream.read(&mut bytes)? {
                    0 => return stream.write_all(&counted.to_le_bytes()),
                    more => counted += more as u64,
                }
            }
        });
    }
    Ok(())
}

fn command(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()).into())
}
