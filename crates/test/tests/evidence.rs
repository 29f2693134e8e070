//! Evidence of real objects, gone over by a solver that Kiln does not use; and a canary, which must not come out proved.

use std::io::Write as _;
use std::time::Duration;

use kiln_driver::{evidence, optimize, recheck};
use kiln_equiv::record::{NodeRecord, WindowRecord};
use kiln_program::{Object, text};
use kiln_test::corpus;

/// The solver that is not Kiln's own.
const SOLVER: &str = "cvc5";
/// Objects of the sample: with calls, loops, several programs, sections that are frozen.
const SAMPLE: &[&str] = &["xdpdump_xdp.o", "xdp-dispatcher.o", "xdpfilt_alw_eth.o", "tracex4_kern.o", "xdp_monitor.o"];

/// Says something past the test harness's capture.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn solver_is_missing() -> bool {
    let missing = std::process::Command::new(SOLVER).arg("--version").output().is_err();
    if missing {
        say(&format!("skipped: {SOLVER} is not installed"));
    }
    missing
}

fn options() -> recheck::Options {
    recheck::Options { solver: Some(SOLVER.to_owned()), timeout: Duration::from_secs(600), jobs: 2 }
}

#[test]
fn another_solver_proves_every_rewrite() {
    if solver_is_missing() {
        return;
    }
    let named = |path: &std::path::Path| path.file_name().is_some_and(|name| SAMPLE.iter().any(|own| *own == name));
    let objects: Vec<_> = corpus::objects().into_iter().filter(|object| named(&object.path)).collect();
    if objects.is_empty() {
        say("skipped: no corpora");
        return;
    }
    let (mut rewrites, mut queries) = (0, 0);
    for object in objects {
        let input = object.read().expect("a sound object");
        let budget = optimize::default_budget(&input.object);
        let options_ = optimize::Options { budget, keep_queries: true, ..Default::default() };
        let outcome = optimize::optimize(&input, &options_, &mut ()).expect("it is optimized");
        let folder = tempfile::tempdir().expect("a temporary folder");
        evidence::write(folder.path(), &input.object, &outcome.object, &outcome.evidence).expect("it is written");
        let checked = recheck::verify(folder.path(), &options(), &|_, _| true).expect("it is checked");
        assert!(checked.is_proved(), "{}: {:#?}", object.path.display(), checked.problems);
        assert_eq!(checked.proved, outcome.evidence.len());
        rewrites += checked.rewrites;
        queries += checked.queries;
    }
    say(&format!("{SOLVER} proved {rewrites} rewrites by {queries} queries"));
    assert!(rewrites > 0 && queries > 0);
}

/// A wrong rewrite's query is `sat`: `w0 = w0` does not leave a register as it is.
#[test]
fn a_wrong_rewrite_is_not_proved() {
    if solver_is_missing() {
        return;
    }
    let object: Object = text::parse("; program xdp\n w0 = w0\n r0 += 0\n exit\n").expect("a program");
    let nodes = &object.functions[0].nodes;
    let window = |before: usize, after: usize, live: u8| WindowRecord {
        before: vec![NodeRecord::of(&object, &nodes[before])],
        after: vec![NodeRecord::of(&object, &nodes[after])],
        facts: None,
        live_registers: vec![live],
        live_stack: Vec::new(),
        exits: Vec::new(),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (record, expected) in [(window(0, 1, 0), "sat"), (window(1, 1, 0), "unsat")] {
        let file = folder.path().join("query.smt2");
        std::fs::write(&file, record.query(&object).expect("a query")).expect("it is written");
        let output = std::process::Command::new(SOLVER).arg(&file).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected);
    }
}
