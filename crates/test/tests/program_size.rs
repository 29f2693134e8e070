//! Compares the limits on a program's size with the kernel: both accept a program at the limit, and neither accepts one
//! beyond it.

use std::fmt::Write as _;

use kiln_platform::limits::{MAX_FUNCTIONS, MAX_MAPS, MAX_SLOTS};
use kiln_program::Object;
use kiln_program::text::parse;
use kiln_test::engine::kernel_available;
use kiln_verifier::{Error, Options, Reason};

fn functions(count: usize) -> String {
    let mut text = "; program xdp name p\n".to_owned();
    (1..count).for_each(|number| writeln!(text, "  call f{number}").expect("text"));
    text.push_str("  r0 = 0\n  exit\n");
    (1..count).for_each(|number| writeln!(text, "; function f{number} static\n  r0 = 0\n  exit").expect("text"));
    text
}

fn maps(count: usize) -> String {
    let mut text = String::new();
    (0..count).for_each(|number| writeln!(text, "; map m{number} array key 4 value 4 entries 1").expect("text"));
    text.push_str("; program xdp name p\n");
    (0..count).for_each(|number| writeln!(text, "  r1 = map[m{number}]").expect("text"));
    text + "  r0 = 0\n  exit\n"
}

/// A branch that only loading decides: each instruction is processed once.
fn slots(count: usize) -> String {
    let begin = "; program xdp name p\n  r2 = *(u32 *)(r1 + 16)\n  if r2 == 1 goto l\n  r0 = 0\n  exit\nl:\n";
    format!("{begin}{}  exit\n", "  r0 = 0\n".repeat(count - 5))
}

/// Whether Kiln and the kernel accept it.
fn accepted(object: &Object) -> [bool; 2] {
    let program = &object.programs[0];
    let ours = match kiln_verifier::verify(object, program, &Options { skip_facts: true, ..Options::default() }) {
        Ok(_) => true,
        Err(Error::Rejected(rejection)) if rejection.reason == Reason::TooLarge => false,
        Err(other) => panic!("{other}"),
    };
    [ours, kiln_linux::load_image(object, program).is_ok()]
}

#[test]
fn what_a_program_may_have_at_most() {
    if let Err(why) = kernel_available() {
        println!("skipped: {why}");
        return;
    }
    let rows: [(&str, fn(usize) -> String, usize); 3] =
        [("functions", functions, MAX_FUNCTIONS), ("maps", maps, MAX_MAPS), ("slots", slots, MAX_SLOTS)];
    for (what, text, most) in rows {
        for (count, expected) in [(most, true), (most + 1, false)] {
            let object = parse(&text(count)).expect("well-formed text");
            assert_eq!(accepted(&object), [expected; 2], "{count} {what}");
        }
    }
}
