//! The VM against the running kernel: the same object, the same packets, in both; return value, packet bytes, context
//! and map contents must agree. Programs are those that the kernel's own verifier accepts.

#[path = "kernel/sockets.rs"]
mod sockets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kiln_isa::{AluOp, Insn, Width};
use kiln_linux::{LoadedObject, ObjectFile, TestInput, TestOutput};
use kiln_platform::{AttachType, MapType, ProgramType};
use kiln_program::Object;
use kiln_program::btf::Btf;
use kiln_vm::{Engine, Input, Options, RunResult, Vm};

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
    /// One VM an engine, since runs change maps.
    vms: [(Engine, Vm); 2],
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
    // A program that a test makes wrong may have a loop without end.
    let mut options = Options { budget: 1 << 22, ..Options::default() };
    options.surroundings.cpus = cpus();
    options.surroundings.cpu = stay_on_one_cpu();
    options
}

/// Loads an object on both sides; says why where one side cannot.
fn pair(name: &str, bytes: &[u8], programs: &[&str]) -> Result<Pair, String> {
    let mut object = kiln_elf::read(name, bytes).map_err(|error| format!("reading: {error}"))?.object;
    kiln_idiom::annotate(&mut object, &options().operations);
    pair_of(name, &object, bytes, programs)
}

/// The same, with another object for the VM.
fn pair_of(name: &str, object: &Object, bytes: &[u8], programs: &[&str]) -> Result<Pair, String> {
    let mut file = ObjectFile::open(name, bytes).map_err(|error| format!("libbpf: {error}"))?;
    file.only(programs).map_err(|error| error.to_string())?;
    let kernel = file.load().map_err(|error| {
        format!("kernel: {error}{}", error.reason().map_or(String::new(), |reason| format!(": {reason}")))
    })?;
    let vms = [(Engine::Interpreter, vm_of(object, programs)?), (Engine::Jit, vm_of(object, programs)?)];
    let shown = |map: &&kiln_program::Map| comparable(map.map_type);
    let maps = object.maps.iter().filter(shown).map(|map| map.name.clone()).collect();
    Ok(Pair { kernel, vms, maps })
}

/// A VM with programs that the kernel's verifier accepted.
fn vm_of(object: &Object, programs: &[&str]) -> Result<Vm, String> {
    let mut vm = Vm::new(object, options()).map_err(|error| format!("VM: {error}"))?;
    for program in programs {
        // SAFETY: the caller has loaded it into the kernel.
        unsafe { vm.load_unverified(program) }.map_err(|error| format!("VM: {error}"))?;
        vm.compiled(program).map_err(|error| format!("JIT: {error}"))?;
    }
    Ok(vm)
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
            let Ok(mut entries) = map.entries(1 << 20) else { continue };
            entries.sort();
            contents.insert(name.clone(), entries);
        }
        contents
    }

    fn run(&mut self, program: &str, packet: &[u8], context: &[u8]) -> Result<(), String> {
        let prog = self.kernel.program(program).map_err(|error| error.to_string())?;
        let input = TestInput { packet: packet.to_vec(), context: context.to_vec(), repeat: 1 };
        let expected = prog.test_run(&input);
        let given = (!context.is_empty()).then_some(context);
        for (engine, vm) in &mut self.vms {
            let actual = vm.run(program, &Input { packet, context: given, repeat: 1 }, *engine);
            same_result(&expected, &actual, context).map_err(|difference| {
                format!("{engine:?}: {difference}\n input  {packet:02x?}\n ctx    {context:02x?}")
            })?;
        }
        Ok(())
    }

    fn same_maps(&self) -> Result<(), String> {
        let expected = self.kernel_maps();
        for (engine, vm) in &self.vms {
            let mut actual = vm.snapshot();
            actual.retain(|name, _| expected.contains_key(name));
            if actual != expected {
                let differing = expected.iter().filter(|(name, entries)| actual.get(*name) != Some(entries));
                let shown: Vec<_> = differing
                    .map(|(name, entries)| differences(name, entries, actual.get(name).map_or(&[][..], |all| all)))
                    .collect();
                return Err(format!("{engine:?}: maps differ\n {}", shown.join("\n ")));
            }
        }
        Ok(())
    }
}

/// Where two maps' contents differ: the words of the first differing entry.
fn differences(name: &str, kernel: &[(Vec<u8>, Vec<u8>)], vm: &[(Vec<u8>, Vec<u8>)]) -> String {
    let words = |value: &[u8]| value.chunks(8).map(<[u8]>::to_vec).collect::<Vec<_>>();
    if kernel.len() != vm.len() {
        return format!("{name}: kernel {kernel:02x?}\n VM {vm:02x?}");
    }
    for ((key, expected), (other_key, actual)) in kernel.iter().zip(vm) {
        if key != other_key {
            return format!("{name}: kernel key {key:02x?}, VM key {other_key:02x?}");
        }
        for (at, (expected, actual)) in words(expected).iter().zip(words(actual)).enumerate() {
            if *expected != actual {
                return format!("{name}[{key:02x?}] word {at}: kernel {expected:02x?}, VM {actual:02x?}");
            }
        }
    }
    name.to_owned()
}

fn same_result(
    expected: &Result<TestOutput, kiln_linux::Error>,
    actual: &Result<RunResult, kiln_vm::Error>,
    context: &[u8],
) -> Result<(), String> {
    match (expected, actual) {
        (Err(_), Err(_)) => Ok(()),
        (Ok(expected), Ok(actual)) => {
            let same = actual.value as u32 == expected.value
                && actual.packet == expected.packet
                && (context.is_empty() || actual.context == expected.context);
            if same {
                return Ok(());
            }
            let differs = expected.packet.iter().zip(&actual.packet).position(|(one, other)| one != other);
            let lengths = (expected.packet.len(), actual.packet.len());
            Err(format!(
                "kernel {:#x}, VM {:#x}, lengths {lengths:?}, first difference {differs:?}\n kernel {:02x?}\n VM     {:02x?}\n kernel {:02x?}\n VM     {:02x?}",
                expected.value, actual.value, expected.packet, actual.packet, expected.context, actual.context
            ))
        }
        (Ok(expected), Err(error)) => Err(format!("kernel {:#x}, VM: {error}", expected.value)),
        (Err(error), Ok(actual)) => Err(format!("kernel: {error}, VM {:#x}", actual.value)),
    }
}

/// Runs all packets through both engines and the kernel.
fn agree(name: &str, bytes: &[u8], program: &str, packets: &[Vec<u8>], context: &[u8]) -> Result<(), String> {
    let mut pair = pair(name, bytes, &[program])?;
    for packet in packets {
        pair.run(program, packet, context)?;
    }
    pair.same_maps()
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
            Err(failure) if failure.starts_with("kernel:") => println!("skipped: {name}: {failure}"),
            Err(failure) => failures.push(format!("{name}: {failure}")),
        }
    }
    println!("{agreed} bench programs agree");
    for failure in &failures {
        println!("{}", &failure[..failure.len().min(1500)]);
    }
    assert!(failures.is_empty(), "{} programs disagree", failures.len());
}

/// The objects of a folder, `KILN_OBJECTS`, and of its folders, with one program each, and programs as text (`.bpf`):
/// `scripts/arm64-kernel` fills it on another machine than this one. The canary: in every tenth, the VM subtracts where
/// the kernel adds.
#[test]
fn objects_of_a_folder_agree() {
    let Some(folder) = std::env::var_os("KILN_OBJECTS") else { return println!("skipped: KILN_OBJECTS is not set") };
    assert!(kernel(), "the kernel is wanted");
    let packets = packets(24);
    let (mut agreed, mut refused, mut operations, mut found, mut failures) = (0, 0, 0, 0, Vec::new());
    for path in files_in(Path::new(&folder)) {
        let file = File::read(&path);
        operations += file.object.operations.len();
        match file.agrees(&file.object, &packets) {
            Ok(()) => agreed += 1,
            Err(failure) if failure.starts_with("kernel:") => refused += 1,
            Err(failure) => failures.push(format!("{}: {}", file.name, &failure[..failure.len().min(1500)])),
        }
        let compared = agreed + refused + failures.len();
        if compared % 100 == 0 {
            println!("{compared} compared");
        }
        if compared % 10 == 1 {
            found += usize::from(file.agrees(&subtracting(&file.object), &packets).is_err());
        }
    }
    println!(
        "{agreed} programs with {operations} native operations agree on {} packets each; the kernel refuses {refused}; \
         {found} wrong ones found; {} differ",
        packets.len(),
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(agreed > 0 && found > 0, "nothing was compared");
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).expect("a folder").flatten().map(|it| it.path()).collect();
    all.sort();
    let inside = |path: PathBuf| if path.is_dir() { files_in(&path) } else { vec![path] };
    all.into_iter().flat_map(inside).collect()
}

/// A program of a file.
struct File {
    name: String,
    /// What libbpf loads; nothing for a program as text, which is loaded from the IR.
    bytes: Vec<u8>,
    object: Object,
}

impl File {
    fn read(path: &Path) -> File {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).expect("a file");
        let (bytes, mut object) = if path.extension().is_some_and(|it| it == "bpf") {
            (Vec::new(), kiln_program::text::parse(&String::from_utf8_lossy(&bytes)).expect("a program"))
        } else {
            let object = kiln_elf::read(&name, &bytes).expect("an object").object;
            (bytes, object)
        };
        kiln_idiom::annotate(&mut object, &options().operations);
        File { name, bytes, object }
    }

    /// Compares the program in the kernel with that of another object in the VM.
    fn agrees(&self, object: &Object, packets: &[Vec<u8>]) -> Result<(), String> {
        let program = &self.object.programs[0];
        if !self.bytes.is_empty() {
            let mut pair = pair_of(&self.name, object, &self.bytes, &[&program.name])?;
            packets.iter().try_for_each(|packet| pair.run(&program.name, packet, &[]))?;
            return pair.same_maps();
        }
        let loaded =
            kiln_linux::load_image(&self.object, program).map_err(|error| format!("kernel: {}", error.why()))?;
        let vm = vm_of(object, &[&program.name])?;
        for packet in packets {
            let expected = loaded.prog.test_run(&TestInput { packet: packet.clone(), context: Vec::new(), repeat: 1 });
            for engine in [Engine::Interpreter, Engine::Jit] {
                let actual = vm.run(&program.name, &Input::packet(packet), engine);
                same_result(&expected, &actual, &[]).map_err(|difference| format!("{engine:?}: {difference}"))?;
            }
        }
        Ok(())
    }
}

/// The same object with every addition of 32 bits a subtraction. The interpreter, which checks every access, runs each
/// input before compiled code does, and what it refuses is a difference.
fn subtracting(object: &Object) -> Object {
    let mut wrong = object.clone();
    wrong.operations.clear();
    for node in wrong.functions.iter_mut().flat_map(|function| &mut function.nodes) {
        if let Insn::Alu { op: op @ AluOp::Add, width: Width::W32, .. } = &mut node.insn {
            *op = AluOp::Sub;
        }
    }
    wrong
}

/// Whether a program's result depends on what no two runs share (clocks, random numbers, addresses, stack bytes it
/// never wrote): two VMs that differ in just these tell.
fn depends_on_surroundings(name: &str, bytes: &[u8], program: &str, packets: &[Vec<u8>]) -> bool {
    let Ok(read) = kiln_elf::read(name, bytes) else { return false };
    let run = |fill: u8| {
        let mut options = options();
        options.stack_fill = fill;
        options.surroundings.random ^= u64::from(fill) << 40;
        options.surroundings.clock = kiln_vm::Clock::Fixed(1 + u64::from(fill));
        let mut vm = Vm::new(&read.object, options).ok()?;
        // SAFETY: only the interpreter runs it, which checks every access.
        unsafe { vm.load_unverified(program) }.ok()?;
        let mut results = Vec::new();
        for packet in packets {
            let result = vm.run(program, &Input::packet(packet), Engine::Interpreter);
            results.push(result.map(|result| (result.value as u32, result.packet)).map_err(|_| ()));
        }
        Some((results, vm.snapshot(), vm))
    };
    // Both live at once, so that their memory is at different addresses.
    let (first, second) = (run(0x11), run(0xe7));
    match (first, second) {
        (Some(first), Some(second)) => first.0 != second.0 || first.1 != second.1,
        _ => false,
    }
}

#[test]
fn helpers_agree() {
    if !kernel() {
        return;
    }
    let mut packets = packets(400);
    // Arguments are taken from the end: make small values as likely as large ones.
    let mut random = Random(0x9876_5432_10fe_dcb1);
    for packet in &mut packets {
        let start = packet.len().saturating_sub(20);
        for byte in &mut packet[start..] {
            if random.below(3) == 0 {
                *byte = [0, 1, 0xff, 4][random.below(4) as usize];
            }
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut failures = Vec::new();
    let mut agreed = 0;
    let kernel_types =
        Btf::parse(&std::fs::read("/sys/kernel/btf/vmlinux").expect("the kernel's types")).expect("types");
    let verifier = kiln_verifier::Options { kernel_types: Some(Arc::new(kernel_types)), ..Default::default() };
    for source in ["xdp_resize", "maps", "socket_buffer", "text", "dynptr"] {
        let Some(bytes) = compile(&folder.join(format!("{source}.bpf.c"))) else { return };
        let object = kiln_elf::read(source, &bytes).expect("an object").object;
        for program in &object.programs {
            let verified = kiln_verifier::verify(&object, program, &verifier);
            assert!(verified.is_ok(), "the kernel accepts {source}: {}: {:?}", program.name, verified.err());
            match agree_step_by_step(source, &bytes, &program.name, &packets) {
                Ok(()) => agreed += 1,
                Err(failure) => failures.push(format!("{source}: {}: {failure}", program.name)),
            }
        }
    }
    println!("{agreed} helper programs agree");
    for failure in &failures {
        println!("DISAGREE {}", &failure[..failure.len().min(2500)]);
    }
    assert!(failures.is_empty(), "{} programs disagree", failures.len());
}

/// Like [`agree`], comparing maps after every packet.
fn agree_step_by_step(name: &str, bytes: &[u8], program: &str, packets: &[Vec<u8>]) -> Result<(), String> {
    let mut pair = pair(name, bytes, &[program])?;
    for (at, packet) in packets.iter().enumerate() {
        let with_input = |failure| format!("packet {at}: {failure}\n input {packet:02x?}");
        pair.run(program, packet, &[]).map_err(with_input)?;
        pair.same_maps().map_err(with_input)?;
    }
    Ok(())
}

/// Programs whose result means nothing outside the kernel, with the reason.
const NOT_COMPARABLE: &[(&str, &str)] = &[
    ("array_map_using_bpf_b", "stores a byte of its stack's address"),
    ("test22_x_pkt_ptr_3", "stores two bytes of the packet's address"),
    ("read_non_existent_field_rejected", "reads the kernel's struct bpf_map"),
    ("ptr_read_ops_field_accepted", "reads the kernel's struct bpf_map"),
];

/// Whether the kernel can test-run such programs, and the VM has their hook.
fn can_be_run(program: &kiln_program::Program) -> bool {
    let refused = [AttachType::XdpDevmap, AttachType::XdpCpumap];
    let fits = |program_type| match program_type {
        ProgramType::SkSkb | ProgramType::FlowDissector => false,
        other => other == ProgramType::Xdp || kiln_platform::SOCKET_BUFFER.contains(other),
    };
    program.program_type.is_some_and(fits) && !program.attach_type.is_some_and(|attach| refused.contains(&attach))
}

/// Objects of the corpus that `scripts/corpus` made.
fn corpus() -> Vec<PathBuf> {
    let mut objects = Vec::new();
    for folder in ["xdp-tools", "samples-6.1", "selftests-6.12"] {
        let Ok(entries) = std::fs::read_dir(root().join("target/corpus").join(folder)) else { continue };
        objects
            .extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some("o".as_ref())));
    }
    objects.sort();
    objects
}

#[test]
fn corpus_programs_agree() {
    if !kernel() {
        return;
    }
    let objects = corpus();
    if objects.is_empty() {
        println!("skipped: no corpus (make it with scripts/corpus)");
        return;
    }
    let only = std::env::var("KILN_ONLY").ok();
    let packets = packets(48);
    let (mut agreed, mut incomparable) = (0, 0);
    let (mut failures, mut refused) = (Vec::new(), BTreeMap::<String, usize>::new());
    for path in objects {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let bytes = std::fs::read(&path).expect("object");
        let Ok(read) = kiln_elf::read(&name, &bytes) else { continue };
        for program in &read.object.programs {
            if !can_be_run(program) || NOT_COMPARABLE.iter().any(|(name, _)| *name == program.name) {
                continue;
            }
            match agree(&name, &bytes, &program.name, &packets, &[]) {
                Ok(()) => agreed += 1,
                Err(failure)
                    if failure.starts_with("VM:") || failure.starts_with("kernel:") || failure.starts_with("JIT:") =>
                {
                    let reason =
                        failure.split(": ").filter(|part| !part.starts_with("program ")).collect::<Vec<_>>().join(": ");
                    *refused.entry(reason).or_default() += 1;
                }
                Err(_) if depends_on_surroundings(&name, &bytes, &program.name, &packets) => incomparable += 1,
                Err(failure) => failures.push(format!("{name}: {}: {failure}", program.name)),
            }
        }
    }
    println!("{agreed} corpus programs agree; {incomparable} depend on clock, random numbers or addresses");
    for (reason, count) in refused {
        println!("skipped {count}: {reason}");
    }
    for failure in &failures {
        println!("DISAGREE {}", &failure[..failure.len().min(1200)]);
    }
    assert!(failures.is_empty(), "{} programs disagree", failures.len());
}
