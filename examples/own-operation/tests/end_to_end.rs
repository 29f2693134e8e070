//! The operation from its row to its result.

use kiln_equiv::operation::prove;
use kiln_isa::operation::{Effect, Expr, Operation, Registry};
use kiln_own_operation::{ELEMENT_OF_8, REGISTRY};
use kiln_program::{Object, operation, text};
use kiln_vm::{Engine, Input, Options, Vm};

static ROW: Operation = ELEMENT_OF_8;

/// An XDP program that computes an element's address, as a number, from packet bytes.
const PROGRAM: &str = "
; program xdp
  r2 = *(u32 *)(r1 + 4)
  r1 = *(u32 *)(r1 + 0)
  r3 = r1
  r3 += 32
  if r3 > r2 goto out
  r4 = *(u64 *)(r1 + 16)
  r5 = *(u32 *)(r1 + 24)
  r5 <<= 32
  r2 = *(u64 *)(r1 + 16)
  r5 s>>= 29
  r4 += r5
  r4 ^= r2
  *(u64 *)(r1 + 0) = r4
out:
  r0 = 1
  exit
";

fn object(registry: &Registry) -> (Object, usize) {
    let mut object = text::parse(PROGRAM).expect("a program");
    let marks = kiln_idiom::annotate(&mut object, registry);
    (object, marks)
}

#[test]
fn the_proof_sequence_has_the_meaning() {
    assert_eq!(prove(&ROW).map(|instances| instances > 0), Ok(true));
}

#[test]
fn a_wrong_meaning_is_disproved() {
    static WRONG: Operation = Operation { effects: &[Effect::Register(0, Expr::Reg(1))], ..ELEMENT_OF_8 };
    assert!(prove(&WRONG).expect_err("it is wrong").counterexample.is_some());
}

#[test]
fn it_is_found_and_its_marks_are_checked() {
    let (mut object, marks) = object(&REGISTRY);
    let names: Vec<_> = object.operations.iter().map(|mark| mark.operation.as_str()).collect();
    assert_eq!((marks, names), (2, vec!["example_element_of_8", "xor_memory_64"]));
    assert_eq!(operation::check(&object, &REGISTRY), Ok(()));
    // Another index is not what the program computes.
    object.operations[0].operands[2] = 2;
    assert!(operation::check(&object, &REGISTRY).is_err());
}

#[test]
fn native_code_and_proof_sequence_agree() {
    let (object, _) = object(&REGISTRY);
    let name = object.programs[0].name.clone();
    // Without the registry, marks of the operation are skipped: the proof sequence runs.
    let vms: Vec<Vm> = [REGISTRY, Registry::BUILTIN, Registry::EMPTY]
        .into_iter()
        .map(|operations| {
            let mut vm = Vm::new(&object, Options { operations, ..Options::default() }).expect("a VM");
            vm.load(&name).expect("it is verified");
            vm.compiled(&name).expect("it is compiled");
            vm
        })
        .collect();
    let mut state = 1u64;
    for _ in 0..1000 {
        let packet: Vec<u8> = (0..40)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect();
        let expected = vms[0].run(&name, &Input::packet(&packet), Engine::Interpreter).expect("it runs").packet;
        for vm in &vms {
            assert_eq!(vm.run(&name, &Input::packet(&packet), Engine::Jit).expect("it runs").packet, expected);
        }
    }
}
