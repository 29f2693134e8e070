//! The rows of the operation table: each proof sequence has its operation's meaning, and a wrong row is found.

use kiln_equiv::operation::prove;
use kiln_isa::AluOp;
use kiln_isa::operation::{Form, Operation, Registry, Template};

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
