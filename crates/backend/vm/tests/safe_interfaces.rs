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

/// Runs a `syscall` program on a context where it is, and, as the interpreter does, on a copy; both leave the same.
fn run_both(text: &str, context: &[u8]) -> Result<(u64, Vec<u8>), Error> {
    let vm = Vm::open(&object(text), "p", Options::default())?;
    let copied = vm.run("p", &Input::context(context), Engine::Interpreter)?;
    let (mut borrowed, mut held) = (context.to_vec(), context.to_vec());
    let value = vm.program("p")?.run_context(&mut borrowed)?;
    assert_eq!(vm.program("p")?.hold()?.run_context(&mut held)?, value);
    assert_eq!((value, &borrowed), (copied.value, &copied.context), "{text}");
    assert_eq!(held, borrowed, "{text}");
    assert_eq!(vm.written_outside(), Vec::<String>::new());
    Ok((value, borrowed))
}

/// A context in place is read and written only where the caller has it; what is behind it reads as 0.
#[test]
fn a_context_in_place_is_the_callers_memory_and_nothing_behind_it() {
    let add = "; program syscall name p\nr2 = *(u32 *)(r1 + 4)\nr3 = *(u32 *)(r1 + 12)\nr2 += r3\n*(u32 *)(r1 + 4) = r2\nr0 = r2\nexit";
    let bytes = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
    assert_eq!(run_both(add, &bytes).expect("a run"), (6, [&bytes[..4], &[6], &bytes[5..]].concat()));
    // Shorter than what the program reads: a copy, with zeros behind it.
    let guarded = [&bytes[..8], &[9; 24]].concat();
    let vm = Vm::open(&object(add), "p", Options::default()).expect("a VM");
    let mut memory = guarded.clone();
    assert_eq!(vm.program("p").expect("p").run_context(&mut memory[..8]).expect("a run"), 2);
    assert_eq!(memory, guarded);
    for end in 0..bytes.len() {
        run_both(add, &bytes[..end]).expect("a run");
    }
    assert_eq!(vm.program("p").expect("p").run_context(&mut []).expect("a run"), 0);
}

/// Accesses through copies of the pointer, after calls, at the end, and far behind what is given.
#[test]
fn contexts_in_place_and_copied_are_the_same_to_programs() {
    let bytes: Vec<u8> = (1..=64).collect();
    let head = "; program syscall name p\n";
    for body in [
        "r6 = r1\ncall ktime_get_ns\n*(u64 *)(r6 + 8) = 7\nr0 = *(u64 *)(r6 + 0)\nexit",
        "*(u64 *)(r10 - 8) = r1\nr2 = *(u64 *)(r10 - 8)\n*(u8 *)(r2 + 63) = 5\nr0 = *(u8 *)(r2 + 62)\nexit",
        "r6 = r1\nr2 = *(u64 *)(r6 + 56)\n*(u64 *)(r6 + 8) = r2\nr0 = r2\nexit",
        "r2 = 3\n*(u16 *)(r1 + 62) = r2\nr0 = *(u8 *)(r1 + 1)\nexit",
        "r0 = *(u8 *)(r1 + 32000)\nexit",
        "r0 = 1\nexit",
    ] {
        run_both(&format!("{head}{body}"), &bytes).unwrap_or_else(|error| panic!("{body}: {error}"));
    }
}

/// Threads wait for a CPU that is held.
#[test]
fn a_held_cpu_is_given_back() {
    let vm = Vm::open(&object(PASS), "p", Options::default()).expect("a VM");
    let program = vm.program("p").expect("p");
    std::thread::scope(|scope| {
        let mut held = program.hold().expect("the CPU");
        let other = scope.spawn(|| program.run(&mut [0; 64]).expect("a run"));
        for _ in 0..1000 {
            assert_eq!(held.run(&mut [0; 64]).expect("a run"), 2);
        }
        assert!(!other.is_finished());
        drop(held);
        assert_eq!(other.join().expect("it ends"), 2);
    });
}
