//! What is found in compiler output, and what is left alone.

use kiln_idiom::annotate;
use kiln_isa::operation::Registry;
use kiln_program::{Function, Linkage, Object, Reference};

/// The marks found in a function of these instructions and an `exit`.
fn found(text: &str) -> Vec<(String, Vec<i32>, usize)> {
    let mut object = Object::default();
    let lines = text.split(';').map(str::trim).chain(["exit"]);
    let insns: Vec<_> = lines.map(|line| kiln_isa::text::parse(line).expect("an instruction")).collect();
    let nodes = insns.into_iter().map(|insn| object.new_node(insn, Reference::None)).collect();
    let (name, section) = ("example".to_owned(), "xdp".to_owned());
    object.functions.push(Function { name, section, linkage: Linkage::Static, btf_id: 0, nodes });
    annotate(&mut object, &Registry::BUILTIN);
    kiln_program::operation::check(&object, &Registry::BUILTIN).expect("what is found is true");
    object.operations.into_iter().map(|mark| (mark.operation, mark.operands, mark.members.len())).collect()
}

fn one(text: &str) -> (String, Vec<i32>, usize) {
    let all = found(text);
    assert_eq!(all.len(), 1, "{text}: {all:?}");
    all[0].clone()
}

#[test]
fn rotations_are_found_however_they_are_written() {
    for (text, operation, operands) in [
        ("w4 = w3; w4 >>= 28; w3 <<= 4; w3 |= w4; w0 = w3", "rotate_left_32", vec![3, 3, 4, 4]),
        ("w4 = w3; w3 <<= 4; w4 >>= 28; w3 |= w4; w0 = w3", "rotate_left_32", vec![3, 3, 4, 4]),
        ("w4 = w3; w4 <<= 4; w3 >>= 28; w3 ^= w4; w0 = w3", "rotate_left_32", vec![3, 3, 4, 4]),
        ("r4 = r3; w4 <<= 4; w3 >>= 28; w4 += w3; w0 = w4", "rotate_left_32", vec![4, 3, 3, 4]),
        ("r4 = r3; r4 >>= 51; r2 = r3; r2 <<= 13; r2 |= r4; r0 = r2", "rotate_left_64", vec![2, 3, 4, 13]),
        ("r2 = r3; r4 = r3; r2 <<= 13; r4 >>= 51; r4 |= r2; r0 = r4", "rotate_left_64", vec![4, 3, 2, 13]),
        // Other instructions in between, and the copied register used further.
        (
            "r4 = r2; r5 = *(u64 *)(r1 + 0); r4 >>= 51; r3 = r2; r5 += r6; r3 <<= 13; r3 |= r4; r0 = r2; r0 += r3",
            "rotate_left_64",
            vec![3, 2, 4, 13],
        ),
        // A call in between, where the registers survive it.
        ("r6 = r7; r6 >>= 51; call 5; r7 <<= 13; r7 |= r6; r0 = r7", "rotate_left_64", vec![7, 7, 6, 13]),
        // By a register.
        ("w5 = w2; w5 = -w5; w0 = w3; w0 <<= w2; w3 >>= w5; w0 |= w3", "rotate_register_32", vec![0, 3, 2, 3, 5]),
        ("r5 = 64; r5 -= r4; r0 = r3; r0 <<= r4; r3 >>= r5; r0 |= r3", "rotate_register_64", vec![0, 3, 4, 3, 5]),
    ] {
        assert_eq!((one(text).0.as_str(), one(text).1), (operation, operands), "{text}");
    }
}

#[test]
fn other_operations_are_found_apart() {
    for (text, operation, operands) in [
        ("r4 <<= 3; r5 = *(u64 *)(r1 + 0); r3 += r4; r0 = r3; r0 += r5", "address_scaled", vec![3, 3, 4, 4, 3]),
        ("r0 = r4; r5 += r2; r0 <<= 2; r0 += r3; r0 += r5", "address_scaled", vec![0, 3, 4, 0, 2]),
        ("w0 = w4; w0 ^= -1; r5 += r2; w0 &= w3; r0 += r5", "and_not_32", vec![0, 4, 3, 0]),
        ("r4 ^= -1; r2 = 5; r0 &= r4; r0 += r2", "and_not_64", vec![0, 4, 0, 4]),
        ("r3 <<= 32; r2 += r4; r3 s>>= 32; r0 = r3; r0 += r2", "sign_extend_32", vec![3, 3]),
        ("r0 = r2; r0 <<= 56; r0 s>>= 56", "sign_extend_8", vec![0, 2]),
        ("r0 = r2; r0 <<= 32; r0 >>= 32", "zero_extend_32", vec![0, 2]),
    ] {
        assert_eq!((one(text).0.as_str(), one(text).1), (operation, operands), "{text}");
    }
    for text in [
        // The index is needed afterwards; the scale is too large; the mask is not all ones.
        "r4 <<= 3; r3 += r4; r0 = r3; r0 += r4",
        "r4 <<= 4; r3 += r4; r0 = r3",
        "w0 ^= -2; w0 &= w3",
        // Distances differ; a copy of 32 bits loses the upper half.
        "r0 <<= 32; r0 s>>= 31",
        "r4 ^= -1; w0 &= w4",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn temporaries_may_be_used_again_at_once() {
    let text = "r4 = r2; r4 >>= 51; r2 <<= 13; r2 |= r4; r4 = r3; r4 >>= 47; r3 <<= 17; r3 |= r4; r0 = r2; r0 ^= r3";
    assert_eq!(found(text).len(), 2);
}

#[test]
fn what_only_looks_like_a_rotation_is_left_alone() {
    for text in [
        // The shifts do not add up; the amounts are exchanged; one is signed.
        "r4 = r2; r4 >>= 50; r2 <<= 13; r2 |= r4; r0 = r2",
        "r4 = r2; r4 s>>= 51; r2 <<= 13; r2 |= r4; r0 = r2",
        "w4 = w2; w4 >>= 51; r2 <<= 13; r2 |= r4; r0 = r2",
        // A copy of 32 bits does not carry 64.
        "w4 = w2; r4 >>= 51; r2 <<= 13; r2 |= r4; r0 = r2",
        // The part is needed afterwards.
        "r4 = r2; r4 >>= 51; r2 <<= 13; r2 |= r4; r0 = r4",
        // The copy is of another register.
        "r4 = r3; r4 >>= 51; r2 <<= 13; r2 |= r4; r0 = r2",
        // Something between depends on the parts.
        "r4 = r2; r4 >>= 51; *(u64 *)(r10 - 8) = r4; r2 <<= 13; r2 |= r4; r0 = r2",
        // Exclusive or of equal parts is zero: wrong for a rotation by 0.
        "w5 = w2; w5 = -w5; w0 = w3; w0 <<= w2; w3 >>= w5; w0 ^= w3",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}
