//! Wrong rewrites have no certificate, and right ones that are like them have one.

use super::{BEFORE, certificate, check, program, with, without};

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
