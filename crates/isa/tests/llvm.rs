//! Compares text and encoding with LLVM 19: `llvm-mc` assembles what we print to our bytes, `llvm-objdump` prints our
//! bytes as we do, and our assembler reads what it prints.
//!
//! Forms that LLVM 19 cannot express are listed by name in [`EXCLUDED`], and the list is checked: an entry that LLVM
//! handles fails.

use std::path::PathBuf;
use std::process::Command;

use kiln_isa::encoding::encode_all;
use kiln_isa::forms::forms;
use kiln_isa::text::parse;
use kiln_isa::{Address, CallTarget, Imm64, Insn, PacketMode, Reg, Slot, Source, encode};

/// What LLVM 19 cannot express, and why.
const EXCLUDED: [(&str, fn(&Insn) -> bool); 5] = [
    ("load-acquire and store-release came with LLVM 20; 19 takes the first for an atomic addition", |insn| {
        matches!(insn, Insn::LoadAcquire { .. } | Insn::StoreRelease { .. })
    }),
    ("`gotox` came with LLVM 22", |insn| matches!(insn, Insn::JumpIndirect { .. })),
    (
        "llvm-objdump prints no pseudo source that reads back: `ld_pseudo` lacks the second slot",
        |insn| matches!(insn, Insn::LoadImm64 { imm, .. } if !matches!(imm, Imm64::Value(_))),
    ),
    ("llvm-objdump prints calls of subprograms and kfuncs as calls of helpers", |insn| {
        matches!(insn, Insn::Call(CallTarget::Subprogram(_) | CallTarget::Kfunc { .. }))
    }),
    (
        "LLVM has no constant in indirect packet loads",
        |insn| matches!(insn, Insn::LoadPacket { mode: PacketMode::Indirect(_), offset, .. } if *offset != 0),
    ),
];

fn excluded(insn: &Insn) -> bool {
    EXCLUDED.iter().any(|(_, applies)| applies(insn))
}

fn tool(name: &str) -> Option<PathBuf> {
    let candidates = [format!("/usr/bin/{name}-19"), format!("/usr/lib/llvm-19/bin/{name}")];
    let found = candidates.iter().map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: {name}-19 is not installed (package llvm-19)");
    }
    found
}

/// Each form with its registers, immediates and offsets set to several values, corners among them.
fn examples() -> Vec<Insn> {
    let mut examples = Vec::new();
    let choices = [
        (Reg::R1, Reg::R2, 7, 8),
        (Reg::R0, Reg::R9, 0, 0),
        (Reg::R9, Reg::R10, -1, -1),
        (Reg::R5, Reg::R5, i32::MIN, i16::MIN),
        (Reg::R8, Reg::R0, i32::MAX, i16::MAX),
        (Reg::R3, Reg::R6, -0x1234, -0x100),
        (Reg::R7, Reg::R4, 0xffff, 0x64),
    ];
    for form in forms() {
        for (dst, src, imm, offset) in choices {
            let example = with_operands(form.insn, dst, src, imm, offset);
            if !examples.contains(&example) {
                examples.push(example);
            }
        }
    }
    examples
}

fn with_operands(insn: Insn, to: Reg, from: Reg, value: i32, distance: i16) -> Insn {
    let source = |src| match src {
        Source::Reg(_) => Source::Reg(from),
        Source::Imm(_) => Source::Imm(value),
    };
    let at = |base| Address { base, offset: distance };
    let wide = (value as i64).wrapping_mul(0x1_0000_0001) as u64;
    match insn {
        Insn::Alu { op, width, src, .. } => Insn::Alu { op, width, dst: to, src: source(src) },
        Insn::Neg { width, .. } => Insn::Neg { width, dst: to },
        Insn::MoveSignExtend { width, from: size, .. } => {
            Insn::MoveSignExtend { width, from: size, dst: to, src: from }
        }
        Insn::Endian { order, size, .. } => Insn::Endian { order, size, dst: to },
        Insn::LoadImm64 { imm: Imm64::Value(_), .. } => Insn::LoadImm64 { dst: to, imm: Imm64::Value(wide) },
        Insn::LoadImm64 { imm, .. } => Insn::LoadImm64 { dst: to, imm },
        Insn::Load { size, signed, .. } => Insn::Load { size, signed, dst: to, address: at(from) },
        Insn::Store { size, src, .. } => Insn::Store { size, address: at(to), src: source(src) },
        Insn::Atomic { op, fetch, size, .. } => Insn::Atomic { op, fetch, size, address: at(to), src: from },
        Insn::LoadAcquire { size, .. } => Insn::LoadAcquire { size, dst: to, address: at(from) },
        Insn::StoreRelease { size, .. } => Insn::StoreRelease { size, address: at(to), src: from },
        Insn::LoadPacket { mode: PacketMode::Absolute, size, .. } => {
            Insn::LoadPacket { mode: PacketMode::Absolute, size, offset: value }
        }
        Insn::LoadPacket { size, offset, .. } => Insn::LoadPacket { mode: PacketMode::Indirect(from), size, offset },
        Insn::AddressSpaceCast { .. } => {
            Insn::AddressSpaceCast { dst: to, src: from, to: value as u16, from: distance as u16 }
        }
        Insn::Jump { long: true, .. } => Insn::Jump { offset: distance.into(), long: true },
        Insn::Jump { long: false, .. } => Insn::Jump { offset: distance.into(), long: false },
        Insn::JumpIndirect { .. } => Insn::JumpIndirect { dst: to },
        Insn::Branch { op, width, src, .. } => Insn::Branch { op, width, dst: to, src: source(src), offset: distance },
        Insn::MayGoto { .. } => Insn::MayGoto { offset: distance },
        Insn::Call(CallTarget::Helper(_)) => Insn::Call(CallTarget::Helper(value as u32)),
        Insn::Call(_) | Insn::Exit => insn,
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("llvm");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{name}-{}", std::process::id()))
}

/// What a tool printed, and what it said when it failed.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn assemble(name: &str, source: &str) -> Result<PathBuf, String> {
    let mc = tool("llvm-mc").ok_or("no llvm-mc")?;
    let (input, output) = (scratch(&format!("{name}.s")), scratch(&format!("{name}.o")));
    std::fs::write(&input, source).unwrap();
    let mut command = Command::new(mc);
    command.args(["-triple", "bpfel", "-mcpu=v4", "-filetype=obj", "-o"]).arg(&output).arg(&input);
    let result = run(&mut command);
    std::fs::remove_file(&input).unwrap();
    result.map(|_| output)
}

/// llvm-objdump's listing of an object's `.text`: bytes and text, without the labels it adds behind branches.
fn disassemble(object: &PathBuf) -> Vec<(Vec<u8>, String)> {
    let objdump = tool("llvm-objdump").expect("llvm-mc is there, so this is");
    let listing = run(Command::new(objdump).args(["-d", "--mcpu=v4"]).arg(object)).unwrap();
    std::fs::remove_file(object).unwrap();
    listing
        .lines()
        .filter_map(|line| {
            let (index, rest) = line.split_once(":\t")?;
            index.trim().parse::<usize>().ok()?;
            let (bytes, text) = rest.split_once('\t')?;
            let bytes = bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
            let text = text.split_once(" <.text").map_or(text, |(text, _)| text);
            Some((bytes, text.to_owned()))
        })
        .collect()
}

fn bytes_of(insn: &Insn) -> Vec<u8> {
    let (first, second) = encode(insn);
    std::iter::once(first).chain(second).flat_map(Slot::to_bytes).collect()
}

#[test]
fn llvm_assembles_our_text_to_our_bytes() {
    if tool("llvm-mc").is_none() {
        return;
    }
    let examples: Vec<_> = examples().into_iter().filter(|insn| !excluded(insn)).collect();
    let source: String = examples.iter().map(|insn| format!("{insn}\n")).collect();
    let object = assemble("text", &source).unwrap();
    let theirs = disassemble(&object);
    assert_eq!(theirs.len(), examples.len());
    for (insn, (bytes, _)) in examples.iter().zip(&theirs) {
        assert_eq!(*bytes, bytes_of(insn), "{insn}");
    }
    println!("{} examples of {} forms", examples.len(), forms().len());
}

#[test]
fn llvm_prints_our_bytes_as_we_do_and_we_read_what_it_prints() {
    if tool("llvm-mc").is_none() {
        return;
    }
    let examples: Vec<_> = examples().into_iter().filter(|insn| !excluded(insn)).collect();
    let bytes: Vec<String> =
        encode_all(&examples).into_iter().flat_map(Slot::to_bytes).map(|byte| byte.to_string()).collect();
    let object = assemble("bytes", &format!(".byte {}\n", bytes.join(","))).unwrap();
    let theirs = disassemble(&object);
    assert_eq!(theirs.len(), examples.len());
    for (insn, (bytes, text)) in examples.iter().zip(&theirs) {
        assert_eq!(*text, insn.to_string());
        let read = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(bytes_of(&read), *bytes, "{text}");
    }
}

#[test]
fn what_is_excluded_is_really_beyond_llvm_19() {
    if tool("llvm-mc").is_none() {
        return;
    }
    for (reason, applies) in EXCLUDED {
        let mut of_this_kind: Vec<_> = examples().into_iter().filter(applies).collect();
        let mode = PacketMode::Indirect(Reg::R3);
        let packet = Insn::LoadPacket { mode, size: kiln_isa::Size::B4, offset: 4 };
        of_this_kind.extend(Some(packet).filter(applies));
        assert!(!of_this_kind.is_empty(), "{reason}");
        for insn in of_this_kind {
            let assembled = assemble("excluded", &format!("{insn}\n"));
            let same = assembled
                .is_ok_and(|object| disassemble(&object).first().is_some_and(|(bytes, _)| *bytes == bytes_of(&insn)));
            assert!(!same, "LLVM assembles `{insn}` as we do, though it is excluded: {reason}");
        }
    }
}

#[test]
fn spellings_that_llvm_takes_we_take() {
    if tool("llvm-mc").is_none() {
        return;
    }
    let spellings = [
        "r1 = *(u8 *)(r2 + 0)",
        "r1=*(u32*)(r2+4)",
        "w1 = *(u16 *)(r2 - 2)",
        "*(u32 *)(r1 + 0) = r2",
        "*(u32 *)(r1 + 0) = w2",
        "*(u8*)(r1+0)=0xff",
        "*(u32 *)(r1 + 0) = 0xffffffff",
        "r1 = 4294967295",
        "w1 = -0x1",
        "r1 = 0xffffffffffffffff ll",
        "r1 = -1 ll",
        "r0 = *(u8*)skb[4]",
        "r0 = *(u32 *)skb[-5]",
        "goto +5",
        "goto -0x3",
        "gotol +7000",
        "if r1 s>= -5 goto +1",
        "if w1 & 0x80000000 goto +1",
        "call -1",
        "lock *(u64 *)(r1+0) ^= r2",
        "w0 = cmpxchg32_32(r1 + 0, w0, w2)",
    ];
    for spelling in spellings {
        let object = assemble("spelling", &format!("{spelling}\n")).unwrap_or_else(|error| panic!("{error}"));
        let (bytes, _) = disassemble(&object).remove(0);
        let read = parse(spelling).unwrap_or_else(|error| panic!("{spelling}: {error}"));
        assert_eq!(bytes_of(&read), bytes, "{spelling}");
    }
    let refused = [
        "r1 = w2",
        "w1 = *(u64 *)(r2 + 0)",
        "r1 = *(u64 *)(r2 + 0x8000)",
        "w1 = le16 w1",
        "r1 = be16",
        "lock *(u16 *)(r1 + 0) += r2",
        "r0 = *(u64 *)skb[0]",
        "if r1 goto +1",
        "r12 = 1",
        "r1 += 5 ll",
    ];
    for spelling in refused {
        assert!(assemble("refused", &format!("{spelling}\n")).is_err(), "LLVM takes `{spelling}`");
        assert!(parse(spelling).is_err(), "{spelling}");
    }
}
