//! What landing pads return is what the kernel takes: of each hook that takes certain results, and of each kind of function that
//! something runs.

use std::time::Duration;

use kiln_sandbox::Options;

use crate::world::{Extension, compile, compiled, kernel_types};

const SOURCE: &str = "tests/heaps/results.bpf.c";

#[test]
fn the_kernel_takes_what_landing_pads_return() {
    let Some(extension) = compile(SOURCE, Duration::from_millis(5)) else { return };
    if let Err(error) = kiln_linux::available() {
        return println!("skipped: the kernel: {error}");
    }
    let mut loaded = 0;
    for program in &extension.object.programs {
        let mut file = kiln_linux::ObjectFile::open("extension", &extension.bytes).expect("libbpf reads it");
        file.only(&[&program.name]).expect("is there");
        match file.load() {
            Ok(_) => loaded += 1,
            // No verdict: the machine's kernel has no such hook.
            Err(failure) if failure.reason().is_none() => println!("skipped: {}: {failure}", program.name),
            Err(failure) => panic!("{}: {}", program.name, failure.why()),
        }
    }
    assert!(loaded >= 15, "{loaded} programs were loaded");
}

#[test]
fn a_result_that_the_hook_does_not_take_is_refused() {
    let Some(bytes) = compiled(SOURCE, &["-mcpu=v4"]) else { return };
    let verifier = kiln_verifier::Options { kernel_types: kernel_types(), ..Default::default() };
    let options = Options { cancelled_return: Some(7), verifier, ..Options::default() };
    let error = Extension::of(&bytes, &options).err().expect("7 is refused").to_string();
    assert!(error.contains("cannot return 7: the hook takes 0 to 1"), "{error}");
}
