//! `proofs/Generated.v` says what the operation table says. `BLESS=1` writes it.

use kiln_isa::operation::{Registry, rocq};

#[test]
fn generated_definitions_are_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proofs/Generated.v");
    let text = rocq::text(&Registry::BUILTIN);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).expect("the file can be written");
    }
    let file = std::fs::read_to_string(path).unwrap_or_default();
    assert!(file == text, "{path} is not what the table says; BLESS=1 writes it");
}

/// Runs `proofs/check`, and compares its theorems with those that rows name.
#[test]
fn rows_name_theorems_that_are_proved() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proofs");
    let listed = std::fs::read_to_string(format!("{folder}/Assumptions.v")).expect("the list of theorems");
    for operation in Registry::BUILTIN.operations() {
        for theorem in operation.notes.proved_by {
            let is_listed = listed.lines().any(|line| line.trim().trim_end_matches(',') == *theorem);
            assert!(is_listed, "{theorem} is not in Assumptions.v");
        }
    }
    if std::process::Command::new("coqc").arg("--version").output().is_err() {
        println!("skipped: coqc is not installed, so the proofs are not checked");
        return;
    }
    let output = std::process::Command::new(format!("{folder}/check")).output().expect("the check starts");
    assert!(output.status.success(), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
