//! The normal form against plain evaluation: random terms at several widths, built both ways, have the same value.

use kiln_equiv::evaluate::Evaluator;
use kiln_equiv::term::{Arena, Symbol, Term};
use kiln_isa::Reg;
use kiln_isa::semantics::{BitVec, Bits, mask};

/// A recipe for a term, applied to any kind of bit vector.
// long: one arm for each operation
fn build<B: BitVec>(script: &[u64], variables: &[B], widths: &[u32]) -> Vec<B> {
    let mut stack: Vec<B> = variables.to_vec();
    for step in script {
        let pick = |salt: u32| stack[(step >> salt) as usize % stack.len()].clone();
        let a = pick(8);
        let width = a.bits();
        let fit = |value: B| {
            if value.bits() == width {
                value
            } else if value.bits() > width {
                value.truncate(width)
            } else if step >> 7 & 1 == 0 {
                value.zero_extend(width)
            } else {
                value.sign_extend(width)
            }
        };
        let constant = match step >> 40 & 3 {
            0 => step >> 42 & 0xff,
            1 => mask((step >> 42) as u32 % 64 + 1),
            2 => 1 << ((step >> 42) % 64),
            _ => step >> 32,
        };
        let b = if step >> 6 & 1 == 0 { fit(pick(20)) } else { a.like(constant) };
        // Amounts below the width, even if the width is not a power of two.
        let amount = B::ite(&b.ult(&b.like(width.into())), &b, &b.like(u64::from(width) / 2));
        let guarded = |result: B| B::ite(&b.is_zero(), &a, &result);
        let other = widths[(step >> 30) as usize % widths.len()];
        let resized = if other <= width {
            a.truncate(other)
        } else if step >> 6 & 1 == 0 {
            a.zero_extend(other)
        } else {
            a.sign_extend(other)
        };
        stack.push(match step % 23 {
            0 => a.add(&b),
            1 => a.sub(&b),
            2 => a.mul(&b),
            3 => a.and(&b),
            4 => a.or(&b),
            5 => a.xor(&b),
            6 => a.shl(&amount),
            7 => a.lshr(&amount),
            8 => a.ashr(&amount),
            9 => guarded(a.udiv(&b)),
            10 => guarded(a.urem(&b)),
            11 => guarded(a.sdiv(&b)),
            12 => guarded(a.srem(&b)),
            13 => B::ite(&a.eq(&b), &b, &a.like(constant)),
            14 => B::ite(&a.ult(&b), &a, &b),
            15 => B::ite(&a.slt(&b), &b, &a),
            16 => B::ite(&B::not(&a.sle(&b)), &a.add(&b), &a.like(0)),
            17 if width % 8 == 0 => a.swap_bytes(),
            18 => a.xor(&a.like(u64::MAX)),
            19 => a.shl(&a.like(u64::from(width / 2))).or(&a.lshr(&a.like(u64::from(width - width / 2)))),
            20 => a.sub(&a.and(&a.like(0xff))),
            _ => resized,
        });
    }
    stack
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let value = *state ^ *state >> 29;
    value.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ value >> 31
}

fn compare(widths: &[u32], rounds: u32, seed: u64) {
    let mut state = seed;
    for round in 0..rounds {
        let length = 2 + random(&mut state) as usize % 10;
        let script: Vec<_> = (0..length).map(|_| random(&mut state)).collect();
        let sizes: Vec<_> = (0..3).map(|_| widths[random(&mut state) as usize % widths.len()]).collect();
        let arena = Arena::new();
        let literal = Arena::literal();
        let symbol = |at: usize| Symbol::Register(Reg::new(at as u8).unwrap());
        let variables = |arena| -> Vec<Term<'_>> {
            let arena: &Arena = arena;
            sizes.iter().enumerate().map(|(at, bits)| arena.symbol(symbol(at), *bits)).collect()
        };
        let terms = build(&script, &variables(&arena), widths);
        let plain = build(&script, &variables(&literal), widths);
        for _ in 0..6 {
            let values: Vec<_> = sizes
                .iter()
                .map(|bits| match random(&mut state) % 4 {
                    0 => random(&mut state) & 3,
                    1 => u64::MAX - (random(&mut state) & 3),
                    2 => 1 << (u64::from(*bits) - 1),
                    _ => random(&mut state),
                })
                .collect();
            let bits: Vec<_> = sizes.iter().zip(&values).map(|(bits, value)| Bits::new(*bits, *value)).collect();
            let expected = build(&script, &bits, widths);
            let variable = |symbol: Symbol, bits: u32| match symbol {
                Symbol::Register(reg) => values[reg.index()] & mask(bits),
                _ => unreachable!("only registers"),
            };
            let mut evaluator = Evaluator::new(&arena, variable);
            let mut literally = Evaluator::new(&literal, variable);
            for (at, expected) in expected.iter().enumerate() {
                let term = &terms[at];
                assert_eq!(term.bits(), BitVec::bits(expected));
                let found = evaluator.value(term.id());
                assert_eq!(found, expected.value(), "round {round} step {at}: {term:?} at {values:x?}");
                assert_eq!(literally.value(plain[at].id()), expected.value(), "literal, round {round} step {at}");
            }
        }
    }
}

#[test]
fn normal_forms_keep_their_values() {
    compare(&[64, 32, 8, 1], 6000, 1);
    compare(&[64, 32, 16, 8], 6000, 2);
    compare(&[8, 4, 3, 5], 12000, 3);
    compare(&[1, 2, 7, 33, 63], 6000, 4);
}

/// Comparisons of sign-extended terms are those of the terms: the same term, and the same value for all bytes.
#[test]
fn sign_extension_changes_no_comparison() {
    type Compare = for<'a> fn(&Term<'a>, &Term<'a>) -> Term<'a>;
    type Value = fn(i8, i8) -> bool;
    let comparisons: [(Compare, Value); 3] = [
        (|a, b| BitVec::eq(a, b), |a, b| a == b),
        (|a, b| a.ult(b), |a, b| (a as u8) < b as u8),
        (|a, b| a.slt(b), |a, b| a < b),
    ];
    let arena = Arena::new();
    let byte = arena.symbol(Symbol::Register(Reg::R1), 8);
    let wide = byte.sign_extend(64);
    for number in i8::MIN..=i8::MAX {
        let (narrow, long) = (arena.constant(8, number as u64), arena.constant(64, i64::from(number) as u64));
        for (compare, holds) in comparisons {
            let (left, right) = (compare(&wide, &long), compare(&long, &wide));
            assert_eq!([left.id(), right.id()], [compare(&byte, &narrow).id(), compare(&narrow, &byte).id()]);
            for value in i8::MIN..=i8::MAX {
                let mut evaluator = Evaluator::new(&arena, |_, _| u64::from(value as u8));
                assert_eq!(evaluator.value(left.id()) == 1, holds(value, number), "{value} {number}: {left:?}");
                assert_eq!(evaluator.value(right.id()) == 1, holds(number, value), "{number} {value}: {right:?}");
            }
        }
    }
}

/// A program chooses how deep a term is: building, cutting and evaluating it take no stack for it, and memory by its length.
#[test]
fn deep_terms_take_no_stack() {
    const DEPTH: usize = 4_000;
    type Step = for<'a> fn(Term<'a>, &Term<'a>) -> Term<'a>;
    let steps: [(&str, Step); 4] = [
        ("products and sums", |term, other| term.mul(other).add(&term)),
        ("exclusive ors of sums", |term, other| term.add(other).xor(&other.mul(&term))),
        ("negations", |term, other| Term::not(&term.mul(other))),
        ("choices", |term, other| Term::ite(&other.ult(&term), &term.mul(other), other)),
    ];
    for (name, step) in steps {
        let arena = Arena::new();
        let other = arena.symbol(Symbol::Register(Reg::R2), 64);
        let mut term = arena.symbol(Symbol::Register(Reg::R1), 64);
        let begun = std::time::Instant::now();
        for _ in 0..DEPTH {
            term = step(term, &other);
        }
        let low = term.truncate(32);
        let mut evaluator = Evaluator::new(&arena, |_, _| 3);
        assert_eq!(evaluator.value(low.id()), evaluator.value(term.id()) & 0xffff_ffff, "{name}");
        println!("{name}: {} terms, {:?}", arena.len(), begun.elapsed());
    }
}
