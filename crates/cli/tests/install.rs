//! What users install, made of the ordinary binary: manual, completions, SBOM, archives. `make dist` makes the static one,
//! and plays the same script with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// `cargo xtask`, with arguments.
fn xtask(arguments: &[&std::ffi::OsStr]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(["run", "--quiet", "-p", "xtask", "--"]);
    command.args(arguments).output().expect("cargo runs")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn packages_for_the_registry_can_be_made() {
    let packed = xtask(&["publish-check".as_ref(), "--quick".as_ref()]);
    let said = text(&packed);
    assert!(packed.status.success(), "{said}");
    assert!(said.contains("Packaging kiln-cli") && !said.contains("Packaging kiln-test"), "{said}");
}

#[test]
fn packages_are_complete() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (dist, play) = (folder.path().join("dist"), folder.path().join("play"));
    std::fs::create_dir(&play).expect("a folder");
    // As in packages, without tables for debuggers, which are most of its bytes. To compress them takes a minute.
    let binary = folder.path().join("kiln");
    let stripped = Command::new("strip").arg("-o").arg(&binary).arg(env!("CARGO_BIN_EXE_kiln")).status();
    assert!(stripped.expect("strip runs").success());
    let packed = xtask(&["dist".as_ref(), "--output".as_ref(), dist.as_ref(), "--binary".as_ref(), binary.as_ref()]);
    assert!(packed.status.success(), "{}", text(&packed));
    let played = Command::new(root().join("tests/users/install")).arg(&dist).arg(&play).output().expect("bash runs");
    let said = text(&played);
    said.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| eprintln!("{line}"));
    assert!(played.status.success(), "{said}");
    assert!(said.lines().filter(|line| line.starts_with("ok ")).count() >= 14, "{said}");
}
