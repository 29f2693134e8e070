//! Windows with calls: what may move across them, and what must not.

mod common;

use common::{nodes, pointer, scalars};
use kiln_equiv::Verdict;
use kiln_isa::{CallTarget, Insn};
use kiln_platform::{MapType, ProgramType};
use kiln_program::{ExternId, FunctionId, Map, MapContents, MapId, Node, Object, Program, Reference};
use kiln_verifier::{InsnFacts, Region, StackSet, Value};

/// Map 0: a hash, key 4, value 8. Map 1: an array, the same. Map 2: another hash.
fn object() -> Object {
    let map = |name: &str, map_type| Map {
        name: name.to_owned(),
        map_type,
        key_size: 4,
        value_size: 8,
        max_entries: 16,
        flags: 0,
        extra: 0,
        pinned_by_name: false,
        key_btf: 0,
        value_btf: 0,
        inner: None,
        contents: MapContents::Empty,
    };
    let program = Program::new("xdp", "xdp", Some(ProgramType::Xdp), FunctionId(0));
    let maps = vec![map("hash", MapType::Hash), map("array", MapType::Array), map("other", MapType::Hash)];
    Object { maps, programs: vec![program], ..Object::default() }
}

/// Instructions; `rN = map M` loads a map's address, `call 90001` is one of a function of the program, `call 90002` one
/// of a kernel function.
fn code(text: &str) -> Vec<Node> {
    let maps: Vec<(usize, MapId)> = text
        .split(';')
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .enumerate()
        .filter_map(|(at, line)| Some((at, MapId(line.split_once("= map ")?.1.parse().ok()?))))
        .collect();
    let plain: Vec<String> = text
        .split(';')
        .map(|line| match line.split_once("= map ") {
            Some((reg, _)) => format!("{reg}= 0x0 ll"),
            None => line.to_owned(),
        })
        .collect();
    let mut nodes = nodes(&plain.join(";"));
    for (at, map) in maps {
        assert!(matches!(nodes[at].insn, Insn::LoadImm64 { .. }));
        nodes[at].reference = Reference::Map(map);
    }
    for node in &mut nodes {
        (node.insn, node.reference) = match node.insn {
            Insn::Call(CallTarget::Helper(90001)) => {
                (Insn::Call(CallTarget::Subprogram(0)), Reference::Function(FunctionId(0)))
            }
            Insn::Call(CallTarget::Helper(90002)) => {
                (Insn::Call(CallTarget::Kfunc { id: 0, fd_index: 0 }), Reference::Extern(ExternId(0)))
            }
            insn => (insn, node.reference),
        };
    }
    nodes
}

/// R6 the context, R7 packet data of which 64 bytes may be read, R8 and R9 numbers.
fn facts() -> InsnFacts {
    let mut facts = scalars();
    facts.registers[6] = pointer(Region::Context, 0);
    facts.registers[7] = pointer(Region::Packet, 0);
    facts.packet_bytes = 64;
    for reg in 0..6 {
        facts.registers[reg] = Value::Uninit;
    }
    facts
}

fn verdict(live: &str, stack: StackSet, before: &str, after: &str) -> Verdict {
    let object = object();
    common::ask_in(&object, &facts(), live, stack, &code(before), &code(after))
}

#[track_caller]
fn equal(live: &str, before: &str, after: &str) {
    let verdict = verdict(live, StackSet::EMPTY, before, after);
    assert!(verdict.is_equal(), "{before}\n=>\n{after}\n{verdict:?}");
    // What was trusted for the query is in the query.
    let (object, facts, old, new) = (object(), facts(), code(before), code(after));
    let window = kiln_equiv::Window {
        before: &old,
        after: &new,
        facts: Some(&facts),
        live_after: common::regs(live),
        stack_live_after: StackSet::EMPTY,
        exits: &[],
        object: &object,
    };
    common::query_holds(&window);
}

#[track_caller]
fn refused(live: &str, before: &str, after: &str) {
    let verdict = verdict(live, StackSet::EMPTY, before, after);
    assert!(!verdict.is_equal(), "{before}\n=>\n{after}\n{verdict:?}");
}

const LOOKUP: &str = "r1 = map 0; r2 = r10; r2 += -4; call 1";

#[test]
fn arguments_may_be_made_in_other_ways() {
    equal(
        "0",
        &format!("*(u32 *)(r10 - 4) = r8; {LOOKUP}"),
        "r2 = r10; *(u32 *)(r10 - 4) = r8; r2 += -4; r1 = map 0; call 1",
    );
    // Another map, another key, another place of the same key.
    refused(
        "0",
        &format!("*(u32 *)(r10 - 4) = r8; {LOOKUP}"),
        "*(u32 *)(r10 - 4) = r8; r1 = map 2; r2 = r10; r2 += -4; call 1",
    );
    refused("0", &format!("*(u32 *)(r10 - 4) = r8; {LOOKUP}"), &format!("*(u32 *)(r10 - 4) = r9; {LOOKUP}"));
    refused("0", &format!("*(u32 *)(r10 - 4) = r8; {LOOKUP}"), &format!("*(u16 *)(r10 - 4) = r8; {LOOKUP}"));
    refused("0", &format!("*(u32 *)(r10 - 4) = r8; {LOOKUP}"), LOOKUP);
    // An argument that is not given.
    refused("0", &format!("*(u32 *)(r10 - 4) = r8; {LOOKUP}"), "*(u32 *)(r10 - 4) = r8; r1 = map 0; call 1");
    // Numbers that only look alike.
    refused("0", "r1 = r8; r2 = 0; call 23", "w1 = w8; r2 = 0; call 23");
    equal("0", "r1 = 2; r2 = 0; call 23", "w1 = 2; w2 = 0; call 23");
}

#[test]
fn stores_that_a_call_does_not_read_may_move() {
    let stack = |bytes: &[(i32, u32)]| {
        let mut set = StackSet::EMPTY;
        bytes.iter().for_each(|(from, count)| set.insert(*from, *count));
        set
    };
    let before = format!("*(u32 *)(r10 - 4) = r8; *(u32 *)(r10 - 16) = 1; {LOOKUP}; *(u32 *)(r10 - 12) = 2");
    let after = format!("*(u32 *)(r10 - 4) = r8; {LOOKUP}; r1 = 0x200000001 ll; *(u64 *)(r10 - 16) = r1");
    let live = stack(&[(-16, 8)]);
    assert!(verdict("0", live, &before, &after).is_equal());
    // Lost, it is noticed; read by the call, it may not move.
    assert!(
        !verdict("0", live, &before, &format!("*(u32 *)(r10 - 4) = r8; {LOOKUP}; *(u32 *)(r10 - 12) = 2")).is_equal()
    );
    let moved = format!("{LOOKUP}; *(u32 *)(r10 - 4) = r8");
    assert!(!verdict("0", stack(&[(-4, 4)]), &format!("*(u32 *)(r10 - 4) = r8; {LOOKUP}"), &moved).is_equal());
    // A store that only the call reads.
    refused(
        "0",
        &format!("*(u32 *)(r10 - 4) = 7; {LOOKUP}; *(u32 *)(r10 - 4) = 8"),
        &format!("{LOOKUP}; *(u32 *)(r10 - 4) = 8"),
    );
    equal(
        "0",
        &format!("*(u32 *)(r10 - 4) = 7; *(u32 *)(r10 - 8) = 7; {LOOKUP}"),
        &format!("*(u32 *)(r10 - 4) = 7; {LOOKUP}"),
    );
    // What a size leaves open may be read.
    let output = "r1 = r6; r2 = map 2; r3 = 0; r4 = r10; r4 += -16; r5 = SIZE; call 25";
    let (eight, open) = (output.replace("SIZE", "8"), output.replace("SIZE", "r9"));
    equal(
        "0",
        &format!("*(u64 *)(r10 - 16) = 1; *(u64 *)(r10 - 8) = 2; {eight}"),
        &format!("*(u64 *)(r10 - 16) = 1; {eight}"),
    );
    refused(
        "0",
        &format!("*(u64 *)(r10 - 16) = 1; *(u64 *)(r10 - 8) = 2; {open}"),
        &format!("*(u64 *)(r10 - 16) = 1; {open}"),
    );
}

#[test]
fn what_is_not_known_reads_and_writes_everything() {
    // A function of the program, a kernel function, a helper that does not exist, one with a callback.
    for call in ["call 90001", "call 90002", "call 181", "call 9999"] {
        let arguments = "r1 = 0; r2 = 0; r3 = 0; r4 = 0; r5 = 0";
        let before = format!("{arguments}; *(u64 *)(r10 - 64) = 1; {call}");
        refused("0", &before, &format!("{arguments}; {call}"));
        let kept = format!("{arguments}; *(u64 *)(r10 - 64) = 1; {call}; r0 = *(u64 *)(r10 - 64)");
        refused("0", &kept, &format!("{arguments}; *(u64 *)(r10 - 64) = 1; {call}; r0 = 1"));
    }
    // A string may be read through a number's place: trace_printk("%s", stack).
    let print = "r1 = r10; r1 += -8; r2 = 8; r3 = r10; r3 += -32; call 6";
    refused(
        "0",
        &format!("*(u64 *)(r10 - 8) = 1; *(u64 *)(r10 - 32) = 2; {print}"),
        &format!("*(u64 *)(r10 - 8) = 1; {print}"),
    );
}

#[test]
fn registers_end_with_a_call() {
    let call = format!("*(u32 *)(r10 - 4) = 7; {LOOKUP}");
    equal("6 8", &format!("r8 = 5; {call}; r9 = r8"), &format!("{call}; r8 = 5; r9 = 5"));
    refused("9", &format!("r9 = 5; {call}"), &format!("r1 = 5; {call}; r9 = r1"));
    let verdict = verdict("1", StackSet::EMPTY, "call 5; r1 = 7", "r1 = 7; call 5");
    assert!(!verdict.is_equal(), "{verdict:?}");
    // A helper that returns nothing leaves nothing in r0.
    refused("0", "r0 = 1; r1 = r9; call 93; r0 = 1", "r0 = 1; r1 = r9; call 93");
}

#[test]
fn results_of_calls() {
    // Two looks at the clock, two numbers by chance, two lookups in a hash are two events.
    refused("8 9", "call 5; r8 = r0; call 5; r9 = r0", "call 5; r8 = r0; r9 = r0");
    refused("8 9", "call 7; r8 = r0; call 7; r9 = r0", "call 7; r8 = r0; r9 = r0");
    let twice = |lookup: &str| format!("*(u32 *)(r10 - 4) = 7; {lookup}; r8 = r0; {lookup}; r9 = r0");
    let once = |lookup: &str| format!("*(u32 *)(r10 - 4) = 7; {lookup}; r8 = r0; r9 = r0");
    refused("8 9", &twice(LOOKUP), &once(LOOKUP));
    // An element of an array stays where it is; so does the CPU.
    let array = LOOKUP.replace("map 0", "map 1");
    equal("8 9", &twice(&array), &once(&array));
    equal("8 9", "call 8; r8 = r0; call 8; r9 = r0", "call 8; r8 = r0; r9 = r0");
    equal("8 9", &twice(&array), &format!("*(u32 *)(r10 - 8) = 7; {}; r8 = r0; r9 = r0", array.replace("-4", "-8")));
    // Another key, or a key that a call in between may have changed.
    let other = format!("*(u32 *)(r10 - 4) = 7; {array}; r8 = r0; *(u32 *)(r10 - 4) = 8; {array}; r9 = r0");
    refused("8 9", &other, &once(&array));
    let comm = "r1 = r10; r1 += -4; r2 = 4; call 16";
    let changed = format!("*(u32 *)(r10 - 4) = 7; {array}; r8 = r0; {comm}; {array}; r9 = r0");
    refused("8 9", &changed, &format!("*(u32 *)(r10 - 4) = 7; {array}; r8 = r0; r9 = r0; {comm}"));
    // Keys in the packet are not known by their names.
    let packet = "r1 = map 1; r2 = r7; r2 += AT; call 1";
    let two = format!("{}; r8 = r0; {}; r9 = r0", packet.replace("AT", "0"), packet.replace("AT", "8"));
    refused("8 9", &two, &format!("{}; r8 = r0; r9 = r0", packet.replace("AT", "0")));
    // Calls whose result is not read stay, and no call is added.
    refused("6", "call 7", "");
    refused("6", "", "call 7");
    refused("8", "r8 = 0", "call 8; r8 = 0");
}

#[test]
fn order_and_number_of_events() {
    let update = "r1 = map 0; r2 = r10; r2 += -4; r3 = r10; r3 += -16; r4 = 0; call 2";
    let delete = "r1 = map 2; r2 = r10; r2 += -4; call 3";
    let setup = "*(u32 *)(r10 - 4) = 7; *(u64 *)(r10 - 16) = 9";
    refused("6", &format!("{setup}; {update}; {delete}"), &format!("{setup}; {delete}; {update}"));
    refused("6", &format!("{setup}; {update}; {update}"), &format!("{setup}; {update}"));
    refused("6", &format!("{setup}; {update}"), &format!("*(u32 *)(r10 - 4) = 7; *(u64 *)(r10 - 16) = 8; {update}"));
    refused("0", &format!("{setup}; {update}; {LOOKUP}"), &format!("{setup}; {LOOKUP}; r8 = r0; {update}; r0 = r8"));
}

#[test]
fn shared_memory_keeps_its_place_among_calls() {
    let mut facts = facts();
    facts.registers[8] = pointer(Region::MapValue(MapId(0)), 0);
    let object = object();
    let ask = |live: &str, before: &str, after: &str| {
        common::ask_in(&object, &facts, live, StackSet::EMPTY, &code(before), &code(after)).is_equal()
    };
    assert!(!ask("6", "*(u32 *)(r8 + 0) = 1; call 5", "call 5; *(u32 *)(r8 + 0) = 1"));
    assert!(!ask("9", "r9 = *(u32 *)(r8 + 0); call 5", "call 5; r9 = *(u32 *)(r8 + 0)"));
    assert!(!ask("6", "*(u32 *)(r8 + 0) = 1; call 5; *(u32 *)(r8 + 0) = 2", "call 5; *(u32 *)(r8 + 0) = 2"));
    // The element may be gone after a delete, and its bytes another's after an update.
    let delete = "*(u32 *)(r10 - 4) = 7; r1 = map 0; r2 = r10; r2 += -4; call 3";
    assert!(!ask(
        "9",
        &format!("*(u32 *)(r8 + 0) = 1; {delete}; r9 = *(u32 *)(r8 + 0)"),
        &format!("*(u32 *)(r8 + 0) = 1; {delete}; r9 = 1")
    ));
    // The values of another map stay.
    let other = delete.replace("map 0", "map 2");
    assert!(ask(
        "9",
        &format!("*(u32 *)(r8 + 0) = 1; {other}; r9 = *(u32 *)(r8 + 0)"),
        &format!("*(u32 *)(r8 + 0) = 1; {other}; r9 = 1")
    ));
}

#[test]
fn packets_move() {
    let object = object();
    let ask = |live: &str, before: &str, after: &str| {
        common::ask_in(&object, &facts(), live, StackSet::EMPTY, &code(before), &code(after)).is_equal()
    };
    let adjust = "r1 = r6; r2 = 0; call 44";
    // The packet's start is what the context says, until a call moves it.
    let kept = "r1 = r6; r2 = map 2; r3 = 0; r4 = r10; r4 += -8; r5 = 8; *(u64 *)(r10 - 8) = 0; call 25";
    assert!(ask(
        "8 9",
        &format!("r8 = *(u32 *)(r6 + 0); {kept}; r9 = *(u32 *)(r6 + 0)"),
        &format!("r8 = *(u32 *)(r6 + 0); {kept}; r9 = r8")
    ));
    assert!(!ask(
        "8 9",
        &format!("r8 = *(u32 *)(r6 + 0); {adjust}; r9 = *(u32 *)(r6 + 0)"),
        &format!("r8 = *(u32 *)(r6 + 0); {adjust}; r9 = r8")
    ));
    // Old pointers are not used behind it, nor new bytes before it.
    assert!(!ask("8", &format!("{adjust}; r8 = 0"), &format!("{adjust}; r8 = *(u8 *)(r7 + 0); r8 = 0")));
    let before = format!("*(u8 *)(r7 + 0) = 1; {adjust}; r9 = *(u32 *)(r6 + 0); r9 = *(u8 *)(r9 + 0)");
    assert!(!ask(
        "9",
        &before,
        &format!("*(u8 *)(r7 + 0) = 1; {adjust}; r9 = *(u32 *)(r6 + 0); r8 = *(u8 *)(r9 + 0); r9 = 1")
    ));
    // A store to the packet that such a call may look at stays before it.
    assert!(!ask("9", &before, &format!("{adjust}; r9 = *(u32 *)(r6 + 0); *(u8 *)(r7 + 0) = 1; r9 = *(u8 *)(r9 + 0)")));
    assert!(!ask("9", &format!("*(u8 *)(r7 + 0) = 1; {adjust}; r9 = 0"), &format!("{adjust}; r9 = 0")));
    // Two stores may become one before it.
    let (bytes, word) = ("*(u8 *)(r7 + 0) = 1; *(u8 *)(r7 + 1) = 2", "*(u16 *)(r7 + 0) = 0x201");
    assert!(ask("9", &format!("{bytes}; {adjust}; r9 = 0"), &format!("{word}; {adjust}; r9 = 0")));
}

#[test]
fn buffers_that_helpers_fill() {
    let comm = "r1 = r10; r1 += -16; r2 = 16; call 16";
    // get_current_comm writes all of it, whatever happens; xdp_load_bytes does not when it fails.
    equal(
        "8",
        &format!("*(u64 *)(r10 - 16) = 0; {comm}; r8 = *(u64 *)(r10 - 16)"),
        &format!("{comm}; r8 = *(u64 *)(r10 - 16)"),
    );
    let load = "r1 = r6; r2 = 0; r3 = r10; r3 += -16; r4 = 16; call 189";
    refused(
        "8",
        &format!("*(u64 *)(r10 - 16) = 0; {load}; r8 = *(u64 *)(r10 - 16)"),
        &format!("{load}; r8 = *(u64 *)(r10 - 16)"),
    );
    refused(
        "8",
        &format!("*(u64 *)(r10 - 16) = 0; {comm}; r8 = *(u64 *)(r10 - 16)"),
        &format!("*(u64 *)(r10 - 16) = 0; {comm}; r8 = 0"),
    );
    // A size that is not known: what lies behind may stay.
    let open = "r1 = r10; r1 += -16; r2 = r9; call 16";
    refused(
        "8",
        &format!("*(u64 *)(r10 - 16) = 0; {open}; r8 = *(u64 *)(r10 - 16)"),
        &format!("{open}; r8 = *(u64 *)(r10 - 16)"),
    );
    // Beside the buffer nothing changes.
    equal("8", &format!("*(u64 *)(r10 - 24) = 5; {comm}; r8 = *(u64 *)(r10 - 24)"), &format!("{comm}; r8 = 5"));
}

#[test]
fn tail_calls_see_what_the_next_program_sees() {
    let tail = "r1 = r6; r2 = map 2; r3 = 0; call 12";
    refused("6", &format!("*(u8 *)(r7 + 0) = 1; {tail}"), tail);
    equal("6", &format!("*(u64 *)(r10 - 8) = 1; {tail}"), tail);
}
