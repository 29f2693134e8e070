//! Text on real objects: what is printed reads back to the same object, and every instruction reads as in
//! `llvm-objdump`.

use std::path::PathBuf;
use std::process::Command;

use kiln_isa::text::parse;
use kiln_isa::{CallTarget, Imm64, Insn, PacketMode, Slot, decode, encode};
use kiln_program::text::{listing, print};
use kiln_test::corpus;

#[test]
fn printed_objects_read_back() {
    let mut read = 0;
    for object in corpus::objects() {
        let Ok(input) = object.read() else { continue };
        let path = object.path.display();
        let text = print(&input.object);
        let again = kiln_program::text::parse(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        // Comparing field by field keeps a failure readable.
        assert_eq!(again.maps, input.object.maps, "{path}");
        assert_eq!(again.programs, input.object.programs, "{path}");
        assert!(again.functions == input.object.functions, "{path}: functions differ");
        assert!(again == input.object, "{path}: lines, CO-RE records, externs or BTF differ");
        let listed = listing(&input.object);
        let from_listing = kiln_program::text::parse(&listed).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(listing(&from_listing), listed, "{path}");
        read += 1;
    }
    println!("{read} objects");
}

/// LLVM 19's disassembly of these objects: bytes and text of each instruction.
fn disassemble(paths: &[PathBuf]) -> Option<Vec<(Vec<u8>, String)>> {
    let tools = ["/usr/bin/llvm-objdump-19", "/usr/lib/llvm-19/bin/llvm-objdump"];
    let Some(tool) = tools.iter().find(|path| std::path::Path::new(path).exists()) else {
        println!("skipped: llvm-objdump-19 is not installed (package llvm-19)");
        return None;
    };
    let output = Command::new(tool).args(["-d", "--mcpu=v4"]).args(paths).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let insn = |line: &str| {
        let (index, rest) = line.split_once(":\t")?;
        index.trim().parse::<usize>().ok()?;
        let (bytes, text) = rest.split_once('\t')?;
        let bytes: Option<Vec<u8>> = bytes.split(' ').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        // The target label follows a branch.
        let text = match text.rfind(" <") {
            Some(at) if text.ends_with('>') => &text[..at],
            _ => text,
        };
        Some((bytes?, text.to_owned()))
    };
    Some(text.lines().filter_map(insn).collect())
}

/// Forms that LLVM 19 prints ambiguously: see `crates/isa/tests/llvm.rs`.
fn llvm_drops_fields(insn: &Insn) -> bool {
    match insn {
        Insn::LoadImm64 { imm, .. } => !matches!(imm, Imm64::Value(_)),
        Insn::Call(target) => !matches!(target, CallTarget::Helper(_)),
        Insn::LoadPacket { mode: PacketMode::Indirect(_), offset, .. } => *offset != 0,
        Insn::LoadAcquire { .. } | Insn::StoreRelease { .. } => true,
        _ => false,
    }
}

#[test]
fn instructions_read_as_in_llvm() {
    let paths: Vec<PathBuf> = corpus::objects().into_iter().map(|object| corpus::folder().join(object.path)).collect();
    let (mut same, mut skipped) = (0, 0);
    for batch in paths.chunks(32) {
        let Some(insns) = disassemble(batch) else { return };
        for (bytes, text) in insns {
            let slots: Vec<Slot> = bytes.as_chunks::<8>().0.iter().map(|chunk| Slot::from_bytes(*chunk)).collect();
            let Ok(insn) = decode(&slots) else {
                skipped += 1;
                continue;
            };
            if llvm_drops_fields(&insn) {
                skipped += 1;
                continue;
            }
            assert_eq!(insn.to_string(), text);
            let read = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let (first, second) = encode(&read);
            let again: Vec<u8> = std::iter::once(first).chain(second).flat_map(Slot::to_bytes).collect();
            assert_eq!(again, bytes, "{text}");
            same += 1;
        }
    }
    println!("{same} instructions; {skipped} of forms that LLVM prints without all their fields");
    assert!(paths.is_empty() || same > skipped);
}
