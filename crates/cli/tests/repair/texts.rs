//! `kiln repair` on programs that are written as text: each has one thing that a compiler makes now and then.

use crate::{kiln, repaired};

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
