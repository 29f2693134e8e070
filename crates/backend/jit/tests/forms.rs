//! Every instruction form has code or is listed as missing.

mod common;

use common::{Nothing, function};
use kiln_isa::{Insn, Slot, decode};
use kiln_jit::x86_64::compile;
use kiln_jit::{Arena, Code, Error, Options, Symbols, aarch64};
use kiln_program::{Extern, ExternId, ExternKind, FunctionId, MapId, Object, Reference};

struct Everything;

impl Symbols for Everything {
    fn map_address(&self, _: MapId) -> Option<u64> {
        Some(0x1000)
    }
    fn map_value_address(&self, _: MapId, offset: u32) -> Option<u64> {
        Some(0x7fff_0000_2000 + u64::from(offset))
    }
    fn helper_address(&self, _: u32) -> Option<u64> {
        Some(0x5555_0000_0000)
    }
    fn extern_address(&self, _: ExternId) -> Option<u64> {
        Some(0x6666_0000_0000)
    }
    fn packet_load_address(&self) -> Option<u64> {
        Some(0x5555_0000_1000)
    }
    fn arena(&self) -> Option<Arena> {
        Some(Arena { base: 0x7f00_0000_0000, bytes: 1 << 20, bits: 32 })
    }
}

/// Every opcode byte with every field value that picks a form.
fn all_forms() -> Vec<Insn> {
    let mut forms = Vec::new();
    let second = Slot::default();
    for opcode in 0..=255u8 {
        for src in 0..8 {
            for offset in [0, 1, 8, 16, 32] {
                for imm in (0..=0x110).chain([64, -1]) {
                    let slot = Slot { opcode, dst: if src == 0 { 0 } else { 3 }, src, offset, imm };
                    for slot in [slot, Slot { dst: 0, ..slot }, Slot { dst: 3, ..slot }] {
                        if let Ok(insn) = decode(&[slot, second]) {
                            forms.push(insn);
                        }
                    }
                }
            }
        }
    }
    forms
}

/// A function of one instruction and an exit, and the reference that fits it.
fn object_of(insn: Insn) -> Object {
    let mut object = Object::default();
    object.externs.push(Extern { name: "kernel_function".into(), kind: ExternKind::Kfunc, weak: false, btf_id: 0 });
    let exit = object.new_node(Insn::Exit, Reference::None);
    let reference = match insn {
        Insn::Jump { .. } | Insn::Branch { .. } | Insn::MayGoto { .. } => Reference::Branch(exit.id),
        Insn::Call(kiln_isa::CallTarget::Subprogram(_)) => Reference::Function(FunctionId(1)),
        Insn::Call(kiln_isa::CallTarget::Kfunc { .. }) => Reference::Extern(ExternId(0)),
        Insn::LoadImm64 { imm, .. } if !matches!(imm, kiln_isa::Imm64::Value(_)) => Reference::Map(MapId(0)),
        _ => Reference::None,
    };
    let first = object.new_node(insn, reference);
    let callee = object.new_node(Insn::Exit, Reference::None);
    object.functions = vec![function("entry", vec![first, exit]), function("callee", vec![callee])];
    object
}

type Compile = fn(&Object, FunctionId, &dyn Symbols, &Options) -> Result<Code, Error>;

/// The machines, with the forms that each lacks.
const MACHINES: [(Compile, &[&str]); 2] = [(compile, &[]), (aarch64::compile, &["addr_space_cast"])];

#[test]
fn every_form_has_code_or_is_named() {
    MACHINES.into_iter().for_each(|(compile, lacking)| forms_have_code(compile, lacking));
}

fn forms_have_code(compile: Compile, lacking: &[&str]) {
    let forms = all_forms();
    assert!(forms.len() > 10_000, "{} forms", forms.len());
    let mut unsupported = std::collections::BTreeSet::new();
    for options in [
        Options::default(),
        Options { bmi1: true, bmi2: true, movbe: true, metered: false, cleared_bytes: 512, ..Options::default() },
    ] {
        for insn in &forms {
            match compile(&object_of(*insn), FunctionId(0), &Everything, &options) {
                Ok(code) => assert!(!code.bytes.is_empty() && code.spans.len() >= 2, "{insn}"),
                Err(Error::Unsupported { what, .. }) => {
                    unsupported.insert(what);
                }
                Err(other) => panic!("{insn}: {other}"),
            }
        }
    }
    assert_eq!(unsupported.into_iter().collect::<Vec<_>>(), lacking);
}

#[test]
fn what_the_runtime_lacks_is_named() {
    use kiln_isa::{CallTarget, PacketMode, Size};
    let packet = Insn::LoadPacket { mode: PacketMode::Absolute, size: Size::B2, offset: 12 };
    for (insn, says) in [
        (Insn::Call(CallTarget::Helper(7)), "helper 7"),
        (Insn::Call(CallTarget::Helper(12)), "helper 12"),
        (Insn::Call(CallTarget::Kfunc { id: 0, fd_index: 0 }), "symbol kernel_function"),
        (packet, "packet loads"),
    ] {
        match compile(&object_of(insn), FunctionId(0), &Nothing, &Options::default()) {
            Err(Error::Unresolved { what, .. }) => assert_eq!(what, says),
            other => panic!("{insn}: {other:?}"),
        }
    }
}

/// Malformed objects are errors, not panics.
#[test]
fn malformed_objects_are_refused() {
    let dangling = |insn, reference| {
        let mut object = object_of(Insn::Exit);
        object.functions[0].nodes[0] = object.new_node(insn, reference);
        compile(&object, FunctionId(0), &Everything, &Options::default())
    };
    let jump = Insn::Jump { offset: 0, long: false };
    let call = Insn::Call(kiln_isa::CallTarget::Subprogram(0));
    let nowhere = Reference::Branch(kiln_program::InsnId(77));
    assert!(matches!(dangling(jump, Reference::None), Err(Error::Malformed(_))));
    assert!(matches!(dangling(jump, nowhere), Err(Error::Malformed(_))));
    assert!(matches!(dangling(call, Reference::None), Err(Error::Malformed(_))));
    assert!(matches!(dangling(call, Reference::Function(FunctionId(9))), Err(Error::Malformed(_))));
    let mut endless = object_of(Insn::Exit);
    endless.functions[0].nodes = vec![endless.new_node(Insn::mov_imm(kiln_isa::Reg::R0, 0), Reference::None)];
    assert!(matches!(compile(&endless, FunctionId(0), &Everything, &Options::default()), Err(Error::Malformed(_))));
    let object = object_of(Insn::Exit);
    assert!(matches!(compile(&object, FunctionId(5), &Everything, &Options::default()), Err(Error::Malformed(_))));
}
