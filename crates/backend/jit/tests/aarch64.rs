//! The 64-bit Arm JIT's code, as LLVM disassembles it. What it computes is tested under qemu by
//! `scripts/arm64-tests`.

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::{ENTRY, Nothing, object};
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
