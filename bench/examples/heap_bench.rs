//! `cargo xtask bench heap`: compares heaps with native C of the same headers and with `BPF_MAP_TYPE_HASH`.
//!
//! ```text
//!   bench/heaps/operations.bpf.c --clang, sandbox--> kernel (test run)               nanoseconds an operation
//!                                  \----, sandbox --target vm--> VM (JIT, native tier)
//!   bench/heaps/operations.native.c --clang--> a process
//! ```
//!
//! Each run does many operations on random keys of a structure with 65,536 elements (256 in the list, 16,384 in the
//! cache, none in the sketches and the ring), the same ones everywhere: the sums of what was found must be equal. The places run interleaved, in an
//! order that changes each round, each after another run there that fills the caches; medians are printed. The guards are those of the
//! structure's functions, counted as in
//! KFlex's Table 3: without those of pointers that were just loaded, returned or passed.
//!
//! Latencies are those of single operations, after fifteen others of the same run: 2,000 of each, with two readings of the
//! clock in them, which the operation `nothing` shows. Quanta: a loop without end, sandboxed with each quantum; how long its
//! runs took.
//!
//! `--format json` prints one JSON object; `--rounds N` and `--structure NAME` measure less.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use kiln_bench::spread;
use kiln_driver::heap::{KernelHeap, VmHeap};
use kiln_linux::{LoadedObject, ObjectFile, TestInput};
use kiln_sandbox::supply::{self, Memory};
use kiln_sandbox::{Evidence, Options, Target, sandbox};
use kiln_vm::{Engine, Input, Setting, Toolchain, Vm};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

const HEAP: &str = "kiln_heap_map";
const SUPPLY_BYTES: usize = 32 << 20;
const QUANTUM: Duration = Duration::from_secs(60);

/// A structure, its elements, the operations of one run, and which of [`OPERATIONS`] it has.
struct Structure {
    name: &'static str,
    elements: u64,
    operations: u64,
    measured: &'static [usize],
}

const LOOKUP: usize = 1;
const UPDATE: usize = 2;
const DELETE: usize = 3;
const NOTHING: usize = 4;
/// Operations of one run, of which the last one's latency is measured.
const LATENCY_OPERATIONS: u64 = 16;
const QUANTUM_RUNS: usize = 5;

/// How much is measured.
pub struct Effort {
    /// Measured rounds, after one that warms up.
    pub rounds: usize,
    /// Elements of a structure, at most.
    pub elements: u64,
    /// Operations of one run, at most.
    pub operations: u64,
    /// Operations whose latency is measured, at each place.
    pub latencies: usize,
    /// Quanta of a loop without end, in milliseconds.
    pub quanta_ms: &'static [f64],
    /// Structures that run in the VM's native tier, whose compiler takes seconds for each; `None`: all.
    pub in_tier: Option<&'static [&'static str]>,
}

const WHOLE: Effort = Effort {
    rounds: 15,
    elements: u64::MAX,
    operations: u64::MAX,
    latencies: 2000,
    quanta_ms: &[0.1, 1.0, 10.0, 100.0, 200.0, 1000.0],
    in_tier: None,
};

const STRUCTURES: [Structure; 13] = [
    Structure { name: "hash", elements: 65_536, operations: 20_000, measured: &[NOTHING, LOOKUP, UPDATE, DELETE] },
    Structure { name: "tree", elements: 65_536, operations: 10_000, measured: &[LOOKUP, UPDATE, DELETE] },
    Structure { name: "skip", elements: 65_536, operations: 10_000, measured: &[LOOKUP, UPDATE, DELETE] },
    Structure { name: "list", elements: 256, operations: 4_000, measured: &[LOOKUP, UPDATE, DELETE] },
    Structure { name: "countmin", elements: 0, operations: 20_000, measured: &[LOOKUP, UPDATE] },
    Structure { name: "count", elements: 0, operations: 20_000, measured: &[LOOKUP, UPDATE] },
    Structure { name: "bp", elements: 65_536, operations: 10_000, measured: &[LOOKUP, UPDATE, DELETE] },
    Structure { name: "clock", elements: 16_384, operations: 20_000, measured: &[LOOKUP, UPDATE, DELETE] },
    Structure { name: "wheel", elements: 65_536, operations: 20_000, measured: &[UPDATE, DELETE] },
    Structure { name: "ring", elements: 0, operations: 20_000, measured: &[UPDATE] },
    Structure { name: "bloom", elements: 65_536, operations: 20_000, measured: &[LOOKUP, UPDATE] },
    Structure { name: "cuckoo", elements: 65_536, operations: 20_000, measured: &[LOOKUP, UPDATE, DELETE] },
    Structure { name: "bpf_hash", elements: 65_536, operations: 20_000, measured: &[LOOKUP, UPDATE, DELETE] },
];
const OPERATIONS: [&str; 5] = ["fill", "lookup", "update", "delete", "nothing"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn clang(source: &str, structure: &str, output: &Path, arguments: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("clang-19");
    command.args(["-O2", &format!("-DSTRUCTURE_{structure}"), "-I"]).arg(root().join("bpf/include")).args(arguments);
    let status = command.arg(root().join("bench/heaps").join(source)).arg("-o").arg(output).status()?;
    if status.success() { Ok(()) } else { Err(format!("clang refuses {source} for {structure}").into()) }
}

/// Native code: requests to its input, answers from its output.
struct Native {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
}

impl Drop for Native {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Where operations run.
enum Place {
    Kernel(LoadedObject),
    Vm(Box<Vm>, Engine),
    Native(Native),
}

impl Place {
    fn name(&self) -> &'static str {
        match self {
            Place::Kernel(_) => "kernel",
            Place::Vm(_, Engine::Native) => "tier",
            Place::Vm(..) => "vm",
            Place::Native(_) => "native",
        }
    }

    /// Runs operations.
    fn run(&mut self, operation: usize, count: u64, seed: u64, latency: bool) -> Result<Ran, Failure> {
        let request: Vec<u8> = [count, seed, 0, 0].iter().flat_map(|field| field.to_le_bytes()).collect();
        let word = |bytes: &[u8], at: usize| -> Result<u64, Failure> {
            let word = bytes.get(at..at + 8).ok_or("a short answer")?;
            Ok(u64::from_le_bytes(word.try_into()?))
        };
        let program = format!("{}{}", OPERATIONS[operation], if latency { "_latency" } else { "" });
        let (packet, ns) = match self {
            Place::Kernel(loaded) => {
                let input = TestInput { packet: request, ..TestInput::default() };
                let output = loaded.program(&program)?.test_run(&input)?;
                check_passed(output.value, &program)?;
                (output.packet, f64::from(output.duration_ns))
            }
            Place::Vm(vm, engine) => {
                let output = vm.run(&program, &Input::packet(&request), *engine)?;
                check_passed(output.value as u32, &program)?;
                (output.packet, output.duration_ns)
            }
            Place::Native(native) => {
                let mut order: Vec<u8> =
                    [operation as u64, u64::from(latency)].iter().flat_map(|field| field.to_le_bytes()).collect();
                order.extend(request);
                native.input.as_mut().ok_or("it runs")?.write_all(&order)?;
                let mut answer = [0; 24];
                native.output.read_exact(&mut answer)?;
                let ns = word(&answer, 8)? as f64 / count as f64;
                return Ok(Ran { sum: word(&answer, 0)?, ns, latency_ns: word(&answer, 16)? });
            }
        };
        Ok(Ran { sum: word(&packet, 16)?, ns: ns / count as f64, latency_ns: word(&packet, 24)? })
    }
}

/// What operations found, the nanoseconds an operation, and those of the last one where that was measured.
struct Ran {
    sum: u64,
    ns: f64,
    latency_ns: u64,
}

fn check_passed(value: u32, operation: &str) -> Result<(), Failure> {
    const XDP_PASS: u32 = 2;
    if value == XDP_PASS { Ok(()) } else { Err(format!("{operation} returned {value}").into()) }
}

/// All places that a structure runs at, and what was sandboxed.
fn places(structure: &Structure, effort: &Effort, folder: &Path) -> Result<(Vec<Place>, Vec<Evidence>), Failure> {
    let path = folder.join(format!("{}.o", structure.name));
    let include = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let bpf = ["-target", "bpf", "-mcpu=v4", "-g", "-mllvm", "-disable-loop-idiom-all", "-c", &include];
    clang("operations.bpf.c", structure.name, &path, &bpf)?;
    let elf = kiln_elf::read(structure.name, &std::fs::read(&path)?)?;
    let options = Options { quantum_ns: QUANTUM.as_nanos() as u64, ..Options::default() };
    let rewrite = sandbox(&elf.object, &options)?;
    let bytes = elf.write(&rewrite.object)?;
    let for_vm = sandbox(&elf.object, &Options { target: Target::Vm, ..options })?;
    let object = kiln_elf::read(structure.name, &elf.write(&for_vm.object)?)?.object;
    let object = kiln_vm::prepare(object, &kiln_vm::Options::default());
    let heap = object.maps.iter().find(|map| map.name == HEAP).ok_or("no heap")?;
    let supply = |memory: &dyn Memory| {
        supply::supply(memory, supply::variable_bytes(heap), SUPPLY_BYTES).map_err(|error| format!("{error:?}"))
    };
    let mut places = Vec::new();
    let in_tier = effort.in_tier.is_none_or(|names| names.contains(&structure.name));
    let engines = [Some(Engine::Jit), in_tier.then_some(Engine::Native)];
    for engine in engines.into_iter().flatten() {
        let mut vm = Vm::new(&object, kiln_vm::Options { quantum: Some(QUANTUM), ..Default::default() })?;
        for program in &object.programs {
            vm.load(&program.name)?;
            if engine == Engine::Native {
                vm.load_native(&program.name, &Toolchain::new(Toolchain::CLANG)?, Setting::Fast)?;
            } else {
                vm.compiled(&program.name)?;
            }
        }
        supply(&VmHeap(vm.heap(vm.map(HEAP)?)?))?;
        places.push(Place::Vm(Box::new(vm), engine));
    }
    match kiln_linux::available() {
        Ok(()) => {
            let loaded = ObjectFile::open(structure.name, &bytes)?.load().map_err(|failure| failure.to_string())?;
            supply(&KernelHeap(loaded.heap(HEAP)?))?;
            places.push(Place::Kernel(loaded));
        }
        Err(error) => eprintln!("skipped: the kernel: {error}"),
    }
    if structure.name != "bpf_hash" {
        let program = folder.join(structure.name);
        clang("operations.native.c", structure.name, &program, &[])?;
        let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take().ok_or("a pipe")?);
        places.push(Place::Native(Native { child, input, output }));
    }
    Ok((places, rewrite.evidence))
}

/// One structure's rows: nanoseconds an operation by place.
fn measure(structure: &Structure, places: &mut [Place], effort: &Effort) -> Result<Vec<Value>, Failure> {
    let rounds = effort.rounds;
    let (elements, operations) = (structure.elements.min(effort.elements), structure.operations.min(effort.operations));
    for place in places.iter_mut() {
        let mut done = 0;
        while done < elements {
            let count = operations.min(elements - done);
            place.run(0, count, done, false)?;
            done += count;
        }
    }
    let mut rows = Vec::new();
    let seed_of = |round: usize| 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(round as u64 + 1) | 1;
    for (operation, name) in structure.measured.iter().map(|at| (*at, OPERATIONS[*at])) {
        let (mut times, mut latencies) = (vec![Vec::new(); places.len()], vec![Vec::new(); places.len()]);
        for round in 0..rounds + 1 {
            let mut sums = Vec::new();
            for turn in 0..places.len() {
                let at = (turn + round) % places.len();
                // The other places have filled the caches since, but those of another processor if a process ran there.
                let warm = places[at].run(operation, operations, seed_of(rounds + 1 + round), false)?;
                let ran = places[at].run(operation, operations, seed_of(round), false)?;
                let mut sum = ran.sum.wrapping_add(warm.sum);
                // The first round warms up.
                if round > 0 {
                    times[at].push(ran.ns);
                    for sample in 0..effort.latencies.div_ceil(rounds) {
                        let ran = places[at].run(operation, LATENCY_OPERATIONS, seed_of(round << 16 | sample), true)?;
                        latencies[at].push(ran.latency_ns);
                        sum = sum.wrapping_add(ran.sum);
                    }
                }
                sums.push(sum);
            }
            if sums.iter().any(|sum| *sum != sums[0]) {
                return Err(format!("{} {name}: places disagree: {sums:x?}", structure.name).into());
            }
        }
        let mut row = json!({"structure": structure.name, "operation": name});
        for ((place, times), latencies) in places.iter().zip(&times).zip(&mut latencies) {
            row[format!("{}_ns", place.name())] = json!(spread(times.iter().copied())[1]);
            latencies.sort_unstable();
            for percent in [50, 99] {
                row[format!("{}_p{percent}_ns", place.name())] =
                    json!(latencies[(latencies.len() - 1) * percent / 100]);
            }
        }
        for place in ["kernel", "vm", "tier"] {
            let [own, native] = [format!("{place}_ns"), "native_ns".to_owned()].map(|key| row[key].as_f64());
            if let (Some(own), Some(native)) = (own, native) {
                row[format!("{place}_to_native")] = json!(own / native);
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

/// How long runs of a loop without end take, by quantum.
fn quanta(quanta_ms: &[f64]) -> Result<Vec<Value>, Failure> {
    let endless = kiln_program::text::parse("; program xdp\n  r0 = 0\nagain:\n  r0 += 1\n  goto again\n")?;
    let has_kernel = kiln_linux::available().is_ok();
    let mut rows = Vec::new();
    for &quantum_ms in quanta_ms {
        let quantum = Duration::from_secs_f64(quantum_ms / 1e3);
        let options = Options { quantum_ns: quantum.as_nanos() as u64, ..Options::default() };
        let object = sandbox(&endless, &options)?.object;
        let program = &object.programs[0];
        let for_vm = sandbox(&endless, &Options { target: Target::Vm, ..options })?.object;
        // So many instructions that only the quantum ends the run.
        let options = kiln_vm::Options { quantum: Some(quantum), budget: 1 << 40, ..Default::default() };
        let mut vm = Vm::new(&for_vm, options)?;
        vm.load(&program.name)?;
        vm.compiled(&program.name)?;
        let loaded = match has_kernel {
            true => Some(kiln_linux::load_image(&object, program).map_err(|failure| failure.to_string())?),
            false => None,
        };
        let (mut in_kernel, mut in_vm) = (Vec::new(), Vec::new());
        for _ in 0..QUANTUM_RUNS {
            if let Some(loaded) = &loaded {
                let output = loaded.prog.test_run(&TestInput { packet: vec![0; 64], ..TestInput::default() })?;
                check_passed(output.value, "the loop in the kernel")?;
                in_kernel.push(f64::from(output.duration_ns) / 1e6);
            }
            let begun = Instant::now();
            let output = vm.run(&program.name, &Input::packet(&[0; 64]), Engine::Jit)?;
            check_passed(output.value as u32, "the loop in the VM")?;
            in_vm.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let mut row = json!({"quantum_ms": quantum_ms});
        for (place, times) in [("kernel", in_kernel), ("vm", in_vm)] {
            for (what, value) in ["least", "median", "most"].iter().zip(spread(times.into_iter())) {
                row[format!("{place}_{what}_ms")] = json!(value);
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The guards of a structure's own functions.
fn guards(structure: &Structure, evidence: &[Evidence]) -> Value {
    let own = |evidence: &&Evidence| evidence.function.starts_with(&format!("kiln_{}_", structure.name));
    let sum = |count: fn(&Evidence) -> usize| evidence.iter().filter(own).map(count).sum::<usize>();
    let (accesses, guards, new) =
        (sum(|evidence| evidence.accesses), sum(|evidence| evidence.guards), sum(|evidence| evidence.new_pointers));
    let (total, elided) = (accesses - new, accesses - guards);
    let share = if total == 0 { Value::Null } else { json!(elided as f64 / total as f64) };
    json!({"structure": structure.name, "accesses": accesses, "of_new_pointers": new, "total": total,
        "elided": elided, "elided_share": share})
}

/// A row's number with so many digits, or a dash.
fn number(row: &Value, key: &str, digits: usize) -> String {
    row[key].as_f64().map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn report_latencies(rows: &[Value]) {
    const PLACES: [&str; 4] = ["kernel", "vm", "tier", "native"];
    println!("\n{:10} {:8} {}", "ns, p50 p99", "", PLACES.map(|place| format!("{place:>13}")).join(" "));
    for row in rows {
        let of = |place| {
            let [half, most] = ["p50", "p99"].map(|part| number(row, &format!("{place}_{part}_ns"), 0));
            format!("{half:>6} {most:>6}")
        };
        let name = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        println!("{:10} {:8} {}", name("structure"), name("operation"), PLACES.map(of).join(" "));
    }
}

fn report_quanta(rows: &[Value]) {
    println!("\n{:>10} {:>28} {:>28}", "quantum ms", "kernel: least, median, most", "VM: least, median, most");
    for row in rows {
        let of = |place| {
            let times = ["least", "median", "most"].map(|what| number(row, &format!("{place}_{what}_ms"), 3));
            format!("{:>28}", times.join(" "))
        };
        println!("{:>10} {} {}", number(row, "quantum_ms", 1), of("kernel"), of("vm"));
    }
}

fn report(guards: &[Value], rows: &[Value]) {
    println!("{:10} {:>9} {:>13} {:>7} {:>7}", "guards", "accesses", "new pointers", "total", "elided");
    for row in guards {
        let share = row["elided_share"].as_f64().map_or(String::new(), |share| format!("  {:.0} %", share * 100.0));
        println!(
            "{:10} {:>9} {:>13} {:>7} {:>7}{share}",
            row["structure"].as_str().unwrap_or_default(),
            row["accesses"].to_string(),
            row["of_new_pointers"].to_string(),
            row["total"].to_string(),
            row["elided"].to_string()
        );
    }
    println!(
        "\n{:10} {:8} {:>9} {:>9} {:>9} {:>9} {:>13} {:>10} {:>11}",
        "ns an op", "", "kernel", "VM", "tier", "native", "kernel/native", "VM/native", "tier/native"
    );
    for row in rows {
        let number = |key: &str, digits: usize| number(row, key, digits);
        println!(
            "{:10} {:8} {:>9} {:>9} {:>9} {:>9} {:>13} {:>10} {:>11}",
            row["structure"].as_str().unwrap_or_default(),
            row["operation"].as_str().unwrap_or_default(),
            number("kernel_ns", 1),
            number("vm_ns", 1),
            number("tier_ns", 1),
            number("native_ns", 1),
            number("kernel_to_native", 2),
            number("vm_to_native", 2),
            number("tier_to_native", 2)
        );
    }
}

/// All rows of a bench: guards, operations, quanta.
pub struct Measured {
    /// How many accesses of each structure have guards.
    pub guards: Vec<Value>,
    /// The times of each structure's operations at each place.
    pub operations: Vec<Value>,
    /// How long a loop without end runs, by quantum.
    pub quanta: Vec<Value>,
}

/// Measures all structures, or one.
///
/// # Errors
/// Returns a failure if one does not run, or if places disagree on what operations found.
pub fn all(effort: &Effort, structure: Option<&str>) -> Result<Measured, Failure> {
    let folder = tempfile::tempdir()?;
    let (mut operations, mut counts) = (Vec::new(), Vec::new());
    for structure in STRUCTURES.iter().filter(|own| structure.is_none_or(|wanted| wanted == own.name)) {
        let (mut places, evidence) = places(structure, effort, folder.path())?;
        if structure.name != "bpf_hash" {
            counts.push(guards(structure, &evidence));
        }
        operations.extend(measure(structure, &mut places, effort)?);
    }
    Ok(Measured { guards: counts, operations, quanta: quanta(effort.quanta_ms)? })
}

fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().position(|word| word == name).and_then(|at| arguments.get(at + 1));
    let rounds = option("--rounds").map_or(Ok(WHOLE.rounds), |text| text.parse::<usize>())?.max(1);
    let Measured { guards, operations, quanta } =
        all(&Effort { rounds, ..WHOLE }, option("--structure").map(String::as_str))?;
    if option("--format").is_some_and(|format| format == "json") {
        println!("{}", json!({"guards": guards, "operations": operations, "quanta": quanta}));
    } else {
        report(&guards, &operations);
        report_latencies(&operations);
        report_quanta(&quanta);
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
