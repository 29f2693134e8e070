//! The table of rules.

use super::linted::{Check, Only, Rule};
use super::{calls, flow, memory};

const VERIFIER: &str = "https://docs.kernel.org/bpf/verifier.html";
const MAPS: &str = "https://docs.kernel.org/bpf/maps.html";
const HELPERS: &str = "https://man7.org/linux/man-pages/man7/bpf-helpers.7.html";

macro_rules! rule {
    ($name:literal, $check:expr, $only:ident, $sentence:literal, why $why:literal, fix $fix:literal, about $about:ident) => {
        Rule {
            name: $name,
            sentence: $sentence,
            why: $why,
            fix: $fix,
            about: $about,
            doubtful: include_str!(concat!("../../../../tests/lint/", $name, ".c")),
            mended: include_str!(concat!("../../../../tests/lint/mended/", $name, ".c")),
            check: $check,
            only: Only::$only,
        }
    };
}

/// Every rule, in the order of the documentation (`docs/guide/lint.md`).
pub const RULES: &[Rule] = &[
    rule!(
        "unwritten-key", Check::Program(memory::unwritten_keys), All,
        "Some bytes of a map's key were never written.",
        why "The bytes hold what was on the stack before, so the same key is another one each time. Padding of a structure \
             is such bytes. Linux 6.3 and later accept it from privileged programs.",
        fix "clear the whole key first: `__builtin_memset(&key, 0, sizeof(key));`",
        about VERIFIER
    ),
    rule!(
        "unwritten-bytes", Check::Program(memory::unwritten_bytes), All,
        "A helper reads bytes of the stack that were never written.",
        why "What was on the stack before goes into a map, to user space or into a packet. Linux 6.3 and later accept it \
             from privileged programs.",
        fix "clear the whole variable first: `__builtin_memset(&value, 0, sizeof(value));`",
        about VERIFIER
    ),
    rule!(
        "unwritten-local", Check::Program(memory::unwritten_locals), All,
        "The program reads a local variable that was not written on some path.",
        why "It reads what was on the stack before. Linux 6.3 and later accept it from privileged programs.",
        fix "give the variable a value where it is declared",
        about VERIFIER
    ),
    rule!(
        "unchecked-result", Check::Program(calls::unchecked_results), All,
        "Nothing looks at the result of a helper that may fail.",
        why "The program goes on as if the call had succeeded. Only helpers are listed for which that does harm.",
        fix "look at the result, and count or return an error",
        about HELPERS
    ),
    rule!(
        "lost-update", Check::Program(memory::lost_updates), All,
        "A value of a shared map is loaded, changed and stored, and nothing keeps other CPUs away.",
        why "Of two CPUs that do so at once, one loses its update: counters are too low, flags are not set.",
        fix "use `__sync_fetch_and_add(&value, n)`, a per-CPU map, or a bpf_spin_lock",
        about MAPS
    ),
    rule!(
        "debug-print", Check::Program(calls::debug_prints), AsCompiled,
        "The program prints to the kernel's trace pipe.",
        why "All programs share this pipe, and printing takes microseconds. It is meant for debugging only.",
        fix "remove it, or send a record with bpf_ringbuf_output",
        about HELPERS
    ),
    rule!(
        "deprecated-helper", Check::Program(calls::deprecated_helpers), All,
        "A helper is called that newer ones replace.",
        why "bpf_probe_read does not know whether an address is one of user space. On some architectures it reads the wrong \
             memory.",
        fix "use the helpers that replace it",
        about HELPERS
    ),
    rule!(
        "repeated-null-check", Check::Program(flow::repeated_null_checks), InEveryProgram,
        "A pointer is compared with null that cannot be null.",
        why "The branch is never taken: a check is repeated, or another variable was meant.",
        fix "remove the check",
        about VERIFIER
    ),
    rule!(
        "loop-under-lock", Check::Program(flow::loops_under_lock), All,
        "A loop turns while a spin lock is held.",
        why "Other CPUs spin for as long as the loop takes, with their interrupts off.",
        fix "take the lock only around what is shared, outside of the loop if possible",
        about HELPERS
    ),
    rule!(
        "unused-map", Check::Object(memory::unused_maps), All,
        "No program uses a map of the object.",
        why "Loaders create it all the same, and it takes memory. If only user space uses it, allow the rule.",
        fix "remove the map",
        about MAPS
    ),
];

#[cfg(test)]
mod tests {
    use super::RULES;

    #[test]
    fn names_are_unique_and_no_reasons_of_rejections() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.extend(kiln_verifier::Reason::ALL.iter().map(|reason| reason.code()));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
