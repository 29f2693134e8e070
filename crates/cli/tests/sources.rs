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
