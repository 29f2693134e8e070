//! `cargo xtask bench pool`: the pool's three stores beside a static slot of 1,024 bytes with a lock, in the kernel.
//!
//! ```text
//!   bench/heaps/pool.bpf.c --clang (arena: sandbox)--> BPF_PROG_TEST_RUN, one operation a run    nanoseconds a run
//! ```
//!
//! Each run reads (GET) or replaces (SET) one object of 128 or 1,024 bytes with a random id, of 256 (hot) or 65,536 (cold).
//! The stores run interleaved, in an order that changes each round; medians are printed, with the quartiles in JSON. The
//! first row is a run without a pool: it is part of every other number. A read that does not find what was written fails the
//! benchmark. Memory efficiency is contents divided by memory, for 65,536 objects of which three of four have 128 bytes and
//! the others 1,024: memory is what the kernel says of the maps, made as large as the objects need, and for the arena the
//! heap's part in use, because the kernel counts no arena pages.
//!
//! `--format json` prints one JSON object; `--rounds N` measures less.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use kiln_driver::heap::KernelHeap;
use kiln_linux::{LoadedObject, ObjectFile, TestInput};
use kiln_sandbox::supply::{self, Memory as _};
use kiln_sandbox::{Options, sandbox};
use rustix::fd::AsRawFd;
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

const HEAP: &str = "kiln_heap_map";
const STORES: [(&str, Option<&str>); 4] = [
    ("slot", None),
    ("hash", Some("-DKILN_POOL_STORE=1")),
    ("array", Some("-DKILN_POOL_STORE=2")),
    ("arena", Some("-DKILN_POOL_STORE=3")),
];
const OBJECTS: u64 = 65_536;
const HOT_OBJECTS: u64 = 256;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Measured rounds, after one that warms up.
    pub rounds: usize,
    /// Objects of a pool, a power of two.
    pub objects: u64,
    /// Operations of one measurement.
    pub operations: u32,
}

const WHOLE: Effort = Effort { rounds: 11, objects: OBJECTS, operations: 50_000 };

impl Effort {
    /// Contents of the 75/25 mix.
    fn mix_bytes(&self) -> u64 {
        self.objects / 4 * (3 * 128 + 1024)
    }
}

const REQUEST_BYTES: usize = 40 + 1024;

/// An object file of each store that has been compiled: sandboxing the arena's takes seconds, and it is used three times.
struct Objects {
    folder: tempfile::TempDir,
    arena: Option<(Vec<u8>, usize)>,
}

/// Room for contents: a write needs room beside the old contents, and free blocks wait in caches.
fn room(bytes: u32) -> u64 {
    OBJECTS * u64::from(bytes) + (8 << 20)
}

impl Objects {
    fn compile(&self, name: &str, define: Option<&str>, bytes: u64) -> Result<Vec<u8>, Failure> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let path: PathBuf = self.folder.path().join(format!("{name}.o"));
        let status = Command::new("clang-19")
            .args(["-target", "bpf", "-O2", "-g", "-mcpu=v4", "-mllvm", "-disable-loop-idiom-all", "-c"])
            .args(["-D__TARGET_ARCH_x86", &format!("-DKILN_POOL_BYTES={bytes}u")])
            .args(define)
            .arg("-I")
            .arg(root.join("bpf/include"))
            .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
            .arg(root.join("bench/heaps/pool.bpf.c"))
            .arg("-o")
            .arg(&path)
            .status()?;
        if status.success() { Ok(std::fs::read(&path)?) } else { Err(format!("clang refuses the store {name}").into()) }
    }

    /// The sandboxed arena store with room for the largest pool, and the bytes of its variables.
    fn arena(&mut self, define: Option<&str>) -> Result<&(Vec<u8>, usize), Failure> {
        if self.arena.is_none() {
            let elf = kiln_elf::read("arena", &self.compile("arena", define, room(1024))?)?;
            let object = elf.write(&sandbox(&elf.object, &Options::default())?.object)?;
            let map = elf.object.maps.iter().find(|map| map.name == HEAP).ok_or("no heap")?;
            self.arena = Some((object, supply::variable_bytes(map)));
        }
        self.arena.as_ref().ok_or_else(|| "just compiled".into())
    }

    /// Loads a store with room for `bytes` of contents.
    fn load(&mut self, name: &'static str, define: Option<&str>, bytes: u64) -> Result<Store, Failure> {
        let open = |object: &[u8]| -> Result<LoadedObject, Failure> {
            Ok(ObjectFile::open(name, object)?.load().map_err(|failure| failure.to_string())?)
        };
        if name != "arena" {
            return Ok(Store { name, loaded: open(&self.compile(name, define, bytes)?)? });
        }
        let (object, variables) = self.arena(define)?;
        let store = Store { name, loaded: open(object)? };
        let heap = KernelHeap(store.loaded.heap(HEAP)?);
        // All that the heap has.
        supply::supply(&heap, *variables, heap.bytes()).map_err(|error| format!("{error:?}"))?;
        Ok(store)
    }
}

/// A store in the kernel.
struct Store {
    name: &'static str,
    loaded: LoadedObject,
}

impl Store {
    /// Runs a program `repeat` times: nanoseconds a run.
    fn run(&self, program: &str, repeat: u64, mask: u64, bytes: u32, random: u64) -> Result<f64, Failure> {
        let mut packet = vec![0; REQUEST_BYTES];
        packet[..8].copy_from_slice(&random.to_le_bytes());
        packet[16..20].copy_from_slice(&(mask as u32).to_le_bytes());
        packet[20..24].copy_from_slice(&bytes.to_le_bytes());
        let input = TestInput { packet, repeat: u32::try_from(repeat)?, ..TestInput::default() };
        let output = self.loaded.program(program)?.test_run(&input)?;
        let failed = output.packet.get(24..32).ok_or("a short answer")?;
        let failed = u64::from_le_bytes(failed.try_into()?);
        if failed > 0 {
            return Err(format!("{}: {program} of {bytes} bytes failed {failed} times", self.name).into());
        }
        Ok(f64::from(output.duration_ns))
    }

    /// Bytes of memory that the store uses.
    fn memory(&self) -> Result<u64, Failure> {
        if self.name == "arena" {
            let heap = KernelHeap(self.loaded.heap(HEAP)?);
            let accounts = supply::accounts(&heap).ok_or("no allocator")?;
            return Ok(accounts.supplied_bytes - accounts.fresh_bytes);
        }
        let names: &[&str] = match self.name {
            "slot" => &["slots"],
            "hash" => &["kiln_pool_objects", "kiln_pool_blocks"],
            _ => &["kiln_pool_objects", "kiln_pool_blocks", "kiln_pool_cpus", "kiln_pool_spare", "kiln_pool_fresh"],
        };
        let mut bytes = 0;
        for name in names {
            let map = self.loaded.map(name)?;
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.fd().as_raw_fd()))?;
            let line = text.lines().find_map(|line| line.strip_prefix("memlock:")).ok_or("no memlock")?;
            bytes += line.trim().parse::<u64>()?;
        }
        Ok(bytes)
    }
}

fn quartiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

/// One row: a run of `program` in each store.
fn row(stores: &[Store], program: &str, mask: u64, bytes: u32, effort: Effort) -> Result<Value, Failure> {
    let mut times = vec![Vec::new(); stores.len()];
    for round in 0..=effort.rounds {
        let random = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(round as u64 + 1) | 1;
        for turn in 0..stores.len() {
            let at = (turn + round) % stores.len();
            let ns = stores[at].run(program, u64::from(effort.operations), mask, bytes, random)?;
            // The first round warms up.
            if round > 0 {
                times[at].push(ns);
            }
        }
    }
    let mut row = json!({"operation": program, "bytes": bytes, "objects": mask + 1});
    let slot = quartiles(&mut times[0])[1];
    for (store, times) in stores.iter().zip(&mut times) {
        let [low, median, high] = quartiles(times);
        row[store.name] = json!({"ns": median, "quartiles_ns": [low, high], "to_slot": median / slot});
    }
    Ok(row)
}

fn speed(effort: Effort, objects: &mut Objects) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for bytes in [128u32, 1024] {
        let stores: Result<Vec<Store>, Failure> =
            STORES.iter().map(|(name, define)| objects.load(name, *define, room(bytes))).collect();
        let stores = stores?;
        for store in &stores {
            store.run("fill", effort.objects, 0, bytes, 1)?;
        }
        if bytes == 128 {
            rows.push(row(&stores, "nothing", HOT_OBJECTS - 1, bytes, effort)?);
        }
        for ids in [HOT_OBJECTS, effort.objects] {
            for program in ["get", "set"] {
                rows.push(row(&stores, program, ids - 1, bytes, effort)?);
            }
        }
    }
    Ok(rows)
}

fn efficiency(effort: Effort, objects: &mut Objects) -> Result<Value, Failure> {
    let mut shares = json!({});
    for (name, define) in STORES {
        let store = objects.load(name, define, effort.mix_bytes())?;
        store.run("fill", effort.objects, 0, 0, 1)?;
        let memory = store.memory()?;
        shares[name] = json!({"contents_bytes": effort.mix_bytes(), "memory_bytes": memory,
            "efficiency": effort.mix_bytes() as f64 / memory as f64});
    }
    Ok(shares)
}

fn report(rows: &[Value], shares: &Value) {
    println!(
        "{:10} {:>6} {:>8} {:>12} {:>16} {:>16} {:>16}",
        "ns a run", "bytes", "objects", "slot", "hash", "array", "arena"
    );
    for row in rows {
        let cell = |name: &str| {
            let number = |key: &str| row[name][key].as_f64().unwrap_or(f64::NAN);
            format!("{:.0} ({:.2})", number("ns"), number("to_slot"))
        };
        println!(
            "{:10} {:>6} {:>8} {:>12} {:>16} {:>16} {:>16}",
            row["operation"].as_str().unwrap_or_default(),
            row["bytes"].to_string(),
            row["objects"].to_string(),
            format!("{:.0}", row["slot"]["ns"].as_f64().unwrap_or(f64::NAN)),
            cell("hash"),
            cell("array"),
            cell("arena")
        );
    }
    println!("\nmemory efficiency of 65,536 objects, 75 % of 128 bytes and 25 % of 1,024:");
    for (name, _) in STORES {
        let share = shares[name]["efficiency"].as_f64().unwrap_or(f64::NAN);
        println!("{name:10} {:.0} % ({} bytes)", share * 100.0, shares[name]["memory_bytes"]);
    }
}

/// Measures all stores: the rows of operations, and the efficiency of memory.
///
/// # Errors
/// Returns a failure if a store does not load, or an operation fails.
pub fn all(effort: Effort) -> Result<(Vec<Value>, Value), Failure> {
    let mut objects = Objects { folder: tempfile::tempdir()?, arena: None };
    let shares = efficiency(effort, &mut objects)?;
    Ok((speed(effort, &mut objects)?, shares))
}

fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().position(|word| word == name).and_then(|at| arguments.get(at + 1));
    let rounds = option("--rounds").map_or(Ok(WHOLE.rounds), |text| text.parse::<usize>())?.max(1);
    kiln_linux::available().map_err(|error| format!("the kernel: {error}"))?;
    let (rows, shares) = all(Effort { rounds, ..WHOLE })?;
    if option("--format").is_some_and(|format| format == "json") {
        println!("{}", json!({"operations": rows, "memory": shares}));
    } else {
        report(&rows, &shares);
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
