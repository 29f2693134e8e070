//! Which programs may read stack bytes that they never wrote: with privilege that is allowed, and whoever runs them
//! must know.

use kiln_verifier::{Options, verify};

#[track_caller]
fn reads_uninitialized_stack(body: &str) -> bool {
    let object =
        kiln_program::text::parse(&format!("; map values array key 4 value 8 entries 4\n; program xdp\n{body}"));
    let object = object.expect("it parses");
    let program = &object.programs[0];
    let verified = verify(&object, program, &Options::default()).expect("it is accepted");
    let unprivileged = Options { unprivileged: true, ..Options::default() };
    // The kernel, and the verifier with it, takes what a helper is to fill for filled.
    let fills = body.contains("xdp_load_bytes");
    if verified.reads_uninitialized_stack && !fills {
        assert!(verify(&object, program, &unprivileged).is_err(), "without privilege it is an error");
    }
    verified.reads_uninitialized_stack
}

#[test]
fn a_byte_never_written() {
    assert!(reads_uninitialized_stack("*(u32 *)(r10 - 8) = 1\nr0 = *(u64 *)(r10 - 8)\nexit"));
    assert!(!reads_uninitialized_stack("*(u64 *)(r10 - 8) = 1\nr0 = *(u64 *)(r10 - 8)\nexit"));
}

#[test]
fn a_byte_written_on_the_other_path() {
    let with = |otherwise: &str| {
        format!(
            "r1 = *(u32 *)(r1 + 12)\nif r1 == 0 goto other\n*(u64 *)(r10 - 8) = r1\ngoto both\nother:\n{otherwise}\n\
             both:\nr2 = 1\nr2 += 1\nr2 += 1\nr2 += 1\nr2 += 1\nr2 += 1\nr2 += 1\nif r1 > 1 goto on\nr0 = 1\non:\n\
             r0 = *(u64 *)(r10 - 8)\nr0 &= 1\nexit"
        )
    };
    assert!(reads_uninitialized_stack(&with("r3 = 5")));
    assert!(!reads_uninitialized_stack(&with("*(u64 *)(r10 - 8) = 5")));
}

#[test]
fn a_key_that_is_not_whole() {
    let with =
        |store: &str| format!("{store}\nr1 = map[values]\nr2 = r10\nr2 += -4\ncall map_lookup_elem\nr0 = 0\nexit");
    assert!(reads_uninitialized_stack(&with("*(u16 *)(r10 - 4) = 1")));
    assert!(!reads_uninitialized_stack(&with("*(u32 *)(r10 - 4) = 1")));
}

#[test]
fn a_store_somewhere_writes_nothing_for_certain() {
    let with = |before: &str| {
        format!(
            "{before}\nr1 = *(u32 *)(r1 + 12)\nr1 &= 8\nr2 = r10\nr2 += -16\nr2 += r1\n*(u64 *)(r2 + 0) = 7\n\
             r0 = *(u64 *)(r10 - 8)\nexit"
        )
    };
    assert!(reads_uninitialized_stack(&with("r0 = 0")));
    assert!(!reads_uninitialized_stack(&with("*(u64 *)(r10 - 8) = 0\n*(u64 *)(r10 - 16) = 0")));
}

#[test]
fn a_helper_that_may_fill_nothing() {
    let with = |before: &str| {
        format!(
            "{before}\nr2 = 0\nr3 = r10\nr3 += -8\nr4 = 8\ncall xdp_load_bytes\nr0 = *(u64 *)(r10 - 8)\nr0 &= 1\nexit"
        )
    };
    assert!(reads_uninitialized_stack(&with("r0 = 0")));
    assert!(!reads_uninitialized_stack(&with("*(u64 *)(r10 - 8) = 0")));
}
