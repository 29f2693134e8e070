//! `cargo xtask bench kv`: memcached's GET and SET by the extension of `apps/kv`, beside the same server on a BPF hash map.
//!
//! ```text
//!   bench/heaps/memcached.bpf.c --clang, sandbox--> BPF_PROG_TEST_RUN, a request a run    nanoseconds a request
//! ```
//!
//! Both parse the same requests and make the same replies of 128-byte values; the peer's map has slots of fixed size. A run begins
//! by writing the request into the packet, which the program `nothing` measures: it is subtracted. Keys are random, of 256 (hot)
//! or 65,536 (cold). The two run interleaved, in an order that changes each round; medians are printed, with least and greatest in
//! JSON. A request that is not answered fails the benchmark.
//!
//! `--peers` measures Redis' protocol instead, without privilege: one thread of `kiln kv redis` beside `redis-server`, both asked by
//! `redis-benchmark`, one request after the other and 16 at once; the two interleaved, in an order that changes each round.
//!
//! `--format json` prints one JSON object; `--rounds N` measures less.
#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use kiln_bench::spread;
use kiln_driver::heap::KernelHeap;
use kiln_driver::kv;
use kiln_kv::store::{Settings, Store};
use kiln_linux::{LoadedObject, ObjectFile, TestInput};
use kiln_sandbox::supply::{self, Memory as _};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

const HEAP: &str = "kiln_heap_map";
const PORT: u16 = 11211;
const SERVED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT);
const VALUE_BYTES: usize = 128;
const HOT: u64 = 0xff;
const COLD: u64 = 0xffff;
/// The stores, and clang's argument for each. The first one is compared with the second.
const STORES: [(&str, &str); 2] = [("heap", "-DHEAP"), ("slots", "-DSLOTS")];

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Measured rounds, after one that warms up.
    pub rounds: usize,
    /// Requests of one measurement.
    pub requests: u32,
    /// Requests that fill the cold store; most keys are met.
    pub fill: u32,
}

const WHOLE: Effort = Effort { rounds: 15, requests: 50_000, fill: 600_000 };

/// An extension in the kernel.
struct Server {
    name: &'static str,
    loaded: LoadedObject,
    variables: usize,
}

impl Server {
    fn load((name, define): (&'static str, &str), folder: &Path) -> Result<Server, Failure> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let path = folder.join(format!("{name}.o"));
        let status = Command::new("clang-19")
            .args(["-target", "bpf", "-O2", "-g", "-mcpu=v4", "-mllvm", "-disable-loop-idiom-all", "-c", define])
            .arg("-I")
            .arg(root.join("bpf/include"))
            .arg("-idirafter")
            .arg(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH))
            .arg(root.join("bench/heaps/memcached.bpf.c"))
            .arg("-o")
            .arg(&path)
            .status()?;
        if !status.success() {
            return Err(format!("clang refuses the server on {name}").into());
        }
        let elf = kiln_elf::read(name, &std::fs::read(&path)?)?;
        let bytes = elf.write(&kiln_sandbox::sandbox(&elf.object, &kiln_sandbox::Options::default())?.object)?;
        let heap = elf.object.maps.iter().find(|map| map.name == HEAP).ok_or("no heap")?;
        let loaded = ObjectFile::open(name, &bytes)?.load().map_err(|failure| failure.to_string())?;
        Ok(Server { name, loaded, variables: supply::variable_bytes(heap) })
    }

    fn run(&self, program: &str, packet: &[u8], repeat: u32) -> Result<(f64, Vec<u8>), Failure> {
        let input = TestInput { packet: packet.to_vec(), repeat, ..TestInput::default() };
        let output = self.loaded.program(program)?.test_run(&input)?;
        Ok((f64::from(output.duration_ns), output.packet))
    }

    /// Nanoseconds of a run of `program`, with a request for one of `mask + 1` keys.
    fn measure(&self, program: &str, text: &[u8], mask: u64, random: u64, repeat: u32) -> Result<f64, Failure> {
        let mut kept: Vec<u8> = [random, mask].iter().flat_map(|word| word.to_le_bytes()).collect();
        kept.extend(request(text));
        self.run("keep", &kept, 1)?;
        // As long as the request, so that there is as much room before it.
        let (ns, _) = self.run(program, &request(text), repeat)?;
        let (_, failed) = self.run("keep", &kept, 1)?;
        match failed.first_chunk().map(|word| u64::from_le_bytes(*word)) {
            Some(0) => Ok(ns),
            Some(failed) => Err(format!("{}: {program}: {failed} of {repeat} requests failed", self.name).into()),
            None => Err("a short answer".into()),
        }
    }
}

/// A datagram; its checksums are not looked at.
fn request(text: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 12];
    packet.extend([8, 0, 0x45, 0]);
    packet.extend((36 + text.len() as u16).to_be_bytes());
    packet.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend(40000u16.to_be_bytes());
    packet.extend(PORT.to_be_bytes());
    packet.extend((16 + text.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    packet.extend(text);
    packet
}

/// Measures all rows.
///
/// # Errors
/// Returns a failure if a server does not load, or does not answer.
pub fn all(effort: Effort) -> Result<Vec<Value>, Failure> {
    let folder = tempfile::tempdir()?;
    let servers: Result<Vec<Server>, Failure> =
        STORES.iter().map(|store| Server::load(*store, folder.path())).collect();
    let servers = servers?;
    let heap = KernelHeap(servers[0].loaded.heap(HEAP)?);
    let settings = Settings { buckets: 1 << 16, most_bytes: 40 << 20, served: Some(SERVED) };
    let _store = Store::create(&heap, servers[0].variables, &settings).map_err(|error| format!("{error:?}"))?;
    let slots = KernelHeap(servers[1].loaded.heap(HEAP)?);
    slots.populate(0, slots.bytes()).map_err(|error| format!("{error:?}"))?;
    let set = [&b"set aaaaaaaa 0 0 128\r\n"[..], &[b'v'; VALUE_BYTES], b"\r\n"].concat();
    let get = b"get aaaaaaaa\r\n".to_vec();
    let mut rows = Vec::new();
    for (keys, mask) in [("hot", HOT), ("cold", COLD)] {
        for server in &servers {
            // Keys of a random sequence: twice as many tries as it takes to meet them once, and then each of the hot ones.
            server.measure("serve", &set, mask, 0x1234_5678_9abc_def1, effort.fill)?;
        }
        for (operation, text) in [("get", &get), ("set", &set)] {
            let mut times = [Vec::new(), Vec::new()];
            for round in 0..=effort.rounds {
                let random =
                    if effort.fill < 10_000 { 0x1234_5678_9abc_def1 } else { 0x9e37_79b9 * (round as u64 + 1) | 1 };
                for turn in 0..servers.len() {
                    let at = (turn + round) % servers.len();
                    let run = |program| servers[at].measure(program, text, mask, random, effort.requests);
                    let net = run("serve")? - run("nothing")?;
                    // The first round warms up.
                    if round > 0 {
                        times[at].push(net);
                    }
                }
            }
            let mut row = json!({"operation": operation, "keys": keys});
            let ratios = spread(times[0].iter().zip(&times[1]).map(|(own, peer)| own / peer));
            row["heap_to_slots"] = json!(ratios[1]);
            row["heap_to_slots_range"] = json!([ratios[0], ratios[2]]);
            for ((name, _), times) in STORES.iter().zip(times) {
                let [least, median, most] = spread(times.into_iter());
                row[format!("{name}_ns")] = json!(median);
                row[format!("{name}_range_ns")] = json!([least, most]);
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

fn report(rows: &[Value]) {
    println!("{:10} {:6} {:>8} {:>8} {:>20}", "ns net", "keys", "heap", "slots", "heap/slots");
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        let range = |at: usize| row["heap_to_slots_range"][at].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:10} {:6} {:>8.0} {:>8.0} {:>20}",
            row["operation"].as_str().unwrap_or_default(),
            row["keys"].as_str().unwrap_or_default(),
            number("heap_ns"),
            number("slots_ns"),
            format!("{:.2} [{:.2}, {:.2}]", number("heap_to_slots"), range(0), range(1))
        );
    }
}

/// What `redis-benchmark` counts, by the name that it is asked for.
const COMMANDS: [&str; 6] = ["get", "set", "incr", "mset", "hset", "zadd"];

/// How much is asked of both servers.
#[derive(Clone, Copy)]
pub struct PeerEffort {
    /// Measured rounds, after one that warms up.
    pub rounds: usize,
    /// How many requests are sent at once, and how many requests there are of each command.
    pub depths: [(u32, u32); 2],
}

const DEPTHS: [(u32, u32); 2] = [(1, 100_000), (16, 400_000)];

/// A process that ends with this.
struct Ended(Child);

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
pub fn peers(effort: PeerEffort) -> Result<Vec<Value>, Failure> {
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let folder = tempfile::tempdir()?;
    let mut command = Command::new("redis-server");
    command.args(["--port", &free.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder.path());
    let _peer = Ended(command.stdout(Stdio::null()).spawn()?);
    let options = kv::Options {
        protocol: kv::Protocol::Redis,
        password: None,
        cluster: None,
        listen: "127.0.0.1:0".parse()?,
        udp: false,
        interface: None,
        mode: kv::XdpMode::Default,
        most_bytes: 256 << 20,
        client_bytes: 64 << 20,
        threads: 1,
        metrics: None,
        data: None,
        tls: None,
        clang: String::new(),
    };
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

fn compare(ports: [u16; 2], effort: PeerEffort) -> Result<Vec<Value>, Failure> {
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

fn report_peers(rows: &[Value]) {
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

fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().position(|word| word == name).and_then(|at| arguments.get(at + 1));
    let rounds = option("--rounds").map_or(Ok(WHOLE.rounds), |text| text.parse::<usize>())?.max(1);
    let prints_json = option("--format").is_some_and(|format| format == "json");
    if arguments.iter().any(|word| word == "--peers") {
        let rows = peers(PeerEffort { rounds, depths: DEPTHS })?;
        if prints_json {
            println!("{}", json!({"peers": rows}));
        } else {
            report_peers(&rows);
        }
        return Ok(());
    }
    kiln_linux::available().map_err(|error| format!("the kernel: {error}"))?;
    let rows = all(Effort { rounds, ..WHOLE })?;
    if prints_json {
        println!("{}", json!({"requests": rows}));
    } else {
        report(&rows);
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
