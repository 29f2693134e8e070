//! An optimizing compiler's code against the reference interpreter. A program takes clang 50 to 300 ms, so there are fewer
//! of them than for the JIT, and larger ones; `KILN_NATIVE_CASES` sets how many are random.

use std::cell::Cell;

use kiln_isa::{AluOp, Source, Width};
use kiln_native::Setting;
use proptest::test_runner::{Config, TestRunner};

use crate::machines::native_agrees;
use crate::program::{Item, alu, constant, program, reg};
use crate::random::{any_item, registers};

/// Every ALU form on pairs of registers, with values that divide badly.
#[test]
fn every_arithmetic_form_agrees() {
    let values = [0, 1, 7, u64::MAX, i64::MIN as u64, 0x8000_0000, 0xffff_ffff, 0x1234_5678_9abc_def0, 63, 10];
    for width in [Width::W32, Width::W64] {
        for rotation in 0..values.len() {
            let mut items = Vec::new();
            let mut registers = values;
            registers.rotate_left(rotation);
            for op in AluOp::ALL {
                let (dst, src) = (reg(rotation as u8 % 9), reg((rotation as u8 + 3) % 10));
                items.push(Item::Plain(constant(dst, registers[dst.index()])));
                items.push(Item::Plain(alu(*op, width, dst, Source::Reg(src))));
                for imm in [0, 1, -1, 2, 7, 31, 32, 63, 64, 0xffff, i32::MIN, i32::MAX] {
                    items.push(Item::Plain(constant(dst, registers[dst.index()])));
                    items.push(Item::Plain(alu(*op, width, dst, Source::Imm(imm))));
                    // Into R9, so that no result is overwritten unseen.
                    items.push(Item::Plain(alu(AluOp::Xor, Width::W64, reg(9), Source::Reg(dst))));
                    items.push(Item::Plain(alu(AluOp::Mul, Width::W64, reg(9), Source::Imm(31))));
                }
            }
            let (object, entry) = program(&items, None, &registers);
            if !native_agrees(&object, entry, Setting::Scalar, false) {
                return;
            }
        }
    }
}

#[test]
fn random_programs_agree() {
    let cases = std::env::var("KILN_NATIVE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 60, ..Config::default() });
    let programs =
        (proptest::collection::vec(any_item(), 1..60), proptest::collection::vec(any_item(), 1..20), registers());
    let turn = Cell::new(0);
    let result = runner.run(&programs, |(items, callee, registers)| {
        turn.set(turn.get() + 1);
        let (object, entry) = program(&items, Some(&callee), &registers);
        native_agrees(&object, entry, Setting::ALL[turn.get() % 3], turn.get() % 2 == 0);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
