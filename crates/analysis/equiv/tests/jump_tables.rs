//! Functions with indirect jumps: a change before one or in a target is proved, and what only looks like one is not.

use kiln_equiv::helpers::Helpers;
use kiln_equiv::simulation::arguments::Arguments;
use kiln_equiv::simulation::{Question, simulate};
use kiln_platform::{KernelVersion, Profile};
use kiln_program::{Object, text};

/// A program that picks an entry by a bit of the packet's queue.
const PROGRAM: &str = "\
; map T insn_array key 4 value 16 entries 3
; program xdp name p
; table T zero one two
 r2 = *(u32 *)(r1 + 16)
 r3 = 7
 r4 = r2
 r2 &= 1
 r2 <<= 3
 r1 = map_value[T] + 0
 r1 += r2
 r1 = *(u64 *)(r1 + 8)
 gotox r1
zero:
 r0 = 0
 exit
one:
 r0 = r3
 exit
two:
 r0 = r4
 r0 += 1
 exit
";

fn parsed(text: &str) -> Object {
    text::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn is_proved(after: &str) -> bool {
    let (before, after) = (parsed(PROGRAM), parsed(after));
    let profile = Profile::of(KernelVersion::new(6, 19));
    let options = kiln_verifier::Options { profile, ..Default::default() };
    let facts = kiln_verifier::verify(&before, &before.programs[0], &options).expect("it is safe").facts;
    let question = Question {
        object: &before,
        before: &before.functions[0],
        after: &after.functions[0],
        facts: Some(&facts),
        inlined: None,
        arguments: &Arguments::whole(),
        solver_steps: 250_000,
        keep_segments: true,
        quick: false,
        stop: &|| false,
        helpers: &Helpers::default(),
    };
    simulate(&question).is_ok()
}

fn changed(from: &str, to: &str) -> String {
    assert_eq!(PROGRAM.matches(from).count(), 1, "{from}");
    PROGRAM.replace(from, to)
}

#[test]
fn changes_beside_jumps_are_proved() {
    for (from, to) in [(" r3 = 7\n", " w3 = 7\n"), (" r2 &= 1\n", " w2 &= 1\n"), (" r0 = r3\n", " r0 = 7\n")] {
        assert!(is_proved(&changed(from, to)), "{from} -> {to}");
    }
}

#[test]
fn what_differs_behind_a_jump_is_not_proved() {
    for (from, to) in [
        // What only one target reads, what one returns, another entry, another table.
        (" r3 = 7\n", " r3 = 8\n"),
        (" r4 = r2\n", " r4 = 2\n"),
        (" r0 += 1\n", " r0 += 2\n"),
        (" r1 = *(u64 *)(r1 + 8)\n", " r1 = *(u64 *)(r1 + 0)\n"),
        ("; table T zero one two\n", "; table T zero two one\n"),
    ] {
        assert!(!is_proved(&changed(from, to)), "{from} -> {to}");
    }
}
