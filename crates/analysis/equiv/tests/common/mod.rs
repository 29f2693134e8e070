//! Windows written in LLVM's syntax.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use kiln_equiv::{Limits, Verdict, Window, WindowRecord, check};
use kiln_isa::{Reg, RegSet};
use kiln_program::{InsnId, Node, Object, Reference};
use kiln_verifier::{InsnFacts, Pointer, Region, Scalar, StackSet, Value};

/// Instructions, one a line.
pub fn nodes(text: &str) -> Vec<Node> {
    let lines = text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty());
    lines
        .enumerate()
        .map(|(at, line)| {
            let insn = kiln_isa::text::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            Node::new(InsnId(at as u32), insn, Reference::None)
        })
        .collect()
}

/// Registers named as in `"0 1 6"`.
pub fn regs(text: &str) -> RegSet {
    text.split_whitespace().map(|number| Reg::new(number.parse().unwrap()).unwrap()).collect()
}

/// All registers numbers of which nothing is known; R10 the frame pointer; no stack slot known.
pub fn scalars() -> InsnFacts {
    let mut registers = std::array::from_fn(|_| Value::Scalar(Scalar::UNKNOWN));
    registers[10] = pointer(Region::Stack { up: 0 }, 0);
    InsnFacts {
        registers,
        stack: BTreeMap::new(),
        packet_bytes: 0,
        live_after: RegSet::ALL,
        stack_live_after: StackSet::ALL,
    }
}

/// A pointer at a constant distance.
pub fn pointer(region: Region, offset: i64) -> Value {
    Value::Pointer(Pointer { region, offset: Scalar::constant(offset as u64), nullable: false })
}

/// A question with facts.
pub fn ask(facts: &InsnFacts, live: &str, before: &str, after: &str) -> Verdict {
    ask_in(&Object::default(), facts, live, StackSet::ALL, &nodes(before), &nodes(after))
}

/// A question with everything.
pub fn ask_in(
    object: &Object,
    facts: &InsnFacts,
    live: &str,
    stack: StackSet,
    before: &[Node],
    after: &[Node],
) -> Verdict {
    let window = Window {
        before,
        after,
        facts: Some(facts),
        live_after: regs(live),
        stack_live_after: stack,
        exits: &[],
        object,
    };
    check(&window, &Limits { solver_steps: 5_000_000, ..Limits::default() })
}

/// Asserts equality by whatever method.
#[track_caller]
pub fn equal(facts: &InsnFacts, live: &str, before: &str, after: &str) {
    let verdict = ask(facts, live, before, after);
    assert!(verdict.is_equal(), "{before}\n=>\n{after}\n{verdict:?}");
}

/// Asserts a confirmed difference.
#[track_caller]
pub fn different(facts: &InsnFacts, live: &str, before: &str, after: &str) {
    let verdict = ask(facts, live, before, after);
    assert!(verdict.is_different(), "{before}\n=>\n{after}\n{verdict:?}");
}

/// What `z3 -in` answers; `None` if `z3` is not installed.
pub fn solve(query: &str) -> Option<String> {
    let child = Command::new("z3").args(["-in", "-T:20"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: there is no z3 command");
        return None;
    };
    child.stdin.take()?.write_all(query.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Asserts that a window, written down and read again, has a query that z3 finds no difference in.
#[track_caller]
pub fn query_holds(window: &Window<'_>) {
    let record = WindowRecord::of(window);
    let text = serde_json::to_string(&record).expect("plain data");
    let again: WindowRecord = serde_json::from_str(&text).expect("its own text");
    let query = again.query(window.object).expect("a query");
    if let Some(answer) = solve(&query) {
        assert_eq!(answer, "unsat", "{query}");
    }
}
