//! Asks the kernel and the VM whether the properties of helpers' rows, map types and contexts are true.
//!
//! Proofs rely on these properties, so a row that states too much makes wrong rewrites "proved". Each question is a
//! program that returns 1 if the property holds and 0 if it does not:
//!
//! ```text
//!   probe_read       fills: yes    the kernel answers 1: allowed to say so
//!   probe_read_str   fills: no     the kernel answers 0: a row that said yes would fail here
//! ```
//!
//! Every row with such a property has a question (or is in [`NOT_ASKED`] with the reason). So if a row gets a property,
//! the test fails until it has a question.

use kiln_platform::{ContextAccess, Fills, Follows, Helper, MapType, ProgramType, Stable};
use kiln_program::text::parse;
use kiln_test::engine::{Engine, NoRun, kernel_available, run};

/// A property of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Property {
    /// [`Fills::Always`].
    FillsAlways,
    /// [`Fills::OnSuccess`], asked when the helper succeeds.
    FillsOnSuccess,
    /// [`Stable::Always`].
    StableAlways,
    /// [`MapRules::elements_stay`](kiln_platform::MapRules::elements_stay).
    ElementsStay,
    /// [`Follows::Nothing`].
    FollowsNothing,
    /// [`Helper::answer_bits`]: the result has no other bits.
    AnswerBits,
    /// [`Helper::returns_size`]: the result is negative, or at most the size that was passed.
    ReturnsSize,
    /// [`MapRules::finds_every_key`](kiln_platform::MapRules::finds_every_key).
    FindsEveryKey,
    /// [`ContextAccess::Memory`]: a load of four bytes gives a number of four bytes.
    ContextIsMemory,
}

/// Rows with a property that cannot be asked here.
const NOT_ASKED: &[(&str, &str)] = &[
    ("per_cpu_ptr", "its argument is a variable of the kernel, which text cannot name"),
    ("this_cpu_ptr", "its argument is a variable of the kernel, which text cannot name"),
    ("get_current_task_btf", "the kernel's test run gives no packet to the program types that may call it"),
    ("probe_read", "the kernel's test run gives no packet to the program types that may call it; as probe_read_kernel"),
    ("get_numa_node_id", "one node here: nothing could differ"),
    ("perf_prog_read_value", "the kernel's test run does not run programs of perf events"),
    ("get_stack", "the kernel's test run gives no packet to the program types that may call it"),
    ("get_task_stack", "the kernel's test run gives no packet to the program types that may call it"),
    (
        "probe_read_str",
        "the kernel's test run gives no packet to the program types that may call it; as probe_read_kernel_str",
    ),
    ("kprobe", "the kernel has no test run for it"),
    ("tracepoint", "the kernel has no test run for it"),
    ("raw_tracepoint", "the kernel's test run gives it arguments, no packet"),
    ("raw_tracepoint_writable", "the kernel's test run gives it arguments, no packet"),
    ("tracing", "the kernel's test run calls the traced function instead"),
];

/// Calls a helper that fills 16 bytes at `r10 - 16` twice, over bytes of two kinds, and compares what is there.
fn fills(kind: &str, call: &str) -> String {
    let fill = |byte: &str| format!("r1 = {byte} ll\n*(u64 *)(r10 - 16) = r1\n*(u64 *)(r10 - 8) = r1\n{call}\n");
    format!(
        "; program {kind}\nr6 = r1\n{}r7 = *(u64 *)(r10 - 16)\nr8 = *(u64 *)(r10 - 8)\n{}r1 = *(u64 *)(r10 - 16)\n\
         r2 = *(u64 *)(r10 - 8)\nr0 = 0\nif r1 != r7 goto out\nif r2 != r8 goto out\nr0 = 1\nout:\nexit\n",
        fill("0xa5a5a5a5a5a5a5a5"),
        fill("0x5a5a5a5a5a5a5a5a"),
    )
}

/// Calls a helper twice as in `fills`, with the context in R1 and the buffer in R3.
fn loads(kind: &str, helper: &str, offset: u32, rest: &str) -> String {
    fills(kind, &format!("r1 = r6\nr2 = {offset}\nr3 = r10\nr3 += -16\nr4 = 16\n{rest}call {helper}"))
}

/// Calls a helper twice as in `fills`, with the buffer in R1 and an address in R3.
fn probes(helper: &str, source: &str) -> String {
    fills("xdp", &format!("r1 = r10\nr1 += -16\nr2 = 16\n{source}\ncall {helper}"))
}

/// Asks twice, with some time between.
fn twice(helper: &str) -> String {
    format!(
        "; program xdp\ncall {helper}\nr6 = r0\ncall ktime_get_ns\ncall {helper}\nr1 = r0\nr0 = 0\n\
         if r1 != r6 goto out\nr0 = 1\nout:\nexit\n"
    )
}

/// Looks an element up, updates it, and looks it up again.
fn element(map: &str, key: &str) -> String {
    let lookup = "r1 = map[table]\nr2 = r10\nr2 += -8\ncall map_lookup_elem\n";
    format!(
        "; map table {map} value 8 entries 4{}\n; program xdp\n{key}*(u64 *)(r10 - 16) = 1\n\
         r1 = map[table]\nr2 = r10\nr2 += -8\nr3 = r10\nr3 += -16\nr4 = 0\ncall map_update_elem\n{lookup}\
         if r0 == 0 goto out\nr6 = r0\n*(u64 *)(r10 - 16) = 2\n\
         r1 = map[table]\nr2 = r10\nr2 += -8\nr3 = r10\nr3 += -16\nr4 = 0\ncall map_update_elem\n{lookup}\
         r1 = r0\nr0 = 0\nif r1 != r6 goto out\nr0 = 1\nout:\nexit\n",
        if map.starts_with("lpm") { " flags 1" } else { "" },
    )
}

/// Passes a helper an address of the frame as a number, with two different values at that address, and compares the
/// results.
fn follows(helper: &str) -> String {
    let call = format!("r1 = r10\nr1 += -16\nr2 = 8\nr3 = r10\nr3 += -8\ncall {helper}\n");
    format!(
        "; program xdp\n*(u64 *)(r10 - 16) = 0\n*(u64 *)(r10 - 8) = 0x11\n{call}r6 = *(u64 *)(r10 - 16)\n\
         *(u64 *)(r10 - 8) = 0x22\n{call}r1 = *(u64 *)(r10 - 16)\nr0 = 0\nif r1 != r6 goto out\nr0 = 1\nout:\nexit\n"
    )
}

/// The bits of an answer beyond a mask.
fn bits(helper: &str) -> String {
    let mask = !Helper::by_name(helper).expect("a helper").answer_bits;
    format!(
        "; program xdp\ncall {helper}\nr1 = {mask:#x} ll\nr1 &= r0\nr0 = 0\nif r1 != 0 goto out\nr0 = 1\nout:\nexit\n"
    )
}

/// Whether the result of a call with `size` bytes at `r10 - 16` is negative or at most `size`.
fn sized(call: &str, size: u32) -> String {
    format!(
        "; program xdp\n*(u64 *)(r10 - 16) = 0x7f\n*(u64 *)(r10 - 8) = 0x7f\n{call}\nr1 = r0\nr0 = 1\n\
         if r1 s<= {size} goto out\nr0 = 0\nout:\nexit\n"
    )
}

/// Looks the first key of an empty map up.
fn first_key(map: &str) -> String {
    format!(
        "; map table {map} value 8 entries 4\n; program xdp\n*(u64 *)(r10 - 8) = 0\nr1 = map[table]\nr2 = r10\nr2 += -8\n\
         call map_lookup_elem\nr1 = r0\nr0 = 0\nif r1 == 0 goto out\nr0 = 1\nout:\nexit\n"
    )
}

/// The upper half of what a load of four bytes from a context gives, read back from a map.
fn upper_half(kind: &str, offset: u32) -> String {
    format!(
        "; map table array key 4 value 8 entries 1\n; program {kind}\nr6 = *(u32 *)(r1 + {offset})\n\
         *(u64 *)(r10 - 8) = 0\nr1 = map[table]\nr2 = r10\nr2 += -8\ncall map_lookup_elem\nr1 = r0\nr0 = 0\n\
         if r1 == 0 goto out\n*(u64 *)(r1 + 0) = r6\nr2 = *(u32 *)(r1 + 4)\nif r2 != 0 goto out\nr0 = 1\nout:\nexit\n"
    )
}

struct Question {
    property: Property,
    /// A helper, or a map type.
    about: &'static str,
    program: String,
    /// Whether it holds.
    holds: bool,
}

// long: one row for each question
fn questions() -> Vec<Question> {
    use Property::*;
    let ask = |property, about, program, holds| Question { property, about, program, holds };
    let key = "*(u64 *)(r10 - 8) = 0\n";
    let prefix = "r1 = 32\n*(u32 *)(r10 - 8) = r1\n*(u32 *)(r10 - 4) = 7\n";
    let name = "r1 = r10\nr1 += -16\nr2 = 16\n";
    vec![
        ask(FillsAlways, "get_current_comm", fills("xdp", &format!("{name}call get_current_comm")), true),
        ask(FillsAlways, "skb_load_bytes", loads("sched_cls", "skb_load_bytes", 0, ""), true),
        ask(FillsAlways, "skb_load_bytes", loads("sched_cls", "skb_load_bytes", 4000, ""), true),
        ask(FillsAlways, "skb_load_bytes_relative", loads("sched_cls", "skb_load_bytes_relative", 0, "r5 = 0\n"), true),
        ask(
            FillsAlways,
            "skb_load_bytes_relative",
            loads("sched_cls", "skb_load_bytes_relative", 4000, "r5 = 0\n"),
            true,
        ),
        ask(FillsAlways, "probe_read_user", probes("probe_read_user", "r3 = 0"), true),
        ask(FillsAlways, "probe_read_kernel", probes("probe_read_kernel", "r3 = 0"), true),
        ask(FillsAlways, "probe_read_kernel", probes("probe_read_kernel", "r3 = r6"), true),
        ask(FillsAlways, "probe_read_kernel_str", probes("probe_read_kernel_str", SHORT_TEXT), false),
        ask(FillsAlways, "xdp_load_bytes", loads("xdp", "xdp_load_bytes", 4000, ""), false),
        ask(FillsOnSuccess, "xdp_load_bytes", loads("xdp", "xdp_load_bytes", 0, ""), true),
        ask(FillsOnSuccess, "probe_read_kernel_str", probes("probe_read_kernel_str", SHORT_TEXT), false),
        ask(StableAlways, "get_smp_processor_id", twice("get_smp_processor_id"), true),
        ask(StableAlways, "get_current_pid_tgid", twice("get_current_pid_tgid"), true),
        ask(StableAlways, "get_current_uid_gid", twice("get_current_uid_gid"), true),
        ask(StableAlways, "get_current_task", twice("get_current_task"), true),
        ask(StableAlways, "ktime_get_ns", twice("ktime_get_ns"), false),
        ask(StableAlways, "get_prandom_u32", twice("get_prandom_u32"), false),
        ask(ElementsStay, "array", element("array key 4", key), true),
        ask(ElementsStay, "percpu_array", element("percpu_array key 4", key), true),
        ask(ElementsStay, "hash", element("hash key 8", key), false),
        ask(ElementsStay, "lru_hash", element("lru_hash key 8", key), false),
        ask(ElementsStay, "lpm_trie", element("lpm_trie key 8", prefix), false),
        ask(FollowsNothing, "probe_read_kernel", follows("probe_read_kernel"), false),
        ask(FollowsNothing, "probe_read_kernel_str", follows("probe_read_kernel_str"), false),
        ask(
            FillsAlways,
            "perf_event_read_value",
            {
                let call =
                    fills("xdp", "r1 = map[events]\nr2 = 0\nr3 = r10\nr3 += -16\nr4 = 16\ncall perf_event_read_value");
                format!("; map events perf_event_array key 4 value 4 entries 4\n{call}")
            },
            true,
        ),
        ask(ReturnsSize, "probe_read_kernel_str", sized(&format!("{READ_TEXT}call probe_read_kernel_str"), 16), true),
        ask(
            ReturnsSize,
            "probe_read_user_str",
            sized("r1 = r10\nr1 += -16\nr2 = 16\nr3 = 0\ncall probe_read_user_str", 16),
            true,
        ),
        ask(
            ReturnsSize,
            "csum_diff",
            sized("r1 = 0\nr2 = 0\nr3 = r10\nr3 += -16\nr4 = 16\nr5 = 0\ncall csum_diff", 16),
            false,
        ),
        ask(FindsEveryKey, "array", first_key("array key 4"), true),
        ask(FindsEveryKey, "percpu_array", first_key("percpu_array key 4"), true),
        ask(FindsEveryKey, "hash", first_key("hash key 8"), false),
        ask(FindsEveryKey, "percpu_hash", first_key("percpu_hash key 8"), false),
        ask(FindsEveryKey, "lru_hash", first_key("lru_hash key 8"), false),
        ask(FindsEveryKey, "devmap", first_key("devmap key 4"), false),
        ask(ContextIsMemory, "xdp", upper_half("xdp", 0), false),
        ask(ContextIsMemory, "sched_cls", upper_half("sched_cls", 76), false),
        ask(AnswerBits, "get_smp_processor_id", bits("get_smp_processor_id"), true),
        ask(AnswerBits, "get_current_pid_tgid", bits("get_current_pid_tgid"), true),
    ]
}

/// The buffer, its size, and the address of a text of one letter.
const READ_TEXT: &str = "r1 = r10\nr1 += -16\nr2 = 16\nr3 = r10\nr3 += -8\n";

/// The address of an empty text: the second half of a number on the stack.
const SHORT_TEXT: &str = "*(u64 *)(r10 - 24) = 0\nr3 = r10\nr3 += -24";

fn said(property: Property, about: &str) -> bool {
    let rules = || MapType::from_name(about).expect("a map type").rules();
    match property {
        Property::ElementsStay => return rules().elements_stay,
        Property::FindsEveryKey => return rules().finds_every_key,
        Property::ContextIsMemory => {
            let program_type = ProgramType::from_name(about).expect("a program type");
            return program_type.context().access == ContextAccess::Memory;
        }
        _ => {}
    }
    let helper = Helper::by_name(about).expect("a helper");
    match property {
        Property::FillsAlways => helper.fills == Fills::Always,
        Property::FillsOnSuccess => helper.fills != Fills::Unknown,
        Property::StableAlways => helper.stable == Stable::Always,
        Property::FollowsNothing => helper.follows == Follows::Nothing,
        Property::AnswerBits => helper.answer_bits != u64::MAX,
        Property::ReturnsSize => helper.returns_size,
        Property::ElementsStay | Property::FindsEveryKey | Property::ContextIsMemory => {
            unreachable!("it was asked for above")
        }
    }
}

/// Whether the property holds on an engine; `None` where it cannot be asked there.
fn answer(engine: Engine, question: &Question) -> Option<bool> {
    let object = parse(&question.program).unwrap_or_else(|error| panic!("{}: {error}", question.about));
    match run(engine, &object, &object.programs[0], &[1; 64]) {
        Ok(ran) => Some(ran.value == 1),
        Err(NoRun::Skipped(_)) => None,
        Err(NoRun::Failed(why)) => panic!("{:?} of {}: {why}\n{}", question.property, question.about, question.program),
    }
}

/// Each row states only what the kernel does, and every question gets the expected answer.
#[test]
fn rows_say_what_the_kernel_does() {
    if let Err(why) = kernel_available() {
        println!("skipped: {why}");
        return;
    }
    for question in questions() {
        let Question { property, about, holds, .. } = question;
        assert_eq!(answer(Engine::Kernel, &question), Some(holds), "{property:?} of {about}:\n{}", question.program);
        assert!(!said(property, about) || holds, "the row of {about} says {property:?}, and the kernel does not");
    }
}

/// The properties of rows must hold in the VM too.
#[test]
fn the_vm_does_what_rows_say() {
    for engine in [Engine::Interpreter, Engine::Jit] {
        for question in questions().iter().filter(|question| question.holds) {
            let Question { property, about, program, .. } = question;
            assert_ne!(
                answer(engine, question),
                Some(false),
                "{property:?} of {about} by {}:\n{program}",
                engine.name()
            );
        }
    }
}

/// Every property of a row has a question.
#[test]
fn no_row_says_what_nobody_asked() {
    let questions = questions();
    let asked = |property, about: &str| {
        let found = questions.iter().any(|question| (question.property, question.about) == (property, about));
        assert!(found || NOT_ASKED.iter().any(|(name, _)| *name == about), "{property:?} of {about} is not asked");
    };
    for helper in Helper::all() {
        match helper.fills {
            Fills::Unknown => {}
            Fills::OnSuccess => asked(Property::FillsOnSuccess, helper.name),
            Fills::Always => asked(Property::FillsAlways, helper.name),
        }
        if helper.stable == Stable::Always {
            asked(Property::StableAlways, helper.name);
        }
        if helper.answer_bits != u64::MAX {
            asked(Property::AnswerBits, helper.name);
        }
        if helper.returns_size {
            asked(Property::ReturnsSize, helper.name);
        }
    }
    for map_type in MapType::ALL.iter().filter(|map_type| map_type.rules().elements_stay) {
        asked(Property::ElementsStay, map_type.name());
    }
    for map_type in MapType::ALL.iter().filter(|map_type| map_type.rules().finds_every_key) {
        asked(Property::FindsEveryKey, map_type.name());
    }
    for program in ProgramType::ALL.iter().filter(|program| program.context().access == ContextAccess::Memory) {
        asked(Property::ContextIsMemory, program.name());
    }
    // Every question has a row with its property.
    for question in questions.iter().filter(|question| question.holds) {
        assert!(said(question.property, question.about), "no row says {:?} of {}", question.property, question.about);
    }
}
