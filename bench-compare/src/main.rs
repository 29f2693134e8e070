//! `cargo xtask bench peers`: Kiln's JIT, rbpf's and solana-sbpf's on the same bytecode.
//!
//! ```text
//!   object --kiln_elf--> slots, addresses of constants filled in --+--> rbpf       JIT
//!      |                                                           +--> sbpf       JIT
//!      +-------> kiln_vm: verified, compiled ----------------------+--> kiln       JIT
//!                                                    all: entry(context) -> R0, the packet afterwards
//! ```
//!
//! Each engine's machine code is called with the same context (`struct xdp_md` with 32-bit addresses, the packet below
//! 4 GiB), and all results and packets must be those of Kiln's interpreter. Engines take turns within a round, in an order
//! that changes; a time is the median over the rounds. What the peers check at run time is turned off where they allow it:
//! solana-sbpf runs without address translation, instruction meter, random no-ops and blinded constants, and rbpf's JIT
//! has no checks. Kiln's code keeps what it always has. Programs are compiled for `-mcpu=v2`, because solana-sbpf has no
//! 32-bit jumps and extends 32-bit results in another way.
//!
//! `compile` is the time from slots to callable code: Kiln's includes the recognition of operations, but, as theirs, no
//! verification.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kiln_isa::Slot;
use kiln_isa::operation::Registry;
use kiln_program::{MapContents, MapId, Object, Reference};
use kiln_vm::{Engine, Input, Options, Vm};
use solana_sbpf::elf::Executable;
use solana_sbpf::memory_region::MemoryMapping;
use solana_sbpf::program::{BuiltinProgram, FunctionRegistry, SBPFVersion};
use solana_sbpf::vm::{Config, ContextObject, EbpfVm, ExecutionMode};

/// Rounds of samples, after one that warms caches.
const ROUNDS: usize = 61;
/// Nanoseconds of a sample.
const SAMPLE_NS: f64 = 200_000.0;
/// Compilations of which the fastest counts.
const COMPILATIONS: usize = 15;
const PACKET_BYTES: usize = 256;
/// Packets that results are compared on; the first is timed.
const PACKETS: u64 = 8;
/// Bytes of stack that solana-sbpf gets.
const STACK_BYTES: usize = 64 << 12;

type Failure = Box<dyn std::error::Error>;

/// Memory below 4 GiB: the context, then the packet. Never given back.
struct Low {
    start: *mut u8,
}

impl Low {
    fn new() -> Result<Low, Failure> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT);
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 8192, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(Low { start: start.cast() })
    }

    fn context(&self) -> u64 {
        self.start as u64
    }

    fn fill(&mut self, packet: &[u8; PACKET_BYTES]) {
        let data = self.start as u32 + 4096;
        let fields = [data, data + PACKET_BYTES as u32, data, 1, 0, 0];
        // SAFETY: both places lie in the mapping of 8192 bytes, which nothing else refers to now.
        unsafe {
            self.start.cast::<[u32; 6]>().write_unaligned(fields);
            self.start.add(4096).cast::<[u8; PACKET_BYTES]>().write(*packet);
        }
    }

    fn packet(&self) -> [u8; PACKET_BYTES] {
        // SAFETY: as in `fill`; programs have stopped when this is called.
        unsafe { self.start.add(4096).cast::<[u8; PACKET_BYTES]>().read() }
    }
}

/// A peer or Kiln with one program, compiled.
trait Runtime {
    fn run(&mut self, context: u64) -> Result<u64, String>;
}

struct Kiln {
    code: kiln_vm::exec::Program,
    // What the code refers to.
    _vm: Vm,
}

impl Kiln {
    fn new(object: &Object, name: &str) -> Result<Kiln, Failure> {
        let mut object = object.clone();
        kiln_idiom::annotate(&mut object, &Registry::BUILTIN);
        let mut vm = Vm::new(&object, Options::default())?;
        vm.load(name)?;
        let here = kiln_vm::HERE.ok_or("no JIT for this machine")?;
        let code = kiln_vm::exec::Program::load(&vm.machine_code(name, here)?.code)?;
        Ok(Kiln { code, _vm: vm })
    }
}

impl Runtime for Kiln {
    fn run(&mut self, context: u64) -> Result<u64, String> {
        let mut runtime = kiln_jit::Runtime::new(1 << 40);
        // SAFETY: the program was verified for a context like this one, calls no helpers (`lowered`), and its maps live.
        Ok(unsafe { self.code.call(context, &mut runtime) })
    }
}

struct Rbpf {
    vm: rbpf::EbpfVmRaw<'static>,
}

impl Rbpf {
    fn new(slots: &'static [u8]) -> Result<Rbpf, Failure> {
        let mut vm = rbpf::EbpfVmRaw::new(Some(slots)).map_err(|error| error.to_string())?;
        vm.jit_compile().map_err(|error| error.to_string())?;
        Ok(Rbpf { vm })
    }
}

impl Runtime for Rbpf {
    fn run(&mut self, context: u64) -> Result<u64, String> {
        // SAFETY: the context is in the mapping of `Low`, and no other reference to it is live.
        let memory = unsafe { std::slice::from_raw_parts_mut(context as *mut u8, 8192) };
        // SAFETY: the program was verified for a context like this one, calls no helpers, and its constants live forever.
        unsafe { self.vm.execute_program_jit(memory) }.map_err(|error| error.to_string())
    }
}

/// What solana-sbpf asks its embedder for: nothing is metered, nothing is translated.
struct Unmetered(MemoryMapping);

impl ContextObject for Unmetered {
    fn consume(&mut self, _: u64) {}
    fn get_remaining(&self) -> u64 {
        u64::MAX / 2
    }
    fn active_mapping_ptr(&mut self) -> std::ptr::NonNull<MemoryMapping> {
        std::ptr::NonNull::from(&mut self.0)
    }
}

struct Sbpf {
    executable: Executable<Unmetered>,
    context: Unmetered,
    stack: Vec<u8>,
}

impl Sbpf {
    fn new(slots: &[u8]) -> Result<Sbpf, Failure> {
        let config = Config {
            enable_address_translation: false,
            enable_stack_frame_gaps: false,
            enable_instruction_meter: false,
            noop_instruction_rate: 0,
            sanitize_user_provided_values: false,
            ..Config::default()
        };
        let loader = Arc::new(BuiltinProgram::new_loader(config.clone()));
        // SAFETY: without address translation no region is looked up.
        let mapping = unsafe { MemoryMapping::new(Vec::new(), &config, SBPFVersion::V0) }?;
        let functions = FunctionRegistry::default();
        let executable = Executable::from_text_bytes(slots, loader, SBPFVersion::V0, functions)?;
        executable.jit_compile()?;
        Ok(Sbpf { executable, context: Unmetered(mapping), stack: vec![0; STACK_BYTES] })
    }
}

impl Runtime for Sbpf {
    fn run(&mut self, context: u64) -> Result<u64, String> {
        let loader = Arc::clone(self.executable.get_loader());
        let mut vm = EbpfVm::new(loader, SBPFVersion::V0, &mut self.context, STACK_BYTES);
        vm.registers[1] = context;
        vm.registers[10] = self.stack.as_mut_ptr() as u64 + 4096;
        let (_, result) = vm.execute_program(&self.executable, &mut ExecutionMode::Jit, &mut []);
        match result {
            solana_sbpf::error::StableResult::Ok(value) => Ok(value),
            solana_sbpf::error::StableResult::Err(error) => Err(error.to_string()),
        }
    }
}

/// A program as bytes of slots that refer to nothing: addresses of data are filled in. The data lives forever.
fn lowered(object: &Object, name: &str) -> Result<Vec<u8>, Failure> {
    let program = object.program(name).ok_or("it is not there")?;
    let mut image = kiln_program::lower::lower_program(object, program)?;
    let mut data: HashMap<MapId, u64> = HashMap::new();
    for relocation in &image.relocations {
        let Reference::MapValue { map, offset } = relocation.reference else {
            return Err("it needs maps or helpers".into());
        };
        let start = *data.entry(map).or_insert_with(|| match &object.map(map).contents {
            MapContents::Data(bytes) | MapContents::ReadOnly(bytes) => bytes.clone().leak().as_ptr() as u64,
            _ => vec![0u8; object.map(map).value_size as usize].leak().as_ptr() as u64,
        });
        let address = start + u64::from(offset);
        let [first, second] = &mut image.slots[relocation.slot..relocation.slot + 2] else { continue };
        (first.src, first.imm, second.imm) = (0, address as i32, (address >> 32) as i32);
    }
    if image.slots.iter().any(|slot: &Slot| slot.opcode == 0x85 && slot.src == 0) {
        return Err("it calls helpers".into());
    }
    Ok(image.slots.iter().flat_map(|slot| slot.to_bytes()).collect())
}

fn packet(seed: u64) -> [u8; PACKET_BYTES] {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut packet = [0; PACKET_BYTES];
    for byte in &mut packet {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = (state >> 24) as u8;
    }
    // IPv4 and TCP, so that parsers go on.
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[14] = 0x45;
    packet[23] = 6;
    packet
}

/// The engines, in the order of columns.
const NAMES: [&str; 3] = ["kiln", "rbpf", "sbpf"];

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// An engine of a program, or why there is none, and the shortest time to compile it, in microseconds.
struct Compiled {
    runtime: Result<Box<dyn Runtime>, String>,
    compile_us: f64,
}

impl Compiled {
    fn new<R: Runtime + 'static>(make: impl Fn() -> Result<R, Failure>) -> Compiled {
        let mut compile_us = f64::INFINITY;
        let mut runtime = Err(String::new());
        for _ in 0..COMPILATIONS {
            let begun = Instant::now();
            let made = make();
            compile_us = compile_us.min(begun.elapsed().as_secs_f64() * 1e6);
            runtime = made.map(|made| Box::new(made) as Box<dyn Runtime>).map_err(|error| error.to_string());
            if runtime.is_err() {
                break;
            }
        }
        Compiled { runtime, compile_us }
    }
}

/// Kiln's time from an object without marks to code in memory: what peers do, too.
fn kiln_compile_us(object: &Object, kiln: &Kiln, name: &str) -> Result<f64, Failure> {
    let mut best = f64::INFINITY;
    for _ in 0..COMPILATIONS {
        let mut object = object.clone();
        let begun = Instant::now();
        kiln_idiom::annotate(&mut object, &Registry::BUILTIN);
        let here = kiln_vm::HERE.ok_or("no JIT for this machine")?;
        kiln_vm::exec::Program::load(&kiln._vm.machine_code(name, here)?.code)?;
        best = best.min(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(best)
}

/// Times of one program by engine, in nanoseconds, and of its compilation.
struct Row {
    name: String,
    times: [Result<f64, String>; NAMES.len()],
    compile_us: [f64; NAMES.len()],
}

fn measure(path: &Path, low: &mut Low) -> Result<Row, Failure> {
    let name = path.file_stem().and_then(OsStr::to_str).ok_or("a file name")?.to_owned();
    let object = kiln_elf::read(&name, &std::fs::read(path)?)?.object;
    let slots: &'static [u8] = lowered(&object, &name)?.leak();
    let kiln = Kiln::new(&object, &name)?;
    let kiln_us = kiln_compile_us(&object, &kiln, &name)?;
    let kiln = Compiled { runtime: Ok(Box::new(kiln)), compile_us: kiln_us };
    let mut engines = [kiln, Compiled::new(|| Rbpf::new(slots)), Compiled::new(|| Sbpf::new(slots))];
    compare(&object, &name, &mut engines, low)?;
    low.fill(&packet(1));
    let context = low.context();
    let mut samples = [const { Vec::new() }; NAMES.len()];
    let mut repeat = 100;
    for round in 0..=ROUNDS {
        for turn in 0..NAMES.len() {
            let engine = (turn + round) % NAMES.len();
            let Ok(runtime) = &mut engines[engine].runtime else { continue };
            let begun = Instant::now();
            for _ in 0..repeat {
                std::hint::black_box(runtime.run(std::hint::black_box(context))?);
            }
            let time = begun.elapsed().as_nanos() as f64 / f64::from(repeat);
            if round == 0 {
                repeat = (SAMPLE_NS / time.max(1.0)).clamp(20.0, 50_000.0) as u32;
            } else {
                samples[engine].push(time);
            }
        }
    }
    let compile_us = std::array::from_fn(|engine| engines[engine].compile_us);
    let mut samples = samples.into_iter();
    let times = engines.map(|engine| {
        let samples = samples.next().unwrap_or_default();
        engine.runtime.map(|_| median(samples))
    });
    Ok(Row { name, times, compile_us })
}

/// Runs all packets on all engines; one that differs from Kiln's interpreter is out.
fn compare(object: &Object, name: &str, engines: &mut [Compiled], low: &mut Low) -> Result<(), Failure> {
    let mut vm = Vm::new(object, Options::default())?;
    vm.load(name)?;
    for seed in 0..PACKETS {
        let packet = packet(seed);
        let expected = vm.run(name, &Input::packet(&packet), Engine::Interpreter)?;
        for engine in engines.iter_mut() {
            let Ok(runtime) = &mut engine.runtime else { continue };
            low.fill(&packet);
            let ran = runtime.run(low.context());
            let why = match ran {
                Err(why) => why,
                Ok(value) if value as u32 != expected.value as u32 => {
                    format!("another result: {value:#x}, not {:#x}", expected.value)
                }
                Ok(_) if low.packet()[..] != expected.packet[..] => "another packet".to_owned(),
                Ok(_) => continue,
            };
            engine.runtime = Err(why);
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut low = Low::new()?;
    let mut rows = Vec::new();
    println!(
        "{:24} {:>9} {:>9} {:>9}   {:>6} {:>6}   {:>27}",
        "program", "kiln ns", "rbpf ns", "sbpf ns", "/rbpf", "/sbpf", "compile us: kiln rbpf sbpf"
    );
    for path in std::env::args().skip(1).map(PathBuf::from) {
        match measure(&path, &mut low) {
            Ok(row) => {
                println!("{}", text(&row));
                rows.push(row);
            }
            Err(why) => println!("{}: {why}", path.display()),
        }
    }
    for peer in 1..NAMES.len() {
        let ratios: Vec<(f64, &str)> = rows
            .iter()
            .filter_map(|row| Some((row.times[peer].as_ref().ok()? / row.times[0].as_ref().ok()?, row.name.as_str())))
            .collect();
        let mean = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let behind: Vec<_> = ratios.iter().filter(|(ratio, _)| *ratio < 1.0).collect();
        println!(
            "over {}: {} programs, geomean {mean:.2}, ahead on {}",
            NAMES[peer],
            ratios.len(),
            ratios.len() - behind.len()
        );
        for (ratio, name) in behind {
            println!("  behind on {name}: {ratio:.2}");
        }
    }
    Ok(())
}

fn text(row: &Row) -> String {
    let time = |engine: usize| row.times[engine].as_ref().map_or("-".to_owned(), |time| format!("{time:.1}"));
    let ratio = |engine: usize| match (&row.times[0], &row.times[engine]) {
        (Ok(own), Ok(peer)) => format!("{:.2}", peer / own),
        _ => "-".to_owned(),
    };
    let [kiln, rbpf, sbpf] = row.compile_us;
    let notes: Vec<String> = NAMES
        .iter()
        .zip(&row.times)
        .filter_map(|(name, time)| Some(format!("  {name}: {}", time.as_ref().err()?)))
        .collect();
    format!(
        "{:24} {:>9} {:>9} {:>9}   {:>6} {:>6}   {kiln:>17.1} {rbpf:>4.1} {sbpf:>4.1}{}",
        row.name,
        time(0),
        time(1),
        time(2),
        ratio(1),
        ratio(2),
        notes.concat()
    )
}
