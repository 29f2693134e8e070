//! Redis' protocol, without privilege: one thread of `kiln kv redis` beside `redis-server`, both asked by `redis-benchmark`, one request
//! after the other and 16 at once; the two interleaved, in an order that changes each round.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use kiln_bench::spread;
use kiln_driver::kv;
use serde_json::{Value, json};

use super::Failure;

/// What `redis-benchmark` counts, by the name that it is asked for.
const COMMANDS: [&str; 6] = ["get", "set", "incr", "mset", "hset", "zadd"];

/// How much is asked of both servers.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Measured rounds, after one that warms up.
    pub rounds: usize,
    /// How many requests are sent at once, and how many requests there are of each command.
    pub depths: [(u32, u32); 2],
}

/// One at a time, and 16 at once.
pub const DEPTHS: [(u32, u32); 2] = [(1, 100_000), (16, 400_000)];

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

/// Requests in a second, for each of [`COMMANDS`].
fn asked(port: u16, depth: u32, requests: u32) -> Result<Vec<f64>, Failure> {
    let [port, depth, requests] = [u32::from(port), depth, requests].map(|number| number.to_string());
    let fixed = ["-r", "100000", "-d", "128", "--csv", "-t", &COMMANDS.join(",")];
    let output =
        Command::new("redis-benchmark").args(["-p", &port, "-P", &depth, "-n", &requests]).args(fixed).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = |command: &str| {
        let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("\"{command}")));
        let number = line.and_then(|line| line.split(',').nth(1)).map(|text| text.trim_matches('"'));
        number
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| format!("redis-benchmark: no {command} in {text}").into())
    };
    COMMANDS.iter().map(|command| rate(command)).collect()
}

/// Measures Redis' protocol beside `redis-server`.
///
/// # Errors
/// Returns a failure if a server does not begin, or `redis-benchmark` does not tell how fast it is.
pub fn all(effort: Effort) -> Result<Vec<Value>, Failure> {
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let folder = tempfile::tempdir()?;
    let mut command = Command::new("redis-server");
    command.args(["--port", &free.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder.path());
    let _peer = Ended(command.stdout(Stdio::null()).spawn()?);
    let options = options(kv::Protocol::Redis, "127.0.0.1:0".parse()?, None, 256 << 20);
    let (stop, (begun, address)) = (AtomicBool::new(false), mpsc::channel());
    std::thread::scope(|scope| {
        let serving =
            scope.spawn(|| kv::serve(&options, &stop, &|own| begun.send(own.address.port()).unwrap_or_default()));
        let rows = address
            .recv_timeout(Duration::from_secs(10))
            .map_err(Failure::from)
            .and_then(|own| compare([own, free], effort));
        stop.store(true, Ordering::SeqCst);
        serving.join().map_err(|_| "the server panicked")?.map_err(|error| error.to_string())?;
        rows
    })
}

fn compare(ports: [u16; 2], effort: Effort) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for (depth, requests) in effort.depths {
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..=effort.rounds {
            for turn in 0..ports.len() {
                let at = (turn + round) % ports.len();
                let rate = asked(ports[at], depth, requests)?;
                // The first round warms up.
                if round > 0 {
                    rates[at].push(rate);
                }
            }
        }
        for (at, command) in COMMANDS.iter().enumerate() {
            let of = |server: usize| rates[server].iter().map(move |rate| rate[at]);
            let ratios = spread(of(0).zip(of(1)).map(|(own, peer)| own / peer));
            rows.push(json!({
                "operation": command, "at_once": depth.to_string(), "kiln": spread(of(0))[1], "redis": spread(of(1))[1],
                "kiln_to_redis": ratios[1], "kiln_to_redis_range": [ratios[0], ratios[2]],
            }));
        }
    }
    Ok(rows)
}

/// Prints rows.
pub fn report(rows: &[Value]) {
    println!("{:10} {:>8} {:>8} {:>8} {:>20}", "requests/s", "at once", "kiln", "redis", "kiln/redis");
    for row in rows {
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let range = &row["kiln_to_redis_range"];
        println!(
            "{:10} {:>8} {:>8.0} {:>8.0} {:>20}",
            word("operation"),
            word("at_once"),
            number(&row["kiln"]),
            number(&row["redis"]),
            format!("{:.2} [{:.2}, {:.2}]", number(&row["kiln_to_redis"]), number(&range[0]), number(&range[1]))
        );
    }
}
