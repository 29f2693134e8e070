//! Rejections as users and their tools read them: the story in text, JSON and SARIF, and `kiln explain`.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use world::{compile, document, file, kiln};

/// The null check is there, but one path goes around it.
const AROUND_THE_CHECK: &str = "\
; map counters hash key 4 value 8 entries 16
; program xdp
  *(u32 *)(r10 - 4) = 0
  r6 = *(u32 *)(r1 + 12)
  r1 = map[counters]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r6 == 0 goto L1
  if r0 == 0 goto L2
L1:
  *(u64 *)(r0 + 0) = 1
L2:
  r0 = 2
  exit
";

#[test]
fn the_story_leads_from_the_lookup_around_the_check() {
    let (_folder, path) = file("around.bpf", AROUND_THE_CHECK);
    kiln().arg("check").arg(&path).assert().code(1).stdout(
        contains("error[possibly-null]")
            .and(contains("1: bpf_map_lookup_elem returns a pointer to a value of map `counters`, or null"))
            .and(contains("2: the path where"))
            .and(contains("= help: check it before this line")),
    );
}

#[test]
fn the_story_is_data_in_json() {
    let (_folder, path) = file("around.bpf", AROUND_THE_CHECK);
    let document = document(kiln().arg("check").arg(&path).args(["--format", "json"]));
    let verdict = &document["objects"][0]["programs"][0]["verdict"];
    assert_eq!(verdict["code"], "possibly-null");
    assert_eq!(verdict["place"]["slot"], 9);
    assert_eq!(verdict["story"][0]["part"], "origin");
    assert_eq!(verdict["story"][0]["place"]["listing"], "call map_lookup_elem");
    assert_eq!(verdict["story"][1]["part"], "branch");
    assert!(verdict["help"].as_str().is_some_and(|help| help.contains("return XDP_PASS;")));
    assert!(verdict["explanation"].as_str().is_some_and(|text| text.starts_with("error[possibly-null]")));
}

/// What the SARIF 2.1.0 schema requires of the objects that Kiln writes (sections 3.13 to 3.52 of the standard).
#[test]
fn sarif_has_what_its_schema_requires() {
    let (_folder, path) = file("around.bpf", AROUND_THE_CHECK);
    let log = document(kiln().arg("check").arg(&path).args(["--format", "sarif"]));
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().is_some_and(|uri| uri.ends_with("sarif-2.1.0.json")));
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "kiln");
    let rules = driver["rules"].as_array().expect("rules");
    for rule in rules {
        assert!(rule["id"].as_str().is_some_and(|id| !id.is_empty()), "{rule}");
        for key in ["shortDescription", "fullDescription", "help"] {
            assert!(rule[key]["text"].as_str().is_some_and(|text| !text.is_empty()), "{key} of {rule}");
        }
    }
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), 1);
    let result = &results[0];
    let index = result["ruleIndex"].as_u64().expect("an index") as usize;
    assert_eq!(rules[index]["id"], result["ruleId"]);
    assert!(["error", "warning", "note", "none"].contains(&result["level"].as_str().expect("a level")));
    assert!(result["message"]["text"].as_str().is_some_and(|text| text.contains("may be null")));
    let fingerprint = result["partialFingerprints"]["kilnRejection/v1"].as_str().expect("a fingerprint");
    assert!(fingerprint.len() == 16 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit()));
    check_location(run, &result["locations"][0]);
    let flow = result["codeFlows"][0]["threadFlows"][0]["locations"].as_array().expect("a thread flow");
    assert_eq!(flow.len(), 3, "the lookup, the branch, the access");
    for (order, step) in flow.iter().enumerate() {
        assert_eq!(step["executionOrder"], order + 1);
        assert!(step["location"]["message"]["text"].is_string());
        check_location(run, &step["location"]);
    }
}

fn check_location(run: &Value, location: &Value) {
    let physical = &location["physicalLocation"];
    assert!(physical["region"]["startLine"].as_u64().is_some_and(|line| line >= 1), "{location}");
    assert!(physical["region"].get("startColumn").is_none_or(|column| column.as_u64() >= Some(1)), "{location}");
    let artifact = &physical["artifactLocation"];
    let uri = artifact["uri"].as_str().expect("a uri");
    assert!(!uri.contains(' ') && !uri.is_empty());
    match artifact.get("uriBaseId") {
        Some(base) => {
            let base = base.as_str().expect("a name");
            let uri = run["originalUriBaseIds"][base]["uri"].as_str().expect("the base is defined");
            assert!(uri.starts_with("file:///") && uri.ends_with('/'), "{uri}");
        }
        None => assert!(uri.starts_with("file:///"), "{uri}"),
    }
    assert!(location["logicalLocations"][0]["name"].is_string());
}

#[test]
fn sarif_of_an_accepted_program_has_no_results() {
    let (_folder, path) = file("pass.bpf", "; program xdp\n  r0 = 2\n  exit\n");
    let log = document(kiln().arg("check").arg(&path).args(["--format", "sarif"]));
    assert_eq!(log["runs"][0]["results"].as_array().map(Vec::len), Some(0));
}

#[test]
fn sarif_is_for_check_only() {
    kiln().args(["doctor", "--format", "sarif"]).assert().code(2).stderr(contains("kiln check"));
}

#[test]
fn a_profile_says_which_lines_cost_what_and_draws_it() {
    const LOOP: &str = "; program xdp\n  r1 = 0\nL1:\n  r1 += 1\n  if r1 < 64 goto L1\n  r0 = 2\n  exit\n";
    let (folder, path) = file("loop.bpf", LOOP);
    let graph = folder.path().join("cost.svg");
    kiln().arg("check").arg(&path).arg("--profile").arg("--flame-graph").arg(&graph).assert().code(0).stdout(
        contains("of 1000000 instructions processed (0.0 %)")
            .and(contains("main@2"))
            .and(contains("the loop at main@1 to main@2 turns 64 times")),
    );
    let svg = std::fs::read_to_string(&graph).expect("a flame graph");
    assert!(svg.starts_with("<?xml") && svg.contains("</svg>") && svg.contains("slot 2"));
    let document = document(kiln().arg("check").arg(&path).args(["--profile", "--format", "json"]));
    let profile = &document["objects"][0]["programs"][0]["profile"];
    assert_eq!(profile["processed_insns"], 131);
    assert_eq!(profile["lines"][0]["visits"], 64);
    let sum: u64 =
        profile["lines"].as_array().expect("lines").iter().filter_map(|l| l["processed_insns"].as_u64()).sum();
    assert_eq!(sum, 131);
}

#[test]
fn too_many_instructions_are_accounted_for() {
    let (_folder, path) = file(
        "endless.bpf",
        "; program xdp\n  r0 = 0\n  r1 = 0\nL1:\n  r1 += 1\n  r0 += r1\n  if r1 < 4000000 goto L1\n  r0 = 2\n  exit\n",
    );
    kiln()
        .arg("check")
        .arg(&path)
        .assert()
        .code(1)
        .stdout(contains("error[too-complex]").and(contains("1000000 of 1000000")).and(contains("hint:")));
}

#[test]
fn codes_are_explained_with_a_program_and_its_mended_form() {
    kiln()
        .args(["explain", "possibly-null"])
        .assert()
        .code(0)
        .stdout(contains("rejected:").and(contains("accepted:")).and(contains("call map_lookup_elem")));
    let document = document(kiln().args(["explain", "--format", "json"]));
    let rows = document.as_array().expect("rows");
    let in_c = rows.iter().filter(|row| row["rejected_c"].is_string() && row["mended_c"].is_string()).count();
    assert!(in_c >= 30, "{in_c} reasons and rules have an example in C");
    let with_examples = rows.iter().filter(|row| row["rejected"].is_string()).count();
    assert!(with_examples >= 25, "{with_examples} of {} reasons have an example", rows.len());
}

/// Places are slots wherever they are said: the constant takes two.
#[test]
fn what_is_not_supported_has_its_slot() {
    let to_one_of_two_slots = "r0 &= 8\n r3 = r10\n r3 += -16\n r3 += r0\n *(u64 *)(r3 + 0) = r10\n";
    let text = format!("; program xdp\n r1 = 5 ll\n call get_prandom_u32\n {to_one_of_two_slots} r0 = 2\n exit\n");
    let (_folder, path) = file("stored.bpf", &text);
    kiln().arg("check").arg(&path).assert().code(3).stdout(contains("(slot 7 of main)"));
}

/// What a kept state covers was processed, too: the profile has the verdict's figure.
#[test]
fn a_profile_counts_what_the_verdict_counts() {
    const FORKS: &str = "; program xdp\n  r7 = 0\nL1:\n  call get_prandom_u32\n  if r0 == 0 goto L2\n  r0 = 1\nL2:\n  \
                         r7 += 1\n  if r7 < 16 goto L1\n  r0 = 2\n  exit\n";
    let (_folder, path) = file("forks.bpf", FORKS);
    let document = document(kiln().arg("check").arg(&path).args(["--profile", "--format", "json"]));
    let program = &document["objects"][0]["programs"][0];
    let (verdict, profile) = (&program["verdict"], &program["profile"]);
    let sum: u64 =
        profile["lines"].as_array().expect("lines").iter().filter_map(|line| line["processed_insns"].as_u64()).sum();
    assert_eq!(
        (profile["processed_insns"].as_u64(), profile["processed_insns"].as_u64()),
        (verdict["processed_insns"].as_u64(), Some(sum))
    );
}

/// What `kiln explain` shows in C is judged as it says.
#[test]
fn examples_in_c_are_rejected_and_mended() {
    let document = document(kiln().args(["explain", "--format", "json"]));
    let folder = tempfile::tempdir().expect("a temporary folder");
    for row in document.as_array().expect("rows") {
        let code = row["code"].as_str().expect("a code");
        let more = row["more_c"].as_array().expect("more examples");
        let more = more.iter().flat_map(|one| [(&one["rejected"], 1), (&one["mended"], 0)]);
        let lint = row["kind"] == "lint";
        for (text, exit) in [(&row["rejected_c"], 1), (&row["mended_c"], 0)].into_iter().chain(more) {
            let Some(text) = text.as_str().filter(|_| !lint) else { continue };
            let (source, object) = (folder.path().join("example.c"), folder.path().join("example.o"));
            std::fs::write(&source, text).expect("a file");
            if !compile(&source, &object, &[]) {
                return;
            }
            let said = if exit == 1 { format!("error[{code}]") } else { "1 accepted".to_owned() };
            kiln().arg("check").arg(&object).assert().code(exit).stdout(contains(said));
        }
    }
}

/// A run of a rejected program says as much as a check of it.
#[test]
fn a_run_tells_the_story_too() {
    let (_folder, path) = file("around.bpf", AROUND_THE_CHECK);
    kiln().arg("run").arg(&path).args(["--packet", &"00".repeat(64)]).assert().code(1).stderr(
        contains("error[possibly-null]")
            .and(contains("1: bpf_map_lookup_elem returns"))
            .and(contains("= help: check it before this line")),
    );
}

/// A comparison with zero, a key that is too small, a kernel address and a walk over a packet: what is said of them.
#[test]
fn explanations_say_what_is_meant() {
    let small_key = "; map counters hash key 8 value 8 entries 16
; program xdp
  *(u32 *)(r10 - 4) = 0
  r1 = map[counters]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  r0 = 2
  exit
";
    let (_folder, path) = file("key.bpf", small_key);
    kiln()
        .arg("check")
        .arg(&path)
        .assert()
        .code(1)
        .stdout(contains("map `counters` has keys of 8 bytes, and what is passed has 4"));
    let kernel_address = "; license GPL
; program kprobe
  r1 = *(u64 *)(r1 + 112)
  r0 = *(u32 *)(r1 + 8)
  exit
";
    let (_folder, path) = file("address.bpf", kernel_address);
    kiln().arg("check").arg(&path).assert().code(1).stdout(contains("BPF_CORE_READ(pointer, field)"));
    let signed = "; map table array key 4 value 64 entries 1
; program xdp
  r6 = *(u32 *)(r1 + 12)
  *(u32 *)(r10 - 4) = 0
  r1 = map[table]
  r2 = r10
  r2 += -4
  call map_lookup_elem
  if r0 == 0 goto L1
  r6 <<= 32
  r6 s>>= 32
  if r6 s< 0 goto L2
  goto L1
L2:
  r0 += r6
  r0 = *(u8 *)(r0 + 0)
L1:
  r0 = 2
  exit
";
    let (_folder, path) = file("signed.bpf", signed);
    kiln().arg("check").arg(&path).assert().code(1).stdout(contains("it is -0x80000000 to -1"));
    let unrelated =
        AROUND_THE_CHECK.replace("  if r6 == 0 goto L1\n", "  r6 <<= 32\n  r6 s>>= 32\n  if r6 s< 0 goto L1\n");
    let (_folder, path) = file("branch.bpf", &unrelated);
    kiln().arg("check").arg(&path).assert().code(1).stdout(contains("the path where the number is negative"));
}

/// A helper that writes past a local variable, a chain of calls whose stack is too large, and a range without an end.
#[test]
fn sizes_and_limits_are_said_as_they_are_meant() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mistakes = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mistakes");
    for (name, said) in [
        ("local-too-small", "bpf_probe_read_user_str writes 64 bytes, and `fname` has 32 at most: pass sizeof(fname)"),
        ("key-too-small", "has keys of 8 bytes, and `key` has 4"),
        ("call-stack-too-large", "1: outer takes 300 bytes of stack"),
        ("call-stack-too-large", "move the largest local variable (300 bytes"),
        ("user-pointer-read", "bpf_probe_read_user"),
        ("field-as-key", "copy `ctx->ingress_ifindex` into a local variable, and pass its address"),
        ("map-of-wrong-type", "bpf_redirect_map is for maps of type devmap, cpumap, xskmap, devmap_hash"),
        ("packet-offset-unbounded", "bound the number before adding it: `if (offset > 1500) return XDP_PASS;`"),
        ("packet-walk", "earlier steps) "),
        ("packet-walk", "bound the loop"),
    ] {
        let object = folder.path().join("mistake.o");
        if !compile(&mistakes.join(name).with_extension("c"), &object, &[]) {
            return;
        }
        kiln().arg("check").arg(&object).assert().code(1).stdout(contains(said));
    }
    let unbounded = "; program xdp
  r6 = *(u32 *)(r1 + 12)
  r1 = r10
  r1 += -16
  *(u64 *)(r10 - 16) = 0
  *(u64 *)(r10 - 8) = 0
  r6 <<= 32
  r6 s>>= 32
  r1 += r6
  r0 = *(u8 *)(r1 + 0)
  exit
";
    let (_folder, path) = file("unbounded.bpf", unbounded);
    kiln().arg("check").arg(&path).assert().code(1).stdout(contains("18446744073709551").not());
}

/// The story and the help for the very case stay where releases are named.
#[test]
fn a_check_for_releases_tells_the_story_too() {
    let (_folder, path) = file("around.bpf", AROUND_THE_CHECK);
    kiln().arg("check").arg(&path).args(["--kernel", "5.15,6.1"]).assert().code(1).stdout(
        contains("on 5.15: error[possibly-null]")
            .and(contains("1: bpf_map_lookup_elem returns"))
            .and(contains("= help: check it before this line")),
    );
}

/// What bpftool printed of tests/mistakes/index-off-by-one.c, shortened, in front of another program's log.
const LOG: &str = "\
libbpf: prog 'pick': BPF program load failed: Permission denied
libbpf: prog 'pick': -- BEGIN PROG LOAD LOG --
; struct table *table = bpf_map_lookup_elem(&tables, &key); @ index-off-by-one.c:21
7: (85) call bpf_map_lookup_elem#1    ; R0=map_value_or_null(id=1,map=tables,ks=4,vs=128)
; if (!table) @ index-off-by-one.c:23
10: (15) if r1 == 0x0 goto pc+7       ; R1=map_value(map=tables,ks=4,vs=128)
; return table->slots[index] ? XDP_PASS : XDP_DROP; @ index-off-by-one.c:28
14: (0f) r1 += r2                     ; R1=map_value(map=tables,ks=4,vs=128,smin=0,smax=umax=128,var_off=(0x0; 0xf8))
15: (79) r1 = *(u64 *)(r1 +0)
invalid access to map value, value_size=128 off=128 size=8
R1 max value is outside of the allowed memory range
processed 15 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'other': -- BEGIN PROG LOAD LOG --
3: (71) r0 = *(u8 *)(r2 +14)
R2(id=0,off=14,r=0)
something that no kernel has said yet
Verification failed: memory: an unknown failure
Reason: This is the first sentence.
  And this the second.
Causal path:
  R2 changed
Suggestion: do otherwise
-- END PROG LOAD LOG --
libbpf: failed to load object 'p.o'
";

#[test]
fn a_kernels_log_is_explained_without_the_object() {
    let (_folder, log) = file("load.log", LOG);
    kiln().args(["explain", "--log"]).arg(&log).assert().success().stdout(
        contains("rejected by the kernel pick [map-value-out-of-bounds]: R1 max value is outside of")
            .and(contains("index-off-by-one.c:28  return table->slots[index]"))
            .and(contains("instruction 15: r1 = *(u64 *)(r1 +0)"))
            .and(contains("R1 is an address in a value of the map tables (128 bytes), moved by 0 to 128"))
            .and(contains("    index-off-by-one.c:23  if (!table)"))
            .and(contains("bound the index"))
            .and(contains("Kiln does not know this message."))
            .and(contains("its reason: This is the first sentence. And this the second."))
            .and(contains("it suggests: do otherwise")),
    );
    let all = document(kiln().args(["explain", "--format", "json", "--log"]).arg(&log));
    assert_eq!(all[0]["program"], "pick");
    assert_eq!(all[0]["slot"], 15);
    assert_eq!(all[1]["program"], "other");
    assert_eq!(all[1]["code"], Value::Null);
    assert_eq!(all[1]["account"]["headline"], "memory: an unknown failure");
}

#[test]
fn a_log_with_its_object_has_kilns_verdict_too() {
    let (folder, object) = file("around.bpf", AROUND_THE_CHECK);
    let log = folder.path().join("load.log");
    std::fs::write(&log, "10: (7a) *(u64 *)(r0 +0) = 1\nR0 invalid mem access 'map_value_or_null'\n").unwrap();
    let stdout =
        |command: &mut Command| String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap();
    let text = stdout(kiln().args(["explain", "--log"]).arg(&log).arg("--object").arg(&object));
    assert!(text.contains("rejected by the kernel [possibly-null]"), "{text}");
    assert!(text.contains("error[possibly-null]"), "{text}");
    // Without a name in the log, nothing else names the program.
    kiln().args(["explain", "--object"]).arg(&object).assert().code(2).stderr(contains("--log"));
}

#[test]
fn what_is_no_log_is_said_to_be_none() {
    for text in ["", "hello\n", "processed 3 insns\n", "0: R1=ctx() R10=fp0\n", "\u{1b}[2J", "1: (\n2: ()\n; @\n"] {
        let (_folder, log) = file("load.log", text);
        kiln().args(["explain", "--log"]).arg(&log).assert().code(2).stderr(contains("no log of a kernel's verifier"));
    }
    kiln().args(["explain", "possibly-null", "--log", "x"]).assert().code(2);
}

/// An index with a bound from above needs one from below, and no other.
#[test]
fn a_negative_index_is_compared_with_0() {
    let text = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 16); __type(key, __u32); __type(value, __u64[8]); } counts SEC(".maps");
SEC("tc") int prog(struct __sk_buff *skb)
{
	__u32 key = 0;
	__u64 *v = bpf_map_lookup_elem(&counts, &key);
	int i = skb->len;
	if (!v)
		return 0;
	if (i < 8)
		v[i]++;
	return 0;
}
char _license[] SEC("license") = "GPL";
"#;
    let (_folder, path) = file("index.c", text);
    let output = kiln().args(["check", "--fix", "--dry-run"]).arg(&path).output().expect("kiln runs");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    if shown.is_empty() {
        return eprintln!("skipped: no clang: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(shown.contains("prog is accepted with this change") && shown.contains("if (i < 0)"), "{shown}");
}

/// A place in a variable or in a map's value has no size and no type of its own, and a pointer is not compared with a number.
#[test]
fn places_in_variables_are_not_taken_for_them() {
    let head = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 16); __type(key, __u32); __type(value, __u64[8]); } counts SEC(".maps");
SEC("tc") int prog(struct __sk_buff *skb)
{
"#;
    for (body, said) in [
        ("char b[16] = {};\n\treturn bpf_skb_load_bytes(skb, 0, b + 4, 16);", "`b + 4` has 12 at most: pass 12"),
        (
            "__u32 key = 0;\n\t__u64 *v = bpf_map_lookup_elem(&counts, &key);\n\tif (!v)\n\t\treturn 0;\n\treturn bpf_map_update_elem(&counts, v + 8, v, 0);",
            "`v + 8` has 0 at most: pass a place with 4 bytes behind it",
        ),
    ] {
        let (_folder, path) =
            file("place.c", &format!("{head}\t{body}\n}}\nchar _license[] SEC(\"license\") = \"GPL\";\n"));
        let output = kiln().args(["check", "--fix", "--dry-run"]).arg(&path).output().expect("kiln runs");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        if String::from_utf8_lossy(&output.stderr).contains("clang") && shown.is_empty() {
            return eprintln!("skipped: no clang");
        }
        assert!(shown.contains(said), "{shown}{}", String::from_utf8_lossy(&output.stderr));
        assert!(!shown.contains("if (v "), "{shown}");
    }
}
