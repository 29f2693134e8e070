//! Every forgery is refused, and the honest certificate is accepted.

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_certificate::check::{Chain, same_code};
use kiln_certificate::find;
use kiln_certificate::format::{Certificate, Edit, Proof, Stage};
use kiln_certificate::provenance::Arguments;
use kiln_certificate::relation::{Claim, Order, Place, Relation, Side};
use kiln_certificate::solver::{Process, Program};
use kiln_program::{FunctionId, Object, text};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The solver, if there is one.
fn program() -> Option<Program> {
    let found = Program::find(None, TIMEOUT);
    if let Err(why) = &found {
        eprintln!("skipped: {why}");
    }
    found.ok()
}

/// The certificate of one stage that is found for two listings.
fn certificate(program: &Program, before: &str, after: &str) -> Result<Certificate, String> {
    let objects = [before, after].map(|listing| text::parse(listing).expect("a listing"));
    let arguments = Arguments::of(&objects[0]);
    let mut proofs = BTreeMap::new();
    for number in 0..objects[0].functions.len() {
        let functions = [0, 1].map(|side: usize| &objects[side].functions[number]);
        if functions[0].nodes == functions[1].nodes {
            continue;
        }
        let mut solver = Process::new(program, TIMEOUT);
        let id = FunctionId(number as u32);
        let both = [&objects[0], &objects[1]];
        let (pairs, left_out, _) = find::certify(both, id, functions, &arguments, &mut solver, &|| false)?;
        proofs.insert(number as u32, Proof { pairs, left_out });
    }
    Ok(Certificate::of(vec![Stage { edits: find::difference(before, after), proofs }]))
}

/// What the checker says.
fn check(program: &Program, before: &str, certificate: &Certificate, after: &str) -> Result<(), String> {
    let certificate = Certificate::parse(&certificate.print())?;
    let chain = Chain::read(before, certificate, after)?;
    for verdict in chain.prove(vec![Process::new(program, TIMEOUT)], &|_, _| true) {
        verdict.outcome?;
    }
    Ok(())
}

/// A loop over counters, with a call, a spilled value, a field of the context and a mask that is not needed.
const BEFORE: &str = "\
; map counts array key 4 value 8 entries 8
; map other array key 4 value 8 entries 8
; program xdp
; insn 0
  r6 = r1
; insn 1
  w2 = *(u32 *)(r6 + 0x10)
; insn 2
  w2 &= 0x7
; insn 3
  w7 = w2
; insn 4
  w7 &= 0xf
; insn 5
  r8 = 0
L1:
; insn 6
  *(u32 *)(r10 - 0x4) = w7
; insn 7
  r2 = r10
; insn 8
  r2 += -4
; insn 9
  r1 = map[counts]
; insn 10
  call map_lookup_elem
; insn 11
  if r0 == 0x0 goto L2
; insn 12
  r1 = *(u64 *)(r0 + 0x0)
; insn 13
  r1 += 0x1
; insn 14
  *(u64 *)(r0 + 0x0) = r1
L2:
; insn 15
  r8 += 0x1
; insn 16
  if r8 != 0x4 goto L1
; insn 17
  r0 = 0x2
; insn 18
  exit
";

/// The same loop without the mask.
fn after() -> String {
    without(BEFORE, "; insn 4\n  w7 &= 0xf\n")
}

fn without(listing: &str, line: &str) -> String {
    assert!(listing.contains(line), "{line}");
    listing.replacen(line, "", 1)
}

fn with(listing: &str, old: &str, new: &str) -> String {
    assert!(listing.contains(old), "{old}");
    listing.replacen(old, new, 1)
}

#[test]
fn an_honest_certificate_is_accepted() {
    let Some(program) = program() else { return };
    let certificate = certificate(&program, BEFORE, &after()).expect("it is found");
    assert_eq!(check(&program, BEFORE, &certificate, &after()), Ok(()));
    assert_eq!(Certificate::parse(&certificate.print()).as_ref(), Ok(&certificate));
}

/// Any instruction of the optimized listing: helper, map, immediate, offset, register, branch target, order.
#[test]
fn a_changed_instruction_is_refused() {
    let Some(program) = program() else { return };
    let honest = certificate(&program, BEFORE, &after()).expect("it is found");
    let changes = [
        ("call map_lookup_elem", "call map_delete_elem"),
        ("map[counts]", "map[other]"),
        ("r0 = 0x2", "r0 = 0x1"),
        ("r8 != 0x4", "r8 != 0x5"),
        ("r6 + 0x10", "r6 + 0xc"),
        ("*(u64 *)(r0 + 0x0) = r1", "*(u32 *)(r0 + 0x0) = r1"),
        ("*(u32 *)(r10 - 0x4) = w7", "*(u32 *)(r10 - 0x4) = w8"),
        ("w2 &= 0x7", "w2 &= 0x3"),
        ("r1 += 0x1", "r1 += 0x2"),
        ("if r0 == 0x0 goto L2", "if r0 == 0x0 goto L1"),
        ("if r0 == 0x0 goto L2", "if r0 != 0x0 goto L2"),
        ("r8 = 0", "r8 = 1"),
        ("r2 += -4", "r2 += -8"),
        ("  *(u64 *)(r0 + 0x0) = r1\n", ""),
    ];
    for (old, new) in changes {
        let forged = with(&after(), old, new);
        // Only the optimized listing: the chain does not end there.
        let refused = check(&program, BEFORE, &honest, &forged).expect_err(new);
        assert!(refused.contains("does not end at"), "{new}: {refused}");
        // The chain as well: the proof does not hold of it.
        let edits = find::difference(BEFORE, &forged);
        let stages = vec![Stage { edits, ..honest.stages[0].clone() }];
        check(&program, BEFORE, &Certificate::of(stages), &forged).expect_err(new);
        // And no other proof is found.
        certificate(&program, BEFORE, &forged).expect_err(new);
    }
}

fn forged(honest: &Certificate, forge: impl FnOnce(&mut Stage)) -> Certificate {
    let mut certificate = honest.clone();
    forge(&mut certificate.stages[0]);
    assert_ne!(&certificate, honest, "the forgery changes nothing");
    certificate
}

fn relations(stage: &mut Stage) -> &mut BTreeMap<(u32, u32), Relation> {
    &mut stage.proofs.get_mut(&0).expect("a proof").pairs
}

/// Claims that are weaker or stronger than what holds.
#[test]
fn a_forged_relation_is_refused() {
    let Some(program) = program() else { return };
    let listing = without(&after(), "; insn 2\n  w2 &= 0x7\n");
    // Without the other mask the key differs: an honest proof cannot be found, whatever is claimed.
    certificate(&program, BEFORE, &listing).expect_err("it does something else");
    let honest = certificate(&program, BEFORE, &after()).expect("it is found");
    let moved = Certificate::of(vec![Stage { edits: find::difference(BEFORE, &listing), ..honest.stages[0].clone() }]);
    let invented: [(&str, Claim); 4] = [
        ("a range", Claim::Range(Place::Register(Side::New, 7), Order::Unsigned, 0, 7)),
        ("known bits", Claim::Bits(Place::Register(Side::New, 7), !7, 0)),
        ("a constant", Claim::Bits(Place::Register(Side::New, 7), u64::MAX, 3)),
        ("what is never", Claim::Range(Place::Register(Side::Old, 7), Order::Unsigned, 1, 0)),
    ];
    for (what, claim) in invented {
        let at_each = |stage: &mut Stage| relations(stage).values_mut().for_each(|own| own.claims.push(claim));
        let refused = check(&program, BEFORE, &forged(&moved, at_each), &listing).expect_err(what);
        assert!(refused.contains("differ"), "{what}: {refused}");
        // If the entry is claimed to be a meeting pair, the arguments of both functions stay fixed.
        let mut at_entry = forged(&moved, at_each);
        let weak = Relation { equal: 0, claims: vec![claim], ..Relation::default() };
        relations(&mut at_entry.stages[0]).insert((0, 0), weak);
        check(&program, BEFORE, &at_entry, &listing).expect_err(what);
    }
    // An emptied postcondition is an emptied precondition of what follows.
    let emptied = forged(&honest, |stage| relations(stage).values_mut().for_each(|own| *own = Relation::default()));
    check(&program, BEFORE, &emptied, &after()).expect_err("nothing is claimed");
    let differing = forged(&honest, |stage| relations(stage).values_mut().for_each(|own| own.differ.extend(-8..0)));
    // That the key differs is no more than claimed: it is written before the call.
    let _ = check(&program, BEFORE, &differing, &after());
}

/// A path or a pair that is missing.
#[test]
fn a_missing_pair_makes_paths_longer_and_not_fewer() {
    let Some(program) = program() else { return };
    let honest = certificate(&program, BEFORE, &after()).expect("it is found");
    let none = forged(&honest, |stage| relations(stage).clear());
    let endless = BEFORE.replace("r8 != 0x4", "r8 != r6");
    let stages = vec![Stage { edits: find::difference(&endless, &after()), ..none.stages[0].clone() }];
    check(&program, &endless, &Certificate::of(stages), &after()).expect_err("another loop");
    let without_loop = check(&program, BEFORE, &none, &after());
    assert!(without_loop.is_err_and(|why| why.contains("without a meeting pair")), "a loop has no pair");
    let outside = forged(&honest, |stage| drop(relations(stage).insert((99, 0), Relation::default())));
    let refused = check(&program, BEFORE, &outside, &after()).expect_err("there is no such place");
    assert!(refused.contains("there is no pair (99, 0)"), "{refused}");
    let gone = forged(&honest, |stage| stage.proofs.clear());
    let refused = check(&program, BEFORE, &gone, &after()).expect_err("a proof is missing");
    assert!(refused.contains("changed without a proof"), "{refused}");
}

/// The chain: stages left out, doubled, exchanged; listings exchanged or of another object.
#[test]
fn a_broken_chain_is_refused() {
    let Some(program) = program() else { return };
    let middle = after();
    let last = with(&middle, "; insn 5\n  r8 = 0\n", "; insn 5\n  w8 = 0\n");
    let stages = [certificate(&program, BEFORE, &middle), certificate(&program, &middle, &last)];
    let stages: Vec<Stage> = stages.into_iter().flat_map(|own| own.expect("it is found").stages).collect();
    let chain = |stages: &[&Stage]| Certificate::of(stages.iter().map(|stage| (*stage).clone()).collect());
    let [first, second] = [&stages[0], &stages[1]];
    assert_eq!(check(&program, BEFORE, &chain(&[first, second]), &last), Ok(()));
    for broken in [&[first][..], &[second], &[second, first], &[first, first, second], &[first, second, second], &[]] {
        check(&program, BEFORE, &chain(broken), &last).expect_err("the chain is broken");
    }
    check(&program, &last, &chain(&[first, second]), BEFORE).expect_err("exchanged");
    // A stage that does nothing proves nothing.
    let idle = Stage { edits: vec![Edit::Keep(last.lines().count())], proofs: second.proofs.clone() };
    let refused = check(&program, BEFORE, &chain(&[first, second, &idle]), &last).expect_err("nothing changed");
    assert!(refused.contains("did not change"), "{refused}");
    // Maps are no instructions.
    let mapped =
        with(&last, "; map counts array key 4 value 8 entries 8", "; map counts array key 4 value 8 entries 4");
    let stages = vec![first.clone(), Stage { edits: find::difference(&middle, &mapped), ..second.clone() }];
    let refused = check(&program, BEFORE, &Certificate::of(stages), &mapped).expect_err("a map changed");
    assert!(refused.contains("something else than instructions"), "{refused}");
}

/// The ends of the chain are compared with objects, instruction by instruction.
#[test]
fn another_object_is_told() {
    let objects = [BEFORE, &after(), &with(BEFORE, "map[counts]", "map[other]")];
    let objects = objects.map(|listing| text::parse(listing).expect("a listing"));
    assert_eq!(same_code(&objects[0], &objects[0]), Ok(()));
    same_code(&objects[0], &objects[1]).expect_err("an instruction less");
    same_code(&objects[0], &objects[2]).expect_err("another map");
}

/// One change of everything that an object says besides its instructions.
const METADATA: &str = "\
; license GPL
; version 3
; map table array key 4 value 8 entries 8 extra 1 pinned key_btf 1 value_btf 2
; map outer array_of_maps key 4 value 4 entries 2
; inner template array key 4 value 8 entries 2
; map .rodata array key 4 value 4 entries 1 flags 0x80 rodata 01020304
; extern bpf_rdonly_cast kfunc btf 4
; program xdp name first section xdp
; function first global section xdp btf 2
  call helped
  exit
; function helped static section .text btf 3
  r0 = 0
  exit
; btf 9feb0100180000000000000000000000000000000100000000
";

#[test]
fn another_frame_of_an_object_is_told() {
    let object = text::parse(METADATA).expect("a listing");
    assert_eq!(same_code(&object, &object), Ok(()));
    let changes: [(&str, fn(&mut Object)); 29] = [
        ("license", |object| object.license = "MIT".to_owned()),
        ("version", |object| object.kernel_version = 4),
        ("a byte of the types", |object| object.btf.as_mut().expect("types")[24] = 1),
        ("no types", |object| object.btf = None),
        ("a map's name", |object| object.maps[0].name = "other".to_owned()),
        ("a map's type", |object| object.maps[0].map_type = kiln_platform::MapType::Hash),
        ("key size", |object| object.maps[0].key_size = 8),
        ("value size", |object| object.maps[0].value_size = 4),
        ("entries", |object| object.maps[0].max_entries = 9),
        ("flags", |object| object.maps[0].flags = 1),
        ("map_extra", |object| object.maps[0].extra = 2),
        ("pinning", |object| object.maps[0].pinned_by_name = false),
        ("key type", |object| object.maps[0].key_btf = 2),
        ("value type", |object| object.maps[0].value_btf = 1),
        ("an inner map's size", |object| object.maps[1].inner.as_mut().expect("a template").max_entries = 3),
        ("no inner map", |object| object.maps[1].inner = None),
        ("contents", |object| object.maps[2].contents = kiln_program::MapContents::ReadOnly(vec![1, 2, 3, 5])),
        ("a map more", |object| object.maps.push(object.maps[0].clone())),
        ("an extern", |object| object.externs[0].name = "bpf_cast_to_kern_ctx".to_owned()),
        ("a weak extern", |object| object.externs[0].weak = true),
        ("an extern's type", |object| object.externs[0].btf_id = 5),
        ("program type", |object| object.programs[0].program_type = Some(kiln_platform::ProgramType::SchedCls)),
        ("a program's section", |object| object.programs[0].section = "xdp.frags".to_owned()),
        ("frags", |object| object.programs[0].frags = true),
        ("sleepable", |object| object.programs[0].sleepable = true),
        ("autoload", |object| object.programs[0].autoload = false),
        ("target", |object| object.programs[0].target = Some("a_function".to_owned())),
        ("linkage", |object| object.functions[1].linkage = kiln_program::Linkage::Global),
        ("a function's type", |object| object.functions[1].btf_id = 2),
    ];
    for (what, change) in changes {
        let mut other = object.clone();
        change(&mut other);
        assert_ne!(object, other, "{what}: nothing is changed");
        same_code(&object, &other).expect_err(what);
        same_code(&other, &object).expect_err(what);
    }
}

/// A global function may become static where no instruction changes. No other linkage changes.
#[test]
fn a_function_becomes_static_alone() {
    let linked = |linkage: &str| METADATA.replace("helped static", &format!("helped {linkage}"));
    let [global, weak] = ["global", "weak"].map(linked);
    let read = |before: &str, after: &str, proofs: BTreeMap<u32, Proof>| {
        let stage = Stage { edits: find::difference(before, after), proofs };
        Chain::read(before, Certificate::of(vec![stage]), after).map(|chain| chain.steps())
    };
    assert_eq!(read(&global, METADATA, BTreeMap::new()), Ok(0));
    for (before, after) in [(METADATA, global.as_str()), (&weak, METADATA), (&global, &weak)] {
        read(before, after, BTreeMap::new()).expect_err("another linkage");
    }
    let other = METADATA.replace("  r0 = 0", "  r0 = 1");
    let proofs = || BTreeMap::from([(1, Proof::default())]);
    assert_eq!(read(METADATA, &other, proofs()), Ok(1));
    let refused = read(&global, &other, proofs()).expect_err("both at once");
    assert!(refused.contains("linkage and instructions at once"), "{refused}");
}

/// Damaged certificates are refused, and none makes the checker panic.
#[test]
fn a_damaged_certificate_is_refused() {
    let Some(program) = program() else { return };
    let text = certificate(&program, BEFORE, &after()).expect("it is found").print();
    for cut in 0..text.len() - 1 {
        Certificate::parse(&text[..cut]).expect_err("it is cut off");
    }
    for end in ["\nend\nend\n", "\nstage\n"] {
        Certificate::parse(&format!("{}{end}", text.trim_end())).expect_err("something follows");
    }
    let bound =
        |digest: &str| Certificate::parse(&with(&text, "stage\n", &format!("bind original.bpf {digest}\nstage\n")));
    let digest = "0123456789abcdef".repeat(4);
    let read = bound(&digest).expect("a digest");
    assert_eq!(read.bound.get("original.bpf"), Some(&digest));
    assert_eq!(Certificate::parse(&read.print()), Ok(read));
    for wrong in [&digest[1..], &digest.replace('f', "g"), &format!("{digest}\nbind original.bpf {digest}"), ""] {
        bound(wrong).expect_err(wrong);
    }
    for line in
        ["pair 1", "pair x 2", "pair 1 2 same o3", "pair 1 2 bits z3 0 0", "pair 1 2 equal 10", "keep x", "what"]
    {
        Certificate::parse(&with(&text, "end\n", &format!("{line}\nend\n"))).expect_err(line);
    }
    let wide = Certificate::parse(&with(&text, "end\n", "pair 1 1 bits o12 0 0\nend\n")).expect("it is one");
    check(&program, BEFORE, &wide, &after()).expect_err("there is no R12");
    let huge = Stage { edits: vec![Edit::Keep(usize::MAX)], proofs: BTreeMap::new() };
    check(&program, BEFORE, &Certificate::of(vec![huge]), &after()).expect_err("longer than the listing");
}

/// Two lines of a certificate can describe a listing of any length, and every listing is stored: a folder of 700 bytes
/// took more memory than a machine has.
#[test]
fn a_chain_of_many_long_listings_is_refused() {
    const LINES: usize = 200_000;
    let listing = format!("; program xdp\n{}  exit\n", "  r0 = 1\n".repeat(LINES));
    let same = Stage { edits: vec![Edit::Keep(LINES + 2)], proofs: BTreeMap::new() };
    let chain = |stages: usize| Certificate::of(vec![same.clone(); stages]);
    Chain::read(&listing, chain(2), &listing).expect("two are few");
    let refused = Chain::read(&listing, chain(4000), &listing).err().expect("4000 are too many");
    assert!(refused.contains("MAX_CHAIN"), "{refused}");
}

/// Two optimizations that were wrong: no certificate is found for either.
#[test]
// long: the programs are written out
fn wrong_optimizations_have_no_certificate() {
    let Some(program) = program() else { return };
    // A stale fact travels through a copy: `w4 &= 7` goes because R4 was 0.
    let stale = "\
; map arr array key 4 value 64 entries 2
; map .data array key 4 value 64 entries 1 data 00
; program xdp
; insn 0
  w1 = *(u32 *)(r1 + 0x10)
; insn 1
  r4 = 0
; insn 2
  r5 = 1
; insn 3
  r9 = map_value[.data] + 0
; insn 4
  r5 <<= 0x2c
; insn 5
  w5 -= w4
; insn 6
  r4 = r5
; insn 7
  w4 &= 0x7
; insn 8
  r5 = *(u64 *)(r9 + 0x0)
; insn 9
  *(u16 *)(r9 + 0x2) = w4
; insn 10
  if r1 == r5 goto J
; insn 11
  r4 = *(u64 *)(r9 + 0x8)
J:
; insn 12
  r4 = bswap64 r4
; insn 13
  w0 = w4
; insn 14
  exit
";
    let wrong = without(&without(stale, "; insn 5\n  w5 -= w4\n"), "; insn 7\n  w4 &= 0x7\n");
    certificate(&program, stale, &wrong).expect_err("a stale fact");
    // Two masks, each justified by the other.
    let masks = "\
; program xdp
; insn 0
  r6 = *(u32 *)(r1 + 0x10)
; insn 1
  r7 = *(u32 *)(r1 + 0xc)
; insn 2
  r2 = r6
; insn 3
  r2 &= 0x7
; insn 4
  r3 = 0
; insn 5
  if r7 > 0x80 goto J
; insn 6
  r3 = r2
; insn 7
  r3 &= 0x7
J:
; insn 8
  r3 *= r3
; insn 9
  r2 &= 0x1
; insn 10
  if r2 == 0 goto K
; insn 11
  r3 += 0x10
K:
; insn 12
  r0 = r3
; insn 13
  exit
";
    for one in ["; insn 3\n  r2 &= 0x7\n", "; insn 7\n  r3 &= 0x7\n"] {
        certificate(&program, masks, &without(masks, one)).expect("one of them may go");
    }
    let wrong = without(&without(masks, "; insn 3\n  r2 &= 0x7\n"), "; insn 7\n  r3 &= 0x7\n");
    certificate(&program, masks, &wrong).expect_err("both may not");
}

/// Numbers the instructions of a listing, as the optimizer does.
fn numbered(lines: &[&str]) -> String {
    let mut text = String::from("; map .data array key 4 value 64 entries 1 data 00\n; program socket_filter\n");
    for (number, line) in lines.iter().enumerate() {
        text += &match line.ends_with(':') || line.starts_with(';') {
            true => format!("{line}\n"),
            false => format!("; insn {number}\n  {line}\n"),
        };
    }
    text
}

#[test]
fn a_packet_load_reads_at_the_same_place() {
    let Some(program) = program() else { return };
    let listing = |sum: &str, load: &str| {
        let lines = ["r6 = r1", "r7 = *(u32 *)(r6 + 0x0)", sum, load, "exit"];
        numbered(&lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>())
    };
    let before = listing("r7 += 6", "r0 = *(u8 *)skb[r7]");
    certificate(&program, &before, &listing("", "r0 = *(u8 *)skb[r7 + 0x6]")).expect("another split of one sum");
    certificate(&program, &before, &listing("", "r0 = *(u8 *)skb[r7 + 0x7]")).expect_err("another byte");
    certificate(&program, &before, &listing("", "r0 = *(u16 *)skb[r7 + 0x6]")).expect_err("another width");
}

#[test]
fn a_loops_counter_is_compared_whole() {
    let Some(program) = program() else { return };
    let listing = |first: &str, compared: &str| {
        let last = format!("if {compared} != 0x80 goto L1");
        numbered(&[
            first,
            "r2 = map_value[.data] + 0",
            "L1:",
            "r3 = *(u64 *)(r2 + 0x0)",
            "r3 += r1",
            "*(u64 *)(r2 + 0x0) = r3",
            "r1 += 0x4",
            &last,
            "r0 = 0",
            "exit",
        ])
    };
    let narrow = |first: &str| certificate(&program, &listing(first, "r1"), &listing(first, "w1"));
    narrow("r1 = 4").expect("a counter that stays below 0x80");
    narrow("r1 = 0x100000004 ll").expect_err("a counter that never comes to 0x80, but its lower half does");
    narrow("r1 = *(u32 *)(r1 + 0x0)").expect_err("a counter that may carry into its upper half");
}

#[test]
fn a_field_may_be_wider_on_another_kernel() {
    let Some(program) = program() else { return };
    let listing = |core: &[&str], shifts: &[&str]| {
        let (begin, end) = (["r9 = map_value[.data] + 0"], ["*(u64 *)(r9 + 0x10) = r1", "r0 = 0", "exit"]);
        let lines = begin.iter().chain(core).chain(&["w1 = *(u32 *)(r9 + 0x8)"]).chain(shifts).chain(&end);
        numbered(&lines.copied().collect::<Vec<_>>())
    };
    let (shifts, core) = (["r1 <<= 0x20", "r1 >>= 0x20"], ["; core 3 \"0:1\" 0"]);
    certificate(&program, &listing(&[], &shifts), &listing(&[], &[])).expect("four bytes, always");
    certificate(&program, &listing(&core, &shifts), &listing(&core, &[])).expect_err("libbpf may load eight bytes");
}

/// What a function is handed lies in no frame of its own, but may be a number that is taken from an address there.
#[test]
fn arguments_do_not_lie_in_the_own_frame() {
    let Some(program) = program() else { return };
    let listing = |body: &[&str]| {
        let callee = ["; function helped global section .text"];
        numbered(&[&["call helped", "r0 = 0", "exit"], &callee[..], body].concat())
    };
    let read = ["*(u64 *)(r10 - 0x8) = 5", "r0 = *(u64 *)(r1 + 0x0)", "exit"];
    let dropped = |lines: &[&str]| listing(lines).replacen("  *(u64 *)(r10 - 0x8) = 5\n", "", 1);
    certificate(&program, &listing(&read), &dropped(&read)).expect("the argument reads nothing of the frame");
    let key = ["r2 = r10", "r2 -= r1", "r1 = map[.data]", "call map_lookup_elem", "r0 = 0", "exit"];
    let key = [&read[..1], &key[..]].concat();
    certificate(&program, &listing(&key), &dropped(&key)).expect_err("the key may be what was stored");
    let exchanged = ["*(u64 *)(r10 - 0x10) = r10", "r2 = 0", "r2 = xchg_64(r10 - 0x10, r2)", "r2 += r1"];
    let key = [&key[..1], &exchanged[..], &key[3..]].concat();
    certificate(&program, &listing(&key), &dropped(&key)).expect_err("an address that was exchanged");
}

/// What memory holds after a store at an unknown address depends on all that it and the frame held before. Written out,
/// it doubled with each store: 30 of them took all memory.
#[test]
fn stores_at_unknown_addresses_take_little_memory() {
    let Some(program) = program() else { return };
    let listing = |stores| {
        let mut lines = vec!["r6 = r1", "w7 = *(u32 *)(r6 + 0x10)", "w7 &= 0x7", "w7 &= 0xf"];
        for _ in 0..stores {
            lines.extend(["r2 = *(u64 *)(r10 - 0x8)", "*(u64 *)(r2 + 0x0) = r7"]);
        }
        lines.extend(["r0 = *(u64 *)(r10 - 0x8)", "exit"]);
        let before = numbered(&lines);
        let after = without(&before, "; insn 3\n  w7 &= 0xf\n");
        (before, after)
    };
    let (before, after) = listing(32);
    let honest = certificate(&program, &before, &after).expect("a certificate");
    check(&program, &before, &honest, &after).expect("it is accepted");
    let (before, after) = listing(2);
    assert!(certificate(&program, &before, &with(&after, "w7 &= 0x7", "w7 &= 0x3")).is_err());
}

/// Bytes at an address that is in the packet on one path and in the frame on the other.
#[test]
fn loads_anywhere_are_loads_of_their_bytes() {
    let Some(program) = program() else { return };
    let listing = |loads: &[&str]| {
        let begin = [
            "r2 = *(u32 *)(r1 + 0x0)",
            "r4 = *(u32 *)(r1 + 0x4)",
            "*(u64 *)(r10 - 0x8) = r4",
            "r3 = r2",
            "r3 += 0x8",
            "if r3 <= r4 goto L1",
            "r2 = r10",
            "r2 += -0x8",
            "L1:",
        ];
        numbered(&begin.into_iter().chain(loads.iter().copied()).chain(["exit"]).collect::<Vec<_>>())
    };
    let joined = |first: &str, second: &str| {
        let (first, second) = (format!("r0 = *(u8 *)(r2 + {first})"), format!("r5 = *(u8 *)(r2 + {second})"));
        listing(&[&first, &second, "r5 <<= 0x8", "r0 |= r5"])
    };
    let loaded = |load: &str| listing(&[load]);
    let before = joined("0x2", "0x3");
    certificate(&program, &before, &loaded("r0 = *(u16 *)(r2 + 0x2)")).expect("both bytes at once");
    certificate(&program, &before, &loaded("r0 = *(u16 *)(r2 + 0x3)")).expect_err("another address");
    certificate(&program, &before, &loaded("r0 = *(u32 *)(r2 + 0x2)")).expect_err("more bytes");
    certificate(&program, &before, &loaded("r0 = *(s16 *)(r2 + 0x2)")).expect_err("an extended sign");
    certificate(&program, &joined("0x3", "0x2"), &loaded("r0 = *(u16 *)(r2 + 0x2)")).expect_err("another order");
    let stored = listing(&["*(u8 *)(r2 + 0x3) = 1", "r0 = *(u16 *)(r2 + 0x2)"]);
    let stale = listing(&["r0 = *(u16 *)(r2 + 0x2)", "*(u8 *)(r2 + 0x3) = 1"]);
    certificate(&program, &stored, &stale).expect_err("a load before a store into it");
    // 32 bits at such an address may be a field of a context, which is wider in the register than two halves.
    let there = |loads: &[&str]| {
        let begin = ["r2 = r1", "r3 = *(u32 *)(r1 + 0x0)", "if r3 == 0x0 goto L1", "r2 = r10", "r2 += -0x8", "L1:"];
        numbered(&begin.into_iter().chain(loads.iter().copied()).chain(["exit"]).collect::<Vec<_>>())
    };
    let halves = ["r0 = *(u16 *)(r2 + 0x0)", "r5 = *(u16 *)(r2 + 0x2)", "r5 <<= 0x10", "r0 |= r5"];
    certificate(&program, &there(&halves), &there(&["r0 = *(u32 *)(r2 + 0x0)"])).expect_err("a field of a context");
}

/// A slice of a dynptr is outside of the frame or in the buffer that it may be copied to: what is below the buffer is not
/// read through it.
#[test]
fn a_slice_is_not_in_the_frame_below_its_buffer() {
    let Some(program) = program() else { return };
    let listing = |kfunc: &str, stored: &str, accesses: &[&str]| {
        let begin = ["r7 = *(u32 *)(r1 + 0x8)", "r1 = r10", "r1 += -0x40", "w2 = 0", "r3 = r10", "r3 += -0x20"];
        let call = ["w4 = 0x10", kfunc, "if r0 == 0x0 goto L1", stored];
        let lines = begin.into_iter().chain(call).chain(accesses.iter().copied());
        let text = numbered(&lines.chain(["r0 = r2", "L1:", "exit"]).collect::<Vec<_>>());
        format!("; extern bpf_dynptr_slice kfunc\n; extern bpf_rdonly_cast kfunc\n{text}")
    };
    let slice = "call kfunc[bpf_dynptr_slice]";
    let says = |kfunc: &str, place: &str, accesses: &[&str]| {
        let [before, after] =
            ["r7", "0"].map(|value| listing(kfunc, &format!("*(u64 *)(r10 - {place}) = {value}"), accesses));
        certificate(&program, &before, &after).and_then(|own| check(&program, &before, &own, &after))
    };
    let load = ["r2 = *(u8 *)(r0 + 0x4)"];
    says(slice, "0x28", &load).expect("below the buffer");
    says(slice, "0x28", &["r0 += r7", load[0]]).expect("another place of the slice");
    says(slice, "0x20", &load).expect_err("the buffer's first byte");
    says(slice, "0x10", &load).expect_err("above the buffer");
    says("call kfunc[bpf_rdonly_cast]", "0x28", &load).expect_err("what another function returns");
    let stores = ["*(u8 *)(r0 + 0x4) = 1", "r2 = *(u64 *)(r10 - 0x28)"];
    says(slice, "0x28", &stores).expect_err("a load of the bytes after a store through the slice");
}

/// A copy of an access through a context that a number moves, with a distance in the offset instead of in the pointer.
#[test]
fn a_copy_of_an_access_is_at_the_same_address() {
    let Some(program) = program() else { return };
    let begin = ["r4 = *(u32 *)(r1 + 0x10)", "r3 = r1"];
    let access = ["r3 += r4", "r0 = *(u32 *)(r3 + 0x0)", "exit"];
    let copies = |branch: &str, copy: [&str; 3]| {
        let lines = begin.into_iter().chain([branch]).chain(access).chain(["L1:"]).chain(copy).chain(["exit"]);
        numbered(&lines.collect::<Vec<_>>())
    };
    let before = numbered(&begin.into_iter().chain(access).collect::<Vec<_>>());
    let says = |branch: &str, copy: [&str; 3]| certificate(&program, &before, &copies(branch, copy));
    let (branch, add, less, load) = ("if r4 == 0x4 goto L1", "r3 += r4", "r3 += -4", "r0 = *(u32 *)(r3 + 0x4)");
    says(branch, [add, less, load]).expect("the same address");
    says("if r4 == 0x8 goto L1", [add, less, load]).expect("the same address, whatever the number is");
    says(branch, [add, less, "r0 = *(u32 *)(r3 + 0x8)"]).expect_err("another offset");
    says(branch, [add, "r3 += -8", load]).expect_err("another distance");
    says(branch, ["r3 -= r4", less, load]).expect_err("the number subtracted");
    says(branch, [add, less, "r0 = *(u16 *)(r3 + 0x4)"]).expect_err("another size");
    says(branch, [add, less, "r0 = *(u32 *)(r1 + 0x4)"]).expect_err("another pointer");
}

/// A store through a context that a number moves may be to any of its fields.
#[test]
fn a_field_is_not_what_it_was_before_a_store_through_a_moved_context() {
    let Some(program) = program() else { return };
    let listing = |accesses: &[&str]| {
        let begin = ["r4 = *(u32 *)(r1 + 0x10)", "r3 = r1", "r3 += r4", "w5 = 7"];
        numbered(&begin.into_iter().chain(accesses.iter().copied()).chain(["exit"]).collect::<Vec<_>>())
    };
    let (store, load) = ("*(u32 *)(r3 + 0x0) = r5", "r0 = *(u32 *)(r1 + 0xc)");
    let before = listing(&[store, load]);
    certificate(&program, &before, &listing(&["*(u32 *)(r3 + 0x0) = 7", load])).expect("the same store");
    certificate(&program, &before, &listing(&[load, store])).expect_err("a load before a store into it");
    certificate(&program, &before, &listing(&["*(u32 *)(r3 + 0x4) = r5", load])).expect_err("another address");
}

/// A block that only jumps on, to which no branch leads any more.
#[test]
fn blocks_that_only_jump_are_no_meeting_places() {
    let Some(program) = program() else { return };
    let lines = |[first, second]: [&str; 2], between: &[&str]| {
        let begin = [
            "r2 = *(u32 *)(r1 + 0x8)",
            "r9 = map_value[.data] + 0",
            first,
            "r2 = *(u32 *)(r1 + 0xc)",
            second,
            "*(u64 *)(r9 + 0x0) = r2",
        ];
        let end = ["L2:", "*(u64 *)(r9 + 0x8) = r2", "r0 = 0", "exit"];
        numbered(&begin.into_iter().chain(between.iter().copied()).chain(end).collect::<Vec<_>>())
    };
    let before = lines(["if r2 > 0x5 goto L1", "if r2 > 0x7 goto L1"], &["goto L2", "L1:", "goto L2"]);
    let after = lines(["if r2 > 0x5 goto L2", "if r2 > 0x7 goto L2"], &[]);
    certificate(&program, &before, &after).expect("branches lead to where the jump led");
}

/// What held an address in a packet, which is never among the last 4 GiB, holds a number now.
#[test]
fn what_was_an_address_in_a_packet_may_be_any_number() {
    let Some(program) = program() else { return };
    let listing = |between: &[&str], branch: &[&str]| {
        let begin = ["r6 = r1", "r9 = map_value[.data] + 0", "r7 = *(u32 *)(r6 + 0x0)", "*(u64 *)(r10 - 0x8) = r7"];
        let meet = ["r3 = 0xffffffff00000000 ll", "r8 = 3", "L1:", "r8 += -1", "if r8 != 0x0 goto L1"];
        let end = ["r0 = 0x1", "exit"];
        let lines = begin.iter().chain(between).chain(&meet).chain(branch).chain(&end);
        numbered(&lines.copied().collect::<Vec<_>>()).replace("socket_filter", "xdp")
    };
    let branch = ["if r7 < r3 goto L2", "r0 = 0x2", "exit", "L2:"];
    let reload = "r7 = *(u64 *)(r10 - 0x8)";
    certificate(&program, &listing(&[reload], &branch), &listing(&[reload], &[])).expect("an address in a packet");
    let (number, large) = ("r5 = *(u32 *)(r9 + 0x0)", "r5 <<= 0x20");
    for between in [
        // A helper fills the slot.
        &["r1 = r6", "r2 = 0", "r3 = r10", "r3 += -8", "r4 = 8", "call xdp_load_bytes", reload][..],
        // A store to some slot.
        &[number, large, "r4 = r5", "r4 &= 8", "r2 = r10", "r2 -= r4", "*(u64 *)(r2 - 0x8) = r5", reload],
        &[number, large, "r5 = xchg_64(r10 - 0x8, r5)", reload],
        &[number, large, "store_release((u64 *)(r10 - 0x8), r5)", reload],
        // The packet is another one, so the verifier takes the old address for a number.
        &["r1 = r6", "r2 = 0", "call xdp_adjust_head", number, large, "r7 += r5"],
        &["r1 = r6", "r2 = 0", "call xdp_adjust_head", reload, number, large, "r7 += r5"],
    ] {
        certificate(&program, &listing(between, &branch), &listing(between, &[])).expect_err(&between.join("; "));
    }
}

/// Other processors see the difference, and the rest of what a function does is the same.
#[test]
fn atomic_and_ordered_operations_stay_so() {
    let Some(program) = program() else { return };
    let listing = |begin: &[&str], lines: &[&str]| {
        let always = ["r9 = map_value[.data] + 0", "r7 = *(u64 *)(r10 - 0x10)", "r1 = 1", "r0 = 0"];
        numbered(&begin.iter().chain(&always).chain(lines).chain(&["exit"]).copied().collect::<Vec<_>>())
    };
    let sum = |base: &str| {
        [format!("r2 = *(u64 *)({base} + 0x0)"), "r2 += r1".into(), format!("*(u64 *)({base} + 0x0) = r2")]
    };
    let [sum, sum_anywhere] = [sum("r9"), sum("r7")];
    let [sum, sum_anywhere] = [&sum, &sum_anywhere].map(|lines| lines.each_ref().map(String::as_str));
    let atomic = "lock *(u64 *)(r9 + 0x0) += r1";
    let anywhere = "*(u64 *)(r7 + 0x0) = 0";
    for (before, after) in [
        (&[atomic][..], &sum[..]),
        (&["lock *(u64 *)(r7 + 0x0) += r1"], &sum_anywhere),
        (&[atomic, anywhere], &[sum[0], sum[1], sum[2], anywhere]),
        (&["r1 = atomic_fetch_add((u64 *)(r9 + 0x0), r1)", "r0 = r1"], &["r0 = *(u64 *)(r9 + 0x0)", atomic]),
        // As the kernel's memory model has it, only what returns a value orders other accesses.
        (&["r1 = atomic_fetch_add((u64 *)(r9 + 0x0), r1)"], &[atomic]),
        (&["r0 = load_acquire((u64 *)(r9 + 0x0))"], &["r0 = *(u64 *)(r9 + 0x0)"]),
        (&["store_release((u64 *)(r9 + 0x0), r1)"], &["*(u64 *)(r9 + 0x0) = r1"]),
    ] {
        certificate(&program, &listing(&["r8 = 5"], before), &listing(&[], before)).expect(before[0]);
        certificate(&program, &listing(&[], before), &listing(&[], after)).expect_err(before[0]);
    }
}

/// A value of a map is stored, something else in an arena, and the value is loaded again.
const STORED: &str = "\
; map counts array key 4 value 8 entries 8
; map arena arena key 0 value 0 entries 10 flags 0x400 extra 0x100000000000
; program xdp
; insn 0
  w6 = *(u32 *)(r1 + 0x10)
; insn 1
  r7 = addr_space_cast(r6, 0x0, 0x1)
; insn 2
  *(u32 *)(r10 - 0x4) = 0
; insn 3
  r2 = r10
; insn 4
  r2 += -4
; insn 5
  r1 = map[counts]
; insn 6
  call map_lookup_elem
; insn 7
  if r0 == 0x0 goto L1
; insn 8
  *(u64 *)(r0 + 0x0) = 5
; insn 9
  *(u64 *)(r7 + 0x8) = 0
; insn 10
  r0 = *(u64 *)(r0 + 0x0)
L1:
; insn 11
  exit
";

/// What is stored in an arena is not in a value of a map, and it may be anywhere in the arena.
#[test]
fn a_store_to_an_arena_changes_the_arena_alone() {
    let Some(program) = program() else { return };
    let load = "  r0 = *(u64 *)(r0 + 0x0)\n";
    let known = with(STORED, load, "  r0 = 5\n");
    let honest = certificate(&program, STORED, &known).expect("it is found");
    assert_eq!(check(&program, STORED, &honest, &known), Ok(()));
    let in_arena = STORED.replace("(r0 + 0x0)", "(r7 + 0x0)").replace("(r7 + 0x8)", "(r8 + 0x8)");
    let in_arena = with(&in_arena, "; insn 9\n", "; insn 12\n  r8 = addr_space_cast(r0, 0x0, 0x1)\n; insn 9\n");
    let elsewhere = with(STORED, "r7 = addr_space_cast(r6, 0x0, 0x1)", "r7 = r6");
    let same_place = with(STORED, "(r7 + 0x8) = 0", "(r0 + 0x0) = 0");
    for (before, load) in [(in_arena, "  r0 = *(u64 *)(r7 + 0x0)\n"), (elsewhere, load), (same_place, load)] {
        certificate(&program, &before, &with(&before, load, "  r0 = 5\n")).expect_err(&before);
    }
}

/// A branch to the next instruction changes nothing; one to another instruction does.
#[test]
fn a_branch_to_the_next_instruction_is_none() {
    let Some(program) = program() else { return };
    let plain = format!("; next_insn 20\n{BEFORE}");
    let inserted = |target: &str| format!("; insn 19\n  if r7 & 0x2 goto {target}\nL3:\n; insn 9\n");
    let branch = |target: &str| with(&plain, "; insn 9\n", &inserted(target));
    let honest = certificate(&program, &branch("L3"), &plain).expect("it is found");
    assert_eq!(check(&program, &branch("L3"), &honest, &plain), Ok(()));
    for target in ["L1", "L2"] {
        certificate(&program, &branch(target), &plain).expect_err(target);
    }
}
