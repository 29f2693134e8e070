//! `kiln-check` says what `kiln check` says: the same text, documents and exit codes, for accepted, rejected and unreadable
//! files.

use std::path::Path;
use std::process::{Command, Output};

const ACCEPTED: &str = "; program xdp name pass\n r0 = 2\n exit\n";
const REJECTED: &str = "; program xdp name leak\n r2 = *(u32 *)(r1 + 0)\n r0 = *(u8 *)(r2 + 0)\n exit\n";
const NO_TYPE: &str = "; program none name what\n r0 = 2\n exit\n";

/// The text without what differs from run to run, and without what the whole command alone adds: that it could repair.
fn same(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().filter(|line| !line.starts_with("note: kiln repair ") && !line.contains("\"micros\": "));
    let without_time = |line: &str| match line.strip_suffix(" ms").and_then(|line| line.rsplit_once(", ")) {
        Some((line, _)) => line.to_owned(),
        None => line.to_owned(),
    };
    lines.map(without_time).collect::<Vec<_>>().join("\n")
}

fn run(command: &mut Command, folder: &Path) -> Output {
    command.current_dir(folder).env_remove("KILN_KERNEL").output().expect("a command that starts")
}

#[test]
fn the_checker_alone_says_what_the_whole_command_says() {
    let checker = Path::new(env!("CARGO_BIN_EXE_kiln-check"));
    let kiln = checker.with_file_name("kiln");
    assert!(kiln.exists(), "{} is not built: cargo build -p kiln-cli", kiln.display());
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("build")).expect("a folder");
    for (name, text) in [
        ("good.bpf", ACCEPTED),
        ("bad.bpf", REJECTED),
        ("none.bpf", NO_TYPE),
        ("empty.o", ""),
        ("text.o", "not an object"),
        ("build/good.bpf", ACCEPTED),
        ("build/bad.bpf", REJECTED),
    ] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let mut codes = Vec::new();
    for line in [
        "good.bpf",
        "bad.bpf",
        "none.bpf",
        "none.bpf --type xdp",
        "empty.o",
        "text.o",
        "missing.o",
        "build good.bpf",
        "build --quiet --lint",
        "build --program leak",
        "build --program nowhere",
        "good.bpf --program nowhere",
        "bad.bpf --kernel 5.15,6.12",
        "good.bpf --kernel all",
        "good.bpf --btf missing.btf",
        "good.bpf --profile",
        "good.bpf --type xpd",
        "good.bpf --kernel 4.9",
        "build --format json",
        "bad.bpf --format json --kernel all",
        "missing.o --format json",
        "good.bpf --btf missing.btf --format json",
        "build empty.o --format sarif",
        "build --format github",
        "build --format gitlab",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let own = run(Command::new(checker).args(&arguments), folder.path());
        let whole = run(Command::new(&kiln).args(["check", "--no-cache"]).args(&arguments), folder.path());
        assert_eq!(same(&own.stdout), same(&whole.stdout), "{line}");
        // Usage errors name the command.
        let usage = String::from_utf8_lossy(&own.stderr).contains("For more information");
        assert!(usage || same(&own.stderr) == same(&whole.stderr), "{line}: {own:?} {whole:?}");
        assert_eq!(own.status.code(), whole.status.code(), "{line}");
        codes.extend(own.status.code());
    }
    codes.sort();
    codes.dedup();
    assert_eq!(codes, [0, 1, 2, 3]);
}

#[test]
fn what_needs_a_system_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("good.bpf"), ACCEPTED).expect("a file");
    let ask = |arguments: &[&str]| {
        let output = run(Command::new(env!("CARGO_BIN_EXE_kiln-check")).args(arguments), folder.path());
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
    };
    let (said, code) = ask(&["good.bpf", "--kernel", "running"]);
    assert!(said.contains("asks no kernel") && code == Some(3), "{said}");
    let (said, code) = ask(&["good.bpf", "--with-kernel"]);
    assert!(said.contains("unexpected argument") && code == Some(2), "{said}");
}
