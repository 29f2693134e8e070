//! Heaps and the pool as an author meets them: through `kiln cc`; who was cancelled where; which kernels the stores load on.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use std::path::Path;
use std::process::{Command, Output};

use world::has_clang;

const SOURCE: &str = "\
#include <kiln/pool.h>
SEC(\"xdp\") int store(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 id = 1;

	return kiln_pool_write(&id, data, end, 64, BPF_ANY) ? XDP_DROP : XDP_PASS;
}
char LICENSE[] SEC(\"license\") = \"GPL\";
";

fn kiln(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(arguments).current_dir(folder).env("KILN_OPTIMIZE", "5").output().expect("kiln runs")
}

#[test]
fn both_stores_come_through_kiln_cc_and_load_on_5_15() {
    if !has_clang() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("store.bpf.c"), SOURCE).expect("a file");
    for (store, largest) in
        [("KILN_POOL_HASH", 1024), ("KILN_POOL_ARRAY", 1024), ("KILN_POOL_HASH", 128), ("KILN_POOL_ARRAY", 256)]
    {
        let defines = [format!("-DKILN_POOL_STORE={store}"), format!("-DKILN_POOL_MAX={largest}")];
        let built =
            kiln(folder.path(), &["cc", "-mcpu=v3", &defines[0], &defines[1], "-c", "store.bpf.c", "-o", "store.o"]);
        assert!(built.status.success(), "{store}: {}", String::from_utf8_lossy(&built.stderr));
        let checked = kiln(folder.path(), &["check", "--kernel", "5.15", "store.o"]);
        let text = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success(), "{store}: {text}");
        assert!(text.contains("all programs load on: 5.15"), "{store}: {text}");
    }
}

#[test]
fn what_a_program_must_choose_is_said() {
    if !has_clang() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("store.bpf.c"), SOURCE).expect("a file");
    let wrong: [(&[&str], &str); 3] = [
        (&[], "define KILN_POOL_STORE as KILN_POOL_HASH, KILN_POOL_ARRAY or KILN_POOL_ARENA"),
        // Parts of sizes are found by their bits.
        (&["-DKILN_POOL_STORE=1", "-DKILN_POOL_MAX=600"], "KILN_POOL_MAX is a power of two from 128 to 1024"),
        (&["-DKILN_POOL_STORE=2", "-DKILN_POOL_MAX=2048"], "KILN_POOL_MAX is a power of two from 128 to 1024"),
    ];
    for (defines, message) in wrong {
        let arguments = [&["cc", "-mcpu=v3", "-c", "store.bpf.c", "-o", "store.o"], defines].concat();
        let built = kiln(folder.path(), &arguments);
        let error = String::from_utf8_lossy(&built.stderr);
        assert!(!built.status.success() && error.contains(message), "{defines:?}: {error}");
    }
}

const SPIN: &str = "\
#include <kiln/heap.h>
kiln_heap(1 << 20);
volatile __u64 steps;
SEC(\"xdp\") int spin(struct xdp_md *ctx)
{
	while (steps < 1ull << 40)
		steps++;
	return XDP_DROP;
}
char LICENSE[] SEC(\"license\") = \"GPL\";
";

/// A run that does not end is cancelled; `kiln run` and `kiln check` name the loop's line.
#[test]
fn a_cancelled_run_is_reported_with_its_source_line() {
    if !has_clang() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spin.bpf.c"), SPIN).expect("writes");
    let compiled = kiln(folder.path(), &["cc", "-c", "spin.bpf.c", "-o", "spin.o"]);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let checked = kiln(folder.path(), &["check", "spin.o"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
    assert!(said.contains("1 cancellation point") && said.contains("spin.bpf.c:7"), "{said}");
    let packet = "00".repeat(64);
    let ran = kiln(folder.path(), &["run", "spin.o", "--packet", &packet]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("cancelled: 1 run at point 0 in spin at") && said.contains("spin.bpf.c:7"), "{said}");
    let ran = kiln(folder.path(), &["run", "spin.o", "--packet", &packet, "--format", "json"]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("\"cancelled\"") && said.contains("\"runs\": 1"), "{said}");
    // Nobody has written to the heap.
    let ran = kiln(folder.path(), &["run", "spin.o", "--packet", &packet, "--insn-budget", "1000", "--maps"]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("heap kiln_heap_map: takes 0 of 1048576 bytes"), "{said}");
}

/// Objects for the VM end with its quantum, of any length, or with a budget of instructions.
#[test]
fn an_object_for_the_vm_ends_with_the_quantum_of_the_run() {
    if !has_clang() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spin.bpf.c"), SPIN).expect("writes");
    let packet = "00".repeat(64);
    let source = folder.path().join("spin.bpf.c");
    let compile =
        ["-target", "bpf", "-O2", "-g", "-mcpu=v4", "-mllvm", "-disable-loop-idiom-all", "-c", "-o", "plain.o"];
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/include");
    let asm = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut clang = Command::new("clang-19");
    clang.args(compile).arg(source).arg("-I").arg(headers).args(["-idirafter", &asm]).current_dir(folder.path());
    assert!(clang.status().expect("clang runs").success());
    let for_vm =
        |more: &[&str]| kiln(folder.path(), &[&["sandbox", "plain.o", "--target", "vm", "-o", "vm.o"], more].concat());
    let said = String::from_utf8_lossy(&for_vm(&["--quantum", "1"]).stderr).into_owned();
    assert!(said.contains("an option of `kiln run` there"), "{said}");
    assert!(for_vm(&[]).status.success());
    let begun = std::time::Instant::now();
    let ran = kiln(folder.path(), &["run", "vm.o", "--packet", &packet, "--quantum", "0.3"]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("cancelled: 1 run at point 0"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(begun.elapsed().as_millis() >= 300, "{said}");
    let ran = kiln(folder.path(), &["run", "vm.o", "--packet", &packet, "--quantum", "9", "--insn-budget", "100000"]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("cancelled: 1 run at point 0"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let ran = kiln(folder.path(), &["run", "vm.o", "--packet", &packet, "--quantum", "1", "--in", "kernel"]);
    assert!(ran.status.code() == Some(2), "{}", String::from_utf8_lossy(&ran.stderr));
    let ran = kiln(folder.path(), &["run", "vm.o", "--packet", &packet, "--map-bytes", "4096"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(1) && said.contains("the VM gives a map 4096 at most"), "{said}");
}

/// A heap that no kernel gives, one that the VM does not give, and a kernel that has no heaps: each is said with its limit.
#[test]
fn a_heap_out_of_range_or_without_a_kernel_is_refused_with_its_reason() {
    if !has_clang() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let build = |heap: &str| {
        std::fs::write(folder.path().join("heap.bpf.c"), SPIN.replace("1 << 20", heap)).expect("writes");
        kiln(folder.path(), &["cc", "-c", "heap.bpf.c", "-o", "heap.o"])
    };
    let refused = build("8ull << 30");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("2097152 pages") && said.contains("4 GiB"), "{said}");
    let built = build("2ull << 30");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = kiln(folder.path(), &["run", "heap.o", "--packet", &"00".repeat(64)]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success() && said.contains("the VM gives a map 1073741824 at most"), "{said}");
    let using = SPIN.replace("steps++", "steps += kiln_malloc(64) != 0");
    std::fs::write(folder.path().join("heap.bpf.c"), using).expect("writes");
    let built = kiln(folder.path(), &["cc", "-c", "heap.bpf.c", "-o", "heap.o"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let checked = kiln(folder.path(), &["check", "--kernel", "6.8", "heap.o"]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success() && said.contains("map type arena") && said.contains("Linux 6.9"), "{said}");
}
