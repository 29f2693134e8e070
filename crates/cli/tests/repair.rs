//! `kiln repair` on C that clang 19 turns into what the verifier rejects: what is proved loads in the running kernel, and
//! what is not proved stays as it was.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/repair");

fn kiln() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kiln"))
}

/// Mistakes of `tests/mistakes` about what a program accesses, holds or ends: an input shows each going wrong.
const SHOWN: [&str; 25] = [
    "arithmetic-on-map",
    "field-as-key",
    "index-bound-lost",
    "index-off-by-one",
    "kernel-pointer-read",
    "key-too-small",
    "leaked-reference",
    "local-too-small",
    "lock-not-released",
    "map-value-too-small",
    "missing-null-check",
    "null-check-on-one-path",
    "packet-after-adjust-head",
    "packet-end-off-by-one",
    "register-across-call",
    "released-twice",
    "signed-index",
    "size-may-be-zero",
    "size-unbounded",
    "size-without-bounds",
    "spilled-bytes",
    "stack-out-of-bounds",
    "unbounded-loop",
    "use-after-release",
    "user-pointer-read",
];
/// Such mistakes without an input, and why.
const NOT_SHOWN: [(&str, &str); 5] = [
    ("packet-never-checked", "a frame always has the one byte that is read: no input goes wrong"),
    ("packet-offset-unbounded", "an address of 64 bits plus a number of 32 does not overflow: no input goes wrong"),
    ("packet-walk", "each byte is compared with the end, and packets have one: no input goes wrong"),
    ("pointer-masked", "the value is aligned already, so the mask changes nothing: no input goes wrong"),
    ("record-size-varies", "a rule of the kernel's, not an access"),
];
/// A mistake that is harmless: the byte that is read is there when the start of the packet is before its end.
const HARMLESS: &str = "packet-start-compared";
/// Mistakes of `tests/fresh` about what a program accesses, holds or ends, without an input, and why.
const FRESH_NOT_SHOWN: [(&str, &str); 9] = [
    ("callback-context-overrun", "what a callback is given is not followed"),
    ("callback-index-unchecked", "the loop has as many turns as the table has elements: no input goes wrong"),
    ("histogram-slot", "no input is large enough"),
    ("iterator-not-destroyed", "an iterator over numbers holds nothing"),
    ("length-compared", "the length that is compared is right: no input goes wrong"),
    ("null-discarded", "the ring buffer is never full"),
    ("offset-too-wide", "an address of 64 bits plus a number of 32 does not overflow: no input goes wrong"),
    ("path-joined", "names in kernel memory are never that long"),
    ("wrong-branch-read", "a frame always has the six bytes that are read: no input goes wrong"),
];
/// Mistakes of `tests/fresh` about rules of the kernel's, which no run breaks.
const FRESH_RULES: [&str; 14] = [
    "compared-with-map-text",
    "context-and-map-swapped",
    "entry-returns-one",
    "event-partly-set",
    "field-of-other-family",
    "filter-writes-packet",
    "format-on-stack",
    "global-parser",
    "key-in-packet",
    "license-forgotten",
    "socket-filter-reads-directly",
    "sockets-helper-in-xdp",
    "update-under-lock",
    "wrong-map-for-output",
];
/// Of so many mistakes, a run of the tests takes one.
const STRIDE: usize = 4;
/// Mistakes that each run takes: a call that is given a context, a number of a map's entry, and the harmless one.
const ALWAYS: [&str; 3] = ["field-as-key", "index-bound-lost", HARMLESS];

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
    let left = matches!(decision, "not-decided" | "really-unsafe");
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
    assert_eq!(played, 9);
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
fn a_mistake_about_an_access_has_an_input_and_only_a_harmless_one_is_proved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (object, output) = (folder.path().join("a.o"), folder.path().join("b.o"));
    let sources = Path::new(SOURCES).with_file_name("mistakes");
    let mut names: Vec<String> = std::fs::read_dir(&sources)
        .expect("tests/mistakes")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".c")?.to_owned()))
        .collect();
    names.sort();
    for name in SHOWN.iter().chain(NOT_SHOWN.iter().map(|(name, _)| name)).chain([&HARMLESS]) {
        assert!(names.iter().any(|own| own == name), "{name}");
    }
    let rejected = |name: &str| {
        let text = std::fs::read_to_string(sources.join(format!("{name}.c"))).expect("a source");
        text.contains("// check: reject")
    };
    let others = names.iter().filter(|name| rejected(name) && !ALWAYS.contains(&name.as_str())).step_by(STRIDE);
    for name in others.map(String::as_str).chain(ALWAYS) {
        if !compile_for(&sources.join(format!("{name}.c")), &object, "v3") {
            eprintln!("skipped: no clang-19");
            return;
        }
        let document = repaired(&object, &output, &["--offline", "--budget", "30"]);
        let decision = &document["programs"][0]["decision"];
        let expected = match name {
            HARMLESS => "repaired-proved",
            _ if SHOWN.contains(&name) => "really-unsafe",
            _ => "not-decided",
        };
        assert_eq!(decision, expected, "{name}: {document}");
    }
}

#[test]
fn a_fresh_mistake_about_an_access_has_an_input() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (object, output) = (folder.path().join("a.o"), folder.path().join("b.o"));
    let sources = Path::new(SOURCES).with_file_name("fresh");
    let mut names: Vec<String> = std::fs::read_dir(&sources)
        .expect("tests/fresh")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".c")?.to_owned()))
        .collect();
    names.sort();
    let known = FRESH_NOT_SHOWN.iter().map(|(name, _)| *name).chain(FRESH_RULES);
    let without: Vec<&str> = known.filter(|name| names.iter().any(|own| own == name)).collect();
    assert_eq!(without.len(), FRESH_NOT_SHOWN.len() + FRESH_RULES.len());
    // Those that held the search up, or that only a stand-in shows, each time.
    let always = ["locked-twice", "task-not-checked", "array-by-pid"];
    for name in names.iter().map(String::as_str).step_by(STRIDE).chain(always) {
        if !compile_for(&sources.join(format!("{name}.c")), &object, "v3") {
            eprintln!("skipped: no clang-19");
            return;
        }
        let document = repaired(&object, &output, &["--offline", "--budget", "30"]);
        let is_shown = document["programs"][0]["decision"] == "really-unsafe";
        assert_eq!(is_shown, !without.contains(&name), "{name}: {document}");
    }
}

/// A store far outside of the frame that nobody reads: with a clamp, the program returns the same.
const WILD: &str = "; program socket_filter name wild
  r0 = 0
  r1 = 0x80000001 ll
  r2 = r1
  r4 = r1
  w2 += 0x7fffffff
  if r2 == 0 goto far
  exit
far:
  r4 >>= 63
  r3 = 1
  r3 -= r4
  r3 *= 0x7fffffff
  r3 += r10
  *(u8 *)(r3 - 1) = r0
  exit
";

#[test]
fn a_store_that_nobody_reads_is_not_taken_for_harmless() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (object, output) = (folder.path().join("a.bpf"), folder.path().join("b.bpf"));
    std::fs::write(&object, WILD).expect("a file");
    let document = repaired(&object, &output, &["--offline"]);
    assert_ne!(document["programs"][0]["decision"], "repaired-proved", "{document}");
}

/// Two counts of a loop: the verifier explores a state for each pair.
const COUNTS: &str = "; map values array key 4 value 256 entries 1
; program socket_filter name counts
  r6 = r1
  r7 = 0
  r8 = 0
  r9 = 0
again:
  call get_prandom_u32
  if r0 > 100 goto first
  w8 += 1
first:
  call get_prandom_u32
  if r0 > 100 goto second
  w9 += 1
second:
  w7 += 1
  if w7 != 200 goto again
  r1 = map_value[values] + 0
  w8 &= 255
  r1 += r8
  r0 = *(u8 *)(r1 + 0)
  r1 = map_value[values] + 0
  w9 &= 255
  r1 += r9
  r0 = *(u8 *)(r1 + 0)
  r0 = 0
  exit
";

#[test]
fn sums_of_loops_are_forgotten_only_where_nothing_needs_them() {
    let forgotten = ("repaired-proved".to_owned(), vec!["number forgotten".to_owned()]);
    assert_eq!(decided(COUNTS), forgotten);
    // The loop's end depends on a number; without a mask, an access does.
    for (from, to) in [("if w7 != 200", "if w7 != 7000000"), ("  w9 &= 255\n", "")] {
        assert!(COUNTS.contains(from), "{from}");
        assert_ne!(decided(&COUNTS.replace(from, to)).0, "repaired-proved", "{to}");
    }
}

/// A loop whose two ends are merged: `r7` holds nothing on a path that only passes through.
const MERGED: &str = "; program xdp name ends
  r6 = 0
  r8 = 0
  goto next
merged:
  r2 = r7
  r2 += r6
  w1 &= 1
  if w1 == 0 goto done
  r6 = r2
next:
  r8 += 1
  if r8 > 4 goto done
  call get_prandom_u32
  w1 = 0
  if r0 == 0 goto merged
  r7 = r0
  w1 = 1
  goto merged
done:
  r0 = r6
  r0 &= 1
  r0 += 1
  exit
";

#[test]
fn a_branch_is_sent_past_what_it_only_passes_through() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (object, output) = (folder.path().join("a.bpf"), folder.path().join("b.bpf"));
    std::fs::write(&object, MERGED).expect("a file");
    let document = repaired(&object, &output, &[]);
    let program = &document["programs"][0];
    assert_eq!(program["decision"], "repaired-proved", "{document}");
    assert_eq!(program["changes"][0]["means"], "path split", "{document}");
    kiln().arg("check").arg(&output).assert().code(0);
    // What is computed on the way is read at the end.
    std::fs::write(&object, MERGED.replace("r0 = r6", "r0 = r2")).expect("a file");
    let document = repaired(&object, &output, &["--offline"]);
    assert_ne!(document["programs"][0]["decision"], "repaired-proved", "{document}");
}

/// A loop over four fields of the context: the kernel takes no moved pointer to it.
const FIELDS: &str = "; program cgroup_sock_addr section \"cgroup/bind6\" attach cgroup_inet6_bind name fields
  r0 = 0
  r2 = 0
again:
  r3 = r1
  r3 += r2
  w4 = *(u16 *)(r3 + 8)
  w5 = *(u16 *)(r3 + 10)
  if w4 == w5 goto done
  r2 += 4
  if r2 != 16 goto again
  r0 = 1
done:
  exit
";

/// The decision on a program, and the names of what was changed.
fn decided(text: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [object, output, proofs] = ["a.bpf", "b.bpf", "proofs"].map(|name| folder.path().join(name));
    std::fs::write(&object, text).expect("a file");
    let document = repaired(&object, &output, &["--offline", "--evidence", &proofs.display().to_string()]);
    let program = &document["programs"][0];
    let decision = program["decision"].as_str().expect("a decision").to_owned();
    if decision == "repaired-proved" {
        kiln().arg("check").arg(&output).assert().code(0);
        let replayed = kiln().arg("verify-evidence").arg(&proofs).output().expect("kiln runs");
        // 3: there is no solver besides Kiln's own.
        assert!(matches!(replayed.status.code(), Some(0 | 3)), "{replayed:?}");
    }
    let changes = program["changes"].as_array().expect("changes");
    (decision, changes.iter().map(|change| change["means"].as_str().expect("a name").to_owned()).collect())
}

#[test]
fn an_access_through_a_moved_context_gets_a_copy_for_each_offset() {
    let proved = ("repaired-proved".to_owned(), vec!["copy for each offset".to_owned()]);
    assert_eq!(decided(FIELDS), proved);
    // The sum is made in the number's register.
    let swapped = "r3 = r2\n  r3 += r1";
    assert_eq!(decided(&FIELDS.replace("r3 = r1\n  r3 += r2", swapped)), proved);
    // The loaded value replaces the pointer, a store is among the accesses, and the pointer is read after them.
    for (from, to) in [
        ("w5 = *(u16 *)(r3 + 10)\n  if w4 == w5", "w3 = *(u16 *)(r3 + 10)\n  if w4 == w3"),
        ("w5 = *(u16 *)(r3 + 10)", "w5 = *(u16 *)(r3 + 10)\n  *(u32 *)(r3 + 8) = r5"),
        (
            "if w4 == w5 goto done",
            "if w4 == w5 goto done\n  r3 -= r2\n  w3 = *(u32 *)(r3 + 28)\n  if w3 == 7 goto done",
        ),
    ] {
        assert!(FIELDS.contains(from), "{from}");
        assert_eq!(decided(&FIELDS.replace(from, to)), proved, "{to}");
    }
}

#[test]
fn an_access_beyond_the_fields_is_not_proved() {
    for (from, to) in [
        // Fields that a bind hook may not read, bytes behind the last field, and bytes before the first.
        ("if r2 != 16", "if r2 != 48"),
        ("if r2 != 16", "if r2 != 96"),
        ("r2 += 4\n  if r2 != 16", "r2 += -4\n  if r2 != -16"),
        // A number without a bound, and a load across two fields.
        ("r2 += 4", "r2 = r4"),
        ("r2 += 4\n  if r2 != 16", "r2 += 3\n  if r2 != 12"),
        // A store into a field that may not be written.
        ("w4 = *(u16 *)(r3 + 8)", "w4 = *(u16 *)(r3 + 8)\n  *(u32 *)(r3 + 28) = r4"),
    ] {
        assert!(FIELDS.contains(from), "{from}");
        let (decision, changes) = decided(&FIELDS.replace(from, to));
        assert_ne!(decision, "repaired-proved", "{to}: {changes:?}");
    }
}

/// Any of four fields of the context: the verifier knows no value of the number.
const ANY_FIELD: &str = "; program cgroup_sock_addr section \"cgroup/bind6\" attach cgroup_inet6_bind name any
  r6 = r1
  call get_prandom_u32
  r2 = r0
  r2 &= 12
  r3 = r6
  r3 += r2
  w4 = *(u32 *)(r3 + 8)
  w5 = *(u16 *)(r3 + 8)
  r0 = 0
  if w4 == w5 goto done
  r0 = 1
done:
  exit
";

#[test]
fn an_access_at_an_unknown_offset_gets_a_copy_for_each_value() {
    let proved = ("repaired-proved".to_owned(), vec!["copy for each offset".to_owned()]);
    assert_eq!(decided(ANY_FIELD), proved);
    for number in ["r2 &= 3\n  r2 <<= 2", "r2 &= 12\n  r2 += 4"] {
        assert_eq!(decided(&ANY_FIELD.replace("r2 &= 12", number)), proved, "{number}");
    }
    // Fields that may not be read, or not in part, a load across two fields, and numbers without a bound.
    for number in ["r2 &= 28", "r2 &= 13", "r2 %= 4", "r2 <<= 2", "r2 &= 12\n  r2 += 8", "r2 &= -4"] {
        assert_ne!(decided(&ANY_FIELD.replace("r2 &= 12", number)).0, "repaired-proved", "{number}");
    }
}

/// A register that a call destroyed is stored, and what is stored is replaced before anything reads it.
const DESTROYED: &str = "; map table hash key 8 value 8 entries 4
; program xdp name destroyed
  call get_prandom_u32
  r7 = 0
  *(u64 *)(r10 - 8) = r1
  if r0 == 0 goto merged
  *(u64 *)(r10 - 8) = 5
  r7 = 1
merged:
  if r7 == 0 goto out
  r2 = r10
  r2 += -8
  r1 = map[table]
  call map_lookup_elem
out:
  r0 = 1
  exit
";

#[test]
fn a_destroyed_register_that_nobody_reads_is_set() {
    let proved = ("repaired-proved".to_owned(), vec!["initialisation".to_owned()]);
    assert_eq!(decided(DESTROYED), proved);
    for (from, to) in [
        // It is the key, it is returned, it is compared, and it is stored where others read it.
        ("if r7 == 0 goto out", "r0 = 0"),
        ("r0 = 1\n  exit", "r0 = *(u64 *)(r10 - 8)\n  r0 &= 1\n  exit"),
        ("*(u64 *)(r10 - 8) = r1\n", "*(u64 *)(r10 - 8) = r1\n  if r1 == 9 goto out\n"),
        (
            "r0 = 1\n  exit",
            "r0 = 1\n  if r7 != 0 goto end\n  r2 = r10\n  r2 += -8\n  r3 = r2\n  r1 = map[table]\n  \
         r4 = 0\n  call map_update_elem\nend:\n  r0 = 1\n  exit",
        ),
    ] {
        assert!(DESTROYED.contains(from), "{from}");
        assert_ne!(decided(&DESTROYED.replace(from, to)).0, "repaired-proved", "{to}");
    }
}

/// A loop as [`MERGED`], whose number is loaded with its sign, and after which there is a call: what is in R2 does not
/// matter to it.
const SIGNED: &str = "; map table array key 4 value 8 entries 4
; program xdp name ends
  r6 = 0
  r8 = 0
  goto next
merged:
  r2 = r7
  r2 += r6
  w1 &= 1
  if w1 == 0 goto done
  r6 = r2
next:
  r8 += 1
  if r8 > 4 goto done
  *(u32 *)(r10 - 4) = 3
  r2 = r10
  r2 += -4
  r1 = map[table]
  call map_lookup_elem
  w1 = 0
  if r0 == 0 goto merged
  r7 = *(s32 *)(r0 + 0)
  w1 = 1
  goto merged
done:
  call get_prandom_u32
  r0 = r6
  r0 &= 1
  r0 += 1
  exit
";

#[test]
fn what_a_call_does_not_read_is_dead_and_a_sign_is_extended() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (object, output) = (folder.path().join("a.bpf"), folder.path().join("b.bpf"));
    std::fs::write(&object, SIGNED).expect("a file");
    let document = repaired(&object, &output, &["--offline"]);
    let program = &document["programs"][0];
    assert_eq!(program["decision"], "repaired-proved", "{document}");
    assert_eq!(program["changes"][0]["means"], "path split", "{document}");
    // The sum that is computed on the way is what is returned.
    std::fs::write(&object, SIGNED.replace("r0 = r6", "r0 = r2").replace("call get_prandom_u32", "r1 = r2"))
        .expect("a file");
    let document = repaired(&object, &output, &["--offline"]);
    assert_ne!(document["programs"][0]["decision"], "repaired-proved", "{document}");
}

#[test]
fn the_last_steps_of_an_endless_run_are_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (object, output) = (folder.path().join("a.bpf"), folder.path().join("b.bpf"));
    let endless = "; program xdp name endless\n  r0 = 0\nagain:\n  if r0 == 0 goto again\n  exit\n";
    std::fs::write(&object, endless).expect("a file");
    let document = repaired(&object, &output, &["--offline"]);
    let witness = &document["programs"][0]["witness"];
    assert_eq!(document["programs"][0]["decision"], "really-unsafe", "{document}");
    assert!(witness["executed"].as_u64().is_some_and(|count| count >= 999_999), "{witness}");
    let steps = witness["steps"].as_array().expect("steps");
    assert!(steps.iter().all(|step| step["slot"] == 1), "{witness}");
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
