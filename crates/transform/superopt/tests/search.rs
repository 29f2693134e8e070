//! The searches: what they find, and what they must not take.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use kiln_equiv::concrete::Random;
use kiln_equiv::{Limits, Tester, Window};
use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::{InsnId, Node, Object, Reference};
use kiln_superopt::flow::demand::Demand;
use kiln_superopt::search::parameters::{Kind, PARAMETERS};
use kiln_superopt::search::pool::Pool;
use kiln_superopt::search::proposals::{Slots, propose, undo};
use kiln_superopt::search::{Bound, EFFORTS, Enumerate, Markov, Outcome, Question, Search, Step};
use kiln_superopt::{Options, Progress, optimize};
use kiln_verifier::{InsnFacts, Pointer, Region, Scalar, StackSet, Value};

fn nodes(text: &str) -> Vec<Node> {
    let lines = text.split(';').map(str::trim).filter(|line| !line.is_empty());
    let insn = |line| kiln_isa::text::parse(line).expect("a listing");
    let node = |(id, line)| Node {
        id: InsnId(id as u32),
        insn: insn(line),
        reference: match insn(line) {
            Insn::Branch { .. } => Reference::Branch(InsnId(99)),
            _ => Reference::None,
        },
        line: None,
        core: None,
    };
    lines.enumerate().map(node).collect()
}

/// Numbers in all registers but R2, which points to the packet, and R10.
fn facts() -> InsnFacts {
    let mut registers = std::array::from_fn(|_| Value::Scalar(Scalar::UNKNOWN));
    let pointer = |region| Value::Pointer(Pointer { region, offset: Scalar::constant(0), nullable: false });
    registers[2] = pointer(Region::Packet);
    registers[10] = pointer(Region::Stack { up: 0 });
    InsnFacts {
        registers,
        stack: BTreeMap::new(),
        packet_bytes: 64,
        live_after: RegSet::ALL,
        stack_live_after: StackSet::ALL,
    }
}

/// Size above all; then what is dear.
fn cost(insn: &Insn) -> u64 {
    u64::from(insn.slots()) * 1000 + u64::from(matches!(insn, Insn::Atomic { .. })) * 2000
}

/// A question about a window of which some registers are read afterwards, by number, and all memory.
fn ask<T>(text: &str, live: &[u8], then: impl FnOnce(&Question<'_>) -> T) -> T {
    let (before, facts, object) = (nodes(text), facts(), Object::default());
    let live: RegSet = live.iter().filter_map(|number| Reg::new(*number)).collect();
    let mut demand = Demand::NONE;
    live.iter().for_each(|reg| demand.read(reg, 64));
    let mut written: RegSet = before.iter().filter_map(|node| node.insn.written()).collect();
    written.insert(Reg::R0);
    let question = Question {
        window: Window {
            before: &before,
            after: &before,
            facts: Some(&facts),
            live_after: live,
            stack_live_after: StackSet::ALL,
            exits: &[],
            object: &object,
        },
        demand,
        writable: written,
        isa: 3,
        cost: &cost,
        bound: Bound::NONE,
        deadline: Instant::now() + Duration::from_secs(3600),
        stopped: &|| false,
    };
    then(&question)
}

/// What a search finds for a window, as text, and what it did; everything it takes was proved.
fn search(search: &mut dyn Search, text: &str, live: &[u8]) -> (String, Outcome) {
    ask(text, live, |question| {
        let mut tester = question.tester(24).expect("a window that can be run");
        let mut best = None;
        let limits = Limits { solver_steps: 1_250_000, ..Limits::default() };
        let mut accept = |tester: &mut Tester, candidate: &[Node]| {
            let proved = question.prove(tester, candidate, &limits).is_some();
            if proved {
                best = Some(candidate.to_vec());
            }
            proved
        };
        let outcome = search.find(question, &mut tester, &mut accept);
        let best = best.unwrap_or_else(|| question.window.before.to_vec());
        let lines: Vec<String> = best.iter().map(|node| node.insn.to_string()).collect();
        (lines.join("; "), outcome)
    })
}

/// Windows, what is live after them, and how many instructions are enough.
const KNOWN: &[(&str, &str, &[u8], usize)] = &[
    ("zeros side by side (K2, example 1)", "r1 = 0; *(u32 *)(r10 - 4) = w1; *(u32 *)(r10 - 8) = w1", &[], 1),
    (
        "a copy of four bytes",
        "r1 = *(u16 *)(r2 + 0); *(u16 *)(r10 - 8) = w1; r1 = *(u16 *)(r2 + 2); *(u16 *)(r10 - 6) = w1",
        &[],
        2,
    ),
    ("times eight", "r3 = r1; r3 <<= 2; r3 += r3; r1 = r3", &[1], 1),
    ("or without carry", "r3 = r1; r3 &= r4; r1 |= r4; r1 += r3", &[1], 1),
    ("a mask by shifts, two results", "r3 = r1; r3 <<= 32; r3 >>= 32; r1 >>= 32; r1 <<= 32", &[1, 3], 4),
    ("a comparison of a masked number", "r1 <<= 32; r1 >>= 32; if r1 == 7 goto +0", &[], 1),
];

#[test]
fn markov_chains_find_known_windows() {
    for (name, window, live, enough) in KNOWN {
        let mut markov = Markov { steps: 200_000, threads: 2, ..Markov::default() };
        let (found, outcome) = search(&mut markov, window, live);
        let insns = found.split(';').count();
        println!("{name}: {found} after {} candidates, {} proofs", outcome.tried, outcome.asked);
        assert!(insns <= *enough, "{name}: {found} after {} candidates", outcome.tried);
    }
}

#[test]
fn short_runs_are_all_tried() {
    let more = [("times six", "r1 <<= 1; r3 = r1; r3 <<= 1; r1 += r3", &[1][..], 1)];
    for (name, window, live, enough) in KNOWN.iter().chain(&more) {
        let (found, outcome) = search(&mut Enumerate { length: 2 }, window, live);
        let insns = found.split(';').count();
        println!("{name}: {found} after {} candidates, {} proofs", outcome.tried, outcome.asked);
        assert!(outcome.complete);
        assert!(insns <= (*enough).max(if *enough > 2 { 5 } else { 0 }), "{name}: {found}");
    }
}

/// The pool of a window with everything in it, and the window.
fn with_pool<T>(then: impl FnOnce(&Pool, Slots) -> T) -> T {
    let text = "r1 = *(u16 *)(r2 + 0); r1 += 4; *(u32 *)(r10 - 8) = w1; r3 = r1; if r3 == 7 goto +0";
    ask(text, &[3], |question| {
        let window = question.window.before.iter().map(|node| Some(Step::from(node))).collect();
        then(&Pool::new(question), window)
    })
}

/// How often each candidate comes out of one proposal.
fn frequencies(kind: Kind, from: &Slots, pool: &Pool, times: usize) -> HashMap<Slots, usize> {
    let mut random = Random::new(7);
    let mut found = HashMap::new();
    for _ in 0..times {
        let mut slots = from.clone();
        let changed = propose(kind, &mut slots, true, pool, &mut random);
        *found.entry(slots.clone()).or_default() += 1;
        undo(&mut slots, changed);
        assert_eq!(&slots, from, "a proposal can be taken back");
    }
    found
}

#[test]
fn each_kind_of_proposal_changes_what_it_says() {
    with_pool(|pool, window| {
        for kind in Kind::ALL {
            let mut changed = false;
            for slots in frequencies(kind, &window, pool, 3000).into_keys() {
                let differs = (0..slots.len()).filter(|at| slots[*at] != window[*at]);
                for at in differs.clone() {
                    changed = true;
                    let (old, new) = (window[at].expect("an instruction"), slots[at]);
                    let last_stays_a_branch = matches!(new, Some(Step { insn: Insn::Branch { .. }, .. }));
                    assert_eq!(at == 4, last_stays_a_branch, "{kind:?}: {slots:?}");
                    match (kind, old.insn, new.map(|step| step.insn)) {
                        (Kind::Nothing, _, new) => assert_eq!(new, None),
                        (Kind::MemoryExchange1, Insn::Load { address, .. }, Some(Insn::Load { address: new, .. })) => {
                            assert_eq!(address, new);
                        }
                        (
                            Kind::MemoryExchange1,
                            Insn::Store { address, .. },
                            Some(Insn::Store { address: new, .. }),
                        ) => {
                            assert_eq!(address, new);
                        }
                        (
                            Kind::MemoryExchange2,
                            Insn::Load { address, dst, .. },
                            Some(Insn::Load { address: new, dst: into, .. }),
                        ) => assert_eq!((address, dst), (new, into)),
                        (
                            Kind::MemoryExchange2,
                            Insn::Store { address, src, .. },
                            Some(Insn::Store { address: new, src: from, .. }),
                        ) => assert_eq!((address, src), (new, from)),
                        (Kind::MemoryExchange1 | Kind::MemoryExchange2, ..) => panic!("{kind:?}: {slots:?}"),
                        (Kind::Operand, old, new) => {
                            let same =
                                new.is_some_and(|new| std::mem::discriminant(&old) == std::mem::discriminant(&new));
                            assert!(same, "{kind:?}: {old} to {new:?}");
                        }
                        (Kind::Instruction | Kind::Contiguous, ..) => {}
                    }
                }
                let most = if kind == Kind::Contiguous { 2 } else { 1 };
                assert!(differs.count() <= most, "{kind:?} changes too much");
            }
            assert!(changed, "{kind:?} never changes anything");
        }
    });
}

/// Going from one candidate to another is as likely as coming back, unless instructions are removed.
#[test]
fn proposals_are_symmetric() {
    with_pool(|pool, window| {
        const TIMES: usize = 400_000;
        for kind in [Kind::Instruction, Kind::Operand, Kind::MemoryExchange1, Kind::MemoryExchange2] {
            let there = frequencies(kind, &window, pool, TIMES);
            let mut others: Vec<_> = there.iter().filter(|(slots, _)| **slots != window).collect();
            others.sort_by_key(|(slots, times)| (std::cmp::Reverse(**times), format!("{slots:?}")));
            // Of each kind, those that come most often and some that are rare.
            for (slots, times) in others.iter().take(3).chain(others.iter().rev().take(2)) {
                let back = frequencies(kind, slots, pool, TIMES).get(&window).copied().unwrap_or(0);
                let (there, back) = (**times as f64, back as f64);
                // Five standard deviations of a difference of counts.
                let apart = 5.0 * (there + back).sqrt() + 5.0;
                assert!((there - back).abs() < apart, "{kind:?}: {there} there and {back} back: {slots:?}");
            }
        }
    });
}

#[test]
fn settings_are_those_of_the_paper() {
    for row in PARAMETERS {
        assert_eq!(row.chances.iter().sum::<u32>(), 100, "row {}", row.id);
        let kinds = (0..100).map(|hundredth| row.kind(hundredth));
        for (kind, chance) in Kind::ALL.into_iter().zip(row.chances) {
            assert_eq!(kinds.clone().filter(|found| *found == kind).count() as u32, chance, "row {}", row.id);
        }
        assert_eq!(row.error_of(0, 24), 0.0);
        assert!(row.error_of(2, 24) > row.error_of(1, 24));
    }
}

#[test]
fn equal_seeds_give_equal_results() {
    let run = |seed, threads| {
        let mut markov = Markov { seed, steps: 60_000, threads, ..Markov::default() };
        search(&mut markov, KNOWN[1].1, KNOWN[1].2)
    };
    assert_eq!(run(3, 1), run(3, 2), "the number of threads must not matter");
    assert_eq!(run(3, 2), run(3, 2));
    assert_ne!(run(3, 2).1.tried, run(4, 2).1.tried, "another seed is another walk");
}

/// What differs somewhere is never taken, also where the difference is rare: a solver that refuses everything but the
/// original shows that a search asks before it takes.
#[test]
fn nothing_is_taken_unproved() {
    for (name, window, live, _) in KNOWN {
        let searches: [&mut dyn Search; 2] =
            [&mut Enumerate { length: 2 }, &mut Markov { steps: 20_000, ..Markov::default() }];
        for search in searches {
            ask(window, live, |question| {
                let mut tester = question.tester(24).expect("a window that can be run");
                let mut asked = 0;
                let outcome = search.find(question, &mut tester, &mut |_, candidate| {
                    asked += 1;
                    let cost: u64 = candidate.iter().map(|node| cost(&node.insn)).sum();
                    assert!(cost < question.window_cost(), "{name}: what is not cheaper is not asked about");
                    false
                });
                assert_eq!(outcome.asked, asked, "{name}");
            });
        }
    }
}

/// With one input nearly everything passes the tests: then counterexamples have to make up for it.
#[test]
fn counterexamples_become_tests() {
    ask("r1 <<= 32; r1 >>= 40; r1 <<= 8", &[1], |question| {
        let mut tester = question.tester(1).expect("a window that can be run");
        let (mut refused, mut found) = (0, None);
        let mut accept = |tester: &mut Tester, candidate: &[Node]| {
            let inputs = tester.len();
            let proved = question
                .prove(tester, candidate, &Limits { solver_steps: 1_250_000, tests: 0, ..Limits::default() })
                .is_some();
            match proved {
                true => found = Some(candidate.to_vec()),
                false => {
                    refused += 1;
                    assert!(tester.len() > inputs, "nothing was learnt from {candidate:?}");
                    assert!(!tester.matches(candidate), "a refused candidate comes again");
                }
            }
            proved
        };
        Enumerate { length: 2 }.find(question, &mut tester, &mut accept);
        assert!(found.is_some_and(|nodes| nodes.len() < 3), "nothing found");
        assert!(refused > 0 && refused < 40, "{refused} counterexamples");
    });
}

/// A program in which no rule knows what to do: the pipeline searches, and the result still verifies.
#[test]
fn a_program_is_searched() {
    let text = "\
; program xdp
  w6 = *(u32 *)(r1 + 0)
  w2 = *(u32 *)(r1 + 4)
  r3 = r6
  r3 += 64
  if r3 > r2 goto L1
  r0 = *(u64 *)(r6 + 0)
  r2 = r0
  r2 += 5
  r0 *= 3
  r0 += r2
  exit
L1:
  r0 = 0
  exit
";
    let object = kiln_program::text::parse(text).expect("a program");
    let options = Options { budget: Duration::from_secs(3600), ..Options::default() };
    let rewrite = optimize(&object, &options, &mut ());
    let listing = kiln_program::text::listing(&rewrite.object);
    assert!(listing.contains("r0 <<= 0x2") && !listing.contains("r0 *= 0x3"), "{listing}");
    assert!(rewrite.evidence.iter().any(|one| one.because.name() == "search"));
}

/// Time is kept to, and asking to stop ends a search at once, with what was found.
#[test]
fn searches_end_in_time() {
    struct Stop(Instant, Duration);
    impl Progress for Stop {
        fn step(&mut self, _: &'static str, _: u32, _: Duration) -> bool {
            self.0.elapsed() < self.1
        }
    }
    /// How late a search may end on the slowest machine.
    const LATE: Duration = Duration::from_secs(600);
    // One block that no effort is through with for minutes.
    let lines: Vec<String> = (0..400)
        .map(|at| match at % 3 {
            0 => format!("r{} = *(u64 *)(r10 - {})", at % 5 + 1, 8 * (at % 8 + 1)),
            1 => format!("r{} ^= r{}", at % 5 + 1, (at / 5) % 5 + 1),
            _ => format!("*(u64 *)(r10 - {}) = r{}", 8 * (at % 7 + 1), at % 5 + 1),
        })
        .collect();
    let begin: String = (1..9).map(|slot| format!("  *(u64 *)(r10 - {}) = 0\n", 8 * slot)).collect();
    let registers: String = (1..6).map(|reg| format!("  r{reg} = {reg}\n")).collect();
    let text = format!("; program xdp\n{begin}{registers}  {}\n  r0 = *(u64 *)(r10 - 8)\n  exit\n", lines.join("\n  "));
    let object = kiln_program::text::parse(&text).expect("a program");
    let budget = Duration::from_secs(3);
    let options = Options { search: EFFORTS.len(), budget, ..Options::default() };
    let begun = Instant::now();
    optimize(&object, &options, &mut ());
    let spent = begun.elapsed();
    // Without looking at the clock it would be hours; a busy machine may add minutes.
    assert!(spent < budget + LATE, "took {spent:?}");
    let begun = Instant::now();
    let options = Options { search: EFFORTS.len(), budget: 2 * LATE, ..Options::default() };
    optimize(&object, &options, &mut Stop(begun, Duration::from_secs(2)));
    assert!(begun.elapsed() < LATE, "took {:?} to stop", begun.elapsed());
}
