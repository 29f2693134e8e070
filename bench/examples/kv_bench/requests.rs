//! memcached's GET and SET in test runs.
//!
//! ```text
//!   bench/heaps/memcached.bpf.c --clang, sandbox--> BPF_PROG_TEST_RUN, a request a run    nanoseconds a request
//! ```
//!
//! Both stores parse the same requests and make the same replies of 128-byte values; the peer's map has slots of fixed size. A run begins
//! by writing the request into the packet, which the program `nothing` measures: it is subtracted. Keys are random, of 256 (hot)
//! or 65,536 (cold). The two run interleaved, in an order that changes each round; medians are printed, with least and greatest in
//! JSON. A request that is not answered fails the benchmark.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::Command;

use kiln_bench::spread;
use kiln_driver::heap::KernelHeap;
use kiln_elf::ElfObject;
use kiln_kv::store::{Settings, Store};
use kiln_linux::{LoadedObject, ObjectFile, TestInput};
use kiln_program::Object;
use kiln_sandbox::supply::{self, Memory as _};
use serde_json::{Value, json};

use super::Failure;

/// The heap's map.
pub const HEAP: &str = "kiln_heap_map";
/// The servers' port.
pub const PORT: u16 = 11211;
/// Where the programs serve.
pub const SERVED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT);
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

/// All of it.
pub const WHOLE: Effort = Effort { rounds: 15, requests: 50_000, fill: 600_000 };

/// An extension in the kernel.
pub struct Server {
    name: &'static str,
    /// Its programs and maps.
    pub loaded: LoadedObject,
    /// Bytes of the heap's variables.
    pub variables: usize,
}

impl Server {
    /// Compiles, sandboxes and loads the server with a store, for which clang has these arguments.
    ///
    /// # Errors
    /// Returns a failure if clang, the sandbox or the kernel refuses it.
    pub fn load(name: &'static str, defines: &[&str], folder: &Path) -> Result<Server, Failure> {
        let (elf, object) = compiled(name, defines, folder)?;
        let heap = elf.object.maps.iter().find(|map| map.name == HEAP).ok_or("no heap")?;
        let loaded = ObjectFile::open(name, &elf.write(&object)?)?.load().map_err(|failure| failure.to_string())?;
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

/// The server with a store, and the same sandboxed.
///
/// # Errors
/// Returns a failure if clang or the sandbox refuses it.
pub fn compiled(name: &str, defines: &[&str], folder: &Path) -> Result<(ElfObject, Object), Failure> {
    let elf = unsandboxed(name, "bench/heaps/memcached.bpf.c", defines, folder)?;
    let object = kiln_sandbox::sandbox(&elf.object, &kiln_sandbox::Options::default())?.object;
    Ok((elf, object))
}

/// What clang makes of a source.
///
/// # Errors
/// Returns a failure if clang refuses it.
pub fn unsandboxed(name: &str, source: &str, arguments: &[&str], folder: &Path) -> Result<ElfObject, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = folder.join(format!("{name}.o"));
    let status = Command::new("clang-19")
        .args(["-target", "bpf", "-O2", "-g", "-mcpu=v4", "-mllvm", "-disable-loop-idiom-all", "-c"])
        .arg("-D__TARGET_ARCH_x86")
        .args(arguments)
        .arg("-I")
        .arg(root.join("bpf/include"))
        .arg("-idirafter")
        .arg(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        .arg(root.join(source))
        .arg("-o")
        .arg(&path)
        .status()?;
    if !status.success() {
        return Err(format!("clang refuses the server on {name}").into());
    }
    Ok(kiln_elf::read(name, &std::fs::read(&path)?)?)
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
        STORES.iter().map(|(name, define)| Server::load(name, &[define], folder.path())).collect();
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

/// Prints rows.
pub fn report(rows: &[Value]) {
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
