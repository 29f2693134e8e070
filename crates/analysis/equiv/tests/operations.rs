//! The rows of the operation table: each proof sequence has its operation's meaning, and a wrong row is found.

use kiln_equiv::operation::prove;
use kiln_isa::operation::{Exit, Expr, Form, From, Imm, Operation, Place, Registry, Template, Test};
use kiln_isa::{AluOp, Size, Width};

#[test]
fn every_proof_sequence_has_its_meaning() {
    for operation in Registry::BUILTIN.operations() {
        match prove(operation) {
            Ok(instances) => {
                assert!(instances > 0, "{}: no instance", operation.name);
                println!("{}: {instances} instances", operation.name);
            }
            Err(disproof) => panic!("{}: {disproof}", operation.name),
        }
    }
}

/// Joining by exclusive or is wrong where both parts are the whole number: a rotation by 0.
#[test]
fn a_wrong_row_is_disproved() {
    let right = Registry::BUILTIN.by_name("rotate_register_64").expect("a row");
    let form = right.forms[0];
    let mut code = form.code.to_vec();
    let Some(Template::Alu { ops, .. }) = code.last_mut() else { panic!("the join is an ALU instruction") };
    *ops = &[AluOp::Xor];
    let forms: &'static [Form] = Box::leak(Box::new([Form { code: Box::leak(code.into_boxed_slice()), ..form }]));
    let wrong: &'static Operation = Box::leak(Box::new(Operation { forms, ..*right }));
    let disproof = prove(wrong).expect_err("it is wrong");
    assert!(disproof.counterexample.is_some(), "{disproof}");
}

/// A store that a branch may skip is not the store of the meaning, whatever would be stored.
#[test]
fn an_access_behind_a_branch_is_disproved() {
    const COMPARISON: u8 = 4;
    let store = Registry::BUILTIN.by_name("store_swapped_32").expect("a row");
    let comparison = Registry::BUILTIN.by_name("flag_64").expect("a row").operands[3];
    let operands = [store.operands, &[comparison]].concat();
    let mut code = store.forms[0].code.to_vec();
    let src = From::Imm(Imm::Constant(0));
    let test = Test::Operand(COMPARISON);
    let branch = Template::Branch { test, width: Width::W64, dst: 0, src, to: Exit::End };
    code.insert(code.len() - 1, branch);
    let form = Form { code: Box::leak(code.into_boxed_slice()), ..store.forms[0] };
    let wrong =
        Operation { operands: Box::leak(operands.into_boxed_slice()), forms: Box::leak(Box::new([form])), ..*store };
    assert!(prove(Box::leak(Box::new(wrong))).is_err());
}

/// Rows that read another size, read elsewhere or store something else than they say are found.
#[test]
fn wrong_rows_with_memory_are_disproved() {
    let row = |name| *Registry::BUILTIN.by_name(name).expect("a row");
    let load = row("load_swapped_32");
    let store = row("store_swapped_32");
    let place = store.stores.expect("it stores");
    for wrong in [
        Operation { meaning: row("load_swapped_64").meaning, ..load },
        Operation { meaning: row("load_swapped_16").meaning, ..load },
        Operation { meaning: row("add_memory_32").meaning, ..row("add_memory_64") },
        Operation { meaning: Expr::Load(Size::B4, 1, Imm::Operand(2)), ..load },
        Operation { meaning: Expr::Load(Size::B4, 1, Imm::Constant(0)), ..load },
        Operation { meaning: Expr::Reg(2), ..store },
        Operation { stores: None, ..store },
        Operation { stores: Some(Place { size: Size::B2, ..place }), ..store },
        Operation { stores: Some(Place { offset: Imm::Constant(0), ..place }), ..store },
        Operation { stores: Some(Place { base: 2, ..place }), ..store },
    ] {
        let wrong: &'static Operation = Box::leak(Box::new(wrong));
        assert!(prove(wrong).is_err(), "{}: {:?} {:?}", wrong.name, wrong.meaning, wrong.stores);
    }
}

/// A chain that leads elsewhere, tests another number or has another meaning than it says is found.
#[test]
fn wrong_chains_are_disproved() {
    let right = *Registry::BUILTIN.by_name("branch_if_none_32").expect("a row");
    let other = Registry::BUILTIN.by_name("branch_if_any_32").expect("a row");
    let changed = |change: fn(&mut [Template])| {
        let form = right.forms[4];
        let mut code = form.code.to_vec();
        change(&mut code);
        let forms: &'static [Form] = Box::leak(Box::new([Form { code: Box::leak(code.into_boxed_slice()), ..form }]));
        Operation { forms, ..right }
    };
    let led_out = changed(|code| {
        if let Template::Branch { to, .. } = &mut code[1] {
            *to = Exit::Out;
        }
    });
    let wide = changed(|code| {
        if let Template::Branch { width, .. } = &mut code[0] {
            *width = Width::W64;
        }
    });
    let same_number = changed(|code| code[1] = code[0]);
    for wrong in [Operation { meaning: other.meaning, ..right }, led_out, wide, same_number] {
        assert!(prove(Box::leak(Box::new(wrong))).is_err());
    }
}
