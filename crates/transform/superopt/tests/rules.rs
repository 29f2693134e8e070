//! Each rule on an example, and traps: programs that look like a rule's but must keep their meaning.

use kiln_program::text::{listing, parse};
use kiln_superopt::{Options, Rewrite, optimize};

fn optimized(body: &str) -> Rewrite {
    let text = format!(
        "; map counts array key 4 value 16 entries 4\n; map state array key 4 value 64 entries 1\n; program xdp\n{body}"
    );
    let object = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    // Registers stay what they are, calls too, and nothing is searched, so that a rule's use shows.
    let without = ["shared-register", "unread-answer"].map(str::to_owned).into();
    let rewrite = optimize(&object, &Options { without, search: 0, ..Options::default() }, &mut ());
    assert!(rewrite.skipped.is_empty(), "not verified: {:?}", rewrite.skipped);
    rewrite
}

fn lines(rewrite: &Rewrite) -> Vec<String> {
    let text = listing(&rewrite.object);
    let code = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(';'));
    code.map(str::to_owned).collect()
}

/// The body becomes these lines.
#[track_caller]
fn becomes(body: &str, expected: &str) {
    let rewrite = optimized(body);
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines(&rewrite), expected, "refused: {:?}", rewrite.refused);
}

/// The body stays as it is.
#[track_caller]
fn stays(body: &str) {
    becomes(body, body);
}

/// The rewritten body holds a line.
#[track_caller]
fn keeps(body: &str, line: &str) {
    let lines = lines(&optimized(body));
    assert!(lines.iter().any(|own| own == line), "no `{line}` in {lines:#?}");
}

/// A packet of which 64 bytes are readable, in r6.
const PACKET: &str = "
  w6 = *(u32 *)(r1 + 0x0)
  w2 = *(u32 *)(r1 + 0x4)
  r3 = r6
  r3 += 0x40
  if r3 > r2 goto out
";
/// The end of a program that began with [`PACKET`].
const OUT: &str = "
  exit
out:
  w0 = *(u32 *)(r1 + 0xc)
  exit
";

fn with_packet(body: &str) -> String {
    format!("{PACKET}{body}{OUT}")
}

#[track_caller]
fn packet_becomes(body: &str, expected: &str) {
    // Labels are numbered anew by the listing.
    let labelled = |text: String| text.replace("goto out", "goto L1").replace("out:", "L1:");
    becomes(&with_packet(body), &labelled(with_packet(expected)));
}

#[test]
fn constants_are_stored_directly() {
    becomes(
        "w1 = 0x7
         *(u32 *)(r10 - 0x4) = w1
         w1 = *(u32 *)(r10 - 0x4)
         w0 = *(u8 *)(r10 - 0x3)
         r0 += r1
         exit",
        "r0 = 0x7
         exit",
    );
}

#[test]
fn a_key_is_stored_directly() {
    becomes(
        "w1 = 0x1
         *(u32 *)(r10 - 0x4) = w1
         r2 = r10
         r2 += -0x4
         r1 = map[counts]
         call map_delete_elem
         w0 = 0x1
         exit",
        "*(u32 *)(r10 - 0x4) = 0x1
         r2 = r10
         r2 += -0x4
         r1 = map[counts]
         call map_delete_elem
         w0 = 0x1
         exit",
    );
}

/// A known miscompilation of a rule-based tool: the 32-bit move zero-extends, so the stored value is not -1.
#[test]
fn a_zero_extended_constant_is_not_stored_as_a_negative_one() {
    let body = "
         w1 = -0x1
         *(u64 *)(r10 - 0x8) = r1
         w1 = 0x0
         *(u32 *)(r10 - 0xc) = w1
         r2 = r10
         r2 += -0xc
         r3 = r10
         r3 += -0x8
         r1 = map[counts]
         w4 = 0x0
         *(u64 *)(r10 - 0x18) = 0x0
         *(u64 *)(r10 - 0x10) = r1
         r1 = map[counts]
         call map_lookup_elem
         r0 = *(u64 *)(r10 - 0x8)
         exit";
    let lines = lines(&optimized(body));
    assert!(!lines.iter().any(|line| line.ends_with("(r10 - 0x8) = -0x1")), "{lines:#?}");
    assert!(!lines.iter().any(|line| line == "r0 = -0x1"), "{lines:#?}");
}

/// The other: the shifts are of different registers.
#[test]
fn shifts_of_two_registers_are_no_pair() {
    packet_becomes(
        "r1 = *(u64 *)(r6 + 0x0)
         r2 = *(u64 *)(r6 + 0x8)
         r1 <<= 0x20
         r2 >>= 0x20
         r0 = r1
         r0 += r2",
        "r0 = *(u64 *)(r6 + 0x0)
         r0 <<= 0x20
         w2 = *(u32 *)(r6 + 0xc)
         r0 += r2",
    );
}

#[test]
fn shift_pairs_are_moves_masks_or_nothing() {
    packet_becomes(
        "r0 = *(u64 *)(r6 + 0x0)\n r0 += 0x1\n r0 <<= 0x20\n r0 >>= 0x20",
        "r0 = *(u64 *)(r6 + 0x0)\n w0 += 0x1",
    );
    packet_becomes("w0 = *(u32 *)(r6 + 0x0)\n r0 <<= 0x20\n r0 >>= 0x20", "w0 = *(u32 *)(r6 + 0x0)");
    packet_becomes(
        "w0 = *(u16 *)(r6 + 0x0)\n r0 += 0x3\n r0 <<= 0x38\n r0 >>= 0x38",
        "w0 = *(u16 *)(r6 + 0x0)\n r0 += 0x3\n r0 &= 0xff",
    );
}

#[test]
fn a_signed_pair_is_no_zero_extension() {
    keeps(&with_packet("r0 = *(u64 *)(r6 + 0x0)\n r0 += 0x1\n r0 <<= 0x20\n r0 s>>= 0x20"), "r0 s>>= 0x20");
}

#[test]
fn masks_of_the_lower_half_are_narrow_operations() {
    packet_becomes(
        "r0 = *(u64 *)(r6 + 0x0)
         r0 *= 0x3
         r2 = 0xffffffff ll
         r0 &= r2",
        "r0 = *(u64 *)(r6 + 0x0)
         w0 *= 0x3",
    );
}

#[test]
fn a_mask_that_is_no_lower_half_stays() {
    keeps(&with_packet("r0 = *(u64 *)(r6 + 0x0)\n r0 *= 0x3\n r2 = 0x1ffffffff ll\n r0 &= r2"), "r0 &= r2");
}

#[test]
fn short_constants_take_one_slot() {
    packet_becomes("r1 = 0x7 ll\n r0 = *(u64 *)(r6 + 0x0)\n r0 *= r1", "r0 = *(u64 *)(r6 + 0x0)\n r0 *= 0x7");
    becomes("r0 = 0xffffffff ll\n exit", "w0 = -0x1\n exit");
    becomes("r0 = 0xffffffffffffffff ll\n exit", "r0 = -0x1\n exit");
    stays("r0 = 0x100000000 ll\n exit");
}

#[test]
fn bytes_are_loaded_whole() {
    packet_becomes(
        "w1 = *(u8 *)(r6 + 0xc)
         w0 = *(u8 *)(r6 + 0xd)
         r0 <<= 0x8
         r0 |= r1",
        "w0 = *(u16 *)(r6 + 0xc)",
    );
    packet_becomes(
        "w1 = *(u8 *)(r6 + 0xd)
         w0 = *(u8 *)(r6 + 0xc)
         r0 <<= 0x8
         r0 |= r1",
        "w0 = *(u16 *)(r6 + 0xc)
         r0 = be16 r0",
    );
}

#[test]
fn bytes_that_do_not_lie_together_are_loaded_apart() {
    for (one, other, shift) in [(0xc, 0xe, 8), (0xc, 0xd, 9), (0xc, 0xd, 16), (0xc, 0xc, 8)] {
        let body = format!("w1 = *(u8 *)(r6 + {one})\n w0 = *(u8 *)(r6 + {other})\n r0 <<= {shift}\n r0 |= r1");
        keeps(&with_packet(&body), "r0 |= r1");
    }
}

#[test]
fn a_store_between_two_loads_keeps_them_apart() {
    keeps(
        &with_packet(
            "w1 = *(u8 *)(r6 + 0xc)
             w2 = *(u8 *)(r6 + 0x0)
             *(u8 *)(r6 + 0xd) = w2
             w0 = *(u8 *)(r6 + 0xd)
             r0 <<= 0x8
             r0 |= r1",
        ),
        "r0 |= r1",
    );
}

#[test]
fn narrow_copies_are_wide() {
    packet_becomes(
        "w1 = *(u16 *)(r6 + 0x0)
         *(u16 *)(r6 + 0x20) = w1
         w1 = *(u16 *)(r6 + 0x2)
         *(u16 *)(r6 + 0x22) = w1
         w0 = 0x2",
        "w1 = *(u32 *)(r6 + 0x0)
         *(u32 *)(r6 + 0x20) = w1
         w0 = 0x2",
    );
}

#[test]
fn overlapping_copies_are_not_widened() {
    // The second load reads what the first store wrote.
    let lines = lines(&optimized(&with_packet(
        "w1 = *(u16 *)(r6 + 0x0)
         *(u16 *)(r6 + 0x2) = w1
         w1 = *(u16 *)(r6 + 0x2)
         *(u16 *)(r6 + 0x4) = w1
         w0 = 0x2",
    )));
    assert!(
        !lines.iter().any(|line| line.contains("(u32 *)(r6 + 0x2) ="))
            || !lines.iter().any(|line| line == "w1 = *(u32 *)(r6 + 0x0)"),
        "{lines:#?}"
    );
}

#[test]
fn stack_stores_are_merged_only_where_aligned() {
    let body = |low: i32| {
        format!(
            "*(u64 *)(r10 - 0x8) = 0x0
             *(u64 *)(r10 - 0x10) = 0x0
             *(u32 *)(r10 - {low}) = 0x1
             *(u32 *)(r10 - {}) = 0x2
             r2 = r10
             r2 += -0x10
             r1 = map[counts]
             r3 = r2
             w4 = 0x0
             call map_update_elem
             w0 = 0x1
             exit",
            low - 4
        )
    };
    keeps(&body(0xc), "*(u32 *)(r10 - 0xc) = 0x1");
}

#[test]
fn accesses_go_through_the_frame_pointer() {
    packet_becomes(
        "r2 = r10
         r2 += -0x8
         r1 = *(u64 *)(r6 + 0x0)
         *(u64 *)(r2 + 0x0) = r1
         r0 = *(u64 *)(r2 + 0x0)
         r0 += r1",
        "r1 = *(u64 *)(r6 + 0x0)
         r0 = r1
         r0 += r1",
    );
}

#[test]
fn offsets_are_folded() {
    packet_becomes(
        "w2 = *(u8 *)(r6 + 0x0)\n r6 += 0xe\n w0 = *(u8 *)(r6 + 0x9)\n r0 += r2",
        "w2 = *(u8 *)(r6 + 0x0)\n w0 = *(u8 *)(r6 + 0x17)\n r0 += r2",
    );
}

#[test]
fn copies_are_read_through() {
    packet_becomes(
        "r0 = *(u64 *)(r6 + 0x0)
         r2 = *(u64 *)(r6 + 0x8)
         r2 *= 0x5
         r3 = r2
         r0 ^= r3
         *(u64 *)(r6 + 0x10) = r3",
        "r0 = *(u64 *)(r6 + 0x0)
         r2 = *(u64 *)(r6 + 0x8)
         r2 *= 0x5
         r0 ^= r2
         *(u64 *)(r6 + 0x10) = r2",
    );
}

#[test]
fn known_results_become_constants() {
    packet_becomes(
        "w1 = *(u8 *)(r6 + 0x0)\n w2 = *(u8 *)(r6 + 0x1)\n r1 &= 0x100\n w0 = 0x5\n r0 += r1\n r0 += r2",
        "w2 = *(u8 *)(r6 + 0x1)\n w0 = 0x5\n r0 += r2",
    );
}

#[test]
fn needless_masks_go() {
    packet_becomes("w0 = *(u8 *)(r6 + 0x0)\n r0 &= 0xff", "w0 = *(u8 *)(r6 + 0x0)");
    keeps(&with_packet("w0 = *(u16 *)(r6 + 0x0)\n r0 += 0x1\n r0 &= 0xff"), "r0 &= 0xff");
}

#[test]
fn only_demanded_bits_are_computed() {
    packet_becomes(
        "r1 = *(u64 *)(r6 + 0x0)
         r1 *= 0x5
         r1 &= 0xffff
         *(u16 *)(r6 + 0x8) = w1
         w0 = 0x2",
        "r1 = *(u64 *)(r6 + 0x0)
         r1 *= 0x5
         *(u16 *)(r6 + 0x8) = w1
         w0 = 0x2",
    );
}

#[test]
fn a_divisor_is_not_reordered_and_division_stays_total() {
    keeps(&with_packet("r1 = *(u64 *)(r6 + 0x0)\n r0 = 0x7\n r0 /= r1"), "r0 /= r1");
}

#[test]
fn atomics_stay() {
    let body = "
         *(u32 *)(r10 - 0x4) = 0x0
         r2 = r10
         r2 += -0x4
         r1 = map[counts]
         call map_lookup_elem
         if r0 == 0x0 goto L1
         w1 = 0x1
         lock *(u64 *)(r0 + 0x0) += r1
       L1:
         w0 = 0x1
         exit";
    keeps(body, "lock *(u64 *)(r0 + 0x0) += r1");
}

#[test]
fn loads_of_shared_memory_are_not_repeated_or_split() {
    let body = "
         *(u32 *)(r10 - 0x4) = 0x0
         r2 = r10
         r2 += -0x4
         r1 = map[counts]
         call map_lookup_elem
         if r0 == 0x0 goto L1
         r1 = *(u64 *)(r0 + 0x0)
         *(u64 *)(r10 - 0x10) = r1
         r2 = r1
         r2 &= 0xff
         r1 += r2
         r0 = r1
         exit
       L1:
         w0 = 0x1
         exit";
    let lines = lines(&optimized(body));
    assert_eq!(lines.iter().filter(|line| line.contains("(r0 + 0x")).count(), 1, "{lines:#?}");
}

/// Fields of a context that the kernel rewrites are stored one by one. That is known of stores that a rule has just
/// made, too: no step is refused, and none has to be searched for.
#[test]
fn stores_of_fields_are_not_proposed_as_one() {
    let text = "; program sched_cls\n r6 = r1\n w1 = 7\n *(u32 *)(r6 + 56) = w1\n w1 = 0\n *(u32 *)(r6 + 60) = w1\n \
                r0 = *(u32 *)(r6 + 0)\n exit\n";
    let object = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let rewrite = optimize(&object, &Options { search: 0, ..Options::default() }, &mut ());
    assert!(rewrite.refused.is_empty(), "{:?}", rewrite.refused);
    assert_eq!(rewrite.object.functions[0].slots(), 4);
}

/// Facts are true before all that was rewritten, so one round takes what is alike in all blocks.
#[test]
fn rounds_do_not_grow_with_the_program() {
    let rounds = |lookups: usize| {
        let lookup = |number: usize| {
            format!(
                " w1 = {number}\n *(u32 *)(r10 - 4) = w1\n r2 = r10\n r2 += -4\n r1 = map[counts]\n call map_lookup_elem\n \
                 if r0 == 0 goto none{number}\n r1 = *(u64 *)(r0 + 0)\n r1 += 1\n *(u64 *)(r0 + 0) = r1\nnone{number}:\n \
                 r7 += 1\n"
            )
        };
        let body: String = (0..lookups).map(lookup).collect();
        let maps = "; map counts hash key 4 value 8 entries 64";
        let object = parse(&format!("{maps}\n; program xdp\n r7 = 0\n{body} w0 = w7\n exit\n")).expect("a program");
        let rewrite = optimize(&object, &Options { search: 0, ..Options::default() }, &mut ());
        assert!(!rewrite.cut_short);
        let rows = rewrite.timings.rows();
        rows.iter().find(|row| row.0 == "windows").expect("windows are always tried").2
    };
    assert_eq!(rounds(24), rounds(6));
}

#[test]
fn a_constant_added_to_the_address_of_a_section_is_the_address_of_another_place() {
    let section = |body: &str| {
        let text = format!(
            "; map .data array key 4 value 64 entries 1 flags 0x400\n; map seen hash key 4 value 4 entries 4\n; program xdp\n{body}"
        );
        let object = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let without = ["shared-register", "kept-address"].map(str::to_owned).into();
        let rewrite = optimize(&object, &Options { without, search: 0, ..Options::default() }, &mut ());
        assert!(rewrite.skipped.is_empty(), "not verified: {:?}", rewrite.skipped);
        lines(&rewrite)
    };
    let index = "w3 = *(u32 *)(r1 + 0xc)\n w3 &= 0x7\n r2 = map_value[.data] + 0x8\n";
    let access = "r2 += r3\n r1 = map[seen]\n call map_delete_elem\n w0 = 0x1\n exit";
    let folded = section(&format!("{index} r2 += 0x10\n {access}"));
    assert!(folded.contains(&"r2 = map_value[.data] + 0x18".to_owned()), "{folded:#?}");
    // What is read in between stays where it is.
    let kept = section(&format!("{index} *(u32 *)(r2 + 0x0) = w3\n r2 += 0x10\n {access}"));
    assert!(!kept.contains(&"r2 = map_value[.data] + 0x18".to_owned()), "{kept:#?}");
}
