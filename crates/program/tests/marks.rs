//! Correct marks are accepted, and every kind of false mark is refused.

use kiln_isa::operation::{Binding, Condition, Exit, Form, OperandKind, Operands, Operation, Registry, Template};
use kiln_isa::{Insn, Reg};
use kiln_program::operation::{Refusal, arrange, check, schedule};
use kiln_program::{Function, FunctionId, Linkage, Mark, Object, Reference};

/// A function of these instructions, separated by `;`. A leading `*` makes an instruction a member of the mark, a
/// trailing `-> n` a branch's target.
fn object(text: &str, operation: &str, form: u8, operands: &[i32]) -> Object {
    let mut object = Object::default();
    let mut nodes = Vec::new();
    let mut members = Vec::new();
    let mut targets = Vec::new();
    for line in text.split(';').map(str::trim) {
        let (line, target) = line.split_once("->").map_or((line, None), |(line, to)| (line, Some(to.trim())));
        let member = line.starts_with("* ");
        let insn = kiln_isa::text::parse(line.strip_prefix("* ").unwrap_or(line).trim()).expect("an instruction");
        let node = object.new_node(insn, Reference::None);
        if member {
            members.push(node.id);
        }
        targets.push(target.map(|to| to.parse::<usize>().expect("a position")));
        nodes.push(node);
    }
    for at in 0..nodes.len() {
        if let Some(to) = targets[at] {
            nodes[at].reference = Reference::Branch(nodes[to].id);
        }
    }
    object.functions.push(Function::new("example", "xdp", Linkage::Static, nodes));
    object.operations.push(Mark { operation: operation.into(), form, operands: operands.to_vec(), members });
    object
}

const ROTATE: &str = "rotate_left_64";

fn refusal(text: &str, form: u8, operands: &[i32]) -> Option<Refusal> {
    check(&object(text, ROTATE, form, operands), &Registry::BUILTIN).err().map(|refused| refused.refusal)
}

#[test]
fn members_move_to_the_last_one() {
    let text =
        "* r4 = r2; r5 = *(u64 *)(r1 + 0); * r4 >>= 51; * r3 = r2; r5 += r6; * r3 <<= 13; * r3 |= r4; r0 = r3; exit";
    let object = object(text, ROTATE, 2, &[3, 2, 4, 13]);
    let schedule = schedule(&object, FunctionId(0), &Registry::BUILTIN).expect("the mark is true");
    let insns: Vec<String> = schedule.nodes.iter().map(|node| node.insn.to_string()).collect();
    let expected =
        ["r5 = *(u64 *)(r1 + 0)", "r5 += r6", "r4 = r2", "r4 >>= 51", "r3 = r2", "r3 <<= 13", "r3 |= r4", "r0 = r3"];
    assert_eq!(insns[..8], expected.map(|text| kiln_isa::text::parse(text).expect("an instruction").to_string()));
    let region = schedule.regions.get(&2).expect("a region");
    assert_eq!((region.start, region.length, region.operation.name), (2, 5, ROTATE));
}

#[test]
fn an_operation_that_nobody_knows_is_no_error() {
    let object = object("* r0 = 1; exit", "of_tomorrow", 9, &[1, 2, 3]);
    let schedule = schedule(&object, FunctionId(0), &Registry::BUILTIN).expect("it is left alone");
    assert!(schedule.regions.is_empty() && schedule.nodes == object.functions[0].nodes);
}

#[test]
// long: a table of cases
fn lies_are_refused() {
    let in_place = "* r4 = r2; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; r0 = r2; exit";
    assert_eq!(refusal(in_place, 0, &[2, 2, 4, 13]), None);
    for (why, text, form, operands) in [
        (Refusal::Operands, in_place, 0, &[2, 2, 4, 64][..]),
        (Refusal::Operands, in_place, 0, &[2, 2, 4, 0]),
        (Refusal::Operands, in_place, 0, &[2, 2, 4, -51]),
        (Refusal::Operands, in_place, 0, &[2, 2, 2, 13]),
        (Refusal::Operands, in_place, 0, &[2, 3, 4, 13]),
        (Refusal::Operands, in_place, 0, &[2, 2, 10, 13]),
        (Refusal::Operands, in_place, 0, &[2, 2, 77, 13]),
        (Refusal::Operands, in_place, 0, &[2, 2, 4]),
        (Refusal::Operands, in_place, 0, &[2, 2, 4, 13, 0]),
        (Refusal::Operands, in_place, 0, &[0; 300]),
        (Refusal::Form, in_place, 200, &[2, 2, 4, 13]),
        (Refusal::Sequence, in_place, 0, &[2, 2, 4, 12]),
        (Refusal::Sequence, in_place, 0, &[3, 3, 4, 13]),
        (Refusal::Sequence, in_place, 1, &[2, 2, 4, 13]),
        // One instruction short, one too many.
        (Refusal::Sequence, "r4 = r2; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; r0 = r2; exit", 0, &[2, 2, 4, 13]),
        (Refusal::Sequence, "* r4 = r2; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; * r0 = r2; exit", 0, &[2, 2, 4, 13]),
        // The copy is made of the shifted value.
        (Refusal::Sequence, "* r2 <<= 13; * r4 = r2; * r4 >>= 51; * r2 |= r4; r0 = r2; exit", 0, &[2, 2, 4, 13]),
        // The temporary is read afterwards: by an instruction, and in the next iteration of a loop.
        (Refusal::LiveTemporary, "* r4 = r2; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; r0 = r4; exit", 0, &[2, 2, 4, 13]),
        (
            Refusal::LiveTemporary,
            "r0 = r4; * r4 = r2; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; if r2 != 0 goto +0 -> 0; exit",
            0,
            &[2, 2, 4, 13],
        ),
        // A jump into the middle.
        (
            Refusal::Control,
            "r0 = 0; * r4 = r2; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; if r2 == 0 goto +0 -> 3; exit",
            0,
            &[2, 2, 4, 13],
        ),
        // A branch out of the middle.
        (
            Refusal::Control,
            "r0 = 0; * r4 = r2; * r4 >>= 51; if r2 == 0 goto +0 -> 6; * r2 <<= 13; * r2 |= r4; exit",
            0,
            &[2, 2, 4, 13],
        ),
        // A jump to an instruction that would move.
        (
            Refusal::Control,
            "r0 = 0; * r4 = r2; r0 += 1; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; if r2 == 0 goto +0 -> 1; exit",
            0,
            &[2, 2, 4, 13],
        ),
        // Something between reads the temporary, writes the source, writes the temporary.
        (Refusal::Dependence, "* r4 = r2; r0 = r4; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; exit", 0, &[2, 2, 4, 13]),
        (Refusal::Dependence, "* r4 = r2; r2 = 7; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; exit", 0, &[2, 2, 4, 13]),
        (Refusal::Dependence, "* r4 = r2; r4 = 7; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; exit", 0, &[2, 2, 4, 13]),
        (Refusal::Dependence, "* r4 = r2; call 5; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; exit", 0, &[2, 2, 4, 13]),
    ] {
        assert_eq!(refusal(text, form, operands), Some(why), "{text} form {form} {operands:?}");
    }
}

/// Accesses to memory keep their order, so that others see the same and the same access faults.
#[test]
fn lies_about_memory_are_refused() {
    let refusal = |operation: &str, text: &str, operands: &[i32]| {
        let form = u8::from(operation.starts_with("store"));
        check(&object(text, operation, form, operands), &Registry::BUILTIN).err().map(|refused| refused.refusal)
    };
    let load = "r4 = 1; * r2 = *(u32 *)(r1 + 4); r3 = 7; * r2 = be32 r2; r0 = r2; exit";
    assert_eq!(refusal("load_swapped_32", load, &[2, 1, 4]), None);
    // A store of the native code comes last, so that accesses before it are none of its own.
    let store = "* r2 = be32 r2; r3 = *(u32 *)(r1 + 0); * *(u32 *)(r1 + 4) = r2; r0 = r3; exit";
    assert_eq!(refusal("store_swapped_32", store, &[1, 4, 2, 2]), None);
    for (why, operation, text, operands) in [
        (Refusal::Sequence, "load_swapped_32", load, &[2, 1, 0][..]),
        (Refusal::Sequence, "load_swapped_16", load, &[2, 1, 4]),
        (Refusal::Operands, "load_swapped_32", load, &[2, 1, 40_000]),
        (Refusal::Operands, "load_swapped_32", load, &[10, 1, 4]),
        (Refusal::Operands, "store_swapped_32", store, &[2, 4, 2, 2]),
        (Refusal::Operands, "store_swapped_32", store, &[1, -32_769, 2, 2]),
        // A load, a store, a call and an atomic operation in between.
        (
            Refusal::Dependence,
            "load_swapped_32",
            "* r2 = *(u32 *)(r1 + 4); r3 = *(u8 *)(r1 + 0); * r2 = be32 r2; r0 = r2; exit",
            &[2, 1, 4],
        ),
        (
            Refusal::Dependence,
            "load_swapped_32",
            "* r2 = *(u32 *)(r1 + 4); *(u8 *)(r1 + 4) = 7; * r2 = be32 r2; r0 = r2; exit",
            &[2, 1, 4],
        ),
        (
            Refusal::Dependence,
            "load_swapped_32",
            "* r6 = *(u32 *)(r7 + 4); call 5; * r6 = be32 r6; r0 = r6; exit",
            &[6, 7, 4],
        ),
        (
            Refusal::Dependence,
            "xor_memory_64",
            "* r4 = *(u64 *)(r1 + 4); lock *(u64 *)(r1 + 8) += r2; * r0 ^= r4; exit",
            &[0, 1, 4, 4],
        ),
        // The address changes in between.
        (Refusal::Dependence, "xor_memory_64", "* r4 = *(u64 *)(r1 + 4); r1 += 8; * r0 ^= r4; exit", &[0, 1, 4, 4]),
        // The access comes first, or its value is overwritten.
        (Refusal::Sequence, "store_swapped_32", "* *(u32 *)(r1 + 4) = r2; * r2 = be32 r2; r0 = 0; exit", &[1, 4, 2, 2]),
        // What native code leaves as it was is read.
        (
            Refusal::LiveTemporary,
            "store_swapped_32",
            "* r2 = be32 r2; * *(u32 *)(r1 + 4) = r2; r0 = r2; exit",
            &[1, 4, 2, 2],
        ),
        (Refusal::LiveTemporary, "xor_memory_64", "* r4 = *(u64 *)(r1 + 4); * r2 ^= r4; r0 = r4; exit", &[2, 1, 4, 4]),
    ] {
        assert_eq!(refusal(operation, text, operands), Some(why), "{operation} {text} {operands:?}");
    }
}

/// Two stores of zero, by registers that hold it; two loads.
#[test]
fn lies_about_pairs_are_refused() {
    let refusal = |operation: &str, text: &str, operands: &[i32]| {
        check(&object(text, operation, 0, operands), &Registry::BUILTIN).err().map(|refused| refused.refusal)
    };
    let clear = "w2 = 0; * *(u64 *)(r1 + 0) = r2; r0 = 7; * *(u64 *)(r1 + 8) = 0; exit";
    assert_eq!(refusal("clear_pair", clear, &[1, 0]), None);
    let loads = "* r2 = *(u64 *)(r1 + 0); * r3 = *(u64 *)(r1 + 8); r0 = r2; r0 += r3; exit";
    assert_eq!(refusal("load_pair", loads, &[1, 0, 2, 3]), None);
    for (why, operation, text, operands) in [
        (Refusal::Sequence, "clear_pair", clear, &[1, 8][..]),
        (Refusal::Sequence, "clear_pair", clear, &[2, 0]),
        (Refusal::Operands, "clear_pair", clear, &[1, 32_760]),
        // The register may hold something else: nothing is known of it, it was changed, a call destroyed it, it is another
        // one, another path leads here, its number is a relocation's.
        (Refusal::Sequence, "clear_pair", "* *(u64 *)(r1 + 0) = r2; * *(u64 *)(r1 + 8) = r2; exit", &[1, 0]),
        (
            Refusal::Sequence,
            "clear_pair",
            "r2 = 0; r2 += 1; * *(u64 *)(r1 + 0) = r2; * *(u64 *)(r1 + 8) = r2; exit",
            &[1, 0],
        ),
        (
            Refusal::Sequence,
            "clear_pair",
            "r2 = 0; call 5; * *(u64 *)(r10 - 16) = r2; * *(u64 *)(r10 - 8) = r2; exit",
            &[10, -16],
        ),
        (Refusal::Sequence, "clear_pair", "r2 = 0; * *(u64 *)(r1 + 0) = r2; * *(u64 *)(r1 + 8) = r3; exit", &[1, 0]),
        (
            Refusal::Sequence,
            "clear_pair",
            "r2 = r1; if r1 == 0 goto +0 -> 3; r2 = 0; * *(u64 *)(r1 + 0) = r2; * *(u64 *)(r1 + 8) = r2; exit",
            &[1, 0],
        ),
        (
            Refusal::Dependence,
            "clear_pair",
            "r2 = 0; * *(u64 *)(r1 + 0) = r2; r1 = r10; * *(u64 *)(r1 + 8) = r2; exit",
            &[1, 0],
        ),
        // An access between them; the first load changes the address; one register for both.
        (
            Refusal::Dependence,
            "load_pair",
            "* r2 = *(u64 *)(r1 + 0); *(u64 *)(r1 + 8) = 7; * r3 = *(u64 *)(r1 + 8); exit",
            &[1, 0, 2, 3],
        ),
        (Refusal::Operands, "load_pair", "* r1 = *(u64 *)(r1 + 0); * r3 = *(u64 *)(r1 + 8); exit", &[1, 0, 1, 3]),
        (Refusal::Operands, "load_pair", "* r2 = *(u64 *)(r1 + 0); * r2 = *(u64 *)(r1 + 8); exit", &[1, 0, 2, 2]),
        (Refusal::Sequence, "load_pair", "* r2 = *(u64 *)(r1 + 0); * r3 = *(s32 *)(r1 + 8); exit", &[1, 0, 2, 3]),
        (Refusal::Operands, "load_pair", loads, &[1, 0, 2, 10]),
    ] {
        assert_eq!(refusal(operation, text, operands), Some(why), "{operation} {text} {operands:?}");
    }
    let mut relocated =
        object("r2 = 0; * *(u64 *)(r1 + 0) = r2; * *(u64 *)(r1 + 8) = r2; exit", "clear_pair", 0, &[1, 0]);
    assert!(check(&relocated, &Registry::BUILTIN).is_ok());
    relocated.functions[0].nodes[0].core = Some(kiln_program::CoreId(0));
    assert!(check(&relocated, &Registry::BUILTIN).is_err());
}

/// A choice by a branch over a copy, and what only looks like one.
#[test]
fn lies_about_choices_are_refused() {
    let refusal = |operation: &str, text: &str, form: u8, operands: &[i32]| {
        check(&object(text, operation, form, operands), &Registry::BUILTIN).err().map(|refused| refused.refusal)
    };
    let plain = "* if r1 > r2 goto +0 -> 2; * r0 = r3; r0 += 1; exit";
    assert_eq!(refusal("select_64", plain, 0, &[0, 3, 1, 2, 2]), None);
    let requested = "* r0 = r0; r4 = 7; * if r1 > r2 goto +0 -> 4; * r0 = r3; r0 += r4; exit";
    assert_eq!(refusal("select_64", requested, 1, &[0, 3, 1, 2, 2]), None);
    for (why, text, form, operands) in [
        // Another copy, comparison or width; a number; the frame pointer as the result; a register that is none.
        (Refusal::Sequence, plain, 0, [0, 2, 1, 2, 2]),
        (Refusal::Sequence, plain, 0, [0, 3, 1, 2, 3]),
        (Refusal::Operands, plain, 0, [0, 3, 1, 2, 4]),
        (Refusal::Operands, plain, 0, [10, 3, 1, 2, 2]),
        (Refusal::Operands, plain, 0, [0, 11, 1, 2, 2]),
        (Refusal::Sequence, "* if w1 > w2 goto +0 -> 2; * r0 = r3; r0 += 1; exit", 0, [0, 3, 1, 2, 2]),
        (Refusal::Sequence, "* if r1 > r2 goto +0 -> 2; * w0 = w3; r0 += 1; exit", 0, [0, 3, 1, 2, 2]),
        // The branch leads elsewhere; another one leads to the copy; the copy to itself is another register's.
        (Refusal::Sequence, "* if r1 > r2 goto +0 -> 3; * r0 = r3; r0 += 1; exit", 0, [0, 3, 1, 2, 2]),
        (Refusal::Control, "if r1 == 0 goto +0 -> 2; * if r1 > r2 goto +0 -> 3; * r0 = r3; exit", 0, [0, 3, 1, 2, 2]),
        (Refusal::Sequence, "* r4 = r4; * if r1 > r2 goto +0 -> 3; * r0 = r3; exit", 1, [0, 3, 1, 2, 2]),
        (Refusal::Dependence, "* r0 = r0; r0 += 1; * if r1 > r2 goto +0 -> 4; * r0 = r3; exit", 1, [0, 3, 1, 2, 2]),
        (Refusal::Form, plain, 2, [0, 3, 1, 2, 2]),
    ] {
        assert_eq!(refusal("select_64", text, form, &operands), Some(why), "{text} {form} {operands:?}");
    }
    // What changes nothing must be what it says, too.
    assert_eq!(refusal("prefetch", "* r1 = r1; * r1 = r1; r0 = 0; exit", 0, &[1]), None);
    for (why, text, operands) in [
        (Refusal::Sequence, "* r1 = r1; * r1 = r2; r0 = 0; exit", [1]),
        (Refusal::Sequence, "* r1 = r1; r0 = 0; exit", [1]),
        (Refusal::Operands, "* r1 = r1; * r1 = r1; r0 = 0; exit", [10]),
        (Refusal::Dependence, "* r1 = r1; r2 = r1; * r1 = r1; r0 = 0; exit", [1]),
    ] {
        assert_eq!(refusal("prefetch", text, 0, &operands), Some(why), "{text} {operands:?}");
    }
}

/// A branch of a sequence leads over its last instruction alone, to where the region ends, and no other branch does.
#[test]
fn lies_about_branches_are_refused() {
    let refusal = |text: &str, operands: &[i32]| {
        check(&object(text, "flag_64", 0, operands), &Registry::BUILTIN).err().map(|refused| refused.refusal)
    };
    let flag = "* r0 = 1; r3 = 7; * if r1 > r2 goto +0 -> 4; * r0 = 0; r0 += r3; exit";
    assert_eq!(refusal(flag, &[0, 1, 2, 2]), None);
    for (why, text, operands) in [
        // Another comparison, the test for common bits, no comparison.
        (Refusal::Sequence, flag, [0, 1, 2, 3]),
        (Refusal::Operands, flag, [0, 1, 2, 4]),
        (Refusal::Operands, flag, [0, 1, 2, 99]),
        (Refusal::Operands, flag, [0, 1, 2, -1]),
        (Refusal::Operands, flag, [1, 1, 2, 2]),
        // The branch leads further, back, or to the last member.
        (Refusal::Sequence, "* r0 = 1; * if r1 > r2 goto +0 -> 4; * r0 = 0; r0 += 1; exit", [0, 1, 2, 2]),
        (Refusal::Sequence, "* r0 = 1; * if r1 > r2 goto +0 -> 0; * r0 = 0; exit", [0, 1, 2, 2]),
        (Refusal::Sequence, "* r0 = 1; * if r1 > r2 goto +0 -> 2; * r0 = 0; exit", [0, 1, 2, 2]),
        // Something between the branch and the last member.
        (Refusal::Control, "* r0 = 1; * if r1 > r2 goto +0 -> 4; r3 = 7; * r0 = 0; exit", [0, 1, 2, 2]),
        // The first member after the branch.
        (Refusal::Sequence, "* if r1 > r2 goto +0 -> 2; * r0 = 1; * r0 = 0; exit", [0, 1, 2, 2]),
        // Another branch to the last member, to the branch, or between.
        (
            Refusal::Control,
            "if r1 == 0 goto +0 -> 3; * r0 = 1; * if r1 > r2 goto +0 -> 4; * r0 = 0; exit",
            [0, 1, 2, 2],
        ),
        (
            Refusal::Control,
            "if r1 == 0 goto +0 -> 2; * r0 = 1; * if r1 > r2 goto +0 -> 4; * r0 = 0; exit",
            [0, 1, 2, 2],
        ),
        (
            Refusal::Control,
            "* r0 = 1; if r1 == 0 goto +0 -> 4; * if r1 > r2 goto +0 -> 4; * r0 = 0; exit",
            [0, 1, 2, 2],
        ),
        // What is compared changes in between.
        (Refusal::Dependence, "* r0 = 1; r0 += 1; * if r1 > r2 goto +0 -> 4; * r0 = 0; exit", [0, 1, 2, 2]),
    ] {
        assert_eq!(refusal(text, &operands), Some(why), "{text} {operands:?}");
    }
}

#[test]
fn marks_that_share_an_instruction_or_have_none_are_refused() {
    let text = "* r4 = r2; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; r0 = r2; exit";
    let once = object(text, ROTATE, 0, &[2, 2, 4, 13]);
    let reason = |object: &Object| check(object, &Registry::BUILTIN).map_err(|refused| refused.refusal);
    let mut twice = once.clone();
    twice.operations.push(twice.operations[0].clone());
    assert_eq!(reason(&twice), Err(Refusal::Overlap));
    let mut empty = once.clone();
    empty.operations[0].members.clear();
    assert_eq!(reason(&empty), Err(Refusal::Members));
    let mut nowhere = once.clone();
    nowhere.operations[0].members[0] = kiln_program::InsnId(77);
    assert_eq!(reason(&nowhere), Err(Refusal::Members));
    let mut backwards = once.clone();
    backwards.operations[0].members.swap(0, 1);
    assert_eq!(reason(&backwards), Err(Refusal::Members));
    let mut relocated = once;
    relocated.functions[0].nodes[1].core = Some(kiln_program::CoreId(0));
    assert_eq!(reason(&relocated), Err(Refusal::Sequence));
}

/// Operands that a form allows: registers as different as its conditions let them be, the smallest immediates.
fn some_operands(operation: &Operation, form: &Form) -> Operands {
    let mut values: Vec<i32> = (2..).take(operation.operands.len()).collect();
    for (value, operand) in values.iter_mut().zip(operation.operands) {
        if let OperandKind::Immediate { min, .. } = operand.kind {
            *value = min;
        }
        if operand.kind == OperandKind::Comparison {
            *value = 1;
        }
    }
    for condition in form.when {
        if let Condition::Same(left, right) = *condition {
            values[usize::from(right)] = values[usize::from(left)];
        }
    }
    Binding::of(&values).complete(operation, form).expect("a form has operands")
}

/// The proof sequence, marked, then `r0 = result` and `exit`.
fn marked(operation: &Operation, number: usize, operands: &Operands, result: Reg) -> Object {
    let mut object = Object::default();
    let code = operands.instantiate(&operation.forms[number]).expect("a proof sequence");
    let ends = [Insn::mov(Reg::R0, result), Insn::Exit];
    let mut nodes: Vec<_> =
        code.iter().copied().chain(ends).map(|insn| object.new_node(insn, Reference::None)).collect();
    for (at, template) in operation.forms[number].code.iter().enumerate() {
        if let Template::Branch { to, .. } = template {
            let target = code.len() + usize::from(*to == Exit::Out);
            nodes[at].reference = Reference::Branch(nodes[target].id);
        }
    }
    object.operations.push(Mark {
        operation: operation.name.into(),
        form: number as u8,
        operands: operands.values()[..operation.operands.len()].to_vec(),
        members: nodes[..code.len()].iter().map(|node| node.id).collect(),
    });
    object.functions.push(Function::new("example", "xdp", Linkage::Static, nodes));
    object
}

/// For every row and proof sequence: the true mark is accepted, and refused with another operand, with an instruction
/// left out, and with a temporary that is read.
#[test]
fn lies_about_every_operation_are_refused() {
    let mut lies = 0;
    let is_true = |object: &Object| check(object, &Registry::BUILTIN).is_ok();
    for operation in Registry::BUILTIN.operations() {
        for (number, form) in operation.forms.iter().enumerate() {
            let operands = some_operands(operation, form);
            let result = operation.results().next().map_or(Reg::R1, |index| operands.reg(index));
            let honest = marked(operation, number, &operands, result);
            assert!(is_true(&honest), "{} {}: {:?}", operation.name, form.name, check(&honest, &Registry::BUILTIN));
            for index in 0..operation.operands.len() {
                let mut lie = honest.clone();
                lie.operations[0].operands[index] += 1;
                assert!(!is_true(&lie), "{} {}: operand {index}", operation.name, form.name);
                lies += 1;
            }
            for index in 0..form.code.len() {
                let mut lie = honest.clone();
                lie.operations[0].members.remove(index);
                assert!(!is_true(&lie), "{} {}: without {index}", operation.name, form.name);
                lies += 1;
            }
            for temporary in operands.temporaries(operation, form).iter() {
                let lie = marked(operation, number, &operands, temporary);
                let reason = check(&lie, &Registry::BUILTIN).map_err(|refused| refused.refusal);
                assert_eq!(reason, Err(Refusal::LiveTemporary), "{} {}", operation.name, form.name);
                lies += 1;
            }
        }
    }
    println!("{lies} lies refused");
    assert!(lies > 300, "{lies}");
}

/// Branches that lead out of a region lead to one place, and nothing but them is in between.
#[test]
fn lies_about_chains_are_refused() {
    let refusal = |operation: &str, text: &str| {
        let object = object(text, operation, 4, &[1, 6, 17, 58, 58, 58, 58, 58]);
        check(&object, &Registry::BUILTIN).err().map(|refused| refused.refusal)
    };
    let any = "* if r1 == 6 goto +0 -> 4; * if r1 == 17 goto +0 -> 4; * if r1 == 58 goto +0 -> 4; r0 = 1; exit";
    let none = "* if r1 == 6 goto +0 -> 3; * if r1 == 17 goto +0 -> 3; * if r1 != 58 goto +0 -> 4; r0 = 1; exit";
    assert_eq!(refusal("branch_if_any_64", any), None);
    assert_eq!(refusal("branch_if_none_64", none), None);
    // Backwards, to the first of them.
    let back = "* if r1 == 6 goto +0 -> 0; * if r1 == 17 goto +0 -> 0; * if r1 == 58 goto +0 -> 0; r0 = 1; exit";
    assert_eq!(refusal("branch_if_any_64", back), None);
    for (why, operation, text) in [
        (Refusal::Sequence, "branch_if_any_32", any),
        (Refusal::Sequence, "branch_if_none_64", any),
        (Refusal::Sequence, "branch_if_any_64", none),
        // One leads elsewhere.
        (
            Refusal::Sequence,
            "branch_if_any_64",
            "* if r1 == 6 goto +0 -> 4; * if r1 == 17 goto +0 -> 3; * if r1 == 58 goto +0 -> 4; r0 = 1; exit",
        ),
        (
            Refusal::Sequence,
            "branch_if_none_64",
            "* if r1 == 6 goto +0 -> 3; * if r1 == 17 goto +0 -> 4; * if r1 != 58 goto +0 -> 4; r0 = 1; exit",
        ),
        // Into the middle, from the outside and by themselves.
        (
            Refusal::Control,
            "branch_if_any_64",
            "if r2 == 0 goto +0 -> 2; * if r1 == 6 goto +0 -> 5; * if r1 == 17 goto +0 -> 5; * if r1 == 58 goto +0 -> 5; \
             r0 = 1; exit",
        ),
        (
            Refusal::Control,
            "branch_if_any_64",
            "* if r1 == 6 goto +0 -> 1; * if r1 == 17 goto +0 -> 1; * if r1 == 58 goto +0 -> 1; r0 = 1; exit",
        ),
        // What a branch skips would no longer be skipped.
        (
            Refusal::Control,
            "branch_if_any_64",
            "* if r1 == 6 goto +0 -> 5; r2 = 1; * if r1 == 17 goto +0 -> 5; * if r1 == 58 goto +0 -> 5; r0 = 1; exit",
        ),
        (
            Refusal::Control,
            "branch_if_any_64",
            "* if r1 == 6 goto +0 -> 5; if r2 == 7 goto +0 -> 5; * if r1 == 17 goto +0 -> 5; \
             * if r1 == 58 goto +0 -> 5; r0 = 1; exit",
        ),
    ] {
        assert_eq!(refusal(operation, text), Some(why), "{text}");
    }
}

/// Linux wants the instructions of a mark side by side and in the order of its proof sequence.
#[test]
fn arranged_marks_are_in_the_order_of_their_sequence() {
    let text = "if r2 == 0 goto +0 -> 1; * r3 = r2; * r4 = r2; * r3 <<= 13; * r4 >>= 51; * r3 |= r4; r0 = r3; exit";
    let mut arranged = object(text, ROTATE, 2, &[3, 2, 4, 13]);
    arrange(&mut arranged, &Registry::BUILTIN).expect("the mark is true");
    let nodes = &arranged.functions[0].nodes;
    let insns: Vec<String> = nodes[1..6].iter().map(|node| node.insn.to_string()).collect();
    assert_eq!(insns, ["r4 = r2", "r4 >>= 0x33", "r3 = r2", "r3 <<= 0xd", "r3 |= r4"]);
    // A branch to the region leads to its first instruction still.
    assert_eq!(nodes[0].target(), Some(nodes[1].id));
    let members: Vec<_> = nodes[1..6].iter().map(|node| node.id).collect();
    assert_eq!(arranged.operations[0].members, members);
    assert_eq!(check(&arranged, &Registry::BUILTIN), Ok(()));
}

#[test]
fn marks_that_cannot_be_arranged_are_removed() {
    // The registry does not have the operation; a store of a register that holds zero is not the store of the sequence.
    let mut unknown = object("* r0 = 1; exit", "of_tomorrow", 9, &[1]);
    arrange(&mut unknown, &Registry::BUILTIN).expect("it is left alone");
    assert!(unknown.operations.is_empty());
    let text = "r1 = 0; * *(u64 *)(r10 - 16) = r1; * *(u64 *)(r10 - 8) = r1; r0 = 0; exit";
    let mut zeros = object(text, "clear_pair", 0, &[10, -16]);
    assert_eq!(check(&zeros, &Registry::BUILTIN), Ok(()));
    let before = zeros.functions[0].nodes.clone();
    arrange(&mut zeros, &Registry::BUILTIN).expect("the mark is true");
    assert!(zeros.operations.is_empty() && zeros.functions[0].nodes == before);
    let mut lie = object("* r4 = r2; * r4 >>= 51; * r2 <<= 13; * r2 |= r4; r0 = r4; exit", ROTATE, 0, &[2, 2, 4, 13]);
    assert!(arrange(&mut lie, &Registry::BUILTIN).is_err());
}
