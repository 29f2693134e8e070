//! One extension, compiled, sandboxed and loaded, with its heap and global variables.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use kiln_linux::{LoadedObject, ObjectFile, TestInput};
use kiln_program::Object;
use kiln_program::btf::Btf;
use kiln_sandbox::supply::{self, Memory, NoMemory};
use kiln_sandbox::{Options, sandbox};
use kiln_vm::{Engine, Vm};

/// The VM's engines.
pub const ENGINES: [(&str, Engine); 2] = [("interpreter", Engine::Interpreter), ("jit", Engine::Jit)];

/// The connection whose end at `LOCAL` programs find in the VM.
pub const LOCAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80);
pub const REMOTE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 40000);

/// The heap's map.
const HEAP: &str = "kiln_heap_map";

/// An extension, compiled and sandboxed.
pub struct Extension {
    pub object: Object,
    pub bytes: Vec<u8>,
}

/// The running kernel's types, if they are readable.
pub fn kernel_types() -> Option<Arc<Btf>> {
    static TYPES: LazyLock<Option<Arc<Btf>>> =
        LazyLock::new(|| Some(Arc::new(Btf::parse(&std::fs::read("/sys/kernel/btf/vmlinux").ok()?).ok()?)));
    TYPES.clone()
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Compiles a source and sandboxes it. Prints a skip and returns `None` if there is no clang 19.
pub fn compile(source: &str, quantum: Duration) -> Option<Extension> {
    compile_with(source, quantum, &[])
}

/// The same, with more arguments for clang.
pub fn compile_with(source: &str, quantum: Duration, arguments: &[&str]) -> Option<Extension> {
    let bytes = compiled(source, &[&["-mcpu=v4"], arguments].concat())?;
    let verifier = kiln_verifier::Options { kernel_types: kernel_types(), ..Default::default() };
    let options = Options { quantum_ns: quantum.as_nanos() as u64, verifier, ..Options::default() };
    Some(Extension::of(&bytes, &options).unwrap_or_else(|error| panic!("{source}: {error}")))
}

impl Extension {
    /// Sandboxes an object file.
    pub fn of(bytes: &[u8], options: &Options) -> Result<Extension, kiln_sandbox::Error> {
        let elf = kiln_elf::read("extension", bytes).expect("an object");
        let rewrite = sandbox(&elf.object, options)?;
        let bytes = elf.write(&rewrite.object).expect("the result is written");
        let object = kiln_elf::read("extension", &bytes).expect("the result is an object").object;
        Ok(Extension { object, bytes })
    }
}

/// Compiles a source that needs no sandbox. Prints a skip and returns `None` if there is no clang 19.
pub fn compile_plain(source: &str, arguments: &[&str]) -> Option<Extension> {
    let bytes = compiled(source, arguments)?;
    let object = kiln_elf::read("extension", &bytes).expect("an object").object;
    Some(Extension { object, bytes })
}

/// The object file that clang makes of a source.
pub fn compiled(source: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    if Command::new("clang-19").arg("--version").output().is_err() {
        println!("skipped: clang-19 is not installed");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output: PathBuf = folder.path().join("extension.o");
    let status = Command::new("clang-19")
        .args(["-target", "bpf", "-O2", "-g", "-Wall", "-Werror", "-mllvm", "-disable-loop-idiom-all", "-c", "-o"])
        .arg(&output)
        .args(arguments)
        .arg("-I")
        .arg(root().join("bpf/include"))
        .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        .arg(root().join(source))
        .status();
    assert!(status.expect("clang runs").success(), "clang refuses {source}");
    Some(std::fs::read(&output).expect("clang wrote it"))
}

/// The object file that clang makes of a source text. Prints a skip and returns `None` if there is no clang 19.
pub fn compiled_text(text: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("source.bpf.c");
    std::fs::write(&path, text).expect("is written");
    compiled(path.to_str().expect("a path"), &["-mcpu=v4", "-Wno-unused"])
}

/// Compiles a source as native code into a folder, with more arguments for clang; gives the program.
pub fn compile_native(source: &str, folder: &Path, arguments: &[&str]) -> PathBuf {
    let program = folder.join("native");
    let built = Command::new("clang-19")
        .args(arguments)
        .args(["-O2", "-I"])
        .arg(root().join("bpf/include"))
        .arg(root().join(source))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.expect("clang runs").success(), "clang refuses {source}");
    program
}

/// Keeps this thread on one CPU, so that its runs use one CPU's slabs.
pub fn stay_on_one_cpu() {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &cpus).expect("may choose its CPU");
}

/// An extension where it runs.
pub struct World {
    pub place: Place,
    variable_bytes: usize,
}

pub enum Place {
    /// Loaded into the kernel.
    Kernel(LoadedObject),
    /// In the VM, on one of its engines.
    Vm(Box<Vm>, Engine),
}

/// A heap as user space sees it, wherever the extension runs.
pub enum Heap<'w> {
    Kernel(kiln_linux::Heap<'w>),
    Vm(kiln_vm::Heap<'w>),
}

impl Memory for Heap<'_> {
    fn address(&self) -> u64 {
        match self {
            Heap::Kernel(heap) => heap.address(),
            Heap::Vm(heap) => heap.address(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Heap::Kernel(heap) => heap.bytes(),
            Heap::Vm(heap) => heap.bytes(),
        }
    }

    fn load(&self, offset: usize) -> Option<u64> {
        match self {
            Heap::Kernel(heap) => heap.load(offset),
            Heap::Vm(heap) => heap.load(offset),
        }
    }

    fn store(&self, offset: usize, value: u64) -> Option<()> {
        match self {
            Heap::Kernel(heap) => heap.store(offset, value),
            Heap::Vm(heap) => heap.store(offset, value),
        }
    }

    fn compare_exchange(&self, offset: usize, expected: u64, new: u64) -> Option<u64> {
        match self {
            Heap::Kernel(heap) => heap.compare_exchange(offset, expected, new),
            Heap::Vm(heap) => heap.compare_exchange(offset, expected, new),
        }
    }

    /// In the VM, pages are there when they are touched.
    fn populate(&self, offset: usize, bytes: usize) -> Result<(), NoMemory> {
        match self {
            Heap::Kernel(heap) => heap.populate(offset, bytes).map_err(|error| NoMemory::Damaged(error.to_string())),
            Heap::Vm(_) => Ok(()),
        }
    }
}

impl World {
    /// The extension on both engines of the VM, and in the kernel. Prints a skip if there is no kernel to use.
    pub fn all(extension: &Extension, programs: &[&str]) -> Vec<(&'static str, World)> {
        let vm = |(name, engine)| Some((name, World::vm(extension, programs, engine, kiln_vm::Options::default())?));
        let mut worlds: Vec<_> = ENGINES.into_iter().filter_map(vm).collect();
        worlds.extend(World::kernel(extension).map(|world| ("kernel", world)));
        worlds
    }

    /// The extension on an engine of the VM, with a socket. Prints a skip and returns `None` if it is not compiled.
    pub fn vm(
        extension: &Extension,
        programs: &[&str],
        engine: Engine,
        mut options: kiln_vm::Options,
    ) -> Option<World> {
        options.kernel_types = kernel_types();
        let socket = kiln_vm::Socket { protocol: 6, local: LOCAL.into(), remote: Some(REMOTE.into()) };
        options.surroundings.sockets = vec![socket];
        let mut vm = Vm::new(&extension.object, options).expect("the VM has its maps");
        for program in programs {
            vm.load(program).unwrap_or_else(|error| panic!("{program}: {error}"));
        }
        let uncompiled = programs.iter().find_map(|program| vm.compiled(program).err());
        match uncompiled.filter(|_| engine == Engine::Jit) {
            Some(why) => {
                println!("skipped: compiled code: {why}");
                None
            }
            None => Some(World::new(extension, Place::Vm(Box::new(vm), engine))),
        }
    }

    /// The extension in the kernel. Prints a skip and returns `None` if there is no kernel to use.
    pub fn kernel(extension: &Extension) -> Option<World> {
        if let Err(error) = kiln_linux::available() {
            println!("skipped: the kernel: {error}");
            return None;
        }
        let file = ObjectFile::open("extension", &extension.bytes).expect("libbpf reads it");
        let loaded = file.load().unwrap_or_else(|failure| panic!("the kernel: {failure}"));
        Some(World::new(extension, Place::Kernel(loaded)))
    }

    pub fn new(extension: &Extension, place: Place) -> World {
        let heap = extension.object.maps.iter().find(|map| map.name == HEAP);
        World { place, variable_bytes: heap.map_or(0, supply::variable_bytes) }
    }

    /// Gives the allocator memory; whether there is one.
    pub fn supply(&self, bytes: usize) -> bool {
        supply::supply(&self.heap(), self.variable_bytes, bytes).expect("memory")
    }

    /// The heap.
    pub fn heap(&self) -> Heap<'_> {
        match &self.place {
            Place::Kernel(loaded) => Heap::Kernel(loaded.heap(HEAP).expect("the heap")),
            Place::Vm(vm, _) => Heap::Vm(vm.heap(vm.map(HEAP).expect("the heap")).expect("the heap")),
        }
    }

    /// Zero-initialized global variables.
    pub fn globals(&self) -> Vec<u8> {
        self.value(".bss")
    }

    pub fn set_globals(&self, value: &[u8]) {
        self.set_value(".bss", value);
    }

    /// The variables of a data section.
    pub fn value(&self, section: &str) -> Vec<u8> {
        let key = 0u32.to_le_bytes();
        let found = match &self.place {
            Place::Kernel(loaded) => loaded.map(section).expect("variables").lookup(&key).expect("reads"),
            Place::Vm(vm, _) => vm.look_up(vm.map(section).expect("variables"), &key).expect("reads"),
        };
        found.expect("is there")
    }

    pub fn set_value(&self, section: &str, value: &[u8]) {
        let key = 0u32.to_le_bytes();
        match &self.place {
            Place::Kernel(loaded) => {
                loaded.map(section).expect("variables").update(&key, value, 0).expect("writes");
            }
            Place::Vm(vm, _) => {
                let map = vm.map(section).expect("variables");
                vm.update(map, &key, value, kiln_vm::UpdateFlag::Any).expect("writes");
            }
        }
    }

    /// Runs a program on a packet: what it returned, and the packet afterwards.
    pub fn run(&self, program: &str, packet: &[u8]) -> (u32, Vec<u8>) {
        match &self.place {
            Place::Kernel(loaded) => {
                let input = TestInput { packet: packet.to_vec(), ..TestInput::default() };
                let output = loaded.program(program).expect("loaded").test_run(&input).expect("runs");
                (output.value, output.packet)
            }
            Place::Vm(vm, engine) => {
                let output = vm.run(program, &kiln_vm::Input::packet(packet), *engine).expect("runs");
                (output.value as u32, output.packet)
            }
        }
    }
}

/// Where a global variable is in `.bss`, from BTF.
pub fn global(object: &Object, name: &str) -> usize {
    variable(object, ".bss", name)
}

/// Where a variable is in a data section, from BTF.
pub fn variable(object: &Object, section: &str, name: &str) -> usize {
    let btf = Btf::parse(object.btf.as_ref().expect("BTF")).expect("BTF");
    let section = btf.named(section).next().expect("global variables");
    let found = btf.variables(section).iter().find(|variable| btf.name(variable.type_id) == name);
    found.unwrap_or_else(|| panic!("no variable {name}")).offset as usize
}

pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
