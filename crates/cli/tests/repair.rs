//! `kiln repair` on C that clang 19 turns into what the verifier rejects: what is proved loads in the running kernel, and
//! what is not proved stays as it was.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/repair");

fn kiln() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kiln"))
}

/// Compiles a source as its second line says; returns the decision expected. `None` without clang 19.
fn compile(source: &Path, object: &Path) -> Option<String> {
    let text = std::fs::read_to_string(source).expect("a source");
    let directive = text.lines().find_map(|line| line.strip_prefix("// repair: ")).expect("a directive");
    let (version, expected) = directive.split_once(' ').expect("a version and a decision");
    let status = std::process::Command::new("clang-19")
        .args(["-target", "bpf", "-g", "-O2", &format!("-mcpu={version}"), "-c"])
        .args(["-idirafter", &format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH)])
        .arg(source)
        .arg("-o")
        .arg(object)
        .status()
        .ok()?;
    assert!(status.success(), "{}", source.display());
    Some(expected.to_owned())
}

fn repaired(object: &Path, output: &Path, arguments: &[&str]) -> Value {
    let mut command = kiln();
    command.arg("repair").arg(object).arg("-o").arg(output).args(["--format", "json"]).args(arguments);
    let ran = command.output().expect("kiln runs");
    let document: Value = serde_json::from_slice(&ran.stdout).expect("a document");
    let left = document["programs"][0]["decision"] == "not-decided";
    assert_eq!(ran.status.code(), Some(i32::from(left)), "{document}");
    document
}

#[test]
fn what_is_proved_loads_and_what_is_not_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut sources: Vec<_> =
        std::fs::read_dir(SOURCES).expect("sources").map(|entry| entry.expect("an entry").path()).collect();
    sources.sort();
    let mut proved = 0;
    for source in sources.iter().filter(|path| path.extension().is_some_and(|ending| ending == "c")) {
        let (object, output) = (folder.path().join("a.o"), folder.path().join("b.o"));
        let Some(expected) = compile(source, &object) else {
            eprintln!("skipped: no clang-19");
            return;
        };
        let name = source.file_name().expect("a name").to_string_lossy().into_owned();
        let proofs = folder.path().join(&name);
        let document = repaired(&object, &output, &["--evidence", &proofs.display().to_string()]);
        let program = &document["programs"][0];
        assert_eq!(program["decision"], expected.as_str(), "{name}: {document}");
        if expected == "not-decided" {
            assert!(program["reason"].is_string() && program["changes"] == Value::Array(Vec::new()), "{name}");
            continue;
        }
        proved += 1;
        let said = "makes ".to_owned() + name.trim_end_matches(".c") + " load, proved";
        kiln().arg("check").arg(&object).assert().code(1).stdout(predicates::str::contains(said));
        kiln().arg("check").arg(&output).assert().code(0);
        // A kernel that is not asked says nothing; one that is asked loads it.
        assert!(program["kernel"].is_null() || program["kernel"]["verdict"] == "accepted", "{name}: {document}");
        let mut replayed = kiln();
        replayed.arg("verify-evidence").arg(&proofs).arg("--original").arg(&object).arg("--object").arg(&output);
        let replayed = replayed.output().expect("kiln runs");
        // 3: there is no solver besides Kiln's own.
        assert!(matches!(replayed.status.code(), Some(0 | 3)), "{name}: {replayed:?}");
    }
    assert!(proved >= 4, "{proved}");
}

#[test]
fn a_repair_is_the_same_each_time_and_no_budget_keeps_the_object() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (object, output) = (folder.path().join("a.o"), folder.path().join("b.o"));
    let Some(_) = compile(&Path::new(SOURCES).join("multiple.c"), &object) else {
        eprintln!("skipped: no clang-19");
        return;
    };
    let once = repaired(&object, &output, &["--offline"]);
    let bytes = std::fs::read(&output).expect("an object");
    let again = repaired(&object, &output, &["--offline"]);
    assert_eq!(once["programs"], again["programs"]);
    assert_eq!(bytes, std::fs::read(&output).expect("an object"));
    let cut = repaired(&object, &output, &["--offline", "--budget", "0"]);
    assert_eq!((&cut["cut_short"], &cut["programs"][0]["decision"]), (&Value::Bool(true), &"not-decided".into()));
    std::fs::write(&object, b"\x7fELF and nothing else").expect("a file");
    kiln().arg("repair").arg(&object).arg("-o").arg(&output).assert().code(2);
}
