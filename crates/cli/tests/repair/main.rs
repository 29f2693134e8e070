//! `kiln repair` on C that clang 19 turns into what the verifier rejects: what is proved loads in the running kernel, and
//! what is not proved stays as it was. [`texts`] has programs that are written as text, [`inputs`] the mistakes that an input
//! shows.

mod inputs;
mod texts;

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
    compile_for(source, object, version).then(|| expected.to_owned())
}

/// Compiles a source for a version of the instruction set; returns whether there is clang 19.
fn compile_for(source: &Path, object: &Path, version: &str) -> bool {
    let ran = std::process::Command::new("clang-19")
        .args(["-target", "bpf", "-g", "-O2", &format!("-mcpu={version}"), "-c"])
        .args(["-idirafter", &format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH)])
        .arg(source)
        .arg("-o")
        .arg(object)
        .status();
    assert!(ran.as_ref().is_ok_and(std::process::ExitStatus::success) || ran.is_err(), "{}", source.display());
    ran.is_ok()
}

fn repaired(object: &Path, output: &Path, arguments: &[&str]) -> Value {
    let mut command = kiln();
    command.arg("repair").arg(object).arg("-o").arg(output).args(["--format", "json"]).args(arguments);
    let ran = command.output().expect("kiln runs");
    let document: Value = serde_json::from_slice(&ran.stdout).expect("a document");
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/schema/repair.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(schema).expect("the schema")).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}: {document}");
    let decision = document["programs"][0]["decision"].as_str().expect("a decision");
    let left = matches!(decision, "not-decided" | "really-unsafe" | "forbidden");
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
        if expected != "repaired-proved" {
            assert!(program["reason"].is_string() && program["changes"] == Value::Array(Vec::new()), "{name}");
            continue;
        }
        proved += 1;
        let said = "makes ".to_owned() + name.trim_end_matches(".c") + " load, proved";
        let checked = kiln().arg("check").arg(&object).assert().code(1);
        // The hint has 0.3 seconds, which only this repair never needs.
        if name == "global.c" {
            checked.stdout(predicates::str::contains(said));
        }
        kiln().arg("check").arg(&output).assert().code(0);
        // A kernel that is not asked says nothing; one that is asked loads it.
        assert!(program["kernel"].is_null() || program["kernel"]["verdict"] == "accepted", "{name}: {document}");
        let mut replayed = kiln();
        replayed.arg("verify-evidence").arg(&proofs).arg("--original").arg(&object).arg("--object").arg(&output);
        let replayed = replayed.output().expect("kiln runs");
        // 3: there is no solver besides Kiln's own.
        assert!(matches!(replayed.status.code(), Some(0 | 3)), "{name}: {replayed:?}");
        let said = String::from_utf8_lossy(&replayed.stdout);
        let is_static = program["changes"][0]["means"] == "static function" && replayed.status.success();
        assert_eq!(said.contains("it became static"), is_static, "{name}: {said}");
    }
    assert!(proved >= 4, "{proved}");
}

/// The guide's listings are what `kiln repair` prints; `...` stands for the rest of a line.
#[test]
fn the_examples_of_the_guide_are_what_is_printed() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/repair.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (object, output) = (folder.path().join("a.o"), folder.path().join("b.o"));
    let mut played = 0;
    for listing in guide.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let Some((name, _)) = listing.split_once(": ").filter(|(_, what)| what.starts_with(['r'])) else { continue };
        let source = Path::new(SOURCES).join(format!("{name}.c"));
        if compile(&source, &object).is_none() {
            eprintln!("skipped: no clang-19");
            return;
        }
        let ran =
            kiln().arg("repair").arg(&object).arg("-o").arg(&output).arg("--offline").output().expect("kiln runs");
        let printed = String::from_utf8_lossy(&ran.stdout).replace(&format!("{SOURCES}/"), "");
        let mut lines = printed.lines();
        for line in listing.lines() {
            let begin = line.strip_suffix("...");
            let is_it = |own: &str| begin.map_or(own == line, |begin| own.starts_with(begin));
            assert!(lines.any(is_it), "`{line}` of the guide is not in its place in:\n{printed}");
        }
        played += 1;
    }
    assert_eq!(played, 10);
}

/// What the VM returns for a packet, in decimal digits.
fn returned(object: &Path, words: [u64; 2]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let output =
        kiln().arg("run").arg(object).args(["--packet", &digits, "--format", "json"]).output().expect("kiln runs");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    document["value"].to_string()
}

#[test]
fn a_guard_ends_the_run_where_the_original_would_be_unsafe_and_nowhere_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (object, output) = (folder.path().join("a.o"), folder.path().join("b.o"));
    let Some(_) = compile(&Path::new(SOURCES).join("beyond.c"), &object) else {
        eprintln!("skipped: no clang-19");
        return;
    };
    let document = repaired(&object, &output, &["--guards"]);
    let program = &document["programs"][0];
    assert_eq!(
        (&program["decision"], &program["guard"]["value"]),
        (&"repaired-guarded".into(), &0.into()),
        "{document}"
    );
    assert!(program["kernel"].is_null() || program["kernel"]["verdict"] == "accepted", "{document}");
    // The index, and the bound that it is compared with: 257 is one too many, and 258 is refused by the program.
    let cases = [([0, 1], "2"), ([255, 257], "2"), ([256, 257], "0"), ([255, 258], "1"), ([257, 257], "1")];
    for (words, value) in cases {
        assert_eq!(returned(&output, words), value, "{words:?}");
    }
    let document = repaired(&object, &output, &["--guards=2", "--offline"]);
    assert_eq!(document["programs"][0]["changes"][1]["by_hand"], "if (n > 255) return 2;", "{document}");
    assert_eq!(returned(&output, [256, 257]), "2");
}

/// Bits of a number say whether an entry was found, and the wrong ones are tested. The number does not decide: runs with an
/// entry are safe whatever it is.
#[test]
fn no_guard_of_a_number_is_about_null() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [source, object, output] = ["bits.c", "a.o", "b.o"].map(|name| folder.path().join(name));
    let text = "
        #include <linux/bpf.h>
        #include <bpf/bpf_helpers.h>
        struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8); __type(key, __u32); __type(value, __u64); } h SEC(\".maps\");
        SEC(\"xdp\") int prog(struct xdp_md *context) {
            __u8 *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
            if (data + 2 > end) return 1;
            __u32 key = data[0], flags = 0;
            __u64 *entry = bpf_map_lookup_elem(&h, &key);
            if (entry) flags |= 1;
            if (data[1] > 100) flags |= 2;
            data[1] += flags;
            asm volatile(\"\" : \"+r\"(flags));
            if (!(flags & 3)) return 3;
            (*entry)++;
            return 2;
        }
        char _license[] SEC(\"license\") = \"GPL\";
    ";
    std::fs::write(&source, text).expect("a file");
    if !compile_for(&source, &object, "v2") {
        return eprintln!("skipped: no clang-19");
    }
    let document = repaired(&object, &output, &["--guards"]);
    assert_eq!(document["programs"][0]["decision"], "repaired-guarded", "{document}");
    let run = |packet: &str, entry: bool| {
        let mut command = kiln();
        command.arg("run").arg(&output).args(["--packet", packet, "--format", "json"]);
        if entry {
            command.args(["--map", "h:7=5"]);
        }
        let output = command.output().expect("kiln runs");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["value"].clone()
    };
    let padded = |bytes: &str| format!("{bytes}{}", "00".repeat(12));
    assert_eq!(run(&padded("0700"), true), 2);
    assert_eq!(run(&padded("07c8"), true), 2);
    assert_eq!(run(&padded("0700"), false), 3);
    assert_eq!(run(&padded("07c8"), false), 0, "the one that goes wrong");
}

/// A check for three bytes, and a load of four. Only runs with exactly three bytes go wrong, and no check of a number in
/// front of the load tells them from the others.
#[test]
fn no_guard_is_about_the_length_of_a_packet() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [source, object, output] = ["short.c", "a.o", "b.o"].map(|name| folder.path().join(name));
    let text = "
        #include <linux/bpf.h>
        #include <bpf/bpf_helpers.h>
        SEC(\"xdp\") int prog(struct xdp_md *context) {
            __u8 *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
            if (data + 14 > end) return 1;
            __u8 *at = data + data[0];
            if (at + 3 > end) return 3;
            return *(__u32 *)at ? 2 : 4;
        }
    ";
    std::fs::write(&source, text).expect("a source");
    if !compile_for(&source, &object, "v2") {
        eprintln!("skipped: no clang-19");
        return;
    }
    let document = repaired(&object, &output, &["--guards", "--offline"]);
    let decision = &document["programs"][0]["decision"];
    assert!(decision == "not-decided" || decision == "really-unsafe", "{document}");
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
