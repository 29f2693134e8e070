//! `cargo xtask bench native`: the kernel's JIT, the VM's without and with native operations, and the native tier, on the
//! same bytecode.
//!
//! ```text
//!   plain    the VM's JIT, one BPF instruction at a time
//!   fused    and runs of adjacent instructions compiled together
//!   full     and native operations, found by dataflow
//!   fast     clang -O3             the native tier takes the fastest of these two and `full`, and that is measured again,
//!   scalar   clang -O2, no         so that it does not gain by luck
//!            vectors
//! ```
//!
//! Each program runs itself [`TURNS`] times a run (`kiln_bench::repeated`): what surrounds a run, which is more in the
//! kernel, then matters little. Before it is timed, all engines and the interpreter run it on every candidate packet, and must agree on R0
//! and on the packet. The packet that takes most instructions is timed. A sample is one chunk of runs; engines take
//! turns, in an order that changes every round. Times are medians, net of an empty program on the same engine; the
//! spread is the distance between the quartiles. Ratios are speedups: above 1 the engine named first is faster. They are
//! medians over the rounds, because the machine's speed changes from round to round more than within one. Where no
//! operation was found, `fused` and `full` are the same code, and their ratio is the noise. Bytes of code are compared
//! with what the kernel's JIT makes of the same program.
//!
//! Bars ([`BARS`]) are printed as met or missed, and do not make the command fail. It fails if engines differ or a run does; a
//! program that an engine refuses to load is left out, with the reason.
//!
//! With `KILN_BRANCHES=hard` in the environment, `fused` is `full` as it is otherwise, and `full` has every flag and choice
//! compiled without its branch: what that costs or saves.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kiln_bench::candidate;
use kiln_bench::repeated::repeat;
use kiln_isa::operation::Registry;
use kiln_linux::{LoadedImage, TestInput};
use kiln_program::Object;
use kiln_vm::{Engine, Input, Options, Setting, Toolchain, Vm};
use serde_json::{Value, json};

/// How often a program runs itself in a run.
const TURNS: i32 = 8;
/// Rounds of samples, after one that warms caches. In the first half of them, the native tier chooses.
const ROUNDS: usize = 121;
/// Nanoseconds of a sample: short, so that the median sees no interrupt.
const CHUNK_NS: f64 = 150_000.0;
/// Candidate packets.
const CANDIDATES: u64 = 12;
/// Programs whose net kernel time for one turn is shorter are not part of the means.
const LEAST_NS: f64 = 50.0;
/// Calls of an empty program in a sample of the call's own time.
const CALLS: u32 = 100_000;

/// The engines, in the order of columns.
const ENGINES: [&str; 6] = ["kernel", "plain", "fused", "full", "fast", "scalar"];
const KERNEL: usize = 0;
const PLAIN: usize = 1;
const FUSED: usize = 2;
const FULL: usize = 3;
/// What the native tier chooses from.
const CHOICES: [usize; 3] = [FULL, 4, 5];

/// Fusions, native operations and the compiler of an engine of ours.
fn setting(engine: usize) -> (bool, Registry, Option<Setting>) {
    match engine {
        PLAIN => (false, Registry::EMPTY, None),
        FUSED if without_branches() => (true, Registry::BUILTIN, None),
        FUSED => (true, Registry::EMPTY, None),
        FULL => (true, Registry::BUILTIN, None),
        4 => (true, Registry::BUILTIN, Some(Setting::Fast)),
        _ => (true, Registry::BUILTIN, Some(Setting::Scalar)),
    }
}

/// Whether it is measured what flags and choices cost without their branches.
fn without_branches() -> bool {
    std::env::var_os("KILN_BRANCHES").is_some()
}

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
    /// By engine; the kernel may be missing.
    times: [Option<Time>; ENGINES.len()],
    /// The engine that the native tier chose.
    chosen: usize,
    /// Speedups, by what is compared.
    ratios: Vec<(&'static str, f64)>,
    /// Bytes of code.
    bytes: CodeBytes,
}

/// Bytes of code of one program.
#[derive(Clone, Copy, Default)]
struct CodeBytes {
    kernel: Option<u32>,
    /// The two settings that aim at speed, and the one that aims at size.
    fast: usize,
    scalar: usize,
    size: usize,
}

impl Row {
    /// Whether its times are long enough to compare.
    fn counts(&self) -> bool {
        let turns = f64::from(TURNS);
        self.times[KERNEL].or(self.times[PLAIN]).is_some_and(|time| time.median_ns >= turns * LEAST_NS)
    }

    fn ratio(&self, what: &str) -> Option<f64> {
        self.ratios.iter().find(|(name, _)| *name == what).map(|(_, ratio)| *ratio)
    }

    fn json(&self) -> Value {
        let time = |time: Time| json!({ "median_ns": time.median_ns, "spread_ns": time.spread_ns });
        let times: serde_json::Map<String, Value> =
            ENGINES.iter().zip(self.times).map(|(name, own)| ((*name).to_owned(), json!(own.map(time)))).collect();
        let ratios: serde_json::Map<String, Value> =
            self.ratios.iter().map(|(name, ratio)| ((*name).to_owned(), json!(ratio))).collect();
        json!({
            "program": self.name, "subprograms": self.subprograms, "operations": self.marks, "counts": self.counts(),
            "times": times, "native": ENGINES[self.chosen], "ratios": ratios,
            "code_bytes": { "kernel": self.bytes.kernel, "fast": self.bytes.fast, "scalar": self.bytes.scalar,
                "size": self.bytes.size },
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
        // A program that an engine refuses has no row. It is no failure: eight turns are too much for some verifiers.
        let engines = Engines::new(path).map_err(|why| eprintln!("{}: left out: {why}", path.display())).ok()?;
        measure(engines, base).map_err(|why| (failed += 1, eprintln!("{}: {why}", path.display()))).ok()
    };
    let Some(base) = measured(empty, None) else { std::process::exit(1) };
    let call_ns = call_time(empty);
    let rows: Vec<Row> = others.iter().filter_map(|path| measured(path, Some(&base))).collect();
    if as_json {
        let programs: Vec<Value> = rows.iter().map(Row::json).collect();
        println!(
            "{:#}",
            json!({ "call_ns": call_ns, "empty": base.json(), "programs": programs, "means": means(&rows),
                "bars": bars(&rows, call_ns) })
        );
    } else {
        print!("{}", report(&rows, &base, call_ns));
        bars(&rows, call_ns).iter().for_each(|bar| println!("{}", bar_text(bar)));
    }
    // A bar that is missed is printed, and measuring has not failed.
    if failed > 0 || rows.is_empty() && !others.is_empty() {
        std::process::exit(1);
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
}

/// The time of a call of an empty program through its handle, packet of 64 bytes included.
fn call_time(path: &Path) -> Option<f64> {
    let (name, bytes) = (stem(path), std::fs::read(path).ok()?);
    let own = Own::new(&name, object(&name, &bytes, 1).ok()?, FULL).ok()?;
    let handle = own.vm.program(&name).ok()?;
    let packet = [0; 64];
    let mut samples = Vec::new();
    for _ in 0..=ROUNDS {
        let begun = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(handle.run_input(&Input::packet(std::hint::black_box(&packet))).ok()?);
        }
        samples.push(begun.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    Some(Time::of(samples).median_ns)
}

/// An engine of ours with a program.
struct Own {
    vm: Vm,
    engine: Engine,
    marks: usize,
    subprograms: bool,
    code_bytes: usize,
}

impl Own {
    fn new(name: &str, mut object: Object, engine: usize) -> Result<Own, String> {
        let text = |error: kiln_vm::Error| error.to_string();
        let (fusions, operations, native) = setting(engine);
        let is_hard = |_| without_branches() && engine == FULL;
        object.operations = kiln_idiom::recognize_where(&object, &operations, &is_hard);
        let options = Options { operations, fusions, ..Options::default() };
        let mut vm = Vm::new(&object, options).map_err(text)?;
        vm.load(name).map_err(text)?;
        vm.compiled(name)?;
        let (marks, subprograms) = (object.operations.len(), object.functions.len() > 1);
        let (engine, code_bytes) = match native {
            None => (Engine::Jit, 0),
            Some(setting) => (Engine::Native, vm.load_native(name, &toolchain()?, setting).map_err(text)?.code_bytes),
        };
        Ok(Own { vm, engine, marks, subprograms, code_bytes })
    }
}

/// A program that runs itself so often. One that has no room on its stack for the count, or is too much for the verifier
/// then, is an error.
fn object(name: &str, bytes: &[u8], turns: i32) -> Result<Object, String> {
    let mut object = kiln_elf::read(name, bytes).map_err(|error| error.to_string())?.object;
    let entry = object.program(name).ok_or("it is not there")?.entry;
    if turns > 1 && !repeat(&mut object, entry, turns) {
        return Err("it uses all of its stack".to_owned());
    }
    Ok(object)
}

fn toolchain() -> Result<Toolchain, String> {
    Toolchain::new(Toolchain::CLANG).map_err(|error| error.to_string())
}

/// The engines of one program.
struct Engines {
    name: String,
    kernel: Option<LoadedImage>,
    /// Those after the kernel, in the order of columns.
    own: Vec<Own>,
    bytes: CodeBytes,
}

impl Engines {
    fn new(path: &Path) -> Result<Engines, String> {
        let (name, bytes) = (stem(path), std::fs::read(path).map_err(|error| error.to_string())?);
        let object = object(&name, &bytes, TURNS)?;
        let load = || -> Result<LoadedImage, String> {
            kiln_linux::available().map_err(|error| error.to_string())?;
            let program = object.program(&name).ok_or("it is not there")?;
            kiln_linux::load_image(&object, program).map_err(|error| error.why())
        };
        let kernel = load().map_err(|why| eprintln!("{name}: without the kernel: {why}")).ok();
        let own: Vec<Own> =
            (PLAIN..ENGINES.len()).map(|engine| Own::new(&name, object.clone(), engine)).collect::<Result<_, _>>()?;
        let text = own[0].vm.native_module(&name, Setting::Size, "kiln").map_err(|error| error.to_string())?.text;
        let small = toolchain()?.compile(&text, Setting::Size).map_err(|error| error.to_string())?;
        let small = kiln_native::Image::read(&small, "kiln_entry", "kiln_addresses", 0);
        let code_bytes = CodeBytes {
            kernel: kernel.as_ref().and_then(|loaded| Some(loaded.prog.info().ok()?.jited_bytes)),
            fast: own[3].code_bytes,
            scalar: own[4].code_bytes,
            size: small.map_err(|error| error.to_string())?.code_bytes,
        };
        Ok(Engines { name, kernel, own, bytes: code_bytes })
    }

    /// Runs a packet on every engine and compares R0 and the packet. Returns how many instructions it takes.
    fn agree(&self, packet: &[u8]) -> Result<u64, String> {
        let text = |error: kiln_vm::Error| error.to_string();
        let expected = self.own[0].vm.run(&self.name, &Input::packet(packet), Engine::Interpreter).map_err(text)?;
        for (own, name) in self.own.iter().zip(&ENGINES[PLAIN..]) {
            let ran = own.vm.run(&self.name, &Input::packet(packet), own.engine).map_err(text)?;
            if (ran.value as u32, &ran.packet) != (expected.value as u32, &expected.packet) {
                return Err(format!("{name} gives {:#x}, the interpreter {:#x}", ran.value, expected.value));
            }
        }
        if let Some(loaded) = &self.kernel {
            let input = TestInput { packet: packet.to_vec(), context: Vec::new(), repeat: 1 };
            let ran = loaded.prog.test_run(&input).map_err(|error| error.to_string())?;
            if (ran.value, &ran.packet) != (expected.value as u32, &expected.packet) {
                return Err(format!("the kernel gives {:#x}, the interpreter {:#x}", ran.value, expected.value));
            }
        }
        Ok(expected.instructions)
    }

    /// Nanoseconds of a run, averaged over `repeat` runs; `None` without the engine.
    fn sample(&self, engine: usize, packet: &[u8], repeat: u32) -> Result<Option<f64>, String> {
        if engine == KERNEL {
            let Some(loaded) = &self.kernel else { return Ok(None) };
            let ran = loaded.prog.test_run(&TestInput { packet: packet.to_vec(), context: Vec::new(), repeat });
            // The kernel cuts off the fraction.
            return ran.map(|ran| Some(f64::from(ran.duration_ns) + 0.5)).map_err(|error| error.to_string());
        }
        let own = &self.own[engine - PLAIN];
        let ran = own.vm.run(&self.name, &Input::packet(packet).repeated(repeat), own.engine);
        ran.map(|ran| Some(ran.duration_ns)).map_err(|error| error.to_string())
    }
}

/// Compares the engines' results, then times them. `base` is the empty program.
fn measure(engines: Engines, base: Option<&Row>) -> Result<Row, String> {
    let mut packets = Vec::new();
    for packet in (0..CANDIDATES).map(candidate::packet) {
        packets.push((engines.agree(&packet)?, packet));
    }
    let (_, packet) = packets.into_iter().max_by_key(|(instructions, _)| *instructions).unwrap_or_default();
    let trial = engines.sample(PLAIN, &packet, 100)?.unwrap_or(1.0);
    let repeat = (CHUNK_NS / trial.max(1.0)).clamp(20.0, 20_000.0) as u32;
    let mut samples: [Vec<f64>; ENGINES.len()] = Default::default();
    for round in 0..=ROUNDS {
        for turn in 0..ENGINES.len() {
            let turn = if round % 2 == 0 { turn } else { ENGINES.len() - 1 - turn };
            let engine = (turn + round) % ENGINES.len();
            let time = engines.sample(engine, &packet, repeat)?;
            samples[engine].extend(time.filter(|_| round > 0));
        }
    }
    let bases =
        std::array::from_fn(|engine| base.and_then(|base| base.times[engine]).map_or(0.0, |time| time.median_ns));
    Ok(row(engines, samples, bases))
}

/// The row of a program, of its samples and the times of an empty program.
fn row(engines: Engines, samples: [Vec<f64>; ENGINES.len()], bases: [f64; ENGINES.len()]) -> Row {
    let half = ROUNDS / 2;
    let early = |engine: usize| Time::of(samples[engine][..half].to_vec()).median_ns - bases[engine];
    let chosen = CHOICES.into_iter().min_by(|a, b| early(*a).total_cmp(&early(*b))).unwrap_or(FULL);
    let speedup = |slow: usize, fast: usize, from: usize| {
        let pairs = samples[slow].iter().zip(&samples[fast]).skip(from);
        Time::of(pairs.map(|(a, b)| (a - bases[slow]) / (b - bases[fast])).collect()).median_ns
    };
    let mut ratios = vec![("full over plain", speedup(PLAIN, FULL, 0)), ("full over fused", speedup(FUSED, FULL, 0))];
    ratios.push(("native over full", speedup(FULL, chosen, half)));
    if engines.kernel.is_some() {
        ratios.push(("full over kernel", speedup(KERNEL, FULL, 0)));
        ratios.push(("native over kernel", speedup(KERNEL, chosen, half)));
        ratios.push(("fast over kernel", speedup(KERNEL, 4, 0)));
        ratios.push(("scalar over kernel", speedup(KERNEL, 5, 0)));
    }
    let net = |(engine, samples): (usize, Vec<f64>)| {
        let time = Time::of(samples);
        (engine != KERNEL || engines.kernel.is_some())
            .then(|| Time { median_ns: time.median_ns - bases[engine], ..time })
    };
    let mut times = [None; ENGINES.len()];
    for (engine, own) in samples.into_iter().enumerate() {
        times[engine] = net((engine, own));
    }
    let full = &engines.own[FULL - PLAIN];
    Row {
        subprograms: full.subprograms,
        marks: full.marks,
        times,
        chosen,
        ratios,
        bytes: engines.bytes,
        name: engines.name,
    }
}

fn geomean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp()
}

fn summary(mut ratios: Vec<f64>) -> Value {
    ratios.sort_by(f64::total_cmp);
    let at = |index: usize| ratios.get(index).copied();
    json!({
        "programs": ratios.len(), "geomean": geomean(&ratios), "median": at(ratios.len() / 2),
        "least": at(0), "most": ratios.last(), "below_0.95": ratios.iter().filter(|ratio| **ratio < 0.95).count(),
    })
}

fn means(rows: &[Row]) -> Value {
    let long = || rows.iter().filter(|row| row.counts());
    let of = |what: &str, wanted: &dyn Fn(&Row) -> bool| {
        summary(long().filter(|row| wanted(row)).filter_map(|row| row.ratio(what)).collect())
    };
    let (all, alone) = (&|_: &Row| true, &|row: &Row| !row.subprograms);
    let bytes = |own: &dyn Fn(&CodeBytes) -> usize| {
        let all = rows.iter().filter_map(|row| Some(own(&row.bytes) as f64 / f64::from(row.bytes.kernel?)));
        summary(all.collect())
    };
    json!({
        "full over kernel": of("full over kernel", all),
        "full over kernel, without subprograms": of("full over kernel", alone),
        "full over plain": of("full over plain", all),
        "full over fused": of("full over fused", all),
        "full over fused, same code": of("full over fused", &|row| row.marks == 0),
        "full over fused, with operations": of("full over fused", &|row| row.marks > 0),
        "native over kernel": of("native over kernel", all),
        "native over kernel, without subprograms": of("native over kernel", alone),
        "native over full": of("native over full", all),
        "fast over kernel": of("fast over kernel", all),
        "scalar over kernel": of("scalar over kernel", all),
        "code bytes, fast by kernel": bytes(&|own| own.fast),
        "code bytes, scalar by kernel": bytes(&|own| own.scalar),
        "code bytes, size by kernel": bytes(&|own| own.size),
    })
}

/// What is aimed at: the comparison, which of its figures, and the least that it should be.
const BARS: [(&str, &str, f64); 4] = [
    ("full over kernel", "geomean", 1.35),
    ("full over kernel", "least", 0.95),
    ("native over kernel", "geomean", 1.6),
    ("native over full", "least", 0.95),
];
/// The most that a call of an empty program should take, in nanoseconds.
const CALL_NS: f64 = 30.0;

/// Each bar with what was measured, and whether it is met; `null` where nothing was measured.
fn bars(rows: &[Row], call_ns: Option<f64>) -> Vec<Value> {
    let means = means(rows);
    let compared = BARS.iter().map(|(what, figure, least)| {
        let found = means[what][figure].as_f64().filter(|_| means[what]["programs"] != 0);
        json!({ "what": format!("{what}, {figure}"), "at_least": least, "measured": found,
            "met": found.map(|found| found >= *least) })
    });
    let call = json!({ "what": "ns of a call of an empty program", "at_most": CALL_NS, "measured": call_ns,
        "met": call_ns.map(|call| call <= CALL_NS) });
    compared.chain([call]).collect()
}

fn bar_text(bar: &Value) -> String {
    let result = match bar["met"].as_bool() {
        Some(true) => "met",
        Some(false) => "missed",
        None => "not measured",
    };
    let (word, aim) = if bar["at_least"].is_number() { ("at least", "at_least") } else { ("at most", "at_most") };
    let measured = bar["measured"].as_f64().map_or("-".to_owned(), |measured| format!("{measured:.2}"));
    format!("bar {result}: {} {measured}, {word} {}", bar["what"].as_str().unwrap_or_default(), bar[aim])
}

fn report(rows: &[Row], base: &Row, call_ns: Option<f64>) -> String {
    let shown = |time: &Option<Time>| {
        time.map_or("-".to_owned(), |time| format!("{:8.1} ±{:4.1}", time.median_ns, time.spread_ns / 2.0))
    };
    let call = call_ns.map_or("-".to_owned(), |call| format!("{call:.1}"));
    let mut text = format!("a call of an empty program by its handle: {call} ns\n{:18}", "program (ns)");
    for name in ENGINES {
        text += &format!(" {name:>15}");
    }
    let columns = ["full over kernel", "full over plain", "full over fused", "native over kernel"];
    text += &format!(" {:>4} {:>9} {:>9} {:>9} {:>9}\n", "ops", "full/kern", "full/plai", "full/fuse", "nati/kern");
    for row in std::iter::once(base).chain(rows) {
        text += &format!("{:18}", row.name);
        for time in &row.times {
            text += &format!(" {:>15}", shown(time));
        }
        text += &format!(" {:>4}", row.marks);
        for what in columns.iter().filter(|_| !std::ptr::eq(row, base)) {
            text += &format!(" {:>9}", row.ratio(what).map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        }
        text += &format!("  {}{}\n", ENGINES[row.chosen], if row.counts() { "" } else { "  (short)" });
    }
    for (what, summary) in means(rows).as_object().into_iter().flatten() {
        let number = |key: &str| summary[key].as_f64().unwrap_or(f64::NAN);
        text += &format!(
            "{what}: geomean {:.3}, median {:.3}, {:.2} to {:.2}, {} programs, {} below 0.95\n",
            number("geomean"),
            number("median"),
            number("least"),
            number("most"),
            summary["programs"],
            summary["below_0.95"],
        );
    }
    text
}
