//! Mistakes, and an input for each on which it goes wrong or does what is forbidden. Each input is run once more here, and
//! comes to the same place with the same numbers.

use std::path::Path;

use kiln_driver::repair::{Stimulus, replay};
use serde_json::Value;

use crate::{SOURCES, compile_for, repaired};

/// A folder of mistakes. For those that are not listed, an input goes wrong.
struct Mistakes {
    folder: &'static str,
    /// Those that break a rule of the kernel's, on an input that is found.
    forbidden: &'static [&'static str],
    /// Those without an input, and why.
    without: &'static [(&'static str, &'static str)],
    /// Those that each run of the tests takes.
    always: &'static [&'static str],
}

/// A mistake that is harmless: the byte that is read is there when the start of the packet is before its end.
const HARMLESS: &str = "packet-start-compared";
/// Another one: when the function is static, its arguments are the packet's pointers.
const STATIC: &str = "global-parser";
/// No mistake on a kernel that lets programs with privilege read what they have not written.
const ACCEPTED: &str = "uninitialised-stack";

const MISTAKES: Mistakes = Mistakes {
    folder: "mistakes",
    forbidden: &[
        "call-stack-too-large",
        "callback-returns-two",
        "context-read-only",
        "gpl-only-helper",
        "helper-not-allowed",
        "helper-under-lock",
        "map-of-wrong-type",
        "misaligned-stack",
        "return-value-out-of-range",
        "tail-call-depth",
        "timer-as-value",
    ],
    without: &[
        (ACCEPTED, "it is accepted"),
        (HARMLESS, "it is harmless"),
        ("packet-never-checked", "a frame always has the one byte that is read: no input goes wrong"),
        ("packet-offset-unbounded", "an address of 64 bits plus a number of 32 does not overflow: no input goes wrong"),
        ("packet-walk", "each byte is compared with the end, and packets have one: no input goes wrong"),
        ("pointer-masked", "the value is aligned already, so the mask changes nothing: no input goes wrong"),
        ("record-size-varies", "any one size is allowed, and a run has one: no input shows that it varies"),
        ("too-complex", "all runs together are too many, and none is wrong"),
    ],
    always: &["field-as-key", "index-bound-lost", "timer-as-value", "tail-call-depth", HARMLESS],
};

const FRESH: Mistakes = Mistakes {
    folder: "fresh",
    forbidden: &[
        "compared-with-map-text",
        "context-and-map-swapped",
        "entry-returns-one",
        "field-of-other-family",
        "filter-writes-packet",
        "format-on-stack",
        "iterator-not-destroyed",
        "license-forgotten",
        "socket-filter-reads-directly",
        "sockets-helper-in-xdp",
        "update-under-lock",
        "wrong-map-for-output",
    ],
    without: &[
        ("callback-index-unchecked", "the loop has as many turns as the table has elements: no input goes wrong"),
        (STATIC, "it is harmless"),
        ("histogram-slot", "no input is large enough"),
        ("key-in-packet", "a frame always has the bytes of the key: no input goes wrong"),
        ("length-compared", "the length that is compared is right: no input goes wrong"),
        ("null-discarded", "the ring buffer is never full"),
        ("offset-too-wide", "an address of 64 bits plus a number of 32 does not overflow: no input goes wrong"),
        ("path-joined", "names in kernel memory are never that long"),
        ("wrong-branch-read", "a frame always has the six bytes that are read: no input goes wrong"),
    ],
    always: &["locked-twice", "task-not-checked", "array-by-pid", "callback-context-overrun"],
};

/// Of so many mistakes, a run of the tests takes one; with `KILN_ALL_INPUTS`, each.
const STRIDE: usize = 4;

impl Mistakes {
    fn names(&self) -> Vec<String> {
        let folder = Path::new(SOURCES).with_file_name(self.folder);
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".c")?.to_owned()))
            .collect();
        names.sort();
        names
    }

    fn expected(&self, name: &str) -> &'static str {
        match name {
            HARMLESS | STATIC => "repaired-proved",
            ACCEPTED => "accepted",
            _ if self.forbidden.contains(&name) => "forbidden",
            _ if self.without.iter().any(|(own, _)| *own == name) => "not-decided",
            _ => "really-unsafe",
        }
    }

    /// Four of five have an input, and each that is listed is there.
    fn are_enough(&self, names: &[String]) {
        let listed = self.forbidden.iter().chain(self.without.iter().map(|(name, _)| name)).chain(self.always);
        for name in listed {
            assert!(names.iter().any(|own| own == name), "{name}");
        }
        let shown = names.len() - self.without.len();
        assert!(5 * shown >= 4 * names.len(), "{shown} of {} in tests/{}", names.len(), self.folder);
    }

    fn all_are_as_expected(&self) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (object, output) = (folder.path().join("a.o"), folder.path().join("b.o"));
        let names = self.names();
        self.are_enough(&names);
        let stride = if std::env::var_os("KILN_ALL_INPUTS").is_some() { 1 } else { STRIDE };
        let mut wrong = Vec::new();
        for name in names.iter().map(String::as_str).step_by(stride).chain(self.always.iter().copied()) {
            let source = Path::new(SOURCES).with_file_name(self.folder).join(format!("{name}.c"));
            if !compile_for(&source, &object, "v3") {
                eprintln!("skipped: no clang-19");
                return;
            }
            let text = std::fs::read_to_string(&source).expect("a source");
            let kernel = text.lines().find_map(|line| line.strip_prefix("// kernel: ")).unwrap_or("6.18");
            let document = repaired(&object, &output, &["--offline", "--budget", "30", "--kernel", kernel]);
            let decision = &document["programs"][0]["decision"];
            if decision != self.expected(name) {
                wrong.push(format!("{name}: {decision}, {}", document["programs"][0]["reason"]));
            }
            if document["programs"][0]["witness"].is_object() {
                comes_there_again(&object, &document["programs"][0]);
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Addresses are above it, and differ from process to process.
const FIRST_ADDRESS: u64 = 1 << 30;

/// The steps, with addresses left out of their registers.
fn without_addresses(steps: &Value) -> Vec<String> {
    let kept = |read: &Value| {
        let (reg, value) = read.as_str().and_then(|read| read.split_once(" = 0x")).expect("a register");
        let value = u64::from_str_radix(value, 16).expect("a number");
        if value < FIRST_ADDRESS { format!("{reg}={value}") } else { reg.to_owned() }
    };
    let own = |step: &Value| {
        let reads: Vec<String> = step["reads"].as_array().expect("registers").iter().map(kept).collect();
        format!("{} {} {} {reads:?}", step["function"], step["slot"], step["text"])
    };
    steps.as_array().expect("steps").iter().map(own).collect()
}

/// Runs the input of a report once more: the last steps are those of the report, with the same registers, and the last one
/// is where it goes wrong.
fn comes_there_again(object: &Path, program: &Value) {
    let witness = &program["witness"];
    let bytes = |value: &Value| kiln_driver::hex::from_hex(value.as_str().unwrap_or_default()).expect("digits");
    let stimulus = Stimulus {
        packet: bytes(&witness["packet"]),
        context: witness["context"].is_string().then(|| bytes(&witness["context"])),
        seed: witness["seed"].as_u64().expect("a number"),
        filling: witness["filling"].as_u64().expect("a number") as u32,
    };
    let mut input = kiln_driver::input::open(object, &[]).expect("an object");
    input.use_kernel_types();
    let name = program["program"].as_str().expect("a name");
    let run = replay(&input, name, &stimulus, witness["executed"].as_u64().expect("a number") as usize).expect("a run");
    let again = serde_json::to_value(&run).expect("a document");
    let shown = without_addresses(&witness["steps"]);
    assert_eq!(shown, without_addresses(&again), "{name}");
    let last = witness["steps"].as_array().and_then(|steps| steps.last()).expect("a step");
    let ended = witness["what"].as_str().is_some_and(|what| what.contains("has not ended"));
    assert!(ended || [&last["function"], &last["slot"]] == [&witness["function"], &witness["slot"]], "{witness}");
}

#[test]
fn a_mistake_has_an_input_and_only_a_harmless_one_is_proved() {
    MISTAKES.all_are_as_expected();
}

#[test]
fn a_fresh_mistake_has_an_input() {
    FRESH.all_are_as_expected();
}
