//! The Python module works: its own tests, and the example in `examples/pytest`, which the guide shows.
//!
//! The module is a workspace of its own (`crates/python/Cargo.toml` says why), built into `target/python`.

#[allow(dead_code, reason = "each test uses some of it")]
mod common;

use std::path::Path;
use std::process::Command;

use common::{cargo, first_of, root, succeeds, target};

/// A Python that is new enough and has pytest.
fn has_pytest() -> bool {
    let check = "import sys, pytest; assert sys.version_info >= (3, 10)";
    Command::new("python3").args(["-c", check]).output().is_ok_and(|output| output.status.success())
}

/// Compiles a program for BPF.
fn compile(clang: &str, source: &Path, object: &Path) {
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut command = Command::new(clang);
    command.args(["-g", "-O2", "-target", "bpf", "-idirafter", &headers, "-c"]).arg(source).arg("-o").arg(object);
    succeeds(&mut command, "clang");
}

#[test]
fn programs_are_tested_from_python() {
    let (Some(clang), true) = (first_of(&["clang-19", "clang"]), has_pytest()) else {
        eprintln!("skipped: clang, or a Python of 3.10 or newer with pytest, is missing");
        return;
    };
    let manifest = ["--manifest-path", "crates/python/Cargo.toml", "--locked"];
    // Its dependencies are not those of the workspace, so that they may be missing where there is no network.
    if !cargo().arg("fetch").args(manifest).output().expect("cargo runs").status.success() {
        eprintln!("skipped: the registry's crates for crates/python cannot be fetched");
        return;
    }
    let built = target().parent().expect("target").join("python");
    let mut build = cargo();
    build.args(["build", "--quiet", "--offline"]).args(manifest).env("CARGO_TARGET_DIR", &built);
    succeeds(&mut build, "building the module");

    let folder = tempfile::tempdir().expect("a folder");
    let here = |name: &str| folder.path().join(name);
    std::fs::copy(built.join("debug/libkiln_ebpf.so"), here("kiln_ebpf.abi3.so")).expect("the module was built");
    std::fs::copy(root().join("crates/python/kiln_ebpf.pyi"), here("kiln_ebpf.pyi")).expect("the stubs are there");
    for (source, test) in [
        ("crates/python/tests/module.bpf.c", "crates/python/tests/test_module.py"),
        ("examples/pytest/limit.bpf.c", "examples/pytest/test_limit.py"),
    ] {
        let name = Path::new(source).file_stem().expect("a name").to_string_lossy().into_owned();
        compile(clang, &root().join(source), &here(&format!("{name}.o")));
        let copied = here(Path::new(test).file_name().expect("a name").to_str().expect("a name"));
        std::fs::copy(root().join(test), copied).expect("the test is there");
    }
    let mut pytest = Command::new("python3");
    pytest.args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]).current_dir(folder.path());
    let said = succeeds(&mut pytest, "pytest");
    assert!(said.contains(" passed") && !said.contains("failed"), "{said}");
}
