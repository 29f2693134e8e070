//! The 64-bit Arm JIT's code, as LLVM disassembles it. What it computes is tested under qemu by
//! `scripts/arm64-tests`.

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::{ENTRY, Nothing, object};
use kiln_isa::operation::{Arch, Registry};
use kiln_jit::{Options, aarch64};

/// The code of a function of these instructions and an `exit`, all but the last marked where `mark` says how.
fn code(bpf: &str, mark: Option<(&str, u8, &[i32])>) -> Vec<u8> {
    aarch64::compile(&object(bpf, mark), ENTRY, &Nothing, &Options::default()).expect("it compiles").bytes
}

/// Instructions as LLVM prints them, with single spaces. Prints a skip and returns `None` if there is no LLVM.
fn disassembled(bytes: &[u8]) -> Option<Vec<String>> {
    let mut command = Command::new("llvm-mc-19");
    command.args(["--disassemble", "--triple=aarch64"]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: llvm-mc-19: {error}");
            return None;
        }
    };
    let text: String = bytes.iter().map(|byte| format!("{byte:#04x} ")).collect();
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("llvm-mc reads");
    let output = child.wait_with_output().expect("llvm-mc ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty() && !line.starts_with('.'));
    Some(lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

/// The end of every function.
const END: [&str; 2] = ["mov x0, x7", "ret"];

#[test]
fn instructions_are_what_llvm_reads() {
    for (bpf, expected) in [
        ("w0 = *(u32 *)(r1 + 4)", "ldr w7, [x0, #4]"),
        ("r0 = *(u64 *)(r1 + 4)", "ldur x7, [x0, #4]"),
        ("r0 = *(u8 *)(r1 + 30000)", "mov x9, #30000 | ldrb w7, [x0, x9]"),
        ("r0 = *(s16 *)(r1 - 2)", "ldursh x7, [x0, #-2]"),
        ("r0 = *(s32 *)(r1 + 8)", "ldrsw x7, [x0, #8]"),
        ("*(u16 *)(r1 + 2) = 7", "mov x10, #7 | strh w10, [x0, #2]"),
        ("*(u8 *)(r1 + 2) = 0", "strb wzr, [x0, #2]"),
        ("r0 += 8", "add x7, x7, #8"),
        ("w0 += -8", "sub w7, w7, #8"),
        ("r0 += 100000", "mov x9, #34464 | movk x9, #1, lsl #16 | add x7, x7, x9"),
        ("r0 &= 255", "and x7, x7, #0xff"),
        ("w0 |= 5", "mov x9, #5 | orr w7, w7, w9"),
        ("r0 ^= -256", "eor x7, x7, #0xffffffffffffff00"),
        ("w0 &= -65536", "and w7, w7, #0xffff0000"),
        ("r0 = -2", "mov x7, #-2"),
        ("w0 = -1", "mov x7, #65535 | movk x7, #65535, lsl #16"),
        ("r0 /= r1", "udiv x7, x7, x0"),
        ("w0 %= w1", "udiv w10, w7, w0 | msub w7, w10, w0, w7"),
        ("r0 s%= r1", "sdiv x10, x7, x0 | msub x7, x10, x0, x7"),
        ("r0 *= r1", "mul x7, x7, x0"),
        ("r0 *= 10", "mov x9, #10 | mul x7, x7, x9"),
        ("w0 *= 16", "lsl w7, w7, #4"),
        ("r0 *= 33", "add x7, x7, x7, lsl #5"),
        ("w0 *= 31", "lsl w9, w7, #5 | sub w7, w9, w7"),
        ("r0 <<= 3", "lsl x7, x7, #3"),
        ("w0 >>= 31", "lsr w7, w7, #31"),
        ("r0 s>>= 63", "asr x7, x7, #63"),
        ("w0 <<= w1", "lsl w7, w7, w0"),
        ("r0 = -r0", "neg x7, x7"),
        ("r0 = be16 r0", "rev16 w7, w7 | uxth w7, w7"),
        ("r0 = be32 r0", "rev w7, w7"),
        ("r0 = be64 r0", "rev x7, x7"),
        ("r0 = (s32)r1", "sxtw x7, w0"),
        ("w0 = (s8)w1", "sxtb w7, w0"),
        (
            "r0 = 81985529216486895 ll",
            "mov x7, #52719 | movk x7, #35243, lsl #16 | movk x7, #17767, lsl #32 | movk x7, #291, lsl #48",
        ),
        (
            "lock *(u64 *)(r1 + 8) += r2",
            "add x9, x0, #8 | ldaxr x10, [x9] | add x11, x10, x1 | stlxr w12, x11, [x9] | cbnz w12, #-12",
        ),
    ] {
        let Some(lines) = disassembled(&code(bpf, None)) else { return };
        let expected: Vec<&str> = expected.split(" | ").chain(END).collect();
        assert_eq!(lines, expected, "{bpf}");
    }
}

#[test]
fn frames_hold_what_must_be_given_back() {
    let Some(lines) = disassembled(&code("r6 = r1; *(u64 *)(r10 - 8) = r6; r0 = r6", None)) else { return };
    let expected = [
        "stp x19, x25, [sp, #-16]!",
        "mov x25, sp",
        "sub sp, sp, #16",
        "mov x19, x0",
        "stur x19, [x25, #-8]",
        "mov x7, x19",
        "mov sp, x25",
        "ldp x19, x25, [sp], #16",
    ];
    assert_eq!(lines, expected.into_iter().chain(END).collect::<Vec<_>>());
}

/// Pairs that one instruction reaches, and pairs whose address takes a register.
#[test]
fn pairs_are_one_access() {
    for (bpf, mark, expected) in [
        ("*(u64 *)(r1 + 0) = 0; *(u64 *)(r1 + 8) = 0", ("clear_pair", 0, &[1, 0][..]), "stp xzr, xzr, [x0]"),
        ("*(u64 *)(r1 + 504) = 0; *(u64 *)(r1 + 496) = 0", ("clear_pair", 1, &[1, 496]), "stp xzr, xzr, [x0, #496]"),
        ("*(u64 *)(r1 + 504) = 0; *(u64 *)(r1 + 512) = 0", ("clear_pair", 0, &[1, 504]), "stp xzr, xzr, [x0, #504]"),
        (
            "*(u64 *)(r1 + 512) = 0; *(u64 *)(r1 + 520) = 0",
            ("clear_pair", 0, &[1, 512]),
            "mov x9, #512 | add x9, x0, x9 | stp xzr, xzr, [x9]",
        ),
        (
            "*(u64 *)(r1 - 512) = r2; *(u64 *)(r1 - 504) = r3",
            ("store_pair", 0, &[1, -512, 2, 3]),
            "stp x1, x2, [x0, #-512]",
        ),
        (
            "*(u64 *)(r1 - 512) = r2; *(u64 *)(r1 - 520) = r3",
            ("store_pair", 1, &[1, -520, 3, 2]),
            "mov x9, #-520 | add x9, x0, x9 | stp x2, x1, [x9]",
        ),
        ("*(u64 *)(r1 + 8) = r1; *(u64 *)(r1 + 0) = r1", ("store_pair", 1, &[1, 0, 1, 1]), "stp x0, x0, [x0]"),
        ("r0 = *(u64 *)(r1 + 16); r1 = *(u64 *)(r1 + 24)", ("load_pair", 0, &[1, 16, 0, 1]), "ldp x7, x0, [x0, #16]"),
        ("r0 = *(u64 *)(r1 - 8); r1 = *(u64 *)(r1 - 16)", ("load_pair", 1, &[1, -16, 1, 0]), "ldp x0, x7, [x0, #-16]"),
        (
            "r0 = *(u64 *)(r1 + 3); r2 = *(u64 *)(r1 + 11)",
            ("load_pair", 0, &[1, 3, 0, 2]),
            "mov x9, #3 | add x9, x0, x9 | ldp x7, x1, [x9]",
        ),
    ] {
        let Some(lines) = disassembled(&code(bpf, Some(mark))) else { return };
        assert_eq!(lines, expected.split(" | ").chain(END).collect::<Vec<_>>(), "{bpf}");
    }
}

/// One instance of each row, but for those that have a test of their own: rotations by a constant, chains, pairs.
#[test]
fn every_operation_is_what_llvm_reads() {
    let cases: &[(&str, &str, u8, &[i32], &str)] = &[
        (
            "rotate_register_64",
            "r5 = 64; r5 -= r4; r0 = r3; r0 <<= r4; r3 >>= r5; r0 |= r3",
            0,
            &[0, 3, 4, 3, 5],
            "neg w9, w3 | ror x7, x2, x9",
        ),
        (
            "rotate_register_32",
            "w5 = w4; w5 = -w5; w0 = w3; w0 <<= w4; w3 >>= w5; w0 |= w3",
            1,
            &[0, 3, 4, 3, 5],
            "neg w9, w3 | ror w7, w2, w9",
        ),
        ("address_scaled", "r0 = r4; r0 <<= 3; r0 += r3", 2, &[0, 3, 4, 0, 3], "add x7, x2, x3, lsl #3"),
        ("and_not_32", "w0 = w4; w0 ^= -1; w0 &= w3", 0, &[0, 4, 3, 0], "bic w7, w2, w3"),
        ("and_not_64", "r4 ^= -1; r0 &= r4", 3, &[0, 4, 0, 4], "bic x7, x7, x3"),
        ("sign_extend_8", "r0 = r2; r0 <<= 56; r0 s>>= 56", 0, &[0, 2], "sxtb x7, w1"),
        ("sign_extend_16", "r0 <<= 48; r0 s>>= 48", 1, &[0, 0], "sxth x7, w7"),
        ("sign_extend_32", "r0 = r2; r0 <<= 32; r0 s>>= 32", 0, &[0, 2], "sxtw x7, w1"),
        ("sign_extend_8_to_32", "w0 = w2; w0 <<= 24; w0 s>>= 24", 0, &[0, 2], "sxtb w7, w1"),
        ("sign_extend_16_to_32", "w0 <<= 16; w0 s>>= 16", 1, &[0, 0], "sxth w7, w7"),
        ("zero_extend_32", "r0 = r2; r0 <<= 32; r0 >>= 32", 0, &[0, 2], "mov w7, w1"),
        (
            "load_swapped_16",
            "r0 = *(u16 *)(r1 + 12); r0 = be16 r0",
            0,
            &[0, 1, 12],
            "ldrh w7, [x0, #12] | rev16 w7, w7",
        ),
        ("load_swapped_32", "r0 = *(u32 *)(r1 - 4); r0 = be32 r0", 0, &[0, 1, -4], "ldur w7, [x0, #-4] | rev w7, w7"),
        ("load_swapped_64", "r0 = *(u64 *)(r1 + 8); r0 = be64 r0", 0, &[0, 1, 8], "ldr x7, [x0, #8] | rev x7, x7"),
        (
            "store_swapped_16",
            "r2 = be16 r2; *(u16 *)(r1 + 2) = r2",
            1,
            &[1, 2, 2, 2],
            "rev16 w10, w1 | strh w10, [x0, #2]",
        ),
        (
            "store_swapped_32",
            "r5 = be32 r5; *(u32 *)(r1 + 2) = r5",
            1,
            &[1, 2, 5, 5],
            "rev w10, w4 | stur w10, [x0, #2]",
        ),
        (
            "store_swapped_64",
            "r3 = r2; r3 = be64 r3; *(u64 *)(r1 + 8) = r3",
            0,
            &[1, 8, 2, 3],
            "rev x10, x1 | str x10, [x0, #8]",
        ),
        ("flag_64", "r0 = 1; if r1 > r2 goto +1; r0 = 0", 0, &[0, 1, 2, 2], "cmp x0, x1 | cset w7, hi"),
        ("flag_32", "r0 = 0; if w1 s>= w2 goto +1; r0 = 1", 1, &[0, 1, 2, 12], "cmp w0, w1 | cset w7, lt"),
        ("flag_constant_64", "r0 = 1; if r1 == -5 goto +1; r0 = 0", 0, &[0, 1, -5, 1], "cmn x0, #5 | cset w7, eq"),
        ("flag_constant_32", "r0 = 0; if w1 != 7 goto +1; r0 = 1", 1, &[0, 1, 7, 1], "cmp w0, #7 | cset w7, eq"),
        ("select_64", "if r1 > r2 goto +1; r0 = r3", 0, &[0, 3, 1, 2, 2], "cmp x0, x1 | csel x7, x7, x2, hi"),
        ("select_32", "if w1 <= w2 goto +1; r0 = r3", 0, &[0, 3, 1, 2, 11], "cmp w0, w1 | csel x7, x7, x2, ls"),
        (
            "select_constant_64",
            "r0 = r0; if r1 == 5 goto +1; r0 = r3",
            1,
            &[0, 3, 1, 5, 1],
            "cmp x0, #5 | csel x7, x7, x2, eq",
        ),
        (
            "select_constant_32",
            "if w1 != 100000 goto +1; r0 = r3",
            0,
            &[0, 3, 1, 100_000, 5],
            "mov x9, #34464 | movk x9, #1, lsl #16 | cmp w0, w9 | csel x7, x7, x2, ne",
        ),
        ("prefetch", "r1 = r1; r1 = r1", 0, &[1], "prfm pldl1keep, [x0]"),
        ("speculation_barrier", "r3 &= r3; r3 &= r3", 0, &[3], "dsb nsh | isb"),
    ];
    for (operation, bpf, form, operands, expected) in cases {
        let Some(lines) = disassembled(&code(bpf, Some((operation, *form, operands)))) else { return };
        assert_eq!(lines, expected.split(" | ").chain(END).collect::<Vec<_>>(), "{operation}: {bpf}");
    }
    let own = ["rotate_left_32", "rotate_left_64", "clear_pair", "load_pair", "store_pair"];
    for operation in Registry::BUILTIN.on(Arch::Aarch64).operations() {
        let has_own = own.contains(&operation.name) || operation.name.starts_with("branch_if_");
        assert!(has_own || cases.iter().any(|case| case.0 == operation.name), "{} has no case", operation.name);
    }
}

/// Every constant and register pair of the rows' instructions, one by one.
#[test]
fn rotations_are_extr() {
    for (operation, bits, letter, x) in [("rotate_left_32", 32, 'w', 'w'), ("rotate_left_64", 64, 'r', 'x')] {
        for k in 1..bits {
            let rest = bits - k;
            let text = format!(
                "{letter}3 = {letter}2; {letter}3 >>= {rest}; {letter}0 = {letter}2; {letter}0 <<= {k}; {letter}0 |= {letter}3"
            );
            let Some(lines) = disassembled(&code(&text, Some((operation, 2, &[0, 2, 3, k])))) else { return };
            let expected = format!("ror {x}7, {x}1, #{rest}");
            assert_eq!(lines, [expected.as_str(), END[0], END[1]], "{text}");
        }
    }
}

/// LLVM reads constants and masks of all kinds back as the same values.
#[test]
fn masks_are_encoded_or_made_in_a_register() {
    let numbers = [
        1,
        2,
        3,
        7,
        8,
        0x7f,
        0xff0,
        0xffff,
        0x10000,
        0x7fff_ffff,
        -1,
        -2,
        -128,
        i32::MIN,
        0x5555_5555,
        0x0f0f_0f0f,
        12345,
        -98765,
    ];
    for number in numbers {
        for (text, wide) in [(format!("r0 &= {number}"), true), (format!("w0 &= {number}"), false)] {
            let Some(lines) = disassembled(&code(&text, None)) else { return };
            let value = if wide { i64::from(number) as u64 } else { u64::from(number as u32) };
            let direct = format!(", #{value:#x}");
            let through_register =
                lines.len() > 3 && lines[lines.len() - 3].starts_with("and") && lines[0].starts_with("mov");
            assert!(lines[0].ends_with(&direct) || through_register, "{text}: {lines:?}");
        }
    }
}

#[test]
fn chains_are_one_branch() {
    let chain = |text: &str, operation: &str, numbers: [i32; 3]| {
        let [first, second, third] = numbers;
        let operands = [1, first, second, third, third, third, third, third];
        let mut object = object(text, Some((operation, 4, &operands)));
        object.operations[0].members.truncate(3);
        aarch64::compile(&object, ENTRY, &Nothing, &Options::default()).expect("it compiles").bytes
    };
    for (bpf, operation, numbers, expected) in [
        (
            "if r1 == 6 goto +3; if r1 == 17 goto +2; if r1 == 58 goto +1; r0 = 1",
            "branch_if_any_64",
            [6, 17, 58],
            "sub x9, x0, #6 | mov x10, #2049 | movk x10, #16, lsl #48 | lsr x10, x10, x9 | and x10, x10, #0x1 | \
             cmp x9, x10, lsl #6 | b.lo #8 | mov x7, #1",
        ),
        (
            "if w1 == -100000 goto +2; if w1 == -99999 goto +1; if w1 != -99990 goto +1; r0 = 1",
            "branch_if_none_32",
            [-100_000, -99_999, -99_990],
            "mov x9, #31072 | movk x9, #65534, lsl #16 | sub w9, w0, w9 | mov x10, #1027 | lsr x10, x10, x9 | \
             and x10, x10, #0x1 | cmp x9, x10, lsl #6 | b.hs #8 | mov x7, #1",
        ),
    ] {
        let Some(lines) = disassembled(&chain(bpf, operation, numbers)) else { return };
        let expected: Vec<&str> = expected.split(" | ").chain(END).collect();
        assert_eq!(lines, expected, "{bpf}");
    }
}

#[test]
fn tests_of_bits_are_tst() {
    for (bpf, operation, operands, expected) in [
        (
            "r2 = r1; r2 &= 4; if r2 == 0 goto +1; r0 = 1",
            "branch_if_no_bits_constant_64",
            [2, 1, 4],
            "tst x0, #0x4 | b.eq #8 | mov x7, #1",
        ),
        (
            "w2 = w1; w2 &= 5; if w2 != 0 goto +1; r0 = 1",
            "branch_if_bits_constant_32",
            [2, 1, 5],
            "mov x9, #5 | tst w0, w9 | b.ne #8 | mov x7, #1",
        ),
        (
            "w3 = w1; w3 &= w2; if w3 != 0 goto +1; r0 = 1",
            "branch_if_bits_32",
            [3, 1, 2],
            "tst w0, w1 | b.ne #8 | mov x7, #1",
        ),
    ] {
        let mut object = object(bpf, Some((operation, 0, &operands)));
        object.operations[0].members.truncate(3);
        let code = aarch64::compile(&object, ENTRY, &Nothing, &Options::default()).expect("it compiles").bytes;
        let Some(lines) = disassembled(&code) else { return };
        let expected: Vec<&str> = expected.split(" | ").chain(END).collect();
        assert_eq!(lines, expected, "{bpf}");
    }
}
