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
    normalized("1", "r1 /= 8", "r1 >>= 3");
    normalized("1", "w1 %= 16", "w1 &= 15");
    normalized("1", "r2 = r1; r2 &= 255; r3 = r1; r3 >>= 8; r3 &= 255; r3 <<= 8; r2 |= r3; r1 = r2", "r1 &= 0xffff");
    normalized("1", "r1 &= 255; r2 &= 255; r1 += r2", "w1 &= 255; w2 &= 255; w1 += w2");
    normalized("1", "r1 &= 255; r2 &= 255; r1 /= r2", "w1 &= 255; w2 &= 255; w1 /= w2");
}

#[test]
fn registers_by_solver() {
    let facts = scalars();
    equal(&facts, "1", "r3 = r1; r3 &= r2; r1 |= r2; r1 += r3", "r1 += r2");
    equal(&facts, "1", "r3 = r1; r3 ^= r2; r1 &= r2; r1 <<= 1; r1 += r3", "r1 += r2");
}

#[test]
fn stack_by_normal_form() {
    normalized("", "w1 = 7; *(u32 *)(r10 - 8) = w1", "*(u32 *)(r10 - 8) = 7");
    normalized("", "r1 = -1; *(u64 *)(r10 - 8) = r1", "*(u64 *)(r10 - 8) = -1");
    normalized(
        "",
        "w1 = 0; *(u32 *)(r10 - 4) = w1; *(u32 *)(r10 - 8) = w1",
        "*(u64 *)(r10 - 8) = 0",
    );
    normalized(
        "1",
        "*(u64 *)(r10 - 8) = r2; r1 = *(u32 *)(r10 - 4)",
        "*(u64 *)(r10 - 8) = r2; r1 = r2; r1 >>= 32",
    );
    normalized("1", "r2 = r10; r2 += -16; *(u64 *)(r2 + 8) = r3; r1 = *(u64 *)(r10 - 8)", "r1 = r3; *(u64 *)(r10 - 8) = r1");
    normalized(
        "2",
        "r2 = *(u8 *)(r10 - 8); r3 = *(u8 *)(r10 - 7); r3 <<= 8; r2 |= r3",
        "r2 = *(u16 *)(r10 - 8)",
    );
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
        "r5 = *(u16 *)(r1 + 4); r4 = *(u32 *)(r1 + 0); *(u16 *)(r2 + 4) = r5; *(u32 *)(r2 + 0) = r4",
    );
    // Two values of one map may be one.
    let verdict = ask(
        &facts,
        "4",
        "*(u32 *)(r2 + 0) = 1; *(u32 *)(r3 + 0) = 2; r4 = *(u32 *)(r2 + 0)",
        "*(u32 *)(r2 + 0) = 1; *(u32 *)(r3 + 0) = 2; r4 = 1",
    );
    assert!(!verdict.is_equal(), "{verdict:?}");
    let verdict = ask(
        &facts,
        "",
        "*(u32 *)(r2 + 0) = 1; *(u32 *)(r3 + 0) = 2",
        "*(u32 *)(r3 + 0) = 2; *(u32 *)(r2 + 0) = 1",
    );
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
    let verdict = ask(
        &facts,
        "2",
        "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 4); r3 <<= 32; r2 |= r3",
        "r2 = *(u64 *)(r1 + 0)",
    );
    assert!(!verdict.is_equal(), "{verdict:?}");
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
        object: &object,
    };
    assert!(check(&window, &Limits::default()).is_equal());
    window.live_after = regs("1");
    assert!(check(&window, &Limits::default()).is_different());
    window.live_after = regs("0");
    window.stack_live_after = StackSet::ALL;
    assert!(check(&window, &Limits::default()).is_different());
}
