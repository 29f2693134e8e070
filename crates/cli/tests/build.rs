//! `kiln build`, and `kiln run --native`, as those who embed programs meet them.
#![cfg(target_arch = "x86_64")]

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use std::path::Path;
use std::process::Command as Process;

use assert_cmd::Command;
use predicates::str::contains;
use serde_json::Value;

const SOURCE: &str = "\
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC(\"xdp\") int sum(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	unsigned int sum = 0;

	if (data + 64 > end)
		return XDP_ABORTED;
	for (int at = 0; at < 64; at++)
		sum = (sum << 5 | sum >> 27) ^ data[at];
	data[0] = sum;
	return sum & 0xffff;
}
char LICENSE[] SEC(\"license\") = \"GPL\";
";

/// Runs the built program on 64 bytes that count up, and prints R0 and the first byte.
const EMBEDDER: &str = "\
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include \"sum.h\"
int main(void)
{
	unsigned char *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	uint32_t context[6] = { (uint32_t)(uintptr_t)memory, (uint32_t)(uintptr_t)memory + 64 };
	struct kiln_runtime runtime = { .budget = 1000000 };
	for (int at = 0; at < 64; at++)
		memory[at] = at;
	uint32_t value = (uint32_t)sum_entry((uintptr_t)context, &runtime);
	printf(\"%u %u\\n\", value, memory[0]);
	return runtime.budget < 0;
}
";

fn kiln(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command
}

/// A folder with the object; `None`, and a line that says so, without clang.
fn folder_with_object() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("sum.bpf.c"), SOURCE).expect("a file");
    let (source, object) = (folder.path().join("sum.bpf.c"), folder.path().join("sum.o"));
    world::compile(&source, &object, &[]).then_some(folder)
}

#[test]
fn a_c_program_runs_what_was_built() {
    let Some(folder) = folder_with_object() else { return };
    let path = folder.path();
    let output = kiln(path).args(["build", "sum.o", "-o", "out", "--format", "json"]).assert().success();
    let built: Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    assert_eq!(built[0]["compared"]["verdict"], "equal");
    assert_eq!(built[0]["addresses"].as_array().map(Vec::len), Some(0));
    let engines: Vec<&str> =
        built[0]["times"].as_array().expect("times").iter().filter_map(|own| own["engine"].as_str()).collect();
    assert_eq!(engines, ["jit", "fast", "scalar"]);

    std::fs::write(path.join("main.c"), EMBEDDER).expect("a file");
    let packet: String = (0..64).map(|byte| format!("{byte:02x}")).collect();
    let mut run = kiln(path);
    run.args(["run", "sum.o", "--in", "interpreter", "--format", "json", "--packet", &packet]);
    let expected: Value = serde_json::from_slice(&run.output().expect("a run").stdout).expect("JSON");
    let first = u8::from_str_radix(&expected["packet"].as_str().expect("a packet")[..2], 16).expect("a byte");
    let expected = format!("{} {first}\n", expected["value"]);
    // The static library, and the shared object.
    for library in ["out/sum.a", "out/sum.so"] {
        let mut compiler = Process::new("clang-19");
        compiler.args(["-Wall", "-Werror", "-Iout", "main.c", library, "-o", "main", "-Wl,-rpath,."]).current_dir(path);
        assert!(compiler.status().expect("a compiler").success());
        let ran = Process::new(path.join("main")).current_dir(path).output().expect("a run");
        assert_eq!(
            (ran.status.code(), String::from_utf8_lossy(&ran.stdout).as_ref()),
            (Some(0), &expected[..]),
            "{library}"
        );
    }
}

#[test]
fn size_is_smaller_and_other_cpus_are_named() {
    let Some(folder) = folder_with_object() else { return };
    let bytes = |arguments: &[&str]| {
        let output =
            kiln(folder.path()).args(["build", "sum.o", "-o", "out", "--format", "json"]).args(arguments).output();
        let built: Value = serde_json::from_slice(&output.expect("a build").stdout).expect("JSON");
        built[0]["code_bytes"].as_u64().expect("bytes")
    };
    assert!(bytes(&["--native=size"]) < bytes(&["--native=fast", "--cpu", "x86-64-v2"]));
    let header = std::fs::read_to_string(folder.path().join("out/sum.h")).expect("a header");
    // Names of two programs may differ in the case of a letter only.
    assert!(header.contains("#ifndef KILN_sum_H") && header.contains("#define sum_ADDRESSES "), "{header}");
    assert!(header.contains("for this CPU: x86-64-v2"), "{header}");
}

#[test]
fn what_cannot_be_built_is_said() {
    let Some(folder) = folder_with_object() else { return };
    let build = || {
        let mut command = kiln(folder.path());
        command.args(["build", "sum.o", "-o", "out"]);
        command
    };
    build()
        .env("KILN_CLANG", "no-such-clang")
        .assert()
        .code(3)
        .stderr(contains("no-such-clang"))
        .stderr(contains("KILN_CLANG"));
    build().args(["--cpu", "no-such-cpu"]).assert().code(3).stderr(contains("no-such-cpu"));
    build().args(["--native=quick"]).assert().code(2).stderr(contains("possible values: best, fast, scalar, size"));
    build().args(["--program", "none"]).assert().code(2).stderr(contains("no program none"));
    kiln(folder.path()).args(["build", "sum.o"]).assert().code(2).stderr(contains("--output"));
    std::fs::write(folder.path().join("file"), "").expect("a file");
    kiln(folder.path()).args(["build", "sum.o", "-o", "file"]).assert().code(2).stderr(contains("file"));
}

#[test]
fn run_takes_the_native_tier() {
    let Some(folder) = folder_with_object() else { return };
    let packet = "07".repeat(64);
    let ran = |how: &[&str]| {
        let output =
            kiln(folder.path()).args(["run", "sum.o", "--packet", &packet, "--format", "json"]).args(how).output();
        let ran: Value = serde_json::from_slice(&output.expect("a run").stdout).expect("JSON");
        let code = ran["code"].as_str().map(str::to_owned);
        (code, (ran["value"].clone(), ran["packet"].clone()))
    };
    let expected = ran(&["--in", "interpreter"]);
    assert_eq!(expected.0, None);
    for setting in ["fast", "scalar", "size"] {
        assert_eq!(ran(&[&format!("--native={setting}")]), (Some(setting.to_owned()), expected.1.clone()));
    }
    // Without a setting, the fastest code: which that is depends on the machine.
    for how in [&["--native"][..], &["--in", "native"]] {
        let (code, result) = ran(how);
        assert_eq!(result, expected.1);
        assert!(code.is_some_and(|code| ["jit", "fast", "scalar"].contains(&&code[..])));
    }
    let ran = |how: &[&str]| ran(how).1;
    assert_eq!(ran(&["--native"]), ran(&["--in", "interpreter"]));
    assert_eq!(ran(&["--in", "native"]), ran(&["--in", "jit"]));
    assert!(folder.path().join("cache/kiln/native").is_dir());
}
