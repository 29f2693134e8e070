//! Terms are simplified as they are built: each simplification is compared with evaluation.

use kiln_certificate::term::{Arena, Term};
use kiln_isa::semantics::{BitVec, Bits};
use proptest::prelude::*;

/// An operation on a stack of values.
#[derive(Clone, Copy, Debug)]
enum Op {
    Constant(u64),
    Variable(u8),
    Binary(u8),
    Low(u8),
    Extend(bool),
    Choose,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(0xff), Just(0xffff_ffff), any::<u64>()]
            .prop_map(Op::Constant),
        (0u8..3).prop_map(Op::Variable),
        (0u8..11).prop_map(Op::Binary),
        prop_oneof![Just(8u8), Just(16), Just(32)].prop_map(Op::Low),
        any::<bool>().prop_map(Op::Extend),
        Just(Op::Choose),
    ]
}

/// Applies the same operations to terms and to numbers.
fn run<B: BitVec>(ops: &[Op], constant: &dyn Fn(u64) -> B, variable: &dyn Fn(u8) -> B) -> B {
    let mut stack = vec![variable(0), variable(1), variable(2)];
    for op in ops {
        let top = stack.last().expect("it is never empty").clone();
        let below = stack[stack.len().saturating_sub(2)].clone();
        stack.push(match *op {
            Op::Constant(value) => constant(value),
            Op::Variable(number) => variable(number),
            Op::Low(bits) => top.truncate(u32::from(bits)).zero_extend(64),
            Op::Extend(half) => top.truncate(if half { 32 } else { 8 }).sign_extend(64),
            Op::Choose => B::ite(&below.ult(&top), &below, &top),
            Op::Binary(number) => match number {
                0 => below.add(&top),
                1 => below.sub(&top),
                2 => below.mul(&top),
                3 => below.and(&top),
                4 => below.or(&top),
                5 => below.xor(&top),
                6 => below.shl(&top.shift_amount()),
                7 => below.lshr(&top.shift_amount()),
                8 => below.ashr(&top.shift_amount()),
                9 => B::ite(&below.eq(&top), &below.swap_bytes(), &top),
                _ => B::ite(&top.is_zero(), &below, &below.udiv(&top)),
            },
        });
    }
    stack.pop().expect("it is never empty")
}

proptest! {
    #[test]
    fn terms_mean_what_their_operations_do(
        ops in prop::collection::vec(op(), 1..24),
        values in prop::array::uniform3(prop_oneof![Just(0), Just(1), 0u64..300, any::<u64>()]),
    ) {
        let arena = Arena::default();
        let term: Term<'_> = run(
            &ops,
            &|value| arena.constant(64, value),
            &|number| arena.symbol(&format!("x{number}"), 64),
        );
        let number = run(&ops, &|value| Bits::new(64, value), &|number| Bits::new(64, values[usize::from(number)]));
        let value = |name: &str, _: &[u64]| values[usize::from(name.as_bytes()[1] - b'0')];
        prop_assert_eq!(arena.evaluate(term, &value), number.value());
        prop_assert_eq!(term.zeros() & number.value(), 0);
    }
}

/// Both operands of each step have the one before: without a memory the time would double with every step, and with
/// recursion the stack would end.
#[test]
fn parts_of_a_deep_term_take_time_linear_in_its_depth() {
    const STEPS: usize = 60_000;
    let arena = Arena::default();
    let (mut one, mut other) = (arena.symbol("x0", 64), arena.symbol("x1", 64));
    for _ in 0..STEPS {
        one = one.xor(&other);
        other = other.mul(&one);
    }
    let before = arena.len();
    assert_eq!(one.truncate(32).bits(), 32);
    assert!(arena.len() - before <= 2 * STEPS + 2, "{} new terms", arena.len() - before);
    // Again: nothing new.
    let known = arena.len();
    assert_eq!(one.truncate(32), one.truncate(32));
    assert_eq!(arena.len(), known);
}
