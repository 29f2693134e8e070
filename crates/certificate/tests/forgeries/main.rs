//! Every forgery is refused, and the honest certificate is accepted.

mod rewrites;

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_certificate::check::{Chain, same_code};
use kiln_certificate::find;
use kiln_certificate::find::remember::Memory;
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
        let (pairs, left_out, _) =
            find::certify(both, id, functions, &arguments, (&mut solver, &mut Memory::default()), &|| false)?;
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
    let invented: [(&str, Claim); 6] = [
        ("a range", Claim::Range(Place::Register(Side::New, 7), Order::Unsigned, 0, 7)),
        ("known bits", Claim::Bits(Place::Register(Side::New, 7), !7, 0)),
        ("a constant", Claim::Bits(Place::Register(Side::New, 7), u64::MAX, 3)),
        ("an order", Claim::Below(Place::Register(Side::New, 7), Place::Register(Side::New, 6), 0)),
        ("what is below itself", Claim::Below(Place::Register(Side::New, 7), Place::Register(Side::New, 7), 1)),
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
