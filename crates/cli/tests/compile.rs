//! `kiln cc` with a compiler that writes damaged objects: an object or an error, never a half-made object.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// A heap extension, which the sandbox has to change.
const SOURCE: &str = "\
#include <kiln/heap.h>
kiln_heap(1 << 20);
struct elem { int key, value; struct elem *next; };
struct elem *head;
SEC(\"xdp\") int lookup(struct xdp_md *ctx)
{
	int found = 0;
	for (struct elem *e = head; e; e = e->next)
		if (e->key == 42)
			found = e->value;
	return found ? XDP_DROP : XDP_PASS;
}
";

/// Runs `kiln cc`, with a memory limit and this many seconds for the optimizer.
fn cc(folder: &Path, clang: &str, optimize: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 1572864 && ulimit -t 60 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_kiln"), "cc"]);
    command.args(arguments).current_dir(folder).env("KILN_CLANG", clang).env("KILN_OPTIMIZE", optimize);
    command.output().expect("sh runs")
}

/// A compiler that writes `made.o` to where `-o` says.
fn copying_compiler(folder: &Path) -> String {
    let script = folder.join("copying");
    std::fs::write(&script, "#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\ncp made.o \"$2\"\n").expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    script.display().to_string()
}

#[test]
fn objects_that_cannot_be_finished_are_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    std::fs::write(folder.join("a.c"), SOURCE).expect("a file");
    std::fs::write(folder.join("b.c"), SOURCE).expect("a file");
    let output = cc(folder, "clang-19", "0", &["-c", "a.c", "b.c"]);
    if output.status.code() == Some(3) {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // Both are sandboxed: they differ in their sources' names only.
    let sandboxed = std::fs::read(folder.join("a.o")).expect("an object");
    assert_eq!(sandboxed.len(), std::fs::read(folder.join("b.o")).expect("an object").len());
    // What clang did not write stays as it is.
    let again = cc(folder, "clang-19", "0", &["-fsyntax-only", "a.c", "-o", "a.o"]);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert!(sandboxed == std::fs::read(folder.join("a.o")).expect("an object"), "sandboxed twice");
    // Nor is the source replaced by its object.
    let onto = cc(folder, "clang-19", "0", &["-c", "a.c", "-o", "./a.c"]);
    assert_eq!(onto.status.code(), Some(2), "{}", String::from_utf8_lossy(&onto.stderr));
    assert_eq!(std::fs::read_to_string(folder.join("a.c")).expect("a file"), SOURCE);

    let status = Command::new("clang-19")
        .args(["-target", "bpf", "-mcpu=v4", "-O2", "-g", "-c", "a.c", "-o", "plain.o"])
        .arg(format!("-I{}", concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/include")))
        .args(["-idirafter", &format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH)])
        .current_dir(folder)
        .status();
    assert!(status.expect("clang runs").success());
    let plain = std::fs::read(folder.join("plain.o")).expect("an object");
    let compiler = copying_compiler(folder);
    let (mut refused, mut finished) = (0, 0);
    let step = plain.len() / 60;
    for at in (0..plain.len()).step_by(step) {
        for damage in 0..2 {
            let mut damaged = plain.clone();
            match damage {
                0 => damaged.truncate(at),
                _ => (at..(at + 3).min(plain.len())).for_each(|at| damaged[at] ^= 0xa5),
            }
            std::fs::write(folder.join("made.o"), &damaged).expect("a file");
            let _ = std::fs::remove_file(folder.join("out.o"));
            let output = cc(folder, &compiler, "0.2", &["-c", "-o", "out.o"]);
            let (code, out) = (output.status.code(), std::fs::read(folder.join("out.o")).ok());
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(code, Some(0..=3)) && !text.contains("panicked"), "{at} {damage}: {code:?} {text}");
            match (code, out) {
                (Some(0), Some(out)) if out != damaged => finished += 1,
                // No object for BPF, which is left as the compiler wrote it.
                (Some(0), Some(out)) => {
                    assert!(!out.starts_with(b"\x7fELF") || out.len() < 20 || at < 20, "{at} {damage}")
                }
                (_, None) => refused += 1,
                (code, _) => panic!("{at} {damage}: exit code {code:?}, and out.o stays: {text}"),
            }
        }
    }
    println!("{refused} refused, {finished} finished");
    assert!(refused > 50 && finished > 5, "{refused} refused, {finished} finished");
}

#[test]
fn response_files_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = cc(folder.path(), "clang-19", "0", &["@flags", "-c", "a.c"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("@flags"), "{output:?}");
}

/// All pointers come from the packet, so clang writes no relocation; the sandbox refers to the heap's map.
#[test]
fn a_program_without_relocations_gets_some() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = "\
#include <kiln/heap.h>
kiln_heap(1 << 20);
struct request { unsigned long *address; };
SEC(\"xdp\") int add(struct xdp_md *ctx)
{
	struct request *request = (void *)(long)ctx->data;
	if ((void *)(request + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	*request->address += 1;
	return XDP_DROP;
}
";
    std::fs::write(folder.path().join("a.c"), source).expect("a file");
    let output = cc(folder.path(), "clang-19", "0", &["-c", "a.c"]);
    if String::from_utf8_lossy(&output.stderr).contains("install clang") {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let check = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        let output = command.args(["check", "a.o"]).args(more).current_dir(folder.path()).output().expect("kiln runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}");
        text
    };
    assert!(check(&[]).contains("accepted add"));
    if kiln_driver::require_kernel().is_ok() {
        assert!(check(&["--with-kernel"]).contains("the kernel: accepted"));
    }
}
