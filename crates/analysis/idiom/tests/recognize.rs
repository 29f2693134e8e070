//! What is found in compiler output, and what is left alone.

use kiln_idiom::annotate;
use kiln_isa::Insn;
use kiln_isa::operation::{Arch, Registry};
use kiln_program::{Function, Linkage, Object, Reference};

/// A function of these instructions and an `exit`.
fn object(text: &str) -> Object {
    let mut object = Object::default();
    let lines = text.split(';').map(str::trim).chain(["exit"]);
    let insns: Vec<_> = lines.map(|line| kiln_isa::text::parse(line).expect("an instruction")).collect();
    let mut nodes: Vec<_> = insns.into_iter().map(|insn| object.new_node(insn, Reference::None)).collect();
    for at in 0..nodes.len() {
        if let Insn::Branch { offset, .. } = nodes[at].insn {
            nodes[at].reference = Reference::Branch(nodes[at + 1 + offset as usize].id);
        }
    }
    object.functions.push(Function::new("example", "xdp", Linkage::Static, nodes));
    object
}

/// The marks found in a function of these instructions and an `exit`.
fn found(text: &str) -> Vec<(String, Vec<i32>, usize)> {
    let mut object = object(text);
    annotate(&mut object, &Registry::BUILTIN);
    kiln_program::operation::check(&object, &Registry::BUILTIN).expect("what is found is true");
    object.operations.into_iter().map(|mark| (mark.operation, mark.operands, mark.members.len())).collect()
}

/// The marks found if every branch is hard to predict.
fn found_without_branches(text: &str) -> Vec<(String, Vec<i32>)> {
    let mut object = object(text);
    object.operations = kiln_idiom::recognize_where(&object, &Registry::BUILTIN, &|_| true);
    kiln_program::operation::check(&object, &Registry::BUILTIN).expect("what is found is true");
    object.operations.into_iter().map(|mark| (mark.operation, mark.operands)).collect()
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

/// Stores of zero, by a register that holds it or by a number; loads and stores that nothing else takes.
#[test]
fn pairs_are_found_in_what_is_left() {
    for (text, expected) in [
        ("*(u64 *)(r10 - 8) = 0; *(u64 *)(r10 - 16) = 0", &[("clear_pair", &[10, -16][..])][..]),
        ("r1 = 0; *(u64 *)(r10 - 24) = r1; r2 = 7; *(u64 *)(r10 - 16) = r1; r0 = r2", &[("clear_pair", &[10, -24])]),
        (
            "w1 = 0; r2 = 0; *(u64 *)(r10 - 8) = r2; *(u64 *)(r10 - 16) = r1; *(u64 *)(r10 - 24) = 0; *(u64 *)(r10 - 32) = r1; \
             *(u64 *)(r10 - 40) = r1",
            &[("clear_pair", &[10, -16]), ("clear_pair", &[10, -32])],
        ),
        // What was zero is not; another register's zero; a zero of another block; not adjacent.
        ("r2 = 0; r2 += r1; *(u64 *)(r10 - 8) = r2; *(u64 *)(r10 - 16) = r2", &[("store_pair", &[10, -16, 2, 2])]),
        ("r2 = 0; call 5; *(u64 *)(r10 - 8) = 0; *(u64 *)(r10 - 16) = r2", &[]),
        ("r2 = 0; if r1 == 0 goto +1; r2 = r1; *(u64 *)(r10 - 8) = 0; *(u64 *)(r10 - 16) = r2", &[]),
        ("*(u64 *)(r10 - 8) = 0; *(u64 *)(r10 - 24) = 0", &[]),
        ("*(u32 *)(r10 - 8) = 0; *(u32 *)(r10 - 16) = 0", &[]),
        // An access in between.
        ("*(u64 *)(r10 - 8) = 0; *(u8 *)(r1 + 0) = 7; *(u64 *)(r10 - 16) = 0", &[]),
        ("*(u64 *)(r1 + 16) = 0; r1 += 8; *(u64 *)(r1 + 0) = 0", &[]),
        ("r2 = *(u64 *)(r1 + 0); r0 = *(u64 *)(r1 + 8); r0 += r2; r0 ^= r2", &[("load_pair", &[1, 0, 2, 0])]),
        ("r0 = *(u64 *)(r1 + 8); r1 = *(u64 *)(r1 + 0); r0 += r1; r0 ^= r1", &[("load_pair", &[1, 0, 1, 0])]),
        ("r1 = *(u64 *)(r1 + 0); r0 = *(u64 *)(r1 + 8); r0 += r1; r0 ^= r1", &[]),
        // Arithmetic takes its operand first.
        ("r0 = *(u64 *)(r1 + 8); r2 = *(u64 *)(r1 + 0); r0 += r2", &[("add_memory_64", &[0, 1, 0, 2])]),
    ] {
        let all = found(text);
        let all: Vec<_> = all.iter().map(|(name, operands, _)| (name.as_str(), operands.as_slice())).collect();
        assert_eq!(all, expected, "{text}");
    }
}

/// What a machine lacks is not looked for.
#[test]
fn a_machine_has_its_own_operations() {
    let text = "r2 = *(u64 *)(r1 + 0); r0 = *(u64 *)(r1 + 8); r0 += r2; r0 ^= r2; r3 = *(u64 *)(r1 + 32); r0 += r3";
    for (machine, expected) in [(Arch::X86_64, "add_memory_64"), (Arch::Aarch64, "load_pair")] {
        let names: Vec<_> = kiln_idiom::recognize(&object(text), &Registry::BUILTIN.on(machine));
        let names: Vec<_> = names.iter().map(|mark| mark.operation.as_str()).collect();
        assert_eq!(names, [expected]);
    }
}

#[test]
fn other_operations_are_found_apart() {
    for (text, operation, operands) in [
        (
            "r4 <<= 3; r5 = *(u64 *)(r1 + 0); r3 += r4; r0 = r3; r0 -= r5; r0 += r5",
            "address_scaled",
            vec![3, 3, 4, 4, 3],
        ),
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
fn accesses_to_memory_are_found_where_no_other_access_is_passed() {
    for (text, operation, operands) in [
        ("r0 = *(u16 *)(r1 + 12); r0 = be16 r0", "load_swapped_16", vec![0, 1, 12]),
        ("r1 = *(u32 *)(r1 - 4); r2 = 5; r1 = bswap32 r1; r0 = r1; r0 += r2", "load_swapped_32", vec![1, 1, -4]),
        ("r3 = *(u64 *)(r1 + 0); r3 = be64 r3; r0 = r3", "load_swapped_64", vec![3, 1, 0]),
        ("r2 = be16 r2; r0 = 1; *(u16 *)(r1 + 2) = r2", "store_swapped_16", vec![1, 2, 2, 2]),
        ("w3 = w2; r3 = be32 r3; *(u32 *)(r1 + 4) = r3; r0 = r2", "store_swapped_32", vec![1, 4, 2, 3]),
        ("r3 = r2; r3 = bswap64 r3; *(u64 *)(r10 - 8) = r3; r0 = r2", "store_swapped_64", vec![10, -8, 2, 3]),
        ("r3 = *(u64 *)(r1 + 8); r2 += 1; r0 ^= r3; r0 += r2", "xor_memory_64", vec![0, 1, 8, 3]),
        ("w3 = *(u32 *)(r1 + 8); w0 *= w3", "mul_memory_32", vec![0, 1, 8, 3]),
        ("r1 = *(u64 *)(r1 + 0); r0 &= r1", "and_memory_64", vec![0, 1, 0, 1]),
        // The address and the other operand in one register.
        ("r3 = *(u64 *)(r0 + 0); r0 -= r3", "sub_memory_64", vec![0, 0, 0, 3]),
    ] {
        assert_eq!((one(text).0.as_str(), one(text).1), (operation, operands), "{text}");
    }
    for text in [
        // Another access in between: a load, a store, what a helper may do.
        "r0 = *(u32 *)(r1 + 0); r2 = *(u32 *)(r1 + 4); r0 = be32 r0; r0 += r2",
        "r3 = *(u64 *)(r1 + 8); *(u64 *)(r1 + 8) = r2; r0 ^= r3",
        "r6 = *(u64 *)(r7 + 8); call 5; r0 ^= r6",
        // Another width, a sign, the lower half of a store only.
        "r0 = *(u16 *)(r1 + 0); r0 = be32 r0",
        "r3 = *(u32 *)(r1 + 8); r0 ^= r3",
        "r3 = *(s32 *)(r1 + 8); w0 ^= w3",
        "r2 = be32 r2; *(u16 *)(r1 + 0) = r2",
        // What is loaded or stored is needed afterwards; it stays as it is; it is the address, too.
        "r3 = *(u64 *)(r1 + 8); r2 ^= r3; r0 = r2; r0 += r3",
        "r2 = be32 r2; *(u32 *)(r1 + 0) = r2; r0 = r2",
        "r0 = *(u32 *)(r1 + 0); r0 = le32 r0",
        "r1 = be64 r1; *(u64 *)(r1 + 0) = r1",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

/// A choice is a choice only where it is requested, by a copy of the register to itself.
#[test]
fn choices_are_found_on_request() {
    for (text, operation, operands) in [
        ("r0 = r0; if r1 > r2 goto +1; r0 = r3", "select_64", vec![0, 3, 1, 2, 2]),
        ("r0 = r0; r4 += 7; if w0 s< 5 goto +1; r0 = r3; r0 += r4", "select_constant_32", vec![0, 3, 0, 5, 12]),
    ] {
        assert_eq!((one(text).0.as_str(), one(text).1), (operation, operands), "{text}");
    }
    for text in [
        "if r1 > r2 goto +1; r0 = r3",
        "w0 = w0; if r1 > r2 goto +1; r0 = r3",
        "r0 = r0; if r1 & 4 goto +1; r0 = r3",
        "r0 = r0; if r1 > r2 goto +1; w0 = w3",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

/// Without a request, it needs a branch that is known to be hard to predict.
#[test]
fn choices_are_found_where_a_branch_is_hard_to_predict() {
    let mut object = object("if r1 > r2 goto +1; r0 = r3; if r1 > 9 goto +1; r0 = r4");
    let hard = object.functions[0].nodes[2].id;
    object.operations = kiln_idiom::recognize_where(&object, &Registry::BUILTIN, &|id| id == hard);
    kiln_program::operation::check(&object, &Registry::BUILTIN).expect("what is found is true");
    let found: Vec<_> = object.operations.iter().map(|mark| (mark.operation.as_str(), &mark.operands[..])).collect();
    assert_eq!(found, [("select_constant_64", &[0, 4, 1, 9, 2][..])]);
}

#[test]
fn hints_are_found() {
    assert_eq!(one("r1 = r1; r1 = r1; r0 = 0"), ("prefetch".to_owned(), vec![1], 2));
    assert_eq!(one("r1 &= r1; r1 &= r1; r0 = 0"), ("speculation_barrier".to_owned(), vec![1], 2));
    for text in ["r1 = r1; r0 = 0", "w1 = w1; w1 = w1", "r1 &= r1; r1 |= r1", "r1 = r1; r2 = r1; r1 = r1; r0 = r2"] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn flags_are_found() {
    for (text, operation, operands) in [
        ("r0 = 1; if r1 > r2 goto +1; r0 = 0", "flag_64", vec![0, 1, 2, 2]),
        ("w0 = 1; r3 += 7; if w1 s< -5 goto +1; w0 = 0; r0 += r3", "flag_constant_32", vec![0, 1, -5, 12]),
        // The branch over the one has the opposite comparison.
        ("r0 = 0; if r1 == 7 goto +1; r0 = 1", "flag_constant_64", vec![0, 1, 7, 5]),
    ] {
        assert_eq!(found_without_branches(text), [(operation.to_owned(), operands)], "{text}");
        assert_eq!(found(text), [], "{text}: a branch that may be predicted well");
    }
    for text in [
        "r0 = 1; if r1 & 4 goto +1; r0 = 0",
        "r0 = 1; if r0 > r2 goto +1; r0 = 0",
        "r0 = 1; if r1 > r2 goto +1; r0 = 2",
        "r0 = 1; if r1 > r2 goto +2; r0 = 0; r0 += 1",
    ] {
        assert_eq!(found_without_branches(text), [], "{text}");
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

#[test]
fn chains_of_comparisons_are_found() {
    for (text, operation, operands, length) in [
        (
            "if r1 == 6 goto +3; if r1 == 17 goto +2; if r1 == 58 goto +1; r0 = 1; r0 += 1",
            "branch_if_any_64",
            vec![1, 6, 17, 58, 58, 58, 58, 58],
            3,
        ),
        (
            "if w1 == -3 goto +2; if w1 == 7 goto +1; if w1 != 60 goto +1; r0 = 1; r0 += 1",
            "branch_if_none_32",
            vec![1, -3, 7, 60, 60, 60, 60, 60],
            3,
        ),
        // The longest that ends there: the first number does not fit, and eight are more than seven.
        (
            "if r1 == 900 goto +4; if r1 == 6 goto +3; if r1 == 17 goto +2; if r1 == 58 goto +1; r0 = 1; r0 += 1",
            "branch_if_any_64",
            vec![1, 6, 17, 58, 58, 58, 58, 58],
            3,
        ),
        (
            "if r1 == 6 goto +4; if r1 == 17 goto +3; if r1 == 58 goto +2; if r1 == 900 goto +1; r0 = 1; r0 += 1",
            "branch_if_any_64",
            vec![1, 6, 17, 58, 58, 58, 58, 58],
            3,
        ),
        (
            "if r1 == 1 goto +8; if r1 == 3 goto +7; if r1 == 5 goto +6; if r1 == 7 goto +5; if r1 == 9 goto +4; \
             if r1 == 11 goto +3; if r1 == 13 goto +2; if r1 == 15 goto +1; r0 = 1; r0 += 1",
            "branch_if_any_64",
            vec![1, 3, 5, 7, 9, 11, 13, 15],
            7,
        ),
    ] {
        assert_eq!(one(text), (operation.to_owned(), operands, length), "{text}");
    }
    for text in [
        // Two are as fast as they are; too far apart; other places, registers, widths and comparisons.
        "if r1 == 6 goto +2; if r1 == 17 goto +1; r0 = 1; r0 += 1",
        "if r1 == 6 goto +3; if r1 == 17 goto +2; if r1 == 70 goto +1; r0 = 1; r0 += 1",
        "if r1 == 6 goto +4; if r1 == 17 goto +2; if r1 == 58 goto +1; r0 = 1; r0 += 1; r0 += 1",
        "if r1 == 6 goto +3; if r2 == 17 goto +2; if r1 == 58 goto +1; r0 = 1; r0 += 1",
        "if r1 == 6 goto +3; if w1 == 17 goto +2; if r1 == 58 goto +1; r0 = 1; r0 += 1",
        "if r1 == 6 goto +3; if r1 != 17 goto +2; if r1 == 58 goto +1; r0 = 1; r0 += 1",
        // Something in between.
        "if r1 == 6 goto +4; if r1 == 17 goto +3; r3 = 1; if r1 == 58 goto +1; r0 = 1; r0 += 1",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn tests_of_bits_are_found() {
    for (text, operation, operands) in [
        ("r2 = r1; r2 &= 4; if r2 == 0 goto +1; r0 = 1; r0 += 1", "branch_if_no_bits_constant_64", vec![2, 1, 4]),
        ("r1 &= -256; if r1 != 0 goto +1; r0 = 1; r0 += 1", "branch_if_bits_constant_64", vec![1, 1, -256]),
        ("w2 = w1; r5 = 7; w2 &= w3; if w2 != 0 goto +1; r0 = r5", "branch_if_bits_32", vec![2, 1, 3]),
        ("r2 = r1; w2 &= 64; if r2 == 0 goto +1; r0 = 1; r0 += 1", "branch_if_no_bits_constant_32", vec![2, 1, 64]),
        ("w2 = w1; r2 &= r3; if r2 == 0 goto +1; r0 = 1; r0 += 1", "branch_if_no_bits_32", vec![2, 1, 3]),
        ("r2 &= r3; if r2 != 0 goto +1; r0 = 1; r0 += 1", "branch_if_bits_64", vec![2, 2, 3]),
    ] {
        let (found, values, _) = one(text);
        assert_eq!((found.as_str(), values), (operation, operands), "{text}");
    }
    for text in [
        // What is tested is needed afterwards: at the branch's target, and after it.
        "r2 = r1; r2 &= 4; if r2 == 0 goto +1; r0 = 1; r0 += r2",
        "r2 = r1; r2 &= 4; if r2 == 0 goto +1; r0 = r2; r0 += 1",
        // More than the lower half is tested; another number; another comparison.
        "r2 = r1; r2 &= 4; if w2 s< 0 goto +1; r0 = 1; r0 += 1",
        "r2 = r1; r2 &= 4; if r2 == 4 goto +1; r0 = 1; r0 += 1",
        "r2 = r1; r2 |= 4; if r2 == 0 goto +1; r0 = 1; r0 += 1",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}
