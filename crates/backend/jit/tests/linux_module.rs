//! The Linux module's machine code is that of the JITs, byte by byte: what is proved of one is proved of the other.
//!
//! `kernel/modules/bytes.c` has the module's pure part in user space. It gets every proof sequence of every row, with
//! every choice of instructions and several registers and numbers, and must print the instructions that the record names
//! and the code that the JIT emits between a function's entry and its `exit`.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{ENTRY, Nothing, function};
use kiln_isa::operation::{Arch, Binding, Form, Native, OperandKind, Operands, Operation, linux};
use kiln_isa::{Insn, Reg};
use kiln_jit::{Options, Part, aarch64, x86_64};
use kiln_program::{Mark, Object, Reference};

/// Operands to try for each form.
const TRIES: usize = 100;
/// Bits of a processor's features, as in `operation.h`.
const FEATURES: std::ops::Range<u32> = 0..8;

/// A record, and what the module must print for it.
struct Case {
    record: String,
    expected: String,
}

#[test]
fn the_modules_bytes_are_the_jits() {
    let cases: Vec<Case> = linux::operations().flat_map(cases).collect();
    let records: String = cases.iter().map(|case| case.record.clone() + "\n").collect();
    let printed = run(&build(), &records);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), cases.len());
    for (case, line) in cases.iter().zip(lines) {
        assert_eq!(case.expected, line, "{}", case.record);
    }
    println!("{} records of {} operations", cases.len(), linux::operations().count());
    assert!(cases.len() > 10_000, "{} records", cases.len());
}

/// Records that the table does not allow have no proof sequence, so the kernel refuses them.
#[test]
fn records_outside_of_the_table_are_refused() {
    let program = build();
    for record in [
        "rotate_left_64 2 0 3 2 4 0 0 0 0 0",
        "rotate_left_64 2 0 3 2 4 64 0 0 0 0",
        "rotate_left_64 2 0 3 2 4 -1 0 0 0 0",
        "rotate_left_64 2 3 3 2 4 13 0 0 0 0",
        "rotate_left_64 2 0 3 3 4 13 0 0 0 0",
        "rotate_left_64 2 0 10 2 4 13 0 0 0 0",
        "rotate_left_64 2 0 3 11 4 13 0 0 0 0",
        "rotate_left_64 2 0 3 -1 4 13 0 0 0 0",
        "rotate_left_64 99 0 3 2 4 13 0 0 0 0",
        "rotate_left_64 2 0 3 2 4 13 1 0 0 0",
        "rotate_left_6 2 0 3 2 4 13 0 0 0 0",
    ] {
        assert_eq!(run(&program, &format!("0 3 {record}")), "- 0000 -\n", "{record}");
    }
    assert_ne!(run(&program, "0 3 rotate_left_64 2 0 3 2 4 13 0 0 0 0"), "- 0000 -\n");
}

/// On 64-bit Arm, Linux 7.3 has R0 in x8: code that names R0 names that register, and all other code is the same.
#[test]
fn r0_is_where_the_kernel_has_it() {
    let program = build();
    let code = |machine: u32, register: u32| {
        let line = run(&program, &format!("{machine} 0 rotate_left_64 2 0 {register} 2 4 13 0 0 0 0"));
        line.split_whitespace().last().map(str::to_owned)
    };
    let (before, since) = (1, 2);
    assert_eq!(code(before, 0).as_deref(), Some("27ccc193"), "extr x7, x1, x1, 51");
    assert_eq!(code(since, 0).as_deref(), Some("28ccc193"), "extr x8, x1, x1, 51");
    assert_eq!(code(before, 3), code(since, 3));
}

/// The patches apply to Debian's sources as they are.
#[test]
fn the_patches_apply() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/patched-kernel");
    let output = Command::new(script).arg("--apply").output().expect("python runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("skipped: ") || text.contains("patches apply to"), "{text}");
    println!("{text}");
}

/// The records of all forms of a row.
fn cases(operation: &'static Operation) -> Vec<Case> {
    let mut cases = Vec::new();
    for (number, form) in operation.forms.iter().enumerate() {
        for (try_number, operands) in samples(operation, form).into_iter().enumerate() {
            // All choices for the first operands, one for each of the others.
            let all: Vec<Vec<usize>> = choices(form);
            let some = if try_number == 0 { &all[..] } else { &all[try_number % all.len()..][..1] };
            for choice in some {
                cases.extend(
                    FEATURES.map(|features| case(operation, number, choice, &operands, Arch::X86_64, features)),
                );
                cases.push(case(operation, number, choice, &operands, Arch::Aarch64, 0));
            }
        }
    }
    cases
}

fn case(
    operation: &'static Operation,
    number: usize,
    choice: &[usize],
    operands: &Operands,
    arch: Arch,
    features: u32,
) -> Case {
    let form = &operation.forms[number];
    let variant = linux::variant(form, choice).expect("a row has few variants");
    let templates = form.code.iter().zip(choice).map(|(template, choice)| template.choice(*choice));
    let mut insns: Vec<Insn> =
        templates.map(|template| operands.instance(&template).expect("a template has instances")).collect();
    for (left, insn) in insns.iter_mut().rev().enumerate() {
        if let Insn::Branch { offset, .. } = insn {
            *offset = left as i16;
        }
    }
    let (bmi1, bmi2, movbe) = (features & 1 != 0, features & 2 != 0, features & 4 != 0);
    let options = Options { bmi1, bmi2, movbe, fusions: false, ..Options::default() };
    let has = |feature| match feature {
        kiln_isa::operation::Feature::Bmi1 => options.bmi1,
        kiln_isa::operation::Feature::Bmi2 => options.bmi2,
        kiln_isa::operation::Feature::Movbe => options.movbe,
    };
    let in_kernel = |native: &&Native| linux::natives(operation).any(|own| own == *native);
    let native = operation
        .native(arch, has, operands)
        .filter(in_kernel)
        .map(|_| code(&insns, operation, number, operands, arch, &options));
    let slots: Vec<u8> = insns.iter().flat_map(|insn| kiln_isa::encode(insn).0.to_bytes()).collect();
    let record = linux::Record::of(operation.name, number, &operands.values()[..operation.operands.len()], &insns);
    let expected = linux::Record { name: operation.name, form: number as u16, variant, operands: *operands.values() };
    assert_eq!(record, Some(expected), "the loader's record");
    let values: Vec<String> = operands.values().iter().map(i32::to_string).collect();
    let results = operation.results().fold(0u16, |mask, index| mask | 1 << operands.reg(index).number());
    let machine = u8::from(arch == Arch::Aarch64);
    Case {
        record: format!("{machine} {features} {} {number} {variant} {}", operation.name, values.join(" ")),
        expected: format!("{} {results:04x} {}", hex(&slots), native.map_or("-".to_owned(), |code| hex(&code))),
    }
}

/// What the JIT emits for the instructions of a marked proof sequence.
fn code(
    insns: &[Insn],
    operation: &Operation,
    form: usize,
    operands: &Operands,
    arch: Arch,
    options: &Options,
) -> Vec<u8> {
    let mut object = Object::default();
    let exit = object.new_node(Insn::Exit, Reference::None);
    let reference = |insn: &Insn| match insn {
        Insn::Branch { .. } => Reference::Branch(exit.id),
        _ => Reference::None,
    };
    let mut nodes: Vec<_> = insns.iter().map(|insn| object.new_node(*insn, reference(insn))).collect();
    let members: Vec<_> = nodes.iter().map(|node| node.id).collect();
    let mark = Mark {
        operation: operation.name.to_owned(),
        form: form as u8,
        operands: operands.values()[..operation.operands.len()].to_vec(),
        members: members.clone(),
    };
    object.operations.push(mark);
    nodes.push(exit);
    object.functions.push(function("example", nodes));
    let compile = if arch == Arch::X86_64 { x86_64::compile } else { aarch64::compile };
    let code = compile(&object, ENTRY, &Nothing, options).expect("a proof sequence compiles");
    let of = |part: &Part| matches!(part, Part::Insns(insns) if insns.iter().any(|insn| members.contains(insn)));
    code.spans.iter().filter(|span| of(&span.part)).flat_map(|span| code.bytes[span.bytes.clone()].to_vec()).collect()
}

/// Operands that a form allows, and that leave R0, which `exit` reads, as native code does.
fn samples(operation: &'static Operation, form: &Form) -> Vec<Operands> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut samples: Vec<Operands> = Vec::new();
    for _ in 0..200_000 {
        let values: Vec<i32> = operation
            .operands
            .iter()
            .map(|operand| match operand.kind {
                // Encodings differ for small numbers.
                OperandKind::Immediate { min, max } => {
                    let (min, max) = if random(2) == 0 { (min, max) } else { (min.max(-5000), max.min(5000)) };
                    (i64::from(min) + random((i64::from(max) - i64::from(min) + 1) as u64) as i64) as i32
                }
                OperandKind::Comparison => random(16) as i32,
                _ => random(10) as i32,
            })
            .collect();
        let Some(operands) = Binding::of(&values).complete(operation, form) else { continue };
        if operands.temporaries(operation, form).contains(Reg::R0) || samples.contains(&operands) {
            continue;
        }
        samples.push(operands);
        if samples.len() == TRIES {
            break;
        }
    }
    assert!(!samples.is_empty(), "{}: {} has no operands", operation.name, form.name);
    samples
}

/// All choices of a form's instructions.
fn choices(form: &Form) -> Vec<Vec<usize>> {
    form.code.iter().fold(vec![Vec::new()], |all, template| {
        let longer = |choice: Vec<usize>| (0..template.choices()).map(move |next| [&choice[..], &[next]].concat());
        all.into_iter().flat_map(longer).collect()
    })
}

/// Compiles the module's pure part for user space, with the table of now. Returns the program.
fn build() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(compile_module_part).clone()
}

fn compile_module_part() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("linux_module");
    std::fs::create_dir_all(&folder).expect("a folder of the test");
    std::fs::write(folder.join("operations.h"), linux::header()).expect("the table as a header");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../kernel/modules/bytes.c");
    let program = folder.join("bytes");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]);
    let status = compiler.arg("-I").arg(&folder).arg(&source).arg("-o").arg(&program).status().expect("gcc runs");
    assert!(status.success(), "{} does not compile", source.display());
    program
}

fn run(program: &Path, records: &str) -> String {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut input = child.stdin.take().expect("a pipe");
    let records = records.to_owned();
    let writer = std::thread::spawn(move || input.write_all(records.as_bytes()).expect("it reads"));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("all is written");
    String::from_utf8(output.stdout).expect("text")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
