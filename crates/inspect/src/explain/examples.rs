//! An example for each reason of a rejection: the smallest program that is rejected for it, and the same mended.
//!
//! They are filetests (or programs of `docs/reference/mistakes.md`), so what is said of them here is tested: `kiln explain`
//! prints no example that the verifier does not judge as it says.

/// A rejected program and its mended form, as text.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The reason's code.
    pub code: &'static str,
    /// Rejected for it.
    pub rejected: &'static str,
    /// Accepted, where there is one.
    pub mended: Option<&'static str>,
}

macro_rules! text {
    ($file:literal) => {
        include_str!(concat!("../../../../tests/", $file))
    };
}

macro_rules! in_c {
    ($code:literal, $file:literal) => {
        Example {
            code: $code,
            rejected: include_str!(concat!("../../../../tests/mistakes/", $file)),
            mended: Some(include_str!(concat!("../../../../tests/mistakes/mended/", $file))),
        }
    };
}

macro_rules! examples {
    ($( $code:literal: $rejected:literal $(=> $mended:literal)?; )*) => {
        /// One for each reason that a small program can show.
        pub const EXAMPLES: &[Example] = &[$( Example {
            code: $code,
            rejected: text!($rejected),
            mended: examples!(@mended $($mended)?),
        } ),*];
    };
    (@mended) => { None };
    (@mended $mended:literal) => { Some(text!($mended)) };
}

examples! {
    "possibly-null": "filetests/verifier/null-check-missing.bpf" => "filetests/verifier/null-check.bpf";
    "packet-out-of-bounds": "filetests/verifier/packet-one-byte-too-far.bpf" => "filetests/verifier/packet-checked.bpf";
    "map-value-out-of-bounds": "filetests/verifier/map-value-index-off-by-one.bpf"
        => "filetests/verifier/map-value-compared-index.bpf";
    "memory-out-of-bounds": "filetests/verifier/ring-buffer-out-of-bounds.bpf"
        => "filetests/verifier/ring-buffer-submitted.bpf";
    "stack-out-of-bounds": "filetests/verifier/stack-below-frame.bpf" => "filetests/verifier/stack-lowest-bytes.bpf";
    "uninitialized-register": "filetests/verifier/register-destroyed-by-call.bpf"
        => "filetests/verifier/mended-uninitialized-register.bpf";
    "bad-context-access": "filetests/verifier/context-read-only-field.bpf"
        => "filetests/verifier/mended-bad-context-access.bpf";
    "not-a-pointer": "filetests/verifier/packet-after-adjust-head.bpf" => "filetests/verifier/mended-not-a-pointer.bpf";
    "pointer-arithmetic": "filetests/verifier/pointer-multiplied.bpf"
        => "filetests/verifier/mended-pointer-arithmetic.bpf";
    "unbounded-offset": "filetests/verifier/map-value-signed-check-only.bpf"
        => "filetests/verifier/mended-unbounded-offset.bpf";
    "wrong-argument-type": "filetests/verifier/argument-not-a-map.bpf"
        => "filetests/verifier/mended-wrong-argument-type.bpf";
    "bad-argument-size": "filetests/verifier/argument-size-unbounded.bpf"
        => "filetests/verifier/mended-bad-argument-size.bpf";
    "helper-not-allowed": "filetests/verifier/helper-of-other-programs.bpf";
    "gpl-only": "filetests/verifier/helper-for-gpl-only.bpf" => "filetests/verifier/mended-gpl-only.bpf";
    "map-helper-mismatch": "filetests/verifier/map-of-wrong-type.bpf"
        => "filetests/verifier/mended-map-helper-mismatch.bpf";
    "read-only-memory": "filetests/verifier/map-value-read-only.bpf"
        => "filetests/verifier/mended-read-only-memory.bpf";
    "misaligned": "filetests/verifier/misaligned.bpf" => "filetests/verifier/mended-misaligned.bpf";
    "unreleased-reference": "filetests/verifier/ring-buffer-leaked.bpf"
        => "filetests/verifier/ring-buffer-submitted.bpf";
    "not-held": "filetests/verifier/dynptr-borrowed-given-up.bpf";
    "lock-discipline": "mistakes/lock-not-released.c";
    "infinite-loop": "filetests/verifier/loop-infinite.bpf" => "filetests/verifier/loop-bounded.bpf";
    "too-complex": "filetests/verifier/too-complex.bpf" => "filetests/verifier/loop-bounded.bpf";
    "call-depth": "filetests/verifier/call-stack-in-sum.bpf" => "filetests/verifier/mended-call-depth.bpf";
    "bad-return-value": "filetests/verifier/return-value-of-cgroup.bpf"
        => "filetests/verifier/mended-bad-return-value.bpf";
    "bad-instruction": "filetests/verifier/division-by-constant-zero.bpf";
    "unreachable-code": "filetests/verifier/unreachable-code.bpf" => "filetests/verifier/mended-unreachable-code.bpf";
    "dynptr-misuse": "filetests/verifier/dynptr-bytes-read.bpf";
    "critical-section": "filetests/verifier/rcu-section-tail-call.bpf" => "filetests/verifier/rcu-section.bpf";
    "iterator-misuse": "filetests/verifier/iterator-next-before-new.bpf"
        => "filetests/verifier/iterator-of-numbers.bpf";
}

/// Mistakes in C and the same programs mended: `tests/mistakes` has both. The most usual one of a reason is first.
pub const IN_C: &[Example] = &[
    in_c!("possibly-null", "missing-null-check.c"),
    in_c!("packet-out-of-bounds", "packet-never-checked.c"),
    in_c!("map-value-out-of-bounds", "index-off-by-one.c"),
    in_c!("unreleased-reference", "leaked-reference.c"),
    in_c!("infinite-loop", "unbounded-loop.c"),
    in_c!("bad-argument-size", "size-unbounded.c"),
    in_c!("not-a-pointer", "use-after-release.c"),
    in_c!("stack-out-of-bounds", "stack-out-of-bounds.c"),
    in_c!("bad-return-value", "return-value-out-of-range.c"),
    in_c!("lock-discipline", "lock-not-released.c"),
    in_c!("uninitialized-register", "register-across-call.c"),
    in_c!("pointer-arithmetic", "arithmetic-on-map.c"),
    in_c!("call-depth", "call-stack-too-large.c"),
    in_c!("bad-context-access", "context-read-only.c"),
    in_c!("gpl-only", "gpl-only-helper.c"),
    in_c!("helper-not-allowed", "helper-not-allowed.c"),
    in_c!("unbounded-offset", "index-bound-lost.c"),
    in_c!("not-a-pointer", "kernel-pointer-read.c"),
    in_c!("stack-out-of-bounds", "key-too-small.c"),
    in_c!("stack-out-of-bounds", "local-too-small.c"),
    in_c!("map-value-out-of-bounds", "map-value-too-small.c"),
    in_c!("misaligned", "misaligned-stack.c"),
    in_c!("possibly-null", "null-check-on-one-path.c"),
    in_c!("not-a-pointer", "packet-after-adjust-head.c"),
    in_c!("packet-out-of-bounds", "packet-end-off-by-one.c"),
    in_c!("packet-out-of-bounds", "packet-walk.c"),
    in_c!("pointer-arithmetic", "pointer-masked.c"),
    in_c!("wrong-argument-type", "released-twice.c"),
    in_c!("unbounded-offset", "signed-index.c"),
    in_c!("bad-argument-size", "size-may-be-zero.c"),
    in_c!("not-a-pointer", "spilled-bytes.c"),
    in_c!("call-depth", "tail-call-depth.c"),
    in_c!("too-complex", "too-complex.c"),
    in_c!("not-a-pointer", "user-pointer-read.c"),
    in_c!("wrong-argument-type", "field-as-key.c"),
    in_c!("map-helper-mismatch", "map-of-wrong-type.c"),
    in_c!("packet-out-of-bounds", "packet-offset-unbounded.c"),
    in_c!("packet-out-of-bounds", "packet-start-compared.c"),
    in_c!("bad-argument-size", "record-size-varies.c"),
    in_c!("bad-argument-size", "size-without-bounds.c"),
    in_c!("wrong-argument-type", "timer-as-value.c"),
    in_c!("bad-return-value", "callback-returns-two.c"),
    in_c!("lock-discipline", "helper-under-lock.c"),
];

/// The examples of a reason in C, by its code.
pub fn in_c(code: &str) -> impl Iterator<Item = &'static Example> {
    IN_C.iter().filter(move |example| example.code == code)
}

/// The example of a reason, by its code.
pub fn of(code: &str) -> Option<&'static Example> {
    EXAMPLES.iter().find(|example| example.code == code)
}

impl Example {
    /// Its programs without the directives that only the tests read.
    pub fn texts(&self) -> (String, Option<String>) {
        (shown(self.rejected), self.mended.map(shown))
    }
}

fn shown(text: &str) -> String {
    const DIRECTIVES: [&str; 6] = ["; check:", "; kernel:", "; except:", "; run:", "// check:", "// prevail:"];
    let lines = text.lines().filter(|line| !DIRECTIVES.iter().any(|directive| line.starts_with(directive)));
    lines.map(|line| line.replace("; error:", "; rejected:")).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{EXAMPLES, IN_C};

    #[test]
    fn every_mended_mistake_is_an_example() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mistakes/mended");
        let files = std::fs::read_dir(folder).expect("tests/mistakes/mended").count();
        assert_eq!(files, IN_C.len());
    }

    #[test]
    fn examples_are_judged_as_they_are_said_to_be() {
        for example in EXAMPLES.iter().chain(IN_C) {
            assert!(example.rejected.contains(&format!("check: reject {}", example.code)), "{}", example.code);
            assert!(example.mended.is_none_or(|text| text.contains("check: accept")), "{}", example.code);
            assert!(kiln_verifier::Reason::ALL.iter().any(|reason| reason.code() == example.code), "{}", example.code);
        }
    }
}
