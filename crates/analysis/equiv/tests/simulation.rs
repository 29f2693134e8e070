//! Whole functions before and after: what laws do is proved, and what only looks like it is not.

use std::sync::atomic::{AtomicU32, Ordering};

use kiln_equiv::helpers::Helpers;
use kiln_equiv::simulation::arguments::Arguments;
use kiln_equiv::simulation::{Question, Simulation, Unproved, simulate};
use kiln_program::{Object, text};
use kiln_verifier::Facts;

/// An object of one XDP program with a map; `; insn N` in front of an instruction gives its id.
fn object(code: &str) -> Object {
    let text = format!("; map m hash key 4 value 8 entries 4\n; program xdp name p\n{code}");
    text::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn facts(object: &Object) -> Facts {
    kiln_verifier::verify(object, &object.programs[0], &kiln_verifier::Options::default()).expect("it is safe").facts
}

fn simulated(before: &str, after: &str) -> Result<Simulation, Unproved> {
    compared(&object(before), &object(after))
}

/// The same of programs of a type, with an array of eight elements.
fn simulated_as(program: &str, before: &str, after: &str) -> Result<Simulation, Unproved> {
    let object = |code: &str| {
        let text = format!("; map m array key 4 value 8 entries 8\n; program {program} name p\n{code}");
        text::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    };
    compared(&object(before), &object(after))
}

fn compared(before: &Object, after: &Object) -> Result<Simulation, Unproved> {
    compared_until(before, after, &|| false)
}

fn compared_until(before: &Object, after: &Object, stop: &(dyn Fn() -> bool + Sync)) -> Result<Simulation, Unproved> {
    let facts = facts(before);
    let question = Question {
        object: before,
        before: &before.functions[0],
        after: &after.functions[0],
        facts: Some(&facts),
        inlined: None,
        arguments: &Arguments::whole(),
        solver_steps: 250_000,
        keep_segments: true,
        quick: false,
        stop,
        helpers: &Helpers::default(),
    };
    simulate(&question)
}

/// A lookup whose key is stored at -4, and a second look at the value behind it.
const LOOKUP: &str = "
 w1 = 7
 *(u32 *)(r10 - 4) = w1
 r2 = r10
 r2 += -4
 r1 = map[m]
 call map_lookup_elem
 if r0 == 0 goto out
 r1 = *(u64 *)(r0 + 0)
 r1 += 1
 *(u64 *)(r0 + 0) = r1
 r1 = map[m]
 r2 = r10
 r2 += -4
 call map_delete_elem
 r0 = 2
 exit
out:
 r0 = 1
 exit
";

/// [`LOOKUP`] with one line for another; ids stay.
fn changed(from: &str, to: &str) -> String {
    assert_eq!(LOOKUP.matches(from).count(), 1, "{from}");
    LOOKUP.replace(from, to)
}

#[test]
fn a_function_is_as_itself() {
    let simulation = simulated(LOOKUP, LOOKUP).expect("nothing is changed");
    // To the first call, for the evidence; what comes then is not followed.
    assert!(simulation.smt == 0 && simulation.segments.len() == 1, "{simulation:?}");
}

#[test]
fn who_is_to_end_proves_nothing() {
    let (before, after) = (object(LOOKUP), object(&changed(" w1 = 7\n", " r1 = 7\n")));
    assert!(compared(&before, &after).is_ok());
    let asked = AtomicU32::new(0);
    let stop = || asked.fetch_add(1, Ordering::SeqCst) >= 1;
    assert_eq!(compared_until(&before, &after, &stop).map(|_| ()), Err(Unproved::Stopped));
}

#[test]
// long: a table of cases
fn laws_are_proved() {
    let cases = [
        // Inverted: the other side follows.
        (
            " r0 = 0\n r2 = *(u32 *)(r1 + 12)\n if r2 == 5 goto L1\n goto L2\nL1:\n r0 = 1\nL2:\n exit\n",
            " r0 = 0\n r2 = *(u32 *)(r1 + 12)\n if r2 != 5 goto L2\n; insn 4\nL1:\n r0 = 1\nL2:\n exit\n",
        ),
        // Threaded: the second branch is decided on the way.
        (
            " r0 = 0\n r2 = *(u32 *)(r1 + 12)\n if r2 == 5 goto L1\n r0 = 2\nL1:\n if r2 == 6 goto L2\n r0 += 1\nL2:\n exit\n",
            " r0 = 0\n r2 = *(u32 *)(r1 + 12)\n if r2 == 5 goto L3\n r0 = 2\nL1:\n if r2 == 6 goto L2\nL3:\n r0 += 1\nL2:\n exit\n",
        ),
        // A shared tail, of other instructions than before.
        (
            " r2 = *(u32 *)(r1 + 12)\n if r2 == 5 goto L1\n r2 += 3\n r0 = r2\n exit\nL1:\n r2 += 4\n r0 = r2\n exit\n",
            " r2 = *(u32 *)(r1 + 12)\n if r2 == 5 goto L1\n r2 += 3\n goto L2\n; insn 5\nL1:\n r2 += 4\nL2:\n r0 = r2\n exit\n",
        ),
        // A hoisted arm.
        (
            " r2 = *(u32 *)(r1 + 12)\n if r2 == 5 goto L1\n r0 = 2\n goto L2\nL1:\n r0 = 1\nL2:\n exit\n",
            " r2 = *(u32 *)(r1 + 12)\n; insn 4\n r0 = 1\n; insn 1\n if r2 == 5 goto L2\n; insn 2\n r0 = 2\n; insn 5\nL2:\n exit\n",
        ),
        // A value that is known on the only way here.
        (
            " r2 = *(u32 *)(r1 + 12)\n if r2 == 0 goto L1\n r0 = 2\n exit\nL1:\n r2 = 0\n r0 = r2\n exit\n",
            " r2 = *(u32 *)(r1 + 12)\n if r2 == 0 goto L1\n r0 = 2\n exit\n; insn 5\nL1:\n r0 = r2\n exit\n",
        ),
        // A loop whose bound moves into a register.
        (
            " r0 = 0\n r3 = 0\nL1:\n r0 += 2\n r3 += 1\n if r3 < 9 goto L1\n exit\n",
            " r0 = 0\n r3 = 0\n; insn 20\n r4 = 9\n; insn 2\nL1:\n r0 += 2\n r3 += 1\n if r3 < r4 goto L1\n exit\n",
        ),
        // A dead store.
        (
            " r0 = 2\n *(u64 *)(r10 - 8) = r0\n call get_prandom_u32\n r0 = 2\n exit\n",
            " r0 = 2\n; insn 2\n call get_prandom_u32\n r0 = 2\n exit\n",
        ),
        // No path comes there.
        (
            " r2 = 1\n if r2 == 1 goto L1\n r0 = 7\n exit\nL1:\n r0 = 2\n exit\n",
            " r2 = 1\n; insn 4\nL1:\n r0 = 2\n exit\n",
        ),
    ];
    for (before, after) in cases {
        let simulation = simulated(before, after).unwrap_or_else(|reason| panic!("{reason}\n{before}->\n{after}"));
        assert!(!simulation.segments.is_empty(), "{simulation:?}");
        for segment in &simulation.segments {
            let query = segment.query(&object(before)).expect("a query");
            assert!(query.contains("(check-sat)"), "{query}");
            let text = serde_json::to_string(segment).expect("plain data");
            let again: kiln_equiv::simulation::SegmentRecord = serde_json::from_str(&text).expect("its text");
            assert_eq!(again.query(&object(before)).expect("a query"), query);
        }
    }
    // An address that is kept over a call.
    let kept = changed(
        " r1 = map[m]\n call map_lookup_elem",
        "; insn 30\n r6 = map[m]\n; insn 4\n r1 = r6\n call map_lookup_elem",
    );
    let kept = kept.replace(" *(u64 *)(r0 + 0) = r1\n r1 = map[m]", " *(u64 *)(r0 + 0) = r1\n r1 = r6");
    simulated(LOOKUP, &kept).expect("the map is the same");
}

/// R6 points into the frame on one path and to a map value on the other.
const EITHER: &str = "
 r0 = 0
 *(u32 *)(r10 - 4) = r0
 *(u64 *)(r10 - 24) = r0
; insn 3
 *(u64 *)(r10 - 16) = r0
; insn 4
 r2 = r10
 r2 += -4
 r1 = map[m]
 call map_lookup_elem
 r6 = r0
 if r6 != 0 goto have
 r6 = r10
 r6 += -16
have:
 r3 = *(u32 *)(r6 + 0)
 *(u32 *)(r10 - 32) = r3
 r4 = 5
; insn 15
 call get_prandom_u32
 r0 = *(u32 *)(r10 - 32)
 exit
";

#[test]
fn bytes_that_nothing_reads_may_differ_beside_any_pointer() {
    // The second change is behind the load, so that the load is followed.
    let later = EITHER.replace(" r4 = 5\n", "");
    let unread = later.replace(" *(u64 *)(r10 - 24) = r0\n", "");
    simulated(EITHER, &unread).unwrap_or_else(|reason| panic!("{reason}\n{unread}"));
    let pointed_to = later.replace(" *(u64 *)(r10 - 16) = r0\n", "");
    assert!(simulated(EITHER, &pointed_to).is_err());
    let reads = |text: &str| text.replace(" exit\n", " r3 = *(u32 *)(r10 - 24)\n r0 += r3\n exit\n");
    assert!(simulated(&reads(EITHER), &reads(&unread)).is_err());
    simulated(&reads(EITHER), &reads(&later)).expect("only a dead write is gone");
}

#[test]
fn what_only_looks_like_a_law_is_not_proved() {
    let cases = [
        changed("w1 = 7", "w1 = 8"),
        changed("r2 += -4\n r1 = map[m]\n call map_lookup", "r2 += -8\n r1 = map[m]\n call map_lookup"),
        changed("if r0 == 0 goto out", "if r0 != 0 goto out"),
        changed("r1 += 1\n", "r1 += 2\n"),
        changed(" *(u64 *)(r0 + 0) = r1\n", "; insn 10\n"),
        changed(" r0 = 1\n", " r0 = 2\n"),
        changed(" call map_delete_elem\n", "; insn 14\n"),
        changed("call map_delete_elem", "call map_lookup_elem"),
        // The value's register does not outlive the call.
        changed(" *(u64 *)(r0 + 0) = r1\n r1 = map[m]\n r2 = r10", " *(u64 *)(r0 + 0) = r1\n r1 = map[m]\n r2 = r7"),
        // The key is read by the call.
        changed(" *(u32 *)(r10 - 4) = w1\n", "; insn 2\n"),
    ];
    for after in cases {
        let reason = simulated(LOOKUP, &after).err();
        assert!(reason.is_some(), "proved, although it is wrong:\n{after}");
    }
    let cases = [
        // The branch is not decided on this way.
        (
            " r0 = 0\n r2 = *(u32 *)(r1 + 12)\n if r2 > 5 goto L1\n r0 = 2\nL1:\n if r2 == 6 goto L2\n r0 += 1\nL2:\n exit\n",
            " r0 = 0\n r2 = *(u32 *)(r1 + 12)\n if r2 > 5 goto L3\n r0 = 2\nL1:\n if r2 == 6 goto L2\nL3:\n r0 += 1\nL2:\n exit\n",
        ),
        // A loop that goes round once more, and one that does not go round.
        (
            " r0 = 0\n r3 = 0\nL1:\n r0 += 2\n r3 += 1\n if r3 < 9 goto L1\n exit\n",
            " r0 = 0\n r3 = 0\nL1:\n r0 += 2\n r3 += 1\n if r3 < 10 goto L1\n exit\n",
        ),
        (
            " r0 = 0\n r3 = 0\nL1:\n r0 += 2\n r3 += 1\n if r3 < 9 goto L1\n exit\n",
            " r0 = 0\n r3 = 0\nL1:\n r0 += 2\n r3 += 1\n; insn 5\n exit\n",
        ),
        // The hoisted number is read on the other side.
        (
            " r2 = *(u32 *)(r1 + 12)\n r0 = 3\n if r2 == 5 goto L1\n r0 += 2\n goto L2\nL1:\n r0 = 1\nL2:\n exit\n",
            " r2 = *(u32 *)(r1 + 12)\n r0 = 3\n; insn 5\n r0 = 1\n; insn 2\n if r2 == 5 goto L2\n r0 += 2\n; insn 6\nL2:\n exit\n",
        ),
    ];
    for (before, after) in cases {
        assert!(simulated(before, after).is_err(), "proved, although it is wrong:\n{before}->\n{after}");
    }
}

/// A law's result and the same result spoiled: the law as it is proved, and each spoiled one refused.
struct Trap {
    law: &'static str,
    program: &'static str,
    before: &'static str,
    /// What the law makes of it: a piece of the text and what takes its place, one after another.
    right: &'static [(&'static str, &'static str)],
    /// The same, and then wrong.
    wrong: &'static [(&'static str, &'static str)],
}

/// A buffer that is cleared and then filled; the second slot is not filled.
const FILLED: &str = "
 *(u64 *)(r10 - 16) = 0
 *(u64 *)(r10 - 8) = 0
 *(u64 *)(r10 - 24) = 0
 r3 = r10
 r3 += -16
 r2 = 0
 r4 = 16
 call xdp_load_bytes
 if r0 != 0 goto failed
 r0 = *(u64 *)(r10 - 16)
 r1 = *(u64 *)(r10 - 24)
 r0 += r1
 exit
failed:
 r0 = 1
 exit
";

const FAILED_AND_READ: &str = "
 *(u64 *)(r10 - 8) = 0
 r3 = r10
 r3 += -8
 r2 = 0
 r4 = 8
 call xdp_load_bytes
 if r0 == 0 goto done
 r0 = *(u64 *)(r10 - 8)
 exit
done:
 r0 = *(u64 *)(r10 - 8)
 exit
";

const FIRST: &str = "
 *(u32 *)(r10 - 4) = 0
 r2 = r10
 r2 += -4
 r1 = map[m]
 call map_lookup_elem
 if r0 == 0 goto missing
 r0 = *(u64 *)(r0 + 0)
 exit
missing:
 r0 = 7
 exit
";

const SECOND: &str = "
 *(u32 *)(r10 - 4) = 1
 r2 = r10
 r2 += -4
 r1 = map[m]
 call map_lookup_elem
 if r0 == 0 goto missing
 r0 = *(u64 *)(r0 + 0)
 exit
missing:
 r0 = 7
 exit
";

const PACKET: &str = "
 r6 = r1
 r0 = *(u8 *)skb[23]
 r7 = r0
 r1 = r7
 r1 += 6
 r0 = *(u16 *)skb[r1]
 r0 += r7
 exit
";

const CHECKS: &str = "
 r7 = *(u32 *)(r1 + 0)
 r1 = *(u32 *)(r1 + 4)
 r0 = 1
 r2 = r7
 r2 += 14
 if r2 > r1 goto out
 w3 = *(u16 *)(r7 + 12)
 if w3 != 1 goto out
 r2 = r7
 r2 += 34
 if r2 > r1 goto out
 r0 = *(u8 *)(r7 + 33)
 r0 += 2
out:
 exit
";

const HALF: &str = "
 r6 = *(u64 *)(r1 + 8)
 call get_prandom_u32
 w6 = w6
 r0 += r6
 exit
";

const COVERED: &str = "
 r6 = *(u32 *)(r1 + 0)
 r2 = *(u32 *)(r1 + 4)
 r0 = 1
 r3 = r6
 r3 += 8
 if r3 > r2 goto out
 *(u64 *)(r10 - 8) = 0
 call get_prandom_u32
 w2 = *(u8 *)(r6 + 0)
 *(u8 *)(r10 - 8) = w2
 r0 = *(u64 *)(r10 - 8)
out:
 exit
";

/// What is set first is read behind all calls.
const FAR: &str = "
 r6 = 1
 r7 = 2
 call get_prandom_u32
 if r0 == 0 goto out
 call get_prandom_u32
 r0 = r6
 exit
out:
 r0 = r7
 exit
";

/// The change is behind what it concerns: the loop goes round.
const ROUND: &str = "
 r6 = 0
 r7 = 5
L1:
 call get_prandom_u32
 r6 += 1
 r7 = 5
 if r6 < 4 goto L1
 r0 = r7
 exit
";

const TRAPS: &[Trap] = &[
    Trap {
        law: "far from the change",
        program: "xdp",
        before: FAR,
        right: &[(" r6 = 1\n r7 = 2\n", "; insn 1\n r7 = 2\n; insn 0\n r6 = 1\n; insn 2\n")],
        wrong: &[(" r7 = 2\n", " r7 = 3\n")],
    },
    Trap {
        law: "round a loop",
        program: "xdp",
        before: ROUND,
        right: &[(" r7 = 5\n if", "; insn 5\n if")],
        wrong: &[(" r7 = 5\nL1", " r7 = 6\nL1")],
    },
    Trap {
        law: "dead-store: all of it is filled",
        program: "xdp",
        before: FILLED,
        right: &[(" *(u64 *)(r10 - 16) = 0\n *(u64 *)(r10 - 8) = 0\n", "; insn 2\n")],
        wrong: &[(" *(u64 *)(r10 - 24) = 0\n", "; insn 3\n")],
    },
    Trap {
        law: "dead-store: fewer bytes are filled",
        program: "xdp",
        before: FILLED,
        right: &[(" *(u64 *)(r10 - 16) = 0\n", "; insn 1\n")],
        wrong: &[(" r4 = 16\n", " r4 = 8\n")],
    },
    Trap {
        law: "dead-store: read where it was not filled",
        program: "xdp",
        before: FAILED_AND_READ,
        right: &[],
        wrong: &[(" *(u64 *)(r10 - 8) = 0\n", "; insn 1\n")],
    },
    Trap {
        law: "found-element: the first",
        program: "xdp",
        before: FIRST,
        right: &[(" r0 = 7\n", " r0 = 8\n")],
        wrong: &[("if r0 == 0", "if r0 != 0")],
    },
    Trap {
        law: "found-element: the second",
        program: "xdp",
        before: SECOND,
        right: &[],
        wrong: &[(" r0 = 7\n", " r0 = 8\n")],
    },
    Trap {
        law: "packet-offset",
        program: "socket_filter",
        before: PACKET,
        right: &[("r0 = *(u16 *)skb[r1]", "r0 = *(u16 *)skb[r7 + 6]")],
        wrong: &[("skb[r7 + 6]", "skb[r7 + 8]")],
    },
    Trap {
        law: "packet-offset: of another size",
        program: "socket_filter",
        before: PACKET,
        right: &[],
        wrong: &[("r0 = *(u16 *)skb[r1]", "r0 = *(u8 *)skb[r1]")],
    },
    Trap {
        law: "merged-checks",
        program: "xdp",
        before: CHECKS,
        right: &[
            ("r2 += 14", "r2 += 34"),
            (" r2 = r7\n r2 += 34\n if r2 > r1 goto out\n r0 = *(u8", "; insn 11\n r0 = *(u8"),
        ],
        wrong: &[("r2 += 34", "r2 += 36")],
    },
    Trap {
        law: "merged-checks: the smaller one stays",
        program: "xdp",
        before: CHECKS,
        right: &[],
        wrong: &[(" r2 = r7\n r2 += 34\n if r2 > r1 goto out\n r0 = *(u8", "; insn 11\n r0 = *(u8")],
    },
    Trap {
        law: "narrow-load",
        program: "raw_tracepoint",
        before: HALF,
        right: &[("r6 = *(u64 *)(r1 + 8)", "w6 = *(u32 *)(r1 + 8)")],
        wrong: &[("(u32 *)(r1 + 8)", "(u32 *)(r1 + 12)")],
    },
    Trap {
        law: "cleared-half",
        program: "raw_tracepoint",
        before: HALF,
        right: &[],
        wrong: &[(" w6 = w6\n", "; insn 3\n")],
    },
    Trap {
        law: "covered-store",
        program: "xdp",
        before: COVERED,
        right: &[(" *(u64 *)(r10 - 8) = 0\n", "; insn 7\n"), ("*(u8 *)(r10 - 8) = w2", "*(u64 *)(r10 - 8) = r2")],
        wrong: &[("*(u64 *)(r10 - 8) = r2", "*(u32 *)(r10 - 8) = w2")],
    },
];

#[test]
fn results_of_laws_are_proved_and_spoiled_ones_refused() {
    for Trap { law, program, before, right, wrong } in TRAPS {
        let replaced = |text: String, changes: &[(&str, &str)]| {
            changes.iter().fold(text, |text, (from, to)| {
                assert_eq!(text.matches(from).count(), 1, "{law}: {from:?} in {text}");
                text.replace(from, to)
            })
        };
        let right = replaced((*before).to_owned(), right);
        let simulation = simulated_as(program, before, &right);
        let simulation = simulation.unwrap_or_else(|reason| panic!("{law}: {reason}\n{before}->\n{right}"));
        assert!(!simulation.segments.is_empty(), "{law}: {simulation:?}");
        let wrong = replaced(right, wrong);
        let refused = simulated_as(program, before, &wrong).is_err();
        assert!(refused, "{law}: proved, although it is wrong:\n{before}->\n{wrong}");
    }
}
