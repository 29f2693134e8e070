//! Answers are taken again for questions that say the same, and for no others.

mod common;

use std::sync::Arc;

use common::{nodes, regs, scalars};
use kiln_equiv::{Answers, Limits, Settled, Verdict, Window, check};
use kiln_program::{InsnId, Object};
use kiln_verifier::{InsnFacts, Scalar, StackSet, Value};

/// Who settles each of these questions, in one store: facts, live registers, the first instruction's id.
fn settled(questions: &[(&InsnFacts, &str, u32)]) -> Vec<Settled> {
    let answers = Arc::new(Answers::default());
    let limits = Limits { answers: Some(answers.clone()), ..Limits::default() };
    let object = Object::default();
    for (facts, live, first) in questions {
        let (mut before, after) = (nodes("r1 = r2; r1 &= 255"), nodes("r1 = r2"));
        before.iter_mut().zip(*first..).for_each(|(node, id)| node.id = InsnId(id));
        let window = Window {
            before: &before,
            after: &after,
            facts: Some(facts),
            live_after: regs(live),
            stack_live_after: StackSet::ALL,
            exits: &[],
            object: &object,
        };
        let known = Value::Scalar(Scalar::constant(7));
        // An answer from the store is the answer.
        assert_eq!(check(&window, &limits).is_equal(), facts.registers[2] == known || *live == "3");
    }
    answers.take_journal().into_iter().map(|asked| asked.settled).collect()
}

#[test]
fn a_question_is_what_it_says() {
    let open = scalars();
    let mut known = scalars();
    known.registers[2] = Value::Scalar(Scalar::constant(7));
    let mut elsewhere = scalars();
    elsewhere.registers[7] = Value::Scalar(Scalar::constant(7));
    // Elsewhere, and with facts of a register that nobody touches, it is the same; with other facts or other readers
    // it is another.
    let asked = [(&open, "1", 0), (&open, "1", 50), (&elsewhere, "1 7", 9), (&known, "1", 0), (&open, "3", 0)];
    let expected = [Settled::Tests, Settled::Before, Settled::Before, Settled::NormalForm, Settled::NormalForm];
    assert_eq!(settled(&asked), expected);
}

/// What is said of a question, with the counterexample, when only normal form and solver are asked.
fn solved((before, after): &(&str, &str)) -> String {
    let (before, after, object, facts) = (nodes(before), nodes(after), Object::default(), scalars());
    let window = Window {
        before: &before,
        after: &after,
        facts: Some(&facts),
        live_after: regs("1"),
        stack_live_after: StackSet::ALL,
        exits: &[],
        object: &object,
    };
    match check(&window, &Limits { tests: 0, solver_steps: 50_000, ..Limits::default() }) {
        Verdict::Equal(proof) => format!("equal by {:?}", proof.method),
        other => format!("{other:?}"),
    }
}

#[test]
fn an_answer_depends_on_its_question_alone() {
    // Differences are on few inputs; the last are too much for the solver.
    const QUESTIONS: [(&str, &str); 10] = [
        ("r1 += 5; r1 *= 7; r1 ^= r2", "r1 *= 7; r1 += 35; r1 ^= r3"),
        ("r1 ^= r2; r1 += r3", "r1 |= r2; r1 += r3"),
        ("r1 += r2; r1 &= r3; r1 -= r4", "r1 |= r2; r1 &= r3; r1 -= r4"),
        ("r1 = *(u64 *)(r2 + 0); r1 ^= r3", "r1 = *(u64 *)(r2 + 0); r1 += r3"),
        (
            "r1 = *(u32 *)(r2 + 4); r4 = *(u64 *)(r3 + 8); r1 &= r4",
            "r1 = *(u32 *)(r2 + 4); r4 = *(u64 *)(r3 + 8); r1 ^= r4",
        ),
        ("r4 = r1; r4 |= r2; r1 &= r2; r1 += r4", "r1 += r2"),
        ("r1 *= r2; r1 += r3", "r1 *= r3; r1 += r2"),
        ("r1 /= r2; r1 *= r3", "r1 *= r3; r1 /= r2"),
        ("r4 = r1; r4 %= r2; r1 /= r2; r1 *= r2; r1 += r4", "r1 = r1"),
        ("r1 /= r2; r1 /= r3; r1 /= r4; r1 /= r5", "r1 /= r5; r1 /= r4; r1 /= r3; r1 /= r2"),
    ];
    let in_order: Vec<String> = QUESTIONS.iter().map(solved).collect();
    let mut backwards: Vec<String> = QUESTIONS.iter().rev().map(solved).collect();
    backwards.reverse();
    assert_eq!(in_order, backwards);
    for (question, before) in QUESTIONS.iter().zip(in_order) {
        let by_itself = std::thread::scope(|scope| scope.spawn(|| solved(question)).join().expect("it ends"));
        assert_eq!(by_itself, before);
    }
}
