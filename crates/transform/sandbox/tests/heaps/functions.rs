//! What the VM alone has, and kernel functions, which do there what they do in the kernel.

use std::time::{Duration, Instant};

use kiln_sandbox::counted::{POINTS, SECTION};
use kiln_sandbox::{Options, Target};
use kiln_vm::{Engine, Input, Setting, Toolchain, UpdateFlag, Vm};

use crate::world::{Extension, World, compile, compile_plain, compiled, global, kernel_types, word};

const QUANTUM: Duration = Duration::from_millis(20);

/// A list leads from one end of 8 GiB to the other and through a second heap, in all engines; Linux has neither.
#[test]
fn lists_go_through_large_and_several_heaps() {
    let Some(bytes) = compiled("tests/heaps/large.bpf.c", &["-mcpu=v4"]) else { return };
    let refused = Extension::of(&bytes, &Options::default()).err().expect("Linux has no such heap").to_string();
    assert!(refused.contains("2097152 pages") && refused.contains("--target vm"), "{refused}");
    let options = Options { target: Target::Vm, ..Options::default() };
    let extension = Extension::of(&bytes, &options).unwrap_or_else(|error| panic!("{error}"));
    let small = Vm::new(&extension.object, kiln_vm::Options::default()).err().expect("more than the VM gives");
    assert!(small.to_string().contains("8589934592 bytes"), "{small}");
    for engine in [Engine::Interpreter, Engine::Jit, Engine::Native] {
        let quantum = Some(QUANTUM);
        let options = kiln_vm::Options { map_bytes: 8 << 30, quantum, ..kiln_vm::Options::default() };
        let mut vm = Vm::new(&extension.object, options).expect("a VM");
        vm.load("walk").expect("it is accepted");
        if engine == Engine::Native {
            let Ok(toolchain) = Toolchain::new(Toolchain::CLANG) else { continue };
            vm.load_native("walk", &toolchain, Setting::Fast).expect("native code");
        } else if vm.compiled("walk").is_err() {
            continue;
        }
        let [large, other] = ["kiln_heap_map", "other_heap"].map(|name| vm.heap(vm.map(name).expect("a map")));
        let (large, other) = (large.expect("a heap"), other.expect("a heap"));
        let places = [(&large, 4096), (&large, 5 << 30), (&other, 64), (&large, (8 << 30) - 8192), (&other, 1 << 19)];
        for (at, (heap, offset)) in places.iter().enumerate() {
            let next = places.get(at + 1).map_or(0, |(heap, offset)| heap.address() + *offset as u64);
            heap.store(*offset, next).expect("in the heap");
            heap.store(*offset + 8, at as u64 + 1).expect("in the heap");
        }
        let globals = vm.map(".bss").expect("variables");
        let key = 0u32.to_le_bytes();
        let mut variables = vm.look_up(globals, &key).expect("reads").expect("is there");
        let head = global(&extension.object, "head");
        variables[head..head + 8].copy_from_slice(&(large.address() + 4096).to_le_bytes());
        vm.update(globals, &key, &variables, UpdateFlag::Any).expect("writes");
        assert_eq!(vm.run("walk", &Input::packet(&[0; 64]), engine).expect("runs").value, 2, "{engine:?}");
        let variables = vm.look_up(globals, &key).expect("reads").expect("is there");
        assert_eq!(word(&variables, global(&extension.object, "sum")), 15, "{engine:?}");
        let values = places.map(|(heap, offset)| heap.load(offset + 8).expect("in the heap"));
        assert_eq!(values, [0, 1, 2, 3, 4], "{engine:?}");
        // A list without end: its loop is cancelled, and counted.
        places[4].0.store(places[4].1, places[0].0.address() + places[0].1 as u64).expect("in the heap");
        let begin = Instant::now();
        assert_eq!(vm.run("walk", &Input::packet(&[0; 64]), engine).expect("cancelled").value, 2, "{engine:?}");
        assert!((QUANTUM..Duration::from_secs(20)).contains(&begin.elapsed()), "{engine:?}: {:?}", begin.elapsed());
        let counts = vm.look_up(vm.map(SECTION).expect("the counters"), &key).expect("reads").expect("is there");
        assert_eq!(word(&counts, POINTS as usize), 1, "{engine:?}");
    }
}

#[test]
fn exceptions_and_locks_are_the_kernels() {
    let arguments = ["-mcpu=v4"];
    if kernel_types().is_none() {
        return println!("skipped: the kernel's types are not readable");
    }
    let Some(extension) = compile_plain("tests/heaps/functions.bpf.c", &arguments) else { return };
    let programs = ["handles", "leaves", "locks"];
    for (name, world) in World::all(&extension, &programs) {
        let run = |program: &str, byte: u8| {
            let mut packet = vec![0; 64];
            packet[0] = byte;
            world.run(program, &packet).0 as i32
        };
        assert_eq!([run("handles", 3), run("handles", 4), run("handles", 200)], [103, 8, 400], "{name}");
        assert_eq!([run("leaves", 3), run("leaves", 4), run("leaves", 200)], [103, 4, 200], "{name}");
        assert_eq!(word(&world.globals(), global(&extension.object, "handled")), 2, "{name}");
        // The same lock twice, then another one, several times: nothing stays taken.
        for _ in 0..3 {
            assert_eq!([run("locks", 0), run("locks", 1)], [-35, 0], "{name}");
        }
    }
}

/// The programs that hold something while they loop, in the VM: those whose kernel functions it has.
#[test]
fn programs_under_locks_run_in_the_vm() {
    if kernel_types().is_none() {
        return println!("skipped: the kernel's types are not readable");
    }
    let Some(extension) = compile("tests/heaps/held.bpf.c", Duration::from_secs(20)) else { return };
    let programs =
        ["iterator", "spin_lock", "resilient_locks", "resilient_lock_irqsave", "rcu", "preemption", "interrupts"];
    for (name, world) in World::all(&extension, &programs) {
        crate::cancellation::fill(&extension, &world);
        for program in programs {
            for _ in 0..2 {
                assert_eq!(world.run(program, &[0; 64]).0, crate::cancellation::ENDED, "{name}: {program}");
            }
        }
    }
}
