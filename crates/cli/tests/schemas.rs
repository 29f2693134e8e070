//! Documents of `--format json` are as their schemas say, also those of objects with an arena and of errors.

use std::process::Command;

use serde_json::Value;

/// Holds what a command prints to a schema.
fn holds(schema: &str, arguments: &[&str]) -> Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output = command.args(arguments).args(["--format", "json"]).current_dir(root).output().expect("kiln runs");
    let document = serde_json::from_slice(&output.stdout).expect("JSON");
    let path = format!("{root}/docs/reference/schema/{schema}.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(path).expect("the schema")).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{arguments:?}: {errors:?}");
    document
}

#[test]
fn a_program_with_an_arena_says_what_the_sandbox_did() {
    let document = holds("check", &["check", "tests/filetests/verifier/arena-pointer.bpf"]);
    let program = &document["objects"][0]["programs"][0];
    assert!(program["sandboxed"]["accesses"].is_number(), "{program}");
}

#[test]
fn errors_are_documents_of_their_own() {
    let missing = "tests/no-such-object.o";
    for (schema, arguments) in [
        ("check", &["check", "tests/mistakes"][..]),
        ("optimize", &["optimize", missing, "-o", "x.o"][..]),
        ("repair", &["repair", missing, "-o", "x.o"][..]),
    ] {
        assert!(holds(schema, arguments)["error"]["message"].is_string(), "{schema}");
    }
}
