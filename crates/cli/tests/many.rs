//! Many objects at once, and the documents about them: JSON against `docs/reference/schema`, SARIF, exit codes.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use world::document;

const PASS: &str = "; program xdp\n  r1 = 1\n  r0 = 1\n  r0 += r1\n  exit\n";
const UNSAFE: &str = "\
; program xdp name bad
  r2 = *(u32 *)(r1 + 0)
  r0 = *(u8 *)(r2 + 0)
  r0 = 2
  exit
; program xdp name good
  r0 = 2
  exit
";
/// A helper that Linux 5.15 lacks.
const NEWER: &str = "; program xdp\n  call ktime_get_tai_ns\n  r0 = 2\n  exit\n";

/// A folder `build` with objects of every kind, in an empty one.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    };
    let mut host = vec![0; 64];
    host[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    host[18] = 62;
    write("build/a/pass.bpf", PASS.as_bytes());
    write("build/b/unsafe.bpf", UNSAFE.as_bytes());
    write("build/host.o", &host);
    let mut twin = host.clone();
    (twin[5], twin[18], twin[19]) = (2, 0, 247);
    write("twins/pass.bpf", PASS.as_bytes());
    write("twins/pass_bpfeb.o", &twin);
    write("build/notes.txt", b"nothing");
    write("newer.bpf", NEWER.as_bytes());
    write("bad/cut.o", &host[..12]);
    folder
}

fn kiln(folder: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.current_dir(folder.path()).args(arguments);
    command
}

#[test]
fn folders_and_files_are_checked_in_their_order_with_one_summary() {
    let folder = folder();
    let count = "3 objects, 4 programs: 3 accepted, 1 rejected; 1 file not for BPF left out\n";
    for jobs in ["1", "4"] {
        let run = kiln(&folder, &["check", "build", "newer.bpf", "--jobs", jobs]).assert().code(1);
        let text = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
        let places =
            ["build/a/pass.bpf:\n", "build/b/unsafe.bpf:\n", "newer.bpf:\n", count].map(|part| text.find(part));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {text}");
        assert!(text.starts_with("as Linux 6.18, "), "{text}");
    }
    let quiet = kiln(&folder, &["check", "build", "newer.bpf", "-q"]).assert().code(1);
    quiet.stdout(contains("packet-out-of-bounds").and(contains("pass.bpf").not()).and(contains(count)));
    kiln(&folder, &["check", "build/a", "-q"]).assert().code(0).stdout("1 object, 1 program: 1 accepted\n");
    // One object that cannot be read is said where the others are, and decides the exit code if nothing is rejected.
    kiln(&folder, &["check", "build/a", "bad"])
        .assert()
        .code(2)
        .stderr(contains("bad/cut.o"))
        .stdout(contains("2 objects, 1 program: 1 accepted; 1 object could not be checked"));
    // bpf2go writes a twin for big-endian machines beside each object. Alone, it is what was asked for.
    let count = "1 object, 1 program: 1 accepted; 1 big-endian object left out\n";
    kiln(&folder, &["check", "twins", "-q"]).assert().code(0).stdout(count);
    kiln(&folder, &["check", "twins/pass_bpfeb.o"]).assert().code(3);
    // A program's name need not be in every object, but in one.
    kiln(&folder, &["check", "build", "--program", "good"]).assert().code(0).stdout(contains("1 program: 1 accepted"));
    kiln(&folder, &["check", "build", "--program", "none"])
        .assert()
        .code(2)
        .stderr(contains("no object has a program none"));
    std::fs::create_dir(folder.path().join("empty")).expect("a folder");
    kiln(&folder, &["check", "empty"]).assert().code(2).stderr(contains("no BPF objects"));
}

#[test]
fn colours_are_as_told() {
    let folder = folder();
    let escape = contains("\u{1b}[");
    kiln(&folder, &["check", "build", "--color", "always"]).assert().code(1).stdout(escape.clone());
    kiln(&folder, &["check", "build", "--color", "never"]).assert().code(1).stdout(escape.clone().not());
    kiln(&folder, &["check", "build"]).assert().code(1).stdout(escape.not());
}

/// The schema of a document in `docs/reference/schema`.
fn schema(name: &str) -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schema").join(name);
    let text = std::fs::read_to_string(&path).expect("a schema");
    jsonschema::validator_for(&serde_json::from_str(&text).expect("JSON")).expect("a schema")
}

fn assert_valid(schema: &jsonschema::Validator, document: &Value) {
    let wrong: Vec<String> =
        schema.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?} in {document:#}");
}

#[test]
fn documents_are_as_their_schema_says() {
    let folder = folder();
    let check = schema("check.json");
    let json = |arguments: &[&str]| document(kiln(&folder, arguments).args(["--format", "json"]));
    let all = json(&["check", "build", "bad", "newer.bpf", "--profile", "--lint"]);
    assert_valid(&check, &all);
    assert_eq!(all["schema"], 1);
    assert_eq!(all["objects"].as_array().map(Vec::len), Some(4));
    assert_eq!(all["objects"][2]["error"]["exit_code"], 2);
    assert_eq!(all["summary"]["rejected"], 1);
    let kernels = json(&["check", "build", "newer.bpf", "--kernel", "5.15,6.18"]);
    assert_valid(&check, &kernels);
    assert_eq!(kernels["objects"][2]["programs"][0]["verdicts"][0]["code"], "kernel-lacks");
    if kiln_driver::require_kernel().is_ok() {
        assert_valid(&check, &json(&["check", "build", "--with-kernel"]));
    } else {
        eprintln!("skipped: the kernel cannot be asked");
    }
    let optimized = json(&["optimize", "build", "bad", "newer.bpf", "-o", "out", "--offline", "--budget", "2"]);
    assert_valid(&schema("optimize.json"), &optimized);
    assert!(optimized["objects"][0]["evidence"].as_array().is_some_and(|rewrites| !rewrites.is_empty()));

    // The schema refuses what is not so: a key that is missing, one that is new, and another version.
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut document = all.clone();
        change(&mut document);
        !check.is_valid(&document)
    };
    assert!(broken(&|document| document["schema"] = 2.into()));
    assert!(broken(&|document| drop(document["summary"].as_object_mut().expect("a summary").remove("failed"))));
    assert!(broken(&|document| document["objects"][0]["programs"][0]["verdict"]["verdict"] = "maybe".into()));
    assert!(broken(&|document| document["objects"][1]["programs"][0]["more"] = 1.into()));
}

#[test]
fn what_is_written_beside_a_verdict_is_no_input() {
    let folder = folder();
    kiln(&folder, &["check", "build", "newer.bpf", "--flame-graph", "./newer.bpf"])
        .assert()
        .code(2)
        .stderr(contains("./newer.bpf and newer.bpf are one file"));
    kiln(&folder, &["optimize", "newer.bpf", "-o", "out.bpf", "--report", "newer.bpf", "--offline"]).assert().code(2);
    assert_eq!(std::fs::read_to_string(folder.path().join("newer.bpf")).expect("the file"), NEWER);
    // A name with a control character is said once.
    std::fs::write(folder.path().join("bad/e\u{1b}vil.o"), "x").expect("a file");
    kiln(&folder, &["check", "bad"]).assert().code(2).stderr(contains("vil.o: bad").not());
}

#[test]
fn forges_show_what_is_new() {
    let folder = folder();
    let annotations = |arguments: &[&str]| {
        let output = kiln(&folder, arguments).args(["--format", "github", "-q"]).output().expect("kiln starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<String> = text.lines().filter(|line| line.starts_with("::")).map(str::to_owned).collect();
        (output.status.code(), lines)
    };
    let (code, lines) = annotations(&["check", "build"]);
    assert_eq!((code, lines.len()), (Some(1), 1), "{lines:?}");
    assert!(lines[0].starts_with("::error file=build/b/unsafe.bpf,line=1,title=packet-out-of-bounds::"), "{lines:?}");
    let (code, lines) = annotations(&["check", "none.o"]);
    assert_eq!(code, Some(2));
    assert!(lines.len() == 1 && lines[0].contains("title=not-checked"), "{lines:?}");

    let report = document(kiln(&folder, &["check", "build"]).args(["--format", "gitlab"]));
    assert_eq!(report.as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report[0]["check_name"], "packet-out-of-bounds");
    assert_eq!(report[0]["location"]["path"], "build/b/unsafe.bpf");
    for key in ["description", "fingerprint", "severity"] {
        assert!(report[0][key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {report}");
    }
    // What a baseline knows is in the SARIF log, marked, and nowhere else.
    let known = kiln(&folder, &["check", "build", "--format", "json"]).output().expect("kiln starts");
    std::fs::write(folder.path().join("known.json"), known.stdout).expect("a file");
    let baseline = ["check", "build", "--baseline", "known.json"];
    assert_eq!(annotations(&baseline), (Some(0), Vec::new()));
    assert_eq!(document(kiln(&folder, &baseline).args(["--format", "gitlab"])), serde_json::json!([]));
    let log = document(kiln(&folder, &baseline).args(["--format", "sarif"]));
    assert_eq!(log["runs"][0]["results"][0]["baselineState"], "unchanged", "{log}");
    for format in ["github", "gitlab"] {
        kiln(&folder, &["doctor", "--format", format]).assert().code(2).stderr(contains("for kiln check"));
    }
}

#[test]
fn one_sarif_log_is_written_whatever_happens() {
    let folder = folder();
    let log = |arguments: &[&str]| document(kiln(&folder, arguments).args(["--format", "sarif"]));
    let both = log(&["check", "build", "newer.bpf"]);
    let run = &both["runs"][0];
    assert_eq!(both["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    assert_eq!(run["invocations"][0]["exitCode"], 1);
    assert_eq!(run["results"].as_array().map(Vec::len), Some(1));
    let json = document(kiln(&folder, &["check", "build", "newer.bpf"]).args(["--format", "json"]));
    for (artifact, object) in
        run["artifacts"].as_array().expect("artifacts").iter().zip(json["objects"].as_array().expect("objects"))
    {
        let (ours, theirs) = (&artifact["properties"]["programs"][0], &object["programs"][0]);
        assert_eq!((&ours["program"], &ours["slots"]), (&theirs["program"], &theirs["slots"]));
        assert_eq!(ours.get("processedInsns"), theirs["verdict"].get("processed_insns"), "one figure everywhere");
    }
    let uris: Vec<_> =
        run["artifacts"].as_array().expect("artifacts").iter().map(|one| &one["location"]["uri"]).collect();
    assert_eq!(uris, ["build/a/pass.bpf", "build/b/unsafe.bpf", "newer.bpf"]);
    for rule in run["tool"]["driver"]["rules"].as_array().expect("rules") {
        assert!(rule["helpUri"].as_str().is_some_and(|uri| uri.starts_with("https://")), "{rule}");
    }
    for arguments in
        [&["check", "build", "bad"][..], &["check", "none.o"], &["check", "--kernel", "old", "build"], &["check"]]
    {
        let failed = log(arguments);
        let invocation = &failed["runs"][0]["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], false, "{arguments:?}: {invocation}");
        assert_eq!(invocation["toolExecutionNotifications"][0]["level"], "error", "{arguments:?}: {invocation}");
    }
    let part = log(&["check", "build", "bad"]);
    assert_eq!(part["runs"][0]["results"].as_array().map(Vec::len), Some(1), "the other objects' results are there");
}

#[test]
fn a_folder_is_optimized_into_another() {
    let folder = folder();
    let out = |name: &str| -> PathBuf { folder.path().join("out").join(name) };
    let optimize = |more: &[&str]| {
        let arguments = ["optimize", "--offline", "--budget", "2"];
        kiln(&folder, &[&arguments, more].concat())
    };
    // The rejected program decides the exit code; its object is written, too.
    optimize(&["build", "-o", "out"]).assert().code(1).stdout(
        contains("left as it is: bad")
            .and(contains("2 objects written: "))
            .and(contains("1 file not for BPF left out")),
    );
    assert!(out("a/pass.bpf").is_file() && out("b/unsafe.bpf").is_file() && !out("host.o").exists());
    kiln(&folder, &["check", "out/a"]).assert().code(0);
    optimize(&["build/a/pass.bpf", "-o", "one.bpf"])
        .assert()
        .code(0)
        .stdout(contains("1 rewrite").or(contains("rewrites")));
    optimize(&["build/a/pass.bpf", "-o", "new/"]).assert().code(0).stdout(contains("1 object written: "));
    assert!(folder.path().join("new/pass.bpf").is_file());
    optimize(&["build", "newer.bpf", "-o", "newer.bpf"]).assert().code(2).stderr(contains("newer.bpf is a file"));
    optimize(&["build/a", "build/a", "-o", "out"]).assert().code(2).stderr(contains("would both be written to"));
    optimize(&["build", "-o", "out", "--report", "r.html"]).assert().code(2).stderr(contains("are for one object"));
}

/// What was tried in vain is a number, unless the tries themselves are asked for.
#[test]
fn tries_that_were_not_kept_are_counted() {
    let object = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/corpus/xdp-tools/xdpfilt_alw_all.o");
    if !object.exists() {
        eprintln!("skipped: {} is not there (scripts/corpus makes it)", object.display());
        return;
    }
    let folder = folder();
    let run = |more: &[&str]| {
        let mut command = kiln(&folder, &["optimize", "-o", "out.o", "--offline", "--budget", "0.2"]);
        command.arg(&object).args(more);
        String::from_utf8_lossy(&command.assert().code(0).get_output().stdout).into_owned()
    };
    let short = run(&[]);
    assert!(!short.contains("not kept: ") && short.contains("stopped early"), "{short}");
    let long = run(&["-v"]);
    assert!(!long.contains("-v lists them"), "{long}");
}
