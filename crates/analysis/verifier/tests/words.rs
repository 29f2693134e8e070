//! The kernel's words for a rejection name the register that is at fault, whatever else our own message mentions.

use kiln_platform::{KernelVersion, Profile};
use kiln_verifier::{Error, Options, verify};

#[track_caller]
fn words(body: &str) -> String {
    let header = "; map values array key 4 value 8 entries 4\n; program socket_filter\n";
    let object = kiln_program::text::parse(&format!("{header}{body}")).expect("it parses");
    let options = Options { unprivileged: true, ..Options::default() };
    match verify(&object, &object.programs[0], &options) {
        Err(Error::Rejected(rejection)) => rejection.kernel_message.clone().unwrap_or_default(),
        other => panic!("rejected, not {other:?}"),
    }
}

#[test]
fn a_place_on_the_stack_is_no_register() {
    // Our message speaks of the bytes at r10-8.
    let found = words("r2 = r10\nr2 += -8\nr0 = *(u64 *)(r2 + 0)\nexit");
    assert_eq!(found, "invalid read from stack off -8+0 size 8");
}

#[test]
fn a_pointer_is_measured_where_it_was_moved_to() {
    let found = words(
        "r2 = r10\nr2 += -4\n*(u32 *)(r2 + 0) = 0\nr1 = values ll\ncall map_lookup_elem\nif r0 == 0 goto L1\n\
         r1 = *(u8 *)(r0 + 0)\nr0 += r1\nL1:\nr0 = 0\nexit",
    );
    assert_eq!(found, "R0 max value is outside of the allowed memory range");
}

#[test]
fn the_register_that_holds_nothing() {
    assert_eq!(words("r0 = 0\nr0 += r3\nexit"), "R3 !read_ok");
}

#[test]
fn a_size_is_at_fault_not_its_memory() {
    let found = words(
        "r6 = r1\nr4 = *(u32 *)(r1 + 0)\nr3 = r10\nr3 += -8\n*(u64 *)(r10 - 8) = 0\nr1 = r6\nr2 = 0\n\
         call skb_load_bytes\nr0 = 0\nexit",
    );
    assert_eq!(found, "R4 invalid zero-sized read: u64=[0,4294967295]");
}

#[test]
fn an_instruction_that_a_kernel_lacks_is_guarded_by_no_test() {
    let helped = |(major, minor), body: &str| {
        let object = kiln_program::text::parse(&format!("; program socket_filter\n{body}")).expect("it parses");
        let profile = Profile::of(KernelVersion::new(major, minor));
        match verify(&object, &object.programs[0], &Options { profile, ..Options::default() }) {
            Err(Error::Rejected(rejection)) => rejection.help.clone(),
            other => panic!("rejected, not {other:?}"),
        }
    };
    let divided = "r0 = -6\nr0 s/= -3\nexit";
    assert!(helped((6, 1), divided).starts_with("compile with -mcpu=v3: "), "{}", helped((6, 1), divided));
    let exchanged = "*(u64 *)(r10 - 8) = 0\nr1 = 1\nr1 = xchg_64(r10 - 8, r1)\nr0 = 0\nexit";
    assert!(helped((5, 4), exchanged).starts_with("take a lock, "), "{}", helped((5, 4), exchanged));
    // A helper can be tested for.
    let asks = "r1 = r10\ncall get_netns_cookie\nr0 = 0\nexit";
    assert!(helped((5, 4), asks).starts_with("test for it with "), "{}", helped((5, 4), asks));
}
