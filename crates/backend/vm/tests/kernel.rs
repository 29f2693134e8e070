//! The VM against the running kernel: the same object, the same packets, in both; return value, packet bytes, context
//! and map contents must agree. Programs are those that the kernel's own verifier accepts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_linux::{LoadedObject, ObjectFile, TestInput};
use kiln_platform::MapType;
use kiln_vm::{Engine, Input, Options, Vm};

/// Whether the kernel can be asked; says so when not.
fn kernel() -> bool {
    match kiln_linux::available() {
        Ok(()) => true,
        Err(error) => {
            println!("skipped: {error}");
            false
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Compiles a C program; `None` (said aloud) where there is no clang.
fn compile(source: &Path) -> Option<Vec<u8>> {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_stem()?).with_extension("o");
    let include = Command::new("uname").arg("-m").output().ok()?;
    let machine = String::from_utf8(include.stdout).ok()?;
    let result = Command::new("clang-19")
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-c"])
        .arg(format!("-I/usr/include/{}-linux-gnu", machine.trim()))
        .arg(source)
        .arg("-o")
        .arg(&output)
        .output();
    match result {
        Ok(done) if done.status.success() => std::fs::read(&output).ok(),
        Ok(done) => panic!("{}: {}", source.display(), String::from_utf8_lossy(&done.stderr)),
        Err(error) => {
            println!("skipped: clang-19: {error}");
            None
        }
    }
}

/// A small deterministic generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Packets of the protocols programs look for, whole, cut and scrambled.
fn packets(count: usize) -> Vec<Vec<u8>> {
    let mut random = Random(0x1234_5678_9abc_def1);
    (0..count).map(|at| packet(&mut random, at)).collect()
}

fn packet(random: &mut Random, at: usize) -> Vec<u8> {
    let mut bytes = random.bytes(12);
    if at % 5 == 0 {
        bytes[..6].fill([0, 0xff, 1][at / 5 % 3]);
    }
    if at % 7 == 3 {
        bytes.extend([0x81, 0x00, 0x00, at as u8]);
    }
    let payload = 80 + random.below(200) as usize;
    let protocol = [6u8, 17, 1, 58, 47][at % 5];
    match at % 4 {
        0 | 1 => {
            bytes.extend([0x08, 0x00, 0x45, random.below(4) as u8, 0, 100, 1, 2, 0, 0, 64, protocol, 0, 0]);
            bytes.extend([10, 0, 0, at as u8 % 4, 192, 168, random.below(2) as u8, 1]);
        }
        2 => {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 64, protocol, 64]);
            bytes.extend(random.bytes(32));
        }
        _ => bytes.extend([[0x08, 0x06], [0x88, 0xcc], [0x00, 0x40], [0x08, 0x00]][at / 4 % 4]),
    }
    bytes.extend([0, 80, 0x1f, 0x90]);
    bytes.extend(random.bytes(payload));
    if at % 11 == 10 {
        bytes.truncate(14 + random.below(60) as usize);
        bytes.resize(bytes.len().max(54), 0);
    }
    bytes
}

/// Both sides, loaded from one object.
struct Pair {
    kernel: LoadedObject,
    vm: Vm,
    maps: Vec<String>,
}

fn cpus() -> u32 {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = possible.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok());
    last.map_or(1, |last| last + 1)
}

/// The kernel runs tests on the calling thread's CPU: keeps the thread on one, and tells the VM which.
fn stay_on_one_cpu() -> u32 {
    // SAFETY: a zeroed set is empty; the calls only read and write it, and concern this thread alone.
    unsafe {
        let cpu = libc::sched_getcpu().max(0) as usize;
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        cpu as u32
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.surroundings.cpus = cpus();
    options.surroundings.cpu = stay_on_one_cpu();
    options
}

/// Loads an object on both sides; says why where one side cannot.
fn pair(name: &str, bytes: &[u8], programs: &[&str]) -> Result<Pair, String> {
    let object = kiln_elf::read(name, bytes).map_err(|error| format!("reading: {error}"))?.object;
    let mut file = ObjectFile::open(name, bytes).map_err(|error| format!("libbpf: {error}"))?;
    file.only(programs).map_err(|error| error.to_string())?;
    let kernel = file.load().map_err(|error| format!("kernel: {error}"))?;
    let mut vm = Vm::new(&object, options()).map_err(|error| format!("VM: {error}"))?;
    for program in programs {
        vm.load_unverified(program).map_err(|error| format!("VM: {error}"))?;
        vm.compiled(program).map_err(|error| format!("JIT: {error}"))?;
    }
    let shown = |map: &&kiln_program::Map| comparable(map.map_type);
    let maps = object.maps.iter().filter(shown).map(|map| map.name.clone()).collect();
    Ok(Pair { kernel, vm, maps })
}

/// Map types whose contents user space can read back.
fn comparable(map_type: MapType) -> bool {
    matches!(
        map_type,
        MapType::Array
            | MapType::Hash
            | MapType::LruHash
            | MapType::PercpuArray
            | MapType::PercpuHash
            | MapType::LpmTrie
    )
}

type Contents = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

impl Pair {
    fn kernel_maps(&self) -> Contents {
        let mut contents = Contents::new();
        for name in &self.maps {
            let Ok(map) = self.kernel.map(name) else { continue };
            let Ok(mut entries) = map.entries(4096) else { continue };
            entries.sort();
            contents.insert(name.clone(), entries);
        }
        contents
    }

    fn vm_maps(&self, of: &Contents) -> Contents {
        let mut all = self.vm.snapshot();
        all.retain(|name, _| of.contains_key(name));
        all
    }

    fn run(&mut self, program: &str, engine: Engine, packet: &[u8], context: &[u8]) -> Result<(), String> {
        let prog = self.kernel.program(program).map_err(|error| error.to_string())?;
        let input = TestInput { packet: packet.to_vec(), context: context.to_vec(), repeat: 1 };
        let expected = prog.test_run(&input);
        let given = (!context.is_empty()).then_some(context);
        let actual = self.vm.run(program, &Input { packet, context: given, repeat: 1 }, engine);
        match (expected, actual) {
            (Err(_), Err(_)) => Ok(()),
            (Ok(expected), Ok(actual)) => {
                let same = actual.value as u32 == expected.value
                    && actual.packet == expected.packet
                    && (context.is_empty() || actual.context == expected.context);
                if same {
                    return Ok(());
                }
                Err(format!(
                    "input {packet:02x?}\n context {context:02x?}\n kernel {:#x} {:02x?} {:02x?}\n VM     {:#x} {:02x?} {:02x?}",
                    expected.value, expected.packet, expected.context, actual.value, actual.packet, actual.context
                ))
            }
            (Ok(expected), Err(error)) => Err(format!("kernel {:#x}, VM: {error}\n {packet:02x?}", expected.value)),
            (Err(error), Ok(actual)) => Err(format!("kernel: {error}, VM {:#x}\n {packet:02x?}", actual.value)),
        }
    }
}

/// Runs all packets through both engines and the kernel.
fn agree(name: &str, bytes: &[u8], program: &str, packets: &[Vec<u8>], context: &[u8]) -> Result<(), String> {
    for engine in [Engine::Interpreter, Engine::Jit] {
        let mut pair = pair(name, bytes, &[program])?;
        for packet in packets {
            pair.run(program, engine, packet, context).map_err(|error| format!("{engine:?}: {error}"))?;
        }
        let expected = pair.kernel_maps();
        let actual = pair.vm_maps(&expected);
        if actual != expected {
            return Err(format!("{engine:?}: maps differ\n kernel {expected:02x?}\n VM {actual:02x?}"));
        }
    }
    Ok(())
}

#[test]
fn bench_programs_agree() {
    if !kernel() {
        return;
    }
    let packets = packets(24);
    let mut failures = Vec::new();
    let mut agreed = 0;
    let folder = root().join("bench/programs");
    for entry in std::fs::read_dir(&folder).expect("bench programs").flatten() {
        let path = entry.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".bpf.c"))
        else {
            continue;
        };
        let Some(bytes) = compile(&path) else { return };
        match agree(name, &bytes, name, &packets, &[]) {
            Ok(()) => agreed += 1,
            Err(failure) => failures.push(format!("{name}: {failure}")),
        }
    }
    println!("{agreed} bench programs agree");
    for failure in &failures {
        println!("{}", &failure[..failure.len().min(1500)]);
    }
    assert!(failures.is_empty(), "{} programs disagree", failures.len());
}
