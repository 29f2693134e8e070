//! Windows that must be proved, and windows that must not.

mod common;

use common::{ask, different, equal, nodes, pointer, regs, scalars};
use kiln_equiv::{Limits, Method, Verdict, Window, check};
use kiln_program::{MapId, Object};
use kiln_verifier::{Region, StackSet};

#[track_caller]
fn normalized(live: &str, before: &str, after: &str) {
    let verdict = ask(&scalars(), live, before, after);
    let method = match &verdict {
        Verdict::Equal(proof) => Some(proof.method),
        _ => None,
    };
    assert_eq!(method, Some(Method::Normalized), "{before}\n=>\n{after}\n{verdict:?}");
}

#[test]
fn registers_by_normal_form() {
    normalized("1", "r1 = r2; r1 <<= 32; r1 >>= 32", "w1 = w2");
    normalized("1", "r1 <<= 32; r1 >>= 32", "w1 = w1");
    normalized("1", "r1 = r2; r1 <<= 4; r1 -= r2", "r1 = r2; r1 *= 15");
    normalized("1", "r1 += 5; r1 += r2; r1 -= 3", "r1 += 2; r1 += r2");
    normalized("1", "r1 &= 255; r1 <<= 8; r1 >>= 8", "r1 &= 255");
    normalized("1", "r1 ^= r2; r1 ^= r2", "");
    normalized("1", "r3 = 0xff00ff ll; r1 &= r3; r1 &= 255", "r1 &= 255");
    normalized("1", "r1 = be16 r1; r1 = be16 r1", "r1 = le16 r1");
    normalized("1", "r1 <<= 56; r1 s>>= 56", "r1 = (s8)r1");
    normalized("1", "r3 = r1; r3 &= r2; r1 |= r2; r1 += r3", "r1 += r2");
    normalized("1", "r3 = r1; r3 ^= r2; r1 &= r2; r1 <<= 1; r1 += r3", "r1 += r2");
    normalized("1", "r3 = r1; r3 &= r2; r1 |= r2; r1 -= r3", "r1 ^= r2");
    normalized("1", "r1 /= 8", "r1 >>= 3");
    normalized("1", "w1 %= 16", "w1 &= 15");
    normalized("1", "r2 = r1; r2 &= 255; r3 = r1; r3 >>= 8; r3 &= 255; r3 <<= 8; r2 |= r3; r1 = r2", "r1 &= 0xffff");
    normalized("1", "r1 &= 255; r2 &= 255; r1 += r2", "w1 &= 255; w2 &= 255; w1 += w2");
    normalized("1", "r1 &= 255; r2 &= 255; r1 /= r2", "w1 &= 255; w2 &= 255; w1 /= w2");
}

#[test]
fn registers_by_solver() {
    let facts = scalars();
    equal(&facts, "1", "r3 = r1; r3 |= r2; r1 ^= r2; r3 ^= r1; r1 = r3", "r1 = r1; r1 &= r2");
    equal(&facts, "1", "r1 s>>= 63; r2 ^= r1; r2 -= r1; r1 = r2", "r3 = r2; r1 s>>= 63; r3 += r1; r3 ^= r1; r1 = r3");
    // The sum of an eighth and three of them may not be moved into the shift.
    different(&facts, "1", "r1 >>= 3; r1 += 3", "r1 += 24; r1 >>= 3");
}

#[test]
fn stack_by_normal_form() {
    normalized("", "w1 = 7; *(u32 *)(r10 - 8) = w1", "*(u32 *)(r10 - 8) = 7");
    normalized("", "r1 = -1; *(u64 *)(r10 - 8) = r1", "*(u64 *)(r10 - 8) = -1");
    normalized("", "w1 = 0; *(u32 *)(r10 - 4) = w1; *(u32 *)(r10 - 8) = w1", "*(u64 *)(r10 - 8) = 0");
    normalized("1", "*(u64 *)(r10 - 8) = r2; r1 = *(u32 *)(r10 - 4)", "*(u64 *)(r10 - 8) = r2; r1 = r2; r1 >>= 32");
    normalized(
        "1",
        "r2 = r10; r2 += -16; *(u64 *)(r2 + 8) = r3; r1 = *(u64 *)(r10 - 8)",
        "r1 = r3; *(u64 *)(r10 - 8) = r1",
    );
    normalized("2", "r2 = *(u8 *)(r10 - 8); r3 = *(u8 *)(r10 - 7); r3 <<= 8; r2 |= r3", "r2 = *(u16 *)(r10 - 8)");
    normalized(
        "2",
        "r2 = *(u8 *)(r10 - 7); r3 = *(u8 *)(r10 - 8); r3 <<= 8; r2 |= r3",
        "r2 = *(u16 *)(r10 - 8); r2 = be16 r2",
    );
}

/// The two miscompilations of rule-based tools that the facts file records, and more of the kind.
#[test]
fn known_miscompilations_are_refused() {
    let facts = scalars();
    different(&facts, "", "w1 = -1; *(u64 *)(r10 - 8) = r1", "*(u64 *)(r10 - 8) = -1");
    different(&facts, "1 2", "r1 <<= 32; r2 >>= 32", "w1 = w1");
    different(&facts, "1", "r1 <<= 32; r2 >>= 32", "w1 = w1");
    different(&facts, "1", "r1 <<= 32; r1 s>>= 32", "w1 = w1");
    different(&facts, "1", "w1 += 1", "r1 += 1");
    different(&facts, "1", "r1 /= 8", "r1 s>>= 3");
    different(&facts, "1", "r1 s/= 8", "r1 s>>= 3");
    different(&facts, "1", "r1 /= r2; r1 *= r2", "");
    different(&facts, "", "*(u32 *)(r10 - 8) = 0", "*(u64 *)(r10 - 8) = 0");
    different(&facts, "1", "r1 = be16 r1", "r1 = bswap16 r1; r1 <<= 1");
}

#[test]
fn packet_and_map_memory() {
    let mut facts = scalars();
    facts.registers[1] = pointer(Region::Packet, 0);
    facts.registers[2] = pointer(Region::MapValue(MapId(0)), 0);
    facts.registers[3] = pointer(Region::MapValue(MapId(0)), 0);
    // Different regions do not overlap.
    equal(
        &facts,
        "",
        "r4 = *(u32 *)(r1 + 0); *(u32 *)(r2 + 0) = r4; r5 = *(u16 *)(r1 + 4); *(u16 *)(r2 + 4) = r5",
        "r5 = *(u16 *)(r1 + 4); r4 = *(u32 *)(r1 + 0); *(u32 *)(r2 + 0) = r4; *(u16 *)(r2 + 4) = r5",
    );
    // Two values of one map may be one.
    let verdict = ask(
        &facts,
        "4",
        "*(u32 *)(r2 + 0) = 1; *(u32 *)(r3 + 0) = 2; r4 = *(u32 *)(r2 + 0)",
        "*(u32 *)(r2 + 0) = 1; *(u32 *)(r3 + 0) = 2; r4 = 1",
    );
    assert!(!verdict.is_equal(), "{verdict:?}");
    let verdict =
        ask(&facts, "", "*(u32 *)(r2 + 0) = 1; *(u32 *)(r3 + 0) = 2", "*(u32 *)(r3 + 0) = 2; *(u32 *)(r2 + 0) = 1");
    assert!(!verdict.is_equal(), "{verdict:?}");
    // A new read or write of memory may fault.
    let verdict = ask(&facts, "4", "r4 = *(u8 *)(r1 + 0)", "r4 = *(u16 *)(r1 + 0); r4 &= 255");
    assert!(!verdict.is_equal(), "{verdict:?}");
    facts.packet_bytes = 14;
    equal(&facts, "4", "r4 = *(u8 *)(r1 + 0)", "r4 = *(u16 *)(r1 + 0); r4 &= 255");
    let verdict = ask(&facts, "", "", "*(u8 *)(r1 + 0) = 0");
    assert!(!verdict.is_equal(), "{verdict:?}");
    // Splitting an access that others may see is refused; joining is not.
    let wide = "*(u32 *)(r2 + 0) = 0";
    let narrow = "*(u16 *)(r2 + 0) = 0; *(u16 *)(r2 + 2) = 0";
    equal(&facts, "", narrow, wide);
    assert!(!ask(&facts, "", wide, narrow).is_equal());
}

#[test]
fn context_accesses_keep_their_size() {
    let mut facts = scalars();
    facts.registers[1] = pointer(Region::Context, 0);
    equal(&facts, "2 3", "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 0)", "r2 = *(u32 *)(r1 + 0); r3 = r2");
    let verdict =
        ask(&facts, "2", "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 4); r3 <<= 32; r2 |= r3", "r2 = *(u64 *)(r1 + 0)");
    assert!(!verdict.is_equal(), "{verdict:?}");
}

/// `ctx->data` is loaded as four bytes and arrives as a pointer of eight.
#[test]
fn packet_pointers_are_not_cut() {
    use kiln_platform::ProgramType;
    use kiln_program::{FunctionId, Program};
    let mut facts = scalars();
    facts.registers[1] = pointer(Region::Context, 0);
    let program = Program::new("xdp", "xdp", Some(ProgramType::Xdp), FunctionId(0));
    let object = Object { programs: vec![program], ..Object::default() };
    let prove = |before: &str, after: &str| {
        common::ask_in(&object, &facts, "2 3", StackSet::ALL, &nodes(before), &nodes(after))
    };
    let data = "r2 = *(u32 *)(r1 + 0)";
    let index = "r2 = *(u32 *)(r1 + 12)";
    assert!(prove(&format!("{data}; r3 = r2"), &format!("{data}; r3 = r2")).is_equal());
    assert!(!prove(&format!("{data}; r3 = r2"), &format!("{data}; w3 = w2")).is_equal());
    assert!(!prove(&format!("{data}; w2 = w2"), data).is_equal());
    assert!(prove(&format!("{index}; r3 = r2"), &format!("{index}; w3 = w2")).is_equal());
    assert!(prove(&format!("{index}; w2 = w2"), index).is_equal());
}

#[test]
fn dead_stack_bytes_and_registers_do_not_count() {
    let facts = scalars();
    let object = Object::default();
    let mut live = StackSet::EMPTY;
    live.insert(-8, 4);
    let before = nodes("*(u64 *)(r10 - 8) = 0; r1 = 3");
    let after = nodes("*(u32 *)(r10 - 8) = 0");
    let mut window = Window {
        before: &before,
        after: &after,
        facts: Some(&facts),
        live_after: regs("0"),
        stack_live_after: live,
        exits: &[],
        object: &object,
    };
    assert!(check(&window, &Limits::default()).is_equal());
    window.live_after = regs("1");
    assert!(check(&window, &Limits::default()).is_different());
    window.live_after = regs("0");
    window.stack_live_after = StackSet::ALL;
    assert!(check(&window, &Limits::default()).is_different());
}

#[test]
fn shared_memory_is_used_as_before() {
    let mut facts = scalars();
    facts.registers[1] = pointer(Region::MapValue(MapId(0)), 0);
    facts.registers[6] = pointer(Region::Other("mem".to_owned()), 0);
    let refused = [
        // Order may be a protocol.
        ("", "*(u8 *)(r1 + 0) = 1; *(u8 *)(r1 + 8) = 2", "*(u8 *)(r1 + 8) = 2; *(u8 *)(r1 + 0) = 1"),
        (
            "",
            "*(u16 *)(r1 + 0) = 0; *(u8 *)(r1 + 8) = 2; *(u16 *)(r1 + 2) = 0",
            "*(u32 *)(r1 + 0) = 0; *(u8 *)(r1 + 8) = 2",
        ),
        // A second look may see something else.
        ("2 3", "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 0)", "r2 = *(u32 *)(r1 + 0); r3 = r2"),
        ("2", "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 0); r2 ^= r3", "r2 = 0"),
        (
            "2",
            "r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r1 + 0); r2 ^= r3",
            "r2 = *(u64 *)(r1 + 0); r3 = *(u64 *)(r1 + 0); w2 ^= w3",
        ),
        ("2", "r2 = *(u32 *)(r6 + 0); r3 = *(u16 *)(r6 + 0); r2 &= 0xffff; r2 -= r3", "r2 = 0"),
        ("2", "r2 = *(u32 *)(r1 + 0)", "r2 = *(u16 *)(r1 + 0); r3 = *(u16 *)(r1 + 2); r3 <<= 16; r2 |= r3"),
        // What other memory is may be a map value.
        ("2", "r2 = *(u32 *)(r6 + 0); *(u32 *)(r1 + 0) = 7", "*(u32 *)(r1 + 0) = 7; r2 = *(u32 *)(r6 + 0)"),
        // Atomics stay what they are.
        ("", "lock *(u64 *)(r1 + 0) += r2", "r3 = *(u64 *)(r1 + 0); r3 += r2; *(u64 *)(r1 + 0) = r3"),
        ("", "r3 = *(u64 *)(r1 + 0); r3 += r2; *(u64 *)(r1 + 0) = r3", "lock *(u64 *)(r1 + 0) += r2"),
        (
            "4",
            "r4 = *(u64 *)(r1 + 8); lock *(u64 *)(r1 + 0) += r2",
            "lock *(u64 *)(r1 + 0) += r2; r4 = *(u64 *)(r1 + 8)",
        ),
    ];
    for (live, before, after) in refused {
        let verdict = ask(&facts, live, before, after);
        assert!(!verdict.is_equal(), "{before} => {after}: {verdict:?}");
    }
    equal(&facts, "2", "r2 = *(u8 *)(r1 + 0); r3 = *(u8 *)(r1 + 1); r3 <<= 8; r2 |= r3", "r2 = *(u16 *)(r1 + 0)");
    // Bytes that are loaded twice may be joined each time, in the same order.
    let pair = |reg: &str| format!("{reg} = *(u8 *)(r1 + 0); r3 = *(u8 *)(r1 + 1); r3 <<= 8; {reg} |= r3");
    let other = "r4 = *(u8 *)(r1 + 8)";
    let twice = format!("{}; {other}; {}", pair("r2"), pair("r5"));
    equal(&facts, "2 4 5", &twice, &format!("r2 = *(u16 *)(r1 + 0); {other}; r5 = *(u16 *)(r1 + 0)"));
    for moved in [
        format!("r2 = *(u16 *)(r1 + 0); r5 = *(u16 *)(r1 + 0); {other}"),
        format!("r2 = *(u16 *)(r1 + 0); {other}; r5 = r2"),
    ] {
        let verdict = ask(&facts, "2 4 5", &twice, &moved);
        assert!(!verdict.is_equal(), "{moved}: {verdict:?}");
    }
    let whole = "r2 = *(u16 *)(r1 + 0); r5 = *(u16 *)(r1 + 0)";
    let verdict = ask(&facts, "2 5", whole, &format!("{}; {}", pair("r2"), pair("r5")));
    assert!(!verdict.is_equal(), "torn twice: {verdict:?}");
    equal(&facts, "2", "r2 = *(u32 *)(r1 + 0)", "r2 = *(u32 *)(r1 + 0)");
    equal(&facts, "", "r2 = *(u32 *)(r1 + 0)", "");
    equal(&facts, "3", "r3 += 1; lock *(u64 *)(r1 + 0) += r2; r3 += 1", "r3 += 2; lock *(u64 *)(r1 + 0) += r2");
    equal(
        &facts,
        "3",
        "r4 = 0; *(u32 *)(r10 - 4) = w4; lock *(u64 *)(r1 + 0) += r2; *(u32 *)(r10 - 8) = w4; r3 = *(u64 *)(r1 + 8)",
        "lock *(u64 *)(r1 + 0) += r2; *(u64 *)(r10 - 8) = 0; r3 = *(u64 *)(r1 + 8)",
    );
}

#[test]
fn references_and_relocated_instructions() {
    use kiln_isa::text::parse;
    use kiln_program::{CoreId, Reference};
    let facts = scalars();
    let object = Object::default();
    let load = |reg: u8, reference| {
        let mut node = nodes(&format!("r{reg} = 0x0 ll")).remove(0);
        node.reference = reference;
        node
    };
    let map = |index| Reference::Map(MapId(index));
    let mov = nodes("r2 = r1").remove(0);
    let prove = |live: &str, before: &[kiln_program::Node], after: &[kiln_program::Node]| {
        common::ask_in(&object, &facts, live, StackSet::ALL, before, after)
    };
    assert!(prove("1 2", &[load(1, map(0)), load(2, map(0))], &[load(1, map(0)), mov.clone()]).is_equal());
    assert!(!prove("1 2", &[load(1, map(0)), load(2, map(1))], &[load(1, map(0)), mov.clone()]).is_equal());
    let value = |offset| Reference::MapValue { map: MapId(0), offset };
    let plus = nodes("r2 = r1; r2 += 4");
    let after = [load(1, value(0)), plus[0].clone(), plus[1].clone()];
    assert!(prove("1 2", &[load(1, value(0)), load(2, value(4))], &after).is_equal());
    // A relocated immediate is whatever the loader writes: neither folded nor made up.
    let mut relocated = nodes("r1 = 8").remove(0);
    relocated.core = Some(CoreId(3));
    let add = nodes("r1 += 1; r1 += 1");
    let added = nodes("r1 += 2").remove(0);
    let before = [relocated.clone(), add[0].clone(), add[1].clone()];
    assert!(prove("1", &before, &[relocated.clone(), added]).is_equal());
    assert!(!prove("1", &before, &nodes("r1 = 10")).is_equal());
    let mut other = relocated.clone();
    other.insn = parse("r1 = 9").unwrap();
    assert!(!prove("1", &[relocated], &[other]).is_equal());
}

#[test]
fn hostile_windows_end_soon() {
    let facts = scalars();
    let squares = "r1 *= r2; r2 *= r1; r1 ^= r3; ".repeat(40);
    let ladders = "r3 = r1; r3 ^= r2; r1 |= r3; r2 &= r3; r1 += r2; r2 *= r3; ".repeat(40);
    let begin = std::time::Instant::now();
    for text in [squares, ladders, "r1 += 1; ".repeat(1000)] {
        let object = Object::default();
        let before = nodes(&text);
        let after = nodes(&format!("{text} r1 += 0"));
        let window = Window {
            before: &before,
            after: &after,
            facts: Some(&facts),
            live_after: regs("1 2 3"),
            stack_live_after: StackSet::ALL,
            exits: &[],
            object: &object,
        };
        let _ = check(&window, &Limits::default());
    }
    // Seconds, where nothing else runs.
    assert!(begin.elapsed().as_secs() < 300, "{:?}", begin.elapsed());
}
