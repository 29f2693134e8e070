//! What the command looks like in a terminal: its first lines, help, and the words that a shell completes.

use std::process::Command as Process;

use predicates::prelude::*;
use predicates::str::{contains, starts_with};

use crate::UNSAFE;
use crate::world::{Folder, PASS, kiln};

/// The words that a shell is given for the last word of a command line.
fn completed(words: &[&str]) -> Vec<String> {
    let output = Process::new(env!("CARGO_BIN_EXE_kiln"))
        .env("KILN_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
        .env("_CLAP_IFS", "\n")
        .arg("--")
        .args(words)
        .output()
        .expect("kiln starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Runs a command in a terminal of this many columns.
fn in_terminal(columns: u32, command: &str) -> Option<String> {
    let script = format!("stty cols {columns}; {} {command}", env!("CARGO_BIN_EXE_kiln"));
    let output = Process::new("script").args(["-qec", &script, "/dev/null"]).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).replace('\r', ""))
}

#[test]
fn kiln_alone_says_what_it_does() {
    kiln().assert().code(2).stderr(starts_with("Verifies, shrinks and runs eBPF programs"));
}

#[test]
fn examples_fit_80_columns() {
    let help = kiln().arg("--help").output().expect("kiln starts");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let output = kiln().args([name, "--help"]).output().expect("kiln starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let examples = text.lines().skip_while(|line| *line != "Examples:");
        let long: Vec<&str> = examples.filter(|line| line.chars().count() > 80).collect();
        assert_eq!(long, [""; 0], "kiln {name} --help");
    }
}

#[test]
fn help_lists_the_formats_that_a_command_takes() {
    let of = |command: &str| kiln().args([command, "--help"]).assert().code(0);
    of("check").stdout(contains("- sarif:").and(contains("- gitlab:")).and(contains("- parquet:").not()));
    of("query").stdout(contains("- parquet:").and(contains("- sarif:").not()));
    of("optimize").stdout(contains("- json:").and(contains("- sarif:").not()).and(contains("- csv:").not()));
    of("cc").stdout(contains("--format").not());
    kiln().args(["optimize", "--format", "xml"]).assert().code(2).stderr(contains("[possible values: text, json]"));
    kiln().args(["check", "--format", "csv", "x.o"]).assert().code(2).stderr(contains("kiln query"));
    kiln().args(["--format", "json", "explain", "possibly-null"]).assert().code(0).stdout(starts_with("["));
    kiln().args(["explain", "possibly-null", "--format", "json"]).assert().code(0).stdout(starts_with("["));
}

#[test]
fn shells_know_codes_kernels_and_programs() {
    let text = format!(
        "{}{}",
        PASS.replacen("program xdp", "program xdp name first", 1),
        PASS.replacen("program xdp", "program xdp name second", 1)
    );
    let folder = Folder::with(&[("two.bpf", text.as_bytes())]);
    let object = folder.path("two.bpf").display().to_string();
    assert_eq!(completed(&["kiln", "explain", "possibly-n"]), ["possibly-null"]);
    assert_eq!(completed(&["kiln", "check", "--kernel", "5.15,6.1"]).first().map(String::as_str), Some("5.15,6.1"));
    assert_eq!(completed(&["kiln", "check", "--kernel", "ru"]), ["running"]);
    assert_eq!(completed(&["kiln", "check", "--deny", "unwritten-k"]), ["unwritten-key"]);
    assert_eq!(completed(&["kiln", "check", &object, "-p", ""]), ["first", "second"]);
    assert_eq!(completed(&["kiln", "check", "--type", "sched_c"]), ["sched_cls"]);
    assert_eq!(completed(&["kiln", "check", "--format", ""]), ["text", "json", "sarif", "github", "gitlab"]);
    assert_eq!(completed(&["kiln", "dump", "--format", ""]), ["text", "json"]);
    assert_eq!(completed(&["kiln", "opt"]), ["optimize"]);
    let broken = Folder::with(&[("bad.o", b"\x7fELF")]);
    assert_eq!(completed(&["kiln", "check", &broken.path("bad.o").display().to_string(), "-p", ""]), [""; 0]);
}

#[test]
fn a_terminal_of_0_columns_is_one_of_80() {
    let folder = Folder::with(&[("unsafe.bpf", UNSAFE.as_bytes())]);
    let object = folder.path("unsafe.bpf");
    let command = format!("dump --help; {} check {}", env!("CARGO_BIN_EXE_kiln"), object.display());
    let (Some(none), Some(usual)) = (in_terminal(0, &command), in_terminal(80, &command)) else {
        eprintln!("skipped: script and stty are not installed");
        return;
    };
    assert!(usual.contains("Examples:") && usual.contains("[packet-out-of-bounds]"), "{usual}");
    assert_eq!(none, usual);
}
