//! The rows of the operation table: each proof sequence has its operation's meaning, and a wrong row is found.

use kiln_equiv::operation::prove;
use kiln_isa::operation::{Effect, Exit, Expr, Form, From, Imm, Operation, Place, Registry, Template, Test};
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
    let [Effect::Memory(place, stored)] = *store.effects else { panic!("it stores") };
    let loads = |expr| -> &[Effect] { Box::leak(Box::new([Effect::Register(0, expr)])) };
    let stores = |place, expr| -> &[Effect] { Box::leak(Box::new([Effect::Memory(place, expr)])) };
    let (clear, pair, both) = (row("clear_pair"), row("load_pair"), row("store_pair"));
    let &[low, high] = both.effects else { panic!("it stores twice") };
    let &[first, _] = pair.effects else { panic!("it loads twice") };
    let twice = |one, other| -> &[Effect] { Box::leak(Box::new([one, other])) };
    let form = |index: usize| both.forms[0].code[index];
    let overlapping = Template::Store { size: Size::B8, base: 0, offset: Imm::Sum(4, 1), src: From::Reg(3) };
    let with_code = |code: Vec<Template>| -> &[Form] {
        Box::leak(Box::new([Form { name: "wrong", when: &[], code: Box::leak(code.into_boxed_slice()) }]))
    };
    for wrong in [
        Operation { effects: row("load_swapped_64").effects, ..load },
        Operation { effects: row("load_swapped_16").effects, ..load },
        Operation { effects: row("add_memory_32").effects, ..row("add_memory_64") },
        Operation { effects: loads(Expr::Load(Size::B4, 1, Imm::Operand(2))), ..load },
        Operation { effects: loads(Expr::Load(Size::B4, 1, Imm::Constant(0))), ..load },
        Operation { effects: loads(Expr::Imm(Imm::Constant(0))), ..load },
        Operation { effects: &[], ..load },
        Operation { effects: stores(place, Expr::Reg(2)), ..store },
        Operation { effects: &[], ..store },
        Operation { effects: stores(Place { size: Size::B2, ..place }, stored), ..store },
        Operation { effects: stores(Place { offset: Imm::Constant(0), ..place }, stored), ..store },
        Operation { effects: stores(Place { base: 2, ..place }, stored), ..store },
        // Half of it, twice a half, the halves exchanged, a stored value that is not the one.
        Operation { effects: &clear.effects[..1], ..clear },
        Operation { effects: twice(clear.effects[0], clear.effects[0]), ..clear },
        Operation { effects: both.effects, ..clear },
        Operation { effects: clear.effects, ..both },
        Operation { effects: twice(low, low), ..both },
        Operation { effects: twice(first, first), ..pair },
        Operation { effects: &pair.effects[..1], ..pair },
        Operation { effects: twice(first, Effect::Register(2, Expr::Reg(2))), ..pair },
        Operation { forms: row("store_pair").forms, effects: pair.effects, ..pair },
        // Places that overlap, and a load after a store.
        Operation { forms: with_code(vec![form(0), overlapping]), effects: twice(low, high), ..both },
        Operation {
            forms: with_code(vec![form(0), overlapping]),
            effects: twice(
                low,
                Effect::Memory(Place { size: Size::B8, base: 0, offset: Imm::Sum(4, 1) }, Expr::Reg(3)),
            ),
            ..both
        },
        Operation {
            forms: with_code(vec![
                form(0),
                Template::Load { size: Size::B8, dst: 3, base: 2, offset: Imm::Operand(1) },
            ]),
            effects: twice(low, Effect::Register(3, Expr::Load(Size::B8, 2, Imm::Operand(1)))),
            operands: Box::leak(Box::new([both.operands[0], both.operands[1], both.operands[2], pair.operands[3]])),
            ..both
        },
    ] {
        let wrong: &'static Operation = Box::leak(Box::new(wrong));
        assert!(prove(wrong).is_err(), "{}: {:?} {:?}", wrong.name, wrong.effects, wrong.forms);
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
    for wrong in [Operation { effects: other.effects, ..right }, led_out, wide, same_number] {
        assert!(prove(Box::leak(Box::new(wrong))).is_err());
    }
}
