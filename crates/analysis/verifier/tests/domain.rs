//! The abstract domain contains the concrete one: exhaustively at 4 bits, sampled at 8, 32 and 64.

use kiln_isa::semantics::{BitVec, Bits, at_width, compare};
use kiln_isa::{AluOp, JumpOp, Size, Width};
use kiln_verifier::domain::{Abstract, Scalar, Tnum, Truth, apply, refine};

/// A small generator of numbers, the same on every run (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Numbers of all magnitudes and signs, corners often.
    fn number(&mut self) -> u64 {
        let shifted = self.next() >> self.below(64);
        match self.below(8) {
            0 => [0, 1, u64::MAX, 1 << 31, 1 << 32, 1 << 63, u32::MAX.into(), i64::MAX as u64][self.below(8) as usize],
            1 => shifted.wrapping_neg(),
            2 => u64::from(shifted as u32),
            3 => shifted as i32 as i64 as u64,
            4 => 1 << self.below(64),
            _ => shifted,
        }
    }

    /// A few numbers near each other or not, and what is known of a number that may be any of them.
    fn set(&mut self) -> (Vec<u64>, Scalar) {
        let first = self.number();
        let mut values = vec![first];
        for _ in 0..self.below(4) {
            let near = first.wrapping_add(self.below(40)).wrapping_sub(20);
            values.push(if self.below(2) == 0 { near } else { self.number() });
        }
        let mut scalar = Scalar::constant(first);
        for value in &values[1..] {
            scalar = scalar.join(&Scalar::constant(*value));
        }
        (values, scalar.deduced())
    }
}

#[test]
fn deduction_keeps_every_value() {
    let mut random = Random(3);
    for _ in 0..200_000 {
        let (values, scalar) = random.set();
        for value in values {
            assert!(scalar.contains(value), "{value:#x} left {scalar:x?}");
        }
    }
}

/// Numbers 4 bits wide: everything a tristate number can say, and every range.
fn small_sets() -> Vec<Vec<Abstract>> {
    let bits = 4;
    let mut tnums = Vec::new();
    for mask in 0..16_u64 {
        for value in (0..16).filter(|value| value & mask == 0) {
            tnums.push(Abstract::with_ranges(bits, Tnum { value, mask }, (0, 15), (-8, 7)));
        }
    }
    let unknown = Tnum { value: 0, mask: 15 };
    let ranges = |low: i64, high: i64| (low..=high).flat_map(move |from| (from..=high).map(move |to| (from, to)));
    let unsigned =
        ranges(0, 15).map(|(from, to)| Abstract::with_ranges(bits, unknown, (from as u64, to as u64), (-8, 7)));
    let signed = ranges(-8, 7).map(|range| Abstract::with_ranges(bits, unknown, (0, 15), range));
    vec![tnums, unsigned.collect(), signed.collect()]
}

#[test]
fn operations_contain_the_concrete_ones_at_four_bits() {
    let concrete: Vec<Bits> = (0..16).map(|value| Bits::new(4, value)).collect();
    for set in small_sets() {
        let members: Vec<Vec<Bits>> = set
            .iter()
            .map(|number| concrete.iter().copied().filter(|value| number.contains(value.value())).collect())
            .collect();
        for (left, lefts) in set.iter().zip(&members) {
            for (right, rights) in set.iter().zip(&members) {
                for op in AluOp::ALL {
                    let result = op.apply(left, right);
                    for a in lefts {
                        for b in rights {
                            let value = op.apply(a, b).value();
                            assert!(result.contains(value), "{op:?} {a:?} {b:?}: {value} not in {result:x?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn comparisons_agree_at_four_bits() {
    let sets = small_sets();
    for set in &sets {
        for left in set {
            for right in set.iter().step_by(3) {
                for op in JumpOp::ALL {
                    let known = op.holds(left, right);
                    for a in (0..16).filter(|value| left.contains(*value)) {
                        for b in (0..16).filter(|value| right.contains(*value)) {
                            let holds = op.holds(&Bits::new(4, a), &Bits::new(4, b));
                            let possible = if holds { known != Truth::False } else { known != Truth::True };
                            assert!(possible, "{op:?} {a} {b}: {holds} but {known:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn operations_contain_the_concrete_ones_at_64_and_32_bits() {
    let mut random = Random(5);
    for _ in 0..100_000 {
        let (lefts, left) = random.set();
        let (rights, right) = random.set();
        for op in AluOp::ALL {
            for width in [Width::W32, Width::W64] {
                let result = apply(*op, width, &left, &right);
                for a in &lefts {
                    for b in &rights {
                        let (a, b) = (Bits::new(64, *a), Bits::new(64, *b));
                        let value = at_width(width, &a, &b, |a, b| op.apply(a, b)).value();
                        assert!(
                            result.contains(value),
                            "{op:?} {width:?} {a:x?} {b:x?}: {value:#x} not in {result:x?}\nof {left:x?}\nand {right:x?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn conversions_contain_the_concrete_ones() {
    let mut random = Random(7);
    for _ in 0..200_000 {
        let (values, scalar) = random.set();
        let wide = Abstract::wide(scalar);
        for size in Size::ALL {
            let bits = size.bits();
            let low = wide.truncate(bits);
            let forms = [low.zero_extend(64), low.sign_extend(64), low.sign_extend(32.max(bits)).zero_extend(64)];
            let swapped = low.swap_bytes().zero_extend(64);
            for value in &values {
                let concrete = Bits::new(64, *value).truncate(bits);
                let expected = [
                    concrete.zero_extend(64),
                    concrete.sign_extend(64),
                    concrete.sign_extend(32.max(bits)).zero_extend(64),
                ];
                for (form, expected) in forms.iter().zip(expected) {
                    assert!(form.contains(expected.value()), "{value:#x} at {bits}: {expected:x?} not in {form:x?}");
                }
                if bits >= 16 {
                    let expected = concrete.swap_bytes().zero_extend(64).value();
                    assert!(swapped.contains(expected), "{value:#x} swapped at {bits}");
                }
            }
        }
    }
}

#[test]
fn branches_keep_every_value_that_takes_them() {
    let mut random = Random(11);
    for _ in 0..100_000 {
        let (lefts, left) = random.set();
        let (rights, right) = random.set();
        for op in JumpOp::ALL {
            for width in [Width::W32, Width::W64] {
                let refined = [true, false].map(|taken| refine(*op, width, taken, &left, &right));
                for a in &lefts {
                    for b in &rights {
                        let taken = compare(*op, width, &Bits::new(64, *a), &Bits::new(64, *b));
                        let side = refined[usize::from(!taken)];
                        let Some((x, y)) = side else {
                            panic!("{op:?} {width:?} {a:#x} {b:#x} came out {taken}, thought impossible");
                        };
                        assert!(x.contains(*a), "{op:?} {width:?} {taken}: {a:#x} left {x:x?}");
                        assert!(y.contains(*b), "{op:?} {width:?} {taken}: {b:#x} left {y:x?}");
                    }
                }
            }
        }
    }
}

/// The domain is worth its name only if it also says something.
#[test]
fn operations_are_precise_where_the_kernel_is() {
    let byte = Scalar::unsigned_range(0, 255);
    let shifted = apply(AluOp::Lsh, Width::W64, &byte, &Scalar::constant(2));
    assert_eq!((shifted.umin, shifted.umax, shifted.tnum.mask), (0, 1020, 0x3fc));
    let (taken, _) = refine(JumpOp::Gt, Width::W64, true, &byte, &Scalar::constant(40)).unwrap();
    assert_eq!((taken.umin, taken.umax), (41, 255));
    let (fallen, _) = refine(JumpOp::Sgt, Width::W32, false, &byte, &Scalar::constant(40)).unwrap();
    assert_eq!((fallen.umin, fallen.umax), (0, 40));
    let masked = apply(AluOp::And, Width::W64, &Scalar::UNKNOWN, &Scalar::constant(0xff));
    assert_eq!((masked.umin, masked.umax, masked.s32_max), (0, 255, 255));
    let (small, _) = refine(JumpOp::Set, Width::W64, false, &byte, &Scalar::constant(0xf0)).unwrap();
    assert_eq!(small.umax, 15);
    let negated = apply(AluOp::Sub, Width::W64, &Scalar::constant(0), &byte);
    assert_eq!((negated.smin, negated.smax), (-255, 0));
    let divided = apply(AluOp::Div, Width::W64, &byte, &Scalar::constant(16));
    assert_eq!(divided.umax, 15);
}
