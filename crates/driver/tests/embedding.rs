//! What an embedder does: the examples run, and a build without default features names neither Z3 nor libbpf, and
//! compiles.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The cargo that runs this test, without what it says of this package: build scripts that look at it would run again, and
/// all that depends on them would be built again.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
        command.env_remove(name);
    }
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).arg("--offline");
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// An example, built by `cargo test` or, when only this file is tested, here.
fn example(name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("this test is a file");
    let path = here.ancestors().nth(2).expect("target/debug/deps").join("examples").join(name);
    if !path.exists() {
        let built = cargo().args(["build", "-p", "kiln-driver", "--example", name]).output().expect("cargo runs");
        assert!(built.status.success(), "{}", text(&built));
    }
    path
}

fn run(name: &str, arguments: &[&Path], code: i32) -> String {
    let output = Command::new(example(name)).args(arguments).output().expect("the example runs");
    assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output));
    text(&output)
}

#[test]
fn a_build_without_features_names_no_c_library() {
    for package in ["kiln-driver", "kiln-cli", "kiln-vm", "kiln-c"] {
        let tree = |features: &[&str]| {
            let arguments = ["tree", "-p", package, "-e", "normal,build", "--prefix", "none", "--format", "{p}"];
            let output = cargo().args(arguments).args(features).output().expect("cargo runs");
            assert!(output.status.success(), "{}", text(&output));
            text(&output)
        };
        let needs = |tree: &str| ["z3-sys ", "libbpf-sys ", "libsqlite3-sys "].map(|library| tree.contains(library));
        assert_eq!(needs(&tree(&["--no-default-features"])), [false; 3], "{package}");
        // The names are right: with all features they are there.
        let all = !matches!(package, "kiln-vm" | "kiln-c");
        assert_eq!(needs(&tree(&[])), [all, all, package == "kiln-cli"], "{package}");
    }
}

/// The crates that a use needs, its own among them.
fn crates(packages: &[&str]) -> usize {
    let mut command = cargo();
    command.args([
        "tree",
        "--locked",
        "--no-default-features",
        "-e",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    for package in packages {
        command.args(["-p", package]);
    }
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", text(&output));
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = listed.lines().filter_map(|line| line.split(" (").next()).filter(|line| !line.is_empty());
    names.collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn who_verifies_or_embeds_does_not_pay_for_the_rest() {
    for (most, packages) in [(20, &["kiln-vm", "kiln-elf"][..]), (30, &["kiln-inspect"]), (40, &["kiln-c"])] {
        let crates = crates(packages);
        assert!(crates <= most, "{packages:?}: {crates} crates, and {most} is the most");
    }
    // What is counted is what is there: the whole driver needs more.
    assert!(crates(&["kiln-driver"]) > 40);
}

#[test]
fn a_build_without_features_compiles() {
    let output = cargo().args(["check", "--quiet", "-p", "kiln-c"]).output().expect("cargo runs");
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn the_examples_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let good = write("good.bpf", "; program xdp name good\n r1 = 1\n r0 = 1\n r0 += r1\n exit\n");
    let bad = write("bad.bpf", "; program xdp name bad\n r0 = *(u8 *)(r2 + 0)\n exit\n");
    assert!(run("check", &[&good], 0).contains("good: accepted"));
    let story = run("check", &[&bad], 1);
    assert!(story.contains("bad: rejected (") && story.contains("r2"), "{story}");
    assert!(run("check", &[], 1).contains("usage"));

    let smaller = folder.path().join("smaller.bpf");
    let said = run("optimize", &[&good, &smaller], 0);
    assert!(said.contains("good: 4 slots -> 2"), "{said}");
    assert!(run("check", &[&smaller], 0).contains("good: accepted"));

    let said = run("run_packet", &[], 0);
    assert!(said.contains("one packet counted") && said.contains("ns a call"), "{said}");
    let said = run("own_helper", &[], 0);
    assert!(said.contains("the sum is 36, by 1 call") && said.contains("program sum"), "{said}");
}
