//! Programs that try to outlast their quantum: what bounds them by itself is far off, and they know where the deadline could be.

use std::time::{Duration, Instant};

use kiln_linux::TestInput;
use kiln_sandbox::{Options, Target, sandbox};
use kiln_vm::{Engine, Input, Vm};

use crate::world::kernel_types;

const QUANTUM: Duration = Duration::from_millis(5);
/// Without cancellation the programs take seconds: this tells the two apart also on a busy machine.
const MOST: Duration = Duration::from_millis(1500);
const XDP_PASS: u32 = 2;

/// Two iterators, one in the other: 60 times 8,388,608 items.
const ITERATORS: &str = "\
; extern bpf_iter_num_new kfunc
; extern bpf_iter_num_next kfunc
; extern bpf_iter_num_destroy kfunc
; program xdp
  r1 = r10
  r1 += -8
  r2 = 0
  r3 = 60
  call kfunc[bpf_iter_num_new]
outer:
  r1 = r10
  r1 += -8
  call kfunc[bpf_iter_num_next]
  if r0 == 0 goto out
  r1 = r10
  r1 += -16
  r2 = 0
  r3 = 8388608
  call kfunc[bpf_iter_num_new]
inner:
  r1 = r10
  r1 += -16
  call kfunc[bpf_iter_num_next]
  if r0 != 0 goto inner
  r1 = r10
  r1 += -16
  call kfunc[bpf_iter_num_destroy]
  goto outer
out:
  r1 = r10
  r1 += -8
  call kfunc[bpf_iter_num_destroy]
  r0 = 1
  exit
";

/// The author's own may_goto: 250 ms in each of 20 calls.
const OWN_BOUNDS: &str = "\
; program xdp
; function main
  r6 = *(u32 *)(r1 + 12)
  r6 |= 20
  r6 &= 20
again:
  may_goto out
  call spin
  r6 -= 1
  if r6 s> 0 goto again
out:
  r0 = 1
  exit
; function spin
  r0 = 1
spinning:
  may_goto spun
  if r0 != 0 goto spinning
spun:
  r0 = 0
  exit
";

/// A callee fills the caller's frame below its own use with ones, before each loop: a deadline there would never pass.
const OVERWRITTEN: &str = "\
; program xdp
; function main
  r6 = 20
  *(u64 *)(r10 - 8) = 0
again:
  r1 = r10
  r1 += -8
  call spin
  r6 -= 1
  if r6 s> 0 goto again
  r0 = 1
  exit
; function spin
  r0 = 1
spinning:
  *(u64 *)(r1 - 8) = -1
  *(u64 *)(r1 - 16) = -1
  *(u64 *)(r1 - 24) = -1
  *(u64 *)(r1 - 32) = -1
  if r0 != 0 goto spinning
  exit
";

#[test]
fn nothing_outlasts_its_quantum() {
    let Some(types) = kernel_types() else { return println!("skipped: the kernel's types are not readable") };
    let programs = [("iterators", ITERATORS), ("own bounds", OWN_BOUNDS), ("overwritten", OVERWRITTEN)];
    for (name, text) in programs {
        let object = kiln_program::text::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let sandboxed = |target: Target| {
            let verifier = kiln_verifier::Options { kernel_types: Some(types.clone()), ..Default::default() };
            let options = Options { target, quantum_ns: QUANTUM.as_nanos() as u64, verifier, ..Options::default() };
            sandbox(&object, &options).unwrap_or_else(|error| panic!("{name}: {error}")).object
        };
        let ends = |place: &str, run: &dyn Fn() -> u32| {
            let begin = Instant::now();
            let value = run();
            let took = begin.elapsed();
            println!("{name}, {place}: {value} after {took:.1?}");
            assert!(value == XDP_PASS && took < MOST, "{name}, {place}: {value} after {took:?}");
        };
        match kiln_linux::available() {
            Ok(()) => {
                let for_linux = sandboxed(Target::Linux);
                let loaded = kiln_linux::load_image(&for_linux, &for_linux.programs[0]);
                let loaded = loaded.unwrap_or_else(|failure| panic!("{name}: the kernel: {failure}"));
                let input = TestInput { packet: vec![0; 64], ..TestInput::default() };
                ends("kernel", &|| loaded.prog.test_run(&input).expect("runs").value);
            }
            Err(error) => println!("skipped: the kernel: {error}"),
        }
        let for_vm = sandboxed(Target::Vm);
        let program = &for_vm.programs[0].name;
        let options = kiln_vm::Options {
            quantum: Some(QUANTUM),
            budget: 100_000_000,
            kernel_types: Some(types.clone()),
            ..kiln_vm::Options::default()
        };
        let mut vm = Vm::new(&for_vm, options).expect("a VM");
        vm.load(program).unwrap_or_else(|error| panic!("{name}: {error}"));
        for engine in [Engine::Interpreter, Engine::Jit] {
            if engine == Engine::Interpreter || vm.compiled(program).is_ok() {
                let run = || vm.run(program, &Input::packet(&[0; 64]), engine).expect("runs").value as u32;
                ends(&format!("{engine:?}"), &run);
            }
        }
    }
}
