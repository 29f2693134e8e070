//! Safe Rust cannot make the VM run what the verifier did not accept, nor make it leave its own memory.
//!
//! This test forbids unsafe code, as a user of the library may. Each `compile_fail` route is a doc test of
//! `kiln_vm::exec`, `kiln_vm::Vm` and `kiln_linux::MapHandle`; what compiles is tried here.
#![forbid(unsafe_code)]

use kiln_vm::{Engine, Error, Input, Options, Surroundings, Vm};

fn object(text: &str) -> kiln_program::Object {
    kiln_program::text::parse(text).expect("it parses")
}

const PASS: &str = "; program xdp name p\nr0 = 2\nexit";

#[test]
fn a_program_that_was_not_loaded_does_not_run() {
    let vm = Vm::new(&object(PASS), Options::default()).expect("a VM");
    for engine in [Engine::Interpreter, Engine::Jit] {
        assert!(matches!(vm.run("p", &Input::packet(&[0; 64]), engine), Err(Error::Missing { .. })));
    }
}

#[test]
fn a_program_that_was_refused_does_not_run() {
    let text = "; program xdp name p\nr1 = 0x41414141 ll\n*(u64 *)(r1 + 0) = r1\nr0 = 2\nexit";
    let mut vm = Vm::new(&object(text), Options::default()).expect("a VM");
    assert!(matches!(vm.load("p"), Err(Error::Rejected { .. })));
    for engine in [Engine::Interpreter, Engine::Jit] {
        assert!(matches!(vm.run("p", &Input::packet(&[0; 64]), engine), Err(Error::Missing { .. })));
    }
}

/// Bytes of machine code can be mapped, to see whether that works here, but not called.
#[test]
fn machine_code_of_any_kind_is_mapped_and_not_called() {
    assert!(kiln_vm::exec::Program::new(&[0xc3]).is_ok());
}

/// Values of per-CPU maps are found by the CPU's number.
#[test]
fn programs_run_on_a_cpu_that_there_is() {
    let with = |cpus, cpu| {
        let surroundings = Surroundings { cpus, cpu, ..Surroundings::default() };
        Vm::new(&object(PASS), Options { surroundings, ..Options::default() }).map(|_| ())
    };
    for (cpus, cpu) in [(0, 0), (1, 1), (4, 4), (4, u32::MAX), (u32::MAX, 0)] {
        assert!(matches!(with(cpus, cpu), Err(Error::Surroundings(_))), "{cpus} {cpu}");
    }
    with(4, 3).expect("the last of four");
}

/// An object changed after it was verified is another object: the VM keeps its own.
#[test]
fn the_object_that_was_verified_is_the_one_that_runs() {
    let mut own = object(PASS);
    let mut vm = Vm::new(&own, Options::default()).expect("a VM");
    vm.load("p").expect("it is accepted");
    own.functions[0].nodes.truncate(1);
    let ran = vm.run("p", &Input::packet(&[0; 64]), Engine::Jit).expect("a run");
    assert_eq!(ran.value, 2);
}
