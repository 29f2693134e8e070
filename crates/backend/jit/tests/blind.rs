//! Hidden constants: what an attacker writes into a program is not in its machine code.

mod common;

use common::{ENTRY, Nothing, object};
use kiln_jit::{Options, aarch64, x86_64};

/// The immediate: on x86-64, `mov al, 0x1f ; rcl dword [..]` and more if it is entered at some byte. No two of its bytes are
/// equal, and neither half of it is small.
const IMM: i32 = 0x3cd3_1fb0;
/// The same with the sign bit.
const NEGATIVE: i32 = -0x3cd3_1fb0;
/// Eight bytes of the attacker's.
const LONG: u64 = 0x9142_e85b_3cd3_1fb0;

/// One instruction of every kind that has an immediate, without the immediate.
fn kinds() -> Vec<String> {
    let mut kinds = Vec::new();
    for letter in ["r", "w"] {
        for op in ["+=", "-=", "*=", "/=", "%=", "s/=", "s%=", "|=", "&=", "^=", "="] {
            kinds.extend([0, 3, 5].map(|reg| format!("{letter}{reg} {op} ")));
        }
    }
    kinds.extend(["u16", "u32", "u64"].map(|size| format!("*({size} *)(r1 + 8) = ")));
    kinds
}

/// A branch of each kind over an instruction.
fn branches() -> Vec<String> {
    let ops = ["==", "!=", ">", ">=", "<", "<=", "s>", "s>=", "s<", "s<=", "&"];
    ops.iter().flat_map(|op| ["r2", "w2"].map(|reg| format!("if {reg} {op} "))).collect()
}

fn programs(imm: i32) -> Vec<kiln_program::Object> {
    let mut all: Vec<_> = kinds().iter().map(|kind| object(&format!("{kind}{imm}"), None)).collect();
    for branch in branches() {
        let text = format!("; program xdp\n  {branch}{imm} goto out\n  r0 = 1\nout:\n  exit\n");
        all.push(kiln_program::text::parse(&text).expect("it parses"));
    }
    all
}

/// Whether three adjacent bytes of a value are in code: two may be there by chance.
fn has_bytes(code: &[u8], value: &[u8]) -> bool {
    value.windows(3).any(|part| code.windows(3).any(|bytes| bytes == part))
}

/// Whether a move of 16 bits on 64-bit Arm has a half of a value, or its inverse.
fn has_half(code: &[u8], value: u64, halves: u32) -> bool {
    code.chunks_exact(4).any(|word| {
        let word = u32::from_le_bytes(word.try_into().expect("4 bytes"));
        // movn, movz, movk; the other bits are width, place and register.
        let moves = matches!(word >> 23 & 0xff, 0x25 | 0xa5 | 0xe5);
        let half = (word >> 5) as u16;
        moves && (0..halves).any(|at| [half, !half].contains(&((value >> (16 * at)) as u16)))
    })
}

#[test]
fn an_attackers_immediate_is_not_in_the_code() {
    let plain = Options::default();
    for imm in [IMM, NEGATIVE] {
        for (index, object) in programs(imm).iter().enumerate() {
            let entry = object.programs.first().map_or(ENTRY, |program| program.entry);
            for seed in 0..4 {
                let what = object.functions[0].nodes[0].insn;
                let blind = Options { blind: Some(seed * 77 + index as u64), ..plain };
                let code = x86_64::compile(object, entry, &Nothing, &blind).expect("it compiles").bytes;
                assert!(!has_bytes(&code, &imm.to_le_bytes()), "{what}: {code:02x?}");
                let code = aarch64::compile(object, entry, &Nothing, &blind).expect("it compiles").bytes;
                assert!(!has_half(&code, imm as u64, 2), "{what}: {code:02x?}");
                let long = kiln_jit::Options { bmi1: true, bmi2: true, movbe: true, ..blind };
                let code = x86_64::compile(object, entry, &Nothing, &long).expect("it compiles").bytes;
                assert!(!has_bytes(&code, &imm.to_le_bytes()), "{what}: {code:02x?}");
            }
        }
    }
}

#[test]
fn eight_bytes_are_hidden_as_well() {
    for value in [LONG, LONG ^ 0x8000_0000, LONG ^ 1 << 63, LONG >> 32, (LONG as i32 as i64 as u64) | 1 << 63] {
        let object = object(&format!("r0 = {value} ll"), None);
        for seed in 0..8 {
            let blind = Options { blind: Some(seed), ..Options::default() };
            let code = x86_64::compile(&object, ENTRY, &Nothing, &blind).expect("it compiles").bytes;
            assert!(!has_bytes(&code, &value.to_le_bytes()[..4]), "{value:#x}: {code:02x?}");
            let code = aarch64::compile(&object, ENTRY, &Nothing, &blind).expect("it compiles").bytes;
            assert!(!has_half(&code, value, 2), "{value:#x}: {code:02x?}");
        }
    }
}

/// The searches above find what they look for: without blinding.
#[test]
fn without_blinding_it_is_there() {
    let (plain, object) = (Options::default(), object(&format!("r0 ^= {IMM}"), None));
    let code = x86_64::compile(&object, ENTRY, &Nothing, &plain).expect("it compiles").bytes;
    assert!(has_bytes(&code, &IMM.to_le_bytes()));
    let code = aarch64::compile(&object, ENTRY, &Nothing, &plain).expect("it compiles").bytes;
    assert!(has_half(&code, IMM as u64, 2));
}

/// Two programs have different numbers, and so have two uses of a constant in one program.
#[test]
fn each_use_has_a_number_of_its_own() {
    let object = object(&format!("r2 = {IMM}; r3 = {IMM}"), None);
    let code = |seed| {
        let blind = Options { blind: Some(seed), ..Options::default() };
        x86_64::compile(&object, ENTRY, &Nothing, &blind).expect("it compiles").bytes
    };
    assert_ne!(code(1), code(2));
    // mov esi, imm32 ; xor esi, imm32 ; mov edx, imm32 ; ...
    let one = code(1);
    assert_ne!(one[1..5], one[12..16], "{one:02x?}");
}

/// Native code of operations with any number hides it, too: the proof sequence is compiled.
#[test]
fn an_operations_number_is_not_in_the_code() {
    let chain = format!("if r1 == {IMM} goto +2; if r1 == {} goto +1; if r1 == {} goto +0", IMM + 1, IMM + 9);
    let flag = format!("r0 = 1; if r1 == {IMM} goto +1; r0 = 0");
    let numbers = [1, IMM, IMM + 1, IMM + 9, IMM + 9, IMM + 9, IMM + 9, IMM + 9];
    for (text, operation, form, operands) in
        [(chain, "branch_if_any_64", 4, &numbers[..]), (flag, "flag_constant_64", 0, &[0, 1, IMM, 1])]
    {
        let object = object(&text, Some((operation, form, operands)));
        for compile in [x86_64::compile, aarch64::compile] {
            let code = |blind| {
                let options = Options { blind, ..Options::default() };
                compile(&object, ENTRY, &Nothing, &options).expect("it compiles").bytes
            };
            let shows = |bytes: &[u8]| has_bytes(bytes, &IMM.to_le_bytes()) || has_half(bytes, IMM as u64, 2);
            let negated = |bytes: &[u8]| has_bytes(bytes, &(-IMM).to_le_bytes()) || has_half(bytes, -IMM as u64, 2);
            assert!(shows(&code(None)) || negated(&code(None)), "{operation}: it would be there");
            assert!(!shows(&code(Some(7))) && !negated(&code(Some(7))), "{operation}");
        }
    }
}
