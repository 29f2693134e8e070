//! Operations that are not Kiln's own are tried before a VM uses them, on the machine that the test runs on.

use kiln_isa::operation::{
    Arch, Condition, Imm, Native, NativeInsn, NativeOperand, Operand, OperandKind, Operation, Registry, table,
};
use kiln_vm::{Error, Options, Vm};

const OBJECT: &str = "; program xdp name p\n r0 = 2\n exit\n";

/// What a VM says of a registry with this row.
fn tried(row: Operation) -> Result<(), String> {
    let rows: &'static [&'static Operation] = Box::leak(Box::new([&*Box::leak(Box::new(row))]));
    let object = kiln_program::text::parse(OBJECT).expect("it parses");
    match Vm::new(&object, Options { operations: Registry::new(rows), ..Options::default() }) {
        Ok(_) => Ok(()),
        Err(Error::NativeOperation { name, what }) => Err(format!("{name}: {what}")),
        Err(error) => panic!("{error}"),
    }
}

/// One of Kiln's rows as somebody's own.
fn own(name: &str) -> Operation {
    Operation { name: "own", ..**table::OPERATIONS.iter().find(|row| row.name == name).expect("the row") }
}

fn native(code: &'static [NativeInsn]) -> &'static [Native] {
    let arch = if cfg!(target_arch = "x86_64") { Arch::X86_64 } else { Arch::Aarch64 };
    Box::leak(Box::new([Native { arch, needs: &[], when: &[], code }]))
}

fn changed(row: Operation, change: impl Fn(NativeInsn) -> NativeInsn) -> Operation {
    let natives: Vec<Native> = row
        .native
        .iter()
        .map(|native| {
            let code: Vec<NativeInsn> = native.code.iter().map(|insn| change(*insn)).collect();
            Native { code: code.leak(), ..*native }
        })
        .collect();
    Operation { native: natives.leak(), ..row }
}

#[test]
fn right_rows_are_accepted() {
    // One row of each family, so that the test stays quick.
    let names = [
        "rotate_left_32",
        "rotate_register_64",
        "address_scaled",
        "and_not_32",
        "sign_extend_8",
        "load_swapped_32",
        "store_swapped_64",
        "mul_memory_32",
        "flag_constant_64",
        "select_32",
        "branch_if_none_32",
        "branch_if_bits_constant_32",
        "clear_pair",
        "load_pair",
        "prefetch",
    ];
    for row in table::OPERATIONS.iter().filter(|row| names.contains(&row.name)) {
        assert_eq!(tried(Operation { doc: "somebody's own", ..**row }), Ok(()), "{}", row.name);
    }
}

#[test]
fn misspelt_instructions_are_errors_on_both_machines() {
    for (right, wrong) in [("lea64", "lae64"), ("addlsl64", "addlsl46")] {
        let row = changed(own("address_scaled"), |insn| NativeInsn {
            name: if insn.name == right { wrong } else { insn.name },
            ..insn
        });
        let refused = tried(row).expect_err("it is misspelt");
        assert!(refused.contains(&format!("there is no machine instruction {wrong}")), "{refused}");
    }
}

/// Rows that are wrong in the value, in a rare operand, in a scratch register, in memory and in where they leave to.
#[test]
fn wrong_native_code_is_an_error() {
    let number = |to: Imm| {
        move |operand: &NativeOperand| match operand {
            NativeOperand::Imm(_) => NativeOperand::Imm(to),
            other => *other,
        }
    };
    let with = |insn: NativeInsn, change: &dyn Fn(&NativeOperand) -> NativeOperand| NativeInsn {
        operands: insn.operands.iter().map(change).collect::<Vec<_>>().leak(),
        ..insn
    };
    let scale = number(Imm::Constant(2));
    let renamed = |from: &'static [(&'static str, &'static str)]| {
        move |insn: NativeInsn| NativeInsn {
            name: from.iter().find(|(old, _)| *old == insn.name).map_or(insn.name, |(_, new)| new),
            ..insn
        }
    };
    let turned = |operand: &NativeOperand| match operand {
        NativeOperand::Reg(1) => NativeOperand::Reg(2),
        NativeOperand::Reg(2) => NativeOperand::Reg(1),
        other => *other,
    };
    let wrong = [
        ("another scale", changed(own("address_scaled"), |insn| with(insn, &scale))),
        ("another sign", changed(own("sign_extend_32"), renamed(&[("movsxd64", "mov32"), ("sxtw64", "mov32")]))),
        ("operands turned", changed(own("and_not_64"), |insn| with(insn, &turned))),
        ("other bytes", changed(own("load_swapped_32"), renamed(&[("movbe32", "movbe64"), ("rev32", "rev64")]))),
        (
            "another branch",
            changed(own("branch_if_bits_64"), |insn| {
                with(insn, &|operand| match operand {
                    NativeOperand::Is(_) => NativeOperand::Is(kiln_isa::JumpOp::Eq),
                    other => *other,
                })
            }),
        ),
        (
            "another set",
            changed(own("branch_if_any_64"), |insn| {
                with(insn, &|operand| match operand {
                    NativeOperand::Set(of) => NativeOperand::Set(&of[1..]),
                    other => *other,
                })
            }),
        ),
    ];
    for (what, row) in wrong {
        let refused = tried(row).expect_err(what);
        assert!(refused.contains("differs from proof sequence"), "{what}: {refused}");
    }
}

#[test]
fn what_a_row_may_not_do_is_an_error() {
    const D: NativeOperand = NativeOperand::Reg(0);
    const S: NativeOperand = NativeOperand::Reg(1);
    let row = own("zero_extend_32");
    let cases: [(&'static [NativeInsn], &str); 5] = [
        (&[NativeInsn { name: "mov32", operands: &[D] }], "has 2 operands, not 1"),
        (&[NativeInsn { name: "mov32", operands: &[S, D] }], "neither a result nor a temporary"),
        (&[NativeInsn { name: "mov32", operands: &[D, NativeOperand::Reg(7)] }], "of another kind"),
        (&[NativeInsn { name: "mov32", operands: &[D, NativeOperand::Scratch(2)] }], "of another kind"),
        (&[NativeInsn { name: "mov32", operands: &[NativeOperand::Bpf(6), S] }], "neither a result nor a temporary"),
    ];
    for (code, why) in cases {
        let refused = tried(Operation { native: native(code), ..row }).expect_err(why);
        assert!(refused.contains(why), "{refused}");
    }
    // A condition that no registers satisfy.
    let form = kiln_isa::operation::Form { when: &[Condition::Same(0, 1), Condition::Differ(0, 1)], ..row.forms[0] };
    let refused = tried(Operation { forms: vec![form].leak(), ..row }).expect_err("nothing satisfies it");
    assert!(refused.contains("no operands satisfy"), "{refused}");
    // An index of an operand that there is not.
    let operands = vec![Operand { name: "d", kind: OperandKind::Result }].leak();
    assert!(tried(Operation { operands, ..row }).is_err());
}
