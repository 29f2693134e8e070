//! Against the running kernel; each test says aloud when it may not ask it.

use kiln_isa::{Address, Insn, Reg, Size};
use kiln_linux::{ObjectFile, TestInput, available, load_image};
use kiln_platform::ProgramType;
use kiln_program::{Function, InsnId, Linkage, Node, Object, Program, Reference};

fn allowed() -> bool {
    match available() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// An XDP program of these instructions, without references.
fn xdp(insns: &[Insn]) -> Object {
    let node = |(id, insn): (usize, &Insn)| Node::new(InsnId(id as u32), *insn, Reference::None);
    Object {
        license: "GPL".to_owned(),
        functions: vec![Function::new("entry", "xdp", Linkage::Global, insns.iter().enumerate().map(node).collect())],
        programs: vec![Program::new("entry", "xdp", Some(ProgramType::Xdp), kiln_program::FunctionId(0))],
        next_insn: insns.len() as u32,
        ..Object::default()
    }
}

#[test]
fn test_run_returns_the_value_and_the_packet() {
    if !allowed() {
        return;
    }
    let object = xdp(&[Insn::mov_imm(Reg::R0, 2), Insn::Exit]);
    let loaded = load_image(&object, &object.programs[0]).expect("loads");
    let input = TestInput { packet: (0..64).collect(), ..TestInput::default() };
    let output = loaded.prog.test_run(&input).expect("runs");
    assert_eq!(output.value, 2);
    assert_eq!(output.packet, input.packet);
    assert_eq!(loaded.prog.info().expect("info").verified_insns, 2);
}

#[test]
fn a_refusal_carries_the_verifier_log() {
    if !allowed() {
        return;
    }
    let address = Address { base: Reg::R2, offset: 0 };
    let load = Insn::Load { size: Size::B8, signed: false, dst: Reg::R0, address };
    let object = xdp(&[load, Insn::Exit]);
    let failure = load_image(&object, &object.programs[0]).expect_err("R2 is not readable");
    assert_eq!(failure.reason(), Some("R2 !read_ok"), "{:?}", failure.logs);
}

#[test]
fn garbage_is_refused_with_a_message() {
    let Err(failure) = ObjectFile::open("garbage", b"not an object") else { panic!("accepted garbage") };
    assert!(!failure.messages.is_empty(), "{failure}");
}
