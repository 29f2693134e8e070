//! The end of a run's budget or quantum: a `may_goto` branches, what does not come to one is stopped. In all engines.
#![cfg(target_arch = "x86_64")]

use std::time::{Duration, Instant};

use kiln_vm::{Engine, Error, Input, Options, Setting, Toolchain, Vm};

/// Endless but for its `may_goto`. The other registers must come through all questions for more budget.
const ENDLESS: &str = "\
; program xdp name p
 r0 = 1
 r1 = 2
 r2 = 3
 r3 = 4
 r4 = 5
 r5 = 6
again:
 may_goto out
 goto again
out:
 r0 += r1
 r0 += r2
 r0 += r3
 r0 += r4
 r0 += r5
 exit
";

/// A subprogram's loop ends, and then the loop around the call does.
const NESTED: &str = "\
; program xdp name p
 r7 = 0
again:
 may_goto out
 call inner
 r7 += r0
 goto again
out:
 r0 = r7
 exit
; function inner static
 r0 = 5
 r1 = 0
turn:
 may_goto done
 r1 += 1
 if r1 != 1000 goto turn
 r0 = 1
done:
 exit
";

/// Its landing pad has an endless loop, too.
const RELENTLESS: &str = "\
; program xdp name p
 r6 = 0
again:
 may_goto pad
 goto again
pad:
 r6 += 1
again2:
 may_goto out
 goto again2
out:
 r0 = r6
 exit
";

fn vm(text: &str, options: Options) -> Vm {
    let object = kiln_program::text::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut vm = Vm::new(&object, options).expect("a VM");
    vm.load("p").unwrap_or_else(|error| panic!("{text}: {error}"));
    vm
}

/// The engines that there are here, ready to run.
fn engines(vm: &Vm) -> Vec<Engine> {
    vm.compiled("p").expect("it is compiled");
    let mut engines = vec![Engine::Interpreter, Engine::Jit];
    match Toolchain::new(Toolchain::CLANG) {
        Ok(toolchain) => {
            vm.load_native("p", &toolchain, Setting::Fast).expect("native code");
            engines.push(Engine::Native);
        }
        Err(error) => println!("skipped: the native tier: {error}"),
    }
    engines
}

fn run(vm: &Vm, engine: Engine) -> Result<u64, Error> {
    vm.run("p", &Input::packet(&[0; 64]), engine).map(|ran| ran.value)
}

#[test]
fn the_budget_ends_loops_at_their_may_goto() {
    for budget in [100, 1_000, 100_000, 3_000_000] {
        let options = Options { budget, ..Options::default() };
        let endless = vm(ENDLESS, options.clone());
        for engine in engines(&endless) {
            assert_eq!(run(&endless, engine).expect("cancelled in order"), 21, "{engine:?}, {budget}");
        }
    }
    let nested = vm(NESTED, Options { budget: 1_000_000, ..Options::default() });
    for engine in engines(&nested) {
        let value = run(&nested, engine).expect("cancelled in order");
        assert!((100..1000).contains(&value), "{engine:?}: {value}");
    }
}

#[test]
fn a_quantum_ends_a_run() {
    let quantum = Duration::from_millis(20);
    for text in [ENDLESS, NESTED, RELENTLESS] {
        let vm = vm(text, Options { budget: 1 << 60, quantum: Some(quantum), ..Options::default() });
        for engine in engines(&vm) {
            let begin = Instant::now();
            let value = run(&vm, engine).expect("cancelled in order");
            let took = begin.elapsed();
            assert!(value > 0, "{engine:?}: {text}");
            // Another process may have had the processor; without a quantum, years would pass.
            assert!(took >= quantum && took < Duration::from_secs(20), "{engine:?}: {took:?}: {text}");
        }
    }
}

/// Copies the values of a map, 64 KB each, and counts.
const COPIES: &str = "\
; map m array key 4 value 65536 entries 2
; program xdp name p
 r6 = 0
 *(u32 *)(r10 - 4) = 0
 r1 = map[m]
 r2 = r10
 r2 += -4
 call map_lookup_elem
 if r0 == 0 goto out
 r7 = r0
 *(u32 *)(r10 - 4) = 1
again:
 may_goto out
 r6 += 1
 r1 = map[m]
 r2 = r10
 r2 += -4
 r3 = r7
 r4 = 0
 call map_update_elem
 goto again
out:
 r0 = r6
 exit
";

/// The clock is read after a few of them, not after thousands of instructions. A quantum of nothing ends at the first look.
#[test]
fn helpers_that_take_long_end_by_the_quantum() {
    let vm = vm(COPIES, Options { budget: 1 << 40, quantum: Some(Duration::ZERO), ..Options::default() });
    for engine in engines(&vm) {
        let copies = run(&vm, engine).expect("cancelled in order");
        assert!((1..=4).contains(&copies), "{engine:?}: {copies}");
    }
}

#[test]
fn landing_pads_end_too() {
    for budget in [0, 1, 2, 8, 9, 64, 1_000] {
        let vm = vm(RELENTLESS, Options { budget, ..Options::default() });
        for engine in engines(&vm) {
            match run(&vm, engine) {
                Ok(value) => assert_eq!(value, 1, "{engine:?}, {budget}"),
                Err(error) => assert!(matches!(error, Error::Stopped { .. }) && budget < 64, "{error}: {budget}"),
            }
        }
    }
}
