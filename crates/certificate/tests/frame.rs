//! Forged results of calls that may read or write the caller's frame are refused, one for every row of the tables.
//!
//! The forged listings have no branch, so their certificates need no claim: they would pass if the checker took a call
//! for harmless. `crates/test/tests/frame_forgeries.rs` shows in the kernel that those that it can run are forgeries.

#[path = "frame/listings.rs"]
mod listings;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kiln_certificate::check::Chain;
use kiln_certificate::find;
use kiln_certificate::format::{Certificate, Proof, Stage};
use kiln_certificate::solver::{Answer, Process, Program, Solver};
use listings::Forgery;

/// One solver for all certificates.
struct Shared<'s>(&'s mut Process);

impl Solver for Shared<'_> {
    fn ask(&mut self, query: &str) -> Answer {
        self.0.ask(query)
    }
}

/// What the checker says of a listing that needs no claims.
fn says(forgery: &Forgery, after: &str, solver: &mut Process) -> Result<(), String> {
    let proof = Proof { pairs: BTreeMap::new(), left_out: BTreeSet::new() };
    let proofs = BTreeMap::from([(forgery.function, proof)]);
    let stages = vec![Stage { edits: find::difference(&forgery.before, after), proofs }];
    let chain = Chain::read(&forgery.before, Certificate { stages }, after)
        .unwrap_or_else(|why| panic!("{}: {why}\n{}", forgery.what, forgery.before));
    chain.prove(vec![Shared(solver)], &|_, _| true).into_iter().try_for_each(|own| own.outcome.map(|_| ()))
}

fn refuses(forgeries: &[Forgery]) {
    let timeout = Duration::from_secs(60);
    let program = match Program::find(None, timeout) {
        Ok(program) => program,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let mut solver = Process::new(&program, timeout);
    let mut wrong = Vec::new();
    for forgery in forgeries {
        if let Err(why) = says(forgery, &forgery.harmless, &mut solver) {
            wrong.push(format!("{}: an honest change is refused: {why}", forgery.what));
        }
        match says(forgery, &forgery.after, &mut solver) {
            Ok(()) => wrong.push(format!("{}: a forgery is accepted", forgery.what)),
            Err(why) if why.contains("differ") => {}
            Err(why) => wrong.push(format!("{}: refused for another reason: {why}", forgery.what)),
        }
    }
    println!("{} forgeries", forgeries.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), forgeries.len(), wrong.join("\n"));
}

#[test]
fn functions_that_are_handed_the_frame_may_change_it() {
    refuses(&listings::functions());
}

#[test]
fn numbers_may_be_addresses_of_the_frame() {
    refuses(&listings::numbers());
}

#[test]
fn the_context_may_lie_in_a_callers_frame() {
    refuses(&listings::contexts());
}

#[test]
fn every_argument_of_a_helper_that_leads_to_the_frame_counts() {
    let forgeries = listings::helpers();
    assert!(forgeries.len() > 100, "the table of helpers has more arguments in memory: {}", forgeries.len());
    refuses(&forgeries);
}

#[test]
fn every_kernel_function_may_change_the_frame_that_it_is_handed() {
    let forgeries = listings::kernel_functions();
    assert!(forgeries.len() > 300, "the table has more kernel functions: {}", forgeries.len());
    refuses(&forgeries);
}
