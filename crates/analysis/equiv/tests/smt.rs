//! The text of queries, held to the `z3` binary, which knows nothing of our terms.

mod common;

use std::time::{Duration, Instant};

use common::{nodes, pointer, regs, scalars, solve};
use kiln_equiv::solver::{Strategy, is_unsatisfiable};
use kiln_equiv::{Window, literal_query};
use kiln_program::{MapId, Object};
use kiln_verifier::{Region, Scalar, StackSet, Value};

/// Evidence for windows with logged memory carries what the log took for granted.
#[test]
fn logged_memory_has_a_query_too() {
    let mut facts = scalars();
    facts.registers[1] = pointer(Region::Context, 0);
    facts.registers[6] = pointer(Region::MapValue(MapId(0)), 0);
    facts.registers[7] = pointer(Region::MapValue(MapId(0)), 0);
    let cases = [
        (
            "",
            "r2 <<= 32; r2 >>= 32; *(u32 *)(r6 + 0) = 1; *(u64 *)(r7 + 8) = r2",
            "w2 = w2; *(u32 *)(r6 + 0) = 1; *(u64 *)(r7 + 8) = r2",
        ),
        (
            "3",
            "r3 = *(u32 *)(r1 + 12); r2 += 1; r2 += 1; lock *(u64 *)(r6 + 0) += r2",
            "r3 = *(u32 *)(r1 + 12); r2 += 2; lock *(u64 *)(r6 + 0) += r2",
        ),
        (
            "",
            "r6 += r2; r6 += 3; *(u8 *)(r6 - 3) = 1; *(u8 *)(r6 + 1) = 2",
            "r2 += r6; *(u8 *)(r2 + 0) = 1; *(u8 *)(r2 + 4) = 2",
        ),
    ];
    for (live, before, after) in cases {
        let (before, after) = (nodes(before), nodes(after));
        let object = Object::default();
        let window = Window {
            before: &before,
            after: &after,
            facts: Some(&facts),
            live_after: regs(live),
            stack_live_after: StackSet::ALL,
            exits: &[],
            object: &object,
        };
        let verdict = kiln_equiv::check(&window, &kiln_equiv::Limits { keep_query: true, ..Default::default() });
        let kiln_equiv::Verdict::Equal(proof) = verdict else { panic!("{verdict:?}") };
        let record = proof.record.expect("a record");
        // What is written down leads back to the same question.
        let text = serde_json::to_string(&record).expect("plain data");
        let again: kiln_equiv::WindowRecord = serde_json::from_str(&text).expect("its own text");
        assert_eq!(again, *record);
        let query = again.query(&object).expect("a query");
        assert!(query.contains("distinct"), "{query}");
        let Some(answer) = solve(&query) else { return };
        assert_eq!(answer, "unsat", "{query}");
    }
}

#[test]
fn z3_agrees_about_the_text() {
    let mut facts = scalars();
    facts.registers[5] = Value::Scalar(Scalar { umax: 9, u32_max: 9, ..Scalar::UNKNOWN });
    let cases = [
        ("1", "r1 <<= 32; r1 >>= 32", "w1 = w1", "unsat"),
        ("1", "r1 <<= 32; r1 s>>= 32", "w1 = w1", "sat"),
        ("1", "r1 = r2; r1 <<= 4; r1 -= r2", "r1 = r2; r1 *= 15", "unsat"),
        ("1", "r1 = r2; r1 <<= 4; r1 -= r2", "r1 = r2; r1 *= 17", "sat"),
        ("", "w1 = -1; *(u64 *)(r10 - 8) = r1", "*(u64 *)(r10 - 8) = -1", "sat"),
        ("", "w1 = 7; *(u32 *)(r10 - 8) = w1", "*(u32 *)(r10 - 8) = 7", "unsat"),
        ("5", "w5 = w5", "", "unsat"),
        ("4", "w4 = w4", "", "sat"),
        ("1", "r1 = be32 r1; r1 = be32 r1", "w1 = w1", "unsat"),
        ("1", "r1 s/= r2; r1 s%= 7", "r1 s/= r2; r1 s%= 7; r1 += 0", "unsat"),
        ("1", "r1 /= r2; w1 %= w3", "r1 s/= r2; w1 %= w3", "sat"),
        ("1", "r1 s>>= 8; r1 = (s16)r1", "r1 >>= 8; r1 = (s16)r1", "unsat"),
        (
            "2",
            "*(u64 *)(r10 - 8) = r1; r2 = *(u16 *)(r10 - 6)",
            "*(u64 *)(r10 - 8) = r1; r1 >>= 16; r2 = r1; r2 &= 0xffff",
            "unsat",
        ),
    ];
    for (live, before, after, expected) in cases {
        let (before, after) = (nodes(before), nodes(after));
        let object = Object::default();
        let window = Window {
            before: &before,
            after: &after,
            facts: Some(&facts),
            live_after: regs(live),
            stack_live_after: StackSet::ALL,
            exits: &[],
            object: &object,
        };
        let query = literal_query(&window).expect("a query");
        let Some(answer) = solve(&query) else { return };
        assert_eq!(answer, expected, "{query}");
    }
}

#[test]
fn a_question_ends_when_its_time_is_over() {
    // The factors of the product of two primes near 2^64.
    let factor =
        |name: &str| format!("(declare-const {name} (_ BitVec 64)) (assert (bvugt {name} #x0000000000000001))");
    let [a, b] = ["a", "b"].map(factor);
    let product = "(bvmul ((_ zero_extend 64) a) ((_ zero_extend 64) b))";
    let query = format!("{a} {b} (assert (= {product} #xffffffffffffff720000000000001321))");
    let begun = Instant::now();
    let until = Some(begun + Duration::from_millis(100));
    for strategy in [Strategy::Incremental, Strategy::Preprocessed] {
        assert_eq!(is_unsatisfiable(&query, "QF_UFBV", u32::MAX, strategy, until), None);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
