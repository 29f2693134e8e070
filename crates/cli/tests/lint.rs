//! `kiln check --lint` on the mistakes of `tests/lint`, and how its warnings count.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use std::path::Path;

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use world::{file, kiln};

const DOUBTFUL: &str = "; map counters array key 4 value 8 entries 1
; program xdp
  *(u32 *)(r10 - 4) = 0
  r1 = map[counters]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r0 == 0 goto L1
  r1 = *(u64 *)(r0 + 0)
  r1 += 1
  *(u64 *)(r0 + 0) = r1
L1:
  r0 = 2
  exit
";

fn document(path: &Path, arguments: &[&str]) -> Value {
    let output = kiln().arg("check").arg(path).args(arguments).output().expect("the command runs");
    serde_json::from_slice(&output.stdout).expect("one JSON document on standard output")
}

fn rules_of(document: &Value) -> Vec<String> {
    let findings = document["objects"][0]["findings"].as_array().expect("findings");
    findings.iter().map(|finding| finding["rule"].as_str().expect("a rule").to_owned()).collect()
}

#[test]
fn warnings_count_only_where_they_are_denied() {
    let (_folder, path) = file("count.bpf", DOUBTFUL);
    let check = |arguments: &[&str]| kiln().arg("check").arg(&path).args(arguments).assert();
    check(&[]).code(0).stdout(contains("warning").not());
    let said = contains("warning[lost-update]: a value of map `counters`").and(contains("1 accepted; 1 warning"));
    check(&["--lint"]).code(0).stdout(said);
    check(&["--deny", "lost-update"]).code(1).stdout(contains("error[lost-update]"));
    check(&["--deny", "unused-map"]).code(0).stdout(contains("warning[lost-update]"));
    check(&["--deny", "all", "--allow", "lost-update"]).code(0).stdout(contains("lost-update").not());
    check(&["--deny", "lost-updates"]).code(2).stderr(contains("did you mean lost-update?"));
}

#[test]
fn warnings_are_data() {
    let (_folder, path) = file("count.bpf", DOUBTFUL);
    let json = document(&path, &["--lint", "--format", "json"]);
    assert_eq!(rules_of(&json), ["lost-update"]);
    assert_eq!(json["objects"][0]["findings"][0]["place"]["slot"], 9);
    assert_eq!(json["summary"]["warnings"], 1);
    let sarif = document(&path, &["--lint", "--format", "sarif"]);
    let run = &sarif["runs"][0];
    let result = &run["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"lost-update".into(), &"warning".into()));
    let rule = &run["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().expect("an index") as usize];
    assert_eq!(rule["id"], "lost-update");
    assert!(rule["helpUri"].as_str().is_some_and(|uri| uri.starts_with("https://")));
}

/// Each rule finds its mistake and nothing else, finds nothing in the mended program, and `kiln explain` shows both.
#[test]
fn rules_find_their_mistakes() {
    let output = kiln().args(["explain", "--format", "json"]).output().expect("the command runs");
    let rows: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let rules: Vec<_> = rows.as_array().expect("rows").iter().filter(|row| row["kind"] == "lint").collect();
    assert!(rules.len() >= 8);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, object) = (folder.path().join("example.c"), folder.path().join("example.o"));
    for rule in rules {
        let name = rule["code"].as_str().expect("a name");
        for (key, expected) in [("rejected_c", vec![name.to_owned()]), ("mended_c", Vec::new())] {
            std::fs::write(&source, rule[key].as_str().expect("a program")).expect("a file");
            let mut clang = std::process::Command::new("clang-19");
            clang.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-c", "-I/usr/include/x86_64-linux-gnu"]);
            match clang.arg("-I/usr/include/aarch64-linux-gnu").arg(&source).arg("-o").arg(&object).status() {
                Ok(status) => assert!(status.success(), "{name}: clang fails"),
                Err(error) => return eprintln!("skipped: clang-19: {error}"),
            }
            assert_eq!(rules_of(&document(&object, &["--lint", "--format", "json"])), expected, "{name}, {key}");
        }
    }
}

/// The programs of `tests/lint/more`, each with the rules that warn about it in its second line.
#[test]
fn more_programs_have_the_warnings_that_they_say() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lint/more");
    let mut sources: Vec<_> =
        programs.read_dir().expect("programs").map(|entry| entry.expect("a file").path()).collect();
    sources.sort();
    assert!(sources.len() >= 5);
    for source in sources {
        let text = std::fs::read_to_string(&source).expect("a program");
        let said = text.lines().find_map(|line| line.strip_prefix("// lint:")).expect("what warns");
        let expected: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
        let object = folder.path().join("program.o");
        let mut clang = std::process::Command::new("clang-19");
        clang.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-c", "-I/usr/include/x86_64-linux-gnu"]);
        match clang.arg("-I/usr/include/aarch64-linux-gnu").arg(&source).arg("-o").arg(&object).status() {
            Ok(status) => assert!(status.success(), "{}: clang fails", source.display()),
            Err(error) => return eprintln!("skipped: clang-19: {error}"),
        }
        assert_eq!(rules_of(&document(&object, &["--lint", "--format", "json"])), expected, "{}", source.display());
    }
}

#[test]
fn a_comment_allows_a_rule_on_its_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, object) = (folder.path().join("print.c"), folder.path().join("print.o"));
    let text = "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\nSEC(\"xdp\") int watch(struct xdp_md *ctx)\n{\n\
                \tbpf_printk(\"wanted\"); // kiln: allow(debug-print)\n\treturn XDP_PASS;\n}\n\
                char _license[] SEC(\"license\") = \"GPL\";\n";
    std::fs::write(&source, text).expect("a file");
    let mut clang = std::process::Command::new("clang-19");
    clang.args(["-target", "bpf", "-O2", "-g", "-c", "-I/usr/include/x86_64-linux-gnu"]);
    match clang.arg("-I/usr/include/aarch64-linux-gnu").arg(&source).arg("-o").arg(&object).status() {
        Ok(status) => assert!(status.success(), "clang fails"),
        Err(error) => return eprintln!("skipped: clang-19: {error}"),
    }
    assert_eq!(rules_of(&document(&object, &["--lint", "--format", "json"])), [""; 0]);
}
