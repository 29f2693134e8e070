//! `kiln dump --native`: what each BPF instruction became, for both machines.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use predicates::prelude::*;
use predicates::str::contains;
use world::{Folder, document, kiln};

/// Two functions, a rotation that is recognized, a branch, a fused load, a division whose rare case is elsewhere.
const TWO: &str = "\
; program xdp
; function main
  w6 = *(u32 *)(r1 + 4)
  w1 = *(u32 *)(r1 + 0)
  w2 = w6
  call mixed
  w3 = w6
  w3 /= w0
  r4 = r0
  r4 >>= 51
  r0 <<= 13
  r0 |= r4
  r0 += r3
  if r0 == 7 goto out
  w0 = 2
out:
  exit
; function mixed
  w0 = w1
  w0 += w2
  exit
";

#[test]
fn every_instruction_and_every_byte_is_in_one_span() {
    let folder = Folder::with(&[("two.bpf", TWO.as_bytes())]);
    for (machine, name) in [("x86-64", "x86_64"), ("arm64", "aarch64")] {
        let arguments = ["--native", "--machine", machine, "--format", "json"];
        let listings = document(kiln().arg("dump").arg(folder.path("two.bpf")).args(arguments));
        let listing = &listings[0];
        let native = &listing["native"];
        assert_eq!(native["machine"], name);
        let spans = native["spans"].as_array().expect("spans");
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");
        let mut end = 0;
        let mut covered = vec![Vec::new(), Vec::new()];
        for span in spans {
            assert_eq!(number(&span["offset"]), end, "{span}");
            for insn in span["code"].as_array().expect("code") {
                assert_eq!(number(&insn["offset"]), end, "{insn}");
                assert_ne!(insn["text"], "(bad)", "{insn}");
                end += insn["bytes"].as_str().expect("bytes").len() as u64 / 2;
            }
            assert_eq!(end, number(&span["offset"]) + number(&span["bytes"]));
            if span["part"] == "insns" {
                let slots = span["slots"].as_array().expect("slots").iter().map(number);
                covered[number(&span["function"]) as usize].extend(slots);
            }
        }
        assert_eq!(end, number(&native["bytes"]));
        for (function, mut slots) in covered.into_iter().enumerate() {
            let lines = listing["functions"][function]["instructions"].as_array().expect("instructions");
            slots.sort_unstable();
            assert_eq!(slots, lines.iter().map(|line| number(&line["slot"])).collect::<Vec<_>>());
        }
    }
}

#[test]
fn machine_instructions_follow_those_that_they_do() {
    let folder = Folder::with(&[("two.bpf", TWO.as_bytes())]);
    let dump = |machine: &str| {
        let arguments = ["--native", "--machine", machine];
        kiln().arg("dump").arg(folder.path("two.bpf")).args(arguments).assert().code(0)
    };
    let rotation = |insn: &str| {
        let text = format!(r"; \* rotate_left_64 .*\n +0x[0-9a-f]+ +[0-9a-f]+ +{insn}\n");
        predicate::str::is_match(text).expect("an expression")
    };
    let parts = || contains("program main <main>").and(contains("subprogram <mixed>")).and(contains("; prologue\n"));
    dump("x86-64").stdout(parts().and(rotation("rol rax, 0xd")).and(contains("; rare case of 5\n")));
    dump("arm64").stdout(parts().and(rotation("ror x7, x7, #0x33")).and(contains("udiv ")));
}

#[test]
fn a_program_that_the_vm_does_not_run_is_listed_with_the_reason() {
    let text = "; program xdp\n  r2 = *(u32 *)(r1 + 0)\n  r0 = *(u8 *)(r2 + 0)\n  r0 = 2\n  exit\n";
    let folder = Folder::with(&[("unsafe.bpf", text.as_bytes())]);
    let path = folder.path("unsafe.bpf");
    let listed = contains("; no machine code: ").and(contains("*(u8 *)(r2"));
    kiln().arg("dump").arg(&path).arg("--native").assert().code(0).stdout(listed);
    let document = document(kiln().arg("dump").arg(&path).args(["--native", "--format", "json"]));
    assert!(document[0]["no_native"].is_string() && document[0]["native"].is_null());
    kiln().arg("dump").arg(&path).args(["--machine", "arm64"]).assert().code(2);
}

/// Compiles an object with requests, and writes a packet for it; `None` where there is no clang.
fn requests() -> Option<(Folder, std::path::PathBuf)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Folder::with(&[("packet.bin", &(0..64).collect::<Vec<u8>>())]);
    let object = folder.path("requests.o");
    let mut clang = std::process::Command::new("clang-19");
    clang.args(["-O2", "-target", "bpf", "-mcpu=v3", "-c"]).arg("-I").arg(root.join("bpf/include"));
    match clang.arg(root.join("tests/operations/requests.bpf.c")).arg("-o").arg(&object).status() {
        Ok(status) => assert!(status.success(), "clang-19 compiles it"),
        Err(error) => {
            println!("skipped: clang-19: {error}");
            return None;
        }
    }
    Some((folder, object))
}

/// An object for Linux's JIT is plain BPF: it does the same everywhere, and a kernel without the patches loads it.
#[test]
fn operations_for_linux_keep_the_program() {
    let Some((folder, object)) = requests() else { return };
    let marked = folder.path("marked.o");
    let mut ops = kiln();
    ops.arg("ops").arg(&object).args(["--target", "linux", "-o"]).arg(&marked);
    ops.assert().code(0).stdout(contains("select_64").and(contains("branch_if").not()));
    kiln().arg("dump").arg(&marked).assert().code(0).stdout(contains("* select_64"));
    let run = |object: &std::path::Path, place: &str| {
        let mut run = kiln();
        run.arg("run").arg(object).args(["--in", place, "--packet-file"]).arg(folder.path("packet.bin"));
        run.args(["--format", "json"]);
        run
    };
    let (before, after) = (document(&mut run(&object, "interpreter")), document(&mut run(&marked, "interpreter")));
    assert_eq!((&before["value"], &before["packet"]), (&after["value"], &after["packet"]));
    if kiln_linux::available().is_ok() {
        let kernel = document(&mut run(&marked, "kernel"));
        assert_eq!((&before["value"], &before["packet"]), (&kernel["value"], &kernel["packet"]));
    }
}

/// What `bpf/include/kiln/ops.h` has for requests becomes the operations, and both engines give the same result.
#[test]
fn requested_operations_are_compiled() {
    let Some((folder, object)) = requests() else { return };
    let listing = kiln().arg("dump").arg(&object).arg("--native").assert().code(0);
    listing.stdout(contains("prefetcht0").and(contains("lfence")).and(contains("cmov")));
    let found = kiln().arg("ops").arg(&object).assert().code(0);
    found.stdout(contains("select_64").and(contains("prefetch")).and(contains("speculation_barrier")));
    let run = |engine: &str| {
        let mut run = kiln();
        run.arg("run").arg(&object).args(["--in", engine, "--packet-file"]).arg(folder.path("packet.bin"));
        document(run.args(["--format", "json"]))
    };
    let (jit, interpreter) = (run("jit"), run("interpreter"));
    assert_eq!(jit["value"], 2);
    assert_eq!((&jit["value"], &jit["packet"]), (&interpreter["value"], &interpreter["packet"]));
}
