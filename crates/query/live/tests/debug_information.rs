//! Where parameters have their names from: debug information in all the forms that compilers and packages give it.

use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_live::files::Files;
use kiln_plan::programs::{Parameter, Programs as _};
use kiln_plan::table::Scalar;

fn run(command: &mut Command) -> Option<()> {
    let output = command.output().map_err(|error| println!("skipped: {command:?}: {error}")).ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("sys/sdt.h") {
        println!("skipped: no sys/sdt.h (systemtap-sdt-dev)");
        return None;
    }
    assert!(output.status.success(), "{command:?}: {said}");
    Some(())
}

/// A program of the tests of static probes; `None` where it cannot be compiled.
fn compiled(program: PathBuf, flags: &[&str]) -> Option<PathBuf> {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: registers are known of x86-64");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver/tests/query/probed/probed.c");
    run(Command::new("gcc").args(flags).arg("-o").arg(&program).arg(source))?;
    Some(program)
}

fn parameters(program: &Path) -> Vec<Parameter> {
    Files.parameters(&program.display().to_string(), "named")
}

/// `named(short low, const char *title, unsigned count, double weight, signed char sign)`.
fn wanted() -> Vec<Parameter> {
    [
        ("low", Scalar::signed(2), false),
        ("title", Scalar::unsigned(8), true),
        ("count", Scalar::unsigned(4), false),
        ("sign", Scalar::signed(1), false),
    ]
    .into_iter()
    .enumerate()
    .map(|(register, (name, kind, is_text))| Parameter { name: name.to_owned(), register, kind, is_text })
    .collect()
}

#[test]
fn compressed_and_linked_programs_have_their_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let kinds: [&[&str]; 5] = [
        &["-g"],
        &["-g", "-gz"],
        // Types and names are in another unit than the function.
        &["-g", "-O2", "-flto"],
        &["-g", "-O2", "-flto", "-gdwarf-4", "-gz"],
        &["-g", "-gdwarf64"],
    ];
    for (number, flags) in kinds.into_iter().enumerate() {
        let Some(program) = compiled(folder.path().join(format!("program{number}")), flags) else { return };
        assert_eq!(parameters(&program), wanted(), "{flags:?}");
    }
}

#[test]
fn debug_information_may_be_a_file_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["-g", "-gz", "-Wl,--build-id"];
    let Some(program) = compiled(folder.path().join("program"), &flags) else { return };
    let debug = folder.path().join("program.debug");
    let objcopy = || Command::new("objcopy");
    let Some(()) = run(objcopy().arg("--only-keep-debug").arg(&program).arg(&debug)) else { return };
    let link = format!("--add-gnu-debuglink={}", debug.display());
    run(objcopy().args(["--strip-debug", &link]).arg(&program)).expect("it ran before");
    assert_eq!(parameters(&program), wanted());

    let below = folder.path().join(".debug");
    std::fs::create_dir(&below).expect("a folder");
    std::fs::rename(&debug, below.join("program.debug")).expect("it is moved");
    assert_eq!(parameters(&program), wanted());

    // That of another build says nothing.
    let other = [&flags[..], &["-O2"]].concat();
    compiled(below.join("program.debug"), &other).expect("it is compiled as before");
    assert_eq!(parameters(&program), []);
}

#[test]
fn probes_of_other_processors_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled(folder.path().join("program"), &[]) else { return };
    let mut bytes = std::fs::read(&program).expect("a program");
    // `e_machine` is EM_AARCH64.
    bytes[18..20].copy_from_slice(&[183, 0]);
    std::fs::write(&program, bytes).expect("a file");
    let refused = Files.probes(&program.display().to_string(), "own", "passed").expect_err("its registers are others");
    assert!(refused.contains("it is for Aarch64, and this machine is x86_64"), "{refused}");
    assert_eq!(parameters(&program), []);
}

#[test]
fn static_probes_of_arm64_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver/tests/query/probed/probed.c");
    // `sys/sdt.h` is the same for all processors. Without optimization, arguments are on the stack: `-4@[sp, 28]`.
    let mut gcc = Command::new("aarch64-linux-gnu-gcc");
    gcc.args(["-O0", "-idirafter/usr/include/x86_64-linux-gnu", "-o"]).arg(&program).arg(source);
    let Some(()) = run(&mut gcc) else { return };
    let listed = kiln_live::files::listed(&program).expect("a program");
    let signs = vec![true, false, false, true, true, true];
    assert_eq!(Vec::from_iter(listed), [("own:never".to_owned(), vec![true]), ("own:passed".to_owned(), signs)]);
}
