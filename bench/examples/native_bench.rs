//! `cargo xtask bench native`: the kernel's JIT and the VM's, without and with native operations, on the same bytecode.
//!
//! ```text
//!   plain    the VM's JIT, one BPF instruction at a time
//!   fused    and runs of adjacent instructions compiled together
//!   full     and native operations, found by dataflow
//! ```
//!
//! Before a program is timed, all engines and the interpreter run it on every candidate packet, and must agree on R0
//! and on the packet. The packet that takes most instructions is timed. A sample is one chunk of runs; engines take
//! turns, in an order that changes every round. Times are medians, net of an empty program on the same engine; the
//! spread is the distance between the quartiles. Ratios are speedups: above 1 the engine named first is faster. They are
//! medians over the rounds, because the machine's speed changes from round to round more than within one. Where no
//! operation was found, `fused` and `full` are the same code, and their ratio is the noise.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kiln_isa::operation::Registry;
use kiln_linux::{LoadedObject, ObjectFile, Prog, TestInput};
use kiln_program::Object;
use kiln_vm::{Engine, Input, Options, Vm};
use serde_json::{Value, json};

/// Rounds of samples, after one that warms caches.
const ROUNDS: usize = 121;
/// Nanoseconds of a sample: short, so that the median sees no interrupt.
const CHUNK_NS: f64 = 150_000.0;
/// Candidate packets.
const CANDIDATES: u64 = 12;
/// Bytes of a packet.
const PACKET_BYTES: usize = 256;
/// Programs whose net kernel time is shorter are not part of the means: the test run's own time drowns them.
const LEAST_NS: f64 = 50.0;
/// Calls of an empty program in a sample of the call's own time.
const CALLS: u32 = 100_000;

/// The VM's settings, in the order of columns.
const SETTINGS: [(&str, bool, Registry); 3] =
    [("plain", false, Registry::EMPTY), ("fused", true, Registry::EMPTY), ("full", true, Registry::BUILTIN)];

/// Median and distance of the quartiles, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Time {
    median_ns: f64,
    spread_ns: f64,
}

impl Time {
    fn of(mut samples: Vec<f64>) -> Time {
        samples.sort_by(f64::total_cmp);
        let at = |quarter: usize| samples.get(samples.len() * quarter / 4).copied().unwrap_or(0.0);
        Time { median_ns: at(2), spread_ns: at(3) - at(1) }
    }
}

/// A program on all engines.
struct Row {
    name: String,
    subprograms: bool,
    marks: usize,
    kernel: Option<Time>,
    vm: [Time; 3],
    /// How much faster the full JIT is than the kernel's, than one instruction at a time, and than fused ones.
    over_kernel: Option<f64>,
    over_plain: f64,
    over_fused: f64,
}

impl Row {
    /// Whether its times are long enough to compare.
    fn counts(&self) -> bool {
        self.kernel.unwrap_or(self.vm[0]).median_ns >= LEAST_NS
    }

    fn json(&self) -> Value {
        let time = |time: Time| json!({ "median_ns": time.median_ns, "spread_ns": time.spread_ns });
        json!({
            "program": self.name, "subprograms": self.subprograms, "operations": self.marks, "counts": self.counts(),
            "kernel": self.kernel.map(time), "plain": time(self.vm[0]), "fused": time(self.vm[1]),
            "full": time(self.vm[2]), "full_over_kernel": self.over_kernel, "full_over_plain": self.over_plain,
            "full_over_fused": self.over_fused,
        })
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let as_json = arguments.windows(2).any(|pair| pair == ["--format", "json"]);
    let (empty, others): (Vec<PathBuf>, Vec<PathBuf>) =
        arguments.iter().filter(|it| it.ends_with(".o")).map(PathBuf::from).partition(|path| stem(path) == "xdp_pass");
    let Some(empty) = empty.first() else {
        eprintln!("the empty program, xdp_pass.o, is needed for net times");
        std::process::exit(2);
    };
    let mut failed = 0;
    let mut measured = |path: &Path, base: Option<&Row>| {
        measure(path, base).map_err(|why| (failed += 1, eprintln!("{}: {why}", path.display()))).ok()
    };
    let Some(base) = measured(empty, None) else { std::process::exit(1) };
    let call_ns = call_time(empty);
    let rows: Vec<Row> = others.iter().filter_map(|path| measured(path, Some(&base))).collect();
    if as_json {
        let programs: Vec<Value> = rows.iter().map(Row::json).collect();
        println!(
            "{:#}",
            json!({ "call_ns": call_ns, "empty": base.json(), "programs": programs, "means": means(&rows) })
        );
    } else {
        print!("{}", report(&rows, &base, call_ns));
    }
    if failed > 0 {
        std::process::exit(1);
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
}

/// The time of a call of an empty program through its handle, packet of 64 bytes included.
fn call_time(path: &Path) -> Option<f64> {
    let (name, bytes) = (stem(path), std::fs::read(path).ok()?);
    let (vm, _) = new_vm(&name, &bytes, SETTINGS[2]).ok()?;
    let handle = vm.program(&name).ok()?;
    let packet = [0; 64];
    let mut samples = Vec::new();
    for _ in 0..=ROUNDS {
        let begun = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(handle.run(&Input::packet(std::hint::black_box(&packet))).ok()?);
        }
        samples.push(begun.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    Some(Time::of(samples).median_ns)
}

/// A VM with a program, and the object with its marks.
fn new_vm(name: &str, bytes: &[u8], (_, fusions, operations): (&str, bool, Registry)) -> Result<(Vm, Object), String> {
    let mut object = kiln_elf::read(name, bytes).map_err(|error| error.to_string())?.object;
    kiln_idiom::annotate(&mut object, &operations);
    let options = Options { operations, fusions, ..Options::default() };
    let mut vm = Vm::new(&object, options).map_err(|error| error.to_string())?;
    vm.load(name).map_err(|error| error.to_string())?;
    vm.compiled(name)?;
    Ok((vm, object))
}

/// The engines of one program.
struct Engines {
    name: String,
    kernel: Option<(LoadedObject, Prog)>,
    vms: Vec<Vm>,
    /// With the marks of the last setting.
    object: Object,
}

impl Engines {
    fn new(path: &Path) -> Result<Engines, String> {
        let (name, bytes) = (stem(path), std::fs::read(path).map_err(|error| error.to_string())?);
        let load = || -> Result<(LoadedObject, Prog), String> {
            kiln_linux::available().map_err(|error| error.to_string())?;
            let file = ObjectFile::open(&name, &bytes).map_err(|error| error.to_string())?;
            let loaded = file.load().map_err(|error| error.reason().map_or(error.to_string(), str::to_owned))?;
            let prog = loaded.program(&name).map_err(|error| error.to_string())?;
            Ok((loaded, prog))
        };
        let kernel = load().map_err(|why| eprintln!("{name}: without the kernel: {why}")).ok();
        let (mut vms, mut object) = (Vec::new(), Object::default());
        for setting in SETTINGS {
            let (vm, marked) = new_vm(&name, &bytes, setting)?;
            vms.push(vm);
            object = marked;
        }
        Ok(Engines { name, kernel, vms, object })
    }

    /// Runs a packet on every engine and compares R0 and the packet. Returns how many instructions it takes.
    fn agree(&self, packet: &[u8]) -> Result<u64, String> {
        let text = |error: kiln_vm::Error| error.to_string();
        let expected = self.vms[0].run(&self.name, &Input::packet(packet), Engine::Interpreter).map_err(text)?;
        for (vm, (setting, ..)) in self.vms.iter().zip(SETTINGS) {
            let ran = vm.run(&self.name, &Input::packet(packet), Engine::Jit).map_err(text)?;
            if (ran.value as u32, &ran.packet) != (expected.value as u32, &expected.packet) {
                return Err(format!("{setting} gives {:#x}, the interpreter {:#x}", ran.value, expected.value));
            }
        }
        if let Some((_, prog)) = &self.kernel {
            let input = TestInput { packet: packet.to_vec(), context: Vec::new(), repeat: 1 };
            let ran = prog.test_run(&input).map_err(|error| error.to_string())?;
            if (ran.value, &ran.packet) != (expected.value as u32, &expected.packet) {
                return Err(format!("the kernel gives {:#x}, the interpreter {:#x}", ran.value, expected.value));
            }
        }
        Ok(expected.instructions)
    }

    /// Nanoseconds of a run, averaged over `repeat` runs; `None` without the engine. Engine 0 is the kernel.
    fn sample(&self, engine: usize, packet: &[u8], repeat: u32) -> Result<Option<f64>, String> {
        let Some(vm) = engine.checked_sub(1) else {
            let Some((_, prog)) = &self.kernel else { return Ok(None) };
            let ran = prog.test_run(&TestInput { packet: packet.to_vec(), context: Vec::new(), repeat });
            // The kernel cuts off the fraction.
            return ran.map(|ran| Some(f64::from(ran.duration_ns) + 0.5)).map_err(|error| error.to_string());
        };
        let ran = self.vms[vm].run(&self.name, &Input::packet(packet).repeated(repeat), Engine::Jit);
        ran.map(|ran| Some(ran.duration_ns)).map_err(|error| error.to_string())
    }
}

/// Compares the engines' results, then times them. `base` is the empty program.
fn measure(path: &Path, base: Option<&Row>) -> Result<Row, String> {
    let engines = Engines::new(path)?;
    let mut packets = Vec::new();
    for packet in (0..CANDIDATES).map(packet) {
        packets.push((engines.agree(&packet)?, packet));
    }
    let (_, packet) = packets.into_iter().max_by_key(|(instructions, _)| *instructions).unwrap_or_default();
    let trial = engines.sample(1, &packet, 100)?.unwrap_or(1.0);
    let repeat = (CHUNK_NS / trial.max(1.0)).clamp(50.0, 20_000.0) as u32;
    let mut samples: [Vec<f64>; 4] = Default::default();
    for round in 0..=ROUNDS {
        for turn in 0..4 {
            let engine = if round % 2 == 0 { (turn + round) % 4 } else { (7 - turn + round) % 4 };
            let time = engines.sample(engine, &packet, repeat)?;
            samples[engine].extend(time.filter(|_| round > 0));
        }
    }
    let bases = base.map_or([0.0; 4], |base| {
        let [plain, fused, full] = base.vm.map(|time| time.median_ns);
        [base.kernel.map_or(0.0, |time| time.median_ns), plain, fused, full]
    });
    let speedup = |over: usize| {
        let pairs = samples[over].iter().zip(&samples[3]);
        Time::of(pairs.map(|(slow, fast)| (slow - bases[over]) / (fast - bases[3])).collect()).median_ns
    };
    let (over_kernel, over_plain, over_fused) = (speedup(0), speedup(1), speedup(2));
    let [kernel, plain, fused, full] = samples.map(Time::of);
    let net = |time: Time, engine: usize| Time { median_ns: time.median_ns - bases[engine], ..time };
    let has_kernel = engines.kernel.is_some();
    Ok(Row {
        subprograms: engines.object.functions.len() > 1,
        marks: engines.object.operations.len(),
        kernel: has_kernel.then(|| net(kernel, 0)),
        vm: [net(plain, 1), net(fused, 2), net(full, 3)],
        over_kernel: has_kernel.then_some(over_kernel),
        over_plain,
        over_fused,
        name: engines.name,
    })
}

/// Candidate packets: the first ones are of one protocol each, the others arbitrary bytes.
fn packet(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes: Vec<u8> = (0..PACKET_BYTES)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect();
    let header: &[u8] = match seed {
        // IPv4 with TCP, IPv4 with UDP, IPv6 with TCP, a VLAN tag before IPv4, text.
        0 => &[8, 0, 0x45, 0, 0, 242, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 0, 81],
        1 => &[8, 0, 0x45, 0, 0, 242, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 53],
        2 => &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 202, 6, 64],
        3 => &[0x81, 0, 0, 5, 8, 0, 0x45, 0, 0, 238, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 80, 0, 81],
        4 => {
            let text = b"GET /index.html?key=value&n=12345 HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n";
            bytes.iter_mut().zip(text.iter().cycle()).for_each(|(byte, letter)| *byte = *letter);
            &[]
        }
        _ => &[],
    };
    bytes[12..12 + header.len()].copy_from_slice(header);
    bytes
}

fn geomean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp()
}

fn summary(mut ratios: Vec<f64>) -> Value {
    ratios.sort_by(f64::total_cmp);
    let at = |index: usize| ratios.get(index).copied();
    json!({
        "programs": ratios.len(), "geomean": geomean(&ratios), "median": at(ratios.len() / 2),
        "least": at(0), "most": ratios.last(),
    })
}

fn means(rows: &[Row]) -> Value {
    let long = || rows.iter().filter(|row| row.counts());
    let alone = || long().filter(|row| !row.subprograms);
    json!({
        "full over kernel": summary(long().filter_map(|row| row.over_kernel).collect()),
        "full over kernel, without subprograms": summary(alone().filter_map(|row| row.over_kernel).collect()),
        "full over plain": summary(long().map(|row| row.over_plain).collect()),
        "full over fused": summary(long().map(|row| row.over_fused).collect()),
        "full over fused, same code": summary(long().filter(|row| row.marks == 0).map(|row| row.over_fused).collect()),
        "full over fused, with operations": summary(long().filter(|row| row.marks > 0).map(|row| row.over_fused).collect()),
    })
}

fn report(rows: &[Row], base: &Row, call_ns: Option<f64>) -> String {
    let shown = |time: Time| format!("{:8.1} ±{:4.1}", time.median_ns, time.spread_ns / 2.0);
    let kernel = |row: &Row| row.kernel.map_or("-".to_owned(), shown);
    let [plain, fused, full] = base.vm.map(shown);
    let call = call_ns.map_or("-".to_owned(), |call| format!("{call:.1}"));
    let mut text = format!("a call of an empty program by its handle: {call} ns\n");
    text += &format!("empty program: kernel {}, plain {plain}, fused {fused}, full {full}\n", kernel(base));
    text += &format!(
        "{:18} {:>15} {:>15} {:>15} {:>15} {:>4} {:>11} {:>10} {:>10}\n",
        "program", "kernel ns", "plain ns", "fused ns", "full ns", "ops", "full/kernel", "full/plain", "full/fused"
    );
    for row in rows {
        let [plain, fused, full] = row.vm.map(shown);
        let ratio = row.over_kernel.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let short = if row.counts() { "" } else { "  (short)" };
        text += &format!(
            "{:18} {:>15} {plain:>15} {fused:>15} {full:>15} {:>4} {ratio:>11} {:>10.2} {:>10.2}{short}\n",
            row.name,
            kernel(row),
            row.marks,
            row.over_plain,
            row.over_fused,
        );
    }
    for (what, summary) in means(rows).as_object().into_iter().flatten() {
        let number = |key: &str| summary[key].as_f64().unwrap_or(f64::NAN);
        text += &format!(
            "{what}: geomean {:.3}, median {:.3}, {:.2} to {:.2}, {} programs\n",
            number("geomean"),
            number("median"),
            number("least"),
            number("most"),
            summary["programs"]
        );
    }
    text
}
