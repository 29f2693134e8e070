//! The machine code of the examples that the documentation gives, as `llvm-mc --disassemble` reads it.

mod common;

use common::{ENTRY, Nothing, object};
use kiln_isa::operation::Registry;
use kiln_jit::x86_64::compile;
use kiln_jit::{Arena, Options, Part, Span, Symbols};
use kiln_program::InsnId;

/// The code of a function of these instructions and an `exit`, in hexadecimal.
fn code(bpf: &str) -> String {
    code_with(bpf, None, Options { bmi2: true, movbe: true, ..Options::default() })
}

/// The code of a function of these instructions and an `exit`, all but the last marked as an operation with these
/// operands.
fn marked(bpf: &str, operation: &str, form: u8, operands: &[i32], options: Options) -> String {
    code_with(bpf, Some((operation, form, operands)), options)
}

fn code_with(bpf: &str, mark: Option<(&str, u8, &[i32])>, options: Options) -> String {
    let code = compile(&object(bpf, mark), ENTRY, &Nothing, &options).expect("it compiles");
    code.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn examples_compile_to_what_the_documentation_says() {
    for (bpf, expected) in [
        // mov eax, dword ptr [rdi + 4]; ret
        ("w0 = *(u32 *)(r1 + 4)", "8b 47 04 c3"),
        // mov rax, rdi; ret
        ("r0 = r1", "48 89 f8 c3"),
        // mov eax, edi; mov r10d, eax; mov r11d, 3435973837; imul r10, r11; shr r10, 35; mov eax, r10d; ret
        ("w0 = w1; w0 /= 10", "89 f8 41 89 c2 41 bb cd cc cc cc 4d 0f af d3 49 c1 ea 23 44 89 d0 c3"),
        // movzx eax, byte ptr [rdi + rsi + 4]; ret
        ("r3 = r1; r3 += r2; r0 = *(u8 *)(r3 + 4)", "0f b6 44 37 04 c3"),
        // movsxd rax, esi; ret
        ("r0 = r2; r0 <<= 32; r0 s>>= 32", "48 63 c6 c3"),
        // lea rax, [rdi - 8]; ret
        ("r0 = r1; r0 += -8", "48 8d 47 f8 c3"),
        // shlx rax, rdi, rsi; ret
        ("r0 = r1; r0 <<= r2", "c4 e2 c9 f7 c7 c3"),
        // shlx rax, rax, rcx; ret
        ("r0 <<= r4", "c4 e2 f1 f7 c0 c3"),
        // lea rax, [rax + 8*rax]; ret
        ("r0 *= 9", "48 8d 04 c0 c3"),
        // mov r11, rax; shl rax, 5; sub rax, r11; ret
        ("r0 *= 31", "49 89 c3 48 c1 e0 05 4c 29 d8 c3"),
        // mov eax, edi; shl eax, 5; add eax, edi; ret
        ("w0 = w1; w0 *= 33", "89 f8 c1 e0 05 01 f8 c3"),
        // imul rax, rax, 10; ret
        ("r0 *= 10", "48 6b c0 0a c3"),
        // and eax, 7; ret
        ("r0 %= 8", "83 e0 07 c3"),
        // push rbp; mov rbp, rsp; mov qword ptr [rbp - 8], rdi; mov rax, qword ptr [rbp - 8]; pop rbp; ret
        ("*(u64 *)(r10 - 8) = r1; r0 = *(u64 *)(r10 - 8)", "55 48 89 e5 48 89 7d f8 48 8b 45 f8 5d c3"),
        // push rbx; push r15; mov rbx, rdi; mov r15d, 1; mov rax, rbx; pop r15; pop rbx; ret
        ("r6 = r1; r9 = 1; r0 = r6", "53 41 57 48 89 fb 41 bf 01 00 00 00 48 89 d8 41 5f 5b c3"),
        // lock; add qword ptr [rdi], rsi; xor eax, eax; ret
        ("lock *(u64 *)(r1 + 0) += r2; r0 = 0", "f0 48 01 37 31 c0 c3"),
    ] {
        assert_eq!(code(bpf), expected, "{bpf}");
    }
}

/// A runtime with an arena, and the instructions that access it.
struct Heap(&'static [u32]);

impl Symbols for Heap {
    fn arena(&self) -> Option<Arena> {
        Some(Arena { base: 0x7f00_0000_0000, bytes: 4096, bits: 32 })
    }
    fn in_arena(&self, insn: InsnId) -> bool {
        self.0.contains(&insn.0)
    }
}

/// The arena's base is in rbp, a cast for one access is part of it, and the frame is addressed from rsp.
#[test]
fn accesses_to_an_arena_add_a_register() {
    let options = Options { bmi2: true, ..Options::default() };
    for (bpf, accesses, expected) in [
        // mov qword ptr [rsp - 8], rdi; mov edi, edi; mov rax, qword ptr [rdi + rbp + 8]; mov rdi, qword ptr [rdi + rbp]
        (
            "*(u64 *)(r10 - 8) = r1; r1 = addr_space_cast(r1, 0, 1); r0 = *(u64 *)(r1 + 8); r1 = *(u64 *)(r1 + 0)",
            &[2, 3][..],
            "48 89 7c 24 f8 89 ff 48 8b 44 2f 08 48 8b 3c 2f",
        ),
        // xor eax, eax; mov rdx, rsi; mov r10d, edi; mov rdi, qword ptr [r10 + rbp + 8]
        (
            "r0 = 0; r3 = r2; r1 = addr_space_cast(r1, 0, 1); r1 = *(u64 *)(r1 + 8)",
            &[3],
            "31 c0 48 89 f2 41 89 fa 49 8b 7c 2a 08",
        ),
        // lea ecx, [rdi + rsi]; mov rax, qword ptr [rcx + rbp + 8]; and esi, 24; mov rdx, qword ptr [rsi + rbp]
        (
            "r4 = r1; r4 += r2; r4 = addr_space_cast(r4, 0, 1); r0 = *(u64 *)(r4 + 8); r2 &= 24; \
             r2 = addr_space_cast(r2, 0, 1); r3 = *(u64 *)(r2 + 0)",
            &[3, 6],
            "8d 0c 37 48 8b 44 29 08 83 e6 18 48 8b 14 2e",
        ),
        // mov rdx, rsi; mov eax, edi; cmp rax, 4080; ja; mov qword ptr [rax + rbp + 8], rdx
        (
            "r3 = r2; r0 = addr_space_cast(r1, 0, 1); *(u64 *)(r0 + 8) = r3",
            &[2],
            "48 89 f2 89 f8 48 3d f0 0f 00 00 77 07 48 89 54 28 08",
        ),
    ] {
        let code = compile(&object(bpf, None), ENTRY, &Heap(accesses), &options).expect("it compiles");
        let bytes = code.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        // push rbp; movabs rbp, 0x7f0000000000; ...; pop rbp; ret
        let expected = format!("55 48 bd 00 00 00 00 00 7f 00 00 {expected} 5d c3");
        assert!(bytes.starts_with(&expected), "{bpf}:\n{bytes}\n{expected}");
    }
}

#[test]
fn rotations_fall_back_where_a_feature_or_the_registry_lacks_them() {
    let plain = Options::default();
    let bmi2 = Options { bmi2: true, ..plain };
    let masked = Options { operations: Registry::EMPTY, ..bmi2 };
    let in_place = "w4 = w0; w4 >>= 28; w0 <<= 4; w0 |= w4";
    let apart = "w4 = w3; w4 >>= 28; w0 = w3; w0 <<= 4; w0 |= w4";
    for options in [plain, bmi2] {
        // rol eax, 4; ret
        assert_eq!(marked(in_place, "rotate_left_32", 0, &[0, 0, 4, 4], options), "c1 c0 04 c3");
    }
    // rorx eax, edx, 28; ret
    assert_eq!(marked(apart, "rotate_left_32", 2, &[0, 3, 4, 4], bmi2), "c4 e3 7b f0 c2 1c c3");
    // mov eax, edx; rol eax, 4; ret
    assert_eq!(marked(apart, "rotate_left_32", 2, &[0, 3, 4, 4], plain), "89 d0 c1 c0 04 c3");
    let sequence = code_with(apart, None, bmi2);
    assert_eq!(marked(apart, "rotate_left_32", 2, &[0, 3, 4, 4], masked), sequence);
    assert_eq!(marked(apart, "an_operation_of_tomorrow", 0, &[], bmi2), sequence);
    assert_ne!(sequence, "c4 e3 7b f0 c2 1c c3");
}

#[test]
fn operations_compile_to_one_instruction() {
    let all = Options { bmi1: true, bmi2: true, movbe: true, ..Options::default() };
    for (bpf, operation, form, operands, expected) in [
        // lea rax, [rdx + 8*rcx]; ret
        ("r0 = r4; r0 <<= 3; r0 += r3", "address_scaled", 2, &[0, 3, 4, 0, 3][..], "48 8d 04 ca c3"),
        // lea rax, [rax + 4*rcx]; ret
        ("r4 <<= 2; r0 += r4", "address_scaled", 1, &[0, 0, 4, 4, 2], "48 8d 04 88 c3"),
        // andn eax, ecx, edx; ret
        ("w0 = w4; w0 ^= -1; w0 &= w3", "and_not_32", 0, &[0, 4, 3, 0], "c4 e2 70 f2 c2 c3"),
        // andn rax, rcx, rax; ret
        ("r4 ^= -1; r0 &= r4", "and_not_64", 3, &[0, 4, 0, 4], "c4 e2 f0 f2 c0 c3"),
        // movsx rax, sil; ret
        ("r0 = r2; r0 <<= 56; r0 s>>= 56", "sign_extend_8", 0, &[0, 2], "48 0f be c6 c3"),
        // movsx eax, si; ret
        ("w0 = w2; w0 <<= 16; w0 s>>= 16", "sign_extend_16_to_32", 0, &[0, 2], "0f bf c6 c3"),
        // movsxd rax, esi; ret
        ("r0 = r2; r0 <<= 32; r0 s>>= 32", "sign_extend_32", 0, &[0, 2], "48 63 c6 c3"),
        // prefetcht0 [rdi]; ret
        ("r1 = r1; r1 = r1", "prefetch", 0, &[1], "0f 18 0f c3"),
        // lfence; ret
        ("r3 &= r3; r3 &= r3", "speculation_barrier", 0, &[3], "0f ae e8 c3"),
        // mov eax, esi; ret
        ("r0 = r2; r0 <<= 32; r0 >>= 32", "zero_extend_32", 0, &[0, 2], "89 f0 c3"),
        // xor rax, qword ptr [rdi]; ret
        ("r3 = *(u64 *)(r1 + 0); r0 ^= r3", "xor_memory_64", 0, &[0, 1, 0, 3], "48 33 07 c3"),
        // imul eax, dword ptr [rdi - 4]; ret
        ("r3 = *(u32 *)(r1 - 4); w0 *= w3", "mul_memory_32", 0, &[0, 1, -4, 3], "0f af 47 fc c3"),
        // sub rax, qword ptr [rdi + 300]; ret
        ("r3 = *(u64 *)(r1 + 300); r0 -= r3", "sub_memory_64", 0, &[0, 1, 300, 3], "48 2b 87 2c 01 00 00 c3"),
        // movbe eax, dword ptr [rdi]; ret
        ("r0 = *(u32 *)(r1 + 0); r0 = be32 r0", "load_swapped_32", 0, &[0, 1, 0], "0f 38 f0 07 c3"),
        // movbe rax, qword ptr [rdi]; ret
        ("r0 = *(u64 *)(r1 + 0); r0 = be64 r0", "load_swapped_64", 0, &[0, 1, 0], "48 0f 38 f0 07 c3"),
        // movzx eax, word ptr [rdi + 12]; rol ax, 8; ret
        ("r0 = *(u16 *)(r1 + 12); r0 = be16 r0", "load_swapped_16", 0, &[0, 1, 12], "0f b7 47 0c 66 c1 c0 08 c3"),
        // movbe word ptr [rdi + 2], si; ret
        ("r2 = be16 r2; *(u16 *)(r1 + 2) = r2", "store_swapped_16", 1, &[1, 2, 2, 2], "66 0f 38 f1 77 02 c3"),
        // movbe dword ptr [rdi + 2], r8d; ret
        ("r5 = be32 r5; *(u32 *)(r1 + 2) = r5", "store_swapped_32", 1, &[1, 2, 5, 5], "44 0f 38 f1 47 02 c3"),
        // movbe qword ptr [rdi + 2], rsi; ret
        ("r3 = r2; r3 = be64 r3; *(u64 *)(r1 + 2) = r3", "store_swapped_64", 0, &[1, 2, 2, 3], "48 0f 38 f1 77 02 c3"),
    ] {
        assert_eq!(marked(bpf, operation, form, operands, all), expected, "{bpf}");
    }
    // Without BMI1, the proof sequence.
    let masked = Options { bmi1: false, ..all };
    let sequence = "w0 = w4; w0 ^= -1; w0 &= w3";
    let plain = code_with(sequence, None, masked);
    assert_eq!(marked(sequence, "and_not_32", 0, &[0, 4, 3, 0], masked), plain);
}

/// Regions that lose their branch.
#[test]
fn flags_and_choices_have_no_branch() {
    for (bpf, operation, form, operands, expected) in [
        // xor eax, eax; cmp rdi, rsi; seta al; ret
        ("r0 = 1; if r1 > r2 goto +1; r0 = 0", "flag_64", 0, &[0, 1, 2, 2][..], "31 c0 48 39 f7 0f 97 c0 c3"),
        // xor eax, eax; cmp edi, esi; setl al; ret
        ("r0 = 0; if w1 s>= w2 goto +1; r0 = 1", "flag_32", 1, &[0, 1, 2, 12], "31 c0 39 f7 0f 9c c0 c3"),
        // xor eax, eax; cmp rdi, -5; sete al; ret
        ("r0 = 1; if r1 == -5 goto +1; r0 = 0", "flag_constant_64", 0, &[0, 1, -5, 1], "31 c0 48 83 ff fb 0f 94 c0 c3"),
        // xor eax, eax; test edi, edi; sete al; ret
        ("r0 = 0; if w1 != 0 goto +1; r0 = 1", "flag_constant_32", 1, &[0, 1, 0, 1], "31 c0 85 ff 0f 94 c0 c3"),
        // cmp rdi, rsi; cmovbe rax, rdx; ret
        ("if r1 > r2 goto +1; r0 = r3", "select_64", 0, &[0, 3, 1, 2, 2], "48 39 f7 48 0f 46 c2 c3"),
        // cmp edi, esi; cmova rax, rdx; ret
        ("if w1 <= w2 goto +1; r0 = r3", "select_32", 0, &[0, 3, 1, 2, 11], "39 f7 48 0f 47 c2 c3"),
        // cmp rdi, 5; cmovne rax, rdx; ret
        (
            "r0 = r0; if r1 == 5 goto +1; r0 = r3",
            "select_constant_64",
            1,
            &[0, 3, 1, 5, 1],
            "48 83 ff 05 48 0f 45 c2 c3",
        ),
        // cmp edi, 100000; cmove rax, rdx; ret
        (
            "if w1 != 100000 goto +1; r0 = r3",
            "select_constant_32",
            0,
            &[0, 3, 1, 100_000, 5],
            "81 ff a0 86 01 00 48 0f 44 c2 c3",
        ),
    ] {
        assert_eq!(marked(bpf, operation, form, operands, Options::default()), expected, "{operation}: {bpf}");
    }
}

/// A pair is cleared at once on the stack alone: others can see in which order a program stores elsewhere.
#[test]
fn pairs_are_cleared_on_the_stack() {
    let all = Options::default();
    let marked = |bpf: &str, form, operands: &[i32]| marked(bpf, "clear_pair", form, operands, all);
    // push rbp; mov rbp, rsp; ...; pop rbp; ret
    let framed = |code: &str| format!("55 48 89 e5 {code} 5d c3");
    let down = "*(u64 *)(r10 - 8) = 0; *(u64 *)(r10 - 16) = 0";
    // xorps xmm0, xmm0; movups xmmword ptr [rbp - 16], xmm0
    assert_eq!(marked(down, 1, &[10, -16]), framed("0f 57 c0 0f 11 45 f0"));
    let up = "*(u64 *)(r10 - 128) = 0; *(u64 *)(r10 - 120) = 0";
    assert_eq!(marked(up, 0, &[10, -128]), framed("0f 57 c0 0f 11 45 80"));
    // xorps xmm0, xmm0; movups xmmword ptr [rbp - 512], xmm0
    let far = "*(u64 *)(r10 - 504) = 0; *(u64 *)(r10 - 512) = 0";
    let code = marked(far, 1, &[10, -512]);
    assert!(code.contains("0f 57 c0 0f 11 85 00 fe ff ff"), "{code}");
    // mov qword ptr [rdi + 8], 0; mov qword ptr [rdi], 0; ret
    let elsewhere = "*(u64 *)(r1 + 8) = 0; *(u64 *)(r1 + 0) = 0";
    assert_eq!(marked(elsewhere, 1, &[1, 0]), code_with(elsewhere, None, all));
    assert_eq!(marked(elsewhere, 1, &[1, 0]), "48 c7 47 08 00 00 00 00 48 c7 07 00 00 00 00 c3");
    // x86-64 has no instruction for these: the JIT leaves the instructions where they are.
    let loads = "r2 = *(u64 *)(r1 + 0); r0 = *(u64 *)(r1 + 8)";
    assert_eq!(code_with(loads, Some(("load_pair", 0, &[1, 0, 2, 0])), all), code_with(loads, None, all));
    let stores = "*(u64 *)(r1 + 0) = r2; *(u64 *)(r1 + 8) = r3";
    assert_eq!(code_with(stores, Some(("store_pair", 0, &[1, 0, 2, 3])), all), code_with(stores, None, all));
}

/// Each native access is the code of the BPF access that it stands for: a fault there is that instruction's.
#[test]
fn accesses_of_regions_have_places_of_their_own() {
    let all = Options { bmi1: true, bmi2: true, movbe: true, ..Options::default() };
    // The address, then what is done there, which instruction that is, and at which byte.
    for (bpf, mark, expected) in [
        ("r3 = r2; r3 = be64 r3; *(u64 *)(r1 + 2) = r3", Some(("store_swapped_64", 0, &[1, 2, 2, 3][..])), (2, 0)),
        ("r3 = r1; r3 += r2; r0 = *(u8 *)(r3 + 4)", None, (2, 0)),
        ("r0 = *(u16 *)(r1 + 12); r0 = be16 r0", Some(("load_swapped_16", 0, &[0, 1, 12])), (0, 0)),
    ] {
        let object = object(bpf, mark);
        let code = compile(&object, ENTRY, &Nothing, &all).expect("it compiles");
        let access = object.functions[0].nodes[expected.0].id;
        let does = |span: &&Span| matches!(&span.part, Part::Insns(insns) if insns.contains(&access));
        assert_eq!(code.spans.iter().find(does).map(|span| span.bytes.start), Some(expected.1), "{bpf}");
    }
}

/// An address computed by earlier instructions becomes part of the native access.
#[test]
fn regions_access_memory_at_computed_addresses() {
    let all = Options { bmi1: true, bmi2: true, movbe: true, ..Options::default() };
    let code = |bpf: &str, operation: &str, operands: &[i32], first: usize| {
        let mut object = object(bpf, Some((operation, 0, operands)));
        object.operations[0].members.drain(..first);
        let code = compile(&object, ENTRY, &Nothing, &all).expect("it compiles");
        code.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
    };
    // xor rax, qword ptr [rdi + rsi + 8]; ret
    let sum = "r3 = r1; r3 += r2; r3 = *(u64 *)(r3 + 8); r0 ^= r3";
    assert_eq!(code(sum, "xor_memory_64", &[0, 3, 8, 3], 2), "48 33 44 37 08 c3");
    // movbe edx, dword ptr [rdi + rsi + 8]; ret
    let swapped = "r3 = r1; r3 += r2; r3 = *(u32 *)(r3 + 8); r3 = be32 r3";
    assert_eq!(code(swapped, "load_swapped_32", &[3, 3, 8], 2), "0f 38 f0 54 37 08 c3");
    // The address is an operand, too: lea rax, [rdi + rsi]; xor rax, qword ptr [rax + 8]; ret
    let both = "r0 = r1; r0 += r2; r3 = *(u64 *)(r0 + 8); r0 ^= r3";
    assert_eq!(code(both, "xor_memory_64", &[0, 0, 8, 3], 2), "48 8d 04 37 48 33 40 08 c3");
}

/// A chain of comparisons is one branch, where the numbers are near one another and constants need not be hidden.
#[test]
fn chains_compile_to_one_branch() {
    let any = "if r1 == 6 goto +3; if r1 == 17 goto +2; if r1 == 58 goto +1; r0 = 1";
    let none = "if w1 == 6 goto +2; if w1 == 17 goto +1; if w1 != 58 goto +1; r0 = 1";
    let code = |bpf: &str, operation: &str, numbers: [i32; 3], options: &Options| {
        let [first, second, third] = numbers;
        let operands = [1, first, second, third, third, third, third, third];
        let mut object = object(bpf, Some((operation, 4, &operands)));
        object.operations[0].members.truncate(3);
        let code = compile(&object, ENTRY, &Nothing, options).expect("it compiles");
        code.bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
    };
    let plain = Options::default();
    // lea r10, [rdi - 6]; movabs r11, 0x10000000000801; bt r11, r10; sbb r11d, r11d; and r11d, 64; cmp r10, r11;
    // jb +5; mov eax, 1; ret
    let expected = "4c 8d 57 fa 49 bb 01 08 00 00 00 00 10 00 4d 0f a3 d3 45 19 db 41 83 e3 40 4d 39 da 72 05 \
                    b8 01 00 00 00 c3";
    assert_eq!(code(any, "branch_if_any_64", [6, 17, 58], &plain), expected);
    // lea r10d, [rdi - 6]; the same; jae +5
    let expected = "44 8d 57 fa 49 bb 01 08 00 00 00 00 10 00 4d 0f a3 d3 45 19 db 41 83 e3 40 4d 39 da 73 05 \
                    b8 01 00 00 00 c3";
    assert_eq!(code(none, "branch_if_none_32", [6, 17, 58], &plain), expected);
    let far = any.replace("58", "70");
    let operations = Registry::EMPTY;
    let sequence = code(&far, "branch_if_any_64", [6, 17, 70], &Options { operations, ..plain });
    assert_eq!(code(&far, "branch_if_any_64", [6, 17, 70], &plain), sequence);
    let blind = Options { blind: Some(7), ..plain };
    let sequence = code(any, "branch_if_any_64", [6, 17, 58], &Options { operations, ..blind });
    assert_eq!(code(any, "branch_if_any_64", [6, 17, 58], &blind), sequence);
}

#[test]
fn tests_of_bits_compile_to_one_instruction_and_a_branch() {
    for (bpf, operation, form, operands, expected) in [
        // test dil, 4; je +5; mov eax, 1; ret
        (
            "r2 = r1; r2 &= 4; if r2 == 0 goto +1; r0 = 1",
            "branch_if_no_bits_constant_64",
            0,
            [2, 1, 4],
            "40 f6 c7 04 74 05 b8 01 00 00 00 c3",
        ),
        // test edi, esi; jne +5; mov eax, 1; ret
        (
            "w3 = w1; w3 &= w2; if w3 != 0 goto +1; r0 = 1",
            "branch_if_bits_32",
            0,
            [3, 1, 2],
            "85 f7 75 05 b8 01 00 00 00 c3",
        ),
    ] {
        let mut object = object(bpf, Some((operation, form, &operands)));
        object.operations[0].members.truncate(3);
        let code = compile(&object, ENTRY, &Nothing, &Options::default()).expect("it compiles");
        let code: Vec<String> = code.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(code.join(" "), expected, "{bpf}");
    }
}
