//! Windows with control flow: nested branches, several exits, loops around them.

mod common;

use common::{different, equal, nodes, pointer, query_holds, regs, scalars};
use kiln_equiv::{Exit, Limits, Verdict, Window, check};
use kiln_isa::Reg;
use kiln_program::{InsnId, MapId, Node, Object, Reference};
use kiln_verifier::{InsnFacts, Region, StackSet};

/// Instructions; `if ... goto +N` names the instruction N further on by its id, and +1000 and more a place outside.
fn code(text: &str) -> Vec<Node> {
    let mut nodes = nodes(text);
    let count = nodes.len();
    for at in 0..count {
        let offset = match nodes[at].insn {
            kiln_isa::Insn::Branch { offset, .. } => i32::from(offset),
            kiln_isa::Insn::Jump { offset, .. } => offset,
            _ => continue,
        };
        let to = if offset >= 900 { offset as u32 } else { (at as i32 + 1 + offset) as u32 };
        nodes[at].reference = Reference::Branch(InsnId(to));
    }
    nodes
}

fn verdict(facts: &InsnFacts, live: &str, exits: &[Exit], before: &str, after: &str) -> Verdict {
    let object = Object::default();
    let (before, after) = (code(before), code(after));
    let window = Window {
        before: &before,
        after: &after,
        facts: Some(facts),
        live_after: regs(live),
        stack_live_after: StackSet::ALL,
        exits,
        object: &object,
    };
    let verdict = check(&window, &Limits { solver_steps: 5_000_000, ..Limits::default() });
    if verdict.is_equal() {
        query_holds(&window);
    }
    verdict
}

#[track_caller]
fn same(live: &str, before: &str, after: &str) {
    let verdict = verdict(&scalars(), live, &[], before, after);
    assert!(verdict.is_equal(), "{before}\n=>\n{after}\n{verdict:?}");
}

#[track_caller]
fn refused(live: &str, before: &str, after: &str) {
    let verdict = verdict(&scalars(), live, &[], before, after);
    assert!(!verdict.is_equal(), "{before}\n=>\n{after}\n{verdict:?}");
}

#[test]
fn nested_branches() {
    let nested = "r1 = 1; if r2 == 0 goto +3; r1 = 2; if r3 == 0 goto +1; r1 = 3; r1 += 1";
    same("1", nested, "r1 = 2; if r2 == 0 goto +3; r1 = 3; if r3 == 0 goto +1; r1 = 4; r1 += 0");
    same("1", nested, "r1 = 2; if r2 == 0 goto +3; r1 = 4; if r3 != 0 goto +1; r1 = 3; r1 += 0");
    refused("1", nested, "r1 = 2; if r2 == 0 goto +3; r1 = 4; if r3 == 0 goto +1; r1 = 3; r1 += 0");
    refused("1", nested, "r1 = 2; if r3 == 0 goto +3; r1 = 3; if r2 == 0 goto +1; r1 = 4; r1 += 0");
    // Both sides of a branch, with a jump.
    let sides = "if r2 > 5 goto +2; r1 = r3; goto +1; r1 = r4; r1 += 1";
    same("1", sides, "r1 = r4; if r2 > 5 goto +1; r1 = r3; r1 += 1");
    refused("1", sides, "r1 = r3; if r2 > 5 goto +1; r1 = r4; r1 += 1");
    // A branch that repeats another.
    same(
        "1",
        "r1 = 0; if r2 == 7 goto +1; goto +1; r1 = 5; if r2 == 7 goto +1; r1 = 6; r1 += 0",
        "r1 = 5; if r2 == 7 goto +1; r1 = 6; r1 += 0",
    );
}

#[test]
fn stores_on_one_way() {
    let arm = "if r2 == 0 goto +1; *(u64 *)(r10 - 8) = 1; r1 = *(u64 *)(r10 - 8)";
    refused("1", arm, "*(u64 *)(r10 - 8) = 1; r1 = 1");
    refused("1", arm, "if r2 == 0 goto +1; *(u64 *)(r10 - 8) = 1; r1 = 1");
    let both = "*(u64 *)(r10 - 8) = 2; if r2 == 0 goto +1; *(u64 *)(r10 - 8) = 1; r1 = *(u64 *)(r10 - 8)";
    same("1", both, "r1 = 2; if r2 == 0 goto +1; r1 = 1; *(u64 *)(r10 - 8) = r1");
    refused("1", both, "r1 = 1; if r2 == 0 goto +1; r1 = 2; *(u64 *)(r10 - 8) = r1");
    // What others see is stored on the same way, and loaded nowhere else: it may be a null pointer there.
    let mut facts = scalars();
    facts.registers[6] = pointer(Region::MapValue(MapId(0)), 0);
    let ask = |before: &str, after: &str| verdict(&facts, "1", &[], before, after).is_equal();
    assert!(!ask("if r2 == 0 goto +1; *(u64 *)(r6 + 0) = 1; r1 = 0", "*(u64 *)(r6 + 0) = 1; r1 = 0"));
    assert!(!ask(
        "r1 = 0; if r2 == 0 goto +1; r1 = *(u64 *)(r6 + 0); r1 += 0",
        "r1 = *(u64 *)(r6 + 0); if r2 != 0 goto +1; r1 = 0; r1 += 0"
    ));
    assert!(!ask(
        "if r2 == 0 goto +1; *(u64 *)(r6 + 0) = 1; *(u64 *)(r6 + 0) = 2; r1 = 0",
        "*(u64 *)(r6 + 0) = 2; r1 = 0"
    ));
    assert!(ask(
        "if r2 == 0 goto +1; *(u64 *)(r6 + 0) = 1; r1 = 0; r1 += 3",
        "if r2 == 0 goto +1; *(u64 *)(r6 + 0) = 1; r1 = 3"
    ));
    let atomic = "if r2 == 0 goto +1; lock *(u64 *)(r6 + 0) += r3; r1 = 0";
    assert!(!ask(atomic, "lock *(u64 *)(r6 + 0) += r3; r1 = 0"));
    assert!(!ask(atomic, "if r2 != 0 goto +1; lock *(u64 *)(r6 + 0) += r3; r1 = 0"));
    assert!(ask(&format!("{atomic}; r1 += 2"), &atomic.replace("r1 = 0", "r1 = 2")));
}

#[test]
fn several_exits() {
    let bits = |reg: u8, bits: u8| {
        let mut all = [0; Reg::COUNT];
        all[usize::from(reg)] = bits;
        all
    };
    let exit =
        |target, reg, count| Exit { target: InsnId(target), bits: bits(reg, count), stack_live: StackSet::EMPTY };
    let exits = [exit(1000, 1, 64), exit(2000, 3, 32)];
    let ask = |before: &str, after: &str| verdict(&scalars(), "4", &exits, before, after).is_equal();
    let before =
        "r1 = 5; r3 = 6; if r2 == 0 goto +1000; *(u64 *)(r10 - 8) = r2; r1 = 7; if r2 == 1 goto +2000; r4 = r1";
    // Each exit has its own live registers and stack.
    assert!(ask(
        before,
        "r1 = 5; if r2 == 0 goto +1000; w3 = 6; if r2 == 1 goto +2000; *(u64 *)(r10 - 8) = r2; r4 = 7"
    ));
    assert!(!ask(
        before,
        "r1 = 7; if r2 == 0 goto +1000; r3 = 6; if r2 == 1 goto +2000; *(u64 *)(r10 - 8) = r2; r4 = 7"
    ));
    assert!(!ask(
        before,
        "r1 = 5; if r2 == 0 goto +1000; r3 = 7; if r2 == 1 goto +2000; *(u64 *)(r10 - 8) = r2; r4 = 7"
    ));
    assert!(!ask(before, "r1 = 5; if r2 == 0 goto +1000; r3 = 6; if r2 == 1 goto +2000; r4 = 7"));
    assert!(!ask(
        before,
        "r1 = 5; if r2 == 0 goto +1000; if r2 == 1 goto +2000; r3 = 6; *(u64 *)(r10 - 8) = r2; r4 = 7"
    ));
    // The exits change places; the conditions exclude one another, or they do not.
    assert!(ask(
        "r1 = 5; r3 = 6; if r2 == 0 goto +1000; if r2 == 1 goto +2000; r4 = 0",
        "r3 = 6; if r2 == 1 goto +2000; r1 = 5; if r2 == 0 goto +1000; r4 = 0"
    ));
    assert!(!ask(
        "r1 = 5; r3 = 6; if r2 > 0 goto +1000; if r2 > 1 goto +2000; r4 = 0",
        "r3 = 6; if r2 > 1 goto +2000; r1 = 5; if r2 > 0 goto +1000; r4 = 0"
    ));
    // Two branches to one place are one branch: bounds checks merged.
    assert!(ask(
        "r1 = 5; if r2 > 20 goto +1000; if r2 > 10 goto +1000; r4 = 0",
        "r1 = 5; if r2 > 10 goto +1000; r4 = 0"
    ));
    assert!(!ask(
        "r1 = 5; if r2 > 20 goto +1000; if r2 > 10 goto +1000; r4 = 0",
        "r1 = 5; if r2 > 20 goto +1000; r4 = 0"
    ));
    assert!(!ask("r1 = 5; if r2 > 20 goto +1000; r4 = 0", "r1 = 5; if r2 > 20 goto +2000; r4 = 0"));
    // Out of the function only r0 counts, and no stack.
    same("4", "r1 = 5; r0 = 1; *(u64 *)(r10 - 8) = 0; exit", "r0 = 1; exit");
    refused("4", "r1 = 5; r0 = 1; exit", "r0 = 2; exit");
}

#[test]
fn bodies_of_loops() {
    // The branch back to the window's beginning leaves it.
    let body = "r1 += r3; r1 += r3; r2 += -1; if r2 != 0 goto -4; r4 = r1";
    same("1 2 3 4", body, "r1 += r3; r2 += -1; r1 += r3; if r2 != 0 goto -4; r4 = r1");
    same("1 2 3", body, "r4 = r3; r4 <<= 1; r1 += r4; r2 += -1; if r2 != 0 goto -5; r4 = r1");
    refused("1 2 3 4", body, "r1 += r3; r2 += -1; if r2 != 0 goto -3; r1 += r3; r4 = r1");
    refused("1 2 3 4", body, "r1 += r3; r2 += -1; r1 += r3; r4 = r1");
    // A loop inside is not followed.
    refused("1 2", "r1 = 0; r1 += 1; if r1 != 5 goto -2; r2 = 0", "r1 = 5; r2 = 0");
}

#[test]
fn calls_on_one_way() {
    let call = "if r2 == 0 goto +1; call 5; r8 = 1; r8 += 1";
    same("8", call, "if r2 == 0 goto +1; call 5; r8 = 2");
    refused("8", call, "call 5; r8 = 2");
    refused("8", call, "if r2 != 0 goto +1; call 5; r8 = 2");
    refused("8", call, "r8 = 2");
    // What a call wrote is only there where it was made.
    let write = "*(u64 *)(r10 - 16) = 3; r6 = r2; if r6 == 0 goto +4; r1 = r10; r1 += -16; r2 = 16; call 16; r8 = *(u64 *)(r10 - 16)";
    refused("8", write, &write.replace("r8 = *(u64 *)(r10 - 16)", "r8 = 3"));
    same("8", write, &write.replace("r8 = *(u64 *)(r10 - 16)", "r9 = *(u64 *)(r10 - 16); r8 = r9"));
}

#[test]
fn straight_windows_are_as_before() {
    equal(&scalars(), "1", "r1 += 1; r1 += 2", "r1 += 3");
    different(&scalars(), "1", "r1 += 1; r1 += 2", "r1 += 4");
}
