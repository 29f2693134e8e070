//! `kiln check` of C sources: compiled with the project's flags, and reported at their lines.

use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;

const SOURCE: &str = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "knob.h"
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8); __type(key, int); __type(value, long); } m SEC(".maps");
SEC("xdp") int lookup(struct xdp_md *context) {
    int key = KNOB;
    long *value = bpf_map_lookup_elem(&m, &key);
    return *value;
}
char _license[] SEC("license") = "GPL";
"#;

/// A project with one source, whose header is in a folder of its own; `None`, with a message, without clang.
fn project() -> Option<tempfile::TempDir> {
    if let Err(error) = std::process::Command::new(kiln_driver::clang::name()).arg("--version").output() {
        println!("skipped: clang: {error}");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "net/lookup.bpf.c", SOURCE);
    write(folder.path(), "include/knob.h", "#define KNOB 2\n");
    Some(folder)
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(path, text).expect("a file");
}

fn check(folder: &Path, arguments: &[&str]) -> Command {
    let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
    kiln.current_dir(folder).arg("check").args(arguments);
    kiln
}

#[test]
fn sources_are_compiled_with_the_flags_of_the_project() {
    let Some(folder) = project() else { return };
    let source = "net/lookup.bpf.c";
    let without = check(folder.path(), &[source]).assert().code(2);
    without.stderr(contains("fatal error: 'knob.h' file not found").and(contains("lookup.bpf.c does not compile\n")));
    write(folder.path(), "kiln.toml", "flags = [\"-Iinclude\", \"-fplugin=own.so\"]\n");
    let with = check(folder.path(), &[source]).assert().code(1);
    with.stdout(contains("error[possibly-null]").and(contains("net/lookup.bpf.c:9:12")))
        .stderr(contains("-Iinclude (flags of ").and(contains("plugin").not()));
    write(folder.path(), "build/compile_commands.json", &database(folder.path()));
    check(&folder.path().join("net"), &["lookup.bpf.c"]).assert().code(1).stderr(contains("-I../include (flags of "));
    // Warnings and a header's error are clang's, with its lines.
    write(folder.path(), "include/knob.h", "#define KNOB \"two\"\n");
    check(folder.path(), &[source]).assert().code(2).stderr(contains("incompatible pointer to integer"));
}

/// clang reads the file that a line is said to be of, and `/dev/zero` has no end.
#[test]
fn a_line_of_an_endless_file_ends() {
    let Some(project) = project() else { return };
    write(project.path(), "net/endless.bpf.c", "#line 1 \"/dev/zero\"\nint endless(void *context) { return 1; }\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command
        .current_dir(project.path())
        .args(["check", "net/endless.bpf.c"])
        .timeout(std::time::Duration::from_secs(60));
    command.assert().code(2).stderr(contains("endless.bpf.c does not compile"));
}

fn database(folder: &Path) -> String {
    serde_json::json!([{
        "directory": folder.join("build"),
        "file": "../net/lookup.bpf.c",
        "command": "cc -c -I../include -o out.o ../net/lookup.bpf.c",
    }])
    .to_string()
}

#[test]
fn documents_say_how_a_source_was_compiled() {
    let Some(folder) = project() else { return };
    write(folder.path(), "kiln.toml", "flags = [\"-Iinclude\"]\n");
    let output = check(folder.path(), &["net/lookup.bpf.c", "--format", "json"]).output().expect("kiln runs");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let object = &document["objects"][0];
    assert_eq!(object["object"], "net/lookup.bpf.c");
    assert_eq!(object["compiled"]["flags"], serde_json::json!(["-Iinclude"]));
    assert_eq!(object["programs"][0]["verdict"]["place"]["line"], 9);
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/schema/check.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(schema).expect("the schema")).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn what_the_baseline_has_does_not_fail() {
    let Some(folder) = project() else { return };
    write(folder.path(), "kiln.toml", "flags = [\"-Iinclude\"]\n");
    let source = "net/lookup.bpf.c";
    let output = check(folder.path(), &[source, "--format", "json"]).output().expect("kiln runs");
    std::fs::write(folder.path().join("known.json"), output.stdout).expect("a file");
    // Lines move; the rejection stays the same.
    write(folder.path(), source, &format!("// A new line.\n{SOURCE}"));
    let known = check(folder.path(), &[source, "--baseline", "known.json"]).assert().code(0);
    known.stdout(contains("1 problem known from the baseline").and(contains("error[").not()));
    let second = "SEC(\"xdp\") int second(struct xdp_md *context) { return *(char *)(long)context->data; }";
    write(folder.path(), source, &format!("{SOURCE}{second}"));
    let new = check(folder.path(), &[source, "--baseline", "known.json", "-q"]).assert().code(1);
    new.stdout(contains("error[packet-out-of-bounds]").and(contains("possibly-null").not()));
    write(folder.path(), "known.json", "{}");
    let none = check(folder.path(), &[source, "--baseline", "known.json"]).assert().code(2);
    none.stderr(contains("a baseline is what kiln check --format json printed"));
}

#[test]
fn watching_checks_again_after_a_change_in_a_header() {
    let Some(folder) = project() else { return };
    write(folder.path(), "kiln.toml", "flags = [\"-Iinclude\"]\n");
    let out = folder.path().join("out");
    let mut kiln = std::process::Command::new(env!("CARGO_BIN_EXE_kiln"));
    kiln.current_dir(folder.path()).args(["check", "net/lookup.bpf.c", "--watch", "-q"]);
    kiln.stdout(std::fs::File::create(&out).expect("a file")).stderr(std::process::Stdio::null());
    let mut running = kiln.spawn().expect("kiln runs");
    let said = |wanted: usize| {
        (0..600).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::fs::read_to_string(&out).is_ok_and(|text| text.matches("1 object").count() == wanted)
        })
    };
    let first = said(1);
    // Until the first wait has begun, a change would be part of the first check.
    std::thread::sleep(std::time::Duration::from_millis(300));
    write(folder.path(), "include/knob.h", "#define KNOB 3\n");
    let second = said(2);
    running.kill().expect("it is killed");
    running.wait().expect("it ends");
    assert!(first && second, "{:?}", std::fs::read_to_string(&out));
}
