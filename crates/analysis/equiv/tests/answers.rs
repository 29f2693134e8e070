//! Answers are taken again for questions that say the same, and for no others.

mod common;

use std::sync::Arc;

use common::{nodes, regs, scalars};
use kiln_equiv::{Answers, Limits, Settled, Window, check};
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
