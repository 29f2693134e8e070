//! Runs `tests/filetests/sandbox/*.bpf`: each is sandboxed, and the result must load and run in the kernel and in the VM.
//!
//! `; sandboxed: points N bounded N return N` states how many loops can be cancelled, how many need not be, and what the
//! sandboxed program returns for a packet of 64 bytes, of which byte `n` is `n`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_linux::TestInput;
use kiln_program::btf::Btf;
use kiln_program::text::parse_annotated;
use kiln_sandbox::{Options, Rewrite, sandbox};
use kiln_vm::{Engine, Input, Vm};

/// What a file expects.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    points: usize,
    bounded: usize,
    value: u32,
}

impl Expected {
    fn parse(text: &str) -> Option<Expected> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["points", points, "bounded", bounded, "return", value] => Some(Expected {
                points: points.parse().ok()?,
                bounded: bounded.parse().ok()?,
                value: value.parse().ok()?,
            }),
            _ => None,
        }
    }
}

fn packet() -> Vec<u8> {
    (0..64).collect()
}

/// The running kernel's types, which calls of its functions need.
fn kernel_types() -> Option<Arc<Btf>> {
    Some(Arc::new(Btf::parse(&std::fs::read("/sys/kernel/btf/vmlinux").ok()?).ok()?))
}

fn in_the_vm(name: &str, rewrite: &Rewrite, expected: &Expected, types: Option<Arc<Btf>>) {
    let program = &rewrite.object.programs[0].name;
    let options = kiln_vm::Options { kernel_types: types, ..kiln_vm::Options::default() };
    let mut vm = Vm::new(&rewrite.object, options).expect("maps");
    match vm.load(program) {
        Ok(_) => {}
        // The kernel runs it.
        Err(error @ kiln_vm::Error::Unsupported { .. }) => return println!("{name}: {error}"),
        Err(error) => panic!("{name}: {error}"),
    }
    for engine in [Engine::Interpreter, Engine::Jit] {
        if engine == Engine::Jit && vm.compiled(program).is_err() {
            println!("skipped: {name}: not compiled here");
            continue;
        }
        let output = vm.run(program, &Input::packet(&packet()), engine).expect("runs");
        assert_eq!(output.value as u32, expected.value, "{name}: {engine:?}");
    }
}

fn in_the_kernel(name: &str, rewrite: &Rewrite, expected: &Expected) {
    if let Err(error) = kiln_linux::available() {
        println!("skipped: the kernel: {error}");
        return;
    }
    let loaded = kiln_linux::load_image(&rewrite.object, &rewrite.object.programs[0]);
    let loaded = match loaded {
        Ok(loaded) => loaded,
        // Text has no BTF, which the kernel needs for functions that helpers run: `heaps/callbacks.rs` shows those.
        Err(failure) if failure.why() == "missing btf func_info" => return,
        Err(failure) => panic!("{name}: the kernel: {failure}: {}", failure.why()),
    };
    let input = TestInput { packet: packet(), ..TestInput::default() };
    let output = loaded.prog.test_run(&input).expect("runs");
    assert_eq!(output.value, expected.value, "{name}: kernel");
}

fn one_file(path: &Path, types: Option<Arc<Btf>>) {
    let name = path.file_name().expect("a file").to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).expect("reads");
    let parsed = parse_annotated(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let stated = parsed.annotations.iter().find(|annotation| annotation.key == "sandboxed");
    let stated = stated.and_then(|annotation| Expected::parse(&annotation.value));
    let expected = stated.unwrap_or_else(|| panic!("{name}: `; sandboxed: points N bounded N return N`"));
    if types.is_none() && !parsed.object.externs.is_empty() {
        return println!("skipped: {name}: the kernel's types are not readable");
    }
    let verifier = kiln_verifier::Options { kernel_types: types.clone(), ..Default::default() };
    let options = Options { quantum_ns: 10_000_000_000, verifier, ..Options::default() };
    let rewrite = sandbox(&parsed.object, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
    let points = rewrite.evidence.iter().map(|of| of.points.len()).sum();
    let bounded = rewrite.evidence.iter().map(|of| of.bounded_loops).sum();
    let found = Expected { points, bounded, value: expected.value };
    assert_eq!(found, expected, "{name}");
    in_the_vm(&name, &rewrite, &expected, types);
    in_the_kernel(&name, &rewrite, &expected);
}

#[test]
fn sandboxed_programs_load_and_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/filetests/sandbox");
    let entries = std::fs::read_dir(folder).expect("the folder of filetests");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "there are filetests");
    let types = kernel_types();
    for file in &files {
        one_file(file, types.clone());
    }
}
