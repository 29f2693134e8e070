//! One extension, compiled, sandboxed and loaded, with its heap and global variables.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kiln_linux::{Heap, LoadedObject, ObjectFile, TestInput};
use kiln_program::Object;
use kiln_program::btf::Btf;
use kiln_sandbox::{Options, sandbox};

/// The heap's map.
const HEAP: &str = "kiln_heap_map";

/// An extension, compiled and sandboxed.
pub struct Extension {
    pub object: Object,
    pub bytes: Vec<u8>,
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Compiles a source; `None`, said aloud, where there is no clang 19.
pub fn compile(source: &str, quantum: Duration) -> Option<Extension> {
    if Command::new("clang-19").arg("--version").output().is_err() {
        println!("skipped: clang-19 is not installed");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output: PathBuf = folder.path().join("extension.o");
    let status = Command::new("clang-19")
        .args(["-target", "bpf", "-mcpu=v4", "-O2", "-g", "-mllvm", "-disable-loop-idiom-all", "-c", "-o"])
        .arg(&output)
        .arg("-I")
        .arg(root().join("bpf/include"))
        .arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        .arg(root().join(source))
        .status();
    assert!(status.expect("clang runs").success(), "clang refuses {source}");
    let bytes = std::fs::read(&output).expect("clang wrote it");
    let elf = kiln_elf::read("extension", &bytes).expect("an object");
    let options = Options { quantum_ns: quantum.as_nanos() as u64, ..Options::default() };
    let rewrite = sandbox(&elf.object, &options).unwrap_or_else(|error| panic!("{source}: {error}"));
    let bytes = elf.write(&rewrite.object).expect("the result is written");
    let object = kiln_elf::read("extension", &bytes).expect("the result is an object").object;
    Some(Extension { object, bytes })
}

/// A loaded extension.
pub struct World {
    pub loaded: LoadedObject,
}

impl World {
    /// The extension in the kernel; `None`, said aloud, where there is none.
    pub fn new(extension: &Extension) -> Option<World> {
        if let Err(error) = kiln_linux::available() {
            println!("skipped: the kernel: {error}");
            return None;
        }
        let file = ObjectFile::open("extension", &extension.bytes).expect("libbpf reads it");
        Some(World { loaded: file.load().unwrap_or_else(|failure| panic!("the kernel: {failure}")) })
    }

    /// The heap.
    pub fn heap(&self) -> Heap<'_> {
        self.loaded.heap(HEAP).expect("the heap")
    }

    /// Zero-initialized global variables.
    pub fn globals(&self) -> Vec<u8> {
        let map = self.loaded.map(".bss").expect("global variables");
        map.lookup(&0u32.to_le_bytes()).expect("reads").expect("is there")
    }

    pub fn set_globals(&self, value: &[u8]) {
        let map = self.loaded.map(".bss").expect("global variables");
        map.update(&0u32.to_le_bytes(), value, 0).expect("writes");
    }

    /// Runs a program on a packet: what it returned, and the packet afterwards.
    pub fn run(&self, program: &str, packet: &[u8]) -> (u32, Vec<u8>) {
        let input = TestInput { packet: packet.to_vec(), ..TestInput::default() };
        let output = self.loaded.program(program).expect("loaded").test_run(&input).expect("runs");
        (output.value, output.packet)
    }
}

/// Where a global variable is in `.bss`, from BTF.
pub fn global(object: &Object, name: &str) -> usize {
    let btf = Btf::parse(object.btf.as_ref().expect("BTF")).expect("BTF");
    let section = btf.named(".bss").next().expect("global variables");
    let found = btf.variables(section).iter().find(|variable| btf.name(variable.type_id) == name);
    found.unwrap_or_else(|| panic!("no variable {name}")).offset as usize
}

pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
